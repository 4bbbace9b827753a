/* Anomaly mode: which operator made the first NaN or Inf of a backward.
 *
 * Every gradient is read back as soon as its rule made it, so the message names the forward
 * operator, where it was called, and the element. */
#include "autograd/autograd.h"
#include <math.h>

_Thread_local bool hod__anomaly;

bool hod_detect_anomaly(bool on)
{
    bool before = hod__anomaly;
    hod__anomaly = on;
    return before;
}

static const char *name_of(double x)
{
    return isnan(x) ? "NaN" : x > 0 ? "Inf" : "-Inf";
}

int hod__anomaly_check(hod_tensor *g, const hod_origin *who, const char *what)
{
    int64_t count = hod_tensor_numel(g);
    double *value = hod__alloc((size_t)HOD_MAX(count, 1), sizeof *value);
    if (!value)
        return -1;
    int rc = hod_read_doubles(g, value, count);
    for (int64_t k = 0; rc == 0 && k < count; k++)
        if (!isfinite(value[k]))
            rc = HOD_FAIL_RC(VALUE, "backward%s%s: %s %s is %s at element %lld", who ? " of " : "",
                             who ? HOD_ORIGIN_TEXT(who) : "", what, HOD_SHAPE_TEXT(g),
                             name_of(value[k]), (long long)k);
    free(value);
    return rc;
}
