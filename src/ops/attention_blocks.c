/* Attention by blocks: scores of some queries and some keys at a time, so that memory is linear in
 * the length.
 *
 * Forward keeps for each query the greatest score so far, the sum of exponentials below it and the
 * sum of values they weigh; when a block brings a greater score, both sums are scaled down to it
 * (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). The result's last
 * column is log Σ exp(score), from which backward has every probability again:
 *
 *     P = exp(S - L)     dV = Pᵀ dY     dS = P (dY Vᵀ - Σ dY Y + dL)     dQ = dS K     dK = dSᵀ Q
 *
 * (Dao et al., "FlashAttention", 2022.) Products are the library's, in f32; f64 has plain loops. A
 * query that sees no key has sums of 0 and L = -inf: its result and its gradients are 0.
 *
 * With dropout, the factor M of a probability, 0 or 1 / (1 - p), is a function of the key and of
 * its place among all scores: each block draws its own, forward and again backward. P M V is the
 * result, and with P M for P in dV and M (dY Vᵀ) for dY Vᵀ in dS the rest stays as it is.
 *
 * A call is cut into tasks by its shapes alone, each a row of products by one thread, so that no
 * sum depends on the number of threads. Backward has a task for each head of keys; where these are
 * few, several for each, which share its keys and have a dQ each, to be added afterwards.
 */
#include "ops/attention.h"
#include "ops/rows.h"
#include "ops/uniform_tmpl.h"
#include <math.h>
#include <stdatomic.h>

enum way { FORWARD, BACK, MASK_BACK };

/* Backward is cut for so many threads at least. */
enum { WIDE = 8 };

const attention_kernels *hod__attention_kernels(hod_dtype dtype)
{
    static const attention_kernels *const f32[] = {HOD_ROW_SETS(hod__attention)};
    return dtype == HOD_F64 ? &hod__attention_f64 : f32[hod__rows_set()];
}

/* ---- tasks on threads ---- */

typedef struct attention_run {
    const attention_job *job;
    const attention_kernels *kernels;
    int (*task)(const attention_job *job, int64_t task, attention_block x);
    int64_t tasks;
    _Atomic int64_t next; /* whoever is free takes it: causal masks make tasks uneven */
    _Atomic bool failed;
    int64_t size, sums; /* bytes of an element; sums of a thread */
    char *scratch;      /* `each` bytes a thread */
    int64_t each;
} attention_run;

/* What thread `begin` does. */
static void run_thread(void *context, int64_t begin, int64_t end)
{
    attention_run *r = context;
    const attention_job *job = r->job;
    int64_t scores = job->ni * job->pitch * r->size;
    attention_block x = {.job = job, .s = r->scratch + begin * r->each};
    x.ds = (char *)x.s + scores;
    x.sum = (double *)((char *)x.ds + (job->g ? scores : 0));
    x.top = x.sum + r->sums;
    x.draw = (uint32_t *)((char *)x.top + job->ni * r->size);
    (void)end;
    for (int64_t t = 0; (t = atomic_fetch_add(&r->next, 1)) < r->tasks;)
        if (r->task(job, t, x) != 0)
            r->failed = true;
}

static int run_tasks(attention_run *r)
{
    const attention_job *job = r->job;
    bool small = job->b * job->h * job->lq * job->lk < 4096;
    int64_t threads = small ? HOD_MIN(r->tasks, 1) : HOD_MIN(r->tasks, hod__cpu()->threads);
    r->each = job->ni * job->pitch * r->size * (job->g ? 2 : 1) + r->sums * 8 + job->ni * r->size +
              (job->nj + 8) * 4;
    r->each = (r->each + 63) / 64 * 64;
    hod_meta m = {.dtype = HOD_U8, .ndim = 1, .shape = {r->each * threads}};
    if (r->tasks == 0)
        return 0;
    hod_tensor *scratch = hod__eval_temporary(&m);
    if (!scratch)
        return -1;
    r->scratch = hod__data(scratch);
    hod__parallel(threads, 1, run_thread, r);
    hod_tensor_release(scratch);
    return r->failed ? HOD_FAIL_RC(ARGUMENT, "attention: the library refuses a product") : 0;
}

/* ---- calls ---- */

/* The upper 24 bits of a draw are what r_uniform makes a float of, and dropout compares floats. */
static void place_dropout(attention_job *job, const hod_op_call *c, int first)
{
    double p = c->attrs->attention.dropout;
    if (c->n <= first)
        return;
    const hod_tensor *key = c->in[first], *index = c->in[first + 1];
    const int64_t *k = hod__data(key);
    int64_t samples = hod_tensor_numel(index);
    job->dropout = (attention_dropout){
        .below = (uint32_t)ceil((double)(float)p * 0x1p24),
        .by = 1 / (1 - p),
        .key = r_uniform_key((uint64_t)k[0], (uint64_t)k[key->strides[0]]),
        .stream = (uint64_t)c->attrs->attention.stream,
        .index = hod__data(index),
        .index_stride = samples > 1 ? index->strides[0] : 0,
        .share = job->b / samples,
    };
}

