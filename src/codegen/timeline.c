/* The memory plan as a picture for a browser: two panels over one axis of calls.
 *
 *     +----------------------------+
 *     |  arena: a rectangle is a   |   upper: where each buffer lies, from when until when; free
 *     |  buffer, upwards offsets   |   space is what stays white
 *     +----------------------------+
 *     |  bytes alive at each call  |   lower: what any plan needs; its peak is the lower bound
 *     +----------------------------+
 *
 * Rectangles of one name share a colour. The names that hold most (bytes times calls) get the
 * strong colours and a place in the legend, the rest are grey. The pointer over a rectangle shows
 * its title: name, size, offset, calls.
 */
#include "codegen/timeline.h"

#include <math.h>
#include <stdio.h>

enum {
    WIDTH = 1200,
    LEFT = 84,
    RIGHT = 1010, /* the plots' right edge; the legend stands beside */
    TOP = 58,
    ARENA_BOTTOM = 470,
    ALIVE_TOP = 498,
    ALIVE_BOTTOM = 600,
    HEIGHT = 650,
    LEGEND = 12, /* names with a colour of their own */
};

static const char *const colours[LEGEND] = {
    "#4878a8", "#e1812c", "#3a923a", "#c03d3e", "#9372b2", "#845b53",
    "#d684bd", "#a9aa35", "#2e9fa8", "#f0b357", "#7f9fd0", "#8fc07f",
};
#define OTHERS "#c4c4c4"

/* What a name holds over the whole program. */
typedef struct share {
    const char *name;
    double area; /* bytes times calls */
} share;

static const double least_share = 0.005; /* of all: a name that holds less needs no colour */

typedef struct picture {
    const hod_plan_buffer *b;
    const char *const *names;
    int64_t n, arena, peak;
    int32_t calls;
    share top[LEGEND];
    int n_top;
    int64_t *alive; /* bytes at each call */
    hod_text *out;
} picture;

static double x_of(const picture *p, double call)
{
    return LEFT + call * (RIGHT - LEFT) / p->calls;
}

static double y_of(double bytes, double full, double top, double bottom)
{
    return bottom - bytes * (bottom - top) / full;
}

/* "96 B", "1.5 KiB", "64 MiB": at most three digits that matter. */
static void size_text(int64_t bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double x = (double)bytes;
    int u = 0;
    for (; x >= 1024 && u < HOD_COUNT(units) - 1; u++)
        x /= 1024;
    int digits = u == 0 || x >= 100 || x == floor(x) ? 0 : x >= 10 ? 1 : 2;
    snprintf(text, 32, "%.*f %s", digits, x, units[u]);
}

/* A name as XML text. */
static void escaped(hod_text *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '<' || *s == '>' || *s == '&' || *s == '"' || (unsigned char)*s < 32)
            hod__text(out, "&#%d;", (unsigned char)*s < 32 ? ' ' : *s);
        else
            hod__text_bytes(out, s, 1);
    }
}

/* ---- the legend ---- */

static double area_of(const picture *p, const char *name)
{
    double area = 0;
    for (int64_t i = 0; i < p->n; i++)
        if (strcmp(p->names[i], name) == 0)
            area += (double)p->b[i].bytes * (p->b[i].last - p->b[i].first + 1.0);
    return area;
}

static double area_of_all(const picture *p)
{
    double all = 0;
    for (int64_t i = 0; i < p->n; i++)
        all += (double)p->b[i].bytes * (p->b[i].last - p->b[i].first + 1.0);
    return all;
}

static int rank_of(const picture *p, const char *name)
{
    for (int k = 0; k < p->n_top; k++)
        if (strcmp(p->top[k].name, name) == 0)
            return k;
    return -1;
}

/* The LEGEND names with the largest areas, in order. A name is weighed at its first buffer. */
static int rank_names(picture *p)
{
    int64_t n_seen = 0;
    const char **seen = hod__alloc((size_t)p->n + 1, sizeof *seen);
    if (!seen)
        return -1;
    for (int64_t i = 0; i < p->n; i++) {
        int64_t j = 0;
        while (j < n_seen && strcmp(seen[j], p->names[i]) != 0)
            j++;
        if (j < n_seen)
            continue;
        seen[n_seen++] = p->names[i];
        share s = {p->names[i], area_of(p, p->names[i])};
        for (int k = 0; k < LEGEND; k++) {
            if (k < p->n_top && p->top[k].area >= s.area)
                continue;
            share t = p->top[k];
            p->top[k] = s;
            s = t;
            if (k == p->n_top) {
                p->n_top++;
                break;
            }
        }
    }
    free(seen);
    while (p->n_top > 1 && p->top[p->n_top - 1].area < least_share * area_of_all(p))
        p->n_top--;
    return 0;
}

