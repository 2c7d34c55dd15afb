"""One point of R(u, α) = 0 and its Jacobian bordered by one row: what ``continuation`` needs.

[ ∂R/∂u  ∂R/∂α ] [ δu ]   [  r   ]
[     row      ] [ δα ] = [ last ]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg.lapack import dgetrf, dgetrs


class BorderedSystem(Protocol):
    """The matrix [[∂R/∂u, ∂R/∂α], [row]] of one point, factorised."""

    sign: float  # of its determinant; 0 where it is not known

    def solve(self, r: np.ndarray, last: float) -> np.ndarray:
        """x with [[∂R/∂u, ∂R/∂α], [row]] x = (r, last), shape (N + 1,)."""
        ...


class Point(Protocol):
    """R and its derivatives at one valid (u, α)."""

    R: np.ndarray

    def bordered(self, row: np.ndarray) -> BorderedSystem: ...


class DenseBordered:
    """The bordered matrix, factorised by LU: 2(N + 1)³/3 flops. Least squares where it is exactly singular."""

    def __init__(self, jacobian: np.ndarray, d_alpha: np.ndarray, row: np.ndarray):
        size = len(row)
        matrix = np.empty((size, size), order="F")
        matrix[:-1, :-1] = jacobian
        matrix[:-1, -1] = d_alpha
        matrix[-1] = row
        self._lu, self._pivots, info = dgetrf(matrix)
        self._matrix = matrix if info else None
        negative = np.count_nonzero(np.diagonal(self._lu) < 0)
        swaps = np.count_nonzero(self._pivots != np.arange(size))
        self.sign = 0.0 if info else (-1.0) ** (negative + swaps)

    def solve(self, r: np.ndarray, last: float) -> np.ndarray:
        rhs = np.append(r, last)
        if self._matrix is None:
            return dgetrs(self._lu, self._pivots, rhs)[0]
        if not np.isfinite(self._matrix).all():
            return np.full(len(rhs), np.nan)
        return np.linalg.lstsq(self._matrix, rhs, rcond=None)[0]


@dataclass(frozen=True)
class DensePoint:
    """A point whose Jacobian (N, N) and ∂R/∂α (N,) are formed."""

    R: np.ndarray
    jacobian: np.ndarray
    d_alpha: np.ndarray

    def bordered(self, row: np.ndarray) -> DenseBordered:
        return DenseBordered(self.jacobian, self.d_alpha, row)
