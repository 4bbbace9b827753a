/* The fronts of contractions: products of any rank, linear and bilinear layers,
 * convolution.
 *
 * Of 16-bit operands with a bias the product is wide, that is f32, and rounded when the bias is in:
 * once, like a product without one.
 */
#include "ops/rules.h"

static hod_tensor *matmul(hod_tensor *a, hod_tensor *b, bool tb, bool wide)
{
    HOD_ATTRS(attrs);
    attrs.matmul.tb = tb;
    attrs.matmul.wide = wide && a && hod__is_half(a->dtype);
    return hod__op(HOD_OP_matmul, &attrs, 2, (hod_tensor *[]){a, b});
}

/* x (...,K) times one matrix: the leading dimensions become rows, so that the gradient of the
 * matrix is one product and no sum over batches. */
static hod_tensor *rows_matmul(hod_tensor *x, hod_tensor *b, bool tb, bool wide)
{
    if (!x || x->ndim == 2)
        return matmul(x, b, tb, wide);
    int last = x->ndim - 1;
    hod_shape out = hod_tensor_shape(x);
    out.d[last] = b->shape[tb ? 0 : 1];
    int64_t flat[2] = {hod__numel(last, x->shape), x->shape[last]};
    return hod_reshape(matmul(hod__reshape_to(x, 2, flat), b, tb, wide), out);
}

static hod_tensor *product(hod_tensor *a, hod_tensor *b, bool wide)
{
    if (hod__null("matmul", "a", a) || hod__null("matmul", "b", b))
        return NULL;
    if (a->ndim == 0 || b->ndim == 0)
        return HOD_FAIL(ARGUMENT, "matmul: %s x %s: a scalar has no rows", HOD_SHAPE_TEXT(a),
                        HOD_SHAPE_TEXT(b));
    hod_dtype t = hod__promote(a, b);
    hod_tensor *x = hod__cast_to(a, t), *y = hod__cast_to(b, t);
    if (a->ndim == 1)
        return hod_squeeze(product(hod_unsqueeze(x, 0), y, wide), b->ndim == 1 ? 0 : -2);
    if (b->ndim == 1)
        return hod_squeeze(product(x, hod_unsqueeze(y, 1), wide), -1);
    bool inner_fits = a->shape[a->ndim - 1] == b->shape[b->ndim - 2];
    return b->ndim == 2 && inner_fits ? rows_matmul(x, y, false, wide) : matmul(x, y, false, wide);
}

hod_tensor *hod_matmul(hod_tensor *a, hod_tensor *b)
{
    return product(a, b, false);
}

hod_tensor *hod__matmul_wide(hod_tensor *a, hod_tensor *b)
{
    return product(a, b, true);
}

/* wide, the product of x and w, + b, in the type that the three make. */
static hod_tensor *with_bias(hod_tensor *wide, hod_tensor *x, hod_tensor *w, hod_tensor *b)
{
    return wide && b
               ? hod__narrowed(hod_add(wide, b), hod__promote_all(3, (hod_tensor *[]){x, w, b}))
               : NULL;
}

static hod_tensor *linear(hod_tensor *x, hod_tensor *w, bool wide)
{
    if (hod__null("linear", "x", x) || hod__null("linear", "w", w))
        return NULL;
    if (x->ndim < 1 || w->ndim != 2)
        return HOD_FAIL(ARGUMENT, "linear: %s with weights %s, wanted (...,I) with weights (O,I)",
                        HOD_SHAPE_TEXT(x), HOD_SHAPE_TEXT(w));
    if (x->shape[x->ndim - 1] != w->shape[1])
        return HOD_FAIL(ARGUMENT, "linear: %s with weights %s: last sizes %lld and %lld differ",
                        HOD_SHAPE_TEXT(x), HOD_SHAPE_TEXT(w), (long long)x->shape[x->ndim - 1],
                        (long long)w->shape[1]);
    hod_dtype t = hod__promote(x, w);
    return rows_matmul(hod__cast_to(x, t), hod__cast_to(w, t), true, wide);
}

hod_tensor *hod_linear_nobias(hod_tensor *x, hod_tensor *w)
{
    return linear(x, w, false);
}

hod_tensor *hod_linear(hod_tensor *x, hod_tensor *w, hod_tensor *b)
{
    hod_tensor *y = linear(x, w, true);
    if (!y || hod__null("linear", "b", b))
        return NULL;
    if (b->ndim != 1 || b->shape[0] != w->shape[0])
        return HOD_FAIL(ARGUMENT, "linear: bias %s with weights %s, wanted (%lld)",
                        HOD_SHAPE_TEXT(b), HOD_SHAPE_TEXT(w), (long long)w->shape[0]);
    return with_bias(y, x, w, b);
}

