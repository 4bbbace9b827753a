/* The FUSED row of all normalisations, and its derivative.
 *
 * Elements are normalised in sets; each set is `pieces` runs of n neighbours, and `run` neighbours
 * share a weight:
 *
 *                    x as          sets   pieces   n          run   groups
 *     layer, rms     (R, L)        R      1        L          1     1
 *     group          (N, G, C/G S) N G    1        C/G S      S     G
 *     batch          (N, C, S)     C      N        S          S     C
 *
 *     element e of piece p of set s:  (p * sets + s) * n + e
 *     its weight:                     (s % groups) * (n / run) + e / run
 *
 * Of batch norm alone, mean and variance may be `given`, as inputs of one element a group.
 *
 * Means and deviations are computed again for backward: that reads what backward reads anyway, and
 * nothing but x is kept. */
#include "ops/fused.h"
#include "ops/rows.h"

static int64_t weights_of(const hod_attrs_norm *a)
{
    return a->groups * (a->n / a->run);
}

/* ---- kernels ---- */

typedef struct norm_job {
    hod_norm_call call;
    const hod_norm_rows *rows;
    int64_t blocks;
    double *sums; /* backward: dw, db of each block of sets */
} norm_job;

/* Sets that lie across memory, each with a weight of its own: batch norm of a table (N, C). */
static bool is_table(const hod_attrs_norm *a)
{
    return a->n == 1 && a->groups == a->sets;
}

static int64_t steps_of(const hod_attrs_norm *a)
{
    return !is_table(a) ? a->sets : (a->sets + HOD_LINES_AT_ONCE - 1) / HOD_LINES_AT_ONCE;
}

/* Step t is a set, or some neighbouring ones that lie across memory. */
static void step(const norm_job *job, int64_t t, double *sums)
{
    const hod_attrs_norm *a = job->call.attrs;
    double *db = sums ? sums + weights_of(a) : NULL;
    int64_t s = t * HOD_LINES_AT_ONCE, m = HOD_MIN(HOD_LINES_AT_ONCE, a->sets - s);
    bool table = is_table(a);
    if (!table && job->call.g)
        job->rows->back(&job->call, t, sums, db);
    else if (!table)
        job->rows->forward(&job->call, t);
    else if (job->call.g)
        job->rows->across_back(&job->call, s, m, sums, db);
    else
        job->rows->across(&job->call, s, m);
}

static void run_steps(void *context, int64_t begin, int64_t end)
{
    for (int64_t t = begin; t < end; t++)
        step(context, t, NULL);
}

/* Rows that share their weights, each in one piece: layer and rms norm. */
static bool is_rows(const hod_norm_call *c)
{
    const hod_attrs_norm *a = c->attrs;
    return c->w && a->groups == 1 && a->pieces == 1 && a->run == 1 && !a->given && !is_table(a);
}

/* Blocks of steps, each with sums of its own: the sums' order does not depend on threads. */
static void run_blocks(void *context, int64_t begin, int64_t end)
{
    const norm_job *job = context;
    int64_t steps = steps_of(job->call.attrs), k = 2 * weights_of(job->call.attrs);
    bool rows = is_rows(&job->call);
    for (int64_t i = begin; i < end; i++) {
        int64_t t = i * steps / job->blocks, stop = (i + 1) * steps / job->blocks;
        double *sums = job->sums ? job->sums + i * k : NULL;
        if (rows)
            job->rows->back_rows(&job->call, t, stop - t, sums, sums + k / 2);
        else
            for (; t < stop; t++)
                step(job, t, sums);
    }
}

enum { PARALLEL_ELEMENTS = 16384, BLOCKS = 16 }; /* each is read twice or more */

static int64_t grain_of(const hod_attrs_norm *a, int64_t steps)
{
    return hod__grain_of(PARALLEL_ELEMENTS, a->sets * a->pieces * a->n / steps);
}

