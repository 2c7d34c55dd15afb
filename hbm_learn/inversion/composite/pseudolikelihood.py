"""Pseudolikelihood: every variable given all others, samples → model.

    min_θ −(1/M) Σ_rows Σ_i ln P(x_i | rest) + penalty,   P(x_i | rest) ∝ exp(f_i x_i − d_i x_i²/2),  f_i = h_i + F_i(x)

joint over the sites i, so that a coupling is one parameter of all |μ| conditionals that contain it. Convex; consistent;
as efficient as the likelihood at weak and moderate coupling, at any n, for any order and finite alphabet.
"""

from __future__ import annotations

from typing import Any

from hbm_learn._kernels import conditional
from hbm_learn.data.samples import Samples
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.composite.fit import CompositeFit
from hbm_learn.inversion.composite.sums import Composite
from hbm_learn.inversion.prior import Prior
from hbm_learn.inversion.result import InversionResult
from hbm_learn.model import BoltzmannMachine


def prepare(
    samples: Samples, interactions: Interactions, *, n_jobs: int | None = None, dtype: Any = None
) -> CompositeFit:
    """The data made ready once, for fits under several priors: ``prepare(samples, interactions).fit(prior, start)``."""
    kernel = conditional.pseudo_binary if samples.alphabet.is_binary else conditional.pseudo_finite
    return CompositeFit("pseudolikelihood", Composite(samples, interactions, kernel, dtype=dtype, n_jobs=n_jobs))


def fit(
    samples: Samples,
    interactions: Interactions,
    start: BoltzmannMachine | None,
    prior: Prior,
    *,
    tol: float = 0.01,
    max_iter: int = 50,
    n_jobs: int | None = None,
    random_state: Any = None,
    verbose: int = 0,
) -> InversionResult:
    """The maximum of the pseudolikelihood over h, d (unless two-valued) and the couplings of ``interactions``.

    Parameters
    ----------
    samples : Samples on a finite alphabet.
    interactions : which J_μ there are.
    start : where to begin, such as the closed form on the same interactions; independence if it is None, or better.
    prior : α of each order, fixed; see ``prior.learn`` for empirical Bayes.
    tol : the Newton decrement at which to stop, as a share of p/M, what an efficient estimate has by chance; p
        counts parameters by the share of them that the data determine, and not the prior.
    max_iter : Newton steps at most.
    n_jobs : threads; every core by default. The result does not depend on it.
    random_state : of the probes that standard errors take beyond 2000 parameters.
    verbose : 1 prints a line for each step.
    """
    return prepare(samples, interactions, n_jobs=n_jobs).fit(
        prior, start, tol=tol, max_iter=max_iter, random_state=random_state, verbose=verbose
    )
