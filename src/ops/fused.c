/* How FUSED rows are run: inputs made row-major, lines shared among threads. fused.h has the idea,
 * fused_tmpl.c the kernels. */
#include "ops/fused.h"
#include "ops/rows.h"

_Thread_local bool hod__compose_only;

static bool at_once(void)
{
    return !hod__compose_only && (!hod__recorder || hod__recorder->watches);
}

bool hod__fuses(const hod_tensor *x)
{
    return at_once() && hod__is_computed(x->dtype) && hod_tensor_numel(x) > 0;
}

bool hod__fuses_back(void)
{
    return at_once() && !hod__tape_listens();
}

hod_lines hod__lines(const hod_meta *m, int dim)
{
    if (m->ndim == 0)
        return (hod_lines){1, 1, 1};
    return (hod_lines){hod__numel(dim, m->shape), m->shape[dim],
                       hod__numel(m->ndim - dim - 1, m->shape + dim + 1)};
}

int hod__shape_like_first(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    (void)c;
    *out = in[0];
    return 0;
}

int hod__shape_one_a_line(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    *out = in[0];
    out->shape[c->attrs->dim.dim] = 1;
    return 0;
}

typedef struct lines_job {
    hod_fused_call call;
    hod_fused_run *run;
    int64_t blocks; /* of neighbouring lines, each of up to HOD_LINES_AT_ONCE */
    /* Of each input, and last of the result; for lines that are turned. */
    bool each[HOD_FUSED_INPUTS + 1]; /* has it n elements a line? */
    size_t size[HOD_FUSED_INPUTS]; /* bytes a line, where it has one element; 0: the same for all */
} lines_job;

static void run_lines(void *context, int64_t begin, int64_t end)
{
    const lines_job *job = context;
    for (int64_t t = begin; t < end; t++) {
        int64_t from = t % job->blocks * HOD_LINES_AT_ONCE;
        job->run(&job->call, t / job->blocks, from,
                 HOD_MIN(HOD_LINES_AT_ONCE, job->call.lines.inner - from));
    }
}

/* ---- short lines ----
 *
 * A vector of 16 does not fill from a line of 10: lines that are short and lie densely are turned,
 * some at a time, so that neighbours are computed side by side. */
enum { SHORT_LINE = 128, TURNED = 2048 }; /* elements of a line; of the lines turned at once */

static int64_t turned_at_once(int64_t n)
{
    return HOD_MIN(HOD_LINES_AT_ONCE, TURNED / n);
}

static void turn(int64_t lines, int64_t n, const float *from, float *to)
{
    for (int64_t j = 0; j < lines; j++)
        for (int64_t i = 0; i < n; i++)
            to[i * lines + j] = from[j * n + i];
}

static void run_turned(void *context, int64_t begin, int64_t end)
{
    const lines_job *job = context;
    int64_t n = job->call.lines.n, step = turned_at_once(n);
    float scratch[HOD_FUSED_INPUTS + 1][TURNED];
    for (int64_t t = begin; t < end; t++) {
        int64_t o = t * step, w = HOD_MIN(step, job->call.lines.outer - o);
        hod_fused_call c = job->call;
        c.lines = (hod_lines){1, n, w};
        for (int k = 0; k < HOD_FUSED_INPUTS && c.in[k]; k++) {
            if (job->each[k])
                turn(w, n, (const float *)c.in[k] + o * n, scratch[k]);
            c.in[k] = job->each[k] ? (const void *)scratch[k]
                                   : (const char *)c.in[k] + o * (int64_t)job->size[k];
        }
        float *out = (float *)c.out + o * (job->each[HOD_FUSED_INPUTS] ? n : 1);
        c.out = job->each[HOD_FUSED_INPUTS] ? scratch[HOD_FUSED_INPUTS] : out;
        job->run(&c, 0, 0, w);
        if (job->each[HOD_FUSED_INPUTS])
            turn(n, w, scratch[HOD_FUSED_INPUTS], out);
    }
}

/* ---- calls ---- */

enum { PARALLEL_ELEMENTS = 16384 }; /* most kernels have an exponential in each */

/* Short lines of f32 that do not fill vectors and lie densely. */
static bool turns(const hod_lines *l, const hod_tensor *out)
{
    return l->inner == 1 && l->n > 1 && l->n <= SHORT_LINE && l->n % 16 != 0 &&
           out->dtype == HOD_F32;
}

/* What t has for a line of x: its n elements, one (size 1 along dim), or nothing of its own. */
static bool has_lines(const hod_tensor *t, const hod_meta *x, int dim)
{
    return t->ndim == x->ndim && t->shape[dim] == x->shape[dim];
}

static bool has_one_a_line(const hod_tensor *t, const hod_meta *x, int dim)
{
    return t->ndim == x->ndim && t->shape[dim] == 1;
}

static void run(lines_job *job, hod_tensor *const *in, const hod_tensor *out, const hod_meta *x,
                int dim)
{
    const hod_lines *l = &job->call.lines;
    if (!turns(l, out)) {
        int64_t each = l->n * HOD_MIN(l->inner, HOD_LINES_AT_ONCE);
        job->blocks = (l->inner + HOD_LINES_AT_ONCE - 1) / HOD_LINES_AT_ONCE;
        hod__parallel(l->outer * job->blocks, hod__grain_of(PARALLEL_ELEMENTS, each), run_lines,
                      job);
        return;
    }
    for (int k = 0; k < HOD_FUSED_INPUTS && in[k]; k++) {
        job->each[k] = has_lines(in[k], x, dim);
        job->size[k] = has_one_a_line(in[k], x, dim) ? hod_dtype_bytes(in[k]->dtype) : 0;
    }
    job->each[HOD_FUSED_INPUTS] = has_lines(out, x, dim);
    int64_t step = turned_at_once(l->n);
    hod__parallel((l->outer + step - 1) / step, hod__grain_of(PARALLEL_ELEMENTS, step * l->n),
                  run_turned, job);
}

int hod__eval_lines(const hod_op_call *c, hod_tensor *out)
{
    int dim = (int)c->attrs->dim.dim;
    hod_tensor *in[HOD_FUSED_INPUTS] = {NULL};
    hod_meta x = hod__meta(c->in[0]);
    lines_job job = {.call = {.lines = hod__lines(&x, dim), .attrs = c->attrs}};
    job.run = hod__rows()->fused[x.dtype][c->op];
    int rc = hod__eval_inputs(c, out, in);
    for (int i = 0; i < c->n && rc == 0; i++)
        job.call.in[i] = hod__data(in[i]);
    job.call.out = hod__data(out);
    if (rc == 0)
        run(&job, in, out, &x, dim);
    hod__release_inputs(c, in);
    return rc;
}
