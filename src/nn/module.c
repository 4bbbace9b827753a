/* The module tree: making, owning, walking.
 *
 *     resnet ── conv1 (weight)
 *        │
 *        └── layer1 ── 0 ── conv1 (weight)        full name: layer1.0.conv1.weight
 *                      └─── norm1 (weight, bias; running_mean, ...)
 *
 * Constructors read as if nothing could fail. For that, a constructor whose parent could not be
 * made gets a struct to write into that belongs to nobody, and hod_module_done turns whatever went
 * wrong inside into NULL, at the latest at the root, which is then freed with all that hangs on it.
 */
#include "nn/nn.h"

/* What constructors write into when there is no memory for the real thing. */
enum { NOWHERE_BYTES = 4096 };
static _Thread_local union {
    hod_module module;
    max_align_t align;
    char bytes[NOWHERE_BYTES];
} nowhere;

static hod_module *no_module(size_t bytes)
{
    if (bytes > NOWHERE_BYTES)
        return NULL;
    memset(&nowhere, 0, sizeof nowhere);
    nowhere.module.failed = true;
    return &nowhere.module;
}

static void mark_failed(hod_module *m)
{
    for (; m; m = m->parent)
        m->failed = true;
}

/* ---- making ---- */

static int check_name(const hod_module *parent, const char *what, const char *name)
{
    if (!name || !*name || strchr(name, '.'))
        return HOD_FAIL_RC(ARGUMENT, "%s: the name \"%s\" must not be empty or contain a dot", what,
                           name ? name : "");
    char path[HOD_NAME_MAX + 1];
    if (strlen(hod_module_full_name(parent, path, sizeof path)) + strlen(name) + 1 >= HOD_NAME_MAX)
        return HOD_FAIL_RC(ARGUMENT, "%s: the full name of \"%s\" has more than %d bytes", what,
                           name, HOD_NAME_MAX - 1);
    return 0;
}

static int attach(hod_module *parent, hod_module *m)
{
    for (int64_t i = 0; i < parent->n_children; i++)
        if (strcmp(parent->children[i]->name, m->name) == 0)
            return HOD_FAIL_RC(ARGUMENT, "%s: two children named \"%s\"", parent->type, m->name);
    hod_module **slot = hod__push(&parent->children, &parent->n_children, &parent->cap_children,
                                  sizeof *parent->children);
    if (!slot)
        return -1;
    *slot = m;
    m->parent = parent;
    m->training = parent->training;
    return 0;
}

hod_module *hod_module_make(hod_module *parent, const char *name, const char *type, size_t bytes,
                            hod_forward *forward)
{
    if (hod_error() || (parent && parent->failed)) {
        mark_failed(parent);
        return no_module(bytes);
    }
    hod_module *m = hod__alloc(1, bytes);
    if (m) {
        m->type = type;
        m->forward = forward;
        m->training = true;
        if (name && !(m->name = hod__strdup(name)))
            m->failed = true;
        if (!m->failed &&
            (!parent || (check_name(parent, type, name) == 0 && attach(parent, m) == 0)))
            return m;
        free(m->name);
        free(m);
    }
    mark_failed(parent);
    return no_module(bytes);
}

hod_module *hod_module_finish(hod_module *m)
{
    if (!m || m == &nowhere.module)
        return NULL;
    if (m->failed || hod_error()) {
        mark_failed(m);
        if (!m->parent)
            hod_module_free(m);
        return NULL;
    }
    return m;
}

/* A zeroed tensor outside of every scope. */
static hod_tensor *tensor_new(hod_dtype dtype, hod_shape shape)
{
    HOD_SCOPE(s);
    return hod_tensor_retain(hod_zeros(dtype, shape));
}

static bool has_member(const hod_module *m, const char *name)
{
    for (int64_t i = 0; i < m->n_parameters; i++)
        if (strcmp(m->parameters[i].name, name) == 0)
            return true;
    for (int64_t i = 0; i < m->n_buffers; i++)
        if (strcmp(m->buffers[i].name, name) == 0)
            return true;
    return false;
}

