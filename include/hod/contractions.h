/* Contractions beside matmul, linear and conv2d of functional.h: sums of products by a formula,
 * products of vectors, convolution of lines, transposed convolution.
 *
 *     hod_tensor *scores = hod_einsum("bqhd,bkhd->bhqk", q, k);
 *     hod_tensor *y = hod_conv1d(x, w, .padding = 1);           // x: (N,C,L), w: (O,C,K)
 *     hod_tensor *big = hod_conv_transpose2d(x, w, .stride = 2); // x: (N,I,H,W), w: (I,O,Kh,Kw)
 *
 * Included by functional.h, whose remarks hold here.
 */
#ifndef HOD_CONTRACTIONS_H
#define HOD_CONTRACTIONS_H

#include <hod/ops.h>

/* ---- by formula ----
 * hod_einsum("bij,bjk->bik", a, b): each input's dimensions get a letter (A-Z, a-z); sizes of one
 * letter are equal or 1, which repeats. What the result does not name is summed; a letter twice in
 * one input is its diagonal; "..." are the dimensions that have no letter, aligned at the last.
 * Without "->" the result has those of "...", then the letters that occur once, by the alphabet
 * (capitals first). Inputs are multiplied from the left, so put small ones there. Integers are
 * multiplied as f32. Up to 64 inputs. */
HOD_API hod_tensor *hod_einsum_of(const char *equation, int n, hod_tensor *const *x);
#define hod_einsum(equation, ...)                                                                  \
    hod_einsum_of(equation, (int)(sizeof((hod_tensor *[]){__VA_ARGS__}) / sizeof(hod_tensor *)),   \
                  (hod_tensor *[]){__VA_ARGS__})
HOD_API hod_tensor *hod_outer(hod_tensor *a, hod_tensor *b); /* a (M), b (N): (M,N) */
/* beta c + alpha a b, whatever matmul takes; c broadcasts to a b and is not read when beta is 0. */
HOD_API hod_tensor *hod_addmm(hod_tensor *c, hod_tensor *a, hod_tensor *b, double beta,
                              double alpha);
/* Distances of rows: x (...,M,K), y (...,N,K): (...,M,N), norms (hod_norm) of differences. All
 * M N K differences are made, since squares multiplied out would cancel where rows are close. */
HOD_API hod_tensor *hod_cdist(hod_tensor *x, hod_tensor *y, double p);
/* x1 (...,I), w (O,I,J), x2 (...,J), b (O): y[..., o] = x1 w[o] x2 + b[o]. */
HOD_API hod_tensor *hod_bilinear(hod_tensor *x1, hod_tensor *x2, hod_tensor *w, hod_tensor *b);
HOD_API hod_tensor *hod_bilinear_nobias(hod_tensor *x1, hod_tensor *x2, hod_tensor *w);

/* ---- lines: (N,C,L) ---- */
typedef struct hod_conv1d_options {
    int64_t stride, padding, dilation, groups; /* 0: stride 1, no padding, dilation 1, 1 group */
    int64_t padding_lr[2];                     /* left, right, where they differ */
    bool same;                                 /* as hod_conv2d_options has it */
    hod_tensor *bias;                          /* likewise */
    int end_;
} hod_conv1d_options;
HOD_API hod_tensor *hod_conv1d_with(hod_tensor *x, hod_tensor *w, hod_conv1d_options o);
/* hod_conv1d(x, w), hod_conv1d(x, w, .stride = 2); w: (O, C/groups, K) */
#define hod_conv1d(x, ...)     HOD_CONV1D_(x, __VA_ARGS__, .end_ = 0)
#define HOD_CONV1D_(x, w, ...) hod_conv1d_with(x, w, (hod_conv1d_options){__VA_ARGS__})

/* ---- transposed: the map whose gradient is the convolution with the same options ----
 * A dimension of n elements becomes
 *     (n - 1) stride - padding before and behind + dilation (K - 1) + 1 + output_padding,
 * output_padding being less than the stride or the dilation. w: (C, O/groups, Kh, Kw). */
typedef struct hod_conv_transpose2d_options {
    int64_t stride, padding, dilation, groups; /* 0: stride 1, no padding, dilation 1, 1 group */
    int64_t output_padding;                    /* elements more, behind */
    int64_t stride_hw[2], dilation_hw[2], output_padding_hw[2]; /* where they differ */
    int64_t padding_tlbr[4];
    hod_tensor *bias; /* (O), added; NULL: none */
    int end_;
} hod_conv_transpose2d_options;
HOD_API hod_tensor *hod_conv_transpose2d_with(hod_tensor *x, hod_tensor *w,
                                              hod_conv_transpose2d_options o);
#define hod_conv_transpose2d(x, ...) HOD_CONV_TRANSPOSE2D_(x, __VA_ARGS__, .end_ = 0)
#define HOD_CONV_TRANSPOSE2D_(x, w, ...)                                                           \
    hod_conv_transpose2d_with(x, w, (hod_conv_transpose2d_options){__VA_ARGS__})

typedef struct hod_conv_transpose1d_options {
    int64_t stride, padding, dilation, groups, output_padding;
    int64_t padding_lr[2];
    hod_tensor *bias;
    int end_;
} hod_conv_transpose1d_options;
HOD_API hod_tensor *hod_conv_transpose1d_with(hod_tensor *x, hod_tensor *w,
                                              hod_conv_transpose1d_options o);
#define hod_conv_transpose1d(x, ...) HOD_CONV_TRANSPOSE1D_(x, __VA_ARGS__, .end_ = 0)
#define HOD_CONV_TRANSPOSE1D_(x, w, ...)                                                           \
    hod_conv_transpose1d_with(x, w, (hod_conv_transpose1d_options){__VA_ARGS__})

#ifndef HOD_NO_PLACES
#define hod_einsum_of(...) HOD_OPERATOR(tensor, einsum_of, __VA_ARGS__)
#define hod_addmm(...) HOD_OPERATOR(tensor, addmm, __VA_ARGS__)
#define hod_cdist(...) HOD_OPERATOR(tensor, cdist, __VA_ARGS__)
#define hod_outer(...) HOD_OPERATOR(tensor, outer, __VA_ARGS__)
#define hod_bilinear(...) HOD_OPERATOR(tensor, bilinear, __VA_ARGS__)
#define hod_bilinear_nobias(...) HOD_OPERATOR(tensor, bilinear_nobias, __VA_ARGS__)
#define hod_conv1d_with(...) HOD_OPERATOR(tensor, conv1d_with, __VA_ARGS__)
#define hod_conv_transpose2d_with(...) HOD_OPERATOR(tensor, conv_transpose2d_with, __VA_ARGS__)
#define hod_conv_transpose1d_with(...) HOD_OPERATOR(tensor, conv_transpose1d_with, __VA_ARGS__)
#endif

#endif
