/* What every generated kernel starts with: types, 16-bit floats, and mathematics that vectorises.
 *
 * Printed as text above each kernel and included by tests, hence no #include and no macro of ours
 * that a kernel must define. After it stands the text of ops/uniform_tmpl.h.
 *
 *     void k(void *const *buf, const i64 *arg, i64 begin, i64 end)
 *     {
 *         const float *x = buf[0];
 *         float *y = buf[1];
 *     #pragma omp simd
 *         for (i64 i = begin; i < end; i++)
 *             y[i] = r_tanh(x[i]);
 *     }
 *
 * r_* is f32, d_* is f64, i_* is i64. The f32 functions are polynomials on a reduced range without
 * a data-dependent branch, so gcc and clang vectorise loops over them at -O2 with -fno-math-errno
 * -fno-trapping-math; no -ffast-math is needed and none is wanted: NaN, infinities, signed zeros
 * and denormals come out as in libm. d_* call libm. Polynomials are our own minimax fits
 * (tools/fit_polynomials.py).
 *
 * Largest error in ulp against long double, as test_preamble.c holds it (found over one in 97 of
 * all bit patterns, denormals and huge arguments included), with fused multiply-add | without:
 *
 *     exp     1.0 | 1.0      tanh    1.4 | 1.4      sin  1.6 | 1.6
 *     log     0.9 | 0.9      sigmoid 2.4 | 2.4      cos  1.6 | 1.6
 *     rsqrt   1.5 | 1.5      erf     1.0 | 1.3      pow  0.5 | 0.5
 *     atan    2.8 | 2.8
 *     sqrt    0.5 | 0.5      abs sign floor ceil round max min: exact
 */
#ifndef HOD_CODEGEN_PREAMBLE_H
#define HOD_CODEGEN_PREAMBLE_H

typedef __INT8_TYPE__ i8;
typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __INT32_TYPE__ i32;
typedef __UINT32_TYPE__ u32;
typedef __INT64_TYPE__ i64;
typedef __UINT64_TYPE__ u64;

/* Inlining is what lets the loop around a call vectorise; the compiler's size limits must not
 * decide it. */
#define R_FN static inline __attribute__((always_inline, unused))

/* a * b + c: one rounding where the machine has the instruction. Written out because kernels are
 * compiled with -ffp-contract=off, so that sums outside this file round as written. */
#ifdef __FMA__
#define R_MA(a, b, c) __builtin_fmaf(a, b, c)
#define D_MA(a, b, c) __builtin_fma(a, b, c)
#else
#define R_MA(a, b, c) ((a) * (b) + (c))
#define D_MA(a, b, c) ((a) * (b) + (c))
#endif

/* Names of the operator table (ops.def), under the prefix of each type. */
#define r_highest __builtin_inff()
#define r_lowest  (-__builtin_inff())
#define d_highest __builtin_inf()
#define d_lowest  (-__builtin_inf())
#define i_highest 0x7fffffffffffffff
#define i_lowest  (-0x7fffffffffffffff - 1)
#define i32_highest 0x7fffffff
#define i32_lowest  (-0x7fffffff - 1)
#define u8_highest  255
#define u8_lowest   0
#define R_NAN     __builtin_nanf("")

/* ---- bits ---- */

R_FN u32 r_bits(float x)
{
    u32 u;
    __builtin_memcpy(&u, &x, sizeof u);
    return u;
}

R_FN float r_float(u32 u)
{
    float x;
    __builtin_memcpy(&x, &u, sizeof x);
    return x;
}

R_FN u64 d_bits(double x)
{
    u64 u;
    __builtin_memcpy(&u, &x, sizeof u);
    return u;
}

R_FN double d_float(u64 u)
{
    double x;
    __builtin_memcpy(&x, &u, sizeof x);
    return x;
}

/* ---- 16-bit floats: round to nearest even, NaN stays NaN ---- */

R_FN float r_from_bf16(u16 h)
{
    return r_float((u32)h << 16);
}

