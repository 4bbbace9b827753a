/* Lines (N,C,L) and images (N,C,H,W) in another size, nearest or linear, and the transpose:
 *
 *     resize2d        y[k] = x[low] (1 - part) + x[low + 1] part      along each side, width first
 *     resize2d_back   dx[low] += g[k] (1 - part), dx[low + 1] += g[k] part
 *
 * low + part is where element k of the new side lies on the old one: a table a side. Neighbours are
 * read by an index, so that a NaN reaches them only, which a product with a matrix of weights would
 * spread along the side; behind the last element lies itself.
 */
#include "ops/rules.h"
#include <math.h>

typedef struct resize_job {
    int64_t in[2], out[2]; /* rows and columns of a plane: of x, of the result */
    int64_t *low[2];
    void *weight[2]; /* linear: of the lower, then of the upper neighbour, in the element's type */
    bool nearest, back;
    bool line; /* no rows to go between */
    _Atomic bool failed;
    int64_t bytes;
    const char *from;
    char *to;
} resize_job;

#define TYPED_BODY "ops/resize_tmpl.c"
#define ELEM_F32
#include "ops/typed_tmpl.h"
#define ELEM_F64
#include "ops/typed_tmpl.h"
#undef TYPED_BODY

/* ---- shapes ---- */

/* y, with x's type, is x in the new size; 0 or -1. */
static int resized(const char *name, const hod_attrs_resize *a, const hod_meta *x, hod_meta *y)
{
    bool fits = (x->ndim == 3 || x->ndim == 4) && a->mode >= HOD_NEAREST && a->mode <= HOD_LINEAR;
    *y = *x;
    for (int i = 4 - x->ndim; fits && i < 2; i++) {
        int64_t *size = &y->shape[x->ndim - 2 + i];
        fits = a->size[i] >= 1 && a->size[i] <= INT32_MAX && *size >= 1 && *size <= INT32_MAX;
        *size = a->size[i];
    }
    if (!fits)
        return HOD_FAIL_RC(ARGUMENT, "%s: %s to %lld by %lld, mode %lld", name, HOD_META_TEXT(x),
                           (long long)a->size[0], (long long)a->size[1], (long long)a->mode);
    return 0;
}

int hod__shape_resize2d(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    if (c->attrs->resize.mode == HOD_LINEAR && !hod__is_float(in->dtype))
        return HOD_FAIL_RC(ARGUMENT, "resize2d: linear is not defined for %s",
                           hod_dtype_name(in->dtype));
    return resized("resize2d", &c->attrs->resize, in, out);
}

int hod__shape_resize2d_back(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    hod_meta y;
    if (!hod__is_float(in->dtype))
        return HOD_FAIL_RC(ARGUMENT, "resize2d_back: not defined for %s",
                           hod_dtype_name(in->dtype));
    *out = hod__meta_of(in->dtype, &c->attrs->resize.shape);
    if (resized("resize2d_back", &c->attrs->resize, out, &y) != 0)
        return -1;
    return hod__check_like("resize2d_back", in, &y);
}

/* ---- tables ---- */

/* In floats, as PyTorch chooses: k in / out may fall below a whole number by rounding. */
static void nearest_places(const resize_job *job, int i, double scale, bool exact)
{
    float step = scale > 0 ? (float)(1 / scale) : (float)job->in[i] / (float)job->out[i];
    for (int64_t k = 0; k < job->out[i]; k++) {
        float at = floorf(((float)k + (exact ? 0.5f : 0)) * step);
        job->low[i][k] = (int64_t)HOD_MIN(HOD_MAX(at, 0), (float)(job->in[i] - 1));
        job->low[i][k] = HOD_MIN(job->low[i][k], job->in[i] - 1);
    }
}

static void linear_places(const resize_job *job, int i, double scale, bool corners, double *part)
{
    double in = (double)job->in[i], out = (double)job->out[i], last = in - 1;
    double step = corners ? out > 1 ? last / (out - 1) : 0 : scale > 0 ? 1 / scale : in / out;
    for (int64_t k = 0; k < job->out[i]; k++) {
        double at = corners ? (double)k * step : HOD_MAX(((double)k + 0.5) * step - 0.5, 0);
        double low = HOD_MIN(floor(at), last);
        part[k] = HOD_MIN(at - low, 1);
        job->low[i][k] = (int64_t)low;
    }
}

