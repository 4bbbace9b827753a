/* Rows by index: embedding reads them, embedding_back adds to them; scatter.c indexes along any
 * dimension.
 *
 * An index is i64, i32 or u8, never negative; one that points outside is an error before anything
 * is read. Additions happen in the order of the index, whatever the number of threads.
 */
#include "ops/rules.h"

typedef struct index_job {
    const int64_t *index;
    const char *from;
    char *to;
    int64_t size, inner; /* the indexed tensor as rows of `inner` elements */
    int64_t n;           /* index elements */
    int64_t bytes;       /* of an element */
} index_job;

#define TYPED_BODY "ops/index_tmpl.c"
#define ELEM_F32
#include "ops/typed_tmpl.h"
#define ELEM_F64
#include "ops/typed_tmpl.h"
#define ELEM_I64
#include "ops/typed_tmpl.h"
#undef TYPED_BODY

/* ---- what an index is ---- */

int hod__check_index_type(const char *name, const char *what, hod_dtype dtype)
{
    if (dtype == HOD_I64 || dtype == HOD_I32 || dtype == HOD_U8)
        return 0;
    return HOD_FAIL_RC(ARGUMENT, "%s: %s of %s, not i64, i32 or u8", name, what,
                       hod_dtype_name(dtype));
}

int hod__check_index_range(const char *name, const int64_t *at, int64_t n, int64_t size)
{
    if (size == 0 && n > 0)
        return HOD_FAIL_RC(VALUE, "%s: index %lld of nothing", name, (long long)at[0]);
    for (int64_t begin = 0; begin < n; begin += 256) { /* blocks vectorise; the culprit is rare */
        int64_t end = HOD_MIN(begin + 256, n);
        uint64_t sign = 0;
        for (int64_t i = begin; i < end; i++)
            sign |= (uint64_t)at[i] | ((uint64_t)size - 1 - (uint64_t)at[i]);
        for (int64_t i = begin; sign >> 63 && i < end; i++)
            if (at[i] < 0 || at[i] >= size)
                return HOD_FAIL_RC(VALUE, "%s: index %lld at element %lld is outside 0..%lld", name,
                                   (long long)at[i], (long long)i, (long long)size - 1);
    }
    return 0;
}

/* ---- shapes ---- */

int hod__shape_embedding(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    (void)c;
    const hod_meta *w = &in[0], *index = &in[1];
    if (hod__check_index_type("embedding", "an index", index->dtype) != 0)
        return -1;
    if (w->ndim < 1)
        return HOD_FAIL_RC(ARGUMENT, "embedding: rows of %s, which has none", HOD_META_TEXT(w));
    if (w->ndim - 1 + index->ndim > HOD_MAX_DIMS)
        return HOD_FAIL_RC(
            ARGUMENT, "embedding: rows of %s at an index %s: %d dimensions, at most %d",
            HOD_META_TEXT(w), HOD_META_TEXT(index), w->ndim - 1 + index->ndim, HOD_MAX_DIMS);
    *out = *index;
    out->dtype = w->dtype;
    for (int i = 1; i < w->ndim; i++)
        out->shape[out->ndim++] = w->shape[i];
    return 0;
}

int hod__shape_embedding_back(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    const hod_meta *g = &in[0], *index = &in[1];
    *out = hod__meta_of(g->dtype, &c->attrs->shape.shape);
    if (hod__check_index_type("embedding_back", "an index", index->dtype) != 0)
        return -1;
    bool fits = out->ndim >= 1 && g->ndim == index->ndim + out->ndim - 1;
    for (int i = 0; fits && i < g->ndim; i++)
        fits = g->shape[i] == (i < index->ndim ? index->shape[i] : out->shape[i - index->ndim + 1]);
    if (!fits)
        return HOD_FAIL_RC(ARGUMENT, "embedding_back: %s at an index %s into %s", HOD_META_TEXT(g),
                           HOD_META_TEXT(index), HOD_META_TEXT(out));
    return 0;
}

/* ---- kernels ---- */

/* The index as row-major i64, checked against `size`; released by the caller. NULL on failure. */
static hod_tensor *index_of(const char *name, hod_tensor *index, int64_t size)
{
    hod_tensor *i64 = hod__eval_row_major_as(index, HOD_I64);
    if (!i64)
        return NULL;
    int64_t n = hod_tensor_numel(i64);
    if (n == 0 || hod__check_index_range(name, hod__data(i64), n, size) == 0)
        return i64;
    hod_tensor_release(i64);
    return NULL;
}

/* The rows of x, which has at least one dimension. */
static void set_rows(index_job *job, const hod_tensor *x)
{
    job->size = x->shape[0];
    job->inner = hod__numel(x->ndim - 1, x->shape + 1);
}

/* Rows lie anywhere in a large table: their first lines are asked for early, the machine guesses
 * the others. */
enum { AHEAD = 4, FETCHED = 512 };

static void copy_rows(void *context, int64_t begin, int64_t end)
{
    const index_job *job = context;
    int64_t row = job->inner * job->bytes;
    for (int64_t i = begin; i < end; i++) {
        const char *next = job->from + job->index[HOD_MIN(i + AHEAD, end - 1)] * row;
        for (int64_t k = 0; k < row && k < FETCHED; k += 64)
            __builtin_prefetch(next + k);
        memcpy(job->to + i * row, job->from + job->index[i] * row, (size_t)row);
    }
}

/* Runs `part` over n parts of about `cost` elements with the operands made row-major. */
static int run(index_job *job, const hod_op_call *c, hod_tensor *out, int64_t n, int64_t cost,
               void (*part)(void *context, int64_t begin, int64_t end))
{
    if (hod__check_row_major(c, out) != 0)
        return -1;
    hod_tensor *index = index_of(hod__op_name(c), c->in[1], job->size);
    hod_tensor *from = index ? hod__eval_row_major(c->in[0]) : NULL;
    if (from && hod_tensor_numel(index) > 0 && hod_tensor_numel(out) > 0) {
        job->index = hod__data(index);
        job->from = hod__data(from);
        job->to = hod__data(out);
        hod__parallel(n, hod__grain(cost), part, job);
    }
    int rc = from ? 0 : -1;
    hod_tensor_release(index);
    hod_tensor_release(from);
    return rc;
}

int hod__eval_embedding(const hod_op_call *c, hod_tensor *out)
{
    const hod_tensor *w = c->in[0];
    index_job job = {.bytes = (int64_t)hod_dtype_bytes(out->dtype)};
    set_rows(&job, w);
    job.n = hod_tensor_numel(c->in[1]);
    return run(&job, c, out, job.n, job.inner, copy_rows);
}

int hod__eval_embedding_back(const hod_op_call *c, hod_tensor *out)
{
    hod_dtype t = hod__added_in((hod_dtype)out->dtype);
    if (t != (hod_dtype)out->dtype)
        return hod__eval_through(t, c, out, hod__eval_embedding_back);
    index_job job = {0};
    set_rows(&job, out);
    job.n = hod_tensor_numel(c->in[1]);
    if (hod__eval_zero(out) != 0)
        return -1;
    /* Every thread looks at the whole index: a part costs that besides its share of additions. */
    int64_t cost = job.n * job.inner / HOD_MAX(1, job.size) + 1;
    return run(&job, c, out, job.size, cost,
               t == HOD_F32   ? add_rows_f32
               : t == HOD_F64 ? add_rows_f64
                              : add_rows_i64);
}
