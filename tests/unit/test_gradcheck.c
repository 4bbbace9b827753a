/* gradcheck and gradgradcheck: that they notice a wrong derivative, and that every differentiable
 * row of the operator table passes both. A row without a case here fails the test, so no operator
 * comes into the table unproven. */
#include "autograd/autograd.h"
#include "harness.h"
#include "ops/fused.h"
#include <hod/functional.h>
#include <hod/movement.h>
#include <hod/random.h>
#include <hod/rows.h>
#include <math.h>

/* One call of an operator: shapes of the inputs, attributes, which input is what. */
typedef struct op_case {
    hod_op op;
    int n;
    hod_shape shape[4];
    hod_attrs attrs;
    int flag_input;  /* 1 + input that is bool; 0: none */
    int index_input; /* 1 + input that is an index below 3; 0: none */
    bool boxes;      /* the last input is boxes, which are constants */
} op_case;

static double draw(uint64_t k, double low, double high)
{
    uint64_t h = hod__hash(&k, sizeof k, 17);
    return low + (high - low) * (double)(h >> 11) * 0x1p-53;
}

static hod_tensor *input_of(const op_case *c, int i)
{
    const hod_op_info *info = &hod__op_info[c->op];
    double v[512];
    int64_t ints[512], n = hod__numel(c->shape[i].n, c->shape[i].d);
    CHECK(n >= 0 && n <= 512);
    for (int64_t k = 0; k < n; k++) {
        v[k] = draw((uint64_t)(1000 * i + k), info->low, info->high);
        ints[k] = (k * 7 + 1) % 3;
    }
    if (c->index_input == i + 1)
        return hod_from_ints(ints, c->shape[i]);
    for (int64_t k = 0; c->boxes && i == c->n - 1 && k < n; k += 5)
        v[k] = 0; /* boxes, each of image 0 */
    hod_tensor *t = hod_from_doubles(v, c->shape[i]);
    return c->flag_input == i + 1 ? hod_gt_scalar(t, 0) : t;
}

static hod_tensor *call(void *context, hod_tensor *const *in, int n)
{
    const op_case *c = context;
    hod_tensor *all[4];
    for (int i = 0; i < c->n; i++)
        all[i] = i < n ? in[i] : input_of(c, i);
    if (hod__op_info[c->op].class != HOD_EFFECT)
        return hod__op(c->op, &c->attrs, c->n, all);
    hod_tensor *dst = hod_mul_scalar(in[0], 2); /* a result, because leaves may not be written */
    return hod__assign(dst, in[1]);
}

static void check(const op_case *c)
{
    HOD_SCOPE(s);
    const char *name = hod__op_info[c->op].name;
    hod_tensor *in[4];
    int n = c->n - c->boxes;
    for (int i = 0; i < n; i++)
        in[i] = input_of(c, i);
    hod_gradcheck_report r;
    /* 1e-6: central differences in f64 with a step of 1e-6 are good to about 1e-9 here */
    if (hod_gradcheck(call, n, in, &r, (void *)c, .rtol = 1e-6, .atol = 1e-7) != 0)
        FAIL("%s: %s", name, hod_error());
    if (!r.passed)
        FAIL("%s: d/d input %d, element %lld: %.9g, by differences %.9g", name, r.input,
             (long long)r.element, r.analytic, r.numeric);
    CHECK(r.compared > 0);
    if (hod_gradgradcheck(call, n, in, &r, (void *)c, .rtol = 1e-6, .atol = 1e-7) != 0)
        FAIL("%s, second order: %s", name, hod_error());
    if (!r.passed)
        FAIL("%s, second order: input %d, element %lld: %.9g, by differences %.9g", name, r.input,
             (long long)r.element, r.analytic, r.numeric);
}

#define S(...) HOD_SHAPE(__VA_ARGS__)

