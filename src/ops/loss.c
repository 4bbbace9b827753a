/* Losses of classes: cross entropy, log likelihood, and the focal loss of a distribution.
 *
 * Cross entropy compares class numbers with labels instead of indexing, so that forward and
 * backward are elementwise and fuse into passes over a row of logits:
 *
 *     z = x - max(x)            loss = log(sum exp z) - sum(where(class == label, z, 0))
 *
 * z is subtracted before anything is combined, so that logits of 1e8 keep their digits. A row that
 * is ignored has its logits replaced by 0 first: not even a NaN in them reaches loss or gradient.
 * Where it runs at once, cross entropy with labels is the FUSED row of that name (fused.h), and a
 * label's element is gathered.
 *
 * Sums of micro-batches add up, means do not: hence a sum and the weight to divide it by.
 */
#include "ops/fused.h"
#include "ops/loss_parts.h"

hod_tensor *hod_loss_mean(hod_loss loss)
{
    if (hod__null("loss_mean", "the sum", loss.sum) ||
        hod__null("loss_mean", "the weight", loss.weight))
        return NULL;
    return hod_div(loss.sum, loss.weight);
}

/* One call as it is worked on: everything with the classes in dimension 1. */
typedef struct rows {
    const char *name;
    hod_tensor *x;      /* (N,C,d...) */
    hod_tensor *label;  /* i64 (N,1,d...); NULL: distributions */
    hod_tensor *counts; /* bool (N,1,d...); NULL: every row is known to count */
    hod_tensor *share;  /* distributions (N,C,d...) */
    hod_tensor *weight; /* (1,C,1...), or NULL */
    double smoothing;
    int64_t ignored; /* label that counts for nothing */
    bool one_row;    /* x came as (C) */
} rows;

/* ---- labels ---- */

static int64_t ignored_label(const hod_cross_entropy_options *o)
{
    return o->ignore_zero ? 0 : o->ignore_index ? o->ignore_index : -100;
}

/* The labels as i64: where they lie, or a copy in *room. NULL with an error. */
static const int64_t *read_labels(const hod_tensor *target, int64_t n, int64_t **room)
{
    *room = NULL;
    if (target->dtype == HOD_I64 && hod__is_row_major(target))
        return hod__data(target);
    *room = hod__alloc((size_t)n, sizeof **room);
    return *room && hod_read_ints(target, *room, n) == 0 ? *room : NULL;
}

/* Looks at the labels when they are there to be looked at. A label of a recorded step is an input,
 * and inputs are real. */
static int check_labels(const char *name, const hod_tensor *target, int64_t classes, int64_t ignore,
                        bool *all_count)
{
    int64_t n = hod_tensor_numel(target), *room;
    if (!target->storage->data || n == 0)
        return 0;
    const int64_t *label = read_labels(target, n, &room);
    int64_t ignored = 0, outside = 0;
    for (int64_t i = 0; label && i < n; i++) {
        bool skipped = label[i] == ignore;
        ignored += skipped;
        outside += !skipped & ((uint64_t)label[i] >= (uint64_t)classes);
    }
    *all_count = ignored == 0;
    int rc = label ? 0 : -1;
    for (int64_t i = 0; outside > 0 && rc == 0; i++)
        if ((label[i] < 0 || label[i] >= classes) && label[i] != ignore)
            rc = HOD_FAIL_RC(VALUE,
                             "%s: label %lld of row %lld is outside 0..%lld and is not the ignored "
                             "%lld",
                             name, (long long)label[i], (long long)i, (long long)classes - 1,
                             (long long)ignore);
    free(room);
    return rc;
}

static bool is_soft(const hod_tensor *target)
{
    return hod__is_float(target->dtype);
}

/* The shape of labels for logits x (of one dimension or more): x's without its classes. */
static hod_meta labels_for(const hod_tensor *x)
{
    hod_meta labels = hod__meta(x);
    for (int i = 1; i < x->ndim - 1; i++)
        labels.shape[i] = x->shape[i + 1];
    labels.ndim--;
    return labels;
}

