/* The regular operators: elementwise functions and reductions.
 *
 *     hod_tensor *y = hod_relu(hod_add(x, b));         // shapes broadcast, types promote
 *     hod_tensor *m = hod_amax_keep(y, 1);             // (N,C) -> (N,1)
 *     hod_tensor *p = hod_sum_dims(y, 0, 2, 3);        // (N,C,H,W) -> (C)
 *
 * Printed from src/ops/ops.def by tools/print_ops.c; change that, not this. Everything that
 * is not one row of a table is in functional.h.
 *
 * Shapes broadcast as in NumPy. Types promote: bool < u8 < i32 < i64 < f16, bf16 < f32 <
 * f64; f16 with bf16 gives f32; a 0-d tensor only decides among kinds (bool, integer,
 * float). Arithmetic on bools gives i64. Functions with real results take integers as f32.
 * The macros note the caller's place, for error messages.
 */
#ifndef HOD_OPS_H
#define HOD_OPS_H

#include <hod/tensor.h>

/* ---- elementwise ---- */

HOD_API hod_tensor *hod_neg(hod_tensor *a); /* the negative */
HOD_API hod_tensor *hod_abs(hod_tensor *a); /* the absolute value */
HOD_API hod_tensor *hod_sign(hod_tensor *a); /* -1, 0 or 1; NaN stays */
HOD_API hod_tensor *hod_exp(hod_tensor *a); /* e to the power */
HOD_API hod_tensor *hod_expm1(hod_tensor *a); /* e to the power, less 1; exact near 0 */
HOD_API hod_tensor *hod_log(hod_tensor *a); /* the natural logarithm */
HOD_API hod_tensor *hod_log1p(hod_tensor *a); /* the natural logarithm of 1 + a; exact near 0 */
HOD_API hod_tensor *hod_sqrt(hod_tensor *a); /* the square root */
HOD_API hod_tensor *hod_rsqrt(hod_tensor *a); /* 1 over the square root */
HOD_API hod_tensor *hod_reciprocal(hod_tensor *a); /* 1 over it */
HOD_API hod_tensor *hod_relu(hod_tensor *a); /* itself where positive, else 0; NaN stays */
HOD_API hod_tensor *hod_sigmoid(hod_tensor *a); /* 1 / (1 + exp(-a)) */
HOD_API hod_tensor *hod_tanh(hod_tensor *a); /* the hyperbolic tangent */
HOD_API hod_tensor *hod_erf(hod_tensor *a); /* the error function */
HOD_API hod_tensor *hod_gelu(hod_tensor *a); /* a times the normal distribution's share below a */
/* gelu through tanh(sqrt(2/pi) (a + 0.044715 a^3)) */
HOD_API hod_tensor *hod_gelu_tanh(hod_tensor *a);
HOD_API hod_tensor *hod_silu(hod_tensor *a); /* a * sigmoid(a) */
HOD_API hod_tensor *hod_mish(hod_tensor *a); /* a * tanh(softplus(a)) */
HOD_API hod_tensor *hod_softplus(hod_tensor *a); /* log(1 + e^a) */
HOD_API hod_tensor *hod_log_sigmoid(hod_tensor *a); /* log(1 / (1 + e^-a)) without overflow */
HOD_API hod_tensor *hod_hardsigmoid(hod_tensor *a); /* a/6 + 1/2 between 0 and 1 */
HOD_API hod_tensor *hod_hardswish(hod_tensor *a); /* a * hardsigmoid(a) */
HOD_API hod_tensor *hod_sin(hod_tensor *a); /* the sine */
HOD_API hod_tensor *hod_cos(hod_tensor *a); /* the cosine */
HOD_API hod_tensor *hod_atan(hod_tensor *a); /* the angle in -pi/2..pi/2 whose tangent it is */
HOD_API hod_tensor *hod_floor(hod_tensor *a); /* the next integer below */
HOD_API hod_tensor *hod_ceil(hod_tensor *a); /* the next integer above */
HOD_API hod_tensor *hod_trunc(hod_tensor *a); /* the next integer toward 0 */
HOD_API hod_tensor *hod_round(hod_tensor *a); /* the nearest integer, halves to even */
HOD_API hod_tensor *hod_logical_not(hod_tensor *a); /* true where 0 */
HOD_API hod_tensor *hod_isnan(hod_tensor *a); /* true where NaN */
HOD_API hod_tensor *hod_isinf(hod_tensor *a); /* true where infinite */
HOD_API hod_tensor *hod_isfinite(hod_tensor *a); /* true where neither NaN nor infinite */
HOD_API hod_tensor *hod_add(hod_tensor *a, hod_tensor *b); /* the sum */
HOD_API hod_tensor *hod_sub(hod_tensor *a, hod_tensor *b); /* the difference */
HOD_API hod_tensor *hod_mul(hod_tensor *a, hod_tensor *b); /* the product */
HOD_API hod_tensor *hod_div(hod_tensor *a, hod_tensor *b); /* the quotient */
HOD_API hod_tensor *hod_pow(hod_tensor *a, hod_tensor *b); /* a to the power b */
/* the quotient's floor; of integers by 0: 0 */
HOD_API hod_tensor *hod_floor_divide(hod_tensor *a, hod_tensor *b);
/* the quotient, cut toward 0; of integers in f32 */
HOD_API hod_tensor *hod_trunc_divide(hod_tensor *a, hod_tensor *b);
/* a less b * floor(a / b): b's sign; of integers by 0: 0 */
HOD_API hod_tensor *hod_remainder(hod_tensor *a, hod_tensor *b);
/* a less b * trunc(a / b): a's sign; of integers by 0: 0 */
HOD_API hod_tensor *hod_fmod(hod_tensor *a, hod_tensor *b);
HOD_API hod_tensor *hod_prelu(hod_tensor *a, hod_tensor *b); /* a where positive, else a * b */
/* a where positive, else b * expm1(a) */
HOD_API hod_tensor *hod_elu_scaled(hod_tensor *a, hod_tensor *b);
HOD_API hod_tensor *hod_maximum(hod_tensor *a, hod_tensor *b); /* the greater; NaN if either is */
HOD_API hod_tensor *hod_minimum(hod_tensor *a, hod_tensor *b); /* the lesser; NaN if either is */
HOD_API hod_tensor *hod_eq(hod_tensor *a, hod_tensor *b); /* true where equal */
HOD_API hod_tensor *hod_ne(hod_tensor *a, hod_tensor *b); /* true where different */
HOD_API hod_tensor *hod_lt(hod_tensor *a, hod_tensor *b); /* true where a is less */
HOD_API hod_tensor *hod_le(hod_tensor *a, hod_tensor *b); /* true where a is less or equal */
HOD_API hod_tensor *hod_gt(hod_tensor *a, hod_tensor *b); /* true where a is greater */
HOD_API hod_tensor *hod_ge(hod_tensor *a, hod_tensor *b); /* true where a is greater or equal */
HOD_API hod_tensor *hod_logical_and(hod_tensor *a, hod_tensor *b); /* true where both are not 0 */
HOD_API hod_tensor *hod_logical_or(hod_tensor *a, hod_tensor *b); /* true where either is not 0 */
/* true where one is 0 and the other not */
HOD_API hod_tensor *hod_logical_xor(hod_tensor *a, hod_tensor *b);
HOD_API hod_tensor *hod_bit_and(hod_tensor *a, hod_tensor *b); /* bits set in both */
HOD_API hod_tensor *hod_bit_or(hod_tensor *a, hod_tensor *b); /* bits set in either */
HOD_API hod_tensor *hod_bit_xor(hod_tensor *a, hod_tensor *b); /* bits set in one */
/* a's bits b places up; none left outside 0..63 */
HOD_API hod_tensor *hod_shift_left(hod_tensor *a, hod_tensor *b);
/* a's bits b places down, the sign coming after; outside 0..63 only that */
HOD_API hod_tensor *hod_shift_right(hod_tensor *a, hod_tensor *b);
/* b where the bool a is true, else c */
HOD_API hod_tensor *hod_where(hod_tensor *a, hod_tensor *b, hod_tensor *c);
/* a at c = 0, b at c = 1, straight between */
HOD_API hod_tensor *hod_lerp(hod_tensor *a, hod_tensor *b, hod_tensor *c);
/* a, but not below b, and then not above c; NaN if any is */
HOD_API hod_tensor *hod_clip(hod_tensor *a, hod_tensor *b, hod_tensor *c);
/* a where a * b > c, else softplus(a * b) / b */
HOD_API hod_tensor *hod_softplus_scaled(hod_tensor *a, hod_tensor *b, hod_tensor *c);
/* binary cross entropy of logit a and target b, c times for b's part */
HOD_API hod_tensor *hod_logits_loss(hod_tensor *a, hod_tensor *b, hod_tensor *c);
/* logits_loss's slope for a */
HOD_API hod_tensor *hod_logits_loss_slope(hod_tensor *a, hod_tensor *b, hod_tensor *c);