static int check_member(hod_module *m, const char *name)
{
    if (check_name(m, m->type, name) != 0)
        return -1;
    return has_member(m, name)
               ? HOD_FAIL_RC(ARGUMENT, "%s: two members named \"%s\"", m->type, name)
               : 0;
}

/* The parameter's full name, for printed graphs. */
static int name_leaf(const hod_module *m, const char *name, hod_tensor *t)
{
    char path[HOD_NAME_MAX], full[2 * HOD_NAME_MAX];
    hod_module_full_name(m, path, sizeof path);
    snprintf(full, sizeof full, "%s%s%s", path, *path ? "." : "", name);
    return hod__leaf_set_name(t, full);
}

hod_tensor *hod_parameter_new(hod_module *m, const char *name, hod_parameter_kind kind,
                              hod_shape shape, hod_init init)
{
    if (hod__null("parameter_new", "module", m) || m->failed)
        return NULL;
    hod_tensor *t = check_member(m, name) == 0 ? tensor_new(HOD_F32, shape) : NULL;
    char *copy = t ? hod__strdup(name) : NULL;
    hod_parameter *p =
        copy && hod_requires_grad(t, true) && name_leaf(m, name, t) == 0
            ? hod__push(&m->parameters, &m->n_parameters, &m->cap_parameters, sizeof *m->parameters)
            : NULL;
    if (!p) {
        free(copy);
        hod_tensor_release(t);
        mark_failed(m);
        return NULL;
    }
    *p = (hod_parameter){.name = copy, .tensor = t, .kind = kind, .init = init};
    if (hod__init_parameter(m, p, 0) == 0)
        return t;
    mark_failed(m);
    return NULL;
}

hod_tensor *hod_buffer_new(hod_module *m, const char *name, hod_dtype dtype, hod_shape shape,
                           double initial)
{
    if (hod__null("buffer_new", "module", m) || m->failed)
        return NULL;
    hod_tensor *t = check_member(m, name) == 0 ? tensor_new(dtype, shape) : NULL;
    char *copy = t ? hod__strdup(name) : NULL;
    hod_buffer *b =
        copy ? hod__push(&m->buffers, &m->n_buffers, &m->cap_buffers, sizeof *m->buffers) : NULL;
    if (!b) {
        free(copy);
        hod_tensor_release(t);
        mark_failed(m);
        return NULL;
    }
    *b = (hod_buffer){.name = copy, .tensor = t, .initial = initial};
    if (hod__init_buffer(b) == 0)
        return t;
    mark_failed(m);
    return NULL;
}

/* ---- freeing ---- */

static void detach(hod_module *m)
{
    hod_module *p = m->parent;
    if (!p)
        return;
    int64_t kept = 0;
    for (int64_t i = 0; i < p->n_children; i++)
        if (p->children[i] != m)
            p->children[kept++] = p->children[i];
    p->n_children = kept;
    m->parent = NULL;
}

void hod_module_free(hod_module *m)
{
    if (!m || m == &nowhere.module)
        return;
    detach(m);
    while (m->n_children > 0) {
        hod_module *last = m->children[--m->n_children];
        last->parent = NULL;
        hod_module_free(last);
    }
    if (m->destroy)
        m->destroy(m);
    hod__module_hooks_free(m);
    for (int64_t i = 0; i < m->n_parameters; i++) {
        hod_tensor_release(m->parameters[i].tensor);
        free(m->parameters[i].name);
    }
    for (int64_t i = 0; i < m->n_buffers; i++) {
        hod_tensor_release(m->buffers[i].tensor);
        free(m->buffers[i].name);
    }
    free(m->children);
    free(m->parameters);
    free(m->buffers);
    free(m->name);
    free(m);
}

/* ---- using ---- */

