/* Library primitives: convolution and matrix product, prepared once, run many times.
 *
 * Both the eager operators and compiled programs come here, so that they run the same code and
 * agree. A convolution is prepared for one geometry (JIT compilation, choice of weight format:
 * 0.1 to 0.5 ms), and cached by whoever asked; running it sets addresses and calls. It allocates
 * nothing of its own: everything it needs lives in `scratch`, which the caller takes from an arena.
 *
 *     hod_dnn *p = hod__dnn_conv(HOD_CONV_FORWARD, &geometry, HOD_LAYOUT_PLAIN,
 *                                HOD_LAYOUT_BLOCKED);
 *     void *scratch = d->alloc(d, hod__dnn_scratch(p));
 *     hod__dnn_run_conv(p, x, w, y, 0.0f, scratch);
 *
 * Images are plain (N,C,H,W) row-major, or blocked: (N, C/b, H, W, b) row-major with
 * b = hod__dnn_block(), which is what the CPU's vectors like and 1.2 to 2 times faster. A side may
 * be blocked only when its channels are a multiple of b. Weights are plain (Co, Ci/groups, Kh, Kw)
 * outside; they are reordered into the library's own format in scratch.
 */
#ifndef HOD_DEVICE_DNN_H
#define HOD_DEVICE_DNN_H

#include <hod/tensor.h>

/* A prepared primitive. Immutable but for the addresses of a run, which a lock guards, so any
 * thread may run it; two runs of one primitive follow each other. */
typedef struct hod_dnn hod_dnn;

typedef enum hod_layout {
    HOD_LAYOUT_PLAIN,   /* row-major (N,C,H,W) */
    HOD_LAYOUT_BLOCKED, /* row-major (N,C/b,H,W,b) */
} hod_layout;

typedef enum hod_dnn_conv_kind {
    HOD_CONV_FORWARD,         /* a = x, b = w, out = y  */
    HOD_CONV_INPUT_GRADIENT,  /* a = dy, b = w, out = dx */
    HOD_CONV_WEIGHT_GRADIENT, /* a = x, b = dy, out = dw */
} hod_dnn_conv_kind;

/* x: (n, ci, h, w), weights: (co, ci/groups, kh, kw), y: (n, co, ho, wo) with
 * ho = (h + padding[0] + padding[2] - dilation[0] * (kh - 1) - 1) / stride[0] + 1. No padding bytes
 * inside, so a geometry can be hashed and compared as memory. */
typedef struct hod_conv_geometry {
    int64_t n, ci, h, w;
    int64_t co, kh, kw;
    int64_t stride[2];   /* 1: dense */
    int64_t padding[4];  /* top, left, bottom, right */
    int64_t dilation[2]; /* 1: none */
    int64_t groups;      /* 1: dense; ci and co: depthwise */
    int64_t dtype;       /* hod_dtype: HOD_F32 or HOD_BF16 */
} hod_conv_geometry;

/* Channels in a block: 16 with AVX-512, else 8. */
int hod__dnn_block(void);

/* True when a side with this many channels (of one group,
 * for grouped convolutions) may be blocked. */
bool hod__dnn_can_block(int64_t channels);

/* Spatial size of the output; -1 when the window does not fit or a field is out of range. */
int64_t hod__conv_out_h(const hod_conv_geometry *g);
int64_t hod__conv_out_w(const hod_conv_geometry *g);

/* Prepares a convolution; `image` is the layout of the ci side, `out` of the co side. NULL with an
 * error when the geometry is impossible or memory is gone. Freed with hod__dnn_free. */
hod_dnn *hod__dnn_conv(hod_dnn_conv_kind kind, const hod_conv_geometry *g, hod_layout image,
                       hod_layout out);
void hod__dnn_free(hod_dnn *p); /* NULL is allowed */

/* Bytes of scratch that a run needs, 64-byte aligned; may be 0 (then scratch may be NULL). */
int64_t hod__dnn_scratch(const hod_dnn *p);

/* Runs: out = result + beta * out. beta is 0, or 1 for the weight gradient. 0 or -1. Nothing in
 * here allocates from the device. */
int hod__dnn_run_conv(const hod_dnn *p, const void *a, const void *b, void *out, float beta,
                      void *scratch);

/* Copies an image of n x c x h x w elements between layouts (the edges of a blocked graph). */
int hod__dnn_reorder(hod_dtype dtype, int64_t n, int64_t c, int64_t h, int64_t w, hod_layout from,
                     const void *in, hod_layout to, void *out);

/* ---- matrix product, f32, row-major ----
 * C[i] = A[i] B[i] + beta C[i] for i in [0, batch); A: (m, k), B: (k, n), C: (m, n). With
 * transpose_a set, A is stored as (k, m) with rows lda apart; likewise B as (n, k). A batch stride
 * of 0 repeats the operand. k = 0 gives beta C. */
typedef struct hod_matmul_geometry {
    int64_t batch, m, n, k;
    int64_t lda, ldb, ldc;             /* elements between stored rows */
    int64_t batch_a, batch_b, batch_c; /* elements between matrices */
    int64_t transpose_a, transpose_b;  /* 0 or 1 */
} hod_matmul_geometry;

/* 0 or -1. Allocates nothing from the device; small products run in the caller's thread. */
int hod__dnn_matmul(const hod_matmul_geometry *g, const float *a, const float *b, float *c,
                    float beta);

#endif
