/* How the eager kernels lay out each value: what decides whether a reshape needs a copy.
 *
 *     hod_strides strides;
 *     if (!hod__node_strides(g, r, known, &strides)) ...      // a reshape that is no view
 */
#ifndef HOD_GRAPH_NODE_STRIDES_H
#define HOD_GRAPH_NODE_STRIDES_H

#include "graph/graph.h"

typedef struct hod_strides {
    int64_t of[HOD_MAX_DIMS]; /* elements */
} hod_strides;

/* Strides of node r, given those of all nodes before it. Inputs have theirs, effects those of the
 * input they change, views follow from their input, everything else is row-major. False when r is
 * a view that its input's strides do not allow; *out is then row-major. */
bool hod__node_strides(const hod_graph *g, hod_ref r, const hod_strides *known, hod_strides *out);
/* As above for a view that is not a node yet: op of a tensor with this meta and these strides. */
bool hod__view_node_strides(hod_op op, const hod_attrs *attrs, const hod_meta *in,
                            const hod_strides *in_strides, const hod_meta *meta, hod_strides *out);

#endif
