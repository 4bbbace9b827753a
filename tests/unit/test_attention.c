/* Attention by blocks: against the composition with all scores in memory, at lengths of several
 * blocks; rows that see nothing; memory. Values are PyTorch's in tests/golden. */
#include "autograd/autograd.h"
#include "harness.h"
#include "ops/attention.h"
#include "ops/rows.h"
#include <hod/attention.h>
#include <hod/compile.h>
#include <hod/functional.h>
#include <hod/memory.h>
#include <math.h>
#include <string.h>

static hod_tensor *draws(hod_dtype t, hod_shape shape)
{
    return hod_cast(hod_sub_scalar(hod_mul_scalar(hod_uniform(shape), 4), 2), t);
}

static void near(const char *what, hod_tensor *a, hod_tensor *b, double tolerance)
{
    hod_tensor *far = hod_abs(hod_sub(a, b));
    double d = hod_item(hod_amax_over(hod_flatten(far, 0), HOD_SHAPE(0), false));
    if (!(d <= tolerance))
        FAIL("%s: %g apart", what, d);
}

typedef struct attention_case {
    hod_dtype t;
    bool causal;
    double dropout;
    int64_t b, lq, lk; /* b = 0: 1; two heads share one of keys */
    hod_tensor *mask;  /* NULL: none; a real one gets a gradient */
} attention_case;

/* The same call by blocks, and composed: x[0..2] queries, keys, values, x[3] the mask. */
static hod_tensor *attend(const attention_case *c, bool blocks, hod_tensor **x)
{
    EQ_INT(hod_random_begin(7, 3, NULL), 0); /* either draws as stream 0 */
    if (blocks) {
        hod_attention_options o = {.causal = c->causal, .scale = 0.3, .dropout = c->dropout};
        return x[3] ? hod_attention_masked_with(x[0], x[1], x[2], x[3], o)
                    : hod_attention_with(x[0], x[1], x[2], o);
    }
    hod_attrs_attention a = {.scale = 0.3, .causal = c->causal, .dropout = c->dropout};
    hod_tensor *u = c->dropout > 0 ? hod_uniform(HOD_SHAPE(c->b, 2, c->lq, c->lk)) : NULL;
    return hod__attention_composed(x[0], x[1], x[2], x[3] ? x[3] : hod_full(c->t, HOD_SHAPE(), 0),
                                   &a, u);
}

/* Results and gradients, once by blocks and once composed. */
static void check_same(attention_case c)
{
    HOD_SCOPE(s);
    c.b = HOD_MAX(c.b, 1);
    hod_shape shape[] = {HOD_SHAPE(c.b, 2, c.lq, 8), HOD_SHAPE(c.b, 1, c.lk, 8),
                         HOD_SHAPE(c.b, 1, c.lk, 5)};
    const char *const name[] = {"dq", "dk", "dv", "dmask"};
    bool of_mask = c.mask && hod_tensor_dtype(c.mask) != HOD_BOOL;
    hod_tensor *x[2][4], *y[2], *w = draws(c.t, HOD_SHAPE(c.b, 2, c.lq, 5));
    for (int i = 0; i < 4; i++) {
        hod_tensor *values = i < 3 ? draws(c.t, shape[i]) : c.mask;
        for (int k = 0; k < 2; k++)
            x[k][i] = i < 3 || of_mask ? hod_requires_grad(hod_copy(values), true) : values;
    }
    for (int k = 0; k < 2; k++) {
        y[k] = attend(&c, k == 0, x[k]);
        EQ_INT(hod_backward(hod_sum(hod_mul(y[k], w))), 0);
    }
    double tolerance = c.t == HOD_F64 ? 1e-12 : 2e-5; /* sums of some 500 products of size 1 */
    near("result", y[0], y[1], tolerance);
    for (int i = 0; i < (of_mask ? 4 : 3); i++)
        near(name[i], hod_grad(x[0][i]), hod_grad(x[1][i]), tolerance);
}

#define CHECK_SAME(...) check_same((attention_case){__VA_ARGS__})

