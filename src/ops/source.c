/* Values from nothing: constants, indices, random draws.
 *
 * A draw depends on (seed, update), the sample index of its row, the operator's stream and the
 * element within the sample, by the one mapping of uniform_tmpl.h; how a batch is cut into rows
 * and threads does not enter.
 */
#include "ops/rows.h"
#include "ops/rules.h"
#include "ops/uniform_tmpl.h"
#include "tensor/half.h"

/* A number as an element of `dtype`, in its first bytes. */
static uint64_t as_element(hod_dtype dtype, double value)
{
    union {
        float f32;
        double f64;
        uint16_t half;
        int64_t i64;
        int32_t i32;
        uint8_t u8;
        uint64_t bits;
    } e = {.bits = 0};
    switch (dtype) {
    case HOD_F32: e.f32 = (float)value; break;
    case HOD_F64: e.f64 = value; break;
    case HOD_F16: e.half = hod__f32_to_f16((float)value); break;
    case HOD_BF16: e.half = hod__f32_to_bf16((float)value); break;
    case HOD_I64: e.i64 = (int64_t)value; break;
    case HOD_I32: e.i32 = (int32_t)value; break;
    case HOD_U8: e.u8 = (uint8_t)(int64_t)value; break; /* wraps */
    default: e.u8 = value != 0; break;
    }
    return e.bits;
}

static uint64_t repeated(uint64_t element, size_t size)
{
    for (; size < 8; size *= 2)
        element |= element << 8 * size;
    return element;
}

enum { PARALLEL_ELEMENTS = 65536 }; /* a fill reads nothing */

typedef struct source_job {
    hod_iter it;
    char *to;
    hod_dtype dtype;
    uint64_t element; /* full; repeated up to 8 bytes */
} source_job;

#define FILL(type)                                                                                 \
    {                                                                                              \
        type e;                                                                                    \
        memcpy(&e, &job->element, sizeof e);                                                       \
        for (int64_t j = 0; j < n; j++)                                                            \
            ((type *)to)[j * stride] = e;                                                          \
    }

static void fill_rows(void *context, int64_t begin, int64_t end)
{
    const source_job *job = context;
    int last = job->it.ndim - 1;
    int64_t n = job->it.shape[last], stride = job->it.strides[0][last];
    for (int64_t row = begin; row < end; row++) {
        int64_t offset[HOD_ITER_MAX];
        hod__iter_row(&job->it, row, offset);
        size_t size = hod_dtype_bytes(job->dtype);
        char *to = job->to + offset[0] * (int64_t)size;
        if (stride == 1) {
            hod__rows()->fill(n * (int64_t)size, to, job->element);
            continue;
        }
        switch (size) {
        case 1: FILL(uint8_t) break;
        case 2: FILL(uint16_t) break;
        case 4: FILL(uint32_t) break;
        default: FILL(uint64_t) break;
        }
    }
}

/* [begin, end): elements of a line, the only one. */
static void fill_line(void *context, int64_t begin, int64_t end)
{
    source_job part = *(const source_job *)context;
    part.to += begin * part.it.strides[0][0] * (int64_t)hod_dtype_bytes(part.dtype);
    part.it.shape[0] = end - begin;
    fill_rows(&part, 0, 1);
}

int hod__eval_full(const hod_op_call *c, hod_tensor *out)
{
    uint64_t element = as_element(out->dtype, c->attrs->full.value);
    source_job job = {.dtype = out->dtype,
                      .element = repeated(element, hod_dtype_bytes(out->dtype))};
    hod__iter_begin(&job.it, out->ndim, out->shape, 1, (const hod_tensor *[]){out});
    if (job.it.n == 0)
        return 0;
    job.to = hod__data(out);
    if (job.it.ndim == 1)
        hod__parallel(job.it.n, PARALLEL_ELEMENTS, fill_line, &job);
    else
        hod__parallel(hod__iter_rows(&job.it),
                      hod__grain_of(PARALLEL_ELEMENTS, job.it.shape[job.it.ndim - 1]), fill_rows,
                      &job);
    return 0;
}

/* 0, 1, 2, ... of the types that are counted most; what the loop below writes for any. */
static void count_up(void *context, int64_t begin, int64_t end)
{
    const source_job *job = context;
    if (job->dtype == HOD_I64)
        for (int64_t i = begin; i < end; i++)
            ((int64_t *)job->to)[i] = i;
    else
        for (int64_t i = begin; i < end; i++)
            ((float *)job->to)[i] = (float)i;
}

/* Writes one number a run: `inner` elements, then the next, over and over. */
int hod__eval_iota(const hod_op_call *c, hod_tensor *out)
{
    if (hod_tensor_numel(out) == 0)
        return 0;
    if (out->ndim == 0)
        return hod__eval_zero(out);
    if (hod__check_row_major(c, out) != 0)
        return -1;
    int dim = (int)c->attrs->iota.dim;
    size_t size = hod_dtype_bytes(out->dtype);
    int64_t inner = hod__numel(out->ndim - dim - 1, out->shape + dim + 1);
    int64_t block = inner * out->shape[dim], n = hod_tensor_numel(out);
    char *to = hod__data(out);
    bool line = inner == 1 && block == n && (out->dtype == HOD_I64 || out->dtype == HOD_F32);
    if (line && n < INT32_MAX) { /* beyond, f32 rounds twice below */
        source_job job = {.to = to, .dtype = out->dtype};
        hod__parallel(n, PARALLEL_ELEMENTS, count_up, &job);
        return 0;
    }
    for (int64_t i = 0; i < block; i++) {
        uint64_t e = as_element(out->dtype, (double)(i / inner));
        memcpy(to + i * (int64_t)size, &e, size);
    }
    for (int64_t i = block; i < n; i += block)
        memcpy(to + i * (int64_t)size, to, (size_t)block * size);
    return 0;
}

/* ---- random draws ---- */

typedef struct draw_job {
    float *to;
    const int64_t *index;
    int64_t index_stride; /* 0: one sample */
    int64_t elements;     /* of a sample */
    uint64_t key, stream;
    void (*run)(int64_t n, float *out, uint64_t key, uint64_t stream, uint64_t index);
} draw_job;

static void draw_samples(void *context, int64_t begin, int64_t end)
{
    const draw_job *job = context;
    for (int64_t n = begin; n < end; n++) {
        uint64_t index = (uint64_t)job->index[n * job->index_stride];
        job->run(job->elements, job->to + n * job->elements, job->key, job->stream, index);
    }
}

int hod__eval_uniform(const hod_op_call *c, hod_tensor *out)
{
    const hod_tensor *key = c->in[0], *index = c->in[1];
    int64_t n = hod_tensor_numel(out), samples = hod_tensor_numel(index);
    if (n == 0)
        return 0;
    if (hod__check_row_major(c, out) != 0)
        return -1;
    const int64_t *k = hod__data(key);
    draw_job job = {
        .to = hod__data(out),
        .index = hod__data(index),
        .index_stride = samples > 1 ? index->strides[0] : 0,
        .elements = n / samples,
        .key = r_uniform_key((uint64_t)k[0], (uint64_t)k[key->strides[0]]),
        .stream = (uint64_t)c->attrs->uniform.stream,
        .run = hod__rows()->uniform,
    };
    hod__parallel(samples, HOD_MAX(1, 4096 / job.elements), draw_samples, &job);
    return 0;
}
