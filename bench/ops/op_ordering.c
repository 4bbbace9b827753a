/* Ordering, searching and counting: rows of scores (R,N), f32, and long lines of them, of labels
 * and of flags. */
#include "bench/ops/family.h"

/* x (rows,n), line (rows n), sorted (n) and values (n) looked up in it, labels i64 (rows n), flags
 * bool (rows,n), counts i64 (rows). */
typedef struct operands {
    hod_tensor *x, *line, *sorted, *values, *labels, *flags, *counts, *weights;
} operands;

static int make(int size, operands *o)
{
    int64_t rows = (int64_t[]){8, 64, 256}[size], n = (int64_t[]){100, 1000, 4096}[size];
    *o = (operands){.x = op_uniform(HOD_SHAPE(rows, n), -1, 1)};
    o->line = hod_flatten(o->x, 0);
    o->sorted = hod_sort(op_uniform(HOD_SHAPE(n), -1, 1), 0, false).values;
    o->values = op_uniform(HOD_SHAPE(n), -1, 1);
    o->labels = hod_cast(op_uniform(HOD_SHAPE(rows * n), 0, 80), HOD_I64);
    o->flags = hod_gt_scalar(o->x, 0.5);
    o->counts = hod_cast(op_uniform(HOD_SHAPE(rows), 0, 4), HOD_I64);
    o->weights = op_uniform(HOD_SHAPE(rows * n), 0, 1);
    return o->line && o->sorted && o->values && o->labels && o->flags && o->counts && o->weights
               ? 0
               : -1;
}

#define OPS(ROW)                                                                                   \
    ROW(sort_rows, hod_sort(o->x, 1, false).values)                                                \
    ROW(sort_columns, hod_sort(o->x, 0, true).values)                                              \
    ROW(sort_line, hod_sort(o->line, 0, false).values)                                             \
    ROW(argsort_rows, hod_argsort(o->x, 1, true))                                                  \
    ROW(topk_5, hod_topk(o->x, 5, 1, true).values)                                                 \
    ROW(topk_half, hod_topk(o->x, hod_tensor_shape(o->x).d[1] / 2, 1, true).values)                \
    ROW(unique, hod_unique(o->labels).counts)                                                      \
    ROW(unique_floats, hod_unique(o->line).counts)                                                 \
    ROW(nonzero, hod_nonzero(o->flags))                                                            \
    ROW(masked_select, hod_masked_select(o->x, o->flags))                                          \
    ROW(repeat_by, hod_repeat_by(o->x, o->counts, 0))                                              \
    ROW(bincount, hod_bincount(o->labels, 80))                                                     \
    ROW(bincount_weighted, hod_bincount_weighted(o->labels, o->weights, 80))                       \
    ROW(searchsorted, hod_searchsorted(o->sorted, o->values, true))                                \
    ROW(searchsorted_many, hod_searchsorted(o->sorted, o->x, true))

OP_FAMILY(ordering, OPS, "8 x 100", "64 x 1000", "256 x 4096")
