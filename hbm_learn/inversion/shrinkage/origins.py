"""Where the couplings of a prior have their zero.

Sparsity depends on it: a model with a few couplings in ±1 has many about the means of the data. Couplings about another
origin are linear functions of θ. The candidates do not depend on how a variable is coded: its mean, the middle of its
values (0 for ±1), its most frequent value (off, for spikes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import spsolve_triangular

from hbm_learn.inversion.parameters import Parameters
from hbm_learn.model import gauge

ORIGINS = ("mean", "middle", "mode")


@dataclass(frozen=True, eq=False)
class Origin:
    """θ = B θ_origin: own parameters stay, couplings about the origin pass parts on to their subsets.

    Attributes
    ----------
    name : str
        One of ``ORIGINS``, or "coding": that of the gauge of the fit as it is.
    B : (P, P) sparse array
        Upper triangular.
    """

    name: str
    B: sparse.csr_array

    @classmethod
    def of(cls, name: str, parameters: Parameters) -> Origin:
        n_own, P = parameters.n_own, parameters.n_params
        if name in ("mean", "coding"):  # the gauge of a fit with a learnt prior is about the means
            return cls(name, sparse.csr_array(sparse.eye_array(P)))
        space = parameters.space.about(name, parameters.frequencies)
        T = gauge.transfer(parameters.columns, space, space.relation(parameters.space))
        N, fields = space.n_columns, parameters.fields
        alone = sparse.csr_array((np.ones(len(fields)), (parameters.column_params, fields)), shape=(n_own, N))
        blocks = [[sparse.eye_array(n_own), alone @ T[:N]], [None, T[N:]]]
        return cls(name, sparse.csr_array(sparse.block_array(blocks)))

    @classmethod
    def distinct(cls, names: Sequence[str], parameters: Parameters) -> list[Origin]:
        """Origins that differ: with even odds the mean of ±1 is its middle."""
        out: list[Origin] = []
        n_own = parameters.n_own
        for each in (cls.of(name, parameters) for name in names):
            # What a change of origin does to fields is no matter: they have no prior.
            if all(abs(each.B - other.B)[n_own:].max() > 1e-6 for other in out):
                out.append(each)
        return out

    def among(self, active: np.ndarray) -> Origin:
        """The same for some couplings, others about the means.

        There what is near zero is uncorrelated with the rest. The active ones hold all subsets of each other, so that B
        leads to no others.

        Parameters
        ----------
        active : (p,) bool array
        """
        if self.is_identity or active.all():
            return self
        kept = np.concatenate([np.ones(self.B.shape[0] - len(active), dtype=bool), active]).astype(float)
        keep = sparse.diags_array(kept)
        return Origin(self.name, sparse.csr_array(keep @ self.B @ keep + sparse.diags_array(1.0 - kept)))

    @property
    def is_identity(self) -> bool:
        return self.name in ("mean", "coding")

    def pull_back(self, theta: np.ndarray) -> np.ndarray:
        """θ_origin of θ."""
        return theta if self.is_identity else spsolve_triangular(self.B, theta, lower=False)
