/* The tape to look at: names and links of nodes, the graph as text and as Graphviz.
 *
 *     %0 = exp(leaf (3)) -> f32 (3)  model.c:12
 *     %1 = mul(%0, _) -> f32 (3)  model.c:13
 *     %2 = sum(%1) -> f32 ()  model.c:13
 *
 * Nodes are printed in the order in which they ran; `_` is an input without a gradient.
 */
#include "autograd/autograd.h"

const hod_grad_node *hod_grad_fn(const hod_tensor *t)
{
    hod__tape_wanted();
    return hod__has_grad_fn(t) ? t->autograd->grad_fn : NULL;
}

const char *hod_grad_node_name(const hod_grad_node *n)
{
    return n ? hod__grad_node_name(n) : "";
}

int hod_grad_node_inputs(const hod_grad_node *n)
{
    return n ? n->n : 0;
}

const hod_grad_node *hod_grad_node_next(const hod_grad_node *n, int i)
{
    return n && i >= 0 && i < n->n ? n->edge[i].node : NULL;
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

/* Everything reachable, oldest first. A printout need not be fast: insertion keeps the list sorted
 * and leaves no mark in the graph. */
static int list_nodes(const hod_grad_node *root, node_list *l)
{
    node_list work = {0};
    const hod_grad_node **place = hod__push(&work.items, &work.n, &work.cap, sizeof *work.items);
    if (!place)
        return -1;
    *place = root;
    int rc = 0;
    while (rc == 0 && work.n > 0) {
        const hod_grad_node *n = work.items[--work.n];
        if (find(l, n) >= 0)
            continue;
        if (!(place = hod__push(&l->items, &l->n, &l->cap, sizeof *l->items))) {
            rc = -1;
            break;
        }
        int64_t k = l->n - 1; /* insert in order, so that find works at any time */
        for (; k > 0 && l->items[k - 1]->sequence > n->sequence; k--)
            l->items[k] = l->items[k - 1];
        l->items[k] = n;
        for (int i = 0; rc == 0 && i < n->n; i++) {
            if (!n->edge[i].node)
                continue;
            if (!(place = hod__push(&work.items, &work.n, &work.cap, sizeof *work.items)))
                rc = -1;
            else
                *place = n->edge[i].node;
        }
    }
    free(work.items);
    return rc;
}

static void print_node(FILE *out, const node_list *l, int64_t k)
{
    const hod_grad_node *n = l->items[k];
    char shape[96];
    fprintf(out, "%%%lld = %s(", (long long)k, hod__grad_node_name(n));
    for (int i = 0; i < n->n; i++) {
        const hod_edge *e = &n->edge[i];
        fputs(i ? ", " : "", out);
        if (e->node)
            fprintf(out, "%%%lld", (long long)find(l, e->node));
        else if (e->leaf)
            fprintf(out, "leaf %s", HOD_SHAPE_TEXT(e->leaf));
        else
            fputs("_", out);
    }
    fprintf(out, ") -> %s %s", hod_dtype_name(n->out.dtype),
            hod__shape_text(n->out.ndim, n->out.shape, shape, sizeof shape));
    if (n->file)
        fprintf(out, "  %s:%d", n->file, n->line);
    fputs(n->consumed ? "  consumed\n" : "\n", out);
}

int hod_print_graph(const hod_tensor *t, FILE *out)
{
    if (!t)
        return -1;
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

static void dot_node(FILE *out, const node_list *l, int64_t k)
{
    const hod_grad_node *n = l->items[k];
    char shape[96];
    fprintf(out, "  n%lld [label=\"%s\\n%s\"];\n", (long long)k, hod__grad_node_name(n),
            hod__shape_text(n->out.ndim, n->out.shape, shape, sizeof shape));
    for (int i = 0; i < n->n; i++) {
        const hod_edge *e = &n->edge[i];
        if (e->node)
            fprintf(out, "  n%lld -> n%lld;\n", (long long)find(l, e->node), (long long)k);
        else if (e->leaf)
            fprintf(out,
                    "  l%p [label=\"leaf\\n%s\", shape=box];\n"
                    "  l%p -> n%lld;\n",
                    (void *)e->leaf, HOD_SHAPE_TEXT(e->leaf), (void *)e->leaf, (long long)k);
    }
}

int hod_print_graph_dot(const hod_tensor *t, FILE *out)
{
    if (!t)
        return -1;
    node_list l = {0};
    int rc = hod__has_grad_fn(t) ? list_nodes(t->autograd->grad_fn, &l) : 0;
    fputs("digraph tape {\n  rankdir=BT;\n", out);
    for (int64_t k = 0; rc == 0 && k < l.n; k++)
        dot_node(out, &l, k);
    fputs("}\n", out);
    free(l.items);
    return rc;
}
