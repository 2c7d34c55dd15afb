"""A fit in words and rows: what the terminal and the report say, said once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hbm_learn.estimator import HBM
from hbm_learn.model import BoltzmannMachine
from hbm_learn.names import feature_names, interaction_name, value_name
from hbm_learn.space import Alphabet, Space
from hbm_learn.states import MAX_STATES

# The false-discovery rate at which an interaction is said to stand out, unless the fit was given one.
DEFAULT_FDR = 0.05
KINDS = {1: "single variable", 2: "pair", 3: "triplet", 4: "quadruplet"}
METHODS = {
    "closed-form": "the closed form",
    "likelihood": "exact likelihood",
    "pseudolikelihood": "pseudolikelihood",
    "screening": "interaction screening",
}
MARKS = {"good": "✓", "unknown": "?", "care": "!", "bad": "✗"}
# What each column of a table of interactions is: the terminal, the report and the documentation say it in these words.
COLUMNS = {
    "effect": "The effect is the coupling with every variable in units of its standard deviation about its mean.",
    "interval": "The interval is of the effect: it holds the true one as often as its heading says, over "
    "repeated data, and reaches over what the data say alone and what they say beside the other interactions.",
    "score": "z is of the score test, which no prior enters: how far the data are from what they would be without this "
    "interaction, given the others, in standard deviations.",
    "wald": "z is the estimate without its prior over its standard error.",
    "df": "df counts the free numbers of a table of labels; its z has the p-value of the whole table, and no sign.",
    "q": "q is of the same test as z: the share of false findings to expect among all interactions of that order that "
    "are at least as sure.",
    "kept": "Kept by: its own test, or only as a subset of a larger interaction that passed.",
    "weight": "The weight is the coupling J in the coding of the data.",
}
# How a row with ``fdr`` says why it is there.
BY_TEST, BY_SUBSET = "test", "subset"


@dataclass(frozen=True, eq=False)
class Rows:
    """Some interactions of a fit, as columns of equal length; ``position`` is where each stands in ``effects_``.

    ``low`` and ``high`` are the interval of the effect, z and q those of its test. ``passes``: whether it stands out by
    its own test; with ``fdr``, what does not is there as a subset of what does.
    """

    position: np.ndarray
    labels: list[str]
    order: np.ndarray
    df: np.ndarray
    effect: np.ndarray
    low: np.ndarray
    high: np.ndarray
    z: np.ndarray
    q: np.ndarray
    passes: np.ndarray
    weight: np.ndarray

    def __len__(self) -> int:
        return len(self.position)

    def text(self, column: str, r: int, digits: int = 3) -> str:
        """An entry as tables write it: signed, unless it is the size of a table of labels."""
        x = float(getattr(self, column)[r])
        return signed(x, digits) if self.df[r] == 1 else f"{x:.{digits}f}".replace("-", "−")

    def interval(self, r: int) -> str:
        """+0.1 to +0.2."""
        return f"{self.text('low', r)} to {self.text('high', r)}"

    def kept(self, r: int) -> str:
        """Why it is there, with ``fdr``."""
        return BY_TEST if self.passes[r] else BY_SUBSET


def strongest(est: HBM, most: int | None = None, level: float = 0.95, names: Sequence[str] | None = None) -> Rows:
    """The interactions of a fit with intervals and tests, strongest evidence (|z|) first; names are of variables."""
    tests, terms = est.tests_, est.result_.terms
    position = np.argsort(-np.abs(tests.z), kind="stable")[:most]
    names = feature_names(est) if names is None else names
    low, high = est.effect_intervals(level)[position].T
    return Rows(
        position=position,
        labels=[interaction_name(terms.members(r), names) for r in position],
        order=terms.order[position],
        df=terms.df[position],
        effect=est.effects_[position],
        low=low,
        high=high,
        z=tests.z[position],
        q=tests.q_values[position],
        passes=tests.passing(level_of(est))[position],
        weight=est.weights_[position],
    )


# ---------------------------------------------------------------------- counts and numbers


def counted(number: float, noun: str) -> str:
    """1 pair, 2,000 pairs."""
    return f"{number:,.0f} {noun}{'' if number == 1 else 's'}"


def counts(orders: Any) -> str:
    """47 pairs and 19 triplets."""
    which, how_many = np.unique(np.asarray(orders), return_counts=True)
    parts = [
        counted(int(c), KINDS[k]) if k in KINDS else counted(int(c), "interaction") + f" of order {k}"
        for k, c in zip(which.tolist(), how_many)
    ]
    return joined(parts) or "no interaction"


def joined(parts: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def signed(x: float, digits: int = 3) -> str:
    """+0.123, −0.123: with a true minus sign, so that columns of figures line up."""
    return f"{x:+.{digits}f}".replace("-", "−")


def small(p: float) -> str:
    """A probability: 0.031, 2e-14, < 1e-300."""
    if p < 1e-300:
        return "< 1e-300"
    return f"{p:.3f}" if p >= 0.001 else f"{p:.0e}"


def percent(share: float) -> str:
    """12.5 %, 0.03 %."""
    return f"{100 * share:.1f} %" if share >= 0.0995 or share == 0 else f"{100 * share:.2g} %"


# ---------------------------------------------------------------------- variables


def kind(alphabet: Alphabet) -> str:
    """numeric or nominal."""
    return "nominal" if alphabet.is_nominal else "numeric"


def values(alphabet: Alphabet, most: int = 8) -> str:
    """The values of a variable, in words."""
    if alphabet.kind == "real":
        return "real numbers"
    if alphabet.kind == "interval":
        return f"numbers from {alphabet.bounds[0]:g} to {alphabet.bounds[1]:g}"
    listed = [value_name(x) for x in alphabet.values.tolist()]  # type: ignore[union-attr]
    if len(listed) > most:
        listed = [listed[0], listed[1], "…", listed[-1]]
    return f"{'labels' if alphabet.is_nominal else 'values'} {', '.join(listed)}"


def all_values(space: Space) -> str:
    """The values of all variables, in words: listed if all have the same, else counted."""
    modelled, given = ([a for a, g in zip(space.alphabets, space.given) if g == flag] for flag in (False, True))
    return _in_words(modelled) + (f"; given: {_in_words(given)}" if given else "")


def _in_words(alphabets: Sequence[Alphabet]) -> str:
    if all(a == alphabets[0] for a in alphabets):
        return values(alphabets[0])
    parts = []
    for nominal, word, noun in ((False, "numeric", "value"), (True, "nominal", "label")):
        mine = [a for a in alphabets if a.is_nominal == nominal]
        sizes = [a.size for a in mine if a.is_finite]
        if mine:
            listed = f" with {sizes_(sizes)} {noun}s" if len(sizes) == len(mine) else ""
            parts.append(f"{len(mine):,} {word}{listed}")
    return joined(parts)


def sizes_(sizes: Sequence[int]) -> str:
    """2, or 2 to 6."""
    low, high = min(sizes), max(sizes)
    return f"{low}" if low == high else f"{low} to {high}"


# ---------------------------------------------------------------------- a fit


def level_of(est: HBM) -> float:
    """The false-discovery rate at which interactions are said to stand out."""
    return DEFAULT_FDR if est.fdr is None else float(est.fdr)


def explained(est: HBM, blocks: bool) -> list[str]:
    """What the columns of a table of its interactions are: sentences; ``blocks`` if some are tables of labels."""
    shown = ["effect", "interval", est.tests_.method, *["df"] * blocks, "q", *["kept"] * (est.fdr is not None)]
    return [COLUMNS[name] for name in [*shown, "weight"]]


def method(est: HBM) -> str:
    """How it was fitted."""
    if est.result_.method == "likelihood" and not est.model_.space.modelled.enumerable(MAX_STATES):
        return "Monte Carlo likelihood"
    return METHODS.get(est.result_.method, est.result_.method)


def fitted(est: HBM) -> str:
    """What was fitted, and how: a sentence or two."""
    order, tests = est.result_.terms.order, est.tests_
    if est.fdr is None:
        return f"{counts(order)} fitted by {method(est)}."
    chosen = f"chosen among {len(tests.considered):,} by tests at false-discovery rate {est.fdr:g}"
    subsets = order[~tests.passing(est.fdr)]
    are = "is there only as a subset" if len(subsets) == 1 else "are there only as subsets"
    more = f" {capital(counts(subsets))} {are} of what passed."
    return f"{counts(order)} fitted by {method(est)}, {chosen}." + (more if len(subsets) else "")


def found(est: HBM) -> str:
    """How many interactions stand out: one sentence."""
    level = level_of(est)
    passing = est.result_.terms.order[est.tests_.passing(level)]
    if not len(passing):
        return f"No interaction stands out from chance at false-discovery rate {level:g}."
    verb = "stands" if len(passing) == 1 else "stand"
    return f"{counts(passing)} {verb} out from chance at false-discovery rate {level:g}."


def reasons(est: HBM) -> list[tuple[str, str]]:
    """(mark, sentence) of the checks behind the headline of ``trust_``, and what else the fit has to say."""
    behind = est.trust_.reasons
    checks = [(MARKS[check.verdict], check.sentence) for check in est.trust_.checks if check.sentence in behind]
    return [*checks, *(("·", capital(note)) for note in est.result_.notes)]


def capital(sentence: str) -> str:
    """A sentence with a capital letter."""
    return sentence[:1].upper() + sentence[1:]


def describe(model: BoltzmannMachine) -> str:
    """A model in one sentence."""
    variables = f"{counted(model.n_features, 'variable')} ({all_values(model.space)})"
    return f"{variables}, {counts(model.terms.order)}."
