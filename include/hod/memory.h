/* Memory: what the caching allocator holds, and the limit it keeps.
 *
 *     hod_memory_limit(HOD_MIB(96));                 // from now on, more than this is an error
 *     ...train...
 *     hod_memory_stats m = hod_memory();
 *     printf("peak %.1f MiB\n", m.allocated_peak / 1048576.0);
 *
 * The words are PyTorch's: `allocated` is held by live tensors and arenas, `reserved` was taken
 * from the system and is kept for reuse, so allocated <= reserved <= limit always holds.
 */
#ifndef HOD_MEMORY_H
#define HOD_MEMORY_H

#include <hod/error.h>
#include <stdint.h>
#include <stdio.h>

#define HOD_KIB(n) ((int64_t)((n) * 0x1p10))
#define HOD_MIB(n) ((int64_t)((n) * 0x1p20))
#define HOD_GIB(n) ((int64_t)((n) * 0x1p30))

typedef struct hod_memory_stats {
    int64_t allocated, allocated_peak; /* bytes, each block rounded up to 64 */
    int64_t reserved, reserved_peak;   /* bytes taken from the system */
    int64_t limit;                     /* bytes; 0: none */
    int64_t blocks;                    /* live blocks */
    int64_t allocations;               /* blocks handed out since start; a compiled step adds 0 */
    int64_t largest_free;              /* largest cached block, bytes */
} hod_memory_stats;

HOD_API hod_memory_stats hod_memory(void);
HOD_API void hod_memory_reset_peak(void);  /* peaks restart from what is live now */
HOD_API void hod_memory_empty_cache(void); /* gives cached blocks back to the system */
/* A hard limit on `reserved`, bytes; 0 lifts it. -1 if more is already allocated. */
HOD_API int hod_memory_limit(int64_t bytes);
HOD_API void hod_memory_print(FILE *out); /* the summary table */
/* A size for people: "96 B", "21.1 KiB", "64.0 MiB". Returns buf. */
HOD_API char *hod_bytes_text(int64_t bytes, char buf[32]);

#ifndef HOD_NO_PLACES
#define hod_memory_limit(...) HOD_PLACED(int, hod_memory_limit(__VA_ARGS__))
#endif

#endif
