/* What is checked of a golden case: values and gradients in every type, through strided inputs.
 *
 * An error is relative to the largest magnitude of the result that the type can hold: 1e-12 in f64,
 * 1e-6 in f32 (or the row's 1e-5 where a sum is long), and in f16 and bf16 one rounding of what f32
 * gives. NaN equals NaN, infinities themselves; what overflows the type is infinite in it.
 */
#include "golden.h"
#include <hod/autograd.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gold_note(gold_line *line, gold_column column, const gold_case *k, bool verbose,
               const char *what, ...)
{
    gold_cell *cell = &line->cell[column];
    hod_error_record e = {.text = ""};
    if (!what) {
        cell->proven++;
        return;
    }
    hod_error_take(&e);
    char text[512], *args = json_dumps(k->args, JSON_COMPACT);
    va_list list;
    va_start(list, what);
    vsnprintf(text, sizeof text, what, list);
    va_end(list);
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", *e.text ? ": " : "", e.text);
    if (verbose) {
        printf("  case %d %s %.300s", k->number, line->op, args);
        for (int i = 0; i < k->n_x; i++) {
            printf(" (");
            for (int d = 0; d < k->x[i].shape.n; d++)
                printf("%s%lld", d ? "," : "", (long long)k->x[i].shape.d[d]);
            printf(")");
        }
        printf(": %s\n", text);
    }
    if (cell->failed++ == 0)
        snprintf(cell->first, sizeof cell->first, "case %d: %.200s: %.250s", k->number, args, text);
    free(args);
}

/* ---- tensors ---- */

hod_tensor *gold_make(const gold_array *a, hod_dtype under_test)
{
    if (!a->under_test && a->dtype == HOD_I64)
        return hod_from_ints(a->ints, a->shape);
    hod_dtype dtype = a->under_test ? under_test : a->dtype;
    return hod_cast(hod_from_doubles(a->values, a->shape), dtype);
}

/* The same values, with strides that are not row-major: each element beside a stranger, and the
 * dimensions stored the other way round. */
static hod_tensor *strided(hod_tensor *x)
{
    int n = hod_tensor_ndim(x);
    if (n == 0 || n == HOD_MAX_DIMS)
        return x;
    hod_shape order = {.n = n};
    for (int i = 0; i < n; i++)
        order.d[i] = n - 1 - i;
    hod_tensor *turned = hod_copy(hod_permute_to(x, order));
    hod_tensor *pair[] = {turned, hod_copy(turned)};
    return hod_permute_to(hod_select(hod_stack(2, pair, -1), -1, 0), order);
}

int gold_run(const gold_binding *row, const gold_case *k, hod_tensor *const *x, gold *c)
{
    *c = (gold){.k = k, .x = x};
    return row->call(c);
}

static bool is_float(hod_dtype d)
{
    return d == HOD_F32 || d == HOD_F64 || d == HOD_F16 || d == HOD_BF16;
}

static double weight(int64_t i, int k)
{
    return ((double)((i * 37 + k * 11) % 64) - 31.5) / 32;
}

hod_tensor *gold_weighted(const gold *c)
{
    hod_tensor *sum = NULL;
    for (int k = 0; k < c->n_y; k++) {
        hod_tensor *y = c->y[k];
        if (!is_float(hod_tensor_dtype(y)))
            continue;
        int64_t n = hod_tensor_numel(y);
        double *w = calloc((size_t)n + 1, sizeof *w);
        for (int64_t i = 0; i < n; i++)
            w[i] = weight(i, k);
        hod_tensor *t = hod_cast(hod_from_doubles(w, hod_tensor_shape(y)), hod_tensor_dtype(y));
        free(w);
        hod_tensor *part = hod_sum(hod_mul(y, t));
        sum = sum ? hod_add(sum, part) : part;
    }
    return sum;
}

/* ---- comparing ---- */

