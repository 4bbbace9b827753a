/* The tape to look at: names and links of nodes, the graph as text and as Graphviz.
 *
 *     %0 = exp(leaf (3)) -> f32 (3)  model.c:12
 *     %1 = mul(%0, _) -> f32 (3)  model.c:13
 *     %2 = sum(%1) -> f32 ()  model.c:13
 *
 * Nodes are printed in the order in which they ran; `_` is an input without a gradient. A leaf that
 * is a module's parameter has its name in place of "leaf".
 */
#include "autograd/autograd.h"

const hod_grad_node *hod_grad_fn(const hod_tensor *t)
{
    hod__tape_wanted();
    return hod__has_grad_fn(t) ? t->autograd->grad_fn : NULL;
}

const char *hod_grad_node_name(const hod_grad_node *n)
{
    return n ? n->from.name : "";
}

int hod_grad_node_inputs(const hod_grad_node *n)
{
    return n ? n->n : 0;
}

const hod_grad_node *hod_grad_node_next(const hod_grad_node *n, int i)
{
    return n && i >= 0 && i < n->n ? n->edge[i].node : NULL;
}

int hod_grad_node_next_result(const hod_grad_node *n, int i)
{
    return n && i >= 0 && i < n->n ? n->edge[i].output : 0;
}

int hod_grad_node_results(const hod_grad_node *n)
{
    return n ? n->outputs : 0;
}

void hod_grad_node_place(const hod_grad_node *n, const char **file, int *line)
{
    *file = n ? n->from.file : NULL;
    *line = n ? n->from.line : 0;
}

const hod_tensor *hod_grad_node_leaf(const hod_grad_node *n, int i)
{
    return n && i >= 0 && i < n->n ? n->edge[i].leaf : NULL;
}

typedef struct node_list {
    const hod_grad_node **items;
    int64_t n, cap;
} node_list;

static int64_t find(const node_list *l, const hod_grad_node *n)
{
    for (int64_t lo = 0, hi = l->n; lo < hi;) {
        int64_t mid = (lo + hi) / 2;
        if (l->items[mid] == n)
            return mid;
        if (l->items[mid]->sequence < n->sequence)
            lo = mid + 1;
        else
            hi = mid;
    }
    return -1;
}

/* Addresses met so far: open addressing, at most half full. A printout may be asked for in a hook,
 * while a backward counts with the marks of the nodes, so it leaves none of its own. */
typedef struct address_set {
    const void **slots; /* NULL: free */
    int64_t n, cap;     /* cap: 0 or a power of two */
} address_set;

static const void **slot_of(const address_set *s, const void *address)
{
    uint64_t mask = (uint64_t)s->cap - 1, i = hod__hash(&address, sizeof address, 0);
    while (s->slots[i & mask] && s->slots[i & mask] != address)
        i++;
    return &s->slots[i & mask];
}

static int set_grow(address_set *s)
{
    address_set more = {.n = s->n, .cap = HOD_MAX(2 * s->cap, 64)};
    more.slots = hod__alloc((size_t)more.cap, sizeof *more.slots);
    if (!more.slots)
        return -1;
    for (int64_t i = 0; i < s->cap; i++)
        if (s->slots[i])
            *slot_of(&more, s->slots[i]) = s->slots[i];
    free(s->slots);
    *s = more;
    return 0;
}

/* 1: added, 0: it was there, -1: no memory. */
static int set_add(address_set *s, const void *address)
{
    if (2 * s->n >= s->cap && set_grow(s) != 0)
        return -1;
    const void **slot = slot_of(s, address);
    if (*slot)
        return 0;
    *slot = address;
    s->n++;
    return 1;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = (*(const hod_grad_node *const *)a)->sequence;
    uint64_t y = (*(const hod_grad_node *const *)b)->sequence;
    return (x > y) - (x < y);
}

static int list_node(const hod_grad_node *n, node_list *l, address_set *met)
{
    int rc = set_add(met, n);
    if (rc <= 0)
        return rc;
    const hod_grad_node **place = hod__push(&l->items, &l->n, &l->cap, sizeof *l->items);
    if (!place)
        return -1;
    *place = n;
    return 0;
}

/* Everything reachable, oldest first. The list of found nodes is its own work list. */
static int list_nodes(const hod_grad_node *root, node_list *l)
{
    address_set met = {0};
    int rc = list_node(root, l, &met);
    for (int64_t k = 0; rc == 0 && k < l->n; k++) {
        const hod_grad_node *n = l->items[k];
        for (int i = 0; rc == 0 && i < n->n; i++)
            if (n->edge[i].node)
                rc = list_node(n->edge[i].node, l, &met);
    }
    free(met.slots);
    if (rc == 0)
        qsort(l->items, (size_t)l->n, sizeof *l->items, ascending);
    return rc;
}

/* "%3", or "%3.1" where the node has several results. */
static void print_ref(FILE *out, const node_list *l, const hod_grad_node *n, int output)
{
    fprintf(out, "%%%lld", (long long)find(l, n));
    if (n->outputs > 1)
        fprintf(out, ".%d", output);
}

