/* Optimizers: SGD, Adam and AdamW as PyTorch computes them, gradient clipping, EMA.
 *
 *     hod_optimizer *opt = hod_optimizer_new(net, hod_adamw(.lr = 1e-3, .weight_decay = 0.05));
 *     for (...) {
 *         hod_backward(loss.sum);                       // any number of micro-batches
 *         hod_update_result r;
 *         hod_update(opt, &r, .factor = 1 / weight, .clip_norm = 1.0);
 *     }
 *     hod_optimizer_free(opt);
 *
 * One update does, in this order: gradients times `factor` (1 / sum of weights, and the gradient
 * scaler's 1 / scale), norm, finite check, clip, step, EMA; then every gradient is marked absent,
 * of those parameters that were not frozen when the optimizer was made: it knows no others. A
 * window with a NaN or Inf in it changes nothing at all and is counted as skipped. A parameter
 * without a gradient is left alone, state included.
 */
#ifndef HOD_OPTIM_H
#define HOD_OPTIM_H

#include <hod/nn.h>

typedef enum hod_optimizer_kind {
    HOD_SGD,
    HOD_ADAM,  /* weight decay is added to the gradient */
    HOD_ADAMW, /* weight decay shrinks the parameter before the step */
    HOD_OPTIMIZERS
} hod_optimizer_kind;

/* Which kinds of parameters decay besides weights. */
enum hod_decay_flags {
    HOD_DECAY_BIAS = 1 << 0,
    HOD_DECAY_NORM = 1 << 1, /* gains and offsets of normalisations */
    HOD_DECAY_ALL = HOD_DECAY_BIAS | HOD_DECAY_NORM,
};

/* Zero means the default. What a kind does not use is refused, not ignored. */
typedef struct hod_optimizer_spec {
    hod_optimizer_kind kind;
    double lr; /* SGD 0.1, Adam and AdamW 1e-3 */
    double weight_decay;
    double momentum; /* SGD */
    bool nesterov;   /* SGD, with momentum */
    double beta1;    /* Adam and AdamW; 0.9 */
    double beta2;    /* the same; 0.999 */
    double eps;      /* the same; 1e-8 */
    bool no_eps;     /* the same; eps is 0 */
    uint32_t decay;  /* hod_decay_flags; default: weights only */
    double ema;      /* decay of an exponential moving average of the parameters; 0: none */
    char end_;
} hod_optimizer_spec;

#define hod_sgd(...)   ((hod_optimizer_spec){.kind = HOD_SGD, __VA_ARGS__})
#define hod_adam(...)  ((hod_optimizer_spec){.kind = HOD_ADAM, __VA_ARGS__})
#define hod_adamw(...) ((hod_optimizer_spec){.kind = HOD_ADAMW, __VA_ARGS__})

typedef struct hod_optimizer hod_optimizer;

/* An optimizer of the parameters below `m` that require a gradient now; tied ones count once.
 * Borrows m, which must outlive it. NULL on failure. */
HOD_API hod_optimizer *hod_optimizer_new(hod_module *m, hod_optimizer_spec spec);
HOD_API void hod_optimizer_free(hod_optimizer *o);                         /* NULL is allowed */
HOD_API hod_optimizer_spec hod_optimizer_settings(const hod_optimizer *o); /* defaults filled in */

HOD_API void hod_optimizer_set_lr(hod_optimizer *o, double lr);
HOD_API double hod_optimizer_lr(const hod_optimizer *o);
/* Overrides whether one parameter decays, by its full name. 0, or -1 when there is none. */
HOD_API int hod_optimizer_set_decay(hod_optimizer *o, const char *name, bool decays);

/* What the optimizer knows about one parameter, for listing and for checkpoints. */
typedef struct hod_optimizer_entry {
    const char *name; /* full */
    hod_tensor *parameter;
    bool decays;
    int64_t step;              /* updates that changed it */
    int n_state;               /* 0 to 2 */
    const char *state_name[2]; /* "momentum_buffer"; "exp_avg", "exp_avg_sq" */
    hod_tensor *state[2];
    hod_tensor *ema; /* NULL without EMA */
} hod_optimizer_entry;
HOD_API int64_t hod_optimizer_count(const hod_optimizer *o);
HOD_API hod_optimizer_entry hod_optimizer_at(const hod_optimizer *o, int64_t i);
/* Sets the step count of entry i, after its state was loaded. */
HOD_API void hod_optimizer_set_step(hod_optimizer *o, int64_t i, int64_t step);
/* Parameters, one a line: "no decay  layer1.bias  (64)". */
HOD_API void hod_optimizer_print(const hod_optimizer *o, FILE *out);

/* ---- one update ---- */

typedef struct hod_update_spec {
    double factor;       /* of the gradients; 0: 1 */
    hod_tensor *weight;  /* if set: 0-d, the gradients are divided by it, too */
    double clip_norm;    /* 0: no clipping */
    bool keep_gradients; /* do not mark them absent */
    char end_;
} hod_update_spec;

