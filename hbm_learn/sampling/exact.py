"""Exact sampling: states drawn from the table of all P(x), by inversion."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbm_learn._validation import check_integer, seed_sequence
from hbm_learn.inference.exact import StateTable
from hbm_learn.model import BoltzmannMachine
from hbm_learn.sampling import gaussian


def exact(model: BoltzmannMachine, n_samples: int, random_state: Any = None) -> np.ndarray:
    """(n_samples, n) independent samples: a finite alphabet with at most 2**24 states in all, or "real"."""
    n_samples = check_integer("n_samples", n_samples, 1)
    seed = seed_sequence(random_state)
    if model.alphabet.kind == "real":
        return gaussian.draw(model, n_samples, seed)
    if model.alphabet.kind == "interval":
        raise ValueError(f'method "exact" lists states, and {model.alphabet} has no list: use method "gibbs".')
    table = StateTable(model)
    cumulative = np.cumsum(table.p)
    u = np.random.default_rng(seed).random(n_samples) * cumulative[-1]
    # A state of probability zero repeats its predecessor's sum, and side="right" steps over it.
    return table.states(np.searchsorted(cumulative, u, side="right"))
