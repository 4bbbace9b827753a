/* Segments: lists that grow while a call is recorded and are only compared afterwards. */
#include "compile/trace.h"

hod_segment *hod__segment_new(hod_segment *parent, int32_t first)
{
    hod_segment *s = hod__alloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->parent = parent;
    s->first = first;
    s->graph = hod__graph_new("");
    if (s->graph)
        return s;
    free(s);
    return NULL;
}

static void free_values(hod_segment *s)
{
    for (int64_t i = 0; i < s->n_values; i++) {
        hod_value *v = &s->values[i];
        if (v->block && v->handle) {
            hod_storage *storage = v->handle->storage;
            storage->device->release(storage->device, v->block, storage->bytes);
        }
        hod_tensor_release(v->handle);
    }
    for (int64_t i = 0; i < s->n_externals; i++) {
        hod_tensor_release(s->externals[i].pin);
        hod_tensor_release(s->externals[i].hold);
    }
    free(s->values);
    free(s->forms);
    free(s->externals);
}

void hod__segment_free(hod_segment *s)
{
    if (!s)
        return;
    for (hod_segment *c = s->children; c;) {
        hod_segment *next = c->sibling;
        hod__segment_free(c);
        c = next;
    }
    free_values(s);
    free(s->entries);
    free(s->in);
    free(s->attrs);
    free(s->effects);
    free(s->spans);
    free(s->pattern);
    hod__graph_free(s->graph);
    hod__graph_free(s->optimised);
    hod__program_free(s->program);
    free(s->outputs);
    free(s->inputs);
    free(s->returns);
    free(s->run_in);
    free(s->run_slots);
    free(s->run_out);
    free(s);
}

int32_t hod__segment_value(hod_segment *s, const hod_meta *meta, const int64_t *strides)
{
    hod_value *v = hod__push(&s->values, &s->n_values, &s->cap_values, sizeof *v);
    hod_form *f = v ? hod__push(&s->forms, &s->n_forms, &s->cap_forms, sizeof *f) : NULL;
    if (!f) {
        s->n_values = s->n_forms; /* the two go together */
        return HOD_NO_VALUE;
    }
    int32_t number = s->first + (int32_t)s->n_values - 1;
    v->base = number;
    v->external = -1;
    f->meta = *meta;
    memcpy(f->strides, strides, sizeof f->strides);
    f->entry = f->span = f->first_view = f->next_view = -1;
    f->node = HOD_NO_REF;
    return number;
}

hod_entry *hod__segment_entry(hod_segment *s, hod_entry_kind kind, int n, const int32_t *in,
                              const void *attrs, size_t bytes)
{
    int32_t first_in = (int32_t)s->n_in, first_attrs = (int32_t)s->n_attrs;
    for (int i = 0; i < n; i++) {
        int32_t *place = hod__push(&s->in, &s->n_in, &s->cap_in, sizeof *place);
        if (!place)
            return NULL;
        *place = in[i];
    }
    /* Attributes start at multiples of 8: they hold doubles and 64-bit sizes. */
    for (size_t i = 0; i < bytes; i += 8) {
        char *place = hod__push(&s->attrs, &s->n_attrs, &s->cap_attrs, 8);
        if (!place)
            return NULL;
        memcpy(place, (const char *)attrs + i, HOD_MIN(bytes - i, 8));
    }
    hod_entry *e = hod__push(&s->entries, &s->n, &s->cap, sizeof *e);
    if (!e)
        return NULL;
    e->kind = (uint8_t)kind;
    e->n = (int16_t)n;
    e->in = first_in;
    e->attrs = first_attrs;
    e->bytes = (uint16_t)bytes;
    e->out = HOD_NO_VALUE;
    hod__place(&e->file, &e->line);
    return e;
}

void hod__entry_attrs(const hod_segment *s, const hod_entry *e, hod_attrs *out)
{
    memset(out, 0, sizeof *out);
    if (e->bytes)
        memcpy(out, s->attrs + (int64_t)e->attrs * 8, e->bytes);
}

/* ---- comparing ---- */

bool hod__external_fits(const hod_external *e, const hod_tensor *t)
{
    size_t sizes = (size_t)e->meta.ndim * sizeof *t->shape;
    return t->dtype == e->meta.dtype && t->ndim == e->meta.ndim &&
           t->requires_grad == e->requires_grad && memcmp(t->shape, e->meta.shape, sizes) == 0 &&
           memcmp(t->strides, e->strides, sizes) == 0;
}

static bool same_external(const hod_external *a, const hod_external *b)
{
    size_t sizes = (size_t)a->meta.ndim * sizeof *a->strides;
    return a->value == b->value && a->leaf == b->leaf && a->pin == b->pin &&
           a->requires_grad == b->requires_grad && a->has_graph == b->has_graph &&
           a->meta.dtype == b->meta.dtype && a->meta.ndim == b->meta.ndim &&
           memcmp(a->meta.shape, b->meta.shape, sizes) == 0 &&
           memcmp(a->strides, b->strides, sizes) == 0;
}

