/* Static mode: the caller promises that the body does the same every time, so it is not called.
 *
 * After one call whose trace is a single segment without a tape and that marked no gradient absent
 * (a change on the host, of which no trace knows), a call with inputs of the same kind binds its
 * inputs, takes every other external from that call, does the effects and runs the program: what a
 * skipped span does, for the whole body. Everything the trace guards about inputs and gradients is
 * still checked; what is not checked is the promise, and HOD_CHECK_STATIC=1 does that.
 */
#include "compile/tape_links.h"
#include "compile/trace.h"

int hod__static_note(hod_trace_call *k, hod_tensor *const *out)
{
    hod_segment *s = k->segment;
    hod_fn *f = k->fn;
    if (s->parent || s->tape || s->clears || k->transient)
        return 0;
    if (!s->returns)
        s->returns = hod__alloc((size_t)f->spec.outputs + 1, sizeof *s->returns);
    if (!s->returns)
        return -1;
    for (int i = 0; i < f->spec.outputs; i++)
        s->returns[i] = hod__call_known(k, out[i]);
    for (int64_t i = 0; i < s->n_externals; i++) {
        hod_external *e = &s->externals[i];
        hod_tensor_release(e->hold);
        bool is_input = false;
        for (int j = 0; j < f->spec.inputs; j++)
            is_input = is_input || s->pattern[j] == e->value;
        e->hold =
            is_input || e->leaf != HOD_NO_VALUE ? NULL : hod_tensor_retain(k->handles[e->value]);
    }
    return 0;
}

static bool inputs_fit(const hod_fn *f, const hod_segment *s, hod_tensor *const *in)
{
    if (!s->returns ||
        memcmp(s->pattern, f->pattern, (size_t)f->spec.inputs * sizeof(int32_t)) != 0)
        return false;
    for (int i = 0; i < f->spec.inputs; i++)
        if (!hod__external_fits(&s->externals[s->values[s->pattern[i]].external], in[i]))
            return false;
    for (int i = 0; i < f->spec.outputs; i++)
        if (s->returns[i] == HOD_NO_VALUE)
            return false;
    return true;
}

hod_segment *hod__static_find(hod_fn *f, hod_tensor *const *in)
{
    for (hod_segment *s = f->roots; s; s = s->sibling)
        if (!s->broken && !s->tape && !s->clears && inputs_fit(f, s, in))
            return s;
    return NULL;
}

/* The handle of value v, made as its operator would have. */
static hod_tensor *handle_of(hod_trace_call *k, hod_segment *s, int32_t v)
{
    if (k->handles[v])
        return k->handles[v];
    const hod_entry *e = &s->entries[s->forms[v].entry];
    hod_tensor *in0 = NULL;
    if (s->values[v].view && !(in0 = handle_of(k, s, s->in[e->in])))
        return NULL;
    return hod__replay_handle(k, s, v, in0);
}

int hod__static_run(hod_trace_call *k, hod_segment *s, hod_tensor *const *in, hod_tensor **out)
{
    int n = k->fn->spec.outputs, inputs = 0;
    if (!hod__replay_begin(k, s, k->fn->pattern, in))
        return 0;
    inputs = k->n_values; /* the externals that come first */
    hod_span_record all = {.values = (int32_t)s->n_values,
                           .first_external = inputs,
                           .end_external = (int32_t)s->n_externals,
                           .end_effect = (int32_t)s->n_effects};
    if (!hod__replay_stretch(k, s, &all))
        return k->failed ? -1 : 0;
    k->cursor = s->n;
    bool made = true;
    for (int64_t i = 0; i < s->n_outputs; i++)
        made = made && handle_of(k, s, s->outputs[i].value);
    for (int i = 0; i < n; i++)
        made = made && (out[i] = handle_of(k, s, s->returns[i]));
    k->n_values = (int32_t)s->n_values;
    if (!made)
        return -1;
    for (int i = 0; i < n; i++)
        hod_tensor_retain(out[i]);
    if (hod__call_end_segment(k, false, false) == 0)
        return 1;
    for (int i = 0; i < n; i++)
        hod_tensor_release(out[i]);
    return -1;
}

int hod__static_check(hod_trace_call *k, const hod_segment *s)
{
    const hod_fn *f = k->fn;
    if (k->segment != s || k->cursor != s->n)
        return HOD_FAIL_RC(STATE, "%s: not static: this call took another way than the one before",
                           f->name);
    for (int64_t i = 0; i < s->n_externals; i++) {
        const hod_external *e = &s->externals[i];
        if (e->hold && e->hold != k->handles[e->value])
            return HOD_FAIL_RC(STATE,
                               "%s: not static: it reads another tensor %s than the call "
                               "before",
                               f->name, HOD_SHAPE_TEXT(e->hold));
    }
    return 0;
}
