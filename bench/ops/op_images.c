/* Pooling, interpolation and sampling of images (N,C,H,W) and lines (N,C,L), f32: forward, and both
 * ways (<name>_grad). */
#include "bench/ops/family.h"

/* Images x, lines l, their leaves, and a grid (N,H,W,2) that leaves the image a little. */
typedef struct operands {
    hod_tensor *x, *l, *grid, *leaf_x, *leaf_l, *both[2];
    int64_t h, length;
} operands;

static int make(int size, operands *o)
{
    int64_t n = (int64_t[]){1, 4, 16}[size], c = (int64_t[]){8, 32, 64}[size];
    int64_t h = (int64_t[]){14, 28, 56}[size], length = (int64_t[]){128, 1024, 4096}[size];
    *o = (operands){.h = h, .length = length};
    o->x = op_uniform(HOD_SHAPE(n, c, h, h), -1, 1);
    o->l = op_uniform(HOD_SHAPE(n, c, length), -1, 1);
    o->grid = op_uniform(HOD_SHAPE(n, h, h, 2), -1.1, 1.1);
    o->leaf_x = hod_requires_grad(hod_copy(o->x), true);
    o->leaf_l = hod_requires_grad(hod_copy(o->l), true);
    o->both[0] = o->leaf_x;
    o->both[1] = hod_requires_grad(hod_copy(o->grid), true);
    return o->leaf_l && o->both[0] && o->both[1] ? 0 : -1;
}

#define TWICE(x, ...) hod_interpolate(x, .scale = {2}, __VA_ARGS__)
#define IMAGE(ROW, name, ...)                                                                      \
    ROW(name, FORWARD(x, __VA_ARGS__)) ROW(name##_grad, BACKWARD(x, __VA_ARGS__))
#define FORWARD(x, f, ...)  f(o->x, __VA_ARGS__)
#define BACKWARD(x, f, ...) op_gradients(f(o->leaf_##x, __VA_ARGS__), 1, &o->leaf_##x)
#define LINE(ROW, name, ...)                                                                       \
    ROW(name, FORWARD(l, __VA_ARGS__)) ROW(name##_grad, BACKWARD(l, __VA_ARGS__))
#define OPS(ROW)                                                                                   \
    IMAGE(ROW, max_pool2d, hod_max_pool2d, 2)                                                      \
    IMAGE(ROW, max_pool2d_overlapping, hod_max_pool2d, 3, .stride = 2, .padding = 1)               \
    IMAGE(ROW, max_pool2d_same, hod_max_pool2d, 5, .stride = 1, .padding = 2)                      \
    IMAGE(ROW, avg_pool2d, hod_avg_pool2d, 2)                                                      \
    IMAGE(ROW, avg_pool2d_overlapping, hod_avg_pool2d, 3, .stride = 2, .padding = 1)               \
    IMAGE(ROW, adaptive_avg_pool2d_1, hod_adaptive_avg_pool2d, 1, 1)                               \
    IMAGE(ROW, adaptive_avg_pool2d_7, hod_adaptive_avg_pool2d, 7, 7)                               \
    IMAGE(ROW, adaptive_avg_pool2d_5, hod_adaptive_avg_pool2d, 5, 5)                               \
    IMAGE(ROW, adaptive_max_pool2d_7, hod_adaptive_max_pool2d, 7, 7)                               \
    IMAGE(ROW, adaptive_max_pool2d_5, hod_adaptive_max_pool2d, 5, 5)                               \
    LINE(ROW, max_pool1d, hod_max_pool1d, 3, .stride = 2, .padding = 1)                            \
    LINE(ROW, avg_pool1d, hod_avg_pool1d, 2)                                                       \
    LINE(ROW, adaptive_avg_pool1d, hod_adaptive_avg_pool1d, 10)                                    \
    LINE(ROW, adaptive_max_pool1d, hod_adaptive_max_pool1d, 10)                                    \
    IMAGE(ROW, interpolate_nearest, TWICE, .mode = HOD_NEAREST)                                    \
    IMAGE(ROW, interpolate_bilinear, TWICE, .mode = HOD_LINEAR)                                    \
    IMAGE(ROW, interpolate_corners, TWICE, .mode = HOD_LINEAR, .align_corners = true)              \
    IMAGE(ROW, interpolate_half, hod_interpolate, .size = {o->h / 2, o->h / 2},                    \
          .mode = HOD_LINEAR)                                                                      \
    LINE(ROW, interpolate_linear, TWICE, .mode = HOD_LINEAR)                                       \
    IMAGE(ROW, grid_sample_nearest, hod_grid_sample, o->grid, .mode = HOD_SAMPLE_NEAREST)          \
    IMAGE(ROW, grid_sample, hod_grid_sample, o->grid, .align_corners = false)                      \
    IMAGE(ROW, grid_sample_border, hod_grid_sample, o->grid, .padding = HOD_SAMPLE_BORDER)         \
    ROW(grid_sample_both_grad, op_gradients(hod_grid_sample(o->both[0], o->both[1]), 2, o->both))

OP_FAMILY(images, OPS, "1,8,14,14", "4,32,28,28", "16,64,56,56")