static bool same_entry(const hod_segment *a, const hod_segment *b, int64_t i)
{
    const hod_entry *x = &a->entries[i], *y = &b->entries[i];
    if (x->kind != y->kind || x->grad != y->grad || x->op != y->op || x->n != y->n ||
        x->bytes != y->bytes || x->out != y->out || x->wants != y->wants)
        return false;
    if (x->kind == HOD_ENTRY_SPAN) {
        const hod_span_record *p = &a->spans[x->in], *q = &b->spans[y->in];
        return strcmp(p->kind, q->kind) == 0 && p->key == q->key && p->value == q->value;
    }
    if (x->n && memcmp(a->in + x->in, b->in + y->in, (size_t)x->n * sizeof *a->in) != 0)
        return false;
    return !x->bytes || memcmp(a->attrs + (int64_t)x->attrs * 8, b->attrs + (int64_t)y->attrs * 8,
                               x->bytes) == 0;
}

bool hod__segment_same_prefix(const hod_segment *a, const hod_segment *b, int64_t cursor,
                              int32_t values)
{
    if (b->n < cursor)
        return false;
    for (int i = 0; a->pattern; i++) {
        if (a->pattern[i] != b->pattern[i])
            return false;
        if (a->pattern[i] == HOD_NO_VALUE)
            break;
    }
    for (int64_t i = 0; i < a->n_externals && a->externals[i].value < values; i++)
        if (i >= b->n_externals || !same_external(&a->externals[i], &b->externals[i]))
            return false;
    for (int64_t i = 0; i < cursor; i++)
        if (!same_entry(a, b, i))
            return false;
    return true;
}

hod_segment *hod__segment_of(hod_segment *s, int32_t v)
{
    while (v < s->first)
        s = s->parent;
    return s;
}

/* ---- copying a prefix ---- */

static void swap_value(hod_value *a, hod_value *b)
{
    hod_value t = *a;
    a->handle = b->handle;
    a->block = b->block;
    a->loose = b->loose;
    b->handle = t.handle;
    b->block = t.block;
    b->loose = t.loose;
}

void hod__segment_swap_handles(hod_segment *a, hod_segment *b, int32_t values)
{
    for (int64_t i = 0; i < values - a->first; i++)
        swap_value(&a->values[i], &b->values[i]);
}

static int copy_values(hod_segment *s, hod_segment *src, int32_t values)
{
    for (int64_t i = 0; i < values - src->first; i++) {
        const hod_value *from = &src->values[i];
        hod_form form = src->forms[i];
        int32_t number = hod__segment_value(s, &form.meta, form.strides);
        if (number == HOD_NO_VALUE)
            return -1;
        hod_value *to = &s->values[i];
        to->base = from->base;
        to->external = from->external;
        to->view = from->view;
        to->computed = from->computed;
        to->requires_grad = from->requires_grad;
        form.node = HOD_NO_REF;
        form.first_view = form.next_view = -1;
        s->forms[i] = form;
        hod_form *base = to->view && to->base >= s->first ? &s->forms[to->base - s->first] : NULL;
        if (base) {
            s->forms[i].next_view = base->first_view;
            base->first_view = number;
        }
        if (from->external < 0)
            continue;
        hod_external *e = hod__push(&s->externals, &s->n_externals, &s->cap_externals, sizeof *e);
        if (!e)
            return -1;
        *e = src->externals[from->external];
        hod_tensor_retain(e->pin);
        e->last = NULL;
        e->hold = NULL;
    }
    return 0;
}

static int copy_spans(hod_segment *s, const hod_segment *src, int64_t cursor)
{
    for (int64_t i = 0; i < src->n_spans; i++) {
        hod_span_record *p = hod__push(&s->spans, &s->n_spans, &s->cap_spans, sizeof *p);
        if (!p)
            return -1;
        *p = src->spans[i];
        if (p->end > cursor) { /* still open at the cursor, or not begun: then dropped below */
            p->end = 0;
            p->skippable = false;
        }
    }
    return 0;
}

int hod__segment_copy_prefix(hod_segment *s, hod_segment *src, int64_t cursor, int32_t values)
{
    if (copy_values(s, src, values) != 0 || copy_spans(s, src, cursor) != 0)
        return -1;
    int64_t spans = 0;
    for (int64_t i = 0; i < cursor; i++) {
        const hod_entry *from = &src->entries[i];
        hod_attrs attrs;
        hod__entry_attrs(src, from, &attrs);
        hod_entry *e = hod__segment_entry(s, from->kind, from->n,
                                          from->kind == HOD_ENTRY_SPAN ? NULL : src->in + from->in,
                                          &attrs, from->bytes);
        if (!e)
            return -1;
        e->grad = from->grad;
        e->op = from->op;
        e->out = from->out;
        e->wants = from->wants;
        e->file = from->file;
        e->line = from->line;
        if (from->kind == HOD_ENTRY_SPAN) {
            e->in = from->in;
            spans = from->in + 1;
        }
    }
    s->n_spans = spans;
    for (int64_t i = 0; i < src->n_effects && src->effects[i].entry < cursor; i++) {
        hod_effect *e = hod__push(&s->effects, &s->n_effects, &s->cap_effects, sizeof *e);
        if (!e)
            return -1;
        *e = src->effects[i];
    }
    if (src->pattern) {
        int n = 0;
        for (; src->pattern[n] != HOD_NO_VALUE; n++) {}
        s->pattern = hod__alloc((size_t)n + 1, sizeof *s->pattern);
        if (!s->pattern)
            return -1;
        memcpy(s->pattern, src->pattern, ((size_t)n + 1) * sizeof *s->pattern);
    }
    s->tape = src->tape;
    s->clears = src->clears;
    hod__segment_swap_handles(s, src, values);
    return 0;
}
