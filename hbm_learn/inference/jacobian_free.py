"""A bordered system known by differences of R: GMRES, preconditioned with an approximate inverse of ∂R/∂u."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.sparse.linalg import LinearOperator, gcrotmk

_ITERATIONS = 100
STEP = 1e-6  # of the difference: R has some 1e-13 of rounding


class MovablePoint(Protocol):
    """A point that can say what R is close to it."""

    R: np.ndarray

    def moved(self, x: np.ndarray) -> np.ndarray | None: ...


class DirectionalPoint(Protocol):
    """A point that knows derivatives of R along a direction, and inverts ∂R/∂u roughly."""

    def directional(self, x: np.ndarray) -> np.ndarray: ...

    def precondition(self, r: np.ndarray) -> np.ndarray: ...


def difference(point: MovablePoint, x: np.ndarray) -> np.ndarray:
    """[∂R/∂u, ∂R/∂α] x by one more evaluation of R; NaN where no point close by is valid."""
    size = float(np.abs(x).max())
    if size == 0.0 or not np.isfinite(size):
        return np.full(len(x) - 1, 0.0 if size == 0.0 else np.nan)
    for step in (STEP / size, -STEP / size):
        R = point.moved(step * x)
        if R is not None:
            return (R - point.R) / step
    return np.full(len(x) - 1, np.nan)


class JacobianFree:
    """[[∂R/∂u, ∂R/∂α], [row]] by its products; its determinant is not known.

    Where paths turn sharply, a ``rtol`` above 1e-3 loses some.
    """

    sign = 0.0

    def __init__(self, point: DirectionalPoint, row: np.ndarray, rtol: float = 1e-5):
        self._point, self._row, self._rtol, size = point, row, rtol, len(row)
        self._operator = LinearOperator((size, size), matvec=self._product, dtype=np.float64)
        self._rough = LinearOperator((size, size), matvec=self._solve_roughly, dtype=np.float64)

    @cached_property
    def _column(self) -> np.ndarray:
        """The preconditioned ∂R/∂α."""
        return self._point.precondition(self._point.directional(np.append(np.zeros(len(self._row) - 1), 1.0)))

    @cached_property
    def _pivot(self) -> float:
        row = self._row
        if not row[:-1].any():
            return float(row[-1])
        pivot = row[-1] - row[:-1] @ self._column
        scale = abs(row[-1]) + np.linalg.norm(row[:-1]) * np.linalg.norm(self._column)
        return float(pivot if abs(pivot) > 1e-3 * scale else scale)  # a fold of the preconditioner, not of the system

    def _product(self, x: np.ndarray) -> np.ndarray:
        return np.append(self._point.directional(x), self._row @ x)

    def _solve_roughly(self, r: np.ndarray) -> np.ndarray:
        first = self._point.precondition(r[:-1])
        last = (r[-1] - self._row[:-1] @ first) / self._pivot
        return np.append(first if last == 0.0 else first - last * self._column, last)

    def solve(self, r: np.ndarray, last: float) -> np.ndarray:
        rhs = np.append(r, last)
        if not rhs.any():
            return rhs
        with np.errstate(invalid="ignore"):
            # gmres would spend one more product to check its answer
            return gcrotmk(self._operator, rhs, rtol=self._rtol, atol=0.0, m=_ITERATIONS, maxiter=1, M=self._rough)[0]
