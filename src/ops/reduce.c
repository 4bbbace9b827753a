/* The reductions, eagerly. The input's dimensions are sorted into kept and reduced ones, merged
 * where strides chain, and folded in one of three ways, as are those of indices:
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
        int64_t k = i > 0 ? at % d->shape[i] : at; /* a division costs as much as a short row */
        at = i > 0 ? at / d->shape[i] : 0;
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
    char *partial;            /* whole: one accumulator a piece, or index */
    int64_t x_base;           /* whole: element offset of the result at hand */
    int64_t width;            /* columns: of a block; results do not depend on it */
} reduce_job;

enum { PIECE = 16384, COLUMNS = 1024, FEW_COLUMNS = 64 };

/* Folds elements [begin, end) of the reduced dimensions, counted in order, into acc. */
static void fold_range(const reduce_job *job, int64_t x_offset, int64_t begin, int64_t end,
                       void *acc)
{
    const dims *r = &job->reduced;
    int64_t length = r->ndim ? r->shape[r->ndim - 1] : 1;
    int64_t stride = r->ndim ? r->x[r->ndim - 1] : 1;
    if (r->ndim <= 1) {
        job->f->fold(acc, end - begin, job->x + (x_offset + begin * stride) * job->x_size, stride);
        return;
    }
    while (begin < end) {
        int64_t row = begin / length, from = begin % length;
        int64_t n = HOD_MIN(length - from, end - begin), x, unused;
        offsets(r, r->ndim - 1, row, &x, &unused);
        job->f->fold(acc, n, job->x + (x_offset + x + from * stride) * job->x_size, stride);
        begin += n;
    }
}

/* Dense runs that follow one another in x and in out. */
static void rows(void *context, int64_t begin, int64_t end)
{
    const reduce_job *job = context;
    int64_t x, out, step = job->kept.ndim ? job->kept.x[0] : 0;
    offsets(&job->kept, job->kept.ndim, begin, &x, &out);
    job->f->rows(job->out + out * job->out_size, job->kept.ndim ? job->kept.out[0] : 0, end - begin,
                 job->reduced.n, job->x + x * job->x_size, step);
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
        job->f->put(job->out + out * job->out_size, 1, &acc, 1);
    }
}

/* A block of neighbouring results: where it begins in x and out, and how many there are. */
static int64_t block_of_columns(const reduce_job *job, int64_t b, int64_t *x, int64_t *out)
{
    const dims *k = &job->kept;
    int last = k->ndim - 1;
    int64_t blocks = (k->shape[last] + job->width - 1) / job->width, from = b % blocks * job->width;
    offsets(k, last, b / blocks, x, out);
    *x += from * k->x[last];
    *out += from * k->out[last];
    return HOD_MIN(job->width, k->shape[last] - from);
}

static void columns(void *context, int64_t begin, int64_t end)
{
    const reduce_job *job = context;
    const dims *r = &job->reduced;
    int64_t rows = r->shape[r->ndim - 1], step = r->x[r->ndim - 1];
    int64_t runs = rows > 0 ? r->n / rows : 0;
    int64_t apart = job->kept.out[job->kept.ndim - 1];
    for (int64_t b = begin; b < end; b++) {
        int64_t x, out, n = block_of_columns(job, b, &x, &out);
        uint64_t accs[COLUMNS];
        job->f->begin(accs, n);
        for (int64_t i = 0; i < runs; i++) {
            int64_t dx, unused;
            offsets(r, r->ndim - 1, i, &dx, &unused);
            job->f->columns(accs, n, job->x + (x + dx) * job->x_size, rows, step);
        }
        job->f->put(job->out + out * job->out_size, apart, accs, n);
    }
}

static void index_columns(void *context, int64_t begin, int64_t end)
{
    const reduce_job *job = context;
    int64_t apart = job->kept.out[job->kept.ndim - 1], at[INDEX_COLUMNS];
    for (int64_t b = begin; b < end; b++) {
        int64_t x, out, n = block_of_columns(job, b, &x, &out);
        job->f->index_columns(n, at, job->x + x * job->x_size, job->reduced.n, job->reduced.x[0]);
        for (int64_t j = 0; j < n; j++)
            ((int64_t *)(void *)job->out)[out + j * apart] = at[j];
    }
}

