/* The fronts of ordering. Values are picked by gather, so they have gradients; sizes that depend on
 * values are counted on the host, and become attributes of the operators behind. */
#include "ops/rules.h"
#include <hod/ordering.h>

/* ---- orders ---- */

static hod_tensor *order(const char *name, hod_tensor *x, int dim, int64_t k, bool descending)
{
    if (hod__null(name, "x", x))
        return NULL;
    int d = hod__dim(name, dim, HOD_MAX(x->ndim, 1));
    if (d < 0)
        return NULL;
    int64_t size = x->ndim ? x->shape[d] : 1;
    if (k == -1)
        k = size;
    if (k < 0 || k > size || (x->ndim == 0 && k == 0))
        return HOD_FAIL(ARGUMENT, "%s: k is %lld, dimension %d of %s has %lld", name, (long long)k,
                        d, HOD_SHAPE_TEXT(x), (long long)size);
    HOD_ATTRS(a);
    a.order.dim = d;
    a.order.k = k;
    a.order.descending = descending;
    return hod__op(HOD_OP_order, &a, 1, &x);
}

static hod_sorted picked(hod_tensor *x, int dim, hod_tensor *indices)
{
    hod_sorted s = {.values = indices ? hod_gather(x, dim, indices) : NULL};
    s.indices = s.values ? indices : NULL;
    return s;
}

hod_sorted hod_sort(hod_tensor *x, int dim, bool descending)
{
    return picked(x, dim, order("sort", x, dim, -1, descending));
}

hod_tensor *hod_argsort(hod_tensor *x, int dim, bool descending)
{
    return order("argsort", x, dim, -1, descending);
}

hod_sorted hod_topk(hod_tensor *x, int64_t k, int dim, bool largest)
{
    if (x && k < 0) {
        hod__fail(HOD_ERROR_ARGUMENT, "topk: k is %lld, must not be negative", (long long)k);
        return (hod_sorted){NULL, NULL};
    }
    return picked(x, dim, order("topk", x, dim, k, largest));
}

hod_tensor *hod_searchsorted(hod_tensor *sorted, hod_tensor *values, bool right)
{
    if (hod__null("searchsorted", "sorted", sorted) || hod__null("searchsorted", "values", values))
        return NULL;
    hod_dtype t = hod__promote(sorted, values);
    HOD_ATTRS(a);
    a.search.right = right;
    hod_tensor *in[] = {hod__cast_to(sorted, t), hod__cast_to(values, t)};
    return hod__op(HOD_OP_searchsorted, &a, 2, in);
}

/* ---- sizes that depend on values ---- */

/* `places` rows of indices where x is not 0. */
static hod_tensor *first_nonzero(hod_tensor *x, int64_t n)
{
    HOD_ATTRS(a);
    a.count.n = n;
    return hod__op(HOD_OP_nonzero, &a, 1, &x);
}

hod_tensor *hod_nonzero(hod_tensor *x)
{
    if (hod__null("nonzero", "x", x) || hod__realise(x) != 0)
        return NULL;
    int64_t n = hod__count_nonzero(x);
    return n < 0 ? NULL : first_nonzero(x, n);
}

/* Where the flags (n) are set, as an index (k). */
static hod_tensor *set_places(hod_tensor *flags)
{
    return hod_reshape(hod_nonzero(flags), HOD_SHAPE(-1));
}

hod_tensor *hod_masked_select(hod_tensor *x, hod_tensor *mask)
{
    if (hod__null("masked_select", "x", x) || hod__null("masked_select", "mask", mask))
        return NULL;
    int n;
    hod_shape s = {.n = 0};
    if (!hod__broadcast(x->ndim, x->shape, mask->ndim, mask->shape, &n, s.d))
        return HOD_FAIL(ARGUMENT, "masked_select: mask %s for %s", HOD_SHAPE_TEXT(mask),
                        HOD_SHAPE_TEXT(x));
    s.n = n;
    hod_tensor *places = hod_nonzero(hod_reshape(hod_expand(mask, s), HOD_SHAPE(-1)));
    if (!places)
        return NULL;
    hod_tensor *index = hod_reshape(places, HOD_SHAPE(places->shape[0]));
    return hod_embedding(hod_reshape(hod_expand(x, s), HOD_SHAPE(-1)), index);
}

