/* Common subexpressions: two nodes that compute the same are one.
 *
 *     %2 exp %0   %3 add %0 %1   %4 exp %0   %5 add %1 %0   %6 mul %4 %5   return %6
 *       ->   %2 exp %0   %3 add %0 %1   %4 mul %2 %3   return %4
 *
 * One walk with a hash table finds all, since equal inputs are merged before their users come. The
 * same operator, parameters and inputs suffice: operators are pure, a random one names its key,
 * and reads of an input before and after an effect are different nodes. Effects themselves are
 * never merged. What is equal but read from far away is merged as well: a later pass that wants to
 * recompute instead of keep duplicates on purpose, and runs after this one.
 */
#include "graph/passes.h"
#include "graph/rewrite.h"

typedef struct table {
    hod_ref *slots; /* open addressing, HOD_NO_REF: free */
    int64_t n, mask;
} table;

/* The inputs in the order that counts: the two of a commutative operator sorted. */
static void key_inputs(const hod_graph *g, hod_ref r, hod_ref *in)
{
    int n = g->nodes[r].n_in;
    if (n > 0) /* a graph without edges has no list of them */
        memcpy(in, hod__node_in(g, r), (size_t)n * sizeof *in);
    if (n == 2 && hod__node_info(g, r)->flags & HOD_OPF_COMMUTATIVE && in[0] > in[1]) {
        in[0] = hod__node_in(g, r)[1];
        in[1] = hod__node_in(g, r)[0];
    }
}

static uint64_t key_hash(const hod_graph *g, hod_ref r)
{
    const hod_node *node = hod__node(g, r);
    hod_ref in[HOD_OP_MAX_INPUTS];
    key_inputs(g, r, in);
    uint64_t h = hod__hash(in, (size_t)node->n_in * sizeof *in, (uint64_t)node->op);
    return hod__hash(&node->attrs, hod__attrs_info[hod__node_info(g, r)->attrs].bytes, h);
}

static bool equal(const hod_graph *g, hod_ref a, hod_ref b)
{
    const hod_node *x = hod__node(g, a), *y = hod__node(g, b);
    hod_ref in_a[HOD_OP_MAX_INPUTS], in_b[HOD_OP_MAX_INPUTS];
    if (x->op != y->op || x->n_in != y->n_in || !hod__same_meta(g, a, g, b) ||
        !hod__attrs_equal(hod__node_info(g, a)->attrs, &x->attrs, &y->attrs))
        return false;
    key_inputs(g, a, in_a);
    key_inputs(g, b, in_b);
    return memcmp(in_a, in_b, (size_t)x->n_in * sizeof *in_a) == 0;
}

/* The slot that holds r's equal, or the free one where r belongs. */
static hod_ref *find(const table *t, const hod_graph *g, hod_ref r)
{
    uint64_t i = key_hash(g, r);
    while (t->slots[i & (uint64_t)t->mask] != HOD_NO_REF &&
           !equal(g, t->slots[i & (uint64_t)t->mask], r))
        i++;
    return &t->slots[i & (uint64_t)t->mask];
}

/* The table is made for the graph's size: merging only ever shrinks it. */
static hod_ref merge(hod_rewrite *w, hod_ref r)
{
    table *t = w->context;
    hod_ref *slot = find(t, w->g, r);
    if (*slot == HOD_NO_REF)
        *slot = r;
    return *slot;
}

bool hod__opt_cse(hod_graph *g)
{
    table t = {.mask = 15};
    while (t.mask < 4 * g->n) /* rewriting may add a copy before each reshape */
        t.mask = 2 * t.mask + 1;
    t.slots = hod__alloc((size_t)t.mask + 1, sizeof *t.slots);
    if (!t.slots)
        return false;
    for (int64_t i = 0; i <= t.mask; i++)
        t.slots[i] = HOD_NO_REF;
    bool changed = hod__rewrite(g, merge, &t);
    free(t.slots);
    return changed;
}
