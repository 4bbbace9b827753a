/* Contractions, pooling, indexing and movement against slow twins and identities. */
#include "device/device.h"
#include "harness.h"
#include "ops/rules.h"
#include <hod/autograd.h>
#include <math.h>

static hod_tensor *wave(hod_shape shape, double phase)
{
    int64_t n = hod__numel(shape.n, shape.d);
    double *v = hod__alloc((size_t)n + 1, sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = sin(0.7 * (double)i + phase);
    hod_tensor *t = hod_from_doubles(v, shape);
    free(v);
    return t;
}

static double distance(hod_tensor *a, hod_tensor *b)
{
    CHECK(a && b && hod_tensor_ndim(a) == hod_tensor_ndim(b));
    for (int i = 0; i < hod_tensor_ndim(a); i++)
        EQ_INT(hod_tensor_size(a, i), hod_tensor_size(b, i));
    if (hod_tensor_numel(a) == 0)
        return 0;
    return hod_item(hod_amax(hod_abs(hod_sub(hod_cast(a, HOD_F64), hod_cast(b, HOD_F64)))));
}

static hod_tensor *f32(hod_tensor *x)
{
    return hod_cast(x, HOD_F32);
}

/* ---- matmul: f64 runs the slow twin, f32 the library ---- */

static hod_tensor *product(hod_tensor *a, bool ta, hod_tensor *b, bool tb)
{
    hod_attrs m = {.matmul = {.ta = ta, .tb = tb}};
    return hod__op(HOD_OP_matmul, &m, 2, (hod_tensor *[]){a, b});
}

TEST(ops_matmul_of_every_layout)
{
    static const int64_t sizes[][3] = {{1, 1, 1}, {3, 5, 7}, {16, 64, 32}, {1, 9, 4}, {6, 1, 1},
                                       {33, 17, 70}};
    for (int s = 0; s < HOD_COUNT(sizes); s++)
        for (int how = 0; how < 16; how++) {
            bool ta = how & 1, tb = how >> 1 & 1, va = how >> 2 & 1, vb = how >> 3 & 1;
            int64_t m = sizes[s][0], k = sizes[s][1], n = sizes[s][2];
            /* op(a) is the same matrix each time; stored transposed, viewed transposed, or both */
            hod_tensor *a = wave(HOD_SHAPE(m, k), 0), *b = wave(HOD_SHAPE(k, n), 1);
            hod_tensor *want = product(a, false, b, false);
            hod_tensor *x = f32(a), *y = f32(b);
            if (ta != va)
                x = hod_copy(hod_transpose(x, 0, 1));
            if (tb != vb)
                y = hod_copy(hod_transpose(y, 0, 1));
            if (va)
                x = hod_transpose(x, 0, 1);
            if (vb)
                y = hod_transpose(y, 0, 1);
            /* sums of at most 64 products below 1, in f32 */
            NEAR(distance(product(x, ta, y, tb), want), 0, 1e-5);
            NEAR(distance(product(hod_cast(x, HOD_F64), ta, hod_cast(y, HOD_F64), tb), want), 0,
                 1e-5);
        }
}

TEST(ops_matmul_gradients_of_every_transposition)
{
    hod_tensor *g = wave(HOD_SHAPE(3, 5), 2);
    for (int how = 0; how < 4; how++) {
        bool ta = how & 1, tb = how >> 1;
        hod_tensor *a = wave(ta ? HOD_SHAPE(4, 3) : HOD_SHAPE(3, 4), 0);
        hod_tensor *b = wave(tb ? HOD_SHAPE(5, 4) : HOD_SHAPE(4, 5), 1);
        hod_tensor *c = hod_copy(a), *d = hod_copy(b);
        CHECK(hod_requires_grad(a, true) && hod_requires_grad(b, true));
        CHECK(hod_requires_grad(c, true) && hod_requires_grad(d, true));
        CHECK(hod_backward(hod_sum(hod_mul(g, product(a, ta, b, tb)))) == 0);
        hod_tensor *x = ta ? hod_transpose(c, 0, 1) : c, *y = tb ? hod_transpose(d, 0, 1) : d;
        CHECK(hod_backward(hod_sum(hod_mul(g, product(x, false, y, false)))) == 0);
        NEAR(distance(hod_grad(a), hod_grad(c)), 0, 1e-15);
        NEAR(distance(hod_grad(b), hod_grad(d)), 0, 1e-15);
    }
}

TEST(ops_matmul_slow_twin_is_the_definition)
{
    hod_tensor *a = wave(HOD_SHAPE(3, 4), 0), *b = wave(HOD_SHAPE(4, 2), 1);
    hod_tensor *y = hod_sum_dims(hod_mul(hod_unsqueeze(a, 2), b), 1);
    NEAR(distance(hod_matmul(a, b), y), 0, 1e-15);
}

TEST(ops_matmul_batches_broadcast)
{
    hod_tensor *a = wave(HOD_SHAPE(2, 1, 3, 4), 0), *b = wave(HOD_SHAPE(3, 4, 5), 1);
    hod_tensor *want = hod_matmul(a, b);
    NEAR(distance(hod_matmul(f32(a), f32(b)), want), 0, 1e-5);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++) {
            hod_tensor *one = hod_matmul(hod_select(hod_select(a, 0, i), 0, 0),
                                         hod_select(b, 0, j));
            NEAR(distance(hod_select(hod_select(want, 0, i), 0, j), one), 0, 1e-15);
        }
    hod_tensor *q = hod_permute(f32(wave(HOD_SHAPE(2, 5, 3, 8), 2)), 0, 2, 1, 3); /* attention */
    hod_tensor *k = hod_permute(f32(wave(HOD_SHAPE(2, 6, 3, 8), 3)), 0, 2, 3, 1);
    NEAR(distance(hod_matmul(q, k), hod_matmul(hod_cast(q, HOD_F64), hod_cast(k, HOD_F64))), 0,
         1e-5);
    hod_tensor *e = hod_expand(f32(wave(HOD_SHAPE(4, 5), 1)), HOD_SHAPE(7, 4, 5));
    NEAR(distance(hod_matmul(f32(wave(HOD_SHAPE(7, 3, 4), 0)), e),
                  hod_matmul(wave(HOD_SHAPE(7, 3, 4), 0), hod_cast(e, HOD_F64))),
         0, 1e-5);
    hod_tensor *h = hod_matmul(hod_cast(a, HOD_BF16), hod_cast(b, HOD_BF16));
    EQ_INT(hod_tensor_dtype(h), HOD_BF16);
    NEAR(distance(h, want), 0, 0.03); /* 8 bits in, 8 bits out */
}

