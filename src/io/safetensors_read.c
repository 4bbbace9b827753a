/* Reading safetensors, trusting nothing.
 *
 *   R1  8 + H <= file size, H <= 100 MB, the header begins with '{': before any allocation
 *   R2  every entry has a known dtype, a shape of at most 8 sizes >= 0 and offsets whose distance
 *       is exactly shape x dtype, computed without overflow
 *   R3  sorted by offset, the entries follow each other without gap or overlap and end where the
 *       file ends, so a cut or padded file is noticed here and not as wrong weights
 *   R4  names are unique
 */
#include "io/safetensors.h"

#include "io/file.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

int hod__tensor_file_copy(hod_tensor_file *f, int64_t from, void *to, int64_t n)
{
    for (int64_t done = 0; done < n;) {
        ssize_t got = pread(f->fd, (char *)to + done, (size_t)HOD_MIN(n - done, 1 << 30),
                            f->data_at + from + done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return HOD_FAIL_RC(IO, "%s: %s", f->path, strerror(errno));
        if (got == 0)
            return HOD_FAIL_RC(IO, "%s: the file became shorter while it was read", f->path);
        done += got;
    }
    return 0;
}

int hod__tensor_file_verify(hod_tensor_file *f)
{
    enum { ROOM = 1 << 18 };
    if (!f->sum[0])
        return 0;
    char *buffer = hod__alloc(ROOM, 1), have[17];
    hod_sum *sum = buffer ? hod__sum_new() : NULL;
    int rc = sum ? 0 : -1;
    for (int64_t at = 0; at < f->data_bytes && rc == 0; at += ROOM) {
        int64_t n = HOD_MIN((int64_t)ROOM, f->data_bytes - at);
        rc = hod__tensor_file_copy(f, at, buffer, n);
        if (rc == 0)
            hod__sum_add(sum, buffer, n);
    }
    snprintf(have, sizeof have, "%016llx", (unsigned long long)hod__sum_end(sum));
    free(buffer);
    if (rc == 0 && strcmp(have, f->sum) != 0)
        return HOD_FAIL_RC(FORMAT, "%s: damaged: checksum %s, written with %s", f->path, have,
                           f->sum);
    return rc;
}

/* ---- entries ---- */

static int read_shape(hod_tensor_file *f, const char *name, const json_t *shape, hod_meta *m)
{
    size_t n = json_array_size(shape);
    if (!json_is_array(shape) || n > HOD_MAX_DIMS)
        return HOD_FAIL_RC(FORMAT, "%s: %s: a shape of %zu sizes, at most %d", f->path, name, n,
                           HOD_MAX_DIMS);
    m->ndim = (int)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *size = json_array_get(shape, i);
        m->shape[i] = json_integer_value(size);
        if (!json_is_integer(size) || m->shape[i] < 0)
            return HOD_FAIL_RC(FORMAT, "%s: %s: size %zu of the shape is no size", f->path, name,
                               i);
    }
    return 0;
}

