/* Random moves: operators that put elements in other places, with kernels of their own. */
#include "graph/random_graph.h"
#include <hod/images.h>

static hod_meta meta_of(const hod_drawing *d, hod_ref r)
{
    return hod__node_meta(d->g, r);
}

/* An operator of x alone whose elements are x's, zeros, or sums of up to `count` of them. */
static hod_ref make(hod_drawing *d, hod_op op, const hod_attrs *attrs, hod_ref x, int64_t count)
{
    double bound = d->values[x].bound * (double)count;
    bool whole = d->values[x].whole && bound <= hod__whole_bound(meta_of(d, x).dtype);
    return hod__draw_tame(d, hod__draw_op(d, op, attrs, 1, &x, bound, whole));
}

static hod_ref draw_flip(hod_drawing *d, hod_ref x)
{
    hod_attrs attrs = {.flip = {.dims = (uint32_t)hod__draw(d, 1 << meta_of(d, x).ndim)}};
    return make(d, HOD_OP_flip, &attrs, x, 1);
}

static hod_ref draw_triangle(hod_drawing *d, hod_ref x)
{
    hod_attrs attrs = {.triangle = {hod__draw(d, 7) - 3, hod__draw_one_in(d, 2)}};
    return meta_of(d, x).ndim >= 2 ? make(d, HOD_OP_triangle, &attrs, x, 1) : HOD_NO_REF;
}

/* Mode 0: a constant; 1: reflected, which wants at least two elements; 2: repeated. */
static hod_ref draw_pad(hod_drawing *d, hod_ref x)
{
    hod_meta m = meta_of(d, x);
    if (m.ndim == 0 || m.ndim > 4 || hod__node_numel(d->g, x) == 0)
        return HOD_NO_REF;
    hod_attrs attrs = {.pad = {.before = {.n = m.ndim},
                               .shape = hod_shape_of(m.ndim, m.shape),
                               .mode = hod__draw(d, 3)}};
    for (int i = 0; i < m.ndim; i++) {
        int64_t most = attrs.pad.mode == 1 ? HOD_MIN(m.shape[i], 3) : 3;
        attrs.pad.before.d[i] = hod__draw(d, most);
        attrs.pad.shape.d[i] += attrs.pad.before.d[i] + hod__draw(d, most);
    }
    hod_ref y = make(d, HOD_OP_pad, &attrs, x, 1);
    if (y == HOD_NO_REF || !hod__is_float(m.dtype) || hod__draw_one_in(d, 2))
        return y;
    int64_t meet = 1;
    for (int i = 0; i < m.ndim; i++)
        meet *= attrs.pad.shape.d[i] - m.shape[i] + 1;
    attrs.pad.shape = hod_shape_of(m.ndim, m.shape);
    return make(d, HOD_OP_pad_back, &attrs, y, meet);
}

/* x (.., at least 2 dimensions) as an image, its columns, and perhaps the image again. */
static hod_ref draw_unfold(hod_drawing *d, hod_ref x)
{
    hod_meta m = meta_of(d, x);
    if (m.ndim != 4 || hod__node_numel(d->g, x) == 0)
        return HOD_NO_REF;
    hod_attrs attrs = {.unfold = {.image = {m.shape[2], m.shape[3]}}};
    hod_attrs_unfold *a = &attrs.unfold;
    for (int i = 0; i < 2; i++) {
        a->padding[i] = hod__draw(d, 2);
        a->padding[2 + i] = hod__draw(d, 2);
        a->kernel[i] = 1 + hod__draw(d, HOD_MIN(3, a->image[i]));
        a->stride[i] = 1 + hod__draw(d, 2);
        a->dilation[i] = 1;
    }
    int64_t k = a->kernel[0] * a->kernel[1];
    hod_ref y = make(d, HOD_OP_unfold2d, &attrs, x, 1);
    if (y == HOD_NO_REF || !hod__is_float(m.dtype) || hod__draw_one_in(d, 3))
        return y;
    return make(d, HOD_OP_fold2d, &attrs, y, k);
}

/* The last two dimensions as windows of a line, added back into it. */
static hod_ref draw_windows_back(hod_drawing *d, hod_ref x)
{
    hod_meta m = meta_of(d, x);
    if (m.ndim < 2 || hod__node_numel(d->g, x) == 0 || !hod__is_float(m.dtype))
        return HOD_NO_REF;
    int64_t dim = m.ndim - 2, n = m.shape[dim], size = m.shape[dim + 1], step = 1 + hod__draw(d, 3);
    int64_t line = (n - 1) * step + size + hod__draw(d, step);
    hod_attrs attrs = {.windows = {dim, size, step, line}};
    return make(d, HOD_OP_windows_back, &attrs, x, (size - 1) / step + 1);
}

