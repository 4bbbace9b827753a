/* The log of a run: its events, one a line. A resumed run goes on in it.
 *
 * A run that was killed may have logged updates after its last checkpoint. They happen again, so
 * they are taken out: a log holds each update once, as if nothing had been. The losses that stay
 * are handed on, because the curve of a resumed run begins where the run began.
 */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void cli_curve_add(cli_curve *c, double x, double y)
{
    if (c->n == c->cap) {
        int64_t cap = c->cap ? 2 * c->cap : 1024;
        double *xs = realloc(c->x, (size_t)cap * sizeof *xs);
        c->x = xs ? xs : c->x;
        double *ys = xs ? realloc(c->y, (size_t)cap * sizeof *ys) : NULL;
        c->y = ys ? ys : c->y;
        if (!xs || !ys)
            return; /* the curve loses its tail: no reason to end a training */
        c->cap = cap;
    }
    c->x[c->n] = x;
    c->y[c->n++] = y;
}

void cli_curve_free(cli_curve *c)
{
    free(c->x);
    free(c->y);
    *c = (cli_curve){0};
}

/* The number behind "key": on a line that hod_event wrote; NaN when it is not there or null. */
static double number_of(const char *line, const char *key)
{
    char quoted[32], *end;
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(line, quoted);
    if (!at)
        return NAN;
    at += strlen(quoted);
    double x = strtod(at, &end);
    return end == at ? NAN : x;
}

static bool is_event(const char *line, const char *name)
{
    char begin[48];
    int n = snprintf(begin, sizeof begin, "{\"event\":\"%s\"", name);
    return strncmp(line, begin, (size_t)n) == 0;
}

/* Copies what happened up to `updates`, and collects the losses. */
static int keep(FILE *from, FILE *to, int64_t updates, cli_curve *loss, cli_curve *test)
{
    char *line = NULL;
    size_t cap = 0;
    int rc = 0;
    while (rc == 0 && getline(&line, &cap, from) > 0) {
        double at = number_of(line, "update");
        bool update = is_event(line, "update"), eval = is_event(line, "eval");
        if ((at > (double)updates && (update || eval)) || is_event(line, "end") ||
            !strchr(line, '\n'))
            continue;
        if (update)
            cli_curve_add(loss, at, number_of(line, "loss"));
        if (eval)
            cli_curve_add(test, at, number_of(line, "loss"));
        rc = fputs(line, to) < 0 ? -1 : 0;
    }
    free(line);
    return rc == 0 && !ferror(from) ? 0 : -1;
}

FILE *cli_log_open(const char *path, bool resume, int64_t updates, cli_curve *loss, cli_curve *test)
{
    char aside[HOD_CONFIG_PATH + 128];
    snprintf(aside, sizeof aside, "%s.tmp-%ld-0", path, (long)getpid());
    FILE *old = resume ? fopen(path, "r") : NULL, *log = fopen(aside, "w");
    int rc = log && (!old || keep(old, log, updates, loss, test) == 0) && fflush(log) == 0
                 ? rename(aside, path)
                 : -1;
    if (rc != 0) {
        hod_refuse("%s: %s", path, strerror(errno));
        unlink(aside);
    }
    if (old)
        fclose(old);
    if (rc != 0 && log)
        fclose(log);
    return rc == 0 ? log : NULL;
}
