/* Sorting: the kernel of `order`, and searching in what is sorted.
 *
 * Every type is mapped to unsigned keys whose order is the one wanted (floats: sign flipped or all
 * bits; NaN above all, -0 as 0; descending: the complement), so one sort serves all. Pairs (key,
 * index) go through a byte-wise radix sort, which is stable by itself and skips bytes that all keys
 * share; a few are inserted. Where few are wanted of many, a heap of the best k looks at each pair
 * once.
 */
#include "ops/rules.h"
#include "tensor/half.h"

typedef struct pair {
    uint64_t key;
    int64_t index;
} pair;

typedef struct order_job {
    const char *from;
    int64_t *to;
    int64_t n, k, inner; /* a line: n elements, `inner` apart in the result */
    int64_t step;        /* and this far apart in x, which is row-major but along dim */
    int64_t bytes;
    bool descending;
    void (*keys)(const void *x, int64_t step, int64_t n, bool descending, pair *to);
    bool failed; /* memory; written with true only */
} order_job;

enum { INSERTED = 48, BLOCK = 256, PARALLEL_ELEMENTS = 32768 };

/* ---- keys ---- */

static uint64_t key_f32(float x)
{
    uint32_t u;
    x = x == 0 ? 0 : x;
    memcpy(&u, &x, sizeof u);
    return x != x ? UINT32_MAX : u >> 31 ? ~u : u | 0x80000000u;
}

static uint64_t key_f64(double x)
{
    uint64_t u;
    x = x == 0 ? 0 : x;
    memcpy(&u, &x, sizeof u);
    return x != x ? UINT64_MAX : u >> 63 ? ~u : u | (uint64_t)1 << 63;
}

static uint64_t key_i64(int64_t x)
{
    return (uint64_t)x ^ (uint64_t)1 << 63;
}

static uint64_t key_i32(int32_t x)
{
    return (uint32_t)x ^ 0x80000000u;
}

#define KEYS(name, type, key, most)                                                                \
    static void keys_##name(const void *x, int64_t step, int64_t n, bool descending, pair *to)     \
    {                                                                                              \
        const type *e = x;                                                                         \
        uint64_t flip = descending ? most : 0;                                                     \
        for (int64_t i = 0; i < n; i++)                                                            \
            to[i] = (pair){(key) ^ flip, i};                                                       \
    }
KEYS(f32, float, key_f32(e[i * step]), UINT32_MAX)
KEYS(f64, double, key_f64(e[i * step]), UINT64_MAX)
KEYS(f16, uint16_t, key_f32(hod__f16_to_f32(e[i * step])), UINT32_MAX)
KEYS(bf16, uint16_t, key_f32(hod__bf16_to_f32(e[i * step])), UINT32_MAX)
KEYS(i64, int64_t, key_i64(e[i * step]), UINT64_MAX)
KEYS(i32, int32_t, key_i32(e[i * step]), UINT32_MAX)
KEYS(u8, uint8_t, e[i * step], 255)

/* ---- sorting pairs ---- */

static bool before(pair a, pair b)
{
    return a.key < b.key || (a.key == b.key && a.index < b.index);
}

static void insert_all(pair *p, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        pair x = p[i];
        int64_t j = i;
        for (; j > 0 && x.key < p[j - 1].key; j--)
            p[j] = p[j - 1];
        p[j] = x;
    }
}

/* Sorts p by key, stably; `other` has room for n. Returns which of the two holds the result. */
static pair *radix_sort(pair *p, pair *other, int64_t n)
{
    uint64_t differ = 0;
    for (int64_t i = 1; i < n; i++)
        differ |= p[i].key ^ p[0].key;
    for (int shift = 0; shift < 64; shift += 8) {
        if ((differ >> shift & 255) == 0)
            continue;
        int64_t at[257] = {0};
        for (int64_t i = 0; i < n; i++)
            at[(p[i].key >> shift & 255) + 1]++;
        for (int i = 0; i < 256; i++)
            at[i + 1] += at[i];
        for (int64_t i = 0; i < n; i++)
            other[at[p[i].key >> shift & 255]++] = p[i];
        pair *swap = p;
        p = other;
        other = swap;
    }
    return p;
}

/* ---- the best k ---- */

/* A heap whose root is the last in order: moves `x` down from the root. */
static void sift(pair *heap, int64_t k, pair x)
{
    int64_t i = 0;
    for (int64_t child; (child = 2 * i + 1) < k; i = child) {
        if (child + 1 < k && before(heap[child], heap[child + 1]))
            child++;
        if (!before(x, heap[child]))
            break;
        heap[i] = heap[child];
    }
    heap[i] = x;
}

