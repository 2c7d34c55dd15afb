"""Ones: rows of zeros and ones that are held by their ones, such as spikes of many neurons.

They stand for an array of uint8 codes where it would be many times larger than the ones. Whoever needs codes asks for
those of a few rows at a time.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from hbm_learn._kernels import ones as _ones
from hbm_learn._kernels.symmetric import packed_size
from hbm_learn._threads import in_threads

_ADD = {2: _ones.add_pairs, 3: _ones.add_triplets, 4: _ones.add_quadruplets}
# Parts of the sums that threads make.
_PARTS = 16
# Sums of products by ones while these are fewer than so many times the words of the packed bits of all columns: what
# adds one product takes as long as so many words.
_WORDS = 12.0


class Ones:
    """Rows of n codes, 0 or 1, by their ones. It has the length, the size and the rows of an array of these codes.

    Attributes
    ----------
    indptr : (M + 1,) int64
    indices : int32
        The ones of row r are columns ``indices[indptr[r]:indptr[r + 1]]``, ascending.
    shape : (M, n)
    """

    def __init__(self, indptr: np.ndarray, indices: np.ndarray, n: int):
        self.indptr, self.indices = indptr, indices
        self.shape = (len(indptr) - 1, n)

    @classmethod
    def of(cls, X: Any) -> Ones | None:
        """Of a CSR matrix; None if something else than 0 and 1 is in it. The matrix is left as it is."""
        if (X.data == 0).any():
            X = X.copy()
            X.eliminate_zeros()
        if not (X.data == 1).all():
            return None
        indptr, indices = _plain(X.indptr, np.int64), _plain(X.indices, np.int32)
        if not _ones.are_ascending(indptr, indices):
            X = X.copy()
            X.has_canonical_format = False
            X.sum_duplicates()  # a one that is there twice is a two
            if not (X.data == 1).all():
                return None
            indptr, indices = _plain(X.indptr, np.int64), _plain(X.indices, np.int32)
        return cls(indptr, indices, X.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def size(self) -> int:
        """Codes, not ones."""
        return self.shape[0] * self.shape[1]

    @property
    def n_ones(self) -> int:
        return int(self.indptr[-1] - self.indptr[0])

    def __getitem__(self, rows: slice | np.ndarray) -> Ones:
        """Some rows: a view where they follow each other."""
        if isinstance(rows, slice):
            lo, hi, step = rows.indices(len(self))
            if step == 1:
                return Ones(self.indptr[lo : max(lo, hi) + 1], self.indices, self.shape[1])
            rows = np.arange(lo, hi, step)
        elif rows.dtype.kind == "b":
            rows = np.flatnonzero(rows)
        begin = np.concatenate([[0], np.cumsum(self.indptr[rows + 1] - self.indptr[rows])]).astype(np.int64)
        indices = np.empty(begin[-1], dtype=np.int32)
        _ones.gather(self.indptr, self.indices, np.ascontiguousarray(rows, dtype=np.int64), begin, indices)
        return Ones(begin, indices, self.shape[1])

    # ------------------------------------------------------------------ as codes

    def toarray(self) -> np.ndarray:
        """(M, n) uint8."""
        out = np.zeros(self.shape, dtype=np.uint8)
        _ones.by_rows(self.indptr, self.indices, out)
        return out

    def columns(self) -> np.ndarray:
        """(n, M) uint8."""
        out = np.zeros(self.shape[::-1], dtype=np.uint8)
        _ones.by_columns(self.indptr, self.indices, out)
        return out

    # ------------------------------------------------------------------ sums

    def counts(self, weights: np.ndarray | None = None) -> np.ndarray:
        """(n,) Σ w over the rows with a one in each column; int64 without weights."""
        mine = self.indices[self.indptr[0] : self.indptr[-1]]
        w = None if weights is None else np.repeat(weights, np.diff(self.indptr))
        return np.bincount(mine, w, minlength=self.shape[1])

    def pays(self, order: int) -> bool:
        """Whether sums of products up to an order are faster by the ones than by packed bits of all columns."""
        ones = np.diff(self.indptr).astype(np.float64)
        products = np.ones_like(ones)
        for k in range(order):
            products *= (ones + k) / (k + 1)
        return float(products.sum()) * _WORDS < packed_size(self.shape[1], order) * len(self) / 64

    def sums(self, weights: np.ndarray | None, order: int) -> list[np.ndarray]:
        """[S_1, …, S_order], S_k = Σ_rows w Π x packed as in ``_kernels.symmetric``: one addition for each set of the
        ones of a row. Integers where the weights are integers, or none."""
        out = [self.counts(weights)]
        if weights is not None and weights.dtype.kind == "i":
            out = [np.rint(out[0]).astype(np.int64)]
        n, dtype = self.shape[1], out[0].dtype
        w = np.zeros(0, dtype=dtype) if weights is None else weights.astype(dtype)
        for k in range(2, order + 1):
            total = np.zeros(packed_size(n, k), dtype=dtype)
            edges = np.rint(n * np.linspace(0.0, 1.0, _PARTS + 1) ** (1 / k)).astype(int).tolist()

            def work(part: int, k: int = k, total: np.ndarray = total, edges: list[int] = edges) -> None:
                _ADD[k](self.indptr, self.indices, w, edges[part], edges[part + 1], total)

            in_threads(work, range(_PARTS))
            out.append(total)
        return out

    # ------------------------------------------------------------------ equal rows

    @cached_property
    def _distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """The first of each set of equal rows, ascending, and (M,) which set every row is of."""
        hashed, first = np.empty(len(self), dtype=np.uint64), np.empty(len(self), dtype=np.int64)
        _ones.hashes(self.indptr, self.indices, hashed)
        order = np.argsort(hashed, kind="stable")
        _ones.equal_rows(self.indptr, self.indices, hashed, order, first)
        return np.unique(first, return_inverse=True)

    @property
    def n_distinct(self) -> int:
        return len(self._distinct[0])

    def distinct(self, weights: np.ndarray | None = None) -> tuple[Ones, np.ndarray]:
        """Different rows as they come first, and how much weight each has."""
        first, inverse = self._distinct
        w = np.bincount(inverse, weights, minlength=len(first)).astype(np.float64)
        return self[first], w


def _plain(array: np.ndarray, dtype: type) -> np.ndarray:
    return np.require(array, dtype, ["C", "W"]) if array.dtype != dtype or not array.flags.writeable else array
