/* Optimizers, clipping, EMA and schedules. Trajectories were computed with PyTorch 2 in f64; the
 * numbered behaviours are those of the list that this project keeps. */
#include "autograd/autograd.h"
#include "harness.h"
#include "pressure.h"
#include <hod/functional.h>
#include <hod/optim.h>
#include <hod/schedule.h>
#include <math.h>

/* A module with one parameter of n elements and no forward. */
static hod_module *one(hod_parameter_kind kind, int64_t n, const double *values, hod_dtype dtype)
{
    hod_module *m = hod_module_new(NULL, NULL, hod_module, NULL);
    hod_parameter_new(m, "w", kind, n ? HOD_SHAPE(n) : HOD_SHAPE(), (hod_init){HOD_INIT_ZEROS, 0});
    CHECK(hod_module_done(m));
    EQ_INT(hod_module_cast(m, dtype), 0);
    HOD_NO_GRAD(off);
    if (values)
        CHECK(hod__assign(m->parameters[0].tensor,
                          hod_from_doubles(values, n ? HOD_SHAPE(n) : HOD_SHAPE())));
    return m;
}

static hod_tensor *w_of(const hod_module *m)
{
    return m->parameters[0].tensor;
}

/* Adds to the gradient of p, as a backward does. */
static void give(hod_tensor *p, const double *g)
{
    HOD_SCOPE(s);
    hod_tensor *t = hod_cast(hod_from_doubles(g, hod_tensor_shape(p)), hod_tensor_dtype(p));
    EQ_INT(hod__accumulate(hod__grad_slot(p), t), 0);
}

static void give1(hod_tensor *p, double g)
{
    give(p, &g);
}

static void near3(hod_tensor *t, double a, double b, double c, double tol)
{
    double v[3];
    EQ_INT(hod_read_doubles(t, v, 3), 0);
    NEAR(v[0], a, tol);
    NEAR(v[1], b, tol);
    NEAR(v[2], c, tol);
}

static void trajectory(hod_optimizer_spec spec, double a, double b, double c)
{
    hod_module *m = one(HOD_WEIGHT, 3, (double[]){1, -2, 0.5}, HOD_F64);
    hod_optimizer *o = hod_optimizer_new(m, spec);
    for (int t = 0; t < 5; t++) {
        give(w_of(m), (double[]){0.3 * (t + 1), -0.1 * t * t + 0.2, 1.0 / (t + 1)});
        EQ_INT(hod_update_all(o, .factor = 1), 0);
    }
    near3(w_of(m), a, b, c, 1e-14); /* the same formula in another order of rounding */
    hod_optimizer_free(o);
    hod_module_free(m);
}

TEST(optim_sgd_is_pytorchs)
{
    trajectory(hod_sgd(.lr = 0.1), 0.55, -1.8, 0.27166666666666667);
    trajectory(hod_sgd(.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01), 0.037311959836568945,
               -1.762578356735218, -0.2435313400158005);
    trajectory(hod_sgd(.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true),
               -0.3191389517951511, -1.5762324902775804, -0.3972133663380557);
}

TEST(optim_adam_is_pytorchs)
{
    trajectory(hod_adam(.lr = 0.05, .weight_decay = 0.01), 0.7571367626704457, -2.0333990210302577,
               0.2796644817077291);
    trajectory(hod_adamw(.lr = 0.05, .weight_decay = 0.1, .beta1 = 0.8, .beta2 = 0.95),
               0.7298692116020082, -1.9769063116822156, 0.27555555323240843);
}

static double first_step(hod_optimizer_spec spec, double p, double g)
{
    hod_module *m = one(HOD_WEIGHT, 0, &p, HOD_F32);
    hod_optimizer *o = hod_optimizer_new(m, spec);
    give1(w_of(m), g);
    EQ_INT(hod_update_all(o, .factor = 1), 0);
    double after = hod_item(w_of(m));
    hod_optimizer_free(o);
    hod_module_free(m);
    return after;
}

