/* The inside of scopes: any object with a release function can belong to one. */
#ifndef HOD_BASE_SCOPE_H
#define HOD_BASE_SCOPE_H

#include <hod/scope.h>

/* Gives `object` to the innermost scope of this thread. -1 when the stack cannot grow (the object
 * is then released). Without any open scope it belongs to the thread, until hod_finish. */
int hod__scope_own(void *object, void (*release)(void *object));
/* Number of objects owned by this thread's scopes (tests and leak reports). */
int64_t hod__scope_live(void);
/* Runs f when this thread ends or calls hod_finish, once however often it is asked; for
 * thread-local state that owns something. 0 or -1. */
int hod__at_thread_end(void (*f)(void));
/* Releases all that this thread owns and runs its endings; open scopes stay open, emptied. */
void hod__thread_end(void);

#endif
