"""Axes of a table over all states: sizes and grids, matrices of functions, and where sets of columns stand."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10, prod

import numpy as np

from hbm_learn.interactions import Interactions
from hbm_learn.space import Space
from hbm_learn.states import transforms

MAX_STATES = 2**24
# Gauss–Legendre nodes of a variable on an interval.
MIN_NODES, MAX_NODES = 12, 64


def axis_sizes(space: Space, n_nodes: int | None) -> list[int]:
    """q_i of each variable, grid nodes on an Interval; refuses what has no table or too large a one."""
    if space.is_real:
        raise ValueError('alphabet "real" has no states to list: infer(model, "exact") gives its closed form.')
    sizes = space.sizes.tolist()
    n_grids = sizes.count(0)
    what = "values"
    if n_grids:
        room = MAX_STATES // prod(q for q in sizes if q)
        nodes = n_nodes or max(MIN_NODES, min(MAX_NODES, floor(room ** (1 / n_grids) + 1e-9)))
        what = "grid nodes" if n_grids == len(sizes) else "values or grid nodes"
        what += " (the fewest for an Interval)" if n_nodes is None else ""
        sizes = [q or nodes for q in sizes]
    if prod(sizes) > MAX_STATES:
        each = f"{min(sizes)} {what}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)} {what}"
        digits = sum(log10(q) for q in sizes)
        count = f"{prod(sizes):,}" if digits < 18 else f"about 10^{digits:.0f}"
        raise ValueError(
            f'method "exact" lists every state, at most {MAX_STATES:,}: {len(sizes)} variables of {each} have {count}. '
            'Use method "dc" (mean field, any size) or "gibbs" (sampling).'
        )
    return sizes


def grid(bounds: tuple[float, float], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Legendre nodes of an interval and their log weights."""
    t, w = np.polynomial.legendre.leggauss(size)
    low, high = bounds
    return 0.5 * (low + high) + 0.5 * (high - low) * t, np.log(0.5 * (high - low) * w)


def with_ones(functions: Sequence[np.ndarray]) -> list[np.ndarray]:
    """(q_i, 1 + r_i) the constant and the functions of each site; done once for sites that share them."""
    known = {id(table): table for table in functions}
    made = {key: np.column_stack([np.ones(len(table)), table]) for key, table in known.items()}
    return [made[id(table)] for table in functions]


def column_codes(space: Space) -> np.ndarray:
    """(N,) the number of each column in a table over (none, φ_1, …, φ_r) of every site."""
    strides = transforms.strides((np.diff(space.column_ptr) + 1).tolist())
    within = np.arange(space.n_columns) - space.column_ptr[space.site]
    return (1 + within) * strides[space.site]


def set_codes(columns: Interactions, column_codes: np.ndarray) -> np.ndarray:
    """(p,) sums of the codes of the members of each set."""
    if not len(columns):
        return np.zeros(0, dtype=np.int64)
    return np.add.reduceat(column_codes[columns.members], columns.indptr[:-1])
