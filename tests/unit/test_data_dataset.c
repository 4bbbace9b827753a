/* Datasets and what is done to a sample; augmentation is compared with a slow twin that works on
 * a padded copy. */
#include "harness.h"

#include "data/data.h"
#include "tensor/tensor.h"
#include <math.h>

TEST(data_draws_are_unbiased_and_apart)
{
    hod_draws a = hod_draws_of(1, 2, 3), b = hod_draws_of(1, 2, 4);
    CHECK(hod_draw_bits(&a) != hod_draw_bits(&b));
    a = hod_draws_of(1, 2, 3);
    int count[5] = {0};
    for (int i = 0; i < 50000; i++) {
        int64_t k = hod_draw_below(&a, 5);
        CHECK(k >= 0 && k < 5);
        count[k]++;
    }
    for (int k = 0; k < 5; k++) /* 10000 expected, deviation 89; five of them */
        NEAR(count[k], 10000, 450);
    EQ_INT(hod_draw_below(&a, 1), 0);
    /* 2^64 numbers cannot be shared evenly by 3 * 2^61 values: without refusing some, two thirds
     * of the values, by their rest modulo 3, would come half as often again. */
    int rest[3] = {0};
    for (int i = 0; i < 30000; i++)
        rest[hod_draw_below(&a, (int64_t)3 << 61) % 3]++;
    for (int k = 0; k < 3; k++) /* 10000 expected, deviation 82; five of them */
        NEAR(rest[k], 10000, 410);
    double u = hod_draw_unit(&a);
    CHECK(u >= 0 && u < 1);
}

TEST(data_tensor_dataset_serves_rows)
{
    HOD_SCOPE(s);
    hod_tensor *x = hod_from_floats((float[]){1, 2, 3, 4, 5, 6}, HOD_SHAPE(3, 2));
    hod_tensor *y = hod_from_floats((float[]){10, 20, 30}, HOD_SHAPE(3, 1));
    hod_dataset *d = hod_tensor_dataset(x, y, 0);
    CHECK(d);
    EQ_INT(hod_dataset_count(d), 3);
    hod_loader *l = hod_loader_new(d);
    hod_batch b;
    EQ_INT(hod_loader_next(l, 10, &b), 1);
    EQ_INT(b.n, 3);
    float in[6], out[3];
    CHECK(!hod_read_floats(b.input, in, 6) && !hod_read_floats(b.target, out, 3));
    EQ_INT(hod_tensor_ndim(b.target), 2);
    NEAR(in[3], 4, 0);
    NEAR(out[2], 30, 0);
    EQ_INT(hod_loader_next(l, 10, &b), 0);
    hod_loader_free(l);
    hod_dataset_free(d);
    ERROR_IS("tensor dataset: inputs (3,2) and targets (2) differ in samples",
             hod_tensor_dataset(x, hod_from_ints((int64_t[]){0, 1}, HOD_SHAPE(2)), 2));
    ERROR_IS("tensor dataset: labels are f32 (3,1), i64 (N) expected", hod_tensor_dataset(x, y, 3));
}

TEST(data_slice_renumbers)
{
    hod_dataset *d = hod_synthetic_dataset(HOD_SHAPE(4), .count = 20);
    hod_dataset *part = hod_dataset_slice(d, 5, 3);
    CHECK(part);
    EQ_INT(hod_dataset_count(part), 3);
    uint8_t a[4], b[4];
    int64_t target;
    hod_draws draws = hod_draws_of(0, 0, 0);
    CHECK(!hod__dataset_item(d, 6, &draws, a, &target));
    CHECK(!hod__dataset_item(part, 1, &draws, b, &target));
    EQ_INT(target, 6);
    CHECK(memcmp(a, b, 4) == 0);
    ERROR_IS("dataset synthetic: 3 samples from 18 on, of 20", hod_dataset_slice(d, 18, 3));
    hod_dataset_free(d);
    hod_dataset_free(part); /* kept the whole alive */
}

TEST(data_synthetic_is_the_same_made_once_or_each_time)
{
    hod_shape shape = HOD_SHAPE(1, 300, 1000); /* 300 kB: 100 samples are kept, 1000 are not */
    hod_dataset *kept = hod_synthetic_dataset(shape, .count = 100, .seed = 3);
    hod_dataset *made = hod_synthetic_dataset(shape, .count = 1000, .seed = 3);
    uint8_t *a = malloc(300000), *b = malloc(300000);
    int64_t x, y;
    hod_draws draws = hod_draws_of(0, 0, 0);
    CHECK(!hod__dataset_item(kept, 77, &draws, a, &x) &&
          !hod__dataset_item(made, 77, &draws, b, &y));
    EQ_INT(x, y);
    CHECK(memcmp(a, b, 300000) == 0);
    free(a);
    free(b);
    hod_dataset_free(kept);
    hod_dataset_free(made);
}

TEST(data_moments_are_mean_and_deviation)
{
    HOD_SCOPE(s);
    /* Two samples of two channels: (0,2 | 1,1) and (4,6 | 1,1). */
    hod_tensor *x = hod_from_floats((float[]){0, 2, 1, 1, 4, 6, 1, 1}, HOD_SHAPE(2, 2, 2));
    hod_dataset *d = hod_tensor_dataset(x, hod_from_ints((int64_t[]){0, 1}, HOD_SHAPE(2)), 2);
    float mean[HOD_MAX_CHANNELS], std[HOD_MAX_CHANNELS];
    CHECK(!hod_dataset_moments(d, 0, mean, std));
    NEAR(mean[0], 3, 0);
    NEAR(std[0], sqrt(5), 1e-6); /* one f32 rounding */
    NEAR(mean[1], 1, 0);
    NEAR(std[1], 0, 0);
    hod_dataset_free(d);
}

