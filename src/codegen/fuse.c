/* Fusion: which nodes share one kernel.
 *
 * Every fused node starts as a cluster of its own. Walking the graph in order, a node's cluster is
 * merged with its producers' (saving a store and a load), then clusters that read the same memory
 * are merged with each other (saving a load). A merge must leave
 *
 *   F1  one iteration space: hod__space_derive succeeds;
 *   F2  members that are either full (all atoms) or points (all but the reduced ones), so that
 *       nothing is computed twice and every stored element is written once;
 *   F3  no way out of the cluster and back in, or it could never be scheduled;
 *   F4  effects that overwrite only what the kernel reads at the same index, after the last read;
 *   F5  enough independent rows for every thread, when rows are long;
 *   F6  no value that is computed again beside a forward one: it would be stored after all.
 *
 *     x ──► sub ──► mul ──► sum ──► rsqrt ──► mul ──► relu      one cluster: two passes over a row
 *      \_____________________________________/
 */
#include "codegen/lower.h"

enum {
    CLUSTER_NODES = 80,   /* more would not fit the registers, nor a reader's patience */
    SIBLING_NODES = 40,
    SIBLING_BYTES = 4096, /* a shared load smaller than this is not worth a bigger kernel */
};

typedef struct fuser {
    hod_lowering *l;
    hod_space *space;
    hod_ref *queue;  /* of the path search */
    int32_t *seen;   /* stamp by cluster or, for unfused nodes, by n_clusters + node */
    int32_t stamp;
    int32_t *loads, *members; /* scratch of count_operands: stamps by node */
} fuser;

/* ---- F3: paths ---- */

static void visit(fuser *f, hod_ref r, int64_t *n)
{
    int32_t c = f->l->site[r].cluster;
    int32_t key = c >= 0 ? c : f->l->n_clusters + r;
    if (f->seen[key] == f->stamp)
        return;
    f->seen[key] = f->stamp;
    f->queue[(*n)++] = r;
}

static void visit_followers(fuser *f, hod_ref r, int64_t *n)
{
    const hod_site *s = &f->l->site[r];
    for (int32_t i = 0; i < s->n_followers; i++)
        visit(f, f->l->followers[s->followers + i], n);
}

/* Is b reached from a through anything outside both? */
static bool detour(fuser *f, int32_t a, int32_t b)
{
    hod_lowering *l = f->l;
    int64_t n = 0;
    f->stamp++;
    f->seen[a] = f->seen[b] = f->stamp;
    for (int32_t i = 0; i < l->clusters[a].n; i++)
        visit_followers(f, l->clusters[a].node[i], &n);
    f->seen[b] = 0; /* from here on, arriving at b is the detour */
    for (int64_t at = 0; at < n; at++) {
        int32_t c = l->site[f->queue[at]].cluster;
        if (c == b)
            return true;
        if (c < 0) {
            visit_followers(f, f->queue[at], &n);
            continue;
        }
        for (int32_t i = 0; i < l->clusters[c].n; i++)
            visit_followers(f, l->clusters[c].node[i], &n);
    }
    return false;
}

/* ---- F1, F2, F4, F5: the merged space ---- */

static bool effects_fit(const fuser *f, const hod_ref *nodes, int n)
{
    const hod_lowering *l = f->l;
    hod_space *s = f->space;
    for (int i = 0; i < n; i++) {
        if (!hod__is_effect(l->g, nodes[i]))
            continue;
        hod_ref memory = l->site[nodes[i]].memory;
        const hod_space_value *e = &s->value[i];
        for (int k = 0; k < s->n; k++) {
            const hod_space_value *v = &s->value[k];
            if (k == i || l->site[v->ref].memory != memory || l->site[v->ref].root != v->ref)
                continue;
            if (k < n || hod__is_view(l->g, v->ref) || (s->reduced && e->atoms & s->reduced))
                return false;
            for (int d = 0; d < hod__node(l->g, v->ref)->ndim; d++)
                if (memcmp(&v->dim[d], &e->dim[d], sizeof v->dim[d]))
                    return false;
        }
    }
    return true;
}

