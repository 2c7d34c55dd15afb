"""Checks of parameters, and their messages."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

import numpy as np


def memory() -> int:
    """Bytes of main memory; 2³⁴ where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**34


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


def check_number(
    name: str, value: Any, low: float = -np.inf, high: float = np.inf, *, open_low: bool = False, what: str = ""
) -> float:
    """A finite real number with low ≤ value ≤ high, or a ValueError that names the parameter.

    Parameters
    ----------
    name : str
        Of the parameter.
    value : object
        What was given for it.
    low, high : float
        Bounds, themselves allowed.
    open_low : bool
        The lower one is not.
    what : str
        What to give instead; made of the bounds by default.
    """
    good = isinstance(value, (Real, np.number)) and not isinstance(value, (bool, np.bool_, complex, np.complexfloating))
    if good and np.isfinite(value) and low <= value <= high and not (open_low and value == low):
        return float(value)
    bounds = [f"{'>' if open_low else '≥'} {low:g}"] if np.isfinite(low) else []
    bounds += [f"≤ {high:g}"] if np.isfinite(high) else []
    wanted = what or f"a finite number {' and '.join(bounds)}".strip()
    raise ValueError(f"{name}={value!r}: give {wanted}.")


def check_share(name: str, value: Any, what: str) -> float:
    """A number strictly between 0 and 1, or a ValueError that names the parameter and says ``what`` to give."""
    return check_number(name, value, 0.0, np.nextafter(1.0, 0.0), open_low=True, what=what)


def check_jobs(n_jobs: Any) -> int | None:
    """The number of threads: None, an integer ≥ 1, or a negative one as joblib counts (-1: all cores)."""
    if n_jobs is None or (isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool) and n_jobs != 0):
        return None if n_jobs is None else int(n_jobs)
    raise ValueError(f"n_jobs={n_jobs!r}: give a number of threads, -1 for all cores, or None.")


def check_verbose(verbose: Any) -> int:
    """0 or more; booleans are numbers here."""
    return int(verbose) if isinstance(verbose, (bool, np.bool_)) else check_integer("verbose", verbose, 0)


def check_random_state(random_state: Any) -> None:
    """Refuse what is no source of random numbers, without drawing any from it."""
    if not isinstance(random_state, (np.random.Generator, np.random.RandomState)):
        seed_sequence(random_state)


def fresh_entropy() -> int:
    """What random_state=None begins with: other numbers at each call."""
    return int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]


def settled_seed(random_state: Any) -> Any:
    """A seed that gives the same numbers each time it is used, for all parts of one fit.

    An integer is its own. From a Generator or RandomState one is drawn, which advances it; None takes fresh entropy.
    """
    if random_state is None:
        return fresh_entropy()
    if isinstance(random_state, (np.random.Generator, np.random.RandomState)):
        return int.from_bytes(seed_sequence(random_state).generate_state(4).tobytes(), "little")
    return random_state


def generator(random_state: Any) -> np.random.Generator:
    """A Generator: the one given, or a new one from whatever ``seed_sequence`` takes."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(seed_sequence(random_state))


def check_refinement(options: Mapping[str, Any]) -> None:
    """Refuse values of tol, max_iter, n_jobs, random_state and verbose that mean nothing; None takes the default."""
    if options.get("tol") is not None:
        check_number("tol", options["tol"], 0.0, open_low=True)
    if options.get("max_iter") is not None:
        check_integer("max_iter", options["max_iter"], 1)
    check_jobs(options.get("n_jobs"))
    check_verbose(options.get("verbose") or 0)
    check_random_state(options.get("random_state"))


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
        return np.random.SeedSequence(fresh_entropy() if random_state is None else random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state={random_state!r}: give None, a non-negative integer, or a numpy Generator or RandomState."
        ) from None
