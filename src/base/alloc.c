/* Host memory for our own structures: malloc that reports in words, multiplies safely, and can be
 * made to fail on purpose.
 *
 * hod__alloc_fail_after counts down the calls of this thread that still succeed; the one after
 * fails and the counter is spent. A test that raises it from 0 until nothing fails has walked
 * through every out-of-memory path of what it calls.
 */
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

_Thread_local int64_t hod__alloc_fail_after = -1;

bool hod__alloc_fails(void)
{
    return hod__alloc_fail_after >= 0 && hod__alloc_fail_after-- == 0;
}

bool hod__mul_size(int64_t a, int64_t b, int64_t *out)
{
    return a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, out);
}

static void *report(void *p, size_t bytes)
{
    return p ? p : HOD_FAIL(MEMORY, "memory: %zu bytes wanted from the system", bytes);
}

void *hod__alloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return HOD_FAIL(MEMORY, "memory: %zu x %zu bytes wanted", count, size);
    return report(hod__alloc_fails() ? NULL : calloc(1, bytes ? bytes : 1), bytes);
}

void *hod__grow(void *p, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return HOD_FAIL(MEMORY, "memory: %zu x %zu bytes wanted", count, size);
    return report(hod__alloc_fails() ? NULL : realloc(p, bytes ? bytes : 1), bytes);
}

char *hod__strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = hod__alloc(n, 1);
    return copy ? memcpy(copy, s, n) : NULL;
}

char *hod__format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *out = n < 0 ? NULL : hod__alloc((size_t)n + 1, 1);
    if (!out)
        return NULL;
    va_start(args, format);
    vsnprintf(out, (size_t)n + 1, format, args);
    va_end(args);
    return out;
}

void *hod__push(void *items, int64_t *n, int64_t *cap, size_t size)
{
    char *base;
    memcpy(&base, items, sizeof base); /* `items` is a T **, whatever T is */
    if (*n == *cap) {
        int64_t more = *cap ? 2 * *cap : 8;
        char *grown = hod__grow(base, (size_t)more, size);
        if (!grown)
            return NULL;
        base = grown;
        *cap = more;
        memcpy(items, &base, sizeof base);
    }
    return memset(base + (size_t)(*n)++ * size, 0, size);
}

double hod__seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
