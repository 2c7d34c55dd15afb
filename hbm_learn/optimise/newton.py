"""Newton's method with whole matrices for a smooth convex function plus ℓ1. It knows nothing of spins.

    min_θ  Q(θ) + Σ_r lasso_r |θ_r|,     step:  min_δ  g·δ + ½ δ'Hδ + Σ_r lasso_r |θ_r + δ_r|

with g = ∂Q/∂θ and H = ∂²Q/∂θ². Without ℓ1 the step is −H⁻¹g, and a factor of H is kept for another step while each
step makes the gradient ten times smaller: steps then cost a gradient and no matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hbm_learn._kernels.quadratic import coordinate_descent
from hbm_learn.linalg import factor, solve
from hbm_learn.optimise.proximal_newton import subgradient

# A step is small if no parameter moves by more than this (absolute and relative).
_SMALL = 1e-6
# Steps granted after the gradient has vanished, for parameters to come to rest.
_PATIENCE = 3
_ROUNDING = 1e-14


class NewtonPoint(Protocol):
    """Q and its derivatives at one θ; all but the value are computed when asked for."""

    theta: np.ndarray
    value: float

    @property
    def gradient(self) -> np.ndarray: ...

    @property
    def curvature(self) -> np.ndarray:
        """H, (P, P) positive semidefinite."""
        ...


@dataclass(frozen=True, eq=False)
class PointMinimum:
    """Where the iteration ended: ``runaway`` is the parameter that still moved when the gradient had vanished."""

    point: NewtonPoint
    converged: bool
    status: str
    n_iter: int
    residual: float
    runaway: int | None = None


def minimise(
    at: Callable[[np.ndarray], NewtonPoint | None],
    start: NewtonPoint,
    lasso: np.ndarray,
    *,
    tol: float,
    max_iter: int,
    verbose: int = 0,
) -> PointMinimum:
    """Damped Newton from ``start``.

    Parameters
    ----------
    at : θ → NewtonPoint or None
        None where Q is not finite.
    start : NewtonPoint
    lasso : (P,) array
        ℓ1 penalties.
    tol : float
        Largest entry of the subgradient at which to stop; the last step must be small as well, which it is not when
        there is no finite minimum.
    max_iter : int
        Steps at most.
    verbose : int
        1 prints a line for each step.
    """
    point, model, previous, rest = start, None, np.inf, 0
    for n_iter in range(max_iter + 1):
        g = subgradient(point.theta, point.gradient, lasso)
        residual = float(np.abs(g).max(initial=0.0))
        if model is None or residual > 0.1 * previous or residual <= tol:
            model = _Quadratic(point.curvature, lasso)
        step = model.step(point)
        moving = np.abs(step) - _SMALL * (1.0 + np.abs(point.theta))
        if verbose:
            print(
                f"Newton {n_iter}: objective {point.value:.12g}, gradient {residual:.2g}, step {np.abs(step).max():.2g}"
            )
        if residual <= tol:
            if moving.max(initial=0.0) <= 0.0:
                return PointMinimum(point, True, "converged", n_iter, residual)
            rest += 1
            if rest > _PATIENCE:
                return PointMinimum(point, False, "no finite minimum", n_iter, residual, int(np.argmax(moving)))
        if n_iter == max_iter:
            break
        trial = _search(at, point, step, g, lasso)
        if trial is None:
            status = (
                f"stopped at the rounding error of the objective, where the gradient is {residual:.2g} (tol={tol:g})."
            )
            return PointMinimum(point, False, status, n_iter, residual)
        previous, point = residual, trial
    status = (
        f"not converged in {max_iter} steps: the gradient is {residual:.2g} (tol={tol:g}); raise max_iter or alpha."
    )
    return PointMinimum(point, False, status, max_iter, residual)


class _Quadratic:
    """The model of Q around a point, and its minimum."""

    def __init__(self, H: np.ndarray, lasso: np.ndarray):
        self.H, self.lasso = H, lasso
        self.factored = None if lasso.any() else factor(H)

    def step(self, point: NewtonPoint) -> np.ndarray:
        if self.factored is not None:
            return -solve(self.factored, point.gradient)
        return coordinate_descent(self.H, point.gradient, point.theta, self.lasso, 1e-12, 1000)


def _search(
    at: Callable[[np.ndarray], NewtonPoint | None],
    point: NewtonPoint,
    step: np.ndarray,
    g: np.ndarray,
    lasso: np.ndarray,
) -> NewtonPoint | None:
    """The first of 1, ½, … of the step that falls enough, or that keeps the value and lowers the gradient."""

    def value(p: NewtonPoint) -> float:
        return p.value + float(lasso @ np.abs(p.theta))

    old = value(point)
    slack = _ROUNDING * (1.0 + abs(old)) * len(g) ** 0.5
    promised = -float(point.gradient @ step + lasso @ (np.abs(point.theta + step) - np.abs(point.theta)))
    length = 1.0
    for _ in range(60):
        trial = at(point.theta + length * step)
        if trial is not None:
            fall = old - value(trial)
            if fall >= 1e-4 * length * promised and promised > slack:
                return trial
            if fall >= -slack and promised <= slack:
                better = subgradient(trial.theta, trial.gradient, lasso)
                return trial if np.abs(better).max() < np.abs(g).max() else None
            # The minimum of the parabola through both values and the slope, kept within bounds.
            curved = 0.5 * length * promised / max(length * promised - fall, 1e-300)
            length *= min(max(curved, 0.1), 0.5)
        else:
            length *= 0.1
    return None
