/* Recording: every operator, accumulation and span of a call becomes an entry of its segment. */
#include "autograd/autograd.h"
#include "compile/tape_links.h"
#include "compile/trace.h"

/* ---- tables of a call ---- */

int hod__call_reserve(hod_trace_call *k, int64_t n)
{
    if (k->n_values + n <= k->cap_values)
        return 0;
    int64_t cap = HOD_MAX((int64_t)k->cap_values * 2, k->n_values + n + 64);
    if (cap > INT32_MAX)
        return HOD_FAIL_RC(MEMORY, "%s: more than %d values in one call", k->fn->name, INT32_MAX);
    hod_tensor **handles = hod__grow(k->handles, (size_t)cap, sizeof *handles);
    if (handles)
        k->handles = handles;
    hod_live *live = hod__grow(k->live, (size_t)cap, sizeof *live);
    if (live)
        k->live = live;
    int32_t *scratch = hod__grow(k->scratch, (size_t)cap, sizeof *scratch);
    if (scratch)
        k->scratch = scratch;
    if (!handles || !live || !scratch)
        return -1;
    memset(handles + k->cap_values, 0, (size_t)(cap - k->cap_values) * sizeof *handles);
    k->cap_values = (int32_t)cap;
    return 0;
}

/* The trace fields of a tensor may be written by two threads that compile functions over the same
 * parameters: they are hints, stored without tearing and checked on reading. */
static void stamp(hod_trace_call *k, hod_tensor *t, int32_t v)
{
    __atomic_store_n(&t->trace_value, v, __ATOMIC_RELAXED);
    __atomic_store_n(&t->trace_stamp, k->stamp, __ATOMIC_RELAXED);
}

int hod__call_bind(hod_trace_call *k, int32_t v, hod_tensor *t)
{
    if (hod__call_reserve(k, 1) != 0)
        return -1;
    hod_bound *b = hod__push(&k->bound, &k->n_bound, &k->cap_bound, sizeof *b);
    if (!b)
        return -1;
    *b = (hod_bound){hod_tensor_retain(t), v};
    k->handles[v] = t;
    k->n_values = v + 1;
    stamp(k, t, v);
    return 0;
}

bool hod__same_view(const hod_tensor *a, const hod_tensor *b)
{
    return a->storage == b->storage && a->offset == b->offset && a->dtype == b->dtype &&
           hod__same_sizes(a->ndim, a->shape, b->ndim, b->shape) &&
           hod__same_sizes(a->ndim, a->strides, b->ndim, b->strides);
}

int32_t hod__call_known(hod_trace_call *k, const hod_tensor *t)
{
    if (__atomic_load_n(&t->trace_stamp, __ATOMIC_RELAXED) == k->stamp) {
        int32_t v = __atomic_load_n(&t->trace_value, __ATOMIC_RELAXED);
        const hod_tensor *h = v >= 0 && v < k->n_values ? k->handles[v] : NULL;
        if (h && (h == t || hod__same_view(h, t)))
            return v;
    }
    for (int64_t i = 0; i < k->n_bound; i++)
        if (k->bound[i].tensor == t)
            return k->bound[i].value;
    return HOD_NO_VALUE;
}

/* ---- effects on hold ---- */

bool hod__call_is_pending(const hod_trace_call *k, const hod_storage *s)
{
    for (int64_t i = 0; !s->data && i < k->n_pending; i++)
        if (k->pending[i].storage == s)
            return true;
    return false;
}

int hod__call_pend(hod_trace_call *k, hod_storage *s)
{
    if (!s->data) /* already, or a placeholder */
        return 0;
    hod_pending *p = hod__push(&k->pending, &k->n_pending, &k->cap_pending, sizeof *p);
    if (!p)
        return -1;
    hod__storage_retain(s);
    *p = (hod_pending){s, s->data};
    s->data = NULL;
    return 0;
}

void hod__call_unpend(hod_trace_call *k)
{
    for (int64_t i = 0; i < k->n_pending; i++) {
        k->pending[i].storage->data = k->pending[i].data;
        hod__storage_release(k->pending[i].storage);
    }
    k->n_pending = 0;
}

