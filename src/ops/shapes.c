/* Shape rules of the families: elementwise, reductions, views, sources, movement of elements.
 *
 * A rule sees what the inputs are, never their values, and answers what the result is or says in
 * words why there is none. Convolution, pooling and indexing keep theirs beside their kernels.
 */
#include "ops/rules.h"

bool hod__broadcast(int na, const int64_t *a, int nb, const int64_t *b, int *nout, int64_t *out)
{
    int n = HOD_MAX(na, nb);
    for (int i = 0; i < n; i++) {
        int64_t x = i < n - na ? 1 : a[i - (n - na)];
        int64_t y = i < n - nb ? 1 : b[i - (n - nb)];
        if (x != y && x != 1 && y != 1)
            return false;
        out[i] = x == 1 ? y : x;
    }
    *nout = n;
    return true;
}

int hod__check_like(const char *name, const hod_meta *have, const hod_meta *want)
{
    if (have->dtype == want->dtype &&
        hod__same_sizes(have->ndim, have->shape, want->ndim, want->shape))
        return 0;
    return HOD_FAIL_RC(ARGUMENT, "%s: %s %s where %s %s is wanted", name,
                       hod_dtype_name(have->dtype), HOD_META_TEXT(have),
                       hod_dtype_name(want->dtype), HOD_META_TEXT(want));
}

bool hod__window(int64_t size, const int64_t padding[2], int64_t kernel, int64_t stride,
                 int64_t dilation, int64_t *room, int64_t *window)
{
    const int64_t numbers[] = {padding[0], padding[1], size, kernel, stride, dilation};
    for (int i = 0; i < HOD_COUNT(numbers); i++)
        if (numbers[i] < (i < 3 ? 0 : 1) || numbers[i] > INT32_MAX)
            return false;
    *room = size + padding[0] + padding[1];
    *window = dilation * (kernel - 1) + 1;
    return *room <= INT32_MAX && *window <= INT32_MAX;
}

int64_t hod__count_windows(const char *name, const hod_meta *x, int side, const int64_t padding[4],
                           int64_t kernel, int64_t stride, int64_t dilation)
{
    int64_t room, window, both[2] = {padding[side], padding[2 + side]};
    if (!hod__window(x->shape[x->ndim - 2 + side], both, kernel, stride, dilation, &room, &window))
        return HOD_FAIL_RC(ARGUMENT,
                           "%s: %s: kernel %lld, stride %lld, dilation %lld, padding %lld and %lld",
                           name, HOD_META_TEXT(x), (long long)kernel, (long long)stride,
                           (long long)dilation, (long long)both[0], (long long)both[1]);
    if (room < window)
        return HOD_FAIL_RC(
            ARGUMENT, "%s: %s: a window of %lld is larger than the %s, %lld with its padding", name,
            HOD_META_TEXT(x), (long long)window, side == 0 ? "height" : "width", (long long)room);
    return (room - window) / stride + 1;
}

static int check_types(const hod_op_call *c, const hod_meta *in)
{
    const hod_op_info *info = &hod__op_info[c->op];
    int first = info->flags & HOD_OPF_CHOOSES ? 1 : 0;
    if (first == 1 && in[0].dtype != HOD_BOOL)
        return HOD_FAIL_RC(ARGUMENT, "%s: the condition is %s, not bool", info->name,
                           hod_dtype_name(in[0].dtype));
    for (int i = first + 1; i < c->n; i++)
        if (in[i].dtype != in[first].dtype)
            return HOD_FAIL_RC(ARGUMENT, "%s: %s with %s", info->name,
                               hod_dtype_name(in[first].dtype), hod_dtype_name(in[i].dtype));
    bool is_float = hod__is_float(in[first].dtype);
    if (is_float ? info->flags & HOD_OPF_INT_ONLY
                 : info->flags & (HOD_OPF_FLOAT_ONLY | HOD_OPF_NO_INTS))
        return HOD_FAIL_RC(ARGUMENT, "%s: not defined for %s", info->name,
                           hod_dtype_name(in[first].dtype));
    return 0;
}

int hod__shape_pointwise(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    const hod_op_info *info = &hod__op_info[c->op];
    if (check_types(c, in) != 0)
        return -1;
    *out = in[c->n - 1];
    for (int i = c->n - 2; i >= 0; i--) {
        int ndim;
        int64_t shape[HOD_MAX_DIMS];
        if (!hod__broadcast(out->ndim, out->shape, in[i].ndim, in[i].shape, &ndim, shape))
            return HOD_FAIL_RC(ARGUMENT, "%s: %s with %s: sizes differ and neither is 1",
                               info->name, HOD_META_TEXT(&in[i]), HOD_META_TEXT(out));
        out->ndim = ndim;
        memcpy(out->shape, shape, (size_t)ndim * sizeof *shape);
    }
    if (c->op == HOD_OP_cast)
        out->dtype = c->attrs->cast.dtype;
    else if (info->flags & HOD_OPF_BOOL_RESULT)
        out->dtype = HOD_BOOL;
    return 0;
}

