"""Transforms of tables over all states, one small matrix an axis, and what is read from the tables.

A table over (digit_0, …, digit_{n−1}), digit i below q_i, is flat with site 0 fastest: index = Σ_i digit_i Π_{j<i} q_j.
With one (out_i, in_i) matrix W_i a site, (W_{n−1} ⊗ … ⊗ W_0) maps coefficients of products of functions to energies,
and probabilities to moments. Each kernel works on a part of a table, so that threads can share it; parts that are not
contiguous are given by their bounds, because loops over strided views are not vectorised.
"""

from __future__ import annotations

import numpy as np

from hbm_learn._kernels.compiled import njit

# Elements of a strip of rows that stays in the L1 cache while every output of it is formed.
_CHUNK = 512
# Rows that are transposed together where an axis has no long runs of its own.
_ROWS = 64
# _SITE[bit % 37] is the position of the only bit set: the powers of two up to 2³⁵ differ modulo 37.
_SITE = np.zeros(37, dtype=np.int64)
_SITE[[(1 << i) % 37 for i in range(36)]] = np.arange(36)


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
    """out_lar = Σ_e W_ae x_ler for x (L, in, R) and W (out, in), with l and r between their bounds.

    Three e a pass, after the one or two that are left over: each pass writes its output once.
    """
    n_in = x.shape[1]
    for l in range(l_first, l_last):
        for start in range(r_first, r_last, _CHUNK):
            stop = min(r_last, start + _CHUNK)
            for a in range(len(W)):
                if n_in % 3 == 1:
                    u = W[a, 0]
                    for r in range(start, stop):
                        out[l, a, r] = u * x[l, 0, r]
                elif n_in % 3 == 2:
                    u, v = W[a, 0], W[a, 1]
                    for r in range(start, stop):
                        out[l, a, r] = u * x[l, 0, r] + v * x[l, 1, r]
                else:
                    u, v, w = W[a, 0], W[a, 1], W[a, 2]
                    for r in range(start, stop):
                        out[l, a, r] = u * x[l, 0, r] + v * x[l, 1, r] + w * x[l, 2, r]
                for e in range((n_in - 1) % 3 + 1, n_in, 3):
                    u, v, w = W[a, e], W[a, e + 1], W[a, e + 2]
                    for r in range(start, stop):
                        out[l, a, r] += u * x[l, e, r] + v * x[l, e + 1, r] + w * x[l, e + 2, r]


@njit(cache=True, nogil=True, fastmath={"contract"})
def last_axis(x, W, out, first, last):
    """out_la = Σ_e W_ae x_le for x (L, in) and W (out, in), with l between its bounds.

    Rows are transposed a few at a time, so that the inner loop runs over them.
    """
    n_out, n_in = W.shape
    columns, results = np.zeros((n_in, _ROWS)), np.empty((n_out, _ROWS))
    for start in range(first, last, _ROWS):
        n_rows = min(_ROWS, last - start)
        for r in range(n_rows):
            for e in range(n_in):
                columns[e, r] = x[start + r, e]
        for a in range(n_out):
            w = W[a, 0]
            for r in range(_ROWS):
                results[a, r] = w * columns[0, r]
            for e in range(1, n_in):
                w = W[a, e]
                for r in range(_ROWS):
                    results[a, r] += w * columns[e, r]
        for r in range(n_rows):
            for a in range(n_out):
                out[start + r, a] = results[a, r]


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
def joint_cumulants(central, column_code, members, indptr):
    """κ_μ, the joint cumulant of the columns of each set μ, from the central moments of all sets of columns.

    The moment of a set stands at the sum of column_code over it: μ(S) = Σ_{T⊆S, T∋first} κ(T) μ(S∖T), solved for κ in
    order of S: the sum over set partitions, in 3^(|μ|−1) terms. True of moments about any point, so the last digits of
    the centre do not matter.
    """
    out = np.empty(len(indptr) - 1)
    for r in range(len(out)):
        lo, k = indptr[r], indptr[r + 1] - indptr[r]
        code = np.zeros(1 << k, dtype=np.int64)
        for j in range(k):
            for S in range(1 << j):
                code[S | (1 << j)] = code[S] + column_code[members[lo + j]]
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


