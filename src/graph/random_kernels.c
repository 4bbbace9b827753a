/* Random moves: operators with kernels of their own, whose inputs must fit each other. Most are
 * given a fresh second input of the right shape, which keeps the first as random as it was. */
#include "graph/random_graph.h"

static hod_meta meta_of(const hod_drawing *d, hod_ref r)
{
    return hod__node_meta(d->g, r);
}

static hod_ref make(hod_drawing *d, hod_op op, const hod_attrs *attrs, int n, const hod_ref *in,
                    double bound, bool whole)
{
    return hod__draw_tame(d, hod__draw_op(d, op, attrs, n, in, bound, whole));
}

/* A sum of `count` products of the two: its bound, and whether it is exact. */
static hod_ref contraction(hod_drawing *d, hod_op op, const hod_attrs *attrs, const hod_ref *in,
                           int64_t count)
{
    hod_drawn_value a = d->values[in[0]], b = d->values[in[1]];
    double bound = a.bound * b.bound * (double)HOD_MAX(count, 1);
    bool whole = a.whole && b.whole && bound <= hod__whole_bound(meta_of(d, in[0]).dtype);
    return make(d, op, attrs, 2, in, bound, whole);
}

/* Whether a contraction of 16-bit operands is left in f32. */
static bool draw_wide(hod_drawing *d, hod_dtype dtype)
{
    return hod__is_half(dtype) && hod__draw_one_in(d, 3);
}

static hod_ref draw_matmul(hod_drawing *d, hod_ref x)
{
    hod_meta a = meta_of(d, x), b = {.dtype = a.dtype};
    if (a.ndim < 2 || !hod__is_float(a.dtype))
        return HOD_NO_REF;
    hod_attrs attrs = {.matmul = {.ta = hod__draw_one_in(d, 2), .tb = hod__draw_one_in(d, 2)}};
    int64_t k = a.shape[a.ndim - (attrs.matmul.ta ? 2 : 1)], n = 1 + hod__draw(d, 9);
    if (hod__draw_one_in(d, 3)) { /* batches that are there, repeated, or new */
        b.ndim = a.ndim - 2;
        for (int i = 0; i < b.ndim; i++)
            b.shape[i] = hod__draw_one_in(d, 2) ? 1 : a.shape[i];
    }
    b.shape[b.ndim + (attrs.matmul.tb ? 1 : 0)] = k;
    b.shape[b.ndim + (attrs.matmul.tb ? 0 : 1)] = n;
    b.ndim += 2;
    hod_ref y = hod__draw_fresh(d, &b);
    if (y == HOD_NO_REF)
        return y;
    bool swap = hod__draw_one_in(d, 4);
    hod_attrs swapped = {.matmul = {.ta = !attrs.matmul.tb, .tb = !attrs.matmul.ta}};
    hod_ref in[] = {swap ? y : x, swap ? x : y};
    attrs.matmul.wide = swapped.matmul.wide = draw_wide(d, a.dtype);
    return contraction(d, HOD_OP_matmul, swap ? &swapped : &attrs, in, k);
}

/* Pairs of rows of x and of a fresh matrix, or their gradient for x; where that jumps, x is fresh,
 * too, so that it is the same to the bit however the graph runs. */
static hod_ref draw_pairs(hod_drawing *d, hod_ref x)
{
    hod_meta m = meta_of(d, x);
    if (m.ndim < 2 || !hod__is_float(m.dtype))
        return HOD_NO_REF;
    hod_meta y = m, g = m;
    hod_attrs attrs = {.pairs = {.power = 1 + hod__draw(d, 2)}};
    attrs.pairs.root = attrs.pairs.power == 2 && hod__draw_one_in(d, 2);
    int64_t n = 1 + hod__draw(d, 5), k = m.shape[m.ndim - 1];
    bool back = hod__draw_one_in(d, 2);
    y.shape[m.ndim - 2] = g.shape[m.ndim - 1] = n;
    if (back && attrs.pairs.power == 1 && (x = hod__draw_fresh(d, &m)) == HOD_NO_REF)
        return x;
    hod_ref in[] = {back ? hod__draw_fresh(d, &g) : x, back ? x : hod__draw_fresh(d, &y),
                    back ? hod__draw_fresh(d, &y) : x};
    if (in[0] == HOD_NO_REF || in[1] == HOD_NO_REF || in[2] == HOD_NO_REF)
        return HOD_NO_REF;
    double apart = d->values[x].bound + d->values[in[back + 1]].bound;
    double term = attrs.pairs.power == 2 ? apart * HOD_MAX(apart, 2) : apart + 1;
    double bound = back ? (double)n * term * d->values[in[0]].bound : term * (double)HOD_MAX(k, 1);
    return make(d, back ? HOD_OP_pairs_back : HOD_OP_pairs, &attrs, 2 + back, in, bound, false);
}

