/* Rewrites between the passes and the kernels: what the machine wants, said in operators.
 *
 *   operands  library calls and outputs get memory they can address: a row-major copy is put in
 *             front where a view has no strides, and it fuses like any pointwise operator.
 *   again     a forward value that only costs arithmetic is computed again by the backward pass
 *             instead of being kept: x̂ = (x - mean) * rstd from x, not x̂ stored beside x.
 *   split     a sum of many elements to few results is done in two levels, so that all threads work
 *             on it and partial sums stay short.
 *
 *     sum {0,2,3} of (N,C,H,W)  ->  sum {2,3} keepdim, then sum {0,2,3}
 *     sum {0} of (n)            ->  reshape (k, n/k), sum {1}, sum {0}
 */
#include "codegen/lower.h"

typedef struct rewriter {
    const hod_graph *from;
    hod_graph *to;
    hod_ref *map;  /* old node -> new */
    hod_ref *copy; /* old node -> its row-major copy, or again-clone */
    hod_ref *when; /* old node at which the clone was made */
    bool failed;
} rewriter;

static bool begin(rewriter *w, const hod_graph *g)
{
    *w = (rewriter){.from = g, .to = hod__graph_new(g->name)};
    w->map = hod__alloc((size_t)g->n + 1, sizeof *w->map);
    w->copy = hod__alloc((size_t)g->n + 1, sizeof *w->copy);
    w->when = hod__alloc((size_t)g->n + 1, sizeof *w->when);
    w->failed = !w->to || !w->map || !w->copy || !w->when;
    for (hod_ref r = 0; r < g->n && !w->failed; r++)
        w->copy[r] = HOD_NO_REF;
    return !w->failed;
}

static hod_graph *finish(rewriter *w)
{
    for (int64_t k = 0; k < w->from->n_outputs && !w->failed; k++)
        w->failed = hod__graph_return(w->to, w->map[w->from->outputs[k]]) != 0;
    free(w->map);
    free(w->copy);
    free(w->when);
    if (!w->failed)
        return w->to;
    hod__graph_free(w->to);
    return NULL;
}

/* Adds an operator, with the place and flags of old node `like`. */
static hod_ref add(rewriter *w, hod_op op, const hod_attrs *attrs, int n, const hod_ref *in,
                   hod_ref like)
{
    hod_ref r = w->failed ? HOD_NO_REF : hod__graph_op(w->to, op, attrs, n, in);
    if (r == HOD_NO_REF) {
        w->failed = true;
        return 0;
    }
    hod_node *node = hod__node(w->to, r);
    const hod_node *old = hod__node(w->from, like);
    node->flags = old->flags;
    node->file = old->file;
    node->line = old->line;
    return r;
}

static void copy_input(rewriter *w, hod_ref r)
{
    const hod_graph_input *in = &w->from->inputs[hod__node(w->from, r)->input];
    hod_meta meta = hod__node_meta(w->from, r);
    w->map[r] = hod__graph_input(w->to, &meta, in->strides, in->role, in->name);
    w->failed |= w->map[r] == HOD_NO_REF;
}

static void copy_node(rewriter *w, hod_ref r, const hod_ref *in)
{
    const hod_node *n = hod__node(w->from, r);
    w->map[r] = add(w, (hod_op)n->op, &n->attrs, n->n_in, in, r);
}

/* ---- operands ---- */

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
    case HOD_OP_avg_pool2d_back:
        return hod__is_view(g, x) || !row_major(hod__node(g, x), s);
    case HOD_OP_matmul:
        return !matmul_reads(hod__node(g, x), s);
    default:
        return false;
    }
}

static hod_ref row_major_copy(rewriter *w, hod_ref x, hod_ref user)
{
    if (w->copy[x] == HOD_NO_REF)
        w->copy[x] = add(w, HOD_OP_contiguous, &(hod_attrs){0}, 1, &w->map[x], user);
    return w->copy[x];
}