/* The rows that are neither elementwise nor reductions. */
static int64_t special(op_case *c, hod_op op)
{
    const op_case cases[] = {
        {.op = HOD_OP_cast, .n = 1, .shape = {S(2, 3)}, .attrs.cast.dtype = HOD_F64},
        {.op = HOD_OP_reshape, .n = 1, .shape = {S(2, 6)}, .attrs.shape.shape = S(3, 4)},
        {.op = HOD_OP_permute, .n = 1, .shape = {S(2, 3, 4)}, .attrs.permute.order = S(2, 0, 1)},
        {.op = HOD_OP_expand, .n = 1, .shape = {S(3, 1)}, .attrs.shape.shape = S(2, 3, 4)},
        {.op = HOD_OP_slice,
         .n = 1,
         .shape = {S(3, 7)},
         .attrs.slice = {.dim = 1, .start = 1, .stop = 6, .step = 2}},
        {.op = HOD_OP_unslice,
         .n = 1,
         .shape = {S(3, 3)},
         .attrs.unslice = {.dim = 1, .start = 1, .step = 2, .size = 7}},
        {.op = HOD_OP_windows, .n = 1, .shape = {S(3, 7)}, .attrs.windows = {1, 3, 2, 7}},
        {.op = HOD_OP_windows, .n = 1, .shape = {S(8, 2)}, .attrs.windows = {0, 2, 3, 8}},
        {.op = HOD_OP_windows_back,
         .n = 1,
         .shape = {S(2, 3, 3, 2)},
         .attrs.windows = {1, 3, 2, 8}},
        {.op = HOD_OP_matmul, .n = 2, .shape = {S(2, 3), S(3, 4)}},
        {.op = HOD_OP_matmul,
         .n = 2,
         .shape = {S(3, 2), S(4, 3)},
         .attrs.matmul = {.ta = true, .tb = true}},
        {.op = HOD_OP_matmul, .n = 2, .shape = {S(3, 2), S(3, 4)}, .attrs.matmul = {.ta = true}},
        {.op = HOD_OP_matmul, .n = 2, .shape = {S(2, 1, 2, 3), S(3, 3, 2)}},
        {.op = HOD_OP_pairs, .n = 2, .shape = {S(2, 3), S(4, 3)}, .attrs.pairs = {.power = 1}},
        {.op = HOD_OP_pairs, .n = 2, .shape = {S(2, 3, 2), S(2, 1, 2)}, .attrs.pairs.power = 2},
        {.op = HOD_OP_pairs,
         .n = 2,
         .shape = {S(2, 3), S(4, 3)},
         .attrs.pairs = {.power = 2, .root = true}},
        {.op = HOD_OP_pairs_back,
         .n = 3,
         .shape = {S(2, 4), S(2, 3), S(4, 3)},
         .attrs.pairs.power = 1},
        {.op = HOD_OP_pairs_back,
         .n = 3,
         .shape = {S(2, 3, 1), S(2, 3, 2), S(2, 1, 2)},
         .attrs.pairs.power = 2},
        {.op = HOD_OP_concat, .n = 3, .shape = {S(2, 1), S(2, 3), S(2, 2)}, .attrs.dim.dim = 1},
        {.op = HOD_OP_gather,
         .n = 2,
         .shape = {S(2, 3), S(2, 4)},
         .attrs.dim.dim = 1,
         .index_input = 2},
        {.op = HOD_OP_scatter_add,
         .n = 2,
         .shape = {S(2, 4), S(2, 4)},
         .attrs.scatter = {.dim = 1, .shape = S(2, 3)},
         .index_input = 2},
        {.op = HOD_OP_embedding, .n = 2, .shape = {S(3, 2), S(2, 4)}, .index_input = 2},
        {.op = HOD_OP_embedding_back,
         .n = 2,
         .shape = {S(2, 4, 2), S(2, 4)},
         .attrs.shape.shape = S(3, 2),
         .index_input = 2},
        {.op = HOD_OP_cumsum, .n = 1, .shape = {S(2, 3, 2)}, .attrs.scan = {.dim = 1}},
        {.op = HOD_OP_cumsum, .n = 1, .shape = {S(5)}, .attrs.scan = {.dim = 0, .reverse = true}},
        {.op = HOD_OP_cumprod, .n = 1, .shape = {S(2, 3, 2)}, .attrs.scan = {.dim = 1}},
        {.op = HOD_OP_cumprod, .n = 1, .shape = {S(5)}, .attrs.scan = {.dim = 0, .reverse = true}},
        {.op = HOD_OP_attention,
         .n = 4,
         .shape = {S(1, 2, 3, 2), S(1, 1, 4, 2), S(1, 1, 4, 3), S(3, 4)},
         .attrs.attention = {.scale = 0.5, .causal = true}},
        {.op = HOD_OP_softmax, .n = 1, .shape = {S(2, 3, 2)}, .attrs.dim.dim = 1},
        {.op = HOD_OP_log_softmax, .n = 1, .shape = {S(2, 3)}, .attrs.dim.dim = 1},
        {.op = HOD_OP_logsumexp, .n = 1, .shape = {S(2, 3, 2)}, .attrs.dim.dim = 1},
        {.op = HOD_OP_norm2, .n = 1, .shape = {S(2, 3, 2)}, .attrs.dim.dim = 1},
        {.op = HOD_OP_cross_entropy,
         .n = 2,
         .shape = {S(2, 3, 2), S(2, 1, 2)},
         .attrs.cross_entropy = {.dim = 1, .ignored = -100, .smoothing = 0.2},
         .index_input = 2},
        {.op = HOD_OP_norm, /* as batch norm, as layer norm, and as rms norm without weights */
         .n = 3,
         .shape = {S(2, 3, 2), S(3), S(3)},
         .attrs.norm = {.sets = 3, .pieces = 2, .n = 2, .run = 2, .groups = 3, 1e-3, true}},
        {.op = HOD_OP_norm,
         .n = 3,
         .shape = {S(2, 3), S(3), S(3)},
         .attrs.norm = {.sets = 2, .pieces = 1, .n = 3, .run = 1, .groups = 1, 1e-3, true}},
        {.op = HOD_OP_norm,
         .n = 1,
         .shape = {S(2, 4)},
         .attrs.norm = {.sets = 2, .pieces = 1, .n = 4, .run = 1, .groups = 1, 1e-3, false}},
        {.op = HOD_OP_contiguous, .n = 1, .shape = {S(2, 3)}},
        {.op = HOD_OP_scatter, /* indices come twice: the last one stays */
         .n = 3,
         .shape = {S(4, 5), S(3, 4), S(3, 4)},
         .attrs.place = {.dim = 1},
         .index_input = 2},
        {.op = HOD_OP_scatter,
         .n = 3,
         .shape = {S(4, 5), S(5, 4), S(5, 4)},
         .attrs.place = {.dim = 0, .add = true},
         .index_input = 2},
        {.op = HOD_OP_flip, .n = 1, .shape = {S(2, 3, 2)}, .attrs.flip.dims = 5},
        {.op = HOD_OP_roll, .n = 1, .shape = {S(2, 3, 2)}, .attrs.roll = {1, 2}},
        {.op = HOD_OP_triangle, .n = 1, .shape = {S(2, 3, 4)}, .attrs.triangle.diagonal = 1},
        {.op = HOD_OP_triangle, .n = 1, .shape = {S(4, 3)}, .attrs.triangle = {-1, true}},
        {.op = HOD_OP_assign, .n = 2, .shape = {S(2, 3), S(2, 3)}},
    };
    int64_t n = 0;
    for (int i = 0; i < HOD_COUNT(cases); i++)
        if (cases[i].op == op)
            c[n++] = cases[i];
    return n;
}

