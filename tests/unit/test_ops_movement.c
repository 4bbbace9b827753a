/* Movement against the index arithmetic that defines it, on row-major and on strided inputs. */
#include "harness.h"
#include "ops/op.h"
#include <hod/autograd.h>
#include <hod/memory.h>
#include <hod/movement.h>
#include <math.h>

/* 0, 1, 2, ... in another memory order when `odd`. */
static hod_tensor *counted(hod_dtype dtype, hod_shape s, bool odd)
{
    hod_tensor *t = hod_cast(hod_reshape(hod_arange(HOD_I64, hod__numel(s.n, s.d)), s), dtype);
    if (!odd || s.n < 2)
        return t;
    return hod_transpose(hod_copy(hod_transpose(t, 0, -1)), 0, -1);
}

/* The values of t are want[], in order. */
static void values_are(hod_tensor *t, int64_t n, const int64_t *want)
{
    int64_t *have = hod__alloc((size_t)n + 1, sizeof *have);
    CHECK(t && hod_read_ints(t, have, n) == 0);
    for (int64_t i = 0; i < n; i++)
        if (have[i] != want[i])
            FAIL("element %d is %d, not %d", (int)i, (int)have[i], (int)want[i]);
    free(have);
}
#define VALUES(t, ...)                                                                             \
    values_are(t, (int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                   \
               (int64_t[]){__VA_ARGS__})

static void has_shape(hod_tensor *t, hod_shape s)
{
    CHECK(t != NULL);
    EQ_INT(hod_tensor_ndim(t), s.n);
    for (int i = 0; i < s.n; i++)
        EQ_INT(hod_tensor_size(t, i), s.d[i]);
}

static void same(hod_tensor *a, hod_tensor *b)
{
    CHECK(a && b);
    has_shape(a, hod_tensor_shape(b));
    if (hod_tensor_numel(a) > 0)
        NEAR(hod_item(hod_sum(hod_ne(a, b))), 0, 0);
}

/* What torch.cat gives; each gradient is in its input's type. */
TEST(movement_joined_types_are_promoted)
{
    static const hod_dtype of[][3] = {{HOD_F32, HOD_I64, HOD_F32},  {HOD_F16, HOD_F32, HOD_F32},
                                      {HOD_F16, HOD_BF16, HOD_F32}, {HOD_I64, HOD_BOOL, HOD_I64},
                                      {HOD_F16, HOD_I32, HOD_F16},  {HOD_F32, HOD_F64, HOD_F64}};
    for (int k = 0; k < HOD_COUNT(of); k++) {
        hod_tensor *x[2], *g = hod_cast(counted(HOD_I64, HOD_SHAPE(2, 2), false), of[k][2]);
        for (int i = 0; i < 2; i++) {
            x[i] = counted(of[k][i], HOD_SHAPE(2, 1), false);
            if (hod__is_float(of[k][i]))
                CHECK(hod_requires_grad(x[i], true));
        }
        hod_tensor *joined = hod_concat(2, x, 1), *stacked = hod_stack(2, x, 0);
        EQ_INT(hod_tensor_dtype(joined), of[k][2]);
        EQ_INT(hod_tensor_dtype(stacked), of[k][2]);
        VALUES(hod_detach(joined), 0, 0, 1, 1);
        VALUES(hod_detach(stacked), 0, 1, 0, 1);
        if (!hod_tensor_requires_grad(joined))
            continue;
        EQ_INT(hod_backward_with(joined, g), 0);
        for (int i = 0; i < 2; i++) {
            if (!hod_tensor_requires_grad(x[i]))
                continue;
            EQ_INT(hod_tensor_dtype(hod_grad(x[i])), of[k][i]);
            VALUES(hod_grad(x[i]), i, 2 + i);
        }
    }
    hod_tensor *many[70];
    for (int i = 0; i < 70; i++)
        many[i] = counted(i == 69 ? HOD_F32 : HOD_U8, HOD_SHAPE(2), false);
    EQ_INT(hod_tensor_dtype(hod_concat(70, many, 0)), HOD_F32);
}

TEST(movement_slices_step_backwards)
{
    hod_tensor *x = counted(HOD_I64, HOD_SHAPE(7), false);
    VALUES(hod_slice_step(x, 0, 5, 1, -1), 5, 4, 3, 2);
    VALUES(hod_slice_step(x, 0, 6, 0, -2), 6, 4, 2);
    VALUES(hod_slice_step(x, 0, -1, -100, -3), 6, 3, 0);
    VALUES(hod_slice_step(x, 0, 100, -100, -1), 6, 5, 4, 3, 2, 1, 0);
    VALUES(hod_slice_step(x, 0, 3, 2, INT64_MIN), 3);
    EQ_INT(hod_tensor_numel(hod_slice_step(x, 0, 2, 4, -1)), 0);
    EQ_INT(hod_tensor_numel(hod_slice_step(hod_slice(x, 0, 0, 0), 0, 3, -100, -1)), 0);
    VALUES(hod_slice_step(x, 0, 0, 7, INT64_MAX), 0);
    CHECK(hod_slice_step(x, 0, 5, 1, -1)->storage != x->storage); /* a copy */
    ERROR_IS("slice: 0 to 7 by 0 of dimension 0 of (7)", hod_slice_step(x, 0, 0, 7, 0));
}

TEST(movement_views_share_storage_and_versions)
{
    hod_tensor *x = counted(HOD_F32, HOD_SHAPE(4, 1, 6), false), *parts[4];
    CHECK(hod_narrow(x, -1, 2, 3)->storage == x->storage);
    CHECK(hod_squeeze_all(x)->storage == x->storage);
    CHECK(hod_movedim(x, 0, -1)->storage == x->storage);
    CHECK(hod_unflatten(x, 2, HOD_SHAPE(2, -1))->storage == x->storage);
    CHECK(hod_chunk(x, 2, 4, parts) == 0);
    uint32_t before = hod_tensor_version(x);
    CHECK(hod__assign(parts[1], hod_full(HOD_F32, HOD_SHAPE(), -1)) != NULL);
    CHECK(hod_tensor_version(x) == before + 1 && hod_tensor_version(parts[3]) == before + 1);
    NEAR(hod_item(hod_sum(hod_lt_scalar(x, 0))), 8, 0);
    has_shape(hod_squeeze_all(x), HOD_SHAPE(4, 6));
    has_shape(hod_movedim(x, 0, -1), HOD_SHAPE(1, 6, 4));
    has_shape(hod_movedim(x, 2, 0), HOD_SHAPE(6, 4, 1));
    has_shape(hod_unflatten(x, -1, HOD_SHAPE(2, -1)), HOD_SHAPE(4, 1, 2, 3));
    has_shape(hod_expand_as(hod_select(x, 0, 0), x), HOD_SHAPE(4, 1, 6));
    ERROR_IS("narrow: 3 elements from 5 of dimension 2 of (4,1,6)", hod_narrow(x, 2, 5, 3));
    ERROR_IS("unflatten: dimension 2 of (4,1,6) is not (4,-1)",
             hod_unflatten(x, 2, HOD_SHAPE(4, -1)));
}

TEST(movement_splits_cover_everything)
{
    hod_tensor *x = counted(HOD_I64, HOD_SHAPE(2, 7), true), *parts[4];
    CHECK(hod_chunk(x, 1, 3, parts) == 0);
    VALUES(parts[2], 6, 13);
    same(hod_concat(3, parts, 1), x);
    CHECK(hod_chunk(x, 0, 4, parts) == 0); /* more parts than elements: the last are empty */
    has_shape(parts[1], HOD_SHAPE(1, 7));
    has_shape(parts[3], HOD_SHAPE(0, 7));
    CHECK(hod_split(x, 1, 3, (int64_t[]){1, 0, 6}, parts) == 0);
    has_shape(parts[1], HOD_SHAPE(2, 0));
    same(hod_concat(3, parts, 1), x);
    ERROR_IS("split: parts of 6 in all, dimension 1 of (2,7)",
             hod_split(x, 1, 2, (int64_t[]){1, 5}, parts));
    ERROR_IS("split: part 1 of 9, 6 are left of dimension 1 of (2,7)",
             hod_split(x, 1, 2, (int64_t[]){1, 9}, parts));
    ERROR_IS("chunk: into 0 parts", hod_chunk(x, 1, 0, parts));
}

TEST(movement_orders)
{
    for (int odd = 0; odd < 2; odd++) {
        hod_tensor *x = counted(HOD_I32, HOD_SHAPE(2, 3), odd);
        VALUES(hod_flip(x, 1), 2, 1, 0, 5, 4, 3);
        VALUES(hod_flip(x, 0, -1), 5, 4, 3, 2, 1, 0);
        VALUES(hod_roll(x, 1, 1), 2, 0, 1, 5, 3, 4);
        VALUES(hod_roll(x, -7, 1), 1, 2, 0, 4, 5, 3);
        VALUES(hod_repeat(x, 1, 2), 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5);
        VALUES(hod_repeat(x, 2, 1), 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5);
        VALUES(hod_tile(x, HOD_SHAPE(2)), 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5);
        VALUES(hod_repeat_interleave(x, 2, 0), 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5);
        VALUES(hod_repeat_interleave(x, 2, 1), 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5);
        has_shape(hod_repeat(x, 3, 2, 2), HOD_SHAPE(3, 4, 6));
        has_shape(hod_repeat(x, 0, 2), HOD_SHAPE(0, 6));
        VALUES(hod_windows(x, 1, 2, 1), 0, 1, 1, 2, 3, 4, 4, 5);
        VALUES(hod_windows(x, 0, 2, 5), 0, 3, 1, 4, 2, 5);
    }
    hod_tensor *x = counted(HOD_F32, HOD_SHAPE(2, 3), false);
    ERROR_IS("flip: dimension 1 named twice", hod_flip(x, 1, -1));
    ERROR_IS("repeat: 1 numbers for (2,3)", hod_repeat(x, 2));
    ERROR_IS("repeat: -1 times along dimension 1 of (2,3)", hod_repeat(x, 1, -1));
    ERROR_IS("windows: of 4, 1 apart, in dimension 1 of (2,3)", hod_windows(x, 1, 4, 1));
}

/* Windows are a view; those that overlap are read, not written. */
TEST(movement_windows_share_elements)
{
    hod_tensor *x = counted(HOD_F32, HOD_SHAPE(2, 6), false);
    hod_tensor *y = hod_windows(x, 1, 3, 2), *apart = hod_windows(x, 1, 2, 3);
    CHECK(y->storage == x->storage);
    CHECK(hod__assign(hod_select(x, 0, 0), hod_scalar(9)));
    VALUES(y, 9, 9, 9, 9, 9, 9, 6, 7, 8, 8, 9, 10);
    VALUES(hod_sum_dims(y, 1), 18, 18, 18, 14, 16, 18);
    VALUES(hod_windows(hod_transpose(x, 0, 1), 0, 4, 1), 9, 9, 9, 9, 6, 7, 8, 9, 9, 9, 9, 9, 7, 8,
           9, 10, 9, 9, 9, 9, 8, 9, 10, 11);
    CHECK(hod__assign(apart, hod_scalar(1)));
    VALUES(x, 1, 1, 9, 1, 1, 9, 1, 1, 8, 1, 1, 11);
    ERROR_IS("assign: elements of (2,2,3) share memory; copy it first",
             hod__assign(y, hod_scalar(0)));
}

/* One long line, in parts for several threads, against the same by index. */
TEST(movement_windows_gradient_adds_what_overlaps)
{
    enum { N = 200003 };
    static const int64_t of[][2] = {{7, 3}, {3, 7}, {4000, 1000}, {N, 1}};
    hod_tensor *x = hod_requires_grad(counted(HOD_F64, HOD_SHAPE(N), false), true);
    for (int k = 0; k < HOD_COUNT(of); k++) {
        int64_t size = of[k][0], step = of[k][1], n = (N - size) / step + 1;
        hod_tensor *g = hod_sin(counted(HOD_F64, HOD_SHAPE(n, size), false)), *have;
        hod_tensor *start = hod_mul_scalar(hod_iota(HOD_I64, HOD_SHAPE(n, 1), 0), (double)step);
        hod_tensor *at = hod_add(start, hod_iota(HOD_I64, HOD_SHAPE(1, size), 1));
        hod_tensor *zero = hod_zeros(HOD_F64, HOD_SHAPE(N));
        CHECK(hod_grad_of(hod_windows(x, 0, size, step), 1, &x, &have, g) == 0);
        same(have, hod_scatter_add(zero, 0, hod_flatten(at, 0), hod_flatten(g, 0)));
    }
}

TEST(movement_triangles)
{
    hod_tensor *i = hod_iota(HOD_I64, HOD_SHAPE(2, 4, 5), 1);
    hod_tensor *j = hod_iota(HOD_I64, HOD_SHAPE(2, 4, 5), 2);
    for (int odd = 0; odd < 2; odd++)
        for (int64_t k = -6; k <= 6; k++) {
            hod_tensor *x = hod_add_scalar(counted(HOD_F64, HOD_SHAPE(2, 4, 5), odd), 1);
            hod_tensor *low = hod_le(j, hod_add_scalar(i, (double)k));
            hod_tensor *high = hod_ge(j, hod_add_scalar(i, (double)k));
            same(hod_tril(x, k), hod_where(low, x, hod_full(HOD_F64, HOD_SHAPE(), 0)));
            same(hod_triu(x, k), hod_where(high, x, hod_full(HOD_F64, HOD_SHAPE(), 0)));
        }
    hod_tensor *x = counted(HOD_U8, HOD_SHAPE(3, 3), false);
    VALUES(hod_tril(x, INT64_MAX), 0, 1, 2, 3, 4, 5, 6, 7, 8);
    VALUES(hod_triu(x, INT64_MAX), 0, 0, 0, 0, 0, 0, 0, 0, 0);
    VALUES(hod_triu(x, INT64_MIN), 0, 1, 2, 3, 4, 5, 6, 7, 8);
    has_shape(hod_tril(hod_zeros(HOD_F32, HOD_SHAPE(0, 3)), 0), HOD_SHAPE(0, 3));
    ERROR_IS("tril: (3) is no matrix", hod_tril(hod_arange(HOD_F32, 3), 0));
}

TEST(movement_pads)
{
    hod_tensor *x = counted(HOD_I64, HOD_SHAPE(4), false);
    hod_shape two = HOD_SHAPE(2), one = HOD_SHAPE(1);
    VALUES(hod_pad_around(x, two, one, HOD_PAD_CONSTANT, 9), 9, 9, 0, 1, 2, 3, 9);
    VALUES(hod_pad_around(x, two, one, HOD_PAD_REFLECT, 0), 2, 1, 0, 1, 2, 3, 2);
    VALUES(hod_pad_around(x, two, one, HOD_PAD_REPLICATE, 0), 0, 0, 0, 1, 2, 3, 3);
    VALUES(hod_pad_around(x, two, one, HOD_PAD_CIRCULAR, 0), 2, 3, 0, 1, 2, 3, 0);
    VALUES(hod_pad_around(x, HOD_SHAPE(-1), two, HOD_PAD_CONSTANT, 7), 1, 2, 3, 7, 7);
    VALUES(hod_pad(x, 0, 1, 2, 5), 5, 0, 1, 2, 3, 5, 5);
    hod_tensor *m = counted(HOD_F32, HOD_SHAPE(2, 3), true);
    VALUES(hod_pad_around(m, HOD_SHAPE(1, 1), HOD_SHAPE(0, 1), HOD_PAD_REFLECT, 0), 4, 3, 4, 5, 4,
           1, 0, 1, 2, 1, 4, 3, 4, 5, 4);
    hod_tensor *none = hod_zeros(HOD_F32, HOD_SHAPE(0, 2));
    hod_tensor *y = hod_pad_around(none, HOD_SHAPE(1, 0), HOD_SHAPE(1, 1), HOD_PAD_CONSTANT, 3);
    has_shape(y, HOD_SHAPE(2, 3));
    NEAR(hod_item(hod_sum(y)), 18, 0);
    ERROR_IS("pad: reflect by 4 in dimension 0 of (4), at most 3",
             hod_pad_around(x, HOD_SHAPE(4), HOD_SHAPE(0), HOD_PAD_REFLECT, 0));
    ERROR_IS("pad: replicate by 1 in dimension 0 of (0,2), at most 0",
             hod_pad_around(none, HOD_SHAPE(1, 0), HOD_SHAPE(0, 0), HOD_PAD_REPLICATE, 0));
    ERROR_IS("pad: -3 before and -2 after dimension 0 of (4)",
             hod_pad_around(x, HOD_SHAPE(-3), HOD_SHAPE(-2), HOD_PAD_CONSTANT, 0));
}

/* A convolution is a product with the windows; fold of ones counts the windows of each element. */
TEST(movement_unfold_is_what_convolution_sees)
{
    hod_tensor *x = hod_sin(counted(HOD_F64, HOD_SHAPE(2, 3, 6, 5), true));
    hod_tensor *w = hod_cos(counted(HOD_F64, HOD_SHAPE(4, 3, 3, 2), false));
    hod_tensor *y = hod_conv2d(x, w, .stride_hw = {2, 1}, .padding = 1, .dilation_hw = {1, 2});
    hod_tensor *c = hod_unfold2d(x, .kernel_hw = {3, 2}, .stride_hw = {2, 1}, .padding = 1,
                                 .dilation_hw = {1, 2});
    hod_tensor *z = hod_matmul(hod_reshape(w, HOD_SHAPE(4, -1)), c);
    NEAR(hod_item(hod_amax(hod_abs(hod_sub(hod_reshape(z, hod_tensor_shape(y)), y)))), 0, 1e-12);
    hod_tensor *ones = hod_full(HOD_F32, HOD_SHAPE(1, 1, 3, 3), 1);
    hod_tensor *counts = hod_fold2d(hod_unfold2d(ones, .kernel = 2), 3, 3, .kernel = 2);
    VALUES(counts, 1, 2, 1, 2, 4, 2, 1, 2, 1);
    has_shape(hod_unfold2d(hod_zeros(HOD_F16, HOD_SHAPE(0, 2, 4, 4)), .kernel = 2),
              HOD_SHAPE(0, 8, 9));
    ERROR_IS("unfold2d: (6,5): a window of 9 is larger than the height, 6 with its padding",
             hod_unfold2d(x, .kernel = 9));
    ERROR_IS("fold2d: (2,18,15) are no (N, C * 3 * 2, 1 * 1)",
             hod_fold2d(c, 3, 2, .kernel_hw = {3, 2}));
}

TEST(movement_scatters)
{
    hod_tensor *x = counted(HOD_F32, HOD_SHAPE(3, 4), true);
    hod_tensor *index = hod_from_ints((int64_t[]){0, 2, 1, 1}, HOD_SHAPE(2, 2));
    hod_tensor *src = hod_from_floats((float[]){100, 101, 102, 103, 104, 105}, HOD_SHAPE(2, 3));
    VALUES(hod_scatter(x, 0, index, src), 100, 1, 2, 3, 103, 104, 6, 7, 8, 101, 10, 11);
    VALUES(hod_scatter(x, 1, index, src), 100, 1, 101, 3, 4, 104, 6, 7, 8, 9, 10, 11);
    VALUES(hod_scatter_add(x, 1, index, src), 100, 1, 103, 3, 4, 212, 6, 7, 8, 9, 10, 11);
    VALUES(hod_scatter_value(x, 0, hod_cast(index, HOD_I32), -1), -1, 1, 2, 3, -1, -1, 6, 7, 8, -1,
           10, 11);
    VALUES(hod_gather(x, 1, index), 0, 2, 5, 5);
    VALUES(hod_gather(x, 0, index), 0, 9, 4, 5);
    hod_tensor *row = hod_from_ints((int64_t[]){2, 0}, HOD_SHAPE(1, 2));
    VALUES(hod_take_along(x, row, 1), 2, 0, 6, 4, 10, 8);
    VALUES(hod_one_hot(hod_from_ints((int64_t[]){1, 0}, HOD_SHAPE(2)), 3), 0, 1, 0, 1, 0, 0);
    VALUES(hod_masked_fill(x, hod_ge_scalar(x, 3), -2), 0, 1, 2, -2, -2, -2, -2, -2, -2, -2, -2,
           -2);
    hod_tensor *zero = hod_scatter_add(hod_scalar(2), 0, hod_from_ints((int64_t[]){0}, HOD_SHAPE()),
                                       hod_scalar(3));
    NEAR(hod_item(zero), 5, 0);
    ERROR_IS("scatter: index 3 at element 1 is outside 0..2",
             hod_scatter_value(x, 0, hod_from_ints((int64_t[]){0, 3}, HOD_SHAPE(1, 2)), 0));
    ERROR_IS("scatter: index (2,5) for (3,4) along dimension 0: is no part of it",
             hod_scatter_value(x, 0, hod_zeros(HOD_I64, HOD_SHAPE(2, 5)), 0));
    hod_tensor *none = hod_zeros(HOD_F32, HOD_SHAPE(3, 0));
    ERROR_IS("scatter: index 0 of nothing",
             hod_scatter_value(none, 1, hod_zeros(HOD_I64, HOD_SHAPE(3, 2)), 1));
    ERROR_IS("scatter: (2,3) at an index (3,1)",
             hod_scatter(x, 0, hod_zeros(HOD_I64, HOD_SHAPE(3, 1)), src));
    ERROR_IS("one_hot: 0 classes", hod_one_hot(index, 0));
}

/* Lines that are copied as they are walked, in parts for several threads, against a copy before. */
TEST(movement_scatters_into_dense_lines_as_into_others)
{
    enum { ROWS = 700, COLUMNS = 90 };
    hod_tensor *b = counted(HOD_F64, HOD_SHAPE(ROWS, COLUMNS / 2), false);
    hod_tensor *spread = hod_mul_scalar(hod_iota(HOD_I64, HOD_SHAPE(ROWS, COLUMNS / 2), 1), 7);
    hod_tensor *index = hod_remainder(spread, hod_full(HOD_I64, HOD_SHAPE(), COLUMNS));
    hod_tensor *x = counted(HOD_F64, HOD_SHAPE(ROWS, COLUMNS), false);
    hod_tensor *odd = counted(HOD_F64, HOD_SHAPE(ROWS, COLUMNS), true);
    same(hod_scatter(x, 1, index, b), hod_scatter(odd, 1, index, b));
    same(hod_scatter_add(x, 1, index, b), hod_scatter_add(odd, 1, index, b));
    hod_tensor *some = hod_slice(index, 0, 0, ROWS / 2); /* the other lines are x's */
    hod_tensor *c = hod_slice(b, 0, 0, ROWS / 2);
    same(hod_scatter(x, 1, some, c), hod_scatter(odd, 1, some, c));
}

/* index_select: each way through the walk (rows, lines along and across), both directions. */
TEST(movement_selects_by_index_in_every_layout)
{
    hod_tensor *index = hod_from_ints((int64_t[]){3, 0, 3}, HOD_SHAPE(3));
    for (int odd = 0; odd < 2; odd++)
        for (int d = 0; d < 3; d++) {
            hod_tensor *x = counted(HOD_F64, HOD_SHAPE(4, 4, 16), odd), *parts[3];
            CHECK(hod_requires_grad(x = hod_copy(x), true));
            hod_tensor *v = odd ? hod_transpose(hod_copy(hod_transpose(x, 0, 2)), 0, 2) : x;
            for (int i = 0; i < 3; i++)
                parts[i] = hod_narrow(v, d, i == 1 ? 0 : 3, 1);
            hod_tensor *y = hod_index_select(v, d, index), *want = hod_concat(3, parts, d);
            same(y, want);
            hod_tensor *g = hod_sin(counted(HOD_F64, hod_tensor_shape(y), false)), *a, *b;
            CHECK(hod_grad_of(hod_sum(hod_mul(y, g)), 1, &x, &a, HOD_ONES, .retain_graph = true) ==
                  0);
            CHECK(hod_grad_of(hod_sum(hod_mul(want, g)), 1, &x, &b, HOD_ONES,
                              .retain_graph = true) == 0);
            same(a, b);
        }
}

TEST(movement_b31_gradients_of_what_repeats_are_summed)
{
    hod_tensor *x = hod_from_floats((float[]){1, 2, 3}, HOD_SHAPE(3));
    CHECK(hod_requires_grad(x, true));
    CHECK(hod_backward(hod_sum(hod_mul_scalar(hod_repeat(x, 4, 5), 2))) == 0);
    VALUES(hod_grad(x), 40, 40, 40);
}

TEST(movement_b32_of_nothing_and_eight_dimensions)
{
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(0, 4));
    has_shape(hod_flip(x, 0), HOD_SHAPE(0, 4));
    has_shape(hod_roll(x, 3, 0), HOD_SHAPE(0, 4));
    has_shape(hod_repeat(x, 2, 2), HOD_SHAPE(0, 8));
    has_shape(hod_index_select(x, 1, hod_zeros(HOD_I64, HOD_SHAPE(3))), HOD_SHAPE(0, 3));
    has_shape(hod_gather(x, 0, hod_zeros(HOD_I64, HOD_SHAPE(0, 4))), HOD_SHAPE(0, 4));
    has_shape(hod_one_hot(hod_zeros(HOD_I64, HOD_SHAPE(0)), 5), HOD_SHAPE(0, 5));
    has_shape(hod_concat(2, (hod_tensor *[]){x, hod_zeros(HOD_F32, HOD_SHAPE(2, 4))}, 0),
              HOD_SHAPE(2, 4));
    hod_shape eight = {.n = 8, .d = {2, 1, 3, 2, 1, 2, 2, 3}};
    hod_tensor *y = counted(HOD_F32, eight, true), *i = hod_zeros(HOD_I64, eight);
    for (int d = 0; d < 8; d++) {
        same(hod_flip_over(hod_flip_over(y, HOD_SHAPE(d)), HOD_SHAPE(d)), y);
        same(hod_roll(hod_roll(y, 5, d), -5, d), y);
        same(hod_gather(y, d, i), hod_expand(hod_narrow(y, d, 0, 1), eight));
        same(hod_repeat_interleave(y, 1, d), y);
    }
    hod_tensor *s = hod_scalar(4);
    has_shape(hod_squeeze_all(s), HOD_SHAPE());
    VALUES(hod_gather(s, 0, hod_from_ints((int64_t[]){0}, HOD_SHAPE())), 4);
    VALUES(hod_pad_around(s, HOD_SHAPE(), HOD_SHAPE(), HOD_PAD_CONSTANT, 0), 4);
    VALUES(hod_repeat(s, 2), 4, 4);
}

