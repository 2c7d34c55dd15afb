"""Threads for kernels that release the interpreter lock.

Threads of our own, and not numba's ``parallel=True``: numba's threading layers survive neither a fork nor a second
thread that starts a parallel kernel, and users run estimators in both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from hbm_learn._validation import check_jobs

_this = threading.local()


def in_threads(work: Callable[[Any], Any], parts: Iterable[Any], n_jobs: int | None = None) -> list[Any]:
    """[work(part) for part in parts], in ``n_jobs`` threads; None is as many as numba may use.

    Matrix products inside keep to their own thread: BLAS threads started by several of ours would fight for the cores.
    """
    parts, n_jobs = list(parts), check_jobs(n_jobs)
    n_threads = _numba_threads() if n_jobs is None else effective_n_jobs(n_jobs)
    if len(parts) < 2 or n_threads < 2 or getattr(_this, "is_one_of_many", False):
        return [work(part) for part in parts]
    with _libraries().limit(limits=1, user_api="blas"), ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, parts))


@contextmanager
def one_thread() -> Iterator[None]:
    """No threads are started from this one within: it is one of as many as there are cores."""
    before = getattr(_this, "is_one_of_many", False)
    _this.is_one_of_many = True
    try:
        yield
    finally:
        _this.is_one_of_many = before


def _numba_threads() -> int:
    from numba import config  # not before kernels run: it takes as long to import as the rest of the package

    return int(config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def row_parts(n_rows: int, n_operations: int) -> list[slice]:
    """Slices of the rows, one for all if the work is small (under about 10⁶ operations), eight otherwise."""
    n_parts = 1 if n_operations < 10**6 else min(8, n_rows)
    edges = [n_rows * part // n_parts for part in range(n_parts + 1)]
    return [slice(lo, hi) for lo, hi in pairwise(edges)]


# Matrices with fewer rows than this gain little from a second BLAS thread, and on a busy machine lose a lot to it.
_SMALL_MATRIX = 2048


@contextmanager
def blas_for(n_rows: int) -> Iterator[None]:
    """One BLAS thread within if the matrices are small; as many as there are otherwise."""
    if n_rows >= _SMALL_MATRIX:
        yield
        return
    with _libraries().limit(limits=1, user_api="blas"):
        yield