TEST(optim_b35_adamw_numerics)
{
    NEAR(first_step(hod_adamw(.lr = 0.1, .weight_decay = 0.1, .no_eps = true), 1, 1), 0.89, 1e-6);
    NEAR(first_step(hod_adamw(.lr = 0.1), 0, 1e-8), -0.05, 1e-7);
    /* A zero gradient of an f16 parameter: 0 / (0 + eps), computed in f32. */
    hod_module *m = one(HOD_WEIGHT, 0, &(double){1}, HOD_F16);
    hod_optimizer *o = hod_optimizer_new(m, hod_adamw(.lr = 0.1));
    give1(w_of(m), 0);
    EQ_INT(hod_update_all(o, .factor = 1), 0);
    NEAR(hod_item(w_of(m)), 1, 0);
    hod_optimizer_free(o);
    hod_module_free(m);
}

TEST(optim_b36_decay_goes_by_kind)
{
    hod_module *root = hod_module_new(NULL, NULL, hod_module, NULL);
    hod_module *head = hod_module_new(root, "lm_head", hod_module, NULL);
    hod_module *norm = hod_nn_layer_norm(head, "layer_norm", 4);
    hod_module *down = hod_nn_sequential(root, "downsample");
    hod_module *bn = hod_nn_batch_norm2d(down, "1", 4);
    hod_module *cls = hod_nn_linear(root, "cls", 4, 2);
    hod_module *proj = hod_nn_linear(root, "bias_proj", 4, 4, .no_bias = true);
    CHECK(hod_module_done(root));
    hod_optimizer *o = hod_optimizer_new(root, hod_adamw(.lr = 0.1, .weight_decay = 0.1));
    for (hod_walk w = hod_parameters(root); hod_walk_next(&w);) {
        HOD_SCOPE(s);
        HOD_NO_GRAD(off);
        CHECK(hod__assign(w.item.tensor, hod_full_like(w.item.tensor, 1)));
        EQ_INT(hod__accumulate(hod__grad_slot(w.item.tensor), hod_full_like(w.item.tensor, 0)), 0);
    }
    EQ_INT(hod_update_all(o, .factor = 1), 0);
    NEAR(hod_item(hod_amin(norm->parameters[0].tensor)), 1, 0);
    NEAR(hod_item(hod_amin(bn->parameters[0].tensor)), 1, 0);
    NEAR(hod_item(hod_amin(cls->parameters[1].tensor)), 1, 0);
    NEAR(hod_item(hod_amax(proj->parameters[0].tensor)), 0.99, 1e-7);
    char text[1024] = "";
    FILE *f = fmemopen(text, sizeof text, "w");
    hod_optimizer_print(o, f);
    fclose(f);
    CHECK(strstr(text, "no decay  lm_head.layer_norm.weight  (4)\n"));
    CHECK(strstr(text, "no decay  downsample.1.weight  (4)\n"));
    CHECK(strstr(text, "decay     bias_proj.weight  (4,4)\n"));
    EQ_INT(hod_optimizer_set_decay(o, "cls.bias", true), 0);
    ERROR_IS("adamw: no parameter is named \"cls.bia\"", hod_optimizer_set_decay(o, "cls.bia", 1));
    hod_optimizer_free(o);
    hod_module_free(root);
}

TEST(optim_b37_absent_is_not_zero)
{
    hod_module *m = one(HOD_WEIGHT, 0, &(double){1}, HOD_F64);
    hod_optimizer *o =
        hod_optimizer_new(m, hod_sgd(.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1));
    hod_tensor *b = hod_optimizer_at(o, 0).state[0];
    CHECK(hod__assign(b, hod_scalar(0.5)));
    hod_update_result r;
    EQ_INT(hod_update(o, &r, .clip_norm = 1), 0);
    EQ_INT(r.present, 0);
    NEAR(hod_item(w_of(m)), 1, 0);
    NEAR(hod_item(b), 0.5, 0);
    EQ_INT(hod_optimizer_at(o, 0).step, 0);
    give1(w_of(m), 0);
    EQ_INT(hod_update(o, &r, .factor = 1), 0);
    NEAR(hod_item(b), 0.55, 1e-15);
    NEAR(hod_item(w_of(m)), 0.945, 1e-15);
    EQ_INT(hod_module_freeze(m, true), 0); /* frozen from now on: absent */
    EQ_INT(hod_update(o, &r, .factor = 1), 0);
    EQ_INT(r.present, 0);
    NEAR(hod_item(w_of(m)), 0.945, 1e-15);
    hod_optimizer_free(o);
    hod_module_free(m);
}

