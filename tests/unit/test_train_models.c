/* The networks of models/: their sizes are those of the literature, and what the house promises
 * holds for each: compiled = eager, cut = whole. */
#include "autograd/autograd.h"
#include "harness.h"
#include "models/models.h"
#include <math.h>
#include <string.h>

/* torchvision's counts for ImageNet; He et al. for the small ones, to which our projection
 * shortcuts and the second normalisation of each add. */
TEST(train_models_have_the_known_sizes)
{
    const struct {
        const char *name;
        hod_shape shape;
        int64_t classes, parameters;
    } known[] = {
        {"resnet18", HOD_SHAPE(3, 224, 224), 1000, 11689512},
        {"resnet50", HOD_SHAPE(3, 224, 224), 1000, 25557032},
        {"mlp", HOD_SHAPE(784), 10, 784 * 256 + 256 + 256 * 256 + 256 + 256 * 10 + 10},
    };
    for (int i = 0; i < 3; i++) {
        hod_module *net =
            model_new(known[i].name, .shape = known[i].shape, .num_classes = known[i].classes);
        EQ_INT(hod_module_count_parameters(net), known[i].parameters);
        hod_module_free(net);
    }
}

TEST(train_models_give_logits)
{
    for (const model_info *m = model_table; m->name; m++)
        for (int norm = 0; norm < 2; norm++) {
            HOD_SCOPE(s);
            HOD_NO_GRAD(g);
            hod_module *net = model_new(m->name, .num_classes = 7, .shape = HOD_SHAPE(2, 16, 12),
                                        .norm = (hod_norm_choice)norm, .dropout = 0.1);
            CHECK(net);
            hod_tensor *y = hod_call(net, hod_full(HOD_F32, HOD_SHAPE(3, 2, 16, 12), 0.5));
            CHECK(y);
            EQ_INT(hod_tensor_ndim(y), 2);
            EQ_INT(hod_tensor_size(y, 0), 3);
            EQ_INT(hod_tensor_size(y, 1), 7);
            hod_module_free(net);
        }
}

TEST(train_models_refuse_with_words)
{
    ERROR_IS("model: no network \"resnet9\", perhaps resnet8; there are mlp, resnet8, "
             "resnet20, resnet18, resnet50",
             model_new("resnet9", .num_classes = 10));
    ERROR_IS("resnet8: inputs have 1 dimensions, wanted images (C,H,W)",
             model_new("resnet8", .shape = HOD_SHAPE(784)));
}

/* ---- the same gradients, compiled or not ---- */

enum { SIZE = 8 }; /* of images: f64 convolutions are slow */

typedef struct result {
    double *gradients;    /* sums of a window, parameter after parameter */
    int64_t n, ends[256]; /* where each parameter's end; the first 0 is behind the last */
    double loss;
} result;

/* The type of the parameters is that of the step. */
static hod_loss classify(hod_module *net, const hod_batch *b)
{
    hod_batch typed = *b;
    hod_walk first = hod_parameters(net);
    hod_walk_next(&first);
    typed.input = hod_cast(b->input, hod_tensor_dtype(first.item.tensor));
    return model_classify(net, &typed);
}

static result window(const char *name, hod_norm_choice norm, hod_dtype dtype, int64_t micro,
                     hod_compile_mode mode)
{
    hod_dataset *data = hod_synthetic_dataset(.shape = HOD_SHAPE(3, SIZE, SIZE), .count = 16);
    hod_module *net =
        model_new(name, .shape = HOD_SHAPE(3, SIZE, SIZE), .norm = norm, .dropout = 0.1);
    CHECK(hod_module_cast(net, dtype) == 0);
    hod_trainer *t = hod_trainer_new(net, classify, .effective_batch = 4, .micro_batch = micro,
                                     .compile = mode, .seed = 4, .optimizer = hod_sgd(.lr = 1e-3));
    result r = {.n = hod_module_count_parameters(net)};
    r.gradients = malloc((size_t)r.n * sizeof *r.gradients);
    hod_update u;
    if (!hod_trainer_step(t, data, &u))
        FAIL("%s: %s", name, hod_error());
    r.loss = u.loss;
    int64_t at = 0, *end = r.ends;
    for (hod_walk w = hod_parameters(net); hod_walk_next(&w);) {
        hod_tensor *sum = hod__grad_slot(w.item.tensor)->sum;
        CHECK(hod_read_doubles(sum, r.gradients + at, hod_tensor_numel(sum)) == 0);
        at += hod_tensor_numel(sum);
        *end++ = at;
    }
    hod_trainer_free(t);
    hod_module_free(net);
    hod_dataset_free(data);
    return r;
}

