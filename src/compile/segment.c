/* The end of a segment: which values the outside can see, and what follows.
 *
 * A value is an output when somebody beyond the trace holds it: `out`, the body's own variables,
 * the tape. Counting tells: a cached handle has one reference of its own, a storage one for each
 * cached handle on it. At a graph break the body is still running and every reference counts, so
 * outputs are a safe superset; at the end its scope is gone and they are exact.
 *
 * A replay may find more values held than the recording did (a caller keeps an activation this
 * time): then the program is built again with those outputs too.
 */
#include "compile/tape_links.h"
#include "compile/trace.h"

enum { HELD = INT32_MIN }; /* in scratch: somebody holds the value */

static int references(atomic_int *refs)
{
    return atomic_load_explicit(refs, memory_order_acquire);
}

/* Results computed in this segment and made in this call. */
static inline bool is_computed(const hod_trace_call *k, const hod_segment *s, int64_t i)
{
    return s->values[i].computed && k->handles[s->first + i];
}

/* scratch[i] = HELD for every result i, not a view, whose memory somebody may look at. */
static void mark_held(hod_trace_call *k, const hod_segment *s)
{
    int32_t *held = k->scratch;
    int64_t n = k->n_values - s->first < s->n_values ? k->n_values - s->first : s->n_values;
    for (int64_t i = 0; i < n; i++) {
        held[i] = 0;
        if (!is_computed(k, s, i))
            continue;
        int64_t base = s->values[i].base - s->first;
        hod_tensor *h = k->handles[s->first + i], *b = k->handles[s->values[i].base];
        if (held[base] != HELD)
            held[base] += b && h->storage == b->storage;
        if (references(&h->refs) != 1)
            held[base] = HELD;
    }
    for (int64_t i = 0; i < n; i++)
        if (is_computed(k, s, i) && !s->values[i].view && held[i] != HELD &&
            references(&k->handles[s->first + i]->storage->refs) != held[i])
            held[i] = HELD;
}

void hod__segment_drop_links(hod_segment *s)
{
    for (int64_t i = s->n_values; i-- > 0;) {
        hod_tensor *h = s->values[i].handle;
        if (h && h->autograd && references(&h->refs) == 1)
            hod__links_drop(h);
    }
}

/* ---- finishing a recording ---- */

/* Gradient sums first read inside a span belong to leaves: bind them through the leaf. */
static void find_leaves(hod_trace_call *k, hod_segment *s)
{
    for (int64_t i = 0; i < s->n_externals; i++) {
        hod_external *e = &s->externals[i];
        if (!e->pinned || e->leaf != HOD_NO_VALUE)
            continue;
        for (int64_t j = 0; j < k->n_bound && e->leaf == HOD_NO_VALUE; j++) {
            const hod_grad_slot *slot = hod__links_slot(k->bound[j].tensor);
            if (slot && slot->sum == e->pin)
                e->leaf = k->bound[j].value;
        }
        if (e->leaf == HOD_NO_VALUE)
            continue;
        hod_tensor_release(e->pin);
        e->pin = NULL;
    }
}

/* Spans whose results are still held do more than their effects: they cannot be skipped. */
static bool unskip_held(hod_trace_call *k, hod_segment *s)
{
    bool any = false;
    for (int64_t i = 0; i < s->n_values; i++) {
        if (!is_computed(k, s, i) || k->scratch[s->values[i].base - s->first] != HELD)
            continue;
        for (int32_t p = s->forms[i].span; p >= 0; p = s->spans[p].parent) {
            any = any || s->spans[p].skippable;
            s->spans[p].skippable = false;
        }
    }
    return any;
}

/* True when a value that is held has a history backward could go through. */
static bool history_held(hod_trace_call *k)
{
    for (int32_t v = 0; v < k->n_values; v++) {
        const hod_segment *s = hod__segment_of(k->segment, v);
        if (s->values[v - s->first].external < 0 && k->handles[v] && hod__links_open(k->handles[v]))
            return true;
    }
    return false;
}

static int add_output(hod_segment *s, int64_t i)
{
    hod_output *o = hod__push(&s->outputs, &s->n_outputs, &s->cap_outputs, sizeof *o);
    if (!o)
        return -1;
    *o = (hod_output){s->first + (int32_t)i, s->forms[i].node};
    s->values[i].output = true;
    return 0;
}