/* A line or an image in another size, and perhaps what its transpose makes of that. */
static hod_ref draw_resize(hod_drawing *d, hod_ref x)
{
    hod_meta m = meta_of(d, x);
    if (m.ndim < 3 || m.ndim > 4 || hod__node_numel(d->g, x) == 0 || !hod__is_float(m.dtype))
        return HOD_NO_REF;
    hod_attrs attrs = {.resize = {.size = {1 + hod__draw(d, 9), 1 + hod__draw(d, 9)},
                                  .mode = hod__draw(d, 3),
                                  .scale_x = hod__draw_one_in(d, 3) ? 1.5 : 0}};
    attrs.resize.corners = attrs.resize.mode == HOD_LINEAR && hod__draw_one_in(d, 2);
    double bound = d->values[x].bound;
    bool whole = d->values[x].whole && attrs.resize.mode != HOD_LINEAR;
    hod_ref y = hod__draw_op(d, HOD_OP_resize2d, &attrs, 1, &x, bound, whole);
    if (y == HOD_NO_REF || hod__draw_one_in(d, 3))
        return y;
    attrs.resize.shape = hod_shape_of(m.ndim, m.shape);
    return hod__draw_tame(d, hod__draw_op(d, HOD_OP_resize2d_back, &attrs, 1, &y, 81 * bound,
                                          whole && 81 * bound <= hod__whole_bound(m.dtype)));
}

/* Sampling, its transpose or its slope, of fresh inputs.
 * A grid beyond the image reads zeros there. */
static hod_ref draw_sample(hod_drawing *d, hod_ref x)
{
    hod_dtype t = hod__draw_one_in(d, 2) ? HOD_F32 : HOD_F64;
    int64_t n = 1 + hod__draw(d, 2), c = 1 + hod__draw(d, 3);
    int64_t rows = 1 + hod__draw(d, 3), columns = 1 + hod__draw(d, 3);
    hod_meta image = {.dtype = t, .ndim = 4, .shape = {n, c, 1 + hod__draw(d, 4), 4}};
    hod_meta grid = {.dtype = t, .ndim = 4, .shape = {n, rows, columns, 2}}, y = image;
    y.shape[2] = rows;
    y.shape[3] = columns;
    hod_attrs attrs = {.sample = {.mode = HOD_SAMPLE_LINEAR, .padding = hod__draw(d, 3)}};
    attrs.sample.corners = hod__draw_one_in(d, 2);
    hod_op op = (hod_op[]){HOD_OP_grid_sample, HOD_OP_grid_sample_back,
                           HOD_OP_grid_sample_slope}[hod__draw(d, 3)];
    (void)x;
    hod_ref in[3];
    int k = 0;
    if (op != HOD_OP_grid_sample)
        in[k++] = hod__draw_fresh(d, &y);
    if (op != HOD_OP_grid_sample_back)
        in[k++] = hod__draw_fresh(d, &image);
    else
        attrs.sample.shape = hod_shape_of(4, image.shape);
    in[k++] = hod__draw_fresh(d, &grid);
    double bound = 1;
    for (int i = 0; i < k; i++) {
        if (in[i] == HOD_NO_REF)
            return HOD_NO_REF;
        bound *= HOD_MAX(d->values[in[i]].bound, 1);
    }
    return hod__draw_tame(d, hod__draw_op(d, op, &attrs, k, in, 36 * bound, false));
}

/* Bins of boxes, or their transpose, of fresh inputs. */
static hod_ref draw_roi(hod_drawing *d, hod_ref x)
{
    hod_dtype t = hod__draw_one_in(d, 2) ? HOD_F32 : HOD_F64;
    int64_t n = 1 + hod__draw(d, 2), c = 1 + hod__draw(d, 3), k = 1 + hod__draw(d, 3);
    hod_meta image = {.dtype = t, .ndim = 4, .shape = {n, c, 1 + hod__draw(d, 4), 4}};
    hod_meta boxes = {.dtype = t, .ndim = 2, .shape = {k, 5}};
    hod_meta y = {.dtype = t, .ndim = 4, .shape = {k, c, 1 + hod__draw(d, 2), 1 + hod__draw(d, 3)}};
    bool back = hod__draw_one_in(d, 2);
    hod_attrs attrs = {.roi = {.size = {y.shape[2], y.shape[3]}, .scale = 2.5}};
    attrs.roi.sampling = hod__draw(d, 3);
    attrs.roi.aligned = hod__draw_one_in(d, 2);
    if (back)
        attrs.roi.shape = hod_shape_of(4, image.shape);
    (void)x;
    hod_ref in[] = {hod__draw_fresh(d, back ? &y : &image),
                    hod__draw_input(d, &boxes, 'j', n, HOD_INPUT_DATA)};
    if (in[0] == HOD_NO_REF || in[1] == HOD_NO_REF)
        return HOD_NO_REF;
    hod_op op = back ? HOD_OP_roi_align_back : HOD_OP_roi_align;
    double bound = HOD_MAX(d->values[in[0]].bound, 1);
    return hod__draw_tame(d, hod__draw_op(d, op, &attrs, 2, in, (back ? 18 : 1) * bound, false));
}

