"""The work of one call of ``HBM.fit``: inversion, selection and the check by samples, on one table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hbm_learn import inversion
from hbm_learn._validation import settled_seed
from hbm_learn.assessment import dependence, nested, predictive, selection, sift
from hbm_learn.assessment.checked import fit_and_check
from hbm_learn.assessment.node_data import DistinctRows
from hbm_learn.assessment.predictive import PredictiveCheck
from hbm_learn.assessment.tests import Tests
from hbm_learn.data.incomplete import FilledRows, IncompleteRows
from hbm_learn.data.moments import Moments
from hbm_learn.data.samples import Samples
from hbm_learn.data.scan import MAX_KEPT_BYTES
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.missing.imputation import Imputer
from hbm_learn.inversion.prior import Prior, check_alpha
from hbm_learn.inversion.result import Fit, InversionResult
from hbm_learn.sampling.chains import sweep_cost
from hbm_learn.terms import Terms

# Chains of a model that takes more than this a sweep are not run to check it.
MAX_SWEEP = 2e5
# Copies of each row with gaps that tests and checks see.
COPIES = 5


_AVAILABLE = (
    "cells of a dask table are missing, and its rows stay with the workers: the fit goes by moments of available "
    "cases, not by the likelihood of what each row has, and its samples are not compared with the data."
)


class Learning:
    """What the parameters of an estimator ask of one table.

    Parameters
    ----------
    parameters : HBM
        Read, never written.
    moments : Moments
    samples : Samples or None
        None where only moments are left of the data.
    groups : (M,) array or None
        Numbers of the groups of rows.
    columns : Interactions
        All that are considered.

    Attributes
    ----------
    inflation : dict
        {order: g}: so many rows are worth one; empty without groups.
    seed : int
        Of all that is random in this fit.
    filled : FilledRows or None
        Where cells are missing: the rows with these drawn from the last fit.
    """

    def __init__(
        self,
        parameters: Any,
        moments: Moments,
        samples: Samples | None,
        groups: np.ndarray | None,
        columns: Interactions,
    ):
        self.parameters, self.moments = parameters, moments
        self.samples, self._notes = _without_gaps_elsewhere(samples, moments, parameters.refine)
        self.seed = settled_seed(parameters.random_state)
        self.inflation: dict[int, float] = {}
        if groups is not None:
            assert samples is not None
            self.inflation = dependence.design_effects(samples, columns, groups)
        self._checks: list[tuple[Any, PredictiveCheck]] = []
        self.filled: FilledRows | None = None
        self._imputer: Imputer | None = None
        if self.samples is not None and not moments.is_complete and moments.space.is_finite:
            self._imputer = Imputer(IncompleteRows.of(self.samples), COPIES, self.seed, parameters.n_jobs)

    def invert(self, columns: Interactions) -> InversionResult:
        """The fit of these sets of columns; beyond enumeration by what its samples say is the data's model."""
        mine = self.parameters
        result = inversion.fit(
            self.moments,
            self.samples,
            columns,
            refine=mine.refine,
            alpha=check_alpha(mine.alpha, columns.order),
            l1_ratio=mine.l1_ratio,
            site=mine.site,
            inflation=self.inflation,
            recheck=self._recheck if mine.refine == "auto" and self.samples is not None else None,
            tol=mine.tol,
            max_iter=mine.max_iter,
            n_jobs=mine.n_jobs,
            random_state=self.seed,
            verbose=mine.verbose,
        )
        if self._imputer is not None:
            self.filled = self._imputer.draw(result.model)
        return result.with_notes(self._notes)

    def _complete(self) -> Samples | None:
        """The rows, with the missing cells drawn from the last fit."""
        return self.samples if self.filled is None else self.filled.samples

    def _recheck(self, fit: Fit) -> Fit:
        """A fit by pseudolikelihood, or by the likelihood where its samples are not like the data."""
        assert self.samples is not None
        if sweep_cost(fit.parameters.model(fit.theta, self.moments.space)) > MAX_SWEEP:
            return fit
        samples, moments = self.samples, self.moments
        if self._imputer is not None:
            samples = self._imputer.draw(fit.parameters.model(fit.theta)).samples
            moments = Moments.from_samples(samples, order=moments.order)
        found = fit_and_check(
            samples,
            fit.parameters,
            Prior(fit.alpha),
            first=fit,
            moments=moments,
            random_state=self.seed,
            n_jobs=self.parameters.n_jobs,
            verbose=self.parameters.verbose,
        )
        self._checks.append((fit.parameters.columns, found.check))
        return fit if found.fit is fit else replace(found.fit, notes=[*found.fit.notes, found.message])

    def rows(self, considered: Terms) -> DistinctRows | None:
        """The rows that tests go back to; None where there are none, or too many tests for them."""
        samples = self.samples
        if samples is None or self.parameters.refine is None:
            return None
        if samples.stays:
            few = DistinctRows.few(samples, samples.most_here) if samples.space.is_finite else None
            return few if few is not None and nested.affordable(len(few.weights), considered) else None
        if samples.is_large_as_codes:
            n_rows = samples.ones.n_distinct  # type: ignore[union-attr]
            fits = 8 * n_rows * samples.n_features <= MAX_KEPT_BYTES  # as numbers
            return DistinctRows.of(samples) if fits and nested.affordable(n_rows, considered) else None
        if not nested.affordable(samples.n_samples, considered):
            return None
        if self._imputer is None:
            return DistinctRows.of(samples)
        return None if self.filled is None else DistinctRows.filled(self.filled)

    def select_sifted(self, order: int) -> tuple[InversionResult, Tests]:
        """Selection at the level ``fdr`` among more sets than can be listed, see ``sifts``."""
        assert self.samples is not None
        mine = self.parameters
        options = {"site": mine.site, "n_jobs": mine.n_jobs, "inflation": self.inflation}
        chosen, found = nested.select_sifted(DistinctRows.of(self.samples), order, mine.fdr, **options)
        result = self.invert(chosen)
        return result, found.at(Tests.of(result, found.considered))

    def select(self, considered: Terms) -> tuple[InversionResult, Tests]:
        """Selection at the level ``fdr``: by tests on the rows, or by those of fits where there are none."""
        mine = self.parameters
        if self._imputer is not None and mine.refine is not None:
            self.invert(considered.columns)  # what fills the gaps in
        rows = self.rows(considered)
        if rows is None:
            first = selection.preselect(self.moments, considered.columns, mine.site)
            return selection.select_and_refit(first, self.invert, mine.fdr)
        chosen, found = nested.select(
            rows, considered, mine.fdr, site=mine.site, n_jobs=mine.n_jobs, inflation=self.inflation
        )
        result = self.invert(chosen)
        return result, found.at(Tests.of(result, considered))

    def check(self, result: InversionResult) -> PredictiveCheck | None:
        """Samples of the fitted model against the data, where its states are too many to be listed."""
        for columns, found in self._checks:
            if columns == result.model.columns:
                return found
        model, samples = result.model, self._complete()
        if samples is None or not model.space.is_finite or samples.n_samples < 2:
            return None
        if model.space.enumerable(predictive.MAX_LISTED):
            return predictive.check_listed(model, samples, self.seed)
        if sweep_cost(model) > MAX_SWEEP:
            return None
        if predictive.factorises(model):
            return predictive.check_factorised(model, samples, self.seed)
        return predictive.check(model, samples, self.seed, n_jobs=self.parameters.n_jobs)