static void check_cases(hod_dtype t, double p)
{
    hod_tensor *some = hod_gt_scalar(draws(HOD_F32, HOD_SHAPE(2, 130, 70)), 1);
    hod_tensor *rows = hod_gt_scalar(draws(HOD_F32, HOD_SHAPE(30, 1)), 0);
    CHECK_SAME(.t = t, .dropout = p, .lq = 130, .lk = 200);
    CHECK_SAME(.t = t, .dropout = p, .lq = 200, .lk = 130, .causal = true);
    CHECK_SAME(.t = t, .dropout = p, .lq = 65, .lk = 201, .causal = true);
    CHECK_SAME(.t = t, .dropout = p, .lq = 130, .lk = 70, .mask = some);
    CHECK_SAME(.t = t, .dropout = p, .lq = 30, .lk = 3, .causal = true, .mask = rows);
    CHECK_SAME(.t = t, .dropout = p, .b = 3, .lq = 33, .lk = 5);
}

TEST(attention_blocks_are_the_composition)
{
    for (int p = 0; p < 2; p++)
        check_cases(HOD_F64, p * 0.3);
    for (int k = 0; k < 3; k++) { /* instruction sets */
        if (!hod__rows_of(k))
            continue;
        hod__rows_use(hod__rows_of(k));
        check_cases(HOD_F32, 0.3);
    }
    hod__rows_use(NULL);
    check_cases(HOD_F32, 0);
    CHECK_SAME(.t = HOD_F32, .lq = 1100, .lk = 1030, .causal = true, .dropout = 0.1);
}

TEST(attention_gradients_of_masks_are_the_composition_s)
{
    for (int k = 0; k < 2; k++) {
        hod_dtype t = k ? HOD_F32 : HOD_F64;
        double p = k * 0.2;
        CHECK_SAME(.t = t, .dropout = p, .b = 3, .lq = 70, .lk = 131,
                   .mask = draws(t, HOD_SHAPE(70, 131)), .causal = true);
        CHECK_SAME(.t = t, .dropout = p, .b = 2, .lq = 70, .lk = 131,
                   .mask = draws(t, HOD_SHAPE(2, 1, 1, 131)));
        CHECK_SAME(.t = t, .lq = 70, .lk = 131, .mask = draws(t, HOD_SHAPE(2, 70, 1)));
        CHECK_SAME(.t = t, .lq = 270, .lk = 300, .mask = draws(t, HOD_SHAPE(2, 1, 300)));
        CHECK_SAME(.t = t, .lq = 7, .lk = 9, .mask = draws(t, HOD_SHAPE(1)));
        CHECK_SAME(.t = t, .lq = 7, .lk = 9,
                   .mask = hod_expand(draws(t, HOD_SHAPE(9)), HOD_SHAPE(7, 9)));
    }
}

TEST(attention_b28_a_row_that_sees_nothing)
{
    hod_tensor *q = hod_requires_grad(hod_zeros(HOD_F32, HOD_SHAPE(1, 1, 2, 1)), true);
    hod_tensor *k = hod_requires_grad(hod_zeros(HOD_F32, HOD_SHAPE(1, 1, 2, 1)), true);
    hod_tensor *v =
        hod_reshape(hod_from_doubles((double[]){1, 3}, HOD_SHAPE(2)), HOD_SHAPE(1, 1, 2, 1));
    v = hod_requires_grad(hod_copy(hod_cast(v, HOD_F32)), true);
    hod_tensor *mask = hod_lt_scalar(hod_iota(HOD_F32, HOD_SHAPE(2, 2), 0), 1);
    hod_tensor *y = hod_attention_masked(q, k, v, mask);
    NEAR(hod_item(hod_select(hod_flatten(y, 0), 0, 0)), 2, 0);
    NEAR(hod_item(hod_select(hod_flatten(y, 0), 0, 1)), 0, 0);
    EQ_INT(hod_backward(hod_select(hod_flatten(y, 0), 0, 0)), 0);
    near("dv", hod_grad(v), hod_full_like(v, 0.5), 1e-7);
    near("dq", hod_grad(q), hod_full_like(q, 0), 0);
    near("dk", hod_grad(k), hod_full_like(k, 0), 0);
}

