/* Windows along a dimension, and windows added back:
 *
 *     windows        x (.., L, ..)        ->  y (.., W, size, ..)     y[w, k] = x[w * step + k]
 *     windows_back   y (.., W, size, ..)  ->  x (.., L, ..)           its transpose
 *
 * The first is a view: the window's dimension steps by `step` elements, the one within it by one,
 * so neighbours share memory where step < size. Nothing else is special about it; what writes in
 * place refuses such a view, as it refuses an expanded one (hod__overlaps_itself).
 */
#include "ops/rules.h"

/* y as `line` rows of `inner` elements each, L of them in every part; each of y's windows is `size`
 * rows of g, one behind the other. */
typedef struct windows_job {
    int64_t line, windows, size, step, inner;
    const char *from;
    char *to;
} windows_job;

/* How many windows x's dimension has; -1 with an error. */
static int64_t count_windows(const hod_op_call *c, int64_t length, const hod_meta *in)
{
    const hod_attrs_windows *a = &c->attrs->windows;
    if (a->size >= 1 && a->step >= 1 && a->size <= length)
        return (length - a->size) / a->step + 1;
    return HOD_FAIL_RC(ARGUMENT, "%s: of %lld, %lld apart, in dimension %lld of %s",
                       hod__op_name(c), (long long)a->size, (long long)a->step, (long long)a->dim,
                       HOD_META_TEXT(in));
}

int hod__shape_windows(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    const hod_attrs_windows *a = &c->attrs->windows;
    if (in->ndim == HOD_MAX_DIMS)
        return HOD_FAIL_RC(ARGUMENT,
                           "windows: of %s, which leaves no room for their dimension, at "
                           "most %d",
                           HOD_META_TEXT(in), HOD_MAX_DIMS);
    if (a->dim < 0 || a->dim >= in->ndim)
        return HOD_FAIL_RC(ARGUMENT, "windows: dimension %lld of %s", (long long)a->dim,
                           HOD_META_TEXT(in));
    int64_t n = count_windows(c, in->shape[a->dim], in);
    if (n < 0)
        return -1;
    *out = *in;
    out->ndim++;
    for (int i = out->ndim - 1; i > a->dim + 1; i--)
        out->shape[i] = out->shape[i - 1];
    out->shape[a->dim] = n;
    out->shape[a->dim + 1] = a->size;
    return hod__numel(out->ndim, out->shape) >= 0
               ? 0
               : HOD_FAIL_RC(ARGUMENT, "windows: more elements than 64 bits count");
}

int hod__view_windows(const hod_op_call *c, hod_tensor *out)
{
    const hod_attrs_windows *a = &c->attrs->windows;
    const int64_t *x = c->in[0]->strides;
    for (int i = out->ndim - 1; i > a->dim; i--)
        out->strides[i] = x[i - 1];
    for (int i = 0; i < a->dim; i++)
        out->strides[i] = x[i];
    out->strides[a->dim] = out->shape[a->dim] > 1 ? x[a->dim] * a->step : x[a->dim];
    return 0;
}

int hod__shape_windows_back(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    const hod_attrs_windows *a = &c->attrs->windows;
    if (!hod__is_float(in->dtype))
        return HOD_FAIL_RC(ARGUMENT, "windows_back: not defined for %s", hod_dtype_name(in->dtype));
    if (a->dim < 0 || a->dim + 1 >= in->ndim)
        return HOD_FAIL_RC(ARGUMENT, "windows_back: dimension %lld of %s", (long long)a->dim,
                           HOD_META_TEXT(in));
    int64_t n = count_windows(c, a->line, in);
    if (n < 0)
        return -1;
    if (in->shape[a->dim] != n || in->shape[a->dim + 1] != a->size)
        return HOD_FAIL_RC(ARGUMENT, "windows_back: %s are no %lld windows of %lld",
                           HOD_META_TEXT(in), (long long)n, (long long)a->size);
    *out = *in;
    out->ndim--;
    out->shape[a->dim] = a->line;
    for (int i = (int)a->dim + 1; i < out->ndim; i++)
        out->shape[i] = in->shape[i + 1];
    out->shape[out->ndim] = 0;
    return hod__numel(out->ndim, out->shape) >= 0
               ? 0
               : HOD_FAIL_RC(ARGUMENT, "windows_back: more elements than 64 bits count");
}

#define TYPED_BODY "ops/windows_tmpl.c"
#define ELEM_F32
#include "ops/typed_tmpl.h"
#define ELEM_F64
#include "ops/typed_tmpl.h"
#undef TYPED_BODY

int hod__eval_windows_back(const hod_op_call *c, hod_tensor *out)
{
    if (!hod__is_computed(out->dtype))
        return hod__eval_through(HOD_F32, c, out, hod__eval_windows_back);
    int64_t n = hod_tensor_numel(out);
    if (n == 0)
        return 0;
    hod_tensor *from;
    if (hod__eval_inputs(c, out, &from) != 0)
        return -1;
    const hod_attrs_windows *a = &c->attrs->windows;
    int d = (int)a->dim;
    windows_job job = {.line = a->line,
                       .windows = from->shape[d],
                       .size = a->size,
                       .step = a->step,
                       .inner = hod__numel(out->ndim - d - 1, out->shape + d + 1),
                       .from = hod__data(from),
                       .to = hod__data(out)};
    int64_t rows = n / job.inner, cost = HOD_MAX(n, hod_tensor_numel(from)) / rows;
    hod__parallel(rows, hod__grain(cost), out->dtype == HOD_F32 ? add_windows_f32 : add_windows_f64,
                  &job);
    hod_tensor_release(from);
    return 0;
}