/* logits (N,C,d...) with target (N,d...), or of the same shape when soft. */
static int check_shapes(const char *name, const hod_tensor *x, const hod_tensor *target)
{
    if (x->ndim < 1)
        return HOD_FAIL_RC(ARGUMENT, "%s: logits (), wanted (N,C)", name);
    bool fits = true;
    if (is_soft(target)) {
        if (target->ndim == x->ndim - 1)
            return HOD_FAIL_RC(ARGUMENT, "%s: targets are %s, wanted i64 labels or floats like %s",
                               name, hod_dtype_name((hod_dtype)target->dtype), HOD_SHAPE_TEXT(x));
        fits = hod__loss_same_shape(name, x, target);
    } else {
        fits = target->ndim == x->ndim - 1;
        for (int i = 0; fits && i < target->ndim; i++)
            fits = target->shape[i] == x->shape[i == 0 ? 0 : i + 1];
    }
    hod_meta labels = labels_for(x);
    if (!fits)
        return HOD_FAIL_RC(ARGUMENT, "%s: %s with targets %s, wanted %s", name, HOD_SHAPE_TEXT(x),
                           HOD_SHAPE_TEXT(target), HOD_META_TEXT(&labels));
    if (!hod__is_float(x->dtype))
        return HOD_FAIL_RC(ARGUMENT, "%s: logits are %s, wanted floats", name,
                           hod_dtype_name((hod_dtype)x->dtype));
    if (target->dtype == HOD_BOOL)
        return HOD_FAIL_RC(ARGUMENT, "%s: targets are bool, wanted i64 labels or floats like %s",
                           name, HOD_SHAPE_TEXT(x));
    return 0;
}

/* (1,C,1...) of x's type; NULL with an error when it is not (C). */
static hod_tensor *class_weights(const rows *r, hod_tensor *w)
{
    int64_t classes = r->x->shape[1];
    if (w->ndim != 1 || w->shape[0] != classes)
        return HOD_FAIL(ARGUMENT, "%s: class weights %s for %lld classes", r->name,
                        HOD_SHAPE_TEXT(w), (long long)classes);
    hod_shape s = {.n = r->x->ndim};
    for (int i = 0; i < s.n; i++)
        s.d[i] = i == 1 ? classes : 1;
    return hod_reshape(hod__cast_like(w, r->x), s);
}

/* Checks and fills r; 0 or -1. */
static int rows_of(rows *r, hod_tensor *x, hod_tensor *target, const hod_cross_entropy_options *o)
{
    if (hod__null(r->name, "x", x) || hod__null(r->name, "target", target) ||
        check_shapes(r->name, x, target) != 0)
        return -1;
    if (!(o->label_smoothing >= 0 && o->label_smoothing <= 1))
        return HOD_FAIL_RC(ARGUMENT, "%s: label smoothing %g, wanted 0 to 1", r->name,
                           o->label_smoothing);
    bool soft = is_soft(target), all_count = false;
    int64_t ignore = r->ignored = ignored_label(o);
    r->one_row = x->ndim == 1;
    if (r->one_row) {
        x = hod_unsqueeze(x, 0);
        target = hod_unsqueeze(target, 0);
        if (!x || !target)
            return -1;
    }
    if (!soft && check_labels(r->name, target, x->shape[1], ignore, &all_count) != 0)
        return -1;
    r->x = hod__computed(x);
    r->smoothing = o->label_smoothing;
    if (!r->x)
        return -1;
    all_count = all_count && hod__fuses(r->x); /* a recorded step may see other labels */
    if (soft) {
        r->share = hod__cast_like(target, r->x);
    } else {
        r->label = hod_unsqueeze(hod__cast_to(target, HOD_I64), 1);
        r->counts = all_count ? NULL : hod_ne_scalar(r->label, (double)ignore);
    }
    if (!o->class_weight && !hod__options_hold())
        return -1;
    r->weight = o->class_weight ? class_weights(r, o->class_weight) : NULL;
    bool targets = soft ? r->share != NULL : r->label && (r->counts || all_count);
    return targets && (r->weight || !o->class_weight) ? 0 : -1;
}

