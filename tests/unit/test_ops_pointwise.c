/* Elementwise functions and reductions by their definitions and at their edges; and that the loops
 * compiled for this machine agree with those for any. */
#include "harness.h"
#include "ops/attention.h"
#include "ops/op.h"
#include "ops/pairs.h"
#include "ops/recur.h"
#include "ops/rows.h"
#include <hod/autograd.h>
#include <hod/functional.h>
#include <hod/random.h>
#include <math.h>

#define F32(...)                                                                                   \
    hod_from_floats((float[]){__VA_ARGS__},                                                        \
                    HOD_SHAPE((int64_t)(sizeof((float[]){__VA_ARGS__}) / sizeof(float))))
#define F64(...)                                                                                   \
    hod_from_doubles((double[]){__VA_ARGS__},                                                      \
                     HOD_SHAPE((int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double))))
#define I64(...)                                                                                   \
    hod_from_ints((int64_t[]){__VA_ARGS__},                                                        \
                  HOD_SHAPE((int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))))

static void near_all(hod_tensor *x, int n, const double *want, double tol)
{
    double have[64];
    CHECK(x && hod_tensor_numel(x) == n && hod_read_doubles(x, have, n) == 0);
    for (int i = 0; i < n; i++)
        NEAR(have[i], want[i], tol);
}
#define ARE(x, tol, ...)                                                                           \
    near_all(x, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__}, tol)

static hod_tensor *gradient_of(hod_tensor *x, hod_tensor *y)
{
    CHECK(y && hod_backward(hod_sum(y)) == 0);
    return hod_grad(x);
}

static hod_tensor *leaf(hod_tensor *x)
{
    CHECK(x && hod_requires_grad(x, true));
    return x;
}

/* ---- elementwise ---- */

TEST(ops_pointwise_activations_at_their_joints)
{
    hod_tensor *x = F64(-4, -3, -1, 0, 1, 3, 7);
    ARE(hod_leaky_relu(x, 0.1), 1e-15, -.4, -.3, -.1, 0, 1, 3, 7);
    ARE(hod_elu(x, 2), 1e-15, 2 * expm1(-4), 2 * expm1(-3), 2 * expm1(-1), 0, 1, 3, 7);
    ARE(hod_relu6(x), 0, 0, 0, 0, 0, 1, 3, 6);
    ARE(hod_hardsigmoid(x), 1e-15, 0, 0, 1 / 3., .5, 2 / 3., 1, 1);
    ARE(hod_hardswish(x), 1e-15, 0, 0, -1 / 3., 0, 2 / 3., 3, 7);
    ARE(hod_softplus_with(x, 2, 5), 1e-15, log1p(exp(-8)) / 2, log1p(exp(-6)) / 2,
        log1p(exp(-2)) / 2, log(2) / 2, log1p(exp(2)) / 2, 3, 7);
    ARE(hod_log_sigmoid(F64(-1000, 0, 1000)), 1e-12, -1000, -log(2), 0);
    /* PyTorch's sides of each kink */
    ARE(gradient_of(x, hod_hardswish(leaf(x))), 1e-15, 0, 0, 1 / 6., .5, 5 / 6., 1, 1);
    x = leaf(F64(-3, 0, 3, 6));
    ARE(gradient_of(x, hod_hardsigmoid(x)), 1e-15, 0, 1 / 6., 0, 0);
    x = leaf(F64(-3, 0, 3, 6));
    ARE(gradient_of(x, hod_relu6(x)), 0, 0, 0, 1, 0);
    x = leaf(F64(-1, 0, 1));
    ARE(gradient_of(x, hod_leaky_relu(x, 0.25)), 0, .25, .25, 1);
    x = leaf(F64(-1, 0, 1));
    ARE(gradient_of(x, hod_elu(x, 2)), 1e-15, 2 * exp(-1), 2, 1);
}