/* ---- reductions: over everything, over some dimensions (dropped, or kept as 1) ----
 * hod_sum(x), hod_sum_dims(x, 0, 2), hod_sum_keep(x, -1). Dimensions may count from the
 * end; none named: nothing is reduced. */

/* the sum; of integers in i64 */
HOD_API hod_tensor *hod_sum(hod_tensor *x);
HOD_API hod_tensor *hod_sum_over(hod_tensor *x, hod_shape dims, bool keepdim);
#define hod_sum_dims(x, ...) hod_sum_over(x, HOD_SHAPE(__VA_ARGS__), false)
#define hod_sum_keep(x, ...) hod_sum_over(x, HOD_SHAPE(__VA_ARGS__), true)

/* the product; of integers in i64 */
HOD_API hod_tensor *hod_prod(hod_tensor *x);
HOD_API hod_tensor *hod_prod_over(hod_tensor *x, hod_shape dims, bool keepdim);
#define hod_prod_dims(x, ...) hod_prod_over(x, HOD_SHAPE(__VA_ARGS__), false)
#define hod_prod_keep(x, ...) hod_prod_over(x, HOD_SHAPE(__VA_ARGS__), true)

/* the greatest; NaN if any is; equal ones share the gradient */
HOD_API hod_tensor *hod_amax(hod_tensor *x);
HOD_API hod_tensor *hod_amax_over(hod_tensor *x, hod_shape dims, bool keepdim);
#define hod_amax_dims(x, ...) hod_amax_over(x, HOD_SHAPE(__VA_ARGS__), false)
#define hod_amax_keep(x, ...) hod_amax_over(x, HOD_SHAPE(__VA_ARGS__), true)