/* Every loss of elements, with its kink where none of the inputs is. */
static int64_t losses(op_case *c, hod_op op)
{
    bool is = op == HOD_OP_loss_each || op == HOD_OP_loss_sum;
    for (int k = 0; is && k < HOD_LOSSES; k++)
        c[k] = (op_case){.op = op,
                         .n = 2,
                         .shape = {S(2, 3), S(2, 3)},
                         .attrs.loss = {.loss = k, .number = 0.3}};
    return is ? HOD_LOSSES : 0;
}

/* x (2,2,5,6), w (4,1,3,2) in two groups, uneven padding, stride and dilation: y (2,4,3,3) */
static int64_t convolution(op_case *c, hod_op op)
{
    hod_attrs a = {
        .conv = {.stride = {2, 2}, .padding = {1, 0, 2, 1}, .dilation = {1, 2}, .groups = 2}};
    hod_shape x = S(2, 2, 5, 6), w = S(4, 1, 3, 2), y = S(2, 4, 3, 3);
    c[0] = (op_case){.op = op, .n = 2, .attrs = a};
    c[0].shape[0] = op == HOD_OP_conv2d_input ? y : x;
    c[0].shape[1] = op == HOD_OP_conv2d_weight ? y : w;
    c[0].attrs.conv.shape = op == HOD_OP_conv2d_input    ? x
                            : op == HOD_OP_conv2d_weight ? w
                                                         : (hod_shape){0};
    return op == HOD_OP_conv2d || op == HOD_OP_conv2d_input || op == HOD_OP_conv2d_weight;
}

