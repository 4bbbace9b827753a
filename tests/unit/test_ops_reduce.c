/* Reductions against plain loops in double, over every set of dimensions and every layout. */
#include "device/device.h"
#include "harness.h"
#include "ops/op.h"
#include "ops/rows.h"
#include <hod/autograd.h>
#include <hod/functional.h>
#include <math.h>

/* Elements with a few equal ones, deterministic. */
static hod_tensor *pattern(hod_shape shape)
{
    int64_t n = hod__numel(shape.n, shape.d);
    double *v = hod__alloc((size_t)n + 1, sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = (double)(i * 37 % 29 - 14) / 8 + (i % 5 == 0 ? 0.5 : 1);
    hod_tensor *t = hod_from_doubles(v, shape);
    free(v);
    return t;
}

/* Folds x (row-major values) over `dims`, one element at a time. */
static void slow(hod_op op, const double *x, hod_shape s, uint32_t dims, double *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = op == HOD_OP_sum    ? 0
                 : op == HOD_OP_prod ? 1
                 : op == HOD_OP_amax ? -INFINITY
                                     : INFINITY;
    int64_t total = hod__numel(s.n, s.d);
    for (int64_t i = 0; i < total; i++) {
        int64_t rest = i, at = 0, step = 1;
        for (int d = s.n - 1; d >= 0; d--) {
            int64_t k = rest % s.d[d];
            rest /= s.d[d];
            if (dims >> d & 1)
                continue;
            at += k * step;
            step *= s.d[d];
        }
        double *y = &out[at];
        *y = op == HOD_OP_sum    ? *y + x[i]
             : op == HOD_OP_prod ? *y * x[i]
             : op == HOD_OP_amax ? fmax(*y, x[i])
                                 : fmin(*y, x[i]);
    }
}

static void check_sets(hod_tensor *x)
{
    static const hod_op ops[] = {HOD_OP_sum, HOD_OP_prod, HOD_OP_amax, HOD_OP_amin};
    int64_t n = hod_tensor_numel(x);
    hod_shape shape = hod_tensor_shape(x);
    double *v = hod__alloc((size_t)n, sizeof *v), *want = hod__alloc((size_t)n, sizeof *want);
    double *have = hod__alloc((size_t)n, sizeof *have);
    CHECK(hod_read_doubles(x, v, n) == 0);
    for (int o = 0; o < HOD_COUNT(ops); o++)
        for (uint32_t dims = 0; dims < 1u << shape.n; dims++)
            for (int keep = 0; keep < 2; keep++) {
                hod_attrs a = {.reduce = {dims, keep}};
                hod_tensor *y = hod__op(ops[o], &a, 1, &x);
                CHECK(y != NULL);
                int64_t m = hod_tensor_numel(y);
                slow(ops[o], v, shape, dims, want, m);
                CHECK(hod_read_doubles(y, have, m) == 0);
                for (int64_t i = 0; i < m; i++)
                    NEAR(have[i], want[i], 1e-12 * (1 + fabs(want[i]))); /* order of 300 terms */
            }
    free(v);
    free(want);
    free(have);
}

TEST(ops_reduce_every_set_of_dimensions)
{
    check_sets(pattern(HOD_SHAPE(2, 3, 4, 5)));
    check_sets(hod_permute(pattern(HOD_SHAPE(4, 2, 20)), 2, 0, 1));
    check_sets(hod_slice_step(pattern(HOD_SHAPE(3, 40)), 1, 1, 40, 3));
    check_sets(hod_expand(pattern(HOD_SHAPE(3, 1)), HOD_SHAPE(2, 3, 9)));
    check_sets(pattern(HOD_SHAPE()));
    check_sets(pattern(HOD_SHAPE(1, 1)));
    check_sets(pattern(HOD_SHAPE(2, 1, 2, 2, 1, 2, 2, 2)));
    check_sets(hod_transpose(pattern(HOD_SHAPE(17, 19)), 0, 1));
    check_sets(pattern(HOD_SHAPE(3, 700))); /* more columns than are folded at once */
}

TEST(ops_reduce_a_million)
{
    EQ_INT((int64_t)hod_item(hod_sum(hod_full(HOD_F32, HOD_SHAPE(1000000), 1))), 1000000);
    /* in order, in f32, this would give 100958 */
    NEAR(hod_item(hod_sum(hod_full(HOD_F32, HOD_SHAPE(1000000), 0.1))), 100000.0015, 0.005);
    NEAR(hod_item(hod_sum(hod_full(HOD_F16, HOD_SHAPE(4096), 1))), 4096, 0);
    NEAR(hod_item(hod_sum(hod_full(HOD_BF16, HOD_SHAPE(512, 128), 0.5))), 32768, 0);
    hod_tensor *columns = hod_sum_dims(hod_full(HOD_F32, HOD_SHAPE(100000, 8), 0.1), 0);
    NEAR(hod_item(hod_select(columns, 0, 7)), 10000.00015, 0.001);
}

/* Neighbours are folded by fours in f32 before they are in f64;
 * elements that lie apart one by one. */
static void fours_like_one_by_one(hod_tensor *x)
{
    hod_tensor *apart = hod_select(hod_copy(hod_stack(2, (hod_tensor *[]){x, x}, 2)), 2, 1);
    int64_t n = x->shape[1], m = x->shape[0];
    double have[4], twin[4], all[4];
    CHECK(m <= HOD_COUNT(have) && apart && apart->strides[1] == 2);
    CHECK(hod_read_doubles(hod_sum_dims(x, 1), have, m) == 0);
    CHECK(hod_read_doubles(hod_sum_dims(apart, 1), twin, m) == 0);
    CHECK(hod_read_doubles(hod_sum_dims(hod_abs(x), 1), all, m) == 0);
    /* each four is rounded twice, and the results once more */
    double eps = x->dtype == HOD_BF16 ? 0x1p-8 : x->dtype == HOD_F16 ? 0x1p-11 : 0x1p-24;
    for (int64_t i = 0; i < m; i++)
        NEAR(have[i], twin[i], 0x1p-23 * all[i] + 2 * eps * fabs(twin[i]));
    hod_tensor *near1 = hod_add_scalar(hod_mul_scalar(x, 0x1p-6), 1);
    hod_tensor *apart1 = hod_add_scalar(hod_mul_scalar(apart, 0x1p-6), 1);
    CHECK(hod_read_doubles(hod_prod_dims(near1, 1), have, m) == 0);
    CHECK(hod_read_doubles(hod_prod_dims(apart1, 1), twin, m) == 0);
    for (int64_t i = 0; i < m; i++)
        NEAR(have[i], twin[i], ((double)n * 0x1p-24 + 2 * eps) * fabs(twin[i]));
}

TEST(ops_reduce_by_fours)
{
    static const int64_t lengths[] = {1, 31, 32, 127, 128, 129, 255, 256, 300, 511, 1000, 20001};
    static const hod_dtype types[] = {HOD_F32, HOD_F16, HOD_BF16};
    for (int rows = 0; rows < 3; rows++)
        for (int t = 0; t < HOD_COUNT(types) && hod__rows_of(rows); t++)
            for (int l = 0; l < HOD_COUNT(lengths); l++) {
                HOD_SCOPE(s);
                hod__rows_use(hod__rows_of(rows));
                fours_like_one_by_one(hod_cast(pattern(HOD_SHAPE(3, lengths[l])), types[t]));
            }
    hod__rows_use(NULL);
}

/* What a four in f32 cannot hold and an f64 can; n elements, of which the first few are given. */
static double folded(hod_op op, int64_t n, const float *first, int64_t given, float rest)
{
    float *v = hod__alloc((size_t)n, sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = i % 32 == 0 && i / 32 < given ? first[i / 32] : rest; /* one below the other */
    hod_tensor *x = hod_from_floats(v, HOD_SHAPE(n));
    free(v);
    return hod_item(op == HOD_OP_sum ? hod_sum(x) : hod_prod(x));
}

TEST(ops_reduce_by_fours_keeps_the_range)
{
    const float big = 3e38f, tiny = 1e-30f, huge = 1e30f, inf = INFINITY;
    for (int rows = 0; rows < 3 && hod__rows_of(rows); rows++) {
        hod__rows_use(hod__rows_of(rows));
        for (int64_t n = 256; n < 300000; n *= 12) {
            HOD_SCOPE(s);
            NEAR(folded(HOD_OP_sum, n, (float[]){big, big, -big, -big}, 4, 0), 0, 0);
            NEAR(folded(HOD_OP_sum, n, (float[]){big, big}, 2, -0.0f), INFINITY, 0);
            NEAR(folded(HOD_OP_sum, n, (float[]){1, -inf, 2}, 3, 1), -INFINITY, 0);
            CHECK(isnan(folded(HOD_OP_sum, n, (float[]){inf, 1, -inf}, 3, 1)));
            CHECK(isnan(folded(HOD_OP_sum, n, (float[]){1, NAN}, 2, 1)));
            NEAR(folded(HOD_OP_prod, n, (float[]){tiny, tiny, huge, huge}, 4, 1), 1, 1e-6);
            NEAR(folded(HOD_OP_prod, n, (float[]){huge, huge, tiny, tiny}, 4, 1), 1, 1e-6);
            NEAR(folded(HOD_OP_prod, n, (float[]){1e-12f, 1e-12f, -1e-12f, 1e-12f, huge}, 5, 1),
                 -1e-18, 1e-24);
            NEAR(folded(HOD_OP_prod, n, (float[]){0, 2, 3}, 3, 1), 0, 0);
            CHECK(isnan(folded(HOD_OP_prod, n, (float[]){0, 2, inf}, 3, 1)));
        }
    }
    hod__rows_use(NULL);
}

TEST(ops_reduce_integers_in_i64)
{
    hod_tensor *x = hod_full(HOD_I32, HOD_SHAPE(3), 2000000000);
    EQ_INT((int64_t)hod_item(hod_sum(x)), 6000000000);
    EQ_INT((int64_t)hod_item(hod_sum(hod_full(HOD_U8, HOD_SHAPE(1000), 255))), 255000);
    EQ_INT((int64_t)hod_item(hod_sum(hod_full(HOD_BOOL, HOD_SHAPE(77), 1))), 77);
    EQ_INT(hod_tensor_dtype(hod_amax(x)), HOD_I32);
    EQ_INT((int64_t)hod_item(hod_amax(hod_full(HOD_I64, HOD_SHAPE(2), -9e15))), -9000000000000000);
}

TEST(ops_reduce_b30_first_of_equals)
{
    hod_tensor *x = hod_from_floats((float[]){2, 3, 0, 3, 3, 1, 3, 1, 3, 1}, HOD_SHAPE(2, 5));
    int64_t at[2];
    CHECK(hod_read_ints(hod_argmax(x, 1), at, 2) == 0);
    EQ_INT(at[0], 1);
    EQ_INT(at[1], 1);
    EQ_INT((int64_t)hod_item(hod_argmax(hod_zeros(HOD_F32, HOD_SHAPE(2001)), 0)), 0);
    for (int threads = 1; threads <= 8; threads *= 2) {
        CHECK(hod_set_threads(threads) == 0);
        hod_tensor *z = hod_argmax(hod_zeros(HOD_F32, HOD_SHAPE(40, 900, 1)), 2);
        EQ_INT(hod_tensor_numel(z), 36000);
        NEAR(hod_item(hod_amax(z)), 0, 0);
    }
    hod_tensor *n = hod_from_floats((float[]){1, NAN, 5, NAN}, HOD_SHAPE(4));
    EQ_INT((int64_t)hod_item(hod_argmax(n, 0)), 1);
    EQ_INT((int64_t)hod_item(hod_argmin(n, -1)), 1);
    CHECK(isnan(hod_item(hod_amax(n))) && isnan(hod_item(hod_amin(n))));
    EQ_INT((int64_t)hod_item(hod_argmax(hod_scalar(4), 0)), 0);
}

TEST(ops_reduce_b30_equals_share_the_gradient)
{
    hod_tensor *x = hod_from_floats((float[]){3, 1, 3}, HOD_SHAPE(3));
    CHECK(hod_requires_grad(x, true) && hod_backward(hod_amax(x)) == 0);
    float g[3];
    CHECK(hod_read_floats(hod_grad(x), g, 3) == 0);
    CHECK(g[0] == 0.5f && g[1] == 0 && g[2] == 0.5f);
}

TEST(ops_reduce_b32_of_nothing)
{
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(0, 3));
    NEAR(hod_item(hod_sum(x)), 0, 0);
    NEAR(hod_item(hod_prod(x)), 1, 0);
    CHECK(isnan(hod_item(hod_mean(x))));
    hod_tensor *y = hod_sum_dims(x, 0);
    EQ_INT(hod_tensor_numel(y), 3);
    NEAR(hod_item(hod_sum(y)), 0, 0);
    NEAR(hod_item(hod_prod(hod_sum_dims(hod_zeros(HOD_F32, HOD_SHAPE(0, 16)), 0))), 0, 0);
    EQ_INT(hod_tensor_numel(hod_sum_dims(x, 1)), 0);
    EQ_INT(hod_tensor_numel(hod_amax_dims(x, 1)), 0);
    ERROR_IS("amax: dimension 0 of (0,3) is empty", hod_amax(x));
    ERROR_IS("argmax: dimension 0 of (0,3) is empty", hod_argmax(x, 0));
}

TEST(ops_reduce_b33_beyond_32_bits)
{
    hod_tensor *x = hod_expand(hod_full(HOD_U8, HOD_SHAPE(1), 1), HOD_SHAPE(46341, 46341));
    EQ_INT(hod_tensor_numel(x), 2147488281);
    EQ_INT((int64_t)hod_item(hod_sum(x)), 2147488281);
}

TEST(ops_reduce_b34_same_bits_for_any_threads)
{
    hod_tensor *x = hod_sin(hod_arange(HOD_F32, 700001));
    hod_tensor *m = hod_reshape(hod_slice(x, 0, 0, 700000), HOD_SHAPE(700, 1000));
    double whole[3], row[3], column[3];
    for (int k = 0; k < 3; k++) {
        CHECK(hod_set_threads(1 << (k + k / 2)) == 0); /* 1, 2, 8 */
        whole[k] = hod_item(hod_sum(x));
        row[k] = hod_item(hod_select(hod_sum_dims(m, 1), 0, 333));
        column[k] = hod_item(hod_select(hod_sum_dims(m, 0), 0, 77));
    }
    for (int k = 1; k < 3; k++)
        CHECK(whole[k] == whole[0] && row[k] == row[0] && column[k] == column[0]);
}

TEST(ops_reduce_means)
{
    hod_tensor *x = hod_from_floats((float[]){1, 2, 3, 4, 5, 9}, HOD_SHAPE(2, 3));
    NEAR(hod_item(hod_mean(x)), 4, 0);
    NEAR(hod_item(hod_var_over(x, HOD_SHAPE(0, 1), false, 1)), 8, 0);
    for (int64_t n = 1; n < 300; n++) { /* a quotient, which a product with 1/n is not */
        HOD_SCOPE(s);
        NEAR(hod_item(hod_mean(hod_full(HOD_F32, HOD_SHAPE(n), 1))), 1, 0);
        NEAR(hod_item(hod_mean(hod_full(HOD_F64, HOD_SHAPE(n), 1))), 1, 0);
        NEAR(hod_item(hod_std_over(hod_full(HOD_F32, HOD_SHAPE(n), 1), HOD_SHAPE(0), false, 0)), 0,
             0);
    }
    EQ_INT(hod_tensor_dtype(hod_mean(hod_full(HOD_I64, HOD_SHAPE(2), 3))), HOD_F32);
    NEAR(hod_item(hod_mean(hod_full(HOD_F16, HOD_SHAPE(100000), 2))), 2, 0); /* sum > 65504 */
}

/* The first of the best, one element at a time; x[at * step] for at < n. */
static int64_t first_best(const double *x, int64_t n, int64_t step, bool most)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++) {
        double a = x[i * step], b = x[best * step];
        if ((most ? a > b : a < b) || (isnan(a) && !isnan(b)))
            best = i;
    }
    return best;
}

