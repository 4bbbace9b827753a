/* The checks that cost more than a case's values: finite differences, and compiled = eager. Each
 * takes a few cases of an operator, spread over its arguments.
 */
#include "golden.h"
#include <hod/autograd.h>
#include <hod/compile.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- finite differences ---- */

typedef struct job {
    const gold_binding *row;
    const gold_case *k;
    bool curved;
    hod_tensor *fixed[GOLD_MAX_TENSORS]; /* inputs that have no gradient; else NULL */
} job;

/* Σ w (y + y² / 2) for second derivatives, which then also come through the gradient that arrives;
 * Σ w y else. */
static hod_tensor *weighted(void *context, hod_tensor *const *in, int n)
{
    const job *j = context;
    hod_tensor *x[GOLD_MAX_TENSORS];
    gold c;
    for (int i = 0, at = 0; i < j->k->n_x; i++)
        x[i] = j->fixed[i] ? j->fixed[i] : at < n ? in[at++] : NULL;
    if (gold_run(j->row, j->k, x, &c) != 0)
        return NULL;
    for (int i = 0; j->curved && i < c.n_y; i++)
        if (hod_tensor_dtype(c.y[i]) == HOD_F64)
            c.y[i] = hod_add(c.y[i], hod_mul_scalar(hod_square(c.y[i]), 0.5));
    return gold_weighted(&c);
}

static bool tame(const gold_array *a, double most)
{
    for (int64_t i = 0; i < a->n; i++)
        if (!(fabs(a->values[i]) <= most))
            return false;
    return true;
}

/* Few elements, and numbers that differences of 1e-6 can see. */
static bool fit_for_differences(const gold_case *k, int64_t most)
{
    int64_t n = 0;
    for (int i = 0; k->g && i < k->n_x; i++)
        if (k->g[i].values) {
            n += k->x[i].n;
            if (!tame(&k->x[i], 100) || !tame(&k->g[i], 100))
                return false;
        }
    for (int i = 0; i < k->n_y; i++)
        if (!tame(&k->y[i], 1000))
            return false;
    return n > 0 && n <= most;
}

/* The input moved toward zero by up to 0.4 %, each element differently; zeros to a little above. So
 * no element sits at a kink or beside its equal, and none leaves an interval around zero. */
static hod_tensor *off_the_kinks(const gold_array *a)
{
    double *v = calloc((size_t)a->n + 1, sizeof *v);
    for (int64_t i = 0; i < a->n; i++) {
        double by = 0x1p-10 + 0x1p-14 * (double)(i * 29 % 47);
        v[i] = a->values[i] == 0 ? by : a->values[i] * (1 - by);
    }
    hod_tensor *t = hod_from_doubles(v, a->shape);
    free(v);
    return t;
}

static void differences(gold_line *line, const gold_case *k, gold_column column, bool verbose)
{
    HOD_SCOPE(s);
    job j = {.row = line->row, .k = k, .curved = column == GOLD_GRADGRADCHECK};
    hod_tensor *in[GOLD_MAX_TENSORS];
    int n = 0;
    for (int i = 0; i < k->n_x; i++)
        if (k->g[i].values)
            in[n++] = off_the_kinks(&k->x[i]);
        else
            j.fixed[i] = gold_make(&k->x[i], HOD_F64);
    hod_gradcheck_report r;
    int failed = column == GOLD_GRADCHECK ? hod_gradcheck(weighted, n, in, &r, &j)
                                          : hod_gradgradcheck(weighted, n, in, &r, &j);
    if (failed)
        gold_note(line, column, k, verbose, "fails");
    else if (!r.passed)
        gold_note(line, column, k, verbose, "input %d[%lld]: %.9g, by differences %.9g", r.input,
                  (long long)r.element, r.analytic, r.numeric);
    else
        gold_note(line, column, k, verbose, NULL);
}

/* Does hod take the case? What fails is reported with its values. */
static bool runs(const gold_binding *row, const gold_case *k)
{
    HOD_SCOPE(s);
    hod_tensor *x[GOLD_MAX_TENSORS];
    gold c;
    for (int e = 0; e < k->n_x; e++)
        x[e] = gold_make(&k->x[e], HOD_F64);
    bool good = gold_run(row, k, x, &c) == 0;
    hod_error_take(NULL);
    return good;
}

/* Calls differences for at most `most` of the cases that fit, evenly; for the smallest where all
 * are large. */
static void some_differences(gold_line *line, const gold_case *cases, int n, gold_column column,
                             int most, bool verbose)
{
    static const int64_t limits[] = {24, 48, 150, 1000};
    const gold_case **fit = calloc((size_t)n + 1, sizeof *fit);
    int found = 0;
    for (int e = 0; e < (int)(sizeof limits / sizeof *limits) && found == 0; e++)
        for (int i = 0; i < n; i++)
            if (fit_for_differences(&cases[i], limits[e]) && runs(line->row, &cases[i]))
                fit[found++] = &cases[i];
    for (int i = 0; i < found; i++)
        if (found <= most || (i + 1) * most / found > i * most / found)
            differences(line, fit[i], column, verbose);
    free(fit);
}

