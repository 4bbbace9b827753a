/* Recurrent layers: LSTM and GRU, stacked, in both directions, over sequences of different lengths.
 *
 *     hod_rnn_weights w = {w_ih, w_hh, b_ih, b_hh};                 // of one layer, one direction
 *     hod_rnn r = hod_lstm(x, &w);                                  // x: (T,N,I)
 *     hod_tensor *last = hod_select(r.h, 0, 0);                     // (N,H)
 *
 *     hod_module *m = hod_nn_lstm(net, "lstm", 64, 128, .layers = 2, .bidirectional = true);
 *     hod_rnn s = hod_nn_rnn(m, x, .lengths = n);                   // s.y, s.h, s.c
 *     hod_tensor *y = hod_call(m, x);                               // y alone
 *
 * Weights, biases and the order of gates are PyTorch's, so that they can be exchanged: i f g o of
 * an LSTM; r z n of a GRU, with the reset gate on W_hn h + b_hn. Each layer and direction is one
 * operator over all steps. Differentiable once.
 */
#ifndef HOD_RNN_H
#define HOD_RNN_H

#include <hod/nn.h>
#include <hod/tensor.h>

/* Of one layer in one direction; G is 4H for LSTM, 3H for GRU; I of layers above the first is H,
 * or 2H when they are bidirectional. */
typedef struct hod_rnn_weights {
    hod_tensor *w_ih, *w_hh; /* (G,I), (G,H) */
    hod_tensor *b_ih, *b_hh; /* (G) */
} hod_rnn_weights;

typedef struct hod_rnn_options {
    int layers;          /* 0: 1 */
    bool bidirectional;  /* weights: forward and reverse of a layer follow each other */
    bool batch_first;    /* x and y are (N,T,...) */
    bool no_bias;        /* b_ih and b_hh are not read */
    double dropout;      /* of each layer's output but the last's */
    hod_tensor *lengths; /* integers (N), 0..T: steps of each sample; absent: T. y is 0 beyond */
    hod_tensor *h, *c;   /* initial states (layers * directions,N,H); absent: 0 */
    int end_;
} hod_rnn_options;

typedef struct hod_rnn {
    hod_tensor *y; /* (T,N,H), bidirectional (T,N,2H): forward, then reverse */
    hod_tensor *h,
        *c; /* (layers * directions,N,H) after each sample's last step; c of a GRU: NULL */
} hod_rnn;  /* all NULL after an error */

/* x (T,N,I), or (T,I) without batch: then y, h and c have none either. w: one for each layer and
 * direction. As with losses, a tensor left NULL is absent, and nothing is done while an error is
 * pending. */
HOD_API hod_rnn hod_lstm_with(hod_tensor *x, const hod_rnn_weights *w, hod_rnn_options o);
HOD_API hod_rnn hod_gru_with(hod_tensor *x, const hod_rnn_weights *w, hod_rnn_options o);
#define hod_lstm(x, ...)              HOD_RNN_(hod_lstm_with, x, __VA_ARGS__, .end_ = 0)
#define hod_gru(x, ...)               HOD_RNN_(hod_gru_with, x, __VA_ARGS__, .end_ = 0)
#define HOD_RNN_(function, x, w, ...) function(x, w, (hod_rnn_options){__VA_ARGS__})

/* ---- modules ---- */

typedef struct hod_nn_rnn_spec {
    int64_t in, hidden;
    int layers; /* 0: 1 */
    bool bidirectional, batch_first, no_bias;
    double dropout; /* between layers, in training */
    char end_;
} hod_nn_rnn_spec;
/* Parameters weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_ih_l0_reverse, ..., drawn
 * within 1 / sqrt(hidden). hod_call gives y. */
#define hod_nn_lstm(parent, name, ...)                                                             \
    hod_nn_lstm_make((hod_module *)(parent), name, (hod_nn_rnn_spec){__VA_ARGS__, .end_ = 0})
#define hod_nn_gru(parent, name, ...)                                                              \
    hod_nn_gru_make((hod_module *)(parent), name, (hod_nn_rnn_spec){__VA_ARGS__, .end_ = 0})
HOD_API hod_module *hod_nn_lstm_make(hod_module *parent, const char *name, hod_nn_rnn_spec spec);
HOD_API hod_module *hod_nn_gru_make(hod_module *parent, const char *name, hod_nn_rnn_spec spec);

/* Runs such a module with lengths or initial states; what the module decides is ignored here. */
HOD_API hod_rnn hod_nn_rnn_call(hod_module *m, hod_tensor *x, hod_rnn_options o);
#define hod_nn_rnn(m, ...)     HOD_NN_RNN_(m, __VA_ARGS__, .end_ = 0)
#define HOD_NN_RNN_(m, x, ...) hod_nn_rnn_call((hod_module *)(m), x, (hod_rnn_options){__VA_ARGS__})

#ifndef HOD_NO_PLACES
HOD_PLACED_RESULT(rnn, hod_rnn)
#define hod_lstm_with(...)    HOD_OPERATOR(rnn, lstm_with, __VA_ARGS__)
#define hod_gru_with(...)     HOD_OPERATOR(rnn, gru_with, __VA_ARGS__)
#define hod_nn_rnn_call(...)  HOD_PLACED(rnn, hod_nn_rnn_call(__VA_ARGS__))
#define hod_nn_lstm_make(...) HOD_PLACED(module, hod_nn_lstm_make(__VA_ARGS__))
#define hod_nn_gru_make(...)  HOD_PLACED(module, hod_nn_gru_make(__VA_ARGS__))
#endif

#endif