/* The weights as (C). */
static hod_tensor *class_row(const rows *r)
{
    return hod_reshape(r->weight, HOD_SHAPE(r->x->shape[1]));
}

/* bool (N,C,d...): is this class the row's label? */
static hod_tensor *is_label(const rows *r)
{
    hod_shape classes = {.n = r->x->ndim};
    for (int i = 0; i < r->x->ndim; i++)
        classes.d[i] = i == 1 ? r->x->shape[1] : 1;
    return hod_eq(hod_iota(HOD_I64, classes, 1), r->label);
}

/* The element of t (N or 1,C,d...) that is the row's label's: (N,1,d...).
 * Of an ignored label: any. */
static hod_tensor *at_label(const rows *r, hod_tensor *t)
{
    if (hod__fuses(r->x)) {
        hod_tensor *label = r->label;
        if (r->counts)
            label = hod_where(r->counts, label, hod_full(HOD_I64, HOD_SHAPE(), 0));
        return t == r->weight ? hod_embedding(class_row(r), label) : hod_gather(t, 1, label);
    }
    return hod_sum_keep(hod_where(is_label(r), t, hod__number(r->x, 0)), 1);
}

/* t, 0 in rows that do not count. */
static hod_tensor *counted(const rows *r, hod_tensor *t)
{
    return r->counts ? hod_where(r->counts, t, hod__number(r->x, 0)) : t;
}

/* Rows back in the target's shape. */
static hod_tensor *dropped(const rows *r, hod_tensor *y)
{
    y = hod_squeeze(y, 1);
    return r->one_row ? hod_squeeze(y, 0) : y;
}

/* The weight to divide by. */
static hod_tensor *weight_of(const rows *r)
{
    if (!r->counts && !(r->label && r->weight)) {
        int64_t n = hod_tensor_numel(r->x);
        return hod__number(r->x, n > 0 ? (double)(n / r->x->shape[1]) : 0);
    }
    if (!r->counts)
        return hod_sum(at_label(r, r->weight));
    hod_tensor *each = hod__cast_like(r->counts, r->x);
    return hod_sum(r->weight ? hod_mul(each, at_label(r, r->weight)) : each);
}

static hod_loss loss_of(const rows *r, hod_tensor *each)
{
    hod_loss loss = {hod_sum(each), each ? weight_of(r) : NULL};
    return loss.sum && loss.weight ? loss : (hod_loss){0};
}

/* ---- cross entropy ---- */

static hod_tensor *weighted(const rows *r, hod_tensor *t)
{
    return r->weight ? hod_mul(t, r->weight) : t;
}

/* log(sum exp z) and z of the logits, those of ignored rows set to 0. */
static hod_tensor *log_sum(const rows *r, hod_tensor **z)
{
    *z = counted(r, hod_sub(r->x, hod__exp_shift(r->x, 1)));
    return hod_log(hod_sum_keep(hod_exp(*z), 1));
}

/* -sum_c w_c q_c log p_c, for distributions q: (N,1,d...). */
static hod_tensor *soft_losses(const rows *r)
{
    hod_tensor *z, *sum = log_sum(r, &z), *share = r->share;
    if (r->smoothing != 0)
        share = hod_add_scalar(hod_mul_scalar(share, 1 - r->smoothing),
                               r->smoothing / (double)r->x->shape[1]);
    return hod_sum_keep(hod_mul(weighted(r, share), hod_sub(sum, z)), 1);
}

