/* Operators of one's own: made of operators and of loops, eager and compiled. */
#include <hod/autograd.h> /* first: with the macros that note places */
#include <hod/functional.h>

#include "autograd/autograd.h"
#include "base/scope.h"
#include "harness.h"
#include "pressure.h"
#include <hod/compile.h>
#include <math.h>

static hod_tensor *leaf_of(int64_t n, const double *values)
{
    return hod_requires_grad(hod_from_doubles(values, HOD_SHAPE(n)), true);
}

static double at(const hod_tensor *t, int64_t i)
{
    double v[16];
    CHECK(t && hod_read_doubles(t, v, hod_tensor_numel(t)) == 0);
    return v[i];
}

/* ---- of operators: y = exp(k x), k from the context ---- */

static int scaled_exp_forward(hod_custom_call *c, hod_tensor *const *x, hod_tensor **y)
{
    y[0] = hod_exp(hod_mul_scalar(x[0], *(double *)hod_custom_context(c)));
    return hod_custom_save(c, y[0]);
}

static int scaled_exp_backward(hod_custom_call *c, hod_tensor *const *dy, hod_tensor **dx)
{
    dx[0] =
        hod_mul_scalar(hod_mul(dy[0], hod_custom_saved(c, 0)), *(double *)hod_custom_context(c));
    return 0;
}

static const hod_custom_op scaled_exp = {
    .name = "scaled_exp", .forward = scaled_exp_forward, .backward = scaled_exp_backward};

static hod_tensor *check_scaled_exp(void *k, hod_tensor *const *in, int n)
{
    (void)n;
    return hod_custom(&scaled_exp, k, in[0]);
}

TEST(custom_of_operators_has_derivatives_of_every_order)
{
    double k = 0.5;
    hod_tensor *x = leaf_of(3, (double[]){-1, 0.2, 2}), *g[1], *gg[1];
    hod_gradcheck_report r;
    EQ_INT(hod_gradcheck(check_scaled_exp, 1, &x, &r, &k), 0);
    CHECK(r.passed && r.compared == 3);
    EQ_INT(hod_gradgradcheck(check_scaled_exp, 1, &x, &r, &k), 0);
    CHECK(r.passed && r.compared == 3);
    hod_tensor *y = hod_sum(hod_custom(&scaled_exp, &k, x));
    EQ_INT(hod_grad_of(y, 1, &x, g, HOD_ONES, .create_graph = true), 0);
    EQ_INT(hod_grad_of(hod_sum(g[0]), 1, &x, gg, HOD_ONES, .create_graph = true), 0);
    EQ_INT(hod_backward(hod_sum(gg[0])), 0);
    NEAR(at(hod_grad(x), 2), 0.125 * exp(1), 1e-12);
}

TEST(custom_shows_in_the_graph_under_its_name)
{
    double k = 1;
    hod_tensor *x = leaf_of(2, (double[]){1, 2});
    hod_tensor *y = hod_custom(&scaled_exp, &k, x);
    EQ_STR(hod_grad_node_name(hod_grad_fn(y)), "scaled_exp");
    CHECK(hod_grad_node_leaf(hod_grad_fn(y), 0) == x);
}

/* ---- of loops: y = x³ ---- */

static int cube_forward(hod_custom_call *c, hod_tensor *const *x, hod_tensor **y)
{
    int64_t n = hod_tensor_numel(x[0]);
    hod_tensor *in = hod_contiguous(x[0]);
    y[0] = hod_empty(HOD_F64, hod_tensor_shape(x[0]));
    const double *from = hod_tensor_data(in);
    double *to = hod_tensor_mutable_data(y[0]);
    if (!from || !to)
        return -1;
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i] * from[i] * from[i];
    return hod_custom_save(c, x[0]);
}

static int cube_backward(hod_custom_call *c, hod_tensor *const *dy, hod_tensor **dx)
{
    int64_t n = hod_tensor_numel(dy[0]);
    hod_tensor *x = hod_contiguous(hod_custom_saved(c, 0)), *g = hod_contiguous(dy[0]);
    dx[0] = hod_empty(HOD_F64, hod_tensor_shape(dy[0]));
    const double *from = hod_tensor_data(x), *up = hod_tensor_data(g);
    double *to = hod_tensor_mutable_data(dx[0]);
    if (!from || !up || !to)
        return -1;
    for (int64_t i = 0; i < n; i++)
        to[i] = 3 * from[i] * from[i] * up[i];
    return 0;
}

