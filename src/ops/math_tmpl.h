/* The r_ functions of ops.def, for bodies that are compiled once for each type of elem_tmpl.h: they
 * become those of kernel_math.h for the type at hand, through R. A name inside its own expansion
 * stays as it is, so r_exp can mean R(exp) and R(exp) can be r_exp.
 *
 * What a type does not have (shape rules refuse it) compiles to nothing and never runs.
 */
#ifndef HOD_OPS_MATH_TMPL_H
#define HOD_OPS_MATH_TMPL_H

#include "ops/kernel_math.h"

#define NOTHING(name)                                                                              \
    R_FN float r_##name(float a, float b)                                                          \
    {                                                                                              \
        return b < 0 ? b : a;                                                                      \
    }                                                                                              \
    R_FN double d_##name(double a, double b)                                                       \
    {                                                                                              \
        return b < 0 ? b : a;                                                                      \
    }
NOTHING(and)
NOTHING(or)
NOTHING(xor)
NOTHING(shift_left)
NOTHING(shift_right)
#undef NOTHING

#undef r_lowest
#undef r_highest
#define r_lowest       LOWEST
#define r_highest      HIGHEST
#define r_nan          R(nan)
#define r_abs          R(abs)
#define r_sign         R(sign)
#define r_max          R(max)
#define r_min          R(min)
#define r_clamp        R(clamp)
#define r_trunc        R(trunc)
#define r_fmod         R(fmod)
#define r_remainder    R(remainder)
#define r_floor_divide R(floor_divide)
#define r_exp          R(exp)
#define r_expm1        R(expm1)
#define r_log          R(log)
#define r_log1p        R(log1p)
#define r_sqrt         R(sqrt)
#define r_rsqrt        R(rsqrt)
#define r_tanh         R(tanh)
#define r_sigmoid      R(sigmoid)
#define r_erf          R(erf)
#define r_gelu         R(gelu)
#define r_gelu_tanh    R(gelu_tanh)
#define r_silu         R(silu)
#define r_mish         R(mish)
#define r_softplus     R(softplus)
#define r_sin          R(sin)
#define r_cos          R(cos)
#define r_atan         R(atan)
#define r_floor        R(floor)
#define r_ceil         R(ceil)
#define r_round        R(round)
#define r_pow          R(pow)
#define r_and          R(and)
#define r_or           R(or)
#define r_xor          R(xor)
#define r_shift_left   R(shift_left)
#define r_shift_right  R(shift_right)

#define i_exp(x)       (x)
#define i_expm1(x)     (x)
#define i_log(x)       (x)
#define i_log1p(x)     (x)
#define i_sqrt(x)      (x)
#define i_rsqrt(x)     (x)
#define i_tanh(x)      (x)
#define i_sigmoid(x)   (x)
#define i_erf(x)       (x)
#define i_gelu(x)      (x)
#define i_gelu_tanh(x) (x)
#define i_silu(x)      (x)
#define i_mish(x)      (x)
#define i_softplus(x)  (x)
#define i_sin(x)       (x)
#define i_cos(x)       (x)
#define i_atan(x)      (x)
#define i_floor(x)     (x)
#define i_ceil(x)      (x)
#define i_round(x)     (x)
#define i_pow(x, y)    ((x) + 0 * (y))

#endif