/* The peak of forward and backward beyond the inputs, the result and the gradients. */
static double peak(int64_t heads, int64_t length, int64_t width, double dropout)
{
    HOD_SCOPE(s);
    hod_tensor *x[3], *g[3];
    for (int i = 0; i < 3; i++)
        x[i] = hod_requires_grad(hod_full(HOD_F32, HOD_SHAPE(1, heads, length, width), 0.1), true);
    hod_memory_reset_peak();
    int64_t before = hod_memory().allocated;
    hod_tensor *y = hod_attention(x[0], x[1], x[2], .causal = dropout > 0, .dropout = dropout);
    EQ_INT(hod_grad_of(hod_sum(y), 3, x, g, HOD_ONES), 0);
    double results = 4 * sizeof(float) * (double)(heads * length * width);
    return (double)(hod_memory().allocated_peak - before) - results;
}

TEST(attention_memory_is_linear_in_the_length)
{
    for (int heads = 1; heads <= 2; heads++) /* one head of keys is cut into parts */
        CHECK(peak(heads, 4096, 16, 0) < 2.1 * peak(heads, 2048, 16, 0));
    double scores = 4096.0 * 4096 * 8 * sizeof(float); /* what the composition has several times */
    CHECK(peak(8, 4096, 64, 0.1) < 0.05 * scores);
}

/* The result, then the gradients of queries, keys, values and an added mask. */
static void on_threads(int threads, hod_tensor *const *x, hod_tensor **out)
{
    EQ_INT(hod_set_threads(threads), 0);
    EQ_INT(hod_random_begin(3, 1, NULL), 0);
    out[0] = hod_attention_masked(x[0], x[1], x[2], x[3], .causal = true, .dropout = 0.2);
    EQ_INT(hod_grad_of(hod_sum(hod_square(out[0])), 4, x, out + 1, HOD_ONES), 0);
}

TEST(attention_b34_same_bits_for_any_threads)
{
    const int64_t sizes[][4] = {{1, 1, 60, 64}, {1, 1, 300, 64}, {2, 8, 70, 32}, {1, 3, 1100, 8}};
    for (int k = 0; k < HOD_COUNT(sizes); k++) {
        HOD_SCOPE(s);
        const int64_t *n = sizes[k];
        hod_tensor *x[4], *one[5], *more[5];
        for (int i = 0; i < 4; i++) {
            hod_shape shape = i < 3 ? HOD_SHAPE(n[0], n[1], n[2], n[3]) : HOD_SHAPE(n[1], 1, n[2]);
            x[i] = hod_requires_grad(hod_copy(draws(HOD_F32, shape)), true);
        }
        on_threads(1, x, one);
        for (int threads = 2; threads < 6; threads++) {
            on_threads(threads, x, more);
            for (int i = 0; i < 5; i++)
                near("threads", more[i], one[i], 0);
        }
    }
}

/* Values of dropout(uniform probabilities): which of the keys stay. */
static hod_tensor *kept(int64_t from, int64_t to)
{
    int64_t n = to - from;
    hod_tensor *index = hod_slice(hod_arange(HOD_I64, 6), 0, from, to);
    EQ_INT(hod_random_begin(5, 1, hod_add_scalar(index, 100)), 0);
    hod_tensor *q = hod_full(HOD_F32, HOD_SHAPE(n, 2, 9, 3), 0);
    hod_tensor *k = hod_full(HOD_F32, HOD_SHAPE(n, 2, 7, 3), 0);
    hod_tensor *v = hod_expand(
        hod_eq(hod_iota(HOD_I64, HOD_SHAPE(7, 1), 0), hod_iota(HOD_I64, HOD_SHAPE(1, 7), 1)),
        HOD_SHAPE(n, 2, 7, 7));
    return hod_attention(q, k, hod_cast(v, HOD_F32), .dropout = 0.4);
}

TEST(attention_micro_batches_drop_what_the_batch_drops)
{
    hod_tensor *parts[] = {kept(0, 2), kept(2, 3), kept(3, 6)};
    near("parts", hod_concat(3, parts, 0), kept(0, 6), 0);
    EQ_INT(hod_random_begin(0, 0, NULL), 0);
}

