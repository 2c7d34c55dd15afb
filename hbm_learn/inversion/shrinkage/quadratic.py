"""What the data say of θ to second order, −½ θᵀKθ + bᵀθ: as a matrix, or by products.

Expectation consistency asks for the mean and the variances of the Gaussian that the sites make of it,

    A = K + diag(γ),     mean = A⁻¹(b + λ),     v = diag A⁻¹
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import optimize

from hbm_learn import linalg
from hbm_learn.interactions import Interactions
from hbm_learn.optimise.newton_cg import conjugate_gradients

# Accuracy of conjugate gradients: of means in standard deviations, of probes relative to their size; and the most
# iterations.
_ENOUGH, _PROBE_ENOUGH, _MAX_PRODUCTS = 0.02, 0.03, 100


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Mean (P,), variances (P,), ln |A| (nan where that is out of reach), and b + λ − A mean where it is not zero."""

    mean: np.ndarray
    variances: np.ndarray
    log_det: float
    residual: np.ndarray | float = 0.0


class Quadratic(Protocol):
    """θ = (own, couplings)."""

    b: np.ndarray

    def posterior(self, gamma: np.ndarray, shift: np.ndarray) -> Gaussian:
        """The Gaussian with sites γ and λ."""
        ...


class DenseQuadratic:
    """K as a matrix: a Cholesky factor and an inverse for each step, P³ flops."""

    def __init__(self, K: np.ndarray, b: np.ndarray):
        self.K, self.b = K, b

    def posterior(self, gamma: np.ndarray, shift: np.ndarray) -> Gaussian:
        S, log_det = self.covariance(gamma)
        return Gaussian(S @ (self.b + shift), np.diag(S).copy(), log_det)

    def covariance(self, gamma: np.ndarray) -> tuple[np.ndarray, float]:
        """A⁻¹ and ln |A|; A is lifted where rounding leaves it indefinite."""
        A = self.K.copy()
        A[np.diag_indices_from(A)] += gamma
        S, log_det = linalg.spd_inverse(A.copy())
        if S is None:
            L, scale = linalg.factor(A)
            log_det = 2.0 * float(np.log(np.diag(L)).sum() - np.log(scale).sum())
            S = linalg.inverse(A)
        return S, log_det


@dataclass(frozen=True, eq=False)
class _Point:
    """x (P,), and K x."""

    x: np.ndarray
    image: np.ndarray


class ProductQuadratic:
    """K by its products: means by conjugate gradients, variances from one number for each order.

    The cavity precision of a coupling is a share a_k of its own K_rr, the same for all of order k: that for which the
    variances 1/(a_k K_rr + γ_r) add up to the trace of A⁻¹ over the order, which a random vector of signs tells to a
    relative √(2/p_k). Each solution begins at the last one, of which K x is known: b − γx less what was left.

    Parameters
    ----------
    product : callable
        v → K v.
    diagonal : (P,) array
        Of K.
    b : (P,) array
    columns : Interactions
        The couplings, after n_own own parameters.
    n_own : int
    seed : int
        Of the signs.
    """

    def __init__(
        self,
        product: Callable[[np.ndarray], np.ndarray],
        diagonal: np.ndarray,
        b: np.ndarray,
        columns: Interactions,
        n_own: int,
        seed: int = 0,
    ):
        self.product, self.diagonal, self.b = product, np.maximum(diagonal, 1e-300), b
        self.columns, self.n_own = columns, n_own
        self.signs = np.random.default_rng(seed).choice([-1.0, 1.0], len(b))
        zero = np.zeros(len(b))
        self._mean = self._probe = _Point(zero, zero)

    def start_at(self, theta: np.ndarray, image: np.ndarray) -> None:
        """Begin the next solution there, where K θ is ``image``."""
        self._mean = _Point(theta, image)

    def posterior(self, gamma: np.ndarray, shift: np.ndarray) -> Gaussian:
        scale = self.diagonal + gamma
        # A residual r is worth Σ r²/A_rr ~ (differences in standard deviations)².
        self._mean, residual = self._solve(gamma, self.b + shift, self._mean, _ENOUGH * np.sqrt(len(scale)))
        size = float(np.sqrt(np.sum(1.0 / scale)))
        self._probe, _ = self._solve(gamma, self.signs, self._probe, _PROBE_ENOUGH * size)
        v = 1.0 / (self.diagonal + gamma)
        share = self.signs * self._probe.x
        for k in self.columns.orders:
            where = self.columns.slice(k)
            mine = slice(self.n_own + where.start, self.n_own + where.stop)
            a = _share(self.diagonal[mine], gamma[mine], float(share[mine].sum()))
            v[mine] = 1.0 / (a * self.diagonal[mine] + gamma[mine])
        return Gaussian(self._mean.x, v, np.nan, residual)

    def _solve(self, gamma: np.ndarray, b: np.ndarray, start: _Point, enough: float) -> tuple[_Point, np.ndarray]:
        """x = A⁻¹ b from a start, to a residual b − A x of ``enough`` in the norm of 1/A_rr; and the residual."""
        scale = self.diagonal + gamma
        left = b - start.image - gamma * start.x
        now = float(np.sqrt(np.sum(left**2 / scale)))
        if now <= enough:
            return start, left
        step, rest = conjugate_gradients(
            lambda v: self.product(v) + gamma * v, left, lambda r: r / scale, enough / now, _MAX_PRODUCTS
        )
        return _Point(start.x + step, start.image + left - rest - gamma * step), rest