int hod__call_use_slot(hod_trace_call *k, hod_grad_slot *slot)
{
    hod_slot_use *u = hod__push(&k->slots, &k->n_slots, &k->cap_slots, sizeof *u);
    if (!u)
        return -1;
    *u = (hod_slot_use){slot, slot->present, false};
    return 0;
}

/* ---- values ---- */

static int32_t innermost_span(const hod_trace_call *k, const hod_segment *s)
{
    const hod_open_span *o = k->n_open ? &k->open[k->n_open - 1] : NULL;
    return o && o->segment == s ? o->span : -1;
}

int hod__record_external(hod_trace_call *k, hod_segment *s, hod_tensor *t, bool is_input)
{
    hod_meta meta = hod__meta(t);
    int32_t v = hod__segment_value(s, &meta, t->strides);
    hod_external *e = v == HOD_NO_VALUE
                          ? NULL
                          : hod__push(&s->externals, &s->n_externals, &s->cap_externals, sizeof *e);
    if (!e)
        return -1;
    s->values[v - s->first].external = (int32_t)s->n_externals - 1;
    *e = (hod_external){.value = v,
                        .leaf = HOD_NO_VALUE,
                        .requires_grad = t->requires_grad,
                        .has_graph = hod__links_open(t),
                        .meta = meta};
    memcpy(e->strides, t->strides, sizeof e->strides);
    e->role = t->requires_grad && !e->has_graph ? HOD_INPUT_PARAMETER
              : is_input                        ? HOD_INPUT_DATA
                                                : HOD_INPUT_STATE;
    s->forms[v - s->first].span = innermost_span(k, s);
    if (k->n_open > 0) {
        e->pinned = true;
        e->pin = hod_tensor_retain(t);
    }
    if (hod__call_bind(k, v, t) != 0)
        return -1;
    k->live[v] = (hod_live){.node = HOD_NO_REF};
    return e->has_graph ? hod__call_need_tape(k) : 0;
}

/* A value made inside a span and read outside: its body says more than its key. */
static int leak_from_span(hod_trace_call *k, int32_t v)
{
    hod_segment *s = hod__segment_of(k->segment, v);
    int32_t i = s->forms[v - s->first].span;
    if (i < 0 || s->values[v - s->first].external >= 0)
        return 0;
    for (int64_t o = 0; o < k->n_open; o++)
        if (k->open[o].segment == s && k->open[o].span == i)
            return 0;
    bool skippable = false;
    for (; i >= 0; i = s->spans[i].parent) {
        skippable = skippable || s->spans[i].skippable;
        s->spans[i].skippable = false;
    }
    return skippable ? hod__call_need_tape(k) : 0;
}

int32_t hod__call_value(hod_trace_call *k, hod_tensor *t)
{
    int32_t v = hod__call_known(k, t);
    if (v != HOD_NO_VALUE)
        return leak_from_span(k, v) == 0 ? v : HOD_NO_VALUE;
    if (!t->storage->data) {
        HOD_FAIL(STATE,
                 "%s: %s %s was computed by an earlier call of a compiled function, which "
                 "did not return it",
                 k->fn->name, hod_dtype_name((hod_dtype)t->dtype), HOD_SHAPE_TEXT(t));
        return HOD_NO_VALUE;
    }
    v = k->n_values;
    return hod__record_external(k, k->segment, t, false) == 0 ? v : HOD_NO_VALUE;
}

/* ---- operators ---- */

