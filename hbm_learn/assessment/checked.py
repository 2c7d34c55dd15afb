"""A fit that is asked whether it makes data like these, and the likelihood where it does not.

    pseudolikelihood ──► samples of the model ≟ data ──► returned
                                              └─ no ──► Monte Carlo likelihood ──► samples ≟ data ──► the better one

Conditionals that fit can belong to another joint distribution: one with a second phase, which the data do not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hbm_learn._validation import seed_sequence
from hbm_learn.assessment import predictive
from hbm_learn.assessment.predictive import PredictiveCheck
from hbm_learn.data.moments import Moments
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.composite import pseudolikelihood
from hbm_learn.inversion.likelihood import fit as likelihood
from hbm_learn.inversion.likelihood.monte_carlo import MAX_PARAMETERS
from hbm_learn.inversion.likelihood.walkers import data_rows
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior
from hbm_learn.inversion.result import Fit
from hbm_learn.model import BoltzmannMachine


@dataclass(frozen=True, eq=False)
class Checked:
    """What came of it.

    Attributes
    ----------
    fit : Fit
        The one returned: ``fit.method`` is "pseudolikelihood" or "likelihood".
    check : PredictiveCheck
        Of that fit.
    first_check : PredictiveCheck
        Of the pseudolikelihood fit.
    message : str
        A sentence or two that say which was returned, and why.
    """

    fit: Fit
    check: PredictiveCheck
    first_check: PredictiveCheck
    message: str


def fit_and_check(
    samples: Samples,
    parameters: Parameters,
    prior: Prior,
    start: np.ndarray | BoltzmannMachine | None = None,
    *,
    first: Fit | None = None,
    moments: Moments | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Checked:
    """Fit by pseudolikelihood, sample the fit, and go on to the likelihood where its moments are not the data's.

    Parameters
    ----------
    samples : Samples
    parameters : Parameters
        Which there are, in which gauge.
    prior : Prior
        Of both fits.
    start : (P,) array or None
        Of the pseudolikelihood fit. The likelihood starts from independence: a fit that failed lies in a false phase.
    first : Fit or None
        A pseudolikelihood fit that was made already, with this prior.
    moments : Moments or None
        Of the samples, to the order of the parameters; computed if they are wanted and not given.
    random_state, n_jobs
        Of the chains.
    verbose : int
        1 prints a line for each step.
    """
    seed = seed_sequence(random_state)
    if first is None:
        first = pseudolikelihood.prepare(samples, parameters, n_jobs=n_jobs).fit(prior, start, verbose=verbose)

    def checked(fit: Fit) -> PredictiveCheck:
        model = parameters.model(fit.theta).in_space(samples.space)
        return predictive.check(model, samples, seed.spawn(1)[0], n_jobs=n_jobs)

    before = checked(first)
    if fits(before):
        return Checked(first, before, before, before.message)
    why = f"The pseudolikelihood fit is another model: {_why(before)}"
    if parameters.n_params > MAX_PARAMETERS:
        remedy = f"{parameters.n_params} parameters are too many for the likelihood ({MAX_PARAMETERS}): lower the order"
        return Checked(first, before, before, f"{why} {remedy}, or select with `fdr`.")
    if moments is None:
        moments = Moments.from_samples(samples, order=max(2, parameters.columns.order))
    rows = data_rows(samples, seed.spawn(1)[0])
    second = likelihood.fit(
        moments, parameters, None, prior, rows=rows, random_state=seed.spawn(1)[0], n_jobs=n_jobs, verbose=verbose
    )
    after = checked(second)
    if fits(after):
        return Checked(second, after, before, f"{why} The Monte Carlo likelihood was returned in its place.")
    if _distance(after) < _distance(before):
        return Checked(second, after, before, f"{why} The Monte Carlo likelihood was returned: {_why(after)}")
    return Checked(first, before, before, f"{why} The Monte Carlo likelihood did no better and was left.")


def fits(check: PredictiveCheck) -> bool:
    """Whether the fitted moments agree and chains from all starts do."""
    return check.mixes and check.agrees_fitted


def _distance(check: PredictiveCheck) -> tuple[bool, float]:
    """What is smaller for the better fit."""
    return not check.mixes, max(check.means.largest, check.fitted.largest)


def _why(check: PredictiveCheck) -> str:
    message = check.message
    return message[0].lower() + message[1:]
