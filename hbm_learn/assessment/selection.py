"""Selection of interactions with false-discovery control: preselect by the closed form, refit, test again."""

from __future__ import annotations

from collections.abc import Callable

from hbm_learn.assessment.tests import Tests
from hbm_learn.data.moments import Moments
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.closed_form import diagonal
from hbm_learn.inversion.result import InversionResult
from hbm_learn.inversion.shrinkage.orders import WORTH


def preselect(moments: Moments, columns: Interactions, site: str) -> Tests:
    """Tests of every term by the closed form."""
    return Tests.of(closed_form(moments, columns, site))


def closed_form(moments: Moments, columns: Interactions, site: str) -> InversionResult:
    """What the preselection tests: without a prior where samples are at least twice as many as columns."""
    alpha = 0.0 if moments.n_samples >= 2 * moments.space.n_columns else "auto"
    return diagonal.invert(moments, columns, alpha, site)


def select_and_refit(
    first: Tests, fit: Callable[[Interactions], InversionResult], level: float
) -> tuple[InversionResult, Tests]:
    """Select by the first tests and refit; drop what does not pass the refined tests, and refit, until all pass.

    The refined tests count every term that was considered as a hypothesis. A coupling that was selected by chance
    passes them too (it is the same data), which is what the level allows for; one that the closed form's bias made does
    not.
    """
    chosen = first.select(level)
    while True:
        result = fit(chosen)
        tests = Tests.of(result, first.considered)
        if result.method == "closed-form":
            return result, first.at(tests)
        passing = tests.select(level)
        if passing == chosen:
            return result, tests.beside(first, level)
        chosen = passing


def prefers_lower(result: InversionResult, order: int) -> bool:
    """Whether the evidence of the highest order beside the one below is less than what learning its prior is worth."""
    evidence = result.evidence
    return order > 2 and order in evidence and evidence[order] - evidence[order - 1] < WORTH
