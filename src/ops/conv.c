/* Convolution and its two gradients. The three share one geometry and one shape rule each way:
 *
 *     conv2d        x (N,C,H,W), w (O,C/groups,Kh,Kw) -> y (N,O,Ho,Wo)
 *     conv2d_input  y, w -> x        attrs.shape says which of the x that give y is meant
 *     conv2d_weight x, y -> w        attrs.shape likewise, for w
 *
 * f32 runs prepared primitives of the library, kept by geometry; f16 and bf16 go through f32, f64
 * has the loops below.
 */
#include "device/dnn.h"
#include "ops/rules.h"
#include <pthread.h>

/* Sizes of x, w and the window rules, from whatever of them is known. */
static void geometry(const hod_attrs_conv *a, const int64_t *x, const int64_t *w,
                     hod_conv_geometry *g)
{
    memset(g, 0, sizeof *g);
    g->n = x[0];
    g->ci = x[1];
    g->h = x[2];
    g->w = x[3];
    g->co = w[0];
    g->kh = w[2];
    g->kw = w[3];
    memcpy(g->stride, a->stride, sizeof g->stride);
    memcpy(g->padding, a->padding, sizeof g->padding);
    memcpy(g->dilation, a->dilation, sizeof g->dilation);
    g->groups = a->groups;
}

/* Checks x against w; 0 and the sizes of y, or -1. */
static int check(const char *name, const hod_attrs_conv *a, const hod_meta *x, const hod_meta *w,
                 hod_meta *y)
{
    if (x->ndim != 4 || w->ndim != 4)
        return HOD_FAIL_RC(ARGUMENT, "%s: %s with weights %s: four dimensions each are wanted",
                           name, HOD_META_TEXT(x), HOD_META_TEXT(w));
    if (x->dtype != w->dtype || !hod__is_float(x->dtype))
        return HOD_FAIL_RC(ARGUMENT, "%s: of %s and %s", name, hod_dtype_name(x->dtype),
                           hod_dtype_name(w->dtype));
    int64_t channels;
    if (a->groups < 1 || !hod__mul_size(w->shape[1], a->groups, &channels) ||
        x->shape[1] != channels || w->shape[0] % a->groups != 0)
        return HOD_FAIL_RC(ARGUMENT, "%s: %s with weights %s: %lld groups of channels do not fit",
                           name, HOD_META_TEXT(x), HOD_META_TEXT(w), (long long)a->groups);
    *y = *x;
    y->shape[1] = w->shape[0];
    for (int i = 0; i < 2; i++) {
        y->shape[2 + i] = hod__count_windows(name, x, i, a->padding, w->shape[2 + i], a->stride[i],
                                             a->dilation[i]);
        if (y->shape[2 + i] < 0)
            return -1;
    }
    return 0;
}

/* After the checks, which are about one type. */
static int widened(const hod_op_call *c, hod_meta *out)
{
    out->dtype = c->attrs->conv.wide ? hod__widened(out->dtype) : out->dtype;
    return 0;
}

int hod__shape_conv2d(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    return check("conv2d", &c->attrs->conv, &in[0], &in[1], out) != 0 ? -1 : widened(c, out);
}

int hod__shape_conv2d_input(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    hod_meta y;
    *out = hod__meta_of(in[1].dtype, &c->attrs->conv.shape);
    if (check("conv2d_input", &c->attrs->conv, out, &in[1], &y) != 0 ||
        hod__check_like("conv2d_input", &in[0], &y) != 0)
        return -1;
    return widened(c, out);
}

int hod__shape_conv2d_weight(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    hod_meta y;
    *out = hod__meta_of(in[0].dtype, &c->attrs->conv.shape);
    if (check("conv2d_weight", &c->attrs->conv, &in[0], out, &y) != 0 ||
        hod__check_like("conv2d_weight", &in[1], &y) != 0)
        return -1;
    return widened(c, out);
}

/* ---- the library ---- */

typedef struct prepared {
    hod_dnn_conv_kind kind;
    hod_conv_geometry g;
    hod_dnn *p;
} prepared;

/* Found by geometry; kept for the life of the process, so a primitive in use is never freed. A
 * program of more geometries than this prepares the rest anew each time. */
enum { PREPARED_MAX = 1024 };
static prepared cache[PREPARED_MAX];
static int cached;
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;

/* A primitive; *own says that the caller frees it. */
static hod_dnn *primitive(hod_dnn_conv_kind kind, const hod_conv_geometry *g, bool *own)
{
    *own = false;
    pthread_mutex_lock(&cache_lock);
    hod_dnn *p = NULL;
    for (int i = 0; i < cached && !p; i++)
        if (cache[i].kind == kind && memcmp(&cache[i].g, g, sizeof *g) == 0)
            p = cache[i].p;
    if (!p) {
        p = hod__dnn_conv(kind, g, HOD_LAYOUT_PLAIN, HOD_LAYOUT_PLAIN);
        *own = cached == PREPARED_MAX;
        if (p && !*own)
            cache[cached++] = (prepared){kind, *g, p};
    }
    pthread_mutex_unlock(&cache_lock);
    return p;
}

static int run_f32(hod_dnn_conv_kind kind, const hod_conv_geometry *g, const hod_tensor *a,
                   const hod_tensor *b, hod_tensor *out)
{
    bool own;
    hod_dnn *p = primitive(kind, g, &own);
    if (!p)
        return -1;
    hod_device *d = out->storage->device;
    int64_t bytes = hod__dnn_scratch(p);
    void *scratch = bytes > 0 ? d->alloc(d, bytes) : NULL;
    int rc = bytes > 0 && !scratch
                 ? -1
                 : hod__dnn_run_conv(p, hod__data(a), hod__data(b), hod__data(out), 0, scratch);
    if (scratch)
        d->release(d, scratch, bytes);
    if (own)
        hod__dnn_free(p);
    return rc;
}

