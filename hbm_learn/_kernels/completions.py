"""All completions of rows with missing cells, in a table of all states: sums, means and draws over them.

A state has the number Σ_i code_i stride_i. The completions of a row are listed with the first of its missing sites
varying fastest. Codes of missing cells are 255.
"""

from __future__ import annotations

import numpy as np

from hbm_learn._kernels.compiled import njit

_MISSING = 255


@njit(cache=True, nogil=True)
def _completions(codes, sizes, strides, states):
    """Fill ``states`` with the numbers of all completions of one row; how many they are."""
    base = 0
    for i in range(len(codes)):
        if codes[i] != _MISSING:
            base += np.int64(codes[i]) * strides[i]
    states[0] = base
    count = 1
    for i in range(len(codes)):
        if codes[i] == _MISSING:
            for a in range(1, sizes[i]):
                for j in range(count):
                    states[a * count + j] = states[j] + a * strides[i]
            count *= sizes[i]
    return count


@njit(cache=True, nogil=True)
def spread(p, codes, weights, sizes, strides, states, q, seen):
    """seen[r] ← P(observed part of row r), and q[x] += w_r P(x | observed part of row r)."""
    for r in range(codes.shape[0]):
        count = _completions(codes[r], sizes, strides, states)
        total = 0.0
        for j in range(count):
            total += p[states[j]]
        seen[r] = total
        if total > 0.0:
            factor = weights[r] / total
            for j in range(count):
                q[states[j]] += factor * p[states[j]]


@njit(cache=True, nogil=True)
def draw(p, codes, uniform, sizes, strides, states, out):
    """out[r, k] ← codes of row r with its missing cells drawn from P(missing | observed), by uniform[r, k]."""
    for r in range(codes.shape[0]):
        count = _completions(codes[r], sizes, strides, states)
        total = 0.0
        for j in range(count):
            total += p[states[j]]
        for k in range(uniform.shape[1]):
            left, chosen = uniform[r, k] * total, count - 1
            for j in range(count):
                left -= p[states[j]]
                if left < 0.0:
                    chosen = j
                    break
            rest = chosen
            for i in range(codes.shape[1]):
                out[r, k, i] = codes[r, i]
                if codes[r, i] == _MISSING:
                    out[r, k, i] = rest % sizes[i]
                    rest //= sizes[i]


@njit(cache=True, nogil=True)
def means(p, codes, sizes, strides, phi, column_ptr, site, own, own_site, members, indptr, buffers, states, out):
    """out[r] ← ⟨t⟩ given the observed part of row r, t = (O_k(x_i), Π_{c∈μ} φ_c).

    The distribution of the missing cells becomes the table of the means of all products of their functions, one axis
    after another; a product is then what its observed members have, times one entry of the table. ``buffers`` are two
    arrays as long as ``states``.
    """
    n, n_own = codes.shape[1], len(own_site)
    place, marginal = np.zeros(n, dtype=np.int64), np.zeros((n, phi.shape[1]))
    for r in range(codes.shape[0]):
        count = _completions(codes[r], sizes, strides, states)
        now, new = buffers[0], buffers[1]
        total = 0.0
        for j in range(count):
            now[j] = p[states[j]]
            total += now[j]
        for j in range(count):
            now[j] /= total
        _marginals(now, count, codes[r], sizes, marginal)
        for k in range(n_own):
            i = own_site[k]
            if codes[r, i] != _MISSING:
                out[r, k] = own[k, codes[r, i]]
            else:
                s = 0.0
                for a in range(sizes[i]):
                    s += marginal[i, a] * own[k, a]
                out[r, k] = s
        done, rest = 1, count
        for i in range(n):
            if codes[r, i] != _MISSING:
                continue
            q, first = sizes[i], column_ptr[i]
            width = 1 + column_ptr[i + 1] - first
            place[i] = done
            rest //= q
            for o in range(rest):
                for b in range(width):
                    for d in range(done):
                        s = 0.0
                        for a in range(q):
                            s += now[d + done * (a + q * o)] * (1.0 if b == 0 else phi[first + b - 1, a])
                        new[d + done * (b + width * o)] = s
            now, new = new, now
            done *= width
        for m in range(len(indptr) - 1):
            value, at = 1.0, 0
            for e in range(indptr[m], indptr[m + 1]):
                c = members[e]
                i = site[c]
                if codes[r, i] != _MISSING:
                    value *= phi[c, codes[r, i]]
                else:
                    at += (1 + c - column_ptr[i]) * place[i]
            out[r, n_own + m] = value * now[at]


@njit(cache=True, nogil=True)
def _marginals(now, count, codes, sizes, marginal):
    """marginal[i, a] ← P(x_i = a) of each missing site, from the distribution of all of them."""
    inner = 1
    for i in range(len(codes)):
        if codes[i] != _MISSING:
            continue
        q = sizes[i]
        for a in range(q):
            marginal[i, a] = 0.0
        for j in range(count):
            marginal[i, j // inner % q] += now[j]
        inner *= q
