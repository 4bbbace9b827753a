/* Images between their elements for one element type; resize.c includes this body for f32 and f64.
 *
 * Rows of x are first brought to the new width, and two of them are held: rows of the result that
 * lie between the same two share them. The transpose gathers what a row of x is due in a row of the
 * new width, and gives it to the columns once. */

/* Weights of the lower and of the upper neighbour; computed in f64. */
static void T(set_weights)(resize_job *job, int i, const double *part)
{
    elem *low = job->weight[i], *high = low + job->out[i];
    for (int64_t k = 0; k < job->out[i]; k++) {
        low[k] = (elem)(1 - part[k]);
        high[k] = (elem)part[k];
    }
}

static void T(across)(const resize_job *job, const elem *restrict row, elem *restrict y)
{
    const elem *low = job->weight[1], *high = low + job->out[1];
    const int64_t *at = job->low[1], last = job->in[1] - 1;
    for (int64_t k = 0; k < job->out[1]; k++)
        y[k] = row[at[k]] * low[k] + row[HOD_MIN(at[k] + 1, last)] * high[k];
}

/* What a row of the new width gives to x's columns. */
static void T(back_across)(const resize_job *job, const elem *restrict g, elem *restrict dx)
{
    const elem *low = job->weight[1], *high = low + job->out[1];
    const int64_t *at = job->low[1], last = job->in[1] - 1;
    if (job->nearest) {
        for (int64_t k = 0; k < job->out[1];) {
            int64_t to = at[k];
            elem sum = 0;
            for (; k < job->out[1] && at[k] == to; k++)
                sum += g[k];
            dx[to] += sum;
        }
        return;
    }
    for (int64_t k = 0; k < job->out[1]; k++) {
        dx[at[k]] += g[k] * low[k];
        dx[HOD_MIN(at[k] + 1, last)] += g[k] * high[k];
    }
}

static inline void T(blend)(int64_t n, const elem *restrict a, elem of_a, const elem *restrict b,
                            elem of_b, elem *restrict y)
{
    for (int64_t k = 0; k < n; k++)
        y[k] = a[k] * of_a + b[k] * of_b;
}

static inline void T(add_share)(int64_t n, const elem *restrict g, elem share, elem *restrict sum)
{
    for (int64_t k = 0; k < n; k++)
        sum[k] += g[k] * share;
}

static void T(linear_plane)(const resize_job *job, const elem *x, elem *y, elem *held)
{
    int64_t width = job->out[1], last = job->in[0] - 1, row_of[2] = {-1, -1};
    const elem *low = job->weight[0], *high = low + job->out[0];
    if (job->line) {
        T(across)(job, x, y);
        return;
    }
    for (int64_t k = 0; k < job->out[0]; k++) {
        int64_t row[2] = {job->low[0][k], HOD_MIN(job->low[0][k] + 1, last)};
        for (int i = 0; i < 2; i++) /* neighbours differ in parity */
            if (row_of[row[i] & 1] != row[i]) {
                T(across)(job, x + row[i] * job->in[1], held + (row[i] & 1) * width);
                row_of[row[i] & 1] = row[i];
            }
        T(blend)
        (width, held + (row[0] & 1) * width, low[k], held + (row[1] & 1) * width, high[k],
         y + k * width);
    }
}

static void T(back_plane)(const resize_job *job, const elem *g, elem *dx, elem *held)
{
    int64_t width = job->out[1], last = job->in[0] - 1, row_of[2] = {-1, -1};
    const elem *low = job->weight[0], *high = low + job->out[0];
    memset(dx, 0, (size_t)(job->in[0] * job->in[1]) * sizeof *dx);
    if (job->line) {
        T(back_across)(job, g, dx);
        return;
    }
    for (int64_t k = 0; k < job->out[0]; k++) {
        int64_t row[2] = {job->low[0][k], HOD_MIN(job->low[0][k] + 1, last)};
        for (int i = 0; i < (job->nearest ? 1 : 2); i++) {
            elem *sum = held + (row[i] & 1) * width;
            if (row_of[row[i] & 1] != row[i]) {
                if (row_of[row[i] & 1] >= 0)
                    T(back_across)(job, sum, dx + row_of[row[i] & 1] * job->in[1]);
                memset(sum, 0, (size_t)width * sizeof *sum);
                row_of[row[i] & 1] = row[i];
            }
            T(add_share)(width, g + k * width, job->nearest ? 1 : i ? high[k] : low[k], sum);
        }
    }
    for (int i = 0; i < 2; i++)
        if (row_of[i] >= 0)
            T(back_across)(job, held + i * width, dx + row_of[i] * job->in[1]);
}

static void T(planes)(void *context, int64_t begin, int64_t end)
{
    resize_job *job = context;
    int64_t image = job->in[0] * job->in[1], result = job->out[0] * job->out[1];
    hod_meta m = {.dtype = sizeof(elem) == 4 ? HOD_F32 : HOD_F64, .ndim = 1};
    m.shape[0] = 2 * job->out[1];
    hod_tensor *held = hod__eval_temporary(&m);
    if (!held) {
        job->failed = true;
        return;
    }
    for (int64_t p = begin; p < end; p++)
        if (job->back)
            T(back_plane)
            (job, (const elem *)job->from + p * result, (elem *)job->to + p * image,
             hod__data(held));
        else
            T(linear_plane)
            (job, (const elem *)job->from + p * image, (elem *)job->to + p * result,
             hod__data(held));
    hod_tensor_release(held);
}