TEST(ops_pointwise_nan_and_infinities)
{
    hod_tensor *(*const handed[])(hod_tensor *) = {
        hod_expm1, hod_log1p,       hod_gelu,      hod_gelu_tanh,   hod_silu,
        hod_mish,  hod_softplus,    hod_hardswish, hod_hardsigmoid, hod_trunc,
        hod_relu6, hod_log_sigmoid, hod_sin,       hod_erf};
    for (int i = 0; i < HOD_COUNT(handed); i++)
        for (int wide = 0; wide < 2; wide++) {
            double v;
            hod_tensor *x = hod_full(wide ? HOD_F64 : HOD_F32, HOD_SHAPE(3), (double)NAN);
            CHECK(hod_read_doubles(hod_select(handed[i](x), 0, 2), &v, 1) == 0);
            if (!isnan(v))
                FAIL("function %d of NaN: %g", i, v);
        }
    hod_tensor *x = F32(-INFINITY, INFINITY);
    ARE(hod_expm1(x), 0, -1, INFINITY);
    ARE(hod_softplus(x), 0, 0, INFINITY);
    ARE(hod_log1p(F32(-1, -2, INFINITY)), 0, -INFINITY, NAN, INFINITY);
    ARE(hod_gelu(x), 0, NAN, INFINITY);
    ARE(hod_clip(F32(NAN, 1, 1), F32(0, NAN, 0), F32(2, 2, NAN)), 0, NAN, NAN, NAN);
    ARE(hod_lerp(F32(1, 1), F32(3, 3), F32(NAN, .25f)), 0, NAN, 1.5);
}

TEST(ops_pointwise_bounds)
{
    hod_tensor *x = F64(1, 2, 3, 5, 1), *low = F64(1, 1, 4, 6, 5), *high = F64(3, 2, 2, 4, 4);
    ARE(hod_clip(x, low, high), 0, 1, 2, 2, 4, 4);
    leaf(x), leaf(low), leaf(high);
    CHECK(hod_backward(hod_sum(hod_clip(x, low, high))) == 0);
    ARE(hod_grad(x), 0, .5, .5, 0, 0, 0);
    ARE(hod_grad(low), 0, .5, 0, 0, 0, 0);
    ARE(hod_grad(high), 0, 0, .5, 1, 1, 1);
    hod_tensor *y = leaf(F64(-1, 0, 1, 2));
    ARE(gradient_of(y, hod_clamp(y, 0, 1)), 0, 0, 0, 0, 0);
    ARE(hod_clamp(I64(-5, 3, 9), 0, 4), 0, 0, 3, 4);
    EQ_INT(hod_tensor_dtype(hod_clamp(I64(-5, 3, 9), 0, 4)), HOD_I64);
    ERROR_IS("clamp: bounds 2 and 1, wanted two numbers in order", hod_clamp(y, 2, 1));
    ERROR_IS("clamp: bounds nan and 1, wanted two numbers in order", hod_clamp(y, NAN, 1));
}

/* Whole numbers keep an integer type as long as it holds them. */
TEST(ops_pointwise_numbers_with_integers)
{
    hod_tensor *x = I64(INT64_MAX, 5), *u = hod_cast(I64(3, 255), HOD_U8);
    EQ_INT(hod_tensor_dtype(hod_clamp(x, -9.2e18, 9.2e18)), HOD_I64);
    EQ_INT(hod_tensor_dtype(hod_maximum_scalar(x, 9.1e18)), HOD_I64);
    EQ_INT(hod_tensor_dtype(hod_add_scalar(x, 0.5)), HOD_F32);
    EQ_INT(hod_tensor_dtype(hod_lt_scalar(x, INFINITY)), HOD_BOOL);
    ERROR_IS("full: 1e+19 is outside i64", hod_minimum_scalar(x, 1e19));
    ARE(hod_add_scalar(u, -255), 0, 4, 0);
    ERROR_IS("full: -256 is outside u8", hod_add_scalar(u, -256));
    ERROR_IS("full: 256 is outside u8", hod_add_scalar(u, 256));
    ERROR_IS("softplus: beta nan, must be a number other than 0",
             hod_softplus_with(F32(1), NAN, 20));
}

