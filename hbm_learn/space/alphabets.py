"""The alphabets of several variables, from all that users may write: one for all, a sequence, or {index: one}."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hbm_learn.space.alphabet import Alphabet, Interval, Nominal
from hbm_learn.space.codes import MAX_VALUES


def each_alphabet(alphabet: Any, n_features: int, given: Any = None) -> list[Alphabet]:
    """One Alphabet for each variable, from one for all, a sequence, or {index: one}; equal ones are one object.

    Variables that are ``given`` may be real beside others that are not.
    """
    if isinstance(alphabet, Mapping):
        missing = [i for i in range(n_features) if i not in alphabet]
        strange = [key for key in alphabet if key not in range(n_features)]
        if missing or strange:
            what = f"has none for variable {missing[0]}" if missing else f"names {strange[0]!r}, which is no variable"
            raise ValueError(f"alphabet={alphabet!r} {what}: give one for each of 0 … {n_features - 1}.")
        alphabet = [alphabet[i] for i in range(n_features)]
    elif not _is_one_for_each(alphabet):
        return [_checked(alphabet)] * n_features
    elif len(alphabet) != n_features:
        raise ValueError(f"alphabet has {len(alphabet)} entries for {n_features} variables: give one for each.")
    known: dict[Alphabet, Alphabet] = {}
    alphabets = [known.setdefault(a, a) for a in (_checked(a, f"variable {i}: ") for i, a in enumerate(alphabet))]
    free = np.ones(n_features, dtype=bool) if given is None else ~np.asarray(given, dtype=bool)
    kinds = [a.kind for a, modelled in zip(alphabets, free) if modelled]
    if "real" in kinds and len(set(kinds)) > 1:
        i = next(i for i in np.flatnonzero(free).tolist() if alphabets[i].kind != "real")
        raise ValueError(
            f'alphabet "real" is for all variables or none, and variable {i} has {alphabets[i]}: bin the real ones '
            "into a few values, give them an Interval, or name them in `given` if they are not to be modelled."
        )
    return alphabets


def _is_one_for_each(alphabet: Any) -> bool:
    """Whether a sequence holds alphabets, and not the values of one."""
    if isinstance(alphabet, (str, Alphabet, Interval, Nominal)) or not isinstance(alphabet, Sequence):
        return False
    return any(isinstance(a, (str, Alphabet, Interval, Nominal)) or np.ndim(a) > 0 for a in alphabet)


def _checked(alphabet: Any, whose: str = "") -> Alphabet:
    """An Alphabet whose values have codes."""
    try:
        checked = Alphabet(alphabet)
    except ValueError as error:
        raise ValueError(f"{whose}{error}") from None
    if checked.is_finite and checked.size > MAX_VALUES:
        raise ValueError(f"{whose}alphabet=… has {checked.size} values: at most {MAX_VALUES} can be encoded; bin them.")
    return checked
