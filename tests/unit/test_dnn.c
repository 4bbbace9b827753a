/* Convolution and matrix product against their definitions, in double.
 *
 * The convolution's twin is seven nested loops over plain images; blocked ones are reordered on
 * the way in and out, so the layouts are tested by the same comparison. Gradients come from the
 * same loops: y is linear in x and in w, so each loop body adds one product to whichever of the
 * three is wanted.
 */
#include "base/base.h"
#include "device/device.h"
#include "device/dnn.h"
#include "device/tiny.h"
#include "harness.h"

#include <math.h>
#include <stdio.h>

static float *noise(int64_t n, uint64_t seed)
{
    float *x = aligned_alloc(64, (size_t)((n * 4 + 127) / 64 * 64));
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)(int32_t)(seed >> 32) * 0x1p-31f;
    }
    return x;
}

/* Adds into the third of x (n,ci,h,w), w (co,ci/groups,kh,kw), y (n,co,ho,wo), which is `into`. */
static void direct(const hod_conv_geometry *g, hod_dnn_conv_kind kind, const float *x,
                   const float *w, const float *y, double *into)
{
    int64_t ho = hod__conv_out_h(g), wo = hod__conv_out_w(g), ci = g->ci / g->groups;
    for (int64_t n = 0; n < g->n; n++)
        for (int64_t o = 0; o < g->co; o++)
            for (int64_t c = 0; c < ci; c++)
                for (int64_t i = 0; i < ho; i++)
                    for (int64_t j = 0; j < wo; j++)
                        for (int64_t p = 0; p < g->kh; p++)
                            for (int64_t q = 0; q < g->kw; q++) {
                                int64_t r = i * g->stride[0] + p * g->dilation[0] - g->padding[0];
                                int64_t s = j * g->stride[1] + q * g->dilation[1] - g->padding[1];
                                if (r < 0 || r >= g->h || s < 0 || s >= g->w)
                                    continue;
                                int64_t channel = o / (g->co / g->groups) * ci + c;
                                int64_t ix = ((n * g->ci + channel) * g->h + r) * g->w + s;
                                int64_t iw = ((o * ci + c) * g->kh + p) * g->kw + q;
                                int64_t iy = ((n * g->co + o) * ho + i) * wo + j;
                                if (kind == HOD_CONV_FORWARD)
                                    into[iy] += (double)x[ix] * (double)w[iw];
                                else if (kind == HOD_CONV_INPUT_GRADIENT)
                                    into[ix] += (double)y[iy] * (double)w[iw];
                                else
                                    into[iw] += (double)x[ix] * (double)y[iy];
                            }
}

/* A copy in `layout` of the plain image. */
static float *laid_out(const float *plain, int64_t n, int64_t c, int64_t h, int64_t w,
                       hod_layout layout)
{
    float *out = noise(n * c * h * w, 1);
    EQ_INT(hod__dnn_reorder(HOD_F32, n, c, h, w, HOD_LAYOUT_PLAIN, plain, layout, out), 0);
    return out;
}

static void compare(const float *got, const double *want, int64_t n, int64_t terms)
{
    /* One f32 rounding a product and sum: error grows like sqrt(terms) of values below 1; ten
     * times that leaves room for the order of summation. */
    double tol = 1e-6 * sqrt((double)terms) + 1e-6;
    for (int64_t i = 0; i < n; i++)
        NEAR((double)got[i], want[i], tol);
}