static int32_t new_result(hod_trace_call *k, hod_segment *s, const hod_op_call *c,
                          const int32_t *in, hod_tensor *out)
{
    hod_meta meta = hod__meta(out);
    int32_t v = hod__segment_value(s, &meta, out->strides);
    if (v == HOD_NO_VALUE || hod__call_reserve(k, 1) != 0)
        return HOD_NO_VALUE;
    hod_value *value = &s->values[v - s->first];
    hod_form *form = &s->forms[v - s->first];
    form->entry = (int32_t)s->n;
    form->span = innermost_span(k, s);
    value->view = hod__op_info[c->op].class == HOD_VIEW;
    if (value->view) {
        hod_segment *maker = hod__segment_of(s, in[0]);
        value->base = maker->values[in[0] - maker->first].base;
        form->step = out->offset - c->in[0]->offset;
        if (value->base >= s->first) {
            hod_form *base = &s->forms[value->base - s->first];
            form->next_view = base->first_view;
            base->first_view = v;
        }
    }
    value->computed = value->base >= s->first && s->values[value->base - s->first].external < 0;
    value->handle = hod_tensor_retain(out);
    value->loose = true;
    bool wants = hod__tape_listens() && !(hod__op_info[c->op].flags & HOD_OPF_NODIFF);
    for (int i = 0; wants && i < c->n; i++)
        value->requires_grad = value->requires_grad || c->in[i]->requires_grad;
    k->handles[v] = out;
    k->n_values = v + 1;
    k->live[v] = (hod_live){.node = HOD_NO_REF};
    stamp(k, out, v);
    return v;
}

/* Half-open range of bytes that t's elements lie in. */
static void extent(const hod_tensor *t, int64_t *begin, int64_t *end)
{
    int64_t size = (int64_t)hod_dtype_bytes((hod_dtype)t->dtype), last = 0;
    for (int i = 0; i < t->ndim; i++)
        last += (t->shape[i] - 1) * t->strides[i];
    *begin = t->offset * size;
    *end = (t->offset + last + 1) * size;
}

bool hod__overlap(const hod_tensor *a, const hod_tensor *b)
{
    int64_t a0, a1, b0, b1;
    if (a->storage != b->storage)
        return false;
    extent(a, &a0, &a1);
    extent(b, &b0, &b1);
    return a0 < b1 && b0 < a1;
}

/* Behind a break everything is real and nothing has been read, so there the operator fits. */
const char *hod__record_refusal(hod_trace_call *k, int n, hod_tensor *const *in, bool effect)
{
    const hod_segment *s = k->segment;
    for (int i = 0; i < n; i++) {
        int32_t v = hod__call_known(k, in[i]);
        if ((v == HOD_NO_VALUE || k->live[v].node == HOD_NO_REF) && !in[i]->storage->data &&
            hod__call_is_pending(k, in[i]->storage))
            return "a tensor shares memory with one changed before";
    }
    if (!effect)
        return NULL;
    int32_t dst = hod__call_known(k, in[0]);
    if (dst != HOD_NO_VALUE && !hod__value_is_input(s, dst))
        return s->values[dst - s->first].view ? "a view is changed in place" : NULL;
    for (int64_t i = 0; i < s->n_inputs; i++)
        if (s->inputs[i] != dst && hod__overlap(k->handles[s->inputs[i]], in[0]))
            return "the tensor changed in place shares memory with another";
    return NULL;
}

static int note_effect(hod_trace_call *k, int32_t value, bool accumulate)
{
    hod_segment *s = k->segment;
    hod_effect *e = hod__push(&s->effects, &s->n_effects, &s->cap_effects, sizeof *e);
    if (!e)
        return -1;
    *e = (hod_effect){(int32_t)s->n - 1, value, accumulate, true};
    for (int64_t i = 0; i < s->n_effects - 1; i++)
        if (s->effects[i].value == value && s->effects[i].accumulate)
            e->first = false;
    return hod__call_pend(k, k->handles[value]->storage);
}

