/* FUSED rows beside the compositions that they are: the same values, the same gradients. */
#include "harness.h"
#include "ops/rows.h"
#include <hod/autograd.h>
#include <hod/compile.h>
#include <hod/functional.h>
#include <hod/losses.h>
#include <hod/movement.h>
#include <math.h>

enum { INPUTS = 3 };
typedef struct twin {
    const char *name;
    hod_tensor *(*front)(hod_tensor *const *in);
    hod_shape shape[INPUTS]; /* of the inputs with gradients, behind the last one 0-d */
} twin;

#define S(...) HOD_SHAPE(__VA_ARGS__)
#define FRONT(name, ...)                                                                           \
    static hod_tensor *name(hod_tensor *const *in)                                                 \
    {                                                                                              \
        hod_tensor *x = in[0];                                                                     \
        return __VA_ARGS__;                                                                        \
    }

static int inputs_of(const twin *t)
{
    int n = 0;
    while (n < INPUTS && t->shape[n].n > 0)
        n++;
    return n;
}

/* Reproducible numbers from -3 to 3, other ones for each seed. */
static hod_tensor *numbers(hod_shape shape, uint64_t seed, hod_dtype dtype)
{
    int64_t n = hod__numel(shape.n, shape.d);
    float *v = hod__alloc((size_t)n + 1, sizeof *v);
    uint64_t s = seed * 77 + 5;
    for (int64_t i = 0; i < n; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        v[i] = (float)((double)(s >> 40) * 0x6p-24 - 3);
    }
    hod_tensor *t = hod_cast(hod_from_floats(v, shape), dtype);
    free(v);
    return t;
}

/* The same values, laid out backwards: strides that ascend. */
static hod_tensor *turned(hod_tensor *t)
{
    hod_shape order = {.n = t->ndim};
    for (int i = 0; i < t->ndim; i++)
        order.d[i] = t->ndim - 1 - i;
    return hod_permute_to(hod_copy(hod_permute_to(t, order)), order);
}

/* Greatest distance, relative to the greatest magnitude;
 * infinite where only one is not a number. */
static double distance(hod_tensor *a, hod_tensor *b)
{
    CHECK(a && b);
    int64_t n = hod_tensor_numel(a);
    EQ_INT(n, hod_tensor_numel(b));
    EQ_INT(a->ndim, b->ndim);
    EQ_INT(a->dtype, b->dtype);
    double *x = hod__alloc((size_t)n + 1, sizeof *x), *y = hod__alloc((size_t)n + 1, sizeof *y);
    CHECK(hod_read_doubles(a, x, n) == 0 && hod_read_doubles(b, y, n) == 0);
    double most = 1e-30, worst = 0;
    for (int64_t i = 0; i < n; i++)
        most = isfinite(y[i]) ? fmax(most, fabs(y[i])) : most;
    for (int64_t i = 0; i < n; i++)
        if (x[i] != y[i] && !(isnan(x[i]) && isnan(y[i])))
            worst = isfinite(x[i] - y[i]) ? fmax(worst, fabs(x[i] - y[i]) / most) : INFINITY;
    free(x);
    free(y);
    return worst;
}

/* The front's value, and its gradients for the inputs, into out[0...]. */
static void run(const twin *t, hod_tensor *const *in, bool compose, hod_tensor **out)
{
    int n = inputs_of(t);
    hod_tensor *leaf[INPUTS];
    for (int i = 0; i < n; i++)
        CHECK((leaf[i] = hod_requires_grad(hod_detach(in[i]), true)));
    hod__compose_only = compose;
    out[0] = t->front(leaf);
    CHECK(out[0]);
    hod_tensor *g = numbers(hod_tensor_shape(out[0]), 99, (hod_dtype)out[0]->dtype);
    CHECK(hod_grad_of(out[0], n, leaf, out + 1, g) == 0);
    hod__compose_only = false;
}

static void compare(const twin *t, hod_tensor *const *in, double tol)
{
    hod_tensor *fused[INPUTS + 1], *composed[INPUTS + 1];
    run(t, in, false, fused);
    run(t, in, true, composed);
    for (int i = 0; i <= inputs_of(t); i++) {
        double d = distance(fused[i], composed[i]);
        if (!(d <= tol))
            FAIL("%s of %s %s: %s %d is off by %g", t->name, hod_dtype_name(in[0]->dtype),
                 HOD_SHAPE_TEXT(in[0]), i ? "gradient" : "value", i, d);
    }
}

/* Both round a few times, in other places, and add in other orders. */
static const double tolerance[HOD_DTYPES] = {[HOD_F32] = 2e-6, [HOD_F64] = 1e-12};

