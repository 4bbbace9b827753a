/* Attention by blocks: against the composition with all scores in memory, at lengths of several
 * blocks; rows that see nothing; memory. Values are PyTorch's in tests/golden. */
#include "autograd/autograd.h"
#include "harness.h"
#include "ops/attention.h"
#include <hod/attention.h>
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

/* Results and gradients, once by blocks and once composed. */
static void same(hod_dtype t, hod_tensor *mask, bool causal, int64_t lq, int64_t lk)
{
    hod_shape shape[] = {HOD_SHAPE(1, 2, lq, 8), HOD_SHAPE(1, 1, lk, 8), HOD_SHAPE(1, 1, lk, 5)};
    hod_tensor *x[2][3], *y[2], *w = draws(t, HOD_SHAPE(1, 2, lq, 5));
    hod_attrs_attention a = {.scale = 0.3, .causal = causal};
    for (int i = 0; i < 3; i++) {
        hod_tensor *values = draws(t, shape[i]);
        for (int k = 0; k < 2; k++)
            x[k][i] = hod_requires_grad(hod_copy(values), true);
    }
    hod_attention_options o = {.causal = causal, .scale = 0.3};
    y[0] = mask ? hod_attention_masked_with(x[0][0], x[0][1], x[0][2], mask, o)
                : hod_attention_with(x[0][0], x[0][1], x[0][2], o);
    hod_tensor *none = hod_full(t, HOD_SHAPE(), 0);
    y[1] = hod__attention_composed(x[1][0], x[1][1], x[1][2], mask ? mask : none, &a, 0);
    double tolerance = t == HOD_F64 ? 1e-12 : 2e-5; /* sums of some 500 products of size 1 */
    near("result", y[0], y[1], tolerance);
    for (int k = 0; k < 2; k++)
        EQ_INT(hod_backward(hod_sum(hod_mul(y[k], w))), 0);
    near("dq", hod_grad(x[0][0]), hod_grad(x[1][0]), tolerance);
    near("dk", hod_grad(x[0][1]), hod_grad(x[1][1]), tolerance);
    near("dv", hod_grad(x[0][2]), hod_grad(x[1][2]), tolerance);
}

TEST(attention_blocks_are_the_composition)
{
    for (int k = 0; k < 2; k++) {
        hod_dtype t = k ? HOD_F32 : HOD_F64;
        same(t, NULL, false, 300, 520);
        same(t, NULL, true, 520, 300);
        same(t, NULL, true, 257, 600);
        same(t, hod_gt_scalar(draws(HOD_F32, HOD_SHAPE(2, 300, 270)), 1), false, 300, 270);
        same(t, draws(t, HOD_SHAPE(2, 1, 300)), true, 270, 300);
        same(t, hod_gt_scalar(draws(HOD_F32, HOD_SHAPE(30, 1)), 0), true, 30, 3);
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

/* The peak of forward and backward beyond the inputs. */
static int64_t peak(bool blocks, int64_t length)
{
    HOD_SCOPE(s);
    hod_tensor *x[3];
    for (int i = 0; i < 3; i++)
        x[i] = hod_requires_grad(draws(HOD_F32, HOD_SHAPE(1, 2, length, 16)), true);
    hod_tensor *none = hod_full(HOD_F32, HOD_SHAPE(), 0);
    hod_attrs_attention a = {.scale = 0.25};
    hod_memory_reset_peak();
    int64_t before = hod_memory().allocated;
    hod_tensor *y = blocks ? hod_attention(x[0], x[1], x[2])
                           : hod__attention_composed(x[0], x[1], x[2], none, &a, 0);
    EQ_INT(hod_backward(hod_sum(y)), 0);
    return hod_memory().allocated_peak - before;
}

TEST(attention_memory_is_linear_in_the_length)
{
    int64_t of_1024 = peak(true, 1024), of_2048 = peak(true, 2048);
    CHECK(of_2048 < 2.1 * (double)of_1024);
    CHECK((double)of_2048 < 0.05 * (double)peak(false, 2048));
}

TEST(attention_dropout_keeps_the_mean_and_refuses_one)
{
    hod_tensor *q = draws(HOD_F32, HOD_SHAPE(1, 2, 40, 4)), *v = hod_full_like(q, 1);
    double mean = hod_item(hod_mean(hod_attention(q, q, v, .dropout = 0.25)));
    NEAR(mean, 1, 0.2);
    ERROR_IS("attention: dropout 1, scale 0", hod_attention(q, q, v, .dropout = 1));
}

TEST(attention_refuses_in_words)
{
    hod_tensor *q = draws(HOD_F32, HOD_SHAPE(1, 3, 5, 4)),
               *k = draws(HOD_F32, HOD_SHAPE(1, 2, 6, 4));
    ERROR_IS("attention: 3 heads of queries do not share 2 of keys evenly", hod_attention(q, k, k));
    ERROR_IS("attention: queries (1,3,5,4), keys (1,3,5,4) and values (1,2,6,4)",
             hod_attention(q, q, k));
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
