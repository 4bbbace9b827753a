/* Reductions that are more than one row of the operator table, and running ones.
 *
 *     hod_tensor *size = hod_norm(g, 2);                        // 0-d
 *     hod_tensor *index, *best = hod_max_along(scores, 1, false, &index);
 *     hod_tensor *total = hod_cumsum(x, -1);
 *
 * dims: which are reduced; keepdim: they stay, with size 1. Included by functional.h, whose remarks
 * hold here.
 */
#ifndef HOD_REDUCTIONS_H
#define HOD_REDUCTIONS_H

#include <hod/ops.h>

HOD_API hod_tensor *hod_mean(hod_tensor *x); /* of nothing: NaN */
HOD_API hod_tensor *hod_mean_over(hod_tensor *x, hod_shape dims, bool keepdim);
#define hod_mean_dims(x, ...) hod_mean_over(x, HOD_SHAPE(__VA_ARGS__), false)
#define hod_mean_keep(x, ...) hod_mean_over(x, HOD_SHAPE(__VA_ARGS__), true)
/* Sum of squared deviations, divided by n - correction: 0 as normalisation uses it, 1 unbiased. */
HOD_API hod_tensor *hod_var_over(hod_tensor *x, hod_shape dims, bool keepdim, int correction);
#define hod_var_dims(x, correction, ...) hod_var_over(x, HOD_SHAPE(__VA_ARGS__), false, correction)
#define hod_var_keep(x, correction, ...) hod_var_over(x, HOD_SHAPE(__VA_ARGS__), true, correction)
/* The root of the variance; no gradient where it is 0. */
HOD_API hod_tensor *hod_std_over(hod_tensor *x, hod_shape dims, bool keepdim, int correction);
#define hod_std_dims(x, correction, ...) hod_std_over(x, HOD_SHAPE(__VA_ARGS__), false, correction)
#define hod_std_keep(x, correction, ...) hod_std_over(x, HOD_SHAPE(__VA_ARGS__), true, correction)
/* (sum |x|^p)^(1/p). p = 0 counts what is not 0 (and has no gradient), INFINITY is the greatest |x|
 * and -INFINITY the least. The gradient is 0 where the root's slope is infinite. */
HOD_API hod_tensor *hod_norm(hod_tensor *x, double p);
HOD_API hod_tensor *hod_norm_over(hod_tensor *x, double p, hod_shape dims, bool keepdim);
HOD_API hod_tensor *hod_logsumexp(hod_tensor *x, int dim, bool keepdim); /* of -inf only: -inf */
HOD_API hod_tensor *hod_logsumexp_over(hod_tensor *x, hod_shape dims, bool keepdim);
/* The greatest (least) along dim and, in *index (i64; index may be NULL), where the first such is:
 * it alone has the gradient, unlike amax's equal shares. */
HOD_API hod_tensor *hod_max_along(hod_tensor *x, int dim, bool keepdim, hod_tensor **index);
HOD_API hod_tensor *hod_min_along(hod_tensor *x, int dim, bool keepdim, hod_tensor **index);
/* Sums and products of the elements so far, in x's shape; of integers in i64. */
HOD_API hod_tensor *hod_cumsum(hod_tensor *x, int dim);
HOD_API hod_tensor *hod_cumprod(hod_tensor *x, int dim);

#ifndef HOD_NO_PLACES
#define hod_mean(...) HOD_OPERATOR(tensor, mean, __VA_ARGS__)
#define hod_mean_over(...) HOD_OPERATOR(tensor, mean_over, __VA_ARGS__)
#define hod_var_over(...) HOD_OPERATOR(tensor, var_over, __VA_ARGS__)
#define hod_std_over(...) HOD_OPERATOR(tensor, std_over, __VA_ARGS__)
#define hod_norm(...) HOD_OPERATOR(tensor, norm, __VA_ARGS__)
#define hod_norm_over(...) HOD_OPERATOR(tensor, norm_over, __VA_ARGS__)
#define hod_logsumexp(...) HOD_OPERATOR(tensor, logsumexp, __VA_ARGS__)
#define hod_logsumexp_over(...) HOD_OPERATOR(tensor, logsumexp_over, __VA_ARGS__)
#define hod_max_along(...) HOD_OPERATOR(tensor, max_along, __VA_ARGS__)
#define hod_min_along(...) HOD_OPERATOR(tensor, min_along, __VA_ARGS__)
#define hod_cumsum(...) HOD_OPERATOR(tensor, cumsum, __VA_ARGS__)
#define hod_cumprod(...) HOD_OPERATOR(tensor, cumprod, __VA_ARGS__)
#endif

#endif
