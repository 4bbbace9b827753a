/* Activation checkpointing: the same numbers for less memory, and what a second run must not do. */
#include <hod/autograd.h> /* first: with the macros that note places */
#include <hod/functional.h>

#include "autograd/autograd.h"
#include "base/scope.h"
#include "harness.h"
#include "pressure.h"
#include <hod/compile.h>
#include <hod/nn.h>
#include <math.h>
#include <stdlib.h>

static hod_tensor *leaf_of(int64_t n, const double *values)
{
    return hod_requires_grad(hod_from_doubles(values, HOD_SHAPE(n)), true);
}

static double at(const hod_tensor *t, int64_t i)
{
    double v[64];
    CHECK(t && hod_tensor_numel(t) <= 64 && hod_read_doubles(t, v, hod_tensor_numel(t)) == 0);
    return v[i];
}

static void same_bits(const hod_tensor *a, const hod_tensor *b)
{
    CHECK(a && b);
    EQ_INT(hod_tensor_numel(a), hod_tensor_numel(b));
    for (int64_t i = 0; i < hod_tensor_numel(a); i++)
        NEAR(at(a, i), at(b, i), 0);
}

/* What a checkpointed function here closes over. */
typedef struct job {
    hod_tensor *w;
    int runs, counted;
    struct job *inner;
} job;

static job job_new(const double *w)
{
    return (job){.w = leaf_of(3, w)};
}

static const double some[3] = {0.3, -0.8, 1.7}, others[3] = {0.5, 1.5, -0.4};

/* ---- one input and one result ---- */

static hod_tensor *block(void *context, hod_tensor *const *in, int n)
{
    (void)n;
    return hod_dropout(hod_exp(hod_mul(in[0], *(hod_tensor **)context)), 0.5);
}

TEST(recompute_is_the_same_and_keeps_less)
{
    EQ_INT(hod_random_begin(7, 0, NULL), 0);
    double values[256], direct[256], again[256];
    for (int i = 0; i < 256; i++)
        values[i] = 0.01 * i;
    hod_tensor *x = leaf_of(256, values), *w = hod_requires_grad(hod_scalar(0.5), true);
    hod_tensor *y = block(&w, &x, 1);
    EQ_INT(hod_backward(hod_sum(y)), 0);
    EQ_INT(hod_read_doubles(hod_grad(x), direct, 256), 0);
    double dw = hod_item(hod_grad(w));
    hod_zero_grad(x);
    hod_zero_grad(w);

    EQ_INT(hod_random_begin(7, 0, NULL), 0);
    hod_tensor *c = hod_checkpoint(block, &w, 1, &x);
    int64_t stream = hod__random()->stream;
    EQ_INT(hod_backward(hod_sum(c)), 0);
    EQ_INT(hod__random()->stream, stream);
    EQ_INT(hod_read_doubles(hod_grad(x), again, 256), 0);
    CHECK(memcmp(direct, again, sizeof direct) == 0);
    CHECK(hod_item(hod_grad(w)) == dw);
}

/* B15: the gradient is that of the mask which made the result. */
static hod_tensor *only_dropout(void *context, hod_tensor *const *in, int n)
{
    (void)context;
    (void)n;
    return hod_dropout(in[0], 0.5);
}

TEST(recompute_b15_dropout_has_the_same_mask)
{
    EQ_INT(hod_random_begin(3, 5, NULL), 0);
    hod_tensor *x = hod_requires_grad(hod_full(HOD_F32, HOD_SHAPE(4096), 1), true);
    hod_tensor *y = hod_checkpoint(only_dropout, NULL, 1, &x);
    EQ_INT(hod_backward(hod_sum(y)), 0);
    float *a = malloc(4096 * sizeof *a), *b = malloc(4096 * sizeof *b);
    EQ_INT(hod_read_floats(y, a, 4096), 0);
    EQ_INT(hod_read_floats(hod_grad(x), b, 4096), 0);
    int zeros = 0;
    for (int i = 0; i < 4096; i++) {
        CHECK(a[i] == b[i]);
        zeros += a[i] == 0;
    }
    CHECK(zeros > 1848 && zeros < 2248); /* 2048 ± 6 standard deviations of 32 */
    free(a);
    free(b);
}

/* ---- several inputs and results ---- */

static int divide(void *context, hod_tensor *const *in, int n, hod_tensor **out)
{
    job *j = context;
    CHECK(n == 2);
    j->runs++;
    hod_tensor *e = hod_exp(hod_mul(in[0], j->w));
    out[0] = hod_mul(e, in[1]);
    out[1] = hod_argmax(e, 0);
    out[2] = hod_tanh(e);
    return 0;
}

