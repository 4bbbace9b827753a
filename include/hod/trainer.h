/* The trainer: the whole loop, one update a call, inside a memory budget.
 *
 *     hod_trainer *t = hod_trainer_new(net, classify,
 *         .effective_batch = 256, .memory_budget = HOD_MIB(96),
 *         .optimizer = hod_adamw(.lr = 1e-3, .weight_decay = 0.05),
 *         .schedule = hod_one_cycle(.epochs = 3, .warmup = 0.05), .clip_norm = 1.0);
 *     hod_print_plan(t, data, stdout);
 *     for (hod_update u; hod_trainer_step(t, data, &u);)
 *         printf("%lld  loss %.4f  |g| %.3f\n", (long long)u.index, u.loss, u.grad_norm);
 *     hod_save(net, "resnet.safetensors");
 *
 * An update is a window of `effective_batch` samples, cut into micro-batches. Gradients of the
 * losses' sums add up; one factor, 1 / sum of the losses' weights, makes them the gradient of the
 * mean. So the cut changes nothing but memory and time, as long as no layer mixes samples (batch
 * normalisation does, and says how). What is drawn at random depends on the seed, the window and
 * the sample, never on the cut.
 *
 * Without `micro_batch` the trainer takes the largest one whose peak is inside the budget. The
 * peak is known beforehand: parameters, gradients, optimizer state, the batch, and the planned
 * arena of the compiled step. Evaluating keeps below it. A loss that reads a value (hod_item)
 * breaks the step in two and is planned by trial steps. Functions return 0 or -1 unless they say
 * otherwise.
 */
#ifndef HOD_TRAINER_H
#define HOD_TRAINER_H

#include <hod/compile.h>
#include <hod/config.h>
#include <hod/data.h>
#include <hod/functional.h>
#include <hod/losses.h>
#include <hod/optim.h>
#include <hod/schedule.h>

/* Forward and loss of one micro-batch: (sum, weight), 0-d each. It is recorded, so it must be a
 * function of its arguments. It may be asked about a batch without values, for a plan. */
typedef hod_loss hod_loss_fn(hod_module *net, const hod_batch *b);
/* A figure for evaluation, as a sum and a weight: hod_accuracy is one. */
typedef hod_loss hod_metric_fn(hod_module *net, const hod_batch *b);

/* Zero means the default. */
typedef struct hod_trainer_spec {
    int64_t effective_batch; /* samples per update; required */
    int64_t memory_budget;   /* bytes of live tensors and arenas, as hod_memory().allocated counts
                                them; the allocator reserves a little more. 0: none */
    int64_t micro_batch;     /* 0: the largest that fits */
    hod_optimizer_spec optimizer; /* default: SGD with rate 0.1 */
    hod_schedule schedule; /* default: constant; epochs and totals as below where it has none */
    double clip_norm;      /* 0: no clipping */
    double ema;            /* decay of an average of the parameters; 0: the optimizer's */
    hod_window_choice last_window; /* of an epoch, when it is short: default flush */
    int64_t epochs;  /* default: the schedule's, or without end when `updates` is set, or 1 */
    int64_t updates; /* ends earlier after so many; 0: epochs alone decide */
    uint64_t seed;   /* of shuffling, augmentation and dropout */
    hod_compile_mode compile; /* default: compiled; HOD_COMPILE_EAGER: not */
    bool fullgraph;           /* a graph break is an error */
    bool in_order;            /* samples in the dataset's order */
    hod_loader_spec loader;   /* workers, ahead, timeout, crop, flip, mean, std: the rest is set */
    hod_metric_fn *metric;    /* default: hod_accuracy where the dataset has classes */
    char end_;
} hod_trainer_spec;

typedef struct hod_trainer hod_trainer;

/* Borrows net, which must outlive the trainer. NULL with an error on impossible settings. */
#define hod_trainer_new(net, ...) HOD_TRAINER_(net, __VA_ARGS__, .end_ = 0)
#define HOD_TRAINER_(net, loss, ...)                                                               \
    hod_trainer_make((hod_module *)(net), loss, (hod_trainer_spec){__VA_ARGS__})
HOD_API hod_trainer *hod_trainer_make(hod_module *net, hod_loss_fn *loss, hod_trainer_spec spec);
HOD_API void hod_trainer_free(hod_trainer *t); /* NULL is allowed */

/* ---- training ---- */

/* What one window did. */
typedef struct hod_update {
    int64_t index;   /* updates done, this one included: 1, 2, ... */
    int64_t epoch;   /* of the window, from 0 */
    int64_t samples; /* in the window */
    double weight;   /* sum of the losses' weights */
    double loss;     /* sum of the losses / weight */
    double lr;
    double grad_norm; /* before clipping */
    double scale;     /* of the loss, for small floats; 1 in f32 */
    bool skipped;     /* the gradient was not finite: nothing has changed, index included */
    int64_t micro_batch, micro_steps;
    double seconds; /* wall time, waiting for data included */
    double samples_per_s;
    int64_t peak_bytes; /* of the allocator, since the plan */
} hod_update;

/* The next window of `data`, which is kept from the first call on. True while there was one; false
 * at the end, when stopped, and after an error, which hod_error tells apart. */
HOD_API bool hod_trainer_step(hod_trainer *t, hod_dataset *data, hod_update *u);

/* Asks a running step to give its window up and return false; safe in a signal handler. The state
 * is that of the last update; the next step begins the window again. */
HOD_API void hod_trainer_stop(hod_trainer *t);
HOD_API bool hod_trainer_stopped(const hod_trainer *t); /* the last step gave up */

