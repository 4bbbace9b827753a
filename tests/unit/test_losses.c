/* Every loss: its value beside PyTorch's, its derivatives twice beside differences, compiled beside
 * eager, and its wrong uses. Values were computed by PyTorch 2.15 in f64 for the same inputs; the
 * IoU family and focal loss by their formulas as torchvision has them. */
#include "harness.h"
#include <hod/autograd.h>
#include <hod/compile.h>
#include <hod/functional.h>
#include <hod/losses.h>
#include <math.h>

#include "ops/op.h" /* last: it switches off the noting of places */

/* ---- inputs: sin(1.3 i + seed), and what is made of it ---- */

typedef enum input_kind {
    NOTHING,
    WAVE,   /* it */
    SHARE,  /* in 0.1..0.9 */
    BIT,    /* 0 or 1 */
    WIDE,   /* times 1.7 */
    ROWS,   /* shares that sum to 1 over dimension 1 */
    LABELS, /* 0 2 3 1 -100 3 2 0 as (2,4) */
    CLASS,  /* weights of four classes */
    BOXES,  /* (n,4) around points */
    SIDES,  /* 1 -1 -1 */
    PLACES, /* 0.3 4.75 5 */
} input_kind;

typedef struct input {
    input_kind kind;
    double seed;
    hod_shape shape;
} input;

static double wave(double seed, int64_t i)
{
    return sin(1.3 * (double)i + seed);
}

static hod_tensor *boxes(double seed, int64_t n)
{
    double v[64];
    for (int64_t i = 0; i < 2 * n; i++) {
        double half = wave(seed + 1, i) * 0.4 + 0.8;
        v[i / 2 * 4 + i % 2] = wave(seed, i) - half;
        v[i / 2 * 4 + i % 2 + 2] = wave(seed, i) + half;
    }
    return hod_from_doubles(v, HOD_SHAPE(n, 4));
}

static hod_tensor *make(const input *in)
{
    double v[64];
    int64_t n = hod__numel(in->shape.n, in->shape.d);
    switch (in->kind) {
    case NOTHING: return NULL;
    case LABELS: return hod_from_ints((int64_t[]){0, 2, 3, 1, -100, 3, 2, 0}, HOD_SHAPE(2, 4));
    case CLASS: return hod_from_doubles((double[]){.5, 1, 2, .25}, HOD_SHAPE(4));
    case BOXES: return boxes(in->seed, in->shape.d[0]);
    case SIDES: return hod_from_ints((int64_t[]){1, -1, -1}, HOD_SHAPE(3));
    case PLACES: return hod_from_doubles((double[]){0.3, 4.75, 5}, HOD_SHAPE(3));
    default: break;
    }
    CHECK(n <= 64);
    for (int64_t i = 0; i < n; i++) {
        double w = wave(in->seed, i);
        v[i] = in->kind == WAVE   ? w
               : in->kind == WIDE ? 1.7 * w
               : in->kind == BIT  ? w > 0
                                  : 0.4 * w + 0.5;
    }
    hod_tensor *t = hod_from_doubles(v, in->shape);
    return in->kind == ROWS ? hod_div(t, hod_sum_keep(t, 1)) : t;
}

/* ---- the losses, each a function of up to three tensors ---- */

#define CASE(name, ...)                                                                            \
    static hod_loss name(hod_tensor *const *in)                                                    \
    {                                                                                              \
        return __VA_ARGS__;                                                                        \
    }
