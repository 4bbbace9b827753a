/* Elementwise compositions: activations with a parameter, bounds, and draws from a distribution. */
#include "ops/rules.h"

/* The parameter as a 0-d tensor of the type that x is computed in. */
static hod_tensor *parameter(const hod_tensor *x, double value)
{
    return hod_full(hod__is_float(x->dtype) ? (hod_dtype)x->dtype : HOD_F32, HOD_SHAPE(), value);
}

hod_tensor *hod_leaky_relu(hod_tensor *x, double slope)
{
    return hod__null("leaky_relu", "x", x) ? NULL : hod_prelu(x, parameter(x, slope));
}

hod_tensor *hod_elu(hod_tensor *x, double alpha)
{
    return hod__null("elu", "x", x) ? NULL : hod_elu_scaled(x, parameter(x, alpha));
}

hod_tensor *hod_relu6(hod_tensor *x)
{
    return hod_clamp(x, 0, 6);
}

hod_tensor *hod_softplus_with(hod_tensor *x, double beta, double threshold)
{
    if (hod__null("softplus", "x", x))
        return NULL;
    if (beta == 0 || beta != beta)
        return HOD_FAIL(ARGUMENT, "softplus: beta %g, must be a number other than 0", beta);
    hod_tensor *c = hod__computed(x);
    return hod__narrowed_like(hod_softplus_scaled(c, parameter(c, beta), parameter(c, threshold)),
                              x);
}

/* x's other bits: against all ones, which are -1 but for u8. */
hod_tensor *hod_bit_not(hod_tensor *x)
{
    if (hod__null("bit_not", "x", x))
        return NULL;
    if (x->dtype == HOD_BOOL)
        return hod_logical_not(x);
    if (hod__is_float(x->dtype))
        return HOD_FAIL(ARGUMENT, "bit_not: not defined for %s",
                        hod_dtype_name((hod_dtype)x->dtype));
    return hod_bit_xor(x, hod__number(x, x->dtype == HOD_U8 ? 255 : -1));
}

/* ---- draws ---- */

/* A point drawn in the plane by distance and angle (Box and Muller, 1958), its first coordinate.
 * The distance comes from 1 - u, which is never 0; a u of 24 bits reaches 5.77. */
hod_tensor *hod_normal(hod_shape shape)
{
    hod_tensor *u = hod_uniform(shape), *v = hod_uniform(shape);
    hod_tensor *distance = hod_sqrt(hod_mul_scalar(hod_log1p(hod_neg(u)), -2));
    return hod_mul(distance, hod_cos(hod_mul_scalar(v, 6.283185307179586)));
}

hod_tensor *hod_bernoulli(hod_tensor *p)
{
    if (hod__null("bernoulli", "p", p))
        return NULL;
    if (!hod__is_float(p->dtype))
        return HOD_FAIL(ARGUMENT, "bernoulli: probabilities of %s",
                        hod_dtype_name((hod_dtype)p->dtype));
    return hod_cast(hod_lt(hod_uniform(hod_tensor_shape(p)), p), (hod_dtype)p->dtype);
}

hod_tensor *hod_dropout(hod_tensor *x, double p)
{
    if (hod__null("dropout", "x", x))
        return NULL;
    if (!(p >= 0 && p <= 1))
        return HOD_FAIL(ARGUMENT, "dropout: probability %g, wanted 0 to 1", p);
    if (p == 0)
        return x;
    hod_tensor *kept = hod_ge_scalar(hod_uniform(hod_tensor_shape(x)), p);
    hod_tensor *zero = hod__number(x, 0);
    return hod_where(kept, p < 1 ? hod_mul_scalar(x, 1 / (1 - p)) : x, zero);
}