typedef struct hod_update_result {
    bool skipped;     /* not finite: nothing changed */
    double grad_norm; /* of the gradients times factor, before clipping */
    int64_t present;  /* parameters that had a gradient */
} hod_update_result;

/* hod_update(opt, &result, .factor = 1 / weight, .clip_norm = 1.0). result may be NULL. 0 or -1;
 * a skipped update is a value, not an error. */
#define hod_update(o, ...)          HOD_UPDATE_(o, __VA_ARGS__, .end_ = 0)
#define HOD_UPDATE_(o, result, ...) hod_update_make(o, &(hod_update_spec){__VA_ARGS__}, result)
HOD_API int hod_update_make(hod_optimizer *o, const hod_update_spec *spec,
                            hod_update_result *result);
/* hod_update_all(opt, .clip_norm = 1.0): when the result does not matter. */
#define hod_update_all(...)     HOD_UPDATE_ALL_(__VA_ARGS__, .end_ = 0)
#define HOD_UPDATE_ALL_(o, ...) hod_update_make(o, &(hod_update_spec){__VA_ARGS__}, NULL)

/* The same in three parts, for a window that is compiled as one program: prepare sets the inputs
 * (rates, bias corrections, factor) and is called before the program, body is operators only and
 * can be recorded, finish reads what came of it and counts. The same spec goes to all three; its
 * weight matters to body alone. 0 or -1 each. */
HOD_API int hod_update_prepare(hod_optimizer *o, const hod_update_spec *spec);
HOD_API int hod_update_body(hod_optimizer *o, const hod_update_spec *spec);
HOD_API int hod_update_finish(hod_optimizer *o, const hod_update_spec *spec,
                              hod_update_result *result);

/* ---- by hand ---- */

/* Multiplies every present gradient in place. 0 or -1. */
HOD_API int hod_gradients_scale(hod_optimizer *o, double factor);
/* The global norm of the present gradients; found even where its square overflows. NaN after an
 * error. */
HOD_API double hod_gradients_norm(hod_optimizer *o);
/* Scales the present gradients in place to a norm of at most max_norm. *norm (may be NULL) is what
 * it was. -1, and nothing modified, when it is not finite. */
HOD_API int hod_gradients_clip(hod_optimizer *o, double max_norm, double *norm);

/* ---- the gradient scaler of fp16 ---- */

/* Losses are multiplied by `scale` before backward and the update's factor is divided by it, so
 * gradients are unscaled exactly once. A value like any other: to save it, save its fields. */
typedef struct hod_scaler {
    double scale;     /* 0: 65536 */
    double growth;    /* 0: 2 */
    double backoff;   /* 0: 0.5 */
    int64_t interval; /* good updates in a row before the scale grows; 0: 2000 */
    int64_t good;     /* how many so far */
} hod_scaler;
#define hod_scaler_of(...) hod_scaler_fill((hod_scaler){__VA_ARGS__})
HOD_API hod_scaler hod_scaler_fill(hod_scaler s); /* zeros become the defaults */
/* After each update; a skipped one shrinks the scale. It stays within 2^-126 and 2^127. */
HOD_API void hod_scaler_update(hod_scaler *s, bool skipped);

/* ---- EMA ---- */

/* Exchanges parameters and their averages, for evaluating or saving; call it again to go back. */
HOD_API int hod_optimizer_swap_ema(hod_optimizer *o);

#ifndef HOD_NO_PLACES
HOD_PLACED_RESULT(optimizer, hod_optimizer *)
#define hod_optimizer_new(...)       HOD_PLACED(optimizer, hod_optimizer_new(__VA_ARGS__))
#define hod_optimizer_set_lr(...)    HOD_PLACED_VOID(hod_optimizer_set_lr(__VA_ARGS__))
#define hod_optimizer_set_decay(...) HOD_PLACED(int, hod_optimizer_set_decay(__VA_ARGS__))
#define hod_update_make(...)         HOD_PLACED(int, hod_update_make(__VA_ARGS__))
#define hod_update_prepare(...)      HOD_PLACED(int, hod_update_prepare(__VA_ARGS__))
#define hod_update_body(...)         HOD_PLACED(int, hod_update_body(__VA_ARGS__))
#define hod_update_finish(...)       HOD_PLACED(int, hod_update_finish(__VA_ARGS__))
#define hod_gradients_scale(...)     HOD_PLACED(int, hod_gradients_scale(__VA_ARGS__))
#define hod_gradients_norm(...)      HOD_PLACED(double, hod_gradients_norm(__VA_ARGS__))
#define hod_gradients_clip(...)      HOD_PLACED(int, hod_gradients_clip(__VA_ARGS__))
#define hod_optimizer_swap_ema(...)  HOD_PLACED(int, hod_optimizer_swap_ema(__VA_ARGS__))
#endif

#endif
