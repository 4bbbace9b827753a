/* The inside of a tensor, for the layers below src/nn. Everyone else uses <hod/tensor.h>.
 *
 * Invariants:
 *   T1  offset >= 0, and offset + sum((shape[i]-1)*strides[i]) < storage elements, when numel > 0
 *   T2  storage->data == NULL exactly while the values are still to be computed by a recorded
 *       program ("symbolic"); hod__realise makes them real
 *   T3  views share storage, therefore version
 */
#ifndef HOD_TENSOR_TENSOR_H
#define HOD_TENSOR_TENSOR_H

/* Places are the user's: calls from inside the library note none. */
#ifndef HOD_NO_PLACES
#define HOD_NO_PLACES
#endif
#include "base/base.h"
#include "device/device.h"
#include <hod/memory.h>
#include <hod/random.h>
#include <hod/tensor.h>
#include <stdatomic.h>

/* Who a message speaks of: "relu", and where it was called. */
typedef struct hod_origin {
    const char *name;
    const char *file; /* NULL when not known */
    int line;
} hod_origin;

typedef struct hod_storage {
    atomic_int refs;
    uint32_t version;  /* bumped by every in-place change */
    hod_origin writer; /* of the last one */
    hod_device *device;
    void *data;                             /* NULL: symbolic */
    int64_t bytes;                          /* of data, or what data will need */
    void (*release)(struct hod_storage *s); /* NULL: device->release(data) */
    void *owner;                            /* for `release`: an arena, a mapped file */
} hod_storage;

struct hod_tensor { /* typedef in <hod/scope.h> */
    atomic_int refs;
    uint8_t dtype; /* hod_dtype */
    int8_t ndim;
    bool requires_grad; /* set for leaves by the user, for results by the tape */
    bool inference;     /* made in an inference scope; so are views of it */
    int64_t shape[HOD_MAX_DIMS];
    int64_t strides[HOD_MAX_DIMS]; /* elements */
    int64_t offset;                /* elements */
    hod_storage *storage;          /* counted */
    /* Fields of the listeners, opaque here. */
    struct hod_grad_meta *autograd; /* grad_fn, .grad, hooks; freed through hod__grad_meta_free */
    int32_t trace_value;            /* recorder: value number in trace `trace_stamp` */
    uint32_t trace_stamp;
};

/* What an operator's shape rule computes. */
typedef struct hod_meta {
    hod_dtype dtype;
    int ndim;
    int64_t shape[HOD_MAX_DIMS];
} hod_meta;

/* Classes of element types, from the order of the enum: floats first, and of these f32 and f64,
 * which kernels compute in; halves are computed in f32. */
_Static_assert(HOD_F32 == 0 && HOD_F64 == 1 && HOD_F16 == 2 && HOD_BF16 == 3 && HOD_I64 == 4,
               "hod_dtype");
static inline bool hod__is_float(hod_dtype dtype)
{
    return (unsigned)dtype <= HOD_BF16;
}
static inline bool hod__is_computed(hod_dtype dtype)
{
    return (unsigned)dtype <= HOD_F64;
}
static inline bool hod__is_half(hod_dtype dtype)
{
    return dtype == HOD_F16 || dtype == HOD_BF16;
}

hod_storage *hod__storage_new(hod_device *d, int64_t bytes);      /* allocated, uninitialised */
hod_storage *hod__storage_symbolic(hod_device *d, int64_t bytes); /* no data yet */
void hod__storage_retain(hod_storage *s);
void hod__storage_release(hod_storage *s);

/* A new handle, refs 1, NOT owned by a scope: row-major, over `s` (counted) at offset 0. */
hod_tensor *hod__tensor_new(const hod_meta *meta, hod_storage *s);
/* A new handle like `t` (same shape, storage, offset), refs 1, no autograd fields. */
hod_tensor *hod__tensor_alias(const hod_tensor *t);
/* The same that is `t` to a recorder, too: its value number. */
hod_tensor *hod__tensor_same(const hod_tensor *t);
/* Gives a handle to the innermost scope; returns it (NULL on failure or NULL). */
hod_tensor *hod__own(hod_tensor *t);

/* Has t died while the caller still held it? Then an error says so. Sees the last few only. */
bool hod__gone(const char *who, const hod_tensor *t);

hod_meta hod__meta(const hod_tensor *t);
int64_t hod__numel(int ndim, const int64_t *shape); /* -1: overflow or negative size */
bool hod__same_sizes(int na, const int64_t *a, int nb, const int64_t *b);
void hod__row_major(int ndim, const int64_t *shape, int64_t *strides);
bool hod__is_row_major(const hod_tensor *t);
int64_t hod__meta_bytes(const hod_meta *m);        /* -1 with an error when impossible */
void hod__bump(hod_tensor *t);                     /* version + 1 */
void hod__bump_by(hod_tensor *t, const char *who); /* the same, and says by what: "assign" */
/* Address of element 0 of a real tensor. */
void *hod__data(const hod_tensor *t);
/* True when two elements of t may share an address (expanded, self-overlapping): no writes. */
bool hod__overlaps_itself(const hod_tensor *t);

/* Shape text "(2,3)" for messages. Returns buf. */
char *hod__shape_text(int ndim, const int64_t *shape, char *buf, size_t cap);
#define HOD_SHAPE_TEXT(t) hod__shape_text((t)->ndim, (t)->shape, (char[96]){0}, 96)

/* Computes a symbolic tensor's storage; set by src/compile, NULL when nothing is recorded. */
extern int (*hod__realise_hook)(const hod_tensor *t);
int hod__realise(const hod_tensor *t); /* 0 at once when already real */
/* Asked before the host reads t's values: -1 with an error refuses. NULL: nobody asks. */
extern _Thread_local int (*hod__read_hook)(const hod_tensor *t);
int hod__read_begin(const hod_tensor *t); /* asks, and makes t real */
/* Asked before the host gets t's memory to write to; set by src/compile: what was recorded to read
 * the old values runs first. */
extern int (*hod__write_hook)(hod_tensor *t);
/* Frees the autograd fields; set by src/autograd. */
extern void (*hod__grad_meta_free)(struct hod_grad_meta *m);

/* This thread's key for random operators (random.h). */
typedef struct hod_random_key {
    uint64_t seed;
    int64_t update;
    hod_tensor *key;   /* i64 (2): seed bits, update; real, changes every update */
    hod_tensor *index; /* i64 (N): sample index of each row; NULL: 0, 1, 2, ... */
    int64_t stream;    /* next stream number */
} hod_random_key;
hod_random_key *hod__random(void); /* never begun: seed 0, update 0. NULL when memory is gone */

#endif
