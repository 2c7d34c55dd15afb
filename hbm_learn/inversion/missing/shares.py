"""How much of the information of complete rows is left where cells are missing, for each parameter.

    F = Cov(t),     I = Cov_r(⟨t | obs_r⟩) = F − ⟨Cov(t | obs_r)⟩,     f_μ = (F⁻¹)_μμ / (I⁻¹)_μμ
    (F⁻¹)_μμ ≈ (1 + Σ_{ν≠μ} ρ_μν²) / F_μμ,     ρ_μν = F_μν / √(F_μμ F_νν),  and so for I

in the standard gauge, where F is near the identity. M rows tell of J_μ what M f_μ complete ones would. The matrices are
inverted while rows are many; beyond, the second line serves. Rows fall into two halves: of the products of their
correlations, the noise has mean zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hbm_learn import linalg
from hbm_learn.data.incomplete import FilledRows
from hbm_learn.data.moments import Moments
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.likelihood.walkers import statistics
from hbm_learn.inversion.parameters import Parameters

# The least share: what was never seen together leans on the prior.
LEAST = 0.01
# Entries of t that are held at once, multiplications for the covariances, and parameters whose correlations with all
# others are looked at; those of one order have about the same.
_HELD, _FLOPS, _SOME = 2**22, 1e10, 2000
# Rows for each parameter from which the matrices themselves are inverted.
_ROWS_A_PARAMETER = 60


def from_copies(parameters: Parameters, rows: FilledRows) -> np.ndarray:
    """(P,) f, from the spread of t between the rows and among the copies of each."""
    space = parameters.space.standard(parameters.frequencies)
    standard = Parameters(space, parameters.columns, parameters.site, parameters.frequencies)
    P = standard.n_params
    some = _some(standard)
    order = np.argsort(rows.row, kind="stable")
    starts = np.flatnonzero(np.diff(rows.row[order], prepend=-1))
    stride = max(1, int(4.0 * P * len(some) * len(starts) / _FLOPS))
    shuffled = np.random.default_rng(0).permutation(len(starts))[::stride]
    halves = [_Spread.of(standard, rows, order, starts, half, some) for half in (shuffled[::2], shuffled[1::2])]
    m = rows.n_copies
    if len(some) == P and len(shuffled) >= _ROWS_A_PARAMETER * P:
        exact = _by_inverses(halves, m)
        if exact is not None:
            return np.clip(standard.block_means(exact), LEAST, 1.0)
    between, within = (sum(getattr(h, name) for h in halves) / 2 for name in ("between", "within"))
    F, I = between + within * (1.0 - 1.0 / m), np.maximum(between - within / m, 0.0)
    f = np.divide(I, F, out=np.ones(P), where=F > 0)
    ratio = (1.0 + _squares(halves, some, 1.0 - 1.0 / m)) / (1.0 + _squares(halves, some, -1.0 / m))
    return np.clip(standard.block_means(f) * _everywhere(standard, some, np.minimum(ratio, 1.0)), LEAST, 1.0)


@dataclass(frozen=True, eq=False)
class _Spread:
    """Variances of t between rows and within them (P,), and their covariances with some of t, (S, P)."""

    between: np.ndarray
    within: np.ndarray
    covariance: np.ndarray
    inner: np.ndarray

    @classmethod
    def of(
        cls,
        parameters: Parameters,
        rows: FilledRows,
        order: np.ndarray,
        starts: np.ndarray,
        half: np.ndarray,
        some: np.ndarray,
    ) -> _Spread:
        """Of the rows ``half``: row k is ``order[starts[k] : starts[k + 1]]`` of those filled in."""
        P, m = parameters.n_params, rows.n_copies
        ends = np.append(starts[1:], len(order))
        total, mean, inner = 0.0, np.zeros(P), np.zeros((len(some), P), dtype=np.float32)
        second = np.zeros((len(some), P), dtype=np.float32)
        squares, spread = np.zeros(P), np.zeros(P)
        step = max(1, _HELD // (P * m))
        for lo in range(0, len(half), step):
            mine = half[lo : lo + step]
            # Complete rows are there once, and take part as copies that do not differ.
            at = order[np.minimum(starts[mine, None] + np.arange(m), ends[mine, None] - 1)]
            t = statistics(parameters, rows.codes[at.ravel()]).reshape(P, len(mine), m)
            w = rows.weights[at[:, 0]] * (ends[mine] - starts[mine])
            root = np.sqrt(w).astype(np.float32)
            y, d = t.mean(axis=2) * root, (t[:, :, 0] - t[:, :, 1]) * (root * np.float32(np.sqrt(0.5)))
            total, mean = total + w.sum(), mean + y @ root
            squares += (y.astype(np.float64) ** 2).sum(axis=1)
            spread += (((t - t.mean(axis=2, keepdims=True)) ** 2).sum(axis=2) / (m - 1.0)) @ w
            second += y[some] @ y.T
            inner += d[some] @ d.T
        mean /= total
        covariance = second / total - np.outer(mean[some], mean)
        return cls(squares / total - mean**2, spread / total, covariance, inner / total)


def _by_inverses(halves: list[_Spread], m: int) -> np.ndarray | None:
    """(P,) f itself, by the inverses of both matrices; None where I is not positive definite.

    Both are of as many rows, whose noise enlarges both diagonals by the same factor.
    """
    between, within = (sum(getattr(h, name) for h in halves) / 2 for name in ("covariance", "inner"))
    whole = linalg.spd_inverse(np.array(between + within * (1.0 - 1.0 / m), dtype=np.float64, order="C"))[0]
    there = linalg.spd_inverse(np.array(between - within / m, dtype=np.float64, order="C"))[0]
    return None if whole is None or there is None else np.diag(whole) / np.diag(there)


def _squares(halves: list[_Spread], some: np.ndarray, share: float) -> np.ndarray:
    """(S,) Σ_ν ρ_μν² of covariances between rows and a share of those within, by the product of both halves."""
    found = []
    for half in halves:
        variances = np.maximum(half.between + share * half.within, 1e-12)
        rho = (half.covariance + share * half.inner) / np.sqrt(variances[some, None] * variances)
        rho[np.arange(len(some)), some] = 0.0
        found.append(rho)
    return np.maximum((found[0] * found[1]).sum(axis=1), 0.0)


def _some(parameters: Parameters) -> np.ndarray:
    """Parameters whose correlations are looked at: all, or some of each order."""
    if parameters.n_params <= _SOME:
        return np.arange(parameters.n_params)
    rng, columns = np.random.default_rng(0), parameters.columns
    groups = [np.arange(parameters.n_own)]
    groups += [parameters.n_own + np.arange(columns.slice(k).start, columns.slice(k).stop) for k in columns.orders]
    most = _SOME // (8 * len(groups))
    return np.sort(np.concatenate([rng.permutation(group)[:most] for group in groups]))


def _everywhere(parameters: Parameters, some: np.ndarray, ratio: np.ndarray) -> np.ndarray:
    """(P,) from what was found of some: the mean of its order for each of the others."""
    out, columns = np.ones(parameters.n_params), parameters.columns
    edges = [0, parameters.n_own, *(parameters.n_own + columns.slice(k).stop for k in columns.orders)]
    for lo, hi in pairwise(edges):
        mine = (some >= lo) & (some < hi)
        if mine.any():
            out[lo:hi] = ratio[mine].mean()
    out[some] = ratio
    return out


def from_counts(parameters: Parameters, moments: Moments) -> np.ndarray:
    """(P,) the share of the rows in which all variables of a parameter were observed."""
    space = parameters.space
    alone = Interactions.from_blocks([space.column_ptr[:-1, None]], space.n_columns)
    own = np.repeat(moments.n_observed(alone), np.diff(parameters.own_ptr))
    counts = np.concatenate([own, moments.n_observed(parameters.columns)])
    return np.clip(counts / moments.n_samples, LEAST, 1.0)
