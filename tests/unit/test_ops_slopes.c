/* Slopes where formulas break: at huge arguments, whose powers overflow, and at factors of 0. */
#include "harness.h"
#include "ops/op.h"
#include <hod/autograd.h>
#include <hod/functional.h>
#include <math.h>

/* ---- huge arguments ---- */

static hod_tensor *elu(hod_tensor *x)
{
    return hod_elu(x, 1.5);
}

static hod_tensor *softplus_sharp(hod_tensor *x)
{
    return hod_softplus_with(x, 2, 20);
}

typedef struct gate {
    const char *name;
    hod_tensor *(*of)(hod_tensor *x);
    double left, right; /* what the slope is far from 0 */
} gate;

static const gate gates[] = {
    {"relu", hod_relu, 0, 1},
    {"sigmoid", hod_sigmoid, 0, 0},
    {"tanh", hod_tanh, 0, 0},
    {"erf", hod_erf, 0, 0},
    {"gelu", hod_gelu, 0, 1},
    {"gelu_tanh", hod_gelu_tanh, 0, 1},
    {"silu", hod_silu, 0, 1},
    {"mish", hod_mish, 0, 1},
    {"softplus", hod_softplus, 0, 1},
    {"softplus_sharp", softplus_sharp, 0, 1},
    {"log_sigmoid", hod_log_sigmoid, 1, 0},
    {"hardsigmoid", hod_hardsigmoid, 0, 0},
    {"hardswish", hod_hardswish, 0, 1},
    {"elu", elu, 0, 1},
    {"atan", hod_atan, 0, 0},
};

/* The first two derivatives at x: the slope's limit, and 0. */
static void check_far(const gate *f, hod_dtype type, double at)
{
    HOD_SCOPE(s);
    hod_tensor *x = hod_full(type, HOD_SHAPE(2), at), *g, *h;
    CHECK(hod_requires_grad(x, true));
    double slope[2], want = at < 0 ? f->left : f->right;
    CHECK(hod_grad_of(hod_sum(f->of(x)), 1, &x, &g, HOD_ONES, .create_graph = true) == 0);
    CHECK(hod_read_doubles(g, slope, 2) == 0);
    if (!(fabs(slope[1] - want) <= 1e-3))
        FAIL("%s of %s at %g: slope %g, wanted %g", f->name, hod_dtype_name(type), at, slope[1],
             want);
    if (!hod_tensor_requires_grad(g))
        return;
    CHECK(hod_grad_of(hod_sum(g), 1, &x, &h, HOD_ONES, .allow_unused = true) == 0);
    if (h && !(fabs(hod_item(hod_sum(h))) <= 1e-3))
        FAIL("%s of %s at %g: second derivative %g, wanted 0", f->name, hod_dtype_name(type), at,
             hod_item(hod_sum(h)));
}

TEST(ops_slopes_of_huge_arguments)
{
    const hod_dtype types[] = {HOD_F16, HOD_BF16, HOD_F32, HOD_F64};
    const double at[] = {50, 88, 90, 300, 3e4, 1e19, 1e20, 1e30, 1e38, 1e154, 1e200, 5e307};
    for (int i = 0; i < HOD_COUNT(gates); i++)
        for (int t = 0; t < HOD_COUNT(types); t++)
            for (int k = 0; k < HOD_COUNT(at); k++) {
                double most = types[t] == HOD_F16 ? 65504 : types[t] == HOD_F64 ? 1e308 : 3e38;
                if (at[k] > most)
                    break; /* mish's slope needs twice the argument to be a number */
                check_far(&gates[i], types[t], at[k]);
                check_far(&gates[i], types[t], -at[k]);
            }
}

/* ---- factors of 0 ---- */

typedef struct product {
    bool running;
    int dim;
    hod_shape over;
} product;

static hod_tensor *multiply(void *context, hod_tensor *const *in, int n)
{
    const product *p = context;
    (void)n;
    /* the square has a gradient that is no constant, so that second derivatives are none either */
    hod_tensor *y = p->running ? hod_cumprod(in[0], p->dim) : hod_prod_over(in[0], p->over, false);
    return hod_add(y, hod_square(y));
}

static void check_orders(product p, hod_tensor *x)
{
    hod_gradcheck_report r;
    CHECK(hod_gradcheck(multiply, 1, &x, &r, &p, .rtol = 1e-6, .atol = 1e-7) == 0);
    CHECK(r.passed);
    CHECK(hod_gradgradcheck(multiply, 1, &x, &r, &p, .rtol = 1e-6, .atol = 1e-7) == 0);
    if (!r.passed)
        FAIL("second order, element %lld: %.9g, by differences %.9g", (long long)r.element,
             r.analytic, r.numeric);
}

TEST(ops_slopes_of_products_with_zeros_have_slopes)
{
    const double rows[][12] = {{2, 0, 3, 5, 1, -2, 0, 4, 0, 0, 1, 2},
                               {3, 2, 4, 0, -1, 0, 2, 0, 1, 2, 3, 4},
                               {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}};
    for (int r = 0; r < HOD_COUNT(rows); r++) {
        hod_tensor *x = hod_mul_scalar(hod_from_doubles(rows[r], HOD_SHAPE(2, 3, 2)), 0.5);
        for (int d = 0; d < 3; d++) {
            check_orders((product){.running = true, .dim = d}, x);
            check_orders((product){.over = HOD_SHAPE(d)}, x);
            check_orders((product){.over = HOD_SHAPE(d, (d + 1) % 3)}, x);
        }
        check_orders((product){.over = HOD_SHAPE(0, 1, 2)}, x);
        hod_tensor *line = hod_reshape(x, HOD_SHAPE(12));
        check_orders((product){.running = true}, line);
        for (int64_t n = 1; n < 6; n++)
            check_orders((product){.running = true}, hod_slice(line, 0, 0, n));
    }
}
