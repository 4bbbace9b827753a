/* Texts that grow, and the hash of bytes.
 *
 * Printers append hundreds of pieces; none of them checks. A text that could not grow stays failed
 * and swallows the rest, so one look at the end, in hod__text_take, is enough.
 */
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Room for n more bytes and the NUL. */
static bool reserve(hod_text *t, int64_t n)
{
    if (t->failed)
        return false;
    if (t->n + n + 1 <= t->cap)
        return true;
    int64_t cap = HOD_MAX(2 * t->cap, t->n + n + 1);
    cap = HOD_MAX(cap, 64);
    char *grown = hod__grow(t->data, (size_t)cap, 1);
    if (!grown) {
        t->failed = true;
        return false;
    }
    t->data = grown;
    t->cap = cap;
    return true;
}

void hod__text(hod_text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || !reserve(t, n))
        return;
    va_start(args, format);
    vsnprintf(t->data + t->n, (size_t)n + 1, format, args);
    va_end(args);
    t->n += n;
}

void hod__text_bytes(hod_text *t, const char *bytes, int64_t n)
{
    if (!reserve(t, n))
        return;
    if (n > 0)
        memcpy(t->data + t->n, bytes, (size_t)n);
    t->n += n;
    t->data[t->n] = 0;
}

char *hod__text_take(hod_text *t)
{
    if (!t->failed && !t->data)
        hod__text_bytes(t, "", 0); /* an empty text is "", not a failure */
    char *taken = t->failed ? NULL : t->data;
    if (t->failed)
        free(t->data);
    *t = (hod_text){0};
    return taken;
}

void hod__text_free(hod_text *t)
{
    free(t->data);
    *t = (hod_text){0};
}

uint64_t hod__hash(const void *data, size_t n, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, n, seed);
}
