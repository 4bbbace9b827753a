/* Errors: one record a thread, in a fixed buffer, the first failure wins.
 *
 * A failing expression is a chain: the innermost call knows the reason, every caller above it sees
 * NULL or -1 and returns. If each of them wrote a message, the last and vaguest would survive, so
 * only an empty record accepts one. The buffer is thread-local and fixed: reporting that memory is
 * gone takes no memory.
 */
#include "base/base.h"
#include "base/scope.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local hod_error_record record;

/* Places of the calls that are running, outermost first; places[0] is that outside every call. Of
 * calls nested deeper than the array only the depth is kept, and the last entry stands for them. */
enum { PLACES = 64 };
typedef struct place {
    const char *file;
    int line;
    const char *operator; /* that is called there; NULL: something else */
} place;
static _Thread_local place places[PLACES];
static _Thread_local int place_depth;

static place *innermost(void)
{
    return &places[place_depth < PLACES ? place_depth : PLACES - 1];
}

/* Keeps the promise "one line": control characters become spaces. */
static void flatten(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ')
            *text = ' ';
}

static void note(hod_error_kind kind, const char *format, va_list args)
{
    if (record.kind != HOD_ERROR_NONE)
        return;
    vsnprintf(record.text, sizeof record.text, format, args);
    flatten(record.text);
    record.kind = kind;
    record.file = innermost()->file;
    record.line = innermost()->line;
}

/* Is the text about this operator: does it begin with its name, or with what hod_<name>_<kind> is a
 * kind of? */
static bool is_about(const char *text, const char *operator)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz_0123456789");
    return n > 0 && strncmp(text, operator, n) == 0 && (!operator[n] || operator[n] == '_');
}

/* A composition fails in one of its rows, which whoever called it need not know. */
static void name_operator(void)
{
    const char *operator= innermost()->operator;
    if (!operator|| is_about(record.text, operator))
        return;
    int n = (int)strlen(operator), options = (int)strlen("_with");
    bool with = n > options && strcmp(operator+ n - options, "_with") == 0;
    hod__fail_context("%.*s", with ? n - options : n, operator);
}

void *hod__fail(hod_error_kind kind, const char *format, ...)
{
    bool first = record.kind == HOD_ERROR_NONE;
    va_list args;
    va_start(args, format);
    note(kind, format, args);
    va_end(args);
    if (first)
        name_operator();
    return NULL;
}

void *hod_refuse(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    note(HOD_ERROR_ARGUMENT, format, args);
    va_end(args);
    return NULL;
}

void hod__fail_context(const char *format, ...)
{
    if (record.kind == HOD_ERROR_NONE)
        return;
    char text[HOD_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0 || n + 2 >= HOD_ERROR_TEXT)
        return;
    text[n++] = ':';
    text[n++] = ' ';
    text[n] = 0;
    if (strncmp(record.text, text, (size_t)n) == 0)
        return;
    /* The tail gives way: the context and the beginning of the reason say more than its end. */
    size_t room = sizeof text - 1 - (size_t)n, keep = strnlen(record.text, room);
    memcpy(text + n, record.text, keep);
    text[n + (int)keep] = 0;
    memcpy(record.text, text, sizeof text);
    flatten(record.text);
}

void hod__place(const char **file, int *line)
{
    *file = innermost()->file;
    *line = innermost()->line;
}

const char *hod_error(void)
{
    return record.kind == HOD_ERROR_NONE ? NULL : record.text;
}

hod_error_kind hod_error_kind_pending(void)
{
    return record.kind;
}

bool hod_error_take(hod_error_record *out)
{
    if (record.kind == HOD_ERROR_NONE)
        return false;
    if (out)
        *out = record;
    record.kind = HOD_ERROR_NONE;
    return true;
}

void hod_here(const char *file, int line)
{
    *innermost() = (place){.file = file, .line = line};
}

void hod_place_begin(const char *file, int line)
{
    hod_operator_begin(file, line, NULL);
}

void hod_operator_begin(const char *file, int line, const char *name)
{
    place_depth++;
    if (place_depth < PLACES)
        places[place_depth] = (place){file, line, name};
}

void hod_place_end(void)
{
    if (place_depth > 0)
        place_depth--;
}

int hod_finish(void)
{
    hod__thread_end();
    hod_error_record last;
    if (!hod_error_take(&last))
        return 0;
    if (last.file)
        fprintf(stderr, "%s:%d: %s\n", last.file, last.line, last.text);
    else
        fprintf(stderr, "hod: %s\n", last.text);
    return 1;
}
