/* Hooks on gradients: what they see, and lists that change while they run. */
#include "harness.h"
#include <hod/autograd.h>
#include <hod/functional.h>

static hod_tensor *leaf(double value)
{
    return hod_requires_grad(hod_full(HOD_F64, HOD_SHAPE(), value), true);
}

static hod_tensor *twice(void *context, hod_tensor *g)
{
    ++*(int *)context;
    return hod_mul_scalar(g, 2);
}

TEST(backward_hooks_see_the_whole_gradient_once)
{
    hod_tensor *w = leaf(3), *h = hod_mul_scalar(w, 1);
    int leaf_calls = 0, result_calls = 0;
    EQ_INT(hod_add_grad_hook(w, twice, &leaf_calls), 0);
    EQ_INT(hod_add_grad_hook(h, twice, &result_calls), 0);
    EQ_INT(hod_backward(hod_add(hod_mul(h, h), hod_mul_scalar(w, 5))), 0);
    EQ_INT(leaf_calls, 1);
    EQ_INT(result_calls, 1);
    NEAR(hod_item(hod_grad(w)), 2 * (2 * 6 + 5), 0);
}

TEST(backward_hooks_can_be_removed)
{
    int calls = 0;
    hod_tensor *w = leaf(3);
    EQ_INT(hod_add_grad_hook(w, twice, &calls), 0);
    EQ_INT(hod_add_grad_hook(w, twice, &calls), 0);
    EQ_INT(hod_remove_grad_hook(w, twice, &calls), 0);
    EQ_INT(hod_backward(hod_mul(w, w)), 0);
    NEAR(hod_item(hod_grad(w)), 12, 0);
    EQ_INT(calls, 1);
    EQ_INT(hod_remove_grad_hook(w, twice, &calls), 0);
    ERROR_IS("remove_grad_hook: () has no such hook", hod_remove_grad_hook(w, twice, &calls));
}

static hod_tensor *as_type(void *context, hod_tensor *g)
{
    return hod_cast(g, *(hod_dtype *)context);
}

TEST(backward_hooks_keep_the_type)
{
    hod_dtype type = HOD_F64;
    hod_tensor *w = leaf(3);
    EQ_INT(hod_add_grad_hook(w, as_type, &type), 0);
    EQ_INT(hod_backward(hod_mul(w, w)), 0);
    type = HOD_I64;
    ERROR_IS("gradient hook: returned i64 for a gradient of f64", hod_backward(hod_mul(w, w)));
    NEAR(hod_item(hod_grad(w)), 6, 0);
}

static hod_tensor *once(void *context, hod_tensor *g)
{
    hod_tensor *t = context;
    return hod_remove_grad_hook(t, once, t) == 0 ? hod_mul_scalar(g, 10) : NULL;
}

TEST(backward_hooks_may_remove_themselves)
{
    int calls = 0;
    hod_tensor *w = leaf(3);
    EQ_INT(hod_add_grad_hook(w, once, w), 0);
    EQ_INT(hod_add_grad_hook(w, twice, &calls), 0);
    EQ_INT(hod_backward(hod_mul_scalar(w, 1)), 0);
    NEAR(hod_item(hod_grad(w)), 20, 0);
    EQ_INT(hod_backward(hod_mul_scalar(w, 1)), 0);
    NEAR(hod_item(hod_grad(w)), 22, 0);
    EQ_INT(calls, 2);
}

/* Takes hooks of t away, up to two, and doubles. */
typedef struct remover {
    hod_tensor *t;
    int calls;
    struct remover *away[2];
} remover;

static hod_tensor *removes(void *context, hod_tensor *g)
{
    remover *r = context;
    r->calls++;
    for (int i = 0; i < 2; i++)
        if (r->away[i] && hod_remove_grad_hook(r->t, removes, r->away[i]) != 0)
            return NULL;
    return hod_mul_scalar(g, 2);
}

/* Hook `at` of four takes away `first` and `second`, -1 for none; who is called, as a number. */
static int called_when(int at, int first, int second)
{
    hod_tensor *w = leaf(3);
    remover r[4] = {{0}};
    int called = 0;
    for (int i = 0; i < 4; i++) {
        r[i].t = w;
        EQ_INT(hod_add_grad_hook(w, removes, &r[i]), 0);
    }
    r[at].away[0] = first < 0 ? NULL : &r[first];
    r[at].away[1] = second < 0 ? NULL : &r[second];
    EQ_INT(hod_backward(hod_mul_scalar(w, 1)), 0);
    double want = 1;
    for (int i = 0; i < 4; i++) {
        called = 10 * called + r[i].calls;
        want *= r[i].calls ? 2 : 1;
    }
    NEAR(hod_item(hod_grad(w)), want, 0);
    return called;
}

TEST(backward_hooks_may_remove_each_other)
{
    EQ_INT(called_when(0, -1, -1), 1111);
    EQ_INT(called_when(0, 1, -1), 1011); /* a later one is not called, and none twice */
    EQ_INT(called_when(1, 3, -1), 1110);
    EQ_INT(called_when(2, 0, -1), 1111); /* an earlier one has been called */
    EQ_INT(called_when(2, 0, 1), 1111);
    EQ_INT(called_when(2, 0, 2), 1111);
    EQ_INT(called_when(1, 1, 2), 1101);
    EQ_INT(called_when(3, 2, 3), 1111);
}
