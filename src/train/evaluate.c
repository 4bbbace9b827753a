/* A pass over a dataset without training: mean loss and one metric.
 *
 * It runs in the arena that training has. The training loader gives its batch back meanwhile, and
 * the pass takes batches with which it stays below the peak that was predicted for training, so
 * evaluating in the middle of a run does not raise it. Sums are f64 on the device; the host reads
 * them once, at the end.
 */
#include "train/train.h"
#include <hod/memory.h>
#include <math.h>

hod_loss hod_accuracy(hod_module *net, const hod_batch *b)
{
    hod_tensor *logits = hod_call(net, b->input); /* (N, C) */
    hod_tensor *counts = hod_ge_scalar(b->target, 0);
    hod_tensor *right = hod_logical_and(hod_eq(hod_argmax(logits, 1), b->target), counts);
    hod_loss share = {hod_sum(hod_cast(right, HOD_F32)), hod_sum(hod_cast(counts, HOD_F32))};
    return share.sum && share.weight ? share : (hod_loss){NULL, NULL};
}

static hod_metric_fn *metric_of(const hod_trainer *t, const hod_dataset *data)
{
    return t->spec.metric ? t->spec.metric : hod_dataset_classes(data) > 0 ? hod_accuracy : NULL;
}

/* What the pass is about; the body finds it through the trainer. */
struct hod_evaluation_sums {
    hod_metric_fn *metric;                                  /* NULL: none */
    hod_tensor *loss, *weight, *metric_sum, *metric_weight; /* () f64 */
};

static int evaluate_body(void *job, hod_tensor *const *in, hod_tensor **out)
{
    hod_trainer *t = job;
    struct hod_evaluation_sums *e = t->evaluation;
    (void)out;
    HOD_NO_GRAD(n);
    hod_loss l = hod__trainer_loss_of(t, in);
    if (!l.sum || hod__trainer_add(e->loss, l.sum) != 0 ||
        hod__trainer_add(e->weight, l.weight) != 0)
        return -1;
    if (!e->metric)
        return 0;
    hod_batch b = {in[0], in[1], in[2], t->batch->n, t->batch->epoch, t->batch->first};
    hod_loss m = e->metric(t->net, &b);
    return hod__trainer_add(e->metric_sum, m.sum) == 0 &&
                   hod__trainer_add(e->metric_weight, m.weight) == 0
               ? 0
               : -1;
}

/* ---- evaluation mode, and back ---- */

static int64_t count_modules(const hod_module *m)
{
    int64_t n = 1;
    for (int64_t i = 0; i < m->n_children; i++)
        n += count_modules(m->children[i]);
    return n;
}

/* Exchanges the tree's `training` with the flags, in order; returns the flags behind the last. */
static bool *exchange_modes(hod_module *m, bool *flags)
{
    bool now = m->training;
    m->training = *flags;
    *flags++ = now;
    for (int64_t i = 0; i < m->n_children; i++)
        flags = exchange_modes(m->children[i], flags);
    return flags;
}

/* ---- the size of a batch ---- */

/* The largest micro-batch, at most the trainer's, with which the pass stays inside the predicted
 * peak, or before there is one inside the budget; 1 when none does. -1 on error. */
static int64_t choose_micro(hod_trainer *t, const hod_dataset *data)
{
    int64_t most = t->micro              ? t->micro
                   : t->spec.micro_batch ? t->spec.micro_batch
                                         : t->spec.effective_batch;
    int64_t limit = t->micro ? t->predicted_peak : t->spec.memory_budget;
    if (t->spec.compile == HOD_COMPILE_EAGER || limit == 0)
        return t->micro ? most : HOD_MIN(most, 64);
    int64_t held = t->persistent ? t->persistent : hod_memory().allocated;
    int64_t arena_now = hod_arena_bytes(t->arena);
    for (int64_t m = most; m > 1; m = (m + 1) / 2) {
        int64_t arena = hod__trainer_step_arena(t, t->evaluate, data, m);
        if (arena < 0)
            return -1;
        arena = HOD_MAX(arena, arena_now);
        if (held + hod__trainer_batch_bytes(data, m) + arena <= limit)
            return m;
    }
    return 1;
}

/* ---- the pass ---- */