static void draw_legend(picture *p)
{
    double all = area_of_all(p), named = 0;
    int x = RIGHT + 22, y = TOP + 8;
    hod__text(p->out, "<text x=\"%d\" y=\"%d\" class=\"quiet\">share of bytes × calls</text>\n", x,
              y);
    for (int k = 0; k < p->n_top; k++) {
        y += 21;
        named += p->top[k].area;
        hod__text(p->out,
                  "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" rx=\"2\" fill=\"%s\"/>"
                  "<text x=\"%d\" y=\"%d\">",
                  x, y - 10, colours[k], x + 19, y);
        escaped(p->out, p->top[k].name);
        hod__text(p->out, " <tspan class=\"quiet\">%.1f %%</tspan></text>\n",
                  100 * p->top[k].area / all);
    }
    if (all - named > 1e-9 * all)
        hod__text(p->out,
                  "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" rx=\"2\" fill=\"" OTHERS
                  "\"/>"
                  "<text x=\"%d\" y=\"%d\">others <tspan class=\"quiet\">%.1f %%</tspan></text>\n",
                  x, y + 11, x + 19, y + 21, 100 * (all - named) / all);
    hod__text(p->out,
              "<text x=\"%d\" y=\"%d\" class=\"quiet\">what a fused kernel writes is</text>\n"
              "<text x=\"%d\" y=\"%d\" class=\"quiet\">named by its last operator</text>\n",
              x, y + 48, x, y + 63);
}

/* ---- axes ---- */

/* The step of about `want` ticks up to full: 1, 2 or 5 times a power of ten, or for bytes a power
 * of two. */
static double tick_step(double full, int want, bool bytes)
{
    double step = 1;
    if (bytes) {
        while (full / step > want * 1.5)
            step *= 2;
        return step;
    }
    static const double factors[] = {2, 2.5, 2};
    for (int k = 0; full / step > want * 1.3; k++)
        step *= factors[k % 3];
    return step;
}

static void draw_byte_axis(picture *p, double full, int top, int bottom, int want)
{
    double step = tick_step(full, want, true);
    for (double v = 0; v <= full; v += step) {
        double y = y_of(v, full, top, bottom);
        char text[32];
        size_text((int64_t)v, text);
        hod__text(p->out,
                  "<path d=\"M%d %.1fH%d\" class=\"grid\"/>"
                  "<text x=\"%d\" y=\"%.1f\" class=\"tick\">%s</text>\n",
                  LEFT, y, RIGHT, LEFT - 8, y + 4, text);
    }
}

static void draw_call_axis(picture *p)
{
    double step = tick_step(p->calls, 12, false);
    for (double c = 0; c < p->calls; c += step)
        hod__text(p->out,
                  "<path d=\"M%.1f %dv5\" class=\"frame\"/>"
                  "<text x=\"%.1f\" y=\"%d\" class=\"middle\">%.0f</text>\n",
                  x_of(p, c), ALIVE_BOTTOM, x_of(p, c), ALIVE_BOTTOM + 19, c);
    hod__text(p->out,
              "<text x=\"%d\" y=\"%d\" class=\"middle\">call</text>\n"
              "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"frame\"/>\n"
              "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"frame\"/>\n",
              (LEFT + RIGHT) / 2, ALIVE_BOTTOM + 39, LEFT, TOP, RIGHT - LEFT, ARENA_BOTTOM - TOP,
              LEFT, ALIVE_TOP, RIGHT - LEFT, ALIVE_BOTTOM - ALIVE_TOP);
    hod__text(p->out,
              "<text transform=\"translate(18 %d) rotate(-90)\" class=\"middle\">arena</text>\n"
              "<text transform=\"translate(18 %d) rotate(-90)\" class=\"middle\">alive</text>\n",
              (TOP + ARENA_BOTTOM) / 2, (ALIVE_TOP + ALIVE_BOTTOM) / 2);
}

/* ---- the two panels ---- */

static void draw_buffer(picture *p, int64_t i, double full)
{
    const hod_plan_buffer *b = &p->b[i];
    double x = x_of(p, b->first), w = x_of(p, b->last + 1.0) - x;
    double y = y_of((double)(b->offset + b->bytes), full, TOP, ARENA_BOTTOM);
    double h = y_of((double)b->offset, full, TOP, ARENA_BOTTOM) - y;
    int rank = rank_of(p, p->names[i]);
    char size[32], offset[32];
    size_text(b->bytes, size);
    size_text(b->offset, offset);
    hod__text(p->out,
              "<g><rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" "
              "class=\"buffer\"/><title>",
              x, y, w, HOD_MAX(h, 0.3), rank < 0 ? OTHERS : colours[rank]);
    escaped(p->out, p->names[i]);
    hod__text(p->out, ": %s at %s, calls %d to %d</title>", size, offset, b->first, b->last);
    if (h >= 12 && w >= 6.2 * (double)strlen(p->names[i]) + 6) {
        hod__text(p->out, "<text x=\"%.1f\" y=\"%.1f\" class=\"inside\">", x + w / 2,
                  y + h / 2 + 3.5);
        escaped(p->out, p->names[i]);
        hod__text(p->out, "</text>");
    }
    hod__text(p->out, "</g>\n");
}