# The next three fill rows first … last − 1 of the upper triangle of a symmetric matrix, and what mirrors them.


@njit(cache=True, nogil=True)
def products_one_look_up(M, codes, stay, factor, first, last, out):
    """out_μν = ⟨φ_μ φ_ν⟩ for bit codes of sets of two-valued sites, from the moments M (2ⁿ,) of all sets.

    At each site φ² is factor_i φ (its bit set in ``stay``) or factor_i, as on {0, v} and {−v, v}:
    φ_μ φ_ν = φ_{μ△ν} φ_{μ∩ν∩stay} Π_{i∈μ∩ν} factor_i. An empty ``factor`` stands for ones.
    """
    for r in range(first, last):
        for c in range(r, len(codes)):
            common = codes[r] & codes[c]
            value = M[(codes[r] ^ codes[c]) | (common & stay)]
            if len(factor):
                while common:
                    bit = common & -common
                    value *= factor[_SITE[bit % 37]]
                    common ^= bit
            out[r, c] = value
            out[c, r] = value


@njit(cache=True, nogil=True)
def products_two_valued(M, codes, total, product, size, first, last, out):
    """As ``products_one_look_up`` where φ² = total_i φ − product_i at site i: 2^|μ∩ν| ≤ ``size`` look-ups.

    φ_μ φ_ν = φ_{μ△ν} Π_{i∈μ∩ν} (total_i φ_i − product_i), multiplied out.
    """
    where, weight = np.empty(size, dtype=np.int64), np.empty(size)
    for r in range(first, last):
        for c in range(r, len(codes)):
            common = codes[r] & codes[c]
            where[0], weight[0], count = codes[r] ^ codes[c], 1.0, 1
            while common:
                bit = common & -common
                common ^= bit
                i = _SITE[bit % 37]
                for j in range(count):
                    where[count + j] = where[j] | bit
                    weight[count + j] = weight[j] * total[i]
                    weight[j] *= -product[i]
                count *= 2
            value = 0.0
            for j in range(count):
                value += weight[j] * M[where[j]]
            out[r, c] = value
            out[c, r] = value


@njit(cache=True, nogil=True)
def products(M, codes, sites, digits, pair_start, width, pair_ptr, shift, weight, size, first, last, out):
    """out_μν = ⟨t_μ t_ν⟩ where t_μ is a product of functions G_ia, at most one a site, and M holds the moments of all.

    t_μ stands at codes[μ] of M; ``sites`` are the bits of its sites, digits[μ, i] its a at site i. Where two meet at
    site i, G_a G_b = Σ_e weight_e G_{a_e}: the entries e of the pair k = pair_start_i + a width_i + b are
    pair_ptr[k]:pair_ptr[k + 1], and e changes the code by shift_e. ``size`` bounds the terms of one product.
    """
    where, value = np.empty(size, dtype=np.int64), np.empty(size)
    for r in range(first, last):
        for c in range(r, len(codes)):
            common = sites[r] & sites[c]
            where[0], value[0], count = codes[r] + codes[c], 1.0, 1
            while common:
                bit = common & -common
                common ^= bit
                i = _SITE[bit % 37]
                pair = pair_start[i] + digits[r, i] * width[i] + digits[c, i]
                lo, n_entries = pair_ptr[pair], pair_ptr[pair + 1] - pair_ptr[pair]
                for j in range(count - 1, -1, -1):  # from the end, so that nothing is overwritten before it is read
                    at, factor = where[j], value[j]
                    for e in range(n_entries):
                        where[j * n_entries + e] = at + shift[lo + e]
                        value[j * n_entries + e] = factor * weight[lo + e]
                count *= n_entries
            total = 0.0
            for j in range(count):
                total += value[j] * M[where[j]]
            out[r, c] = total
            out[c, r] = total
