#!/usr/bin/env python3
"""The coefficients of src/ops/float_tmpl.h and curve_tmpl.h: minimax polynomials for a relative error.

Prints for each function the error of the exact polynomial, in powers of two, and the coefficients
rounded to f32 from the highest power down, as they stand in Horner's scheme. Needs numpy, mpmath.

Method: Lawson's iteration. A weighted least-squares fit on Chebyshev nodes is repeated, each time
multiplying the weight of a node by the error found there; the weights settle on the few nodes where
a minimax polynomial has its extrema.
"""

import mpmath as mp
import numpy as np

mp.mp.dps = 40
NODES, ROUNDS = 4001, 200


def fit(f, low, high, degree, weight):
    """Coefficients c of the polynomial p of this degree with least max |weight (f - p)|."""
    k = np.arange(NODES)
    x = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (k + 0.5) / NODES)
    y = np.array([float(f(mp.mpf(float(t)))) for t in x])
    w = np.array([float(weight(float(t))) for t in x])
    powers = np.stack([x**p for p in range(degree + 1)], 1)
    share = np.full(NODES, 1 / NODES)
    best = (np.inf, None)
    for _ in range(ROUNDS):
        s = np.sqrt(share) * w
        c = np.linalg.lstsq(powers * s[:, None], y * s, rcond=None)[0]
        error = np.abs((powers @ c - y) * w)
        if error.max() < best[0]:
            best = (error.max(), c)
        share *= error
        share /= share.sum()
    return best


def show(name, result):
    error, c = result
    print(f"{name:28} 2^{np.log2(error):.1f} ", *(float(np.float32(v)).hex() for v in c[::-1]))


def main():
    half = 1.0001 * float(mp.log(2)) / 2
    show("exp: (e^r - 1 - r) / r^2",
         fit(lambda r: (mp.expm1(r) - r) / r**2 if abs(r) > 1e-12 else mp.mpf(0.5), -half, half, 4,
             lambda r: r * r / np.exp(r)))
    show("log: (log(1+f) - f + f^2/2) / f^3",
         fit(lambda f: (mp.log1p(f) - f + f * f / 2) / f**3 if abs(f) > 1e-9 else mp.mpf(1) / 3,
             -1 / 3, 1 / 3, 8, lambda f: f**3 / np.log1p(f)))
    root = mp.sqrt
    show("tanh: (tanh(a) / a - 1) / t",
         fit(lambda t: (mp.tanh(root(t)) / root(t) - 1) / t, 1e-12, 0.36, 4,
             lambda t: t**1.5 / np.tanh(t**0.5)))
    show("erf below 1: erf(a) / a",
         fit(lambda t: mp.erf(root(t)) / root(t), 1e-12, 1, 6,
             lambda t: t**0.5 / float(mp.erf(root(t)))))
    show("erf from 1: -log(erfc(a))",
         fit(lambda a: -mp.log(mp.erfc(a)), 1, 3.95, 6,
             lambda a: float(mp.erfc(a) / mp.erf(a))))
    root_2pi = float(np.float32(np.sqrt(2 * np.pi)))

    def gelu_v(t):  # 2 + a v = 1 / (e^(a^2/2) times the normal share below -a), t = 1 / (1 + a/3)
        a = 3 * (1 / mp.mpf(t) - 1)
        return (2 / (mp.erfc(a / root(2)) * mp.exp(a * a / 2)) - 2) / a if a else 4 / root(2 * mp.pi)

    show("gelu: (v - sqrt(2 pi)) / t",
         fit(lambda t: (gelu_v(t) - root_2pi) / t, 1 / (1 + 14.3 / 3), 1, 8,
             lambda t: 3 * (1 - t) / float(2 + 3 * (1 / t - 1) * gelu_v(t)) + 1e-4))
    quarter = 1.001 * float(mp.pi / 4) ** 2
    show("sin: (sin(r) / r - 1) / t",
         fit(lambda t: (mp.sin(root(t)) / root(t) - 1) / t, 1e-12, quarter, 2,
             lambda t: t**1.5 / np.sin(t**0.5)))
    show("atan: (atan(a) / a - 1) / t",
         fit(lambda t: (mp.atan(root(t)) / root(t) - 1) / t, 1e-12,
             1.0001 * float(mp.tan(mp.pi / 8)) ** 2, 3, lambda t: t**1.5 / np.arctan(t**0.5)))
    show("cos: (cos(r) - 1 + t/2) / t^2",
         fit(lambda t: (mp.cos(root(t)) - 1 + t / 2) / t**2, 1e-4, quarter, 2,
             lambda t: t * t / np.cos(t**0.5)))


if __name__ == "__main__":
    main()
