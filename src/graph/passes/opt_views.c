/* Movements: views that undo each other, chains that are one view, and expands that wait.
 *
 *     permute(permute x)   -> one permute, or x            reshape(reshape x) -> reshape x
 *     slice(slice x)       -> one slice                    slice(concat ...)  -> slice of one part
 *     slice(unslice x)     -> x, where they match          expand(expand x)   -> expand x
 *     add(expand a, b)     -> add(a, b), expanded if need be
 *     matmul(transpose a, b) -> matmul(a, b) {ta}
 *
 * Broadcasting is free inside a pointwise kernel, so an expand before one only makes the kernel's
 * result, or its work, larger than it must be. Moving a reshape the same way was left out: it
 * changes which shapes meet, and with that which operators fuse.
 */
#include "graph/passes.h"
#include "graph/rewrite.h"
#include "ops/rules.h"

static hod_ref input0(const hod_graph *g, hod_ref r)
{
    return hod__node_in(g, r)[0];
}

static const hod_attrs *attrs_of(const hod_graph *g, hod_ref r)
{
    return &g->nodes[r].attrs;
}

static bool same_shape(const hod_graph *g, hod_ref a, hod_ref b)
{
    return g->nodes[a].ndim == g->nodes[b].ndim &&
           memcmp(g->nodes[a].shape, g->nodes[b].shape, sizeof g->nodes[a].shape) == 0;
}

/* ---- permute --------------------------------------------------------------------------------- */

static bool is_identity(const hod_shape *order)
{
    for (int i = 0; i < order->n; i++)
        if (order->d[i] != i)
            return false;
    return true;
}

static hod_ref visit_permute(hod_rewrite *w, hod_ref r)
{
    const hod_graph *g = w->g;
    hod_ref x = input0(g, r);
    const hod_shape *outer = &attrs_of(g, r)->permute.order;
    if (is_identity(outer))
        return x;
    if (!hod__node_is(g, x, HOD_OP_permute))
        return r;
    const hod_shape *inner = &attrs_of(g, x)->permute.order;
    hod_attrs attrs = {.permute = {.order = {.n = outer->n}}};
    for (int i = 0; i < outer->n; i++)
        attrs.permute.order.d[i] = inner->d[outer->d[i]];
    hod_ref source = input0(g, x);
    return hod__rewrite_op(w, HOD_OP_permute, &attrs, 1, &source);
}

/* ---- reshape, expand ------------------------------------------------------------------------- */

static hod_ref visit_same(hod_rewrite *w, hod_ref r, hod_op op)
{
    hod_ref x = input0(w->g, r);
    if (same_shape(w->g, r, x))
        return x;
    if (!hod__node_is(w->g, x, op))
        return r;
    hod_attrs attrs = *attrs_of(w->g, r);
    hod_ref source = input0(w->g, x);
    return hod__rewrite_op(w, op, &attrs, 1, &source);
}

/* ---- slice ----------------------------------------------------------------------------------- */

/* The slice of x along dim that reads start, start + step, ... n times. */
static hod_ref slice_of(hod_rewrite *w, hod_ref x, int64_t dim, int64_t start, int64_t step,
                        int64_t n)
{
    int64_t stop = n > 0 ? start + (n - 1) * step + 1 : start;
    hod_attrs attrs = {.slice = {.dim = dim, .start = start, .stop = stop, .step = step}};
    return hod__rewrite_op(w, HOD_OP_slice, &attrs, 1, &x);
}

static hod_ref slice_of_concat(hod_rewrite *w, hod_ref r, hod_ref x)
{
    const hod_graph *g = w->g;
    hod_attrs_slice s = attrs_of(g, r)->slice;
    int64_t n = g->nodes[r].shape[s.dim], before = 0;
    if (attrs_of(g, x)->dim.dim != s.dim || n == 0)
        return r;
    int64_t last = s.start + (n - 1) * s.step;
    for (int i = 0; i < g->nodes[x].n_in; i++) {
        hod_ref part = hod__node_in(g, x)[i];
        int64_t size = g->nodes[part].shape[s.dim];
        if (s.start >= before && last < before + size)
            return slice_of(w, part, s.dim, s.start - before, s.step, n);
        before += size;
    }
    return r;
}

/* A slice along a dimension that was repeated: repeat it less. */
static hod_ref slice_of_expand(hod_rewrite *w, hod_ref r, hod_ref x)
{
    const hod_graph *g = w->g;
    int64_t dim = attrs_of(g, r)->slice.dim;
    hod_ref source = input0(g, x);
    int64_t inner = dim - (g->nodes[x].ndim - g->nodes[source].ndim);
    if (inner >= 0 && g->nodes[source].shape[inner] != 1)
        return r;
    hod_attrs attrs = {.shape = {.shape = hod_shape_of(g->nodes[r].ndim, g->nodes[r].shape)}};
    return hod__rewrite_op(w, HOD_OP_expand, &attrs, 1, &source);
}

