"""Diagonal consistency for given covariances: Λ such that the response has them at every site.

    χ = (blockdiag(V_i⁻¹ + Λ_i) − A)⁻¹,   block χ_ii = V_i

is the maximum of ln det χ⁻¹ − Σ_i tr(Λ_i V_i) over symmetric Λ_i, a concave problem with one solution. Where every site
has one column, blocks are numbers: it is the inner problem of adaptive TAP (Eq. AdaptiveTAPFreeEnergy_definition).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from hbm_learn.consistency.blocks import Blocks, each, symmetric, transpose
from hbm_learn.linalg import spd_inverse
from hbm_learn.space import Space

_TOL = 1e-13
_ITERATIONS = 200
_CG_ITERATIONS = 200
_CG_TOL = 1e-3


@dataclass(frozen=True)
class Consistent:
    """The maximum for one V: Λ (n,), χ/√(V_iV_j), ln det(√V χ⁻¹ √V), max |χ_ii/V_i − 1|."""

    Lambda: np.ndarray
    scaled_chi: np.ndarray
    log_det: float
    error: float


def consistent_lambda(
    space: Space, A: np.ndarray, V: Sequence[Any] | np.ndarray, guess: Sequence[Any] | np.ndarray | None = None
) -> np.ndarray | list[np.ndarray]:
    """Λ with [(blockdiag(V_i⁻¹ + Λ_i) − A)⁻¹]_ii = V_i.

    Parameters
    ----------
    space : Space
    A : (N, N) array
        Symmetric, zero within sites.
    V : (n,) array, or sequence of (r_i, r_i) arrays
        Covariances of the columns of each site; positive definite.
    guess : like V
        Where to start; it need not be valid.

    Returns
    -------
    (n,) array if every site has one column, else a list of (r_i, r_i) arrays.
    """
    if space.is_scalar:
        variances = np.array(V, dtype=np.float64).ravel()
        first = np.zeros_like(variances) if guess is None else np.array(guess, dtype=np.float64).ravel()
        return solve_scalar(A, variances, first).Lambda
    return solve_blocks(Blocks(space), A, V, guess)


def solve_scalar(A: np.ndarray, V: np.ndarray, guess: np.ndarray) -> Consistent:
    """max_Λ̂ {ln det S₁(Λ̂) − Σ Λ̂_i V_i} by Newton, in λ = Λ̂V − 1 = ΛV: gradient χ_ii/V_i − 1, Hessian −(χ_ij²/V_iV_j).

    The objective is self-concordant, so a step of 1/(1 + decrement) never leaves the positive definite matrices.
    """
    root = np.sqrt(V)
    coupling = root[:, None] * A * root
    lam = guess * V
    inverse, log_det = _inverse(lam, coupling)
    if inverse is None:  # diagonal dominance is always positive definite
        lam = np.abs(coupling).sum(axis=1)
        inverse, log_det = _inverse(lam, coupling)
    assert inverse is not None
    for _ in range(_ITERATIONS):
        gradient = np.diagonal(inverse) - 1.0
        step = cho_solve(cho_factor(inverse * inverse), gradient)
        decrement = np.sqrt(max(float(gradient @ step), 0.0))
        if decrement <= _TOL:
            break
        new = lam + step / (1.0 + decrement if decrement > 0.1 else 1.0)
        trial, trial_det = _inverse(new, coupling)
        if trial is None or (decrement < 1e-10 and np.abs(np.diagonal(trial) - 1).max() >= np.abs(gradient).max()):
            break  # rounding
        lam, inverse, log_det = new, trial, trial_det
    ratio = np.diagonal(inverse)
    # λ/V has lost its digits when V is small; at the maximum Λ_i = Σ_k A_ik χ_ki/χ_ii, which has not.
    Lambda = np.einsum("ik,ki->i", A * root, inverse) / (root * ratio)
    return Consistent(Lambda, inverse, log_det, float(np.abs(ratio - 1.0).max()))


def _inverse(lam: np.ndarray, coupling: np.ndarray) -> tuple[np.ndarray | None, float]:
    return spd_inverse(np.diag(1.0 + lam) - coupling)


# ---------------------------------------------------------------------- several columns at a site


def solve_blocks(
    blocks: Blocks, A: np.ndarray, V: Sequence[Any] | np.ndarray, guess: Sequence[Any] | np.ndarray | None = None
) -> list[np.ndarray]:
    """The same for blocks: Newton in λ_i = L_iᵀ Λ_i L_i, V_i = L_i L_iᵀ, its systems solved by conjugate gradients.

    With X = (I + blockdiag(λ) − LᵀAL)⁻¹ the gradient is X_ii − I, and the Hessian takes δ to −[X δ X]_ii: N² r flops.
    """
    L = each(np.linalg.cholesky, blocks.stacks(V))
    Lt = each(transpose, L)
    coupling = blocks.right(blocks.left(Lt, A), L)
    first = [0.0 * l for l in L] if guess is None else each(lambda a, b, c: a @ b @ c, Lt, blocks.stacks(guess), L)
    lam = each(symmetric, first)
    X = _block_inverse(blocks, lam, coupling)
    if X is None:  # block dominance is always positive definite
        lam = _dominant(blocks, coupling)
        X = _block_inverse(blocks, lam, coupling)
    assert X is not None
    for _ in range(_ITERATIONS):
        gradient = _gradient(blocks, X)
        step, decrement = _newton_step(blocks, X, gradient)
        if decrement <= _TOL:
            break
        damp = 1.0 + decrement if decrement > 0.1 else 1.0
        new = [l + s / damp for l, s in zip(lam, step)]
        trial = _block_inverse(blocks, new, coupling)
        if trial is None or (decrement < 1e-10 and _largest(_gradient(blocks, trial)) >= _largest(gradient)):
            break  # rounding
        lam, X = new, trial
    # As above: Λ_i = Σ_k A_ik χ_ki χ_ii⁻¹ keeps its digits where V is small.
    AX = blocks.left(each(_inverse_transposed, L), coupling) @ X
    diagonal = blocks.diagonal(AX)
    Lambda = each(lambda d, x, l: symmetric(d @ np.linalg.inv(l @ x)), diagonal, blocks.diagonal(X), L)
    return blocks.by_site(Lambda)


def _block_inverse(blocks: Blocks, lam: list[np.ndarray], coupling: np.ndarray) -> np.ndarray | None:
    matrix = -coupling
    matrix.flat[:: len(matrix) + 1] += 1.0
    blocks.add(matrix, lam)
    return spd_inverse(np.ascontiguousarray(matrix))[0]


def _dominant(blocks: Blocks, coupling: np.ndarray) -> list[np.ndarray]:
    """λ_i = Σ_k |coupling_ik| I, in the largest row of the block."""
    rows = np.abs(coupling).sum(axis=1)
    return [rows[c].max(axis=1)[:, None, None] * np.eye(c.shape[1]) for c in blocks.columns]


def _gradient(blocks: Blocks, X: np.ndarray) -> list[np.ndarray]:
    return [x - np.eye(x.shape[-1]) for x in blocks.diagonal(X)]


def _newton_step(blocks: Blocks, X: np.ndarray, gradient: list[np.ndarray]) -> tuple[list[np.ndarray], float]:
    """δ with [X δ X]_ii = gradient_i, and √(gradient · δ); preconditioned with X_ii⁻¹ · X_ii⁻¹."""
    inverse = each(np.linalg.inv, blocks.diagonal(X))
    step = [0.0 * g for g in gradient]
    r = gradient
    direction = z = each(lambda a, b: a @ b @ a, inverse, r)
    rz = start = _dot(r, z)
    for _ in range(_CG_ITERATIONS):
        if rz <= _CG_TOL**2 * start or rz == 0.0:
            break
        image = each(symmetric, blocks.between(blocks.right(X, direction), X))
        length = rz / _dot(direction, image)
        step = [s + length * d for s, d in zip(step, direction)]
        r = [a - length * b for a, b in zip(r, image)]
        z = each(lambda a, b: a @ b @ a, inverse, r)
        rz, last = _dot(r, z), rz
        direction = [a + (rz / last) * b for a, b in zip(z, direction)]
    return step, float(np.sqrt(max(_dot(gradient, step), 0.0)))


def _inverse_transposed(L: np.ndarray) -> np.ndarray:
    return transpose(np.linalg.inv(L))


def _dot(a: list[np.ndarray], b: list[np.ndarray]) -> float:
    return float(sum((x * y).sum() for x, y in zip(a, b)))


def _largest(stacks: list[np.ndarray]) -> float:
    return max(float(np.abs(x).max()) for x in stacks)
