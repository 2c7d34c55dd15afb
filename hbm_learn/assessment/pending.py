"""Tests that wait until somebody asks: a fit in cross-validation never does."""

from __future__ import annotations

from collections.abc import Mapping

from hbm_learn.assessment import nested
from hbm_learn.assessment.node_data import DistinctRows
from hbm_learn.assessment.tests import Tests
from hbm_learn.inversion.result import InversionResult
from hbm_learn.terms import Terms

# Lower orders are tested given what is there of higher ones: what passes at this level.
LEVEL = 0.05


class PendingTests:
    """What tests need, held until they are made.

    Parameters
    ----------
    result : InversionResult
    rows : DistinctRows or None
        A copy, so that what happens to the table afterwards is no matter. None: the tests are those of the fit.
    considered : Terms
    site : str
    n_jobs : int or None
    inflation : {order: g} or None
        So many rows are worth one.
    """

    def __init__(
        self,
        result: InversionResult,
        rows: DistinctRows | None,
        considered: Terms,
        site: str,
        n_jobs: int | None,
        inflation: Mapping[int, float] | None = None,
    ):
        self.result, self.rows, self.considered = result, rows, considered
        self.site, self.n_jobs, self.inflation = site, n_jobs, inflation

    def make(self) -> Tests:
        wald = Tests.of(self.result)
        if self.rows is None or not len(self.considered):
            return wald
        found = nested.select(
            self.rows, self.considered, LEVEL, site=self.site, n_jobs=self.n_jobs, inflation=self.inflation
        )[1]
        return found.at(wald)
