"""Sums over rows of powers of products of columns, without a table of the products.

    s_m(d, r) = Π_{c∈ν_m} X_c(d, r),     ν_m = members[indptr[m]:indptr[m + 1]], not empty

Rows are taken a tile at a time, so that products are made, used and forgotten in the first cache: a table of them would
cost ten times as long to write and to read.
"""

from __future__ import annotations

import numpy as np

from hbm_learn._kernels.compiled import njit

# Rows of a tile: 2 KiB a column, 100 columns in the second cache.
_TILE = 512


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def power_sums(X, w, members, indptr, out):
    """out[m] += Σ_r w_r (Σ_d s, Σ_d s², Σ_d s⁴, (Σ_d s)²) of X (N, D, R): single precision in a tile, double beyond."""
    D, R = X.shape[1:]
    s, over = np.empty(_TILE, dtype=X.dtype), np.empty(_TILE, dtype=X.dtype)
    for start in range(0, R, _TILE):
        n = min(_TILE, R - start)
        weight = w[start : start + n]
        for m in range(len(indptr) - 1):
            first, last = indptr[m], indptr[m + 1]
            over[:n] = 0
            second, fourth = 0.0, 0.0
            for d in range(D):
                row = X[members[first], d, start : start + n]
                for r in range(n):
                    s[r] = row[r]
                for p in range(first + 1, last):
                    row = X[members[p], d, start : start + n]
                    for r in range(n):
                        s[r] *= row[r]
                squares, fourths = X.dtype.type(0), X.dtype.type(0)
                for r in range(n):
                    over[r] += s[r]
                    square = s[r] * s[r]
                    squares += weight[r] * square
                    fourths += weight[r] * square * square
                second += squares
                fourth += fourths
            total, between = 0.0, 0.0
            for r in range(n):
                weighted = weight[r] * over[r]
                total += weighted
                between += weighted * over[r]
            out[m, 0] += total
            out[m, 1] += second
            out[m, 2] += fourth
            out[m, 3] += between
