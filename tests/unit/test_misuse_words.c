/* Misuse and its exact message: what came, what was expected. tests/unit/test_misuse.c and
 * test_misuse_nets.c hold random calls; here are those that a user makes,
 * or that were once wrong. */
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
    ERROR_IS("lerp: the first input is NULL", hod_lerp(NULL, x, x));
    ERROR_IS("clamp: clip: the first input is NULL", hod_clamp(NULL, 0, 1));
    ERROR_IS("where: the condition is NULL", hod_where(NULL, x, x));
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
    ERROR_IS("matmul: of i64 and i64, wanted floats", hod_matmul(hod_outer(i, i), hod_outer(i, i)));
    ERROR_IS("index_select: embedding: index 7 at element 0 is outside 0..4",
             hod_index_select(hod_zeros(HOD_F32, HOD_SHAPE(0, 5)), 1,
                              hod_from_ints((int64_t[]){7}, HOD_SHAPE(1))));
    ERROR_IS("linear: bias (2,4) with weights (2,4), wanted (2)", hod_linear(x, x, x));
    ERROR_IS("cross_entropy: targets are f32, wanted i64 labels or floats like (2,4)",
             hod_cross_entropy(x, hod_zeros(HOD_F32, HOD_SHAPE(2))).sum);
    ERROR_IS("cross_entropy: (2,4) with targets (100), wanted (2)", hod_cross_entropy(x, i).sum);
    ERROR_IS("cross_entropy: logits are i64, wanted floats",
             hod_cross_entropy(hod_zeros(HOD_I64, HOD_SHAPE(100, 2)), i).sum);
    ERROR_IS("dropout: probability 2, wanted 0 to 1", hod_dropout(x, 2));
    ERROR_IS("reshape: (2,4) has 8 elements, which 3 does not divide: (3,-1)",
             hod_reshape(x, HOD_SHAPE(3, -1)));
    ERROR_IS("reshape: 2 sizes of (-1,-1) are open (-1), one may be",
             hod_reshape(x, HOD_SHAPE(-1, -1)));
    ERROR_IS("unflatten: 2 sizes of (-1,2,-1) are open (-1), one may be",
             hod_unflatten(x, 1, HOD_SHAPE(-1, 2, -1)));
    ERROR_IS("reshape: size -2 of dimension 1, must not be negative",
             hod_reshape(x, HOD_SHAPE(2, -2)));
    ERROR_IS("conv2d: (1,1,2,8): a window of 5 is larger than the height, 2 with its padding",
             hod_conv2d(image, kernel));
    ERROR_IS("max_pool2d: (1,1,2,8): a window of 3 is larger than the height, 2 with its padding",
             hod_max_pool2d(image, 3));
    ERROR_IS("softmax: no dimension 5 in a tensor of 2", hod_softmax(x, 5));
    ERROR_IS("log_softmax: no dimension -3 in a tensor of 2", hod_log_softmax(x, -3));
    ERROR_IS("logsumexp: no dimension 2 in a tensor of 2", hod_logsumexp(x, 2, true));
    ERROR_IS("clamp: bounds 3 and 1, wanted two numbers in order", hod_clamp(x, 3, 1));
    ERROR_IS("select: index 7 in dimension 0 of (2,4), which has 2", hod_select(x, 0, 7));
    ERROR_IS("pad: 1 numbers before and 1 after, for (2,4) of 2 dimensions: one of both is wanted "
             "for each",
             hod_pad_around(x, HOD_SHAPE(1), HOD_SHAPE(1), HOD_PAD_CONSTANT, 0));
    ERROR_IS("pad: mode 9, wanted HOD_PAD_CONSTANT to _CIRCULAR",
             hod_pad_around(x, HOD_SHAPE(1, 1), HOD_SHAPE(1, 1), (hod_pad_mode)9, 0));
    ERROR_IS("pad: reflect by 4 in dimension 1 of (2,4), at most 3",
             hod_pad_around(x, HOD_SHAPE(0, 4), HOD_SHAPE(0, 0), HOD_PAD_REFLECT, 0));
    hod_shape eight = {.n = 8, .d = {1, 1, 1, 1, 1, 1, 1, 1}};
    ERROR_IS("windows: of (1,1,1,1,1,1,1,1), which leaves no room for their dimension, at most 8",
             hod_windows(hod_reshape(hod_scalar(1), eight), 0, 1, 1));
    ERROR_IS("embedding: rows of (2,4) at an index (1,1,1,1,1,1,1,1): 9 dimensions, at most 8",
             hod_embedding(x, hod_zeros(HOD_I64, eight)));
    ERROR_IS("embedding: rows of (), which has none", hod_embedding(hod_scalar(1), i));
    ERROR_IS("pad: by -1 and 0, must not be negative", hod_pad(x, 0, -1, 0, 0));
}

