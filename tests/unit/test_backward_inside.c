/* A backward that a hook runs while another one is on its way through the same leaves. */
#include "harness.h"
#include <hod/autograd.h>
#include <hod/functional.h>

static hod_tensor *leaf(double value)
{
    return hod_requires_grad(hod_full(HOD_F64, HOD_SHAPE(), value), true);
}

/* What the hook differentiates, and what it found. */
typedef struct inside {
    hod_tensor *of;
    double found;
    bool accumulates;
} inside;

static hod_tensor *differentiates(void *context, hod_tensor *g)
{
    inside *i = context;
    hod_tensor *d;
    HOD_WITH_GRAD(on);
    hod_tensor *cube = hod_mul(i->of, hod_mul(i->of, i->of));
    if (i->accumulates)
        return hod_backward(cube) == 0 ? g : NULL;
    if (hod_grad_of(cube, 1, &i->of, &d, HOD_ONES) != 0)
        return NULL;
    i->found = hod_item(d);
    return g;
}

TEST(backward_inside_of_a_leaf_that_the_outer_waits_for)
{
    hod_tensor *w = leaf(3), *h = hod_mul(w, w), *y = hod_exp(hod_mul_scalar(h, 0));
    inside i = {.of = w};
    CHECK(hod_add_grad_hook(h, differentiates, &i) == 0);
    EQ_INT(hod_backward(hod_add(y, h)), 0);
    NEAR(i.found, 27, 0);
    NEAR(hod_item(hod_grad(w)), 6, 0);
}

TEST(backward_inside_of_a_target_of_the_outer)
{
    hod_tensor *w = leaf(3), *v = leaf(2), *in[] = {v, w}, *g[2];
    hod_tensor *h = hod_mul(w, v), *y = hod_mul(h, h);
    inside i = {.of = w};
    CHECK(hod_add_grad_hook(h, differentiates, &i) == 0);
    EQ_INT(hod_grad_of(y, 2, in, g, HOD_ONES), 0);
    NEAR(i.found, 27, 0);
    NEAR(hod_item(g[0]), 2 * 6 * 3, 0);
    NEAR(hod_item(g[1]), 2 * 6 * 2, 0);
    CHECK(!hod_grad(w) && !hod_grad(v));
}

/* The inner one has no targets, so it accumulates; the outer still hands over. */
TEST(backward_inside_accumulates_beside_a_target)
{
    hod_tensor *w = leaf(3), *g;
    hod_tensor *h = hod_mul(w, w);
    inside i = {.of = w, .accumulates = true};
    CHECK(hod_add_grad_hook(h, differentiates, &i) == 0);
    EQ_INT(hod_grad_of(h, 1, &w, &g, HOD_ONES), 0);
    NEAR(hod_item(g), 6, 0);
    NEAR(hod_item(hod_grad(w)), 27, 0);
}

/* ---- without what is to run, or where ---- */

TEST(backward_inside_nothing_is_refused)
{
    hod_tensor *x = leaf(3), *y = hod_mul(x, x), *out;
    hod_gradcheck_report report;
    ERROR_IS("grad_of: the array of inputs is NULL", hod_grad_of(y, 1, NULL, &out, HOD_ONES));
    ERROR_IS("grad_of: the array of gradients is NULL", hod_grad_of(y, 1, &x, NULL, HOD_ONES));
    ERROR_IS("backward: the array of results is NULL", hod_backward_many(1, NULL, NULL));
    ERROR_IS("add_grad_hook: no hook", hod_add_grad_hook(x, NULL, NULL));
    ERROR_IS("checkpoint: no function", hod_checkpoint(NULL, NULL, 1, &x));
    ERROR_IS("gradgradcheck: no function", hod_gradgradcheck(NULL, 1, &x, &report, NULL));
    ERROR_IS("custom operator: the operator is NULL", hod_custom_one(NULL, NULL, 1, &x));
    ERROR_IS("custom operator: the operator is NULL", hod_custom_into(NULL, NULL, &x, &out));
}
