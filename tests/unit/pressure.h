/* The n-th allocation fails, for all n: every failure is an error for want of memory that leaves
 * nothing behind, up to the run that has all it asks for.
 *
 *     static int make_one(void *context) { ... return 0 or -1; }
 *     CHECK(every_allocation_fails(make_one, NULL) > 20);
 */
#ifndef HOD_TESTS_PRESSURE_H
#define HOD_TESTS_PRESSURE_H

#include "base/base.h"
#include "base/scope.h"
#include "harness.h"
#include <hod/memory.h>

/* How many failed before the run that did not. */
static inline int64_t every_allocation_fails(int (*run)(void *context), void *context)
{
    int64_t live = hod__scope_live();
    for (int64_t n = 0; n < 100000; n++) {
        hod__alloc_fail_after = n;
        int rc = run(context);
        hod__alloc_fail_after = -1;
        EQ_INT(hod__scope_live(), live);
        if (rc == 0 && hod_error())
            FAIL("allocation %lld failed, and the run did not: %s", (long long)n, hod_error());
        if (rc == 0)
            return n;
        if (hod_error_kind_pending() != HOD_ERROR_MEMORY)
            FAIL("allocation %lld: %s", (long long)n, hod_error() ? hod_error() : "no error");
        hod_error_take(NULL);
    }
    FAIL("100000 allocations, and not done");
}

#endif
