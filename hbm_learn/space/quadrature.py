"""Gauss–Legendre panels for exp(b x − c x²/2) on an interval, laid where the weight is.

A fixed grid misses a weight that is concentrated within 1/|b| of an end. The exponent is a parabola, so on each side
of its vertex it is monotone, and the part within DEPTH of its maximum is an interval known in closed form. One panel on
each side of the vertex, with ORDER nodes, integrates that part to about 1e-15; what is left out is below exp(−DEPTH).
"""

from __future__ import annotations

import numpy as np

ORDER = 40
DEPTH = 42.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(ORDER)
_T, _W = 0.5 * (_NODES + 1.0), 0.5 * _WEIGHTS


def interval_nodes(b: np.ndarray, c: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and log weights of shape b.shape + (2·ORDER,) for ∫ exp(b x − c x²/2) f(x) dx over [low, high]."""
    b, c = np.asarray(b, dtype=np.float64), np.asarray(c, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        vertex = np.where(c != 0, b / c, np.inf)
    vertex = np.where(np.isfinite(vertex), vertex, np.inf)
    split = np.where((vertex > low) & (vertex < high), vertex, 0.5 * (low + high))

    peak = np.maximum.reduce([_exponent(b, c, x) for x in (np.full_like(split, low), split, np.full_like(split, high))])
    left = _window(b, c, np.full_like(split, low), split, peak)
    right = _window(b, c, split, np.full_like(split, high), peak)
    x = np.concatenate([a[..., None] + (z - a)[..., None] * _T for a, z in (left, right)], axis=-1)
    with np.errstate(divide="ignore"):
        log_w = np.concatenate([np.log(z - a)[..., None] + np.log(_W) for a, z in (left, right)], axis=-1)
    return x, log_w


def _exponent(b: np.ndarray, c: np.ndarray, x: np.ndarray) -> np.ndarray:
    return b * x - 0.5 * c * x**2


def _window(
    b: np.ndarray, c: np.ndarray, a: np.ndarray, z: np.ndarray, peak: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The part of [a, z], where the exponent g is monotone, with g ≥ peak − DEPTH (empty parts collapse to a point)."""
    ga, gz = _exponent(b, c, a), _exponent(b, c, z)
    rising = gz >= ga
    top = np.where(rising, z, a)  # the end with the larger exponent
    other = np.where(rising, a, z)
    # Distance s from the top at which g has fallen to peak − DEPTH:  slope·s + curvature·s²/2 = drop
    sign = np.where(rising, -1.0, 1.0)
    slope = -sign * (b - c * top)  # ≥ 0: how fast g falls when leaving the top
    drop = DEPTH - (peak - np.maximum(ga, gz))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        root = np.sqrt(np.maximum(slope**2 + 2 * c * drop, 0.0))
        s = 2 * drop / (slope + root)
    s = np.where(np.isfinite(s), s, np.inf)
    # For c < 0 the parabola may turn before falling that far; on a monotone piece that means: keep all of it.
    s = np.where(slope**2 + 2 * c * drop <= 0, np.inf, s)
    length = np.minimum(np.abs(top - other), np.maximum(s, 0.0))
    end = top + sign * length
    return np.where(drop > 0, np.minimum(top, end), a), np.where(drop > 0, np.maximum(top, end), a)
