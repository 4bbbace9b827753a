/* The reductions, eagerly. The input's dimensions are sorted into kept and reduced ones, merged
 * where strides chain, and folded in one of three ways:
 *
 *     along    each result folds a run of memory           (softmax rows, sums over channels)
 *     columns  neighbouring results fold neighbouring       (bias gradients: sum over the batch)
 *              columns, row by row
 *     whole    few results of many elements: fixed pieces in parallel, merged in order
 *
 * The order of additions depends on shapes alone, so any number of threads gives the same bits.
 */
#include "ops/rows.h"
#include "ops/rules.h"

/* A group of dimensions, merged; n elements in all. Empty: one element. */
typedef struct dims {
    int ndim;
    int64_t shape[HOD_MAX_DIMS], x[HOD_MAX_DIMS], out[HOD_MAX_DIMS]; /* out: kept dims only */
    int64_t n;
} dims;

static void add_dim(dims *d, int64_t size, int64_t x, int64_t out)
{
    d->n *= size;
    if (size == 1)
        return;
    int last = d->ndim - 1;
    if (last >= 0 && d->x[last] == x * size && d->out[last] == out * size) {
        d->shape[last] *= size;
        d->x[last] = x;
        d->out[last] = out;
        return;
    }
    d->shape[d->ndim] = size;
    d->x[d->ndim] = x;
    d->out[d->ndim++] = out;
}

/* Offsets of element `at` among the first `ndim` dimensions. */
static void offsets(const dims *d, int ndim, int64_t at, int64_t *x, int64_t *out)
{
    *x = *out = 0;
    for (int i = ndim - 1; i >= 0; i--) {
        int64_t k = at % d->shape[i];
        at /= d->shape[i];
        *x += k * d->x[i];
        *out += k * d->out[i];
    }
}

typedef struct reduce_job {
    const hod_folder *f;
    dims kept, reduced;
    const char *x;
    char *out;
    int64_t x_size, out_size; /* bytes of an element */
    char *partial;            /* whole: one accumulator a piece */
    int64_t x_base;           /* whole: element offset of the result at hand */
} reduce_job;

enum { PIECE = 16384, COLUMNS = 256, PARALLEL_ELEMENTS = 32768 };

/* Folds elements [begin, end) of the reduced dimensions, counted in order, into acc. */
static void fold_range(const reduce_job *job, int64_t x_offset, int64_t begin, int64_t end,
                       void *acc)
{
    const dims *r = &job->reduced;
    int64_t length = r->ndim ? r->shape[r->ndim - 1] : 1;
    int64_t stride = r->ndim ? r->x[r->ndim - 1] : 1;
    while (begin < end) {
        int64_t row = begin / length, from = begin % length;
        int64_t n = HOD_MIN(length - from, end - begin), x, unused;
        offsets(r, r->ndim - 1, row, &x, &unused);
        job->f->fold(acc, n, job->x + (x_offset + x + from * stride) * job->x_size, stride);
        begin += n;
    }
}

static void along(void *context, int64_t begin, int64_t end)
{
    const reduce_job *job = context;
    for (int64_t i = begin; i < end; i++) {
        int64_t x, out;
        uint64_t acc;
        offsets(&job->kept, job->kept.ndim, i, &x, &out);
        job->f->begin(&acc, 1);
        fold_range(job, x, 0, job->reduced.n, &acc);
        job->f->put(job->out + out * job->out_size, &acc);
    }
}

/* [begin, end) counts blocks of up to COLUMNS neighbouring results. */
static void columns(void *context, int64_t begin, int64_t end)
{
    const reduce_job *job = context;
    const dims *k = &job->kept, *r = &job->reduced;
    int last = k->ndim - 1;
    int64_t blocks = (k->shape[last] + COLUMNS - 1) / COLUMNS;
    for (int64_t b = begin; b < end; b++) {
        int64_t x, out, from = b % blocks * COLUMNS;
        int64_t n = HOD_MIN(COLUMNS, k->shape[last] - from);
        uint64_t accs[COLUMNS];
        offsets(k, last, b / blocks, &x, &out);
        x += from * k->x[last];
        out += from * k->out[last];
        job->f->begin(accs, n);
        for (int64_t i = 0; i < r->n; i++) {
            int64_t dx, unused;
            offsets(r, r->ndim, i, &dx, &unused);
            job->f->columns(accs, n, job->x + (x + dx) * job->x_size);
        }
        for (int64_t j = 0; j < n; j++)
            job->f->put(job->out + (out + j * k->out[last]) * job->out_size,
                        (char *)accs + (size_t)j * job->f->acc_bytes);
    }
}