static int pass(hod_trainer *t, hod_loader *l, int64_t micro, hod_evaluation *out)
{
    struct hod_evaluation_sums *e = t->evaluation;
    hod_batch b;
    int rc;
    while ((rc = hod_loader_next(l, micro, &b)) == 1) {
        HOD_SCOPE(s);
        t->batch = &b;
        rc = hod_random_begin(t->spec.seed, 0, b.index);
        if (rc == 0)
            rc = hod_fn_call(t->evaluate, (hod_tensor *[]){b.input, b.target, b.index}, NULL);
        t->batch = NULL;
        hod_random_begin(t->spec.seed, 0, NULL);
        if (rc != 0)
            return -1;
        out->samples += b.n;
    }
    if (rc != 0)
        return -1;
    out->weight = hod_item(e->weight);
    out->loss = hod_item(e->loss) / out->weight;
    out->metric = e->metric ? hod_item(e->metric_sum) / hod_item(e->metric_weight) : NAN;
    return 0;
}

static int evaluate(hod_trainer *t, hod_dataset *data, hod_evaluation *out)
{
    if (!t->evaluate && !(t->evaluate = hod__trainer_part_new(t, evaluate_body, 3, "evaluate")))
        return -1;
    int64_t micro = choose_micro(t, data);
    if (micro < 1)
        return -1;
    hod_loader_spec spec = {.dataset = data,
                            .workers = t->spec.loader.workers,
                            .ahead = t->spec.loader.ahead,
                            .timeout = t->spec.loader.timeout};
    memcpy(spec.mean, t->spec.loader.mean, sizeof spec.mean);
    memcpy(spec.std, t->spec.loader.std, sizeof spec.std);
    hod_loader *l = hod_loader_make(spec);
    int rc = l ? pass(t, l, micro, out) : -1;
    hod_loader_free(l);
    return rc;
}

int hod__trainer_evaluation_new(hod_trainer *t)
{
    struct hod_evaluation_sums *e = t->evaluation = hod__alloc(1, sizeof *e);
    return e && (e->loss = hod__trainer_sum_new()) && (e->weight = hod__trainer_sum_new()) &&
                   (e->metric_sum = hod__trainer_sum_new()) &&
                   (e->metric_weight = hod__trainer_sum_new())
               ? 0
               : -1;
}

static int sums_begin(hod_trainer *t)
{
    struct hod_evaluation_sums *e = t->evaluation;
    hod_tensor *sums[] = {e->loss, e->weight, e->metric_sum, e->metric_weight};
    for (int i = 0; i < HOD_COUNT(sums); i++)
        if (hod__trainer_set(sums[i], 0) != 0)
            return -1;
    return 0;
}

void hod__trainer_evaluation_free(hod_trainer *t)
{
    struct hod_evaluation_sums *e = t->evaluation;
    if (!e)
        return;
    hod_tensor_release(e->loss);
    hod_tensor_release(e->weight);
    hod_tensor_release(e->metric_sum);
    hod_tensor_release(e->metric_weight);
    free(e);
    t->evaluation = NULL;
}

int hod_trainer_evaluate(hod_trainer *t, hod_dataset *data, hod_evaluation *out)
{
    if (hod__null("trainer_evaluate", "trainer", t) ||
        hod__null("trainer_evaluate", "dataset", data) ||
        hod__null("trainer_evaluate", "result", out) || hod_error() || hod__trainer_check(t) != 0 ||
        sums_begin(t) != 0)
        return -1;
    bool *flags = hod__alloc((size_t)count_modules(t->net), sizeof *flags); /* all false */
    if (!flags)
        return -1;
    double start = hod__seconds();
    *out = (hod_evaluation){.metric = NAN};
    hod_loader_let_go(t->loader);
    bool averaged = hod_optimizer_settings(t->optimizer).ema > 0;
    exchange_modes(t->net, flags);
    t->evaluation->metric = metric_of(t, data);
    int rc = averaged ? hod_optimizer_swap_ema(t->optimizer) : 0;
    if (rc == 0)
        rc = evaluate(t, data, out);
    if (averaged && hod_optimizer_swap_ema(t->optimizer) != 0)
        rc = -1;
    exchange_modes(t->net, flags);
    free(flags);
    out->seconds = hod__seconds() - start;
    return rc;
}