/* What is made of other operators names itself, and then the one that failed. */
TEST(misuse_names_the_operator_that_was_called)
{
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(2, 4)), *y = hod_zeros(HOD_F32, HOD_SHAPE(3, 5)),
               *i = hod_from_ints((int64_t[]){1, 7}, HOD_SHAPE(2));
    ERROR_IS("one_hot: scatter: an index of f32, not i64, i32 or u8", hod_one_hot(x, 3));
    ERROR_IS("one_hot: scatter: index 7 at element 1 is outside 0..2", hod_one_hot(i, 3));
    ERROR_IS("index_select: embedding: index 7 at element 1 is outside 0..1",
             hod_index_select(x, 0, i));
    ERROR_IS("global_avg_pool2d: mean: no dimension 2 in a tensor of 2", hod_global_avg_pool2d(x));
    ERROR_IS("addmm: matmul: (2,4) x (3,5): inner sizes 4 and 3 differ", hod_addmm(x, x, y, 1, 1));
    ERROR_IS("outer: (2,4) and (3,5): vectors are wanted", hod_outer(x, y));
    ERROR_IS("concat: input 1 is (3,5), input 0 is (2,4): sizes 5 and 4 of dimension 1 differ",
             hod_concat(2, ((hod_tensor *[]){x, y}), 0));
    ERROR_IS("concat: input 1 is (2), input 0 is (2,4): 1 dimensions and 2",
             hod_concat(2, ((hod_tensor *[]){x, hod_select(x, 1, 0)}), 0));
    ERROR_IS("stack: concat: input 1 is (1,3,5), input 0 is (1,2,4): sizes 3 and 2 of dimension 1 "
             "differ",
             hod_stack(2, ((hod_tensor *[]){x, y}), 0));
    /* A call among the arguments is named itself, and so is what fails after it. */
    ERROR_IS("one_hot: scatter: index 7 at element 1 is outside 0..2", hod_neg(hod_one_hot(i, 3)));
    ERROR_IS("neg: the input is NULL", hod_neg(hod_neg(NULL)));
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

/* ---- numbers and sizes at the ends ---- */

TEST(misuse_numbers_outside_a_type)
{
    hod_tensor *x = hod_full(HOD_U8, HOD_SHAPE(2), 44);
    ERROR_IS("eq_scalar: full: 300 is outside u8", hod_eq_scalar(x, 300));
    ERROR_IS("clamp: full: 256 is outside u8", hod_clamp(x, 0, 256));
    ERROR_IS("full: nan is outside i64", hod_full(HOD_I64, HOD_SHAPE(), NAN));
    ERROR_IS("full: 9.22337e+18 is outside i64", hod_full(HOD_I64, HOD_SHAPE(), 0x1p63));
    ERROR_IS("full: 2.14748e+09 is outside i32", hod_full(HOD_I32, HOD_SHAPE(), 0x1p31));
    ERROR_IS("full: -1 is outside u8", hod_full(HOD_U8, HOD_SHAPE(), -1));
    ERROR_IS("maximum_scalar: full: -1 is outside u8", hod_maximum_scalar(x, -1));
    ERROR_IS("lt_scalar: full: -1 is outside u8", hod_lt_scalar(x, -1));
    ERROR_IS("clamp: full: -1 is outside u8", hod_clamp(x, -1, 2));
    ERROR_IS("arange: iota: 299 is outside u8", hod_arange(HOD_U8, 300));
    NEAR(hod_item(hod_select(hod_div_scalar(x, -1), 0, 0)), -44, 0);
    NEAR(hod_item(hod_select(hod_pow_scalar(x, -1), 0, 0)), 1 / 44., 1e-8);
    NEAR(hod_item(hod_select(hod_add_scalar(x, -1), 0, 0)), 43, 0);
    NEAR(hod_item(hod_select(hod_sub_scalar(x, -1), 0, 0)), 45, 0);
    NEAR(hod_item(hod_select(hod_mul_scalar(x, -1), 0, 0)), 212, 0);
    NEAR(hod_item(hod_full(HOD_I64, HOD_SHAPE(), -0x1p63)), -0x1p63, 0);
}

