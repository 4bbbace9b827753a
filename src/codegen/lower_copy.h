/* Copying a graph while changing it: what the rewrites of lowering share.
 *
 *     hod_copier w;
 *     hod__copy_begin(&w, g);
 *     for each node r: hod__copy_input(&w, r), or hod__copy_node(&w, r, inputs in the new graph)
 *     return hod__copy_finish(&w);
 *
 * A failure is noted and everything after it does nothing, so only the end is looked at.
 */
#ifndef HOD_CODEGEN_LOWER_COPY_H
#define HOD_CODEGEN_LOWER_COPY_H

#include "codegen/lower.h"

typedef struct hod_copier {
    const hod_graph *from;
    hod_graph *to;
    hod_ref *map;  /* old node -> new */
    hod_ref *copy; /* old node -> its row-major copy, or again-clone */
    hod_ref *when; /* old node at which the clone was made */
    bool failed;
} hod_copier;

bool hod__copy_begin(hod_copier *w, const hod_graph *g);
/* Returns what from's outputs became; the new graph, or NULL. Frees the maps. */
hod_graph *hod__copy_finish(hod_copier *w);
/* Adds an operator, with the place and flags of old node `like`. */
hod_ref hod__copy_add(hod_copier *w, hod_op op, const hod_attrs *attrs, int n, const hod_ref *in,
                      hod_ref like);
void hod__copy_input(hod_copier *w, hod_ref r);
void hod__copy_node(hod_copier *w, hod_ref r, const hod_ref *in);

#endif
