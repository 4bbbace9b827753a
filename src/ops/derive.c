/* Derivatives of elementwise operators and reductions: the column of ops.def, made functions.
 *
 * The column speaks of g, y, a, b, c and v; the helpers below are its vocabulary. They are written
 * in operators, so they are recorded, compiled and differentiated again like anything else.
 */
#include "ops/rules.h"

/* ---- vocabulary ---- */

static hod_tensor *zero(hod_tensor *g)
{
    return hod_full_like(g, 0);
}

static hod_tensor *scaled(hod_tensor *x, double s)
{
    return hod_mul_scalar(x, s);
}

static hod_tensor *one_minus(hod_tensor *x)
{
    return hod_sub(hod__number(x, 1), x);
}

static hod_tensor *plus(hod_tensor *x, double s)
{
    return hod_add_scalar(x, s);
}

/* softplus_scaled: straight, or the sigmoid of a b; and for b (a σ(ab) - softplus(ab) / b) / b. */
static hod_tensor *soft_slope_a(hod_tensor *g, hod_tensor *a, hod_tensor *b, hod_tensor *c)
{
    hod_tensor *t = hod_mul(a, b);
    return hod_where(hod_gt(t, c), g, hod_mul(g, hod_sigmoid(t)));
}

static hod_tensor *soft_slope_b(hod_tensor *g, hod_tensor *a, hod_tensor *b, hod_tensor *c)
{
    hod_tensor *t = hod_mul(a, b);
    hod_tensor *d = hod_sub(hod_mul(a, hod_sigmoid(t)), hod_div(hod_softplus(t), b));
    return hod_where(hod_gt(t, c), hod__number(g, 0), hod_mul(g, hod_div(d, b)));
}

/* Φ(a) + a φ(a), with the normal distribution's share and density. */
static hod_tensor *gelu_slope(hod_tensor *a)
{
    hod_tensor *share = hod_add_scalar(scaled(hod_erf(scaled(a, 0.70710678118654752)), 0.5), 0.5);
    hod_tensor *density =
        scaled(hod_exp(scaled(hod_mul(a, a), -0.5)), 0.39894228040143268 /* 1/sqrt(2 pi) */);
    return hod_add(share, hod_mul(a, density));
}

/* σ(a) (1 + a (1 - σ(a))) */
static hod_tensor *silu_slope(hod_tensor *a)
{
    hod_tensor *s = hod_sigmoid(a);
    return hod_mul(s, hod_add_scalar(hod_mul(a, one_minus(s)), 1));
}

/* With s = σ(2u): s (1 + a (1 - s) 2u'), u' = sqrt(2/π) (1 + 3 · 0.044715 a²). From 30 on it is 0
 * or 1 in every type, and its cube still fits a f16: beyond, s = 0 would meet an infinite u'. */
static hod_tensor *gelu_tanh_slope(hod_tensor *x)
{
    const double c = 1.5957691216057308, k = 0.044715; /* c = 2 sqrt(2/π) */
    hod_tensor *a = hod_clamp(x, -30, 30);
    hod_tensor *square = hod_mul(a, a);
    hod_tensor *s = hod_sigmoid(hod_mul(a, plus(scaled(square, c * k), c)));
    hod_tensor *du = plus(scaled(square, 3 * c * k), c);
    return hod_mul(s, plus(hod_mul(hod_mul(a, one_minus(s)), du), 1));
}

/* t + a σ(a) (1 - t²), t = tanh(softplus(a)) */
static hod_tensor *mish_slope(hod_tensor *a)
{
    hod_tensor *t = hod_tanh(hod_softplus(a));
    return hod_add(t, hod_mul(hod_mul(a, hod_sigmoid(a)), one_minus(hod_mul(t, t))));
}

/* 0, a/3 + 1/2, 1: below -3, between, from 3 on */
static hod_tensor *hardswish_slope(hod_tensor *a)
{
    hod_tensor *between = plus(scaled(a, 1.0 / 3), 0.5);
    hod_tensor *upper = hod_where(hod_lt(a, hod__number(a, 3)), between, hod__number(a, 1));
    return hod_where(hod_le(a, hod__number(a, -3)), hod__number(a, 0), upper);
}

