/* Losses of elements: distances, divergence, binary cross entropy, focal loss.
 *
 * Kinks are where PyTorch has them, and so are the slopes there: 0 in |0|. A loss is a composition,
 * and where it runs at once a row of losses.def (fused.h); its slope by operators is for
 * derivatives that are recorded or differentiated again.
 */
#include "ops/fused.h"
#include "ops/loss_parts.h"
#include <float.h>

/* Brings the two to one type and hands the difference's parts to the losses; false: an error. */
static bool prepare(const char *name, hod_tensor **x, hod_tensor **target)
{
    if (hod__null(name, "x", *x) || hod__null(name, "target", *target) ||
        !hod__loss_same_shape(name, *x, *target))
        return false;
    *x = hod__computed(*x);
    *target = hod__cast_like(*target, *x);
    return *x && *target;
}

/* ---- distances ---- */

static hod_tensor *mse(hod_tensor *x, hod_tensor *t, double number)
{
    (void)number;
    return hod_square(hod_sub(x, t));
}

static hod_tensor *mse_slope(hod_tensor *x, hod_tensor *t, double number)
{
    (void)number;
    return hod_mul_scalar(hod_sub(x, t), 2);
}

static hod_tensor *l1(hod_tensor *x, hod_tensor *t, double number)
{
    (void)number;
    return hod_abs(hod_sub(x, t));
}

static hod_tensor *l1_slope(hod_tensor *x, hod_tensor *t, double number)
{
    (void)number;
    return hod_sign(hod_sub(x, t));
}

static hod_tensor *smooth_l1(hod_tensor *x, hod_tensor *t, double beta)
{
    hod_tensor *d = hod_abs(hod_sub(x, t));
    return hod_where(hod_lt_scalar(d, beta), hod_mul_scalar(hod_square(d), 0.5 / beta),
                     hod_sub_scalar(d, 0.5 * beta));
}

static hod_tensor *smooth_l1_slope(hod_tensor *x, hod_tensor *t, double beta)
{
    hod_tensor *d = hod_sub(x, t);
    return hod_where(hod_lt_scalar(hod_abs(d), beta), hod_mul_scalar(d, 1 / beta), hod_sign(d));
}

static hod_tensor *huber(hod_tensor *x, hod_tensor *t, double delta)
{
    hod_tensor *d = hod_abs(hod_sub(x, t));
    return hod_where(hod_le_scalar(d, delta), hod_mul_scalar(hod_square(d), 0.5),
                     hod_mul_scalar(hod_sub_scalar(d, 0.5 * delta), delta));
}

static hod_tensor *huber_slope(hod_tensor *x, hod_tensor *t, double delta)
{
    hod_tensor *d = hod_sub(x, t);
    return hod_where(hod_le_scalar(hod_abs(d), delta), d, hod_mul_scalar(hod_sign(d), delta));
}

/* ---- divergence ---- */

/* log t, 0 where t is 0. */
static hod_tensor *some_log(hod_tensor *t)
{
    hod_tensor *some = hod_ne(t, hod__number(t, 0));
    return hod_log(hod_where(some, t, hod__number(t, 1)));
}

static hod_tensor *kl_div(hod_tensor *x, hod_tensor *t, double number)
{
    (void)number;
    return hod_sub(hod_mul(t, some_log(t)), hod_mul(t, x));
}

static hod_tensor *kl_div_slope(hod_tensor *x, hod_tensor *t, double number)
{
    (void)x, (void)number;
    return hod_neg(t);
}

static hod_tensor *kl_div_slope_t(hod_tensor *x, hod_tensor *t, double number)
{
    (void)number;
    hod_tensor *some = hod__cast_like(hod_ne(t, hod__number(t, 0)), x);
    return hod_sub(hod_add(some_log(t), some), x);
}

static hod_tensor *kl_div_log(hod_tensor *x, hod_tensor *t, double number)
{
    (void)number;
    return hod_mul(hod_exp(t), hod_sub(t, x));
}

static hod_tensor *kl_div_log_slope(hod_tensor *x, hod_tensor *t, double number)
{
    (void)x, (void)number;
    return hod_neg(hod_exp(t));
}

static hod_tensor *kl_div_log_slope_t(hod_tensor *x, hod_tensor *t, double number)
{
    (void)number;
    return hod_mul(hod_exp(t), hod_add_scalar(hod_sub(t, x), 1));
}

/* ---- binary cross entropy ---- */