TEST(ops_pointwise_division_with_remainder)
{
    hod_tensor *a = F32(7, -7, 7, -7, 6, 1, 0, 5, 1e30f),
               *b = F32(3, 3, -3, -3, 3, 0, 0, INFINITY, 3);
    ARE(hod_remainder(a, b), 0, 1, 2, -2, -1, 0, NAN, NAN, 5, fmod(1e30f, 3));
    ARE(hod_fmod(a, b), 0, 1, -1, 1, -1, 0, NAN, NAN, 5, fmod(1e30f, 3));
    ARE(hod_floor_divide(a, b), 1e23, 2, -3, -3, 2, 2, INFINITY, NAN, 0, 1e30 / 3);
    for (hod_dtype t = HOD_F32; t < HOD_DTYPES; t++) { /* by infinities; PyTorch's, gradients too */
        if (!hod__is_float(t))
            continue;
        hod_tensor *x = hod_cast(F32(1, -1, 2.5f, 0, -0.f, 3), t);
        hod_tensor *y =
            leaf(hod_cast(F32(-INFINITY, INFINITY, -INFINITY, -INFINITY, INFINITY, INFINITY), t));
        ARE(hod_floor_divide(x, y), 0, -1, -1, -1, -0., -0., 0);
        ARE(hod_remainder(x, y), 0, -INFINITY, INFINITY, -INFINITY, 0, -0., 3);
        ARE(gradient_of(y, hod_remainder(x, y)), 0, 1, 1, 1, 0, 0, -0.);
        ARE(hod_fmod(x, y), 0, 1, -1, 2.5, 0, -0., 3);
    }
    hod_tensor *i = I64(7, -7, 7, -7, 6, 1, INT64_MIN), *j = I64(3, 3, -3, -3, 3, 0, -1);
    ARE(hod_remainder(i, j), 0, 1, 2, -2, -1, 0, 0, 0);
    ARE(hod_fmod(i, j), 0, 1, -1, 1, -1, 0, 0, 0);
    ARE(hod_floor_divide(i, j), 0, 2, -3, -3, 2, 2, 0, (double)INT64_MIN);
    ARE(hod_trunc(F32(-2.5f, -0.5f, 2.5f)), 0, -2, -0., 2);
}

TEST(ops_pointwise_integers_are_their_own_neighbours)
{
    hod_tensor *x = I64(((int64_t)1 << 53) + 1, -3);
    hod_tensor *whole[] = {hod_floor(x), hod_ceil(x), hod_round(x), hod_trunc(x)};
    for (int i = 0; i < HOD_COUNT(whole); i++) {
        int64_t v[2];
        EQ_INT(hod_tensor_dtype(whole[i]), HOD_I64);
        CHECK(hod_read_ints(whole[i], v, 2) == 0);
        EQ_INT(v[0], ((int64_t)1 << 53) + 1);
        EQ_INT(v[1], -3);
    }
}

TEST(ops_softmax_of_inf_is_nan)
{
    hod_tensor *x = F32(INFINITY, 0, 1);
    ARE(hod_softmax(x, 0), 0, NAN, NAN, NAN);
    ARE(hod_log_softmax(x, 0), 0, NAN, NAN, NAN);
    NEAR(hod_item(hod_logsumexp(x, 0, false)), INFINITY, 0);
    ARE(hod_logsumexp(hod_zeros(HOD_F32, HOD_SHAPE(2, 0)), 1, false), 0, -INFINITY, -INFINITY);
}

