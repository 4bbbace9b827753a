/* Random moves: pointwise operators, reductions, views, sources and effects. */
#include "graph/node_strides.h"
#include "graph/random_graph.h"

#include <math.h>

static hod_dtype dtype_of(const hod_drawing *d, hod_ref r)
{
    return (hod_dtype)d->g->nodes[r].dtype;
}

static int64_t numel_of(const hod_drawing *d, hod_ref r)
{
    return hod__node_numel(d->g, r);
}

/* ---- pointwise ------------------------------------------------------------------------------- */

/* abs(x) + c: at least c. */
static hod_ref above(hod_drawing *d, hod_ref x, double c)
{
    hod_ref in[] = {hod__draw_unary(d, HOD_OP_abs, x, d->values[x].bound, d->values[x].whole),
                    hod__draw_full(d, dtype_of(d, x), c)};
    return hod__draw_op(d, HOD_OP_add, NULL, 2, in, d->values[x].bound + c, false);
}

static hod_ref draw_smooth(hod_drawing *d, hod_ref x)
{
    static const struct {
        hod_op op;
        double bound; /* 0: that of x */
    } ops[] = {{HOD_OP_tanh, 1}, {HOD_OP_sigmoid, 1},   {HOD_OP_erf, 1},
               {HOD_OP_sin, 1},  {HOD_OP_cos, 1},       {HOD_OP_gelu, 0},
               {HOD_OP_silu, 0}, {HOD_OP_relu, 0},      {HOD_OP_abs, 0},
               {HOD_OP_neg, 0},  {HOD_OP_mish, 0},      {HOD_OP_gelu_tanh, 0},
               {HOD_OP_atan, 2}, {HOD_OP_hardswish, 0}, {HOD_OP_hardsigmoid, 1}};
    int64_t i = hod__draw(d, HOD_COUNT(ops));
    bool kept = ops[i].op == HOD_OP_relu || ops[i].op == HOD_OP_abs || ops[i].op == HOD_OP_neg;
    return hod__draw_unary(d, ops[i].op, x, ops[i].bound > 0 ? ops[i].bound : d->values[x].bound,
                           kept && d->values[x].whole);
}

/* Operators with a domain: their input is first brought into it. */
static hod_ref draw_guarded(hod_drawing *d, hod_ref x)
{
    switch (hod__draw(d, 9)) {
    case 8: return hod__draw_unary(d, HOD_OP_log_sigmoid, x, d->values[x].bound + 1, false);
    case 5:
        return hod__draw_unary(d, HOD_OP_log1p, above(d, x, .5), log1p(d->values[x].bound + .5),
                               false);
    case 6: return hod__draw_unary(d, HOD_OP_softplus, x, d->values[x].bound + 1, false);
    case 7:
        return hod__draw_unary(d, HOD_OP_expm1, hod__draw_unary(d, HOD_OP_tanh, x, 1, false), 2,
                               false);
    case 0: return hod__draw_unary(d, HOD_OP_log, above(d, x, 1), log1p(d->values[x].bound), false);
    case 1:
        return hod__draw_unary(d, HOD_OP_sqrt, above(d, x, .5), sqrt(d->values[x].bound + 1),
                               false);
    case 2: return hod__draw_unary(d, HOD_OP_rsqrt, above(d, x, .5), 1.5, false);
    case 3: return hod__draw_unary(d, HOD_OP_reciprocal, above(d, x, 1), 1, false);
    default:
        return hod__draw_unary(d, HOD_OP_exp, hod__draw_unary(d, HOD_OP_tanh, x, 1, false), 3,
                               false);
    }
}

