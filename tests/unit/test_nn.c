/* Modules: names, ownership, initialisation, layers, batch norm's statistics. */
#include "autograd/autograd.h"
#include "base/scope.h"
#include "harness.h"
#include <hod/functional.h>
#include <hod/nn.h>
#include <math.h>

typedef struct block {
    hod_module base;
    hod_module *conv1, *norm1;
} block;

static hod_tensor *block_forward(hod_module *self, hod_tensor *x)
{
    block *b = (block *)self;
    return hod_relu(hod_add(x, hod_call(b->norm1, hod_call(b->conv1, x))));
}

static hod_module *block_new(hod_module *parent, const char *name, int64_t channels)
{
    block *b = hod_module_new(parent, name, block, block_forward);
    b->conv1 = hod_nn_conv2d(b, "conv1", channels, channels, 3, .padding = 1, .no_bias = true);
    b->norm1 = hod_nn_group_norm(b, "norm1", channels / 4, channels);
    return hod_module_done(b);
}

static hod_module *net_new(bool other_order)
{
    hod_module *net = hod_module_new(NULL, NULL, hod_module, NULL);
    if (other_order)
        hod_nn_linear(net, "fc", 8, 3);
    hod_module *layer = hod_nn_sequential(net, "layer1");
    block_new(layer, "0", 8);
    block_new(layer, "1", 8);
    if (!other_order)
        hod_nn_linear(net, "fc", 8, 3);
    return hod_module_done(net);
}

TEST(nn_names_are_pytorchs)
{
    hod_module *net = net_new(false);
    const char *want[] = {"layer1.0.conv1.weight",
                          "layer1.0.norm1.weight",
                          "layer1.0.norm1.bias",
                          "layer1.1.conv1.weight",
                          "layer1.1.norm1.weight",
                          "layer1.1.norm1.bias",
                          "fc.weight",
                          "fc.bias"};
    int n = 0;
    for (hod_walk w = hod_parameters(net); hod_walk_next(&w); n++)
        EQ_STR(w.item.name, want[n]);
    EQ_INT(n, 8);
    EQ_INT(hod_module_count_parameters(net), 2 * (8 * 8 * 9 + 16) + 8 * 3 + 3);
    CHECK(hod_module_find(net, "layer1.1.norm1") &&
          hod_module_find(net, "layer1.1.norm1")->parameters[0].kind == HOD_NORM_GAIN);
    CHECK(!hod_module_find(net, "layer1.2"));
    hod_module_free(net);
}

TEST(nn_initial_weights_do_not_depend_on_order)
{
    hod_module *a = net_new(false), *b = net_new(true);
    for (hod_walk w = hod_parameters(a); hod_walk_next(&w);) {
        HOD_SCOPE(s);
        hod_module *twin =
            hod_module_find(b, hod_module_full_name(w.item.module, (char[256]){0}, 256));
        hod_tensor *t = twin->parameters[w.next - 1].tensor;
        NEAR(hod_item(hod_amax(hod_abs(hod_sub(hod_detach(w.item.tensor), hod_detach(t))))), 0, 0);
    }
    /* fan_in 72: uniform within 1/sqrt(72), so the deviation is 1/sqrt(3 · 72) = 0.0680 */
    hod_tensor *w = hod_module_find(a, "layer1.0.conv1")->parameters[0].tensor;
    NEAR(hod_item(hod_amax(hod_abs(w))), 1 / sqrt(72), 0.01);
    NEAR(sqrt(hod_item(hod_mean(hod_square(w)))), 0.0680, 0.0068); /* 576 values: 3 % · 3 */
    NEAR(hod_item(hod_mean(w)), 0, 0.0090);                        /* 0.068/24 · 3 */
    hod_tensor *v = hod_module_find(a, "layer1.1.conv1")->parameters[0].tensor;
    CHECK(hod_item(hod_amax(hod_abs(hod_sub(v, w)))) > 0);
    double before = hod_item(hod_sum(w));
    EQ_INT(hod_module_init(a, 1), 0);
    CHECK(hod_item(hod_sum(w)) != before);
    EQ_INT(hod_module_init(a, 0), 0);
    CHECK(hod_item(hod_sum(w)) == before);
    hod_module_free(a);
    hod_module_free(b);
}

TEST(nn_normal_draws_are_normal)
{
    hod_module *e = hod_nn_embedding(NULL, NULL, 100, 100);
    hod_tensor *w = e->parameters[0].tensor;
    NEAR(hod_item(hod_mean(w)), 0, 0.04);             /* 4 / sqrt(10000) */
    NEAR(hod_item(hod_mean(hod_square(w))), 1, 0.06); /* 4 sqrt(2 / 10000) */
    CHECK(hod_item(hod_amax(w)) > 3 && hod_item(hod_amin(w)) < -3);
    hod_module_free(e);
}

