"""Sums of products over one block of samples, S_k = Σ_rows w Π y, packed as in ``_kernels.symmetric``, k = 1 … order.

The columns y = (φ − shift) / scale are small whole numbers wherever the functions of few-valued data allow it
(``integer_coding``): their sums are then exact.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from hbm_learn._kernels import bits, packing
from hbm_learn._kernels import codes as _codes
from hbm_learn._kernels.symmetric import mapped, multisets, packed_size, rank
from hbm_learn._threads import in_threads
from hbm_learn.data.chunks import Chunks
from hbm_learn.data.integer_coding import Coding, Planes
from hbm_learn.data.ones import Ones
from hbm_learn.data.power_sums import PowerSums
from hbm_learn.data.reduce import reduce
from hbm_learn.space import Space

# Words taken at a time: four planes are 32 KiB.
_WIDTH = 1100
# Popcounts below which threads cost more than they save.
_SMALL = 2**24
# Entries of Y in one BLAS product: 512 KiB stay in cache while they are multiplied by every factor.
_BLAS_ENTRIES = 2**16
# Sums are held once for each part of the rows while they have at most this many entries.
_MAX_SHARED = 2**23


def block_sums(block: np.ndarray | Ones, weights: np.ndarray | None, coding: Coding, order: int) -> PowerSums:
    """PowerSums to ``order`` of one block: (m, n) uint8 codes or Ones of a finite space, values of a continuous one."""
    total = len(block) if weights is None else weights.sum()
    if isinstance(block, Ones):
        whole = weights is not None and weights.max() < 2**16 and (weights == np.rint(weights)).all()
        sums = block.sums(weights.astype(np.int64) if whole else weights, order)  # type: ignore[union-attr]
        return PowerSums(tuple(sums), total, False, coding.shift, coding.scale, coding.largest)
    factors = None if coding.planes is None else _weight_planes(weights)
    shift, exact = coding.shift, False
    if factors is not None and coding.planes is not None:
        planes = coding.planes
        parts = [[factor * S for S in _bit_sums(block[rows], planes, order)] for factor, rows in factors]
        sums = [functools.reduce(np.add, S) for S in zip(*parts)]
    else:
        Y, shift, exact = coding.decoded(block)
        sums = blas_sums(Y, weights, order)
    if exact and weights is None:
        sums = [np.rint(S).astype(np.int64) for S in sums]
    return PowerSums(tuple(sums), total, False, shift, coding.scale, coding.largest)


def value_counts(blocks: Iterable[tuple[Any, np.ndarray | None]] | Chunks, space: Space) -> np.ndarray:
    """(Σ q_i,) Σ w of each value of a site in blocks of codes or Ones, cut by ``space.value_ptr``; int64 unweighted.

    Missing entries are left out. Of a line each anchor has a half: so it has the mean and variance of its values.
    """

    def work(share: tuple) -> list[Any]:
        if isinstance(share[0], Ones):
            return _counts_of_ones(share[0], share[1], space)
        codes, weights = np.ascontiguousarray(space.only_codes(share[0])), share[1]
        out = np.zeros(int(space.value_ptr[-1]), dtype=np.int64 if weights is None else np.float64)
        if weights is None:
            _codes.count(codes, space.value_ptr[:-1], space.sizes, out)
        else:
            _codes.count_weighted(codes, weights, space.value_ptr[:-1], space.sizes, out)
        return [out, len(codes) if weights is None else weights.sum()]

    counts, total = reduce(work, blocks)
    if space.lines:
        counts = counts.astype(np.float64)
        for i in space.lines:
            counts[space.value_ptr[i] : space.value_ptr[i + 1]] = 0.5 * total
    return counts


def _counts_of_ones(ones: Ones, weights: np.ndarray | None, space: Space) -> list[Any]:
    """Counts of values whose first two are 0 and 1, and the weight of all rows."""
    total, mine = len(ones) if weights is None else weights.sum(), ones.counts(weights)
    out = np.zeros(int(space.value_ptr[-1]), dtype=mine.dtype)
    out[space.value_ptr[:-1]], out[space.value_ptr[:-1] + 1] = total - mine, mine
    return [out, total]


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


def _bit_sums(codes: np.ndarray, planes: Planes, order: int) -> list[np.ndarray]:
    """Where all sites have the same planes, their sums at once; else each plane counts as a variable of its own."""
    words = _pack(codes, planes)
    if planes.shared is not None:
        return [_bit_sum(words, codes.shape[1], planes.shared, k, planes.signed) for k in range(1, order + 1)]
    one = np.ones(1, dtype=np.int64)
    counts = [_bit_sum(words, int(planes.ptr[-1]), one, k, signed=False) for k in range(1, order + 1)]
    return list(mapped(counts, planes.first, planes.weights))


def _bit_sum(planes: np.ndarray, n: int, w: np.ndarray, k: int, signed: bool) -> np.ndarray:
    """S_k: for each tail j₂ ≤ … ≤ j_{k−1}, those with i ≤ j₁ ≤ j₂ are consecutive from the rank of (0, 0, j₂, …)."""
    out = np.zeros(packed_size(n, k), dtype=w.dtype)
    if k == 1:
        bits.add_counts(planes, w, out)
        return out
    tails = multisets(n, k - 2)
    starts = rank(np.column_stack([np.zeros((len(tails), 2), dtype=np.int64), tails]))
    tail_weights = functools.reduce(np.multiply.outer, [w] * (k - 2), np.ones(1, dtype=w.dtype)).ravel()

    def work(part: tuple[slice, int, int]) -> None:
        mine, where = np.ascontiguousarray(tails[part[0]]), np.ascontiguousarray(starts[part[0]])
        if signed:
            bits.add_signed_products(planes, mine, where, n, *part[1:], out)
        else:
            bits.add_products(planes, w, tail_weights, mine, where, n, *part[1:], out)

    n_parts = 1 if len(out) * planes.shape[0] * planes.shape[2] < _SMALL else 16
    # Strided, for parts of equal cost: every so many rows of the one tail of pairs, every so many tails beyond.
    whole, parts = slice(None), range(n_parts)
    in_threads(work, [(whole, p, n_parts) if k == 2 else (slice(p, None, n_parts), 0, 1) for p in parts])
    return out


def _pack(codes: np.ndarray, planes: Planes) -> np.ndarray:
    """(blocks, P + padding, width) bit planes of (m, n) codes; no rows in the words beyond ⌈m/64⌉."""
    n_words, n_planes = -(-len(codes) // 64), int(planes.ptr[-1])
    n_blocks = max(1, -(-n_words // _WIDTH))
    lines = -(-n_words // (8 * n_blocks))
    lines |= lines > 8  # an odd number, for planes not to fall into the same sets of the caches
    words = np.empty((n_blocks, n_planes + bits.PADDING, 8 * lines), dtype=np.uint64)
    words[:, n_planes:] = 0
    codes = np.ascontiguousarray(codes)
    edges = 8 * np.linspace(0, n_blocks * lines, 9).astype(int)
    in_threads(lambda e: packing.pack(codes, planes.patterns, planes.ptr, words, e[0], e[1]), pairwise(edges))
    return words


# ---------------------------------------------------------------------- BLAS


def blas_sums(Y: np.ndarray, weights: np.ndarray | None, order: int) -> list[np.ndarray]:
    """[S_1, …, S_order] of (m, N) float64 values, by products Yᵀ (f ∘ Y) with the other factors f."""
    w = np.ones(len(Y)) if weights is None else weights
    m, n = Y.shape
    # As many parts on every machine, so that sums of floats do not depend on it; each part has sums of its own.
    n_parts = 4 if m * n**order > 10**7 and packed_size(n, order) <= _MAX_SHARED else 1
    edges = [m * part // n_parts for part in range(n_parts + 1)]
    parts = in_threads(lambda e: _blas_sums(Y[e[0] : e[1]], w[e[0] : e[1]], order), pairwise(edges))
    return [functools.reduce(np.add, S) for S in zip(*parts)]


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
