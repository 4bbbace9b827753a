/* Pooling of lines and to given sizes: NaN, and what is refused. Values are golden cases. */
#include "harness.h"
#include <hod/autograd.h>
#include <hod/functional.h>
#include <math.h>

TEST(images_b29_a_nan_stays_in_its_window)
{
    static const double in[5] = {1, NAN, 5, 6, 7};
    static const double most[3] = {NAN, NAN, 7}, mean[3] = {NAN, NAN, 6.5};
    for (int average = 0; average < 2; average++) {
        hod_tensor *x = hod_from_doubles(in, HOD_SHAPE(1, 1, 5));
        hod_tensor *y = average ? hod_adaptive_avg_pool1d(x, 3) : hod_adaptive_max_pool1d(x, 3);
        double v[3];
        CHECK(hod_read_doubles(y, v, 3) == 0);
        for (int i = 0; i < 3; i++) {
            double want = average ? mean[i] : most[i];
            CHECK(isnan(want) ? isnan(v[i]) : v[i] == want);
        }
    }
}

TEST(images_b29_a_window_that_overhangs)
{
    static const double in[5] = {1, 2, 3, 4, NAN};
    hod_tensor *x = hod_from_doubles(in, HOD_SHAPE(1, 1, 5));
    CHECK(hod_requires_grad(x, true));
    hod_tensor *y = hod_max_pool1d(x, 2, .ceil_mode = true);
    double v[3], g[5];
    CHECK(hod_read_doubles(y, v, 3) == 0 && v[1] == 4 && isnan(v[2]));
    CHECK(hod_backward(hod_sum(y)) == 0 && hod_read_doubles(hod_grad(x), g, 5) == 0);
    for (int i = 0; i < 5; i++)
        NEAR(g[i], i % 2 || i == 4, 0);
}

TEST(images_refusals)
{
    hod_tensor *image = hod_zeros(HOD_F32, HOD_SHAPE(1, 1, 4, 4)), *line = hod_select(image, 2, 0);
    ERROR_IS("max_pool1d: of (1,1,4,4), which has no three dimensions", hod_max_pool1d(image, 2));
    ERROR_IS("avg_pool2d: of (1,1,4), which has no four dimensions", hod_avg_pool2d(line, 2));
    ERROR_IS("adaptive_avg_pool2d: of (1,1,4), which has no four dimensions",
             hod_adaptive_avg_pool2d(line, 2, 2));
    ERROR_IS("adaptive_max_pool2d: 4 elements to 0", hod_adaptive_max_pool2d(image, 2, 0));
    ERROR_IS("adaptive_avg_pool1d: not defined for i64",
             hod_adaptive_avg_pool1d(hod_cast(line, HOD_I64), 3));
    EQ_INT(hod_tensor_dtype(hod_adaptive_max_pool1d(hod_cast(line, HOD_I64), 3)), HOD_I64);
}
