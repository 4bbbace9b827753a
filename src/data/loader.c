/* The loader: cuts the stream of samples into batches.
 *
 * It owns three tensors, input, target and index, as long as the largest batch so far, and fills
 * them anew at each call. A batch that the caller has retained, or that a view or the tape still
 * holds, is left alone: the loader then makes itself another. In steady state nothing is
 * allocated.
 */
#include "data/loader.h"

#include "tensor/tensor.h"

static const int64_t most_ahead = 512, most_ahead_bytes = 16 << 20;
static const int64_t last_epoch = INT32_MAX; /* the draws' counter has 32 bits for it */

struct hod_loader {
    hod_pool *pool; /* NULL: no workers, `own` and `raw` serve */
    hod_feed own;
    hod_feed *feed;                     /* of the pool, or &own */
    char *raw, *one_input, *one_target; /* without workers: one sample */
    hod_tensor *input, *target, *index; /* refs 1 unless the caller retained them */
    hod_position at;
    bool astray; /* the pool's tail is not at `at` */
};

static int64_t default_ahead(const hod_feed *f)
{
    int64_t fit = most_ahead_bytes / HOD_MAX(f->input_bytes, 1);
    return HOD_MAX(HOD_MIN(most_ahead, fit), 2);
}

static int check_spec(const hod_loader_spec *s)
{
    if (s->workers < 0 || s->workers > 256 || s->ahead < 0 || s->timeout < 0)
        return HOD_FAIL_RC(ARGUMENT, "loader: %d workers, %lld samples ahead, timeout %g s",
                           s->workers, (long long)s->ahead, s->timeout);
    return 0;
}

hod_loader *hod_loader_make(hod_loader_spec spec)
{
    if (!spec.dataset || check_spec(&spec))
        return NULL;
    hod_loader *l = hod__alloc(1, sizeof *l);
    if (!l || hod__feed_prepare(&l->own, &spec)) {
        free(l);
        return NULL;
    }
    l->feed = &l->own;
    if (spec.workers > 0) {
        int64_t ahead = spec.ahead ? spec.ahead : default_ahead(&l->own);
        l->pool = hod__pool_start(&l->own, spec.workers, ahead, spec.timeout ? spec.timeout : 60);
        if (!l->pool) {
            free(l);
            return NULL;
        }
        l->feed = hod__pool_feed(l->pool);
        return l;
    }
    l->raw = hod__alloc((size_t)spec.dataset->input_bytes, 1);
    l->one_input = hod__alloc((size_t)l->own.input_bytes, 1);
    l->one_target = hod__alloc((size_t)l->own.target_bytes, 1);
    if (!l->raw || !l->one_input || !l->one_target) {
        hod_loader_free(l);
        return NULL;
    }
    return l;
}

void hod_loader_free(hod_loader *l)
{
    if (!l)
        return;
    hod__pool_stop(l->pool);
    if (!l->pool)
        hod__feed_finish(&l->own);
    hod_loader_let_go(l);
    free(l->raw);
    free(l->one_input);
    free(l->one_target);
    free(l);
}

/* ---- the batch's tensors ---- */

void hod_loader_let_go(hod_loader *l)
{
    if (!l)
        return;
    hod_tensor_release(l->input);
    hod_tensor_release(l->target);
    hod_tensor_release(l->index);
    l->input = l->target = l->index = NULL;
}

/* Makes *t a tensor of n rows of `row` that nobody else holds, over its old memory if it can. */
static int renew(hod_tensor **t, hod_dtype dtype, hod_shape row, int64_t n)
{
    hod_meta m = {.dtype = dtype, .ndim = row.n + 1, .shape = {n}};
    memcpy(m.shape + 1, row.d, (size_t)row.n * sizeof *row.d);
    hod_tensor *old = *t;
    bool ours = old && atomic_load(&old->refs) == 1 && atomic_load(&old->storage->refs) == 1;
    if (ours && old->shape[0] == n) {
        hod__bump(old);
        return 0;
    }
    int64_t bytes = hod__meta_bytes(&m);
    if (bytes < 0)
        return -1;
    hod_storage *s = ours && old->storage->bytes >= bytes ? old->storage : NULL;
    if (s)
        hod__storage_retain(s);
    else if (ours) { /* gives the small one back before it asks for a larger one */
        hod_tensor_release(old);
        *t = old = NULL;
    }
    if (!s && !(s = hod__storage_new(hod__cpu(), bytes)))
        return -1;
    hod_tensor *fresh = hod__tensor_new(&m, s);
    hod__storage_release(s);
    if (!fresh)
        return -1;
    hod_tensor_release(old);
    *t = fresh;
    hod__bump(fresh);
    return 0;
}

