/* Matrix products: the library's sgemm, once or once a matrix.
 *
 * dnnl_sgemm takes 0.4 to 2 us for the products of a tiny network (16x64x32, 64x64x16) and runs
 * them in the caller's thread, so there is no second kernel for small sizes. A batch of products
 * is spread over the threads, each product then by one thread, when there are enough of them to
 * keep all threads equally busy or when each is too small for the library to split; else the
 * products follow each other, each on all threads.
 */
#include "base/base.h"
#include "device/device.h"
#include "device/dnn_engine.h"

#include <omp.h>

static int gemm(const hod_matmul_geometry *g, int64_t i, const float *a, const float *b, float *c,
                float beta)
{
    return dnnl_sgemm(g->transpose_a ? 'T' : 'N', g->transpose_b ? 'T' : 'N', g->m, g->n, g->k,
                      1.0f, a + i * g->batch_a, g->lda, b + i * g->batch_b, g->ldb, beta,
                      c + i * g->batch_c, g->ldc) != dnnl_success;
}

/* beta C, for an empty inner dimension. */
static void scale(const hod_matmul_geometry *g, float *c, float beta)
{
    for (int64_t i = 0; i < g->batch; i++)
        for (int64_t r = 0; r < g->m; r++)
            for (int64_t j = 0; j < g->n; j++) {
                float *e = &c[i * g->batch_c + r * g->ldc + j];
                *e = beta == 0.0f ? 0.0f : beta * *e;
            }
}

int hod__dnn_matmul(const hod_matmul_geometry *g, const float *a, const float *b, float *c,
                    float beta)
{
    if (g->batch <= 0 || g->m <= 0 || g->n <= 0)
        return 0;
    if (g->k <= 0) {
        scale(g, c, beta);
        return 0;
    }
    int threads = hod__cpu()->threads;
    bool nested = omp_in_parallel();
    int before = nested ? 0 : hod__dnn_team(threads);
    int failed = 0;
    /* From four rounds on, a last one with idle threads costs less than a quarter. 64 x 64 x 64 is
     * what the library still leaves to one thread. */
    bool spread = g->batch % threads == 0 || g->batch >= 4 * threads ||
                  (double)g->m * (double)g->n * (double)g->k <= 64.0 * 64 * 64;
    if (!nested && threads > 1 && g->batch > 1 && spread) {
#pragma omp parallel for schedule(static) reduction(| : failed)
        for (int64_t i = 0; i < g->batch; i++)
            failed |= gemm(g, i, a, b, c, beta);
    } else {
        for (int64_t i = 0; i < g->batch && !failed; i++)
            failed = gemm(g, i, a, b, c, beta);
    }
    if (!nested)
        hod__dnn_team(before);
    return failed ? HOD_FAIL_RC(ARGUMENT, "matmul: the library refuses %lld x %lld x %lld",
                                (long long)g->m, (long long)g->n, (long long)g->k)
                  : 0;
}
