"""Threads for kernels that release the interpreter lock.

Threads of our own, and not numba's ``parallel=True``: numba's threading layers survive neither a fork nor a second
thread that starts a parallel kernel, and users run estimators in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

from numba import config


def in_threads(work: Callable[[Any], Any], parts: Iterable[Any]) -> list[Any]:
    """[work(part) for part in parts], in as many threads as numba may use."""
    parts = list(parts)
    if len(parts) < 2 or config.NUMBA_NUM_THREADS < 2:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(config.NUMBA_NUM_THREADS) as pool:
        return list(pool.map(work, parts))


def row_parts(n_rows: int, n_operations: int) -> list[slice]:
    """Slices of the rows, one for all if the work is small (under about 10⁶ operations), eight otherwise."""
    n_parts = 1 if n_operations < 10**6 else min(8, n_rows)
    edges = [n_rows * part // n_parts for part in range(n_parts + 1)]
    return [slice(lo, hi) for lo, hi in pairwise(edges)]
