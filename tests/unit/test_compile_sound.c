/* Compiled functions that do what is hard to capture: effects, aliases, the tape, failures. */
#include "base/scope.h"
#include "harness.h"
#include "ops/op.h"
#include <hod/autograd.h>
#include <hod/compile.h>
#include <hod/functional.h>
#include <hod/memory.h>
#include <hod/random.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hod_tensor *row(int n, double scale)
{
    float v[64];
    for (int i = 0; i < n; i++)
        v[i] = (float)(scale * ((i * 37 % 101) / 50.0 - 1));
    return hod_from_floats(v, HOD_SHAPE(n));
}

static double apart(hod_tensor *a, hod_tensor *b)
{
    CHECK(a && b);
    int64_t n = hod_tensor_numel(b);
    EQ_INT(hod_tensor_numel(a), n);
    double x[64], y[64], worst = 0;
    CHECK(n <= 64);
    CHECK(hod_read_doubles(a, x, n) == 0 && hod_read_doubles(b, y, n) == 0);
    for (int64_t i = 0; i < n; i++)
        worst = fmax(worst, fabs(x[i] - y[i]));
    return worst;
}

static bool interpreted(void)
{
    const char *mode = getenv("HOD_COMPILE");
    return mode && strcmp(mode, "interpret") == 0;
}

/* Values are of the order of 1, so an absolute difference of a few f32 roundings. */
#define CLOSE 1e-5

/* Runs `body` compiled on job a and plainly on job b, several times, and compares results. */
typedef struct twin {
    hod_body body;
    void *a, *b;
    int outputs, calls;
    int traces, breaks; /* expected; breaks < 0: any */
} twin;

static void run_twins(twin t)
{
    hod_fn *f = hod_compile(t.body, t.a, .inputs = 1, .outputs = t.outputs);
    for (int i = 0; i < t.calls; i++) {
        HOD_SCOPE(s);
        hod_tensor *x = row(6, 1 + .25 * i), *y[4], *e[4];
        CHECK(hod_random_begin(3, i, NULL) == 0);
        if (hod_fn_call(f, &x, y) != 0)
            FAIL("%s", hod_error());
        CHECK(hod_random_begin(3, i, NULL) == 0);
        CHECK(t.body(t.b, &x, e) == 0);
        for (int j = 0; j < t.outputs; j++)
            NEAR(apart(y[j], e[j]), 0, CLOSE);
    }
    hod_compile_report r = hod_fn_report(f);
    EQ_INT(r.traces, t.traces);
    if (t.breaks >= 0)
        EQ_INT(r.graph_breaks, t.breaks);
    hod_fn_free(f);
}

/* ---- in-place changes ---- */

typedef struct state {
    hod_tensor *s, *view, *w;
    double host;
    int calls;
} state;

static state state_new(void)
{
    state s = {.s = hod_tensor_retain(row(6, 1))};
    s.view = hod_tensor_retain(hod_slice(s.s, 0, 1, 4));
    s.w = hod_tensor_retain(hod_requires_grad(row(6, .5), true));
    return s;
}

static void state_free(state *s)
{
    hod_tensor_release(s->s);
    hod_tensor_release(s->view);
    hod_tensor_release(s->w);
}

#define TWINS(name, body_, outputs_, traces_, breaks_)                                             \
    TEST(name)                                                                                     \
    {                                                                                              \
        HOD_SCOPE(scope);                                                                          \
        state a = state_new(), b = state_new();                                                    \
        run_twins((twin){body_, &a, &b, outputs_, 6, traces_, breaks_});                           \
        NEAR(apart(a.s, b.s), 0, CLOSE);                                                           \
        NEAR(a.host, b.host, CLOSE);                                                               \
        EQ_INT(hod_tensor_version(a.s), hod_tensor_version(b.s));                                  \
        if (hod_grad(b.w))                                                                         \
            NEAR(apart(hod_grad(a.w), hod_grad(b.w)), 0, CLOSE);                                   \
        else                                                                                       \
            CHECK(!hod_grad(a.w));                                                                 \
        state_free(&a);                                                                            \
        state_free(&b);                                                                            \
    }

/* Reads before a change see the old value, reads after it the new one. */
static int read_write_read(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_tensor *before = hod_mul_scalar(s->s, 2);
    if (!hod__assign(s->s, hod_mul_scalar(hod_add(s->s, in[0]), .5)))
        return -1;
    out[0] = before;
    out[1] = hod_mul_scalar(s->s, 3);
    return 0;
}
TWINS(compile_sound_state_is_read_and_written, read_write_read, 2, 1, 0)

static int write_twice(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod__assign(s->s, hod_mul_scalar(hod_add(s->s, in[0]), .5));
    hod_tensor *mid = hod_mul_scalar(s->s, 1);
    hod__assign(s->s, hod_mul_scalar(hod_sub(s->s, in[0]), .5));
    out[0] = hod_add(mid, s->s);
    return 0;
}
TWINS(compile_sound_state_is_written_twice, write_twice, 1, 1, 0)

