/* Normalisation, with statistics given, or taken from the input. */
#include "golden.h"
#include <float.h>

static hod_tensor *ones(hod_tensor *like, hod_shape shape, double value)
{
    return hod_full(hod_tensor_dtype(like), shape, value);
}

static hod_tensor *or_full(gold *c, const char *name, hod_shape shape, double value)
{
    return gold_has(c, name) ? gold_tensor(c, name) : ones(T(input), shape, value);
}

/* One of two: some cases have a weight only, or a bias only. */
static bool affine(gold *c)
{
    return HAS(weight) || HAS(bias);
}

static int bind_layer_norm(gold *c)
{
    hod_shape s = SHAPE(normalized_shape);
    double eps = REAL(eps, 1e-5);
    return gold_one(c, affine(c) ? hod_layer_norm(T(input), or_full(c, "weight", s, 1),
                                                  or_full(c, "bias", s, 0), eps)
                                 : hod_layer_norm_plain(T(input), s.n, eps));
}

/* PyTorch's default eps is the type's, f64's in the cases. */
static int bind_rms_norm(gold *c)
{
    double eps = REAL(eps, DBL_EPSILON);
    return gold_one(c, HAS(weight) ? hod_rms_norm(T(input), T(weight), eps)
                                   : hod_rms_norm_plain(T(input), SHAPE(normalized_shape).n, eps));
}

static hod_shape channels(gold *c)
{
    return HOD_SHAPE(hod_tensor_size(T(input), 1));
}

static int bind_group_norm(gold *c)
{
    hod_shape s = channels(c);
    int64_t groups = INT(num_groups, 1);
    double eps = REAL(eps, 1e-5);
    return gold_one(c, affine(c) ? hod_group_norm(T(input), groups, or_full(c, "weight", s, 1),
                                                  or_full(c, "bias", s, 0), eps)
                                 : hod_group_norm_plain(T(input), groups, eps));
}

/* With the statistics given. */
static hod_tensor *with_running(gold *c, double eps)
{
    hod_shape s = channels(c);
    if (!affine(c))
        return hod_batch_norm_plain(T(input), T(running_mean), T(running_var), eps);
    return hod_batch_norm(T(input), T(running_mean), T(running_var), or_full(c, "weight", s, 1),
                          or_full(c, "bias", s, 0), eps);
}

static int bind_instance_norm(gold *c)
{
    hod_shape s = channels(c);
    double eps = REAL(eps, 1e-5);
    if (!FLAG(use_input_stats, true))
        return gold_one(c, with_running(c, eps));
    return gold_one(c, affine(c) ? hod_instance_norm(T(input), or_full(c, "weight", s, 1),
                                                     or_full(c, "bias", s, 0), eps)
                                 : hod_instance_norm_plain(T(input), eps));
}

static int bind_batch_norm(gold *c)
{
    if (hod_tensor_ndim(T(input)) < 2)
        return gold_skip(c, "the input is (N,C,...)");
    hod_shape s = channels(c);
    double eps = REAL(eps, 1e-5);
    if (!FLAG(training, false))
        return gold_one(c, with_running(c, eps));
    return gold_one(c, affine(c) ? hod_batch_norm_train(T(input), or_full(c, "weight", s, 1),
                                                        or_full(c, "bias", s, 0), eps)
                                 : hod_batch_norm_train_plain(T(input), eps));
}

static const gold_binding rows[] = {
    ROW("layer_norm", bind_layer_norm, .f32 = 1e-5),
    ROW("rms_norm", bind_rms_norm, .f32 = 1e-5),
    ROW("group_norm", bind_group_norm, .f32 = 1e-5),
    ROW("instance_norm", bind_instance_norm, .f32 = 1e-5),
    ROW("batch_norm", bind_batch_norm, .f32 = 1e-5),
};
GOLD_FAMILY(norm, 150, 148)