static hod_tensor *use(hod_tensor *const *y)
{
    CHECK(!hod_tensor_requires_grad(y[1]) && at(y[1], 0) == 0);
    return hod_sum(hod_mul(y[0], y[2]));
}

TEST(recompute_several_inputs_and_results)
{
    job a = job_new(others), b = job_new(others);
    hod_tensor *x[2][2], *y[3];
    for (int i = 0; i < 2; i++) {
        x[i][0] = leaf_of(3, some);
        x[i][1] = leaf_of(3, others);
    }
    EQ_INT(divide(&a, x[0], 2, y), 0);
    EQ_INT(hod_backward(use(y)), 0);
    EQ_INT(hod_checkpoint_into(divide, &b, 2, x[1], 3, y), 0);
    EQ_INT(b.runs, 1);
    EQ_INT(hod_backward(use(y)), 0);
    EQ_INT(b.runs, 2);
    same_bits(hod_grad(x[0][0]), hod_grad(x[1][0]));
    same_bits(hod_grad(x[0][1]), hod_grad(x[1][1]));
    same_bits(hod_grad(a.w), hod_grad(b.w));
}

TEST(recompute_without_a_place_for_results)
{
    job a = job_new(others);
    hod_tensor *x[2] = {leaf_of(3, some), leaf_of(3, others)};
    ERROR_IS("checkpoint: the array of results is NULL",
             hod_checkpoint_into(divide, &a, 2, x, 3, NULL));
}

/* ---- checkpoints within checkpoints ---- */

static hod_tensor *nested(void *context, hod_tensor *const *in, int n)
{
    job *j = context;
    (void)n;
    j->runs++;
    hod_tensor *h = hod_dropout(hod_tanh(hod_mul(in[0], j->w)), 0.3);
    if (j->inner)
        h = hod_checkpoint(nested, j->inner, 1, &h);
    return hod_dropout(hod_exp(h), 0.3);
}

static hod_tensor *plain_nested(job *j, hod_tensor *x)
{
    hod_tensor *h = hod_dropout(hod_tanh(hod_mul(x, j->w)), 0.3);
    if (j->inner)
        h = plain_nested(j->inner, h);
    return hod_dropout(hod_exp(h), 0.3);
}

enum { LEVELS = 4 };

/* All levels read one parameter. */
static void nest(job *levels, hod_tensor *w)
{
    for (int i = 0; i < LEVELS; i++)
        levels[i] = (job){.w = w, .inner = i + 1 < LEVELS ? &levels[i + 1] : NULL};
}

TEST(recompute_nests)
{
    job a[LEVELS], b[LEVELS];
    nest(a, leaf_of(3, others));
    nest(b, leaf_of(3, others));
    hod_tensor *x = leaf_of(3, some), *z = leaf_of(3, some);
    EQ_INT(hod_random_begin(11, 0, NULL), 0);
    hod_tensor *plain = plain_nested(a, x);
    int64_t stream = hod__random()->stream;
    EQ_INT(hod_backward(hod_sum(plain)), 0);
    EQ_INT(hod_random_begin(11, 0, NULL), 0);
    hod_tensor *y = hod_checkpoint(nested, b, 1, &z);
    EQ_INT(hod__random()->stream, stream);
    same_bits(y, plain);
    EQ_INT(hod_backward(hod_sum(y)), 0);
    EQ_INT(hod__random()->stream, stream);
    same_bits(hod_grad(z), hod_grad(x));
    same_bits(hod_grad(b->w), hod_grad(a->w));
    for (int i = 0; i < LEVELS; i++) /* the forward, and again in itself and all around it */
        EQ_INT(b[i].runs, i + 2);
}

/* ---- whatever a graph can do ---- */

static hod_tensor *smooth(void *context, hod_tensor *const *in, int n)
{
    job *j = context;
    (void)n;
    j->runs++;
    return hod_mul(hod_exp(hod_mul(in[0], j->w)), hod_sin(in[0]));
}

static hod_tensor *smooth_again(void *context, hod_tensor *const *in, int n)
{
    return hod_checkpoint(smooth, context, n, in);
}

TEST(recompute_has_derivatives_of_every_order)
{
    job j = job_new(others);
    hod_tensor *x = leaf_of(3, some);
    hod_gradcheck_report r;
    EQ_INT(hod_gradcheck(smooth_again, 1, &x, &r, &j), 0);
    CHECK(r.passed && r.compared == 3);
    EQ_INT(hod_gradgradcheck(smooth_again, 1, &x, &r, &j), 0);
    CHECK(r.passed && r.compared == 3);
}

