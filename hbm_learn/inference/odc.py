"""Off-diagonal consistency ("odc"): all correlations are variables, and each is what linear response says of it.

    W(m, C) = Σ h_i m_i + Σ J_ij(C_ij + m_i m_j) + Σ_pairs H_ij − (n − 2) Σ_i H_i
              + ½ [ln det C − Σ_pairs ln det C_(ij) + (n − 2) Σ_i ln V_i],      C_ii = V_i = 1 − m_i²

with H_ij the entropy of two spins with means m_i, m_j and covariance C_ij, and C_(ij) its covariances. Stationary in C:

    J_ij = J⁽²⁾_ij − [C⁻¹]_ij − C_ij/(V_iV_j − C_ij²)

the map of Sessak and Monasson from moments to couplings, which is solved backwards here (J⁽²⁾ is the coupling that two
spins alone would need); and in m

    h_i + Σ_j (J_ij − J⁽²⁾_ij) m_j = Σ_j x_ij − (n − 2) b_i + Λ_i m_i
    Λ_i = [C⁻¹]_ii − Σ_j [C_(ij)⁻¹]_ii + (n − 2)/V_i.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from hbm_learn.inference.bordered import BorderedSystem
from hbm_learn.inference.continuation import arrive, path_table
from hbm_learn.inference.damped import check_tolerance
from hbm_learn.inference.jacobian_free import JacobianFree, difference
from hbm_learn.inference.result import InferenceResult, variable_moments
from hbm_learn.linalg import spd_inverse
from hbm_learn.model import BoltzmannMachine


def odc(model: BoltzmannMachine, *, tol: float = 1e-10, max_evaluations: int = 500) -> InferenceResult:
    """Off-diagonal consistency (Raymond and Ricci-Tersenghi): pairs of two-valued variables, weakly coupled.

    ::

        J_ij = J⁽²⁾_ij(m_i, m_j, χ_ij) − [χ⁻¹]_ij − χ_ij/(V_iV_j − χ_ij²),     χ_ii = V_i

    for every pair, coupled or not: the Sessak–Monasson map solved for the correlations.

    Parameters
    ----------
    model : BoltzmannMachine
        Of order 2 and two-valued variables.
    tol : float
        Bound on the residual, the largest of the differences of fields and couplings from the model's, for spins.
    max_evaluations : int
        Of the equations, those of GMRES not counted.

    Returns
    -------
    InferenceResult
        With ``covariances`` χ. Where the path finds no solution, ``converged`` is False, ``status`` says at which
        strength it was lost, the moments are those of its last point, and a ConvergenceWarning says so.

    Notes
    -----
    At weak coupling an order closer than "dc", and as close as "bethe2"; at moderate coupling often without a
    solution: there is no reason why one should exist. An evaluation costs n³ flops; there are n(n + 1)/2 unknowns.
    """
    check_tolerance(tol, max_evaluations)
    if model.order > 2 or not model.space.is_binary:
        what = f"order {model.order}" if model.order > 2 else "variables of more than two values"
        raise ValueError(f"method 'odc' takes pairs of two-valued variables (this model has {what}): use method 'dc2'.")
    spins = _as_spins(model)
    problem = OffDiagonal(spins)
    end = arrive(problem, tol=0.01 * tol, max_evaluations=max_evaluations, observe=problem.observe)
    point: OffDiagonalPoint = end.point
    if end.residual >= tol:
        from sklearn.exceptions import ConvergenceWarning

        message = f"method 'odc' found no solution ({end.status(tol).rstrip('.')}): use method 'bethe2'."
        warnings.warn(message, ConvergenceWarning, stacklevel=3)
    probabilities = [np.array([0.5 * (1 - m), 0.5 * (1 + m)]) for m in point.m]
    scale = np.array([0.5 * (np.asarray(phi)[1, 0] - np.asarray(phi)[0, 0]) for phi in model.space.functions])
    middle = np.array([np.asarray(phi).mean() for phi in model.space.functions])
    means, covariances = middle + scale * point.m, point.C * scale * scale[:, None]
    m, v, chi = variable_moments(model.space, probabilities, means, covariances)
    return InferenceResult(
        method="odc",
        m=m,
        v=v,
        chi=chi,
        log_partition=point.W + problem.constant,
        converged=end.residual < tol,
        n_iter=end.n_evaluations,
        residual=end.residual,
        status=end.status(tol),
        Lambda=point.Lambda,
        path=path_table(end.path),
        probabilities=list(probabilities),
        means=means,
        covariances=covariances,
    )


@dataclass(frozen=True)
class Spins:
    """The model in spins: fields, couplings (n, n), and what ln Z has beside them."""

    h: np.ndarray
    J: np.ndarray
    constant: float


def _as_spins(model: BoltzmannMachine) -> Spins:
    """φ = middle + half·s at each site."""
    tables = [np.asarray(phi)[:, 0] for phi in model.space.functions]
    half = np.array([0.5 * (t[1] - t[0]) for t in tables])
    middle = np.array([0.5 * (t[1] + t[0]) for t in tables])
    own = np.array([0.5 * (theta[1] - theta[0]) for theta in model.own])
    a, b = model.columns.block(2).T
    J = np.zeros((len(half), len(half)))
    J[a, b] = J[b, a] = model.column_weights[model.columns.slice(2)]
    constant = sum(0.5 * (theta[1] + theta[0]) for theta in model.own) + 0.5 * middle @ J @ middle
    return Spins(own + half * (J @ middle), J * half * half[:, None], float(constant))


class OffDiagonal:
    """R₁ = Σ_j x_ij − (n − 2)b_i + Λ_i m_i − Σ_j (αJ_ij − J⁽²⁾_ij)m_j − h_i,   R₂ = Sessak–Monasson − αJ_ij

    in the unknowns β = b − h and k_ij = C_ij/(V_iV_j), in which ∂R/∂u is near the identity at weak coupling.
    """

    def __init__(self, spins: Spins):
        self.spins, self.n, self.constant = spins, len(spins.h), spins.constant
        self.i, self.j = np.triu_indices(self.n, 1)

    @property
    def start(self) -> np.ndarray:
        return np.zeros(self.n + len(self.i))

    @property
    def weights(self) -> np.ndarray:
        return np.concatenate([np.full(self.n, 0.5 / self.n), np.full(len(self.i), 1.0 / max(self.n, 1))])

    def evaluate(self, u: np.ndarray, alpha: float) -> OffDiagonalPoint | None:
        n, i, j = self.n, self.i, self.j
        b = self.spins.h + u[:n]
        m = np.tanh(b)
        V = 1.0 / np.cosh(b) ** 2
        C = np.diag(V)
        c = u[n:] * V[i] * V[j]
        C[i, j] = C[j, i] = c
        inverse, log_det = spd_inverse(C.copy())
        p = 0.25 * (1.0 + np.outer([1, 1, -1, -1], m[i]) + np.outer([1, -1, 1, -1], m[j]))
        p += 0.25 * np.outer([1, -1, -1, 1], c + m[i] * m[j])
        if inverse is None or not (p > 0).all():
            return None
        return OffDiagonalPoint(self, alpha, u, b, m, V, c, C, inverse, log_det, p)

    def observe(self, point: OffDiagonalPoint) -> tuple[float, float]:
        """ln Z and the root mean square of m, for ``InferenceResult.path``."""
        return point.W + self.constant, float(np.sqrt(np.mean(point.m**2)))


class OffDiagonalPoint:
    """R at one (β, k, α); p (4, pairs) are the probabilities of ++, +−, −+ and −−."""

    def __init__(
        self,
        problem: OffDiagonal,
        alpha: float,
        u: np.ndarray,
        b: np.ndarray,
        m: np.ndarray,
        V: np.ndarray,
        c: np.ndarray,
        C: np.ndarray,
        inverse: np.ndarray,
        log_det: float,
        p: np.ndarray,
    ):
        self.problem, self.alpha, self.u, self.m, self.C = problem, alpha, u, m, C
        self._p, self._V, self._c, self._log_det = p, V, c, log_det
        n, i, j, J = problem.n, problem.i, problem.j, alpha * problem.spins.J
        log_p = np.log(p)
        own = 0.25 * (np.array([1, -1, -1, 1]) @ log_p)  # J⁽²⁾
        det = V[i] * V[j] - c * c
        x = np.zeros(n)
        np.add.at(x, i, 0.25 * (np.array([1, 1, -1, -1]) @ log_p) + (own - J[i, j]) * m[j])
        np.add.at(x, j, 0.25 * (np.array([1, -1, 1, -1]) @ log_p) + (own - J[i, j]) * m[i])
        pairs = np.bincount(i, V[j] / det, minlength=n) + np.bincount(j, V[i] / det, minlength=n)
        self.Lambda = np.diagonal(inverse) - pairs + (n - 2) / V
        R1 = x - (n - 2) * b + self.Lambda * m - problem.spins.h
        self.R = np.concatenate([R1, own - inverse[i, j] - c / det - J[i, j]])

    @property
    def residual(self) -> float:
        return float(np.abs(self.R).max())

    @property
    def W(self) -> float:
        """ln Z, but for the constant of the spins."""
        problem, m, V, c = self.problem, self.m, self._V, self._c
        n, i, j, spins = problem.n, problem.i, problem.j, problem.spins
        energy = spins.h @ m + self.alpha * float((spins.J[i, j] * (c + m[i] * m[j])).sum())
        q = np.stack([0.5 * (1 + m), 0.5 * (1 - m)])
        entropy = -float((self._p * np.log(self._p)).sum()) + (n - 2) * float((q * np.log(q)).sum())
        rings = self._log_det - float(np.log(V[i] * V[j] - c * c).sum()) + (n - 2) * float(np.log(V).sum())
        return float(energy) + entropy + 0.5 * rings

    def moved(self, x: np.ndarray) -> np.ndarray | None:
        """R at (u, α) + x; None where that is not valid."""
        point = self.problem.evaluate(self.u + x[:-1], self.alpha + float(x[-1]))
        return None if point is None else point.R

    def directional(self, x: np.ndarray) -> np.ndarray:
        return difference(self, x)

    def precondition(self, r: np.ndarray) -> np.ndarray:
        return r

    def bordered(self, row: np.ndarray) -> BorderedSystem:
        return JacobianFree(self, row)
