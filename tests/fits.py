"""Fits by single methods, in one line: what the tests of several methods share."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbm_learn import BoltzmannMachine, Interactions, InversionResult, Moments
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.composite import pseudolikelihood, screening
from hbm_learn.inversion.likelihood import fit as likelihood
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior
from hbm_learn.inversion.result import Fit, in_coding

FLAT = Prior({2: 0.0, 3: 0.0, 4: 0.0})


def parameters_of(
    moments: Moments, columns: Interactions, site: str = "quadratic", gauge: str = "coding"
) -> Parameters:
    """θ in the coding gauge, as a given prior has it, or in the standard one, as a learnt prior has it."""
    space = moments.space if gauge == "coding" else moments.space.standard(moments.frequencies)
    return Parameters(space, columns, site, moments.frequencies)


def likelihood_fit(
    moments: Moments,
    columns: Interactions,
    start: BoltzmannMachine | None = None,
    prior: Prior = FLAT,
    site: str = "quadratic",
    gauge: str = "coding",
    **options: Any,
) -> Fit:
    parameters = parameters_of(moments, columns, site, gauge)
    theta = None if start is None else parameters.pack(start)
    return likelihood.fit(moments, parameters, theta, prior, **options)


def composite_fit(
    X: np.ndarray | Samples,
    moments: Moments,
    columns: Interactions,
    start: BoltzmannMachine | None = None,
    prior: Prior = FLAT,
    site: str = "quadratic",
    gauge: str = "coding",
    method: str = "pseudolikelihood",
    **options: Any,
) -> Fit:
    """Pseudolikelihood or screening of samples whose moments are given."""
    parameters = parameters_of(moments, columns, site, gauge)
    samples = X if isinstance(X, Samples) else Samples.check(X, space=moments.space)
    prepare = {"pseudolikelihood": pseudolikelihood, "screening": screening}[method].prepare
    return prepare(samples, parameters).fit(prior, None if start is None else parameters.pack(start), **options)


def result_of(fit: Fit, moments: Moments) -> InversionResult:
    """What a user sees of a fit."""
    return in_coding(fit, moments.space, moments.standard.space)


def model_of(fit: Fit) -> BoltzmannMachine:
    return fit.parameters.model(fit.theta)


def sampling_errors(fit: Fit) -> np.ndarray:
    """(p,) of the couplings, in the gauge of the fit."""
    return np.sqrt(fit.sampling[fit.parameters.n_own :])


def standard_errors(fit: Fit) -> np.ndarray:
    """(p,) of the couplings, in the gauge of the fit."""
    return np.sqrt(fit.posterior[fit.parameters.n_own :])
