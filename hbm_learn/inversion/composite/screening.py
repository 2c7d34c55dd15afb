"""Interaction screening: samples → model, for sparse graphs with strong couplings, any order, any finite alphabet.

    S_i(θ) = (1/M) Σ_rows exp(−f_i(x) g₁(x_i) + d_i g₂(x_i)/2),    g₁ = x − ⟨x⟩_X,  g₂ = x² − ⟨x²⟩_X

g are centred by their averages over the alphabet, so that at the true θ the factor exp(…) takes x_i's part out of P(x):
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
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.composite.fit import CompositeFit
from hbm_learn.inversion.composite.sums import Composite
from hbm_learn.inversion.prior import Prior
from hbm_learn.inversion.result import InversionResult
from hbm_learn.model import BoltzmannMachine

# name: whether ln S_i takes the place of S_i
LOSSES = {"logrise": True, "rise": False}


def prepare(
    samples: Samples,
    interactions: Interactions,
    *,
    loss: str = "logrise",
    n_jobs: int | None = None,
    dtype: Any = None,
) -> CompositeFit:
    """The data made ready once, for fits under several priors: ``prepare(samples, interactions).fit(prior, start)``."""
    log = choose("loss", loss, LOSSES)
    composite = Composite(samples, interactions, conditional.screen, log, dtype=dtype, n_jobs=n_jobs)
    return CompositeFit("screening", composite)


def fit(
    samples: Samples,
    interactions: Interactions,
    start: BoltzmannMachine | None,
    prior: Prior,
    *,
    loss: str = "logrise",
    tol: float = 0.01,
    max_iter: int = 50,
    n_jobs: int | None = None,
    random_state: Any = None,
    verbose: int = 0,
) -> InversionResult:
    """The minimum of the screening objective over h, d (unless two-valued) and the couplings of ``interactions``.

    Parameters
    ----------
    loss : "logrise" or "rise".
    samples, interactions, start, prior, tol, max_iter, n_jobs, random_state, verbose : as in ``pseudolikelihood.fit``.
    """
    return prepare(samples, interactions, loss=loss, n_jobs=n_jobs).fit(
        prior, start, tol=tol, max_iter=max_iter, random_state=random_state, verbose=verbose
    )
