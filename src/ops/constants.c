/* Constants, and operators with a number: it takes x's type, unless that cannot hold it. */
#include "ops/rules.h"
#include <math.h>

/* A bool holds whether a number is 0. */
bool hod__in_range(hod_dtype dtype, double value)
{
    static const double end[HOD_DTYPES] = {
        [HOD_I64] = 0x1p63, [HOD_I32] = 0x1p31, [HOD_U8] = 0x1p8};
    return hod__is_float(dtype) || dtype >= HOD_BOOL ||
           (value < end[dtype] && value >= (dtype == HOD_U8 ? 0 : -end[dtype]));
}

hod_tensor *hod_full(hod_dtype dtype, hod_shape shape, double value)
{
    if (!hod__in_range(dtype, value))
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
    int64_t size = shape.n > 0 && shape.n <= HOD_MAX_DIMS ? shape.d[d] : 0;
    if (size > 1 && !hod__in_range(dtype, (double)(size - 1)))
        return HOD_FAIL(ARGUMENT, "iota: %lld is outside %s", (long long)size - 1,
                        hod_dtype_name(dtype));
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
    bool whole = isfinite(s) && s == trunc(s);
    bool widen = !hod__is_float(x->dtype) && !whole;
    if (x->dtype == HOD_BOOL && whole && s != 0 && s != 1)
        return hod_full(HOD_I64, HOD_SHAPE(), s);
    return hod_full(widen ? HOD_F32 : (hod_dtype)x->dtype, HOD_SHAPE(), s);
}

/* Of sums and products: u8 has them modulo 256, so adding -1, which it does not hold, is adding
 * 255. */
static hod_tensor *term(hod_tensor *x, double s)
{
    bool wraps = x && x->dtype == HOD_U8 && s < 0 && s >= -255 && s == (double)(int)s;
    return operand(x, wraps ? s + 256 : s);
}

/* Of quotients and powers, which integers have in f32. */
static hod_tensor *real_operand(hod_tensor *x, double s)
{
    return x ? hod_full(hod__is_float(x->dtype) ? (hod_dtype)x->dtype : HOD_F32, HOD_SHAPE(), s)
             : NULL;
}

#define WITH_NUMBER(name, op, number)                                                              \
    hod_tensor *name(hod_tensor *x, double s)                                                      \
    {                                                                                              \
        return op(x, number(x, s));                                                                \
    }
WITH_NUMBER(hod_add_scalar, hod_add, term)
WITH_NUMBER(hod_sub_scalar, hod_sub, term)
WITH_NUMBER(hod_mul_scalar, hod_mul, term)
WITH_NUMBER(hod_div_scalar, hod_div, real_operand)
WITH_NUMBER(hod_maximum_scalar, hod_maximum, operand)
WITH_NUMBER(hod_minimum_scalar, hod_minimum, operand)
WITH_NUMBER(hod_eq_scalar, hod_eq, operand)
WITH_NUMBER(hod_ne_scalar, hod_ne, operand)
WITH_NUMBER(hod_lt_scalar, hod_lt, operand)
WITH_NUMBER(hod_le_scalar, hod_le, operand)
WITH_NUMBER(hod_gt_scalar, hod_gt, operand)
WITH_NUMBER(hod_ge_scalar, hod_ge, operand)

hod_tensor *hod_pow_scalar(hod_tensor *x, double s)
{
    return x && s == 2 && hod__is_float(x->dtype) ? hod_square(x) : hod_pow(x, real_operand(x, s));
}

hod_tensor *hod_clamp(hod_tensor *x, double low, double high)
{
    if (!(low <= high))
        return HOD_FAIL(ARGUMENT, "clamp: bounds %g and %g, wanted two numbers in order", low,
                        high);
    return hod_clip(x, operand(x, low), operand(x, high));
}

hod_tensor *hod_square(hod_tensor *x)
{
    return hod_mul(x, x);
}
