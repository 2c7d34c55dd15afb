"""Maximise a smooth concave function whose Hessian costs as much as many gradients: BFGS from a Hessian that is known.

    θ ← θ + B g,     B = H⁻¹ corrected so that B Δg = Δθ for the steps since H was made

Steps keep an old H while each takes nine tenths of what is left, ½ gᵀB g; then H is made anew.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg

_MAX_ITER = 200


def maximise(
    value_gradient: Callable[[np.ndarray], tuple[float, np.ndarray]],
    hessian: Callable[[np.ndarray], np.ndarray],
    theta: np.ndarray,
    H: np.ndarray | None,
    free: np.ndarray,
    enough: float,
) -> tuple[np.ndarray, np.ndarray]:
    """θ (P,) at the maximum, and the last H that was used.

    Parameters
    ----------
    value_gradient, hessian : callables
        Of θ; the Hessian is that of −f, (P, P).
    theta : (P,) array
        Start.
    H : (P, P) array or None
        A Hessian that is good enough there; None to make one.
    free : (P,) bool array
        Parameters that may move.
    enough : float
        gᵀB g at which the last step is taken.
    """
    value, gradient = value_gradient(theta)
    model, old, fresh = None, np.inf, False
    for _ in range(_MAX_ITER):
        if model is None:
            H, fresh = (hessian(theta), True) if H is None else (H, False)
            model = _Quadratic(H, free)
        step = model.solve(gradient)
        decrement = float(gradient @ step)
        if decrement <= enough:
            theta = theta + step
            break
        if decrement > 0.1 * old and not fresh:
            model, H, old = None, None, np.inf
            continue
        length, new = 1.0, value_gradient(theta + step)
        while new[0] < value + 1e-4 * length * decrement - 1e-10 * abs(value) and length > 1e-6:
            length *= 0.5
            new = value_gradient(theta + length * step)
        theta = theta + length * step
        model.learn(length * step, gradient - new[1])
        (value, gradient), old, fresh = new, decrement if length == 1.0 else 0.0, False
    return theta, hessian(theta) if H is None else H


class _Quadratic:
    """H⁻¹ of the free parameters, and the changes of the gradient along the steps that were taken."""

    def __init__(self, H: np.ndarray, free: np.ndarray):
        self.free, self.factor = free, factor(H[np.ix_(free, free)])
        self.seen: list[tuple[np.ndarray, np.ndarray, float]] = []

    def learn(self, step: np.ndarray, change: np.ndarray) -> None:
        along = float(step @ change)
        if along > 0.0:
            self.seen.append((step[self.free], change[self.free], along))

    def solve(self, gradient: np.ndarray) -> np.ndarray:
        """H⁻¹·gradient, zero in what is fixed."""
        q, taken = gradient[self.free], []
        for step, change, along in reversed(self.seen):
            taken.append(step @ q / along)
            q = q - taken[-1] * change
        q = linalg.cho_solve(self.factor, q)
        for (step, change, along), a in zip(self.seen, reversed(taken)):
            q = q + step * (a - change @ q / along)
        out = np.zeros_like(gradient)
        out[self.free] = q
        return out


def factor(H: np.ndarray) -> tuple[np.ndarray, bool]:
    """Cholesky factor, with as little on the diagonal as it takes."""
    scale = np.maximum(np.diag(H), 1e-300)
    for jitter in (0.0, 1e-12, 1e-9, 1e-6, 1e-3):
        try:
            return linalg.cho_factor(H + np.diag(jitter * scale + 1e-200 * (jitter > 0)))
        except linalg.LinAlgError:
            continue
    return linalg.cho_factor(np.diag(scale))
