"""Naive mean field with diagonal consistency ("dc"): the method. Its equations are in ``dc_equations`` (one function of
each variable) and ``block_equations`` (several), the solver in ``continuation``, and why the solver arrives in
docs/convergence.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hbm_learn.inference import free_energy
from hbm_learn.inference.block_equations import BlockConsistency
from hbm_learn.inference.continuation import Path, arrive, path_table
from hbm_learn.inference.damped import check_solver_options, iterate
from hbm_learn.inference.dc_equations import DiagonalConsistency
from hbm_learn.inference.equations import check_stable
from hbm_learn.inference.fields import MAX_COVARIANCES, outcome
from hbm_learn.inference.result import InferenceResult
from hbm_learn.inference.sparse_equations import sparse_problem
from hbm_learn.model import BoltzmannMachine

Consistency = DiagonalConsistency | BlockConsistency


def dc(
    model: BoltzmannMachine,
    *,
    tol: float = 1e-10,
    max_evaluations: int = 5000,
    solver: str = "path",
    damping: float = 0.5,
    max_iter: int = 10_000,
) -> InferenceResult:
    """Naive mean field with diagonal consistency: any order, variables of any kind.

    Of numbers::

        b = h + F(m) − Λm,   c = d − Λ,   χ = (diag(1/V + Λ) − A(m))⁻¹,   Λ such that χ_ii = V_i

    and with functions φ_i of each variable::

        q_i ∝ exp(θ_i + F_i·φ_i + ½(φ_i − m_i)ᵀΛ_i(φ_i − m_i)),   χ = (blockdiag(V_i⁻¹ + Λ_i) − A(m))⁻¹,   χ_ii = V_i

    Parameters
    ----------
    model : BoltzmannMachine
    tol : float
        Bound on the residual, the largest of ``|⟨φ⟩ − m|`` and ``|χ_ii/V_i − 1|``.
    max_evaluations : int
        Of the equations, with solver "path".
    solver : str
        "path" follows the solution from no couplings to the model's, on the branch where χ is positive definite;
        "damped" iterates the equations as they stand, which converges only at weak couplings.
    damping, max_iter : float, int
        Weight of the old iterate and number of iterations, with solver "damped".

    Returns
    -------
    InferenceResult
        With ``Lambda`` (n,), or a list of (r_i, r_i) where a variable has several functions, ``covariances`` χ (None
        for sparse models of more than 1000 columns), and ``path`` (with solver "path"). ``log_partition`` is the
        adaptive TAP free energy for pairs, and at higher orders ∂ln Z/∂α integrated along the path (see
        ``free_energy``); the damped solver, which has no path, leaves the integral out.

    Notes
    -----
    With one function of each variable the path arrives for almost every (h, d) on any bounded alphabet
    (docs/convergence.md). With several this is unproven: no lower bound on V_i is known. ``status`` says where a path
    ended in either case.

    An evaluation costs n³ flops (one Cholesky inverse) and 2.7 n³ for its linear system. From n = 300 on that system is
    solved by GMRES, in a few dozen products of n² each. Memory is O(n²). Models of order ≥ 3 add about 6n flops for
    each triple within an interaction, and their ln Z about two evaluations at each of two or three nodes in every step
    of the path. Where variables have several functions, the linear system has N + P unknowns, P = Σ r_i(r_i + 1)/2,
    and is factorised, ⅔(N + P)³ flops.

    Models of more than 300 columns with at most 30 neighbours each on average, whose S has a factor that fills less
    than a tenth, are solved with sparse S (not on the real line; only pairs where variables have several functions):
    the diagonal of its inverse comes from the factor by Takahashi's recursion, without error but rounding, and Newton's
    steps from GMRES on differences of the equations. Memory is that of the factor. ln Z of order ≥ 3 takes as many
    solutions with the factor as there are variables in interactions at each node, and the square of their number.
    """
    check_solver_options(tol, max_evaluations, solver, damping, max_iter)
    check_stable(model)
    if solver == "damped":
        return _damped(model, _dense(model), tol, damping, max_iter)
    sparse = sparse_problem(model)
    problem = _dense(model) if sparse is None else sparse
    end = arrive(
        problem,
        tol=0.01 * tol,
        max_evaluations=max_evaluations,
        observe=lambda point: (point.closed_form, problem.sites.size(point.s)),
    )
    integral = free_energy.path_integral(problem, end.path)
    point: Any = end.point
    return outcome(
        model,
        problem.sites,
        point.s,
        point.chi if sparse is None or problem.n <= MAX_COVARIANCES else None,
        method="dc",
        log_partition=point.closed_form + float(integral[-1]),
        converged=end.residual < tol,
        n_iter=end.n_evaluations,
        residual=end.residual,
        status=end.status(tol),
        Lambda=point.s.Lambda if model.space.is_scalar else problem.sites.lambdas(point.s),
        path=_table(end.path, integral),
    )


def _dense(model: BoltzmannMachine) -> Consistency:
    return DiagonalConsistency(model) if model.space.is_scalar else BlockConsistency(model)


def _table(path: Path, integral: np.ndarray) -> np.ndarray:
    table = path_table(path)
    table[:, 1] += integral
    return table


@dataclass(frozen=True)
class _Sweep:
    """What one sweep over the equations computes from (m, Λ); χ may be anything, positive definite or not."""

    s: Any
    scaled_chi: np.ndarray
    reaction: np.ndarray
    log_det: float
    residual: float


def _sweep(problem: Consistency, m: np.ndarray, Lambda: np.ndarray) -> _Sweep | None:
    sites: Any = problem.sites
    s = sites.state(problem.couplings.F(m) - sites.reaction_field(m, Lambda), Lambda)
    if s is None:
        return None
    A = problem.couplings.A(m)
    scaled = sites.scaled(A, s, Lambda)
    try:
        scaled_chi = np.linalg.inv(scaled)
    except np.linalg.LinAlgError:
        scaled_chi = np.linalg.pinv(scaled, hermitian=True)
    residual = max(np.abs(s.m - m).max(), sites.mismatch(scaled_chi))
    log_det = float(np.linalg.slogdet(scaled)[1])
    return _Sweep(s, scaled_chi, sites.reaction(A, scaled_chi, s), log_det, float(residual))


def _damped(
    model: BoltzmannMachine, problem: Consistency, tol: float, damping: float, max_iter: int
) -> InferenceResult:
    """(m, Λ) ← (⟨φ⟩, Σ_k A_ik χ_ki V_i⁻¹) (Eqs. adaptiveTAPEquation-m, diagonalConsistency_I-SusP_higher-order)."""
    sites: Any = problem.sites
    n = sites.n_columns

    def step(x: np.ndarray) -> tuple[np.ndarray, float]:
        sweep = _sweep(problem, x[:n], x[n:])
        return (x, np.inf) if sweep is None else (np.concatenate([sweep.s.m, sweep.reaction]), sweep.residual)

    free = np.zeros(sites.n_lambda)
    start = np.concatenate([sites.mean(np.zeros(n), free), free])
    found = iterate(step, start, damping=damping, max_iter=max_iter, tol=tol)
    best = _sweep(problem, found.x[:n], found.x[n:])
    assert best is not None  # iterate gives back the start, or a point that it could evaluate
    naive = best.s.value + problem.couplings.E(best.s.m)
    return outcome(
        model,
        sites,
        best.s,
        sites.unwhiten(best.scaled_chi, best.s),
        method="dc",
        log_partition=naive + 0.5 * sites.trace(best.s, best.s.Lambda) - 0.5 * best.log_det,
        converged=found.residual < tol,
        n_iter=found.n_iter,
        residual=found.residual,
        status=found.status,
        Lambda=sites.lambdas(best.s),
    )
