/* Plots: ticks by their numbers, pictures by the colours of their pixels. */
#include "scratch.h"

#include "base/base.h"
#include "io/plot_axis.h"
#include <cairo.h>
#include <hod/plot.h>
#include <math.h>

static const char *ticks(hod_axis *a, double low, double high, int wanted, bool snap)
{
    static char all[512];
    char one[32];
    hod__axis_choose(a, low, high, wanted, snap);
    all[0] = 0;
    for (int i = 0; i < a->n; i++)
        if (a->ticks[i].labelled) {
            strcat(all, all[0] ? " " : "");
            strcat(all, hod__axis_label(a, a->ticks[i].value, one, sizeof one));
        }
    return all;
}

TEST(plot_axis_chooses_round_ticks)
{
    hod_axis a = {0};
    EQ_STR(ticks(&a, 0, 49, 8, false), "0 5 10 15 20 25 30 35 40 45");
    EQ_STR(ticks(&a, 0.301, 0.305, 4, true), "0.301 0.302 0.303 0.304 0.305");
    EQ_STR(ticks(&a, -3.2, 7.9, 5, true), "-4 -2 0 2 4 6 8");
    NEAR(a.low, -4, 0);
    NEAR(a.high, 8, 0);
    EQ_STR(ticks(&a, 0, 2e7, 4, false), "0 5e6 1e7 1.5e7 2e7");
    EQ_STR(ticks(&a, 5, 5, 4, true), "4.7 4.8 4.9 5.0 5.1 5.2 5.3");
    EQ_STR(ticks(&a, 0, 0, 2, true), "-1 0 1");
    a.whole = true;
    EQ_STR(ticks(&a, 0, 2, 8, false), "0 1 2");
}

TEST(plot_axis_chooses_logarithmic_ticks)
{
    hod_axis a = {.log = true};
    EQ_STR(ticks(&a, 1e-7, 2e-5, 4, true), "1e-7 1e-6 1e-5");
    EQ_STR(ticks(&a, 0.4, 3, 4, true), "0.5 1 2");
    EQ_STR(ticks(&a, 1e-20, 1e20, 4, true), "1e-20 1e-15 1e-10 1e-5 1 100000 1e10 1e15 1e20");
    a.from = 100;
    a.to = 0;
    hod__axis_choose(&a, 1, 10000, 4, true);
    NEAR(hod__axis_place(&a, 100), 50, 1e-9); /* rounding of logarithms */
}

TEST(plot_axis_is_never_empty_or_endless)
{
    static const double at[] = {-1e300, -1, -1e-300, 0, 1e-300, 1e-9, 1, 1 + 1e-15, 1e9, 1e300};
    for (int i = 0; i < HOD_COUNT(at); i++)
        for (int k = i; k < HOD_COUNT(at); k++)
            for (int log = 0; log < 2; log++) {
                hod_axis a = {.log = log};
                if (log && at[i] <= 0)
                    continue;
                hod__axis_choose(&a, at[i], at[k], 5, true);
                CHECK(a.low < a.high);
                CHECK(a.n <= HOD_TICKS_MAX);
            }
}

/* Pixels of about this colour in a PNG; the picture's size through w and h. */
static int pixels(const char *path, int red, int green, int blue, int *w, int *h)
{
    cairo_surface_t *s = cairo_image_surface_create_from_png(path);
    CHECK(cairo_surface_status(s) == CAIRO_STATUS_SUCCESS);
    *w = cairo_image_surface_get_width(s);
    *h = cairo_image_surface_get_height(s);
    const unsigned char *data = cairo_image_surface_get_data(s);
    int stride = cairo_image_surface_get_stride(s), n = 0;
    for (int y = 0; y < *h; y++)
        for (int x = 0; x < *w; x++) {
            const unsigned char *p = data + y * stride + 4 * x;
            n += abs(p[2] - red) < 8 && abs(p[1] - green) < 8 && abs(p[0] - blue) < 8;
        }
    cairo_surface_destroy(s);
    return n;
}

TEST(plot_draws_every_series)
{
    double y[50];
    for (int i = 0; i < 50; i++)
        y[i] = exp(-i / 20.0);
    hod_series s[] = {{.name = "a", .y = y, .n = 50},
                      {.name = "b", .y = y, .n = 50, .dashed = true},
                      {.name = "c", .y = y, .n = 50, .dashed = true}};
    CHECK(!hod_plot(scratch("a.png"), s, 3, "title", .log_y = true, .width = 400, .height = 300));
    int w, h;
    /* All three lie on each other, and each shows along its share of the curve: 30 dashes' worth of
     * 12 x 4 pixels would be 1400, the legend's swatches are some 200. */
    CHECK(pixels(scratch("a.png"), 0, 114, 178, &w, &h) > 500);
    EQ_INT(w, 800);
    EQ_INT(h, 600);
    CHECK(pixels(scratch("a.png"), 213, 94, 0, &w, &h) > 500);
    CHECK(pixels(scratch("a.png"), 0, 158, 115, &w, &h) > 500);
}

TEST(plot_draws_gaps_spikes_and_nothing)
{
    enum { N = 100000 };
    static double y[N];
    y[N / 2] = 1; /* one value in 100000 that must be seen */
    y[3] = NAN;
    hod_series s = {.y = y, .n = N, .steps = true, .filled = true};
    int w, h;
    CHECK(!hod_plot(scratch("spike.png"), &s, 1, "spike", .limit = 2, .limit_label = "limit"));
    int with = pixels(scratch("spike.png"), 0, 114, 178, &w, &h);
    y[N / 2] = 0;
    CHECK(!hod_plot(scratch("flat.png"), &s, 1, "spike", .limit = 2, .limit_label = "limit"));
    CHECK(with > pixels(scratch("flat.png"), 0, 114, 178, &w, &h) + 300);
    CHECK(!hod_plot(scratch("none.png"), NULL, 0, NULL));
    for (int i = 0; i < N; i++)
        y[i] = -1;
    CHECK(!hod_plot(scratch("negative.svg"), &s, 1, "no logarithm", .log_y = true));
    size_t n;
    char *text = scratch_read("negative.svg", &n);
    CHECK(strstr(text, "<svg"));
    free(text);
}

TEST(plot_says_what_is_wrong)
{
    double y = 1;
    hod_series s = {.y = &y, .n = 1};
    ERROR_IS("plot a.gif: the name ends in .png or .svg", hod_plot("a.gif", &s, 1, "t"));
    ERROR_IS("plot a.png: 20000 x 0 points, at most 10000 each",
             hod_plot("a.png", &s, 1, "t", .width = 20000));
    ERROR_IS("plot a.png: series 0 has no values",
             hod_plot("a.png", &(hod_series){.n = 1}, 1, "t"));
    ERROR_IS("/proc/a.png: No such file or directory", hod_plot("/proc/a.png", &s, 1, "t"));
}
