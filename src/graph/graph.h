/* The graph: one recorded step as a list of pure operators and a few effects.
 *
 * Nodes are numbered in recording order, so every input has a smaller number than its user: any
 * prefix is a valid program and a linear walk sees definitions first. Removing or adding nodes is
 * done by building a new list (hod__graph_compact), never by links that can dangle.
 *
 *     graph step {
 *       %0 = input f32 (64,784) "x"
 *       %1 = input f32 (784,256) "fc1.weight"
 *       %2 = matmul f32 (64,256) %0 %1
 *       %3 = relu f32 (64,256) %2
 *       %4 = full f32 () {value=0.5}
 *       %5 = accumulate f32 (784,256) %9 %8
 *       return %3
 *     }
 *
 * That text is the whole graph: it can be parsed back, and every debug build does so after every
 * pass. Effects: `assign dst src` and `accumulate slot g` name an input node as dst/slot; reads of
 * that input numbered before the effect see the old value, later reads use the effect's own node.
 * A view of the input made before the effect is a value like any other and stays the old one; the
 * pass lower_old_views makes it a copy where that matters.
 *
 * Inputs say more where it is not the default: "w" {role=parameter, strides=(1,64)}. Flags follow
 * as !backward and !keep, the user's place as a comment, # net.c:31.
 */
#ifndef HOD_GRAPH_GRAPH_H
#define HOD_GRAPH_GRAPH_H

#include "ops/op.h"
#include <stdio.h>

typedef int32_t hod_ref; /* a node's number; HOD_NO_REF: none */
#define HOD_NO_REF (-1)

enum hod_node_flags {
    HOD_NODE_BACKWARD = 1 << 0, /* recorded inside a backward span */
    HOD_NODE_KEEP = 1 << 1,     /* must be materialised: returned, or an effect reads it */
};

/* What a graph input is; the planner reports memory by it. */
typedef enum hod_input_role {
    HOD_INPUT_DATA,      /* changes every call */
    HOD_INPUT_PARAMETER, /* a leaf that requires a gradient */
    HOD_INPUT_STATE,     /* buffers, optimizer state, random keys: real tensors that persist */
    HOD_INPUT_GRADIENT,  /* the sum of a hod_grad_slot */
} hod_input_role;

typedef struct hod_node {
    int16_t op; /* hod_op, or HOD_NODE_INPUT */
    uint8_t dtype;
    int8_t ndim;
    int16_t n_in;
    uint16_t flags;
    int32_t in; /* index of its first input in graph->edges */
    int64_t shape[HOD_MAX_DIMS];
    hod_attrs attrs;  /* valid for info->attrs */
    const char *file; /* the user's place, static string or NULL */
    int32_t line;
    int32_t input; /* for inputs: index in graph->inputs */
} hod_node;

enum { HOD_NODE_INPUT = -1 };

typedef struct hod_graph_input {
    hod_ref node;
    hod_input_role role;
    int64_t strides[HOD_MAX_DIMS]; /* elements; inputs may be views of anything */
    char name[64];                 /* "x", "fc1.weight"; for people */
} hod_graph_input;

typedef struct hod_graph {
    char name[32];
    hod_node *nodes;
    int64_t n, cap;
    hod_ref *edges; /* inputs of all nodes */
    int64_t n_edges, cap_edges;
    hod_graph_input *inputs;
    int64_t n_inputs, cap_inputs;
    hod_ref *outputs; /* returned values */
    int64_t n_outputs, cap_outputs;
} hod_graph;

hod_graph *hod__graph_new(const char *name);
void hod__graph_free(hod_graph *g); /* NULL is allowed */
hod_graph *hod__graph_copy(const hod_graph *g);

/* Appends; each returns the new node's number or HOD_NO_REF with an error. */
hod_ref hod__graph_input(hod_graph *g, const hod_meta *meta, const int64_t *strides,
                         hod_input_role role, const char *name);
hod_ref hod__graph_add(hod_graph *g, hod_op op, const hod_attrs *attrs, int n, const hod_ref *in,
                       const hod_meta *meta);
