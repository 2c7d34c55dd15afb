"""Quantiles of mixtures of Gaussians, one mixture a row."""

from __future__ import annotations

import math

import numpy as np

from hbm_learn._kernels.compiled import njit

# Components with less weight than this have no part in a quantile that is asked for.
_LEAST = 1e-10
_STEPS = 60


@njit(cache=True, nogil=True)
def quantiles(R, mean, sd, level, out):
    """out (rows,) ← x with Σ_j R_j Φ((x − mean_j)/sd_j) = level; all inputs (rows, G).

    Newton's steps between bounds that hold the root, halved where a step would leave them.
    """
    for r in range(R.shape[0]):
        low, high = np.inf, -np.inf
        for j in range(R.shape[1]):
            if R[r, j] > _LEAST:
                low = min(low, mean[r, j] - 9.0 * sd[r, j])
                high = max(high, mean[r, j] + 9.0 * sd[r, j])
        x = 0.5 * (low + high)
        width = high - low
        for _ in range(_STEPS):
            cdf, density = 0.0, 0.0
            for j in range(R.shape[1]):
                if R[r, j] > _LEAST:
                    if sd[r, j] > 0.0:
                        z = (x - mean[r, j]) / sd[r, j]
                        cdf += R[r, j] * 0.5 * math.erfc(-z * 0.7071067811865476)
                        density += R[r, j] * math.exp(-0.5 * z * z) * 0.3989422804014327 / sd[r, j]
                    elif x >= mean[r, j]:
                        cdf += R[r, j]
            if cdf > level:
                high = x
            else:
                low = x
            new = x - (cdf - level) / density if density > 0.0 else low - 1.0
            if not (low < new < high):
                new = 0.5 * (low + high)
            if abs(new - x) <= 1e-9 * width or high <= low:
                x = new
                break
            x = new
        out[r] = x


@njit(cache=True, nogil=True)
def moments(precision, square, df, sigma2, pi, factor, variance, total):
    """factor, variance, total (T,) ← of exp(−½Λβ² + ρ·β) under Σ_j π_j N(0, σ_j²), see ``mixture.moments``.

    precision, square, df (T,): Λ, |ρ|², d; sigma2, pi (G,): σ_j², π_j > 0.
    """
    G = len(sigma2)
    R, w = np.empty(G), np.empty(G)
    for t in range(len(precision)):
        top = 0.0
        for j in range(G):
            w[j] = sigma2[j] / (1.0 + precision[t] * sigma2[j])
            top = max(top, w[j])
        top *= 0.5 * square[t]
        norm = 0.0
        if df[t] == 1.0:  # one square root is cheaper than a logarithm
            for j in range(G):
                R[j] = pi[j] * math.sqrt(w[j] / sigma2[j]) * math.exp(0.5 * square[t] * w[j] - top)
                norm += R[j]
        if not norm > 1e-200:  # of many functions, or with all weight where the exponent is low
            top = -np.inf
            for j in range(G):
                R[j] = math.log(pi[j]) + 0.5 * (square[t] * w[j] + df[t] * math.log(w[j] / sigma2[j]))
                top = max(top, R[j])
            norm = 0.0
            for j in range(G):
                R[j] = math.exp(R[j] - top)
                norm += R[j]
        first, second = 0.0, 0.0
        for j in range(G):
            first += R[j] * w[j]
            second += R[j] * w[j] * w[j]
        first, second = first / norm, second / norm
        factor[t] = first
        variance[t] = first + max(second - first * first, 0.0) * square[t] / df[t]
        total[t] = top + math.log(norm)
