"""Tails of efficient scores, exact enough for rare events.

    K(t) = Σ_r w_r ln Σ_v p_r(v) e^{tφ_r(v)},   K'(t) = S,   w = sgn(t) √(2(tS − K)),   u = t √K'',   z = w + ln(u/w)/w

S = Σ_r w_r φ_r(x_r) has mean zero and variance V under the null; where |S|/√V ≤ 2 that is z itself. z acts as mid-p. At
the edge of its support S has no t, and mid-p is half the probability of that edge. A block of d scores is taken in the
one direction V⁻¹S that carries all of its χ² = SᵀV⁻¹S: z² there, with the saddlepoint, is referred to χ² with d degrees
of freedom. No z exceeds what the probability of the data allows: a tail contains the outcome that was seen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special, stats

from hbm_learn._kernels import score
from hbm_learn.assessment import two_values
from hbm_learn.assessment.nodes import Node

# Below this the normal reference is as good.
GAUSSIAN = 2.0
# Efficient variance that counts as none, relative to the variance before the projection.
SINGULAR = 1e-6
# The smallest p-value from which a normal deviate can be computed.
_SMALLEST = 1e-300


class Direction(NamedTuple):
    """What a block of d scores S (T, d) with covariances V (T, d, d) says before the saddlepoint, T terms at once.

    Attributes
    ----------
    t : (T, d) array
        V⁻¹S.
    chi2 : (T,) array
        SᵀV⁻¹S.
    df : (T,) array
        Directions with variance; none: p = 1.
    """

    t: np.ndarray
    chi2: np.ndarray
    df: np.ndarray

    @property
    def doubtful(self) -> np.ndarray:
        """(T,) where the saddlepoint is wanted."""
        if self.t.shape[1] == 1:
            return self.chi2 > GAUSSIAN**2
        return stats.chi2.sf(self.chi2, np.maximum(self.df, 1)) < 2.0 * stats.norm.sf(GAUSSIAN)


def direction(S: np.ndarray, V: np.ndarray, before: np.ndarray) -> Direction:
    """Where the scores point; ``before`` (T, d) are their variances before the projection."""
    if S.shape[1] == 1:
        v = V[:, 0, 0]
        kept = (v > SINGULAR * before[:, 0]) & (before[:, 0] > 0.0)
        t = np.divide(S[:, 0], v, out=np.zeros(len(v)), where=kept)
        return Direction(t[:, None], t * S[:, 0], kept.astype(np.intp))
    root = np.sqrt(np.maximum(before, 1e-300))
    correlation = V / root[:, :, None] / root[:, None, :]
    values, vectors = np.linalg.eigh(0.5 * (correlation + correlation.transpose(0, 2, 1)))
    kept = (values > SINGULAR) & (before.max(axis=1, keepdims=True) > 0.0)
    along = np.einsum("ti,tij->tj", S / root, vectors)
    scaled = np.divide(along, values, out=np.zeros_like(along), where=kept)
    t = np.einsum("tj,tij->ti", scaled, vectors) / root
    return Direction(t, np.einsum("tj,tj->t", along, scaled), kept.sum(axis=1))


def tail(node: Node, eta: np.ndarray, h: np.ndarray) -> tuple[float, float]:
    """z and V of the score along h (o, R) where the node's natural parameters are η (o, R)."""
    if node.is_binary:
        z, _, V = two_values.tail(eta[0], h[0], node.O, node.x, node.weights, GAUSSIAN)
    else:
        z, _, V = score.tail(eta, h, node.O, node.x, node.weights, GAUSSIAN)
    return float(z), float(V)


def p_values(z: np.ndarray, df: np.ndarray) -> np.ndarray:
    """Of deviates, or of roots of χ² where df > 1; 1 where nothing could be tested."""
    if (df == 1).all():
        return 2.0 * special.ndtr(-np.abs(z))
    return np.where(df > 0, stats.chi2.sf(z**2, np.maximum(df, 1)), 1.0)


def deviates(z: np.ndarray, df: np.ndarray) -> np.ndarray:
    """Signed z where df = 1; for a block the normal deviate with the same two-sided p-value; 0 without df."""
    same = stats.norm.isf(0.5 * np.maximum(p_values(z, df), _SMALLEST))
    return np.where(df == 0, 0.0, np.where(df == 1, z, same))