/* max(log p, -100) without a slope where it holds. */
static hod_tensor *bounded_log(hod_tensor *p)
{
    hod_tensor *some = hod_gt_scalar(p, HOD_LEAST_PROBABILITY);
    return hod_where(some, hod_log(hod_where(some, p, hod__number(p, 1))), hod__number(p, -100));
}

static hod_tensor *bce(hod_tensor *p, hod_tensor *t, double number)
{
    (void)number;
    hod_tensor *one = hod__number(p, 1);
    hod_tensor *each =
        hod_add(hod_mul(t, bounded_log(p)), hod_mul(hod_sub(one, t), bounded_log(hod_sub(one, p))));
    return hod_neg(each);
}

/* The slope of bounded_log. */
static hod_tensor *bounded_inverse(hod_tensor *p)
{
    hod_tensor *some = hod_gt_scalar(p, HOD_LEAST_PROBABILITY);
    return hod_where(some, hod_reciprocal(hod_where(some, p, hod__number(p, 1))),
                     hod__number(p, 0));
}

static hod_tensor *bce_slope(hod_tensor *p, hod_tensor *t, double number)
{
    (void)number;
    hod_tensor *one = hod__number(p, 1);
    return hod_sub(hod_mul(hod_sub(one, t), bounded_inverse(hod_sub(one, p))),
                   hod_mul(t, bounded_inverse(p)));
}

static hod_tensor *bce_slope_t(hod_tensor *p, hod_tensor *t, double number)
{
    (void)t, (void)number;
    return hod_sub(bounded_log(hod_sub(hod__number(p, 1), p)), bounded_log(p));
}

/* -t log p - (1 - t) log(1 - p) with both logarithms as softplus, which keeps the digits of a
 * small loss on either side. */
static hod_tensor *logits_loss(hod_tensor *x, hod_tensor *t)
{
    hod_tensor *rest = hod_sub(hod__number(x, 1), t);
    return hod_add(hod_mul(t, hod_softplus(hod_neg(x))), hod_mul(rest, hod_softplus(x)));
}

static hod_tensor *bce_with_logits(hod_tensor *x, hod_tensor *t, double number)
{
    (void)number;
    return logits_loss(x, t);
}

static hod_tensor *bce_with_logits_slope(hod_tensor *x, hod_tensor *t, double number)
{
    (void)number;
    hod_tensor *rest = hod_sub(hod__number(x, 1), t);
    return hod_sub(hod_mul(rest, hod_sigmoid(x)), hod_mul(t, hod_sigmoid(hod_neg(x))));
}

static hod_tensor *bce_with_logits_slope_t(hod_tensor *x, hod_tensor *t, double number)
{
    (void)t, (void)number;
    return hod_sub(hod_softplus(hod_neg(x)), hod_softplus(x));
}

/* ---- of each, and summed ---- */

typedef hod_tensor *part(hod_tensor *x, hod_tensor *t, double number);
static const struct {
    const char *name;
    part *each, *slope, *slope_t; /* NULL: that of a distance, minus the other */
} losses[HOD_LOSSES] = {
    [HOD_LOSS_mse] = {"mse", mse, mse_slope, NULL},
    [HOD_LOSS_l1] = {"l1", l1, l1_slope, NULL},
    [HOD_LOSS_smooth_l1] = {"smooth_l1", smooth_l1, smooth_l1_slope, NULL},
    [HOD_LOSS_huber] = {"huber", huber, huber_slope, NULL},
    [HOD_LOSS_kl_div] = {"kl_div", kl_div, kl_div_slope, kl_div_slope_t},
    [HOD_LOSS_kl_div_log] = {"kl_div", kl_div_log, kl_div_log_slope, kl_div_log_slope_t},
    [HOD_LOSS_bce] = {"bce", bce, bce_slope, bce_slope_t},
    [HOD_LOSS_bce_with_logits] = {"bce_with_logits", bce_with_logits, bce_with_logits_slope,
                                  bce_with_logits_slope_t},
};

hod_tensor *hod__loss_slope(hod_element_loss loss, hod_tensor *x, hod_tensor *t, double number,
                            int i)
{
    if (i == 1 && losses[loss].slope_t)
        return losses[loss].slope_t(x, t, number);
    hod_tensor *slope = losses[loss].slope(x, t, number);
    return i == 0 ? slope : hod_neg(slope);
}

