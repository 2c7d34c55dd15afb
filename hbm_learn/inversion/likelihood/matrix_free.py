"""Maximum likelihood with more parameters than a dense Fisher matrix allows, while states can be listed.

Newton's method needs F only in products: F v = Cov(t, v·t), two transforms of the table of states, O(n Π q) each.
"""

from __future__ import annotations

import numpy as np

from hbm_learn.inversion.likelihood.target import Target
from hbm_learn.optimise import newton_cg, proximal_newton
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
            table = StateTable(target.parameters.model(theta))
        except ValueError:  # the energies exceed float64: too long a step
            return np.inf, self.gradient
        self.gradient = table.statistics(target.parameters) + target.ridge * theta - target.t
        return table.log_partition - float(theta @ (target.t - 0.5 * target.ridge * theta)), self.gradient

    def curvature(self, theta: np.ndarray) -> FisherProducts:
        return FisherProducts(self.target, theta)

    def sharpen(self) -> bool:
        return False  # the Hessian is exact


class FisherProducts:
    """H = F + ridge at θ."""

    exact = True

    def __init__(self, target: Target, theta: np.ndarray):
        self.target, self.table = target, StateTable(target.parameters.model(theta))
        self.diagonal = np.maximum(self._independent_variances(), 1e-12) + target.ridge

    def product(self, v: np.ndarray) -> np.ndarray:
        return self.table.fisher_product(self.target.parameters, v) + self.target.ridge * v

    def precondition(self, r: np.ndarray) -> np.ndarray:
        return r / self.diagonal

    def _independent_variances(self) -> np.ndarray:
        """(P,) Var(t) as if the variables were independent: Π ⟨φ²⟩ − Π ⟨φ⟩²."""
        parameters, marginals = self.target.parameters, self.table.marginals
        own = [p @ O**2 - (p @ O) ** 2 for p, O in zip(marginals, parameters.own)]
        first = np.concatenate([p @ f for p, f in zip(marginals, parameters.space.functions)])
        second = np.concatenate([p @ f**2 for p, f in zip(marginals, parameters.space.functions)])  # type: ignore[operator]
        blocks = [parameters.columns.block(k) for k in parameters.columns.orders]
        return np.concatenate([*own, *(np.prod(second[b], axis=1) - np.prod(first[b] ** 2, axis=1) for b in blocks)])


def minimise(
    target: Target, theta: np.ndarray, *, tol: float, max_iter: int, verbose: int = 0
) -> tuple[np.ndarray, float, int, bool, str]:
    """The minimum of −L: θ, the largest entry of the subgradient, steps, whether it converged, and a sentence."""
    function = NegativeLikelihood(target)
    if target.lasso.any():
        unit = float(target.lasso.max())
        sparse = proximal_newton.minimise(
            function, theta, target.lasso, tol=tol / unit, max_iter=max_iter, verbose=verbose
        )
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
