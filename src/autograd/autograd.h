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

/* A value kept for the derivative, and the version it had. Inside a checkpointed function a value
 * is `hollow`: not kept, but entry `index` of what running the function again gives. */
typedef struct hod_saved {
    hod_tensor *value;             /* counted; NULL when not needed, or hollow */
    struct hod_checkpoint *hollow; /* counted; NULL: not hollow */
    int64_t index;
    uint32_t version;
    bool leaf; /* value is the leaf's own handle rather than an alias */
} hod_saved;

/* Where the gradient of one input goes: to a result of a node, to a leaf,
 * or (both NULL) nowhere. */
typedef struct hod_edge {
    hod_grad_node *node; /* counted */
    int output;
    hod_tensor *leaf; /* counted */
    hod_saved saved;
} hod_edge;

typedef struct hod_hook_entry {
    hod_grad_hook *call;
    void *context;
    int64_t number; /* which it is of all that were added: entries ascend */
} hod_hook_entry;

typedef struct hod_hooks {
    hod_hook_entry *items;
    int64_t n, cap, added;
} hod_hooks;

/* A node that is no operator: a user's function. */
typedef struct hod_custom {
    /* From g[outputs] (NULL: none arrived) the gradients of the inputs into dx[n], which holds NULL
     * where one is wanted and HOD_NO_GRADIENT elsewhere; what stays NULL is none. 0 or -1. */
    int (*backward)(hod_grad_node *n, hod_tensor *const *g, hod_tensor **dx, bool create_graph);
    void (*release)(void *state);
} hod_custom;

/* One result of a node. */
typedef struct hod_grad_result {
    hod_meta meta;
    hod_hooks hooks;
    struct hod_grad_meta *fields; /* not counted; the result's, NULL once it is gone */
    hod_tensor *gradient;         /* counted; while a backward runs: sum of what has arrived */
} hod_grad_result;

struct hod_grad_node { /* typedef in <hod/autograd.h> */
    atomic_int refs;
    hod_op op; /* HOD_OPS for a custom node */
    int n;     /* inputs */
    int outputs;
    bool consumed, failed; /* failed: by a backward that did not come to its end */
    uint64_t sequence;
    hod_attrs attrs;
    hod_saved y; /* an operator's result */
    hod_origin from;
    const hod_custom *custom;
    void *state;
    /* While a backward runs. */
    uint64_t visit; /* number of the backward that found this node */
    bool needed;
    hod_grad_node *next_dead;
    hod_edge *edge;          /* n, in the same block */
    hod_meta *meta;          /* n: dtype and shape of the inputs */
    hod_grad_result *result; /* outputs */
};

/* What hod_tensor.autograd points at. */
struct hod_grad_meta {
    hod_grad_node *grad_fn; /* counted; NULL for a leaf */
    int output;             /* which result of it */
    hod_grad_slot slot;     /* leaf, or retain_grad */
    hod_tensor *rows, *values; /* counted; a leaf's row-sparse gradient, or NULL */
    bool retain_grad;
    char *name;      /* of a leaf that is a module's parameter; NULL: not known */
    hod_hooks hooks; /* of a leaf; those of a result live in its node */
    /* While a backward runs, leaves only. */
    hod_tensor *gradient;
    uint64_t visit;
    int64_t waiting; /* edges whose gradient has not arrived */
    /* While a hod_grad_of runs: index + 1 in its inputs, and its visit;
     * another one's means none. */
    int64_t target;
    uint64_t target_visit;
};

/* Makes the operators of all threads listen to the tape: before there is a leaf. */
void hod__tape_install(void);
/* Links `out` to the inputs of the call, as the hook does after an operator ran; the recorder calls
 * it to rebuild the links of a replayed prefix. Does nothing when no input requires a gradient or
 * gradients are disabled. 0 or -1. */
int hod__tape_note(const hod_op_call *c, hod_tensor *out);
/* Says that the tape is about to be looked at: a replay that went without one builds it now. */
void hod__tape_wanted(void);
/* Links out[outputs] to in[n] through a custom node, which owns `state` from here on, also on
 * failure; NULL in `out` is skipped. `name` must outlive it. The node, or NULL. */
