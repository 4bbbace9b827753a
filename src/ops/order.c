/* Sorting: the kernel of `order`, and searching in what is sorted.
 *
 * Every type is mapped to unsigned keys whose order is the one wanted (floats: sign flipped or all
 * bits; NaN above all, -0 as 0; descending: the complement), so one sort serves all. Pairs (key,
 * index) go through a byte-wise radix sort, which is stable by itself and skips bytes that all keys
 * share; a few are inserted, and some more are words of a short key and an index. Where few are
 * wanted of many, a heap of the best k looks at each pair once.
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
    int64_t n, k, inner; /* a line: n elements, the first k in order are wanted, `inner` apart */
    int64_t bytes;
    bool descending;
    hod_dtype dtype;
    _Atomic bool failed; /* memory */
} order_job;

enum { INSERTED = 48, MARKED = 255, BLOCK = 64, SEARCHED = 8 };

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

static uint64_t key_f16(uint16_t x)
{
    return key_f32(hod__f16_to_f32(x));
}

static uint64_t key_bf16(uint16_t x)
{
    return key_f32(hod__bf16_to_f32(x));
}

static uint64_t key_u8(uint8_t x)
{
    return x;
}

static uint64_t key_i32(int32_t x)
{
    return (uint32_t)x ^ 0x80000000u;
}

/* The keys of n elements `step` apart, `apart` places apart in `to`. */
#define KEYS(name, type, key, most)                                                                \
    static void keys_##name(const void *x, int64_t step, int64_t n, bool descending, uint64_t *to, \
                            int64_t apart)                                                         \
    {                                                                                              \
        const type *e = x;                                                                         \
        uint64_t flip = descending ? most : 0;                                                     \
        if (step == 1 && apart == 1)                                                               \
            for (int64_t i = 0; i < n; i++)                                                        \
                to[i] = key(e[i]) ^ flip;                                                          \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                to[i * apart] = key(e[i * step]) ^ flip;                                           \
    }
KEYS(f32, float, key_f32, UINT32_MAX)
KEYS(f64, double, key_f64, UINT64_MAX)
KEYS(f16, uint16_t, key_f16, UINT32_MAX)
KEYS(bf16, uint16_t, key_bf16, UINT32_MAX)
KEYS(i64, int64_t, key_i64, UINT64_MAX)
KEYS(i32, int32_t, key_i32, UINT32_MAX)
KEYS(u8, uint8_t, key_u8, 255)

typedef void key_maker(const void *x, int64_t step, int64_t n, bool descending, uint64_t *to,
                       int64_t apart);
static key_maker *const keys_of[HOD_DTYPES] = {
    [HOD_F32] = keys_f32, [HOD_F64] = keys_f64, [HOD_F16] = keys_f16, [HOD_BF16] = keys_bf16,
    [HOD_I64] = keys_i64, [HOD_I32] = keys_i32, [HOD_U8] = keys_u8,   [HOD_BOOL] = keys_u8};

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

static int digit(uint64_t word, int k)
{
    return (int)(word >> (32 + 8 * k) & 255);
}

/* Counters become places: each the sum of those before it, eight at a time. Multiplied by
 * 0x01...01, a byte is the sum of itself and the lower ones; none exceeds 255. */
static void add_up(uint8_t at[256])
{
    const uint64_t ones = UINT64_MAX / 255;
    uint64_t word, before = 0;
    for (int i = 0; i < 256; i += 8) {
        memcpy(&word, at + i, sizeof word);
        uint64_t sums = word * ones, places = sums - word + before;
        memcpy(at + i, &places, sizeof places);
        before += (sums >> 56) * ones;
    }
}

/* radix_sort of at most MARKED words, each a key of 32 bits above its index: all digits are counted
 * at once, in bytes. */
