/* One sample of the stream: its number by the epoch's permutation, its content, its augmentation.
 * Everything is a function of (seed, position), so it does not matter who asks, when, or how often.
 */
#include "data/loader.h"

#include "tensor/tensor.h"
#include <hod/random.h>

int hod__feed_prepare(hod_feed *f, const hod_loader_spec *spec)
{
    hod_dataset *d = spec->dataset;
    *f = (hod_feed){.seed = spec->seed,
                    .shuffle = spec->shuffle,
                    .count = d->spec.count,
                    .order_epoch = {-1, -1},
                    .target_bytes = d->target_bytes};
    f->input_bytes = d->input_numel * (int64_t)hod_dtype_bytes(hod_dataset_dtype(d));
    if (hod__transform_prepare(&f->transform, d, spec))
        return -1;
    for (int i = 0; i < 2 && f->shuffle; i++) {
        f->order[i] = hod__alloc((size_t)f->count, sizeof *f->order[i]);
        if (!f->order[i]) {
            hod__feed_finish(f);
            return -1;
        }
        /* Written now, so that the second epoch takes no page that the first did not. */
        memset(f->order[i], 0xff, (size_t)f->count * sizeof *f->order[i]);
    }
    f->dataset = hod_dataset_retain(d);
    return 0;
}

void hod__feed_finish(hod_feed *f)
{
    hod_dataset_free(f->dataset);
    free(f->order[0]);
    free(f->order[1]);
    *f = (hod_feed){0};
}

int64_t hod__feed_index(hod_feed *f, int64_t position)
{
    int64_t epoch = position / f->count, at = position % f->count;
    if (!f->shuffle)
        return at;
    if (f->order_epoch[epoch & 1] != epoch) {
        hod_shuffle(f->seed, epoch, f->count, f->order[epoch & 1]);
        f->order_epoch[epoch & 1] = epoch;
    }
    return f->order[epoch & 1][at];
}

int hod__feed_sample(const hod_feed *f, int64_t position, int64_t index, void *raw, void *input,
                     void *target)
{
    int64_t epoch = position / f->count;
    hod_draws draws = hod_draws_of(f->seed, epoch, index);
    if (hod__dataset_item(f->dataset, index, &draws, raw, target))
        return -1;
    draws = hod__draws_stream(f->seed, epoch, index, 1);
    hod__transform_apply(&f->transform, raw, input, &draws);
    return 0;
}