/* x (2,2,5,6), windows 3x2, stride 2, padding 1 above and left, or bins: y (2,2,2,3) both times */
static int64_t pooling(op_case *c, hod_op op)
{
    hod_attrs grid = {.pool = {.kernel = {3, 2},
                               .stride = {2, 2},
                               .padding = {1, 1, 0, 0},
                               .dilation = {1, 1},
                               .count_include_pad = true}};
    hod_attrs bins = {.pool = {.bins = {2, 3}}};
    hod_shape x = S(2, 2, 5, 6), y = S(2, 2, 2, 3);
    bool back = op == HOD_OP_max_pool2d_back || op == HOD_OP_avg_pool2d_back;
    bool two = op == HOD_OP_max_pool2d_back || op == HOD_OP_max_pool2d_pick;
    for (int k = 0; k < 2; k++) {
        c[k] = (op_case){.op = op, .n = two ? 2 : 1, .attrs = k ? bins : grid};
        c[k].shape[0] = back ? y : x;
        c[k].shape[1] = x;
        if (op == HOD_OP_avg_pool2d_back)
            c[k].attrs.pool.shape = x;
    }
    return two || back || op == HOD_OP_max_pool2d || op == HOD_OP_avg_pool2d ? 2 : 0;
}

/* Lines of 5 to 8, images of 3 x 5 to 6 x 4, in every mode */
static int64_t resizing(op_case *c, hod_op op)
{
    bool back = op == HOD_OP_resize2d_back;
    if (!back && op != HOD_OP_resize2d)
        return 0;
    for (int k = 0; k < 8; k++) {
        bool line = k & 1;
        hod_shape x = line ? S(1, 2, 5) : S(1, 2, 3, 5), y = line ? S(1, 2, 8) : S(1, 2, 6, 4);
        hod_attrs a = {.resize = {.size = {line ? 1 : 6, line ? 8 : 4},
                                  .mode = k / 2 < 3 ? k / 2 : HOD_LINEAR,
                                  .corners = k / 2 == 3}};
        if (back)
            a.resize.shape = x;
        c[k] = (op_case){.op = op, .n = 1, .attrs = a, .shape = {back ? y : x}};
    }
    return 8;
}

/* x (2,2,3,4) at grids (2,2,3,2), in every mode */
static int64_t sampling(op_case *c, hod_op op)
{
    bool back = op == HOD_OP_grid_sample_back;
    if (!back && op != HOD_OP_grid_sample)
        return 0;
    hod_shape x = S(2, 2, 3, 4), y = S(2, 2, 2, 3), grid = S(2, 2, 3, 2);
    for (int k = 0; k < 7; k++) {
        hod_attrs a = {.sample = {.mode = k < 6 ? HOD_SAMPLE_LINEAR : HOD_SAMPLE_NEAREST,
                                  .padding = k % 3,
                                  .corners = k / 3 == 1}};
        if (back)
            a.sample.shape = x;
        c[k] = (op_case){.op = op, .n = 2, .attrs = a, .shape = {back ? y : x, grid}};
    }
    return 7;
}

