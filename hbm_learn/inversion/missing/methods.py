"""Which refinement serves where cells are missing.

rows, all completions can be listed     the observed likelihood
rows, otherwise                         stochastic EM with the refinement of complete rows
moments alone                           the likelihood of moments of available cases, each with its own count
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hbm_learn.data.incomplete import IncompleteRows
from hbm_learn.data.moments import Moments
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.inflation import inflated
from hbm_learn.inversion.missing import observed, shares
from hbm_learn.inversion.missing.observed import ObservedFit
from hbm_learn.inversion.missing.stochastic import StochasticEM
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior
from hbm_learn.inversion.result import Fit
from hbm_learn.inversion.shrinkage.learn import Information

if TYPE_CHECKING:
    from hbm_learn.inversion import Refinement


class AvailableFit:
    """A refinement that takes moments, on moments of available cases: errors are those of their own counts.

    Parameters
    ----------
    method : Refinement
        With the moments prepared.
    share : (P,) array
        Of the rows that have all variables of each parameter.
    """

    turns = 1

    def __init__(self, method: Refinement, share: np.ndarray):
        self.method, self.share = method, share

    @property
    def expands(self) -> bool:
        """As of the refinement itself."""
        return self.method.expands

    def fit(self, prior: Prior, start: np.ndarray | None, **options: Any) -> Fit:
        """The fit, with its errors."""
        return inflated(self.method.fit(prior, start, **options), 1.0 / self.share)

    def information(self, fit: Fit) -> Information:
        """Of the data about any point."""
        return self.method.information(fit)

    def informed(self, fit: Fit) -> np.ndarray:
        """(P,) the share of the rows."""
        return self.share


def prepare(
    methods: Mapping[str, tuple[str, Callable[..., Refinement]]],
    name: str,
    samples: Samples | None,
    moments: Moments,
    parameters: Parameters,
    *,
    automatic: bool,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> tuple[str, AvailableFit | ObservedFit | StochasticEM]:
    """The name of the refinement, and it with the data prepared.

    Parameters
    ----------
    methods : dict
        The registry of refinements of complete rows.
    name : str
        The one that complete rows would take.
    samples : Samples or None
    moments : Moments
        Of available cases.
    parameters : Parameters
    automatic : bool
        Whether another one may be taken where too many completions would have to be listed.
    n_jobs : int or None
    random_state : None, int, SeedSequence, Generator or RandomState
        Of imputations.
    """
    if samples is None:
        method = methods[name][1](moments, parameters, n_jobs)
        return name, AvailableFit(method, shares.from_counts(parameters, moments))
    rows = IncompleteRows.of(samples)
    if name == "likelihood" and observed.affordable(rows, parameters.n_params):
        return name, ObservedFit(rows, moments, parameters)
    name = "pseudolikelihood" if automatic else name
    consumes, make = methods[name]

    def prepared(filled: Samples) -> Refinement:
        data = Moments.from_samples(filled, order=moments.order) if consumes == "moments" else filled
        return make(data, parameters, n_jobs)

    return name, StochasticEM(prepared, rows, parameters, random_state, n_jobs)
