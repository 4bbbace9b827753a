/* The mathematics of kernels: distance to long double libm in ulp, and every special case.
 *
 * Each f32 function is tried twice: included here, where hod's own flags give no fused
 * multiply-add, and as a compiled kernel, with what -march=native gives. Limits are those stated at
 * docs/ops.md. Inputs are all bit patterns in strides of a prime, so that every exponent,
 * denormals, infinities and NaNs come up, and every pattern near the joints of the polynomials.
 */
#include "base/base.h"
#include "codegen/toolchain.h"
#include "harness.h"
#include "ops/kernel_math.h"
#include "ops/rows.h"
#include "ops/uniform_tmpl.h"
#include "scratch.h"
#include "tensor/half.h"

#include <hod/random.h>
#include <math.h>

enum { STRIDE = 9973, NEAR_JOINT = 2000, MAX_SAMPLES = 500000 };

typedef long double real;

static real sigmoid_l(real x)
{
    return 1 / (1 + expl(-x));
}

static real rsqrt_l(real x)
{
    return 1 / sqrtl(x);
}

static real sign_l(real x)
{
    return isnan(x) ? x : (x > 0) - (x < 0);
}

static real silu_l(real x)
{
    return isinf(x) ? (x > 0 ? x : NAN) : x / (1 + expl(-x));
}

static real gelu_l(real x)
{
    return isinf(x) ? (x > 0 ? x : NAN) : 0.5L * x * erfcl(x * -0.70710678118654752440L);
}

static real gelu_tanh_l(real x)
{
    real u = 0.79788456080286535588L * (x + 0.044715L * x * x * x);
    return isinf(x) ? (x > 0 ? x : NAN) : x / (1 + expl(-2 * u));
}

static real softplus_l(real x)
{
    return (x > 0 ? x : 0) + log1pl(expl(-fabsl(x)));
}

static real mish_l(real x)
{
    return isinf(x) ? (x > 0 ? x : NAN) : x * tanhl(softplus_l(x));
}

