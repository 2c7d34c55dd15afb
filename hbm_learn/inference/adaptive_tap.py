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

from hbm_learn.consistency.response import Consistent, solve_scalar
from hbm_learn.inference.bordered import DensePoint
from hbm_learn.inference.continuation import arrive, path_table
from hbm_learn.inference.damped import check_tolerance
from hbm_learn.inference.equations import Couplings, check_scalar, check_stable
from hbm_learn.inference.fields import outcome
from hbm_learn.inference.result import InferenceResult
from hbm_learn.inference.scalar_sites import Sites, SiteState
from hbm_learn.model import BoltzmannMachine


def adaptive_tap(model: BoltzmannMachine, *, tol: float = 1e-10, max_evaluations: int = 5000) -> InferenceResult:
    """Adaptive TAP (Opper–Winther): pairs, one function of each variable.

    For given (m, v) the Gaussian part is a convex problem in Λ̂, solved by Newton's method in every evaluation; the
    stationary point in (m, v) is followed from no couplings to the model's. It has the solutions of "dc", with
    Λ̂ = Λ + 1/V, at several times the cost: it is here to check the one against the other.

    Parameters
    ----------
    model : BoltzmannMachine
        Of order 2.
    tol : float
        Bound on the residual, the largest of ``|⟨φ⟩ − m|``, ``|Λ̂ − 1/V − (d − c)| V`` and ``|[S₁⁻¹]_ii/V_i − 1|``.
    max_evaluations : int
        Of the equations.

    Returns
    -------
    InferenceResult
        With ``Lambda`` Λ̂ and ``covariances`` S₁(Λ̂)⁻¹.
    """
    check_tolerance(tol, max_evaluations)
    if model.order > 2:
        raise ValueError(
            f"method 'adaptive-tap' takes pair couplings only (this model has order {model.order}): use method 'dc', "
            "which agrees with it on pairs and takes any order."
        )
    check_scalar(model, "adaptive-tap")
    check_stable(model)
    problem = AdaptiveTAP(model)
    end = arrive(problem, tol=0.01 * tol, max_evaluations=max_evaluations, observe=problem.observe)
    point: AdaptivePoint = end.point
    return outcome(
        model,
        problem.sites,
        point.s,
        problem.sites.unwhiten(point.inner.scaled_chi, point.s),
        method="adaptive-tap",
        log_partition=problem.log_partition(point),
        converged=end.residual < tol,
        n_iter=end.n_evaluations,
        residual=end.residual,
        status=end.status(tol),
        Lambda=point.inner.Lambda + 1.0 / point.s.V,
        path=path_table(end.path),
    )


@dataclass(frozen=True)
class AdaptivePoint(DensePoint):
    alpha: float
    s: SiteState
    inner: Consistent
    residual: float


class AdaptiveTAP:
    """R₁ = β + Λ(V)(m − t) − αJm,   R₂ = (d − c) − Λ(V),   Λ(V) = Λ̂ − 1/V from the inner problem.

    The unknowns are (β, d − c). dΛ = X dV with X = V⁻¹(I − H⁻¹)V⁻¹, H_ij = χ_ij²/(V_iV_j); written with
    O = V⁻¹(H − I)V⁻¹, which stays bounded when V → 0, X = (I + O V²)⁻¹ O.
    """

    def __init__(self, model: BoltzmannMachine):
        self.n, self.J, self.sites = model.n_features, Couplings(model).J, Sites(model)
        self._warm = np.zeros(self.n)

    @property
    def start(self) -> np.ndarray:
        return np.zeros(2 * self.n)

    @property
    def weights(self) -> np.ndarray:
        return self.sites.weights

    def evaluate(self, u: np.ndarray, alpha: float) -> AdaptivePoint | None:
        n = self.n
        beta, shift = u[:n], u[n:]
        s = self.sites.state(beta, shift)
        if s is None:
            return None
        inner = solve_scalar(alpha * self.J, s.V, self._warm)
        self._warm = inner.Lambda
        F, Lambda = self.J @ s.m, inner.Lambda
        R1 = beta + Lambda * s.y - alpha * F
        R2 = shift - Lambda
        X, Lambda_alpha = self._response(inner, s.V)
        R_m = np.concatenate([np.diag(Lambda) - alpha * self.J, np.zeros((n, n))])
        R_V = np.concatenate([s.y[:, None] * X, -X])
        jacobian = np.hstack([R_m * s.V + R_V * s.mu3, R_m * s.m_L + R_V * s.V_L])
        jacobian.flat[:: 2 * n + 1] += 1.0
        d_alpha = np.concatenate([s.y * Lambda_alpha - F, -Lambda_alpha])
        image = self.sites.mean(beta - R1, shift)
        residual = max(np.abs(image - s.m).max(), np.abs(R2 * s.V).max(), inner.error)
        return AdaptivePoint(np.concatenate([R1, R2]), jacobian, d_alpha, alpha, s, inner, float(residual))

    def _response(self, inner: Consistent, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
        naive = s.value + 0.5 * point.alpha * float(s.m @ self.J @ s.m)
        return naive + 0.5 * float(inner.Lambda @ s.V) - 0.5 * inner.log_det

    def observe(self, point: AdaptivePoint) -> tuple[float, float]:
        """ln Z and the root mean square of m, for ``InferenceResult.path``."""
        return self.log_partition(point), self.sites.size(point.s)
