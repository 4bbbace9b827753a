/* Movement: elements in other places, without a change of their values.
 *
 *     hod_tensor *parts[3];
 *     if (hod_chunk(qkv, -1, 3, parts) == 0)                    // (N,3D) -> three (N,D)
 *         y = hod_scatter_add(sum, 0, index, parts[2]);
 *     hod_tensor *wide = hod_pad_around(x, HOD_SHAPE(0, 0, 1, 1), HOD_SHAPE(0, 0, 1, 1),
 *                                       HOD_PAD_REFLECT, 0);    // x: (N,C,H,W)
 *
 * Views (narrow, split, squeeze, movedim, expand; see functional.h for the others) share storage
 * and versions with x. Strides are never negative: flip and slices that step backwards copy.
 * Dimensions may count from the end. Indices are i64, i32 or u8 and never negative; one out of
 * range is an error before anything is read.
 */
#ifndef HOD_MOVEMENT_H
#define HOD_MOVEMENT_H

#include <hod/functional.h>

/* ---- views ---- */
HOD_API hod_tensor *hod_narrow(hod_tensor *x, int dim, int64_t start, int64_t length);
HOD_API hod_tensor *hod_squeeze_all(hod_tensor *x); /* drops every dimension of size 1 */
HOD_API hod_tensor *hod_movedim(hod_tensor *x, int from, int to); /* the others keep their order */
HOD_API hod_tensor *hod_expand_as(hod_tensor *x, hod_tensor *like);
HOD_API hod_tensor *hod_unflatten(hod_tensor *x, int dim, hod_shape sizes); /* one may be -1 */
/* Consecutive parts of the given sizes, which add up to x's, into parts[n]. 0 or -1. */
HOD_API int hod_split(hod_tensor *x, int dim, int n, const int64_t *sizes, hod_tensor **parts);
/* n parts of ceil(size / n) elements, the last ones smaller, or empty. 0 or -1. */
HOD_API int hod_chunk(hod_tensor *x, int dim, int n, hod_tensor **parts);

/* ---- in another order, or several times ---- */
HOD_API hod_tensor *hod_flip_over(hod_tensor *x, hod_shape dims);
#define hod_flip(x, ...) hod_flip_over(x, HOD_SHAPE(__VA_ARGS__)) /* hod_flip(x, -1) */
/* Shifted towards greater indices; what leaves at the end comes in at the beginning. */
HOD_API hod_tensor *hod_roll(hod_tensor *x, int64_t shift, int dim);
/* The whole of x, times[i] times along dimension i; more numbers than dimensions lead. */
HOD_API hod_tensor *hod_repeat_to(hod_tensor *x, hod_shape times);
#define hod_repeat(x, ...) hod_repeat_to(x, HOD_SHAPE(__VA_ARGS__)) /* hod_repeat(x, 2, 1) */
HOD_API hod_tensor *hod_tile(hod_tensor *x,
                             hod_shape times); /* as repeat; missing ones lead as 1 */
HOD_API hod_tensor *hod_repeat_interleave(hod_tensor *x, int64_t times, int dim); /* each element */
/* Every window of `size` elements, `step` apart: (..., L, ...) -> (..., W, ..., size). A view:
 * windows that overlap share elements, so nothing is written into it in place. */
HOD_API hod_tensor *hod_windows(hod_tensor *x, int dim, int64_t size, int64_t step);

/* ---- parts of matrices: over the last two dimensions ---- */
/* Zeros above (tril) or below (triu) the given diagonal; 0: the main one, 1: the one above it. */
HOD_API hod_tensor *hod_tril(hod_tensor *x, int64_t diagonal);
HOD_API hod_tensor *hod_triu(hod_tensor *x, int64_t diagonal);

/* ---- around the edges ---- */
typedef enum hod_pad_mode {
    HOD_PAD_CONSTANT,  /* value */
    HOD_PAD_REFLECT,   /* 3 2 [1 2 3 4] 3 2: at most size - 1 elements */
    HOD_PAD_REPLICATE, /* 1 1 [1 2 3 4] 4 4 */
    HOD_PAD_CIRCULAR,  /* 3 4 [1 2 3 4] 1 2: at most size elements */
    HOD_PAD_MODES
} hod_pad_mode;
/* Elements before and after each dimension, one number for each; negative numbers cut off. */
HOD_API hod_tensor *hod_pad_around(hod_tensor *x, hod_shape before, hod_shape after,
                                   hod_pad_mode mode, double value);