/* the least; NaN if any is; equal ones share the gradient */
HOD_API hod_tensor *hod_amin(hod_tensor *x);
HOD_API hod_tensor *hod_amin_over(hod_tensor *x, hod_shape dims, bool keepdim);
#define hod_amin_dims(x, ...) hod_amin_over(x, HOD_SHAPE(__VA_ARGS__), false)
#define hod_amin_keep(x, ...) hod_amin_over(x, HOD_SHAPE(__VA_ARGS__), true)

/* true where one is not 0; of nothing: false */
HOD_API hod_tensor *hod_any(hod_tensor *x);
HOD_API hod_tensor *hod_any_over(hod_tensor *x, hod_shape dims, bool keepdim);
#define hod_any_dims(x, ...) hod_any_over(x, HOD_SHAPE(__VA_ARGS__), false)
#define hod_any_keep(x, ...) hod_any_over(x, HOD_SHAPE(__VA_ARGS__), true)

/* true where none is 0; of nothing: true */
HOD_API hod_tensor *hod_all(hod_tensor *x);
HOD_API hod_tensor *hod_all_over(hod_tensor *x, hod_shape dims, bool keepdim);
#define hod_all_dims(x, ...) hod_all_over(x, HOD_SHAPE(__VA_ARGS__), false)
#define hod_all_keep(x, ...) hod_all_over(x, HOD_SHAPE(__VA_ARGS__), true)

/* the index of the first greatest; the first NaN wins */
HOD_API hod_tensor *hod_argmax(hod_tensor *x, int dim);

/* the index of the first least; the first NaN wins */
HOD_API hod_tensor *hod_argmin(hod_tensor *x, int dim);