/* x itself where it has four dimensions, none of them empty, else an input that does. */
static hod_ref image_like(hod_drawing *d, hod_ref x)
{
    hod_meta m = meta_of(d, x);
    if (m.ndim == 4 && hod__node_numel(d->g, x) > 0 && hod__is_float(m.dtype))
        return x;
    hod_meta fresh = {.dtype = hod__is_float(m.dtype) ? m.dtype : HOD_F32,
                      .ndim = 4,
                      .shape = {1 + hod__draw(d, 3), 1 + hod__draw(d, 4), 3 + hod__draw(d, 6),
                                3 + hod__draw(d, 6)}};
    return hod__draw_fresh(d, &fresh);
}

static void draw_windows(hod_drawing *d, const hod_meta *x, int64_t *kernel, int64_t *stride,
                         int64_t *padding, int64_t *dilation)
{
    for (int i = 0; i < 2; i++) {
        kernel[i] = 1 + hod__draw(d, HOD_MIN(x->shape[2 + i], 3));
        stride[i] = 1 + hod__draw(d, 2);
        dilation[i] = kernel[i] == 2 && x->shape[2 + i] >= 3 ? 1 + hod__draw(d, 2) : 1;
        padding[i] = hod__draw(d, kernel[i]);
        padding[2 + i] = hod__draw(d, kernel[i]);
    }
}

/* The shape that conv2d of x and w has; ndim -1 where there is none. */
static hod_meta conv_result(const hod_attrs *attrs, const hod_meta *x, const hod_meta *w)
{
    hod_meta in[] = {*x, *w}, y;
    return hod__op_shape(HOD_OP_conv2d, attrs, 2, in, &y) ? (hod_meta){.ndim = -1} : y;
}

static hod_ref draw_conv(hod_drawing *d, hod_ref x)
{
    if ((x = image_like(d, x)) == HOD_NO_REF)
        return x;
    hod_meta m = meta_of(d, x), w = {.dtype = m.dtype, .ndim = 4};
    hod_attrs attrs = {.conv = {.groups = m.shape[1] % 2 == 0 ? 1 + hod__draw(d, 2) : 1}};
    hod_attrs_conv *c = &attrs.conv;
    draw_windows(d, &m, w.shape + 2, c->stride, c->padding, c->dilation);
    w.shape[0] = c->groups * (1 + hod__draw(d, 4));
    w.shape[1] = m.shape[1] / c->groups;
    int64_t taps = w.shape[1] * w.shape[2] * w.shape[3];
    hod_meta y = conv_result(&attrs, &m, &w);
    c->wide = draw_wide(d, m.dtype);
    int64_t kind = hod__draw(d, 4);
    if (y.ndim < 0)
        return HOD_NO_REF;
    if (kind == 0) { /* the gradient for the weights: x with a gradient of the result */
        c->shape = hod_shape_of(4, w.shape);
        hod_ref in[] = {x, hod__draw_fresh(d, &y)};
        int64_t places = y.shape[0] * y.shape[2] * y.shape[3];
        return in[1] == HOD_NO_REF ? in[1]
                                   : contraction(d, HOD_OP_conv2d_weight, &attrs, in, places);
    }
    hod_ref in[] = {x, hod__draw_fresh(d, &w)};
    if (in[1] == HOD_NO_REF)
        return in[1];
    if (kind > 1)
        return contraction(d, HOD_OP_conv2d, &attrs, in, taps);
    c->shape = hod_shape_of(4, m.shape); /* the gradient for x */
    in[0] = hod__draw_fresh(d, &y);
    return in[0] == HOD_NO_REF ? in[0]
                               : contraction(d, HOD_OP_conv2d_input, &attrs, in,
                                             w.shape[0] * w.shape[2] * w.shape[3]);
}

