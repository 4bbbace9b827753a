/* Blocks of attention for one `real`; attention_blocks.c says what they compute. */

/* c (m,n) += op(a) (m,k) op(b) (k,n), rows ld apart. */
static int T(times)(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, bool ta,
                    const real *b, int64_t ldb, bool tb, real *c, int64_t ldc)
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
    return m == 0 || n == 0 || k == 0 ? 0 : T(product)(&g, a, b, c);
}

/* Row i of a block: scores become scaled and masked; keys behind the last one seen are -inf. */
static void T(mask_row)(const attention_block *x, int64_t i, real *s)
{
    const attention_job *job = x->job;
    real scale = (real)job->scale, none = -(real)INFINITY;
    for (int64_t j = 0; j < x->nj; j++)
        s[j] *= scale;
    if (job->mask) {
        const int64_t *stride = job->mask_stride;
        int64_t at = x->batch * stride[0] + x->head * stride[1] + (x->i0 + i) * stride[2] +
                     x->j0 * stride[3];
        if (job->mask->dtype == HOD_BOOL) {
            const uint8_t *keep = (const uint8_t *)hod__data(job->mask) + at;
            for (int64_t j = 0; j < x->nj; j++)
                s[j] = keep[j * stride[3]] ? s[j] : none;
        } else {
            const real *more = (const real *)hod__data(job->mask) + at;
            for (int64_t j = 0; j < x->nj; j++)
                s[j] += more[j * stride[3]];
        }
    }
    if (job->causal)
        for (int64_t j = HOD_MAX(0, x->i0 + i + 1 - x->j0); j < x->nj; j++)
            s[j] = none;
}

static void T(forward_rows)(const attention_block *x)
{
    const attention_job *job = x->job;
    real *top = x->top, *out = job->out;
    for (int64_t i = 0; i < x->ni; i++) {
        real *s = (real *)x->s + i * ATTENTION_BLOCK;
        T(mask_row)(x, i, s);
        real old = top[i], new = old;
        for (int64_t j = 0; j < x->nj; j++)
            new = s[j] > new ? s[j] : new;
        real shift = new - new == 0 ? new : 0; /* finite */
        double sum = 0;
        for (int64_t j = 0; j < x->nj; j++)
            s[j] = EXP(s[j] - shift);
        for (int64_t j = 0; j < x->nj; j++)
            sum += (double)s[j];
        real less = old == -(real)INFINITY ? 0 : EXP(old - new);
        x->sum[i] = x->sum[i] * (double)less + sum;
        top[i] = new;
        real *y = out + ((x->batch * job->h + x->head) * job->lq + x->i0 + i) * (job->e + 1);
        if (less != 1)
            for (int64_t l = 0; l < job->e; l++)
                y[l] *= less;
    }
}

/* Sums become means; the last column is log Σ exp. */
static void T(finish)(const attention_block *x)
{
    const attention_job *job = x->job;
    const real *top = x->top;
    for (int64_t i = 0; i < x->ni; i++) {
        real *y =
            (real *)job->out + ((x->batch * job->h + x->head) * job->lq + x->i0 + i) * (job->e + 1);
        double sum = x->sum[i];
        bool none = sum == 0;
        real by = none ? 0 : (real)(1 / sum);
        for (int64_t l = 0; l < job->e; l++)
            y[l] *= by;
        real shift = top[i] - top[i] == 0 ? top[i] : 0;
        y[job->e] = none ? -(real)INFINITY : (real)(log(sum) + (double)shift);
    }
}

