/* Replaying: the fast way through a call whose trace is known.
 *
 * An operator is compared with the next entry (operator, attributes, input values) and answered
 * with the cached handle of its result: no shape rule, no tape, no allocation. Nothing is changed
 * before everything was compared, so after a mismatch another sibling can be tried at the same
 * place, and after the last one the call turns into a recording from there.
 */
#include "base/scope.h"
#include "compile/tape_links.h"
#include "compile/trace.h"

/* ---- comparing ---- */

static hod_external *external_of(hod_segment *s, int32_t v)
{
    int64_t i = v - s->first;
    return i < s->n_values && s->values[i].external >= 0 ? &s->externals[s->values[i].external]
                                                         : NULL;
}

static bool can_bind(hod_trace_call *k, const hod_external *e, const hod_tensor *t)
{
    return t->storage->data && hod__external_fits(e, t) && hod__links_open(t) == e->has_graph &&
           hod__call_known(k, t) == HOD_NO_VALUE;
}

static int bind(hod_trace_call *k, const hod_external *e, hod_tensor *t)
{
    if (t != e->last) {
        int32_t *place = hod__push(&k->shifted, &k->n_shifted, &k->cap_shifted, sizeof *place);
        if (!place)
            return -1;
        *place = e->value;
    }
    return hod__call_bind(k, e->value, t);
}

/* Compares tensors with values of which some are new externals, and binds those. */
static bool match_new(hod_trace_call *k, hod_segment *s, int n, const int32_t *in,
                      hod_tensor *const *t)
{
    hod_tensor *fresh[HOD_OP_MAX_INPUTS];
    int32_t next = k->n_values;
    for (int i = 0; i < n; i++) {
        if (in[i] < k->n_values) {
            if (k->handles[in[i]] != t[i] && hod__call_known(k, t[i]) != in[i])
                return false;
        } else if (in[i] < next) {
            if (fresh[in[i] - k->n_values] != t[i])
                return false;
        } else {
            const hod_external *e = in[i] == next ? external_of(s, next) : NULL;
            if (!e || !can_bind(k, e, t[i]))
                return false;
            for (int32_t j = 0; j < next - k->n_values; j++)
                if (fresh[j] == t[i])
                    return false;
            fresh[next++ - k->n_values] = t[i];
        }
    }
    for (int32_t first = k->n_values, v = first; v < next; v++)
        if (bind(k, external_of(s, v), fresh[v - first]) != 0) {
            k->failed = true;
            return false;
        }
    return true;
}

void hod__replay_unbind(hod_trace_call *k, int64_t n, int64_t shifted, int32_t values)
{
    while (k->n_bound > n) {
        hod_bound *b = &k->bound[--k->n_bound];
        k->handles[b->value] = NULL;
        __atomic_store_n(&b->tensor->trace_stamp, 0, __ATOMIC_RELAXED);
        hod_tensor_release(b->tensor);
    }
    k->n_shifted = shifted;
    k->n_values = values;
}

static bool is_shifted(const hod_trace_call *k, int32_t v)
{
    for (int64_t i = 0; i < k->n_shifted; i++)
        if (k->shifted[i] == v)
            return true;
    return false;
}

static bool is_read_here(const hod_segment *s, int32_t v)
{
    for (int64_t i = 0; i < s->n_inputs; i++)
        if (s->inputs[i] == v)
            return true;
    return false;
}

/* Whether the tensor changed in place shares memory with another that this segment reads. The
 * tensors of the last call were compared then, so usually only those that took another's place are
 * looked at. */
static bool is_alone(const hod_trace_call *k, const hod_segment *s, int32_t v)
{
    const hod_tensor *t = k->handles[v];
    if (k->mixed || is_shifted(k, v)) {
        for (int64_t i = 0; i < s->n_inputs; i++) {
            const hod_tensor *u = s->inputs[i] < k->n_values ? k->handles[s->inputs[i]] : NULL;
            if (u && s->inputs[i] != v && hod__overlap(u, t))
                return false;
        }
        return true;
    }
    for (int64_t i = 0; i < k->n_shifted; i++)
        if (hod__overlap(k->handles[k->shifted[i]], t) && is_read_here(s, k->shifted[i]))
            return false;
    return true;
}

