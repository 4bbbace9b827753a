/* Images sampled at a grid: each point takes the four elements around its place.
 *
 *     low,low ---- low,high          place = low + part, in elements; a corner outside the image
 *        |   . place  |              counts 0 and has no gradient
 *     high,low --- high,high
 *
 *     grid_sample(x, grid)           y[n,c,p] = sum over corners of x[n,c,corner] weight
 *     grid_sample_back(g, grid)      dx[n,c,corner] += g[n,c,p] weight        its transpose
 *     grid_sample_slope(g, x, grid)  d grid: the corners' differences times g, over all channels
 *
 * Elements are read by an index, so that a NaN reaches its neighbours only. The slope's own
 * derivative, wanted for second ones, is written in operators.
 */
#include "ops/resample.h"
#include <hod/images.h>

enum { BLOCK = 128 /* points at once */ };

typedef struct sample_job {
    const hod_attrs_sample *a;
    int64_t channels, h, w, points; /* of an image */
    int corners;                    /* 4; nearest: 1 */
    bool back;
    const void *x, *grid, *g;
    void *to;
} sample_job;

#define TYPED_BODY "ops/sample_tmpl.c"
#define ELEM_F32
#include "ops/typed_tmpl.h"
#define ELEM_F64
#include "ops/typed_tmpl.h"
#undef TYPED_BODY

/* ---- shapes ---- */

/* y (N,C,Ho,Wo) of x at the grid; 0 or -1. */
static int sampled(const char *name, const hod_attrs_sample *a, const hod_meta *x,
                   const hod_meta *grid, hod_meta *y)
{
    bool fits = x->ndim == 4 && grid->ndim == 4 && grid->shape[3] == 2 &&
                grid->shape[0] == x->shape[0] && x->shape[2] >= 1 && x->shape[3] >= 1 &&
                x->dtype == grid->dtype && hod__is_computed(x->dtype) &&
                (a->mode == HOD_SAMPLE_NEAREST || a->mode == HOD_SAMPLE_LINEAR) &&
                a->padding >= HOD_SAMPLE_ZEROS && a->padding <= HOD_SAMPLE_REFLECTION;
    if (!fits)
        return HOD_FAIL_RC(ARGUMENT, "%s: %s %s at %s %s, mode %lld, padding %lld", name,
                           hod_dtype_name(x->dtype), HOD_META_TEXT(x), hod_dtype_name(grid->dtype),
                           HOD_META_TEXT(grid), (long long)a->mode, (long long)a->padding);
    *y = *x;
    y->shape[2] = grid->shape[1];
    y->shape[3] = grid->shape[2];
    return 0;
}

int hod__shape_grid_sample(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    return sampled("grid_sample", &c->attrs->sample, &in[0], &in[1], out);
}

int hod__shape_grid_sample_back(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    hod_meta y;
    *out = hod__meta_of(in[0].dtype, &c->attrs->sample.shape);
    if (sampled("grid_sample_back", &c->attrs->sample, out, &in[1], &y) != 0)
        return -1;
    return hod__check_like("grid_sample_back", &in[0], &y);
}

int hod__shape_grid_sample_slope(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    hod_meta y;
    *out = in[2];
    if (sampled("grid_sample_slope", &c->attrs->sample, &in[1], &in[2], &y) != 0)
        return -1;
    return hod__check_like("grid_sample_slope", &in[0], &y);
}

/* ---- kernels ---- */

enum { PARALLEL_POINTS = 2048 };

/* image: what has the channels' planes, x or its gradient. */
static void run(const hod_op_call *c, sample_job *job, const hod_tensor *image,
                const hod_tensor *grid, hod_tensor *out)
{
    bool f64 = out->dtype == HOD_F64;
    job->a = &c->attrs->sample;
    job->channels = image->shape[1];
    job->h = image->shape[2];
    job->w = image->shape[3];
    job->points = grid->shape[1] * grid->shape[2];
    job->corners = job->a->mode == HOD_SAMPLE_LINEAR ? 4 : 1;
    job->grid = hod__data(grid);
    job->to = hod__data(out);
    if (c->op == HOD_OP_grid_sample_slope)
        hod__parallel(image->shape[0] * ((job->points + BLOCK - 1) / BLOCK),
                      hod__grain_of(PARALLEL_POINTS, BLOCK * job->channels),
                      f64 ? slope_blocks_f64 : slope_blocks_f32, job);
    else
        hod__parallel(image->shape[0] * job->channels, hod__grain_of(PARALLEL_POINTS, job->points),
                      f64 ? sample_planes_f64 : sample_planes_f32, job);
}

static int eval(const hod_op_call *c, hod_tensor *out)
{
    hod_tensor *in[3];
    int rc = hod__eval_inputs(c, out, in);
    if (rc == 0 && c->op == HOD_OP_grid_sample_back)
        rc = hod__eval_zero(out);
    if (rc == 0 && hod_tensor_numel(out) > 0) {
        bool forward = c->op == HOD_OP_grid_sample, back = c->op == HOD_OP_grid_sample_back;
        const hod_tensor *grid = in[c->n - 1], *image = back ? out : in[c->n - 2];
        sample_job job = {.back = back,
                          .x = back ? NULL : hod__data(image),
                          .g = forward ? NULL : hod__data(in[0])};
        run(c, &job, image, grid, out);
    }
    hod__release_inputs(c, in);
    return rc;
}

