/* Functions of tensors that are more than one row of the operator table: shapes, products,
 * convolution, normalisation. Losses are in losses.h.
 *
 *     hod_tensor *h = hod_relu(hod_linear(x, w1, b1));                 // x: (N,I), w1: (H,I)
 *     hod_tensor *y = hod_dropout(hod_layer_norm(h, gain, bias, 1e-5), 0.1);
 *
 * Most are compositions of operators, so they have derivatives of every order and are compiled
 * like anything else. Results belong to the innermost scope; NULL in, NULL out. Dimensions may
 * count from the end (-1: the last). No parameter may be NULL to mean "absent".
 */
#ifndef HOD_FUNCTIONAL_H
#define HOD_FUNCTIONAL_H

#include <hod/contractions.h>
#include <hod/elementwise.h>
#include <hod/images.h>
#include <hod/losses.h>
#include <hod/ops.h>
#include <hod/reductions.h>

/* ---- values from nothing ---- */
HOD_API hod_tensor *hod_full(hod_dtype dtype, hod_shape shape, double value);
HOD_API hod_tensor *hod_arange(hod_dtype dtype, int64_t n); /* 0, 1, ... n-1 */
HOD_API hod_tensor *hod_iota(hod_dtype dtype, hod_shape shape, int dim); /* index in dim */
HOD_API hod_tensor *hod_full_like(hod_tensor *x, double value); /* dtype and shape of x */
/* Draws from [0, 1), f32, by the thread's random key (random.h). shape[0] must be a multiple of the
 * number of sample indices: the rows of a sample follow each other. */
HOD_API hod_tensor *hod_uniform(hod_shape shape);

/* ---- with a number ---- the number takes x's dtype; fractions make an integer x f32 ---- */
HOD_API hod_tensor *hod_add_scalar(hod_tensor *x, double s);
HOD_API hod_tensor *hod_sub_scalar(hod_tensor *x, double s);
HOD_API hod_tensor *hod_mul_scalar(hod_tensor *x, double s);
HOD_API hod_tensor *hod_div_scalar(hod_tensor *x, double s);
HOD_API hod_tensor *hod_pow_scalar(hod_tensor *x, double s);
HOD_API hod_tensor *hod_maximum_scalar(hod_tensor *x, double s);
HOD_API hod_tensor *hod_minimum_scalar(hod_tensor *x, double s);
HOD_API hod_tensor *hod_eq_scalar(hod_tensor *x, double s);
HOD_API hod_tensor *hod_ne_scalar(hod_tensor *x, double s);
HOD_API hod_tensor *hod_lt_scalar(hod_tensor *x, double s);
HOD_API hod_tensor *hod_le_scalar(hod_tensor *x, double s);
HOD_API hod_tensor *hod_gt_scalar(hod_tensor *x, double s);
HOD_API hod_tensor *hod_ge_scalar(hod_tensor *x, double s);
HOD_API hod_tensor *hod_square(hod_tensor *x);

/* ---- types and shapes ---- */
HOD_API hod_tensor *hod_cast(hod_tensor *x, hod_dtype dtype);
HOD_API hod_tensor *hod_contiguous(hod_tensor *x); /* x itself when it is row-major already */
HOD_API hod_tensor *hod_copy(hod_tensor *x);       /* always a new, row-major tensor */
/* A view where the strides allow, else of a copy. One size may be -1: whatever is left. */
HOD_API hod_tensor *hod_reshape(hod_tensor *x, hod_shape shape);
HOD_API hod_tensor *hod_flatten(hod_tensor *x, int from); /* dims from.. become one */
HOD_API hod_tensor *hod_squeeze(hod_tensor *x, int dim);   /* drops a dimension of size 1 */
HOD_API hod_tensor *hod_unsqueeze(hod_tensor *x, int dim); /* size 1 before dim; ndim: at the end */
HOD_API hod_tensor *hod_transpose(hod_tensor *x, int a, int b);
HOD_API hod_tensor *hod_permute_to(hod_tensor *x, hod_shape order);
#define hod_permute(x, ...) hod_permute_to(x, HOD_SHAPE(__VA_ARGS__)) /* (x, 0, 2, 1) */
HOD_API hod_tensor *hod_expand(hod_tensor *x, hod_shape shape); /* -1: as in x */
/* Elements start, start + 1, ... below stop; both may count from the end and are clamped. */
HOD_API hod_tensor *hod_slice(hod_tensor *x, int dim, int64_t start, int64_t stop);
/* With a negative step: from start down, above stop; a stop below -size: to the beginning. A copy,
 * as strides are never negative. */
