/* Data: where samples come from, and the loader that has them ready when the step wants them.
 *
 *     hod_dataset *train = hod_idx_dataset("/usr/share/datasets/fashion-mnist/train");
 *     hod_loader *l = hod_loader_new(train, .seed = 1, .shuffle = true, .workers = 2,
 *                                    .crop = 2, .flip = true, .mean = {0.286}, .std = {0.353});
 *     hod_batch b;
 *     while (hod_loader_next(l, 64, &b) == 1)        // 0: the epoch is over, -1: an error
 *         step(b.input, b.target);
 *     hod_loader_free(l);
 *     hod_dataset_free(train);
 *
 * The order of an epoch is a permutation that depends on (seed, epoch) alone, and what is drawn
 * for a sample depends on (seed, epoch, sample index) alone. How many samples a call asks for, how
 * many workers there are and whether the run was interrupted change nothing: consecutive calls
 * serve consecutive ranges of the same permutation.
 */
#ifndef HOD_DATA_H
#define HOD_DATA_H

#include <hod/tensor.h>

/* ---- datasets ---- */

/* A counted collection of samples (input, target). Reading is safe from several threads. */
typedef struct hod_dataset hod_dataset;

/* The random numbers of one sample in one epoch. */
typedef struct hod_draws {
    uint32_t key[2], counter[4], bits[4];
    int left;
} hod_draws;
HOD_API hod_draws hod_draws_of(uint64_t seed, int64_t epoch, int64_t index);
HOD_API uint64_t hod_draw_bits(hod_draws *d);            /* 64 random bits */
HOD_API int64_t hod_draw_below(hod_draws *d, int64_t n); /* 0..n-1, unbiased; n >= 1 */
HOD_API double hod_draw_unit(hod_draws *d);              /* [0, 1) */

/* Writes sample `index`: one input and one target, row-major, in the dataset's dtypes. 0, or -1
 * after hod_dataset_refuse. Called from several threads at once. */
typedef int (*hod_item_fn)(void *job, int64_t index, hod_draws *draws, void *input, void *target);

typedef struct hod_dataset_spec {
    int64_t count; /* samples, at least 1 */
    hod_item_fn item;
    void *job;                  /* handed to item */
    void (*release)(void *job); /* default: none */
    const char *name;           /* default "custom" */
    hod_shape shape;            /* of one input */
    hod_dtype dtype;        /* of inputs as `item` writes them: f32, i64, or u8, which the loader
                               turns into f32 in [0, 1] */
    int64_t classes;        /* > 0: a target is one i64 in 0..classes-1, which is checked */
    hod_dtype target_dtype; /* when classes == 0 */
    hod_shape target_shape; /* when classes == 0 */
    int end_;
} hod_dataset_spec;

/* A dataset of the caller's own: hod_dataset_new(count, item, job, .shape = ..., .classes = 10). */
#define hod_dataset_new(...) hod_dataset_make((hod_dataset_spec){__VA_ARGS__, .end_ = 0})
HOD_API hod_dataset *hod_dataset_make(hod_dataset_spec spec);
/* For a custom `item`: states why the sample cannot be had. Always -1. */
HOD_API int hod_dataset_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ten-class images in the IDX format of MNIST: <prefix>-images-idx3-ubyte and
 * <prefix>-labels-idx1-ubyte, each plain or with .gz. Sizes, labels and checksums are verified
 * here, so that a damaged file is refused before training. Inputs are u8 (1,H,W). */
HOD_API hod_dataset *hod_idx_dataset(const char *prefix);

/* Rows of two contiguous tensors, which are kept: inputs (N,...), f32, i64 or u8, and targets
 * (N,...). With classes > 0 the targets are i64 (N) in 0..classes-1. */
HOD_API hod_dataset *hod_tensor_dataset(hod_tensor *inputs, hod_tensor *targets, int64_t classes);

/* Images that a network can learn to tell apart, made from numbers: for benchmarks. */
typedef struct hod_synthetic_spec {
    hod_shape shape; /* (C,H,W) or any */
    int64_t classes; /* default 10 */
    int64_t count;   /* default 1024 */
    uint64_t seed;
    int end_;
} hod_synthetic_spec;
#define hod_synthetic_dataset(...)                                                                 \
    hod_synthetic_dataset_make((hod_synthetic_spec){__VA_ARGS__, .end_ = 0})
HOD_API hod_dataset *hod_synthetic_dataset_make(hod_synthetic_spec spec);

/* Samples first..first+count-1 of d, numbered from 0. Keeps d. */
HOD_API hod_dataset *hod_dataset_slice(hod_dataset *d, int64_t first, int64_t count);

