/* Library and eager calls of a program: geometry read from a node, primitives prepared. */
#include "codegen/builder.h"

static hod_layout layout_of(const hod_builder *b, hod_ref r)
{
    return b->l.site[r].layout;
}

static int conv_call(hod_builder *b, hod_program_call *c, hod_ref r, int64_t position)
{
    const hod_graph *g = b->l.g;
    const hod_node *n = hod__node(g, r);
    const hod_ref *in = hod__node_in(g, r);
    hod_dnn_conv_kind kind = n->op == HOD_OP_conv2d         ? HOD_CONV_FORWARD
                             : n->op == HOD_OP_conv2d_input ? HOD_CONV_INPUT_GRADIENT
                                                            : HOD_CONV_WEIGHT_GRADIENT;
    hod_ref image = kind == HOD_CONV_INPUT_GRADIENT ? r : in[0];
    hod_ref other = kind == HOD_CONV_FORWARD ? r : kind == HOD_CONV_INPUT_GRADIENT ? in[0] : in[1];
    hod_ref weight = kind == HOD_CONV_WEIGHT_GRADIENT ? r : in[1];
    const int64_t *x = hod__node(g, image)->shape, *y = hod__node(g, other)->shape,
                  *w = hod__node(g, weight)->shape;
    const hod_attrs_conv *a = &n->attrs.conv;
    hod_conv_geometry geometry;
    memset(&geometry, 0, sizeof geometry);
    geometry.n = x[0], geometry.ci = x[1], geometry.h = x[2], geometry.w = x[3];
    geometry.co = y[1], geometry.kh = w[2], geometry.kw = w[3];
    memcpy(geometry.stride, a->stride, sizeof a->stride);
    memcpy(geometry.padding, a->padding, sizeof a->padding);
    memcpy(geometry.dilation, a->dilation, sizeof a->dilation);
    geometry.groups = a->groups;
    geometry.dtype = n->dtype;
    c->kind = HOD_CALL_CONV;
    c->conv = hod__dnn_conv(kind, &geometry, layout_of(b, image), layout_of(b, other));
    if (!c->conv)
        return -1;
    c->in[0] = hod__where(b, in[0], 0);
    c->in[1] = hod__where(b, in[1], 0);
    int64_t scratch = hod__dnn_scratch(c->conv);
    int32_t buffer = scratch ? hod__new_buffer(b, scratch, r) : -1;
    if (scratch && buffer < 0)
        return -1;
    if (scratch) {
        b->p->buffer[buffer].first = b->p->buffer[buffer].last = (int32_t)position;
        c->scratch = (hod_spot){HOD_PLACE_ARENA, buffer, 0};
    }
    return 0;
}

/* Leading dimensions as one batch with one stride; false when they do not collapse. */
static bool collapse_batch(const hod_node *n, const hod_node *y, const int64_t *strides,
                           int64_t *step)
{
    int64_t s[HOD_MAX_DIMS] = {0};
    int shift = y->ndim - n->ndim;
    for (int d = 0; d < y->ndim - 2; d++)
        s[d] = d >= shift && n->shape[d - shift] != 1 ? strides[d - shift] : 0;
    *step = 0;
    int64_t size = 1;
    for (int d = y->ndim - 2; d-- > 0;) {
        if (y->shape[d] == 1)
            continue;
        if (size == 1)
            *step = s[d];
        else if (s[d] != *step * size)
            return false;
        size *= y->shape[d];
    }
    return true;
}

