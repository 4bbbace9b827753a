/* Interpolation against its definition, an element at a time; and its transpose, by what a
 * transpose is: <g, resize(x)> = <resize_back(g), x>. */
#include "harness.h"
#include "ops/rules.h"
#include <hod/autograd.h>
#include <math.h>

static uint32_t state = 3;

static int64_t draw(int64_t below)
{
    state = state * 1664525u + 1013904223u;
    return (int64_t)(state >> 8) % below;
}

static hod_tensor *wave(hod_shape s, double phase)
{
    int64_t n = hod__numel(s.n, s.d);
    double *v = hod__alloc((size_t)n + 1, sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = sin(0.7 * (double)i + phase);
    hod_tensor *t = hod_from_doubles(v, s);
    free(v);
    return t;
}

/* Where element k of `out` lies among `in`. */
static double place(const hod_interpolate_options *o, int64_t k, int64_t in, int64_t out,
                    double scale)
{
    double step = scale > 0 ? 1 / scale : (double)in / (double)out;
    if (o->mode == HOD_LINEAR && o->align_corners)
        return out > 1 ? (double)k * ((double)(in - 1) / (double)(out - 1)) : 0;
    if (o->mode == HOD_LINEAR)
        return fmax(((double)k + 0.5) * step - 0.5, 0);
    float f = ((float)k + (o->mode == HOD_NEAREST_EXACT ? 0.5f : 0)) * (float)step;
    return fmin(floorf(f), (double)(in - 1));
}

static double between(const double *v, int64_t step, double at, int64_t n)
{
    int64_t low = (int64_t)fmin(floor(at), (double)(n - 1)), high = HOD_MIN(low + 1, n - 1);
    double part = fmin(at - (double)low, 1);
    return part == 0 ? v[low * step] : v[low * step] * (1 - part) + v[high * step] * part;
}

static void check(hod_shape s, hod_interpolate_options o)
{
    hod_tensor *x = hod_requires_grad(wave(s, 0.3), true), *y = hod_interpolate_with(x, o);
    CHECK(y != NULL);
    hod_tensor *g = wave(hod_tensor_shape(y), 1.1), *dx;
    CHECK(hod_grad_of(y, 1, &x, &dx, g) == 0);
    NEAR(hod_item(hod_sum(hod_mul(g, y))), hod_item(hod_sum(hod_mul(dx, x))), 1e-10);
    bool line = s.n == 3;
    int64_t h = line ? 1 : s.d[2], w = s.d[s.n - 1];
    int64_t ho = line ? 1 : hod_tensor_size(y, 2), wo = hod_tensor_size(y, -1);
    double *vx = hod__alloc((size_t)hod_tensor_numel(x) + 1, sizeof *vx);
    double *vy = hod__alloc((size_t)hod_tensor_numel(y) + 1, sizeof *vy);
    CHECK(hod_read_doubles(x, vx, hod_tensor_numel(x)) == 0);
    CHECK(hod_read_doubles(y, vy, hod_tensor_numel(y)) == 0);
    double scale_y = line ? 0 : o.scale[0];
    double scale_x = line || o.scale[1] == 0 ? o.scale[0] : o.scale[1];
    for (int64_t p = 0; p < s.d[0] * s.d[1]; p++)
        for (int64_t i = 0; i < ho; i++)
            for (int64_t k = 0; k < wo; k++) {
                double column = place(&o, k, w, wo, scale_x), rows[64];
                for (int64_t r = 0; r < h; r++)
                    rows[r] = between(vx + (p * h + r) * w, 1, column, w);
                double want = line ? rows[0] : between(rows, 1, place(&o, i, h, ho, scale_y), h);
                NEAR(vy[(p * ho + i) * wo + k], want, 1e-12);
            }
    hod_tensor *narrow = hod_interpolate_with(hod_cast(x, HOD_F32), o);
    NEAR(hod_item(hod_amax(hod_abs(hod_sub(hod_cast(narrow, HOD_F64), y)))), 0, 1e-6);
    free(vx), free(vy);
}

TEST(resize_of_any_size)
{
    for (int round = 0; round < 400; round++) {
        HOD_SCOPE(s);
        hod_interpolate_options o = {.mode = (hod_interpolation)draw(3)};
        o.align_corners = o.mode == HOD_LINEAR && draw(2);
        bool line = draw(3) == 0;
        hod_shape shape = line ? HOD_SHAPE(2, 1 + draw(3), 1 + draw(40))
                               : HOD_SHAPE(1, 1 + draw(3), 1 + draw(20), 1 + draw(20));
        if (draw(2)) {
            o.size[0] = 1 + draw(30);
            o.size[1] = line ? 0 : 1 + draw(30);
        } else {
            o.scale[0] = 1 + (double)draw(30) / 10;
            o.scale[1] = line ? 0 : 1 + (double)draw(5);
        }
        check(shape, o);
    }
}

/* Nearest moves elements of any type as they are. */
TEST(resize_nearest_of_other_types)
{
    static const int64_t in[4] = {1, INT64_MAX, -3, 4};
    int64_t v[8];
    hod_tensor *x = hod_from_ints(in, HOD_SHAPE(1, 1, 4));
    CHECK(hod_read_ints(hod_interpolate(x, .scale = {2}), v, 8) == 0);
    for (int i = 0; i < 8; i++)
        EQ_INT(v[i], in[i / 2]);
    CHECK(hod_read_ints(hod_interpolate(hod_cast(x, HOD_BOOL), .size = {2}), v, 2) == 0);
    EQ_INT(v[1], 1);
}