/* The first k of a line in order, into heap[0..k); `block` has room for BLOCK. */
static void select_first(const order_job *job, const char *x, pair *heap, pair *block)
{
    int64_t have = 0, k = job->k;
    for (int64_t base = 0; base < job->n; base += BLOCK) {
        int64_t n = HOD_MIN(BLOCK, job->n - base);
        job->keys(x + base * job->step * job->bytes, job->step, n, job->descending, block);
        for (int64_t i = 0; i < n; i++) {
            pair p = {block[i].key, base + i};
            if (have == k) {
                if (before(p, heap[0]))
                    sift(heap, k, p);
                continue;
            }
            int64_t j = have++; /* up from the end */
            for (; j > 0 && before(heap[(j - 1) / 2], p); j = (j - 1) / 2)
                heap[j] = heap[(j - 1) / 2];
            heap[j] = p;
        }
    }
    for (int64_t m = k; m-- > 1;) {
        pair last = heap[m];
        heap[m] = heap[0];
        sift(heap, m, last);
    }
}

/* ---- the kernel ---- */

int hod__shape_order(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    const hod_attrs_order *a = &c->attrs->order;
    int64_t size = in->ndim && a->dim >= 0 && a->dim < in->ndim ? in->shape[a->dim] : 1;
    if (a->dim < 0 || a->dim >= HOD_MAX(in->ndim, 1) || a->k < 0 || a->k > size ||
        (in->ndim == 0 && a->k != 1))
        return HOD_FAIL_RC(ARGUMENT, "order: %lld of dimension %lld of %s", (long long)a->k,
                           (long long)a->dim, HOD_META_TEXT(in));
    *out = *in;
    out->dtype = HOD_I64;
    if (in->ndim)
        out->shape[a->dim] = a->k;
    return 0;
}

static bool selects(const order_job *job)
{
    return job->k < job->n / 8;
}

static void order_lines(void *context, int64_t begin, int64_t end)
{
    order_job *job = context;
    bool few = selects(job);
    int64_t room = few ? job->k + BLOCK : 2 * job->n;
    pair *p = hod__alloc((size_t)room, sizeof *p);
    if (!p) {
        job->failed = true;
        return;
    }
    for (int64_t line = begin; line < end; line++) {
        int64_t outer = line / job->inner, inner = line % job->inner;
        const char *x = job->from + (outer * job->n * job->inner + inner) * job->bytes;
        int64_t *to = job->to + outer * job->k * job->inner + inner;
        pair *sorted = p;
        if (few) {
            select_first(job, x, p, p + job->k);
        } else {
            job->keys(x, job->step, job->n, job->descending, p);
            if (job->n <= INSERTED)
                insert_all(p, job->n);
            else
                sorted = radix_sort(p, p + job->n, job->n);
        }
        for (int64_t i = 0; i < job->k; i++)
            to[i * job->inner] = sorted[i].index;
    }
    free(p);
}

int hod__eval_order(const hod_op_call *c, hod_tensor *out)
{
    static void (*const keys[HOD_DTYPES])(const void *, int64_t, int64_t, bool, pair *) = {
        [HOD_F32] = keys_f32, [HOD_F64] = keys_f64, [HOD_F16] = keys_f16, [HOD_BF16] = keys_bf16,
        [HOD_I64] = keys_i64, [HOD_I32] = keys_i32, [HOD_U8] = keys_u8,   [HOD_BOOL] = keys_u8};
    const hod_attrs_order *a = &c->attrs->order;
    if (hod_tensor_numel(out) == 0)
        return 0;
    if (!hod__is_row_major(out))
        return HOD_FAIL_RC(ARGUMENT, "order: into a strided tensor");
    hod_tensor *x = hod__eval_row_major(c->in[0]);
    if (!x)
        return -1;
    order_job job = {.from = hod__data(x),
                     .to = hod__data(out),
                     .n = x->ndim ? x->shape[a->dim] : 1,
                     .k = a->k,
                     .bytes = (int64_t)hod_dtype_bytes(x->dtype),
                     .descending = a->descending,
                     .keys = keys[x->dtype]};
    job.step = job.inner =
        x->ndim ? hod__numel(x->ndim - (int)a->dim - 1, x->shape + a->dim + 1) : 1;
    hod__parallel(hod_tensor_numel(x) / job.n, HOD_MAX(1, PARALLEL_ELEMENTS / job.n), order_lines,
                  &job);
    hod_tensor_release(x);
    return job.failed ? HOD_FAIL_RC(MEMORY, "order: no memory for %lld elements", (long long)job.n)
                      : 0;
}