TEST(ops_pointwise_bits)
{
    hod_tensor *a = I64(12, -1, 5), *b = I64(10, 7, -8);
    ARE(hod_bit_and(a, b), 0, 8, 7, 0);
    ARE(hod_bit_or(a, b), 0, 14, -1, -3);
    ARE(hod_bit_xor(a, b), 0, 6, -8, -3);
    ARE(hod_bit_not(a), 0, -13, 0, -6);
    ARE(hod_bit_not(hod_cast(I64(0, 200), HOD_U8)), 0, 255, 55);
    hod_tensor *t = hod_gt_scalar(a, 0);
    ARE(hod_bit_not(t), 0, 0, 1, 0);
    EQ_INT(hod_tensor_dtype(hod_bit_and(t, t)), HOD_BOOL);
    ARE(hod_shift_left(I64(1, 1, 1, 1), I64(3, 62, 64, -1)), 0, 8, 0x1p62, 0, 0);
    ARE(hod_shift_right(I64(-9, 9, 9, -9), I64(1, 1, 64, -1)), 0, -5, 4, 0, -1);
    ARE(hod_shift_right(hod_cast(I64(200), HOD_U8), hod_cast(I64(3), HOD_U8)), 0, 25);
    ARE(hod_logical_xor(F32(0, 2, 0, NAN), F32(0, 3, 1, 0)), 0, 0, 0, 1, 1);
    ERROR_IS("bit_and: not defined for f32", hod_bit_and(F32(1), F32(2)));
    ERROR_IS("bit_not: not defined for f32", hod_bit_not(F32(1)));
}

TEST(ops_pointwise_lerp_meets_both_ends)
{
    hod_tensor *a = F32(1e8f, -3, 0.1f), *b = F32(1, 5, 0.7f);
    ARE(hod_lerp(a, b, hod_scalar(0)), 0, 1e8, -3, 0.1f);
    ARE(hod_lerp(a, b, hod_scalar(1)), 0, 1, 5, 0.7f);
    EQ_INT(hod_tensor_dtype(hod_lerp(a, b, hod_full(HOD_F64, HOD_SHAPE(), .5))), HOD_F32);
}

/* B31: gradients of repeated operands are summed, also of three. */
TEST(ops_pointwise_b31_broadcast_gradients)
{
    hod_tensor *a = leaf(hod_from_doubles((double[]){1, 2, 3}, HOD_SHAPE(3, 1)));
    hod_tensor *b = leaf(hod_from_doubles((double[]){10, 20}, HOD_SHAPE(1, 2)));
    CHECK(hod_backward(hod_sum(hod_mul(a, b))) == 0);
    ARE(hod_grad(a), 0, 30, 30, 30);
    ARE(hod_grad(b), 0, 6, 6);
    hod_tensor *s = leaf(hod_full(HOD_F64, HOD_SHAPE(), 0.25));
    hod_tensor *ones = hod_full(HOD_F64, HOD_SHAPE(2, 3), 1);
    CHECK(hod_backward(hod_sum(hod_lerp(hod_zeros(HOD_F64, HOD_SHAPE(3)), ones, s))) == 0);
    ARE(hod_grad(s), 0, 6);
}

/* ---- draws ---- */

TEST(ops_pointwise_normal_is_normal)
{
    enum { N = 1 << 17 };
    CHECK(hod_random_begin(5, 1, NULL) == 0);
    hod_tensor *z = hod_normal(HOD_SHAPE(N));
    NEAR(hod_item(hod_mean(z)), 0, 5 / sqrt(N)); /* five standard deviations, here and below */
    NEAR(hod_item(hod_mean(hod_square(z))), 1, 5 * sqrt(2. / N));
    NEAR(hod_item(hod_mean(hod_square(hod_square(z)))), 3, 5 * sqrt(96. / N));
    for (double t = -2; t <= 2; t += 0.5) {
        double share = 0.5 * erfc(-t / sqrt(2));
        hod_tensor *below = hod_cast(hod_lt_scalar(z, t), HOD_F32);
        NEAR(hod_item(hod_mean(below)), share, 5 * sqrt(share * (1 - share) / N));
    }
    CHECK(hod_item(hod_amax(hod_abs(z))) < 5.8);
}

TEST(ops_pointwise_bernoulli_keeps_its_share)
{
    enum { N = 1 << 16 };
    CHECK(hod_random_begin(5, 2, NULL) == 0);
    hod_tensor *p =
        hod_expand(hod_from_floats((float[]){0, .25f, 1}, HOD_SHAPE(1, 3)), HOD_SHAPE(N, 3));
    hod_tensor *x = hod_mean_dims(hod_bernoulli(p), 0);
    float share[3];
    CHECK(hod_read_floats(x, share, 3) == 0);
    CHECK(share[0] == 0 && share[2] == 1);
    NEAR(share[1], .25, 5 * sqrt(.25 * .75 / N));
    EQ_INT(hod_tensor_dtype(hod_bernoulli(hod_full(HOD_BF16, HOD_SHAPE(4), .5))), HOD_BF16);
    ERROR_IS("bernoulli: probabilities of i64", hod_bernoulli(I64(1)));
}

