"""The learnt prior of the closed form: a scale mixture for each order, as if its estimates were uncorrelated.

    x_μ = effect without a prior,   v_μ its sampling variance:   the posterior of Σ_j π_kj N(β; 0, σ_j²) · N(x; β, v)

with the weights π_k learnt from all x of an order (``shrinkage.mixture``). A pattern of rare events enters with the
deviate of a Poisson number (``shrinkage.expansion.rooted``).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hbm_learn.data.moments import Moments
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.shrinkage import expectation, mixture
from hbm_learn.inversion.shrinkage.expansion import rooted
from hbm_learn.inversion.shrinkage.expectation import Sites


def posterior(moments: Moments, columns: Interactions, estimates: np.ndarray, variances: np.ndarray) -> Sites:
    """The sites of effects that were estimated without a prior.

    Parameters
    ----------
    moments : Moments
        On finite alphabets, from finitely many samples.
    columns : Interactions
    estimates, variances : (p,) arrays
        In the standard gauge; variances are means over each term.
    """
    M = moments.n_samples
    parameters = Parameters(moments.standard.space, columns, "free", moments.frequencies)
    root = np.sqrt(np.maximum(variances, 1e-300))
    z = rooted(parameters.terms, estimates / root, M * parameters.carriers[parameters.n_own :])
    return replace(expectation.begin(parameters.terms, mixture.scales(M), z * root, variances), residual=0.0)
