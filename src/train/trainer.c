/* Making a trainer, checking what is asked of it, meeting the data.
 *
 * Everything persistent is allocated here and at the first meeting: the optimizer's state, the
 * gradients' buffers (which autograd would otherwise make at the first backward), the window's
 * sums. From then on `allocated` of the allocator is the persistent part, measured rather than
 * computed, and a peak is that plus one arena plus one batch.
 */
#include "train/train.h"
#include <math.h>

/* ---- small things ---- */

int hod__trainer_set(hod_tensor *t, double value)
{
    double *p = hod_tensor_mutable_data(t);
    if (!p)
        return -1;
    *p = value;
    return 0;
}

hod_tensor *hod__trainer_sum_new(void)
{
    HOD_SCOPE(s);
    return hod_tensor_retain(hod_zeros(HOD_F64, HOD_SHAPE()));
}

/* Bytes of all buffers of the network, each in its place one after the other. */
static int64_t buffers_bytes(hod_module *net)
{
    int64_t n = 0;
    for (hod_walk w = hod_buffers(net); hod_walk_next(&w);)
        n += hod_tensor_numel(w.item.tensor) *
             (int64_t)hod_dtype_bytes(hod_tensor_dtype(w.item.tensor));
    return n;
}

int hod__trainer_buffers_save(hod_trainer *t)
{
    char *to = t->buffers;
    for (hod_walk w = hod_buffers(t->net); t->buffers_bytes && hod_walk_next(&w);) {
        hod_tensor *b = w.item.tensor;
        size_t n = (size_t)hod_tensor_numel(b) * hod_dtype_bytes(hod_tensor_dtype(b));
        const void *from = hod_tensor_data(b);
        if (!from)
            return -1;
        memcpy(to, from, n);
        to += n;
    }
    return 0;
}

int hod__trainer_buffers_restore(hod_trainer *t)
{
    const char *from = t->buffers;
    for (hod_walk w = hod_buffers(t->net); t->buffers_bytes && hod_walk_next(&w);) {
        hod_tensor *b = w.item.tensor;
        size_t n = (size_t)hod_tensor_numel(b) * hod_dtype_bytes(hod_tensor_dtype(b));
        void *to = hod_tensor_mutable_data(b);
        if (!to)
            return -1;
        memcpy(to, from, n);
        from += n;
    }
    return 0;
}

int hod__trainer_window_discard(hod_trainer *t)
{
    hod_module_zero_grad(t->net);
    return hod__trainer_buffers_restore(t);
}

/* ---- settings ---- */

static int check_spec(const hod_trainer_spec *s)
{
    const struct {
        const char *name;
        int64_t value, least;
    } check[] = {{"effective_batch", s->effective_batch, 1},
                 {"micro_batch", s->micro_batch, 0},
                 {"memory_budget", s->memory_budget, 0},
                 {"epochs", s->epochs, 0},
                 {"updates", s->updates, 0}};
    for (int i = 0; i < HOD_COUNT(check); i++)
        if (check[i].value < check[i].least)
            return HOD_FAIL_RC(ARGUMENT, "trainer: %s is %lld, wanted %lld or more", check[i].name,
                               (long long)check[i].value, (long long)check[i].least);
    if (s->micro_batch > s->effective_batch)
        return HOD_FAIL_RC(ARGUMENT,
                           "trainer: micro_batch %lld is larger than effective_batch %lld",
                           (long long)s->micro_batch, (long long)s->effective_batch);
    if (!(s->ema >= 0 && s->ema < 1))
        return HOD_FAIL_RC(ARGUMENT, "trainer: ema is %g, wanted 0 <= ema < 1", s->ema);
    if (!(s->clip_norm >= 0))
        return HOD_FAIL_RC(ARGUMENT, "trainer: clip_norm is %g, wanted 0 or more", s->clip_norm);
    return 0;
}

/* ---- making ---- */

/* Makes the buffer of every gradient now, absent as before. */
static int gradients_prepare(hod_module *net)
{
    for (hod_walk w = hod_parameters(net); hod_walk_next(&w);) {
        if (!hod_tensor_requires_grad(w.item.tensor))
            continue;
        hod_grad_slot *slot = hod__grad_slot(w.item.tensor);
        if (!slot)
            return -1;
        if (slot->sum)
            continue;
        HOD_SCOPE(s);
        hod_meta m = hod__meta(w.item.tensor);
        slot->sum = hod_tensor_retain(hod_empty(m.dtype, hod_shape_of(m.ndim, m.shape)));
        if (!slot->sum)
            return -1;
    }
    return 0;
}

