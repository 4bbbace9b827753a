/* Twins: a body run compiled on one job and plainly on another must give the same.
 *
 *     static int double_it(void *job, hod_tensor *const *in, hod_tensor **out)
 *     {
 *         out[0] = hod_mul_scalar(((state *)job)->s, 2);
 *         return 0;
 *     }
 *     TWINS(compile_doubles, double_it, 1, 1, 0)   // one output, one trace, no graph break
 *
 * Afterwards states, versions and gradients are compared, too. Then the bodies that several tests
 * share.
 */
#ifndef HOD_TESTS_COMPILE_TWINS_H
#define HOD_TESTS_COMPILE_TWINS_H

#include "harness.h"
#include "ops/op.h"
#include <hod/autograd.h>
#include <hod/compile.h>
#include <hod/functional.h>
#include <hod/random.h>
#include <math.h>

static inline hod_tensor *row(int n, double scale)
{
    float v[64];
    for (int i = 0; i < n; i++)
        v[i] = (float)(scale * ((i * 37 % 101) / 50.0 - 1));
    return hod_from_floats(v, HOD_SHAPE(n));
}

static inline double apart(hod_tensor *a, hod_tensor *b)
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

/* Values are of the order of 1, so an absolute difference of a few f32 roundings. */
#define CLOSE 1e-5

/* Runs `body` compiled on job a and plainly on job b, several times, and compares results. */
typedef struct twin {
    hod_body body;
    void *a, *b;
    int outputs, calls;
    int traces, breaks; /* expected; breaks < 0: any */
} twin;

static inline void run_twins(twin t)
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

/* What a body changes: a tensor, with a view made beforehand, and a leaf; and what it tells. */
typedef struct state {
    hod_tensor *s, *view, *w;
    double host;
    int calls;
} state;

static inline state state_new(void)
{
    state s = {.s = hod_tensor_retain(row(6, 1))};
    s.view = hod_tensor_retain(hod_slice(s.s, 0, 1, 4));
    s.w = hod_tensor_retain(hod_requires_grad(row(6, .5), true));
    return s;
}

static inline void state_free(state *s)
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

/* ---- bodies ---- */

static inline hod_tensor *loss_of(state *s, hod_tensor *x)
{
    return hod_sum(hod_square(hod_mul(hod_tanh(s->w), x)));
}

static inline int inner_body(void *job, hod_tensor *const *in, hod_tensor **out)
{
    out[0] = loss_of(job, in[0]);
    return 0;
}

/* A step of gradient descent inside: effect on a leaf after its gradient. */
static inline int descend(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_zero_grad(s->w);
    out[0] = loss_of(s, in[0]);
    if (hod_backward(out[0]) != 0)
        return -1;
    HOD_NO_GRAD(n);
    return hod__assign(s->w, hod_sub(s->w, hod_mul_scalar(hod_grad(s->w), .1))) ? 0 : -1;
}

/* The host reads the loss between forward and backward;
 * every third call takes a branch after it. */
static inline int break_between(void *job, hod_tensor *const *in, hod_tensor **out)
{
    state *s = job;
    hod_tensor *l = loss_of(s, in[0]);
    s->host = hod_item(l);
    out[0] = s->calls++ % 3 == 1 ? hod_mul_scalar(l, 3) : l;
    return hod_backward(out[0]);
}

#endif
