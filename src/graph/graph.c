/* Building a graph, and the one way to change it: write the list anew.
 *
 * Nodes, edges, inputs and outputs are four flat arrays. A pass never unlinks a node; it says in a
 * map which value replaces which, and hod__graph_compact walks the list once backwards to see what
 * is reached and once forwards to move it down:
 *
 *     map      %4 -> %2
 *     before   %0 input  %1 input  %2 exp %0  %3 neg %1  %4 exp %0  %5 add %2 %4   return %5
 *     after    %0 input  %1 input  %2 exp %0  %3 add %2 %2                         return %3
 *
 * Links from a value to its users were considered and left out: they are a second truth that every
 * pass has to keep, and counting uses is one walk.
 */
#include "graph/graph.h"

hod_graph *hod__graph_new(const char *name)
{
    hod_graph *g = hod__alloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->cap_edges = g->cap_outputs = 8; /* never NULL: an empty list has an address as well */
    g->edges = hod__alloc((size_t)g->cap_edges, sizeof *g->edges);
    g->outputs = hod__alloc((size_t)g->cap_outputs, sizeof *g->outputs);
    if (!g->edges || !g->outputs) {
        hod__graph_free(g);
        return NULL;
    }
    if (name)
        snprintf(g->name, sizeof g->name, "%s", name);
    return g;
}

void hod__graph_free(hod_graph *g)
{
    if (!g)
        return;
    free(g->nodes);
    free(g->edges);
    free(g->inputs);
    free(g->outputs);
    free(g);
}

/* A copy of n elements in *to; the capacity is n. 0 or -1. */
static int copy_array(void *to, const void *from, int64_t n, size_t size)
{
    void *copy = hod__alloc((size_t)n, size);
    if (!copy)
        return -1;
    if (n > 0)
        memcpy(copy, from, (size_t)n * size);
    memcpy(to, &copy, sizeof copy);
    return 0;
}

hod_graph *hod__graph_copy(const hod_graph *g)
{
    hod_graph *c = hod__alloc(1, sizeof *c);
    if (!c)
        return NULL;
    memcpy(c->name, g->name, sizeof c->name);
    if (copy_array(&c->nodes, g->nodes, g->n, sizeof *g->nodes) ||
        copy_array(&c->edges, g->edges, g->n_edges, sizeof *g->edges) ||
        copy_array(&c->inputs, g->inputs, g->n_inputs, sizeof *g->inputs) ||
        copy_array(&c->outputs, g->outputs, g->n_outputs, sizeof *g->outputs)) {
        hod__graph_free(c);
        return NULL;
    }
    c->n = c->cap = g->n;
    c->n_edges = c->cap_edges = g->n_edges;
    c->n_inputs = c->cap_inputs = g->n_inputs;
    c->n_outputs = c->cap_outputs = g->n_outputs;
    return c;
}

/* ---- appending ------------------------------------------------------------------------------- */

static hod_node *append_node(hod_graph *g, int op, const hod_meta *meta)
{
    if (g->n >= INT32_MAX)
        return HOD_FAIL(ARGUMENT, "graph: more than %d nodes", INT32_MAX);
    if (meta->ndim < 0 || meta->ndim > HOD_MAX_DIMS)
        return HOD_FAIL(ARGUMENT, "graph: %d dimensions, at most %d", meta->ndim, HOD_MAX_DIMS);
    hod_node *node = hod__push(&g->nodes, &g->n, &g->cap, sizeof *node);
    if (!node)
        return NULL;
    node->op = (int16_t)op;
    node->dtype = (uint8_t)meta->dtype;
    node->ndim = (int8_t)meta->ndim;
    memcpy(node->shape, meta->shape, (size_t)meta->ndim * sizeof *node->shape);
    node->in = (int32_t)g->n_edges;
    hod__place(&node->file, &node->line);
    return node;
}

hod_ref hod__graph_input(hod_graph *g, const hod_meta *meta, const int64_t *strides,
                         hod_input_role role, const char *name)
{
    hod_graph_input *input = hod__push(&g->inputs, &g->n_inputs, &g->cap_inputs, sizeof *input);
    if (!input)
        return HOD_NO_REF;
    hod_node *node = append_node(g, HOD_NODE_INPUT, meta);
    if (!node) {
        g->n_inputs--;
        return HOD_NO_REF;
    }
    node->input = (int32_t)(g->n_inputs - 1);
    input->node = (hod_ref)(g->n - 1);
    input->role = role;
    if (strides)
        memcpy(input->strides, strides, (size_t)meta->ndim * sizeof *strides);
    else
        hod__row_major(meta->ndim, node->shape, input->strides);
    if (name)
        snprintf(input->name, sizeof input->name, "%s", name);
    return input->node;
}