TEST(optim_b05_non_finite_window_is_skipped_whole)
{
    hod_module *m = one(HOD_WEIGHT, 0, NULL, HOD_F32);
    hod_optimizer *o = hod_optimizer_new(m, hod_sgd(.lr = 0.1));
    hod_update_result r;
    give1(w_of(m), 1);
    give1(w_of(m), INFINITY);
    EQ_INT(hod_update(o, &r, .factor = 0.5), 0);
    CHECK(r.skipped);
    NEAR(hod_item(w_of(m)), 0, 0);
    give1(w_of(m), 2);
    give1(w_of(m), 4);
    EQ_INT(hod_update(o, &r, .factor = 0.5), 0);
    CHECK(!r.skipped);
    NEAR(hod_item(w_of(m)), -0.3, 1e-7);
    EQ_INT(hod_optimizer_at(o, 0).step, 1);
    hod_optimizer_free(o);
    hod_module_free(m);
}

TEST(optim_b07_skipped_update_changes_nothing)
{
    hod_module *m = one(HOD_WEIGHT, 0, NULL, HOD_F32);
    hod_optimizer *o = hod_optimizer_new(m, hod_adam(.lr = 0.1, .weight_decay = 0.1, .ema = 0.9));
    hod_update_result r;
    give1(w_of(m), INFINITY);
    EQ_INT(hod_update(o, &r, .factor = 1.0 / 65536), 0);
    hod_optimizer_entry e = hod_optimizer_at(o, 0);
    CHECK(r.skipped && e.step == 0);
    NEAR(hod_item(w_of(m)), 0, 0);
    NEAR(hod_item(e.state[0]), 0, 0);
    NEAR(hod_item(e.state[1]), 0, 0);
    NEAR(hod_item(e.ema), 0, 0);
    give1(w_of(m), 1);
    EQ_INT(hod_update(o, &r, .factor = 1), 0);
    NEAR(hod_item(w_of(m)), -0.0999999990, 1e-7); /* f32 */
    hod_optimizer_free(o);
    hod_module_free(m);
}

TEST(optim_b09_clip_sees_unscaled_gradients)
{
    hod_module *m = one(HOD_WEIGHT, 2, NULL, HOD_F32);
    hod_optimizer *o = hod_optimizer_new(m, hod_sgd(.lr = 1));
    hod_update_result r;
    double v[2];
    give(w_of(m), (double[]){3 * 1024, 4 * 1024});
    EQ_INT(hod_update(o, &r, .factor = 1.0 / 1024, .clip_norm = 1), 0);
    NEAR(r.grad_norm, 5, 1e-12);
    EQ_INT(hod_read_doubles(w_of(m), v, 2), 0); /* w = -gradient */
    NEAR(v[0], -0.6, 1e-6);
    NEAR(v[1], -0.8, 1e-6);
    EQ_INT(hod_module_init(m, 0), 0);
    give(w_of(m), (double[]){3 * 1024, 4 * 1024});
    EQ_INT(hod_update(o, &r, .factor = 1.0 / 1024, .clip_norm = 10), 0);
    EQ_INT(hod_read_doubles(w_of(m), v, 2), 0);
    NEAR(v[0], -3, 0);
    NEAR(v[1], -4, 0);
    hod_optimizer_free(o);
    hod_module_free(m);
}

