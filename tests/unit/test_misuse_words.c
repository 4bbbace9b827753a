/* Misuse and its exact message: what came, what was expected. tests/unit/test_misuse.c holds the
 * random calls; here are those that a user makes. */
#include "harness.h"

#include <hod/hod.h>
#include <math.h>
#include <stdlib.h>

static hod_loss classify(hod_module *net, const hod_batch *b)
{
    return hod_cross_entropy(hod_call(net, b->input), b->target);
}

/* ---- NULL that nothing explains ---- */

TEST(misuse_null_is_an_error)
{
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(2, 3));
    hod_update_result r;
    hod_update u;
    hod_batch b;
    ERROR_IS("optimizer_new: module is NULL", hod_optimizer_new(NULL, hod_sgd(.lr = 1)));
    ERROR_IS("update: optimizer is NULL", hod_update(NULL, &r));
    ERROR_IS("update: optimizer is NULL", hod_update_all(NULL));
    ERROR_IS("gradients_scale: optimizer is NULL", hod_gradients_scale(NULL, 2));
    ERROR_IS("optimizer_swap_ema: optimizer is NULL", hod_optimizer_swap_ema(NULL));
    ERROR_IS("optimizer_set_decay: optimizer is NULL", hod_optimizer_set_decay(NULL, "w", true));
    hod_optimizer_set_lr(NULL, 1);
    EQ_STR(hod_error(), "optimizer_set_lr: optimizer is NULL");
    CHECK(hod_error_take(NULL));
    CHECK(isnan(hod_optimizer_lr(NULL)) && hod_error_take(NULL));
    CHECK(hod_optimizer_settings(NULL).lr == 0 && hod_error_take(NULL));
    CHECK(isnan(hod_gradients_norm(NULL)) && hod_error_take(NULL));
    ERROR_IS("fn_call: function is NULL", hod_fn_call(NULL, &x, NULL));
    ERROR_IS("fn_prepare: function is NULL", hod_fn_prepare(NULL, &x));
    ERROR_IS("fn_print: function is NULL", hod_fn_print(NULL, HOD_FN_GRAPH, stdout));
    ERROR_IS("save: module is NULL", hod_save(NULL, "/nowhere"));
    ERROR_IS("load: module is NULL", hod_load(NULL, "/nowhere"));
    ERROR_IS("backward: tensor is NULL", hod_backward(NULL));
    ERROR_IS("trainer: module is NULL", hod_trainer_new(NULL, classify));
    ERROR_IS("trainer_step: trainer is NULL", hod_trainer_step(NULL, NULL, &u));
    ERROR_IS("trainer_save: trainer is NULL", hod_trainer_save(NULL, "/nowhere"));
    ERROR_IS("trainer_resume: trainer is NULL", hod_trainer_resume(NULL, "/nowhere"));
    ERROR_IS("loader_next: loader is NULL", hod_loader_next(NULL, 1, &b));
    ERROR_IS("dataset_slice: dataset is NULL", hod_dataset_slice(NULL, 0, 1));
    ERROR_IS("call: module is NULL", hod_call(NULL, x));
    ERROR_IS("module_init: module is NULL", hod_module_init(NULL, 1));
    ERROR_IS("tensor_file_read: file is NULL", hod_tensor_file_read(NULL, 0));
    ERROR_IS("requires_grad: tensor is NULL", hod_requires_grad(NULL, true));
    ERROR_IS("add: the second input is NULL", hod_add(x, NULL));
    ERROR_IS("relu: the input is NULL", hod_relu(NULL));
    ERROR_IS("sum: the input is NULL", hod_sum(NULL));
    ERROR_IS("reshape: x is NULL", hod_reshape(NULL, HOD_SHAPE(2)));
    ERROR_IS("linear: b is NULL", hod_linear(x, x, NULL));
    ERROR_IS("softmax: x is NULL", hod_softmax(NULL, 0));
    ERROR_IS("mse: target is NULL", hod_mse(x, NULL).sum);
    ERROR_IS("cross_entropy: target is NULL", hod_cross_entropy(x, NULL).sum);
    ERROR_IS("concat: an input is NULL", hod_concat(2, (hod_tensor *[]){x, NULL}, 0));
    CHECK(isnan(hod_item(NULL)));
    EQ_STR(hod_error(), "item: tensor is NULL");
    CHECK(hod_error_take(NULL));
}

TEST(misuse_null_after_an_error_adds_nothing)
{
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(2, 3));
    hod_tensor *y = hod_reshape(x, HOD_SHAPE(5));
    CHECK(!y && hod_backward(hod_sum(hod_relu(y))) == -1);
    CHECK(hod_update_all(NULL) == -1);
    EQ_STR(hod_error(), "reshape: (2,3) has 6 elements, (5) has 5");
    CHECK(hod_error_take(NULL));
}

