/* Shapes, storages, reading with conversion, 16-bit floats, texts. */
#include "base/base.h"
#include "base/scope.h"
#include "harness.h"
#include "ops/rows.h"
#include "tensor/half.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>

/* A view made by hand: the operators that make views live above. */
static hod_tensor *view(hod_tensor *t, int ndim, const int64_t *shape, const int64_t *strides,
                        int64_t offset)
{
    hod_tensor *v = hod__own(hod__tensor_alias(t));
    v->ndim = (int8_t)ndim;
    memcpy(v->shape, shape, (size_t)ndim * sizeof *shape);
    memcpy(v->strides, strides, (size_t)ndim * sizeof *strides);
    v->offset = offset;
    return v;
}

TEST(tensor_made_from_data)
{
    HOD_SCOPE(s);
    hod_tensor *x = hod_from_floats((float[]){1, 2, 3, 4, 5, 6}, HOD_SHAPE(2, 3));
    EQ_INT(hod_tensor_ndim(x), 2);
    EQ_INT(hod_tensor_size(x, -1), 3);
    EQ_INT(hod_tensor_stride(x, 0), 3);
    EQ_INT(hod_tensor_numel(x), 6);
    CHECK(hod_tensor_is_contiguous(x));
    EQ_INT((int64_t)((uintptr_t)hod_tensor_data(x) % 64), 0);
    char text[80];
    EQ_STR(hod_tensor_text(x, text, sizeof text), "f32 (2,3) [[1,2,3],[4,5,6]]");
    EQ_INT(hod_tensor_version(x), 0);
    ((float *)hod_tensor_mutable_data(x))[0] = 9;
    EQ_INT(hod_tensor_version(x), 1);
    EQ_STR(hod_tensor_text(hod_scalar(2.5), text, sizeof text), "f32 () 2.5");
    ERROR_IS("item: (2,3) has 6 elements, wanted 1", (bool)!isnan(hod_item(x)));
    hod_tensor_size(x, 2);
    EQ_STR(hod_error(), "tensor_size: dimension 2 of (2,3)");
    hod_error_take(NULL);
}

TEST(tensor_dies_with_its_scope)
{
    {
        HOD_SCOPE(s);
        hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(100));
        view(x, 1, (int64_t[]){50}, (int64_t[]){2}, 0);
        EQ_INT(hod_memory().allocated, 448);
    }
    EQ_INT(hod_memory().allocated, 0);
    hod_tensor *kept;
    {
        HOD_SCOPE(s);
        hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(100));
        kept = hod_tensor_retain(view(x, 1, (int64_t[]){50}, (int64_t[]){2}, 0));
    }
    EQ_INT(hod_memory().allocated, 448); /* the view keeps the bytes */
    hod_tensor_release(kept);
    EQ_INT(hod_memory().allocated, 0);
}

