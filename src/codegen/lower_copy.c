/* Copying a graph while changing it: see lower_copy.h. */
#include "codegen/lower_copy.h"

void hod__copy_begin(hod_copier *w, const hod_graph *g, void *context)
{
    *w = (hod_copier){.from = g, .to = hod__graph_new(g->name), .context = context};
    w->map = hod__alloc((size_t)g->n + 1, sizeof *w->map);
    w->copy = hod__alloc((size_t)g->n + 1, sizeof *w->copy);
    w->when = hod__alloc((size_t)g->n + 1, sizeof *w->when);
    w->failed = !w->to || !w->map || !w->copy || !w->when;
    for (hod_ref r = 0; r < g->n && !w->failed; r++)
        w->copy[r] = HOD_NO_REF;
}

void hod__copy_outputs(hod_copier *w)
{
    for (int64_t k = 0; k < w->from->n_outputs && !w->failed; k++)
        w->failed = hod__graph_return(w->to, w->map[w->from->outputs[k]]) != 0;
}

hod_graph *hod__copy_finish(hod_copier *w)
{
    free(w->map);
    free(w->copy);
    free(w->when);
    if (!w->failed)
        return w->to;
    hod__graph_free(w->to);
    return NULL;
}

hod_ref hod__copy_add(hod_copier *w, hod_op op, const hod_attrs *attrs, int n, const hod_ref *in,
                      hod_ref like)
{
    hod_ref r = w->failed ? HOD_NO_REF : hod__graph_op(w->to, op, attrs, n, in);
    if (r == HOD_NO_REF) {
        w->failed = true;
        return 0;
    }
    hod_node *node = hod__node(w->to, r);
    const hod_node *old = hod__node(w->from, like);
    node->flags = old->flags;
    node->file = old->file;
    node->line = old->line;
    return r;
}

static hod_ref copy_input(hod_copier *w, hod_ref r)
{
    const hod_graph_input *in = &w->from->inputs[hod__node(w->from, r)->input];
    hod_meta meta = hod__node_meta(w->from, r);
    hod_ref to = hod__graph_input(w->to, &meta, in->strides, in->role, in->name);
    w->failed |= to == HOD_NO_REF;
    return to;
}

void hod__copy_nodes(hod_copier *w, hod_copy_operand *operand)
{
    for (hod_ref r = 0; r < w->from->n && !w->failed; r++) {
        const hod_node *n = hod__node(w->from, r);
        if (hod__is_input(w->from, r)) {
            w->map[r] = copy_input(w, r);
            continue;
        }
        hod_ref in[HOD_OP_MAX_INPUTS];
        for (int i = 0; i < n->n_in; i++)
            in[i] = operand(w, r, i);
        w->map[r] = hod__copy_add(w, (hod_op)n->op, &n->attrs, n->n_in, in, r);
        if (w->result && !w->failed)
            w->map[r] = w->result(w, r, w->map[r]);
    }
}
