"""Pseudolikelihood: every variable given all others, samples → θ.

    min_θ −(1/M) Σ_rows Σ_i ln P(x_i | rest) + penalty,   P(x_i = a | rest) ∝ exp(θ_i(a) + Σ_{c of i} F_c(x) φ_c(a))

joint over the sites i, so that a coupling is one parameter of all |μ| conditionals that contain it. Convex; consistent;
as efficient as the likelihood at weak and moderate coupling, at any n, for any order and any finite space.
"""

from __future__ import annotations

from typing import Any

from hbm_learn._kernels import conditional
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.composite.fit import CompositeFit
from hbm_learn.inversion.composite.losses import Loss
from hbm_learn.inversion.composite.sums import Composite
from hbm_learn.inversion.parameters import Parameters


def prepare(samples: Samples, parameters: Parameters, *, n_jobs: int | None = None, dtype: Any = None) -> CompositeFit:
    """The data made ready once, for fits under several priors: ``prepare(samples, parameters).fit(prior, start)``.

    Parameters
    ----------
    samples : Samples
        On the values of ``parameters.space``.
    parameters : Parameters
        What θ means, in the gauge of the fit.
    n_jobs : int or None
        Threads; every core by default. The result does not depend on it.
    dtype : dtype
        Of the products; float32 for large data by default.
    """
    loss = Loss(conditional.pseudo_binary, conditional.pseudo_finite, centred=False)
    return CompositeFit("pseudolikelihood", Composite(samples, parameters, loss, dtype=dtype, n_jobs=n_jobs))