int hod__eval_grid_sample(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out);
}

int hod__eval_grid_sample_back(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out);
}

int hod__eval_grid_sample_slope(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out);
}

/* ---- a second derivative, in operators ---- */

/* at, folded at low and high, both halves of whole numbers, until it lies between. */
static hod_tensor *reflected(hod_tensor *at, double low, double high)
{
    if (low == high)
        return hod_mul_scalar(at, 0);
    double span = high - low;
    hod_tensor *away = hod_abs(hod_sub_scalar(at, low));
    hod_tensor *bound = hod_full_like(away, span);
    hod_tensor *rest = hod_fmod(away, bound), *times = hod_floor(hod_div(away, bound));
    hod_tensor *odd = hod_ne_scalar(hod_fmod(times, hod_full_like(times, 2)), 0);
    hod_tensor *back = hod_add_scalar(hod_neg(rest), span);
    return hod_add_scalar(hod_where(odd, back, rest), low);
}

/* g in [-1, 1] along `size` elements, as a place counted in elements. */
static hod_tensor *place(hod_tensor *g, int64_t size, const hod_attrs_sample *o)
{
    double n = (double)size;
    hod_tensor *at = hod_add_scalar(g, 1);
    at = o->corners ? hod_mul_scalar(hod_mul_scalar(at, 0.5), n - 1)
                    : hod_mul_scalar(hod_sub_scalar(hod_mul_scalar(at, n), 1), 0.5);
    if (o->padding == HOD_SAMPLE_REFLECTION)
        at = o->corners ? reflected(at, 0, n - 1) : reflected(at, -0.5, n - 0.5);
    return o->padding == HOD_SAMPLE_ZEROS ? at : hod_clamp(at, 0, n - 1);
}

/* The element at y, x (N,P), or more dimensions, whole numbers, of the image;
 * 0 outside: (N,P,C). */
static hod_tensor *element(const hod_image_rows *m, hod_tensor *y, hod_tensor *x)
{
    hod_tensor *v = hod__image_element(m, y, x);
    hod_tensor *in_y = hod_logical_and(hod_ge_scalar(y, 0), hod_lt_scalar(y, (double)m->h));
    hod_tensor *in_x = hod_logical_and(hod_ge_scalar(x, 0), hod_lt_scalar(x, (double)m->w));
    if (!v)
        return NULL;
    return hod_where(hod_unsqueeze(hod_logical_and(in_y, in_x), v->ndim - 1), v, hod__number(v, 0));
}

/* What the grid's step changes in its places: constant between kinks, so without a history. Inside
 * the image it is what sampling finds on slopes of 1 across and down. */
static hod_tensor *place_slope(hod_tensor *x, hod_tensor *grid, const hod_attrs *a)
{
    int64_t n = x->shape[0], h = x->shape[2], w = x->shape[3];
    hod_dtype t = (hod_dtype)x->dtype;
    if (a->sample.padding == HOD_SAMPLE_ZEROS) {
        double edge = a->sample.corners ? 1 : 0;
        double both[2] = {((double)w - edge) / 2, ((double)h - edge) / 2};
        return hod__cast_to(hod_from_doubles(both, HOD_SHAPE(2)), t);
    }
    hod_tensor *across = hod_iota(t, HOD_SHAPE(n, 1, h, w), 3);
    hod_tensor *down = hod_iota(t, HOD_SHAPE(n, 1, h, w), 2);
    hod_tensor *ramps = hod_concat(2, (hod_tensor *[]){across, down}, 1);
    hod_tensor *one = hod_full(t, HOD_SHAPE(n, 2, grid->shape[1], grid->shape[2]), 1);
    return hod__op(HOD_OP_grid_sample_slope, a, 3, (hod_tensor *[]){one, ramps, grid});
}

