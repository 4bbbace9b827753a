/* Reads a file of golden cases; the head of opinfo.py has its bytes. */
#include "golden.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void *need(void *p, const char *path, const char *what)
{
    if (!p) {
        fprintf(stderr, "hod-golden: %s: %s\n", path, what);
        exit(2);
    }
    return p;
}

static unsigned char *whole_file(const char *path, size_t *size)
{
    FILE *f = need(fopen(path, "rb"), path, "cannot be opened");
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    unsigned char *bytes = need(malloc(*size + 1), path, "out of memory");
    if (fread(bytes, 1, *size, f) != *size || *size < 24 || memcmp(bytes, "hodgold1", 8) != 0)
        need(NULL, path, "is no file of golden cases");
    fclose(f);
    return bytes;
}

/* ---- arrays ---- */

static const struct {
    const char *name;
    hod_dtype dtype;
} types[] = {{"f", HOD_F64},   {"f32", HOD_F32}, {"f16", HOD_F16}, {"bf16", HOD_BF16},
             {"i64", HOD_I64}, {"i32", HOD_I32}, {"u8", HOD_U8},   {"bool", HOD_BOOL}};

static double from_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, sizeof f);
    return f;
}

static void decode(gold_array *a, const char *encoding, const unsigned char *data)
{
    for (int64_t i = 0; i < a->n; i++) {
        if (strcmp(encoding, "u8") == 0)
            a->ints[i] = data[i];
        else if (strcmp(encoding, "i16") == 0)
            a->ints[i] = ((const int16_t *)(const void *)data)[i];
        else if (strcmp(encoding, "i64") == 0)
            a->ints[i] = ((const int64_t *)(const void *)data)[i];
        else {
            a->values[i] =
                strcmp(encoding, "bf16") == 0 ? from_bf16(((const uint16_t *)(const void *)data)[i])
                : strcmp(encoding, "f32") == 0 ? (double)((const float *)(const void *)data)[i]
                                               : ((const double *)(const void *)data)[i];
            continue;
        }
        a->values[i] = (double)a->ints[i];
    }
}

static gold_array array(json_t *j, const unsigned char *data)
{
    gold_array a = {.shape.n = 0};
    const char *type, *encoding;
    json_t *shape, *size;
    json_int_t at;
    size_t i;
    if (json_unpack(j, "[ssoI]", &type, &encoding, &shape, &at) != 0)
        return a;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        if (strcmp(types[t].name, type) == 0)
            a.dtype = types[t].dtype;
    a.under_test = strcmp(type, "f") == 0;
    a.n = 1;
    json_array_foreach(shape, i, size)
    {
        a.shape.d[a.shape.n++] = json_integer_value(size);
        a.n *= json_integer_value(size);
    }
    a.values = need(calloc((size_t)a.n + 1, sizeof *a.values), type, "out of memory");
    a.ints = need(calloc((size_t)a.n + 1, sizeof *a.ints), type, "out of memory");
    decode(&a, encoding, data + at);
    return a;
}

static gold_array *arrays(json_t *list, const unsigned char *data, int *n)
{
    size_t i;
    json_t *j;
    gold_array *a = need(calloc(json_array_size(list) + 1, sizeof *a), "arrays", "out of memory");
    json_array_foreach(list, i, j) a[i] = array(j, data);
    if (n)
        *n = (int)json_array_size(list);
    return a;
}

static bool tagged(json_t *j, const char *tag)
{
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(j, "tags"), i,
                       t) if (strcmp(json_string_value(t), tag) == 0) return true;
    return false;
}

gold_file gold_read(const char *family)
{
    const char *root = getenv("HOD_SOURCE_DIR");
    char path[4096];
    size_t size, i;
    snprintf(path, sizeof path, "%s/tests/golden/%s.golden", root ? root : ".", family);
    unsigned char *packed = whole_file(path, &size);
    uint64_t head, data;
    memcpy(&head, packed + 8, 8);
    memcpy(&data, packed + 16, 8);
    uLongf length = head + data;
    /* The data begins on a boundary of 8 bytes, for the types it holds. */
    size_t before = (8 - head % 8) % 8;
    gold_file f = {.memory = need(malloc(before + length + 8), path, "out of memory")};
    unsigned char *bytes = (unsigned char *)f.memory + before;
    if (uncompress(bytes, &length, packed + 24, size - 24) != Z_OK || length != head + data)
        need(NULL, path, "is damaged");
    free(packed);
    json_error_t e;
    f.header = need(json_loadb((char *)bytes, head, 0, &e), path, e.text);
    json_t *cases = json_object_get(f.header, "cases"), *j;
    f.n = (int)json_array_size(cases);
    f.cases = need(calloc((size_t)f.n + 1, sizeof *f.cases), path, "out of memory");
    json_array_foreach(cases, i, j)
    {
        gold_case *k = &f.cases[i];
        *k = (gold_case){.op = json_string_value(json_object_get(j, "op")),
                         .args = json_object_get(j, "args"),
                         .number = (int)i,
                         .zero = tagged(j, "zero"),
                         .broadcast = tagged(j, "broadcast")};
        k->x = arrays(json_object_get(j, "t"), bytes + head, &k->n_x);
        k->y = arrays(json_object_get(j, "y"), bytes + head, &k->n_y);
        json_t *g = json_object_get(j, "g");
        k->g = g ? arrays(g, bytes + head, NULL) : NULL;
        if (k->n_x > GOLD_MAX_TENSORS || k->n_y > GOLD_MAX_TENSORS)
            need(NULL, path, "a case has too many tensors");
    }
    return f;
}

static void arrays_free(gold_array *a, int n)
{
    for (int i = 0; a && i < n; i++) {
        free(a[i].values);
        free(a[i].ints);
    }
    free(a);
}

void gold_free(gold_file *f)
{
    for (int i = 0; i < f->n; i++) {
        arrays_free(f->cases[i].x, f->cases[i].n_x);
        arrays_free(f->cases[i].y, f->cases[i].n_y);
        arrays_free(f->cases[i].g, f->cases[i].n_x);
    }
    free(f->cases);
    json_decref(f->header);
    free(f->memory);
    *f = (gold_file){0};
}
