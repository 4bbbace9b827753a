/* Reductions and running sums over squares of f32. */
#include "bench/ops/family.h"

/* x in (0.1, 0.9), cube its elements in three dimensions, s centred, c bool, none false everywhere,
 * i i64, h bf16. */
typedef struct operands {
    hod_tensor *x, *cube, *s, *c, *none, *i, *h;
} operands;

static int make(int size, operands *o)
{
    int64_t side = (int64_t[]){32, 256, 2048}[size];
    hod_shape shape = HOD_SHAPE(side, side);
    *o = (operands){.x = op_uniform(shape, 0.1, 0.9), .s = op_uniform(shape, -3, 3)};
    o->cube = hod_reshape(o->x, HOD_SHAPE(side / 16, 16, side));
    o->c = hod_lt(o->x, o->s);
    o->none = hod_lt_scalar(o->x, 0);
    o->i = hod_cast(hod_mul_scalar(o->x, 1000), HOD_I64);
    o->h = hod_cast(o->x, HOD_BF16);
    return o->cube && o->c && o->none && o->i && o->h ? 0 : -1;
}

#define OPS(ROW)                                                                                   \
    ROW(sum, hod_sum(o->x))                                                                        \
    ROW(sum_rows, hod_sum_dims(o->x, 1))                                                           \
    ROW(sum_columns, hod_sum_dims(o->x, 0))                                                        \
    ROW(sum_middle, hod_sum_dims(o->cube, 1))                                                      \
    ROW(sum_outer, hod_sum_dims(o->cube, 0, 2))                                                    \
    ROW(sum_i64, hod_sum(o->i))                                                                    \
    ROW(sum_bool, hod_sum(o->c))                                                                   \
    ROW(sum_bf16_rows, hod_sum_dims(o->h, 1))                                                      \
    ROW(mean, hod_mean(o->x))                                                                      \
    ROW(mean_rows, hod_mean_dims(o->x, 1))                                                         \
    ROW(mean_columns, hod_mean_dims(o->x, 0))                                                      \
    ROW(var_rows, hod_var_dims(o->x, 1, 1))                                                        \
    ROW(var_columns, hod_var_dims(o->x, 1, 0))                                                     \
    ROW(var, hod_var_dims(o->x, 1, 0, 1))                                                          \
    ROW(std, hod_std_dims(o->x, 1, 0, 1))                                                          \
    ROW(std_rows, hod_std_dims(o->x, 1, 1))                                                        \
    ROW(prod, hod_prod(o->x))                                                                      \
    ROW(prod_rows, hod_prod_dims(o->x, 1))                                                         \
    ROW(amax, hod_amax(o->x))                                                                      \
    ROW(amax_rows, hod_amax_dims(o->x, 1))                                                         \
    ROW(amax_columns, hod_amax_dims(o->x, 0))                                                      \
    ROW(amax_middle, hod_amax_dims(o->cube, 1))                                                    \
    ROW(amin, hod_amin(o->x))                                                                      \
    ROW(amin_rows, hod_amin_dims(o->x, 1))                                                         \
    ROW(amin_columns, hod_amin_dims(o->x, 0))                                                      \
    ROW(argmax_rows, hod_argmax(o->x, 1))                                                          \
    ROW(argmax, hod_argmax(hod_flatten(o->x, 0), 0))                                               \
    ROW(argmax_columns, hod_argmax(o->x, 0))                                                       \
    ROW(argmin_rows, hod_argmin(o->x, 1))                                                          \
    ROW(argmax_middle, hod_argmax(o->cube, 1))                                                     \
    ROW(argmin_columns, hod_argmin(o->x, 0))                                                       \
    ROW(any_rows, hod_any_dims(o->c, 1))                                                           \
    ROW(any, hod_any(o->none))                                                                     \
    ROW(any_columns, hod_any_dims(o->none, 0))                                                     \
    ROW(any_f32_rows, hod_any_dims(o->x, 1))                                                       \
    ROW(all, hod_all(o->c))                                                                        \
    ROW(all_rows, hod_all_dims(o->c, 1))                                                           \
    ROW(all_columns, hod_all_dims(o->c, 0))                                                        \
    ROW(norm1, hod_norm(o->s, 1))                                                                  \
    ROW(norm0, hod_norm(o->s, 0))                                                                  \
    ROW(norm3, hod_norm(o->s, 3))                                                                  \
    ROW(norm1_rows, hod_norm_over(o->s, 1, HOD_SHAPE(1), false))                                   \
    ROW(norm2, hod_norm(o->s, 2))                                                                  \
    ROW(norm2_rows, hod_norm_over(o->s, 2, HOD_SHAPE(1), false))                                   \
    ROW(norm_inf, hod_norm(o->s, __builtin_inf()))                                                 \
    ROW(logsumexp_rows, hod_logsumexp(o->s, 1, false))                                             \
    ROW(logsumexp_columns, hod_logsumexp(o->s, 0, false))                                          \
    ROW(cumsum_rows, hod_cumsum(o->x, 1))                                                          \
    ROW(cumsum_columns, hod_cumsum(o->x, 0))                                                       \
    ROW(cumprod_rows, hod_cumprod(o->x, 1))                                                        \
    ROW(cumprod_columns, hod_cumprod(o->x, 0))                                                     \
    ROW(cumsum_i64_rows, hod_cumsum(o->i, 1))                                                      \
    ROW(max_rows, hod_max_along(o->x, 1, false, &(hod_tensor *){NULL}))                            \
    ROW(max_columns, hod_max_along(o->x, 0, false, &(hod_tensor *){NULL}))                         \
    ROW(min_rows, hod_min_along(o->x, 1, false, &(hod_tensor *){NULL}))

OP_FAMILY(reductions, OPS, "32 x 32", "256 x 256", "2048 x 2048")
