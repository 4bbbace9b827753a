/* The tape: turns an operator call into a node.
 *
 * It listens at the hook of ops/op.h, from the first leaf on and in every thread. A node takes from
 * the call what its derivative will read, as the row's SAVES flags say, and nothing else; an input
 * that requires no gradient costs an empty edge. For rows that are linear in each of two inputs
 * (mul, matmul, conv) the derivative for one reads only the other, so that a frozen weight keeps no
 * activation.
 *
 * Saved values are aliases: handles on the same storage without autograd fields. Were the handles
 * themselves kept, a result saved by its own node (exp, sigmoid), or one assigned in place later,
 * would hold itself for ever. Leaves cannot come into a cycle and are kept as they are.
 */
#include "autograd/autograd.h"

static atomic_uint_fast64_t last_sequence;

/* ---- fields of a tensor ---- */

/* The node outlives its result's fields. */
static void unlink_result(struct hod_grad_meta *m)
{
    hod_grad_result *r = &m->grad_fn->result[m->output];
    if (r->fields == m)
        r->fields = NULL;
}

static void meta_free(struct hod_grad_meta *m)
{
    if (!m)
        return;
    if (m->grad_fn) {
        unlink_result(m);
        hod__grad_node_release(m->grad_fn);
    }
    hod_tensor_release(m->slot.sum);
    hod__rows_drop(m);
    hod_tensor_release(m->gradient);
    hod__hooks_free(&m->hooks);
    free(m->name);
    free(m);
}

__attribute__((constructor)) static void set_free(void)
{
    hod__grad_meta_free = meta_free;
}

struct hod_grad_meta *hod__grad_meta(hod_tensor *t)
{
    if (!t->autograd)
        t->autograd = hod__alloc(1, sizeof *t->autograd);
    return t->autograd;
}

int hod__leaf_set_name(hod_tensor *t, const char *name)
{
    struct hod_grad_meta *m = hod__grad_meta(t);
    char *copy = m ? hod__strdup(name) : NULL;
    if (!copy)
        return -1;
    free(m->name);
    m->name = copy;
    return 0;
}

bool hod__has_grad_fn(const hod_tensor *t)
{
    return t && t->autograd && t->autograd->grad_fn;
}

void hod__drop_grad_fn(hod_tensor *t)
{
    if (!hod__has_grad_fn(t))
        return;
    hod_grad_node *n = t->autograd->grad_fn;
    unlink_result(t->autograd);
    t->autograd->grad_fn = NULL;
    t->requires_grad = false;
    hod__grad_node_release(n);
}

hod_grad_slot *hod__grad_slot(hod_tensor *leaf)
{
    struct hod_grad_meta *m = leaf ? hod__grad_meta(leaf) : NULL;
    return m ? &m->slot : NULL;
}

/* ---- nodes ---- */

void hod__grad_node_retain(hod_grad_node *n)
{
    if (n)
        atomic_fetch_add(&n->refs, 1);
}

void hod__saved_drop(hod_saved *s)
{
    hod_tensor_release(s->value);
    s->value = NULL;
    if (s->hollow)
        hod__checkpoint_drop(s);
}

void hod__grad_node_consume(hod_grad_node *n)
{
    n->consumed = true;
    hod__saved_drop(&n->y);
    for (int i = 0; i < n->n; i++) {
        hod_edge *e = &n->edge[i];
        hod__saved_drop(&e->saved);
        hod_tensor_release(e->leaf);
        e->leaf = NULL;
        hod_grad_node *to = e->node;
        e->node = NULL;
        hod__grad_node_release(to);
    }
    if (n->custom && n->state) {
        n->custom->release(n->state);
        n->state = NULL;
    }
}

/* A chain of a million nodes must not need a million stack frames: the outermost release works
 * through a list, inner ones add to it. */
