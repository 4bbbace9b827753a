/* Running a segment: by its program, or by the graph's slow twin.
 *
 * The twin runs where the system has no compiler, for traces beyond the limit, and everywhere with
 * HOD_COMPILE=interpret, so that tests can tell a wrong trace from a wrong program.
 */
#include "base/scope.h"
#include "compile/tape_links.h"
#include "compile/trace.h"

/* ---- arenas ---- */

int hod__arena_reserve(hod_arena *a, int64_t bytes)
{
    if (bytes <= a->bytes)
        return 0;
    if (!a->device)
        a->device = hod__cpu();
    if (a->data)
        a->device->release(a->device, a->data, a->bytes);
    a->bytes = 0;
    a->data = a->device->alloc(a->device, bytes);
    if (!a->data)
        return -1;
    a->bytes = bytes;
    return 0;
}

static void arena_clear(hod_arena *a)
{
    if (a->data)
        a->device->release(a->device, a->data, a->bytes);
    a->data = NULL;
    a->bytes = 0;
}

hod_arena *hod_arena_new(void)
{
    return hod__alloc(1, sizeof(hod_arena));
}

void hod_arena_free(hod_arena *a)
{
    if (a)
        arena_clear(a);
    free(a);
}

int hod_fn_set_arena(hod_fn *f, hod_arena *a)
{
    if (hod__null("fn_set_arena", "function", f) || hod__null("fn_set_arena", "arena", a))
        return -1;
    arena_clear(&f->own);
    f->arena = a;
    return 0;
}

int64_t hod_arena_bytes(const hod_arena *a)
{
    return a ? a->bytes : 0;
}

/* ---- building ---- */

static int make_room(hod_segment *s)
{
    hod_tensor **in = hod__grow(s->run_in, (size_t)s->n_inputs + 1, sizeof *in);
    if (in)
        s->run_in = in;
    hod_grad_slot **slots = hod__grow(s->run_slots, (size_t)s->n_inputs + 1, sizeof *slots);
    if (slots)
        s->run_slots = slots;
    void **out = hod__grow(s->run_out, (size_t)s->n_outputs + 1, sizeof *out);
    if (out)
        s->run_out = out;
    if (!in || !slots || !out)
        return -1;
    memset(slots, 0, ((size_t)s->n_inputs + 1) * sizeof *slots);
    return 0;
}

static hod_graph *graph_with_outputs(const hod_segment *s)
{
    hod_graph *g = hod__graph_copy(s->graph);
    for (int64_t i = 0; g && i < s->n_outputs; i++)
        if (hod__graph_return(g, s->outputs[i].node) != 0) {
            hod__graph_free(g);
            return NULL;
        }
    return g;
}

/* True when the program could not be built for want of a compiler, which is no error. */
static bool can_do_without(hod_fn *f)
{
    if (f->require || hod_error_kind_pending() != HOD_ERROR_COMPILE)
        return false;
    hod_error_record e;
    hod_error_take(&e);
    if (!f->warned_compiler)
        fprintf(stderr, "hod: %s runs without compiled kernels: %s\n", f->name, e.text);
    f->warned_compiler = true;
    return true;
}

static int build_program(hod_fn *f, hod_segment *s)
{
    hod_toolchain_report made = {0};
    s->program = hod__program_build(s->optimised, &made);
    if (!s->program)
        return can_do_without(f) ? 0 : -1;
    s->stats = hod__program_stats(s->program);
    f->report.kernels_compiled += made.compiled;
    f->report.kernels_cached += made.from_disk + made.from_memory;
    return 0;
}

int hod__segment_build(hod_fn *f, hod_segment *s, bool interpret)
{
    double begin = hod__seconds();
    bool erred = hod_error();
    hod__graph_free(s->optimised);
    hod__program_free(s->program);
    s->program = NULL;
    s->built = false;
    s->stats = (hod_program_stats){0};
    s->optimised = graph_with_outputs(s);
    if (!s->optimised || make_room(s) != 0)
        return -1;
    s->built = interpret || f->interpret;
    if (s->built)
        return 0;
    int rc = hod__graph_optimize(s->optimised);
    if (rc == 0)
        rc = build_program(f, s);
    if (!erred && hod_error()) /* a pass that fails keeps the graph as it was and returns no code */
        rc = -1;
    s->built = rc == 0;
    f->report.compile_seconds += hod__seconds() - begin;
    return rc;
}