static void compare_all(int n, const twin *t)
{
    for (int k = 0; k < n; k++)
        for (hod_dtype dtype = HOD_F32; dtype <= HOD_F64; dtype++)
            for (int rows = 0; rows < 3; rows++) {
                HOD_SCOPE(s);
                if (!hod__rows_of(rows))
                    continue;
                hod__rows_use(hod__rows_of(rows));
                hod_tensor *in[INPUTS], *other[INPUTS];
                for (int i = 0; i < inputs_of(&t[k]); i++) {
                    in[i] = numbers(t[k].shape[i], (uint64_t)i, dtype);
                    other[i] = turned(in[i]);
                }
                compare(&t[k], in, tolerance[dtype]);
                compare(&t[k], other, tolerance[dtype]);
            }
    hod__rows_use(NULL);
}

FRONT(softmax_last, hod_softmax(x, -1))
FRONT(softmax_first, hod_softmax(x, 0))
FRONT(log_softmax_last, hod_log_softmax(x, -1))
FRONT(log_softmax_first, hod_log_softmax(x, 0))
FRONT(logsumexp_last, hod_logsumexp(x, -1, false))
FRONT(logsumexp_first, hod_logsumexp(x, 0, true))
FRONT(norm2_last, hod_norm_over(x, 2, S(-1), false))
FRONT(norm2_first, hod_norm_over(x, 2, S(0), true))

TEST(fused_softmax_is_its_composition)
{
    /* short lines and long, with and without a rest of a vector; few lines and many */
    static const int64_t shape[][2] = {{1, 1},  {3, 1},   {1, 5},    {7, 10},   {70, 33},
                                       {5, 64}, {3, 129}, {100, 17}, {2, 1000}, {300, 128}};
    for (int k = 0; k < HOD_COUNT(shape); k++) {
        hod_shape s = S(shape[k][0], shape[k][1]);
        compare_all(8, (twin[]){{"softmax", softmax_last, {s}},
                                {"softmax across", softmax_first, {s}},
                                {"log_softmax", log_softmax_last, {s}},
                                {"log_softmax across", log_softmax_first, {s}},
                                {"norm2", norm2_last, {s}},
                                {"norm2 across", norm2_first, {s}},
                                {"logsumexp", logsumexp_last, {s}},
                                {"logsumexp across", logsumexp_first, {s}}});
    }
}

/* NaN, infinities, a row of -inf: where there are numbers they are the same, and nowhere else. */
TEST(fused_softmax_of_what_is_not_finite)
{
    const twin t[] = {{"softmax", softmax_last, {S(5, 4)}},
                      {"softmax across", softmax_first, {S(4, 5)}},
                      {"log_softmax", log_softmax_last, {S(5, 4)}},
                      {"log_softmax across", log_softmax_first, {S(4, 5)}},
                      {"logsumexp", logsumexp_last, {S(5, 4)}},
                      {"logsumexp across", logsumexp_first, {S(4, 5)}}};
    const float inf = INFINITY;
    /* clang-format off */
    hod_tensor *x = hod_from_floats((float[]){1, NAN, 2, -inf,
                                              -inf, -inf, -inf, -inf,
                                              -inf, 3, inf, 1,
                                              inf, -inf, 2, 0,
                                              1e30f, -1e30f, 88, -200},
                                    S(5, 4));
    /* clang-format on */
    for (int k = 0; k < HOD_COUNT(t); k++)
        compare(&t[k], (hod_tensor *[]){k % 2 ? turned(hod_transpose(x, 0, 1)) : x}, 1e-6);
}

/* ---- losses ---- */

/* A label for each line of x along dimension 1; one of four is ignored. */
static hod_tensor *labels(hod_tensor *x)
{
    hod_shape shape = hod_tensor_shape(x);
    double classes = (double)shape.d[1];
    for (int i = 1; i < shape.n - 1; i++)
        shape.d[i] = shape.d[i + 1];
    shape.n--;
    hod_tensor *at =
        hod_floor(hod_mul_scalar(hod_add_scalar(numbers(shape, 7, HOD_F64), 3), classes / 6.01));
    hod_tensor *counts = hod_lt_scalar(numbers(shape, 8, HOD_F64), 1.5);
    return hod_cast(hod_where(counts, at, hod_full(HOD_F64, S(), -100)), HOD_I64);
}

static hod_tensor *class_weights(hod_tensor *x)
{
    return hod_exp(numbers(S(x->shape[1]), 9, HOD_F64));
}

