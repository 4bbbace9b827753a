/* Operands: library calls and outputs get memory they can address.
 *
 * A row-major copy is put in front where a view has no strides, or not the strides that a library
 * can walk; it is pointwise and fuses with what is around it.
 *
 *     %2 = permute %1;  %3 = conv2d %2 %w
 *     %2 = permute %1;  %3 = contiguous %2;  %4 = conv2d %3 %w
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

/* matmul reads (.., rows, cols) where one of the two steps by 1: which, and the other's step. */
bool hod__matmul_walk(const hod_node *n, const hod_site *s, bool *flipped, int64_t *ld)
{
    int64_t rows = n->shape[n->ndim - 2], cols = n->shape[n->ndim - 1];
    int64_t r = s->strides[n->ndim - 2], c = s->strides[n->ndim - 1];
    bool along_rows = (c == 1 || cols == 1) && (r >= cols || rows == 1);
    bool along_cols = (r == 1 || rows == 1) && (c >= rows || cols == 1);
    *flipped = !along_rows;
    *ld = along_rows ? HOD_MAX(r, cols) : HOD_MAX(c, rows);
    return s->has_strides && (along_rows || along_cols);
}

static bool needs_copy(const hod_lowering *l, hod_ref user, int i)
{
    const hod_graph *g = l->g;
    hod_ref x = hod__node_in(g, user)[i];
    const hod_site *s = &l->site[x];
    bool inlined = l->site[s->producer].inlined;
    if (hod__is_view(g, user)) /* a cut reads memory, other views are looked through */
        return hod__is_cut(g, user) && (inlined || !s->has_strides);
    if (l->site[user].fused)
        return false;
    if (inlined || !s->has_strides)
        return true;
    if (hod__is_conv(g, user) || hod__is_pool(g, user))
        return hod__is_view(g, x) || !row_major(hod__node(g, x), s);
    bool flipped;
    int64_t ld;
    return hod__node(g, user)->op == HOD_OP_matmul &&
           !hod__matmul_walk(hod__node(g, x), s, &flipped, &ld);
}

static hod_ref row_major_copy(hod_copier *w, hod_ref x, hod_ref user)
{
    if (w->copy[x] == HOD_NO_REF)
        w->copy[x] = hod__copy_add(w, HOD_OP_contiguous, &(hod_attrs){0}, 1, &w->map[x], user);
    return w->copy[x];
}

static hod_ref operand(hod_copier *w, hod_ref user, int i)
{
    hod_ref x = hod__node_in(w->from, user)[i];
    return needs_copy(w->context, user, i) ? row_major_copy(w, x, user) : w->map[x];
}

/* An output is memory of its own: views, inputs, effects and repeated ones are copied. */
static void return_outputs(hod_copier *w)
{
    const hod_lowering *l = w->context;
    const hod_graph *g = w->from;
    for (int64_t k = 0; k < g->n_outputs && !w->failed; k++) {
        hod_ref r = g->outputs[k];
        bool copied = l->site[r].producer != r || hod__is_input(g, r) || hod__is_effect(g, r) ||
                      l->site[r].inlined;
        for (int64_t j = 0; j < k; j++)
            copied |= g->outputs[j] == r;
        hod_ref value = w->map[r];
        if (copied)
            value = hod__copy_add(w, HOD_OP_contiguous, &(hod_attrs){0}, 1, &w->map[r], r);
        w->failed |= hod__graph_return(w->to, value) != 0;
    }
}

hod_graph *hod__lower_operands(const hod_graph *g)
{
    hod_copier w;
    hod_lowering l;
    if (hod__lower(&l, g))
        return NULL;
    hod__copy_begin(&w, g, &l);
    hod__copy_nodes(&w, operand);
    return_outputs(&w);
    hod__lowering_free(&l);
    return hod__copy_finish(&w);
}