/* Says in which module it failed; the ones around it find its name there and say nothing. */
static void name_failure(const hod_module *m)
{
    char name[HOD_NAME_MAX];
    hod_module_full_name(m, name, sizeof name);
    size_t n = strlen(name);
    const char *text = hod_error();
    if (strncmp(text, name, n) != 0 || (text[n] != '.' && text[n] != ':'))
        hod__fail_context("%s", name);
}

hod_tensor *hod_module_call(hod_module *m, hod_tensor *x)
{
    if (hod__null("call", "module", m) || hod__null("call", "x", x))
        return NULL;
    if (!m->forward)
        return HOD_FAIL(STATE, "%s: has no forward function", m->type);
    HOD_SCOPE(s);
    hod_tensor *y = m->hooks ? hod__module_call_hooked(m, x) : m->forward(m, x);
    if (!y && hod_error() && m->parent)
        name_failure(m);
    return hod_escape(y);
}

/* ---- walking ---- */

/* The module after m in the order parent, first child, ..., last child; NULL at the end. */
hod_module *hod__module_next(const hod_module *root, hod_module *m)
{
    if (m->n_children > 0)
        return m->children[0];
    for (; m != root; m = m->parent) {
        const hod_module *p = m->parent;
        for (int64_t i = 0; i + 1 < p->n_children; i++)
            if (p->children[i] == m)
                return p->children[i + 1];
    }
    return NULL;
}

static char *name_below(const hod_module *root, const hod_module *m, char *buf, size_t cap)
{
    const hod_module *path[64];
    int depth = 0;
    for (; m && m != root && m->parent && depth < HOD_COUNT(path); m = m->parent)
        path[depth++] = m;
    size_t n = 0;
    buf[0] = 0;
    while (depth-- > 0 && n < cap)
        n += (size_t)snprintf(buf + n, cap - n, "%s%s", n ? "." : "", path[depth]->name);
    return buf;
}

char *hod_module_full_name(const hod_module *m, char *buf, size_t cap)
{
    return name_below(NULL, m, buf, cap);
}

hod_walk hod_parameters(hod_module *root)
{
    return (hod_walk){.root = root, .at = root};
}

hod_walk hod_buffers(hod_module *root)
{
    return (hod_walk){.root = root, .at = root, .buffers = true};
}

bool hod_walk_next(hod_walk *w)
{
    while (w->at && w->next >= (w->buffers ? w->at->n_buffers : w->at->n_parameters)) {
        w->at = hod__module_next(w->root, w->at);
        w->next = 0;
    }
    if (!w->at)
        return false;
    hod_named *item = &w->item;
    item->module = w->at;
    item->parameter = w->buffers ? NULL : &w->at->parameters[w->next];
    item->buffer = w->buffers ? &w->at->buffers[w->next] : NULL;
    item->tensor = w->buffers ? item->buffer->tensor : item->parameter->tensor;
    w->next++;
    name_below(w->root, w->at, item->name, sizeof item->name);
    size_t n = strlen(item->name);
    snprintf(item->name + n, sizeof item->name - n, "%s%s", n ? "." : "",
             w->buffers ? item->buffer->name : item->parameter->name);
    return true;
}

int64_t hod_module_count_parameters(hod_module *m)
{
    int64_t n = 0;
    for (hod_walk w = hod_parameters(m); hod_walk_next(&w);)
        n += hod_tensor_numel(w.item.tensor);
    return n;
}

hod_module *hod_module_find(hod_module *root, const char *name)
{
    char path[HOD_NAME_MAX];
    for (hod_module *m = name ? root : NULL; m; m = hod__module_next(root, m))
        if (strcmp(name_below(root, m, path, sizeof path), name) == 0)
            return m;
    return NULL;
}

void hod_module_print(hod_module *root, FILE *out)
{
    for (hod_module *m = out ? root : NULL; m; m = hod__module_next(root, m)) {
        int indent = 0;
        for (const hod_module *p = m; p != root; p = p->parent)
            indent += 2;
        fprintf(out, "%*s%s%s%s  %lld\n", indent, "", m->name ? m->name : "", m->name ? ": " : "",
                m->type, (long long)hod_module_count_parameters(m));
    }
}