#ifndef HOD_NO_PLACES
#define hod_neg(...) HOD_OPERATOR(tensor, neg, __VA_ARGS__)
#define hod_abs(...) HOD_OPERATOR(tensor, abs, __VA_ARGS__)
#define hod_sign(...) HOD_OPERATOR(tensor, sign, __VA_ARGS__)
#define hod_exp(...) HOD_OPERATOR(tensor, exp, __VA_ARGS__)
#define hod_expm1(...) HOD_OPERATOR(tensor, expm1, __VA_ARGS__)
#define hod_log(...) HOD_OPERATOR(tensor, log, __VA_ARGS__)
#define hod_log1p(...) HOD_OPERATOR(tensor, log1p, __VA_ARGS__)
#define hod_sqrt(...) HOD_OPERATOR(tensor, sqrt, __VA_ARGS__)
#define hod_rsqrt(...) HOD_OPERATOR(tensor, rsqrt, __VA_ARGS__)
#define hod_reciprocal(...) HOD_OPERATOR(tensor, reciprocal, __VA_ARGS__)
#define hod_relu(...) HOD_OPERATOR(tensor, relu, __VA_ARGS__)
#define hod_sigmoid(...) HOD_OPERATOR(tensor, sigmoid, __VA_ARGS__)
#define hod_tanh(...) HOD_OPERATOR(tensor, tanh, __VA_ARGS__)
#define hod_erf(...) HOD_OPERATOR(tensor, erf, __VA_ARGS__)
#define hod_gelu(...) HOD_OPERATOR(tensor, gelu, __VA_ARGS__)
#define hod_gelu_tanh(...) HOD_OPERATOR(tensor, gelu_tanh, __VA_ARGS__)
#define hod_silu(...) HOD_OPERATOR(tensor, silu, __VA_ARGS__)
#define hod_mish(...) HOD_OPERATOR(tensor, mish, __VA_ARGS__)
#define hod_softplus(...) HOD_OPERATOR(tensor, softplus, __VA_ARGS__)
#define hod_log_sigmoid(...) HOD_OPERATOR(tensor, log_sigmoid, __VA_ARGS__)
#define hod_hardsigmoid(...) HOD_OPERATOR(tensor, hardsigmoid, __VA_ARGS__)
#define hod_hardswish(...) HOD_OPERATOR(tensor, hardswish, __VA_ARGS__)
#define hod_sin(...) HOD_OPERATOR(tensor, sin, __VA_ARGS__)
#define hod_cos(...) HOD_OPERATOR(tensor, cos, __VA_ARGS__)
#define hod_atan(...) HOD_OPERATOR(tensor, atan, __VA_ARGS__)
#define hod_floor(...) HOD_OPERATOR(tensor, floor, __VA_ARGS__)
#define hod_ceil(...) HOD_OPERATOR(tensor, ceil, __VA_ARGS__)
#define hod_trunc(...) HOD_OPERATOR(tensor, trunc, __VA_ARGS__)
#define hod_round(...) HOD_OPERATOR(tensor, round, __VA_ARGS__)
#define hod_logical_not(...) HOD_OPERATOR(tensor, logical_not, __VA_ARGS__)
#define hod_isnan(...) HOD_OPERATOR(tensor, isnan, __VA_ARGS__)
#define hod_isinf(...) HOD_OPERATOR(tensor, isinf, __VA_ARGS__)
#define hod_isfinite(...) HOD_OPERATOR(tensor, isfinite, __VA_ARGS__)
#define hod_add(...) HOD_OPERATOR(tensor, add, __VA_ARGS__)
#define hod_sub(...) HOD_OPERATOR(tensor, sub, __VA_ARGS__)
#define hod_mul(...) HOD_OPERATOR(tensor, mul, __VA_ARGS__)
#define hod_div(...) HOD_OPERATOR(tensor, div, __VA_ARGS__)
#define hod_pow(...) HOD_OPERATOR(tensor, pow, __VA_ARGS__)
#define hod_floor_divide(...) HOD_OPERATOR(tensor, floor_divide, __VA_ARGS__)
#define hod_trunc_divide(...) HOD_OPERATOR(tensor, trunc_divide, __VA_ARGS__)
#define hod_remainder(...) HOD_OPERATOR(tensor, remainder, __VA_ARGS__)
#define hod_fmod(...) HOD_OPERATOR(tensor, fmod, __VA_ARGS__)
#define hod_prelu(...) HOD_OPERATOR(tensor, prelu, __VA_ARGS__)
#define hod_elu_scaled(...) HOD_OPERATOR(tensor, elu_scaled, __VA_ARGS__)
#define hod_maximum(...) HOD_OPERATOR(tensor, maximum, __VA_ARGS__)
#define hod_minimum(...) HOD_OPERATOR(tensor, minimum, __VA_ARGS__)
#define hod_eq(...) HOD_OPERATOR(tensor, eq, __VA_ARGS__)
#define hod_ne(...) HOD_OPERATOR(tensor, ne, __VA_ARGS__)
#define hod_lt(...) HOD_OPERATOR(tensor, lt, __VA_ARGS__)
#define hod_le(...) HOD_OPERATOR(tensor, le, __VA_ARGS__)
#define hod_gt(...) HOD_OPERATOR(tensor, gt, __VA_ARGS__)
#define hod_ge(...) HOD_OPERATOR(tensor, ge, __VA_ARGS__)
#define hod_logical_and(...) HOD_OPERATOR(tensor, logical_and, __VA_ARGS__)
#define hod_logical_or(...) HOD_OPERATOR(tensor, logical_or, __VA_ARGS__)
#define hod_logical_xor(...) HOD_OPERATOR(tensor, logical_xor, __VA_ARGS__)
#define hod_bit_and(...) HOD_OPERATOR(tensor, bit_and, __VA_ARGS__)
#define hod_bit_or(...) HOD_OPERATOR(tensor, bit_or, __VA_ARGS__)
#define hod_bit_xor(...) HOD_OPERATOR(tensor, bit_xor, __VA_ARGS__)
#define hod_shift_left(...) HOD_OPERATOR(tensor, shift_left, __VA_ARGS__)
#define hod_shift_right(...) HOD_OPERATOR(tensor, shift_right, __VA_ARGS__)
#define hod_where(...) HOD_OPERATOR(tensor, where, __VA_ARGS__)
#define hod_lerp(...) HOD_OPERATOR(tensor, lerp, __VA_ARGS__)
#define hod_clip(...) HOD_OPERATOR(tensor, clip, __VA_ARGS__)
#define hod_softplus_scaled(...) HOD_OPERATOR(tensor, softplus_scaled, __VA_ARGS__)
#define hod_logits_loss(...) HOD_OPERATOR(tensor, logits_loss, __VA_ARGS__)
#define hod_logits_loss_slope(...) HOD_OPERATOR(tensor, logits_loss_slope, __VA_ARGS__)
#define hod_sum(...) HOD_OPERATOR(tensor, sum, __VA_ARGS__)
#define hod_sum_over(...) HOD_OPERATOR(tensor, sum_over, __VA_ARGS__)
#define hod_prod(...) HOD_OPERATOR(tensor, prod, __VA_ARGS__)
#define hod_prod_over(...) HOD_OPERATOR(tensor, prod_over, __VA_ARGS__)
#define hod_amax(...) HOD_OPERATOR(tensor, amax, __VA_ARGS__)
#define hod_amax_over(...) HOD_OPERATOR(tensor, amax_over, __VA_ARGS__)
#define hod_amin(...) HOD_OPERATOR(tensor, amin, __VA_ARGS__)
#define hod_amin_over(...) HOD_OPERATOR(tensor, amin_over, __VA_ARGS__)
#define hod_any(...) HOD_OPERATOR(tensor, any, __VA_ARGS__)
#define hod_any_over(...) HOD_OPERATOR(tensor, any_over, __VA_ARGS__)
#define hod_all(...) HOD_OPERATOR(tensor, all, __VA_ARGS__)
#define hod_all_over(...) HOD_OPERATOR(tensor, all_over, __VA_ARGS__)
#define hod_argmax(...) HOD_OPERATOR(tensor, argmax, __VA_ARGS__)
#define hod_argmin(...) HOD_OPERATOR(tensor, argmin, __VA_ARGS__)
#endif

#endif