TEST(optim_b10_clip_at_the_extremes)
{
    hod_module *m = one(HOD_WEIGHT, 100, NULL, HOD_F32);
    hod_optimizer *o = hod_optimizer_new(m, hod_sgd(.lr = 1));
    double g[100], norm;
    for (int i = 0; i < 100; i++)
        g[i] = 1e20;
    give(w_of(m), g);
    EQ_INT(hod_gradients_clip(o, 1, &norm), 0);
    NEAR(norm / 1e21, 1, 1e-6);
    EQ_INT(hod_read_doubles(hod_grad(w_of(m)), g, 100), 0);
    NEAR(g[0], 0.1, 1e-5);
    NEAR(g[99], 0.1, 1e-5);

    for (int i = 0; i < 100; i++)
        g[i] = i == 7 ? INFINITY : 1;
    hod_zero_grad(w_of(m));
    give(w_of(m), g);
    ERROR_IS("clip: the norm of the gradients is inf", hod_gradients_clip(o, 1, &norm));
    EQ_INT(hod_read_doubles(hod_grad(w_of(m)), g, 100), 0);
    NEAR(g[0], 1, 0);
    NEAR(g[7], INFINITY, 0);

    memset(g, 0, sizeof g);
    hod_zero_grad(w_of(m));
    give(w_of(m), g);
    hod_update_result r;
    EQ_INT(hod_update(o, &r, .clip_norm = 1), 0);
    CHECK(!r.skipped);
    NEAR(r.grad_norm, 0, 0);
    NEAR(hod_item(hod_amax(hod_abs(w_of(m)))), 0, 0);
    hod_optimizer_free(o);
    hod_module_free(m);
}

TEST(optim_b11_ema_moves_once_per_update)
{
    hod_module *m = one(HOD_WEIGHT, 0, NULL, HOD_F64);
    hod_optimizer *o = hod_optimizer_new(m, hod_sgd(.lr = 1, .ema = 0.9));
    hod_tensor *ema = hod_optimizer_at(o, 0).ema;
    const double want[] = {0.1, 0.29};
    for (int u = 0; u < 2; u++) {
        for (int k = 0; k < 4; k++)
            give1(w_of(m), -0.25); /* w: 1, then 2 */
        EQ_INT(hod_update_all(o, .factor = 1), 0);
        NEAR(hod_item(ema), want[u], 1e-15);
    }
    EQ_INT(hod_optimizer_swap_ema(o), 0);
    NEAR(hod_item(w_of(m)), 0.29, 1e-15);
    EQ_INT(hod_optimizer_swap_ema(o), 0);
    NEAR(hod_item(w_of(m)), 2, 0);
    hod_optimizer_free(o);
    hod_module_free(m);
}

/* The window's weight may be a tensor; with weight 0 nothing happens. */
TEST(optim_weight_as_a_tensor)
{
    hod_module *m = one(HOD_WEIGHT, 0, NULL, HOD_F64);
    hod_optimizer *o = hod_optimizer_new(m, hod_sgd(.lr = 1));
    hod_update_result r;
    give1(w_of(m), 27);
    EQ_INT(hod_update(o, &r, .weight = hod_scalar(8)), 0);
    NEAR(hod_item(w_of(m)), -3.375, 0);
    NEAR(r.grad_norm, 3.375, 0);
    give1(w_of(m), 0);
    EQ_INT(hod_update(o, &r, .weight = hod_scalar(0)), 0);
    CHECK(r.skipped);
    NEAR(hod_item(w_of(m)), -3.375, 0);
    hod_optimizer_free(o);
    hod_module_free(m);
}

/* Two parameters, one of them absent at first: each has its own bias correction. */
TEST(optim_steps_are_counted_for_each_parameter)
{
    hod_module *m = hod_module_new(NULL, NULL, hod_module, NULL);
    hod_tensor *a = hod_parameter_new(m, "a", HOD_WEIGHT, HOD_SHAPE(), (hod_init){0});
    hod_tensor *b = hod_parameter_new(m, "b", HOD_WEIGHT, HOD_SHAPE(), (hod_init){0});
    CHECK(hod_module_done(m));
    hod_optimizer *o = hod_optimizer_new(m, hod_adam(.lr = 0.1));
    give1(a, 1);
    EQ_INT(hod_update_all(o, .factor = 1), 0);
    NEAR(hod_item(b), 0, 0);
    give1(a, 1);
    give1(b, 1);
    EQ_INT(hod_update_all(o, .factor = 1), 0);
    EQ_INT(hod_optimizer_at(o, 0).step, 2);
    EQ_INT(hod_optimizer_at(o, 1).step, 1);
    NEAR(hod_item(a), -0.2, 1e-6); /* a constant gradient steps by lr each time */
    NEAR(hod_item(b), -0.1, 1e-6);
    hod_optimizer_free(o);
    hod_module_free(m);
}

