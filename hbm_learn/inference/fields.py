"""The sites and couplings of a model in the coordinates in which its equations are solved, and the way back.

Where every variable has one function these are the model's own; where one has several, ``block_sites`` has its own.
Both kinds of sites offer the same:

    n_columns, n_lambda      the number of unknowns β and Λ
    state(β, Λ), mean(β, Λ)  moments of φ, and derivatives in the state
    times_V, whiten, unwhiten  M blockdiag(V),  LᵀML,  LMLᵀ with V = LLᵀ
    means, covariances, lambdas, probabilities   what is reported, for the model's own functions
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hbm_learn.inference.block_sites import BlockSites, GaugedCouplings
from hbm_learn.inference.equations import Couplings
from hbm_learn.inference.result import InferenceResult, variable_moments
from hbm_learn.inference.scalar_sites import Sites
from hbm_learn.model import BoltzmannMachine

# Covariances of more columns than this are not formed where S is sparse: they alone would be dense.
MAX_COVARIANCES = 1000


def fields(model: BoltzmannMachine) -> tuple[Any, Any]:
    """(sites, couplings) of a model."""
    if model.space.is_scalar:
        return Sites(model), Couplings(model)
    sites = BlockSites(model)
    return sites, GaugedCouplings(Couplings(model), sites)


def outcome(model: BoltzmannMachine, sites: Any, s: Any, chi: np.ndarray | None, **reported: Any) -> InferenceResult:
    """The InferenceResult of a state of the sites and their response χ."""
    probabilities = sites.probabilities(s.beta, s.Lambda)
    means, covariances = sites.means(s), None if chi is None else sites.covariances(chi)
    m, v, chi = variable_moments(model.space, probabilities, means, covariances, sites.variances(s))
    return InferenceResult(
        m=m, v=v, chi=chi, probabilities=probabilities, means=means, covariances=covariances, **reported
    )