TEST(attention_dropout_keeps_the_mean_and_refuses_one)
{
    hod_tensor *q = draws(HOD_F32, HOD_SHAPE(1, 2, 40, 4)), *v = hod_full_like(q, 1);
    double mean = hod_item(hod_mean(hod_attention(q, q, v, .dropout = 0.25)));
    NEAR(mean, 1, 0.2);
    ERROR_IS("attention: dropout 1, must be at least 0 and below 1",
             hod_attention(q, q, v, .dropout = 1));
}

/* ---- dropout where work is run again, compiled, differentiated twice ---- */

typedef struct layer {
    hod_tensor *w;
    bool again; /* run it again in backward */
} layer;

static hod_tensor *run_layer(void *context, hod_tensor *const *in, int n)
{
    (void)n;
    hod_tensor *h = hod_mul(in[0], ((layer *)context)->w);
    return hod_attention(h, h, in[0], .causal = true, .dropout = 0.3);
}

static int step(void *context, hod_tensor *const *in, hod_tensor **out)
{
    layer *a = context;
    hod_tensor *h = hod_tanh(in[0]);
    h = a->again ? hod_checkpoint(run_layer, a, 1, &h) : run_layer(a, &h, 1);
    out[0] = hod_sum(hod_square(h));
    return hod_backward(out[0]);
}

TEST(attention_dropout_compiled_and_run_again_is_eager)
{
    HOD_SCOPE(s);
    layer a[3];
    hod_fn *f[3];
    for (int k = 0; k < 3; k++) { /* eager; compiled; compiled and run again in backward */
        a[k] = (layer){hod_requires_grad(hod_full(HOD_F32, HOD_SHAPE(6), 0.7), true), k == 2};
        f[k] = hod_compile(step, &a[k], .inputs = 1, .outputs = 1, .fullgraph = true);
    }
    double before = 0;
    for (int i = 0; i < 6; i++) {
        HOD_SCOPE(t);
        hod_tensor *x = draws(HOD_F32, HOD_SHAPE(2, 2, 40, 6)), *loss[3];
        for (int k = 0; k < 3; k++) {
            EQ_INT(hod_random_begin(7, i / 2, NULL), 0);
            EQ_INT(k == 0 ? step(&a[0], &x, &loss[0]) : hod_fn_call(f[k], &x, &loss[k]), 0);
            NEAR(hod_item(loss[k]), hod_item(loss[0]), 1e-5 * hod_item(loss[0]));
            near("dw", hod_grad(a[k].w), hod_grad(a[0].w), 1e-4); /* sums of 480 of size 1 */
        }
        CHECK(hod_item(loss[0]) != before);
        before = hod_item(loss[0]);
    }
    EQ_INT(hod_fn_report(f[1]).traces, 1);
    for (int k = 0; k < 3; k++)
        hod_fn_free(f[k]);
}

static hod_tensor *redrawn(void *context, hod_tensor *const *in, int n)
{
    (void)context, (void)n;
    if (hod_random_begin(9, 1, NULL) != 0)
        return NULL;
    return hod_attention_masked(in[0], in[1], in[2], in[3], .causal = true, .dropout = 0.4);
}

TEST(attention_dropout_differentiated_twice)
{
    hod_shape shape[] = {HOD_SHAPE(1, 2, 3, 2), HOD_SHAPE(1, 1, 4, 2), HOD_SHAPE(1, 1, 4, 3),
                         HOD_SHAPE(3, 4)};
    hod_tensor *x[4];
    for (int i = 0; i < 4; i++)
        x[i] = hod_requires_grad(hod_copy(draws(HOD_F64, shape[i])), true);
    hod_gradcheck_report r;
    EQ_INT(hod_gradcheck(redrawn, 4, x, &r, NULL, .rtol = 1e-6, .atol = 1e-7), 0);
    CHECK(r.passed && r.compared > 0);
    EQ_INT(hod_gradgradcheck(redrawn, 4, x, &r, NULL, .rtol = 1e-6, .atol = 1e-7), 0);
    CHECK(r.passed && r.compared > 0);
}

