"""Damped fixed-point iteration, x ← γx + (1 − γ)·f(x), and the checks of options that mean-field methods share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hbm_learn._validation import check_integer, check_number

SOLVERS = ("path", "damped")


@dataclass(frozen=True)
class FixedPoint:
    """The iterate with the smallest residual that was seen."""

    x: np.ndarray
    residual: float
    n_iter: int
    status: str


def iterate(
    step: Callable[[np.ndarray], tuple[np.ndarray, float]],
    x0: np.ndarray,
    *,
    damping: float,
    max_iter: int,
    tol: float,
) -> FixedPoint:
    """Iterate from x0 until the residual of the equations is below tol.

    Parameters
    ----------
    step : x → (f(x), residual of the equations at x); not finite where it cannot be evaluated.
    damping : γ, the weight of the old iterate.
    """
    x, best = x0, FixedPoint(x0, np.inf, 0, "")
    for k in range(1, max_iter + 1):
        with np.errstate(all="ignore"):
            image, residual = step(x)
        if not (np.isfinite(residual) and np.isfinite(image).all()):
            status = f"the damped iteration diverged after {k} iterations; raise damping, or use solver='path'."
            return FixedPoint(best.x, best.residual, k, status)
        if residual < best.residual:
            best = FixedPoint(x, residual, k, "")
        if residual < tol:
            return FixedPoint(x, residual, k, "converged")
        x = damping * x + (1.0 - damping) * image
    status = (
        f"the damped iteration did not converge in {max_iter} iterations (best residual {best.residual:.2g}); "
        "raise damping or max_iter, or use solver='path'."
    )
    return FixedPoint(best.x, best.residual, max_iter, status)


def check_solver_options(tol: float, max_evaluations: int, solver: str, damping: float, max_iter: int) -> None:
    """ValueError that names the option."""
    if solver not in SOLVERS:
        raise ValueError(f"solver={solver!r} is not known; choose one of {', '.join(map(repr, SOLVERS))}.")
    check_tolerance(tol, max_evaluations)
    check_number("damping", damping, 0.0, np.nextafter(1.0, 0.0), what="the weight of the old iterate, in [0, 1)")
    check_integer("max_iter", max_iter, 1)


def check_tolerance(tol: float, max_evaluations: int) -> None:
    """ValueError that names the option."""
    check_number("tol", tol, 0.0, open_low=True, what="a positive bound on the residual of the equations")
    check_integer("max_evaluations", max_evaluations, 1)
