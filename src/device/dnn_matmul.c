/* Matrix products: the library's sgemm, once or once a matrix; our own kernel where the library's
 * call takes longer than the sums (tiny.h).
 *
 * A batch of products is spread over the threads, each product then by one thread, when there are
 * enough of them to keep all threads equally busy or when each is too small for the library to
 * split; else the products follow each other, each on all threads. What a thread does in the time
 * that it takes to call another is not spread.
 */
#include "base/base.h"
#include "device/device.h"
#include "device/dnn_engine.h"
#include "device/tiny.h"

#include <omp.h>

hod_tiny_matmul *hod__tiny_matmul_of(int k)
{
    if (k > hod__cpu_level())
        return NULL;
#ifdef __x86_64__
    if (k > 0)
        return k == 2 ? hod__tiny_matmul_v4 : hod__tiny_matmul_v3;
#endif
    return hod__tiny_matmul_plain;
}

enum {
    TINY_WORK =
        16 * 16 * 32, /* multiplications, up to which the library is 1.5 to 5 times slower */
    TINY_COLUMN = 16 * 16,
    SERIAL_WORK = 1 << 15, /* of a whole batch, which one thread does in 1 to 2 us */
};

bool hod__tiny_fits(const hod_matmul_geometry *g)
{
    if (g->k == 1)
        return true;
    if (g->m == 1 && g->n == 1)
        return (!g->transpose_a || g->lda == 1) && (g->transpose_b || g->ldb == 1);
    /* The library is good at a matrix times a column. */
    double work = (double)g->m * (double)g->n * (double)g->k;
    return g->k <= HOD_TINY_TERMS && work <= (g->n == 1 ? TINY_COLUMN : TINY_WORK);
}

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

/* A column times a row, as a batch of their rows, which threads can share. */
static hod_matmul_geometry by_rows(const hod_matmul_geometry *g)
{
    hod_matmul_geometry rows = *g;
    rows.batch = g->m;
    rows.m = 1;
    rows.batch_a = g->transpose_a ? 1 : g->lda;
    rows.batch_b = 0;
    rows.batch_c = g->ldc;
    return rows;
}

int hod__dnn_matmul(const hod_matmul_geometry *given, const float *a, const float *b, float *c,
                    float beta)
{
    hod_matmul_geometry rows;
    const hod_matmul_geometry *g = given;
    if (g->batch <= 0 || g->m <= 0 || g->n <= 0)
        return 0;
    if (g->k == 1 && g->batch == 1 && g->m > 1 && g->n > 1) {
        rows = by_rows(g);
        g = &rows;
    }
    if (g->k <= 0) {
        scale(g, c, beta);
        return 0;
    }
    hod_tiny_matmul *tiny = hod__tiny_fits(g) ? hod__tiny_matmul_of(hod__cpu_level()) : NULL;
    int threads = hod__cpu()->threads;
    double work = (double)g->m * (double)g->n * (double)g->k;
    bool nested = omp_in_parallel();
    bool alone = nested || threads == 1 || (tiny && work * (double)g->batch <= SERIAL_WORK);
    if (tiny && (alone || g->batch == 1)) {
        for (int64_t i = 0; i < g->batch; i++)
            tiny(g, a + i * g->batch_a, b + i * g->batch_b, c + i * g->batch_c, beta);
        return 0;
    }
    int before = nested ? 0 : hod__dnn_team(threads);
    int failed = 0;
    /* From four rounds on, a last one with idle threads costs less than a quarter. 64 x 64 x 64 is
     * what the library still leaves to one thread. */
    bool spread = g->batch % threads == 0 || g->batch >= 4 * threads || work <= 64.0 * 64 * 64;
    if (!alone && g->batch > 1 && spread) {
#pragma omp parallel for schedule(static) reduction(| : failed)
        for (int64_t i = 0; i < g->batch; i++)
            if (tiny)
                tiny(g, a + i * g->batch_a, b + i * g->batch_b, c + i * g->batch_c, beta);
            else
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
