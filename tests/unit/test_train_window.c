/* A window is one update whatever it was cut into: normalisation, short windows, counters, skipped
 * windows. Cases B.. are those of the list of behaviours. */
#include "harness.h"
#include "train_line.h"
#include <hod/autograd.h>
#include <math.h>
#include <string.h>

static hod_trainer *sgd(line *l, int64_t window, double lr)
{
    return hod_trainer_new(l->net, line_loss, .effective_batch = window, .micro_batch = 1,
                           .in_order = true, .optimizer = hod_sgd(.lr = lr), .epochs = 2);
}

static void end(hod_trainer *t, line *l)
{
    hod_trainer_free(t);
    line_free(l);
}

/* B01: tokens weigh the same, whatever micro-batch they are in. */
TEST(train_window_is_normalised_by_its_weight)
{
    const float x[] = {2, 4, 6, 0, 0, 1, 2, 3, 4, 5, 9, 9, 9, 9, 9};
    const float counts[] = {1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0};
    for (int64_t window = 2; window <= 3; window++) { /* the third sample counts for nothing */
        line l = line_new(window, 5, x, counts);
        hod_trainer *t = sgd(&l, window, 1);
        hod_update u;
        CHECK(hod_trainer_step(t, l.data, &u));
        NEAR(line_w(&l), -3.375, 0);
        NEAR(u.weight, 8, 0);
        EQ_INT(u.samples, window);
        EQ_INT(u.micro_steps, window);
        CHECK(hod_trainer_step(t, l.data, &u));
        NEAR(u.loss, -3.375 * 3.375, 1e-6); /* f32 products, weighted like the gradient */
        end(t, &l);
    }
}

/* A window in which nothing counts changes nothing. */
TEST(train_window_without_weight_is_skipped)
{
    line l = line_new(4, 1, (float[]){1, 2, 3, 4}, (float[]){0, 0, 1, 1});
    hod_trainer *t = sgd(&l, 2, 0.1);
    hod_update u;
    CHECK(hod_trainer_step(t, l.data, &u));
    CHECK(u.skipped);
    NEAR(line_w(&l), 0, 0);
    CHECK(hod_trainer_step(t, l.data, &u));
    CHECK(!u.skipped);
    NEAR(line_w(&l), -0.35, 1e-7);
    end(t, &l);
}

/* B02 */
TEST(train_window_short_at_the_end_is_flushed)
{
    line l = line_new(5, 1, (float[]){1, 2, 3, 4, 10}, NULL);
    hod_trainer *t = sgd(&l, 4, 0.1);
    hod_update u;
    const double w[] = {-0.25, -1.25, -1.5, -2.5}, loss[] = {0, -2.5, -3.125, -15};
    for (int i = 0; i < 4; i++) {
        CHECK(hod_trainer_step(t, l.data, &u));
        NEAR(line_w(&l), w[i], 1e-6);
        NEAR(u.loss, loss[i], 1e-5); /* with the w before */
        EQ_INT(u.index, i + 1);
        EQ_INT(u.epoch, i / 2);
        EQ_INT(u.samples, i % 2 ? 1 : 4);
    }
    CHECK(!hod_trainer_step(t, l.data, &u));
    CHECK(!hod_error());
    end(t, &l);
}

TEST(train_window_short_at_the_end_is_dropped)
{
    line l = line_new(5, 1, (float[]){1, 2, 3, 4, 10}, NULL);
    hod_trainer *t = hod_trainer_new(l.net, line_loss, .effective_batch = 4, .micro_batch = 1,
                                     .in_order = true, .optimizer = hod_sgd(.lr = 0.1), .epochs = 2,
                                     .last_window = HOD_WINDOW_DROP);
    hod_update u;
    CHECK(hod_trainer_step(t, l.data, &u));
    NEAR(line_w(&l), -0.25, 1e-7);
    CHECK(hod_trainer_step(t, l.data, &u));
    NEAR(line_w(&l), -0.5, 1e-7);
    EQ_INT(u.epoch, 1);
    CHECK(!hod_trainer_step(t, l.data, &u));
    end(t, &l);
}

