/* Schedules: the learning rate as a function of the number of updates done.
 *
 *     hod_schedule s = hod_one_cycle(.total = 1000, .warmup = 0.05);
 *     double lr = base_lr * hod_schedule_factor(&s, update);   // update = 0, 1, 2, ...
 *
 * A schedule is a value without state: nothing to advance, nothing to save, nothing to get out of
 * step with skipped updates. It counts updates, never micro-batches.
 */
#ifndef HOD_SCHEDULE_H
#define HOD_SCHEDULE_H

#include <hod/error.h>
#include <stdint.h>

typedef enum hod_schedule_kind {
    HOD_SCHEDULE_CONSTANT,
    HOD_SCHEDULE_STEP,      /* gamma ^ floor(update / every) */
    HOD_SCHEDULE_COSINE,    /* from 1 to `final` along half a cosine */
    HOD_SCHEDULE_ONE_CYCLE, /* up to 1 along half a cosine, then down to nearly 0 along another */
} hod_schedule_kind;

/* Zero means the default. `total` and `every` may be given in epochs instead, for whoever knows how
 * many updates an epoch has (hod_schedule_resolve). */
typedef struct hod_schedule {
    hod_schedule_kind kind;
    int64_t total;    /* updates in all; cosine and one-cycle need it (or epochs) */
    double epochs;    /* the same in epochs */
    double warmup;    /* linear warm-up in front: updates when >= 1, else a share of total;
                             one-cycle: the rising share, default 0.3 */
    int64_t every;    /* step: updates between two steps */
    double gamma;     /* step: factor, default 0.1 */
    double final;     /* cosine: last factor, default 0 */
    double div;       /* one-cycle: starts at 1 / div, default 25 */
    double final_div; /* one-cycle: ends at 1 / (div * final_div), default 1e4 */
    char end_;
} hod_schedule;

#define hod_constant_rate(...) ((hod_schedule){.kind = HOD_SCHEDULE_CONSTANT, __VA_ARGS__})
#define hod_step_schedule(...) ((hod_schedule){.kind = HOD_SCHEDULE_STEP, __VA_ARGS__})
#define hod_cosine(...)        ((hod_schedule){.kind = HOD_SCHEDULE_COSINE, __VA_ARGS__})
#define hod_one_cycle(...)     ((hod_schedule){.kind = HOD_SCHEDULE_ONE_CYCLE, __VA_ARGS__})

/* Turns epochs into updates and checks every number. 0, or -1 with what is impossible. */
HOD_API int hod_schedule_resolve(hod_schedule *s, int64_t updates_per_epoch);

/* The factor of the base rate for update 0, 1, 2, ...; past the end the last one stays. NaN, with
 * the reason, for a schedule that hod_schedule_resolve would refuse. */
HOD_API double hod_schedule_factor(const hod_schedule *s, int64_t update);

HOD_API const char *hod_schedule_name(hod_schedule_kind kind); /* "onecycle" */

#ifndef HOD_NO_PLACES
#define hod_schedule_resolve(...) HOD_PLACED(int, hod_schedule_resolve(__VA_ARGS__))
#endif

#endif