static hod_tensor *row(hod_op op, hod_element_loss loss, hod_tensor *x, hod_tensor *t,
                       double number)
{
    HOD_ATTRS(a);
    a.loss = (hod_attrs_loss){.loss = loss, .number = number};
    return hod__op(op, &a, 2, (hod_tensor *[]){x, t});
}

/* The loss of each of prepared inputs. */
static hod_tensor *each_of(hod_element_loss loss, hod_tensor *x, hod_tensor *t, double number)
{
    return hod__fuses(x) ? row(HOD_OP_loss_each, loss, x, t, number)
                         : losses[loss].each(x, t, number);
}

static hod_tensor *each(hod_element_loss loss, hod_tensor *x, hod_tensor *t, double number)
{
    return prepare(losses[loss].name, &x, &t) ? each_of(loss, x, t, number) : NULL;
}

/* The sum of prepared inputs' losses. */
static hod_loss sum_of(hod_element_loss loss, hod_tensor *x, hod_tensor *t, double number,
                       double weight)
{
    if (!hod__fuses(x))
        return hod__loss_summed(losses[loss].each(x, t, number), weight);
    hod_loss l = {row(HOD_OP_loss_sum, loss, x, t, number), hod__number(x, weight)};
    return l.sum && l.weight ? l : (hod_loss){0};
}

static hod_loss sum(hod_element_loss loss, hod_tensor *x, hod_tensor *t, double number)
{
    return prepare(losses[loss].name, &x, &t)
               ? sum_of(loss, x, t, number, (double)hod_tensor_numel(x))
               : (hod_loss){0};
}

hod_tensor *hod_mse_each(hod_tensor *x, hod_tensor *target)
{
    return each(HOD_LOSS_mse, x, target, 0);
}

hod_loss hod_mse(hod_tensor *x, hod_tensor *target)
{
    return sum(HOD_LOSS_mse, x, target, 0);
}

hod_tensor *hod_l1_each(hod_tensor *x, hod_tensor *target)
{
    return each(HOD_LOSS_l1, x, target, 0);
}

hod_loss hod_l1(hod_tensor *x, hod_tensor *target)
{
    return sum(HOD_LOSS_l1, x, target, 0);
}

/* Without a bend it is the distance. */
static hod_element_loss bent(double beta)
{
    if (!(beta >= 0))
        hod__fail(HOD_ERROR_ARGUMENT, "smooth_l1: beta %g, must not be negative", beta);
    return beta == 0 ? HOD_LOSS_l1 : beta > 0 ? HOD_LOSS_smooth_l1 : HOD_LOSSES;
}

hod_tensor *hod_smooth_l1_each(hod_tensor *x, hod_tensor *target, double beta)
{
    hod_element_loss loss = bent(beta);
    return loss < HOD_LOSSES && prepare("smooth_l1", &x, &target) ? each_of(loss, x, target, beta)
                                                                  : NULL;
}

hod_loss hod_smooth_l1(hod_tensor *x, hod_tensor *target, double beta)
{
    hod_element_loss loss = bent(beta);
    return loss < HOD_LOSSES && prepare("smooth_l1", &x, &target)
               ? sum_of(loss, x, target, beta, (double)hod_tensor_numel(x))
               : (hod_loss){0};
}

static bool positive(double delta)
{
    if (!(delta > 0))
        hod__fail(HOD_ERROR_ARGUMENT, "huber: delta %g, must be positive", delta);
    return delta > 0;
}

hod_tensor *hod_huber_each(hod_tensor *x, hod_tensor *target, double delta)
{
    return positive(delta) ? each(HOD_LOSS_huber, x, target, delta) : NULL;
}

hod_loss hod_huber(hod_tensor *x, hod_tensor *target, double delta)
{
    return positive(delta) ? sum(HOD_LOSS_huber, x, target, delta) : (hod_loss){0};
}

static hod_element_loss divergence(bool log_target)
{
    return log_target ? HOD_LOSS_kl_div_log : HOD_LOSS_kl_div;
}

hod_tensor *hod_kl_div_each(hod_tensor *x, hod_tensor *target, bool log_target)
{
    return each(divergence(log_target), x, target, 0);
}

hod_loss hod_kl_div(hod_tensor *x, hod_tensor *target, bool log_target)
{
    if (!prepare("kl_div", &x, &target))
        return (hod_loss){0};
    return sum_of(divergence(log_target), x, target, 0, x->ndim > 0 ? (double)x->shape[0] : 1);
}

/* ---- with weights ---- */

