/* Normalisation: identities between the norms, and statistics that would be meaningless. Values are
 * PyTorch's in tests/golden. */
#include "harness.h"
#include <hod/functional.h>
#include <hod/nn.h>

static hod_tensor *draws(hod_shape shape)
{
    return hod_sub_scalar(hod_mul_scalar(hod_uniform(shape), 4), 1);
}

/* The greatest difference. */
static double apart(hod_tensor *a, hod_tensor *b)
{
    hod_tensor *d = hod_abs(hod_sub(hod_cast(a, HOD_F64), hod_cast(b, HOD_F64)));
    return hod_item(hod_amax_over(hod_flatten(d, 0), HOD_SHAPE(0), false));
}

TEST(norm_instance_is_batch_of_each_sample)
{
    hod_tensor *x = draws(HOD_SHAPE(3, 4, 5)), *w = draws(HOD_SHAPE(4)), *b = draws(HOD_SHAPE(4));
    hod_tensor *y = hod_instance_norm(x, w, b, 1e-5);
    for (int i = 0; i < 3; i++) {
        hod_tensor *one = hod_batch_norm_train(hod_slice(x, 0, i, i + 1), w, b, 1e-5);
        CHECK(apart(hod_slice(y, 0, i, i + 1), one) < 1e-6);
    }
}

TEST(norm_training_is_evaluation_with_the_moments)
{
    hod_tensor *x = draws(HOD_SHAPE(4, 3, 2, 5)), *w = draws(HOD_SHAPE(3));
    hod_tensor *mean = hod_mean_dims(x, 0, 2, 3);
    hod_tensor *var = hod_var_over(x, HOD_SHAPE(0, 2, 3), false, 0);
    CHECK(apart(hod_batch_norm_train(x, w, w, 1e-5), hod_batch_norm(x, mean, var, w, w, 1e-5)) <
          1e-6);
    CHECK(apart(hod_batch_norm_train_plain(x, 1e-5), hod_batch_norm_plain(x, mean, var, 1e-5)) <
          1e-6);
}

TEST(norm_rms_module_has_a_gain_and_no_bias)
{
    hod_module *m = hod_nn_rms_norm(NULL, "norm", 6);
    EQ_INT(hod_module_count_parameters(m), 6);
    hod_tensor *y = hod_call(m, draws(HOD_SHAPE(2, 6)));
    hod_tensor *squares = hod_mean_dims(hod_square(y), 1);
    CHECK(apart(squares, hod_full_like(squares, 1)) < 1e-4);
    hod_module_free(m);
}

TEST(norm_refuses_statistics_of_one_value)
{
    hod_tensor *one = draws(HOD_SHAPE(1, 3)), *column = draws(HOD_SHAPE(2, 3, 1));
    ERROR_IS("batch_norm: (1,3) has one value per channel, training needs two",
             hod_batch_norm_train_plain(one, 1e-5));
    ERROR_IS("instance_norm: (2,3,1) has one value per sample and channel, two are the least",
             hod_instance_norm_plain(column, 1e-5));
    ERROR_IS("rms_norm: over the last 3 dimensions of (1,3)", hod_rms_norm_plain(one, 3, 1e-5));
    ERROR_IS("layer_norm: over the last 0 dimensions of (1,3)", hod_layer_norm_plain(one, 0, 1e-5));
    ERROR_IS("rms_norm: (1,3) with weights (2)", hod_rms_norm(one, draws(HOD_SHAPE(2)), 1e-5));
}
