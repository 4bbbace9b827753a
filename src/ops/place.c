/* Elements at other places of the result: flip, triangle, pad and its transpose.
 *
 * A flip is a copy from a view with negative strides, made here on the stack. Padding reads through
 * one table a dimension, which says for each element of the result where in x it comes from:
 *
 *     reflect by 2   x: 0 1 2 3   ->   2 1 0 1 2 3 2 1         constant   -1 -1 0 1 2 3 -1 -1
 *
 * so all modes are one walk over the result's rows, and their transpose adds along the same tables.
 */
#include "ops/rules.h"
#include <hod/movement.h>

/* ---- flip ---- */

int hod__shape_flip(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    *out = *in;
    if (c->attrs->flip.dims >> in->ndim)
        return HOD_FAIL_RC(ARGUMENT, "flip: a dimension beyond those of %s", HOD_META_TEXT(in));
    return 0;
}

int hod__eval_flip(const hod_op_call *c, hod_tensor *out)
{
    if (hod_tensor_numel(out) == 0)
        return 0;
    hod_tensor from = *c->in[0];
    for (int i = 0; i < from.ndim; i++)
        if (c->attrs->flip.dims >> i & 1) {
            from.offset += (from.shape[i] - 1) * from.strides[i];
            from.strides[i] = -from.strides[i];
        }
    hod__eval_copy(&from, out);
    return 0;
}

/* ---- triangle ---- */

typedef struct triangle_job {
    const char *from;
    char *to;
    int64_t rows, columns, diagonal, bytes;
    bool upper;
} triangle_job;

int hod__shape_triangle(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    (void)c;
    *out = *in;
    return in->ndim >= 2 ? 0
                         : HOD_FAIL_RC(ARGUMENT, "triangle: %s is no matrix", HOD_META_TEXT(in));
}

static void triangle_rows(void *context, int64_t begin, int64_t end)
{
    const triangle_job *job = context;
    int64_t n = job->columns, size = job->bytes;
    for (int64_t row = begin; row < end; row++) {
        int64_t edge = row % job->rows + job->diagonal + !job->upper; /* where zeros begin or end */
        edge = HOD_MAX(HOD_MIN(edge, n), 0);
        char *to = job->to + row * n * size;
        const char *from = job->from + row * n * size;
        int64_t kept = job->upper ? edge : 0, zero = job->upper ? 0 : edge;
        int64_t n_kept = job->upper ? n - edge : edge;
        memcpy(to + kept * size, from + kept * size, (size_t)(n_kept * size));
        memset(to + zero * size, 0, (size_t)((n - n_kept) * size));
    }
}

int hod__eval_triangle(const hod_op_call *c, hod_tensor *out)
{
    int64_t n = hod_tensor_numel(out);
    if (n == 0)
        return 0;
    hod_tensor *from;
    if (hod__eval_inputs(c, out, &from) != 0)
        return -1;
    triangle_job job = {.from = hod__data(from),
                        .to = hod__data(out),
                        .rows = out->shape[out->ndim - 2],
                        .columns = out->shape[out->ndim - 1],
                        .diagonal = c->attrs->triangle.diagonal,
                        .bytes = (int64_t)hod_dtype_bytes(out->dtype),
                        .upper = c->attrs->triangle.upper};
    hod__parallel(n / job.columns, hod__grain(job.columns), triangle_rows, &job);
    hod_tensor_release(from);
    return 0;
}

/* ---- padding: the tables ---- */

typedef struct pad_job {
    int ndim;
    int64_t *table[HOD_MAX_DIMS]; /* of the padded shape: index in x, or -1 */
    int64_t padded[HOD_MAX_DIMS]; /* the padded shape */
    int64_t step[HOD_MAX_DIMS];   /* row-major strides of x */
    int64_t before, size;         /* of the last dimension: where x begins, how much it is */
    int64_t rows;                 /* of the padded shape in one part */
    int64_t outer;                /* dimensions that are not padded, in front: parts */
    int64_t part;                 /* elements of x in a part */
    int64_t bytes;
    uint64_t fill;
    const char *from;
    char *to;
} pad_job;

static int64_t source_of(hod_pad_mode mode, int64_t at, int64_t size)
{
    if (at >= 0 && at < size)
        return at;
    switch (mode) {
    case HOD_PAD_REFLECT: return at < 0 ? -at : 2 * (size - 1) - at;
    case HOD_PAD_REPLICATE: return at < 0 ? 0 : size - 1;
    case HOD_PAD_CIRCULAR: return at < 0 ? at + size : at - size;
    default: return -1;
    }
}

/* By how much either end of `size` elements can be padded. */
static int64_t most_of(hod_pad_mode mode, int64_t size)
{
    switch (mode) {
    case HOD_PAD_REFLECT: return HOD_MAX(size - 1, 0);
    case HOD_PAD_REPLICATE: return size > 0 ? INT64_MAX : 0;
    case HOD_PAD_CIRCULAR: return size;
    default: return INT64_MAX;
    }
}