R_FN u16 r_to_bf16(float x)
{
    u32 u = r_bits(x);
    u32 rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    u32 nan = (u >> 16) | 0x40;
    return (u16)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

/* The exponent of f16 is 112 too low for f32; a multiplication repairs denormals as well. */
R_FN float r_from_f16(u16 h)
{
    u32 sign = (u32)(h & 0x8000) << 16, value = (u32)(h & 0x7fff) << 13;
    u32 finite = r_bits(r_float(value) * 0x1p112f);
    u32 special = value | 0x7f800000 | (value > (0x7c00u << 13) ? 0x400000u : 0u);
    return r_float((value >= (0x7c00u << 13) ? special : finite) | sign);
}

/* Below 2^-14 the sum with 0.5 does the rounding: its last bit is f16's smallest denormal. */
R_FN u16 r_to_f16(float x)
{
    u32 u = r_bits(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    u32 normal = (a - (112u << 23) + 0xfff + ((a >> 13) & 1)) >> 13;
    u32 tiny = r_bits(r_float(a) + 0.5f) - 0x3f000000u;
    u32 nan = 0x7e00 | (a >> 13 & 0x3ff);
    u32 h = a < (113u << 23) ? tiny : normal;
    h = a >= (143u << 23) ? 0x7c00 : h;
    h = a > 0x7f800000 ? nan : h;
    return (u16)(h | sign);
}

/* ---- exact ones ---- */

R_FN int r_nan(float x)
{
    return x != x;
}

R_FN float r_abs(float x)
{
    return r_float(r_bits(x) & 0x7fffffff);
}

/* -1, 0 or 1; NaN stays. */
R_FN float r_sign(float x)
{
    return x != x ? x : (x > 0 ? 1.0f : 0.0f) - (x < 0 ? 1.0f : 0.0f);
}

/* |x| with the sign bit of s. */
R_FN float r_copysign(float x, float s)
{
    return r_float((r_bits(x) & 0x7fffffff) | (r_bits(s) & 0x80000000));
}

R_FN float r_floor(float x)
{
    return __builtin_floorf(x);
}

R_FN float r_ceil(float x)
{
    return __builtin_ceilf(x);
}

/* Halves go to the even neighbour. */
R_FN float r_round(float x)
{
    return __builtin_rintf(x);
}

/* A NaN in either operand is the result. */
R_FN float r_max(float a, float b)
{
    return a > b || a != a ? a : b;
}

R_FN float r_min(float a, float b)
{
    return a < b || a != a ? a : b;
}

R_FN float r_sqrt(float x)
{
    return __builtin_sqrtf(x);
}

R_FN float r_rsqrt(float x)
{
    return 1.0f / __builtin_sqrtf(x);
}

/* ---- exponentials ---- */

/* x = n ln 2 + r, |r| <= ln 2 / 2; e^x = 2^n e^r. The sum with 1.5 * 2^23 leaves n, rounded, in the
 * low bits of the mantissa. ln 2 is split so that n * (its upper part) is exact. 2^n is applied as
 * two factors, so that results down to the smallest denormal are rounded once. */
R_FN float r_exp(float x)
{
    x = x > 89.0f ? 89.0f : x; /* e^89 overflows, e^-104 rounds to 0; NaN passes both */
    x = x < -104.0f ? -104.0f : x;
    float t = R_MA(x, 0x1.715476p+0f, 0x1.8p23f);
    float n = t - 0x1.8p23f;
    float r = R_MA(n, -0x1.62e4p-1f, x);
    r = R_MA(n, -0x1.7f7d1cp-20f, r);
    float p = 0x1.6a2434p-10f;
    p = R_MA(p, r, 0x1.1239e2p-7f);
    p = R_MA(p, r, 0x1.5558f2p-5f);
    p = R_MA(p, r, 0x1.555492p-3f);
    p = R_MA(p, r, 0x1.fffffcp-2f);
    p = R_MA(p * r, r, r) + 1.0f;
    i32 k = (i32)r_bits(t) - 0x4b400000, k1 = k >> 1, k2 = k - k1;
    return p * r_float((u32)(k1 + 127) << 23) * r_float((u32)(k2 + 127) << 23);
}

/* Through e^-|x|, which cannot overflow: 1 / (1 + z) for x >= 0, z / (1 + z) below. */
R_FN float r_sigmoid(float x)
{
    float z = r_exp(-r_abs(x));
    float y = (x < 0 ? z : 1.0f) / (1.0f + z);
    return x != x ? x : y;
}

/* Odd polynomial below 0.6, 1 - 2 / (e^2|x| + 1) above. */
R_FN float r_tanh(float x)
{
    float a = r_abs(x), t = a * a;
    float p = -0x1.825856p-8f;
    p = R_MA(p, t, 0x1.54b8a0p-6f);
    p = R_MA(p, t, -0x1.b898dep-5f);
    p = R_MA(p, t, 0x1.1109aep-3f);
    p = R_MA(p, t, -0x1.55553ep-2f);
    float low = R_MA(p * t, a, a);
    float high = 1.0f - 2.0f / (r_exp(2.0f * a) + 1.0f);
    return r_copysign(a < 0.6f ? low : high, x);
}

/* Odd polynomial below 1; above, erfc's logarithm is a smooth polynomial: 1 - e^-q(|x|). */
R_FN float r_erf(float x)
{
    float a = r_abs(x), t = a * a;
    float p = 0x1.496a30p-14f;
    p = R_MA(p, t, -0x1.a3f700p-11f);
    p = R_MA(p, t, 0x1.5405b2p-8f);
    p = R_MA(p, t, -0x1.b7f90ep-6f);
    p = R_MA(p, t, 0x1.ce2cf8p-4f);
    p = R_MA(p, t, -0x1.81273ep-2f);
    p = R_MA(p, t, 0x1.06eba8p-3f);
    float low = R_MA(p, a, a); /* the leading 2/sqrt(pi) split as 1 + 0.128: one rounding less */
    float c = a > 3.95f ? 3.95f : a; /* erf rounds to 1 from 3.92 on */
    float q = -0x1.86dd9ap-13f;
    q = R_MA(q, c, 0x1.825b06p-9f);
    q = R_MA(q, c, -0x1.65cb7ep-6f);
    q = R_MA(q, c, 0x1.a65346p-4f);
    q = R_MA(q, c, 0x1.46baecp-1f);
    q = R_MA(q, c, 0x1.2088eap+0f);
    q = R_MA(q, c, 0x1.661cb4p-12f);
    float high = 1.0f - r_exp(-q);
    return r_copysign(a < 1.0f ? low : high, x);
}

/* x times the share of a normal distribution below x; accurate to 2^-23 |x|, not relatively in the
 * left tail, where 1 + erf cancels. */
R_FN float r_gelu(float x)
{
    return 0.5f * x * (1.0f + r_erf(x * 0x1.6a09e6p-1f));
}

/* Turned by pi/2 beyond tan(3 pi/8) and by pi/4 beyond tan(pi/8), where an odd polynomial begins. */
R_FN float r_atan(float x)
{
    float a = r_abs(x);
    int far = a > 0x1.3504f4p+1f, middle = a > 0x1.a8279ap-2f;
    float low = far ? -1.0f / a : middle ? (a - 1.0f) / (a + 1.0f) : a;
    float turn = far ? 0x1.921fb6p+0f : middle ? 0x1.921fb6p-1f : 0.0f;
    float t = low * low;
    float p = 0x1.49ded6p-4f;
    p = R_MA(p, t, -0x1.1c36a2p-3f);
    p = R_MA(p, t, 0x1.9924b4p-3f);
    p = R_MA(p, t, -0x1.555454p-2f);
    return r_copysign(turn + R_MA(p * t, low, low), x);
}

/* x = 2^e (1 + f), 2/3 <= 1 + f < 4/3; log(1 + f) = f - f^2/2 + f^3 p(f). */
R_FN float r_log(float x)
{
    int tiny = x < 0x1p-126f; /* negative x as well; it ends as NaN */
    u32 u = r_bits(tiny ? x * 0x1p24f : x);
    i32 e = (i32)(u - 0x3f2aaaabu) >> 23;
    float f = r_float(u - ((u32)e << 23)) - 1.0f;
    float n = (float)(tiny ? e - 24 : e);
    float p = 0x1.ebd008p-4f;
    p = R_MA(p, f, -0x1.071126p-3f);
    p = R_MA(p, f, 0x1.b87e5cp-4f);
    p = R_MA(p, f, -0x1.f389fcp-4f);
    p = R_MA(p, f, 0x1.24f48cp-3f);
    p = R_MA(p, f, -0x1.559908p-3f);
    p = R_MA(p, f, 0x1.99977ep-3f);
    p = R_MA(p, f, -0x1.ffff0ep-3f);
    p = R_MA(p, f, 0x1.555556p-2f);
    float t = f * f;
    p = R_MA(p * t, f, -0.5f * t);
    float y = R_MA(n, 0x1.62e4p-1f, R_MA(n, 0x1.7f7d1cp-20f, p) + f);
    y = x < r_highest ? y : x;        /* infinity and NaN */
    y = x < 0 ? R_NAN : y;
    return x == 0 ? r_lowest : y;
}

/* a^b as 2^(b log2 |a|) in f64, whose error vanishes in the last rounding; the rest is C's list of
 * special cases. log2 is the atanh series of s = (m - 1) / (m + 1), |s| < 0.172. */
R_FN float r_pow(float a, float b)
{
    double m = (double)r_abs(a); /* a f32 denormal is a normal f64 */
    u64 u = d_bits(m);
    i32 e = (i32)(u >> 32) - 0x3fe6a09e;
    e = e >> 20; /* 2^e: 1/sqrt 2 <= m / 2^e < sqrt 2 */
    double v = d_float(u - ((u64)(i64)e << 52));
    double s = (v - 1.0) / (v + 1.0), t = s * s;
    double p = 0x1.89f3b1694cffep-3;
    p = D_MA(p, t, 0x1.c68f568d31760p-3);
    p = D_MA(p, t, 0x1.0c9a84994022dp-2);
    p = D_MA(p, t, 0x1.484b13d7c02a9p-2);
    p = D_MA(p, t, 0x1.a61762a7aded9p-2);
    p = D_MA(p, t, 0x1.2776c50ef9bfep-1);
    p = D_MA(p, t, 0x1.ec709dc3a03fdp-1);
    p = D_MA(p, t, 0x1.71547652b82fep+1);
    double l = D_MA(p, s, (double)e);
    l = m == 0 ? d_lowest : l;
    l = m < d_highest ? l : m; /* infinity and NaN */
    double w = l * (double)b;
    double z = w > 1000 ? 1000 : w < -1000 ? -1000 : w; /* NaN passes */
    double n = (z + 0x1.8p52) - 0x1.8p52;
    double f = z - n;
    double q = 0x1.b5253d395e7c4p-24;
    q = D_MA(q, f, 0x1.62c0223a5c824p-20);
    q = D_MA(q, f, 0x1.ffcbfc588b0c7p-17);
    q = D_MA(q, f, 0x1.430912f86c787p-13);
    q = D_MA(q, f, 0x1.5d87fe78a6731p-10);
    q = D_MA(q, f, 0x1.3b2ab6fba4e77p-7);
    q = D_MA(q, f, 0x1.c6b08d704a0c0p-5);
    q = D_MA(q, f, 0x1.ebfbdff82c58fp-3);
    q = D_MA(q, f, 0x1.62e42fefa39efp-1);
    q = D_MA(q, f, 1.0);
    u64 k = d_bits(z + 0x1.8p52) << 52; /* n modulo 2^12 as an exponent */
    float y = (float)d_float(d_bits(q) + k);
    y = w != w ? R_NAN : y;
    float h = b * 0.5f; /* exact unless b is tiny, and then it is no integer either way */
    int integer = r_floor(b) == b, odd = integer && r_floor(h) != h;
    y = a < 0 && !integer && r_abs(a) < r_highest ? R_NAN : y;
    y = odd ? r_copysign(y, a) : y;
    int minus_one = a == -1.0f && r_abs(b) == r_highest;
    return a == 1.0f || b == 0.0f || minus_one ? 1.0f : y;
}

/* ---- circular ---- */

/* 2/pi in words of 32 bits after one word of zeros. */
static const u32 r_two_over_pi[10] __attribute__((unused)) = {
    0,           0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u,
    0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u, 0xb7246e3au,
};

/* |x| = (pi/2) (4 j + q) + r with |r| <= pi/4; q is returned. For all finite x: the 24 bits of the
 * mantissa are multiplied with those 96 bits of 2/pi that matter for its exponent, so a huge x costs
 * what a small one does. (Payne and Hanek, 1983.) */
R_FN u32 r_quadrant(float x, float *r)
{
    u32 u = r_bits(x) & 0x7fffffff;
    i32 e = (i32)(u >> 23);
    e = e < 126 ? 126 : e > 254 ? 254 : e; /* below pi/4, and infinity: any valid place will do */
    u64 m = (u & 0x7fffff) | 0x800000;
    i32 place = e - 120, w = place >> 5, shift = place & 31;
    u64 w0 = r_two_over_pi[w], w1 = r_two_over_pi[w + 1];
    u64 w2 = r_two_over_pi[w + 2], w3 = r_two_over_pi[w + 3];
    u64 a = (w0 << 32 | w1) << shift >> 32;
    u64 b = (w1 << 32 | w2) << shift >> 32;
    u64 c = (w2 << 32 | w3) << shift >> 32;
    u64 hi = (m * a << 32) + m * b + (m * c >> 32); /* two bits of quadrant, 62 of fraction */
    u32 q = (u32)((hi + (1ull << 61)) >> 62);
    u64 fraction = hi - ((u64)q << 62);
    double d = (double)(i32)(fraction >> 32) * 0x1p32 + (double)(i32)((u32)fraction >> 1) * 2.0;
    int small = u < 0x3f490fdb;
    *r = small ? r_float(u) : (float)(d * 0x1.921fb54442d18p-62);
    return small ? 0 : q;
}

R_FN float r_sin_poly(float r)
{
    float t = r * r;
    float p = -0x1.994222p-13f;
    p = R_MA(p, t, 0x1.110736p-7f);
    p = R_MA(p, t, -0x1.555546p-3f);
    return R_MA(p * t, r, r);
}

R_FN float r_cos_poly(float r)
{
    float t = r * r;
    float p = 0x1.99ea04p-16f;
    p = R_MA(p, t, -0x1.6c0c2ep-10f);
    p = R_MA(p, t, 0x1.55554ap-5f);
    return R_MA(p * t, t, R_MA(t, -0.5f, 1.0f));
}

R_FN float r_sin(float x)
{
    float r;
    u32 q = r_quadrant(x, &r);
    float s = r_sin_poly(r), c = r_cos_poly(r);
    u32 sign = (q & 2) << 30 ^ (r_bits(x) & 0x80000000);
    float y = r_float(r_bits(q & 1 ? c : s) ^ sign);
    return r_abs(x) < r_highest ? y : R_NAN;
}

R_FN float r_cos(float x)
{
    float r;
    u32 q = r_quadrant(x, &r);
    float s = r_sin_poly(r), c = r_cos_poly(r);
    u32 sign = ((q + 1) & 2) << 30;
    float y = r_float(r_bits(q & 1 ? s : c) ^ sign);
    return r_abs(x) < r_highest ? y : R_NAN;
}

/* ---- f64: libm ---- */

#define D_LIBM(name)                                                                               \
    R_FN double d_##name(double x)                                                                 \
    {                                                                                              \
        return __builtin_##name(x);                                                                \
    }
D_LIBM(exp)
D_LIBM(log)
D_LIBM(sqrt)
D_LIBM(tanh)
D_LIBM(erf)
D_LIBM(sin)
D_LIBM(cos)
D_LIBM(atan)
D_LIBM(floor)
D_LIBM(ceil)
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
    return a > b || a != a ? a : b;
}

R_FN double d_min(double a, double b)
{
    return a < b || a != a ? a : b;
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

R_FN double d_gelu(double x)
{
    return 0.5 * x * (1.0 + __builtin_erf(x * 0x1.6a09e667f3bcdp-1));
}

R_FN double d_pow(double a, double b)
{
    return __builtin_pow(a, b);
}

/* ---- i64. i32, u8 and bool are computed in i64 too: storing takes the low bits, and those do not
 * depend on the width. Wrapping is meant, so arithmetic on the sign's edge goes through u64. ---- */

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

#endif
