"""Proximal Newton for a smooth convex function plus ℓ1: min_θ Q(θ) + Σ_r λ_r |θ_r|.

Each step minimises the local model gᵀ(z − θ) + ½ (z − θ)ᵀ H (z − θ) + Σ λ |z|, by products with H only: a proximal
gradient step finds which entries are zero and the signs of the others, conjugate gradients then solve for those. The
certificate is the KKT residual, the largest entry of the subgradient of least norm, relative to the largest λ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hbm_learn.optimise.newton_cg import CONVERGED, STALLED, Curvature, Function, conjugate_gradients

MAX_ITER = "stopped after max_iter = {} proximal Newton steps with a KKT residual of {:.2g}: raise max_iter or alpha."


@dataclass(frozen=True, eq=False)
class SparseMinimum:
    """θ with exact zeros, the KKT residual relative to the largest λ, and how it ended."""

    theta: np.ndarray
    residual: float
    n_iter: int
    converged: bool
    status: str


def subgradient(theta: np.ndarray, gradient: np.ndarray, lasso: np.ndarray) -> np.ndarray:
    """The element of least norm of ∂(Q + Σ λ|θ|): zero at the minimum, and only there."""
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - lasso, 0.0)
    return np.where(theta != 0.0, gradient + lasso * np.sign(theta), at_zero)


def minimise(
    function: Function, theta: np.ndarray, lasso: np.ndarray, *, tol: float, max_iter: int = 50, verbose: int = 0
) -> SparseMinimum:
    """The minimum of Q + Σ λ|θ|.

    Parameters
    ----------
    function : Function
        Q; its curvature also has ``diagonal``, an estimate of the diagonal of H.
    theta : (P,) array
        Where to begin.
    lasso : (P,) array
        λ ≥ 0, not all zero.
    tol : float
        KKT residual, relative to the largest λ, at which to stop.
    max_iter : int
        Steps at most.
    verbose : int
        1 prints a line for each step.
    """
    value, gradient = function.value_gradient(theta)
    unit, previous = float(lasso.max()), np.inf
    for n_iter in range(max_iter + 1):
        residual = float(np.abs(subgradient(theta, gradient, lasso)).max()) / unit
        if verbose:
            total = value + float(lasso @ np.abs(theta))
            print(
                f"step {n_iter}: objective {total:.8g}, KKT residual {residual:.3g}, {np.count_nonzero(theta)} nonzero"
            )
        if residual <= tol:
            return SparseMinimum(theta, residual, n_iter, True, CONVERGED)
        if n_iter == max_iter:
            break
        if residual > 0.2 * previous:
            function.sharpen()
        previous = residual
        H = function.curvature(theta)
        target = _Model(H, theta, gradient, lasso).minimise(0.1 * residual * unit)
        found = _search(function, theta, value, gradient, target, lasso)
        if found is None:
            if function.sharpen():
                continue
            return SparseMinimum(theta, residual, n_iter, False, STALLED)
        theta, value, gradient = found
    return SparseMinimum(theta, residual, max_iter, False, MAX_ITER.format(max_iter, residual))


def _search(
    function: Function, theta: np.ndarray, value: float, gradient: np.ndarray, target: np.ndarray, lasso: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray] | None:
    """Halve the way to the target until the objective falls, to within rounding."""
    step, before = target - theta, value + float(lasso @ np.abs(theta))
    promised = float(gradient @ step + lasso @ (np.abs(target) - np.abs(theta)))
    t = 1.0
    for _ in range(30):
        trial = target if t == 1.0 else theta + t * step
        new, slope = function.value_gradient(trial)
        after = new + float(lasso @ np.abs(trial))
        if np.isfinite(slope).all() and after <= before + 1e-4 * t * promised + function.noise * abs(before):
            return trial, new, slope
        t *= 0.5
    return None


class _Model:
    """gᵀ(z − θ) + ½ (z − θ)ᵀ H (z − θ) + Σ λ |z| at z, with the gradient r of its smooth part."""

    def __init__(self, H: Curvature, theta: np.ndarray, gradient: np.ndarray, lasso: np.ndarray):
        self.H, self.lasso = H, lasso
        self.z, self.r = theta, gradient
        self.metric = H.diagonal

    def minimise(self, tol: float, max_rounds: int = 100) -> np.ndarray:
        """z with a KKT residual of the model below ``tol``, or the best after ``max_rounds`` rounds."""
        for _ in range(max_rounds):
            if np.abs(subgradient(self.z, self.r, self.lasso)).max() <= tol:
                break
            self._gradient_step()
            self._face_step(tol)
        return self.z

    def _gradient_step(self) -> None:
        """Soft thresholding in a multiple of the diagonal's metric that bounds H along the step."""
        while True:
            raw = self.z - self.r / self.metric
            target = np.sign(raw) * np.maximum(np.abs(raw) - self.lasso / self.metric, 0.0)
            step = target - self.z
            image = self.H.product(step)
            if float(step @ image) <= float(step @ (self.metric * step)):
                break
            self.metric = 2.0 * self.metric
        self.z, self.r = target, self.r + image

    def _face_step(self, tol: float) -> None:
        """Newton on the entries that are not zero; those that would change sign become zero."""
        free = (self.z != 0.0) | (self.lasso == 0.0)
        sign = np.sign(self.z)
        b = np.where(free, -(self.r + self.lasso * sign), 0.0)
        size = float(np.abs(b).max())
        if size <= 0.1 * tol:
            return
        step, _ = conjugate_gradients(
            lambda v: np.where(free, self.H.product(v), 0.0),
            b,
            lambda v: np.where(free, self.H.precondition(v), 0.0),
            max(1e-8, min(0.1, 0.1 * tol / size)),
            100,
        )
        for t in 0.5 ** np.arange(20):
            target = self.z + t * step
            target[(self.lasso > 0.0) & (target * sign < 0.0)] = 0.0
            move = target - self.z
            image = self.H.product(move)
            fall = float(b @ move) - 0.5 * float(move @ image)  # signs are kept, so that ℓ1 is linear along the way
            if fall >= 0.01 * float(b @ move) > 0.0:
                self.z, self.r = target, self.r + image
                return
