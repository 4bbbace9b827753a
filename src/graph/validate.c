/* Is it a graph? A pile of checks; the first that fails prints the node it is about.
 *
 *   G1  a node reads nodes with smaller numbers, as many as its operator takes
 *   G2  its shape and type are what its operator's rule makes of its inputs and parameters
 *   G3  inputs and their table name each other
 *   G4  an effect changes an input by a value of its shape: assign any but a gradient, accumulate a
 *       gradient, each of the input's type
 *   G5  nobody reads a changed input but through the newest effect on it: values do not age
 *   G6  a reshape can be a view of its input, given how eager kernels lay values out; what removes
 *       the copy before one puts `contiguous` there (rewrite.c)
 *
 * Passes are checked by it after each run, so it is linear in the graph.
 */
#include "graph/graph_print.h"
#include "graph/node_strides.h"

#include <stdarg.h>

typedef struct checker {
    const hod_graph *g;
    hod_strides *strides; /* of each node so far */
    hod_ref *holder;      /* of each input: the node that holds its value now */
} checker;

/* Records "graph: %5 = mul f32 (2,3) %1 %2: reason"; -1. */
__attribute__((format(printf, 3, 4))) static int fault(const hod_graph *g, hod_ref r,
                                                       const char *format, ...)
{
    char reason[160];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    hod_text line = {0};
    hod__node_print(g, r, &line);
    HOD_FAIL(ARGUMENT, "graph: %s: %s", line.data ? line.data : "?", reason);
    hod__text_free(&line);
    return -1;
}

static int check_input(const checker *c, hod_ref r)
{
    const hod_node *node = hod__node(c->g, r);
    hod_meta meta = hod__node_meta(c->g, r);
    if (c->g->inputs[node->input].node != r)
        return fault(c->g, r, "the table of inputs has %%%d there", /* G3 */
                     c->g->inputs[node->input].node);
    for (int i = 0; i < node->ndim; i++)
        if (c->g->inputs[node->input].strides[i] < 0)
            return fault(c->g, r, "a stride is negative");
    return hod__meta_bytes(&meta) < 0 ? fault(c->g, r, "impossible size") : 0;
}

/* G5 for one read. */
static int check_fresh(const checker *c, hod_ref r, hod_ref read)
{
    hod_ref input = read;
    if (!hod__is_input(c->g, read)) {
        if (hod__node_info(c->g, read)->class != HOD_EFFECT)
            return 0;
        input = hod__node_in(c->g, read)[0];
    }
    hod_ref holder = c->holder[c->g->nodes[input].input];
    if (holder == read)
        return 0;
    if (r == HOD_NO_REF)
        return HOD_FAIL_RC(ARGUMENT, "graph: return: %%%d was overwritten by %%%d", read, holder);
    return fault(c->g, r, "%%%d was overwritten by %%%d", read, holder);
}

static int check_effect(const checker *c, hod_ref r)
{
    const hod_graph *g = c->g;
    hod_ref dst = hod__node_in(g, r)[0], src = hod__node_in(g, r)[1];
    if (!hod__is_input(g, dst))
        return fault(g, r, "%%%d is not an input", dst);
    bool gradient = g->inputs[g->nodes[dst].input].role == HOD_INPUT_GRADIENT;
    if (gradient != (g->nodes[r].op == HOD_OP_accumulate))
        return fault(g, r, "%%%d is %sa gradient", dst, gradient ? "" : "not ");
    if (!hod__same_meta(g, dst, g, src) || !hod__same_meta(g, dst, g, r))
        return fault(g, r, "types or shapes of it, %%%d and %%%d differ", dst, src);
    c->holder[g->nodes[dst].input] = r;
    return 0;
}