/* A part of x written, or added, at an index that may come several times. */
static hod_ref draw_put(hod_drawing *d, hod_ref x)
{
    hod_meta m = meta_of(d, x), part = m;
    int dim = m.ndim ? (int)hod__draw(d, m.ndim) : 0;
    if (m.ndim == 0 || m.shape[dim] == 0)
        return HOD_NO_REF;
    part.shape[dim] = 1 + hod__draw(d, 4);
    bool add = hod__is_float(m.dtype) && hod__draw_one_in(d, 2);
    hod_attrs attrs = {.place = {.dim = dim, .add = add}};
    hod_ref in[] = {x, hod__draw_index(d, &part, m.shape[dim]), hod__draw_fresh(d, &part)};
    if (in[1] == HOD_NO_REF || in[2] == HOD_NO_REF)
        return HOD_NO_REF;
    hod_drawn_value a = d->values[x], b = d->values[in[2]];
    double bound = add ? a.bound + 4 * b.bound : HOD_MAX(a.bound, b.bound);
    bool whole = a.whole && b.whole && bound <= hod__whole_bound(m.dtype);
    return hod__draw_tame(d, hod__draw_op(d, HOD_OP_scatter, &attrs, 3, in, bound, whole));
}

/* ---- what is found: whole values only, as a comparison of rounded ones is luck ---- */

static hod_ref draw_order(hod_drawing *d, hod_ref x)
{
    hod_meta m = meta_of(d, x);
    int dim = m.ndim ? (int)hod__draw(d, m.ndim) : 0;
    if (m.ndim == 0 || !d->values[x].whole)
        return HOD_NO_REF;
    int64_t k = hod__draw_one_in(d, 2) ? m.shape[dim] : hod__draw(d, m.shape[dim] + 1);
    hod_attrs attrs = {.order = {dim, k, hod__draw_one_in(d, 2)}};
    return hod__draw_op(d, HOD_OP_order, &attrs, 1, &x, (double)HOD_MAX(m.shape[dim], 1), true);
}

/* A row of whole numbers is searched, sorted or not: the same places are found. */
static hod_ref draw_search(hod_drawing *d, hod_ref x)
{
    hod_meta row = {.dtype = meta_of(d, x).dtype, .ndim = 1, .shape = {1 + hod__draw(d, 9)}};
    hod_attrs attrs = {.search = {hod__draw_one_in(d, 2)}};
    if (!d->values[x].whole)
        return HOD_NO_REF;
    hod_ref in[] = {hod__draw_input(d, &row, 'n', 0, HOD_INPUT_DATA), x};
    return in[0] == HOD_NO_REF ? in[0]
                               : hod__draw_op(d, HOD_OP_searchsorted, &attrs, 2, in, 10, true);
}

static hod_ref draw_nonzero(hod_drawing *d, hod_ref x)
{
    int64_t n = hod__node_numel(d->g, x);
    hod_attrs attrs = {.count = {hod__draw(d, HOD_MIN(n, 20) + 1)}};
    if (meta_of(d, x).ndim == 0 || !d->values[x].whole)
        return HOD_NO_REF;
    return hod__draw_op(d, HOD_OP_nonzero, &attrs, 1, &x, (double)HOD_MAX(n, 1), true);
}

static hod_ref draw_nms(hod_drawing *d, hod_ref x)
{
    hod_meta boxes = {.dtype = hod__draw_one_in(d, 2) ? HOD_F32 : HOD_F64,
                      .ndim = 2,
                      .shape = {hod__draw(d, 12), 4}};
    (void)x;
    hod_attrs attrs = {.nms = {.threshold = 0.3}};
    hod_ref in = hod__draw_input(d, &boxes, 'n', 0, HOD_INPUT_DATA);
    return in == HOD_NO_REF ? in : hod__draw_op(d, HOD_OP_nms, &attrs, 1, &in, 1, true);
}

hod_ref hod__draw_place(hod_drawing *d, hod_ref x)
{
    static hod_ref (*const moves[])(hod_drawing *, hod_ref) = {
        draw_flip,         draw_triangle,     draw_pad,     draw_pad,    draw_unfold, draw_unfold,
        draw_unfold,       draw_put,          draw_put,     draw_order,  draw_search, draw_nonzero,
        draw_nms,          draw_resize,       draw_nonzero, draw_resize, draw_sample, draw_sample,
        draw_windows_back, draw_windows_back, draw_roi};
    return moves[hod__draw(d, HOD_COUNT(moves))](d, x);
}