/* grid_sample_slope in operators. */
static hod_tensor *composed_slope(hod_tensor *g, hod_tensor *x, hod_tensor *grid,
                                  const hod_attrs *a)
{
    int64_t n = x->shape[0], h = x->shape[2], w = x->shape[3];
    int64_t points = grid->shape[1] * grid->shape[2];
    hod_tensor *places = hod_reshape(grid, HOD_SHAPE(n, points, 2));
    hod_tensor *at_x = place(hod_select(places, 2, 0), w, &a->sample);
    hod_tensor *at_y = place(hod_select(places, 2, 1), h, &a->sample);
    hod_tensor *low_x = hod_floor(at_x), *low_y = hod_floor(at_y);
    hod_tensor *ky = hod__both(low_y, 0), *kx = hod__both(low_x, 1);
    hod_image_rows m = {hod__rows_of_image(x), hod_iota(HOD_I64, HOD_SHAPE(n, 1), 0), h, w};
    hod_tensor *v = element(&m, hod_add(low_y, ky), hod_add(low_x, kx)); /* (2,2,N,P,C) */
    hod_tensor *of_g = hod_permute(hod_reshape(g, HOD_SHAPE(n, x->shape[1], points)), 0, 2, 1);
    v = hod_sum_dims(hod_mul(v, of_g), 4);
    hod_tensor *wy = hod_squeeze(hod__share(hod_sub(at_y, low_y), ky), 1); /* (2,N,P) */
    hod_tensor *wx = hod_squeeze(hod__share(hod_sub(at_x, low_x), kx), 0);
    hod_tensor *dx = hod_mul(wy, hod_sub(hod_select(v, 1, 1), hod_select(v, 1, 0)));
    hod_tensor *dy = hod_mul(wx, hod_sub(hod_select(v, 0, 1), hod_select(v, 0, 0)));
    hod_tensor *sums[2] = {hod_sum_dims(dx, 0), hod_sum_dims(dy, 0)};
    hod_tensor *slope = hod_reshape(hod_stack(2, sums, -1), hod_tensor_shape(grid));
    return hod_mul(slope, place_slope(x, grid, a));
}

/* ---- derivatives ---- */

static hod_tensor *slope_of(hod_tensor *g, hod_tensor *x, hod_tensor *grid, const hod_attrs *attrs)
{
    hod_attrs a = *attrs;
    a.sample.shape = (hod_shape){0};
    if (a.sample.mode == HOD_SAMPLE_NEAREST)
        return hod_full_like(grid, 0);
    if (hod__tape_listens())
        return composed_slope(g, x, grid, &a);
    return hod__op(HOD_OP_grid_sample_slope, &a, 3, (hod_tensor *[]){g, x, grid});
}

hod_tensor *hod__vjp_grid_sample(const hod_vjp *v, int i)
{
    if (i == 1)
        return slope_of(v->g, v->x[0], v->x[1], v->attrs);
    hod_attrs a = *v->attrs;
    a.sample.shape = hod_shape_of(4, v->meta[0].shape);
    return hod__op(HOD_OP_grid_sample_back, &a, 2, (hod_tensor *[]){v->g, v->x[1]});
}

hod_tensor *hod__vjp_grid_sample_back(const hod_vjp *v, int i)
{
    if (i == 1)
        return slope_of(v->x[0], v->g, v->x[1], v->attrs);
    hod_attrs a = *v->attrs;
    a.sample.shape = (hod_shape){0};
    return hod__op(HOD_OP_grid_sample, &a, 2, (hod_tensor *[]){v->g, v->x[1]});
}

/* ---- front ---- */

hod_tensor *hod_grid_sample_with(hod_tensor *x, hod_tensor *grid, hod_grid_sample_options o)
{
    if (hod__null("grid_sample", "x", x) || hod__null("grid_sample", "grid", grid))
        return NULL;
    if (x->ndim != 4 || grid->ndim != 4 || grid->shape[3] != 2 || grid->shape[0] != x->shape[0])
        return HOD_FAIL(ARGUMENT, "grid_sample: %s at %s, wanted (N,C,H,W) at (N,Ho,Wo,2)",
                        HOD_SHAPE_TEXT(x), HOD_SHAPE_TEXT(grid));
    if (o.mode != HOD_SAMPLE_NEAREST && o.mode != HOD_SAMPLE_LINEAR)
        return HOD_FAIL(ARGUMENT,
                        "grid_sample: mode %d, wanted HOD_SAMPLE_LINEAR or HOD_SAMPLE_NEAREST",
                        (int)o.mode);
    if (o.padding < HOD_SAMPLE_ZEROS || o.padding > HOD_SAMPLE_REFLECTION)
        return HOD_FAIL(ARGUMENT, "grid_sample: padding %d, wanted HOD_SAMPLE_ZEROS to _REFLECTION",
                        (int)o.padding);
    if (!hod__is_float(x->dtype) || !hod__is_float(grid->dtype))
        return HOD_FAIL(ARGUMENT, "grid_sample: not defined for %s at %s",
                        hod_dtype_name((hod_dtype)x->dtype),
                        hod_dtype_name((hod_dtype)grid->dtype));
    int64_t n = x->shape[0], h = x->shape[2], w = x->shape[3];
    if (h < 1 || w < 1)
        return HOD_FAIL(ARGUMENT, "grid_sample: of %s, an empty image", HOD_SHAPE_TEXT(x));
    if (!hod__countable(n, h, w) || !hod__countable(n, grid->shape[1], grid->shape[2]))
        return HOD_FAIL(ARGUMENT, "grid_sample: more places than 64 bits count");
    hod_dtype t = hod__promote(x, grid);
    hod_tensor *c = hod__computed(hod__cast_to(x, t)), *g = hod__computed(hod__cast_to(grid, t));
    HOD_ATTRS(a);
    a.sample.mode = o.mode;
    a.sample.padding = o.padding;
    a.sample.corners = o.align_corners;
    return hod__cast_to(hod__op(HOD_OP_grid_sample, &a, 2, (hod_tensor *[]){c, g}), t);
}