static hod_ref draw_unary_int(hod_drawing *d, hod_ref x)
{
    static const hod_op ops[] = {HOD_OP_neg, HOD_OP_abs, HOD_OP_sign, HOD_OP_relu,
                                 HOD_OP_logical_not};
    hod_op op = dtype_of(d, x) == HOD_BOOL ? HOD_OP_logical_not : ops[hod__draw(d, HOD_COUNT(ops))];
    bool wraps = op == HOD_OP_neg && dtype_of(d, x) == HOD_U8;
    bool small = op == HOD_OP_logical_not || op == HOD_OP_sign;
    return hod__draw_unary(d, op, x, wraps ? 255 : small ? 1 : d->values[x].bound, true);
}

/* What jumps at whole numbers or halves, of whole floats only. */
static hod_ref draw_jump(hod_drawing *d, hod_ref x)
{
    static const hod_op ops[] = {HOD_OP_floor, HOD_OP_ceil,  HOD_OP_round,
                                 HOD_OP_sign,  HOD_OP_trunc, HOD_OP_logical_not,
                                 HOD_OP_isnan, HOD_OP_isinf, HOD_OP_isfinite};
    if (!d->values[x].whole)
        return HOD_NO_REF;
    if (hod__draw_one_in(d, HOD_COUNT(ops) + 1)) {
        hod_ref in[] = {x, hod__draw_full(d, dtype_of(d, x), 2)};
        return hod__draw_op(d, HOD_OP_trunc_divide, NULL, 2, in, d->values[x].bound, true);
    }
    return hod__draw_unary(d, ops[hod__draw(d, HOD_COUNT(ops))], x, HOD_MAX(d->values[x].bound, 1),
                           true);
}

/* Some value of x's type that broadcasts with x: one there is, or an input. */
static hod_ref draw_partner(hod_drawing *d, hod_ref x)
{
    for (int i = 0; i < 12; i++) {
        hod_ref y = hod__draw_node(d);
        hod_meta metas[] = {hod__node_meta(d->g, x), hod__node_meta(d->g, y)};
        bool fits = metas[0].dtype == metas[1].dtype;
        for (int k = 1; fits && k <= HOD_MIN(metas[0].ndim, metas[1].ndim); k++) {
            int64_t a = metas[0].shape[metas[0].ndim - k], b = metas[1].shape[metas[1].ndim - k];
            fits = a == b || a == 1 || b == 1;
        }
        if (fits &&
            (numel_of(d, x) < 64 || numel_of(d, y) < 64 || numel_of(d, x) == numel_of(d, y)))
            return y;
    }
    hod_meta meta = hod__node_meta(d->g, x);
    for (int i = 0; i < meta.ndim; i++)
        if (hod__draw_one_in(d, 3))
            meta.shape[i] = 1;
    int drop = (int)hod__draw(d, meta.ndim + 1) * (int)hod__draw(d, 2);
    meta.ndim -= drop;
    memmove(meta.shape, meta.shape + drop, (size_t)meta.ndim * sizeof *meta.shape);
    return hod__draw_fresh(d, &meta);
}

static hod_ref draw_compare(hod_drawing *d, hod_ref x, hod_ref y)
{
    static const hod_op ops[] = {HOD_OP_eq,          HOD_OP_ne,         HOD_OP_lt,
                                 HOD_OP_le,          HOD_OP_gt,         HOD_OP_ge,
                                 HOD_OP_logical_and, HOD_OP_logical_or, HOD_OP_logical_xor};
    return hod__draw_op(d, ops[hod__draw(d, HOD_COUNT(ops))], NULL, 2, (hod_ref[]){x, y}, 1, true);
}

static hod_ref draw_quotient(hod_drawing *d, hod_ref x, hod_ref y)
{
    if (hod__draw_one_in(d, 3)) {
        hod_ref in[] = {above(d, x, .5), hod__draw_unary(d, HOD_OP_tanh, y, 1, false)};
        return hod__draw_tame(d, hod__draw_op(d, HOD_OP_pow, NULL, 2, in,
                                              HOD_MAX(2, d->values[x].bound + .5), false));
    }
    hod_ref in[] = {x, above(d, y, 1)};
    return hod__draw_op(d, HOD_OP_div, NULL, 2, in, d->values[x].bound, false);
}