/* For slopes that are e^a below 0 alone: above, an infinite e^a would meet the gradient 0 of the
 * choice when the slope is differentiated. */
static hod_tensor *not_above_zero(hod_tensor *a)
{
    return hod_where(hod_gt(a, hod__number(a, 0)), hod__number(a, 0), a);
}

/* g b e^a up to 0, then g */
static hod_tensor *elu_slope(hod_tensor *g, hod_tensor *a, hod_tensor *b)
{
    hod_tensor *below = hod_mul(g, hod_mul(b, hod_exp(not_above_zero(a))));
    return hod_where(hod_le(a, hod__number(a, 0)), below, g);
}

/* g b a^(b-1); 0 where b is 0, also at a = 0. */
static hod_tensor *pow_slope_a(hod_tensor *g, hod_tensor *a, hod_tensor *b)
{
    hod_tensor *slope = hod_mul(b, hod_pow(a, hod_sub(b, hod__number(b, 1))));
    return hod_mul(g, hod_where(hod_eq(b, hod__number(b, 0)), hod__number(g, 0), slope));
}

/* g y log a; 0 where a is 0 and b is not negative (0^b stays 0, or leaps once at b = 0). */
static hod_tensor *pow_slope_b(hod_tensor *g, hod_tensor *y, hod_tensor *a, hod_tensor *b)
{
    hod_tensor *flat = hod_logical_and(hod_eq(a, hod__number(a, 0)), hod_ge(b, hod__number(b, 0)));
    hod_tensor *base = hod_where(flat, hod__number(a, 1), a); /* no log of 0 behind the where */
    return hod_mul(g, hod_mul(y, hod_log(base)));
}

/* g, or half of it where a and b are equal: both get a half. */
static hod_tensor *shared(hod_tensor *g, hod_tensor *a, hod_tensor *b)
{
    return hod_where(hod_eq(a, b), scaled(g, 0.5), g);
}

/* g where a is the greater of a and b, half of it where they are equal. */
static hod_tensor *greater_part(hod_tensor *g, hod_tensor *a, hod_tensor *b)
{
    return hod_where(hod_lt(a, b), hod__number(g, 0), shared(g, a, b));
}

static hod_tensor *lesser_part(hod_tensor *g, hod_tensor *a, hod_tensor *b)
{
    return hod_where(hod_gt(a, b), hod__number(g, 0), shared(g, a, b));
}

/* Of min(max(a, b), c), where equal ones share; bounds that are numbers take no share, and a has
 * none at them. */
static hod_tensor *clip_slope(const hod_vjp *v, hod_tensor *g)
{
    hod_tensor *a = v->x[0], *b = v->x[1], *c = v->x[2];
    if (v->meta[1].ndim == 0 && v->meta[2].ndim == 0)
        return hod_where(hod_logical_or(hod_le(a, b), hod_ge(a, c)), hod__number(g, 0), g);
    return greater_part(lesser_part(g, hod_maximum(a, b), c), a, b);
}

static hod_tensor *clip_low_slope(hod_tensor *g, hod_tensor *a, hod_tensor *b, hod_tensor *c)
{
    return greater_part(lesser_part(g, hod_maximum(a, b), c), b, a);
}

static hod_tensor *clip_high_slope(hod_tensor *g, hod_tensor *a, hod_tensor *b, hod_tensor *c)
{
    return lesser_part(g, c, hod_maximum(a, b));
}

/* A reduction's result t repeated over the input's shape. */
static hod_tensor *spread(const hod_vjp *v, hod_tensor *t)
{
    const hod_meta *m = &v->meta[0];
    hod_shape kept = {.n = m->ndim}, full = {.n = m->ndim};
    for (int i = 0; i < m->ndim; i++) {
        full.d[i] = m->shape[i];
        kept.d[i] = v->attrs->reduce.dims >> i & 1 ? 1 : m->shape[i];
    }
    return hod_expand(hod_reshape(t, kept), full);
}

/* Product of the others, written without division: along each dimension the others, of the products
 * over the dimensions before it. */
static hod_tensor *others_over(hod_tensor *a, const hod_shape *dims)
{
    hod_tensor *others = NULL;
    for (int i = 0; i < dims->n; i++) {
        int d = (int)dims->d[i];
        hod_tensor *here = hod__product_of_others(a, d);
        others = others ? hod_mul(others, here) : here;
        a = hod_prod_over(a, HOD_SHAPE(d), true);
    }
    return others;
}

