/* The engine: sends gradients from results back to the leaves.
 *
 *   collect   walk the edges from the results; every node found once, nothing changed yet, so that
 *             a consumed graph is refused before any leaf was touched
 *   order     descending sequence numbers (tape invariant G1)
 *   run       a node's gradient is complete when its turn comes, because all its consumers have
 *             higher numbers; its rule makes the gradients of its inputs; saved values are dropped
 *
 * Broadcasting and dtype are undone here, once for all rules. What reaches a leaf by several edges
 * is summed first and accumulated when the last of them has arrived: hooks see the whole gradient,
 * the order is that of the graph, and with one edge (nearly always) nothing waits.
 *
 * No part recurses over the graph; a million operators in a row are fine.
 */
#include "autograd/autograd.h"
#include <hod/functional.h>
#include <hod/ops.h>

static atomic_uint_fast64_t last_visit;

/* What a leaf was waiting for in a run around this one (a custom operator's backward or a hook may
 * run one). */
typedef struct outer_leaf {
    struct hod_grad_meta *m;
    hod_tensor *gradient;
    uint64_t visit;
    int64_t waiting;
} outer_leaf;

typedef struct run {
    uint64_t visit;
    struct run *around; /* the run that called this one, of the same thread */
    const hod_backward_job *job;
    bool retain, create;
    outer_leaf *outer;
    int64_t n_outer, cap_outer;
    hod_grad_node **order; /* all nodes, descending sequence */
    int64_t n, cap;
    int targets;      /* hod_grad_of only */
    hod_tensor **out; /* counted until handed over */
} run;

static _Thread_local run *innermost;

bool hod__backward_accumulates(void)
{
    return innermost && innermost->targets == 0;
}

/* ---- collect and order ---- */

/* A leaf that a run around this one waits for is lent: its fields come back at the end. */
static int borrow_leaf(run *r, struct hod_grad_meta *m)
{
    outer_leaf *o = hod__push(&r->outer, &r->n_outer, &r->cap_outer, sizeof *r->outer);
    if (!o)
        return -1;
    *o = (outer_leaf){m, m->gradient, m->visit, m->waiting};
    m->gradient = NULL;
    return 0;
}

static void return_leaves(run *r)
{
    for (int64_t i = 0; i < r->n_outer; i++) {
        const outer_leaf *o = &r->outer[i];
        o->m->gradient = o->gradient;
        o->m->visit = o->visit;
        o->m->waiting = o->waiting;
    }
    free(r->outer);
}

static int visit_leaf(run *r, hod_tensor *leaf)
{
    struct hod_grad_meta *m = hod__grad_meta(leaf);
    if (!m)
        return -1;
    if (m->visit != r->visit) {
        if (m->waiting > 0 && borrow_leaf(r, m) != 0)
            return -1;
        m->visit = r->visit;
        m->waiting = 0;
    }
    m->waiting++;
    return 0;
}

static int visit_node(run *r, hod_grad_node *n)
{
    if (n->visit == r->visit)
        return 0;
    if (n->consumed)
        return HOD_FAIL_RC(STATE, "backward: the graph of %s was consumed by %s",
                           HOD_ORIGIN_TEXT(&n->from),
                           n->failed ? "a backward that failed; compute the result again"
                                     : "an earlier backward; use .retain_graph in that one to go "
                                       "through it again");
    for (const run *o = r->around; o; o = o->around)
        if (n->visit == o->visit)
            return HOD_FAIL_RC(STATE,
                               "backward inside backward: reaches %s, which the one outside goes "
                               "through; detach the tensor that leads there",
                               HOD_ORIGIN_TEXT(&n->from));
    hod_grad_node **place = hod__push(&r->order, &r->n, &r->cap, sizeof *r->order);
    if (!place)
        return -1;
    *place = n;
    n->visit = r->visit;
    n->needed = r->targets == 0;
    return 0;
}

