"""Third cumulants on the interactions, and moments closed with them (see ``inference.free_energy``).

The triples of an interaction set are all {p, q, s} within each interaction, interaction by interaction, positions in
lexicographic order; an array over them is "flat over triples".
"""

from __future__ import annotations

import numpy as np

from hbm_learn._kernels.compiled import njit
from hbm_learn._kernels.polynomial import product_without


@njit(cache=True, nogil=True)
def triples(m, members, indptr, weights):
    """(n_triples, 3) sites and (n_triples,) contributions J_μ Π_{l∈μ∖ijk} m_l to T_ijk, flat over triples."""
    count = 0
    for r in range(len(indptr) - 1):
        k = indptr[r + 1] - indptr[r]
        count += k * (k - 1) * (k - 2) // 6
    sites = np.empty((count, 3), dtype=np.intp)
    values = np.empty(count)
    t = 0
    for r in range(len(indptr) - 1):
        lo, hi = indptr[r], indptr[r + 1]
        for p in range(lo, hi):
            for q in range(p + 1, hi):
                for s in range(q + 1, hi):
                    sites[t, 0], sites[t, 1], sites[t, 2] = members[p], members[q], members[s]
                    values[t] = weights[r] * product_without(m, members, lo, hi, p, q, s)
                    t += 1
    return sites, values


@njit(cache=True, nogil=True)
def third_trace(sites, values, chi):
    """Σ_ij T_ijk χ_ij, shape (n,)."""
    out = np.zeros(len(chi))
    for t in range(len(values)):
        i, j, k = sites[t]
        out[i] += 2.0 * values[t] * chi[j, k]
        out[j] += 2.0 * values[t] * chi[i, k]
        out[k] += 2.0 * values[t] * chi[i, j]
    return out


@njit(cache=True, nogil=True)
def add_site_part(kappa, sites, chi, skew):
    """κ_ijk += Σ_a χ_ia χ_ja χ_ka s_a, flat over triples."""
    for t in range(len(kappa)):
        i, j, k = sites[t]
        for a in range(len(skew)):
            kappa[t] += chi[i, a] * chi[j, a] * chi[k, a] * skew[a]


@njit(cache=True, nogil=True)
def add_block_part(kappa, triples, U, column_ptr, third, third_ptr):
    """κ_ijk += Σ_sites Σ_abc U_ia U_jb U_kc ⟨y_a y_b y_c⟩, flat over triples; ``third`` (r³,) for each site."""
    for t in range(len(kappa)):
        i, j, k = triples[t]
        for site in range(len(column_ptr) - 1):
            lo, hi = column_ptr[site], column_ptr[site + 1]
            at = third_ptr[site]
            for a in range(lo, hi):
                for b in range(lo, hi):
                    for c in range(lo, hi):
                        kappa[t] += U[i, a] * U[j, b] * U[k, c] * third[at]
                        at += 1


@njit(cache=True, nogil=True)
def add_coupling_part(kappa, rows, chi, sites, values):
    """κ_ijk += Σ_abc T_abc χ_ia χ_jb χ_kc, flat over triples (i, j, k) of rows of χ; 18 flops for each pair of triples.

    T is given by ``sites`` and ``values``.
    """
    for t in range(len(kappa)):
        i, j, k = rows[t]
        for u in range(len(values)):
            a, b, c = sites[u]
            total = chi[i, a] * (chi[j, b] * chi[k, c] + chi[j, c] * chi[k, b])
            total += chi[i, b] * (chi[j, a] * chi[k, c] + chi[j, c] * chi[k, a])
            total += chi[i, c] * (chi[j, a] * chi[k, b] + chi[j, b] * chi[k, a])
            kappa[t] += values[u] * total


@njit(cache=True, nogil=True)
def third_block(sites, values, lo, hi, n):
    """T_abc for lo ≤ a < hi, shape (hi − lo, n, n)."""
    T = np.zeros((hi - lo, n, n))
    for t in range(len(values)):
        i, j, k = sites[t]
        for a, b, c in ((i, j, k), (j, i, k), (k, i, j)):
            if lo <= a < hi:
                T[a - lo, b, c] += values[t]
                T[a - lo, c, b] += values[t]
    return T


@njit(cache=True, nogil=True)
def add_coupling_block(kappa, sites, chi, X):
    """κ_ijk += Σ_a χ_ai X_ajk over a block of sites a, X_a = χT⁽ᵃ⁾χ, flat over triples; ``chi``: the rows a."""
    for t in range(len(kappa)):
        i, j, k = sites[t]
        for a in range(len(X)):
            kappa[t] += chi[a, i] * X[a, j, k]


