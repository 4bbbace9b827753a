/* Layers that are one function and its parameters: linear, convolution, norms over a sample,
 * embedding, pooling, dropout, relu; and the sequence of layers.
 *
 * Every weight starts as PyTorch's does: uniform within 1 / sqrt(fan_in) for linear and
 * convolution, bias included; ones and zeros for norms; a standard normal for embeddings.
 */
#include "nn/nn.h"
#include <hod/rows.h>

typedef struct affine { /* linear, convolution, norms: a weight and perhaps a bias */
    hod_module base;
    hod_tensor *weight, *bias;
} affine;

static int positive(const char *what, const char *field, int64_t value)
{
    return value > 0 ? 0
                     : HOD_FAIL_RC(ARGUMENT, "%s: %s = %lld, must be positive", what, field,
                                   (long long)value);
}

/* ---- linear ---- */

static hod_tensor *linear_forward(hod_module *self, hod_tensor *x)
{
    affine *m = (affine *)self;
    return m->bias ? hod_linear(x, m->weight, m->bias) : hod_linear_nobias(x, m->weight);
}

hod_module *hod_nn_linear_make(hod_module *parent, const char *name, hod_linear_spec spec)
{
    if (positive("linear", "in", spec.in) == 0)
        positive("linear", "out", spec.out);
    affine *m = (affine *)hod_module_make(parent, name, "linear", sizeof *m, linear_forward);
    hod_init init = HOD_INIT_FAN_IN(spec.in);
    m->weight =
        hod_parameter_new(&m->base, "weight", HOD_WEIGHT, HOD_SHAPE(spec.out, spec.in), init);
    if (!spec.no_bias)
        m->bias = hod_parameter_new(&m->base, "bias", HOD_BIAS, HOD_SHAPE(spec.out), init);
    return hod_module_done(m);
}

/* ---- convolution ---- */

typedef struct conv2d {
    affine affine;
    hod_conv2d_options options;
} conv2d;

static hod_tensor *conv2d_forward(hod_module *self, hod_tensor *x)
{
    conv2d *m = (conv2d *)self;
    hod_conv2d_options options = m->options;
    options.bias = m->affine.bias;
    return hod_conv2d_with(x, m->affine.weight, options);
}

static int check_conv2d(const hod_nn_conv2d_spec *s, int64_t groups)
{
    if (positive("conv2d", "in", s->in) != 0 || positive("conv2d", "out", s->out) != 0 ||
        positive("conv2d", "kernel", s->kernel) != 0 || positive("conv2d", "groups", groups) != 0)
        return -1;
    if (s->in % groups != 0 || s->out % groups != 0)
        return HOD_FAIL_RC(ARGUMENT, "conv2d: %lld groups do not divide %lld and %lld channels",
                           (long long)groups, (long long)s->in, (long long)s->out);
    if (s->padding < 0 || s->stride < 0 || s->dilation < 0 || s->kernel_w < 0)
        return HOD_FAIL_RC(ARGUMENT, "conv2d: a negative stride, padding, dilation or kernel_w");
    return 0;
}

hod_module *hod_nn_conv2d_make(hod_module *parent, const char *name, hod_nn_conv2d_spec spec)
{
    int64_t groups = spec.groups ? spec.groups : 1;
    check_conv2d(&spec, groups); /* an error makes the module below one that belongs to nobody */
    conv2d *m = (conv2d *)hod_module_make(parent, name, "conv2d", sizeof *m, conv2d_forward);
    int64_t kernel_w = spec.kernel_w ? spec.kernel_w : spec.kernel;
    int64_t in = groups > 0 ? spec.in / groups : 0;
    hod_init init = HOD_INIT_FAN_IN(in * spec.kernel * kernel_w);
    m->options = (hod_conv2d_options){.stride = spec.stride,
                                      .padding = spec.padding,
                                      .dilation = spec.dilation,
                                      .groups = groups};
    m->affine.weight = hod_parameter_new(&m->affine.base, "weight", HOD_WEIGHT,
                                         HOD_SHAPE(spec.out, in, spec.kernel, kernel_w), init);
    if (!spec.no_bias)
        m->affine.bias =
            hod_parameter_new(&m->affine.base, "bias", HOD_BIAS, HOD_SHAPE(spec.out), init);
    return hod_module_done(m);
}

/* ---- norms over a sample ---- */

typedef struct norm {
    affine affine;
    int64_t groups;
    double eps;
} norm;

/* A norm with a weight and no bias. */
static norm *norm_new_plain(hod_module *parent, const char *name, const char *type,
                            int64_t channels, double eps, hod_forward *forward)
{
    positive(type, "channels", channels);
    norm *m = (norm *)hod_module_make(parent, name, type, sizeof *m, forward);
    m->eps = eps > 0 ? eps : 1e-5;
    m->affine.weight = hod_parameter_new(&m->affine.base, "weight", HOD_NORM_GAIN,
                                         HOD_SHAPE(channels), (hod_init){HOD_INIT_ONES, 0});
    return m;
}

