"""Sums of products of few-valued variables by packed bits: 64 samples to a word, AND and popcount.

A variable is a weighted sum of bits, y_i = Σ_b w_b β_ib with β_ib ∈ {0, 1}; plane (i, b) packs β_ib over the samples:

    Σ_samples y_i y_j y_k = Σ_abc w_a w_b w_c |β_ia ∧ β_jb ∧ β_kc|

and so on for any number of factors, repeated ones included. Sums are packed as in ``symmetric``.
"""

from __future__ import annotations

import numpy as np

from hbm_learn._kernels.compiled import intrinsic, njit


def _count_bits(word):
    """Number of bits set, in Python."""
    return np.uint64(int(word).bit_count())


@intrinsic(python=_count_bits)
def popcount(typing_context, word):
    """Number of bits set; the LLVM intrinsic, so that a loop of it becomes vector instructions."""
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba import types

    def generate(context, builder, signature, args):
        function = builder.module.declare_intrinsic("llvm.ctpop", [ir.IntType(64)])
        return builder.call(function, args)

    return types.uint64(types.uint64), generate


@njit(cache=True, nogil=True)
def pack(codes, patterns, plane_ptr, planes, first_word, last_word):
    """planes[plane_ptr[i] + b, w] ← bit b of patterns[i, codes[r, i]], for the 64 rows r of each word w in a range.

    Parameters
    ----------
    codes : (m, n) uint8
    patterns : (n, q) uint64
        The bits of each code at each site.
    plane_ptr : (n + 1,) int64
        The planes of site i are ``plane_ptr[i]:plane_ptr[i + 1]``.
    planes : (P, W) uint64
    first_word, last_word : int
        The words to write, last_word left out.
    """
    n_rows, n = codes.shape
    most, are_codes = 0, True  # binary digits of the code itself need no table
    for i in range(n):
        most = max(most, plane_ptr[i + 1] - plane_ptr[i])
        for a in range(patterns.shape[1]):
            are_codes = are_codes and patterns[i, a] == a
    word = np.empty((most, n), dtype=np.uint64)
    pattern = np.empty(n, dtype=np.uint64)
    for w in range(first_word, last_word):
        word[:] = 0
        for r in range(64 * w, min(64 * w + 64, n_rows)):
            shift = np.uint64(r - 64 * w)
            if are_codes:
                for i in range(n):
                    pattern[i] = codes[r, i]
            else:
                for i in range(n):
                    pattern[i] = patterns[i, codes[r, i]]
            for b in range(most):
                plane = np.uint64(b)
                for i in range(n):
                    word[b, i] |= ((pattern[i] >> plane) & np.uint64(1)) << shift
        for i in range(n):
            for b in range(plane_ptr[i + 1] - plane_ptr[i]):
                planes[plane_ptr[i] + b, w] = word[b, i]


# Loops over words take 1-d slices and start at 0: where an index could be negative, numba's check of it would keep the
# loop from becoming vector instructions.


@njit(cache=True, nogil=True)
def _meet(a, b, out):
    """out ← a ∧ b, over the words of b."""
    for w in range(len(b)):
        out[w] = a[w] & b[w]


@njit(cache=True, nogil=True)
def _conjunctions(planes, head, lo, hi, out):
    """out[β] ← AND of one plane of each member of head; β counts the choices of planes, last member fastest."""
    n_planes = planes.shape[1]
    count = 1
    for w in range(hi - lo):
        out[0, w] = ~np.uint64(0)
    for member in head:
        # From the last row down, so that a row is read before it is overwritten.
        for row in range(count - 1, -1, -1):
            for b in range(n_planes - 1, -1, -1):
                _meet(out[row], planes[member, b, lo:hi], out[row * n_planes + b])
        count *= n_planes


@njit(cache=True, nogil=True)
def _common(a, b):
    """Bits set in both a and b."""
    total = np.uint64(0)
    for w in range(len(a)):
        total += popcount(a[w] & b[w])
    return np.int64(total)


@njit(cache=True, nogil=True)
def _signed(nonzero, negative, others_nonzero, others_negative):
    """Σ of the signs of y · (product of others), over the words of ``nonzero``."""
    both, minus = np.uint64(0), np.uint64(0)
    for w in range(len(nonzero)):
        word = nonzero[w] & others_nonzero[w]
        both += popcount(word)
        minus += popcount(word & (negative[w] ^ others_negative[w]))
    return np.int64(both) - 2 * np.int64(minus)


@njit(cache=True, nogil=True)
def add_signed_products(planes, heads, starts, width, out):
    """``add_products`` for y ∈ {−1, 0, 1}, with a quarter of its work for triplets.

    Plane 0 is y ≠ 0 and plane 1 is y < 0: where the product is not zero, its sign is the XOR of the signs, so that
    Σ_samples Π y = |∧ nonzero| − 2 |∧ nonzero ∧ ⊻ negative|.
    """
    n, _, n_words = planes.shape
    nonzero, negative = np.empty(width, dtype=np.uint64), np.empty(width, dtype=np.uint64)
    for lo in range(0, n_words, width):
        size = min(width, n_words - lo)
        for t in range(len(heads)):
            nonzero[:], negative[:] = ~np.uint64(0), 0
            for member in heads[t]:
                nonzero[:size] &= planes[member, 0, lo : lo + size]
                negative[:size] ^= planes[member, 1, lo : lo + size]
            bound = heads[t, 0] + 1 if heads.shape[1] else n
            for i in range(bound):
                out[starts[t] + i] += _signed(
                    planes[i, 0, lo : lo + size], planes[i, 1, lo : lo + size], nonzero, negative
                )


@njit(cache=True, nogil=True)
def add_products(planes, weights, head_weights, heads, starts, width, out):
    """out[starts[t] + i] += Σ_samples y_i Π_{j∈heads[t]} y_j for all i ≤ heads[t, 0] (all i for an empty head).

    Parameters
    ----------
    planes : (n, B, W) uint64.
    weights, head_weights : (B,) w_b and (B^(k−1),) their products over the planes of a head.
    heads : (T, k − 1) non-decreasing members; starts : (T,) where their sums begin in ``out``.
    width : words taken at a time, so that the planes of all variables stay in cache.
    """
    n, _, n_words = planes.shape
    both = np.empty((len(head_weights), width), dtype=np.uint64)
    for lo in range(0, n_words, width):
        hi = min(lo + width, n_words)
        for t in range(len(heads)):
            _conjunctions(planes, heads[t], lo, hi, both)
            bound = heads[t, 0] + 1 if heads.shape[1] else n
            for i in range(bound):
                for a in range(len(weights)):
                    for row in range(len(head_weights)):
                        count = _common(planes[i, a, lo:hi], both[row, : hi - lo])
                        out[starts[t] + i] += weights[a] * head_weights[row] * count