/* B46: settings with which no update can happen. */
TEST(train_window_that_cannot_be_is_refused)
{
    line l = line_new(5, 1, (float[]){1, 2, 3, 4, 10}, NULL);
    hod_trainer *t = hod_trainer_new(l.net, line_loss, .effective_batch = 8, .in_order = true,
                                     .last_window = HOD_WINDOW_DROP);
    hod_update u;
    ERROR_IS("trainer: 5 samples an epoch make no window of 8, and short windows are dropped",
             hod_trainer_step(t, l.data, &u));
    hod_trainer_free(t);
    ERROR_IS("trainer: effective_batch is 0, wanted 1 or more",
             hod_trainer_new(l.net, line_loss, .effective_batch = 0));
    ERROR_IS("trainer: micro_batch 32 is larger than effective_batch 16",
             hod_trainer_new(l.net, line_loss, .effective_batch = 16, .micro_batch = 32));
    ERROR_IS("trainer: micro_batch is -1, wanted 0 or more",
             hod_trainer_new(l.net, line_loss, .effective_batch = 16, .micro_batch = -1));
    line_free(&l);
}

/* K = 8 with three samples: one update an epoch. */
TEST(train_window_larger_than_the_epoch)
{
    line l = line_new(3, 1, (float[]){1, 2, 6}, NULL);
    hod_trainer *t = sgd(&l, 8, 0.1);
    hod_update u;
    int64_t n = 0;
    while (hod_trainer_step(t, l.data, &u))
        n++;
    EQ_INT(n, 2);
    NEAR(line_w(&l), -0.6, 1e-6);
    end(t, &l);
}

/* B03: rates by updates, never by micro-batches; a short window counts as one. */
TEST(train_window_moves_the_schedule_once)
{
    float x[17];
    for (int i = 0; i < 17; i++)
        x[i] = 1;
    line l = line_new(17, 1, x, NULL);
    hod_trainer *t = hod_trainer_new(l.net, line_loss, .effective_batch = 4, .micro_batch = 1,
                                     .in_order = true, .optimizer = hod_sgd(.lr = 1),
                                     .schedule = hod_step_schedule(.every = 2, .gamma = 0.1));
    const double lr[] = {1, 1, 0.1, 0.1, 0.01};
    hod_update u;
    for (int i = 0; i < 5; i++) {
        CHECK(hod_trainer_step(t, l.data, &u));
        NEAR(u.lr, lr[i], 1e-12);
    }
    CHECK(!hod_trainer_step(t, l.data, &u));
    end(t, &l);
}

/* B04: nothing is left over, neither from a backward before training nor from window to window. */
TEST(train_window_begins_without_gradients)
{
    line l = line_new(4, 1, (float[]){1, 3, 5, 7}, NULL);
    hod_trainer *t = sgd(&l, 2, 0.1);
    {
        HOD_SCOPE(s);
        CHECK(hod_backward(hod_sum(hod_call(l.net, hod_full(HOD_F32, HOD_SHAPE(2), 50)))) == 0);
        hod_module_zero_grad(&l.net->base);
    }
    hod_update u;
    CHECK(hod_trainer_step(t, l.data, &u));
    NEAR(line_w(&l), -0.2, 1e-7);
    CHECK(hod_trainer_step(t, l.data, &u));
    NEAR(line_w(&l), -0.8, 1e-6);
    end(t, &l);
}

/* B05 */
TEST(train_window_that_is_not_finite_poisons_no_other)
{
    line l = line_new(4, 1, (float[]){1, INFINITY, 2, 4}, NULL);
    hod_trainer *t = sgd(&l, 2, 0.1);
    hod_update u;
    CHECK(hod_trainer_step(t, l.data, &u));
    CHECK(u.skipped);
    EQ_INT(u.index, 0);
    NEAR(line_w(&l), 0, 0);
    CHECK(hod_trainer_step(t, l.data, &u));
    CHECK(!u.skipped);
    NEAR(line_w(&l), -0.3, 1e-6);
    EQ_INT(hod_trainer_progress(t).skipped, 1);
    EQ_INT(hod_trainer_progress(t).updates, 1);
    end(t, &l);
}

