/* Copies with a purpose: contiguous, concat, unslice. Each writes into parts of its result, which
 * are views made here on the stack. */
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

int hod__eval_concat(const hod_op_call *c, hod_tensor *out)
{
    int64_t dim = c->attrs->dim.dim, start = 0;
    for (int i = 0; i < c->n; i++) {
        int64_t n = c->in[i]->shape[dim];
        hod_tensor part = part_of(out, dim, start, 1, n);
        if (hod_tensor_numel(c->in[i]) > 0)
            hod__eval_copy(c->in[i], &part);
        start += n;
    }
    return 0;
}

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
