/* The fronts of types and shapes: defaults, negative dimensions, one size left open, and the copy
 * that a reshape sometimes needs. What changes nothing returns its input. */
#include "ops/rules.h"

hod_tensor *hod_cast(hod_tensor *x, hod_dtype dtype)
{
    if (hod__null("cast", "x", x))
        return NULL;
    if ((unsigned)dtype >= HOD_DTYPES)
        return HOD_FAIL(ARGUMENT, "cast: no element type %d", (int)dtype);
    return hod__cast_to(x, dtype);
}

hod_tensor *hod_copy(hod_tensor *x)
{
    return hod__op(HOD_OP_contiguous, NULL, 1, &x);
}

hod_tensor *hod_contiguous(hod_tensor *x)
{
    return x && hod__is_row_major(x) ? x : hod_copy(x);
}

hod_tensor *hod__stop_gradient(hod_tensor *t)
{
    return hod__own(hod__tensor_same(t));
}

static hod_tensor *with_shape(hod_op op, hod_tensor *x, const hod_shape *shape)
{
    HOD_ATTRS(a);
    a.shape.shape = *shape;
    return hod__op(op, &a, 1, &x);
}

hod_tensor *hod__reshape_to(hod_tensor *t, int ndim, const int64_t *shape)
{
    int64_t strides[HOD_MAX_DIMS];
    if (!t || hod__same_sizes(t->ndim, t->shape, ndim, shape))
        return t;
    hod_shape s = hod_shape_of(ndim, shape);
    bool countable = ndim <= HOD_MAX_DIMS && hod__numel(ndim, shape) == hod_tensor_numel(t);
    if (countable && !hod__view_strides(t, ndim, shape, strides))
        t = hod_copy(t);
    return with_shape(HOD_OP_reshape, t, &s);
}

bool hod__one_open(const char *name, const hod_shape *s)
{
    int open = 0;
    for (int i = 0; i < s->n && i < HOD_MAX_DIMS; i++)
        open += s->d[i] == -1;
    if (open > 1)
        HOD_FAIL(ARGUMENT, "%s: %d sizes of %s are open (-1), one may be", name, open,
                 hod__shape_text(HOD_MIN(s->n, HOD_MAX_DIMS), s->d, (char[96]){0}, 96));
    return open <= 1;
}

int64_t hod__close_shape(int64_t n, hod_shape *shape)
{
    int open = -1;
    int64_t others = 1;
    if (shape->n > HOD_MAX_DIMS)
        return -1;
    for (int i = 0; i < shape->n; i++)
        if (shape->d[i] == -1 && open < 0)
            open = i;
        else if (!hod__mul_size(others, shape->d[i], &others))
            return -1;
    if (open < 0 || others < 0)
        return -1;
    if (others == 0 || n % others != 0)
        return others;
    shape->d[open] = n / others;
    return -1;
}

hod_tensor *hod_reshape(hod_tensor *x, hod_shape shape)
{
    if (hod__null("reshape", "x", x))
        return NULL;
    if (!hod__one_open("reshape", &shape))
        return NULL;
    hod_shape asked = shape;
    int64_t others = hod__close_shape(hod_tensor_numel(x), &shape);
    if (others >= 0)
        return HOD_FAIL(ARGUMENT, "reshape: %s has %lld elements, which %lld does not divide: %s",
                        HOD_SHAPE_TEXT(x), (long long)hod_tensor_numel(x), (long long)others,
                        hod__shape_text(asked.n, asked.d, (char[96]){0}, 96));
    return hod__reshape_to(x, shape.n, shape.d);
}

hod_tensor *hod_flatten(hod_tensor *x, int from)
{
    if (hod__null("flatten", "x", x))
        return NULL;
    int d = hod__dim("flatten", from, HOD_MAX(x->ndim, 1));
    if (d < 0)
        return NULL;
    hod_shape s = {.n = d + 1};
    memcpy(s.d, x->shape, (size_t)d * sizeof *s.d);
    s.d[d] = hod__numel(x->ndim - d, x->shape + d);
    return hod__reshape_to(x, s.n, s.d);
}

hod_tensor *hod_squeeze(hod_tensor *x, int dim)
{
    if (hod__null("squeeze", "x", x))
        return NULL;
    int d = hod__dim("squeeze", dim, x->ndim);
    if (d < 0)
        return NULL;
    if (x->shape[d] != 1)
        return HOD_FAIL(ARGUMENT, "squeeze: dimension %d of %s is not 1", d, HOD_SHAPE_TEXT(x));
    hod_shape s = {.n = 0};
    for (int i = 0; i < x->ndim; i++)
        if (i != d)
            s.d[s.n++] = x->shape[i];
    return hod__reshape_to(x, s.n, s.d);
}