CASE(ce_weighted, hod_cross_entropy(in[0], in[1], .class_weight = in[2]))
CASE(ce_smooth, hod_cross_entropy(in[0], in[1], .class_weight = in[2], .label_smoothing = .1))
CASE(ce_soft, hod_cross_entropy(in[0], in[1], .class_weight = in[2], .label_smoothing = .2))
CASE(nll_weighted, hod_nll(in[0], in[1], .class_weight = in[2]))
CASE(mse, hod_mse(in[0], in[1]))
CASE(l1, hod_l1(in[0], in[1]))
CASE(smooth_l1, hod_smooth_l1(in[0], in[1], .7))
CASE(huber, hod_huber(in[0], in[1], .7))
CASE(kl, hod_kl_div(in[0], in[1], false))
CASE(kl_log, hod_kl_div(in[0], in[1], true))
CASE(bce, hod_bce(in[0], in[1], .weight = in[2]))
CASE(bce_logits, hod_bce_with_logits(in[0], in[1], .weight = in[2], .pos_weight = in[3]))
CASE(focal, hod_focal(in[0], in[1], .25, 1.5))
CASE(dice, hod_dice(in[0], in[1], 1))
CASE(cosine_embedding, hod_cosine_embedding(in[0], in[1], in[2], -.5))
CASE(triplet, hod_triplet_margin(in[0], in[1], in[2]))
CASE(triplet_swap, hod_triplet_margin(in[0], in[1], in[2], .margin = 2.5, .p = 3, .swap = true))
CASE(iou, hod_iou_loss(in[0], in[1], HOD_IOU))
CASE(giou, hod_iou_loss(in[0], in[1], HOD_GIOU))
CASE(diou, hod_iou_loss(in[0], in[1], HOD_DIOU))
CASE(ciou, hod_iou_loss(in[0], in[1], HOD_CIOU))
CASE(dfl, hod_distribution_focal(in[0], in[1]))

static hod_loss cosine(hod_tensor *const *in)
{
    hod_tensor *c = hod_cosine_similarity(in[0], in[1], 1, 1e-8);
    return (hod_loss){hod_sum(c), hod_full(HOD_F64, HOD_SHAPE(), 3)};
}

typedef struct loss_case {
    const char *name;
    hod_loss (*f)(hod_tensor *const *in);
    double sum, weight;
    input in[4];
} loss_case;

/* clang-format off */
#define IN(kind, seed, ...) {kind, seed, {DIMS(__VA_ARGS__), {__VA_ARGS__}}}
#define DIMS(...) (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int))
#define A IN(WAVE, 0, 3, 5)
#define B IN(WIDE, 1, 3, 5)
#define IMAGE IN(WAVE, 0, 2, 4, 4)
/* clang-format on */

static const loss_case cases[] = {
    {"ce_weighted",
     ce_weighted,
     10.71311551545116,
     6.5,
     {IMAGE, IN(LABELS, 0, 0), IN(CLASS, 0, 0)}},
    {"ce_smooth", ce_smooth, 10.647489274945967, 6.5, {IMAGE, IN(LABELS, 0, 0), IN(CLASS, 0, 0)}},
    {"ce_soft", ce_soft, 10.656548619063418, 8, {IMAGE, IN(ROWS, 1, 2, 4, 4), IN(CLASS, 0, 0)}},
    {"nll_weighted",
     nll_weighted,
     0.19129313751599103,
     6.5,
     {IMAGE, IN(LABELS, 0, 0), IN(CLASS, 0, 0)}},
    {"mse", mse, NAN, 15, {A, B}},
    {"l1", l1, 13.864767984424729, 15, {A, B}},
    {"smooth_l1", smooth_l1, 9.223378373085811, 15, {A, B}},
    {"huber", huber, 6.456364861160067, 15, {A, B}},
    {"kl", kl, -2.410140066955019, 3, {A, IN(SHARE, 2, 3, 5)}},
    {"kl_log", kl_log, 22.14722003506307, 3, {A, B}},
    {"bce", bce, 5.151017670608898, 15, {IN(SHARE, 0, 3, 5), IN(SHARE, 1, 3, 5), IN(SHARE, 4, 5)}},
    {"bce_logits",
     bce_logits,
     3.4733202190310166,
     15,
     {A, IN(SHARE, 1, 3, 5), IN(SHARE, 4, 5), IN(SHARE, 5, 5)}},
    {"focal", focal, 4.311189225477829, 15, {A, IN(BIT, 3, 3, 5)}},
    {"dice", dice, 2.0714964368400435, 3, {IN(SHARE, 0, 3, 2, 4), IN(BIT, 3, 3, 2, 4)}},
    {"cosine", cosine, 1.535701620177071, 3, {A, B}},
    {"cosine_embedding", cosine_embedding, 2.519658049676994, 3, {A, B, IN(SIDES, 0, 0)}},
    {"triplet", triplet, 1.8986072217430419, 3, {A, B, IN(WAVE, 2, 3, 5)}},
    {"triplet_swap", triplet_swap, 7.6540449214774835, 3, {A, B, IN(WAVE, 2, 3, 5)}},
    {"iou", iou, 2.6593745035528773, 4, {IN(BOXES, 0, 4), IN(BOXES, .6, 4)}},
    {"giou", giou, 3.015737962342265, 4, {IN(BOXES, 0, 4), IN(BOXES, .6, 4)}},
    {"diou", diou, 2.870926815987734, 4, {IN(BOXES, 0, 4), IN(BOXES, .6, 4)}},
    {"ciou", ciou, 2.872199538419631, 4, {IN(BOXES, 0, 4), IN(BOXES, .6, 4)}},
    {"dfl", dfl, 5.1919429659426966, 3, {IN(WAVE, 0, 3, 6), IN(PLACES, 0, 0)}},
};

