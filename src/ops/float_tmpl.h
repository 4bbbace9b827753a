/* Arithmetic of the operators on f32: types, bits, 16-bit floats, exact functions, exponentials and
 * logarithms. See kernel_math.h; the text is also printed at the top of every generated kernel.
 */

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

#define R_NAN __builtin_nanf("")

/* Names of the operator table (ops.def), under the prefix of each type. */
#define r_highest __builtin_inff()
#define r_lowest  (-__builtin_inff())
#define d_highest __builtin_inf()
#define d_lowest  (-__builtin_inf())

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

R_FN float r_trunc(float x)
{
    return __builtin_truncf(x);
}

/* Halves go to the even neighbour. */
R_FN float r_round(float x)
{
    return __builtin_rintf(x);
}

/* A NaN in either operand is the result. Two choices, not one with an `or`, which compilers turn
 * into branches; and a fold whose `acc` is b does not wait for the one about a. */
R_FN float r_max(float a, float b)
{
    float greater = a > b ? a : b;
    return a != a ? a : greater;
}

R_FN float r_min(float a, float b)
{
    float lesser = a < b ? a : b;
    return a != a ? a : lesser;
}

/* yes where c, else no, by bits. */
R_FN float r_pick(int c, float yes, float no)
{
    u32 mask = 0 - (u32)(c != 0);
    return r_float((r_bits(yes) & mask) | (r_bits(no) & ~mask));
}

/* r_min(r_max(a, low), high). By bits, because compilers turn the nested choices of floats into
 * eight comparisons with masks. */
