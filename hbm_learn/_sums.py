"""Sums of products over one block of samples, S_k = Σ_rows w Π y, packed as in ``_kernels.symmetric``, k = 1 … order.

The variable is y = (x − shift) / scale, chosen so that few-valued data has small integer y: their sums are then exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

import numpy as np

from hbm_learn._kernels import bits
from hbm_learn._kernels.symmetric import multisets, packed_size, rank
from hbm_learn._threads import in_threads
from hbm_learn.alphabet import Alphabet

# |y|^order up to here keeps Σ over 2³¹ rows within int64, and over 2²¹ rows exact in float64.
MAX_INTEGER = 2**32
# Whole numbers up to this are summed exactly even on the real line, to order 2.
MAX_WHOLE = 2**15
# B bit planes cost B^order popcounts a word: beyond this a BLAS product is faster.
_MAX_CONJUNCTIONS = 64
# Words taken at a time: one plane is 8 KiB.
_WIDTH = 1024


@dataclass(frozen=True, eq=False)
class Coding:
    """How the letters of an alphabet become y: x = shift + scale · y.

    Attributes
    ----------
    shift, scale : numbers.
    centred : shift each block by its mean instead, unless it is small whole numbers ("real").
    table : (q,) y of each code, integers where exact sums are possible; None when there are no codes.
    patterns, plane_weights : (256,) bits of each code, and (B,) w_b with y = Σ_b w_b bit_b; None without bit planes.
    """

    shift: float
    scale: float
    centred: bool = False
    table: np.ndarray | None = None
    patterns: np.ndarray | None = None
    plane_weights: np.ndarray | None = None

    @property
    def is_integer(self) -> bool:
        return self.table is not None and self.table.dtype.kind == "i"

    @classmethod
    def of(cls, alphabet: Alphabet, order: int) -> Coding:
        if alphabet.kind == "real":
            return cls(0.0, 1.0, centred=True)
        low, high = alphabet.bounds
        if alphabet.kind == "interval":
            return cls(0.5 * (low + high), 0.5 * (high - low))
        x, q = alphabet.nodes, alphabet.size
        step = (high - low) / (q - 1)
        if np.allclose(x, low + step * np.arange(q), rtol=1e-15, atol=1e-15 * max(abs(low), abs(high))):
            n_planes = (q - 1).bit_length()
            return cls(low, step, table=np.arange(q))._with_planes(np.arange(q), 1 << np.arange(n_planes), order)
        whole = bool((x == np.rint(x)).all()) and (high - low) ** order <= MAX_INTEGER
        table = (x - low).astype(np.int64) if whole else x - low
        indicators = np.concatenate([[0], 1 << np.arange(min(q - 1, 8))])
        return cls(low, 1.0, table=table)._with_planes(indicators, table[1:], order)

    def _with_planes(self, patterns: np.ndarray, weights: np.ndarray, order: int) -> Coding:
        if len(weights) ** order > _MAX_CONJUNCTIONS:
            return self
        padded = np.zeros(256, dtype=np.uint8)
        padded[: len(patterns)] = patterns
        return replace(self, patterns=padded, plane_weights=weights)


def block_sums(
    block: np.ndarray, weights: np.ndarray | None, coding: Coding, order: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """[S_1, …, S_order] of one block, and the (n,) shift that they are about.

    ``block`` holds uint8 codes (m, n) where ``coding`` has a table, values (m, n) otherwise.
    """
    n = block.shape[1]
    shift = np.full(n, coding.shift)
    planes = None if coding.plane_weights is None else _weight_planes(weights)
    if planes is not None:
        parts = [[factor * S for S in _bit_sums(block[rows], coding, order)] for factor, rows in planes]
        return [reduce(np.add, sums) for sums in zip(*parts)], shift
    exact = coding.is_integer
    if coding.table is not None:
        Y = coding.table.astype(np.float64)[block]
    elif coding.centred:
        exact = bool((np.abs(block) <= MAX_WHOLE).all() and (block == np.rint(block)).all())
        shift = np.zeros(n) if exact else block.mean(axis=0)
        Y = block - shift
    else:
        Y = (block - coding.shift) / coding.scale
    sums = blas_sums(Y, weights, order)
    return [np.rint(S).astype(np.int64) for S in sums] if exact and weights is None else sums, shift


def _weight_planes(weights: np.ndarray | None) -> list[tuple[int | float, np.ndarray | slice]] | None:
    """[(factor, rows)] with Σ_rows w f = Σ_planes factor Σ_{rows of the plane} f; None if it takes more than 16.

    Bits carry no weights: whole-number weights are taken bit by bit, others one distinct value at a time.
    """
    if weights is None:
        return [(1, slice(None))]
    distinct = np.unique(weights)
    if distinct[-1] < 2**16 and (distinct == np.rint(distinct)).all():
        integers = weights.astype(np.int64)
        return [(1 << b, (integers >> b & 1).astype(bool)) for b in range(max(1, int(distinct[-1]).bit_length()))]
    if len(distinct) > 16:
        return None
    return [(float(w), weights == w) for w in distinct]


# ---------------------------------------------------------------------- packed bits


def _bit_sums(codes: np.ndarray, coding: Coding, order: int) -> list[np.ndarray]:
    assert coding.patterns is not None
    assert coding.plane_weights is not None
    w, n = coding.plane_weights, codes.shape[1]
    planes = _pack(codes, coding.patterns, len(w))
    return [_bit_sum(planes, w, n, k) for k in range(1, order + 1)]


def _bit_sum(planes: np.ndarray, w: np.ndarray, n: int, k: int) -> np.ndarray:
    """S_k: for each head j₁ ≤ … ≤ j_{k−1}, the sums with i ≤ j₁ are consecutive, from the rank of (0, j₁, …)."""
    heads = multisets(n, k - 1)
    starts = rank(np.column_stack([np.zeros(len(heads), dtype=np.int64), heads]))
    head_weights = reduce(np.multiply.outer, [w] * (k - 1), np.ones(1, dtype=w.dtype)).ravel()
    out = np.zeros(packed_size(n, k), dtype=w.dtype)

    def work(part: slice) -> None:
        mine, where = np.ascontiguousarray(heads[part]), np.ascontiguousarray(starts[part])
        bits.add_products(planes, w, head_weights, mine, where, _WIDTH, out)

    in_threads(work, [slice(first, None, 16) for first in range(16)])  # strided, for parts of equal cost
    return out


def _pack(codes: np.ndarray, patterns: np.ndarray, n_planes: int) -> np.ndarray:
    """(n, B, W) bit planes of (m, n) codes, W = ⌈m/64⌉."""
    n_words = -(-len(codes) // 64)
    planes = np.empty((codes.shape[1], n_planes, n_words), dtype=np.uint64)
    codes = np.ascontiguousarray(codes)
    edges = np.linspace(0, n_words, 9).astype(int)
    in_threads(lambda e: bits.pack(codes, patterns, n_planes, planes, e[0], e[1]), pairwise(edges))
    return planes


# ---------------------------------------------------------------------- BLAS


def blas_sums(Y: np.ndarray, weights: np.ndarray | None, order: int) -> list[np.ndarray]:
    """[S_1, …, S_order] of (m, n) float64 values, by products of Y with Y times the other factors."""
    n = Y.shape[1]
    ones = np.ones(len(Y)) if weights is None else weights
    sums = [ones @ Y]
    for k in range(2, order + 1):
        out = np.empty(packed_size(n, k))
        end = 0
        for head, factor in _tails(Y, ones, k - 2, n):
            # Given the k − 2 largest members, the sums over i ≤ j ≤ head are consecutive.
            begin, end = end, end + packed_size(head, 2)
            left = Y[:, :head]
            G = (left.T * factor) @ left if k > 2 or weights is not None else left.T @ left
            out[begin:end] = G[np.tril_indices(head)]
        sums.append(out)
    return sums


def _tails(Y: np.ndarray, factor: np.ndarray, depth: int, n: int) -> Iterator[tuple[int, np.ndarray]]:
    """(bound, w Π y) over the ``depth`` largest members, each at most the next, in the order of the ranks."""
    if depth == 0:
        yield n, factor
        return
    for last in range(n):
        yield from _tails(Y, factor * Y[:, last], depth - 1, last + 1)
