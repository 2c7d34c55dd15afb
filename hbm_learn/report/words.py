"""A fit in words and rows: what the terminal and the report say, said once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hbm_learn.estimator import HBM
from hbm_learn.interactions import Interactions
from hbm_learn.model import BoltzmannMachine
from hbm_learn.space import Alphabet

# The false-discovery rate at which an interaction is said to stand out, unless the fit was given one.
DEFAULT_FDR = 0.05
_KINDS = {2: "pair", 3: "triplet", 4: "quadruplet"}


@dataclass(frozen=True, eq=False)
class Rows:
    """Some interactions of a fit, as columns of equal length; ``position`` is where each stands in ``weights_``."""

    position: np.ndarray
    labels: list[str]
    order: np.ndarray
    weight: np.ndarray
    standard_error: np.ndarray
    low: np.ndarray
    high: np.ndarray
    z: np.ndarray
    p: np.ndarray
    q: np.ndarray

    def __len__(self) -> int:
        return len(self.position)


def strongest(est: HBM, most: int | None = None, level: float = 0.95) -> Rows:
    """The interactions of a fit with intervals and tests, strongest evidence (|z|) first."""
    tests, packed = est._tests, est.model_.packed
    position = np.argsort(-np.abs(tests.z), kind="stable")[:most]
    names = feature_names(est)
    low, high = est.confidence_intervals(level)[position].T
    return Rows(
        position=position,
        labels=[label(members(packed, r), names) for r in position],
        order=np.diff(packed.indptr)[position],
        weight=est.weights_[position],
        standard_error=est.standard_errors_[position],
        low=low,
        high=high,
        z=tests.z[position],
        p=tests.p_values[position],
        q=tests.q_values[position],
    )


def members(packed: Interactions, r: int) -> list[int]:
    """The variables of interaction r."""
    return packed.members[packed.indptr[r] : packed.indptr[r + 1]].tolist()


def label(mu: Sequence[int], names: Sequence[str]) -> str:
    """x0 × x3 × x7."""
    return " × ".join(names[i] for i in mu)


def feature_names(est: HBM) -> list[str]:
    """The names of the columns that were fitted; x0, x1, … where they had none."""
    given = getattr(est, "feature_names_in_", None)
    return default_names(est.n_features_in_) if given is None else [str(name) for name in given]


def default_names(n: int) -> list[str]:
    return [f"x{i}" for i in range(n)]


def short_names(names: Sequence[str], most: int) -> list[str]:
    """Names of at most ``most`` letters that still differ: without their middles, else without what all of them share,
    else numbers."""
    shared = _common(names)
    ending = _common([name[shared:][::-1] for name in names])
    for cores in (names, [f"…{name[shared : len(name) - ending]}…" for name in names]):
        shortened = [_short(name, most) for name in cores]
        if len(set(shortened)) == len(set(names)):
            return shortened
    return default_names(len(names))


def _common(names: Sequence[str]) -> int:
    """How many letters all names begin with: those that the first and the last of them in the dictionary share."""
    first, last = min(names), max(names)
    return next((i for i, (a, b) in enumerate(zip(first, last)) if a != b), len(first))


def _short(name: str, most: int) -> str:
    tail = most // 3
    return name if len(name) <= most else f"{name[: most - tail - 1]}…{name[-tail:]}"


def counted(number: float, noun: str) -> str:
    """1 pair, 2,000 pairs."""
    return f"{number:,.0f} {noun}{'' if number == 1 else 's'}"


def counts(orders: Any) -> str:
    """47 pairs and 19 triplets."""
    which, how_many = np.unique(np.asarray(orders), return_counts=True)
    parts = [
        counted(int(c), _KINDS[k]) if k in _KINDS else counted(int(c), "interaction") + f" of order {k}"
        for k, c in zip(which.tolist(), how_many)
    ]
    return _joined(parts) or "no interaction"


def _joined(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def values(alphabet: Alphabet) -> str:
    """The values of a variable, in words."""
    if alphabet.kind == "real":
        return "real numbers"
    if alphabet.kind == "interval":
        return f"numbers from {alphabet.bounds[0]:g} to {alphabet.bounds[1]:g}"
    listed = [f"{x:g}" for x in alphabet.nodes]
    return "values " + (", ".join(listed) if len(listed) <= 8 else f"{listed[0]}, {listed[1]}, …, {listed[-1]}")


def level_of(est: HBM) -> float:
    return DEFAULT_FDR if est.fdr is None else float(est.fdr)


def fitted(est: HBM) -> str:
    """What was fitted, and how: one sentence."""
    how = {
        "diagonal": "the closed form",
        "likelihood": "exact likelihood",
        "pseudolikelihood": "pseudolikelihood",
        "screening": "interaction screening",
    }.get(est._result.method, est._result.method)
    order = np.diff(est.model_.packed.indptr)
    chosen = "" if est.fdr is None else f", chosen among {tested(est):,} by tests at false-discovery rate {est.fdr:g}"
    return f"{counts(order)} fitted by {how}{chosen}."


def tested(est: HBM) -> int:
    """How many interactions were considered."""
    return len(est._interactions(est.moments_))


def found(est: HBM) -> str:
    """How many interactions stand out: one sentence."""
    level, q = level_of(est), est._tests.q_values
    passing = np.diff(est.model_.packed.indptr)[q <= level]
    if not len(passing):
        return f"No interaction stands out from chance at false-discovery rate {level:g}."
    verb = "stands" if len(passing) == 1 else "stand"
    return f"{counts(passing)} {verb} out from chance at false-discovery rate {level:g}."


def caveats(est: HBM) -> list[str]:
    """How far to trust the fit: sentences, the most serious first."""
    sentences = [] if est.converged_ else [f"The fit did not converge: {est._result.status}"]
    return [*sentences, _capital(est.trust_.message), *(_capital(note) for note in est._result.notes)]


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def signed(x: float) -> str:
    """+0.123, −0.123: with a true minus sign, so that columns of figures line up."""
    return f"{x:+.3f}".replace("-", "−")


def small(p: float) -> str:
    """A probability: 0.031, 2e-14, < 1e-300."""
    if p < 1e-300:
        return "< 1e-300"
    return f"{p:.3f}" if p >= 0.001 else f"{p:.0e}"


def describe(model: BoltzmannMachine) -> str:
    """A model in one sentence."""
    order = np.diff(model.packed.indptr)
    return f"{counted(model.n_features, 'variable')} ({values(model.alphabet)}), {counts(order)}."
