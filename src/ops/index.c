/* Indexing: gather and embedding read at an index, scatter_add and embedding_back add there.
 *
 * An index is i64 or i32, never negative; one that points outside is an error before anything is
 * read. Additions happen in the order of the index, whatever the number of threads.
 */
#include "ops/rules.h"

typedef struct index_job {
    const int64_t *index;
    const char *from;
    char *to;
    int64_t outer, size, inner; /* the indexed tensor as (outer, size, inner) */
    int64_t n;                  /* index elements along the dimension, or in all (embedding) */
    int64_t bytes;              /* of an element */
} index_job;

#define TYPED_BODY "ops/index_tmpl.c"
#define ELEM_F32
#include "ops/typed_tmpl.h"
#define ELEM_F64
#include "ops/typed_tmpl.h"
#define ELEM_I64
#include "ops/typed_tmpl.h"
#undef TYPED_BODY

/* ---- shapes ---- */

static int check_index(const char *name, const hod_meta *index)
{
    if (index->dtype == HOD_I64 || index->dtype == HOD_I32)
        return 0;
    return HOD_FAIL_RC(ARGUMENT, "%s: the index is %s, not i64 or i32", name,
                       hod_dtype_name(index->dtype));
}

/* The index has x's dimensions and fits in them, except along dim. */
static int check_fits(const char *name, const hod_meta *x, const hod_meta *index, int64_t dim)
{
    if (check_index(name, index) != 0)
        return -1;
    bool fits = x->ndim == index->ndim && dim >= 0 && dim < HOD_MAX(x->ndim, 1);
    for (int i = 0; fits && i < x->ndim; i++)
        fits = i == dim || index->shape[i] == x->shape[i];
    if (!fits)
        return HOD_FAIL_RC(ARGUMENT, "%s: index %s for %s along dimension %lld: other sizes differ",
                           name, HOD_META_TEXT(index), HOD_META_TEXT(x), (long long)dim);
    return 0;
}

int hod__shape_gather(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    if (check_fits("gather", &in[0], &in[1], c->attrs->dim.dim) != 0)
        return -1;
    *out = in[1];
    out->dtype = in[0].dtype;
    return 0;
}

static void set_shape(hod_meta *m, hod_dtype dtype, const hod_shape *s)
{
    m->dtype = dtype;
    m->ndim = s->n;
    memcpy(m->shape, s->d, sizeof m->shape);
}

int hod__shape_scatter_add(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    set_shape(out, in[0].dtype, &c->attrs->scatter.shape);
    if (in[0].ndim != in[1].ndim ||
        memcmp(in[0].shape, in[1].shape, (size_t)in[0].ndim * sizeof *in[0].shape) != 0)
        return HOD_FAIL_RC(ARGUMENT, "scatter_add: %s at an index %s", HOD_META_TEXT(&in[0]),
                           HOD_META_TEXT(&in[1]));
    return check_fits("scatter_add", out, &in[1], c->attrs->scatter.dim);
}

int hod__shape_embedding(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    (void)c;
    const hod_meta *w = &in[0], *index = &in[1];
    if (check_index("embedding", index) != 0)
        return -1;
    if (w->ndim < 1 || w->ndim - 1 + index->ndim > HOD_MAX_DIMS)
        return HOD_FAIL_RC(ARGUMENT, "embedding: rows of %s at an index %s", HOD_META_TEXT(w),
                           HOD_META_TEXT(index));
    *out = *index;
    out->dtype = w->dtype;
    for (int i = 1; i < w->ndim; i++)
        out->shape[out->ndim++] = w->shape[i];
    return 0;
}

int hod__shape_embedding_back(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    const hod_meta *g = &in[0], *index = &in[1];
    set_shape(out, g->dtype, &c->attrs->shape.shape);
    if (check_index("embedding_back", index) != 0)
        return -1;
    bool fits = out->ndim >= 1 && g->ndim == index->ndim + out->ndim - 1;
    for (int i = 0; fits && i < g->ndim; i++)
        fits = g->shape[i] ==
               (i < index->ndim ? index->shape[i] : out->shape[i - index->ndim + 1]);
    if (!fits)
        return HOD_FAIL_RC(ARGUMENT, "embedding_back: %s at an index %s into %s", HOD_META_TEXT(g),
                           HOD_META_TEXT(index), HOD_META_TEXT(out));
    return 0;
}

/* ---- kernels ---- */

/* The index as row-major i64, checked against `size`; released by the caller. NULL on failure. */
static hod_tensor *index_of(const char *name, hod_tensor *index, int64_t size)
{
    hod_tensor *i64 = NULL;
    if (index->dtype == HOD_I64) {
        i64 = hod__eval_row_major(index);
    } else {
        hod_meta m = hod__meta(index);
        m.dtype = HOD_I64;
        i64 = hod__eval_temporary(&m);
        if (i64)
            hod__eval_cast(&(hod_op_call){.op = HOD_OP_cast, .n = 1, .in = &index}, i64);
    }
    if (!i64)
        return NULL;
    int64_t n = hod_tensor_numel(i64);
    const int64_t *at = n > 0 ? hod__data(i64) : NULL;
    for (int64_t i = 0; i < n; i++)
        if (at[i] < 0 || at[i] >= size) {
            hod__fail(HOD_ERROR_VALUE, "%s: index %lld at element %lld is outside 0..%lld", name,
                      (long long)at[i], (long long)i, (long long)size - 1);
            hod_tensor_release(i64);
            return NULL;
        }
    return i64;
}

