/* The CPU: host memory from the caching allocator, kernels split over OpenMP's threads.
 *
 * A launch cuts [0, n) into equal chunks, one a thread, so who computes what depends on n, grain
 * and the thread count alone and a reduction that is written per chunk gives the same bits every
 * time. Fork and join cost about a microsecond; ranges of at most `grain` skip them.
 */
#include "base/base.h"
#include "device/device.h"
#include "device/memory.h"

#include <omp.h>
#include <pthread.h>

static void *cpu_alloc(hod_device *d, int64_t bytes)
{
    (void)d;
    return hod__memory_alloc(bytes);
}

static void cpu_release(hod_device *d, void *p, int64_t bytes)
{
    (void)d;
    (void)bytes;
    hod__memory_release(p);
}

static int cpu_copy(hod_device *d, void *to, const void *from, int64_t bytes)
{
    (void)d;
    if (bytes > 0)
        memcpy(to, from, (size_t)bytes);
    return 0;
}

static void cpu_launch(hod_device *d, hod_kernel *k, void *const *buf, const int64_t *arg,
                       int64_t n, int64_t grain)
{
    if (n <= 0)
        return;
    int64_t chunks = HOD_MIN((int64_t)d->threads, n / HOD_MAX(grain, 1));
    if (chunks <= 1 || omp_in_parallel()) {
        k(buf, arg, 0, n);
        return;
    }
    int64_t size = n / chunks, rest = n % chunks; /* the first `rest` chunks hold one more */
#pragma omp parallel for schedule(static) num_threads((int)chunks)
    for (int64_t i = 0; i < chunks; i++) {
        int64_t begin = i * size + HOD_MIN(i, rest);
        k(buf, arg, begin, begin + size + (i < rest));
    }
}

static int cpu_synchronize(hod_device *d)
{
    (void)d;
    return 0; /* a launch returns when it is done */
}

static hod_device cpu = {
    .name = "cpu",
    .alloc = cpu_alloc,
    .release = cpu_release,
    .copy_in = cpu_copy,
    .copy_out = cpu_copy,
    .launch = cpu_launch,
    .synchronize = cpu_synchronize,
    .threads = 1,
};

static pthread_once_t cpu_once = PTHREAD_ONCE_INIT;

static void count_threads(void)
{
    cpu.threads = omp_get_max_threads();
}

hod_device *hod__cpu(void)
{
    pthread_once(&cpu_once, count_threads);
    return &cpu;
}

int hod__cpu_level(void)
{
#ifdef __x86_64__
    __builtin_cpu_init();
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("bmi2");
    bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl");
    return v4 ? 2 : v3;
#else
    return 0;
#endif
}

int hod_set_threads(int n)
{
    if (n < 1 || n > 4096)
        return HOD_FAIL_RC(ARGUMENT, "set_threads: %d, wanted 1 to 4096", n);
    hod__cpu()->threads = n;
    omp_set_num_threads(n);
    return 0;
}
