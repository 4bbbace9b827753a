/* Compiled functions against the same functions run as they are. */
#include "harness.h"
#include <hod/autograd.h>
#include <hod/compile.h>
#include <hod/functional.h>
#include <hod/memory.h>
#include <hod/nn.h>
#include <hod/random.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ops/op.h" /* last: it switches off the noting of places */

static hod_tensor *ramp(int rows, int cols, double scale)
{
    float v[4096];
    for (int i = 0; i < rows * cols; i++)
        v[i] = (float)(scale * ((i * 37 % 101) / 50.0 - 1));
    return hod_from_floats(v, HOD_SHAPE(rows, cols));
}

/* Largest difference of two tensors relative to the largest magnitude of b. */
static double apart(hod_tensor *a, hod_tensor *b)
{
    CHECK(a && b);
    int64_t n = hod_tensor_numel(b);
    EQ_INT(hod_tensor_numel(a), n);
    double *x = calloc((size_t)n + 1, sizeof *x), *y = calloc((size_t)n + 1, sizeof *y);
    CHECK(hod_read_doubles(a, x, n) == 0 && hod_read_doubles(b, y, n) == 0);
    double worst = 0, scale = 1e-30;
    for (int64_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs(x[i] - y[i]));
        scale = fmax(scale, fabs(y[i]));
    }
    free(x);
    free(y);
    return worst / scale;
}

/* f32 sums of a few dozen terms in another order. */
#define CLOSE 1e-5

/* ---- plain functions ---- */

static int chain(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    out[0] = hod_sum_dims(hod_relu(hod_add(hod_mul(in[0], in[1]), in[0])), 1);
    return 0;
}

TEST(compile_chain_equals_eager)
{
    hod_fn *f = hod_compile(chain, NULL, .inputs = 2, .outputs = 1, .fullgraph = true);
    for (int i = 0; i < 4; i++) {
        HOD_SCOPE(s);
        hod_tensor *in[] = {ramp(5, 7, 1 + i), ramp(5, 7, 2 - i)}, *y, *expect;
        CHECK(hod_fn_call(f, in, &y) == 0);
        CHECK(chain(NULL, in, &expect) == 0);
        NEAR(apart(y, expect), 0, CLOSE);
    }
    hod_compile_report r = hod_fn_report(f);
    EQ_INT(r.traces, 1);
    EQ_INT(r.graph_breaks, 0);
    CHECK(r.kernels > 0 || getenv("HOD_COMPILE"));
    hod_fn_free(f);
}

static int products(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    out[0] = hod_prod_dims(hod_mul_scalar(in[0], 1), 1);
    return out[0] ? 0 : -1;
}

/* On the way a product is far outside f32, in whatever lanes it is folded: it is kept in f64. */
TEST(compile_products_leave_the_range_meanwhile)
{
    enum { N = 1024 };
    float v[N];
    for (int i = 0; i < N; i++)
        v[i] = i % 16 ? 1 : i < N / 2 ? 0x1p-20f : 0x1p20f;
    hod_tensor *x = hod_from_floats(v, HOD_SHAPE(1, N)), *y;
    hod_fn *f = hod_compile(products, NULL, .inputs = 1, .outputs = 1, .fullgraph = true);
    for (int i = 0; i < 2; i++) {
        CHECK(hod_fn_call(f, &x, &y) == 0);
        NEAR(hod_item(y), i ? 0x1p20 : 1, 0);
        v[0] = 1;
        x = hod_from_floats(v, HOD_SHAPE(1, N));
    }
    hod_fn_free(f);
}

/* ---- a small network with its gradients ---- */

typedef struct net {
    hod_tensor *w1, *b1, *w2, *b2;
    bool dropout, twice;
    double scale;
} net;

static net net_new(void)
{
    net n = {.w1 = hod_tensor_retain(hod_requires_grad(ramp(8, 16, .3), true)),
             .b1 = hod_tensor_retain(hod_requires_grad(ramp(1, 16, .1), true)),
             .w2 = hod_tensor_retain(hod_requires_grad(ramp(16, 4, .2), true)),
             .b2 = hod_tensor_retain(hod_requires_grad(ramp(1, 4, .1), true)),
             .scale = 1};
    return n;
}

