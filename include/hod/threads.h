/* Threads: how many compute at once, and what threads of your own may do.
 *
 *     hod_set_threads(2);                    // before the first operator
 *
 * Until it is set, OMP_NUM_THREADS says, or else every core works.
 *
 * Any thread may call anything. A thread has its own scopes, gradient modes, random key and error;
 * when it ends, what it still owns is released, with or without hod_finish, so a result for another
 * thread is kept with hod_tensor_retain. Several threads may read a tensor at once, and build
 * graphs over the same leaves; what is written (values, a module, an optimizer, a compiled function
 * that is called) belongs to one at a time. That holds for a graph as well: a backward may run in
 * another thread than its forward, after it, but two at once must have no node and no leaf in
 * common, also where hod_grad_of leaves .grad alone. Threads that share weights therefore each make
 * a leaf over the same values, and their gradients are added afterwards:
 *
 *     hod_tensor *mine = hod_requires_grad(hod_detach(w), true);
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
