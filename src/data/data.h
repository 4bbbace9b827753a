/* The inside of datasets and what happens to a sample between its dataset and a batch. */
#ifndef HOD_DATA_DATA_H
#define HOD_DATA_DATA_H

#include "base/base.h"
#include <hod/data.h>
#include <stdatomic.h>

struct hod_dataset { /* typedef in <hod/data.h> */
    atomic_int refs;
    hod_dataset_spec spec; /* completed: target dtype and shape always hold */
    char *name;
    int64_t input_numel, input_bytes;   /* of one input as `item` writes it */
    int64_t target_numel, target_bytes; /* of one target */
};

/* Reads one sample and checks its label. 0 or -1. */
int hod__dataset_item(hod_dataset *d, int64_t index, hod_draws *draws, void *input, void *target);

/* A stream of draws apart from the one that `item` uses, so that augmentation does not depend on
 * how many numbers the dataset took. */
hod_draws hod__draws_stream(uint64_t seed, int64_t epoch, int64_t index, uint8_t stream);

/* What is done to each input: a random window of the zero-padded image, a mirror image, the
 * conversion to f32 and (x - mean) / std. */
typedef struct hod_transform {
    hod_dtype dtype;               /* of the raw input; the result is f32, or i64 as it was */
    int64_t numel;                 /* of one input */
    int64_t planes, rows, columns; /* numel = planes * rows * columns */
    int64_t planes_a_channel;
    int crop;
    bool flip;
    bool shifts; /* mean and std apply */
    float mean[HOD_MAX_CHANNELS], std[HOD_MAX_CHANNELS];
    float bytes[HOD_MAX_CHANNELS][256]; /* u8: the result for each byte of a channel */
} hod_transform;

int hod__transform_prepare(hod_transform *t, const hod_dataset *d, const hod_loader_spec *spec);
/* raw, out: one input. draws decide window and mirror. */
void hod__transform_apply(const hod_transform *t, const void *raw, void *out, hod_draws *draws);

#endif
