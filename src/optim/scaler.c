/* The gradient scaler: grows after `interval` good updates in a row, shrinks after a skipped one.
 *
 * It never changes inside a window, because it is only told of whole updates, and it never leaves
 * the normal numbers of f32, which is what losses are multiplied in. */
#include <hod/optim.h>

hod_scaler hod_scaler_fill(hod_scaler s)
{
    if (s.scale == 0)
        s.scale = 65536;
    if (s.growth == 0)
        s.growth = 2;
    if (s.backoff == 0)
        s.backoff = 0.5;
    if (s.interval == 0)
        s.interval = 2000;
    return s;
}

void hod_scaler_update(hod_scaler *s, bool skipped)
{
    double next = s->scale;
    s->good = skipped ? 0 : s->good + 1;
    if (skipped)
        next *= s->backoff;
    if (s->good == s->interval) {
        next *= s->growth;
        s->good = 0;
    }
    if (next >= 0x1p-126 && next <= 0x1p127)
        s->scale = next;
}
