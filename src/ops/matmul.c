/* The matrix product: c = op(a) op(b) over the last two dimensions, batches broadcast.
 *
 * f32 goes to the library (device/dnn.h), which takes any operand whose rows or columns lie
 * densely; a transposed view is read in place. f16 and bf16 go through f32, f64 has the loop below.
 */
#include "device/dnn.h"
#include "ops/rules.h"

int hod__shape_matmul(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    const hod_meta *a = &in[0], *b = &in[1];
    if (a->ndim < 2 || b->ndim < 2)
        return HOD_FAIL_RC(ARGUMENT, "matmul: %s x %s: two dimensions are the least",
                           HOD_META_TEXT(a), HOD_META_TEXT(b));
    if (a->dtype != b->dtype || !hod__is_float(a->dtype))
        return HOD_FAIL_RC(ARGUMENT, "matmul: of %s and %s, wanted floats",
                           hod_dtype_name(a->dtype), hod_dtype_name(b->dtype));
    bool ta = c->attrs->matmul.ta, tb = c->attrs->matmul.tb;
    int64_t m = a->shape[a->ndim - (ta ? 1 : 2)], ka = a->shape[a->ndim - (ta ? 2 : 1)];
    int64_t n = b->shape[b->ndim - (tb ? 2 : 1)], kb = b->shape[b->ndim - (tb ? 1 : 2)];
    if (ka != kb)
        return HOD_FAIL_RC(ARGUMENT, "matmul: %s%s x %s%s: inner sizes %lld and %lld differ",
                           HOD_META_TEXT(a), ta ? "\u1d40" : "", HOD_META_TEXT(b),
                           tb ? "\u1d40" : "", (long long)ka, (long long)kb);
    int batches;
    if (!hod__broadcast(a->ndim - 2, a->shape, b->ndim - 2, b->shape, &batches, out->shape))
        return HOD_FAIL_RC(ARGUMENT, "matmul: %s x %s: batch sizes differ and neither is 1",
                           HOD_META_TEXT(a), HOD_META_TEXT(b));
    out->dtype = c->attrs->matmul.wide ? hod__widened(a->dtype) : a->dtype;
    out->ndim = batches + 2;
    out->shape[batches] = m;
    out->shape[batches + 1] = n;
    return 0;
}

/* One operand's matrices as the library takes them. `t` is the tensor or a copy, to be released. */
typedef struct matrices {
    hod_tensor *t;
    int64_t ld;
    bool transposed; /* stored rows are columns of op(t) */
} matrices;

/* Rows of `cols` elements: can they be addressed with one distance between rows? */
static bool dense(int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride)
{
    return (cols == 1 || col_stride == 1) && (rows == 1 || row_stride >= cols);
}

static int matrices_of(hod_tensor *t, bool transpose, matrices *out)
{
    int r = t->ndim - 2;
    int64_t rows = t->shape[r], cols = t->shape[r + 1];
    int64_t rs = t->strides[r], cs = t->strides[r + 1];
    bool flipped = !dense(rows, cols, rs, cs) && dense(cols, rows, cs, rs);
    bool usable = flipped || dense(rows, cols, rs, cs);
    out->t = usable ? hod_tensor_retain(t) : hod__eval_row_major(t);
    if (!out->t)
        return -1;
    rs = out->t->strides[r];
    cs = out->t->strides[r + 1];
    out->transposed = transpose != flipped;
    out->ld = flipped ? (cols == 1 ? rows : cs) : (rows == 1 ? cols : rs);
    out->ld = HOD_MAX(out->ld, 1);
    return 0;
}

/* The leading dimensions of t as a tensor of matrices. */
static hod_tensor batch_of(const hod_tensor *t)
{
    hod_tensor batch = *t;
    batch.ndim -= 2;
    return batch;
}