hod_fn *hod__trainer_part_new(hod_trainer *t, hod_body body, int inputs, const char *name)
{
    hod_fn *f = hod_compile_make(body, t,
                                 (hod_compile_spec){.inputs = inputs,
                                                    .mode = t->spec.compile,
                                                    .fullgraph = t->spec.fullgraph,
                                                    .name = name});
    if (f && hod_fn_set_arena(f, t->arena) != 0) {
        hod_fn_free(f);
        return NULL;
    }
    return f;
}

static int programs_new(hod_trainer *t)
{
    t->arena = hod_arena_new();
    t->accumulate = hod__trainer_part_new(t, hod__trainer_accumulate_body, 3, "accumulate");
    t->update = hod__trainer_part_new(t, hod__trainer_update_body, 0, "update");
    t->statistics = hod__trainer_part_new(t, hod__trainer_statistics_body, 0, "statistics");
    t->update_arena = -1;
    return t->arena && t->accumulate && t->update && t->statistics ? 0 : -1;
}

static void programs_free(hod_trainer *t)
{
    hod_fn_free(t->accumulate);
    hod_fn_free(t->update);
    hod_fn_free(t->statistics);
    hod_fn_free(t->evaluate);
    hod_arena_free(t->arena);
    t->accumulate = t->update = t->statistics = t->evaluate = NULL;
    t->arena = NULL;
}

int hod__trainer_new_arena(hod_trainer *t)
{
    hod_arena *fresh = hod_arena_new();
    if (!fresh)
        return -1;
    hod_fn *const parts[] = {t->accumulate, t->update, t->statistics, t->evaluate};
    for (int i = 0; i < HOD_COUNT(parts); i++)
        if (parts[i] && hod_fn_set_arena(parts[i], fresh) != 0) {
            hod_arena_free(fresh);
            return -1;
        }
    hod_arena_free(t->arena);
    t->arena = fresh;
    return 0;
}

static bool any_statistics(hod_module *m)
{
    if (m->update_statistics)
        return true;
    for (int64_t i = 0; i < m->n_children; i++)
        if (any_statistics(m->children[i]))
            return true;
    return false;
}

static int build(hod_trainer *t)
{
    hod_optimizer_spec o = t->spec.optimizer;
    if (t->spec.ema > 0)
        o.ema = t->spec.ema;
    t->optimizer = hod_optimizer_new(t->net, o);
    if (!t->optimizer || gradients_prepare(t->net) != 0)
        return -1;
    t->base_lr = hod_optimizer_lr(t->optimizer);
    t->has_statistics = any_statistics(t->net);
    t->buffers_bytes = buffers_bytes(t->net);
    t->buffers = hod__alloc((size_t)t->buffers_bytes + 1, 1);
    t->loss_sum = hod__trainer_sum_new();
    t->weight_sum = hod__trainer_sum_new();
    return t->buffers && t->loss_sum && t->weight_sum && hod__random() &&
                   hod__trainer_evaluation_new(t) == 0 &&
                   hod_update_prepare(t->optimizer, &(hod_update_spec){0}) == 0
               ? programs_new(t)
               : -1;
}

hod_trainer *hod_trainer_make(hod_module *net, hod_loss_fn *loss, hod_trainer_spec spec)
{
    if (hod__null("trainer", "module", net) || check_spec(&spec) != 0)
        return NULL;
    if (!loss)
        return HOD_FAIL(ARGUMENT, "trainer: no loss function");
    hod_trainer *t = hod__alloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->net = net;
    t->loss = loss;
    t->spec = spec;
    if (build(t) == 0)
        return t;
    hod_trainer_free(t);
    return NULL;
}

void hod_trainer_free(hod_trainer *t)
{
    if (!t)
        return;
    programs_free(t);
    hod_optimizer_free(t->optimizer);
    hod_tensor_release(t->loss_sum);
    hod_tensor_release(t->weight_sum);
    hod__trainer_evaluation_free(t);
    hod_loader_free(t->loader);
    hod_dataset_free(t->data);
    free(t->buffers);
    free(t);
}

