/* CTC beside the sum over all alignments, beside logarithms, and at the corners of B26. */
#include "harness.h"
#include <hod/autograd.h>
#include <hod/compile.h>
#include <hod/functional.h>
#include <hod/losses.h>
#include <math.h>
#include <stdlib.h>

#include "ops/op.h" /* last: it switches off the noting of places */

static hod_tensor *ints(int64_t n, const int64_t *v)
{
    return hod_from_ints(v, HOD_SHAPE(n));
}

/* Log probabilities of sin(i k): (T,N,C). */
static hod_tensor *frames(int64_t t, int64_t n, int64_t c, double scale)
{
    hod_tensor *x = hod_reshape(hod_arange(HOD_F64, t * n * c), HOD_SHAPE(t, n, c));
    return hod_log_softmax(hod_mul_scalar(hod_sin(hod_mul_scalar(x, 1.7)), scale), 2);
}

/* ---- the definition: every way to read the frames ---- */

/* Collapses a path (repeats, then blanks) and compares it with the label. */
static bool spells(const int64_t *path, int64_t t, const int64_t *label, int64_t s, int64_t blank)
{
    int64_t n = 0;
    for (int64_t i = 0; i < t; i++) {
        if (path[i] == blank || (i > 0 && path[i] == path[i - 1]))
            continue;
        if (n == s || path[i] != label[n++])
            return false;
    }
    return n == s;
}

/* -log P and its gradient (T,C) for one sample of v (T,C), by enumeration. */
static double enumerate(const double *v, int64_t t, int64_t c, const int64_t *label, int64_t s,
                        int64_t blank, double *gradient)
{
    double total = 0;
    int64_t path[8], paths = 1;
    memset(gradient, 0, (size_t)(t * c) * sizeof *gradient);
    for (int64_t i = 0; i < t; i++)
        paths *= c;
    for (int64_t k = 0; k < paths; k++) {
        double log_p = 0;
        for (int64_t i = 0, rest = k; i < t; i++, rest /= c) {
            path[i] = rest % c;
            log_p += v[i * c + path[i]];
        }
        if (!spells(path, t, label, s, blank))
            continue;
        total += exp(log_p);
        for (int64_t i = 0; i < t; i++)
            gradient[i * c + path[i]] -= exp(log_p);
    }
    for (int64_t i = 0; i < t * c && total > 0; i++)
        gradient[i] /= total;
    return -log(total);
}

TEST(ctc_is_the_sum_over_all_alignments)
{
    enum { T = 5, C = 3 };
    const int64_t label[][3] = {{1, 2, 1}, {1, 1, 0}, {2, 2, 2}, {0, 0, 0}, {1, 2, 2}};
    const int64_t count[] = {3, 2, 3, 0, 3};
    for (int64_t blank = 0; blank < C; blank += 2)
        for (int n = 0; n < HOD_COUNT(count); n++)
            for (int64_t used = 0; used <= T; used++) {
                HOD_SCOPE(s);
                int64_t target[3] = {0};
                for (int k = 0; k < 3; k++) /* classes but the blank */
                    target[k] = blank == 0 ? HOD_MAX(label[n][k], 1) : label[n][k] % 2;
                double v[T * C], want[T * C], have[T * C];
                hod_tensor *x = hod_requires_grad(hod_copy(frames(T, 1, C, 2)), true), *g;
                CHECK(hod_read_doubles(x, v, T * C) == 0);
                double loss = enumerate(v, used, C, target, count[n], blank, want);
                for (int64_t i = used * C; i < T * C; i++)
                    want[i] = 0;
                hod_tensor *y = hod_ctc_rows(x, hod_reshape(ints(3, target), HOD_SHAPE(1, 3)),
                                             ints(1, &used), ints(1, &count[n]), .blank = blank);
                NEAR(hod_item(y), loss, 1e-13);
                CHECK(hod_grad_of(hod_sum(y), 1, &x, &g, HOD_ONES) == 0);
                CHECK(hod_read_doubles(g, have, T * C) == 0);
                for (int i = 0; i < T * C; i++)
                    NEAR(have[i], want[i], 1e-13);
            }
}

/* ---- B26 ---- */

