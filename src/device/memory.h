/* The CPU's caching allocator: blocks cut out of segments that are kept for reuse.
 *
 * Invariants, whenever the lock is free:
 *   M1  a segment is exactly covered by its blocks, in address order, each a multiple of 64 bytes
 *   M2  two neighbouring blocks of a segment are never both free
 *   M3  allocated = sum of live blocks <= reserved = sum of segments <= limit (when there is one)
 */
#ifndef HOD_DEVICE_MEMORY_H
#define HOD_DEVICE_MEMORY_H

#include <hod/memory.h>

/* A block of at least `bytes`, 64-byte aligned, uninitialised; never NULL for 0 bytes. NULL with
 * HOD_ERROR_MEMORY past the limit or when the system has no more. */
void *hod__memory_alloc(int64_t bytes);
void hod__memory_release(void *p);
/* Checks M1 to M3 (tests); false when one is broken. */
bool hod__memory_check(void);

#endif
