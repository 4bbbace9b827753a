/* Operators of one's own: a forward and a backward in C, one node of the tape.
 *
 *     hod_custom(swish, x)   forward under no_grad      values it saves go into the call
 *                            node "swish"               owns the call
 *     backward               backward(call, dy, dx)     under create_graph its operators are noted,
 *                                                       and saved values are linked to the graph
 *
 * Both may be operators, which are recorded and compiled like any other, or loops over the memory
 * of tensors. Such a loop reads values, so inside a compiled function it is a graph break; the
 * report names the operator. A derivative made by a loop has no history: asked for a second one it
 * would be silently zero, so reading a value that has a history is an error there.
 *
 * What is saved remembers where it came from (input, result, neither). Only then can it be linked
 * again without the node holding itself (tape invariant G2).
 */
#include "autograd/autograd.h"
#include <hod/functional.h>
#include <hod/ops.h>

enum { FROM_NOWHERE = -1 };

typedef struct kept {
    hod_tensor *tensor; /* while forward runs; counted */
    hod_saved saved;
    int input, result; /* which it is; FROM_NOWHERE: none of them */
} kept;

struct hod_custom_call {
    const hod_custom_op *op;
    void *context;
    hod_origin from;
    hod_grad_node *node; /* not counted; NULL during forward */
    uint64_t wants;      /* bit i: input i requires a gradient */
    bool forward, create;
    kept *kept;
    int64_t n_kept, cap_kept;
    struct hod_custom_call *around; /* the one that called this one */
    max_align_t state[];
};

static _Thread_local hod_custom_call *innermost;

static int inputs_of(const hod_custom_op *op)
{
    return op->inputs > 0 ? op->inputs : 1;
}

static int results_of(const hod_custom_op *op)
{
    return op->results > 0 ? op->results : 1;
}

const char *hod__custom_running(void)
{
    return innermost ? innermost->op->name : NULL;
}

/* ---- lifetime ---- */

static hod_custom_call *call_new(const hod_custom_op *op, void *context, hod_tensor *const *in)
{
    hod_custom_call *c = hod__alloc(1, sizeof *c + op->state_bytes);
    if (!c)
        return NULL;
    c->op = op;
    c->context = context;
    c->from.name = op->name;
    hod__place(&c->from.file, &c->from.line);
    for (int i = 0; i < inputs_of(op); i++)
        if (hod_grad_enabled() && op->backward && in[i]->requires_grad)
            c->wants |= (uint64_t)1 << i;
    return c;
}

static void call_free(void *state)
{
    hod_custom_call *c = state;
    for (int64_t i = 0; i < c->n_kept; i++) {
        hod_tensor_release(c->kept[i].tensor);
        hod__saved_drop(&c->kept[i].saved);
    }
    free(c->kept);
    free(c);
}

static void enter(hod_custom_call *c)
{
    c->around = innermost;
    innermost = c;
}

static void leave(hod_custom_call *c)
{
    innermost = c->around;
}

/* ---- what forward and backward ask ---- */

void *hod_custom_context(const hod_custom_call *c)
{
    return c->context;
}

void *hod_custom_state(hod_custom_call *c)
{
    return c->state;
}

bool hod_custom_wants(const hod_custom_call *c, int i)
{
    return i >= 0 && i < inputs_of(c->op) && (c->wants >> i & 1);
}

int hod_custom_save(hod_custom_call *c, hod_tensor *t)
{
    if (hod__null("custom_save", "tensor", t))
        return -1;
    if (!c->forward)
        return HOD_FAIL_RC(STATE, "%s: values are saved in forward only", c->op->name);
    if (!c->wants)
        return 0;
    kept *k = hod__push(&c->kept, &c->n_kept, &c->cap_kept, sizeof *k);
    if (!k)
        return -1;
    k->tensor = hod_tensor_retain(t);
    k->input = k->result = FROM_NOWHERE;
    return 0;
}

hod_tensor *hod_custom_saved(hod_custom_call *c, int i)
{
    if (c->forward || i < 0 || i >= c->n_kept)
        return HOD_FAIL(ARGUMENT, "%s: value %d of %lld saved ones, asked for in %s", c->op->name,
                        i, (long long)c->n_kept, c->forward ? "forward" : "backward");
    const kept *k = &c->kept[i];
    hod_grad_node *n = c->node, *maker = NULL;
    int output = 0;
    if (k->input >= 0) {
        maker = n->edge[k->input].node;
        output = n->edge[k->input].output;
    } else if (k->result >= 0) {
        maker = n;
        output = k->result;
    }
    char what[32];
    snprintf(what, sizeof what, "saved value %d", i);
    return hod__saved_open(&c->from, &k->saved, maker, output, c->create, what);
}

