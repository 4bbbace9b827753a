/* Normalisation: compositions that the compiler fuses into a few passes; where operators run at
 * once, they are the FUSED row norm (norm_rows.c). 16-bit floats are computed in f32, as in
 * statistics.c. */
#include "ops/fused.h"

/* May the FUSED row have x, and w and b, where they are there? */
static bool one_row(const hod_tensor *x, const hod_tensor *w, const hod_tensor *b)
{
    return hod__fuses(x) && (!w || w->dtype == x->dtype) && (!b || b->dtype == x->dtype);
}

/* Sets that lie densely in x, n elements each: over its last dimensions. */
static hod_attrs_norm over_last(const hod_tensor *x, int dims, double eps, bool centred)
{
    int64_t n = hod__numel(dims, x->shape + x->ndim - dims);
    return (hod_attrs_norm){.sets = hod_tensor_numel(x) / n,
                            .pieces = 1,
                            .n = n,
                            .run = 1,
                            .groups = 1,
                            .eps = eps,
                            .centred = centred};
}

/* x (N,C,...) in groups of channels: a set for each sample and group. */
static hod_attrs_norm over_groups(const hod_tensor *x, int64_t groups, double eps)
{
    int64_t area = hod__numel(x->ndim - 2, x->shape + 2);
    return (hod_attrs_norm){.sets = x->shape[0] * groups,
                            .pieces = 1,
                            .n = x->shape[1] / groups * area,
                            .run = area,
                            .groups = groups,
                            .eps = eps,
                            .centred = true};
}

/* x (N,C,...): a set for each channel. */
static hod_attrs_norm over_batch(const hod_tensor *x, double eps)
{
    int64_t area = hod__numel(x->ndim - 2, x->shape + 2);
    return (hod_attrs_norm){.sets = x->shape[1],
                            .pieces = x->shape[0],
                            .n = area,
                            .run = area,
                            .groups = x->shape[1],
                            .eps = eps,
                            .centred = true};
}

/* (x - mean) / sqrt(var + eps) over dims. */
static hod_tensor *standardised(hod_tensor *x, hod_shape dims, double eps)
{
    hod_tensor *d = hod_sub(x, hod_mean_over(x, dims, true));
    hod_tensor *var = hod_mean_over(hod_square(d), dims, true);
    return hod_mul(d, hod_rsqrt(hod_add_scalar(var, eps)));
}

