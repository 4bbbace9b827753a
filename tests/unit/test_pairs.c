/* Sums over pairs of rows: every compiled form against loops in double, and distances against the
 * composition that makes all differences. */
#include "device/device.h"
#include "harness.h"
#include "ops/pairs.h"
#include <hod/hod.h>

#include <math.h>

static double draw(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 40) / (double)(1 << 23) - 1;
}

static double slope(double d, int64_t power)
{
    return power == 2 ? 2 * d : d > 0 ? 1 : d < 0 ? -1 : d;
}

enum { MOST = 40 * 300 };

static void check_size(const hod_pair_rows *rows, int64_t m, int64_t n, int64_t k, int64_t power)
{
    static float x[MOST], y[MOST], g[MOST], s[MOST], dx[MOST];
    uint64_t seed = 7;
    for (int64_t i = 0; i < m * k; i++)
        x[i] = (float)draw(&seed);
    for (int64_t i = 0; i < n * k; i++)
        y[i] = i % 5 ? (float)draw(&seed) : x[i % (m * k)];
    for (int64_t i = 0; i < m * n; i++)
        g[i] = (float)draw(&seed);
    rows->sums(m, n, k, power, k % 2, x, y, s);
    rows->back(m, n, k, power, g, x, y, dx);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += pow(fabs((double)x[i * k + l] - (double)y[j * k + l]), (double)power);
            double got = (double)s[i * n + j];
            NEAR(k % 2 ? got * got : got, sum, 1e-6 * sqrt((double)k) * (1 + sqrt(sum)));
        }
    for (int64_t i = 0; i < m; i++)
        for (int64_t l = 0; l < k; l++) {
            double sum = 0;
            for (int64_t j = 0; j < n; j++)
                sum += (double)g[i * n + j] *
                       slope((double)x[i * k + l] - (double)y[j * k + l], power);
            NEAR((double)dx[i * k + l], sum, 2e-6 * sqrt((double)n) + 1e-6);
        }
}

static void check_rows(const hod_pair_rows *rows)
{
    static const int64_t sizes[][3] = {{1, 1, 1},   {8, 16, 4},    {13, 33, 7},
                                       {4, 5, 200}, {17, 16, 300}, {9, 40, 17}};
    for (int i = 0; i < 6; i++)
        for (int64_t power = 1; power <= 2; power++)
            check_size(rows, sizes[i][0], sizes[i][1], sizes[i][2], power);
    float x[] = {1, NAN, 2, INFINITY}, y[] = {1, 0, 2, INFINITY}, g[] = {1, 1, 1, 1}, s[4], dx[4];
    rows->sums(2, 2, 2, 1, false, x, y, s); /* of rows (1,NaN), (2,inf) and (1,0), (2,inf) */
    CHECK(isnan(s[0]) && isnan(s[1]) && isinf(s[2]) && isnan(s[3]));
    rows->back(2, 2, 2, 1, g, x, y, dx);
    CHECK(dx[0] == -1 && isnan(dx[1]) && dx[2] == 1 && isnan(dx[3]));
}

TEST(pairs_sums_and_gradients)
{
    check_rows(&hod__pairs_plain);
#ifdef __x86_64__
    if (hod__cpu_level() > 0)
        check_rows(&hod__pairs_v3);
    if (hod__cpu_level() > 1)
        check_rows(&hod__pairs_v4);
#endif
}

TEST(pairs_are_the_composition)
{
    hod_random_begin(1, 0, NULL);
    hod_tensor *x = hod_uniform(HOD_SHAPE(3, 1, 70, 9)), *y = hod_uniform(HOD_SHAPE(2, 50, 9));
    hod_tensor *d = hod_sub(hod_unsqueeze(x, -2), hod_unsqueeze(y, -3));
    for (int p = 1; p <= 2; p++) {
        hod_tensor *want = hod_norm_over(d, p, HOD_SHAPE(-1), false);
        hod_tensor *got = hod_cdist(x, y, p);
        CHECK(hod_tensor_ndim(got) == 4 && hod_tensor_size(got, 0) == 3);
        NEAR(hod_item(hod_amax(hod_abs(hod_sub(want, got)))), 0, 1e-6); /* sums of nine below 1 */
    }
    hod_tensor *near = hod_add_scalar(x, 1e-6); /* what multiplying out would lose */
    hod_tensor *same = hod_select(hod_select(hod_cdist(x, near, 2), 2, 7), -1, 7);
    NEAR(hod_item(hod_amax(same)), 3e-6, 2e-7);
}
