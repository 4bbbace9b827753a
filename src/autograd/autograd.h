/* The inside of autograd: nodes of the tape, what a tensor knows about them, and what the recorder
 * asks of them.
 *
 *     loss ──grad_fn──> sum ──edge──> mul ──edge──> leaf w (slot: sum, present)
 *                                      └──edge──> exp ──edge──> leaf x
 *
 * A result points at the node that made it; a node points at the nodes (or leaves) of its inputs
 * and at the values its derivative reads. Nothing points forward, so dropping the last result frees
 * the graph. Invariants:
 *   G1  a node's sequence number is greater than that of every node it points at; walking in
 *       descending order is therefore a topological order
 *   G2  a saved value never holds the node that saved it: results and inner inputs are kept as
 *       aliases without autograd fields, and relinked when they are read
 *   G3  consumed => no saved values and no edges
 */
#ifndef HOD_AUTOGRAD_AUTOGRAD_H
#define HOD_AUTOGRAD_AUTOGRAD_H

#include "ops/op.h"
#include <hod/autograd.h>

/* A value kept for the derivative, and the version it had. */
typedef struct hod_saved {
    hod_tensor *value; /* counted; NULL when not needed */
    uint32_t version;
    bool leaf; /* value is the leaf's own handle rather than an alias */
} hod_saved;

/* Where the gradient of one input goes: to a node, to a leaf, or (both NULL) nowhere. */
typedef struct hod_edge {
    hod_grad_node *node; /* counted */
    hod_tensor *leaf;    /* counted */
    hod_saved saved;
} hod_edge;

typedef struct hod_hook_entry {
    hod_grad_hook *call;
    void *context;
} hod_hook_entry;

typedef struct hod_hooks {
    hod_hook_entry *items;
    int64_t n, cap;
} hod_hooks;

/* A node that is no operator: a checkpointed function, a user's function. */
typedef struct hod_custom {
    const char *name;
    /* Gradients for all inputs into dx[n] (HOD_NO_GRADIENT where none flows). 0 or -1. */
    int (*backward)(void *state, hod_tensor *g, hod_tensor **dx, int n, bool create_graph);
    void (*release)(void *state);
} hod_custom;

struct hod_grad_node { /* typedef in <hod/autograd.h> */
    atomic_int refs;
    hod_op op; /* HOD_OPS for a custom node */
    int n;
    bool consumed;
    uint64_t sequence;
    hod_attrs attrs;
    hod_meta out; /* dtype and shape of the result */
    hod_saved y;
    const char *file; /* the forward call's place; NULL when not known */
    int line;
    const hod_custom *custom;
    void *state;
    hod_hooks hooks;
    struct hod_grad_meta *result; /* not counted; the result's fields, NULL once it is gone */
    /* While a backward runs. */
    hod_tensor *gradient; /* counted: sum of what has arrived */
    uint64_t visit;       /* number of the backward that found this node */
    bool needed;
    hod_grad_node *next_dead;
    hod_edge *edge; /* n, in the same block */
    hod_meta *meta; /* n: dtype and shape of the inputs */
};

/* What hod_tensor.autograd points at. */
struct hod_grad_meta {
    hod_grad_node *grad_fn; /* counted; NULL for a leaf */
    hod_grad_slot slot;     /* leaf, or retain_grad */
    bool retain_grad;
    hod_hooks hooks; /* of a leaf; those of a result live in its node */
    /* While a backward runs, leaves only. */
    hod_tensor *gradient;
    uint64_t visit;
    int64_t waiting; /* edges whose gradient has not arrived */
    int64_t target;  /* index + 1 in the inputs of hod_grad_of; 0: none */
};

/* Makes this thread's operators listen to the tape; cheap when they do already. */
void hod__tape_install(void);
/* Links `out` to the inputs of the call, as the hook does after an operator ran; the recorder calls
 * it to rebuild the links of a replayed prefix. Does nothing when no input requires a gradient or
 * gradients are disabled. 0 or -1. */
int hod__tape_note(const hod_op_call *c, hod_tensor *out);
/* Says that the tape is about to be looked at: a replay that went without one builds it now. */
void hod__tape_wanted(void);
/* Links `out` to `in` through a custom node, which owns `state` from here on, also on failure. */
int hod__tape_note_custom(const hod_custom *custom, void *state, int n, hod_tensor *const *in,
                          hod_tensor *out);

bool hod__has_grad_fn(const hod_tensor *t);
/* Forgets how t was computed: it no longer requires a gradient. */
void hod__drop_grad_fn(hod_tensor *t);
/* The gradient slot of a leaf (made when absent); NULL with an error when memory is gone. */
hod_grad_slot *hod__grad_slot(hod_tensor *leaf);
/* True while a checkpointed function runs for the second time: nothing counted may count again. */
bool hod__recomputing(void);

/* ---- between the files of this layer ---- */
struct hod_grad_meta *hod__grad_meta(hod_tensor *t); /* made when absent */
void hod__grad_node_retain(hod_grad_node *n);
void hod__grad_node_release(hod_grad_node *n); /* frees what falls to zero without recursion */
const char *hod__grad_node_name(const hod_grad_node *n);
void hod__grad_node_consume(hod_grad_node *n); /* drops saved values and edges */
/* A saved value for reading, owned by the innermost scope; with `link` it is tied to the graph
 * again. NULL with an error when the value was changed in place since. */
hod_tensor *hod__saved_open(hod_grad_node *n, const hod_saved *s, hod_grad_node *maker, bool link,
                            const char *what);
/* -1 with an error when g holds a NaN or Inf. */
int hod__anomaly_check(const hod_grad_node *n, int input, hod_tensor *g);
extern _Thread_local bool hod__anomaly;
/* True while any hook exists: backward then does more than its graph tells. */
bool hod__hooks_exist(void);
void hod__hooks_free(hod_hooks *hooks);

#endif
