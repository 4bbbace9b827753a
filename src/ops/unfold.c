/* Windows of images as columns, and columns added back:
 *
 *     unfold2d   x (N,C,H,W)       ->  y (N, C*Kh*Kw, L)     y[n, (c,i,j), (p,q)] = x[n, c, at]
 *     fold2d     y (N, C*Kh*Kw, L) ->  x (N,C,H,W)           its transpose
 *
 * with at = (p * stride + i * dilation - padding) in each direction, 0 outside of the image.
 */
#include "ops/rules.h"

typedef struct unfold_job {
    const hod_attrs_unfold *a;
    int64_t windows[2]; /* down, across */
    int64_t bytes;
    const char *from;
    char *to;
} unfold_job;

/* How many windows there are in each direction; 0 or -1. */
static int count_windows(const char *name, const hod_attrs_unfold *a, int64_t windows[2])
{
    const hod_meta image = {.ndim = 2, .shape = {a->image[0], a->image[1]}};
    for (int i = 0; i < 2; i++) {
        windows[i] = hod__count_windows(name, &image, i, a->padding, a->kernel[i], a->stride[i],
                                        a->dilation[i]);
        if (windows[i] < 0)
            return -1;
    }
    return 0;
}

int hod__shape_unfold2d(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    const hod_attrs_unfold *a = &c->attrs->unfold;
    int64_t windows[2];
    if (in->ndim != 4)
        return HOD_FAIL_RC(ARGUMENT, "unfold2d: of %s, wanted (N,C,H,W)", HOD_META_TEXT(in));
    if (memcmp(in->shape + 2, a->image, sizeof a->image) != 0)
        return HOD_FAIL_RC(ARGUMENT, "unfold2d: %s is no image of %lld by %lld", HOD_META_TEXT(in),
                           (long long)a->image[0], (long long)a->image[1]);
    if (count_windows("unfold2d", a, windows) != 0)
        return -1;
    *out = *in;
    out->ndim = 3;
    out->shape[3] = 0;
    int64_t k;
    if (!hod__mul_size(a->kernel[0], a->kernel[1], &k) ||
        !hod__mul_size(k, in->shape[1], &out->shape[1]) ||
        !hod__mul_size(windows[0], windows[1], &out->shape[2]) || hod__numel(3, out->shape) < 0)
        return HOD_FAIL_RC(ARGUMENT, "unfold2d: more elements than 64 bits count");
    return 0;
}

int hod__shape_fold2d(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    const hod_attrs_unfold *a = &c->attrs->unfold;
    int64_t windows[2], k = 0;
    if (!hod__is_float(in->dtype))
        return HOD_FAIL_RC(ARGUMENT, "fold2d: not defined for %s", hod_dtype_name(in->dtype));
    if (count_windows("fold2d", a, windows) != 0)
        return -1;
    if (in->ndim != 3 || !hod__mul_size(a->kernel[0], a->kernel[1], &k) || in->shape[1] % k != 0 ||
        in->shape[2] / windows[0] != windows[1] || in->shape[2] % windows[0] != 0)
        return HOD_FAIL_RC(ARGUMENT, "fold2d: %s are no (N, C * %lld * %lld, %lld * %lld)",
                           HOD_META_TEXT(in), (long long)a->kernel[0], (long long)a->kernel[1],
                           (long long)windows[0], (long long)windows[1]);
    *out = *in;
    out->ndim = 4;
    out->shape[1] = in->shape[1] / k;
    memcpy(out->shape + 2, a->image, sizeof a->image);
    return hod__numel(4, out->shape) >= 0
               ? 0
               : HOD_FAIL_RC(ARGUMENT, "fold2d: more elements than 64 bits count");
}

/* The windows of one direction whose element k lies in the image: [*begin, *end). */
static void inside(const unfold_job *job, int i, int64_t k, int64_t *begin, int64_t *end)
{
    const hod_attrs_unfold *a = job->a;
    int64_t shift = a->padding[i] - k * a->dilation[i], stride = a->stride[i];
    *begin = shift > 0 ? (shift - 1) / stride + 1 : 0;
    int64_t last = a->image[i] - 1 + shift;
    *end = last < 0 ? 0 : HOD_MIN(last / stride + 1, job->windows[i]);
    *begin = HOD_MIN(*begin, *end);
}

