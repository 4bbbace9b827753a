/* The bodies of pairs.h: included with real, ROOT, whole (an integer of its size), LANES and ROWS.
 *
 * sums turns LANES rows of y on their sides, DEPTH columns at a time, and goes along them with up
 * to 8 rows of x: a vector holds the sums of a row with all of them. back has its vectors along k
 * and goes along the rows of y. Either way a term is a subtraction and a multiplication that adds,
 * which run side by side: as fast as a matrix product.
 */
#include "base/base.h"
#include "ops/pairs.h"
#include <math.h>

enum { DEPTH = 128 };

#define INLINE static inline __attribute__((always_inline))

typedef real lanes __attribute__((vector_size(LANES * sizeof(real))));
typedef whole masks __attribute__((vector_size(LANES * sizeof(real))));

/* n <= LANES elements, zeroes behind them. */
INLINE lanes load(const real *p, int64_t n)
{
    lanes v = {0};
    memcpy(&v, p, n == LANES ? sizeof v : (size_t)n * sizeof *p);
    return v;
}

/* Its magnitude, or its square. */
INLINE lanes size_of(lanes d, bool square)
{
    const masks sign = (masks)(-(lanes){0});
    return square ? d * d : (lanes)((masks)d & ~sign);
}

/* -1, 0, 1 or NaN; twice the square's derivative's half. */
INLINE lanes slope_of(lanes d, bool square)
{
    const lanes one = (lanes){0} + 1;
    masks above = d > 0, below = d < 0;
    lanes sign =
        (lanes)((above & (masks)one) | (below & (masks)-one) | (~(above | below) & (masks)d));
    return square ? d : sign;
}

/* ---- sums ---- */

/* Rows x[0..rows) with the columns packed; `first`: nothing has been added up before. `rows` and
 * `square` are constants wherever this is inlined. */
INLINE void sums_of(int rows, bool square, int64_t n, int64_t depth, const real *x, int64_t k,
                    const real *packed, bool first, real *s, int64_t lds)
{
    lanes sum[8];
    for (int r = 0; r < rows; r++)
        sum[r] = (lanes){0};
    for (int64_t l = 0; l < depth; l++) {
        lanes v = load(packed + l * LANES, LANES);
        for (int r = 0; r < rows; r++)
            sum[r] += size_of(v - x[r * k + l], square);
    }
    for (int r = 0; r < rows; r++) {
        real add[LANES], *to = s + r * lds;
        memcpy(add, &sum[r], sizeof add);
        for (int64_t j = 0; j < n; j++)
            to[j] = first ? add[j] : to[j] + add[j];
    }
}

INLINE void sums_panel(bool square, int64_t m, int64_t n, int64_t depth, const real *x, int64_t k,
                       const real *packed, bool first, real *s, int64_t lds)
{
    int64_t i = 0;
    for (; i + 8 <= m; i += 8)
        sums_of(8, square, n, depth, x + i * k, k, packed, first, s + i * lds, lds);
    for (; i + 4 <= m; i += 4)
        sums_of(4, square, n, depth, x + i * k, k, packed, first, s + i * lds, lds);
    for (; i < m; i++)
        sums_of(1, square, n, depth, x + i * k, k, packed, first, s + i * lds, lds);
}