hod_tensor *hod_outer(hod_tensor *a, hod_tensor *b)
{
    if (a && b && (a->ndim != 1 || b->ndim != 1))
        return HOD_FAIL(ARGUMENT, "outer: %s and %s: vectors are wanted", HOD_SHAPE_TEXT(a),
                        HOD_SHAPE_TEXT(b));
    /* As a product of matrices its gradients are products, too, and no sums of a matrix. */
    return a && b && hod__is_float(a->dtype) && hod__is_float(b->dtype)
               ? hod_matmul(hod_unsqueeze(a, 1), hod_unsqueeze(b, 0))
               : hod_mul(hod_unsqueeze(a, 1), b);
}

hod_tensor *hod_addmm(hod_tensor *c, hod_tensor *a, hod_tensor *b, double beta, double alpha)
{
    hod_tensor *y = hod__matmul_wide(a, b);
    if (hod__null("addmm", "c", c) || !y)
        return NULL;
    int lead = y->ndim - c->ndim;
    bool fits = lead >= 0;
    for (int i = 0; fits && i < c->ndim; i++)
        fits = c->shape[i] == y->shape[lead + i] || c->shape[i] == 1;
    if (!fits)
        return HOD_FAIL(ARGUMENT, "addmm: %s and a product %s", HOD_SHAPE_TEXT(c),
                        HOD_SHAPE_TEXT(y));
    y = alpha == 1 ? y : hod_mul_scalar(y, alpha);
    if (beta != 0)
        y = hod_add(beta == 1 ? c : hod_mul_scalar(hod__computed(c), beta), y);
    return hod__narrowed(y, hod__promote_all(beta == 0 ? 2 : 3, (hod_tensor *[]){a, b, c}));
}

/* f32 of 16-bit operands. */
static hod_tensor *bilinear(hod_tensor *x1, hod_tensor *x2, hod_tensor *w)
{
    if (hod__null("bilinear", "x1", x1) || hod__null("bilinear", "x2", x2) ||
        hod__null("bilinear", "w", w))
        return NULL;
    bool fits = x1->ndim >= 1 && x1->ndim == x2->ndim && w->ndim == 3 &&
                x1->shape[x1->ndim - 1] == w->shape[1] && x2->shape[x2->ndim - 1] == w->shape[2];
    for (int i = 0; fits && i < x1->ndim - 1; i++)
        fits = x1->shape[i] == x2->shape[i];
    if (!fits)
        return HOD_FAIL(ARGUMENT, "bilinear: %s and %s with weights %s", HOD_SHAPE_TEXT(x1),
                        HOD_SHAPE_TEXT(x2), HOD_SHAPE_TEXT(w));
    return hod_einsum("...i,oij,...j->...o", hod__computed(x1), hod__computed(w),
                      hod__computed(x2));
}

hod_tensor *hod_bilinear_nobias(hod_tensor *x1, hod_tensor *x2, hod_tensor *w)
{
    hod_tensor *y = bilinear(x1, x2, w);
    return y ? hod__narrowed(y, hod__promote_all(3, (hod_tensor *[]){x1, x2, w})) : NULL;
}

hod_tensor *hod_bilinear(hod_tensor *x1, hod_tensor *x2, hod_tensor *w, hod_tensor *b)
{
    hod_tensor *y = bilinear(x1, x2, w);
    if (!y || hod__null("bilinear", "b", b))
        return NULL;
    if (b->ndim != 1 || b->shape[0] != w->shape[0])
        return HOD_FAIL(ARGUMENT, "bilinear: bias %s with weights %s", HOD_SHAPE_TEXT(b),
                        HOD_SHAPE_TEXT(w));
    return hod__narrowed(hod_add(y, b), hod__promote_all(4, (hod_tensor *[]){x1, x2, w, b}));
}

/* ---- images ---- */

/* y (N,O,H,W), the wide convolution of x with w, + b (O). */
static hod_tensor *with_channels_bias(const char *name, hod_tensor *y, hod_tensor *x, hod_tensor *w,
                                      hod_tensor *b)
{
    if (!y)
        return NULL;
    if (b->ndim != 1 || b->shape[0] != y->shape[1])
        return HOD_FAIL(ARGUMENT, "%s: bias %s with weights %s, wanted (%lld)", name,
                        HOD_SHAPE_TEXT(b), HOD_SHAPE_TEXT(w), (long long)y->shape[1]);
    return with_bias(y, x, w, hod_reshape(b, HOD_SHAPE(b->shape[0], 1, 1)));
}