TEST(nn_forward_and_backward_reach_every_parameter)
{
    hod_module *net = hod_nn_sequential(NULL, NULL);
    hod_nn_conv2d(net, "0", 2, 8, 3, .stride = 2, .padding = 1);
    hod_nn_batch_norm2d(net, "1", 8);
    hod_nn_relu(net, "2");
    hod_nn_max_pool2d(net, "3", 2);
    block_new(net, "4", 8);
    hod_nn_dropout(net, "5", 0.25);
    EQ_INT(hod_random_begin(1, 0, NULL), 0);
    hod_tensor *x = hod_uniform(HOD_SHAPE(3, 2, 16, 16));
    hod_tensor *y = hod_call(net, x);
    CHECK(y);
    EQ_INT(hod_tensor_size(y, 1), 8);
    EQ_INT(hod_tensor_size(y, 3), 4);
    EQ_INT(hod_backward(hod_sum(hod_square(y))), 0);
    for (hod_walk w = hod_parameters(net); hod_walk_next(&w);)
        CHECK(hod_grad(w.item.tensor));
    hod_module_zero_grad(net);
    for (hod_walk w = hod_parameters(net); hod_walk_next(&w);)
        CHECK(!hod_grad(w.item.tensor));
    EQ_INT(hod_module_freeze(net, true), 0);
    CHECK(!hod_tensor_requires_grad(hod_call(net, x)));
    hod_module_free(net);
}

TEST(nn_call_frees_temporaries)
{
    hod_module *net = net_new(false);
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(1, 8, 4, 4));
    HOD_NO_GRAD(off);
    int64_t before = hod__scope_live();
    CHECK(hod_call(hod_module_find(net, "layer1"), x));
    EQ_INT(hod__scope_live(), before + 1);
    hod_module_free(net);
}

TEST(nn_failures_come_out_at_done)
{
    int64_t bytes = hod_memory().allocated;
    hod_module *net = hod_module_new(NULL, NULL, hod_module, NULL);
    hod_nn_linear(net, "fc", 0, 3);
    block_new(net, "block", 8); /* passes the failure on */
    ERROR_IS("linear: in = 0, must be positive", hod_module_done(net));
    hod_module *twins = hod_module_new(NULL, NULL, hod_module, NULL);
    hod_nn_relu(twins, "a");
    hod_nn_relu(twins, "a");
    ERROR_IS("hod_module: two children named \"a\"", hod_module_done(twins));
    hod_module *dots = hod_module_new(NULL, NULL, hod_module, NULL);
    hod_nn_relu(dots, "a.b");
    ERROR_IS("relu: the name \"a.b\" must not be empty or contain a dot", hod_module_done(dots));
    ERROR_IS("conv2d: 3 groups do not divide 4 and 6 channels",
             hod_nn_conv2d(NULL, NULL, 4, 6, 3, .groups = 3));
    EQ_INT(hod_memory().allocated, bytes);
}

TEST(nn_errors_name_the_module)
{
    hod_module *net = net_new(false);
    CHECK(!hod_call(hod_module_find(net, "layer1"), hod_zeros(HOD_F32, HOD_SHAPE(1, 7, 4, 4))));
    CHECK(strncmp(hod_error(), "layer1.0.conv1: ", 16) == 0);
    hod_error_take(NULL);
    hod_module_free(net);
}

/* ---- batch norm ---- */

static hod_module *bn_new(hod_batch_norm_mode mode)
{
    hod_module *m = hod_nn_batch_norm2d(NULL, NULL, 1, .mode = mode);
    CHECK(m);
    return m;
}

static hod_tensor *column(int n, const float *x)
{
    return hod_from_floats(x, HOD_SHAPE(n, 1));
}

static double buffer(const hod_module *m, int i) /* 0 mean, 1 var, 2 count */
{
    return hod_item(m->buffers[i].tensor);
}

TEST(nn_b12_micro_statistics)
{
    hod_module *m = bn_new(HOD_BN_MICRO);
    hod_tensor *y = hod_call(m, column(2, (float[]){0, 2}));
    float v[2];
    EQ_INT(hod_read_floats(y, v, 2), 0);
    NEAR(v[0], -0.999995, 1e-6);
    NEAR(v[1], 0.999995, 1e-6);
    CHECK(hod_call(m, column(2, (float[]){4, 8})));
    NEAR(buffer(m, 0), 0.69, 1e-6);
    NEAR(buffer(m, 1), 1.79, 1e-6);
    EQ_INT((int)buffer(m, 2), 2);
    ERROR_IS("batch_norm2d: (1,1) has one value per channel, training needs two or more",
             hod_call(m, column(1, (float[]){3})));
    NEAR(buffer(m, 0), 0.69, 1e-6);
    NEAR(buffer(m, 1), 1.79, 1e-6);
    CHECK(hod_call(m, hod_zeros(HOD_F32, HOD_SHAPE(1, 1, 2, 1))));
    hod_module_free(m);
}

