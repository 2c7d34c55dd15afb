"""The likelihood with its data prepared once, to be fitted under one prior after another."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbm_learn.data.moments import Moments
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.likelihood import fit as likelihood
from hbm_learn.inversion.likelihood.information import LikelihoodInformation
from hbm_learn.inversion.likelihood.target import Target
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior
from hbm_learn.inversion.result import Fit
from hbm_learn.states import MAX_STATES


class LikelihoodFit:
    """Fits of one set of moments.

    Parameters
    ----------
    moments : Moments
    parameters : Parameters
    n_jobs : int or None
        Of the Gibbs chains, where there are some.
    samples : Samples or None
        Of the same data, where some variables are given.
    """

    def __init__(
        self, moments: Moments, parameters: Parameters, n_jobs: int | None = None, samples: Samples | None = None
    ):
        self.target, self.n_jobs = Target.of(moments, parameters, samples), n_jobs

    def fit(self, prior: Prior, start: np.ndarray | None, rough: bool = False, **options: Any) -> Fit:
        """See ``likelihood.fit``; rough errors would not be cheaper, the Fisher matrix is there."""
        return likelihood.fit(self.target, self.target.parameters, start, prior, n_jobs=self.n_jobs, **options)

    @property
    def expands(self) -> bool:
        """Whether states can be listed and the Fisher matrix formed."""
        parameters = self.target.parameters
        listable = self.target.patterns is not None or parameters.space.enumerable(MAX_STATES)
        return listable and parameters.n_params <= likelihood.MAX_DENSE_FISHER

    def information(self, fit: Fit) -> LikelihoodInformation:
        """Of the data about any point."""
        return LikelihoodInformation(self.target, fit.overcount)
