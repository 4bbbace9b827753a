/* Backward through the tape: leaves, sums, lifetimes, in-place changes. The behaviours that
 * carry a number are those of the list that this project keeps (B31, B37, B38, B39). */
#include <hod/functional.h> /* first: with the macros that note places */

#include "autograd/autograd.h"
#include "base/scope.h"
#include "harness.h"
#include <math.h>

static hod_tensor *leaf(double value)
{
    return hod_requires_grad(hod_scalar(value), true);
}

static hod_tensor *leaf_of(hod_shape shape, const double *values)
{
    return hod_requires_grad(hod_from_doubles(values, shape), true);
}

static void near_all(hod_tensor *t, const double *want, int64_t n, double tol)
{
    double got[64];
    CHECK(t && n <= 64);
    EQ_INT(hod_read_doubles(t, got, n), 0);
    for (int64_t i = 0; i < n; i++)
        NEAR(got[i], want[i], tol);
}

TEST(backward_sums_consumers_and_calls)
{
    hod_tensor *w = leaf(3);
    hod_tensor *y = hod_add(hod_mul(w, w), hod_mul_scalar(w, 5)); /* dy/dw = 2w + 5 */
    EQ_INT(hod_backward(y), 0);
    NEAR(hod_item(hod_grad(w)), 11, 0);
    EQ_INT(hod_backward(hod_mul_scalar(w, 2)), 0);
    NEAR(hod_item(hod_grad(w)), 13, 0);
    hod_zero_grad(w);
    CHECK(!hod_grad(w) && !hod_error());
}

TEST(backward_b31_unbroadcasts)
{
    hod_tensor *a = leaf_of(HOD_SHAPE(3, 1), (double[]){1, 2, 3});
    hod_tensor *b = leaf_of(HOD_SHAPE(1, 2), (double[]){10, 20});
    EQ_INT(hod_backward(hod_sum(hod_mul(a, b))), 0);
    near_all(hod_grad(a), (double[]){30, 30, 30}, 3, 0);
    near_all(hod_grad(b), (double[]){6, 6}, 2, 0);
    EQ_INT(hod_tensor_ndim(hod_grad(a)), 2);
    hod_tensor *s = leaf(1);
    EQ_INT(hod_backward(hod_sum(hod_mul(s, hod_full(HOD_F32, HOD_SHAPE(2, 3), 1)))), 0);
    NEAR(hod_item(hod_grad(s)), 6, 0);
}

/* B31: elements that share memory are not written to. */
TEST(backward_b31_overlapping_elements_are_not_written)
{
    hod_tensor *one = hod_from_doubles((double[]){1}, HOD_SHAPE(1));
    hod_tensor *x = hod_expand(one, HOD_SHAPE(4));
    ERROR_IS("assign: elements of (4) share memory; copy it first",
             hod__assign(x, hod_add(x, hod_from_doubles((double[]){1, 2, 3, 4}, HOD_SHAPE(4)))));
    NEAR(hod_item(one), 1, 0);
}

TEST(backward_b37_absent_stays_absent)
{
    hod_tensor *used = leaf(1), *unused = leaf(1), *zero = leaf(1);
    EQ_INT(hod_backward(hod_add(used, hod_mul_scalar(zero, 0))), 0);
    CHECK(hod_grad(used) && !hod_grad(unused));
    NEAR(hod_item(hod_grad(zero)), 0, 0);
}

TEST(backward_b38_sees_in_place_changes_through_aliases)
{
    hod_tensor *a = leaf_of(HOD_SHAPE(3), (double[]){1, 2, 3});
    hod_tensor *s = hod_sigmoid(a), *y = hod_sum(s);
    CHECK(hod_tensor_mutable_data(hod_detach(s)));
    EQ_INT(hod_backward(y), -1);
    CHECK(strstr(hod_error(), "backward of sigmoid"));
    const char *made = strstr(hod_error(), "test_backward.c:");
    const char *changed = strstr(made, ": its result f64 (3) was changed in place by ");
    CHECK(strstr(changed, "test_backward.c:"));
    CHECK(strstr(changed, ": version 1, saved at version 0"));
    hod_error_take(NULL);
    CHECK(!hod_grad(a));
}