hod_tensor *hod_unsqueeze(hod_tensor *x, int dim)
{
    if (hod__null("unsqueeze", "x", x))
        return NULL;
    int d = hod__dim("unsqueeze", dim, x->ndim + 1);
    if (d < 0)
        return NULL;
    if (x->ndim == HOD_MAX_DIMS)
        return HOD_FAIL(ARGUMENT, "unsqueeze: %s has %d dimensions already", HOD_SHAPE_TEXT(x),
                        HOD_MAX_DIMS);
    hod_shape s = {.n = 0};
    for (int i = 0; i <= x->ndim; i++) {
        if (i == d)
            s.d[s.n++] = 1;
        if (i < x->ndim)
            s.d[s.n++] = x->shape[i];
    }
    return hod__reshape_to(x, s.n, s.d);
}

hod_tensor *hod_permute_to(hod_tensor *x, hod_shape order)
{
    if (hod__null("permute", "x", x))
        return NULL;
    HOD_ATTRS(a);
    for (int i = 0; i < order.n && i < HOD_MAX_DIMS; i++)
        if (order.d[i] < 0)
            order.d[i] += x->ndim;
    a.permute.order = order;
    return hod__op(HOD_OP_permute, &a, 1, &x);
}

hod_tensor *hod_transpose(hod_tensor *x, int a, int b)
{
    if (hod__null("transpose", "x", x))
        return NULL;
    int da = hod__dim("transpose", a, x->ndim), db = hod__dim("transpose", b, x->ndim);
    if (da < 0 || db < 0)
        return NULL;
    hod_shape order = {.n = x->ndim};
    for (int i = 0; i < x->ndim; i++)
        order.d[i] = i == da ? db : i == db ? da : i;
    return hod_permute_to(x, order);
}

hod_tensor *hod_expand(hod_tensor *x, hod_shape shape)
{
    if (hod__null("expand", "x", x))
        return NULL;
    if (shape.n < 0 || shape.n > HOD_MAX_DIMS)
        return HOD_FAIL(ARGUMENT, "expand: %d dimensions, at most %d", shape.n, HOD_MAX_DIMS);
    int lead = shape.n - x->ndim;
    for (int i = HOD_MAX(lead, 0); i < shape.n && i < HOD_MAX_DIMS; i++)
        if (shape.d[i] == -1)
            shape.d[i] = x->shape[i - lead];
    return hod__same_sizes(x->ndim, x->shape, shape.n, shape.d)
               ? x
               : with_shape(HOD_OP_expand, x, &shape);
}

/* Elements start, start + step, ... above stop: the same ones forwards, then flipped. */
static hod_tensor *slice_back(hod_tensor *x, int d, int64_t start, int64_t stop, int64_t step)
{
    int64_t size = x->shape[d], by = -HOD_MAX(step, -INT64_MAX);
    start = HOD_MIN(HOD_MAX(start < 0 ? start + size : start, -1), size - 1);
    stop = HOD_MIN(HOD_MAX(stop < 0 ? stop + size : stop, -1), start);
    int64_t n = start > stop ? (start - stop - 1) / by + 1 : 0;
    int64_t first = n > 0 ? start - (n - 1) * by : 0;
    HOD_ATTRS(a);
    a.flip.dims = 1u << d;
    hod_tensor *forwards = hod_slice_step(x, d, first, n > 0 ? start + 1 : 0, by);
    return hod__op(HOD_OP_flip, &a, 1, &forwards);
}

hod_tensor *hod_slice_step(hod_tensor *x, int dim, int64_t start, int64_t stop, int64_t step)
{
    if (hod__null("slice", "x", x))
        return NULL;
    int d = hod__dim("slice", dim, x->ndim);
    if (d < 0)
        return NULL;
    int64_t size = x->shape[d];
    if (step < 0)
        return slice_back(x, d, start, stop, step);
    start = HOD_MIN(HOD_MAX(start < 0 ? start + size : start, 0), size);
    stop = HOD_MIN(HOD_MAX(stop < 0 ? stop + size : stop, start), size);
    if (start == 0 && stop == size && step == 1)
        return x;
    HOD_ATTRS(a);
    step = HOD_MIN(step, HOD_MAX(size, 1)); /* a longer one reaches no second element, either */
    a.slice = (hod_attrs_slice){d, start, stop, step};
    return hod__op(HOD_OP_slice, &a, 1, &x);
}

hod_tensor *hod_slice(hod_tensor *x, int dim, int64_t start, int64_t stop)
{
    return hod_slice_step(x, dim, start, stop, 1);
}

hod_tensor *hod_select(hod_tensor *x, int dim, int64_t index)
{
    if (hod__null("select", "x", x))
        return NULL;
    int d = hod__dim("select", dim, x->ndim);
    if (d < 0)
        return NULL;
    int64_t size = x->shape[d], at = index < 0 ? index + size : index;
    if (at < 0 || at >= size)
        return HOD_FAIL(ARGUMENT, "select: index %lld in dimension %d of %s, which has %lld",
                        (long long)index, d, HOD_SHAPE_TEXT(x), (long long)x->shape[d]);
    return hod_squeeze(hod_slice(x, d, at, at + 1), d);
}
