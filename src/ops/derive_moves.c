/* Derivatives of views, movement and contractions: each the transpose of a linear map, written with
 * the operator that is that transpose. */
#include "ops/rules.h"
#include <hod/movement.h>

static hod_shape shape_of(const hod_meta *m)
{
    return hod_shape_of(m->ndim, m->shape);
}

hod_tensor *hod__vjp_cast(const hod_vjp *v, int i)
{
    hod_dtype from = v->meta[i].dtype;
    return hod__is_float(from) ? hod__cast_to(v->g, from) : HOD_NO_GRADIENT;
}

hod_tensor *hod__vjp_reshape(const hod_vjp *v, int i)
{
    return hod_reshape(v->g, shape_of(&v->meta[i]));
}

hod_tensor *hod__vjp_permute(const hod_vjp *v, int i)
{
    (void)i;
    const hod_shape *order = &v->attrs->permute.order;
    hod_shape back = {.n = order->n};
    for (int k = 0; k < order->n; k++)
        back.d[order->d[k]] = k;
    return hod_permute_to(v->g, back);
}

hod_tensor *hod__vjp_expand(const hod_vjp *v, int i)
{
    return hod__unbroadcast(v->g, &v->meta[i]);
}

hod_tensor *hod__vjp_slice(const hod_vjp *v, int i)
{
    const hod_attrs_slice *s = &v->attrs->slice;
    hod_attrs a = {.unslice = {s->dim, s->start, s->step, v->meta[i].shape[s->dim]}};
    return hod__op(HOD_OP_unslice, &a, 1, (hod_tensor *[]){v->g});
}

hod_tensor *hod__vjp_unslice(const hod_vjp *v, int i)
{
    const hod_attrs_unslice *s = &v->attrs->unslice;
    int64_t n = v->meta[i].shape[s->dim];
    int64_t stop = n > 0 ? s->start + (n - 1) * s->step + 1 : s->start;
    return hod_slice_step(v->g, (int)s->dim, s->start, stop, s->step);
}

hod_tensor *hod__vjp_contiguous(const hod_vjp *v, int i)
{
    (void)i;
    return v->g;
}

hod_tensor *hod__vjp_concat(const hod_vjp *v, int i)
{
    int dim = (int)v->attrs->dim.dim;
    int64_t start = 0;
    for (int k = 0; k < i; k++)
        start += v->meta[k].shape[dim];
    return hod_slice(v->g, dim, start, start + v->meta[i].shape[dim]);
}

hod_tensor *hod__vjp_assign(const hod_vjp *v, int i)
{
    return i == 1 ? v->g : HOD_NO_GRADIENT; /* what was there before is overwritten */
}

hod_tensor *hod__vjp_flip(const hod_vjp *v, int i)
{
    (void)i;
    return hod__op(HOD_OP_flip, v->attrs, 1, (hod_tensor *[]){v->g});
}

hod_tensor *hod__vjp_roll(const hod_vjp *v, int i)
{
    (void)i;
    return hod_roll(v->g, -v->attrs->roll.shift, (int)v->attrs->roll.dim);
}

hod_tensor *hod__vjp_triangle(const hod_vjp *v, int i)
{
    (void)i;
    return hod__op(HOD_OP_triangle, v->attrs, 1, (hod_tensor *[]){v->g});
}

/* What was added around x is cut off, or flows to the elements that it came from. */
hod_tensor *hod__vjp_pad(const hod_vjp *v, int i)
{
    const hod_attrs_pad *p = &v->attrs->pad;
    hod_tensor *g = v->g;
    for (int d = 0; d < v->meta[i].ndim && p->mode == HOD_PAD_CONSTANT; d++)
        g = hod_slice(g, d, p->before.d[d], p->before.d[d] + v->meta[i].shape[d]);
    if (p->mode == HOD_PAD_CONSTANT)
        return g;
    hod_attrs a = *v->attrs;
    a.pad.shape = shape_of(&v->meta[i]);
    return hod__op(HOD_OP_pad_back, &a, 1, &g);
}

