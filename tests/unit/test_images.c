/* Pooling, interpolation and sampling: NaN, and what is refused. Values are golden cases. */
#include "base/base.h"
#include "harness.h"
#include <hod/autograd.h>
#include <hod/functional.h>
#include <hod/threads.h>
#include <math.h>
#include <string.h>

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

/* PyTorch's numbers: one output where the window is too large by less than the stride. */
TEST(images_a_window_larger_than_the_image)
{
    static const struct {
        int64_t kernel, stride, padding;
        double most, mean;
    } of[] = {{3, 2, 0, 4, 2.5},
              {4, 3, 0, 4, 2.5},
              {4, 4, 0, 4, 2.5},
              {5, 4, 1, 4, 0.625},
              {7, 5, 1, 4, 0.625}};
    hod_tensor *x = hod_from_doubles((double[]){1, 2, 3, 4}, HOD_SHAPE(1, 1, 2, 2));
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        hod_pool2d_options o = {.kernel = of[i].kernel,
                                .stride = of[i].stride,
                                .padding = of[i].padding,
                                .ceil_mode = true};
        hod_tensor *most = hod_max_pool2d_with(x, o), *mean = hod_avg_pool2d_with(x, o);
        CHECK(most && mean && hod_tensor_numel(most) == 1 && hod_tensor_numel(mean) == 1);
        NEAR(hod_item(most), of[i].most, 0);
        NEAR(hod_item(mean), of[i].mean, 1e-15);
    }
    ERROR_IS("max_pool2d: (1,1,2,2): a window of 4 is larger than the height, 2 with its padding",
             hod_max_pool2d(x, 4, .stride = 2, .ceil_mode = true));
}

TEST(images_long_means_are_sums_in_pairs)
{
    hod_tensor *x = hod_full(HOD_F32, HOD_SHAPE(1, 1, 1000, 2000), 0.1);
    double v[2];
    CHECK(hod_read_doubles(hod_adaptive_avg_pool2d(x, 1, 2), v, 2) == 0);
    for (int i = 0; i < 2; i++)
        NEAR(v[i], 0.1f, 1e-7); /* one after another, 10^6 of them are off by 1 % */
}

TEST(images_refusals)
{
    hod_tensor *image = hod_zeros(HOD_F32, HOD_SHAPE(1, 1, 4, 4)), *line = hod_select(image, 2, 0);
    ERROR_IS("max_pool1d: of (1,1,4,4), wanted (N,C,L)", hod_max_pool1d(image, 2));
    ERROR_IS("avg_pool2d: of (1,1,4), wanted (N,C,H,W)", hod_avg_pool2d(line, 2));
    ERROR_IS("adaptive_avg_pool2d: of (1,1,4), wanted (N,C,H,W)",
             hod_adaptive_avg_pool2d(line, 2, 2));
    ERROR_IS("max_pool2d: padding 2 is more than half of a window of 3",
             hod_max_pool2d(image, 3, .padding = 2));
    ERROR_IS("avg_pool1d: avg_pool2d: padding 2 is more than half of a window of 2",
             hod_avg_pool1d(line, 2, .padding = 2));
    ERROR_IS("adaptive_max_pool2d: 4 elements to 0", hod_adaptive_max_pool2d(image, 2, 0));
    ERROR_IS("adaptive_avg_pool1d: not defined for i64",
             hod_adaptive_avg_pool1d(hod_cast(line, HOD_I64), 3));
    EQ_INT(hod_tensor_dtype(hod_adaptive_max_pool1d(hod_cast(line, HOD_I64), 3)), HOD_I64);
}

TEST(images_a_nan_reaches_its_neighbours_only)
{
    hod_tensor *x = hod_from_doubles((double[]){1, 2, 3, NAN}, HOD_SHAPE(1, 1, 4));
    double v[8];
    CHECK(hod_read_doubles(hod_interpolate(x, .size = {8}, .mode = HOD_LINEAR), v, 8) == 0);
    for (int i = 0; i < 8; i++)
        CHECK(isnan(v[i]) == (i >= 5));
}

TEST(images_absurd_places)
{
    static const double at[6] = {NAN, 0, INFINITY, 0, -1e30, 1e30};
    hod_tensor *x = hod_full(HOD_F64, HOD_SHAPE(1, 1, 3, 3), 2);
    hod_tensor *grid = hod_from_doubles(at, HOD_SHAPE(1, 1, 3, 2));
    double v[3];
    CHECK(hod_read_doubles(hod_grid_sample(x, grid, .mode = HOD_SAMPLE_NEAREST), v, 3) == 0);
    for (int i = 0; i < 3; i++)
        NEAR(v[i], 0, 0);
    hod_tensor *border = hod_grid_sample(x, grid, .padding = HOD_SAMPLE_BORDER);
    CHECK(hod_read_doubles(border, v, 3) == 0 && v[1] == 2 && v[2] == 2);
}

