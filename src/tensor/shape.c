/* Shapes: sizes, strides and what follows from them. All products are checked: an impossible size
 * is an error in words, never an allocation of what is left after the wrap. */
#include "tensor/tensor.h"

#include <stdio.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[HOD_DTYPES] = {
    [HOD_F32] = {"f32", 4},   [HOD_F64] = {"f64", 8},   [HOD_F16] = {"f16", 2},
    [HOD_BF16] = {"bf16", 2}, [HOD_I64] = {"i64", 8},   [HOD_I32] = {"i32", 4},
    [HOD_U8] = {"u8", 1},     [HOD_BOOL] = {"bool", 1},
};

const char *hod_dtype_name(hod_dtype dtype)
{
    return (unsigned)dtype < HOD_DTYPES ? dtypes[dtype].name : "?";
}

size_t hod_dtype_bytes(hod_dtype dtype)
{
    return (unsigned)dtype < HOD_DTYPES ? dtypes[dtype].bytes : 0;
}

hod_shape hod_shape_of(int n, const int64_t *sizes)
{
    hod_shape shape = {.n = n};
    for (int i = 0; i < HOD_MIN(n, HOD_MAX_DIMS); i++)
        shape.d[i] = sizes[i];
    return shape;
}

int64_t hod__numel(int ndim, const int64_t *shape)
{
    bool empty = false;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return -1;
        empty = empty || shape[i] == 0;
    }
    int64_t n = !empty;
    for (int i = 0; i < ndim && n > 0; i++)
        if (!hod__mul_size(n, shape[i], &n))
            return -1;
    return n;
}

bool hod__same_sizes(int na, const int64_t *a, int nb, const int64_t *b)
{
    return na == nb && memcmp(a, b, (size_t)na * sizeof *a) == 0;
}

void hod__row_major(int ndim, const int64_t *shape, int64_t *strides)
{
    int64_t step = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        strides[i] = step;
        if (!hod__mul_size(step, HOD_MAX(shape[i], 1), &step))
            step = 0; /* only with a size 0 elsewhere: nothing is ever addressed */
    }
}

bool hod__is_row_major(const hod_tensor *t)
{
    int64_t step = 1;
    bool dense = true;
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (t->shape[i] == 0)
            return true;
        dense = dense && (t->shape[i] == 1 || t->strides[i] == step) &&
                hod__mul_size(step, t->shape[i], &step);
    }
    return dense;
}

hod_meta hod__meta(const hod_tensor *t)
{
    hod_meta m = {.dtype = t->dtype, .ndim = t->ndim};
    memcpy(m.shape, t->shape, sizeof m.shape);
    return m;
}

int64_t hod__meta_bytes(const hod_meta *m)
{
    if ((unsigned)m->dtype >= HOD_DTYPES)
        return HOD_FAIL_RC(ARGUMENT, "tensor: dtype %d does not exist", (int)m->dtype);
    if (m->ndim < 0 || m->ndim > HOD_MAX_DIMS)
        return HOD_FAIL_RC(ARGUMENT, "tensor: %d dimensions, at most %d", m->ndim, HOD_MAX_DIMS);
    int64_t n = hod__numel(m->ndim, m->shape), bytes;
    if (n < 0 || !hod__mul_size(n, (int64_t)hod_dtype_bytes(m->dtype), &bytes))
        return HOD_FAIL_RC(ARGUMENT, "tensor: size %s is impossible", HOD_SHAPE_TEXT(m));
    return bytes;
}

/* Sorted by stride, a dimension that steps over everything the smaller ones reach cannot collide
 * with them. The converse fails for exotic strides (2,3 with sizes 2,2 is injective): those count
 * as overlapping, which only costs a copy. */
bool hod__overlaps_itself(const hod_tensor *t)
{
    int order[HOD_MAX_DIMS], n = 0;
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] == 0)
            return false;
        if (t->shape[i] == 1)
            continue;
        int at = n++;
        for (; at > 0 && llabs(t->strides[order[at - 1]]) > llabs(t->strides[i]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    int64_t reach = 0; /* largest distance between two elements of the dimensions so far */
    for (int k = 0; k < n; k++) {
        int64_t stride = llabs(t->strides[order[k]]);
        if (stride <= reach)
            return true;
        reach += stride * (t->shape[order[k]] - 1);
    }
    return false;
}

char *hod__shape_text(int ndim, const int64_t *shape, char *buf, size_t cap)
{
    size_t n = (size_t)snprintf(buf, cap, "(");
    for (int i = 0; i < HOD_MIN(ndim, HOD_MAX_DIMS) && n < cap; i++)
        n += (size_t)snprintf(buf + n, cap - n, i ? ",%lld" : "%lld", (long long)shape[i]);
    if (n < cap)
        snprintf(buf + n, cap - n, ")");
    return buf;
}