/* v (C) as (C,1,...): broadcasts along the dimensions behind the channels of x. */
static hod_tensor *per_channel(const char *name, const char *what, hod_tensor *v,
                               const hod_tensor *x)
{
    if (hod__null(name, what, v))
        return NULL;
    if (v->ndim != 1 || v->shape[0] != x->shape[1])
        return HOD_FAIL(ARGUMENT, "%s: %s %s for the channels of %s", name, what, HOD_SHAPE_TEXT(v),
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

/* Over the last dims dimensions, without weights. */
static hod_tensor *plain_over_last(const char *name, hod_tensor *x, int dims, double eps,
                                   bool centred)
{
    if (hod__null(name, "x", x))
        return NULL;
    hod_shape over = trailing(name, x, dims);
    hod_tensor *c = over.n > 0 ? hod__computed(x) : NULL;
    if (!c)
        return NULL;
    hod_tensor *y = one_row(c, NULL, NULL)
                        ? hod__norm(c, NULL, NULL, over_last(c, dims, eps, centred))
                    : centred ? standardised(c, over, eps)
                              : scaled_to_one(c, over, eps);
    return hod__narrowed_like(y, x);
}

hod_tensor *hod_layer_norm_plain(hod_tensor *x, int dims, double eps)
{
    return plain_over_last("layer_norm", x, dims, eps, true);
}

hod_tensor *hod_layer_norm(hod_tensor *x, hod_tensor *w, hod_tensor *b, double eps)
{
    if (hod__null("layer_norm", "x", x) || hod__null("layer_norm", "w", w) ||
        hod__null("layer_norm", "b", b))
        return NULL;
    if (!fits_trailing(w, x) || b->ndim != w->ndim || !fits_trailing(b, x))
        return HOD_FAIL(ARGUMENT, "layer_norm: %s with weights %s and %s", HOD_SHAPE_TEXT(x),
                        HOD_SHAPE_TEXT(w), HOD_SHAPE_TEXT(b));
    hod_tensor *c = hod__computed(x), *cw = hod__computed(w), *cb = hod__computed(b);
    if (!c || !cw || !cb)
        return NULL;
    if (one_row(c, cw, cb))
        return hod__narrowed_like(hod__norm(c, cw, cb, over_last(c, w->ndim, eps, true)), x);
    return hod__narrowed_like(hod_add(hod_mul(hod_layer_norm_plain(c, w->ndim, eps), cw), cb), x);
}

hod_tensor *hod_rms_norm_plain(hod_tensor *x, int dims, double eps)
{
    return plain_over_last("rms_norm", x, dims, eps, false);
}

hod_tensor *hod_rms_norm(hod_tensor *x, hod_tensor *w, double eps)
{
    if (hod__null("rms_norm", "x", x) || hod__null("rms_norm", "w", w))
        return NULL;
    if (!fits_trailing(w, x))
        return HOD_FAIL(ARGUMENT, "rms_norm: %s with weights %s", HOD_SHAPE_TEXT(x),
                        HOD_SHAPE_TEXT(w));
    hod_tensor *c = hod__computed(x), *cw = hod__computed(w);
    if (!c || !cw)
        return NULL;
    if (one_row(c, cw, NULL))
        return hod__narrowed_like(hod__norm(c, cw, NULL, over_last(c, w->ndim, eps, false)), x);
    return hod__narrowed_like(hod_mul(hod_rms_norm_plain(c, w->ndim, eps), cw), x);
}

/* y w + b for each channel of x, in x's type. */
static hod_tensor *channel_affine(const char *name, hod_tensor *y, hod_tensor *w, hod_tensor *b,
                                  const hod_tensor *x)
{
    return y ? hod__narrowed_like(
                   hod_add(hod_mul(y, per_channel(name, "w", w, x)), per_channel(name, "b", b, x)),
                   x)
             : NULL;
}

static bool is_channel_vector(const hod_tensor *v, const hod_tensor *x)
{
    return v && v->ndim == 1 && v->shape[0] == x->shape[1] && v->dtype == x->dtype;
}

/* The row with weights for channels, where w and b are such and it may have them; else NULL. */
static hod_tensor *channel_row(hod_tensor *x, hod_tensor *w, hod_tensor *b, hod_attrs_norm a)
{
    hod_tensor *c = hod__computed(x), *cw = hod__computed(w), *cb = hod__computed(b);
    bool fits = c && is_channel_vector(cw, c) && is_channel_vector(cb, c) && hod__fuses(c);
    return fits ? hod__narrowed_like(hod__norm(c, cw, cb, a), x) : NULL;
}

static bool has_groups(const hod_tensor *x, int64_t groups)
{
    return x->ndim >= 2 && groups >= 1 && x->shape[1] % groups == 0;
}

hod_tensor *hod_group_norm_plain(hod_tensor *x, int64_t groups, double eps)
{
    if (hod__null("group_norm", "x", x))
        return NULL;
    if (!has_groups(x, groups))
        return HOD_FAIL(ARGUMENT, "group_norm: %s in %lld groups of channels", HOD_SHAPE_TEXT(x),
                        (long long)groups);
    hod_tensor *c = hod__computed(x);
    if (!c)
        return NULL;
    if (one_row(c, NULL, NULL))
        return hod__narrowed_like(hod__norm(c, NULL, NULL, over_groups(c, groups, eps)), x);
    int64_t per_group = hod__numel(x->ndim - 2, x->shape + 2) * (x->shape[1] / groups);
    hod_tensor *g = hod_reshape(c, HOD_SHAPE(x->shape[0], groups, per_group));
    return hod__narrowed_like(hod_reshape(standardised(g, HOD_SHAPE(2), eps), hod_tensor_shape(x)),
                              x);
}

hod_tensor *hod_group_norm(hod_tensor *x, int64_t groups, hod_tensor *w, hod_tensor *b, double eps)
{
    if (hod__null("group_norm", "x", x))
        return NULL;
    hod_tensor *y =
        has_groups(x, groups) && hod_tensor_numel(x) > 0 /* else sets may have no number */
            ? channel_row(x, w, b, over_groups(x, groups, eps))
            : NULL;
    return y ? y
             : channel_affine("group_norm", hod_group_norm_plain(hod__computed(x), groups, eps), w,
                              b, x);
}

/* One value a sample and channel is refused; see docs/ops.md. */
static bool has_instances(const hod_tensor *x)
{
    return x->ndim >= 3 && hod__numel(x->ndim - 2, x->shape + 2) != 1;
}

hod_tensor *hod_instance_norm_plain(hod_tensor *x, double eps)
{
    if (hod__null("instance_norm", "x", x))
        return NULL;
    if (!has_instances(x))
        return HOD_FAIL(ARGUMENT,
                        "instance_norm: %s has one value per sample and channel, two are the least",
                        HOD_SHAPE_TEXT(x));
    return x->shape[1] > 0 ? hod_group_norm_plain(x, x->shape[1], eps) : x;
}

hod_tensor *hod_instance_norm(hod_tensor *x, hod_tensor *w, hod_tensor *b, double eps)
{
    if (hod__null("instance_norm", "x", x))
        return NULL;
    hod_tensor *y = has_instances(x) && x->shape[1] > 0
                        ? channel_row(x, w, b, over_groups(x, x->shape[1], eps))
                        : NULL;
    return y ? y
             : channel_affine("instance_norm", hod_instance_norm_plain(hod__computed(x), eps), w, b,
                              x);
}

static bool has_channels(const hod_tensor *x)
{
    if (x->ndim >= 2)
        return true;
    hod__fail(HOD_ERROR_ARGUMENT, "batch_norm: %s has no channels", HOD_SHAPE_TEXT(x));
    return false;
}

hod_tensor *hod_batch_norm_plain(hod_tensor *x, hod_tensor *mean, hod_tensor *var, double eps)
{
    if (hod__null("batch_norm", "x", x) || !has_channels(x))
        return NULL;
    hod_tensor *d = hod_sub(hod__computed(x), per_channel("batch_norm", "mean", mean, x));
    hod_tensor *scale = hod_rsqrt(hod_add_scalar(per_channel("batch_norm", "var", var, x), eps));
    return hod__narrowed_like(hod_mul(d, scale), x);
}

/* The row with statistics given, where all are of x's type and these want no gradient;
 * else NULL. */
static hod_tensor *given_row(hod_tensor *x, hod_tensor *mean, hod_tensor *var, hod_tensor *w,
                             hod_tensor *b, double eps)
{
    bool fits = hod__fuses(x) && is_channel_vector(w, x) && is_channel_vector(b, x) &&
                is_channel_vector(mean, x) && is_channel_vector(var, x) && !mean->requires_grad &&
                !var->requires_grad;
    return fits ? hod__norm_given(x, w, b, mean, var, over_batch(x, eps)) : NULL;
}

hod_tensor *hod_batch_norm(hod_tensor *x, hod_tensor *mean, hod_tensor *var, hod_tensor *w,
                           hod_tensor *b, double eps)
{
    if (hod__null("batch_norm", "x", x) || !has_channels(x))
        return NULL;
    hod_tensor *y = given_row(x, mean, var, w, b, eps);
    if (y)
        return y;
    hod_tensor *d = hod_sub(hod__computed(x), per_channel("batch_norm", "mean", mean, x));
    hod_tensor *scale =
        hod_mul(hod_rsqrt(hod_add_scalar(per_channel("batch_norm", "var", var, x), eps)),
                per_channel("batch_norm", "w", w, x));
    return hod__narrowed_like(hod_add(hod_mul(d, scale), per_channel("batch_norm", "b", b, x)), x);
}

static bool has_batch(const hod_tensor *x)
{
    if (!has_channels(x))
        return false;
    if (x->shape[1] == 0 || hod_tensor_numel(x) != x->shape[1])
        return true;
    hod__fail(HOD_ERROR_ARGUMENT, "batch_norm: %s has one value per channel, training needs two",
              HOD_SHAPE_TEXT(x));
    return false;
}

hod_tensor *hod_batch_norm_train_plain(hod_tensor *x, double eps)
{
    if (hod__null("batch_norm", "x", x) || !has_batch(x))
        return NULL;
    hod_tensor *c = hod__computed(x);
    if (!c)
        return NULL;
    if (one_row(c, NULL, NULL))
        return hod__narrowed_like(hod__norm(c, NULL, NULL, over_batch(c, eps)), x);
    hod_shape dims = {.n = x->ndim - 1};
    for (int i = 1; i < dims.n; i++)
        dims.d[i] = i + 1;
    return hod__narrowed_like(standardised(c, dims, eps), x);
}

hod_tensor *hod_batch_norm_train(hod_tensor *x, hod_tensor *w, hod_tensor *b, double eps)
{
    if (hod__null("batch_norm", "x", x) || !has_batch(x))
        return NULL;
    hod_tensor *y = channel_row(x, w, b, over_batch(x, eps));
    return y ? y
             : channel_affine("batch_norm", hod_batch_norm_train_plain(hod__computed(x), eps), w, b,
                              x);
}