/* Copies rows into t, from row `first` on. */
static int put(hod_tensor *t, int64_t first, const void *from, int64_t bytes_a_row, int64_t n)
{
    hod_device *d = t->storage->device;
    return d->copy_in(d, (char *)hod__data(t) + first * bytes_a_row, from, n * bytes_a_row);
}

static int put_all(hod_loader *l, int64_t first, int64_t n, const void *input, const void *target,
                   const int64_t *index)
{
    return put(l->input, first, input, l->feed->input_bytes, n) ||
                   put(l->target, first, target, l->feed->target_bytes, n) ||
                   put(l->index, first, index, sizeof *index, n)
               ? -1
               : 0;
}

/* ---- serving ---- */

static int64_t stream_position(const hod_loader *l)
{
    return l->at.epoch * l->feed->count + l->at.sample;
}

static int fill_from_pool(hod_loader *l, int64_t n)
{
    if (l->astray && hod__pool_seek(l->pool, stream_position(l)))
        return -1;
    l->astray = true; /* until all n are in */
    for (int64_t done = 0; done < n;) {
        int64_t got = n - done;
        const void *input, *target;
        const int64_t *index;
        if (hod__pool_take(l->pool, &got, &input, &target, &index) ||
            put_all(l, done, got, input, target, index))
            return -1;
        hod__pool_advance(l->pool, got);
        done += got;
    }
    l->astray = false;
    return 0;
}

static int fill_alone(hod_loader *l, int64_t n)
{
    int64_t start = stream_position(l);
    for (int64_t i = 0; i < n; i++) {
        HOD_SCOPE(s);
        int64_t index = hod__feed_index(l->feed, start + i);
        if (hod__feed_sample(l->feed, start + i, index, l->raw, l->one_input, l->one_target)) {
            hod__fail_context("loader");
            return -1;
        }
        if (put_all(l, i, 1, l->one_input, l->one_target, &index))
            return -1;
    }
    return 0;
}

int hod_loader_next(hod_loader *l, int64_t want, hod_batch *out)
{
    if (hod__null("loader_next", "loader", l) || hod__null("loader_next", "result", out))
        return -1;
    *out = (hod_batch){0};
    if (want < 1)
        return HOD_FAIL_RC(ARGUMENT, "loader: %lld samples wanted", (long long)want);
    if (l->at.sample == l->feed->count) {
        if (l->at.epoch == last_epoch)
            return HOD_FAIL_RC(STATE, "loader: epoch %lld is the last", (long long)last_epoch);
        l->at = (hod_position){l->at.epoch + 1, 0};
        return 0;
    }
    int64_t n = HOD_MIN(want, hod_loader_left(l));
    const hod_dataset *d = l->feed->dataset;
    if (renew(&l->input, hod_dataset_dtype(d), d->spec.shape, n) ||
        renew(&l->target, d->spec.target_dtype, d->spec.target_shape, n) ||
        renew(&l->index, HOD_I64, (hod_shape){0}, n) ||
        (l->pool ? fill_from_pool(l, n) : fill_alone(l, n)))
        return -1;
    *out = (hod_batch){l->input, l->target, l->index, n, l->at.epoch, l->at.sample};
    l->at.sample += n;
    return 1;
}

int64_t hod_loader_left(const hod_loader *l)
{
    return l ? l->feed->count - l->at.sample : 0;
}

hod_position hod_loader_tell(const hod_loader *l)
{
    return l ? l->at : (hod_position){0};
}

int hod_loader_seek(hod_loader *l, hod_position to)
{
    if (hod__null("loader_seek", "loader", l))
        return -1;
    if (to.epoch < 0 || to.epoch > last_epoch || to.sample < 0 || to.sample > l->feed->count)
        return HOD_FAIL_RC(ARGUMENT, "loader: no sample %lld of %lld in epoch %lld",
                           (long long)to.sample, (long long)l->feed->count, (long long)to.epoch);
    bool moved = to.epoch != l->at.epoch || to.sample != l->at.sample;
    l->at = to;
    l->astray |= moved && l->pool;
    return 0;
}