TEST(ops_matmul_b32_of_nothing)
{
    hod_tensor *y = hod_matmul(hod_zeros(HOD_F32, HOD_SHAPE(2, 0)),
                               hod_zeros(HOD_F32, HOD_SHAPE(0, 3)));
    EQ_INT(hod_tensor_numel(y), 6);
    NEAR(hod_item(hod_sum(hod_abs(y))), 0, 0);
    EQ_INT(hod_tensor_numel(hod_matmul(hod_zeros(HOD_F32, HOD_SHAPE(0, 3)),
                                       hod_zeros(HOD_F32, HOD_SHAPE(3, 4)))),
           0);
    EQ_INT(hod_tensor_size(hod_linear(hod_zeros(HOD_F32, HOD_SHAPE(0, 3)),
                                      hod_zeros(HOD_F32, HOD_SHAPE(5, 3)),
                                      hod_zeros(HOD_F32, HOD_SHAPE(5))),
                           1),
           5);
}

/* ---- convolution ---- */

TEST(ops_conv_library_and_slow_twin_agree)
{
    static const struct {
        int64_t ci, co, k, groups;
        hod_conv2d_options o;
    } c[] = {{3, 8, 3, 1, {.padding = 1}},
             {16, 32, 3, 1, {.stride = 2, .padding_tlbr = {0, 1, 2, 1}}},
             {16, 16, 3, 16, {.padding = 1}},
             {8, 12, 2, 4, {.dilation = 2}},
             {16, 32, 1, 1, {.stride = 2}}};
    for (int i = 0; i < HOD_COUNT(c); i++) {
        hod_conv2d_options o = c[i].o;
        o.groups = c[i].groups;
        hod_tensor *x = wave(HOD_SHAPE(2, c[i].ci, 9, 8), 0);
        hod_tensor *w = wave(HOD_SHAPE(c[i].co, c[i].ci / c[i].groups, c[i].k, c[i].k), 1);
        hod_tensor *xs = f32(x), *ws = f32(w);
        CHECK(hod_requires_grad(x, true) && hod_requires_grad(w, true));
        CHECK(hod_requires_grad(xs, true) && hod_requires_grad(ws, true));
        hod_tensor *y = hod_conv2d_with(x, w, o), *ys = hod_conv2d_with(xs, ws, o);
        NEAR(distance(y, ys), 0, 5e-5); /* up to 144 products in f32, 2000 for the weights */
        hod_tensor *g = wave(hod_tensor_shape(y), 2);
        CHECK(hod_backward(hod_sum(hod_mul(y, g))) == 0);
        CHECK(hod_backward(hod_sum(hod_mul(ys, f32(g)))) == 0);
        NEAR(distance(hod_grad(x), hod_grad(xs)), 0, 5e-5);
        NEAR(distance(hod_grad(w), hod_grad(ws)), 0, 2e-4);
    }
}

