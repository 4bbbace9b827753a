/* Writing a graph anew, node by node, while a visitor proposes something better.
 *
 *     static hod_ref drop_double_neg(hod_rewrite *w, hod_ref r)
 *     {
 *         hod_ref x = hod__node_in(w->g, r)[0];            // already simplified itself
 *         return is_neg(w->g, r) && is_neg(w->g, x) ? hod__node_in(w->g, x)[0] : r;
 *     }
 *     bool opt_neg(hod_graph *g) { return hod__rewrite(g, drop_double_neg, NULL); }
 *
 * The visitor sees each node after its inputs have been rewritten and after it was appended to the
 * new graph; what it replaces is dead there and falls away at the end. Nodes that it appends are
 * visited too, so the result is a fixed point of its rules.
 */
#ifndef HOD_GRAPH_REWRITE_H
#define HOD_GRAPH_REWRITE_H

#include "graph/node_strides.h"

typedef struct hod_rewrite hod_rewrite;
/* Looks at node r of w->g. Returns the node that is to stand for it, of equal type and shape, or r
 * (or HOD_NO_REF) to leave it. Not called for inputs and effects. */
typedef hod_ref hod_visit(hod_rewrite *w, hod_ref r);

struct hod_rewrite {
    hod_graph *g;         /* being written; read freely, append through hod__rewrite_op */
    void *context;        /* the pass's own */
    hod_strides *strides; /* of each node of g */
    /* inner */
    int64_t n_strides, cap_strides;
    const hod_graph *old;
    hod_visit *visit;
    hod_ref *map;      /* old node -> new node */
    hod_ref *last_use; /* of each old node: the last reader; old->n when returned */
    hod_ref *holder;   /* of each input: the new node that has its value now */
    hod_ref *first_effect, *last_effect; /* of each input, old numbers; HOD_NO_REF: none */
    hod_ref at; /* the old node whose place, flags and position new nodes take */
    int depth;
    bool failed;
};

/* True when the rewriting changed g. On failure g is as it was and an error is pending. */
bool hod__rewrite(hod_graph *g, hod_visit *visit, void *context);

/* Appends op and visits it. A reshape that is no view of its input gets `contiguous` before it.
 * HOD_NO_REF when an input is HOD_NO_REF, or its value is no longer there to read (an effect has
 * changed it), or the operator's rule refuses it, or memory is out: the visitor then leaves the
 * node it looks at. */
hod_ref hod__rewrite_op(hod_rewrite *w, hod_op op, const hod_attrs *attrs, int n,
                        const hod_ref *in);

/* A `full` of this type and shape. */
hod_ref hod__rewrite_full(hod_rewrite *w, double value, const hod_meta *meta);
/* x with the type and shape of node r: x itself, an expand, a larger full; HOD_NO_REF when the
 * types differ or x does not broadcast so. */
hod_ref hod__rewrite_fit(hod_rewrite *w, hod_ref x, hod_ref r);

/* ---- what visitors ask ---- */

/* The graph input whose storage node r is or views, -1: none. */
int32_t hod__node_storage(const hod_graph *g, hod_ref r);
/* The old number of the first effect on that input behind w->at, beyond all where there is none. */
hod_ref hod__rewrite_next_change(const hod_rewrite *w, int32_t input);
static inline bool hod__node_is(const hod_graph *g, hod_ref r, hod_op op)
{
    return r >= 0 && g->nodes[r].op == (int)op;
}

#endif