TEST(recompute_gives_gradients_of_what_it_reads)
{
    job j = job_new(others);
    hod_tensor *x = leaf_of(3, some), *g[2], *want[2];
    hod_tensor *in[2] = {x, j.w};
    EQ_INT(hod_grad_of(hod_sum(smooth(&j, &x, 1)), 2, in, want, HOD_ONES), 0);
    hod_tensor *y = hod_sum(hod_checkpoint(smooth, &j, 1, &x));
    EQ_INT(hod_grad_of(y, 2, in, g, HOD_ONES, .retain_graph = true), 0);
    same_bits(g[0], want[0]);
    same_bits(g[1], want[1]);
    CHECK(!hod_grad(x) && !hod_grad(j.w));
    /* The graph can be gone through again, and computes again for that. */
    j.runs = 0;
    EQ_INT(hod_backward_with(y, HOD_ONES, .retain_graph = true), 0);
    EQ_INT(hod_backward(y), 0);
    EQ_INT(j.runs, 2);
    NEAR(at(hod_grad(x), 0), 2 * at(want[0], 0), 0);
    CHECK(hod_backward(y) != 0);
    CHECK(strstr(hod_error(), "was consumed by an earlier backward"));
    hod_error_take(NULL);
}

/* Frozen parameters and an input without a gradient: nothing is kept and nothing is run again. */
TEST(recompute_of_a_frozen_function_is_none)
{
    job j = job_new(others);
    hod_tensor *x = hod_from_doubles(some, HOD_SHAPE(3)), *head = leaf_of(3, some);
    hod_requires_grad(j.w, false);
    hod_tensor *y = hod_checkpoint(smooth, &j, 1, &x);
    CHECK(!hod_tensor_requires_grad(y));
    EQ_INT(hod_backward(hod_sum(hod_mul(y, head))), 0);
    EQ_INT(j.runs, 1);
    CHECK(!hod_grad(j.w) && hod_grad(head));
}

static hod_tensor *with_constant_part(void *context, hod_tensor *const *in, int n)
{
    job *j = context;
    (void)n;
    hod_tensor *scale;
    {
        HOD_NO_GRAD(off);
        scale = hod_exp(hod_mul(in[0], j->w));
        if (!hod_recomputing())
            j->counted++;
    }
    return hod_mul(hod_tanh(in[0]), hod_mul(scale, hod_detach(j->w)));
}

TEST(recompute_with_parts_without_gradients_and_state_of_its_own)
{
    job j = job_new(others);
    hod_tensor *x = leaf_of(3, some), *z = leaf_of(3, some);
    EQ_INT(hod_backward(hod_sum(with_constant_part(&j, &x, 1))), 0);
    EQ_INT(hod_backward(hod_sum(hod_checkpoint(with_constant_part, &j, 1, &z))), 0);
    same_bits(hod_grad(z), hod_grad(x));
    CHECK(!hod_grad(j.w));
    EQ_INT(j.counted, 2); /* once a forward */
}

/* ---- what differs is noticed ---- */

typedef enum change { SIZE, OPERATOR, ARGUMENT, MORE, FEWER, DRAWS } change;

typedef struct changing {
    change what;
    int runs;
} changing;

static hod_tensor *changes(void *context, hod_tensor *const *in, int n)
{
    changing *c = context;
    (void)n;
    bool again = c->runs++ > 0;
    change what = c->what;
    int64_t from = again && what == ARGUMENT;
    hod_tensor *h = hod_slice(in[0], 0, from, from + (again && what == SIZE ? 1 : 2));
    h = again && what == OPERATOR ? hod_tanh(h) : hod_exp(h);
    if (what == FEWER ? !again : again && what == MORE)
        h = hod_exp(h);
    if (again && what == DRAWS) {
        HOD_NO_GRAD(off);
        hod_uniform(HOD_SHAPE(2));
    }
    return hod_sum(h);
}

/* A shape with something else behind its sizes every time. */
static hod_tensor *ragged(void *context, hod_tensor *const *in, int n)
{
    (void)n;
    hod_shape s;
    memset(&s, ++*(int *)context, sizeof s);
    s.n = 1;
    s.d[0] = 3;
    return hod_sum(hod_exp(hod_mul(hod_expand(in[0], s), hod_full(HOD_F64, s, 2))));
}

TEST(recompute_does_not_look_behind_the_sizes)
{
    int calls = 0;
    hod_tensor *x = leaf_of(3, some), *g = hod_slice(x, 0, 0, 1);
    EQ_INT(hod_backward(hod_checkpoint(ragged, &calls, 1, &g)), 0);
    EQ_INT(calls, 2);
}

