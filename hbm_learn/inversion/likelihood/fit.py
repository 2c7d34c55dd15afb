"""Maximum likelihood (posterior mode with a prior), from moments alone.

    max_θ  L(θ) = θ·t̄ − ln Z(θ) − penalty(θ),     ∂L/∂θ = t̄ − ⟨t⟩_θ − penalty',     −∂²L/∂θ² = F(θ) + ridge

L is concave. While the states can be listed, ⟨t⟩ and the Fisher matrix F = Cov(t) are exact, from the table of all
states; beyond that they are averages over Gibbs chains.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hbm_learn._threads import blas_for
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.closed_form import diagonal
from hbm_learn.inversion.likelihood import matrix_free as fisher_free
from hbm_learn.inversion.likelihood import monte_carlo as boltzmann_learning
from hbm_learn.inversion.likelihood.target import Target
from hbm_learn.inversion.prior import Prior
from hbm_learn.inversion.result import UNBOUNDED, InversionResult
from hbm_learn.model import BoltzmannMachine
from hbm_learn.optimise import newton
from hbm_learn.states import MAX_STATES, StateTable

if TYPE_CHECKING:
    from hbm_learn.data.moments import Moments

# The Fisher matrix is dense up to this many parameters.
MAX_DENSE = 6500
# Variables on an Interval whose grid can be listed.
MAX_GRID = 6


def fit(
    moments: Moments,
    interactions: Interactions,
    start: BoltzmannMachine | None,
    prior: Prior,
    *,
    tol: float = 1e-10,
    max_iter: int = 100,
    random_state: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> InversionResult:
    """The maximum of L over h, d (unless two-valued) and the couplings of ``interactions``.

    Parameters
    ----------
    moments : Moments of the order of the interactions, or above; n_samples may be infinite (exact moments).
    interactions : which J_μ there are.
    start : where to begin, such as the closed form; independence if it is None, or better.
    prior : α of each order, fixed; see ``prior.learn`` for empirical Bayes.
    tol : largest entry of the (sub)gradient of L at which the fit has converged; chains stop on their own rule.
    max_iter : Newton steps, or batches of draws, at most.
    random_state, n_jobs : of the Gibbs chains, where there are some.
    verbose : 1 prints a line for each step.
    """
    target = Target.of(moments, interactions, prior)
    if _listable(target) and len(target.t) <= MAX_DENSE:
        with blas_for(len(target.t)):
            return _newton(target, start, tol, max_iter, verbose)
    if _listable(target):
        return _fisher_free(target, moments, start, tol, max_iter, verbose)
    starts = [target.independent()] + ([] if start is None else [target.parameters(start)])
    with blas_for(len(target.t)):
        result = boltzmann_learning.fit(
            target, starts, max_iter=max_iter, random_state=random_state, n_jobs=n_jobs, verbose=verbose
        )
    return _if_finite(target, result)


def _listable(target: Target) -> bool:
    """Whether a table of all states fits."""
    kind, n = target.alphabet.kind, target.n_features
    if kind == "real":
        raise ValueError('alphabet "real": the closed form is the maximum likelihood of all pairs; use refine=None.')
    return target.alphabet.enumerable(n, MAX_STATES) if kind == "finite" else n <= MAX_GRID


def _newton(target: Target, start: BoltzmannMachine | None, tol: float, max_iter: int, verbose: int) -> InversionResult:
    """Newton's method with the exact Fisher matrix."""
    found = newton.maximise(
        lambda theta: Point.at(target, theta),
        _best_start(target, start),
        target.lasso,
        tol=tol,
        max_iter=max_iter,
        verbose=verbose,
    )
    point = found.point
    assert isinstance(point, Point)
    return target.result(
        point.theta,
        point.fisher,
        converged=found.converged,
        status=found.status if found.runaway is None else _boundary(target, found.runaway, point.theta, found.n_iter),
        n_iter=found.n_iter,
        residual=found.residual,
    )


def _fisher_free(
    target: Target, moments: Moments, start: BoltzmannMachine | None, tol: float, max_iter: int, verbose: int
) -> InversionResult:
    """Newton's method by products with F; errors as those of Gaussian data, since F⁻¹ is out of reach."""
    first = _best_start(target, start).theta
    theta, residual, n_iter, converged, status = fisher_free.maximise(
        target, first, tol=tol, max_iter=max_iter, verbose=verbose
    )
    alpha = {k: target.prior.alpha.get(k, 0.0) for k in range(2, target.interactions.order + 1)}
    return replace(
        diagonal.invert(moments, target.interactions, alpha),
        method="likelihood",
        model=target.model(theta),
        converged=converged,
        status=status,
        n_iter=n_iter,
        residual=residual,
        notes=[
            f"{len(theta):,} parameters are too many for the Fisher matrix: standard errors are those of Gaussian data."
        ],
    )


class Point:
    """L at θ (without its ℓ1 part) and its derivatives, exactly, from one table of all states."""

    def __init__(self, target: Target, theta: np.ndarray, table: StateTable):
        self.target, self.theta, self.table = target, theta, table
        self.value = float(theta @ (target.t - 0.5 * target.ridge * theta) - table.log_partition)

    @classmethod
    def at(cls, target: Target, theta: np.ndarray) -> Point | None:
        try:
            return cls(target, theta, StateTable(target.model(theta)))
        except ValueError:  # the energies exceed float64: too long a step
            return None

    @cached_property
    def gradient(self) -> np.ndarray:
        """t̄ − ⟨t⟩ − ridge θ, (P,)."""
        return self.target.t - self.table.statistics(self.target.interactions) - self.target.ridge * self.theta

    @cached_property
    def fisher(self) -> np.ndarray:
        """F = Cov(t), (P, P)."""
        return self.table.fisher(self.target.interactions)

    @property
    def curvature(self) -> np.ndarray:
        """F + ridge, (P, P)."""
        H = self.fisher.copy()
        H[np.diag_indices_from(H)] += self.target.ridge
        return H


def _best_start(target: Target, start: BoltzmannMachine | None) -> Point:
    """The better of ``start`` and independence: at strong coupling the closed form can be worse than nothing."""
    plain = Point(target, target.independent(), StateTable(target.model(target.independent())))
    given = None if start is None else Point.at(target, target.parameters(start))
    return plain if given is None or given.value < plain.value else given


def _if_finite(target: Target, result: InversionResult) -> InversionResult:
    """The result of chains: they see no difference between a coupling that is large and one that should be infinite."""
    theta = target.parameters(result.model)
    width = np.diff(target.alphabet.bounds).item() ** np.diff(target.interactions.indptr)
    size = np.abs(theta[target.n_free :]) * width * ((target.ridge + target.lasso)[target.n_free :] == 0.0)
    if size.max(initial=0.0) < UNBOUNDED:
        return result
    status = _boundary(target, target.n_free + int(size.argmax()), theta, result.n_iter)
    return replace(result, converged=False, status=status)


def _boundary(target: Target, r: int, theta: np.ndarray, n_iter: int) -> str:
    free = (target.ridge + target.lasso)[target.n_free :] == 0.0
    remedy = "give alpha > 0: a prior keeps every coupling finite" if free.any() else "drop the variable"
    return (
        f"the likelihood has no finite maximum: {target.label(r)} still grows ({theta[r]:.3g} after "
        f"{n_iter} steps), as when some combination of values never occurs in the data; {remedy}."
    )
