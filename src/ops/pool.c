/* Pooling over windows of (N,C,H,W): maximum and average, and their gradients.
 *
 * The maximum keeps no index: who needs to know which element won (the gradient, and the gradient
 * of that) looks at x again, so that every result is one tensor and derivatives go on for ever:
 *
 *     max_pool2d(x)          y[o] = x[win(o)]         win: first greatest of window o, NaN first
 *     max_pool2d_back(g, x)  dx[win(o)] += g[o]
 *     max_pool2d_pick(a, x)  y[o] = a[win(o)]         the transpose of _back
 *
 * A window that lies in the padding altogether has no element: -inf, or an integer type's lowest,
 * and nothing in gradients. f16 and bf16 go through f32, other integers through i64.
 *
 * Adaptive pooling has bins instead of a kernel and strides: window o of `bins` along a side of
 * `size` elements is [floor(o size / bins), ceil((o + 1) size / bins)).
 */
#include "ops/rules.h"
#include <math.h>

enum {
    BLOCK = 256, /* windows at once; wider kernels go window after window */
    LANES = 8    /* elements of a window's row at once */
};

/* The windows [first, end) of a row whose element kx lies in the image. */
typedef struct reach {
    int64_t first, end;
} reach;

typedef struct window {
    int64_t kernel[2], stride[2], padding[2], dilation[2], bins[2];
    int64_t size[2], out[2]; /* of the image and of the result */
    bool include_pad;
    bool lowest;        /* what is picked from a window without elements: LOWEST, else 0 */
    reach reach[BLOCK]; /* windows on a grid: for each kx */
} window;

/* Window o along one side begins at `start`; its elements [k0, k1) lie in the image. */
typedef struct span {
    int64_t start, k0, k1;
} span;

static span inside(const window *w, int side, int64_t o)
{
    int64_t size = w->size[side], bins = w->bins[side];
    if (bins) {
        int64_t start = o * size / bins;
        return (span){start, 0, ((o + 1) * size + bins - 1) / bins - start};
    }
    int64_t d = w->dilation[side], kernel = w->kernel[side];
    span s = {o * w->stride[side] - w->padding[side], 0, kernel};
    if (s.start < 0)
        s.k0 = (-s.start + d - 1) / d;
    if (s.start + (kernel - 1) * d >= size)
        s.k1 = size > s.start ? (size - s.start + d - 1) / d : 0;
    s.k1 = HOD_MAX(s.k1, s.k0);
    return s;
}

/* What a window's sum is divided by; at least 1. */
static int64_t divisor(const window *w, span y, span x)
{
    return w->include_pad ? w->kernel[0] * w->kernel[1] : HOD_MAX(1, (y.k1 - y.k0) * (x.k1 - x.k0));
}

/* Of the windows [begin, end) of a row those that element kx of reaches the image: n from `first`
 * on, counted from begin; the first reads at `from` of the image's row. */
typedef struct taps {
    int64_t n, first, from;
} taps;

static taps taps_of(const window *w, int64_t kx, int64_t begin, int64_t end)
{
    int64_t first = HOD_MAX(begin, w->reach[kx].first), last = HOD_MIN(end, w->reach[kx].end);
    return (taps){HOD_MAX(last - first, 0), first - begin,
                  first * w->stride[1] - w->padding[1] + kx * w->dilation[1]};
}

#define TYPED_BODY "ops/pool_tmpl.c"
#define ELEM_F32
#include "ops/typed_tmpl.h"
#define ELEM_F64
#include "ops/typed_tmpl.h"
#define ELEM_I64
#include "ops/typed_tmpl.h"
#undef TYPED_BODY

/* The pooled shape of x; 0 or -1. */
static int pooled(const char *name, const hod_attrs_pool *a, const hod_meta *x, hod_meta *y)
{
    if (x->ndim != 4)
        return HOD_FAIL_RC(ARGUMENT, "%s: of %s, wanted (N,C,H,W)", name, HOD_META_TEXT(x));
    *y = *x;
    for (int i = 0; i < 2; i++) {
        if (a->bins[0] || a->bins[1]) {
            if (a->bins[i] < 1 || a->bins[i] > INT32_MAX || x->shape[2 + i] < 1 ||
                x->shape[2 + i] > INT32_MAX)
                return HOD_FAIL_RC(ARGUMENT, "%s: %lld elements to %lld", name,
                                   (long long)x->shape[2 + i], (long long)a->bins[i]);
            y->shape[2 + i] = a->bins[i];
            continue;
        }
        y->shape[2 + i] =
            hod__count_windows(name, x, i, a->padding, a->kernel[i], a->stride[i], a->dilation[i]);
        if (y->shape[2 + i] < 0)
            return -1;
    }
    return 0;
}