/* The loss of each row, kept as (N,1,d...). */
static hod_tensor *label_losses(const rows *r)
{
    hod_tensor *z, *sum = log_sum(r, &z);
    hod_tensor *loss = hod_sub(sum, at_label(r, z));
    if (r->weight)
        loss = hod_mul(loss, at_label(r, r->weight));
    if (r->smoothing != 0) {
        hod_tensor *all = r->weight ? hod_mean_keep(hod_mul(hod_sub(sum, z), r->weight), 1)
                                    : hod_sub(sum, hod_mean_keep(z, 1));
        loss = hod_add(hod_mul_scalar(loss, 1 - r->smoothing), hod_mul_scalar(all, r->smoothing));
    }
    return counted(r, loss);
}

static hod_tensor *cross_entropy(rows *r)
{
    if (!r->label)
        return soft_losses(r);
    if (!hod__fuses(r->x) || (r->weight && r->weight->requires_grad))
        return label_losses(r);
    HOD_ATTRS(a);
    a.cross_entropy = (hod_attrs_cross_entropy){1, r->ignored, r->smoothing};
    hod_tensor *in[] = {r->x, r->label, r->weight ? class_row(r) : NULL};
    return hod__op(HOD_OP_cross_entropy, &a, r->weight ? 3 : 2, in);
}

/* By operators: g (p sum q - q), q the weight of each class in a row's loss. */
static hod_tensor *composed_gradient(const hod_vjp *v)
{
    const hod_attrs_cross_entropy *a = &v->attrs->cross_entropy;
    rows r = {.x = v->x[0], .label = v->x[1], .smoothing = a->smoothing};
    r.counts = hod_ne_scalar(r.label, (double)a->ignored);
    if (v->n > 2)
        r.weight = class_weights(&r, v->x[2]);
    hod_tensor *zero = hod__number(r.x, 0), *one = hod__number(r.x, 1);
    hod_tensor *weight = r.weight ? r.weight : one;
    hod_tensor *q = hod_mul_scalar(hod_where(is_label(&r), weight, zero), 1 - a->smoothing);
    q = hod_add(q, hod_mul_scalar(weight, a->smoothing / (double)r.x->shape[1]));
    hod_tensor *p = hod_softmax(hod_where(r.counts, r.x, zero), 1);
    hod_tensor *dx = hod_sub(hod_mul(p, hod_sum_keep(q, 1)), q);
    return hod_where(r.counts, hod_mul(v->g, dx), zero);
}

hod_tensor *hod__vjp_cross_entropy(const hod_vjp *v, int i)
{
    if (i > 0)
        return HOD_NO_GRADIENT;
    if (!hod__fuses_back())
        return composed_gradient(v);
    hod_tensor *in[] = {v->x[0], v->x[1], v->g, v->n > 2 ? v->x[2] : NULL};
    return hod__op(HOD_OP_cross_entropy_back, v->attrs, v->n + 1, in);
}

hod_tensor *hod_cross_entropy_rows_with(hod_tensor *logits, hod_tensor *target,
                                        hod_cross_entropy_options o)
{
    rows r = {.name = "cross_entropy"};
    return rows_of(&r, logits, target, &o) == 0 ? dropped(&r, cross_entropy(&r)) : NULL;
}

hod_loss hod_cross_entropy_with(hod_tensor *logits, hod_tensor *target, hod_cross_entropy_options o)
{
    rows r = {.name = "cross_entropy"};
    return rows_of(&r, logits, target, &o) == 0 ? loss_of(&r, cross_entropy(&r)) : (hod_loss){0};
}

/* ---- log likelihood ---- */

