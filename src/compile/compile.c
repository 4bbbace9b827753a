/* Compiled functions: the public face, and the course of one call.
 *
 *     scope begins, inputs become values 0, 1, ...
 *     body runs; the recorder replays a trace or records one
 *     scope ends: what is still held now is held by somebody outside
 *     the last segment is compiled if it is new, and runs
 *     results belong to the caller's scope, everything else is let go
 */
#include "base/scope.h"
#include "compile/tape_links.h"
#include "compile/trace.h"

#include <stdatomic.h>

static atomic_uint last_stamp;

hod_trace_call *hod__call_current(void)
{
    return (hod_trace_call *)hod__recorder;
}

__attribute__((constructor)) static void set_hooks(void)
{
    hod__accumulate_hook = hod__hook_accumulate;
    hod__span_begin_hook = hod__hook_span_begin;
    hod__span_end_hook = hod__hook_span_end;
    hod__realise_hook = hod__hook_realise;
    hod__write_hook = hod__hook_write;
}

/* ---- making and freeing ---- */

/* HOD_COMPILE, or NULL; a value that means nothing is told once and then ignored. */
static const char *compile_mode(void)
{
    static const char *const known[] = {"0", "1", "interpret", "require"};
    static atomic_flag told = ATOMIC_FLAG_INIT;
    const char *mode = getenv("HOD_COMPILE");
    for (size_t i = 0; mode && *mode && i < HOD_COUNT(known); i++)
        if (strcmp(mode, known[i]) == 0)
            return mode;
    if (mode && *mode)
        hod__env_ignored("HOD_COMPILE", "known are 0, 1, interpret, require", &told);
    return NULL;
}

hod_fn *hod_compile_make(hod_body body, void *job, hod_compile_spec spec)
{
    if (!body || spec.inputs < 0 || spec.outputs < 0)
        return HOD_FAIL(ARGUMENT, "compile: %s, %d inputs, %d outputs", body ? "a body" : "no body",
                        spec.inputs, spec.outputs);
    hod_fn *f = hod__alloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->nothing = hod__storage_symbolic(hod__cpu(), 0);
    if (!f->nothing) {
        free(f);
        return NULL;
    }
    f->body = body;
    f->job = job;
    f->spec = spec;
    if (f->spec.max_traces <= 0)
        f->spec.max_traces = 64;
    snprintf(f->name, sizeof f->name, "%s", spec.name ? spec.name : "step");
    f->spec.name = f->name;
    f->arena = &f->own;
    const char *mode = compile_mode();
    f->eager = spec.mode == HOD_COMPILE_EAGER || (mode && strcmp(mode, "0") == 0);
    f->interpret = mode && strcmp(mode, "interpret") == 0;
    f->require = mode && strcmp(mode, "require") == 0;
    atomic_flag_clear(&f->busy);
    f->call.fn = f;
    f->call.recorder = (hod_recorder){.replay = hod__replay_op, .note = hod__record_note};
    return f;
}

/* Runs the body on tables of its own, longer than agreed: what it reads beyond its inputs is NULL,
 * and what it writes beyond its results is noticed. */
static int call_body(hod_fn *f, hod_tensor *const *in, hod_tensor **out)
{
    enum { FEW = 56, SPARE = 8 };
    int n = f->spec.inputs, m = f->spec.outputs;
    if (n > FEW || m > FEW)
        return f->body(f->job, in, out);
    hod_tensor *seen[FEW + SPARE] = {NULL}, *made[FEW + SPARE] = {NULL};
    for (int i = 0; i < n; i++)
        seen[i] = in[i];
    int rc = f->body(f->job, seen, made);
    for (int i = 0; i < m; i++)
        out[i] = made[i];
    for (int i = m; rc == 0 && i < m + SPARE; i++)
        if (made[i])
            return HOD_FAIL_RC(ARGUMENT, "%s: the function sets result %d, .outputs is %d", f->name,
                               i, m);
    return rc;
}