static int append_op(hod_trace_call *k, const hod_op_call *c, int32_t *in, hod_tensor *out)
{
    hod_segment *s = k->segment;
    bool effect = hod__op_info[c->op].class == HOD_EFFECT;
    int32_t v = effect ? HOD_NO_VALUE : new_result(k, s, c, in, out);
    if (!effect && v == HOD_NO_VALUE)
        return -1;
    hod_attrs_kind kind = hod__op_info[c->op].attrs;
    size_t bytes = c->attrs && kind != HOD_ATTRS_none ? hod__attrs_info[kind].bytes : 0;
    hod_attrs attrs;
    hod__attrs_copy(kind, &attrs, c->attrs);
    hod_entry *e = hod__segment_entry(s, HOD_ENTRY_OP, c->n, in, &attrs, bytes);
    if (!e)
        return -1;
    e->op = (int16_t)c->op;
    e->grad = hod__tape_listens();
    e->out = v;
    for (int i = 0; i < c->n; i++)
        e->wants |= (uint64_t)c->in[i]->requires_grad << i;
    if (hod__graph_step(k, s, s->n - 1) != 0)
        return -1;
    if (!effect)
        return 0;
    /* Versions of results are not followed: where one is changed, the tape is never rebuilt. */
    return hod__value_is_input(s, in[0]) ? note_effect(k, in[0], false) : hod__call_need_tape(k);
}

int hod__record_note(hod_recorder *r, const hod_op_call *c, hod_tensor *out)
{
    hod_trace_call *k = (hod_trace_call *)r;
    if (k->failed)
        return -1;
    int32_t in[HOD_OP_MAX_INPUTS];
    bool effect = hod__op_info[c->op].class == HOD_EFFECT;
    if (!k->recording && hod__replay_fork(k) != 0)
        goto failed;
    const char *refusal = hod__record_refusal(k, c->n, c->in, effect);
    if (refusal && hod__call_break(k, refusal, true) != 0)
        goto failed;
    for (int i = 0; i < c->n; i++)
        if ((in[i] = hod__call_value(k, c->in[i])) == HOD_NO_VALUE)
            goto failed;
    if (append_op(k, c, in, out) == 0)
        return 0;
failed:
    k->failed = true;
    return -1;
}

/* ---- accumulation ---- */

/* The external leaf of this call that `slot` belongs to. */
static int32_t slot_leaf(const hod_trace_call *k, const hod_grad_slot *slot)
{
    for (int64_t i = 0; i < k->n_bound; i++)
        if (k->bound[i].tensor->requires_grad && hod__links_slot(k->bound[i].tensor) == slot)
            return k->bound[i].value;
    return HOD_NO_VALUE;
}

/* The buffer of a slot: made like g, outside of any program's memory. */
int hod__slot_buffer(hod_grad_slot *slot, const hod_meta *meta)
{
    if (slot->sum)
        return 0;
    hod_storage *s = hod__storage_new(hod__cpu(), hod__meta_bytes(meta));
    slot->sum = hod__tensor_new(meta, s);
    hod__storage_release(s);
    slot->present = false;
    return slot->sum ? 0 : -1;
}

/* Gradients that were cleared or used after a backward of this segment go on in the next. */
static const char *accumulate_refusal(hod_trace_call *k, const hod_grad_slot *slot, hod_tensor *g)
{
    const hod_segment *s = k->segment;
    int32_t sum = hod__call_known(k, slot->sum);
    for (int64_t i = 0; i < s->n_effects; i++)
        if (s->effects[i].value == sum && s->effects[i].accumulate &&
            (!slot->present || hod__value_node_is_read(k, s, sum) ||
             hod__node(s->graph, k->live[sum].node)->op != HOD_OP_accumulate))
            return "a gradient is used or cleared between two backwards";
    return hod__record_refusal(k, 2, (hod_tensor *[]){slot->sum, g}, true);
}