hod_graph *hod__lower_operands(const hod_graph *g)
{
    rewriter w;
    hod_lowering l;
    if (hod__lower(&l, g))
        return NULL;
    begin(&w, g);
    for (hod_ref r = 0; r < g->n && !w.failed; r++) {
        if (hod__is_input(g, r)) {
            copy_input(&w, r);
            continue;
        }
        hod_ref in[HOD_OP_MAX_INPUTS];
        for (int i = 0; i < hod__node(g, r)->n_in; i++) {
            hod_ref x = hod__node_in(g, r)[i];
            in[i] = needs_copy(&l, r, i) ? row_major_copy(&w, x, r) : w.map[x];
        }
        copy_node(&w, r, in);
    }
    for (int64_t k = 0; k < g->n_outputs && !w.failed; k++) {
        hod_ref r = g->outputs[k];
        bool again = false;
        for (int64_t j = 0; j < k; j++)
            again |= g->outputs[j] == r;
        hod_ref value = w.map[r];
        if (again || l.site[r].producer != r || hod__is_input(g, r) || hod__is_effect(g, r) ||
            l.site[r].inlined)
            value = add(&w, HOD_OP_contiguous, &(hod_attrs){0}, 1, &w.map[r], r);
        w.failed |= hod__graph_return(w.to, value) != 0;
    }
    w.from = &(hod_graph){0}; /* outputs are done */
    hod__lowering_free(&l);
    return finish(&w);
}

/* ---- again ---- */

enum {
    AGAIN_NODES = 24,   /* more arithmetic than this is worth a store */
    AGAIN_LEAVES = 2,   /* loads that replace the one load of the stored value */
    AGAIN_REACH = 64,   /* nodes over which one clone serves several readers */
    AGAIN_BYTES = 4096, /* less than this is stored without a thought */
};

typedef struct sharing {
    const hod_lowering *l;
    bool *kept;   /* producer has memory whatever we do */
    bool *needed; /* kept, and read by the backward pass in any case */
} sharing;

static bool forward(const hod_graph *g, hod_ref r)
{
    return !(hod__node(g, r)->flags & HOD_NODE_BACKWARD);
}

/* A draw is arithmetic too, on its key and index: masks are never stored. */
static bool is_pointwise(const hod_graph *g, hod_ref r)
{
    return !hod__is_input(g, r) && (hod__node_info(g, r)->class == HOD_POINTWISE ||
                                    hod__node(g, r)->op == HOD_OP_uniform);
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
static void measure(const sharing *s, hod_ref r, int64_t size, int *nodes, hod_ref *leaf, int *leaves)
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
static hod_ref clone(rewriter *w, const sharing *s, hod_ref r, hod_ref user)
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
    w->copy[r] = add(w, (hod_op)n->op, &n->attrs, n->n_in, in, r);
    if (!w->failed)
        hod__node(w->to, w->copy[r])->flags |= HOD_NODE_BACKWARD | HOD_NODE_AGAIN;
    w->when[r] = user;
    return w->copy[r];
}

/* A large backward value of forward ones alone (a ReLU's mask) must not be made, and kept, by the
 * forward kernel that has its inputs at hand. */
static void mark_masks(const sharing *s, rewriter *w, hod_ref r)
{
    const hod_graph *g = w->from;
    bool alone = !forward(g, r) && is_pointwise(g, r) && !is_small(g, r);
    for (int i = 0; i < hod__node(g, r)->n_in && alone; i++) {
        hod_ref p = s->l->site[hod__node_in(g, r)[i]].producer;
        alone = forward(g, p) || s->l->site[p].inlined;
    }
    if (alone && !w->failed)
        hod__node(w->to, w->map[r])->flags |= HOD_NODE_AGAIN;
}

hod_graph *hod__lower_again(const hod_graph *g)
{
    rewriter w;
    hod_lowering l;
    if (hod__lower(&l, g))
        return NULL;
    sharing s = {.l = &l,
                 .kept = hod__alloc((size_t)g->n + 1, sizeof *s.kept),
                 .needed = hod__alloc((size_t)g->n + 1, sizeof *s.needed)};
    begin(&w, g);
    if (!s.kept || !s.needed) {
        w.failed = true;
    } else {
        find_kept(&s);
        find_needed(&s);
        let_go(&s);
    }
    for (hod_ref r = 0; r < g->n && !w.failed; r++) {
        if (hod__is_input(g, r)) {
            copy_input(&w, r);
            continue;
        }
        hod_ref in[HOD_OP_MAX_INPUTS];
        for (int i = 0; i < hod__node(g, r)->n_in; i++) {
            hod_ref x = hod__node_in(g, r)[i], p = l.site[x].producer;
            bool again = !forward(g, r) && !hod__is_view(g, r) && forward(g, p) &&
                         is_pointwise(g, p) && !s.kept[p] && !is_small(g, p) &&
                         worth_again(&s, p);
            in[i] = again ? clone(&w, &s, x, r) : w.map[x];
        }
        copy_node(&w, r, in);
        mark_masks(&s, &w, r);
    }
    free(s.kept);
    free(s.needed);
    hod__lowering_free(&l);
    return finish(&w);
}

