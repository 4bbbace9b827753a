/* Softmax and normalisations, and both ways through them: rows of numbers as attention and language
 * models have, sequences, images. */
#include "bench/ops/family.h"

/* Leaves: x (N,N), s a sequence (B,T,D) with w, b (D), i images (N,C,H,W) with v, c (C), t a table
 * (N,C) with v, c, too; mean, var (C). `fixed` are the same without gradients. */
typedef struct values {
    hod_tensor *x, *s, *w, *b, *i, *v, *c, *t;
} values;

typedef struct operands {
    values leaf, fixed;
    hod_tensor *mean, *var;
    int64_t groups;
} operands;

static hod_tensor *leaf_of(hod_tensor *t)
{
    return hod_requires_grad(hod_copy(t), true);
}

static int make(int size, operands *o)
{
    int64_t side = (int64_t[]){32, 256, 2048}[size];
    hod_shape s =
        (hod_shape[]){HOD_SHAPE(4, 16, 64), HOD_SHAPE(8, 128, 768), HOD_SHAPE(16, 256, 1024)}[size];
    hod_shape i = (hod_shape[]){HOD_SHAPE(4, 8, 8, 8), HOD_SHAPE(16, 64, 32, 32),
                                HOD_SHAPE(16, 128, 56, 56)}[size];
    hod_shape d = HOD_SHAPE(s.d[2]), c = HOD_SHAPE(i.d[1]);
    values f = {.x = op_uniform(HOD_SHAPE(side, side), -3, 3),
                .s = op_uniform(s, -1, 2),
                .w = op_uniform(d, .5, 1.5),
                .b = op_uniform(d, -1, 1),
                .i = op_uniform(i, -1, 2),
                .v = op_uniform(c, .5, 1.5),
                .c = op_uniform(c, -1, 1),
                .t = op_uniform(HOD_SHAPE(2 * side, c.d[0]), -1, 2)};
    *o = (operands){.fixed = f, .mean = op_uniform(c, 0, 1), .var = op_uniform(c, .5, 1)};
    o->groups = (int64_t[]){4, 32, 32}[size];
    o->leaf = (values){leaf_of(f.x), leaf_of(f.s), leaf_of(f.w), leaf_of(f.b),
                       leaf_of(f.i), leaf_of(f.v), leaf_of(f.c), leaf_of(f.t)};
    return o->leaf.t && o->mean && o->var ? 0 : -1;
}

#define LIST(...) ((hod_tensor *[]){__VA_ARGS__})
/* The function of values p, and its gradients for those named behind. */
#define BOTH(ROW, name, function, n, ...)                                                          \
    ROW(name, function(&o->fixed))                                                                 \
    ROW(name##_grad, op_gradients(function(&o->leaf), n, LIST(__VA_ARGS__)))

#define softmax(p)          hod_softmax((p)->x, 1)
#define softmax_columns(p)  hod_softmax((p)->x, 0)
#define log_softmax(p)      hod_log_softmax((p)->x, 1)
#define logsumexp(p)        hod_logsumexp((p)->x, 1, false)
#define layer_norm(p)       hod_layer_norm((p)->s, (p)->w, (p)->b, 1e-5)
#define layer_norm_plain(p) hod_layer_norm_plain((p)->s, 1, 1e-5)
#define rms_norm(p)         hod_rms_norm((p)->s, (p)->w, 1e-6)
#define group_norm(p)       hod_group_norm((p)->i, o->groups, (p)->v, (p)->c, 1e-5)
#define instance_norm(p)    hod_instance_norm((p)->i, (p)->v, (p)->c, 1e-5)
#define batch_norm(p)       hod_batch_norm((p)->i, o->mean, o->var, (p)->v, (p)->c, 1e-5)
#define batch_norm_train(p) hod_batch_norm_train((p)->i, (p)->v, (p)->c, 1e-5)
#define batch_norm_table(p) hod_batch_norm_train((p)->t, (p)->v, (p)->c, 1e-5)

#define OPS(ROW)                                                                                   \
    BOTH(ROW, softmax, softmax, 1, o->leaf.x)                                                      \
    BOTH(ROW, softmax_columns, softmax_columns, 1, o->leaf.x)                                      \
    BOTH(ROW, log_softmax, log_softmax, 1, o->leaf.x)                                              \
    BOTH(ROW, logsumexp, logsumexp, 1, o->leaf.x)                                                  \
    BOTH(ROW, layer_norm, layer_norm, 3, o->leaf.s, o->leaf.w, o->leaf.b)                          \
    BOTH(ROW, layer_norm_plain, layer_norm_plain, 1, o->leaf.s)                                    \
    BOTH(ROW, rms_norm, rms_norm, 2, o->leaf.s, o->leaf.w)                                         \
    BOTH(ROW, group_norm, group_norm, 3, o->leaf.i, o->leaf.v, o->leaf.c)                          \
    BOTH(ROW, instance_norm, instance_norm, 3, o->leaf.i, o->leaf.v, o->leaf.c)                    \
    BOTH(ROW, batch_norm, batch_norm, 3, o->leaf.i, o->leaf.v, o->leaf.c)                          \
    BOTH(ROW, batch_norm_train, batch_norm_train, 3, o->leaf.i, o->leaf.v, o->leaf.c)              \
    BOTH(ROW, batch_norm_table, batch_norm_table, 3, o->leaf.t, o->leaf.v, o->leaf.c)

OP_FAMILY(norms, OPS, "32^2 4x16x64 4x8x8^2", "256^2 8x128x768 16x64x32^2",
          "2048^2 16x256x1024 16x128x56^2")