static norm *norm_new(hod_module *parent, const char *name, const char *type, int64_t channels,
                      double eps, hod_forward *forward)
{
    norm *m = norm_new_plain(parent, name, type, channels, eps, forward);
    m->affine.bias = hod_parameter_new(&m->affine.base, "bias", HOD_NORM_BIAS, HOD_SHAPE(channels),
                                       (hod_init){HOD_INIT_ZEROS, 0});
    return m;
}

static hod_tensor *group_norm_forward(hod_module *self, hod_tensor *x)
{
    norm *m = (norm *)self;
    return hod_group_norm(x, m->groups, m->affine.weight, m->affine.bias, m->eps);
}

hod_module *hod_nn_group_norm_make(hod_module *parent, const char *name, hod_group_norm_spec spec)
{
    if (positive("group_norm", "groups", spec.groups) == 0 && spec.channels % spec.groups != 0)
        hod__fail(HOD_ERROR_ARGUMENT, "group_norm: %lld groups do not divide %lld channels",
                  (long long)spec.groups, (long long)spec.channels);
    norm *m = norm_new(parent, name, "group_norm", spec.channels, spec.eps, group_norm_forward);
    m->groups = spec.groups;
    return hod_module_done(m);
}

static hod_tensor *layer_norm_forward(hod_module *self, hod_tensor *x)
{
    norm *m = (norm *)self;
    return hod_layer_norm(x, m->affine.weight, m->affine.bias, m->eps);
}

hod_module *hod_nn_layer_norm_make(hod_module *parent, const char *name, hod_layer_norm_spec spec)
{
    return hod_module_done(
        norm_new(parent, name, "layer_norm", spec.features, spec.eps, layer_norm_forward));
}

static hod_tensor *rms_norm_forward(hod_module *self, hod_tensor *x)
{
    norm *m = (norm *)self;
    return hod_rms_norm(x, m->affine.weight, m->eps);
}

hod_module *hod_nn_rms_norm_make(hod_module *parent, const char *name, hod_rms_norm_spec spec)
{
    return hod_module_done(
        norm_new_plain(parent, name, "rms_norm", spec.features, spec.eps, rms_norm_forward));
}

/* ---- embedding ---- */

static hod_tensor *embedding_forward(hod_module *self, hod_tensor *x)
{
    return hod_embedding(((affine *)self)->weight, x);
}

static hod_tensor *embedding_rows_forward(hod_module *self, hod_tensor *x)
{
    return hod_embedding_rows(((affine *)self)->weight, x);
}

hod_module *hod_nn_embedding_make(hod_module *parent, const char *name, hod_embedding_spec spec)
{
    if (positive("embedding", "rows", spec.rows) == 0)
        positive("embedding", "features", spec.features);
    affine *m =
        (affine *)hod_module_make(parent, name, "embedding", sizeof *m,
                                  spec.row_sparse ? embedding_rows_forward : embedding_forward);
    m->weight =
        hod_parameter_new(&m->base, "weight", HOD_WEIGHT, HOD_SHAPE(spec.rows, spec.features),
                          (hod_init){HOD_INIT_NORMAL, 1});
    return hod_module_done(m);
}

/* ---- without parameters ---- */

typedef struct pool {
    hod_module base;
    hod_pool2d_options options;
} pool;

static hod_tensor *max_pool2d_forward(hod_module *self, hod_tensor *x)
{
    return hod_max_pool2d_with(x, ((pool *)self)->options);
}

hod_module *hod_nn_max_pool2d_make(hod_module *parent, const char *name, hod_nn_pool_spec spec)
{
    positive("max_pool2d", "kernel", spec.kernel);
    pool *m = (pool *)hod_module_make(parent, name, "max_pool2d", sizeof *m, max_pool2d_forward);
    m->options =
        (hod_pool2d_options){.kernel = spec.kernel, .stride = spec.stride, .padding = spec.padding};
    return hod_module_done(m);
}

typedef struct dropout {
    hod_module base;
    double p;
} dropout;

static hod_tensor *dropout_forward(hod_module *self, hod_tensor *x)
{
    const dropout *m = (dropout *)self;
    return self->training && m->p > 0 ? hod_dropout(x, m->p) : x;
}

hod_module *hod_nn_dropout_make(hod_module *parent, const char *name, double p)
{
    if (!(p >= 0 && p < 1))
        hod__fail(HOD_ERROR_ARGUMENT, "dropout: p = %g, must be at least 0 and below 1", p);
    dropout *m = (dropout *)hod_module_make(parent, name, "dropout", sizeof *m, dropout_forward);
    m->p = p;
    return hod_module_done(m);
}

static hod_tensor *relu_forward(hod_module *self, hod_tensor *x)
{
    (void)self;
    return hod_relu(x);
}

hod_module *hod_nn_relu_make(hod_module *parent, const char *name)
{
    return hod_module_done(hod_module_make(parent, name, "relu", sizeof(hod_module), relu_forward));
}

static hod_tensor *sequential_forward(hod_module *self, hod_tensor *x)
{
    for (int64_t i = 0; i < self->n_children; i++)
        x = hod_call(self->children[i], x);
    return x;
}

hod_module *hod_nn_sequential_make(hod_module *parent, const char *name)
{
    return hod_module_done(
        hod_module_make(parent, name, "sequential", sizeof(hod_module), sequential_forward));
}
