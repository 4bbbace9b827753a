/* LSTM and GRU beside PyTorch, in several shapes of the same run, and their derivatives. */
#include "harness.h"
#include <hod/autograd.h>
#include <hod/compile.h>
#include <hod/functional.h>
#include <hod/random.h>
#include <hod/rnn.h>
#include <hod/threads.h>
#include <math.h>
#include <stdlib.h>

#include "ops/op.h" /* last: it switches off the noting of places */
#include "ops/recur.h"

/* sin(1.3 i + seed) scaled. */
static hod_tensor *wave(double seed, double scale, hod_shape shape)
{
    int64_t n = hod__numel(shape.n, shape.d);
    double *v = calloc((size_t)n + 1, sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = scale * sin(1.3 * (double)i + seed);
    hod_tensor *t = hod_from_doubles(v, shape);
    free(v);
    return t;
}

static double largest(hod_tensor *t)
{
    return hod_item(hod_amax(hod_abs(hod_cast(t, HOD_F64))));
}

/* Largest difference over the largest magnitude of b. */
static double apart(hod_tensor *a, hod_tensor *b)
{
    CHECK(a && b);
    return largest(hod_sub(hod_cast(a, HOD_F64), hod_cast(b, HOD_F64))) / fmax(largest(b), 1e-30);
}

static hod_module *module_of(bool lstm, hod_nn_rnn_spec spec, hod_dtype type)
{
    hod_module *m = lstm ? hod_nn_lstm_make(NULL, "m", spec) : hod_nn_gru_make(NULL, "m", spec);
    CHECK(m && hod_module_cast(m, type) == 0);
    int k = 0;
    for (hod_walk w = hod_parameters(m); hod_walk_next(&w); k++) {
        HOD_SCOPE(s);
        HOD_NO_GRAD(g);
        hod_tensor *v = wave(k, .7, hod_tensor_shape(w.item.tensor));
        CHECK(hod__assign(w.item.tensor, hod_cast(v, type)));
    }
    return m;
}

/* ---- PyTorch 2.15's results in f64 ----
 * x (5,3,4), hidden 3, lengths 3 5 1 where they differ. The loss is a wave's product with y, h and
 * c; of each gradient the product with a wave is kept. */
typedef struct torch_case {
    bool lstm;
    int layers;
    bool both, lengths;
    double loss;
    double gradient[7]; /* of x, h, c, and of the first layer's parameters */
} torch_case;

static const torch_case torch_cases[] = {
    {true,
     1,
     false,
     false,
     -1.277275208928219,
     {-1.070881209830389, -0.5714883812144271, 1.552955468745336, -1.9602551123255045,
      -0.1464222699638261, -0.8039433541854349, -0.8039433541854353}},
    {true,
     2,
     true,
     true,
     1.5858277706400952,
     {-0.673988557420937, 0.7894219046864516, 6.826209256240913, -0.5772256704797323,
      -0.37919897027651905, -1.4065381809557145, -1.4065381809557147}},
    {false,
     1,
     false,
     false,
     2.192956452844049,
     {0.7281166327344466, 2.3160670982520837, 0, -0.5569362292853994, -0.5387678209910418,
      -0.3507040040799436, -0.8311321775539335}},
    {false,
     2,
     true,
     true,
     1.6091810130134832,
     {-1.6453536471841388, 6.011255477094441, 0, -1.1182247669148802, -0.23745551170853074,
      -1.0884723942486911, -0.6740895010468095}},
};

static hod_tensor *dot(hod_tensor *t, double seed)
{
    return hod_sum(hod_mul(t, hod_cast(wave(seed, 1, hod_tensor_shape(t)), hod_tensor_dtype(t))));
}

static void like_torch(const torch_case *c, hod_dtype type, double tol)
{
    HOD_SCOPE(s);
    hod_nn_rnn_spec spec = {.in = 4, .hidden = 3, .layers = c->layers, .bidirectional = c->both};
    hod_module *m = module_of(c->lstm, spec, type);
    int64_t k = c->layers * (c->both ? 2 : 1);
    hod_tensor *in[7] = {hod_cast(wave(.5, 1, HOD_SHAPE(5, 3, 4)), type),
                         hod_cast(wave(.25, .5, HOD_SHAPE(k, 3, 3)), type),
                         hod_cast(wave(.75, .5, HOD_SHAPE(k, 3, 3)), type)};
    int n = c->lstm ? 3 : 2;
    for (int i = 0; i < n; i++)
        in[i] = hod_requires_grad(hod_copy(in[i]), true);
    hod_tensor *lengths = hod_from_ints((int64_t[]){3, 5, 1}, HOD_SHAPE(3));
    hod_rnn r = hod_nn_rnn(m, in[0], .lengths = c->lengths ? lengths : NULL, .h = in[1],
                           .c = c->lstm ? in[2] : NULL);
    CHECK(r.y);
    hod_tensor *loss = hod_add(dot(r.y, .1), dot(r.h, .2));
    if (c->lstm)
        loss = hod_add(loss, dot(r.c, .3));
    NEAR(hod_item(loss), c->loss, tol);
    CHECK(hod_backward(loss) == 0);
    for (int i = 0; i < n; i++)
        NEAR(hod_item(dot(hod_grad(in[i]), .4)), c->gradient[i], 3 * tol);
    for (int i = 0; i < 4; i++)
        NEAR(hod_item(dot(hod_grad(m->parameters[i].tensor), .4)), c->gradient[3 + i], 3 * tol);
    hod_module_free(m);
}

TEST(rnn_is_pytorchs)
{
    for (int i = 0; i < HOD_COUNT(torch_cases); i++) {
        like_torch(&torch_cases[i], HOD_F64, 2e-14);
        like_torch(&torch_cases[i], HOD_F32, 4e-6); /* sums of 45 terms of about 1 */
    }
}

TEST(rnn_parameters_have_pytorchs_names)
{
    hod_module *m = hod_nn_gru(NULL, "m", 4, 3, .layers = 2, .bidirectional = true);
    const char *want[] = {
        "weight_ih_l0",         "weight_hh_l0",         "bias_ih_l0",         "bias_hh_l0",
        "weight_ih_l0_reverse", "weight_hh_l0_reverse", "bias_ih_l0_reverse", "bias_hh_l0_reverse",
        "weight_ih_l1",         "weight_hh_l1",         "bias_ih_l1",         "bias_hh_l1",
        "weight_ih_l1_reverse", "weight_hh_l1_reverse", "bias_ih_l1_reverse", "bias_hh_l1_reverse"};
    int k = 0;
    for (hod_walk w = hod_parameters(m); hod_walk_next(&w); k++)
        EQ_STR(w.item.name, want[k]);
    EQ_INT(k, 16);
    EQ_INT(hod_module_count_parameters(m), 2 * (9 * 4 + 9 * 3 + 18) + 2 * (9 * 6 + 9 * 3 + 18));
    hod_module_free(m);
}

/* ---- functions of plain tensors ---- */

/* x, w_ih, w_hh, b_ih, b_hh, h, c: one layer both ways, with lengths 2, 4, 0. */
static hod_tensor *both_ways(void *context, hod_tensor *const *in, int n)
{
    (void)n;
    hod_rnn_weights w[2] = {{in[1], in[2], in[3], in[4]}, {in[1], in[2], in[4], in[3]}};
    hod_rnn_options o = {.bidirectional = true,
                         .h = in[5],
                         .lengths = hod_from_ints((int64_t[]){2, 4, 0}, HOD_SHAPE(3))};
    bool lstm = *(const bool *)context;
    o.c = lstm ? in[6] : NULL;
    hod_rnn r = lstm ? hod_lstm_with(in[0], w, o) : hod_gru_with(in[0], w, o);
    hod_tensor *all = hod_concat(2, (hod_tensor *[]){hod_flatten(r.y, 0), hod_flatten(r.h, 0)}, 0);
    return lstm ? hod_concat(2, (hod_tensor *[]){all, hod_flatten(r.c, 0)}, 0) : all;
}

static void check_inputs(bool lstm, hod_tensor **in)
{
    int64_t g = lstm ? 8 : 6;
    in[0] = wave(.1, 1, HOD_SHAPE(4, 3, 3));
    in[1] = wave(.2, .8, HOD_SHAPE(g, 3));
    in[2] = wave(.3, .8, HOD_SHAPE(g, 2));
    in[3] = wave(.4, .8, HOD_SHAPE(g));
    in[4] = wave(.5, .8, HOD_SHAPE(g));
    in[5] = wave(.6, .8, HOD_SHAPE(2, 3, 2));
    in[6] = wave(.7, .8, HOD_SHAPE(2, 3, 2));
}

TEST(rnn_gradients_are_those_of_differences)
{
    for (int lstm = 0; lstm < 2; lstm++) {
        bool which = lstm;
        hod_tensor *in[7];
        check_inputs(lstm, in);
        hod_gradcheck_report r;
        CHECK(hod_gradcheck(both_ways, lstm ? 7 : 6, in, &r, &which, .rtol = 1e-6, .atol = 1e-7) ==
              0);
        if (!r.passed)
            FAIL("%s, input %d: %g, not %g", lstm ? "lstm" : "gru", r.input, r.analytic, r.numeric);
    }
}

TEST(rnn_second_derivative_is_refused)
{
    bool lstm = true;
    hod_tensor *in[7], *g, *gg;
    check_inputs(true, in);
    hod_tensor *x = hod_requires_grad(in[0], true);
    hod_tensor *y = hod_sum(hod_square(both_ways(&lstm, in, 7)));
    CHECK(hod_grad_of(y, 1, &x, &g, HOD_ONES, .create_graph = true) == 0);
    ERROR_IS("lstm: it can be differentiated once only",
             hod_grad_of(hod_sum(g), 1, &x, &gg, HOD_ONES));
}

/* ---- f32 beside the slow twin in f64, in sizes that take each way through the threads ---- */

static hod_rnn run_module(hod_module *m, hod_tensor *x, hod_tensor *lengths)
{
    return hod_nn_rnn(m, x, .lengths = lengths);
}

TEST(rnn_f32_agrees_with_f64)
{
    const int64_t sizes[][4] = {/* T, N, I, H */ {3, 1, 5, 7},
                                {7, 2, 16, 40},
                                {5, 9, 20, 70},
                                {4, 33, 12, 129},
                                {3, 3, 8, 420}};
    for (int k = 0; k < 2 * HOD_COUNT(sizes); k++) {
        HOD_SCOPE(s);
        bool lstm = k % 2;
        const int64_t *z = sizes[k / 2];
        hod_nn_rnn_spec spec = {.in = z[2], .hidden = z[3], .layers = 1, .bidirectional = true};
        hod_tensor *y[2], *g[2], *w[2];
        hod_module *m[2];
        for (int f = 0; f < 2; f++) {
            hod_dtype type = f ? HOD_F64 : HOD_F32;
            m[f] = lstm ? hod_nn_lstm_make(NULL, "m", spec) : hod_nn_gru_make(NULL, "m", spec);
            CHECK(hod_module_init(m[f], 5) == 0 && hod_module_cast(m[f], type) == 0);
            hod_tensor *x = hod_cast(wave(.1, 1, HOD_SHAPE(z[0], z[1], z[2])), type);
            x = hod_requires_grad(hod_copy(x), true);
            int64_t length[64];
            for (int i = 0; i < z[1]; i++)
                length[i] = z[0] - (k > 4 ? i % z[0] : 0);
            y[f] = run_module(m[f], x, hod_from_ints(length, HOD_SHAPE(z[1]))).y;
            CHECK(y[f] && hod_backward(dot(y[f], .2)) == 0);
            g[f] = hod_grad(x);
            w[f] = hod_grad(m[f]->parameters[1].tensor);
        }
        NEAR(apart(y[0], y[1]), 0, 2e-6);
        NEAR(apart(g[0], g[1]), 0, 4e-6);
        NEAR(apart(w[0], w[1]), 0, 4e-6);
        hod_module_free(m[0]);
        hod_module_free(m[1]);
    }
}

TEST(rnn_has_the_same_bits_for_any_number_of_threads)
{
    const int64_t sizes[][2] = {/* N, H */ {40, 64}, {3, 100}, {13, 96}, {5, 300}};
    for (int k = 0; k < HOD_COUNT(sizes); k++) {
        HOD_SCOPE(s);
        hod_module *m =
            module_of(k % 2, (hod_nn_rnn_spec){.in = 12, .hidden = sizes[k][1]}, HOD_F32);
        hod_tensor *x = hod_cast(wave(.1, 1, HOD_SHAPE(6, sizes[k][0], 12)), HOD_F32), *g[4];
        x = hod_requires_grad(hod_copy(x), true);
        for (int t = 0; t < 4; t++) {
            CHECK(hod_set_threads(t + 1) == 0);
            hod_tensor *y = hod_sum(hod_square(hod_call(m, x)));
            CHECK(hod_grad_of(y, 1, &x, &g[t], HOD_ONES) == 0);
            NEAR(apart(g[t], g[0]), 0, 0);
        }
        hod_module_free(m);
    }
}

/* Every instruction set's rows beside libm in double, at all magnitudes. */
static void check_rows(const hod_recur_rows *rows)
{
    enum { H = 1001 };
    static float x[4 * H], gates[4 * H], c[H], c_new[H], y[H], b[4 * H];
    static double xd[4 * H], gd[4 * H], cd[H], c_newd[H], yd[H], bd[4 * H];
    for (int gru = 0; gru < 2; gru++) {
        for (int i = 0; i < 4 * H; i++) {
            x[i] = (float)(ldexp(sin(i), i % 29 - 20));
            xd[i] = x[i];
            gates[i] = 0.25f * x[(i + 7) % (4 * H)];
            gd[i] = gates[i];
            b[i] = (float)cos(i);
            bd[i] = b[i];
            c[i % H] = (float)sin(3 * (i % H));
            cd[i % H] = c[i % H];
        }
        if (gru) {
            rows->gru(H, x, b, gates, c, c_new, y);
            hod__recur_f64.gru(H, xd, bd, gd, cd, c_newd, yd);
        } else {
            rows->lstm(H, x, b, gates, c, c_new, y);
            hod__recur_f64.lstm(H, xd, bd, gd, cd, c_newd, yd);
        }
        for (int i = 0; i < H; i++) {
            NEAR(c_new[i], c_newd[i], 4e-7 * fmax(1, fabs(c_newd[i])));
            NEAR(y[i], yd[i], 4e-7);
        }
    }
    float big[4] = {1000, -1000, NAN, INFINITY}, zero[4] = {0}, out[4], cell[4] = {1, 1, 1, 1};
    for (int i = 0; i < 4; i++) { /* one unit whose gates are all of that value */
        float z[4] = {big[i], big[i], big[i], big[i]}, none[4] = {0}, old = 1;
        rows->lstm(1, z, none, zero, &old, &cell[i], &out[i]);
        memset(zero, 0, sizeof zero);
    }
    NEAR(cell[0], 2, 0);
    NEAR(cell[1], 0, 0);
    CHECK(isnan(cell[2]) && isnan(out[2]));
    NEAR(cell[3], 2, 0);
}

TEST(rnn_rows_are_accurate_in_every_instruction_set)
{
    check_rows(&hod__recur_plain);
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        check_rows(&hod__recur_v3);
    if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        check_rows(&hod__recur_v4);
#endif
}

/* ---- other shapes of the same ---- */

TEST(rnn_batch_first_and_without_batch)
{
    for (int lstm = 0; lstm < 2; lstm++) {
        hod_module *m = module_of(lstm, (hod_nn_rnn_spec){.in = 4, .hidden = 3}, HOD_F64);
        hod_module *f =
            module_of(lstm, (hod_nn_rnn_spec){.in = 4, .hidden = 3, .batch_first = true}, HOD_F64);
        hod_tensor *x = wave(.1, 1, HOD_SHAPE(5, 2, 4));
        hod_rnn a = hod_nn_rnn(m, x), b = hod_nn_rnn(f, hod_transpose(x, 0, 1));
        NEAR(apart(hod_transpose(b.y, 0, 1), a.y), 0, 0);
        NEAR(apart(b.h, a.h), 0, 0);
        hod_rnn one = hod_nn_rnn(m, hod_select(x, 1, 1));
        EQ_INT(hod_tensor_ndim(one.y), 2);
        EQ_INT(hod_tensor_ndim(one.h), 2);
        NEAR(apart(one.y, hod_select(a.y, 1, 1)), 0, 1e-15);
        CHECK((one.c != NULL) == lstm);
        hod_module_free(m);
        hod_module_free(f);
    }
}

/* A sample cut to its length alone is what it is in a padded batch; padding, NaN even,
 * is not read. */
TEST(rnn_padding_changes_nothing)
{
    hod_nn_rnn_spec spec = {.in = 4, .hidden = 3, .layers = 2, .bidirectional = true};
    for (int lstm = 0; lstm < 2; lstm++) {
        hod_module *m = module_of(lstm, spec, HOD_F64);
        hod_tensor *x = wave(.1, 1, HOD_SHAPE(6, 2, 4));
        hod_tensor *late = hod_iota(HOD_I64, HOD_SHAPE(6, 2, 4), 0);
        hod_tensor *nan = hod_full(HOD_F64, HOD_SHAPE(), NAN);
        x = hod_requires_grad(hod_copy(hod_where(hod_ge_scalar(late, 4), nan, x)), true);
        hod_tensor *lengths = hod_from_ints((int64_t[]){4, 2}, HOD_SHAPE(2)), *g;
        hod_rnn padded = hod_nn_rnn(m, x, .lengths = lengths);
        hod_rnn cut = hod_nn_rnn(m, hod_slice(x, 0, 0, 2));
        NEAR(apart(hod_select(hod_slice(padded.y, 0, 0, 2), 1, 1), hod_select(cut.y, 1, 1)), 0,
             1e-15);
        NEAR(apart(hod_select(padded.h, 1, 1), hod_select(cut.h, 1, 1)), 0, 1e-15);
        NEAR(largest(hod_slice(padded.y, 0, 4, 6)), 0, 0);
        NEAR(largest(hod_select(hod_slice(padded.y, 0, 2, 6), 1, 1)), 0, 0);
        CHECK(hod_grad_of(hod_sum(padded.y), 1, &x, &g, HOD_ONES) == 0);
        NEAR(largest(hod_slice(g, 0, 4, 6)), 0, 0);
        CHECK(hod_backward(hod_sum(hod_nn_rnn(m, x, .lengths = lengths).y)) == 0);
        for (int64_t i = 0; i < m->n_parameters; i++)
            CHECK(isfinite(largest(hod_grad(m->parameters[i].tensor))));
        hod_module_free(m);
    }
}

TEST(rnn_of_nothing)
{
    for (int lstm = 0; lstm < 2; lstm++) {
        hod_module *m = module_of(lstm, (hod_nn_rnn_spec){.in = 4, .hidden = 3}, HOD_F32);
        hod_rnn none = hod_nn_rnn(m, hod_zeros(HOD_F32, HOD_SHAPE(5, 0, 4)));
        EQ_INT(hod_tensor_numel(none.y), 0);
        hod_tensor *h = hod_requires_grad(hod_zeros(HOD_F32, HOD_SHAPE(1, 2, 3)), true);
        hod_rnn now = hod_nn_rnn(m, hod_zeros(HOD_F32, HOD_SHAPE(0, 2, 4)), .h = h);
        EQ_INT(hod_tensor_numel(now.y), 0);
        NEAR(apart(now.h, h), 0, 0);
        CHECK(hod_backward(hod_add(hod_sum(now.h), hod_sum(now.y))) == 0);
        NEAR(hod_item(hod_sum(hod_grad(h))), 6, 0);
        hod_tensor *lengths = hod_from_ints((int64_t[]){0, 0}, HOD_SHAPE(2));
        now = hod_nn_rnn(m, hod_zeros(HOD_F32, HOD_SHAPE(0, 2, 4)), .h = h, .lengths = lengths);
        EQ_INT(hod_tensor_numel(now.y), 0);
        NEAR(apart(now.h, h), 0, 0);
        hod_module_free(m);
    }
}

/* Dropout follows the sample, so that a batch in two parts is the batch. */
TEST(rnn_dropout_does_not_see_the_split)
{
    hod_nn_rnn_spec spec = {.in = 4, .hidden = 8, .layers = 2, .dropout = .5};
    hod_module *m = module_of(true, spec, HOD_F32);
    hod_tensor *x = hod_cast(wave(.1, 1, HOD_SHAPE(5, 4, 4)), HOD_F32);
    hod_tensor *index = hod_from_ints((int64_t[]){7, 8, 9, 10}, HOD_SHAPE(4));
    CHECK(hod_random_begin(1, 0, index) == 0);
    hod_tensor *whole = hod_call(m, x);
    CHECK(hod_random_begin(1, 0, hod_slice(index, 0, 2, 4)) == 0);
    hod_tensor *part = hod_call(m, hod_slice(x, 1, 2, 4));
    NEAR(apart(part, hod_slice(whole, 1, 2, 4)), 0, 1e-6);
    hod_module_train(m, false);
    CHECK(apart(hod_call(m, x), whole) > 1e-3);
    hod_module_free(m);
}

static int step(void *job, hod_tensor *const *in, hod_tensor **out)
{
    hod_rnn r = hod_nn_rnn((hod_module *)job, in[0], .lengths = in[1]);
    out[0] = r.y;
    return r.y ? hod_backward(hod_sum(hod_square(r.y))) : -1;
}

TEST(rnn_compiled_equals_eager)
{
    hod_nn_rnn_spec spec = {.in = 6, .hidden = 5, .layers = 2, .bidirectional = true};
    for (int lstm = 0; lstm < 2; lstm++) {
        HOD_SCOPE(s);
        hod_module *a = module_of(lstm, spec, HOD_F32), *b = module_of(lstm, spec, HOD_F32);
        hod_fn *f = hod_compile(step, a, .inputs = 2, .outputs = 1, .fullgraph = true);
        for (int i = 0; i < 3; i++) {
            HOD_SCOPE(t);
            hod_tensor *in[] = {hod_copy(hod_cast(wave(i, 1, HOD_SHAPE(4, 3, 6)), HOD_F32)),
                                hod_from_ints((int64_t[]){4, 1 + i, 2}, HOD_SHAPE(3))};
            hod_tensor *y, *want;
            if (hod_fn_call(f, in, &y) != 0)
                FAIL("%s", hod_error());
            CHECK(step(b, in, &want) == 0);
            NEAR(apart(y, want), 0, 1e-6);
        }
        EQ_INT(hod_fn_report(f).traces, 1);
        for (int64_t k = 0; k < a->n_parameters; k++)
            NEAR(apart(hod_grad(a->parameters[k].tensor), hod_grad(b->parameters[k].tensor)), 0,
                 1e-5);
        hod_fn_free(f);
        hod_module_free(a);
        hod_module_free(b);
    }
}

TEST(rnn_refuses_in_words)
{
    hod_module *m = module_of(true, (hod_nn_rnn_spec){.in = 4, .hidden = 3}, HOD_F32);
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(5, 2, 4));
    ERROR_IS("lstm: input (5,2,3) has 3 features, weights (12,4) want 4",
             hod_call(m, hod_zeros(HOD_F32, HOD_SHAPE(5, 2, 3))));
    ERROR_IS("lstm: length 6 of sample 1 is outside 0..5",
             hod_nn_rnn(m, x, .lengths = hod_from_ints((int64_t[]){5, 6}, HOD_SHAPE(2))).y);
    ERROR_IS("lstm: initial state (1,3,3), not (1,2,3)",
             hod_nn_rnn(m, x, .h = hod_zeros(HOD_F32, HOD_SHAPE(1, 3, 3))).y);
    ERROR_IS("lstm: input i64 (5,2,4), not floats (T,N,I)",
             hod_call(m, hod_zeros(HOD_I64, HOD_SHAPE(5, 2, 4))));
    hod_rnn_weights w = {m->parameters[0].tensor, m->parameters[1].tensor, NULL, NULL};
    ERROR_IS("lstm: weights or biases of layer 0 are missing; without biases: .no_bias",
             hod_lstm(x, &w).y);
    ERROR_IS("gru: has no cell state c", hod_gru(x, &w, .c = x).y);
    ERROR_IS("lstm: in 0, hidden 3, 1 layers", hod_nn_lstm(NULL, "m", 0, 3));
    hod_module *linear = hod_nn_linear(NULL, "l", 4, 3);
    ERROR_IS("nn_rnn: linear is neither lstm nor gru", hod_nn_rnn(linear, x).y);
    hod_module_free(linear);
    hod_module_free(m);
}
