"""AvailableSums: sums of products over the rows in which all of their factors were observed, and how many those are.

    S[e₁ … e_k] = Σ_rows w e₁ … e_k,     e = (o_i, o_i y_c) for every variable i:  o_i = 1 if it was observed, else 0

Means of products of any functions φ = shift + scale · y over the rows that have all of them are linear in these sums,
and counts are among them; so blocks of rows are merged by adding, and other functions are read from the same sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from hbm_learn._kernels import symmetric
from hbm_learn.data.chunks import Chunks
from hbm_learn.data.integer_coding import Coding
from hbm_learn.data.power_sums import PowerSums
from hbm_learn.data.reduce import reduce
from hbm_learn.data.sums import blas_sums, value_counts
from hbm_learn.space import MISSING, Space

# Correlations whose smallest eigenvalue is below this are moved to the nearest matrix where it is not.
_LEAST = 1e-4


@dataclass(frozen=True, eq=False)
class AvailableSums:
    """Sums of orders 1 … K over N columns and n indicators; immutable. It is read like ``PowerSums``.

    Attributes
    ----------
    sums : tuple of K packed arrays
        Over e, site by site: its indicator, then its columns.
    total : float
        Σ w of the rows in which something was observed.
    site : (N,) array
        The variable of each column; every variable has one.
    shift, scale : (N,) arrays
        φ = shift + scale · y.
    """

    sums: tuple[np.ndarray, ...]
    total: float
    site: np.ndarray
    shift: np.ndarray
    scale: np.ndarray
    is_exact: bool = False

    @classmethod
    def of(cls, complete: PowerSums, site: np.ndarray) -> AvailableSums:
        """Of rows in which nothing is missing: every indicator is 1."""
        n = int(site[-1]) + 1
        alone = np.zeros(len(site) + n, dtype=bool)
        alone[_indicators(site)[np.searchsorted(site, np.arange(n))]] = True
        column = np.cumsum(~alone) - 1
        sums = []
        for k in range(1, len(complete.sums) + 1):
            rows = symmetric.multisets(len(alone), k)
            is_column = ~alone[rows]
            out = np.full(len(rows), float(complete.total))
            for j in range(1, k + 1):
                mine = np.flatnonzero(is_column.sum(axis=1) == j)
                members = column[rows[mine][is_column[mine]]].reshape(-1, j)
                out[mine] = complete.sums[j - 1][symmetric.rank(members)]
            sums.append(out)
        return cls(tuple(sums), float(complete.total), site, complete.shift, complete.scale)

    @property
    def n_columns(self) -> int:
        return len(self.site)

    def __add__(self, other: AvailableSums) -> AvailableSums:
        a, b = self, other
        if not (np.array_equal(a.scale, b.scale) and np.array_equal(a.shift, b.shift)):
            total = a.total + b.total
            centre = (a.total * np.nan_to_num(a.mean) + b.total * np.nan_to_num(b.mean)) / max(total, 1e-300)
            a, b = a.about(centre), b.about(centre)
        return replace(a, sums=tuple(s + t for s, t in zip(a.sums, b.sums)), total=a.total + b.total)

    def about(self, centre: np.ndarray) -> AvailableSums:
        """The same about φ = centre, with scale 1."""
        identity = [(np.zeros(r), np.eye(r)) for r in np.bincount(self.site)]
        return self._mapped(identity, centre)

    def mapped(self, relation: Sequence[tuple[np.ndarray, np.ndarray]]) -> AvailableSums:
        """The sums of other columns φ', site by site φ' = c_i + φ R_i with (c_i, R_i) as ``relation`` lists them."""
        ptr = np.searchsorted(self.site, np.arange(len(relation) + 1))
        pairs = zip(relation, ptr[:-1], ptr[1:])
        return self._mapped(relation, np.concatenate([c + self.mean[lo:hi] @ R for (c, R), lo, hi in pairs]))

    def _mapped(self, relation: Sequence[tuple[np.ndarray, np.ndarray]], centre: np.ndarray) -> AvailableSums:
        """φ' = c + φ R = o (c + shift R − centre) + y (scale R), about ``centre``."""
        widths = np.bincount(self.site)
        begin = np.concatenate([[0], np.cumsum(widths + 1)])
        news = [R.shape[1] for _, R in relation]
        weights = np.zeros((sum(news) + len(news), 1 + int(widths.max())))
        first, row, column, lo = np.repeat(begin[:-1], np.add(news, 1)), 0, 0, 0
        for (c, R), old, new in zip(relation, widths, news):
            mine = slice(lo, lo + old)
            weights[row, 0] = 1.0
            weights[row + 1 : row + 1 + new, 0] = c + self.shift[mine] @ R - centre[column : column + new]
            weights[row + 1 : row + 1 + new, 1 : 1 + old] = (self.scale[mine, None] * R).T
            row, column, lo = row + 1 + new, column + new, lo + old
        sums = symmetric.mapped(self.sums, first, weights)
        site = np.repeat(np.arange(len(news)), news)
        return AvailableSums(sums, self.total, site, centre, np.ones(len(site)), self.is_exact)

    # ------------------------------------------------------------------ moments

    def _forms(self, constant: np.ndarray, slope: np.ndarray, order: int) -> np.ndarray:
        """Packed Σ w Π_c (constant_c o + slope_c o y_c) of one order."""
        weights = np.zeros((self.n_columns, 1 + int(np.bincount(self.site).max())))
        weights[:, 0] = constant
        within = np.arange(self.n_columns) - np.searchsorted(self.site, self.site)
        weights[np.arange(self.n_columns), 1 + within] = slope
        return symmetric.mapped(self.sums[:order], _indicators(self.site), weights)[order - 1]

    def counts(self, order: int) -> np.ndarray:
        """Packed Σ w of the rows in which the variables of all columns of a set were observed."""
        return self._forms(np.ones(self.n_columns), np.zeros(self.n_columns), order)

    def n_observed(self, rows: np.ndarray) -> np.ndarray:
        """The same for each row of an (r, k) array of columns."""
        rows = np.sort(np.asarray(rows, dtype=np.int64), axis=1)
        return self.counts(rows.shape[1])[symmetric.rank(rows)]

    @cached_property
    def mean(self) -> np.ndarray:
        """(N,) ⟨φ_c⟩ where it was observed; NaN where it never was."""
        first = symmetric.mapped(self.sums[:1], _indicators(self.site), np.ones((self.n_columns, 1)))[0]
        with np.errstate(invalid="ignore", divide="ignore"):
            return self._forms(self.shift, self.scale, 1) / first

    def raw(self, rows: np.ndarray) -> np.ndarray:
        """⟨φ_{c₁} … φ_{c_k}⟩ for each row of an (r, k) array of columns, where all were observed; what never was
        together, as if independent."""
        rows = np.sort(np.asarray(rows, dtype=np.int64), axis=1)
        at = symmetric.rank(rows)
        k = rows.shape[1]
        sums, counts = self._forms(self.shift, self.scale, k)[at], self.counts(k)[at]
        return np.where(counts > 0, sums / np.maximum(counts, 1e-300), np.prod(self.mean[rows], axis=1))

    def central(self, order: int) -> np.ndarray:
        """⟨Π (φ − ⟨φ⟩)⟩ of one order, packed; zero for what was never observed together."""
        counts = self.counts(order)
        sums = self._forms(self.shift - self.mean, self.scale, order)
        out = np.where(counts > 0, sums / np.maximum(counts, 1e-300), 0.0)
        return self._definite(out) if order == 2 else out

    def _definite(self, packed: np.ndarray) -> np.ndarray:
        """The covariances moved, where they are those of no distribution, to the nearest ones that are."""
        C = symmetric.expand2(packed, self.n_columns)
        s = np.sqrt(np.maximum(np.diag(C), 0.0))
        scale = np.where(s > 0, s, 1.0)
        values, vectors = np.linalg.eigh(C / np.outer(scale, scale))
        if values[0] >= _LEAST or not (s > 0).all():
            return packed
        R = (vectors * np.maximum(values, _LEAST)) @ vectors.T
        scale = s / np.sqrt(np.diag(R))
        C = R * np.outer(scale, scale)
        return C[np.tril_indices(self.n_columns)]

    def equals(self, other: object) -> bool:
        """To the last bit."""
        if not isinstance(other, AvailableSums) or self.total != other.total or len(self.sums) != len(other.sums):
            return False
        mine, others = (*self.sums, self.shift, self.scale), (*other.sums, other.shift, other.scale)
        return all(map(np.array_equal, mine, others))


