/* Losses, their means, and both ways through them: of classes, of elements, of rows. */
#include "bench/ops/family.h"

/* x logits (N,C) and images m (N,C,H,W), with labels; a, b elements in (0.1, 0.9), p, q rows.
 * `leaf` has those that gradients are asked for. */
typedef struct values {
    hod_tensor *x, *m, *a, *p;
} values;

typedef struct operands {
    values leaf, fixed;
    hod_tensor *label, *labels, *weight, *b, *q, *sign, *columns;
} operands;

static hod_tensor *leaf_of(hod_tensor *t)
{
    return hod_requires_grad(hod_copy(t), true);
}

static hod_tensor *labels_of(hod_shape shape, int64_t classes)
{
    return hod_cast(op_uniform(shape, 0, (double)classes - 1), HOD_I64);
}

static int make(int size, operands *o)
{
    int64_t n = (int64_t[]){32, 512, 2048}[size], c = (int64_t[]){10, 1000, 4096}[size];
    hod_shape m = (hod_shape[]){HOD_SHAPE(2, 8, 16, 16), HOD_SHAPE(4, 21, 64, 64),
                                HOD_SHAPE(8, 21, 256, 256)}[size];
    int64_t side = (int64_t[]){32, 256, 2048}[size];
    hod_shape square = HOD_SHAPE(side, side);
    values f = {.x = op_uniform(HOD_SHAPE(n, c), -3, 3),
                .m = op_uniform(m, -3, 3),
                .a = op_uniform(square, .1, .9),
                .p = op_uniform(square, -1, 1)};
    *o = (operands){.fixed = f,
                    .label = labels_of(HOD_SHAPE(n), c),
                    .labels = labels_of(HOD_SHAPE(m.d[0], m.d[2], m.d[3]), m.d[1]),
                    .weight = op_uniform(HOD_SHAPE(c), .5, 1.5),
                    .b = op_uniform(square, .1, .9),
                    .q = op_uniform(square, -1, 1),
                    .columns = op_uniform(HOD_SHAPE(side), .5, 1.5)};
    o->sign = hod_sign(op_uniform(HOD_SHAPE(side), -1, 1));
    o->leaf = (values){leaf_of(f.x), leaf_of(f.m), leaf_of(f.a), leaf_of(f.p)};
    return o->leaf.p && o->labels && o->label && o->weight && o->sign && o->columns ? 0 : -1;
}

/* The loss of values v, and its gradient for one of them. */
#define BOTH(ROW, name, of)                                                                        \
    ROW(name, name(&o->fixed))                                                                     \
    ROW(name##_grad, op_gradients(name(&o->leaf), 1, (hod_tensor *[]){o->leaf.of}))

#define cross_entropy(v) hod_loss_mean(hod_cross_entropy((v)->x, o->label))
#define cross_entropy_weighted(v)                                                                  \
    hod_loss_mean(hod_cross_entropy((v)->x, o->label, .class_weight = o->weight))
#define cross_entropy_smooth(v)                                                                    \
    hod_loss_mean(hod_cross_entropy((v)->x, o->label, .label_smoothing = 0.1))
#define cross_entropy_images(v) hod_loss_mean(hod_cross_entropy((v)->m, o->labels))
#define nll(v)                  hod_loss_mean(hod_nll((v)->x, o->label))
#define mse(v)                  hod_loss_mean(hod_mse((v)->a, o->b))
#define mse_each(v)             hod_mse_each((v)->a, o->b)
#define l1(v)                   hod_loss_mean(hod_l1((v)->a, o->b))
#define smooth_l1(v)            hod_loss_mean(hod_smooth_l1((v)->a, o->b, 0.25))
#define huber(v)                hod_loss_mean(hod_huber((v)->a, o->b, 0.25))
#define kl_div(v)               hod_loss_mean(hod_kl_div((v)->p, o->b, false))
#define kl_div_log(v)           hod_loss_mean(hod_kl_div((v)->p, o->q, true))
#define bce(v)                  hod_loss_mean(hod_bce((v)->a, o->b))
#define bce_with_logits(v)      hod_loss_mean(hod_bce_with_logits((v)->p, o->b))
#define bce_with_logits_each(v) hod_bce_with_logits_each((v)->p, o->b)
#define bce_with_logits_weighted(v)                                                                \
    hod_loss_mean(hod_bce_with_logits((v)->p, o->b, .pos_weight = o->columns))
#define cosine_embedding(v) hod_loss_mean(hod_cosine_embedding((v)->p, o->q, o->sign, 0.1))
#define triplet_margin(v)   hod_loss_mean(hod_triplet_margin((v)->p, o->q, o->b))

#define OPS(ROW)                                                                                   \
    BOTH(ROW, cross_entropy, x)                                                                    \
    BOTH(ROW, cross_entropy_weighted, x)                                                           \
    BOTH(ROW, cross_entropy_smooth, x)                                                             \
    BOTH(ROW, cross_entropy_images, m)                                                             \
    BOTH(ROW, nll, x)                                                                              \
    BOTH(ROW, mse, a)                                                                              \
    BOTH(ROW, mse_each, a)                                                                         \
    BOTH(ROW, l1, a)                                                                               \
    BOTH(ROW, smooth_l1, a)                                                                        \
    BOTH(ROW, huber, a)                                                                            \
    BOTH(ROW, kl_div, p)                                                                           \
    BOTH(ROW, kl_div_log, p)                                                                       \
    BOTH(ROW, bce, a)                                                                              \
    BOTH(ROW, bce_with_logits, p)                                                                  \
    BOTH(ROW, bce_with_logits_each, p)                                                             \
    BOTH(ROW, bce_with_logits_weighted, p)                                                         \
    BOTH(ROW, cosine_embedding, p)                                                                 \
    BOTH(ROW, triplet_margin, p)

OP_FAMILY(losses, OPS, "32x10 2x8x16^2 32^2", "512x1000 4x21x64^2 256^2",
          "2048x4096 8x21x256^2 2048^2")
