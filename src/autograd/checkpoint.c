/* Trading time for memory: a function whose graph is built but whose values are not kept.
 *
 *     forward    y = fn(x)    the tape listens as always, but every value a derivative will read is
 *                             `hollow`: an index instead of a tensor, so temporaries die with fn
 *     backward   the first hollow value that is asked for runs fn again, with the forward's random
 *                key; the n-th value saved now is hollow value n
 *
 * The graph is the ordinary one. So parameters inside fn, several results, hooks, hod_grad_of,
 * second derivatives and checkpoints within checkpoints need nothing of their own, and a function
 * in which nothing requires a gradient is never run again. (An earlier form hung one node on the
 * inputs and ran a backward inside the backward; it could do none of these but the first.)
 *
 * What fn computed for the tape, operator by operator, is noted at first and compared the second
 * time, so a function that computes something else is an error that names the operator. Leaves are
 * never hollow: they exist anyway, and so an update between the two runs is seen as what it is.
 *
 *   K1  index n belongs to the n-th value saved in fn that is not a leaf, in every run of it
 *   K2  filled => in the thread's list, which ends with the backward that filled it
 *   K3  a hollow value holds its checkpoint; the checkpoint holds its inputs and their makers,
 *       which lie behind all its nodes, so nothing holds itself
 */
#include "autograd/autograd.h"
#include <hod/functional.h>
#include <hod/ops.h>

/* What the tape noted: enough to see a difference and to name it. */
typedef struct step {
    hod_op op;
    hod_meta out;
    uint64_t attrs; /* hash */
} step;

typedef struct hollow_value {
    hod_tensor *value; /* counted; NULL unless filled */
    uint32_t version;
    bool dead; /* nobody will ask for it any more */
} hollow_value;

struct hod_checkpoint {
    atomic_int refs;
    hod_checkpoint_fn *fn;
    hod_check_fn *one; /* instead of fn: with one result */
    void *context;
    int outputs;
    hod_origin from;
    hod_random_key random; /* at the beginning of fn; key and index counted */
    int64_t draws;         /* streams that fn took */
    bool running, again;   /* fn runs now; and not for the first time */
    bool filled;
    struct hod_checkpoint *next; /* filled earlier */
    step *steps;
    int64_t n_steps, cap_steps, at_step;
    hollow_value *values;
    int64_t n_values, cap_values, at_value;
    int n;
    hod_edge in[]; /* n: where inputs come from, and their values */
};
typedef struct hod_checkpoint region;

_Thread_local region *hod__checkpoint_now;
static _Thread_local region *filled;
static _Thread_local int recomputing;

bool hod_recomputing(void)
{
    return recomputing > 0;
}

static void release(region *c)
{
    if (atomic_fetch_sub(&c->refs, 1) != 1)
        return;
    for (int i = 0; i < c->n; i++) {
        hod__saved_drop(&c->in[i].saved);
        hod__grad_node_release(c->in[i].node);
    }
    for (int64_t i = 0; i < c->n_values; i++)
        hod_tensor_release(c->values[i].value);
    hod_tensor_release(c->random.key);
    hod_tensor_release(c->random.index);
    free(c->steps);
    free(c->values);
    free(c);
}

/* ---- what fn does ---- */

static int differs(const region *c, const char *was, const char *is, const hod_meta *m)
{
    return HOD_FAIL_RC(STATE,
                       "%s: running it again computes something else: its operator %lld was %s and "
                       "is %s %s now",
                       HOD_ORIGIN_TEXT(&c->from), (long long)c->at_step, was, is,
                       HOD_SHAPE_TEXT(m));
}

static const char *name_of(hod_op op)
{
    return op == HOD_OPS ? "a custom operator" : hod__op_info[op].name;
}

static uint64_t hash_attrs(const hod_op_call *c)
{
    if (c->op == HOD_OPS)
        return 0;
    hod_attrs_kind kind = hod__op_info[c->op].attrs;
    hod_attrs value;
    hod__attrs_copy(kind, &value, c->attrs);
    return hod__hash(&value, hod__attrs_info[kind].bytes, 0);
}

