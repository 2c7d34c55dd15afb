"""Sparse LDLᵀ on a pattern that is known, solutions with it, and entries of the inverse (Takahashi's recursion)."""

from __future__ import annotations

import numpy as np

from hbm_learn._kernels.compiled import njit


@njit(cache=True, nogil=True)
def selected_inverse(indptr, indices, L, d):
    """Z = (L diag(d) Lᵀ)⁻¹ on the pattern of L, (nnz,): for i, j in one column c of L, j > c

        Z_ic = −Σ_{k>c} Z_ik L_kc,     Z_cc = 1/d_c − Σ_{k>c} L_kc Z_kc

    ``indptr``, ``indices``, ``L`` are columns of a unit lower triangle, rows ascending, the diagonal among them; fill
    makes every Z_ik that is needed part of the pattern.
    """
    n = len(d)
    Z = np.zeros(len(L))
    weight = np.zeros(n)  # L_kc of the column at hand
    total = np.zeros(n)  # Σ_k Z_ik L_kc
    here = np.zeros(n, dtype=np.bool_)
    for c in range(n - 1, -1, -1):
        lo, hi = indptr[c], indptr[c + 1]
        for at in range(lo + 1, hi):
            here[indices[at]] = True
            weight[indices[at]] = L[at]
            total[indices[at]] = 0.0
        for at in range(lo + 1, hi):
            k = indices[at]
            w, own = L[at], 0.0
            total[k] += w * Z[indptr[k]]
            for other in range(indptr[k] + 1, indptr[k + 1]):
                i = indices[other]
                if here[i]:
                    total[i] += w * Z[other]
                    own += weight[i] * Z[other]
            total[k] += own
        diagonal = 1.0 / d[c]
        for at in range(lo + 1, hi):
            k = indices[at]
            Z[at] = -total[k]
            diagonal += L[at] * total[k]
            here[k] = False
        Z[lo] = diagonal
    return Z


@njit(cache=True, nogil=True)
def factorise(indptr, indices, values):
    """L (nnz,) and d (n,) of A = L diag(d) Lᵀ, column by column; False unless A is positive definite.

    ``values`` (nnz,) are A's on the pattern of L: columns of a lower triangle, rows ascending, the diagonal first,
    closed under fill.
    """
    n = len(indptr) - 1
    L, d, x = np.empty(len(indices)), np.empty(n), np.zeros(n)
    place = indptr[:-1] + 1  # the next row of each column
    first = np.full(n, -1)  # lists of columns whose next row this is
    follows = np.full(n, -1)
    for c in range(n):
        lo, hi = indptr[c], indptr[c + 1]
        for at in range(lo, hi):
            x[indices[at]] = values[at]
        k = first[c]
        while k >= 0:
            after, at, end = follows[k], place[k], indptr[k + 1]
            factor = L[at] * d[k]
            for q in range(at, end):
                x[indices[q]] -= factor * L[q]
            if at + 1 < end:
                place[k] = at + 1
                row = indices[at + 1]
                follows[k], first[row] = first[row], k
            k = after
        pivot = x[c]
        if not pivot > 0.0:
            return L, d, False
        d[c], L[lo] = pivot, 1.0
        for at in range(lo + 1, hi):
            L[at] = x[indices[at]] / pivot
        if lo + 1 < hi:
            row = indices[lo + 1]
            follows[c], first[row] = first[row], c
    return L, d, True


@njit(cache=True, nogil=True)
def solve(indptr, indices, L, d, x):
    """(L diag(d) Lᵀ)⁻¹ x in place, x (n, k)."""
    n, k = x.shape
    for c in range(n):
        for at in range(indptr[c] + 1, indptr[c + 1]):
            for j in range(k):
                x[indices[at], j] -= L[at] * x[c, j]
    for c in range(n - 1, -1, -1):
        for j in range(k):
            x[c, j] /= d[c]
        for at in range(indptr[c] + 1, indptr[c + 1]):
            for j in range(k):
                x[c, j] -= L[at] * x[indices[at], j]
