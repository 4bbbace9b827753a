/* Loading by name into tensors that exist.
 *
 * Wrappers leave components in names: torch.compile writes `_orig_mod`, DistributedDataParallel
 * `module`, in any order and depth, and a model may really have a submodule called `module`. So:
 *
 *   1  the leading wrapper components that all names of the file share are taken off, as many as
 *      make the most names match (none, when that already matches best)
 *   2  what is then equal belongs together
 *   3  of the rest, a file's name belongs to a wanted one that is left when only wrapper
 *      components are taken out of it; to the longest such
 *
 * First everything is compared, then, if that is good enough, everything is copied.
 */
#include "io/safetensors.h"

#include "tensor/half.h"

static bool is_wrapper(const char *part, size_t n)
{
    return (n == 9 && memcmp(part, "_orig_mod", 9) == 0) ||
           (n == 6 && memcmp(part, "module", 6) == 0);
}

/* Length of the first component. */
static size_t part_length(const char *name)
{
    return strcspn(name, ".");
}

/* The name without its first k components when those are wrappers, else NULL. */
static const char *without_leading(const char *name, int k)
{
    for (; k > 0; k--) {
        size_t n = part_length(name);
        if (!is_wrapper(name, n) || name[n] != '.')
            return NULL;
        name += n + 1;
    }
    return name;
}

/* Can `wanted` be had from `stored` by taking out wrapper components? */
static bool reduces_to(const char *stored, const char *wanted)
{
    for (;;) {
        size_t s = part_length(stored), w = part_length(wanted);
        if (s == w && memcmp(stored, wanted, s) == 0) {
            if (!stored[s] || !wanted[w])
                return stored[s] == wanted[w];
            wanted += w + 1;
        } else if (!is_wrapper(stored, s) || !stored[s]) {
            return false;
        }
        stored += s + 1;
    }
}

/* ---- matching ---- */

typedef struct wanted {
    const char *name;
    int64_t number; /* in the caller's order */
} wanted;

typedef struct matching {
    hod_tensor_file *file;
    const hod_named_tensor *want;
    int64_t n;
    wanted *sorted;  /* by name */
    int64_t *source; /* for each wanted tensor: the file's entry, -1: none */
    bool *used;      /* for each entry */
} matching;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const wanted *)a)->name, ((const wanted *)b)->name);
}

static int64_t find_wanted(const matching *m, const char *name)
{
    wanted key = {name, 0};
    const wanted *w = m->n ? bsearch(&key, m->sorted, (size_t)m->n, sizeof key, by_name) : NULL;
    return w ? w->number : -1;
}

/* How many names match with k leading components off; -1 when some name has fewer. */
static int64_t matches_without(const matching *m, int k)
{
    int64_t n = 0;
    for (int64_t i = 0; i < m->file->n; i++) {
        const char *name = without_leading(m->file->entries[i].name, k);
        if (!name)
            return -1;
        n += find_wanted(m, name) >= 0;
    }
    return n;
}

static void match_equal(matching *m)
{
    int best = 0;
    int64_t most = matches_without(m, 0);
    for (int k = 1; m->file->n > 0; k++) {
        int64_t n = matches_without(m, k);
        if (n < 0)
            break;
        if (n > most) {
            most = n;
            best = k;
        }
    }
    for (int64_t i = 0; i < m->file->n; i++) {
        int64_t to = find_wanted(m, without_leading(m->file->entries[i].name, best));
        if (to >= 0) {
            m->source[to] = i;
            m->used[i] = true;
        }
    }
}

static bool has_wrapper(const char *name)
{
    for (size_t n;; name += n + 1) {
        n = part_length(name);
        if (is_wrapper(name, n))
            return true;
        if (!name[n])
            return false;
    }
}

