"""What a composite objective Q says of θ, as if it were a likelihood.

    gradient  −M ∂Q / ρ,     curvature  M R H R,  R = ρ^(−½),     ρ = M V_rr / H_rr

Q counts the information on a parameter ρ times, as the sandwich tells: the covariance V of the score and the curvature
H agree in a likelihood. Where V is not known (no row has told), ρ is that of independent variables.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from hbm_learn.data.rows import Block
from hbm_learn.inversion.composite.hessian import diagonal, diagonal_and_own, hessian
from hbm_learn.inversion.composite.objective import HessianProducts, Objective
from hbm_learn.inversion.composite.sandwich import MAX_MATRICES
from hbm_learn.inversion.composite.sums import Composite
from hbm_learn.inversion.shrinkage.expansion import Curvature, Expansion, some_of

# Multiplications for the matrix: rows beyond that are left out, evenly.
_FLOPS = 4e10
# What the rows of the matrix have less of than this share of all rows, they have not seen.
_UNSEEN = 0.1
# A second derivative that is so many times what it is with all parameters.
_ELSEWHERE = 2.0
# Products with a curvature are kept for a point where that of no field has changed by more, as these many rows tell:
# half of it is what errors may be off.
_UNBENT, _BEND_ROWS = 0.02, 2000


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
        self.objective = Objective(composite, np.zeros(composite.n_params), ends=True)
        self._products: tuple[np.ndarray, np.ndarray, Curvature] | None = None

    def at(self, theta: np.ndarray) -> Expansion | None:
        value, gradient = self.objective.value_gradient(theta)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return None
        slope = -self.n_samples * gradient / self.overcount
        return Expansion(
            theta, slope, self.n_samples, lambda active: self._curvature(theta, active), self.parameters, value
        )

    def _curvature(self, theta: np.ndarray, active: np.ndarray) -> Curvature:
        if self._products is not None:
            before, among, known = self._products
            if np.array_equal(active, among):
                bends = self._bends(before)
                if (np.abs(self._bends(theta) - bends) <= _UNBENT * bends).all():
                    return known
        parameters, composite, n_own = self.parameters, self.composite, self.parameters.n_own
        if active.all():  # nothing is alone, and asks for what it has in common with own parameters
            curvature, with_own = diagonal(composite, theta), sparse.csr_array((len(active), n_own))
        else:
            curvature, with_own = diagonal_and_own(composite, theta)
            root = np.sqrt(self.n_samples / self.overcount)
            with_own = sparse.diags_array(root[n_own:]) @ with_own @ sparse.diags_array(root[:n_own])
        each, curvature = curvature, parameters.block_means(curvature)
        whole = curvature * self.n_samples / self.overcount
        where = np.concatenate([np.ones(parameters.n_own, dtype=bool), active])
        if not active.all():
            composite = composite.restricted(some_of(parameters.columns, active))
        root = np.sqrt(self.n_samples / self.overcount[where])
        if composite.n_params <= MAX_MATRICES:
            H = hessian(composite, theta[where], _stride(composite))
            if _stride(composite) > 1:
                _with_diagonal(H, curvature[where])
            elif not active.all() and _is_elsewhere(H, each[where]):
                _with_diagonal(H, each[where])
            H *= root
            H *= root[:, None]
            return Curvature(H, whole, sparse.csr_array(with_own))
        products = HessianProducts(Objective(composite, np.zeros(composite.n_params)), theta[where])
        found = Curvature(lambda v: root * products.product(root * v), whole, sparse.csr_array(with_own))
        self._products = theta, active, found
        return found

    def _bends(self, theta: np.ndarray) -> np.ndarray:
        """∂²Q/∂η² of the fields of columns, on average over some rows."""
        composite, at = self.composite, self.composite.at(theta)
        pairs, scale = composite.outputs.column_pairs, composite.outputs.pair_site

        def work(part: Block) -> list[np.ndarray]:
            values = composite.evaluate(part, at, second=True)
            return [values.losses, (values.second[pairs] @ values.weights).astype(float)]

        losses, found = composite.over_rows(work, max(1, composite.rows.n_rows // _BEND_ROWS))
        return found * composite.scale(losses)[scale[pairs]]


def _stride(composite: Composite) -> int:
    """Every so many rows for the matrix; all of them while that is affordable, for rare events are in few."""
    sizes = np.diff(composite.map.site_ptr)
    return max(1, int(2.0 * float(sizes @ sizes) * composite.rows.n_rows / _FLOPS))


def _is_elsewhere(H: np.ndarray, diagonal: np.ndarray) -> bool:
    """Whether a matrix without what is not active, which is not near zero then, is not that of all parameters.

    Where columns separate few rows, couplings without end keep large fields in balance: e^(their sum) is left.
    """
    found = np.diag(H)
    if not np.isfinite(H).all():
        H[:] = np.diag(diagonal)
        return False
    return bool(((found > _ELSEWHERE * diagonal) | (_ELSEWHERE * found < diagonal)).any())


def _with_diagonal(H: np.ndarray, diagonal: np.ndarray) -> None:
    """H of some rows with the diagonal of all: correlations stay, and what no row has seen has none."""
    seen = np.diag(H).copy()
    scale = np.sqrt(np.where(seen > _UNSEEN * diagonal, diagonal / np.maximum(seen, 1e-300), 0.0))
    H *= scale
    H *= scale[:, None]
    H[np.diag_indices_from(H)] = diagonal
