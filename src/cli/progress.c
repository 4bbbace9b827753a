/* Progress for people: one line that is drawn over and over on a terminal, lines now and then
 * elsewhere, so that a log stays short and a pipe stays readable.
 */
#include "cli.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

double cli_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

char *cli_duration(double seconds, char buf[32])
{
    long long s = seconds > 0 ? (long long)(seconds + 0.5) : 0;
    if (s < 60)
        snprintf(buf, 32, "%lld s", s);
    else if (s < 3600)
        snprintf(buf, 32, "%lld:%02lld", s / 60, s % 60);
    else
        snprintf(buf, 32, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    return buf;
}

cli_progress cli_progress_begin(FILE *out, int64_t every, int64_t done)
{
    return (cli_progress){.out = out,
                          .bar = out && isatty(fileno(out)),
                          .every = every,
                          .start = cli_seconds(),
                          .first = done};
}

char *cli_number(double x, char buf[32])
{
    if (isnan(x))
        return strcpy(buf, "nan"); /* its sign says nothing */
    snprintf(buf, 32, fabs(x) < 1e5 ? "%.4f" : "%.3g", x);
    return buf;
}

static void clear(cli_progress *p)
{
    if (p->drawn)
        fprintf(p->out, "\r\033[K");
    p->drawn = false;
}

/* Seconds to the end at the pace so far; negative: not known. */
static double left(const cli_progress *p, const hod_progress *at)
{
    int64_t done = at->updates + at->skipped - p->first;
    if (at->total == 0 || done == 0)
        return -1;
    double pace = (cli_seconds() - p->start) / (double)done;
    return pace * (double)(at->total - at->updates - at->skipped);
}

static int columns(const cli_progress *p)
{
    struct winsize w;
    return ioctl(fileno(p->out), TIOCGWINSZ, &w) == 0 && w.ws_col > 20 ? w.ws_col : 80;
}

static void draw(cli_progress *p, const hod_update *u, const hod_progress *at)
{
    char text[160], time[32];
    double s = left(p, at);
    int n = snprintf(text, sizeof text, " %lld/%lld  loss %s  %.0f samples/s  ",
                     (long long)(at->updates + at->skipped), (long long)at->total,
                     CLI_NUMBER(u->loss), u->samples_per_s);
    snprintf(text + n, sizeof text - (size_t)n, "%s%s", s < 0 ? "" : cli_duration(s, time),
             s < 0 ? "" : " left");
    int wide = columns(p) - (int)strlen(text) - 3;
    wide = wide > 40 ? 40 : wide;
    fprintf(p->out, "\r\033[K");
    if (wide >= 8 && at->total) {
        int full = (int)((double)wide * (double)(at->updates + at->skipped) / (double)at->total);
        fprintf(p->out, "[%.*s%*s]", full, "########################################", wide - full,
                "");
    }
    fprintf(p->out, "%.*s", columns(p) - 1, text);
    fflush(p->out);
    p->drawn = true;
}

static void show(cli_progress *p, const hod_update *u, const hod_progress *at)
{
    int64_t done = at->updates + at->skipped;
    if (p->bar) {
        double now = cli_seconds();
        if (now - p->last > 0.1 || done == at->total) { /* as often as an eye can follow */
            draw(p, u, at);
            p->last = now;
        }
        return;
    }
    if (p->every == 0 || (done % p->every != 0 && done != at->total && done != p->first + 1))
        return;
    char time[32];
    double s = left(p, at);
    fprintf(p->out, "update %5lld/%-5lld epoch %2lld  loss %s  lr %.2e  |g| %s  %5.0f samples/s",
            (long long)done, (long long)at->total, (long long)u->epoch + 1, CLI_NUMBER(u->loss),
            u->lr, CLI_NUMBER(u->grad_norm), u->samples_per_s);
    if (s >= 0)
        fprintf(p->out, "  %s left", cli_duration(s, time));
    fputc('\n', p->out);
    fflush(p->out);
}

int cli_progress_update(cli_progress *p, const hod_update *u, const hod_progress *at)
{
    if (!p->out)
        return 0;
    show(p, u, at);
    if (!ferror(p->out))
        return 0;
    hod_refuse("standard output takes no more");
    return -1;
}

void cli_progress_say(cli_progress *p, const char *format, ...)
{
    if (!p->out)
        return;
    clear(p);
    va_list args;
    va_start(args, format);
    vfprintf(p->out, format, args);
    va_end(args);
    fputc('\n', p->out);
    fflush(p->out);
}

void cli_progress_end(cli_progress *p)
{
    if (p->out)
        clear(p);
}
