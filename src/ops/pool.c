/* Pooling over windows of (N,C,H,W): maximum and average, and their gradients.
 *
 * The maximum keeps no index: who needs to know which element won (the gradient, and the gradient
 * of that) looks at x again, so that every result is one tensor and derivatives go on for ever:
 *
 *     max_pool2d(x)          y[o] = x[win(o)]             win: first greatest of window o, NaN first
 *     max_pool2d_back(g, x)  dx[win(o)] += g[o]
 *     max_pool2d_pick(a, x)  y[o] = a[win(o)]             the transpose of _back
 *
 * A window that lies in the padding altogether has no element: -inf, and nothing in gradients.
 */
#include "ops/rules.h"
#include <math.h>

typedef struct window {
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    bool include_pad;
    int64_t h, w, ho, wo;
} window;

#define TYPED_BODY "ops/pool_tmpl.c"
#define ELEM_F32
#include "ops/typed_tmpl.h"
#define ELEM_F64
#include "ops/typed_tmpl.h"
#undef TYPED_BODY

/* The pooled shape of x; 0 or -1. */
static int pooled(const char *name, const hod_attrs_pool *a, const hod_meta *x, hod_meta *y)
{
    if (x->ndim != 4)
        return HOD_FAIL_RC(ARGUMENT, "%s: of %s, which has no four dimensions", name,
                           HOD_META_TEXT(x));
    *y = *x;
    for (int i = 0; i < 2; i++) {
        int64_t room, span, padding[2] = {a->padding[i], a->padding[2 + i]};
        if (!hod__window(x->shape[2 + i], padding, a->kernel[i], a->stride[i], a->dilation[i],
                         &room, &span))
            return HOD_FAIL_RC(ARGUMENT,
                               "%s: of %s: kernel %lld, stride %lld, dilation %lld, padding %lld "
                               "and %lld",
                               name, HOD_META_TEXT(x), (long long)a->kernel[i],
                               (long long)a->stride[i], (long long)a->dilation[i],
                               (long long)padding[0], (long long)padding[1]);
        if (room < span)
            return HOD_FAIL_RC(ARGUMENT,
                               "%s: %s: a window of %lld is larger than the %s, %lld with its "
                               "padding",
                               name, HOD_META_TEXT(x), (long long)span, i == 0 ? "height" : "width",
                               (long long)room);
        y->shape[2 + i] = (room - span) / a->stride[i] + 1;
    }
    return 0;
}

static int check_same(const char *name, const hod_meta *have, const hod_meta *want)
{
    if (have->dtype == want->dtype && have->ndim == want->ndim &&
        memcmp(have->shape, want->shape, (size_t)want->ndim * sizeof *want->shape) == 0)
        return 0;
    return HOD_FAIL_RC(ARGUMENT, "%s: %s %s where %s %s is wanted", name,
                       hod_dtype_name(have->dtype), HOD_META_TEXT(have),
                       hod_dtype_name(want->dtype), HOD_META_TEXT(want));
}

int hod__shape_max_pool2d(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    return pooled("max_pool2d", &c->attrs->pool, in, out);
}

int hod__shape_avg_pool2d(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    if (in->dtype > HOD_BF16)
        return HOD_FAIL_RC(ARGUMENT, "avg_pool2d: not defined for %s", hod_dtype_name(in->dtype));
    return pooled("avg_pool2d", &c->attrs->pool, in, out);
}

int hod__shape_max_pool2d_back(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    hod_meta y;
    *out = in[1];
    if (pooled("max_pool2d_back", &c->attrs->pool, &in[1], &y) != 0)
        return -1;
    return check_same("max_pool2d_back", &in[0], &y);
}

int hod__shape_max_pool2d_pick(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    if (pooled("max_pool2d_pick", &c->attrs->pool, &in[1], out) != 0)
        return -1;
    return check_same("max_pool2d_pick", &in[0], &in[1]);
}

int hod__shape_avg_pool2d_back(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    const hod_shape *s = &c->attrs->pool.shape;
    hod_meta y;
    out->dtype = in->dtype;
    out->ndim = s->n;
    memcpy(out->shape, s->d, sizeof out->shape);
    if (pooled("avg_pool2d_back", &c->attrs->pool, out, &y) != 0)
        return -1;
    return check_same("avg_pool2d_back", in, &y);
}

