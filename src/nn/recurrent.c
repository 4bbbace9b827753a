/* LSTM and GRU as modules: parameters with PyTorch's names, in PyTorch's order. */
#include "nn/nn.h"
#include <hod/rnn.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct recurrent {
    hod_module base;
    bool lstm;
    hod_rnn_options options;
    double dropout;
    hod_rnn_weights *weights; /* one a layer and direction; the tensors are the parameters' */
} recurrent;

static void destroy(hod_module *self)
{
    free(((recurrent *)self)->weights);
}

/* Parameters may be replaced (cast), so their tensors are looked up at every call. */
static void collect(recurrent *m)
{
    int64_t each = m->options.no_bias ? 2 : 4;
    for (int64_t i = 0; i < m->base.n_parameters; i += each) {
        const hod_parameter *p = m->base.parameters + i;
        m->weights[i / each] =
            (hod_rnn_weights){p[0].tensor, p[1].tensor, each == 4 ? p[2].tensor : NULL,
                              each == 4 ? p[3].tensor : NULL};
    }
}

static hod_rnn run(recurrent *m, hod_tensor *x, hod_rnn_options o)
{
    collect(m);
    return m->lstm ? hod_lstm_with(x, m->weights, o) : hod_gru_with(x, m->weights, o);
}

static hod_rnn_options options_now(const recurrent *m)
{
    hod_rnn_options o = m->options;
    o.dropout = m->base.training ? m->dropout : 0;
    return o;
}

static hod_tensor *forward(hod_module *self, hod_tensor *x)
{
    recurrent *m = (recurrent *)self;
    return run(m, x, options_now(m)).y;
}

hod_rnn hod_nn_rnn_call(hod_module *self, hod_tensor *x, hod_rnn_options given)
{
    if (hod__null("nn_rnn", "module", self) || hod__null("nn_rnn", "x", x))
        return (hod_rnn){0};
    if (self->forward != forward) {
        hod__fail(HOD_ERROR_ARGUMENT, "nn_rnn: %s is neither lstm nor gru", self->type);
        return (hod_rnn){0};
    }
    recurrent *m = (recurrent *)self;
    hod_rnn_options o = options_now(m);
    o.lengths = given.lengths;
    o.h = given.h;
    o.c = given.c;
    return run(m, x, o);
}

static void add_parameters(recurrent *m, const hod_nn_rnn_spec *spec, int layer, bool reverse)
{
    int64_t g = (m->lstm ? 4 : 3) * spec->hidden, both = spec->bidirectional ? 2 : 1;
    int64_t in = layer == 0 ? spec->in : both * spec->hidden;
    hod_init init = HOD_INIT_FAN_IN(spec->hidden);
    char name[64];
    for (int i = 0; i < (spec->no_bias ? 2 : 4); i++) {
        snprintf(name, sizeof name, "%s_%s_l%d%s", i < 2 ? "weight" : "bias", i % 2 ? "hh" : "ih",
                 layer, reverse ? "_reverse" : "");
        hod_shape shape = i >= 2   ? HOD_SHAPE(g)
                          : i == 0 ? HOD_SHAPE(g, in)
                                   : HOD_SHAPE(g, spec->hidden);
        hod_parameter_new(&m->base, name, i < 2 ? HOD_WEIGHT : HOD_BIAS, shape, init);
    }
}

static hod_module *make(hod_module *parent, const char *name, const char *type,
                        hod_nn_rnn_spec spec)
{
    int layers = spec.layers ? spec.layers : 1;
    if (spec.in < 1 || spec.hidden < 1 || layers < 1 || layers > 1000)
        hod__fail(HOD_ERROR_ARGUMENT, "%s: in %lld, hidden %lld, %d layers", type,
                  (long long)spec.in, (long long)spec.hidden, layers);
    else if (!(spec.dropout >= 0 && spec.dropout < 1))
        hod__fail(HOD_ERROR_ARGUMENT, "%s: dropout %g, must be at least 0 and below 1", type,
                  spec.dropout);
    recurrent *m = (recurrent *)hod_module_make(parent, name, type, sizeof *m, forward);
    if (hod_error_kind_pending() != HOD_ERROR_NONE)
        return hod_module_done(m);
    m->base.destroy = destroy;
    m->lstm = type[0] == 'l';
    m->dropout = spec.dropout;
    m->options = (hod_rnn_options){.layers = layers,
                                   .bidirectional = spec.bidirectional,
                                   .batch_first = spec.batch_first,
                                   .no_bias = spec.no_bias};
    m->weights = calloc((size_t)layers * 2, sizeof *m->weights);
    if (!m->weights)
        hod__fail(HOD_ERROR_MEMORY, "%s: no memory", type);
    for (int layer = 0; layer < layers; layer++)
        for (int d = 0; d < (spec.bidirectional ? 2 : 1); d++)
            add_parameters(m, &spec, layer, d == 1);
    return hod_module_done(m);
}

hod_module *hod_nn_lstm_make(hod_module *parent, const char *name, hod_nn_rnn_spec spec)
{
    return make(parent, name, "lstm", spec);
}

hod_module *hod_nn_gru_make(hod_module *parent, const char *name, hod_nn_rnn_spec spec)
{
    return make(parent, name, "gru", spec);
}
