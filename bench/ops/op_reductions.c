/* Reductions and running sums over squares of f32. */
#include "bench/ops/family.h"

/* x in (0.1, 0.9), s centred, c bool. */
typedef struct operands {
    hod_tensor *x, *s, *c;
} operands;

static int make(int size, operands *o)
{
    int64_t side = (int64_t[]){32, 256, 2048}[size];
    hod_shape shape = HOD_SHAPE(side, side);
    *o = (operands){.x = op_uniform(shape, 0.1, 0.9), .s = op_uniform(shape, -3, 3)};
    o->c = hod_lt(o->x, o->s);
    return o->c ? 0 : -1;
}

#define OPS(ROW)                                                                                   \
    ROW(sum, hod_sum(o->x))                                                                        \
    ROW(sum_rows, hod_sum_dims(o->x, 1))                                                           \
    ROW(sum_columns, hod_sum_dims(o->x, 0))                                                        \
    ROW(mean, hod_mean(o->x))                                                                      \
    ROW(var_rows, hod_var_dims(o->x, 1, 1))                                                        \
    ROW(std, hod_std_dims(o->x, 1, 0, 1))                                                          \
    ROW(prod, hod_prod(o->x))                                                                      \
    ROW(amax, hod_amax(o->x))                                                                      \
    ROW(amax_rows, hod_amax_dims(o->x, 1))                                                         \
    ROW(amin_columns, hod_amin_dims(o->x, 0))                                                      \
    ROW(argmax_rows, hod_argmax(o->x, 1))                                                          \
    ROW(argmin_columns, hod_argmin(o->x, 0))                                                       \
    ROW(any_rows, hod_any_dims(o->c, 1))                                                           \
    ROW(all, hod_all(o->c))                                                                        \
    ROW(norm1, hod_norm(o->s, 1))                                                                  \
    ROW(norm2, hod_norm(o->s, 2))                                                                  \
    ROW(norm2_rows, hod_norm_over(o->s, 2, HOD_SHAPE(1), false))                                   \
    ROW(norm_inf, hod_norm(o->s, __builtin_inf()))                                                 \
    ROW(logsumexp_rows, hod_logsumexp(o->s, 1, false))                                             \
    ROW(cumsum_rows, hod_cumsum(o->x, 1))                                                          \
    ROW(cumsum_columns, hod_cumsum(o->x, 0))                                                       \
    ROW(cumprod_rows, hod_cumprod(o->x, 1))                                                        \
    ROW(max_rows, hod_max_along(o->x, 1, false, &(hod_tensor *){NULL}))

OP_FAMILY(reductions, OPS, "32 x 32", "256 x 256", "2048 x 2048")
