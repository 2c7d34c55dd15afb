"""Maximum likelihood (posterior mode with a prior), from moments alone.

    min_θ  −L(θ) = ln Z(θ) − θ·t̄ + penalty(θ),     −∂L/∂θ = ⟨t⟩_θ − t̄ + penalty',     −∂²L/∂θ² = F(θ) + ridge

−L is convex, and what optimisers minimise. While the states can be listed, ⟨t⟩ and the Fisher matrix F = Cov(t) are
exact, from the table of all states; beyond that they are averages over Gibbs chains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from hbm_learn._threads import blas_for
from hbm_learn.data.moments import Moments
from hbm_learn.inversion.likelihood import matrix_free, monte_carlo
from hbm_learn.inversion.likelihood.given import GivenTables
from hbm_learn.inversion.likelihood.target import Target
from hbm_learn.inversion.parameters import UNBOUNDED, Parameters
from hbm_learn.inversion.prior import Prior
from hbm_learn.inversion.result import Fit
from hbm_learn.optimise import newton
from hbm_learn.states import MAX_STATES, StateTable

# The Fisher matrix is dense up to this many parameters.
MAX_DENSE_FISHER = 6500


def fit(
    data: Moments | Target,
    parameters: Parameters,
    start: np.ndarray | None,
    prior: Prior,
    *,
    rows: np.ndarray | None = None,
    tol: float = 1e-10,
    max_iter: int = 100,
    random_state: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Fit:
    """The minimum of −L over own weights and the couplings of ``parameters``.

    Parameters
    ----------
    data : Moments or Target
        Moments of the order of the interactions, or above; n_samples may be infinite (exact moments). Fits under
        several priors share a target of them.
    parameters : Parameters
        Which there are, in which gauge.
    start : (P,) array or None
        Where to begin, such as the closed form; independence if it is None, or better.
    prior : Prior
        α of each order, fixed; see ``prior.learn`` for empirical Bayes.
    rows : (R, n) array or None
        Codes of data rows, where there are chains: see ``monte_carlo.fit``.
    tol : float
        Largest entry of the (sub)gradient of L at which the fit has converged; chains stop on their own rule.
    max_iter : int
        Newton steps, or batches of draws, at most.
    random_state, n_jobs
        Of the Gibbs chains, where there are some.
    verbose : int
        1 prints a line for each step.
    """
    target = (data if isinstance(data, Target) else Target.of(data, parameters)).under(prior)
    listable = target.patterns is not None or parameters.space.enumerable(MAX_STATES)
    if listable and len(target.t) <= MAX_DENSE_FISHER:
        with blas_for(len(target.t)):
            begin = _best_start(target, start)
            return by_newton(target, lambda theta: LikelihoodPoint.at(target, theta), begin, tol, max_iter, verbose)
    if listable:
        return _matrix_free(target, start, tol, max_iter, verbose)
    starts = [target.independent] + ([] if start is None else [start])
    with blas_for(len(target.t)):
        result = monte_carlo.fit(
            target, starts, rows=rows, max_iter=max_iter, random_state=random_state, n_jobs=n_jobs, verbose=verbose
        )
    return _if_finite(target, result)


class FisherPoint(newton.NewtonPoint, Protocol):
    """−L at θ with its information matrix F."""

    @property
    def fisher(self) -> np.ndarray: ...


def by_newton(
    target: Target,
    at: Callable[[np.ndarray], FisherPoint | None],
    start: FisherPoint,
    tol: float = 1e-10,
    max_iter: int = 100,
    verbose: int = 0,
) -> Fit:
    """Newton's method with whole matrices, and θ with the errors that F at the minimum tells.

    Parameters
    ----------
    target : Target
        The penalty, M, and what θ means.
    at : θ → point or None
        −L under the target's penalty.
    start : point
    tol, max_iter, verbose
        As in ``fit``.
    """
    found = newton.minimise(at, start, target.lasso, tol=tol, max_iter=max_iter, verbose=verbose)
    point: Any = found.point
    result = target.fit(
        point.theta,
        point.fisher,
        converged=found.converged,
        status=found.status if found.runaway is None else _boundary(target, found.runaway, point.theta, found.n_iter),
        n_iter=found.n_iter,
        residual=found.residual,
    )
    return result if found.runaway is None else _without_free(result)


def _matrix_free(target: Target, start: np.ndarray | None, tol: float, max_iter: int, verbose: int) -> Fit:
    """Newton's method by products with F; errors as those of independent variables, since F⁻¹ is out of reach."""
    theta, residual, n_iter, converged, status = matrix_free.minimise(
        target, _best_start(target, start).theta, tol=tol, max_iter=max_iter, verbose=verbose
    )
    note = (
        f"{len(theta):,} parameters are too many for the Fisher matrix: standard errors are those of weakly dependent "
        "variables."
    )
    information = matrix_free.FisherProducts(target, theta).diagonal - target.ridge
    result = target.diagonal_fit(
        theta, information, converged=converged, status=status, n_iter=n_iter, residual=residual
    )
    return replace(result, notes=[note])


