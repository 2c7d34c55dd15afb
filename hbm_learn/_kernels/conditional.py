"""One site given the others: monomials of columns, fields, and the losses of a site with their derivatives.

    P(x_i = a | rest) ∝ exp(Σ_k O_ik(a) η_ik),     η_ik = own_ik + F_ik for the columns of site i, own_ik for its extras

Arrays lie column by column, (N, R) for R rows, so that every inner loop runs over contiguous rows. An *output* is one
η_ik: the N columns come first, then the extras of all sites. Losses write ∂ℓ/∂η into ``first`` (outputs, R) and the
second derivatives into ``second`` (pairs, R), one row for each pair of outputs of a site; an empty ``second`` is left
alone. They return Σ_rows w ℓ for each site, or add it to ``losses``.

Outputs of a site with more than two values are found through flat arrays: those of site i, in the order of its own
functions, are outputs[output_ptr[i]:output_ptr[i + 1]], the first of them its columns; the pair (k, l) among its o of
them is row pair[pair_ptr[i] + k o + l] of ``second``; O of its value a is row value_ptr[i] + a of O, and what the
extras contribute to the exponent is base[value_ptr[i] + a].
"""

from __future__ import annotations

import math

import numpy as np

from hbm_learn._kernels.compiled import njit

# ---------------------------------------------------------------------- linear maps


@njit(cache=True, nogil=True)
def columns(codes, site, table, out):
    """out[c] = table[c, code of site c] over rows: φ of each column."""
    for c in range(len(site)):
        mine, row, target = codes[site[c]], table[c], out[c]
        for r in range(len(target)):
            target[r] = row[mine[r]]


@njit(cache=True, nogil=True)
def monomials(X, members, indptr, out):
    """out[m] = Π_{c∈ν_m} X_c over rows; ν_m = members[indptr[m]:indptr[m + 1]], the empty product is 1."""
    for m in range(len(indptr) - 1):
        lo, hi = indptr[m], indptr[m + 1]
        row = out[m]
        if lo == hi:
            row[:] = 1
            continue
        first = X[members[lo]]
        for r in range(len(row)):
            row[r] = first[r]
        for p in range(lo + 1, hi):
            factor = X[members[p]]
            for r in range(len(row)):
                row[r] *= factor[r]


@njit(cache=True, nogil=True)
def fields(Phi, theta, monomial, param, column_ptr, out):
    """out[c] = Σ_e θ[param_e] Φ[monomial_e] over the entries e of column c."""
    for c in range(len(column_ptr) - 1):
        total = out[c]
        total[:] = 0
        for e in range(column_ptr[c], column_ptr[c + 1]):
            weight, row = theta[param[e]], Phi[monomial[e]]
            for r in range(len(row)):
                total[r] += weight * row[r]


@njit(cache=True, nogil=True, fastmath=True)
def adjoint(Phi, Z, monomial, column_ptr, out):
    """out[e] = Σ_rows Z[c] Φ[monomial_e] for the entries e of each column c."""
    for c in range(len(column_ptr) - 1):
        z = Z[c]
        for e in range(column_ptr[c], column_ptr[c + 1]):
            row = Phi[monomial[e]]
            total = row[0] * z[0]
            for r in range(1, len(row)):
                total += row[r] * z[r]
            out[e] = total


@njit(cache=True, nogil=True)
def scores(Phi, first, monomial, param, column_ptr, out):
    """out[param_e] += ∂ℓ/∂η_c Φ[monomial_e], row by row, for the entries e of each column c: scores of every row."""
    out[:] = 0
    for c in range(len(column_ptr) - 1):
        slope = first[c]
        for e in range(column_ptr[c], column_ptr[c + 1]):
            row, total = Phi[monomial[e]], out[param[e]]
            for r in range(len(row)):
                total[r] += slope[r] * row[r]


# Entries that arrays of two-valued sites hold at a time: a few of them fit in cache.
_FEW = 2**16

# ---------------------------------------------------------------------- two values: one output a site, whole arrays


