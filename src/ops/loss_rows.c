/* Losses of rows: overlap of masks, angles and distances of embeddings. Their norms are hod_norm's,
 * through whose 0 no gradient flows. Each sum has a scope of its own, so that the next finds the
 * temporaries' memory still in the cache.
 */
#include "ops/loss_parts.h"

static hod_shape last_dim(void)
{
    return HOD_SHAPE(-1);
}

/* The sum of a b along the last dimension. */
static hod_tensor *dot(hod_tensor *a, hod_tensor *b)
{
    HOD_SCOPE(s);
    return hod_escape(hod_sum_over(a == b ? hod_square(a) : hod_mul(a, b), last_dim(), false));
}

/* ---- dice ---- */

/* t (N,...) as (N, the rest). */
static hod_tensor *flat(hod_tensor *t)
{
    return t->ndim == 1 ? hod_unsqueeze(t, 1) : hod_flatten(t, 1);
}

hod_tensor *hod_dice_rows(hod_tensor *p, hod_tensor *target, double smooth)
{
    if (hod__null("dice", "p", p) || hod__null("dice", "target", target) ||
        !hod__loss_same_shape("dice", p, target))
        return NULL;
    if (p->ndim < 1 || !(smooth >= 0))
        return HOD_FAIL(ARGUMENT, "dice: of %s with smooth %g", HOD_SHAPE_TEXT(p), smooth);
    hod_tensor *x = hod__computed(flat(p));
    hod_tensor *t = hod__cast_like(flat(target), x);
    hod_tensor *both = dot(x, t);
    hod_tensor *all = hod_sum_over(hod_add(x, t), last_dim(), false);
    hod_tensor *share =
        hod_div(hod_add_scalar(hod_mul_scalar(both, 2), smooth), hod_add_scalar(all, smooth));
    return share ? hod_sub(hod__number(share, 1), share) : NULL;
}

hod_loss hod_dice(hod_tensor *p, hod_tensor *target, double smooth)
{
    return hod__loss_of_elements(hod_dice_rows(p, target, smooth));
}

/* ---- cosine ---- */

hod_tensor *hod_cosine_similarity(hod_tensor *a, hod_tensor *b, int dim, double eps)
{
    if (hod__null("cosine_similarity", "a", a) || hod__null("cosine_similarity", "b", b))
        return NULL;
    a = hod__computed(a);
    b = hod__cast_like(b, a);
    hod_tensor *ab = hod_mul(a, b);
    int d = ab ? hod__dim("cosine_similarity", dim, ab->ndim) : -1;
    if (d < 0)
        return NULL;
    hod_shape shape = hod_tensor_shape(ab), over = HOD_SHAPE(d);
    hod_tensor *la = hod_norm_over(hod_expand(a, shape), 2, over, false);
    hod_tensor *lb = hod_norm_over(hod_expand(b, shape), 2, over, false);
    hod_tensor *by = hod_mul(hod_maximum_scalar(la, eps), hod_maximum_scalar(lb, eps));
    return hod_div(hod_sum_over(ab, over, false), by);
}

/* eps below the root, as PyTorch's, bounds the slope at 0. */
hod_tensor *hod_cosine_embedding_rows(hod_tensor *a, hod_tensor *b, hod_tensor *y, double margin)
{
    if (hod__null("cosine_embedding", "a", a) || hod__null("cosine_embedding", "b", b) ||
        hod__null("cosine_embedding", "y", y) || !hod__loss_same_shape("cosine_embedding", a, b))
        return NULL;
    if (a->ndim < 1 || !hod__same_sizes(a->ndim - 1, a->shape, y->ndim, y->shape))
        return HOD_FAIL(ARGUMENT, "cosine_embedding: %s with targets %s", HOD_SHAPE_TEXT(a),
                        HOD_SHAPE_TEXT(y));
    const double eps = 1e-12;
    a = hod__computed(a);
    b = hod__cast_like(b, a);
    hod_tensor *aa = hod_add_scalar(dot(a, a), eps);
    hod_tensor *bb = hod_add_scalar(dot(b, b), eps);
    hod_tensor *cosine = hod_div(dot(a, b), hod_sqrt(hod_mul(aa, bb)));
    if (!cosine)
        return NULL;
    hod_tensor *zero = hod__number(cosine, 0);
    hod_tensor *unlike = hod_relu(hod_sub_scalar(cosine, margin));
    return hod_where(hod_eq_scalar(y, 1), hod_sub(hod__number(cosine, 1), cosine),
                     hod_where(hod_eq_scalar(y, -1), unlike, zero));
}

hod_loss hod_cosine_embedding(hod_tensor *a, hod_tensor *b, hod_tensor *y, double margin)
{
    return hod__loss_of_elements(hod_cosine_embedding_rows(a, b, y, margin));
}

/* ---- triplets ---- */

/* |a - b + eps| in the p-norm along the last dimension. */
static hod_tensor *distance(hod_tensor *a, hod_tensor *b, double p, double eps)
{
    HOD_SCOPE(s);
    return hod_escape(hod_norm_over(hod_add_scalar(hod_sub(a, b), eps), p, last_dim(), false));
}

hod_tensor *hod_triplet_margin_rows_with(hod_tensor *anchor, hod_tensor *positive,
                                         hod_tensor *negative, hod_triplet_options o)
{
    if (hod__null("triplet_margin", "anchor", anchor) ||
        hod__null("triplet_margin", "positive", positive) ||
        hod__null("triplet_margin", "negative", negative) ||
        !hod__loss_same_shape("triplet_margin", anchor, positive) ||
        !hod__loss_same_shape("triplet_margin", anchor, negative))
        return NULL;
    double margin = o.margin ? o.margin : 1, p = o.p ? o.p : 2, eps = o.eps ? o.eps : 1e-6;
    if (anchor->ndim < 1 || !(margin > 0) || !(p > 0) || !(eps > 0))
        return HOD_FAIL(ARGUMENT, "triplet_margin: %s with margin %g, p %g, eps %g",
                        HOD_SHAPE_TEXT(anchor), margin, p, eps);
    hod_tensor *a = hod__computed(anchor), *b = hod__cast_like(positive, a);
    hod_tensor *c = hod__cast_like(negative, a);
    hod_tensor *near = distance(a, b, p, eps), *far = distance(a, c, p, eps);
    if (o.swap)
        far = hod_minimum(far, distance(b, c, p, eps));
    return hod_relu(hod_add_scalar(hod_sub(near, far), margin));
}

hod_loss hod_triplet_margin_with(hod_tensor *anchor, hod_tensor *positive, hod_tensor *negative,
                                 hod_triplet_options o)
{
    return hod__loss_of_elements(hod_triplet_margin_rows_with(anchor, positive, negative, o));
}