static int set_tables(resize_job *job, const hod_attrs_resize *a)
{
    double scale[2] = {a->scale_y, a->scale_x};
    for (int i = 0; i < 2; i++) {
        double *part = hod__alloc((size_t)job->out[i], sizeof *part);
        job->low[i] = hod__alloc((size_t)job->out[i], sizeof **job->low);
        job->weight[i] = hod__alloc((size_t)job->out[i], 2 * sizeof(double));
        bool made = part && job->low[i] && job->weight[i];
        if (made && job->nearest)
            nearest_places(job, i, scale[i], a->mode == HOD_NEAREST_EXACT);
        else if (made)
            linear_places(job, i, scale[i], a->corners, part);
        if (made && !job->nearest)
            (job->bytes == 4 ? set_weights_f32 : set_weights_f64)(job, i, part);
        free(part);
        if (!made)
            return -1;
    }
    return 0;
}

/* ---- kernels ---- */

#define COPY_COLUMNS(type)                                                                         \
    for (int64_t k = 0; k < n; k++)                                                                \
    ((type *)to)[k] = ((const type *)row)[at[k]]

/* Rows that come from the same one are copies of each other. */
static void nearest_plane(const resize_job *job, const char *from, char *to)
{
    int64_t n = job->out[1], size = job->bytes;
    const int64_t *at = job->low[1], *rows = job->low[0];
    for (int64_t y = 0; y < job->out[0]; y++, to += n * size) {
        const char *row = from + rows[y] * job->in[1] * size;
        if (y > 0 && rows[y] == rows[y - 1]) {
            memcpy(to, to - n * size, (size_t)(n * size));
            continue;
        }
        switch (size) {
        case 1: COPY_COLUMNS(uint8_t); break;
        case 2: COPY_COLUMNS(uint16_t); break;
        case 4: COPY_COLUMNS(uint32_t); break;
        default: COPY_COLUMNS(uint64_t); break;
        }
    }
}

static void nearest_planes(void *context, int64_t begin, int64_t end)
{
    const resize_job *job = context;
    int64_t image = job->in[0] * job->in[1], result = job->out[0] * job->out[1];
    for (int64_t p = begin; p < end; p++)
        nearest_plane(job, job->from + p * image * job->bytes, job->to + p * result * job->bytes);
}

enum { PARALLEL_ELEMENTS = 8192 }; /* each is of up to four of x */

static int run(const hod_op_call *c, hod_tensor *out, bool back)
{
    hod_tensor *x;
    const hod_attrs_resize *a = &c->attrs->resize;
    if (hod__eval_inputs(c, out, &x) != 0)
        return -1;
    const int64_t *big = back ? out->shape : x->shape;
    int sides = out->ndim - 2;
    resize_job job = {.in = {sides == 2 ? big[2] : 1, big[1 + sides]},
                      .out = {sides == 2 ? a->size[0] : 1, a->size[1]},
                      .nearest = a->mode != HOD_LINEAR,
                      .back = back,
                      .line = sides == 1,
                      .bytes = (int64_t)hod_dtype_bytes(out->dtype)};
    int rc = 0;
    if (hod_tensor_numel(out) > 0 && (rc = set_tables(&job, a)) == 0) {
        int64_t n = big[0] * big[1], each = job.in[0] * job.in[1] + job.out[0] * job.out[1];
        job.from = hod__data(x);
        job.to = hod__data(out);
        hod__parallel(n, hod__grain_of(PARALLEL_ELEMENTS, each),
                      job.nearest && !back ? nearest_planes
                      : job.bytes == 4     ? planes_f32
                                           : planes_f64,
                      &job);
    }
    for (int i = 0; i < 2; i++) {
        free(job.low[i]);
        free(job.weight[i]);
    }
    hod_tensor_release(x);
    return rc == 0 && job.failed ? HOD_FAIL_RC(MEMORY, "resize2d: no memory for a row") : rc;
}