static double largest_of(hod_dtype d)
{
    return d == HOD_F32    ? 3.4028235e38
           : d == HOD_F16  ? 65504
           : d == HOD_BF16 ? 3.3895314e38
                           : 1e308;
}

/* Below it a type loses digits. */
static double least_normal(hod_dtype d)
{
    return d == HOD_F16 ? 0x1p-14 : d == HOD_F64 ? 0x1p-1022 : 0x1p-126;
}

/* Index of the first element of a that is not b within tol times the largest |b|; -1: none. */
static int64_t first_apart(const double *a, const double *b, int64_t n, hod_dtype d, double tol,
                           double *scale)
{
    double top = largest_of(d);
    *scale = least_normal(d);
    for (int64_t i = 0; i < n; i++)
        if (fabs(b[i]) <= top)
            *scale = fmax(*scale, fabs(b[i]));
    for (int64_t i = 0; i < n; i++) {
        bool over = !isnan(b[i]) && fabs(b[i]) > top * (1 - tol);
        bool same = isnan(b[i]) ? isnan(a[i])
                    : over ? signbit(a[i]) == signbit(b[i]) && fabs(a[i]) >= top * (1 - 2 * tol)
                           : fabs(a[i] - b[i]) <= tol * *scale;
        if (!same)
            return i;
    }
    return -1;
}

static bool same_kind(const gold_array *want, hod_dtype have)
{
    hod_dtype w = want->under_test ? HOD_F64 : want->dtype;
    return is_float(w) ? is_float(have) : (w == HOD_BOOL) == (have == HOD_BOOL) && !is_float(have);
}

typedef struct comparison {
    gold_line *line;
    const gold_case *k;
    bool verbose;
    gold_column column;
    hod_dtype dtype;
    double tol;
} comparison;

#define NOTE(c, ...) gold_note((c)->line, (c)->column, (c)->k, (c)->verbose, __VA_ARGS__)

/* `want`: the values to meet, where they are not the array's own. */
static bool compare(const comparison *c, const char *what, int number, const hod_tensor *have,
                    const gold_array *array, const double *want)
{
    int64_t n = hod_tensor_numel(have), at = -1;
    hod_shape s = hod_tensor_shape(have);
    const char *type = hod_dtype_name(c->dtype);
    double scale = 0;
    if (s.n != array->shape.n || memcmp(s.d, array->shape.d, sizeof *s.d * (size_t)s.n) != 0) {
        char text[128];
        return NOTE(c, "%s: %s %d is %s", type, what, number,
                    hod_tensor_text(have, text, sizeof text)),
               false;
    }
    if (!same_kind(array, hod_tensor_dtype(have)))
        return NOTE(c, "%s: %s %d has type %s", type, what, number,
                    hod_dtype_name(hod_tensor_dtype(have))),
               false;
    double *a = calloc((size_t)n + 1, sizeof *a);
    int64_t *ints = calloc((size_t)n + 1, sizeof *ints);
    const double *b = want ? want : array->values;
    if (is_float(hod_tensor_dtype(have))) {
        if (hod_read_doubles(have, a, n) == 0)
            at = first_apart(a, b, n, c->dtype, c->tol, &scale);
    } else if (hod_read_ints(have, ints, n) == 0) {
        for (int64_t i = n - 1; i >= 0; i--)
            if (a[i] = (double)ints[i], ints[i] != array->ints[i])
                at = i;
    }
    if (at >= 0 || hod_error())
        NOTE(c, "%s: %s %d[%lld] is %.17g, not %.17g (largest %.3g)", type, what, number,
             (long long)at, at >= 0 ? a[at] : 0, at >= 0 ? b[at] : 0, scale);
    free(a);
    free(ints);
    return at < 0 && !hod_error();
}

static bool compare_results(const comparison *c, const gold *r)
{
    if (r->n_y != c->k->n_y && !r->first_only)
        return NOTE(c, "%d results, not %d", r->n_y, c->k->n_y), false;
    for (int i = 0; i < r->n_y; i++)
        if (!compare(c, "result", i, r->y[i], &c->k->y[i], NULL))
            return false;
    return true;
}