static void net_free(net *n)
{
    hod_tensor_release(n->w1);
    hod_tensor_release(n->b1);
    hod_tensor_release(n->w2);
    hod_tensor_release(n->b2);
}

static hod_tensor *net_loss(net *n, hod_tensor *x)
{
    hod_tensor *h = hod_relu(hod_add(hod_matmul(x, n->w1), n->b1));
    if (n->dropout)
        h = hod_dropout(h, .5);
    hod_tensor *y = hod_add(hod_matmul(h, n->w2), n->b2);
    return hod_mul_scalar(hod_sum(hod_mul(y, y)), n->scale);
}

static int net_step(void *job, hod_tensor *const *in, hod_tensor **out)
{
    out[0] = net_loss(job, in[0]);
    return hod_backward(out[0]);
}

static void zero_grads(net *n)
{
    hod_zero_grad(n->w1);
    hod_zero_grad(n->b1);
    hod_zero_grad(n->w2);
    hod_zero_grad(n->b2);
}

static void same_grads(net *a, net *b)
{
    NEAR(apart(hod_grad(a->w1), hod_grad(b->w1)), 0, CLOSE);
    NEAR(apart(hod_grad(a->b1), hod_grad(b->b1)), 0, CLOSE);
    NEAR(apart(hod_grad(a->w2), hod_grad(b->w2)), 0, CLOSE);
    NEAR(apart(hod_grad(a->b2), hod_grad(b->b2)), 0, CLOSE);
}

TEST(compile_gradients_accumulate_like_eager)
{
    HOD_SCOPE(s);
    net a = net_new(), b = net_new();
    hod_fn *f = hod_compile(net_step, &a, .inputs = 1, .outputs = 1, .fullgraph = true);
    for (int window = 1; window <= 4; window++) {
        zero_grads(&a);
        zero_grads(&b);
        CHECK(hod_grad(a.w1) == NULL);
        for (int i = 0; i < window; i++) {
            HOD_SCOPE(t);
            hod_tensor *x = ramp(6, 8, 1 + .1 * i + window), *loss, *expect;
            CHECK(hod_fn_call(f, &x, &loss) == 0);
            CHECK(net_step(&b, &x, &expect) == 0);
            NEAR(apart(loss, expect), 0, CLOSE);
        }
        same_grads(&a, &b);
    }
    EQ_INT(hod_fn_report(f).traces, 1);
    hod_fn_free(f);
    net_free(&a);
    net_free(&b);
}

TEST(compile_second_backward_is_refused_after_replay_too)
{
    HOD_SCOPE(s);
    net a = net_new();
    hod_fn *f = hod_compile(net_step, &a, .inputs = 1, .outputs = 1);
    for (int i = 0; i < 2; i++) {
        hod_tensor *x = ramp(6, 8, 1), *loss;
        CHECK(hod_fn_call(f, &x, &loss) == 0);
        ERROR_IS("backward: () does not depend on anything that requires a gradient",
                 hod_backward(loss));
    }
    hod_fn_free(f);
    net_free(&a);
}

static int net_forward(void *job, hod_tensor *const *in, hod_tensor **out)
{
    out[0] = net_loss(job, in[0]);
    return 0;
}

/* The function returns a loss that can still be differentiated: the tape must exist on replays. */
TEST(compile_backward_outside_of_the_function)
{
    HOD_SCOPE(s);
    net a = net_new(), b = net_new();
    hod_fn *f = hod_compile(net_forward, &a, .inputs = 1, .outputs = 1, .fullgraph = true);
    for (int i = 0; i < 4; i++) {
        HOD_SCOPE(t);
        hod_tensor *x = ramp(6, 8, 1 + i), *loss, *expect;
        CHECK(hod_fn_call(f, &x, &loss) == 0);
        CHECK(hod_backward(loss) == 0);
        CHECK(net_step(&b, &x, &expect) == 0);
        NEAR(apart(loss, expect), 0, CLOSE);
        same_grads(&a, &b);
    }
    EQ_INT(hod_fn_report(f).traces, 1);
    hod_fn_free(f);
    net_free(&a);
    net_free(&b);
}

/* ---- branches and breaks (B41) ---- */

static int line_of_break;

static int branch(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    line_of_break = __LINE__ + 1;
    double total = hod_item(hod_sum(in[0]));
    out[0] = total > 0 ? hod_mul_scalar(in[0], 2) : hod_neg(in[0]);
    return 0;
}