static void inputs_of(const loss_case *c, hod_tensor **in)
{
    for (int i = 0; i < 4; i++)
        in[i] = make(&c->in[i]);
}

static hod_tensor *half(hod_tensor *t, hod_dtype type)
{
    return t && hod_tensor_dtype(t) == HOD_F64 ? hod_cast(t, type) : t;
}

TEST(losses_have_pytorchs_values)
{
    for (int k = 0; k < HOD_COUNT(cases); k++) {
        HOD_SCOPE(s);
        const loss_case *c = &cases[k];
        hod_tensor *in[4], *low[4];
        inputs_of(c, in);
        hod_loss exact = c->f(in);
        for (int i = 0; i < 4; i++)
            low[i] = half(in[i], HOD_F32);
        hod_loss single = c->f(low);
        if (!exact.sum || !single.sum)
            FAIL("%s: %s", c->name, hod_error());
        double want = isnan(c->sum) ? hod_item(hod_sum(hod_square(hod_sub(in[0], in[1])))) : c->sum;
        if (!(fabs(hod_item(exact.sum) - want) <= 1e-12 * fabs(want)))
            FAIL("%s: %.17g, not %.17g", c->name, hod_item(exact.sum), want);
        EQ_INT(hod_tensor_dtype(single.sum), HOD_F32);
        if (!(fabs(hod_item(single.sum) - want) <= 1e-6 * HOD_MAX(fabs(want), 1)))
            FAIL("%s in f32: %.9g, not %.9g", c->name, hod_item(single.sum), want);
        NEAR(hod_item(exact.weight), c->weight, 0);
        NEAR(hod_item(single.weight), c->weight, 0);
    }
}

/* f16 inputs are computed in f32, so their loss is that of the same numbers in f32, to the bit. */
TEST(losses_of_halves_are_those_of_f32)
{
    for (int k = 0; k < HOD_COUNT(cases); k++)
        for (int b = 0; b < 2; b++) {
            HOD_SCOPE(s);
            hod_tensor *in[4], *low[4], *up[4];
            inputs_of(&cases[k], in);
            for (int i = 0; i < 4; i++) {
                low[i] = half(in[i], b ? HOD_BF16 : HOD_F16);
                up[i] = low[i] && low[i] != in[i] ? hod_cast(low[i], HOD_F32) : low[i];
            }
            NEAR(hod_item(cases[k].f(low).sum), hod_item(cases[k].f(up).sum), 0);
        }
}

/* ---- derivatives ---- */

