/* Line charts through cairo: one drawing, onto a PNG of twice the size or into an SVG.
 *
 *     title
 *     [legend ................]
 *     y  |   .
 *     la |  . .    grid, filled areas, lines, the limit
 *     be | .   ...
 *     l  +----------
 *          x label
 *
 * Colours are Okabe and Ito's, which the colour-blind tell apart. A series longer than the paper is
 * wide keeps the lowest and highest value of each pixel column, so nothing that one would see is
 * lost, and an SVG of a million updates stays small.
 */
#include "io/file.h"
#include "io/plot_axis.h"

#include <cairo-svg.h>
#include <cairo.h>
#include <hod/plot.h>
#include <math.h>

static const double colours[][3] = {
    {0.000, 0.447, 0.698}, {0.835, 0.369, 0.000}, {0.000, 0.620, 0.451}, {0.800, 0.475, 0.655},
    {0.902, 0.624, 0.000}, {0.337, 0.706, 0.914}, {0.30, 0.30, 0.30},
};
static const double paper_colour = 1, frame_grey = 0.55, grid_grey = 0.90, minor_grey = 0.95,
                    text_grey = 0.20, label_grey = 0.35;
static const double left_edge = 16, right_edge = 22, gap = 8; /* points */
static const double title_size = 16, text_size = 12;

typedef struct chart {
    cairo_t *c;
    const hod_series *series;
    int n;
    const hod_plot_spec *spec;
    double width, height;
    hod_axis x, y;
} chart;

static void grey(cairo_t *c, double g)
{
    cairo_set_source_rgb(c, g, g, g);
}

static void colour(cairo_t *c, int i, double alpha)
{
    const double *rgb = colours[i % HOD_COUNT(colours)];
    cairo_set_source_rgba(c, rgb[0], rgb[1], rgb[2], alpha);
}

static double x_of(const hod_series *s, int64_t i)
{
    return s->x ? s->x[i] : (double)i;
}

/* Is point i drawn at all? */
static bool visible(const chart *p, const hod_series *s, int64_t i)
{
    return isfinite(s->y[i]) && isfinite(x_of(s, i)) && (!p->spec->log_y || s->y[i] > 0);
}

/* ---- ranges ---- */

static void widen(double v, double *low, double *high)
{
    *low = fmin(*low, v);
    *high = fmax(*high, v);
}

static void choose_axes(chart *p)
{
    bool whole = true; /* updates and epochs have no halves */
    double x_low = INFINITY, x_high = -INFINITY, y_low = INFINITY, y_high = -INFINITY;
    for (int k = 0; k < p->n; k++)
        for (int64_t i = 0; i < p->series[k].n; i++)
            if (visible(p, &p->series[k], i)) {
                double x = x_of(&p->series[k], i);
                whole = whole && x == floor(x);
                widen(x, &x_low, &x_high);
                widen(p->series[k].y[i], &y_low, &y_high);
            }
    if (!(x_low <= x_high)) { /* nothing to show: axes all the same */
        x_low = 0;
        x_high = 1;
        y_low = p->spec->log_y ? 0.1 : 0;
        y_high = 1;
    }
    if (p->spec->limit != 0 && (!p->spec->log_y || p->spec->limit > 0))
        widen(p->spec->limit, &y_low, &y_high);
    if (p->spec->from_zero && !p->spec->log_y)
        widen(0, &y_low, &y_high);
    p->x.whole = whole;
    p->y.log = p->spec->log_y;
    hod__axis_choose(&p->x, x_low, x_high, (int)fmax(p->width / 110, 2), false);
    hod__axis_choose(&p->y, y_low, y_high, (int)fmax(p->height / 70, 2), true);
}

/* ---- text ---- */

static void font(cairo_t *c, double size, bool bold)
{
    cairo_select_font_face(c, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c, size);
}

static double text_width(cairo_t *c, const char *text)
{
    cairo_text_extents_t e;
    cairo_text_extents(c, text, &e);
    return e.x_advance;
}

/* Shows text with its anchor, 0 left to 1 right, at x. */
static void show(cairo_t *c, const char *text, double x, double y, double anchor)
{
    cairo_move_to(c, x - anchor * text_width(c, text), y);
    cairo_show_text(c, text);
}

/* Labels that would touch the one before are left out. */
static void label_x(chart *p)
{
    char buf[32];
    double free_from = -1e9;
    for (int i = 0; i < p->x.n; i++) {
        const char *text = hod__axis_label(&p->x, p->x.ticks[i].value, buf, sizeof buf);
        double at = hod__axis_place(&p->x, p->x.ticks[i].value), half = text_width(p->c, text) / 2;
        if (at - half < free_from)
            continue;
        show(p->c, text, at, p->y.from + text_size + 7, 0.5);
        free_from = at + half + gap;
    }
}

