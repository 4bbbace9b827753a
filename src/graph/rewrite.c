/* Writing a graph anew: the loop that all rewriting passes share, and the two rules that a single
 * pattern cannot see.
 *
 * Values do not age (validate.c, G5). An input that an effect changes may be read only before the
 * change; a rule that replaces `neg(neg x)` by x would move the read of x to wherever the result is
 * read. Such a replacement is refused when a reader comes after the next change:
 *
 *     %0 input   %2 neg %0   %3 assign %0 ...   %4 neg %2   %5 exp %4      %5 must not read %0
 *
 * A view of such an input counts as the input.
 *
 * Reshapes stay views (G6). When what stood between two views goes away, a copy takes its place.
 */
#include "graph/rewrite.h"

enum { MAX_DEPTH = 64 }; /* of rules applied to what rules made; a guard against a cycle of rules */

static hod_ref fail(hod_rewrite *w)
{
    w->failed = true;
    return HOD_NO_REF;
}

/* What r is a view of, or r itself. */
static hod_ref base_of(const hod_graph *g, hod_ref r)
{
    while (!hod__is_input(g, r) && hod__node_info(g, r)->class == HOD_VIEW)
        r = hod__node_in(g, r)[0];
    return r;
}

int32_t hod__node_storage(const hod_graph *g, hod_ref r)
{
    r = base_of(g, r);
    if (!hod__is_input(g, r)) {
        if (hod__node_info(g, r)->class != HOD_EFFECT)
            return -1;
        r = hod__node_in(g, r)[0];
    }
    return g->nodes[r].input;
}

/* May node r of the new graph be read at this point? */
static bool readable(const hod_rewrite *w, hod_ref r)
{
    int32_t input = hod__node_storage(w->g, r);
    return input < 0 || w->holder[input] == base_of(w->g, r);
}

hod_ref hod__rewrite_next_change(const hod_rewrite *w, int32_t input)
{
    if (w->last_effect[input] <= w->at)
        return (hod_ref)w->old->n + 1;
    /* Of more than two changes the one after `at` is not known: a place before it, then. */
    return w->first_effect[input] > w->at ? w->first_effect[input] : w->at + 1;
}

/* May the readers of the old node w->at read r of the new graph instead? */
static bool outlives(const hod_rewrite *w, hod_ref r)
{
    int32_t input = hod__node_storage(w->g, r);
    return input < 0 ||
           (readable(w, r) && w->last_use[w->at] <= hod__rewrite_next_change(w, input));
}

static int note_strides(hod_rewrite *w, hod_ref r)
{
    hod_strides *s = hod__push(&w->strides, &w->n_strides, &w->cap_strides, sizeof *s);
    if (!s)
        return -1;
    hod__node_strides(w->g, r, w->strides, s);
    return 0;
}

/* Appends and notes the strides; meta NULL: by the operator's rule. */
static hod_ref append(hod_rewrite *w, hod_op op, const hod_attrs *attrs, int n, const hod_ref *in,
                      const hod_meta *meta)
{
    hod_ref copy;
    if (op == HOD_OP_reshape) {
        hod_meta from = hod__node_meta(w->g, in[0]);
        hod_meta to = {.dtype = from.dtype, .ndim = attrs->shape.shape.n};
        hod_strides strides;
        memcpy(to.shape, attrs->shape.shape.d, sizeof to.shape);
        if (!hod__view_node_strides(op, attrs, &from, &w->strides[in[0]], &to, &strides)) {
            copy = append(w, HOD_OP_contiguous, NULL, 1, in, NULL);
            if (copy == HOD_NO_REF)
                return copy;
            in = &copy;
        }
    }
    bool pending = hod_error() != NULL;
    hod_ref r =
        meta ? hod__graph_add(w->g, op, attrs, n, in, meta) : hod__graph_op(w->g, op, attrs, n, in);
    if (r == HOD_NO_REF && !pending && hod_error_kind_pending() == HOD_ERROR_ARGUMENT) {
        hod_error_take(NULL); /* the operator does not take these types: the rule does not fit */
        return r;
    }
    if (r == HOD_NO_REF || note_strides(w, r))
        return fail(w);
    hod_node *node = hod__node(w->g, r);
    const hod_node *model = hod__node(w->old, w->at);
    node->flags = model->flags & HOD_NODE_BACKWARD;
    node->file = model->file;
    node->line = model->line;
    return r;
}

static hod_ref visit(hod_rewrite *w, hod_ref r)
{
    if (w->depth == MAX_DEPTH)
        return r;
    w->depth++;
    hod_ref to = w->visit(w, r);
    w->depth--;
    return to == HOD_NO_REF ? r : to;
}

hod_ref hod__rewrite_op(hod_rewrite *w, hod_op op, const hod_attrs *attrs, int n, const hod_ref *in)
{
    for (int i = 0; i < n; i++)
        if (in[i] == HOD_NO_REF || !readable(w, in[i]))
            return HOD_NO_REF;
    hod_ref r = append(w, op, attrs, n, in, NULL);
    return r == HOD_NO_REF ? r : visit(w, r);
}

hod_ref hod__rewrite_full(hod_rewrite *w, double value, const hod_meta *meta)
{
    hod_attrs attrs = {.full = {.value = value, .dtype = meta->dtype, .shape = {.n = meta->ndim}}};
    memcpy(attrs.full.shape.d, meta->shape, (size_t)meta->ndim * sizeof *meta->shape);
    return hod__rewrite_op(w, HOD_OP_full, &attrs, 0, NULL);
}