/* x (1,2,4,5) in three boxes, with a sampling number and without; boxes are constants. */
static int64_t regions(op_case *c, hod_op op)
{
    bool back = op == HOD_OP_roi_align_back;
    if (!back && op != HOD_OP_roi_align)
        return 0;
    hod_shape x = S(1, 2, 4, 5), y = S(3, 2, 2, 3);
    for (int k = 0; k < 4; k++) {
        hod_attrs a = {
            .roi = {.size = {2, 3}, .sampling = k / 2 * 2, .scale = 5, .aligned = k & 1}};
        if (back)
            a.roi.shape = x;
        c[k] = (op_case){.op = op, .n = 2, .attrs = a, .shape = {back ? y : x, S(3, 5)}};
        c[k].boxes = true;
    }
    return 4;
}

/* Differentiable once; test_ctc.c and test_rnn.c prove that. */
static bool once(hod_op op)
{
    return op == HOD_OP_ctc || op == HOD_OP_ctc_back || op == HOD_OP_lstm ||
           op == HOD_OP_lstm_back || op == HOD_OP_gru || op == HOD_OP_gru_back;
}

/* x (2,3,4) padded to (2,6,9) in every mode; windows 2x3 of x (1,2,4,5) */
static int64_t surroundings(op_case *c, hod_op op)
{
    hod_shape x = S(2, 3, 4), y = S(2, 6, 9);
    bool pads = op == HOD_OP_pad || op == HOD_OP_pad_back;
    for (int mode = 0; pads && mode < HOD_PAD_MODES; mode++) {
        hod_attrs a = {.pad = {.before = S(0, 1, 3), .mode = mode, .value = mode ? 0 : 2}};
        a.pad.shape = op == HOD_OP_pad ? y : x;
        c[mode] = (op_case){.op = op, .n = 1, .attrs = a, .shape = {op == HOD_OP_pad ? x : y}};
    }
    if (pads)
        return HOD_PAD_MODES;
    hod_attrs a = {.unfold = {.kernel = {2, 3},
                              .stride = {1, 2},
                              .padding = {1, 0, 0, 2},
                              .dilation = {2, 1},
                              .image = {4, 5}}};
    c[0] = (op_case){.op = op, .n = 1, .attrs = a};
    c[0].shape[0] = op == HOD_OP_unfold2d ? S(1, 2, 4, 5) : S(1, 12, 9);
    return op == HOD_OP_unfold2d || op == HOD_OP_fold2d;
}

/* Elementwise rows broadcast; reductions fold the middle of three dimensions, kept and not. */
static int64_t cases_of(op_case *c, hod_op op)
{
    const hod_op_info *info = &hod__op_info[op];
    if (info->class == HOD_POINTWISE && op != HOD_OP_cast) {
        c[0] = (op_case){.op = op, .n = info->arity, .shape = {S(2, 3), S(3), S(2, 1)}};
        c[0].flag_input = op == HOD_OP_where;
        return 1;
    }
    if (info->class == HOD_REDUCE) {
        for (int k = 0; k < 2; k++) {
            c[k] = (op_case){.op = op, .n = 1, .shape = {S(2, 3, 2)}};
            c[k].attrs.reduce.dims = k ? 5 : 2;
            c[k].attrs.reduce.keepdim = k;
        }
        return 2;
    }
    int64_t n = special(c, op);
    n = n ? n : losses(c, op);
    n = n ? n : convolution(c, op);
    n = n ? n : surroundings(c, op);
    n = n ? n : resizing(c, op);
    n = n ? n : sampling(c, op);
    n = n ? n : regions(c, op);
    return n ? n : pooling(c, op);
}

