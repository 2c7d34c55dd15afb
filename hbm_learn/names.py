"""Names of variables and of interactions, as tables, pictures and sentences write them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def default_names(n: int) -> list[str]:
    """x0, x1, …"""
    return [f"x{i}" for i in range(n)]


def given_names(est: Any) -> list[str] | None:
    """The names of the columns that an estimator was fitted to, or None."""
    names = getattr(est, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def feature_names(est: Any) -> list[str]:
    """The names of the columns that an estimator was fitted to; x0, x1, … where they had none."""
    return given_names(est) or default_names(est.n_features_in_)


def interaction_name(mu: Sequence[Any], names: Sequence[str] | Mapping[Any, str], sign: str = " × ") -> str:
    """age² × region for (0, 0, 1): a repeated member is a power."""
    return sign.join(names[i] + power(count) for i, count in Counter(mu).items())


def power(k: int) -> str:
    """², ³, …; nothing for 1."""
    return "" if k == 1 else str(k).translate(_SUPERSCRIPTS)


def value_name(value: Any) -> str:
    """A value of a variable: a label as it is, a number with no more digits than it needs."""
    return format(value, "g") if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def short_names(names: Sequence[str], most: int) -> list[str]:
    """Names of at most ``most`` letters that still differ: without their middles, else without what all of them share,
    else numbers."""
    names = [printable(name) for name in names]
    shared = _common(names)
    ending = _common([name[shared:][::-1] for name in names])
    for cores in (names, [f"…{name[shared : len(name) - ending]}…" for name in names]):
        shortened = [shorten(name, most) for name in cores]
        if len(set(shortened)) == len(set(names)):
            return shortened
    return default_names(len(names))


def shorten(name: str, most: int) -> str:
    """A name without its middle, if it has more than ``most`` letters."""
    tail = most // 3
    return name if len(name) <= most else f"{name[: most - tail - 1]}…{name[-tail:]}"


def printable(name: str) -> str:
    """A name on one line, without what steers a terminal."""
    return name if name.isprintable() else "".join(c if c.isprintable() else " " for c in name)


def _common(names: Sequence[str]) -> int:
    """How many letters all names begin with: those that the first and the last of them in the dictionary share."""
    first, last = min(names), max(names)
    return next((i for i, (a, b) in enumerate(zip(first, last)) if a != b), len(first))