/* A gradient that never arrived counts as zero. */
static bool compare_gradients(const comparison *c, hod_tensor *const *x)
{
    for (int i = 0; i < c->k->n_x; i++) {
        const gold_array *g = &c->k->g[i];
        if (!g->values)
            continue;
        hod_tensor *dx = hod_grad(x[i]);
        if (!dx)
            dx = hod_zeros(c->dtype, g->shape);
        if (!compare(c, "gradient", i, dx, g, NULL))
            return false;
    }
    return true;
}

/* ---- one case in one type ---- */

static bool make_inputs(const gold_case *k, hod_dtype dtype, bool as_strided, hod_tensor **x)
{
    bool moved = false;
    for (int i = 0; i < k->n_x; i++) {
        x[i] = gold_make(&k->x[i], dtype);
        if (as_strided) {
            x[i] = hod_detach(strided(x[i]));
            moved |= !hod_tensor_is_contiguous(x[i]);
        }
        if (k->g && k->g[i].values)
            hod_requires_grad(x[i], true);
    }
    return moved;
}

static bool wanted(const gold_line *line, gold_column column)
{
    return !line->row->empty[column];
}

static void also(const comparison *c, gold_column column)
{
    gold_note(c->line, column, c->k, c->verbose, NULL);
}

/* Forward and gradient in f64 or f32. False: the binding skipped the case. */
static bool check_type(comparison c, bool as_strided)
{
    HOD_SCOPE(s);
    hod_tensor *x[GOLD_MAX_TENSORS];
    gold r;
    if (!make_inputs(c.k, c.dtype, as_strided, x) && as_strided)
        return true;
    if (gold_run(c.line->row, c.k, x, &r) != 0) {
        if (r.skipped && !hod_error()) {
            c.line->skipped += c.dtype == HOD_F64 && !as_strided;
            if (!*c.line->skip_reason)
                snprintf(c.line->skip_reason, sizeof c.line->skip_reason, "%s", r.skipped);
            return false;
        }
        return NOTE(&c, "%s: fails", hod_dtype_name(c.dtype)), true;
    }
    if (!compare_results(&c, &r))
        return true;
    gold_column proven = c.column;
    if (c.k->g && wanted(c.line, GOLD_GRADIENT)) {
        if (!as_strided)
            c.column = GOLD_GRADIENT;
        hod_tensor *loss = gold_weighted(&r);
        /* A result that depends on no input (dropout of everything) leaves them without. */
        if (!loss || (hod_tensor_requires_grad(loss) && hod_backward(loss) != 0))
            return NOTE(&c, "%s: backward fails", hod_dtype_name(c.dtype)), true;
        if (!compare_gradients(&c, x))
            return true;
        if (c.dtype == HOD_F32 && !as_strided)
            also(&c, GOLD_GRADIENT);
    }
    if (c.dtype == HOD_F32 || as_strided)
        also(&c, proven);
    if (c.dtype == HOD_F32 && c.k->zero)
        also(&c, GOLD_ZERO_SIZE);
    if (c.dtype == HOD_F32 && c.k->broadcast)
        also(&c, GOLD_BROADCAST);
    return true;
}

/* f16 or bf16 within one rounding of the f32 result. */
static void check_half(comparison c)
{
    HOD_SCOPE(s);
    HOD_NO_GRAD(off);
    hod_tensor *x[GOLD_MAX_TENSORS], *x32[GOLD_MAX_TENSORS];
    gold r, r32;
    make_inputs(c.k, c.dtype, false, x);
    make_inputs(c.k, HOD_F32, false, x32);
    if (gold_run(c.line->row, c.k, x, &r) != 0 || gold_run(c.line->row, c.k, x32, &r32) != 0) {
        if (!r.skipped || hod_error())
            NOTE(&c, "%s: fails", hod_dtype_name(c.dtype));
        return;
    }
    for (int i = 0; i < r.n_y && i < c.k->n_y; i++) {
        int64_t n = hod_tensor_numel(r32.y[i]);
        double *want = calloc((size_t)n + 1, sizeof *want);
        bool good = hod_read_doubles(r32.y[i], want, n) == 0 &&
                    compare(&c, "result", i, r.y[i], &c.k->y[i], want);
        free(want);
        if (!good)
            return;
    }
    also(&c, c.column);
}