/* ---- the slow twin: every product once, added where it belongs ---- */

typedef struct naive_job {
    hod_dnn_conv_kind kind;
    hod_conv_geometry g;
    int64_t ho, wo;
    double *x, *w, *y; /* one of them is written */
} naive_job;

/* One window position: oy, ox of channel co of image n, which reads group channels 0..cg-1. */
static void window(const naive_job *job, int64_t n, int64_t co, int64_t oy, int64_t ox)
{
    const hod_conv_geometry *g = &job->g;
    int64_t cg = g->ci / g->groups, first = co / (g->co / g->groups) * cg;
    double *y = job->y + ((n * g->co + co) * job->ho + oy) * job->wo + ox;
    for (int64_t c = 0; c < cg; c++)
        for (int64_t ky = 0; ky < g->kh; ky++)
            for (int64_t kx = 0; kx < g->kw; kx++) {
                int64_t iy = oy * g->stride[0] - g->padding[0] + ky * g->dilation[0];
                int64_t ix = ox * g->stride[1] - g->padding[1] + kx * g->dilation[1];
                if (iy < 0 || iy >= g->h || ix < 0 || ix >= g->w)
                    continue;
                double *x = job->x + ((n * g->ci + first + c) * g->h + iy) * g->w + ix;
                double *w = job->w + ((co * cg + c) * g->kh + ky) * g->kw + kx;
                if (job->kind == HOD_CONV_FORWARD)
                    *y += *x * *w;
                else if (job->kind == HOD_CONV_INPUT_GRADIENT)
                    *x += *y * *w;
                else
                    *w += *x * *y;
            }
}

/* [begin, end): images, or output channels for the weight gradient, which no two parts share. */
static void naive_part(void *context, int64_t begin, int64_t end)
{
    const naive_job *job = context;
    bool by_channel = job->kind == HOD_CONV_WEIGHT_GRADIENT;
    int64_t n0 = by_channel ? 0 : begin, n1 = by_channel ? job->g.n : end;
    int64_t c0 = by_channel ? begin : 0, c1 = by_channel ? end : job->g.co;
    for (int64_t n = n0; n < n1; n++)
        for (int64_t co = c0; co < c1; co++)
            for (int64_t oy = 0; oy < job->ho; oy++)
                for (int64_t ox = 0; ox < job->wo; ox++)
                    window(job, n, co, oy, ox);
}

static int run_f64(hod_dnn_conv_kind kind, const hod_conv_geometry *g, const hod_tensor *a,
                   const hod_tensor *b, hod_tensor *out)
{
    naive_job job = {.kind = kind, .g = *g, .ho = hod__conv_out_h(g), .wo = hod__conv_out_w(g)};
    bool forward = kind == HOD_CONV_FORWARD, weight = kind == HOD_CONV_WEIGHT_GRADIENT;
    job.x = hod__data(forward || weight ? a : out);
    job.w = hod__data(weight ? out : b);
    job.y = hod__data(forward ? out : weight ? b : a);
    if (hod__eval_zero(out) != 0)
        return -1;
    hod__parallel(weight ? g->co : g->n, 1, naive_part, &job);
    return 0;
}

static int run(const hod_op_call *c, hod_tensor *out, bool naive)
{
    hod_dnn_conv_kind kind = c->op == HOD_OP_conv2d         ? HOD_CONV_FORWARD
                             : c->op == HOD_OP_conv2d_input ? HOD_CONV_INPUT_GRADIENT
                                                            : HOD_CONV_WEIGHT_GRADIENT;
    const hod_tensor *x = kind == HOD_CONV_INPUT_GRADIENT ? out : c->in[0];
    const hod_tensor *w = kind == HOD_CONV_WEIGHT_GRADIENT ? out : c->in[1];
    const hod_tensor *y = kind == HOD_CONV_FORWARD           ? out
                          : kind == HOD_CONV_WEIGHT_GRADIENT ? c->in[1]
                                                             : c->in[0];
    if (hod_tensor_numel(x) == 0 || hod_tensor_numel(w) == 0 || hod_tensor_numel(y) == 0)
        return hod__eval_zero(out);
    hod_conv_geometry g;
    geometry(&c->attrs->conv, x->shape, w->shape, &g);
    g.dtype = HOD_F32;
    hod_tensor *a = hod__eval_row_major(c->in[0]), *b = hod__eval_row_major(c->in[1]);
    int rc = !a || !b ? -1 : naive ? run_f64(kind, &g, a, b, out) : run_f32(kind, &g, a, b, out);
    hod_tensor_release(a);
    hod_tensor_release(b);
    return rc;
}

int hod__conv_naive(const hod_op_call *c, hod_tensor *out)
{
    return run(c, out, true);
}

static int eval(const hod_op_call *c, hod_tensor *out)
{
    if (hod__check_row_major(c, out) != 0)
        return -1;
    switch ((hod_dtype)c->in[0]->dtype) {
    case HOD_F32: return run(c, out, false);
    case HOD_F64: return run(c, out, true);
    default: return hod__eval_through(HOD_F32, c, out, eval);
    }
}

int hod__eval_conv2d(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out);
}

int hod__eval_conv2d_input(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out);
}

int hod__eval_conv2d_weight(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out);
}