static hod_tensor *of_first(void *context, hod_tensor *const *x, int n)
{
    (void)n;
    const loss_case *c = context;
    hod_tensor *in[4];
    inputs_of(c, in);
    in[0] = x[0];
    return c->f(in).sum;
}

TEST(losses_have_derivatives_of_two_orders)
{
    for (int k = 0; k < HOD_COUNT(cases); k++) {
        HOD_SCOPE(s);
        const loss_case *c = &cases[k];
        hod_tensor *x = make(&c->in[0]);
        hod_gradcheck_report r;
        if (c->f == ciou)
            continue; /* a factor is held constant, which differences do not know */
        /* as in test_gradcheck.c: central differences are good to 1e-9 here */
        if (hod_gradcheck(of_first, 1, &x, &r, (void *)c, .rtol = 1e-6, .atol = 1e-7) != 0 ||
            !r.passed)
            FAIL("%s: %g, not %g", c->name, r.analytic, r.numeric);
        if (hod_gradgradcheck(of_first, 1, &x, &r, (void *)c, .rtol = 1e-5, .atol = 1e-6) != 0 ||
            !r.passed)
            FAIL("%s twice: %g, not %g", c->name, r.analytic, r.numeric);
    }
}

/* ---- compiled ---- */

static int step(void *job, hod_tensor *const *in, hod_tensor **out)
{
    const loss_case *c = job;
    hod_loss l = c->f(in);
    out[0] = l.sum;
    out[1] = l.weight;
    return l.sum ? hod_grad_of(l.sum, 1, in, out + 2, HOD_ONES) : -1;
}

/* A third of the cases, beginning with `first`: each is a program to be compiled. */
static void compiled_equals_eager(int first)
{
    for (int k = first; k < HOD_COUNT(cases); k += 3) {
        HOD_SCOPE(s);
        const loss_case *c = &cases[k];
        hod_tensor *in[4], *eager[3], *compiled[3];
        inputs_of(c, in);
        int n = 0;
        for (; n < 4 && in[n]; n++)
            in[n] = half(in[n], HOD_F32);
        in[0] = hod_requires_grad(hod_copy(in[0]), true);
        hod_fn *f = hod_compile(step, (void *)c, .inputs = n, .outputs = 3, .fullgraph = true);
        CHECK(step((void *)c, in, eager) == 0);
        for (int round = 0; round < 2; round++) {
            if (hod_fn_call(f, in, compiled) != 0)
                FAIL("%s: %s", c->name, hod_error());
            double a[64], b[64];
            int64_t m = hod_tensor_numel(in[0]);
            CHECK(m <= 64 && hod_read_doubles(eager[2], a, m) == 0 &&
                  hod_read_doubles(compiled[2], b, m) == 0);
            NEAR(hod_item(compiled[0]), hod_item(eager[0]), 1e-5 * fabs(hod_item(eager[0])));
            NEAR(hod_item(compiled[1]), hod_item(eager[1]), 0);
            for (int64_t i = 0; i < m; i++)
                NEAR(b[i], a[i], 1e-5);
        }
        hod_fn_free(f);
    }
}

TEST(losses_compiled_equal_eager)
{
    compiled_equals_eager(0);
}

TEST(losses_compiled_equal_eager_second_third)
{
    compiled_equals_eager(1);
}

TEST(losses_compiled_equal_eager_last_third)
{
    compiled_equals_eager(2);
}

/* ---- corners ---- */

static void gradient_is(hod_loss l, hod_tensor *x, int64_t n, const double *want, double tol)
{
    double have[16];
    hod_tensor *g;
    CHECK(l.sum && hod_grad_of(l.sum, 1, &x, &g, HOD_ONES) == 0);
    CHECK(n <= 16 && hod_read_doubles(g, have, n) == 0);
    for (int64_t i = 0; i < n; i++)
        NEAR(have[i], want[i], tol);
}

static hod_tensor *leaf(int64_t n, const double *v)
{
    return hod_requires_grad(hod_from_doubles(v, HOD_SHAPE(n)), true);
}