/* ---- backward ---- */

/* Results without a gradient get zeros: a backward need not tell the two apart. */
static int fill_zeros(hod_grad_node *n, hod_tensor *const *g, hod_tensor **dy)
{
    for (int i = 0; i < n->outputs; i++) {
        dy[i] = g[i] ? g[i] : hod__full_like_meta(&n->result[i].meta, 0);
        if (!dy[i])
            return -1;
    }
    return 0;
}

static int check_gradient(const hod_custom_call *c, int i, hod_tensor *dx)
{
    const hod_meta *to = &c->node->meta[i];
    if (hod__same_sizes(dx->ndim, dx->shape, to->ndim, to->shape))
        return 0;
    return HOD_FAIL_RC(ARGUMENT, "backward of %s: a gradient of %s for input %d %s",
                       HOD_ORIGIN_TEXT(&c->from), HOD_SHAPE_TEXT(dx), i, HOD_SHAPE_TEXT(to));
}

/* Whoever reads numbers while a second derivative is wanted loses the history of what follows. */
static int refuse_read(const hod_tensor *t)
{
    const hod_custom_call *c = innermost;
    if (!c || !c->create || !t->requires_grad)
        return 0;
    return HOD_FAIL_RC(STATE,
                       "backward of %s: it reads %s %s on the host, so there is no second "
                       "derivative (.create_graph)",
                       HOD_ORIGIN_TEXT(&c->from), hod_dtype_name((hod_dtype)t->dtype),
                       HOD_SHAPE_TEXT(t));
}

static int custom_backward(hod_grad_node *n, hod_tensor *const *g, hod_tensor **dx,
                           bool create_graph)
{
    hod_custom_call *c = n->state;
    hod_tensor *dy[HOD_OP_MAX_INPUTS], *got[HOD_OP_MAX_INPUTS] = {NULL};
    if (fill_zeros(n, g, dy) != 0)
        return -1;
    c->node = n;
    c->create = create_graph;
    c->wants = 0;
    for (int i = 0; i < n->n; i++)
        c->wants |= (uint64_t)(dx[i] != HOD_NO_GRADIENT) << i;
    int (*before)(const hod_tensor *) = hod__read_hook;
    hod__read_hook = refuse_read;
    bool erred = hod_error();
    enter(c);
    int rc = c->op->backward(c, dy, got);
    leave(c);
    hod__read_hook = before;
    if (rc != 0 || (!erred && hod_error()))
        return hod_error() ? -1
                           : HOD_FAIL_RC(STATE, "backward of %s: it failed without an error",
                                         HOD_ORIGIN_TEXT(&c->from));
    for (int i = 0; i < n->n; i++) {
        if (got[i] && check_gradient(c, i, got[i]) != 0)
            return -1;
        dx[i] = got[i] && dx[i] != HOD_NO_GRADIENT ? got[i] : HOD_NO_GRADIENT;
    }
    return 0;
}

static const hod_custom custom_node = {.backward = custom_backward, .release = call_free};

/* ---- forward ---- */

static int run_forward(hod_custom_call *c, hod_tensor *const *in, hod_tensor **out)
{
    hod_grad_mode off;
    hod_no_grad_begin(&off);
    c->forward = true;
    enter(c);
    int rc = c->op->forward(c, in, out);
    leave(c);
    c->forward = false;
    hod_grad_mode_end(&off);
    for (int i = 0; rc == 0 && i < results_of(c->op); i++)
        if (!out[i])
            rc = hod_error() ? -1
                             : HOD_FAIL_RC(STATE, "%s: forward did not set result %d of %d",
                                           c->op->name, i, results_of(c->op));
    if (rc != 0 && !hod_error())
        HOD_FAIL(STATE, "%s: forward failed without an error", c->op->name);
    return rc == 0 ? 0 : -1;
}

static void find_origin(kept *k, int n, hod_tensor *const *in, int m, hod_tensor *const *out)
{
    for (int i = 0; i < n && k->input < 0; i++)
        if (k->tensor == in[i])
            k->input = i;
    for (int i = 0; i < m && k->input < 0 && k->result < 0; i++)
        if (k->tensor == out[i])
            k->result = i;
}

