/* The gradient of a window is the same however it was cut.
 *
 * The network has no layer that mixes samples, but everything else that could depend on the cut:
 * convolutions, group norm, dropout (masks by sample), labels that are ignored, so that
 * micro-batches weigh unequally. What is compared are the sums of gradients that autograd holds
 * when the window is over; one factor, equal for all cuts, makes them means.
 */
#include "autograd/autograd.h"
#include "harness.h"
#include <hod/trainer.h>
#include <math.h>

enum { SAMPLES = 16, CLASSES = 5 };

typedef struct small {
    hod_module base;
    hod_module *conv1, *norm1, *conv2, *norm2, *skip, *drop, *fc;
} small;

static hod_tensor *small_forward(hod_module *self, hod_tensor *x) /* (N, 2, 6, 6) */
{
    small *m = (small *)self;
    hod_tensor *y = hod_relu(hod_call(m->norm1, hod_call(m->conv1, x)));
    y = hod_call(m->norm2, hod_call(m->conv2, hod_call(m->drop, y)));
    y = hod_relu(hod_add(y, hod_call(m->skip, x)));
    y = hod_flatten(hod_global_avg_pool2d(y), 1);
    return hod_call(m->fc, hod_call(m->drop, y));
}

static hod_module *small_new(hod_dtype dtype)
{
    small *m = hod_module_new(NULL, "small", small, small_forward);
    m->conv1 = hod_nn_conv2d(m, "conv1", 2, 8, 3, .padding = 1, .no_bias = true);
    m->norm1 = hod_nn_group_norm(m, "norm1", 2, 8);
    m->conv2 = hod_nn_conv2d(m, "conv2", 8, 8, 3, .padding = 1);
    m->norm2 = hod_nn_group_norm(m, "norm2", 4, 8);
    m->skip = hod_nn_conv2d(m, "skip", 2, 8, 1);
    m->drop = hod_nn_dropout(m, "drop", 0.3);
    m->fc = hod_nn_linear(m, "fc", 8, CLASSES);
    hod_module *net = hod_module_done(m);
    CHECK(net && hod_module_init(net, 7) == 0 && hod_module_cast(net, dtype) == 0);
    return net;
}

/* Label 0 counts for nothing; the network decides the type. */
static hod_loss small_loss(hod_module *net, const hod_batch *b)
{
    hod_dtype type = hod_tensor_dtype(net->children[0]->parameters[0].tensor);
    return hod_cross_entropy(hod_call(net, hod_cast(b->input, type)), b->target,
                             .ignore_zero = true);
}

static hod_dataset *data_new(void)
{
    HOD_SCOPE(s);
    CHECK(hod_random_begin(11, 0, NULL) == 0);
    hod_tensor *x = hod_uniform(HOD_SHAPE(SAMPLES, 2, 6, 6));
    int64_t y[SAMPLES];
    for (int i = 0; i < SAMPLES; i++)
        y[i] = i % 3 == 0 ? 0 : i % CLASSES; /* nine or so of sixteen count */
    return hod_tensor_dataset(x, hod_from_ints(y, HOD_SHAPE(SAMPLES)), CLASSES);
}

/* All gradients of one window of SAMPLES samples, one after the other; malloc'd. */
static double *gradients(hod_dtype dtype, int64_t window, int64_t micro, hod_compile_mode mode,
                         int64_t *n, hod_update *u)
{
    hod_module *net = small_new(dtype);
    hod_dataset *data = data_new();
    hod_trainer *t =
        hod_trainer_new(net, small_loss, .effective_batch = window, .micro_batch = micro, .seed = 5,
                        .compile = mode, .clip_norm = 1);
    CHECK(t && hod_trainer_step(t, data, u));
    *n = hod_module_count_parameters(net);
    double *all = malloc((size_t)*n * sizeof *all);
    int64_t at = 0;
    for (hod_walk w = hod_parameters(net); hod_walk_next(&w);) {
        hod_tensor *sum = hod__grad_slot(w.item.tensor)->sum;
        CHECK(hod_read_doubles(sum, all + at, hod_tensor_numel(sum)) == 0);
        at += hod_tensor_numel(sum);
    }
    hod_trainer_free(t);
    hod_dataset_free(data);
    hod_module_free(net);
    return all;
}