/* x padded to a->shape: 0, or -1 where that is impossible. */
static int check_pad(const char *name, const hod_attrs_pad *a, const hod_meta *x)
{
    static const char *const modes[HOD_PAD_MODES] = {"constant", "reflect", "replicate",
                                                     "circular"};
    bool fits = a->before.n == x->ndim && a->shape.n == x->ndim && a->mode >= 0 &&
                a->mode < HOD_PAD_MODES && hod__numel(a->shape.n, a->shape.d) >= 0;
    for (int i = 0; fits && i < x->ndim; i++) {
        int64_t before = a->before.d[i], after = a->shape.d[i] - before - x->shape[i];
        int64_t by = HOD_MAX(before, after), most = most_of((hod_pad_mode)a->mode, x->shape[i]);
        fits = before >= 0 && after >= 0;
        if (fits && by > most)
            return HOD_FAIL_RC(ARGUMENT, "%s: %s by %lld in dimension %d of %s, at most %lld", name,
                               modes[a->mode], (long long)by, i, HOD_META_TEXT(x), (long long)most);
    }
    return fits ? 0
                : HOD_FAIL_RC(ARGUMENT, "%s: %s to %s from %s, mode %lld", name, HOD_META_TEXT(x),
                              hod__shape_text(a->shape.n, a->shape.d, (char[96]){0}, 96),
                              hod__shape_text(a->before.n, a->before.d, (char[96]){0}, 96),
                              (long long)a->mode);
}

static void pad_end(pad_job *job)
{
    for (int i = 0; i < job->ndim; i++)
        free(job->table[i]);
}

static int pad_begin(pad_job *job, const hod_attrs_pad *a, int ndim, const int64_t *shape)
{
    job->ndim = ndim;
    hod__row_major(ndim, shape, job->step);
    for (int i = 0; i < ndim; i++) {
        job->padded[i] = a->shape.d[i];
        job->table[i] = hod__alloc((size_t)job->padded[i] + 1, sizeof **job->table);
        if (!job->table[i])
            return -1;
        for (int64_t k = 0; k < job->padded[i]; k++)
            job->table[i][k] = source_of((hod_pad_mode)a->mode, k - a->before.d[i], shape[i]);
    }
    int last = ndim - 1, first = 0;
    job->before = a->before.d[last];
    job->size = shape[last];
    job->outer = 1;
    while (first < last && shape[first] == job->padded[first])
        job->outer *= shape[first++];
    job->rows = hod__numel(last - first, job->padded + first);
    job->part = hod__numel(ndim - first, shape + first);
    return 0;
}

/* Where in x part `at` of the padded shape comes from, of those that its first n dimensions count;
 * -1: from outside. */
static int64_t source_before(const pad_job *job, int n, int64_t at)
{
    int64_t source = 0;
    for (int i = n - 1; i >= 0; i--) {
        int64_t from = job->table[i][at % job->padded[i]];
        if (from < 0)
            return -1;
        at /= job->padded[i];
        source += from * job->step[i];
    }
    return source;
}

static int64_t row_source(const pad_job *job, int64_t row)
{
    return source_before(job, job->ndim - 1, row);
}

/* ---- padding: the kernels ---- */

int hod__shape_pad(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    const hod_attrs_pad *a = &c->attrs->pad;
    if (check_pad("pad", a, in) != 0)
        return -1;
    if (!hod__in_range(in->dtype, a->value))
        return HOD_FAIL_RC(ARGUMENT, "pad: %g is outside %s", a->value, hod_dtype_name(in->dtype));
    *out = hod__meta_of(in->dtype, &a->shape);
    return 0;
}

/* A row of the padded shape from x's row `from`; NULL: from outside. */
#define PAD_ROW(type)                                                                              \
    static void pad_row_##type(const pad_job *job, char *to, const char *from)                     \
    {                                                                                              \
        const int64_t *table = job->table[job->ndim - 1], n = job->padded[job->ndim - 1];          \
        const type *x = (const type *)from;                                                        \
        type *y = (type *)to, fill;                                                                \
        memcpy(&fill, &job->fill, sizeof fill);                                                    \
        if (!from) {                                                                               \
            for (int64_t k = 0; k < n; k++)                                                        \
                y[k] = fill;                                                                       \
            return;                                                                                \
        }                                                                                          \
        for (int64_t k = 0; k < job->before; k++)                                                  \
            y[k] = table[k] >= 0 ? x[table[k]] : fill;                                             \
        hod__copy_row(job->size *(int64_t)sizeof fill, (char *)(y + job->before), from);           \
        for (int64_t k = job->before + job->size; k < n; k++)                                      \
            y[k] = table[k] >= 0 ? x[table[k]] : fill;                                             \
    }
PAD_ROW(uint8_t)
PAD_ROW(uint16_t)
PAD_ROW(uint32_t)
PAD_ROW(uint64_t)