static void prepare(norm_job *job, const hod_op_call *c, hod_tensor *const *in, hod_tensor *out)
{
    job->rows = &hod__rows()->norm[c->in[0]->dtype == HOD_F64];
    job->call = (hod_norm_call){.attrs = &c->attrs->norm, .x = hod__data(in[0])};
    job->call.y = hod__data(out);
}

int hod__eval_norm(const hod_op_call *c, hod_tensor *out)
{
    hod_tensor *in[HOD_FUSED_INPUTS] = {NULL};
    norm_job job = {0};
    int rc = hod__eval_inputs(c, out, in);
    if (rc == 0) {
        prepare(&job, c, in, out);
        job.call.w = c->n > 1 ? hod__data(in[1]) : NULL;
        job.call.b = c->n > 2 ? hod__data(in[2]) : NULL;
        job.call.mean = c->n > 3 ? hod__data(in[3]) : NULL;
        job.call.var = c->n > 3 ? hod__data(in[4]) : NULL;
        hod_attrs_norm a = c->attrs->norm;
        /* Given statistics need no sums over pieces: (N,C,S) is N C sets of one, read in order. */
        if (a.given && !is_table(&a)) {
            a.sets *= a.pieces;
            a.pieces = 1;
        }
        job.call.attrs = &a;
        int64_t steps = steps_of(job.call.attrs);
        hod__parallel(steps, grain_of(job.call.attrs, steps), run_steps, &job);
    }
    hod__release_inputs(c, in);
    return rc;
}

/* Adds the blocks' sums up, in order, into n values of out. */
static void put_sums(const norm_job *job, int64_t n, hod_tensor *out, int64_t at)
{
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t b = 0; b < job->blocks; b++)
            sum += job->sums[b * n + i];
        if (out->dtype == HOD_F64)
            ((double *)hod__data(out))[at + i] = sum;
        else
            ((float *)hod__data(out))[at + i] = (float)sum;
    }
}

int hod__eval_norm_back(const hod_op_call *c, hod_tensor *out)
{
    const hod_attrs_norm *a = &c->attrs->norm;
    hod_tensor *in[HOD_FUSED_INPUTS] = {NULL};
    int64_t steps = steps_of(a), k = 2 * weights_of(a);
    norm_job job = {.blocks = HOD_MIN(BLOCKS, steps)};
    int rc = hod__eval_inputs(c, out, in);
    if (rc == 0 && c->n > 2)
        rc = (job.sums = hod__alloc((size_t)(job.blocks * k), sizeof *job.sums)) ? 0 : -1;
    if (rc == 0) {
        prepare(&job, c, in, out);
        job.call.g = hod__data(in[1]);
        job.call.w = c->n > 2 ? hod__data(in[2]) : NULL;
        job.call.mean = c->n > 3 ? hod__data(in[3]) : NULL;
        job.call.var = c->n > 3 ? hod__data(in[4]) : NULL;
        hod__parallel(job.blocks, grain_of(a, job.blocks), run_blocks, &job);
        if (job.sums)
            put_sums(&job, k, out, hod_tensor_numel(in[0]));
    }
    free(job.sums);
    hod__release_inputs(c, in);
    return rc;
}

/* dx, and with weights dw and db behind it. */
int hod__shape_norm_gradients(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    int64_t n = hod__numel(in[0].ndim, in[0].shape);
    *out = (hod_meta){.dtype = in[0].dtype, .ndim = 1};
    out->shape[0] = n + (c->n > 2 ? 2 * weights_of(&c->attrs->norm) : 0);
    return 0;
}

/* ---- derivative ---- */