hod_ref hod__graph_add(hod_graph *g, hod_op op, const hod_attrs *attrs, int n, const hod_ref *in,
                       const hod_meta *meta)
{
    const hod_op_info *info = &hod__op_info[op];
    if (n > HOD_OP_MAX_INPUTS || (info->arity >= 0 ? n != info->arity : n < 1)) {
        HOD_FAIL(ARGUMENT, "graph: %s does not take %d inputs", info->name, n);
        return HOD_NO_REF;
    }
    for (int i = 0; i < n; i++)
        if (in[i] < 0 || in[i] >= g->n) {
            HOD_FAIL(ARGUMENT, "graph: input %d of %s is %%%d, there are %lld nodes", i, info->name,
                     in[i], (long long)g->n);
            return HOD_NO_REF;
        }
    int64_t edges = g->n_edges;
    for (int i = 0; i < n; i++) {
        hod_ref *edge = hod__push(&g->edges, &g->n_edges, &g->cap_edges, sizeof *edge);
        if (!edge) {
            g->n_edges = edges;
            return HOD_NO_REF;
        }
        *edge = in[i];
    }
    hod_node *node = append_node(g, op, meta);
    if (!node) {
        g->n_edges = edges;
        return HOD_NO_REF;
    }
    node->n_in = (int16_t)n;
    node->in = (int32_t)edges;
    hod__attrs_copy(info->attrs, &node->attrs, attrs);
    return (hod_ref)(g->n - 1);
}

hod_ref hod__graph_op(hod_graph *g, hod_op op, const hod_attrs *attrs, int n, const hod_ref *in)
{
    hod_meta metas[HOD_OP_MAX_INPUTS], out;
    for (int i = 0; i < HOD_MIN(n, HOD_OP_MAX_INPUTS); i++) {
        if (in[i] < 0 || in[i] >= g->n)
            return HOD_NO_REF; /* an earlier failure flows through */
        metas[i] = hod__node_meta(g, in[i]);
    }
    if (n < 0 || n > HOD_OP_MAX_INPUTS || (hod__op_info[op].arity < 0 && n < 1)) {
        HOD_FAIL(ARGUMENT, "graph: %s does not take %d inputs", hod__op_info[op].name, n);
        return HOD_NO_REF;
    }
    if (hod__op_shape(op, attrs, n, metas, &out))
        return HOD_NO_REF;
    return hod__graph_add(g, op, attrs, n, in, &out);
}

int hod__graph_return(hod_graph *g, hod_ref value)
{
    if (value < 0 || value >= g->n)
        return HOD_FAIL_RC(ARGUMENT, "graph: return of %%%d, there are %lld nodes", value,
                           (long long)g->n);
    hod_ref *out = hod__push(&g->outputs, &g->n_outputs, &g->cap_outputs, sizeof *out);
    if (!out)
        return -1;
    *out = value;
    return 0;
}

/* ---- asking ---------------------------------------------------------------------------------- */

hod_meta hod__node_meta(const hod_graph *g, hod_ref r)
{
    const hod_node *node = hod__node(g, r);
    hod_meta meta = {.dtype = (hod_dtype)node->dtype, .ndim = node->ndim};
    memcpy(meta.shape, node->shape, sizeof meta.shape);
    return meta;
}

bool hod__same_meta(const hod_graph *a, hod_ref x, const hod_graph *b, hod_ref y)
{
    const hod_node *p = hod__node(a, x), *q = hod__node(b, y);
    return p->dtype == q->dtype && p->ndim == q->ndim &&
           memcmp(p->shape, q->shape, sizeof p->shape) == 0;
}

int64_t hod__node_numel(const hod_graph *g, hod_ref r)
{
    return hod__numel(g->nodes[r].ndim, g->nodes[r].shape);
}

int64_t hod__node_bytes(const hod_graph *g, hod_ref r)
{
    return hod__node_numel(g, r) * (int64_t)hod_dtype_bytes((hod_dtype)g->nodes[r].dtype);
}

int32_t *hod__graph_uses(const hod_graph *g)
{
    int32_t *uses = hod__alloc((size_t)g->n, sizeof *uses);
    if (!uses)
        return NULL;
    for (int64_t i = 0; i < g->n_edges; i++)
        uses[g->edges[i]]++;
    for (int64_t i = 0; i < g->n_outputs; i++)
        uses[g->outputs[i]]++;
    return uses;
}

static bool nodes_equal(const hod_graph *a, const hod_graph *b, hod_ref r)
{
    const hod_node *x = hod__node(a, r), *y = hod__node(b, r);
    if (x->op != y->op || x->dtype != y->dtype || x->ndim != y->ndim || x->n_in != y->n_in ||
        x->flags != y->flags || memcmp(x->shape, y->shape, sizeof x->shape) != 0)
        return false;
    if (x->op == HOD_NODE_INPUT)
        return x->input == y->input;
    return memcmp(hod__node_in(a, r), hod__node_in(b, r), (size_t)x->n_in * sizeof(hod_ref)) == 0 &&
           hod__attrs_equal(hod__node_info(a, r)->attrs, &x->attrs, &y->attrs);
}