static void match_reduced(matching *m)
{
    for (int64_t i = 0; i < m->file->n; i++) {
        const char *name = m->file->entries[i].name;
        if (m->used[i] || !has_wrapper(name))
            continue;
        int64_t best = -1;
        for (int64_t k = 0; k < m->n; k++)
            if (m->source[k] < 0 && reduces_to(name, m->want[k].name) &&
                (best < 0 || strlen(m->want[k].name) > strlen(m->want[best].name)))
                best = k;
        if (best >= 0) {
            m->source[best] = i;
            m->used[i] = true;
        }
    }
}

static int match(matching *m)
{
    m->sorted = hod__alloc((size_t)m->n, sizeof *m->sorted);
    m->source = hod__alloc((size_t)m->n, sizeof *m->source);
    m->used = hod__alloc((size_t)m->file->n, sizeof *m->used);
    if (!m->sorted || !m->source || !m->used)
        return -1;
    for (int64_t i = 0; i < m->n; i++) {
        m->sorted[i] = (wanted){m->want[i].name, i};
        m->source[i] = -1;
    }
    if (m->n)
        qsort(m->sorted, (size_t)m->n, sizeof *m->sorted, by_name);
    match_equal(m);
    match_reduced(m);
    return 0;
}

/* ---- comparing ---- */

static bool same_shape(const hod_meta *m, const hod_tensor *t)
{
    return hod__same_sizes(m->ndim, m->shape, t->ndim, t->shape);
}

/* A name that the file lacks is not missing when its tensor is loaded under another name. */
static bool is_tied_to_loaded(const matching *m, int64_t i)
{
    const hod_tensor *t = m->want[i].tensor;
    for (int64_t k = 0; k < m->n; k++) {
        const hod_tensor *o = m->want[k].tensor;
        if (m->source[k] >= 0 && o->storage == t->storage && o->offset == t->offset &&
            hod_tensor_numel(o) == hod_tensor_numel(t))
            return true;
    }
    return false;
}

/* Writes the lists; entries that do not fit lose their source. */
static int compare(matching *m, hod_load_report *r)
{
    hod_text text = {0};
    for (int64_t i = 0; i < m->n; i++) {
        const hod_tensor *t = m->want[i].tensor;
        if (m->source[i] < 0) {
            if (is_tied_to_loaded(m, i)) {
                r->loaded++;
                continue;
            }
            r->missing++;
            hod__text(&text, "missing %s\n", m->want[i].name);
            continue;
        }
        const hod_meta *e = &m->file->entries[m->source[i]].meta;
        bool dtype =
            e->dtype == (hod_dtype)t->dtype || (hod__is_float(e->dtype) && hod__is_float(t->dtype));
        if (dtype && same_shape(e, t)) {
            r->loaded++;
            continue;
        }
        char shape[96];
        r->mismatched++;
        hod__text(&text, "mismatched %s: file %s %s, wanted %s %s\n", m->want[i].name,
                  hod_dtype_name(e->dtype), hod__shape_text(e->ndim, e->shape, shape, sizeof shape),
                  hod_dtype_name(t->dtype), HOD_SHAPE_TEXT(t));
        m->source[i] = -1;
    }
    for (int64_t i = 0; i < m->file->n; i++)
        if (!m->used[i]) {
            r->unexpected++;
            hod__text(&text, "unexpected %s\n", m->file->entries[i].name);
        }
    r->text = hod__text_take(&text);
    return r->text ? 0 : -1;
}

/* All lists in one line; what does not fit is counted. */
static int refuse(const hod_tensor_file *f, const hod_load_report *r)
{
    char line[HOD_ERROR_TEXT - 128];
    size_t used = 0;
    int64_t left = 0;
    for (const char *p = r->text; *p;) {
        size_t n = strcspn(p, "\n");
        if (left == 0 && used + n + 3 < sizeof line) {
            if (used) {
                memcpy(line + used, "; ", 2);
                used += 2;
            }
            memcpy(line + used, p, n);
            used += n;
        } else {
            left++;
        }
        p += n + 1;
    }
    line[used] = 0;
    if (left)
        return HOD_FAIL_RC(FORMAT, "%s: %s; and %lld more", f->path, line, (long long)left);
    return HOD_FAIL_RC(FORMAT, "%s: %s", f->path, line);
}

