/* Sums over pairs of rows, compiled for several instruction sets; pairs.c drives them.
 *
 *     sums  s[i, j] = Σ_k |x[i, k] - y[j, k]|^power
 *     back  dx[i, k] = Σ_j g[i, j] times its derivative for x[i, k]     power 1: 0 where equal
 */
#ifndef HOD_OPS_PAIRS_H
#define HOD_OPS_PAIRS_H

#include <hod/tensor.h>
#include <stdbool.h>
#include <stdint.h>

/* x, dx (m,k), y (n,k), s, g (m,n), all row-major and of one element type: float or double. power
 * is 1 or 2; `root`: s are square roots of the sums. Each element is added up in the same order
 * whatever m is, so rows may be shared out. */
typedef struct hod_pair_rows {
    void (*sums)(int64_t m, int64_t n, int64_t k, int64_t power, bool root, const void *x,
                 const void *y, void *s);
    void (*back)(int64_t m, int64_t n, int64_t k, int64_t power, const void *g, const void *x,
                 const void *y, void *dx);
} hod_pair_rows;

extern const hod_pair_rows hod__pairs_f64, hod__pairs_plain, hod__pairs_v3, hod__pairs_v4;
/* For elements of this type, f32 or f64, and the chosen rows (rows.h). */
const hod_pair_rows *hod__pairs_rows(hod_dtype dtype);

#endif
