/* The fronts of pooling. One operator each for maximum and average has windows on a regular grid
 * within the padded image; the rest is brought to that:
 *
 *     ceil_mode       more padding behind, which a maximum never chooses and an average counts not
 *     divisor         the average times kernel / divisor
 *     lines           images of height 1
 *     adaptive        windows on the grid where the size divides, else the operator's bins
 */
#include "ops/rules.h"

/* ---- windows of one size ---- */

/* How far the last window of ceil_mode, which begins inside the image or before it, reaches beyond
 * the padding. 0 for numbers that the operator refuses. */
static int64_t overhang(const hod_attrs_pool *a, const hod_tensor *x, int i)
{
    int64_t room, span, padding[2] = {a->padding[i], a->padding[2 + i]}, stride = a->stride[i];
    if (x->ndim != 4 ||
        !hod__window(x->shape[2 + i], padding, a->kernel[i], stride, a->dilation[i], &room, &span))
        return 0;
    if (span - room >= stride)
        return 0;
    int64_t last = (room - span + stride - 1) / stride;
    if (last * stride >= x->shape[2 + i] + padding[0])
        last--;
    return HOD_MAX(0, last * stride + span - room);
}

/* -1 where a padding is more than half of the window: one at the border would see nothing. Absurd
 * windows are left to the shape rule. */
static int attrs_of(const char *name, const hod_pool2d_options *o, hod_attrs *a)
{
    memset(a, 0, sizeof *a);
    hod__both_ways(o->kernel, o->kernel_hw, 0, a->pool.kernel);
    hod__both_ways(o->stride, o->stride_hw, 0, a->pool.stride);
    if (!a->pool.stride[0] && !a->pool.stride[1])
        memcpy(a->pool.stride, a->pool.kernel, sizeof a->pool.stride);
    hod__both_ways(o->dilation, o->dilation_hw, 1, a->pool.dilation);
    hod__four_sides(o->padding, o->padding_tlbr, a->pool.padding);
    a->pool.count_include_pad = !o->exclude_pad || o->divisor;
    for (int i = 0; i < 2; i++) { /* numbers that make no window are left to the operator */
        int64_t padding[2] = {a->pool.padding[i], a->pool.padding[i + 2]}, room, span;
        int64_t most = HOD_MAX(padding[0], padding[1]);
        if (hod__window(0, padding, a->pool.kernel[i], a->pool.stride[i], a->pool.dilation[i],
                        &room, &span) &&
            most > span / 2)
            return HOD_FAIL_RC(ARGUMENT, "%s: padding %lld is more than half of a window of %lld",
                               name, (long long)most, (long long)span);
    }
    return 0;
}

hod_tensor *hod_max_pool2d_with(hod_tensor *x, hod_pool2d_options o)
{
    hod_attrs a;
    if (hod__null("max_pool2d", "x", x) || attrs_of("max_pool2d", &o, &a) != 0)
        return NULL;
    for (int i = 0; i < 2 && o.ceil_mode; i++)
        a.pool.padding[2 + i] += overhang(&a.pool, x, i);
    return hod__op(HOD_OP_max_pool2d, &a, 1, &x);
}

/* The kernel's elements over those of them in the padded image, for each of `out` windows along
 * side i: f64 (out). */
static hod_tensor *share(const hod_attrs_pool *a, int i, int64_t room, int64_t out)
{
    hod_tensor *at = hod_mul_scalar(hod_arange(HOD_F64, out), (double)-a->stride[i]);
    hod_tensor *taps = hod_add_scalar(at, (double)(room + a->dilation[i] - 1));
    taps = hod_floor(hod_div_scalar(taps, (double)a->dilation[i]));
    taps = hod_minimum_scalar(taps, (double)a->kernel[i]);
    return hod_mul_scalar(hod_reciprocal(taps), (double)a->kernel[i]);
}

/* y times what makes its divisors those of ceil_mode: without the overhang. */
static hod_tensor *without_overhang(hod_tensor *y, const hod_attrs_pool *a, const hod_tensor *x,
                                    const int64_t over[2])
{
    for (int i = 0; y && i < 2; i++) {
        if (over[i] == 0)
            continue;
        int64_t room = x->shape[2 + i] + a->padding[i] + a->padding[2 + i] - over[i];
        hod_tensor *factor = hod__cast_to(share(a, i, room, y->shape[2 + i]), (hod_dtype)y->dtype);
        y = hod_mul(y, i == 0 ? hod_unsqueeze(factor, 1) : factor);
    }
    return y;
}

hod_tensor *hod_avg_pool2d_with(hod_tensor *x, hod_pool2d_options o)
{
    hod_attrs a;
    int64_t over[2] = {0, 0};
    if (hod__null("avg_pool2d", "x", x) || attrs_of("avg_pool2d", &o, &a) != 0)
        return NULL;
    for (int i = 0; i < 2 && o.ceil_mode; i++)
        a.pool.padding[2 + i] += over[i] = overhang(&a.pool, x, i);
    bool rescaled = o.divisor || (!o.exclude_pad && (over[0] || over[1]));
    if (!rescaled || !hod__is_float(x->dtype))
        return hod__op(HOD_OP_avg_pool2d, &a, 1, &x);
    hod_tensor *c = hod__computed(x), *y = hod__op(HOD_OP_avg_pool2d, &a, 1, &c);
    if (o.divisor)
        y = hod_mul_scalar(y,
                           (double)a.pool.kernel[0] * (double)a.pool.kernel[1] / (double)o.divisor);
    else
        y = without_overhang(y, &a.pool, x, over);
    return hod__narrowed_like(y, x);
}

