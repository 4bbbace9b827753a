/* Normalisation, with statistics given, or taken from the input. */
#include "golden.h"

static hod_tensor *ones(hod_tensor *like, hod_shape shape, double value)
{
    return hod_full(hod_tensor_dtype(like), shape, value);
}

static hod_tensor *or_full(gold *c, const char *name, hod_shape shape, double value)
{
    return gold_has(c, name) ? gold_tensor(c, name) : ones(T(input), shape, value);
}

static int bind_layer_norm(gold *c)
{
    hod_shape s = SHAPE(normalized_shape);
    return gold_one(c, hod_layer_norm(T(input), or_full(c, "weight", s, 1),
                                      or_full(c, "bias", s, 0), REAL(eps, 1e-5)));
}

static hod_shape channels(gold *c)
{
    return HOD_SHAPE(hod_tensor_size(T(input), 1));
}

static int bind_group_norm(gold *c)
{
    hod_shape s = channels(c);
    return gold_one(c, hod_group_norm(T(input), INT(num_groups, 1), or_full(c, "weight", s, 1),
                                      or_full(c, "bias", s, 0), REAL(eps, 1e-5)));
}

static int bind_batch_norm(gold *c)
{
    if (hod_tensor_ndim(T(input)) < 2)
        return gold_skip(c, "the input is (N,C,...)");
    hod_shape s = channels(c);
    if (FLAG(training, false))
        return gold_skip(c, "statistics of the batch are hod_nn_batch_norm's");
    return gold_one(c, hod_batch_norm(T(input), T(running_mean), T(running_var),
                                      or_full(c, "weight", s, 1), or_full(c, "bias", s, 0),
                                      REAL(eps, 1e-5)));
}

static const gold_binding rows[] = {
    ROW("layer_norm", bind_layer_norm, .f32 = 1e-5),
    ROW("group_norm", bind_group_norm, .f32 = 1e-5),
    ROW("batch_norm", bind_batch_norm, .f32 = 1e-5),
};
GOLD_FAMILY(norm, 150, 80)
