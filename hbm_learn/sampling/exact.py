"""Exact sampling: states drawn from the table of all P(x), by inversion."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbm_learn import gaussian
from hbm_learn._validation import check_integer, seed_sequence
from hbm_learn.model import BoltzmannMachine
from hbm_learn.states import StateTable


def exact(model: BoltzmannMachine, n_samples: int, random_state: Any = None) -> np.ndarray:
    """Independent samples, drawn from the probabilities of all states.

    Parameters
    ----------
    model : BoltzmannMachine
        Of finite variables with at most 2**24 states in all, or of "real" ones.
    n_samples : int
        Number of rows.
    random_state : None, int, SeedSequence, Generator or RandomState
        The same integer gives the same samples.

    Returns
    -------
    (n_samples, n) array
        Values or labels.
    """
    n_samples = check_integer("n_samples", n_samples, 1)
    seed, space = seed_sequence(random_state), model.space
    if space.is_real:
        return gaussian.draw(model, n_samples, seed)
    if not space.is_finite:
        i, alphabet = next((i, a) for i, a in enumerate(space.alphabets) if not a.is_finite)
        which = "" if space.alphabet is not None else f" of variable {i}"
        raise ValueError(f'method "exact" lists states, and {alphabet}{which} has no list: use method "gibbs".')
    table = StateTable(model)
    cumulative = np.cumsum(table.p)
    u = np.random.default_rng(seed).random(n_samples) * cumulative[-1]
    # A state of probability zero repeats its predecessor's sum, and side="right" steps over it.
    return table.states(np.searchsorted(cumulative, u, side="right"))
