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


@njit(cache=True, nogil=True, fastmath=True)
def moments(precision, square, df, sigma2, log_pi, factor, variance, total):
    """factor, variance, total (T,) ← of exp(−½Λβ² + ρ·β) under Σ_j π_j N(0, σ_j²), see ``mixture.moments``.

    precision, square, df (T,): Λ, |ρ|², d; sigma2, log_pi (G,): σ_j², ln π_j.
    """
    G = len(sigma2)
    weight, w = np.empty(G), np.empty(G)
    for t in range(len(precision)):
        top = -np.inf
        for j in range(G):
            spread = 1.0 + precision[t] * sigma2[j]
            w[j] = sigma2[j] / spread
            weight[j] = log_pi[j] + 0.5 * (square[t] * w[j] - df[t] * math.log(spread))
            top = max(top, weight[j])
        norm, first, second = 0.0, 0.0, 0.0
        for j in range(G):
            R = math.exp(weight[j] - top)
            norm += R
            first += R * w[j]
            second += R * w[j] * w[j]
        first /= norm
        factor[t] = first
        variance[t] = first + max(second / norm - first * first, 0.0) * square[t] / df[t]
        total[t] = top + math.log(norm)
