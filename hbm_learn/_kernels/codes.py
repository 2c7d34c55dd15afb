"""Tables of uint8 codes, one pass each: which codes occur, how often, and their translation.

Codes beyond the width of a table (255 stands for a missing entry) are passed over.
"""

from __future__ import annotations

import numpy as np

from hbm_learn._kernels.compiled import njit


@njit(cache=True, nogil=True)
def mark(codes, seen):
    """seen[i, a] ← 1 for each code a in column i."""
    width = seen.shape[1]
    for r in range(codes.shape[0]):
        for i in range(codes.shape[1]):
            a = codes[r, i]
            if a < width:
                seen[i, a] = 1


@njit(cache=True, nogil=True)
def translate(codes, place):
    """codes[r, i] ← place[i, codes[r, i]], in place; ``place`` is (n, 256)."""
    for r in range(codes.shape[0]):
        for i in range(codes.shape[1]):
            codes[r, i] = place[i, codes[r, i]]


@njit(cache=True, nogil=True)
def count(codes, begin, sizes, counts):
    """counts[begin[i] + a] += 1 for each code a < sizes[i] in column i."""
    for r in range(codes.shape[0]):
        for i in range(codes.shape[1]):
            a = np.intp(codes[r, i])
            if a < sizes[i]:
                counts[begin[i] + a] += 1


@njit(cache=True, nogil=True)
def count_weighted(codes, weights, begin, sizes, counts):
    """counts[begin[i] + a] += weights[r] for each code a < sizes[i] in column i."""
    for r in range(codes.shape[0]):
        for i in range(codes.shape[1]):
            a = np.intp(codes[r, i])
            if a < sizes[i]:
                counts[begin[i] + a] += weights[r]