int hod__checkpoint_step(const hod_op_call *call, const hod_tensor *out)
{
    region *c = hod__checkpoint_now;
    step now = {.op = call->op, .out = hod__meta(out), .attrs = hash_attrs(call)};
    if (!c->again) {
        step *s = hod__push(&c->steps, &c->n_steps, &c->cap_steps, sizeof *s);
        if (s)
            *s = now;
        return s ? 0 : -1;
    }
    const step *was = c->at_step < c->n_steps ? &c->steps[c->at_step] : NULL;
    if (!was)
        return differs(c, "not there", name_of(now.op), &now.out);
    if (was->op != now.op || was->out.dtype != now.out.dtype ||
        !hod__same_sizes(was->out.ndim, was->out.shape, now.out.ndim, now.out.shape)) {
        char text[128], shape[96];
        snprintf(text, sizeof text, "%s %s", name_of(was->op),
                 hod__shape_text(was->out.ndim, was->out.shape, shape, sizeof shape));
        return differs(c, text, name_of(now.op), &now.out);
    }
    if (was->attrs != now.attrs)
        return differs(c, "called with other arguments", name_of(now.op), &now.out);
    c->at_step++;
    return 0;
}

int hod__checkpoint_save(hod_saved *s, hod_tensor *t)
{
    region *c = hod__checkpoint_now;
    if (!c->again) {
        hollow_value *v = hod__push(&c->values, &c->n_values, &c->cap_values, sizeof *v);
        if (!v)
            return -1;
        s->hollow = c;
        s->index = c->n_values - 1;
        atomic_fetch_add(&c->refs, 1);
        return 0;
    }
    /* The nodes of this run die with it: nothing is saved in them. */
    if (c->at_value >= c->n_values)
        return HOD_FAIL_RC(STATE, "%s: running it again saves more than %lld values",
                           HOD_ORIGIN_TEXT(&c->from), (long long)c->n_values);
    hollow_value *v = &c->values[c->at_value++];
    if (v->dead)
        return 0;
    v->value = hod__tensor_same(t);
    if (!v->value)
        return -1;
    v->version = t->storage->version;
    return 0;
}

/* ---- running ---- */

static int call_fn(const region *c, hod_tensor *const *in, hod_tensor **out)
{
    if (c->fn)
        return c->fn(c->context, in, c->n, out);
    out[0] = c->one(c->context, in, c->n);
    return out[0] ? 0 : -1;
}

static int call(region *c, hod_tensor *const *in, hod_tensor **out)
{
    region *around = hod__checkpoint_now;
    hod__checkpoint_now = c;
    c->running = true;
    for (int i = 0; i < c->outputs; i++)
        out[i] = NULL;
    int rc = call_fn(c, in, out);
    for (int i = 0; rc == 0 && i < c->outputs; i++)
        if (!out[i])
            rc = hod_error() ? -1
                             : HOD_FAIL_RC(STATE, "%s: the function did not set result %d of %d",
                                           HOD_ORIGIN_TEXT(&c->from), i, c->outputs);
    if (rc != 0 && !hod_error())
        HOD_FAIL(STATE, "%s: the function failed without an error", HOD_ORIGIN_TEXT(&c->from));
    c->running = false;
    hod__checkpoint_now = around;
    return rc == 0 ? 0 : -1;
}

/* The inputs as they were: the same leaves, the same makers, so the tape does the same again. */
static int open_inputs(region *c, hod_tensor **in)
{
    for (int i = 0; i < c->n; i++) {
        const hod_edge *e = &c->in[i];
        in[i] = hod__saved_open(&c->from, &e->saved, e->node, e->output, true, "input");
        if (!in[i])
            return -1;
    }
    return 0;
}

static void drop_values(region *c)
{
    for (int64_t i = 0; i < c->n_values; i++) {
        hod_tensor_release(c->values[i].value);
        c->values[i].value = NULL;
    }
}

static int run_again(region *c)
{
    HOD_SCOPE(s);
    hod_tensor *in[HOD_OP_MAX_INPUTS], *out[HOD_OP_MAX_INPUTS];
    if (open_inputs(c, in) != 0)
        return -1;
    hod_random_key *now = hod__random(), before = *now;
    bool enabled = hod__tape_mode.enabled;
    *now = c->random;
    hod__tape_mode.enabled = true;
    recomputing++;
    c->again = true;
    c->at_step = c->at_value = 0;
    int rc = call(c, in, out);
    c->again = false;
    recomputing--;
    hod__tape_mode.enabled = enabled;
    int64_t draws = now->stream - c->random.stream;
    *now = before;
    if (rc != 0)
        return -1;
    if (c->at_step != c->n_steps || c->at_value != c->n_values)
        return HOD_FAIL_RC(STATE,
                           "%s: running it again computes %lld operators, before it was %lld",
                           HOD_ORIGIN_TEXT(&c->from), (long long)c->at_step, (long long)c->n_steps);
    if (draws != c->draws)
        return HOD_FAIL_RC(STATE, "%s: running it again draws %lld times, before it was %lld",
                           HOD_ORIGIN_TEXT(&c->from), (long long)draws, (long long)c->draws);
    return 0;
}