/* ---- windows of images: (N,C,H,W) <-> (N,C*Kh*Kw,L), L windows row by row ---- */
typedef struct hod_unfold2d_options {
    int64_t kernel, stride, padding, dilation;          /* stride and dilation 0: 1 */
    int64_t kernel_hw[2], stride_hw[2], dilation_hw[2]; /* {vertical, horizontal} */
    int64_t padding_tlbr[4];
    int end_;
} hod_unfold2d_options;
HOD_API hod_tensor *hod_unfold2d_with(hod_tensor *x, hod_unfold2d_options o);
/* The sum of the windows at their places, in an image of height h and width w. */
HOD_API hod_tensor *hod_fold2d_with(hod_tensor *x, int64_t h, int64_t w, hod_unfold2d_options o);
#define hod_unfold2d(x, ...) hod_unfold2d_with(x, (hod_unfold2d_options){__VA_ARGS__, .end_ = 0})
#define hod_fold2d(x, h, w, ...)                                                                   \
    hod_fold2d_with(x, h, w, (hod_unfold2d_options){__VA_ARGS__, .end_ = 0})

/* ---- by index and by mask ---- */
/* x with src's elements written at index along dim. src has at least index's sizes, and x too but
 * along dim. Where an index comes twice the last one stays, and it alone has a gradient. */
HOD_API hod_tensor *hod_scatter(hod_tensor *x, int dim, hod_tensor *index, hod_tensor *src);
HOD_API hod_tensor *hod_scatter_value(hod_tensor *x, int dim, hod_tensor *index, double value);
/* x with src's elements added there, in the order of the index. */
HOD_API hod_tensor *hod_scatter_add(hod_tensor *x, int dim, hod_tensor *index, hod_tensor *src);
/* gather, with x and the index broadcast against each other in the other dimensions. */
HOD_API hod_tensor *hod_take_along(hod_tensor *x, hod_tensor *index, int dim);
/* i64 (..., classes): 1 at the index, 0 elsewhere. -1: as many as the greatest index wants, which
 * is read on the host. */
HOD_API hod_tensor *hod_one_hot(hod_tensor *index, int64_t classes);
/* value where the mask is not 0; the mask broadcasts to x. */
HOD_API hod_tensor *hod_masked_fill(hod_tensor *x, hod_tensor *mask, double value);

#ifndef HOD_NO_PLACES
#define hod_narrow(...) HOD_OPERATOR(tensor, narrow, __VA_ARGS__)
#define hod_squeeze_all(...) HOD_OPERATOR(tensor, squeeze_all, __VA_ARGS__)
#define hod_movedim(...) HOD_OPERATOR(tensor, movedim, __VA_ARGS__)
#define hod_expand_as(...) HOD_OPERATOR(tensor, expand_as, __VA_ARGS__)
#define hod_unflatten(...) HOD_OPERATOR(tensor, unflatten, __VA_ARGS__)
#define hod_split(...) HOD_OPERATOR(int, split, __VA_ARGS__)
#define hod_chunk(...) HOD_OPERATOR(int, chunk, __VA_ARGS__)
#define hod_flip_over(...) HOD_OPERATOR(tensor, flip_over, __VA_ARGS__)
#define hod_roll(...) HOD_OPERATOR(tensor, roll, __VA_ARGS__)
#define hod_repeat_to(...) HOD_OPERATOR(tensor, repeat_to, __VA_ARGS__)
#define hod_tile(...) HOD_OPERATOR(tensor, tile, __VA_ARGS__)
#define hod_repeat_interleave(...) HOD_OPERATOR(tensor, repeat_interleave, __VA_ARGS__)
#define hod_windows(...) HOD_OPERATOR(tensor, windows, __VA_ARGS__)
#define hod_tril(...) HOD_OPERATOR(tensor, tril, __VA_ARGS__)
#define hod_triu(...) HOD_OPERATOR(tensor, triu, __VA_ARGS__)
#define hod_pad_around(...) HOD_OPERATOR(tensor, pad_around, __VA_ARGS__)
#define hod_unfold2d_with(...) HOD_OPERATOR(tensor, unfold2d_with, __VA_ARGS__)
#define hod_fold2d_with(...) HOD_OPERATOR(tensor, fold2d_with, __VA_ARGS__)
#define hod_scatter(...) HOD_OPERATOR(tensor, scatter, __VA_ARGS__)
#define hod_scatter_value(...) HOD_OPERATOR(tensor, scatter_value, __VA_ARGS__)
#define hod_scatter_add(...) HOD_OPERATOR(tensor, scatter_add, __VA_ARGS__)
#define hod_take_along(...) HOD_OPERATOR(tensor, take_along, __VA_ARGS__)
#define hod_one_hot(...) HOD_OPERATOR(tensor, one_hot, __VA_ARGS__)
#define hod_masked_fill(...) HOD_OPERATOR(tensor, masked_fill, __VA_ARGS__)
#endif

#endif