static void check_kind(const hod_conv_geometry *g, hod_dnn_conv_kind kind, hod_layout image,
                       hod_layout out, float beta)
{
    int64_t ho = hod__conv_out_h(g), wo = hod__conv_out_w(g);
    int64_t nx = g->n * g->ci * g->h * g->w, ny = g->n * g->co * ho * wo;
    int64_t nw = g->co * (g->ci / g->groups) * g->kh * g->kw;
    float *x = noise(nx, 2), *w = noise(nw, 3), *y = noise(ny, 4);
    float *xl = laid_out(x, g->n, g->ci, g->h, g->w, image);
    float *yl = laid_out(y, g->n, g->co, ho, wo, out);
    hod_dnn *p = hod__dnn_conv(kind, g, image, out);
    CHECK(p);
    void *scratch = aligned_alloc(64, (size_t)hod__dnn_scratch(p) + 64);
    int64_t n = kind == HOD_CONV_FORWARD ? ny : kind == HOD_CONV_INPUT_GRADIENT ? nx : nw;
    double *want = calloc((size_t)n, sizeof *want);
    float *plain = noise(n, 5);
    if (kind == HOD_CONV_WEIGHT_GRADIENT) {
        for (int64_t i = 0; i < n; i++)
            want[i] = beta != 0.0f ? (double)w[i] : 0.0;
        direct(g, kind, x, w, y, want);
        EQ_INT(hod__dnn_run_conv(p, xl, yl, w, beta, scratch), 0);
        compare(w, want, n, g->n * ho * wo);
    } else if (kind == HOD_CONV_FORWARD) {
        direct(g, kind, x, w, y, want);
        EQ_INT(hod__dnn_run_conv(p, xl, w, yl, 0.0f, scratch), 0);
        EQ_INT(hod__dnn_reorder(HOD_F32, g->n, g->co, ho, wo, out, yl, HOD_LAYOUT_PLAIN, plain), 0);
        compare(plain, want, n, g->ci / g->groups * g->kh * g->kw);
    } else {
        direct(g, kind, x, w, y, want);
        EQ_INT(hod__dnn_run_conv(p, yl, w, xl, 0.0f, scratch), 0);
        EQ_INT(hod__dnn_reorder(HOD_F32, g->n, g->ci, g->h, g->w, image, xl, HOD_LAYOUT_PLAIN,
                                plain),
               0);
        compare(plain, want, n, g->co / g->groups * g->kh * g->kw);
    }
    hod__dnn_free(p);
    free(x), free(w), free(y), free(xl), free(yl), free(scratch), free(want), free(plain);
}

/* Every kind in every layout that the channels allow. */
static void check_geometry(hod_conv_geometry g)
{
    for (int kind = 0; kind < 3; kind++)
        for (int layouts = 0; layouts < 4; layouts++) {
            hod_layout image = layouts & 1 ? HOD_LAYOUT_BLOCKED : HOD_LAYOUT_PLAIN;
            hod_layout out = layouts & 2 ? HOD_LAYOUT_BLOCKED : HOD_LAYOUT_PLAIN;
            if ((image == HOD_LAYOUT_BLOCKED && !hod__dnn_can_block(g.ci)) ||
                (out == HOD_LAYOUT_BLOCKED && !hod__dnn_can_block(g.co)))
                continue;
            check_kind(&g, (hod_dnn_conv_kind)kind, image, out, 0.0f);
            if (kind == HOD_CONV_WEIGHT_GRADIENT)
                check_kind(&g, (hod_dnn_conv_kind)kind, image, out, 1.0f);
        }
}

/* Stride, dilation and groups are 1 unless given. */
static hod_conv_geometry usual(hod_conv_geometry g)
{
    for (int i = 0; i < 2; i++) {
        g.stride[i] = HOD_MAX(g.stride[i], 1);
        g.dilation[i] = HOD_MAX(g.dilation[i], 1);
    }
    g.groups = HOD_MAX(g.groups, 1);
    return g;
}

#define GEOMETRY(...) usual((hod_conv_geometry){__VA_ARGS__})

TEST(dnn_conv_dense)
{
    check_geometry(GEOMETRY(.n = 2, .ci = 16, .h = 9, .w = 7, .co = 32, .kh = 3, .kw = 3,
                            .padding = {1, 1, 1, 1}));
    check_geometry(GEOMETRY(.n = 3, .ci = 32, .h = 8, .w = 8, .co = 16, .kh = 1, .kw = 1));
}

