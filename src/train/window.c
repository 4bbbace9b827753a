/* One update: a window of samples in micro-batches, then the optimizer.
 *
 *     micro-batch 1       2       ...      k        |
 *     forward           forward         forward     |  grad = sum of gradients / sum of weights
 *     backward: write   + add           + add       |  norm, finite?, clip, step, average
 *     sums:     write   + add           + add       |  statistics of batch norms, counters
 *
 * A window is all or nothing. Whatever ends it early (a stop, an error, memory that is not there, a
 * gradient that is not finite) leaves parameters, optimizer, buffers and counters as they were; for
 * the buffers, which a forward may change, that is a copy taken at the beginning. Counters move in
 * one place, at the end. Only the optimizer's own part cannot be undone: if that fails half-way,
 * which a compiled update does not, the trainer refuses to go on.
 */
#include "train/train.h"
#include <hod/memory.h>
#include <math.h>

/* ---- bodies: these are recorded ---- */

int hod__trainer_add(hod_tensor *sum, hod_tensor *value)
{
    HOD_NO_GRAD(n);
    hod_tensor *v = hod_reshape(hod_cast(hod_detach(value), HOD_F64), HOD_SHAPE());
    return hod__assign(sum, hod_add(sum, v)) ? 0 : -1;
}

static int check_loss(const hod_loss *l)
{
    if (!l->sum || !l->weight)
        return hod_error() ? -1 : HOD_FAIL_RC(ARGUMENT, "trainer: the loss function gave no loss");
    if (hod_tensor_numel(l->sum) != 1 || hod_tensor_numel(l->weight) != 1)
        return HOD_FAIL_RC(ARGUMENT,
                           "trainer: a loss of sum %s and weight %s, single values wanted",
                           HOD_SHAPE_TEXT(l->sum), HOD_SHAPE_TEXT(l->weight));
    return 0;
}

hod_loss hod__trainer_loss_of(hod_trainer *t, hod_tensor *const *in)
{
    hod_batch b = *t->batch;
    b.input = in[0];
    b.target = in[1];
    b.index = in[2];
    hod_loss l = t->loss(t->net, &b);
    return check_loss(&l) == 0 ? l : (hod_loss){NULL, NULL};
}

int hod__trainer_accumulate_body(void *job, hod_tensor *const *in, hod_tensor **out)
{
    hod_trainer *t = job;
    (void)out;
    hod_loss l = hod__trainer_loss_of(t, in);
    return l.sum && hod_backward(l.sum) == 0 && hod__trainer_add(t->loss_sum, l.sum) == 0 &&
                   hod__trainer_add(t->weight_sum, l.weight) == 0
               ? 0
               : -1;
}

static hod_update_spec update_spec(const hod_trainer *t)
{
    return (hod_update_spec){.weight = t->weight_sum, .clip_norm = t->spec.clip_norm};
}

int hod__trainer_update_body(void *job, hod_tensor *const *in, hod_tensor **out)
{
    hod_trainer *t = job;
    (void)in, (void)out;
    hod_update_spec spec = update_spec(t);
    return hod_update_body(t->optimizer, &spec);
}

int hod__trainer_statistics_body(void *job, hod_tensor *const *in, hod_tensor **out)
{
    hod_trainer *t = job;
    (void)in, (void)out;
    HOD_NO_GRAD(n);
    return hod_module_update_statistics(t->net);
}

/* ---- the micro-batch ---- */

/* A value that is out of range was met in this batch: looks for the sample, one at a time, and says
 * its number in the dataset. */
static void name_sample(hod_trainer *t, const hod_batch *b)
{
    hod_error_record error, other;
    hod_error_take(&error);
    int64_t window = t->updates + t->skipped;
    for (int64_t i = 0; i < b->n; i++) {
        HOD_SCOPE(s);
        HOD_NO_GRAD(n);
        hod_tensor *in[] = {hod_slice(b->input, 0, i, i + 1), hod_slice(b->target, 0, i, i + 1),
                            hod_slice(b->index, 0, i, i + 1)};
        hod_batch one = *b;
        one.n = 1;
        t->batch = &one;
        if (hod_random_begin(t->spec.seed, window, in[2]) == 0) {
            hod_loss l = hod__trainer_loss_of(t, in);
            if (l.sum)
                (void)hod_item(l.sum);
        }
        if (hod_error_take(&other) && other.kind == error.kind) {
            hod__fail(error.kind, "update %lld, sample %lld: %s", (long long)t->updates + 1,
                      (long long)hod_item(in[2]), error.text);
            return;
        }
    }
    hod__fail(error.kind, "update %lld: %s", (long long)t->updates + 1, error.text);
}

int hod__trainer_micro_step(hod_trainer *t, const hod_batch *b)
{
    HOD_SCOPE(s);
    int64_t window = t->updates + t->skipped;
    if (hod_random_begin(t->spec.seed, window, b->index) != 0)
        return -1;
    t->batch = b;
    int rc = hod_fn_call(t->accumulate, (hod_tensor *[]){b->input, b->target, b->index}, NULL);
    if (rc != 0 && hod_error_kind_pending() == HOD_ERROR_VALUE)
        name_sample(t, b);
    t->batch = NULL;
    hod_random_begin(t->spec.seed, window, NULL); /* lets the loader have its index back */
    return rc;
}

/* ---- the window ---- */