hod_tensor *hod_global_avg_pool2d(hod_tensor *x)
{
    return hod_mean_keep(x, 2, 3);
}

/* ---- lines ---- */

static hod_tensor *line_pool(const char *name, hod_tensor *x, const hod_pool1d_options *o,
                             hod_tensor *(*pool)(hod_tensor *x, hod_pool2d_options o))
{
    if (x && x->ndim != 3)
        return HOD_FAIL(ARGUMENT, "%s: of %s, wanted (N,C,L)", name, HOD_SHAPE_TEXT(x));
    hod_pool2d_options image = {.kernel_hw = {1, o->kernel},
                                .stride_hw = {1, o->stride ? o->stride : o->kernel},
                                .padding_tlbr = {0, o->padding, 0, o->padding},
                                .exclude_pad = o->exclude_pad,
                                .dilation_hw = {1, o->dilation ? o->dilation : 1},
                                .ceil_mode = o->ceil_mode,
                                .divisor = o->divisor};
    return hod_squeeze(pool(hod_unsqueeze(x, 2), image), 2);
}

hod_tensor *hod_max_pool1d_with(hod_tensor *x, hod_pool1d_options o)
{
    return line_pool("max_pool1d", x, &o, hod_max_pool2d_with);
}

hod_tensor *hod_avg_pool1d_with(hod_tensor *x, hod_pool1d_options o)
{
    return line_pool("avg_pool1d", x, &o, hod_avg_pool2d_with);
}

/* ---- to a given size ---- */

/* A window longer than this along a side is summed pairwise, as a reduction; the operator adds one
 * element after another. */
enum { LONG_SUM = 16 };

/* x (N,C,H,W) */
static hod_tensor *adapt(const char *name, hod_tensor *x, const int64_t out[2], bool greatest)
{
    if (hod__null(name, "x", x))
        return NULL;
    for (int i = 0; i < 2; i++)
        if (out[i] < 1 || out[i] > INT32_MAX || x->shape[2 + i] < 1 || x->shape[2 + i] > INT32_MAX)
            return HOD_FAIL(ARGUMENT, "%s: %lld elements to %lld", name, (long long)x->shape[2 + i],
                            (long long)out[i]);
    if (!greatest && !hod__is_float(x->dtype))
        return HOD_FAIL(ARGUMENT, "%s: not defined for %s", name,
                        hod_dtype_name((hod_dtype)x->dtype));
    if (x->shape[2] % out[0] == 0 && x->shape[3] % out[1] == 0) {
        int64_t kh = x->shape[2] / out[0], kw = x->shape[3] / out[1];
        if (!greatest && (kh > LONG_SUM || kw > LONG_SUM))
            return hod_mean_over(
                hod_reshape(x, HOD_SHAPE(x->shape[0], x->shape[1], out[0], kh, out[1], kw)),
                HOD_SHAPE(3, 5), false);
        hod_pool2d_options o = {.kernel_hw = {kh, kw}};
        return greatest ? hod_max_pool2d_with(x, o) : hod_avg_pool2d_with(x, o);
    }
    HOD_ATTRS(a);
    memcpy(a.pool.bins, out, sizeof a.pool.bins);
    return hod__op(greatest ? HOD_OP_max_pool2d : HOD_OP_avg_pool2d, &a, 1, &x);
}

static hod_tensor *adapt_line(const char *name, hod_tensor *x, int64_t length, bool greatest)
{
    if (x && x->ndim != 3)
        return HOD_FAIL(ARGUMENT, "%s: of %s, wanted (N,C,L)", name, HOD_SHAPE_TEXT(x));
    return hod_squeeze(adapt(name, hod_unsqueeze(x, 2), (int64_t[]){1, length}, greatest), 2);
}

static hod_tensor *adapt_image(const char *name, hod_tensor *x, int64_t height, int64_t width,
                               bool greatest)
{
    if (x && x->ndim != 4)
        return HOD_FAIL(ARGUMENT, "%s: of %s, wanted (N,C,H,W)", name, HOD_SHAPE_TEXT(x));
    return adapt(name, x, (int64_t[]){height, width}, greatest);
}

hod_tensor *hod_adaptive_avg_pool1d(hod_tensor *x, int64_t length)
{
    return adapt_line("adaptive_avg_pool1d", x, length, false);
}

hod_tensor *hod_adaptive_max_pool1d(hod_tensor *x, int64_t length)
{
    return adapt_line("adaptive_max_pool1d", x, length, true);
}

hod_tensor *hod_adaptive_avg_pool2d(hod_tensor *x, int64_t height, int64_t width)
{
    return adapt_image("adaptive_avg_pool2d", x, height, width, false);
}

hod_tensor *hod_adaptive_max_pool2d(hod_tensor *x, int64_t height, int64_t width)
{
    return adapt_image("adaptive_max_pool2d", x, height, width, true);
}
