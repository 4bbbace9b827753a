/* Copying a graph while changing it: see lower_copy.h. */
#include "codegen/lower_copy.h"

bool hod__copy_begin(hod_copier *w, const hod_graph *g)
{
    *w = (hod_copier){.from = g, .to = hod__graph_new(g->name)};
    w->map = hod__alloc((size_t)g->n + 1, sizeof *w->map);
    w->copy = hod__alloc((size_t)g->n + 1, sizeof *w->copy);
    w->when = hod__alloc((size_t)g->n + 1, sizeof *w->when);
    w->failed = !w->to || !w->map || !w->copy || !w->when;
    for (hod_ref r = 0; r < g->n && !w->failed; r++)
        w->copy[r] = HOD_NO_REF;
    return !w->failed;
}

hod_graph *hod__copy_finish(hod_copier *w)
{
    for (int64_t k = 0; k < w->from->n_outputs && !w->failed; k++)
        w->failed = hod__graph_return(w->to, w->map[w->from->outputs[k]]) != 0;
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

void hod__copy_input(hod_copier *w, hod_ref r)
{
    const hod_graph_input *in = &w->from->inputs[hod__node(w->from, r)->input];
    hod_meta meta = hod__node_meta(w->from, r);
    w->map[r] = hod__graph_input(w->to, &meta, in->strides, in->role, in->name);
    w->failed |= w->map[r] == HOD_NO_REF;
}

void hod__copy_node(hod_copier *w, hod_ref r, const hod_ref *in)
{
    const hod_node *n = hod__node(w->from, r);
    w->map[r] = hod__copy_add(w, (hod_op)n->op, &n->attrs, n->n_in, in, r);
}