hod_grad_node *hod__tape_note_custom(const hod_custom *custom, const char *name, void *state, int n,
                                     hod_tensor *const *in, int outputs, hod_tensor *const *out);

/* The name of the custom operator whose forward or backward this thread runs, or NULL. */
const char *hod__custom_running(void);

bool hod__has_grad_fn(const hod_tensor *t);
/* Forgets how t was computed: it no longer requires a gradient. */
void hod__drop_grad_fn(hod_tensor *t);
/* The gradient slot of a leaf (made when absent); NULL with an error when memory is gone. */
hod_grad_slot *hod__grad_slot(hod_tensor *leaf);

/* ---- between the files of this layer ---- */
struct hod_grad_meta *hod__grad_meta(hod_tensor *t); /* made when absent */
int hod__leaf_set_name(hod_tensor *t, const char *name); /* for printed graphs; copied. 0 or -1 */
void hod__grad_node_retain(hod_grad_node *n);
void hod__grad_node_release(hod_grad_node *n); /* frees what falls to zero without recursion */
void hod__grad_node_consume(hod_grad_node *n); /* drops saved values and edges */
/* "relu at file:line", without the place where it is not known. */
const char *hod__origin_text(const hod_origin *o, char *buf, size_t cap);
#define HOD_ORIGIN_TEXT(o) hod__origin_text(o, (char[192]){0}, 192)
/* Keeps t for n's derivative: a leaf as it is, all else without its history. 0 or -1. */
int hod__save(hod_saved *s, hod_tensor *t);
int hod__save_result(hod_saved *s, hod_tensor *t); /* of what is not linked yet: never a leaf */
void hod__saved_drop(hod_saved *s);
/* A saved value for reading, owned by the innermost scope; with `link` it is tied again to result
 * `output` of `maker`. NULL with an error when it was changed in place since. `what` names it. */
hod_tensor *hod__saved_open(const hod_origin *who, const hod_saved *s, hod_grad_node *maker,
                            int output, bool link, const char *what);

/* One walk back: from results to leaves, or to the targets, tensors whose fields say so. */
typedef struct hod_backward_job {
    uint64_t visit; /* from hod__backward_visit */
    int n;
    hod_tensor *const *from;
    hod_tensor *const *gradient; /* n, in the shapes and types of `from` */
    bool retain, create;
    int targets;
    hod_tensor **out; /* targets: counted, NULL where none arrived */
} hod_backward_job;
uint64_t hod__backward_visit(void); /* a number for one walk */
int hod__backward_run(const hod_backward_job *job);

/* ---- checkpoints (checkpoint.c) ---- */
/* The checkpointed function whose forward or recomputation this thread runs now, or NULL. */
extern _Thread_local struct hod_checkpoint *hod__checkpoint_now;
/* Says that an operator was noted: counted at first, compared later. 0 or -1. */
int hod__checkpoint_step(const hod_op_call *c, const hod_tensor *out);
/* Saves t hollow, or, when running again, gives it to those that wait for it. 0 or -1. */
int hod__checkpoint_save(hod_saved *s, hod_tensor *t);
/* The value of a hollow one, not counted; NULL with an error when it cannot be had again. */
hod_tensor *hod__checkpoint_value(const hod_saved *s, uint32_t *version);
void hod__checkpoint_drop(hod_saved *s);
/* Gives back what was computed again since `mark`, at the end of a backward. */
struct hod_checkpoint *hod__checkpoint_mark(void);
void hod__checkpoint_sweep(struct hod_checkpoint *mark);

/* -1 with an error when g holds a NaN or Inf. `what` it is: "the gradient for input 0"; `who` made
 * it, NULL for nobody. */
int hod__anomaly_check(hod_tensor *g, const hod_origin *who, const char *what);
extern _Thread_local bool hod__anomaly;
/* True while any hook exists: backward then does more than its graph tells. */
bool hod__hooks_exist(void);
void hod__hooks_free(hod_hooks *hooks);
void hod__rows_drop(struct hod_grad_meta *m);
/* True while a backward runs that adds to the gradients of all leaves it reaches. */
bool hod__backward_accumulates(void);

#endif