/* ---- running ---- */

static hod_storage *output_storage(hod_trace_call *k, const hod_output *o)
{
    return k->handles[o->value]->storage;
}

/* Gives every output its memory: that of the last call if nobody kept it. */
static int place_outputs(hod_trace_call *k, hod_segment *s)
{
    for (int64_t i = 0; i < s->n_outputs; i++) {
        const hod_output *o = &s->outputs[i];
        hod_value *v = &s->values[o->value - s->first];
        hod_storage *storage = output_storage(k, o);
        if (!v->block)
            v->block = storage->device->alloc(storage->device, storage->bytes);
        if (!v->block)
            return -1;
        s->run_out[i] = v->block;
    }
    return 0;
}

static void place_inputs(hod_trace_call *k, hod_segment *s)
{
    for (int64_t i = 0; i < s->n_inputs; i++)
        s->run_in[i] = k->handles[s->inputs[i]];
    int64_t input = 0;
    for (int64_t i = 0; i < s->n_effects; i++) {
        const hod_effect *e = &s->effects[i];
        if (!e->accumulate || !e->first)
            continue;
        /* Sums become inputs roughly in the order of their effects. */
        for (int64_t n = s->n_inputs; n > 0 && s->inputs[input] != e->value; n--)
            input = input + 1 < s->n_inputs ? input + 1 : 0;
        hod_segment *maker = hod__segment_of(s, e->value);
        int32_t leaf = maker->externals[maker->values[e->value - maker->first].external].leaf;
        s->run_slots[input] = hod__links_slot(k->handles[leaf]);
    }
}

static int copy_out(hod_trace_call *k, const hod_output *o, hod_tensor *value, void *block)
{
    hod_storage *storage = output_storage(k, o);
    storage->data = block;
    int rc = hod__op_eval_into(HOD_OP_contiguous, &(hod_attrs){0}, 1, &value, k->handles[o->value]);
    storage->data = NULL;
    return rc;
}

static int interpret(hod_trace_call *k, hod_segment *s)
{
    HOD_SCOPE(scope);
    hod_tensor **out = hod__alloc((size_t)s->n_outputs + 1, sizeof *out);
    if (!out)
        return -1;
    int rc = hod__graph_interpret(s->optimised, s->run_in, s->run_slots, out);
    for (int64_t i = 0; rc == 0 && i < s->n_outputs; i++)
        rc = copy_out(k, &s->outputs[i], out[i], s->run_out[i]);
    free(out);
    return rc;
}

/* Versions count the changes the body asked for; those of the twin are the same ones again. */
static int interpret_quietly(hod_trace_call *k, hod_segment *s)
{
    int rc = interpret(k, s);
    hod__call_shift_versions(k, s, s->n, -1);
    return rc;
}

int hod__segment_run(hod_trace_call *k, hod_segment *s)
{
    hod_fn *f = k->fn;
    hod__call_unpend(k);
    if (s->n_outputs == 0 && s->n_effects == 0)
        return 0;
    if (place_outputs(k, s) != 0 || hod__arena_reserve(f->arena, s->stats.arena_bytes) != 0)
        return -1;
    place_inputs(k, s);
    for (int64_t i = 0; i < k->n_slots; i++) {
        k->slots[i].after = k->slots[i].slot->present;
        k->slots[i].slot->present = k->slots[i].before;
    }
    hod_recorder *recorder = hod__recorder;
    hod__recorder = NULL;
    int rc = s->program
                 ? hod__program_run(s->program, f->arena->data, s->run_in, s->run_slots, s->run_out)
                 : interpret_quietly(k, s);
    hod__recorder = recorder;
    if (rc != 0)
        return -1;
    for (int64_t i = 0; i < k->n_slots; i++)
        k->slots[i].slot->present = k->slots[i].after;
    k->n_slots = 0;
    for (int64_t i = 0; i < s->n_outputs; i++) {
        hod_value *v = &s->values[s->outputs[i].value - s->first];
        output_storage(k, &s->outputs[i])->data = s->run_out[i];
        v->block = NULL;
        v->loose = true;
    }
    return 0;
}