static void check_case(gold_line *line, const gold_case *k, bool verbose)
{
    double f32 = line->row->f32 > 0 ? line->row->f32 : 1e-6;
    comparison c = {line, k, verbose, GOLD_FORWARD, HOD_F64, 1e-12};
    bool floats = false;
    for (int i = 0; i < k->n_x; i++)
        floats |= k->x[i].under_test;
    int before = line->cell[GOLD_FORWARD].failed;
    if (!check_type(c, false))
        return;
    if (line->cell[GOLD_FORWARD].failed > before)
        return;
    c.dtype = HOD_F32;
    c.tol = f32;
    check_type(c, false);
    if (wanted(line, GOLD_STRIDED))
        check_type((comparison){line, k, verbose, GOLD_STRIDED, HOD_F64, 1e-12}, true);
    /* Half a unit in the last place, and as much as f32 itself is off. */
    double half = line->row->roundings > 1 ? 0.5 * line->row->roundings : 0.5;
    if (floats && wanted(line, GOLD_F16))
        check_half((comparison){line, k, verbose, GOLD_F16, HOD_F16, half * 0x1p-10 + f32});
    if (floats && wanted(line, GOLD_BF16))
        check_half((comparison){line, k, verbose, GOLD_BF16, HOD_BF16, half * 0x1p-7 + f32});
}

/* ---- an operator ---- */

/* Reasons that follow from the cases. */
static void reasons(gold_line *line, const gold_case *cases, int n)
{
    bool any_g = false, float_y = false, float_x = false, two = false, zero = false, cast = false;
    for (int i = 0; i < n; i++) {
        any_g |= cases[i].g != NULL;
        zero |= cases[i].zero;
        cast |= cases[i].broadcast;
        two |= cases[i].n_x > 1;
        for (int e = 0; e < cases[i].n_y; e++)
            float_y |= cases[i].y[e].under_test || is_float(cases[i].y[e].dtype);
        for (int e = 0; e < cases[i].n_x; e++)
            float_x |= cases[i].x[e].under_test;
    }
    const char *no_g = any_g      ? NULL
                       : !float_y ? "its result is no real number"
                       : !float_x ? "its inputs are integers"
                                  : "PyTorch has none";
    const char *rule[GOLD_COLUMNS] = {
        [GOLD_GRADIENT] = no_g,
        [GOLD_GRADCHECK] = no_g,
        [GOLD_GRADGRADCHECK] = no_g,
        [GOLD_ZERO_SIZE] = zero ? NULL : "PyTorch takes none here",
        [GOLD_BROADCAST] = cast  ? NULL
                           : two ? "its inputs' sizes are bound to each other"
                                 : "one tensor",
        [GOLD_F16] = float_x ? NULL : "its inputs are integers",
        [GOLD_BF16] = float_x ? NULL : "its inputs are integers",
    };
    for (int i = 0; i < GOLD_COLUMNS; i++)
        line->empty[i] = line->row->empty[i] ? line->row->empty[i] : rule[i];
}

void gold_check(gold_line *line, const gold_case *cases, int n, bool verbose)
{
    line->cases = n;
    if (!line->row)
        return;
    reasons(line, cases, n);
    gold_watch(true);
    for (int i = 0; i < n; i++)
        check_case(line, &cases[i], verbose);
    gold_check_derivatives(line, cases, n, verbose);
    gold_watch(false);
    if (wanted(line, GOLD_COMPILED))
        gold_check_compiled(line, cases, n, verbose);
}