TEST(dnn_conv_few_channels)
{
    check_geometry(GEOMETRY(.n = 2, .ci = 3, .h = 15, .w = 14, .co = 16, .kh = 7, .kw = 7,
                            .stride = {2, 2}, .padding = {3, 3, 3, 3}));
    check_geometry(GEOMETRY(.n = 2, .ci = 1, .h = 8, .w = 8, .co = 16, .kh = 3, .kw = 3,
                            .padding = {1, 1, 1, 1}));
    check_geometry(GEOMETRY(.n = 2, .ci = 5, .h = 6, .w = 7, .co = 9, .kh = 3, .kw = 2));
}

TEST(dnn_conv_strides_dilation_padding)
{
    check_geometry(GEOMETRY(.n = 2, .ci = 16, .h = 13, .w = 11, .co = 16, .kh = 3, .kw = 5,
                            .stride = {2, 3}, .padding = {0, 2, 1, 1}));
    check_geometry(GEOMETRY(.n = 2, .ci = 16, .h = 12, .w = 12, .co = 16, .kh = 3, .kw = 3,
                            .dilation = {2, 3}, .padding = {2, 1, 0, 4}));
    check_geometry(GEOMETRY(.n = 1, .ci = 16, .h = 8, .w = 8, .co = 32, .kh = 1, .kw = 1,
                            .stride = {2, 2}));
}

TEST(dnn_conv_groups)
{
    check_geometry(GEOMETRY(.n = 2, .ci = 32, .h = 7, .w = 7, .co = 64, .kh = 3, .kw = 3,
                            .padding = {1, 1, 1, 1}, .groups = 2));
    check_geometry(GEOMETRY(.n = 2, .ci = 32, .h = 9, .w = 9, .co = 32, .kh = 3, .kw = 3,
                            .stride = {2, 2}, .padding = {1, 1, 1, 1}, .groups = 32));
    check_geometry(GEOMETRY(.n = 2, .ci = 6, .h = 5, .w = 5, .co = 12, .kh = 3, .kw = 3,
                            .groups = 3));
    check_geometry(GEOMETRY(.n = 2, .ci = 32, .h = 5, .w = 5, .co = 32, .kh = 3, .kw = 3,
                            .groups = 8));
    check_geometry(GEOMETRY(.n = 2, .ci = 32, .h = 7, .w = 6, .co = 64, .kh = 3, .kw = 3,
                            .padding = {1, 1, 1, 1}, .groups = 4));
}

TEST(dnn_conv_empty_batch)
{
    hod_conv_geometry g = GEOMETRY(.n = 0, .ci = 3, .h = 8, .w = 8, .co = 4, .kh = 3, .kw = 3);
    hod_dnn *p = hod__dnn_conv(HOD_CONV_WEIGHT_GRADIENT, &g, HOD_LAYOUT_PLAIN, HOD_LAYOUT_PLAIN);
    float *w = noise(108, 1), first = w[0];
    EQ_INT(hod__dnn_run_conv(p, NULL, NULL, w, 1.0f, NULL), 0);
    NEAR(w[0], first, 0.0);
    EQ_INT(hod__dnn_run_conv(p, NULL, NULL, w, 0.0f, NULL), 0);
    for (int i = 0; i < 108; i++)
        NEAR(w[i], 0.0, 0.0);
    free(w);
    hod__dnn_free(p);
}

TEST(dnn_conv_refuses)
{
    hod_conv_geometry g = GEOMETRY(.n = 1, .ci = 3, .h = 4, .w = 4, .co = 4, .kh = 5, .kw = 5);
    ERROR_IS("conv2d: a (5,5) window does not fit (4,4)",
             hod__dnn_conv(HOD_CONV_FORWARD, &g, HOD_LAYOUT_PLAIN, HOD_LAYOUT_PLAIN));
    g.kh = g.kw = 3;
    g.groups = 2;
    ERROR_IS("conv2d: 3 to 4 channels in 2 groups",
             hod__dnn_conv(HOD_CONV_FORWARD, &g, HOD_LAYOUT_PLAIN, HOD_LAYOUT_PLAIN));
    g.groups = 1;
    CHECK(!hod__dnn_conv(HOD_CONV_FORWARD, &g, HOD_LAYOUT_BLOCKED, HOD_LAYOUT_PLAIN));
    EQ_INT(hod_error_kind_pending(), HOD_ERROR_ARGUMENT);
    hod_error_take(NULL);
}