/* A view made inside before the change shows the change. */
static int view_before_write(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_tensor *v = hod_reshape(s->s, HOD_SHAPE(2, 3));
    hod_tensor *old = hod_sum(v);
    hod__assign(s->s, hod_mul_scalar(hod_add(s->s, in[0]), .5));
    out[0] = old;
    out[1] = hod_mul_scalar(v, 2);
    return 0;
}
TWINS(compile_sound_views_see_later_changes, view_before_write, 2, 1, 0)

/* A view made outside shares memory with what is changed: a break keeps the order. */
static int outside_view(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_tensor *old = hod_mul_scalar(s->view, 2);
    hod__assign(s->s, hod_mul_scalar(hod_add(s->s, in[0]), .5));
    out[0] = old;
    out[1] = hod_mul_scalar(s->view, 3);
    return 0;
}
TWINS(compile_sound_outside_view_of_changed, outside_view, 2, 1, 2)

static int change_a_view(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_tensor *part = hod_slice(s->s, 0, 2, 5);
    hod__assign(part, hod_mul_scalar(hod_slice(in[0], 0, 0, 3), .5));
    out[0] = hod_mul_scalar(s->s, 2);
    return 0;
}
TWINS(compile_sound_view_is_changed, change_a_view, 1, 1, -1)

static int change_a_result(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    hod_tensor *h = hod_mul_scalar(in[0], 2), *v = hod_reshape(h, HOD_SHAPE(3, 2));
    hod__assign(h, hod_add(h, in[0]));
    out[0] = hod_exp(h);
    out[1] = hod_mul_scalar(v, 1); /* sees the change */
    hod__assign(h, in[0]);         /* a copy, not the input itself */
    out[2] = h;
    return 0;
}
TWINS(compile_sound_result_is_changed, change_a_result, 3, 1, 0)

/* The host reads a tensor whose change is only recorded so far. */
static int host_reads_state(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod__assign(s->s, hod_mul_scalar(hod_add(s->s, in[0]), .5));
    s->host += hod_item(hod_select(s->s, 0, 1));
    float v[6];
    hod__assign(s->s, hod_mul_scalar(s->s, .5));
    CHECK(hod_read_floats(s->s, v, 6) == 0);
    s->host += v[2];
    out[0] = hod_mul_scalar(s->s, 2);
    return 0;
}
TWINS(compile_sound_host_reads_changed_state, host_reads_state, 1, 1, 2)

/* The host writes a tensor that was read: what was recorded before runs first. */
static int host_writes_state(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_tensor *old = hod_add(s->s, in[0]);
    float *p = hod_tensor_mutable_data(s->s);
    CHECK(p);
    p[0] = (float)++s->calls;
    out[0] = old;
    out[1] = hod_add(s->s, in[0]);
    return 0;
}
TWINS(compile_sound_host_writes_what_was_read, host_writes_state, 2, 1, 1)

static int shift_itself(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod__assign(s->s, hod_add(s->s, in[0]));
    hod__assign(hod_slice(s->s, 0, 1, 6), hod_slice(s->s, 0, 0, 5));
    out[0] = hod_mul_scalar(s->s, 2);
    return 0;
}
TWINS(compile_sound_assigned_to_a_part_of_itself, shift_itself, 1, 1, -1)

/* ---- gradients ---- */

static hod_tensor *loss_of(state *s, hod_tensor *x)
{
    return hod_sum(hod_square(hod_mul(hod_tanh(s->w), x)));
}

static int backward_twice(void *job, hod_tensor *const *in, hod_tensor **out)
{
    out[0] = loss_of(job, in[0]);
    out[1] = hod_sum(hod_exp(hod_mul(((state *)job)->w, in[0])));
    return hod_backward(out[0]) == 0 ? hod_backward(out[1]) : -1;
}
TWINS(compile_sound_two_losses_in_one_step, backward_twice, 2, 1, 0)

static int retained_graph(void *job, hod_tensor *const *in, hod_tensor **out)
{
    out[0] = loss_of(job, in[0]);
    return hod_backward_with(out[0], HOD_ONES, .retain_graph = true) == 0 ? hod_backward(out[0])
                                                                          : -1;
}
TWINS(compile_sound_graph_retained, retained_graph, 1, 1, 0)

static int clear_between(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    out[0] = loss_of(s, in[0]);
    if (hod_backward(out[0]) != 0)
        return -1;
    hod_zero_grad(s->w);
    out[1] = loss_of(s, hod_mul_scalar(in[0], .5));
    return hod_backward(out[1]);
}
TWINS(compile_sound_gradient_cleared_in_between, clear_between, 2, 1, 1)

static int clear_first(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_zero_grad(s->w);
    out[0] = loss_of(s, in[0]);
    return hod_backward(out[0]);
}
TWINS(compile_sound_gradient_cleared_first, clear_first, 1, 1, 0)

static int clear_last(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_tensor *l = loss_of(s, in[0]);
    if (hod_backward(l) != 0)
        return -1;
    out[0] = hod_mul_scalar(hod_grad(s->w), 2);
    hod_zero_grad(s->w);
    return 0;
}
TWINS(compile_sound_gradient_used_and_cleared, clear_last, 1, 1, 0)

