/* Means, softmax and normalisation: compositions that the compiler fuses into a few passes.
 *
 * f16 and bf16 are computed in f32 and come back in their own type: a mean of many halves, or a
 * squared deviation, does not fit in 11 bits.
 */
#include "ops/rules.h"
#include <math.h>

static bool is_half(const hod_tensor *x)
{
    return x->dtype == HOD_F16 || x->dtype == HOD_BF16;
}

hod_tensor *hod__computed(hod_tensor *x)
{
    return x && (is_half(x) || x->dtype > HOD_BF16) ? hod__cast_to(x, HOD_F32) : x;
}

hod_tensor *hod__like(hod_tensor *y, const hod_tensor *x)
{
    return x && is_half(x) ? hod__cast_to(y, (hod_dtype)x->dtype) : y;
}

/* Elements that a reduction over dims folds into one; -1 with an error. */
static int64_t folded(const char *name, const hod_tensor *x, const hod_shape *dims)
{
    int64_t n = 1;
    for (int i = 0; i < dims->n && i < HOD_MAX_DIMS; i++) {
        int d = hod__dim(name, dims->d[i], x->ndim);
        if (d < 0)
            return -1;
        n *= x->shape[d];
    }
    return n;
}

static hod_shape all_dims(const hod_tensor *x)
{
    hod_shape dims = {.n = x->ndim};
    for (int i = 0; i < x->ndim; i++)
        dims.d[i] = i;
    return dims;
}

hod_tensor *hod_mean_over(hod_tensor *x, hod_shape dims, bool keepdim)
{
    int64_t n = hod__null("mean", "x", x) ? -1 : folded("mean", x, &dims);
    if (n < 0)
        return NULL;
    hod_tensor *sum = hod_sum_over(hod__computed(x), dims, keepdim);
    return hod__like(n > 0 ? hod_mul_scalar(sum, 1.0 / (double)n) : hod_div_scalar(sum, 0), x);
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
    int64_t by = n - correction;
    return hod__like(by > 0 ? hod_mul_scalar(sum, 1.0 / (double)by) : hod_div_scalar(sum, 0), x);
}

/* ---- softmax ---- */

/* The greatest along dim, to subtract before exp; 0 where it is not finite, so that -inf rows give
 * exp(-inf) = 0 and no NaN, and 0 of nothing. Constant for gradients: a shift cancels. */
static hod_tensor *shift_of(hod_tensor *x, int dim)
{
    if (dim >= -x->ndim && dim < x->ndim && hod_tensor_size(x, dim) == 0)
        return hod_full((hod_dtype)x->dtype, HOD_SHAPE(), 0);
    hod_tensor *m = hod_amax_keep(hod__stop_gradient(x), dim);
    return m ? hod_where(hod_isfinite(m), m, hod_full((hod_dtype)m->dtype, HOD_SHAPE(), 0)) : NULL;
}

/* x in the type to compute in, once dim is known to be one of its dimensions. */
static hod_tensor *checked(const char *name, hod_tensor *x, int dim)
{
    return hod__null(name, "x", x) || hod__dim(name, dim, x->ndim) < 0 ? NULL : hod__computed(x);
}

hod_tensor *hod_softmax(hod_tensor *x, int dim)
{
    hod_tensor *c = checked("softmax", x, dim);
    hod_tensor *e = c ? hod_exp(hod_sub(c, shift_of(c, dim))) : NULL;
    if (!e)
        return NULL;
    hod_tensor *sum = hod_sum_keep(e, dim);
    hod_tensor *safe = hod_where(hod_eq_scalar(sum, 0), hod_full_like(sum, 1), sum);
    return hod__like(hod_div(e, safe), x);
}

hod_tensor *hod_log_softmax(hod_tensor *x, int dim)
{
    hod_tensor *c = checked("log_softmax", x, dim);
    hod_tensor *z = c ? hod_sub(c, shift_of(c, dim)) : NULL;
    return z ? hod__like(hod_sub(z, hod_log(hod_sum_keep(hod_exp(z), dim))), x) : NULL;
}

/* ---- normalisation ---- */

/* (x - mean) / sqrt(var + eps) over dims. */
static hod_tensor *standardised(hod_tensor *x, hod_shape dims, double eps)
{
    hod_tensor *d = hod_sub(x, hod_mean_over(x, dims, true));
    hod_tensor *var = hod_mean_over(hod_square(d), dims, true);
    return hod_mul(d, hod_rsqrt(hod_add_scalar(var, eps)));
}

