/* Datasets: a count, a shape and a function that writes sample i.
 *
 * Everything else is a spec with another function: rows of tensors, a slice of a dataset, images
 * from a file (idx.c), made-up images (synthetic.c). The function writes into buffers of the
 * caller, so that a loader can have it work straight into its queue, and it may run in several
 * threads at once, so a dataset is immutable once made.
 */
#include "data/data.h"

#include "tensor/tensor.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

int hod_dataset_refuse(const char *format, ...)
{
    char text[HOD_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return HOD_FAIL_RC(VALUE, "%s", text);
}

/* Elements of a shape, -1 with an error when it is none. */
static int64_t elements(const char *name, const char *what, hod_shape s)
{
    int64_t n = s.n < 0 || s.n >= HOD_MAX_DIMS ? -1 : hod__numel(s.n, s.d);
    if (n < 1)
        return HOD_FAIL_RC(ARGUMENT, "dataset %s: the shape of one %s has %d sizes, product %lld",
                           name, what, s.n, (long long)n);
    return n;
}

static int check_spec(const hod_dataset_spec *s)
{
    if (s->count < 1)
        return HOD_FAIL_RC(ARGUMENT, "dataset %s: %lld samples", s->name, (long long)s->count);
    if (!s->item)
        return HOD_FAIL_RC(ARGUMENT, "dataset %s: no function that reads a sample", s->name);
    if (s->dtype != HOD_F32 && s->dtype != HOD_I64 && s->dtype != HOD_U8)
        return HOD_FAIL_RC(ARGUMENT, "dataset %s: inputs of dtype %s; f32, i64 or u8 can be served",
                           s->name, hod_dtype_name(s->dtype));
    if (s->classes < 0)
        return HOD_FAIL_RC(ARGUMENT, "dataset %s: %lld classes", s->name, (long long)s->classes);
    return 0;
}

hod_dataset *hod_dataset_make(hod_dataset_spec spec)
{
    if (!spec.name)
        spec.name = "custom";
    if (spec.classes > 0) {
        spec.target_dtype = HOD_I64;
        spec.target_shape = (hod_shape){0};
    }
    hod_dataset *d = NULL;
    int64_t inputs, targets;
    if (check_spec(&spec) || (inputs = elements(spec.name, "input", spec.shape)) < 0 ||
        (targets = elements(spec.name, "target", spec.target_shape)) < 0 ||
        !(d = hod__alloc(1, sizeof *d)) || !(d->name = hod__strdup(spec.name))) {
        free(d);
        if (spec.release)
            spec.release(spec.job);
        return NULL;
    }
    d->spec = spec;
    d->spec.name = d->name;
    d->input_numel = inputs;
    d->target_numel = targets;
    d->input_bytes = inputs * (int64_t)hod_dtype_bytes(spec.dtype);
    d->target_bytes = targets * (int64_t)hod_dtype_bytes(spec.target_dtype);
    atomic_init(&d->refs, 1);
    return d;
}

hod_dataset *hod_dataset_retain(hod_dataset *d)
{
    if (d)
        atomic_fetch_add(&d->refs, 1);
    return d;
}

void hod_dataset_free(hod_dataset *d)
{
    if (!d || atomic_fetch_sub(&d->refs, 1) > 1)
        return;
    if (d->spec.release)
        d->spec.release(d->spec.job);
    free(d->name);
    free(d);
}

static int slice_item(void *job, int64_t index, hod_draws *draws, void *input, void *target);

int hod__dataset_item(hod_dataset *d, int64_t index, hod_draws *draws, void *input, void *target)
{
    if (d->spec.item(d->spec.job, index, draws, input, target)) {
        HOD_FAIL(VALUE, "the dataset's function gives no reason");
        if (d->spec.item != slice_item) /* a slice's error names the whole and its number there */
            hod__fail_context("%s: sample %lld", d->name, (long long)index);
        return -1;
    }
    if (d->spec.classes == 0)
        return 0;
    int64_t label;
    memcpy(&label, target, sizeof label);
    if (label < 0 || label >= d->spec.classes)
        return HOD_FAIL_RC(VALUE, "%s: sample %lld: label %lld is outside 0..%lld", d->name,
                           (long long)index, (long long)label, (long long)d->spec.classes - 1);
    return 0;
}

int64_t hod_dataset_count(const hod_dataset *d)
{
    return d ? d->spec.count : 0;
}

int64_t hod_dataset_classes(const hod_dataset *d)
{
    return d ? d->spec.classes : 0;
}

hod_shape hod_dataset_shape(const hod_dataset *d)
{
    return d ? d->spec.shape : (hod_shape){0};
}

hod_dtype hod_dataset_dtype(const hod_dataset *d)
{
    return !d || d->spec.dtype == HOD_U8 ? HOD_F32 : d->spec.dtype;
}

hod_shape hod_dataset_target_shape(const hod_dataset *d)
{
    return d ? d->spec.target_shape : (hod_shape){0};
}

hod_dtype hod_dataset_target_dtype(const hod_dataset *d)
{
    return d ? d->spec.target_dtype : HOD_I64;
}

const char *hod_dataset_name(const hod_dataset *d)
{
    return d ? d->name : "";
}

/* ---- rows of tensors ---- */

typedef struct rows {
    hod_tensor *inputs, *targets;
    const char *input, *target; /* their first bytes */
    int64_t input_bytes, target_bytes;
} rows;

static int rows_item(void *job, int64_t index, hod_draws *draws, void *input, void *target)
{
    (void)draws;
    const rows *r = job;
    memcpy(input, r->input + index * r->input_bytes, (size_t)r->input_bytes);
    memcpy(target, r->target + index * r->target_bytes, (size_t)r->target_bytes);
    return 0;
}

static void rows_release(void *job)
{
    rows *r = job;
    hod_tensor_release(r->inputs);
    hod_tensor_release(r->targets);
    free(r);
}

static hod_shape row_shape(const hod_tensor *t)
{
    hod_shape s = hod_tensor_shape(t);
    return hod_shape_of(s.n - 1, s.d + 1);
}

static int check_rows(hod_tensor *inputs, hod_tensor *targets, int64_t classes)
{
    int ni = hod_tensor_ndim(inputs), nt = hod_tensor_ndim(targets);
    if (ni < 1 || nt < 1 || hod_tensor_size(inputs, 0) != hod_tensor_size(targets, 0))
        return HOD_FAIL_RC(ARGUMENT, "tensor dataset: inputs %s and targets %s differ in samples",
                           HOD_SHAPE_TEXT(inputs), HOD_SHAPE_TEXT(targets));
    if (!hod_tensor_is_contiguous(inputs) || !hod_tensor_is_contiguous(targets))
        return HOD_FAIL_RC(ARGUMENT, "tensor dataset: inputs and targets must be contiguous");
    if (classes > 0 && (hod_tensor_dtype(targets) != HOD_I64 || nt != 1))
        return HOD_FAIL_RC(ARGUMENT, "tensor dataset: labels are %s %s, i64 (N) expected",
                           hod_dtype_name(hod_tensor_dtype(targets)), HOD_SHAPE_TEXT(targets));
    return 0;
}

hod_dataset *hod_tensor_dataset(hod_tensor *inputs, hod_tensor *targets, int64_t classes)
{
    if (hod__null("tensor_dataset", "inputs", inputs) ||
        hod__null("tensor_dataset", "targets", targets) || check_rows(inputs, targets, classes))
        return NULL;
    const void *input = hod_tensor_data(inputs), *target = hod_tensor_data(targets);
    rows *r = input && target ? hod__alloc(1, sizeof *r) : NULL;
    if (!r)
        return NULL;
    r->inputs = hod_tensor_retain(inputs);
    r->targets = hod_tensor_retain(targets);
    r->input = input;
    r->target = target;
    hod_dataset *d = hod_dataset_new(
        hod_tensor_size(inputs, 0), rows_item, r, rows_release, .name = "tensors",
        .shape = row_shape(inputs), .dtype = hod_tensor_dtype(inputs), .classes = classes,
        .target_dtype = hod_tensor_dtype(targets), .target_shape = row_shape(targets));
    if (d) {
        r->input_bytes = d->input_bytes;
        r->target_bytes = d->target_bytes;
    }
    return d;
}

/* ---- a slice ---- */

typedef struct slice {
    hod_dataset *whole;
    int64_t first;
} slice;

static int slice_item(void *job, int64_t index, hod_draws *draws, void *input, void *target)
{
    const slice *s = job;
    return hod__dataset_item(s->whole, s->first + index, draws, input, target);
}

static void slice_release(void *job)
{
    slice *s = job;
    hod_dataset_free(s->whole);
    free(s);
}

hod_dataset *hod_dataset_slice(hod_dataset *d, int64_t first, int64_t count)
{
    if (hod__null("dataset_slice", "dataset", d))
        return NULL;
    if (first < 0 || count < 1 || count > d->spec.count - first)
        return HOD_FAIL(ARGUMENT, "dataset %s: %lld samples from %lld on, of %lld", d->name,
                        (long long)count, (long long)first, (long long)d->spec.count);
    slice *s = hod__alloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (slice){hod_dataset_retain(d), first};
    hod_dataset_spec spec = d->spec;
    spec.count = count;
    spec.item = slice_item;
    spec.job = s;
    spec.release = slice_release;
    return hod_dataset_make(spec);
}

/* ---- moments ---- */

/* Sums in double: 60000 x 784 values of [0,1] lose nothing that matters. */
static void add_moments(const hod_dataset *d, const void *raw, double *sum, double *square)
{
    int64_t channels = d->spec.shape.d[0], area = d->input_numel / channels;
    const uint8_t *bytes = raw;
    const float *floats = raw;
    for (int64_t c = 0; c < channels; c++) {
        int64_t exact = 0, exact_square = 0; /* of bytes */
        double s = 0, q = 0;
        for (int64_t i = c * area; i < (c + 1) * area; i++) {
            if (d->spec.dtype == HOD_U8) {
                exact += bytes[i];
                exact_square += (int64_t)bytes[i] * bytes[i];
            } else {
                s += (double)floats[i];
                q += (double)floats[i] * (double)floats[i];
            }
        }
        sum[c] += s + (double)exact / 255;
        square[c] += q + (double)exact_square / (255.0 * 255.0);
    }
}

int hod_dataset_moments(hod_dataset *d, int64_t limit, float mean[HOD_MAX_CHANNELS],
                        float std[HOD_MAX_CHANNELS])
{
    if (hod__null("dataset_moments", "dataset", d))
        return -1;
    if (!mean || !std)
        return HOD_FAIL_RC(ARGUMENT, "dataset %s: no room for its moments", d->name);
    hod_shape s = d->spec.shape;
    if (d->spec.dtype == HOD_I64 || s.n < 1 || s.d[0] > HOD_MAX_CHANNELS)
        return HOD_FAIL_RC(
            ARGUMENT, "dataset %s: moments need inputs (C,...) of numbers, at most %d channels",
            d->name, HOD_MAX_CHANNELS);
    int64_t n = limit > 0 ? HOD_MIN(limit, d->spec.count) : d->spec.count;
    double sum[HOD_MAX_CHANNELS] = {0}, square[HOD_MAX_CHANNELS] = {0};
    void *input = hod__alloc((size_t)d->input_bytes, 1);
    void *target = hod__alloc((size_t)d->target_bytes, 1);
    int rc = input && target ? 0 : -1;
    for (int64_t i = 0; i < n && rc == 0; i++) {
        hod_draws draws = hod_draws_of(0, 0, i);
        rc = hod__dataset_item(d, i, &draws, input, target);
        if (rc == 0)
            add_moments(d, input, sum, square);
    }
    free(input);
    free(target);
    double values = (double)n * (double)(d->input_numel / s.d[0]);
    for (int64_t c = 0; c < s.d[0] && rc == 0; c++) {
        double m = sum[c] / values, v = square[c] / values - m * m;
        mean[c] = (float)m;
        std[c] = v > 0 ? (float)sqrt(v) : 0;
    }
    return rc;
}
