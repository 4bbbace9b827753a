/* Elementwise operators and random numbers over squares of f32, i64 for bits. */
#include "bench/ops/family.h"

/* x, y, z in (0.1, 0.9), s centred, c bool, i, j, k i64 (k not 0), row (side). */
typedef struct operands {
    hod_tensor *x, *y, *z, *s, *c, *i, *j, *k, *row;
} operands;

static int make(int size, operands *o)
{
    int64_t side = (int64_t[]){32, 256, 2048}[size];
    hod_shape shape = HOD_SHAPE(side, side);
    *o = (operands){.x = op_uniform(shape, 0.1, 0.9),
                    .y = op_uniform(shape, 0.1, 0.9),
                    .z = op_uniform(shape, 0.1, 0.9),
                    .s = op_uniform(shape, -3, 3),
                    .row = op_uniform(HOD_SHAPE(side), 0.1, 0.9)};
    o->c = hod_lt(o->x, o->y);
    o->i = hod_cast(hod_mul_scalar(o->x, 1000), HOD_I64);
    o->j = hod_cast(hod_mul_scalar(o->y, 20), HOD_I64);
    o->k = hod_add_scalar(o->j, 1);
    return o->s && o->c && o->row && o->i && o->k ? 0 : -1;
}

#define OPS(ROW)                                                                                   \
    ROW(neg, hod_neg(o->s))                                                                        \
    ROW(abs, hod_abs(o->s))                                                                        \
    ROW(sign, hod_sign(o->s))                                                                      \
    ROW(reciprocal, hod_reciprocal(o->x))                                                          \
    ROW(square, hod_square(o->s))                                                                  \
    ROW(exp, hod_exp(o->s))                                                                        \
    ROW(expm1, hod_expm1(o->s))                                                                    \
    ROW(log, hod_log(o->x))                                                                        \
    ROW(log1p, hod_log1p(o->x))                                                                    \
    ROW(sqrt, hod_sqrt(o->x))                                                                      \
    ROW(rsqrt, hod_rsqrt(o->x))                                                                    \
    ROW(sin, hod_sin(o->s))                                                                        \
    ROW(cos, hod_cos(o->s))                                                                        \
    ROW(atan, hod_atan(o->s))                                                                      \
    ROW(tanh, hod_tanh(o->s))                                                                      \
    ROW(sigmoid, hod_sigmoid(o->s))                                                                \
    ROW(erf, hod_erf(o->s))                                                                        \
    ROW(floor, hod_floor(o->s))                                                                    \
    ROW(ceil, hod_ceil(o->s))                                                                      \
    ROW(trunc, hod_trunc(o->s))                                                                    \
    ROW(round, hod_round(o->s))                                                                    \
    ROW(relu, hod_relu(o->s))                                                                      \
    ROW(relu6, hod_relu6(o->s))                                                                    \
    ROW(prelu, hod_prelu(o->s, o->row))                                                            \
    ROW(leaky_relu, hod_leaky_relu(o->s, 0.01))                                                    \
    ROW(elu, hod_elu(o->s, 1))                                                                     \
    ROW(gelu, hod_gelu(o->s))                                                                      \
    ROW(gelu_tanh, hod_gelu_tanh(o->s))                                                            \
    ROW(silu, hod_silu(o->s))                                                                      \
    ROW(mish, hod_mish(o->s))                                                                      \
    ROW(hardswish, hod_hardswish(o->s))                                                            \
    ROW(hardsigmoid, hod_hardsigmoid(o->s))                                                        \
    ROW(softplus, hod_softplus(o->s))                                                              \
    ROW(softplus_with, hod_softplus_with(o->s, 2, 3))                                              \
    ROW(log_sigmoid, hod_log_sigmoid(o->s))                                                        \
    ROW(clamp, hod_clamp(o->s, -0.5, 0.5))                                                         \
    ROW(clip, hod_clip(o->s, o->x, o->y))                                                          \
    ROW(isnan, hod_isnan(o->s))                                                                    \
    ROW(isfinite, hod_isfinite(o->s))                                                              \
    ROW(isinf, hod_isinf(o->s))                                                                    \
    ROW(add, hod_add(o->x, o->y))                                                                  \
    ROW(add_row, hod_add(o->x, o->row))                                                            \
    ROW(add_scalar, hod_add_scalar(o->x, 2))                                                       \
    ROW(add_i64, hod_add(o->i, o->j))                                                              \
    ROW(sub_scalar, hod_sub_scalar(o->x, 2))                                                       \
    ROW(mul_scalar, hod_mul_scalar(o->x, 2))                                                       \
    ROW(div_scalar, hod_div_scalar(o->x, 3))                                                       \
    ROW(pow_scalar, hod_pow_scalar(o->x, 2.5))                                                     \
    ROW(sub, hod_sub(o->x, o->y))                                                                  \
    ROW(mul, hod_mul(o->x, o->y))                                                                  \
    ROW(div, hod_div(o->x, o->y))                                                                  \
    ROW(pow, hod_pow(o->x, o->y))                                                                  \
    ROW(remainder, hod_remainder(o->s, o->y))                                                      \
    ROW(fmod, hod_fmod(o->s, o->y))                                                                \
    ROW(floor_divide, hod_floor_divide(o->s, o->y))                                                \
    ROW(trunc_divide, hod_trunc_divide(o->s, o->y))                                                \
    ROW(remainder_i64, hod_remainder(o->i, o->k))                                                  \
    ROW(fmod_i64, hod_fmod(o->i, o->k))                                                            \
    ROW(floor_divide_i64, hod_floor_divide(o->i, o->k))                                            \
    ROW(maximum, hod_maximum(o->x, o->y))                                                          \
    ROW(minimum, hod_minimum(o->x, o->y))                                                          \
    ROW(maximum_scalar, hod_maximum_scalar(o->s, 0.5))                                             \
    ROW(minimum_scalar, hod_minimum_scalar(o->s, 0.5))                                             \
    ROW(lt, hod_lt(o->x, o->y))                                                                    \
    ROW(eq, hod_eq(o->x, o->y))                                                                    \
    ROW(ne, hod_ne(o->x, o->y))                                                                    \
    ROW(le, hod_le(o->x, o->y))                                                                    \
    ROW(gt, hod_gt(o->x, o->y))                                                                    \
    ROW(ge, hod_ge(o->x, o->y))                                                                    \
    ROW(gt_scalar, hod_gt_scalar(o->s, 0.5))                                                       \
    ROW(eq_i64, hod_eq(o->i, o->j))                                                                \
    ROW(logical_not, hod_logical_not(o->c))                                                        \
    ROW(logical_and, hod_logical_and(o->c, o->c))                                                  \
    ROW(logical_or, hod_logical_or(o->c, o->c))                                                    \
    ROW(logical_xor, hod_logical_xor(o->c, o->c))                                                  \
    ROW(logical_and_f32, hod_logical_and(o->x, o->y))                                              \
    ROW(where, hod_where(o->c, o->x, o->y))                                                        \
    ROW(masked_fill, hod_masked_fill(o->x, o->c, 2))                                               \
    ROW(lerp, hod_lerp(o->x, o->y, o->z))                                                          \
    ROW(bit_and, hod_bit_and(o->i, o->j))                                                          \
    ROW(bit_or, hod_bit_or(o->i, o->j))                                                            \
    ROW(bit_xor, hod_bit_xor(o->i, o->j))                                                          \
    ROW(bit_not, hod_bit_not(o->i))                                                                \
    ROW(bit_and_bool, hod_bit_and(o->c, o->c))                                                     \
    ROW(shift_left, hod_shift_left(o->i, o->j))                                                    \
    ROW(shift_right, hod_shift_right(o->i, o->j))                                                  \
    ROW(cast_i64, hod_cast(o->x, HOD_I64))                                                         \
    ROW(cast_f64, hod_cast(o->x, HOD_F64))                                                         \
    ROW(cast_bf16, hod_cast(o->x, HOD_BF16))                                                       \
    ROW(cast_f16, hod_cast(o->x, HOD_F16))                                                         \
    ROW(cast_bool, hod_cast(o->s, HOD_BOOL))                                                       \
    ROW(cast_i32, hod_cast(o->s, HOD_I32))                                                         \
    ROW(cast_from_i64, hod_cast(o->i, HOD_F32))                                                    \
    ROW(cast_from_bool, hod_cast(o->c, HOD_F32))                                                   \
    ROW(full, hod_full(HOD_F32, hod_tensor_shape(o->x), 2))                                        \
    ROW(arange, hod_arange(HOD_I64, hod_tensor_numel(o->x)))                                       \
    ROW(copy, hod_copy(o->x))                                                                      \
    ROW(uniform, hod_uniform(hod_tensor_shape(o->x)))                                              \
    ROW(normal, hod_normal(hod_tensor_shape(o->x)))                                                \
    ROW(bernoulli, hod_bernoulli(o->x))                                                            \
    ROW(dropout, hod_dropout(o->x, 0.1))

OP_FAMILY(elementwise, OPS, "32 x 32", "256 x 256", "2048 x 2048")
