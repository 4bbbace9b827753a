/* Pooling against windows walked one element at a time: on grids of every kind and in bins, in both
 * types, with NaN, infinities and equal elements; integers have a maximum. Values are small and
 * whole, so sums are exact. */
#include "harness.h"
#include "ops/rules.h"
#include <hod/autograd.h>
#include <math.h>

static uint32_t state = 7;

static int64_t draw(int64_t below)
{
    state = state * 1664525u + 1013904223u;
    return (int64_t)(state >> 8) % below;
}

static hod_tensor *drawn(hod_dtype dtype, hod_shape s, bool odd)
{
    static const double ends[] = {NAN, INFINITY, -INFINITY};
    int64_t n = hod__numel(s.n, s.d);
    double *v = hod__alloc((size_t)n + 1, sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = odd && draw(8) == 0 ? ends[draw(3)] : (double)(draw(9) - 4);
    hod_tensor *t = hod_cast(hod_from_doubles(v, s), dtype);
    free(v);
    return t;
}

static double *values(hod_tensor *t)
{
    double *v = hod__alloc((size_t)hod_tensor_numel(t) + 1, sizeof *v);
    CHECK(hod_read_doubles(t, v, hod_tensor_numel(t)) == 0);
    return v;
}

static void alike(double have, double want)
{
    CHECK(have == want || (have != have && want != want));
}

/* Window (oy, ox) of a plane: its elements' positions in order, how many there are. */
static int64_t window(const hod_attrs_pool *a, const hod_tensor *x, int64_t oy, int64_t ox,
                      int64_t *at)
{
    int64_t n = 0, begin[2], end[2], o[2] = {oy, ox}, step[2];
    for (int i = 0; i < 2; i++) {
        int64_t size = x->shape[2 + i], bins = a->bins[i];
        begin[i] = bins ? o[i] * size / bins : o[i] * a->stride[i] - a->padding[i];
        step[i] = bins ? 1 : a->dilation[i];
        end[i] = bins ? ((o[i] + 1) * size + bins - 1) / bins : begin[i] + a->kernel[i] * step[i];
    }
    for (int64_t y = begin[0]; y < end[0]; y += step[0])
        for (int64_t c = begin[1]; c < end[1]; c += step[1])
            if (y >= 0 && y < x->shape[2] && c >= 0 && c < x->shape[3])
                at[n++] = y * x->shape[3] + c;
    return n;
}

/* Maximum or mean of each window, and where its gradient of g goes. Integers have no gradient. */
static void check(const hod_attrs *a, hod_tensor *x, bool greatest)
{
    hod_op op = greatest ? HOD_OP_max_pool2d : HOD_OP_avg_pool2d;
    bool smooth = hod__is_float(x->dtype);
    double lowest = smooth ? -INFINITY : -0x1p63;
    x = hod_requires_grad(hod_copy(x), smooth);
    hod_tensor *y = hod__op(op, a, 1, &x),
               *g = y ? drawn(x->dtype, hod_tensor_shape(y), false) : NULL;
    hod_tensor *dx = g;
    CHECK(g && (!smooth || hod_grad_of(y, 1, &x, &dx, g) == 0));
    double *vx = values(x), *vy = values(y), *vg = values(g), *vd = values(dx);
    int64_t image = x->shape[2] * x->shape[3], across = y->shape[3], n = y->shape[2] * across;
    int64_t *at = hod__alloc((size_t)image + 1, sizeof *at);
    double *want = hod__alloc((size_t)image + 1, sizeof *want);
    for (int64_t p = 0; p < x->shape[0] * x->shape[1]; p++) {
        const double *e = vx + p * image;
        memset(want, 0, (size_t)image * sizeof *want);
        for (int64_t o = 0; o < n; o++) {
            int64_t k = window(&a->pool, x, o / across, o % across, at), best = 0;
            double sum = 0, share = vg[p * n + o];
            bool all = a->pool.count_include_pad && !a->pool.bins[0];
            int64_t count = all ? a->pool.kernel[0] * a->pool.kernel[1] : HOD_MAX(k, 1);
            for (int64_t i = 0; i < k; i++) {
                double v = e[at[i]], b = e[at[best]];
                best = v > b || (v != v && b == b) ? i : best;
                sum += v;
            }
            if (greatest) {
                alike(vy[p * n + o], k ? e[at[best]] : lowest);
                if (k)
                    want[at[best]] += share;
                continue;
            }
            double mean = sum / (double)count;
            CHECK(mean != mean ? vy[p * n + o] != vy[p * n + o]
                               : vy[p * n + o] == mean || fabs(vy[p * n + o] - mean) < 1e-6 * 4);
            for (int64_t i = 0; i < k; i++)
                want[at[i]] += share / (double)count;
        }
        for (int64_t i = 0; smooth && i < image; i++)
            CHECK(fabs(vd[p * image + i] - want[i]) < (greatest ? 1e-30 : 1e-5));
    }
    free(vx), free(vy), free(vg), free(vd), free(at), free(want);
}

static hod_attrs drawn_grid(void)
{
    hod_attrs a;
    memset(&a, 0, sizeof a);
    for (int i = 0; i < 2; i++) {
        a.pool.kernel[i] = 1 + draw(draw(3) ? 4 : 12);
        a.pool.stride[i] = 1 + draw(draw(3) ? 3 : 9);
        a.pool.dilation[i] = draw(3) ? 1 : 1 + draw(3);
        a.pool.padding[i] = draw(4);
        a.pool.padding[2 + i] = draw(4);
    }
    a.pool.count_include_pad = draw(2);
    return a;
}

TEST(pool_of_any_grid)
{
    int done = 0;
    for (int round = 0; round < 1500; round++) {
        HOD_SCOPE(s);
        hod_attrs a = drawn_grid();
        hod_shape x = HOD_SHAPE(1, 1 + draw(2), 1 + draw(20), 1 + draw(draw(8) ? 20 : 600));
        hod_meta in = {.dtype = draw(2) ? HOD_F32 : HOD_F64, .ndim = 4}, y;
        memcpy(in.shape, x.d, sizeof in.shape);
        if (hod__op_shape(HOD_OP_max_pool2d, &a, 1, &in, &y) != 0) {
            hod_error_take(&(hod_error_record){0});
            continue;
        }
        check(&a, drawn(in.dtype, x, draw(2)), true);
        check(&a, drawn(in.dtype, x, draw(8) == 0), false);
        check(&a, drawn(HOD_I64, x, false), true);
        done++;
    }
    CHECK(done > 500);
}

TEST(pool_of_any_bins)
{
    for (int round = 0; round < 300; round++) {
        HOD_SCOPE(s);
        hod_attrs a;
        memset(&a, 0, sizeof a);
        a.pool.bins[0] = 1 + draw(12);
        a.pool.bins[1] = 1 + draw(12);
        hod_shape x = HOD_SHAPE(1, 2, 1 + draw(30), 1 + draw(draw(4) ? 30 : 300));
        hod_dtype t = draw(2) ? HOD_F32 : HOD_F64;
        check(&a, drawn(t, x, draw(2)), true);
        check(&a, drawn(t, x, false), false);
        check(&a, drawn(HOD_I64, x, false), true);
    }
}

/* Kernels too wide for rows go window after window. */
TEST(pool_of_wide_kernels)
{
    HOD_SCOPE(s);
    hod_attrs a = {.pool = {.kernel = {2, 300}, .stride = {1, 2}, .dilation = {1, 1}}};
    check(&a, drawn(HOD_F32, HOD_SHAPE(1, 1, 3, 400), true), true);
    check(&a, drawn(HOD_F32, HOD_SHAPE(1, 1, 3, 400), false), false);
}

/* An image without rows in enough padding: windows of nothing. */
TEST(pool_of_nothing_but_padding)
{
    hod_attrs a = {
        .pool = {.kernel = {2, 2}, .stride = {1, 1}, .padding = {1, 1, 1, 1}, .dilation = {1, 1}}};
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(1, 2, 0, 3));
    hod_tensor *most = hod__op(HOD_OP_max_pool2d, &a, 1, &x);
    hod_tensor *mean = hod__op(HOD_OP_avg_pool2d, &a, 1, &x);
    CHECK(most && mean);
    EQ_INT(hod_tensor_numel(most), 8);
    CHECK(hod_item(hod_amax(most)) == -INFINITY && hod_item(hod_amax(hod_abs(mean))) == 0);
}