static int host_reads_gradient(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    out[0] = loss_of(s, in[0]);
    if (hod_backward(out[0]) != 0)
        return -1;
    s->host += hod_item(hod_sum(hod_grad(s->w)));
    return 0;
}
TWINS(compile_sound_host_reads_gradient, host_reads_gradient, 1, 1, 1)

/* A step of gradient descent inside: effect on a leaf after its gradient. */
static int descend(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_zero_grad(s->w);
    out[0] = loss_of(s, in[0]);
    if (hod_backward(out[0]) != 0)
        return -1;
    HOD_NO_GRAD(n);
    return hod__assign(s->w, hod_sub(s->w, hod_mul_scalar(hod_grad(s->w), .1))) ? 0 : -1;
}
TWINS(compile_sound_descends, descend, 1, 1, 0)

static int gradient_as_value(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_tensor *l = loss_of(s, in[0]);
    if (hod_grad_of(l, 1, &s->w, out, HOD_ONES, .create_graph = true) != 0)
        return -1;
    out[1] = hod_sum(hod_square(out[0]));
    return hod_backward(out[1]);
}
TWINS(compile_sound_second_derivative, gradient_as_value, 2, 1, 0)

static int given_gradient(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    out[0] = hod_mul(hod_tanh(s->w), in[0]);
    return hod_backward_with(out[0], hod_mul_scalar(in[0], 1 + s->calls++ % 2));
}
TWINS(compile_sound_gradient_given, given_gradient, 1, 2, 0)

static int inner_leaf(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    hod_tensor *leaf = hod_requires_grad(hod_detach(hod_mul_scalar(in[0], 2)), true);
    if (hod_backward(hod_sum(hod_square(leaf))) != 0)
        return -1;
    out[0] = hod_mul_scalar(hod_grad(leaf), 1);
    return 0;
}
TWINS(compile_sound_leaf_made_inside, inner_leaf, 1, 1, 0)

static int kept_gradient(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_tensor *h = hod_mul(s->w, in[0]);
    if (hod_retain_grad(h) != 0 || hod_backward(hod_sum(hod_exp(h))) != 0)
        return -1;
    out[0] = hod_mul_scalar(hod_grad(h), 1);
    return 0;
}
TWINS(compile_sound_gradient_of_a_result_kept, kept_gradient, 1, 1, 0)

/* The branch comes after the forward, so the second trace needs the tape of a replayed prefix. */
static int branch_before_backward(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_tensor *l = loss_of(s, in[0]);
    if (s->calls++ % 3 == 1)
        l = hod_mul_scalar(l, 3);
    out[0] = l;
    return hod_backward(l);
}
TWINS(compile_sound_branch_between_forward_and_backward, branch_before_backward, 1, 2, 0)

static int branch_after_backward(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    out[0] = loss_of(s, in[0]);
    if (hod_backward(out[0]) != 0)
        return -1;
    HOD_NO_GRAD(n);
    out[1] = s->calls++ % 3 == 1 ? hod_exp(hod_grad(s->w)) : hod_neg(hod_grad(s->w));
    return 0;
}
TWINS(compile_sound_branch_after_backward, branch_after_backward, 2, 2, 0)

static int break_between(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_tensor *l = loss_of(s, in[0]);
    s->host = hod_item(l);
    out[0] = s->calls++ % 3 == 1 ? hod_mul_scalar(l, 3) : l;
    return hod_backward(out[0]);
}
TWINS(compile_sound_break_between_forward_and_backward, break_between, 1, 2, 1)

static hod_tensor *read_hook(void *context, hod_tensor *g)
{
    *(double *)context = hod_item(hod_sum(g));
    return hod_mul_scalar(g, 2);
}

static int hooked(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_tensor *h = hod_mul(s->w, in[0]);
    if (s->calls++ >= 2 && hod_add_grad_hook(h, read_hook, &s->host) != 0)
        return -1;
    out[0] = hod_sum(hod_exp(h));
    return hod_backward(out[0]);
}
TWINS(compile_sound_hook_added_later, hooked, 1, 2, 1)

static hod_tensor *checkpointed(void *context, hod_tensor *const *in, int n)
{
    (void)n;
    return hod_tanh(hod_dropout(hod_mul(hod_exp(in[0]), ((state *)context)->w), .5));
}

static int with_checkpoint(void *job, hod_tensor *const *in, hod_tensor **out)
{
    hod_tensor *h = hod_mul(in[0], ((state *)job)->w);
    out[0] = hod_sum(hod_square(hod_checkpoint(checkpointed, job, 1, &h)));
    return hod_backward(out[0]);
}
TWINS(compile_sound_checkpoint, with_checkpoint, 1, 1, 0)

static int toggles_grad(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    if (s->calls++ % 2) {
        HOD_NO_GRAD(n);
        out[0] = loss_of(s, in[0]);
        return 0;
    }
    out[0] = loss_of(s, in[0]);
    return hod_backward(out[0]);
}
TWINS(compile_sound_no_grad_toggles, toggles_grad, 1, 2, 0)

/* ---- randomness ---- */

static int draws(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    out[0] = hod_dropout(hod_exp(in[0]), .5);
    out[1] = hod_dropout(hod_exp(in[0]), .5);
    return 0;
}