/* Two equal labels do not fit in two frames: +inf, gradients 0, the neighbours untouched. */
TEST(ctc_b26_no_alignment)
{
    for (int zero = 0; zero < 2; zero++) {
        hod_tensor *logits = hod_requires_grad(hod_zeros(HOD_F32, HOD_SHAPE(3, 3, 3)), true), *g;
        hod_tensor *target = hod_from_ints((int64_t[]){1, 1, 1, 1, 1, 0}, HOD_SHAPE(3, 2));
        hod_tensor *rows =
            hod_ctc_rows(hod_log_softmax(logits, 2), target, ints(3, (int64_t[]){2, 3, 2}),
                         ints(3, (int64_t[]){2, 2, 1}), .zero_infinity = zero);
        double v[27], have[3];
        CHECK(hod_read_doubles(rows, have, 3) == 0);
        NEAR(have[0], zero ? 0 : INFINITY, 0);
        NEAR(have[1], 3.295836866004329, 1e-6);  /* ln 27 */
        NEAR(have[2], 1.0986122886681098, 1e-6); /* ln 3 */
        CHECK(hod_grad_of(hod_sum(rows), 1, &logits, &g, HOD_ONES) == 0);
        CHECK(hod_read_doubles(g, v, 27) == 0);
        for (int t = 0; t < 3; t++) {
            for (int c = 0; c < 3; c++)
                NEAR(v[t * 9 + c], 0, 0);
            const double third[] = {0, -1 / 3., 1 / 3.};
            for (int c = 0; c < 3; c++)
                NEAR(v[t * 9 + 6 + c], t < 2 ? third[c] : 0, 1e-6);
            NEAR(v[t * 9 + 3] + v[t * 9 + 4] + v[t * 9 + 5], 0, 1e-6);
        }
    }
}

TEST(ctc_of_nothing)
{
    hod_tensor *x = hod_requires_grad(hod_copy(frames(4, 2, 3, 1)), true), *g;
    hod_tensor *none = hod_zeros(HOD_I64, HOD_SHAPE(2, 0)), *zero = ints(2, (int64_t[]){0, 0});
    double have[2];
    hod_tensor *rows = hod_ctc_rows(x, none, ints(2, (int64_t[]){0, 2}), zero, .per_label = true);
    CHECK(hod_read_doubles(rows, have, 2) == 0);
    NEAR(have[0], 0, 0);
    hod_tensor *blanks = hod_select(hod_select(x, 2, 0), 1, 1);
    NEAR(have[1], -hod_item(hod_sum(hod_slice(blanks, 0, 0, 2))), 1e-15);
    CHECK(hod_grad_of(hod_sum(rows), 1, &x, &g, HOD_ONES) == 0);
    NEAR(hod_item(hod_sum(g)), -2, 1e-15);
    hod_loss l =
        hod_ctc(hod_zeros(HOD_F32, HOD_SHAPE(4, 0, 3)), hod_zeros(HOD_I64, HOD_SHAPE(0, 2)),
                hod_zeros(HOD_I64, HOD_SHAPE(0)), hod_zeros(HOD_I64, HOD_SHAPE(0)));
    NEAR(hod_item(l.sum), 0, 0);
    NEAR(hod_item(l.weight), 0, 0);
}

/* ---- other shapes of the same ---- */

TEST(ctc_targets_in_a_row_and_single_samples)
{
    hod_tensor *x = frames(6, 2, 4, 1);
    hod_tensor *square = hod_from_ints((int64_t[]){1, 3, 2, 2, 0, 0}, HOD_SHAPE(2, 3));
    hod_tensor *in = ints(2, (int64_t[]){6, 5}), *labels = ints(2, (int64_t[]){3, 1});
    double a[2], b[2];
    CHECK(hod_read_doubles(hod_ctc_rows(x, square, in, labels), a, 2) == 0);
    hod_tensor *line = hod_cast(ints(4, (int64_t[]){1, 3, 2, 2}), HOD_I32);
    CHECK(hod_read_doubles(hod_ctc_rows(x, line, hod_cast(in, HOD_I32), labels), b, 2) == 0);
    NEAR(a[0], b[0], 0);
    NEAR(a[1], b[1], 0);
    hod_tensor *one = hod_select(x, 1, 0);
    hod_tensor *y =
        hod_ctc_rows(one, hod_slice(line, 0, 0, 3), hod_select(in, 0, 0), hod_select(labels, 0, 0));
    EQ_INT(hod_tensor_ndim(y), 0);
    NEAR(hod_item(y), a[0], 0);
    hod_loss mean = hod_ctc(x, square, in, labels, .per_label = true);
    NEAR(hod_item(mean.sum), a[0] / 3 + a[1], 1e-15);
    NEAR(hod_item(mean.weight), 2, 0);
    CHECK(hod_read_doubles(hod_ctc_rows(hod_cast(x, HOD_F16), square, in, labels), b, 2) == 0);
    NEAR(b[0], a[0], 1e-2);
}

