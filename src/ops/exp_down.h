/* e^x for what is below 0, or hardly above: softmax and gates. Vectorises; relative error below
 * 3 ulp. */
#ifndef HOD_OPS_EXP_DOWN_H
#define HOD_OPS_EXP_DOWN_H

#include <stdint.h>
#include <string.h>

/* e^x for x <= 0: 2^n (1 + r + r^2 q(r)) with |r| <= ln 2 / 2; 0 below -87. NaN stays. */
static inline __attribute__((always_inline, unused)) float exp_down(float x)
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
    uint32_t bits;
    memcpy(&bits, &magic, sizeof bits);
    bits = (bits << 23) + 0x3f800000; /* wraps for NaN, whose y is NaN, too */
    float power;
    memcpy(&power, &bits, sizeof power);
    return n < -126.0f ? 0.0f : y * power;
}

#endif
