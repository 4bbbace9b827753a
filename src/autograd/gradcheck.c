/* Gradients against central differences, in f64.
 *
 * One number is differentiated: s(x) = <u, fn(x)>, u fixed, pseudo-random and away from zero, so
 * that no element of the result can hide behind another. backward gives all of ds/dx at once; the
 * differences take two runs an element. The second-order check is the first-order check of another
 * function, x -> <v, d<u, fn>/dx>, which contains a backward with create_graph.
 *
 * With a step of 1e-6 the rounding part of the error is about 1e-10 and the truncation part 1e-12
 * times the third derivative, so the default tolerances leave three digits. In f32 rounding is 1e-7
 * over the step: at 4e-3 both parts are near 2e-5 for values near 1.
 */
#include "autograd/autograd.h"
#include <hod/functional.h>
#include <hod/ops.h>
#include <hod/rows.h>
#include <math.h>

/* Numbers in [0.5, 1.5) with either sign, a function of the position alone. */
static double weight_of(int64_t k, uint64_t salt)
{
    uint64_t h = hod__hash(&k, sizeof k, salt);
    double magnitude = 0.5 + (double)(h >> 12) * 0x1p-52;
    return h & 1 ? magnitude : -magnitude;
}

static hod_tensor *weights_like(const hod_tensor *t, uint64_t salt)
{
    hod_tensor *u = hod_empty(HOD_F64, hod_tensor_shape(t));
    double *p = u ? hod_tensor_mutable_data(u) : NULL;
    for (int64_t k = 0, n = p ? hod_tensor_numel(u) : 0; k < n; k++)
        p[k] = weight_of(k, salt);
    return u;
}

/* <u, t>: () f64 */
static hod_tensor *project(hod_tensor *t, uint64_t salt)
{
    if (!t)
        return NULL;
    hod_tensor *wide = t->dtype == HOD_F64 ? t : hod_cast(t, HOD_F64);
    return hod_sum(hod_mul(wide, weights_like(t, salt)));
}

static void write_at(hod_tensor *t, int64_t k, double value)
{
    void *p = hod_tensor_mutable_data(t);
    if (t->dtype == HOD_F32)
        ((float *)p)[k] = (float)value;
    else
        ((double *)p)[k] = value;
}

static double read_at(const hod_tensor *t, int64_t k)
{
    const void *p = hod_tensor_data(t);
    return t->dtype == HOD_F32 ? ((const float *)p)[k] : ((const double *)p)[k];
}

/* Private leaves with the inputs' values; tensors that are not float stay as they are. */
static int copy_inputs(const char *who, int n, hod_tensor *const *from, hod_tensor **to,
                       bool keep_f32)
{
    bool any = false;
    for (int i = 0; i < n; i++) {
        if (hod__null(who, "an input", from[i]))
            return -1;
        any = any || hod__is_float(from[i]->dtype);
        to[i] = from[i];
        if (!hod__is_float(from[i]->dtype))
            continue;
        hod_tensor *plain = hod_detach(from[i]);
        bool keep = keep_f32 && from[i]->dtype == HOD_F32;
        to[i] = keep ? hod_copy(plain) : hod_copy(hod_cast(plain, HOD_F64));
        if (!to[i] || !hod_requires_grad(to[i], true))
            return -1;
    }
    return any ? 0 : HOD_FAIL_RC(ARGUMENT, "%s: none of the inputs holds floats", who);
}

static int value_at(hod_check_fn *fn, void *context, int n, hod_tensor *const *in, double *out)
{
    HOD_SCOPE(s);
    HOD_NO_GRAD(g);
    hod_tensor *y = project(fn(context, in, n), 1);
    if (!y)
        return -1;
    *out = hod_item(y);
    return 0;
}

/* Is y, the function's result, of a type that can be differentiated and compared? */
static int check_result(const char *who, const hod_tensor *y, bool keep_f32)
{
    if (hod__null(who, "the function's result", y))
        return -1;
    if (!hod__is_float(y->dtype))
        return HOD_FAIL_RC(ARGUMENT, "%s: the function gives %s, which has no gradient", who,
                           hod_dtype_name((hod_dtype)y->dtype));
    if (y->dtype != HOD_F64 && !keep_f32)
        return HOD_FAIL_RC(ARGUMENT,
                           "%s: the function gives %s for inputs in f64, too coarse for "
                           "differences; .keep_f32 leaves inputs as they are",
                           who, hod_dtype_name((hod_dtype)y->dtype));
    return 0;
}

/* Is fn a function at all? */
static int check_function(const char *who, hod_check_fn *fn, int n, hod_tensor *const *in,
                          const hod_gradcheck_spec *spec)
{
    double first, again;
    if (value_at(fn, spec->context, n, in, &first) != 0 ||
        value_at(fn, spec->context, n, in, &again) != 0)
        return -1;
    if (fabs(first - again) > 1e-6 * fabs(first)) /* NaN is left to the comparison */
        return HOD_FAIL_RC(ARGUMENT,
                           "%s: the function gives %g and %g for the same inputs: it draws "
                           "numbers or keeps something between calls",
                           who, first, again);
    return 0;
}

static int numeric_at(hod_check_fn *fn, int n, hod_tensor *const *in, int i, int64_t k,
                      const hod_gradcheck_spec *spec, double *out)
{
    double before = read_at(in[i], k), usual = in[i]->dtype == HOD_F32 ? 4e-3 : 1e-6;
    double step = (spec->step > 0 ? spec->step : usual) * HOD_MAX(1.0, fabs(before));
    double high, low;
    write_at(in[i], k, before + step);
    double above = read_at(in[i], k);
    int rc = value_at(fn, spec->context, n, in, &high);
    write_at(in[i], k, before - step);
    double below = read_at(in[i], k);
    if (rc == 0)
        rc = value_at(fn, spec->context, n, in, &low);
    write_at(in[i], k, before);
    if (rc == 0)
        *out = (high - low) / (above - below);
    return rc;
}