/* Division of whole numbers, by 0 too, and places to shift by. */
static hod_ref draw_division(hod_drawing *d, hod_ref x, hod_ref y)
{
    double a = d->values[x].bound, b = d->values[y].bound;
    hod_ref in[] = {x, y}, one[] = {x, hod__draw_full(d, dtype_of(d, x), 1)};
    switch (hod__draw(d, 5)) {
    case 0: return hod__draw_op(d, HOD_OP_floor_divide, NULL, 2, in, a + 1, true);
    case 1: return hod__draw_op(d, HOD_OP_remainder, NULL, 2, in, b, true);
    case 2: return hod__draw_op(d, HOD_OP_fmod, NULL, 2, in, a, true);
    case 3: return hod__draw_op(d, HOD_OP_shift_right, NULL, 2, one, a, true);
    default:
        return 2 * a > hod__whole_bound(dtype_of(d, x))
                   ? HOD_NO_REF
                   : hod__draw_op(d, HOD_OP_shift_left, NULL, 2, one, 2 * a, true);
    }
}

/* Of two numbers, continuous where they bend. */
static hod_ref draw_bent(hod_drawing *d, hod_ref x, hod_ref y)
{
    double a = d->values[x].bound, b = d->values[y].bound;
    hod_ref in[] = {x, y, HOD_NO_REF};
    switch (hod__draw(d, 6)) {
    case 3: /* far from where it becomes straight */
        in[1] = above(d, y, .5);
        in[2] = hod__draw_full(d, dtype_of(d, x), 1e4);
        return hod__draw_op(d, HOD_OP_softplus_scaled, NULL, 3, in, a + 2, false);
    case 4:
    case 5: {
        bool slope = hod__draw_one_in(d, 2);
        hod_op op = slope ? HOD_OP_logits_loss_slope : HOD_OP_logits_loss;
        in[2] = hod__draw_full(d, dtype_of(d, x), 0.75);
        return hod__draw_tame(
            d, hod__draw_op(d, op, NULL, 3, in, (1 + 2 * b) * (slope ? 1 : a + 1), false));
    }
    case 0:
        return hod__draw_tame(d,
                              hod__draw_op(d, HOD_OP_prelu, NULL, 2, in, a * HOD_MAX(1, b), false));
    case 1: return hod__draw_op(d, HOD_OP_elu_scaled, NULL, 2, in, HOD_MAX(a, b), false);
    default:
        in[2] = hod__draw_full(d, dtype_of(d, x), 0.75);
        return hod__draw_op(d, HOD_OP_lerp, NULL, 3, in, 2 * (a + b), false);
    }
}

/* Of two numbers within a power of two the bits are, too; one more for the sign. */
static hod_ref draw_bits(hod_drawing *d, hod_ref x, hod_ref y)
{
    static const hod_op ops[] = {HOD_OP_bit_and, HOD_OP_bit_or, HOD_OP_bit_xor};
    double bound = 2 * HOD_MAX(d->values[x].bound, d->values[y].bound) + 1;
    if (bound > hod__whole_bound(dtype_of(d, x)))
        return HOD_NO_REF;
    return hod__draw_op(d, ops[hod__draw(d, HOD_COUNT(ops))], NULL, 2, (hod_ref[]){x, y}, bound,
                        true);
}

