"""The adaptive TAP approximation of Opper and Winther, by its own free energy and matrix inversion; pairs only.

    G(m, v) = G₀(m, v) + G₁^Gauss(m, v) − G₀^Gauss(m, v)                   (Eq. AdaptiveTAPFreeEnergy_definition)
    G₁^Gauss − G₀^Gauss = −½ mᵀJm + ½ max_Λ̂ {ln det S₁(Λ̂) − Σ_i Λ̂_i V_i} + ½ Σ_i ln V_i + n/2

with S₁ = diag(Λ̂) − J. The maximum has [S₁⁻¹]_ii = V_i; the stationary point has b = h + Jm − (Λ̂ − 1/V) m and
c = d − Λ̂ + 1/V. (The published Eqs. minimumCondition_aTAP_m and _v have the other sign before 1/V, which contradicts
their own equivalence with diagonal consistency.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from hbm_learn.inference.bordered import DensePoint
from hbm_learn.inference.continuation import arrive, path_table
from hbm_learn.inference.damped import check_tolerance
from hbm_learn.inference.dc_equations import spd_inverse
from hbm_learn.inference.equations import Sites, SiteState, check_stable
from hbm_learn.inference.free_energy import naive_log_partition, reaction_log_partition
from hbm_learn.inference.result import InferenceResult
from hbm_learn.model import BoltzmannMachine

_INNER_TOL = 1e-13
_INNER_ITERATIONS = 200


def adaptive_tap(model: BoltzmannMachine, *, tol: float = 1e-10, max_evaluations: int = 5000) -> InferenceResult:
    """Adaptive TAP (Opper–Winther): pairs on any alphabet.

    For given (m, v) the Gaussian part is a convex problem in Λ̂, solved by Newton's method in every evaluation; the
    stationary point in (m, v) is followed from no couplings to the model's. It has the solutions of "dc", with
    Λ̂ = Λ + 1/V, at several times the cost: it is here to check the one against the other.

    Parameters
    ----------
    model : BoltzmannMachine of order 2.
    tol : bound on the residual, the largest of |⟨x⟩_{b,c} − m|, |Λ̂ − 1/V − (d − c)| V and |[S₁⁻¹]_ii/V_i − 1|.
    max_evaluations : of the equations.

    Returns
    -------
    InferenceResult with ``Lambda`` Λ̂ and ``chi`` = S₁(Λ̂)⁻¹.
    """
    check_tolerance(tol, max_evaluations)
    if model.order > 2:
        raise ValueError(
            f"method 'adaptive-tap' takes pair couplings only (this model has order {model.order}): use method 'dc', "
            "which agrees with it on pairs and takes any order."
        )
    check_stable(model)
    problem = AdaptiveTAP(model)
    end = arrive(problem, tol=0.01 * tol, max_evaluations=max_evaluations, observe=problem.observe)
    point: AdaptivePoint = end.point
    s, root = point.s, np.sqrt(point.s.V)
    return InferenceResult(
        method="adaptive-tap",
        m=s.m,
        v=s.V + s.m**2,
        chi=root[:, None] * point.inner.scaled_chi * root,
        log_partition=problem.log_partition(point),
        converged=end.residual < tol,
        n_iter=end.n_evaluations,
        residual=end.residual,
        status=end.status(tol),
        Lambda=point.inner.Lambda + 1.0 / s.V,
        path=path_table(end.path),
    )


@dataclass(frozen=True)
class _Inner:
    """The maximum over Λ̂ for one V: Λ = Λ̂ − 1/V, χ/√(V_iV_j), ln det(√V S₁ √V), max |χ_ii/V_i − 1|."""

    Lambda: np.ndarray
    scaled_chi: np.ndarray
    log_det: float
    error: float


def solve_inner(J: np.ndarray, V: np.ndarray, guess: np.ndarray) -> _Inner:
    """max_Λ̂ {ln det S₁(Λ̂) − Σ Λ̂_i V_i} by Newton, in λ = Λ̂V − 1 = ΛV: gradient χ_ii/V_i − 1, Hessian −(χ_ij²/V_iV_j).

    The objective is self-concordant, so a step of 1/(1 + decrement) never leaves the positive definite matrices.
    """
    root = np.sqrt(V)
    coupling = root[:, None] * J * root
    lam = guess * V
    inverse, log_det = _inverse(lam, coupling)
    if inverse is None:  # diagonal dominance is always positive definite
        lam = np.abs(coupling).sum(axis=1)
        inverse, log_det = _inverse(lam, coupling)
    assert inverse is not None
    for _ in range(_INNER_ITERATIONS):
        gradient = np.diagonal(inverse) - 1.0
        step = cho_solve(cho_factor(inverse * inverse), gradient)
        decrement = np.sqrt(max(float(gradient @ step), 0.0))
        if decrement <= _INNER_TOL:
            break
        new = lam + step / (1.0 + decrement if decrement > 0.1 else 1.0)
        trial, trial_det = _inverse(new, coupling)
        if trial is None or (decrement < 1e-10 and np.abs(np.diagonal(trial) - 1).max() >= np.abs(gradient).max()):
            break  # rounding
        lam, inverse, log_det = new, trial, trial_det
    ratio = np.diagonal(inverse)
    # λ/V has lost its digits when V is small; at the maximum Λ_i = Σ_k J_ik χ_ki/χ_ii, which has not.
    Lambda = np.einsum("ik,ki->i", J * root, inverse) / (root * ratio)
    return _Inner(Lambda, inverse, log_det, float(np.abs(ratio - 1.0).max()))


def _inverse(lam: np.ndarray, coupling: np.ndarray) -> tuple[np.ndarray | None, float]:
    return spd_inverse(np.diag(1.0 + lam) - coupling)


@dataclass(frozen=True)
class AdaptivePoint(DensePoint):
    alpha: float
    s: SiteState
    inner: _Inner
    residual: float


class AdaptiveTAP:
    """R₁ = β + Λ(V)(m − t) − h − αJm,   R₂ = (d − c) − Λ(V),   Λ(V) = Λ̂ − 1/V from the inner problem.

    The unknowns are (β, d − c). dΛ = X dV with X = V⁻¹(I − H⁻¹)V⁻¹, H_ij = χ_ij²/(V_iV_j); written with
    O = V⁻¹(H − I)V⁻¹, which stays bounded when V → 0, X = (I + O V²)⁻¹ O.
    """

    def __init__(self, model: BoltzmannMachine):
        self.h, self.d, self.J, self.sites = model.h, model.d, model.J, Sites(model)
        self._warm = np.zeros_like(model.h)

    @property
    def start(self) -> np.ndarray:
        return np.concatenate([self.h, np.zeros_like(self.h)])

    @property
    def weights(self) -> np.ndarray:
        return self.sites.weights

    def evaluate(self, u: np.ndarray, alpha: float) -> AdaptivePoint | None:
        n = len(self.h)
        beta, shift = u[:n], u[n:]
        s = self.sites.state(beta, shift)
        if s is None:
            return None
        inner = solve_inner(alpha * self.J, s.V, self._warm)
        self._warm = inner.Lambda
        F, Lambda = self.J @ s.m, inner.Lambda
        R1 = beta + Lambda * s.y - self.h - alpha * F
        R2 = shift - Lambda
        X, Lambda_alpha = self._response(inner, s.V)
        R_m = np.concatenate([np.diag(Lambda) - alpha * self.J, np.zeros((n, n))])
        R_V = np.concatenate([s.y[:, None] * X, -X])
        jacobian = np.hstack([R_m * s.V + R_V * s.mu3, R_m * s.m_L + R_V * s.V_L])
        jacobian.flat[:: 2 * n + 1] += 1.0
        d_alpha = np.concatenate([s.y * Lambda_alpha - F, -Lambda_alpha])
        image = self.sites.alphabet.site_moments(s.b - R1, s.c)
        residual = max(np.abs(image.m - s.m).max(), np.abs(R2 * s.V).max(), inner.error)
        return AdaptivePoint(np.concatenate([R1, R2]), jacobian, d_alpha, alpha, s, inner, float(residual))

    def _response(self, inner: _Inner, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """∂Λ/∂V (n, n) and ∂Λ/∂α (n,)."""
        root, n = np.sqrt(V), len(V)
        O = inner.scaled_chi / root / root[:, None]
        O.flat[:: n + 1] = 0.0
        O *= O
        N = inner.scaled_chi * root / root[:, None]
        source = np.einsum("ik,ik->i", N @ self.J, N)  # Σ_kl χ_ik J_kl χ_li/V_i²
        solved = np.linalg.solve(np.eye(n) + O * V * V, np.column_stack([O, source]))
        return solved[:, :-1], solved[:, -1]

    def log_partition(self, point: AdaptivePoint) -> float:
        s, inner = point.s, point.inner
        naive = naive_log_partition(self.h, self.d, s, 0.5 * point.alpha * float(s.m @ self.J @ s.m))
        return naive + reaction_log_partition(inner.Lambda, s.V, inner.log_det)

    def observe(self, point: AdaptivePoint) -> tuple[float, float]:
        """ln Z and the root mean square of m, for ``InferenceResult.path``."""
        return self.log_partition(point), float(np.sqrt(np.mean(point.s.m**2)))