HOD_API hod_tensor *hod_slice_step(hod_tensor *x, int dim, int64_t start, int64_t stop,
                                   int64_t step);
HOD_API hod_tensor *hod_select(hod_tensor *x, int dim, int64_t index); /* drops dim */
/* Of several types: in the one their sum would have. */
HOD_API hod_tensor *hod_concat(int n, hod_tensor *const *x, int dim);
HOD_API hod_tensor *hod_stack(int n, hod_tensor *const *x, int dim); /* along a new dim */
HOD_API hod_tensor *hod_pad(hod_tensor *x, int dim, int64_t before, int64_t after, double value);

/* ---- indexing; an index out of range is an error ---- */
HOD_API hod_tensor *hod_gather(hod_tensor *x, int dim, hod_tensor *index); /* shape: index's */
HOD_API hod_tensor *hod_index_select(hod_tensor *x, int dim, hod_tensor *index); /* index: (K) */
HOD_API hod_tensor *hod_embedding(hod_tensor *w, hod_tensor *index); /* index.shape + w.shape[1:] */

/* ---- softmax ---- */
HOD_API hod_tensor *hod_softmax(hod_tensor *x, int dim); /* of -inf only: 0 */
HOD_API hod_tensor *hod_log_softmax(hod_tensor *x, int dim);

/* ---- products ---- */
/* (M,K) x (K,N); more dimensions are batches and broadcast; 1-d operands as in NumPy. */
HOD_API hod_tensor *hod_matmul(hod_tensor *a, hod_tensor *b);
/* x wᵀ + b over x's last dimension: x (...,I), w (O,I), b (O). */
HOD_API hod_tensor *hod_linear(hod_tensor *x, hod_tensor *w, hod_tensor *b);
HOD_API hod_tensor *hod_linear_nobias(hod_tensor *x, hod_tensor *w);

/* ---- images: (N,C,H,W) ---- */
typedef struct hod_conv2d_options {
    int64_t stride, padding, dilation; /* both ways; 0: stride 1, no padding, dilation 1 */
    int64_t groups;                    /* 0: 1 */
    int64_t stride_hw[2], dilation_hw[2]; /* {vertical, horizontal}, where they differ */
    int64_t padding_tlbr[4];              /* top, left, bottom, right, where they differ */
    bool same; /* padded so that stride 1 keeps the size; an odd element goes behind */
    hod_tensor *bias; /* (O), added; NULL: none, or with an error pending no result either */
    int end_;
} hod_conv2d_options;
HOD_API hod_tensor *hod_conv2d_with(hod_tensor *x, hod_tensor *w, hod_conv2d_options o);
/* hod_conv2d(x, w), hod_conv2d(x, w, .stride = 2, .padding = 1); w: (O, C/groups, Kh, Kw) */
#define hod_conv2d(x, ...) HOD_CONV2D_(x, __VA_ARGS__, .end_ = 0)
#define HOD_CONV2D_(x, w, ...) hod_conv2d_with(x, w, (hod_conv2d_options){__VA_ARGS__})
HOD_API hod_tensor *hod_add_channels(hod_tensor *x, hod_tensor *b); /* x (N,C,...) + b (C) */

typedef struct hod_pool2d_options {
    int64_t kernel, stride, padding, dilation; /* stride 0: kernel; dilation 0: 1 */
    int64_t kernel_hw[2], stride_hw[2];        /* {vertical, horizontal}, where they differ */
    int64_t padding_tlbr[4];
    bool exclude_pad; /* average: divide by the elements inside the image only */
    int64_t dilation_hw[2];
    bool ceil_mode;  /* a last window that begins inside may end beyond the padding */
    int64_t divisor; /* average: divide by this; 0: by the window's elements */
    int end_;
} hod_pool2d_options;
HOD_API hod_tensor *hod_max_pool2d_with(hod_tensor *x, hod_pool2d_options o);
HOD_API hod_tensor *hod_avg_pool2d_with(hod_tensor *x, hod_pool2d_options o);
/* hod_max_pool2d(x, 2), hod_max_pool2d(x, 3, .stride = 2, .padding = 1) */
#define hod_max_pool2d(x, ...)                                                                     \
    hod_max_pool2d_with(x, (hod_pool2d_options){__VA_ARGS__, .end_ = 0})
#define hod_avg_pool2d(x, ...)                                                                     \
    hod_avg_pool2d_with(x, (hod_pool2d_options){__VA_ARGS__, .end_ = 0})
HOD_API hod_tensor *hod_global_avg_pool2d(hod_tensor *x); /* (N,C,1,1) */

