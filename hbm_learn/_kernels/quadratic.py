"""Coordinate descent on a convex quadratic with an ℓ1 penalty."""

from __future__ import annotations

import numpy as np

from hbm_learn._kernels.compiled import njit


@njit(cache=True, nogil=True)
def coordinate_descent(H, g, theta, lasso, tol, max_passes):
    """min_δ g·δ + ½ δ'Hδ + Σ_r lasso_r |θ_r + δ_r| for positive definite H (P, P); returns δ (P,).

    Passes over all coordinates alternate with passes over those that are not at zero, until none moves by more than
    ``tol`` relative to the largest.
    """
    P = len(g)
    delta, slope = np.zeros(P), g.copy()  # slope = g + H δ
    everything = True
    for _ in range(max_passes):
        moved, largest = 0.0, 0.0
        for r in range(P):
            old = theta[r] + delta[r]
            if H[r, r] <= 0.0 or (not everything and old == 0.0 and lasso[r] > 0.0):
                continue
            z = H[r, r] * old - slope[r]
            new = np.sign(z) * max(abs(z) - lasso[r], 0.0) / H[r, r]
            change = new - old
            if change != 0.0:
                delta[r] = new - theta[r]
                for s in range(P):
                    slope[s] += change * H[r, s]
                moved = max(moved, abs(change) * np.sqrt(H[r, r]))
            largest = max(largest, abs(delta[r]) * np.sqrt(H[r, r]))
        if moved <= tol * max(largest, 1e-300):
            if everything:
                break
            everything = True
        else:
            everything = False
    return delta
