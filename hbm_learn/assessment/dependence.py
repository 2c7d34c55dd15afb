"""Rows that depend on each other: how many of them are worth one.

    g = Var(Σ_rows s) / Σ_rows Var(s),     s = t_μ(x) − ⟨t_μ⟩ in the standard gauge

With groups, sums within a group are independent of one another; without, rows that follow each other in time show by
their integrated autocorrelation time, 1 + 2 Σ_lag ρ(lag). M rows are worth M/g.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import fft

from hbm_learn.assessment.node_data import frequencies
from hbm_learn.data.coding import is_missing
from hbm_learn.data.samples import Samples
from hbm_learn.interactions import Interactions
from hbm_learn.space import MISSING, Space

# Sets of columns of each order that are looked at, and rows in a stretch of time.
_SETS, _ROWS = 24, 4096
# Above this, rows are said to depend on each other.
LIMIT = 1.5
# The window of the autocorrelation sum: the first lag that is so many times the sum up to it (Sokal).
_WINDOW = 5.0
FEWEST_GROUPS = 10


def check_groups(groups: Any, n_samples: int) -> np.ndarray:
    """(M,) numbers of the groups 0 … G − 1; ValueError that says what is wrong."""
    labels = np.asarray(groups)
    if labels.ndim != 1 or len(labels) != n_samples:
        raise ValueError(f"groups has shape {labels.shape}, X has {n_samples} rows: give one label for each row of X.")
    missing = np.isnan(labels) if labels.dtype.kind == "f" else np.frompyfunc(is_missing, 1, 1)(labels).astype(bool)
    if missing.any():
        raise ValueError("groups has missing labels: give every row a group, or leave such rows out.")
    found, numbers = np.unique(labels.astype(str) if labels.dtype == object else labels, return_inverse=True)
    if len(found) < FEWEST_GROUPS:
        raise ValueError(
            f"groups has {len(found)} different labels: the spread between groups is not known from fewer than "
            f"{FEWEST_GROUPS}; put the group among the columns (a triplet with it is a difference between groups)."
        )
    return numbers.ravel()


def design_effects(samples: Samples, columns: Interactions, groups: np.ndarray) -> dict[int, float]:
    """{order: g}, at least 1, averaged over some of the sets of each order; order 1 is that of single columns."""
    codes, w = _rows(samples, None)
    out = {}
    G = int(groups.max()) + 1
    for k, s in _scores(samples.space, codes, w, columns).items():
        s *= w[:, None]
        within = np.zeros((G, s.shape[1]))
        np.add.at(within, groups, s)
        ratio = (within**2).sum(axis=0) / np.maximum((s**2).sum(axis=0), 1e-300) * G / (G - 1.0)
        out[k] = max(1.0, float(ratio.mean()))
    return out


def autocorrelation_time(samples: Samples, columns: Interactions) -> float:
    """g of the rows as they follow each other: the largest of the means over the sets of each order."""
    codes, w = _rows(samples, _ROWS)
    if len(codes) < 64:
        return 1.0
    scores = _scores(samples.space, codes, w, columns)
    return max([1.0, *(float(np.mean(_integrated(s))) for s in scores.values() if len(s))])


def _rows(samples: Samples, most: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Codes and weights of the rows in their order, the first ``most`` of them."""
    if most is None and samples.stays:
        raise ValueError(
            f"groups=… needs the {samples.n_samples} rows of X here, which stay with the workers of dask: give a part "
            "of X that memory holds, or leave groups out."
        )
    if most is None and samples.is_large_as_codes:
        raise ValueError(
            f"groups=… looks at all {samples.n_samples} × {samples.n_features} cells of the sparse X, "
            f"{samples.n_samples * samples.n_features / 2**30:.1f} GiB of them: give fewer rows, or leave groups out."
        )
    codes, w = samples.first(samples.n_samples if most is None else most)
    return codes, np.ones(len(codes)) if w is None else w.astype(float)


def _scores(space: Space, codes: np.ndarray, w: np.ndarray, columns: Interactions) -> dict[int, np.ndarray]:
    """{order: (rows, sets) centred products} of single columns and of some sets of each order.

    Where columns are given, what is linear in them is taken out of the others and of the products: rows that are alike
    because what is given is alike may still be independent. What was not seen says nothing.
    """
    missing = (codes == MISSING) & ~space.given
    shares = frequencies(space, codes, w)
    seen = [np.count_nonzero(p) for p, given in zip(shares, space.given) if not given]
    if min(seen) < 2:  # a stretch in which nothing happens says nothing
        codes, missing, shares = codes[:0], missing[:0], [np.full(q, 1.0 / q) for q in space.sizes]
    gaps = bool(missing.any())
    u = space.standard([p + 1e-12 for p in shares]).columns(np.where(missing, 0, codes) if gaps else codes)
    there = ~missing[:, space.site] if gaps else None
    given = space.given[space.site]
    if given.any():
        u[:, ~given] = _less_given(u[:, ~given], u[:, given], w[: len(u)], None if there is None else there[:, ~given])
    found = {1: _evenly(np.flatnonzero(~given)[:, None])}
    found |= {k: _evenly(columns.block(k)) for k in columns.orders}
    out = {}
    for k, sets in found.items():
        s = np.prod(u[:, sets], axis=2)
        seen_there = None if there is None else there[:, sets].all(axis=2)
        out[k] = _less_given(s, u[:, given], w[: len(s)], seen_there) if len(s) else s
    return out


def _less_given(s: np.ndarray, z: np.ndarray, w: np.ndarray, there: np.ndarray | None = None) -> np.ndarray:
    """(rows, k) s less its weighted regression on 1 and the given columns z; 0 where it is not there."""
    if there is not None:
        columns = [_less_given(x[:, None], z, w * seen) * seen[:, None] for x, seen in zip(s.T, there.T)]
        return np.concatenate(columns, axis=1)
    if not z.shape[1] or not len(s):
        return s - (w @ s) / max(w.sum(), 1e-300)
    design, root = np.column_stack([np.ones(len(z)), z]), np.sqrt(w)[:, None]
    return s - design @ np.linalg.lstsq(design * root, s * root, rcond=None)[0]


def _evenly(rows: np.ndarray) -> np.ndarray:
    return rows[np.unique(np.linspace(0, len(rows) - 1, _SETS).astype(np.intp))]


def _integrated(x: np.ndarray) -> np.ndarray:
    """(sets,) 1 + 2 Σ ρ(lag) of each column of x (M, sets), up to a window of a few times itself."""
    M = len(x)
    spectrum = np.abs(fft.rfft(x, 2 * M, axis=0)) ** 2
    covariance = fft.irfft(spectrum, axis=0)[: M // 4]
    g = 2.0 * np.cumsum(covariance / np.maximum(covariance[0], 1e-300), axis=0) - 1.0
    window = np.argmax(np.arange(len(g))[:, None] >= _WINDOW * np.maximum(g, 1.0), axis=0)
    return np.where(covariance[0] > 0, g[window, np.arange(x.shape[1])], 1.0)
