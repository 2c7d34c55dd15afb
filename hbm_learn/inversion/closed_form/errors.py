"""Sampling errors of the closed form, as those of Gaussian data (Isserlis)."""

from __future__ import annotations

from itertools import permutations
from math import prod

import numpy as np

from hbm_learn.data.moments import Moments
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.result import block_statistic
from hbm_learn.terms import Terms

# What was seen together in fewer rows than this counts as seen so often: its error stays finite.
FEWEST = 0.5


def products(s: np.ndarray, columns: Interactions) -> np.ndarray:
    """(p,) Π s over the members of each set."""
    parts = [prod(s[column] for column in columns.block(k).T) for k in columns.orders]
    return np.concatenate(parts) if parts else np.zeros(0)


def rows_for_one(moments: Moments, columns: Interactions) -> np.ndarray:
    """(p,) M over the rows that have all variables of each set: where cells are missing a moment has its own count."""
    if moments.is_complete:
        return np.ones(len(columns))
    return moments.n_samples / np.maximum(moments.n_observed(columns), FEWEST)


def permanents(P: np.ndarray, block: np.ndarray, other: np.ndarray | None = None) -> np.ndarray:
    """perm(P[μ, ν]) for rows μ of ``block`` and ν of ``other`` (μ itself by default).

    M · Cov(Π Y_μ, Π Y_ν) for Gaussian Y with covariance P and distinct members.
    """
    if block.shape[1] == 2 and other is None:
        diagonal = np.diag(P)
        return diagonal[block[:, 0]] * diagonal[block[:, 1]] + P[tuple(block.T)] ** 2
    if block.shape[1] == 3 and other is None:  # the six permutations, with six look-ups
        a, b, c = block.T
        aa, bb, cc, ab, bc, ac = P[a, a], P[b, b], P[c, c], P[a, b], P[b, c], P[a, c]
        return aa * (bb * cc + bc**2) + bb * ac**2 + cc * ab**2 + 2 * ab * bc * ac
    other = block if other is None else other
    total = np.zeros(len(block))
    for image in permutations(range(block.shape[1])):
        term = np.ones(len(block))
        for i, j in enumerate(image):
            term *= P[block[:, i], other[:, j]]
        total += term
    return total


def mean_permanent(noise: np.ndarray, site: np.ndarray) -> float:
    """perm(noise[μ, μ]) averaged over all μ of columns of three different sites, by sums over two."""
    d = np.diag(noise)
    off = np.where(site[:, None] != site, noise, 0.0)
    D, r = np.bincount(site, d), np.bincount(site).astype(np.float64)
    mixed = float(np.sum(off**2 * (d.sum() - D[site][:, None] - D[site])))
    cycles = float(np.vdot(off @ off, off))
    return (_over_different(D) + 3.0 * mixed + 2.0 * cycles) / _over_different(r)


def _over_different(x: np.ndarray) -> float:
    """Σ x_i x_j x_k over different i, j, k."""
    total = float(x.sum())
    return total**3 - 3.0 * total * float(x @ x) + 2.0 * float(np.sum(x**3))


def statistics(
    terms: Terms,
    derivatives: np.ndarray,
    shrink: np.ndarray,
    spread: np.ndarray,
    P: np.ndarray,
    M: float,
    fewer: np.ndarray,
) -> np.ndarray:
    """(p,) χ² of each term: derivatives of the free energy in their sampling errors.

    Parameters
    ----------
    derivatives : array over the sets of columns
        −P_ab, W_abc, U_abcd, as the prior leaves them.
    shrink : array over the sets of columns
        The share that it leaves.
    spread : array over the sets of columns
        Sampling variances, before the prior.
    P : (N, N) array
        The covariance of the dual variables.
    M : float
    fewer : array over the sets of columns
        So many rows are worth one, see ``rows_for_one``.
    """
    columns = terms.columns
    variance = shrink**2 * spread
    squares = np.divide(derivatives**2, variance, out=np.zeros_like(variance), where=variance > 0)
    out = terms.sum(squares)
    for r in np.flatnonzero(terms.df > 1):
        where = terms.positions(r)
        block = np.array([_members(columns, c) for c in where])
        left, right = np.repeat(np.arange(len(where)), len(where)), np.tile(np.arange(len(where)), len(where))
        C = permanents(P, block[left], block[right]).reshape(len(where), -1) / M
        C *= float(np.mean(fewer[where]))
        out[r] = block_statistic(derivatives[where] / shrink[where], C) if np.isfinite(M) else 0.0
    return out


def _members(columns: Interactions, r: int) -> np.ndarray:
    return columns.members[columns.indptr[r] : columns.indptr[r + 1]]


def pair_weights_with_triplets(
    posterior: np.ndarray, columns: Interactions, shrink: np.ndarray, P: np.ndarray, m: np.ndarray, M: float
) -> np.ndarray:
    """(p,) variances of the weights: J_ab also carries the noise of Σ_c J_abc m_c.

    With u = Σ_{c≠a,b} m_c Y_c that is perm(P[(a, b, u), (a, b, u)])/M.
    """
    pairs = columns.slice(2)
    if columns.order < 3 or not pairs.stop:
        return posterior
    a, b = columns.block(2).T
    Pm = P @ m
    au = Pm[a] - P[a, a] * m[a] - P[a, b] * m[b]
    bu = Pm[b] - P[b, a] * m[a] - P[b, b] * m[b]
    uu = m @ Pm - 2 * (m[a] * Pm[a] + m[b] * Pm[b])
    uu += m[a] ** 2 * P[a, a] + m[b] ** 2 * P[b, b] + 2 * m[a] * m[b] * P[a, b]
    aa, bb, ab = P[a, a], P[b, b], P[a, b]
    permanent = aa * bb * uu + aa * bu**2 + bb * au**2 + uu * ab**2 + 2 * ab * au * bu
    out = posterior.copy()
    out[pairs] += float(np.mean(shrink[columns.slice(3)])) * permanent / M
    return out


def field_errors(P: np.ndarray, m: np.ndarray, V: np.ndarray, M: float, independent: bool, order: int) -> np.ndarray:
    """(N,) standard deviations of the fields by the delta method with Gaussian noise.

    h = b(m, v) − m/V + P m + …: the noise of the means enters through P, that of the couplings through m.
    """
    if independent:
        return np.sqrt(1.0 / (V * M))
    Pm = P @ m
    mPm = float(m @ Pm)
    variance = np.diag(P) * (1.0 + mPm) + Pm**2
    if order >= 3:
        variance = variance + 0.25 * (2 * np.diag(P) * mPm**2 + 4 * Pm**2 * mPm)
    return np.sqrt(variance / M)