/* The worst of all parameters: largest difference over largest magnitude of its gradient. */
static double distance(const result *a, const result *b)
{
    double worst = 0;
    int64_t at = 0;
    for (const int64_t *end = b->ends; *end; end++) {
        double difference = 0, magnitude = 0;
        for (; at < *end; at++) {
            difference = fmax(difference, fabs(a->gradients[at] - b->gradients[at]));
            magnitude = fmax(magnitude, fabs(b->gradients[at]));
        }
        worst = fmax(worst, difference / magnitude);
    }
    return worst;
}

static void compare(const char *what, const char *name, const result *a, const result *b,
                    double limit)
{
    double d = distance(a, b), l = fabs(a->loss / b->loss - 1);
    if (!(d <= limit) || !(l <= limit))
        FAIL("%s, %s: gradients differ by %.2e, losses by %.2e, limit %.2e", name, what, d, l,
             limit);
}

/* Every gradient of compiled code is eager's, to 1e-5 in f32 and 1e-10 in f64, although in f32 both
 * are up to 1e-2 from the truth here: a deep network at its random start sends an activation that
 * is 0 but for rounding to the wrong side of a ReLU. Compiled and eager code send it to the same
 * side, because they round alike: see lower_split.c and dnn_conv.c. So they must everywhere. */
static void check_compiled(const char *name)
{
    for (int norm = 0; norm < 2; norm++) {
        hod_norm_choice n = (hod_norm_choice)norm;
        int64_t cut = norm == HOD_NORM_GROUP ? 2 : 4; /* batch norm: of two values, only signs */
        result exact = window(name, n, HOD_F64, cut, HOD_COMPILE_EAGER);
        result exact_compiled = window(name, n, HOD_F64, cut, HOD_COMPILE_DEFAULT);
        compare("f64 compiled", name, &exact_compiled, &exact, 1e-10);
        result eager = window(name, n, HOD_F32, cut, HOD_COMPILE_EAGER);
        result compiled = window(name, n, HOD_F32, cut, HOD_COMPILE_DEFAULT);
        compare("f32 compiled", name, &compiled, &eager, 1e-5);
        if (norm == HOD_NORM_GROUP) {
            result whole = window(name, n, HOD_F32, 4, HOD_COMPILE_DEFAULT);
            compare("f32 whole window", name, &whole, &eager, 1e-5);
            free(whole.gradients);
        }
        free(exact.gradients);
        free(exact_compiled.gradients);
        free(eager.gradients);
        free(compiled.gradients);
    }
}

TEST(train_models_mlp_compiled_is_eager)
{
    check_compiled("mlp");
}

TEST(train_models_resnet8_compiled_is_eager)
{
    check_compiled("resnet8");
}

TEST(train_models_resnet20_compiled_is_eager)
{
    check_compiled("resnet20");
}

TEST(train_models_resnet18_compiled_is_eager)
{
    check_compiled("resnet18");
}

TEST(train_models_resnet50_compiled_is_eager)
{
    check_compiled("resnet50");
}

/* ---- what a step takes ---- */

static int forward_backward(void *net, hod_tensor *const *in, hod_tensor **out)
{
    hod_loss l = hod_cross_entropy(hod_call(net, in[0]), in[1]);
    out[0] = hod_detach(l.sum);
    return hod_backward(l.sum);
}

/* Of forward and backward in one program, planned only. */
static int64_t arena_of(const char *name, hod_shape image, int64_t batch, int64_t classes)
{
    HOD_SCOPE(s);
    hod_shape shape = {.n = 4, .d = {batch, image.d[0], image.d[1], image.d[2]}};
    hod_module *net = model_new(name, .shape = image, .num_classes = classes,
                                .norm = HOD_NORM_BATCH, .batch_norm = HOD_BN_MICRO);
    hod_fn *f = hod_compile(forward_backward, net, .inputs = 2, .outputs = 1);
    hod_tensor *in[] = {hod_placeholder(HOD_F32, shape),
                        hod_placeholder(HOD_I64, HOD_SHAPE(batch))};
    if (!f || hod_fn_prepare(f, in))
        FAIL("%s: %s", name, hod_error());
    int64_t bytes = hod_fn_report(f).arena_bytes;
    hod_fn_free(f);
    hod_module_free(net);
    return bytes;
}

/* With parameters, gradients and optimizer state 0.8 of what PyTorch takes for the step (467 and
 * 943 MB, bench/): resnet18 needs 182 MB here, resnet50 417, on machines with blocks of 16. */
TEST(train_models_steps_stay_small)
{
    EQ_INT(arena_of("resnet18", HOD_SHAPE(3, 32, 32), 64, 10) <= 190000000, 1);
    EQ_INT(arena_of("resnet50", HOD_SHAPE(3, 224, 224), 8, 1000) <= 430000000, 1);
}
