/* Where each value lives, who reads it, and in which layout.
 *
 * Every node gets a site. A view owns no memory: its site names the node under it. Layouts spread
 * from convolutions: what is computed elementwise from blocked memory is stored blocked too, until
 * a reader that needs rows (matmul, an output, a slice) asks for plain memory.
 */
#include "codegen/lower.h"

bool hod__is_view(const hod_graph *g, hod_ref r)
{
    return !hod__is_input(g, r) && hod__node_info(g, r)->class == HOD_VIEW;
}

bool hod__is_cut(const hod_graph *g, hod_ref r)
{
    int op = hod__node(g, r)->op;
    return op == HOD_OP_slice || op == HOD_OP_windows;
}

bool hod__is_effect(const hod_graph *g, hod_ref r)
{
    return !hod__is_input(g, r) && hod__node_info(g, r)->class == HOD_EFFECT;
}

bool hod__is_target(const hod_graph *g, hod_ref r, int i)
{
    return i == 0 && hod__is_effect(g, r);
}

bool hod__is_conv(const hod_graph *g, hod_ref r)
{
    int op = hod__node(g, r)->op;
    return op == HOD_OP_conv2d || op == HOD_OP_conv2d_input || op == HOD_OP_conv2d_weight;
}

bool hod__takes_blocked(const hod_graph *g, hod_ref r, int i)
{
    bool weight = i == 1 && hod__node(g, r)->op != HOD_OP_conv2d_weight;
    return hod__is_pool(g, r) || (hod__is_conv(g, r) && !weight);
}

/* ---- strides of views over plain memory ---- */

/* Strides for `to`, the same elements as (n, shape, strides); false when none exist. */
static bool reshape_strides(int n, const int64_t *shape, const int64_t *strides, const hod_node *to,
                            int64_t *out)
{
    int64_t s[HOD_MAX_DIMS], t[HOD_MAX_DIMS];
    int k = 0; /* runs: maximal groups of dimensions that step evenly */
    memset(out, 0, (size_t)to->ndim * sizeof *out);
    for (int d = 0; d < n; d++) {
        if (shape[d] == 0)
            return true; /* nothing is ever addressed */
        if (shape[d] == 1)
            continue;
        if (k && t[k - 1] == shape[d] * strides[d]) {
            s[k - 1] *= shape[d];
            t[k - 1] = strides[d];
        } else {
            s[k] = shape[d];
            t[k++] = strides[d];
        }
    }
    int64_t left = k ? s[k - 1] : 1;
    for (int d = to->ndim; d-- > 0;) {
        if (to->shape[d] == 1)
            continue;
        while (left == 1 && k > 1)
            left = s[--k - 1];
        if (!k || left % to->shape[d])
            return false;
        out[d] = t[k - 1] * (s[k - 1] / left);
        left /= to->shape[d];
    }
    return true;
}

static void view_strides(const hod_graph *g, hod_site *site, hod_ref r)
{
    const hod_node *y = hod__node(g, r), *x = hod__node(g, hod__node_in(g, r)[0]);
    const hod_site *xs = &site[hod__node_in(g, r)[0]];
    hod_site *ys = &site[r];
    ys->has_strides = xs->has_strides;
    ys->offset = xs->offset;
    int shift = y->ndim - x->ndim;
    switch (y->op) {
    case HOD_OP_permute:
        for (int d = 0; d < y->ndim; d++)
            ys->strides[d] = xs->strides[y->attrs.permute.order.d[d]];
        break;
    case HOD_OP_expand:
        for (int d = 0; d < y->ndim; d++)
            ys->strides[d] =
                d >= shift && x->shape[d - shift] == y->shape[d] ? xs->strides[d - shift] : 0;
        break;
    case HOD_OP_slice:
        memcpy(ys->strides, xs->strides, sizeof ys->strides);
        ys->offset += y->attrs.slice.start * xs->strides[y->attrs.slice.dim];
        ys->strides[y->attrs.slice.dim] *= y->attrs.slice.step;
        break;
    case HOD_OP_windows:
        for (int64_t d = 0; d < y->ndim; d++)
            ys->strides[d] = xs->strides[d > y->attrs.windows.dim ? d - 1 : d];
        ys->strides[y->attrs.windows.dim] *= y->attrs.windows.step;
        break;
    default:
        ys->has_strides =
            xs->has_strides && reshape_strides(x->ndim, x->shape, xs->strides, y, ys->strides);
    }
}

/* ---- sites ---- */