/* Integers are compared as integers: 2^53 and its successors are one number in f64. */
TEST(pool_of_large_integers)
{
    const int64_t big = (int64_t)1 << 53, v[] = {big, big + 1, -big - 1, -big - 2};
    hod_attrs a = {.pool = {.kernel = {1, 2}, .stride = {1, 2}, .dilation = {1, 1}}};
    hod_tensor *x = hod_from_ints(v, HOD_SHAPE(1, 1, 1, 4)),
               *y = hod__op(HOD_OP_max_pool2d, &a, 1, &x);
    hod_tensor *g = hod_from_ints((int64_t[]){big + 1, 7}, HOD_SHAPE(1, 1, 1, 2));
    hod_tensor *dx = hod__op(HOD_OP_max_pool2d_back, &a, 2, (hod_tensor *[]){g, x});
    int64_t got[4];
    CHECK(hod_read_ints(y, got, 2) == 0);
    EQ_INT(got[0], big + 1);
    EQ_INT(got[1], -big - 1);
    CHECK(hod_read_ints(dx, got, 4) == 0);
    EQ_INT(got[1], big + 1);
    EQ_INT(got[2], 7);
    CHECK(got[0] == 0 && got[3] == 0);
}

/* A window of nothing but padding: the lowest of every type; what is picked is 0, from x, too. */
TEST(pool_of_no_element)
{
    const double lowest[] = {
        [HOD_F32] = -INFINITY, [HOD_F64] = -INFINITY, [HOD_F16] = -INFINITY, [HOD_BF16] = -INFINITY,
        [HOD_I64] = -0x1p63,   [HOD_I32] = -0x1p31,   [HOD_U8] = 0,          [HOD_BOOL] = 0};
    for (int far = 0; far < 3; far++) { /* by rows, by lanes, window after window */
        hod_attrs a = {.pool = {.stride = {1, far == 1 ? 3 : 1}, .dilation = {1, 1}}};
        a.pool.kernel[0] = 1;
        a.pool.kernel[1] = far == 0 ? 2 : far == 1 ? 4 : 300;
        for (int i = 0; i < 4; i++)
            a.pool.padding[i] = i % 2 ? a.pool.kernel[1] : 0;
        for (int t = 0; t < HOD_DTYPES; t++) {
            hod_tensor *x = hod_full((hod_dtype)t, HOD_SHAPE(1, 1, 1, 3), 1);
            hod_tensor *y = hod__op(HOD_OP_max_pool2d, &a, 1, &x);
            NEAR(hod_item(hod_select(hod_flatten(y, 0), 0, 0)), lowest[t], 0);
            hod_tensor *picked = hod__op(HOD_OP_max_pool2d_pick, &a, 2, (hod_tensor *[]){x, x});
            NEAR(hod_item(hod_select(hod_flatten(picked, 0), 0, 0)), 0, 0);
        }
    }
}

TEST(pool_means_are_of_floats)
{
    hod_attrs a = {.pool = {.kernel = {1, 2}, .stride = {1, 2}, .dilation = {1, 1}}};
    a.pool.shape = HOD_SHAPE(1, 1, 1, 4);
    hod_tensor *g = hod_zeros(HOD_I64, HOD_SHAPE(1, 1, 1, 2));
    ERROR_IS("avg_pool2d_back: not defined for i64", hod__op(HOD_OP_avg_pool2d_back, &a, 1, &g));
}
