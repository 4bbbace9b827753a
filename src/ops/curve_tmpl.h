/* Functions of the operators on f32 that are made of exponentials and logarithms, and the circular
 * ones. See kernel_math.h; the text is also printed at the top of every generated kernel.
 */

/* ---- of exponentials ---- */

/* Through e^-|x|, which cannot overflow: 1 / (1 + z) for x >= 0, z / (1 + z) below. */
R_FN float r_sigmoid(float x)
{
    i32 k;
    float p = r_exp_parts(-r_abs(x), &k), z = r_scaled_down(p, k);
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

/* A factor that makes no difference to e^x times it: that is 0 below. */
R_FN float r_no_less(float x)
{
    return x < -150.0f ? -150.0f : x;
}

/* x sigmoid(x) */
R_FN float r_silu(float x)
{
    i32 k;
    float p = r_exp_parts(-r_abs(x), &k), z = r_scaled_down(p, k);
    float y = (x < 0 ? r_scaled_down(r_no_less(x) * p, k) : x) / (1.0f + z);
    return x == r_lowest ? R_NAN : y;
}

/* x times the normal distribution's share below x, which for -a, a >= 0, is e^(-a^2/2) / (2 + a v).
 * v, between 1.6 and sqrt(2 pi), is a polynomial in t = 1 / (1 + a/3). The upper 12 bits of a have
 * an exact square; an error of a^2 would count as often as the exponent is large. */
R_FN float r_gelu(float x)
{
    float a = r_abs(x);
    a = a > 15.0f ? 15.0f : a; /* e^(-a^2/2) rounds to 0; NaN passes */
    float t = 1.0f / R_MA(a, 0x1.555556p-2f, 1.0f);
    float v = -0x1.9fa79ap-2f;
    v = R_MA(v, t, 0x1.edff10p+0f);
    v = R_MA(v, t, -0x1.c43764p+1f);
    v = R_MA(v, t, 0x1.7aa81ep+1f);
    v = R_MA(v, t, -0x1.1f8b3ep+0f);
    v = R_MA(v, t, 0x1.f33762p-2f);
    v = R_MA(v, t, -0x1.673c22p-3f);
    v = R_MA(v, t, -0x1.8713f2p-2f);
    v = R_MA(v, t, -0x1.5575e2p-1f);
    v = R_MA(v, t, 0x1.40d932p+1f);
    float upper = r_float(r_bits(a) & 0xfffff000);
    i32 k;
    float q = r_expm1_parts(upper * upper * -0.5f, (a - upper) * (a + upper) * -0.5f, &k);
    float h = r_scaled_down(R_MA(a, q, a) / R_MA(a, v, 2.0f), k);
    float y = x < 0 ? -h : x - h; /* not (x < 0 ? -0 : x) - h, where clang 14 loses the sign of 0 */
    return x == r_lowest ? R_NAN : y;
}

/* x sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3), which is x/2 (1 + tanh u). The exponent is
 * made in f64: its error counts as often as it is large. */
R_FN float r_gelu_tanh(float x)
{
    double v = (double)r_abs(x), w = v * D_MA(v * v, -0x1.2444f2a4d8b4bp-4, -0x1.9884533d43651p+0);
    i32 k;
    float p = r_exp_parts_wide(w, &k), z = r_scaled_down(p, k);
    float y = (x < 0 ? r_scaled_down(r_no_less(x) * p, k) : x) / (1.0f + z);
    return x == r_lowest ? R_NAN : y;
}

/* log(1 + e^x) = max(x, 0) + log(1 + e^-|x|) */
R_FN float r_softplus(float x)
{
    i32 k;
    float p = r_exp_parts(-r_abs(x), &k), y = r_log1p(r_scaled_down(p, k));
    return (x > 0 ? x : 0.0f) + y;
}

/* x tanh(log(1 + e^x)) = x n / (n + 2) with n = e^x (e^x + 2). */
R_FN float r_mish(float x)
{
    i32 k;
    float p = r_exp_parts(x > 20.0f ? 20.0f : x, &k); /* n / (n + 2) is 1 from 9 on */
    float e = r_scaled(p, k),
          y = r_scaled(r_no_less(x) * p, k) * ((e + 2.0f) / R_MA(e, e + 2.0f, 2.0f));
    y = x > 20.0f ? x : y;
    return x == r_lowest ? R_NAN : y;
}

/* ---- circular ---- */

/* Turned by pi/2 beyond tan(3 pi/8) and by pi/4 beyond tan(pi/8),
 * where an odd polynomial begins. */
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

/* 2/pi in words of 32 bits after one word of zeros. */
static const u32 r_two_over_pi[10] __attribute__((unused)) = {
    0,           0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u,
    0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u, 0xb7246e3au,
};

/* |x| = (pi/2) (4 j + q) + r with |r| <= pi/4; q is returned. For all finite x: the 24 bits of the
 * mantissa are multiplied with those 96 bits of 2/pi that matter for its exponent, so a huge x
 * costs what a small one does. (Payne and Hanek, 1983.) */
R_FN u32 r_quadrant_far(float x, float *r)
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

/* The same up to 2^20, as |x| - n pi/2 in f64; the first 33 bits of pi/2 times n are exact. */
R_FN u32 r_quadrant_near(float x, float *r)
{
    double v = (double)r_abs(x), t = D_MA(v, 0x1.45f306dc9c883p-1, 0x1.8p52);
    double n = t - 0x1.8p52;
    *r = (float)D_MA(n, -0x1.0b4611a626331p-34, D_MA(n, -0x1.921fb544p+0, v));
    return (u32)d_bits(t);
}

R_FN int r_is_small(float x)
{
    return r_abs(x) < 0x1p20f;
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

/* sin and cos of x from its quadrant q and what is left. */
R_FN float r_sin_from(float x, u32 q, float r)
{
    float s = r_sin_poly(r), c = r_cos_poly(r);
    u32 sign = (q & 2) << 30 ^ (r_bits(x) & 0x80000000);
    return r_float(r_bits(q & 1 ? c : s) ^ sign);
}

R_FN float r_cos_from(u32 q, float r)
{
    float s = r_sin_poly(r), c = r_cos_poly(r);
    return r_float(r_bits(q & 1 ? s : c) ^ ((q + 1) & 2) << 30);
}

R_FN float r_sin_near(float x)
{
    float r;
    u32 q = r_quadrant_near(x, &r);
    return r_sin_from(x, q, r);
}

R_FN float r_cos_near(float x)
{
    float r;
    u32 q = r_quadrant_near(x, &r);
    return r_cos_from(q, r);
}

R_FN float r_sin(float x)
{
    float r;
    u32 q = r_is_small(x) ? r_quadrant_near(x, &r) : r_quadrant_far(x, &r);
    return r_abs(x) < r_highest ? r_sin_from(x, q, r) : R_NAN;
}

R_FN float r_cos(float x)
{
    float r;
    u32 q = r_is_small(x) ? r_quadrant_near(x, &r) : r_quadrant_far(x, &r);
    return r_abs(x) < r_highest ? r_cos_from(q, r) : R_NAN;
}