static hod_ref draw_binary(hod_drawing *d, hod_ref x)
{
    static const hod_op ops[] = {HOD_OP_add, HOD_OP_sub, HOD_OP_mul, HOD_OP_maximum,
                                 HOD_OP_minimum};
    hod_dtype dtype = dtype_of(d, x);
    hod_ref y = draw_partner(d, x);
    if (y == HOD_NO_REF)
        return y;
    hod_drawn_value a = d->values[x], b = d->values[y];
    if (a.whole && b.whole && (dtype == HOD_BOOL || hod__draw_one_in(d, 4)))
        return draw_compare(d, x, y);
    if (!hod__is_float(dtype) && a.whole && b.whole && hod__draw_one_in(d, 6))
        return draw_bits(d, x, y);
    if (!hod__is_float(dtype) && dtype != HOD_BOOL && dtype != HOD_U8 && a.whole && b.whole &&
        hod__draw_one_in(d, 3))
        return draw_division(d, x, y);
    if (hod__is_float(dtype) && hod__draw_one_in(d, 8))
        return draw_bent(d, x, y);
    if (dtype == HOD_BOOL)
        return HOD_NO_REF;
    if (hod__is_float(dtype) && hod__draw_one_in(d, 5))
        return draw_quotient(d, x, y);
    int64_t i = hod__draw(d, HOD_COUNT(ops));
    double bound = i < 2    ? a.bound + b.bound
                   : i == 2 ? a.bound * b.bound
                            : HOD_MAX(a.bound, b.bound);
    bool fits = bound <= hod__whole_bound(dtype);
    if (!hod__is_float(dtype) && !fits && dtype != HOD_U8)
        return HOD_NO_REF;
    bool wraps = dtype == HOD_U8 && i < 3;
    hod_ref r = hod__draw_op(d, ops[i], NULL, 2, (hod_ref[]){x, y}, wraps ? 255 : bound,
                             (a.whole && b.whole && fits) || wraps);
    return hod__draw_tame(d, r);
}

static hod_ref draw_where(hod_drawing *d, hod_ref x)
{
    for (int i = 0; i < 12; i++) {
        hod_ref c = hod__draw_node(d);
        if (dtype_of(d, c) != HOD_BOOL || numel_of(d, c) != 1)
            continue;
        hod_ref y = draw_partner(d, x);
        if (y == HOD_NO_REF)
            return y;
        return hod__draw_op(d, HOD_OP_where, NULL, 3, (hod_ref[]){c, x, y},
                            HOD_MAX(d->values[x].bound, d->values[y].bound),
                            d->values[x].whole && d->values[y].whole);
    }
    hod_meta meta = hod__node_meta(d->g, x);
    meta.dtype = HOD_BOOL;
    hod_ref c = hod__draw_fresh(d, &meta), y = draw_partner(d, x);
    if (c == HOD_NO_REF || y == HOD_NO_REF)
        return HOD_NO_REF;
    return hod__draw_op(d, HOD_OP_where, NULL, 3, (hod_ref[]){c, x, y},
                        HOD_MAX(d->values[x].bound, d->values[y].bound),
                        d->values[x].whole && d->values[y].whole);
}

/* x between two bounds that may be the wrong way round. */
static hod_ref draw_clip(hod_drawing *d, hod_ref x)
{
    if (dtype_of(d, x) == HOD_BOOL)
        return HOD_NO_REF;
    hod_ref low = draw_partner(d, x), high = HOD_NO_REF;
    if (low != HOD_NO_REF)
        high = hod__draw_full(d, dtype_of(d, x), hod__is_float(dtype_of(d, x)) ? 1.5 : 2);
    if (high == HOD_NO_REF)
        return HOD_NO_REF;
    hod_drawn_value a = d->values[x], b = d->values[low];
    return hod__draw_op(d, HOD_OP_clip, NULL, 3, (hod_ref[]){x, low, high},
                        HOD_MAX(2, HOD_MAX(a.bound, b.bound)),
                        a.whole && b.whole && !hod__is_float(dtype_of(d, x)));
}

static hod_ref draw_cast(hod_drawing *d, hod_ref x)
{
    hod_dtype from = dtype_of(d, x), to = hod__draw_dtype(d);
    hod_drawn_value v = d->values[x];
    /* Between types of integers values wrap, or become bool; of u8 they are never negative. */
    bool fits = v.whole && v.bound <= hod__whole_bound(to);
    if (!hod__is_float(to) && (!fits || (to == HOD_U8 && from != HOD_BOOL)) && to != HOD_BOOL)
        return HOD_NO_REF;
    if (to == HOD_BOOL && !v.whole)
        return HOD_NO_REF;
    if (hod__is_float(to) && v.bound > 2048 && !fits)
        return HOD_NO_REF;
    hod_attrs attrs = {.cast = {.dtype = to}};
    return hod__draw_op(d, HOD_OP_cast, &attrs, 1, &x, to == HOD_BOOL ? 1 : v.bound, fits);
}

