/* Ticks that people find round: 1, 2 or 5 times a power of ten; on a logarithmic axis powers of
 * ten, with 2..9 between them, of which 2 and 5 are labelled when there are few decades.
 */
#include "io/plot_axis.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void add(hod_axis *a, double value, bool labelled)
{
    if (a->n < HOD_TICKS_MAX)
        a->ticks[a->n++] = (hod_tick){value, labelled};
}

/* The round number of which about `wanted` fit into `span`. */
static double round_step(double span, int wanted)
{
    double raw = span / wanted, power = pow(10, floor(log10(raw)));
    double digit = raw / power;
    return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

static void choose_linear(hod_axis *a, int wanted, bool snap)
{
    double step = round_step(a->high - a->low, wanted);
    if (a->whole)
        step = fmax(step, 1);
    /* The last digits of a range may be rounding: 1e-9 of a step more is the same tick. */
    double first = ceil(a->low / step - 1e-9), last = floor(a->high / step + 1e-9);
    if (snap) {
        first = floor(a->low / step + 1e-9);
        last = ceil(a->high / step - 1e-9);
        a->low = first * step;
        a->high = last * step;
    }
    for (double i = first; i <= last && a->n < HOD_TICKS_MAX; i++)
        add(a, i * step, true);
    a->decimals = (int)fmax(0, -floor(log10(step) + 1e-9));
}

static void choose_log(hod_axis *a)
{
    double decades = log10(a->high / a->low), margin = pow(10, 0.03 * fmax(decades, 0.2));
    a->low /= margin;
    a->high *= margin;
    int first = (int)floor(log10(a->low)), last = (int)ceil(log10(a->high));
    int stride = last - first > 12 ? (int)round_step(last - first, 8) : 1;
    first = (int)floor((double)first / stride) * stride;
    for (int power = first; power <= last; power += stride)
        for (int digit = 1; digit < 10; digit++) {
            double value = digit * pow(10, power);
            bool label = digit == 1 || (decades < 2.2 && (digit == 2 || digit == 5)) ||
                         (decades < 0.7 && digit != 9);
            if (value >= a->low && value <= a->high && (stride == 1 || digit == 1))
                add(a, value, label);
        }
}

void hod__axis_choose(hod_axis *a, double low, double high, int wanted, bool snap)
{
    a->n = 0;
    a->decimals = 0;
    a->low = low;
    a->high = high;
    double least = fmax(fabs(low), fabs(high)) * 1e-9;
    if (a->log && high / low < 1.05) { /* hardly a range: one is made around it */
        a->low = low / 1.05;
        a->high = high * 1.05;
    } else if (!a->log && !(high - low > least)) {
        double half = fmax(fabs(low) * 0.05, least > 0 ? least : 1);
        a->low = low - half;
        a->high = high + half;
    }
    if (a->log && a->high / a->low < 1.6) { /* powers of ten would leave it bare */
        choose_linear(a, wanted, false);
    } else if (a->log) {
        choose_log(a);
    } else {
        choose_linear(a, wanted, snap);
    }
}

double hod__axis_place(const hod_axis *a, double value)
{
    double t = a->log ? log(value / a->low) / log(a->high / a->low)
                      : (value - a->low) / (a->high - a->low);
    return a->from + t * (a->to - a->from);
}

/* 1e-05 is 1e-5, 1e+06 is 1e6. */
static void shorten_exponent(char *text)
{
    char *e = strchr(text, 'e');
    if (!e)
        return;
    char *to = e + 1 + (e[1] == '-'), *from = e + 2;
    while (*from == '0' && from[1])
        from++;
    memmove(to, from, strlen(from) + 1);
}

char *hod__axis_label(const hod_axis *a, double value, char *buf, size_t cap)
{
    double size = fabs(value);
    if (size < 1e-300)
        snprintf(buf, cap, "0");
    else if (size >= 1e6 || size < 1e-4) {
        snprintf(buf, cap, "%.3g", value);
        shorten_exponent(buf);
    } else if (a->decimals > 0)
        snprintf(buf, cap, "%.*f", a->decimals, value);
    else
        snprintf(buf, cap, "%g", value);
    return buf;
}