/* Runs `part` over blocks of at most `most` columns, but as many as there are threads. */
static void by_columns(reduce_job *job, int64_t most,
                       void (*part)(void *context, int64_t begin, int64_t end))
{
    const dims *k = &job->kept;
    int64_t last = k->shape[k->ndim - 1], threads = hod__cpu()->threads;
    int64_t share = (k->n / threads + FEW_COLUMNS - 1) / FEW_COLUMNS * FEW_COLUMNS;
    job->width = HOD_MIN(most, HOD_MAX(share, FEW_COLUMNS));
    int64_t each = HOD_MIN(job->width, last) * job->reduced.n;
    hod__parallel(k->n / last * ((last + job->width - 1) / job->width), hod__grain(each), part,
                  job);
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
        job->f->put(job->out + out * job->out_size, 1, &acc, 1);
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

static void index_pieces(void *context, int64_t begin, int64_t end)
{
    const reduce_job *job = context;
    for (int64_t p = begin; p < end; p++) {
        int64_t from = p * PIECE, n = HOD_MIN(PIECE, job->reduced.n - from);
        ((int64_t *)(void *)job->partial)[p] =
            from + job->f->index(n, job->x + (job->x_base + from) * job->x_size, 1);
    }
}

/* Few indices among many neighbouring elements each. */
static int index_whole(reduce_job *job)
{
    int64_t n = (job->reduced.n + PIECE - 1) / PIECE;
    int64_t *found = hod__alloc((size_t)n, sizeof *found);
    if (!found)
        return -1;
    job->partial = (char *)found;
    for (int64_t i = 0; i < job->kept.n; i++) {
        int64_t out, best = 0;
        offsets(&job->kept, job->kept.ndim, i, &job->x_base, &out);
        hod__parallel(n, 2, index_pieces, job);
        for (int64_t p = 0; p < n; p++)
            if (job->f->takes(job->x + job->x_base * job->x_size, best, found[p]))
                best = found[p];
        ((int64_t *)(void *)job->out)[out] = best;
    }
    free(found);
    return 0;
}

/* Sorts the dimensions of x by whether they are reduced; `out`, which is not empty, may have kept
 * them with size 1. Those of an empty x may be such that their product has no number: they are one
 * of size 0. */
static void sort_dims(reduce_job *job, const hod_tensor *x, const hod_tensor *out,
                      const hod_attrs_reduce *r)
{
    bool empty = hod_tensor_numel(x) == 0;
    job->kept.n = job->reduced.n = 1;
    int at = 0;
    for (int i = 0; i < x->ndim; i++) {
        bool reduced = r->dims >> i & 1;
        int64_t step = empty ? 0 : x->strides[i];
        if (!reduced || !empty)
            add_dim(reduced ? &job->reduced : &job->kept, x->shape[i], step,
                    reduced ? step : out->strides[at]);
        at += !reduced || r->keepdim;
    }
    if (empty)
        add_dim(&job->reduced, 0, 0, 0);
}

int hod__eval_reduce(const hod_op_call *c, hod_tensor *out)
{
    const hod_tensor *x = c->in[0];
    reduce_job job = {.f = &hod__rows()->fold[x->dtype][c->op]};
    if (hod_tensor_numel(out) == 0)
        return 0;
    sort_dims(&job, x, out, &c->attrs->reduce);
    job.x = hod__data(x);
    job.out = hod__data(out);
    job.x_size = (int64_t)hod_dtype_bytes(x->dtype);
    job.out_size = (int64_t)hod_dtype_bytes(out->dtype);
    int64_t grain = hod__grain(job.reduced.n);
    const dims *k = &job.kept, *r = &job.reduced;
    bool dense = r->ndim && r->x[r->ndim - 1] == 1, few = k->n < 16 && r->n >= 4 * PIECE;
    bool wide =
        k->ndim && k->x[k->ndim - 1] == 1 && k->shape[k->ndim - 1] >= 8 && r->ndim && !dense;
    if (job.f->index) {
        if (few && dense)
            return index_whole(&job);
        if (wide)
            by_columns(&job, INDEX_COLUMNS, index_columns);
        else
            hod__parallel(k->n, grain, indices, &job);
    } else if (few)
        return whole(&job);
    else if (wide)
        by_columns(&job, COLUMNS, columns);
    else
        hod__parallel(k->n, grain, dense && r->ndim == 1 && k->ndim <= 1 ? rows : along, &job);
    return 0;
}
