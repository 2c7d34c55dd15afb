"""Sums over rows for one variable with two values: its log odds d_r, and d_r + t δ_r under a tilt.

    K(t) = Σ_r w_r [ln(1 + e^{d + tδ}) − ln(1 + e^d) − t p δ],     p = 1/(1 + e^{−d})

Exponentials come in as arrays: NumPy's are vectorised, those inside a loop are not.
"""

from __future__ import annotations

from hbm_learn._kernels.compiled import njit

_SUMS = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS)
def scores(E, delta, x, w, p, reach):
    """From E = e^d: p (R,) in place, the reach of φ (R,) too. Returns S, V, Σ w max φ, Σ w min φ."""
    S, V, highest, lowest = 0.0, 0.0, 0.0, 0.0
    for r in range(len(E)):
        rest = 1.0 / (1.0 + E[r])
        mine = E[r] * rest
        p[r] = mine
        up, down = delta[r] * rest, -delta[r] * mine
        high, low = max(up, down), min(up, down)
        reach[r] = max(high, -low)
        S += w[r] * (up if x[r] == 1 else down)
        V += w[r] * delta[r] * delta[r] * (mine * rest)
        highest += w[r] * high
        lowest += w[r] * low
    return S, V, highest, lowest


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS)
def small_rows(E, delta, w, reach, bound):
    """Summed cumulants κ₂, κ₃, κ₄ of rows with reach ≤ bound."""
    k2, k3, k4 = 0.0, 0.0, 0.0
    for r in range(len(E)):
        rest = 1.0 / (1.0 + E[r])
        mine = E[r] * rest
        square = delta[r] * delta[r]
        variance = mine * rest * square * (w[r] if reach[r] <= bound else 0.0)
        k2 += variance
        k3 += variance * delta[r] * (rest - mine)
        k4 += variance * square * (1.0 - 6.0 * mine * rest)
    return k2, k3, k4


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS)
def tilted(E, p, delta, w):
    """K' and K'' of rows with E = e^{d + tδ}."""
    K1, K2 = 0.0, 0.0
    for r in range(len(E)):
        rest = 1.0 / (1.0 + E[r])
        mine = E[r] * rest
        K1 += w[r] * delta[r] * (mine - p[r])
        K2 += w[r] * delta[r] * delta[r] * (mine * rest)
    return K1, K2


@njit(cache=True, nogil=True)
def tilt(d, delta, t, out):
    """d + tδ within what a float's exponential can hold, in place."""
    for r in range(len(d)):
        out[r] = min(max(d[r] + t * delta[r], -700.0), 700.0)