static const hod_custom_op cube = {
    .name = "cube", .forward = cube_forward, .backward = cube_backward};

static hod_tensor *check_cube(void *context, hod_tensor *const *in, int n)
{
    (void)context;
    (void)n;
    return hod_custom(&cube, NULL, in[0]);
}

TEST(custom_of_loops_has_a_first_derivative)
{
    hod_tensor *x = leaf_of(3, (double[]){-1, 0.5, 2});
    hod_gradcheck_report r;
    EQ_INT(hod_gradcheck(check_cube, 1, &x, &r, NULL), 0);
    CHECK(r.passed && r.compared == 3);
    EQ_INT(hod_backward(hod_sum(hod_custom(&cube, NULL, x))), 0);
    NEAR(at(hod_grad(x), 2), 12, 0);
}

/* Without a history the second derivative would be zero without a word. */
TEST(custom_of_loops_refuses_a_second_derivative)
{
    hod_tensor *x = leaf_of(2, (double[]){1, 2}), *g[1];
    hod_tensor *y = hod_sum(hod_custom(&cube, NULL, x));
    EQ_INT(hod_grad_of(y, 1, &x, g, HOD_ONES, .create_graph = true), -1);
    CHECK(strstr(hod_error(), "backward of cube at "));
    CHECK(strstr(hod_error(), "test_custom.c:"));
    CHECK(strstr(hod_error(), ": it reads f64 (2) on the host, so there is no second derivative "
                              "(.create_graph)"));
    hod_error_take(NULL);
    EQ_INT(hod_grad_of(y, 1, &x, g, HOD_ONES), 0); /* the first one still is */
    NEAR(at(g[0], 1), 12, 0);
}

/* ---- several inputs and results: (ab, a + b, index of the greater) ---- */

typedef struct seen {
    bool wants[2];
} seen;

static int pair_forward(hod_custom_call *c, hod_tensor *const *x, hod_tensor **y)
{
    *(int *)hod_custom_state(c) = 7;
    y[0] = hod_mul(x[0], x[1]);
    y[1] = hod_add(x[0], x[1]);
    y[2] = hod_argmax(x[0], 0);
    return hod_custom_save(c, x[0]) == 0 ? hod_custom_save(c, x[1]) : -1;
}

static int pair_backward(hod_custom_call *c, hod_tensor *const *dy, hod_tensor **dx)
{
    seen *s = hod_custom_context(c);
    CHECK(*(int *)hod_custom_state(c) == 7);
    for (int i = 0; i < 2; i++) {
        s->wants[i] = hod_custom_wants(c, i);
        dx[i] = s->wants[i] ? hod_add(hod_mul(dy[0], hod_custom_saved(c, 1 - i)), dy[1]) : NULL;
    }
    return 0;
}

static const hod_custom_op pair = {.name = "pair",
                                   .inputs = 2,
                                   .results = 3,
                                   .state_bytes = sizeof(int),
                                   .forward = pair_forward,
                                   .backward = pair_backward};

TEST(custom_with_several_inputs_and_results)
{
    seen s;
    hod_tensor *a = leaf_of(2, (double[]){2, 3}), *b = leaf_of(2, (double[]){5, 7}), *y[3];
    EQ_INT(hod_custom_into(&pair, &s, (hod_tensor *[]){a, b}, y), 0);
    CHECK(!hod_tensor_requires_grad(y[2]) && at(y[2], 0) == 1);
    char text[256] = "";
    FILE *f = fmemopen(text, sizeof text, "w");
    hod_tensor *loss = hod_sum(hod_add(hod_mul(y[0], y[0]), y[1]));
    EQ_INT(hod_print_graph(loss, f), 0);
    fclose(f);
    CHECK(strstr(text, "%0 = pair(leaf (2), leaf (2)) -> f64 (2), f64 (2), "));
    CHECK(strstr(text, "%1 = mul(%0.0, %0.0) -> f64 (2)"));
    CHECK(strstr(text, "%2 = add(%1, %0.1) -> f64 (2)"));
    EQ_INT(hod_backward(loss), 0);
    NEAR(at(hod_grad(a), 0), 2 * 10 * 5 + 1, 0);
    NEAR(at(hod_grad(b), 1), 2 * 21 * 3 + 1, 0);

    /* One result alone: the other's gradient is zero. A frozen input: nothing computed for it. */
    hod_zero_grad(a);
    hod_requires_grad(b, false);
    EQ_INT(hod_custom_into(&pair, &s, (hod_tensor *[]){a, b}, y), 0);
    EQ_INT(hod_backward(hod_sum(y[1])), 0);
    NEAR(at(hod_grad(a), 0), 1, 0);
    CHECK(s.wants[0] && !s.wants[1]);
}