/* Nobody begins a new key: every call draws anew, and eager mode draws the same. */
TEST(compile_sound_randomness_without_begin)
{
    HOD_SCOPE(s);
    hod_tensor *x = row(40, 1), *y[2][8][2];
    for (int eager = 0; eager < 2; eager++) {
        hod_fn *f = hod_compile(draws, NULL, .inputs = 1, .outputs = 2,
                                .mode = eager ? HOD_COMPILE_EAGER : HOD_COMPILE_DEFAULT);
        CHECK(hod_random_begin(5, 1, NULL) == 0);
        for (int i = 0; i < 8; i++)
            CHECK(hod_fn_call(f, &x, y[eager][i]) == 0);
        EQ_INT(hod_fn_report(f).traces, !eager);
        hod_fn_free(f);
    }
    for (int i = 0; i < 8; i++) {
        NEAR(apart(y[0][i][0], y[1][i][0]), 0, CLOSE);
        NEAR(apart(y[0][i][1], y[1][i][1]), 0, CLOSE);
        CHECK(apart(y[0][i][0], y[0][i][1]) > .1);
        for (int j = 0; j < i; j++)
            CHECK(apart(y[0][i][0], y[0][j][0]) > .1);
    }
}

static int inner_body(void *job, hod_tensor *const *in, hod_tensor **out)
{
    out[0] = loss_of(job, in[0]);
    return 0;
}

static int differentiable_gradient(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_zero_grad(s->w);
    out[0] = loss_of(s, in[0]);
    return hod_backward_with(out[0], HOD_ONES, .create_graph = true);
}
TWINS(compile_sound_gradient_keeps_its_history, differentiable_gradient, 1, 1, 0)

/* What the tape would have refused is refused after a replay went without one. */
static int wrong_later(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    out[0] = hod_sum(hod_mul(s->w, s->s));
    if (s->host == 1 && hod_backward(out[0]) != 0)
        return -1;
    if (!hod__assign(s->s, in[0]))
        return -1;
    if (s->calls++ < 2) {
        out[0] = hod_detach(out[0]);
        return 0;
    }
    return hod_backward(out[0]);
}

TEST(compile_sound_what_is_wrong_is_refused_late)
{
    for (int consumed = 0; consumed < 2; consumed++) {
        HOD_SCOPE(s);
        state a = state_new();
        a.host = consumed;
        hod_fn *f = hod_compile(wrong_later, &a, .inputs = 1, .outputs = 1);
        hod_tensor *x = row(6, 1), *y;
        for (int i = 0; i < 2; i++)
            CHECK(hod_fn_call(f, &x, &y) == 0);
        CHECK(hod_fn_call(f, &x, &y) == -1);
        if (!strstr(hod_error(), consumed ? "was consumed by an earlier" : "changed in place"))
            FAIL("%s", hod_error());
        hod_error_take(NULL);
        hod_fn_free(f);
        state_free(&a);
    }
}

/* Whether the tape listens is a part of what was recorded. */
TEST(compile_sound_results_know_whether_they_want_gradients)
{
    HOD_SCOPE(s);
    state a = state_new();
    hod_fn *f = hod_compile(inner_body, &a, .inputs = 1, .outputs = 1);
    hod_tensor *x = row(6, 1), *y;
    for (int i = 0; i < 6; i++) {
        hod_grad_mode off;
        hod_no_grad_begin(&off);
        if (i % 2)
            hod_grad_mode_end(&off);
        CHECK(hod_fn_call(f, &x, &y) == 0);
        if (i % 2 == 0)
            hod_grad_mode_end(&off);
        EQ_INT(hod_tensor_requires_grad(y), i % 2);
    }
    EQ_INT(hod_fn_report(f).traces, 2);
    hod_fn_free(f);
    state_free(&a);
}

/* ---- a leaf that changes from call to call ---- */

static int on_leaf(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    out[0] = hod_sum(hod_square(hod_mul(in[0], in[1])));
    return hod_backward(out[0]);
}

TEST(compile_sound_gradient_goes_to_the_leaf_of_this_call)
{
    HOD_SCOPE(s);
    hod_fn *f = hod_compile(on_leaf, NULL, .inputs = 2, .outputs = 1);
    for (int i = 0; i < 3; i++) {
        hod_tensor *w = hod_requires_grad(row(6, 1 + i), true), *v, *y;
        v = hod_requires_grad(row(6, 1 + i), true);
        hod_tensor *x = row(6, .5);
        CHECK(hod_fn_call(f, (hod_tensor *[]){x, w}, &y) == 0);
        CHECK(on_leaf(NULL, (hod_tensor *[]){x, v}, &y) == 0);
        NEAR(apart(hod_grad(w), hod_grad(v)), 0, CLOSE);
    }
    EQ_INT(hod_fn_report(f).traces, 1);
    hod_fn_free(f);
}