TEST(ops_conv_is_linear_in_shifts) /* a 1 in the kernel moves the image */
{
    hod_tensor *x = f32(wave(HOD_SHAPE(1, 1, 5, 6), 0));
    hod_tensor *w = hod_reshape(f32(hod_eq_scalar(hod_arange(HOD_I64, 9), 1)),
                                HOD_SHAPE(1, 1, 3, 3)); /* up by one */
    hod_tensor *y = hod_conv2d(x, w, .padding = 1);
    NEAR(distance(hod_slice(y, 2, 1, 5), hod_slice(x, 2, 0, 4)), 0, 0);
    NEAR(hod_item(hod_sum(hod_abs(hod_select(y, 2, 0)))), 0, 0);
}

TEST(ops_conv_b32_of_no_images)
{
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(0, 3, 8, 8));
    hod_tensor *w = hod_full(HOD_F32, HOD_SHAPE(4, 3, 3, 3), 1);
    CHECK(hod_requires_grad(w, true));
    hod_tensor *y = hod_conv2d(x, w);
    EQ_INT(hod_tensor_size(y, 0), 0);
    EQ_INT(hod_tensor_size(y, 1), 4);
    EQ_INT(hod_tensor_size(y, 3), 6);
    CHECK(hod_backward(hod_sum(y)) == 0);
    NEAR(hod_item(hod_sum(hod_abs(hod_grad(w)))), 0, 0);
    EQ_INT(hod_tensor_numel(hod_max_pool2d(x, 2)), 0);
    EQ_INT(hod_tensor_size(hod_avg_pool2d(x, 2), 3), 4);
}

/* ---- pooling ---- */

