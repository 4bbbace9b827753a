/* Functions of the operators on f64 and i64. See kernel_math.h; the text is also printed at the top
 * of every generated kernel.
 */

/* Names of the operator table (ops.def), under the prefix of each type. */
#define i_highest   0x7fffffffffffffff
#define i_lowest    (-0x7fffffffffffffff - 1)
#define i32_highest 0x7fffffff
#define i32_lowest  (-0x7fffffff - 1)
#define u8_highest  255
#define u8_lowest   0

/* ---- f64: libm ---- */

#define D_LIBM(name)                                                                               \
    R_FN double d_##name(double x)                                                                 \
    {                                                                                              \
        return __builtin_##name(x);                                                                \
    }
D_LIBM(exp)
D_LIBM(expm1)
D_LIBM(log)
D_LIBM(log1p)
D_LIBM(sqrt)
D_LIBM(tanh)
D_LIBM(erf)
D_LIBM(sin)
D_LIBM(cos)
D_LIBM(atan)
D_LIBM(floor)
D_LIBM(ceil)
D_LIBM(trunc)
#undef D_LIBM

R_FN int d_nan(double x)
{
    return x != x;
}

R_FN double d_abs(double x)
{
    return __builtin_fabs(x);
}

R_FN double d_sign(double x)
{
    return x != x ? x : (x > 0 ? 1.0 : 0.0) - (x < 0 ? 1.0 : 0.0);
}

R_FN double d_round(double x)
{
    return __builtin_rint(x);
}

R_FN double d_max(double a, double b)
{
    double greater = a > b ? a : b;
    return a != a ? a : greater;
}

R_FN double d_min(double a, double b)
{
    double lesser = a < b ? a : b;
    return a != a ? a : lesser;
}

R_FN double d_clamp(double a, double low, double high)
{
    return d_min(d_max(a, low), high);
}

R_FN double d_rsqrt(double x)
{
    return 1.0 / __builtin_sqrt(x);
}

R_FN double d_sigmoid(double x)
{
    double z = __builtin_exp(-__builtin_fabs(x));
    double y = (x < 0 ? z : 1.0) / (1.0 + z);
    return x != x ? x : y;
}

R_FN double d_silu(double x)
{
    return x * d_sigmoid(x);
}

R_FN double d_gelu(double x)
{
    return 0.5 * x * __builtin_erfc(x * -0x1.6a09e667f3bcdp-1);
}

R_FN double d_gelu_tanh(double x)
{
    double y =
        x / (1.0 + __builtin_exp(x * (x * x * -0x1.2444f2a4d8b4bp-4 + -0x1.9884533d43651p+0)));
    return x == d_highest ? x : y;
}

R_FN double d_softplus(double x)
{
    return (x > 0 ? x : 0.0) + __builtin_log1p(__builtin_exp(-__builtin_fabs(x)));
}

R_FN double d_mish(double x)
{
    double e = __builtin_exp(x > 40.0 ? 40.0 : x), n = e * (e + 2.0);
    return x * (n / (n + 2.0));
}

R_FN double d_fmod(double a, double b)
{
    return __builtin_fmod(a, b);
}

/* Has the remainder m the other sign than b? */
R_FN int d_is_below(double m, double b)
{
    return m != 0 && (b < 0) != (m < 0);
}

R_FN double d_remainder(double a, double b)
{
    double m = __builtin_fmod(a, b);
    return d_is_below(m, b) ? m + b : m;
}

R_FN double d_floor_divide(double a, double b)
{
    double q = a / b, m = __builtin_fmod(a, b);
    double whole = __builtin_rint((a - m) / b) - (d_is_below(m, b) ? 1.0 : 0.0);
    return b == 0 ? q : whole == 0 ? __builtin_copysign(0, q) : whole;
}

R_FN double d_pow(double a, double b)
{
    return __builtin_pow(a, b);
}

/* ---- i64. i32, u8 and bool are computed in i64 too: storing takes the low bits, and those do not
 * depend on the width. Wrapping is meant, so arithmetic at the edge goes through u64. ---- */

R_FN int i_nan(i64 x)
{
    (void)x;
    return 0;
}

R_FN i64 i_abs(i64 x)
{
    return x < 0 ? (i64)(0 - (u64)x) : x;
}

R_FN i64 i_sign(i64 x)
{
    return (x > 0) - (x < 0);
}

R_FN i64 i_max(i64 a, i64 b)
{
    return a > b ? a : b;
}

R_FN i64 i_min(i64 a, i64 b)
{
    return a < b ? a : b;
}

R_FN i64 i_clamp(i64 a, i64 low, i64 high)
{
    return i_min(i_max(a, low), high);
}

/* An integer is its own neighbour. */
#define I_WHOLE(name)                                                                              \
    R_FN i64 i_##name(i64 x)                                                                       \
    {                                                                                              \
        return x;                                                                                  \
    }
I_WHOLE(floor)
I_WHOLE(ceil)
I_WHOLE(trunc)
I_WHOLE(round)
#undef I_WHOLE

R_FN i64 i_and(i64 a, i64 b)
{
    return a & b;
}

R_FN i64 i_or(i64 a, i64 b)
{
    return a | b;
}

R_FN i64 i_xor(i64 a, i64 b)
{
    return a ^ b;
}

/* By less than 0 or more than all bits: everything is shifted out. */
R_FN i64 i_shift_left(i64 a, i64 b)
{
    return b < 0 || b > 63 ? 0 : (i64)((u64)a << (b & 63));
}

R_FN i64 i_shift_right(i64 a, i64 b)
{
    return a >> (b < 0 || b > 63 ? 63 : b);
}

/* Division of integers: by 0 all three give 0, and the least number by -1 wraps. */
R_FN i64 i_fmod(i64 a, i64 b)
{
    return b == 0 || b == -1 ? 0 : a % b;
}

R_FN i64 i_remainder(i64 a, i64 b)
{
    i64 m = i_fmod(a, b);
    return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}

R_FN i64 i_floor_divide(i64 a, i64 b)
{
    i64 down = i_remainder(a, b) != i_fmod(a, b);
    return b == 0 ? 0 : b == -1 ? (i64)(0 - (u64)a) : a / b - down;
}