/* An expanded tensor of more than 2^31 elements is read where it is wanted. */
TEST(movement_b33_sizes_beyond_32_bits)
{
    hod_tensor *x = hod_expand(hod_full(HOD_U8, HOD_SHAPE(1), 7), HOD_SHAPE(46341, 46341));
    EQ_INT(hod_tensor_numel(x), 2147488281);
    VALUES(hod_narrow(hod_narrow(x, 0, 46340, 1), 1, 46340, 1), 7);
    hod_tensor *wide = hod_expand(hod_full(HOD_U8, HOD_SHAPE(1), 7), HOD_SHAPE(((int64_t)1 << 33)));
    hod_tensor *at = hod_from_ints((int64_t[]){((int64_t)1 << 33) - 1, 5}, HOD_SHAPE(2));
    VALUES(hod_gather(wide, 0, at), 7, 7);
    EQ_INT(hod_tensor_numel(hod_flip(hod_slice_step(wide, 0, 0, INT64_MAX, (int64_t)1 << 31), 0)),
           4);
    CHECK(hod_memory_limit(HOD_MIB(64)) == 0);
    EQ_INT(hod_tensor_numel(hod_repeat(x, 2, 1)), 2 * 2147488281); /* still a view */
    CHECK(hod_copy(hod_repeat(x, 2, 1)) == NULL &&
          hod_error_take(NULL)); /* refused, not attempted */
    CHECK(hod_repeat(hod_full(HOD_U8, HOD_SHAPE(4), 1), INT64_MAX) == NULL && hod_error_take(NULL));
}