/* Where the next window begins, and how many samples it has. */
static int64_t window_samples(hod_trainer *t)
{
    int64_t count = hod_dataset_count(t->data), e = t->spec.effective_batch;
    int64_t left = count - t->at.sample;
    bool dropped = t->spec.last_window == HOD_WINDOW_DROP && left < e;
    if (left == 0 || dropped) {
        t->at = (hod_position){t->at.epoch + 1, 0};
        left = count;
    }
    return HOD_MIN(left, e);
}

/* Brings the loader there. The loader says once that its epoch is over. */
static int loader_place(hod_trainer *t)
{
    hod_position p = hod_loader_tell(t->loader);
    hod_batch none;
    if (p.epoch + 1 == t->at.epoch && t->at.sample == 0 && hod_loader_left(t->loader) == 0)
        return hod_loader_next(t->loader, 1, &none);
    return p.epoch == t->at.epoch && p.sample == t->at.sample ? 0
                                                              : hod_loader_seek(t->loader, t->at);
}

/* Runs the micro-batches of one window of n samples: 1, or 0 when stopped, or -1. */
static int accumulate_window(hod_trainer *t, int64_t n, hod_update *u)
{
    if (loader_place(t) != 0 || hod__trainer_set(t->loss_sum, 0) != 0 ||
        hod__trainer_set(t->weight_sum, 0) != 0)
        return -1;
    u->micro_steps = 0;
    for (int64_t done = 0; done < n;) {
        if (t->stop)
            return 0;
        hod_batch b;
        if (hod_loader_next(t->loader, HOD_MIN(t->micro, n - done), &b) != 1 ||
            hod__trainer_micro_step(t, &b) != 0)
            return -1;
        done += b.n;
        u->micro_steps++;
    }
    return t->stop ? 0 : 1;
}

/* The optimizer's part; fills in what it says. */
static int apply_window(hod_trainer *t, hod_update *u)
{
    HOD_SCOPE(s);
    hod_update_spec spec = update_spec(t);
    hod_update_result r;
    u->lr = t->base_lr * hod_schedule_factor(&t->schedule, t->updates);
    hod_optimizer_set_lr(t->optimizer, u->lr);
    if (hod_update_prepare(t->optimizer, &spec) != 0 || hod_fn_call(t->update, NULL, NULL) != 0 ||
        hod_update_finish(t->optimizer, &spec, &r) != 0) {
        t->broken = true;
        return -1;
    }
    u->weight = hod_item(t->weight_sum);
    u->loss = hod_item(t->loss_sum) / u->weight;
    u->grad_norm = r.grad_norm;
    u->skipped = r.skipped;
    int rc = r.skipped           ? hod__trainer_buffers_restore(t)
             : t->has_statistics ? hod_fn_call(t->statistics, NULL, NULL)
                                 : 0;
    t->broken = rc != 0;
    return rc;
}

/* One window with the micro-batch that is chosen: 1, 0 when stopped, -1. */
static int window_run(hod_trainer *t, hod_update *u)
{
    int64_t n = window_samples(t);
    *u = (hod_update){.epoch = t->at.epoch, .samples = n, .scale = 1, .micro_batch = t->micro};
    if (hod__trainer_buffers_save(t) != 0)
        return -1;
    int rc = accumulate_window(t, n, u);
    if (rc == 1 && apply_window(t, u) != 0)
        rc = -1;
    if (rc != 1)
        return rc;
    t->at.sample += n;
    t->samples += n;
    t->updates += !u->skipped;
    t->skipped += u->skipped;
    u->index = t->updates;
    return 1;
}

/* Undoes a window that did not come to its end, with whatever error is pending kept. */
static int give_up(hod_trainer *t)
{
    hod_error_record error;
    bool failed = hod_error_take(&error);
    int rc = hod__trainer_window_discard(t);
    if (failed) {
        hod_error_take(NULL);
        hod__fail(error.kind, "%s", error.text);
        rc = -1;
    }
    return rc;
}

/* As window_run, but where memory runs out, in smaller and smaller micro-batches. */
static int window_fit(hod_trainer *t, hod_update *u)
{
    for (;;) {
        int rc = window_run(t, u);
        if (rc == 1)
            return 1;
        if (t->broken)
            return -1;
        bool memory = hod_error_kind_pending() == HOD_ERROR_MEMORY;
        if (give_up(t) == 0)
            return rc;
        if (!memory)
            return -1;
        hod_error_record error;
        hod_error_take(&error);
        int smaller = hod__trainer_shrink(t);
        if (smaller != 1)
            return smaller == 0 ? HOD_FAIL_RC(MEMORY, "%s", error.text) : -1;
    }
}

bool hod_trainer_step(hod_trainer *t, hod_dataset *data, hod_update *u)
{
    if (hod__null("trainer_step", "trainer", t) || hod__null("trainer_step", "result", u) ||
        hod_error() || hod__trainer_check(t) != 0 || hod_trainer_prepare(t, data) != 0)
        return false;
    if (t->total > 0 && t->updates + t->skipped >= t->total)
        return false;
    double start = hod__seconds();
    t->gave_up = false;
    int rc = window_fit(t, u);
    if (rc == 0) {
        t->stop = 0;
        t->gave_up = true;
    }
    u->seconds = hod__seconds() - start;
    u->samples_per_s = (double)u->samples / u->seconds;
    u->peak_bytes = hod_memory().allocated_peak;
    t->seconds += u->seconds;
    return rc == 1;
}