/* Only a reduction that feeds full values of its own cluster ties the kernel to its rows. */
static bool parallel_enough(const fuser *f, const hod_ref *nodes, int n)
{
    const hod_space *s = f->space;
    const hod_graph *g = f->l->g;
    bool few = false;
    for (int i = 0; i < n && s->reduced; i++)
        few |= hod__node_info(g, nodes[i])->class == HOD_REDUCE && hod__few_rows(g, nodes[i]);
    for (int i = 0; i < n && few; i++) {
        if (!(s->value[i].atoms & s->reduced))
            continue;
        for (int k = 0; k < hod__node(g, nodes[i])->n_in; k++) {
            const hod_space_value *x =
                hod__space_value(f->space, f->l->site[hod__node_in(g, nodes[i])[k]].root);
            if (x && x - s->value < n && !(x->atoms & s->reduced))
                return false;
        }
    }
    return true;
}

/* Operands a kernel of these nodes would have at most. */
static int count_operands(fuser *f, const hod_ref *nodes, int n)
{
    int count = n; /* stores */
    f->stamp++;
    for (int i = 0; i < n; i++)
        f->loads[nodes[i]] = f->members[nodes[i]] = f->stamp;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < hod__node(f->l->g, nodes[i])->n_in; k++) {
            hod_ref p = f->l->site[hod__node_in(f->l->g, nodes[i])[k]].root;
            count += f->loads[p] != f->stamp;
            f->loads[p] = f->stamp;
        }
    for (int i = 0; i < n; i++) { /* values that stay inside are not stored */
        const hod_site *s = &f->l->site[nodes[i]];
        bool inside = s->n_users > 0 && !hod__is_effect(f->l->g, nodes[i]);
        for (int32_t k = 0; k < s->n_users && inside; k++)
            inside = f->members[f->l->followers[s->followers + k]] == f->stamp;
        count -= inside;
    }
    return count;
}

static bool again_apart(const fuser *f, const hod_ref *nodes, int n)
{
    bool again = false, forward = false;
    for (int i = 0; i < n; i++) {
        again |= hod__node(f->l->g, nodes[i])->flags & HOD_NODE_AGAIN;
        forward |= !(hod__node(f->l->g, nodes[i])->flags & HOD_NODE_BACKWARD);
    }
    return !(again && forward);
}

static bool space_fits(fuser *f, const hod_ref *nodes, int n)
{
    if (!again_apart(f, nodes, n) || hod__space_derive(f->l, nodes, n, f->space))
        return false;
    const hod_space *s = f->space;
    uint32_t all = 0;
    for (int i = 0; i < s->n; i++)
        all |= s->value[i].atoms;
    for (int i = 0; i < n; i++)
        if (s->value[i].atoms != all && s->value[i].atoms != (all & ~s->reduced))
            return false;
    if (count_operands(f, nodes, n) > HOD_KERNEL_BUFFERS - 2)
        return false;
    for (int i = n; i < s->n; i++) { /* a slice of a member needs it in memory, finished */
        hod_ref r = s->value[i].ref;
        if (f->l->site[r].root == r && f->members[f->l->site[r].producer] == f->stamp)
            return false;
    }
    return effects_fit(f, nodes, n) && parallel_enough(f, nodes, n);
}

/* ---- merging ---- */

static int merge_lists(const hod_cluster *a, const hod_cluster *b, hod_ref *out)
{
    int n = 0, i = 0, k = 0;
    while (i < a->n || k < b->n)
        out[n++] = k == b->n || (i < a->n && a->node[i] < b->node[k]) ? a->node[i++] : b->node[k++];
    return n;
}

