/* Multi-head self-attention, with PyTorch's parameters: one product makes queries, keys and values
 * (in that order, in_proj_weight), each head attends, out_proj brings the heads together.
 *
 *     x (N,L,W) -> (N,L,3,H,W/H) -> q, k, v (N,H,L,W/H) -> attention -> (N,L,W) -> out_proj
 */
#include "nn/nn.h"
#include <hod/attention.h>
#include <math.h>

typedef struct multihead {
    hod_module base;
    hod_module *out_proj;
    hod_tensor *in_weight, *in_bias; /* (3W,W), (3W) */
    int64_t width, heads;
    bool causal;
    double dropout;
} multihead;

/* mask NULL: called without one. */
static hod_tensor *attend(multihead *m, hod_tensor *x, hod_tensor *mask)
{
    if (x->ndim != 3 || x->shape[2] != m->width)
        return HOD_FAIL(ARGUMENT, "multihead: %s given, (N,L,%lld) wanted", HOD_SHAPE_TEXT(x),
                        (long long)m->width);
    int64_t n = x->shape[0], l = x->shape[1], h = m->heads;
    hod_tensor *all =
        m->in_bias ? hod_linear(x, m->in_weight, m->in_bias) : hod_linear_nobias(x, m->in_weight);
    all = hod_permute(hod_reshape(all, HOD_SHAPE(n, l, 3, h, m->width / h)), 2, 0, 3, 1, 4);
    hod_tensor *q = hod_select(all, 0, 0), *k = hod_select(all, 0, 1), *v = hod_select(all, 0, 2);
    hod_attention_options o = {.causal = m->causal, .dropout = m->base.training ? m->dropout : 0};
    hod_tensor *y =
        mask ? hod_attention_masked_with(q, k, v, mask, o) : hod_attention_with(q, k, v, o);
    y = hod_reshape(hod_transpose(y, 1, 2), HOD_SHAPE(n, l, m->width));
    return hod_call(m->out_proj, y);
}

static hod_tensor *forward(hod_module *self, hod_tensor *x)
{
    return attend((multihead *)self, x, NULL);
}

hod_tensor *hod_nn_multihead_masked(hod_module *self, hod_tensor *x, hod_tensor *mask)
{
    if (!self || !x || !mask)
        return NULL;
    if (self->forward != forward)
        return HOD_FAIL(ARGUMENT, "nn_multihead_masked: %s is no multihead", self->type);
    return attend((multihead *)self, x, mask);
}

hod_module *hod_nn_multihead_make(hod_module *parent, const char *name, hod_multihead_spec spec)
{
    if (spec.width <= 0 || spec.heads <= 0 || spec.width % spec.heads != 0)
        hod__fail(HOD_ERROR_ARGUMENT, "multihead: %lld heads do not divide a width of %lld",
                  (long long)spec.heads, (long long)spec.width);
    if (!(spec.dropout >= 0 && spec.dropout < 1))
        hod__fail(HOD_ERROR_ARGUMENT, "multihead: dropout = %g, must be at least 0 and below 1",
                  spec.dropout);
    multihead *m = (multihead *)hod_module_make(parent, name, "multihead", sizeof *m, forward);
    int64_t w = spec.width;
    hod_init xavier = {HOD_INIT_UNIFORM, w > 0 ? sqrt(6.0 / (4.0 * (double)w)) : 0};
    m->width = w;
    m->heads = spec.heads;
    m->causal = spec.causal;
    m->dropout = spec.dropout;
    m->in_weight =
        hod_parameter_new(&m->base, "in_proj_weight", HOD_WEIGHT, HOD_SHAPE(3 * w, w), xavier);
    if (!spec.no_bias)
        m->in_bias = hod_parameter_new(&m->base, "in_proj_bias", HOD_BIAS, HOD_SHAPE(3 * w),
                                       (hod_init){HOD_INIT_ZEROS, 0});
    m->out_proj = hod_nn_linear(&m->base, "out_proj", w, w, .no_bias = spec.no_bias);
    return hod_module_done(m);
}