static bool can_fuse(const hod_graph *g, hod_ref r)
{
    const hod_node *n = hod__node(g, r);
    if (n->op == HOD_OP_argmax || n->op == HOD_OP_argmin)
        return false;
    if (n->op == HOD_OP_uniform) { /* one sample a row, or one sample for all */
        const hod_node *index = hod__node(g, hod__node_in(g, r)[1]);
        hod_ref key = hod__node_in(g, r)[0];
        bool dense = hod__is_input(g, key) && g->inputs[hod__node(g, key)->input].strides[0] == 1;
        return dense && (index->ndim == 0 || index->shape[0] == 1 ||
                         (n->ndim > 0 && index->shape[0] == n->shape[0]));
    }
    hod_op_class c = hod__op_info[n->op].class;
    return c == HOD_POINTWISE || c == HOD_REDUCE || c == HOD_EFFECT || n->op == HOD_OP_contiguous;
}

static void make_site(const hod_graph *g, hod_site *site, hod_ref r)
{
    const hod_node *n = hod__node(g, r);
    hod_site *s = &site[r];
    *s = (hod_site){.producer = r, .root = r, .memory = r, .cluster = -1, .stored = true};
    if (hod__is_input(g, r)) {
        memcpy(s->strides, g->inputs[n->input].strides, sizeof s->strides);
        s->has_strides = true;
    } else if (hod__is_view(g, r)) {
        const hod_site *x = &site[hod__node_in(g, r)[0]];
        s->producer = x->producer;
        s->memory = x->memory;
        s->stored = false;
        if (!hod__is_cut(g, r))
            s->root = x->root;
        view_strides(g, site, r);
    } else {
        s->fused = can_fuse(g, r);
        s->inlined = n->op == HOD_OP_full || n->op == HOD_OP_iota;
        s->stored = !s->inlined;
        s->has_strides = true;
        hod__row_major(n->ndim, n->shape, s->strides);
        if (hod__is_effect(g, r)) {
            const hod_site *target = &site[hod__node_in(g, r)[0]];
            s->memory = target->memory;
            s->offset = target->offset;
            memcpy(s->strides, target->strides, sizeof s->strides);
        }
    }
}

/* ---- followers ---- */

/* Calls f for every (node, node that must run later) pair: readers, then overwriters. */
static void each_order(const hod_lowering *l, bool data,
                       void (*f)(hod_lowering *, hod_ref, hod_ref), hod_lowering *into)
{
    const hod_graph *g = l->g;
    for (hod_ref u = 0; u < g->n; u++) {
        if (hod__is_input(g, u) || hod__is_view(g, u))
            continue;
        if (data) {
            for (int i = 0; i < hod__node(g, u)->n_in; i++)
                f(into, l->site[hod__node_in(g, u)[i]].producer, u);
        } else if (hod__is_effect(g, u)) {
            hod_ref target = l->site[hod__node_in(g, u)[0]].producer;
            for (hod_ref v = 0; v < u; v++)
                if (!hod__is_input(g, v) && !hod__is_view(g, v))
                    for (int i = 0; i < hod__node(g, v)->n_in; i++)
                        if (l->site[hod__node_in(g, v)[i]].producer == target)
                            f(into, v, u);
        }
    }
}

static void count_user(hod_lowering *l, hod_ref r, hod_ref u)
{
    (void)u;
    l->site[r].n_users++;
}
static void count_follower(hod_lowering *l, hod_ref r, hod_ref u)
{
    (void)u;
    l->site[r].n_followers++;
}
static void put_follower(hod_lowering *l, hod_ref r, hod_ref u)
{
    l->followers[l->site[r].followers + l->site[r].n_followers++] = u;
}

static int find_followers(hod_lowering *l)
{
    each_order(l, true, count_user, l);
    each_order(l, false, count_follower, l);
    int32_t total = 0;
    for (hod_ref r = 0; r < l->g->n; r++) {
        hod_site *s = &l->site[r];
        s->followers = total;
        total += s->n_users + s->n_followers;
        s->n_followers = 0;
    }
    if (!(l->followers = hod__alloc((size_t)total + 1, sizeof *l->followers)))
        return -1;
    each_order(l, true, put_follower, l);
    each_order(l, false, put_follower, l);
    return 0;
}

/* ---- layouts ---- */