hod_ref hod__draw_pointwise(hod_drawing *d)
{
    hod_ref x = hod__draw_node(d);
    bool number = hod__is_float(dtype_of(d, x));
    switch (hod__draw(d, 13)) {
    case 0: return draw_cast(d, x);
    case 7: return draw_clip(d, x);
    case 1: return draw_where(d, x);
    case 2: return number ? draw_jump(d, x) : draw_unary_int(d, x);
    case 3: return number ? draw_guarded(d, x) : HOD_NO_REF;
    case 4:
    case 5:
    case 6: return number ? draw_smooth(d, x) : draw_unary_int(d, x);
    default: return draw_binary(d, x);
    }
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* An extreme, or an index; of dimensions that are not empty. */
static hod_ref draw_extreme(hod_drawing *d, hod_ref x, hod_attrs attrs, int64_t count)
{
    hod_drawn_value v = d->values[x];
    uint32_t dims = attrs.reduce.dims;
    if (count == 0)
        return HOD_NO_REF;
    if (v.whole && (dims & (dims - 1)) == 0 && hod__draw_one_in(d, 2))
        return hod__draw_op(d, hod__draw_one_in(d, 2) ? HOD_OP_argmax : HOD_OP_argmin, &attrs, 1,
                            &x, (double)count, true);
    return hod__draw_op(d, hod__draw_one_in(d, 2) ? HOD_OP_amax : HOD_OP_amin, &attrs, 1, &x,
                        v.bound, v.whole);
}

hod_ref hod__draw_reduction(hod_drawing *d)
{
    hod_ref x = hod__draw_node(d);
    hod_meta meta = hod__node_meta(d->g, x);
    hod_drawn_value v = d->values[x];
    hod_attrs attrs = {.reduce = {.keepdim = hod__draw_one_in(d, 2)}};
    int64_t count = 1;
    for (int i = 0; i < meta.ndim; i++)
        if (hod__draw_one_in(d, 2)) {
            attrs.reduce.dims |= 1u << i;
            count *= meta.shape[i];
        }
    if (meta.ndim == 0 || attrs.reduce.dims == 0)
        return HOD_NO_REF;
    int64_t kind = hod__draw(d, 7);
    if (kind == 6 && (hod__is_float(meta.dtype) || meta.dtype == HOD_I64)) {
        int64_t dim = hod__draw(d, meta.ndim);
        hod_attrs scan = {.scan = {.dim = dim, .reverse = hod__draw_one_in(d, 2)}};
        double most = v.bound * (double)HOD_MAX(meta.shape[dim], 1);
        bool exact = v.whole && most <= hod__whole_bound(meta.dtype);
        if (v.bound <= 1 && !hod__draw_one_in(d, 3))
            return hod__draw_op(d, HOD_OP_cumprod, &scan, 1, &x, 1, v.whole);
        if (!hod__is_float(meta.dtype) && !exact)
            return HOD_NO_REF;
        return hod__draw_tame(d, hod__draw_op(d, HOD_OP_cumsum, &scan, 1, &x, most, exact));
    }
    if (kind < 2 && meta.dtype != HOD_BOOL)
        return draw_extreme(d, x, attrs, count);
    if (kind == 3 && v.whole && hod__draw_one_in(d, 3))
        return hod__draw_op(d, hod__draw_one_in(d, 2) ? HOD_OP_any : HOD_OP_all, &attrs, 1, &x, 1,
                            true);
    hod_dtype to = hod__is_float(meta.dtype) ? meta.dtype : HOD_I64;
    bool prod = kind == 2 && count <= 3 && v.bound <= 4;
    double bound =
        prod ? pow(HOD_MAX(v.bound, 1), (double)HOD_MAX(count, 1)) : v.bound * (double)count;
    bool whole = v.whole && bound <= hod__whole_bound(to);
    if (!hod__is_float(to) && !whole)
        return HOD_NO_REF;
    return hod__draw_tame(
        d, hod__draw_op(d, prod ? HOD_OP_prod : HOD_OP_sum, &attrs, 1, &x, bound, whole));
}

/* ---- views ----------------------------------------------------------------------------------- */

static hod_ref keep(hod_drawing *d, hod_op op, const hod_attrs *attrs, hod_ref x)
{
    return hod__draw_op(d, op, attrs, 1, &x, d->values[x].bound, d->values[x].whole);
}

/* Merges two dimensions, splits one, or adds or drops one of size 1. The copy in front makes the
 * reshape a view whatever x is. */
static hod_ref draw_reshape(hod_drawing *d, hod_ref x)
{
    hod_meta m = hod__node_meta(d->g, x);
    hod_shape s = hod_shape_of(m.ndim, m.shape);
    int at = m.ndim ? (int)hod__draw(d, m.ndim) : 0;
    if (m.ndim > 1 && at > 0 && hod__draw_one_in(d, 2)) {
        s.d[at - 1] *= s.d[at];
        memmove(s.d + at, s.d + at + 1, (size_t)(m.ndim - at - 1) * sizeof *s.d);
        s.n--;
    } else if (m.ndim < 6) {
        int64_t first = m.ndim && s.d[at] % 2 == 0 && s.d[at] > 0 ? 2 : 1;
        memmove(s.d + at + 1, s.d + at, (size_t)(m.ndim - at) * sizeof *s.d);
        s.d[at] = first;
        if (m.ndim)
            s.d[at + 1] /= first;
        s.n++;
    } else {
        s = hod_shape_of(1, (int64_t[]){hod__numel(m.ndim, m.shape)});
    }
    hod_attrs attrs = {.shape = {.shape = s}};
    return keep(d, HOD_OP_reshape, &attrs, keep(d, HOD_OP_contiguous, NULL, x));
}

static hod_ref draw_permute(hod_drawing *d, hod_ref x)
{
    int n = d->g->nodes[x].ndim;
    hod_attrs attrs = {.permute = {.order = {.n = n}}};
    for (int i = 0; i < n; i++) {
        int64_t j = hod__draw(d, i + 1);
        attrs.permute.order.d[i] = attrs.permute.order.d[j];
        attrs.permute.order.d[j] = i;
    }
    return n ? keep(d, HOD_OP_permute, &attrs, x) : HOD_NO_REF;
}

static hod_ref draw_expand(hod_drawing *d, hod_ref x)
{
    hod_meta m = hod__node_meta(d->g, x);
    hod_shape s = hod_shape_of(m.ndim, m.shape);
    for (int i = 0; i < s.n; i++)
        if (s.d[i] == 1 && hod__draw_one_in(d, 2))
            s.d[i] = 2 + hod__draw(d, 4);
    if (s.n < 5 && hod__draw_one_in(d, 2)) {
        memmove(s.d + 1, s.d, (size_t)s.n++ * sizeof *s.d);
        s.d[0] = 1 + hod__draw(d, 4);
    }
    hod_attrs attrs = {.shape = {.shape = s}};
    return hod__numel(s.n, s.d) <= 8192 ? keep(d, HOD_OP_expand, &attrs, x) : HOD_NO_REF;
}

static hod_ref draw_slice(hod_drawing *d, hod_ref x)
{
    hod_meta m = hod__node_meta(d->g, x);
    int dim = m.ndim ? (int)hod__draw(d, m.ndim) : 0;
    if (m.ndim == 0 || m.shape[dim] < 2)
        return HOD_NO_REF;
    int64_t start = hod__draw(d, m.shape[dim] / 2 + 1);
    hod_attrs attrs = {.slice = {.dim = dim,
                                 .start = start,
                                 .stop = start + 1 + hod__draw(d, m.shape[dim] - start),
                                 .step = 1 + hod__draw(d, hod__draw_one_in(d, 2) ? 3 : 1)}};
    return keep(d, HOD_OP_slice, &attrs, x);
}

static hod_ref draw_windows(hod_drawing *d, hod_ref x)
{
    hod_meta m = hod__node_meta(d->g, x);
    int dim = m.ndim ? (int)hod__draw(d, m.ndim) : 0;
    if (m.ndim == 0 || m.ndim > 4 || m.shape[dim] == 0)
        return HOD_NO_REF;
    hod_attrs attrs = {.windows = {.dim = dim,
                                   .size = 1 + hod__draw(d, HOD_MIN(m.shape[dim], 4)),
                                   .step = 1 + hod__draw(d, 3),
                                   .line = m.shape[dim]}};
    return hod__node_numel(d->g, x) * attrs.windows.size <= 8192
               ? keep(d, HOD_OP_windows, &attrs, x)
               : HOD_NO_REF;
}

hod_ref hod__draw_view(hod_drawing *d)
{
    hod_ref x = hod__draw_node(d);
    switch (hod__draw(d, 4)) {
    case 0: return draw_reshape(d, x);
    case 1: return draw_permute(d, x);
    case 2: return draw_expand(d, x);
    default: return hod__draw_one_in(d, 3) ? draw_windows(d, x) : draw_slice(d, x);
    }
}

/* ---- sources --------------------------------------------------------------------------------- */

static hod_ref draw_uniform(hod_drawing *d, const hod_meta *meta)
{
    if (meta->ndim == 0 || meta->shape[0] == 0)
        return HOD_NO_REF;
    hod_meta key = {.dtype = HOD_I64, .ndim = 1, .shape = {2}};
    hod_meta index = {.dtype = HOD_I64, .ndim = 1, .shape = {meta->shape[0]}};
    hod_ref in[] = {hod__draw_input(d, &key, 'k', 0, HOD_INPUT_DATA),
                    hod__draw_input(d, &index, 'j', 1000, HOD_INPUT_DATA)};
    if (in[0] == HOD_NO_REF || in[1] == HOD_NO_REF)
        return HOD_NO_REF;
    hod_attrs attrs = {
        .uniform = {.stream = hod__draw(d, 100), .shape = hod_shape_of(meta->ndim, meta->shape)}};
    return hod__draw_op(d, HOD_OP_uniform, &attrs, 2, in, 1, false);
}

hod_ref hod__draw_source(hod_drawing *d)
{
    hod_meta meta = {.dtype = hod__draw_dtype(d)};
    hod__draw_shape(d, &meta);
    int64_t kind = hod__draw(d, 4);
    if (kind == 0)
        return draw_uniform(d, &meta);
    if (kind == 1 && meta.ndim > 0 && meta.dtype != HOD_BOOL) {
        hod_attrs attrs = {.iota = {.dtype = meta.dtype,
                                    .shape = hod_shape_of(meta.ndim, meta.shape),
                                    .dim = hod__draw(d, meta.ndim)}};
        return hod__draw_op(d, HOD_OP_iota, &attrs, 0, NULL, 33, true);
    }
    if (kind == 2)
        return hod__draw_fresh(d, &meta);
    double value = meta.dtype == HOD_U8 || meta.dtype == HOD_BOOL ? (double)hod__draw(d, 2)
                                                                  : (double)hod__draw(d, 7) - 3;
    bool half = hod__is_float(meta.dtype) && hod__draw_one_in(d, 2);
    hod_attrs attrs = {.full = {.value = value + (half ? .5 : 0), .dtype = meta.dtype}};
    if (hod__draw_one_in(d, 3))
        attrs.full.shape = hod_shape_of(meta.ndim, meta.shape);
    return hod__draw_op(d, HOD_OP_full, &attrs, 0, NULL, 4, !half);
}

/* ---- effects --------------------------------------------------------------------------------- */

/* What the change reads of the state: itself, transposed, or next to a maximum of all of it. */
static hod_ref draw_read(hod_drawing *d, hod_ref state)
{
    hod_meta m = hod__node_meta(d->g, state);
    int n = m.ndim;
    if (n >= 2 && m.shape[n - 1] == m.shape[n - 2] && hod__draw_one_in(d, 2)) {
        hod_attrs attrs = {.permute = {.order = {.n = n}}};
        for (int i = 0; i < n; i++)
            attrs.permute.order.d[i] = i < n - 2 ? i : 2 * n - 3 - i;
        return keep(d, HOD_OP_permute, &attrs, state);
    }
    if (n == 0 || hod__numel(n, m.shape) == 0 || !hod__draw_one_in(d, 4))
        return state;
    hod_attrs attrs = {.reduce = {.dims = (1u << n) - 1}};
    hod_ref in[] = {state, keep(d, HOD_OP_amax, &attrs, state)};
    return hod__draw_op(d, HOD_OP_sub, NULL, 2, in, 8, false);
}

/* state <- 0.75 state + 0.25 r; values made of the state before are read afterwards as well. */
static int draw_assign(hod_drawing *d, hod_ref r)
{
    hod_meta meta = hod__node_meta(d->g, r);
    hod_ref state = hod__draw_input(d, &meta, 'x', 0, HOD_INPUT_STATE);
    if (state == HOD_NO_REF)
        return -1;
    hod_ref before = HOD_NO_REF, in[2] = {draw_read(d, state), r};
    if (hod__draw_one_in(d, 2))
        before = hod__draw_one_in(d, 2) ? draw_permute(d, state) : draw_smooth(d, state);
    if (hod__draw_one_in(d, 4))
        in[1] = in[0];
    else {
        in[0] = hod__draw_scaled(d, in[0], .75);
        in[1] = hod__draw_scaled(d, r, .25);
        in[1] = hod__draw_op(d, HOD_OP_add, NULL, 2, in, 16, false);
    }
    in[0] = state;
    hod_ref after = hod__draw_op(d, HOD_OP_assign, NULL, 2, in, 16, false);
    if (after == HOD_NO_REF)
        return -1;
    if (hod__draw_one_in(d, 2) && draw_smooth(d, after) == HOD_NO_REF)
        return -1;
    if (before != HOD_NO_REF && draw_smooth(d, before) == HOD_NO_REF)
        return -1;
    return 0;
}

static int draw_accumulate(hod_drawing *d, hod_ref r)
{
    hod_meta meta = hod__node_meta(d->g, r);
    hod_ref in[2] = {hod__draw_input(d, &meta, 'x', 0, HOD_INPUT_GRADIENT), r};
    hod_ref sum = in[0] == HOD_NO_REF ? HOD_NO_REF
                                      : hod__draw_op(d, HOD_OP_accumulate, NULL, 2, in, 16, false);
    if (sum == HOD_NO_REF)
        return -1;
    return hod__draw_one_in(d, 3) && draw_smooth(d, sum) == HOD_NO_REF ? -1 : 0;
}

int hod__draw_effects(hod_drawing *d)
{
    int64_t n = hod__draw_one_in(d, 3) ? 1 + hod__draw(d, 2) : 0;
    for (int tries = 0; n > 0 && tries < 16; tries++) {
        hod_ref r = hod__draw_node(d);
        bool read = !hod__is_input(d->g, r) && hod__node_info(d->g, r)->class != HOD_EFFECT;
        if (!read || !hod__is_float(dtype_of(d, r)) || d->values[r].bound > 16)
            continue;
        if (hod__draw_one_in(d, 2) ? draw_assign(d, r) : draw_accumulate(d, r))
            return -1;
        n--;
    }
    return 0;
}