/* Merges b into a if the result is a good kernel. `both`: neither feeds the other for certain. */
static bool try_merge(fuser *f, int32_t a, int32_t b, bool both, int limit)
{
    hod_lowering *l = f->l;
    hod_ref nodes[CLUSTER_NODES];
    if (a == b || l->clusters[a].n + l->clusters[b].n > limit)
        return false;
    int n = merge_lists(&l->clusters[a], &l->clusters[b], nodes);
    if (!space_fits(f, nodes, n) || detour(f, a, b) || (both && detour(f, b, a)))
        return false;
    hod_ref *grown = hod__grow(l->clusters[a].node, (size_t)n, sizeof *grown);
    if (!grown)
        return false; /* two kernels serve as well as one */
    memcpy(grown, nodes, (size_t)n * sizeof *nodes);
    l->clusters[a].node = grown;
    l->clusters[a].n = n;
    l->clusters[b].n = 0;
    for (int i = 0; i < n; i++)
        l->site[nodes[i]].cluster = a;
    return true;
}

static void merge_producers(fuser *f, hod_ref r)
{
    const hod_lowering *l = f->l;
    for (int i = 0; i < hod__node(l->g, r)->n_in; i++) {
        hod_ref x = hod__node_in(l->g, r)[i];
        hod_ref p = l->site[x].producer;
        if (!hod__is_target(l->g, r, i) && l->site[p].fused && l->site[x].root == p)
            try_merge(f, l->site[p].cluster, l->site[r].cluster, false, CLUSTER_NODES);
    }
}

static void merge_siblings(fuser *f, hod_ref p)
{
    const hod_lowering *l = f->l;
    const hod_site *s = &l->site[p];
    if (!s->stored || hod__node_bytes(l->g, p) < SIBLING_BYTES)
        return;
    for (int32_t i = 0; i < s->n_users; i++)
        for (int32_t k = i + 1; k < s->n_users; k++) {
            hod_ref u = l->followers[s->followers + i], v = l->followers[s->followers + k];
            if (l->site[u].cluster >= 0 && l->site[v].cluster >= 0)
                try_merge(f, l->site[u].cluster, l->site[v].cluster, true, SIBLING_NODES);
        }
}

static void find_stored(hod_lowering *l)
{
    for (hod_ref r = 0; r < l->g->n; r++) {
        hod_site *s = &l->site[r];
        if (!s->fused)
            continue;
        s->stored = hod__is_effect(l->g, r);
        for (int32_t i = 0; i < s->n_users; i++)
            s->stored |= l->site[l->followers[s->followers + i]].cluster != s->cluster;
    }
    for (int64_t k = 0; k < l->g->n_outputs; k++)
        l->site[l->site[l->g->outputs[k]].producer].stored = true;
}

int hod__fuse(hod_lowering *l)
{
    int64_t n = l->g->n;
    fuser f = {.l = l};
    l->clusters = hod__alloc((size_t)n + 1, sizeof *l->clusters);
    f.space = hod__alloc(1, sizeof *f.space);
    f.queue = hod__alloc((size_t)n + 1, sizeof *f.queue);
    f.seen = hod__alloc((size_t)(2 * n) + 2, sizeof *f.seen);
    f.loads = hod__alloc((size_t)(2 * n) + 2, sizeof *f.loads);
    f.members = f.loads ? f.loads + n + 1 : NULL;
    int rc = l->clusters && f.space && f.queue && f.seen && f.loads ? 0 : -1;
    for (hod_ref r = 0; r < n && !rc; r++) {
        if (!l->site[r].fused)
            continue;
        hod_cluster *c = &l->clusters[l->n_clusters];
        if (!(c->node = hod__alloc(1, sizeof *c->node)))
            rc = -1;
        else
            *c->node = r;
        c->n = 1;
        l->site[r].cluster = l->n_clusters++;
    }
    for (hod_ref r = 0; r < n && !rc; r++)
        if (l->site[r].fused)
            merge_producers(&f, r);
    for (hod_ref r = 0; r < n && !rc; r++)
        merge_siblings(&f, r);
    if (!rc)
        find_stored(l);
    free(f.space);
    free(f.queue);
    free(f.seen);
    free(f.loads);
    return rc;
}
