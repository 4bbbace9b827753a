/* Attributes of nodes, driven by the field table that ops makes from attrs.def.
 *
 * A struct's padding and the unused tail of a hod_shape are not part of its value. Everything that
 * enters a graph is copied field by field into zeroed memory once; from then on comparing and
 * hashing are memcmp and a hash of bytes.
 */
#include "graph/node_attrs.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>

static const size_t field_bytes[] = {
    [HOD_ATTR_INT] = sizeof(int64_t),      [HOD_ATTR_REAL] = sizeof(double),
    [HOD_ATTR_FLAG] = sizeof(bool),        [HOD_ATTR_TYPE] = sizeof(hod_dtype),
    [HOD_ATTR_DIMS] = sizeof(uint32_t),    [HOD_ATTR_SIZES] = sizeof(hod_shape),
    [HOD_ATTR_PAIR] = 2 * sizeof(int64_t), [HOD_ATTR_QUAD] = 4 * sizeof(int64_t),
};

static void copy_sizes(hod_shape *dst, const hod_shape *src)
{
    dst->n = src->n;
    for (int i = 0; i < HOD_MIN(src->n, HOD_MAX_DIMS); i++)
        dst->d[i] = src->d[i];
}

void hod__attrs_copy(hod_attrs_kind kind, hod_attrs *dst, const hod_attrs *src)
{
    hod_attrs copy;
    memset(&copy, 0, sizeof copy);
    const hod_attrs_info *info = &hod__attrs_info[kind];
    for (int i = 0; src && i < info->n; i++) {
        const hod_attr_field *f = &info->fields[i];
        char *to = (char *)&copy + f->offset;
        const char *from = (const char *)src + f->offset;
        if (f->type == HOD_ATTR_SIZES)
            copy_sizes((hod_shape *)(void *)to, (const hod_shape *)(const void *)from);
        else
            memcpy(to, from, field_bytes[f->type]);
        double real = 0;
        if (f->type == HOD_ATTR_REAL && memcpy(&real, to, sizeof real) && isnan(real))
            memcpy(to, &(double){(double)NAN}, sizeof real); /* equal attributes, equal bytes */
    }
    memcpy(dst, &copy, sizeof copy);
}

bool hod__attrs_equal(hod_attrs_kind kind, const hod_attrs *a, const hod_attrs *b)
{
    return memcmp(a, b, hod__attrs_info[kind].bytes) == 0;
}

const hod_attr_field *hod__attrs_field(hod_attrs_kind kind, const char *name, size_t n)
{
    const hod_attrs_info *info = &hod__attrs_info[kind];
    for (int i = 0; i < info->n; i++)
        if (strlen(info->fields[i].name) == n && memcmp(info->fields[i].name, name, n) == 0)
            return &info->fields[i];
    return NULL;
}

void hod__print_sizes(int n, const int64_t *sizes, hod_text *out)
{
    hod__text(out, "(");
    for (int i = 0; i < HOD_MIN(n, HOD_MAX_DIMS); i++)
        hod__text(out, i ? ",%lld" : "%lld", (long long)sizes[i]);
    hod__text(out, ")");
}

/* The decimal point is a point whatever locale the program has chosen. */
static locale_t enter_c(locale_t *before)
{
    locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    *before = c ? uselocale(c) : (locale_t)0;
    return c;
}

static void leave_c(locale_t c, locale_t before)
{
    if (!c)
        return;
    uselocale(before);
    freelocale(c);
}

char *hod__real_text(double x, char buf[32])
{
    locale_t before, c = enter_c(&before);
    snprintf(buf, 32, "nan");
    for (int digits = 6; !isnan(x) && digits <= 17; digits++) {
        snprintf(buf, 32, "%.*g", digits, x);
        if (strtod(buf, NULL) == x)
            break;
    }
    leave_c(c, before);
    return buf;
}

const char *hod__real_parse(const char *text, double *out)
{
    char *end;
    locale_t before, c = enter_c(&before);
    double x = strtod(text, &end);
    leave_c(c, before);
    *out = isnan(x) ? (double)NAN : x;
    return end == text ? NULL : end;
}

static void print_dims(uint32_t dims, hod_text *out)
{
    const char *comma = "";
    hod__text(out, "(");
    for (int i = 0; i < 32; i++)
        if (dims >> i & 1) {
            hod__text(out, "%s%d", comma, i);
            comma = ",";
        }
    hod__text(out, ")");
}

static void print_field(const hod_attr_field *f, const void *at, hod_text *out)
{
    union {
        int64_t i[4];
        double real;
        bool flag;
        hod_dtype type;
        uint32_t dims;
        hod_shape sizes;
    } v = {{0}};
    memcpy(&v, at, field_bytes[f->type]);
    hod__text(out, "%s=", f->name);
    switch (f->type) {
    case HOD_ATTR_INT: hod__text(out, "%lld", (long long)v.i[0]); break;
    case HOD_ATTR_REAL: hod__text(out, "%s", hod__real_text(v.real, (char[32]){0})); break;
    case HOD_ATTR_FLAG: hod__text(out, v.flag ? "true" : "false"); break;
    case HOD_ATTR_TYPE: hod__text(out, "%s", hod_dtype_name(v.type)); break;
    case HOD_ATTR_DIMS: print_dims(v.dims, out); break;
    case HOD_ATTR_SIZES: hod__print_sizes(v.sizes.n, v.sizes.d, out); break;
    case HOD_ATTR_PAIR: hod__print_sizes(2, v.i, out); break;
    case HOD_ATTR_QUAD: hod__print_sizes(4, v.i, out); break;
    }
}

void hod__attrs_print(hod_attrs_kind kind, const hod_attrs *attrs, hod_text *out)
{
    static const char zero[sizeof(hod_attrs)];
    const hod_attrs_info *info = &hod__attrs_info[kind];
    const char *before = " {";
    for (int i = 0; i < info->n; i++) {
        const hod_attr_field *f = &info->fields[i];
        const char *at = (const char *)attrs + f->offset;
        if (memcmp(at, zero, field_bytes[f->type]) == 0)
            continue;
        hod__text(out, "%s", before);
        print_field(f, at, out);
        before = ", ";
    }
    if (*before == ',')
        hod__text(out, "}");
}