/* LANES rows of y on their sides, zeroes beyond `width` of them: squares of 4 x 4 in registers. */
INLINE void pack(int64_t width, int64_t depth, const real *y, int64_t k, real *packed)
{
    typedef real quad __attribute__((vector_size(4 * sizeof(real))));
    int64_t q4 = LANES % 4 ? 0 : width - width % 4, p4 = depth - depth % 4;
    for (int64_t q = 0; q < q4; q += 4)
        for (int64_t p = 0; p < p4; p += 4) {
            quad row[4], half[4];
            for (int i = 0; i < 4; i++)
                memcpy(&row[i], y + (q + i) * k + p, sizeof row[i]);
            for (int i = 0; i < 2; i++) {
                half[i] = __builtin_shufflevector(row[2 * i], row[2 * i + 1], 0, 4, 1, 5);
                half[2 + i] = __builtin_shufflevector(row[2 * i], row[2 * i + 1], 2, 6, 3, 7);
            }
            for (int i = 0; i < 2; i++) {
                quad even = __builtin_shufflevector(half[2 * i], half[2 * i + 1], 0, 1, 4, 5);
                quad odd = __builtin_shufflevector(half[2 * i], half[2 * i + 1], 2, 3, 6, 7);
                memcpy(packed + (p + 2 * i) * LANES + q, &even, sizeof even);
                memcpy(packed + (p + 2 * i + 1) * LANES + q, &odd, sizeof odd);
            }
        }
    for (int64_t q = 0; q < LANES; q++)
        for (int64_t p = q < q4 ? p4 : 0; p < depth; p++)
            packed[p * LANES + q] = q < width ? y[q * k + p] : 0;
}

static void sums(int64_t m, int64_t n, int64_t k, int64_t power, bool root, const void *x_,
                 const void *y_, void *s_)
{
    const real *x = x_, *y = y_;
    real *s = s_, packed[DEPTH * LANES];
    for (int64_t j = 0; j < n; j += LANES)
        for (int64_t l = 0; l < k; l += DEPTH) {
            int64_t width = HOD_MIN(LANES, n - j), depth = HOD_MIN(DEPTH, k - l);
            pack(width, depth, y + j * k + l, k, packed);
            if (power == 2)
                sums_panel(true, m, width, depth, x + l, k, packed, l == 0, s + j, n);
            else
                sums_panel(false, m, width, depth, x + l, k, packed, l == 0, s + j, n);
        }
    for (int64_t i = 0; root && i < m * n; i++)
        s[i] = ROOT(s[i]);
}

/* ---- their gradient ---- */

/* Up to LANES columns of `rows` rows of dx. */
INLINE void back_of(int rows, bool square, int64_t width, int64_t n, int64_t k, const real *g,
                    const real *x, const real *y, real *dx)
{
    lanes at[4], sum[4];
    for (int r = 0; r < rows; r++) {
        at[r] = load(x + r * k, width);
        sum[r] = (lanes){0};
    }
    for (int64_t j = 0; j < n; j++) {
        lanes v = load(y + j * k, width);
        for (int r = 0; r < rows; r++)
            sum[r] += g[r * n + j] * slope_of(at[r] - v, square);
    }
    for (int r = 0; r < rows; r++) {
        lanes d = square ? sum[r] + sum[r] : sum[r];
        memcpy(dx + r * k, &d, (size_t)width * sizeof *dx);
    }
}

INLINE void back_panel(bool square, int64_t width, int64_t m, int64_t n, int64_t k, const real *g,
                       const real *x, const real *y, real *dx)
{
    int64_t i = 0;
    for (; i + 4 <= m; i += 4)
        back_of(4, square, width, n, k, g + i * n, x + i * k, y, dx + i * k);
    for (; i < m; i++)
        back_of(1, square, width, n, k, g + i * n, x + i * k, y, dx + i * k);
}

static void back(int64_t m, int64_t n, int64_t k, int64_t power, const void *g_, const void *x_,
                 const void *y_, void *dx_)
{
    const real *g = g_, *x = x_, *y = y_;
    real *dx = dx_;
    for (int64_t l = 0; l < k; l += LANES) {
        int64_t width = HOD_MIN(LANES, k - l);
        if (power == 2 && width == LANES)
            back_panel(true, LANES, m, n, k, g, x + l, y + l, dx + l);
        else if (power == 2)
            back_panel(true, width, m, n, k, g, x + l, y + l, dx + l);
        else
            back_panel(false, width, m, n, k, g, x + l, y + l, dx + l);
    }
}

const hod_pair_rows ROWS = {sums, back};