/* ---- reductions ---- */

TEST(ops_reduce_any_and_all)
{
    hod_tensor *x = hod_from_floats((float[]){0, 0, 3, 0, NAN, 1, -2, 5, 7}, HOD_SHAPE(3, 3));
    ARE(hod_any_dims(x, 1), 0, 1, 1, 1);
    ARE(hod_all_dims(x, 1), 0, 0, 0, 1);
    ARE(hod_any_dims(x, 0), 0, 1, 1, 1);
    ARE(hod_all_dims(x, 0), 0, 0, 0, 1);
    EQ_INT(hod_tensor_dtype(hod_any(x)), HOD_BOOL);
    hod_tensor *none = hod_zeros(HOD_I64, HOD_SHAPE(0, 2));
    CHECK(hod_item(hod_any(none)) == 0 && hod_item(hod_all(none)) == 1);
    hod_tensor *one = hod_eq_scalar(hod_arange(HOD_I64, 300000), 299999);
    CHECK(hod_item(hod_any(one)) == 1 && hod_item(hod_all(hod_logical_not(one))) == 0);
}

TEST(ops_reduce_norms)
{
    hod_tensor *x = F64(3, 0, -4);
    NEAR(hod_item(hod_norm(x, 2)), 5, 1e-15);
    NEAR(hod_item(hod_norm(x, 1)), 7, 0);
    NEAR(hod_item(hod_norm(x, 0)), 2, 0);
    NEAR(hod_item(hod_norm(x, (double)INFINITY)), 4, 0);
    NEAR(hod_item(hod_norm(x, -(double)INFINITY)), 0, 0);
    NEAR(hod_item(hod_norm(x, 3)), cbrt(27 + 64), 1e-14);
    NEAR(hod_item(hod_norm(x, 0.5)), pow(sqrt(3) + 2, 2), 1e-13);
    NEAR(hod_item(hod_norm(F64(1, 2), -1)), 1 / 1.5, 1e-15);
    const double powers[] = {0.5, 1, 2, 3, INFINITY};
    for (int i = 0; i < HOD_COUNT(powers); i++) { /* finite at 0 */
        hod_tensor *z = leaf(hod_zeros(HOD_F64, HOD_SHAPE(3)));
        ARE(hod_grad(z) ? NULL : gradient_of(z, hod_norm(z, powers[i])), 0, 0, 0, 0);
    }
    leaf(x);
    ARE(gradient_of(x, hod_norm(x, 2)), 1e-15, .6, 0, -.8);
    NEAR(hod_item(hod_norm(hod_full(HOD_F16, HOD_SHAPE(100), 300), 2)), 3000,
         2); /* 300^2 > 65504 */
}

TEST(ops_reduce_deviations)
{
    hod_tensor *x = hod_from_doubles((double[]){1, 2, 3, 4, 5, 9}, HOD_SHAPE(2, 3));
    NEAR(hod_item(hod_std_over(x, HOD_SHAPE(0, 1), false, 1)), sqrt(8), 1e-15);
    ARE(hod_std_keep(x, 0, 1), 1e-15, sqrt(2 / 3.), sqrt(14 / 3.));
    CHECK(isnan(hod_item(hod_std_over(F32(1), HOD_SHAPE(0), false, 1))));
    hod_tensor *flat = leaf(hod_full(HOD_F64, HOD_SHAPE(4), 2));
    ARE(gradient_of(flat, hod_std_over(flat, HOD_SHAPE(0), false, 1)), 0, 0, 0, 0, 0);
}

