/* Attention by blocks for one `real` and instruction set, the tables's name in KERNELS: PRODUCT is
 * the matrix product, EXP the exponential of what is not above 0. attention_blocks.c says what is
 * computed. Passes over a row of scores are loops that vectorise; the row stays in the first cache.
 */
#include "ops/uniform_tmpl.h"

#define ROW_FN static inline __attribute__((always_inline, unused))

/* c (m,n) = beta c + op(a) (m,k) op(b) (k,n), rows ld apart. */
static int times(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, bool ta,
                 const real *b, int64_t ldb, bool tb, real beta, real *c, int64_t ldc)
{
    hod_matmul_geometry g = {.batch = 1,
                             .m = m,
                             .n = n,
                             .k = k,
                             .lda = lda,
                             .ldb = ldb,
                             .ldc = ldc,
                             .transpose_a = ta,
                             .transpose_b = tb};
    return PRODUCT(&g, a, b, c, beta);
}

/* ---- a row of scores ---- */

/* Row i of q, y and g, counted over batches and heads. */
static int64_t query(const attention_block *x, int64_t i)
{
    return (x->batch * x->job->h + x->head) * x->job->lq + x->i0 + i;
}

/* How many keys of the block query i may see: the others stand behind them. */
static int64_t seen(const attention_block *x, int64_t i)
{
    return x->job->causal ? HOD_MAX(0, HOD_MIN(x->nj, x->i0 + i + 1 - x->j0)) : x->nj;
}

/* How many keys the last query of the block may see. */
static int64_t last_seen(const attention_block *x)
{
    return x->job->causal ? HOD_MIN(x->job->lk, x->i0 + x->ni) : x->job->lk;
}

ROW_FN void keep_row(int64_t n, real *s, real scale, const uint8_t *keep, int64_t stride)
{
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        s[j] = keep[j * stride] ? s[j] * scale : -(real)INFINITY;
}

ROW_FN void add_row(int64_t n, real *s, real scale, const real *more, int64_t stride)
{
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        s[j] = s[j] * scale + more[j * stride];
}

/* Scales and masks the first n scores of row i. */
static void mask_row(const attention_block *x, int64_t i, int64_t n, real *s)
{
    const attention_job *job = x->job;
    real scale = (real)job->scale;
    if (!job->mask) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            s[j] *= scale;
        return;
    }
    const int64_t *stride = job->mask_stride;
    int64_t at =
        x->batch * stride[0] + x->head * stride[1] + (x->i0 + i) * stride[2] + x->j0 * stride[3];
    if (job->mask->dtype == HOD_BOOL) {
        const uint8_t *keep = (const uint8_t *)hod__data(job->mask) + at;
        stride[3] == 1 ? keep_row(n, s, scale, keep, 1) : keep_row(n, s, scale, keep, stride[3]);
    } else {
        const real *more = (const real *)hod__data(job->mask) + at;
        stride[3] == 1 ? add_row(n, s, scale, more, 1) : add_row(n, s, scale, more, stride[3]);
    }
}

/* Random words of the first n keys of row i. A probability stays where its word is not dropped. */
static const uint32_t *draw_row(const attention_block *x, int64_t i, int64_t n)
{
    const attention_job *job = x->job;
    const attention_dropout *o = &job->dropout;
    int64_t row = (x->batch % o->share * job->h + x->head) * job->lq + x->i0 + i;
    uint64_t e = (uint64_t)(row * job->lk + x->j0), key = o->key, stream = o->stream;
    uint64_t index = (uint64_t)o->index[x->batch / o->share * o->index_stride];
    int64_t before = (int64_t)(e & 3), blocks = (before + n + 3) / 4;
    uint32_t *to = x->draw;
#pragma omp simd
    for (int64_t k = 0; k < blocks; k++)
        r_random_block(key, stream, index, (e >> 2) + (uint64_t)k, &to[4 * k], &to[4 * k + 1],
                       &to[4 * k + 2], &to[4 * k + 3]);
    return to + before;
}

static void drop_row(int64_t n, real *p, const uint32_t *word, uint32_t below, real by)
{
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        p[j] = (word[j] >> 8) >= below ? p[j] * by : 0;
}

/* ---- forward ---- */

static real greatest(int64_t n, const real *s, real least)
{
#pragma omp simd reduction(max : least)
    for (int64_t j = 0; j < n; j++)
        least = s[j] > least ? s[j] : least;
    return least;
}

/* Scores become exponentials of what they are above `shift`; their sum, no finer than that of the
 * products they go into. */
