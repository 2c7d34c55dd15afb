"""Missing entries, summed over: the patterns in which entries are missing, and all completions of a row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import softmax

from hbm_learn.interactions import Interactions
from hbm_learn.model import BoltzmannMachine
from hbm_learn.space import Space

# Numbers handled at once, so that memory stays bounded.
BLOCK = 2**21


def row_blocks(model: BoltzmannMachine, n_rows: int, n_copies: int = 1) -> Iterator[slice]:
    """Consecutive rows, so few that a number for each column or value of ``n_copies`` of them fits in a block."""
    step = max(1, BLOCK // (n_copies * max(model.n_columns, int(model.space.sizes.sum()))))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def missing_entries(space: Space, codes: np.ndarray) -> np.ndarray:
    """(rows, n) which codes are 255, and which values of continuous variables are NaN."""
    return space.missing(codes)


def patterns(missing: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The distinct sets of missing variables, each with the indices of its rows."""
    where = np.flatnonzero(missing.any(axis=1))
    if where.size:
        masks, group = np.unique(missing[where], axis=0, return_inverse=True)
        order = np.argsort(group.ravel(), kind="stable")
        for mask, rows in zip(masks, np.split(where[order], np.cumsum(np.bincount(group.ravel()))[:-1])):
            yield np.flatnonzero(mask), rows


def n_completions(model: BoltzmannMachine, hidden: np.ndarray) -> float:
    """In how many ways the variables ``hidden`` can be filled in; infinite for continuous ones."""
    sizes = model.space.sizes[hidden]
    return float(np.prod(sizes, dtype=np.float64)) if sizes.all() else np.inf


def completed(model: BoltzmannMachine, codes: np.ndarray, hidden: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """(rows, codes of these rows filled in, all completions of a row one after another), in blocks."""
    sizes = model.space.sizes[hidden].tolist()
    fillings = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1)
    for rows in row_blocks(model, len(codes), len(fillings)):
        block = np.repeat(codes[rows], len(fillings), axis=0)
        block[:, hidden] = np.tile(fillings, (rows.stop - rows.start, 1))
        yield rows, block


def hidden_marginals(model: BoltzmannMachine, codes: np.ndarray, hidden: np.ndarray) -> list[np.ndarray]:
    """P(x_i | the entries of each row outside ``hidden``), a (rows, q_i) array for each i in hidden."""
    sizes = model.space.sizes[hidden].tolist()
    out = [np.empty((len(codes), q)) for q in sizes]
    touching = _touching(model, hidden)
    for rows, block in completed(model, codes, hidden):
        p = softmax(-touching.energy_of_codes(block).reshape(rows.stop - rows.start, -1).T, axis=0)
        p = p.reshape(*sizes, -1)
        for j, table in enumerate(out):
            table[rows] = p.sum(axis=tuple(axis for axis in range(len(sizes)) if axis != j)).T
    return out


def _touching(model: BoltzmannMachine, hidden: np.ndarray) -> BoltzmannMachine:
    """The part of the energy that depends on the variables ``hidden``."""
    space, columns = model.space, model.columns
    inside = np.isin(np.arange(space.n_features), hidden)
    keep = [inside[space.site[columns.block(k)]].any(axis=1) for k in columns.orders]
    kept = Interactions.from_blocks([columns.block(k)[mine] for k, mine in zip(columns.orders, keep)], space.n_columns)
    weights = model.column_weights[np.concatenate([np.zeros(0, dtype=bool), *keep])]
    h, d = np.where(inside, model.h, 0.0), np.where(inside, model.d, 0.0)
    site = tuple(table if here else None for table, here in zip(model.site, inside))
    return BoltzmannMachine.from_parts(space, (h, d, site), kept, weights)