/* `x` seen as (outer, size, inner) around dim. */
static void split_at(index_job *job, int ndim, const int64_t *shape, int64_t dim)
{
    job->outer = job->inner = job->size = 1;
    for (int i = 0; i < ndim; i++)
        *(i < dim ? &job->outer : i == dim ? &job->size : &job->inner) *= shape[i];
}

static void gather_lines(void *context, int64_t begin, int64_t end)
{
    const index_job *job = context;
    for (int64_t line = begin; line < end; line++) {
        int64_t outer = line / job->inner, inner = line % job->inner;
        for (int64_t i = 0; i < job->n; i++) {
            int64_t to = (outer * job->n + i) * job->inner + inner;
            int64_t from = (outer * job->size + job->index[to]) * job->inner + inner;
            memcpy(job->to + to * job->bytes, job->from + from * job->bytes, (size_t)job->bytes);
        }
    }
}

static void copy_rows(void *context, int64_t begin, int64_t end)
{
    const index_job *job = context;
    int64_t row = job->inner * job->bytes;
    for (int64_t i = begin; i < end; i++)
        memcpy(job->to + i * row, job->from + job->index[i] * row, (size_t)row);
}

enum { PARALLEL_ELEMENTS = 32768 };

/* Runs `part` over n parts of about `cost` elements with the operands made row-major. */
static int run(index_job *job, const hod_op_call *c, hod_tensor *out, int64_t n, int64_t cost,
               void (*part)(void *context, int64_t begin, int64_t end))
{
    if (!hod__is_row_major(out))
        return HOD_FAIL_RC(ARGUMENT, "%s: into a strided tensor", hod__op_name(c));
    hod_tensor *index = index_of(hod__op_name(c), c->in[1], job->size);
    hod_tensor *from = index ? hod__eval_row_major(c->in[0]) : NULL;
    if (from && hod_tensor_numel(index) > 0 && hod_tensor_numel(out) > 0) {
        job->index = hod__data(index);
        job->from = hod__data(from);
        job->to = hod__data(out);
        hod__parallel(n, HOD_MAX(1, PARALLEL_ELEMENTS / HOD_MAX(1, cost)), part, job);
    }
    int rc = from ? 0 : -1;
    hod_tensor_release(index);
    hod_tensor_release(from);
    return rc;
}

int hod__eval_gather(const hod_op_call *c, hod_tensor *out)
{
    const hod_tensor *x = c->in[0];
    int64_t dim = c->attrs->dim.dim;
    index_job job = {.bytes = (int64_t)hod_dtype_bytes(out->dtype)};
    split_at(&job, x->ndim, x->shape, dim);
    job.n = x->ndim ? out->shape[dim] : 1;
    return run(&job, c, out, job.outer * job.inner, job.n, gather_lines);
}

int hod__eval_embedding(const hod_op_call *c, hod_tensor *out)
{
    const hod_tensor *w = c->in[0];
    index_job job = {.bytes = (int64_t)hod_dtype_bytes(out->dtype)};
    split_at(&job, w->ndim, w->shape, 0);
    job.n = hod_tensor_numel(c->in[1]);
    return run(&job, c, out, job.n, job.inner, copy_rows);
}

/* The type that additions of `dtype` are done in. */
static hod_dtype added_in(hod_dtype dtype)
{
    return dtype == HOD_F64 ? HOD_F64 : dtype <= HOD_BF16 ? HOD_F32 : HOD_I64;
}

int hod__eval_scatter_add(const hod_op_call *c, hod_tensor *out)
{
    hod_dtype t = added_in((hod_dtype)out->dtype);
    if (t != (hod_dtype)out->dtype)
        return hod__eval_through(t, c, out, hod__eval_scatter_add);
    int64_t dim = c->attrs->scatter.dim;
    index_job job = {0};
    split_at(&job, out->ndim, out->shape, dim);
    job.n = out->ndim ? c->in[0]->shape[dim] : 1;
    if (hod__eval_zero(out) != 0)
        return -1;
    return run(&job, c, out, job.outer * job.inner, job.n,
               t == HOD_F32   ? scatter_lines_f32
               : t == HOD_F64 ? scatter_lines_f64
                              : scatter_lines_i64);
}

int hod__eval_embedding_back(const hod_op_call *c, hod_tensor *out)
{
    hod_dtype t = added_in((hod_dtype)out->dtype);
    if (t != (hod_dtype)out->dtype)
        return hod__eval_through(t, c, out, hod__eval_embedding_back);
    index_job job = {0};
    split_at(&job, out->ndim, out->shape, 0);
    job.n = hod_tensor_numel(c->in[1]);
    if (hod__eval_zero(out) != 0)
        return -1;
    /* Every thread looks at the whole index: a part costs that besides its share of additions. */
    int64_t cost = job.n * job.inner / HOD_MAX(1, job.size) + 1;
    return run(&job, c, out, job.size, cost,
               t == HOD_F32 ? add_rows_f32 : t == HOD_F64 ? add_rows_f64 : add_rows_i64);
}