def sifts(parameters: Any, samples: Samples | None, order: int) -> bool:
    """Whether ``fdr`` selects among more sets than are to be listed: from complete rows that are here.

    Parameters
    ----------
    parameters : HBM
    samples : Samples or None
    order : int
        The largest number of variables in an interaction.
    """
    if samples is None or samples.stays or samples.allow_nan or parameters.fdr is None:
        return False
    if parameters.interactions is not None or parameters.refine is None or samples.is_large_as_codes:
        return False
    return sift.serves(samples.space, order, samples.n_samples)


def _without_gaps_elsewhere(
    samples: Samples | None, moments: Moments, refine: str | None
) -> tuple[Samples | None, list[str]]:
    """The samples, if they are of use; None of a dask table with missing cells, and what to tell of it.

    To fill cells in takes the rows of the table here. What is left are moments of available cases.
    """
    if samples is None or not samples.stays or moments.is_complete:
        return samples, []
    if refine in ("pseudolikelihood", "screening"):
        raise ValueError(
            f"refine={refine!r} fills missing cells in, which takes the {samples.n_samples} rows of X here, and they "
            "stay with the workers of dask: drop rows with missing cells, give refine=None (the closed form of "
            "available cases), or a part of X that memory holds."
        )
    return None, [] if refine is None else [_AVAILABLE]
