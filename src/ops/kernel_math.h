/* The mathematics of operators: what the expressions of ops.def call, for eager kernels and printed
 * ones alike, so that the two agree to the bit wherever the machine's instructions do.
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
 * The three files are also printed, as text, above each generated kernel; hence no #include and no
 * macro of ours in them. r_* is f32, d_* is f64, i_* is i64. The f32 functions are polynomials on a
 * reduced range without a data-dependent branch, so gcc and clang vectorise loops over them with
 * -fno-math-errno -fno-trapping-math; no -ffast-math is needed and none is wanted: NaN, infinities,
 * signed zeros and denormals come out as in libm. d_* call libm. Polynomials are our own minimax
 * fits (tools/fit_polynomials.py). test_kernel_math.c holds the errors that docs/ops.md states.
 */
#ifndef HOD_OPS_KERNEL_MATH_H
#define HOD_OPS_KERNEL_MATH_H

#include "ops/float_tmpl.h"

#include "ops/curve_tmpl.h"

#include "ops/wide_tmpl.h"

#endif
