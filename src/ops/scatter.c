/* Reading and writing at an index along one dimension: gather, scatter, scatter_add.
 *
 *     gather   y[.., i, ..] = x[.., at, ..]        at = index[.., i, ..]
 *     scatter  y = x;  y[.., at, ..] = b[.., i, ..]      (or +=)
 *
 * All are one walk over the index's places. The dimensions but `dim` form lines, walked by hod_iter
 * with any strides; along `dim` the indexed tensor is addressed by the index. A line is one
 * thread's, in the order of the index, so additions have the same bits for any number of threads.
 * An index that repeats (index_select's: stride 0 but along dim) is checked once and read in place.
 */
#include "ops/rules.h"

typedef void walk_part(void *context, int64_t begin, int64_t end);

typedef struct walk {
    hod_iter it;      /* the lines: operands index, other, indexed */
    int64_t n;        /* elements along dim */
    int64_t along[3]; /* their strides */
    const int64_t *index;
    int64_t size;          /* of the indexed dimension */
    bool checked;          /* already, as a whole */
    _Atomic bool outside;  /* an index was */
    char *other, *indexed; /* y and x of gather, b and y of scatter */
    const char *start;     /* what the lines of `indexed` begin as, or NULL */
    int64_t line_bytes;    /* of those */
    walk_part *part;       /* what is done with lines */
} walk;

enum { CACHED_BYTES = 16384 };

/* ---- shapes ---- */

/* The index has x's dimensions, and at most its sizes but along dim. */
static int check_fits(const char *name, const hod_meta *x, const hod_meta *index, int64_t dim)
{
    if (hod__check_index_type(name, "an index", index->dtype) != 0)
        return -1;
    bool fits = x->ndim == index->ndim && dim >= 0 && dim < HOD_MAX(x->ndim, 1);
    for (int i = 0; fits && i < x->ndim; i++)
        fits = i == dim || index->shape[i] <= x->shape[i];
    if (!fits)
        return HOD_FAIL_RC(ARGUMENT, "%s: index %s for %s along dimension %lld: is no part of it",
                           name, HOD_META_TEXT(index), HOD_META_TEXT(x), (long long)dim);
    return 0;
}

/* What is written has the index's shape. */
static int check_written(const char *name, const hod_meta *b, const hod_meta *index)
{
    if (hod__same_sizes(b->ndim, b->shape, index->ndim, index->shape))
        return 0;
    return HOD_FAIL_RC(ARGUMENT, "%s: %s at an index %s", name, HOD_META_TEXT(b),
                       HOD_META_TEXT(index));
}

int hod__shape_gather(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    if (check_fits("gather", &in[0], &in[1], c->attrs->dim.dim) != 0)
        return -1;
    *out = in[1];
    out->dtype = in[0].dtype;
    return 0;
}

int hod__shape_scatter_add(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    *out = hod__meta_of(in[0].dtype, &c->attrs->scatter.shape);
    if (check_written("scatter_add", &in[0], &in[1]) != 0)
        return -1;
    return check_fits("scatter_add", out, &in[1], c->attrs->scatter.dim);
}

int hod__shape_scatter(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    *out = in[0];
    if (in[2].dtype != in[0].dtype)
        return HOD_FAIL_RC(ARGUMENT, "scatter: %s into %s", hod_dtype_name(in[2].dtype),
                           hod_dtype_name(in[0].dtype));
    if (check_written("scatter", &in[2], &in[1]) != 0)
        return -1;
    return check_fits("scatter", out, &in[1], c->attrs->place.dim);
}

/* ---- the index ---- */

/* t with one element where a dimension repeats itself. */
static hod_tensor without_repeats(const hod_tensor *t)
{
    hod_tensor once = *t;
    for (int i = 0; i < t->ndim; i++)
        if (t->strides[i] == 0 && t->shape[i] > 1)
            once.shape[i] = 1;
    return once;
}

static bool repeats(const hod_tensor *t)
{
    for (int i = 0; i < t->ndim; i++)
        if (t->strides[i] == 0 && t->shape[i] > 1)
            return true;
    return false;
}

/* The index as i64 with its repeats kept as strides of 0; one that repeats is checked against
 * `size`, others are while they are walked, in the cache. Released by the caller;
 * NULL on failure. */
