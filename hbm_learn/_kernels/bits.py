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


# Rows that a tile takes on either side: each word loaded serves four ANDs, and the sixteen counts stay in registers.
_TILE = 4
# Planes beyond the last that a tile may read.
PADDING = 2 * _TILE - 1
# Columns that all rows pass by before the next are taken: they stay in the second cache.
_NEAR = 64

# Loops over words take 1-d slices and start at 0: where an index could be negative, numba's check of it would keep the
# loop from becoming vector instructions.


@njit(cache=True, nogil=True)
def _meet(a, b, out):
    """out ← a ∧ b."""
    for w in range(len(out)):
        out[w] = a[w] & b[w]


@njit(cache=True, nogil=True)
def _differ(a, b, out):
    """out ← a ⊻ b."""
    for w in range(len(out)):
        out[w] = a[w] ^ b[w]


@njit(cache=True, nogil=True)
def _common(rows, columns, first, out):
    """out[p, q] ← bits set in both row p and column first + q."""
    a0, a1, a2, a3 = rows[0], rows[1], rows[2], rows[3]
    b0, b1, b2, b3 = columns[first], columns[first + 1], columns[first + 2], columns[first + 3]
    c00 = c01 = c02 = c03 = np.uint64(0)
    c10 = c11 = c12 = c13 = np.uint64(0)
    c20 = c21 = c22 = c23 = np.uint64(0)
    c30 = c31 = c32 = c33 = np.uint64(0)
    for w in range(len(a0)):
        x0, x1, x2, x3 = a0[w], a1[w], a2[w], a3[w]
        y = b0[w]
        c00 += popcount(x0 & y)
        c10 += popcount(x1 & y)
        c20 += popcount(x2 & y)
        c30 += popcount(x3 & y)
        y = b1[w]
        c01 += popcount(x0 & y)
        c11 += popcount(x1 & y)
        c21 += popcount(x2 & y)
        c31 += popcount(x3 & y)
        y = b2[w]
        c02 += popcount(x0 & y)
        c12 += popcount(x1 & y)
        c22 += popcount(x2 & y)
        c32 += popcount(x3 & y)
        y = b3[w]
        c03 += popcount(x0 & y)
        c13 += popcount(x1 & y)
        c23 += popcount(x2 & y)
        c33 += popcount(x3 & y)
    out[0, 0], out[0, 1], out[0, 2], out[0, 3] = c00, c01, c02, c03
    out[1, 0], out[1, 1], out[1, 2], out[1, 3] = c10, c11, c12, c13
    out[2, 0], out[2, 1], out[2, 2], out[2, 3] = c20, c21, c22, c23
    out[3, 0], out[3, 1], out[3, 2], out[3, 3] = c30, c31, c32, c33


@njit(cache=True, nogil=True)
def _signed(rows, columns, first, out):
    """out[p, q] ← Σ of the signs of products: not zero where both are not, and there negative where one of them is."""
    a0, s0, a1, s1 = rows[0], rows[1], rows[2], rows[3]
    b0, b1, b2, b3 = columns[first], columns[first + 2], columns[first + 4], columns[first + 6]
    t0, t1, t2, t3 = columns[first + 1], columns[first + 3], columns[first + 5], columns[first + 7]
    c00 = c01 = c02 = c03 = c10 = c11 = c12 = c13 = np.uint64(0)
    d00 = d01 = d02 = d03 = d10 = d11 = d12 = d13 = np.uint64(0)
    for w in range(len(a0)):
        x0, x1, u0, u1 = a0[w], a1[w], s0[w], s1[w]
        y, v = b0[w], t0[w]
        c00 += popcount(x0 & y)
        d00 += popcount(x0 & y & (u0 ^ v))
        c10 += popcount(x1 & y)
        d10 += popcount(x1 & y & (u1 ^ v))
        y, v = b1[w], t1[w]
        c01 += popcount(x0 & y)
        d01 += popcount(x0 & y & (u0 ^ v))
        c11 += popcount(x1 & y)
        d11 += popcount(x1 & y & (u1 ^ v))
        y, v = b2[w], t2[w]
        c02 += popcount(x0 & y)
        d02 += popcount(x0 & y & (u0 ^ v))
        c12 += popcount(x1 & y)
        d12 += popcount(x1 & y & (u1 ^ v))
        y, v = b3[w], t3[w]
        c03 += popcount(x0 & y)
        d03 += popcount(x0 & y & (u0 ^ v))
        c13 += popcount(x1 & y)
        d13 += popcount(x1 & y & (u1 ^ v))
    two = np.uint64(2)  # differences wrap around, as the whole numbers do that they become
    out[0, 0], out[0, 1], out[0, 2], out[0, 3] = c00 - two * d00, c01 - two * d01, c02 - two * d02, c03 - two * d03
    out[1, 0], out[1, 1], out[1, 2], out[1, 3] = c10 - two * d10, c11 - two * d11, c12 - two * d12, c13 - two * d13


@njit(cache=True, nogil=True, error_model="numpy")
def add_counts(planes, weights, out):
    """out[i] += Σ_b w_b |β_ib|: the sums of the variables themselves."""
    n_planes = len(weights)
    for k in range(len(planes)):
        block = planes[k]
        for i in range(len(out)):
            for b in range(n_planes):
                plane, total = block[i * n_planes + b], np.uint64(0)
                for w in range(len(plane)):
                    total += popcount(plane[w])
                out[i] += weights[b] * np.int64(total)