hod_tensor *hod__vjp_pad_back(const hod_vjp *v, int i)
{
    hod_attrs a = *v->attrs;
    a.pad.shape = shape_of(&v->meta[i]);
    a.pad.value = 0;
    return hod__op(HOD_OP_pad, &a, 1, (hod_tensor *[]){v->g});
}

hod_tensor *hod__vjp_unfold2d(const hod_vjp *v, int i)
{
    (void)i;
    return hod__op(HOD_OP_fold2d, v->attrs, 1, (hod_tensor *[]){v->g});
}

hod_tensor *hod__vjp_fold2d(const hod_vjp *v, int i)
{
    (void)i;
    return hod__op(HOD_OP_unfold2d, v->attrs, 1, (hod_tensor *[]){v->g});
}

hod_tensor *hod__vjp_windows(const hod_vjp *v, int i)
{
    (void)i;
    return hod__op(HOD_OP_windows_back, v->attrs, 1, (hod_tensor *[]){v->g});
}

hod_tensor *hod__vjp_windows_back(const hod_vjp *v, int i)
{
    (void)i;
    return hod__op(HOD_OP_windows, v->attrs, 1, (hod_tensor *[]){v->g});
}

/* ---- indexing ---- */

/* Which elements of b stayed: each writes its number, and those who find it again are them. */
static hod_tensor *stays(const hod_vjp *v)
{
    hod_tensor *index = v->x[1];
    hod_shape s = hod_tensor_shape(index);
    hod_tensor *number = hod_reshape(hod_arange(HOD_I64, hod_tensor_numel(index)), s);
    hod_tensor *none = hod_full(HOD_I64, shape_of(&v->meta[0]), 0);
    hod_tensor *in[] = {none, index, number};
    int dim = (int)v->attrs->place.dim;
    return hod_eq(hod_gather(hod__op(HOD_OP_scatter, v->attrs, 3, in), dim, index), number);
}

hod_tensor *hod__vjp_scatter(const hod_vjp *v, int i)
{
    const hod_attrs_place *p = &v->attrs->place;
    if (i == 1)
        return HOD_NO_GRADIENT;
    if (i == 0 && p->add)
        return v->g;
    if (i == 0) {
        hod_tensor *zero = hod_expand(hod__number(v->g, 0), shape_of(&v->meta[2]));
        return hod__op(HOD_OP_scatter, v->attrs, 3, (hod_tensor *[]){v->g, v->x[1], zero});
    }
    hod_tensor *g = hod_gather(v->g, (int)p->dim, v->x[1]);
    return p->add ? g : hod_where(stays(v), g, hod__number(v->g, 0));
}

hod_tensor *hod__vjp_gather(const hod_vjp *v, int i)
{
    if (i == 1)
        return HOD_NO_GRADIENT;
    hod_attrs a = {.scatter = {v->attrs->dim.dim, shape_of(&v->meta[0])}};
    return hod__op(HOD_OP_scatter_add, &a, 2, (hod_tensor *[]){v->g, v->x[1]});
}

hod_tensor *hod__vjp_scatter_add(const hod_vjp *v, int i)
{
    return i == 1 ? HOD_NO_GRADIENT : hod_gather(v->g, (int)v->attrs->scatter.dim, v->x[1]);
}

hod_tensor *hod__vjp_embedding(const hod_vjp *v, int i)
{
    if (i == 1)
        return HOD_NO_GRADIENT;
    hod_attrs a = {.shape = {shape_of(&v->meta[0])}};
    return hod__op(HOD_OP_embedding_back, &a, 2, (hod_tensor *[]){v->g, v->x[1]});
}

hod_tensor *hod__vjp_embedding_back(const hod_vjp *v, int i)
{
    return i == 1 ? HOD_NO_GRADIENT : hod_embedding(v->g, v->x[1]);
}

/* ---- contractions ---- */

static hod_tensor *matmul(hod_tensor *a, bool ta, hod_tensor *b, bool tb)
{
    hod_attrs attrs = {.matmul = {.ta = ta, .tb = tb}};
    return hod__op(HOD_OP_matmul, &attrs, 2, (hod_tensor *[]){a, b});
}