static void label_y(chart *p)
{
    char buf[32];
    double free_below = 1e9;
    for (int i = 0; i < p->y.n; i++) {
        double at = hod__axis_place(&p->y, p->y.ticks[i].value);
        if (!p->y.ticks[i].labelled || at + text_size > free_below)
            continue;
        show(p->c, hod__axis_label(&p->y, p->y.ticks[i].value, buf, sizeof buf), p->x.from - gap,
             at + text_size * 0.35, 1);
        free_below = at;
    }
}

static void write_labels(chart *p)
{
    cairo_t *c = p->c;
    font(c, text_size, false);
    grey(c, label_grey);
    label_x(p);
    label_y(p);
    grey(c, text_grey);
    if (p->spec->x_label)
        show(c, p->spec->x_label, (p->x.from + p->x.to) / 2, p->height - 12, 0.5);
    if (p->spec->y_label) {
        cairo_save(c);
        cairo_translate(c, left_edge + text_size * 0.6, (p->y.from + p->y.to) / 2);
        cairo_rotate(c, -M_PI / 2);
        show(c, p->spec->y_label, 0, 0, 0.5);
        cairo_restore(c);
    }
    if (p->spec->title) {
        font(c, title_size, true);
        show(c, p->spec->title, p->x.from, 16 + title_size * 0.75, 0);
    }
}

/* ---- legend: entries in lines above the plot ---- */

static const double swatch = 22, entry_gap = 20, line_height = 18;

/* Lays the entries out in lines of the plot's width, draws them when `draw`, and returns the number
 * of lines. */
static int legend(chart *p, double left, double right, double top, bool draw)
{
    cairo_t *c = p->c;
    font(c, text_size, false);
    double x = left;
    int lines = 0;
    for (int k = 0; k < p->n; k++) {
        const char *name = p->series[k].name;
        if (!name)
            continue;
        double width = swatch + 6 + text_width(c, name);
        if (lines == 0 || (x + width > right && x > left)) {
            x = left;
            lines++;
        }
        double y = top + line_height * (lines - 0.5);
        if (draw) {
            colour(c, k, 1);
            cairo_set_line_width(c, 2.2);
            if (p->series[k].dashed)
                cairo_set_dash(c, (double[]){6, 4}, 2, 0);
            cairo_move_to(c, x, y);
            cairo_line_to(c, x + swatch, y);
            cairo_stroke(c);
            cairo_set_dash(c, NULL, 0, 0);
            grey(c, text_grey);
            show(c, name, x + swatch + 6, y + text_size * 0.35, 0);
        }
        x += width + entry_gap;
    }
    return lines;
}

/* Finds the room that title, legend and labels need, and gives the rest to the axes. */
static double lay_out(chart *p)
{
    double top = p->spec->title ? 16 + title_size + 6 : 14, widest = 0;
    char buf[32];
    font(p->c, text_size, false);
    for (int i = 0; i < p->y.n; i++)
        if (p->y.ticks[i].labelled)
            widest = fmax(widest, text_width(p->c, hod__axis_label(&p->y, p->y.ticks[i].value, buf,
                                                                   sizeof buf)));
    p->x.from = left_edge + (p->spec->y_label ? text_size + 10 : 0) + widest + gap;
    p->x.to = p->width - right_edge;
    int lines = legend(p, p->x.from, p->x.to, top, false);
    p->y.to = top + lines * line_height + (lines ? 8 : 4);
    p->y.from = p->height - (p->spec->x_label ? 56 : 34);
    return top;
}

/* ---- grid and lines ---- */

/* Sharp lines lie in the middle of a pixel. */
static double sharp(double v)
{
    return floor(v) + 0.5;
}

static void draw_grid(chart *p)
{
    cairo_t *c = p->c;
    cairo_set_line_width(c, 1);
    for (int i = 0; i < p->y.n; i++) {
        double y = sharp(hod__axis_place(&p->y, p->y.ticks[i].value));
        grey(c, p->y.ticks[i].labelled ? grid_grey : minor_grey);
        cairo_move_to(c, p->x.from, y);
        cairo_line_to(c, p->x.to, y);
        cairo_stroke(c);
    }
    grey(c, grid_grey);
    for (int i = 0; i < p->x.n; i++) {
        double x = sharp(hod__axis_place(&p->x, p->x.ticks[i].value));
        cairo_move_to(c, x, p->y.from);
        cairo_line_to(c, x, p->y.to);
        cairo_stroke(c);
    }
}