static void check_branch(hod_fn *f, float a, float b, float y0, float y1)
{
    HOD_SCOPE(s);
    hod_tensor *x = hod_from_floats((float[]){a, b}, HOD_SHAPE(2)), *y;
    CHECK(hod_fn_call(f, &x, &y) == 0);
    float v[2];
    CHECK(hod_read_floats(y, v, 2) == 0);
    NEAR(v[0], y0, 0);
    NEAR(v[1], y1, 0);
}

TEST(compile_branch_on_a_value_takes_the_right_side)
{
    hod_fn *f = hod_compile(branch, NULL, .inputs = 1, .outputs = 1);
    for (int i = 0; i < 3; i++) {
        check_branch(f, 1, 1, 2, 2);
        check_branch(f, -1, -1, 1, 1);
        check_branch(f, 1, 2, 2, 4);
        check_branch(f, 3, -4, -3, 4);
    }
    hod_compile_report r = hod_fn_report(f);
    EQ_INT(r.traces, 2);
    EQ_INT(r.graph_breaks, 1);
    EQ_INT(r.last_break.line, line_of_break);
    CHECK(strstr(r.last_break.file, "test_compile.c"));
    EQ_STR(r.last_break.reason, "value read on the host (sum)");
    hod_fn_free(f);
}

TEST(compile_fullgraph_makes_a_break_an_error)
{
    HOD_SCOPE(s);
    hod_fn *f = hod_compile(branch, NULL, .inputs = 1, .outputs = 1, .fullgraph = true);
    hod_tensor *x = ramp(1, 2, 1), *y;
    char expect[200];
    for (int i = 0; i < 2; i++) {
        int rc = hod_fn_call(f, &x, &y);
        snprintf(expect, sizeof expect, "step: graph break at %s:%d: value read on the host (sum)",
                 __FILE__, line_of_break);
        EQ_INT(hod_error_kind_pending(), HOD_ERROR_COMPILE);
        ERROR_IS(expect, rc);
    }
    hod_fn_free(f);
}

TEST(compile_attribute_change_is_seen)
{
    HOD_SCOPE(s);
    net a = net_new();
    hod_fn *f = hod_compile(net_forward, &a, .inputs = 1, .outputs = 1);
    hod_tensor *x = ramp(6, 8, 1), *y2, *y3, *again;
    a.scale = 2;
    CHECK(hod_fn_call(f, &x, &y2) == 0);
    a.scale = 3;
    CHECK(hod_fn_call(f, &x, &y3) == 0);
    NEAR(hod_item(y3) / hod_item(y2), 1.5, 1e-6);
    a.scale = 2;
    CHECK(hod_fn_call(f, &x, &again) == 0);
    NEAR(hod_item(again), hod_item(y2), 0);
    EQ_INT(hod_fn_report(f).traces, 2);
    hod_fn_free(f);
    net_free(&a);
}

/* A shape with something else behind its sizes every time. */
static int ragged(void *job, hod_tensor *const *in, hod_tensor **out)
{
    hod_shape s;
    memset(&s, ++*(int *)job, sizeof s);
    s.n = 1;
    s.d[0] = 3;
    out[0] = hod_add(hod_expand(in[0], s), hod_full(HOD_F32, s, 2));
    return 0;
}

TEST(compile_what_is_behind_the_sizes_is_no_change)
{
    HOD_SCOPE(s);
    int calls = 0;
    hod_fn *f = hod_compile(ragged, &calls, .inputs = 1, .outputs = 1);
    for (int i = 0; i < 4; i++) {
        hod_tensor *x = hod_full(HOD_F32, HOD_SHAPE(), i), *y;
        CHECK(hod_fn_call(f, &x, &y) == 0);
        NEAR(hod_item(hod_sum(y)), 3 * (i + 2), 0);
    }
    EQ_INT(hod_fn_report(f).traces, 1);
    hod_fn_free(f);
}