static void pieces(void *context, int64_t begin, int64_t end)
{
    const reduce_job *job = context;
    for (int64_t p = begin; p < end; p++) {
        void *acc = job->partial + (size_t)p * sizeof(uint64_t);
        job->f->begin(acc, 1);
        fold_range(job, job->x_base, p * PIECE, HOD_MIN((p + 1) * PIECE, job->reduced.n), acc);
    }
}

static int whole(reduce_job *job)
{
    int64_t n = (job->reduced.n + PIECE - 1) / PIECE;
    job->partial = hod__alloc((size_t)n, sizeof(uint64_t));
    if (!job->partial)
        return -1;
    for (int64_t i = 0; i < job->kept.n; i++) {
        int64_t out;
        uint64_t acc;
        offsets(&job->kept, job->kept.ndim, i, &job->x_base, &out);
        hod__parallel(n, 2, pieces, job);
        job->f->begin(&acc, 1);
        for (int64_t p = 0; p < n; p++)
            job->f->merge(&acc, job->partial + (size_t)p * sizeof(uint64_t));
        job->f->put(job->out + out * job->out_size, &acc);
    }
    free(job->partial);
    return 0;
}

static void indices(void *context, int64_t begin, int64_t end)
{
    const reduce_job *job = context;
    for (int64_t i = begin; i < end; i++) {
        int64_t x, out;
        offsets(&job->kept, job->kept.ndim, i, &x, &out);
        int64_t stride = job->reduced.ndim ? job->reduced.x[0] : 0;
        *(int64_t *)(void *)(job->out + out * job->out_size) =
            job->f->index(job->reduced.n, job->x + x * job->x_size, stride);
    }
}

/* Sorts the dimensions of x by whether they are reduced; `out` may have kept them with size 1. */
static void sort_dims(reduce_job *job, const hod_tensor *x, const hod_tensor *out,
                      const hod_attrs_reduce *r)
{
    job->kept.n = job->reduced.n = 1;
    int at = 0;
    for (int i = 0; i < x->ndim; i++) {
        bool reduced = r->dims >> i & 1;
        add_dim(reduced ? &job->reduced : &job->kept, x->shape[i], x->strides[i],
                reduced ? x->strides[i] : out->strides[at]);
        at += !reduced || r->keepdim;
    }
}

int hod__eval_reduce(const hod_op_call *c, hod_tensor *out)
{
    const hod_tensor *x = c->in[0];
    reduce_job job = {.f = &hod__rows()->fold[x->dtype][c->op]};
    sort_dims(&job, x, out, &c->attrs->reduce);
    if (job.kept.n == 0)
        return 0;
    job.x = hod__data(x);
    job.out = hod__data(out);
    job.x_size = (int64_t)hod_dtype_bytes(x->dtype);
    job.out_size = (int64_t)hod_dtype_bytes(out->dtype);
    int64_t grain = HOD_MAX(1, PARALLEL_ELEMENTS / HOD_MAX(1, job.reduced.n));
    const dims *k = &job.kept, *r = &job.reduced;
    if (job.f->index)
        hod__parallel(k->n, grain, indices, &job);
    else if (k->n < 16 && r->n >= 4 * PIECE)
        return whole(&job);
    else if (k->ndim && k->x[k->ndim - 1] == 1 && k->shape[k->ndim - 1] >= 8 && r->ndim &&
             r->x[r->ndim - 1] != 1)
        hod__parallel(k->n / k->shape[k->ndim - 1] *
                          ((k->shape[k->ndim - 1] + COLUMNS - 1) / COLUMNS),
                      HOD_MAX(1, PARALLEL_ELEMENTS / (COLUMNS * HOD_MAX(1, r->n))), columns, &job);
    else
        hod__parallel(k->n, grain, along, &job);
    return 0;
}
