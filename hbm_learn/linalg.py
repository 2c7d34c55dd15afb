"""Positive definite matrices: factorisations and inverses, lifted where a matrix is singular.

diag(scale) H diag(scale) = L Lᵀ,  scale = H_rr^(−1/2):   unit diagonal, so that parameters may have any units
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from scipy import linalg
from scipy.linalg.lapack import dpotrf, dpotri

# (L, scale)
Factor = tuple[np.ndarray, np.ndarray]

# The first lift of a matrix that is not definite: what rounding leaves of a zero eigenvalue.
_FIRST_LIFT = 1e-13
# Strips of rows of a product that is symmetric: with eight, 9/16 of it are computed.
_STRIPS = 8
# From so many rows on, copies cost more than a loop over strips.
_LARGE = 256


def factor(H: np.ndarray, floor: float = 0.0) -> Factor:
    """(L, scale) of H; a singular H is lifted as little as will do.

    Parameters
    ----------
    H : (P, P) array
        Positive semidefinite, up to rounding.
    floor : float
        A diagonal entry below this share of the largest counts as that much: a parameter without any curvature then
        gets a finite inverse.
    """
    diagonal = np.diag(H)
    scale = 1.0 / np.sqrt(np.maximum(diagonal, max(1e-300, floor * float(diagonal.max(initial=0.0)))))
    lift = 0.0
    while True:
        scaled = H * scale
        scaled *= scale[:, None]
        scaled[np.diag_indices_from(scaled)] = 1.0 + lift
        try:
            return linalg.cholesky(scaled, lower=True, overwrite_a=True, check_finite=False), scale
        except linalg.LinAlgError:
            lift = max(_FIRST_LIFT, 10.0 * lift)


def solve(factored: Factor, g: np.ndarray) -> np.ndarray:
    """H⁻¹ g."""
    L, scale = factored
    return scale * linalg.cho_solve((L, True), scale * g, check_finite=False)


def inverse(H: np.ndarray, floor: float = 0.0) -> np.ndarray:
    """H⁻¹, symmetric; ``floor`` as in :func:`factor`."""
    L, scale = factor(H, floor)
    S = _lower_inverse(L)
    S *= scale
    S *= scale[:, None]
    return _mirrored(S)


def spd_inverse(matrix: np.ndarray) -> tuple[np.ndarray | None, float]:
    """(inverse, ln det) by Cholesky as it stands, n³ flops; (None, nan) if it is not positive definite.

    The matrix is overwritten.
    """
    L, info = dpotrf(matrix.T, lower=1, overwrite_a=True, clean=0)
    if info:
        return None, np.nan
    log_det = 2.0 * float(np.log(np.diagonal(L)).sum())
    return _mirrored(_lower_inverse(L)), log_det


def definite_inverse(matrix: np.ndarray) -> np.ndarray:
    """The inverse by Cholesky as the matrix stands, n³ flops; LinAlgError if it is not positive definite."""
    found, _ = spd_inverse(np.array(matrix, dtype=float))
    if found is None:
        raise linalg.LinAlgError("a matrix is not positive definite, to within rounding")
    return found


def symmetric_product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A B where that is symmetric: what lies above the diagonal blocks is copied from below."""
    out = np.empty(A.shape)
    for lo, hi in _strips(len(A)):
        np.matmul(A[lo:hi], B[:, :hi], out=out[lo:hi, :hi])
        out[:lo, lo:hi] = out[lo:hi, :lo].T
    return out


def block_inverses(blocks: np.ndarray, least: float) -> np.ndarray:
    """(m, k, k) inverses of m small positive semidefinite matrices; with a unit diagonal, no eigenvalue is taken below
    ``least``."""
    scale = 1.0 / np.sqrt(np.maximum(np.einsum("mkk->mk", blocks), 1e-300))
    scale_pairs = scale[:, :, None] * scale[:, None, :]
    values, vectors = np.linalg.eigh(blocks * scale_pairs)
    return scale_pairs * np.einsum("mki,mi,mli->mkl", vectors, 1.0 / np.maximum(values, least), vectors)


def _strips(n: int) -> Iterator[tuple[int, int]]:
    """Where each of the strips of n rows begins and ends."""
    return pairwise([n * k // _STRIPS for k in range(_STRIPS + 1)])


def _lower_inverse(L: np.ndarray) -> np.ndarray:
    """(L Lᵀ)⁻¹ on and below the diagonal; L is overwritten where LAPACK can."""
    S, info = dpotri(L, lower=1, overwrite_c=1)
    assert info == 0  # a Cholesky factor has no zero on its diagonal
    return S


def _mirrored(S: np.ndarray) -> np.ndarray:
    """S with what is below the diagonal copied above; in place where S is large."""
    if len(S) < _LARGE:
        lower = np.tril(S)
        out = lower + lower.T
        out.flat[:: len(S) + 1] = S.diagonal()
        return out
    for lo, hi in _strips(len(S)):
        S[lo:hi, hi:] = S[hi:, lo:hi].T
        mine, above = S[lo:hi, lo:hi], np.triu_indices(hi - lo, 1)
        mine[above] = mine.T[above]
    return S