TEST(backward_b39_retained_graphs_add_exactly)
{
    hod_tensor *w = leaf(5);
    hod_tensor *z = hod_mul_scalar(hod_mul_scalar(w, 2), 3);
    EQ_INT(hod_backward_with(z, HOD_ONES, .retain_graph = true), 0);
    EQ_INT(hod_backward_with(z, HOD_ONES, .retain_graph = true), 0);
    NEAR(hod_item(hod_grad(w)), 12, 0);
}

TEST(backward_b39_second_call_is_refused_for_every_operator)
{
    hod_tensor *w = leaf_of(HOD_SHAPE(2), (double[]){1, 2});
    hod_tensor *saves_nothing = hod_sum(w), *saves = hod_sum(hod_exp(w));
    EQ_INT(hod_backward(saves_nothing), 0);
    EQ_INT(hod_backward(saves_nothing), -1);
    CHECK(strstr(hod_error(), "backward: the graph of sum at "));
    CHECK(strstr(hod_error(),
                 " was consumed by an earlier backward; use .retain_graph in that one to "
                 "go through it again"));
    hod_error_take(NULL);
    EQ_INT(hod_backward(saves), 0);
    CHECK(hod_backward(saves) != 0);
    hod_error_take(NULL);
    near_all(hod_grad(w), (double[]){1 + exp(1), 1 + exp(2)}, 2, 1e-12);
}

/* A shared trunk that is gone is noticed before any leaf has received anything. */
TEST(backward_refuses_before_it_changes_anything)
{
    hod_tensor *w = leaf(2), *v = leaf(3);
    hod_tensor *trunk = hod_exp(w);
    EQ_INT(hod_backward(trunk), 0);
    double before = hod_item(hod_grad(w));
    CHECK(hod_backward(hod_mul(trunk, v)) != 0);
    hod_error_take(NULL);
    CHECK(!hod_grad(v));
    NEAR(hod_item(hod_grad(w)), before, 0);
}

TEST(backward_b39_running_loss_keeps_nothing)
{
    int64_t at_ten = 0;
    hod_tensor *w = leaf_of(HOD_SHAPE(64), (double[64]){1});
    double running = 0;
    for (int i = 0; i < 1000; i++) {
        HOD_SCOPE(s);
        hod_tensor *loss = hod_sum(hod_exp(hod_mul(w, w)));
        running += hod_item(loss);
        EQ_INT(hod_backward(loss), 0);
        if (i == 10)
            at_ten = hod_memory().allocated;
        if (i == 999) /* the same place of the loop */
            EQ_INT(hod_memory().allocated, at_ten);
    }
    CHECK(running > 0);
    hod_memory_reset_peak();
    EQ_INT(hod_memory().allocated_peak, hod_memory().allocated);
}

TEST(backward_wants_a_single_value_or_a_gradient)
{
    hod_tensor *w = leaf_of(HOD_SHAPE(2), (double[]){1, 2});
    hod_tensor *y = hod_mul(w, w);
    ERROR_IS("backward: (2) is not a single value; give the gradient of its elements",
             hod_backward(y));
    ERROR_IS("backward: a gradient of (3) for a result of (2)",
             hod_backward_with(y, hod_zeros(HOD_F64, HOD_SHAPE(3))));
    EQ_INT(hod_backward_with(y, hod_from_doubles((double[]){10, 100}, HOD_SHAPE(2))), 0);
    near_all(hod_grad(w), (double[]){20, 400}, 2, 0);
    ERROR_IS("backward: () does not depend on anything that requires a gradient",
             hod_backward(hod_scalar(1)));
    ERROR_IS("backward: tensor is NULL", hod_backward(NULL));
}

/* Steps have no slope: what is cast to integers or bools depends on nothing. */
TEST(backward_does_not_pass_integers)
{
    hod_tensor *w = leaf_of(HOD_SHAPE(2), (double[]){1.5, -2});
    for (hod_dtype type = HOD_I64; type < HOD_DTYPES; type++) {
        hod_tensor *whole = hod_cast(w, type);
        CHECK(!hod_tensor_requires_grad(whole));
        hod_tensor *y = hod_sum(hod_mul(w, hod_cast(whole, HOD_F64))), *g;
        CHECK(hod_grad_of(y, 1, &w, &g, HOD_ONES) == 0);
        NEAR(hod_item(hod_select(g, 0, 0)), 1, 0);
    }
    ERROR_IS("backward: () does not depend on anything that requires a gradient",
             hod_backward(hod_sum(hod_cast(hod_cast(w, HOD_I32), HOD_F64))));
}