FRONT(entropy, hod_cross_entropy_rows(x, labels(x)))
FRONT(entropy_mean, hod_loss_mean(hod_cross_entropy(x, labels(x))))
FRONT(entropy_smooth, hod_cross_entropy_rows(x, labels(x), .label_smoothing = 0.2))
FRONT(entropy_weighted, hod_cross_entropy_rows(x, labels(x), .class_weight = class_weights(x)))
FRONT(entropy_all, hod_cross_entropy_rows(x, labels(x), .class_weight = class_weights(x),
                                          .label_smoothing = 0.2))
FRONT(entropy_weighted_mean,
      hod_loss_mean(hod_cross_entropy(x, labels(x), .class_weight = class_weights(x))))
FRONT(entropy_none_ignored,
      hod_loss_mean(hod_cross_entropy(x, hod_relu(labels(x)), .class_weight = class_weights(x))))
FRONT(nll_none_ignored, hod_loss_mean(hod_nll(x, hod_relu(labels(x)))))
FRONT(nll, hod_nll_rows(x, labels(x)))
FRONT(nll_weighted, hod_nll_rows(x, labels(x), .class_weight = class_weights(x)))

TEST(fused_cross_entropy_is_its_composition)
{
    hod_shape shape[] = {S(1, 2),   S(4, 3),    S(9, 10),       S(70, 21),
                         S(3, 257), S(2, 3, 5), S(2, 21, 7, 11)};
    for (int k = 0; k < HOD_COUNT(shape); k++)
        compare_all(10, (twin[]){{"cross_entropy", entropy, {shape[k]}},
                                 {"its mean", entropy_mean, {shape[k]}},
                                 {"smoothed", entropy_smooth, {shape[k]}},
                                 {"weighted", entropy_weighted, {shape[k]}},
                                 {"weighted and smoothed", entropy_all, {shape[k]}},
                                 {"its weighted mean", entropy_weighted_mean, {shape[k]}},
                                 {"none ignored", entropy_none_ignored, {shape[k]}},
                                 {"nll, none ignored", nll_none_ignored, {shape[k]}},
                                 {"nll", nll, {shape[k]}},
                                 {"nll weighted", nll_weighted, {shape[k]}}});
}

FRONT(mse, hod_mse(x, in[1]).sum)
FRONT(mse_each, hod_mse_each(x, in[1]))
FRONT(l1, hod_l1(x, in[1]).sum)
FRONT(l1_each, hod_l1_each(x, in[1]))
FRONT(smooth_l1, hod_smooth_l1(x, in[1], 0.7).sum)
FRONT(smooth_l1_each, hod_smooth_l1_each(x, in[1], 0.7))
FRONT(huber, hod_huber(x, in[1], 0.7).sum)
FRONT(huber_each, hod_huber_each(x, in[1], 0.7))
FRONT(kl_div, hod_loss_mean(hod_kl_div(x, hod_abs(in[1]), false)))
FRONT(kl_div_each, hod_kl_div_each(x, hod_relu(in[1]), false))
FRONT(kl_div_log, hod_loss_mean(hod_kl_div(x, in[1], true)))
FRONT(kl_div_log_each, hod_kl_div_each(x, in[1], true))
FRONT(bce, hod_bce(hod_sigmoid(x), hod_sigmoid(in[1])).sum)
FRONT(bce_each, hod_bce_each(hod_clamp(x, 0, 1), hod_sigmoid(in[1])))
FRONT(bce_with_logits, hod_bce_with_logits(x, hod_sigmoid(in[1])).sum)
FRONT(bce_with_logits_each, hod_bce_with_logits_each(x, hod_sigmoid(in[1])))

TEST(fused_losses_are_their_compositions)
{
    hod_shape shape[] = {S(1), S(3, 7), S(2, 16, 33), S(33000)};
#define TWIN(name)                                                                                 \
    {                                                                                              \
#name, name,                                                                               \
        {                                                                                          \
            shape[k], shape[k]                                                                     \
        }                                                                                          \
    }
    for (int k = 0; k < HOD_COUNT(shape); k++)
        compare_all(16,
                    (twin[]){TWIN(mse), TWIN(mse_each), TWIN(l1), TWIN(l1_each), TWIN(smooth_l1),
                             TWIN(smooth_l1_each), TWIN(huber), TWIN(huber_each), TWIN(kl_div),
                             TWIN(kl_div_each), TWIN(kl_div_log), TWIN(kl_div_log_each), TWIN(bce),
                             TWIN(bce_each), TWIN(bce_with_logits), TWIN(bce_with_logits_each)});
}

FRONT(roll_first, hod_roll(x, 1, 0))
FRONT(roll_last, hod_roll(x, -2, -1))