TEST(ops_pool_b29_nan_and_minus_infinity)
{
    static const double in[3][4] = {{1, NAN, 5, 6},
                                    {-INFINITY, -INFINITY, -INFINITY, -INFINITY},
                                    {NAN, NAN, NAN, NAN}};
    static const double dx[3][4] = {{0, 1, 0, 0}, {1, 0, 0, 0}, {1, 0, 0, 0}};
    for (int dtype = HOD_F32; dtype <= HOD_F64; dtype++)
        for (int i = 0; i < 3; i++)
            for (int64_t pad = 0; pad < 2; pad++) {
                hod_tensor *x = hod_cast(hod_from_doubles(in[i], HOD_SHAPE(1, 1, 1, 4)),
                                         (hod_dtype)dtype);
                CHECK(hod_requires_grad(x, true));
                hod_tensor *y = hod_max_pool2d_with(
                    x, (hod_pool2d_options){.kernel_hw = {1, 4}, .padding_tlbr = {0, pad, 0, 0}});
                double v, g[4];
                CHECK(hod_read_doubles(y, &v, 1) == 0);
                CHECK(i == 1 ? v == -INFINITY : isnan(v));
                CHECK(hod_backward(y) == 0 && hod_read_doubles(hod_grad(x), g, 4) == 0);
                if (pad == 0)
                    for (int k = 0; k < 4; k++)
                        NEAR(g[k], dx[i][k], 0);
            }
}

/* The middle windows have one tap before the image and one behind it. */
TEST(ops_pool_of_padding_alone)
{
    hod_tensor *x = hod_full(HOD_F32, HOD_SHAPE(1, 1, 2, 2), 3);
    hod_tensor *y = hod_max_pool2d(x, 2, .stride = 1, .dilation = 3, .padding = 2);
    CHECK(hod_item(hod_amin(y)) == -INFINITY && hod_item(hod_amax(y)) == 3);
    y = hod_avg_pool2d(x, 2, .stride = 1, .dilation = 3, .padding = 2, .exclude_pad = true);
    NEAR(hod_item(hod_sum(y)), 12, 0);
}

TEST(ops_pool_other_types)
{
    hod_tensor *x = wave(HOD_SHAPE(2, 3, 6, 6), 0);
    hod_tensor *h = hod_cast(x, HOD_F16), *want = hod_max_pool2d(hod_cast(h, HOD_F64), 2);
    NEAR(distance(hod_max_pool2d(h, 2), want), 0, 0);
    hod_tensor *i = hod_cast(hod_mul_scalar(x, 100), HOD_I32);
    EQ_INT(hod_tensor_dtype(hod_max_pool2d(i, 2)), HOD_I32);
    NEAR(distance(hod_max_pool2d(i, 2), hod_max_pool2d(hod_cast(i, HOD_F64), 2)), 0, 0);
}

/* ---- indexing ---- */

TEST(ops_index_out_of_range)
{
    hod_tensor *w = wave(HOD_SHAPE(5, 3), 0);
    ERROR_IS("embedding: index 5 at element 1 is outside 0..4",
             hod_embedding(w, hod_from_ints((int64_t[]){0, 5}, HOD_SHAPE(2))));
    ERROR_IS("embedding: index -1 at element 0 is outside 0..4",
             hod_embedding(w, hod_from_ints((int64_t[]){-1}, HOD_SHAPE(1))));
    ERROR_IS("gather: index 3 at element 2 is outside 0..2",
             hod_gather(w, 1, hod_from_ints((int64_t[]){0, 1, 3, 0, 0}, HOD_SHAPE(5, 1))));
    ERROR_IS("embedding: an index of f64, not i64, i32 or u8", hod_embedding(w, w));
}

TEST(ops_index_reads_any_layout_and_type)
{
    hod_tensor *w = wave(HOD_SHAPE(5, 3), 0);
    hod_tensor *index = hod_from_ints((int64_t[]){4, 0, 2, 2, 1, 3}, HOD_SHAPE(2, 3));
    hod_tensor *t = hod_transpose(index, 0, 1);
    hod_tensor *y = hod_embedding(hod_cast(w, HOD_F16), hod_cast(t, HOD_I32));
    EQ_INT(hod_tensor_size(y, 0), 3);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++) {
            int64_t at = (int64_t)hod_item(hod_select(hod_select(index, 0, j), 0, i));
            NEAR(distance(hod_select(hod_select(y, 0, i), 0, j), hod_select(w, 0, at)), 0, 5e-4);
        }
    EQ_INT(hod_tensor_numel(hod_embedding(w, hod_zeros(HOD_I64, HOD_SHAPE(0, 4)))), 0);
    hod_tensor *odd = hod_transpose(hod_copy(hod_transpose(w, 0, 1)), 0, 1);
    NEAR(distance(hod_embedding(odd, index), hod_embedding(w, index)), 0, 0);
}

