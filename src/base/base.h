/* The ground everything stands on: failing with words, growable arrays, hashing, threads' places.
 *
 * A failing function reads `return HOD_FAIL(ARGUMENT, "reshape: (2,3) has 6 elements, (4) has 4");`
 * where it returns a pointer, HOD_FAIL_RC where it returns an int. The first failure sticks
 * (error.h), so code that notices a NULL or -1 from below returns at once and adds nothing.
 */
#ifndef HOD_BASE_BASE_H
#define HOD_BASE_BASE_H

#include <hod/error.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Records a failure unless one is pending; always returns NULL. */
void *hod__fail(hod_error_kind kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Puts "context: " before the pending text once; no-op without a pending error. */
void hod__fail_context(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The place of the innermost running call of the user's; file NULL when there is none. */
void hod__place(const char **file, int *line);

/* Whether p is NULL: an error in itself, unless a pending one explains it. */
static inline bool hod__null(const char *who, const char *what, const void *p)
{
    return !p && (hod__fail(HOD_ERROR_ARGUMENT, "%s: %s is NULL", who, what), true);
}

#define HOD_FAIL(kind, ...) hod__fail(HOD_ERROR_##kind, __VA_ARGS__)
#define HOD_FAIL_RC(kind, ...) (hod__fail(HOD_ERROR_##kind, __VA_ARGS__), -1)

/* malloc family that record HOD_ERROR_MEMORY; sizes are checked products. In test builds the n-th
 * call can be made to fail (hod__alloc_fail_after, -1: never). */
void *hod__alloc(size_t count, size_t size);                /* zeroed */
void *hod__grow(void *p, size_t count, size_t size);        /* realloc; p stays valid on failure */
char *hod__strdup(const char *s);
/* An environment variable that is set to something unknown: told the first time, by `told`. */
void hod__env_ignored(const char *name, const char *known, atomic_flag *told);
bool hod__env_flag(const char *name, atomic_flag *told); /* is 1; anything but 0 and 1 is ignored */
char *hod__format(const char *format, ...) __attribute__((format(printf, 1, 2))); /* malloc'd */
extern _Thread_local int64_t hod__alloc_fail_after;
bool hod__alloc_fails(void); /* counts one call; true when this one is to fail */

/* Makes room for one more element: hod__push(&v.items, &v.n, &v.cap, sizeof *v.items) returns its
 * address, zeroed, or NULL. `items` is the address of the array pointer. */
void *hod__push(void *items, int64_t *n, int64_t *cap, size_t size);

/* A text that grows: starts as {0}. On failure it stays failed and appends nothing more. */
typedef struct hod_text {
    char *data; /* NUL-terminated once non-NULL */
    int64_t n, cap;
    bool failed;
} hod_text;
void hod__text(hod_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void hod__text_bytes(hod_text *t, const char *bytes, int64_t n);
char *hod__text_take(hod_text *t); /* malloc'd string, NULL if failed; t becomes {0} */
void hod__text_free(hod_text *t);

uint64_t hod__hash(const void *data, size_t n, uint64_t seed); /* XXH3 */

/* Checked size arithmetic: false on overflow or negative operands. */
bool hod__mul_size(int64_t a, int64_t b, int64_t *out);

double hod__seconds(void); /* monotonic clock */

#define HOD_MIN(a, b) ((a) < (b) ? (a) : (b))
#define HOD_MAX(a, b) ((a) > (b) ? (a) : (b))
#define HOD_COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

#endif
