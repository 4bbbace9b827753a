/* Tests that must fail, each in another way; selftest.sh expects every one of them to be caught.
 * A harness that calls everything good is worse than none, and so is a sanitizer that does not run.
 */
#include "codegen/toolchain.h"
#include "harness.h"
#include <hod/ops.h>
#include <hod/scope.h>
#include <hod/tensor.h>

#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

static void *nothing(void)
{
    return NULL;
}

static int zero(void)
{
    return 0;
}

TEST(good_all)
{
    CHECK(zero() == 0);
    EQ_INT(2 + 2, 4);
    EQ_STR("a", "a");
    EQ_STR(NULL, NULL);
    NEAR(1.0, 1.0 + 1e-9, 1e-8);
    NEAR(NAN, NAN, 0);
    NEAR(INFINITY, INFINITY, 0);
}

TEST(bad_check)
{
    CHECK(zero() == 1);
}

TEST(bad_int)
{
    EQ_INT(zero(), 1);
}

TEST(bad_string)
{
    EQ_STR("left", "right");
}

TEST(bad_null_string)
{
    EQ_STR("left", NULL);
}

TEST(bad_near)
{
    NEAR(1.0, 1.1, 0.01);
}

TEST(bad_near_nan)
{
    NEAR(1.0, NAN, 1e9);
}

TEST(bad_error_success)
{
    ERROR_IS("anything", zero());
}

TEST(bad_error_silent)
{
    ERROR_IS("anything", nothing());
}

TEST(bad_crash)
{
    abort();
}

TEST(bad_status)
{
    exit(3);
}

TEST(bad_hang)
{
    for (;;)
        pause();
}

/* ---- what only a sanitizer sees; selftest.sh looks for its words ---- */

#if defined SELFTEST_ADDRESS || defined SELFTEST_THREAD
/* Generated kernels are checked as well: y[begin..end) += 1. */
static hod_kernel *counting(void)
{
    static const hod_kernel_source source = {
        "counting", "void counting(void *const *buf, const i64 *arg, i64 begin, i64 end)\n{\n"
                    "    i64 *y = buf[0];\n"
                    "    for (i64 i = begin; i < end; i++)\n        y[i] += 1;\n}\n"};
    hod_kernel *k = NULL;
    CHECK(hod__toolchain_build(&source, 1, &k, NULL) == 0);
    return k;
}
#endif

#ifdef SELFTEST_ADDRESS
TEST(bad_kernel_overrun)
{
    HOD_SCOPE(s);
    counting()((void *[]){hod_tensor_mutable_data(hod_zeros(HOD_I64, HOD_SHAPE(3)))}, NULL, 0, 4);
}

TEST(bad_leak)
{
    void *volatile lost = malloc(100);
    lost = NULL;
    CHECK(lost == NULL);
}

TEST(bad_overrun)
{
    volatile size_t n = 100; /* known to the compiler, it would be -fsanitize=undefined's find */
    volatile char *bytes = malloc(n);
    CHECK(bytes != NULL);
    bytes[n] = 1;
    free((void *)bytes);
}

/* Tensors lie in pages of hod's own, where the sanitizer knows only what hod tells it. */
TEST(bad_tensor_overrun)
{
    HOD_SCOPE(s);
    volatile float *x = hod_tensor_mutable_data(hod_zeros(HOD_F32, HOD_SHAPE(3)));
    x[zero() + 3] = 1;
}

TEST(bad_tensor_leak)
{
    hod_tensor *volatile lost = hod_zeros(HOD_F32, HOD_SHAPE(3));
    hod_tensor_retain(lost);
    lost = NULL;
    EQ_INT(hod_finish(), 0);
}
#endif

#ifdef SELFTEST_UNDEFINED
TEST(bad_overflow)
{
    volatile int big = INT32_MAX;
    big = big + 1 + zero();
}
#endif

#ifdef SELFTEST_THREAD
static int racing;

static void *race(void *unused)
{
    for (int i = 0; i < 1000; i++)
        racing++;
    return unused;
}

TEST(bad_race)
{
    pthread_t other;
    CHECK(pthread_create(&other, NULL, race, NULL) == 0);
    race(NULL);
    CHECK(pthread_join(other, NULL) == 0);
}

/* In OpenMP, too: Archer must not take the region for ordered. */
TEST(bad_parallel_race)
{
#pragma omp parallel num_threads(2)
    race(NULL);
}

TEST(bad_kernel_race)
{
    HOD_SCOPE(s);
    void *buf[] = {hod_tensor_mutable_data(hod_zeros(HOD_I64, HOD_SHAPE(100)))};
    hod_kernel *k = counting();
#pragma omp parallel num_threads(2)
    k(buf, NULL, 0, 100);
}
#endif

TEST(skip_me)
{
    SKIP("to see that it is neither");
}