/* ---- where a frame's values do not fit one exponent ---- */

/* Labels that cost e^-40 each: 60 of them lie e^-2400 apart in a frame. */
TEST(ctc_spans_more_than_the_exponents_of_a_double)
{
    enum { T = 150, S = 60, C = 3 };
    hod_tensor *logits = hod_mul_scalar(hod_iota(HOD_F64, HOD_SHAPE(T, 1, C), 2), -40);
    hod_tensor *small =
        hod_mul_scalar(hod_sin(hod_reshape(hod_arange(HOD_F64, T * C), HOD_SHAPE(T, 1, C))), 0.1);
    hod_tensor *x = hod_log_softmax(hod_add(logits, small), 2), *g;
    CHECK(hod_requires_grad(x, true));
    int64_t label[S], count = S, used = T;
    for (int k = 0; k < S; k++)
        label[k] = 1 + k % 2;
    hod_tensor *target = hod_reshape(ints(S, label), HOD_SHAPE(1, S));
    hod_tensor *y = hod_ctc_rows(x, target, ints(1, &used), ints(1, &count));
    CHECK(hod_item(y) > 1000 && hod_item(y) < 4000);
    CHECK(hod_grad_of(hod_sum(y), 1, &x, &g, HOD_ONES) == 0);
    double v[T * C];
    CHECK(hod_read_doubles(g, v, T * C) == 0);
    double ones = 0, labels = 0;
    for (int t = 0; t < T; t++) { /* in every frame one state, in all frames every label */
        ones = fmax(ones, fabs(v[t * C] + v[t * C + 1] + v[t * C + 2] + 1));
        labels -= v[t * C + 1] + v[t * C + 2];
    }
    NEAR(ones, 0, 1e-10); /* logarithms of 2400 keep 2400 * 2^-53 */
    NEAR(labels, S, 1e-6);
}

/* Frames with impossible classes run in logarithms and agree with an impossibly small one. */
TEST(ctc_minus_infinity_is_no_probability)
{
    hod_tensor *x = frames(7, 1, 4, 1);
    hod_tensor *column = hod_iota(HOD_I64, HOD_SHAPE(7, 1, 4), 2);
    hod_tensor *off = hod_eq_scalar(column, 3);
    double v[2];
    for (int k = 0; k < 2; k++) {
        hod_tensor *low = hod_full(HOD_F64, HOD_SHAPE(), k ? -INFINITY : -300);
        hod_tensor *y = hod_ctc_rows(hod_where(off, low, x),
                                     hod_from_ints((int64_t[]){1, 2, 1}, HOD_SHAPE(1, 3)),
                                     ints(1, (int64_t[]){7}), ints(1, (int64_t[]){3}));
        v[k] = hod_item(y);
        y = hod_ctc_rows(hod_where(off, low, x),
                         hod_from_ints((int64_t[]){1, 3, 1}, HOD_SHAPE(1, 3)),
                         ints(1, (int64_t[]){7}), ints(1, (int64_t[]){3}));
        CHECK(k ? isinf(hod_item(y)) : hod_item(y) > 290);
    }
    NEAR(v[0], v[1], 1e-12);
    hod_tensor *nan = hod_full(HOD_F64, HOD_SHAPE(3, 1, 2), NAN);
    CHECK(isnan(hod_item(hod_ctc_rows(nan, hod_from_ints((int64_t[]){1}, HOD_SHAPE(1, 1)),
                                      ints(1, (int64_t[]){3}), ints(1, (int64_t[]){1})))));
}

/* ---- derivatives, programs, errors ---- */

static hod_tensor *of_frames(void *context, hod_tensor *const *in, int n)
{
    (void)context;
    (void)n;
    return hod_ctc_rows(in[0], in[1], in[2], in[3], .per_label = true);
}

static void sample_inputs(hod_tensor **in)
{
    in[0] = hod_copy(frames(8, 3, 5, 1));
    in[1] = hod_from_ints((int64_t[]){1, 1, 2, 4, 3, 0, 2, 3, 2}, HOD_SHAPE(3, 3));
    in[2] = ints(3, (int64_t[]){8, 5, 6});
    in[3] = ints(3, (int64_t[]){3, 2, 3});
}

TEST(ctc_gradient_is_that_of_differences)
{
    hod_tensor *in[4];
    sample_inputs(in);
    hod_gradcheck_report r;
    CHECK(hod_gradcheck(of_frames, 4, in, &r, NULL, .rtol = 1e-6, .atol = 1e-7) == 0);
    CHECK(r.passed);
}

