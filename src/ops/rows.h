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

#include "ops/fused.h"

/* n results `so` apart, operand k from in[k] on, s[k] apart. */
typedef void hod_row(int64_t n, void *out, int64_t so, const void *const *in, const int64_t *s);
typedef void hod_cast_row(int64_t n, void *out, int64_t so, const void *in, int64_t s);

enum { INDEX_COLUMNS = 256 };

/* A reduction of one type: how to begin an accumulator, fold n elements s apart into it, fold rows
 * of n neighbouring elements, step apart, into each of n, merge two, and store n; and all of that
 * for rows that are a result each, stored `apart`. An index reduction has only the last three: the
 * index among n elements s apart, among the rows for each of n <= INDEX_COLUMNS columns, and
 * whether x[by] takes over from x[from]. */
typedef struct hod_folder {
    void (*begin)(void *accs, int64_t n);
    void (*fold)(void *acc, int64_t n, const void *x, int64_t s);
    void (*columns)(void *accs, int64_t n, const void *x, int64_t rows, int64_t step);
    void (*merge)(void *acc, const void *other);
    void (*put)(void *out, int64_t apart, const void *accs, int64_t n);
    void (*rows)(void *out, int64_t apart, int64_t rows, int64_t n, const void *x, int64_t step);
    int64_t (*index)(int64_t n, const void *x, int64_t s);
    void (*index_columns)(int64_t n, int64_t *at, const void *x, int64_t rows, int64_t step);
    bool (*takes)(const void *x, int64_t from, int64_t by);
} hod_folder;

/* A FUSED row over w neighbouring lines from (o, j0) on; see fused.h. */
typedef void hod_fused_run(const struct hod_fused_call *c, int64_t o, int64_t j0, int64_t w);

/* Normalisation of set s, or of m neighbouring sets that lie across memory. Gradients of weights
 * are added to dw and db. */
typedef struct hod_norm_rows {
    void (*forward)(const hod_norm_call *c, int64_t s);
    void (*back)(const hod_norm_call *c, int64_t s, double *dw, double *db);
    void (*back_rows)(const hod_norm_call *c, int64_t s, int64_t m, double *dw, double *db);
    void (*across)(const hod_norm_call *c, int64_t s, int64_t m);
    void (*across_back)(const hod_norm_call *c, int64_t s, int64_t m, double *dw, double *db);
} hod_norm_rows;

/* A loss of n elements: each, their sum, and gradients for the predictions (input 0) or targets; g
 * has one element for all, or one for each. */
typedef struct hod_loss_row {
    void (*each)(int64_t n, const void *x, const void *t, double number, void *out);
    double (*sum)(int64_t n, const void *x, const void *t, double number);
    void (*back)(int64_t n, const void *x, const void *t, double number, const void *g, bool one,
                 int input, void *out);
} hod_loss_row;

typedef struct hod_rows {
    const char *name;
    hod_row *const
        *pointwise[HOD_DTYPES]; /* [type of the last input][operator]; no 16-bit floats */
    hod_row *const *near; /* [operator]: quick twins of some rows of f32, else NULL; near_tmpl.c */
    hod_cast_row *const *cast[HOD_DTYPES];   /* [from][to] */
    const hod_folder *fold[HOD_DTYPES];      /* [type of the input][operator] */
    hod_fused_run *const *fused[HOD_DTYPES]; /* [type of the inputs][operator]: f32, f64 */
    hod_norm_rows norm[2];                   /* f32, f64 */
    const hod_loss_row *loss[2];             /* f32, f64: [loss] */
    void (*uniform)(int64_t n, float *out, uint64_t key, uint64_t stream, uint64_t index);
    /* The 8 bytes of `word`, over and over. */
    void (*fill)(int64_t bytes, void *out, uint64_t word);
} hod_rows;

extern const hod_rows hod__rows_plain, hod__rows_v3, hod__rows_v4;

/* The loops for this machine. */
const hod_rows *hod__rows(void);
/* Compiled for instruction set k (0: any machine); NULL when there is none such or the machine
 * lacks it. For tests: hod__rows_use makes it the one chosen, NULL the best again. */
const hod_rows *hod__rows_of(int k);
void hod__rows_use(const hod_rows *rows);

/* What has files of its own for the same instruction sets goes by the same choice: the k of
 * hod__rows(), for a table {HOD_ROW_SETS(hod__pairs)} of hod__pairs_plain and its faster forms. */
int hod__rows_set(void);
#ifdef __x86_64__
#define HOD_ROW_SETS(name) &name##_plain, &name##_v3, &name##_v4
#else
#define HOD_ROW_SETS(name) &name##_plain
#endif

#endif
