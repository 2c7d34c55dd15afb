"""What a composite objective Q says of θ, as if it were a likelihood.

    gradient  −M ∂Q / ρ,     curvature  M R H R,  R = ρ^(−½),     ρ = M V_rr / H_rr

Q counts the information on a parameter ρ times, as the sandwich tells: the covariance V of the score and the curvature
H agree in a likelihood. Where V is not known (no row has told), ρ is that of independent variables.
"""

from __future__ import annotations

import numpy as np

from hbm_learn.inversion.composite.hessian import hessian
from hbm_learn.inversion.composite.objective import HessianProducts, Objective
from hbm_learn.inversion.composite.sandwich import MAX_MATRICES
from hbm_learn.inversion.composite.sums import Composite
from hbm_learn.inversion.shrinkage.expansion import Curvature, Expansion, some_of


class CompositeInformation:
    """Of a composite objective without a prior.

    Parameters
    ----------
    composite : Composite
    overcount : (P,) array
        ρ.
    """

    def __init__(self, composite: Composite, overcount: np.ndarray):
        self.composite, self.overcount, self.parameters = composite, overcount, composite.parameters
        self.n_samples = composite.rows.n_samples
        self.objective = Objective(composite, np.zeros(composite.n_params))

    def at(self, theta: np.ndarray) -> Expansion | None:
        value, gradient = self.objective.value_gradient(theta)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return None
        slope = -self.n_samples * gradient / self.overcount
        return Expansion(theta, slope, lambda active: self._curvature(theta, active), self.parameters)

    def _curvature(self, theta: np.ndarray, active: np.ndarray) -> tuple[Curvature, np.ndarray]:
        parameters, composite = self.parameters, self.composite
        curvature = parameters.block_means(HessianProducts(self.objective, theta).exact_diagonal)
        diagonal = curvature * self.n_samples / self.overcount
        where = np.concatenate([np.ones(parameters.n_own, dtype=bool), active])
        if not active.all():
            composite = composite.restricted(some_of(parameters.columns, active))
        root = np.sqrt(self.n_samples / self.overcount[where])
        if composite.n_params <= MAX_MATRICES:
            H = hessian(composite, theta[where], composite.stride)
            H *= root
            H *= root[:, None]
            return H, diagonal
        products = HessianProducts(Objective(composite, np.zeros(composite.n_params)), theta[where])
        return lambda v: root * products.product(root * v), diagonal