bool hod__graph_equal(const hod_graph *a, const hod_graph *b)
{
    if (strcmp(a->name, b->name) != 0 || a->n != b->n || a->n_inputs != b->n_inputs ||
        a->n_outputs != b->n_outputs)
        return false;
    for (hod_ref r = 0; r < a->n; r++)
        if (!nodes_equal(a, b, r))
            return false;
    for (int64_t i = 0; i < a->n_inputs; i++) {
        const hod_graph_input *x = &a->inputs[i], *y = &b->inputs[i];
        if (x->node != y->node || x->role != y->role || strcmp(x->name, y->name) != 0 ||
            memcmp(x->strides, y->strides, sizeof x->strides) != 0)
            return false;
    }
    return a->n_outputs == 0 ||
           memcmp(a->outputs, b->outputs, (size_t)a->n_outputs * sizeof *a->outputs) == 0;
}

uint64_t hod__graph_hash(const hod_graph *g)
{
    uint64_t h = 0;
    for (hod_ref r = 0; r < g->n; r++) {
        const hod_node *node = hod__node(g, r);
        const int32_t head[] = {node->op, node->dtype, node->ndim, node->n_in, node->flags};
        h = hod__hash(head, sizeof head, h);
        h = hod__hash(node->shape, (size_t)node->ndim * sizeof *node->shape, h);
        if (node->op == HOD_NODE_INPUT) {
            const int64_t *strides = g->inputs[node->input].strides;
            h = hod__hash(strides, (size_t)node->ndim * sizeof *strides, h);
            continue;
        }
        h = hod__hash(&node->attrs, hod__attrs_info[hod__node_info(g, r)->attrs].bytes, h);
        h = hod__hash(hod__node_in(g, r), (size_t)node->n_in * sizeof(hod_ref), h);
    }
    return hod__hash(g->outputs, (size_t)g->n_outputs * sizeof *g->outputs, h);
}

/* ---- writing anew ---------------------------------------------------------------------------- */

/* Follows map to its end: to[i] is the node that stands for i. */
static void resolve(const hod_graph *g, const hod_ref *map, hod_ref *to)
{
    for (hod_ref i = 0; i < g->n; i++)
        to[i] = map && map[i] < i ? to[map[i]] : i;
}

static bool redirect(hod_graph *g, const hod_ref *to)
{
    bool changed = false;
    for (int64_t i = 0; i < g->n_edges; i++) {
        changed = changed || to[g->edges[i]] != g->edges[i];
        g->edges[i] = to[g->edges[i]];
    }
    for (int64_t i = 0; i < g->n_outputs; i++) {
        changed = changed || to[g->outputs[i]] != g->outputs[i];
        g->outputs[i] = to[g->outputs[i]];
    }
    for (hod_ref i = 0; i < g->n; i++)
        if (to[i] != i)
            g->nodes[to[i]].flags |= g->nodes[i].flags & HOD_NODE_KEEP;
    return changed;
}

/* Sets live[i] for what outputs and effects reach; inputs always are. */
static void mark_live(const hod_graph *g, bool *live)
{
    for (int64_t i = 0; i < g->n_outputs; i++)
        live[g->outputs[i]] = true;
    for (hod_ref r = (hod_ref)g->n; r-- > 0;) {
        if (hod__is_input(g, r) || hod__node_info(g, r)->class == HOD_EFFECT)
            live[r] = true;
        if (live[r])
            for (int i = 0; i < g->nodes[r].n_in; i++)
                live[hod__node_in(g, r)[i]] = true;
    }
}

/* Moves live nodes and their edges down; to[i] becomes the new number. */
static void move_down(hod_graph *g, const bool *live, hod_ref *to)
{
    int64_t n = 0, edges = 0;
    for (hod_ref r = 0; r < g->n; r++) {
        if (!live[r])
            continue;
        hod_node node = g->nodes[r];
        for (int i = 0; i < node.n_in; i++)
            g->edges[edges + i] = to[g->edges[node.in + i]];
        node.in = (int32_t)edges;
        edges += node.n_in;
        if (node.op == HOD_NODE_INPUT)
            g->inputs[node.input].node = (hod_ref)n;
        g->nodes[n] = node;
        to[r] = (hod_ref)n++;
    }
    for (int64_t i = 0; i < g->n_outputs; i++)
        g->outputs[i] = to[g->outputs[i]];
    g->n = n;
    g->n_edges = edges;
}

bool hod__graph_compact(hod_graph *g, const hod_ref *map)
{
    hod_ref *to = hod__alloc((size_t)g->n, sizeof *to);
    bool *live = hod__alloc((size_t)g->n, sizeof *live);
    bool changed = false;
    if (to && live) {
        int64_t n = g->n;
        resolve(g, map, to);
        changed = redirect(g, to);
        mark_live(g, live);
        move_down(g, live, to);
        changed = changed || g->n != n;
    }
    free(to);
    free(live);
    return changed;
}