/* v (C) as (C,1,...): broadcasts along the dimensions behind the channels of x. */
static hod_tensor *per_channel(const char *name, hod_tensor *v, const hod_tensor *x)
{
    if (!v)
        return NULL;
    if (v->ndim != 1 || v->shape[0] != x->shape[1])
        return HOD_FAIL(ARGUMENT, "%s: %s for the channels of %s", name, HOD_SHAPE_TEXT(v),
                        HOD_SHAPE_TEXT(x));
    hod_shape s = {.n = x->ndim - 1};
    for (int i = 0; i < s.n; i++)
        s.d[i] = i == 0 ? v->shape[0] : 1;
    return hod__computed(hod_reshape(v, s));
}

/* x / sqrt(mean of squares + eps) over dims. */
static hod_tensor *scaled_to_one(hod_tensor *x, hod_shape dims, double eps)
{
    hod_tensor *square = hod_mean_over(hod_square(x), dims, true);
    return hod_mul(x, hod_rsqrt(hod_add_scalar(square, eps)));
}

/* The last k dimensions of x; n 0 with an error. */
static hod_shape trailing(const char *name, const hod_tensor *x, int k)
{
    hod_shape dims = {.n = k};
    if (k < 1 || k > x->ndim) {
        hod__fail(HOD_ERROR_ARGUMENT, "%s: over the last %d dimensions of %s", name, k,
                  HOD_SHAPE_TEXT(x));
        return (hod_shape){.n = 0};
    }
    for (int i = 0; i < k; i++)
        dims.d[i] = x->ndim - k + i;
    return dims;
}

/* Has w the sizes of x's trailing dimensions? */
static bool fits_trailing(const hod_tensor *w, const hod_tensor *x)
{
    int lead = x->ndim - w->ndim;
    bool fits = lead >= 0 && w->ndim > 0;
    for (int i = 0; fits && i < w->ndim; i++)
        fits = w->shape[i] == x->shape[lead + i];
    return fits;
}

hod_tensor *hod_layer_norm_plain(hod_tensor *x, int dims, double eps)
{
    hod_shape over = x ? trailing("layer_norm", x, dims) : (hod_shape){.n = 0};
    return over.n > 0 ? hod__like(standardised(hod__computed(x), over, eps), x) : NULL;
}

hod_tensor *hod_layer_norm(hod_tensor *x, hod_tensor *w, hod_tensor *b, double eps)
{
    if (hod__null("layer_norm", "x", x) || hod__null("layer_norm", "w", w) ||
        hod__null("layer_norm", "b", b))
        return NULL;
    if (!fits_trailing(w, x) || b->ndim != w->ndim || !fits_trailing(b, x))
        return HOD_FAIL(ARGUMENT, "layer_norm: %s with weights %s and %s", HOD_SHAPE_TEXT(x),
                        HOD_SHAPE_TEXT(w), HOD_SHAPE_TEXT(b));
    hod_tensor *y = hod_layer_norm_plain(hod__computed(x), w->ndim, eps);
    return hod__like(hod_add(hod_mul(y, hod__computed(w)), hod__computed(b)), x);
}

hod_tensor *hod_rms_norm_plain(hod_tensor *x, int dims, double eps)
{
    hod_shape over = x ? trailing("rms_norm", x, dims) : (hod_shape){.n = 0};
    return over.n > 0 ? hod__like(scaled_to_one(hod__computed(x), over, eps), x) : NULL;
}

hod_tensor *hod_rms_norm(hod_tensor *x, hod_tensor *w, double eps)
{
    if (!x || !w)
        return NULL;
    if (!fits_trailing(w, x))
        return HOD_FAIL(ARGUMENT, "rms_norm: %s with weights %s", HOD_SHAPE_TEXT(x),
                        HOD_SHAPE_TEXT(w));
    return hod__like(hod_mul(hod_rms_norm_plain(hod__computed(x), w->ndim, eps), hod__computed(w)),
                     x);
}

/* y w + b for each channel of x, in x's type. */
static hod_tensor *channel_affine(const char *name, hod_tensor *y, hod_tensor *w, hod_tensor *b,
                                  const hod_tensor *x)
{
    return y ? hod__like(hod_add(hod_mul(y, per_channel(name, w, x)), per_channel(name, b, x)), x)
             : NULL;
}

