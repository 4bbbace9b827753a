/* The device seam: what the layers above may ask of a machine that computes.
 *
 * A second device is a second table. Above this header nothing names the CPU: storages are made by
 * a device, kernels and library calls are launched on one, and the order of launches on its one
 * stream is the order of effects. cpu.c is the embedded default.
 */
#ifndef HOD_DEVICE_DEVICE_H
#define HOD_DEVICE_DEVICE_H

#include <hod/memory.h>
#include <hod/threads.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hod_device hod_device;

/* A generated or hand-written kernel over a range of its outer axis: what codegen prints.
 * buf: one address an operand; arg: sizes and strides; [begin, end): this thread's share. */
typedef void hod_kernel(void *const *buf, const int64_t *arg, int64_t begin, int64_t end);

struct hod_device {
    const char *name; /* "cpu" */
    /* Caching allocator. alloc: 64-byte aligned, NULL with HOD_ERROR_MEMORY past the limit. */
    void *(*alloc)(hod_device *d, int64_t bytes);
    void (*release)(hod_device *d, void *p, int64_t bytes);
    int (*copy_in)(hod_device *d, void *to, const void *host, int64_t bytes);
    int (*copy_out)(hod_device *d, void *host, const void *from, int64_t bytes);
    /* Runs kernel over [0, n) split over the device's threads, at least `grain` a thread; with
     * n <= grain it runs in the caller. Splits depend on n and grain only through equal chunks. */
    void (*launch)(hod_device *d, hod_kernel *k, void *const *buf, const int64_t *arg, int64_t n,
                   int64_t grain);
    int (*synchronize)(hod_device *d);
    int threads; /* worker threads of a launch */
};

hod_device *hod__cpu(void);

/* The best instruction set that loops are compiled for and this machine has: 0 any, 1 x86-64-v3
 * (AVX2, fused multiply-add), 2 x86-64-v4 (AVX-512). */
int hod__cpu_level(void);

#endif