void hod_fn_free(hod_fn *f)
{
    if (!f)
        return;
    for (hod_segment *s = f->roots; s;) {
        hod_segment *next = s->sibling;
        hod__segment_free(s);
        s = next;
    }
    if (f->own.data)
        f->own.device->release(f->own.device, f->own.data, f->own.bytes);
    hod__storage_release(f->nothing);
    hod_trace_call *k = &f->call;
    free(k->handles);
    free(k->live);
    free(k->scratch);
    free(k->bound);
    free(k->shifted);
    free(k->pending);
    free(k->slots);
    free(k->open);
    free(f->pattern);
    free(f->out);
    free(f);
}

/* ---- running the body as it is ---- */

static int check_results(hod_fn *f, hod_tensor *const *out)
{
    for (int i = 0; i < f->spec.outputs; i++)
        if (!out[i])
            return hod_error() ? -1
                               : HOD_FAIL_RC(STATE, "%s: the body did not set output %d of %d",
                                             f->name, i, f->spec.outputs);
    return 0;
}

/* Keeps results beyond the scope they were made in. */
static void retain_results(hod_fn *f, hod_tensor *const *out)
{
    for (int i = 0; i < f->spec.outputs; i++)
        hod_tensor_retain(out[i]);
}

static int hand_over(hod_fn *f, hod_tensor **out, int rc)
{
    for (int i = 0; i < f->spec.outputs; i++) {
        if (rc == 0 && !hod__own(out[i]))
            rc = -1;
        else if (rc != 0)
            hod_tensor_release(out[i]);
        if (rc != 0)
            out[i] = NULL;
    }
    return rc;
}

static int run_plain(hod_fn *f, hod_tensor *const *in, hod_tensor **out)
{
    int rc;
    {
        HOD_SCOPE(s);
        rc = call_body(f, in, out);
        if (rc == 0)
            rc = check_results(f, out);
        if (rc == 0)
            retain_results(f, out);
    }
    if (rc == 0)
        return hand_over(f, out, 0);
    memset(out, 0, (size_t)f->spec.outputs * sizeof *out);
    return -1;
}

/* ---- a compiled call ---- */

static void reset(hod_trace_call *k, bool preparing)
{
    k->segment = NULL;
    k->cursor = 0;
    k->recording = k->taping = k->mixed = k->failed = k->transient = false;
    k->preparing = preparing;
    static atomic_flag told = ATOMIC_FLAG_INIT;
    k->checking = hod__env_flag("HOD_CHECK_SPANS", &told);
    k->n_shifted = k->n_pending = k->n_slots = k->n_open = 0;
    do
        k->stamp = atomic_fetch_add(&last_stamp, 1) + 1;
    while (k->stamp == 0); /* what no call has touched */
}

/* pattern[i]: the number of input i. A tensor given twice is one value. */
static void number_inputs(hod_fn *f, hod_tensor *const *in)
{
    int32_t next = 0;
    for (int i = 0; i < f->spec.inputs; i++) {
        f->pattern[i] = HOD_NO_VALUE;
        for (int j = 0; j < i && f->pattern[i] == HOD_NO_VALUE; j++)
            if (in[j] == in[i])
                f->pattern[i] = f->pattern[j];
        if (f->pattern[i] == HOD_NO_VALUE)
            f->pattern[i] = next++;
    }
    f->pattern[f->spec.inputs] = HOD_NO_VALUE;
}

static int record_root(hod_trace_call *k, hod_tensor *const *in)
{
    hod_fn *f = k->fn;
    size_t n = (size_t)f->spec.inputs + 1;
    if (hod__call_record(k, NULL, 0) != 0)
        return -1;
    hod_segment *s = k->segment;
    s->pattern = hod__alloc(n, sizeof *s->pattern);
    if (!s->pattern)
        return -1;
    memcpy(s->pattern, f->pattern, n * sizeof *s->pattern);
    for (int i = 0; i < f->spec.inputs; i++)
        if (f->pattern[i] == k->n_values && hod__record_external(k, s, in[i], true) != 0)
            return -1;
    return 0;
}

/* What crosses a break are whole activations. Those of the last call are kept for the next one, but
 * not beside those of another trace. */