TEST(attention_batches_and_heads_of_one_serve_all)
{
    hod_tensor *q = draws(HOD_F32, HOD_SHAPE(2, 4, 5, 3)),
               *k = draws(HOD_F32, HOD_SHAPE(1, 2, 6, 3));
    hod_tensor *v = draws(HOD_F32, HOD_SHAPE(1, 6, 4));
    hod_tensor *all_k = hod_copy(hod_expand(k, HOD_SHAPE(2, 2, 6, 3)));
    hod_tensor *all_v = hod_copy(hod_expand(v, HOD_SHAPE(2, 2, 6, 4)));
    near("of keys and values", hod_attention(q, k, v), hod_attention(q, all_k, all_v), 1e-6);
    hod_tensor *one = draws(HOD_F32, HOD_SHAPE(1, 5, 3));
    near("of queries", hod_attention(one, all_k, all_v, .causal = true),
         hod_attention(hod_expand(one, HOD_SHAPE(2, 2, 5, 3)), all_k, all_v, .causal = true), 1e-6);
    ERROR_IS("attention: queries (2,4,5,3), keys (3,2,6,3) and values (2,2,6,4): "
             "batch sizes differ",
             hod_attention(q, draws(HOD_F32, HOD_SHAPE(3, 2, 6, 3)), v));
}

TEST(attention_refuses_in_words)
{
    hod_tensor *q = draws(HOD_F32, HOD_SHAPE(1, 3, 5, 4)),
               *k = draws(HOD_F32, HOD_SHAPE(1, 2, 6, 4));
    ERROR_IS("attention: 3 heads of queries do not share 2 of keys evenly", hod_attention(q, k, k));
    ERROR_IS("attention: queries (1,3,5,4), keys (1,3,5,4) and values (1,2,6,4): "
             "keys and values differ in heads",
             hod_attention(q, q, k));
    ERROR_IS("attention: queries (1,3,5,4), keys (1,1,5,3) and values (1,1,5,3): last sizes of "
             "queries and keys differ",
             hod_attention(q, hod_zeros(HOD_F32, HOD_SHAPE(1, 1, 5, 3)),
                           hod_zeros(HOD_F32, HOD_SHAPE(1, 1, 5, 3))));
    ERROR_IS("attention: scale inf, must be finite", hod_attention(q, q, q, .scale = INFINITY));
    hod_tensor *mask = hod_gt_scalar(draws(HOD_F32, HOD_SHAPE(2, 5)), 0);
    ERROR_IS("attention: mask (2,5) for scores (1,3,5,5)", hod_attention_masked(q, q, q, mask));
}

static hod_tensor *named(hod_module *m, const char *name)
{
    for (hod_walk w = hod_parameters(m); hod_walk_next(&w);)
        if (strcmp(w.item.name, name) == 0)
            return w.item.tensor;
    FAIL("no parameter %s", name);
    return NULL;
}

TEST(attention_multihead_is_its_parts)
{
    hod_module *m = hod_nn_multihead(NULL, "attention", 6, 2, .causal = true);
    hod_tensor *x = draws(HOD_F32, HOD_SHAPE(2, 5, 6)), *head[2];
    hod_tensor *all = hod_linear(x, named(m, "in_proj_weight"), named(m, "in_proj_bias"));
    for (int h = 0; h < 2; h++) /* columns q0 q1 k0 k1 v0 v1, three of each */
        head[h] = hod_attention(hod_slice(all, 2, 3 * h, 3 * h + 3),
                                hod_slice(all, 2, 6 + 3 * h, 9 + 3 * h),
                                hod_slice(all, 2, 12 + 3 * h, 15 + 3 * h), .causal = true);
    hod_tensor *y =
        hod_linear(hod_concat(2, head, 2), named(m, "out_proj.weight"), named(m, "out_proj.bias"));
    near("heads", hod_call(m, x), y, 1e-6);
    hod_tensor *keep = hod_full(HOD_BOOL, HOD_SHAPE(5, 5), 1);
    near("masked", hod_nn_multihead_masked(m, x, keep), y, 1e-6);
    ERROR_IS("multihead: (5,6) given, (N,L,6) wanted", hod_call(m, hod_select(x, 0, 0)));
    hod_module_free(m);
}