static bool matmul_geometry(const hod_builder *b, hod_ref r, hod_matmul_geometry *m)
{
    const hod_graph *g = b->l.g;
    const hod_node *y = hod__node(g, r);
    memset(m, 0, sizeof *m);
    m->batch = 1;
    for (int d = 0; d < y->ndim - 2; d++)
        m->batch *= y->shape[d];
    m->m = y->shape[y->ndim - 2];
    m->n = m->ldc = y->shape[y->ndim - 1];
    m->batch_c = m->m * m->n;
    for (int i = 0; i < 2; i++) {
        hod_ref x = hod__node_in(g, r)[i];
        const hod_node *n = hod__node(g, x);
        const int64_t *s = b->l.site[x].strides;
        bool asked = i == 0 ? y->attrs.matmul.ta : y->attrs.matmul.tb, flipped;
        hod__matmul_walk(n, &b->l.site[x], &flipped, i == 0 ? &m->lda : &m->ldb);
        if (i == 0)
            m->k = n->shape[n->ndim - (asked ? 2 : 1)];
        *(i == 0 ? &m->transpose_a : &m->transpose_b) = asked != flipped;
        if (!collapse_batch(n, y, s, i == 0 ? &m->batch_a : &m->batch_b))
            return false;
    }
    return true;
}

bool hod__by_library(const hod_builder *b, hod_ref r)
{
    const hod_graph *g = b->l.g;
    const hod_node *n = hod__node(g, r);
    bool conv = hod__is_conv(g, r), takes = conv || n->op == HOD_OP_matmul;
    for (int i = 0; takes && i <= n->n_in; i++) {
        hod_ref x = i < n->n_in ? hod__node_in(g, r)[i] : r;
        takes = hod__node(g, x)->dtype == HOD_F32 && hod__node_numel(g, x) > 0;
    }
    hod_matmul_geometry m;
    return takes && (conv || matmul_geometry(b, r, &m));
}

static int eval_call(hod_builder *b, hod_program_call *c, hod_ref r)
{
    const hod_graph *g = b->l.g;
    const hod_node *n = hod__node(g, r);
    c->kind = HOD_CALL_EVAL;
    c->n_operands = n->n_in + 1;
    c->operand = hod__alloc((size_t)c->n_operands, sizeof *c->operand);
    c->at = hod__alloc((size_t)c->n_operands, sizeof *c->at);
    if (!c->operand || !c->at)
        return -1;
    for (int i = 0; i <= n->n_in; i++) {
        hod_ref x = i < n->n_in ? hod__node_in(g, r)[i] : r;
        hod_meta meta = hod__node_meta(g, x);
        hod_storage *s = hod__storage_symbolic(hod__cpu(), HOD_MAX(hod__node_bytes(g, x), 1));
        hod_tensor *t = s ? hod__tensor_new(&meta, s) : NULL;
        hod__storage_release(s);
        if (!t)
            return -1;
        memcpy(t->strides, b->l.site[x].strides, sizeof t->strides);
        t->offset = b->l.site[x].offset;
        c->operand[i] = t;
        c->at[i] = hod__where(b, x, 0);
    }
    return 0;
}

int hod__library_call(hod_builder *b, hod_program_call *c, const hod_unit *u)
{
    const hod_node *n = hod__node(b->l.g, u->node);
    hod_ref effect = n->op == HOD_OP_accumulate ? u->node : u->effect;
    hod_ref to = effect == HOD_NO_REF ? u->node : effect;
    c->slot = -1;
    if (effect != HOD_NO_REF) {
        c->slot = hod__node(b->l.g, b->l.site[effect].memory)->input;
        b->p->writes_slot[c->slot] = true;
    }
    c->out = hod__where(b, to, b->l.site[to].memory == to ? 0 : b->l.site[to].offset);
    if (!hod__by_library(b, u->node))
        return eval_call(b, c, u->node);
    if (hod__is_conv(b->l.g, u->node))
        return conv_call(b, c, u->node, u->position);
    matmul_geometry(b, u->node, &c->matmul);
    c->kind = HOD_CALL_MATMUL;
    for (int i = 0; i < 2; i++) {
        hod_ref x = hod__node_in(b->l.g, u->node)[i];
        c->in[i] = hod__where(b, x, hod__is_view(b->l.g, x) ? b->l.site[x].offset : 0);
    }
    return 0;
}
