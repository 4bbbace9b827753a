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
UNARY(expm1)
UNARY(log1p)
UNARY(trunc)
UNARY(mish)
UNARY(hardswish)
UNARY(hardsigmoid)
UNARY(bit_not)
BIND(logsigmoid, hod_log_sigmoid(T(input)))
BIND(leaky_relu, hod_leaky_relu(T(input), REAL(negative_slope, 0.01)))
BIND(elu, hod_elu(T(input), REAL(alpha, 1)))
BIND(softplus, hod_softplus_with(T(input), REAL(beta, 1), REAL(threshold, 20)))

/* PyTorch's slope at NaN is 1 or 0, by whether its vectors reach the element. */
static int clamped(gold *c, double low, double high)
{
    return gold_any_nan(c) ? gold_skip(c, "PyTorch's slope at NaN depends on the place")
                           : gold_one(c, hod_clamp(T(input), low, high));
}

static int bind_relu6(gold *c)
{
    return clamped(c, 0, 6);
}

static int bind_hardtanh(gold *c)
{
    return clamped(c, REAL(min_val, -1), REAL(max_val, 1));
}

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
BIND(logical_xor, hod_logical_xor(T(input), T(other)))
BIND(bit_and, hod_bit_and(operand(c, "input"), operand(c, "other")))
BIND(bit_or, hod_bit_or(operand(c, "input"), operand(c, "other")))
BIND(bit_xor, hod_bit_xor(operand(c, "input"), operand(c, "other")))
BIND(shift_left, hod_shift_left(operand(c, "input"), operand(c, "other")))
BIND(shift_right, hod_shift_right(operand(c, "input"), operand(c, "other")))
BIND(floor_divide, hod_floor_divide(operand(c, "input"), operand(c, "other")))
BIND(remainder, hod_remainder(operand(c, "input"), operand(c, "other")))
BIND(fmod, hod_fmod(operand(c, "input"), operand(c, "other")))
BIND(div_trunc, hod_trunc_divide(operand(c, "input"), operand(c, "other")))

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

BIND(lerp, hod_lerp(T(input), T(end), operand(c, "weight")))

static int bind_gelu(gold *c)
{
    bool exact = strcmp(TEXT(approximate, "none"), "none") == 0;
    return gold_one(c, exact ? hod_gelu(T(input)) : hod_gelu_tanh(T(input)));
}

/* Bounds are tensors, numbers or absent. */
static int bind_clamp(gold *c)
{
    json_t *low = gold_json(c, "min"), *high = gold_json(c, "max");
    bool has_low = gold_is_tensor(c, "min") || (low && !json_is_null(low));
    bool has_high = gold_is_tensor(c, "max") || (high && !json_is_null(high));
    hod_tensor *x = T(input);
    if (has_low && has_high)
        return gold_one(c, hod_clip(x, operand(c, "min"), operand(c, "max")));
    return gold_one(c, has_low ? hod_maximum(x, operand(c, "min"))
                               : hod_minimum(x, operand(c, "max")));
}

BIND(clamp_min, hod_maximum(T(input), operand(c, "other")))
BIND(clamp_max, hod_minimum(T(input), operand(c, "other")))

/* What is drawn has its own tests; without a draw there is something to compare. */
static int bind_dropout(gold *c)
{
    double p = REAL(p, 0.5);
    if (FLAG(training, true) && p > 0 && p < 1)
        return gold_skip(c, "other draws");
    return gold_one(c, FLAG(training, true) ? hod_dropout(T(input), p) : T(input));
}

static int bind_rsub(gold *c)
{
    hod_tensor *x = T(input);
    double alpha = REAL(alpha, 1);
    return gold_one(c, hod_sub(operand(c, "other"), alpha == 1 ? x : hod_mul_scalar(x, alpha)));
}

/* ---- casts ---- */

BIND(float, hod_cast(T(input), HOD_F32))
BIND(double, hod_cast(T(input), HOD_F64))
BIND(half, hod_cast(T(input), HOD_F16))
BIND(bfloat16, hod_cast(T(input), HOD_BF16))
BIND(bool, hod_cast(T(input), HOD_BOOL))
BIND(int, hod_cast(T(input), HOD_I32))
BIND(long, hod_cast(T(input), HOD_I64))
BIND(byte, hod_cast(T(input), HOD_U8))

#define ROUGH_SIXTH "PyTorch's slope in f64 is 1/6 rounded to f32"
#define COARSE      .empty[GOLD_GRADCHECK] = "the result is too coarse for differences"

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
    ROW("expm1", bind_expm1),
    ROW("log1p", bind_log1p),
    ROW("trunc", bind_trunc),
    ROW("mish", bind_mish),
    ROW("hardswish", bind_hardswish),
    ROW("hardsigmoid", bind_hardsigmoid,
        .empty = {[GOLD_GRADIENT] = ROUGH_SIXTH, [GOLD_STRIDED] = ROUGH_SIXTH}),
    ROW("dropout", bind_dropout, .empty[GOLD_COMPILED] = "other draws"),
    ROW("rsub", bind_rsub),
    ROW("byte", bind_byte),
    ROW("relu6", bind_relu6),
    ROW("hardtanh", bind_hardtanh),
    ROW("leaky_relu", bind_leaky_relu),
    ROW("elu", bind_elu),
    ROW("softplus", bind_softplus),
    ROW("logsigmoid", bind_logsigmoid),
    ROW("logical_xor", bind_logical_xor),
    ROW("bitwise_and", bind_bit_and),
    ROW("bitwise_or", bind_bit_or),
    ROW("bitwise_xor", bind_bit_xor),
    ROW("bitwise_not", bind_bit_not),
    ROW("bitwise_left_shift", bind_shift_left),
    ROW("bitwise_right_shift", bind_shift_right),
    ROW("div.trunc_rounding", bind_div_trunc),
    ROW("div.floor_rounding", bind_floor_divide),
    ROW("floor_divide", bind_floor_divide),
    ROW("remainder", bind_remainder),
    ROW("fmod", bind_fmod),
    ROW("clamp", bind_clamp),
    ROW("clamp_min", bind_clamp_min),
    ROW("clamp_max", bind_clamp_max),
    ROW("lerp", bind_lerp),
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
