/* Events: the same JSON lines go to standard output, with --json, and to the run's log. */
#include "cli.h"

int cli_event_write(const cli_events *e, const char *name, const hod_field *fields)
{
    if (e->log && hod_event_write(e->log, name, fields) != 0)
        return -1;
    return e->json ? hod_event_write(e->json, name, fields) : 0;
}

int cli_event_plan(const cli_events *e, const hod_plan *plan)
{
    for (int i = 0; i < plan->n; i++) {
        const hod_plan_row *r = &plan->rows[i];
        if (cli_event(e, "plan", HOD_INT("micro_batch", r->micro_batch),
                      HOD_INT("accumulate", r->accumulate), HOD_INT("ranks", plan->ranks),
                      HOD_TEXT("recompute", plan->recompute),
                      HOD_TEXT("precision", plan->precision),
                      HOD_INT("predicted_peak_bytes", r->predicted_peak_bytes),
                      HOD_FLAG("exact", r->exact), HOD_INT("budget_bytes", plan->budget_bytes),
                      HOD_INT("persistent_bytes", plan->persistent_bytes),
                      HOD_FLAG("fits", r->fits), HOD_FLAG("chosen", r->chosen)) != 0)
            return -1;
    }
    return 0;
}

int cli_event_compile(const cli_events *e, const char *part, const hod_fn *f)
{
    hod_compile_report r = hod_fn_report(f);
    return cli_event(e, "compile", HOD_TEXT("part", part), HOD_NUMBER("seconds", r.compile_seconds),
                     HOD_FLAG("cached", r.kernels_compiled == 0), HOD_INT("kernels", r.kernels),
                     HOD_INT("library_calls", r.library_calls), HOD_INT("nodes", r.nodes),
                     HOD_INT("graph_breaks", r.graph_breaks), HOD_INT("recompiles", r.recompiles),
                     HOD_INT("specialised", r.traces), HOD_INT("arena_bytes", r.arena_bytes));
}

int cli_event_update(const cli_events *e, const hod_update *u)
{
    return cli_event(e, "update", HOD_INT("update", u->index), HOD_INT("epoch", u->epoch),
                     HOD_INT("samples", u->samples), HOD_NUMBER("weight", u->weight),
                     HOD_NUMBER("loss", u->loss), HOD_NUMBER("lr", u->lr),
                     HOD_NUMBER("grad_norm", u->grad_norm), HOD_NUMBER("scale", u->scale),
                     HOD_FLAG("skipped", u->skipped), HOD_NUMBER("seconds", u->seconds),
                     HOD_NUMBER("samples_per_s", u->samples_per_s),
                     HOD_INT("peak_bytes", u->peak_bytes));
}

int cli_event_eval(const cli_events *e, int64_t update, int64_t epoch, const char *split,
                   const hod_evaluation *v)
{
    bool known = update >= 0;
    return cli_event(
        e, "eval",
        known ? (hod_field)HOD_INT("update", update) : (hod_field)HOD_TEXT("update", NULL),
        known ? (hod_field)HOD_INT("epoch", epoch) : (hod_field)HOD_TEXT("epoch", NULL),
        HOD_TEXT("split", split), HOD_NUMBER("loss", v->loss), HOD_NUMBER("accuracy", v->metric),
        HOD_INT("samples", v->samples), HOD_NUMBER("seconds", v->seconds));
}
