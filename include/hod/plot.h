/* Plots: lines over numbers, as PNG or SVG from one drawing.
 *
 *     hod_series s[] = {{.name = "eager", .y = eager, .n = 50},
 *                       {.name = "compiled", .y = compiled, .n = 50, .dashed = true}};
 *     hod_plot("loss.png", s, 2, "training loss", .x_label = "update", .log_y = true);
 *
 * The file's ending decides the format. Like every file of hod it appears complete or not at all.
 */
#ifndef HOD_PLOT_H
#define HOD_PLOT_H

#include <hod/error.h>
#include <stdint.h>

typedef struct hod_series {
    const char *name; /* in the legend; NULL: not there */
    const double *x;  /* NULL: 0, 1, 2, ... */
    const double *y;  /* values that are not finite leave a gap */
    int64_t n;
    bool dashed; /* for lines that lie on others */
    bool steps;  /* holds each value until the next x: memory over time */
    bool filled; /* the area below the line is tinted */
} hod_series;

typedef struct hod_plot_spec {
    const char *title;
    const char *x_label, *y_label; /* default: none */
    bool log_y;                    /* values <= 0 leave a gap */
    bool from_zero;                /* the y axis includes 0; not with log_y */
    double limit;                  /* a labelled dashed line across; 0: none */
    const char *limit_label;
    int width, height; /* default 900 x 520; a PNG has twice as many pixels */
    int end_;
} hod_plot_spec;

#define hod_plot(path, series, n, ...)                                                             \
    hod_plot_make(path, series, n, (hod_plot_spec){__VA_ARGS__, .end_ = 0})
HOD_API int hod_plot_make(const char *path, const hod_series *series, int n, hod_plot_spec spec);

#ifndef HOD_NO_PLACES
#define hod_plot_make(...) HOD_PLACED(int, hod_plot_make(__VA_ARGS__))
#endif

#endif