/* ---- kernels: plane after plane ---- */

typedef struct pool_job {
    void (*plane)(const struct pool_job *job, int64_t p);
    window w;
    bool f64;
    const char *x, *a; /* a: gradient or what is picked from */
    char *out;
    int64_t image, result; /* bytes of a plane of (h,w) and of (ho,wo) */
} pool_job;

static void pick(const pool_job *job, int64_t p)
{
    (job->f64 ? pick_plane_f64 : pick_plane_f32)(
        &job->w, job->x + p * job->image, job->a + p * job->image, job->out + p * job->result);
}

static void max_back(const pool_job *job, int64_t p)
{
    (job->f64 ? max_back_plane_f64 : max_back_plane_f32)(
        &job->w, job->x + p * job->image, job->a + p * job->result, job->out + p * job->image);
}

static void average(const pool_job *job, int64_t p)
{
    (job->f64 ? average_plane_f64 : average_plane_f32)(&job->w, job->a + p * job->image,
                                                       job->out + p * job->result);
}

static void average_back(const pool_job *job, int64_t p)
{
    (job->f64 ? average_back_plane_f64 : average_back_plane_f32)(&job->w, job->a + p * job->result,
                                                                 job->out + p * job->image);
}

static void planes(void *context, int64_t begin, int64_t end)
{
    const pool_job *job = context;
    for (int64_t p = begin; p < end; p++)
        job->plane(job, p);
}

static void window_of(const hod_attrs_pool *a, const int64_t *big, const int64_t *small, window *w)
{
    for (int i = 0; i < 2; i++) {
        w->kernel[i] = a->kernel[i];
        w->stride[i] = a->stride[i];
        w->padding[i] = a->padding[i];
        w->dilation[i] = a->dilation[i];
    }
    w->include_pad = a->count_include_pad;
    w->h = big[2];
    w->w = big[3];
    w->ho = small[2];
    w->wo = small[3];
}

/* `back`: the result has the image's size and gathers additions. `self` is the caller, for other
 * types. */
static int eval(const hod_op_call *c, hod_tensor *out, bool back,
                void (*plane)(const pool_job *job, int64_t p),
                int (*self)(const hod_op_call *c, hod_tensor *out))
{
    if (out->dtype != HOD_F32 && out->dtype != HOD_F64)
        return hod__eval_through(out->dtype <= HOD_BF16 ? HOD_F32 : HOD_F64, c, out, self);
    if (!hod__is_row_major(out))
        return HOD_FAIL_RC(ARGUMENT, "%s: into a strided tensor", hod__op_name(c));
    if (back && hod__eval_zero(out) != 0)
        return -1;
    hod_tensor *a = hod__eval_row_major(c->in[0]);
    hod_tensor *x = hod__eval_row_major(c->in[c->n - 1]);
    int rc = a && x ? 0 : -1;
    if (rc == 0 && hod_tensor_numel(a) > 0 && hod_tensor_numel(out) > 0) {
        const int64_t *big = back ? out->shape : x->shape, *small = back ? a->shape : out->shape;
        pool_job job = {.plane = plane, .f64 = out->dtype == HOD_F64};
        int64_t size = job.f64 ? 8 : 4;
        window_of(&c->attrs->pool, big, small, &job.w);
        job.x = hod__data(x);
        job.a = hod__data(a);
        job.out = hod__data(out);
        job.image = big[2] * big[3] * size;
        job.result = small[2] * small[3] * size;
        hod__parallel(big[0] * big[1], HOD_MAX(1, 8192 / (big[2] * big[3])), planes, &job);
    }
    hod_tensor_release(a);
    hod_tensor_release(x);
    return rc;
}

int hod__eval_max_pool2d(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, false, pick, hod__eval_max_pool2d);
}

int hod__eval_max_pool2d_pick(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, false, pick, hod__eval_max_pool2d_pick);
}

int hod__eval_max_pool2d_back(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, true, max_back, hod__eval_max_pool2d_back);
}

int hod__eval_avg_pool2d(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, false, average, hod__eval_avg_pool2d);
}

int hod__eval_avg_pool2d_back(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, true, average_back, hod__eval_avg_pool2d_back);
}