static bool match_op(hod_trace_call *k, hod_segment *s, const hod_op_call *c)
{
    const hod_entry *e = &s->entries[k->cursor];
    if (k->cursor >= s->n || e->kind != HOD_ENTRY_OP || e->op != (int16_t)c->op || e->n != c->n ||
        e->grad != hod__tape_listens())
        return false;
    const void *attrs = s->attrs + (int64_t)e->attrs * 8;
    if (e->bytes && (!c->attrs || !hod__attrs_equal(hod__op_info[c->op].attrs, attrs, c->attrs)))
        return false;
    const int32_t *in = s->in + e->in;
    uint64_t wants = 0;
    bool same = true;
    for (int i = 0; i < c->n; i++) {
        wants |= (uint64_t)c->in[i]->requires_grad << i;
        same = same && k->handles[in[i]] == c->in[i];
    }
    if (wants != e->wants)
        return false;
    int64_t bound = k->n_bound, shifted = k->n_shifted;
    int32_t values = k->n_values;
    if (!same && !match_new(k, s, c->n, in, c->in))
        return false;
    if (e->op != HOD_OP_assign || !hod__value_is_input(s, in[0]) || is_alone(k, s, in[0]))
        return true;
    hod__replay_unbind(k, bound, shifted, values);
    return false;
}

static hod_grad_slot *effect_slot(hod_trace_call *k, const hod_effect *e)
{
    hod_segment *maker = hod__segment_of(k->segment, e->value);
    const hod_external *sum = &maker->externals[maker->values[e->value - maker->first].external];
    return hod__links_slot(k->handles[sum->leaf]);
}

static bool can_accumulate(const hod_effect *e, const hod_grad_slot *slot)
{
    return slot && (e->first || slot->present);
}

/* ---- the beginning ---- */

bool hod__replay_begin(hod_trace_call *k, hod_segment *s, const int32_t *pattern,
                       hod_tensor *const *in)
{
    int n = k->fn->spec.inputs;
    if (memcmp(s->pattern, pattern, ((size_t)n + 1) * sizeof *pattern) != 0)
        return false;
    for (int i = 0; i < n; i++) {
        const hod_external *e = external_of(s, pattern[i]);
        if (!hod__external_fits(e, in[i]) || hod__links_open(in[i]) != e->has_graph)
            return false;
    }
    if (hod__call_reserve(k, s->n_values) != 0)
        return false;
    k->segment = s;
    for (int i = 0; i < n; i++)
        if (pattern[i] == k->n_values && bind(k, external_of(s, pattern[i]), in[i]) != 0)
            k->failed = true;
    return true;
}

/* ---- answering ---- */

static hod_tensor *answer_effect(hod_trace_call *k, hod_segment *s, const hod_entry *e,
                                 const hod_op_call *c)
{
    int32_t dst = s->in[e->in];
    if (hod__value_is_input(s, dst) && hod__call_pend(k, c->in[0]->storage) != 0)
        k->failed = true;
    return c->in[0];
}

static hod_tensor *answer(hod_trace_call *k, hod_segment *s, const hod_op_call *c)
{
    const hod_entry *e = &s->entries[k->cursor];
    hod_tensor *h = e->out == HOD_NO_VALUE
                        ? answer_effect(k, s, e, c)
                        : hod__replay_handle(k, s, e->out, c->n > 0 ? c->in[0] : NULL);
    if (!h) {
        k->failed = true;
        return NULL;
    }
    k->cursor++;
    if (k->taping && e->grad && e->wants && !(hod__op_info[e->op].flags & HOD_OPF_NODIFF) &&
        hod__tape->note(c, h) != 0)
        k->failed = true;
    return e->out == HOD_NO_VALUE ? h : hod__own(hod_tensor_retain(h));
}

