#!/usr/bin/env python3
"""Fits the polynomials of kernels/numbers/math.h and prints their coefficients, highest power first.

Each fit minimises the largest error, where the error at x is divided by a given size(x). It uses
Lawson's algorithm, which repeats a weighted least-squares fit and raises the weight where the error
is large. Needs numpy only.
"""
import math

import numpy as np

SQRT_HALF = math.sqrt(0.5)
TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)


def fit(function, low, high, degree, size=np.abs, points=4000, rounds=300):
    """Coefficients (constant first) and largest error of the polynomial nearest to `function`."""
    nodes = np.cos(np.pi * (np.arange(points) + 0.5) / points)
    x = (low + high) / 2 + (high - low) / 2 * nodes
    y = np.array([function(value) for value in x])
    allowed = size(y) if size is np.abs else np.array([size(value) for value in x])
    basis = np.polynomial.chebyshev.chebvander(nodes, degree)
    weight = np.ones(points)
    best_error, best = math.inf, None
    for _ in range(rounds):
        scale = np.sqrt(weight) / allowed
        chebyshev, *_ = np.linalg.lstsq(basis * scale[:, None], y * scale, rcond=None)
        error = np.abs(basis @ chebyshev - y) / allowed
        if error.max() < best_error:
            best_error, best = error.max(), chebyshev
        weight *= error / error.max() + 1e-3
        weight /= weight.mean()
    series = np.polynomial.chebyshev.Chebyshev(best, domain=[low, high])
    return series.convert(kind=np.polynomial.Polynomial).coef, best_error


def near_zero(function, series):
    """`function`, and near 0, where it would cancel, its Taylor series (constant first)."""
    return lambda x: np.polyval(series[::-1], x) if abs(x) < 1e-3 else function(x)


def in_square(function, series):
    """An even function of x as a function of x * x, and its Taylor series in x * x near 0."""
    return lambda square: (function(math.sqrt(square)) if square > 1e-4
                           else np.polyval(series[::-1], square))


def alternating(square, first):
    """1 / first! - square / (first + 2)! + square^2 / (first + 4)! ..."""
    return sum((-square)**k / math.factorial(first + 2 * k) for k in range(10))


def two_tails(t):
    """2 (1 - cdf(t)) of the standard normal distribution."""
    return math.erfc(t * SQRT_HALF)


FITS = [
    # name, function, interval, degree, size of the error that counts as 1
    ("exp_: (e^r - 1 - r) / r^2",
     near_zero(lambda r: (math.expm1(r) - r) / (r * r), [1 / 2, 1 / 6, 1 / 24]),
     -0.3466, 0.3466, 4, np.abs),
    ("exp2_minus: (2^r - 1) / r",
     near_zero(lambda r: math.expm1(r * math.log(2)) / r,
               [math.log(2), math.log(2)**2 / 2, math.log(2)**3 / 6]),
     -0.5, 0.5, 5, lambda r: 2**r / max(abs(r), 1e-3)),
    ("log_: (log(1 + f) - f + f^2 / 2) / f^3",
     near_zero(lambda f: (math.log1p(f) - f + f * f / 2) / f**3, [1 / 3, -1 / 4, 1 / 5, -1 / 6]),
     SQRT_HALF - 1, math.sqrt(2) - 1, 8, np.abs),
    ("tanh_: (tanh(x) / x - 1) / x^2 in x^2",
     in_square(lambda x: (math.tanh(x) / x - 1) / (x * x), [-1 / 3, 2 / 15, -17 / 315]),
     1e-9, 0.625**2, 4, np.abs),
    ("erf_, small: erf(x) / x - 1 in x^2",
     in_square(lambda x: math.erf(x) / x - 1,
               [TWO_OVER_ROOT_PI - 1, -TWO_OVER_ROOT_PI / 3, TWO_OVER_ROOT_PI / 10]),
     1e-9, 0.9277**2, 6, np.abs),
    ("erf_, big: -log(1 - erf(t)) / t",
     lambda t: -math.log(math.erfc(t)) / t,
     0.9, 4.0, 6, np.abs),
    ("normal_cdf: -log2(2 (1 - cdf(t))) / t",
     lambda t: -math.log2(two_tails(t)) / t,
     1e-4, 6.0, 7, lambda t: min(1 / two_tails(t), 1e4) / t),
    ("sin_: (sin(r) / r - 1) / r^2 in r^2",
     lambda square: -alternating(square, 3), 1e-9, (math.pi / 4)**2, 2,
     lambda square: 1 / max(square, 1e-2)),
    ("cos_: (cos(r) - 1 + r^2 / 2) / r^4 in r^2",
     lambda square: alternating(square, 4), 1e-9, (math.pi / 4)**2, 2,
     lambda square: 1 / max(square, 1e-2)**2),
    ("power: (log2((1 + s) / (1 - s)) - 2 s / log(2)) / s^3 in s^2, f64",
     in_square(lambda s: (2 * math.atanh(s) - 2 * s) / (math.log(2) * s**3),
               [2 / 3 / math.log(2), 2 / 5 / math.log(2), 2 / 7 / math.log(2)]),
     1e-9, ((math.sqrt(2) - 1) / (math.sqrt(2) + 1))**2, 3, np.abs),
    ("power: (2^f - 1) / f, f64",
     near_zero(lambda f: math.expm1(f * math.log(2)) / f,
               [math.log(2), math.log(2)**2 / 2, math.log(2)**3 / 6]),
     -0.5, 0.5, 5, np.abs),
]


def main():
    for name, function, low, high, degree, size in FITS:
        coefficients, error = fit(function, low, high, degree, size)
        print(f"{name} on [{low:.4g}, {high:.4g}], largest error {error:.2g}")
        digits = "{:.16e}" if name.endswith("f64") else "{:.8e}"
        print("  " + " ".join(digits.format(c if name.endswith("f64") else np.float32(c))
                              for c in coefficients[::-1]))


if __name__ == "__main__":
    main()