static void rest_last(hod_fn *f, const hod_segment *root)
{
    const hod_segment *r = f->last;
    while (r && r->parent)
        r = r->parent;
    if (r == f->last || r == root)
        return;
    for (hod_segment *s = f->last; s; s = s->parent)
        hod__segment_rest(s);
}

static int begin(hod_trace_call *k, hod_tensor *const *in)
{
    hod_fn *f = k->fn;
    number_inputs(f, in);
    for (hod_segment *s = f->last; s; s = s->parent)
        if (s->tape) /* a history that nobody holds any more still holds values */
            hod__segment_drop_links(s);
    bool found = f->recent && hod__replay_begin(k, f->recent, f->pattern, in);
    for (hod_segment *s = f->roots; s && !found; s = s->sibling)
        found = hod__replay_begin(k, s, f->pattern, in);
    rest_last(f, found ? k->segment : NULL);
    if (!found)
        return record_root(k, in);
    if (k->failed)
        return -1;
    k->taping = k->segment->tape || k->checking;
    return 0;
}

static int run_body(hod_trace_call *k, hod_tensor *const *in, hod_tensor **out)
{
    hod_fn *f = k->fn;
    HOD_SCOPE(s);
    hod__recorder = &k->recorder;
    int rc = call_body(f, in, out);
    hod__recorder = NULL;
    if (rc == 0)
        rc = k->failed ? -1 : check_results(f, out);
    if (rc == 0)
        retain_results(f, out);
    else if (!hod_error())
        HOD_FAIL(STATE, "%s: the body returned %d and no error", f->name, rc);
    return rc == 0 ? 0 : -1;
}

/* A result is what the program computed or a tensor from outside, never one of another call. */
static int check_values(hod_fn *f, hod_tensor *const *out)
{
    for (int i = 0; i < f->spec.outputs; i++)
        if (!out[i]->storage->data)
            return HOD_FAIL_RC(
                STATE, "%s: output %d is a value that an earlier call did not return", f->name, i);
    return 0;
}

static void count_programs(hod_fn *f)
{
    hod_compile_report *r = &f->report;
    r->nodes = r->kernels = r->library_calls = 0;
    r->arena_bytes = r->arena_bound = 0;
    for (const hod_segment *s = f->last; s; s = s->parent) {
        r->nodes += s->stats.nodes;
        r->kernels += s->stats.kernels;
        r->library_calls += s->stats.library_calls;
        r->arena_bytes = HOD_MAX(r->arena_bytes, s->stats.arena_bytes);
        r->arena_bound = HOD_MAX(r->arena_bound, s->stats.arena_bound);
    }
}

/* Static mode: the body is not called where a call of it is known for these inputs.
 * HOD_CHECK_STATIC calls it all the same and compares. 1: done, 0: call the body, -1: failed. */
static int call_static(hod_fn *f, hod_tensor *const *in, hod_tensor **out)
{
    hod_trace_call *k = &f->call;
    static atomic_flag told = ATOMIC_FLAG_INIT;
    bool check = hod__env_flag("HOD_CHECK_STATIC", &told);
    reset(k, false);
    number_inputs(f, in);
    k->promise = hod__static_find(f, in);
    if (!k->promise || check)
        return 0;
    int rc = hod__static_run(k, k->promise, in, out);
    if (rc != 1) {
        hod__call_abandon(k);
        memset(out, 0, (size_t)f->spec.outputs * sizeof *out);
        return rc;
    }
    hod__call_settle(k);
    return hand_over(f, out, 0) == 0 ? 1 : -1;
}