static int record_accumulate(hod_trace_call *k, hod_grad_slot *slot, hod_tensor *g, int32_t leaf)
{
    hod_meta meta[2] = {hod__meta(g), hod__meta(g)}, out;
    if (hod__slot_buffer(slot, &meta[1]) != 0)
        return -1;
    meta[0] = hod__meta(slot->sum);
    int32_t in[2];
    if (hod__op_shape(HOD_OP_accumulate, NULL, 2, meta, &out) != 0)
        return -1;
    const char *refusal = accumulate_refusal(k, slot, g);
    if ((refusal && hod__call_break(k, refusal, true) != 0) ||
        (in[1] = hod__call_value(k, g)) == HOD_NO_VALUE ||
        (in[0] = hod__call_value(k, slot->sum)) == HOD_NO_VALUE)
        return -1;
    hod_segment *s = k->segment, *maker = hod__segment_of(s, in[0]);
    hod_external *sum = &maker->externals[maker->values[in[0] - maker->first].external];
    sum->leaf = leaf;
    sum->role = HOD_INPUT_GRADIENT;
    hod_tensor_release(sum->pin);
    sum->pin = NULL;
    hod_entry *e = hod__segment_entry(s, HOD_ENTRY_ACCUMULATE, 2, in, NULL, 0);
    if (!e || hod__graph_step(k, s, s->n - 1) != 0 || note_effect(k, in[0], true) != 0)
        return -1;
    return s->effects[s->n_effects - 1].first ? hod__call_use_slot(k, slot) : 0;
}

int hod__hook_accumulate(hod_grad_slot *slot, hod_tensor *g)
{
    hod_trace_call *k = hod__call_current();
    if (k->failed)
        return -1;
    int32_t leaf = slot_leaf(k, slot);
    if (leaf == HOD_NO_VALUE)
        return hod__accumulate_value(slot, g);
    if (k->recording || !hod__replay_accumulate(k, slot, g)) {
        if ((!k->recording && hod__replay_fork(k) != 0) ||
            record_accumulate(k, slot, g, leaf) != 0) {
            k->failed = true;
            return -1;
        }
    }
    slot->present = true;
    hod__bump_by(slot->sum, "accumulate");
    return 0;
}

/* ---- spans ---- */

static int record_span(hod_trace_call *k, const char *kind, uint64_t key, int32_t value)
{
    hod_segment *s = k->segment;
    int32_t parent = innermost_span(k, s);
    hod_span_record *p = hod__push(&s->spans, &s->n_spans, &s->cap_spans, sizeof *p);
    hod_open_span *o = p ? hod__push(&k->open, &k->n_open, &k->cap_open, sizeof *o) : NULL;
    hod_entry *e = o ? hod__segment_entry(s, HOD_ENTRY_SPAN, 0, NULL, NULL, 0) : NULL;
    if (!e)
        return -1;
    *p = (hod_span_record){.kind = kind,
                           .key = key,
                           .value = value,
                           .parent = parent,
                           .first_external = (int32_t)s->n_externals,
                           .first_effect = (int32_t)s->n_effects};
    e->in = (int32_t)s->n_spans - 1;
    *o = (hod_open_span){s, e->in};
    return hod__graph_step(k, s, s->n - 1);
}

int hod__hook_span_begin(const char *kind, uint64_t key, hod_tensor *t)
{
    hod_trace_call *k = hod__call_current();
    if (k->failed)
        return 0;
    if (strcmp(kind, "tape") == 0) { /* somebody is about to look at the tape */
        if (hod__call_need_tape(k) != 0)
            k->failed = true;
        return 0;
    }
    if (strcmp(kind, "clear") == 0) {
        k->segment->clears = true;
        return 0;
    }
    if (!k->recording) {
        int skipped = hod__replay_span_begin(k, kind, key, t);
        if (skipped >= 0)
            return skipped;
        if (hod__replay_fork(k) != 0) {
            k->failed = true;
            return 0;
        }
    }
    int32_t value = t ? hod__call_known(k, t) : HOD_NO_VALUE;
    if (t && value == HOD_NO_VALUE && (value = hod__call_value(k, t)) == HOD_NO_VALUE)
        k->failed = true;
    if (!k->failed && record_span(k, kind, key, value) != 0)
        k->failed = true;
    return 0;
}

static void close_span(hod_trace_call *k, hod_open_span *o, const char *kind)
{
    hod_segment *s = k->segment;
    hod_span_record *p = &o->segment->spans[o->span];
    if (o->segment != s || hod_error()) /* a break inside, or a failure that the body may survive */
        return;
    p->end = (int32_t)s->n;
    p->values = k->n_values;
    p->end_external = (int32_t)s->n_externals;
    p->end_effect = (int32_t)s->n_effects;
    p->skippable = true;
    p->consumed = strcmp(kind, "backward") == 0 && p->value != HOD_NO_VALUE &&
                  !hod__links_open(k->handles[p->value]);
}