TEST(backward_of_a_leaf_is_its_seed)
{
    hod_tensor *w = leaf(4);
    EQ_INT(hod_backward(w), 0);
    NEAR(hod_item(hod_grad(w)), 1, 0);
}

TEST(backward_detach_and_no_grad_cut)
{
    hod_tensor *w = leaf(2);
    hod_tensor *y = hod_mul(hod_detach(hod_exp(w)), w);
    EQ_INT(hod_backward(y), 0);
    NEAR(hod_item(hod_grad(w)), exp(2), 1e-6); /* f32 */
    {
        HOD_NO_GRAD(off);
        CHECK(!hod_grad_enabled());
        CHECK(!hod_tensor_requires_grad(hod_mul(w, w)));
    }
    CHECK(hod_grad_enabled() && hod_tensor_requires_grad(hod_mul(w, w)));
}

TEST(backward_gradient_modes_end_in_order)
{
    hod_grad_mode outer, inner;
    hod_no_grad_begin(&outer);
    hod_with_grad_begin(&inner);
    hod_grad_mode_end(&outer); /* and with it the inner one */
    CHECK(hod_error() && hod_grad_enabled());
    EQ_STR(hod_error(), "gradient mode: it ends before one that was opened inside");
    hod_error_take(NULL);
    const char *ended = "gradient mode: it has ended already, or belongs to another thread";
    hod_grad_mode *twice[] = {&inner, &outer};
    for (int i = 0; i < 2; i++) {
        HOD_NO_GRAD(around);
        hod_grad_mode_end(twice[i]);
        EQ_STR(hod_error(), ended);
        hod_error_take(NULL);
        CHECK(!hod_grad_enabled());
    }
    CHECK(hod_grad_enabled());
}

TEST(backward_inference_results_stay_out_of_training)
{
    hod_tensor *w = leaf(2), *made, *view;
    {
        HOD_INFERENCE(off);
        made = hod_mul_scalar(w, 3);
        CHECK(!hod_grad_enabled() && !hod_tensor_requires_grad(made));
        ERROR_IS("backward: called in an inference scope", hod_backward(w));
        {
            HOD_WITH_GRAD(on);
            EQ_INT(hod_backward(hod_mul(w, w)), 0);
        }
        CHECK(!hod_grad_enabled());
    }
    NEAR(hod_item(hod_grad(w)), 4, 0);
    view = hod_reshape(made, HOD_SHAPE(1));
    ERROR_IS("requires_grad: () was made in an inference scope; use a copy of it",
             hod_requires_grad(made, true));
    ERROR_IS("mul: f32 (1) was made in an inference scope, and a derivative would read it; use a "
             "copy of it",
             hod_mul(w, view));
    CHECK(hod_add(w, made)); /* its value is not read again */
    CHECK(hod_mul(w, hod_copy(made)));
    CHECK(hod_requires_grad(hod_copy(made), true));
}

TEST(backward_leaf_rules)
{
    hod_tensor *w = leaf(2), *y = hod_mul(w, w);
    CHECK(hod_tensor_is_leaf(w) && !hod_tensor_is_leaf(y));
    ERROR_IS("requires_grad: () is the result of mul; detach it instead",
             hod_requires_grad(y, false));
    ERROR_IS("requires_grad: a tensor of i64 has no gradient",
             hod_requires_grad(hod_from_ints((int64_t[]){1}, HOD_SHAPE(1)), true));
    ERROR_IS(
        "assign: () is a leaf that requires a gradient; change it in a scope without gradients",
        hod__assign(w, hod_scalar(1)));
    hod_tensor *part =
        hod_slice(hod_mul_scalar(leaf_of(HOD_SHAPE(2), (double[]){1, 2}), 2), 0, 0, 1);
    ERROR_IS("assign: (1) is a view (slice) of a tensor that requires a gradient, which would not "
             "see the change",
             hod__assign(part, hod_zeros(HOD_F64, HOD_SHAPE(1))));
    NEAR(hod_item(w), 2, 0);
}

