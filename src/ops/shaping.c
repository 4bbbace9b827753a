/* The fronts of types, shapes, constants and indexing: defaults, negative dimensions, one size left
 * open, and the copy that a reshape sometimes needs. What changes nothing returns its input. */
#include "ops/rules.h"

/* ---- constants ---- */

/* Does the type hold the number? Unsigned ones wrap the negative of what they hold, so that adding
 * -1 takes 1 away; a bool holds whether it is 0. */
bool hod__holds(hod_dtype dtype, double value)
{
    static const double end[HOD_DTYPES] = {
        [HOD_I64] = 0x1p63, [HOD_I32] = 0x1p31, [HOD_U8] = 0x1p8};
    return hod__is_float(dtype) || dtype >= HOD_BOOL ||
           (value < end[dtype] && value >= -end[dtype]);
}

hod_tensor *hod_full(hod_dtype dtype, hod_shape shape, double value)
{
    if (!hod__holds(dtype, value))
        return HOD_FAIL(ARGUMENT, "full: %g is outside %s", value, hod_dtype_name(dtype));
    hod_attrs a;
    memset(&a, 0, sizeof a);
    a.full.value = value;
    a.full.dtype = dtype;
    a.full.shape = shape;
    return hod__op(HOD_OP_full, &a, 0, NULL);
}

hod_tensor *hod_full_like(hod_tensor *x, double value)
{
    return hod__null("full_like", "x", x)
               ? NULL
               : hod_full((hod_dtype)x->dtype, hod_tensor_shape(x), value);
}

hod_tensor *hod_iota(hod_dtype dtype, hod_shape shape, int dim)
{
    hod_attrs a;
    memset(&a, 0, sizeof a);
    int d = hod__dim("iota", dim, HOD_MAX(shape.n, 1));
    if (d < 0)
        return NULL;
    a.iota.dtype = dtype;
    a.iota.shape = shape;
    a.iota.dim = d;
    return hod__op(HOD_OP_iota, &a, 0, NULL);
}

hod_tensor *hod_arange(hod_dtype dtype, int64_t n)
{
    return hod_iota(dtype, HOD_SHAPE(n), 0);
}

hod_tensor *hod_uniform(hod_shape shape)
{
    hod_random_key *k = hod__random();
    if (!k)
        return NULL;
    hod_attrs a;
    memset(&a, 0, sizeof a);
    a.uniform.stream = k->stream++;
    a.uniform.shape = shape;
    hod_tensor *index = k->index ? k->index : hod_arange(HOD_I64, shape.n > 0 ? shape.d[0] : 1);
    return hod__op(HOD_OP_uniform, &a, 2, (hod_tensor *[]){k->key, index});
}

/* ---- with a number ---- */

/* The number as a 0-d tensor of x's type; f32 when x is of integers and s is none. */
static hod_tensor *number(hod_tensor *x, double s)
{
    if (!x)
        return NULL;
    bool whole = s == (double)(int64_t)HOD_MAX(HOD_MIN(s, 9e18), -9e18);
    bool widen = !hod__is_float(x->dtype) && !whole;
    if (x->dtype == HOD_BOOL && whole && s != 0 && s != 1)
        return hod_full(HOD_I64, HOD_SHAPE(), s);
    return hod_full(widen ? HOD_F32 : (hod_dtype)x->dtype, HOD_SHAPE(), s);
}

#define WITH_NUMBER(name)                                                                          \
    hod_tensor *hod_##name##_scalar(hod_tensor *x, double s)                                       \
    {                                                                                              \
        return hod_##name(x, number(x, s));                                                        \
    }
WITH_NUMBER(add)
WITH_NUMBER(sub)
WITH_NUMBER(mul)
WITH_NUMBER(div)
WITH_NUMBER(maximum)
WITH_NUMBER(minimum)
WITH_NUMBER(eq)
WITH_NUMBER(ne)
WITH_NUMBER(lt)
WITH_NUMBER(le)
WITH_NUMBER(gt)
WITH_NUMBER(ge)

hod_tensor *hod_pow_scalar(hod_tensor *x, double s)
{
    return x && s == 2 && hod__is_float(x->dtype) ? hod_square(x) : hod_pow(x, number(x, s));
}

hod_tensor *hod_clamp(hod_tensor *x, double low, double high)
{
    if (!(low <= high))
        return HOD_FAIL(ARGUMENT, "clamp: from %g to %g, the first must not be the greater", low,
                        high);
    return hod_clip(x, number(x, low), number(x, high));
}

hod_tensor *hod_square(hod_tensor *x)
{
    return hod_mul(x, x);
}

/* ---- types and shapes ---- */

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
    hod_attrs a;
    memset(&a, 0, sizeof a);
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
    hod_attrs a;
    memset(&a, 0, sizeof a);
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
    hod_attrs a;
    memset(&a, 0, sizeof a);
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
    hod_attrs a;
    memset(&a, 0, sizeof a);
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

/* Concatenates up to HOD_OP_MAX_INPUTS at once, more in rounds. */
static hod_tensor *concat_some(int n, hod_tensor *const *x, int dim)
{
    hod_attrs a;
    memset(&a, 0, sizeof a);
    a.dim.dim = dim;
    if (n <= HOD_OP_MAX_INPUTS)
        return n == 1 ? x[0] : hod__op(HOD_OP_concat, &a, n, x);
    hod_tensor *parts[HOD_OP_MAX_INPUTS];
    int each = (n + HOD_OP_MAX_INPUTS - 1) / HOD_OP_MAX_INPUTS, m = 0;
    for (int i = 0; i < n; i += each)
        parts[m++] = concat_some(HOD_MIN(each, n - i), x + i, dim);
    return hod__op(HOD_OP_concat, &a, m, parts);
}