static hod_ref draw_pool(hod_drawing *d, hod_ref x)
{
    if ((x = image_like(d, x)) == HOD_NO_REF)
        return x;
    hod_meta m = meta_of(d, x), y;
    hod_drawn_value v = d->values[x];
    hod_attrs attrs = {0};
    hod_attrs_pool *p = &attrs.pool;
    draw_windows(d, &m, p->kernel, p->stride, p->padding, p->dilation);
    for (int i = 0; i < 4; i++) /* no window may lie in the padding alone: it would give -inf */
        p->padding[i] = HOD_MIN(p->padding[i], p->kernel[i % 2] / 2) * (p->dilation[i % 2] == 1);
    p->count_include_pad = hod__draw_one_in(d, 2);
    for (int i = 0, adaptive = hod__draw_one_in(d, 4); adaptive && i < 2; i++)
        p->bins[i] = 1 + hod__draw(d, 4);
    if (hod__op_shape(HOD_OP_avg_pool2d, &attrs, 1, &m, &y))
        return HOD_NO_REF;
    switch (hod__draw(d, 4)) {
    case 0: return make(d, HOD_OP_max_pool2d, &attrs, 1, &x, v.bound, v.whole);
    case 1: return make(d, HOD_OP_avg_pool2d, &attrs, 1, &x, v.bound, false);
    case 2: {
        p->shape = hod_shape_of(4, m.shape);
        hod_ref g = hod__draw_fresh(d, &y);
        return g == HOD_NO_REF ? g : make(d, HOD_OP_avg_pool2d_back, &attrs, 1, &g, 36, false);
    }
    default: { /* which element wins must not hang on rounding, so x is whole */
        if (!v.whole)
            x = hod__draw_input(d, &m, 'n', 0, HOD_INPUT_DATA);
        bool pick = hod__draw_one_in(d, 2);
        hod_ref in[] = {hod__draw_fresh(d, pick ? &m : &y), x};
        return x == HOD_NO_REF || in[0] == HOD_NO_REF
                   ? HOD_NO_REF
                   : make(d, pick ? HOD_OP_max_pool2d_pick : HOD_OP_max_pool2d_back, &attrs, 2, in,
                          36, d->values[in[0]].whole);
    }
    }
}

static hod_ref draw_concat(hod_drawing *d, hod_ref x)
{
    hod_meta m = meta_of(d, x);
    if (m.ndim == 0)
        return HOD_NO_REF;
    hod_attrs attrs = {.dim = {.dim = hod__draw(d, m.ndim)}};
    hod_ref in[4] = {x};
    int n = 1 + (int)hod__draw(d, 3);
    double bound = d->values[x].bound;
    bool whole = d->values[x].whole;
    for (int i = 1; i < n; i++) {
        m.shape[attrs.dim.dim] = 1 + hod__draw(d, 4);
        in[i] = hod__draw_one_in(d, 3) ? x : hod__draw_fresh(d, &m);
        if (in[i] == HOD_NO_REF)
            return HOD_NO_REF;
        bound = HOD_MAX(bound, d->values[in[i]].bound);
        whole = whole && d->values[in[i]].whole;
    }
    return make(d, HOD_OP_concat, &attrs, n, in, bound, whole);
}

static hod_ref draw_unslice(hod_drawing *d, hod_ref x)
{
    hod_meta m = meta_of(d, x);
    if (m.ndim == 0)
        return HOD_NO_REF;
    hod_attrs attrs = {.unslice = {.dim = hod__draw(d, m.ndim),
                                   .start = hod__draw(d, 3),
                                   .step = 1 + hod__draw(d, 2)}};
    hod_attrs_unslice *u = &attrs.unslice;
    u->size = u->start + m.shape[u->dim] * u->step + hod__draw(d, 3);
    return make(d, HOD_OP_unslice, &attrs, 1, &x, d->values[x].bound, d->values[x].whole);
}