TEST(tensor_reads_views_in_row_major_order)
{
    HOD_SCOPE(s);
    hod_tensor *x = hod_from_ints((int64_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, HOD_SHAPE(12));
    /* (3,2,2) of a (2,2,3) array, axes reversed */
    hod_tensor *t = view(x, 3, (int64_t[]){3, 2, 2}, (int64_t[]){1, 3, 6}, 0);
    CHECK(!hod_tensor_is_contiguous(t));
    int64_t got[12];
    const int64_t want[12] = {0, 6, 3, 9, 1, 7, 4, 10, 2, 8, 5, 11};
    EQ_INT(hod_read_ints(t, got, 12), 0);
    for (int i = 0; i < 12; i++)
        EQ_INT(got[i], want[i]);
    float f[4];
    hod_tensor *back = view(x, 1, (int64_t[]){4}, (int64_t[]){-3}, 9);
    EQ_INT(hod_read_floats(back, f, 4), 0);
    NEAR(f[0] * 1000 + f[1] * 100 + f[2] * 10 + f[3], 9630, 0);
    char text[80];
    EQ_STR(hod_tensor_text(back, text, sizeof text), "i64 (4) [9,6,3,0]");
    ERROR_IS("read_floats: room for 3, (4) has 4", hod_read_floats(back, f, 3));
}

TEST(tensor_reads_every_dtype)
{
    HOD_SCOPE(s);
    const struct {
        hod_dtype dtype;
        const void *data;
    } made[] = {
        {HOD_F32, (float[]){2, 3}},           {HOD_F64, (double[]){2, 3}},
        {HOD_F16, (uint16_t[]){0x4000, 0x4200}}, {HOD_BF16, (uint16_t[]){0x4000, 0x4040}},
        {HOD_I64, (int64_t[]){2, 3}},         {HOD_I32, (int32_t[]){2, 3}},
        {HOD_U8, (uint8_t[]){2, 3}},          {HOD_BOOL, (uint8_t[]){0, 7}},
    };
    for (int i = 0; i < HOD_COUNT(made); i++) {
        hod_tensor *t = hod_from_data(made[i].dtype, made[i].data, HOD_SHAPE(2));
        double d[2];
        float f[2];
        int64_t n[2];
        CHECK(!hod_read_doubles(t, d, 2) && !hod_read_floats(t, f, 2) && !hod_read_ints(t, n, 2));
        bool boolean = made[i].dtype == HOD_BOOL;
        NEAR(d[0] * 10 + d[1], boolean ? 1 : 23, 0);
        NEAR(f[0] * 10 + f[1], boolean ? 1 : 23, 0);
        EQ_INT(n[0] * 10 + n[1], boolean ? 1 : 23);
    }
}

TEST(tensor_integers_from_impossible_floats)
{
    HOD_SCOPE(s);
    int64_t n[6];
    hod_tensor *t = hod_from_doubles((double[]){NAN, INFINITY, -INFINITY, 1e300, -2.9, 2.9},
                                     HOD_SHAPE(6));
    EQ_INT(hod_read_ints(t, n, 6), 0);
    EQ_INT(n[0], 0);
    EQ_INT(n[1], INT64_MAX);
    EQ_INT(n[2], INT64_MIN);
    EQ_INT(n[3], INT64_MAX);
    EQ_INT(n[4], -2);
    EQ_INT(n[5], 2);
}

TEST(tensor_text_is_cut)
{
    HOD_SCOPE(s);
    hod_tensor *x = hod_zeros(HOD_I32, HOD_SHAPE(1000));
    char text[24];
    EQ_STR(hod_tensor_text(x, text, sizeof text), "i32 (1000) [0,0,0,0,...");
    EQ_STR(hod_tensor_text(NULL, text, sizeof text), "NULL");
    text[0] = 'x';
    hod_tensor_text(x, text, 1);
    EQ_INT(text[0], 0);
}

TEST(tensor_nothing_in_nothing_out)
{
    double d;
    hod_refuse("the first failure");
    CHECK(isnan(hod_item(NULL)) && hod_read_doubles(NULL, &d, 1) == -1);
    CHECK(!hod_tensor_data(NULL) && !hod_tensor_retain(NULL) && !hod_escape(NULL));
    EQ_INT(hod_tensor_numel(NULL), 0);
    hod_tensor_release(NULL);
    EQ_STR(hod_error(), "the first failure"); /* NULL flows through without a word more */
    hod_error_take(NULL);
    ERROR_IS("tensor_data: tensor is NULL", hod_tensor_data(NULL));
    ERROR_IS("read_doubles: tensor is NULL", hod_read_doubles(NULL, &d, 1));
}

TEST(tensor_empty_sizes)
{
    HOD_SCOPE(s);
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(0, 4));
    CHECK(x && hod_tensor_data(x));
    EQ_INT(hod_tensor_numel(x), 0);
    CHECK(hod_tensor_is_contiguous(x) && !hod__overlaps_itself(x));
    char text[40];
    EQ_STR(hod_tensor_text(x, text, sizeof text), "f32 (0,4) []");
    EQ_INT(hod_read_doubles(x, NULL, 0), 0);
    CHECK(hod_from_floats(NULL, HOD_SHAPE(2, 0)));
    CHECK(hod_zeros(HOD_F32, HOD_SHAPE(1ll << 40, 0, 1ll << 40))); /* nothing, however wide */
}