/* ---- siblings ---- */

static hod_segment *siblings(const hod_trace_call *k)
{
    return k->segment->parent ? k->segment->parent->children : k->fn->roots;
}

/* Goes on in another segment that begins as this one did. */
static int switch_to(hod_trace_call *k, hod_segment *s)
{
    hod__segment_swap_handles(s, k->segment, k->n_values);
    for (int64_t i = 0; i < k->n_open; i++)
        if (k->open[i].segment == k->segment)
            k->open[i].segment = s;
    for (int32_t v = s->first; v < k->n_values; v++) {
        hod_value *value = &s->values[v - s->first];
        if (value->handle)
            value->loose = true;
    }
    k->segment = s;
    k->mixed = true;
    return s->tape && !k->taping ? hod__call_need_tape(k) : 0;
}

/* A sibling may know fewer values than handles has room for, never more than was reserved. */
static bool takes_part(const hod_trace_call *k, const hod_segment *s)
{
    return s != k->segment && hod__segment_same_prefix(k->segment, s, k->cursor, k->n_values);
}

static bool next_is_op(const hod_segment *s, int64_t cursor, const hod_op_call *c)
{
    return cursor < s->n && s->entries[cursor].kind == HOD_ENTRY_OP &&
           s->entries[cursor].op == (int16_t)c->op;
}

/* Where the recording had to break before the next operator, this call breaks, too. */
static bool follow_forced_break(hod_trace_call *k)
{
    hod_segment *s = k->segment;
    if (!hod__replay_end(k, true, true))
        return false;
    s = k->segment;
    if (hod__call_break(k, s->why.reason, true) != 0)
        return false;
    k->fn->report.last_break = s->why;
    return true;
}

/* assign(x[1:], x[:-1]): the source is read out completely first, by a program of its own. */
static hod_tensor *untangle(hod_trace_call *k, const hod_op_call *c)
{
    hod_tensor *copy = hod__op(HOD_OP_contiguous, &(hod_attrs){0}, 1, &c->in[1]);
    if (!copy || hod__call_break(k, "a tensor is assigned to a part of itself", false) != 0)
        return NULL;
    return hod__op(HOD_OP_assign, c->attrs, 2, (hod_tensor *[]){c->in[0], copy});
}

static bool is_tangled(const hod_op_call *c)
{
    return c->op == HOD_OP_assign && hod__overlap(c->in[0], c->in[1]) &&
           !hod__same_view(c->in[0], c->in[1]);
}

static hod_tensor *find_answer(hod_trace_call *k, const hod_op_call *c)
{
    if (match_op(k, k->segment, c))
        return answer(k, k->segment, c);
    for (hod_segment *s = siblings(k); s && !k->failed; s = s->sibling) {
        if (!next_is_op(s, k->cursor, c) || !takes_part(k, s) ||
            hod__call_reserve(k, s->n_values) != 0 || !match_op(k, s, c))
            continue;
        if (switch_to(k, s) == 0)
            return answer(k, s, c);
        k->failed = true;
    }
    return NULL;
}

hod_tensor *hod__replay_op(hod_recorder *r, const hod_op_call *c)
{
    hod_trace_call *k = (hod_trace_call *)r;
    if (k->failed)
        return NULL;
    if (is_tangled(c))
        return untangle(k, c);
    while (!k->recording && !k->failed) {
        hod_tensor *t = find_answer(k, c);
        if (t || !follow_forced_break(k))
            return t; /* NULL: the shape rule may refuse it; else it comes back through `note` */
    }
    return NULL;
}

static bool ends_so(const hod_segment *s, int64_t cursor, bool broken, bool forced)
{
    return s->n == cursor && s->broken == broken && s->forced == forced;
}

bool hod__replay_end(hod_trace_call *k, bool broken, bool forced)
{
    if (ends_so(k->segment, k->cursor, broken, forced))
        return true;
    for (hod_segment *s = siblings(k); s; s = s->sibling)
        if (ends_so(s, k->cursor, broken, forced) && takes_part(k, s)) {
            if (switch_to(k, s) != 0)
                k->failed = true;
            return true;
        }
    return false;
}

