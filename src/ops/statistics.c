/* Reductions that are compositions: means, deviations, norms, extremes with their place.
 *
 * f16 and bf16 are computed in f32 and come back in their own type: a mean of many halves, or a
 * squared deviation, does not fit in 11 bits.
 */
#include "ops/fused.h"
#include <math.h>

static hod_shape all_dims(const hod_tensor *x)
{
    hod_shape dims = {.n = x->ndim};
    for (int i = 0; i < x->ndim; i++)
        dims.d[i] = i;
    return dims;
}

/* Elements that a reduction over dims folds into one; -1 with an error. Where they are more than 64
 * bits count, a size beside them is 0 and there is nothing to divide. */
static int64_t folded(const char *name, const hod_tensor *x, const hod_shape *dims)
{
    uint32_t bits;
    hod_shape sizes = {.n = 0};
    if (hod__dim_bits(name, dims, x->ndim, &bits) != 0)
        return -1;
    for (int i = 0; i < x->ndim; i++)
        if (bits >> i & 1)
            sizes.d[sizes.n++] = x->shape[i];
    return HOD_MAX(hod__numel(sizes.n, sizes.d), 0);
}

hod_tensor *hod_mean_over(hod_tensor *x, hod_shape dims, bool keepdim)
{
    int64_t n = hod__null("mean", "x", x) ? -1 : folded("mean", x, &dims);
    if (n < 0)
        return NULL;
    hod_tensor *sum = hod_sum_over(hod__computed(x), dims, keepdim);
    return hod__narrowed_like(hod_div_scalar(sum, (double)n), x);
}

hod_tensor *hod_mean(hod_tensor *x)
{
    return hod__null("mean", "x", x) ? NULL : hod_mean_over(x, all_dims(x), false);
}

hod_tensor *hod_var_over(hod_tensor *x, hod_shape dims, bool keepdim, int correction)
{
    int64_t n = hod__null("var", "x", x) ? -1 : folded("var", x, &dims);
    if (n < 0)
        return NULL;
    hod_tensor *c = hod__computed(x);
    hod_tensor *sum =
        hod_sum_over(hod_square(hod_sub(c, hod_mean_over(c, dims, true))), dims, keepdim);
    return hod__narrowed_like(hod_div_scalar(sum, (double)HOD_MAX(n - correction, 0)), x);
}

/* The root of a sum that may be 0, where it has an infinite slope: nothing comes back through a 0,
 * which a 1 stands in for. */
static hod_tensor *root(hod_tensor *s, double p)
{
    if (!s)
        return NULL;
    hod_tensor *zero = hod__number(s, 0), *dead = hod_eq(s, zero);
    hod_tensor *safe = hod_where(dead, hod__number(s, 1), s);
    hod_tensor *y = p == 2 ? hod_sqrt(safe) : hod_pow(safe, hod__number(s, 1 / p));
    return hod_where(dead, p < 0 ? hod__number(s, (double)INFINITY) : zero, y);
}

hod_tensor *hod_std_over(hod_tensor *x, hod_shape dims, bool keepdim, int correction)
{
    return hod__narrowed_like(root(hod_var_over(hod__computed(x), dims, keepdim, correction), 2),
                              x);
}

/* ---- norms ---- */

/* |x|^p; a 0 under a root has no slope, and under a negative power it is infinite. */
static hod_tensor *powers(hod_tensor *x, double p)
{
    hod_tensor *a = hod_abs(x);
    if (!a || p == 1)
        return a;
    if (p > 1)
        return hod_pow_scalar(a, p);
    hod_tensor *dead = hod_eq(a, hod__number(a, 0));
    hod_tensor *y = hod_pow_scalar(hod_where(dead, hod__number(a, 1), a), p);
    return hod_where(dead, hod__number(a, p < 0 ? (double)INFINITY : 0), y);
}

static hod_tensor *length_along(hod_tensor *x, int dim)
{
    HOD_ATTRS(a);
    a.dim.dim = dim;
    return x ? hod__op(HOD_OP_norm2, &a, 1, &x) : NULL;
}

enum { SHARES = 64, LONG_LINE = 1 << 16 }; /* elements */

/* The length of all of x, one line in memory. A long one is taken in shares, so that threads find
 * work: it is the length of their lengths. */
