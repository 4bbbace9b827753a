/* Operands: library calls and outputs get memory they can address.
 *
 * A row-major copy is put in front where a view has no strides, or not the strides that a library
 * can walk; it is pointwise and fuses with what is around it.
 *
 *     %2 = permute %1;  %3 = conv2d %2 %w   ->   %2 = permute %1;  %3 = contiguous %2;  %4 = conv2d %3 %w
 */
#include "codegen/lower_copy.h"

static bool row_major(const hod_node *n, const hod_site *s)
{
    int64_t expect = 1;
    for (int d = n->ndim; d-- > 0; expect *= n->shape[d])
        if (n->shape[d] != 1 && s->strides[d] != expect)
            return false;
    return s->has_strides && s->offset == 0;
}

/* matmul reads (.., rows, cols) where one of the two steps by 1. */
static bool matmul_reads(const hod_node *n, const hod_site *s)
{
    int64_t r = s->strides[n->ndim - 2], c = s->strides[n->ndim - 1];
    bool rows = (c == 1 || n->shape[n->ndim - 1] == 1) && r >= n->shape[n->ndim - 1];
    bool cols = (r == 1 || n->shape[n->ndim - 2] == 1) && c >= n->shape[n->ndim - 2];
    return s->has_strides && (rows || cols);
}

static bool needs_copy(const hod_lowering *l, hod_ref user, int i)
{
    const hod_graph *g = l->g;
    hod_ref x = hod__node_in(g, user)[i];
    const hod_site *s = &l->site[x];
    bool inlined = l->site[s->producer].inlined;
    if (hod__is_view(g, user)) /* a slice reads memory, other views are looked through */
        return hod__node(g, user)->op == HOD_OP_slice && (inlined || !s->has_strides);
    if (l->site[user].fused)
        return false;
    if (inlined || !s->has_strides)
        return true;
    switch (hod__node(g, user)->op) {
    case HOD_OP_conv2d:
    case HOD_OP_conv2d_input:
    case HOD_OP_conv2d_weight:
    case HOD_OP_max_pool2d:
    case HOD_OP_max_pool2d_back:
    case HOD_OP_avg_pool2d:
    case HOD_OP_avg_pool2d_back: return hod__is_view(g, x) || !row_major(hod__node(g, x), s);
    case HOD_OP_matmul: return !matmul_reads(hod__node(g, x), s);
    default: return false;
    }
}

static hod_ref row_major_copy(hod_copier *w, hod_ref x, hod_ref user)
{
    if (w->copy[x] == HOD_NO_REF)
        w->copy[x] = hod__copy_add(w, HOD_OP_contiguous, &(hod_attrs){0}, 1, &w->map[x], user);
    return w->copy[x];
}

hod_graph *hod__lower_operands(const hod_graph *g)
{
    hod_copier w;
    hod_lowering l;
    if (hod__lower(&l, g))
        return NULL;
    hod__copy_begin(&w, g);
    for (hod_ref r = 0; r < g->n && !w.failed; r++) {
        if (hod__is_input(g, r)) {
            hod__copy_input(&w, r);
            continue;
        }
        hod_ref in[HOD_OP_MAX_INPUTS];
        for (int i = 0; i < hod__node(g, r)->n_in; i++) {
            hod_ref x = hod__node_in(g, r)[i];
            in[i] = needs_copy(&l, r, i) ? row_major_copy(&w, x, r) : w.map[x];
        }
        hod__copy_node(&w, r, in);
    }
    for (int64_t k = 0; k < g->n_outputs && !w.failed; k++) {
        hod_ref r = g->outputs[k];
        bool again = false;
        for (int64_t j = 0; j < k; j++)
            again |= g->outputs[j] == r;
        hod_ref value = w.map[r];
        if (again || l.site[r].producer != r || hod__is_input(g, r) || hod__is_effect(g, r) ||
            l.site[r].inlined)
            value = hod__copy_add(&w, HOD_OP_contiguous, &(hod_attrs){0}, 1, &w.map[r], r);
        w.failed |= hod__graph_return(w.to, value) != 0;
    }
    w.from = &(hod_graph){0}; /* outputs are done */
    hod__lowering_free(&l);
    return hod__copy_finish(&w);
}
