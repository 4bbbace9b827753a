/* One IDX file of unsigned bytes, read and verified. */
#ifndef HOD_DATA_IDX_H
#define HOD_DATA_IDX_H

#include <stdint.h>

enum { HOD_IDX_DIMS = 3 };

typedef struct hod_idx {
    int64_t size[HOD_IDX_DIMS]; /* 1 beyond the file's dimensions */
    int64_t bytes;              /* product of the sizes, at least 1 */
    uint8_t *data;              /* malloc'd */
} hod_idx;

/* Reads `path`, plain or gzip, which must have `dims` dimensions. 0, or -1 and nothing to free. */
int hod__idx_read(const char *path, int dims, hod_idx *out);

#endif
