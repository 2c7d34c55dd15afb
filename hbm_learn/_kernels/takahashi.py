"""Entries of the inverse of a sparse matrix from its triangular factors (Takahashi's recursion)."""

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