TEST(custom_results_take_hooks_and_keep_gradients_apart)
{
    seen s;
    hod_tensor *a = leaf_of(1, (double[]){2}), *b = leaf_of(1, (double[]){5}), *y[3], *g[2];
    EQ_INT(hod_custom_into(&pair, &s, (hod_tensor *[]){a, b}, y), 0);
    EQ_INT(hod_retain_grad(y[0]), 0);
    EQ_INT(hod_retain_grad(y[1]), 0);
    hod_tensor *loss = hod_add(hod_mul_scalar(y[0], 3), hod_mul_scalar(y[1], 4));
    EQ_INT(hod_grad_of(loss, 2, y, g, HOD_ONES, .retain_graph = true), 0);
    NEAR(at(g[0], 0) + 10 * at(g[1], 0), 43, 0);
    EQ_INT(hod_backward(loss), 0);
    NEAR(at(hod_grad(y[0]), 0) + 10 * at(hod_grad(y[1]), 0), 43, 0);
    /* From both results at once, each with its own gradient. */
    hod_zero_grad(a);
    EQ_INT(hod_custom_into(&pair, &s, (hod_tensor *[]){a, b}, y), 0);
    hod_tensor *seeds[] = {hod_full(HOD_F64, HOD_SHAPE(1), 3), HOD_ONES};
    EQ_INT(hod_backward_many(2, y, seeds), 0);
    NEAR(at(hod_grad(a), 0), 3 * 5 + 1, 0);
}

/* ---- misuse ---- */

static int bad_backward(hod_custom_call *c, hod_tensor *const *dy, hod_tensor **dx)
{
    (void)c;
    dx[0] = hod_sum(dy[0]);
    return 0;
}

static int fails(hod_custom_call *c, hod_tensor *const *x, hod_tensor **y)
{
    (void)c;
    (void)x;
    (void)y;
    return -1;
}

static int sets_nothing(hod_custom_call *c, hod_tensor *const *x, hod_tensor **y)
{
    (void)c;
    (void)x;
    (void)y;
    return 0;
}

TEST(custom_misuse_is_an_error_in_words)
{
    double k = 1;
    hod_custom_op bad = scaled_exp;
    hod_tensor *x = leaf_of(2, (double[]){1, 2});
    bad.backward = bad_backward;
    EQ_INT(hod_backward(hod_sum(hod_custom(&bad, &k, x))), -1);
    CHECK(strstr(hod_error(), ": a gradient of () for input 0 (2)"));
    hod_error_take(NULL);
    bad.forward = fails;
    ERROR_IS("scaled_exp: forward failed without an error", hod_custom(&bad, &k, x));
    bad.forward = sets_nothing;
    ERROR_IS("scaled_exp: forward did not set result 0 of 1", hod_custom(&bad, &k, x));
    ERROR_IS("scaled_exp: 2 inputs and 1 result wanted, it has 1 and 1",
             hod_custom(&scaled_exp, &k, x, x));
    ERROR_IS("scaled_exp: an input is NULL", hod_custom(&scaled_exp, &k, NULL));
}

TEST(custom_saved_value_changed_in_place)
{
    hod_tensor *x = leaf_of(2, (double[]){1, 2}), *h = hod_mul_scalar(x, 1);
    hod_tensor *y = hod_sum(hod_custom(&cube, NULL, h));
    CHECK(hod__assign(h, hod_full(HOD_F64, HOD_SHAPE(2), 0)));
    EQ_INT(hod_backward(y), -1);
    CHECK(strstr(hod_error(), "backward of cube at "));
    CHECK(strstr(hod_error(), "its saved value 0 f64 (2) was changed in place by assign"));
    hod_error_take(NULL);
}

TEST(custom_anomaly_names_the_operator)
{
    double k = 1;
    hod_tensor *x = leaf_of(1, (double[]){800});
    hod_detect_anomaly(true);
    EQ_INT(hod_backward(hod_custom(&scaled_exp, &k, x)), -1);
    hod_detect_anomaly(false);
    CHECK(strstr(hod_error(), "backward of scaled_exp at "));
    CHECK(strstr(hod_error(), "the gradient for input 0 (1) is Inf at element 0"));
    hod_error_take(NULL);
}