static hod_tensor *nll(rows *r, hod_tensor *log_p, hod_tensor *target,
                       const hod_cross_entropy_options *o)
{
    *r = (rows){.name = "nll"};
    if (o->label_smoothing != 0)
        return HOD_FAIL(ARGUMENT, "nll: label smoothing %g; cross_entropy has it",
                        o->label_smoothing);
    if (target && is_soft(target))
        return HOD_FAIL(ARGUMENT, "nll: targets of %s; cross_entropy takes distributions",
                        hod_dtype_name((hod_dtype)target->dtype));
    if (rows_of(r, log_p, target, o) != 0)
        return NULL;
    hod_tensor *loss = hod_neg(at_label(r, r->x));
    if (r->weight)
        loss = hod_mul(loss, at_label(r, r->weight));
    return counted(r, loss);
}

hod_tensor *hod_nll_rows_with(hod_tensor *log_p, hod_tensor *target, hod_cross_entropy_options o)
{
    rows r;
    hod_tensor *each = nll(&r, log_p, target, &o);
    return each ? dropped(&r, each) : NULL;
}

hod_loss hod_nll_with(hod_tensor *log_p, hod_tensor *target, hod_cross_entropy_options o)
{
    rows r;
    return loss_of(&r, nll(&r, log_p, target, &o));
}

/* ---- distribution focal ---- */

/* A place outside 0..K-1 has no two neighbours; looked at where it is there to be looked at. */
static int check_places(const hod_tensor *target, int64_t k)
{
    int64_t n = hod_tensor_numel(target);
    if (!target->storage->data || n == 0)
        return 0;
    double *place = hod__alloc((size_t)n, sizeof *place);
    if (!place)
        return -1;
    int rc = hod_read_doubles(target, place, n);
    for (int64_t i = 0; i < n && rc == 0; i++)
        if (!(place[i] >= 0 && place[i] <= (double)(k - 1)))
            rc = HOD_FAIL_RC(VALUE, "distribution_focal: place %g of row %lld is outside 0..%lld",
                             place[i], (long long)i, (long long)k - 1);
    free(place);
    return rc;
}

/* What a row's two neighbours of its place say, weighted by their nearness: (N). One that has no
 * share says nothing, be it -inf. */
static hod_tensor *between(hod_tensor *x, hod_tensor *place)
{
    double last = (double)(x->shape[1] - 1);
    hod_tensor *low = hod_floor(place), *part = hod_sub(place, low);
    hod_tensor *high = hod_minimum_scalar(hod_add_scalar(low, 1), last);
    hod_tensor *at = hod_cast(hod_stack(2, (hod_tensor *[]){low, high}, 1), HOD_I64);
    hod_tensor *less = part ? hod_sub(hod__number(part, 1), part) : NULL;
    hod_tensor *share = hod_stack(2, (hod_tensor *[]){less, part}, 1);
    hod_tensor *said = hod_mul(hod_gather(x, 1, at), share);
    if (!said)
        return NULL;
    return hod_sum_dims(hod_where(hod_gt_scalar(share, 0), said, hod__number(said, 0)), 1);
}

hod_tensor *hod_distribution_focal_rows(hod_tensor *logits, hod_tensor *target)
{
    if (hod__null("distribution_focal", "logits", logits) ||
        hod__null("distribution_focal", "target", target))
        return NULL;
    if (logits->ndim != 2 || target->ndim != 1 || target->shape[0] != logits->shape[0] ||
        !hod__is_float(logits->dtype))
        return HOD_FAIL(ARGUMENT, "distribution_focal: %s %s with targets %s",
                        hod_dtype_name((hod_dtype)logits->dtype), HOD_SHAPE_TEXT(logits),
                        HOD_SHAPE_TEXT(target));
    int64_t k = logits->shape[1];
    if (check_places(target, k) != 0)
        return NULL;
    hod_tensor *x = hod__computed(logits);
    hod_tensor *place = hod__cast_like(hod__stop_gradient(target), x);
    return place ? hod_sub(hod_logsumexp(x, 1, false), between(x, place)) : NULL;
}

hod_loss hod_distribution_focal(hod_tensor *logits, hod_tensor *target)
{
    return hod__loss_of_elements(hod_distribution_focal_rows(logits, target));
}