TEST(dnn_conv_bf16)
{
    hod_conv_geometry g = GEOMETRY(.n = 1, .ci = 16, .h = 4, .w = 4, .co = 16, .kh = 3, .kw = 3,
                                   .padding = {1, 1, 1, 1}, .dtype = HOD_BF16);
    hod_dnn *p = hod__dnn_conv(HOD_CONV_FORWARD, &g, HOD_LAYOUT_BLOCKED, HOD_LAYOUT_BLOCKED);
    if (!p) {
        hod_error_take(NULL);
        SKIP("this CPU has no bf16 convolution");
    }
    enum { N = 16 * 16 };
    static _Alignas(64) uint16_t x[N], w[N * 9], y[N];
    for (int i = 0; i < N; i++)
        x[i] = 0x3f80; /* 1 */
    for (int i = 0; i < N * 9; i++)
        w[i] = 0x3e80; /* 0.25 */
    void *scratch = aligned_alloc(64, (size_t)hod__dnn_scratch(p) + 64);
    EQ_INT(hod__dnn_run_conv(p, x, w, y, 0.0f, scratch), 0);
    EQ_INT(y[0], 0x4180);          /* a corner sees 4 of 9 taps: 16 */
    EQ_INT(y[5 * 16 + 3], 0x4210); /* the inside sees all: 36 */
    free(scratch);
    hod__dnn_free(p);
}

/* Every element where the picture in dnn_layout.c says, whatever is left of the tiles. */
TEST(dnn_layout_elements)
{
    int b = hod__dnn_block();
    const int64_t planes[] = {1, 3, 16, 35, 66};
    for (int k = 0; k < 5; k++) {
        int64_t c = 2 * b, plane = planes[k], n = 3 * c * plane;
        float *x = noise(n, 8), *blocked = laid_out(x, 3, c, plane, 1, HOD_LAYOUT_BLOCKED);
        for (int64_t i = 0; i < 3; i++)
            for (int64_t j = 0; j < c; j++)
                for (int64_t p = 0; p < plane; p++)
                    CHECK(blocked[((i * 2 + j / b) * plane + p) * b + j % b] ==
                          x[(i * c + j) * plane + p]);
        free(x), free(blocked);
    }
}

TEST(dnn_layout_round_trip)
{
    enum { N = 2 * 32 * 5 * 7 };
    float *x = noise(N, 6), *back = noise(N, 7), *blocked;
    blocked = laid_out(x, 2, 32, 5, 7, HOD_LAYOUT_BLOCKED);
    int b = hod__dnn_block();
    /* element (n=1, c=b+3, h=2, w=4) */
    NEAR(blocked[((1 * (32 / b) + 1) * 35 + 2 * 7 + 4) * b + 3],
         x[(1 * 32 + b + 3) * 35 + 2 * 7 + 4], 0.0);
    EQ_INT(hod__dnn_reorder(HOD_F32, 2, 32, 5, 7, HOD_LAYOUT_BLOCKED, blocked, HOD_LAYOUT_PLAIN,
                            back),
           0);
    CHECK(memcmp(x, back, N * sizeof *x) == 0);
    free(x), free(back), free(blocked);
}

/* ---- matrix product ---- */