/* Rows, columns and whole tensors, with equal elements, and with NaN in some. */
TEST(ops_reduce_indices_are_of_the_first_best)
{
    static const hod_shape shapes[] = {
        {1, {70001}}, {2, {3, 9001}}, {2, {301, 67}}, {3, {5, 70, 33}}};
    static const hod_dtype types[] = {HOD_F64, HOD_F32, HOD_BF16, HOD_I64, HOD_I32, HOD_U8};
    for (int s = 0; s < HOD_COUNT(shapes); s++)
        for (int t = 0; t < HOD_COUNT(types); t++)
            for (int dim = 0; dim < shapes[s].n; dim++)
                for (int nan = 0; nan < (types[t] <= HOD_BF16 ? 2 : 1); nan++) {
                    HOD_SCOPE(scope);
                    hod_tensor *p = hod_add_scalar(hod_mul_scalar(pattern(shapes[s]), 8), 20);
                    int64_t n = hod_tensor_numel(p), size = shapes[s].d[dim], inner = 1;
                    for (int i = dim + 1; i < shapes[s].n; i++)
                        inner *= shapes[s].d[i];
                    double *x = hod_tensor_mutable_data(p), *v = hod__alloc((size_t)n, sizeof *v);
                    for (int64_t i = 501; nan && i < n; i += 977)
                        x[i] = NAN;
                    hod_tensor *typed = hod_cast(p, types[t]);
                    hod_read_doubles(typed, v, n);
                    for (int most = 0; most < 2; most++) {
                        hod_tensor *y = (most ? hod_argmax : hod_argmin)(typed, dim);
                        const int64_t *at = hod_tensor_data(y);
                        for (int64_t k = 0; k < n / size; k++)
                            CHECK(at[k] == first_best(v + k / inner * size * inner + k % inner,
                                                      size, inner, most));
                    }
                    free(v);
                }
}
