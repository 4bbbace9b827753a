/* Recurrent layers and CTC over sequences, forward, and both ways. */
#include "bench/ops/family.h"

enum { LAYERS = 2, DIRECTIONS = 2 };

/* x (t,n,in); weights of one layer, and of two layers in both directions, leaves with `l`. */
typedef struct operands {
    hod_tensor *x, *lx, *lengths;
    hod_rnn_weights lstm[LAYERS * DIRECTIONS], gru[LAYERS * DIRECTIONS];
    hod_rnn_weights llstm[LAYERS * DIRECTIONS], lgru[LAYERS * DIRECTIONS];
    hod_tensor *logits, *llogits, *target, *frames, *labels;
} operands;

static hod_tensor *leaf(hod_tensor *t)
{
    return hod_requires_grad(hod_copy(t), true);
}

static int weights(int64_t gates, int64_t in, int64_t hidden, hod_rnn_weights *w,
                   hod_rnn_weights *leaves)
{
    double bound = 1 / __builtin_sqrt((double)hidden);
    for (int k = 0; k < LAYERS * DIRECTIONS; k++) {
        int64_t g = gates * hidden, i = k < DIRECTIONS ? in : DIRECTIONS * hidden;
        w[k] = (hod_rnn_weights){op_uniform(HOD_SHAPE(g, i), -bound, bound),
                                 op_uniform(HOD_SHAPE(g, hidden), -bound, bound),
                                 op_uniform(HOD_SHAPE(g), -bound, bound),
                                 op_uniform(HOD_SHAPE(g), -bound, bound)};
        leaves[k] =
            (hod_rnn_weights){leaf(w[k].w_ih), leaf(w[k].w_hh), leaf(w[k].b_ih), leaf(w[k].b_hh)};
    }
    return hod_error_kind_pending() == HOD_ERROR_NONE ? 0 : -1;
}

static int make(int size, operands *o)
{
    int64_t t = (int64_t[]){16, 32, 64}[size], n = (int64_t[]){4, 16, 32}[size];
    int64_t in = (int64_t[]){32, 128, 256}[size], hidden = (int64_t[]){32, 128, 256}[size];
    int64_t classes = (int64_t[]){20, 40, 80}[size], labels = t / 4;
    *o = (operands){.x = op_uniform(HOD_SHAPE(t, n, in), -1, 1),
                    .logits = op_uniform(HOD_SHAPE(t, n, classes), -3, 3)};
    /* From t down, as packed sequences are sorted: sample i has t - i t / (2 n). */
    hod_tensor *i = hod_mul_scalar(hod_arange(HOD_I64, n), (double)t);
    o->lengths = hod_sub(hod_full(HOD_I64, HOD_SHAPE(n), (double)t),
                         hod_floor_divide(i, hod_full(HOD_I64, HOD_SHAPE(), (double)(2 * n))));
    o->lx = leaf(o->x);
    o->llogits = leaf(o->logits);
    o->target = hod_cast(op_uniform(HOD_SHAPE(n, labels), 1, (double)classes), HOD_I64);
    o->frames = hod_full(HOD_I64, HOD_SHAPE(n), (double)t);
    o->labels = hod_full(HOD_I64, HOD_SHAPE(n), (double)labels);
    return o->lengths && o->target && o->frames && o->labels &&
                   weights(4, in, hidden, o->lstm, o->llstm) == 0 &&
                   weights(3, in, hidden, o->gru, o->lgru) == 0
               ? 0
               : -1;
}

/* Gradients for x and every parameter of n layers and directions. */
static hod_tensor *gradients(const operands *o, hod_tensor *y, const hod_rnn_weights *w, int n)
{
    hod_tensor *inputs[1 + 4 * LAYERS * DIRECTIONS], *g[1 + 4 * LAYERS * DIRECTIONS];
    inputs[0] = o->lx;
    for (int k = 0; k < n; k++) {
        hod_tensor *each[] = {w[k].w_ih, w[k].w_hh, w[k].b_ih, w[k].b_hh};
        for (int j = 0; j < 4; j++)
            inputs[1 + 4 * k + j] = each[j];
    }
    return hod_grad_of(y, 1 + 4 * n, inputs, g, hod_full_like(y, 1)) == 0 ? g[0] : NULL;
}

#define DEEP .layers = LAYERS, .bidirectional = true

#define OPS(ROW)                                                                                   \
    ROW(lstm, hod_lstm(o->x, o->lstm).y)                                                           \
    ROW(lstm_grad, gradients(o, hod_lstm(o->lx, o->llstm).y, o->llstm, 1))                         \
    ROW(lstm_deep, hod_lstm(o->x, o->lstm, DEEP).y)                                                \
    ROW(lstm_deep_grad, gradients(o, hod_lstm(o->lx, o->llstm, DEEP).y, o->llstm, 4))              \
    ROW(lstm_packed, hod_lstm(o->x, o->lstm, .lengths = o->lengths).y)                             \
    ROW(lstm_packed_grad,                                                                          \
        gradients(o, hod_lstm(o->lx, o->llstm, .lengths = o->lengths).y, o->llstm, 1))             \
    ROW(gru, hod_gru(o->x, o->gru).y)                                                              \
    ROW(gru_grad, gradients(o, hod_gru(o->lx, o->lgru).y, o->lgru, 1))                             \
    ROW(gru_deep, hod_gru(o->x, o->gru, DEEP).y)                                                   \
    ROW(gru_deep_grad, gradients(o, hod_gru(o->lx, o->lgru, DEEP).y, o->lgru, 4))                  \
    ROW(gru_packed, hod_gru(o->x, o->gru, .lengths = o->lengths).y)                                \
    ROW(gru_packed_grad,                                                                           \
        gradients(o, hod_gru(o->lx, o->lgru, .lengths = o->lengths).y, o->lgru, 1))                \
    ROW(ctc, hod_ctc(hod_log_softmax(o->logits, 2), o->target, o->frames, o->labels).sum)          \
    ROW(ctc_grad,                                                                                  \
        op_gradients(hod_ctc(hod_log_softmax(o->llogits, 2), o->target, o->frames, o->labels).sum, \
                     1, &(hod_tensor *){o->llogits}))

OP_FAMILY(recurrent, OPS, "16 x 4 x 32", "32 x 16 x 128", "64 x 32 x 256")