static hod_tensor *length_of_all(hod_tensor *x)
{
    int64_t n = hod_tensor_numel(x), shares = n >= LONG_LINE && n % SHARES == 0 ? SHARES : 1;
    hod_tensor *y = length_along(hod_reshape(x, HOD_SHAPE(shares, n / shares)), 1);
    return shares > 1 ? length_along(y, 0) : y;
}

/* Lengths of lines along one dimension, or of all there is, where a FUSED row may have them; else
 * NULL. */
static hod_tensor *lengths(hod_tensor *x, const hod_shape *dims, bool keepdim)
{
    if (!hod__fuses(x))
        return NULL;
    if (dims->n == x->ndim && x->ndim > 0 && hod__is_row_major(x)) {
        hod_shape left = {.n = keepdim ? x->ndim : 0};
        for (int i = 0; i < left.n; i++)
            left.d[i] = 1;
        return hod_reshape(length_of_all(x), left);
    }
    if (dims->n != 1)
        return NULL;
    int d = hod__dim("norm", dims->d[0], x->ndim);
    hod_tensor *y = length_along(x, d);
    return keepdim ? y : hod_squeeze(y, d);
}

/* x / y; nothing comes back into a line whose length is 0. */
hod_tensor *hod__vjp_norm2(const hod_vjp *v, int i)
{
    (void)i;
    hod_tensor *zero = hod__number(v->y, 0), *dead = hod_eq(v->y, zero);
    hod_tensor *y = hod_where(dead, hod__number(v->y, 1), v->y);
    return hod_mul(v->x[0], hod_where(dead, zero, hod_div(v->g, y)));
}

hod_tensor *hod_norm_over(hod_tensor *x, double p, hod_shape dims, bool keepdim)
{
    uint32_t bits;
    hod_tensor *c = hod__computed(x);
    if (hod__null("norm", "x", x) || hod__dim_bits("norm", &dims, x->ndim, &bits) != 0 || !c)
        return NULL;
    if (isnan(p))
        return HOD_FAIL(ARGUMENT, "norm: power %g, must be a number", p);
    hod_tensor *y = p == 2 ? lengths(c, &dims, keepdim) : NULL;
    if (y)
        return hod__narrowed_like(y, x);
    if (p == 0)
        y = hod_sum_over(hod__cast_to(hod_ne(c, hod__number(c, 0)), (hod_dtype)c->dtype), dims,
                         keepdim);
    else if (isinf(p))
        y = p > 0 ? hod_amax_over(hod_abs(c), dims, keepdim)
                  : hod_amin_over(hod_abs(c), dims, keepdim);
    else if (p == 2)
        y = root(hod_sum_over(hod_square(c), dims, keepdim), 2);
    else if (p == 1)
        y = hod_sum_over(hod_abs(c), dims, keepdim);
    else
        y = root(hod_sum_over(powers(c, p), dims, keepdim), p);
    return hod__narrowed_like(y, x);
}

hod_tensor *hod_norm(hod_tensor *x, double p)
{
    return hod__null("norm", "x", x) ? NULL : hod_norm_over(x, p, all_dims(x), false);
}

/* ---- extremes with their place ---- */

static hod_tensor *extreme(hod_tensor *x, int dim, bool keepdim, hod_tensor **index,
                           hod_tensor *(*first)(hod_tensor *x, int dim))
{
    hod_tensor *unwanted;
    index = index ? index : &unwanted;
    *index = NULL;
    hod_tensor *at = first(x, dim);
    if (!at)
        return NULL;
    if (x->ndim == 0) {
        *index = at;
        return x;
    }
    int d = dim < 0 ? dim + x->ndim : dim;
    hod_tensor *kept = hod_unsqueeze(at, d);
    hod_tensor *y = hod_gather(x, d, kept);
    *index = keepdim ? kept : at;
    return keepdim ? y : hod_squeeze(y, d);
}

hod_tensor *hod_max_along(hod_tensor *x, int dim, bool keepdim, hod_tensor **index)
{
    return extreme(x, dim, keepdim, index, hod_argmax);
}

hod_tensor *hod_min_along(hod_tensor *x, int dim, bool keepdim, hod_tensor **index)
{
    return extreme(x, dim, keepdim, index, hod_argmin);
}
