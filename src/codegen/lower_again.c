/* Again: a forward value that only costs arithmetic is computed again by the backward pass.
 *
 *     forward     x = conv(..)      y = relu((x - mean) * rstd)       z = conv(y)
 *     backward    needs x - mean and y: kept, two images for each convolution;
 *                 made again from x, one image, and a load that the kernel has to do anyway
 *
 * Looking at the number of uses alone does not do: h = relu(matmul(..)) is better kept, since
 * nothing else wants the product. So a value is let go only for what stays for other reasons. And
 * what an effect overwrites between the two passes cannot be read twice: a value that depends on it
 * is kept.
 */
#include "codegen/lower_copy.h"

enum {
    AGAIN_NODES = 24,   /* more arithmetic than this is worth a store */
    AGAIN_LEAVES = 4,   /* loads that replace the one load of the stored value: a residual stage's
                           fourth output is made of four convolutions */
    AGAIN_REACH = 128,  /* nodes over which one clone serves several readers: a block's backward */
    AGAIN_BYTES = 4096, /* less than this is stored without a thought */
};

typedef struct sharing {
    const hod_lowering *l;
    bool *kept;           /* producer has memory whatever we do */
    bool *needed;         /* kept, and read by the backward pass in any case */
    hod_ref *overwritten; /* the first effect that changes this producer's memory, or g->n */
} sharing;

static bool forward(const hod_graph *g, hod_ref r)
{
    return !(hod__node(g, r)->flags & HOD_NODE_BACKWARD);
}

/* A draw is arithmetic too, on its key and index: masks are never stored. */
static bool is_pointwise(const hod_graph *g, hod_ref r)
{
    return !hod__is_input(g, r) &&
           (hod__node_info(g, r)->class == HOD_POINTWISE || hod__node(g, r)->op == HOD_OP_uniform);
}

static bool is_small(const hod_graph *g, hod_ref r)
{
    return hod__node_bytes(g, r) < AGAIN_BYTES;
}

static void find_kept(sharing *s)
{
    const hod_graph *g = s->l->g;
    for (hod_ref r = 0; r < g->n; r++) {
        const hod_site *site = &s->l->site[r];
        s->kept[r] = !(site->fused && is_pointwise(g, r)) && !hod__is_view(g, r) && !site->inlined;
        for (int32_t i = 0; i < site->n_users; i++)
            s->kept[r] |= !s->l->site[s->l->followers[site->followers + i]].fused;
    }
    for (int64_t k = 0; k < g->n_outputs; k++)
        s->kept[s->l->site[g->outputs[k]].producer] = true;
}

/* Counts nodes and large leaves of computing r again. */
static void measure(const sharing *s, hod_ref r, int64_t size, int *nodes, hod_ref *leaf,
                    int *leaves)
{
    r = s->l->site[r].producer;
    if (s->l->site[r].inlined || *nodes > AGAIN_NODES)
        return;
    if (s->kept[r] || is_small(s->l->g, r)) {
        if (2 * hod__node_numel(s->l->g, r) < size)
            return;
        for (int i = 0; i < *leaves; i++)
            if (leaf[i] == r)
                return;
        if (*leaves <= AGAIN_LEAVES)
            leaf[(*leaves)++] = r;
        return;
    }
    ++*nodes;
    for (int i = 0; i < hod__node(s->l->g, r)->n_in; i++)
        measure(s, hod__node_in(s->l->g, r)[i], size, nodes, leaf, leaves);
}

static bool worth_again(const sharing *s, hod_ref r)
{
    int nodes = 0, leaves = 0;
    hod_ref leaf[AGAIN_LEAVES + 1];
    measure(s, r, hod__node_numel(s->l->g, r), &nodes, leaf, &leaves);
    return nodes <= AGAIN_NODES && leaves <= AGAIN_LEAVES;
}

static void find_overwritten(sharing *s)
{
    const hod_graph *g = s->l->g;
    for (hod_ref r = 0; r < g->n; r++)
        s->overwritten[r] = (hod_ref)g->n;
    for (hod_ref r = (hod_ref)g->n; r-- > 0;)
        if (hod__is_effect(g, r))
            s->overwritten[s->l->site[hod__node_in(g, r)[0]].producer] = r;
}

/* Everything that r is computed from again is still there at `user`. */
static bool is_there(const sharing *s, hod_ref r, hod_ref user)
{
    r = s->l->site[r].producer;
    if (s->l->site[r].inlined)
        return true;
    if (s->kept[r] || is_small(s->l->g, r))
        return s->overwritten[r] > user;
    for (int i = 0; i < hod__node(s->l->g, r)->n_in; i++)
        if (!is_there(s, hod__node_in(s->l->g, r)[i], user))
            return false;
    return true;
}

/* What backward nodes read, or would read to compute forward values again. */
static void find_needed(sharing *s)
{
    const hod_graph *g = s->l->g;
    for (hod_ref u = 0; u < g->n; u++)
        for (int i = 0; !forward(g, u) && i < hod__node(g, u)->n_in; i++) {
            hod_ref p = s->l->site[hod__node_in(g, u)[i]].producer, leaf[AGAIN_LEAVES + 1];
            int nodes = 0, leaves = 0;
            if (forward(g, p))
                measure(s, p, hod__node_numel(g, p), &nodes, leaf, &leaves);
            while (leaves-- > 0)
                s->needed[leaf[leaves]] = true;
        }
}