/* All are like the first but along d. */
static int check_concat(int n, hod_tensor *const *x, int d)
{
    for (int i = 1; i < n; i++) {
        if (x[i]->dtype != x[0]->dtype)
            return HOD_FAIL_RC(ARGUMENT, "concat: input %d is %s, input 0 is %s", i,
                               hod_dtype_name((hod_dtype)x[i]->dtype),
                               hod_dtype_name((hod_dtype)x[0]->dtype));
        if (x[i]->ndim != x[0]->ndim)
            return HOD_FAIL_RC(ARGUMENT,
                               "concat: input %d is %s, input 0 is %s: %d dimensions "
                               "and %d",
                               i, HOD_SHAPE_TEXT(x[i]), HOD_SHAPE_TEXT(x[0]), x[i]->ndim,
                               x[0]->ndim);
        for (int k = 0; k < x[0]->ndim; k++)
            if (k != d && x[i]->shape[k] != x[0]->shape[k])
                return HOD_FAIL_RC(ARGUMENT,
                                   "concat: input %d is %s, input 0 is %s: sizes %lld "
                                   "and %lld of dimension %d differ",
                                   i, HOD_SHAPE_TEXT(x[i]), HOD_SHAPE_TEXT(x[0]),
                                   (long long)x[i]->shape[k], (long long)x[0]->shape[k], k);
    }
    return 0;
}

hod_tensor *hod_concat(int n, hod_tensor *const *x, int dim)
{
    if (n < 1 || !x)
        return HOD_FAIL(ARGUMENT, "concat: of %d tensors, at least 1 wanted", x ? n : 0);
    for (int i = 0; i < n; i++)
        if (hod__null("concat", "an input", x[i]))
            return NULL;
    int d = hod__dim("concat", dim, x[0]->ndim);
    return d < 0 || check_concat(n, x, d) != 0 ? NULL : concat_some(n, x, d);
}

hod_tensor *hod_stack(int n, hod_tensor *const *x, int dim)
{
    if (n < 1 || !x)
        return HOD_FAIL(ARGUMENT, "stack: of %d tensors, at least 1 wanted", x ? n : 0);
    if (hod__null("stack", "an input", x[0]))
        return NULL;
    int d = hod__dim("stack", dim, x[0]->ndim + 1);
    hod_tensor **rows = d < 0 ? NULL : hod__alloc((size_t)n, sizeof *rows);
    if (!rows)
        return NULL;
    for (int i = 0; i < n; i++)
        rows[i] = hod_unsqueeze(x[i], d);
    hod_tensor *y = hod_concat(n, rows, d);
    free(rows);
    return y;
}

hod_tensor *hod_pad(hod_tensor *x, int dim, int64_t before, int64_t after, double value)
{
    if (hod__null("pad", "x", x))
        return NULL;
    int d = hod__dim("pad", dim, x->ndim);
    if (d < 0)
        return NULL;
    int64_t padded;
    if (before < 0 || after < 0 || __builtin_add_overflow(before, x->shape[d], &padded) ||
        __builtin_add_overflow(padded, after, &padded))
        return HOD_FAIL(ARGUMENT, "pad: by %lld and %lld%s", (long long)before, (long long)after,
                        before < 0 || after < 0 ? ", must not be negative" : ": too large");
    hod_attrs a;
    memset(&a, 0, sizeof a);
    if (value == 0) {
        a.unslice = (hod_attrs_unslice){d, before, 1, padded};
        return hod__op(HOD_OP_unslice, &a, 1, &x);
    }
    a.pad.before.n = x->ndim;
    a.pad.shape = hod_tensor_shape(x);
    a.pad.before.d[d] = before;
    a.pad.shape.d[d] = padded;
    a.pad.value = value;
    return hod__op(HOD_OP_pad, &a, 1, &x);
}

/* ---- indexing ---- */

hod_tensor *hod_gather(hod_tensor *x, int dim, hod_tensor *index)
{
    if (hod__null("gather", "x", x) || hod__null("gather", "index", index))
        return NULL;
    int d = hod__dim("gather", dim, HOD_MAX(x->ndim, 1));
    if (d < 0)
        return NULL;
    hod_attrs a;
    memset(&a, 0, sizeof a);
    a.dim.dim = d;
    return hod__op(HOD_OP_gather, &a, 2, (hod_tensor *[]){x, index});
}

hod_tensor *hod_embedding(hod_tensor *w, hod_tensor *index)
{
    return hod__op(HOD_OP_embedding, NULL, 2, (hod_tensor *[]){w, index});
}

hod_tensor *hod_index_select(hod_tensor *x, int dim, hod_tensor *index)
{
    if (hod__null("index_select", "x", x) || hod__null("index_select", "index", index))
        return NULL;
    int d = hod__dim("index_select", dim, x->ndim);
    if (d < 0)
        return NULL;
    if (index->ndim != 1)
        return HOD_FAIL(ARGUMENT, "index_select: the index is %s, not (K)", HOD_SHAPE_TEXT(index));
    if (d == 0)
        return hod_embedding(x, index);
    hod_shape line = {.n = x->ndim}, all = hod_tensor_shape(x);
    for (int i = 0; i < x->ndim; i++)
        line.d[i] = i == d ? index->shape[0] : 1;
    all.d[d] = index->shape[0];
    return hod_gather(x, d, hod_expand(hod_reshape(index, line), all));
}