static void find_plain(hod_lowering *l)
{
    const hod_graph *g = l->g;
    for (hod_ref u = 0; u < g->n; u++) {
        if (hod__is_input(g, u) || hod__is_view(g, u))
            continue;
        for (int i = 0; i < hod__node(g, u)->n_in; i++) {
            hod_ref x = hod__node_in(g, u)[i];
            hod_site *p = &l->site[l->site[x].producer];
            bool any = l->site[u].fused && !(hod__node(g, u)->op == HOD_OP_uniform && i == 0)
                           ? l->site[x].root == l->site[x].producer
                           : x == l->site[x].producer && hod__takes_blocked(g, u, i);
            p->plain |= !any;
        }
    }
    for (int64_t k = 0; k < g->n_outputs; k++)
        l->site[l->site[g->outputs[k]].producer].plain = true;
}

static void tint(hod_site *s, const int64_t image[4])
{
    s->tinted = true;
    memcpy(s->image, image, sizeof s->image);
}

/* Takes the image of the first operand that has one and as many elements. */
static void tint_like_operand(hod_lowering *l, hod_ref r)
{
    const hod_graph *g = l->g;
    for (int i = 0; i < hod__node(g, r)->n_in && !l->site[r].tinted; i++) {
        hod_ref root = l->site[hod__node_in(g, r)[i]].root;
        if (l->site[root].tinted && hod__node_numel(g, r) == hod__node_numel(g, root))
            tint(&l->site[r], l->site[root].image);
    }
}

static void choose_layout(hod_lowering *l, hod_ref r)
{
    const hod_graph *g = l->g;
    const hod_node *n = hod__node(g, r);
    hod_site *s = &l->site[r];
    if (hod__is_input(g, r))
        return;
    if (n->op == HOD_OP_conv2d || n->op == HOD_OP_conv2d_input) {
        if (n->attrs.conv.groups == 1 && hod__node(g, hod__node_in(g, r)[0])->dtype == n->dtype)
            tint(s, n->shape);
    } else if (hod__is_pool(g, r)) {
        if (l->site[hod__node_in(g, r)[n->n_in - 1]].layout == HOD_LAYOUT_BLOCKED)
            tint(s, n->shape);
    } else if (s->fused && !hod__is_effect(g, r)) {
        tint_like_operand(l, r);
    }
    bool itself = n->ndim != 4 || !memcmp(n->shape, s->image, sizeof s->image);
    bool blocks = n->dtype == HOD_F32 || n->dtype == HOD_BOOL; /* values, and masks over them */
    if (s->tinted && itself && blocks && s->image[1] % l->block == 0 && !s->plain)
        s->layout = HOD_LAYOUT_BLOCKED;
}

/* A node whose operands no loop nest can walk (a reshape that cuts across factors) is left to its
 * eager kernel, which takes any strides; its operands then have to be plain. */
static bool leave_unwalkable(hod_lowering *l, hod_space *space)
{
    bool changed = false;
    for (hod_ref r = 0; r < l->g->n; r++)
        if (l->site[r].fused && hod__space_derive(l, &r, 1, space)) {
            l->site[r].fused = false;
            changed = true;
        }
    return changed;
}

static void choose_layouts(hod_lowering *l)
{
    for (hod_ref r = 0; r < l->g->n; r++) {
        l->site[r].layout = HOD_LAYOUT_PLAIN;
        l->site[r].tinted = false;
    }
    find_plain(l);
    for (hod_ref r = 0; r < l->g->n; r++)
        choose_layout(l, r);
}

int hod__lower(hod_lowering *l, const hod_graph *g)
{
    *l = (hod_lowering){.g = g, .block = hod__dnn_block()};
    l->site = hod__alloc((size_t)g->n + 1, sizeof *l->site);
    hod_space *space = hod__alloc(1, sizeof *space);
    bool empty = false;
    for (hod_ref r = 0; r < g->n && l->site; r++) {
        make_site(g, l->site, r);
        empty |= hod__node_numel(g, r) == 0;
    }
    if (!l->site || !space || find_followers(l)) {
        free(space);
        hod__lowering_free(l);
        return -1;
    }
    for (hod_ref r = 0; r < g->n && empty;
         r++) { /* nothing to loop over: the eager kernels do it */
        l->site[r].fused = false;
        l->site[r].stored |= l->site[r].inlined;
        l->site[r].inlined = false;
    }
    do
        choose_layouts(l);
    while (leave_unwalkable(l, space));
    free(space);
    return 0;
}

void hod__lowering_free(hod_lowering *l)
{
    free(l->site);
    free(l->followers);
    for (int32_t i = 0; i < l->n_clusters; i++)
        free(l->clusters[i].node);
    free(l->clusters);
    *l = (hod_lowering){0};
}