TEST(backward_assign_sends_the_gradient_to_its_source)
{
    hod_tensor *w = leaf(3), *v = leaf(4);
    hod_tensor *t = hod_mul_scalar(w, 1);
    CHECK(hod__assign(t, hod_mul(v, v)));
    EQ_INT(hod_backward(hod_mul_scalar(t, 10)), 0);
    NEAR(hod_item(hod_grad(v)), 80, 0);
    CHECK(!hod_grad(w));
}

TEST(backward_retain_grad_keeps_the_gradient_of_results)
{
    hod_tensor *w = leaf(3), *h = hod_mul(w, w);
    EQ_INT(hod_retain_grad(h), 0);
    EQ_INT(hod_backward(hod_mul_scalar(h, 7)), 0);
    NEAR(hod_item(hod_grad(h)), 7, 0);
    NEAR(hod_item(hod_grad(w)), 42, 0);
}

TEST(backward_second_order)
{
    hod_tensor *x = leaf(2), *g[1];
    hod_tensor *y = hod_mul(x, hod_mul(x, x));
    EQ_INT(hod_grad_of(y, 1, &x, g, HOD_ONES, .create_graph = true), 0);
    NEAR(hod_item(g[0]), 12, 1e-5); /* 3x², f32 */
    CHECK(!hod_grad(x));
    EQ_INT(hod_backward(g[0]), 0);
    NEAR(hod_item(hod_grad(x)), 12, 1e-5); /* 6x */
}

/* With create_graph the gradient in the leaf is a result that can be differentiated again. */
TEST(backward_create_graph_into_leaves)
{
    hod_tensor *x = leaf(3);
    EQ_INT(hod_backward_with(hod_exp(hod_mul_scalar(x, 2)), HOD_ONES, .create_graph = true), 0);
    hod_tensor *g = hod_tensor_retain(hod_grad(x));
    NEAR(hod_item(g), 2 * exp(6), 1e-3); /* f32 at 800 */
    hod_zero_grad(x);
    EQ_INT(hod_backward(g), 0);
    NEAR(hod_item(hod_grad(x)), 4 * exp(6), 1e-3);
    hod_tensor_release(g);
}

TEST(backward_grad_of_chosen_inputs)
{
    hod_tensor *a = leaf(2), *b = leaf(3), *c = leaf(4), *g[3];
    hod_tensor *h = hod_mul(a, b), *y = hod_mul(h, h);
    EQ_INT(hod_grad_of(y, 2, ((hod_tensor *[]){h, a}), g, HOD_ONES, .retain_graph = true), 0);
    NEAR(hod_item(g[0]), 12, 0);
    NEAR(hod_item(g[1]), 36, 0);
    CHECK(!hod_grad(a) && !hod_grad(b));
    ERROR_IS("grad_of: the output does not depend on input 1 (); use .allow_unused if that may be",
             hod_grad_of(y, 2, ((hod_tensor *[]){a, c}), g, HOD_ONES, .retain_graph = true));
    EQ_INT(hod_grad_of(y, 2, ((hod_tensor *[]){a, c}), g, HOD_ONES, .allow_unused = true), 0);
    CHECK(g[0] && !g[1]);
    ERROR_IS("grad_of: inputs 0 and 1 are the same tensor",
             hod_grad_of(y, 2, ((hod_tensor *[]){a, a}), g, HOD_ONES));
}

TEST(backward_anomaly_names_the_forward_call)
{
    hod_tensor *x = leaf(0);
    CHECK(!hod_detect_anomaly(true));
    hod_tensor *y = hod_mul_scalar(hod_sqrt(x), 0);
    EQ_INT(hod_backward(y), -1);
    CHECK(strstr(hod_error(), "backward of sqrt at "));
    CHECK(strstr(hod_error(), "test_backward.c:"));
    CHECK(strstr(hod_error(), "NaN at element 0"));
    hod_error_take(NULL);
    CHECK(hod_detect_anomaly(false));
}

/* A gradient that is not finite when it comes is nobody's fault in the graph. */
static hod_tensor *to_infinity(void *context, hod_tensor *g)
{
    (void)context;
    return hod_div_scalar(g, 0);
}

