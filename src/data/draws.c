/* The random numbers of a sample: Philox blocks counted from 0 for (seed, epoch, index, stream).
 *
 *     key      seed, low and high half, with a constant that keeps these numbers apart from the
 *              operators' and the shuffle's
 *     counter  block | index low | index high (24 bits) and stream (8 bits) | epoch
 *
 * Nothing is shared between samples, so threads and resumption have nothing to keep in step.
 */
#include "data/data.h"
#include <hod/random.h>

static const uint32_t data_domain = 0x64617461; /* "data" */

hod_draws hod__draws_stream(uint64_t seed, int64_t epoch, int64_t index, uint8_t stream)
{
    uint64_t i = (uint64_t)index;
    return (hod_draws){
        .key = {(uint32_t)seed ^ data_domain, (uint32_t)(seed >> 32)},
        .counter = {0, (uint32_t)i, (uint32_t)(i >> 32 & 0xffffff) | (uint32_t)stream << 24,
                    (uint32_t)epoch},
    };
}

hod_draws hod_draws_of(uint64_t seed, int64_t epoch, int64_t index)
{
    return hod__draws_stream(seed, epoch, index, 0);
}

uint64_t hod_draw_bits(hod_draws *d)
{
    if (d->left == 0) {
        hod_philox(d->counter, d->key, d->bits);
        d->counter[0]++;
        d->left = 4;
    }
    d->left -= 2;
    return (uint64_t)d->bits[d->left + 1] << 32 | d->bits[d->left];
}

int64_t hod_draw_below(hod_draws *d, int64_t n)
{
    if (n < 2)
        return 0;
    /* Lemire's multiplication: the high word of x*n is uniform once the few x whose low word lies
     * under 2^64 mod n are refused. */
    uint64_t range = (uint64_t)n, refuse = -range % range;
    for (;;) {
        __extension__ unsigned __int128 product = (unsigned __int128)hod_draw_bits(d) * range;
        if ((uint64_t)product >= refuse)
            return (int64_t)(product >> 64);
    }
}

double hod_draw_unit(hod_draws *d)
{
    return (double)(hod_draw_bits(d) >> 11) * 0x1p-53;
}
