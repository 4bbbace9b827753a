/* The r_ functions of ops.def for the eager kernels, once for each `real`: included by a body that
 * has one of elem_tmpl.h's types defined. Their names end in the type's (r_abs_f32), through T.
 * The printed kernels have their own, vectorised ones; they agree within a few ulp, as tests check.
 *
 * On integers only r_abs, r_sign, r_max and r_min are asked for: the shape rules refuse the rest,
 * which compile there but never run.
 */
#ifndef r_lowest
#define r_lowest LOWEST
#define r_highest HIGHEST
#define r_nan T(r_nan)
#define r_abs T(r_abs)
#define r_sign T(r_sign)
#define r_exp T(r_exp)
#define r_log T(r_log)
#define r_sqrt T(r_sqrt)
#define r_rsqrt T(r_rsqrt)
#define r_tanh T(r_tanh)
#define r_sigmoid T(r_sigmoid)
#define r_erf T(r_erf)
#define r_gelu T(r_gelu)
#define r_sin T(r_sin)
#define r_cos T(r_cos)
#define r_atan T(r_atan)
#define r_floor T(r_floor)
#define r_ceil T(r_ceil)
#define r_round T(r_round)
#define r_pow T(r_pow)
#define r_max T(r_max)
#define r_min T(r_min)
#endif

static inline bool r_nan(real x)
{
#if REAL_IS_FLOAT
    return x != x;
#else
    (void)x;
    return false;
#endif
}

static inline real r_abs(real x)
{
#if REAL_IS_FLOAT
    return M(fabs)(x);
#else
    return x < 0 ? -x : x;
#endif
}

static inline real r_exp(real x)
{
    return M(exp)(x);
}

static inline real r_log(real x)
{
    return M(log)(x);
}

static inline real r_sqrt(real x)
{
    return M(sqrt)(x);
}

static inline real r_rsqrt(real x)
{
    return 1 / M(sqrt)(x);
}

static inline real r_tanh(real x)
{
    return M(tanh)(x);
}

/* exp of a negative number on both sides, so that nothing overflows. */
static inline real r_sigmoid(real x)
{
    real e = M(exp)(-r_abs(x));
    return (x >= 0 ? 1 : x < 0 ? e : x) / (1 + e);
}

static inline real r_erf(real x)
{
    return M(erf)(x);
}

static inline real r_gelu(real x)
{
    return 0.5f * x * M(erfc)(x * (real)-0.70710678118654752440);
}

static inline real r_sin(real x)
{
    return M(sin)(x);
}

static inline real r_cos(real x)
{
    return M(cos)(x);
}

static inline real r_atan(real x)
{
    return M(atan)(x);
}

static inline real r_floor(real x)
{
    return M(floor)(x);
}

static inline real r_ceil(real x)
{
    return M(ceil)(x);
}

static inline real r_round(real x)
{
    return M(rint)(x);
}

static inline real r_pow(real x, real y)
{
    return M(pow)(x, y);
}

static inline real r_sign(real x)
{
    return (real)(x > 0 ? 1 : x < 0 ? -1 : x);
}

static inline real r_max(real x, real y)
{
    return x > y || r_nan(x) ? x : y;
}

static inline real r_min(real x, real y)
{
    return x < y || r_nan(x) ? x : y;
}