/* ---- copying ---- */

static double load_float(hod_dtype d, const void *p)
{
    union {
        uint16_t h;
        float f;
        double d;
    } v;
    memcpy(&v, p, hod_dtype_bytes(d));
    return d == HOD_F64   ? v.d
           : d == HOD_F32 ? (double)v.f
           : d == HOD_F16 ? (double)hod__f16_to_f32(v.h)
                          : (double)hod__bf16_to_f32(v.h);
}

static void store_float(hod_dtype d, void *p, double x)
{
    union {
        uint16_t h;
        float f;
        double d;
    } v;
    if (d == HOD_F64)
        v.d = x;
    else if (d == HOD_F32)
        v.f = (float)x;
    else
        v.h = d == HOD_F16 ? hod__f32_to_f16((float)x) : hod__f32_to_bf16((float)x);
    memcpy(p, &v, hod_dtype_bytes(d));
}

/* Copies with conversion, a buffer at a time. */
static int copy_converted(hod_tensor_file *f, const hod_tensor_entry *e, hod_dtype to, char *out)
{
    enum { ELEMENTS = 8192 };
    char buffer[ELEMENTS * sizeof(double)];
    size_t from_size = hod_dtype_bytes(e->meta.dtype), to_size = hod_dtype_bytes(to);
    int64_t total = (e->end - e->begin) / (int64_t)from_size;
    for (int64_t i = 0; i < total; i += ELEMENTS) {
        int64_t n = HOD_MIN(ELEMENTS, total - i);
        if (hod__tensor_file_copy(f, e->begin + i * (int64_t)from_size, buffer,
                                  n * (int64_t)from_size))
            return -1;
        for (int64_t k = 0; k < n; k++)
            store_float(to, out + (size_t)(i + k) * to_size,
                        load_float(e->meta.dtype, buffer + (size_t)k * from_size));
    }
    return 0;
}

static int copy_into(hod_tensor_file *f, const hod_tensor_entry *e, hod_tensor *t)
{
    if (e->begin == e->end)
        return 0;
    char *out = hod_tensor_mutable_data(t);
    if (!out)
        return -1;
    if (e->meta.dtype != (hod_dtype)t->dtype)
        return copy_converted(f, e, t->dtype, out);
    return hod__tensor_file_copy(f, e->begin, out, e->end - e->begin);
}

static int check_wanted(const hod_tensor_file *f, const hod_named_tensor *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!want[i].tensor || !want[i].name)
            return -1;
        if (!hod_tensor_is_contiguous(want[i].tensor))
            return HOD_FAIL_RC(ARGUMENT, "%s: %s is not contiguous, it cannot be loaded into",
                               f->path, want[i].name);
    }
    return 0;
}

void hod_load_report_free(hod_load_report *r)
{
    if (!r)
        return;
    free(r->text);
    *r = (hod_load_report){0};
}

int hod_load_into(hod_tensor_file *f, const hod_named_tensor *want, int64_t n, bool strict,
                  hod_load_report *report)
{
    hod_load_report lists = {0};
    if (report)
        *report = lists;
    if (!f || check_wanted(f, want, n))
        return -1;
    matching m = {.file = f, .want = want, .n = n};
    int rc = match(&m) || compare(&m, &lists) ? -1 : 0;
    if (rc == 0 && strict && lists.missing + lists.unexpected + lists.mismatched > 0)
        rc = refuse(f, &lists);
    if (rc == 0)
        rc = hod__tensor_file_verify(f);
    for (int64_t i = 0; i < n && rc == 0; i++)
        if (m.source[i] >= 0)
            rc = copy_into(f, &f->entries[m.source[i]], want[i].tensor);
    free(m.sorted);
    free(m.source);
    free(m.used);
    if (report)
        *report = lists;
    else
        hod_load_report_free(&lists);
    return rc;
}
