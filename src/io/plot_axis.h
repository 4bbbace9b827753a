/* Axes: from a range of values to round ticks and places on the paper. */
#ifndef HOD_IO_PLOT_AXIS_H
#define HOD_IO_PLOT_AXIS_H

#include <stdbool.h>
#include <stddef.h>

enum { HOD_TICKS_MAX = 64 };

typedef struct hod_tick {
    double value;
    bool labelled; /* a minor tick has a line but no number */
} hod_tick;

typedef struct hod_axis {
    bool log;
    bool whole;       /* linear ticks at whole numbers only */
    double low, high; /* low < high, and low > 0 when log */
    double from, to;  /* their places, in points */
    int n;
    hod_tick ticks[HOD_TICKS_MAX];
    int decimals; /* of linear labels */
} hod_axis;

/* Chooses ticks for values in low..high, about `wanted` of them. A linear axis is widened to whole
 * ticks when `snap`; a logarithmic one keeps a margin. */
void hod__axis_choose(hod_axis *a, double low, double high, int wanted, bool snap);
double hod__axis_place(const hod_axis *a, double value);
/* The label of a value; returns buf. */
char *hod__axis_label(const hod_axis *a, double value, char *buf, size_t cap);

#endif
