/* Attention by blocks: scores of 256 queries and 256 keys at a time, so that memory is linear in
 * the length.
 *
 * Forward keeps for each query the greatest score so far, the sum of exponentials below it and the
 * sum of values they weigh; when a block brings a greater score, both sums are scaled down to it
 * (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). The result's last
 * column is log Σ exp(score), from which backward has every probability again:
 *
 *     P = exp(S - L)      dV = Pᵀ dY      dS = P (dY Vᵀ - Σ dY Y + dL)      dQ = dS K      dK = dSᵀ Q
 *
 * (Dao et al., "FlashAttention", 2022.) Products are the library's, in f32; f64 has plain loops. A
 * query that sees no key has sums of 0 and L = -inf: its result and its gradients are 0.
 */
#include "device/dnn.h"
#include "ops/attention.h"
#include "ops/exp_down.h"
#include <math.h>

static int product_f64(const hod_matmul_geometry *g, const double *a, const double *b, double *c)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t l = 0; l < g->k; l++) {
            double x = a[g->transpose_a ? l * g->lda + i : i * g->lda + l];
            for (int64_t j = 0; j < g->n; j++)
                c[i * g->ldc + j] += x * b[g->transpose_b ? j * g->ldb + l : l * g->ldb + j];
        }
    return 0;
}

static int product_f32(const hod_matmul_geometry *g, const float *a, const float *b, float *c)
{
    return hod__dnn_matmul(g, a, b, c, 1);
}

/* A block: queries from i0, keys from j0, of one batch and head. */
typedef struct attention_block {
    const attention_job *job;
    int64_t batch, head, i0, ni, j0, nj;
    void *s, *ds; /* scores, their gradients */
    void *top;    /* (block) greatest score; backward: (Lq) Σ g y */
    double *sum;  /* (block) sum of exponentials */
} attention_block;

#define real    float
#define T(name) name##_f32
#define EXP(x)  exp_down(x)
#include "ops/attention_tmpl.c"
#undef real
#undef T
#undef EXP
#define real    double
#define T(name) name##_f64
#define EXP(x)  exp(x)
#include "ops/attention_tmpl.c"

/* ---- calls ---- */

/* Group i has the tasks i, i + groups, ...: under a causal mask they grow. Products inside are one
 * thread's, so that their sums do not depend on the number of threads. */
static void run_groups(void *context, int64_t begin, int64_t end)
{
    attention_job *job = context;
    int64_t size = job->f64 ? 8 : 4, scores = ATTENTION_BLOCK * ATTENTION_BLOCK * size;
    for (int64_t i = begin; i < end; i++) {
        char *at = job->scratch + i * job->each;
        attention_block x = {.job = job, .sum = (double *)at};
        x.s = at + ATTENTION_BLOCK * 8;
        x.ds = (char *)x.s + scores;
        x.top = (char *)x.ds + (job->g ? scores : 0);
        for (int64_t t = i; t < job->tasks; t += job->groups) {
            int rc = job->g ? (job->f64 ? back_f64(job, t, x) : back_f32(job, t, x))
                            : (job->f64 ? forward_f64(job, t, x) : forward_f32(job, t, x));
            if (rc != 0)
                job->failed[i] = true;
        }
    }
}

static int run_tasks(attention_job *job)
{
    int64_t size = job->f64 ? 8 : 4, blocks = (job->lq + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK;
    job->tasks = job->g ? job->b * job->k_heads : job->b * job->h * blocks;
    job->groups = HOD_MIN(job->tasks, hod__cpu()->threads);
    job->each = ATTENTION_BLOCK * 8 + ATTENTION_BLOCK * ATTENTION_BLOCK * size * (job->g ? 2 : 1) +
                (HOD_MAX(job->lq, ATTENTION_BLOCK) + 16) / 16 * 16 * size;
    hod_meta m = {.dtype = HOD_U8, .ndim = 1, .shape = {(job->each + 1) * job->groups}};
    if (job->tasks == 0)
        return 0;
    hod_tensor *scratch = hod__eval_temporary(&m);
    if (!scratch)
        return -1;
    job->scratch = hod__data(scratch);
    job->failed = (bool *)job->scratch + job->each * job->groups;
    memset(job->failed, 0, (size_t)job->groups);
    bool small = job->b * job->h * job->lq * job->lk < 4096;
    hod__parallel(job->groups, small ? job->groups : 1, run_groups, job);
    bool failed = false;
    for (int64_t i = 0; i < job->groups; i++)
        failed |= job->failed[i];
    hod_tensor_release(scratch);
    return failed ? HOD_FAIL_RC(ARGUMENT, "attention: the library refuses a product") : 0;
}

static void place_mask(attention_job *job, const hod_tensor *mask)
{
    if (mask->ndim == 0)
        return;
    job->mask = mask;
    for (int i = 0; i < mask->ndim; i++)
        job->mask_stride[4 - mask->ndim + i] = mask->shape[i] > 1 ? mask->strides[i] : 0;
}

/* in: q, k, v, row-major; then mask, as it is. */
static int run(const hod_op_call *c, hod_tensor *const *in, attention_job *job)
{
    const hod_tensor *q = in[0], *k = in[1];
    job->f64 = q->dtype == HOD_F64;
    job->b = q->shape[0], job->h = q->shape[1], job->k_heads = k->shape[1];
    job->lq = q->shape[2], job->lk = k->shape[2], job->d = q->shape[3], job->e = in[2]->shape[3];
    job->q = hod__data(in[0]), job->k = hod__data(in[1]), job->v = hod__data(in[2]);
    job->scale = c->attrs->attention.scale;
    job->causal = c->attrs->attention.causal;
    place_mask(job, c->in[3]);
    return run_tasks(job);
}

static int eval(const hod_op_call *c, hod_tensor *out, bool back)
{
    if (!hod__is_row_major(out))
        return HOD_FAIL_RC(ARGUMENT, "%s: into a strided tensor", hod__op_name(c));
    if (hod_tensor_numel(out) == 0)
        return 0;
    attention_job job = {.out = hod__data(out)};
    hod_tensor *in[6] = {0};
    int rc = 0;
    for (int i = 0; i < c->n && rc == 0; i++) {
        in[i] = i == 3 ? hod_tensor_retain(c->in[i]) : hod__eval_row_major(c->in[i]);
        rc = in[i] ? 0 : -1;
    }
    if (rc == 0 && back) {
        job.y = hod__data(in[4]);
        job.g = hod__data(in[5]);
    }
    if (rc == 0)
        rc = hod__eval_zero(out) == 0 ? run(c, in, &job) : -1;
    for (int i = 0; i < c->n; i++)
        hod_tensor_release(in[i]);
    return rc;
}

int hod__eval_attention(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, false);
}

int hod__eval_attention_back(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, true);
}