def pseudo_binary(codes, F, width, weights, first, second):
    """ℓ = ln Σ_a e^{f φ(a)} − f φ(x) for two values; width (n, 1) = φ(1) − φ(0). NumPy's exp and log are vectorised,
    on a few sites at a time, which stay in cache from one step to the next."""
    losses, few = np.empty(len(codes)), max(1, _FEW // max(codes.shape[1], 1))
    for lo in range(0, len(codes), few):
        at = slice(lo, lo + few)
        losses[at] = _pseudo_few(codes[at], F[at], width[at], weights, first[at], second[at])
    return losses


def _pseudo_few(codes, F, width, weights, first, second):
    sign = codes.astype(F.dtype)
    sign *= 2 * width
    sign -= width
    margin = F * sign
    small = np.abs(margin)
    np.negative(small, out=small)
    np.exp(small, out=small)  # e^{−|t|} never overflows
    total = small + F.dtype.type(1)
    wrong = (margin < 0).astype(F.dtype)
    np.maximum(wrong, small, out=wrong)  # 1 where wrong, else small, without a branch; up to 1/total a probability
    wrong /= total
    np.negative(sign, out=sign)
    np.multiply(wrong, sign, out=first)
    if len(second):
        np.subtract(1, wrong, out=second)
        second *= wrong
        second *= width * width
    np.log(total, out=total)
    total -= np.minimum(margin, 0, out=margin)
    return total.astype(np.float64) @ weights


def screen_binary(codes, F, width, weights, first, second):
    """ℓ = exp(−f g(x)) for two values, g = ∓ width/2."""
    g = codes.astype(F.dtype)
    g *= width
    g -= width / 2
    loss = F * g
    np.negative(loss, out=loss)
    np.exp(loss, out=loss)
    np.multiply(loss, -g, out=first)
    if len(second):
        np.multiply(loss, g, out=second)
        second *= g
    return loss.astype(np.float64) @ weights


# ---------------------------------------------------------------------- more values


@njit(cache=True, nogil=True)
def pseudo_finite(sites, codes, F, base, tables, weights, first, second, losses):
    """ℓ = ln Σ_a exp(Σ_k O_k(a) η_k) − Σ_k O_k(x) η_k: derivatives are moments of O under the site's distribution."""
    O, value_ptr, column_ptr, outputs, output_ptr, pair, pair_ptr = tables
    want = second.shape[0] > 0
    most = 0
    for i in range(len(value_ptr) - 1):  # np.diff(…).max() takes a second to compile
        most = max(most, value_ptr[i + 1] - value_ptr[i])
    p, mean = np.empty(most), np.empty(O.shape[1])
    centred, moments = np.empty(O.shape[1]), np.empty((O.shape[1], O.shape[1]))
    for i in sites:
        first_value, q = value_ptr[i], value_ptr[i + 1] - value_ptr[i]
        first_column, r = column_ptr[i], column_ptr[i + 1] - column_ptr[i]
        out, o = outputs[output_ptr[i] : output_ptr[i + 1]], output_ptr[i + 1] - output_ptr[i]
        pairs = pair[pair_ptr[i] : pair_ptr[i + 1]]
        mine = O[first_value : first_value + q]
        total = 0.0
        for row in range(F.shape[1]):
            x = codes[i, row]
            top = -np.inf
            for a in range(q):
                exponent = base[first_value + a]
                for k in range(r):
                    exponent += mine[a, k] * F[first_column + k, row]
                p[a] = exponent
                top = max(top, exponent)
            chosen, z = p[x], 0.0
            for a in range(q):
                p[a] = math.exp(p[a] - top)
                z += p[a]
            total += weights[row] * (top + math.log(z) - chosen)
            for k in range(o):
                moment = 0.0
                for a in range(q):
                    moment += p[a] * mine[a, k]
                mean[k] = moment / z
                first[out[k], row] = mean[k] - mine[x, k]
            if want:
                # Values outside, outputs inside: neighbours in memory, which matters from a dozen labels on.
                for k in range(o):
                    for l in range(k, o):
                        moments[k, l] = 0.0
                for a in range(q):
                    for k in range(o):
                        centred[k] = mine[a, k] - mean[k]
                    for k in range(o):
                        weight, target = p[a] * centred[k], moments[k]
                        for l in range(k, o):
                            target[l] += weight * centred[l]
                for k in range(o):
                    for l in range(k, o):
                        second[pairs[k * o + l], row] = moments[k, l] / z
        losses[i] += total


@njit(cache=True, nogil=True)
def screen_finite(sites, codes, F, base, tables, weights, first, second, losses):
    """ℓ = exp(−Σ_k η_k O_k(x)), where O has an average of zero over the values of each site."""
    O, value_ptr, column_ptr, outputs, output_ptr, pair, pair_ptr = tables
    want = second.shape[0] > 0
    for i in sites:
        first_value = value_ptr[i]
        first_column, r = column_ptr[i], column_ptr[i + 1] - column_ptr[i]
        out, o = outputs[output_ptr[i] : output_ptr[i + 1]], output_ptr[i + 1] - output_ptr[i]
        pairs = pair[pair_ptr[i] : pair_ptr[i + 1]]
        total = 0.0
        for row in range(F.shape[1]):
            at = first_value + codes[i, row]
            exponent = base[at]
            for k in range(r):
                exponent += O[at, k] * F[first_column + k, row]
            loss = math.exp(-exponent)
            total += weights[row] * loss
            for k in range(o):
                first[out[k], row] = -O[at, k] * loss
                if want:
                    for l in range(k, o):
                        second[pairs[k * o + l], row] = O[at, k] * O[at, l] * loss
        losses[i] += total


@njit(cache=True, nogil=True)
def curve(U, extras, second, tables, out, by_extra):
    """out[k] = Σ_l second[k, l] u_l by row for the columns k of each site, where u_l of an extra is the same in every
    row; by_extra += Σ_rows Σ_k second[k, l] u_k over columns k."""
    _O, _value_ptr, column_ptr, outputs, output_ptr, pair, pair_ptr = tables
    N, R = U.shape
    for i in range(len(column_ptr) - 1):
        r, o = column_ptr[i + 1] - column_ptr[i], output_ptr[i + 1] - output_ptr[i]
        for k in range(r):
            target, mine = out[column_ptr[i] + k], U[column_ptr[i] + k]
            target[:] = 0
            for l in range(o):
                weight, output = second[pair[pair_ptr[i] + k * o + l]], outputs[output_ptr[i] + l]
                if l < r:
                    other = U[output]
                    for row in range(R):
                        target[row] += weight[row] * other[row]
                else:
                    u, total = extras[output - N], 0.0
                    for row in range(R):
                        target[row] += weight[row] * u
                        total += weight[row] * mine[row]
                    by_extra[output - N] += total


@njit(cache=True, nogil=True)
def rows_beyond(codes, F, base, tables, limit, seen):
    """(n,) the number of rows in which log odds of a site, differences of Σ_k O_k(a) η_k, exceed a limit: between any
    two of its values, or of the value that it has against every other."""
    O, value_ptr, column_ptr, _outputs, _output_ptr, _pair, _pair_ptr = tables
    out = np.zeros(len(column_ptr) - 1)
    for i in range(len(column_ptr) - 1):
        first_column, r = column_ptr[i], column_ptr[i + 1] - column_ptr[i]
        for row in range(F.shape[1]):
            mine, top, bottom = 0.0, -np.inf, np.inf
            for v in range(value_ptr[i], value_ptr[i + 1]):
                exponent = base[v]
                for k in range(r):
                    exponent += O[v, k] * F[first_column + k, row]
                if seen and v == value_ptr[i] + codes[i, row]:
                    mine = exponent
                else:
                    top, bottom = max(top, exponent), min(bottom, exponent)
            if (mine - top if seen else top - bottom) > limit:
                out[i] += 1
    return out