/* B07, without the scale: moments, step, schedule and average stay as well. */
TEST(train_window_skipped_is_a_complete_no_op)
{
    line l = line_new(2, 1, (float[]){INFINITY, 1}, NULL);
    hod_trainer *t = hod_trainer_new(l.net, line_loss, .effective_batch = 1, .in_order = true,
                                     .optimizer = hod_adam(.lr = 0.1), .ema = 0.9,
                                     .schedule = hod_step_schedule(.every = 1));
    hod_update u;
    CHECK(hod_trainer_step(t, l.data, &u));
    hod_optimizer_entry e = hod_optimizer_at(hod_trainer_optimizer(t), 0);
    EQ_INT(e.step, 0);
    NEAR(hod_item(e.state[0]), 0, 0);
    NEAR(hod_item(e.state[1]), 0, 0);
    NEAR(hod_item(e.ema), 0, 0);
    CHECK(hod_trainer_step(t, l.data, &u));
    NEAR(u.lr, 0.1, 0);
    NEAR(line_w(&l), -0.0999999990, 2e-8); /* three f32 roundings at 0.1; t = 2: -0.0744 */
    end(t, &l);
}

/* B11 */
TEST(train_window_moves_the_average_once)
{
    line l = line_new(8, 1, (float[]){-1, -1, -1, -1, -1, -1, -1, -1}, NULL);
    hod_trainer *t = hod_trainer_new(l.net, line_loss, .effective_batch = 4, .micro_batch = 1,
                                     .in_order = true, .optimizer = hod_sgd(.lr = 1), .ema = 0.9);
    const double average[] = {0.1, 0.29};
    hod_update u;
    for (int i = 0; i < 2; i++) {
        CHECK(hod_trainer_step(t, l.data, &u));
        NEAR(line_w(&l), i + 1, 0);
        NEAR(hod_item(hod_optimizer_at(hod_trainer_optimizer(t), 0).ema), average[i], 1e-7);
    }
    end(t, &l);
}

/* ---- batch norm: B12 ---- */

typedef struct normed {
    hod_module base;
    hod_module *norm, *out;
} normed;

static hod_tensor *normed_forward(hod_module *self, hod_tensor *x)
{
    normed *m = (normed *)self;
    return hod_call(m->out, hod_call(m->norm, x));
}

static hod_loss normed_loss(hod_module *net, const hod_batch *b)
{
    return hod_mse(hod_call(net, b->input), b->target);
}

static double buffer(hod_module *net, const char *name)
{
    for (hod_walk w = hod_buffers(net); hod_walk_next(&w);)
        if (strcmp(w.item.name, name) == 0)
            return hod_item(w.item.tensor);
    FAIL("no buffer %s", name);
}

static hod_module *normed_new(hod_batch_norm_mode mode)
{
    normed *m = hod_module_new(NULL, "normed", normed, normed_forward);
    m->norm = hod_nn_batch_norm2d(m, "norm", 1, .mode = mode);
    m->out = hod_nn_linear(m, "out", 1, 1);
    return hod_module_done(m);
}

/* Two micro-batches of two samples in a window, an infinity in one if wanted. */
static void train_normed(hod_module *net, float last)
{
    HOD_SCOPE(s);
    hod_dataset *data =
        hod_tensor_dataset(hod_from_floats((float[]){0, 2, 4, last}, HOD_SHAPE(4, 1)),
                           hod_zeros(HOD_F32, HOD_SHAPE(4, 1)), 0);
    hod_trainer *t =
        hod_trainer_new(net, normed_loss, .effective_batch = 4, .micro_batch = 2, .in_order = true);
    hod_update u;
    CHECK(hod_trainer_step(t, data, &u));
    CHECK(u.skipped == !isfinite(last));
    hod_trainer_free(t);
    hod_dataset_free(data);
}