/* An input with a history of its own: gradients flow on into it. */
TEST(compile_sound_history_from_outside)
{
    HOD_SCOPE(s);
    hod_tensor *w = hod_requires_grad(row(6, 1), true), *v = hod_requires_grad(row(6, 1), true);
    hod_fn *f = hod_compile(on_leaf, NULL, .inputs = 2, .outputs = 1);
    for (int i = 0; i < 4; i++) {
        HOD_SCOPE(t);
        hod_tensor *y, *x = row(6, .5 + i);
        CHECK(hod_fn_call(f, (hod_tensor *[]){x, hod_tanh(w)}, &y) == 0);
        CHECK(on_leaf(NULL, (hod_tensor *[]){x, hod_tanh(v)}, &y) == 0);
        NEAR(apart(hod_grad(w), hod_grad(v)), 0, CLOSE * 100);
    }
    EQ_INT(hod_fn_report(f).traces, 2); /* the first gradient of w, and those added to it */
    hod_fn_free(f);
}

/* ---- inputs that are each other ---- */

static int two_inputs(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    hod__assign(in[0], hod_mul_scalar(in[1], 2));
    out[0] = hod_add(in[0], in[1]);
    return 0;
}

TEST(compile_sound_inputs_may_be_one_tensor)
{
    HOD_SCOPE(s);
    hod_fn *f = hod_compile(two_inputs, NULL, .inputs = 2, .outputs = 1);
    for (int i = 0; i < 9; i++) {
        hod_tensor *a = row(6, 1 + i), *b = row(6, 2 + i), *y, *e;
        hod_tensor *c = row(6, 1 + i), *d = row(6, 2 + i);
        if (i % 3 == 1) { /* the same tensor */
            b = a, d = c;
        } else if (i % 3 == 2) { /* two views of one memory, shifted */
            hod_tensor *m = row(7, 1 + i), *n = row(7, 1 + i);
            a = hod_slice(m, 0, 0, 6), b = hod_slice(m, 0, 1, 7);
            c = hod_slice(n, 0, 0, 6), d = hod_slice(n, 0, 1, 7);
        }
        CHECK(hod_fn_call(f, (hod_tensor *[]){a, b}, &y) == 0);
        CHECK(two_inputs(NULL, (hod_tensor *[]){c, d}, &e) == 0);
        NEAR(apart(y, e), 0, CLOSE);
        NEAR(apart(a, c), 0, CLOSE);
    }
    hod_fn_free(f);
}

/* ---- failures ---- */

typedef struct failing {
    state s;
    int mode;
} failing;

static int fails(void *job, hod_tensor *const *in, hod_tensor **out)
{
    failing *j = job;
    state *s = &j->s;
    hod_tensor *l = loss_of(s, in[0]);
    if (j->mode == 1)
        return -1;
    if (hod_backward(l) != 0)
        return -1;
    hod__assign(s->s, hod_add(s->s, in[0]));
    if (j->mode == 2)
        return hod_add(l, row(3, 1)) && hod_matmul(l, l) ? 0 : -1;
    if (j->mode == 3 && hod_item(l) > 0)
        return -1;
    out[0] = l;
    if (j->mode == 4)
        out[0] = NULL;
    return 0;
}

TEST(compile_sound_failures_leave_no_trace)
{
    HOD_SCOPE(s);
    failing a = {.s = state_new()}, b = {.s = state_new()};
    hod_fn *f = hod_compile(fails, &a, .inputs = 1, .outputs = 1);
    hod_tensor *x = row(6, 1), *y, *e;
    for (int i = 0; i < 15; i++) {
        a.mode = i % 5;
        if (a.mode == 0) {
            CHECK(hod_fn_call(f, &x, &y) == 0);
            CHECK(fails(&b, &x, &e) == 0);
            NEAR(apart(y, e), 0, CLOSE);
        } else {
            CHECK(hod_fn_call(f, &x, &y) == -1);
            CHECK(hod_error_take(NULL));
            CHECK(y == NULL);
            if (a.mode == 3) { /* the part before the break had run */
                CHECK(fails(&b, &x, &e) == 0);
            }
        }
        if (hod_grad(b.s.w))
            NEAR(apart(hod_grad(a.s.w), hod_grad(b.s.w)), 0, CLOSE * 100);
        NEAR(apart(a.s.s, b.s.s), 0, CLOSE * 100);
    }
    hod_fn_free(f);
    state_free(&a.s);
    state_free(&b.s);
}

/* The n-th allocation fails, for all n: an error, and the next call is right. */
static int allocates(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_tensor *h = loss_of(s, hod_reshape(hod_reshape(in[0], HOD_SHAPE(2, 3)), HOD_SHAPE(6)));
    if (!hod__assign(s->s, hod_add(s->s, in[0])))
        return -1;
    s->host = hod_item(h);
    out[0] = hod_mul_scalar(h, 2);
    return hod_backward(out[0]);
}

