"""Checks of parameters, and their messages."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any


def choose(kind: str, name: Any, registry: Mapping[str, Callable]) -> Callable:
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