/* `tiny` instead of the call that chooses, when it is not NULL; then rows of one element touch. */
static void check_product(hod_tiny_matmul *tiny, int64_t batch, int64_t m, int64_t n, int64_t k,
                          int64_t ta, int64_t tb, float beta, bool shared_b)
{
    int64_t gap = tiny && (m == 1 || n == 1) ? 0 : 3; /* rows lie further apart than long */
    hod_matmul_geometry g = {.batch = batch, .m = m, .n = n, .k = k, .transpose_a = ta,
                             .transpose_b = tb};
    g.lda = (ta ? m : k) + gap;
    g.ldb = (tb ? k : n) + gap;
    g.ldc = n + gap;
    g.batch_a = g.lda * (ta ? k : m);
    g.batch_b = shared_b ? 0 : g.ldb * (tb ? n : k);
    g.batch_c = g.ldc * m;
    float *a = noise(batch * g.batch_a + 1, 1), *b = noise(batch * g.ldb * (tb ? n : k) + 1, 2);
    float *c = noise(batch * g.batch_c + 1, 3), *old = noise(batch * g.batch_c + 1, 3);
    if (tiny)
        tiny(&g, a, b, c, beta);
    else
        EQ_INT(hod__dnn_matmul(&g, a, b, c, beta), 0);
    for (int64_t i = 0; i < batch; i++)
        for (int64_t r = 0; r < m; r++)
            for (int64_t s = 0; s < g.ldc; s++) {
                int64_t at = i * g.batch_c + r * g.ldc + s;
                double want = s < n ? (double)beta * (double)old[at] : (double)old[at];
                for (int64_t l = 0; l < k && s < n; l++)
                    want += (double)a[i * g.batch_a + (ta ? l * g.lda + r : r * g.lda + l)] *
                            (double)b[i * g.batch_b + (tb ? s * g.ldb + l : l * g.ldb + s)];
                NEAR(c[at], want, 1e-6 * sqrt((double)k) + 1e-6); /* as for convolutions */
            }
    free(a), free(b), free(c), free(old);
}

static void check_matmul(int64_t batch, int64_t m, int64_t n, int64_t k, int64_t ta, int64_t tb,
                         float beta, bool shared_b)
{
    check_product(NULL, batch, m, n, k, ta, tb, beta, shared_b);
}

TEST(dnn_matmul_tiny)
{
    static const int64_t sizes[][3] = {{1, 1, 1},  {1, 1, 300}, {4, 4, 4},   {8, 8, 8},
                                       {16, 16, 16}, {5, 7, 9},  {13, 33, 5}, {1, 40, 9},
                                       {9, 1, 9}, {40, 1, 1},
                                       {1, 32, 1}, {3, 16, 256},
                                       {9, 40, 1}};
    for (int level = 0; level <= hod__cpu_level(); level++)
        for (int i = 0; i < HOD_COUNT(sizes); i++)
            for (int t = 0; t < 8; t++)
                check_product(hod__tiny_matmul_of(level), 1, sizes[i][0], sizes[i][1], sizes[i][2],
                              t & 1, t >> 1 & 1, (float)(t >> 2), false);
}

TEST(dnn_matmul_shapes)
{
    static const int64_t sizes[][3] = {{1, 1, 1},    {16, 64, 32}, {64, 64, 16}, {5, 7, 3},
                                       {33, 17, 65}, {1, 40, 9},   {40, 1, 9},   {70, 130, 20},
                                       {300, 200, 1}};
    for (int i = 0; i < HOD_COUNT(sizes); i++)
        for (int t = 0; t < 4; t++)
            for (int beta = 0; beta < 2; beta++)
                check_matmul(1, sizes[i][0], sizes[i][1], sizes[i][2], t & 1, t >> 1, (float)beta,
                             false);
}

TEST(dnn_matmul_batches)
{
    for (int64_t batch = 2; batch < 12; batch += 3)
        for (int t = 0; t < 4; t++) {
            check_matmul(batch, 9, 20, 13, t & 1, t >> 1, 0.0f, false);
            check_matmul(batch, 9, 20, 13, t & 1, t >> 1, 1.0f, true);
        }
}

TEST(dnn_matmul_empty)
{
    check_matmul(2, 3, 4, 0, 0, 0, 0.0f, false);
    check_matmul(2, 3, 4, 0, 0, 0, 1.0f, false);
    check_matmul(0, 3, 4, 5, 0, 0, 0.0f, false);
    check_matmul(1, 0, 4, 5, 0, 0, 0.0f, false);
}
