"""The inverse of a sparse positive definite matrix on its pattern, without the rest of it.

S = L D Lᵀ by SuperLU without pivoting, in an order of the rows that is found once; S⁻¹ on the pattern of L by
Takahashi's recursion (``_kernels.takahashi``). On a square lattice of n sites that is O(n log n) numbers and O(n^1.5)
flops, and there is no error but rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import splu

from hbm_learn._kernels.takahashi import selected_inverse


@dataclass(frozen=True)
class Factorised:
    """S⁻¹ on the pattern of its factor (lower triangle, columns in ``order``), ln det S, and the factor itself."""

    lower: csc_array
    log_det: float
    factor: Any
    order: np.ndarray
    place: np.ndarray

    def solve(self, x: np.ndarray) -> np.ndarray:
        """S⁻¹x, x (n,) or (n, k)."""
        out = np.empty_like(x)
        out[self.order] = self.factor.solve(x[self.order])
        return out

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
        moved = csc_array((np.arange(1.0, pattern.nnz + 1), (place[rows], place[pattern.indices])), shape=pattern.shape)
        moved.sort_indices()
        self._source = moved.data.astype(np.intp) - 1
        self._indices, self._indptr, self._shape = moved.indices, moved.indptr, pattern.shape

    def __call__(self, data: np.ndarray) -> Factorised | None:
        """For the values on the pattern (csr order); None unless the matrix is positive definite."""
        matrix = csc_array((data[self._source], self._indices, self._indptr), shape=self._shape)
        try:
            lu = _factorise(matrix, "NATURAL")
        except RuntimeError:  # exactly singular
            return None
        d = lu.U.diagonal()
        if not (d > 0).all() or not np.array_equal(lu.perm_r, np.arange(len(d))):
            return None
        L = csc_array(lu.L)
        L.sort_indices()
        Z = csc_array((selected_inverse(L.indptr, L.indices, L.data, d), L.indices, L.indptr), shape=L.shape)
        return Factorised(Z, float(np.log(d).sum()), lu, self.order, self._place)


def _factorise(matrix: csc_array, order: Any) -> Any:
    return splu(matrix, permc_spec=order, diag_pivot_thresh=0.0, options={"SymmetricMode": True})
