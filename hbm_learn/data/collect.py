"""Collect: blocks of samples ──► power sums of the base functions, and counts of values.

The base functions of a variable are what is summed best: the powers of a number, the indicators of all labels but the
first. All other functions of a variable are linear in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hbm_learn._kernels import symmetric
from hbm_learn.data.chunks import Chunks
from hbm_learn.data.integer_coding import Coding
from hbm_learn.data.power_sums import PowerSums
from hbm_learn.data.reduce import reduce
from hbm_learn.data.samples import Samples
from hbm_learn.data.sums import block_sums, value_counts
from hbm_learn.data.tables import check_weights
from hbm_learn.space import Space
from hbm_learn.space.space import coding_functions

if TYPE_CHECKING:
    from hbm_learn.data.moments import Moments

# Entries of one block: bit planes like long blocks, and float64 values of a block should stay small.
_BLOCK_OF_CODES, _BLOCK_OF_VALUES = 2**24, 2**23


def base_space(space: Space) -> Space:
    """The same variables with their base functions, as many of a numeric variable as ``space`` has."""
    if space.is_numeric and space.is_coding:
        return space
    known: dict[tuple[int, Any], np.ndarray | None] = {}
    functions = []
    for alphabet, table in zip(space.alphabets, space.functions):
        key = (0 if table is None else table.shape[1], alphabet)
        if key not in known:
            known[key] = np.eye(alphabet.size)[:, 1:] if alphabet.is_nominal else coding_functions(alphabet, key[0])
        functions.append(known[key])
    for i, ends in space.anchors.items():
        functions[i] = np.array(ends)[:, None]
    return space.with_functions(functions)


def sum_blocks(samples: Samples, order: int) -> Iterable | Chunks:
    """Blocks to be summed to an order: all rows at once by their ones, where that is faster."""
    ones = samples.ones
    if ones is not None and ones.pays(order) and Coding.of(base_space(samples.space), order).is_of_ones:
        return [(ones, samples.weights)]
    entries = _BLOCK_OF_CODES if samples.space.has_codes else _BLOCK_OF_VALUES
    return samples.blocks(max(64, entries // samples.n_features // 64 * 64))


def collect(blocks: Iterable | Chunks, base: Space, order: int) -> tuple[PowerSums, np.ndarray | None]:
    """PowerSums of the functions of ``base`` up to ``order``, and (Σ q_i,) counts of values (None if continuous).

    Parameters
    ----------
    blocks : iterable of (block, weights), or Chunks
        As ``Samples.blocks`` gives them; at least one with a positive weight.
    """
    found = reduce(partial(_collected, Coding.of(base, order), order), blocks, whole=True)
    return found[0], found[1] if base.is_finite else None


def _collected(coding: Coding, order: int, block: tuple) -> list[Any]:
    """Sums of one block, and counts of values; nothing without weight."""
    codes, weights = block
    if weights is not None and not weights.any():
        return []
    part = block_sums(codes, weights, coding, order)
    return [part, _counts(codes, weights, coding, part) if coding.space.is_finite else 0]


def _counts(codes: np.ndarray, weights: np.ndarray | None, coding: Coding, sums: PowerSums) -> np.ndarray:
    """(Σ q_i,) of one block: read from the sums of y ∈ {0, 1} and y ∈ {−1, 0, 1}, else counted."""
    if sums.is_whole and coding.space.is_binary:
        return np.column_stack([int(sums.total) - sums.sums[0], sums.sums[0]]).ravel()
    if sums.is_whole and coding.planes is not None and coding.planes.signed:
        own = np.arange(sums.n_columns)
        first, second = sums.sums[0], sums.sums[1][symmetric.rank(np.column_stack([own, own]))]
        return np.column_stack([(second - first) // 2, int(sums.total) - second, (second + first) // 2]).ravel()
    return value_counts([(codes, weights)], coding.space)


def counts_of_powers(sums: PowerSums, space: Space) -> np.ndarray | None:
    """(Σ q_i,) counts of values that have moments ⟨x⟩, ⟨x²⟩, …; None where those do not determine them."""
    if not space.is_finite or space.sizes.max() > len(sums.sums) + 1:
        return None
    tables = []
    for i, alphabet in enumerate(space.alphabets):
        q = alphabet.size
        moments = [1.0, *(sums.raw(np.full((1, k), i))[0] for k in range(1, q))]
        tables.append(np.linalg.solve(np.vander(alphabet.nodes, q, increasing=True).T, moments))
    return sums.total * space.flat(tables)


def checked_blocks(
    blocks: Iterable, order: int, alphabet: Any, sample_weight: Any, options: dict[str, Any]
) -> Iterator[Samples]:
    """Samples of tables that come one after another, all in the space of the first; blocks without weight left out."""
    weights = None if sample_weight is None else check_weights(sample_weight, len(sample_weight))
    row = 0
    for block in blocks:
        samples = Samples.check(block, alphabet, order=order, first_row=row, allow_nan=True, **options)
        alphabet, options, end = "auto", {"space": samples.space}, row + samples.n_samples
        if weights is None:
            yield samples
        elif weights[row:end].any():
            yield samples.reweighted(weights[row:end])
        row = end
    if weights is not None and len(weights) != row:
        raise ValueError(f"sample_weight has {len(weights)} entries, but the blocks of X have {row} rows.")


def mergeable_names(a: Moments, b: Moments) -> list[str] | None:
    """The feature names of the sum of two Moments; ValueError if there is no such thing."""
    for what, mine, other in (
        ("variables", a.n_features, b.n_features),
        ("order", a.order, b.order),
        ("alphabet", a.alphabet, b.alphabet),
        ("functions", a.space, b.space),
    ):
        if mine != other:
            raise ValueError(
                f"moments of different {what} cannot be merged: {mine} and {other}. Compute both with the same "
                "columns, `order` and (explicit) `alphabet`."
            )
    if a.power_sums.is_exact or b.power_sums.is_exact:
        raise ValueError("exact moments (n_samples = inf) cannot be merged: they have no weight beside other samples.")
    names, others = a.feature_names, b.feature_names
    if names is None or others is None or names == others:
        return names or others
    i = next(i for i, (x, y) in enumerate(zip(names, others)) if x != y)
    raise ValueError(
        f"moments of different features cannot be merged: column {i} is {names[i]!r} in one and {others[i]!r} in the "
        "other."
    )