/* Backward after an update says what changed its value, and a printed graph which one it is. */
TEST(optim_a_step_between_forward_and_backward_is_named)
{
    hod_module *m = one(HOD_WEIGHT, 0, NULL, HOD_F32);
    hod_optimizer *o = hod_optimizer_new(m, hod_sgd());
    hod_tensor *w = w_of(m), *y = hod_sum(hod_mul(w, w));
    char text[512] = "";
    FILE *f = fmemopen(text, sizeof text, "w");
    EQ_INT(hod_print_graph(y, f), 0);
    fclose(f);
    CHECK(strstr(text, "%0 = mul(w ("));
    EQ_INT(hod_backward(hod_sum(hod_exp(w))), 0);
    EQ_INT(hod_update_all(o), 0);
    EQ_INT(hod_backward(y), -1);
    CHECK(strstr(hod_error(), " was changed in place by the optimizer's step"));
    hod_error_take(NULL);
    hod_optimizer_free(o);
    hod_module_free(m);
}

TEST(optim_refuses_impossible_settings)
{
    hod_module *m = one(HOD_WEIGHT, 0, NULL, HOD_F32);
    ERROR_IS("adam: beta1 = 1, must be at least 0 and below 1",
             hod_optimizer_new(m, hod_adam(.beta1 = 1)));
    ERROR_IS("sgd: lr = -1, must be at least 0 and below 1e+30",
             hod_optimizer_new(m, hod_sgd(.lr = -1)));
    ERROR_IS("sgd: nesterov needs momentum", hod_optimizer_new(m, hod_sgd(.nesterov = true)));
    ERROR_IS("adam: .momentum is set, which it does not use",
             hod_optimizer_new(m, hod_adam(.momentum = 0.9)));
    ERROR_IS("sgd: .beta1 is set, which it does not use",
             hod_optimizer_new(m, hod_sgd(.beta1 = 0.9)));
    hod_optimizer *o = hod_optimizer_new(m, hod_sgd());
    ERROR_IS("update: clip_norm = -1, must not be negative", hod_update_all(o, .clip_norm = -1));
    hod_optimizer_free(o);
    EQ_INT(hod_module_freeze(m, true), 0);
    ERROR_IS("sgd: no parameter requires a gradient", hod_optimizer_new(m, hod_sgd()));
    hod_module_free(m);
}

TEST(optim_b08_scale_trajectory)
{
    hod_scaler s = hod_scaler_of(.scale = 8, .interval = 3);
    const bool skipped[] = {false, false, true, false, false, false};
    const double want[] = {8, 8, 4, 4, 4, 8};
    for (int i = 0; i < 6; i++) {
        hod_scaler_update(&s, skipped[i]);
        NEAR(s.scale, want[i], 0);
    }
    hod_scaler cap = hod_scaler_of(.scale = 0x1p126, .interval = 1);
    for (int i = 0; i < 3; i++)
        hod_scaler_update(&cap, false);
    NEAR(cap.scale, 0x1p127, 0);
    hod_scaler loaded = hod_scaler_of(.scale = 256, .good = 1998);
    hod_scaler_update(&loaded, false);
    hod_scaler_update(&loaded, false);
    NEAR(loaded.scale, 512, 0);
    EQ_INT(loaded.good, 0);
    hod_scaler low = hod_scaler_of(.scale = 0x1p-126);
    for (int i = 0; i < 100; i++)
        hod_scaler_update(&low, true);
    CHECK(low.scale >= 0x1p-126);
}

