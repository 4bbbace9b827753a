/* Losses and the softmax family where they are easily wrong: ignored labels, extremes, sums. */
#include "harness.h"
#include "ops/op.h"
#include <hod/autograd.h>
#include <hod/functional.h>
#include <hod/losses.h>
#include <math.h>

static void check_values(hod_tensor *t, int64_t n, const double *want, double tol)
{
    double have[16];
    CHECK(t != NULL && n <= 16 && hod_read_doubles(t, have, n) == 0);
    for (int64_t i = 0; i < n; i++)
        NEAR(have[i], want[i], tol);
}

static hod_tensor *labels(int64_t n, const int64_t *v)
{
    return hod_from_ints(v, HOD_SHAPE(n));
}

TEST(loss_b27_ignored_rows_are_exactly_zero)
{
    hod_tensor *x = hod_from_floats((float[]){1, 2, 3}, HOD_SHAPE(1, 3));
    hod_tensor *t = labels(1, (int64_t[]){-1});
    CHECK(hod_requires_grad(x, true));
    check_values(hod_cross_entropy_rows(x, t, .ignore_index = -1), 1, (double[]){0}, 0);
    hod_loss loss = hod_cross_entropy(x, t, .ignore_index = -1);
    NEAR(hod_item(loss.sum), 0, 0);
    NEAR(hod_item(loss.weight), 0, 0);
    CHECK(isnan(hod_item(hod_loss_mean(loss)))); /* the mean of nothing, as documented for mean */
    CHECK(hod_backward(loss.sum) == 0);
    check_values(hod_grad(x), 3, (double[]){0, 0, 0}, 0);
}

TEST(loss_b27_ignored_nan_does_not_spread)
{
    hod_tensor *x = hod_from_floats((float[]){NAN, INFINITY, 1, 0, 0, 0}, HOD_SHAPE(2, 3));
    CHECK(hod_requires_grad(x, true));
    hod_loss loss = hod_cross_entropy(x, labels(2, (int64_t[]){-1, 0}), .ignore_index = -1);
    NEAR(hod_item(loss.sum), log(3), 1e-6);
    CHECK(hod_backward(loss.sum) == 0);
    check_values(hod_grad(x), 6, (double[]){0, 0, 0, 1.0 / 3 - 1, 1.0 / 3, 1.0 / 3}, 1e-6);
}

TEST(loss_b27_any_number_can_be_ignored)
{
    hod_tensor *x = hod_from_floats((float[]){1, 2, 3, 3, 2, 1, 0, 0, 0}, HOD_SHAPE(3, 3));
    hod_loss loss = hod_cross_entropy(x, labels(3, (int64_t[]){0, 1, 255}), .ignore_index = 255);
    NEAR(hod_item(loss.sum), 2.4076059644443806 + 1.4076059644443806, 1e-6);
    NEAR(hod_item(loss.weight), 2, 0);
    loss = hod_cross_entropy(x, labels(3, (int64_t[]){0, 1, 2}), .ignore_zero = true);
    NEAR(hod_item(loss.weight), 2, 0);
    loss = hod_cross_entropy(x, labels(3, (int64_t[]){0, -100, 2})); /* by default */
    NEAR(hod_item(loss.weight), 2, 0);
}

TEST(loss_b27_other_labels_are_refused)
{
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(2, 3));
    ERROR_IS("cross_entropy: label -4 of row 1 is outside 0..2 and is not the ignored -1",
             hod_cross_entropy(x, labels(2, (int64_t[]){-1, -4}), .ignore_index = -1).sum);
    ERROR_IS("cross_entropy: label 3 of row 0 is outside 0..2 and is not the ignored -1",
             hod_cross_entropy(x, labels(2, (int64_t[]){3, 0}), .ignore_index = -1).sum);
    ERROR_IS("nll: label 3 of row 0 is outside 0..2 and is not the ignored -100",
             hod_nll(x, labels(2, (int64_t[]){3, 0})).sum);
    ERROR_IS("cross_entropy: (2,3) with targets (3), wanted (2)",
             hod_cross_entropy(x, labels(3, (int64_t[]){0, 0, 0})).sum);
}

TEST(loss_b28_extremes)
{
    hod_tensor *x = hod_from_floats((float[]){1e8f, 1e8f}, HOD_SHAPE(1, 2));
    CHECK(hod_requires_grad(x, true));
    hod_loss loss = hod_cross_entropy(x, labels(1, (int64_t[]){1}));
    NEAR(hod_item(loss.sum), 0.693147, 1e-6);
    CHECK(hod_backward(loss.sum) == 0);
    check_values(hod_grad(x), 2, (double[]){0.5, -0.5}, 1e-7);
    x = hod_from_floats((float[]){1000, 0}, HOD_SHAPE(1, 2));
    CHECK(hod_requires_grad(x, true));
    loss = hod_cross_entropy(x, labels(1, (int64_t[]){1}));
    NEAR(hod_item(loss.sum), 1000, 0);
    CHECK(hod_backward(loss.sum) == 0);
    check_values(hod_grad(x), 2, (double[]){1, -1}, 0);
}

TEST(loss_b28_rows_of_minus_infinity)
{
    hod_tensor *x = hod_from_floats((float[]){1, 2, -INFINITY, -INFINITY}, HOD_SHAPE(2, 2));
    CHECK(hod_requires_grad(x, true));
    hod_tensor *y = hod_logsumexp(x, 1, false);
    check_values(y, 2, (double[]){2.313262, -INFINITY}, 1e-6);
    CHECK(hod_backward(hod_select(y, 0, 0)) == 0);
    check_values(hod_grad(x), 4, (double[]){0.268941, 0.731059, 0, 0}, 1e-6);
    check_values(hod_softmax(x, 1), 4, (double[]){0.268941, 0.731059, 0, 0}, 1e-6);
    hod_tensor *inf = hod_from_floats((float[]){INFINITY, 0}, HOD_SHAPE(2));
    NEAR(hod_item(hod_logsumexp(inf, 0, false)), INFINITY, 0);
}