/* G2: the rule's own complaint is about values, so it gets the node in front. */
static int check_rule(const hod_graph *g, hod_ref r)
{
    const hod_node *node = hod__node(g, r);
    hod_meta in[HOD_OP_MAX_INPUTS], want;
    for (int i = 0; i < node->n_in; i++)
        in[i] = hod__node_meta(g, hod__node_in(g, r)[i]);
    if (hod__op_shape((hod_op)node->op, &node->attrs, node->n_in, in, &want)) {
        hod__fail_context("graph: %%%d", r);
        return -1;
    }
    bool same = want.dtype == (hod_dtype)node->dtype && want.ndim == node->ndim;
    for (int i = 0; same && i < want.ndim; i++)
        same = want.shape[i] == node->shape[i];
    if (!same)
        return fault(g, r, "the rule says %s %s", hod_dtype_name(want.dtype),
                     HOD_SHAPE_TEXT(&want));
    return hod__meta_bytes(&want) < 0 ? fault(g, r, "impossible size") : 0;
}

static int check_node(checker *c, hod_ref r)
{
    const hod_graph *g = c->g;
    const hod_node *node = hod__node(g, r);
    if (node->dtype >= HOD_DTYPES || node->ndim < 0 || node->ndim > HOD_MAX_DIMS)
        return HOD_FAIL_RC(ARGUMENT, "graph: %%%d has dtype %d and %d dimensions", r, node->dtype,
                           node->ndim);
    if (hod__is_input(g, r))
        return node->input < 0 || node->input >= g->n_inputs
                   ? HOD_FAIL_RC(ARGUMENT, "graph: %%%d is input %d of %lld", r, node->input,
                                 (long long)g->n_inputs)
                   : check_input(c, r);
    if (node->op < 0 || node->op >= HOD_OPS || node->n_in < 0 || node->in < 0 ||
        (int64_t)node->in + node->n_in > g->n_edges || node->n_in > HOD_OP_MAX_INPUTS)
        return HOD_FAIL_RC(ARGUMENT, "graph: %%%d is no operator", r);
    int arity = hod__node_info(g, r)->arity;
    if (arity >= 0 ? arity != node->n_in : node->n_in < 1)
        return fault(g, r, "%d inputs", node->n_in);
    if (hod__node_info(g, r)->class == HOD_FUSED)
        return fault(g, r, "a composition, which is not recorded as one operator");
    bool effect = hod__node_info(g, r)->class == HOD_EFFECT;
    for (int i = 0; i < node->n_in; i++) {
        hod_ref in = hod__node_in(g, r)[i];
        if (in < 0 || in >= r)
            return fault(g, r, "%%%d is not an earlier node", in); /* G1 */
        if (!(effect && i == 0) && check_fresh(c, r, in))
            return -1;
    }
    if (effect ? check_effect(c, r) : check_rule(g, r))
        return -1;
    return 0;
}

static int check_all(checker *c)
{
    const hod_graph *g = c->g;
    for (int64_t i = 0; i < g->n_inputs; i++) {
        hod_ref r = g->inputs[i].node;
        if (r < 0 || r >= g->n || !hod__is_input(g, r) || g->nodes[r].input != i)
            return HOD_FAIL_RC(ARGUMENT, "graph: input %lld is %%%d, which is not it", (long long)i,
                               r); /* G3 */
        c->holder[i] = r;
    }
    for (hod_ref r = 0; r < g->n; r++) {
        if (check_node(c, r))
            return -1;
        if (!hod__node_strides(g, r, c->strides, &c->strides[r]))
            return fault(g, r, "not a view of its input's strides"); /* G6 */
    }
    for (int64_t i = 0; i < g->n_outputs; i++) {
        if (g->outputs[i] < 0 || g->outputs[i] >= g->n)
            return HOD_FAIL_RC(ARGUMENT, "graph: return of %%%d, there are %lld nodes",
                               g->outputs[i], (long long)g->n);
        if (check_fresh(c, HOD_NO_REF, g->outputs[i]))
            return -1;
    }
    return 0;
}

int hod__graph_validate(const hod_graph *g)
{
    checker c = {g, hod__alloc((size_t)g->n, sizeof *c.strides),
                 hod__alloc((size_t)g->n_inputs, sizeof *c.holder)};
    int rc = c.strides && c.holder ? check_all(&c) : -1;
    free(c.strides);
    free(c.holder);
    return rc;
}