/* ---- the n-th allocation fails, for all n ---- */

static int make_and_train(void *out)
{
    HOD_SCOPE(s);
    hod_module *net = hod_nn_sequential(NULL, NULL);
    hod_nn_linear(net, "0", 3, 4);
    hod_nn_batch_norm2d(net, "1", 4);
    hod_nn_linear(net, "2", 4, 1);
    net = hod_module_done(net);
    hod_optimizer *o = hod_optimizer_new(net, hod_adamw(.ema = 0.5));
    hod_tensor *x = hod_from_floats((float[]){1, 2, 3, 4, 5, 7}, HOD_SHAPE(2, 3));
    int rc = o && hod_backward(hod_sum(hod_call(net, x))) == 0 &&
                     hod_update_all(o, .clip_norm = 1) == 0 &&
                     hod_module_update_statistics(net) == 0
                 ? 0
                 : -1;
    if (rc == 0)
        *(double *)out = hod_item(hod_sum(hod_module_find(net, "2")->parameters[0].tensor));
    hod_optimizer_free(o);
    hod_module_free(net);
    return hod_error() ? -1 : rc;
}

TEST(optim_survives_every_failing_allocation)
{
    double want = 0, got = 0;
    EQ_INT(make_and_train(&want), 0);
    CHECK(want != 0);
    int64_t bytes = hod_memory().allocated;
    CHECK(every_allocation_fails(make_and_train, &got) > 500);
    EQ_INT(hod_memory().allocated, bytes);
    NEAR(got, want, 0);
}

/* ---- schedules ---- */

TEST(schedule_b46_one_cycle_has_exactly_its_rates)
{
    const double want[] = {0.04,     0.52,     1,        0.950485,  0.811746,
                           0.611262, 0.388742, 0.188258, 0.0495194, 4e-6};
    hod_schedule s = hod_one_cycle(.total = 10);
    EQ_INT(hod_schedule_resolve(&s, 0), 0);
    for (int u = 0; u < 10; u++)
        NEAR(hod_schedule_factor(&s, u), want[u], 1e-6); /* digits given */
    NEAR(hod_schedule_factor(&s, 10), 4e-6, 1e-12);
    NEAR(hod_schedule_factor(&s, 1000), 4e-6, 1e-12);
}

TEST(schedule_step_cosine_constant_warmup)
{
    hod_schedule s = hod_step_schedule(.every = 2);
    EQ_INT(hod_schedule_resolve(&s, 0), 0);
    NEAR(hod_schedule_factor(&s, 1), 1, 0); /* B03: 1, 1, 0.1, 0.1 */
    NEAR(hod_schedule_factor(&s, 2), 0.1, 1e-16);
    NEAR(hod_schedule_factor(&s, 3), 0.1, 1e-16);
    hod_schedule c = hod_cosine(.epochs = 2, .warmup = 4);
    EQ_INT(hod_schedule_resolve(&c, 7), 0);
    NEAR(hod_schedule_factor(&c, 0), 0.2, 1e-15);
    NEAR(hod_schedule_factor(&c, 3), 0.8, 1e-15);
    NEAR(hod_schedule_factor(&c, 4), 1, 1e-15);
    NEAR(hod_schedule_factor(&c, 9), 0.5, 1e-15);
    NEAR(hod_schedule_factor(&c, 14), 0, 1e-15);
    hod_schedule k = hod_constant_rate();
    EQ_INT(hod_schedule_resolve(&k, 0), 0);
    NEAR(hod_schedule_factor(&k, 12345), 1, 0);
    hod_schedule bad = hod_one_cycle(.total = 0);
    ERROR_IS("schedule onecycle: 0 updates in all, at least 1 needed",
             hod_schedule_resolve(&bad, 10));
    hod_schedule full = hod_cosine(.total = 5, .warmup = 5);
    ERROR_IS("schedule cosine: warmup of 5 updates leaves none of 5",
             hod_schedule_resolve(&full, 0));
}
