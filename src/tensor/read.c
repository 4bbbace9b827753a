/* Values on the host: reading with conversion, and the short text.
 *
 * Reading walks any view in row-major order, a row of the last dimension at a time: one loop per
 * (stored type, wanted type) pair does the conversion, the walk above it knows no types. Floats
 * become integers by truncation; what has no integer (NaN, beyond the range) becomes 0 or the
 * nearest end of the range, the same on every machine.
 */
#include "tensor/half.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>

static int64_t to_int(double x)
{
    if (!(x == x))
        return 0;
    if (x >= 0x1p63)
        return INT64_MAX;
    return x < -0x1p63 ? INT64_MIN : (int64_t)x;
}

static int64_t same_int(int64_t x)
{
    return x;
}

/* One function a wanted type: reads n elements `step` apart from p, which holds `dtype`. */
#define ROW(stored, load)                                                                          \
    for (int64_t i = 0; i < n; i++) {                                                              \
        const stored *e = (const stored *)p + i * step;                                            \
        out[i] = load;                                                                             \
    }                                                                                              \
    break;

#define READ_ROW(name, wanted, from_float, from_int)                                               \
    static void name(hod_dtype dtype, const void *p, int64_t step, int64_t n, wanted *out)         \
    {                                                                                              \
        switch (dtype) {                                                                           \
        case HOD_F32: ROW(float, from_float(*e))                                                   \
        case HOD_F64: ROW(double, from_float(*e))                                                  \
        case HOD_F16: ROW(uint16_t, from_float(hod__f16_to_f32(*e)))                               \
        case HOD_BF16: ROW(uint16_t, from_float(hod__bf16_to_f32(*e)))                             \
        case HOD_I64: ROW(int64_t, from_int(*e))                                                   \
        case HOD_I32: ROW(int32_t, from_int(*e))                                                   \
        case HOD_U8: ROW(uint8_t, from_int(*e))                                                    \
        case HOD_BOOL: ROW(uint8_t, from_int(*e != 0))                                             \
        case HOD_DTYPES: break;                                                                    \
        }                                                                                          \
    }

READ_ROW(row_doubles, double, (double), (double))
READ_ROW(row_floats, float, (float), (float))
READ_ROW(row_ints, int64_t, to_int, same_int)

typedef enum wanted_type { DOUBLES, FLOATS, INTS } wanted_type;

static void read_row(wanted_type wanted, hod_dtype dtype, const void *p, int64_t step, int64_t n,
                     void *out, int64_t at)
{
    if (wanted == DOUBLES)
        row_doubles(dtype, p, step, n, (double *)out + at);
    else if (wanted == FLOATS)
        row_floats(dtype, p, step, n, (float *)out + at);
    else
        row_ints(dtype, p, step, n, (int64_t *)out + at);
}

/* All elements of a real tensor, row after row. */
static void read_all(wanted_type wanted, const hod_tensor *t, void *out)
{
    int64_t total = hod__numel(t->ndim, t->shape), size = (int64_t)hod_dtype_bytes(t->dtype);
    if (total == 0)
        return;
    const char *base = hod__data(t);
    int last = t->ndim - 1;
    int64_t n = last < 0 ? 1 : t->shape[last], step = last < 0 ? 1 : t->strides[last];
    int64_t index[HOD_MAX_DIMS] = {0};
    for (int64_t at = 0; at < total; at += n) {
        int64_t offset = 0;
        for (int i = 0; i < last; i++)
            offset += index[i] * t->strides[i];
        read_row(wanted, t->dtype, base + offset * size, step, n, out, at);
        for (int i = last - 1; i >= 0 && ++index[i] == t->shape[i]; i--)
            index[i] = 0;
    }
}

static int read_checked(const char *what, wanted_type wanted, const hod_tensor *t, void *out,
                        int64_t n)
{
    if (hod__null(what, "tensor", t))
        return -1;
    int64_t numel = hod__numel(t->ndim, t->shape);
    if (n != numel || (n > 0 && !out))
        return HOD_FAIL_RC(ARGUMENT, "%s: room for %lld, %s has %lld", what, out ? (long long)n : 0,
                           HOD_SHAPE_TEXT(t), (long long)numel);
    if (hod__read_begin(t))
        return -1;
    read_all(wanted, t, out);
    return 0;
}

int hod_read_doubles(const hod_tensor *t, double *out, int64_t n)
{
    return read_checked("read_doubles", DOUBLES, t, out, n);
}

int hod_read_floats(const hod_tensor *t, float *out, int64_t n)
{
    return read_checked("read_floats", FLOATS, t, out, n);
}

int hod_read_ints(const hod_tensor *t, int64_t *out, int64_t n)
{
    return read_checked("read_ints", INTS, t, out, n);
}

double hod_item(const hod_tensor *t)
{
    double x = NAN;
    if (hod__null("item", "tensor", t))
        return x;
    if (hod__numel(t->ndim, t->shape) != 1) {
        hod__fail(HOD_ERROR_ARGUMENT, "item: %s has %lld elements, wanted 1", HOD_SHAPE_TEXT(t),
                  (long long)hod__numel(t->ndim, t->shape));
        return x;
    }
    if (hod__read_begin(t) == 0)
        read_all(DOUBLES, t, &x);
    return x;
}

/* ---- text ---- */

/* A buffer that fills up: what does not fit is dropped, and `full` says so. */
typedef struct line {
    char *data;
    size_t n, cap;
    bool full;
} line;

static void put(line *l, const char *text)
{
    size_t n = strlen(text);
    if (l->full || l->n + n >= l->cap) {
        l->full = true;
        return;
    }
    memcpy(l->data + l->n, text, n + 1);
    l->n += n;
}

static void put_element(line *l, const hod_tensor *t, int64_t offset)
{
    char number[40];
    const char *p = (const char *)hod__data(t) + offset * (int64_t)hod_dtype_bytes(t->dtype);
    if (t->dtype == HOD_I64 || t->dtype == HOD_I32 || t->dtype == HOD_U8) {
        int64_t i;
        row_ints(t->dtype, p, 1, 1, &i);
        snprintf(number, sizeof number, "%lld", (long long)i);
    } else {
        double x;
        row_doubles(t->dtype, p, 1, 1, &x);
        snprintf(number, sizeof number, "%g", x);
    }
    put(l, number);
}

static void put_block(line *l, const hod_tensor *t, int dim, int64_t offset)
{
    if (dim == t->ndim) {
        put_element(l, t, offset);
        return;
    }
    bool empty = hod__numel(t->ndim, t->shape) == 0; /* then strides may be beyond 64 bits */
    put(l, "[");
    for (int64_t i = 0; i < t->shape[dim] && !l->full; i++) {
        if (i)
            put(l, ",");
        put_block(l, t, dim + 1, empty ? offset : offset + i * t->strides[dim]);
    }
    put(l, "]");
}

char *hod_tensor_text(const hod_tensor *t, char *buf, size_t cap)
{
    if (cap == 0)
        return buf;
    buf[0] = 0;
    line l = {buf, 0, cap, false};
    if (!t) {
        put(&l, "NULL");
        return buf;
    }
    put(&l, hod_dtype_name(t->dtype));
    put(&l, " ");
    put(&l, HOD_SHAPE_TEXT(t));
    put(&l, " ");
    if (hod__read_begin(t) == 0)
        put_block(&l, t, 0, 0);
    if (l.full && cap > 3) { /* three dots over the end of what fitted */
        size_t at = HOD_MIN(l.n, cap - 4);
        memcpy(buf + at, "...", 4);
    }
    return buf;
}
