"""What the pictures of couplings beside another variable share: which column, which pairs, and their tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hbm_learn.interactions import positions_of, resolve_members
from hbm_learn.names import feature_names, interaction_name
from hbm_learn.plots import _style

Pair = tuple[int, ...]


def column_of(est: Any, parameter: str, name: Any) -> int:
    """The position of a column that was given by name or index."""
    names, n = feature_names(est), est.n_features_in_
    position = positions_of(names)
    if isinstance(name, (int, np.integer)) and not isinstance(name, bool) and 0 <= name < n:
        return int(name)
    if name in position:
        return int(position[name])
    shown = ", ".join(names[:6]) + (", …" if n > 6 else "")
    raise ValueError(f"{parameter}={name!r}: no such column; give one of {shown}, or an index below {n}.")


def choose_pairs(est: Any, beside: dict[Pair, list[int]], pairs: Any, top: int, name: str, only: bool) -> list[Pair]:
    """The pairs to draw: those asked for, or the surest moderation first and then the strongest pairs.

    Parameters
    ----------
    est : fitted HBM
    beside : dict
        {pair: terms that have the moderator beside it}.
    pairs : iterable of tuples or None
    top : int
    name : str
        Of the moderator.
    only : bool
        Only pairs that have a term with the moderator.
    """
    moderated = [pair for pair, mine in beside.items() if mine]
    if not moderated and not (pairs is None and beside and not only):
        raise ValueError(
            f"the model has no triplet of {name} with two other variables, and so the same couplings at all of its "
            "values: fit with order=3, and `fdr` keeps the triplets that pass their tests."
        )
    candidates = moderated if only else list(beside)
    if pairs is not None:
        position = positions_of(feature_names(est))
        asked = [tuple(resolve_members(pair, est.n_features_in_, position)) for pair in pairs]
        for pair in asked:
            if pair not in candidates:
                words = interaction_name(pair, feature_names(est))
                raise ValueError(f"pairs: the model has no {words}" + (f" with {name}" if only else "") + " to draw.")
        return asked
    p_values = est.tests_.p_values
    strength = dict(zip(est.result_.terms.tuples, np.abs(est.effects_)))

    def rank(pair: Pair) -> tuple[float, float]:
        return min((float(p_values[r]) for r in beside[pair]), default=2.0), -float(strength.get(pair, 0.0))

    return sorted(candidates, key=rank)[:top]


def q_of(est: Any, terms: Sequence[list[int]]) -> np.ndarray:
    """(p,) the least q-value among the terms of each pair with its moderator; NaN where there is none."""
    q = est.tests_.q_values
    return np.array([min((float(q[r]) for r in mine), default=np.nan) for mine in terms])


def q_words(q: float) -> str:
    """q = 0.012; q < 0.001."""
    return "q < 0.001" if q < 0.001 else f"q = {q:.3f}"


def names_of(est: Any, pairs: Sequence[Pair]) -> list[str]:
    """Names of pairs, as they are written beside an axis."""
    names = _style.names_or_numbers(feature_names(est), est.n_features_in_, 18)
    return [interaction_name(pair, names, " · ") for pair in pairs]
