/* The unit tests' harness: a test is a block that registers itself.
 *
 *     #include "harness.h"
 *
 *     TEST(tensor_view_shares_storage)
 *     {
 *         hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(2, 3));
 *         EQ_INT(hod_tensor_shape(x).n, 2);
 *         NEAR(hod_item(hod_sum(x)), 0.0, 0.0);
 *         ERROR_IS("reshape: (2,3) has 6 elements, (4) has 4",
 *                  hod_reshape(x, HOD_SHAPE(4)));
 *     }
 *
 * Names begin with the file's subject: test_tensor.c holds tensor_*. Each test runs in a process
 * of its own, so a crash, a leak of state or a hang is that test's alone. The first assertion that
 * does not hold prints what it saw and ends the process; a test that leaves an error untaken has
 * failed too. HOD_TEST_TIMEOUT sets the seconds a test may take; 300 are for hangs, not for busy
 * machines.
 *
 *     build/hod-tests                  all of them
 *     build/hod-tests tensor_ cast_    those whose name begins so
 *     build/hod-tests --list           names only
 *     build/hod-tests --no-fork NAME   in this process, for gdb
 */
#ifndef HOD_TESTS_HARNESS_H
#define HOD_TESTS_HARNESS_H

#include <hod/error.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct harness_test {
    const char *name, *file;
    int line;
    void (*run)(void);
    struct harness_test *next;
} harness_test;

void harness_register(harness_test *test);

/* The slow halves of the macros. Those that fail do not return. */
__attribute__((noreturn, format(printf, 3, 4))) void harness_fail(const char *file, int line,
                                                                  const char *format, ...);
__attribute__((noreturn)) void harness_skip(const char *why);
void harness_eq_int(const char *file, int line, const char *what, int64_t a, int64_t b);
void harness_eq_str(const char *file, int line, const char *what, const char *a, const char *b);
void harness_near(const char *file, int line, const char *what, double a, double b, double tol);
void harness_error_is(const char *file, int line, const char *what, const char *want, bool failed);

bool harness_failed_int(int64_t result);
bool harness_failed_bool(bool result);
bool harness_failed_pointer(const void *result);

#define TEST(name_)                                                                                \
    static void test_##name_(void);                                                                \
    __attribute__((constructor)) static void test_register_##name_(void)                           \
    {                                                                                              \
        static harness_test test = {#name_, __FILE__, __LINE__, test_##name_, 0};                  \
        harness_register(&test);                                                                   \
    }                                                                                              \
    static void test_##name_(void)

/* Says why a test cannot run here and ends it; it counts as neither passed nor failed. */
#define SKIP(why) harness_skip(why)

#define FAIL(...) harness_fail(__FILE__, __LINE__, __VA_ARGS__)

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond))                                                                               \
            harness_fail(__FILE__, __LINE__, "CHECK(%s) does not hold", #cond);                    \
    } while (0)

#define EQ_INT(a, b) harness_eq_int(__FILE__, __LINE__, #a " == " #b, (a), (b))

#define EQ_STR(a, b) harness_eq_str(__FILE__, __LINE__, #a " == " #b, (a), (b))

/* |a - b| <= tol; NaN is near NaN only, an infinity near itself. */
#define NEAR(a, b, tol) harness_near(__FILE__, __LINE__, #a " ~ " #b, (a), (b), (tol))

/* The call fails (NULL, a negative number or false, by its type) with this error, word for word,
 * which is taken. The message comes first, the call is the rest. */
#define ERROR_IS(message, ...)                                                                     \
    harness_error_is(__FILE__, __LINE__, #__VA_ARGS__, (message),                                  \
                     _Generic((__VA_ARGS__), bool                                                  \
                              : harness_failed_bool, int                                           \
                              : harness_failed_int, long                                           \
                              : harness_failed_int, long long                                      \
                              : harness_failed_int, default                                        \
                              : harness_failed_pointer)(__VA_ARGS__))

#endif