TEST(ops_index_b34_same_bits_for_any_threads)
{
    enum { HITS = 1000, WIDE = 64 };
    float *g = hod__alloc(HITS * WIDE, sizeof *g);
    for (int i = 0; i < HITS * WIDE; i++)
        g[i] = i / WIDE % 4 == 0 ? 1e8f : i / WIDE % 4 == 2 ? -1e8f : 1.0f + (float)(i % 7);
    hod_tensor *grad = hod_from_floats(g, HOD_SHAPE(HITS, WIDE));
    free(g);
    hod_tensor *index = hod_full(HOD_I64, HOD_SHAPE(HITS), 3);
    hod_tensor *first = NULL;
    hod_attrs a = {.shape = {HOD_SHAPE(6, WIDE)}};
    for (int run = 0; run < 20; run++) {
        CHECK(hod_set_threads(run % 3 == 0 ? 1 : run % 3 == 1 ? 2 : 8) == 0);
        hod_tensor *y = hod__op(HOD_OP_embedding_back, &a, 2, (hod_tensor *[]){grad, index});
        first = first ? first : y;
        NEAR(distance(y, first), 0, 0);
    }
    NEAR(hod_item(hod_sum(hod_abs(hod_select(first, 0, 2)))), 0, 0);
    CHECK(hod_item(hod_sum(hod_abs(hod_select(first, 0, 3)))) > 0);
}

/* ---- movement ---- */

TEST(ops_views_share_and_copies_do_not)
{
    hod_tensor *x = hod_cast(wave(HOD_SHAPE(2, 3, 4), 0), HOD_F32);
    CHECK(hod_reshape(x, HOD_SHAPE(6, 4))->storage == x->storage);
    CHECK(hod_reshape(x, HOD_SHAPE(-1, 2, 2))->storage == x->storage);
    CHECK(hod_transpose(x, 0, 2)->storage == x->storage);
    CHECK(hod_slice(x, 1, 1, 3)->storage == x->storage);
    hod_tensor *t = hod_transpose(x, 1, 2);
    CHECK(hod_reshape(t, HOD_SHAPE(24))->storage != x->storage);
    CHECK(hod_reshape(t, HOD_SHAPE(2, 2, 2, 3))->storage == x->storage); /* splits a dimension */
    NEAR(distance(hod_reshape(hod_reshape(t, HOD_SHAPE(24)), HOD_SHAPE(2, 4, 3)), t), 0, 0);
    CHECK(hod_contiguous(x) == x && hod_copy(x)->storage != x->storage);
    CHECK(hod_tensor_is_contiguous(hod_contiguous(t)));
    CHECK(hod_reshape(x, HOD_SHAPE(2, 3, 4)) == x);
    NEAR(distance(hod_permute(hod_permute(x, 2, 0, 1), 1, 2, 0), x), 0, 0);
    ERROR_IS("permute: the order does not name each dimension of (2,3,4) once",
             hod_permute(x, 0, 1, 1));
}