static const struct function {
    const char *name;
    float (*f)(float x);
    real (*exact)(real x);
    double limit; /* ulp */
} functions[] = {
    {"r_exp", r_exp, expl, 1.0},
    {"r_log", r_log, logl, 0.9},
    {"r_tanh", r_tanh, tanhl, 1.4},
    {"r_sigmoid", r_sigmoid, sigmoid_l, 2.4},
    {"r_erf", r_erf, erfl, 1.3},
    {"r_sin", r_sin, sinl, 1.6},
    {"r_cos", r_cos, cosl, 1.6},
    {"r_sqrt", r_sqrt, sqrtl, 0.5},
    {"r_expm1", r_expm1, expm1l, 1.5},
    {"r_log1p", r_log1p, log1pl, 1.6},
    {"r_silu", r_silu, silu_l, 3.0},
    {"r_gelu", r_gelu, gelu_l, 3.8},
    {"r_gelu_tanh", r_gelu_tanh, gelu_tanh_l, 2.8},
    {"r_mish", r_mish, mish_l, 3.7},
    {"r_softplus", r_softplus, softplus_l, 1.9},
    {"r_trunc", r_trunc, truncl, 0},
    {"r_rsqrt", r_rsqrt, rsqrt_l, 1.5},
    {"r_floor", r_floor, floorl, 0},
    {"r_ceil", r_ceil, ceill, 0},
    {"r_round", r_round, rintl, 0},
    {"r_abs", r_abs, fabsl, 0},
    {"r_sign", r_sign, sign_l, 0},
    {"r_atan", r_atan, atanl, 2.8},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static float samples[MAX_SAMPLES];
static int n_samples;

static void make_samples(void)
{
    static const float joints[] = {0.0f,           0x1p-126f,      2 / 3.0f, 4 / 3.0f, 0.6f,
                                   1.0f,           0.785398f,      3.92f,    3.95f,    88.7228f,
                                   0.5f,           1.5f,           2.5f,     0x1p23f,  INFINITY,
                                   0x1.3504f4p+1f, 0x1.a8279ap-2f, 0x1p20f};
    for (uint64_t u = 0; u < 0x100000000; u += STRIDE)
        samples[n_samples++] = r_float((u32)u);
    for (int i = 0; i < HOD_COUNT(joints); i++)
        for (int d = -NEAR_JOINT / 2; d < NEAR_JOINT / 2; d++) {
            float x = r_float(r_bits(joints[i]) + (u32)d);
            samples[n_samples++] = d & 1 ? -x : x;
        }
}

/* The distance between neighbouring floats at `exact`. */
static real ulp_at(real exact)
{
    int e;
    frexpl(exact, &e);
    return ldexpl(1, HOD_MAX(e - 24, -149));
}

/* In ulp; infinite when a NaN, an infinity or the sign of a zero is wrong. */
static double error_of(float got, real exact)
{
    float rounded = (float)exact;
    if (isnan(exact))
        return isnan(got) ? 0 : INFINITY;
    if (isinf(exact))
        return got == rounded ? 0 : INFINITY;
    if (isinf(got)) /* right, or one step beyond the greatest float */
        return fabsl(exact) > 0x1.fffffcp127L && !signbit(got) == !signbit(exact) ? 0 : INFINITY;
    if (got == 0 && !signbit(got) != !signbit(exact)) /* any non-zero int is a set bit */
        return INFINITY;
    return (double)(fabsl(got - exact) / ulp_at(exact));
}

static void check_function(const struct function *f, const float *y, const char *how)
{
    double worst = 0;
    int at = 0;
    for (int i = 0; i < n_samples; i++) {
        double e = error_of(y[i], f->exact(samples[i]));
        if (!(e <= worst)) {
            worst = e;
            at = i;
        }
    }
    if (worst > f->limit)
        FAIL("%s(%a) = %a, %.3f ulp from exact (%s)", f->name, samples[at], y[at], worst, how);
}

TEST(kernel_math_functions_are_within_their_ulps)
{
    static float y[MAX_SAMPLES];
    make_samples();
    for (int k = 0; k < FUNCTIONS; k++) {
        for (int i = 0; i < n_samples; i++)
            y[i] = functions[k].f(samples[i]);
        check_function(&functions[k], y, "without -march=native");
    }
}

TEST(kernel_math_kernels_are_within_their_ulps)
{
    static float y[MAX_SAMPLES];
    setenv("HOD_CACHE_DIR", scratch("cache"), 1);
    hod_kernel_source source[FUNCTIONS];
    hod_kernel *kernel[FUNCTIONS];
    for (int k = 0; k < FUNCTIONS; k++) {
        source[k].name = hod__format("k_%s", functions[k].name);
        source[k].text = hod__format("void k_%s(void *const *buf, const i64 *arg, i64 begin, "
                                     "i64 end)\n{\n    const float *x = buf[0];\n"
                                     "    float *y = buf[1];\n#pragma omp simd\n"
                                     "    for (i64 i = begin; i < end; i++)\n"
                                     "        y[i] = %s(x[i]);\n}\n",
                                     functions[k].name, functions[k].name);
        CHECK(source[k].name && source[k].text);
    }
    EQ_INT(hod__toolchain_build(source, FUNCTIONS, kernel, NULL), 0);
    make_samples();
    for (int k = 0; k < FUNCTIONS; k++) {
        kernel[k]((void *[]){samples, y}, NULL, 0, n_samples);
        check_function(&functions[k], y, "as a kernel");
        free((char *)source[k].name);
        free((char *)source[k].text);
    }
}

TEST(kernel_math_pow_is_within_its_ulps)
{
    double worst = 0;
    for (uint64_t i = 0; i < 400000; i++) {
        uint64_t r = r_mix(i);
        float a = r_float((u32)r), b = r_float((u32)(r >> 32)); /* any bits at all, or tame ones */
        if (i & 1) {
            a = ldexpf(1 + (float)(r & 0xffffff) * 0x1p-24f, (int)(r >> 24 & 31) - 16);
            b = (float)((int64_t)r >> 40) * 0x1p-19f;
        } else if (i & 2) {
            b = (float)((int64_t)r >> 58);
        }
        double e = error_of(r_pow(a, b), powl(a, b));
        if (e > 0.51)
            FAIL("r_pow(%a, %a) = %a, %.3f ulp from exact", a, b, r_pow(a, b), e);
        worst = HOD_MAX(worst, e);
    }
    CHECK(worst > 0.4); /* the test does look */
}

TEST(kernel_math_pow_special_cases)
{
    static const float x[] = {0.0f,     -0.0f,       1,          -1,        2,       -2,
                              3,        -3,          0.5f,       -0.5f,     1.5f,    -2.5f,
                              INFINITY, -INFINITY,   NAN,        1e-45f,    -1e-45f, 3.4e38f,
                              -3.4e38f, 16777216.0f, 8388609.0f, 8388607.5f};
    for (int i = 0; i < HOD_COUNT(x); i++)
        for (int j = 0; j < HOD_COUNT(x); j++)
            if (error_of(r_pow(x[i], x[j]), powl(x[i], x[j])) > 0.51)
                FAIL("r_pow(%g, %g) = %g, not %g", x[i], x[j], r_pow(x[i], x[j]), pow(x[i], x[j]));
}

/* Against libm, which is exact: quotients of every size, and what special cases give. */
TEST(kernel_math_remainders_are_exact)
{
    uint32_t bits = 12345;
    for (int i = 0; i < 400000; i++) {
        float v[2];
        for (int k = 0; k < 2; k++) {
            bits = bits * 1664525u + 1013904223u;
            uint32_t u =
                i % 4 ? bits : (bits & 0x807fffff) + (bits >> 3 & 7) * 0x800000 + 0x3f800000;
            memcpy(&v[k], &u, sizeof u);
        }
        float m = fmodf(v[0], v[1]), got = r_fmod(v[0], v[1]);
        CHECK(isnan(m) ? isnan(got) : m == got && !signbit(m) == !signbit(got));
        float r = m != 0 && (v[1] < 0) != (m < 0) ? m + v[1] : m;
        got = r_remainder(v[0], v[1]);
        CHECK(isnan(r) ? isnan(got) : r == got && !signbit(r) == !signbit(got));
    }
}

TEST(kernel_math_maximum_hands_nan_on)
{
    static const float x[] = {NAN, -INFINITY, -1, 0, 1, INFINITY};
    for (int i = 0; i < HOD_COUNT(x); i++)
        for (int j = 0; j < HOD_COUNT(x); j++) {
            float a = x[i], b = x[j];
            bool nan = a != a || b != b;
            NEAR(r_max(a, b), nan ? NAN : fmaxf(a, b), 0);
            NEAR(r_min(a, b), nan ? NAN : fminf(a, b), 0);
            NEAR(d_max(a, b), nan ? NAN : fmaxf(a, b), 0);
            NEAR(d_min(a, b), nan ? NAN : fminf(a, b), 0);
        }
}

TEST(kernel_math_halves_agree_with_tensors)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        EQ_INT(r_bits(r_from_f16((u16)h)), hod__f32_bits(hod__f16_to_f32((u16)h)));
        EQ_INT(r_bits(r_from_bf16((u16)h)), hod__f32_bits(hod__bf16_to_f32((u16)h)));
    }
    for (uint64_t u = 0; u < 0x100000000; u += 997) {
        float x = r_float((u32)u);
        if (r_to_f16(x) != hod__f32_to_f16(x) || r_to_bf16(x) != hod__f32_to_bf16(x))
            FAIL("%a: f16 %x, bf16 %x", x, r_to_f16(x), r_to_bf16(x));
    }
}