/* Sums of counts up to each: the end of element i's repetitions. NULL when one is negative. */
static int64_t *ends_of(hod_tensor *counts, int64_t n)
{
    int64_t *end = hod__alloc((size_t)n + 1, sizeof *end), total = 0;
    if (!end || hod_read_ints(counts, end, n) != 0) {
        free(end);
        return NULL;
    }
    for (int64_t i = 0; i < n; i++) {
        if (end[i] < 0 || __builtin_add_overflow(total, end[i], &total)) {
            hod__fail(HOD_ERROR_VALUE, "repeat_by: element %lld comes %lld times", (long long)i,
                      (long long)end[i]);
            free(end);
            return NULL;
        }
        end[i] = total;
    }
    return end;
}

hod_tensor *hod_repeat_by(hod_tensor *x, hod_tensor *counts, int dim)
{
    if (hod__null("repeat_by", "x", x) || hod__null("repeat_by", "counts", counts))
        return NULL;
    int d = hod__dim("repeat_by", dim, x->ndim);
    if (d < 0)
        return NULL;
    if (hod__check_index_type("repeat_by", "counts", counts->dtype) != 0)
        return NULL;
    int64_t n = x->shape[d];
    if (counts->ndim != 1 || counts->shape[0] != n)
        return HOD_FAIL(ARGUMENT, "repeat_by: counts %s for dimension %d of %s",
                        HOD_SHAPE_TEXT(counts), d, HOD_SHAPE_TEXT(x));
    int64_t *end = ends_of(counts, n);
    if (!end)
        return NULL;
    hod_tensor *ends = hod_from_ints(end, HOD_SHAPE(n));
    hod_tensor *at = hod_arange(HOD_I64, n > 0 ? end[n - 1] : 0);
    free(end);
    return hod_index_select(x, d, hod_searchsorted(ends, at, true));
}

/* ---- counting ---- */

/* x's least or greatest, whichever `op` says, exactly and at once: nothing is recorded. */
static int extreme(hod_op op, hod_tensor *x, int64_t *value)
{
    hod_attrs a = {.reduce = {.dims = (1u << x->ndim) - 1}};
    hod_meta in = hod__meta(x), one;
    hod_tensor *y = hod__op_shape(op, &a, 1, &in, &one) == 0 ? hod__eval_temporary(&one) : NULL;
    int rc = y && hod__op_eval_into(op, &a, 1, &x, y) == 0 ? hod_read_ints(y, value, 1) : -1;
    hod_tensor_release(y);
    return rc;
}

/* Both of them, on the host, of x that has elements. */
static int extremes(hod_tensor *x, int64_t *low, int64_t *high)
{
    return extreme(HOD_OP_amin, x, low) != 0 ? -1 : extreme(HOD_OP_amax, x, high);
}

static hod_tensor *bins(hod_tensor *x, hod_tensor *weights, int64_t least)
{
    if (hod__check_index_type("bincount", "numbers", x->dtype) != 0)
        return NULL;
    if (x->ndim != 1 || least < 0 || weights->ndim != 1 || weights->shape[0] != x->shape[0])
        return HOD_FAIL(ARGUMENT, "bincount: of %s with weights %s, at least %lld",
                        HOD_SHAPE_TEXT(x), HOD_SHAPE_TEXT(weights), (long long)least);
    int64_t n = x->shape[0], size = least;
    int64_t low = 0, high = -1;
    if (n > 0 && extremes(x, &low, &high) != 0)
        return NULL;
    if (low < 0 || high > INT64_MAX / 16)
        return HOD_FAIL(
            VALUE, "bincount: of numbers from %lld to %lld, wanted 0 or more, and memory for all",
            (long long)low, (long long)high);
    size = HOD_MAX(size, high + 1);
    HOD_ATTRS(a);
    a.scatter.shape = HOD_SHAPE(size);
    return hod__op(HOD_OP_scatter_add, &a, 2, (hod_tensor *[]){weights, x});
}

hod_tensor *hod_bincount(hod_tensor *x, int64_t least)
{
    if (hod__null("bincount", "x", x))
        return NULL;
    return bins(x, hod_expand(hod_full(HOD_I64, HOD_SHAPE(), 1), hod_tensor_shape(x)), least);
}

hod_tensor *hod_bincount_weighted(hod_tensor *x, hod_tensor *weights, int64_t least)
{
    return hod__null("bincount_weighted", "x", x) ||
                   hod__null("bincount_weighted", "weights", weights)
               ? NULL
               : bins(x, weights, least);
}

static hod_unique_values all_or_none(hod_unique_values u)
{
    return u.values && u.counts && u.inverse ? u : (hod_unique_values){NULL, NULL, NULL};
}