static real powers(int64_t n, real *s, real shift)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        s[j] = EXP(s[j] - shift);
        sum += s[j];
    }
    return sum;
}

static void forward_rows(const attention_block *x)
{
    const attention_job *job = x->job;
    real *top = x->top;
    for (int64_t i = 0; i < x->ni; i++) {
        real *s = (real *)x->s + i * job->pitch, old = top[i];
        int64_t n = seen(x, i);
        mask_row(x, i, n, s);
        real new = greatest(n, s, old);
        real shift = new - new == 0 ? new : 0; /* finite */
        double sum = (double)powers(n, s, shift);
        memset(s + n, 0, (size_t)(x->nj - n) * sizeof *s);
        if (job->dropout.below)
            drop_row(n, s, draw_row(x, i, n), job->dropout.below, (real)job->dropout.by);
        real less = old == -(real)INFINITY ? 0 : EXP(old - new);
        x->sum[i] = x->sum[i] * (double)less + sum;
        top[i] = new;
        real *y = (real *)job->out + query(x, i) * (job->e + 1);
        if (x->j0 > 0 && less != 1) /* else there is nothing yet */
            for (int64_t l = 0; l < job->e; l++)
                y[l] *= less;
    }
}

/* Sums become means; the last column is log Σ exp. */
static void finish(const attention_block *x)
{
    const attention_job *job = x->job;
    const real *top = x->top;
    for (int64_t i = 0; i < x->ni; i++) {
        real *y = (real *)job->out + query(x, i) * (job->e + 1);
        double sum = x->sum[i];
        if (sum == 0) {
            memset(y, 0, (size_t)job->e * sizeof *y);
            y[job->e] = -(real)INFINITY;
            continue;
        }
        real by = (real)(1 / sum), shift = top[i] - top[i] == 0 ? top[i] : 0;
        for (int64_t l = 0; l < job->e; l++)
            y[l] *= by;
        y[job->e] = (real)(log(sum) + (double)shift);
    }
}

static int forward(const attention_job *job, int64_t task, attention_block x)
{
    int64_t blocks = (job->lq + job->ni - 1) / job->ni, of_batch = task % (blocks * job->h);
    int64_t d = job->d, e = job->e, pitch = job->pitch;
    /* Rows of a mask that heads share are read for one head after another. */
    bool in_turn = job->mask && job->mask_stride[1] == 0 && job->mask_stride[2] != 0;
    x.batch = task / (blocks * job->h);
    x.head = in_turn ? of_batch % job->h : of_batch / blocks;
    x.i0 = (in_turn ? of_batch / job->h : of_batch % blocks) * job->ni;
    x.ni = HOD_MIN(job->lq - x.i0, job->ni);
    int64_t kv = x.batch * job->k_heads + x.head / (job->h / job->k_heads);
    const real *q = (const real *)job->q + query(&x, 0) * d;
    const real *k = (const real *)job->k + kv * job->lk * d;
    const real *v = (const real *)job->v + kv * job->lk * e;
    real *y = (real *)job->out + query(&x, 0) * (e + 1);
    for (int64_t i = 0; i < x.ni; i++) {
        ((real *)x.top)[i] = -(real)INFINITY;
        x.sum[i] = 0;
    }
    int64_t end = last_seen(&x);
    for (x.j0 = 0; x.j0 < end; x.j0 += job->nj) {
        x.nj = HOD_MIN(end - x.j0, job->nj);
        if (times(x.ni, x.nj, d, q, d, false, k + x.j0 * d, d, true, 0, x.s, pitch) != 0)
            return -1;
        forward_rows(&x);
        if (times(x.ni, e, x.nj, x.s, pitch, false, v + x.j0 * e, e, false, x.j0 > 0, y, e + 1) !=
            0)
            return -1;
    }
    finish(&x);
    return 0;
}

/* ---- backward ---- */

/* Top gets Σ g y over the values of each query, less g of the logarithm. */
static void shares(const attention_block *x)
{
    int64_t e = x->job->e;
    for (int64_t i = 0; i < x->ni; i++) {
        const real *y = (const real *)x->job->y + query(x, i) * (e + 1);
        const real *g = (const real *)x->job->g + query(x, i) * (e + 1);
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t l = 0; l < e; l++)
            sum += (double)g[l] * (double)y[l];
        ((real *)x->top)[i] = (real)(sum - (double)g[e]);
    }
}

