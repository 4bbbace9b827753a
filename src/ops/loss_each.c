/* Losses of elements: distances, divergence, binary cross entropy, focal loss.
 *
 * Kinks are where PyTorch has them, and so are the slopes there: 0 in |0|.
 */
#include "ops/loss_parts.h"
#include <float.h>

/* Brings the two to one type and hands the difference's parts to the losses; false: an error. */
static bool prepare(const char *name, hod_tensor **x, hod_tensor **target)
{
    if (hod__null(name, "x", *x) || hod__null(name, "target", *target) ||
        !hod__loss_same_shape(name, *x, *target))
        return false;
    *x = hod__loss_wide(*x);
    *target = hod__loss_like(*target, *x);
    return *x && *target;
}

/* ---- distances ---- */

hod_tensor *hod_mse_each(hod_tensor *x, hod_tensor *target)
{
    return prepare("mse", &x, &target) ? hod_square(hod_sub(x, target)) : NULL;
}

hod_loss hod_mse(hod_tensor *x, hod_tensor *target)
{
    return hod__loss_of_elements(hod_mse_each(x, target));
}

hod_tensor *hod_l1_each(hod_tensor *x, hod_tensor *target)
{
    return prepare("l1", &x, &target) ? hod_abs(hod_sub(x, target)) : NULL;
}

hod_loss hod_l1(hod_tensor *x, hod_tensor *target)
{
    return hod__loss_of_elements(hod_l1_each(x, target));
}

hod_tensor *hod_smooth_l1_each(hod_tensor *x, hod_tensor *target, double beta)
{
    if (!(beta >= 0))
        return HOD_FAIL(ARGUMENT, "smooth_l1: beta %g, must not be negative", beta);
    if (!prepare("smooth_l1", &x, &target))
        return NULL;
    hod_tensor *d = hod_abs(hod_sub(x, target));
    if (beta == 0)
        return d;
    return hod_where(hod_lt_scalar(d, beta), hod_mul_scalar(hod_square(d), 0.5 / beta),
                     hod_sub_scalar(d, 0.5 * beta));
}

hod_loss hod_smooth_l1(hod_tensor *x, hod_tensor *target, double beta)
{
    return hod__loss_of_elements(hod_smooth_l1_each(x, target, beta));
}

hod_tensor *hod_huber_each(hod_tensor *x, hod_tensor *target, double delta)
{
    if (!(delta > 0))
        return HOD_FAIL(ARGUMENT, "huber: delta %g, must be positive", delta);
    if (!prepare("huber", &x, &target))
        return NULL;
    hod_tensor *d = hod_abs(hod_sub(x, target));
    return hod_where(hod_le_scalar(d, delta), hod_mul_scalar(hod_square(d), 0.5),
                     hod_mul_scalar(hod_sub_scalar(d, 0.5 * delta), delta));
}

hod_loss hod_huber(hod_tensor *x, hod_tensor *target, double delta)
{
    return hod__loss_of_elements(hod_huber_each(x, target, delta));
}

/* ---- divergence ---- */

hod_tensor *hod_kl_div_each(hod_tensor *x, hod_tensor *target, bool log_target)
{
    if (!prepare("kl_div", &x, &target))
        return NULL;
    if (log_target)
        return hod_mul(hod_exp(target), hod_sub(target, x));
    hod_tensor *some = hod_ne(target, hod__loss_number(x, 0));
    hod_tensor *log_t = hod_log(hod_where(some, target, hod__loss_number(x, 1)));
    return hod_sub(hod_mul(target, log_t), hod_mul(target, x));
}

hod_loss hod_kl_div(hod_tensor *x, hod_tensor *target, bool log_target)
{
    double n = x && x->ndim > 0 ? (double)x->shape[0] : 1;
    return hod__loss_summed(hod_kl_div_each(x, target, log_target), n);
}

/* ---- binary cross entropy ---- */

/* each times the weight, where there is one. */
static hod_tensor *weigh(const char *name, hod_tensor *each, hod_tensor *w)
{
    if (!each || (!w && !hod__loss_options_hold()))
        return NULL;
    if (!w)
        return each;
    hod_tensor *y = hod_mul(each, hod__loss_like(w, each));
    return y && !hod__loss_same_shape(name, y, each) ? NULL : y;
}

/* max(log p, -100) without a slope where it holds. */
static hod_tensor *bounded_log(hod_tensor *p)
{
    hod_tensor *some = hod_gt_scalar(p, 3.7200759760208361e-44 /* e^-100 */);
    return hod_where(some, hod_log(hod_where(some, p, hod__loss_number(p, 1))),
                     hod__loss_number(p, -100));
}

