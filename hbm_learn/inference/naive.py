"""Naive mean field, and its linear response ("susp").

β = F(m),   m, V from the site exp(θ + β·φ)                    (Eq. NaiveMeanFieldFreeEnergy_higher-order)
χ = (blockdiag(V⁻¹) − A(m))⁻¹                                  ("susp": its diagonal is not V)

With φ = x and θ = h x − d x²/2: b = h + F(m), c = d.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hbm_learn.inference.bordered import DensePoint
from hbm_learn.inference.continuation import arrive, path_table
from hbm_learn.inference.damped import check_solver_options, iterate
from hbm_learn.inference.equations import check_stable
from hbm_learn.inference.fields import fields, outcome
from hbm_learn.inference.result import InferenceResult
from hbm_learn.model import BoltzmannMachine


def naive(
    model: BoltzmannMachine,
    *,
    tol: float = 1e-10,
    max_evaluations: int = 5000,
    solver: str = "path",
    damping: float = 0.5,
    max_iter: int = 10_000,
) -> InferenceResult:
    """Naive mean field: β = F(m). Any order, variables of any kind; no covariances.

    Parameters
    ----------
    model : BoltzmannMachine
        Of any order.
    tol : float
        Bound on the residual, the largest difference of ⟨φ⟩ and m at β = F(m).
    max_evaluations : int
        Of the equations, with solver "path".
    solver : {"path", "damped"}
        "path" follows the solution from no couplings to the model's; "damped" iterates m ← γm + (1 − γ)⟨φ⟩.
    damping : float
        The γ of solver "damped".
    max_iter : int
        Iterations of solver "damped".

    Returns
    -------
    InferenceResult
        Without chi.

    Notes
    -----
    The solution on the path is the one connected to that without couplings. One evaluation costs 2N³/3 flops (one LU).
    Where a variable has several functions, the residual is taken in functions orthonormal under equal frequencies.
    """
    return _solve(model, tol, max_evaluations, solver, damping, max_iter, response=False)


def susp(
    model: BoltzmannMachine,
    *,
    tol: float = 1e-10,
    max_evaluations: int = 5000,
    solver: str = "path",
    damping: float = 0.5,
    max_iter: int = 10_000,
) -> InferenceResult:
    """Naive mean field with linear response: the means of "naive", and χ = ∂m/∂h = (blockdiag(V⁻¹) − A(m))⁻¹.

    The diagonal of χ is not V = v − m²: that is what "dc" repairs.

    Parameters
    ----------
    model : BoltzmannMachine
        Of any order.
    tol : float
        Bound on the residual, the largest difference of ⟨φ⟩ and m at β = F(m).
    max_evaluations : int
        Of the equations, with solver "path".
    solver : {"path", "damped"}
        "path" follows the solution from no couplings to the model's; "damped" iterates m ← γm + (1 − γ)⟨φ⟩.
    damping : float
        The γ of solver "damped".
    max_iter : int
        Iterations of solver "damped".
    """
    return replace(_solve(model, tol, max_evaluations, solver, damping, max_iter, response=True), method="susp")


def _solve(
    model: BoltzmannMachine,
    tol: float,
    max_evaluations: int,
    solver: str,
    damping: float,
    max_iter: int,
    response: bool,
) -> InferenceResult:
    check_solver_options(tol, max_evaluations, solver, damping, max_iter)
    check_stable(model)
    problem = NaiveEquations(model)
    path = None
    if solver == "damped":
        found = iterate(problem.step, problem.mean(problem.start), damping=damping, max_iter=max_iter, tol=tol)
        point: Any = problem.evaluate(problem.couplings.F(found.x), 1.0)
        residual, n_iter, status = found.residual, found.n_iter, found.status
    else:
        end = arrive(problem, tol=0.01 * tol, max_evaluations=max_evaluations, observe=problem.observe)
        point, path = end.point, path_table(end.path)
        residual, n_iter, status = end.residual, end.n_evaluations, end.status(tol)
    return outcome(
        model,
        problem.sites,
        point.s,
        problem.chi(point) if response else None,
        method="naive",
        log_partition=problem.log_partition(point),
        converged=residual < tol,
        n_iter=n_iter,
        residual=residual,
        status=status,
        path=path,
    )


@dataclass(frozen=True)
class NaivePoint(DensePoint):
    alpha: float
    s: Any
    residual: float


class NaiveEquations:
    """R = β − αF(m) in the unknowns β, with ∂R/∂β = I − αA blockdiag(V)."""

    def __init__(self, model: BoltzmannMachine):
        self.sites, self.couplings = fields(model)
        self._no_lambda = np.zeros(self.sites.n_lambda)

    @property
    def start(self) -> np.ndarray:
        return np.zeros(self.sites.n_columns)

    @property
    def weights(self) -> np.ndarray:
        return 2.0 * self.sites.weights[: self.sites.n_columns]

    def evaluate(self, beta: np.ndarray, alpha: float) -> NaivePoint | None:
        s = self.sites.state(beta, self._no_lambda)
        if s is None:
            return None
        F = self.couplings.F(s.m)
        jacobian = -alpha * self.sites.times_V(self.couplings.A(s.m), s)
        jacobian.flat[:: len(beta) + 1] += 1.0
        residual = float(np.abs(self.mean(alpha * F) - s.m).max())
        return NaivePoint(beta - alpha * F, jacobian, -F, alpha, s, residual)

    def mean(self, beta: np.ndarray) -> np.ndarray:
        """⟨φ⟩ at β."""
        return self.sites.mean(beta, self._no_lambda)

    def step(self, m: np.ndarray) -> tuple[np.ndarray, float]:
        """m → ⟨φ⟩ at β = F(m), and how far that is from m."""
        image = self.mean(self.couplings.F(m))
        return image, float(np.abs(image - m).max())

    def chi(self, point: NaivePoint) -> np.ndarray:
        """L(I − LᵀAL)⁻¹Lᵀ with V = LLᵀ."""
        response = -self.sites.whiten(self.couplings.A(point.s.m), point.s)
        response.flat[:: len(response) + 1] += 1.0
        try:
            inverse = np.linalg.inv(response)
        except np.linalg.LinAlgError:  # exactly at a critical point, where χ is infinite in one direction
            inverse = np.linalg.pinv(response, hermitian=True)
        return self.sites.unwhiten(inverse, point.s)

    def log_partition(self, point: NaivePoint) -> float:
        return point.s.value + point.alpha * self.couplings.E(point.s.m)

    def observe(self, point: NaivePoint) -> tuple[float, float]:
        """ln Z and the root mean square of m, for ``InferenceResult.path``."""
        return self.log_partition(point), self.sites.size(point.s)
