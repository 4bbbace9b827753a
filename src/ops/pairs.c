/* All pairs of rows of two matrices: sums of |x - y| to the power 1 or 2, which distances are roots
 * of. Written with operators, the M N K differences would be a tensor; here they stay in registers
 * (pairs_tmpl.c). Squares are not multiplied out: that would cancel where rows are close.
 *
 *     pairs       x (...,M,K), y (...,N,K) -> (...,M,N); with `root`, square roots of that
 *     pairs_back  g (...,M,N), x, y -> dx; the gradient for y is that of the pairs turned round
 *
 * f16 and bf16 go through f32. The derivative of pairs_back is written with operators.
 */
#include "ops/pairs.h"
#include "ops/rows.h"
#include "ops/rules.h"

/* ---- shapes ---- */

static bool same_batch(const hod_meta *a, const hod_meta *b)
{
    return a->ndim >= 2 && a->dtype == b->dtype &&
           hod__same_sizes(a->ndim - 2, a->shape, b->ndim - 2, b->shape);
}

static int check(const hod_op_call *c, const hod_meta *x, const hod_meta *y, hod_meta *out)
{
    int64_t power = c->attrs->pairs.power;
    if (!same_batch(x, y) || !hod__is_float(x->dtype) ||
        x->shape[x->ndim - 1] != y->shape[y->ndim - 1] || (power != 1 && power != 2))
        return HOD_FAIL_RC(ARGUMENT,
                           "%s: %s %s and %s %s, power %lld, wanted 1 or 2 and rows of one length",
                           hod__op_name(c), hod_dtype_name(x->dtype), HOD_META_TEXT(x),
                           hod_dtype_name(y->dtype), HOD_META_TEXT(y), (long long)power);
    *out = *x;
    out->shape[x->ndim - 1] = y->shape[y->ndim - 2];
    return 0;
}

int hod__shape_pairs(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    return check(c, &in[0], &in[1], out);
}

int hod__shape_pairs_back(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    hod_meta made;
    if (check(c, &in[1], &in[2], &made) != 0)
        return -1;
    *out = in[1];
    return hod__check_like(hod__op_name(c), &in[0], &made);
}

/* ---- derivatives ---- */

static hod_tensor *back(const hod_vjp *v, hod_tensor *g, hod_tensor *x, hod_tensor *y)
{
    hod_attrs attrs = {.pairs = {.power = v->attrs->pairs.power}};
    return hod__op(HOD_OP_pairs_back, &attrs, 3, (hod_tensor *[]){g, x, y});
}

/* The gradient of the sums: of a root of 0, which has an infinite slope, nothing comes back. */
static hod_tensor *under_root(const hod_vjp *v)
{
    hod_tensor *dead = hod_eq_scalar(v->y, 0);
    hod_tensor *twice = hod_mul_scalar(hod_where(dead, hod_full_like(v->y, 1), v->y), 2);
    return hod_where(dead, hod_full_like(v->y, 0), hod_div(v->g, twice));
}

hod_tensor *hod__vjp_pairs(const hod_vjp *v, int i)
{
    hod_tensor *g = v->shared ? *v->shared : NULL;
    if (!g)
        g = v->attrs->pairs.root ? under_root(v) : v->g;
    if (v->shared)
        *v->shared = g;
    return i == 0 ? back(v, g, v->x[0], v->x[1])
                  : back(v, hod_transpose(g, -2, -1), v->x[1], v->x[0]);
}

/* dx[i] = Σ_j w[i,j] f(x[i] - y[j]), f(d) = 2 d or sign(d); h is the gradient of dx. */
hod_tensor *hod__vjp_pairs_back(const hod_vjp *v, int i)
{
    bool square = v->attrs->pairs.power == 2;
    hod_tensor *w = v->x[0], *x = v->x[1], *y = v->x[2], *h = v->g;
    if (i == 0) {
        hod_tensor *d = hod_sub(hod_unsqueeze(x, -2), hod_unsqueeze(y, -3));
        d = square ? hod_mul_scalar(d, 2) : hod_sign(d);
        return hod_sum_dims(hod_mul(hod_unsqueeze(h, -2), d), -1);
    }
    if (!square)
        return hod__full_like_meta(&v->meta[i], 0);
    return i == 1 ? hod_mul(h, hod_mul_scalar(hod_sum_over(w, HOD_SHAPE(-1), true), 2))
                  : hod_mul_scalar(hod_matmul(hod_transpose(w, -2, -1), h), -2);
}

/* ---- the call ---- */

typedef struct pairs_job {
    const hod_pair_rows *rows;
    int64_t m, n, k, power, size; /* size: bytes of an element */
    bool back, root;
    const char *g, *x, *y;
    char *out;
} pairs_job;

