/* LSTM and GRU. */
#include "golden.h"
#include <hod/rnn.h>

static int recurrent(gold *c, bool lstm)
{
    hod_tensor *t[GOLD_MAX_TENSORS], *state[2] = {NULL, NULL};
    hod_rnn_weights w[GOLD_MAX_TENSORS / 2];
    int n = gold_tensors(c, "weights", t);
    hod_rnn_options o = {.layers = (int)INT(num_layers, 1),
                         .bidirectional = FLAG(bidirectional, false),
                         .batch_first = FLAG(batch_first, false)};
    int each = n / (o.layers * (o.bidirectional ? 2 : 1));
    o.no_bias = each == 2;
    for (int k = 0; k < n / each; k++)
        w[k] = (hod_rnn_weights){t[k * each], t[k * each + 1], each == 4 ? t[k * each + 2] : NULL,
                                 each == 4 ? t[k * each + 3] : NULL};
    if (HAS(hx))
        gold_tensors(c, "hx", state);
    o.h = state[0];
    o.c = lstm ? state[1] : NULL;
    if (HAS(lengths)) {
        int64_t v[GOLD_MAX_TENSORS];
        int samples = (int)json_array_size(gold_json(c, "lengths"));
        gold_ints(c, "lengths", samples, v, 0);
        o.lengths = hod_from_ints(v, HOD_SHAPE(samples));
    }
    hod_rnn r = lstm ? hod_lstm_with(T(input), w, o) : hod_gru_with(T(input), w, o);
    return gold_many(c, lstm ? 3 : 2, (hod_tensor *[]){r.y, r.h, r.c});
}

static int bind_lstm(gold *c)
{
    return recurrent(c, true);
}

static int bind_gru(gold *c)
{
    return recurrent(c, false);
}

#define ONCE      "differentiable once"
#define NO_SPREAD "shapes follow from T, N, I, H"

/* f32: gradients are sums over steps and samples. */
static const gold_binding rows[] = {
    ROW("lstm", bind_lstm, .f32 = 1e-5,
        .empty = {[GOLD_GRADGRADCHECK] = ONCE, [GOLD_BROADCAST] = NO_SPREAD}),
    ROW("gru", bind_gru, .f32 = 1e-5,
        .empty = {[GOLD_GRADGRADCHECK] = ONCE, [GOLD_BROADCAST] = NO_SPREAD}),
};
GOLD_FAMILY(rnn, 120, 120)
