"""Newton's method with conjugate gradients for a smooth convex function: H s = −g, θ ← θ + t s.

The caller gives the function, its gradient, products with its Hessian (exact or on a subsample) and the stopping rule.
The certificate is the Newton decrement λ² = gᵀ H⁻¹ g, twice the distance in value to the minimum of the local model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

UNBENT = "falls without end: in some direction it does not bend."
CONVERGED = "converged"
MAX_ITER = "stopped after max_iter = {} Newton steps, the decrement still above its tolerance: raise max_iter or alpha."
# Residual of a Newton step, relative to the gradient in the preconditioner's norm. With an exact Hessian it tightens as
# the gradient falls; a subsampled one leaves a share of the decrement that no better solution lowers.
_EXACT, _SUBSAMPLED = 0.1, 0.2
STALLED = "stopped where no step along the Newton direction lowers the objective any more in floating point."


class Curvature(Protocol):
    """The Hessian at one point; ``exact`` unless it comes from a subsample."""

    @property
    def exact(self) -> bool: ...
    @property
    def diagonal(self) -> np.ndarray: ...
    def product(self, v: np.ndarray) -> np.ndarray: ...
    def precondition(self, r: np.ndarray) -> np.ndarray: ...


class Function(Protocol):
    """A smooth convex function; ``noise`` is the relative accuracy of its value, −∞ where it falls without end."""

    noise: float

    def value_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]: ...
    def curvature(self, theta: np.ndarray) -> Any: ...
    def sharpen(self) -> bool: ...


@dataclass(frozen=True, eq=False)
class Minimum:
    """θ, the value and the decrement there, the last Newton step (not taken unless converged), and how it ended."""

    theta: np.ndarray
    value: float
    decrement: float
    step: np.ndarray
    n_iter: int
    converged: bool
    status: str


def minimise(
    function: Function,
    theta: np.ndarray,
    stop: Callable[[float, np.ndarray], bool],
    *,
    max_iter: int = 50,
    max_cg: int = 200,
    verbose: int = 0,
) -> Minimum:
    """The minimum of a convex function.

    Parameters
    ----------
    function : Function
        ``sharpen`` is called when progress asks for a better Hessian.
    theta : (P,) array
        Where to begin.
    stop : (decrement, Newton step) → bool
        Whether to stop there. The last step is then taken without another look.
    max_iter : int
        Newton steps at most.
    max_cg : int
        Products with the Hessian at most, for one step.
    verbose : int
        1 prints a line for each step.
    """
    value, gradient = function.value_gradient(theta)
    first, previous, quadratic = np.inf, np.inf, False
    for n_iter in range(max_iter + 1):
        H = function.curvature(theta)
        size = float(gradient @ H.precondition(gradient))
        first = min(first, size) if np.isinf(first) else first
        rtol = min(_EXACT, np.sqrt(size / first) if first > 0 else _EXACT) if H.exact else _SUBSAMPLED
        step, rest = conjugate_gradients(H.product, -gradient, H.precondition, rtol, max_cg)
        fall = _unbent(H, rest, size)
        if fall is not None:
            return Minimum(theta, value, size, fall, n_iter, False, UNBENT)
        decrement = max(-float(gradient @ step), 0.0)
        if verbose:
            print(f"step {n_iter}: objective {value:.8g}, Newton decrement {decrement:.3g}", flush=True)
        if stop(decrement, step):
            return Minimum(theta + step, value, decrement, step, n_iter, True, CONVERGED)
        if n_iter == max_iter:
            break
        if quadratic and decrement > 0.3 * previous:  # the function is quadratic here, the Hessian is not its own
            function.sharpen()
        previous, before = decrement, value
        found = _search(function, theta, value, step, decrement)
        if found is not None and found[1] == -np.inf:
            return Minimum(theta, value, decrement, step, n_iter, False, UNBENT)
        if found is None:
            if function.sharpen():
                continue
            return Minimum(theta, value, decrement, step, n_iter, False, STALLED)
        theta, value, gradient = found
        quadratic = abs(before - value - 0.5 * decrement) < 0.1 * decrement
    return Minimum(theta, value, decrement, step, max_iter, False, MAX_ITER.format(max_iter))


def _unbent(H: Curvature, rest: np.ndarray, size: float) -> np.ndarray | None:
    """A direction in which the function falls and does not bend, if that is what conjugate gradients ended on."""
    direction = H.precondition(rest)
    slope = float(rest @ direction)
    if not slope > 0.01 * size:
        return None
    return direction if float(direction @ H.product(direction)) <= 1e-14 * slope else None


def _search(
    function: Function, theta: np.ndarray, value: float, step: np.ndarray, decrement: float
) -> tuple[np.ndarray, float, np.ndarray] | None:
    """Halve the step until the value falls by 10⁻⁴ of what the gradient promises, to within rounding; or to −∞."""
    t = 1.0
    slack = function.noise * abs(value)
    for _ in range(30):
        trial = theta + t * step
        new, gradient = function.value_gradient(trial)
        if new == -np.inf:
            return trial, new, gradient
        # Where values cannot tell, the slope can: it must have shrunk without overshooting.
        flat = abs(new - value) <= slack and abs(float(gradient @ step)) <= 0.9 * decrement
        if np.isfinite(new) and np.isfinite(gradient).all() and (new <= value - 1e-4 * t * decrement or flat):
            return trial, new, gradient
        t *= 0.5
    return None


def conjugate_gradients(
    product: Callable[[np.ndarray], np.ndarray],
    b: np.ndarray,
    precondition: Callable[[np.ndarray], np.ndarray],
    rtol: float,
    max_iter: int,
) -> tuple[np.ndarray, np.ndarray]:
    """x with ‖A x − b‖ ≤ rtol ‖b‖ in the norm of the preconditioner, and b − A x; the best so far if A has no curvature
    left."""
    x = np.zeros_like(b)
    r = b.copy()
    z = precondition(r)
    direction = z
    rho = start = float(r @ z)
    for _ in range(max_iter):
        if rho <= rtol**2 * start or rho <= 0.0:
            break
        image = product(direction)
        bend = float(direction @ image)
        if not bend > 1e-14 * rho:
            break
        a = rho / bend
        x = x + a * direction
        r = r - a * image
        z = precondition(r)
        rho, old = float(r @ z), rho
        direction = z + (rho / old) * direction
    return x, r
