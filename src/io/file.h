/* Files that appear complete or not at all. */
#ifndef HOD_IO_FILE_H
#define HOD_IO_FILE_H

#include "base/base.h"
#include <hod/io.h>
#include <stdio.h>

/* A file being written beside its place; exists under its name after hod__file_commit only. */
typedef struct hod_new_file {
    FILE *out;
    char *path, *aside;  /* aside: path.tmp-<process>-<number> */
    struct hod_sum *sum; /* NULL, or what sums up everything that is written */
} hod_new_file;

/* A checksum over bytes that come in pieces: XXH3, 64 bits. */
typedef struct hod_sum hod_sum;
hod_sum *hod__sum_new(void);
void hod__sum_add(hod_sum *s, const void *data, int64_t n);
uint64_t hod__sum_end(hod_sum *s); /* frees it; NULL is allowed */

int hod__file_begin(hod_new_file *f, const char *path);
int hod__file_write(hod_new_file *f, const void *data, int64_t n);
/* Flushes to the disk and renames; on failure removes what was written. Ends f in any case. */
int hod__file_commit(hod_new_file *f);
void hod__file_abandon(hod_new_file *f); /* keeps an error that is pending */
/* Removes files set aside for names in `dir` by processes that no longer run. */
void hod__file_sweep(const char *dir);

#endif