TEST(ops_reduce_logsumexp_over_several)
{
    hod_tensor *x = hod_from_doubles((double[]){1, 2, 3, 4, -INFINITY, -INFINITY}, HOD_SHAPE(3, 2));
    double all = log(exp(1) + exp(2) + exp(3) + exp(4));
    NEAR(hod_item(hod_logsumexp_over(x, HOD_SHAPE(0, 1), false)), all, 1e-15);
    hod_tensor *kept = hod_logsumexp_over(x, HOD_SHAPE(-1, 0), true);
    EQ_INT(hod_tensor_ndim(kept), 2);
    ARE(hod_logsumexp(x, 1, false), 1e-15, log(exp(1) + exp(2)), log(exp(3) + exp(4)), -INFINITY);
}

/* B30: the first of equals; its index agrees with argmax and it alone has the gradient. */
TEST(ops_reduce_b30_extremes_with_their_place)
{
    hod_tensor *x =
        leaf(hod_from_doubles((double[]){2, 3, 0, 3, 3, 1, 3, 1, 3, 1}, HOD_SHAPE(2, 5)));
    hod_tensor *at, *y = hod_max_along(x, 1, false, &at);
    ARE(y, 0, 3, 3);
    ARE(at, 0, 1, 1);
    ARE(gradient_of(x, y), 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0);
    y = hod_min_along(x, -2, true, &at);
    EQ_INT(hod_tensor_ndim(y), 2);
    EQ_INT(hod_tensor_ndim(at), 2);
    ARE(y, 0, 1, 3, 0, 3, 1);
    ARE(at, 0, 1, 0, 0, 0, 1);
    NEAR(hod_item(hod_max_along(hod_scalar(4), 0, false, &at)), 4, 0);
    CHECK(isnan(hod_item(hod_max_along(F32(1, NAN, 5), 0, false, &at))));
    ERROR_IS("argmax: no dimension 3 in a tensor of 2", hod_max_along(x, 3, false, &at));
}

TEST(ops_scan_sums_and_products)
{
    hod_tensor *x = hod_from_doubles((double[]){1, 2, 3, 4, 5, 6}, HOD_SHAPE(2, 3));
    ARE(hod_cumsum(x, 1), 0, 1, 3, 6, 4, 9, 15);
    ARE(hod_cumsum(x, 0), 0, 1, 2, 3, 5, 7, 9);
    ARE(hod_cumprod(x, -1), 0, 1, 2, 6, 4, 20, 120);
    ARE(hod_cumsum(hod_transpose(x, 0, 1), 1), 0, 1, 5, 2, 7, 3, 9);
    EQ_INT(hod_tensor_dtype(hod_cumsum(hod_gt_scalar(x, 2), 0)), HOD_I64);
    ARE(hod_cumsum(hod_scalar(3), 0), 0, 3);
    EQ_INT(hod_tensor_numel(hod_cumsum(hod_zeros(HOD_F32, HOD_SHAPE(0, 3)), 0)), 0);
    hod_tensor *ones = hod_cumsum(hod_full(HOD_F32, HOD_SHAPE(1000000), 1), 0);
    EQ_INT((int64_t)hod_item(hod_select(ones, 0, -1)), 1000000);
    hod_tensor *tenth = hod_cumsum(hod_full(HOD_F32, HOD_SHAPE(1000000), 0.1), 0);
    NEAR(hod_item(hod_select(tenth, 0, -1)), 100000.0015, 0.005);
    ERROR_IS("cumsum: no dimension 2 in a tensor of 2", hod_cumsum(x, 2));
}

/* By differences of the products themselves: with one and with two zeros. */
TEST(ops_scan_products_with_zeros_have_slopes)
{
    const double rows[][4] = {{2, 0, 3, 5}, {0, 2, 0, 4}, {0, 0, 1, 2}, {3, 2, 4, 0}};
    for (int r = 0; r < HOD_COUNT(rows); r++) {
        hod_tensor *x = leaf(hod_from_doubles(rows[r], HOD_SHAPE(4)));
        double g[4];
        CHECK(hod_read_doubles(gradient_of(x, hod_cumprod(x, 0)), g, 4) == 0);
        for (int j = 0; j < 4; j++) { /* a product is linear in each factor: 1 more is exact */
            double with = 1, without = 1, slope = 0;
            for (int i = 0; i < 4; i++) {
                with *= rows[r][i] + (i == j);
                without *= rows[r][i];
                slope += with - without;
            }
            NEAR(g[j], slope, 1e-12);
        }
    }
}

