/* The inner loops of eager kernels, and for which machine they are compiled.
 *
 *     rows_tmpl.c   every loop, for every type
 *       rows_plain.c   for any machine: the twin that the others are tested against
 *       rows_v3.c      x86-64-v3: AVX2 and fused multiply-add
 *       rows_v4.c      x86-64-v4: AVX-512
 *
 * The best that the machine has is chosen once. Elementwise results of v3 and v4 agree to the bit
 * with printed kernels on the same machine; plain has no fused multiply-add and differs in the last
 * digits. Reductions add in the same order everywhere.
 */
#ifndef HOD_OPS_ROWS_H
#define HOD_OPS_ROWS_H

#include "ops/op.h"

/* n results `so` apart, operand k from in[k] on, s[k] apart. */
typedef void hod_row(int64_t n, void *out, int64_t so, const void *const *in, const int64_t *s);
typedef void hod_cast_row(int64_t n, void *out, int64_t so, const void *in, int64_t s);

enum { INDEX_COLUMNS = 256 };

/* A reduction of one type: how to begin an accumulator, fold n elements s apart into it, fold rows
 * of n neighbouring elements, step apart, into each of n, merge two, and store n. An index
 * reduction has only the last three: the index among n elements s apart, among the rows for each of
 * n <= INDEX_COLUMNS columns, and whether x[by] takes over from x[from]. */
typedef struct hod_folder {
    void (*begin)(void *accs, int64_t n);
    void (*fold)(void *acc, int64_t n, const void *x, int64_t s);
    void (*columns)(void *accs, int64_t n, const void *x, int64_t rows, int64_t step);
    void (*merge)(void *acc, const void *other);
    void (*put)(void *out, int64_t apart, const void *accs, int64_t n);
    size_t acc_bytes;
    int64_t (*index)(int64_t n, const void *x, int64_t s);
    void (*index_columns)(int64_t n, int64_t *at, const void *x, int64_t rows, int64_t step);
    bool (*takes)(const void *x, int64_t from, int64_t by);
} hod_folder;

typedef struct hod_rows {
    const char *name;
    hod_row *const
        *pointwise[HOD_DTYPES]; /* [type of the last input][operator]; no 16-bit floats */
    hod_row *const *near; /* [operator]: quick twins of some rows of f32, else NULL; near_tmpl.c */
    hod_cast_row *const *cast[HOD_DTYPES]; /* [from][to] */
    const hod_folder *fold[HOD_DTYPES];    /* [type of the input][operator] */
    void (*uniform)(int64_t n, float *out, uint64_t key, uint64_t stream, uint64_t index);
} hod_rows;

extern const hod_rows hod__rows_plain, hod__rows_v3, hod__rows_v4;

/* The loops for this machine. */
const hod_rows *hod__rows(void);
/* Compiled for instruction set k (0: any machine); NULL when there is none such or the machine lacks
 * it. For tests: hod__rows_use makes it the one chosen, NULL the best again. */
const hod_rows *hod__rows_of(int k);
void hod__rows_use(const hod_rows *rows);

#endif
