/* From entries to the graph: values become nodes, in-place changes become renamings.
 *
 * The body may change tensors in place; nodes never change. So `live` says which node holds a value
 * at this point of the recording:
 *
 *     assign(x, y)     x from outside      an assign node, which later reads of x use
 *                      x made here         x's name moves to y's node, no node at all
 *     view v of x, read after x changed    the view is made again, of x's node of now
 *
 * The step from an entry to its node looks at nothing but the segment, because a call that stops
 * matching its trace goes through the same steps with a copied prefix.
 */
#include "compile/trace.h"

bool hod__value_is_input(const hod_segment *s, int32_t v)
{
    return v < s->first || s->values[v - s->first].external >= 0;
}

static hod_ref add_input(hod_trace_call *k, hod_segment *s, int32_t v)
{
    hod_segment *maker = hod__segment_of(s, v);
    const hod_value *value = &maker->values[v - maker->first];
    const hod_form *form = &maker->forms[v - maker->first];
    hod_input_role role = HOD_INPUT_DATA;
    char name[32];
    snprintf(name, sizeof name, "v%d", v);
    if (value->external >= 0) {
        const hod_external *e = &maker->externals[value->external];
        static const char prefix[] = {'x', 'w', 's', 'g'};
        role = e->role == HOD_INPUT_GRADIENT ? HOD_INPUT_STATE : e->role;
        snprintf(name, sizeof name, "%c%d", prefix[e->role], v);
    }
    int32_t *place = hod__push(&s->inputs, &s->n_inputs, &s->cap_inputs, sizeof *place);
    if (!place)
        return HOD_NO_REF;
    *place = v;
    hod_ref r = hod__graph_input(s->graph, &form->meta, form->strides, role, name);
    k->live[v].node = r;
    return r;
}

static hod_ref add_op(hod_trace_call *k, hod_segment *s, const hod_entry *e, const hod_meta *meta)
{
    hod_ref in[HOD_OP_MAX_INPUTS];
    for (int i = 0; i < e->n; i++) {
        in[i] = hod__value_node(k, s, s->in[e->in + i]);
        if (in[i] == HOD_NO_REF)
            return HOD_NO_REF;
    }
    hod_attrs attrs;
    hod__entry_attrs(s, e, &attrs);
    hod_ref r = hod__graph_add(s->graph, (hod_op)e->op, &attrs, e->n, in, meta);
    if (r == HOD_NO_REF)
        return r;
    hod_node *node = hod__node(s->graph, r);
    node->file = e->file;
    node->line = e->line;
    if (k->backward > 0)
        node->flags |= HOD_NODE_BACKWARD;
    return r;
}

hod_ref hod__value_node(hod_trace_call *k, hod_segment *s, int32_t v)
{
    hod_live *live = &k->live[v];
    if (hod__value_is_input(s, v))
        return live->node == HOD_NO_REF ? add_input(k, s, v) : live->node;
    const hod_value *value = &s->values[v - s->first];
    int32_t changes = k->live[value->base].changes;
    if (value->view && live->seen != changes) {
        const hod_form *form = &s->forms[v - s->first];
        live->node = add_op(k, s, &s->entries[form->entry], &form->meta);
        live->seen = changes;
    }
    return live->node;
}

/* True when a value's node is an input or a view of one: a later effect could change it. */
static bool is_borrowed(const hod_graph *g, hod_ref r)
{
    while (!hod__is_input(g, r)) {
        hod_op_class class = hod__node_info(g, r)->class;
        if (class == HOD_EFFECT)
            return true;
        if (class != HOD_VIEW)
            return false;
        r = hod__node_in(g, r)[0];
    }
    return true;
}

static int step_assign(hod_trace_call *k, hod_segment *s, const hod_entry *e)
{
    int32_t dst = s->in[e->in], src = s->in[e->in + 1];
    hod_ref in[2] = {HOD_NO_REF, hod__value_node(k, s, src)};
    if (in[1] == HOD_NO_REF)
        return -1;
    hod_ref r;
    if (hod__value_is_input(s, dst)) {
        if (hod__value_node(k, s, dst) == HOD_NO_REF)
            return -1;
        /* Effects name the input itself, whatever node holds its value by now. */
        for (int64_t i = 0; i < s->n_inputs; i++)
            if (s->inputs[i] == dst)
                in[0] = s->graph->inputs[i].node;
        hod_meta meta = hod__node_meta(s->graph, in[0]);
        r = hod__graph_add(s->graph, HOD_OP_assign, &(hod_attrs){0}, 2, in, &meta);
    } else {
        r = in[1];
        if (is_borrowed(s->graph, r)) {
            hod_meta meta = hod__node_meta(s->graph, r);
            r = hod__graph_add(s->graph, HOD_OP_contiguous, &(hod_attrs){0}, 1, &r, &meta);
        }
    }
    if (r == HOD_NO_REF)
        return -1;
    k->live[dst].node = r;
    k->live[dst].changes++;
    return 0;
}