/* ---- normalisation, regularisation ---- */
/* `_plain` has no weight and bias. Halves are computed in f32. eps is added below the root. */
/* Over the trailing dimensions that w has; w and b have their shape. _plain: over the last dims. */
HOD_API hod_tensor *hod_layer_norm(hod_tensor *x, hod_tensor *w, hod_tensor *b, double eps);
HOD_API hod_tensor *hod_layer_norm_plain(hod_tensor *x, int dims, double eps);
/* x / sqrt(mean(x²) + eps) * w, over the same dimensions. */
HOD_API hod_tensor *hod_rms_norm(hod_tensor *x, hod_tensor *w, double eps);
HOD_API hod_tensor *hod_rms_norm_plain(hod_tensor *x, int dims, double eps);
/* x (N,C,...), w and b (C); statistics of each sample and group of channels. */
HOD_API hod_tensor *hod_group_norm(hod_tensor *x, int64_t groups, hod_tensor *w, hod_tensor *b,
                                   double eps);
HOD_API hod_tensor *hod_group_norm_plain(hod_tensor *x, int64_t groups, double eps);
/* x (N,C,L...), w and b (C); statistics of each sample and channel, of two values or more. */
HOD_API hod_tensor *hod_instance_norm(hod_tensor *x, hod_tensor *w, hod_tensor *b, double eps);
HOD_API hod_tensor *hod_instance_norm_plain(hod_tensor *x, double eps);
/* x (N,C,...); mean, var, w, b (C): (x - mean) / sqrt(var + eps) * w + b. */
HOD_API hod_tensor *hod_batch_norm(hod_tensor *x, hod_tensor *mean, hod_tensor *var, hod_tensor *w,
                                   hod_tensor *b, double eps);
HOD_API hod_tensor *hod_batch_norm_plain(hod_tensor *x, hod_tensor *mean, hod_tensor *var,
                                         double eps);
/* The same with mean and variance of this batch, two values a channel or more; running statistics
 * are hod_nn_batch_norm2d's. */
HOD_API hod_tensor *hod_batch_norm_train(hod_tensor *x, hod_tensor *w, hod_tensor *b, double eps);
HOD_API hod_tensor *hod_batch_norm_train_plain(hod_tensor *x, double eps);
/* Zeroes elements with probability p, drawn as random.h says, scales the others by 1 / (1 - p). */
HOD_API hod_tensor *hod_dropout(hod_tensor *x, double p);

