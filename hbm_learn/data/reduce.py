"""Reduce: sums over blocks of rows, each block's shares in threads, added in one order.

Objectives, moments and scores are such sums. How a block is cut depends on its size alone, so that nothing depends on
the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hbm_learn._threads import in_threads, row_parts

# Arrays over the same rows; None stays None.
Block = tuple[Any, ...]


def reduce(
    work: Callable[[Block], Sequence[Any]], blocks: Iterable[Block], n_jobs: int | None = None, cost: int = 1
) -> list[Any]:
    """Σ work(share) over the shares of all blocks, entry by entry.

    Parameters
    ----------
    work : callable
        (codes, weights, …) of a few rows → a sequence of arrays or numbers, the same for each share.
    blocks : iterable of tuples
        Arrays with the same number of rows, such as ``Samples.blocks()`` or ``Rows.blocks()``.
    n_jobs : int, optional
        Threads; as many as numba may use by default.
    cost : int
        Operations an entry of the first array: small work is not shared among threads.
    """
    total: list[Any] | None = None
    for block in blocks:
        first = block[0]
        parts = row_parts(len(first), first.size * cost)
        shares = [tuple(None if array is None else array[part] for array in block) for part in parts]
        for found in in_threads(work, shares, n_jobs):
            total = list(found) if total is None else [a + b for a, b in zip(total, found)]
    if total is None:
        raise ValueError("there are no rows to sum over.")
    return total