int hod__replay_fork(hod_trace_call *k)
{
    hod_segment *from = k->segment;
    if (hod__call_record(k, from->parent, from->first) != 0)
        return -1;
    hod_segment *s = k->segment;
    if (hod__segment_copy_prefix(s, from, k->cursor, k->n_values) != 0)
        return -1;
    for (int64_t i = 0; i < s->n_values; i++)
        s->values[i].loose = true;
    for (int64_t i = 0; i < k->n_open; i++)
        if (k->open[i].segment == from)
            k->open[i].segment = s;
    for (int64_t i = 0; i < k->cursor; i++)
        if (hod__graph_step(k, s, i) != 0)
            return -1;
    return k->taping ? 0 : hod__call_relink(k);
}

/* ---- accumulation, spans ---- */

static const hod_effect *effect_at(const hod_segment *s, int64_t entry)
{
    for (int64_t i = 0; i < s->n_effects; i++)
        if (s->effects[i].entry == entry)
            return &s->effects[i];
    return NULL;
}

static bool match_accumulate(hod_trace_call *k, hod_segment *s, hod_grad_slot *slot, hod_tensor *g)
{
    const hod_entry *e = &s->entries[k->cursor];
    if (k->cursor >= s->n || e->kind != HOD_ENTRY_ACCUMULATE)
        return false;
    int32_t in[2] = {s->in[e->in + 1], s->in[e->in]}; /* in the order they were first read */
    const hod_effect *effect = effect_at(s, k->cursor);
    hod_segment *maker = hod__segment_of(s, in[1]);
    const hod_external *sum = &maker->externals[maker->values[in[1] - maker->first].external];
    if (hod__links_slot(k->handles[sum->leaf]) != slot || !can_accumulate(effect, slot) ||
        hod__slot_buffer(slot, &sum->meta) != 0 ||
        !match_new(k, s, 2, in, (hod_tensor *[]){g, slot->sum}) || !is_alone(k, s, in[1]))
        return false;
    if (hod__call_pend(k, slot->sum->storage) != 0 ||
        (effect->first && hod__call_use_slot(k, slot) != 0))
        k->failed = true;
    return true;
}

static bool find_accumulate(hod_trace_call *k, hod_grad_slot *slot, hod_tensor *g)
{
    bool found = match_accumulate(k, k->segment, slot, g);
    for (hod_segment *s = siblings(k); s && !found && !k->failed; s = s->sibling) {
        found = takes_part(k, s) && hod__call_reserve(k, s->n_values) == 0 &&
                match_accumulate(k, s, slot, g);
        if (found && switch_to(k, s) != 0)
            k->failed = true;
    }
    k->cursor += found;
    return found;
}

bool hod__replay_accumulate(hod_trace_call *k, hod_grad_slot *slot, hod_tensor *g)
{
    while (!k->recording && !k->failed) {
        if (find_accumulate(k, slot, g))
            return true;
        if (!follow_forced_break(k))
            break;
    }
    return false;
}

/* What stands for external e without its operators being seen. */
static hod_tensor *unseen(hod_trace_call *k, hod_segment *s, const hod_external *e)
{
    if (e->leaf == HOD_NO_VALUE)
        return e->pin ? e->pin : e->hold;
    hod_tensor *leaf = k->handles[e->leaf];
    if (!leaf && external_of(s, e->leaf))
        leaf = external_of(s, e->leaf)->pin;
    hod_grad_slot *slot = hod__links_slot(leaf);
    return slot && hod__slot_buffer(slot, &e->meta) == 0 ? slot->sum : NULL;
}

