"""Samples given the values of some variables: x_r ~ P(x | z_r) for each row z_r of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hbm_learn._validation import check_integer, check_options, seed_sequence
from hbm_learn.model import BoltzmannMachine, conditioning
from hbm_learn.sampling.chains import Chains, decode, widths

# States that are listed for all patterns of given values together.
MAX_LISTED = 2**22


def sample_given(
    model: BoltzmannMachine,
    n_samples: int,
    given: Any,
    method: str,
    random_state: Any,
    sample: Callable[..., Any],
    options: dict[str, Any],
) -> np.ndarray:
    """(n_samples, n) values or labels, the given ones as they were given.

    Rows with the same z are samples of one smaller model; where states are too many to be listed and z has many
    patterns, each row is the end of a chain of its own.

    Parameters
    ----------
    model : BoltzmannMachine
    n_samples : int
    given : table
        See :func:`hbm_learn.sample`.
    method : {"auto", "exact", "gibbs", "tempering"}
    random_state : None, int, SeedSequence, Generator or RandomState
    sample : callable
        Samples of a model without given variables.
    options : dict
        Of the method.
    """
    n_samples = check_integer("n_samples", n_samples, 1)
    space = model.space
    codes = conditioning.given_codes(space, given, n_samples)
    distinct, which = conditioning.distinct_given(space, codes)
    seed = seed_sequence(random_state)
    if method == "auto":
        listed = len(distinct) * space.modelled.n_states() <= MAX_LISTED and not options
        method = "exact" if listed else "gibbs"
    if method == "gibbs" and len(distinct) > 1:
        check_options("method", method, clamped, options, n_positional=3)
        return decode(clamped(model, codes, seed, **options), space)
    if options.get("return_diagnostics") and len(distinct) > 1:
        raise ValueError("return_diagnostics is for chains of one model: give one row of given values for all samples.")
    rest = np.flatnonzero(~space.given)
    out = space.decode(codes)
    extra: tuple[Any, ...] = ()
    for row, code in enumerate(distinct):
        mine = np.flatnonzero(which == row)
        part = conditioning.condition(model, code, rest)
        found = sample(part, len(mine), method, seed.spawn(1)[0], **options)
        found, *extra = found if isinstance(found, tuple) else (found,)  # type: ignore[assignment]
        out[np.ix_(mine, rest)] = found
    return (out, *extra) if extra else out  # type: ignore[return-value]


def clamped(
    model: BoltzmannMachine,
    codes: np.ndarray,
    random_state: Any,
    *,
    burn_in: int = 1000,
    n_jobs: int | None = None,
) -> np.ndarray:
    """(rows, n) codes: each the last state of a Gibbs chain whose given variables stay at those of its row.

    Parameters
    ----------
    model : BoltzmannMachine
    codes : (rows, n) array
        The given entries are looked at.
    random_state : None, int, SeedSequence, Generator or RandomState
    burn_in : int
        Sweeps of each chain.
    n_jobs : int or None
        Threads.
    """
    chains = Chains(model, widths(len(codes)), seed_sequence(random_state), codes, n_jobs)
    chains.advance(check_integer("burn_in", burn_in, 1))
    return chains.states()