static uint64_t *sort_words(uint64_t *p, uint64_t *other, int64_t n)
{
    uint8_t at[4][256] = {{0}};
    uint64_t differ = 0;
    for (int64_t i = 0; i < n; i++) {
        differ |= p[i] ^ p[0];
        for (int k = 0; k < 4; k++)
            at[k][digit(p[i], k)]++;
    }
    for (int k = 0; k < 4; k++) {
        if (digit(differ, k) == 0)
            continue;
        add_up(at[k]);
        for (int64_t i = 0; i < n; i++)
            other[at[k][digit(p[i], k)]++] = p[i];
        uint64_t *swap = p;
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

/* False when none of n floats can come before `last`, which is one of them: most blocks of a long
 * line, told apart by a loop that vectorises. NaN compares false and is looked at. */
static bool some_before(const float *x, int64_t n, float last, bool descending)
{
    uint32_t none = 1;
    if (descending)
        for (int64_t i = 0; i < n; i++)
            none &= x[i] <= last;
    else
        for (int64_t i = 0; i < n; i++)
            none &= x[i] >= last;
    return !none;
}

/* The first k of a line in order, into heap[0..k). Of equal keys the first are there already. */
static void select_first(const order_job *job, const char *x, pair *heap)
{
    uint64_t block[BLOCK];
    int64_t have = 0, k = job->k;
    bool floats = job->dtype == HOD_F32 && job->inner == 1;
    for (int64_t base = 0; base < job->n; base += BLOCK) {
        int64_t n = HOD_MIN(BLOCK, job->n - base);
        const float *f = (const float *)x;
        if (floats && have == k && !some_before(f + base, n, f[heap[0].index], job->descending))
            continue;
        keys_of[job->dtype](x + base * job->inner * job->bytes, job->inner, n, job->descending,
                            block, 1);
        for (int64_t i = 0; i < n; i++) {
            if (have == k && block[i] >= heap[0].key)
                continue;
            pair p = {block[i], base + i};
            if (have == k) {
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

/* n words of 64 bits. */
static hod_tensor *words(int64_t n)
{
    return hod__eval_temporary(&(hod_meta){.dtype = HOD_I64, .ndim = 1, .shape = {n}});
}

/* The first k indices of a line that is sorted as a whole; p has room for 2 n pairs. */
static void order_all(const order_job *job, const char *x, pair *p, int64_t *to)
{
    int64_t n = job->n, step = job->inner;
    bool narrow = job->dtype != HOD_F64 && job->dtype != HOD_I64; /* keys of 32 bits */
    if (narrow && n > INSERTED && n <= MARKED) {
        uint64_t *words = &p->key;
        keys_of[job->dtype](x, step, n, job->descending, words, 1);
        for (int64_t i = 0; i < n; i++)
            words[i] = words[i] << 32 | (uint64_t)i;
        words = sort_words(words, words + n, n);
        for (int64_t i = 0; i < job->k; i++)
            to[i * step] = (int64_t)(words[i] & UINT32_MAX);
        return;
    }
    keys_of[job->dtype](x, step, n, job->descending, &p->key, 2);
    for (int64_t i = 0; i < n; i++)
        p[i].index = i;
    if (n <= INSERTED)
        insert_all(p, n);
    else
        p = radix_sort(p, p + n, n);
    for (int64_t i = 0; i < job->k; i++)
        to[i * step] = p[i].index;
}

static void order_lines(void *context, int64_t begin, int64_t end)
{
    order_job *job = context;
    bool few = selects(job);
    int64_t room = few ? job->k : 2 * job->n;
    hod_tensor *scratch = words(2 * room); /* of the caching allocator: no new pages each time */
    pair *p = scratch ? hod__data(scratch) : NULL;
    if (!p) {
        job->failed = true;
        return;
    }
    for (int64_t line = begin; line < end; line++) {
        int64_t outer = line / job->inner, inner = line % job->inner;
        const char *x = job->from + (outer * job->n * job->inner + inner) * job->bytes;
        int64_t *to = job->to + outer * job->k * job->inner + inner;
        if (!few) {
            order_all(job, x, p, to);
            continue;
        }
        select_first(job, x, p);
        for (int64_t i = 0; i < job->k; i++)
            to[i * job->inner] = p[i].index;
    }
    hod_tensor_release(scratch);
}

int hod__eval_order(const hod_op_call *c, hod_tensor *out)
{
    const hod_attrs_order *a = &c->attrs->order;
    if (hod_tensor_numel(out) == 0)
        return 0;
    hod_tensor *x;
    if (hod__eval_inputs(c, out, &x) != 0)
        return -1;
    order_job job = {.from = hod__data(x),
                     .to = hod__data(out),
                     .n = x->ndim ? x->shape[a->dim] : 1,
                     .k = a->k,
                     .bytes = (int64_t)hod_dtype_bytes(x->dtype),
                     .descending = a->descending,
                     .dtype = x->dtype};
    job.inner = x->ndim ? hod__numel(x->ndim - (int)a->dim - 1, x->shape + a->dim + 1) : 1;
    hod__parallel(hod_tensor_numel(x) / job.n, hod__grain(job.n), order_lines, &job);
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
    const uint64_t *rows, *values; /* keys */
    int64_t *to;
    int64_t n, each; /* elements of a row, values that are looked up in it */
    bool right;
} search_job;

#define COMES(e) (((e) < v) | (((e) == v) & right))

/* The number of elements of a row that come before v, by halving without branches. */
static int64_t find(const uint64_t *row, int64_t n, uint64_t v, bool right)
{
    int64_t low = 0;
    for (int64_t half; n > 1; n -= half) {
        half = n / 2;
        low += half & -(int64_t)COMES(row[low + half - 1]);
    }
    return low + (n && COMES(row[low]));
}

/* SEARCHED values in a row at once: a search is a chain of loads, and chains overlap. */
static void find_some(const uint64_t *row, int64_t n, const uint64_t *values, bool right,
                      int64_t *to)
{
    const uint64_t *at[SEARCHED];
    for (int k = 0; k < SEARCHED; k++)
        at[k] = row;
    for (int64_t half; n > 1; n -= half) {
        half = n / 2;
        for (int k = 0; k < SEARCHED; k++) {
            const uint64_t *next = at[k] + half, v = values[k];
            at[k] = (right ? next[-1] <= v : next[-1] < v) ? next : at[k];
        }
    }
    for (int k = 0; k < SEARCHED; k++) {
        uint64_t v = values[k];
        to[k] = at[k] - row + (n && COMES(*at[k]));
    }
}

static void search(void *context, int64_t begin, int64_t end)
{
    const search_job *job = context;
    int64_t n = job->n, each = job->each;
    for (int64_t at = begin; at < end;) {
        const uint64_t *row = job->rows + at / each * n;
        int64_t stop = HOD_MIN(end, at / each * each + each); /* of those looked up in this row */
        for (; at + SEARCHED <= stop; at += SEARCHED)
            find_some(row, n, job->values + at, job->right, job->to + at);
        for (; at < stop; at++)
            job->to[at] = find(row, n, job->values[at], job->right);
    }
}

/* t's keys, row by row; released by the caller. */
static hod_tensor *keys_of_all(hod_tensor *t)
{
    int64_t n = hod_tensor_numel(t);
    hod_tensor *x = hod__eval_row_major(t), *keys = x ? words(HOD_MAX(n, 1)) : NULL;
    if (keys && n > 0)
        keys_of[t->dtype](hod__data(x), 1, n, false, hod__data(keys), 1);
    hod_tensor_release(x);
    return keys;
}

int hod__eval_searchsorted(const hod_op_call *c, hod_tensor *out)
{
    const hod_tensor *rows = c->in[0], *values = c->in[1];
    int64_t n = hod_tensor_numel(out);
    if (n == 0)
        return 0;
    if (hod__check_row_major(c, out) != 0)
        return -1;
    hod_tensor *keys[2] = {keys_of_all(c->in[0]), keys_of_all(c->in[1])};
    int rc = keys[0] && keys[1] ? 0 : -1;
    if (rc == 0) {
        search_job job = {.rows = hod__data(keys[0]), .values = hod__data(keys[1])};
        job.to = hod__data(out);
        job.n = rows->shape[rows->ndim - 1];
        job.each = rows->ndim == 1 ? n : values->shape[values->ndim - 1]; /* one row for all */
        job.right = c->attrs->search.right;
        hod__parallel(n, 2048, search, &job);
    }
    hod_tensor_release(keys[0]);
    hod_tensor_release(keys[1]);
    return rc;
}
