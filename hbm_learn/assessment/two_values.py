"""A node with two values, whole arrays at once: d = (O₁ − O₀) η are its log odds.

    w (O(x) − ⟨O⟩) = ± w (O₁ − O₀) / (1 + e^{± d}),     w Var O = w (O₁ − O₀)² p (1 − p)

The same as the kernels for any number of values, at a tenth of their time.
"""

from __future__ import annotations

import math

import numpy as np

from hbm_learn._kernels import score, two_values

# Exponents that a float's exponential can hold.
_LARGEST = 700.0


def residuals(eta: np.ndarray, gap: float, side: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """w (O(x) − ⟨O⟩) (B, R), and the probabilities of what was seen, for η (B, R); side is 1 at O₁, −1 at O₀."""
    odds = eta * (gap * side)
    np.clip(odds, -_LARGEST, _LARGEST, out=odds)
    np.exp(odds, out=odds)
    rest = 1.0 / (1.0 + odds)
    odds *= rest
    rest *= w * (gap * side)
    return rest, odds


def variances(eta: np.ndarray, gap: float, w: np.ndarray) -> np.ndarray:
    """w Var O of η (…, R)."""
    e = np.exp(-np.minimum(np.abs(gap * eta), _LARGEST))
    e /= (1.0 + e) ** 2
    e *= gap**2 * w
    return e


def tail(
    eta: np.ndarray, h: np.ndarray, O: np.ndarray, x: np.ndarray, w: np.ndarray, least: float
) -> tuple[float, float, float]:
    """z, S and V as in the kernel ``score.tail``, for η and h (R,)."""
    gap = float(O[1, 0] - O[0, 0])
    d, delta = np.clip(gap * eta, -_LARGEST, _LARGEST), gap * h
    E, p, reach = np.exp(d), np.empty_like(d), np.empty_like(d)
    S, V, highest, lowest = two_values.scores(E, delta, x, w, p, reach)
    if not V > 0.0:
        return 0.0, S, V
    z = S / math.sqrt(V)
    if abs(z) <= least:
        return z, S, V
    if abs(S) >= (1.0 - score.EDGE) * (highest if S > 0.0 else -lowest):
        return score.tail(eta[None], h[None], O, x, w, least)
    t, K, K2 = _solve(d, E, p, delta, reach, w, S, V)
    most = math.sqrt(max(-2.0 * float(w @ np.log(np.where(x == 1, E, 1.0) / (1.0 + E))), 0.0))
    root = math.sqrt(max(2.0 * (t * S - K), 0.0))
    u = abs(t) * math.sqrt(K2)
    size = abs(z) if root < 1e-3 or not u > 0.0 else max(root + math.log(u / root) / root, 0.0)
    return math.copysign(min(size, most), S), S, V


class _Rows:
    """Rows whose |t φ| may be large for |t| ≤ limit, and the cumulants of the others."""

    def __init__(self, d, E, p, delta, reach, w, limit):
        bound = score.SMALL / limit
        self.k2, self.k3, self.k4 = two_values.small_rows(E, delta, w, reach, bound)
        large = reach > bound
        every = large.all()
        self.d, self.p, self.delta, self.w = (a if every else a[large] for a in (d, p, delta, w))
        self.buffer = np.empty_like(self.d)

    def slopes(self, t: float) -> tuple[float, float]:
        """K' and K''."""
        k2, k3, k4 = self.k2, self.k3, self.k4
        two_values.tilt(self.d, self.delta, t, self.buffer)
        np.exp(self.buffer, out=self.buffer)
        K1, K2 = two_values.tilted(self.buffer, self.p, self.delta, self.w)
        return K1 + t * (k2 + t * (k3 / 2.0 + t * k4 / 6.0)), K2 + k2 + t * (k3 + t * k4 / 2.0)

    def value(self, t: float) -> float:
        """K."""
        series = t * t * (self.k2 / 2.0 + t * (self.k3 / 6.0 + t * self.k4 / 24.0))
        two_values.tilt(self.d, self.delta, t, self.buffer)
        growth = _softplus(self.buffer) - _softplus(self.d) - t * self.p * self.delta
        return series + float(self.w @ growth)


def _softplus(y: np.ndarray) -> np.ndarray:
    return np.maximum(y, 0.0) + np.log(1.0 + np.exp(-np.abs(y)))


def _solve(d, E, p, delta, reach, w, S, V):
    """t with K'(t) = S, then K(t) and K''(t). K' increases, so that Newton keeps to a bracket."""
    t = S / V
    limit = 2.0 * abs(t)
    rows = _Rows(d, E, p, delta, reach, w, limit)
    low, high = (0.0, math.inf) if S > 0.0 else (-math.inf, 0.0)
    for _ in range(score.NEWTON):
        if abs(t) > limit:
            limit = 2.0 * abs(t)
            rows = _Rows(d, E, p, delta, reach, w, limit)
        K1, K2 = rows.slopes(t)
        if K1 > S:
            high = t
        else:
            low = t
        new, enough = t + (S - K1) / K2 if K2 > 0.0 else math.nan, 1e-6  # the next step would be its square
        if not low < new < high:
            # A bracket open towards infinity is widened.
            new, enough = 2.0 * t if math.isinf(low) or math.isinf(high) else 0.5 * (low + high), 1e-9
        near, t = abs(new - t) <= enough * abs(t), new
        if near:
            break
    return t, rows.value(t), rows.slopes(t)[1]