class SplitQuadratic:
    """K that couples some parameters, and is diagonal in the others, which their prior holds near zero.

    Parameters
    ----------
    inner : DenseQuadratic or ProductQuadratic
        Of the coupled ones.
    coupled : (P,) bool array
        Which they are.
    diagonal, b : (P,) arrays
        Of all.
    """

    def __init__(
        self, inner: DenseQuadratic | ProductQuadratic, coupled: np.ndarray, diagonal: np.ndarray, b: np.ndarray
    ):
        self.inner, self.coupled, self.diagonal, self.b = inner, coupled, diagonal, b

    def posterior(self, gamma: np.ndarray, shift: np.ndarray) -> Gaussian:
        total = self.diagonal + gamma
        v = 1.0 / total
        mean = (self.b + shift) * v
        A = self.coupled
        inner = self.inner.posterior(gamma[A], shift[A])
        mean[A], v[A] = inner.mean, inner.variances
        residual = np.zeros_like(mean)
        residual[A] = inner.residual
        return Gaussian(mean, v, inner.log_det + float(np.log(total[~A]).sum()), residual)

    def covariance(self, gamma: np.ndarray) -> np.ndarray | None:
        """(A, A) A⁻¹ of the coupled parameters; None where it is not formed."""
        return self.inner.covariance(gamma[self.coupled])[0] if isinstance(self.inner, DenseQuadratic) else None

    def leading(self, P: int) -> SplitQuadratic | None:
        """With all but the first P parameters held at zero; None where K is not formed."""
        if not isinstance(self.inner, DenseQuadratic):
            return None
        A = self.coupled[:P]
        a = int(A.sum())
        return SplitQuadratic(DenseQuadratic(self.inner.K[:a, :a], self.inner.b[:a]), A, self.diagonal[:P], self.b[:P])


def _share(diagonal: np.ndarray, gamma: np.ndarray, trace: float) -> float:
    """a with Σ 1/(a K_rr + γ_r) = trace, between 10⁻³ and 10."""

    def excess(log_a: float) -> float:
        return float(np.sum(1.0 / (np.exp(log_a) * diagonal + gamma))) - trace

    low, high = np.log(1e-3), np.log(10.0)
    if excess(low) <= 0.0:
        return 1e-3
    if excess(high) >= 0.0:
        return 10.0
    return float(np.exp(optimize.brentq(excess, low, high, xtol=1e-6)))