/* Word e % 4 of Philox at the documented counter and key, against the library's own Philox. */
TEST(kernel_math_uniform_is_philox_as_documented)
{
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t key = r_uniform_key(r_mix(i), i), stream = i % 7, index = r_mix(i + 99),
                 e = i < 500 ? i : r_mix(i) >> 20;
        uint32_t counter[4] = {(uint32_t)(e / 4), (uint32_t)stream, (uint32_t)index,
                               (uint32_t)(index >> 32) ^ (uint32_t)(e / 4 >> 32)};
        uint32_t out[4];
        hod_philox(counter, (uint32_t[]){(uint32_t)key, (uint32_t)(key >> 32)}, out);
        EQ_INT(r_random_bits(key, stream, index, e), out[e % 4]);
        NEAR(r_uniform(key, stream, index, e), (out[e % 4] >> 8) / 16777216.0, 0);
    }
}

/* Rows make four draws at once. */
TEST(kernel_math_uniform_rows_are_of_single_draws)
{
    float y[1003];
    for (int k = 0; k <= 2; k++)
        for (int n = 0; hod__rows_of(k) && n < HOD_COUNT(y); n += 17) {
            hod__rows_of(k)->uniform(n, y, 0x123456789abcdefull, 5, 1ull << 40 | 7);
            for (int i = 0; i < n; i++)
                CHECK(y[i] == r_uniform(0x123456789abcdefull, 5, 1ull << 40 | 7, (u64)i));
        }
}

TEST(kernel_math_uniform_is_uniform)
{
    enum { N = 1 << 18, BINS = 64 };
    uint64_t key = r_uniform_key(1, 2);
    int bin[BINS] = {0};
    double mean = 0;
    for (uint64_t e = 0; e < N; e++) {
        float u = r_uniform(key, 3, 4, e);
        CHECK(u >= 0 && u < 1);
        bin[(int)(u * BINS)]++;
        mean += u / N;
    }
    NEAR(mean, 0.5, 5 * sqrt(1.0 / 12 / N)); /* five standard deviations */
    double chi = 0;
    for (int k = 0; k < BINS; k++)
        chi += pow(bin[k] - (double)N / BINS, 2) / ((double)N / BINS);
    CHECK(chi < 63 + 5 * sqrt(2 * 63.0)); /* 63 degrees of freedom, five standard deviations */
}
