/* oneDNN behind dnn.h: the one engine and stream of the process, and its statuses in words. Only
 * the dnn_*.c files see the library's own header. */
#ifndef HOD_DEVICE_DNN_ENGINE_H
#define HOD_DEVICE_DNN_ENGINE_H

#include "device/dnn.h"
#include <dnnl.h>

/* The CPU engine and an in-order stream, made on first use and kept; NULL with an error. */
dnnl_engine_t hod__dnn_engine(void);
dnnl_stream_t hod__dnn_stream(void);

/* 0 when status is success; else -1 with an error that names `what`. */
int hod__dnn_check(dnnl_status_t status, const char *what);

/* The description of an image whose channels lie in blocks of 16, 8, 4, or 1: plain. */
int hod__dnn_image(dnnl_memory_desc_t *md, int64_t n, int64_t c, int64_t h, int64_t w,
                   hod_dtype dtype, int block);

/* hod__dnn_reorder between such images of `plane` pixels, one of them plain. */
int hod__dnn_reblock(hod_dtype dtype, int64_t n, int64_t c, int64_t plane, int from, const void *in,
                     int to, void *out);

/* OpenMP gives each new host thread its own thread count. Sets the caller's to `threads` and
 * returns what to hand to the next call, which restores it; refuses (-1) inside a parallel region,
 * where the library's own team would be a single thread that waits for others. */
int hod__dnn_team(int threads);

#endif