static hod_tensor *index_of(const char *name, hod_tensor *index, int64_t size)
{
    hod_tensor once = without_repeats(index), *source = &once;
    hod_meta m = hod__meta(&once);
    hod_tensor *i64 = NULL;
    m.dtype = HOD_I64;
    if (index->dtype == HOD_I64 && hod__is_row_major(index))
        i64 = hod_tensor_retain(index);
    else if ((i64 = hod__eval_temporary(&m)) != NULL && index->dtype == HOD_I64)
        hod__eval_copy(&once, i64);
    else if (i64)
        hod__eval_cast(&(hod_op_call){.op = HOD_OP_cast, .n = 1, .in = &source}, i64);
    if (!i64)
        return NULL;
    int64_t n = hod_tensor_numel(i64);
    if (repeats(index) && n > 0 && hod__check_index_range(name, hod__data(i64), n, size) != 0) {
        hod_tensor_release(i64);
        return NULL;
    }
    for (int k = 0; k < index->ndim; k++)
        if (i64->shape[k] != index->shape[k]) {
            i64->shape[k] = index->shape[k];
            i64->strides[k] = 0;
        }
    return i64;
}

/* ---- the walk ---- */

/* t's elements that lie on the lines: without dim, and not beyond the index. dim -1: all. */
static hod_tensor lines_of(const hod_tensor *t, const hod_tensor *index, int64_t dim)
{
    hod_tensor line = *t;
    line.ndim = 0;
    for (int i = 0; i < t->ndim; i++)
        if (i != dim) {
            line.shape[line.ndim] = index->shape[i];
            line.strides[line.ndim++] = t->strides[i];
        }
    return line;
}

/* A line's part in row-walks: [begin, end) of lines, as segments of one row each. */
typedef struct segment {
    int64_t n, offset[3], step[3];
} segment;

static segment segment_at(const walk *w, int64_t line, int64_t end)
{
    int last = w->it.ndim - 1;
    int64_t width = w->it.shape[last], at = line % width, offset[HOD_ITER_MAX];
    segment s = {.n = HOD_MIN(width - at, end - line)};
    hod__iter_row(&w->it, line / width, offset);
    for (int k = 0; k < 3; k++) {
        s.step[k] = w->it.strides[k][last];
        s.offset[k] = offset[k] + at * s.step[k];
    }
    return s;
}

/* True when one of n indices, `step` apart, lies outside: then nothing is read by them. */
static bool lies_outside(walk *w, const int64_t *at, int64_t n, int64_t step)
{
    uint64_t sign = 0, most = (uint64_t)w->size - 1; /* of i or of most - i: either is negative */
    if (step == 1)
        for (int64_t i = 0; i < n; i++)
            sign |= (uint64_t)at[i] | (most - (uint64_t)at[i]);
    else
        for (int64_t i = 0; i < n; i++)
            sign |= (uint64_t)at[i * step] | (most - (uint64_t)at[i * step]);
    if (sign >> 63)
        w->outside = true;
    return sign >> 63;
}

#define INNER(in0, in1, in2, far, body)                                                            \
    for (int64_t q = 0; q < inner_n; q++) {                                                        \
        int64_t o = o0 + q * (in1), x = x0 + q * (in2) + near[q * (in0)] * (far);                  \
        body;                                                                                      \
    }

/* Visits i along dim and j along a segment, the nearer one innermost. Names what the body uses:
 * `o` and `x`, offsets of the other and of the indexed tensor. Plain rows have a loop of their
 * own. */
#define WALK(w, body)                                                                              \
    for (int64_t line = begin; line < end;) {                                                      \
        segment s = segment_at(w, line, end);                                                      \
        line += s.n;                                                                               \
        const int64_t *along = (w)->along;                                                         \
        bool inner = along[1] > s.step[1]; /* i outside, j inside */                               \
        int64_t outer_n = inner ? (w)->n : s.n, inner_n = inner ? s.n : (w)->n;                    \
        int64_t out0 = inner ? along[0] : s.step[0], in0 = inner ? s.step[0] : along[0];           \
        int64_t out1 = inner ? along[1] : s.step[1], in1 = inner ? s.step[1] : along[1];           \
        int64_t out2 = inner ? 0 : s.step[2], in2 = inner ? s.step[2] : 0, far = along[2];         \
        for (int64_t p = 0; p < outer_n; p++) {                                                    \
            const int64_t *near = (w)->index + s.offset[0] + p * out0;                             \
            int64_t o0 = s.offset[1] + p * out1, x0 = s.offset[2] + p * out2;                      \
            if (!w->checked && lies_outside(w, near, inner_n, in0))                                \
                return;                                                                            \
            if (in0 == 1 && in1 == 1 && in2 == 0 && far == 1)                                      \
                INNER(1, 1, 0, 1, body)                                                            \
            else                                                                                   \
                INNER(in0, in1, in2, far, body)                                                    \
        }                                                                                          \
    }