/* [begin, end): rows of the padded shape, plane after plane. */
static void pad_rows(void *context, int64_t begin, int64_t end)
{
    static void (*const of[])(const pad_job *, char *, const char *) = {[1] = pad_row_uint8_t,
                                                                        [2] = pad_row_uint16_t,
                                                                        [4] = pad_row_uint32_t,
                                                                        [8] = pad_row_uint64_t};
    const pad_job *job = context;
    int last = job->ndim - 1;
    int64_t m = last > 0 ? job->padded[last - 1] : 1, bytes = job->padded[last] * job->bytes;
    for (int64_t row = begin; row < end;) {
        int64_t plane = last > 0 ? source_before(job, last - 1, row / m) : 0, i = row % m;
        int64_t stop = row - i + m < end ? m : i + end - row;
        for (; i < stop; i++, row++) {
            int64_t from = plane < 0 ? -1 : last > 0 ? job->table[last - 1][i] : 0;
            int64_t at = plane + from * (last > 0 ? job->step[last - 1] : 0);
            of[job->bytes](job, job->to + row * bytes,
                           from < 0 ? NULL : job->from + at * job->bytes);
        }
    }
}

/* `value` as an element of t's type, in the first bytes of *bits. */
static int element_of(const hod_tensor *t, double value, uint64_t *bits)
{
    hod_meta one = {.dtype = (hod_dtype)t->dtype};
    hod_tensor *e = hod__eval_temporary(&one);
    if (!e)
        return -1;
    hod_attrs a = {.full = {.value = value}};
    int rc = hod__eval_full(&(hod_op_call){.op = HOD_OP_full, .attrs = &a}, e);
    memcpy(bits, hod__data(e), hod_dtype_bytes(one.dtype));
    hod_tensor_release(e);
    return rc;
}

int hod__eval_pad(const hod_op_call *c, hod_tensor *out)
{
    int64_t n = hod_tensor_numel(out);
    if (n == 0)
        return 0;
    if (out->ndim == 0) {
        hod__eval_copy(c->in[0], out);
        return 0;
    }
    hod_tensor *from;
    if (hod__eval_inputs(c, out, &from) != 0)
        return -1;
    pad_job job = {.to = hod__data(out), .bytes = (int64_t)hod_dtype_bytes(out->dtype)};
    int rc = pad_begin(&job, &c->attrs->pad, out->ndim, from->shape);
    if (rc == 0)
        rc = element_of(out, c->attrs->pad.value, &job.fill);
    if (rc == 0) {
        int64_t row = out->shape[out->ndim - 1];
        job.from = hod_tensor_numel(from) > 0 ? hod__data(from) : NULL;
        hod__parallel(n / row, hod__grain(row), pad_rows, &job);
    }
    pad_end(&job);
    hod_tensor_release(from);
    return rc;
}

/* g has the padded shape; what was there before is before.d, the result lies in between. */
int hod__shape_pad_back(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    const hod_attrs_pad *a = &c->attrs->pad;
    if (!hod__is_float(in->dtype))
        return HOD_FAIL_RC(ARGUMENT, "pad_back: not defined for %s", hod_dtype_name(in->dtype));
    *out = hod__meta_of(in->dtype, &a->shape);
    hod_attrs_pad forward = *a;
    forward.shape = hod_shape_of(in->ndim, in->shape);
    return a->shape.n == in->ndim
               ? check_pad("pad_back", &forward, out)
               : HOD_FAIL_RC(ARGUMENT, "pad_back: a gradient of %s for %s", HOD_META_TEXT(in),
                             hod__shape_text(a->shape.n, a->shape.d, (char[96]){0}, 96));
}

#define TYPED_BODY "ops/place_tmpl.c"
#define ELEM_F32
#include "ops/typed_tmpl.h"
#define ELEM_F64
#include "ops/typed_tmpl.h"
#undef TYPED_BODY

int hod__eval_pad_back(const hod_op_call *c, hod_tensor *out)
{
    if (!hod__is_computed(out->dtype))
        return hod__eval_through(HOD_F32, c, out, hod__eval_pad_back);
    if (out->ndim == 0) {
        hod__eval_copy(c->in[0], out);
        return 0;
    }
    hod_tensor *from;
    if (hod__eval_zero(out) != 0 || hod__eval_inputs(c, out, &from) != 0)
        return -1;
    pad_job job = {.bytes = (int64_t)hod_dtype_bytes(out->dtype)};
    hod_attrs_pad forward = c->attrs->pad;
    forward.shape = hod_tensor_shape(from);
    int rc = pad_begin(&job, &forward, out->ndim, out->shape);
    if (rc == 0 && hod_tensor_numel(out) > 0) {
        job.from = hod__data(from);
        job.to = hod__data(out);
        hod__parallel(job.outer, hod__grain(job.part),
                      out->dtype == HOD_F32 ? pad_back_f32 : pad_back_f64, &job);
    }
    pad_end(&job);
    hod_tensor_release(from);
    return rc;
}