TEST(train_window_moves_pooled_statistics_once)
{
    hod_module *net = normed_new(HOD_BN_POOLED);
    train_normed(net, 8);
    /* {0, 2, 4, 8}: mean 3.5, unbiased variance 35 / 3 */
    NEAR(buffer(net, "norm.running_mean"), 0.35, 1e-6);
    NEAR(buffer(net, "norm.running_var"), 0.9 + 3.5 / 3, 1e-6);
    NEAR(buffer(net, "norm.num_batches_tracked"), 1, 0);
    hod_module_free(net);
}

TEST(train_window_moves_micro_statistics_each_time)
{
    hod_module *net = normed_new(HOD_BN_MICRO);
    train_normed(net, 8);
    NEAR(buffer(net, "norm.running_mean"), 0.69, 1e-6);
    NEAR(buffer(net, "norm.running_var"), 1.79, 1e-6);
    NEAR(buffer(net, "norm.num_batches_tracked"), 2, 0);
    hod_module_free(net);
}

TEST(train_window_skipped_leaves_statistics)
{
    for (int mode = HOD_BN_POOLED; mode <= HOD_BN_MICRO; mode++) {
        hod_module *net = normed_new((hod_batch_norm_mode)mode);
        train_normed(net, INFINITY);
        NEAR(buffer(net, "norm.running_mean"), 0, 0);
        NEAR(buffer(net, "norm.running_var"), 1, 0);
        NEAR(buffer(net, "norm.pooled_count"), 0, 0);
        hod_module_free(net);
    }
}

/* ---- stopping, and wrong data ---- */

static hod_trainer *stop_me;

/* Asks to stop at the third micro-batch that is run, as a signal would. */
static hod_loss stopping_loss(hod_module *net, const hod_batch *b)
{
    static int calls;
    if (stop_me && ++calls == 3)
        hod_trainer_stop(stop_me);
    return line_loss(net, b);
}

TEST(train_window_given_up_begins_again)
{
    line l = line_new(8, 1, (float[]){1, 1, 1, 1, 2, 2, 2, 2}, NULL);
    hod_trainer *t = hod_trainer_new(l.net, stopping_loss, .effective_batch = 2, .micro_batch = 1,
                                     .in_order = true, .optimizer = hod_sgd(.lr = 1),
                                     .compile = HOD_COMPILE_EAGER);
    hod_update u;
    CHECK(hod_trainer_prepare(t, l.data) == 0);
    int64_t n = 0;
    stop_me = t;
    while (hod_trainer_step(t, l.data, &u))
        n++;
    CHECK(hod_trainer_stopped(t));
    CHECK(!hod_error());
    while (hod_trainer_step(t, l.data, &u))
        n++;
    CHECK(!hod_trainer_stopped(t));
    EQ_INT(n, 4);
    NEAR(line_w(&l), -6, 0);
    end(t, &l);
}

static hod_loss classes_loss(hod_module *net, const hod_batch *b)
{
    hod_tensor *w = hod_call(net, hod_cast(b->input, HOD_F32)); /* (N, 2): two logits */
    return hod_cross_entropy(w, b->target);
}

/* A label that the network has no logit for, found by the loss: the message has the sample's
 * number in the dataset, not its row in the batch. */
TEST(train_window_names_the_sample)
{
    line l = line_new(1, 1, (float[]){0}, NULL);
    HOD_SCOPE(s);
    hod_dataset *data =
        hod_tensor_dataset(hod_zeros(HOD_F32, HOD_SHAPE(6, 2)),
                           hod_from_ints((int64_t[]){0, 1, 0, 1, 2, 0}, HOD_SHAPE(6)), 3);
    hod_trainer *t = hod_trainer_new(l.net, classes_loss, .effective_batch = 3, .in_order = true);
    hod_update u;
    CHECK(hod_trainer_step(t, data, &u));
    CHECK(!hod_trainer_step(t, data, &u));
    CHECK(hod_error() && strstr(hod_error(), "update 2, sample 4: "));
    hod_error_take(NULL);
    NEAR(hod_trainer_progress(t).sample, 3, 0);
    hod_trainer_free(t);
    hod_dataset_free(data);
    line_free(&l);
}