static int call_compiled(hod_fn *f, hod_tensor *const *in, hod_tensor **out, bool preparing)
{
    hod_trace_call *k = &f->call;
    reset(k, preparing);
    f->report.graph_breaks = 0;
    int rc = begin(k, in);
    bool held = false;
    if (rc == 0) {
        rc = run_body(k, in, out);
        held = rc == 0;
    }
    if (rc == 0 && k->promise)
        rc = hod__static_check(k, k->promise);
    if (rc == 0)
        rc = hod__call_end_segment(k, false, false);
    if (rc == 0 && !preparing && f->spec.mode == HOD_COMPILE_REDUCE_OVERHEAD)
        rc = hod__static_note(k, out);
    if (rc == 0 && !preparing)
        rc = check_values(f, out);
    if (preparing) {
        hod__call_unpend(k);
        hod__call_undo(k);
    }
    if (held && (rc != 0 || preparing))
        for (int i = 0; i < f->spec.outputs; i++)
            hod_tensor_release(out[i]);
    if (rc != 0 || preparing)
        memset(out, 0, (size_t)f->spec.outputs * sizeof *out);
    rc == 0 ? hod__call_settle(k) : hod__call_abandon(k);
    count_programs(f);
    return rc == 0 && !preparing ? hand_over(f, out, 0) : rc;
}

/* Random operators count streams from hod_random_begin. A second call under one key would number
 * its operators on from the first, and be another trace each time; so a call that begins with
 * streams used already gets a key of its own, derived from that number, and counts from 0. Eager
 * mode does the same: the draws are those of the compiled call. */
typedef struct own_key {
    hod_random_key before;
    uint64_t seed; /* of the key made here */
    bool changed;
} own_key;

static int key_begin(own_key *o)
{
    hod_random_key *r = hod__random();
    if (!r)
        return -1;
    o->before = *r;
    o->changed = r->stream != 0;
    uint64_t both[] = {r->seed, (uint64_t)r->stream};
    o->seed = hod__hash(both, sizeof both, 0);
    return o->changed ? hod_random_begin(o->seed, r->update, r->index) : 0;
}

static int key_end(const own_key *o)
{
    if (!o->changed || hod__random()->seed != o->seed) /* the body may have begun anew itself */
        return 0;
    int rc = hod_random_begin(o->before.seed, o->before.update, o->before.index);
    hod__random()->stream = o->before.stream + 1;
    return rc;
}

static int make_tables(hod_fn *f)
{
    if (!f->pattern)
        f->pattern = hod__alloc((size_t)f->spec.inputs + 1, sizeof *f->pattern);
    if (!f->out)
        f->out = hod__alloc((size_t)f->spec.outputs + 1, sizeof *f->out);
    return f->pattern && f->out ? 0 : -1;
}

static int check_inputs(hod_fn *f, hod_tensor *const *in, bool preparing)
{
    if (f->spec.inputs > 0 && !in)
        return HOD_FAIL_RC(ARGUMENT, "%s: no inputs, %d wanted", f->name, f->spec.inputs);
    for (int i = 0; i < f->spec.inputs; i++) {
        if (hod__null(f->name, "an input", in[i]))
            return -1;
        if (!preparing && !hod__recorder && !in[i]->storage->data)
            return HOD_FAIL_RC(ARGUMENT, "%s: input %d is a placeholder", f->name, i);
    }
    return 0;
}

/* The call of a function that this thread owns meanwhile. */
static int call_alone(hod_fn *f, hod_tensor *const *in, hod_tensor **out)
{
    if (atomic_flag_test_and_set(&f->busy))
        return HOD_FAIL_RC(STATE, "%s: called by two threads at once", f->name);
    int rc = make_tables(f);
    int done = 0;
    f->call.promise = NULL;
    if (rc == 0 && f->spec.mode == HOD_COMPILE_REDUCE_OVERHEAD)
        done = call_static(f, in, out);
    if (rc == 0 && done <= 0)
        rc = done < 0 ? -1 : call_compiled(f, in, out, false);
    atomic_flag_clear(&f->busy);
    return rc;
}

int hod_fn_call(hod_fn *f, hod_tensor *const *in, hod_tensor **out)
{
    if (hod__null("fn_call", "function", f))
        return -1;
    if (out)
        memset(out, 0, (size_t)f->spec.outputs * sizeof *out);
    else if (f->spec.outputs > 0)
        return HOD_FAIL_RC(ARGUMENT, "%s: no room for %d outputs", f->name, f->spec.outputs);
    if (check_inputs(f, in, false) != 0)
        return -1;
    hod_tensor *none;
    out = out ? out : &none;
    if (hod__recorder)
        return run_plain(f, in, out); /* inside another function it is a part of that one */
    own_key key;
    if (key_begin(&key) != 0)
        return -1;
    int rc = f->eager ? run_plain(f, in, out) : call_alone(f, in, out);
    return key_end(&key) == 0 ? rc : -1;
}