TEST(gradcheck_every_differentiable_operator_twice)
{
    int proven = 0;
    for (hod_op op = 0; op < HOD_OPS; op++) {
        if (hod__op_info[op].flags & HOD_OPF_NODIFF) {
            CHECK(hod__op_info[op].nodiff && *hod__op_info[op].nodiff);
            continue;
        }
        if (once(op))
            continue;
        op_case c[8];
        int64_t n = cases_of(c, op);
        if (n == 0)
            FAIL("%s: differentiable, but nothing here checks it", hod__op_info[op].name);
        for (int64_t k = 0; k < n; k++)
            check(&c[k]);
        proven++;
    }
    CHECK(proven > 40);
}

/* ---- that it can fail ---- */

static hod_tensor *half_detached(void *context, hod_tensor *const *in, int n)
{
    (void)context;
    (void)n;
    return hod_mul(in[0], hod_detach(in[0])); /* values of x², derivative x */
}

TEST(gradcheck_notices_a_wrong_derivative)
{
    hod_tensor *x = hod_from_doubles((double[]){1, 2, 3}, HOD_SHAPE(3));
    hod_gradcheck_report r;
    EQ_INT(hod_gradcheck(half_detached, 1, &x, &r, NULL), 0);
    CHECK(!r.passed);
    NEAR(r.analytic / r.numeric, 0.5, 1e-6);
    EQ_INT(r.compared, 3);
}

static hod_tensor *right_first_wrong_second(void *context, hod_tensor *const *in, int n)
{
    (void)context;
    (void)n;
    /* The value and first derivative of x², whose second is lost: x₀² + 2 x₀ (x - x₀), x₀ = x. */
    hod_tensor *x = in[0], *x0 = hod_detach(x);
    return hod_add(hod_mul(x0, x0), hod_mul(hod_mul_scalar(x0, 2), hod_sub(x, x0)));
}

TEST(gradgradcheck_notices_a_missing_term)
{
    hod_tensor *x = hod_from_doubles((double[]){1, 2, 3}, HOD_SHAPE(3));
    hod_gradcheck_report r;
    EQ_INT(hod_gradgradcheck(right_first_wrong_second, 1, &x, &r, NULL), 0);
    CHECK(!r.passed);
}

static hod_tensor *compositions(void *context, hod_tensor *const *in, int n)
{
    (void)context;
    (void)n;
    hod_tensor *x = in[0], *w = in[1], *b = in[2]; /* (2,4,3), (4), (4) */
    hod_tensor *y = hod_group_norm(x, 2, w, b, 1e-5);
    y = hod_add(y, hod_batch_norm(x, hod_mean_dims(x, 0, 2),
                                  hod_var_over(x, HOD_SHAPE(0, 2), false, 0), w, b, 1e-5));
    y = hod_add(y, hod_softmax(x, 1));
    return hod_add(y, hod_unsqueeze(hod_logsumexp(x, 2, false), 2));
}

TEST(gradcheck_compositions)
{
    double v[24];
    for (int i = 0; i < 24; i++)
        v[i] = draw((uint64_t)i, -2, 2);
    hod_tensor *in[] = {hod_from_doubles(v, HOD_SHAPE(2, 4, 3)), hod_from_doubles(v, HOD_SHAPE(4)),
                        hod_from_doubles(v + 4, HOD_SHAPE(4))};
    hod_gradcheck_report r;
    EQ_INT(hod_gradcheck(compositions, 3, in, &r, NULL, .rtol = 1e-6, .atol = 1e-7), 0);
    CHECK(r.passed);
    EQ_INT(hod_gradgradcheck(compositions, 3, in, &r, NULL, .rtol = 1e-5, .atol = 1e-6), 0);
    CHECK(r.passed);
}

/* A user's kernel may know f32 only: the differences then use a wider step. */
static hod_tensor *f32_only(void *context, hod_tensor *const *in, int n)
{
    (void)n;
    if (hod_tensor_dtype(in[0]) != HOD_F32)
        return hod_refuse("f32 only");
    hod_tensor *y = hod_mul(hod_tanh(in[0]), in[1]);
    return context ? hod_mul(hod_detach(y), in[0]) : y; /* with half of its derivative hidden */
}

