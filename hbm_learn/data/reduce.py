"""Reduce: sums over blocks of rows, each block's shares in threads, added in one order; here, or where dask has them.

Objectives, moments and scores are such sums. How a block is cut depends on its size alone, so that nothing depends on
the number of threads or workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from hbm_learn._threads import in_threads, row_parts
from hbm_learn.data.chunks import Chunks

# Arrays over the same rows; None stays None.
Block = tuple[Any, ...]


def reduce(
    work: Callable[[Block], Sequence[Any]],
    blocks: Iterable[Block] | Chunks,
    n_jobs: int | None = None,
    cost: int = 1,
    whole: bool = False,
    last: Callable[[list[Any]], Any] = list,
) -> Any:
    """Σ work(share) over the shares of all blocks, entry by entry.

    Parameters
    ----------
    work : callable
        (codes, weights, …) of a few rows → a sequence of arrays, numbers or whatever can be added, the same for each
        share; nothing where a share has nothing to say.
    blocks : iterable of tuples, or Chunks
        Arrays with the same number of rows, such as ``Samples.blocks()`` or ``Rows.blocks()``. Chunks are summed by
        the workers that have them, and only the sum comes here; work is sent there, and must not hold rows.
    n_jobs : int, optional
        Threads here; as many as numba may use by default.
    cost : int
        Operations an entry of the first array: small work is not shared among threads.
    whole : bool
        Work has threads of its own, and takes blocks as they are.
    last : callable
        What is asked of the sum, where it is: all of it by default.
    """
    if isinstance(blocks, Chunks):
        total = blocks.total(partial(_pieces, work, blocks.max_rows), _plus, partial(_if_any, last))
    else:
        total = None
        for block in blocks:
            parts = [slice(None)] if whole else row_parts(len(block[0]), block[0].size * cost)
            shares = [tuple(None if array is None else array[part] for array in block) for part in parts]
            for found in in_threads(work, shares, n_jobs):
                total = _plus(total, found)
        total = _if_any(last, total)
    if total is None:
        raise ValueError("there are no rows to sum over.")
    return total


def each(work: Callable[[Block], Any], blocks: Iterable[Block] | Chunks) -> Iterable[Any]:
    """work(block) for every block, in order: for results that cannot be added, and are small."""
    return blocks.each(work) if isinstance(blocks, Chunks) else map(work, blocks)


def _pieces(work: Callable[[Block], Sequence[Any]], max_rows: int | None, block: Any) -> list[Any] | None:
    """Σ work over a block that a worker has, so many rows at a time."""
    if max_rows is None:
        return _plus(None, work(block))
    total = None
    for lo in range(0, len(block[0]), max_rows):
        part = slice(lo, lo + max_rows)
        total = _plus(total, work(tuple(None if array is None else array[part] for array in block)))
    return total


def _if_any(last: Callable[[list[Any]], Any], total: list[Any] | None) -> Any:
    return None if total is None else last(total)


def _plus(total: list[Any] | None, found: Sequence[Any] | None) -> list[Any] | None:
    if not found:
        return total
    return list(found) if total is None else [a + b for a, b in zip(total, found)]
