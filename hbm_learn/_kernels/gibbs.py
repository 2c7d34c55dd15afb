"""Gibbs sweeps of many chains at once, and what is built from them: recording, replica exchange, annealing.

    P_α(x) ∝ exp(Σ_i (h_i x_i − d_i x_i²/2) + α E(x)),   E(x) = Σ_μ J_μ Π_{i∈μ} x_i,   0 ≤ α ≤ 1

A block of L chains ("lanes") is an (n, L) array, lanes contiguous: every inner loop runs over the lanes and is
vectorised, and one pass over the packed couplings serves all of them. Each lane has its own α and random generator.

``sites`` is the tuple (h, d, site_ptr, term_ptr, others, J, values, kind): the terms of F_i are
site_ptr[i]:site_ptr[i + 1], term t is J[t] Π x_j over others[term_ptr[t]:term_ptr[t + 1]].
``couplings`` is (indptr, members, weights): the terms of E, packed as in ``interactions``.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from hbm_learn._kernels.draws import draw_binary, draw_finite, draw_interval, uniform

BINARY, FINITE, INTERVAL = 0, 1, 2


@njit(cache=True, nogil=True, inline="always", fastmath={"contract"})
def add_terms(out, product, X, start, stop, term_ptr, others, J):
    """out[l] ← Σ_t J_t Π_j X[j, l] over the terms start … stop − 1; ``product`` is (L,) scratch."""
    L = X.shape[1]
    for l in range(L):
        out[l] = 0.0
    for t in range(start, stop):
        lo, hi, weight = term_ptr[t], term_ptr[t + 1], J[t]
        if hi - lo == 1:
            j = others[lo]
            for l in range(L):
                out[l] += weight * X[j, l]
        elif hi - lo == 2:
            j, k = others[lo], others[lo + 1]
            for l in range(L):
                out[l] += weight * X[j, l] * X[k, l]
        else:
            for l in range(L):
                product[l] = weight
            for p in range(lo, hi):
                j = others[p]
                for l in range(L):
                    product[l] *= X[j, l]
            for l in range(L):
                out[l] += product[l]


@njit(cache=True, nogil=True, fastmath={"contract"})
def scratch(X, sites):
    """Work arrays of a sweep: fields (L,), products (L,), and (q + 2, L) for the draws."""
    L = X.shape[1]
    return np.empty(L), np.empty(L), np.empty((len(sites[6]) + 2, L))


@njit(cache=True, nogil=True, fastmath={"contract"})
def sweep(X, state, alpha, work, sites):
    """x_i ~ P_α(x_i | the others) for i = 0 … n − 1 in turn, in every lane."""
    h, d, site_ptr, term_ptr, others, J, values, kind = sites
    n, L = X.shape
    b, product, weights = work
    for i in range(n):
        add_terms(b, product, X, site_ptr[i], site_ptr[i + 1], term_ptr, others, J)
        for l in range(L):
            b[l] = h[i] + alpha[l] * b[l]
        if kind == BINARY:
            draw_binary(X[i], b, d[i], values, state)
        elif kind == FINITE:
            draw_finite(X[i], b, d[i], values, state, weights)
        else:
            draw_interval(X[i], b, d[i], values, state)


@njit(cache=True, nogil=True, fastmath={"contract"})
def run(X, state, alpha, sites, start, stop, thin, out, chain0):
    """Sweeps start … stop − 1; after each ``thin`` of them, counted from 0, out[draw, chain0 + l] ← lane l.

    ``out`` is (draws, chains, n); sweeps beyond its last draw leave no trace there, so (0, 0, n) records nothing.
    """
    n, L = X.shape
    work = scratch(X, sites)
    for s in range(start, stop):
        sweep(X, state, alpha, work, sites)
        if (s + 1) % thin == 0 and s // thin < out.shape[0]:
            for l in range(L):
                for i in range(n):
                    out[s // thin, chain0 + l, i] = X[i, l]


@njit(cache=True, nogil=True, fastmath={"contract"})
def exchange(X, state, alpha, sites, couplings, lane_of, start, stop, thin, out, chain, rejection, tried):
    """Replica exchange: as ``run``, with one attempt to swap neighbours in α after each sweep.

    Lanes keep their states and swap their α: rung r of the ladder sits in lane_of[r]. Even and odd pairs take turns
    (non-reversible exchange). A swap of rungs r, r + 1 is accepted with probability
    min(1, exp((α_{r+1} − α_r)(E_r − E_{r+1}))); ``rejection[r]`` sums its complement over ``tried[r]`` attempts. The
    last rung is recorded.
    """
    n, L = X.shape
    indptr, members, weights = couplings
    work, E = scratch(X, sites), np.empty(L)
    for s in range(start, stop):
        sweep(X, state, alpha, work, sites)
        add_terms(E, work[1], X, 0, len(weights), indptr, members, weights)
        for r in range(s % 2, L - 1, 2):
            cold, hot = lane_of[r + 1], lane_of[r]
            accept = np.exp(min(0.0, (alpha[cold] - alpha[hot]) * (E[hot] - E[cold])))
            rejection[r] += 1.0 - accept
            tried[r] += 1
            if uniform(state, hot) < accept:
                alpha[cold], alpha[hot] = alpha[hot], alpha[cold]
                lane_of[r], lane_of[r + 1] = cold, hot
        if (s + 1) % thin == 0 and s // thin < out.shape[0]:
            for i in range(n):
                out[s // thin, chain, i] = X[i, lane_of[L - 1]]


@njit(cache=True, nogil=True, fastmath={"contract"})
def anneal(X, state, alpha, sites, couplings, schedule, start, stop, log_w):
    """Annealed importance sampling, steps start … stop − 1: ln w += (α_{k+1} − α_k) E(x), then one sweep at α_{k+1}."""
    L = X.shape[1]
    indptr, members, weights = couplings
    work, E = scratch(X, sites), np.empty(L)
    for k in range(start, stop):
        add_terms(E, work[1], X, 0, len(weights), indptr, members, weights)
        for l in range(L):
            log_w[l] += (schedule[k + 1] - schedule[k]) * E[l]
            alpha[l] = schedule[k + 1]
        sweep(X, state, alpha, work, sites)


@njit(cache=True, nogil=True)
def term_sums(X, indptr, members):
    """Σ_l Π_{i∈μ} X[i, l] of each interaction μ, shape (p,); X is (n, L)."""
    L = X.shape[1]
    out, product = np.empty(len(indptr) - 1), np.empty(L)
    for r in range(len(out)):
        for l in range(L):
            product[l] = 1.0
        for p in range(indptr[r], indptr[r + 1]):
            for l in range(L):
                product[l] *= X[members[p], l]
        out[r] = product.sum()
    return out