/* ---- meeting the data ---- */

/* Updates an epoch has; -1 when it has none. */
static int64_t count_updates(const hod_trainer *t, int64_t samples)
{
    int64_t e = t->spec.effective_batch;
    if (t->spec.last_window == HOD_WINDOW_FLUSH)
        return (samples + e - 1) / e;
    if (samples < e)
        return HOD_FAIL_RC(ARGUMENT,
                           "trainer: %lld samples an epoch make no window of %lld, and "
                           "short windows are dropped",
                           (long long)samples, (long long)e);
    return samples / e;
}

/* How long to train, and the rates on the way: each fills in what the other leaves open. */
static int resolve_length(hod_trainer *t)
{
    hod_schedule *s = &t->schedule;
    *s = t->spec.schedule;
    double epochs = (double)t->spec.epochs;
    if (epochs == 0 && s->total == 0)
        epochs = s->epochs > 0 ? s->epochs : t->spec.updates ? 0 : 1;
    if (epochs > 0)
        t->total = llround(epochs * (double)t->updates_per_epoch);
    else if (s->total > 0)
        t->total = s->total;
    if (t->spec.updates > 0 && (t->total == 0 || t->spec.updates < t->total))
        t->total = t->spec.updates;
    if (s->total == 0 && s->epochs == 0)
        s->total = t->total;
    return hod_schedule_resolve(s, t->updates_per_epoch);
}

static hod_loader *loader_new(const hod_trainer *t, hod_dataset *data)
{
    hod_loader_spec spec = t->spec.loader;
    spec.dataset = data;
    spec.seed = t->spec.seed;
    spec.shuffle = !t->spec.in_order;
    return hod_loader_make(spec);
}

int hod__trainer_meet(hod_trainer *t, hod_dataset *data)
{
    if (!t || !data)
        return -1;
    if (t->data)
        return t->data == data ? 0
                               : HOD_FAIL_RC(STATE, "trainer: trains on %s already, %s came",
                                             hod_dataset_name(t->data), hod_dataset_name(data));
    int64_t count = hod_dataset_count(data), updates = count_updates(t, count);
    if (t->loaded_count && t->loaded_count != count)
        return HOD_FAIL_RC(ARGUMENT,
                           "trainer: the loaded run has a dataset of %lld samples, %s has "
                           "%lld",
                           (long long)t->loaded_count, hod_dataset_name(data), (long long)count);
    if (updates < 0)
        return -1;
    t->updates_per_epoch = updates;
    if (resolve_length(t) != 0 || !(t->loader = loader_new(t, data)))
        return -1;
    if (hod_loader_seek(t->loader, t->at) != 0) {
        hod_loader_free(t->loader);
        t->loader = NULL;
        return -1;
    }
    t->data = hod_dataset_retain(data);
    return 0;
}

/* ---- asking ---- */

int hod__trainer_check(const hod_trainer *t)
{
    return t->broken ? HOD_FAIL_RC(STATE, "trainer: update %lld failed half-way; load a checkpoint",
                                   (long long)t->updates + 1)
                     : 0;
}

void hod_trainer_stop(hod_trainer *t)
{
    if (t)
        t->stop = 1;
}

bool hod_trainer_stopped(const hod_trainer *t)
{
    return t && t->gave_up;
}

hod_progress hod_trainer_progress(const hod_trainer *t)
{
    return t ? (hod_progress){.updates = t->updates,
                              .skipped = t->skipped,
                              .total = t->total,
                              .updates_per_epoch = t->updates_per_epoch,
                              .epoch = t->at.epoch,
                              .sample = t->at.sample,
                              .samples = t->samples,
                              .seconds = t->seconds}
             : (hod_progress){0};
}

int64_t hod_trainer_micro_batch(const hod_trainer *t)
{
    return t ? t->micro : 0;
}

int64_t hod_trainer_predicted_peak(const hod_trainer *t)
{
    return t ? t->predicted_peak : 0;
}

const hod_fn *hod_trainer_fn(const hod_trainer *t, hod_trainer_part part)
{
    return !t ? NULL : part == HOD_PART_UPDATE ? t->update : t->accumulate;
}

hod_optimizer *hod_trainer_optimizer(hod_trainer *t)
{
    return t ? t->optimizer : NULL;
}