@njit(cache=True, nogil=True)
def _conjunctions(columns, n_planes, members, out):
    """out[β] ← AND of one plane of each member; β counts the choices of planes, last member fastest."""
    count = 1
    out[0] = ~np.uint64(0)
    for member in members:
        # From the last row down, so that a row is read before it is overwritten.
        for row in range(count - 1, -1, -1):
            for b in range(n_planes - 1, -1, -1):
                _meet(out[row], columns[member * n_planes + b], out[row * n_planes + b])
        count *= n_planes


@njit(cache=True, nogil=True, error_model="numpy")
def add_products(planes, weights, tail_weights, tails, starts, n, first, step, out):
    """out[starts[t] + rank(i, j)] += Σ_samples y_i y_j Π_{k∈tails[t]} y_k for all i ≤ j ≤ tails[t, 0].

    As in a product of matrices: rows are (j, a choice of planes of j and the tail), columns (i, a plane of i).

    Parameters
    ----------
    planes : (blocks, n B + PADDING or more, width) uint64
        Blocks of words, so that the rows of a tile stay in the first cache while columns pass by.
    weights, tail_weights : (B,) w_b and (B^(k−2),) their products over the planes of a tail.
    tails : (T, k − 2) non-decreasing members; starts : (T,) where their sums begin in ``out``.
    n : the bound of j where the tail is empty.
    first, step : every ``step``-th group of four j is taken.
    """
    n_planes, choices, width = len(weights), len(tail_weights), planes.shape[2]
    span = _TILE * n_planes * choices  # rows of so many j: no two threads write to the same sums
    both = np.empty((choices, width), dtype=np.uint64)
    rows = np.zeros((_TILE, width), dtype=np.uint64)
    counts = np.empty((_TILE, _TILE), dtype=np.uint64)
    place, bound, weight = np.empty(_TILE, np.int64), np.empty(_TILE, np.int64), np.empty(_TILE, weights.dtype)
    for block in range(len(planes)):
        columns = planes[block]  # numba knows that its rows are contiguous; of ``for columns in planes`` it does not
        for t in range(len(tails)):
            _conjunctions(columns, n_planes, tails[t], both)
            n_columns = (tails[t, 0] + 1 if tails.shape[1] else n) * n_planes
            n_rows = n_columns * choices
            for begin in range(0, n_columns, _NEAR):
                above = begin // (_TILE * n_planes) // step * step
                for group in range((above + first) * span, n_rows, span * step):
                    for row in range(group, min(group + span, n_rows), _TILE):
                        highest = 0
                        for p in range(_TILE):
                            bound[p] = 0
                            if row + p < n_rows:
                                mine, choice = (row + p) // choices, (row + p) % choices
                                j = mine // n_planes
                                _meet(both[choice], columns[mine], rows[p])
                                place[p] = starts[t] + j * (j + 1) // 2
                                bound[p] = highest = min((j + 1) * n_planes, begin + _NEAR)
                                weight[p] = weights[mine % n_planes] * tail_weights[choice]
                        for column in range(begin, highest, _TILE):
                            _common(rows, columns, column, counts)
                            for p in range(_TILE):
                                for q in range(min(_TILE, bound[p] - column)):
                                    i, a = column + q, 0
                                    if n_planes > 1:
                                        i, a = i // n_planes, i % n_planes
                                    out[place[p] + i] += weights[a] * weight[p] * np.int64(counts[p, q])


@njit(cache=True, nogil=True, error_model="numpy")
def add_signed_products(planes, tails, starts, n, first, step, out):
    """``add_products`` for y ∈ {−1, 0, 1}, with a quarter of its work for triplets.

    Planes are y ≠ 0 and y < 0 in turns: where the product is not zero, its sign is the XOR of the signs, so that
    Σ_samples Π y = |∧ nonzero| − 2 |∧ nonzero ∧ ⊻ negative|.
    """
    width = planes.shape[2]
    both = np.empty((2, width), dtype=np.uint64)
    rows = np.zeros((4, width), dtype=np.uint64)
    counts = np.empty((2, _TILE), dtype=np.uint64)
    for block in range(len(planes)):
        columns = planes[block]  # numba knows that its rows are contiguous; of ``for columns in planes`` it does not
        for t in range(len(tails)):
            both[0], both[1] = ~np.uint64(0), 0
            for member in tails[t]:
                _meet(both[0], columns[2 * member], both[0])
                _differ(both[1], columns[2 * member + 1], both[1])
            bound = tails[t, 0] + 1 if tails.shape[1] else n
            for begin in range(0, bound, _NEAR // 2):
                for row in range(2 * (begin // (2 * step) * step + first), bound, 2 * step):
                    here = min(2, bound - row)
                    for p in range(here):
                        _meet(both[0], columns[2 * (row + p)], rows[2 * p])
                        _differ(both[1], columns[2 * (row + p) + 1], rows[2 * p + 1])
                    for column in range(begin, min(row + here, begin + _NEAR // 2), _TILE):
                        _signed(rows, columns, 2 * column, counts)
                        for p in range(here):
                            j = row + p
                            for i in range(column, min(column + _TILE, j + 1)):
                                out[starts[t] + j * (j + 1) // 2 + i] += np.int64(counts[p, i - column])