/* each times the weight, where there is one. */
static hod_tensor *weigh(const char *name, hod_tensor *each, hod_tensor *w)
{
    if (!each || (!w && !hod__options_hold()))
        return NULL;
    if (!w)
        return each;
    hod_tensor *y = hod_mul(each, hod__cast_like(w, each));
    return y && !hod__loss_same_shape(name, y, each) ? NULL : y;
}

/* The first of n elements that is no probability; n: all are. */
#define FIRST_OUTSIDE(type)                                                                        \
    static int64_t first_outside_##type(const type *v, int64_t n)                                  \
    {                                                                                              \
        int64_t outside = 0, i = 0;                                                                \
        for (int64_t k = 0; k < n; k++)                                                            \
            outside += v[k] < 0 || v[k] > 1;                                                       \
        while (outside && !(v[i] < 0 || v[i] > 1))                                                 \
            i++;                                                                                   \
        return outside ? i : n;                                                                    \
    }
FIRST_OUTSIDE(float)
FIRST_OUTSIDE(double)

/* Looks at those that lie in a row, which costs less than the logarithms; at others not. */
static int check_probabilities(const hod_tensor *p)
{
    int64_t n = hod_tensor_numel(p);
    if (n == 0 || !p->storage->data || !hod__is_row_major(p))
        return 0;
    bool wide = p->dtype == HOD_F64;
    const void *v = hod__data(p);
    int64_t i = wide ? first_outside_double(v, n) : first_outside_float(v, n);
    if (i == n)
        return 0;
    return HOD_FAIL_RC(VALUE, "bce: %g at element %lld is no probability",
                       wide ? ((const double *)v)[i] : (double)((const float *)v)[i], (long long)i);
}

hod_tensor *hod_bce_each_with(hod_tensor *p, hod_tensor *target, hod_bce_options o)
{
    if (o.pos_weight)
        return HOD_FAIL(ARGUMENT, "bce: pos_weight is for logits; bce_with_logits has it");
    if (!prepare("bce", &p, &target) || check_probabilities(p) != 0)
        return NULL;
    return weigh("bce", each_of(HOD_LOSS_bce, p, target, 0), o.weight);
}

/* Nothing weighs the elements, and no tensor that failed stands for nothing. */
static bool plain(const hod_tensor *x, const hod_bce_options *o)
{
    return x && hod__fuses(x) && !o->weight && !o->pos_weight && hod__options_hold();
}

hod_loss hod_bce_with(hod_tensor *p, hod_tensor *target, hod_bce_options o)
{
    if (!plain(p, &o))
        return hod__loss_of_elements(hod_bce_each_with(p, target, o));
    if (!prepare("bce", &p, &target) || check_probabilities(p) != 0)
        return (hod_loss){0};
    return sum_of(HOD_LOSS_bce, p, target, 0, (double)hod_tensor_numel(p));
}

hod_tensor *hod_bce_with_logits_each_with(hod_tensor *x, hod_tensor *target, hod_bce_options o)
{
    if (!prepare("bce_with_logits", &x, &target))
        return NULL;
    if (!o.pos_weight && !hod__options_hold())
        return NULL;
    hod_tensor *each = o.pos_weight ? hod_logits_loss(x, target, hod__cast_like(o.pos_weight, x))
                                    : each_of(HOD_LOSS_bce_with_logits, x, target, 0);
    if (!each || !hod__loss_same_shape("bce_with_logits", each, x))
        return NULL;
    return weigh("bce_with_logits", each, o.weight);
}

hod_loss hod_bce_with_logits_with(hod_tensor *x, hod_tensor *target, hod_bce_options o)
{
    return plain(x, &o) ? sum(HOD_LOSS_bce_with_logits, x, target, 0)
                        : hod__loss_of_elements(hod_bce_with_logits_each_with(x, target, o));
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
    hod_tensor *rest = hod_sub(hod__number(x, 1), target);
    hod_tensor *miss =
        hod_add(hod_mul(hod_sigmoid(x), rest), hod_mul(hod_sigmoid(hod_neg(x)), target));
    hod_tensor *each =
        hod_mul(logits_loss(x, target), hod_pow_scalar(hod_maximum_scalar(miss, FLT_MIN), gamma));
    if (alpha < 0)
        return each;
    return hod_mul(each, hod_add(hod_mul_scalar(target, alpha), hod_mul_scalar(rest, 1 - alpha)));
}

hod_loss hod_focal(hod_tensor *x, hod_tensor *target, double alpha, double gamma)
{
    return hod__loss_of_elements(hod_focal_each(x, target, alpha, gamma));
}