/* Elements of a line as an image of one row, and back. */
static hod_tensor *as_row(const char *name, hod_tensor *x, hod_tensor *w)
{
    return hod__null(name, "x", x) || hod__null(name, "w", w) ? NULL
           : x->ndim == 3 && w->ndim == 3
               ? hod_unsqueeze(x, 2)
               : HOD_FAIL(ARGUMENT, "%s: %s with weights %s: three dimensions each are wanted",
                          name, HOD_SHAPE_TEXT(x), HOD_SHAPE_TEXT(w));
}

/* A line's padding as that of an image of one row. */
static void line_padding(int64_t padding, const int64_t lr[2], int64_t tlbr[4])
{
    int64_t sides[2];
    hod__both_ways(padding, lr, 0, sides);
    memcpy(tlbr, (int64_t[]){0, sides[0], 0, sides[1]}, 4 * sizeof *tlbr);
}

hod_tensor *hod_conv1d_with(hod_tensor *x, hod_tensor *w, hod_conv1d_options o)
{
    hod_tensor *row = as_row("conv1d", x, w);
    if (!row)
        return NULL;
    hod_conv2d_options image = {.stride_hw = {1, o.stride ? o.stride : 1},
                                .dilation_hw = {1, o.dilation ? o.dilation : 1},
                                .groups = o.groups,
                                .same = o.same,
                                .bias = o.bias};
    line_padding(o.padding, o.padding_lr, image.padding_tlbr);
    return hod_squeeze(hod_conv2d_with(row, hod_unsqueeze(w, 2), image), 2);
}

/* What a transposed convolution makes of one dimension: the convolution's input of `size`
 * elements, of which the last `beyond` are read by no window. */
typedef struct stretch {
    int64_t size, beyond;
} stretch;

/* Also sets the padding behind to what makes the convolution of `size` elements give n: windows
 * touch the same elements whatever it is. False when a number is out of range. */
static bool stretched(int64_t n, int64_t kernel, int64_t stride, int64_t dilation, int64_t before,
                      int64_t *behind, int64_t more, stretch *out)
{
    const int64_t most = INT32_MAX, all[] = {n, kernel, before, *behind, more};
    for (int i = 0; i < 5; i++)
        if (all[i] < 0 || all[i] > most)
            return false;
    if (n < 1 || kernel < 1 || stride < 1 || stride > most || dilation < 1 || dilation > most)
        return false;
    int64_t covered = (n - 1) * stride + dilation * (kernel - 1) + 1 - before;
    out->size = covered - *behind + more;
    *behind = HOD_MAX(covered - out->size, 0);
    int64_t rest = HOD_MAX(out->size - covered, 0);
    out->beyond = rest < stride ? 0 : rest;
    return out->size > 0 && out->size > out->beyond;
}

static bool transposable(const hod_tensor *x, const hod_tensor *w, int64_t groups)
{
    return groups >= 1 && x->shape[1] == w->shape[0] && w->shape[0] % groups == 0;
}

hod_tensor *hod_conv_transpose2d_with(hod_tensor *x, hod_tensor *w, hod_conv_transpose2d_options o)
{
    if (hod__null("conv_transpose2d", "x", x) || hod__null("conv_transpose2d", "w", w) ||
        (!o.bias && !hod__options_hold()))
        return NULL;
    HOD_ATTRS(a);
    int64_t more[2];
    stretch s[2];
    hod__both_ways(o.stride, o.stride_hw, 1, a.conv.stride);
    hod__both_ways(o.dilation, o.dilation_hw, 1, a.conv.dilation);
    hod__both_ways(o.output_padding, o.output_padding_hw, 0, more);
    hod__four_sides(o.padding, o.padding_tlbr, a.conv.padding);
    a.conv.groups = o.groups ? o.groups : 1;
    if (x->ndim != 4 || w->ndim != 4)
        return HOD_FAIL(ARGUMENT,
                        "conv_transpose2d: %s with weights %s: four dimensions each are wanted",
                        HOD_SHAPE_TEXT(x), HOD_SHAPE_TEXT(w));
    a.conv.shape = HOD_SHAPE(x->shape[0], 0, 0, 0);
    if (!transposable(x, w, a.conv.groups) ||
        !hod__mul_size(w->shape[1], a.conv.groups, &a.conv.shape.d[1]))
        return HOD_FAIL(ARGUMENT,
                        "conv_transpose2d: %s with weights %s: %lld groups of channels do not fit",
                        HOD_SHAPE_TEXT(x), HOD_SHAPE_TEXT(w), (long long)a.conv.groups);
    for (int i = 0; i < 2; i++) {
        int64_t stride = a.conv.stride[i], dilation = a.conv.dilation[i];
        int64_t *padding = a.conv.padding + i, behind = padding[2];
        if (more[i] >= HOD_MAX(stride, dilation) ||
            !stretched(x->shape[2 + i], w->shape[2 + i], stride, dilation, padding[0], &padding[2],
                       more[i], &s[i]))
            return HOD_FAIL(ARGUMENT,
                            "conv_transpose2d: %s with weights %s: stride %lld, dilation %lld, "
                            "padding %lld and %lld, output_padding %lld",
                            HOD_SHAPE_TEXT(x), HOD_SHAPE_TEXT(w), (long long)stride,
                            (long long)dilation, (long long)padding[0], (long long)behind,
                            (long long)more[i]);
        a.conv.shape.d[2 + i] = s[i].size - s[i].beyond;
    }
    hod_dtype t = hod__promote(x, w);
    a.conv.wide = o.bias && hod__is_half(t);
    hod_tensor *y = hod__op(HOD_OP_conv2d_input, &a, 2,
                            (hod_tensor *[]){hod__cast_to(x, t), hod__cast_to(w, t)});
    for (int i = 0; i < 2; i++)
        if (s[i].beyond > 0)
            y = hod_pad(y, 2 + i, 0, s[i].beyond, 0);
    return o.bias ? with_channels_bias("conv_transpose2d", y, x, w, o.bias) : y;
}