void hod__hook_span_end(const char *kind)
{
    hod_trace_call *k = hod__call_current();
    if (k->failed || strcmp(kind, "tape") == 0)
        return;
    if (!k->recording && !hod__replay_span_end(k, kind) && hod__replay_fork(k) != 0)
        k->failed = true;
    hod_open_span *o = k->n_open > 0 ? &k->open[--k->n_open] : NULL;
    if (!k->recording || k->failed)
        return;
    hod_segment *s = k->segment;
    if (!hod__segment_entry(s, HOD_ENTRY_SPAN_END, 0, NULL, kind, strlen(kind) + 1) ||
        hod__graph_step(k, s, s->n - 1) != 0) {
        k->failed = true;
        return;
    }
    if (o)
        close_span(k, o, kind);
    if (hod_error() && hod__call_need_tape(k) != 0)
        k->failed = true;
}

/* ---- the host looks ---- */

static const char *what_was_read(hod_trace_call *k, const hod_tensor *t)
{
    int32_t v = hod__call_known(k, t);
    if (v == HOD_NO_VALUE)
        return "assign";
    hod_segment *s = hod__segment_of(k->segment, v);
    int32_t entry = s->forms[v - s->first].entry;
    return entry < 0 ? "assign" : hod__op_info[s->entries[entry].op].name;
}

int hod__hook_realise(const hod_tensor *t)
{
    hod_trace_call *k = hod__call_current();
    if (!k || (hod__call_known(k, t) == HOD_NO_VALUE && !hod__call_is_pending(k, t->storage)))
        return HOD_FAIL_RC(STATE, "read: the values of this %s tensor were never computed",
                           HOD_SHAPE_TEXT(t));
    if (k->failed)
        return -1;
    char reason[96];
    const char *custom = hod__custom_running();
    if (custom)
        snprintf(reason, sizeof reason, "value read on the host by custom operator %s", custom);
    else
        snprintf(reason, sizeof reason, "value read on the host (%s)", what_was_read(k, t));
    if (hod__call_break(k, reason, false) != 0)
        return -1;
    if (t->storage->data)
        return 0;
    k->failed = true;
    const hod_graph_break *b = &k->fn->report.last_break;
    return HOD_FAIL_RC(STATE, "%s: at %s:%d a value is %s, but the function is only prepared",
                       k->fn->name, b->file ? b->file : "?", b->line, reason + strlen("value "));
}

int hod__hook_write(hod_tensor *t)
{
    hod_trace_call *k = hod__call_current();
    if (!k || k->failed)
        return 0;
    const hod_segment *s = k->segment;
    for (int64_t i = 0; i < s->n_inputs; i++) {
        const hod_tensor *h = s->inputs[i] < k->n_values ? k->handles[s->inputs[i]] : NULL;
        if (h && h->storage == t->storage)
            return hod__call_break(k, "a tensor that was read is written on the host", false);
    }
    return 0;
}

/* ---- where recording begins ---- */

int hod__call_record(hod_trace_call *k, hod_segment *parent, int32_t first)
{
    hod_segment *s = hod__segment_new(parent, first);
    if (!s)
        return -1;
    snprintf(s->graph->name, sizeof s->graph->name, "%s", k->fn->name);
    for (int32_t v = 0; v < k->n_values; v++)
        k->live[v] = (hod_live){.node = HOD_NO_REF};
    k->backward = 0;
    for (int64_t i = 0; i < k->n_open; i++)
        k->backward += k->open[i].segment != k->segment &&
                       strcmp(k->open[i].segment->spans[k->open[i].span].kind, "backward") == 0;
    k->segment = s;
    k->recording = true;
    k->transient = k->transient || k->fn->report.traces >= k->fn->spec.max_traces;
    return 0;
}
