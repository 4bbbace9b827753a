/* The two 16-bit floats, to and from f32, by bits.
 *
 *     f16   s eeeee mmmmmmmmmm        IEEE binary16: 5 exponent bits, bias 15
 *     bf16  s eeeeeeee mmmmmmm        the upper half of an f32
 *
 * Rounding is to nearest, ties to even; denormals, infinities and NaNs keep their meaning, and a
 * NaN stays a quiet one. The functions have no branches that depend on data beyond selects, so
 * loops over them vectorise.
 */
#ifndef HOD_TENSOR_HALF_H
#define HOD_TENSOR_HALF_H

#include <stdint.h>
#include <string.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

static inline uint32_t hod__f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float hod__bits_f32(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float hod__bf16_to_f32(uint16_t h)
{
    return hod__bits_f32((uint32_t)h << 16);
}

static inline uint16_t hod__f32_to_bf16(float x)
{
    uint32_t u = hod__f32_bits(x);
    uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    uint32_t nan = (u >> 16) | 0x40; /* quiet, payload's upper bits kept */
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

/* Moving the 15 value bits to f32's place leaves the exponent 112 too low; one multiplication by
 * 2^112 repairs normals and denormals alike, exactly. */
static inline float hod__f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, value = (uint32_t)(h & 0x7fff) << 13;
    float finite = hod__bits_f32(value) * 0x1p112f;
    uint32_t special = value | 0x7f800000; /* infinity, or NaN with its payload */
    uint32_t quiet = value > (0x7c00u << 13) ? 0x400000u : 0u;
    uint32_t u = value >= (0x7c00u << 13) ? special | quiet : hod__f32_bits(finite);
    return hod__bits_f32(u | sign);
}

/* Normals round by integer addition, as bf16 does. For results below 2^-14 the adder of the FPU
 * rounds: 0.5 + |x| has its last bit at 2^-24, f16's smallest denormal. */
static inline uint16_t hod__f32_to_f16(float x)
{
    uint32_t u = hod__f32_bits(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    uint32_t normal = (a - (112u << 23) + 0xfff + ((a >> 13) & 1)) >> 13;
    uint32_t tiny = hod__f32_bits(hod__bits_f32(a) + 0.5f) - hod__f32_bits(0.5f);
    uint32_t nan = 0x7e00 | (a >> 13 & 0x3ff);
    uint32_t h = a < (113u << 23) ? tiny : normal;
    h = a >= (143u << 23) ? 0x7c00 : h; /* 65536 and beyond; 65520 rounds up to it above */
    h = a > 0x7f800000 ? nan : h;
    return (uint16_t)(h | sign);
}

/* n neighbours; with F16C eight at once, which gives the bits of the functions above. */
static inline void hod__f32s_to_f16s(int64_t n, const float *x, uint16_t *y)
{
    int64_t i = 0;
#ifdef __F16C__
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(y + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++)
        y[i] = hod__f32_to_f16(x[i]);
}

static inline void hod__f16s_to_f32s(int64_t n, const uint16_t *x, float *y)
{
    int64_t i = 0;
#ifdef __F16C__
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + i))));
#endif
    for (; i < n; i++)
        y[i] = hod__f16_to_f32(x[i]);
}

#endif
