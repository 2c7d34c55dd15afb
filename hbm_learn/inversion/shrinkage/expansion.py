"""The log-likelihood about a point, ln P(data | θ) ≈ const + gᵀ(θ − θ₀) − ½ (θ − θ₀)ᵀK(θ − θ₀), in nats of all data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

from hbm_learn.interactions import Interactions
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.shrinkage.origins import Origin
from hbm_learn.inversion.shrinkage.quadratic import DenseQuadratic, ProductQuadratic, SplitQuadratic

# K among some parameters: a matrix, or its product with a vector.
Curvature = np.ndarray | Callable[[np.ndarray], np.ndarray]


class Expansion:
    """θ₀, the gradient there, and the curvature K, made when asked for.

    Parameters
    ----------
    theta, gradient : (P,) arrays
    curvature : callable
        (p,) bool array of couplings → K among the own parameters and these, and the diagonal (P,) of all of K.
    parameters : Parameters
    """

    def __init__(
        self,
        theta: np.ndarray,
        gradient: np.ndarray,
        curvature: Callable[[np.ndarray], tuple[Curvature, np.ndarray]],
        parameters: Parameters,
    ):
        self.theta, self.gradient, self.parameters = theta, gradient, parameters
        self._curvature = curvature
        self._active: np.ndarray | None = None
        self._known: dict[str, SplitQuadratic] = {}

    def quadratic(self, origin: Origin, active: np.ndarray) -> SplitQuadratic:
        """−½ xᵀBᵀKBx + bᵀx for parameters x about the origin.

        Couplings that are not ``active`` take part with their own curvature only. The active ones hold all subsets of
        each other, so that B leads to no others.
        """
        if self._active is None or not np.array_equal(active, self._active):
            self._active, self._known = active, {}
            self._K, self._diagonal = self._curvature(active)
        if origin.name not in self._known:
            self._known[origin.name] = self._about(origin, active)
        return self._known[origin.name]

    def _about(self, origin: Origin, active: np.ndarray) -> SplitQuadratic:
        n_own = self.parameters.n_own
        coupled = np.concatenate([np.ones(n_own, dtype=bool), active])
        where = np.flatnonzero(coupled)
        x, g = origin.pull_back(self.theta), origin.B.T @ self.gradient
        diagonal = self._diagonal if origin.is_identity else origin.B.power(2).T @ self._diagonal
        B = sparse.csr_array(origin.B[where][:, where])
        b = diagonal * x + g
        inner: DenseQuadratic | ProductQuadratic
        if isinstance(self._K, np.ndarray):
            K = self._K if origin.is_identity else congruent(B, self._K)
            inner = DenseQuadratic(K, K @ x[where] + g[where])
        else:
            product = self._K
            about = product if origin.is_identity else lambda v: B.T @ product(B @ v)
            columns = some_of(self.parameters.columns, active)
            inner = ProductQuadratic(about, diagonal[where], about(x[where]) + g[where], columns, n_own)
            inner.start_at(x[where])
        b[where] = inner.b
        return SplitQuadratic(inner, coupled, diagonal, b)


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