TEST(fused_roll_is_its_composition)
{
    hod_shape shape[] = {S(2, 3), S(300, 130), S(4, 17, 60)};
    for (int k = 0; k < HOD_COUNT(shape); k++)
        compare_all(2, (twin[]){{"roll", roll_first, {shape[k]}},
                                {"roll of the last", roll_last, {shape[k]}}});
}

/* ---- normalisation ---- */

FRONT(layer, hod_layer_norm(x, in[1], in[2], 1e-5))
FRONT(layer_plain, hod_layer_norm_plain(x, 2, 1e-5))
FRONT(rms, hod_rms_norm(x, in[1], 1e-5))
FRONT(rms_plain, hod_rms_norm_plain(x, 1, 1e-5))
FRONT(group, hod_group_norm(x, 2, in[1], in[2], 1e-5))
FRONT(group_plain, hod_group_norm_plain(x, 2, 1e-5))
FRONT(instance, hod_instance_norm(x, in[1], in[2], 1e-5))
FRONT(instance_plain, hod_instance_norm_plain(x, 1e-5))
FRONT(batch, hod_batch_norm_train(x, in[1], in[2], 1e-5))
FRONT(batch_plain, hod_batch_norm_train_plain(x, 1e-5))

static hod_tensor *channels(hod_tensor *x, uint64_t seed)
{
    return hod_abs(numbers(S(x->shape[1]), seed, (hod_dtype)x->dtype));
}
FRONT(given, hod_batch_norm(x, channels(x, 21), channels(x, 22), in[1], in[2], 1e-3))

TEST(fused_norms_are_their_compositions)
{
    hod_shape image = S(3, 6, 5, 7), c = S(6);
    compare_all(17, (twin[]){{"layer_norm", layer, {S(5, 7), S(7), S(7)}},
                             {"layer_norm", layer, {S(50, 100), S(100), S(100)}},
                             {"layer_norm over two", layer, {S(5, 3, 7), S(3, 7), S(3, 7)}},
                             {"layer_norm plain", layer_plain, {S(4, 3, 17)}},
                             {"rms_norm", rms, {S(40, 33), S(33)}},
                             {"rms_norm plain", rms_plain, {S(5, 16)}},
                             {"group_norm", group, {image, c, c}},
                             {"group_norm of one value each", group, {S(7, 2, 1), S(2), S(2)}},
                             {"group_norm plain", group_plain, {image}},
                             {"instance_norm", instance, {image, c, c}},
                             {"instance_norm plain", instance_plain, {image}},
                             {"batch_norm", batch, {image, c, c}},
                             {"batch_norm, given", given, {image, c, c}},
                             {"batch_norm of a table, given", given, {S(9, 70), S(70), S(70)}},
                             {"batch_norm plain", batch_plain, {image}},
                             {"batch_norm of a table", batch, {S(9, 70), S(70), S(70)}},
                             {"batch_norm of a table, plain", batch_plain, {S(20, 5)}}});
}

static int both_softmaxes(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    out[0] = hod_softmax(in[0], -1);
    out[1] = hod_log_softmax(in[0], -1);
    return out[0] && out[1] ? 0 : -1;
}

/* As PyTorch, but for a row of -inf alone, whose probabilities are 0; printed kernels, too. */
TEST(fused_softmax_of_infinities_compiled)
{
    const float inf = INFINITY, nan = NAN;
    hod_tensor *x = hod_from_floats(
        (float[]){1, 2, -inf, -inf, -inf, -inf, 0, inf, 1, nan, 0, 0, -inf, 88, -inf}, S(5, 3));
    const double want[2][15] = {
        {0.26894142, 0.73105858, 0, 0, 0, 0, nan, nan, nan, nan, nan, nan, 0, 1, 0},
        {-1.31326169, -0.31326169, -inf, nan, nan, nan, nan, nan, nan, nan, nan, nan, -inf, 0,
         -inf}};
    hod_fn *f = hod_compile(both_softmaxes, NULL, .inputs = 1, .outputs = 2, .fullgraph = true);
    hod_tensor *out[2][2];
    CHECK(hod_fn_call(f, &x, out[0]) == 0 && both_softmaxes(NULL, &x, out[1]) == 0);
    for (int k = 0; k < 4; k++) {
        double have[15];
        CHECK(hod_read_doubles(out[k / 2][k % 2], have, 15) == 0);
        for (int i = 0; i < 15; i++) {
            double y = want[k % 2][i];
            CHECK(isnan(y) ? isnan(have[i]) : have[i] == y || fabs(have[i] - y) < 1e-6);
        }
    }
    hod_fn_free(f);
}