/* Integers of a range of `size` from `low` on: each number is counted, and its place among those
 * that come at all looked up. */
static hod_unique_values unique_by_counts(hod_tensor *x, hod_tensor *line, int64_t low,
                                          int64_t size)
{
    hod_tensor *first = hod_full(HOD_I64, HOD_SHAPE(), (double)low);
    hod_tensor *at = low ? hod_sub(line, first) : line, *all = hod_bincount(at, size);
    hod_tensor *comes = hod_ne_scalar(all, 0), *places = set_places(comes);
    hod_tensor *rank = hod_sub_scalar(hod_cumsum(comes, 0), 1);
    hod_tensor *values = low ? hod_add(places, first) : places;
    return all_or_none(
        (hod_unique_values){.values = hod__cast_to(values, (hod_dtype)x->dtype),
                            .inverse = hod_reshape(hod_embedding(rank, at), hod_tensor_shape(x)),
                            .counts = hod_embedding(all, places)});
}

/* Sorted, an element begins a run when it differs from the one before. */
static hod_unique_values unique_by_order(hod_tensor *x, hod_tensor *line)
{
    hod_unique_values none = {NULL, NULL, NULL};
    int64_t n = hod_tensor_numel(line);
    hod_sorted s = hod_sort(line, 0, false);
    hod_tensor *change =
        hod_ne(hod_slice(s.values, 0, 1, n), hod_slice(s.values, 0, 0, n - (n > 0)));
    hod_tensor *first = hod_full(HOD_BOOL, HOD_SHAPE(n > 0), 1);
    hod_tensor *begins = hod_concat(2, (hod_tensor *[]){first, change}, 0);
    hod_tensor *begin = set_places(begins);
    if (!begin)
        return none;
    int64_t k = begin->shape[0];
    hod_tensor *end = hod_concat(
        2,
        (hod_tensor *[]){hod_slice(begin, 0, 1, k), hod_full(HOD_I64, HOD_SHAPE(k > 0), (double)n)},
        0);
    HOD_ATTRS(a);
    hod_tensor *run = hod_sub_scalar(hod_cumsum(begins, 0), 1);
    hod_tensor *in[] = {hod_full(HOD_I64, HOD_SHAPE(n), 0), s.indices, run};
    hod_tensor *inverse = hod__op(HOD_OP_scatter, &a, 3, in);
    return all_or_none((hod_unique_values){.values = hod_embedding(s.values, begin),
                                           .inverse = hod_reshape(inverse, hod_tensor_shape(x)),
                                           .counts = hod_sub(end, begin)});
}

hod_unique_values hod_unique(hod_tensor *x)
{
    hod_unique_values none = {NULL, NULL, NULL};
    if (hod__null("unique", "x", x))
        return none;
    int64_t n = hod_tensor_numel(x), low = 0, high = 0;
    hod_tensor *line = hod_reshape(x, HOD_SHAPE(n));
    if (!line || hod__is_float(x->dtype) || n == 0)
        return line ? unique_by_order(x, line) : none;
    hod_tensor *whole = hod__cast_to(line, HOD_I64);
    if (!whole || extremes(whole, &low, &high) != 0)
        return none;
    uint64_t range = (uint64_t)high - (uint64_t)low;
    bool exact = low > -(INT64_C(1) << 53) && high < INT64_C(1) << 53; /* as doubles */
    return exact && range < 4 * (uint64_t)n ? unique_by_counts(x, whole, low, (int64_t)range + 1)
                                            : unique_by_order(x, line);
}

/* ---- boxes ---- */

hod_tensor *hod_nms(hod_tensor *boxes, hod_tensor *scores, double threshold)
{
    if (hod__null("nms", "boxes", boxes) || hod__null("nms", "scores", scores))
        return NULL;
    if (boxes->ndim != 2 || boxes->shape[1] != 4 || scores->ndim != 1 ||
        scores->shape[0] != boxes->shape[0])
        return HOD_FAIL(ARGUMENT, "nms: boxes %s with scores %s", HOD_SHAPE_TEXT(boxes),
                        HOD_SHAPE_TEXT(scores));
    HOD_ATTRS(a);
    a.nms.threshold = threshold;
    hod_tensor *b = hod__computed(boxes);
    hod_tensor *best = hod_argsort(scores, 0, true), *sorted = hod_embedding(b, best);
    return hod_embedding(best, set_places(hod__op(HOD_OP_nms, &a, 1, &sorted)));
}