static int save_kept(hod_custom_call *c, hod_tensor *const *in, hod_tensor *const *out)
{
    for (int64_t i = 0; i < c->n_kept; i++) {
        kept *k = &c->kept[i];
        find_origin(k, inputs_of(c->op), in, results_of(c->op), out);
        int rc = k->input >= 0 ? hod__save(&k->saved, k->tensor)
                               : hod__save_result(&k->saved, k->tensor);
        hod_tensor_release(k->tensor);
        k->tensor = NULL;
        if (rc != 0)
            return -1;
    }
    return 0;
}

/* A handle that the node may link: not an input's, nor one that has a history or is a leaf. */
static int make_own(int n, hod_tensor *const *in, int m, hod_tensor **out)
{
    for (int i = 0; i < m; i++) {
        bool foreign = out[i]->requires_grad || out[i]->autograd;
        for (int j = 0; j < n; j++)
            foreign = foreign || out[i] == in[j];
        for (int j = 0; j < i; j++)
            foreign = foreign || out[i] == out[j];
        if (foreign && !(out[i] = hod_detach(out[i])))
            return -1;
    }
    return 0;
}

/* Owns c from here on. */
static int link_call(hod_custom_call *c, hod_tensor *const *in, hod_tensor *const *out)
{
    int m = results_of(c->op);
    hod_tensor *linked[HOD_OP_MAX_INPUTS];
    bool any = false;
    for (int i = 0; i < m; i++) {
        linked[i] = hod__is_float(out[i]->dtype) ? out[i] : NULL;
        any = any || linked[i];
    }
    if (!c->wants || !any) {
        call_free(c);
        return 0;
    }
    if (save_kept(c, in, out) != 0) {
        call_free(c);
        return -1;
    }
    return hod__tape_note_custom(&custom_node, c->op->name, c, inputs_of(c->op), in, m, linked)
               ? 0
               : -1;
}

static int apply(const hod_custom_op *op, void *context, hod_tensor *const *in, hod_tensor **out)
{
    HOD_SCOPE(s);
    hod_custom_call *c = call_new(op, context, in);
    if (!c)
        return -1;
    if (run_forward(c, in, out) != 0) {
        call_free(c);
        return -1;
    }
    hod_tensor *own[HOD_OP_MAX_INPUTS];
    int m = results_of(op);
    memcpy(own, out, (size_t)m * sizeof *own);
    for (int64_t i = 0; i < c->n_kept; i++) /* before handles are exchanged */
        find_origin(&c->kept[i], inputs_of(op), in, m, out);
    if (make_own(inputs_of(op), in, m, own) != 0) {
        call_free(c);
        return -1;
    }
    if (link_call(c, in, own) != 0)
        return -1;
    for (int i = 0; i < m; i++)
        out[i] = hod_escape(own[i]);
    return 0;
}

int hod_custom_into(const hod_custom_op *op, void *context, hod_tensor *const *in, hod_tensor **out)
{
    if (hod__null("custom operator", "the operator", op) ||
        hod__null("custom operator", "the array of inputs", in) ||
        hod__null("custom operator", "the array of results", out))
        return -1;
    int n = inputs_of(op), m = results_of(op);
    if (n > HOD_OP_MAX_INPUTS || m > HOD_OP_MAX_INPUTS || !op->name || !op->forward)
        return HOD_FAIL_RC(ARGUMENT,
                           "custom operator: it has a name, a forward, at most %d inputs and as "
                           "many results",
                           HOD_OP_MAX_INPUTS);
    for (int i = 0; i < m; i++)
        out[i] = NULL;
    for (int i = 0; i < n; i++)
        if (hod__null(op->name, "an input", in[i]))
            return -1;
    int rc = apply(op, context, in, out);
    for (int i = 0; rc != 0 && i < m; i++)
        out[i] = NULL;
    return rc;
}

hod_tensor *hod_custom_one(const hod_custom_op *op, void *context, int n, hod_tensor *const *in)
{
    if (hod__null("custom operator", "the operator", op))
        return NULL;
    if (n != inputs_of(op) || results_of(op) != 1)
        return HOD_FAIL(ARGUMENT, "%s: %d inputs and 1 result wanted, it has %d and %d", op->name,
                        n, inputs_of(op), results_of(op));
    hod_tensor *out = NULL;
    return hod_custom_into(op, context, in, &out) == 0 ? out : NULL;
}
