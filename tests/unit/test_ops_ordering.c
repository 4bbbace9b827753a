/* Sorting, searching and counting: against their definitions, with ties, NaN and nothing. */
#include "harness.h"
#include "ops/op.h"
#include <hod/autograd.h>
#include <hod/compile.h>
#include <hod/movement.h>
#include <hod/ordering.h>
#include <math.h>

static void values_are(hod_tensor *t, int64_t n, const double *want)
{
    double *have = hod__alloc((size_t)n + 1, sizeof *have);
    CHECK(t && hod_read_doubles(t, have, n) == 0);
    for (int64_t i = 0; i < n; i++)
        if (have[i] != want[i] && !(isnan(have[i]) && isnan(want[i])))
            FAIL("element %d is %g, not %g", (int)i, have[i], want[i]);
    free(have);
}
#define VALUES(t, ...)                                                                             \
    values_are(t, (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)),                     \
               (double[]){__VA_ARGS__})

/* Few different numbers, so that most are equal; from -20 to 20 in halves. */
static hod_tensor *ties(hod_dtype dtype, hod_shape s, uint64_t seed)
{
    int64_t n = hod__numel(s.n, s.d);
    double *v = hod__alloc((size_t)n + 1, sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = (double)(hod__hash(&i, sizeof i, seed) % 81) / 2 - 20;
    hod_tensor *t = hod_from_doubles(v, s);
    free(v);
    return hod_cast(dtype == HOD_U8 ? hod_abs(t) : t, dtype);
}

/* The definition: element i stands behind as many as are less, or equal and before it. */
static void check_order(hod_tensor *x, bool descending)
{
    int64_t n = hod_tensor_numel(x);
    double *v = hod__alloc((size_t)n + 1, sizeof *v);
    int64_t *at = hod__alloc((size_t)n + 1, sizeof *at);
    CHECK(hod_read_doubles(x, v, n) == 0);
    CHECK(hod_read_ints(hod_argsort(x, 0, descending), at, n) == 0);
    for (int64_t i = 0; i + 1 < n; i++) {
        double a = v[at[i]], b = v[at[i + 1]];
        bool less = descending ? a > b : a < b;
        if (!less && !(a == b && at[i] < at[i + 1]))
            FAIL("%s: %g at %d before %g at %d", hod_dtype_name(hod_tensor_dtype(x)), a, (int)at[i],
                 b, (int)at[i + 1]);
    }
    for (int64_t i = 0; i < n; i++)
        v[i] = -1;
    for (int64_t i = 0; i < n; i++)
        v[at[i]] = 1; /* each index once */
    for (int64_t i = 0; i < n; i++)
        CHECK(v[i] == 1);
    for (int64_t k = 0; k <= n; k = 2 * k + 1) { /* selected or cut off: the same */
        hod_tensor *few = hod_topk(x, k, 0, descending).indices;
        hod_tensor *cut = hod_narrow(hod_argsort(x, 0, descending), 0, 0, k);
        NEAR(hod_item(hod_sum(hod_ne(few, cut))), 0, 0);
    }
    free(v);
    free(at);
}

TEST(ordering_sorts_stably_every_type_and_length)
{
    static const int64_t lengths[] = {1, 2, 48, 49, 100, 255, 256, 1000};
    for (int t = 0; t < HOD_DTYPES; t++)
        for (int i = 0; i < HOD_COUNT(lengths); i++)
            for (int descending = 0; descending < 2; descending++) {
                hod_tensor *waves = hod_sin(hod_cast(hod_arange(HOD_I64, lengths[i]), HOD_F64));
                check_order(ties((hod_dtype)t, HOD_SHAPE(lengths[i]), 7), descending);
                if (t != HOD_U8)
                    check_order(hod_cast(hod_mul_scalar(waves, 50000), (hod_dtype)t), descending);
            }
    int64_t big[] = {INT64_MAX, INT64_MIN, -1, 0, INT64_MAX - 1};
    hod_tensor *x = hod_from_ints(big, HOD_SHAPE(5));
    VALUES(hod_argsort(x, 0, false), 1, 2, 3, 4, 0);
    VALUES(hod_argsort(x, 0, true), 0, 4, 3, 2, 1);
}

TEST(ordering_nan_zero_and_infinity)
{
    double v[] = {NAN, 1, -0.0, 0.0, -INFINITY, INFINITY, -NAN, -2};
    for (int t = HOD_F32; t <= HOD_BF16; t++) {
        hod_tensor *x = hod_cast(hod_from_doubles(v, HOD_SHAPE(8)), (hod_dtype)t);
        VALUES(hod_argsort(x, 0, false), 4, 7, 2, 3, 1, 5, 0, 6);
        VALUES(hod_argsort(x, 0, true), 0, 6, 5, 1, 2, 3, 7, 4);
        VALUES(hod_topk(x, 3, 0, true).values, NAN, NAN, INFINITY);
        VALUES(hod_topk(x, 2, 0, false).values, -INFINITY, -2);
    }
}

TEST(ordering_along_any_dimension)
{
    hod_tensor *x = ties(HOD_F64, HOD_SHAPE(3, 70, 4), 1);
    hod_tensor *t = hod_transpose(hod_copy(hod_transpose(x, 0, 2)), 0, 2);
    for (int d = 0; d < 3; d++) {
        hod_sorted s = hod_sort(x, d, false), u = hod_sort(t, d - 3, false);
        NEAR(hod_item(hod_sum(hod_ne(s.indices, u.indices))), 0, 0);
        int64_t n = hod_tensor_size(x, d);
        hod_tensor *rises =
            hod_le(hod_narrow(s.values, d, 0, n - 1), hod_narrow(s.values, d, 1, n - 1));
        NEAR(hod_item(hod_sum(hod_logical_not(rises))), 0, 0);
        NEAR(hod_item(hod_sum(hod_ne(hod_gather(t, d, u.indices), s.values))), 0, 0);
    }
    VALUES(hod_sort(hod_scalar(3), -1, true).values, 3);
    VALUES(hod_sort(hod_scalar(3), 0, true).indices, 0);
    EQ_INT(hod_tensor_numel(hod_sort(hod_zeros(HOD_F32, HOD_SHAPE(0, 3)), 0, false).values), 0);
    EQ_INT(hod_tensor_numel(hod_topk(x, 0, 1, true).values), 0);
    ERROR_IS("topk: k is 4, dimension 2 of (3,5,3) has 3",
             hod_topk(hod_zeros(HOD_F32, HOD_SHAPE(3, 5, 3)), 4, 2, true).values);
    ERROR_IS("topk: k is -1, must not be negative",
             hod_topk(hod_zeros(HOD_F32, HOD_SHAPE(3)), -1, 0, true).values);
}

TEST(ordering_gradients_go_where_values_came_from)
{
    hod_tensor *x = hod_from_floats((float[]){3, 1, 2, 3}, HOD_SHAPE(4));
    CHECK(hod_requires_grad(x, true));
    hod_tensor *weight = hod_from_floats((float[]){10, 20, 30, 40}, HOD_SHAPE(4));
    CHECK(hod_backward(hod_sum(hod_mul(hod_sort(x, 0, true).values, weight))) == 0);
    VALUES(hod_grad(x), 10, 40, 30, 20);
    hod_zero_grad(x);
    CHECK(hod_backward(hod_sum(hod_topk(x, 1, 0, true).values)) == 0);
    VALUES(hod_grad(x), 1, 0, 0, 0); /* b30: of equal ones the first */
}

TEST(ordering_searches)
{
    hod_tensor *row = hod_from_floats((float[]){1, 3, 3, 5}, HOD_SHAPE(4));
    hod_tensor *v = hod_from_floats((float[]){0, 1, 3, 4, 5, 9}, HOD_SHAPE(2, 3));
    VALUES(hod_searchsorted(row, v, false), 0, 0, 1, 3, 3, 4);
    VALUES(hod_searchsorted(row, v, true), 0, 1, 3, 3, 4, 4);
    VALUES(hod_searchsorted(hod_cast(row, HOD_I32), hod_cast(v, HOD_U8), true), 0, 1, 3, 3, 4, 4);
    hod_tensor *rows = hod_from_ints((int64_t[]){1, 2, 3, 10, 20, 30}, HOD_SHAPE(2, 3));
    VALUES(hod_searchsorted(rows, hod_from_ints((int64_t[]){3, 9, 3, 25}, HOD_SHAPE(2, 2)), false),
           2, 3, 0, 2);
    VALUES(hod_searchsorted(row, hod_scalar(NAN), false), 4);
    VALUES(hod_searchsorted(hod_zeros(HOD_F32, HOD_SHAPE(0)), v, false), 0, 0, 0, 0, 0, 0);
    ERROR_IS("searchsorted: i64 (3,2) in i64 (2,3)",
             hod_searchsorted(rows, hod_zeros(HOD_I64, HOD_SHAPE(3, 2)), false));
}

TEST(ordering_finds_what_is_not_zero)
{
    hod_tensor *x = hod_from_floats((float[]){0, 1, NAN, 0, -0.0f, 4}, HOD_SHAPE(2, 3));
    hod_tensor *at = hod_nonzero(x);
    EQ_INT(hod_tensor_size(at, 0), 3);
    VALUES(at, 0, 1, 0, 2, 1, 2);
    VALUES(hod_nonzero(hod_transpose(x, 0, 1)), 1, 0, 2, 0, 2, 1);
    EQ_INT(hod_tensor_size(hod_nonzero(hod_scalar(2)), 0), 1);
    EQ_INT(hod_tensor_size(hod_nonzero(hod_scalar(2)), 1), 0);
    EQ_INT(hod_tensor_size(hod_nonzero(hod_zeros(HOD_F32, HOD_SHAPE(3, 0))), 0), 0);
    hod_tensor *big = hod_full(HOD_U8, HOD_SHAPE(1000), 1);
    EQ_INT(hod_tensor_size(hod_nonzero(big), 0), 1000);
    hod_tensor *mask = hod_from_floats((float[]){1, 0, 1}, HOD_SHAPE(3));
    VALUES(hod_masked_select(x, mask), 0, NAN, 0, 4);
    VALUES(hod_masked_select(hod_scalar(5), mask), 5, 5);
    hod_tensor *two = hod_from_ints((int64_t[]){2, 0, 1}, HOD_SHAPE(3));
    VALUES(hod_repeat_by(x, two, 1), 0, 0, NAN, 0, 0, 4);
    ERROR_IS("repeat_by: element 1 comes -1 times",
             hod_repeat_by(x, hod_from_ints((int64_t[]){1, -1}, HOD_SHAPE(2)), 0));
    ERROR_IS("masked_select: mask (2) for (2,3)", hod_masked_select(x, hod_arange(HOD_U8, 2)));
}

TEST(ordering_counts)
{
    hod_tensor *x = hod_from_ints((int64_t[]){1, 3, 1, 0, 3, 3}, HOD_SHAPE(6));
    VALUES(hod_bincount(x, 0), 1, 2, 0, 3);
    VALUES(hod_bincount(hod_cast(x, HOD_I32), 6), 1, 2, 0, 3, 0, 0);
    VALUES(hod_bincount_weighted(x, hod_full(HOD_F32, HOD_SHAPE(6), .5), 0), .5, 1, 0, 1.5);
    EQ_INT(hod_tensor_numel(hod_bincount(hod_zeros(HOD_I64, HOD_SHAPE(0)), 0)), 0);
    ERROR_IS("bincount: of numbers from -1 to 4, wanted 0 or more, and memory for all",
             hod_bincount(hod_from_ints((int64_t[]){4, -1}, HOD_SHAPE(2)), 0));
    hod_tensor *y = hod_from_floats((float[]){5, -1, 5, 2, -1, 5}, HOD_SHAPE(2, 3));
    hod_unique_values u = hod_unique(y);
    VALUES(u.values, -1, 2, 5);
    VALUES(u.counts, 2, 1, 3);
    VALUES(u.inverse, 2, 0, 2, 1, 0, 2);
    EQ_INT(hod_tensor_ndim(u.inverse), 2);
    u = hod_unique(hod_from_floats((float[]){NAN, 1, NAN}, HOD_SHAPE(3)));
    VALUES(u.counts, 1, 1, 1);
    u = hod_unique(hod_zeros(HOD_U8, HOD_SHAPE(0, 2)));
    EQ_INT(hod_tensor_numel(u.values), 0);
    EQ_INT(hod_tensor_numel(u.counts), 0);
    EQ_INT(hod_tensor_size(u.inverse, 1), 2);
    u = hod_unique(hod_scalar(4));
    VALUES(u.counts, 1);
}

TEST(ordering_b45_nms_ties_and_boxes_without_area)
{
    float same[] = {.3764f, .0905f, .6533f, .4487f, .3744f, .0899f,
                    .6535f, .4513f, .3753f, .0916f, .6532f, .4512f};
    hod_tensor *boxes = hod_from_floats(same, HOD_SHAPE(3, 4));
    hod_tensor *ones = hod_full(HOD_F32, HOD_SHAPE(3), 1);
    VALUES(hod_nms(boxes, ones, 0.2), 0);
    float half[] = {0, 0, 10, 10, 0, 0, 10, 5};
    boxes = hod_from_floats(half, HOD_SHAPE(2, 4)); /* exactly the threshold: both stay */
    VALUES(hod_nms(boxes, hod_full(HOD_F32, HOD_SHAPE(2), 1), 0.5), 0, 1);
    VALUES(hod_nms(boxes, hod_from_floats((float[]){.1f, .9f}, HOD_SHAPE(2)), 0.4), 1);
    float flat[] = {1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 4, 4, 3, 3, 1, 1};
    boxes = hod_from_floats(flat, HOD_SHAPE(4, 4));
    VALUES(hod_nms(boxes, hod_full(HOD_F32, HOD_SHAPE(4), 1), 0), 0, 1, 2, 3);
    EQ_INT(hod_tensor_numel(
               hod_nms(hod_zeros(HOD_F32, HOD_SHAPE(0, 4)), hod_zeros(HOD_F32, HOD_SHAPE(0)), 0.5)),
           0);
    ERROR_IS("nms: boxes (4,4) with scores (3)", hod_nms(boxes, ones, 0.5));
}

/* ---- compiled: a size that depends on values ends one program and begins another ---- */

static int count_positive(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    hod_tensor *at = hod_nonzero(hod_gt_scalar(in[0], 0));
    out[0] = hod_sum(hod_mul_scalar(hod_cast(at, HOD_F32), 2));
    out[1] = hod_repeat_by(in[0], hod_cast(hod_gt_scalar(in[0], 0), HOD_I64), 0);
    hod_unique_values u = hod_unique(in[0]);
    out[2] = hod_sum(hod_mul(u.values, hod_cast(u.counts, HOD_F32)));
    return out[0] && out[1] && out[2] ? 0 : -1;
}

TEST(ordering_sizes_that_depend_on_values_are_graph_breaks)
{
    hod_fn *f = hod_compile(count_positive, NULL, .inputs = 1, .outputs = 3);
    CHECK(f != NULL);
    for (int pass = 0; pass < 3; pass++)
        for (int k = 0; k < 3; k++) {
            HOD_SCOPE(s);
            hod_tensor *x = hod_sub_scalar(hod_arange(HOD_F32, 5), k), *out[3];
            CHECK(hod_fn_call(f, &x, out) == 0);
            NEAR(hod_item(out[0]), 2 * (k == 0 ? 10 : k == 1 ? 9 : 7), 0);
            EQ_INT(hod_tensor_numel(out[1]), 4 - k);
            NEAR(hod_item(hod_sum(out[1])), k == 0 ? 10 : k == 1 ? 6 : 3, 0);
            NEAR(hod_item(out[2]), 10 - 5 * k, 0);
        }
    hod_fn_free(f);
}

/* ---- the quick ways against the slow ones ---- */

static uint32_t state = 11;

static double draw(int64_t below)
{
    state = state * 1664525u + 1013904223u;
    return (double)((state >> 8) % below);
}

static hod_tensor *drawn(int64_t n, int64_t below, bool odd)
{
    static const double ends[] = {NAN, INFINITY, -INFINITY};
    double *v = hod__alloc((size_t)n + 1, sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = odd && draw(50) == 0 ? ends[(int)draw(3)] : draw(below) - (double)(below / 2);
    hod_tensor *t = hod_from_doubles(v, HOD_SHAPE(n));
    free(v);
    return t;
}

/* A few of many f32 pass over blocks that hold none; f64 looks at each. */
TEST(ordering_few_of_many)
{
    for (int round = 0; round < 100; round++) {
        HOD_SCOPE(s);
        hod_tensor *x = drawn(900 + (int64_t)draw(300), 500, round & 1);
        bool largest = round & 2;
        hod_tensor *have = hod_topk(hod_cast(x, HOD_F32), 7, 0, largest).indices;
        hod_tensor *want = hod_slice(hod_argsort(x, 0, largest), 0, 0, 7);
        CHECK(have && hod_item(hod_sum(hod_ne(have, want))) == 0);
    }
}

/* Integers of a small range are counted, others sorted: adding one far number makes them so. */
TEST(ordering_unique_counted_and_sorted)
{
    for (int round = 0; round < 50; round++) {
        HOD_SCOPE(s);
        hod_tensor *x = hod_cast(drawn(1 + (int64_t)draw(200), 60, false), HOD_I64);
        hod_tensor *far = hod_full(HOD_I64, HOD_SHAPE(1), 1e12);
        hod_unique_values a = hod_unique(x);
        hod_unique_values b = hod_unique(hod_concat(2, (hod_tensor *[]){x, far}, 0));
        CHECK(a.values && b.values);
        int64_t k = hod_tensor_numel(a.values), n = hod_tensor_numel(x);
        EQ_INT(hod_tensor_numel(b.values), k + 1);
        CHECK(hod_item(hod_sum(hod_ne(a.values, hod_slice(b.values, 0, 0, k)))) == 0);
        CHECK(hod_item(hod_sum(hod_ne(a.counts, hod_slice(b.counts, 0, 0, k)))) == 0);
        CHECK(hod_item(hod_sum(hod_ne(a.inverse, hod_slice(b.inverse, 0, 0, n)))) == 0);
    }
}

/* Eight searches at once, and what is left: the number of elements that come before. */
TEST(ordering_search_counts_what_comes_before)
{
    for (int round = 0; round < 60; round++) {
        HOD_SCOPE(s);
        hod_tensor *row = hod_sort(drawn(1 + (int64_t)draw(40), 20, false), 0, false).values;
        hod_tensor *v = drawn(1 + (int64_t)draw(30), 24, false), *column = hod_unsqueeze(v, 1);
        hod_tensor *comes = round & 1 ? hod_le(row, column) : hod_lt(row, column);
        hod_tensor *have = hod_searchsorted(row, v, round & 1);
        CHECK(have && hod_item(hod_sum(hod_ne(have, hod_sum_dims(comes, 1)))) == 0);
    }
}
