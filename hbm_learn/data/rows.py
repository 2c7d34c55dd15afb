"""Rows: samples as weighted blocks for objectives that are averages over rows.

Equal rows are counted once, with their weights added, where that halves the work; blocks are read anew at each pass, so
that data larger than memory takes the same path.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from hbm_learn.data.samples import Samples
from hbm_learn.space import Alphabet

# Rows whose entries number more than this are never held twice.
_MAX_GROUPED = 2**27

# codes (R, n), weights w / Σ w (R,)
Block = tuple[np.ndarray, np.ndarray]


class Rows:
    """Blocks of codes with weights that sum to 1.

    Attributes
    ----------
    n_rows : distinct rows if they are grouped, all rows otherwise.
    n_samples : Σ w, the number of samples that errors and priors see: weights count repeated rows.
    """

    def __init__(self, samples: Samples):
        self.alphabet: Alphabet = samples.alphabet
        self.n_features = samples.n_features
        self._samples = samples
        self.n_samples = float(samples.n_samples if samples.weights is None else samples.weights.sum())
        self._grouped = _group(samples)
        self.n_rows = samples.n_samples if self._grouped is None else len(self._grouped[0])

    def blocks(self, stride: int = 1, offset: int = 0) -> Iterator[Block]:
        """Every row, or every ``stride``-th one from an offset; the weights sum to about 1 in either case."""
        kept = slice(offset % stride, None, stride)
        for codes, w in self._whole():
            if offset % stride < len(codes):
                yield codes[kept], w[kept] * (stride / self.n_samples)

    def _whole(self) -> Iterator[Block]:
        if self._grouped is not None:
            yield self._grouped
            return
        for codes, weights in self._samples.blocks():
            w = np.ones(len(codes)) if weights is None else weights
            yield codes, w

    @cached_property
    def frequencies(self) -> np.ndarray:
        """(n, q) weighted share of each value of the alphabet in each column."""
        out = np.zeros((self.n_features, self.alphabet.size))
        for codes, w in self.blocks():
            for a in range(self.alphabet.size):
                out[:, a] += w @ (codes == a)
        return out

    @property
    def mean(self) -> np.ndarray:
        """(n,) ⟨x_i⟩."""
        return self.frequencies @ self.alphabet.nodes

    @property
    def variance(self) -> np.ndarray:
        """(n,) ⟨x_i²⟩ − ⟨x_i⟩²."""
        return np.maximum(self.frequencies @ self.alphabet.nodes**2 - self.mean**2, 0.0)


def _group(samples: Samples) -> Block | None:
    """Distinct rows with their weights added, in an order that has nothing to do with their values; None if most rows
    occur once, or a row does not fit a 63-bit key."""
    q, n = samples.alphabet.size, samples.n_features
    if q**n >= 2**63 or samples.n_samples * n > _MAX_GROUPED or q**n > 4 * samples.n_samples**2:
        return None
    powers = np.array([q**j for j in range(n)], dtype=np.int64)
    blocks = list(samples.blocks())
    keys = np.concatenate([codes @ powers for codes, _ in blocks])
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    if 2 * len(first) > samples.n_samples:
        return None
    w = np.ones(len(keys)) if samples.weights is None else samples.weights
    codes = np.concatenate([codes for codes, _ in blocks])[first]
    shuffled = np.random.default_rng(0).permutation(len(first))  # so that a stride is a random subset
    return codes[shuffled], np.bincount(inverse, w)[shuffled]