TEST(recompute_that_differs_is_an_error)
{
    static const char *const says[] = {
        [SIZE] = "its operator 0 was slice (2) and is slice (1) now",
        [OPERATOR] = "its operator 1 was exp (2) and is tanh (2) now",
        [ARGUMENT] = "its operator 0 was called with other arguments and is slice (2) now",
        [MORE] = "its operator 2 was sum () and is exp (2) now",
        [FEWER] = "its operator 2 was exp (2) and is sum () now",
        [DRAWS] = "running it again draws 1 times, before it was 0",
    };
    for (change what = SIZE; what <= DRAWS; what++) {
        changing c = {.what = what};
        hod_tensor *x = leaf_of(3, some);
        EQ_INT(hod_backward(hod_checkpoint(changes, &c, 1, &x)), -1);
        CHECK(strstr(hod_error(), "checkpoint at "));
        CHECK(strstr(hod_error(), "test_recompute.c:"));
        if (!strstr(hod_error(), says[what]))
            FAIL("%s: %s", says[what], hod_error());
        hod_error_take(NULL);
        CHECK(!hod_grad(x));
    }
}

/* B38: values changed in place. A parameter that moved is noticed; a result that was overwritten
 * outside does not matter, because it is computed anew. */
TEST(recompute_b38_changes_in_place)
{
    job j = job_new(others);
    hod_tensor *x = leaf_of(3, some), *y = hod_checkpoint(smooth, &j, 1, &x);
    {
        HOD_NO_GRAD(off);
        CHECK(hod__assign(j.w, hod_full(HOD_F64, HOD_SHAPE(3), 1)));
    }
    EQ_INT(hod_backward(hod_sum(y)), -1);
    CHECK(strstr(hod_error(), "its second input f64 (3) was changed in place by assign"));
    hod_error_take(NULL);

    hod_tensor *h = hod_mul_scalar(x, 1);
    y = hod_checkpoint(smooth, &j, 1, &h);
    CHECK(hod__assign(h, hod_full(HOD_F64, HOD_SHAPE(3), 0)));
    EQ_INT(hod_backward(hod_sum(y)), -1);
    CHECK(strstr(hod_error(), "backward of checkpoint at "));
    CHECK(strstr(hod_error(), "its input f64 (3) was changed in place by assign"));
    hod_error_take(NULL);

    hod_tensor *a = leaf_of(3, (double[]){1, 2, 3});
    hod_tensor *s = hod_checkpoint(smooth_again, &j, 1, &a);
    hod_tensor *loss = hod_sum(s);
    CHECK(hod__assign(hod_detach(s), hod_full(HOD_F64, HOD_SHAPE(3), 0)));
    EQ_INT(hod_backward(loss), 0);
    NEAR(at(hod_grad(a), 0), exp(1) * (sin(1) + cos(1)), 1e-12);
}

/* ---- modules ---- */

static hod_tensor *call_module(void *net, hod_tensor *const *in, int n)
{
    (void)n;
    return hod_call(net, in[0]);
}

/* B13: x = [1,3], momentum 0.1: mean 0.2, variance 1.1, count 1, as without recomputation. */
TEST(recompute_b13_batch_norm_counts_once)
{
    hod_module *m = hod_nn_batch_norm2d(NULL, "bn", .channels = 1, .mode = HOD_BN_MICRO);
    hod_tensor *x = hod_reshape(hod_from_floats((float[]){1, 3}, HOD_SHAPE(2)), HOD_SHAPE(2, 1));
    hod_requires_grad(x, true);
    hod_tensor *y = hod_checkpoint(call_module, m, 1, &x);
    EQ_INT(hod_backward(hod_sum(hod_mul(y, y))), 0);
    double want[] = {0.2, 1.1, 1};
    int i = 0;
    for (hod_walk w = hod_buffers(m); hod_walk_next(&w) && i < 3; i++)
        NEAR(hod_item(w.item.tensor), want[i], 1e-6);
    EQ_INT(i, 3);
    hod_module_free(m);
}

/* B15: three micro-batches through two dropouts; loss, gradients and the next draw to the bit. */
static hod_tensor *two_dropouts(void *context, hod_tensor *const *in, int n)
{
    job *j = context;
    (void)n;
    return hod_dropout(hod_mul(hod_dropout(in[0], 0.5), j->w), 0.5);
}

