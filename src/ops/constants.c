/* Constants, and operators with a number: it takes x's type, unless that cannot hold it. */
#include "ops/rules.h"

/* Does the type hold the number? Unsigned ones wrap the negative of what they hold, so that adding
 * -1 takes 1 away; a bool holds whether it is 0. */
bool hod__holds(hod_dtype dtype, double value)
{
    static const double end[HOD_DTYPES] = {
        [HOD_I64] = 0x1p63, [HOD_I32] = 0x1p31, [HOD_U8] = 0x1p8};
    return hod__is_float(dtype) || dtype >= HOD_BOOL ||
           (value < end[dtype] && value >= -end[dtype]);
}

hod_tensor *hod_full(hod_dtype dtype, hod_shape shape, double value)
{
    if (!hod__holds(dtype, value))
        return HOD_FAIL(ARGUMENT, "full: %g is outside %s", value, hod_dtype_name(dtype));
    HOD_ATTRS(a);
    a.full.value = value;
    a.full.dtype = dtype;
    a.full.shape = shape;
    return hod__op(HOD_OP_full, &a, 0, NULL);
}

hod_tensor *hod__number(const hod_tensor *like, double value)
{
    return like ? hod_full((hod_dtype)like->dtype, HOD_SHAPE(), value) : NULL;
}

hod_tensor *hod_full_like(hod_tensor *x, double value)
{
    return hod__null("full_like", "x", x)
               ? NULL
               : hod_full((hod_dtype)x->dtype, hod_tensor_shape(x), value);
}

hod_tensor *hod_iota(hod_dtype dtype, hod_shape shape, int dim)
{
    HOD_ATTRS(a);
    int d = hod__dim("iota", dim, HOD_MAX(shape.n, 1));
    if (d < 0)
        return NULL;
    a.iota.dtype = dtype;
    a.iota.shape = shape;
    a.iota.dim = d;
    return hod__op(HOD_OP_iota, &a, 0, NULL);
}

hod_tensor *hod_arange(hod_dtype dtype, int64_t n)
{
    return hod_iota(dtype, HOD_SHAPE(n), 0);
}

hod_tensor *hod_uniform(hod_shape shape)
{
    hod_random_key *k = hod__random();
    if (!k)
        return NULL;
    HOD_ATTRS(a);
    a.uniform.stream = k->stream++;
    a.uniform.shape = shape;
    hod_tensor *index = k->index ? k->index : hod_arange(HOD_I64, shape.n > 0 ? shape.d[0] : 1);
    return hod__op(HOD_OP_uniform, &a, 2, (hod_tensor *[]){k->key, index});
}

/* ---- with a number ---- */

/* The number as a 0-d tensor of x's type; f32 when x is of integers and s is none. */
static hod_tensor *operand(hod_tensor *x, double s)
{
    if (!x)
        return NULL;
    bool whole = s == (double)(int64_t)HOD_MAX(HOD_MIN(s, 9e18), -9e18);
    bool widen = !hod__is_float(x->dtype) && !whole;
    if (x->dtype == HOD_BOOL && whole && s != 0 && s != 1)
        return hod_full(HOD_I64, HOD_SHAPE(), s);
    return hod_full(widen ? HOD_F32 : (hod_dtype)x->dtype, HOD_SHAPE(), s);
}

#define WITH_NUMBER(name)                                                                          \
    hod_tensor *hod_##name##_scalar(hod_tensor *x, double s)                                       \
    {                                                                                              \
        return hod_##name(x, operand(x, s));                                                       \
    }
WITH_NUMBER(add)
WITH_NUMBER(sub)
WITH_NUMBER(mul)
WITH_NUMBER(div)
WITH_NUMBER(maximum)
WITH_NUMBER(minimum)
WITH_NUMBER(eq)
WITH_NUMBER(ne)
WITH_NUMBER(lt)
WITH_NUMBER(le)
WITH_NUMBER(gt)
WITH_NUMBER(ge)

hod_tensor *hod_pow_scalar(hod_tensor *x, double s)
{
    return x && s == 2 && hod__is_float(x->dtype) ? hod_square(x) : hod_pow(x, operand(x, s));
}

hod_tensor *hod_clamp(hod_tensor *x, double low, double high)
{
    if (!(low <= high))
        return HOD_FAIL(ARGUMENT, "clamp: from %g to %g, the first must not be the greater", low,
                        high);
    return hod_clip(x, operand(x, low), operand(x, high));
}

hod_tensor *hod_square(hod_tensor *x)
{
    return hod_mul(x, x);
}