TEST(backward_anomaly_names_gradients_that_were_given)
{
    hod_tensor *x = leaf_of(HOD_SHAPE(2), (double[]){1, 2}), *y = hod_exp(x);
    CHECK(!hod_detect_anomaly(true));
    hod_tensor *g = hod_from_doubles((double[]){1, NAN}, HOD_SHAPE(2));
    ERROR_IS("backward: the gradient given for (2) is NaN at element 1", hod_backward_with(y, g));
    EQ_INT(hod_add_grad_hook(y, to_infinity, NULL), 0);
    EQ_INT(hod_backward(hod_sum(y)), -1);
    CHECK(strstr(hod_error(), "backward of exp at "));
    CHECK(strstr(hod_error(), "the whole gradient of its result (2) is Inf at element 0"));
    hod_error_take(NULL);
    CHECK(hod_detect_anomaly(false) && !hod_grad(x));
}

TEST(backward_from_several_results)
{
    hod_tensor *a = leaf(2), *b = leaf(3), *y[3], *g[2];
    y[0] = hod_mul(a, b);
    y[1] = hod_mul(y[0], y[0]); /* on the way from one to the other */
    y[2] = a;                   /* a leaf is a result, too */
    hod_tensor *seed[] = {HOD_ONES, hod_scalar(10), hod_scalar(1000)};
    EQ_INT(hod_grad_of_many(3, y, seed, 2, ((hod_tensor *[]){a, b}), g, .retain_graph = true), 0);
    NEAR(hod_item(g[0]), 3 + 10 * 2 * 6 * 3 + 1000, 0);
    NEAR(hod_item(g[1]), 2 + 10 * 2 * 6 * 2, 0);
    CHECK(!hod_grad(a) && !hod_grad(b));
    EQ_INT(hod_backward_many(3, y, seed), 0);
    NEAR(hod_item(hod_grad(a)), hod_item(g[0]), 0);
    NEAR(hod_item(hod_grad(b)), hod_item(g[1]), 0);
    ERROR_IS("backward: 0 results, 1 to 64 are possible", hod_backward_many(0, y, NULL));
}

TEST(backward_graph_can_be_walked)
{
    hod_tensor *w = leaf(3), *y = hod_exp(hod_mul(w, w));
    const hod_grad_node *n = hod_grad_fn(y);
    EQ_STR(hod_grad_node_name(n), "exp");
    EQ_INT(hod_grad_node_inputs(n), 1);
    EQ_STR(hod_grad_node_name(hod_grad_node_next(n, 0)), "mul");
    CHECK(hod_grad_node_leaf(hod_grad_node_next(n, 0), 1) == w);
    const char *file;
    int line;
    hod_grad_node_place(n, &file, &line);
    CHECK(strstr(file, "test_backward.c") && line > 0);
    EQ_INT(hod_grad_node_results(n) + hod_grad_node_next_result(n, 0), 1);
    char text[512] = "";
    FILE *f = fmemopen(text, sizeof text, "w");
    EQ_INT(hod_print_graph(y, f), 0);
    fclose(f);
    CHECK(strstr(text, "%0 = mul(leaf (), leaf ()) -> f32 ()"));
    CHECK(strstr(text, "%1 = exp(%0) -> f32 ()"));
    f = fmemopen(text, sizeof text, "w");
    EQ_INT(hod_print_graph_dot(hod_mul(w, w), f), 0);
    fclose(f);
    CHECK(strstr(text, "n0 [label=\"mul\\nf32 ()\\ntest_backward.c:"));
    char *box = strstr(text, "shape=box");
    CHECK(box && !strstr(box + 1, "shape=box")); /* one box, two arrows */
}

/* Graphviz too: every node and every leaf is met once, however many there are. */
TEST(backward_large_graphs_are_printed_in_time)
{
    enum { NODES = 200000 };
    hod_tensor *y = leaf(1);
    for (int i = 0; i < NODES; i++)
        y = hod_add(y, i % 2 ? leaf(1) : y);
    for (int dot = 0; dot < 2; dot++) {
        char *text;
        size_t bytes, lines = 0;
        FILE *f = open_memstream(&text, &bytes);
        EQ_INT(dot ? hod_print_graph_dot(y, f) : hod_print_graph(y, f), 0);
        fclose(f);
        for (size_t i = 0; i < bytes; i++)
            lines += text[i] == '\n';
        CHECK(strstr(text, dot ? "n199998 -> n199999;" : "%199999 = add(%199998, leaf ())"));
        EQ_INT(lines, dot ? 3 + 3 * NODES + NODES / 2 + 1 : NODES);
        free(text);
    }
}