/* The scores of a block stay in the second cache. Fewer queries make more tasks where there are
 * few, and less of what a causal mask hides; fewer keys, down to 64, make parts for backward. */
static void place_blocks(attention_job *job, enum way way)
{
    int64_t part = (job->lk * job->b * job->k_heads / WIDE + 63) / 64 * 64;
    job->ni = job->lq < 512 ? 64 : 128;
    job->nj = way == FORWARD ? 256 : HOD_MAX(64, HOD_MIN(part, 256));
    job->pitch = job->nj;
}

static void place_mask(attention_job *job, const hod_tensor *mask)
{
    job->mask = mask->ndim > 0 ? mask : NULL;
    for (int i = 0; i < 4; i++) {
        int k = i - 4 + mask->ndim;
        job->mask_shape[i] = k >= 0 ? mask->shape[k] : 1;
        job->mask_stride[i] = job->mask_shape[i] > 1 ? mask->strides[k] : 0;
    }
}

static int forward(attention_run *r, const attention_job *job)
{
    r->task = r->kernels->forward;
    r->tasks = job->b * job->h * ((job->lq + job->ni - 1) / job->ni);
    r->sums = job->ni;
    return run_tasks(r);
}

static void add_parts(void *context, int64_t begin, int64_t end)
{
    const attention_run *r = context;
    r->kernels->add_parts(r->job, begin, end);
}

static int back(attention_run *r, attention_job *job)
{
    int64_t heads = job->b * job->k_heads, blocks = (job->lk + job->nj - 1) / job->nj;
    int64_t queries = job->b * job->h * job->lq * job->d;
    if (heads == 0)
        return 0;
    job->parts = HOD_MAX(1, HOD_MIN(blocks, (WIDE + heads - 1) / heads));
    r->task = r->kernels->back;
    r->tasks = heads * job->parts;
    hod_meta m = {.dtype = HOD_U8, .ndim = 1, .shape = {(job->parts - 1) * queries * r->size}};
    hod_tensor *dq = hod__eval_temporary(&m);
    if (!dq)
        return -1;
    job->dq = hod__data(dq);
    int rc = run_tasks(r);
    if (rc == 0 && job->parts > 1)
        hod__parallel(queries, 16384, add_parts, r);
    hod_tensor_release(dq);
    return rc;
}

static int mask_back(attention_run *r, const attention_job *job)
{
    int64_t step[] = {1, 1, job->ni, job->nj};
    r->task = r->kernels->mask_back;
    r->tasks = 1;
    for (int k = 0; k < 4; k++)
        r->tasks *= (job->mask_shape[k] + step[k] - 1) / step[k];
    r->sums = job->ni * job->pitch;
    return run_tasks(r);
}

/* in: the inputs, row-major but for mask, key and index. */
static int run(const hod_op_call *c, hod_tensor *const *in, hod_tensor *out, enum way way)
{
    const hod_tensor *q = in[ATTENTION_Q], *k = in[ATTENTION_K], *v = in[ATTENTION_V];
    attention_job job = {
        .b = q->shape[0],
        .h = q->shape[1],
        .k_heads = k->shape[1],
        .lq = q->shape[2],
        .lk = k->shape[2],
        .d = q->shape[3],
        .e = v->shape[3],
        .q = hod__data(q),
        .k = hod__data(k),
        .v = hod__data(v),
        .scale = c->attrs->attention.scale,
        .causal = c->attrs->attention.causal,
        .out = hod__data(out),
    };
    place_blocks(&job, way);
    place_mask(&job, c->in[ATTENTION_MASK]);
    place_dropout(&job, c, ATTENTION_INPUTS + (way == FORWARD ? 0 : 2));
    if (way != FORWARD) {
        job.y = hod__data(in[ATTENTION_INPUTS]);
        job.g = hod__data(in[ATTENTION_INPUTS + 1]);
    }
    attention_run r = {.job = &job,
                       .kernels = hod__attention_kernels((hod_dtype)q->dtype),
                       .size = q->dtype == HOD_F64 ? 8 : 4};
    return way == FORWARD ? forward(&r, &job) : way == BACK ? back(&r, &job) : mask_back(&r, &job);
}

static int eval(const hod_op_call *c, hod_tensor *out, enum way way)
{
    if (hod__check_row_major(c, out) != 0)
        return -1;
    if (hod_tensor_numel(out) == 0)
        return 0;
    hod_tensor *in[8] = {0};
    int rc = 0;
    for (int i = 0; i < c->n && rc == 0; i++) {
        bool as_it_is = i == ATTENTION_MASK || c->in[i]->dtype == HOD_I64;
        in[i] = as_it_is ? hod_tensor_retain(c->in[i]) : hod__eval_row_major(c->in[i]);
        rc = in[i] ? 0 : -1;
    }
    if (rc == 0)
        rc = run(c, in, out, way);
    hod__release_inputs(c, in);
    return rc;
}

int hod__eval_attention(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, FORWARD);
}

int hod__eval_attention_back(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, BACK);
}

int hod__eval_attention_mask_back(const hod_op_call *c, hod_tensor *out)
{
    return eval(c, out, MASK_BACK);
}
