"""The inverse of a sparse positive definite matrix on its pattern, without the rest of it.

S = L D Lᵀ in an order of the rows and on a pattern that SuperLU finds once; S⁻¹ on the pattern of L by Takahashi's
recursion (``_kernels.takahashi``). On a square lattice of n sites that is O(n log n) numbers and O(n^1.5) flops, and
there is no error but rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import splu

from hbm_learn._kernels.takahashi import factorise, selected_inverse, solve

# Above so many columns S is kept sparse, and so is what is known of its inverse.
SPARSE_SIZE = 300


@dataclass(frozen=True)
class Pattern:
    """Where S has entries: rows and columns (nnz,) in csr order, and where its parts go."""

    matrix: csr_array
    row: np.ndarray
    column: np.ndarray
    sites: list[np.ndarray]  # (g, r, r) positions of the same-site blocks
    factors: list[np.ndarray]  # (g, R, R) positions of the factors' blocks

    def values(self, sites: list[np.ndarray], factors: list[np.ndarray]) -> np.ndarray:
        """(nnz,) the sum of one block a site and one a factor."""
        out = np.zeros(len(self.row))
        for at, block in zip([*self.sites, *self.factors], [*sites, *factors]):
            out += np.bincount(at.ravel(), block.ravel(), minlength=len(out))
        return out


def find_pattern(n: int, sites: list[np.ndarray], factors: list[np.ndarray]) -> Pattern:
    """Where S has entries, from the columns (g, r) of sites and (g, R) of factors, or of any sets."""
    cubes = [c[:, :, None] * n + c[:, None, :] for c in [*sites, *factors]]
    codes, inverse = np.unique(np.concatenate([x.ravel() for x in cubes]), return_inverse=True)
    parts = np.split(inverse, np.cumsum([x.size for x in cubes])[:-1])
    at = [part.reshape(x.shape) for part, x in zip(parts, cubes)]
    row, column = codes // n, codes % n
    matrix = csr_array((np.ones(len(codes)), column, np.searchsorted(row, np.arange(n + 1))), shape=(n, n))
    return Pattern(matrix, row, column, at[: len(sites)], at[len(sites) :])


@dataclass(frozen=True)
class Factorised:
    """S⁻¹ on the pattern of its factor (lower triangle, columns in ``order``), ln det S, and the factor L, d itself."""

    lower: csc_array
    log_det: float
    L: np.ndarray
    d: np.ndarray
    order: np.ndarray
    place: np.ndarray

    def solve(self, x: np.ndarray) -> np.ndarray:
        """S⁻¹x, x (n,) or (n, k)."""
        moved = np.ascontiguousarray(x[self.order].reshape(len(x), -1), dtype=np.float64)
        solve(self.lower.indptr, self.lower.indices, self.L, self.d, moved)
        return moved[self.place].reshape(x.shape)

    def blocks(self, columns: np.ndarray) -> np.ndarray:
        """(g, r, r) blocks of S⁻¹ at columns (g, r), which the pattern of S must have."""
        at = self.place[columns]
        if at.shape[1] == 1:
            return self.lower.data[self.lower.indptr[at]][:, :, None]
        row, column = np.broadcast_arrays(at[:, :, None], at[:, None, :])
        pairs = np.maximum(row, column).ravel(), np.minimum(row, column).ravel()
        return np.asarray(self.lower[pairs]).reshape(row.shape)


class SparseInverse:
    """Inverses of matrices of one pattern, which is symmetric and has its diagonal."""

    def __init__(self, pattern: csr_array):
        n = pattern.shape[0]
        degree = np.diff(pattern.indptr)
        dominant = csc_array((np.ones(pattern.nnz), pattern.indices, pattern.indptr), shape=pattern.shape) + csc_array(
            (degree.astype(float), np.arange(n), np.arange(n + 1)), shape=pattern.shape
        )
        # perm_c says where each column goes: the order is its inverse
        self.order = np.argsort(_factorise(dominant, "MMD_AT_PLUS_A").perm_c)
        self._place = place = np.argsort(self.order)
        rows = np.repeat(np.arange(n), degree)
        row, column = place[rows], place[pattern.indices]
        moved = dominant[self.order][:, self.order]
        L = csc_array(_factorise(csc_array(moved), "NATURAL").L)
        L.sort_indices()
        self._indptr, self._indices = L.indptr, L.indices
        L.data = np.arange(1.0, L.nnz + 1)
        self._source = np.flatnonzero(row >= column)
        self._target = np.asarray(L[row[self._source], column[self._source]]).ravel().astype(np.intp) - 1

    @property
    def n_entries(self) -> int:
        """Of the factor."""
        return len(self._indices)

    def __call__(self, data: np.ndarray) -> Factorised | None:
        """For the values on the pattern (csr order); None unless the matrix is positive definite."""
        values, n = np.zeros(len(self._indices)), len(self.order)
        values[self._target] = data[self._source]
        L, d, found = factorise(self._indptr, self._indices, values)
        if not found:
            return None
        Z = selected_inverse(self._indptr, self._indices, L, d)
        lower = csc_array((Z, self._indices, self._indptr), shape=(n, n))
        return Factorised(lower, float(np.log(d).sum()), L, d, self.order, self._place)


def _factorise(matrix: csc_array, order: Any) -> Any:
    return splu(matrix, permc_spec=order, diag_pivot_thresh=0.0, options={"SymmetricMode": True})
