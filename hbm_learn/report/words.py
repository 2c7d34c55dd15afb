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

# The false-discovery rate at which an interaction is said to stand out, unless the fit was given one.
DEFAULT_FDR = 0.05
KINDS = {1: "single variable", 2: "pair", 3: "triplet", 4: "quadruplet"}
METHODS = {
    "closed-form": "the closed form",
    "likelihood": "exact likelihood",
    "pseudolikelihood": "pseudolikelihood",
    "screening": "interaction screening",
}


@dataclass(frozen=True, eq=False)
class Rows:
    """Some interactions of a fit, as columns of equal length; ``position`` is where each stands in ``effects_``.

    ``low`` and ``high`` are the interval of the effect, and z, p, q those of its test: they belong together.
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
    if space.alphabet is not None:
        return values(space.alphabet)
    parts = []
    for nominal, word, noun in ((False, "numeric", "value"), (True, "nominal", "label")):
        mine = [a for a in space.alphabets if a.is_nominal == nominal]
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


def fitted(est: HBM) -> str:
    """What was fitted, and how: one sentence."""
    how = METHODS.get(est.result_.method, est.result_.method)
    considered = len(est.tests_.considered)
    chosen = "" if est.fdr is None else f", chosen among {considered:,} by tests at false-discovery rate {est.fdr:g}"
    return f"{counts(est.result_.terms.order)} fitted by {how}{chosen}."


def found(est: HBM) -> str:
    """How many interactions stand out: one sentence."""
    level = level_of(est)
    passing = est.result_.terms.order[est.tests_.q_values <= level]
    if not len(passing):
        return f"No interaction stands out from chance at false-discovery rate {level:g}."
    verb = "stands" if len(passing) == 1 else "stand"
    return f"{counts(passing)} {verb} out from chance at false-discovery rate {level:g}."


def caveats(est: HBM) -> list[str]:
    """How far to trust the fit: sentences, the most serious first."""
    sentences = [] if est.converged_ else [f"The fit did not converge: {est.result_.status}"]
    return [*sentences, *map(capital, [est.trust_.message, *est.result_.notes])]


def capital(sentence: str) -> str:
    """A sentence with a capital letter."""
    return sentence[:1].upper() + sentence[1:]


def describe(model: BoltzmannMachine) -> str:
    """A model in one sentence."""
    variables = f"{counted(model.n_features, 'variable')} ({all_values(model.space)})"
    return f"{variables}, {counts(model.terms.order)}."
