"""Two variables solved exactly, for every pair of finite sites: what the closed form lacks between two sites alone.

The exact coupling of two sites is the J of

    P(x, y) ∝ α(x) β(y) exp(φ(x) J ψ(y)ᵀ)

with the data's frequencies of x and y and covariances of φ and ψ. Where φ and ψ span all functions of their sites
(labels, two values) the table P is known, and J is a projection of its logarithm; elsewhere Newton's method finds it,
for all pairs of sites of one shape at once.
"""

from __future__ import annotations

import numpy as np

from hbm_learn._kernels.clusters import two_exact
from hbm_learn.data.moments import Moments
from hbm_learn.space import Space

_CHUNK = 2**21
_ITERATIONS = 30


def upper_share(moments: Moments) -> np.ndarray:
    """(n,) probability of the larger φ of two-valued sites."""
    low, high = moments.space.padded[:, 0], moments.space.padded[:, 1]
    share = (moments.mean - np.minimum(low, high)) / np.abs(high - low)
    return np.clip(share, 1e-12, 1.0 - 1e-12)


def exact_less_closed(moments: Moments, R: np.ndarray, s: np.ndarray, least: float, most: int | None) -> np.ndarray:
    """(N, N) Δ_ab in units of standard deviations, zero within sites and where a cell is rarer than ``least``.

    Parameters
    ----------
    moments : Moments
        Of finite sites; in the standard gauge where a site has several functions.
    R : (N, N) array
        Correlations.
    s : (N,) array
        Standard deviations.
    least : float
        Smallest probability of a cell that counts as known.
    most : int or None
        So many pairs of sites, evenly chosen, where variables have more than two values; the others are NaN.
    """
    space = moments.space
    if space.is_binary:
        return two_exact(R, upper_share(moments), least)
    tables = _standard_tables(moments, s)
    rows, columns = np.tril_indices(space.n_features, -1)
    out = np.zeros_like(R)
    if most is not None and len(rows) > most:
        chosen = np.linspace(0, len(rows) - 1, most).astype(int)
        rows, columns = rows[chosen], columns[chosen]
        out = np.where(space.site[:, None] == space.site, 0.0, np.nan)
    shape = np.array([[*t.shape] for t in tables])
    kinds = np.column_stack([shape[rows], shape[columns]])
    for kind in np.unique(kinds, axis=0):
        group = np.flatnonzero((kinds == kind).all(axis=1))
        step = max(1, _CHUNK // int(kind[0] * kind[2] * (kind[0] + kind[2] + kind[1] * kind[3])))
        for lo in range(0, len(group), step):
            some = group[lo : lo + step]
            _fill(out, R, tables, moments.frequencies, space, rows[some], columns[some], least)
    return out


def _standard_tables(moments: Moments, s: np.ndarray) -> list[np.ndarray]:
    """(q_i, r_i) functions of each site about their means, in units of ``s``."""
    space = moments.space
    edges = zip(space.column_ptr[:-1], space.column_ptr[1:])
    return [(np.asarray(phi) - moments.mean[lo:hi]) / s[lo:hi] for phi, (lo, hi) in zip(space.functions, edges)]


def _fill(
    out: np.ndarray,
    R: np.ndarray,
    tables: list[np.ndarray],
    frequencies: list[np.ndarray],
    space: Space,
    i: np.ndarray,
    j: np.ndarray,
    least: float,
) -> None:
    """Δ of the pairs (i, j) of sites, whose tables have one shape each."""
    phi, psi = np.array([tables[k] for k in i]), np.array([tables[k] for k in j])
    p, q = np.array([frequencies[k] for k in i]), np.array([frequencies[k] for k in j])
    a = space.column_ptr[i][:, None] + np.arange(phi.shape[2])
    b = space.column_ptr[j][:, None] + np.arange(psi.shape[2])
    C = R[a[:, :, None], b[:, None, :]]
    saturated = phi.shape[2] == phi.shape[1] - 1 and psi.shape[2] == psi.shape[1] - 1
    exact, known = (_saturated if saturated else couplings_of_pairs)(phi, psi, p, q, C, least)
    # −[[1, C], [Cᵀ, 1]]⁻¹ off the diagonal, V = 1 within sites
    closed = np.linalg.solve(np.eye(C.shape[2]) - np.swapaxes(C, 1, 2) @ C, np.swapaxes(C, 1, 2))
    found = np.where(known[:, None, None], exact - np.swapaxes(closed, 1, 2), 0.0)
    out[a[:, :, None], b[:, None, :]] = found
    out[b[:, :, None], a[:, None, :]] = np.swapaxes(found, 1, 2)


def _saturated(
    phi: np.ndarray, psi: np.ndarray, p: np.ndarray, q: np.ndarray, C: np.ndarray, least: float
) -> tuple[np.ndarray, np.ndarray]:
    """J_ab = Σ p q φ_a ψ_b ln(1 + φ C ψᵀ), φ and ψ orthonormal under p and q; and whether all cells are known."""
    ratio = 1.0 + phi @ C @ np.swapaxes(psi, 1, 2)
    joint = p[:, :, None] * q[:, None, :]
    known = ((ratio * joint) > least).all(axis=(1, 2))
    ln = np.log(np.where(ratio > 0, ratio, 1.0))
    return np.swapaxes(phi, 1, 2) @ (joint * ln) @ psi, known


def couplings_of_pairs(
    phi: np.ndarray, psi: np.ndarray, p: np.ndarray, q: np.ndarray, C: np.ndarray, least: float
) -> tuple[np.ndarray, np.ndarray]:
    """(g, r, r′) J of g pairs of sites with marginals p, q and covariances C of φ and ψ, and whether it was found.

    Newton on the concave dual of the maximum entropy; steps are cut where they change a logarithm by more than two.
    """
    g, Q, Qp = len(C), phi.shape[1], psi.shape[1]
    features = _features(phi, psi)
    base = (np.log(np.maximum(p, 1e-300))[:, :, None] + np.log(np.maximum(q, 1e-300))[:, None, :]).reshape(g, -1)
    n_own = Q + Qp - 2
    target = np.concatenate([p[:, 1:], q[:, 1:], C.reshape(g, -1)], axis=1)
    theta = np.zeros((g, features.shape[2]))
    known = np.zeros(g, dtype=bool)
    for _ in range(_ITERATIONS):
        exponent = base + np.einsum("gsk,gk->gs", features, theta)
        w = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        w /= w.sum(axis=1, keepdims=True)
        mean = np.einsum("gs,gsk->gk", w, features)
        gap = target - mean
        known = (np.abs(gap).max(axis=1) < 1e-11) & (w.min(axis=1) > least)
        if (np.abs(gap).max(axis=1) < 1e-12).all():
            break
        H = np.swapaxes(features, 1, 2) @ (w[:, :, None] * features) - mean[:, :, None] * mean[:, None, :]
        H += 1e-14 * np.eye(H.shape[1])
        step = np.linalg.solve(H, gap[:, :, None])[:, :, 0]
        size = np.abs(np.einsum("gsk,gk->gs", features, step)).max(axis=1)
        theta += step * np.minimum(1.0, 2.0 / np.maximum(size, 1e-300))[:, None]
    return theta[:, n_own:].reshape(C.shape), known


def _features(phi: np.ndarray, psi: np.ndarray) -> np.ndarray:
    """(g, QQ′, K): indicators of all values but the first of each site, and the products φ_a ψ_b."""
    g, Q, r = phi.shape
    Qp, rp = psi.shape[1:]
    x = np.broadcast_to(np.eye(Q)[None, :, None, 1:], (g, Q, Qp, Q - 1))
    y = np.broadcast_to(np.eye(Qp)[None, None, :, 1:], (g, Q, Qp, Qp - 1))
    both = (phi[:, :, None, :, None] * psi[:, None, :, None, :]).reshape(g, Q, Qp, r * rp)
    return np.concatenate([x, y, both], axis=3).reshape(g, Q * Qp, -1)
