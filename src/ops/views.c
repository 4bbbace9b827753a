/* Views: the same storage through other strides.
 *
 * A reshape is possible without a copy when every run of new dimensions lies inside a run of old
 * ones whose strides chain (stride[i] = stride[i+1] * shape[i+1]): then the run is one dimension,
 * and can be cut anew. Otherwise the front reshapes a copy.
 */
#include "ops/rules.h"

/* Merges old dimensions that chain, dropping those of size 1. Returns how many are left. */
static int merge_dims(const hod_tensor *t, int64_t *shape, int64_t *stride)
{
    int n = 0;
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] == 1)
            continue;
        if (n > 0 && stride[n - 1] == t->strides[i] * t->shape[i]) {
            shape[n - 1] *= t->shape[i];
            stride[n - 1] = t->strides[i];
        } else {
            shape[n] = t->shape[i];
            stride[n++] = t->strides[i];
        }
    }
    return n;
}

bool hod__view_strides(const hod_tensor *t, int ndim, const int64_t *shape, int64_t *strides)
{
    int64_t old_shape[HOD_MAX_DIMS], old_stride[HOD_MAX_DIMS];
    hod__row_major(ndim, shape, strides);
    if (hod__numel(ndim, shape) == 0)
        return true;
    int k = merge_dims(t, old_shape, old_stride) - 1;
    int64_t left = k >= 0 ? old_shape[k] : 1; /* of the old run, not yet given to new dims */
    int64_t next = k >= 0 ? old_stride[k] : 1;
    for (int i = ndim - 1; i >= 0; i--) {
        if (shape[i] == 1) {
            strides[i] = next;
            continue;
        }
        if (left == 1 && k > 0) {
            k--;
            left = old_shape[k];
            next = old_stride[k];
        }
        if (left % shape[i] != 0)
            return false;
        strides[i] = next;
        left /= shape[i];
        next *= shape[i];
    }
    return true;
}

int hod__view_reshape(const hod_op_call *c, hod_tensor *out)
{
    int64_t strides[HOD_MAX_DIMS];
    if (!hod__view_strides(c->in[0], out->ndim, out->shape, strides))
        return HOD_FAIL_RC(ARGUMENT, "reshape: %s with its strides is no view of %s",
                           HOD_SHAPE_TEXT(out), HOD_SHAPE_TEXT(c->in[0]));
    memcpy(out->strides, strides, (size_t)out->ndim * sizeof *strides);
    return 0;
}

int hod__view_permute(const hod_op_call *c, hod_tensor *out)
{
    for (int i = 0; i < out->ndim; i++)
        out->strides[i] = c->in[0]->strides[c->attrs->permute.order.d[i]];
    return 0;
}

int hod__view_expand(const hod_op_call *c, hod_tensor *out)
{
    const hod_tensor *x = c->in[0];
    int lead = out->ndim - x->ndim;
    for (int i = out->ndim - 1; i >= 0; i--) {
        bool repeated = i < lead || (x->shape[i - lead] == 1 && out->shape[i] != 1);
        out->strides[i] = repeated ? 0 : x->strides[i - lead];
    }
    return 0;
}

int hod__view_slice(const hod_op_call *c, hod_tensor *out)
{
    const hod_attrs_slice *s = &c->attrs->slice;
    int64_t stride = c->in[0]->strides[s->dim];
    if (out->shape[s->dim] > 0)
        out->offset += s->start * stride;
    out->strides[s->dim] = stride * s->step;
    return 0;
}
