"""Interaction screening: samples → θ, for sparse graphs with strong couplings, any order, any finite space.

    S_i(θ) = (1/M) Σ_rows exp(−Σ_k η_ik G_ik(x)),    G = O − ⟨O⟩ over the values of site i

O are centred by their averages over the values, so that at the true θ the factor exp(…) takes x_i's part out of P(x):
what is left does not depend on x_i, the centred gradient averages to zero, and the minimum is consistent. On {-1, 1},
S_i = ⟨exp(−x_i f_i)⟩ (RISE; Vuffray, Misra, Lokhov and Chertkov 2016; discrete alphabets and many-body terms: Vuffray,
Misra and Lokhov 2020). "logrise" minimises Σ_i ln S_i, which needs fewer samples; "rise" minimises Σ_i S_i. Both are
convex, and joint over sites: a coupling is one parameter of all the S_i that contain it.
"""

from __future__ import annotations

from typing import Any

from hbm_learn._kernels import conditional
from hbm_learn._validation import choose
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.composite.fit import CompositeFit
from hbm_learn.inversion.composite.losses import Loss
from hbm_learn.inversion.composite.sums import Composite
from hbm_learn.inversion.parameters import Parameters

# name: whether ln S_i takes the place of S_i
LOSSES = {"logrise": True, "rise": False}


def prepare(
    samples: Samples,
    parameters: Parameters,
    *,
    loss: str = "logrise",
    n_jobs: int | None = None,
    dtype: Any = None,
) -> CompositeFit:
    """The data made ready once, for fits under several priors: ``prepare(samples, parameters).fit(prior, start)``.

    Parameters
    ----------
    samples, parameters, n_jobs, dtype
        As in ``pseudolikelihood.prepare``.
    loss : str
        "logrise" or "rise".
    """
    log = choose("loss", loss, LOSSES)
    centred = Loss(conditional.screen_binary, conditional.screen_finite, centred=True)
    return CompositeFit("screening", Composite(samples, parameters, centred, log, dtype=dtype, n_jobs=n_jobs))