def merged(a: PowerSums | AvailableSums, b: PowerSums | AvailableSums, site: np.ndarray) -> PowerSums | AvailableSums:
    """a + b, of complete rows or not."""
    if isinstance(a, PowerSums) and isinstance(b, PowerSums):
        return a + b
    first, second = (x if isinstance(x, AvailableSums) else AvailableSums.of(x, site) for x in (a, b))
    return first + second


def collect_available(blocks: Iterable | Chunks, base: Space, order: int) -> tuple[AvailableSums, np.ndarray | None]:
    """The sums of blocks with missing cells, and (Σ q_i,) counts of values (None if continuous).

    Parameters
    ----------
    blocks : iterable of (block, weights), or Chunks
        As ``Samples.blocks`` gives them.
    base : Space
        Whose functions are summed.
    order : int
        The highest order.
    """
    found = reduce(partial(_collected, Coding.of(base, order), order), blocks, whole=True)
    return found[0], found[1] if base.is_finite else None


def _collected(coding: Coding, order: int, block: tuple) -> list[Any]:
    """Sums of one block, and counts of values; nothing without weight."""
    codes, weights = block
    if weights is not None and not weights.any():
        return []
    w = np.ones(len(codes)) if weights is None else weights
    E, shift, total = _extended(codes, w, coding)
    part = AvailableSums(tuple(blas_sums(E, w, order)), total, coding.space.site, shift, coding.scale)
    return [part, value_counts([(codes, weights)], coding.space) if coding.space.is_finite else 0]


def _extended(block: np.ndarray, w: np.ndarray, coding: Coding) -> tuple[np.ndarray, np.ndarray, float]:
    """(m, N + n) indicators and columns o y of one block, the shift they are about, Σ w of rows that say something."""
    space = coding.space
    observed = ~(((block == MISSING) & (space.sizes > 0)) | (block != block))
    if coding.centred:
        shift = np.where(observed, block, 0.0).sum(axis=0) / np.maximum(observed.sum(axis=0), 1)
        Y = np.where(observed, block - shift, 0.0)
    else:
        Y, shift, _ = coding.decoded(np.where(observed, block, 0).astype(block.dtype))
    E = np.empty((len(block), space.n_columns + space.n_features))
    at = _indicators(space.site)
    within = np.arange(space.n_columns) - space.column_ptr[space.site]
    E[:, at] = observed[:, space.site]
    E[:, at + 1 + within] = Y * observed[:, space.site]
    return E, shift, float(w @ observed.any(axis=1))


def _indicators(site: np.ndarray) -> np.ndarray:
    """(N,) where the indicator of the variable of each column stands among all e."""
    return np.searchsorted(site, site) + site