TEST(gradcheck_in_f32_for_functions_that_take_nothing_else)
{
    float values[2][4] = {{-1.5F, 0.2F, 0.7F, 3}, {1, -2, 0.5F, 1.5F}};
    hod_tensor *in[2];
    for (int i = 0; i < 2; i++)
        in[i] = hod_from_floats(values[i], HOD_SHAPE(4));
    hod_gradcheck_report r;
    EQ_INT(hod_gradcheck(f32_only, 2, in, &r, NULL, .keep_f32 = true), 0);
    CHECK(r.passed && r.compared == 8);
    EQ_INT(hod_gradgradcheck(f32_only, 2, in, &r, NULL, .keep_f32 = true), 0);
    CHECK(r.passed && r.compared == 8);
    EQ_INT(hod_gradcheck(f32_only, 2, in, &r, &r, .keep_f32 = true), 0);
    CHECK(!r.passed);
    ERROR_IS("f32 only", hod_gradcheck(f32_only, 2, in, &r, NULL));
}

/* ---- functions that cannot be checked ---- */

static hod_tensor *largest(void *context, hod_tensor *const *in, int n)
{
    (void)context, (void)n;
    return hod_argmax(in[0], 0);
}

static hod_tensor *in_f32(void *context, hod_tensor *const *in, int n)
{
    (void)context, (void)n;
    return hod_cast(in[0], HOD_F32);
}

static hod_tensor *drawing(void *context, hod_tensor *const *in, int n)
{
    (void)context, (void)n;
    return hod_dropout(in[0], 0.5);
}

static hod_tensor *nothing(void *context, hod_tensor *const *in, int n)
{
    (void)context, (void)in, (void)n;
    return NULL;
}

TEST(gradcheck_says_what_it_cannot_check)
{
    double some[40] = {1};
    hod_tensor *x = hod_from_doubles(some, HOD_SHAPE(40)),
               *i = hod_from_ints((int64_t[]){1}, HOD_SHAPE(1));
    hod_gradcheck_report r;
    CHECK(hod_random_begin(1, 0, NULL) == 0);
    ERROR_IS("gradcheck: none of the inputs holds floats", hod_gradcheck(in_f32, 1, &i, &r, NULL));
    ERROR_IS("gradcheck: the function gives i64, which has no gradient",
             hod_gradcheck(largest, 1, &x, &r, NULL));
    ERROR_IS("gradcheck: the function gives f32 for inputs in f64, too coarse for differences; "
             ".keep_f32 leaves inputs as they are",
             hod_gradcheck(in_f32, 1, &x, &r, NULL));
    ERROR_IS("gradcheck: the function's result is NULL", hod_gradcheck(nothing, 1, &x, &r, NULL));
    ERROR_IS("gradgradcheck: none of the inputs holds floats",
             hod_gradgradcheck(in_f32, 1, &i, &r, NULL));
    ERROR_IS("gradgradcheck: the function gives i64, which has no gradient",
             hod_gradgradcheck(largest, 1, &x, &r, NULL));
    ERROR_IS("gradgradcheck: the function's result is NULL",
             hod_gradgradcheck(nothing, 1, &x, &r, NULL));
    EQ_INT(hod_gradcheck(drawing, 1, &x, &r, NULL), -1);
    CHECK(strstr(hod_error(), "for the same inputs: it draws numbers or keeps something"));
    hod_error_take(NULL);
}

static hod_tensor *looked_up(void *context, hod_tensor *const *in, int n)
{
    (void)n;
    return hod_embedding_rows(in[0], context);
}

TEST(gradcheck_of_lists_of_rows)
{
    hod_tensor *w = hod_from_doubles((double[]){1, 2, 3, 4, 5, 6}, HOD_SHAPE(3, 2));
    hod_tensor *index = hod_from_ints((int64_t[]){2, 0, 2}, HOD_SHAPE(3));
    hod_gradcheck_report r;
    CHECK(hod_gradcheck(looked_up, 1, &w, &r, index) == 0);
    CHECK(r.passed && r.compared == 6);
}