void hod__grad_node_release(hod_grad_node *n)
{
    static _Thread_local hod_grad_node *dead;
    static _Thread_local bool freeing;
    if (!n || atomic_fetch_sub(&n->refs, 1) != 1)
        return;
    n->next_dead = dead;
    dead = n;
    if (freeing)
        return;
    freeing = true;
    while (dead) {
        hod_grad_node *first = dead;
        dead = first->next_dead;
        hod__grad_node_consume(first);
        for (int i = 0; i < first->outputs; i++) {
            hod_tensor_release(first->result[i].gradient);
            hod__hooks_free(&first->result[i].hooks);
        }
        free(first);
    }
    freeing = false;
}

const char *hod__origin_text(const hod_origin *o, char *buf, size_t cap)
{
    if (o->file)
        snprintf(buf, cap, "%s at %s:%d", o->name, o->file, o->line);
    else
        snprintf(buf, cap, "%s", o->name);
    return buf;
}

static hod_grad_node *node_new(hod_op op, const char *name, int n, int outputs)
{
    size_t edges = sizeof(hod_grad_node), results = edges + (size_t)n * sizeof(hod_edge);
    size_t metas = results + (size_t)outputs * sizeof(hod_grad_result);
    char *block = hod__alloc(1, metas + (size_t)n * sizeof(hod_meta));
    if (!block)
        return NULL;
    hod_grad_node *node = (hod_grad_node *)block;
    atomic_init(&node->refs, 1);
    node->op = op;
    node->n = n;
    node->outputs = outputs;
    node->edge = (hod_edge *)(block + edges);
    node->result = (hod_grad_result *)(block + results);
    node->meta = (hod_meta *)(block + metas);
    node->from.name = name;
    hod__place(&node->from.file, &node->from.line);
    return node;
}

/* ---- saving ---- */

static int save_alias(hod_saved *s, const hod_tensor *t)
{
    s->value = hod__tensor_same(t);
    if (!s->value)
        return -1;
    s->version = t->storage->version;
    return 0;
}

int hod__save_result(hod_saved *s, hod_tensor *t)
{
    if (t->inference)
        return HOD_FAIL_RC(STATE,
                           "%s %s was made in an inference scope, and a derivative would read it; "
                           "use a copy of it",
                           hod_dtype_name((hod_dtype)t->dtype), HOD_SHAPE_TEXT(t));
    return hod__checkpoint_now ? hod__checkpoint_save(s, t) : save_alias(s, t);
}

int hod__save(hod_saved *s, hod_tensor *t)
{
    if (!t->requires_grad || hod__has_grad_fn(t))
        return hod__save_result(s, t);
    s->leaf = true;
    s->value = hod_tensor_retain(t);
    s->version = t->storage->version;
    return 0;
}

/* A handle like t that is result `output` of `maker`. */
static hod_tensor *linked_alias(hod_tensor *t, hod_grad_node *maker, int output)
{
    hod_tensor *alias = hod__own(hod__tensor_same(t));
    struct hod_grad_meta *m = alias ? hod__grad_meta(alias) : NULL;
    if (!m)
        return NULL;
    alias->requires_grad = true;
    hod__grad_node_retain(maker);
    m->grad_fn = maker;
    m->output = output;
    return alias;
}

hod_tensor *hod__saved_open(const hod_origin *who, const hod_saved *s, hod_grad_node *maker,
                            int output, bool link, const char *what)
{
    uint32_t version = s->version;
    hod_tensor *t = s->hollow ? hod__checkpoint_value(s, &version) : s->value;
    if (!t)
        return NULL;
    const hod_storage *now = t->storage;
    if (now->version != version) {
        char by[192] = "";
        if (now->writer.name && now->writer.file)
            snprintf(by, sizeof by, " by %s at %s:%d", now->writer.name, now->writer.file,
                     now->writer.line);
        else if (now->writer.name)
            snprintf(by, sizeof by, " by %s", now->writer.name);
        return HOD_FAIL(STATE,
                        "backward of %s: its %s %s %s was changed in place%s: version %u, saved at "
                        "version %u",
                        HOD_ORIGIN_TEXT(who), what, hod_dtype_name((hod_dtype)t->dtype),
                        HOD_SHAPE_TEXT(t), by, now->version, version);
    }
    return s->leaf || !link || !maker ? t : linked_alias(t, maker, output);
}

