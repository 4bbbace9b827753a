/* Attributes of nodes as text, driven by the field table that ops makes from attrs.def. */
#include "graph/node_attrs.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>

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
    memcpy(&v, at, f->bytes);
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
        if (memcmp(at, zero, f->bytes) == 0)
            continue;
        hod__text(out, "%s", before);
        print_field(f, at, out);
        before = ", ";
    }
    if (*before == ',')
        hod__text(out, "}");
}
