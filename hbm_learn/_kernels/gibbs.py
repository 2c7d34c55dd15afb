"""Gibbs sweeps of many chains at once, and what is built from them: recording, replica exchange, annealing.

    P_α(x) ∝ exp(Σ_i θ_i(x_i) + α E(x)),   E(x) = Σ_μ J_μ Π_{c∈μ} φ_c(x),   0 ≤ α ≤ 1

A block of L chains ("lanes") is an (N, L) array X of the columns φ_c, lanes contiguous: every inner loop runs over the
lanes and is vectorised, and one pass over the packed couplings serves all of them. Each lane has its own α and random
generator. X tells the state of a site with two values or on an interval; of the others S (n, L) keeps the codes, and of
given sites on a line the values.

``couplings`` is (indptr, members, weights): the terms of E, packed as in ``interactions``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hbm_learn._kernels.compiled import njit
from hbm_learn._kernels.draws import draw_binary, draw_finite, draw_interval, uniform

BINARY, FINITE, INTERVAL, GIVEN = 0, 1, 2, 3


class Sites(NamedTuple):
    """What a sweep needs, site by site and column by column.

    Attributes
    ----------
    kind : (n,) array
        BINARY, FINITE or INTERVAL; GIVEN for a site that stays as it is.
    column_ptr : (n + 1,) array
        The columns of site i are column_ptr[i]:column_ptr[i + 1].
    own_ptr, own : arrays
        own[own_ptr[i]:own_ptr[i + 1]] is θ over the values of site i; h, d, low, high on an interval.
    phi_ptr, phi : arrays
        phi[phi_ptr[i]:phi_ptr[i + 1]] is the (r, q) table of the functions of site i, column after column.
    terms_ptr, term_ptr, others, J : arrays
        F_c = Σ_t J_t Π φ_d over d in others[term_ptr[t]:term_ptr[t + 1]], t in terms_ptr[c]:terms_ptr[c + 1].
    n_columns, n_values : int
        The most columns, and values, of a site.
    """

    kind: np.ndarray
    column_ptr: np.ndarray
    own_ptr: np.ndarray
    own: np.ndarray
    phi_ptr: np.ndarray
    phi: np.ndarray
    terms_ptr: np.ndarray
    term_ptr: np.ndarray
    others: np.ndarray
    J: np.ndarray
    n_columns: int
    n_values: int


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
    """Work arrays of a sweep: fields (r, L), products (L,), and (q + 2, L) for the draws."""
    L = X.shape[1]
    return np.empty((sites.n_columns, L)), np.empty(L), np.empty((sites.n_values + 2, L))


@njit(cache=True, nogil=True, fastmath={"contract"})
def sweep(X, S, state, alpha, work, sites):
    """x_i ~ P_α(x_i | the others) for i = 0 … n − 1 in turn, in every lane."""
    kind, column_ptr, own_ptr, own, phi_ptr, phi, terms_ptr, term_ptr, others, J, _, _ = sites
    n, L = len(kind), X.shape[1]
    b, product, weights = work
    field = b[0]
    for i in range(n):
        if kind[i] == GIVEN:
            continue
        first, last = column_ptr[i], column_ptr[i + 1]
        add_terms(field, product, X, terms_ptr[first], terms_ptr[first + 1], term_ptr, others, J)
        for l in range(L):
            field[l] *= alpha[l]
        o, p = own_ptr[i], phi_ptr[i]
        if kind[i] == BINARY:
            draw_binary(X[first], field, own[o] - own[o + 1], phi[p], phi[p + 1], state)
        elif kind[i] == INTERVAL:
            for l in range(L):
                field[l] += own[o]
            draw_interval(X[first], field, own[o + 1], own[o + 2 : o + 4], state)
        else:
            for c in range(first + 1, last):
                more = b[c - first]
                add_terms(more, product, X, terms_ptr[c], terms_ptr[c + 1], term_ptr, others, J)
                for l in range(L):
                    more[l] *= alpha[l]
            draw_finite(S[i], X, first, last - first, b, own, o, own_ptr[i + 1] - o, phi, p, state, weights)


@njit(cache=True, nogil=True)
def record(out, X, S, l, sites):
    """out (n,) ← the state of lane l: codes, and values of sites on an interval."""
    for i in range(len(sites.kind)):
        if sites.kind[i] == FINITE or sites.kind[i] == GIVEN:
            out[i] = S[i, l]
        else:
            x = X[sites.column_ptr[i], l]
            if sites.kind[i] == BINARY:
                out[i] = 1 if x == sites.phi[sites.phi_ptr[i] + 1] else 0
            else:
                out[i] = x


@njit(cache=True, nogil=True, fastmath={"contract"})
def run(X, S, state, alpha, sites, start, stop, thin, out, chain0):
    """Sweeps start … stop − 1; after each ``thin`` of them, counted from 0, out[draw, chain0 + l] ← lane l.

    ``out`` is (draws, chains, n); sweeps beyond its last draw leave no trace there, so (0, 0, n) records nothing.
    """
    work = scratch(X, sites)
    for s in range(start, stop):
        sweep(X, S, state, alpha, work, sites)
        if (s + 1) % thin == 0 and s // thin < out.shape[0]:
            for l in range(X.shape[1]):
                record(out[s // thin, chain0 + l], X, S, l, sites)


@njit(cache=True, nogil=True, fastmath={"contract"})
def exchange(X, S, state, alpha, sites, couplings, lane_of, start, stop, thin, out, chain, rejection, tried):
    """Replica exchange: as ``run``, with one attempt to swap neighbours in α after each sweep.

    Lanes keep their states and swap their α: rung r of the ladder sits in lane_of[r]. Even and odd pairs take turns
    (non-reversible exchange). A swap of rungs r, r + 1 is accepted with probability
    min(1, exp((α_{r+1} − α_r)(E_r − E_{r+1}))); ``rejection[r]`` sums its complement over ``tried[r]`` attempts. The
    last rung is recorded.
    """
    L = X.shape[1]
    indptr, members, weights = couplings
    work, E = scratch(X, sites), np.empty(L)
    for s in range(start, stop):
        sweep(X, S, state, alpha, work, sites)
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
            record(out[s // thin, chain], X, S, lane_of[L - 1], sites)


@njit(cache=True, nogil=True, fastmath={"contract"})
def anneal(X, S, state, alpha, sites, couplings, schedule, start, stop, log_w):
    """Annealed importance sampling, steps start … stop − 1: ln w += (α_{k+1} − α_k) E(x), then one sweep at α_{k+1}."""
    L = X.shape[1]
    indptr, members, weights = couplings
    work, E = scratch(X, sites), np.empty(L)
    for k in range(start, stop):
        add_terms(E, work[1], X, 0, len(weights), indptr, members, weights)
        for l in range(L):
            log_w[l] += (schedule[k + 1] - schedule[k]) * E[l]
            alpha[l] = schedule[k + 1]
        sweep(X, S, state, alpha, work, sites)


@njit(cache=True, nogil=True)
def term_sums(X, indptr, members):
    """Σ_l Π_{c∈μ} X[c, l] of each set μ of columns, shape (p,); X is (N, L)."""
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