TEST(compile_sound_allocation_failures)
{
    HOD_SCOPE(s);
    hod_tensor *x = row(6, 1);
    int failures = 0;
    for (int64_t n = 0, done = 0; done < 20; n++) {
        HOD_SCOPE(t);
        state a = state_new(), b = state_new();
        hod_fn *f = hod_compile(allocates, &a, .inputs = 1, .outputs = 1);
        hod_tensor *y, *e;
        hod__alloc_fail_after = n;
        int rc = f ? hod_fn_call(f, &x, &y) : -1;
        hod__alloc_fail_after = -1;
        done += rc == 0;
        failures += rc != 0;
        if ((rc != 0) != (hod_error() != NULL))
            FAIL("allocation %d: %d, %s", (int)n, rc, hod_error());
        hod_error_take(NULL);
        /* What ran before the break stays done: start the states from the same place again. */
        hod__assign(a.s, b.s);
        hod_zero_grad(a.w);
        for (int i = 0; f && i < 3; i++) {
            CHECK(hod_fn_call(f, &x, &y) == 0);
            CHECK(allocates(&b, &x, &e) == 0);
            NEAR(apart(y, e), 0, CLOSE);
            NEAR(apart(a.s, b.s), 0, CLOSE);
            if (!hod_grad(a.w))
                FAIL("no gradient after failed allocation %d, call %d", (int)n, i);
            NEAR(apart(hod_grad(a.w), hod_grad(b.w)), 0, CLOSE);
        }
        hod_fn_free(f);
        state_free(&a);
        state_free(&b);
    }
    CHECK(failures > 50);
}

static int survives_an_error(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    hod_tensor *h = hod_exp(in[0]);
    if (!hod_matmul(h, row(4, 1)))
        hod_error_take(NULL);
    out[0] = hod_mul(h, h);
    return 0;
}
TWINS(compile_sound_operator_refused_and_survived, survives_an_error, 1, 1, 0)

TEST(compile_sound_value_of_a_dead_call_is_an_error)
{
    HOD_SCOPE(s);
    hod_fn *f = hod_compile(read_write_read, NULL, .inputs = 0, .outputs = 0);
    hod_tensor *x = hod_placeholder(HOD_F32, HOD_SHAPE(2, 3));
    float v[6];
    ERROR_IS("read: the values of this (2,3) tensor were never computed", hod_read_floats(x, v, 6));
    hod_fn_free(f);
}

/* ---- nesting, threads ---- */

typedef struct nested {
    state s;
    hod_fn *inner;
} nested;

static int outer_body(void *job, hod_tensor *const *in, hod_tensor **out)
{
    nested *n = job;
    hod_tensor *l;
    if (hod_fn_call(n->inner, in, &l) != 0)
        return -1;
    out[0] = hod_mul_scalar(l, 2);
    return hod_backward(out[0]);
}

TEST(compile_sound_nested_function_is_a_part_of_the_outer)
{
    HOD_SCOPE(s);
    nested a = {.s = state_new()}, b = {.s = state_new()};
    a.inner = hod_compile(inner_body, &a.s, .inputs = 1, .outputs = 1);
    b.inner = hod_compile(inner_body, &b.s, .inputs = 1, .outputs = 1, .mode = HOD_COMPILE_EAGER);
    run_twins((twin){outer_body, &a, &b, 1, 4, 1, 0});
    NEAR(apart(hod_grad(a.s.w), hod_grad(b.s.w)), 0, CLOSE);
    EQ_INT(hod_fn_report(a.inner).traces, 0);
    hod_fn_free(a.inner);
    hod_fn_free(b.inner);
    state_free(&a.s);
    state_free(&b.s);
}

static void *thread_body(void *shared)
{
    state *s = shared;
    hod_fn *f = hod_compile(inner_body, s, .inputs = 1, .outputs = 1);
    for (int i = 0; i < 200; i++) {
        HOD_SCOPE(scope);
        HOD_NO_GRAD(n);
        hod_tensor *x = row(6, 1 + i % 7), *y, *e;
        CHECK(hod_fn_call(f, &x, &y) == 0);
        CHECK(inner_body(s, &x, &e) == 0);
        NEAR(apart(y, e), 0, CLOSE * 100);
    }
    EQ_INT(hod_fn_report(f).traces, 1);
    hod_fn_free(f);
    return NULL;
}

/* Two threads compile functions over the same parameters: the hints on tensors collide. */
TEST(compile_sound_two_threads_share_parameters)
{
    HOD_SCOPE(scope);
    state s = state_new();
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&t[i], NULL, thread_body, &s) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    state_free(&s);
}

/* ---- limits ---- */

static int many_traces(void *job, hod_tensor *const *in, hod_tensor **out)
{
    out[0] = hod_mul_scalar(in[0], 1 + ((state *)job)->calls++ % 6);
    return 0;
}

TEST(compile_sound_trace_limit_falls_back)
{
    HOD_SCOPE(s);
    state a = {0}, b = {0};
    fclose(stderr); /* the warning is not ours to check here */
    hod_fn *f = hod_compile(many_traces, &a, .inputs = 1, .outputs = 1, .max_traces = 3);
    for (int i = 0; i < 18; i++) {
        hod_tensor *x = row(6, 1), *y, *e;
        CHECK(hod_fn_call(f, &x, &y) == 0);
        CHECK(many_traces(&b, &x, &e) == 0);
        NEAR(apart(y, e), 0, CLOSE);
    }
    EQ_INT(hod_fn_report(f).traces, 3);
    hod_fn_free(f);
}

/* ---- prepare ---- */

