/* Errors: a NULL or a -1 says that something failed, this header says what.
 *
 * A function that returns a pointer returns NULL on failure and passes NULL through: NULL in,
 * NULL out, nothing done. A function with an effect returns 0 or -1. Either way the first failure
 * of a thread sticks until it is taken, so a whole expression needs one look at its end:
 *
 *     hod_tensor *y = hod_relu(hod_matmul(x, hod_transpose(w, 0, 1)));
 *     if (!y)
 *         fprintf(stderr, "%s\n", hod_error());
 *         // matmul: (32,784) x (512,10): inner sizes 784 and 512 differ
 *
 * Messages are one line of facts. The buffer is fixed, so they work when memory is gone.
 *
 * Most functions are behind macros that note the caller's line or fill in options. The preprocessor
 * splits what stands in braces at its commas, so a list written in place wants parentheses:
 *
 *     hod_grad_of(y, 2, ((hod_tensor *[]){a, b}), g, HOD_ONES);
 */
#ifndef HOD_ERROR_H
#define HOD_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define HOD_API extern "C" __attribute__((visibility("default")))
#else
#define HOD_API __attribute__((visibility("default")))
#endif
#define HOD_CHECKED __attribute__((warn_unused_result))

typedef enum hod_error_kind {
    HOD_ERROR_NONE,
    HOD_ERROR_ARGUMENT, /* a value, shape or dtype that the call cannot accept */
    HOD_ERROR_MEMORY,   /* an allocation or the memory limit */
    HOD_ERROR_IO,       /* the operating system refused a file */
    HOD_ERROR_FORMAT,   /* a file's content is not what it claims */
    HOD_ERROR_CONFIG,   /* a config or command line */
    HOD_ERROR_STATE,    /* the call is right but not now: backward twice, changed in place, ... */
    HOD_ERROR_COMPILE,  /* the system compiler, the cache, a forbidden graph break */
    HOD_ERROR_VALUE,    /* data out of range: a label, a non-finite window */
} hod_error_kind;

enum { HOD_ERROR_TEXT = 512 };

typedef struct hod_error_record {
    hod_error_kind kind;
    char text[HOD_ERROR_TEXT]; /* one line, no newline */
    const char *file;          /* the caller's place, where known */
    int line;
} hod_error_record;

/* The pending error's text, or NULL when there is none. Stays valid until the next take. */
HOD_API const char *hod_error(void);

/* The pending error's kind; HOD_ERROR_NONE when there is none. */
HOD_API hod_error_kind hod_error_kind_pending(void);

/* Moves the pending error into *out (which may be NULL) and clears it. False if there was none. */
HOD_API bool hod_error_take(hod_error_record *out);

/* For code outside the library: records a failure in the caller's words, unless one is pending.
 * Always NULL, so that a constructor can `return hod_refuse("blocks: %d, wanted 1 to 4", n);`. */
HOD_API void *hod_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Releases this thread's outermost scope, prints the pending error to standard error if there is
 * one. Returns a status for main: 0, or 1 after an error. */
HOD_API int hod_finish(void);

/* ---- places: which line of the user's program a message is about ----
 *
 * Every function that can fail is also a macro of its own name, at the end of its header: the
 * call's place is pushed before its arguments are evaluated and popped after it has returned. So in
 * hod_add(inner(x), z) the places of the calls inside `inner` are gone again when hod_add fails. */

/* From here to the matching end, this is the place. */
HOD_API void hod_place_begin(const char *file, int line);
/* The place, and the name of the operator that is called there. */
HOD_API void hod_operator_begin(const char *file, int line, const char *name);
HOD_API void hod_place_end(void);
/* Replaces the innermost place. */
HOD_API void hod_here(const char *file, int line);

/* HOD_PLACED(int, hod_f(...)): the call with this line as its place; its result is passed on by
 * hod_placed_int. */
#define HOD_PLACED(kind, ...) (hod_place_begin(__FILE__, __LINE__), hod_placed_##kind(__VA_ARGS__))
/* The same for operator hod_<name>, which messages of what it is made of then begin with. */
#define HOD_OPERATOR(kind, name, ...)                                                              \
    (hod_operator_begin(__FILE__, __LINE__, #name), hod_placed_##kind(hod_##name(__VA_ARGS__)))
#define HOD_PLACED_VOID(...) (hod_place_begin(__FILE__, __LINE__), __VA_ARGS__, hod_place_end())
/* Defines hod_placed_<kind>; a function and no statement expression, because that would end the
 * life of compound literals in the arguments. */
#define HOD_PLACED_RESULT(kind, type)                                                              \
    static inline type hod_placed_##kind(type result)                                              \
    {                                                                                              \
        hod_place_end();                                                                           \
        return result;                                                                             \
    }
HOD_PLACED_RESULT(int, int)
HOD_PLACED_RESULT(int64, int64_t)
HOD_PLACED_RESULT(double, double)

#endif
