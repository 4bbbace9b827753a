/* Ordering: sorting, searching, counting. Their indices have no gradient; values that are picked by
 * them do.
 *
 *     hod_sorted best = hod_topk(scores, 5, -1, true);         // best.values, best.indices (N,5)
 *     hod_tensor *kept = hod_nms(boxes, confidence, 0.45);     // indices, most confident first
 *
 * Orders are stable in both directions: equal elements stay in the order of their indices. NaN is
 * greater than any number. A 0-d tensor counts as one element.
 *
 * Results whose size depends on values (nonzero, unique, bincount, nms, masked_select, repeat_by)
 * read them on the host: in a compiled function each is a graph break, reported with its place.
 */
#ifndef HOD_ORDERING_H
#define HOD_ORDERING_H

#include <hod/functional.h>

typedef struct hod_sorted {
    hod_tensor *values, *indices; /* both NULL after an error */
} hod_sorted;
HOD_API hod_sorted hod_sort(hod_tensor *x, int dim, bool descending);
HOD_API hod_tensor *hod_argsort(hod_tensor *x, int dim, bool descending);
/* The k greatest (or least), in order; of equal ones those with lower indices. */
HOD_API hod_sorted hod_topk(hod_tensor *x, int64_t k, int dim, bool largest);

/* For each value the number of elements of its sorted row that are less (right: or equal).
 * sorted: (n) for values of any shape, or (..., n) for values (..., m). */
HOD_API hod_tensor *hod_searchsorted(hod_tensor *sorted, hod_tensor *values, bool right);

/* Indices (n, ndim) of the elements that are not 0, row by row. */
HOD_API hod_tensor *hod_nonzero(hod_tensor *x);
/* The elements (n) of x where the mask is not 0; both broadcast. */
HOD_API hod_tensor *hod_masked_select(hod_tensor *x, hod_tensor *mask);
/* Element i along dim counts[i] times. */
HOD_API hod_tensor *hod_repeat_by(hod_tensor *x, hod_tensor *counts, int dim);
/* How often each of 0, 1, ... comes in x (n): i64 of at least `least` elements. */
HOD_API hod_tensor *hod_bincount(hod_tensor *x, int64_t least);
/* The same, adding weights (n), in their type and differentiable for them. */
HOD_API hod_tensor *hod_bincount_weighted(hod_tensor *x, hod_tensor *weights, int64_t least);

typedef struct hod_unique_values {
    hod_tensor *values;  /* (u), sorted; every NaN is one of its own */
    hod_tensor *inverse; /* x's shape: where in values each element is */
    hod_tensor *counts;  /* (u) */
} hod_unique_values;
HOD_API hod_unique_values hod_unique(hod_tensor *x); /* all NULL after an error */

/* Boxes (N,4) as x1, y1, x2, y2 with scores (N): indices of those that are kept, by descending
 * score, equal ones by index. A box goes when its intersection over union with a kept one is
 * greater than the threshold; boxes without area overlap nothing. */
HOD_API hod_tensor *hod_nms(hod_tensor *boxes, hod_tensor *scores, double threshold);

#ifndef HOD_NO_PLACES
HOD_PLACED_RESULT(sorted, hod_sorted)
HOD_PLACED_RESULT(unique_values, hod_unique_values)
#define hod_sort(...) HOD_OPERATOR(sorted, sort, __VA_ARGS__)
#define hod_argsort(...) HOD_OPERATOR(tensor, argsort, __VA_ARGS__)
#define hod_topk(...) HOD_OPERATOR(sorted, topk, __VA_ARGS__)
#define hod_searchsorted(...) HOD_OPERATOR(tensor, searchsorted, __VA_ARGS__)
#define hod_nonzero(...) HOD_OPERATOR(tensor, nonzero, __VA_ARGS__)
#define hod_masked_select(...) HOD_OPERATOR(tensor, masked_select, __VA_ARGS__)
#define hod_repeat_by(...) HOD_OPERATOR(tensor, repeat_by, __VA_ARGS__)
#define hod_bincount(...) HOD_OPERATOR(tensor, bincount, __VA_ARGS__)
#define hod_bincount_weighted(...) HOD_OPERATOR(tensor, bincount_weighted, __VA_ARGS__)
#define hod_unique(...) HOD_OPERATOR(unique_values, unique, __VA_ARGS__)
#define hod_nms(...) HOD_OPERATOR(tensor, nms, __VA_ARGS__)
#endif

#endif
