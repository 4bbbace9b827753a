/* Strides of values, computed with the views' own rules on tensors that have no elements. */
#include "graph/node_strides.h"
#include "ops/rules.h"

/* A tensor on the stack: enough for a rule that reads shapes and strides. */
static hod_tensor stand_in(const hod_meta *meta, const hod_strides *strides, hod_storage *storage)
{
    hod_tensor t = {.dtype = (uint8_t)meta->dtype, .ndim = (int8_t)meta->ndim, .storage = storage};
    memcpy(t.shape, meta->shape, sizeof t.shape);
    if (strides)
        memcpy(t.strides, strides->of, sizeof t.strides);
    else
        hod__row_major(t.ndim, t.shape, t.strides);
    return t;
}

bool hod__view_node_strides(hod_op op, const hod_attrs *attrs, const hod_meta *in,
                            const hod_strides *in_strides, const hod_meta *meta, hod_strides *out)
{
    hod_storage storage = {.refs = 1};
    hod_tensor x = stand_in(in, in_strides, &storage), y = stand_in(meta, NULL, &storage);
    hod_op_call call = {op, attrs, 1, (hod_tensor *[]){&x}};
    memcpy(out->of, y.strides, sizeof out->of);
    /* Asked first, because a view that cannot be made is an error to the rule, not an answer. */
    if (op == HOD_OP_reshape && !hod__view_strides(&x, y.ndim, y.shape, y.strides))
        return false;
    if (op != HOD_OP_reshape) /* a view rule starts from how its input lies */
        memcpy(y.strides, x.strides, sizeof y.strides);
    if (hod__op_info[op].view(&call, &y))
        return false;
    memcpy(out->of, y.strides, sizeof out->of);
    return true;
}

bool hod__node_strides(const hod_graph *g, hod_ref r, const hod_strides *known, hod_strides *out)
{
    const hod_node *node = hod__node(g, r);
    memset(out, 0, sizeof *out);
    if (hod__is_input(g, r)) {
        memcpy(out->of, g->inputs[node->input].strides, sizeof out->of);
        return true;
    }
    hod_ref *in = hod__node_in(g, r);
    hod_op_class class = hod__node_info(g, r)->class;
    if (class == HOD_EFFECT) {
        *out = known[in[0]];
        return true;
    }
    hod_meta meta = hod__node_meta(g, r);
    if (class == HOD_VIEW) {
        hod_meta from = hod__node_meta(g, in[0]);
        return hod__view_node_strides((hod_op)node->op, &node->attrs, &from, &known[in[0]], &meta,
                                      out);
    }
    hod__row_major(meta.ndim, meta.shape, out->of);
    return true;
}