/* [begin, end): rows of all matrices x. */
static void some_rows(void *context, int64_t begin, int64_t end)
{
    const pairs_job *job = context;
    while (begin < end) {
        int64_t batch = begin / job->m, i = begin % job->m, rows = HOD_MIN(job->m - i, end - begin);
        const char *x = job->x + begin * job->k * job->size;
        const char *y = job->y + batch * job->n * job->k * job->size;
        if (job->back)
            job->rows->back(rows, job->n, job->k, job->power, job->g + begin * job->n * job->size,
                            x, y, job->out + begin * job->k * job->size);
        else
            job->rows->sums(rows, job->n, job->k, job->power, job->root, x, y,
                            job->out + begin * job->n * job->size);
        begin += rows;
    }
}

const hod_pair_rows *hod__pairs_rows(hod_dtype dtype)
{
    static const hod_pair_rows *const f32[] = {HOD_ROW_SETS(hod__pairs)};
    return dtype == HOD_F64 ? &hod__pairs_f64 : f32[hod__rows_set()];
}

static int eval(const hod_op_call *c, hod_tensor *out)
{
    enum { LEAST = 1 << 15 }; /* differences that are worth a thread */
    if (!hod__is_computed(out->dtype))
        return hod__eval_through(HOD_F32, c, out, eval);
    hod_tensor *in[3];
    int rc = hod__eval_inputs(c, out, in);
    if (rc == 0 && hod_tensor_numel(out) > 0) {
        bool back = c->op == HOD_OP_pairs_back;
        const hod_tensor *x = in[back], *y = in[back + 1];
        pairs_job job = {.rows = hod__pairs_rows((hod_dtype)out->dtype),
                         .m = x->shape[x->ndim - 2],
                         .n = y->shape[y->ndim - 2],
                         .k = x->shape[x->ndim - 1],
                         .power = c->attrs->pairs.power,
                         .size = out->dtype == HOD_F64 ? 8 : 4,
                         .back = back,
                         .root = c->attrs->pairs.root,
                         .g = back ? hod__data(in[0]) : NULL,
                         .x = hod__data(x),
                         .y = hod__data(y),
                         .out = hod__data(out)};
        if (job.n * job.k == 0) /* sums of nothing */
            rc = hod__eval_zero(out);
        else
            hod__parallel(hod__numel(x->ndim - 1, x->shape), HOD_MAX(8, LEAST / (job.n * job.k)),
                          some_rows, &job);
    }
    hod__release_inputs(c, in);
    return rc;
}

int hod__eval_pairs(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out);
}

int hod__eval_pairs_back(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out);
}

/* ---- front ---- */

/* x's matrices, repeated in a batch of n dimensions. */
static hod_tensor *batched(hod_tensor *x, int n, const int64_t *batch)
{
    hod_shape s = {.n = n + 2};
    s.d[n] = x->shape[x->ndim - 2];
    s.d[n + 1] = x->shape[x->ndim - 1];
    memcpy(s.d, batch, (size_t)n * sizeof *batch);
    return hod_expand(x, s);
}

hod_tensor *hod_cdist(hod_tensor *x, hod_tensor *y, double p)
{
    if (hod__null("cdist", "x", x) || hod__null("cdist", "y", y))
        return NULL;
    if (x->ndim < 2 || y->ndim < 2 || x->shape[x->ndim - 1] != y->shape[y->ndim - 1])
        return HOD_FAIL(ARGUMENT, "cdist: %s and %s: rows of one length are wanted",
                        HOD_SHAPE_TEXT(x), HOD_SHAPE_TEXT(y));
    if (!(p >= 0))
        return HOD_FAIL(ARGUMENT, "cdist: p is %g, must not be negative", p);
    int n;
    int64_t batch[HOD_MAX_DIMS];
    hod_dtype t = hod__promote(x, y);
    hod_tensor *a = hod__computed(hod__cast_to(x, t)), *b = hod__computed(hod__cast_to(y, t));
    if (!a || !b)
        return NULL;
    if ((p == 1 || p == 2) &&
        hod__broadcast(x->ndim - 2, x->shape, y->ndim - 2, y->shape, &n, batch)) {
        hod_attrs attrs = {.pairs = {.power = (int64_t)p, .root = p == 2}};
        hod_tensor *in[] = {batched(a, n, batch), batched(b, n, batch)};
        return hod__narrowed(hod__op(HOD_OP_pairs, &attrs, 2, in), t);
    }
    hod_tensor *d = hod_sub(hod_unsqueeze(a, -2), hod_unsqueeze(b, -3));
    return hod__narrowed(hod_norm_over(d, p, HOD_SHAPE(-1), false), t);
}
