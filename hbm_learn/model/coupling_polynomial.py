"""The coupling polynomial E(m) = Σ_μ J_μ Π_{c∈μ} m_c over columns, and its derivatives F, A and T."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hbm_learn._kernels import polynomial
from hbm_learn._threads import in_threads, row_parts
from hbm_learn.interactions import Interactions


class CouplingPolynomial:
    """Sets of columns and their weights; immutable.

    Parameters
    ----------
    columns : Interactions
        The p sets.
    weights : (p,) array
        J of each.
    """

    def __init__(self, columns: Interactions, weights: np.ndarray):
        self._columns, self._column_weights = columns, weights
        weights.setflags(write=False)

    @property
    def columns(self) -> Interactions:
        """The interacting sets of columns, packed."""
        return self._columns

    @property
    def column_weights(self) -> np.ndarray:
        """(len(columns),) J of each set of columns."""
        return self._column_weights

    def coupling_energy(self, m: np.ndarray) -> float:
        """E(m) = Σ_μ J_μ Π_{c∈μ} m_c."""
        return float(polynomial.value(self._point(m), *self._kernel_args))

    def F(self, m: np.ndarray) -> np.ndarray:
        """F_c(m) = ∂E/∂m_c, shape (N,)."""
        return polynomial.gradient(self._point(m), *self._kernel_args)

    def A(self, m: np.ndarray) -> np.ndarray:
        """A_cd(m) = ∂F_c/∂m_d, shape (N, N)."""
        return polynomial.hessian(self._point(m), *self._kernel_args)

    def T(self, m: np.ndarray) -> np.ndarray:
        """∂A_cd/∂m_e, shape (N, N, N); solvers contract it without forming it."""
        return polynomial.third(self._point(m), *self._kernel_args)

    @property
    def _kernel_args(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self._columns.members, self._columns.indptr, self._column_weights

    def on_rows(self, kernel: Callable[..., np.ndarray], X: np.ndarray) -> np.ndarray:
        """A kernel over the rows of X, in threads.

        Parameters
        ----------
        kernel : callable
            (rows, *arrays of the polynomial) → one result a row.
        X : (rows, N) array
            Columns.
        """
        X = np.ascontiguousarray(X)
        parts = row_parts(len(X), len(X) * len(self._columns.members))
        return np.concatenate(in_threads(lambda part: kernel(X[part], *self._kernel_args), parts))

    def _point(self, m: Any) -> np.ndarray:
        m = np.ascontiguousarray(m, dtype=np.float64)
        if m.shape != (self._columns.n_features,):
            raise ValueError(f"m has shape {m.shape}; expected ({self._columns.n_features},).")
        return m