hod_tensor *hod_group_norm_plain(hod_tensor *x, int64_t groups, double eps)
{
    if (hod__null("group_norm", "x", x))
        return NULL;
    if (x->ndim < 2 || groups < 1 || x->shape[1] % groups != 0)
        return HOD_FAIL(ARGUMENT, "group_norm: %s in %lld groups of channels", HOD_SHAPE_TEXT(x),
                        (long long)groups);
    int64_t per_group = hod__numel(x->ndim - 2, x->shape + 2) * (x->shape[1] / groups);
    hod_tensor *g = hod_reshape(hod__computed(x), HOD_SHAPE(x->shape[0], groups, per_group));
    return hod__like(hod_reshape(standardised(g, HOD_SHAPE(2), eps), hod_tensor_shape(x)), x);
}

hod_tensor *hod_group_norm(hod_tensor *x, int64_t groups, hod_tensor *w, hod_tensor *b, double eps)
{
    return x ? channel_affine("group_norm", hod_group_norm_plain(hod__computed(x), groups, eps), w,
                              b, x)
             : NULL;
}

hod_tensor *hod_instance_norm_plain(hod_tensor *x, double eps)
{
    if (!x)
        return NULL;
    if (x->ndim < 3 || hod__numel(x->ndim - 2, x->shape + 2) == 1)
        return HOD_FAIL(ARGUMENT,
                        "instance_norm: %s has one value per sample and channel, two are the least",
                        HOD_SHAPE_TEXT(x));
    return x->shape[1] > 0 ? hod_group_norm_plain(x, x->shape[1], eps) : x;
}

hod_tensor *hod_instance_norm(hod_tensor *x, hod_tensor *w, hod_tensor *b, double eps)
{
    return x ? channel_affine("instance_norm", hod_instance_norm_plain(hod__computed(x), eps), w, b,
                              x)
             : NULL;
}

hod_tensor *hod_batch_norm_plain(hod_tensor *x, hod_tensor *mean, hod_tensor *var, double eps)
{
    if (!x)
        return NULL;
    if (x->ndim < 2)
        return HOD_FAIL(ARGUMENT, "batch_norm: %s has no channels", HOD_SHAPE_TEXT(x));
    hod_tensor *d = hod_sub(hod__computed(x), per_channel("batch_norm", mean, x));
    hod_tensor *scale = hod_rsqrt(hod_add_scalar(per_channel("batch_norm", var, x), eps));
    return hod__like(hod_mul(d, scale), x);
}

hod_tensor *hod_batch_norm(hod_tensor *x, hod_tensor *mean, hod_tensor *var, hod_tensor *w,
                           hod_tensor *b, double eps)
{
    if (hod__null("batch_norm", "x", x))
        return NULL;
    if (x->ndim < 2)
        return HOD_FAIL(ARGUMENT, "batch_norm: %s has no channels", HOD_SHAPE_TEXT(x));
    hod_tensor *d = hod_sub(hod__computed(x), per_channel("batch_norm", mean, x));
    hod_tensor *scale = hod_mul(hod_rsqrt(hod_add_scalar(per_channel("batch_norm", var, x), eps)),
                                per_channel("batch_norm", w, x));
    return hod__like(hod_add(hod_mul(d, scale), per_channel("batch_norm", b, x)), x);
}

hod_tensor *hod_batch_norm_train_plain(hod_tensor *x, double eps)
{
    if (!x)
        return NULL;
    if (x->ndim < 2)
        return HOD_FAIL(ARGUMENT, "batch_norm: %s has no channels", HOD_SHAPE_TEXT(x));
    if (hod_tensor_numel(x) == x->shape[1])
        return HOD_FAIL(ARGUMENT, "batch_norm: %s has one value per channel, training needs two",
                        HOD_SHAPE_TEXT(x));
    hod_shape dims = {.n = x->ndim - 1};
    for (int i = 1; i < dims.n; i++)
        dims.d[i] = i + 1;
    return hod__like(standardised(hod__computed(x), dims, eps), x);
}

hod_tensor *hod_batch_norm_train(hod_tensor *x, hod_tensor *w, hod_tensor *b, double eps)
{
    return x ? channel_affine("batch_norm", hod_batch_norm_train_plain(hod__computed(x), eps), w, b,
                              x)
             : NULL;
}

hod_tensor *hod_dropout(hod_tensor *x, double p)
{
    if (hod__null("dropout", "x", x))
        return NULL;
    if (!(p >= 0 && p <= 1))
        return HOD_FAIL(ARGUMENT, "dropout: probability %g, wanted 0 to 1", p);
    if (p == 0)
        return x;
    hod_tensor *kept = hod_ge_scalar(hod_uniform(hod_tensor_shape(x)), p);
    hod_tensor *zero = hod_full((hod_dtype)x->dtype, HOD_SHAPE(), 0);
    return hod_where(kept, p < 1 ? hod_mul_scalar(x, 1 / (1 - p)) : x, zero);
}
