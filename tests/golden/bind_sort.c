/* Sorting, searching, counting. */
#include "golden.h"
#include <hod/movement.h>
#include <hod/ordering.h>
#include <string.h>

static int sorted(gold *c, hod_sorted s)
{
    return gold_many(c, 2, (hod_tensor *[]){s.values, s.indices});
}

static int bind_sort(gold *c)
{
    return sorted(c, hod_sort(T(input), (int)INT(dim, -1), FLAG(descending, false)));
}

static int bind_argsort(gold *c)
{
    return gold_one(c, hod_argsort(T(input), (int)INT(dim, -1), FLAG(descending, false)));
}

static int bind_topk(gold *c)
{
    return sorted(c, hod_topk(T(input), INT(k, 1), (int)INT(dim, -1), FLAG(largest, true)));
}

static int bind_unique(gold *c)
{
    if (HAS(dim))
        return gold_skip(c, "unique is of elements, not of slices");
    hod_unique_values u = hod_unique(T(input));
    hod_tensor *y[3] = {u.values};
    int n = 1;
    if (FLAG(return_inverse, false))
        y[n++] = u.inverse;
    if (FLAG(return_counts, false))
        y[n++] = u.counts;
    return gold_many(c, n, y);
}

static int bind_nonzero(gold *c)
{
    hod_tensor *at = hod_nonzero(T(input)), *y[HOD_MAX_DIMS];
    if (!FLAG(as_tuple, false))
        return gold_one(c, at);
    int n = hod_tensor_ndim(T(input));
    if (n == 0)
        return gold_skip(c, "a 0-d tensor has no dimension to name");
    for (int i = 0; i < n; i++)
        y[i] = hod_select(at, 1, i);
    return gold_many(c, n, y);
}

static int bind_bincount(gold *c)
{
    int64_t least = INT(minlength, 0);
    if (!HAS(weights))
        return gold_one(c, hod_bincount(T(input), least));
    /* Whole weights are summed in f64 by PyTorch, and in their own type here. */
    hod_tensor *weights = hod_cast(T(weights), HOD_F64);
    return gold_one(c, hod_bincount_weighted(T(input), weights, least));
}

static int bind_searchsorted(gold *c)
{
    hod_tensor *rows = T(sorted_sequence);
    bool right = FLAG(right, false) || strcmp(TEXT(side, "left"), "right") == 0;
    if (HAS(sorter))
        rows = hod_gather(rows, -1, T(sorter));
    int64_t n = hod_tensor_size(rows, -1);
    hod_tensor *falls = hod_lt(hod_slice(rows, -1, 1, n), hod_slice(rows, -1, 0, n - (n > 0)));
    if (hod_item(hod_sum(falls)) > 0)
        return gold_skip(c, "inputs were rounded: in a row that is not sorted nothing has a place");
    hod_tensor *x = gold_is_tensor(c, "input")
                        ? T(input)
                        : hod_full(hod_tensor_dtype(rows), HOD_SHAPE(), REAL(input, 0));
    return gold_one(c, hod_searchsorted(rows, x, right));
}

static int bind_nms(gold *c)
{
    return gold_one(c, hod_nms(T(boxes), T(scores), REAL(iou_threshold, 0)));
}

static const gold_binding rows[] = {
    ROW("sort", bind_sort),
    ROW("argsort", bind_argsort),
    ROW("topk", bind_topk),
    ROW("unique", bind_unique),
    ROW("nonzero", bind_nonzero),
    ROW("bincount", bind_bincount),
    ROW("searchsorted", bind_searchsorted),
    ROW("nms", bind_nms),
};
GOLD_FAMILY(sort, 346, 265)