int hod__eval_resize2d(const hod_op_call *c, hod_tensor *out)
{
    bool typed = hod__is_computed(out->dtype);
    if (c->attrs->resize.mode == HOD_LINEAR && !typed)
        return hod__eval_through(HOD_F32, c, out, hod__eval_resize2d);
    return run(c, out, false);
}

int hod__eval_resize2d_back(const hod_op_call *c, hod_tensor *out)
{
    if (!hod__is_computed(out->dtype))
        return hod__eval_through(HOD_F32, c, out, hod__eval_resize2d_back);
    return run(c, out, true);
}

/* ---- derivatives ---- */

static hod_tensor *resize(hod_op op, const hod_vjp *v, hod_shape shape)
{
    hod_attrs a = *v->attrs;
    a.resize.shape = shape;
    return hod__op(op, &a, 1, &v->g);
}

hod_tensor *hod__vjp_resize2d(const hod_vjp *v, int i)
{
    return resize(HOD_OP_resize2d_back, v, hod_shape_of(v->meta[i].ndim, v->meta[i].shape));
}

hod_tensor *hod__vjp_resize2d_back(const hod_vjp *v, int i)
{
    (void)i;
    return resize(HOD_OP_resize2d, v, (hod_shape){0});
}

/* ---- front ---- */

typedef struct side {
    int64_t in, out;
    double scale; /* as given; 0: the sizes' */
} side;

/* The sides of x, by the options; 0 or -1. */
static int sides_of(const hod_tensor *x, const hod_interpolate_options *o, side *s)
{
    bool sized = o->size[0] || o->size[1], scaled = o->scale[0] != 0 || o->scale[1] != 0;
    if (x->ndim != 3 && x->ndim != 4)
        return HOD_FAIL_RC(ARGUMENT, "interpolate: of %s, which is not (N,C,L) or (N,C,H,W)",
                           HOD_SHAPE_TEXT(x));
    if (sized == scaled)
        return HOD_FAIL_RC(ARGUMENT, "interpolate: either size or scale is wanted");
    for (int i = 0; i < x->ndim - 2; i++) {
        double scale = i == 1 && o->scale[1] == 0 ? o->scale[0] : o->scale[i];
        s[i] = (side){x->shape[2 + i], o->size[i], scale};
        double out = scaled ? floor((double)s[i].in * scale) : (double)o->size[i];
        if (!(out >= 1 && out <= INT32_MAX) || s[i].in < 1 || s[i].in > INT32_MAX)
            return HOD_FAIL_RC(ARGUMENT, "interpolate: %lld elements to %g", (long long)s[i].in,
                               out);
        s[i].out = (int64_t)out;
    }
    return 0;
}

hod_tensor *hod_interpolate_with(hod_tensor *x, hod_interpolate_options o)
{
    side s[2];
    if (hod__null("interpolate", "x", x) || sides_of(x, &o, s) != 0)
        return NULL;
    bool linear = o.mode == HOD_LINEAR;
    if (o.mode < HOD_NEAREST || o.mode > HOD_LINEAR)
        return HOD_FAIL(ARGUMENT, "interpolate: mode %d, wanted HOD_NEAREST or HOD_LINEAR",
                        (int)o.mode);
    if (o.align_corners && !linear)
        return HOD_FAIL(ARGUMENT, "interpolate: align_corners goes with HOD_LINEAR, not nearest");
    if (linear && !hod__is_float(x->dtype))
        return HOD_FAIL(ARGUMENT, "interpolate: linear is not defined for %s",
                        hod_dtype_name((hod_dtype)x->dtype));
    HOD_ATTRS(a);
    const side *rows = &s[0], *columns = &s[x->ndim - 3];
    bool image = x->ndim == 4;
    a.resize.size[0] = image ? rows->out : 1;
    a.resize.scale_y = image ? rows->scale : 0;
    a.resize.size[1] = columns->out;
    a.resize.scale_x = columns->scale;
    a.resize.mode = o.mode;
    a.resize.corners = o.align_corners;
    return hod__op(HOD_OP_resize2d, &a, 1, &x);
}