TEST(compile_sound_prepare_runs_nothing)
{
    HOD_SCOPE(s);
    state a = state_new(), b = state_new();
    hod_fn *f = hod_compile(descend, &a, .inputs = 1, .outputs = 1, .fullgraph = true);
    hod_tensor *x = hod_placeholder(HOD_F32, HOD_SHAPE(6)), *y, *e;
    uint32_t version = hod_tensor_version(a.w);
    if (hod_fn_prepare(f, &x) != 0)
        FAIL("%s", hod_error());
    CHECK(hod_grad(a.w) == NULL);
    EQ_INT(hod_tensor_version(a.w), version);
    NEAR(apart(a.w, b.w), 0, 0);
    EQ_INT(hod_fn_report(f).traces, 1);
    ERROR_IS("step: input 0 is a placeholder", hod_fn_call(f, &x, &y));
    x = row(6, 1);
    for (int i = 0; i < 3; i++) {
        CHECK(hod_fn_call(f, &x, &y) == 0);
        CHECK(descend(&b, &x, &e) == 0);
        NEAR(apart(y, e), 0, CLOSE);
        NEAR(apart(a.w, b.w), 0, CLOSE);
    }
    EQ_INT(hod_fn_report(f).traces, 1);
    hod_fn_free(f);
    state_free(&a);
    state_free(&b);
}

/* ---- static mode ---- */

/* With `host` set, the body clears the gradient itself and is called every time. */
static int counted(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    s->calls++;
    if (s->host != 0)
        hod_zero_grad(s->w);
    out[0] = loss_of(s, in[0]);
    if (hod_backward(out[0]) != 0)
        return -1;
    HOD_NO_GRAD(n);
    return hod__assign(s->w, hod_sub(s->w, hod_mul_scalar(hod_grad(s->w), .1))) ? 0 : -1;
}

TEST(compile_sound_static_mode_skips_the_body)
{
    HOD_SCOPE(s);
    for (int clears = 0; clears < 2; clears++) {
        state a = state_new(), b = state_new();
        a.host = b.host = clears;
        hod_fn *f = hod_compile(counted, &a, .inputs = 1, .outputs = 1,
                                .mode = HOD_COMPILE_REDUCE_OVERHEAD);
        for (int i = 0; i < 6; i++) {
            hod_tensor *x = row(6, 1 + .1 * i), *y, *e;
            CHECK(hod_fn_call(f, &x, &y) == 0);
            CHECK(counted(&b, &x, &e) == 0);
            NEAR(apart(y, e), 0, CLOSE);
            NEAR(apart(a.w, b.w), 0, CLOSE);
            NEAR(apart(hod_grad(a.w), hod_grad(b.w)), 0, CLOSE);
            EQ_INT(hod_tensor_version(a.w), hod_tensor_version(b.w));
        }
        EQ_INT(a.calls, clears ? 6 : 1);
        hod_fn_free(f);
        state_free(&a);
        state_free(&b);
    }
}

static int not_static(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    s->calls++;
    out[0] = s->calls < 3   ? hod_exp(in[0])
             : s->calls < 5 ? hod_mul(hod_exp(in[0]), row(6, 1))
                            : hod_tanh(in[0]);
    return 0;
}

TEST(compile_sound_static_promise_is_checked)
{
    HOD_SCOPE(s);
    state a = {0};
    setenv("HOD_CHECK_STATIC", "1", 1);
    hod_fn *f =
        hod_compile(not_static, &a, .inputs = 1, .outputs = 1, .mode = HOD_COMPILE_REDUCE_OVERHEAD);
    hod_tensor *x = row(6, 1), *y;
    CHECK(hod_fn_call(f, &x, &y) == 0);
    CHECK(hod_fn_call(f, &x, &y) == 0);
    ERROR_IS("step: not static: this call took another way than the one before",
             hod_fn_call(f, &x, &y));
    hod_fn_free(f);
}

/* ---- debugging switches, views of a function, shared arenas ---- */

TEST(compile_sound_spans_can_be_checked)
{
    setenv("HOD_CHECK_SPANS", "1", 1);
    HOD_SCOPE(s);
    state a = state_new(), b = state_new();
    run_twins((twin){descend, &a, &b, 1, 4, 1, 0});
    NEAR(apart(a.w, b.w), 0, CLOSE);
    run_twins((twin){break_between, &a, &b, 1, 6, 2, 1});
    state_free(&a);
    state_free(&b);
}

TEST(compile_sound_everything_can_be_printed)
{
    HOD_SCOPE(s);
    state a = state_new();
    hod_fn *f = hod_compile(break_between, &a, .inputs = 1, .outputs = 1, .name = "train");
    hod_tensor *x = row(6, 1), *y;
    ERROR_IS("train: not compiled yet", hod_fn_print(f, HOD_FN_TRACE, stdout));
    CHECK(hod_fn_call(f, &x, &y) == 0);
    const char *expect[] = {"graph train {", "graph train {", "program train {", "void k_", "<svg"};
    for (int view = 0; view <= HOD_FN_TIMELINE && !interpreted(); view++) {
        char *text = NULL;
        size_t n = 0;
        FILE *to = open_memstream(&text, &n);
        CHECK(hod_fn_print(f, (hod_fn_view)view, to) == 0);
        fclose(to);
        if (!strstr(text, expect[view]))
            FAIL("view %d shows no %s: %.200s", view, expect[view], text);
        free(text);
    }
    ERROR_IS("fn_print: no view 9", hod_fn_print(f, (hod_fn_view)9, stdout));
    hod_fn_free(f);
    state_free(&a);
}