static void draw_frame(chart *p)
{
    cairo_t *c = p->c;
    grey(c, frame_grey);
    cairo_set_line_width(c, 1);
    cairo_move_to(c, sharp(p->x.from), p->y.to);
    cairo_line_to(c, sharp(p->x.from), sharp(p->y.from));
    cairo_line_to(c, p->x.to, sharp(p->y.from));
    cairo_stroke(c);
}

/* The end of a run of points in one half-point column, [i, *end), with its lowest and highest. */
static void column(const chart *p, const hod_series *s, int64_t i, int64_t *end, int64_t *low,
                   int64_t *high)
{
    double cell = floor(hod__axis_place(&p->x, x_of(s, i)) * 2);
    *low = *high = i;
    int64_t k = i + 1;
    for (; k < s->n && visible(p, s, k); k++) {
        if (floor(hod__axis_place(&p->x, x_of(s, k)) * 2) != cell)
            break;
        if (s->y[k] < s->y[*low])
            *low = k;
        if (s->y[k] > s->y[*high])
            *high = k;
    }
    *end = k;
}

static void point_to(const chart *p, const hod_series *s, int64_t i, bool first)
{
    double x = hod__axis_place(&p->x, x_of(s, i)), y = hod__axis_place(&p->y, s->y[i]);
    if (first) {
        cairo_move_to(p->c, x, y);
        cairo_line_to(p->c, x, y); /* so that a lone point shows as a dot */
        return;
    }
    if (s->steps) {
        double before_x, before_y;
        cairo_get_current_point(p->c, &before_x, &before_y);
        cairo_line_to(p->c, x, before_y);
    }
    cairo_line_to(p->c, x, y);
}

/* Adds points from i on until a gap, and returns where the gap begins. */
static int64_t trace(const chart *p, const hod_series *s, int64_t i)
{
    bool dense = s->n > 4 * (int64_t)(p->x.to - p->x.from);
    for (bool first = true; i < s->n && visible(p, s, i); first = false) {
        int64_t end = i + 1, low = i, high = i;
        if (dense)
            column(p, s, i, &end, &low, &high);
        point_to(p, s, i, first);
        if (low != i || high != i) {
            point_to(p, s, HOD_MIN(low, high), false);
            point_to(p, s, HOD_MAX(low, high), false);
        }
        i = end;
    }
    return i;
}

/* Dashed lines that lie on each other take turns, so that all of them show. */
static void set_dashes(chart *p, int k)
{
    static const double dash = 6;
    int dashed = 0, before = 0;
    for (int i = 0; i < p->n; i++) {
        dashed += p->series[i].dashed;
        before += i < k && p->series[i].dashed;
    }
    double off = dash * HOD_MIN(dashed, 4);
    cairo_set_dash(p->c, (double[]){dash, off}, 2, -dash * (before % 4));
}

static void draw_series(chart *p, int k, bool area)
{
    const hod_series *s = &p->series[k];
    cairo_t *c = p->c;
    for (int64_t i = 0; i < s->n;) {
        if (!visible(p, s, i)) {
            i++;
            continue;
        }
        double begin = hod__axis_place(&p->x, x_of(s, i));
        cairo_new_path(c);
        i = trace(p, s, i);
        if (area) {
            double x, y;
            cairo_get_current_point(c, &x, &y);
            cairo_line_to(c, x, p->y.from);
            cairo_line_to(c, begin, p->y.from);
            cairo_close_path(c);
            colour(c, k, 0.15);
            cairo_fill(c);
            continue;
        }
        colour(c, k, 1);
        cairo_set_line_width(c, 1.8);
        cairo_set_line_join(c, CAIRO_LINE_JOIN_ROUND);
        cairo_set_line_cap(c, s->dashed ? CAIRO_LINE_CAP_BUTT : CAIRO_LINE_CAP_ROUND);
        if (s->dashed)
            set_dashes(p, k);
        cairo_stroke(c);
        cairo_set_dash(c, NULL, 0, 0);
    }
}

/* Where points are few, each is a dot: an evaluation after every epoch, or a single one. */
static void draw_dots(chart *p, int k)
{
    enum { FEW = 12 };
    const hod_series *s = &p->series[k];
    for (int64_t i = 0; i < s->n && s->n <= FEW; i++) {
        if (!visible(p, s, i))
            continue;
        colour(p->c, k, 1);
        cairo_arc(p->c, hod__axis_place(&p->x, x_of(s, i)), hod__axis_place(&p->y, s->y[i]), 3.2, 0,
                  2 * M_PI);
        cairo_fill(p->c);
    }
}

