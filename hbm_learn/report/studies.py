"""What given columns do in the report: differences between groups, couplings along covariates, the past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hbm_learn import plots
from hbm_learn.assessment.moderation import beside_pairs
from hbm_learn.estimator import HBM
from hbm_learn.lagged import past_columns
from hbm_learn.names import feature_names, given_names
from hbm_learn.plots.group_difference import MAX_GROUPS
from hbm_learn.report import words

# Given columns that get a picture each; pairs in a picture of groups, and how many of these may be alike in all groups.
MAX_COLUMNS, MAX_PAIRS, MAX_SHARED = 4, 16, 5


@dataclass(frozen=True, eq=False)
class Part:
    """A picture with its words, or, without one, a sentence.

    Attributes
    ----------
    text : str
    figure : matplotlib Figure or None
    alt : str
    kind : str
        The class of the figure.
    """

    text: str
    figure: Any = None
    alt: str = ""
    kind: str = "medium"


def studies(est: HBM, X: Any) -> list[Part]:
    """A part for each given column, or one for all of them where they are the past of the others."""
    space = est.model_.space
    if not space.has_given:
        return []
    names = given_names(est)
    if names is not None and past_columns(names, space.given) is not None:
        return [_past(est)]
    columns = np.flatnonzero(space.given)
    more = len(columns) - MAX_COLUMNS
    found = [_column(est, int(i), X) for i in columns[:MAX_COLUMNS]]
    return [*found, *([Part(f"{more} more given columns are not drawn.")] if more > 0 else [])]


def _column(est: HBM, i: int, X: Any) -> Part:
    """One given column."""
    name, space = feature_names(est)[i], est.model_.space
    alphabet, level = space.alphabets[i], words.level_of(est)
    groups = i not in space.anchors and alphabet.is_finite and alphabet.size <= MAX_GROUPS
    groups = groups and (alphabet.is_nominal or alphabet.size == 2)
    beside = [pair for pair, mine in beside_pairs(est.result_.terms, i).items() if mine]
    what = f"between the groups of {name}" if groups else f"with {name}"
    if not beside:
        if est.order_ < 3:
            return Part(f"{name} acts on single variables here; order 3 asks whether couplings differ {what}.")
        return Part(f"No coupling was found to differ {what}, at false-discovery rate {level:g}.")
    if groups:
        text = (
            f"Couplings in each group of {name}, in units of standard deviations and with 95 % intervals. Filled "
            "markers and bold q-values: the groups differ by the test of the triplet. Pairs without one share theirs."
        )
        display: Any = plots.GroupDifferenceDisplay.from_estimator(est, i, top=min(MAX_PAIRS, len(beside) + MAX_SHARED))
        return Part(text, display.figure_, f"Couplings of pairs in each group of {name}.")
    text = (
        f"Couplings along {name}, those whose dependence on it is surest, with 95 % bands. Solid lines pass the test "
        "of their triplet; dashed ones do not."
    )
    display = plots.ModerationDisplay.from_estimator(est, i, X=X)
    return Part(text, display.figure_, f"Couplings of pairs as lines over {name}.")


def _past(est: HBM) -> Part:
    """Arrows from the past."""
    level = words.level_of(est)
    pairs = est.result_.terms.order == 2
    if not (est.tests_.q_values[pairs] <= level).any():
        return Part(f"Nothing of the past was found to act on the present, at false-discovery rate {level:g}.")
    display = plots.LaggedDisplay.from_estimator(est, max_q=level)
    text = (
        "Arrows lead from the past of a variable to the present of another: solid and red for positive effects, dashed "
        f"and blue for negative ones, at false-discovery rate {level:g}. A frame in colour is a variable's own past."
    )
    kind = "medium" if len(display.axes_) == 1 else "panorama"
    return Part(text, display.figure_, f"Directed graph of {len(display.arrows_)} couplings with the past.", kind)
