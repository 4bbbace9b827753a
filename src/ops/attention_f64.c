/* Attention by blocks in double, by libm and plain loops; see attention_tmpl.c. */
#include "device/dnn.h"
#include "ops/attention.h"
#include <math.h>

static int product(const hod_matmul_geometry *g, const double *a, const double *b, double *c,
                   double beta)
{
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t j = 0; beta == 0 && j < g->n; j++)
            c[i * g->ldc + j] = 0;
        for (int64_t l = 0; l < g->k; l++) {
            double x = a[g->transpose_a ? l * g->lda + i : i * g->lda + l];
            for (int64_t j = 0; j < g->n; j++)
                c[i * g->ldc + j] += x * b[g->transpose_b ? j * g->ldb + l : l * g->ldb + j];
        }
    }
    return 0;
}

#define real    double
#define EXP(x)  exp(x)
#define PRODUCT product
#define KERNELS hod__attention_f64
#include "ops/attention_tmpl.c"