/* The kernel against its composition, which boxes that want a gradient take: boxes inside, across
 * the edges, outside, turned around, of no length, one with a NaN. */
enum { BOXES = 90 };

static void draw_boxes(double (*v)[5], int n)
{
    for (int k = 0; k < n; k++)
        for (int i = 0; i < 5; i++) {
            uint64_t h = hod__hash(&(int){5 * k + i}, sizeof(int), 3);
            v[k][i] = i == 0 ? (double)(h % 2) : (double)(h % 1000) / 1000 * 30 - 8;
        }
}

TEST(images_regions_are_their_composition)
{
    double v[BOXES][5];
    draw_boxes(v, BOXES);
    v[0][1] = NAN;
    memcpy(&v[1][3], &v[1][1], 2 * sizeof(double));
    hod_tensor *x = hod_sin(hod_cast(hod_arange(HOD_I64, 2 * 3 * 7 * 9), HOD_F64));
    x = hod_requires_grad(hod_copy(hod_reshape(x, HOD_SHAPE(2, 3, 7, 9))), true);
    hod_tensor *boxes = hod_from_doubles(&v[0][0], HOD_SHAPE(BOXES, 5));
    hod_tensor *leaf = hod_requires_grad(hod_copy(boxes), true);
    for (int k = 0; k < 6; k++) {
        hod_roi_align_options o = {{3, 2}, .scale = 0.5, .sampling = k % 3, .aligned = k / 3};
        hod_tensor *b[2] = {boxes, leaf}, *y[2], *g[2];
        for (int i = 0; i < 2; i++) { /* without a number, the NaN is an error */
            y[i] = hod_roi_align_with(x, o.sampling ? b[i] : hod_slice(b[i], 0, 1, BOXES), o);
            CHECK(hod_grad_of(hod_sum(hod_sin(y[i])), 1, &x, &g[i], HOD_ONES) == 0);
        }
        NEAR(hod_item(hod_amax(hod_abs(hod_sub(y[0], y[1])))), 0, 1e-14);
        NEAR(hod_item(hod_amax(hod_abs(hod_sub(g[0], g[1])))), 0, 1e-13);
    }
}

/* Enough boxes for every loop to be shared out: the same bits from any number of threads. */
TEST(images_regions_by_threads)
{
    enum { MANY = 2000 };
    static double v[MANY][5];
    draw_boxes(v, MANY);
    hod_tensor *x = hod_sin(hod_cast(hod_arange(HOD_I64, 2 * 8 * 7 * 9), HOD_F32));
    x = hod_requires_grad(hod_copy(hod_reshape(x, HOD_SHAPE(2, 8, 7, 9))), true);
    hod_tensor *boxes = hod_cast(hod_from_doubles(&v[0][0], HOD_SHAPE(MANY, 5)), HOD_F32);
    hod_tensor *y[3], *g[3];
    for (int threads = 1; threads <= 3; threads++) {
        CHECK(hod_set_threads(threads) == 0);
        y[threads - 1] = hod_roi_align(x, boxes, .size = {7, 7}, .scale = 0.5, .sampling = 2);
        CHECK(hod_grad_of(hod_sum(hod_square(y[threads - 1])), 1, &x, &g[threads - 1], HOD_ONES) ==
              0);
    }
    for (int k = 1; k < 3; k++)
        CHECK(hod_item(hod_amax(hod_abs(hod_sub(y[k], y[0])))) == 0 &&
              hod_item(hod_amax(hod_abs(hod_sub(g[k], g[0])))) == 0);
}

/* As every operator with two tensors. */
TEST(images_regions_have_the_promoted_type)
{
    static const hod_dtype floats[] = {HOD_F32, HOD_F64, HOD_F16, HOD_BF16};
    for (int i = 0; i < HOD_COUNT(floats); i++)
        for (int k = 0; k < HOD_COUNT(floats); k++) {
            HOD_SCOPE(s);
            hod_tensor *x = hod_zeros(floats[i], HOD_SHAPE(1, 1, 4, 4));
            hod_tensor *boxes = hod_zeros(floats[k], HOD_SHAPE(2, 5));
            hod_tensor *both = hod_matmul(hod_zeros(floats[i], HOD_SHAPE(2, 2)), boxes);
            EQ_INT(hod_tensor_dtype(hod_roi_align(x, boxes, .size = {2, 2})),
                   hod_tensor_dtype(both));
        }
}