static bool bind_unseen(hod_trace_call *k, hod_segment *s, const hod_span_record *p)
{
    for (int32_t i = p->first_external; i < p->end_external; i++) {
        const hod_external *e = &s->externals[i];
        hod_tensor *t = unseen(k, s, e);
        if (!t || !can_bind(k, e, t) || bind(k, e, t) != 0)
            return false;
    }
    for (int32_t i = p->first_effect; i < p->end_effect; i++) {
        const hod_effect *e = &s->effects[i];
        if (!is_alone(k, s, e->value) || (e->accumulate && !can_accumulate(e, effect_slot(k, e))))
            return false;
    }
    return true;
}

bool hod__replay_stretch(hod_trace_call *k, hod_segment *s, const hod_span_record *p)
{
    int64_t bound = k->n_bound, shifted = k->n_shifted;
    int32_t values = k->n_values;
    if (!bind_unseen(k, s, p)) {
        hod__replay_unbind(k, bound, shifted, values);
        return false;
    }
    for (int32_t i = p->first_effect; i < p->end_effect; i++) {
        const hod_effect *e = &s->effects[i];
        hod_tensor *t = k->handles[e->value];
        if (hod__call_pend(k, t->storage) != 0)
            k->failed = true;
        if (e->accumulate) {
            hod_grad_slot *slot = effect_slot(k, e);
            if (e->first && hod__call_use_slot(k, slot) != 0)
                k->failed = true;
            slot->present = true;
        }
        hod__bump_by(t, e->accumulate ? "accumulate" : "a compiled function");
    }
    k->n_values = p->values;
    return true;
}

/* Binds t where the span is its first occurrence. */
static bool match_span(hod_trace_call *k, hod_segment *s, const char *kind, uint64_t key,
                       hod_tensor *t)
{
    if (k->cursor >= s->n || s->entries[k->cursor].kind != HOD_ENTRY_SPAN)
        return false;
    const hod_span_record *p = &s->spans[s->entries[k->cursor].in];
    if (p->key != key || strcmp(p->kind, kind) != 0 || (t != NULL) != (p->value != HOD_NO_VALUE))
        return false;
    return !t || match_new(k, s, 1, &p->value, &t);
}

static int enter_span(hod_trace_call *k)
{
    hod_segment *s = k->segment;
    int32_t span = s->entries[k->cursor].in;
    const hod_span_record *p = &s->spans[span];
    if (p->skippable && !k->taping && !k->checking) {
        if (!hod__replay_stretch(k, s, p))
            return -1;
        k->cursor = p->end;
        return 1;
    }
    hod_open_span *o = hod__push(&k->open, &k->n_open, &k->cap_open, sizeof *o);
    if (!o)
        return -1;
    *o = (hod_open_span){s, span};
    k->cursor++;
    return 0;
}

static int find_span(hod_trace_call *k, const char *kind, uint64_t key, hod_tensor *t)
{
    int64_t bound = k->n_bound, shifted = k->n_shifted;
    int32_t values = k->n_values;
    int found = -1;
    if (match_span(k, k->segment, kind, key, t)) {
        found = enter_span(k);
    } else {
        for (hod_segment *s = siblings(k); s; s = s->sibling)
            if (takes_part(k, s) && hod__call_reserve(k, s->n_values) == 0 &&
                match_span(k, s, kind, key, t)) {
                found = switch_to(k, s) != 0 ? -1 : enter_span(k);
                break;
            }
    }
    if (found < 0)
        hod__replay_unbind(k, bound, shifted, values);
    return found;
}

int hod__replay_span_begin(hod_trace_call *k, const char *kind, uint64_t key, hod_tensor *t)
{
    int found = -1;
    while (found < 0 && !k->recording && !k->failed) {
        found = find_span(k, kind, key, t);
        if (found < 0 && !follow_forced_break(k))
            break;
    }
    return found;
}

bool hod__replay_span_end(hod_trace_call *k, const char *kind)
{
    const hod_segment *s = k->segment;
    if (k->cursor >= s->n || s->entries[k->cursor].kind != HOD_ENTRY_SPAN_END ||
        strcmp(s->attrs + (int64_t)s->entries[k->cursor].attrs * 8, kind) != 0)
        return false;
    k->cursor++;
    return true;
}
