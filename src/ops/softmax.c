/* Softmax, its logarithm, and logarithms of sums of exponentials: compositions, and FUSED rows that
 * are the same in one kernel (fused.h). 16-bit floats are computed in f32, as in statistics.c. */
#include "ops/fused.h"
#include <math.h>

/* ---- compositions ---- */

/* 0 where the greatest is -inf, so that such rows give exp(-inf) = 0 and no NaN. Constant for
 * gradients: a shift cancels. */
hod_tensor *hod__exp_shift(hod_tensor *x, int dim)
{
    hod_tensor *m = hod_amax_keep(hod__stop_gradient(x), dim);
    return m ? hod_where(hod_eq_scalar(m, -(double)INFINITY), hod__number(m, 0), m) : NULL;
}

/* The same, and 0 of nothing. */
static hod_tensor *shift_of(hod_tensor *x, int dim)
{
    return hod_tensor_size(x, dim) == 0 ? hod__number(x, 0) : hod__exp_shift(x, dim);
}

static hod_tensor *composed_softmax(hod_tensor *x, int dim)
{
    hod_tensor *e = hod_exp(hod_sub(x, shift_of(x, dim)));
    if (!e)
        return NULL;
    hod_tensor *sum = hod_sum_keep(e, dim);
    hod_tensor *safe = hod_where(hod_eq_scalar(sum, 0), hod_full_like(sum, 1), sum);
    return hod_div(e, safe);
}

static hod_tensor *composed_log_softmax(hod_tensor *x, int dim)
{
    hod_tensor *z = hod_sub(x, shift_of(x, dim));
    return z ? hod_sub(z, hod_log(hod_sum_keep(hod_exp(z), dim))) : NULL;
}

static bool nothing_along(const hod_tensor *x, const hod_shape *dims)
{
    for (int i = 0; i < dims->n; i++)
        if (hod_tensor_size(x, (int)dims->d[i]) == 0)
            return true;
    return false;
}

/* Of nothing: log 0. */
static hod_tensor *composed_logsumexp(hod_tensor *x, hod_shape dims)
{
    if (nothing_along(x, &dims))
        return hod_log(hod_sum_over(hod_exp(x), dims, true));
    hod_tensor *most = hod_amax_over(hod__stop_gradient(x), dims, true);
    if (!most)
        return NULL;
    hod_tensor *shift = hod_where(hod_isfinite(most), most, hod__number(x, 0));
    hod_tensor *sum = hod_sum_over(hod_exp(hod_sub(x, shift)), dims, true);
    hod_tensor *dead = hod_eq_scalar(sum, 0); /* all -inf: no gradient comes through either */
    hod_tensor *value = hod_add(hod_log(hod_where(dead, hod__number(x, 1), sum)), shift);
    return hod_where(dead, hod__number(x, -(double)INFINITY), value);
}

/* ---- derivatives ---- */

hod_tensor *hod__vjp_softmax(const hod_vjp *v, int i)
{
    (void)i;
    if (hod__fuses_back())
        return hod__op(HOD_OP_softmax_back, v->attrs, 2, (hod_tensor *[]){v->y, v->g});
    hod_tensor *share = hod_sum_keep(hod_mul(v->y, v->g), v->attrs->dim.dim);
    return hod_mul(v->y, hod_sub(v->g, share));
}

hod_tensor *hod__vjp_log_softmax(const hod_vjp *v, int i)
{
    (void)i;
    if (hod__fuses_back())
        return hod__op(HOD_OP_log_softmax_back, v->attrs, 2, (hod_tensor *[]){v->y, v->g});
    hod_tensor *share = hod_sum_keep(v->g, v->attrs->dim.dim);
    return hod_sub(v->g, hod_mul(hod_exp(v->y), share));
}

/* Nothing comes back into a line of -inf. */
hod_tensor *hod__vjp_logsumexp(const hod_vjp *v, int i)
{
    (void)i;
    hod_tensor *x = v->x[0], *y = v->y;
    if (hod__fuses_back())
        return hod__op(HOD_OP_logsumexp_back, v->attrs, 3, (hod_tensor *[]){x, y, v->g});
    hod_tensor *dead = hod_eq(y, hod__number(y, -(double)INFINITY));
    hod_tensor *share = hod_exp(hod_sub(x, hod_where(dead, hod__number(y, 0), y)));
    return hod_mul(hod_where(dead, hod__number(y, 0), v->g), share);
}

/* ---- fronts ---- */

/* x in the type to compute in, and dim counted from the front; NULL with an error. */
static hod_tensor *checked(const char *name, hod_tensor *x, int *dim)
{
    if (hod__null(name, "x", x) || (*dim = hod__dim(name, *dim, x->ndim)) < 0)
        return NULL;
    return hod__computed(x);
}

static hod_tensor *along(hod_op op, hod_tensor *x, int dim)
{
    HOD_ATTRS(a);
    a.dim.dim = dim;
    return hod__op(op, &a, 1, &x);
}

hod_tensor *hod_softmax(hod_tensor *x, int dim)
{
    hod_tensor *c = checked("softmax", x, &dim);
    if (!c)
        return NULL;
    return hod__narrowed_like(
        hod__fuses(c) ? along(HOD_OP_softmax, c, dim) : composed_softmax(c, dim), x);
}

hod_tensor *hod_log_softmax(hod_tensor *x, int dim)
{
    hod_tensor *c = checked("log_softmax", x, &dim);
    if (!c)
        return NULL;
    return hod__narrowed_like(
        hod__fuses(c) ? along(HOD_OP_log_softmax, c, dim) : composed_log_softmax(c, dim), x);
}

/* t without the dimensions of `bits`, which have size 1 in it. */
static hod_tensor *dropped(hod_tensor *t, uint32_t bits)
{
    hod_shape s = {.n = 0};
    if (!t)
        return NULL;
    for (int i = 0; i < t->ndim; i++)
        if (!(bits >> i & 1))
            s.d[s.n++] = t->shape[i];
    return hod_reshape(t, s);
}

hod_tensor *hod_logsumexp_over(hod_tensor *x, hod_shape dims, bool keepdim)
{
    uint32_t bits;
    if (hod__null("logsumexp", "x", x) || hod__dim_bits("logsumexp", &dims, x->ndim, &bits) != 0)
        return NULL;
    hod_tensor *c = hod__computed(x);
    if (!c)
        return NULL;
    hod_tensor *y = dims.n == 1 && hod__fuses(c)
                        ? along(HOD_OP_logsumexp, c, hod__dim("logsumexp", dims.d[0], c->ndim))
                        : composed_logsumexp(c, dims);
    return hod__narrowed_like(keepdim ? y : dropped(y, bits), x);
}

hod_tensor *hod_logsumexp(hod_tensor *x, int dim, bool keepdim)
{
    return hod_logsumexp_over(x, HOD_SHAPE(dim), keepdim);
}