TEST(images_sampling_refusals)
{
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(1, 1, 4, 4));
    hod_tensor *boxes = hod_zeros(HOD_F32, HOD_SHAPE(2, 4));
    ERROR_IS("interpolate: either size or scale is wanted", hod_interpolate(x, HOD_NEAREST));
    ERROR_IS("interpolate: 4 elements to -1", hod_interpolate(x, .size = {8, -1}));
    ERROR_IS("interpolate: 4 elements to 0", hod_interpolate(x, .scale = {0.2}));
    ERROR_IS("interpolate: of (2,4), which is not (N,C,L) or (N,C,H,W)",
             hod_interpolate(boxes, .scale = {2}));
    ERROR_IS("interpolate: align_corners goes with HOD_LINEAR, not nearest",
             hod_interpolate(x, .scale = {2}, .align_corners = true));
    ERROR_IS("interpolate: linear is not defined for i64",
             hod_interpolate(hod_cast(x, HOD_I64), .scale = {2}, .mode = HOD_LINEAR));
    ERROR_IS("grid_sample: (1,1,4,4) at (2,4), wanted (N,C,H,W) at (N,Ho,Wo,2)",
             hod_grid_sample(x, boxes));
    ERROR_IS("roi_align: (1,1,4,4) in boxes (2,4), wanted (N,C,H,W) in (K,5)",
             hod_roi_align(x, boxes, .size = {2, 2}));
    boxes = hod_zeros(HOD_F32, HOD_SHAPE(2, 5));
    int64_t many = (int64_t)1 << 40;
    hod_tensor *empty = hod_zeros(HOD_F32, HOD_SHAPE(1, 0, many, many));
    ERROR_IS("roi_align: more places than 64 bits count",
             hod_roi_align(empty, boxes, .size = {2, 2}));
    ERROR_IS("grid_sample: more places than 64 bits count",
             hod_grid_sample(empty, hod_zeros(HOD_F32, HOD_SHAPE(1, 1, 1, 2))));
    ERROR_IS(
        "roi_align: 4 elements to .size 0 with .sampling 0, wanted 1 or more (of samples 0, too)",
        hod_roi_align(x, boxes, .size = {2}));
    double odd[] = {0, NAN, 0, 0, 0, 1, 0, 0, 0, 0};
    hod_tensor *nan = hod_from_doubles(odd, HOD_SHAPE(1, 5));
    hod_tensor *second = hod_from_doubles(odd + 5, HOD_SHAPE(1, 5));
    ERROR_IS("roi_align: nan samples in a bin",
             hod_roi_align(x, nan, .size = {2, 2}, .aligned = true));
    ERROR_IS("roi_align: box 0 is of image 1, there are 1",
             hod_roi_align(x, second, .size = {2, 2}));
    ERROR_IS("roi_align: box 0 is of image 0.7, there are 1",
             hod_roi_align(x, hod_full(HOD_F32, HOD_SHAPE(1, 5), 0.7), .size = {2, 2}));
    ERROR_IS("roi_align: box 0 is of image nan, there are 1",
             hod_roi_align(x, hod_mul_scalar(boxes, NAN), .size = {2, 2}));
    static const double numbers[] = {NAN, 1e30, -1, 0x1p60, 0.7, 2};
    for (int k = 0; k < 2 * HOD_COUNT(numbers); k++) { /* with a gradient, too */
        HOD_SCOPE(s);
        hod_tensor *two = hod_zeros(HOD_F32, HOD_SHAPE(2, 1, 4, 4));
        hod_tensor *row = hod_full(HOD_F64, HOD_SHAPE(1, 5), numbers[k / 2]);
        char words[80];
        snprintf(words, sizeof words, "roi_align: box 0 is of image %g, there are 2",
                 numbers[k / 2]);
        ERROR_IS(words,
                 hod_roi_align(two, hod_requires_grad(row, k % 2), .size = {2, 2}, .sampling = 2));
    }
    ERROR_IS("roi_align: boxes (2,5) of no image",
             hod_roi_align(hod_zeros(HOD_F32, HOD_SHAPE(0, 1, 4, 4)), boxes, .size = {2, 2}));
}
