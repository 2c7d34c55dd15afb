"""The rows that score tests see: distinct ones with their weights, in the standard gauge."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from hbm_learn._kernels import score
from hbm_learn.data.incomplete import FilledRows
from hbm_learn.data.reduce import reduce
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.parameters import own_functions
from hbm_learn.space import Space

# Rows that are treated together: their monomials stay in cache.
_CHUNK = 2048
_WIDE = 8
# Entries of a node's monomials on all rows up to which they are kept while the node is at work.
_HELD = 2**23


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """Different rows of codes (R, n), and how much weight each has (R,).

    Where cells were missing, rows are filled in, and ``observed`` (R, n) says which cells were there.
    """

    space: Space
    codes: np.ndarray
    weights: np.ndarray
    observed: np.ndarray | None = None

    @classmethod
    def of(cls, samples: Samples) -> DistinctRows:
        """ValueError where there are values that cannot be listed, or cells that may be missing."""
        if not samples.space.is_finite:
            raise ValueError(f"{samples.space} has continuous variables: score tests take finite alphabets.")
        if samples.allow_nan:
            raise ValueError("samples may hold missing entries: check them with allow_nan=False, or fill them in.")
        if samples.is_large_as_codes:
            distinct, w = samples.ones.distinct(samples.weights)  # type: ignore[union-attr]
            return cls(samples.space, distinct[w > 0].toarray(), w[w > 0])
        codes = np.concatenate([block for block, _ in samples.blocks()])
        return cls(samples.space, *_distinct(codes, samples.weights))

    @classmethod
    def few(cls, samples: Samples, most: int) -> DistinctRows | None:
        """The same of samples that stay with the workers of dask; None if there are more different rows than that."""
        (found,) = reduce(partial(_few, most), samples.blocks())
        return None if found.codes is None else cls(samples.space, found.codes, found.weights)

    @classmethod
    def filled(cls, rows: FilledRows) -> DistinctRows:
        """Of rows whose missing cells were drawn from a model of them."""
        both = np.ascontiguousarray(np.concatenate([rows.codes, rows.observed.astype(rows.codes.dtype)], axis=1))
        keys = both.view(np.dtype((np.void, both.shape[1] * both.itemsize))).ravel()
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        return cls(rows.space, rows.codes[first], np.bincount(inverse.ravel(), rows.weights), rows.observed[first])

    @property
    def frequencies(self) -> list[np.ndarray]:
        """(q_i,) of the values of each variable."""
        return frequencies(self.space, self.codes, self.weights)


@dataclass(frozen=True, eq=False)
class _Few:
    """Different rows of codes and their weights; None where they are more than ``most``."""

    codes: np.ndarray | None
    weights: np.ndarray
    most: int

    def __add__(self, other: _Few) -> _Few:
        if self.codes is None or other.codes is None:
            return _Few(None, np.zeros(0), self.most)
        codes, weights = np.concatenate([self.codes, other.codes]), np.concatenate([self.weights, other.weights])
        found = _distinct(codes, weights)
        return _Few(*found, self.most) if len(found[0]) <= self.most else _Few(None, np.zeros(0), self.most)


def _few(most: int, block: tuple) -> list[_Few]:
    """Of one block; where the first rows are already too many, without a look at the others."""
    codes, weights = block
    none = _Few(None, np.zeros(0), most)
    if len(codes) > 2 * most + 2 and len(_distinct(codes[: 2 * most + 2], None)[0]) > most:
        return [none]
    found = _distinct(codes, weights)
    return [_Few(*found, most) if len(found[0]) <= most else none]


def _distinct(codes: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Different rows that have weight, and their weights, in the order of their bytes."""
    keys = np.ascontiguousarray(codes).view(np.dtype((np.void, codes.shape[1] * codes.itemsize))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    w = np.bincount(inverse.ravel(), None if weights is None else weights.astype(np.float64)).astype(np.float64)
    return codes[first[w > 0]], w[w > 0]


def frequencies(space: Space, codes: np.ndarray, weights: np.ndarray) -> list[np.ndarray]:
    """(q_i,) share of each value of each variable among what is not missing; a half for each anchor of a line."""
    half, found = np.full(2, 0.5), []
    for i, (c, q) in enumerate(zip(codes.T, space.sizes)):
        counts = half if i in space.anchors else np.bincount(c.astype(np.uint8, copy=False), weights, minlength=q)[:q]
        found.append(counts / max(counts.sum(), 1e-300))
    return found


class NodeData:
    """Distinct rows with their weights, and the functions of every variable in the standard gauge.

    Attributes
    ----------
    space : Space
    codes : (n, R) array
    modelled : (k,) array
        The variables that have nodes: those that are not given.
    weights : (R,) array
        How often each row occurs: they sum to the number of samples.
    Y : (N + 1, R) array
        Columns, then 1: a set of columns of fewer members than others is filled with N.
    tested : (N + 1, R) array
        The same with zeros where a variable was missing: what is tested must have been seen, as what was filled in
        follows from the couplings themselves. Y where nothing was missing.
    observed : (n, R) bool array or None
        Which cells were there; None for all.
    gaps : (n,) array
        Share of missing cells of each variable.
    own : list of (q_i, o_i) arrays
        Functions of each variable alone, which begin with its columns.
    extent : (N,) array
        Of the values of each column: the largest distance between two of them.
    n_jobs : int or None
    """

    def __init__(self, rows: Samples | DistinctRows, site: str = "free", n_jobs: int | None = None):
        seen = DistinctRows.of(rows) if isinstance(rows, Samples) else rows
        self.frequencies, self.weights, codes = seen.frequencies, seen.weights, seen.codes
        self.space = seen.space.standard(self.frequencies)
        self.codes = np.ascontiguousarray(self.space.only_codes(codes).T)
        self.modelled = np.flatnonzero(~self.space.given)
        self.Y = np.concatenate([self.space.columns(codes).T, np.ones((1, len(codes)))])
        self.observed = None if seen.observed is None else np.ascontiguousarray(seen.observed.T)
        self.tested, self.gaps = self.Y, np.zeros(self.space.n_features)
        if self.observed is not None:
            self.gaps = ~self.observed @ self.weights / self.weights.sum()  # 0 where nothing is missing, to the bit
            self.tested = np.concatenate([self.Y[:-1] * self.observed[self.space.site], self.Y[-1:]])
        nominal = [a.is_nominal for a in self.space.alphabets]
        tables = list(zip(self.space.functions, self.frequencies, nominal))
        self.own = [own_functions(t, p, site == "free", labels) for t, p, labels in tables]  # type: ignore[arg-type]
        self.extent = np.concatenate([_extent(t, labels) for t, _, labels in tables])  # type: ignore[arg-type]
        self.n_jobs = n_jobs
        self._held = threading.local()

    @property
    def n_samples(self) -> float:
        return float(self.weights.sum())

    def weights_of(self, site: int) -> np.ndarray:
        """(R,) the weights of the rows in which a variable was observed, zero elsewhere."""
        return self.weights if self.observed is None else self.weights * self.observed[site]

    def chunks(self, width: int = _WIDE) -> Iterator[slice]:
        """Rows a few thousand at a time, more where little is made of each: fewer than so many numbers."""
        R, C = len(self.weights), _CHUNK * max(1, _WIDE // max(width, 1))
        yield from (slice(lo, min(lo + C, R)) for lo in range(0, R, C))

    def hold(self, owner: object, make: Callable[[slice], np.ndarray], n_entries: int) -> np.ndarray | None:
        """make(all rows) for whoever works in this thread, kept until the next one comes; None if it is too large."""
        if n_entries > _HELD:
            return None
        if getattr(self._held, "owner", None) is not owner:
            self._held.owner = self._held.array = None
            self._held.array = make(slice(0, len(self.weights)))
            self._held.owner = owner
        return self._held.array

    def monomials(
        self, rows: np.ndarray, where: slice, out: np.ndarray | None = None, tested: bool = False
    ) -> np.ndarray:
        """(…, C) products of the columns in each row of a (…, k) array, k ≥ 1; in ``out`` if it is given.

        If ``tested``, zero where a member was missing.
        """
        out = np.empty((*rows.shape[:-1], where.stop - where.start)) if out is None else out
        score.products(
            self.tested if tested else self.Y,
            rows.reshape(-1, rows.shape[-1]),
            where.start,
            out.reshape(-1, out.shape[-1]),
        )
        return out


def _extent(table: np.ndarray, nominal: bool) -> np.ndarray:
    """(r,) largest distance between two values of each function; of all functions together for labels, so that it does
    not depend on their basis."""
    if not nominal:
        return np.ptp(table, axis=0)
    distance = np.linalg.norm(table[:, None] - table[None], axis=2).max()
    return np.full(table.shape[1], distance)