static const char *leaf_name(const hod_tensor *leaf)
{
    return leaf->autograd && leaf->autograd->name ? leaf->autograd->name : "leaf";
}

static void print_node(FILE *out, const node_list *l, int64_t k)
{
    const hod_grad_node *n = l->items[k];
    fprintf(out, "%%%lld = %s(", (long long)k, n->from.name);
    for (int i = 0; i < n->n; i++) {
        const hod_edge *e = &n->edge[i];
        fputs(i ? ", " : "", out);
        if (e->node)
            print_ref(out, l, e->node, e->output);
        else if (e->leaf)
            fprintf(out, "%s %s", leaf_name(e->leaf), HOD_SHAPE_TEXT(e->leaf));
        else
            fputs("_", out);
    }
    fputs(") -> ", out);
    for (int i = 0; i < n->outputs; i++)
        fprintf(out, "%s%s %s", i ? ", " : "", hod_dtype_name(n->result[i].meta.dtype),
                HOD_SHAPE_TEXT(&n->result[i].meta));
    if (n->from.file)
        fprintf(out, "  %s:%d", n->from.file, n->from.line);
    fputs(n->consumed ? "  consumed\n" : "\n", out);
}

int hod_print_graph(const hod_tensor *t, FILE *out)
{
    if (hod__null("print_graph", "tensor", t))
        return -1;
    if (!out)
        return HOD_FAIL_RC(ARGUMENT, "print_graph: nowhere to print");
    hod__tape_wanted();
    if (!hod__has_grad_fn(t)) {
        fprintf(out, "%s %s\n", t->requires_grad ? "leaf" : "no gradient:", HOD_SHAPE_TEXT(t));
        return 0;
    }
    node_list l = {0};
    int rc = list_nodes(t->autograd->grad_fn, &l);
    for (int64_t k = 0; rc == 0 && k < l.n; k++)
        print_node(out, &l, k);
    free(l.items);
    return rc;
}

/* ---- Graphviz ---- */

/* A leaf is a box, drawn by the first node that reads it. */
static int dot_leaf(FILE *out, const hod_tensor *leaf, address_set *drawn)
{
    int rc = set_add(drawn, leaf);
    if (rc == 1)
        fprintf(out, "  l%p [label=\"%s\\n%s %s\", shape=box, style=filled];\n", (const void *)leaf,
                leaf_name(leaf), hod_dtype_name((hod_dtype)leaf->dtype), HOD_SHAPE_TEXT(leaf));
    return rc < 0 ? -1 : 0;
}

static int dot_edge(FILE *out, const node_list *l, int64_t k, int i, address_set *drawn)
{
    const hod_edge *e = &l->items[k]->edge[i];
    if (!e->leaf && !e->node)
        return 0;
    if (e->leaf && dot_leaf(out, e->leaf, drawn) != 0)
        return -1;
    if (e->leaf)
        fprintf(out, "  l%p -> n%lld", (void *)e->leaf, (long long)k);
    else
        fprintf(out, "  n%lld -> n%lld", (long long)find(l, e->node), (long long)k);
    if (e->node && e->node->outputs > 1)
        fprintf(out, " [label=\"%d\"]", e->output);
    fputs(";\n", out);
    return 0;
}

static int dot_node(FILE *out, const node_list *l, int64_t k, address_set *drawn)
{
    const hod_grad_node *n = l->items[k];
    fprintf(out, "  n%lld [label=\"%s", (long long)k, n->from.name);
    for (int i = 0; i < n->outputs; i++)
        fprintf(out, "\\n%s %s", hod_dtype_name(n->result[i].meta.dtype),
                HOD_SHAPE_TEXT(&n->result[i].meta));
    if (n->from.file) {
        const char *slash = strrchr(n->from.file, '/');
        fprintf(out, "\\n%s:%d", slash ? slash + 1 : n->from.file, n->from.line);
    }
    fprintf(out, "\"%s];\n", n->consumed ? ", style=dashed" : "");
    for (int i = 0; i < n->n; i++)
        if (dot_edge(out, l, k, i, drawn) != 0)
            return -1;
    return 0;
}

int hod_print_graph_dot(const hod_tensor *t, FILE *out)
{
    if (hod__null("print_graph_dot", "tensor", t))
        return -1;
    if (!out)
        return HOD_FAIL_RC(ARGUMENT, "print_graph_dot: nowhere to print");
    hod__tape_wanted();
    node_list l = {0};
    address_set drawn = {0};
    int rc = hod__has_grad_fn(t) ? list_nodes(t->autograd->grad_fn, &l) : 0;
    fputs("digraph tape {\n  rankdir=BT;\n", out);
    for (int64_t k = 0; rc == 0 && k < l.n; k++)
        rc = dot_node(out, &l, k, &drawn);
    fputs("}\n", out);
    free(drawn.slots);
    free(l.items);
    return rc;
}
