/* Copies with a purpose: contiguous, concat, roll, unslice. Each writes into parts of its result,
 * which are views made here on the stack. */
#include "ops/rules.h"

int hod__eval_contiguous(const hod_op_call *c, hod_tensor *out)
{
    hod__eval_copy(c->in[0], out);
    return 0;
}

/* Elements start, start + step, ... of one dimension, n of them. */
static hod_tensor part_of(const hod_tensor *t, int64_t dim, int64_t start, int64_t step, int64_t n)
{
    hod_tensor part = *t;
    part.shape[dim] = n;
    part.strides[dim] *= step;
    part.offset += start * t->strides[dim];
    return part;
}

/* ---- concat ---- */

typedef struct concat_job {
    int n;
    const char *from[HOD_OP_MAX_INPUTS];
    int64_t width[HOD_OP_MAX_INPUTS], from_row[HOD_OP_MAX_INPUTS]; /* elements */
    int64_t row, size; /* elements of the result's row, bytes of one */
    char *to;
} concat_job;

enum {
    BLOCK = 4096, /* elements that stay in the nearest cache */
    PIECE = 64    /* bytes: worth a copy of their own */
};

/* [begin, end): rows of the result, one after another where inputs have long pieces of each. */
static void concat_pieces(const concat_job *job, int64_t begin, int64_t end)
{
    for (int64_t at = begin; at < end; at++) {
        char *to = job->to + at * job->row * job->size;
        for (int i = 0; i < job->n; to += job->width[i++] * job->size)
            if (job->width[i] > 0)
                hod__copy_row(job->width[i] * job->size, to,
                              job->from[i] + at * job->from_row[i] * job->size);
    }
}

/* [begin, end): rows of the result; of short pieces a few rows at a time, so that every line is
 * written at once. */
static void concat_rows(void *context, int64_t begin, int64_t end)
{
    const concat_job *job = context;
    if (job->row * job->size >= job->n * PIECE) {
        concat_pieces(job, begin, end);
        return;
    }
    int64_t step = HOD_MAX(1, BLOCK / job->row);
    for (int64_t at = begin; at < end; at += step) {
        char *to = job->to + at * job->row * job->size;
        for (int i = 0; i < job->n; to += job->width[i++] * job->size)
            if (job->width[i] > 0)
                hod__copy_rows(job->size, HOD_MIN(step, end - at), job->width[i], to, job->row,
                               job->from[i] + at * job->from_row[i] * job->size, job->from_row[i]);
    }
}

/* True when every input is so many rows, each in one piece,
 * that follow each other in the result. */
static bool joins_rows(const hod_op_call *c, const hod_tensor *out, int64_t rows, concat_job *job)
{
    if (rows < 2 || !hod__is_row_major(out))
        return false;
    job->n = c->n;
    for (int i = 0; i < c->n; i++) {
        const hod_tensor *x = c->in[i];
        int64_t strides[2] = {0, 1}, shape[2] = {rows, hod_tensor_numel(x) / rows};
        if (shape[1] > 0 && !hod__view_strides(x, 2, shape, strides))
            return false;
        if (shape[1] > 1 && strides[1] != 1)
            return false;
        job->width[i] = shape[1];
        job->from_row[i] = strides[0];
        job->from[i] = shape[1] > 0 ? hod__data(x) : NULL;
    }
    return true;
}

int hod__eval_concat(const hod_op_call *c, hod_tensor *out)
{
    int64_t dim = c->attrs->dim.dim, start = 0, n = hod_tensor_numel(out);
    int64_t rows = hod__numel((int)dim, out->shape);
    concat_job job;
    if (n > 0 && joins_rows(c, out, rows, &job)) {
        job.to = hod__data(out);
        job.row = n / rows;
        job.size = (int64_t)hod_dtype_bytes(out->dtype);
        hod__parallel(rows, hod__grain(job.row), concat_rows, &job);
        return 0;
    }
    for (int i = 0; i < c->n; i++) {
        int64_t size = c->in[i]->shape[dim];
        hod_tensor part = part_of(out, dim, start, 1, size);
        if (hod_tensor_numel(c->in[i]) > 0)
            hod__eval_copy(c->in[i], &part);
        start += size;
    }
    return 0;
}

/* ---- roll ---- */

int hod__eval_roll(const hod_op_call *c, hod_tensor *out)
{
    const hod_tensor *x = c->in[0];
    int64_t dim = c->attrs->roll.dim, by = c->attrs->roll.shift, stay = x->shape[dim] - by;
    hod_tensor last = part_of(x, dim, stay, 1, by), first = part_of(x, dim, 0, 1, stay);
    hod_attrs a = {.dim = {.dim = dim}};
    return hod__eval_concat(&(hod_op_call){HOD_OP_concat, &a, 2, (hod_tensor *[]){&last, &first}},
                            out);
}

/* ---- unslice ---- */

int hod__eval_unslice(const hod_op_call *c, hod_tensor *out)
{
    const hod_attrs_unslice *s = &c->attrs->unslice;
    if (hod__eval_zero(out) != 0)
        return -1;
    hod_tensor part = part_of(out, s->dim, s->start, s->step, c->in[0]->shape[s->dim]);
    if (hod_tensor_numel(c->in[0]) > 0)
        hod__eval_copy(c->in[0], &part);
    return 0;
}
