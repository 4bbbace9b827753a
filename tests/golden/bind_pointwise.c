/* Elementwise functions, with broadcasting, with numbers; casts. */
#include "golden.h"
#include <string.h>

#define UNARY(name) BIND(name, hod_##name(T(input)))
UNARY(neg)
UNARY(reciprocal)
UNARY(exp)
UNARY(log)
UNARY(sqrt)
UNARY(rsqrt)
UNARY(square)
UNARY(sin)
UNARY(cos)
UNARY(tanh)
UNARY(sigmoid)
UNARY(erf)
UNARY(floor)
UNARY(ceil)
UNARY(round)
UNARY(isnan)
UNARY(isinf)
UNARY(isfinite)
UNARY(logical_not)
UNARY(relu)
UNARY(silu)

/* The sign of NaN, and with it the slope of abs there, is NaN here and 0 in PyTorch. */
static int sign_like(gold *c, hod_tensor *(*f)(hod_tensor *))
{
    return gold_any_nan(c) ? gold_skip(c, "the sign of NaN is NaN, not 0")
                           : gold_one(c, f(T(input)));
}

static int bind_abs(gold *c)
{
    return sign_like(c, hod_abs);
}

static int bind_sign(gold *c)
{
    return sign_like(c, hod_sign);
}

/* ---- two operands; either may be a number ---- */

typedef hod_tensor *binary(hod_tensor *, hod_tensor *);
typedef hod_tensor *with_number(hod_tensor *, double);

/* A number as a 0-d tensor, which decides among kinds only. */
static hod_tensor *operand(gold *c, const char *name)
{
    if (gold_is_tensor(c, name))
        return gold_tensor(c, name);
    json_t *v = gold_json(c, name);
    return hod_full(json_is_boolean(v)   ? HOD_BOOL
                    : json_is_integer(v) ? HOD_I64
                                         : HOD_F64,
                    HOD_SHAPE(), gold_real(c, name, 0));
}

static int run_binary(gold *c, const char *b, binary *with, with_number *number)
{
    if (!gold_is_tensor(c, b) && number)
        return gold_one(c, number(T(input), gold_real(c, b, 0)));
    return gold_one(c, with(operand(c, "input"), operand(c, b)));
}
#define BINARY(name)                                                                               \
    static int bind_##name(gold *c)                                                                \
    {                                                                                              \
        return run_binary(c, "other", hod_##name, hod_##name##_scalar);                            \
    }
BINARY(mul)
BINARY(div)
BINARY(maximum)
BINARY(minimum)
BINARY(eq)
BINARY(ne)
BINARY(lt)
BINARY(le)
BINARY(gt)
BINARY(ge)
BIND(logical_and, hod_logical_and(T(input), T(other)))
BIND(logical_or, hod_logical_or(T(input), T(other)))

static int bind_pow(gold *c)
{
    return run_binary(c, "exponent", hod_pow, hod_pow_scalar);
}

/* input + alpha other, input - alpha other */
static int run_sum(gold *c, binary *with, with_number *number)
{
    double alpha = REAL(alpha, 1);
    if (!gold_is_tensor(c, "other"))
        return gold_one(c, number(T(input), alpha * REAL(other, 0)));
    return gold_one(
        c, with(operand(c, "input"), alpha == 1 ? T(other) : hod_mul_scalar(T(other), alpha)));
}

static int bind_add(gold *c)
{
    return run_sum(c, hod_add, hod_add_scalar);
}

static int bind_sub(gold *c)
{
    return run_sum(c, hod_sub, hod_sub_scalar);
}

BIND(where, hod_where(T(condition), T(input), T(other)))

static int bind_gelu(gold *c)
{
    if (strcmp(TEXT(approximate, "none"), "none") != 0)
        return gold_skip(c, "gelu by tanh is not bound");
    return gold_one(c, hod_gelu(T(input)));
}

/* ---- casts ---- */

BIND(float, hod_cast(T(input), HOD_F32))
BIND(double, hod_cast(T(input), HOD_F64))
BIND(half, hod_cast(T(input), HOD_F16))
BIND(bfloat16, hod_cast(T(input), HOD_BF16))
BIND(bool, hod_cast(T(input), HOD_BOOL))
BIND(int, hod_cast(T(input), HOD_I32))
BIND(long, hod_cast(T(input), HOD_I64))

#define COARSE .empty[GOLD_GRADCHECK] = "the result is too coarse for differences"

static const gold_binding rows[] = {
    ROW("neg", bind_neg),
    ROW("abs", bind_abs),
    ROW("sign", bind_sign),
    ROW("reciprocal", bind_reciprocal),
    ROW("exp", bind_exp),
    ROW("log", bind_log),
    ROW("sqrt", bind_sqrt),
    ROW("rsqrt", bind_rsqrt),
    ROW("square", bind_square),
    ROW("sin", bind_sin),
    ROW("cos", bind_cos),
    ROW("tanh", bind_tanh),
    ROW("sigmoid", bind_sigmoid),
    ROW("erf", bind_erf),
    ROW("floor", bind_floor),
    ROW("ceil", bind_ceil),
    ROW("round", bind_round),
    ROW("isnan", bind_isnan),
    ROW("isinf", bind_isinf),
    ROW("isfinite", bind_isfinite),
    ROW("logical_not", bind_logical_not),
    ROW("relu", bind_relu),
    ROW("silu", bind_silu),
    ROW("gelu", bind_gelu),
    ROW("add", bind_add),
    ROW("sub", bind_sub),
    ROW("mul", bind_mul),
    ROW("div.no_rounding_mode", bind_div),
    ROW("pow", bind_pow),
    ROW("maximum", bind_maximum),
    ROW("minimum", bind_minimum),
    ROW("eq", bind_eq),
    ROW("ne", bind_ne),
    ROW("lt", bind_lt),
    ROW("le", bind_le),
    ROW("gt", bind_gt),
    ROW("ge", bind_ge),
    ROW("logical_and", bind_logical_and),
    ROW("logical_or", bind_logical_or),
    ROW("where", bind_where),
    ROW("float", bind_float, COARSE),
    ROW("double", bind_double),
    ROW("half", bind_half, COARSE),
    ROW("bfloat16", bind_bfloat16, COARSE),
    ROW("bool", bind_bool),
    ROW("int", bind_int),
    ROW("long", bind_long),
};
GOLD_FAMILY(pointwise, 1599, 1018)
