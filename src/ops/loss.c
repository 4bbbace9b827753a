/* Losses, as a sum and the weight to divide it by: sums of micro-batches add up, means do not.
 *
 * Cross entropy compares class numbers with labels instead of indexing, so that forward and
 * backward are elementwise and fuse into passes over a row of logits:
 *
 *     z = x - max(x)            loss = log(sum exp z) - sum(where(class == label, z, 0))
 *
 * z is subtracted before anything is combined, so that logits of 1e8 keep their digits. A row that
 * is ignored has its logits replaced by 0 first: not even a NaN in them reaches loss or gradient.
 */
#include "ops/rules.h"

static hod_tensor *number(const hod_tensor *like, double value)
{
    return hod_full((hod_dtype)like->dtype, HOD_SHAPE(), value);
}

hod_tensor *hod_loss_mean(hod_loss loss)
{
    return hod_div(loss.sum, loss.weight);
}

/* ---- labels ---- */

static int64_t ignored_label(const hod_cross_entropy_options *o)
{
    return o->ignore_zero ? 0 : o->ignore_index ? o->ignore_index : -100;
}

/* Looks at the labels when they are there to be looked at. A label of a recorded step is an input,
 * and inputs are real. */
static int check_labels(const hod_tensor *target, int64_t classes, bool may_ignore, int64_t ignore)
{
    int64_t n = hod_tensor_numel(target);
    if (!target->storage->data || n == 0)
        return 0;
    int64_t *label = hod__alloc((size_t)n, sizeof *label);
    if (!label)
        return -1;
    int rc = hod_read_ints(target, label, n);
    for (int64_t i = 0; i < n && rc == 0; i++)
        if ((label[i] < 0 || label[i] >= classes) && !(may_ignore && label[i] == ignore))
            rc = may_ignore
                     ? HOD_FAIL_RC(VALUE, "cross_entropy: label %lld of row %lld is outside "
                                          "0..%lld and is not the ignored %lld",
                                   (long long)label[i], (long long)i, (long long)classes - 1,
                                   (long long)ignore)
                     : HOD_FAIL_RC(VALUE, "nll: label %lld of row %lld is outside 0..%lld",
                                   (long long)label[i], (long long)i, (long long)classes - 1);
    free(label);
    return rc;
}

/* logits (N,C,d...), target (N,d...). */
static int check_shapes(const char *name, const hod_tensor *x, const hod_tensor *target)
{
    bool fits = x->ndim >= 2 && target->ndim == x->ndim - 1 && x->shape[0] == target->shape[0];
    for (int i = 2; fits && i < x->ndim; i++)
        fits = x->shape[i] == target->shape[i - 1];
    if (!fits)
        return HOD_FAIL_RC(ARGUMENT, "%s: %s with targets %s", name, HOD_SHAPE_TEXT(x),
                           HOD_SHAPE_TEXT(target));
    if (x->dtype > HOD_BF16 || (target->dtype != HOD_I64 && target->dtype != HOD_I32 &&
                                target->dtype != HOD_U8))
        return HOD_FAIL_RC(ARGUMENT, "%s: %s with targets of %s", name,
                           hod_dtype_name((hod_dtype)x->dtype),
                           hod_dtype_name((hod_dtype)target->dtype));
    return 0;
}

/* bool (N,C,d...): is this class the row's label? */
static hod_tensor *is_label(const hod_tensor *x, hod_tensor *label)
{
    hod_shape classes = {.n = x->ndim};
    for (int i = 0; i < x->ndim; i++)
        classes.d[i] = i == 1 ? x->shape[1] : 1;
    return hod_eq(hod_iota(HOD_I64, classes, 1), label);
}

/* ---- cross entropy ---- */

/* The loss of each row, kept as (N,1,d...); `counts`, of that shape, says which rows count. */
static hod_tensor *row_losses(hod_tensor *x, hod_tensor *label, hod_tensor *counts,
                              double smoothing)
{
    hod_tensor *shift = hod_amax_keep(hod__stop_gradient(x), 1);
    hod_tensor *raw = hod_sub(x, hod_where(hod_isfinite(shift), shift, number(x, 0)));
    hod_tensor *z = hod_where(counts, raw, number(x, 0));
    hod_tensor *log_sum = hod_log(hod_sum_keep(hod_exp(z), 1));
    hod_tensor *chosen = hod_sum_keep(hod_where(is_label(x, label), z, number(x, 0)), 1);
    hod_tensor *loss = hod_sub(log_sum, chosen);
    if (smoothing != 0)
        loss = hod_add(hod_mul_scalar(loss, 1 - smoothing),
                       hod_mul_scalar(hod_sub(log_sum, hod_mean_keep(z, 1)), smoothing));
    return hod_where(counts, loss, number(x, 0));
}