int hod_fn_prepare(hod_fn *f, hod_tensor *const *in)
{
    if (hod__null("fn_prepare", "function", f) || check_inputs(f, in, true) != 0)
        return -1;
    if (f->eager)
        return 0;
    if (hod__recorder)
        return HOD_FAIL_RC(STATE, "%s: prepared inside a compiled function", f->name);
    if (atomic_flag_test_and_set(&f->busy))
        return HOD_FAIL_RC(STATE, "%s: called by two threads at once", f->name);
    int rc = make_tables(f);
    if (rc == 0) {
        memset(f->out, 0, (size_t)f->spec.outputs * sizeof *f->out);
        hod_random_key *r = hod__random();
        int64_t stream = r ? r->stream : 0;
        if (r)
            r->stream = 0; /* as every call begins */
        rc = r ? call_compiled(f, in, f->out, true) : -1;
        if (r)
            r->stream = stream;
    }
    atomic_flag_clear(&f->busy);
    return rc;
}

hod_tensor *hod_placeholder(hod_dtype dtype, hod_shape shape)
{
    hod_meta meta = {.dtype = dtype, .ndim = shape.n};
    memcpy(meta.shape, shape.d, sizeof meta.shape);
    int64_t bytes = hod__meta_bytes(&meta);
    if (bytes < 0)
        return NULL;
    hod_storage *s = hod__storage_symbolic(hod__cpu(), bytes);
    hod_tensor *t = hod__tensor_new(&meta, s);
    hod__storage_release(s);
    return hod__own(t);
}

/* ---- looking ---- */

hod_compile_report hod_fn_report(const hod_fn *f)
{
    return f ? f->report : (hod_compile_report){0};
}

static int print_segment(const hod_segment *s, hod_fn_view view, hod_text *text)
{
    switch (view) {
    case HOD_FN_TRACE: return hod__graph_print(s->graph, text);
    case HOD_FN_GRAPH: return hod__graph_print(s->optimised, text);
    case HOD_FN_PROGRAM: return s->program ? hod__program_print(s->program, text) : 0;
    case HOD_FN_KERNELS: return s->program ? hod__program_print_kernels(s->program, text) : 0;
    case HOD_FN_TIMELINE: return s->program ? hod__program_timeline(s->program, text) : 0;
    }
    return HOD_FAIL_RC(ARGUMENT, "fn_print: no view %d", (int)view);
}

static int print_path(const hod_segment *s, hod_fn_view view, hod_text *text)
{
    if (!s)
        return 0;
    if (print_path(s->parent, view, text) != 0)
        return -1;
    return print_segment(s, view, text);
}

/* Of several programs, the one with the largest arena: a picture cannot follow a picture. */
static int print_timeline(const hod_segment *s, hod_text *text)
{
    const hod_segment *most = s;
    for (; s; s = s->parent)
        if (s->program && (!most->program || s->stats.arena_bytes > most->stats.arena_bytes))
            most = s;
    return print_segment(most, HOD_FN_TIMELINE, text);
}

int hod_fn_print(const hod_fn *f, hod_fn_view view, FILE *out)
{
    if (hod__null("fn_print", "function", f))
        return -1;
    if (!f->last)
        return HOD_FAIL_RC(STATE, "%s: not compiled yet", f->name);
    hod_text text = {0};
    int rc =
        view == HOD_FN_TIMELINE ? print_timeline(f->last, &text) : print_path(f->last, view, &text);
    if (rc == 0 && text.data && fwrite(text.data, 1, (size_t)text.n, out) != (size_t)text.n)
        rc = HOD_FAIL_RC(IO, "%s: its text was not written", f->name);
    hod__text_free(&text);
    return rc;
}