/* As above, the meta from the op's shape rule. */
hod_ref hod__graph_op(hod_graph *g, hod_op op, const hod_attrs *attrs, int n, const hod_ref *in);
int hod__graph_return(hod_graph *g, hod_ref value);

static inline hod_node *hod__node(const hod_graph *g, hod_ref r)
{
    return &g->nodes[r];
}
static inline hod_ref *hod__node_in(const hod_graph *g, hod_ref r)
{
    return &g->edges[g->nodes[r].in];
}
static inline bool hod__is_input(const hod_graph *g, hod_ref r)
{
    return g->nodes[r].op == HOD_NODE_INPUT;
}
static inline const hod_op_info *hod__node_info(const hod_graph *g, hod_ref r)
{
    return &hod__op_info[g->nodes[r].op]; /* not for inputs */
}
hod_meta hod__node_meta(const hod_graph *g, hod_ref r);
/* Equal type and shape? */
bool hod__same_meta(const hod_graph *a, hod_ref x, const hod_graph *b, hod_ref y);
int64_t hod__node_numel(const hod_graph *g, hod_ref r);
int64_t hod__node_bytes(const hod_graph *g, hod_ref r);

/* Redirects every use (edges and outputs) of node i to map[i], drops nodes nobody reaches from
 * outputs and effects, renumbers. `map` has g->n entries with map[i] <= i, or is NULL (only drop).
 * Inputs stay, used or not. True when anything changed. */
bool hod__graph_compact(hod_graph *g, const hod_ref *map);

/* Number of uses of each node, outputs counted; caller frees. NULL with an error. */
int32_t *hod__graph_uses(const hod_graph *g);

/* ---- text ---- */
int hod__graph_print(const hod_graph *g, hod_text *out);
hod_graph *hod__graph_parse(const char *text); /* NULL with "graph:line:col: ..." */
bool hod__graph_equal(const hod_graph *a, const hod_graph *b);
/* Structure and sizes; names, places and roles left out. */
uint64_t hod__graph_hash(const hod_graph *g);

/* ---- validity ---- 0, or -1 with an error that prints the faulty node */
int hod__graph_validate(const hod_graph *g);

/* ---- slow twin ---- runs node by node through the eager kernels. in: one real tensor an input;
 * out: one an output, owned by the innermost scope. Effects are applied. */
int hod__graph_interpret(const hod_graph *g, hod_tensor *const *in, hod_grad_slot *const *slots,
                         hod_tensor **out);

/* ---- passes ---- */
typedef struct hod_pass {
    const char *name, *doc;
    bool (*run)(hod_graph *g); /* true: progress. A failing pass leaves g as it was. */
    bool off;                  /* runs only when HOD_ENABLE names it */
} hod_pass;
extern const hod_pass hod__passes[];
extern const int hod__n_passes;
const hod_pass *hod__pass_of(const char *name); /* NULL: no such pass */
/* Runs one pass and validates: an error names the pass, "after opt_cse: ...". In debug builds the
 * text is parsed back and compared. 1: progress, 0: none, -1: failed. */
int hod__graph_run_pass(hod_graph *g, const hod_pass *pass);
/* Runs passes.def in order until none makes progress. Comma lists in the environment (or "all"):
 * HOD_PRINT names passes before and after which the graph is printed when they change it
 * ("recorded": what came in), HOD_SKIP those left out, HOD_ENABLE those that are off by default.
 * 0 or -1. */
int hod__graph_optimize(hod_graph *g);

/* ---- random graphs, for tests and the fuzzer ---- deterministic in seed; every dtype,
 * broadcasting, views, reductions; all values stay finite and away from kinks. */
hod_graph *hod__graph_random(uint64_t seed, int nodes);
/* Inputs for it: real tensors of the recorded strides, owned by the innermost scope. The names of
 * inputs say what kind of values they want, see random_graph.c. 0 or -1. */
int hod__graph_random_inputs(const hod_graph *g, uint64_t seed, hod_tensor **in);

#endif