TEST(compile_sound_arena_is_shared)
{
    HOD_SCOPE(s);
    state a = state_new(), b = state_new();
    hod_arena *arena = hod_arena_new();
    hod_fn *f = hod_compile(descend, &a, .inputs = 1, .outputs = 1);
    hod_fn *g = hod_compile(backward_twice, &b, .inputs = 1, .outputs = 2);
    CHECK(hod_fn_set_arena(f, arena) == 0 && hod_fn_set_arena(g, arena) == 0);
    for (int i = 0; i < 3; i++) {
        hod_tensor *x = row(6, 1 + i), *y[2];
        CHECK(hod_fn_call(f, &x, y) == 0 && hod_fn_call(g, &x, y) == 0);
        EQ_INT(hod_arena_bytes(arena),
               HOD_MAX(hod_fn_report(f).arena_bytes, hod_fn_report(g).arena_bytes));
    }
    hod_fn_free(f);
    hod_fn_free(g);
    hod_arena_free(arena);
    state_free(&a);
    state_free(&b);
}

/* ---- nothing is allocated, nothing is slow ---- */

static int long_body(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    hod_tensor *h = in[0];
    for (int i = 0; i < 1000; i++)
        h = hod__op(i % 2 ? HOD_OP_tanh : HOD_OP_neg, &(hod_attrs){0}, 1, &h);
    out[0] = h;
    return 0;
}

TEST(compile_sound_replay_allocates_nothing)
{
    HOD_SCOPE(s);
    if (interpreted())
        SKIP("the slow twin allocates");
    state a = state_new();
    hod_fn *f = hod_compile(descend, &a, .inputs = 1, .outputs = 1, .fullgraph = true);
    hod_tensor *x = row(6, 1);
    int64_t allocations = 0;
    size_t used = 0;
    for (int i = 0; i < 20; i++) {
        HOD_SCOPE(t);
        hod_tensor *y;
        CHECK(hod_fn_call(f, &x, &y) == 0);
        if (i == 4) {
            allocations = hod_memory().allocations;
            used = mallinfo2().uordblks;
        }
    }
    EQ_INT(hod_memory().allocations, allocations);
    EQ_INT((int64_t)mallinfo2().uordblks, (int64_t)used);
    hod_fn_free(f);
    state_free(&a);
}

TEST(compile_sound_nothing_is_left_behind)
{
    int64_t live = hod_memory().allocated;
    {
        HOD_SCOPE(s);
        state a = state_new(), b = state_new();
        run_twins((twin){break_between, &a, &b, 1, 9, 2, 1});
        run_twins((twin){host_reads_state, &a, &b, 1, 3, 1, 2});
        run_twins((twin){view_before_write, &a, &b, 2, 3, 1, 0});
        state_free(&a);
        state_free(&b);
        CHECK(hod_random_begin(0, 0, NULL) == 0);
    }
    CHECK(hod_memory().allocated <= live + 64); /* this thread's random key */
}

TEST(compile_sound_replay_time)
{
    HOD_SCOPE(s);
    hod_fn *f = hod_compile(long_body, NULL, .inputs = 1, .outputs = 1, .fullgraph = true);
    hod_tensor *x = row(1, 1), *y;
    double best = 1e9;
    for (int i = 0; i < 50; i++) {
        HOD_SCOPE(t);
        double begin = hod__seconds();
        CHECK(hod_fn_call(f, &x, &y) == 0);
        if (i)
            best = fmin(best, hod__seconds() - begin);
    }
    printf("    %.1f ns an operator, its kernel's share included\n", best * 1e6);
    hod_fn_free(f);
}

/* ---- anomaly mode ---- */

/* Every gradient is read, so the function breaks at each; what it finds is named as in eager mode. */
static int has_a_nan(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    out[0] = hod_sum(hod_mul_scalar(hod_sqrt(in[0]), 0));
    return hod_backward(out[0]);
}

TEST(compile_sound_anomaly_mode_names_the_forward_call)
{
    HOD_SCOPE(s);
    hod_tensor *x = hod_requires_grad(hod_zeros(HOD_F32, HOD_SHAPE(3)), true), *y;
    hod_fn *f = hod_compile(has_a_nan, NULL, .inputs = 1, .outputs = 1);
    EQ_INT(hod_fn_call(f, &x, &y), 0);
    CHECK(isnan(hod_item(hod_select(hod_grad(x), 0, 0))));
    for (int i = 0; i < 2; i++) { /* recorded, then replayed */
        hod_zero_grad(x);
        hod_detect_anomaly(true);
        EQ_INT(hod_fn_call(f, &x, &y), -1);
        hod_detect_anomaly(false);
        CHECK(strstr(hod_error(), "backward of sqrt"));
        CHECK(strstr(hod_error(), "the gradient for input 0 (3) is NaN at element 0"));
        hod_error_take(NULL);
    }
    hod_zero_grad(x);
    EQ_INT(hod_fn_call(f, &x, &y), 0); /* and off again it is what it was */
    EQ_INT(hod_fn_report(f).graph_breaks, 0);
    hod_fn_free(f);
}