#define COPY_LINE(type)                                                                            \
    for (int64_t q = q0; q < q1; q++)                                                              \
    ((type *)to)[q] = ((const type *)from)[q * step]

/* Windows q0..q1 of a line: from is where window 0 would read. */
static void copy_line(int64_t bytes, char *to, const char *from, int64_t step, int64_t q0,
                      int64_t q1)
{
    if (step == 1) {
        memcpy(to + q0 * bytes, from + q0 * bytes, (size_t)((q1 - q0) * bytes));
        return;
    }
    switch (bytes) {
    case 1: COPY_LINE(uint8_t); break;
    case 2: COPY_LINE(uint16_t); break;
    case 4: COPY_LINE(uint32_t); break;
    default: COPY_LINE(uint64_t); break;
    }
}

/* [begin, end): columns (n, c, i, j). */
static void unfold_columns(void *context, int64_t begin, int64_t end)
{
    const unfold_job *job = context;
    const hod_attrs_unfold *a = job->a;
    int64_t across = job->windows[1], n = job->windows[0] * across, width = a->image[1];
    for (int64_t at = begin; at < end; at++) {
        int64_t j = at % a->kernel[1], i = at / a->kernel[1] % a->kernel[0];
        int64_t plane = at / (a->kernel[0] * a->kernel[1]), p0, p1, q0, q1;
        inside(job, 0, i, &p0, &p1);
        inside(job, 1, j, &q0, &q1);
        char *to = job->to + at * n * job->bytes;
        if (p1 - p0 < job->windows[0] || q1 - q0 < across)
            memset(to, 0, (size_t)(n * job->bytes));
        for (int64_t p = p0; q0 < q1 && p < p1; p++) {
            int64_t y = p * a->stride[0] + i * a->dilation[0] - a->padding[0];
            int64_t x = j * a->dilation[1] - a->padding[1]; /* of window 0: may lie outside */
            int64_t from = (plane * a->image[0] + y) * width + x;
            copy_line(job->bytes, to + p * across * job->bytes, job->from + from * job->bytes,
                      a->stride[1], q0, q1);
        }
    }
}

#define TYPED_BODY "ops/unfold_tmpl.c"
#define ELEM_F32
#include "ops/typed_tmpl.h"
#define ELEM_F64
#include "ops/typed_tmpl.h"
#undef TYPED_BODY

/* Runs `part` over n parts of about `cost` elements. */
static int run(const hod_op_call *c, hod_tensor *out, int64_t n, int64_t cost,
               void (*part)(void *context, int64_t begin, int64_t end))
{
    unfold_job job = {.a = &c->attrs->unfold, .bytes = (int64_t)hod_dtype_bytes(out->dtype)};
    if (hod_tensor_numel(out) == 0)
        return 0;
    hod_tensor *from;
    if (count_windows(hod__op_name(c), job.a, job.windows) != 0 ||
        hod__eval_inputs(c, out, &from) != 0)
        return -1;
    job.from = hod_tensor_numel(from) > 0 ? hod__data(from) : NULL;
    job.to = hod__data(out);
    hod__parallel(n, hod__grain(cost), part, &job);
    hod_tensor_release(from);
    return 0;
}

int hod__eval_unfold2d(const hod_op_call *c, hod_tensor *out)
{
    return run(c, out, out->shape[0] * out->shape[1], out->shape[2], unfold_columns);
}

int hod__eval_fold2d(const hod_op_call *c, hod_tensor *out)
{
    if (!hod__is_computed(out->dtype))
        return hod__eval_through(HOD_F32, c, out, hod__eval_fold2d);
    int64_t planes = out->shape[0] * out->shape[1];
    return run(c, out, planes, hod_tensor_numel(c->in[0]) / HOD_MAX(planes, 1),
               out->dtype == HOD_F32 ? fold_planes_f32 : fold_planes_f64);
}
