/* Tests that must fail, each in another way; selftest.sh expects every one of them to be caught.
 * A harness that calls everything good is worse than none.
 */
#include "harness.h"

#include <math.h>
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

TEST(skip_me)
{
    SKIP("to see that it is neither");
}