/* |a - b| / |b|, as vectors. */
static double distance(const double *a, const double *b, int64_t n)
{
    double d = 0, l = 0;
    for (int64_t i = 0; i < n; i++) {
        d += (a[i] - b[i]) * (a[i] - b[i]);
        l += b[i] * b[i];
    }
    return sqrt(d / l);
}

static void check_cuts(hod_dtype dtype, hod_compile_mode mode, double limit)
{
    int64_t n;
    hod_update whole, cut;
    double *big = gradients(dtype, SAMPLES, SAMPLES, HOD_COMPILE_EAGER, &n, &whole);
    CHECK(whole.weight > 0 && whole.weight < SAMPLES);
    const int64_t micro[] = {SAMPLES, SAMPLES / 2, SAMPLES / 4, SAMPLES / 8, 5, 1};
    for (int i = 0; i < 6; i++) { /* 5: 5 + 5 + 5 + 1 */
        double *parts = gradients(dtype, SAMPLES, micro[i], mode, &n, &cut);
        EQ_INT(cut.micro_steps, (SAMPLES + micro[i] - 1) / micro[i]);
        NEAR(distance(parts, big, n), 0, limit);
        NEAR(cut.loss, whole.loss, limit * whole.loss);
        NEAR(cut.grad_norm, whole.grad_norm, limit * whole.grad_norm);
        NEAR(cut.weight, whole.weight, 0);
        free(parts);
    }
    free(big);
}

TEST(train_split_changes_no_gradient_in_f64)
{
    check_cuts(HOD_F64, HOD_COMPILE_EAGER, 1e-12); /* some 1e3 additions of 1e-16 each */
}

TEST(train_split_changes_no_gradient_in_f32)
{
    check_cuts(HOD_F32, HOD_COMPILE_EAGER, 1e-5);
}

TEST(train_split_changes_no_gradient_compiled_in_f64)
{
    check_cuts(HOD_F64, HOD_COMPILE_DEFAULT, 1e-12);
}

TEST(train_split_changes_no_gradient_compiled_in_f32)
{
    check_cuts(HOD_F32, HOD_COMPILE_DEFAULT, 1e-5);
}

TEST(train_split_changes_no_gradient_without_recording)
{
    check_cuts(HOD_F64, HOD_COMPILE_REDUCE_OVERHEAD, 1e-12);
}

/* Three windows of 16 samples, the last of an epoch short: 6 + 6 + 4. */
static double *train_short(int64_t micro, hod_compile_mode mode, int64_t *n, double *loss)
{
    hod_module *net = small_new(HOD_F64);
    hod_dataset *data = data_new();
    hod_trainer *t =
        hod_trainer_new(net, small_loss, .effective_batch = 6, .micro_batch = micro, .seed = 5,
                        .compile = mode, .epochs = 2, .optimizer = hod_adamw(.lr = 1e-2));
    hod_update u;
    int i = 0;
    while (hod_trainer_step(t, data, &u)) {
        EQ_INT(u.samples, i % 3 == 2 ? 4 : 6);
        loss[i++] = u.loss;
    }
    EQ_INT(i, 6);
    *n = hod_module_count_parameters(net);
    double *all = malloc((size_t)*n * sizeof *all);
    int64_t at = 0;
    for (hod_walk w = hod_parameters(net); hod_walk_next(&w);) {
        CHECK(hod_read_doubles(w.item.tensor, all + at, hod_tensor_numel(w.item.tensor)) == 0);
        at += hod_tensor_numel(w.item.tensor);
    }
    hod_trainer_free(t);
    hod_dataset_free(data);
    hod_module_free(net);
    return all;
}

TEST(train_split_changes_no_run_with_short_windows)
{
    int64_t n;
    double whole[6], cut[6];
    double *p = train_short(6, HOD_COMPILE_EAGER, &n, whole);
    for (int64_t micro = 1; micro <= 4; micro++)
        for (int mode = 0; mode < 2; mode++) {
            double *q = train_short(micro, mode ? HOD_COMPILE_DEFAULT : HOD_COMPILE_EAGER, &n, cut);
            /* Six steps of Adam, which divides by small square roots, amplify 1e-15. */
            NEAR(distance(q, p, n), 0, 1e-10);
            for (int i = 0; i < 6; i++)
                NEAR(cut[i], whole[i], 1e-11);
            free(q);
        }
    free(p);
}