void gold_check_derivatives(gold_line *line, const gold_case *cases, int n, bool verbose)
{
    if (!line->empty[GOLD_GRADCHECK])
        some_differences(line, cases, n, GOLD_GRADCHECK, 6, verbose);
    if (!line->empty[GOLD_GRADGRADCHECK])
        some_differences(line, cases, n, GOLD_GRADGRADCHECK, 3, verbose);
}

/* ---- compiled = eager ---- */

enum { MAX_TOGETHER = 8, MAX_VALUES = 256 };

typedef struct batch {
    const gold_binding *row;
    const gold_case *k[MAX_TOGETHER];
    int n, n_in, n_out;
} batch;

/* Every case of the batch: results, then gradients of their weighted sum. */
static int body(void *context, hod_tensor *const *in, hod_tensor **out)
{
    batch *b = context;
    int at = 0, y = 0;
    for (int i = 0; i < b->n; i++) {
        const gold_case *k = b->k[i];
        hod_tensor *wanted[GOLD_MAX_TENSORS];
        gold c;
        int n = 0;
        for (int e = 0; e < k->n_x; e++)
            if (k->g && k->g[e].values)
                wanted[n++] = in[at + e];
        if (gold_run(b->row, k, in + at, &c) != 0)
            return -1;
        for (int e = 0; e < c.n_y; e++)
            out[y++] = c.y[e];
        hod_tensor *loss = n > 0 && !b->row->empty[GOLD_GRADIENT] ? gold_weighted(&c) : NULL;
        if (loss && hod_tensor_requires_grad(loss)) {
            if (hod_grad_of(loss, n, wanted, out + y, HOD_ONES,
                            .allow_unused = true) != 0)
                return -1;
            for (int e = 0; e < n; e++, y++)
                if (!out[y])
                    out[y] = hod_full_like(wanted[e], 0);
        }
        at += k->n_x;
    }
    b->n_out = y;
    return 0;
}

static bool close_enough(const hod_tensor *a, const hod_tensor *b, double tol, double *off)
{
    int64_t n = hod_tensor_numel(b);
    double *x = calloc((size_t)n + 1, sizeof *x), *y = calloc((size_t)n + 1, sizeof *y);
    double worst = 0, scale = 0;
    bool good = hod_tensor_numel(a) == n && hod_tensor_dtype(a) == hod_tensor_dtype(b) &&
                hod_read_doubles(a, x, n) == 0 && hod_read_doubles(b, y, n) == 0;
    for (int64_t i = 0; good && i < n; i++)
        if (isfinite(y[i]))
            scale = fmax(scale, fabs(y[i]));
    for (int64_t i = 0; good && i < n; i++) {
        bool same = x[i] == y[i] || (isnan(x[i]) && isnan(y[i]));
        if (!same)
            worst = fmax(worst, isfinite(x[i] - y[i]) ? fabs(x[i] - y[i]) : INFINITY);
    }
    free(x);
    free(y);
    *off = scale > 0 ? worst / scale : worst;
    return good && worst <= tol * scale;
}

static void run_batch(gold_line *line, batch *b, bool verbose)
{
    HOD_SCOPE(s);
    hod_tensor *in[MAX_VALUES], *eager[MAX_VALUES] = {0}, *out[MAX_VALUES] = {0};
    for (int i = 0; i < b->n; i++)
        for (int e = 0; e < b->k[i]->n_x; e++) {
            in[b->n_in] = gold_make(&b->k[i]->x[e], HOD_F32);
            if (b->k[i]->g && b->k[i]->g[e].values)
                hod_requires_grad(in[b->n_in], true);
            b->n_in++;
        }
    if (body(b, in, eager) != 0) {
        hod_error_take(NULL); /* reported with its values */
        return;
    }
    hod_fn *f = hod_compile(body, b, .inputs = b->n_in, .outputs = b->n_out, .name = line->op);
    bool good = f && hod_fn_call(f, in, out) == 0;
    if (!good)
        gold_note(line, GOLD_COMPILED, b->k[0], verbose, "compiled: fails");
    for (int i = 0; good && i < b->n_out; i++) {
        double off = 0;
        good = close_enough(out[i], eager[i], line->row->f32 > 0 ? line->row->f32 : 1e-6, &off);
        if (!good)
            gold_note(line, GOLD_COMPILED, b->k[0], verbose,
                      "compiled: value %d of the batch is off by %.3g", i, off);
    }
    for (int i = 0; good && i < b->n; i++)
        gold_note(line, GOLD_COMPILED, b->k[i], verbose, NULL);
    hod_fn_free(f);
}

void gold_check_compiled(gold_line *line, const gold_case *cases, int n, bool verbose)
{
    const gold_case **fit = calloc((size_t)n + 1, sizeof *fit);
    batch b = {.row = line->row};
    int values = 0, found = 0;
    for (int i = 0; i < n; i++)
        if (runs(line->row, &cases[i]))
            fit[found++] = &cases[i];
    for (int e = 0; e < MAX_TOGETHER && found > 0; e++) {
        const gold_case *k = fit[e * found / MAX_TOGETHER];
        int more = k->n_x * 2 + k->n_y;
        if ((b.n > 0 && b.k[b.n - 1] == k) || values + more > MAX_VALUES)
            continue;
        b.k[b.n++] = k;
        values += more;
    }
    free(fit);
    if (b.n > 0)
        run_batch(line, &b, verbose);
}