/* ---- loops for this machine against loops for any ---- */

static double ulps(const float *a, const float *b, int64_t n)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i++)
        if (a[i] != b[i] && !(isnan(a[i]) && isnan(b[i])))
            worst = fmax(worst, fabs((double)a[i] - b[i]) /
                                    fmax(0x1p-149, ldexp(1, ilogb(fabs(b[i])) - 23)));
    return worst;
}

/* Fused multiply-add moves a result by the errors that docs/ops.md states for either; 8 covers the
 * two of the worst, mish and silu. Whole values may not differ at all. */
TEST(ops_rows_agree_for_every_instruction_set)
{
    enum { N = 1037 };
    static float a[N], b[N], c[N], y[N], want[N];
    uint8_t condition[N];
    for (int k = 1; k <= 2; k++)
        for (hod_op op = 0; op < HOD_OPS; op++) {
            const hod_op_info *info = &hod__op_info[op];
            const hod_rows *rows = hod__rows_of(k);
            if (!rows || info->class != HOD_POINTWISE || op == HOD_OP_cast ||
                info->flags & HOD_OPF_INT_ONLY)
                continue;
            for (int i = 0; i < N; i++) {
                a[i] = (float)(info->low + (info->high - info->low) * (i * 37 % N) / N);
                b[i] = (float)(info->low + (info->high - info->low) * (i * 101 % N) / N);
                c[i] = (float)(info->low + (info->high - info->low) * (i * 211 % N) / N);
                condition[i] = i % 3 == 0;
            }
            const void *in[] = {info->flags & HOD_OPF_CHOOSES ? (void *)condition : a, b, c};
            bool flags = info->flags & HOD_OPF_BOOL_RESULT;
            memset(y, 0, sizeof y), memset(want, 0, sizeof want);
            rows->pointwise[HOD_F32][op](N, y, 1, in, (int64_t[]){1, 1, 1});
            hod__rows_plain.pointwise[HOD_F32][op](N, want, 1, in, (int64_t[]){1, 1, 1});
            if (flags ? memcmp(y, want, sizeof y) != 0 : ulps(y, want, N) > 8)
                FAIL("%s for %s: %g ulp", info->name, rows->name, ulps(y, want, N));
        }
}

/* One in so many arguments is far: in none of the blocks, in some, in all. */
static void near_and_far(float *x, int n, int64_t far)
{
    static const float odd[] = {1e30f, -3e7f, INFINITY, NAN, 0.0f, -0.0f, 0x1p-149f, -1e-38f, 5e9f};
    for (int i = 0; i < n; i++)
        x[i] = far && (i * 7919ll + 11) % far == 0 ? odd[i % HOD_COUNT(odd)]
                                                   : (float)((i * 104729 % 20011) - 10005) / 97;
}

TEST(ops_rows_of_near_arguments_agree_to_the_bit)
{
    enum { N = 5003 };
    static float a[2 * N], b[2 * N], y[2 * N], want[2 * N];
    static const int64_t far[] = {0, 1, 13, 1999};
    for (int k = 0; k <= 2; k++)
        for (hod_op op = 0; op < HOD_OPS; op++)
            for (int f = 0; f < 16; f++) {
                const hod_rows *rows = hod__rows_of(k);
                if (!rows || !rows->near[op])
                    continue;
                near_and_far(a, 2 * N, far[f / 4]);
                near_and_far(b, 2 * N - 3, far[f % 4]);
                for (int s = 0; s < 3; s++) {
                    const int64_t step[] = {s, 2 - s};
                    rows->near[op](N, y, 1 + s % 2, (const void *[]){a, b}, step);
                    rows->pointwise[HOD_F32][op](N, want, 1 + s % 2, (const void *[]){a, b}, step);
                    for (int i = 0; i < 2 * N; i++)
                        if (!(y[i] == want[i] && !signbit(y[i]) == !signbit(want[i])) &&
                            !(isnan(y[i]) && isnan(want[i])))
                            FAIL("%s for %s, far %d: %a, not %a", hod__op_info[op].name, rows->name,
                                 f, y[i], want[i]);
                }
            }
}