/* Half the quotients of a network divide by a constant: their results need not stay. */
TEST(backward_quotients_keep_their_result_for_the_divisor_only)
{
    hod_tensor *x = hod_mul_scalar(leaf(6), 1), *y = hod_div(x, hod_scalar(2));
    int own = atomic_load(&x->storage->refs);
    EQ_INT(atomic_load(&y->storage->refs), 1);
    hod_tensor *z = hod_div(hod_scalar(2), x);
    CHECK(atomic_load(&z->storage->refs) > 1 && atomic_load(&x->storage->refs) > own);
}

/* A frozen weight keeps no activation: the derivative for x reads only w. */
TEST(backward_frozen_parameters_save_nothing)
{
    hod_tensor *w = hod_zeros(HOD_F32, HOD_SHAPE(4));
    hod_tensor *x = hod_mul_scalar(leaf(1), 1);
    int before = atomic_load(&x->storage->refs);
    hod_tensor *y = hod_mul(x, w);
    EQ_INT(atomic_load(&x->storage->refs), before);
    EQ_INT(hod_backward(hod_sum(y)), 0);
    CHECK(!hod_grad(w));
}

TEST(backward_deep_graphs_do_not_recurse)
{
    hod_tensor *w = leaf(1), *y = w;
    for (int i = 0; i < 200000; i++) {
        HOD_SCOPE(s);
        hod_tensor *next = hod_add_scalar(y, 0);
        hod_tensor_retain(next);
        if (y != w)
            hod_tensor_release(y);
        y = next;
    }
    EQ_INT(hod_backward_with(y, HOD_ONES, .retain_graph = true), 0);
    NEAR(hod_item(hod_grad(w)), 1, 0);
    hod_tensor_release(y); /* 200000 nodes die in one call */
}

TEST(backward_leaves_nothing_behind)
{
    int64_t bytes = hod_memory().allocated, objects = hod__scope_live();
    {
        HOD_SCOPE(s);
        hod_tensor *w = leaf_of(HOD_SHAPE(3), (double[]){1, 2, 3}), *g[1];
        hod_tensor *y = hod_sum(hod_tanh(hod_mul(hod_exp(w), w)));
        EQ_INT(hod_grad_of(y, 1, &w, g, HOD_ONES, .create_graph = true), 0);
        EQ_INT(hod_backward_with(hod_sum(hod_mul(g[0], g[0])), HOD_ONES, .retain_graph = true), 0);
        EQ_INT(hod_backward_with(y, HOD_ONES, .create_graph = true), 0);
        hod_zero_grad(w);
    }
    EQ_INT(hod_memory().allocated, bytes);
    EQ_INT(hod__scope_live(), objects);
}

/* ---- recomputation ---- */

/* The weight is used outside of the checkpointed function, too: both backwards go through it. */
static hod_tensor *times(void *context, hod_tensor *const *in, int n)
{
    (void)n;
    hod_tensor *w = *(hod_tensor **)context;
    return hod_mul(hod_mul(in[0], w), w);
}

TEST(backward_checkpoint_shares_leaves_with_what_is_around)
{
    hod_tensor *w = leaf(3), *x = leaf(2);
    hod_tensor *y = hod_mul(hod_checkpoint(times, &w, 1, (hod_tensor *[]){hod_mul(x, w)}), w);
    EQ_INT(hod_backward(y), 0); /* x w⁴ */
    NEAR(hod_item(hod_grad(w)), 4 * 2 * 27, 0);
    NEAR(hod_item(hod_grad(x)), 81, 0);
    hod_tensor *again =
        hod_checkpoint(times, &w, 1, (hod_tensor *[]){hod_checkpoint(times, &w, 1, &x)});
    hod_zero_grad(w);
    EQ_INT(hod_backward(again), 0); /* one after the other: x w⁴ */
    NEAR(hod_item(hod_grad(w)), 4 * 2 * 27, 0);
}

