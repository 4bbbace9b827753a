/* The inside of modules, for the files of this layer. */
#ifndef HOD_NN_NN_H
#define HOD_NN_NN_H

#include "autograd/autograd.h"
#include <hod/functional.h>
#include <hod/nn.h>

enum { HOD_NAME_MAX = sizeof(((hod_named *)0)->name) };

/* The module after m in a walk from the root down; NULL at the end. */
hod_module *hod__module_next(const hod_module *root, hod_module *m);

/* Runs a module that has hooks. */
hod_tensor *hod__module_call_hooked(hod_module *m, hod_tensor *x);
void hod__module_hooks_free(hod_module *m);

/* Draws a parameter of m, or resets a buffer. 0 or -1. */
int hod__init_parameter(const hod_module *m, const hod_parameter *p, uint64_t seed);
int hod__init_buffer(const hod_buffer *b);

/* Batch norms, for the functions that treat a whole tree. */
void hod__batch_norm_set_mode(hod_module *m, hod_batch_norm_mode mode); /* others: nothing */
int hod__batch_norm_discard(hod_module *m);

#endif
