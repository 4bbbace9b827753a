/* Writing safetensors. What is written are the elements in row-major order, whatever the strides;
 * a tensor that several names share is written once, and the other names go into the metadata as
 * `name -> first name`, which is how the Python libraries note it, too.
 */
#include "io/safetensors.h"

#include "io/file.h"
#include <errno.h>
#include <jansson.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are written as they lie");

static const struct {
    const char *name;
    hod_dtype dtype;
} dtypes[] = {
    {"F32", HOD_F32}, {"F64", HOD_F64}, {"F16", HOD_F16}, {"BF16", HOD_BF16},
    {"I64", HOD_I64}, {"I32", HOD_I32}, {"U8", HOD_U8},   {"BOOL", HOD_BOOL},
};

const char *hod__safetensors_name(hod_dtype dtype)
{
    for (int i = 0; i < HOD_COUNT(dtypes); i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return "?";
}

bool hod__safetensors_dtype(const char *name, hod_dtype *out)
{
    for (int i = 0; i < HOD_COUNT(dtypes); i++)
        if (strcmp(dtypes[i].name, name) == 0) {
            *out = dtypes[i].dtype;
            return true;
        }
    return false;
}

static bool same_tensor(const hod_tensor *a, const hod_tensor *b)
{
    if (a == b)
        return true;
    return a->storage == b->storage && a->offset == b->offset && a->dtype == b->dtype &&
           a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0 &&
           memcmp(a->strides, b->strides, (size_t)a->ndim * sizeof *a->strides) == 0;
}

/* The first of the tensors before i that is the same one, or i. */
static int64_t first_of(const hod_named_tensor *t, int64_t i)
{
    for (int64_t k = 0; k < i; k++)
        if (same_tensor(t[k].tensor, t[i].tensor))
            return k;
    return i;
}

static int add_text(json_t *notes, const char *path, const char *name, const char *text)
{
    if (json_object_set_new(notes, name, json_string(text)))
        return HOD_FAIL_RC(ARGUMENT, "%s: note \"%s\" is not UTF-8", path, name);
    return 0;
}

static json_t *describe(const hod_tensor *t, int64_t begin, int64_t end)
{
    json_t *shape = json_array();
    for (int i = 0; i < t->ndim; i++)
        json_array_append_new(shape, json_integer(t->shape[i]));
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", hod__safetensors_name(t->dtype), "shape",
                     shape, "data_offsets", (json_int_t)begin, (json_int_t)end);
}

/* Fills `header` with the entries, and first[i] with the tensor whose bytes i shares. */
static int make_header(const char *path, const hod_named_tensor *t, int64_t n, json_t *header,
                       json_t *notes, int64_t *first)
{
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        const char *name = t[i].name;
        if (!t[i].tensor)
            return -1;
        if (!name || !*name || strcmp(name, "__metadata__") == 0)
            return HOD_FAIL_RC(ARGUMENT, "%s: \"%s\" is no name for a tensor", path,
                               name ? name : "");
        if (json_object_get(header, name) || json_object_get(notes, name))
            return HOD_FAIL_RC(ARGUMENT, "%s: two things are named \"%s\"", path, name);
        first[i] = first_of(t, i);
        if (first[i] < i) {
            if (add_text(notes, path, name, t[first[i]].name))
                return -1;
            continue;
        }
        hod_meta m = hod__meta(t[i].tensor);
        int64_t bytes = hod__meta_bytes(&m);
        if (bytes < 0)
            return -1;
        if (json_object_set_new(header, name, describe(t[i].tensor, at, at + bytes)))
            return HOD_FAIL_RC(ARGUMENT, "%s: the name \"%s\" is not UTF-8", path, name);
        at += bytes;
    }
    return 0;
}

/* Writes the elements of a tensor with any strides, row-major, through a buffer. */
static int write_strided(hod_new_file *f, const hod_tensor *t, const char *base)
{
    enum { ROOM = 1 << 16 };
    size_t size = hod_dtype_bytes(t->dtype);
    char *buffer = hod__alloc(ROOM, 1);
    if (!buffer)
        return -1;
    int64_t total = hod_tensor_numel(t), index[HOD_MAX_DIMS] = {0}, at = 0;
    size_t used = 0;
    int rc = 0;
    for (int64_t i = 0; i < total && rc == 0; i++) {
        memcpy(buffer + used, base + (size_t)at * size, size);
        used += size;
        if (used + size > ROOM || i == total - 1) {
            rc = hod__file_write(f, buffer, (int64_t)used);
            used = 0;
        }
        for (int d = t->ndim - 1; d >= 0; d--) { /* the next index, the last dimension first */
            at += t->strides[d];
            if (++index[d] < t->shape[d])
                break;
            at -= t->strides[d] * t->shape[d];
            index[d] = 0;
        }
    }
    free(buffer);
    return rc;
}