TEST(ops_concat_undoes_slicing)
{
    hod_tensor *x = wave(HOD_SHAPE(3, 10, 2), 0), *parts[3];
    parts[0] = hod_slice(x, 1, 0, 4);
    parts[1] = hod_slice(x, 1, 4, 4); /* of nothing */
    parts[2] = hod_slice(x, 1, 4, 10);
    NEAR(distance(hod_concat(3, parts, -2), x), 0, 0);
    hod_tensor *many[150];
    for (int i = 0; i < 150; i++)
        many[i] = hod_full(HOD_I64, HOD_SHAPE(2), i);
    hod_tensor *y = hod_concat(150, many, 0);
    NEAR(distance(y, hod_flatten(hod_expand(hod_unsqueeze(hod_arange(HOD_I64, 150), 1),
                                            HOD_SHAPE(150, 2)),
                                 0)),
         0, 0);
    NEAR(hod_item(hod_sum(hod_pad(x, 0, 1, 2, 0))), hod_item(hod_sum(x)), 1e-12);
}

TEST(ops_b33_offsets_beyond_32_bits)
{
    hod_tensor *big = hod_zeros(HOD_U8, HOD_SHAPE(16385, 131072)); /* 2 GiB, never touched */
    hod_tensor *row = hod_select(big, 0, 16384);
    CHECK(hod__assign(hod_slice(row, 0, 5, 6), hod_full(HOD_U8, HOD_SHAPE(1), 9)) != NULL);
    EQ_INT(((const uint8_t *)hod_tensor_data(big))[((int64_t)1 << 31) + 5], 9);
    NEAR(hod_item(hod_amax(row)), 9, 0);
    ERROR_IS("full: more elements than 64 bits count",
             hod_full(HOD_F32, HOD_SHAPE((int64_t)1 << 33, (int64_t)1 << 33), 0));
    ERROR_IS("full: size -2 of dimension 0, must not be negative",
             hod_full(HOD_F32, HOD_SHAPE(-2), 0));
}

/* ---- effects ---- */

TEST(ops_assign_b31_refuses_shared_elements)
{
    hod_tensor *one = hod_full(HOD_F32, HOD_SHAPE(1), 1), *x = hod_expand(one, HOD_SHAPE(4));
    hod_tensor *v = hod_from_floats((float[]){1, 2, 3, 4}, HOD_SHAPE(4));
    ERROR_IS("assign: elements of (4) share memory; copy it first",
             hod__assign(x, hod_add(x, v)));
    NEAR(hod_item(one), 1, 0);
}

TEST(ops_assign_overlapping_parts)
{
    hod_tensor *x = hod_from_floats((float[]){1, 2, 3, 4, 5}, HOD_SHAPE(5));
    uint32_t version = hod_tensor_version(x);
    CHECK(hod__assign(hod_slice(x, 0, 1, 5), hod_slice(x, 0, 0, 4)) != NULL);
    CHECK(hod_tensor_version(x) == version + 1);
    float y[5];
    CHECK(hod_read_floats(x, y, 5) == 0);
    CHECK(y[0] == 1 && y[1] == 1 && y[2] == 2 && y[3] == 3 && y[4] == 4);
    hod_tensor *m = wave(HOD_SHAPE(20, 20), 0), *t = hod_copy(hod_transpose(m, 0, 1));
    CHECK(hod__assign(m, hod_transpose(m, 0, 1)) == m);
    NEAR(distance(m, t), 0, 0);
    CHECK(hod__assign(x, hod_full(HOD_I64, HOD_SHAPE(), 7)) == x); /* cast and expanded */
    NEAR(hod_item(hod_sum(x)), 35, 0);
}

TEST(ops_accumulate_writes_then_adds)
{
    hod_grad_slot slot = {0};
    hod_tensor *g = hod_full(HOD_F32, HOD_SHAPE(3), 2);
    CHECK(hod__accumulate(&slot, g) == 0 && slot.present);
    CHECK(hod__accumulate(&slot, g) == 0);
    NEAR(hod_item(hod_sum(slot.sum)), 12, 0);
    NEAR(hod_item(hod_sum(g)), 6, 0);
    slot.present = false; /* a new window: the old values do not matter */
    CHECK(hod__accumulate(&slot, g) == 0);
    NEAR(hod_item(hod_sum(slot.sum)), 6, 0);
    ERROR_IS("accumulate: f32 (2) where f32 (3) is wanted",
             hod__accumulate(&slot, hod_zeros(HOD_F32, HOD_SHAPE(2))));
    hod_tensor_release(slot.sum);
}

