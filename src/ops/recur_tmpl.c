/* The bodies of recur.h for one `real`: included with real, SIGMOID, TANH and ROWS defined. */
#include "ops/recur.h"

static void lstm(int64_t h, const void *x_, const void *b_, void *gates_, const void *c_,
                 void *c_new_, void *y_)
{
    const real *restrict x = x_, *restrict b = b_, *restrict c = c_;
    real *restrict gates = gates_, *restrict c_new = c_new_, *restrict y = y_;
#pragma omp simd
    for (int64_t j = 0; j < h; j++) {
        int64_t k = h + j, l = 2 * h + j, m = 3 * h + j;
        real i = SIGMOID(gates[j] + b[j] + x[j]), f = SIGMOID(gates[k] + b[k] + x[k]);
        real g = TANH(gates[l] + b[l] + x[l]), o = SIGMOID(gates[m] + b[m] + x[m]);
        real cell = f * c[j] + i * g;
        gates[j] = i;
        gates[h + j] = f;
        gates[2 * h + j] = g;
        gates[3 * h + j] = o;
        c_new[j] = cell;
        y[j] = o * TANH(cell);
    }
}

static void lstm_back(int64_t h, const void *gates_, const void *c_, const void *c_new_,
                      const void *dh_, const void *dy_, void *dc_, const void *dc_new_, void *dz_)
{
    const real *restrict gates = gates_, *restrict c = c_, *restrict c_new = c_new_;
    const real *restrict dh = dh_, *restrict dy = dy_, *restrict dc_new = dc_new_;
    real *restrict dc = dc_, *restrict dz = dz_;
#pragma omp simd
    for (int64_t j = 0; j < h; j++) {
        real i = gates[j], f = gates[h + j], g = gates[2 * h + j], o = gates[3 * h + j];
        real t = TANH(c_new[j]), e = dh[j] + dy[j], d = dc[j] + dc_new[j] + e * o * (1 - t * t);
        dz[j] = d * g * i * (1 - i);
        dz[h + j] = d * c[j] * f * (1 - f);
        dz[2 * h + j] = d * i * (1 - g * g);
        dz[3 * h + j] = e * t * o * (1 - o);
        dc[j] = d * f;
    }
}

static void gru(int64_t h, const void *x_, const void *b_, void *gates_, const void *y_old_,
                void *inner_, void *y_)
{
    const real *restrict x = x_, *restrict b = b_, *restrict y_old = y_old_;
    real *restrict gates = gates_, *restrict inner = inner_, *restrict y = y_;
#pragma omp simd
    for (int64_t j = 0; j < h; j++) {
        real r = SIGMOID(gates[j] + b[j] + x[j]);
        real z = SIGMOID(gates[h + j] + b[h + j] + x[h + j]);
        real hidden = gates[2 * h + j] + b[2 * h + j];
        real n = TANH(x[2 * h + j] + r * hidden);
        gates[j] = r;
        gates[h + j] = z;
        gates[2 * h + j] = n;
        inner[j] = hidden;
        y[j] = n + z * (y_old[j] - n);
    }
}

static void gru_back(int64_t h, const void *gates_, const void *inner_, const void *y_old_,
                     void *dh_, const void *dy_, void *dx_, void *dg_)
{
    const real *restrict gates = gates_, *restrict inner = inner_, *restrict y_old = y_old_;
    const real *restrict dy = dy_;
    real *restrict dh = dh_, *restrict dx = dx_, *restrict dg = dg_;
#pragma omp simd
    for (int64_t j = 0; j < h; j++) {
        real r = gates[j], z = gates[h + j], n = gates[2 * h + j], d = dh[j] + dy[j];
        real dn = d * (1 - z) * (1 - n * n), dr = dn * inner[j] * r * (1 - r);
        real du = d * (y_old[j] - n) * z * (1 - z);
        dx[j] = dg[j] = dr;
        dx[h + j] = dg[h + j] = du;
        dx[2 * h + j] = dn;
        dg[2 * h + j] = dn * r;
        dh[j] = d * z;
    }
}

const hod_recur_rows ROWS = {lstm, lstm_back, gru, gru_back};
