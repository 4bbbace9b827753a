/* The inside of an optimizer, for the files of this layer. */
#ifndef HOD_OPTIM_OPTIM_H
#define HOD_OPTIM_OPTIM_H

#include "autograd/autograd.h"
#include <hod/functional.h>
#include <hod/optim.h>
#include <hod/rows.h>

typedef struct hod_optim_entry {
    char *name;
    hod_tensor *p; /* counted */
    bool decays;
    bool touched; /* had a gradient when the body of the update ran */
    bool by_rows; /* and it was row-sparse: stepped by the host when the body is done */
    int64_t step;
    int cohort;           /* index of its rates in this update */
    hod_tensor *state[2]; /* f32, or f64 for f64 parameters; NULL beyond the rule's */
    hod_tensor *ema;      /* NULL without */
} hod_optim_entry;

/* Parameters of one step count and decay share their rates. Each is a real 0-d f64 tensor that the
 * host writes before the update: an input of the compiled program, never a constant in it. */
enum { HOD_RATE, HOD_SHRINK, HOD_ROOT, HOD_RATES };
typedef struct hod_cohort {
    int64_t step; /* before the update */
    bool decays;
    hod_tensor *rate[HOD_RATES];
} hod_cohort;

struct hod_optimizer {
    uint64_t id; /* never used twice in a process */
    hod_optimizer_spec spec;
    hod_optim_entry *entries;
    int64_t n, cap;
    hod_cohort *cohorts;
    int64_t n_cohorts, cap_cohorts; /* n_cohorts: in use by this update; all have tensors */
    int64_t made_cohorts;
    hod_tensor *factor, *clip, *rows_square; /* () f64: written by the host */
    hod_tensor *norm, *ok, *coefficient;     /* () f64: written by the update */
};

/* What a rule computes from; everything in the type it computes in. */
typedef struct hod_step {
    const hod_optimizer_spec *spec;
    hod_tensor *p, *g; /* g: times factor, clipped */
    hod_tensor *const *state;
    hod_tensor *const *rate; /* HOD_RATES */
    bool decays;
} hod_step;

/* One kind of optimizer. */
typedef struct hod_optim_rule {
    const char *name;
    double lr;  /* default */
    bool betas; /* it has beta1, beta2 and eps, and else momentum and nesterov */
    const char *state_name[2];
    int (*states)(const hod_optimizer_spec *spec); /* how many are in use */
    /* The host's numbers for a parameter's step number `step` (1, 2, ...). */
    void (*rates)(const hod_optimizer_spec *spec, int64_t step, bool decays,
                  double rate[HOD_RATES]);
    /* The new parameter, and the new state into next[]. NULL on failure. */
    hod_tensor *(*step)(const hod_step *s, hod_tensor **next);
} hod_optim_rule;
extern const hod_optim_rule hod__optim_rules[HOD_OPTIMIZERS];

/* Row-sparse gradients: sums their rows, and the squares of all into rows_square. 0 or -1. */
int hod__rows_prepare(hod_optimizer *o);
/* Steps the rows of one parameter, with the update's coefficient. 0 or -1. */
int hod__rows_step(hod_optimizer *o, hod_optim_entry *e);
hod_dtype hod__optim_work_dtype(const hod_tensor *p); /* the type that p's step is computed in */

hod_tensor *hod__optim_scalar_new(double value); /* () f64, outside of scopes */
int hod__optim_scalar_set(hod_tensor *t, double value);
/* Sum of squares of all present gradients: () f64. NULL with none, or on failure. */
hod_tensor *hod__gradients_square_sum(hod_optimizer *o);

#endif