int hod__shape_max_pool2d(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    return pooled("max_pool2d", &c->attrs->pool, in, out);
}

int hod__shape_avg_pool2d(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    if (!hod__is_float(in->dtype))
        return HOD_FAIL_RC(ARGUMENT, "avg_pool2d: not defined for %s", hod_dtype_name(in->dtype));
    return pooled("avg_pool2d", &c->attrs->pool, in, out);
}

int hod__shape_max_pool2d_back(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    hod_meta y;
    *out = in[1];
    if (pooled("max_pool2d_back", &c->attrs->pool, &in[1], &y) != 0)
        return -1;
    return hod__check_like("max_pool2d_back", &in[0], &y);
}

int hod__shape_max_pool2d_pick(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    if (pooled("max_pool2d_pick", &c->attrs->pool, &in[1], out) != 0)
        return -1;
    return hod__check_like("max_pool2d_pick", &in[0], &in[1]);
}

int hod__shape_avg_pool2d_back(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    hod_meta y;
    if (!hod__is_float(in->dtype))
        return HOD_FAIL_RC(ARGUMENT, "avg_pool2d_back: not defined for %s",
                           hod_dtype_name(in->dtype));
    *out = hod__meta_of(in->dtype, &c->attrs->pool.shape);
    if (pooled("avg_pool2d_back", &c->attrs->pool, out, &y) != 0)
        return -1;
    return hod__check_like("avg_pool2d_back", in, &y);
}

/* ---- kernels: plane after plane ---- */

typedef void pool_plane(const window *w, const void *x, const void *a, void *out);

/* For any windows (the twin of the others), for those on a grid, for those far apart or in bins;
 * each for f32, f64 and i64 (of which no mean is ever asked for). */
typedef struct pooling {
    pool_plane *windows[3], *rows[3], *lanes[3];
    bool back; /* the result has the image's size and gathers additions */
} pooling;
#define EACH_TYPE(name)                                                                            \
    {                                                                                              \
        name##_f32, name##_f64, name##_i64                                                         \
    }
static const pooling max_of = {EACH_TYPE(pick_windows), EACH_TYPE(max_rows),
                               EACH_TYPE(pick_by_lanes), false};
static const pooling max_pick = {EACH_TYPE(pick_windows), EACH_TYPE(pick_windows),
                                 EACH_TYPE(pick_by_lanes), false};
static const pooling max_back = {EACH_TYPE(max_back_windows), EACH_TYPE(max_back_rows),
                                 EACH_TYPE(max_back_by_lanes), true};
static const pooling mean_of = {EACH_TYPE(average_windows), EACH_TYPE(average_rows),
                                EACH_TYPE(average_by_lanes), false};
static const pooling mean_back = {EACH_TYPE(average_back_windows), EACH_TYPE(average_back_rows),
                                  EACH_TYPE(average_back_by_lanes), true};

typedef struct pool_job {
    pool_plane *plane;
    const window *w;
    const char *x, *a; /* a: gradient or what is picked from */
    char *out;
    int64_t bytes_x, bytes_a, bytes_out; /* of a plane */
    bool back;
} pool_job;

static void planes(void *context, int64_t begin, int64_t end)
{
    const pool_job *job = context;
    for (int64_t p = begin; p < end; p++) {
        char *out = job->out + p * job->bytes_out;
        if (job->back)
            memset(out, 0, (size_t)job->bytes_out);
        job->plane(job->w, job->x + p * job->bytes_x, job->a + p * job->bytes_a, out);
    }
}

static void set_window(const hod_attrs_pool *a, const int64_t *image, const int64_t *result,
                       window *w)
{
    for (int i = 0; i < 2; i++) {
        w->kernel[i] = a->kernel[i];
        w->stride[i] = a->stride[i];
        w->padding[i] = a->padding[i];
        w->bins[i] = a->bins[i];
        w->dilation[i] = a->bins[i] ? 1 : a->dilation[i];
        w->size[i] = image[2 + i];
        w->out[i] = result[2 + i];
    }
    w->include_pad = a->count_include_pad && !a->bins[0];
}