TEST(nn_b12_evaluation_of_one)
{
    hod_module *m = hod_nn_batch_norm2d(NULL, NULL, 1, .no_eps = true);
    CHECK(hod__assign(m->buffers[0].tensor, hod_scalar(1)));
    CHECK(hod__assign(m->buffers[1].tensor, hod_scalar(4)));
    hod_module_train(m, false);
    NEAR(hod_item(hod_call(m, column(1, (float[]){3}))), 1, 0);
    hod_module_free(m);
}

static hod_tensor *call_again(void *context, hod_tensor *const *in, int n)
{
    (void)n;
    return hod_call(context, in[0]);
}

TEST(nn_b13_recomputation_counts_once)
{
    hod_module *m = bn_new(HOD_BN_MICRO);
    hod_tensor *x = column(2, (float[]){1, 3});
    EQ_INT(hod_backward(hod_sum(hod_checkpoint(call_again, m, 1, &x))), 0);
    CHECK(hod_grad(m->parameters[0].tensor));
    NEAR(buffer(m, 0), 0.2, 1e-7);
    NEAR(buffer(m, 1), 1.1, 1e-7);
    EQ_INT((int)buffer(m, 2), 1);
    hod_module_free(m);
}

/* Whatever the cut, the running statistics are those of the whole batch. */
TEST(nn_pooled_statistics_are_those_of_the_whole_batch)
{
    const float x[12] = {3, -1, 4, 1, -5, 9, 2, -6, 5, 3, 5, 8};
    const int cuts[][4] = {{12}, {6, 6}, {4, 4, 4}, {2, 7, 3}};
    double mean = 0, m2 = 0;
    for (int i = 0; i < 12; i++)
        mean += x[i] / 12;
    for (int i = 0; i < 12; i++)
        m2 += (x[i] - mean) * (x[i] - mean);
    for (int c = 0; c < 4; c++) {
        hod_module *m = bn_new(HOD_BN_POOLED);
        for (int k = 0, at = 0; k < 4 && cuts[c][k]; at += cuts[c][k++])
            CHECK(hod_call(m, column(cuts[c][k], x + at)));
        NEAR(buffer(m, 0), 0, 0); /* not before the update */
        EQ_INT(hod_module_update_statistics(m), 0);
        NEAR(buffer(m, 0), 0.1 * mean, 1e-6);
        NEAR(buffer(m, 1), 0.9 + 0.1 * m2 / 11, 1e-5); /* f32, values of 2 */
        EQ_INT((int)buffer(m, 2), 1);
        EQ_INT(hod_module_update_statistics(m), 0); /* nothing seen since: nothing moves */
        NEAR(buffer(m, 0), 0.1 * mean, 1e-6);
        EQ_INT((int)buffer(m, 2), 1);
        CHECK(hod_call(m, column(2, (float[]){NAN, 1}))); /* a window that is skipped */
        EQ_INT(hod_module_discard_statistics(m), 0);
        EQ_INT(hod_module_update_statistics(m), 0);
        NEAR(buffer(m, 0), 0.1 * mean, 1e-6);
        hod_module_free(m);
    }
}

TEST(nn_b32_empty_batches_leave_statistics_alone)
{
    hod_module *m = hod_nn_batch_norm2d(NULL, NULL, 5, .mode = HOD_BN_MICRO);
    hod_tensor *y = hod_call(m, hod_zeros(HOD_F32, HOD_SHAPE(0, 5, 9)));
    CHECK(y);
    EQ_INT(hod_tensor_size(y, 2), 9);
    NEAR(hod_item(hod_amax(hod_abs(m->buffers[0].tensor))), 0, 0);
    NEAR(hod_item(hod_amin(m->buffers[1].tensor)), 1, 0);
    hod_module_free(m);
}

TEST(nn_cast_keeps_handles)
{
    hod_module *m = hod_nn_linear(NULL, NULL, 2, 1);
    hod_tensor *w = m->parameters[0].tensor;
    EQ_INT(hod_module_cast(m, HOD_F64), 0);
    CHECK(m->parameters[0].tensor == w && hod_tensor_dtype(w) == HOD_F64);
    hod_tensor *y = hod_call(m, hod_from_doubles((double[]){1, 2}, HOD_SHAPE(1, 2)));
    EQ_INT(hod_tensor_dtype(y), HOD_F64);
    EQ_INT(hod_backward(hod_sum(y)), 0);
    EQ_INT(hod_tensor_dtype(hod_grad(w)), HOD_F64);
    hod_module_free(m);
}
