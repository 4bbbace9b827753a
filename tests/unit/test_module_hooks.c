/* Hooks of modules: before and after forward, and around the module's part of the backward. */
#include "base/scope.h"
#include "harness.h"
#include "nn/nn.h"
#include "pressure.h"
#include <hod/compile.h>

/* y = w x with w = 3 for all elements. */
typedef struct scale {
    hod_module base;
    hod_tensor *w;
} scale;

static hod_tensor *scale_forward(hod_module *self, hod_tensor *x)
{
    return hod_mul(x, ((scale *)self)->w);
}

static hod_module *scale_new(hod_module *parent, const char *name)
{
    scale *m = hod_module_new(parent, name, scale, scale_forward);
    hod_init three = {.kind = HOD_INIT_ONES};
    m->w = hod_parameter_new(&m->base, "w", HOD_WEIGHT, HOD_SHAPE(), three);
    HOD_NO_GRAD(off);
    CHECK(hod__assign(m->w, hod_scalar(3)));
    return hod_module_done(m);
}

static hod_tensor *leaf(double value)
{
    return hod_requires_grad(hod_scalar(value), true);
}

typedef struct seen {
    int calls;
    bool no_input;
    double first, second, times; /* times: 0: leave as it is */
} seen;

static hod_tensor *look(void *context, hod_module *m, hod_tensor *t, hod_tensor *other)
{
    seen *s = context;
    CHECK(m);
    s->calls++;
    s->no_input = !t;
    s->first = t ? hod_item(t) : 0;
    s->second = other ? hod_item(other) : 0;
    return s->times != 0 ? hod_mul_scalar(t, s->times) : t;
}

TEST(module_hooks_see_and_replace_what_passes)
{
    hod_module *m = scale_new(NULL, NULL);
    seen in = {.times = 2}, out = {.times = 10};
    EQ_INT(hod_module_add_hook(m, HOD_HOOK_FORWARD_PRE, look, &in), 0);
    EQ_INT(hod_module_add_hook(m, HOD_HOOK_FORWARD, look, &out), 0);
    hod_tensor *x = leaf(5), *y = hod_call(m, x);
    NEAR(hod_item(y), 5 * 2 * 3 * 10, 0);
    NEAR(in.first, 5, 0);
    NEAR(out.first, 30, 0);
    NEAR(out.second, 10, 0); /* the input that forward got */
    EQ_INT(hod_backward(y), 0);
    NEAR(hod_item(hod_grad(x)), 60, 0);
    EQ_INT(hod_module_remove_hook(m, HOD_HOOK_FORWARD, look, &out), 0);
    EQ_INT(hod_module_remove_hook(m, HOD_HOOK_FORWARD_PRE, look, &in), 0);
    NEAR(hod_item(hod_call(m, x)), 15, 0);
    ERROR_IS("scale: it has no such hook", hod_module_remove_hook(m, HOD_HOOK_FORWARD, look, &out));
    hod_module_free(m);
}

/* x has another reader: its gradient is not the module's, but reaches x all the same. */
TEST(module_hooks_of_backward_see_the_modules_own_gradients)
{
    hod_module *m = scale_new(NULL, NULL);
    seen dy = {.times = 2}, dx = {.times = 5};
    EQ_INT(hod_module_add_hook(m, HOD_HOOK_BACKWARD_PRE, look, &dy), 0);
    EQ_INT(hod_module_add_hook(m, HOD_HOOK_BACKWARD, look, &dx), 0);
    hod_tensor *x = leaf(1), *y = hod_call(m, x);
    hod_tensor *loss = hod_add(hod_mul_scalar(y, 7), hod_mul_scalar(x, 1000));
    EQ_INT(hod_backward_with(loss, HOD_ONES, .retain_graph = true), 0);
    NEAR(dy.first, 7, 0);
    NEAR(dx.first, 7 * 2 * 3, 0);
    NEAR(dx.second, 14, 0); /* dy as the pre hook left it */
    NEAR(hod_item(hod_grad(x)), 7 * 2 * 3 * 5 + 1000, 0);
    NEAR(hod_item(hod_grad(((scale *)m)->w)), 14, 0);
    EQ_INT(hod_backward(loss), 0);
    EQ_INT(dx.calls, 2);
    hod_module_free(m);
}

TEST(module_hooks_of_backward_without_an_input_gradient)
{
    hod_module *m = scale_new(NULL, NULL);
    seen dx = {0};
    EQ_INT(hod_module_add_hook(m, HOD_HOOK_BACKWARD, look, &dx), 0);
    EQ_INT(hod_backward(hod_mul_scalar(hod_call(m, hod_scalar(4)), 7)), 0);
    CHECK(dx.calls == 1 && dx.no_input);
    NEAR(dx.second, 7, 0);
    NEAR(hod_item(hod_grad(((scale *)m)->w)), 28, 0);
    /* Frozen and without an input gradient there is no backward to listen to. */
    EQ_INT(hod_module_freeze(m, true), 0);
    CHECK(!hod_tensor_requires_grad(hod_call(m, hod_scalar(4))));
    hod_module_free(m);
}

static hod_tensor *once(void *context, hod_module *m, hod_tensor *t, hod_tensor *other)
{
    (void)other;
    return hod_module_remove_hook(m, HOD_HOOK_FORWARD, once, context) == 0 ? hod_mul_scalar(t, 10)
                                                                           : NULL;
}

