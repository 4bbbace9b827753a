/* The elementwise operators, eagerly: rows from pointwise_tmpl.c, walked by hod_iter. 16-bit floats
 * are brought to f32 a block at a time, run through the rows of f32, and brought back. */
#include "ops/rows.h"
#include "ops/rules.h"

typedef struct pointwise_job {
    hod_iter it; /* operand 0 is the result */
    hod_row *run;
    char *base[HOD_ITER_MAX];
    int64_t size[HOD_ITER_MAX];       /* bytes of an element */
    hod_cast_row *half[HOD_ITER_MAX]; /* 16-bit floats: to f32, for the result from it; else NULL */
} pointwise_job;

enum { BLOCK = 1024 }; /* elements of a block of 16-bit floats: four buffers fit the first cache */

static void run_halves(const pointwise_job *job, int64_t n, char *out, int64_t so,
                       const void *const *in, const int64_t *s)
{
    _Alignas(64) float buffer[HOD_ITER_MAX][BLOCK];
    for (int64_t from = 0; from < n; from += BLOCK) {
        int64_t m = HOD_MIN(BLOCK, n - from), step[HOD_ITER_MAX];
        const void *x[HOD_ITER_MAX];
        for (int k = 1; k < job->it.n_operands; k++) {
            const char *at = (const char *)in[k - 1] + from * s[k - 1] * job->size[k];
            bool one = s[k - 1] == 0;
            x[k - 1] = job->half[k] ? (const void *)buffer[k] : at;
            step[k - 1] = job->half[k] ? !one : s[k - 1];
            if (job->half[k])
                job->half[k](one ? 1 : m, buffer[k], 1, at, s[k - 1]);
        }
        char *to = out + from * so * job->size[0];
        if (!job->half[0]) {
            job->run(m, to, so, x, step);
            continue;
        }
        job->run(m, buffer[0], 1, x, step);
        job->half[0](m, to, so, buffer[0], 1);
    }
}

/* Runs a stretch of one row: elements [from, to). */
static void run_stretch(const pointwise_job *job, const int64_t *offset, int64_t from, int64_t to)
{
    int last = job->it.ndim - 1;
    const void *in[HOD_ITER_MAX];
    int64_t s[HOD_ITER_MAX];
    for (int k = 1; k < job->it.n_operands; k++) {
        s[k - 1] = job->it.strides[k][last];
        in[k - 1] = job->base[k] + (offset[k] + from * s[k - 1]) * job->size[k];
    }
    int64_t so = job->it.strides[0][last];
    char *out = job->base[0] + (offset[0] + from * so) * job->size[0];
    if (job->half[job->it.n_operands - 1])
        run_halves(job, to - from, out, so, in, s);
    else
        job->run(to - from, out, so, in, s);
}

static void run_rows(void *context, int64_t begin, int64_t end)
{
    const pointwise_job *job = context;
    for (int64_t r = begin; r < end; r++) {
        int64_t offset[HOD_ITER_MAX];
        hod__iter_row(&job->it, r, offset);
        run_stretch(job, offset, 0, job->it.shape[job->it.ndim - 1]);
    }
}

/* Contiguous operations are one row, which is cut into stretches instead. */
static void run_only_row(void *context, int64_t begin, int64_t end)
{
    run_stretch(context, (int64_t[HOD_ITER_MAX]){0}, begin, end);
}

static hod_row *row_of(hod_dtype dtype, hod_op op)
{
    bool half = hod__is_half(dtype);
    const hod_rows *rows = hod__rows();
    hod_row *quick = half || dtype == HOD_F32 ? rows->near[op] : NULL;
    return quick ? quick : rows->pointwise[half ? HOD_F32 : dtype][op];
}

int hod__eval_pointwise(const hod_op_call *c, hod_tensor *out)
{
    if (c->op == HOD_OP_cast)
        return hod__eval_cast(c, out);
    const hod_tensor *operand[HOD_ITER_MAX] = {out};
    pointwise_job job = {0};
    job.run = row_of(c->in[c->n - 1]->dtype, c->op);
    for (int k = 0; k < c->n; k++)
        operand[k + 1] = c->in[k];
    for (int k = 0; k <= c->n; k++)
        if (hod__is_half(operand[k]->dtype))
            job.half[k] = k ? hod__rows()->cast[operand[k]->dtype][HOD_F32]
                            : hod__rows()->cast[HOD_F32][operand[k]->dtype];
    hod__iter_begin(&job.it, out->ndim, out->shape, c->n + 1, operand);
    if (job.it.n == 0)
        return 0;
    for (int k = 0; k <= c->n; k++) {
        job.base[k] = hod__data(operand[k]);
        job.size[k] = (int64_t)hod_dtype_bytes(operand[k]->dtype);
    }
    int64_t length = job.it.shape[job.it.ndim - 1];
    if (job.it.ndim == 1)
        hod__parallel(length, HOD_PARALLEL_ELEMENTS, run_only_row, &job);
    else
        hod__parallel(hod__iter_rows(&job.it), hod__grain(length), run_rows, &job);
    return 0;
}