@njit(cache=True, nogil=True)
def closure_excess(m, V, chi, kappa, alpha, members, indptr, weights):
    """Σ_μ J_μ (⟨Π x⟩ − Π m − Σ_{pairs} χ Π m), each ⟨Π_{i∈μ} x_i⟩ closed with the cumulants of its subsets.

    ⟨Π x⟩ = Σ over partitions of μ of the product of the blocks' cumulants: m, χ, κ₃ and, for a block B of four or
    more, the vertex of μ itself, αJ_μ Π_{μ∖B} m Π_B V. 3^k/2 flops for an interaction of order k.
    """
    total = 0.0
    t = 0
    for r in range(len(indptr) - 1):
        lo = indptr[r]
        k = indptr[r + 1] - lo
        n_triples = k * (k - 1) * (k - 2) // 6
        if k == 3:
            total += weights[r] * kappa[t]
        elif k > 3:
            mu = members[lo : lo + k]
            cumulant = small_cumulants(m, chi, kappa[t : t + n_triples], mu)
            _add_vertices(cumulant, alpha * weights[r], V[mu], m[mu])
            total += weights[r] * _partition_excess(cumulant, k)
        t += n_triples
    return total


@njit(cache=True, nogil=True)
def block_closure_excess(m, V, chi, kappa, alpha, members, indptr, weights, partners, partner_ptr):
    """The same for several columns at a site: V (N, N), and the vertex of B has every ν at the sites of μ ("partners").

    α Σ_ν J_ν Π_{p∈B} V_{μ_p ν_p} Π_{p∉B} m_{ν_p}.
    """
    total = 0.0
    t = 0
    for r in range(len(indptr) - 1):
        lo = indptr[r]
        k = indptr[r + 1] - lo
        n_triples = k * (k - 1) * (k - 2) // 6
        if k == 3:
            total += weights[r] * kappa[t]
        elif k > 3:
            mu = members[lo : lo + k]
            cumulant = small_cumulants(m, chi, kappa[t : t + n_triples], mu)
            inside = np.empty(k)
            for at in range(partner_ptr[r], partner_ptr[r + 1]):
                nu = members[indptr[partners[at]] : indptr[partners[at] + 1]]
                for p in range(k):
                    inside[p] = V[mu[p], nu[p]]
                _add_vertices(cumulant, alpha * weights[partners[at]], inside, m[nu])
            total += weights[r] * _partition_excess(cumulant, k)
        t += n_triples
    return total


@njit(cache=True, nogil=True)
def small_cumulants(m, chi, kappa, mu):
    """The cumulant of every subset of μ of at most three members, indexed by bit mask, (2^k,); 0 for the others."""
    k = len(mu)
    out = np.zeros(1 << k)
    t = 0
    for p in range(k):
        out[1 << p] = m[mu[p]]
        for q in range(p + 1, k):
            out[1 << p | 1 << q] = chi[mu[p], mu[q]]
            for s in range(q + 1, k):
                out[1 << p | 1 << q | 1 << s] = kappa[t]
                t += 1
    return out


@njit(cache=True, nogil=True)
def _add_vertices(cumulant, J, inside, outside):
    """cumulant(B) += J Π_{p∈B} inside_p Π_{p∉B} outside_p for each subset B of four or more members."""
    k = len(inside)
    for B in range(1, 1 << k):
        size = 0
        vertex = J
        for p in range(k):
            member = (B >> p) & 1
            size += member
            vertex *= inside[p] if member else outside[p]
        if size > 3:
            cumulant[B] += vertex


@njit(cache=True, nogil=True)
def _partition_excess(cumulant, k):
    """Σ over partitions of {0…k−1} of Π cumulant(block), without those of singletons and at most one pair.

    M(S) = Σ_{B ⊆ S, B ∋ first of S} cumulant(B) M(S∖B).
    """
    everything = np.zeros(1 << k)
    singletons = np.zeros(1 << k)
    one_pair = np.zeros(1 << k)
    everything[0] = singletons[0] = 1.0
    for S in range(1, 1 << k):
        first = S & -S
        rest = S ^ first
        singletons[S] = cumulant[first] * singletons[rest]
        one_pair[S] = cumulant[first] * one_pair[rest]
        others = rest
        while others:
            second = others & -others
            one_pair[S] += cumulant[first | second] * singletons[rest ^ second]
            others ^= second
        sub = rest
        while True:
            everything[S] += cumulant[first | sub] * everything[rest ^ sub]
            if sub == 0:
                break
            sub = (sub - 1) & rest
    return everything[-1] - singletons[-1] - one_pair[-1]
