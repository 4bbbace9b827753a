/* Listening to a module: what goes in, what comes out, and the gradients on their way back.
 *
 *            forward pre          forward
 *     x ───────>●────> ○ ─ forward ─> ○ ────>●──────> y
 *               dx <── ● <─────────── ● <── dy
 *                  backward      backward pre
 *
 * The rings are nodes of the tape that do nothing: they are there to stand at the module's doors,
 * because x and y themselves may have other readers, whose gradients are not this module's. They
 * are only made while there is a backward hook. Hooks that were removed or whose module was freed
 * since are not called.
 */
#include "nn/nn.h"

typedef struct hook_entry {
    hod_module_hook_kind kind;
    hod_module_hook *call;
    void *context;
} hook_entry;

/* Counted: by the module and by the nodes at its doors. */
struct hod_module_hooks {
    int64_t refs;
    hod_module *module; /* NULL once it is gone */
    hook_entry *items;
    int64_t n, cap;
};

/* The two doors of one call. */
typedef struct doors {
    int64_t refs; /* one a node */
    struct hod_module_hooks *hooks;
    hod_tensor *dy; /* counted; between the two */
    bool has_input; /* x wants a gradient */
} doors;

static void hooks_release(struct hod_module_hooks *h)
{
    if (!h || --h->refs > 0)
        return;
    free(h->items);
    free(h);
}

void hod__module_hooks_free(hod_module *m)
{
    if (!m->hooks)
        return;
    m->hooks->module = NULL;
    hooks_release(m->hooks);
    m->hooks = NULL;
}

int hod_module_add_hook_make(hod_module *m, hod_module_hook_kind kind, hod_module_hook *hook,
                             void *context)
{
    if (!m || m->failed) /* its constructor's error is pending */
        return -1;
    if (!hook)
        return HOD_FAIL_RC(ARGUMENT, "%s: a hook that is no function", m->type);
    if (!m->hooks) {
        m->hooks = hod__alloc(1, sizeof *m->hooks);
        if (!m->hooks)
            return -1;
        *m->hooks = (struct hod_module_hooks){.refs = 1, .module = m};
    }
    struct hod_module_hooks *h = m->hooks;
    hook_entry *e = hod__push(&h->items, &h->n, &h->cap, sizeof *e);
    if (!e)
        return -1;
    *e = (hook_entry){kind, hook, context};
    return 0;
}

int hod_module_remove_hook_make(hod_module *m, hod_module_hook_kind kind, hod_module_hook *hook,
                                void *context)
{
    if (hod__null("module_remove_hook", "module", m))
        return -1;
    struct hod_module_hooks *h = m->hooks;
    for (int64_t i = h ? h->n : 0; i-- > 0;) {
        const hook_entry *e = &h->items[i];
        if (e->kind != kind || e->call != hook || e->context != context)
            continue;
        memmove(&h->items[i], &h->items[i + 1], (size_t)(--h->n - i) * sizeof *h->items);
        return 0;
    }
    return HOD_FAIL_RC(ARGUMENT, "%s: it has no such hook", m->type);
}

static bool any(const struct hod_module_hooks *h, hod_module_hook_kind kind)
{
    for (int64_t i = 0; i < h->n; i++)
        if (h->items[i].kind == kind)
            return true;
    return false;
}

/* t through all hooks of a kind; with `keep` what they return is not looked at. */
static hod_tensor *run(struct hod_module_hooks *h, hod_module_hook_kind kind, hod_tensor *t,
                       hod_tensor *other, bool keep)
{
    static const char *const name[] = {"forward pre", "forward", "backward pre", "backward"};
    for (int64_t i = 0; i < h->n && h->module && (t || keep); i++) {
        const hook_entry e = h->items[i];
        if (e.kind != kind)
            continue;
        int64_t before = h->n;
        hod_tensor *after = e.call(e.context, h->module, t, other);
        i -= before > h->n; /* it removed itself */
        if (keep)
            continue;
        if (!after && !hod_error())
            HOD_FAIL(STATE, "%s: its %s hook returned no tensor", h->module->type, name[kind]);
        t = after;
    }
    return t;
}