TEST(compile_dropout_toggles_and_draws_anew)
{
    HOD_SCOPE(s);
    net a = net_new(), b = net_new();
    hod_fn *f = hod_compile(net_step, &a, .inputs = 1, .outputs = 1, .fullgraph = true);
    double before = 0;
    for (int i = 0; i < 10; i++) {
        HOD_SCOPE(t);
        a.dropout = b.dropout = i % 2 == 0;
        hod_tensor *x = ramp(6, 8, 1), *loss, *expect;
        CHECK(hod_random_begin(7, i, NULL) == 0);
        CHECK(hod_fn_call(f, &x, &loss) == 0);
        CHECK(hod_random_begin(7, i, NULL) == 0);
        CHECK(net_step(&b, &x, &expect) == 0);
        NEAR(apart(loss, expect), 0, CLOSE);
        same_grads(&a, &b);
        if (a.dropout) {
            CHECK(hod_item(loss) != before);
            before = hod_item(loss);
        }
    }
    EQ_INT(hod_fn_report(f).traces, 2);
    hod_fn_free(f);
    net_free(&a);
    net_free(&b);
}

/* ---- sizes ---- */

TEST(compile_new_size_is_a_new_plan)
{
    net a = net_new(), b = net_new();
    hod_fn *f = hod_compile(net_step, &a, .inputs = 1, .outputs = 1, .fullgraph = true);
    for (int pass = 0; pass < 2; pass++)
        for (int rows = 1; rows < 9; rows++) {
            HOD_SCOPE(t);
            hod_tensor *x = ramp(rows, 8, 1), *loss, *expect;
            CHECK(hod_fn_call(f, &x, &loss) == 0);
            CHECK(net_step(&b, &x, &expect) == 0);
            NEAR(apart(loss, expect), 0, CLOSE);
        }
    same_grads(&a, &b);
    EQ_INT(hod_fn_report(f).traces, 8);
    hod_fn_free(f);
    net_free(&a);
    net_free(&b);
}

/* ---- what callers keep ---- */

TEST(compile_outputs_survive_later_calls)
{
    HOD_SCOPE(s);
    hod_fn *f = hod_compile(chain, NULL, .inputs = 2, .outputs = 1);
    hod_tensor *kept[4], *expect[4];
    for (int i = 0; i < 4; i++) {
        hod_tensor *in[] = {ramp(5, 7, 1 + i), ramp(5, 7, 2 - i)};
        CHECK(hod_fn_call(f, in, &kept[i]) == 0);
        CHECK(chain(NULL, in, &expect[i]) == 0);
    }
    for (int i = 0; i < 4; i++)
        NEAR(apart(kept[i], expect[i]), 0, CLOSE);
    hod_fn_free(f);
    for (int i = 0; i < 4; i++)
        NEAR(apart(kept[i], expect[i]), 0, CLOSE);
}

typedef struct keeper {
    bool keep;
    hod_tensor *kept;
} keeper;

static int keeping(void *job, hod_tensor *const *in, hod_tensor **out)
{
    keeper *k = job;
    hod_tensor *h = hod_exp(in[0]);
    if (k->keep)
        k->kept = hod_tensor_retain(h);
    out[0] = hod_sum(hod_mul(h, h));
    return 0;
}

TEST(compile_value_kept_only_this_time_is_computed)
{
    HOD_SCOPE(s);
    keeper k = {0};
    hod_fn *f = hod_compile(keeping, &k, .inputs = 1, .outputs = 1);
    for (int i = 0; i < 6; i++) {
        hod_tensor *x = ramp(3, 5, 1 + i), *y;
        k.keep = i % 3 == 1;
        CHECK(hod_fn_call(f, &x, &y) == 0);
        if (k.keep) {
            NEAR(apart(k.kept, hod_exp(x)), 0, CLOSE);
            hod_tensor_release(k.kept);
        }
        NEAR(apart(y, hod_sum(hod_mul(hod_exp(x), hod_exp(x)))), 0, CLOSE);
    }
    EQ_INT(hod_fn_report(f).traces, 1);
    hod_fn_free(f);
}

static int returns_views(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    out[0] = hod_transpose(in[0], 0, 1);                 /* of a tensor from outside */
    out[1] = hod_transpose(hod_mul(in[0], in[0]), 0, 1); /* of a result */
    out[2] = in[0];
    return 0;
}

