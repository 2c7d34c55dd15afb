"""Sums over pairs and triples in the second-order Plefka expansion (see ``inference.tap``)."""

from __future__ import annotations

import numpy as np

from hbm_learn._kernels.compiled import njit


@njit(cache=True, nogil=True)
def reaction_slope(sites, values, A, V):
    """M_ip = Σ_k A_ik V_k T_ikp, (n, n): ½ ∂/∂m_p of Σ_k A_ik² V_k. ``sites``, ``values``: flat over triples."""
    n = len(V)
    M = np.zeros((n, n))
    for t in range(len(values)):
        i, j, k = sites[t]
        for a, b, c in ((i, j, k), (j, i, k), (k, i, j)):
            M[a, c] += values[t] * A[a, b] * V[b]
            M[a, b] += values[t] * A[a, c] * V[c]
    return M


@njit(cache=True, nogil=True)
def triple_terms(sites, values, A, V):
    """For distinct triples with T_ijk = values:

    Λ₃_i = Σ_{j<k} T_ijk² V_j V_k, (n,);  W_ik = ∂Λ₃_i/∂V_k = Σ_j T_ijk² V_j, (n, n);
    φ_i = ∂Φ₂/∂m_i = −Σ_{j<k} A_jk T_ijk V_j V_k, (n,);  Σ_{i<j<k} T_ijk² V_i V_j V_k.
    """
    n = len(V)
    Lambda = np.zeros(n)
    W = np.zeros((n, n))
    phi = np.zeros(n)
    total = 0.0
    for t in range(len(values)):
        i, j, k = sites[t]
        T = values[t]
        total += T * T * V[i] * V[j] * V[k]
        for a, b, c in ((i, j, k), (j, i, k), (k, i, j)):
            Lambda[a] += T * T * V[b] * V[c]
            phi[a] -= A[b, c] * T * V[b] * V[c]
            W[a, b] += T * T * V[c]
            W[a, c] += T * T * V[b]
    return Lambda, W, phi, total


@njit(cache=True, nogil=True)
def p_spin_energy(m, V, members, indptr, weights):
    """Σ_μ J_μ² [Π_i (m_i² + V_i) − Π_i m_i² − Σ_k V_k Π_{i≠k} m_i²]: all subsets of two or more members of each μ."""
    total = 0.0
    for r in range(len(indptr) - 1):
        everything = 1.0
        none = 1.0
        one = 0.0
        for p in range(indptr[r], indptr[r + 1]):
            i = members[p]
            one = one * m[i] ** 2 + none * V[i]
            none *= m[i] ** 2
            everything *= m[i] ** 2 + V[i]
        total += weights[r] ** 2 * (everything - none - one)
    return total