/* A frame's gradient sums to -1 times the weight of its sample, so its slope there is -frames. */
TEST(ctc_gradient_is_linear_in_its_weight)
{
    hod_tensor *in[4], *g, *gw;
    sample_inputs(in);
    hod_tensor *x = hod_requires_grad(in[0], true);
    hod_tensor *w = hod_from_doubles((double[]){1, -2, 0.5}, HOD_SHAPE(3));
    CHECK(hod_requires_grad(w, true));
    hod_tensor *y = hod_sum(hod_mul(w, hod_ctc_rows(x, in[1], in[2], in[3])));
    CHECK(hod_grad_of(y, 1, &x, &g, HOD_ONES, .create_graph = true) == 0);
    double have[3];
    CHECK(hod_grad_of(hod_sum(g), 1, &w, &gw, HOD_ONES) == 0);
    CHECK(hod_read_doubles(gw, have, 3) == 0);
    NEAR(have[0], -8, 1e-12);
    NEAR(have[1], -5, 1e-12);
    NEAR(have[2], -6, 1e-12);
}

TEST(ctc_second_derivative_is_refused)
{
    hod_tensor *in[4], *g, *gg;
    sample_inputs(in);
    hod_tensor *x = hod_requires_grad(in[0], true);
    hod_tensor *y = hod_sum(hod_ctc_rows(x, in[1], in[2], in[3]));
    CHECK(hod_grad_of(y, 1, &x, &g, HOD_ONES, .create_graph = true) == 0);
    ERROR_IS("ctc: it can be differentiated once only for the log probabilities",
             hod_grad_of(hod_sum(g), 1, &x, &gg, HOD_ONES));
}

static int step(void *job, hod_tensor *const *in, hod_tensor **out)
{
    (void)job;
    hod_tensor *logits = in[0];
    hod_loss l = hod_ctc(hod_log_softmax(logits, 2), in[1], in[2], in[3], .zero_infinity = true);
    out[0] = l.sum;
    return l.sum ? hod_grad_of(l.sum, 1, in, out + 1, HOD_ONES) : -1;
}

TEST(ctc_compiled_equals_eager)
{
    hod_fn *f = hod_compile(step, NULL, .inputs = 4, .outputs = 2, .fullgraph = true);
    for (int round = 0; round < 3; round++) {
        HOD_SCOPE(s);
        hod_tensor *in[4], *eager[2], *compiled[2];
        sample_inputs(in);
        in[0] = hod_requires_grad(hod_copy(hod_cast(in[0], HOD_F32)), true);
        in[2] = ints(3, (int64_t[]){8 - round, 5, 6});
        CHECK(step(NULL, in, eager) == 0 && hod_fn_call(f, in, compiled) == 0);
        NEAR(hod_item(compiled[0]), hod_item(eager[0]), 1e-5);
        NEAR(hod_item(hod_amax(hod_abs(hod_sub(compiled[1], eager[1])))), 0, 1e-6);
    }
    EQ_INT(hod_fn_report(f).traces, 1);
    hod_fn_free(f);
}

TEST(ctc_refuses_in_words)
{
    hod_tensor *in[4];
    sample_inputs(in);
    ERROR_IS("ctc: input length 9 of sample 0 is outside 0..8",
             hod_ctc_rows(in[0], in[1], ints(3, (int64_t[]){9, 5, 6}), in[3]));
    ERROR_IS("ctc: target length 4 of sample 2, with targets (3,3) of which 3 are left",
             hod_ctc_rows(in[0], in[1], in[2], ints(3, (int64_t[]){3, 2, 4})));
    ERROR_IS("ctc: label 0 of sample 1 is the blank of 5 classes",
             hod_ctc_rows(in[0], in[1], in[2], ints(3, (int64_t[]){3, 3, 3})));
    ERROR_IS("ctc: label 5 of sample 0 is none of 5 classes",
             hod_ctc_rows(in[0], hod_from_ints((int64_t[]){5, 1, 1}, HOD_SHAPE(3, 1)), in[2],
                          ints(3, (int64_t[]){1, 1, 1})));
    ERROR_IS("ctc: blank 5 of 5 classes", hod_ctc_rows(in[0], in[1], in[2], in[3], .blank = 5));
    ERROR_IS("ctc: targets and lengths of f64", hod_ctc_rows(in[0], in[0], in[2], in[3]));
    ERROR_IS("ctc: log probabilities (8,3,5) with targets (1) and lengths (2,1)",
             hod_ctc_rows(in[0], ints(1, (int64_t[]){1}), ints(1, (int64_t[]){1}),
                          ints(1, (int64_t[]){1})));
}