/* What fn reads besides its inputs is as good as an input. */
TEST(backward_checkpoint_sees_hidden_inputs)
{
    hod_tensor *x = leaf(2), *hidden = hod_exp(x);
    hod_tensor *y = hod_add(hod_checkpoint(times, &hidden, 1, &x), hidden); /* x e^2x + e^x */
    EQ_INT(hod_backward(y), 0);
    NEAR(hod_item(hod_grad(x)), 5 * exp(4) + exp(2), 1e-3); /* f32 at 280 */
}

/* Whatever allocation fails, the result is an error in words, and nothing is lost. */
static int step_under_pressure(hod_tensor *w)
{
    HOD_SCOPE(s);
    hod_tensor *y = hod_sum(hod_softmax(hod_gelu(hod_exp(hod_mul(w, w))), 0));
    hod_tensor *c = hod_checkpoint(times, &w, 1, &y);
    return hod_backward(hod_sum(c));
}

TEST(backward_survives_every_failing_allocation)
{
    hod_tensor *w = leaf_of(HOD_SHAPE(3), (double[]){0.1, 0.2, 0.3});
    int64_t n = 0, live = hod__scope_live();
    for (; n < 10000; n++) {
        hod__alloc_fail_after = n;
        int rc = step_under_pressure(w);
        hod__alloc_fail_after = -1;
        EQ_INT(hod__scope_live(), live);
        CHECK(!w->autograd->gradient && w->autograd->waiting == 0);
        if (rc == 0)
            break;
        CHECK(hod_error_kind_pending() == HOD_ERROR_MEMORY);
        hod_error_take(NULL);
        hod_zero_grad(w);
    }
    CHECK(n > 50 && n < 10000);
    hod_zero_grad(w);
    double after[3], want[3];
    EQ_INT(step_under_pressure(w), 0);
    EQ_INT(hod_read_doubles(hod_grad(w), after, 3), 0);
    hod_tensor *v = leaf_of(HOD_SHAPE(3), (double[]){0.1, 0.2, 0.3});
    EQ_INT(step_under_pressure(v), 0);
    EQ_INT(hod_read_doubles(hod_grad(v), want, 3), 0);
    CHECK(memcmp(after, want, sizeof want) == 0);
}

/* ---- what is not there ---- */

TEST(backward_without_a_gradient_says_so)
{
    hod_tensor *x = leaf(2), *y = hod_mul(x, x), *g;
    ERROR_IS("backward: the gradient to start with (HOD_ONES for a single value) is NULL",
             hod_backward_with(y, .retain_graph = true));
    ERROR_IS("grad_of: the gradient to start with (HOD_ONES for a single value) is NULL",
             hod_grad_of(y, 1, &x, &g, .retain_graph = true));
    EQ_INT(hod_backward(y), 0);
}

TEST(backward_leaves_what_was_frozen_since)
{
    hod_tensor *x = leaf(3), *w = leaf(2), *y = hod_mul(x, w);
    hod_requires_grad(x, false);
    EQ_INT(hod_backward(y), 0);
    CHECK(!hod_grad(x));
    NEAR(hod_item(hod_grad(w)), 3, 0);
}

static hod_tensor *refusing(void *context, hod_tensor *g)
{
    (void)context, (void)g;
    return hod_refuse("no");
}

TEST(backward_that_failed_is_named)
{
    hod_tensor *x = leaf(3), *h = hod_mul(x, x), *y = hod_exp(h);
    CHECK(hod_add_grad_hook(h, refusing, NULL) == 0);
    EQ_INT(hod_backward(y), -1);
    hod_error_take(NULL);
    EQ_INT(hod_backward(y), -1);
    CHECK(strstr(hod_error(), "was consumed by a backward that failed; compute the result again"));
    hod_error_take(NULL);
}

/* A backward that was refused before it began consumed nothing. */
TEST(backward_that_was_refused_is_not_named)
{
    hod_tensor *x = leaf(3), *used = hod_mul(x, x), *y = hod_mul_scalar(x, 2);
    EQ_INT(hod_backward(used), 0);
    hod_tensor *both = hod_add(y, used);
    EQ_INT(hod_backward(both), -1);
    hod_error_take(NULL);
    EQ_INT(hod_backward(y), 0);
    EQ_INT(hod_backward(y), -1);
    CHECK(strstr(hod_error(), "was consumed by an earlier backward"));
    hod_error_take(NULL);
}
