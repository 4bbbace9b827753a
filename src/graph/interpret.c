/* The slow twin: the graph's meaning, one eager kernel a node.
 *
 * Compiled programs are compared with this, so it takes no shortcut: every value is computed when
 * its node comes, and is dropped after its last reader. Values are values: a view of an input that
 * a later effect changes is copied, because its readers may come after the change; for the same
 * reason assign copies a source that shares the destination's storage.
 */
#include "graph/graph.h"
#include "ops/rules.h"

typedef struct run {
    const hod_graph *g;
    hod_tensor **value; /* of each node, counted; NULL before and after its life */
    int32_t *uses;      /* reads still to come */
    bool *changed;      /* of each input: some effect names it */
    hod_grad_slot *const *slots;
} run;

static void drop(run *x, hod_ref r)
{
    hod_tensor_release(x->value[r]);
    x->value[r] = NULL;
}

/* True when r's elements lie in an input that an effect changes. */
static bool aliases_changed(const run *x, hod_ref r)
{
    while (!hod__is_input(x->g, r)) {
        hod_op_class class = hod__node_info(x->g, r)->class;
        if (class != HOD_VIEW && class != HOD_EFFECT)
            return false;
        r = hod__node_in(x->g, r)[0];
    }
    return x->changed[x->g->nodes[r].input];
}

static hod_tensor *make_view(run *x, hod_ref r, const hod_op_call *call)
{
    hod_meta meta = hod__node_meta(x->g, r);
    hod_tensor *out = hod__tensor_new(&meta, call->in[0]->storage);
    if (out) { /* a view rule starts from where and how its input lies */
        out->offset = call->in[0]->offset;
        memcpy(out->strides, call->in[0]->strides, sizeof out->strides);
    }
    if (!out || hod__op_info[call->op].view(call, out)) {
        hod_tensor_release(out);
        return NULL;
    }
    if (!aliases_changed(x, r))
        return out;
    hod_tensor *copy = hod__eval_temporary(&meta);
    if (copy)
        hod__eval_copy(out, copy);
    hod_tensor_release(out);
    return copy;
}

static hod_tensor *make_value(run *x, hod_ref r, const hod_op_call *call)
{
    hod_meta meta = hod__node_meta(x->g, r);
    hod_tensor *out = hod__eval_temporary(&meta);
    if (out && hod__op_eval_into(call->op, call->attrs, call->n, call->in, out) == 0)
        return out;
    hod_tensor_release(out);
    return NULL;
}

static hod_tensor *do_assign(hod_tensor *dst, hod_tensor *src)
{
    hod_tensor *copy = NULL;
    if (dst->storage == src->storage) {
        hod_meta meta = hod__meta(src);
        if (!(copy = hod__eval_temporary(&meta)))
            return NULL;
        hod__eval_copy(src, copy);
    }
    hod_tensor *done = hod__assign(dst, copy ? copy : src);
    hod_tensor_release(copy);
    return hod_tensor_retain(done ? dst : NULL);
}

static hod_tensor *do_accumulate(const run *x, hod_ref r, hod_tensor *g)
{
    int32_t input = x->g->nodes[hod__node_in(x->g, r)[0]].input;
    hod_grad_slot *slot = x->slots ? x->slots[input] : NULL;
    if (!slot)
        return HOD_FAIL(ARGUMENT, "interpret: input %d has no gradient slot", input);
    return hod__accumulate(slot, g) == 0 ? hod_tensor_retain(slot->sum) : NULL;
}

static int step(run *x, hod_ref r)
{
    const hod_node *node = hod__node(x->g, r);
    hod_tensor *in[HOD_OP_MAX_INPUTS];
    for (int i = 0; i < node->n_in; i++) {
        in[i] = x->value[hod__node_in(x->g, r)[i]];
        if (!in[i] && !(node->op == HOD_OP_accumulate && i == 0))
            return HOD_FAIL_RC(ARGUMENT, "interpret: %%%d has no value for %%%d",
                               hod__node_in(x->g, r)[i], r);
    }
    hod_op_call call = {(hod_op)node->op, &node->attrs, node->n_in, in};
    if (node->op == HOD_OP_assign)
        x->value[r] = do_assign(in[0], in[1]);
    else if (node->op == HOD_OP_accumulate)
        x->value[r] = do_accumulate(x, r, in[1]);
    else if (hod__node_info(x->g, r)->class == HOD_VIEW)
        x->value[r] = make_view(x, r, &call);
    else
        x->value[r] = make_value(x, r, &call);
    if (!x->value[r])
        return -1;
    for (int i = 0; i < node->n_in; i++)
        if (--x->uses[hod__node_in(x->g, r)[i]] == 0)
            drop(x, hod__node_in(x->g, r)[i]);
    if (x->uses[r] == 0)
        drop(x, r);
    return 0;
}

/* Puts the caller's tensors in the inputs' places; a gradient may come from its slot. */
static int place_inputs(run *x, hod_tensor *const *in)
{
    for (int64_t i = 0; i < x->g->n_inputs; i++) {
        hod_ref r = x->g->inputs[i].node;
        hod_tensor *t = in ? in[i] : NULL;
        if (!t && x->slots && x->slots[i])
            t = x->slots[i]->sum;
        if (!t)
            continue;
        const hod_node *node = hod__node(x->g, r);
        if (t->dtype != node->dtype || !hod__same_sizes(t->ndim, t->shape, node->ndim, node->shape))
            return HOD_FAIL_RC(ARGUMENT, "interpret: input %lld is %s %s", (long long)i,
                               hod_dtype_name((hod_dtype)t->dtype), HOD_SHAPE_TEXT(t));
        if (hod__realise(t))
            return -1;
        x->value[r] = hod_tensor_retain(t);
    }
    for (hod_ref r = 0; r < x->g->n; r++)
        if (!hod__is_input(x->g, r) && hod__node_info(x->g, r)->class == HOD_EFFECT)
            x->changed[x->g->nodes[hod__node_in(x->g, r)[0]].input] = true;
    return 0;
}

static int run_all(run *x, hod_tensor *const *in, hod_tensor **out)
{
    if (place_inputs(x, in))
        return -1;
    for (hod_ref r = 0; r < x->g->n; r++)
        if (!hod__is_input(x->g, r) && step(x, r))
            return -1;
    for (int64_t i = 0; i < x->g->n_outputs; i++) {
        hod_tensor *value = x->value[x->g->outputs[i]];
        if (!value)
            return HOD_FAIL_RC(ARGUMENT, "interpret: output %lld has no value", (long long)i);
        out[i] = hod__own(hod__tensor_alias(value));
        if (!out[i])
            return -1;
    }
    return 0;
}

int hod__graph_interpret(const hod_graph *g, hod_tensor *const *in, hod_grad_slot *const *slots,
                         hod_tensor **out)
{
    hod_recorder *recorder = hod__recorder;
    hod_tape_mode mode = hod__tape_mode;
    hod__recorder = NULL; /* nobody listens: these operators are not the user's */
    hod__tape_mode = (hod_tape_mode){0};
    run x = {.g = g,
             .value = hod__alloc((size_t)g->n, sizeof *x.value),
             .uses = hod__graph_uses(g),
             .changed = hod__alloc((size_t)g->n_inputs, sizeof *x.changed),
             .slots = slots};
    int rc = x.value && x.uses && x.changed ? run_all(&x, in, out) : -1;
    for (hod_ref r = 0; x.value && r < g->n; r++)
        drop(&x, r);
    free(x.value);
    free(x.uses);
    free(x.changed);
    hod__recorder = recorder;
    hod__tape_mode = mode;
    return rc;
}