/* The gradients in a row, by the kernel; part `from` to `to` of them. */
static hod_tensor *part_of_row(const hod_vjp *v, int64_t from, int64_t to)
{
    hod_tensor *row = v->shared ? *v->shared : NULL;
    hod_tensor *in[HOD_FUSED_INPUTS] = {v->x[0], v->g};
    int n = v->n > 1 ? 3 : 2;
    if (n > 2)
        in[2] = v->x[1];
    for (int i = 3; i < v->n; i++)
        in[n++] = v->x[i];
    if (!row)
        row = hod__op(HOD_OP_norm_back, v->attrs, n, in);
    if (v->shared)
        *v->shared = row;
    return hod_slice(row, 0, from, to);
}

/* t, like x or a weight of it, as (pieces, sets / groups, groups, n / run, run). */
static hod_tensor *spread(hod_tensor *t, const hod_attrs_norm *a, bool weight)
{
    int64_t runs = a->n / a->run;
    return hod_reshape(t, weight
                              ? HOD_SHAPE(1, 1, a->groups, runs, 1)
                              : HOD_SHAPE(a->pieces, a->sets / a->groups, a->groups, runs, a->run));
}

static hod_tensor *set_mean(hod_tensor *t)
{
    return hod_mean_over(t, HOD_SHAPE(0, 3, 4), true);
}

/* Gradient i by operators; norm_tmpl.c has the equations. */
static hod_tensor *composed_gradient(const hod_vjp *v, int i)
{
    const hod_attrs_norm *a = &v->attrs->norm;
    hod_tensor *x = spread(v->x[0], a, false), *g = spread(v->g, a, false);
    if (!x || !g)
        return NULL;
    hod_tensor *mean = a->given ? spread(v->x[3], a, true) : a->centred ? set_mean(x) : NULL;
    hod_tensor *d = a->centred ? hod_sub(x, mean) : x;
    hod_tensor *var = a->given ? spread(v->x[4], a, true) : set_mean(hod_square(d));
    hod_tensor *scale = hod_rsqrt(hod_add_scalar(var, a->eps));
    hod_tensor *h = hod_mul(d, scale);
    if (i > 0)
        return hod_sum_over(i == 1 ? hod_mul(g, h) : g, HOD_SHAPE(0, 1, 4), false);
    hod_tensor *u = v->n > 1 ? hod_mul(g, spread(v->x[1], a, true)) : g;
    if (a->given)
        return hod_mul(scale, u);
    hod_tensor *less = hod_mul(h, set_mean(hod_mul(u, h)));
    hod_tensor *rest = a->centred ? hod_sub(u, set_mean(u)) : u;
    return hod_mul(scale, hod_sub(rest, less));
}

hod_tensor *hod__vjp_norm(const hod_vjp *v, int i)
{
    const hod_attrs_norm *a = &v->attrs->norm;
    int64_t n = hod__numel(v->meta[0].ndim, v->meta[0].shape), k = weights_of(a);
    hod_tensor *d;
    if (i > 2) /* fronts do not bring statistics that want a gradient */
        return HOD_NO_GRADIENT;
    if (!hod__fuses_back())
        d = composed_gradient(v, i);
    else if (i == 0)
        d = part_of_row(v, 0, n);
    else /* a copy, which does not keep the row */
        d = hod_copy(part_of_row(v, n + (i - 1) * k, n + i * k));
    return hod_reshape(d, hod_shape_of(v->meta[i].ndim, v->meta[i].shape));
}

/* ---- front ---- */

hod_tensor *hod__norm(hod_tensor *x, hod_tensor *w, hod_tensor *b, hod_attrs_norm norm)
{
    HOD_ATTRS(a);
    a.norm = norm;
    return hod__op(HOD_OP_norm, &a, b ? 3 : w ? 2 : 1, (hod_tensor *[]){x, w, b});
}

hod_tensor *hod__norm_given(hod_tensor *x, hod_tensor *w, hod_tensor *b, hod_tensor *mean,
                            hod_tensor *var, hod_attrs_norm norm)
{
    HOD_ATTRS(a);
    a.norm = norm;
    a.norm.given = true;
    return hod__op(HOD_OP_norm, &a, 5, (hod_tensor *[]){x, w, b, mean, var});
}
