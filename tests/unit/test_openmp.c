/* One OpenMP pool in the process: our loops and oneDNN's share their threads. Two pools would take
 * turns spinning on the same cores, and everything would be slower by a factor nobody can explain.
 */
#include "harness.h"

#include <dnnl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 512 };

static float a[N * N], b[N * N], c[N * N];

static int64_t threads_of_process(void)
{
    char line[256];
    int n = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        sscanf(line, "Threads: %d", &n);
    if (f)
        fclose(f);
    return n;
}

TEST(openmp_one_pool)
{
    if (getenv("TSAN_OPTIONS"))
        SKIP("ThreadSanitizer has a thread of its own");
#pragma omp parallel for
    for (int i = 0; i < N * N; i++)
        a[i] = b[i] = 1;
    int64_t ours = threads_of_process();
    EQ_INT(ours, omp_get_max_threads());
    EQ_INT(dnnl_sgemm('N', 'N', N, N, N, 1, a, N, b, N, 0, c, N), dnnl_success);
    NEAR(c[0], N, 0);
    EQ_INT(threads_of_process(), ours);
}

TEST(openmp_region_is_parallel)
{
    int arrived = 0;
#pragma omp parallel
    {
#pragma omp atomic
        arrived++;
    }
    EQ_INT(arrived, omp_get_max_threads());
}
