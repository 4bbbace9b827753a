/* Trading time for memory: run a function without its tape, and again when backward gets there.
 *
 *     forward    y = fn(x)           under no_grad: nothing is saved but x
 *     backward   y' = fn(x')         x' = detached leaves; with the forward's random key and stream
 *                dx = vjp(y', g)     parameters inside fn get their share as leaves of the tape
 *
 * Randomness is counter-based, so putting back (seed, update, sample index, stream) makes every mask
 * again. hod__recomputing() is true in the second run, which is how batch norm's statistics know
 * that they were counted already. Whether the second run computes the same is checked by what a
 * difference shows first: the shape of the result and how many random streams it drew.
 */
#include "autograd/autograd.h"
#include <hod/functional.h>
#include <hod/ops.h>

static _Thread_local int recomputing;

bool hod__recomputing(void)
{
    return recomputing > 0;
}

typedef struct checkpoint {
    hod_check_fn *fn;
    void *context;
    int n;
    hod_random_key random; /* at the beginning of fn; key and index counted */
    int64_t draws;         /* streams that fn took */
    hod_meta out;
    hod_saved in[]; /* n */
} checkpoint;

static void checkpoint_release(void *state)
{
    checkpoint *c = state;
    for (int i = 0; i < c->n; i++)
        hod_tensor_release(c->in[i].value);
    hod_tensor_release(c->random.key);
    hod_tensor_release(c->random.index);
    free(c);
}

/* The inputs again, each detached; those that required a gradient are leaves of their own. */
static int open_inputs(checkpoint *c, hod_tensor **in)
{
    for (int i = 0; i < c->n; i++) {
        hod_tensor *t = c->in[i].value;
        if (t->storage->version != c->in[i].version)
            return HOD_FAIL_RC(STATE,
                               "backward of checkpoint: its input %d %s was changed in place", i,
                               HOD_SHAPE_TEXT(t));
        in[i] = hod_detach(t);
        if (!in[i] || (c->in[i].leaf && !hod_requires_grad(in[i], true)))
            return -1;
    }
    return 0;
}

static hod_tensor *run_again(checkpoint *c, hod_tensor *const *in)
{
    hod_random_key *now = hod__random(), before = *now;
    *now = c->random;
    recomputing++;
    bool enabled = hod__tape->enabled;
    hod__tape->enabled = true;
    hod_tensor *y = c->fn(c->context, in, c->n);
    hod__tape->enabled = enabled;
    recomputing--;
    int64_t draws = now->stream - c->random.stream;
    *now = before;
    if (!y)
        return NULL;
    if (draws != c->draws || y->ndim != c->out.ndim || y->dtype != c->out.dtype ||
        memcmp(y->shape, c->out.shape, (size_t)y->ndim * sizeof *y->shape) != 0)
        return HOD_FAIL(STATE,
                        "checkpoint: the function computed %s with %lld random operators "
                        "again, before it was %lld",
                        HOD_SHAPE_TEXT(y), (long long)draws, (long long)c->draws);
    return y;
}

static int checkpoint_backward(void *state, hod_tensor *g, hod_tensor **dx, int n,
                               bool create_graph)
{
    checkpoint *c = state;
    hod_tensor *in[HOD_OP_MAX_INPUTS];
    if (create_graph)
        return HOD_FAIL_RC(STATE, "backward of checkpoint: no second derivatives (.create_graph)");
    if (open_inputs(c, in) != 0)
        return -1;
    hod_tensor *y = run_again(c, in);
    if (!y)
        return -1;
    if (y->requires_grad && hod_backward_with(y, g) != 0)
        return -1;
    for (int i = 0; i < n; i++) {
        hod_tensor *gi = hod_grad(in[i]);
        dx[i] = gi ? gi : HOD_NO_GRADIENT;
    }
    return 0;
}

static const hod_custom checkpoint_node = {
    .name = "checkpoint", .backward = checkpoint_backward, .release = checkpoint_release};

static checkpoint *checkpoint_new(hod_check_fn *fn, void *context, int n, hod_tensor *const *in)
{
    const hod_random_key *random = hod__random();
    checkpoint *c = random ? hod__alloc(1, sizeof *c + (size_t)n * sizeof *c->in) : NULL;
    if (!c)
        return NULL;
    c->fn = fn;
    c->context = context;
    c->random = *random;
    hod_tensor_retain(c->random.key);
    hod_tensor_retain(c->random.index);
    for (int i = 0; i < n; i++) {
        hod_saved *s = &c->in[c->n++];
        s->value = hod__tensor_alias(in[i]);
        s->leaf = in[i]->requires_grad;
        s->version = in[i]->storage->version;
        if (!s->value) {
            checkpoint_release(c);
            return NULL;
        }
        s->value->trace_value = in[i]->trace_value;
        s->value->trace_stamp = in[i]->trace_stamp;
    }
    return c;
}

/* A function whose parameters alone require gradients needs a node, too. The node hangs on the
 * inputs; with none that requires a gradient, a scalar leaf of its own stands in. */
static hod_tensor *link_node(checkpoint *c, int n, hod_tensor *const *in, hod_tensor *y)
{
    hod_tensor *all[HOD_OP_MAX_INPUTS];
    bool any = false;
    for (int i = 0; i < n; i++) {
        all[i] = in[i];
        any = any || in[i]->requires_grad;
    }
    if (!any) {
        all[0] = hod_detach(in[0]);
        if (all[0] && all[0]->dtype != HOD_F32 && all[0]->dtype != HOD_F64)
            all[0] = hod_zeros(HOD_F32, HOD_SHAPE());
        if (!hod_requires_grad(all[0], true)) {
            checkpoint_release(c);
            return NULL;
        }
    }
    y = hod_detach(y);
    if (!y) {
        checkpoint_release(c);
        return NULL;
    }
    return hod__tape_note_custom(&checkpoint_node, c, n, all, y) == 0 ? y : NULL;
}

static hod_tensor *run_first(hod_check_fn *fn, void *context, int n, hod_tensor *const *in)
{
    HOD_SCOPE(s); /* what fn leaves behind dies here, which is the point */
    checkpoint *c = checkpoint_new(fn, context, n, in);
    if (!c)
        return NULL;
    hod_no_grad off;
    hod_no_grad_begin(&off);
    hod_tensor *y = fn(context, in, n);
    hod_no_grad_end(&off);
    if (!y) {
        checkpoint_release(c);
        return NULL;
    }
    c->draws = hod__random()->stream - c->random.stream;
    c->out = hod__meta(y);
    return hod_escape(link_node(c, n, in, y));
}

hod_tensor *hod_checkpoint(hod_check_fn *fn, void *context, int n, hod_tensor *const *in)
{
    if (n < 1 || n > HOD_OP_MAX_INPUTS)
        return HOD_FAIL(ARGUMENT, "checkpoint: %d inputs, 1 to %d are possible", n,
                        HOD_OP_MAX_INPUTS);
    for (int i = 0; i < n; i++)
        if (!in[i])
            return NULL;
    return hod_grad_enabled() ? run_first(fn, context, n, in) : fn(context, in, n);
}