/* Product of the others: y / a, but with one 0 among the factors only its own place has a slope,
 * and with two none has. That choice by values has no derivative at a 0: to be differentiated again
 * it is written as products. */
static hod_tensor *prod_slope(const hod_vjp *v, hod_tensor *g)
{
    hod_tensor *a = v->x[0];
    hod_shape dims = {0};
    for (int i = 0; i < v->meta[0].ndim; i++)
        if (v->attrs->reduce.dims >> i & 1)
            dims.d[dims.n++] = i;
    if (v->attrs->reduce.dims == 0)
        return g;
    if (hod__tape_listens())
        return hod_mul(spread(v, g), others_over(a, &dims));
    hod_tensor *is_zero = hod_eq(a, hod__number(a, 0));
    hod_tensor *filled = hod_where(is_zero, hod__number(a, 1), a);
    hod_tensor *zeros = spread(v, hod_sum_over(is_zero, dims, true));
    hod_tensor *others = hod_div(spread(v, hod_prod_over(filled, dims, true)), filled);
    hod_tensor *alive = hod_eq(zeros, hod_cast(is_zero, HOD_I64)); /* no 0 among the others */
    return hod_mul(spread(v, g), hod_where(alive, others, hod__number(a, 0)));
}

/* g shared evenly among the elements that equal the extreme. */
static hod_tensor *extreme_slope(const hod_vjp *v, hod_tensor *g)
{
    hod_shape dims = {0};
    for (int i = 0; i < v->meta[0].ndim; i++)
        if (v->attrs->reduce.dims >> i & 1)
            dims.d[dims.n++] = i;
    hod_tensor *here = hod_cast(hod_eq(v->x[0], spread(v, v->y)), (hod_dtype)v->meta[0].dtype);
    hod_tensor *share = dims.n ? hod_div(here, hod_sum_over(here, dims, true)) : here;
    return hod_mul(spread(v, g), share);
}

/* ---- the functions ---- */

#define NODIFF(reason) HOD_FAIL(STATE, "%s: no derivative: " reason, __func__ + sizeof "hod__vjp")
#define NONE           HOD_NO_GRADIENT

#define RULE_FUNCTION(name, da, db, dc)                                                            \
    hod_tensor *hod__vjp_##name(const hod_vjp *v, int i)                                           \
    {                                                                                              \
        hod_tensor *g = v->g, *y = v->y, *a = v->x[0];                                             \
        hod_tensor *b = v->n > 1 ? v->x[1] : NULL, *c = v->n > 2 ? v->x[2] : NULL;                 \
        (void)g, (void)y, (void)a, (void)b, (void)c;                                               \
        return i == 0 ? (da) : i == 1 ? (db) : (dc);                                               \
    }
#define UNARY(name, doc, expression, da, flags, low, high) RULE_FUNCTION(name, da, NULL, NULL)
#define BINARY(name, doc, expression, da, db, flags, low, high) RULE_FUNCTION(name, da, db, NULL)
#define TERNARY(name, doc, expression, da, db, dc, flags, low, high)                               \
    RULE_FUNCTION(name, da, db, dc)
#define REDUCE(name, doc, start, expression, da, flags, low, high)                                 \
    RULE_FUNCTION(name, da, NULL, NULL)
#include "ops/ops.def"

/* ---- for the tape ---- */

hod_tensor *hod__unbroadcast(hod_tensor *g, const hod_meta *to)
{
    if (!g)
        return NULL;
    int lead = g->ndim - to->ndim;
    hod_shape dims = {0};
    for (int i = 0; i < g->ndim; i++)
        if (i < lead || (to->shape[i - lead] == 1 && g->shape[i] != 1))
            dims.d[dims.n++] = i;
    if (dims.n > 0)
        g = hod_sum_over(g, dims, true);
    return hod__reshape_to(g, to->ndim, to->shape);
}

hod_tensor *hod__full_like_meta(const hod_meta *m, double value)
{
    return hod_full(m->dtype, hod_shape_of(m->ndim, m->shape), value);
}
