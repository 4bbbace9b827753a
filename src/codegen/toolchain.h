/* From C text to a callable kernel: the system compiler, and a cache that can be trusted.
 *
 * The cache is keyed by content: text, preamble, compiler version, flags, CPU, engine version. An
 * entry is one file made aside and published by rename; its digest is checked before dlopen, so
 * a torn, flipped or foreign entry is rebuilt. Directory: $HOD_CACHE_DIR, else
 * $XDG_CACHE_HOME/hod, else ~/.cache/hod, else a private temporary one; mode 0700.
 */
#ifndef HOD_CODEGEN_TOOLCHAIN_H
#define HOD_CODEGEN_TOOLCHAIN_H

#include "device/device.h"

typedef struct hod_kernel_source {
    const char *name; /* symbol, a C identifier; made from the text's hash by the caller */
    const char *text; /* one function: void name(void *const *buf, const int64_t *arg,
                         int64_t begin, int64_t end) {...}, after the preamble */
} hod_kernel_source;

typedef struct hod_toolchain_report {
    double seconds;  /* wall time in the compiler */
    int compiled;    /* kernels compiled now */
    int from_disk;   /* kernels found in the disk cache */
    int from_memory; /* kernels this process already had */
} hod_toolchain_report;

/* Makes kernels callable: out[i] is sources[i]'s address, valid for the rest of the process.
 * Equal texts are compiled once. Missing ones are compiled in as many processes at a time as the
 * machine has cores, each file holding several kernels. 0 or -1 (HOD_ERROR_COMPILE, with the
 * compiler's first error line). `report` is added to; may be NULL. */
int hod__toolchain_build(const hod_kernel_source *sources, int n, hod_kernel **out,
                         hod_toolchain_report *report);

/* The full text of a kernel file as it is compiled (preamble, kernel), for reading. malloc'd. */
char *hod__toolchain_text(const hod_kernel_source *source);

#endif