/* Handles inside skipped spans are never handed out again. */
static void forget_spans(hod_segment *s)
{
    for (int64_t i = 0; i < s->n_values; i++) {
        int32_t p = s->forms[i].span;
        while (p >= 0 && !s->spans[p].skippable)
            p = s->spans[p].parent;
        if (p < 0 || s->values[i].external >= 0)
            continue;
        hod_tensor_release(s->values[i].handle);
        s->values[i].handle = NULL;
    }
}

static void link_segment(hod_trace_call *k, hod_segment *s)
{
    hod_fn *f = k->fn;
    hod_segment **list = s->parent ? &s->parent->children : &f->roots;
    s->sibling = *list;
    *list = s;
    if (s->broken)
        return;
    f->report.recompiles += f->report.traces > 0 && !k->preparing;
    f->report.traces++;
}

static void warn_traces(hod_fn *f)
{
    if (!f->warned_traces)
        fprintf(stderr, "hod: %s: %d traces are known already; what matches none runs eagerly\n",
                f->name, f->report.traces);
    f->warned_traces = true;
}

static int finish_recording(hod_trace_call *k, hod_segment *s, bool broken, bool forced)
{
    s->broken = broken;
    s->forced = forced;
    s->why = k->fn->report.last_break;
    hod__segment_drop_links(s);
    find_leaves(k, s);
    mark_held(k, s);
    if ((unskip_held(k, s) || (!broken && history_held(k))) && hod__call_need_tape(k) != 0)
        return -1;
    for (int64_t i = 0; i < s->n_values; i++)
        if (is_computed(k, s, i) && !s->values[i].view) {
            s->forms[i].node = k->live[s->first + i].node;
            if (k->scratch[i] == HELD && add_output(s, i) != 0)
                return -1;
        }
    if (k->transient)
        warn_traces(k->fn);
    if (hod__segment_build(k->fn, s, k->transient) != 0)
        return -1;
    if (!k->transient)
        link_segment(k, s);
    return 0;
}

/* A replay: values that nobody held before become outputs, too. */
static int widen_outputs(hod_trace_call *k, hod_segment *s)
{
    bool wider = false;
    mark_held(k, s);
    for (int64_t i = 0; i < s->n_values; i++)
        if (k->scratch[i] == HELD && !s->values[i].output && is_computed(k, s, i) &&
            !s->values[i].view) {
            if (add_output(s, i) != 0)
                return -1;
            wider = true;
        }
    return wider || !s->built ? hod__segment_build(k->fn, s, false) : 0;
}

/* ---- going on ---- */

static int begin_next(hod_trace_call *k)
{
    hod_segment *s = k->segment, *next = s->recent ? s->recent : s->children;
    if (k->recording)
        return hod__call_record(k, s, k->n_values);
    if (!next) /* the call that recorded s failed behind it */
        return k->taping || hod__call_relink(k) == 0 ? hod__call_record(k, s, k->n_values) : -1;
    k->segment = next;
    k->cursor = 0;
    k->mixed = true;
    if (hod__call_reserve(k, next->n_values) != 0)
        return -1;
    return next->tape && !k->taping ? hod__call_need_tape(k) : 0;
}

int hod__call_end_segment(hod_trace_call *k, bool broken, bool forced)
{
    if (!k->recording && !hod__replay_end(k, broken, forced) && hod__replay_fork(k) != 0)
        return -1;
    hod_segment *s = k->segment;
    if (k->failed ||
        (k->recording ? finish_recording(k, s, broken, forced) : widen_outputs(k, s)) != 0)
        return -1;
    if (k->preparing)
        hod__call_unpend(k);
    else if (hod__segment_run(k, s) != 0)
        return -1;
    return broken ? begin_next(k) : 0;
}