/* ---- split ---- */

bool hod__few_rows(const hod_graph *g, hod_ref sum)
{
    const hod_node *y = hod__node(g, sum), *x = hod__node(g, hod__node_in(g, sum)[0]);
    int block = hod__dnn_block();
    uint32_t dims = y->attrs.reduce.dims;
    bool image = x->ndim == 4 && !(dims >> 1 & 1) && x->shape[1] % block == 0;
    bool kept = image || (x->ndim > 0 && !(dims >> (x->ndim - 1) & 1));
    int64_t rows = hod__node_numel(g, sum) / (kept ? block : 1);
    return rows < HOD_FEW_ROWS && hod__node_numel(g, hod__node_in(g, sum)[0]) >= HOD_LONG_ROWS;
}

/* The largest divisor of n up to `most`. */
static int64_t divisor(int64_t n, int64_t most)
{
    for (int64_t k = most; k > 1; k--)
        if (n % k == 0)
            return k;
    return 1;
}

/* A first sum over all but the outermost long folded dimension; HOD_NO_REF when there is no such. */
static hod_ref sum_inner(rewriter *w, hod_ref r, hod_ref x)
{
    const hod_node *y = hod__node(w->from, r);
    const hod_node *xn = hod__node(w->from, hod__node_in(w->from, r)[0]);
    hod_attrs inner = {0};
    inner.reduce.dims = y->attrs.reduce.dims;
    inner.reduce.keepdim = true;
    int d = 0;
    while (d < xn->ndim && !(inner.reduce.dims >> d & 1 && xn->shape[d] >= 8))
        d++;
    inner.reduce.dims &= ~(1u << d);
    if (d == xn->ndim || !inner.reduce.dims)
        return HOD_NO_REF;
    return add(w, (hod_op)y->op, &inner, 1, &x, r);
}

/* A single folded dimension n becomes (k, n/k); the inner of the two is summed here, and the
 * original sum, over k, finishes it. */
static hod_ref sum_parts(rewriter *w, hod_ref r, hod_ref x)
{
    const hod_node *y = hod__node(w->from, r);
    const hod_node *xn = hod__node(w->from, hod__node_in(w->from, r)[0]);
    int d = 0;
    while (d < xn->ndim && !(y->attrs.reduce.dims >> d & 1 && xn->shape[d] > 1))
        d++;
    if (d == xn->ndim || xn->ndim == HOD_MAX_DIMS)
        return HOD_NO_REF;
    int64_t k = divisor(xn->shape[d], 256);
    if (k < 8)
        return HOD_NO_REF;
    hod_attrs cut = {0}, inner = {0};
    cut.shape.shape.n = xn->ndim + 1;
    for (int i = 0; i < xn->ndim; i++)
        cut.shape.shape.d[i + (i > d)] = i == d ? k : xn->shape[i];
    cut.shape.shape.d[d + 1] = xn->shape[d] / k;
    inner.reduce.dims = 1u << (d + 1);
    hod_ref parts = add(w, HOD_OP_reshape, &cut, 1, &x, r);
    return add(w, (hod_op)y->op, &inner, 1, &parts, r);
}

hod_graph *hod__lower_split(const hod_graph *g)
{
    rewriter w;
    begin(&w, g);
    for (hod_ref r = 0; r < g->n && !w.failed; r++) {
        if (hod__is_input(g, r)) {
            copy_input(&w, r);
            continue;
        }
        hod_ref in[HOD_OP_MAX_INPUTS];
        for (int i = 0; i < hod__node(g, r)->n_in; i++)
            in[i] = w.map[hod__node_in(g, r)[i]];
        int op = hod__node(g, r)->op;
        if ((op == HOD_OP_sum || op == HOD_OP_amax || op == HOD_OP_amin) && hod__few_rows(g, r)) {
            hod_ref part = sum_inner(&w, r, in[0]);
            if (part == HOD_NO_REF)
                part = sum_parts(&w, r, in[0]);
            in[0] = part == HOD_NO_REF ? in[0] : part;
        }
        copy_node(&w, r, in);
    }
    return finish(&w);
}