hod_tensor *hod__checkpoint_value(const hod_saved *s, uint32_t *version)
{
    region *c = s->hollow;
    if (c->running)
        return HOD_FAIL(STATE, "%s: a backward inside it needs values that it does not keep",
                        HOD_ORIGIN_TEXT(&c->from));
    if (!c->filled) {
        if (run_again(c) != 0) {
            drop_values(c);
            return NULL;
        }
        c->filled = true;
        atomic_fetch_add(&c->refs, 1);
        c->next = filled;
        filled = c;
    }
    *version = c->values[s->index].version;
    return c->values[s->index].value;
}

void hod__checkpoint_drop(hod_saved *s)
{
    region *c = s->hollow;
    hollow_value *v = &c->values[s->index];
    hod_tensor_release(v->value);
    *v = (hollow_value){.dead = true};
    s->hollow = NULL;
    release(c);
}

region *hod__checkpoint_mark(void)
{
    return filled;
}

void hod__checkpoint_sweep(region *mark)
{
    while (filled != mark) {
        region *c = filled;
        filled = c->next;
        c->filled = false;
        drop_values(c);
        release(c);
    }
}

/* ---- the first time ---- */

static int keep_inputs(region *c, int n, hod_tensor *const *in)
{
    for (int i = 0; i < n; i++) {
        hod_edge *e = &c->in[c->n++];
        if (hod__has_grad_fn(in[i])) {
            e->node = in[i]->autograd->grad_fn;
            e->output = in[i]->autograd->output;
            hod__grad_node_retain(e->node);
        }
        if (hod__save(&e->saved, in[i]) != 0)
            return -1;
    }
    return 0;
}

static region *checkpoint_new(const region *like, int n, hod_tensor *const *in)
{
    const hod_random_key *random = hod__random();
    region *c = random ? hod__alloc(1, sizeof *c + (size_t)n * sizeof *c->in) : NULL;
    if (!c)
        return NULL;
    *c = *like;
    atomic_init(&c->refs, 1);
    c->from.name = "checkpoint";
    hod__place(&c->from.file, &c->from.line);
    c->random = *random;
    hod_tensor_retain(c->random.key);
    hod_tensor_retain(c->random.index);
    if (keep_inputs(c, n, in) == 0)
        return c;
    release(c);
    return NULL;
}

static int run_first(const region *like, int n, hod_tensor *const *in, hod_tensor **out)
{
    hod__tape_wanted(); /* a replay would build a tape that keeps everything */
    region *c = checkpoint_new(like, n, in);
    if (!c)
        return -1;
    HOD_SCOPE(s); /* what fn leaves behind dies here, which is the point */
    int rc = call(c, in, out);
    c->draws = hod__random()->stream - c->random.stream;
    for (int i = 0; rc == 0 && i < c->outputs; i++)
        hod_escape(out[i]);
    release(c);
    return rc;
}

static int run(const region *like, int n, hod_tensor *const *in, hod_tensor **out)
{
    int m = like->outputs;
    if (n < 1 || n > HOD_OP_MAX_INPUTS || m < 1 || m > HOD_OP_MAX_INPUTS)
        return HOD_FAIL_RC(ARGUMENT,
                           "checkpoint: %d inputs and %d results, 1 to %d of each are possible", n,
                           m, HOD_OP_MAX_INPUTS);
    if (!like->fn && !like->one)
        return HOD_FAIL_RC(ARGUMENT, "checkpoint: no function");
    if (hod__null("checkpoint", "the array of inputs", in))
        return -1;
    for (int i = 0; i < n; i++)
        if (hod__null("checkpoint", "an input", in[i]))
            return -1;
    if (hod_grad_enabled())
        return run_first(like, n, in, out);
    return like->fn                                     ? like->fn(like->context, in, n, out)
           : (out[0] = like->one(like->context, in, n)) ? 0
                                                        : -1;
}

int hod_checkpoint_into(hod_checkpoint_fn *fn, void *context, int n, hod_tensor *const *in,
                        int outputs, hod_tensor **out)
{
    if (hod__null("checkpoint", "the array of results", out))
        return -1;
    region like = {.fn = fn, .context = context, .outputs = outputs};
    for (int i = 0; i < outputs; i++)
        out[i] = NULL;
    int rc = run(&like, n, in, out);
    for (int i = 0; rc != 0 && i < outputs; i++)
        out[i] = NULL;
    return rc;
}

hod_tensor *hod_checkpoint(hod_check_fn *fn, void *context, int n, hod_tensor *const *in)
{
    region like = {.one = fn, .context = context, .outputs = 1};
    hod_tensor *out = NULL;
    return run(&like, n, in, &out) == 0 ? out : NULL;
}