static void set_reach(window *w)
{
    for (int64_t kx = 0; kx < w->kernel[1]; kx++) {
        int64_t before = w->padding[1] - kx * w->dilation[1], step = w->stride[1];
        int64_t last = w->size[1] - 1 + before; /* where the last window would begin */
        w->reach[kx].first = before > 0 ? (before + step - 1) / step : 0;
        w->reach[kx].end = last < 0 ? 0 : HOD_MIN(last / step + 1, w->out[1]);
    }
}

static pool_plane *chosen(const pooling *how, window *w, hod_dtype dtype)
{
    int type = dtype == HOD_F32 ? 0 : dtype == HOD_F64 ? 1 : 2;
    if (w->size[0] * w->size[1] > INT32_MAX)
        return how->windows[type];
    if (w->bins[0] || (w->dilation[1] == 1 && w->stride[1] > 2 && w->kernel[1] >= LANES / 2))
        return how->lanes[type];
    if (w->kernel[1] > BLOCK)
        return how->windows[type];
    set_reach(w);
    return how->rows[type];
}

enum { PARALLEL_STEPS = 16384 }; /* one element of one window each */

static void run(const hod_attrs_pool *a, const pooling *how, const hod_tensor *x,
                const hod_tensor *from, const hod_tensor *out)
{
    const hod_tensor *image = how->back ? out : x, *result = how->back ? from : out;
    window w;
    set_window(a, image->shape, result->shape, &w);
    w.lowest = how != &max_pick;
    int64_t n = image->shape[0] * image->shape[1], size = (int64_t)hod_dtype_bytes(out->dtype);
    pool_job job = {.plane = chosen(how, &w, out->dtype),
                    .w = &w,
                    .x = hod__data(x),
                    .a = hod__data(from),
                    .out = hod__data(out),
                    .bytes_x = hod_tensor_numel(x) / n * size,
                    .bytes_a = hod_tensor_numel(from) / n * size,
                    .bytes_out = hod_tensor_numel(out) / n * size,
                    .back = how->back};
    double taps = w.bins[0] ? 1 : (double)w.kernel[0] * (double)w.kernel[1];
    double steps = (double)(w.size[0] * w.size[1]) + taps * (double)(w.out[0] * w.out[1]);
    hod__parallel(n, (int64_t)HOD_MAX(1, PARALLEL_STEPS / steps), planes, &job);
}

typedef int evaluator(const hod_op_call *c, hod_tensor *out);

/* i32, u8 and bool: a window without elements has the lowest of their own type, not of i64. */
static int eval_narrow(const hod_op_call *c, hod_tensor *out, evaluator *self)
{
    hod_meta m = hod__meta(out);
    m.dtype = HOD_I64;
    hod_tensor *wide = hod__eval_temporary(&m);
    int rc = wide ? hod__eval_through(HOD_I64, c, wide, self) : -1;
    int64_t *y = rc == 0 ? hod__data(wide) : NULL, lowest = out->dtype == HOD_I32 ? INT32_MIN : 0;
    for (int64_t i = 0; c->op == HOD_OP_max_pool2d && y && i < hod_tensor_numel(wide); i++)
        y[i] = HOD_MAX(y[i], lowest);
    if (rc == 0)
        rc = hod__eval_cast(&(hod_op_call){.op = HOD_OP_cast, .n = 1, .in = &wide}, out);
    hod_tensor_release(wide);
    return rc;
}

/* `self` is the caller, for other types. */
static int eval(const hod_op_call *c, hod_tensor *out, const pooling *how, evaluator *self)
{
    if (hod__is_half(out->dtype))
        return hod__eval_through(HOD_F32, c, out, self);
    if (!hod__is_computed(out->dtype) && out->dtype != HOD_I64)
        return eval_narrow(c, out, self);
    hod_tensor *in[2];
    int rc = hod__eval_inputs(c, out, in);
    if (rc == 0 && hod_tensor_numel(out) > 0)
        run(&c->attrs->pool, how, in[c->n - 1], in[0], out);
    hod__release_inputs(c, in);
    return rc;
}

int hod__eval_max_pool2d(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, &max_of, hod__eval_max_pool2d);
}

int hod__eval_max_pool2d_pick(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, &max_pick, hod__eval_max_pool2d_pick);
}

int hod__eval_max_pool2d_back(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, &max_back, hod__eval_max_pool2d_back);
}

int hod__eval_avg_pool2d(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, &mean_of, hod__eval_avg_pool2d);
}

int hod__eval_avg_pool2d_back(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, &mean_back, hod__eval_avg_pool2d_back);
}