TEST(loss_b28_masked_query_leaves_others_alone)
{
    hod_tensor *scores = hod_from_floats((float[]){0, 0, 0, 0}, HOD_SHAPE(2, 2));
    hod_tensor *v = hod_from_floats((float[]){1, 3}, HOD_SHAPE(2, 1));
    CHECK(hod_requires_grad(scores, true) && hod_requires_grad(v, true));
    hod_tensor *mask = hod_from_floats((float[]){0, 0, -INFINITY, -INFINITY}, HOD_SHAPE(2, 2));
    hod_tensor *out = hod_matmul(hod_softmax(hod_add(scores, mask), 1), v);
    NEAR(hod_item(hod_select(hod_select(out, 0, 0), 0, 0)), 2, 0);
    NEAR(hod_item(hod_select(hod_select(out, 0, 1), 0, 0)), 0, 0);
    CHECK(hod_backward(hod_sum(hod_select(out, 0, 0))) == 0);
    check_values(hod_grad(v), 2, (double[]){0.5, 0.5}, 0);
    CHECK(hod_item(hod_amin(hod_isfinite(hod_grad(scores)))) == 1);
}

/* Class weights that learn go the composed way; every row counts there as without a gradient. */
TEST(loss_class_weights_that_require_a_gradient)
{
    hod_tensor *x = hod_from_floats((float[]){1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}, HOD_SHAPE(3, 4));
    hod_tensor *t = labels(3, (int64_t[]){0, 1, 2});
    hod_tensor *w = hod_from_floats((float[]){1, .5, 2, 1}, HOD_SHAPE(4));
    for (int learns = 0; learns < 2; learns++) {
        CHECK(hod_requires_grad(w, learns));
        NEAR(hod_item(hod_cross_entropy(x, t, .class_weight = w).sum), 7.54066, 1e-5);
        NEAR(hod_item(hod_cross_entropy(x, t, .class_weight = w, .label_smoothing = .1).sum),
             7.38516, 1e-5);
        check_values(hod_cross_entropy_rows(x, t, .class_weight = w), 3,
                     (double[]){3.4401897, 1.2200949, 2.8803794}, 1e-6);
        NEAR(hod_item(hod_nll(x, t, .class_weight = w).sum), -8, 0);
    }
    CHECK(hod_backward(hod_cross_entropy(x, t, .class_weight = w).sum) == 0);
    check_values(hod_grad(w), 4, (double[]){3.4401897, 2.4401897, 1.4401897, 0}, 1e-6);
}

TEST(loss_sums_add_up_over_micro_batches)
{
    hod_tensor *x = hod_sin(hod_reshape(hod_arange(HOD_F64, 40), HOD_SHAPE(8, 5)));
    hod_tensor *t = labels(8, (int64_t[]){0, 1, -1, 3, 4, -1, 1, 2});
    hod_loss whole = hod_cross_entropy(x, t, .ignore_index = -1, .label_smoothing = 0.1);
    double sum = 0, weight = 0;
    for (int i = 0; i < 8; i += 2) {
        hod_loss part = hod_cross_entropy(hod_slice(x, 0, i, i + 2), hod_slice(t, 0, i, i + 2),
                                          .ignore_index = -1, .label_smoothing = 0.1);
        sum += hod_item(part.sum);
        weight += hod_item(part.weight);
    }
    NEAR(hod_item(whole.sum), sum, 1e-13);
    NEAR(hod_item(whole.weight), weight, 0);
    EQ_INT((int64_t)weight, 6);
}

TEST(loss_halves_are_computed_in_f32)
{
    hod_tensor *x = hod_cast(hod_full(HOD_F32, HOD_SHAPE(512, 10), 1), HOD_F16);
    hod_loss loss = hod_cross_entropy(x, hod_zeros(HOD_I64, HOD_SHAPE(512)));
    EQ_INT(hod_tensor_dtype(loss.sum), HOD_F32);
    NEAR(hod_item(loss.sum), 512 * log(10), 1e-3);
    hod_tensor *y = hod_layer_norm(hod_cast(hod_full(HOD_F32, HOD_SHAPE(1, 4), 60000), HOD_F16),
                                   hod_full(HOD_F16, HOD_SHAPE(4), 1),
                                   hod_full(HOD_F16, HOD_SHAPE(4), 0.5), 1e-5);
    EQ_INT(hod_tensor_dtype(y), HOD_F16);
    NEAR(hod_item(hod_amax(y)), 0.5, 0);
}

TEST(loss_bce_at_extremes)
{
    hod_tensor *x = hod_from_floats((float[]){1000, -1000, 0}, HOD_SHAPE(3));
    hod_tensor *t = hod_from_floats((float[]){0, 0, 0.5}, HOD_SHAPE(3));
    CHECK(hod_requires_grad(x, true));
    hod_loss loss = hod_bce_with_logits(x, t);
    NEAR(hod_item(loss.sum), 1000.6931471805599, 1e-4);
    CHECK(hod_backward(loss.sum) == 0);
    check_values(hod_grad(x), 3, (double[]){1, 0, 0}, 0);
    ERROR_IS("mse: (3) with targets (2)", hod_mse(x, hod_zeros(HOD_F32, HOD_SHAPE(2))).sum);
}