#ifndef HOD_NO_PLACES
#define hod_full(...) HOD_OPERATOR(tensor, full, __VA_ARGS__)
#define hod_arange(...) HOD_OPERATOR(tensor, arange, __VA_ARGS__)
#define hod_iota(...) HOD_OPERATOR(tensor, iota, __VA_ARGS__)
#define hod_full_like(...) HOD_OPERATOR(tensor, full_like, __VA_ARGS__)
#define hod_uniform(...) HOD_OPERATOR(tensor, uniform, __VA_ARGS__)
#define hod_add_scalar(...) HOD_OPERATOR(tensor, add_scalar, __VA_ARGS__)
#define hod_sub_scalar(...) HOD_OPERATOR(tensor, sub_scalar, __VA_ARGS__)
#define hod_mul_scalar(...) HOD_OPERATOR(tensor, mul_scalar, __VA_ARGS__)
#define hod_div_scalar(...) HOD_OPERATOR(tensor, div_scalar, __VA_ARGS__)
#define hod_pow_scalar(...) HOD_OPERATOR(tensor, pow_scalar, __VA_ARGS__)
#define hod_maximum_scalar(...) HOD_OPERATOR(tensor, maximum_scalar, __VA_ARGS__)
#define hod_minimum_scalar(...) HOD_OPERATOR(tensor, minimum_scalar, __VA_ARGS__)
#define hod_eq_scalar(...) HOD_OPERATOR(tensor, eq_scalar, __VA_ARGS__)
#define hod_ne_scalar(...) HOD_OPERATOR(tensor, ne_scalar, __VA_ARGS__)
#define hod_lt_scalar(...) HOD_OPERATOR(tensor, lt_scalar, __VA_ARGS__)
#define hod_le_scalar(...) HOD_OPERATOR(tensor, le_scalar, __VA_ARGS__)
#define hod_gt_scalar(...) HOD_OPERATOR(tensor, gt_scalar, __VA_ARGS__)
#define hod_ge_scalar(...) HOD_OPERATOR(tensor, ge_scalar, __VA_ARGS__)
#define hod_square(...) HOD_OPERATOR(tensor, square, __VA_ARGS__)
#define hod_cast(...) HOD_OPERATOR(tensor, cast, __VA_ARGS__)
#define hod_contiguous(...) HOD_OPERATOR(tensor, contiguous, __VA_ARGS__)
#define hod_copy(...) HOD_OPERATOR(tensor, copy, __VA_ARGS__)
#define hod_reshape(...) HOD_OPERATOR(tensor, reshape, __VA_ARGS__)
#define hod_flatten(...) HOD_OPERATOR(tensor, flatten, __VA_ARGS__)
#define hod_squeeze(...) HOD_OPERATOR(tensor, squeeze, __VA_ARGS__)
#define hod_unsqueeze(...) HOD_OPERATOR(tensor, unsqueeze, __VA_ARGS__)
#define hod_transpose(...) HOD_OPERATOR(tensor, transpose, __VA_ARGS__)
#define hod_permute_to(...) HOD_OPERATOR(tensor, permute_to, __VA_ARGS__)
#define hod_expand(...) HOD_OPERATOR(tensor, expand, __VA_ARGS__)
#define hod_slice(...) HOD_OPERATOR(tensor, slice, __VA_ARGS__)
#define hod_slice_step(...) HOD_OPERATOR(tensor, slice_step, __VA_ARGS__)
#define hod_select(...) HOD_OPERATOR(tensor, select, __VA_ARGS__)
#define hod_concat(...) HOD_OPERATOR(tensor, concat, __VA_ARGS__)
#define hod_stack(...) HOD_OPERATOR(tensor, stack, __VA_ARGS__)
#define hod_pad(...) HOD_OPERATOR(tensor, pad, __VA_ARGS__)
#define hod_gather(...) HOD_OPERATOR(tensor, gather, __VA_ARGS__)
#define hod_index_select(...) HOD_OPERATOR(tensor, index_select, __VA_ARGS__)
#define hod_embedding(...) HOD_OPERATOR(tensor, embedding, __VA_ARGS__)
#define hod_softmax(...) HOD_OPERATOR(tensor, softmax, __VA_ARGS__)
#define hod_log_softmax(...) HOD_OPERATOR(tensor, log_softmax, __VA_ARGS__)
#define hod_matmul(...) HOD_OPERATOR(tensor, matmul, __VA_ARGS__)
#define hod_linear(...) HOD_OPERATOR(tensor, linear, __VA_ARGS__)
#define hod_linear_nobias(...) HOD_OPERATOR(tensor, linear_nobias, __VA_ARGS__)
#define hod_conv2d_with(...) HOD_OPERATOR(tensor, conv2d_with, __VA_ARGS__)
#define hod_add_channels(...) HOD_OPERATOR(tensor, add_channels, __VA_ARGS__)
#define hod_max_pool2d_with(...) HOD_OPERATOR(tensor, max_pool2d_with, __VA_ARGS__)
#define hod_avg_pool2d_with(...) HOD_OPERATOR(tensor, avg_pool2d_with, __VA_ARGS__)
#define hod_global_avg_pool2d(...) HOD_OPERATOR(tensor, global_avg_pool2d, __VA_ARGS__)
#define hod_layer_norm(...) HOD_OPERATOR(tensor, layer_norm, __VA_ARGS__)
#define hod_group_norm(...) HOD_OPERATOR(tensor, group_norm, __VA_ARGS__)
#define hod_batch_norm(...) HOD_OPERATOR(tensor, batch_norm, __VA_ARGS__)
#define hod_layer_norm_plain(...) HOD_OPERATOR(tensor, layer_norm_plain, __VA_ARGS__)
#define hod_rms_norm(...) HOD_OPERATOR(tensor, rms_norm, __VA_ARGS__)
#define hod_rms_norm_plain(...) HOD_OPERATOR(tensor, rms_norm_plain, __VA_ARGS__)
#define hod_group_norm_plain(...) HOD_OPERATOR(tensor, group_norm_plain, __VA_ARGS__)
#define hod_instance_norm(...) HOD_OPERATOR(tensor, instance_norm, __VA_ARGS__)
#define hod_instance_norm_plain(...) HOD_OPERATOR(tensor, instance_norm_plain, __VA_ARGS__)
#define hod_batch_norm_plain(...) HOD_OPERATOR(tensor, batch_norm_plain, __VA_ARGS__)
#define hod_batch_norm_train(...) HOD_OPERATOR(tensor, batch_norm_train, __VA_ARGS__)
#define hod_batch_norm_train_plain(...) HOD_OPERATOR(tensor, batch_norm_train_plain, __VA_ARGS__)
#define hod_dropout(...) HOD_OPERATOR(tensor, dropout, __VA_ARGS__)
#endif

#endif