/* Which inputs the derivatives that will be asked for read. */
static bool wants_input(const hod_op_info *info, const hod_grad_node *n, int i)
{
    static const uint32_t flag[] = {HOD_OPF_SAVES_X, HOD_OPF_SAVES_B, HOD_OPF_SAVES_C,
                                    HOD_OPF_SAVES_D, HOD_OPF_SAVES_MORE};
    if (!(info->flags & flag[HOD_MIN(i, HOD_COUNT(flag) - 1)]))
        return false;
    if (!(info->flags & HOD_OPF_BILINEAR) || i > 1)
        return true;
    const hod_edge *other = &n->edge[1 - i];
    return other->node || other->leaf;
}

/* The derivative of a quotient or power for its first input does without the result. */
static bool wants_result(const hod_op_info *info, const hod_grad_node *n)
{
    if (!(info->flags & HOD_OPF_SAVES_Y))
        return false;
    return !(info->flags & HOD_OPF_Y_FOR_B) || n->edge[1].node || n->edge[1].leaf;
}

/* ---- linking ---- */

static int link_inputs(hod_grad_node *n, hod_tensor *const *in)
{
    for (int i = 0; i < n->n; i++) {
        n->meta[i] = hod__meta(in[i]);
        if (!in[i]->requires_grad)
            continue;
        if (hod__has_grad_fn(in[i])) {
            n->edge[i].node = in[i]->autograd->grad_fn;
            n->edge[i].output = in[i]->autograd->output;
            hod__grad_node_retain(n->edge[i].node);
        } else {
            if (!hod__grad_meta(in[i]))
                return -1;
            n->edge[i].leaf = hod_tensor_retain(in[i]);
        }
    }
    return 0;
}

/* Makes result `i` of n the origin of out, which takes over the caller's reference to n. */
static int link_result(hod_grad_node *n, int i, hod_tensor *out)
{
    struct hod_grad_meta *m = hod__grad_meta(out);
    if (!m)
        return -1;
    if (m->grad_fn) { /* changed in place: its history goes on from here */
        unlink_result(m);
        hod__grad_node_release(m->grad_fn);
    }
    n->result[i].meta = hod__meta(out);
    n->result[i].fields = m;
    m->grad_fn = n;
    m->output = i;
    out->requires_grad = true;
    return 0;
}

static bool any_requires_grad(int n, hod_tensor *const *in)
{
    for (int i = 0; i < n; i++)
        if (in[i]->requires_grad)
            return true;
    return false;
}

/* What an in-place write means for gradients: refuse where they would be silently wrong. */
static int check_write(const hod_tensor *dst, const hod_tensor *src)
{
    if (dst->requires_grad && !hod__has_grad_fn(dst))
        hod__tape_wanted();
    if (dst->requires_grad && !hod__has_grad_fn(dst))
        return HOD_FAIL_RC(STATE,
                           "assign: %s is a leaf that requires a gradient; change it in a "
                           "scope without gradients",
                           HOD_SHAPE_TEXT(dst));
    if (hod__has_grad_fn(dst)) {
        const hod_grad_node *n = dst->autograd->grad_fn;
        if (!n->custom && hod__op_info[n->op].class == HOD_VIEW)
            return HOD_FAIL_RC(STATE,
                               "assign: %s is a view (%s) of a tensor that requires a "
                               "gradient, which would not see the change",
                               HOD_SHAPE_TEXT(dst), n->from.name);
    } else if (src->requires_grad) {
        hod_meta m = hod__meta(dst);
        if (hod__meta_bytes(&m) < dst->storage->bytes)
            return HOD_FAIL_RC(STATE,
                               "assign: %s is a part of a larger tensor, which would not "
                               "see that it requires a gradient now",
                               HOD_SHAPE_TEXT(dst));
    }
    return 0;
}