/* A forward result that library calls of both passes read, an activation between two convolutions,
 * is let go too when all it comes from stays for other reasons: y = relu(norm(x)) while the norm's
 * gradient keeps x. That is half of a ResNet's activations for one more sweep over each. */
static void let_go(sharing *s)
{
    const hod_graph *g = s->l->g;
    for (hod_ref r = 0; r < g->n; r++) {
        if (!forward(g, r) || !s->l->site[r].fused || !is_pointwise(g, r) || !s->kept[r] ||
            is_small(g, r) || !s->needed[r])
            continue;
        bool returned = false;
        for (int64_t k = 0; k < g->n_outputs; k++)
            returned |= s->l->site[g->outputs[k]].producer == r;
        int nodes = 0, leaves = 0;
        hod_ref leaf[AGAIN_LEAVES + 1];
        s->kept[r] = false;
        measure(s, r, hod__node_numel(g, r), &nodes, leaf, &leaves);
        bool stays = returned || nodes > AGAIN_NODES || leaves > AGAIN_LEAVES;
        while (leaves-- > 0)
            stays |= !s->needed[leaf[leaves]];
        s->kept[r] = stays;
    }
}

/* The new node that gives r's value to a backward reader at `user`. */
static hod_ref clone(hod_copier *w, const sharing *s, hod_ref r, hod_ref user)
{
    const hod_graph *g = w->from;
    hod_ref p = s->l->site[r].producer;
    bool view = hod__is_view(g, r);
    if (!forward(g, r) || hod__is_input(g, r) || s->kept[p] || s->l->site[p].inlined ||
        is_small(g, p) || !(view || is_pointwise(g, r)))
        return w->map[r];
    if (w->copy[r] != HOD_NO_REF && user - w->when[r] < AGAIN_REACH)
        return w->copy[r];
    hod_ref in[HOD_OP_MAX_INPUTS];
    const hod_node *n = hod__node(g, r);
    for (int i = 0; i < n->n_in; i++)
        in[i] = clone(w, s, hod__node_in(g, r)[i], user);
    w->copy[r] = hod__copy_add(w, (hod_op)n->op, &n->attrs, n->n_in, in, r);
    if (!w->failed)
        hod__node(w->to, w->copy[r])->flags |= HOD_NODE_BACKWARD | HOD_NODE_AGAIN;
    w->when[r] = user;
    return w->copy[r];
}

/* A large backward value of forward ones alone (a ReLU's mask) must not be made, and kept, by the
 * forward kernel that has its inputs at hand. */
static void mark_masks(const sharing *s, hod_copier *w, hod_ref r)
{
    const hod_graph *g = w->from;
    bool alone = !forward(g, r) && is_pointwise(g, r) && !is_small(g, r);
    for (int i = 0; i < hod__node(g, r)->n_in && alone; i++) {
        hod_ref p = s->l->site[hod__node_in(g, r)[i]].producer;
        alone = forward(g, p) || s->l->site[p].inlined;
    }
    if (alone)
        hod__node(w->to, w->map[r])->flags |= HOD_NODE_AGAIN;
}

static hod_ref operand(hod_copier *w, hod_ref user, int i)
{
    const sharing *s = w->context;
    const hod_graph *g = w->from;
    hod_ref x = hod__node_in(g, user)[i], p = s->l->site[x].producer;
    bool again = !forward(g, user) && !hod__is_view(g, user) && forward(g, p) &&
                 is_pointwise(g, p) && !s->kept[p] && !is_small(g, p) && worth_again(s, p) &&
                 is_there(s, p, user);
    return again ? clone(w, s, x, user) : w->map[x];
}

static bool sharing_begin(sharing *s, const hod_lowering *l)
{
    size_t n = (size_t)l->g->n + 1;
    *s = (sharing){.l = l,
                   .kept = hod__alloc(n, sizeof *s->kept),
                   .needed = hod__alloc(n, sizeof *s->needed),
                   .overwritten = hod__alloc(n, sizeof *s->overwritten)};
    if (!s->kept || !s->needed || !s->overwritten)
        return false;
    find_overwritten(s);
    find_kept(s);
    find_needed(s);
    let_go(s);
    return true;
}

hod_graph *hod__lower_again(const hod_graph *g)
{
    hod_copier w;
    hod_lowering l;
    sharing s;
    if (hod__lower(&l, g))
        return NULL;
    hod__copy_begin(&w, g, &s);
    w.failed |= !sharing_begin(&s, &l);
    hod__copy_nodes(&w, operand);
    for (hod_ref r = 0; r < g->n && !w.failed; r++)
        mark_masks(&s, &w, r);
    hod__copy_outputs(&w);
    free(s.kept);
    free(s.needed);
    free(s.overwritten);
    hod__lowering_free(&l);
    return hod__copy_finish(&w);
}
