"""What the exact likelihood says of θ about any point: M (t̄ − ⟨t⟩), and M times the Fisher matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

from hbm_learn.inversion.likelihood.fit import FisherPoint, LikelihoodPoint
from hbm_learn.inversion.likelihood.target import Target
from hbm_learn.inversion.shrinkage.expansion import Curvature, Expansion


class LikelihoodInformation:
    """Of a target without a prior, while its states can be listed.

    Parameters
    ----------
    target : Target
    overcount : (P,) array or None
        So many rows are worth one, for each parameter.
    point : θ → point or None
        −L with its derivatives; that of complete rows by default.
    """

    def __init__(
        self,
        target: Target,
        overcount: np.ndarray | None = None,
        point: Callable[[np.ndarray], FisherPoint | None] | None = None,
    ):
        self._point = point or (lambda theta: LikelihoodPoint.at(target, theta))
        self.target, self.parameters, self.n_samples = target, target.parameters, target.n_samples
        self.overcount = np.ones(len(target.t)) if overcount is None else overcount

    def at(self, theta: np.ndarray) -> Expansion | None:
        point, M = self._point(theta), self.n_samples
        if point is None:
            return None

        value = -M * point.value if (self.overcount == 1.0).all() else None

        def curvature(active: np.ndarray) -> Curvature:
            n_own, root = self.parameters.n_own, np.sqrt(M / self.overcount)
            F = point.fisher * root * root[:, None]
            where = np.flatnonzero(np.concatenate([np.ones(n_own, dtype=bool), active]))
            among = F if len(where) == len(F) else F[np.ix_(where, where)]
            with_own = sparse.csr_array((len(active), n_own) if active.all() else F[n_own:, :n_own])
            return Curvature(among, self.parameters.block_means(np.diag(F)), with_own)

        return Expansion(theta, -M * point.gradient / self.overcount, M, curvature, self.parameters, point.value, value)
