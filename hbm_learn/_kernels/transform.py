"""Transforms of tables over all states, one small matrix an axis, and what is read from the tables.

A table over (digit_0, …, digit_{n−1}), each digit below q, is flat with site 0 fastest: index = Σ_i digit_i q^i. With
one (out, in) matrix W_i a site, (W_{n−1} ⊗ … ⊗ W_0) maps coefficients of monomials to energies, and probabilities to
moments. Each kernel works on a part of a table, so that threads can share it; parts that are not contiguous are given
by their bounds, because loops over strided views are not vectorised.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# Elements of a strip of rows that stays in the L1 cache while every output of it is formed.
_CHUNK = 512


@njit(cache=True, nogil=True, fastmath={"contract"})
def low_stages(x, W):
    """(W_{k−1} ⊗ … ⊗ W_0) on each contiguous block of 2^k entries of x, in place; W (k, 2, 2)."""
    block = 1 << len(W)
    for start in range(0, len(x), block):
        _stages(x[start : start + block], W, 1)


@njit(cache=True, nogil=True, fastmath={"contract"})
def high_stages(x, W, strip, first, last):
    """The same along the first axis of x (2^k, columns), in place, for the columns first … last, a strip at a time.

    Strips are copied to a buffer, because rows a power of two apart compete for the same cache lines.
    """
    rows = x.shape[0]
    buffer = np.empty((rows, strip))
    for start in range(first, last, strip):
        buffer[:] = x[:, start : start + strip]
        _stages(buffer.reshape(rows * strip), W, strip)
        x[:, start : start + strip] = buffer


@njit(cache=True, nogil=True, fastmath={"contract"})
def _stages(x, W, width):
    """Butterflies along the first axis of a flat (2^k, width) block; two stages a pass halve the traffic."""
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


@njit(cache=True, nogil=True, fastmath={"contract"})
def one_axis(x, W, out, l_first, l_last, r_first, r_last):
    """out_lar = Σ_e W_ae x_ler for x (L, in, R) and W (out, in), with l and r between their bounds."""
    n_in = x.shape[1]
    for l in range(l_first, l_last):
        for start in range(r_first, r_last, _CHUNK):
            stop = min(r_last, start + _CHUNK)
            for a in range(len(W)):
                w = W[a, 0]
                for r in range(start, stop):
                    out[l, a, r] = w * x[l, 0, r]
                for e in range(1, n_in):
                    w = W[a, e]
                    for r in range(start, stop):
                        out[l, a, r] += w * x[l, e, r]


@njit(cache=True, nogil=True)
def add_sites(E, rows, cols):
    """E_rc ← E_rc + rows_r + cols_c, in place. Returns the largest entry."""
    peak = -np.inf
    for r in range(E.shape[0]):
        for c in range(E.shape[1]):
            E[r, c] += rows[r] + cols[c]
            peak = max(peak, E[r, c])
    return peak


@njit(cache=True, nogil=True)
def exponentiate(E, peak):
    """E_rc ← w_rc = exp(E_rc − peak), in place. Returns, for each row, Σ_c w_rc and Σ_c w_rc (E_rc − peak)."""
    sums = np.zeros((E.shape[0], 2))
    for r in range(E.shape[0]):
        for c in range(E.shape[1]):
            e = E[r, c] - peak
            w = np.exp(e)
            sums[r, 0] += w
            sums[r, 1] += w * e
            E[r, c] = w
    return sums


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


@njit(cache=True, nogil=True)
def products_two_valued(M, left, right, total, product, out):
    """out_μν = ⟨x_μ x_ν⟩ for bit codes μ in left, ν in right, from the moments M (2ⁿ,), x² = total·x − product.

    x_μ x_ν = x_{μ△ν} Π_{i∈μ∩ν} (total·x_i − product): one look-up on {−1, 1} and on {0, 1}, 2^|μ∩ν| otherwise.
    """
    for r in range(len(left)):
        for c in range(len(right)):
            apart, common = left[r] ^ right[c], left[r] & right[c]
            sub = common
            if product == 0.0 or total == 0.0:
                value = M[apart | common] if product == 0.0 else M[apart]
                while sub:
                    value *= total - product  # one of the two is zero
                    sub &= sub - 1
            else:
                value = _mixed_power(total, -product, sub, common) * M[apart | sub]
                while sub:
                    sub = (sub - 1) & common
                    value += _mixed_power(total, -product, sub, common) * M[apart | sub]
            out[r, c] = value


@njit(cache=True, nogil=True)
def _mixed_power(a, b, sub, common):
    """a^|sub| b^|common∖sub|."""
    value = 1.0
    while common:
        bit = common & -common
        value *= a if sub & bit else b
        common ^= bit
    return value


@njit(cache=True, nogil=True)
def products_by_sum(M, left, right, out):
    """out_μν = M[μ + ν], for codes of monomials whose exponents, added, stay below the base of the table."""
    for r in range(len(left)):
        for c in range(len(right)):
            out[r, c] = M[left[r] + right[c]]