/* ---- reductions ---- */

static hod_dtype reduced_dtype(const hod_op_info *info, hod_op op, hod_dtype dtype)
{
    if (info->flags & HOD_OPF_INDEX_RESULT)
        return HOD_I64;
    if (info->flags & HOD_OPF_BOOL_RESULT)
        return HOD_BOOL;
    bool widens = op == HOD_OP_sum || op == HOD_OP_prod;
    return widens && !hod__is_float(dtype) ? HOD_I64 : dtype;
}

int hod__shape_reduce(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    const hod_op_info *info = &hod__op_info[c->op];
    const hod_attrs_reduce *r = &c->attrs->reduce;
    bool fills = c->op != HOD_OP_amax && c->op != HOD_OP_amin &&
                 !(info->flags & HOD_OPF_INDEX_RESULT); /* has a value of nothing */
    if (r->dims >> in->ndim)
        return HOD_FAIL_RC(ARGUMENT, "%s: a dimension beyond those of %s", info->name,
                           HOD_META_TEXT(in));
    if ((info->flags & HOD_OPF_INDEX_RESULT) &&
        (r->dims & (r->dims - 1) || (r->dims == 0 && in->ndim > 0)))
        return HOD_FAIL_RC(ARGUMENT, "%s: over one dimension at a time", info->name);
    out->dtype = reduced_dtype(info, c->op, in->dtype);
    for (int i = 0; i < in->ndim; i++) {
        bool reduced = r->dims >> i & 1;
        if (reduced && in->shape[i] == 0 && !fills)
            return HOD_FAIL_RC(ARGUMENT, "%s: dimension %d of %s is empty", info->name, i,
                               HOD_META_TEXT(in));
        if (!reduced || r->keepdim)
            out->shape[out->ndim++] = reduced ? 1 : in->shape[i];
    }
    return 0;
}

/* ---- views ---- */

/* A shape given as attribute: -1 with an error when it is none. */
static int check_shape(const char *name, const hod_shape *s)
{
    if (s->n < 0 || s->n > HOD_MAX_DIMS)
        return HOD_FAIL_RC(ARGUMENT, "%s: %d dimensions, at most %d", name, s->n, HOD_MAX_DIMS);
    for (int i = 0; i < s->n; i++)
        if (s->d[i] < 0)
            return HOD_FAIL_RC(ARGUMENT, "%s: size %lld of dimension %d, must not be negative",
                               name, (long long)s->d[i], i);
    if (hod__numel(s->n, s->d) < 0)
        return HOD_FAIL_RC(ARGUMENT, "%s: more elements than 64 bits count", name);
    return 0;
}

int hod__shape_reshape(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    const hod_shape *s = &c->attrs->shape.shape;
    if (check_shape("reshape", s) != 0)
        return -1;
    *out = hod__meta_of(in->dtype, s);
    int64_t have = hod__numel(in->ndim, in->shape), want = hod__numel(s->n, s->d);
    if (have != want)
        return HOD_FAIL_RC(ARGUMENT, "reshape: %s has %lld elements, %s has %lld",
                           HOD_META_TEXT(in), (long long)have, HOD_META_TEXT(out), (long long)want);
    return 0;
}

int hod__shape_permute(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    const hod_shape *order = &c->attrs->permute.order;
    unsigned seen = 0;
    for (int i = 0; i < order->n && order->n == in->ndim; i++)
        if (order->d[i] >= 0 && order->d[i] < in->ndim)
            seen |= 1u << order->d[i];
    if (order->n != in->ndim || seen != (1u << in->ndim) - 1)
        return HOD_FAIL_RC(ARGUMENT, "permute: the order does not name each dimension of %s once",
                           HOD_META_TEXT(in));
    *out = *in;
    for (int i = 0; i < in->ndim; i++)
        out->shape[i] = in->shape[order->d[i]];
    return 0;
}

int hod__shape_expand(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    const hod_shape *s = &c->attrs->shape.shape;
    if (check_shape("expand", s) != 0)
        return -1;
    *out = hod__meta_of(in->dtype, s);
    int lead = s->n - in->ndim;
    bool fits = lead >= 0;
    for (int i = 0; fits && i < in->ndim; i++)
        fits = in->shape[i] == 1 || in->shape[i] == s->d[lead + i];
    if (!fits)
        return HOD_FAIL_RC(ARGUMENT, "expand: %s does not repeat to %s", HOD_META_TEXT(in),
                           HOD_META_TEXT(out));
    return 0;
}

