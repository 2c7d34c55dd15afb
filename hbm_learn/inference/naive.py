"""Naive mean field, and its linear response ("susp").

b = h + F(m),   c = d,   m, v from the site                    (Eq. NaiveMeanFieldFreeEnergy_higher-order)
χ = (diag(1/V) − A(m))⁻¹                                       ("susp": its diagonal is not V)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hbm_learn.inference.bordered import DensePoint
from hbm_learn.inference.continuation import arrive, path_table
from hbm_learn.inference.damped import check_solver_options, iterate
from hbm_learn.inference.equations import Couplings, Sites, SiteState, check_stable
from hbm_learn.inference.free_energy import naive_log_partition
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
    """Naive mean field: b = h + F(m), c = d. Any order, any alphabet; no covariances.

    Parameters
    ----------
    model : BoltzmannMachine
    tol : bound on the residual, max |⟨x⟩_{b,c} − m|.
    max_evaluations : of the equations, with solver "path".
    solver : "path" follows the solution from no couplings to the model's; "damped" iterates m ← γm + (1 − γ)⟨x⟩.
    damping, max_iter : γ and the number of iterations, with solver "damped".

    Notes
    -----
    The solution on the path is the one connected to that without couplings. One evaluation costs 2n³/3 flops (one LU).
    """
    return _solve(model, tol, max_evaluations, solver, damping, max_iter)[0]


def susp(
    model: BoltzmannMachine,
    *,
    tol: float = 1e-10,
    max_evaluations: int = 5000,
    solver: str = "path",
    damping: float = 0.5,
    max_iter: int = 10_000,
) -> InferenceResult:
    """Naive mean field with linear response: the means of "naive", and χ = ∂m/∂h = (diag(1/V) − A(m))⁻¹.

    The diagonal of χ is not V = v − m²: that is what "dc" repairs. Parameters as for "naive".
    """
    result, s = _solve(model, tol, max_evaluations, solver, damping, max_iter)
    root = np.sqrt(s.V)
    response = np.eye(model.n_features) - root[:, None] * model.A(s.m) * root
    try:
        inverse = np.linalg.inv(response)
    except np.linalg.LinAlgError:  # exactly at a critical point, where χ is infinite in one direction
        inverse = np.linalg.pinv(response, hermitian=True)
    return replace(result, method="susp", chi=root[:, None] * inverse * root)


def _solve(
    model: BoltzmannMachine, tol: float, max_evaluations: int, solver: str, damping: float, max_iter: int
) -> tuple[InferenceResult, SiteState]:
    check_solver_options(tol, max_evaluations, solver, damping, max_iter)
    check_stable(model)
    problem = NaiveEquations(model)
    path = None
    if solver == "damped":
        start = problem.sites.moments(model.h).m
        found = iterate(problem.step, start, damping=damping, max_iter=max_iter, tol=tol)
        point: Any = problem.evaluate(model.h + problem.couplings.F(found.x), 1.0)
        residual, n_iter, status = found.residual, found.n_iter, found.status
    else:
        end = arrive(problem, tol=0.01 * tol, max_evaluations=max_evaluations, observe=problem.observe)
        point, path = end.point, path_table(end.path)
        residual, n_iter, status = end.residual, end.n_evaluations, end.status(tol)
    s = point.s
    result = InferenceResult(
        method="naive",
        m=s.m,
        v=s.V + s.m**2,
        chi=None,
        log_partition=problem.log_partition(point),
        converged=residual < tol,
        n_iter=n_iter,
        residual=residual,
        status=status,
        path=path,
    )
    return result, s


@dataclass(frozen=True)
class NaivePoint(DensePoint):
    alpha: float
    s: SiteState
    residual: float


class NaiveEquations:
    """R = b − h − αF(m) in the unknowns b, with ∂R/∂b = I − αA diag(V)."""

    def __init__(self, model: BoltzmannMachine):
        self.h, self.d = model.h, model.d
        self.sites, self.couplings = Sites(model), Couplings(model)

    @property
    def start(self) -> np.ndarray:
        return self.h

    @property
    def weights(self) -> np.ndarray:
        return 2.0 * self.sites.weights[: len(self.h)]

    def evaluate(self, b: np.ndarray, alpha: float) -> NaivePoint | None:
        s = self.sites.state(b, np.zeros_like(b))
        if s is None:
            return None
        F = self.couplings.F(s.m)
        jacobian = self.couplings.A(s.m) * (-alpha * s.V)
        jacobian.flat[:: len(b) + 1] = 1.0
        residual = float(np.abs(self.sites.moments(self.h + alpha * F).m - s.m).max())
        return NaivePoint(b - self.h - alpha * F, jacobian, -F, alpha, s, residual)

    def step(self, m: np.ndarray) -> tuple[np.ndarray, float]:
        """m → ⟨x⟩ at b = h + F(m), and how far that is from m."""
        image = self.sites.moments(self.h + self.couplings.F(m)).m
        return image, float(np.abs(image - m).max())

    def log_partition(self, point: NaivePoint) -> float:
        return naive_log_partition(self.h, self.d, point.s, point.alpha * self.couplings.E(point.s.m))

    def observe(self, point: NaivePoint) -> tuple[float, float]:
        """ln Z and the root mean square of m, for ``InferenceResult.path``."""
        return self.log_partition(point), float(np.sqrt(np.mean(point.s.m**2)))