/* ---- lifetime ---- */

static int use_all(void *context)
{
    hod_tensor *const *in = context, *a = in[0], *b = in[1];
    HOD_SCOPE(scope);
    double k = 0.3;
    seen s;
    hod_tensor *y[3], *g[1];
    if (hod_custom_into(&pair, &s, (hod_tensor *[]){hod_custom(&cube, NULL, a), b}, y) != 0)
        return -1;
    hod_tensor *e = hod_custom(&scaled_exp, &k, y[0]);
    hod_tensor *loss = hod_sum(hod_mul(e, y[1]));
    return hod_grad_of(loss, 1, (hod_tensor *[]){e}, g, HOD_ONES, .create_graph = true) == 0
               ? hod_backward(loss)
               : -1;
}

TEST(custom_leaves_nothing_behind)
{
    hod_tensor *a = leaf_of(2, (double[]){0.1, 0.2}), *b = leaf_of(2, (double[]){1, 2});
    EQ_INT(use_all((hod_tensor *[]){a, b}), 0);
    int64_t bytes = hod_memory().allocated, objects = hod__scope_live();
    EQ_INT(use_all((hod_tensor *[]){a, b}), 0);
    EQ_INT(hod_memory().allocated, bytes);
    EQ_INT(hod__scope_live(), objects);
}

TEST(custom_survives_every_failing_allocation)
{
    hod_tensor *a = leaf_of(2, (double[]){0.1, 0.2}), *b = leaf_of(2, (double[]){1, 2});
    CHECK(every_allocation_fails(use_all, (hod_tensor *[]){a, b}) > 50);
}

TEST(custom_without_gradients_links_and_keeps_nothing)
{
    hod_tensor *x = leaf_of(2, (double[]){1, 2});
    HOD_NO_GRAD(off);
    int before = atomic_load(&x->storage->refs);
    hod_tensor *y = hod_custom(&cube, NULL, x);
    CHECK(!hod_tensor_requires_grad(y));
    EQ_INT(atomic_load(&x->storage->refs), before);
}

/* ---- compiled ---- */

static double half = 0.5;

static int step_of_operators(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    out[0] = hod_sum(hod_mul(hod_custom(&scaled_exp, &half, hod_tanh(in[0])), in[0]));
    return hod_backward(out[0]);
}

static int step_of_loops(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    out[0] = hod_sum(hod_mul(hod_custom(&cube, NULL, hod_tanh(in[0])), in[0]));
    return hod_backward(out[0]);
}

static void compare_with_eager(hod_body body, int breaks)
{
    hod_fn *f = hod_compile(body, NULL, .inputs = 1, .outputs = 1);
    hod_tensor *x = leaf_of(3, (double[]){-1, 0.2, 2}), *y, *e;
    for (int i = 0; i < 4; i++) {
        hod_zero_grad(x);
        EQ_INT(hod_fn_call(f, &x, &y), 0);
        double got[3];
        EQ_INT(hod_read_doubles(hod_grad(x), got, 3), 0);
        hod_zero_grad(x);
        EQ_INT(body(NULL, &x, &e), 0);
        NEAR(at(y, 0), at(e, 0), 1e-14);
        for (int k = 0; k < 3; k++)
            NEAR(got[k], at(hod_grad(x), k), 1e-14);
        double *p = hod_tensor_mutable_data(x);
        p[0] += 0.1;
    }
    EQ_INT(hod_fn_report(f).traces, 1);
    EQ_INT(hod_fn_report(f).graph_breaks, breaks);
    hod_fn_free(f);
}

TEST(custom_of_operators_is_compiled_whole)
{
    compare_with_eager(step_of_operators, 0);
}

TEST(custom_of_loops_breaks_a_compiled_function)
{
    compare_with_eager(step_of_loops, 2); /* forward reads x, backward reads dy */
    hod_fn *f = hod_compile(step_of_loops, NULL, .inputs = 1, .outputs = 1, .fullgraph = true);
    hod_tensor *x = leaf_of(1, (double[]){1}), *y;
    EQ_INT(hod_fn_call(f, &x, &y), -1);
    CHECK(strstr(hod_error(), "step: graph break at "));
    CHECK(strstr(hod_error(), "value read on the host by custom operator cube"));
    hod_error_take(NULL);
    hod_fn_free(f);
}
