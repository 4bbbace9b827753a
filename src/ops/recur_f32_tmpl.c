/* Recurrent rows in f32, with functions that vectorise: relative error below 3 ulp, or 2^-24 of the
 * result's range where that is coarser. */
#include <stdint.h>
#include <string.h>

#define RECUR_FN static inline __attribute__((always_inline, unused))

/* e^x for x <= 0: 2^n (1 + r + r^2 q(r)) with |r| <= ln 2 / 2; 0 below -87. NaN stays. */
RECUR_FN float exp_down(float x)
{
    float n = x * 0x1.715476p+0f;
    float low = n < -126.0f ? -126.0f : n; /* NaN passes */
    float magic = low + 0x1.8p23f, whole = magic - 0x1.8p23f;
    float r = (x - whole * 0x1.62e4p-1f) - whole * 0x1.7f7d1cp-20f;
    float q = 0x1.6a2434p-10f;
    q = q * r + 0x1.1239e2p-7f;
    q = q * r + 0x1.5558f2p-5f;
    q = q * r + 0x1.555492p-3f;
    q = q * r + 0x1.fffffcp-2f;
    float y = q * r * r + r + 1.0f;
    int32_t bits;
    memcpy(&bits, &magic, sizeof bits);
    bits = (int32_t)((uint32_t)bits << 23) + 0x3f800000;
    float power;
    memcpy(&power, &bits, sizeof power);
    return n < -126.0f ? 0.0f : y * power;
}

RECUR_FN float sigmoid(float x)
{
    float a = x < 0 ? x : -x; /* -|x|; NaN stays */
    float e = exp_down(a), s = 1.0f / (1.0f + e);
    return x < 0 ? e * s : s;
}

/* An odd polynomial below 0.6, (1 - e) / (1 + e) with e = exp(-2 |x|) above. */
RECUR_FN float hyperbolic(float x)
{
    float a = x < 0 ? -x : x, t = a * a;
    float p = -0x1.825856p-8f;
    p = p * t + 0x1.54b8a0p-6f;
    p = p * t - 0x1.b898dep-5f;
    p = p * t + 0x1.1109aep-3f;
    p = p * t - 0x1.55553ep-2f;
    float low = p * t * a + a;
    float e = exp_down(-2.0f * a), high = (1.0f - e) / (1.0f + e);
    float y = a < 0.6f ? low : high;
    return x < 0 ? -y : y;
}

#define real       float
#define SIGMOID(x) sigmoid(x)
#define TANH(x)    hyperbolic(x)
#include "ops/recur_tmpl.c"
