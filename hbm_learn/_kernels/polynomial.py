"""The coupling polynomial E(m) = Σ_μ J_μ Π_{i∈μ} m_i, its derivatives and its values on samples.

An interaction set is packed as in ``interactions``: members (flat), indptr. Each kernel costs one pass over the
interactions, with |μ|ᵏ⁺¹ multiplications for a k-th derivative.
"""

from __future__ import annotations

import numpy as np

from hbm_learn._kernels.compiled import njit

# Rows taken at a time: 2 KiB a column.
_TILE = 256


@njit(cache=True, inline="always")
def product_without(x, members, lo, hi, skip1, skip2, skip3):
    """Π x_i over members[lo:hi] except the positions skip1, skip2, skip3."""
    value = 1.0
    for p in range(lo, hi):
        if p != skip1 and p != skip2 and p != skip3:
            value *= x[members[p]]
    return value


@njit(cache=True, nogil=True)
def value(m, members, indptr, weights):
    """Σ_μ J_μ Π m."""
    total = 0.0
    for r in range(len(indptr) - 1):
        total += weights[r] * product_without(m, members, indptr[r], indptr[r + 1], -1, -1, -1)
    return total


@njit(cache=True, nogil=True)
def gradient(m, members, indptr, weights):
    """F_i = Σ_{μ∋i} J_μ Π_{j∈μ∖i} m_j, shape (n,)."""
    F = np.zeros(len(m))
    for r in range(len(indptr) - 1):
        lo, hi = indptr[r], indptr[r + 1]
        for p in range(lo, hi):
            F[members[p]] += weights[r] * product_without(m, members, lo, hi, p, -1, -1)
    return F


@njit(cache=True, nogil=True)
def hessian(m, members, indptr, weights):
    """A_ij = Σ_{μ∋i,j} J_μ Π_{l∈μ∖ij} m_l, shape (n, n), zero diagonal."""
    A = np.zeros((len(m), len(m)))
    for r in range(len(indptr) - 1):
        lo, hi = indptr[r], indptr[r + 1]
        for p in range(lo, hi):
            for q in range(p + 1, hi):
                a = weights[r] * product_without(m, members, lo, hi, p, q, -1)
                A[members[p], members[q]] += a
                A[members[q], members[p]] += a
    return A


@njit(cache=True, nogil=True)
def third(m, members, indptr, weights):
    """T_ijk = ∂A_ij/∂m_k = Σ_{μ∋i,j,k} J_μ Π_{l∈μ∖ijk} m_l, shape (n, n, n), symmetric, zero on repeated indices."""
    n = len(m)
    T = np.zeros((n, n, n))
    for r in range(len(indptr) - 1):
        lo, hi = indptr[r], indptr[r + 1]
        for p in range(lo, hi):
            for q in range(p + 1, hi):
                for s in range(q + 1, hi):
                    i, j, k = members[p], members[q], members[s]
                    t = weights[r] * product_without(m, members, lo, hi, p, q, s)
                    T[i, j, k] += t
                    T[i, k, j] += t
                    T[j, i, k] += t
                    T[j, k, i] += t
                    T[k, i, j] += t
                    T[k, j, i] += t
    return T


@njit(cache=True, nogil=True)
def third_contract(m, members, indptr, weights, chi_t):
    """Gt_pi = Σ_kl T_klp χ_ki χ_li, shape (n, n): what ∂χ_ii/∂m_p needs, without forming T.

    ``chi_t`` holds χ with χ[k] contiguous. 6n multiplications for each triple in an interaction.
    """
    n = len(m)
    G = np.zeros((n, chi_t.shape[1]))
    for r in range(len(indptr) - 1):
        lo, hi = indptr[r], indptr[r + 1]
        for p in range(lo, hi):
            for q in range(p + 1, hi):
                for s in range(q + 1, hi):
                    i, j, k = members[p], members[q], members[s]
                    t = 2.0 * weights[r] * product_without(m, members, lo, hi, p, q, s)
                    if t != 0.0:
                        for a in range(chi_t.shape[1]):
                            xi, xj, xk = chi_t[i, a], chi_t[j, a], chi_t[k, a]
                            G[i, a] += t * xj * xk
                            G[j, a] += t * xi * xk
                            G[k, a] += t * xi * xj
    return G


@njit(cache=True, nogil=True)
def third_contract_pairs(m, members, indptr, weights, x_t, y_t):
    """Gt_pi = Σ_kl T_klp x_ki y_li, shape (n, rows): as ``third_contract``, with two vectors for each i."""
    n = len(m)
    G = np.zeros((n, x_t.shape[1]))
    for r in range(len(indptr) - 1):
        lo, hi = indptr[r], indptr[r + 1]
        for p in range(lo, hi):
            for q in range(p + 1, hi):
                for s in range(q + 1, hi):
                    i, j, k = members[p], members[q], members[s]
                    t = weights[r] * product_without(m, members, lo, hi, p, q, s)
                    if t != 0.0:
                        for a in range(x_t.shape[1]):
                            G[i, a] += t * (x_t[j, a] * y_t[k, a] + x_t[k, a] * y_t[j, a])
                            G[j, a] += t * (x_t[i, a] * y_t[k, a] + x_t[k, a] * y_t[i, a])
                            G[k, a] += t * (x_t[i, a] * y_t[j, a] + x_t[j, a] * y_t[i, a])
    return G


@njit(cache=True, nogil=True)
def values_on_rows(X, members, indptr, weights):
    """Σ_μ J_μ Π_{i∈μ} x_i for each row of X, shape (N,).

    A tile of rows at a time, its columns one after another, so that a term is a loop of vector instructions.
    """
    out = np.zeros(X.shape[0])
    columns = np.empty((X.shape[1], _TILE))
    product = np.empty(_TILE)
    for first in range(0, X.shape[0], _TILE):
        tile = out[first : first + _TILE]
        n_rows = len(tile)
        for row in range(n_rows):
            for i in range(X.shape[1]):
                columns[i, row] = X[first + row, i]
        for r in range(len(indptr) - 1):
            lo, hi, weight = indptr[r], indptr[r + 1], weights[r]
            if hi - lo == 2:
                x, y = columns[members[lo]], columns[members[lo + 1]]
                for row in range(n_rows):
                    tile[row] += weight * (x[row] * y[row])
            elif hi - lo == 3:
                x, y, z = columns[members[lo]], columns[members[lo + 1]], columns[members[lo + 2]]
                for row in range(n_rows):
                    tile[row] += weight * (x[row] * y[row] * z[row])
            else:
                product[:] = 1.0
                for p in range(lo, hi):
                    x = columns[members[p]]
                    for row in range(n_rows):
                        product[row] *= x[row]
                for row in range(n_rows):
                    tile[row] += weight * product[row]
    return out


@njit(cache=True, nogil=True)
def gradients_on_rows(X, members, indptr, weights):
    """F_i(x) for each row of X, shape (N, n)."""
    out = np.empty(X.shape)
    for row in range(X.shape[0]):
        F = gradient(X[row], members, indptr, weights)
        for i in range(len(F)):  # out[row] = F would take a second more to compile, for the sake of an error's text
            out[row, i] = F[i]
    return out