TEST(compile_views_and_inputs_can_be_results)
{
    hod_fn *f = hod_compile(returns_views, NULL, .inputs = 1, .outputs = 3, .fullgraph = true);
    for (int i = 0; i < 3; i++) {
        HOD_SCOPE(s);
        hod_tensor *x = ramp(3, 5, 1 + i), *y[3], *e[3];
        CHECK(hod_fn_call(f, &x, y) == 0);
        CHECK(returns_views(NULL, &x, e) == 0);
        for (int j = 0; j < 3; j++)
            NEAR(apart(y[j], e[j]), 0, CLOSE);
        CHECK(y[2] == x);
        CHECK(hod_tensor_data(y[0]) == hod_tensor_data(x));
    }
    hod_fn_free(f);
}

/* ---- behaviours by number ---- */

/* B38: an in-place change of a saved value reaches through detach, recorded or not. */
static int overwrite_saved(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)out;
    hod_tensor *y = hod_sigmoid(hod_mul(((net *)job)->b2, in[0]));
    if (!hod__assign(hod_detach(y), hod_mul_scalar(in[0], 0)))
        return -1;
    return hod_backward(hod_sum(y));
}

TEST(compile_b38_saved_value_changed_in_place)
{
    HOD_SCOPE(s);
    net a = net_new();
    hod_fn *f = hod_compile(overwrite_saved, &a, .inputs = 1, .outputs = 0);
    hod_tensor *x = ramp(1, 4, 1);
    for (int i = 0; i < 2; i++) {
        CHECK(hod_fn_call(f, &x, NULL) == -1);
        CHECK(strstr(hod_error(), "changed in place"));
        hod_error_take(NULL);
        CHECK(hod_grad(a.b2) == NULL);
    }
    hod_fn_free(f);
    net_free(&a);
}

/* B40: 32 lengths, twice. The second pass compiles nothing, the first little. */
TEST(compile_b40_lengths_compile_little)
{
    net a = net_new();
    hod_fn *f = hod_compile(net_step, &a, .inputs = 1, .outputs = 1, .fullgraph = true);
    int compiled[2];
    for (int pass = 0; pass < 2; pass++) {
        for (int length = 16; length < 48; length++) {
            HOD_SCOPE(s);
            hod_tensor *x = ramp(length, 8, 1), *loss;
            CHECK(hod_fn_call(f, &x, &loss) == 0);
        }
        hod_compile_report r = hod_fn_report(f);
        EQ_INT(r.traces, 32);
        compiled[pass] = r.kernels_compiled;
    }
    EQ_INT(compiled[1], compiled[0]);
    hod_compile_report r = hod_fn_report(f);
    /* Kernels of at most four programs: one that knows its sizes, one that does not, and both for
     * a length that fills no row of threads. */
    CHECK(compiled[0] <= 4 * HOD_MAX(r.kernels, 1));
    hod_fn_free(f);
    net_free(&a);
}

/* B41: dropout and batch norm in training, evaluation, training. */
static int modes(void *job, hod_tensor *const *in, hod_tensor **out)
{
    out[0] = hod_call(job, in[0]);
    return 0;
}

static hod_module *moody(void)
{
    hod_module *m = hod_nn_sequential(NULL, "net");
    hod_nn_dropout(m, "drop", .5);
    hod_nn_batch_norm2d(m, "bn", 3, .mode = HOD_BN_MICRO);
    m = hod_module_done(m);
    CHECK(m && hod_module_init(m, 1) == 0);
    return m;
}

TEST(compile_b41_training_and_evaluation)
{
    HOD_SCOPE(s);
    hod_module *m = moody(), *twin = moody();
    hod_fn *f = hod_compile(modes, m, .inputs = 1, .outputs = 1, .fullgraph = true);
    hod_tensor *x = hod_reshape(ramp(4, 12, 1), HOD_SHAPE(4, 3, 2, 2)), *y, *e;
    for (int i = 0; i < 20; i++) {
        HOD_SCOPE(t);
        HOD_NO_GRAD(n);
        hod_module_train(m, i % 2 == 0);
        hod_module_train(twin, i % 2 == 0);
        CHECK(hod_random_begin(1, i, NULL) == 0 && hod_fn_call(f, &x, &y) == 0);
        CHECK(hod_random_begin(1, i, NULL) == 0 && modes(twin, &x, &e) == 0);
        NEAR(apart(y, e), 0, CLOSE); /* the running statistics are in it when evaluating */
    }
    EQ_INT(hod_fn_report(f).traces, 2);
    hod_fn_free(f);
    hod_module_free(m);
    hod_module_free(twin);
}