/* ---- searching ---- */

int hod__shape_searchsorted(const hod_op_call *c, const hod_meta *in, hod_meta *out)
{
    (void)c;
    const hod_meta *rows = &in[0], *values = &in[1];
    bool fits = rows->dtype == values->dtype && rows->ndim >= 1 &&
                (rows->ndim == 1 || rows->ndim == values->ndim);
    for (int i = 0; fits && i < rows->ndim - 1; i++)
        fits = rows->shape[i] == values->shape[i];
    if (!fits)
        return HOD_FAIL_RC(ARGUMENT, "searchsorted: %s %s in %s %s", hod_dtype_name(values->dtype),
                           HOD_META_TEXT(values), hod_dtype_name(rows->dtype), HOD_META_TEXT(rows));
    *out = *values;
    out->dtype = HOD_I64;
    return 0;
}

typedef struct search_job {
    const char *rows, *values;
    int64_t *to;
    int64_t n, each; /* elements of a row, values that are looked up in it */
    bool right;
} search_job;

/* The number of elements of a row that come before v, by halving without branches. Values are often
 * sorted themselves: the place of the one before is tried first. */
#define COMES(e) ((e) < v || (right && (e) == v))
#define SEARCH(name, type, key)                                                                    \
    static int64_t find_##name(const type *row, int64_t n, uint64_t v, bool right)                 \
    {                                                                                              \
        int64_t low = 0;                                                                           \
        for (int64_t half; n > 1; n -= half) {                                                     \
            half = n / 2;                                                                          \
            uint64_t e = key(row[low + half - 1]);                                                 \
            low += COMES(e) ? half : 0;                                                            \
        }                                                                                          \
        uint64_t e = n ? key(row[low]) : 0;                                                        \
        return low + (n && COMES(e));                                                              \
    }                                                                                              \
    static void search_##name(void *context, int64_t begin, int64_t end)                           \
    {                                                                                              \
        const search_job *job = context;                                                           \
        int64_t last = 0, n = job->n;                                                              \
        bool right = job->right;                                                                   \
        for (int64_t at = begin; at < end; at++) {                                                 \
            const type *row = (const type *)job->rows + at / job->each * n;                        \
            uint64_t v = key(((const type *)job->values)[at]);                                     \
            if ((last > 0 && !COMES(key(row[last - 1]))) || (last < n && COMES(key(row[last]))))   \
                last = find_##name(row, n, v, right);                                              \
            job->to[at] = last;                                                                    \
        }                                                                                          \
    }
SEARCH(f32, float, key_f32)
SEARCH(f64, double, key_f64)
SEARCH(i64, int64_t, key_i64)

int hod__eval_searchsorted(const hod_op_call *c, hod_tensor *out)
{
    hod_dtype type = c->in[0]->dtype, as = hod__added_in(type);
    int64_t n = hod_tensor_numel(out);
    if (n == 0)
        return 0;
    if (!hod__is_row_major(out))
        return HOD_FAIL_RC(ARGUMENT, "searchsorted: into a strided tensor");
    hod_tensor *in[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        hod_meta m = hod__meta(c->in[i]);
        m.dtype = as;
        if (type == as)
            in[i] = hod__eval_row_major(c->in[i]);
        else if ((in[i] = hod__eval_temporary(&m)) != NULL)
            hod__eval_cast(&(hod_op_call){.op = HOD_OP_cast, .n = 1, .in = &c->in[i]}, in[i]);
    }
    if (in[0] && in[1]) {
        bool one = in[0]->ndim == 1; /* one row for all */
        search_job job = {.values = hod__data(in[1]), .to = hod__data(out)};
        job.n = in[0]->shape[in[0]->ndim - 1];
        job.rows = job.n > 0 ? hod__data(in[0]) : NULL;
        job.each = one ? n : in[1]->shape[in[1]->ndim - 1];
        job.right = c->attrs->search.right;
        hod__parallel(n, 2048,
                      as == HOD_F32   ? search_f32
                      : as == HOD_F64 ? search_f64
                                      : search_i64,
                      &job);
    }
    int rc = in[0] && in[1] ? 0 : -1;
    hod_tensor_release(in[0]);
    hod_tensor_release(in[1]);
    return rc;
}