static int write_tensor(hod_new_file *f, const hod_tensor *t)
{
    int64_t n = hod_tensor_numel(t);
    if (n == 0)
        return 0;
    const void *data = hod_tensor_data(t);
    if (!data)
        return -1;
    if (hod_tensor_is_contiguous(t))
        return hod__file_write(f, data, n * (int64_t)hod_dtype_bytes(t->dtype));
    return write_strided(f, t, data);
}

static int write_header(hod_new_file *f, const char *path, const json_t *header)
{
    char *text = json_dumps(header, JSON_COMPACT);
    if (!text)
        return HOD_FAIL_RC(MEMORY, "%s: no memory for the header", path);
    static const char spaces[8] = "        ";
    uint64_t n = strlen(text), padded = (n + 7) / 8 * 8;
    int rc = padded > HOD_SAFETENSORS_HEADER_MAX
                 ? HOD_FAIL_RC(ARGUMENT, "%s: a header of %llu bytes, at most %d", path,
                               (unsigned long long)padded, HOD_SAFETENSORS_HEADER_MAX)
                 : 0;
    if (rc == 0)
        rc = hod__file_write(f, &padded, sizeof padded) || hod__file_write(f, text, (int64_t)n) ||
                     hod__file_write(f, spaces, (int64_t)(padded - n))
                 ? -1
                 : 0;
    free(text);
    return rc;
}

static const char no_sum[] = "0000000000000000";

/* Writes the digits over those that held their place in the header. */
static int write_sum(hod_new_file *f, const json_t *header, uint64_t sum)
{
    char *text = json_dumps(header, JSON_COMPACT), digits[17];
    /* Inside a text the quotes would stand behind backslashes. */
    const char *key = text ? strstr(text, "\"" HOD_SAFETENSORS_SUM "\":\"") : NULL;
    int64_t at = key ? key - text + (int64_t)strlen("\"" HOD_SAFETENSORS_SUM "\":\"") : -1;
    free(text);
    if (at < 0)
        return HOD_FAIL_RC(MEMORY, "%s: no memory for the header", f->path);
    snprintf(digits, sizeof digits, "%016llx", (unsigned long long)sum);
    if (fseeko(f->out, (off_t)(8 + at), SEEK_SET) != 0)
        return HOD_FAIL_RC(IO, "%s: %s", f->path, strerror(errno));
    return hod__file_write(f, digits, (int64_t)strlen(digits));
}

static int write_all(const char *path, const hod_named_tensor *tensors, int64_t n,
                     const json_t *header, const int64_t *first)
{
    hod_new_file f;
    if (hod__file_begin(&f, path))
        return -1;
    int rc = write_header(&f, path, header);
    if (rc == 0 && !(f.sum = hod__sum_new()))
        rc = -1;
    for (int64_t i = 0; i < n && rc == 0; i++)
        if (first[i] == i)
            rc = write_tensor(&f, tensors[i].tensor);
    uint64_t sum = hod__sum_end(f.sum);
    f.sum = NULL;
    if (rc == 0)
        rc = write_sum(&f, header, sum);
    if (rc) {
        hod__file_abandon(&f);
        return -1;
    }
    return hod__file_commit(&f);
}

int hod_save_tensors(const char *path, const hod_named_tensor *tensors, int64_t n,
                     const hod_named_text *notes, int64_t n_notes)
{
    if (!path || n < 0 || n_notes < 0)
        return HOD_FAIL_RC(ARGUMENT, "save: no path");
    if ((n > 0 && !tensors) || (n_notes > 0 && !notes))
        return HOD_FAIL_RC(ARGUMENT, "save %s: no list of tensors or notes", path);
    int64_t *first = hod__alloc((size_t)n, sizeof *first);
    json_t *header = json_object(), *texts = json_object();
    int rc = first && header && texts ? 0 : HOD_FAIL_RC(MEMORY, "%s: no memory", path);
    for (int64_t i = 0; i < n_notes && rc == 0; i++)
        rc = add_text(texts, path, notes[i].name, notes[i].text);
    /* The metadata come first in the file, and the order of the rest is the caller's. */
    if (rc == 0 && json_object_set(header, "__metadata__", texts))
        rc = HOD_FAIL_RC(MEMORY, "%s: no memory", path);
    if (rc == 0)
        rc = make_header(path, tensors, n, header, texts, first);
    if (rc == 0)
        rc = add_text(texts, path, HOD_SAFETENSORS_SUM, no_sum);
    if (rc == 0)
        rc = write_all(path, tensors, n, header, first);
    json_decref(texts);
    json_decref(header);
    free(first);
    return rc;
}