static void draw_limit(chart *p)
{
    double limit = p->spec->limit;
    if (limit == 0 || (p->spec->log_y && limit < 0))
        return;
    cairo_t *c = p->c;
    double y = sharp(hod__axis_place(&p->y, limit));
    cairo_set_source_rgb(c, 0.75, 0.1, 0.1);
    cairo_set_line_width(c, 1.2);
    cairo_set_dash(c, (double[]){4, 3}, 2, 0);
    cairo_move_to(c, p->x.from, y);
    cairo_line_to(c, p->x.to, y);
    cairo_stroke(c);
    cairo_set_dash(c, NULL, 0, 0);
    if (p->spec->limit_label) {
        font(c, text_size, false);
        /* Above the line, unless the frame ends there. */
        bool above = y - p->y.to > text_size + 6;
        show(c, p->spec->limit_label, p->x.to - 4, above ? y - 5 : y + text_size + 3, 1);
    }
}

static void draw(chart *p)
{
    cairo_t *c = p->c;
    grey(c, paper_colour);
    cairo_paint(c);
    choose_axes(p);
    double legend_top = lay_out(p);
    draw_grid(p);
    write_labels(p);
    legend(p, p->x.from, p->x.to, legend_top, true);
    cairo_save(c);
    cairo_rectangle(c, p->x.from - 2, p->y.to - 2, p->x.to - p->x.from + 4,
                    p->y.from - p->y.to + 4);
    cairo_clip(c);
    for (int k = 0; k < p->n; k++)
        if (p->series[k].filled)
            draw_series(p, k, true);
    for (int k = 0; k < p->n; k++)
        draw_series(p, k, false);
    for (int k = 0; k < p->n; k++)
        draw_dots(p, k);
    cairo_restore(c);
    draw_frame(p);
    draw_limit(p);
}

/* ---- files ---- */

static cairo_status_t write_bytes(void *file, const unsigned char *data, unsigned n)
{
    return hod__file_write(file, data, n) ? CAIRO_STATUS_WRITE_ERROR : CAIRO_STATUS_SUCCESS;
}

static bool ends_with(const char *path, const char *ending)
{
    size_t n = strlen(path), m = strlen(ending);
    return n > m && strcmp(path + n - m, ending) == 0;
}

static int draw_into(hod_new_file *f, const char *path, chart *p)
{
    bool svg = ends_with(path, ".svg");
    double scale = svg ? 1 : 2;
    cairo_surface_t *paper =
        svg ? cairo_svg_surface_create_for_stream(write_bytes, f, p->width, p->height)
            : cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)(scale * p->width),
                                         (int)(scale * p->height));
    p->c = cairo_create(paper);
    cairo_scale(p->c, scale, scale);
    draw(p);
    cairo_status_t status = cairo_status(p->c);
    cairo_destroy(p->c);
    if (status == CAIRO_STATUS_SUCCESS && !svg)
        status = cairo_surface_write_to_png_stream(paper, write_bytes, f);
    cairo_surface_finish(paper);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_status(paper);
    cairo_surface_destroy(paper);
    if (status != CAIRO_STATUS_SUCCESS)
        return HOD_FAIL_RC(IO, "%s: %s", path, cairo_status_to_string(status));
    return 0;
}

int hod_plot_make(const char *path, const hod_series *series, int n, hod_plot_spec spec)
{
    if (!path || !(ends_with(path, ".png") || ends_with(path, ".svg")))
        return HOD_FAIL_RC(ARGUMENT, "plot %s: the name ends in .png or .svg", path ? path : "");
    if (n < 0 || (n > 0 && !series))
        return HOD_FAIL_RC(ARGUMENT, "plot %s: %d series", path, n);
    if (spec.width < 0 || spec.height < 0 || spec.width > 10000 || spec.height > 10000)
        return HOD_FAIL_RC(ARGUMENT, "plot %s: %d x %d points, at most 10000 each", path,
                           spec.width, spec.height);
    for (int k = 0; k < n; k++)
        if (series[k].n < 0 || (series[k].n && !series[k].y))
            return HOD_FAIL_RC(ARGUMENT, "plot %s: series %d has no values", path, k);
    chart p = {.series = series,
               .n = n,
               .spec = &spec,
               .width = spec.width ? spec.width : 900,
               .height = spec.height ? spec.height : 520};
    hod_new_file f;
    if (hod__file_begin(&f, path))
        return -1;
    if (draw_into(&f, path, &p)) {
        hod__file_abandon(&f);
        return -1;
    }
    return hod__file_commit(&f);
}
