"""The fields and variances that interactions of three and four sites act back with: what "dc2" adds to "dc".

    field_i = ½ Σ_jk T_ijk χ_jk + f_i,     f_l = (1/6) Σ_ijk T_ijk J_ijkl V_i V_j V_k
    Λ′_i    = ½ Σ_jk T_ijk² V_j V_k + (1/6) Σ_jkl J_ijkl² V_j V_k V_l

T = ∂A/∂m, sums over all columns. With several functions of a site, V is a block and so is Λ′.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hbm_learn.space import Space


def reaction(
    space: Space, T: np.ndarray, J4: np.ndarray | None, V: Sequence[Any] | np.ndarray, chi: np.ndarray
) -> tuple[np.ndarray, np.ndarray | list[np.ndarray]]:
    """The field (N,), and Λ′: (n,) if every site has one column, else a list of (r_i, r_i) arrays.

    Parameters
    ----------
    space : Space
    T : (N, N, N) array
        Symmetric, zero where two columns are of one site.
    J4 : (N, N, N, N) array or None
        Of the interactions of four.
    V : (n,) array, or sequence of (r_i, r_i) arrays
        Covariances of the columns of each site.
    chi : (N, N) array
        The response.
    """
    N = len(chi)
    root = _root(space, V)
    field = 0.5 * T.reshape(N, -1) @ chi.ravel()
    three = _times(_times(T, root, 1), root, 2).reshape(N, -1)
    extra = _squares(space, three, 0.5)
    if J4 is not None:
        four = _times(_times(_times(J4, root, 1), root, 2), root, 3).reshape(N, -1)
        field += four @ _times(three.reshape(T.shape), root, 0).ravel() / 6.0
        extra = [x + y for x, y in zip(extra, _squares(space, four, 1.0 / 6.0))]
    return field, np.array(extra).ravel() if space.is_scalar else extra


def _root(space: Space, V: Sequence[Any] | np.ndarray) -> np.ndarray:
    """L with V = LLᵀ: (N,) where it is diagonal, else (N, N)."""
    if space.is_scalar:
        return np.sqrt(np.asarray(V, dtype=np.float64).ravel())
    out = np.zeros((space.n_columns, space.n_columns))
    for lo, hi, block in zip(space.column_ptr[:-1], space.column_ptr[1:], V):
        out[lo:hi, lo:hi] = np.linalg.cholesky(block)
    return out


def _times(tensor: np.ndarray, root: np.ndarray, axis: int) -> np.ndarray:
    """The tensor with L contracted into one of its axes."""
    if root.ndim == 1:
        return tensor * root.reshape([-1 if k == axis else 1 for k in range(tensor.ndim)])
    return np.moveaxis(np.moveaxis(tensor, axis, -1) @ root, -1, axis)


def _squares(space: Space, rows: np.ndarray, factor: float) -> list[np.ndarray]:
    """factor · rows rowsᵀ of the rows of each site, (r, r)."""
    if space.is_scalar:
        return list(factor * np.einsum("ij,ij->i", rows, rows))
    return [factor * rows[lo:hi] @ rows[lo:hi].T for lo, hi in zip(space.column_ptr[:-1], space.column_ptr[1:])]
