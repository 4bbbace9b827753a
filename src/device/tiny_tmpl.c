/* The body of a tiny product: included with TINY, its name, and LANES, the floats of a vector.
 *
 *             b  (k, LANES), in place or packed
 *     a row   .  .  .  .        one vector of sums for each of up to 8 rows: a term loads a vector
 *     a row   .  .  .  .        of b once and multiplies it by an element of every row
 *
 * What is left beyond whole vectors is packed with zeroes behind it. A row times a column is four
 * vectors of sums along both, a column times a row needs none.
 */
#include "base/base.h"
#include "device/tiny.h"

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

static inline __attribute__((always_inline)) lanes load(const float *p)
{
    lanes v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* op(a), from a row on: element (i, l) is at[i * row + l * column]. */
typedef struct left {
    const float *at;
    int64_t row, column, k;
} left;

/* n <= LANES results of a row. */
static inline __attribute__((always_inline)) void put(lanes sum, int64_t n, float *c, float beta)
{
    float s[LANES];
    memcpy(s, &sum, sizeof s);
    if (n == LANES && beta == 0.0f)
        memcpy(c, s, sizeof s);
    else
        for (int64_t j = 0; j < n; j++)
            c[j] = beta == 0.0f ? s[j] : s[j] + beta * c[j];
}

/* `rows` is a constant wherever this is inlined, so that sums stay in registers. */
static inline __attribute__((always_inline)) void some_rows(int rows, const left *a, int64_t i,
                                                            const float *b, int64_t ldb, int64_t n,
                                                            float *c, int64_t ldc, float beta)
{
    lanes sum[8];
    const float *at = a->at + i * a->row;
    for (int r = 0; r < rows; r++)
        sum[r] = (lanes){0};
    for (int64_t l = 0; l < a->k; l++) {
        lanes v = load(b + l * ldb);
        for (int r = 0; r < rows; r++)
            sum[r] += at[r * a->row + l * a->column] * v;
    }
    for (int r = 0; r < rows; r++)
        put(sum[r], n, c + (i + r) * ldc, beta);
}

/* Up to LANES columns of the result. */
static void panel(const left *a, int64_t m, const float *b, int64_t ldb, int64_t n, float *c,
                  int64_t ldc, float beta)
{
    int64_t i = 0;
    for (; i + 8 <= m; i += 8)
        some_rows(8, a, i, b, ldb, n, c, ldc, beta);
    for (; i + 4 <= m; i += 4)
        some_rows(4, a, i, b, ldb, n, c, ldc, beta);
    for (; i < m; i++)
        some_rows(1, a, i, b, ldb, n, c, ldc, beta);
}

static float dot(int64_t k, const float *a, const float *b)
{
    lanes s[4] = {{0}};
    int64_t l = 0;
    for (; l + 4 * LANES <= k; l += 4 * LANES)
        for (int i = 0; i < 4; i++)
            s[i] += load(a + l + i * LANES) * load(b + l + i * LANES);
    for (; l + LANES <= k; l += LANES)
        s[0] += load(a + l) * load(b + l);
    lanes all = (s[0] + s[1]) + (s[2] + s[3]);
    float sum[LANES];
    memcpy(sum, &all, sizeof sum);
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            sum[i] += sum[i + width];
    for (; l < k; l++)
        sum[0] += a[l] * b[l];
    return sum[0];
}

static void several(const hod_matmul_geometry *g, const float *a, const float *b, float *c,
                    float beta)
{
    left rows = {a, g->transpose_a ? 1 : g->lda, g->transpose_a ? g->lda : 1, g->k};
    int64_t b_row = g->transpose_b ? 1 : g->ldb, b_column = g->transpose_b ? g->ldb : 1;
    for (int64_t j = 0; j < g->n; j += LANES) {
        int64_t n = HOD_MIN(LANES, g->n - j);
        if (n == LANES && b_column == 1) {
            panel(&rows, g->m, b + j, b_row, n, c + j, g->ldc, beta);
            continue;
        }
        float packed[HOD_TINY_TERMS * LANES];
        for (int64_t l = 0; l < g->k; l++)
            for (int64_t q = 0; q < LANES; q++)
                packed[l * LANES + q] = q < n ? b[l * b_row + (j + q) * b_column] : 0.0f;
        panel(&rows, g->m, packed, LANES, n, c + j, g->ldc, beta);
    }
}

/* A column times a row: products alone, so that -0 stays. */
static void outer(const hod_matmul_geometry *g, const float *a, const float *b, float *c,
                  float beta)
{
    int64_t a_row = g->transpose_a ? 1 : g->lda, b_column = g->transpose_b ? g->ldb : 1;
    for (int64_t i = 0; i < g->m; i++) {
        float x = a[i * a_row], *to = c + i * g->ldc;
        if (beta != 0.0f)
            for (int64_t j = 0; j < g->n; j++)
                to[j] = x * b[j * b_column] + beta * to[j];
        else if (b_column == 1)
            for (int64_t j = 0; j < g->n; j++)
                to[j] = x * b[j];
        else
            for (int64_t j = 0; j < g->n; j++)
                to[j] = x * b[j * b_column];
    }
}

static void products(const hod_matmul_geometry *g, const float *a, const float *b, float *c,
                     float beta)
{
    if (g->k == 1)
        outer(g, a, b, c, beta);
    else
        several(g, a, b, c, beta);
}

void TINY(const hod_matmul_geometry *g, const float *a, const float *b, float *c, float beta)
{
    if (g->n == 1 && g->m == 1 && g->k > 1 && (!g->transpose_a || g->lda == 1) &&
        (g->transpose_b || g->ldb == 1)) {
        float sum = dot(g->k, a, b);
        c[0] = beta == 0.0f ? sum : sum + beta * c[0];
        return;
    }
    if (g->n == 1 && g->ldc == 1) { /* a column is a row on its side */
        hod_matmul_geometry turned = *g;
        turned.m = 1;
        turned.n = turned.ldc = g->m;
        turned.lda = g->ldb;
        turned.ldb = g->lda;
        turned.transpose_a = !g->transpose_b;
        turned.transpose_b = !g->transpose_a;
        products(&turned, b, a, c, beta);
        return;
    }
    products(g, a, b, c, beta);
}
