/* Copies of every kind of strides against an element at a time: by rows, by tiles, backwards, with
 * steps, repeated, into a result that is strided itself; for one thread and for two. */
#include "harness.h"
#include "ops/rules.h"
#include <hod/movement.h>
#include <hod/threads.h>

static uint32_t state = 1;

static int64_t draw(int64_t below)
{
    state = state * 1664525u + 1013904223u;
    return (int64_t)(state >> 8) % below;
}

/* Bytes 0, 1, 2, ... mod 251 of a new row-major tensor. */
static hod_tensor *filled(hod_dtype dtype, hod_shape s)
{
    hod_tensor *t = hod_zeros(dtype, s);
    unsigned char *p = hod__data(t);
    int64_t n = hod_tensor_numel(t) * (int64_t)hod_dtype_bytes(dtype);
    for (int64_t i = 0; i < n; i++)
        p[i] = (unsigned char)(i % 251);
    return t;
}

static hod_shape drawn_order(int n)
{
    hod_shape order = {.n = n};
    for (int i = 0; i < n; i++) {
        int at = (int)draw(i + 1);
        order.d[i] = order.d[at];
        order.d[at] = i;
    }
    return order;
}

/* A view of a new tensor with dimensions in any order, some stepped through, some repeated. */
static hod_tensor *drawn_view(hod_dtype dtype, int n)
{
    static const int64_t sizes[] = {1, 2, 3, 7, 16, 17, 33, 64};
    hod_shape s = {.n = n}, wide;
    int64_t all = 1;
    for (int i = 0; i < n; i++) {
        int64_t size = sizes[draw(HOD_COUNT(sizes))];
        s.d[i] = all * size > 300000 ? 2 : size;
        all *= s.d[i];
    }
    hod_tensor *t = hod_permute_to(filled(dtype, s), drawn_order(n));
    for (int i = 0; i < n; i++)
        if (draw(4) == 0)
            t = hod_slice_step(t, i, draw(2), 1 << 20, 1 + draw(3));
    wide = hod_tensor_shape(t);
    for (int i = 0; i < n; i++)
        if (wide.d[i] == 1 && draw(2))
            wide.d[i] = 5;
    return hod_expand(t, wide);
}

static void copies_alike(const hod_tensor *from, const hod_tensor *to)
{
    size_t size = hod_dtype_bytes(from->dtype);
    int64_t at[HOD_MAX_DIMS] = {0}, n = hod__numel(from->ndim, from->shape);
    for (int64_t k = 0; k < n; k++) {
        int64_t x = 0, y = 0;
        for (int i = 0; i < from->ndim; i++) {
            x += at[i] * from->strides[i];
            y += at[i] * to->strides[i];
        }
        CHECK(memcmp((char *)hod__data(from) + x * (int64_t)size,
                     (char *)hod__data(to) + y * (int64_t)size, size) == 0);
        for (int i = from->ndim - 1; i >= 0 && ++at[i] == from->shape[i]; i--)
            at[i] = 0;
    }
}

TEST(copy_of_any_strides)
{
    static const hod_dtype types[] = {HOD_U8, HOD_F16, HOD_F32, HOD_I64};
    for (int round = 0; round < 300; round++) {
        HOD_SCOPE(s);
        CHECK(hod_set_threads(1 + round % 2) == 0);
        hod_dtype dtype = types[draw(HOD_COUNT(types))];
        int n = 1 + (int)draw(5);
        hod_tensor *from = drawn_view(dtype, n);
        CHECK(from != NULL);
        copies_alike(from, hod_copy(from));
        /* the same backwards: strides that only flip makes */
        hod_tensor back = *from;
        int d = (int)draw(n);
        if (back.shape[d] > 0) {
            back.offset += (back.shape[d] - 1) * back.strides[d];
            back.strides[d] = -back.strides[d];
            hod_tensor *flipped = hod_flip(from, d);
            copies_alike(&back, flipped);
        }
        /* into a part of a result in another order */
        hod_shape order = drawn_order(n), room = {.n = n};
        for (int i = 0; i < n; i++)
            room.d[order.d[i]] = 2 * hod_tensor_size(from, i) + 1;
        hod_tensor *to = hod_permute_to(hod_zeros(dtype, room), order);
        for (int i = 0; i < n; i++)
            to = hod_slice_step(to, i, 1, 2 * hod_tensor_size(from, i) + 1, 1 + (draw(3) == 0));
        for (int i = 0; i < n; i++)
            to = hod_slice(to, i, 0, hod_tensor_size(from, i));
        CHECK(to != NULL);
        hod__eval_copy(from, to);
        copies_alike(from, to);
    }
}

TEST(copy_concat_of_any_strides)
{
    for (int round = 0; round < 300; round++) {
        HOD_SCOPE(s);
        CHECK(hod_set_threads(1 + round % 2) == 0);
        hod_tensor *a = drawn_view(HOD_F32, 3);
        int d = (int)draw(3);
        int64_t cut = draw(hod_tensor_size(a, d) + 1);
        hod_tensor *parts[] = {hod_slice(a, d, 0, cut), hod_slice(a, d, cut, 1 << 20), hod_copy(a)};
        hod_tensor *y = hod_concat(3, parts, d);
        int64_t size = hod_tensor_size(a, d);
        CHECK(y != NULL);
        copies_alike(a, hod_slice(y, d, 0, size));
        copies_alike(a, hod_slice(y, d, size, 2 * size));
    }
}

/* Rows of every length at which another loop takes them, apart and the same one repeated; and lines
 * of one element, whose bytes are alike or not. */
TEST(copy_of_rows_by_length)
{
    static const int64_t bytes[] = {1,   15,  16,  17,  31,  32,   33,   48,   63,   64,   65,
                                    255, 256, 511, 512, 575, 2048, 4095, 4096, 8191, 8193, 70001};
    for (int k = 0; k < HOD_COUNT(bytes); k++) {
        HOD_SCOPE(s);
        hod_tensor *x = hod_slice(filled(HOD_U8, HOD_SHAPE(5, bytes[k] + 3)), 1, 1, bytes[k] + 1);
        copies_alike(x, hod_copy(x));
        hod_tensor *three = hod_expand(hod_unsqueeze(x, 1), HOD_SHAPE(5, 3, bytes[k]));
        copies_alike(three, hod_copy(three));
    }
    static const double one[] = {0, -1, 1.5, 257};
    for (int k = 0; k < HOD_COUNT(one); k++)
        for (hod_dtype dtype = 0; dtype < HOD_DTYPES; dtype++) {
            HOD_SCOPE(s);
            hod_tensor *x = hod_cast(hod_full(HOD_F64, HOD_SHAPE(), one[k]), dtype);
            x = hod_expand(x, HOD_SHAPE(70, 600));
            copies_alike(x, hod_copy(x));
        }
}