hod_tensor *hod_conv_transpose1d_with(hod_tensor *x, hod_tensor *w, hod_conv_transpose1d_options o)
{
    hod_tensor *row = as_row("conv_transpose1d", x, w);
    if (!row)
        return NULL;
    hod_conv_transpose2d_options image = {.stride_hw = {1, o.stride ? o.stride : 1},
                                          .dilation_hw = {1, o.dilation ? o.dilation : 1},
                                          .output_padding_hw = {0, o.output_padding},
                                          .groups = o.groups,
                                          .bias = o.bias};
    line_padding(o.padding, o.padding_lr, image.padding_tlbr);
    return hod_squeeze(hod_conv_transpose2d_with(row, hod_unsqueeze(w, 2), image), 2);
}

/* Half of what the window covers beside its first element on either side. What has no 64-bit size
 * is left for the shape rule to refuse. */
static void same_padding(const hod_tensor *w, const int64_t dilation[2], int64_t out[4])
{
    for (int i = 0; i < 2; i++) {
        int64_t total;
        if (w->ndim != 4 || dilation[i] < 1 || w->shape[2 + i] < 1 ||
            !hod__mul_size(w->shape[2 + i] - 1, dilation[i], &total))
            total = INT64_MAX;
        out[i] = total / 2;
        out[2 + i] = total - total / 2;
    }
}

hod_tensor *hod_conv2d_with(hod_tensor *x, hod_tensor *w, hod_conv2d_options o)
{
    if (hod__null("conv2d", "x", x) || hod__null("conv2d", "w", w) ||
        (!o.bias && !hod__options_hold()))
        return NULL;
    HOD_ATTRS(a);
    hod__both_ways(o.stride, o.stride_hw, 1, a.conv.stride);
    hod__both_ways(o.dilation, o.dilation_hw, 1, a.conv.dilation);
    hod__four_sides(o.padding, o.padding_tlbr, a.conv.padding);
    if (o.same && (a.conv.stride[0] != 1 || a.conv.stride[1] != 1 || a.conv.padding[0] ||
                   a.conv.padding[1] || a.conv.padding[2] || a.conv.padding[3]))
        return HOD_FAIL(ARGUMENT, "conv2d: the same size with a stride or with padding");
    if (o.same)
        same_padding(w, a.conv.dilation, a.conv.padding);
    a.conv.groups = o.groups ? o.groups : 1;
    hod_dtype t = hod__promote(x, w);
    a.conv.wide = o.bias && hod__is_half(t);
    hod_tensor *y =
        hod__op(HOD_OP_conv2d, &a, 2, (hod_tensor *[]){hod__cast_to(x, t), hod__cast_to(w, t)});
    return o.bias ? with_channels_bias("conv2d", y, x, w, o.bias) : y;
}

hod_tensor *hod_add_channels(hod_tensor *x, hod_tensor *b)
{
    if (hod__null("add_channels", "x", x) || hod__null("add_channels", "b", b))
        return NULL;
    if (x->ndim < 2 || b->ndim != 1 || b->shape[0] != x->shape[1])
        return HOD_FAIL(ARGUMENT, "add_channels: %s with %s", HOD_SHAPE_TEXT(x), HOD_SHAPE_TEXT(b));
    hod_shape s = {.n = x->ndim - 1};
    for (int i = 0; i < s.n; i++)
        s.d[i] = i == 0 ? b->shape[0] : 1;
    return hod_add(x, hod_reshape(b, s));
}
