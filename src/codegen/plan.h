/* The memory plan: lifetimes in, offsets out; a pure function.
 *
 * A buffer lives from the call that writes it first to the call that reads it last, both included.
 * Two buffers whose lives meet never overlap. The peak is the arena's size, and it is exact:
 * a program allocates nothing else.
 */
#ifndef HOD_CODEGEN_PLAN_H
#define HOD_CODEGEN_PLAN_H

#include "base/base.h"

typedef struct hod_plan_buffer {
    int64_t bytes;       /* > 0 */
    int32_t first, last; /* calls, first <= last */
    int64_t offset;      /* out: multiple of 64 */
} hod_plan_buffer;

/* Sets every offset and *arena_bytes. 0, or -1 when memory is out. Never worse than the sum of
 * all buffers; tries several orders (size, lifetime, start) best-fit and keeps the smallest. */
int hod__plan(hod_plan_buffer *buffers, int64_t n, int64_t *arena_bytes);

/* Lower bound: the largest sum of bytes alive at one call. */
int64_t hod__plan_bound(const hod_plan_buffer *buffers, int64_t n);

#endif