/* Checks and prepares: *counts (N,1,d...) bool, and the losses in that shape. */
static hod_tensor *cross_entropy(hod_tensor *logits, hod_tensor *target,
                                 const hod_cross_entropy_options *o, hod_tensor **counts)
{
    if (!logits || !target || check_shapes("cross_entropy", logits, target) != 0)
        return NULL;
    if (!(o->label_smoothing >= 0 && o->label_smoothing <= 1))
        return HOD_FAIL(ARGUMENT, "cross_entropy: label smoothing %g", o->label_smoothing);
    int64_t ignore = ignored_label(o);
    if (check_labels(target, logits->shape[1], true, ignore) != 0)
        return NULL;
    hod_tensor *x = logits->dtype == HOD_F64 ? logits : hod__cast_to(logits, HOD_F32);
    hod_tensor *label = hod_unsqueeze(hod__cast_to(target, HOD_I64), 1);
    *counts = hod_ne_scalar(label, (double)ignore);
    return x && *counts ? row_losses(x, label, *counts, o->label_smoothing) : NULL;
}

hod_tensor *hod_cross_entropy_rows_with(hod_tensor *logits, hod_tensor *target,
                                        hod_cross_entropy_options o)
{
    hod_tensor *counts;
    return hod_squeeze(cross_entropy(logits, target, &o, &counts), 1);
}

hod_loss hod_cross_entropy_with(hod_tensor *logits, hod_tensor *target,
                                hod_cross_entropy_options o)
{
    hod_tensor *counts;
    hod_tensor *rows = cross_entropy(logits, target, &o, &counts);
    if (!rows)
        return (hod_loss){0};
    hod_loss loss = {hod_sum(rows), hod_sum(hod__cast_to(counts, (hod_dtype)rows->dtype))};
    return loss.sum && loss.weight ? loss : (hod_loss){0};
}

/* ---- others ---- */

static hod_loss summed(hod_tensor *each, double weight)
{
    hod_loss loss = {hod_sum(each), each ? number(each, weight) : NULL};
    return loss.sum && loss.weight ? loss : (hod_loss){0};
}

hod_loss hod_nll(hod_tensor *log_p, hod_tensor *target)
{
    if (!log_p || !target || check_shapes("nll", log_p, target) != 0 ||
        check_labels(target, log_p->shape[1], false, 0) != 0)
        return (hod_loss){0};
    hod_tensor *label = hod_unsqueeze(hod__cast_to(target, HOD_I64), 1);
    hod_tensor *chosen = hod_where(is_label(log_p, label), log_p, number(log_p, 0));
    return summed(hod_neg(chosen), (double)hod_tensor_numel(target));
}

static bool same_shape(const char *name, const hod_tensor *x, const hod_tensor *y)
{
    if (x->ndim == y->ndim && memcmp(x->shape, y->shape, (size_t)x->ndim * sizeof *x->shape) == 0)
        return true;
    hod__fail(HOD_ERROR_ARGUMENT, "%s: %s with targets %s", name, HOD_SHAPE_TEXT(x),
              HOD_SHAPE_TEXT(y));
    return false;
}

hod_loss hod_mse(hod_tensor *x, hod_tensor *target)
{
    if (!x || !target || !same_shape("mse", x, target))
        return (hod_loss){0};
    return summed(hod_square(hod_sub(x, target)), (double)hod_tensor_numel(x));
}

/* max(x, 0) - x t + log(1 + exp(-|x|)). At x = 0 both kinks meet: the maximum shares its gradient
 * with the 0 there, which gives the sigmoid's 1/2, as relu would not. */
hod_loss hod_bce_with_logits(hod_tensor *x, hod_tensor *target)
{
    if (!x || !target || !same_shape("bce_with_logits", x, target))
        return (hod_loss){0};
    hod_tensor *tail = hod_log(hod_add_scalar(hod_exp(hod_neg(hod_abs(x))), 1));
    hod_tensor *each = hod_add(hod_sub(hod_maximum_scalar(x, 0), hod_mul(x, target)), tail);
    return summed(each, (double)hod_tensor_numel(x));
}
