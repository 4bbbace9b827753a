/* The inside of the trainer, for the files of this layer.
 *
 *     trainer.c       making, checking settings, meeting the data
 *     window.c        one update: micro-batches, then the optimizer
 *     planner.c       the peak of every micro-batch, and the choice
 *     evaluate.c      a pass without training
 *     trainer_file.c  checkpoints
 *     model_file.c    networks alone
 *
 * Invariants:
 *   N1  between two calls of hod_trainer_step no gradient is present, and the buffers of the
 *       network are those of the last update that counted
 *   N2  all of a window's programs share one arena; nothing else is allocated by a compiled step
 *       once every size of micro-batch has been seen
 *   N3  `at` is where the next window begins: a window that is given up leaves it alone
 */
#ifndef HOD_TRAIN_TRAIN_H
#define HOD_TRAIN_TRAIN_H

#include "autograd/autograd.h"
#include <hod/io.h>
#include <hod/trainer.h>
#include <signal.h>

typedef struct hod_plan_memo {
    int64_t micro, arena_bytes; /* micro 0: empty */
    bool exact;
} hod_plan_memo;

struct hod_trainer {
    hod_module *net; /* borrowed */
    hod_loss_fn *loss;
    hod_trainer_spec spec;
    hod_optimizer *optimizer;
    double base_lr;

    hod_arena *arena;
    hod_fn *accumulate, *update, *statistics, *evaluate;
    hod_tensor *loss_sum, *weight_sum; /* () f64: of the window so far */
    struct hod_evaluation_sums *evaluation;
    const hod_batch *batch; /* of the micro-batch that runs */
    bool has_statistics;    /* some module counts once per update */

    hod_dataset *data; /* counted; NULL until the first step */
    hod_loader *loader;
    hod_schedule schedule;            /* resolved */
    int64_t updates_per_epoch, total; /* total 0: without end */
    int64_t loaded_count; /* samples of the dataset a loaded file was made with; 0: none loaded */
    hod_position at;
    int64_t updates, skipped, samples;
    double seconds;

    int64_t micro; /* 0: not chosen yet */
    int64_t predicted_peak;
    int64_t persistent; /* bytes allocated before the first batch and arena; 0: not known */
    double probe_base, probe_slope; /* eager: a micro-step takes base + slope * micro bytes */
    double probe_update;            /* eager: bytes an update takes */
    bool probed;
    int64_t update_arena; /* bytes; -1: not prepared */
    hod_plan_memo memo[HOD_PLAN_ROWS];

    char *buffers; /* copy of the network's buffers at the beginning of the window */
    int64_t buffers_bytes;
    volatile sig_atomic_t stop;
    bool gave_up;
    bool broken; /* an update failed half-way: parameters may be of two updates */
};

/* -1 with an error when the trainer is broken. */
int hod__trainer_check(const hod_trainer *t);

/* Copies the network's buffers aside, and back. 0 or -1. */
int hod__trainer_buffers_save(hod_trainer *t);
int hod__trainer_buffers_restore(hod_trainer *t);
/* Marks all gradients absent and puts the buffers back: the window has not happened. */
int hod__trainer_window_discard(hod_trainer *t);
/* Sets a () f64 tensor. */
int hod__trainer_set(hod_tensor *t, double value);

/* Keeps the dataset, makes the loader, resolves the schedule; once. */
int hod__trainer_meet(hod_trainer *t, hod_dataset *data);
/* Takes the next smaller micro-batch after a failed allocation: 1, or 0 when there is none. -1 on
 * error. */
int hod__trainer_shrink(hod_trainer *t);
/* Gives up the programs' memory, so that the next arena is made to measure. */
int hod__trainer_new_arena(hod_trainer *t);

/* What a loader holds for a batch of n samples, bytes. */
int64_t hod__trainer_batch_bytes(const hod_dataset *d, int64_t n);
/* Records and plans f for n samples without running it: its arena in bytes, 0 when it would not
 * run as one program; -1 on error. */
int64_t hod__trainer_step_arena(hod_trainer *t, hod_fn *f, const hod_dataset *d, int64_t n);
/* A function of (input, target, index) or of nothing that shares the arena. */
hod_fn *hod__trainer_part_new(hod_trainer *t, hod_body body, int inputs, const char *name);
/* The loss of the batch that runs, with other tensors: input, target, index. */
hod_loss hod__trainer_loss_of(hod_trainer *t, hod_tensor *const *in);
/* sum += value, both single values; no gradient flows. 0 or -1. */
int hod__trainer_add(hod_tensor *sum, hod_tensor *value);
hod_tensor *hod__trainer_sum_new(void);          /* () f64, 0, outside of scopes */
int hod__trainer_evaluation_new(hod_trainer *t); /* what an evaluation adds up in. 0 or -1 */
void hod__trainer_evaluation_free(hod_trainer *t);

/* Names and tensors for a file, in a block that hod__names_free frees. */
typedef struct hod_names {
    hod_named_tensor *items;
    int64_t n, cap;
} hod_names;
/* Adds prefix + name. 0 or -1. */
int hod__names_add(hod_names *l, const char *prefix, const char *name, hod_tensor *tensor);
/* Adds what a saved model consists of: parameters, and buffers that are not transient. */
int hod__names_add_module(hod_names *l, hod_module *net);
void hod__names_free(hod_names *l);

/* One forward and backward over the batch, added to the window's sums. */
int hod__trainer_micro_step(hod_trainer *t, const hod_batch *b);
/* Bodies of the compiled functions. */
int hod__trainer_accumulate_body(void *job, hod_tensor *const *in, hod_tensor **out);
int hod__trainer_update_body(void *job, hod_tensor *const *in, hod_tensor **out);
int hod__trainer_statistics_body(void *job, hod_tensor *const *in, hod_tensor **out);

#endif
