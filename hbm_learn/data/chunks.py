"""Chunks: blocks of rows that stay on the workers of dask, where work is done on them; what is small comes back.

A step is a function of one block. Steps are noted when they are asked for, and done together, one task a chunk, when
something is to be known. Whatever scheduler is active does them: threads, or a ``distributed`` Client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any
from uuid import uuid4

import numpy as np

from hbm_learn._threads import blas_for, one_thread

# So many results are added in one task.
_ADDED = 8
# What is kept in this process, where dask has no workers of its own, is at most so many bytes.
MAX_KEPT_BYTES = 2**28


@dataclass(frozen=True, eq=False)
class Chunks:
    """Blocks of rows, each a dask task.

    Attributes
    ----------
    nodes : tuple of Delayed
    sizes : tuple of int
        Rows of each.
    steps : tuple of callables
        What is to be done with each, one after another.
    max_rows : int or None
        Rows that ``reduce`` works on together, of blocks that are arrays; all of them by default.
    is_kept : bool
        Whether the nodes are held by the workers, rather than made anew each time.
    """

    nodes: tuple[Any, ...]
    sizes: tuple[int, ...]
    steps: tuple[Callable[[Any], Any], ...] = ()
    max_rows: int | None = None
    is_kept: bool = False

    @property
    def n_rows(self) -> int:
        return sum(self.sizes)

    @property
    def starts(self) -> list[int]:
        """The number of the first row of each."""
        return np.cumsum([0, *self.sizes])[:-1].tolist()

    def __iter__(self) -> Iterator[Any]:
        raise ValueError(
            f"X is a dask table of {self.n_rows} rows, which are not brought here, and this needs them here: give a "
            "part of it that memory holds, such as X[:100_000].compute() of an array or X.head(100_000) of a frame."
        )

    def __reduce__(self) -> Any:
        # Work that is sent to the workers must not take along where their rows come from.
        return Chunks, ((), ())

    # ------------------------------------------------------------------ what is to be done

    def then(self, step: Callable[[Any], Any]) -> Chunks:
        """step(block) in place of each block."""
        return replace(self, steps=(*self.steps, step), max_rows=None)

    def beside(self, values: Sequence[Any]) -> Chunks:
        """(\\*block, value), with one value for each block: anything, or Delayed."""
        joined = _delayed(_joined)
        nodes = tuple(joined(node, value) for node, value in zip(self.tasks(), values))
        return replace(self, nodes=nodes, steps=(), is_kept=False, max_rows=None)

    def beside_chunks(self, other: Chunks) -> Chunks:
        """(\\*block, what the other has there)."""
        return self.beside(other.tasks())

    def merged(self, sizes: Sequence[int], least: int) -> Chunks:
        """Tuples of arrays stacked, so that each block but the last has at least so many rows; ``sizes`` they have."""
        edges, rows = [0], 0
        for k, size in enumerate(sizes, start=1):
            rows += size
            if rows >= least or k == len(sizes):
                edges, rows = [*edges, k], 0
        if len(edges) > len(self.nodes):
            return self
        done, stacked = self.tasks(), _delayed(_stacked)
        nodes = tuple(stacked(list(done[lo:hi])) for lo, hi in pairwise(edges))
        return Chunks(nodes, tuple(sum(sizes[lo:hi]) for lo, hi in pairwise(edges)))

    def kept(self, n_bytes: int = 0) -> Chunks:
        """The same, made now and held by the workers; if they die, dask makes it again from where it came.

        Where workers have no memory of their own it is held here, if it is at most MAX_KEPT_BYTES, or not at all.
        """
        import dask

        if self.is_kept and not self.steps:
            return self
        if not _has_workers() and (_is_multiprocessing() or n_bytes > MAX_KEPT_BYTES):
            return self
        with _settings():
            nodes = dask.persist(*self.tasks(), traverse=False)
        return replace(self, nodes=tuple(nodes), steps=(), is_kept=True)

    def tasks(self) -> list[Any]:
        if not self.steps:
            return list(self.nodes)
        do, steps = _delayed(_do), _sent(self.steps)
        return [do(node, steps) for node in self.nodes]

    def as_array(self) -> Any:
        """The dask array of blocks that are vectors of float64, one number a row."""
        import dask.array as da

        parts = zip(self.tasks(), self.sizes)
        return da.concatenate([da.from_delayed(node, (size,), np.float64) for node, size in parts])

    # ------------------------------------------------------------------ what comes back

    def each(self, work: Callable[[Any], Any]) -> list[Any]:
        """[work(block) for every block], in order: for what is small. The first ValueError of theirs is raised."""
        found = _computed(self.then(partial(_or_error, work)).tasks())
        for each in found:
            if isinstance(each, ValueError):
                raise each
        return found

    def total(self, work: Callable[[Any], Any], add: Callable[[Any, Any], Any], last: Callable[[Any], Any]) -> Any:
        """last(Σ work(block)) of all blocks, added on the workers, some neighbours at a time: one result comes here.

        How they are taken together depends on the number of blocks alone. None counts for nothing.
        """
        nodes, added, together = self.then(work).tasks(), _delayed(_added), _sent(add)
        while len(nodes) > 1:
            nodes = [added(nodes[lo : lo + _ADDED], together) for lo in range(0, len(nodes), _ADDED)]
        return _computed([_delayed(last)(nodes[0])])[0] if nodes else None


# ---------------------------------------------------------------------- on the workers


def _do(block: Any, steps: tuple[Callable[[Any], Any], ...]) -> Any:
    with one_thread():  # dask has as many tasks at a time as there are cores
        for step in steps:
            block = step(block)
        return block


def _or_error(work: Callable[[Any], Any], block: Any) -> Any:
    """What is wrong is told as a result, so that it is the first row's and not the fastest worker's."""
    try:
        return work(block)
    except ValueError as error:
        return error


def _joined(block: tuple, value: Any) -> tuple:
    return (*block, value)


def _stacked(blocks: list[tuple]) -> tuple:
    return tuple(np.concatenate(arrays) for arrays in zip(*blocks))


def _added(found: list[Any], add: Callable[[Any, Any], Any]) -> Any:
    total = None
    for each in found:
        if each is not None:
            total = each if total is None else add(total, each)
    return total


# ---------------------------------------------------------------------- dask


def _delayed(function: Callable) -> Any:
    """The function as a maker of tasks, whose names are made up: the hash of what they take would read it all."""
    from dask import delayed

    return delayed(function, pure=False, traverse=False)


def _sent(value: Any) -> Any:
    """A value that several tasks take, sent once."""
    from dask import delayed

    return delayed(value, name=f"sent-{uuid4().hex}", traverse=False)


def _computed(nodes: Sequence[Any]) -> list[Any]:
    import dask

    with _settings():
        return list(dask.compute(*nodes, traverse=False))


@contextmanager
def _settings() -> Iterator[None]:
    """Parameters of a large model go with the tasks, and need no advice; threads here have one BLAS thread each."""
    import dask

    # Only where it is imported: its defaults would go with what is set before they are there.
    advice = {"distributed.admin.large-graph-warning-threshold": "1 TB"} if _has_workers() else {}
    with dask.config.set(advice), blas_for(0):
        yield


def _scheduler() -> Any:
    from dask.base import get_scheduler

    return get_scheduler()


def _has_workers() -> bool:
    """Whether a Client is active, whose workers keep what is asked of them."""
    return hasattr(getattr(_scheduler(), "__self__", None), "scheduler_info")


def _is_multiprocessing() -> bool:
    """Whether processes are started for each call, and everything comes back here."""
    return "multiprocessing" in getattr(_scheduler(), "__module__", "")
