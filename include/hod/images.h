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

#ifndef HOD_NO_PLACES
#define hod_max_pool1d_with(...) (hod_here(__FILE__, __LINE__), hod_max_pool1d_with(__VA_ARGS__))
#define hod_avg_pool1d_with(...) (hod_here(__FILE__, __LINE__), hod_avg_pool1d_with(__VA_ARGS__))
#define hod_adaptive_avg_pool1d(...)                                                               \
    (hod_here(__FILE__, __LINE__), hod_adaptive_avg_pool1d(__VA_ARGS__))
#define hod_adaptive_avg_pool2d(...)                                                               \
    (hod_here(__FILE__, __LINE__), hod_adaptive_avg_pool2d(__VA_ARGS__))
#define hod_adaptive_max_pool1d(...)                                                               \
    (hod_here(__FILE__, __LINE__), hod_adaptive_max_pool1d(__VA_ARGS__))
#define hod_adaptive_max_pool2d(...)                                                               \
    (hod_here(__FILE__, __LINE__), hod_adaptive_max_pool2d(__VA_ARGS__))
#endif

#endif