/* ---- the doors ---- */

static void doors_release(void *state)
{
    doors *d = state;
    if (--d->refs > 0)
        return;
    hod_tensor_release(d->dy);
    hooks_release(d->hooks);
    free(d);
}

/* The module's full name, or its type where it has none. */
#define HOOKED_TEXT(h) hooked_text(h, (char[HOD_NAME_MAX]){0})
static const char *hooked_text(const struct hod_module_hooks *h, char *buf)
{
    if (!h->module)
        return "a module that is gone";
    hod_module_full_name(h->module, buf, HOD_NAME_MAX);
    return *buf ? buf : h->module->type;
}

static bool is_alike(const doors *d, const hod_tensor *a, const hod_tensor *b)
{
    if (a->dtype == b->dtype && hod__same_sizes(a->ndim, a->shape, b->ndim, b->shape))
        return true;
    hod__fail(HOD_ERROR_ARGUMENT, "%s: a hook returned %s %s for a gradient of %s %s",
              HOOKED_TEXT(d->hooks), hod_dtype_name((hod_dtype)a->dtype), HOD_SHAPE_TEXT(a),
              hod_dtype_name((hod_dtype)b->dtype), HOD_SHAPE_TEXT(b));
    return false;
}

static int output_backward(hod_grad_node *n, hod_tensor *const *g, hod_tensor **dx, bool create)
{
    (void)create;
    doors *d = n->state;
    hod_tensor *dy = run(d->hooks, HOD_HOOK_BACKWARD_PRE, g[0], NULL, false);
    if (!dy || !is_alike(d, dy, g[0]))
        return -1;
    dx[0] = dy;
    if (!d->has_input) {
        run(d->hooks, HOD_HOOK_BACKWARD, NULL, dy, true);
        return hod_error() ? -1 : 0;
    }
    hod_tensor_retain(dy);
    hod_tensor_release(d->dy);
    d->dy = dy;
    return 0;
}

static int input_backward(hod_grad_node *n, hod_tensor *const *g, hod_tensor **dx, bool create)
{
    (void)create;
    doors *d = n->state;
    dx[0] = run(d->hooks, HOD_HOOK_BACKWARD, g[0], d->dy, false);
    hod_tensor_release(d->dy);
    d->dy = NULL;
    return dx[0] && is_alike(d, dx[0], g[0]) ? 0 : -1;
}

static const hod_custom input_node = {.backward = input_backward, .release = doors_release};
static const hod_custom output_node = {.backward = output_backward, .release = doors_release};

static hod_tensor *door(const hod_custom *kind, const char *name, doors *d, hod_tensor *t)
{
    hod_tensor *alias = hod_detach(t);
    if (!alias)
        return NULL;
    d->refs++;
    return hod__tape_note_custom(kind, name, d, 1, &t, 1, &alias) ? alias : NULL;
}

/* forward between two doors. */
static hod_tensor *call_watched(hod_module *m, hod_tensor *x)
{
    doors *d = hod__alloc(1, sizeof *d);
    if (!d)
        return NULL;
    *d = (doors){.refs = 1, .hooks = m->hooks, .has_input = x->requires_grad};
    m->hooks->refs++;
    if (d->has_input)
        x = door(&input_node, "module_input", d, x);
    hod_tensor *y = x ? m->forward(m, x) : NULL;
    if (y && y->requires_grad)
        y = door(&output_node, "module_result", d, y);
    doors_release(d);
    return y;
}

hod_tensor *hod__module_call_hooked(hod_module *m, hod_tensor *x)
{
    struct hod_module_hooks *h = m->hooks;
    h->refs++; /* a hook may remove itself */
    x = run(h, HOD_HOOK_FORWARD_PRE, x, NULL, false);
    bool watched = any(h, HOD_HOOK_BACKWARD) || any(h, HOD_HOOK_BACKWARD_PRE);
    hod_tensor *y = NULL;
    if (x)
        y = watched && hod_grad_enabled() ? call_watched(m, x) : m->forward(m, x);
    if (y)
        y = run(h, HOD_HOOK_FORWARD, y, x, false);
    hooks_release(h);
    return y;
}
