/* What compiling asks of the tape. */
#ifndef HOD_COMPILE_TAPE_LINKS_H
#define HOD_COMPILE_TAPE_LINKS_H

#include "ops/op.h"

/* Links out to the inputs as the tape does after an operator ran, whatever the mode now.
 * 0 or -1. */
int hod__links_note(const hod_op_call *c, hod_tensor *out);
/* True when t has a history that a backward could still go through. */
bool hod__links_open(const hod_tensor *t);
/* Uses up the history of t as a backward from it does. */
void hod__links_consume(hod_tensor *t);
/* Forgets everything autograd knows about t; it requires no gradient. */
void hod__links_drop(hod_tensor *t);
/* The slot of a leaf if it has one already, else NULL. */
hod_grad_slot *hod__links_slot(const hod_tensor *leaf);

#endif