int hod__call_break(hod_trace_call *k, const char *reason, bool forced)
{
    hod_fn *f = k->fn;
    hod_graph_break *b = &f->report.last_break;
    hod__place(&b->file, &b->line);
    if (reason != b->reason)
        snprintf(b->reason, sizeof b->reason, "%s", reason);
    f->report.graph_breaks++;
    if (f->spec.fullgraph)
        HOD_FAIL(COMPILE, "%s: graph break at %s:%d: %s", f->name, b->file ? b->file : "?", b->line,
                 reason);
    /* A span with a break inside has no end in its segment and runs every time. */
    if (f->spec.fullgraph || (k->n_open > 0 && hod__call_need_tape(k) != 0) ||
        hod__call_end_segment(k, true, forced) != 0) {
        k->failed = true;
        return -1;
    }
    return 0;
}

/* ---- after the call ---- */

/* A view of a tensor from outside must not keep that tensor's memory until the next call. */
static void let_go(hod_fn *f, hod_value *v)
{
    if (references(&v->handle->refs) != 1) {
        hod_tensor_release(v->handle);
        v->handle = NULL;
        return;
    }
    hod__links_drop(v->handle);
    hod__storage_retain(f->nothing);
    hod__storage_release(v->handle->storage);
    v->handle->storage = f->nothing;
}

static void settle_segment(hod_trace_call *k, hod_segment *s)
{
    hod__segment_drop_links(s);
    mark_held(k, s);
    for (int64_t i = 0; i < s->n_values; i++) {
        hod_value *v = &s->values[i];
        hod_tensor *h = s->first + i < k->n_values ? k->handles[s->first + i] : NULL;
        if (!h || !v->handle || v->external >= 0)
            continue;
        if (!is_computed(k, s, i)) {
            let_go(k->fn, v);
            continue;
        }
        v->loose = k->scratch[v->base - s->first] == HELD || h->storage->data;
        /* Its history was used up inside: for the outside it is a plain value. */
        if (v->requires_grad && !s->tape && references(&h->refs) != 1)
            hod__links_drop(h);
    }
    if (k->recording && !s->tape)
        forget_spans(s);
}

static void release_externals(hod_trace_call *k)
{
    for (int64_t i = 0; i < k->n_bound; i++)
        hod_tensor_release(k->bound[i].tensor);
    if (k->n_values)
        memset(k->handles, 0, (size_t)k->n_values * sizeof *k->handles);
    k->n_bound = k->n_values = 0;
}

static void free_transient(hod_trace_call *k)
{
    while (k->segment && k->transient && k->recording) {
        hod_segment *parent = k->segment->parent;
        bool linked = false;
        for (hod_segment *c = parent ? parent->children : k->fn->roots; c; c = c->sibling)
            linked = linked || c == k->segment;
        if (linked)
            break;
        hod__segment_free(k->segment);
        k->segment = parent;
    }
}

void hod__call_settle(hod_trace_call *k)
{
    hod_fn *f = k->fn;
    for (hod_segment *s = k->segment; s; s = s->parent) {
        settle_segment(k, s);
        for (int64_t i = 0; i < s->n_externals; i++)
            s->externals[i].last = k->handles[s->externals[i].value];
    }
    free_transient(k);
    for (hod_segment *s = k->segment; s; s = s->parent)
        *(s->parent ? &s->parent->recent : &f->recent) = s;
    if (!k->transient)
        f->last = k->segment;
    release_externals(k);
}

void hod__call_undo(hod_trace_call *k)
{
    while (k->n_slots > 0) {
        k->n_slots--;
        k->slots[k->n_slots].slot->present = k->slots[k->n_slots].before;
    }
    if (!k->preparing)
        return;
    for (hod_segment *s = k->segment; s; s = s->parent)
        hod__call_shift_versions(k, s, k->recording || s != k->segment ? s->n : k->cursor, -1);
}

void hod__call_abandon(hod_trace_call *k)
{
    hod__call_unpend(k);
    hod__call_undo(k);
    hod_segment *unfinished = k->recording ? k->segment : NULL;
    if (unfinished) {
        const hod_segment *list = unfinished->parent ? unfinished->parent->children : k->fn->roots;
        for (; list; list = list->sibling)
            if (list == unfinished)
                unfinished = NULL;
    }
    for (hod_segment *s = k->segment; s; s = s->parent)
        settle_segment(k, s);
    if (unfinished) {
        k->segment = unfinished->parent;
        hod__segment_free(unfinished);
    }
    free_transient(k);
    release_externals(k);
}