/* Task: a block of queries of one batch and head. */
static int T(forward)(const attention_job *job, int64_t task, attention_block x)
{
    int64_t blocks = (job->lq + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK, row = task / blocks;
    int64_t pitch = job->e + 1, d = job->d, e = job->e;
    x.batch = row / job->h;
    x.head = row % job->h;
    x.i0 = task % blocks * ATTENTION_BLOCK;
    x.ni = HOD_MIN(job->lq - x.i0, ATTENTION_BLOCK);
    int64_t kv = x.batch * job->k_heads + x.head / (job->h / job->k_heads);
    const real *q = (const real *)job->q + (row * job->lq + x.i0) * d;
    const real *k = (const real *)job->k + kv * job->lk * d;
    const real *v = (const real *)job->v + kv * job->lk * e;
    real *y = (real *)job->out + (row * job->lq + x.i0) * pitch;
    for (int64_t i = 0; i < x.ni; i++) {
        ((real *)x.top)[i] = -(real)INFINITY;
        x.sum[i] = 0;
    }
    int64_t seen = job->causal ? HOD_MIN(job->lk, x.i0 + x.ni) : job->lk;
    for (x.j0 = 0; x.j0 < seen; x.j0 += ATTENTION_BLOCK) {
        x.nj = HOD_MIN(seen - x.j0, ATTENTION_BLOCK);
        memset(x.s, 0, (size_t)x.ni * ATTENTION_BLOCK * sizeof(real));
        if (T(times)(x.ni, x.nj, d, q, d, false, k + x.j0 * d, d, true, x.s, ATTENTION_BLOCK) != 0)
            return -1;
        T(forward_rows)(&x);
        if (T(times)(x.ni, e, x.nj, x.s, ATTENTION_BLOCK, false, v + x.j0 * e, e, false, y,
                     pitch) != 0)
            return -1;
    }
    T(finish)(&x);
    return 0;
}

/* ---- backward ---- */

/* Where one block has all keys: makes p sum to 1 and returns Σ p dp, without the roundings of the
 * logarithm and of the result. */
static real T(share_of)(int64_t n, real *p, const real *dp)
{
    double sum = 0, share = 0;
    for (int64_t j = 0; j < n; j++)
        sum += (double)p[j];
    for (int64_t j = 0; j < n; j++) {
        share += (double)p[j] * (double)dp[j];
        p[j] = (real)((double)p[j] / sum);
    }
    return (real)(share / sum);
}

/* Scores become probabilities, and ds, which holds dY Vᵀ, their gradient times scale. */
static void T(back_rows)(const attention_block *x)
{
    const attention_job *job = x->job;
    real scale = (real)job->scale;
    int64_t pitch = job->e + 1;
    for (int64_t i = 0; i < x->ni; i++) {
        real *p = (real *)x->s + i * ATTENTION_BLOCK, *ds = (real *)x->ds + i * ATTENTION_BLOCK;
        int64_t row = (x->batch * job->h + x->head) * job->lq + x->i0 + i;
        real total = ((const real *)job->y)[row * pitch + job->e];
        real share = ((const real *)x->top)[x->i0 + i];
        if (total == -(real)INFINITY) {
            memset(p, 0, (size_t)x->nj * sizeof *p);
            memset(ds, 0, (size_t)x->nj * sizeof *ds);
            continue;
        }
        T(mask_row)(x, i, p);
        for (int64_t j = 0; j < x->nj; j++)
            p[j] = EXP(p[j] - total);
        if (x->nj == job->lk)
            share = T(share_of)(x->nj, p, ds) - ((const real *)job->g)[row * pitch + job->e];
        for (int64_t j = 0; j < x->nj; j++)
            ds[j] = p[j] * (ds[j] - share) * scale;
    }
}

/* One block's part of the gradients dq, dk, dv of its head. */
static int T(back_block)(attention_block *x, const real *q, const real *k, const real *v,
                         const real *g, real *dq, real *dk, real *dv)
{
    const attention_job *job = x->job;
    int64_t d = job->d, e = job->e, b = ATTENTION_BLOCK;
    memset(x->s, 0, (size_t)(x->ni * b) * sizeof(real));
    memset(x->ds, 0, (size_t)(x->ni * b) * sizeof(real));
    if (T(times)(x->ni, x->nj, d, q, d, false, k, d, true, x->s, b) != 0 ||
        T(times)(x->ni, x->nj, e, g, e + 1, false, v, e, true, x->ds, b) != 0)
        return -1;
    T(back_rows)(x);
    return T(times)(x->nj, e, x->ni, x->s, b, true, g, e + 1, false, dv, e) == 0 &&
                   T(times)(x->ni, d, x->nj, x->ds, b, false, k, d, false, dq, d) == 0 &&
                   T(times)(x->nj, d, x->ni, x->ds, b, true, q, d, false, dk, d) == 0
               ? 0
               : -1;
}

/* Top gets Σ g y over the values of each query of a head, less g of the logarithm. */
static void T(shares)(const attention_job *job, int64_t row, real *top)
{
    int64_t pitch = job->e + 1;
    const real *y = (const real *)job->y + row * job->lq * pitch;
    const real *g = (const real *)job->g + row * job->lq * pitch;
    for (int64_t i = 0; i < job->lq; i++) {
        double sum = 0;
        for (int64_t l = 0; l < job->e; l++)
            sum += (double)g[i * pitch + l] * (double)y[i * pitch + l];
        top[i] = (real)(sum - (double)g[i * pitch + job->e]);
    }
}

/* Task: a head of keys and values of one batch, and the heads of queries that share it. */
static int T(back)(const attention_job *job, int64_t task, attention_block x)
{
    int64_t d = job->d, e = job->e, pitch = e + 1, group = job->h / job->k_heads;
    real *dq_all = job->out, *dk = dq_all + job->b * job->h * job->lq * d;
    real *dv = dk + job->b * job->k_heads * job->lk * d + task * job->lk * e;
    const real *k = (const real *)job->k + task * job->lk * d;
    const real *v = (const real *)job->v + task * job->lk * e;
    dk += task * job->lk * d;
    for (int64_t n = 0; n < group; n++) {
        x.batch = task / job->k_heads;
        x.head = task % job->k_heads * group + n;
        int64_t row = x.batch * job->h + x.head;
        const real *g = (const real *)job->g + row * job->lq * pitch;
        const real *q = (const real *)job->q + row * job->lq * d;
        real *dq = dq_all + row * job->lq * d;
        T(shares)(job, row, x.top);
        for (x.j0 = 0; x.j0 < job->lk; x.j0 += ATTENTION_BLOCK)
            for (x.i0 = 0; x.i0 < job->lq; x.i0 += ATTENTION_BLOCK) {
                x.ni = HOD_MIN(job->lq - x.i0, ATTENTION_BLOCK);
                x.nj = HOD_MIN(job->lk - x.j0, ATTENTION_BLOCK);
                if (job->causal && x.j0 >= x.i0 + x.ni)
                    continue;
                if (T(back_block)(&x, q + x.i0 * d, k + x.j0 * d, v + x.j0 * e, g + x.i0 * pitch,
                                  dq + x.i0 * d, dk + x.j0 * d, dv + x.j0 * e) != 0)
                    return -1;
            }
    }
    return 0;
}