/* ---- augmentation ---- */

enum { C = 2, H = 5, W = 6, P = 2 };

/* The slow twin: pads, cuts at (dy, dx), mirrors, scales. img: (C,H,W) in [0,1] */
static void twin(const float *img, int dy, int dx, bool mirror, const hod_loader_spec *spec,
                 float *out)
{
    float padded[C][H + 2 * P][W + 2 * P];
    memset(padded, 0, sizeof padded);
    for (int c = 0; c < C; c++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++)
                padded[c][y + P][x + P] = img[(c * H + y) * W + x];
    for (int c = 0; c < C; c++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                float v = padded[c][y + dy][(mirror ? W - 1 - x : x) + dx];
                out[(c * H + y) * W + x] =
                    spec->std[c] != 0 ? (v - spec->mean[c]) / spec->std[c] : v;
            }
}

/* Is `got` the image seen through one of the windows? Which one, as a number, or -1. */
static int which_window(const float *img, const hod_loader_spec *spec, const float *got)
{
    float want[C * H * W];
    for (int dy = 0; dy <= 2 * P; dy++)
        for (int dx = 0; dx <= 2 * P; dx++)
            for (int mirror = 0; mirror < 2; mirror++) {
                twin(img, dy, dx, mirror, spec, want);
                if (memcmp(want, got, sizeof want) == 0)
                    return (dy * (2 * P + 1) + dx) * 2 + mirror;
            }
    return -1;
}

static void check_windows(hod_dataset *d, const float *images, int64_t n)
{
    hod_loader_spec spec = {.dataset = d,
                            .seed = 4,
                            .crop = P,
                            .flip = true,
                            .mean = {0.3f, 0.5f},
                            .std = {0.25f, 2.0f}};
    bool seen[(2 * P + 1) * (2 * P + 1) * 2] = {0};
    hod_loader *l = hod_loader_make(spec);
    CHECK(l);
    for (int epoch = 0; epoch < 20; epoch++) {
        hod_batch b;
        EQ_INT(hod_loader_next(l, n, &b), 1);
        const float *got = hod_tensor_data(b.input);
        for (int64_t i = 0; i < n; i++) {
            int window = which_window(images + i * C * H * W, &spec, got + i * C * H * W);
            CHECK(window >= 0);
            seen[window] = true;
        }
        EQ_INT(hod_loader_next(l, n, &b), 0);
    }
    hod_loader_free(l);
    for (int i = 0; i < (2 * P + 1) * (2 * P + 1) * 2; i++)
        CHECK(seen[i]); /* 20 epochs of 40 samples, 50 windows: misses one with odds 50 * e^-16 */
}

TEST(data_augmentation_equals_its_slow_twin)
{
    HOD_SCOPE(s);
    enum { N = 40 };
    static uint8_t bytes[N * C * H * W];
    static float floats[N * C * H * W];
    int64_t labels[N] = {0};
    hod_draws draws = hod_draws_of(7, 0, 0);
    for (int i = 0; i < N * C * H * W; i++) {
        bytes[i] = (uint8_t)hod_draw_below(&draws, 256);
        floats[i] = (float)bytes[i] / 255.0f;
    }
    hod_tensor *y = hod_from_ints(labels, HOD_SHAPE(N));
    hod_dataset *d = hod_tensor_dataset(hod_from_floats(floats, HOD_SHAPE(N, C, H, W)), y, 1);
    check_windows(d, floats, N);
    hod_dataset_free(d);
    d = hod_tensor_dataset(hod_from_data(HOD_U8, bytes, HOD_SHAPE(N, C, H, W)), y, 1);
    check_windows(d, floats, N);
    hod_dataset_free(d);
}

TEST(data_flip_alone_keeps_its_choices)
{
    /* Turning the crop off changes no mirror: the draws are always taken. */
    enum { N = 32 };
    hod_dataset *d = hod_synthetic_dataset(HOD_SHAPE(1, 8, 8), .count = N);
    hod_loader *plain = hod_loader_new(d), *flip = hod_loader_new(d, .flip = true);
    hod_batch a, b;
    EQ_INT(hod_loader_next(plain, N, &a), 1);
    EQ_INT(hod_loader_next(flip, N, &b), 1);
    const float *x = hod_tensor_data(a.input), *y = hod_tensor_data(b.input);
    int mirrored = 0;
    for (int i = 0; i < N; i++) {
        hod_draws draws = hod__draws_stream(0, 0, i, 1);
        hod_draw_below(&draws, 1);
        hod_draw_below(&draws, 1);
        bool expect = hod_draw_bits(&draws) & 1;
        bool is = x[i * 64] == y[i * 64 + 7] && x[i * 64 + 1] == y[i * 64 + 6];
        EQ_INT(is, expect);
        mirrored += is;
    }
    CHECK(mirrored > 4 && mirrored < 28);
    hod_loader_free(plain);
    hod_loader_free(flip);
    hod_dataset_free(d);
}
