"""A fit that is asked whether it makes data like these, and the likelihood where it does not.

    pseudolikelihood ──► samples of the model ≟ data ──► returned
                                              └─ no ──► Monte Carlo likelihood ──► samples ≟ data ──► the better one

Conditionals that fit can belong to another joint distribution: one with a second phase, which the data do not have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hbm_learn._validation import seed_sequence
from hbm_learn.assessment import predictive
from hbm_learn.assessment.predictive import Compared, PredictiveCheck
from hbm_learn.data.moments import Moments
from hbm_learn.data.samples import Samples
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.composite import pseudolikelihood
from hbm_learn.inversion.likelihood import fit as likelihood
from hbm_learn.inversion.likelihood.monte_carlo import MAX_PARAMETERS
from hbm_learn.inversion.likelihood.target import Target
from hbm_learn.inversion.likelihood.walkers import data_rows
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior
from hbm_learn.inversion.result import Fit
from hbm_learn.model import BoltzmannMachine
from hbm_learn.space import Space


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

    moments = Moments.from_samples(samples, order=max(2, parameters.columns.order)) if moments is None else moments
    target = Target.of(moments, parameters).under(prior)
    before = checked(first)
    if fits(before, target, first, samples.space):
        prior_does = "" if before.agrees_fitted else " That is what the prior does, and not another model."
        return Checked(first, before, before, before.message + prior_does)
    why = f"The pseudolikelihood fit is another model: {_why(before)}"
    if parameters.space.has_given:
        remedy = "The Monte Carlo likelihood takes no given columns: lower the order, or select with `fdr`."
        return Checked(first, before, before, f"{why} {remedy}")
    if parameters.n_params > MAX_PARAMETERS:
        remedy = f"{parameters.n_params} parameters are too many for the likelihood ({MAX_PARAMETERS}): lower the order"
        return Checked(first, before, before, f"{why} {remedy}, or select with `fdr`.")
    rows = data_rows(samples, seed.spawn(1)[0])
    second = likelihood.fit(
        moments, parameters, None, prior, rows=rows, random_state=seed.spawn(1)[0], n_jobs=n_jobs, verbose=verbose
    )
    after = checked(second)
    if fits(after, target, second, samples.space):
        return Checked(second, after, before, f"{why} The Monte Carlo likelihood was returned in its place.")
    if _distance(after) < _distance(before):
        return Checked(second, after, before, f"{why} The Monte Carlo likelihood was returned: {_why(after)}")
    return Checked(first, before, before, f"{why} The Monte Carlo likelihood did no better and was left.")


def fits(check: PredictiveCheck, target: Target, fit: Fit, coding: Space) -> bool:
    """Whether chains from all starts agree, and the fitted moments with the data's, or with what a Gaussian prior lets
    them be: t̄ − ridge θ.

    Parameters
    ----------
    check : PredictiveCheck
        Of the fit.
    target : Target
        t̄ and the penalty.
    fit : Fit
    coding : Space
        The user's gauge.
    """
    agree = check.fitted.agrees or shrunk(check.fitted, target, fit, coding).agrees
    return check.mixes and check.means.agrees and agree


def shrunk(fitted: Compared, target: Target, fit: Fit, coding: Space) -> Compared:
    """Fitted moments compared with t̄ − ridge θ, at which the gradient vanishes, in place of t̄.

    In the standard gauge, where moments are compared; a fit in another gauge is compared as it is.

    Parameters
    ----------
    fitted : Compared
    target : Target
    fit : Fit
    coding : Space
        The user's gauge, from which the standard one comes.
    """
    parameters = target.parameters
    standard = coding.standard(parameters.frequencies)
    if not np.allclose(standard.padded, parameters.space.padded, atol=1e-9):
        return fitted
    at = parameters.columns.positions(Interactions.from_tuples(fitted.names, parameters.columns.n_features))
    shift = (target.ridge * fit.theta)[parameters.n_own :][at]
    errors = np.where(fitted.errors > 0, fitted.errors, np.inf)
    return replace(fitted, z=fitted.z + shift / errors)


def _distance(check: PredictiveCheck) -> tuple[bool, float]:
    """What is smaller for the better fit."""
    return not check.mixes, max(check.means.largest, check.fitted.largest)


def _why(check: PredictiveCheck) -> str:
    message = check.message
    return message[0].lower() + message[1:]