#define MOVE(name, type, to, from)                                                                 \
    static void name(void *context, int64_t begin, int64_t end)                                    \
    {                                                                                              \
        walk *w = context;                                                                         \
        type *other = (type *)w->other, *indexed = (type *)w->indexed;                             \
        WALK(w, to = from)                                                                         \
    }
MOVE(gather_1, uint8_t, other[o], indexed[x])
MOVE(gather_2, uint16_t, other[o], indexed[x])
MOVE(gather_4, uint32_t, other[o], indexed[x])
MOVE(gather_8, uint64_t, other[o], indexed[x])
MOVE(scatter_1, uint8_t, indexed[x], other[o])
MOVE(scatter_2, uint16_t, indexed[x], other[o])
MOVE(scatter_4, uint32_t, indexed[x], other[o])
MOVE(scatter_8, uint64_t, indexed[x], other[o])

#define ADD(name, type)                                                                            \
    static void name(void *context, int64_t begin, int64_t end)                                    \
    {                                                                                              \
        walk *w = context;                                                                         \
        type *other = (type *)w->other, *indexed = (type *)w->indexed;                             \
        WALK(w, indexed[x] += other[o])                                                            \
    }
ADD(add_f32, float)
ADD(add_f64, double)
ADD(add_i64, int64_t)

/* A whole row at each index: what index_select along an outer dimension comes to. */
static void gather_rows(void *context, int64_t begin, int64_t end)
{
    const walk *w = context;
    int last = w->it.ndim - 1;
    int64_t width = w->it.shape[last], bytes = width; /* counted in bytes by the caller */
    for (int64_t at = begin; at < end; at++) {
        int64_t row = at / w->n, i = at % w->n, offset[HOD_ITER_MAX];
        hod__iter_row(&w->it, row, offset);
        int64_t from = w->index[offset[0] + i * w->along[0]];
        memcpy(w->other + offset[1] + i * w->along[1], w->indexed + offset[2] + from * w->along[2],
               (size_t)bytes);
    }
}

static walk_part *sized(size_t bytes, bool gathers)
{
    static walk_part *const of[2][4] = {{scatter_1, scatter_2, scatter_4, scatter_8},
                                        {gather_1, gather_2, gather_4, gather_8}};
    return of[gathers][bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3];
}

/* True when gather_rows serves: the index repeats along the rows, which lie in one piece. */
static bool takes_rows(const walk *w)
{
    int last = w->it.ndim - 1;
    return w->it.strides[0][last] == 0 && w->it.strides[1][last] == 1 &&
           w->it.strides[2][last] == 1 && w->it.shape[last] >= 8;
}

/* Strides of the two data operands in bytes, the row's width too. */
static void in_bytes(walk *w, int64_t size)
{
    int last = w->it.ndim - 1;
    for (int k = 1; k < 3; k++) {
        w->along[k] *= size;
        for (int i = 0; i < last; i++)
            w->it.strides[k][i] *= size;
    }
    w->it.shape[last] *= size;
}

/* True when line i of the walk is the i-th run of `indexed`,
 * and there is a `start` that lies so. */
static bool starts_by_lines(const hod_tensor *start, const hod_tensor *index,
                            const hod_tensor *indexed, int64_t dim)
{
    bool same =
        start && dim == indexed->ndim - 1 && hod__is_row_major(start) && hod__is_row_major(indexed);
    for (int i = 0; same && i < dim; i++)
        same = index->shape[i] == indexed->shape[i];
    return same;
}

/* The part after a copy of its lines, some at a time, so that it finds them in the cache. */
static void started(void *context, int64_t begin, int64_t end)
{
    walk *w = context;
    int64_t step = HOD_MAX(1, CACHED_BYTES / HOD_MAX(1, w->line_bytes));
    for (int64_t next; begin < end; begin = next) {
        next = HOD_MIN(begin + step, end);
        int64_t from = begin * w->line_bytes;
        memcpy(w->indexed + from, w->start + from, (size_t)((next - begin) * w->line_bytes));
        w->part(w, begin, next);
    }
}