typedef struct hod_progress {
    int64_t updates, skipped; /* done */
    int64_t total;            /* windows in all; 0: without end */
    int64_t updates_per_epoch;
    int64_t epoch, sample; /* where the next window begins */
    int64_t samples;       /* trained on so far */
    double seconds;        /* in hod_trainer_step, since the trainer was made */
} hod_progress;
HOD_API hod_progress hod_trainer_progress(const hod_trainer *t);

/* ---- the plan ---- */

typedef struct hod_plan_row {
    int64_t micro_batch;
    int64_t accumulate; /* micro-batches in a window */
    int64_t predicted_peak_bytes;
    bool exact; /* from the memory plan; else extrapolated from two trial steps */
    bool fits, chosen;
} hod_plan_row;

enum { HOD_PLAN_ROWS = 40 };
typedef struct hod_plan {
    int64_t budget_bytes;     /* 0: none */
    int64_t persistent_bytes; /* parameters, gradients, optimizer state, buffers */
    int ranks;
    const char *recompute, *precision;
    int n, chosen;                    /* chosen: a row, -1 when none fits */
    hod_plan_row rows[HOD_PLAN_ROWS]; /* largest micro-batch first */
} hod_plan;

/* Every micro-batch that may be chosen, and its peak. Runs no update. Succeeds, too, when nothing
 * fits. */
HOD_API int hod_trainer_plan(hod_trainer *t, hod_dataset *data, hod_plan *plan);
HOD_API int hod_print_plan(hod_trainer *t, hod_dataset *data, FILE *out);

/* All that the first step would do first: plan, choose, compile. An error when nothing fits, with
 * the figures. */
HOD_API int hod_trainer_prepare(hod_trainer *t, hod_dataset *data);
HOD_API int64_t hod_trainer_micro_batch(const hod_trainer *t); /* chosen; 0 before that */
/* Bytes; 0 before, and for eager steps without a budget, which no one has measured. */
HOD_API int64_t hod_trainer_predicted_peak(const hod_trainer *t);

/* The compiled parts, for reports and for hod_fn_print. */
typedef enum hod_trainer_part { HOD_PART_ACCUMULATE, HOD_PART_UPDATE } hod_trainer_part;
HOD_API const hod_fn *hod_trainer_fn(const hod_trainer *t, hod_trainer_part part);
HOD_API hod_optimizer *hod_trainer_optimizer(hod_trainer *t);

/* ---- evaluation ---- */

typedef struct hod_evaluation {
    double loss;
    double metric; /* NaN when there is none */
    int64_t samples;
    double weight;
    double seconds;
} hod_evaluation;

/* One pass over `data` in evaluation mode, with the averaged parameters where there are any, in
 * the trainer's micro-batches. Training goes on afterwards as if nothing had been. */
HOD_API int hod_trainer_evaluate(hod_trainer *t, hod_dataset *data, hod_evaluation *out);

/* Share of samples whose largest logit is the target's: hod_call(net, input) gives (N, C), targets
 * are i64 (N); negative targets count for nothing. */
HOD_API hod_loss hod_accuracy(hod_module *net, const hod_batch *b);

/* ---- files ---- */

/* Everything that a continued run needs: parameters, buffers, optimizer state, averages, counters,
 * place in the data. The file is complete or not there. */
HOD_API int hod_trainer_save(hod_trainer *t, const char *path);
/* Before the first step. The settings may differ where that makes sense: budget, micro-batch,
 * compiled or not; seed and effective batch must be the file's. On failure nothing has changed. */
HOD_API int hod_trainer_load(hod_trainer *t, const char *path);
/* The same in a directory of numbered checkpoints, of which the `keep` newest stay (0: all). */
HOD_API int hod_trainer_checkpoint(hod_trainer *t, const char *dir, int keep);
/* From the newest one: 1, or 0 when there is none, or -1. */
HOD_API int hod_trainer_resume(hod_trainer *t, const char *dir);

/* The parameters and buffers of a network alone, as safetensors. */
HOD_API int hod_save(hod_module *net, const char *path);
/* From a file of hod_save or hod_trainer_save; names and shapes must agree, or nothing changes. */
HOD_API int hod_load(hod_module *net, const char *path);

#ifndef HOD_NO_PLACES
HOD_PLACED_RESULT(trainer, hod_trainer *)
HOD_PLACED_RESULT(bool, bool)
#define hod_trainer_make(...)       HOD_PLACED(trainer, hod_trainer_make(__VA_ARGS__))
#define hod_trainer_step(...)       HOD_PLACED(bool, hod_trainer_step(__VA_ARGS__))
#define hod_trainer_plan(...)       HOD_PLACED(int, hod_trainer_plan(__VA_ARGS__))
#define hod_print_plan(...)         HOD_PLACED(int, hod_print_plan(__VA_ARGS__))
#define hod_trainer_prepare(...)    HOD_PLACED(int, hod_trainer_prepare(__VA_ARGS__))
#define hod_trainer_evaluate(...)   HOD_PLACED(int, hod_trainer_evaluate(__VA_ARGS__))
#define hod_accuracy(...)           HOD_PLACED(loss, hod_accuracy(__VA_ARGS__))
#define hod_trainer_save(...)       HOD_PLACED(int, hod_trainer_save(__VA_ARGS__))
#define hod_trainer_load(...)       HOD_PLACED(int, hod_trainer_load(__VA_ARGS__))
#define hod_trainer_checkpoint(...) HOD_PLACED(int, hod_trainer_checkpoint(__VA_ARGS__))
#define hod_trainer_resume(...)     HOD_PLACED(int, hod_trainer_resume(__VA_ARGS__))
#define hod_save(...)               HOD_PLACED(int, hod_save(__VA_ARGS__))
#define hod_load(...)               HOD_PLACED(int, hod_load(__VA_ARGS__))
#endif

#endif