TEST(losses_of_one_row_and_of_nothing)
{
    hod_tensor *x = hod_from_floats((float[]){1, 2, 3}, HOD_SHAPE(3));
    hod_tensor *label = hod_reshape(hod_from_ints((int64_t[]){2}, HOD_SHAPE(1)), HOD_SHAPE());
    hod_tensor *row = hod_cross_entropy_rows(x, label);
    EQ_INT(hod_tensor_ndim(row), 0);
    NEAR(hod_item(row), 0.4076059644443806, 1e-6);
    NEAR(hod_item(hod_cross_entropy(x, label).weight), 1, 0);
    hod_tensor *none = hod_zeros(HOD_F32, HOD_SHAPE(0, 3));
    hod_loss l = hod_cross_entropy(none, hod_zeros(HOD_I64, HOD_SHAPE(0)));
    NEAR(hod_item(l.sum), 0, 0);
    NEAR(hod_item(l.weight), 0, 0);
    l = hod_mse(none, none);
    NEAR(hod_item(l.sum), 0, 0);
    l = hod_iou_loss(hod_zeros(HOD_F32, HOD_SHAPE(0, 4)), hod_zeros(HOD_F32, HOD_SHAPE(0, 4)),
                     HOD_CIOU);
    NEAR(hod_item(l.sum), 0, 0);
}

TEST(losses_slopes_at_kinks)
{
    hod_tensor *zero = hod_from_doubles((double[]){0, 0, 0}, HOD_SHAPE(3));
    hod_tensor *x = leaf(3, (double[]){0, 2, -2});
    gradient_is(hod_l1(x, zero), x, 3, (double[]){0, 1, -1}, 0);
    gradient_is(hod_smooth_l1(x, zero, 0), x, 3, (double[]){0, 1, -1}, 0);
    gradient_is(hod_smooth_l1(x, zero, 2), x, 3, (double[]){0, 1, -1}, 0);
    gradient_is(hod_huber(x, zero, 2), x, 3, (double[]){0, 2, -2}, 0);
    gradient_is(hod_bce_with_logits(x, zero, .pos_weight = zero), x, 3,
                (double[]){0.5, 0.88079707797788244, 0.11920292202211756}, 1e-15);
}

TEST(losses_at_extremes_stay_finite)
{
    hod_tensor *x = leaf(3, (double[]){800, -800, 0});
    hod_tensor *t = hod_from_doubles((double[]){1, 0, 1}, HOD_SHAPE(3));
    gradient_is(hod_focal(x, t, -1, 0.5), x, 3, (double[]){0, 0, -0.4760856585}, 1e-9);
    hod_tensor *p = leaf(4, (double[]){0, 1, 0, 1});
    hod_tensor *q = hod_from_doubles((double[]){0, 1, 1, 0}, HOD_SHAPE(4));
    NEAR(hod_item(hod_bce(p, q).sum), 200, 1e-12);
    gradient_is(hod_bce(p, q), p, 4, (double[]){1, -1, 0, 0}, 0);
    hod_tensor *same = hod_requires_grad(hod_zeros(HOD_F64, HOD_SHAPE(1, 3)), true);
    hod_tensor *c = hod_sum(hod_cosine_similarity(same, same, -1, 1e-8)), *g;
    CHECK(hod_grad_of(c, 1, &same, &g, HOD_ONES) == 0);
    NEAR(hod_item(hod_sum(hod_abs(g))), 0, 0);
}