TEST(tensor_impossible_sizes)
{
    HOD_SCOPE(s);
    int64_t before = hod_memory().allocations;
    ERROR_IS("tensor: size (8589934592,8589934592) is impossible",
             hod_zeros(HOD_F32, HOD_SHAPE(1ll << 33, 1ll << 33)));
    ERROR_IS("tensor: size (2,-1) is impossible", hod_empty(HOD_F32, HOD_SHAPE(2, -1)));
    ERROR_IS("tensor: size (4611686018427387904) is impossible",
             hod_empty(HOD_F64, HOD_SHAPE(1ll << 62))); /* elements fit, bytes do not */
    ERROR_IS("tensor: 9 dimensions, at most 8",
             hod_empty(HOD_F32, HOD_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1)));
    ERROR_IS("tensor: dtype 99 does not exist", hod_empty((hod_dtype)99, HOD_SHAPE(1)));
    ERROR_IS("from_data: no data for (2)", hod_from_floats(NULL, HOD_SHAPE(2)));
    EQ_INT(hod_memory().allocations, before + 1); /* only the last got as far as memory */
}

TEST(tensor_index_products_are_64_bit)
{
    HOD_SCOPE(s);
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(1));
    hod_tensor *wide = view(x, 2, (int64_t[]){46341, 46341}, (int64_t[]){0, 0}, 0);
    EQ_INT(hod_tensor_numel(wide), 2147488281);
    /* an element 2^31 elements into a storage: its address, never its value */
    hod_tensor *far = view(x, 2, (int64_t[]){1, 1}, (int64_t[]){131072, 1}, 16384ll * 131072);
    EQ_INT((char *)hod__data(far) - (char *)hod__data(x), (1ll << 31) * 4);
}

TEST(tensor_overlap)
{
    HOD_SCOPE(s);
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(64));
    CHECK(!hod__overlaps_itself(x));
    CHECK(!hod__overlaps_itself(view(x, 2, (int64_t[]){3, 4}, (int64_t[]){1, 3}, 0)));
    CHECK(!hod__overlaps_itself(view(x, 2, (int64_t[]){3, 1}, (int64_t[]){1, 0}, 0)));
    CHECK(!hod__overlaps_itself(view(x, 1, (int64_t[]){4}, (int64_t[]){-2}, 6)));
    CHECK(hod__overlaps_itself(view(x, 1, (int64_t[]){4}, (int64_t[]){0}, 0)));
    CHECK(hod__overlaps_itself(view(x, 2, (int64_t[]){4, 4}, (int64_t[]){1, 1}, 0)));
    hod_tensor *expanded = view(x, 1, (int64_t[]){4}, (int64_t[]){0}, 0);
    ERROR_IS("mutable_data: elements of this (4) view share memory",
             hod_tensor_mutable_data(expanded));
}

static int fill(const hod_tensor *t)
{
    hod_storage *s = t->storage;
    s->data = s->device->alloc(s->device, s->bytes);
    memset(s->data, 0, (size_t)s->bytes);
    return s->data ? 0 : -1;
}

TEST(tensor_symbolic_is_realised_on_reading)
{
    HOD_SCOPE(s);
    hod_meta m = {.dtype = HOD_F32, .ndim = 1, .shape = {3}};
    hod_storage *storage = hod__storage_symbolic(hod__cpu(), 12);
    hod_tensor *t = hod__own(hod__tensor_new(&m, storage));
    hod__storage_release(storage);
    EQ_INT(hod_memory().allocated, 0);
    ERROR_IS("read: the values of this (3) tensor were never computed", hod_tensor_data(t));
    hod__realise_hook = fill;
    char text[40];
    EQ_STR(hod_tensor_text(t, text, sizeof text), "f32 (3) [0,0,0]");
    EQ_INT(hod_memory().allocated, 64);
}

TEST(tensor_survives_every_failing_allocation)
{
    bool done = false;
    for (int64_t n = 0; !done; n++) {
        CHECK(n < 20);
        HOD_SCOPE(s);
        hod__alloc_fail_after = n;
        hod_tensor *x = hod_from_floats((float[]){1, 2}, HOD_SHAPE(2));
        hod_tensor *y = x ? hod__own(hod__tensor_alias(x)) : NULL;
        done = y && hod__alloc_fail_after >= 0;
        hod__alloc_fail_after = -1;
        if (!y) {
            EQ_INT(hod_error_kind_pending(), HOD_ERROR_MEMORY);
            hod_error_take(NULL);
        }
    }
    EQ_INT(hod_memory().allocated, 0);
    EQ_INT(hod__scope_live(), 0);
}

/* ---- 16-bit floats ---- */

/* The definition, digit by digit. */
static double f16_value(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double x = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h >> 15 ? -x : x;
}

