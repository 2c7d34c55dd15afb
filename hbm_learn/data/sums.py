"""Sums of products over one block of samples, S_k = Σ_rows w Π y, packed as in ``_kernels.symmetric``, k = 1 … order.

The variable is y = (x − shift) / scale, chosen so that few-valued data has small integer y: their sums are then exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

import numpy as np

from hbm_learn._kernels import bits
from hbm_learn._kernels.symmetric import multisets, packed_size, rank
from hbm_learn._threads import in_threads
from hbm_learn.data.power_sums import PowerSums
from hbm_learn.space import Alphabet

# |y|^order up to here keeps Σ over 2³¹ rows within int64, and over 2²¹ rows exact in float64.
MAX_INTEGER = 2**32
# Whole numbers up to this are summed exactly even on the real line, to order 2.
MAX_WHOLE = 2**15
# B bit planes cost B^order popcounts a word: beyond this a BLAS product is faster.
_MAX_CONJUNCTIONS = 32
# Words taken at a time: one plane is 8 KiB.
_WIDTH = 1024
# Popcounts below which threads cost more than they save.
_SMALL = 2**24
# Entries of Y in one BLAS product: 512 KiB stay in cache while they are multiplied by every factor.
_BLAS_ENTRIES = 2**16
# Sums are held once for each part of the rows while they have at most this many entries.
_MAX_SHARED = 2**23


@dataclass(frozen=True, eq=False)
class Coding:
    """How the letters of an alphabet become y: x = shift + scale · y.

    Attributes
    ----------
    shift, scale : numbers.
    centred : shift each block by its mean instead, unless it is small whole numbers ("real").
    table : (q,) y of each code, integers where exact sums are possible; None when there are no codes.
    patterns, plane_weights : (256,) bits of each code, and (B,) w_b with y = Σ_b w_b bit_b; None without bit planes.
    signed : y ∈ {−1, 0, 1} with planes "not zero" and "negative", for which there is a kernel of its own.
    """

    shift: float
    scale: float
    centred: bool = False
    table: np.ndarray | None = None
    patterns: np.ndarray | None = None
    plane_weights: np.ndarray | None = None
    signed: bool = False

    @property
    def largest(self) -> float:
        """A bound on |y| where y is an integer."""
        return MAX_WHOLE if self.table is None else float(self.table[-1])

    def decoded(self, block: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        """(m, n) float64 y of a block, the (n,) shift that it is about, and whether y is whole."""
        n = block.shape[1]
        if self.table is not None:
            return np.take(self.table.astype(np.float64), block), np.full(n, self.shift), self.table.dtype.kind == "i"
        if not self.centred:
            return (block - self.shift) / self.scale, np.full(n, self.shift), False
        if (np.abs(block) <= MAX_WHOLE).all() and (block == np.rint(block)).all():
            return block, np.zeros(n), True
        shift = block.mean(axis=0)
        return block - shift, shift, False

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
            if q == 3:
                ternary = cls(x[1], step, table=np.arange(-1, 2), signed=True)
                return ternary._with_planes(np.array([0b11, 0b00, 0b01]), np.array([1, -2]), order)
            n_planes = (q - 1).bit_length()
            return cls(low, step, table=np.arange(q))._with_planes(np.arange(q), 1 << np.arange(n_planes), order)
        whole = bool((x == np.rint(x)).all()) and high - low <= MAX_INTEGER ** (1 / order)
        scale, table = (1.0, (x - low).astype(np.int64)) if whole else (high - low, (x - low) / (high - low))
        return cls(low, scale, table=table)._with_planes((1 << np.arange(q)) >> 1, table[1:], order)

    def _with_planes(self, patterns: np.ndarray, weights: np.ndarray, order: int) -> Coding:
        if len(weights) ** order > _MAX_CONJUNCTIONS:
            return self
        padded = np.zeros(256, dtype=np.uint8)
        padded[: len(patterns)] = patterns
        return replace(self, patterns=padded, plane_weights=weights)


def block_sums(block: np.ndarray, weights: np.ndarray | None, coding: Coding, order: int) -> PowerSums:
    """PowerSums to ``order`` of one block: uint8 codes (m, n) where ``coding`` has a table, values (m, n) otherwise."""
    total = len(block) if weights is None else weights.sum()
    planes = None if coding.plane_weights is None else _weight_planes(weights)
    if planes is not None:
        parts = [[factor * S for S in _bit_sums(block[rows], coding, order)] for factor, rows in planes]
        sums, shift, exact = [reduce(np.add, S) for S in zip(*parts)], np.full(block.shape[1], coding.shift), False
    else:
        Y, shift, exact = coding.decoded(block)
        sums = blas_sums(Y, weights, order)
    if exact and weights is None:
        sums = [np.rint(S).astype(np.int64) for S in sums]
    return PowerSums(tuple(sums), total, False, shift, coding.scale, coding.largest)


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
    return [_bit_sum(planes, w, n, k, coding.signed) for k in range(1, order + 1)]


def _bit_sum(planes: np.ndarray, w: np.ndarray, n: int, k: int, signed: bool) -> np.ndarray:
    """S_k: for each head j₁ ≤ … ≤ j_{k−1}, the sums with i ≤ j₁ are consecutive, from the rank of (0, j₁, …)."""
    heads = multisets(n, k - 1)
    starts = rank(np.column_stack([np.zeros(len(heads), dtype=np.int64), heads]))
    head_weights = reduce(np.multiply.outer, [w] * (k - 1), np.ones(1, dtype=w.dtype)).ravel()
    out = np.zeros(packed_size(n, k), dtype=w.dtype)

    def work(part: slice) -> None:
        mine, where = np.ascontiguousarray(heads[part]), np.ascontiguousarray(starts[part])
        if signed:
            bits.add_signed_products(planes, mine, where, _WIDTH, out)
        else:
            bits.add_products(planes, w, head_weights, mine, where, _WIDTH, out)

    n_parts = 1 if len(out) * planes.shape[2] < _SMALL else 16
    in_threads(work, [slice(first, None, n_parts) for first in range(n_parts)])  # strided, for parts of equal cost
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
    """[S_1, …, S_order] of (m, n) float64 values, by products Yᵀ (f ∘ Y) with the other factors f."""
    w = np.ones(len(Y)) if weights is None else weights
    m, n = Y.shape
    # As many parts on every machine, so that sums of floats do not depend on it; each part has sums of its own.
    n_parts = 4 if m * n**order > 10**7 and packed_size(n, order) <= _MAX_SHARED else 1
    edges = [m * part // n_parts for part in range(n_parts + 1)]
    parts = in_threads(lambda e: _blas_sums(Y[e[0] : e[1]], w[e[0] : e[1]], order), pairwise(edges))
    return [reduce(np.add, S) for S in zip(*parts)]


def _blas_sums(Y: np.ndarray, w: np.ndarray, order: int) -> list[np.ndarray]:
    n = Y.shape[1]
    sums = [w @ Y, *(np.zeros(packed_size(n, k)) for k in range(2, order + 1))]
    step = max(64, _BLAS_ENTRIES // n)
    lower = np.tril_indices(n)
    for lo in range(0, len(Y), step):
        part = Y[lo : lo + step]
        weighted = w[lo : lo + step, None] * part
        sums[1] += (part.T @ weighted)[lower]
        if order > 2:
            _add_triplets(sums[2], part, weighted, lower)
        for l in range(n if order > 3 else 0):
            piece = sums[3][packed_size(l, 4) : packed_size(l + 1, 4)]
            _add_triplets(piece, part, weighted[:, [l]] * part[:, : l + 1], lower)
    return sums


def _add_triplets(S: np.ndarray, Y: np.ndarray, F: np.ndarray, lower: tuple[np.ndarray, np.ndarray]) -> None:
    """S[i, j, k] += Σ_rows y_i y_j f_k for i ≤ j ≤ k: given k, the entries are consecutive, and so in ``lower``."""
    for k in range(F.shape[1]):
        begin, end = packed_size(k, 3), packed_size(k + 1, 3)
        G = Y[:, : k + 1].T @ (Y[:, : k + 1] * F[:, [k]])
        S[begin:end] += G[lower[0][: end - begin], lower[1][: end - begin]]