TEST(misuse_sizes_whose_sum_overflows)
{
    hod_tensor *one = hod_scalar(1), *x = hod_full(HOD_F32, HOD_SHAPE(3), 1);
    hod_tensor *endless = hod_expand(one, HOD_SHAPE((int64_t)1 << 62));
    ERROR_IS("pad: by 9223372036854775807 and 1: too large", hod_pad(x, 0, INT64_MAX, 1, 0));
    ERROR_IS("concat: more elements than 64 bits count",
             hod_concat(2, (hod_tensor *[]){endless, endless}, 0));
    hod_tensor *image = hod_full(HOD_F32, HOD_SHAPE(1, 1, 4, 4), 1);
    ERROR_IS("conv2d: (1,1,4,4): kernel 4, stride 1, dilation 1, padding "
             "9223372036854775807 and 9223372036854775807",
             hod_conv2d(image, image, .padding = INT64_MAX));
    ERROR_IS("max_pool2d: (1,1,4,4): kernel 2, stride 2, dilation 9223372036854775807, padding "
             "0 and 0",
             hod_max_pool2d(image, 2, .dilation = INT64_MAX));
    /* A step beyond the end is as good as any other. */
    EQ_INT(hod_tensor_size(hod_slice_step(x, 0, 0, 3, INT64_MAX), 0), 1);
}

TEST(misuse_lists_that_are_none)
{
    hod_tensor *x = hod_scalar(1), *part;
    ERROR_IS("concat: of 0 tensors, at least 1 wanted", hod_concat(3, NULL, 0));
    ERROR_IS("split: nowhere to put the parts", hod_split(x, 0, 1, (int64_t[]){1}, NULL));
    ERROR_IS("split: no sizes", hod_split(x, 0, 1, NULL, &part));
    ERROR_IS("chunk: nowhere to put the parts", hod_chunk(x, 0, 1, NULL));
    ERROR_IS("stack: of 0 tensors, at least 1 wanted", hod_stack(3, NULL, 0));
    ERROR_IS("sum: over -1 dimensions, wanted 0 to 8",
             hod_sum_over(x, (hod_shape){.n = -1}, false));
    ERROR_IS("flip: over -1 dimensions, wanted 0 to 8", hod_flip_over(x, (hod_shape){.n = -1}));
    ERROR_IS("mean: over 9 dimensions, wanted 0 to 8",
             hod_mean_over(x, (hod_shape){.n = 9}, false));
}

/* A dimension is never cut to 32 bits, and named once. */
TEST(misuse_of_dimensions)
{
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(2, 3));
    const hod_shape far = HOD_SHAPE((int64_t)1 << 32), twice = HOD_SHAPE(0, -2);
    ERROR_IS("logsumexp: no dimension 4294967296 in a tensor of 2",
             hod_logsumexp_over(x, far, false));
    ERROR_IS("norm: no dimension 4294967296 in a tensor of 2", hod_norm_over(x, 2, far, false));
    ERROR_IS("logsumexp: dimension 0 named twice", hod_logsumexp_over(x, twice, false));
    ERROR_IS("norm: dimension 0 named twice", hod_norm_over(x, 2, twice, false));
    ERROR_IS("mean: dimension 0 named twice", hod_mean_over(x, twice, false));
    ERROR_IS("std_over: var: dimension 0 named twice", hod_std_over(x, twice, false, 1));
    /* More elements than 64 bits count, of which there are none. */
    const int64_t large = (int64_t)1 << 40;
    hod_tensor *none = hod_zeros(HOD_F32, HOD_SHAPE(0, large, large));
    EQ_INT(hod_tensor_numel(hod_mean_over(none, HOD_SHAPE(1, 2), false)), 0);
    EQ_INT(hod_tensor_numel(hod_var_over(none, HOD_SHAPE(1, 2), true, 1)), 0);
    NEAR(hod_item(hod_sum(hod_zeros(HOD_F32, HOD_SHAPE(large, large, 0)))), 0, 0);
    hod_tensor *no_channels = hod_zeros(HOD_F32, HOD_SHAPE(3, 0, 2)),
               *w = hod_zeros(HOD_F32, HOD_SHAPE(0));
    CHECK(!hod_group_norm(no_channels, INT64_MAX / 2, w, w, 1e-5) && hod_error());
    hod_error_take(NULL);
}

TEST(misuse_integers_wrap)
{
    hod_tensor *x = hod_from_ints((int64_t[]){INT64_MAX, 2}, HOD_SHAPE(2)), *y = hod_add(x, x);
    int64_t got[2];
    CHECK(hod_read_ints(y, got, 2) == 0);
    EQ_INT(got[0], -2);
    CHECK(hod_read_ints(hod_prod(x), got, 1) == 0);
    EQ_INT(got[0], -2);
    CHECK(hod_read_ints(hod_cumsum(x, 0), got, 2) == 0);
    EQ_INT(got[1], INT64_MIN + 1);
    CHECK(hod_read_ints(hod_sum(hod_concat(2, (hod_tensor *[]){x, x}, 0)), got, 1) == 0);
    EQ_INT(got[0], 2);
}