HOD_API hod_dataset *hod_dataset_retain(hod_dataset *d); /* returns d; NULL passes through */
HOD_API void hod_dataset_free(hod_dataset *d);           /* gives one reference back */
HOD_API int64_t hod_dataset_count(const hod_dataset *d);
HOD_API int64_t hod_dataset_classes(const hod_dataset *d);
HOD_API hod_shape hod_dataset_shape(const hod_dataset *d);        /* of one input */
HOD_API hod_dtype hod_dataset_dtype(const hod_dataset *d);        /* of inputs in a batch */
HOD_API hod_shape hod_dataset_target_shape(const hod_dataset *d); /* of one target */
HOD_API hod_dtype hod_dataset_target_dtype(const hod_dataset *d);
HOD_API const char *hod_dataset_name(const hod_dataset *d);

enum { HOD_MAX_CHANNELS = 16 };
/* Mean and standard deviation of each channel over the first `limit` samples (0: all), in the
 * units of a batch (u8 counts as [0, 1]). Inputs must be (C,...) with C <= HOD_MAX_CHANNELS. */
HOD_API int hod_dataset_moments(hod_dataset *d, int64_t limit, float mean[HOD_MAX_CHANNELS],
                                float std[HOD_MAX_CHANNELS]);

/* ---- loader ---- */

typedef struct hod_batch {
    hod_tensor *input;  /* (n, shape...), f32 or i64 */
    hod_tensor *target; /* (n) i64, or (n, target shape...) */
    hod_tensor *index;  /* (n) i64: the samples' numbers in the dataset */
    int64_t n;
    int64_t epoch; /* counted from 0 */
    int64_t first; /* position of the first sample within the epoch's order */
} hod_batch;

typedef struct hod_loader_spec {
    hod_dataset *dataset; /* kept */
    uint64_t seed;
    bool shuffle;   /* default: the dataset's order */
    int workers;    /* threads; default 0: the caller does the work in hod_loader_next */
    int64_t ahead;  /* samples prepared ahead with workers; default: up to 512 or 16 MiB */
    double timeout; /* seconds to wait for a worker; default 60 */
    int crop;       /* zero padding on each side before cutting a random window of the same size */
    bool flip;      /* mirror left-right with probability 1/2 */
    float mean[HOD_MAX_CHANNELS], std[HOD_MAX_CHANNELS]; /* (x - mean) / std, channel by channel,
                                                            where std != 0 */
    int end_;
} hod_loader_spec;

typedef struct hod_loader hod_loader;
#define hod_loader_new(...) hod_loader_make((hod_loader_spec){__VA_ARGS__, .end_ = 0})
HOD_API hod_loader *hod_loader_make(hod_loader_spec spec);
/* Stops the workers, at any time. NULL is allowed. */
HOD_API void hod_loader_free(hod_loader *l);

/* The next min(want, rest of the epoch) samples: 1. At the end of the epoch 0, once; the call
 * after that begins the next epoch. -1: an error, which the same call meets again. The batch's
 * tensors belong to the loader and are overwritten by the next call, unless the caller has
 * retained them. */
HOD_API int hod_loader_next(hod_loader *l, int64_t want, hod_batch *out);

/* Gives the memory of the last batch back; the next one takes it anew. NULL is allowed. */
HOD_API void hod_loader_let_go(hod_loader *l);
HOD_API int64_t hod_loader_left(const hod_loader *l); /* samples left in this epoch */

/* A place in the stream of samples: what a checkpoint stores. */
typedef struct hod_position {
    int64_t epoch, sample;
} hod_position;
HOD_API hod_position hod_loader_tell(const hod_loader *l);
HOD_API int hod_loader_seek(hod_loader *l, hod_position to); /* sample in 0..count */

#ifndef HOD_NO_PLACES
HOD_PLACED_RESULT(dataset, hod_dataset *)
HOD_PLACED_RESULT(loader, hod_loader *)
#define hod_dataset_make(...)           HOD_PLACED(dataset, hod_dataset_make(__VA_ARGS__))
#define hod_idx_dataset(...)            HOD_PLACED(dataset, hod_idx_dataset(__VA_ARGS__))
#define hod_tensor_dataset(...)         HOD_PLACED(dataset, hod_tensor_dataset(__VA_ARGS__))
#define hod_synthetic_dataset_make(...) HOD_PLACED(dataset, hod_synthetic_dataset_make(__VA_ARGS__))
#define hod_dataset_slice(...)          HOD_PLACED(dataset, hod_dataset_slice(__VA_ARGS__))
#define hod_dataset_moments(...)        HOD_PLACED(int, hod_dataset_moments(__VA_ARGS__))
#define hod_loader_make(...)            HOD_PLACED(loader, hod_loader_make(__VA_ARGS__))
#define hod_loader_next(...)            HOD_PLACED(int, hod_loader_next(__VA_ARGS__))
#define hod_loader_seek(...)            HOD_PLACED(int, hod_loader_seek(__VA_ARGS__))
#endif

#endif
