"""Rows: samples as weighted blocks for objectives that are averages over rows.

Equal rows are counted once, with their weights added, where that halves the work; blocks are read anew at each pass, so
that data larger than memory takes the same path. Those of a dask table are Chunks, cut by the workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np

from hbm_learn.data.chunks import Chunks
from hbm_learn.data.ones import Ones
from hbm_learn.data.reduce import reduce
from hbm_learn.data.samples import Samples
from hbm_learn.data.sums import value_counts
from hbm_learn.space import MISSING, Space

# Rows whose entries number more than this are never held twice.
_MAX_GROUPED = 2**27

# Entries of a block of codes: each is cut into shares, whose sums may be as large as a thousand rows of wide tables.
_BLOCK_OF_CODES = 2**25

# Entries of a block, at least, of every so many rows of a dask table: small tasks cost more than they do.
_LEAST_ENTRIES = 2**18

# codes (R, n), weights w / Σ w (R,)
Block = tuple[Any, np.ndarray]


class Rows:
    """Blocks of codes, or Ones where that is how they are held, with weights that sum to 1.

    Attributes
    ----------
    space : Space
    n_features : int
    n_rows : int
        Distinct rows if they are grouped, all rows otherwise.
    n_samples : float
        Σ w, the number of samples that errors and priors see: weights count repeated rows.
    """

    def __init__(self, samples: Samples):
        self.space = samples.space
        self.n_features = samples.n_features
        self._samples = samples
        self.n_samples = float(samples.n_samples if samples.weights is None else samples.weights.sum())
        self._grouped = _group(samples) if samples.space.has_codes else None
        self.n_rows = samples.n_samples if self._grouped is None else len(self._grouped[0])

    def blocks(
        self, stride: int = 1, offset: int = 0, among: np.ndarray | Chunks | None = None, n_bytes: int = 0
    ) -> Iterable[Block] | Chunks:
        """Every row, or every ``stride``-th one from an offset; the weights sum to about 1 in either case.

        Rows are counted from the first of all, so that which are taken does not depend on how they are cut.

        Parameters
        ----------
        stride, offset : int
        among : (n_rows,) bool array, Chunks or None
            Only of these rows: the weights sum to about their share. Chunks where the rows are.
        n_bytes : int
            What would come here of work on the rows of a dask table: some of them come themselves if they are fewer.
        """
        if self._numbered is None:
            return self._here(stride, offset, among)
        chunks = self._numbered if among is None else self._numbered.beside_chunks(among)  # type: ignore[arg-type]
        some, sizes, starts = chunks.then(partial(_some, stride, offset, self.n_samples)), chunks.sizes, chunks.starts
        if stride == 1 and among is None:
            return some
        sizes = tuple(len(range((offset - lo) % stride, size, stride)) for lo, size in zip(starts, sizes))
        some = some.merged(sizes, _LEAST_ENTRIES // self.n_features)
        if self._n_rows_among(sizes, among) * (self.n_features + 8) > n_bytes:
            return some
        return [tuple(np.concatenate(arrays) for arrays in zip(*some.each(tuple)))]  # type: ignore[list-item]

    @staticmethod
    def _n_rows_among(sizes: tuple[int, ...], among: Any) -> int:
        """How many of so many rows there are at most among some."""
        if among is None:
            return sum(sizes)
        return min(sum(sizes), *reduce(_count, among))

    @property
    def ones(self) -> Ones | None:
        """The rows, where they are held by their ones."""
        return self._samples.ones if self._grouped is None else self._grouped[0] if self._is_ones else None

    @property
    def _is_ones(self) -> bool:
        return self._grouped is not None and isinstance(self._grouped[0], Ones)

    @cached_property
    def _numbered(self) -> Chunks | None:
        """(codes, weights, number of the first row) of the chunks of a dask table."""
        whole = self._samples.blocks()
        return whole.beside(whole.starts).kept() if isinstance(whole, Chunks) else None

    def _here(self, stride: int, offset: int, among: np.ndarray | Chunks | None) -> Iterator[Block]:
        first = 0
        for codes, w in self._whole():
            mine = [] if among is None else [among[first : first + len(codes)]]  # type: ignore[index]
            kept = _some(stride, offset, self.n_samples, (codes, w, first, *mine))
            first += len(codes)
            if len(kept[0]):
                yield kept

    def _whole(self) -> Iterator[Block]:
        if self._grouped is not None:
            yield self._grouped
            return
        if self.ones is not None:
            yield self.ones, np.ones(len(self.ones)) if self._samples.weights is None else self._samples.weights
            return
        at_once = max(64, _BLOCK_OF_CODES // self.n_features) if self.space.has_codes else None
        for codes, weights in self._samples.blocks(at_once):
            w = np.ones(len(codes)) if weights is None else weights
            yield codes, w

    @cached_property
    def frequencies(self) -> list[np.ndarray]:
        """For each variable the (q_i,) weighted share of each of its values among what is not missing."""
        counts = value_counts(self.blocks(), self.space)
        return [mine / max(mine.sum(), 1e-300) for mine in self.space.by_site(counts)]

    def mean(self, space: Space | None = None) -> np.ndarray:
        """(N,) ⟨φ_c⟩ of the functions of a space on the same values; by default of the samples' own."""
        return np.concatenate([p @ table for p, table in self._functions(space)])

    def variance(self, space: Space | None = None) -> np.ndarray:
        """(N,) ⟨φ_c²⟩ − ⟨φ_c⟩², summed about the mean."""
        return np.concatenate([p @ (table - p @ table) ** 2 for p, table in self._functions(space)])

    def _functions(self, space: Space | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for p, table in zip(self.frequencies, (space or self.space).functions):
            assert table is not None  # frequencies are those of finite values
            yield p, table


def _count(mask: Any) -> list[int]:
    return [int(mask.sum())]


def _some(stride: int, offset: int, n_samples: float, block: tuple) -> Block:
    """Every ``stride``-th row of a block that begins at row lo of those that are counted; weights sum to about 1."""
    codes, w, lo, *among = block
    w = np.ones(len(codes)) if w is None else w
    kept = slice((offset - lo) % stride, None, stride)
    codes, w = codes[kept], w[kept]
    for mine in among:
        codes, w = codes[mine[kept]], w[mine[kept]]
    return codes, w * (stride / n_samples)


def _group(samples: Samples) -> Block | None:
    """Distinct rows with their weights added, in an order that has nothing to do with their values; None if most rows
    occur once, or a row does not fit a 63-bit key and is not held by its ones, or they are not here."""
    if samples.stays:
        return None
    sizes = [int(q) + samples.allow_nan for q in samples.space.sizes]
    n_states = prod(sizes)
    if n_states >= 2**63 or samples.n_samples * len(sizes) > _MAX_GROUPED or n_states > 4 * samples.n_samples**2:
        return _grouped_ones(samples)
    strides = np.concatenate([[1], np.cumprod(sizes[:-1], dtype=np.int64)]).astype(np.int64)
    blocks = list(samples.blocks())
    keys = np.concatenate([_filled(codes, samples) @ strides for codes, _ in blocks])
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    if 2 * len(first) > samples.n_samples:
        return None
    w = np.ones(len(keys)) if samples.weights is None else samples.weights
    codes = np.concatenate([codes for codes, _ in blocks])[first]
    shuffled = np.random.default_rng(0).permutation(len(first))  # so that a stride is a random subset
    return codes[shuffled], np.bincount(inverse, w)[shuffled]


def _grouped_ones(samples: Samples) -> Block | None:
    ones = samples.ones
    if ones is None or 2 * ones.n_distinct > len(ones):
        return None
    distinct, w = ones.distinct(samples.weights)
    shuffled = np.random.default_rng(0).permutation(len(w))
    return distinct[shuffled], w[shuffled]


def _filled(codes: np.ndarray, samples: Samples) -> np.ndarray:
    """Codes with missing entries as one more value."""
    return np.where(codes == MISSING, samples.space.sizes, codes) if samples.allow_nan else codes
