/* Copying a graph while changing it: what the rewrites of lowering share.
 *
 *     hod_copier w;
 *     hod__copy_begin(&w, g, context);
 *     hod__copy_nodes(&w, operand);      // operand says what each input of each node becomes
 *     hod__copy_outputs(&w);
 *     return hod__copy_finish(&w);
 *
 * A failure is noted and everything after it does nothing, so only the end is looked at.
 */
#ifndef HOD_CODEGEN_LOWER_COPY_H
#define HOD_CODEGEN_LOWER_COPY_H

#include "codegen/lower.h"

typedef struct hod_copier hod_copier;

/* The new node that input i of old node `user` becomes; may add nodes. */
typedef hod_ref hod_copy_operand(hod_copier *w, hod_ref user, int i);
/* What stands for old node r, whose copy is `copy`; may add nodes. */
typedef hod_ref hod_copy_result(hod_copier *w, hod_ref r, hod_ref copy);

struct hod_copier {
    const hod_graph *from;
    hod_graph *to;
    hod_ref *map;            /* old node -> new */
    hod_ref *copy;           /* old node -> its row-major copy, or again-clone */
    hod_ref *when;           /* old node at which the clone was made */
    hod_copy_result *result; /* NULL: the copy itself */
    void *context;           /* the rewrite's own */
    bool failed;
};

void hod__copy_begin(hod_copier *w, const hod_graph *g, void *context);
void hod__copy_nodes(hod_copier *w, hod_copy_operand *operand);
/* Returns what from's outputs became. */
void hod__copy_outputs(hod_copier *w);
/* The new graph, or NULL. Frees the maps. */
hod_graph *hod__copy_finish(hod_copier *w);
/* Adds an operator, with the place and flags of old node `like`. */
hod_ref hod__copy_add(hod_copier *w, hod_op op, const hod_attrs *attrs, int n, const hod_ref *in,
                      hod_ref like);

#endif