/* Where one block has all keys: makes p sum to 1 and returns Σ p dp, without the roundings of the
 * logarithm and of the result. */
static real share_of(int64_t n, real *p, const real *dp)
{
    double sum = 0, share = 0;
#pragma omp simd reduction(+ : sum, share)
    for (int64_t j = 0; j < n; j++) {
        sum += (double)p[j];
        share += (double)p[j] * (double)dp[j];
    }
    real by = (real)(1 / sum);
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        p[j] *= by;
    return (real)(share / sum);
}

/* Scores become probabilities, those that dropout leaves; ds, which holds dY Vᵀ, the gradient of
 * the scores times `scale`. */
static void back_rows(const attention_block *x, real scale)
{
    const attention_job *job = x->job;
    uint32_t below = job->dropout.below;
    real by = (real)job->dropout.by;
    for (int64_t i = 0; i < x->ni; i++) {
        real *p = (real *)x->s + i * job->pitch, *ds = (real *)x->ds + i * job->pitch;
        int64_t n = seen(x, i), last = query(x, i) * (job->e + 1) + job->e;
        real total = ((const real *)job->y)[last], share = ((const real *)x->top)[i];
        if (total == -(real)INFINITY)
            n = 0;
        memset(p + n, 0, (size_t)(x->nj - n) * sizeof *p);
        memset(ds + n, 0, (size_t)(x->nj - n) * sizeof *ds);
        if (n == 0)
            continue;
        mask_row(x, i, n, p);
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            p[j] = EXP(p[j] - total);
        const uint32_t *word = below ? draw_row(x, i, n) : NULL;
        if (word)
            drop_row(n, ds, word, below, by);
        if (x->nj == last_seen(x))
            share = share_of(n, p, ds) - ((const real *)job->g)[last];
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            ds[j] = p[j] * (ds[j] - share) * scale;
        if (word)
            drop_row(n, p, word, below, by);
    }
}

/* Probabilities and gradients of the scores of a block, for the head kv of keys. */
static int slopes(const attention_block *x, int64_t kv, real scale)
{
    const attention_job *job = x->job;
    int64_t d = job->d, e = job->e;
    const real *q = (const real *)job->q + query(x, 0) * d;
    const real *g = (const real *)job->g + query(x, 0) * (e + 1);
    const real *k = (const real *)job->k + (kv * job->lk + x->j0) * d;
    const real *v = (const real *)job->v + (kv * job->lk + x->j0) * e;
    if (times(x->ni, x->nj, d, q, d, false, k, d, true, 0, x->s, job->pitch) != 0 ||
        times(x->ni, x->nj, e, g, e + 1, false, v, e, true, 0, x->ds, job->pitch) != 0)
        return -1;
    shares(x);
    back_rows(x, scale);
    return 0;
}

/* A block's part of the gradients of the head kv of keys and of its queries. */
static int back_block(const attention_block *x, int64_t kv, real *dq, real *dk, real *dv)
{
    const attention_job *job = x->job;
    int64_t d = job->d, e = job->e, ni = x->ni, nj = x->nj, pitch = job->pitch;
    if (slopes(x, kv, (real)job->scale) != 0)
        return -1;
    const real *q = (const real *)job->q + query(x, 0) * d;
    const real *g = (const real *)job->g + query(x, 0) * (e + 1);
    const real *k = (const real *)job->k + (kv * job->lk + x->j0) * d;
    dq += query(x, 0) * d;
    dk += (kv * job->lk + x->j0) * d;
    dv += (kv * job->lk + x->j0) * e;
    return times(nj, e, ni, x->s, pitch, true, g, e + 1, false, 1, dv, e) != 0 ||
                   times(ni, d, nj, x->ds, pitch, false, k, d, false, 1, dq, d) != 0 ||
                   times(nj, d, ni, x->ds, pitch, true, q, d, false, 1, dk, d) != 0
               ? -1
               : 0;
}