R_FN float r_clamp(float a, float low, float high)
{
    float m = r_pick(a != a, a, a > low ? a : low);
    return r_pick(m != m, m, m < high ? m : high);
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

/* e^r - 1 for |r| <= ln 2 / 2. */
R_FN float r_expm1_reduced(float r)
{
    float p = 0x1.6a2434p-10f;
    p = R_MA(p, r, 0x1.1239e2p-7f);
    p = R_MA(p, r, 0x1.5558f2p-5f);
    p = R_MA(p, r, 0x1.555492p-3f);
    p = R_MA(p, r, 0x1.fffffcp-2f);
    return R_MA(p * r, r, r);
}

/* p 2^k as two factors, so that results down to the smallest denormal are rounded once. */
R_FN float r_scaled(float p, i32 k)
{
    i32 k1 = k >> 1, k2 = k - k1;
    return p * r_float((u32)(k1 + 127) << 23) * r_float((u32)(k2 + 127) << 23);
}

/* The same where k is at most 60 and at least -190: one factor has room below, one is constant. */
R_FN float r_scaled_down(float p, i32 k)
{
    return p * r_float((u32)(k + 191) << 23) * 0x1p-64f;
}

/* e^(x + lo) = (1 + q) 2^k for -115 < x <= 0 and a much smaller lo; q is returned. */
R_FN float r_expm1_parts(float x, float lo, i32 *k)
{
    float t = R_MA(x, 0x1.715476p+0f, 0x1.8p23f);
    float n = t - 0x1.8p23f;
    float r = R_MA(n, -0x1.62e4p-1f, x) + R_MA(n, -0x1.7f7d1cp-20f, lo);
    *k = (i32)r_bits(t) - 0x4b400000;
    return r_expm1_reduced(r);
}

/* e^x = p 2^k. x = n ln 2 + r, |r| <= ln 2 / 2, e^x = 2^n e^r. The sum with 1.5 * 2^23 leaves n,
 * rounded, in the low bits of the mantissa. ln 2 is split so that n * (its upper part) is exact.
 * Whoever wants a e^x scales a p: a e^x may be a normal number where e^x is none. */
R_FN float r_exp_parts(float x, i32 *k)
{
    x = x > 89.0f ? 89.0f : x; /* e^89 overflows, e^-110 times 100 rounds to 0; NaN passes both */
    x = x < -110.0f ? -110.0f : x;
    float t = R_MA(x, 0x1.715476p+0f, 0x1.8p23f);
    float n = t - 0x1.8p23f;
    float r = R_MA(n, -0x1.62e4p-1f, x);
    r = R_MA(n, -0x1.7f7d1cp-20f, r);
    *k = (i32)r_bits(t) - 0x4b400000;
    return r_expm1_reduced(r) + 1.0f;
}

/* The same of a f64: where the exponent is itself a product, its rounding to f32 would show as many
 * ulp as the exponent is large. */
R_FN float r_exp_parts_wide(double x, i32 *k)
{
    x = x > 89.0 ? 89.0 : x;
    x = x < -110.0 ? -110.0 : x;
    double t = D_MA(x, 0x1.71547652b82fep+0, 0x1.8p52);
    float r = (float)D_MA(t - 0x1.8p52, -0x1.62e42fefa39efp-1, x);
    *k = (i32)(u32)d_bits(t);
    return r_expm1_reduced(r) + 1.0f;
}

R_FN float r_exp(float x)
{
    i32 k;
    float p = r_exp_parts(x, &k);
    return r_scaled(p, k);
}

/* 2^n (e^r - 1) + (2^n - 1), at half size because 2^128 is no float. */
R_FN float r_expm1(float x)
{
    float c = x > 89.0f ? 89.0f : x;
    c = c < -18.0f ? -18.0f : c; /* e^-18 is below half an ulp of 1 */
    float t = R_MA(c, 0x1.715476p+0f, 0x1.8p23f);
    float n = t - 0x1.8p23f;
    float r = R_MA(n, -0x1.62e4p-1f, c);
    r = R_MA(n, -0x1.7f7d1cp-20f, r);
    float s = r_float((r_bits(t) - 0x4b400000u + 126u) << 23);
    float y = 2.0f * R_MA(r_expm1_reduced(r), s, s - 0.5f);
    return r_abs(x) < 0x1p-25f ? x : y;
}

/* ---- logarithms ---- */

/* log(1 + f) - f for 2/3 <= 1 + f < 4/3: -f^2/2 + f^3 p(f). */
R_FN float r_log_tail(float f)
{
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
    return R_MA(p * t, f, -0.5f * t);
}

/* x = 2^e (1 + f), 2/3 <= 1 + f < 4/3. */
R_FN float r_log(float x)
{
    int tiny = x < 0x1p-126f; /* negative x as well; it ends as NaN */
    u32 u = r_bits(tiny ? x * 0x1p24f : x);
    i32 e = (i32)(u - 0x3f2aaaabu) >> 23;
    float f = r_float(u - ((u32)e << 23)) - 1.0f;
    float n = (float)(tiny ? e - 24 : e);
    float y = R_MA(n, 0x1.62e4p-1f, R_MA(n, 0x1.7f7d1cp-20f, r_log_tail(f)) + f);
    y = x < r_highest ? y : x; /* infinity and NaN */
    y = x < 0 ? R_NAN : y;
    return x == 0 ? r_lowest : y;
}

/* 1 + x = 2^e (1 + f). f comes from x itself, x 2^-e + (2^-e - 1), so that what 1 + x loses is not
 * lost; from 2^25 on, nothing is. */
R_FN float r_log1p(float x)
{
    u32 u = r_bits(1.0f + x);
    i32 e = (i32)(u - 0x3f2aaaabu) >> 23;
    float s = r_float((u32)(127 - (e > 25 ? 25 : e)) << 23);
    float f = e > 25 ? r_float(u - ((u32)e << 23)) - 1.0f : R_MA(x, s, s - 1.0f);
    float n = (float)e;
    float y = R_MA(n, 0x1.62e4p-1f, R_MA(n, 0x1.7f7d1cp-20f, r_log_tail(f)) + f);
    y = x < r_highest ? y : x;
    y = x < -1.0f ? R_NAN : y;
    y = r_abs(x) < 0x1p-25f ? x : y;
    return x == -1.0f ? r_lowest : y;
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

/* ---- division with remainder ---- */

/* Is the quotient small enough for r_fmod_near? */
R_FN int r_is_near(float a, float b)
{
    return (int)(r_abs(a) < 0x1p23f * r_abs(b)) & (int)(r_abs(b) < r_highest);
}

/* What a leaves of multiples of b, with the sign of a; exact. The rounded quotient, cut to an
 * integer below 2^23, is the true one or 1 more; its product with b and the difference fit a
 * f64. */
R_FN float r_fmod_near(float a, float b)
{
    float x = r_abs(a), y = r_abs(b);
    double m = D_MA(-(double)r_trunc(x / y), (double)y, (double)x);
    return r_copysign((float)(m < 0 ? m + (double)y : m), a);
}

R_FN float r_fmod(float a, float b)
{
    return r_is_near(a, b) ? r_fmod_near(a, b) : __builtin_fmodf(a, b);
}

/* The remainders of a by b with the sign of b, and the floor of a / b, from m = r_fmod(a, b): a
 * less m is a multiple of b, up to rounding, and the floor is 1 less where the signs differ. */
R_FN int r_is_below(float m, float b)
{
    return (int)(m != 0) & (int)((b < 0) != (m < 0));
}

R_FN float r_remainder_from(float m, float b)
{
    return r_is_below(m, b) ? m + b : m;
}

R_FN float r_floor_divide_from(float m, float a, float b)
{
    float q = a / b, whole = r_round((a - m) / b) - (r_is_below(m, b) ? 1.0f : 0.0f);
    float y = whole == 0 ? r_copysign(0, q) : whole;
    return b == 0 ? q : y;
}

R_FN float r_remainder(float a, float b)
{
    return r_remainder_from(r_fmod(a, b), b);
}

R_FN float r_floor_divide(float a, float b)
{
    return r_floor_divide_from(r_fmod(a, b), a, b);
}
