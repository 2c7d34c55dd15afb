"""The regularised inverse of a covariance matrix, and the diagonal that makes a coupling matrix consistent with it.

The Gaussian prior J_ab ~ N(0, 1/α) reaches the closed form as a ridge on the precision matrix P: with λ = α/M, maximise

    ½ ln det P − ½ Tr(C P) − λ/4 ‖P − T‖²_F,   T = diag(1/V) (independence)

whose optimum, P⁻¹ − C − λ(P − T) = 0, is a function of the eigenvalues of C − λT alone. It is finite for singular C.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from hbm_learn.inversion.prior import FLOOR

# A correlation matrix with a smaller eigenvalue than this is treated as singular.
SINGULAR = 1e-10


def ridge_precision(C: np.ndarray, lam: float) -> np.ndarray:
    """P with P⁻¹ − C − λ(P − diag(1/C_ii)) = 0, (n, n); C⁻¹ for λ = 0. O(n³)."""
    if lam == 0.0:
        return linalg.inv(C, assume_a="pos", check_finite=False)
    delta, U = linalg.eigh(C - lam * np.diag(1.0 / np.diag(C)), check_finite=False)
    root = np.sqrt(delta**2 + 4.0 * lam)
    # Two forms of the same root, so that neither sign of δ cancels.
    p = np.where(delta > 0, 2.0 / (np.abs(delta) + root), (np.abs(delta) + root) / (2.0 * lam))
    return (U * p) @ U.T


def pair_variances(P: np.ndarray, n_samples: float) -> np.ndarray:
    """Var(J_ab) = (P_aa P_bb + P_ab²)/M for Gaussian data, (n, n)."""
    diagonal = np.diag(P)
    return (np.outer(diagonal, diagonal) + P**2) / n_samples


def learn_pair_alpha(C: np.ndarray, n_samples: float, rounds: int = 4) -> float:
    """α = 1/τ² by MacKay's update τ² = ΣĴ² / Σ τ²/(τ² + se²), from the prior variance that the covariances suggest."""
    off = ~np.eye(len(C), dtype=bool)
    if not off.any() or not np.isfinite(n_samples):
        return 0.0
    VV = np.outer(np.diag(C), np.diag(C))[off]
    noise = 1.0 / (n_samples * VV)
    tau2 = max(float(np.mean(C[off] ** 2 / VV**2 - noise)), FLOOR * float(noise.mean()))
    for _ in range(rounds):
        P = ridge_precision(C, 1.0 / (n_samples * tau2))
        variance = pair_variances(P, n_samples)[off]
        new = max(float(np.sum(P[off] ** 2) / np.sum(tau2 / (tau2 + variance))), FLOOR * float(variance.mean()))
        if abs(new - tau2) < 0.05 * tau2:
            return 1.0 / new
        tau2 = new
    return 1.0 / tau2


def learn_alpha(estimates: np.ndarray, variances: np.ndarray) -> float:
    """α = 1/τ² with τ² = mean(Ĵ² − se²), floored: moments matching of a Gaussian prior for one order."""
    if not len(estimates) or not variances.any():
        return 0.0
    return 1.0 / max(float(np.mean(estimates**2 - variances)), FLOOR * float(np.mean(variances)))


def consistent_diagonal(A: np.ndarray, V: np.ndarray, start: np.ndarray, tol: float = 1e-12) -> np.ndarray:
    """Λ̂ with [(diag(Λ̂) − A)⁻¹]_ii = V_i (Eq. maximumCondition_aTAP_Lambda): max ½ ln det S − ½ Σ Λ̂_i V_i, concave.

    Newton with the Hessian −½ χ∘χ, damped so that S stays positive definite; one Cholesky inverse and one solve a step.
    """
    Lam = np.array(start)
    chi = _inverse(Lam, A)
    if chi is None:  # diagonally dominant, hence positive definite
        Lam = np.maximum(1.0 / V, 0.0) + np.abs(A).sum(axis=1)
        chi = _inverse(Lam, A)
    assert chi is not None
    for _ in range(100):
        gap = np.diag(chi) - V
        if np.abs(gap / V).max() <= tol:
            break
        step = linalg.solve(chi**2, gap, assume_a="pos", check_finite=False)
        size = np.sqrt(float(gap @ step))  # Newton decrement; ln det is self-concordant
        damping = 1.0 if size < 0.25 else 1.0 / (1.0 + size)
        trial = _inverse(Lam + damping * step, A)
        while trial is None:
            damping *= 0.5
            trial = _inverse(Lam + damping * step, A)
        Lam, chi = Lam + damping * step, trial
    return Lam


def _inverse(Lam: np.ndarray, A: np.ndarray) -> np.ndarray | None:
    """(diag(Λ̂) − A)⁻¹, or None where it is not positive definite."""
    try:
        return linalg.inv(np.diag(Lam) - A, assume_a="pos", check_finite=False)
    except linalg.LinAlgError:
        return None


def collinear_columns(C: np.ndarray) -> list[int]:
    """Columns that take part in a (nearly) vanishing combination: the large entries of C's null vectors."""
    scale = 1.0 / np.sqrt(np.diag(C))
    values, vectors = linalg.eigh(C * np.outer(scale, scale), check_finite=False)
    null = vectors[:, values < SINGULAR]
    return np.flatnonzero((np.abs(null) > 0.1).any(axis=1)).tolist()
