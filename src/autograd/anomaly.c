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

int hod__anomaly_check(const hod_grad_node *n, int input, hod_tensor *g)
{
    int64_t count = hod_tensor_numel(g);
    double *value = hod__alloc((size_t)HOD_MAX(count, 1), sizeof *value);
    if (!value)
        return -1;
    int rc = hod_read_doubles(g, value, count);
    for (int64_t k = 0; rc == 0 && k < count; k++) {
        if (isfinite(value[k]))
            continue;
        char place[160] = "";
        if (n->file)
            snprintf(place, sizeof place, " at %s:%d", n->file, n->line);
        rc = HOD_FAIL_RC(VALUE,
                         "backward of %s%s: the gradient for input %d %s is %s at element %lld",
                         hod__grad_node_name(n), place, input, HOD_SHAPE_TEXT(g),
                         isnan(value[k]) ? "NaN"
                         : value[k] > 0  ? "Inf"
                                         : "-Inf",
                         (long long)k);
    }
    free(value);
    return rc;
}
