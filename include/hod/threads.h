/* Threads: how many compute at once.
 *
 *     hod_set_threads(2);                    // before the first operator
 *
 * Until it is set, OMP_NUM_THREADS says, or else every core works.
 */
#ifndef HOD_THREADS_H
#define HOD_THREADS_H

#include <hod/error.h>

/* Worker threads of kernels and library calls, 1 to 4096. 0 or -1. */
HOD_API int hod_set_threads(int n);

#ifndef HOD_NO_PLACES
#define hod_set_threads(...) HOD_PLACED(int, hod_set_threads(__VA_ARGS__))
#endif

#endif