/* The gradient in the operands' type, which a wide result does not have. */
static hod_tensor *narrowed(const hod_vjp *v)
{
    return hod__cast_to(v->g, (hod_dtype)v->meta[0].dtype);
}

/* y = op(a) op(b): d op(a) = g op(b)ᵀ, d op(b) = op(a)ᵀ g, transposed back where op transposes. */
hod_tensor *hod__vjp_matmul(const hod_vjp *v, int i)
{
    bool ta = v->attrs->matmul.ta, tb = v->attrs->matmul.tb;
    hod_tensor *g = narrowed(v);
    if (i == 0)
        return ta ? matmul(v->x[1], tb, g, true) : matmul(g, false, v->x[1], !tb);
    return tb ? matmul(g, true, v->x[0], ta) : matmul(v->x[0], !ta, g, false);
}

static hod_tensor *conv(hod_op op, const hod_vjp *v, hod_tensor *a, hod_tensor *b, hod_shape shape)
{
    hod_attrs attrs = *v->attrs;
    attrs.conv.shape = shape;
    attrs.conv.wide = false;
    return hod__op(op, &attrs, 2, (hod_tensor *[]){a, b});
}

/* The three form a triangle: each is linear in both inputs, and its transposes are the others. */
hod_tensor *hod__vjp_conv2d(const hod_vjp *v, int i)
{
    return i == 0 ? conv(HOD_OP_conv2d_input, v, narrowed(v), v->x[1], shape_of(&v->meta[0]))
                  : conv(HOD_OP_conv2d_weight, v, v->x[0], narrowed(v), shape_of(&v->meta[1]));
}

hod_tensor *hod__vjp_conv2d_input(const hod_vjp *v, int i)
{
    return i == 0 ? conv(HOD_OP_conv2d, v, narrowed(v), v->x[1], (hod_shape){0})
                  : conv(HOD_OP_conv2d_weight, v, narrowed(v), v->x[0], shape_of(&v->meta[1]));
}

hod_tensor *hod__vjp_conv2d_weight(const hod_vjp *v, int i)
{
    return i == 0 ? conv(HOD_OP_conv2d_input, v, v->x[1], narrowed(v), shape_of(&v->meta[0]))
                  : conv(HOD_OP_conv2d, v, v->x[0], narrowed(v), (hod_shape){0});
}

/* ---- pooling ---- */

static hod_tensor *pool(hod_op op, const hod_vjp *v, int n, hod_tensor *a, hod_tensor *x,
                        hod_shape shape)
{
    hod_attrs attrs = *v->attrs;
    attrs.pool.shape = shape;
    return hod__op(op, &attrs, n, (hod_tensor *[]){a, x});
}

hod_tensor *hod__vjp_max_pool2d(const hod_vjp *v, int i)
{
    (void)i;
    return pool(HOD_OP_max_pool2d_back, v, 2, v->g, v->x[0], (hod_shape){0});
}

/* Where the greatest lies does not change with a small step of x: no gradient for it. */
hod_tensor *hod__vjp_max_pool2d_back(const hod_vjp *v, int i)
{
    return i == 1 ? HOD_NO_GRADIENT
                  : pool(HOD_OP_max_pool2d_pick, v, 2, v->g, v->x[1], (hod_shape){0});
}

hod_tensor *hod__vjp_max_pool2d_pick(const hod_vjp *v, int i)
{
    return i == 1 ? HOD_NO_GRADIENT
                  : pool(HOD_OP_max_pool2d_back, v, 2, v->g, v->x[1], (hod_shape){0});
}

hod_tensor *hod__vjp_avg_pool2d(const hod_vjp *v, int i)
{
    return pool(HOD_OP_avg_pool2d_back, v, 1, v->g, NULL, shape_of(&v->meta[i]));
}

hod_tensor *hod__vjp_avg_pool2d_back(const hod_vjp *v, int i)
{
    (void)i;
    return pool(HOD_OP_avg_pool2d, v, 1, v->g, NULL, (hod_shape){0});
}
