/* The loader's pool: threads that prepare the coming samples in order.
 *
 * Samples are numbered along one endless stream, position = epoch * count + place in the epoch.
 *
 *          tail             head            tail + cap
 *     ------|================|----------------|------> positions
 *     served   ready or being     free slots
 *              prepared
 *
 * Invariants, under `lock`:
 *   L1  tail <= head <= tail + cap, and cap <= count, so at most two epochs are in flight
 *   L2  position p lives in slot p % cap; the slot is written by the one worker that claimed p
 *   L3  state[p % cap] is READY only for tail <= p < head
 *   L4  failed_at is the lowest position that failed; none beyond it is claimed
 */
#ifndef HOD_DATA_LOADER_H
#define HOD_DATA_LOADER_H

#include "data/data.h"
#include <pthread.h>

/* Where samples come from, shared by the pool and by a loader without workers. */
typedef struct hod_feed {
    hod_dataset *dataset; /* counted */
    hod_transform transform;
    uint64_t seed;
    bool shuffle;
    int64_t count, input_bytes, target_bytes; /* bytes as served */
    int64_t *order[2];                        /* permutations of epochs, at epoch & 1 */
    int64_t order_epoch[2];
} hod_feed;

int hod__feed_prepare(hod_feed *f, const hod_loader_spec *spec);
void hod__feed_finish(hod_feed *f);
/* The sample at a position; makes the epoch's permutation when it is the first to ask. */
int64_t hod__feed_index(hod_feed *f, int64_t position);
/* Prepares one sample inside a scope of the caller's, as a custom dataset may use tensors.
 * raw: room for one input as the dataset writes it. */
int hod__feed_sample(const hod_feed *f, int64_t position, int64_t index, void *raw, void *input,
                     void *target);

typedef struct hod_pool hod_pool;
/* Takes the feed over in any case. */
hod_pool *hod__pool_start(hod_feed *feed, int workers, int64_t ahead, double timeout);
void hod__pool_stop(hod_pool *p);
hod_feed *hod__pool_feed(hod_pool *p);
/* Drops what is prepared and goes on at `position`. -1 when a worker does not come back. */
int hod__pool_seek(hod_pool *p, int64_t position);
/* Waits for the sample at the pool's tail; then up to *n samples lie one after the other at the
 * addresses given back, and *n says how many. They stay until hod__pool_advance. */
int hod__pool_take(hod_pool *p, int64_t *n, const void **input, const void **target,
                   const int64_t **index);
void hod__pool_advance(hod_pool *p, int64_t n);

#endif
