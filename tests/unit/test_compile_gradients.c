/* Compiled functions and the tape: gradients that add up, are cleared, kept,
 * differentiated again. */
#include "base/scope.h"
#include "compile_twins.h"
#include <string.h>

static int backward_twice(void *job, hod_tensor *const *in, hod_tensor **out)
{
    out[0] = loss_of(job, in[0]);
    out[1] = hod_sum(hod_exp(hod_mul(((state *)job)->w, in[0])));
    return hod_backward(out[0]) == 0 ? hod_backward(out[1]) : -1;
}
TWINS(compile_gradients_two_losses_in_one_step, backward_twice, 2, 1, 0)

static int retained_graph(void *job, hod_tensor *const *in, hod_tensor **out)
{
    out[0] = loss_of(job, in[0]);
    return hod_backward_with(out[0], HOD_ONES, .retain_graph = true) == 0 ? hod_backward(out[0])
                                                                          : -1;
}
TWINS(compile_gradients_graph_retained, retained_graph, 1, 1, 0)

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
TWINS(compile_gradients_cleared_in_between, clear_between, 2, 1, 1)

static int clear_first(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_zero_grad(s->w);
    out[0] = loss_of(s, in[0]);
    return hod_backward(out[0]);
}
TWINS(compile_gradients_cleared_first, clear_first, 1, 1, 0)

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
TWINS(compile_gradients_used_and_cleared, clear_last, 1, 1, 0)

static int host_reads_gradient(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    out[0] = loss_of(s, in[0]);
    if (hod_backward(out[0]) != 0)
        return -1;
    s->host += hod_item(hod_sum(hod_grad(s->w)));
    return 0;
}
TWINS(compile_gradients_host_reads_gradient, host_reads_gradient, 1, 1, 1)

TWINS(compile_gradients_descends, descend, 1, 1, 0)

static int gradient_as_value(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_tensor *l = loss_of(s, in[0]);
    if (hod_grad_of(l, 1, &s->w, out, HOD_ONES, .create_graph = true) != 0)
        return -1;
    out[1] = hod_sum(hod_square(out[0]));
    return hod_backward(out[1]);
}
TWINS(compile_gradients_second_derivative, gradient_as_value, 2, 1, 0)

static int given_gradient(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    out[0] = hod_mul(hod_tanh(s->w), in[0]);
    return hod_backward_with(out[0], hod_mul_scalar(in[0], 1 + s->calls++ % 2));
}
TWINS(compile_gradients_given, given_gradient, 1, 2, 0)

static int inner_leaf(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    hod_tensor *leaf = hod_requires_grad(hod_detach(hod_mul_scalar(in[0], 2)), true);
    if (hod_backward(hod_sum(hod_square(leaf))) != 0)
        return -1;
    out[0] = hod_mul_scalar(hod_grad(leaf), 1);
    return 0;
}
TWINS(compile_gradients_leaf_made_inside, inner_leaf, 1, 1, 0)

static int kept_gradient(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_tensor *h = hod_mul(s->w, in[0]);
    if (hod_retain_grad(h) != 0 || hod_backward(hod_sum(hod_exp(h))) != 0)
        return -1;
    out[0] = hod_mul_scalar(hod_grad(h), 1);
    return 0;
}
TWINS(compile_gradients_of_a_result_kept, kept_gradient, 1, 1, 0)

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
TWINS(compile_gradients_branch_between_forward_and_backward, branch_before_backward, 1, 2, 0)

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
TWINS(compile_gradients_branch_after_backward, branch_after_backward, 2, 2, 0)

TWINS(compile_gradients_break_between_forward_and_backward, break_between, 1, 2, 1)

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
TWINS(compile_gradients_hook_added_later, hooked, 1, 2, 1)

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
TWINS(compile_gradients_checkpoint, with_checkpoint, 1, 1, 0)

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
TWINS(compile_gradients_no_grad_toggles, toggles_grad, 1, 2, 0)

static int differentiable_gradient(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_zero_grad(s->w);
    out[0] = loss_of(s, in[0]);
    return hod_backward_with(out[0], HOD_ONES, .create_graph = true);
}
TWINS(compile_gradients_keep_their_history, differentiable_gradient, 1, 1, 0)

static int product_with_leaf(void *job, hod_tensor *const *in, hod_tensor **out)
{
    out[0] = hod_sum(hod_linear_nobias(in[0], job));
    return hod_backward(out[0]);
}

/* The product that makes the gradient adds itself to the sum, but an empty one does not run. */
TEST(compile_gradients_of_an_empty_batch)
{
    HOD_SCOPE(s);
    hod_tensor *w = hod_requires_grad(hod_full(HOD_F32, HOD_SHAPE(2, 3), 1), true), *y;
    hod_tensor *x[] = {hod_full(HOD_F32, HOD_SHAPE(0, 3), 1),
                       hod_full(HOD_F32, HOD_SHAPE(4, 3), 1)};
    hod_fn *f = hod_compile(product_with_leaf, w, .inputs = 1, .outputs = 1);
    double expect[] = {0, 4, 4};
    for (int i = 0; i < 3; i++) {
        CHECK(hod_fn_call(f, &x[i % 2], &y) == 0);
        CHECK(hod_grad(w) != NULL);
        NEAR(apart(hod_grad(w), hod_full(HOD_F32, HOD_SHAPE(2, 3), expect[i])), 0, 0);
    }
    hod_fn_free(f);
}

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

TEST(compile_gradients_what_is_wrong_is_refused_late)
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
TEST(compile_gradients_results_know_whether_they_want_gradients)
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

TEST(compile_gradients_go_to_the_leaf_of_this_call)
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
TEST(compile_gradients_history_from_outside)
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

/* ---- anomaly mode ---- */

/* Every gradient is read, so the function breaks at each;
 * what it finds is named as in eager mode. */
static int has_a_nan(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    out[0] = hod_sum(hod_mul_scalar(hod_sqrt(in[0]), 0));
    return hod_backward(out[0]);
}

TEST(compile_gradients_anomaly_mode_names_the_forward_call)
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
