"""Rows of zeros and ones by their ones: those of row r are columns ``indices[indptr[r]:indptr[r + 1]]``, ascending.

Every kernel costs as many operations as there are ones, or pairs of them in a row, or ones times fields.
"""

from __future__ import annotations

import numpy as np

from hbm_learn._kernels.compiled import njit

# Rows and fields of a tile: it stays in the first cache, and what ones add to so many fields in the second.
_ROWS, _FIELDS = 32, 128


@njit(cache=True, nogil=True)
def are_ascending(indptr, indices):
    """Whether the columns of every row ascend, none of them twice."""
    for r in range(len(indptr) - 1):
        for e in range(indptr[r] + 1, indptr[r + 1]):
            if indices[e] <= indices[e - 1]:
                return False
    return True


@njit(cache=True, nogil=True)
def by_rows(indptr, indices, out):
    """out[r, i] ← 1 where row r has a one in column i."""
    for r in range(len(indptr) - 1):
        for e in range(indptr[r], indptr[r + 1]):
            out[r, indices[e]] = 1


@njit(cache=True, nogil=True)
def by_columns(indptr, indices, out):
    """out[i, r] ← 1 where row r has a one in column i."""
    for r in range(len(indptr) - 1):
        for e in range(indptr[r], indptr[r + 1]):
            out[indices[e], r] = 1


@njit(cache=True, nogil=True)
def gather(indptr, indices, rows, new_indptr, new_indices):
    """The ones of some rows one after another; ``new_indptr`` is where they begin."""
    for k in range(len(rows)):
        lo = indptr[rows[k]]
        for e in range(new_indptr[k + 1] - new_indptr[k]):
            new_indices[new_indptr[k] + e] = indices[lo + e]


# ---------------------------------------------------------------------- equal rows


@njit(cache=True, nogil=True)
def hashes(indptr, indices, out):
    """out[r] is a number of 64 bits that equal rows share, and others hardly ever."""
    for r in range(len(out)):
        h = np.uint64(0x9E3779B97F4A7C15)
        for e in range(indptr[r], indptr[r + 1]):
            h = (h ^ np.uint64(indices[e])) * np.uint64(0xBF58476D1CE4E5B9)
            h ^= h >> np.uint64(29)
        out[r] = h


@njit(cache=True, nogil=True)
def equal_rows(indptr, indices, hashed, order, first):
    """first[r] ← a row equal to r, the same one for neighbours in ``order``, in which hashes ascend; their ones are
    compared, so that rows that share a hash by chance stay apart."""
    for k in range(len(order)):
        r = order[k]
        first[r] = r
        if k == 0:
            continue
        s = first[order[k - 1]]
        size = indptr[r + 1] - indptr[r]
        if hashed[r] != hashed[s] or indptr[s + 1] - indptr[s] != size:
            continue
        same = True
        for e in range(size):
            if indices[indptr[r] + e] != indices[indptr[s] + e]:
                same = False
                break
        if same:
            first[r] = s


# ---------------------------------------------------------------------- sums of products, packed as in ``symmetric``


@njit(cache=True, nogil=True)
def add_pairs(indptr, indices, weights, lo, hi, out):
    """out[rank(i, j)] += w over the ones i ≤ j of each row with lo ≤ j < hi; no weights: 1."""
    for r in range(len(indptr) - 1):
        w = out.dtype.type(1) if len(weights) == 0 else weights[r]
        begin = indptr[r]
        for e in range(begin, indptr[r + 1]):
            j = np.int64(indices[e])
            if j < lo or j >= hi:
                continue
            at = j * (j + 1) // 2
            for f in range(begin, e + 1):
                out[at + indices[f]] += w


@njit(cache=True, nogil=True)
def add_triplets(indptr, indices, weights, lo, hi, out):
    """out[rank(i, j, k)] += w over the ones i ≤ j ≤ k of each row with lo ≤ k < hi."""
    for r in range(len(indptr) - 1):
        w = out.dtype.type(1) if len(weights) == 0 else weights[r]
        begin = indptr[r]
        for d in range(begin, indptr[r + 1]):
            k = np.int64(indices[d])
            if k < lo or k >= hi:
                continue
            top = k * (k + 1) * (k + 2) // 6
            for e in range(begin, d + 1):
                j = np.int64(indices[e])
                at = top + j * (j + 1) // 2
                for f in range(begin, e + 1):
                    out[at + indices[f]] += w


@njit(cache=True, nogil=True)
def add_quadruplets(indptr, indices, weights, lo, hi, out):
    """out[rank(i, j, k, l)] += w over the ones i ≤ j ≤ k ≤ l of each row with lo ≤ l < hi."""
    for r in range(len(indptr) - 1):
        w = out.dtype.type(1) if len(weights) == 0 else weights[r]
        begin = indptr[r]
        for c in range(begin, indptr[r + 1]):
            l = np.int64(indices[c])
            if l < lo or l >= hi:
                continue
            first = l * (l + 1) * (l + 2) // 6 * (l + 3) // 4
            for d in range(begin, c + 1):
                k = np.int64(indices[d])
                top = first + k * (k + 1) * (k + 2) // 6
                for e in range(begin, d + 1):
                    j = np.int64(indices[e])
                    at = top + j * (j + 1) // 2
                    for f in range(begin, e + 1):
                        out[at + indices[f]] += w


# ---------------------------------------------------------------------- fields


@njit(cache=True, nogil=True)
def fields(indptr, indices, constant, added, out):
    """out[c, r] = constant[c] + Σ added[i, c] over the ones i of row r."""
    n_fields, n_rows = out.shape
    tile = np.empty((_ROWS, _FIELDS), dtype=out.dtype)
    for c in range(0, n_fields, _FIELDS):
        width = min(_FIELDS, n_fields - c)
        base = constant[c : c + width]
        for r in range(0, n_rows, _ROWS):
            height = min(_ROWS, n_rows - r)
            for k in range(height):
                mine = tile[k]
                mine[:width] = base
                for e in range(indptr[r + k], indptr[r + k + 1]):
                    more = added[indices[e], c : c + width]
                    for l in range(width):
                        mine[l] += more[l]
            for l in range(width):
                target = out[c + l, r : r + height]
                for k in range(height):
                    target[k] = tile[k, l]


@njit(cache=True, nogil=True)
def adjoint(indptr, indices, Z, low, slope, out):
    """out[0, c] = Σ_r Z[c, r], and out[1 + i, c] = Σ_r Z[c, r] (low[i] + slope[i] · [row r has a one in column i])."""
    n_fields, n_rows = Z.shape
    tile = np.empty((_ROWS, _FIELDS), dtype=out.dtype)
    total = np.empty(_FIELDS)
    for c in range(0, n_fields, _FIELDS):
        width = min(_FIELDS, n_fields - c)
        total[:] = 0
        for i in range(len(low)):
            out[1 + i, c : c + width] = 0
        for r in range(0, n_rows, _ROWS):
            height = min(_ROWS, n_rows - r)
            for l in range(width):
                source = Z[c + l, r : r + height]
                for k in range(height):
                    tile[k, l] = source[k]
            for k in range(height):
                mine = tile[k]
                for l in range(width):
                    total[l] += mine[l]
                for e in range(indptr[r + k], indptr[r + k + 1]):
                    target = out[1 + indices[e], c : c + width]
                    for l in range(width):
                        target[l] += mine[l]
        for l in range(width):
            out[0, c + l] = total[l]
        for i in range(len(low)):
            target = out[1 + i, c : c + width]
            for l in range(width):
                target[l] = low[i] * total[l] + slope[i] * target[l]
