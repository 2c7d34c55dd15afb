"""Gibbs sweeps of the missing cells of rows, given the observed ones; the copies of a row are lanes."""

from __future__ import annotations

import numpy as np

from hbm_learn._kernels.compiled import njit
from hbm_learn._kernels.draws import uniform
from hbm_learn._kernels.gibbs import add_terms


@njit(cache=True, nogil=True)
def fill(codes, observed, missing, state, sites, n_sweeps):
    """x_i ~ P(x_i | the others) for the missing cells of each row in turn, ``n_sweeps`` times.

    ``codes`` (R, m, n) are m copies of each row, overwritten; ``observed`` (R, N) its columns where nothing is missing;
    ``missing`` (R, n); ``state`` the generators of m lanes; ``sites`` as in ``gibbs.Sites``, finite where missing.
    """
    _, column_ptr, own_ptr, own, phi_ptr, phi, terms_ptr, term_ptr, others, J, n_columns, n_values = sites
    m, n = codes.shape[1], codes.shape[2]
    X, fields = np.empty((column_ptr[n], m)), np.empty((n_columns, m))
    product, weights = np.empty(m), np.empty(n_values)
    for r in range(codes.shape[0]):
        for i in range(n):
            q = own_ptr[i + 1] - own_ptr[i]
            for c in range(column_ptr[i], column_ptr[i + 1]):
                at = phi_ptr[i] + (c - column_ptr[i]) * q
                for l in range(m):
                    X[c, l] = phi[at + int(codes[r, l, i])] if missing[r, i] else observed[r, c]
        for _ in range(n_sweeps):
            for i in range(n):
                if not missing[r, i]:
                    continue
                first, last, q = column_ptr[i], column_ptr[i + 1], own_ptr[i + 1] - own_ptr[i]
                for c in range(first, last):
                    add_terms(fields[c - first], product, X, terms_ptr[c], terms_ptr[c + 1], term_ptr, others, J)
                for l in range(m):
                    top = -np.inf
                    for a in range(q):
                        e = own[own_ptr[i] + a]
                        for c in range(last - first):
                            e += fields[c, l] * phi[phi_ptr[i] + c * q + a]
                        weights[a] = e
                        top = max(top, e)
                    total = 0.0
                    for a in range(q):
                        weights[a] = np.exp(weights[a] - top)
                        total += weights[a]
                    left, chosen = uniform(state, l) * total, q - 1
                    for a in range(q):
                        left -= weights[a]
                        if left < 0.0:
                            chosen = a
                            break
                    codes[r, l, i] = chosen
                    for c in range(last - first):
                        X[first + c, l] = phi[phi_ptr[i] + c * q + chosen]