/* Boxes that touch, that are empty, that are one: (iou, giou, diou, ciou). */
TEST(losses_boxes_at_their_edges)
{
    const double a[] = {0, 0, 2, 2}, touching[] = {2, 0, 4, 2}, point[] = {1, 1, 1, 1};
    const double want[3][4] = {{1, 1, 1, 1}, {0, 0, -0.2, -0.2}, {0, 0, 0, NAN}};
    const double *other[] = {a, touching, point};
    for (int i = 0; i < 3; i++)
        for (hod_iou_kind kind = HOD_IOU; kind <= HOD_CIOU; kind++) {
            hod_tensor *x = hod_requires_grad(hod_from_doubles(a, HOD_SHAPE(1, 4)), true);
            hod_tensor *y = hod_box_iou(x, hod_from_doubles(other[i], HOD_SHAPE(1, 4)), kind), *g;
            if (!isnan(want[i][kind]))
                NEAR(hod_item(y), want[i][kind], 1e-6);
            CHECK(hod_grad_of(hod_sum(y), 1, &x, &g, HOD_ONES) == 0);
            CHECK(isfinite(hod_item(hod_sum(g))));
        }
    for (double side = 1; side > 1e-9; side /= 10) { /* a box of any size is itself */
        hod_tensor *x = hod_from_doubles((double[]){0, 0, side, side}, HOD_SHAPE(4));
        for (hod_iou_kind kind = HOD_IOU; kind <= HOD_CIOU; kind++)
            NEAR(hod_item(hod_box_iou(x, x, kind)), 1, 1e-12);
    }
    hod_tensor *all = hod_box_iou(hod_zeros(HOD_F32, HOD_SHAPE(3, 1, 4)),
                                  hod_zeros(HOD_F32, HOD_SHAPE(5, 4)), HOD_CIOU);
    EQ_INT(hod_tensor_numel(all), 15);
    NEAR(hod_item(hod_sum(all)), 0, 0);
}

TEST(losses_refuse_in_words)
{
    hod_tensor *x = hod_zeros(HOD_F32, HOD_SHAPE(2, 3)), *y = hod_zeros(HOD_F32, HOD_SHAPE(2));
    hod_tensor *label = hod_zeros(HOD_I64, HOD_SHAPE(2));
    ERROR_IS("cross_entropy: targets are f32, wanted i64 labels or floats like (2,3)",
             hod_cross_entropy(x, y).sum);
    ERROR_IS("cross_entropy: class weights (2) for 3 classes",
             hod_cross_entropy(x, label, .class_weight = y).sum);
    ERROR_IS("cross_entropy: label smoothing 2, wanted 0 to 1",
             hod_cross_entropy(x, label, .label_smoothing = 2).sum);
    ERROR_IS("nll: targets of f32; cross_entropy takes distributions", hod_nll(x, x).sum);
    ERROR_IS("distribution_focal: place 3 of row 1 is outside 0..2",
             hod_distribution_focal(x, hod_from_floats((float[]){2, 3}, HOD_SHAPE(2))).sum);
    ERROR_IS("l1: (2,3) with targets (2)", hod_l1(x, y).sum);
    ERROR_IS("huber: delta 0, must be positive", hod_huber(x, x, 0).sum);
    ERROR_IS("bce: 2 at element 0 is no probability", hod_bce(hod_add_scalar(x, 2), x).sum);
    hod_tensor *p = hod_from_doubles((double[]){0, 1, -0.5}, HOD_SHAPE(3));
    ERROR_IS("bce: -0.5 at element 2 is no probability", hod_bce(hod_cast(p, HOD_F64), p).sum);
    ERROR_IS("bce: pos_weight is for logits; bce_with_logits has it",
             hod_bce(x, x, .pos_weight = y).sum);
    ERROR_IS("bce_with_logits: (2,2,3) with targets (2,3)",
             hod_bce_with_logits(x, x, .weight = hod_zeros(HOD_F32, HOD_SHAPE(2, 2, 3))).sum);
    ERROR_IS("box_iou: (2,3) are no boxes (...,4)", hod_box_iou(x, x, HOD_IOU));
    ERROR_IS("triplet_margin: (2,3) with margin -1, p 2, eps 1e-06",
             hod_triplet_margin(x, x, x, .margin = -1).sum);
    /* a weight that failed is not an absent one */
    ERROR_IS("add: (2,3) with (2): sizes differ and neither is 1",
             hod_cross_entropy(x, label, .class_weight = hod_add(x, y)).sum);
}