static int descending(const void *a, const void *b)
{
    uint64_t x = (*(hod_grad_node *const *)a)->sequence, y = (*(hod_grad_node *const *)b)->sequence;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* The list of found nodes is its own work list. */
static int collect(run *r)
{
    for (int i = 0; i < r->job->n; i++) {
        hod_tensor *t = r->job->from[i];
        if (hod__has_grad_fn(t) ? visit_node(r, t->autograd->grad_fn) : visit_leaf(r, t))
            return -1;
    }
    for (int64_t k = 0; k < r->n; k++) {
        hod_grad_node *n = r->order[k];
        for (int i = 0; i < n->n; i++) {
            const hod_edge *e = &n->edge[i];
            if (e->node && visit_node(r, e->node) != 0)
                return -1;
            if (e->leaf && visit_leaf(r, e->leaf) != 0)
                return -1;
        }
    }
    if (r->n) /* of a leaf alone nothing was found, and there is no list */
        qsort(r->order, (size_t)r->n, sizeof *r->order, descending);
    return 0;
}

/* The place among the targets that m has for this run, counted from 1; 0: none. */
static int64_t target_of(const run *r, const struct hod_grad_meta *m)
{
    return m && m->target_visit == r->visit ? m->target : 0;
}

static bool is_target(const run *r, const hod_edge *e)
{
    const struct hod_grad_meta *m = e->leaf   ? e->leaf->autograd
                                    : e->node ? e->node->result[e->output].fields
                                              : NULL;
    return target_of(r, m) > 0;
}

/* For hod_grad_of: a node runs only when a target lies behind it. */
static void mark_needed(run *r)
{
    for (int64_t k = r->n - 1; k >= 0; k--) {
        hod_grad_node *n = r->order[k];
        for (int i = 0; i < n->n && !n->needed; i++) {
            const hod_edge *e = &n->edge[i];
            n->needed = is_target(r, e) || (e->node && e->node->needed);
        }
    }
}

/* ---- gradients on their way ---- */

static int add_into(hod_tensor **sum, hod_tensor *g)
{
    if (!*sum) {
        *sum = hod_tensor_retain(g);
        return 0;
    }
    hod_tensor *both = hod_add(*sum, g);
    if (!both)
        return -1;
    hod_tensor_release(*sum);
    *sum = hod_tensor_retain(both);
    return 0;
}

static int look(hod_tensor *g, const hod_origin *who, const char *what)
{
    return hod__anomaly ? hod__anomaly_check(g, who, what) : 0;
}

static hod_tensor *run_hooks(const hod_hooks *hooks, hod_tensor *g)
{
    int64_t i = 0;
    while (g && i < hooks->n) {
        const hod_hook_entry e = hooks->items[i];
        hod_tensor *h = e.call(e.context, g);
        /* The next one after e, wherever it is now: hooks may remove themselves and each other. */
        for (i = HOD_MIN(i + 1, hooks->n); i > 0 && hooks->items[i - 1].number > e.number;)
            i--;
        if (h && !hod__same_sizes(h->ndim, h->shape, g->ndim, g->shape))
            return HOD_FAIL(ARGUMENT, "gradient hook: returned %s for a gradient of %s",
                            HOD_SHAPE_TEXT(h), HOD_SHAPE_TEXT(g));
        if (h && h->dtype != g->dtype)
            return HOD_FAIL(ARGUMENT, "gradient hook: returned %s for a gradient of %s",
                            hod_dtype_name((hod_dtype)h->dtype),
                            hod_dtype_name((hod_dtype)g->dtype));
        g = h;
    }
    if (!g)
        hod__fail(HOD_ERROR_STATE, "gradient hook: returned no gradient");
    return g;
}

/* Adds g to a tensor's kept gradient. With create_graph the sum is a result of the tape itself,
 * and never written in place; its first value is a copy, because g may be the caller's. */
static int keep(run *r, hod_grad_slot *slot, hod_tensor *g)
{
    if (!r->create && !hod__has_grad_fn(slot->sum))
        return hod__accumulate(slot, g);
    return hod__accumulate_value(slot, g);
}

static int finish_leaf(run *r, struct hod_grad_meta *m)
{
    hod_tensor *g = m->gradient;
    if (!g)
        return 0;
    hod_tensor *hooked = m->hooks.n ? run_hooks(&m->hooks, g) : g;
    int rc = hooked ? look(hooked, NULL, "the whole gradient of leaf") : -1;
    if (rc == 0 && target_of(r, m) > 0)
        rc = add_into(&r->out[target_of(r, m) - 1], hooked);
    else if (rc == 0 && r->targets == 0)
        rc = keep(r, &m->slot, hooked);
    hod_tensor_release(g);
    m->gradient = NULL;
    return rc;
}

/* One edge into a leaf is settled; dx NULL: without a gradient. */
static int arrive_leaf(run *r, hod_tensor *leaf, hod_tensor *dx)
{
    struct hod_grad_meta *m = leaf->autograd;
    if (dx && add_into(&m->gradient, dx) != 0)
        return -1;
    return --m->waiting == 0 ? finish_leaf(r, m) : 0;
}

static hod_tensor *fit(const hod_grad_node *n, int i, hod_tensor *dx)
{
    const hod_meta *to = &n->meta[i];
    dx = hod__unbroadcast(dx, to);
    if (dx && dx->dtype != to->dtype)
        dx = hod_cast(dx, to->dtype);
    return dx;
}

/* ---- one node ---- */

/* A leaf may have been frozen since. */
static bool wants(const run *r, const hod_edge *e)
{
    if (e->leaf)
        return e->leaf->requires_grad && (r->targets == 0 || is_target(r, e));
    return e->node && (e->node->needed || is_target(r, e));
}

static int open_saved(run *r, hod_grad_node *n, hod_vjp *v, hod_tensor **x)
{
    static const char *const what[] = {"first input", "second input", "third input", "input"};
    for (int i = 0; i < n->n; i++) {
        const hod_saved *s = &n->edge[i].saved;
        x[i] = NULL;
        if (s->value || s->hollow) {
            x[i] = hod__saved_open(&n->from, s, n->edge[i].node, n->edge[i].output, r->create,
                                   what[HOD_MIN(i, 3)]);
            if (!x[i])
                return -1;
        }
    }
    if (n->y.value || n->y.hollow) {
        v->y = hod__saved_open(&n->from, &n->y, n, 0, r->create, "result");
        if (!v->y)
            return -1;
    }
    return 0;
}

static int deliver(run *r, hod_grad_node *n, int i, hod_tensor *dx)
{
    const hod_edge *e = &n->edge[i];
    if (dx == HOD_NO_GRADIENT)
        dx = NULL;
    else if (!(dx = fit(n, i, dx)))
        return -1;
    if (dx && hod__anomaly) {
        char what[48];
        snprintf(what, sizeof what, "the gradient for input %d", i);
        if (hod__anomaly_check(dx, &n->from, what) != 0)
            return -1;
    }
    if (e->leaf)
        return arrive_leaf(r, e->leaf, dx);
    return dx ? add_into(&e->node->result[e->output].gradient, dx) : 0;
}

static int run_rule(run *r, hod_grad_node *n, hod_tensor *const *g)
{
    const hod_op_info *info = &hod__op_info[n->op];
    hod_tensor *x[HOD_OP_MAX_INPUTS], *shared = NULL;
    hod_vjp v = {
        .g = g[0], .x = x, .meta = n->meta, .n = n->n, .attrs = &n->attrs, .shared = &shared};
    if (open_saved(r, n, &v, x) != 0)
        return -1;
    for (int i = 0; i < n->n; i++) {
        const hod_edge *e = &n->edge[i];
        if (!e->node && !e->leaf)
            continue;
        hod_tensor *dx = wants(r, e) ? info->vjp(&v, i) : HOD_NO_GRADIENT;
        if (!dx) {
            hod__fail(HOD_ERROR_STATE, "backward of %s: no derivative for input %d", info->name, i);
            return -1;
        }
        if (deliver(r, n, i, dx) != 0)
            return -1;
    }
    return 0;
}

static int run_custom(run *r, hod_grad_node *n, hod_tensor *const *g)
{
    hod_tensor *dx[HOD_OP_MAX_INPUTS];
    for (int i = 0; i < n->n; i++)
        dx[i] = wants(r, &n->edge[i]) ? NULL : HOD_NO_GRADIENT;
    if (n->custom->backward(n, g, dx, r->create) != 0)
        return -1;
    for (int i = 0; i < n->n; i++) {
        const hod_edge *e = &n->edge[i];
        if ((e->node || e->leaf) && deliver(r, n, i, dx[i] ? dx[i] : HOD_NO_GRADIENT) != 0)
            return -1;
    }
    return 0;
}

/* A node without a gradient still settles its edges, or a leaf would wait for it for ever. */
static int settle_empty(run *r, hod_grad_node *n)
{
    for (int i = 0; i < n->n; i++)
        if (n->edge[i].leaf && arrive_leaf(r, n->edge[i].leaf, NULL) != 0)
            return -1;
    return 0;
}

/* Takes the gradient of result i, now complete, past those who listen. 0 or -1. */
static int take_gradient(run *r, hod_grad_node *n, int i, hod_tensor **g)
{
    hod_grad_result *result = &n->result[i];
    *g = result->gradient;
    result->gradient = NULL;
    if (!*g)
        return 0;
    if (!(*g = hod__own(*g)))
        return -1;
    if (result->hooks.n && !(*g = run_hooks(&result->hooks, *g)))
        return -1;
    struct hod_grad_meta *m = result->fields;
    if (look(*g, &n->from, "the whole gradient of its result") != 0)
        return -1;
    if (target_of(r, m) > 0 && add_into(&r->out[target_of(r, m) - 1], *g) != 0)
        return -1;
    return m && m->retain_grad && r->targets == 0 ? keep(r, &m->slot, *g) : 0;
}

static int run_node(run *r, hod_grad_node *n)
{
    HOD_SCOPE(s);
    hod_tensor *g[HOD_OP_MAX_INPUTS];
    bool any = false;
    for (int i = 0; i < n->outputs; i++) {
        if (take_gradient(r, n, i, &g[i]) != 0)
            return -1;
        any = any || g[i];
    }
    if (!any || !n->needed)
        return settle_empty(r, n);
    if ((n->custom ? run_custom : run_rule)(r, n, g) != 0)
        return -1;
    if (!r->retain)
        hod__grad_node_consume(n);
    return 0;
}

/* ---- the whole ---- */

/* After a failure: gradients under way are dropped; kept ones of leaves stay as they are. */
static void drop_leaf(const run *r, struct hod_grad_meta *m)
{
    if (!m || m->visit != r->visit)
        return;
    hod_tensor_release(m->gradient);
    m->gradient = NULL;
    m->waiting = 0;
}

static void drop_pending(run *r)
{
    for (int i = 0; i < r->job->n; i++)
        drop_leaf(r, r->job->from[i]->autograd);
    for (int64_t k = 0; k < r->n; k++) {
        hod_grad_node *n = r->order[k];
        n->failed = n->consumed; /* none was, when this run found it */
        for (int i = 0; i < n->outputs; i++) {
            hod_tensor_release(n->result[i].gradient);
            n->result[i].gradient = NULL;
        }
        for (int i = 0; i < n->n; i++)
            if (n->edge[i].leaf)
                drop_leaf(r, n->edge[i].leaf->autograd);
    }
}

/* The gradients to start with: results get theirs first, leaves are done at once. */
static int give_seeds(run *r)
{
    const hod_backward_job *j = r->job;
    for (int i = 0; i < j->n; i++) {
        struct hod_grad_meta *m = j->from[i]->autograd;
        if (look(j->gradient[i], NULL, "the gradient given for") != 0)
            return -1;
        if (m->grad_fn && add_into(&m->grad_fn->result[m->output].gradient, j->gradient[i]) != 0)
            return -1;
    }
    for (int i = 0; i < j->n; i++)
        if (!hod__has_grad_fn(j->from[i]) && arrive_leaf(r, j->from[i], j->gradient[i]) != 0)
            return -1;
    return 0;
}

/* Consuming a node releases its edges; everything in the list must stay until the end. */
static int run_graph(run *r)
{
    int rc = collect(r);
    for (int64_t k = 0; k < r->n; k++)
        hod__grad_node_retain(r->order[k]);
    if (rc == 0 && r->targets > 0)
        mark_needed(r);
    if (rc == 0)
        rc = give_seeds(r);
    for (int64_t k = 0; rc == 0 && k < r->n; k++)
        rc = run_node(r, r->order[k]);
    if (rc != 0)
        drop_pending(r);
    for (int64_t k = 0; k < r->n; k++)
        hod__grad_node_release(r->order[k]);
    return rc;
}

uint64_t hod__backward_visit(void)
{
    return atomic_fetch_add(&last_visit, 1) + 1;
}

int hod__backward_run(const hod_backward_job *job)
{
    run r = {.visit = job->visit,
             .around = innermost,
             .job = job,
             .retain = job->retain || job->create,
             .create = job->create,
             .targets = job->targets,
             .out = job->out};
    innermost = &r;
    bool before = hod__tape_mode.enabled;
    hod__tape_mode.enabled = r.create;
    struct hod_checkpoint *mark = hod__checkpoint_mark();
    int rc = run_graph(&r);
    hod__checkpoint_sweep(mark);
    hod__tape_mode.enabled = before;
    innermost = r.around;
    return_leaves(&r);
    free(r.order);
    return rc;
}
