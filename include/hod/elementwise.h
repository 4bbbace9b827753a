/* Elementwise functions that are more than one row of the operator table: activations with a
 * parameter, and draws.
 *
 *     hod_tensor *h = hod_leaky_relu(hod_linear(x, w, b), 0.01);
 *     hod_tensor *noise = hod_mul_scalar(hod_normal(HOD_SHAPE(8, 16)), 0.1);
 *     hod_tensor *mask = hod_bernoulli(hod_full(HOD_F32, HOD_SHAPE(8, 16), 0.3));
 *
 * Included by functional.h, whose remarks hold here.
 */
#ifndef HOD_ELEMENTWISE_H
#define HOD_ELEMENTWISE_H

#include <hod/ops.h>

HOD_API hod_tensor *hod_leaky_relu(hod_tensor *x,
                                   double slope); /* x where positive, else slope x */
HOD_API hod_tensor *hod_elu(hod_tensor *x,
                            double alpha);          /* x where positive, else alpha (e^x - 1) */
HOD_API hod_tensor *hod_relu6(hod_tensor *x);       /* x between 0 and 6 */
/* log(1 + e^(beta x)) / beta; x itself where beta x exceeds threshold. hod_softplus has no
 * threshold and needs none. */
HOD_API hod_tensor *hod_softplus_with(hod_tensor *x, double beta, double threshold);
/* x between low and high, 0 for gradients at the bounds. hod_clip takes tensors as bounds. */
HOD_API hod_tensor *hod_clamp(hod_tensor *x, double low, double high);
HOD_API hod_tensor *hod_bit_not(hod_tensor *x); /* every bit the other way; of bool: not */

/* Draws by the thread's random key (random.h), as hod_uniform. */
HOD_API hod_tensor *hod_normal(hod_shape shape); /* f32, mean 0, deviation 1, within 5.8 */
/* 1 with probability p, else 0: shape and dtype of p. No gradient. */
HOD_API hod_tensor *hod_bernoulli(hod_tensor *p);

#ifndef HOD_NO_PLACES
#define hod_leaky_relu(...) HOD_OPERATOR(tensor, leaky_relu, __VA_ARGS__)
#define hod_elu(...) HOD_OPERATOR(tensor, elu, __VA_ARGS__)
#define hod_relu6(...) HOD_OPERATOR(tensor, relu6, __VA_ARGS__)
#define hod_softplus_with(...) HOD_OPERATOR(tensor, softplus_with, __VA_ARGS__)
#define hod_clamp(...) HOD_OPERATOR(tensor, clamp, __VA_ARGS__)
#define hod_bit_not(...) HOD_OPERATOR(tensor, bit_not, __VA_ARGS__)
#define hod_normal(...) HOD_OPERATOR(tensor, normal, __VA_ARGS__)
#define hod_bernoulli(...) HOD_OPERATOR(tensor, bernoulli, __VA_ARGS__)
#endif

#endif