static void draw_alive(picture *p, double full)
{
    hod__text(p->out, "<path class=\"alive\" d=\"M%d %d", LEFT, ALIVE_BOTTOM);
    for (int32_t c = 0; c < p->calls; c++)
        if (c == 0 || p->alive[c] != p->alive[c - 1])
            hod__text(p->out, "H%.2fV%.2f", x_of(p, c),
                      y_of((double)p->alive[c], full, ALIVE_TOP, ALIVE_BOTTOM));
    hod__text(p->out, "H%dV%dZ\"/>\n", RIGHT, ALIVE_BOTTOM);
}

static void draw_head(picture *p)
{
    char arena[32], peak[32];
    size_text(p->arena, arena);
    size_text(p->peak, peak);
    hod__text(p->out,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
              "viewBox=\"0 0 %d %d\">\n"
              "<style>text{font:12px sans-serif;fill:#222}"
              ".title{font-size:17px;font-weight:bold}.quiet{fill:#777}.tick{text-anchor:end}"
              ".middle{text-anchor:middle}.grid{stroke:#ececec;fill:none}"
              ".frame{stroke:#999;fill:none}.peak{stroke:#b00020;stroke-dasharray:6 4;fill:none}"
              ".red{fill:#b00020}.buffer{stroke:#fff;stroke-width:.4}"
              ".buffer:hover{stroke:#000;stroke-width:1.5}"
              ".inside{font-size:10px;text-anchor:middle;fill:#fff;pointer-events:none}"
              ".alive{fill:#9db7d5;stroke:#4878a8;stroke-width:1}</style>\n"
              "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
              WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
    hod__text(p->out,
              "<text x=\"%d\" y=\"28\" class=\"title\">Memory of one step: %s</text>\n"
              "<text x=\"%d\" y=\"28\" class=\"quiet\" text-anchor=\"end\">%lld buffers, %d calls, "
              "%.1f %% above the %s that any plan needs</text>\n",
              LEFT, arena, RIGHT, (long long)p->n, p->calls,
              p->peak ? 100.0 * (double)(p->arena - p->peak) / (double)p->peak : 0.0, peak);
}

/* A dashed line at `bytes` with its size at the right end. */
static void draw_peak(picture *p, int64_t bytes, double full, int top, int bottom)
{
    char text[32];
    size_text(bytes, text);
    double y = y_of((double)bytes, full, top, bottom);
    hod__text(p->out,
              "<path d=\"M%d %.1fH%d\" class=\"peak\"/>"
              "<text x=\"%d\" y=\"%.1f\" class=\"red\" text-anchor=\"end\">peak %s</text>\n",
              LEFT, y, RIGHT, RIGHT - 6, y - 4, text);
}

int hod__timeline_svg(const hod_plan_buffer *buffers, const char *const *names, int64_t n,
                      int32_t calls, int64_t arena_bytes, hod_text *out)
{
    picture p = {.b = buffers, .names = names, .n = n, .arena = arena_bytes, .out = out};
    p.calls = HOD_MAX(calls, 1);
    for (int64_t i = 0; i < n; i++)
        p.calls = HOD_MAX(p.calls, buffers[i].last + 1);
    p.alive = hod__alloc((size_t)p.calls + 1, sizeof *p.alive);
    if (!p.alive || rank_names(&p) != 0) {
        free(p.alive);
        return -1;
    }
    for (int64_t i = 0; i < n; i++) {
        p.alive[buffers[i].first] += buffers[i].bytes;
        p.alive[buffers[i].last + 1] -= buffers[i].bytes;
    }
    for (int32_t c = 1; c < p.calls; c++)
        p.alive[c] += p.alive[c - 1];
    for (int32_t c = 0; c < p.calls; c++)
        p.peak = HOD_MAX(p.peak, p.alive[c]);
    double full = 1.08 * (double)HOD_MAX(arena_bytes, 1), full_alive = 1.25 * HOD_MAX(p.peak, 1);
    draw_head(&p);
    draw_byte_axis(&p, full, TOP, ARENA_BOTTOM, 8);
    draw_byte_axis(&p, full_alive, ALIVE_TOP, ALIVE_BOTTOM, 3);
    for (int64_t i = 0; i < n; i++)
        draw_buffer(&p, i, full);
    draw_alive(&p, full_alive);
    draw_call_axis(&p);
    draw_peak(&p, p.arena, full, TOP, ARENA_BOTTOM);
    draw_peak(&p, p.peak, full_alive, ALIVE_TOP, ALIVE_BOTTOM);
    draw_legend(&p);
    hod__text(out, "</svg>\n");
    free(p.alive);
    return out->failed ? -1 : 0;
}