/* Looks at f32 where they lie in a row, which costs less than the logarithms; at others not. */
static int check_probabilities(const hod_tensor *p)
{
    if (!p->storage->data || p->dtype != HOD_F32 || !hod__is_row_major(p))
        return 0;
    const float *v = hod__data(p);
    int64_t n = hod_tensor_numel(p), outside = 0;
    for (int64_t i = 0; i < n; i++)
        outside += v[i] < 0 || v[i] > 1;
    for (int64_t i = 0; i < n && outside; i++)
        if (v[i] < 0 || v[i] > 1)
            return HOD_FAIL_RC(VALUE, "bce: %g at element %lld is no probability", (double)v[i],
                               (long long)i);
    return 0;
}

hod_tensor *hod_bce_each_with(hod_tensor *p, hod_tensor *target, hod_bce_options o)
{
    if (o.pos_weight)
        return HOD_FAIL(ARGUMENT, "bce: pos_weight is for logits; bce_with_logits has it");
    if (!prepare("bce", &p, &target) || check_probabilities(p) != 0)
        return NULL;
    hod_tensor *one = hod__loss_number(p, 1);
    hod_tensor *each = hod_add(hod_mul(target, bounded_log(p)),
                               hod_mul(hod_sub(one, target), bounded_log(hod_sub(one, p))));
    return weigh("bce", hod_neg(each), o.weight);
}

hod_loss hod_bce_with(hod_tensor *p, hod_tensor *target, hod_bce_options o)
{
    return hod__loss_of_elements(hod_bce_each_with(p, target, o));
}

/* log(1 + e^x) = m + log(e^(x - m) + e^-m) with m = max(x, 0), which cancels and is held constant:
 * smooth at 0, where max and |x| are not. */
static hod_tensor *softplus(hod_tensor *x)
{
    hod_tensor *m = hod_maximum_scalar(hod__stop_gradient(x), 0);
    return hod_add(m, hod_log(hod_add(hod_exp(hod_sub(x, m)), hod_exp(hod_neg(m)))));
}

/* -w t log p - (1 - t) log(1 - p) with both logarithms as softplus, which keeps the digits of a
 * small loss on either side; w, the weight of the positive part, may be NULL. */
static hod_tensor *logits_loss(hod_tensor *x, hod_tensor *t, hod_tensor *w)
{
    hod_tensor *rest = hod_sub(hod__loss_number(x, 1), t);
    hod_tensor *positive = hod_mul(t, softplus(hod_neg(x)));
    if (w)
        positive = hod_mul(positive, hod__loss_like(w, x));
    return hod_add(positive, hod_mul(rest, softplus(x)));
}

hod_tensor *hod_bce_with_logits_each_with(hod_tensor *x, hod_tensor *target, hod_bce_options o)
{
    if (!prepare("bce_with_logits", &x, &target))
        return NULL;
    if (!o.pos_weight && !hod__loss_options_hold())
        return NULL;
    hod_tensor *each = logits_loss(x, target, o.pos_weight);
    if (!each || !hod__loss_same_shape("bce_with_logits", each, x))
        return NULL;
    return weigh("bce_with_logits", each, o.weight);
}

hod_loss hod_bce_with_logits_with(hod_tensor *x, hod_tensor *target, hod_bce_options o)
{
    return hod__loss_of_elements(hod_bce_with_logits_each_with(x, target, o));
}

/* ---- focal ---- */

/* 1 - p_t = p (1 - t) + (1 - p) t, with 1 - p as sigmoid(-x), which keeps its digits where p is
 * nearly 1. It is held above the least normal number: below, a power less than 1 has no slope. */
hod_tensor *hod_focal_each(hod_tensor *x, hod_tensor *target, double alpha, double gamma)
{
    if (!(gamma >= 0) || !(alpha <= 1))
        return HOD_FAIL(ARGUMENT, "focal: alpha %g, gamma %g; wanted alpha <= 1, gamma >= 0", alpha,
                        gamma);
    if (!prepare("focal", &x, &target))
        return NULL;
    hod_tensor *rest = hod_sub(hod__loss_number(x, 1), target);
    hod_tensor *miss =
        hod_add(hod_mul(hod_sigmoid(x), rest), hod_mul(hod_sigmoid(hod_neg(x)), target));
    hod_tensor *each = hod_mul(logits_loss(x, target, NULL),
                               hod_pow_scalar(hod_maximum_scalar(miss, FLT_MIN), gamma));
    if (alpha < 0)
        return each;
    return hod_mul(each, hod_add(hod_mul_scalar(target, alpha), hod_mul_scalar(rest, 1 - alpha)));
}

hod_loss hod_focal(hod_tensor *x, hod_tensor *target, double alpha, double gamma)
{
    return hod__loss_of_elements(hod_focal_each(x, target, alpha, gamma));
}