TEST(ops_rows_reduce_the_same_for_every_instruction_set)
{
    hod_tensor *x = hod_sin(hod_arange(HOD_F32, 70001));
    hod_tensor *m = hod_reshape(hod_slice(x, 0, 0, 70000), HOD_SHAPE(700, 100));
    double whole[3], row[3], column[3];
    int n = 0;
    for (int k = 0; k < 3; k++) {
        if (!hod__rows_of(k))
            continue;
        hod__rows_use(hod__rows_of(k));
        whole[n] = hod_item(hod_sum(x));
        row[n] = hod_item(hod_select(hod_sum_dims(m, 1), 0, 333));
        column[n++] = hod_item(hod_select(hod_sum_dims(m, 0), 0, 77));
    }
    hod__rows_use(NULL);
    for (int k = 1; k < n; k++)
        CHECK(whole[k] == whole[0] && row[k] == row[0] && column[k] == column[0]);
}

TEST(ops_rows_are_chosen_once_for_all)
{
    static const hod_pair_rows *const pairs[] = {HOD_ROW_SETS(hod__pairs)};
    static const hod_recur_rows *const recur[] = {HOD_ROW_SETS(hod__recur)};
    static const attention_kernels *const attention[] = {HOD_ROW_SETS(hod__attention)};
    for (int k = 0; k < HOD_COUNT(pairs) && hod__rows_of(k); k++) {
        hod__rows_use(hod__rows_of(k));
        CHECK(hod__pairs_rows(HOD_F32) == pairs[k] && hod__pairs_rows(HOD_F64) == &hod__pairs_f64);
        CHECK(hod__recur_rows(HOD_F32) == recur[k] && hod__recur_rows(HOD_F64) == &hod__recur_f64);
        CHECK(hod__attention_kernels(HOD_F32) == attention[k]);
    }
    hod__rows_use(NULL);
}

/* A constant lies in words of 8 bytes, and in what is left of one; strided it is written element by
 * element. */
TEST(ops_full_is_the_same_at_every_size)
{
    for (int k = 0; k < 3 && hod__rows_of(k); k++)
        for (hod_dtype t = 0; t < HOD_DTYPES; t++)
            for (int64_t n = 1; n < 80; n = n * 3 / 2 + 1) {
                hod__rows_use(hod__rows_of(k));
                hod_tensor *dense = hod_full(t, HOD_SHAPE(n + 2), 1);
                hod_tensor *two = hod_full(t, HOD_SHAPE(n), 2);
                CHECK(hod__assign(hod_slice(dense, 0, 1, n + 1), two));
                hod_tensor *sum = hod_sum(hod_cast(dense, HOD_F64));
                NEAR(hod_item(sum), t == HOD_BOOL ? n + 2 : 2 * n + 2, 0);
                hod_tensor *columns = hod_full(t, HOD_SHAPE(n, 3), 1);
                hod_attrs a = {.full = {.value = 0}};
                CHECK(hod__op_eval_into(HOD_OP_full, &a, 0, NULL, hod_slice(columns, 1, 1, 2)) ==
                      0);
                NEAR(hod_item(hod_sum(hod_cast(columns, HOD_F64))), 2 * n, 0);
            }
    hod__rows_use(NULL);
}

TEST(ops_arithmetic_on_a_bool_is_in_i64)
{
    hod_tensor *x = hod_from_floats((float[]){1, -1}, HOD_SHAPE(2)), *flag = hod_gt_scalar(x, 0);
    int64_t v[2];
    hod_tensor *y = hod_neg(flag); /* the other flag is hod_logical_not */
    EQ_INT(hod_tensor_dtype(y), HOD_I64);
    CHECK(hod_read_ints(y, v, 2) == 0 && v[0] == -1 && v[1] == 0);
}