TEST(misuse_of_scopes)
{
    hod_scope outer, inner;
    hod_scope_begin(&outer, "a.c", 1);
    hod_scope_begin(&inner, "b.c", 2);
    hod_tensor *x = hod_scalar(1);
    CHECK(x);
    hod_scope_end(&outer); /* takes the inner one with it */
    EQ_STR(hod_error(), "scope: a.c:1 ends before b.c:2, which was opened inside");
    hod_error_take(NULL);
    hod_scope_end(&inner);
    EQ_STR(hod_error(), "scope: it has ended already, or belongs to another thread");
    hod_error_take(NULL);
    hod_scope_end(NULL);
    CHECK(hod_error_take(NULL));
    NEAR(hod_item(hod_scalar(2)), 2, 0);
}

TEST(misuse_of_a_window_without_end)
{
    hod_tensor *x = hod_full(HOD_F32, HOD_SHAPE(1, 1, 2, 2), 3);
    hod_tensor *y = hod_max_pool2d(x, 1 << 30, .padding = 1 << 29);
    NEAR(hod_item(hod_amin(y)), 3, 0);
}

static hod_tensor *not_handed_out(hod_tensor *x)
{
    HOD_SCOPE(s);
    return hod_exp(x);
}

TEST(misuse_of_what_died_with_its_scope)
{
    hod_tensor *x = hod_requires_grad(hod_full(HOD_F32, HOD_SHAPE(2), 1), true);
    float v[2];
#define GONE                                                                                       \
    "the tensor (2) is gone, with the scope that owned it; hod_escape hands a result to the "      \
    "scope around"
    ERROR_IS("sum: " GONE, hod_sum(not_handed_out(x)));
    ERROR_IS("mul: " GONE, hod_mul(x, not_handed_out(x)));
    ERROR_IS("read: " GONE, hod_read_floats(not_handed_out(x), v, 2));
    ERROR_IS("backward: " GONE, hod_backward_with(not_handed_out(x), x));
    ERROR_IS("backward: " GONE, hod_backward_with(hod_exp(x), not_handed_out(x)));
#undef GONE
    CHECK(hod_sum(x));
}

static hod_tensor *identity(void *context, hod_tensor *const *in, int n)
{
    (void)context, (void)n;
    return in[0];
}

TEST(misuse_of_what_should_be_pointed_to)
{
    hod_tensor *x = hod_from_floats((float[]){1, 2}, HOD_SHAPE(2));
    hod_dataset *d = hod_synthetic_dataset(HOD_SHAPE(4), .count = 10, .classes = 3);
    hod_module *net = hod_nn_linear(NULL, "net", 4, 3);
    ERROR_IS("read_floats: room for 0, (2) has 2", hod_read_floats(x, NULL, 2));
    ERROR_IS("print_graph: nowhere to print", hod_print_graph(x, NULL));
    ERROR_IS("print_graph_dot: nowhere to print", hod_print_graph_dot(x, NULL));
    ERROR_IS("gradcheck: no report", hod_gradcheck(identity, 1, &x, NULL, NULL));
    ERROR_IS("gradcheck: no function", hod_gradcheck(NULL, 1, &x, NULL, NULL));
    ERROR_IS("gradgradcheck: no report", hod_gradgradcheck(identity, 1, &x, NULL, NULL));
    ERROR_IS("dataset synthetic: 5 samples from 9223372036854775807 on, of 10",
             hod_dataset_slice(d, INT64_MAX, 5));
    ERROR_IS("dataset synthetic: no room for its moments", hod_dataset_moments(d, 9, NULL, NULL));
    ERROR_IS("save /nowhere: no list of tensors or notes",
             hod_save_tensors("/nowhere", NULL, 1, NULL, 0));
    ERROR_IS("plot /nowhere.png: 1 series", hod_plot("/nowhere.png", NULL, 1, .title = "x"));
    ERROR_IS("event: no file", hod_event_write(NULL, "x", NULL));
    ERROR_IS("config: nowhere to print", hod_config_describe(NULL));
    CHECK(!hod_module_find(net, NULL));
    hod_module_print(net, NULL);
    hod_memory_print(NULL);
    hod_trainer_stop(NULL);
    CHECK(!hod_error());
    hod_module_free(net);
    hod_dataset_free(d);
}
