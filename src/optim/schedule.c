/* Schedules as functions of the update's number.
 *
 * One-cycle is PyTorch's OneCycleLR with cosine annealing and two phases: the peak lies at update
 * warmup · total - 1, so `total` updates use exactly `total` rates, and the last one is the least.
 * In the others, warm-up multiplies the first w updates by (u + 1) / (w + 1) ... and the schedule
 * proper begins after it.
 */
#include "base/base.h"
#include <hod/schedule.h>
#include <math.h>

static const char *const names[] = {"constant", "step", "cosine", "onecycle"};

const char *hod_schedule_name(hod_schedule_kind kind)
{
    return (unsigned)kind < (unsigned)HOD_COUNT(names) ? names[kind] : "?";
}

int hod_schedule_resolve(hod_schedule *s, int64_t updates_per_epoch)
{
    const char *name = hod_schedule_name(s->kind);
    if (*name == '?')
        return HOD_FAIL_RC(ARGUMENT, "schedule: unknown kind %d", (int)s->kind);
    if (s->total == 0 && s->epochs > 0)
        s->total = llround(s->epochs * (double)updates_per_epoch);
    bool needs_total = s->kind == HOD_SCHEDULE_COSINE || s->kind == HOD_SCHEDULE_ONE_CYCLE;
    if (s->total < 0 || (needs_total && s->total < 1))
        return HOD_FAIL_RC(ARGUMENT, "schedule %s: %lld updates in all, at least 1 needed", name,
                           (long long)s->total);
    if (s->gamma == 0)
        s->gamma = 0.1;
    if (s->div == 0)
        s->div = 25;
    if (s->final_div == 0)
        s->final_div = 1e4;
    if (s->kind == HOD_SCHEDULE_ONE_CYCLE && s->warmup == 0)
        s->warmup = 0.3;
    if (s->kind == HOD_SCHEDULE_STEP && s->every < 1)
        return HOD_FAIL_RC(ARGUMENT, "schedule step: every = %lld, must be positive",
                           (long long)s->every);
    if (!(s->warmup >= 0) || (s->warmup > 0 && s->warmup < 1 && s->total == 0))
        return HOD_FAIL_RC(ARGUMENT, "schedule %s: a warmup of %g of %lld updates", name, s->warmup,
                           (long long)s->total);
    if (needs_total && s->warmup >= 1 && s->warmup >= (double)s->total)
        return HOD_FAIL_RC(ARGUMENT, "schedule %s: warmup of %g updates leaves none of %lld", name,
                           s->warmup, (long long)s->total);
    if (!(s->div > 0) || !(s->final_div > 0) || !(s->gamma > 0) || !(s->final >= 0))
        return HOD_FAIL_RC(ARGUMENT, "schedule %s: div %g, final_div %g, gamma %g, final %g", name,
                           s->div, s->final_div, s->gamma, s->final);
    return 0;
}

/* From a at t = 0 to b at t = 1 along half a cosine. */
static double along_cosine(double a, double b, double t)
{
    return b + (a - b) / 2 * (1 + cos(3.14159265358979323846 * t));
}

static double warmup_updates(const hod_schedule *s)
{
    return s->warmup >= 1 ? floor(s->warmup) : floor(s->warmup * (double)s->total);
}

static double one_cycle(const hod_schedule *s, double u)
{
    double first = 1 / s->div, least = first / s->final_div, end = (double)s->total - 1;
    double peak = (s->warmup >= 1 ? s->warmup : s->warmup * (double)s->total) - 1;
    u = fmin(u, end);
    if (u < peak)
        return along_cosine(first, 1, u / peak);
    return end > peak ? along_cosine(1, least, (u - HOD_MAX(peak, 0)) / (end - HOD_MAX(peak, 0)))
                      : 1;
}

double hod_schedule_factor(const hod_schedule *s, int64_t update)
{
    double u = (double)HOD_MAX(update, 0);
    hod_schedule whole = {0}; /* with its defaults, and known to be possible */
    if (!hod__null("schedule", "the schedule", s))
        whole = *s;
    if (!s || hod_schedule_resolve(&whole, 0) != 0)
        return NAN;
    s = &whole;
    if (s->kind == HOD_SCHEDULE_ONE_CYCLE)
        return one_cycle(s, u);
    double w = warmup_updates(s);
    if (u < w)
        return (u + 1) / (w + 1);
    u -= w;
    if (s->kind == HOD_SCHEDULE_STEP)
        return pow(s->gamma, floor(u / (double)s->every));
    if (s->kind == HOD_SCHEDULE_COSINE)
        return along_cosine(1, s->final, fmin(u / ((double)s->total - w), 1));
    return 1;
}