static void compare(hod_gradcheck_report *r, const hod_gradcheck_spec *spec, bool f32, int i,
                    int64_t k, double analytic, double numeric)
{
    double rtol = spec->rtol > 0 ? spec->rtol : f32 ? 1e-2 : 1e-3;
    double atol = spec->atol > 0 ? spec->atol : f32 ? 1e-3 : 1e-5;
    double error = fabs(analytic - numeric) / (atol + rtol * fabs(numeric));
    r->compared++;
    if (isnan(error) || error > r->worst || r->compared == 1) {
        r->worst = isnan(error) ? INFINITY : error;
        r->input = i;
        r->element = k;
        r->analytic = analytic;
        r->numeric = numeric;
    }
}

/* The gradient of input i as doubles; zeros when none arrived. Freed by the caller. */
static double *analytic_of(hod_tensor *x)
{
    int64_t count = hod_tensor_numel(x);
    if (hod_grad_rows_to_dense(x) != 0)
        return NULL;
    double *d = hod__alloc((size_t)HOD_MAX(count, 1), sizeof *d);
    hod_tensor *g = hod_grad(x);
    if (d && g && hod_read_doubles(g, d, count) != 0) {
        free(d);
        return NULL;
    }
    return d;
}

static int check(const char *who, hod_check_fn *fn, int n, hod_tensor *const *inputs,
                 hod_gradcheck_report *report, const hod_gradcheck_spec *spec)
{
    HOD_SCOPE(s);
    if (!fn || !inputs || !report)
        return HOD_FAIL_RC(ARGUMENT, "%s: no %s", who,
                           !fn       ? "function"
                           : !inputs ? "inputs"
                                     : "report");
    *report = (hod_gradcheck_report){0};
    hod_tensor *in[HOD_OP_MAX_INPUTS];
    if (n < 1 || n > HOD_OP_MAX_INPUTS)
        return HOD_FAIL_RC(ARGUMENT, "%s: %d inputs, 1 to %d are possible", who, n,
                           HOD_OP_MAX_INPUTS);
    if (copy_inputs(who, n, inputs, in, spec->keep_f32) != 0)
        return -1;
    hod_tensor *result = fn(spec->context, in, n);
    if (check_result(who, result, spec->keep_f32) != 0 || check_function(who, fn, n, in, spec) != 0)
        return -1;
    hod_tensor *y = project(result, 1);
    if (!y)
        return -1;
    if (y->requires_grad && hod_backward(y) != 0)
        return -1;
    for (int i = 0; i < n; i++) {
        if (!in[i]->requires_grad)
            continue;
        double *d = analytic_of(in[i]);
        int rc = d ? 0 : -1;
        for (int64_t k = 0; rc == 0 && k < hod_tensor_numel(in[i]); k++) {
            double numeric = 0;
            rc = numeric_at(fn, n, in, i, k, spec, &numeric);
            if (rc == 0)
                compare(report, spec, in[i]->dtype == HOD_F32, i, k, d[k], numeric);
        }
        free(d);
        if (rc != 0)
            return -1;
    }
    report->passed = report->worst <= 1;
    return 0;
}

int hod_gradcheck_make(hod_check_fn *fn, int n, hod_tensor *const *inputs,
                       hod_gradcheck_report *report, const hod_gradcheck_spec *spec)
{
    return check("gradcheck", fn, n, inputs, report, spec);
}

/* ---- second order ---- */

typedef struct second {
    hod_check_fn *fn;
    void *context;
} second;

/* x -> sum over inputs of <v_i, d<u, fn(x)>/dx_i> */
static hod_tensor *first_derivative(void *context, hod_tensor *const *in, int n)
{
    const second *c = context;
    hod_tensor *leaf[HOD_OP_MAX_INPUTS], *g[HOD_OP_MAX_INPUTS];
    int leaves = 0;
    HOD_WITH_GRAD(on); /* differences run without gradients; this function is one */
    for (int i = 0; i < n; i++)
        if (in[i]->requires_grad)
            leaf[leaves++] = in[i];
    hod_tensor *total = NULL;
    hod_tensor *result = c->fn(c->context, in, n);
    if (check_result("gradgradcheck", result, true) != 0) /* a cast to f32 has exact derivatives */
        return NULL;
    hod_tensor *y = project(result, 2);
    if (y && y->requires_grad &&
        hod_grad_of(y, leaves, leaf, g, HOD_ONES, .create_graph = true, .allow_unused = true) ==
            0) {
        hod_meta scalar = {.dtype = HOD_F64};
        total = hod__full_like_meta(&scalar, 0);
        for (int i = 0; i < leaves; i++)
            if (g[i])
                total = hod_add(total, project(g[i], 3 + (uint64_t)i));
    } else if (y && !y->requires_grad) {
        total = hod_mul(y, weights_like(y, 3));
    }
    return total;
}

int hod_gradgradcheck_make(hod_check_fn *fn, int n, hod_tensor *const *inputs,
                           hod_gradcheck_report *report, const hod_gradcheck_spec *spec)
{
    if (!fn)
        return HOD_FAIL_RC(ARGUMENT, "gradgradcheck: no function");
    second c = {.fn = fn, .context = spec->context};
    hod_gradcheck_spec inner = *spec;
    inner.context = &c;
    return check("gradgradcheck", first_derivative, n, inputs, report, &inner);
}