static hod_ref visit_slice(hod_rewrite *w, hod_ref r)
{
    const hod_graph *g = w->g;
    hod_ref x = input0(g, r);
    hod_attrs_slice s = attrs_of(g, r)->slice;
    int64_t n = g->nodes[r].shape[s.dim];
    if (same_shape(g, r, x))
        return x; /* every element, so all in order */
    if (hod__node_is(g, x, HOD_OP_concat))
        return slice_of_concat(w, r, x);
    if (hod__node_is(g, x, HOD_OP_expand))
        return slice_of_expand(w, r, x);
    if (hod__node_is(g, x, HOD_OP_slice) && attrs_of(g, x)->slice.dim == s.dim && n > 0) {
        hod_attrs_slice t = attrs_of(g, x)->slice;
        return slice_of(w, input0(g, x), s.dim, t.start + s.start * t.step, s.step * t.step, n);
    }
    if (hod__node_is(g, x, HOD_OP_unslice)) {
        hod_attrs_unslice u = attrs_of(g, x)->unslice;
        if (u.dim == s.dim && u.start == s.start && u.step == s.step &&
            same_shape(g, r, input0(g, x)))
            return input0(g, x);
    }
    return r;
}

/* ---- kernels that move ----------------------------------------------------------------------- */

/* Copies of what is row-major already. */
static hod_ref visit_contiguous(hod_rewrite *w, hod_ref r)
{
    hod_ref x = input0(w->g, r);
    for (int i = 0; i < w->g->nodes[r].ndim; i++)
        if (w->g->nodes[r].shape[i] != 1 && w->strides[x].of[i] != w->strides[r].of[i])
            return r;
    return x;
}

/* x, where the node transposes the last two dimensions of x and nothing else; or HOD_NO_REF. */
static hod_ref transposed(const hod_graph *g, hod_ref r)
{
    if (!hod__node_is(g, r, HOD_OP_permute))
        return HOD_NO_REF;
    hod_shape order = attrs_of(g, r)->permute.order;
    if (order.n < 2)
        return HOD_NO_REF;
    int64_t last = order.d[order.n - 1];
    order.d[order.n - 1] = order.d[order.n - 2];
    order.d[order.n - 2] = last;
    return is_identity(&order) ? input0(g, r) : HOD_NO_REF;
}

static hod_ref visit_matmul(hod_rewrite *w, hod_ref r)
{
    hod_attrs attrs = *attrs_of(w->g, r);
    hod_ref in[2] = {input0(w->g, r), hod__node_in(w->g, r)[1]};
    hod_ref a = transposed(w->g, in[0]), b = transposed(w->g, in[1]);
    if (a == HOD_NO_REF && b == HOD_NO_REF)
        return r;
    if (a != HOD_NO_REF) {
        attrs.matmul.ta = !attrs.matmul.ta;
        in[0] = a;
    }
    if (b != HOD_NO_REF) {
        attrs.matmul.tb = !attrs.matmul.tb;
        in[1] = b;
    }
    return hod__rewrite_op(w, HOD_OP_matmul, &attrs, 2, in);
}

/* ---- expand before a pointwise operator ------------------------------------------------------ */

static hod_ref visit_pointwise(hod_rewrite *w, hod_ref r)
{
    hod_node node = w->g->nodes[r];
    hod_ref in[4];
    bool found = false;
    for (int i = 0; i < node.n_in; i++) {
        in[i] = hod__node_in(w->g, r)[i];
        if (hod__node_is(w->g, in[i], HOD_OP_expand)) {
            in[i] = input0(w->g, in[i]);
            found = true;
        }
    }
    if (!found)
        return r;
    return hod__rewrite_fit(w, hod__rewrite_op(w, (hod_op)node.op, &node.attrs, node.n_in, in), r);
}

static hod_ref visit_concat(hod_rewrite *w, hod_ref r)
{
    return w->g->nodes[r].n_in == 1 ? input0(w->g, r) : r;
}

static hod_ref visit_unslice(hod_rewrite *w, hod_ref r)
{
    return same_shape(w->g, r, input0(w->g, r)) ? input0(w->g, r) : r;
}

static hod_ref visit_reshape(hod_rewrite *w, hod_ref r)
{
    return visit_same(w, r, HOD_OP_reshape);
}

static hod_ref visit_expand(hod_rewrite *w, hod_ref r)
{
    return visit_same(w, r, HOD_OP_expand);
}

static hod_ref visit_any(hod_rewrite *w, hod_ref r)
{
    static hod_visit *const visits[HOD_OPS] = {
        [HOD_OP_permute] = visit_permute,       [HOD_OP_reshape] = visit_reshape,
        [HOD_OP_expand] = visit_expand,         [HOD_OP_slice] = visit_slice,
        [HOD_OP_contiguous] = visit_contiguous, [HOD_OP_matmul] = visit_matmul,
        [HOD_OP_concat] = visit_concat,         [HOD_OP_unslice] = visit_unslice,
    };
    if (hod__node_info(w->g, r)->class == HOD_POINTWISE)
        return visit_pointwise(w, r);
    hod_visit *visit = visits[w->g->nodes[r].op];
    return visit ? visit(w, r) : r;
}

bool hod__opt_views(hod_graph *g)
{
    return hod__rewrite(g, visit_any, NULL);
}
