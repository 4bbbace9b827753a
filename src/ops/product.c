/* The fronts of contractions: products of any rank, linear layers, convolution. */
#include "ops/rules.h"

static hod_tensor *matmul(hod_tensor *a, hod_tensor *b, bool tb)
{
    hod_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    attrs.matmul.tb = tb;
    return hod__op(HOD_OP_matmul, &attrs, 2, (hod_tensor *[]){a, b});
}

/* x (...,K) times one matrix: the leading dimensions become rows, so that the gradient of the
 * matrix is one product and no sum over batches. */
static hod_tensor *rows_matmul(hod_tensor *x, hod_tensor *b, bool tb)
{
    if (!x || x->ndim == 2)
        return matmul(x, b, tb);
    int last = x->ndim - 1;
    hod_shape out = hod_tensor_shape(x);
    out.d[last] = b->shape[tb ? 0 : 1];
    int64_t flat[2] = {hod__numel(last, x->shape), x->shape[last]};
    return hod_reshape(matmul(hod__reshape_to(x, 2, flat), b, tb), out);
}

hod_tensor *hod_matmul(hod_tensor *a, hod_tensor *b)
{
    if (!a || !b)
        return NULL;
    if (a->ndim == 0 || b->ndim == 0)
        return HOD_FAIL(ARGUMENT, "matmul: %s x %s: a scalar has no rows", HOD_SHAPE_TEXT(a),
                        HOD_SHAPE_TEXT(b));
    hod_dtype t = hod__promote(a, b);
    t = t > HOD_BF16 ? HOD_F32 : t;
    hod_tensor *x = hod__cast_to(a, t), *y = hod__cast_to(b, t);
    if (a->ndim == 1)
        return hod_squeeze(hod_matmul(hod_unsqueeze(x, 0), y), b->ndim == 1 ? 0 : -2);
    if (b->ndim == 1)
        return hod_squeeze(hod_matmul(x, hod_unsqueeze(y, 1)), -1);
    bool inner_fits = a->shape[a->ndim - 1] == b->shape[b->ndim - 2];
    return b->ndim == 2 && inner_fits ? rows_matmul(x, y, false) : matmul(x, y, false);
}

hod_tensor *hod_linear_nobias(hod_tensor *x, hod_tensor *w)
{
    if (!x || !w)
        return NULL;
    if (x->ndim < 1 || w->ndim != 2 || x->shape[x->ndim - 1] != w->shape[1])
        return HOD_FAIL(ARGUMENT, "linear: %s with weights %s: the last size of both is the same",
                        HOD_SHAPE_TEXT(x), HOD_SHAPE_TEXT(w));
    hod_dtype t = hod__promote(x, w);
    return rows_matmul(hod__cast_to(x, t), hod__cast_to(w, t), true);
}

hod_tensor *hod_linear(hod_tensor *x, hod_tensor *w, hod_tensor *b)
{
    hod_tensor *y = hod_linear_nobias(x, w);
    if (y && b && (b->ndim != 1 || b->shape[0] != w->shape[0]))
        return HOD_FAIL(ARGUMENT, "linear: bias %s with weights %s", HOD_SHAPE_TEXT(b),
                        HOD_SHAPE_TEXT(w));
    return hod_add(y, b);
}

/* ---- images ---- */

/* Both ways alike, unless they are given apart. */
static void pair(int64_t both, const int64_t apart[2], int64_t least, int64_t out[2])
{
    bool given = apart[0] != 0 || apart[1] != 0;
    for (int i = 0; i < 2; i++)
        out[i] = given ? apart[i] : both ? both : least;
}

static void quad(int64_t all, const int64_t apart[4], int64_t out[4])
{
    bool given = apart[0] || apart[1] || apart[2] || apart[3];
    for (int i = 0; i < 4; i++)
        out[i] = given ? apart[i] : all;
}

hod_tensor *hod_conv2d_with(hod_tensor *x, hod_tensor *w, hod_conv2d_options o)
{
    if (!x || !w)
        return NULL;
    hod_attrs a;
    memset(&a, 0, sizeof a);
    pair(o.stride, o.stride_hw, 1, a.conv.stride);
    pair(o.dilation, o.dilation_hw, 1, a.conv.dilation);
    quad(o.padding, o.padding_tlbr, a.conv.padding);
    a.conv.groups = o.groups ? o.groups : 1;
    hod_dtype t = hod__promote(x, w);
    return hod__op(HOD_OP_conv2d, &a, 2, (hod_tensor *[]){hod__cast_to(x, t), hod__cast_to(w, t)});
}

hod_tensor *hod_add_channels(hod_tensor *x, hod_tensor *b)
{
    if (!x || !b)
        return NULL;
    if (x->ndim < 2 || b->ndim != 1 || b->shape[0] != x->shape[1])
        return HOD_FAIL(ARGUMENT, "add_channels: %s with %s", HOD_SHAPE_TEXT(x), HOD_SHAPE_TEXT(b));
    hod_shape s = {.n = x->ndim - 1};
    for (int i = 0; i < s.n; i++)
        s.d[i] = i == 0 ? b->shape[0] : 1;
    return hod_add(x, hod_reshape(b, s));
}