TEST(half_f16_to_f32_all)
{
    for (int h = 0; h < 65536; h++) {
        float x = hod__f16_to_f32((uint16_t)h);
        NEAR(x, f16_value((uint16_t)h), 0);
        EQ_INT(signbit(x) != 0, h >> 15);
    }
}

/* Among all f16 values the nearest to x, the even one of two. */
static void check_rounding(float x)
{
    uint16_t h = hod__f32_to_f16(x);
    double got = f16_value(h), error = fabs(got - (double)x);
    EQ_INT(h >> 15, signbit(x) != 0);
    if (isinf(got)) {
        CHECK(fabsf(x) >= 65520.0f);
        return;
    }
    CHECK(fabsf(x) < 65520.0f);
    for (int d = -1; d <= 1; d += 2) {
        int neighbour = (h & 0x7fff) + d;
        if (neighbour < 0 || neighbour >= 0x7c00)
            continue;
        double other = fabs(f16_value((uint16_t)neighbour) - fabs((double)x));
        CHECK(error < other || (error == other && (h & 1) == 0));
    }
}

TEST(half_f32_to_f16_rounds_to_nearest_even)
{
    for (int h = 0; h < 0x7c00; h++) {
        float x = (float)f16_value((uint16_t)h);
        EQ_INT(hod__f32_to_f16(x), h);
        EQ_INT(hod__f32_to_f16(-x), h | 0x8000);
        float middle = (float)(0.5 * (f16_value((uint16_t)h) + (h == 0x7bff ? 65536.0 :
                                                               f16_value((uint16_t)(h + 1)))));
        check_rounding(middle);
        check_rounding(nextafterf(middle, 0));
        check_rounding(-nextafterf(middle, 1e9f));
    }
    EQ_INT(hod__f32_to_f16(INFINITY), 0x7c00);
    EQ_INT(hod__f32_to_f16(-1e30f), 0xfc00);
    EQ_INT(hod__f32_to_f16(1e-30f), 0);
    CHECK((hod__f32_to_f16(NAN) & 0x7fff) > 0x7c00);
    CHECK((hod__f32_to_f16(hod__bits_f32(0x7f800001)) & 0x7fff) > 0x7c00);
}

/* Eight at once, where this machine has an instruction for it, and one by one. */
TEST(half_f16_rows_have_the_same_bits)
{
    enum { N = 1003 };
    float x[N], y[N];
    uint16_t h[N];
    for (int rows = 0; rows < 3 && hod__rows_of(rows); rows++) {
        const hod_rows *r = hod__rows_of(rows);
        for (uint64_t u = 0; u < (uint64_t)1 << 32; u += 40009 * N) {
            for (int i = 0; i < N; i++)
                x[i] = hod__bits_f32((uint32_t)(u + (uint64_t)i * 40009));
            r->cast[HOD_F32][HOD_F16](N, h, 1, x, 1);
            for (int i = 0; i < N; i++)
                EQ_INT(h[i], hod__f32_to_f16(x[i]));
        }
        for (int from = 0; from < 65536; from += N) {
            for (int i = 0; i < N; i++)
                h[i] = (uint16_t)(from + i);
            r->cast[HOD_F16][HOD_F32](N, y, 1, h, 1);
            for (int i = 0; i < N; i++)
                EQ_INT(hod__f32_bits(y[i]), hod__f32_bits(hod__f16_to_f32(h[i])));
        }
    }
}

TEST(half_bf16)
{
    for (int h = 0; h < 65536; h++) {
        float x = hod__bf16_to_f32((uint16_t)h);
        if (!isnan(x))
            EQ_INT(hod__f32_to_bf16(x), h);
        else
            CHECK(isnan(hod__bf16_to_f32(hod__f32_to_bf16(x))));
    }
    EQ_INT(hod__f32_to_bf16(hod__bits_f32(0x3f808000)), 0x3f80); /* tie: down to even */
    EQ_INT(hod__f32_to_bf16(hod__bits_f32(0x3f818000)), 0x3f82); /* tie: up to even */
    EQ_INT(hod__f32_to_bf16(hod__bits_f32(0x3f808001)), 0x3f81);
    EQ_INT(hod__f32_to_bf16(hod__bits_f32(0x7f7fffff)), 0x7f80); /* rounds to infinity */
    CHECK(isnan(hod__bf16_to_f32(hod__f32_to_bf16(hod__bits_f32(0x7f800001)))));
}