int hod__tape_note(const hod_op_call *c, hod_tensor *out)
{
    if (!hod__is_float(out->dtype) || !hod_grad_enabled() || !any_requires_grad(c->n, c->in))
        return 0;
    if (hod__checkpoint_now && hod__checkpoint_step(c, out) != 0)
        return -1;
    const hod_op_info *info = &hod__op_info[c->op];
    hod_grad_node *n = node_new(c->op, info->name, c->n, 1);
    if (!n)
        return -1;
    if (c->attrs)
        n->attrs = *c->attrs;
    int rc = link_inputs(n, c->in);
    for (int i = 0; rc == 0 && i < c->n; i++)
        if (wants_input(info, n, i))
            rc = hod__save(&n->edge[i].saved, c->in[i]);
    if (rc == 0 && wants_result(info, n))
        rc = hod__save_result(&n->y, out);
    n->sequence = atomic_fetch_add(&last_sequence, 1) + 1;
    if (rc == 0)
        rc = link_result(n, 0, out);
    if (rc != 0)
        hod__grad_node_release(n);
    return rc;
}

hod_grad_node *hod__tape_note_custom(const hod_custom *custom, const char *name, void *state, int n,
                                     hod_tensor *const *in, int outputs, hod_tensor *const *out)
{
    hod__tape_wanted();
    hod_grad_node *node = node_new(HOD_OPS, name, n, outputs);
    if (!node) {
        custom->release(state);
        return NULL;
    }
    node->custom = custom;
    node->state = state;
    node->sequence = atomic_fetch_add(&last_sequence, 1) + 1;
    int rc = link_inputs(node, in);
    for (int i = 0; rc == 0 && i < outputs; i++) {
        if (!out[i])
            continue;
        hod__grad_node_retain(node);
        rc = link_result(node, i, out[i]);
        if (rc != 0)
            hod__grad_node_release(node);
    }
    hod__grad_node_release(node); /* its results hold it now; with none it is gone */
    return rc == 0 ? node : NULL;
}

/* ---- the hook ---- */

void hod__tape_wanted(void)
{
    (void)hod__span_begin("tape", 0, NULL);
}

void hod__tape_install(void)
{
    static const hod_tape_hook hook = {.note = hod__tape_note, .check_write = check_write};
    atomic_store_explicit(&hod__tape, &hook, memory_order_release);
}

bool hod_grad_enabled(void)
{
    return hod__tape_mode.enabled;
}

/* ---- modes ---- */

static _Thread_local hod_grad_mode *innermost_mode;

static void set_mode(hod_grad_mode *m, bool enabled, bool inference)
{
    *m = (hod_grad_mode){hod__tape_mode.enabled, hod__tape_mode.inference, innermost_mode};
    innermost_mode = m;
    hod__tape_mode = (hod_tape_mode){enabled, inference};
}

void hod_no_grad_begin(hod_grad_mode *m)
{
    set_mode(m, false, hod__tape_mode.inference);
}

void hod_with_grad_begin(hod_grad_mode *m)
{
    set_mode(m, true, false);
}

void hod_inference_begin(hod_grad_mode *m)
{
    set_mode(m, false, true);
}

/* Is it one of the open modes of this thread? Compared, never read: it may be long gone. */
static bool is_open(const hod_grad_mode *m)
{
    const hod_grad_mode *o = innermost_mode;
    while (o && o != m)
        o = o->outer;
    return o;
}

void hod_grad_mode_end(hod_grad_mode *m)
{
    if (!is_open(m)) {
        HOD_FAIL(STATE, "gradient mode: it has ended already, or belongs to another thread");
        return;
    }
    if (innermost_mode != m)
        HOD_FAIL(STATE, "gradient mode: it ends before one that was opened inside");
    innermost_mode = m->outer; /* and with it all that was opened inside */
    hod__tape_mode = (hod_tape_mode){m->enabled, m->inference};
}