static int read_entry(hod_tensor_file *f, const char *name, const json_t *about,
                      hod_tensor_entry *e)
{
    const char *dtype = json_string_value(json_object_get(about, "dtype"));
    const json_t *shape = json_object_get(about, "shape");
    const json_t *offsets = json_object_get(about, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (!dtype || !shape || json_array_size(offsets) != 2 || !json_is_integer(begin) ||
        !json_is_integer(end))
        return HOD_FAIL_RC(FORMAT, "%s: %s: dtype, shape and two data_offsets expected", f->path,
                           name);
    if (!hod__safetensors_dtype(dtype, &e->meta.dtype))
        return HOD_FAIL_RC(FORMAT, "%s: %s: dtype %s is not supported", f->path, name, dtype);
    if (read_shape(f, name, shape, &e->meta))
        return -1;
    e->begin = json_integer_value(begin);
    e->end = json_integer_value(end);
    int64_t bytes = (int64_t)hod_dtype_bytes(e->meta.dtype);
    bool fits = true;
    for (int i = 0; i < e->meta.ndim && fits; i++)
        fits = hod__mul_size(bytes, e->meta.shape[i], &bytes);
    if (e->begin < 0 || e->end < e->begin || e->end > f->data_bytes || !fits ||
        e->end - e->begin != bytes)
        return HOD_FAIL_RC(FORMAT, "%s: %s: bytes %lld to %lld of %lld do not hold %s of its shape",
                           f->path, name, (long long)e->begin, (long long)e->end,
                           (long long)f->data_bytes, dtype);
    e->tied_to = -1;
    e->name = hod__strdup(name);
    return e->name ? 0 : -1;
}

static int read_notes(hod_tensor_file *f, json_t *notes)
{
    const char *key;
    json_t *value;
    if (!json_is_object(notes))
        return HOD_FAIL_RC(FORMAT, "%s: __metadata__ is not an object", f->path);
    json_object_foreach(notes, key, value)
    {
        if (!json_is_string(value))
            return HOD_FAIL_RC(FORMAT, "%s: __metadata__: \"%s\" is not a text", f->path, key);
        if (strcmp(key, HOD_SAFETENSORS_SUM) == 0) { /* ours, not the caller's */
            snprintf(f->sum, sizeof f->sum, "%s", json_string_value(value));
            continue;
        }
        hod_named_text *t = hod__push(&f->notes, &f->n_notes, &f->cap_notes, sizeof *t);
        if (!t)
            return -1;
        t->name = hod__strdup(key);
        t->text = hod__strdup(json_string_value(value));
        if (!t->name || !t->text)
            return -1;
    }
    return 0;
}

static int by_offset(const void *a, const void *b)
{
    const hod_tensor_entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int by_name(const void *a, const void *b)
{
    const hod_tensor_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int check_cover(hod_tensor_file *f)
{
    if (f->n)
        qsort(f->entries, (size_t)f->n, sizeof *f->entries, by_offset);
    int64_t at = 0;
    for (int64_t i = 0; i < f->n; i++) {
        if (f->entries[i].begin != at)
            return HOD_FAIL_RC(FORMAT, "%s: %s begins at byte %lld, the one before ends at %lld",
                               f->path, f->entries[i].name, (long long)f->entries[i].begin,
                               (long long)at);
        at = f->entries[i].end;
    }
    if (at != f->data_bytes)
        return HOD_FAIL_RC(FORMAT, "%s: the tensors take %lld bytes, the file holds %lld", f->path,
                           (long long)at, (long long)f->data_bytes);
    return 0;
}

/* Notes `name -> tensor` become entries that share the tensor's bytes. */
static int add_tied(hod_tensor_file *f)
{
    int64_t stored = f->n;
    for (int64_t i = 0; i < f->n_notes; i++) {
        hod_tensor_entry key = {.name = (char *)f->notes[i].text};
        hod_tensor_entry *target =
            stored ? bsearch(&key, f->entries, (size_t)stored, sizeof key, by_name) : NULL;
        key.name = (char *)f->notes[i].name;
        if (!target || bsearch(&key, f->entries, (size_t)stored, sizeof key, by_name))
            continue;
        hod_tensor_entry copy = *target;
        hod_tensor_entry *e = hod__push(&f->entries, &f->n, &f->cap, sizeof *e);
        if (!e)
            return -1;
        *e = copy;
        e->tied_to = 0; /* settled below, once everything is in its place */
        e->name = hod__strdup(f->notes[i].name);
        if (!e->name)
            return -1;
    }
    if (f->n == stored)
        return 0;
    qsort(f->entries, (size_t)f->n, sizeof *f->entries, by_name);
    for (int64_t i = 0; i < f->n; i++)
        if (f->entries[i].tied_to >= 0)
            f->entries[i].tied_to =
                hod_tensor_file_find(f, hod_tensor_file_note(f, f->entries[i].name));
    return 0;
}

static int read_header(hod_tensor_file *f, const char *text, size_t n)
{
    json_error_t why;
    json_t *header = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    if (!header)
        return HOD_FAIL_RC(FORMAT, "%s: the header is not JSON: %s at byte %d", f->path, why.text,
                           why.position + 8);
    const char *key;
    json_t *value;
    int rc = 0;
    json_object_foreach(header, key, value)
    {
        if (strcmp(key, "__metadata__") == 0) {
            rc = read_notes(f, value);
        } else {
            hod_tensor_entry *e = hod__push(&f->entries, &f->n, &f->cap, sizeof *e);
            rc = e ? read_entry(f, key, value, e) : -1;
            if (e && !e->name)
                f->n--;
        }
        if (rc)
            break;
    }
    json_decref(header);
    if (rc || check_cover(f))
        return -1;
    if (f->n)
        qsort(f->entries, (size_t)f->n, sizeof *f->entries, by_name);
    return add_tied(f);
}

/* ---- the file ---- */

/* Checks R1 and reads the header's text, malloc'd. */
static char *read_text(hod_tensor_file *f, int64_t size, uint64_t *length)
{
    unsigned char head[9] = {0};
    ssize_t got = pread(f->fd, head, sizeof head, 0);
    if (got < 0)
        return HOD_FAIL(IO, "%s: %s", f->path, strerror(errno));
    if (got >= 4 && memcmp(head, "PK\3\4", 4) == 0)
        return HOD_FAIL(FORMAT,
                        "%s: a zip archive, not a safetensors file; PyTorch checkpoints "
                        "have to be converted",
                        f->path);
    if (got < (ssize_t)sizeof head)
        return HOD_FAIL(FORMAT, "%s: not a safetensors file: it holds %lld bytes", f->path,
                        (long long)size);
    memcpy(length, head, sizeof *length);
    if (*length < 2 || *length > (uint64_t)size - 8 || *length > HOD_SAFETENSORS_HEADER_MAX ||
        head[8] != '{')
        return HOD_FAIL(FORMAT,
                        "%s: not a safetensors file: header length %llu, first byte %02x, "
                        "file of %lld bytes",
                        f->path, (unsigned long long)*length, head[8], (long long)size);
    char *text = hod__alloc(*length, 1);
    f->data_at = 0;
    if (text && hod__tensor_file_copy(f, 8, text, (int64_t)*length)) {
        free(text);
        return NULL;
    }
    f->data_at = 8 + (int64_t)*length;
    f->data_bytes = size - f->data_at;
    return text;
}

hod_tensor_file *hod_tensor_file_open(const char *path)
{
    hod_tensor_file *f = path ? hod__alloc(1, sizeof *f) : NULL;
    if (!f)
        return NULL;
    struct stat st;
    f->fd = open(path, O_RDONLY | O_CLOEXEC);
    f->path = hod__strdup(path);
    char *text = NULL;
    uint64_t length = 0;
    if (f->fd < 0 || fstat(f->fd, &st))
        HOD_FAIL(IO, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        HOD_FAIL(IO, "%s: not a regular file", path);
    else if (f->path)
        text = read_text(f, st.st_size, &length);
    int rc = text ? read_header(f, text, (size_t)length) : -1;
    free(text);
    if (rc)
        hod_tensor_file_close(&f);
    return f;
}

void hod_tensor_file_close(hod_tensor_file **at)
{
    hod_tensor_file *f = at ? *at : NULL;
    if (!f)
        return;
    *at = NULL;
    if (f->fd >= 0)
        close(f->fd);
    for (int64_t i = 0; i < f->n; i++)
        free(f->entries[i].name);
    for (int64_t i = 0; i < f->n_notes; i++) {
        free((char *)f->notes[i].name);
        free((char *)f->notes[i].text);
    }
    free(f->entries);
    free(f->notes);
    free(f->path);
    free(f);
}

int64_t hod_tensor_file_count(const hod_tensor_file *f)
{
    return f ? f->n : 0;
}

int64_t hod_tensor_file_bytes(const hod_tensor_file *f)
{
    return f ? f->data_bytes : 0;
}

hod_tensor_info hod_tensor_file_info(const hod_tensor_file *f, int64_t i)
{
    if (!f || i < 0 || i >= f->n)
        return (hod_tensor_info){0};
    const hod_tensor_entry *e = &f->entries[i];
    return (hod_tensor_info){e->name, e->tied_to < 0 ? NULL : f->entries[e->tied_to].name,
                             e->meta.dtype, hod_shape_of(e->meta.ndim, e->meta.shape)};
}

int64_t hod_tensor_file_find(const hod_tensor_file *f, const char *name)
{
    if (!f || !name || !f->n)
        return -1;
    hod_tensor_entry key = {.name = (char *)name};
    const hod_tensor_entry *e = bsearch(&key, f->entries, (size_t)f->n, sizeof key, by_name);
    return e ? e - f->entries : -1;
}

const char *hod_tensor_file_note(const hod_tensor_file *f, const char *name)
{
    for (int64_t i = 0; f && i < f->n_notes; i++)
        if (strcmp(f->notes[i].name, name) == 0)
            return f->notes[i].text;
    return NULL;
}

hod_tensor *hod_tensor_file_read(hod_tensor_file *f, int64_t i)
{
    if (hod__null("tensor_file_read", "file", f))
        return NULL;
    if (i < 0 || i >= f->n)
        return HOD_FAIL(ARGUMENT, "%s: tensor %lld of %lld", f->path, (long long)i,
                        (long long)f->n);
    const hod_tensor_entry *e = &f->entries[i];
    hod_tensor *t = hod_empty(e->meta.dtype, hod_shape_of(e->meta.ndim, e->meta.shape));
    if (!t || e->begin == e->end)
        return t;
    void *data = hod_tensor_mutable_data(t);
    return data && !hod__tensor_file_copy(f, e->begin, data, e->end - e->begin) ? t : NULL;
}

/* ---- a whole file at once ---- */

void hod_tensor_list_free(hod_tensor_list *list)
{
    if (!list)
        return;
    for (int64_t i = 0; i < list->n; i++) {
        free((char *)list->items[i].name);
        hod_tensor_release(list->items[i].tensor);
    }
    for (int64_t i = 0; i < list->n_notes; i++) {
        free((char *)list->notes[i].name);
        free((char *)list->notes[i].text);
    }
    free(list->items);
    free(list->notes);
    free(list);
}

/* Moves names and notes of the file into the list and reads the tensors. */
static int fill_list(hod_tensor_list *list, hod_tensor_file *f)
{
    HOD_SCOPE(s);
    list->items = hod__alloc((size_t)f->n, sizeof *list->items);
    if (!list->items)
        return -1;
    list->notes = f->notes;
    list->n_notes = f->n_notes;
    f->notes = NULL;
    f->n_notes = 0;
    for (int64_t i = 0; i < f->n; i++)
        if (f->entries[i].tied_to < 0 &&
            !(list->items[i].tensor = hod_tensor_retain(hod_tensor_file_read(f, i)))) {
            list->n = f->n;
            return -1;
        }
    list->n = f->n;
    for (int64_t i = 0; i < f->n; i++) {
        int64_t own = f->entries[i].tied_to;
        if (own >= 0)
            list->items[i].tensor = hod_tensor_retain(list->items[own].tensor);
        list->items[i].name = f->entries[i].name;
        f->entries[i].name = NULL;
    }
    return 0;
}

hod_tensor_list *hod_load_tensors(const char *path)
{
    hod_tensor_file *f = hod_tensor_file_open(path);
    hod_tensor_list *list = f ? hod__alloc(1, sizeof *list) : NULL;
    if (list && (hod__tensor_file_verify(f) != 0 || fill_list(list, f) != 0)) {
        hod_tensor_list_free(list);
        list = NULL;
    }
    hod_tensor_file_close(&f);
    return list;
}
