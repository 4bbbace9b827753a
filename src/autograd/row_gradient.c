/* Row-sparse gradients: an embedding whose backward keeps (row, value) pairs beside the leaf.
 *
 *     forward    y = embedding(w, index)      without a tape: one custom node links y to w
 *     backward   w.rows   += index            lists, appended; their sizes follow from shapes alone
 *                w.values += g
 *
 * The pairs are a list rather than an operator's result, because no operator's result may have the
 * size of what was looked up while its input has that of the table. Sums are left to whoever needs
 * them: then a window of many micro-batches sorts once.
 */
#include "autograd/autograd.h"
#include <hod/autograd.h>
#include <hod/ordering.h>
#include <hod/rows.h>

typedef struct lookup {
    hod_tensor *index; /* counted */
    uint32_t version;
} lookup;

/* ---- the list of a leaf ---- */

void hod__rows_drop(struct hod_grad_meta *m)
{
    hod_tensor_release(m->rows);
    hod_tensor_release(m->values);
    m->rows = m->values = NULL;
}

static int replace(struct hod_grad_meta *m, hod_tensor *rows, hod_tensor *values)
{
    if (!rows || !values)
        return -1;
    hod_tensor_retain(rows);
    hod_tensor_retain(values);
    hod__rows_drop(m);
    m->rows = rows;
    m->values = values;
    return 0;
}

/* The list is of real tensors: a recorder ends its program to have them, and does not see the
 * copies. */
static int append(struct hod_grad_meta *m, hod_tensor *index, hod_tensor *g)
{
    HOD_SCOPE(s);
    HOD_NO_GRAD(n);
    if (hod__realise(index) != 0 || hod__realise(g) != 0)
        return -1;
    hod_recorder *recorder = hod__recorder;
    hod__recorder = NULL;
    hod_shape all = {.n = 1 + g->ndim - index->ndim, .d = {hod_tensor_numel(index)}};
    for (int i = 1; i < all.n; i++)
        all.d[i] = g->shape[index->ndim + i - 1];
    hod_tensor *rows = hod_reshape(hod_cast(index, HOD_I64), HOD_SHAPE(all.d[0]));
    hod_tensor *values = hod_reshape(g, all);
    rows = m->rows ? hod_concat(2, (hod_tensor *[]){m->rows, rows}, 0) : hod_copy(rows);
    values = m->values ? hod_concat(2, (hod_tensor *[]){m->values, values}, 0) : hod_copy(values);
    int rc = replace(m, rows, values);
    hod__recorder = recorder;
    return rc;
}

/* Zeros of this shape, with rows of `values` added at `rows`. */
static hod_tensor *added_at(hod_tensor *values, hod_tensor *rows, hod_shape shape)
{
    HOD_ATTRS(a);
    a.shape.shape = shape;
    return hod__op(HOD_OP_embedding_back, &a, 2, (hod_tensor *[]){values, rows});
}

hod_row_gradient hod_grad_rows(const hod_tensor *t)
{
    if (!t || !t->autograd)
        return (hod_row_gradient){NULL, NULL};
    return (hod_row_gradient){t->autograd->rows, t->autograd->values};
}

/* Where t's row-sparse gradient is; NULL: it has none, or t is NULL, an error. */
static struct hod_grad_meta *rows_of(const char *name, const hod_tensor *t)
{
    bool some = !hod__null(name, "the tensor", t) && t->autograd && t->autograd->rows;
    return some ? t->autograd : NULL;
}

int hod_grad_rows_sum(hod_tensor *t)
{
    struct hod_grad_meta *m = rows_of("grad_rows_sum", t);
    if (!m)
        return t ? 0 : -1;
    HOD_SCOPE(s);
    HOD_NO_GRAD(n);
    hod_unique_values u = hod_unique(m->rows);
    if (!u.values)
        return -1;
    hod_shape shape = hod_tensor_shape(m->values);
    shape.d[0] = u.values->shape[0];
    return replace(m, u.values, added_at(m->values, u.inverse, shape));
}

int hod_grad_rows_to_dense(hod_tensor *t)
{
    struct hod_grad_meta *m = rows_of("grad_rows_to_dense", t);
    if (!m)
        return t ? 0 : -1;
    HOD_SCOPE(s);
    HOD_NO_GRAD(n);
    hod_tensor *g = added_at(m->values, m->rows, hod_tensor_shape(t));
    if (!g || hod__accumulate(&m->slot, g) != 0)
        return -1;
    hod__rows_drop(m);
    return 0;
}

/* ---- the node ---- */

static int lookup_backward(hod_grad_node *n, hod_tensor *const *g, hod_tensor **dx,
                           bool create_graph)
{
    const lookup *l = n->state;
    if (dx[0] == HOD_NO_GRADIENT || !g[0])
        return 0;
    if (l->index->storage->version != l->version)
        return HOD_FAIL_RC(STATE, "backward of embedding_rows: the index %s was changed in place",
                           HOD_SHAPE_TEXT(l->index));
    hod_tensor *leaf = n->edge[0].leaf;
    struct hod_grad_meta *m = leaf ? leaf->autograd : NULL;
    if (m && !create_graph && m->hooks.n == 0 && hod__backward_accumulates())
        return append(m, l->index, g[0]);
    dx[0] = added_at(g[0], l->index, hod_shape_of(n->meta[0].ndim, n->meta[0].shape));
    return dx[0] ? 0 : -1;
}

static void lookup_release(void *state)
{
    lookup *l = state;
    hod_tensor_release(l->index);
    free(l);
}

hod_tensor *hod_embedding_rows(hod_tensor *w, hod_tensor *index)
{
    static const hod_custom node = {.backward = lookup_backward, .release = lookup_release};
    if (hod__null("embedding_rows", "w", w) || hod__null("embedding_rows", "index", index))
        return NULL;
    if (!w->requires_grad || !hod_grad_enabled())
        return hod_embedding(w, index);
    hod_tensor *y = NULL;
    {
        HOD_NO_GRAD(n);
        y = hod_embedding(w, index);
    }
    lookup *l = y ? hod__alloc(1, sizeof *l) : NULL;
    if (!l)
        return NULL;
    l->index = hod_tensor_retain(index);
    l->version = index->storage->version;
    return hod__tape_note_custom(&node, "embedding_rows", l, 1, &w, 1, &y) ? y : NULL;
}
