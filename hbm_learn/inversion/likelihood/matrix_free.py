"""Maximum likelihood with more parameters than a dense Fisher matrix allows, while states can be listed.

Newton's method needs F only in products: F v = Cov(t, v·t), two transforms of the table of states, O(n qⁿ) each.
"""

from __future__ import annotations

import numpy as np

from hbm_learn.inversion.likelihood.target import Target
from hbm_learn.optimise import newton_cg
from hbm_learn.optimise import proximal_newton as proximal
from hbm_learn.states import StateTable


class NegativeLikelihood:
    """−L(θ) without its ℓ1 part, as ``newton_cg`` wants it."""

    noise = 1e-14

    def __init__(self, target: Target):
        self.target = target
        self.gradient = np.full(len(target.t), np.inf)

    def value_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        target = self.target
        try:
            table = StateTable(target.model(theta))
        except ValueError:  # the energies exceed float64: too long a step
            return np.inf, self.gradient
        self.gradient = table.statistics(target.interactions) + target.ridge * theta - target.t
        return table.log_partition - float(theta @ (target.t - 0.5 * target.ridge * theta)), self.gradient

    def curvature(self, theta: np.ndarray) -> Curvature:
        return Curvature(self.target, theta)

    def sharpen(self) -> bool:
        return False  # the Hessian is exact


class Curvature:
    """H = F + ridge at θ."""

    exact = True

    def __init__(self, target: Target, theta: np.ndarray):
        self.target, self.table = target, StateTable(target.model(theta))
        self.diagonal = self._independent_variances() + target.ridge

    def product(self, v: np.ndarray) -> np.ndarray:
        return self.table.fisher_product(self.target.interactions, v) + self.target.ridge * v

    def precondition(self, r: np.ndarray) -> np.ndarray:
        return r / self.diagonal

    def _independent_variances(self) -> np.ndarray:
        """(P,) Var(t) as if the variables were independent: Π v_i − Π m_i²."""
        table, interactions = self.table, self.target.interactions
        second = []
        if self.target.n_free > self.target.n_features:
            squares = table.marginals @ table.nodes**4 - table.v**2
            second = [0.25 * squares]
        parts = [
            np.prod(table.v[b], axis=1) - np.prod(table.m[b] ** 2, axis=1)
            for b in map(interactions.block, interactions.orders)
        ]
        return np.maximum(np.concatenate([table.V, *second, *parts]), 1e-12)


def maximise(
    target: Target, theta: np.ndarray, *, tol: float, max_iter: int, verbose: int = 0
) -> tuple[np.ndarray, float, int, bool, str]:
    """θ, the largest entry of the subgradient, steps, whether it converged, and a sentence."""
    function = NegativeLikelihood(target)
    if target.lasso.any():
        unit = float(target.lasso.max())
        sparse = proximal.minimise(function, theta, target.lasso, tol=tol / unit, max_iter=max_iter, verbose=verbose)
        return sparse.theta, sparse.residual * unit, sparse.n_iter, sparse.converged, sparse.status
    found = newton_cg.minimise(
        function,
        theta,
        lambda decrement, step: bool(np.abs(function.gradient).max() <= tol),
        max_iter=max_iter,
        max_cg=1000,
        verbose=verbose,
    )
    residual = float(np.abs(function.gradient).max())
    return found.theta, residual, found.n_iter, found.converged, found.status