bool hod__value_node_is_read(const hod_trace_call *k, const hod_segment *s, int32_t v)
{
    for (int64_t i = 0; i < s->graph->n_edges; i++)
        if (s->graph->edges[i] == k->live[v].node)
            return true;
    return false;
}

/* Whether there is a sum to add to is decided once a run, so a graph has one accumulation a sum: a
 * later one takes the earlier along, whose node stays as a copy that nobody reads.
 *
 *     %7 = accumulate %2 %6             %7 = contiguous %6
 *     ...                               ...
 *     (accumulate %2 %8)                %9 = add %6 %8
 *                                       %10 = accumulate %2 %9
 */
static hod_ref merge_accumulations(hod_trace_call *k, hod_segment *s, int32_t sum, hod_ref g)
{
    hod_ref before = k->live[sum].node;
    hod_node *node = hod__node(s->graph, before);
    hod_meta meta = hod__node_meta(s->graph, before);
    hod_ref in[2] = {hod__node_in(s->graph, before)[1], g};
    node->op = HOD_OP_contiguous;
    node->in++;
    node->n_in = 1;
    return hod__graph_add(s->graph, HOD_OP_add, &(hod_attrs){0}, 2, in, &meta);
}

static int step_accumulate(hod_trace_call *k, hod_segment *s, const hod_entry *e)
{
    int32_t sum = s->in[e->in];
    hod_ref in[2] = {HOD_NO_REF, hod__value_node(k, s, s->in[e->in + 1])};
    if (in[1] == HOD_NO_REF || hod__value_node(k, s, sum) == HOD_NO_REF)
        return -1;
    for (int64_t i = 0; i < s->n_inputs; i++)
        if (s->inputs[i] == sum) {
            in[0] = s->graph->inputs[i].node;
            s->graph->inputs[i].role = HOD_INPUT_GRADIENT;
        }
    if (hod__node(s->graph, k->live[sum].node)->op == HOD_OP_accumulate &&
        (in[1] = merge_accumulations(k, s, sum, in[1])) == HOD_NO_REF)
        return -1;
    hod_meta meta = hod__node_meta(s->graph, in[0]);
    hod_ref r = hod__graph_add(s->graph, HOD_OP_accumulate, &(hod_attrs){0}, 2, in, &meta);
    if (r == HOD_NO_REF)
        return -1;
    if (k->backward > 0)
        hod__node(s->graph, r)->flags |= HOD_NODE_BACKWARD;
    k->live[sum].node = r;
    k->live[sum].changes++;
    return 0;
}

static int step_op(hod_trace_call *k, hod_segment *s, const hod_entry *e)
{
    if (e->op == HOD_OP_assign)
        return step_assign(k, s, e);
    const hod_value *value = &s->values[e->out - s->first];
    hod_ref r = add_op(k, s, e, &s->forms[e->out - s->first].meta);
    if (r == HOD_NO_REF)
        return -1;
    k->live[e->out].node = r;
    k->live[e->out].seen = k->live[value->base].changes;
    return 0;
}

int hod__graph_step(hod_trace_call *k, hod_segment *s, int64_t i)
{
    const hod_entry *e = &s->entries[i];
    switch ((hod_entry_kind)e->kind) {
    case HOD_ENTRY_OP: return step_op(k, s, e);
    case HOD_ENTRY_ACCUMULATE: return step_accumulate(k, s, e);
    case HOD_ENTRY_SPAN: k->backward += strcmp(s->spans[e->in].kind, "backward") == 0; return 0;
    case HOD_ENTRY_SPAN_END:
        k->backward -= strcmp((const char *)s->attrs + (int64_t)e->attrs * 8, "backward") == 0;
        return 0;
    }
    return 0;
}
