"""Transforms of tables over all states, one small matrix an axis, and what is read from the tables.

A table over (digit_0, …, digit_{n−1}), each digit below q, is flat with site 0 fastest: index = Σ_i digit_i q^i. With
one (out, in) matrix W_i a site, (W_{n−1} ⊗ … ⊗ W_0) maps coefficients of monomials to energies, and probabilities to
moments.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numba import get_num_threads, njit, prange, set_num_threads

# 2^14 doubles are 128 KiB: the low stages of a block, or all high stages of a strip of columns, stay in the L2 cache,
# so that a table of any size is read and written twice.
_LOW_STAGES = 14
_STRIP = 64

# Kronecker products of axes up to this size: small matrices that BLAS multiplies at full speed.
_GEMM_SIZE = 64

# Tables up to this size take a millisecond on one thread; on a busy machine, waiting for a second one takes ten.
_SERIAL_SIZE = 2**16


@contextmanager
def threads_for(size: int) -> Iterator[None]:
    """One thread for the parallel kernels called within, if the table is small; all of them otherwise."""
    before = get_num_threads()
    set_num_threads(1 if size <= _SERIAL_SIZE else before)
    try:
        yield
    finally:
        set_num_threads(before)


def transform(x: np.ndarray, W: np.ndarray) -> np.ndarray:
    """(W_{n−1} ⊗ … ⊗ W_0) x for W of shape (n, out, in); x (inⁿ,) may be overwritten. Returns (outⁿ,)."""
    if W.shape[1:] != (2, 2):
        return kronecker(x, W)
    low = min(_LOW_STAGES, len(W))
    with threads_for(len(x)):
        two_point(x, W, low, min(_STRIP, 1 << low))
    return x


def kronecker(x: np.ndarray, W: np.ndarray) -> np.ndarray:
    """The transform by matrix products: the slowest axes, a group at a time, are transformed and become the fastest."""
    n, n_out, n_in = W.shape
    group = max(1, int(np.log(_GEMM_SIZE) / np.log(max(n_out, n_in)) + 1e-9))
    for top in range(n, 0, -group):
        K = np.ones((1, 1))
        for i in range(max(0, top - group), top):
            K = np.kron(W[i], K)
        x = (x.reshape(K.shape[1], -1).T @ K.T).reshape(-1)
    return x


@njit(cache=True, nogil=True, fastmath={"contract"})
def _stages(x, W, width):
    """The transform of a (2^k, width) block along its first axis, in place; two stages a pass halve the traffic."""
    half = width
    paired = len(W) - len(W) % 2
    for j in range(0, paired, 2):
        a00, a01, a10, a11 = W[j, 0, 0], W[j, 0, 1], W[j, 1, 0], W[j, 1, 1]
        b00, b01, b10, b11 = W[j + 1, 0, 0], W[j + 1, 0, 1], W[j + 1, 1, 0], W[j + 1, 1, 1]
        for start in range(0, len(x), 4 * half):
            for i in range(start, start + half):
                p, q, r, s = x[i], x[i + half], x[i + 2 * half], x[i + 3 * half]
                p, q = a00 * p + a01 * q, a10 * p + a11 * q
                r, s = a00 * r + a01 * s, a10 * r + a11 * s
                x[i] = b00 * p + b01 * r
                x[i + half] = b00 * q + b01 * s
                x[i + 2 * half] = b10 * p + b11 * r
                x[i + 3 * half] = b10 * q + b11 * s
        half *= 4
    if paired < len(W):
        w00, w01, w10, w11 = W[paired, 0, 0], W[paired, 0, 1], W[paired, 1, 0], W[paired, 1, 1]
        for i in range(half):
            p, q = x[i], x[i + half]
            x[i] = w00 * p + w01 * q
            x[i + half] = w10 * p + w11 * q


@njit(cache=True, nogil=True, parallel=True)
def two_point(x, W, low, strip):
    """(W_{n−1} ⊗ … ⊗ W_0) x in place, W (n, 2, 2); with W = [[1, 1], [1, −1]] the fast Walsh–Hadamard transform.

    n·2^(n−1) butterflies. First the ``low`` fast axes, a contiguous block at a time; then the others, a strip of
    columns at a time, copied to a buffer because rows 2^low apart compete for the same cache lines.
    """
    L = 1 << low
    R = len(x) // L
    for r in prange(R):
        _stages(x[r * L : (r + 1) * L], W[:low], 1)
    if R > 1:
        for s in prange(L // strip):
            buffer = np.empty((R, strip))
            for r in range(R):
                buffer[r] = x[r * L + s * strip : r * L + (s + 1) * strip]
            _stages(buffer.reshape(R * strip), W[low:], strip)
            for r in range(R):
                x[r * L + s * strip : r * L + (s + 1) * strip] = buffer[r]


@njit(cache=True, nogil=True, parallel=True)
def boltzmann(E, rows, cols):
    """E_rc ← w_rc = exp(e_rc − peak), e_rc = E_rc + rows_r + cols_c, in place.

    Returns peak and, for each row, Σ w and Σ w (e − peak): the caller adds up the rows, because numba would add them in
    an order that depends on the number of threads.
    """
    R, C = E.shape
    top, z, s = np.empty(R), np.empty(R), np.empty(R)
    for r in prange(R):
        largest = -np.inf
        for c in range(C):
            E[r, c] += rows[r] + cols[c]
            largest = max(largest, E[r, c])
        top[r] = largest
    peak = top.max()
    for r in prange(R):
        z_row, s_row = 0.0, 0.0
        for c in range(C):
            e = E[r, c] - peak
            w = np.exp(e)
            z_row += w
            s_row += w * e
            E[r, c] = w
        z[r], s[r] = z_row, s_row
    return peak, z, s


@njit(cache=True, nogil=True)
def joint_cumulants(central, members, indptr):
    """κ_μ, the joint cumulant of the members of each interaction, from the central moments of all subsets (2ⁿ,).

    μ(S) = Σ_{T⊆S, T∋first} κ(T) μ(S∖T), solved for κ in order of S: the sum over set partitions, in 3^(|μ|−1) terms.
    True of moments about any point, so the last digits of the centre do not matter.
    """
    out = np.empty(len(indptr) - 1)
    for r in range(len(out)):
        lo, k = indptr[r], indptr[r + 1] - indptr[r]
        code = np.zeros(1 << k, dtype=np.int64)
        for j in range(k):
            for S in range(1 << j):
                code[S | (1 << j)] = code[S] | (1 << members[lo + j])
        kappa = np.zeros(1 << k)
        for S in range(1, 1 << k, 2):
            total = central[code[S]]
            rest = S ^ 1
            sub = rest
            while sub:
                sub = (sub - 1) & rest
                total -= kappa[sub | 1] * central[code[rest ^ sub]]
            kappa[S] = total
        out[r] = kappa[-1]
    return out


@njit(cache=True, nogil=True, parallel=True)
def products_two_valued(M, codes, total, product):
    """⟨x_μ x_ν⟩ for bit codes (P,), from the moments M (2ⁿ,), where x² = (x₀ + x₁) x − x₀ x₁ = total·x − product.

    x_μ x_ν = x_{μ△ν} Π_{i∈μ∩ν} (total·x_i − product): one look-up on {−1, 1} and on {0, 1}, 2^|μ∩ν| otherwise.
    """
    P = len(codes)
    G = np.empty((P, P))
    for r in prange(P):
        for c in range(r + 1):
            apart, common = codes[r] ^ codes[c], codes[r] & codes[c]
            value = 0.0
            sub = common
            if product == 0.0 or total == 0.0:
                value = M[apart | (common if product == 0.0 else 0)]
                while sub:
                    value *= total - product  # one of the two is zero
                    sub &= sub - 1
            else:
                while True:
                    term = M[apart | sub]
                    left = common
                    while left:
                        bit = left & -left
                        term *= total if sub & bit else -product
                        left ^= bit
                    value += term
                    if sub == 0:
                        break
                    sub = (sub - 1) & common
            G[r, c] = value
            G[c, r] = value
    return G


@njit(cache=True, nogil=True, parallel=True)
def products_by_sum(M, codes):
    """M[code_μ + code_ν] for codes (P,) of monomials whose exponents, added, stay below the base of the table."""
    P = len(codes)
    G = np.empty((P, P))
    for r in prange(P):
        for c in range(r + 1):
            G[r, c] = M[codes[r] + codes[c]]
            G[c, r] = G[r, c]
    return G
