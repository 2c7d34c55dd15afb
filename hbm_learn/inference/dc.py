"""Naive mean field with diagonal consistency ("dc"): the method. Its equations are in ``dc_equations``, the solver in
``continuation``, and why the solver arrives in docs/convergence.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hbm_learn.inference import free_energy
from hbm_learn.inference.continuation import Path, arrive, path_table
from hbm_learn.inference.damped import check_solver_options, iterate
from hbm_learn.inference.dc_equations import DCPoint, DiagonalConsistency
from hbm_learn.inference.equations import SiteState, check_stable
from hbm_learn.inference.result import InferenceResult
from hbm_learn.model import BoltzmannMachine


def dc(
    model: BoltzmannMachine,
    *,
    tol: float = 1e-10,
    max_evaluations: int = 5000,
    solver: str = "path",
    damping: float = 0.5,
    max_iter: int = 10_000,
) -> InferenceResult:
    """Naive mean field with diagonal consistency: any order, any alphabet.

        b = h + F(m) − Λm,   c = d − Λ,   χ = (diag(1/V + Λ) − A(m))⁻¹,   Λ such that χ_ii = V_i

    Parameters
    ----------
    model : BoltzmannMachine
    tol : bound on the residual, the largest of |⟨x⟩_{b,c} − m| and |χ_ii/V_i − 1|.
    max_evaluations : of the equations, with solver "path".
    solver : "path" follows the solution from no couplings to the model's, on the branch where χ is positive definite;
        "damped" iterates the equations as they stand, which converges only at weak couplings.
    damping, max_iter : weight of the old iterate and number of iterations, with solver "damped".

    Returns
    -------
    InferenceResult with ``Lambda`` Λ, ``chi``, and ``path`` (with solver "path"). ``log_partition`` is the adaptive TAP
    free energy for pairs, and at higher orders ∂ln Z/∂α integrated along the path (see ``free_energy``); the damped
    solver, which has no path, leaves the integral out.

    Notes
    -----
    An evaluation costs n³ flops (one Cholesky inverse) and 2.7 n³ for its linear system. From n = 300 on that system is
    solved by GMRES, in a few dozen products of n² each. Memory is O(n²). This holds for sparse models too: χ, which the
    derivatives need in full, is dense. Models of order ≥ 3 add about 6n flops for each triple within an interaction,
    and their ln Z about two evaluations at each of two or three nodes in every step of the path.
    """
    check_solver_options(tol, max_evaluations, solver, damping, max_iter)
    check_stable(model)
    problem = DiagonalConsistency(model)
    if solver == "damped":
        return _damped(problem, tol, damping, max_iter)
    end = arrive(problem, tol=0.01 * tol, max_evaluations=max_evaluations, observe=_observe)
    integral = free_energy.path_integral(problem, end.path)
    point: DCPoint = end.point
    return InferenceResult(
        method="dc",
        m=point.s.m,
        v=point.s.V + point.s.m**2,
        chi=point.chi,
        log_partition=free_energy.closed_form(point) + float(integral[-1]),
        converged=end.residual < tol,
        n_iter=end.n_evaluations,
        residual=end.residual,
        status=end.status(tol),
        Lambda=point.Lambda,
        path=_table(end.path, integral),
    )


def _observe(point: DCPoint) -> tuple[float, float]:
    return free_energy.closed_form(point), float(np.sqrt(np.mean(point.s.m**2)))


def _table(path: Path, integral: np.ndarray) -> np.ndarray:
    table = path_table(path)
    table[:, 1] += integral
    return table


@dataclass(frozen=True)
class _Sweep:
    """What one sweep over the equations computes from (m, Λ); χ may be anything, positive definite or not."""

    s: SiteState
    Lambda: np.ndarray
    scaled_chi: np.ndarray
    reaction: np.ndarray
    log_det: float
    residual: float


def _sweep(problem: DiagonalConsistency, m: np.ndarray, Lambda: np.ndarray) -> _Sweep | None:
    b = problem.h + problem.couplings.F(m) - Lambda * m
    s = problem.sites.state(b + problem.sites.t * Lambda, Lambda)
    if s is None:
        return None
    root = np.sqrt(s.V)
    A = problem.couplings.A(m)
    scaled = np.diag(1.0 + Lambda * s.V) - root[:, None] * A * root
    try:
        scaled_chi = np.linalg.inv(scaled)
    except np.linalg.LinAlgError:
        scaled_chi = np.linalg.pinv(scaled, hermitian=True)
    reaction = np.einsum("ik,ki->i", A * root, scaled_chi) / root
    residual = max(np.abs(s.m - m).max(), np.abs(np.diagonal(scaled_chi) - 1.0).max())
    return _Sweep(s, Lambda, scaled_chi, reaction, float(np.linalg.slogdet(scaled)[1]), float(residual))


def _damped(problem: DiagonalConsistency, tol: float, damping: float, max_iter: int) -> InferenceResult:
    """(m, Λ) ← (⟨x⟩, Σ_k A_ik χ_ki / V_i) (Eqs. adaptiveTAPEquation-m, diagonalConsistency_I-SusP_higher-order)."""
    n = len(problem.h)

    def step(x: np.ndarray) -> tuple[np.ndarray, float]:
        sweep = _sweep(problem, x[:n], x[n:])
        return (x, np.inf) if sweep is None else (np.concatenate([sweep.s.m, sweep.reaction]), sweep.residual)

    start = np.concatenate([problem.sites.moments(problem.h).m, np.zeros(n)])
    found = iterate(step, start, damping=damping, max_iter=max_iter, tol=tol)
    best = _sweep(problem, found.x[:n], found.x[n:])
    assert best is not None  # iterate gives back the start, or a point that it could evaluate
    s, root = best.s, np.sqrt(best.s.V)
    naive = free_energy.naive_log_partition(problem.h, problem.d, s, problem.couplings.E(s.m))
    return InferenceResult(
        method="dc",
        m=s.m,
        v=s.V + s.m**2,
        chi=root[:, None] * best.scaled_chi * root,
        log_partition=naive + free_energy.reaction_log_partition(best.Lambda, s.V, best.log_det),
        converged=found.residual < tol,
        n_iter=found.n_iter,
        residual=found.residual,
        status=found.status,
        Lambda=best.Lambda,
    )