TEST(module_hooks_may_remove_themselves)
{
    hod_module *m = scale_new(NULL, NULL);
    seen out = {.times = 2};
    EQ_INT(hod_module_add_hook(m, HOD_HOOK_FORWARD, once, NULL), 0);
    EQ_INT(hod_module_add_hook(m, HOD_HOOK_FORWARD, look, &out), 0);
    NEAR(hod_item(hod_call(m, leaf(1))), 60, 0);
    NEAR(hod_item(hod_call(m, leaf(1))), 6, 0);
    hod_module_free(m);
}

static hod_tensor *square_in(void *context, hod_module *m, hod_tensor *t, hod_tensor *other)
{
    (void)context;
    (void)m;
    (void)other;
    return hod_mul(t, t);
}

/* What hooks do is part of the graph: dx' = (3 g)², so d dx'/dg = 18 g. */
TEST(module_hooks_can_be_differentiated)
{
    hod_module *m = scale_new(NULL, NULL);
    EQ_INT(hod_module_add_hook(m, HOD_HOOK_BACKWARD, square_in, NULL), 0);
    hod_tensor *x = leaf(1), *k = leaf(2), *g[1];
    hod_tensor *y = hod_mul(hod_call(m, x), k);
    EQ_INT(hod_grad_of(y, 1, &x, g, HOD_ONES, .create_graph = true), 0);
    NEAR(hod_item(g[0]), 36, 0);
    EQ_INT(hod_backward(g[0]), 0);
    NEAR(hod_item(hod_grad(k)), 36, 0); /* d (3k)²/dk */
    hod_module_free(m);
}

static hod_tensor *bad(void *context, hod_module *m, hod_tensor *t, hod_tensor *other)
{
    (void)m;
    (void)other;
    return context ? hod_concat(2,
                                (hod_tensor *[]){hod_reshape(t, HOD_SHAPE(1)),
                                                 hod_reshape(t, HOD_SHAPE(1))},
                                0)
                   : NULL;
}

TEST(module_hooks_misused)
{
    hod_module *m = scale_new(NULL, NULL);
    hod_tensor *x = leaf(1);
    EQ_INT(hod_module_add_hook(m, HOD_HOOK_FORWARD, bad, NULL), 0);
    ERROR_IS("scale: its forward hook returned no tensor", hod_call(m, x));
    EQ_INT(hod_module_remove_hook(m, HOD_HOOK_FORWARD, bad, NULL), 0);
    EQ_INT(hod_module_add_hook(m, HOD_HOOK_BACKWARD, bad, m), 0);
    EQ_INT(hod_backward(hod_call(m, x)), -1);
    EQ_STR(hod_error(), "scale: a hook returned f32 (2) for a gradient of f32 ()");
    hod_error_take(NULL);
    hod_module_free(m);
}

/* A graph may outlive its module: the hooks are gone with it, and nothing leaks. */
TEST(module_hooks_end_with_their_module)
{
    int64_t live = hod__scope_live(), bytes = hod_memory().allocated;
    {
        HOD_SCOPE(s);
        hod_module *m = scale_new(NULL, NULL);
        seen dx = {0};
        EQ_INT(hod_module_add_hook(m, HOD_HOOK_BACKWARD, look, &dx), 0);
        hod_tensor *x = leaf(1), *y = hod_call(m, x);
        hod_tensor *unused = hod_call(m, x);
        CHECK(unused);
        hod_module_free(m);
        EQ_INT(hod_backward(y), 0);
        EQ_INT(dx.calls, 0);
        NEAR(hod_item(hod_grad(x)), 3, 0);
    }
    EQ_INT(hod__scope_live(), live);
    EQ_INT(hod_memory().allocated, bytes);
}

/* Compiled, hooks run in every call, those of the backward, too. */
static hod_tensor *twice(void *context, hod_module *m, hod_tensor *t, hod_tensor *other)
{
    (void)m;
    (void)other;
    ++*(int *)context;
    return hod_mul_scalar(t, 2);
}

static int step(void *net, hod_tensor *const *in, hod_tensor **out)
{
    out[0] = hod_call(net, in[0]);
    return hod_backward(out[0]);
}

TEST(module_hooks_run_in_compiled_functions)
{
    hod_module *m = scale_new(NULL, NULL);
    int forward = 0, backward = 0;
    EQ_INT(hod_module_add_hook(m, HOD_HOOK_FORWARD, twice, &forward), 0);
    EQ_INT(hod_module_add_hook(m, HOD_HOOK_BACKWARD, twice, &backward), 0);
    hod_fn *f = hod_compile(step, m, .inputs = 1, .outputs = 1, .fullgraph = true);
    hod_tensor *x = leaf(5), *y;
    for (int i = 0; i < 3; i++) {
        EQ_INT(hod_fn_call(f, &x, &y), 0);
        NEAR(hod_item(y), 30, 0);
        NEAR(hod_item(hod_grad(x)), 12 * (i + 1), 0);
    }
    CHECK(forward == 3 && backward == 3);
    EQ_INT(hod_fn_report(f).traces, 1);
    hod_fn_free(f);
    hod_module_free(m);
}

static int under_pressure(void *x)
{
    HOD_SCOPE(s);
    int calls = 0, rc = -1;
    hod_module *m = hod_nn_relu(NULL, "relu");
    if (m && hod_module_add_hook(m, HOD_HOOK_FORWARD_PRE, twice, &calls) == 0 &&
        hod_module_add_hook(m, HOD_HOOK_BACKWARD, twice, &calls) == 0)
        rc = hod_backward(hod_call(m, x));
    hod_module_free(m);
    return rc;
}

TEST(module_hooks_survive_every_failing_allocation)
{
    hod_tensor *x = leaf(2);
    CHECK(every_allocation_fails(under_pressure, x) > 20);
}
