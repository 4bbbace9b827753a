/* Images and lines in other sizes: pooling of lines, pooling to a given size, interpolation,
 * sampling at given places. Pooling of images is in functional.h.
 *
 *     hod_tensor *line = hod_max_pool1d(x, 3, .stride = 2, .padding = 1);   // x (N,C,L)
 *     hod_tensor *y = hod_adaptive_avg_pool2d(features, 7, 7);              // (N,C,7,7)
 *
 * Included by functional.h, whose remarks hold here. All are compositions.
 */
#ifndef HOD_IMAGES_H
#define HOD_IMAGES_H

#include <hod/ops.h>

typedef struct hod_pool1d_options {
    int64_t kernel, stride, padding, dilation; /* stride 0: kernel; dilation 0: 1 */
    bool ceil_mode;   /* a last window that begins inside may end beyond the padding */
    bool exclude_pad; /* average: divide by the elements inside the line only */
    int64_t divisor;  /* average: divide by this; 0: by the window's elements */
    int end_;
} hod_pool1d_options;
HOD_API hod_tensor *hod_max_pool1d_with(hod_tensor *x, hod_pool1d_options o); /* x (N,C,L) */
HOD_API hod_tensor *hod_avg_pool1d_with(hod_tensor *x, hod_pool1d_options o);
/* hod_max_pool1d(x, 2), hod_max_pool1d(x, 3, .stride = 2, .padding = 1) */
#define hod_max_pool1d(x, ...) hod_max_pool1d_with(x, (hod_pool1d_options){__VA_ARGS__, .end_ = 0})
#define hod_avg_pool1d(x, ...) hod_avg_pool1d_with(x, (hod_pool1d_options){__VA_ARGS__, .end_ = 0})

/* To a given size: window o of a side of `size` elements is [floor(o size / out),
 * ceil((o + 1) size / out)). The maximum's gradient goes to the first greatest of a window. */
HOD_API hod_tensor *hod_adaptive_avg_pool1d(hod_tensor *x, int64_t length);
HOD_API hod_tensor *hod_adaptive_avg_pool2d(hod_tensor *x, int64_t height, int64_t width);
HOD_API hod_tensor *hod_adaptive_max_pool1d(hod_tensor *x, int64_t length);
HOD_API hod_tensor *hod_adaptive_max_pool2d(hod_tensor *x, int64_t height, int64_t width);

/* ---- interpolation ---- */
typedef enum hod_interpolation {
    HOD_NEAREST,       /* the element that the new one begins in */
    HOD_NEAREST_EXACT, /* the element that its middle lies in */
    HOD_LINEAR         /* between two elements along each side: bilinear for images */
} hod_interpolation;

typedef struct hod_interpolate_options {
    hod_interpolation mode;
    int64_t size[2];    /* {height, width}, or {length} */
    double scale[2];    /* instead: new over old size. {2}: both ways */
    bool align_corners; /* linear: outermost elements stay in place */
    int end_;
} hod_interpolate_options;
HOD_API hod_tensor *hod_interpolate_with(hod_tensor *x, hod_interpolate_options o);
/* hod_interpolate(x, .size = {64, 64}), hod_interpolate(x, .scale = {2}, .mode = HOD_LINEAR);
 * x (N,C,L) or (N,C,H,W) */
#define hod_interpolate(x, ...)                                                                    \
    hod_interpolate_with(x, (hod_interpolate_options){__VA_ARGS__, .end_ = 0})

/* ---- sampling ---- */
typedef enum hod_sample_padding {
    HOD_SAMPLE_ZEROS,     /* 0 outside the image */
    HOD_SAMPLE_BORDER,    /* the nearest element inside */
    HOD_SAMPLE_REFLECTION /* the image mirrored at its edge */
} hod_sample_padding;

/* Not hod_interpolation, whose 0 is nearest: as in PyTorch, sampling is linear unless asked. */
typedef enum hod_sample_mode {
    HOD_SAMPLE_LINEAR, /* between the four elements around the place */
    HOD_SAMPLE_NEAREST /* the element that it lies in */
} hod_sample_mode;

typedef struct hod_grid_sample_options {
    hod_sample_mode mode;
    hod_sample_padding padding;
    bool align_corners; /* -1 and 1 are the middles of outermost elements, not their edges */
    int end_;
} hod_grid_sample_options;
/* x (N,C,H,W) at grid (N,Ho,Wo,2), pairs of x and y from -1 to 1 across the image: (N,C,Ho,Wo). */
HOD_API hod_tensor *hod_grid_sample_with(hod_tensor *x, hod_tensor *grid,
                                         hod_grid_sample_options o);
/* hod_grid_sample(x, grid), hod_grid_sample(x, grid, .padding = HOD_SAMPLE_BORDER) */
#define hod_grid_sample(x, ...) HOD_GRID_SAMPLE_(x, __VA_ARGS__, .end_ = 0)
#define HOD_GRID_SAMPLE_(x, grid, ...)                                                             \
    hod_grid_sample_with(x, grid, (hod_grid_sample_options){__VA_ARGS__})

typedef struct hod_roi_align_options {
    int64_t size[2]; /* {height, width} of the result: bins */
    double scale;    /* elements of x per unit of the boxes; 0: 1 */
    int64_t sampling; /* samples of a bin along each side; 0: as many as elements */
    bool aligned; /* coordinates count from the edge of the first element, not its middle */
    int end_;
} hod_roi_align_options;
/* x (N,C,H,W) in boxes (K,5), rows of image, x1, y1, x2, y2: (K,C,height,width), in the type that
 * both promote to. An error for an image that there is not. Boxes that want a gradient are read on
 * the host: a graph break. */
HOD_API hod_tensor *hod_roi_align_with(hod_tensor *x, hod_tensor *boxes, hod_roi_align_options o);
/* hod_roi_align(x, boxes, .size = {7, 7}, .scale = 1.0 / 16, .sampling = 2, .aligned = true) */
#define hod_roi_align(x, boxes, ...)                                                               \
    hod_roi_align_with(x, boxes, (hod_roi_align_options){__VA_ARGS__, .end_ = 0})

#ifndef HOD_NO_PLACES
#define hod_max_pool1d_with(...)     HOD_OPERATOR(tensor, max_pool1d_with, __VA_ARGS__)
#define hod_avg_pool1d_with(...)     HOD_OPERATOR(tensor, avg_pool1d_with, __VA_ARGS__)
#define hod_adaptive_avg_pool1d(...) HOD_OPERATOR(tensor, adaptive_avg_pool1d, __VA_ARGS__)
#define hod_adaptive_avg_pool2d(...) HOD_OPERATOR(tensor, adaptive_avg_pool2d, __VA_ARGS__)
#define hod_adaptive_max_pool1d(...) HOD_OPERATOR(tensor, adaptive_max_pool1d, __VA_ARGS__)
#define hod_adaptive_max_pool2d(...) HOD_OPERATOR(tensor, adaptive_max_pool2d, __VA_ARGS__)
#define hod_interpolate_with(...)    HOD_OPERATOR(tensor, interpolate_with, __VA_ARGS__)
#define hod_grid_sample_with(...)    HOD_OPERATOR(tensor, grid_sample_with, __VA_ARGS__)
#define hod_roi_align_with(...)      HOD_OPERATOR(tensor, roi_align_with, __VA_ARGS__)
#endif

#endif