/* ---- operators ---- */

TEST(misuse_of_operators_says_what_was_wanted)
{
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(2, 4)), *w = hod_zeros(HOD_F32, HOD_SHAPE(4, 3)),
               *image = hod_zeros(HOD_F32, HOD_SHAPE(1, 1, 2, 8)),
               *kernel = hod_zeros(HOD_F32, HOD_SHAPE(1, 1, 5, 5)),
               *i = hod_zeros(HOD_I64, HOD_SHAPE(100));
    ERROR_IS("linear: (2,4) with weights (4,3): last sizes 4 and 3 differ",
             hod_linear_nobias(x, w));
    ERROR_IS("linear: (2,4) with weights (100), wanted (...,I) with weights (O,I)",
             hod_linear_nobias(x, i));
    ERROR_IS("linear: bias (2,4) with weights (2,4), wanted (2)", hod_linear(x, x, x));
    ERROR_IS("cross_entropy: targets are f32, wanted i64 labels or floats like (2,4)",
             hod_cross_entropy(x, hod_zeros(HOD_F32, HOD_SHAPE(2))).sum);
    ERROR_IS("cross_entropy: (2,4) with targets (100), wanted (2)", hod_cross_entropy(x, i).sum);
    ERROR_IS("cross_entropy: logits are i64, wanted floats",
             hod_cross_entropy(hod_zeros(HOD_I64, HOD_SHAPE(100, 2)), i).sum);
    ERROR_IS("dropout: probability 2, wanted 0 to 1", hod_dropout(x, 2));
    ERROR_IS("reshape: (2,4) has 8 elements, which 3 does not divide: (3,-1)",
             hod_reshape(x, HOD_SHAPE(3, -1)));
    ERROR_IS("reshape: size -2 of dimension 1, must not be negative",
             hod_reshape(x, HOD_SHAPE(2, -2)));
    ERROR_IS("conv2d: (1,1,2,8) with weights (1,1,5,5): a window of 5 is larger than the height, "
             "2 with its padding",
             hod_conv2d(image, kernel));
    ERROR_IS("max_pool2d: (1,1,2,8): a window of 3 is larger than the height, 2 with its padding",
             hod_max_pool2d(image, 3));
    ERROR_IS("softmax: no dimension 5 in a tensor of 2", hod_softmax(x, 5));
    ERROR_IS("log_softmax: no dimension -3 in a tensor of 2", hod_log_softmax(x, -3));
    ERROR_IS("logsumexp: no dimension 2 in a tensor of 2", hod_logsumexp(x, 2, true));
    ERROR_IS("clamp: from 3 to 1, the first must not be the greater", hod_clamp(x, 3, 1));
    ERROR_IS("select: index 7 in dimension 0 of (2,4), which has 2", hod_select(x, 0, 7));
    ERROR_IS("pad: by -1 and 0, must not be negative", hod_pad(x, 0, -1, 0, 0));
}

/* ---- schedules ---- */

TEST(misuse_of_a_schedule_without_an_end)
{
    hod_schedule endless = hod_cosine(.warmup = 20), good = hod_one_cycle(.total = 10);
    CHECK(isnan(hod_schedule_factor(&endless, 3)));
    EQ_STR(hod_error(), "schedule cosine: 0 updates in all, at least 1 needed");
    CHECK(hod_error_take(NULL));
    CHECK(isnan(hod_schedule_factor(NULL, 3)));
    EQ_STR(hod_error(), "schedule: the schedule is NULL");
    CHECK(hod_error_take(NULL));
    NEAR(hod_schedule_factor(&good, 2), 1, 0); /* defaults count, resolved or not */
    CHECK(!hod_error());
}

/* ---- compiled functions ---- */

static int reads_two(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    out[0] = hod_add(in[0], in[1]);
    return out[0] ? 0 : -1;
}

static int makes_two(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    out[0] = hod_relu(in[0]);
    out[1] = hod_neg(in[0]);
    return 0;
}

TEST(misuse_of_the_counts_of_a_compiled_function)
{
    for (int mode = 0; mode < 2; mode++) {
        hod_compile_mode how = mode ? HOD_COMPILE_EAGER : HOD_COMPILE_DEFAULT;
        hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(3)), *in[] = {x, x}, *out[2];
        hod_fn *two = hod_compile(reads_two, NULL, .inputs = 1, .outputs = 1, .mode = how);
        ERROR_IS("add: the second input is NULL", hod_fn_call(two, in, out));
        hod_fn_free(two);
        hod_fn *one = hod_compile(makes_two, NULL, .inputs = 1, .outputs = 1, .mode = how);
        ERROR_IS("step: the function sets result 1, .outputs is 1", hod_fn_call(one, in, out));
        hod_fn_free(one);
    }
}