class LikelihoodPoint:
    """−L at θ (without its ℓ1 part) and its derivatives, exactly, from one table of all states."""

    def __init__(self, target: Target, theta: np.ndarray, table: StateTable | GivenTables):
        self.target, self.theta, self.table = target, theta, table
        self.value = float(table.log_partition - theta @ (target.t - 0.5 * target.ridge * theta))

    @classmethod
    def at(cls, target: Target, theta: np.ndarray) -> LikelihoodPoint | None:
        try:
            return cls(target, theta, target.table(theta))
        except ValueError:  # the energies exceed float64: too long a step
            return None

    @cached_property
    def gradient(self) -> np.ndarray:
        """⟨t⟩ + ridge θ − t̄, (P,)."""
        return self.table.statistics(self.target.parameters) + self.target.ridge * self.theta - self.target.t

    @cached_property
    def fisher(self) -> np.ndarray:
        """F = Cov(t), (P, P)."""
        return self.table.fisher(self.target.parameters)

    @property
    def curvature(self) -> np.ndarray:
        """F + ridge, (P, P)."""
        H = self.fisher.copy()
        H[np.diag_indices_from(H)] += self.target.ridge
        return H


def _best_start(target: Target, start: np.ndarray | None) -> LikelihoodPoint:
    """The better of ``start`` and independence: at strong coupling the closed form can be worse than nothing."""
    # The closed form of columns that repeat each other: so far out, matrices are singular to rounding.
    absurd = start is None or target.parameters.reach(start).max(initial=0.0) > UNBOUNDED
    given = None if absurd else LikelihoodPoint.at(target, start)  # type: ignore[arg-type]
    if given is not None and given.value <= target.independent_value:
        return given
    return LikelihoodPoint(target, target.independent, target.table(target.independent))


def _if_finite(target: Target, result: Fit) -> Fit:
    """The result of chains: they see no difference between a coupling that is large and one that should be infinite."""
    parameters, theta = target.parameters, result.theta
    size = parameters.reach(theta) * ((target.ridge + target.lasso)[parameters.n_own :] == 0.0)
    if size.max(initial=0.0) < UNBOUNDED:
        return result
    status = _boundary(target, parameters.n_own + int(size.argmax()), theta, result.n_iter)
    return replace(_without_free(result), converged=False, status=status)


def _without_free(result: Fit) -> Fit:
    return replace(result, make_whole=lambda: result.whole.without_free())


def _boundary(target: Target, r: int, theta: np.ndarray, n_iter: int) -> str:
    free = (target.ridge + target.lasso)[target.parameters.n_own :] == 0.0
    remedy = "give alpha > 0: a prior keeps every coupling finite" if free.any() else "drop the variable"
    return (
        f"the likelihood has no finite maximum: {target.label(r)} still grows ({theta[r]:.3g} after "
        f"{n_iter} steps), as when some combination of values never occurs in the data; {remedy}."
    )
