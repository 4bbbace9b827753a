/* Which of the compiled inner loops this machine runs. */
#include "ops/rows.h"
#include "device/device.h"
#include <stdatomic.h>

const hod_rows *hod__rows_of(int k)
{
    if (k == 0)
        return &hod__rows_plain;
#ifdef __x86_64__
    if (k == 1 && hod__cpu_level() >= 1)
        return &hod__rows_v3;
    if (k == 2 && hod__cpu_level() >= 2)
        return &hod__rows_v4;
#endif
    return NULL;
}

static _Atomic(const hod_rows *) chosen; /* NULL: not yet; whoever comes first finds the same */

const hod_rows *hod__rows(void)
{
    const hod_rows *rows = atomic_load_explicit(&chosen, memory_order_relaxed);
    for (int k = 2; !rows; k--)
        rows = hod__rows_of(k);
    atomic_store_explicit(&chosen, rows, memory_order_relaxed);
    return rows;
}

int hod__rows_set(void)
{
    const hod_rows *rows = hod__rows();
    int k = 2;
    while (hod__rows_of(k) != rows)
        k--;
    return k;
}

void hod__rows_use(const hod_rows *rows)
{
    atomic_store_explicit(&chosen, rows, memory_order_relaxed);
}