int hod__shape_slice(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    const hod_attrs_slice *s = &c->attrs->slice;
    if (s->dim < 0 || s->dim >= in->ndim)
        return HOD_FAIL_RC(ARGUMENT, "slice: no dimension %lld in %s", (long long)s->dim,
                           HOD_META_TEXT(in));
    int64_t size = in->shape[s->dim];
    if (s->step < 1 || s->start < 0 || s->stop < s->start || s->stop > size)
        return HOD_FAIL_RC(ARGUMENT, "slice: %lld to %lld by %lld of dimension %lld of %s",
                           (long long)s->start, (long long)s->stop, (long long)s->step,
                           (long long)s->dim, HOD_META_TEXT(in));
    *out = *in;
    out->shape[s->dim] = s->stop > s->start ? (s->stop - s->start - 1) / s->step + 1 : 0;
    return 0;
}

/* ---- sources ---- */

static int shape_of_source(const char *name, hod_dtype dtype, const hod_shape *s, hod_meta *out)
{
    if (check_shape(name, s) != 0)
        return -1;
    if ((unsigned)dtype >= HOD_DTYPES)
        return HOD_FAIL_RC(ARGUMENT, "%s: no element type %d", name, (int)dtype);
    *out = hod__meta_of(dtype, s);
    return 0;
}

int hod__shape_full(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    (void)in;
    return shape_of_source("full", c->attrs->full.dtype, &c->attrs->full.shape, out);
}

int hod__shape_iota(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    (void)in;
    const hod_attrs_iota *a = &c->attrs->iota;
    if (shape_of_source("iota", a->dtype, &a->shape, out) != 0)
        return -1;
    if (a->dim < 0 || a->dim >= HOD_MAX(a->shape.n, 1))
        return HOD_FAIL_RC(ARGUMENT, "iota: no dimension %lld in %s", (long long)a->dim,
                           HOD_META_TEXT(out));
    return 0;
}

int hod__shape_uniform(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    const hod_shape *s = &c->attrs->uniform.shape;
    if (shape_of_source("uniform", HOD_F32, s, out) != 0)
        return -1;
    if (in[0].dtype != HOD_I64 || hod__numel(in[0].ndim, in[0].shape) != 2)
        return HOD_FAIL_RC(ARGUMENT, "uniform: the key is i64 (2), not %s %s",
                           hod_dtype_name(in[0].dtype), HOD_META_TEXT(&in[0]));
    int64_t samples = hod__numel(in[1].ndim, in[1].shape);
    int64_t rows = s->n > 0 ? s->d[0] : 1;
    if (in[1].dtype != HOD_I64 || in[1].ndim > 1)
        return HOD_FAIL_RC(ARGUMENT, "uniform: sample indices are i64 (N), not %s %s",
                           hod_dtype_name(in[1].dtype), HOD_META_TEXT(&in[1]));
    if (samples != 1 && (samples == 0 ? rows != 0 : rows % samples != 0))
        return HOD_FAIL_RC(ARGUMENT,
                           "uniform: %s has no whole number of rows for each of %lld "
                           "sample indices",
                           HOD_META_TEXT(out), (long long)samples);
    return 0;
}

/* ---- movement ---- */

int hod__shape_contiguous(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    (void)c;
    *out = *in;
    return 0;
}

int hod__shape_concat(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    int64_t dim = c->attrs->dim.dim;
    if (dim < 0 || dim >= in[0].ndim)
        return HOD_FAIL_RC(ARGUMENT, "concat: no dimension %lld in %s", (long long)dim,
                           HOD_META_TEXT(&in[0]));
    *out = in[0];
    for (int i = 1; i < c->n; i++) {
        bool fits = in[i].ndim == out->ndim && in[i].dtype == out->dtype;
        for (int d = 0; fits && d < out->ndim; d++)
            fits = d == dim || in[i].shape[d] == out->shape[d];
        if (!fits)
            return HOD_FAIL_RC(ARGUMENT, "concat: %s %s behind %s %s along dimension %lld",
                               hod_dtype_name(in[i].dtype), HOD_META_TEXT(&in[i]),
                               hod_dtype_name(in[0].dtype), HOD_META_TEXT(&in[0]), (long long)dim);
        if (__builtin_add_overflow(out->shape[dim], in[i].shape[dim], &out->shape[dim]))
            return HOD_FAIL_RC(ARGUMENT, "concat: more elements than 64 bits count");
    }
    return 0;
}

int hod__shape_unslice(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    const hod_attrs_unslice *s = &c->attrs->unslice;
    if (s->dim < 0 || s->dim >= in->ndim)
        return HOD_FAIL_RC(ARGUMENT, "unslice: no dimension %lld in %s", (long long)s->dim,
                           HOD_META_TEXT(in));
    int64_t n = in->shape[s->dim];
    if (s->step < 1 || s->start < 0 || s->size < 0 ||
        (n > 0 && s->start + (n - 1) * s->step >= s->size))
        return HOD_FAIL_RC(ARGUMENT, "unslice: %lld elements from %lld by %lld do not fit in %lld",
                           (long long)n, (long long)s->start, (long long)s->step,
                           (long long)s->size);
    *out = *in;
    out->shape[s->dim] = s->size;
    return 0;
}
