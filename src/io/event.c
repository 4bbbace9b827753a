/* Events: one JSON object a line, flushed, so that a reader at the other end of a pipe sees each as
 * it happens. JSON has no NaN and no infinity; they become null.
 */
#include "base/base.h"

#include <errno.h>
#include <hod/io.h>
#include <jansson.h>
#include <math.h>

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *numbers(const double *x, int64_t n)
{
    json_t *a = json_array();
    for (int64_t i = 0; i < n; i++)
        json_array_append_new(a, number(x[i]));
    return a;
}

/* A file's name may be any bytes, JSON is UTF-8: foreign bytes become question marks. */
static json_t *text(const char *s)
{
    json_t *t = s ? json_string(s) : json_null();
    if (t)
        return t;
    char *plain = hod__strdup(s);
    for (char *p = plain; p && *p; p++)
        if ((unsigned char)*p >= 0x80)
            *p = '?';
    t = plain ? json_string(plain) : NULL;
    free(plain);
    return t;
}

static json_t *value(const hod_field *f)
{
    switch (f->kind) {
    case HOD_FIELD_INT: return json_integer(f->i);
    case HOD_FIELD_NUMBER: return number(f->number);
    case HOD_FIELD_TEXT: return text(f->text);
    case HOD_FIELD_BOOL: return json_boolean(f->i);
    case HOD_FIELD_NUMBERS: return numbers(f->numbers, f->i);
    }
    return NULL;
}

int hod_event_write(FILE *out, const char *name, const hod_field *fields)
{
    if (!out || !name)
        return HOD_FAIL_RC(ARGUMENT, "event: no %s", name ? "file" : "name");
    json_t *line = json_object();
    int bad = !line || json_object_set_new(line, "event", text(name));
    for (const hod_field *f = fields; !bad && f && f->key; f++)
        bad = json_object_set_new(line, f->key, value(f));
    char *dump = bad ? NULL : json_dumps(line, JSON_COMPACT);
    json_decref(line);
    if (!dump)
        return HOD_FAIL_RC(MEMORY, "event %s: no memory, or a key that is not UTF-8", name);
    bad = fprintf(out, "%s\n", dump) < 0 || fflush(out) != 0;
    free(dump);
    return bad ? HOD_FAIL_RC(IO, "event %s: %s", name, strerror(errno)) : 0;
}
