/* Convolutions over plain images and lines, as networks have them; with gradients for input,
 * weights and bias. */
#include "bench/ops/family.h"

/* c channels of side x side in n images, or of `line` elements; 2 c come out. l...: leaves. */
typedef struct operands {
    hod_tensor *x, *line, *b;
    hod_tensor *w3, *w1, *grouped, *depth, *w5, *up, *up_line;
    hod_tensor *lx, *lline, *lb, *lw3, *lw1, *lgrouped, *ldepth, *lw5, *lup, *lup_line;
    hod_tensor *picture, *stem, *lstem; /* three channels, a 7x7 window */
} operands;

static hod_tensor *leaf(hod_tensor *t)
{
    return hod_requires_grad(hod_copy(t), true);
}

static int make(int size, operands *o)
{
    int64_t n = (int64_t[]){2, 8, 16}[size], c = (int64_t[]){16, 64, 128}[size];
    int64_t side = (int64_t[]){16, 28, 28}[size], l = (int64_t[]){64, 512, 1024}[size];
    int64_t y = 2 * c, pixels = (int64_t[]){32, 64, 224}[size];
    *o = (operands){.x = op_uniform(HOD_SHAPE(n, c, side, side), -1, 1),
                    .line = op_uniform(HOD_SHAPE(n, c, l), -1, 1),
                    .b = op_uniform(HOD_SHAPE(y), -1, 1),
                    .w3 = op_uniform(HOD_SHAPE(y, c, 3, 3), -1, 1),
                    .w1 = op_uniform(HOD_SHAPE(y, c, 1, 1), -1, 1),
                    .grouped = op_uniform(HOD_SHAPE(y, c / 8, 3, 3), -1, 1),
                    .depth = op_uniform(HOD_SHAPE(c, 1, 3, 3), -1, 1),
                    .w5 = op_uniform(HOD_SHAPE(y, c, 5), -1, 1),
                    .up = op_uniform(HOD_SHAPE(c, y, 2, 2), -1, 1),
                    .up_line = op_uniform(HOD_SHAPE(c, y, 4), -1, 1),
                    .picture = op_uniform(HOD_SHAPE(n, 3, pixels, pixels), -1, 1),
                    .stem = op_uniform(HOD_SHAPE(64, 3, 7, 7), -1, 1)};
    o->lx = leaf(o->x);
    o->lline = leaf(o->line);
    o->lb = leaf(o->b);
    o->lw3 = leaf(o->w3);
    o->lw1 = leaf(o->w1);
    o->lgrouped = leaf(o->grouped);
    o->ldepth = leaf(o->depth);
    o->lw5 = leaf(o->w5);
    o->lup = leaf(o->up);
    o->lup_line = leaf(o->up_line);
    o->lstem = leaf(o->stem);
    return o->lstem && hod_error_kind_pending() == HOD_ERROR_NONE ? 0 : -1;
}

#define GRAD(y, ...)                                                                               \
    op_gradients(y, (int)(sizeof(hod_tensor *[]){__VA_ARGS__} / sizeof(hod_tensor *)),             \
                 (hod_tensor *[]){__VA_ARGS__})

#define OPS(ROW)                                                                                   \
    ROW(conv3x3, hod_conv2d(o->x, o->w3, .padding = 1))                                            \
    ROW(conv3x3_bias, hod_add_channels(hod_conv2d(o->x, o->w3, .padding = 1), o->b))               \
    ROW(conv3x3_grad, GRAD(hod_conv2d(o->lx, o->lw3, .padding = 1), o->lx, o->lw3))                \
    ROW(conv3x3_bias_grad, GRAD(hod_add_channels(hod_conv2d(o->lx, o->lw3, .padding = 1), o->lb),  \
                                o->lx, o->lw3, o->lb))                                             \
    ROW(conv_strided, hod_conv2d(o->x, o->w3, .padding = 1, .stride = 2))                          \
    ROW(conv_strided_grad,                                                                         \
        GRAD(hod_conv2d(o->lx, o->lw3, .padding = 1, .stride = 2), o->lx, o->lw3))                 \
    ROW(conv_dilated, hod_conv2d(o->x, o->w3, .padding = 2, .dilation = 2))                        \
    ROW(conv_dilated_grad,                                                                         \
        GRAD(hod_conv2d(o->lx, o->lw3, .padding = 2, .dilation = 2), o->lx, o->lw3))               \
    ROW(conv1x1, hod_conv2d(o->x, o->w1))                                                          \
    ROW(conv1x1_grad, GRAD(hod_conv2d(o->lx, o->lw1), o->lx, o->lw1))                              \
    ROW(conv1x1_strided, hod_conv2d(o->x, o->w1, .stride = 2))                                     \
    ROW(conv1x1_strided_grad, GRAD(hod_conv2d(o->lx, o->lw1, .stride = 2), o->lx, o->lw1))         \
    ROW(conv_grouped, hod_conv2d(o->x, o->grouped, .padding = 1, .groups = 8))                     \
    ROW(conv_grouped_grad,                                                                         \
        GRAD(hod_conv2d(o->lx, o->lgrouped, .padding = 1, .groups = 8), o->lx, o->lgrouped))       \
    ROW(conv_depthwise,                                                                            \
        hod_conv2d(o->x, o->depth, .padding = 1, .groups = hod_tensor_size(o->depth, 0)))          \
    ROW(conv_depthwise_grad,                                                                       \
        GRAD(hod_conv2d(o->lx, o->ldepth, .padding = 1, .groups = hod_tensor_size(o->depth, 0)),   \
             o->lx, o->ldepth))                                                                    \
    ROW(conv_stem, hod_conv2d(o->picture, o->stem, .padding = 3, .stride = 2))                     \
    ROW(conv_stem_grad,                                                                            \
        GRAD(hod_conv2d(o->picture, o->lstem, .padding = 3, .stride = 2), o->lstem))               \
    ROW(conv1d, hod_conv1d(o->line, o->w5, .padding = 2))                                          \
    ROW(conv1d_grad, GRAD(hod_conv1d(o->lline, o->lw5, .padding = 2), o->lline, o->lw5))           \
    ROW(conv_transpose2d, hod_conv_transpose2d(o->x, o->up, .stride = 2))                          \
    ROW(conv_transpose2d_grad,                                                                     \
        GRAD(hod_conv_transpose2d(o->lx, o->lup, .stride = 2), o->lx, o->lup))                     \
    ROW(conv_transpose1d, hod_conv_transpose1d(o->line, o->up_line, .stride = 2, .padding = 1))    \
    ROW(conv_transpose1d_grad,                                                                     \
        GRAD(hod_conv_transpose1d(o->lline, o->lup_line, .stride = 2, .padding = 1), o->lline,     \
             o->lup_line))

OP_FAMILY(convolutions, OPS, "2x16x16x16", "8x64x28x28", "16x128x28x28")
