"""Which sets of columns are compared, of data and model, where there are too many."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np

from hbm_learn.interactions import Interactions
from hbm_learn.space import Space


def some_sets(sets: Interactions, rng: np.random.Generator, most: int) -> Interactions:
    """The sets, or a random part of each order where they are too many."""
    blocks = []
    for k in sets.orders:
        block = sets.block(k)
        if len(block) > most:
            block = block[np.sort(rng.choice(len(block), most, replace=False))]
        blocks.append(block)
    return Interactions.from_blocks(blocks, sets.n_features)


def random_sets(space: Space, k: int, rng: np.random.Generator, most: int) -> Interactions:
    """Sets of k columns of different variables: all of them, or a random part."""
    N = space.n_columns
    if comb(N, k) <= 2 * most:
        rows = np.array(list(combinations(range(N), k)), dtype=np.intp).reshape(-1, k)
    else:
        rows = np.unique(np.sort(rng.integers(N, size=(2 * most, k)), axis=1), axis=0)
    site = space.site[rows]
    rows = rows[(np.diff(site, axis=1) > 0).all(axis=1) & ~space.given[site].all(axis=1)]
    if len(rows) > most:
        rows = rows[np.sort(rng.choice(len(rows), most, replace=False))]
    return Interactions.from_blocks([rows] if len(rows) else [], N)