/* Shares the walk out; its elements have `bytes` each. Without a part: gather's. */
static void visit(walk *w, int64_t bytes, walk_part *part)
{
    if (!part && takes_rows(w)) {
        int64_t rows = hod__iter_rows(&w->it) * w->n, width = w->it.shape[w->it.ndim - 1];
        in_bytes(w, bytes);
        hod__parallel(rows, hod__grain(width), gather_rows, w);
        return;
    }
    int64_t each = w->start ? HOD_MAX(w->n, w->size) : w->n;
    w->line_bytes = w->size * bytes;
    w->part = part ? part : sized((size_t)bytes, true);
    hod__parallel(w->it.n, hod__grain(each), w->start ? started : w->part, w);
}

/* Runs `part` (or, with NULL, gather's, by whole rows where they serve) over index, other, indexed.
 * start: what `indexed` begins as; NULL: it holds what it should. */
static int run(const char *name, hod_tensor *index, hod_tensor *other, hod_tensor *indexed,
               int64_t dim, walk_part *part, const hod_tensor *start)
{
    int64_t size = indexed->ndim ? indexed->shape[dim] : 1;
    hod_tensor *at = index_of(name, index, size);
    if (!at)
        return -1;
    walk w;
    memset(&w, 0, sizeof w);
    const hod_tensor *const t[3] = {at, other, indexed};
    hod_tensor line[3];
    w.n = index->ndim ? index->shape[dim] : 1;
    bool splits = !part && w.n > HOD_PARALLEL_ELEMENTS && hod_tensor_numel(index) == w.n;
    for (int k = 0; k < 3; k++) {
        line[k] = lines_of(t[k], index, splits ? -1 : dim);
        w.along[k] = index->ndim ? t[k]->strides[dim] : 0;
    }
    if (splits) { /* a single line is many of one element, for several threads */
        w.along[0] = w.along[1] = line[2].strides[dim] = 0;
        w.n = 1;
    }
    w.size = size;
    w.checked = repeats(at);
    hod__iter_begin(&w.it, line[0].ndim, line[0].shape, 3,
                    (const hod_tensor *[]){&line[0], &line[1], &line[2]});
    w.index = hod__data(at);
    w.other = hod__data(other);
    w.indexed = hod__data(indexed);
    bool walks = w.it.n > 0 && w.n > 0,
         by_lines = walks && starts_by_lines(start, index, indexed, dim);
    if (by_lines)
        w.start = hod__data(start);
    else if (start)
        hod__eval_copy(start, indexed);
    if (walks)
        visit(&w, (int64_t)hod_dtype_bytes(other->dtype), part);
    int64_t n = hod_tensor_numel(at);
    int rc = w.outside ? hod__check_index_range(name, w.index, n, size) : 0;
    hod_tensor_release(at);
    return rc;
}

/* ---- kernels ---- */

int hod__eval_gather(const hod_op_call *c, hod_tensor *out)
{
    return run("gather", c->in[1], out, c->in[0], c->attrs->dim.dim, NULL, NULL);
}

hod_dtype hod__added_in(hod_dtype dtype)
{
    return dtype == HOD_F64 ? HOD_F64 : hod__is_float(dtype) ? HOD_F32 : HOD_I64;
}

static walk_part *adding(hod_dtype t)
{
    return t == HOD_F32 ? add_f32 : t == HOD_F64 ? add_f64 : add_i64;
}

int hod__eval_scatter_add(const hod_op_call *c, hod_tensor *out)
{
    hod_dtype t = hod__added_in((hod_dtype)out->dtype);
    if (t != (hod_dtype)out->dtype)
        return hod__eval_through(t, c, out, hod__eval_scatter_add);
    return hod__eval_zero(out) != 0 ? -1
                                    : run("scatter_add", c->in[1], c->in[0], out,
                                          c->attrs->scatter.dim, adding(t), NULL);
}

int hod__eval_scatter(const hod_op_call *c, hod_tensor *out)
{
    bool add = c->attrs->place.add;
    hod_dtype t = hod__added_in((hod_dtype)out->dtype);
    if (add && t != (hod_dtype)out->dtype)
        return hod__eval_through(t, c, out, hod__eval_scatter);
    return run("scatter", c->in[1], c->in[2], out, c->attrs->place.dim,
               add ? adding(t) : sized(hod_dtype_bytes(out->dtype), false), c->in[0]);
}