static int run_f32(const matrices *a, const matrices *b, hod_tensor *out, int64_t k)
{
    int r = out->ndim - 2;
    hod_tensor ba = batch_of(a->t), bb = batch_of(b->t), bc = batch_of(out);
    hod_iter it;
    hod__iter_begin(&it, r, out->shape, 3, (const hod_tensor *[]){&bc, &ba, &bb});
    int last = it.ndim - 1;
    hod_matmul_geometry g = {.batch = it.shape[last],
                             .m = out->shape[r],
                             .n = out->shape[r + 1],
                             .k = k,
                             .lda = a->ld,
                             .ldb = b->ld,
                             .ldc = HOD_MAX(out->shape[r + 1], 1),
                             .batch_a = it.strides[1][last],
                             .batch_b = it.strides[2][last],
                             .batch_c = it.strides[0][last],
                             .transpose_a = a->transposed,
                             .transpose_b = b->transposed};
    const float *pa = hod__data(a->t), *pb = hod__data(b->t);
    float *pc = hod__data(out);
    for (int64_t row = 0; row < hod__iter_rows(&it); row++) {
        int64_t offset[HOD_ITER_MAX];
        hod__iter_row(&it, row, offset);
        if (hod__dnn_matmul(&g, pa + offset[1], pb + offset[2], pc + offset[0], 0) != 0)
            return -1;
    }
    return 0;
}

static int eval_f32(const hod_op_call *c, hod_tensor *out)
{
    hod_tensor *x = c->in[0];
    int64_t k = x->shape[x->ndim - (c->attrs->matmul.ta ? 2 : 1)];
    if (k == 0)
        return hod__eval_zero(out);
    matrices a = {0}, b = {0};
    int rc = matrices_of(c->in[0], c->attrs->matmul.ta, &a);
    if (rc == 0)
        rc = matrices_of(c->in[1], c->attrs->matmul.tb, &b);
    if (rc == 0)
        rc = run_f32(&a, &b, out, k);
    hod_tensor_release(a.t);
    hod_tensor_release(b.t);
    return rc;
}

/* ---- the slow twin ---- */

typedef struct naive_job {
    hod_iter it;
    const double *a, *b;
    double *c;
    int64_t m, n, k;
    int64_t a_row, a_col, b_row, b_col; /* strides of op(a), op(b) */
} naive_job;

/* [begin, end) counts rows of all matrices of the result. */
static void naive_rows(void *context, int64_t begin, int64_t end)
{
    const naive_job *job = context;
    int64_t inner = job->it.shape[job->it.ndim - 1];
    int last = job->it.ndim - 1;
    for (int64_t r = begin; r < end; r++) {
        int64_t batch = r / job->m, i = r % job->m, offset[HOD_ITER_MAX];
        hod__iter_row(&job->it, batch / inner, offset);
        for (int k = 0; k < 3; k++)
            offset[k] += batch % inner * job->it.strides[k][last];
        const double *a = job->a + offset[1] + i * job->a_row, *b = job->b + offset[2];
        double *c = job->c + offset[0] + i * job->n;
        for (int64_t j = 0; j < job->n; j++)
            c[j] = 0;
        for (int64_t l = 0; l < job->k; l++)
            for (int64_t j = 0; j < job->n; j++)
                c[j] += a[l * job->a_col] * b[l * job->b_row + j * job->b_col];
    }
}

int hod__matmul_naive(const hod_op_call *c, hod_tensor *out)
{
    const hod_tensor *a = c->in[0], *b = c->in[1];
    int ra = a->ndim - 2, rb = b->ndim - 2, rc = out->ndim - 2;
    bool ta = c->attrs->matmul.ta, tb = c->attrs->matmul.tb;
    hod_tensor ba = batch_of(a), bb = batch_of(b), bc = batch_of(out);
    naive_job job = {.a = hod__data(a),
                     .b = hod__data(b),
                     .c = hod__data(out),
                     .m = out->shape[rc],
                     .n = out->shape[rc + 1],
                     .k = a->shape[ra + (ta ? 0 : 1)],
                     .a_row = a->strides[ra + ta],
                     .a_col = a->strides[ra + !ta],
                     .b_row = b->strides[rb + tb],
                     .b_col = b->strides[rb + !tb]};
    hod__iter_begin(&job.it, rc, out->shape, 3, (const hod_tensor *[]){&bc, &ba, &bb});
    hod__parallel(job.it.n * job.m, hod__grain(job.n * job.k), naive_rows, &job);
    return 0;
}

int hod__eval_matmul(const hod_op_call *c, hod_tensor *out)
{
    if (hod_tensor_numel(out) == 0)
        return 0;
    if (hod__check_row_major(c, out) != 0)
        return -1;
    switch ((hod_dtype)c->in[0]->dtype) {
    case HOD_F32: return eval_f32(c, out);
    case HOD_F64: return hod__matmul_naive(c, out);
    default: return hod__eval_through(HOD_F32, c, out, hod__eval_matmul);
    }
}