static double window(job *j, bool checkpointed, double *next)
{
    double loss = 0;
    for (int k = 0; k < 3; k++) {
        HOD_SCOPE(s);
        CHECK(hod_random_begin(5, k, NULL) == 0);
        hod_tensor *x = hod_mul_scalar(hod_from_doubles(some, HOD_SHAPE(3)), k + 1);
        hod_tensor *y =
            checkpointed ? hod_checkpoint(two_dropouts, j, 1, &x) : two_dropouts(j, &x, 1);
        hod_tensor *sum = hod_sum(hod_mul(y, y));
        loss += hod_item(sum);
        CHECK(hod_backward(sum) == 0);
        *next = hod_item(hod_sum(hod_uniform(HOD_SHAPE(1))));
    }
    return loss;
}

TEST(recompute_b15_a_window_is_the_same_to_the_bit)
{
    job a = job_new(others), b = job_new(others);
    double next[2];
    NEAR(window(&a, false, &next[0]), window(&b, true, &next[1]), 0);
    NEAR(next[0], next[1], 0);
    same_bits(hod_grad(a.w), hod_grad(b.w));
}

/* ---- memory ---- */

static hod_tensor *long_chain(void *context, hod_tensor *const *in, int n)
{
    (void)context;
    (void)n;
    hod_tensor *h = in[0];
    for (int i = 0; i < 16; i++)
        h = hod_tanh(hod_exp(hod_mul_scalar(h, 0.1)));
    return h;
}

static int64_t kept_by(hod_tensor *x, bool checkpointed)
{
    HOD_SCOPE(s);
    hod_tensor *h = x;
    int64_t before = hod_memory().allocated;
    for (int i = 0; i < 4; i++)
        h = checkpointed ? hod_checkpoint(long_chain, NULL, 1, &h) : long_chain(NULL, &h, 1);
    int64_t kept = hod_memory().allocated - before;
    CHECK(hod_backward(hod_sum(h)) == 0);
    return kept;
}

TEST(recompute_keeps_the_inputs_only)
{
    int64_t n = 1 << 16, bytes = n * 4;
    hod_tensor *x = hod_requires_grad(hod_zeros(HOD_F32, HOD_SHAPE(n)), true);
    CHECK(kept_by(x, false) >= 4 * 32 * bytes); /* exp and tanh keep their results */
    int64_t kept = kept_by(x, true);
    CHECK(kept >= 4 * bytes && kept <= 4 * bytes + 4096); /* four results, and a random key */
}

/* ---- failures, compiled functions ---- */

/* context: the job, of a checkpointed function; its input. */
static int under_pressure(void *context)
{
    void **both = context;
    hod_tensor *x = both[1];
    HOD_SCOPE(s);
    hod_tensor *y = hod_checkpoint(nested, both[0], 1, &x);
    return hod_backward(hod_sum(y));
}

TEST(recompute_survives_every_failing_allocation)
{
    job j[LEVELS];
    nest(j, leaf_of(3, others));
    hod_tensor *x = leaf_of(3, some);
    CHECK(hod_random_begin(1, 0, NULL) == 0);
    CHECK(every_allocation_fails(under_pressure, (void *[]){j, x}) > 50);
}

static int step(void *context, hod_tensor *const *in, hod_tensor **out)
{
    job *j = context;
    hod_tensor *y[3], *both[2] = {hod_mul(in[0], j->w), in[0]};
    both[0] = hod_checkpoint(nested, j, 1, &both[0]);
    if (hod_checkpoint_into(divide, j, 2, both, 3, y) != 0)
        return -1;
    out[0] = hod_sum(hod_mul(y[0], y[2]));
    return hod_backward(out[0]);
}

TEST(recompute_in_compiled_functions)
{
    job a[LEVELS], b[LEVELS];
    nest(a, leaf_of(3, others));
    nest(b, leaf_of(3, others));
    hod_fn *f = hod_compile(step, a, .inputs = 1, .outputs = 1, .fullgraph = true);
    for (int i = 0; i < 4; i++) {
        HOD_SCOPE(s);
        hod_tensor *x = hod_mul_scalar(hod_from_doubles(some, HOD_SHAPE(3)), 1 + 0.1 * i), *y, *e;
        CHECK(hod_random_begin(2, i, NULL) == 0);
        EQ_INT(hod_fn_call(f, &x, &y), 0);
        CHECK(hod_random_begin(2, i, NULL) == 0);
        EQ_INT(step(b, &x, &e), 0);
        NEAR(at(y, 0), at(e, 0), 1e-12);
        for (int k = 0; k < 3; k++)
            NEAR(at(hod_grad(a->w), k), at(hod_grad(b->w), k), 1e-11);
    }
    EQ_INT(hod_fn_report(f).traces, 1);
    hod_fn_free(f);
}
