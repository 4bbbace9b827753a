/* Recurrent rows in f32, with functions that vectorise: relative error below 3 ulp, or 2^-24 of the
 * result's range where that is coarser. */
#include "ops/exp_down.h"

#define RECUR_FN static inline __attribute__((always_inline, unused))

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
