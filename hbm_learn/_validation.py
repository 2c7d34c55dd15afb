"""Checks of parameters, and their messages."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from numbers import Integral
from typing import Any

import numpy as np


def choose(kind: str, name: Any, registry: Mapping[str, Any]) -> Any:
    """The entry of a registry, or a ValueError that lists what there is."""
    if isinstance(name, str) and name in registry:
        return registry[name]
    close = get_close_matches(str(name), registry, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"{kind}={name!r} is not known; choose one of {', '.join(map(repr, registry))}.{hint}")


def check_options(kind: str, name: str, function: Callable, options: Mapping[str, Any], n_positional: int = 1) -> None:
    """Refuse options that the chosen method does not have, naming those that it has."""
    known = list(inspect.signature(function).parameters)[n_positional:]
    for option in options:
        if option not in known:
            takes = f"its options are {', '.join(known)}" if known else "it takes no options"
            raise ValueError(f"{option!r} is not an option of {kind} {name!r}; {takes}.")


def check_integer(name: str, value: Any, minimum: int) -> int:
    """An integer of at least ``minimum``, or a ValueError that names the parameter."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < minimum:
        raise ValueError(f"{name}={value!r}: give an integer of at least {minimum}.")
    return int(value)


def seed_sequence(random_state: Any) -> np.random.SeedSequence:
    """A SeedSequence from None, an integer, a sequence of them, a SeedSequence, a Generator or a RandomState.

    A Generator or RandomState is advanced, so that a second call gives other numbers.
    """
    if isinstance(random_state, np.random.SeedSequence):
        return random_state
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(random_state.integers(2**32, size=4).tolist())
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(random_state.randint(2**32, size=4, dtype=np.uint32).tolist())
    try:
        return np.random.SeedSequence(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state={random_state!r}: give None, a non-negative integer, or a numpy Generator."
        ) from None