static int back(const attention_job *job, int64_t task, attention_block x)
{
    int64_t kv = task / job->parts, part = task % job->parts, group = job->h / job->k_heads;
    int64_t d = job->d, e = job->e, queries = job->b * job->h * job->lq * d;
    real *dk = (real *)job->out + queries, *dv = dk + job->b * job->k_heads * job->lk * d;
    real *dq = part == 0 ? (real *)job->out : (real *)job->dq + (part - 1) * queries;
    x.batch = kv / job->k_heads;
    for (int64_t n = 0; n < group; n++) {
        x.head = kv % job->k_heads * group + n;
        x.i0 = 0;
        memset(dq + query(&x, 0) * d, 0, (size_t)(job->lq * d) * sizeof *dq);
        for (x.j0 = part * job->nj; x.j0 < job->lk; x.j0 += job->parts * job->nj) {
            int64_t at = kv * job->lk + x.j0, keys = HOD_MIN(job->lk - x.j0, job->nj);
            if (n == 0) {
                memset(dk + at * d, 0, (size_t)(keys * d) * sizeof *dk);
                memset(dv + at * e, 0, (size_t)(keys * e) * sizeof *dv);
            }
            for (x.i0 = 0; x.i0 < job->lq; x.i0 += job->ni) {
                x.ni = HOD_MIN(job->lq - x.i0, job->ni);
                x.nj = HOD_MIN(last_seen(&x) - x.j0, job->nj);
                if (x.nj > 0 && back_block(&x, kv, dq, dk, dv) != 0)
                    return -1;
            }
        }
    }
    return 0;
}

static void add_parts(const attention_job *job, int64_t begin, int64_t end)
{
    int64_t queries = job->b * job->h * job->lq * job->d;
    real *dq = job->out;
    for (int64_t part = 0; part < job->parts - 1; part++) {
        const real *more = (const real *)job->dq + part * queries;
#pragma omp simd
        for (int64_t i = begin; i < end; i++)
            dq[i] += more[i];
    }
}

/* ---- the gradient of a mask ---- */

/* Adds a block's gradients to the sums; a dimension that repeats has one place. */
static void add_block(const attention_block *x, bool queries, bool keys)
{
    for (int64_t i = 0; i < x->ni; i++) {
        const real *ds = (const real *)x->ds + i * x->job->pitch;
        double *sum = x->sum + (queries ? i * x->job->pitch : 0);
        if (keys) {
            for (int64_t j = 0; j < x->nj; j++)
                sum[j] += (double)ds[j];
        } else {
            double all = 0;
#pragma omp simd reduction(+ : all)
            for (int64_t j = 0; j < x->nj; j++)
                all += (double)ds[j];
            sum[0] += all;
        }
    }
}

/* From `at` of dimension k in steps of `step` to the end, or one step where the mask has places. */
static int64_t end_of(const attention_job *job, int k, int64_t at, int64_t step)
{
    const int64_t size[] = {job->b, job->h, job->lq, job->lk};
    return job->mask_shape[k] > 1 ? HOD_MIN(size[k], at + step) : size[k];
}

static int mask_back(const attention_job *job, int64_t task, attention_block x)
{
    const int64_t *shape = job->mask_shape, step[] = {1, 1, job->ni, job->nj};
    int64_t from[4], pitch = job->pitch;
    for (int k = 3; k >= 0; k--) {
        int64_t blocks = (shape[k] + step[k] - 1) / step[k];
        from[k] = task % blocks * step[k];
        task /= blocks;
    }
    bool queries = shape[2] > 1, keys = shape[3] > 1;
    memset(x.sum, 0, (size_t)((queries ? job->ni : 1) * pitch) * sizeof *x.sum);
    for (x.batch = from[0]; x.batch < end_of(job, 0, from[0], 1); x.batch++)
        for (x.head = from[1]; x.head < end_of(job, 1, from[1], 1); x.head++)
            for (x.i0 = from[2]; x.i0 < end_of(job, 2, from[2], job->ni); x.i0 += job->ni)
                for (x.j0 = from[3]; x.j0 < end_of(job, 3, from[3], job->nj); x.j0 += job->nj) {
                    int64_t kv = x.batch * job->k_heads + x.head / (job->h / job->k_heads);
                    x.ni = HOD_MIN(job->lq - x.i0, job->ni);
                    x.nj = HOD_MIN(last_seen(&x) - x.j0, job->nj);
                    if (x.nj <= 0)
                        continue;
                    if (slopes(&x, kv, 1) != 0)
                        return -1;
                    add_block(&x, queries, keys);
                }
    for (int64_t i = 0; i < (queries ? HOD_MIN(job->ni, shape[2] - from[2]) : 1); i++)
        for (int64_t j = 0; j < (keys ? HOD_MIN(job->nj, shape[3] - from[3]) : 1); j++)
            ((real *)
                 job->out)[((from[0] * shape[1] + from[1]) * shape[2] + from[2] + i) * shape[3] +
                           from[3] + j] = (real)x.sum[i * pitch + j];
    return 0;
}

const attention_kernels KERNELS = {forward, back, mask_back, add_parts};