/* ---- randomness ---- */

TEST(ops_uniform_does_not_depend_on_the_cut)
{
    hod_tensor *index = hod_arange(HOD_I64, 8);
    CHECK(hod_random_begin(42, 3, index) == 0);
    hod_tensor *whole = hod_uniform(HOD_SHAPE(8, 5, 7));
    for (int i = 0; i < 8; i++) { /* one sample a micro-batch, in another order of dimensions */
        CHECK(hod_random_begin(42, 3, hod_slice(index, 0, i, i + 1)) == 0);
        NEAR(distance(hod_flatten(hod_uniform(HOD_SHAPE(1, 35)), 0),
                      hod_flatten(hod_select(whole, 0, i), 0)),
             0, 0);
    }
    CHECK(hod_random_begin(42, 3, index) == 0);
    NEAR(distance(hod_reshape(hod_uniform(HOD_SHAPE(40, 7)), HOD_SHAPE(8, 5, 7)), whole), 0, 0);
    CHECK(distance(hod_uniform(HOD_SHAPE(8, 5, 7)), whole) > 0.5); /* the next stream */
    CHECK(hod_random_begin(42, 4, index) == 0);
    CHECK(distance(hod_uniform(HOD_SHAPE(8, 5, 7)), whole) > 0.5); /* the next update */
    CHECK(hod_random_begin(42, 3, NULL) == 0); /* 0, 1, 2, ... */
    NEAR(distance(hod_uniform(HOD_SHAPE(8, 5, 7)), whole), 0, 0);
    CHECK(hod_random_begin(42, 3, hod_slice(index, 0, 0, 3)) == 0);
    ERROR_IS("uniform: (8) has no whole number of rows for each of 3 sample indices",
             hod_uniform(HOD_SHAPE(8)));
}

TEST(ops_uniform_is_uniform)
{
    CHECK(hod_random_begin(1, 0, NULL) == 0);
    hod_tensor *u = hod_uniform(HOD_SHAPE(64, 4096));
    double n = 64.0 * 4096;
    /* means of n draws: 6 standard deviations */
    NEAR(hod_item(hod_mean(u)), 0.5, 6 * sqrt(1.0 / 12 / n));
    NEAR(hod_item(hod_mean(hod_square(u))), 1.0 / 3, 6 * sqrt(4.0 / 45 / n));
    CHECK(hod_item(hod_amin(u)) >= 0 && hod_item(hod_amax(u)) < 1);
    hod_tensor *a = hod_slice(u, 1, 0, 4095), *b = hod_slice(u, 1, 1, 4096);
    NEAR(hod_item(hod_mean(hod_mul(a, b))), 0.25, 6 * sqrt(7.0 / 144 / n));
}

TEST(ops_dropout_keeps_the_mean_and_masks_the_gradient)
{
    CHECK(hod_random_begin(5, 0, NULL) == 0);
    hod_tensor *x = hod_full(HOD_F32, HOD_SHAPE(100, 100), 1);
    CHECK(hod_requires_grad(x, true));
    hod_tensor *y = hod_dropout(x, 0.25);
    NEAR(hod_item(hod_mean(y)), 1, 6 * sqrt(0.25 / 0.75 / 10000));
    CHECK(hod_backward(hod_sum(y)) == 0);
    NEAR(distance(hod_grad(x), y), 0, 0);
    CHECK(hod_dropout(x, 0) == x);
    NEAR(hod_item(hod_sum(hod_dropout(x, 1))), 0, 0);
    ERROR_IS("dropout: probability 1.5, wanted 0 to 1", hod_dropout(x, 1.5));
}
