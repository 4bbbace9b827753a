/* The rows of recurrent steps: what one sample's gates do in one step of time, compiled for several
 * instruction sets. rnn.c drives them.
 *
 * LSTM, gates i f g o in PyTorch's order, z_* = x's part + W h:
 *
 *     c' = f c + i g        h' = o tanh(c')            i f o = sigmoid(z), g = tanh(z)
 *
 * GRU, gates r z n; b is the bias of h's part, which for n lies inside the product with r:
 *
 *     n = tanh(x_n + r (W_n h + b_n))                  h' = n + z (h - n)
 */
#ifndef HOD_OPS_RECUR_H
#define HOD_OPS_RECUR_H

#include <hod/tensor.h>
#include <stdint.h>

/* All arrays are of one element type: float or double. h: hidden size. */
typedef struct hod_recur_rows {
    /* x, b (4h): x's part, bias; gates (4h): W h, becomes the activated gates; c (h) of the step
     * before; c_new, y (h): the results. */
    void (*lstm)(int64_t h, const void *x, const void *b, void *gates, const void *c, void *c_new,
                 void *y);
    /* gates (4h), c and c_new as computed by lstm; dh + dy: gradient of y; dc (h): with dc_new that
     * of c_new, out that of c; dz (4h): of the gates before their activation. */
    void (*lstm_back)(int64_t h, const void *gates, const void *c, const void *c_new,
                      const void *dh, const void *dy, void *dc, const void *dc_new, void *dz);
    /* x (3h), b (3h); gates (3h): W h, becomes r z n; y_old, y (h); inner (h): W_n h + b_n. */
    void (*gru)(int64_t h, const void *x, const void *b, void *gates, const void *y_old,
                void *inner, void *y);
    /* dh (h): in, with dy, the gradient of y, out what of it goes to y_old beside W. dx, dg (3h):
     * of x's part and of W h + b. */
    void (*gru_back)(int64_t h, const void *gates, const void *inner, const void *y_old, void *dh,
                     const void *dy, void *dx, void *dg);
} hod_recur_rows;

extern const hod_recur_rows hod__recur_f64, hod__recur_plain, hod__recur_v3, hod__recur_v4;
/* For elements of this type, f32 or f64, and the chosen rows (rows.h). */
const hod_recur_rows *hod__recur_rows(hod_dtype dtype);

#endif