hod_ref hod__draw_index(hod_drawing *d, const hod_meta *shape, int64_t below)
{
    hod_meta m = *shape;
    m.dtype = hod__draw_one_in(d, 4) ? HOD_I32 : HOD_I64;
    return hod__draw_input(d, &m, 'j', below, HOD_INPUT_DATA);
}

static hod_ref draw_gather(hod_drawing *d, hod_ref x)
{
    hod_meta m = meta_of(d, x), index = m;
    int dim = m.ndim ? (int)hod__draw(d, m.ndim) : 0;
    if (m.ndim == 0 || m.shape[dim] == 0)
        return HOD_NO_REF;
    index.shape[dim] = 1 + hod__draw(d, 4);
    hod_attrs attrs = {.dim = {.dim = dim}};
    hod_ref in[] = {x, hod__draw_index(d, &index, m.shape[dim])};
    return in[1] == HOD_NO_REF
               ? in[1]
               : make(d, HOD_OP_gather, &attrs, 2, in, d->values[x].bound, d->values[x].whole);
}

/* x added at an index: up to all of a dimension's elements meet in one place. */
static hod_ref draw_scatter(hod_drawing *d, hod_ref x)
{
    hod_meta m = meta_of(d, x), to = m;
    int dim = m.ndim ? (int)hod__draw(d, m.ndim) : 0;
    if (m.ndim == 0 || !hod__is_float(m.dtype))
        return HOD_NO_REF;
    double bound = d->values[x].bound * (double)HOD_MAX(m.shape[dim], 1);
    to.shape[dim] = 1 + hod__draw(d, 5);
    hod_attrs attrs = {.scatter = {.dim = dim, .shape = hod_shape_of(to.ndim, to.shape)}};
    hod_ref in[] = {x, hod__draw_index(d, &m, to.shape[dim])};
    return in[1] == HOD_NO_REF ? in[1]
                               : make(d, HOD_OP_scatter_add, &attrs, 2, in, bound,
                                      d->values[x].whole && bound <= hod__whole_bound(m.dtype));
}

static hod_ref draw_embedding(hod_drawing *d, hod_ref x)
{
    hod_meta m = meta_of(d, x), index = {.ndim = 1, .shape = {1 + hod__draw(d, 6)}};
    if (m.ndim == 0 || m.shape[0] == 0 || !hod__is_float(m.dtype))
        return HOD_NO_REF;
    if (hod__draw_one_in(d, 2)) {
        hod_ref in[] = {x, hod__draw_index(d, &index, m.shape[0])};
        return in[1] == HOD_NO_REF
                   ? in[1]
                   : make(d, HOD_OP_embedding, NULL, 2, in, d->values[x].bound, d->values[x].whole);
    }
    double bound = d->values[x].bound * (double)m.shape[0];
    index.shape[0] = m.shape[0];
    m.shape[0] = 1 + hod__draw(d, 5);
    hod_attrs attrs = {.shape = {.shape = hod_shape_of(m.ndim, m.shape)}};
    hod_ref in[] = {x, hod__draw_index(d, &index, m.shape[0])};
    return in[1] == HOD_NO_REF ? in[1]
                               : make(d, HOD_OP_embedding_back, &attrs, 2, in, bound,
                                      d->values[x].whole && bound <= hod__whole_bound(m.dtype));
}

static hod_ref draw_contiguous(hod_drawing *d, hod_ref x)
{
    return make(d, HOD_OP_contiguous, NULL, 1, &x, d->values[x].bound, d->values[x].whole);
}

hod_ref hod__draw_kernel(hod_drawing *d)
{
    static hod_ref (*const moves[])(hod_drawing *, hod_ref) = {
        draw_matmul,         draw_matmul,         draw_matmul,     draw_conv,
        draw_conv,           draw_pool,           draw_pool,       draw_concat,
        draw_concat,         draw_gather,         draw_scatter,    draw_embedding,
        draw_unslice,        draw_contiguous,     hod__draw_place, hod__draw_place,
        hod__draw_place,     hod__draw_place,     hod__draw_ctc,   hod__draw_attention,
        hod__draw_recurrent, hod__draw_recurrent, draw_pairs,
    };
    return moves[hod__draw(d, HOD_COUNT(moves))](d, hod__draw_node(d));
}
