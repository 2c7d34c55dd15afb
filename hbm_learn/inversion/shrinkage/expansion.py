"""The log-likelihood about a point, ln P(data | θ) ≈ const + gᵀ(θ − θ₀) − ½ (θ − θ₀)ᵀK(θ − θ₀), in nats of all data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from hbm_learn.interactions import Interactions
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.shrinkage.origins import Origin
from hbm_learn.inversion.shrinkage.quadratic import DenseQuadratic, ProductQuadratic, SplitQuadratic
from hbm_learn.terms import Terms


@dataclass(frozen=True, eq=False)
class Curvature:
    """K, as far as an expansion needs it.

    Attributes
    ----------
    among : array or callable
        K among the own parameters and some couplings: a matrix, or its product with a vector.
    diagonal : (P,) array
        Of all of K.
    with_own : (p, n_own) sparse array
        Between couplings and own parameters.
    """

    among: np.ndarray | Callable[[np.ndarray], np.ndarray]
    diagonal: np.ndarray
    with_own: sparse.csr_array


class Expansion:
    """θ₀, the gradient there, and the curvature K, made when asked for.

    Parameters
    ----------
    theta, gradient : (P,) arrays
    n_samples : float
    curvature : callable
        (p,) bool array of couplings → ``Curvature``, with K among the own parameters and these.
    parameters : Parameters
    loss : float
        What is minimised without a prior, a row of it, at θ₀.
    value : float or None
        ln P(data | θ₀), where there is such a thing.
    """

    def __init__(
        self,
        theta: np.ndarray,
        gradient: np.ndarray,
        n_samples: float,
        curvature: Callable[[np.ndarray], Curvature],
        parameters: Parameters,
        loss: float,
        value: float | None = None,
    ):
        self.loss, self.value = loss, value
        self.theta, self.gradient, self.n_samples, self.parameters = theta, gradient, n_samples, parameters
        self.curvature = curvature
        self._active: np.ndarray | None = None
        self._known: dict[str, SplitQuadratic] = {}

    def quadratic(self, origin: Origin, active: np.ndarray) -> SplitQuadratic:
        """−½ xᵀBᵀKBx + bᵀx for parameters x about the origin.

        Couplings that are not ``active`` take part with their own curvature only. The active ones hold all subsets of
        each other, so that B leads to no others.
        """
        if self._active is None or not np.array_equal(active, self._active):
            self._active, self._known = active, {}
            self._K = self.curvature(active)
        if origin.name not in self._known:
            self._known[origin.name] = self._about(origin, active)
        return self._known[origin.name]

    def _about(self, origin: Origin, active: np.ndarray) -> SplitQuadratic:
        n_own = self.parameters.n_own
        coupled = np.concatenate([np.ones(n_own, dtype=bool), active])
        where = np.flatnonzero(coupled)
        x, g = origin.pull_back(self.theta), origin.B.T @ self.gradient
        diagonal = self._K.diagonal if origin.is_identity else origin.B.power(2).T @ self._K.diagonal
        if not active.all():
            g = self._alone(g, ~active)
        B = sparse.csr_array(origin.B[where][:, where])
        b = diagonal * x + g
        inner: DenseQuadratic | ProductQuadratic
        among = self._K.among
        if isinstance(among, np.ndarray):
            K = among if origin.is_identity else congruent(B, among)
            inner = DenseQuadratic(K, K @ x[where] + g[where])
        else:
            product = among
            about = product if origin.is_identity else lambda v: B.T @ product(B @ v)
            columns = some_of(self.parameters.columns, active)
            image = about(x[where])
            inner = ProductQuadratic(about, diagonal[where], image + g[where], columns, n_own)
            inner.start_at(x[where], image)
        b[where] = inner.b
        return SplitQuadratic(inner, coupled, diagonal, b)

    def _alone(self, g: np.ndarray, which: np.ndarray) -> np.ndarray:
        """The gradient, with that of couplings which are not coupled as each has it alone.

        The own parameters are adjusted to them: of rare events, which hardly ever coincide, a product is a sum of its
        members but for a few rows, and fields that are a little off would speak through thousands of couplings. And
        the deviate z = g/√K of a pattern that is expected ν times is that of a Poisson number, by its signed root
        (``poisson_root``): once where 0.001 were expected is z = 30 for a Gaussian, and 3.4 for what it is.
        """
        n_own, cross = self.parameters.n_own, self._K.with_own
        adjusted = g[n_own:] - cross @ (g[:n_own] / self._K.diagonal[:n_own])
        root = np.sqrt(self._K.diagonal[n_own:])
        expected = self.n_samples * self.parameters.carriers[n_own:]
        g = g.copy()
        g[n_own:][which] = (root * rooted(self.parameters.terms, adjusted / root, expected))[which]
        return g


def rooted(terms: Terms, z: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """``poisson_root`` of the deviates of each term: of its length, where it has several functions."""
    size = np.sqrt(terms.sum(z**2))
    ratio = np.divide(poisson_root(size, terms.sum(expected) / terms.df), size, out=np.ones_like(size), where=size > 0)
    return z * ratio[terms.group]


def poisson_root(z: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """The signed root of the deviance of a Poisson number k = ν + z√ν, ± √(2 (k ln(k/ν) − k + ν)); z where ν is large.

    It has very nearly a standard normal distribution where z has a heavy tail.
    """
    size = np.abs(z)  # the sign of a product is a matter of coding: what is rare may show on either side
    k = expected + size * np.sqrt(expected)
    deviance = 2.0 * (k * np.log1p(size / np.sqrt(np.maximum(expected, 1e-300))) - (k - expected))
    return np.sign(z) * np.minimum(np.sqrt(np.maximum(deviance, 0.0)), size)


def congruent(B: sparse.csr_array, K: np.ndarray) -> np.ndarray:
    """Bᵀ K B."""
    BT = sparse.csr_array(B.T)
    return BT @ np.ascontiguousarray((BT @ K).T)


def some_of(columns: Interactions, chosen: np.ndarray) -> Interactions:
    """The sets of columns where ``chosen``, in their order."""
    if chosen.all():
        return columns
    blocks = [columns.block(k)[chosen[columns.slice(k)]] for k in columns.orders]
    return Interactions.from_blocks([each for each in blocks if len(each)], columns.n_features)