hod_ref hod__rewrite_fit(hod_rewrite *w, hod_ref x, hod_ref r)
{
    if (x == HOD_NO_REF || hod__same_meta(w->g, x, w->g, r))
        return x;
    hod_meta want = hod__node_meta(w->g, r), have = hod__node_meta(w->g, x);
    if (have.dtype != want.dtype || have.ndim > want.ndim)
        return HOD_NO_REF;
    for (int i = 1; i <= have.ndim; i++) {
        int64_t size = have.shape[have.ndim - i];
        if (size != 1 && size != want.shape[want.ndim - i])
            return HOD_NO_REF;
    }
    if (hod__node_is(w->g, x, HOD_OP_full))
        return hod__rewrite_full(w, hod__node(w->g, x)->attrs.full.value, &want);
    hod_attrs attrs = {.shape = {.shape = hod_shape_of(want.ndim, want.shape)}};
    return hod__rewrite_op(w, HOD_OP_expand, &attrs, 1, &x);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void rewrite_input(hod_rewrite *w, hod_ref r)
{
    const hod_node *node = hod__node(w->old, r);
    const hod_graph_input *input = &w->old->inputs[node->input];
    hod_meta meta = hod__node_meta(w->old, r);
    hod_ref to = hod__graph_input(w->g, &meta, input->strides, input->role, input->name);
    if (to == HOD_NO_REF || note_strides(w, to)) {
        fail(w);
        return;
    }
    hod__node(w->g, to)->flags = node->flags;
    hod__node(w->g, to)->file = node->file;
    hod__node(w->g, to)->line = node->line;
    w->map[r] = to;
    w->holder[node->input] = to;
}

static void rewrite_node(hod_rewrite *w, hod_ref r)
{
    const hod_node *node = hod__node(w->old, r);
    hod_ref in[HOD_OP_MAX_INPUTS];
    for (int i = 0; i < node->n_in; i++)
        in[i] = w->map[hod__node_in(w->old, r)[i]];
    hod_meta meta = hod__node_meta(w->old, r);
    hod_ref copy = append(w, (hod_op)node->op, &node->attrs, node->n_in, in, &meta);
    if (copy == HOD_NO_REF) {
        fail(w);
        return;
    }
    w->map[r] = copy;
    if (hod__node_info(w->old, r)->class == HOD_EFFECT) {
        w->holder[w->g->nodes[in[0]].input] = copy;
    } else {
        hod_ref to = visit(w, copy);
        if (to != copy && hod__same_meta(w->g, to, w->g, copy) && outlives(w, to))
            w->map[r] = to;
    }
    hod__node(w->g, w->map[r])->flags |= node->flags & HOD_NODE_KEEP;
}

static int prepare(hod_rewrite *w)
{
    const hod_graph *old = w->old;
    w->g = hod__graph_new(old->name);
    w->map = hod__alloc((size_t)old->n, sizeof *w->map);
    w->last_use = hod__alloc((size_t)old->n, sizeof *w->last_use);
    w->holder = hod__alloc((size_t)old->n_inputs, sizeof *w->holder);
    w->first_effect = hod__alloc((size_t)old->n_inputs, sizeof *w->first_effect);
    w->last_effect = hod__alloc((size_t)old->n_inputs, sizeof *w->last_effect);
    if (!w->g || !w->map || !w->last_use || !w->holder || !w->first_effect || !w->last_effect)
        return -1;
    for (int64_t i = 0; i < old->n_inputs; i++)
        w->first_effect[i] = w->last_effect[i] = HOD_NO_REF;
    for (hod_ref r = 0; r < old->n; r++) {
        for (int i = 0; i < old->nodes[r].n_in; i++)
            w->last_use[hod__node_in(old, r)[i]] = r;
        if (hod__is_input(old, r) || hod__node_info(old, r)->class != HOD_EFFECT)
            continue;
        int32_t input = hod__node_storage(old, r);
        if (w->first_effect[input] == HOD_NO_REF)
            w->first_effect[input] = r;
        w->last_effect[input] = r;
    }
    for (int64_t i = 0; i < old->n_outputs; i++)
        w->last_use[old->outputs[i]] = (hod_ref)old->n;
    return 0;
}

static void write_all(hod_rewrite *w)
{
    for (w->at = 0; w->at < w->old->n && !w->failed; w->at++) {
        if (hod__is_input(w->old, w->at))
            rewrite_input(w, w->at);
        else
            rewrite_node(w, w->at);
    }
    for (int64_t i = 0; i < w->old->n_outputs && !w->failed; i++)
        if (hod__graph_return(w->g, w->map[w->old->outputs[i]]))
            w->failed = true;
}

/* Exchanges what two graphs consist of. */
static void swap(hod_graph *a, hod_graph *b)
{
    hod_graph t = *a;
    *a = *b;
    *b = t;
}

bool hod__rewrite(hod_graph *g, hod_visit *visit_node, void *context)
{
    hod_rewrite w = {.old = g, .visit = visit_node, .context = context};
    bool changed = false;
    if (prepare(&w) == 0) {
        write_all(&w);
        if (!w.failed)
            hod__graph_compact(w.g, NULL);
        changed = !w.failed && !hod__graph_equal(w.g, g);
        if (changed)
            swap(w.g, g);
    }
    hod__graph_free(w.g);
    free(w.strides);
    free(w.map);
    free(w.last_use);
    free(w.holder);
    free(w.first_effect);
    free(w.last_effect);
    return changed;
}
