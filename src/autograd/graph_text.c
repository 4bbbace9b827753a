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
static bool drawn_before(const node_list *l, int64_t k, int i)
{
    const hod_tensor *leaf = l->items[k]->edge[i].leaf;
    for (int64_t j = 0; j <= k; j++)
        for (int e = 0; e < (j < k ? l->items[j]->n : i); e++)
            if (l->items[j]->edge[e].leaf == leaf)
                return true;
    return false;
}

static void dot_edge(FILE *out, const node_list *l, int64_t k, int i)
{
    const hod_edge *e = &l->items[k]->edge[i];
    if (e->leaf && !drawn_before(l, k, i))
        fprintf(out, "  l%p [label=\"%s\\n%s %s\", shape=box, style=filled];\n", (void *)e->leaf,
                leaf_name(e->leaf), hod_dtype_name((hod_dtype)e->leaf->dtype),
                HOD_SHAPE_TEXT(e->leaf));
    if (e->leaf)
        fprintf(out, "  l%p -> n%lld", (void *)e->leaf, (long long)k);
    else if (e->node)
        fprintf(out, "  n%lld -> n%lld", (long long)find(l, e->node), (long long)k);
    else
        return;
    if (e->node && e->node->outputs > 1)
        fprintf(out, " [label=\"%d\"]", e->output);
    fputs(";\n", out);
}

static void dot_node(FILE *out, const node_list *l, int64_t k)
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
        dot_edge(out, l, k, i);
}

int hod_print_graph_dot(const hod_tensor *t, FILE *out)
{
    if (hod__null("print_graph_dot", "tensor", t))
        return -1;
    if (!out)
        return HOD_FAIL_RC(ARGUMENT, "print_graph_dot: nowhere to print");
    hod__tape_wanted();
    node_list l = {0};
    int rc = hod__has_grad_fn(t) ? list_nodes(t->autograd->grad_fn, &l) : 0;
    fputs("digraph tape {\n  rankdir=BT;\n", out);
    for (int64_t k = 0; rc == 0 && k < l.n; k++)
        dot_node(out, &l, k);
    fputs("}\n", out);
    free(l.items);
    return rc;
}
