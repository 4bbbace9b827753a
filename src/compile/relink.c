/* The tape of a replay: built along when a trace needs it, rebuilt when it turns out to be needed.
 *
 * A matching replay computes no gradient step by step, so nothing is linked. Two things need links
 * after all: recording that goes on where a replay stopped matching, and somebody who looks at the
 * tape (grad_of, hooks, a result that is differentiated outside). Then every operator so far is
 * noted again, in order, as if the tape had listened.
 */
#include "compile/tape_links.h"
#include "compile/trace.h"

/* Versions count in-place changes; a rebuilt link must save the one its value had then. */
void hod__call_shift_versions(hod_trace_call *k, hod_segment *s, int64_t entries, int by)
{
    for (int64_t i = 0; i < s->n_effects && s->effects[i].entry < entries; i++)
        k->handles[s->effects[i].value]->storage->version += (uint32_t)by;
}

static int relink_op(hod_trace_call *k, hod_segment *s, const hod_entry *e)
{
    hod_tensor *in[HOD_OP_MAX_INPUTS];
    hod_attrs attrs;
    if (!e->grad || !e->wants || (hod__op_info[e->op].flags & HOD_OPF_NODIFF))
        return 0;
    for (int i = 0; i < e->n; i++)
        in[i] = k->handles[s->in[e->in + i]];
    hod__entry_attrs(s, e, &attrs);
    hod_op_call c = {(hod_op)e->op, &attrs, e->n, in};
    return hod__links_note(&c, e->out == HOD_NO_VALUE ? in[0] : k->handles[e->out]);
}

static void restore_versions(hod_trace_call *k, hod_segment *s, int64_t *effect, int64_t entry)
{
    for (; *effect < s->n_effects && s->effects[*effect].entry <= entry; ++*effect)
        k->handles[s->effects[*effect].value]->storage->version++;
}

static int relink(hod_trace_call *k, hod_segment *s, int64_t entries)
{
    int rc = 0;
    int64_t effect = 0;
    for (int64_t i = 0; rc == 0 && i < entries; i++) {
        const hod_entry *e = &s->entries[i];
        const hod_span_record *p = e->kind == HOD_ENTRY_SPAN ? &s->spans[e->in] : NULL;
        if (p && p->skippable && p->end <= entries) {
            if (p->consumed)
                hod__links_consume(k->handles[p->value]);
            i = p->end - 1;
        } else if (e->kind == HOD_ENTRY_OP) {
            rc = relink_op(k, s, e);
        }
        restore_versions(k, s, &effect, i);
    }
    restore_versions(k, s, &effect, entries - 1);
    return rc;
}

static int relink_path(hod_trace_call *k, hod_segment *s, int64_t entries)
{
    if (!s)
        return 0;
    return relink_path(k, s->parent, s->parent ? s->parent->n : 0) == 0 ? relink(k, s, entries)
                                                                        : -1;
}

int hod__call_relink(hod_trace_call *k)
{
    hod__call_shift_versions(k, k->segment, k->cursor, -1);
    for (hod_segment *s = k->segment->parent; s; s = s->parent)
        hod__call_shift_versions(k, s, s->n, -1);
    return relink_path(k, k->segment, k->cursor);
}

int hod__call_need_tape(hod_trace_call *k)
{
    for (hod_segment *s = k->segment; s; s = s->parent)
        s->tape = true;
    if (k->recording || k->taping)
        return 0;
    k->taping = true;
    return hod__call_relink(k);
}
