"""One variable given the others: monomials, local fields, and the losses of a site with their derivatives.

Arrays lie site by site, (n, R) for R rows, so that every inner loop runs over contiguous rows. Losses write
∂ℓ/∂f, ∂ℓ/∂d into ``first`` (T, n, R) and ∂²ℓ/∂f², ∂²ℓ/∂f∂d, ∂²ℓ/∂d² into ``second`` (T(T+1)/2, n, R), T = 1 without d;
an empty ``second`` is left alone. They return Σ_rows w ℓ for each site.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def monomials(X, members, indptr, out):
    """out[m] = Π_{j∈ν_m} x_j over rows; ν_m = members[indptr[m]:indptr[m + 1]], the empty product is 1."""
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
def fields(Phi, theta, monomial, param, site_ptr, out):
    """out[i] = Σ_e θ[param_e] Φ[monomial_e] over the entries e of site i."""
    for i in range(len(site_ptr) - 1):
        total = out[i]
        total[:] = 0
        for e in range(site_ptr[i], site_ptr[i + 1]):
            weight, row = theta[param[e]], Phi[monomial[e]]
            for r in range(len(row)):
                total[r] += weight * row[r]


@njit(cache=True, nogil=True, fastmath=True)
def adjoint(Phi, Z, monomial, site_ptr, out):
    """out[e] = Σ_rows Z[i] Φ[monomial_e] for the entries e of each site i."""
    for i in range(len(site_ptr) - 1):
        z = Z[i]
        for e in range(site_ptr[i], site_ptr[i + 1]):
            row = Phi[monomial[e]]
            total = row[0] * z[0]
            for r in range(1, len(row)):
                total += row[r] * z[r]
            out[e] = total


def pseudo_binary(codes, F, d, values, weights, first, second):
    """ℓ = ln Σ_a e^{f a} − f x for two values a; d plays no part. Whole arrays: NumPy's exp and log are vectorised."""
    width = F.dtype.type(values[1] - values[0])
    sign = codes.astype(F.dtype)
    sign *= 2 * width
    sign -= width
    margin = F * sign
    small = np.abs(margin)
    np.negative(small, out=small)
    np.exp(small, out=small)  # e^{−|t|} never overflows
    total = small + F.dtype.type(1)
    wrong = np.where(margin >= 0, small, F.dtype.type(1))  # up to 1/total: the probability of the other value
    wrong /= total
    np.multiply(wrong, -sign, out=first[0])
    if len(second):
        np.subtract(1, wrong, out=second[0])
        second[0] *= wrong
        second[0] *= width * width
    np.log(total, out=total)
    total -= np.minimum(margin, 0, out=margin)
    return total.astype(np.float64) @ weights


@njit(cache=True, nogil=True)
def pseudo_finite(codes, F, d, values, weights, first, second):
    """ℓ = ln Σ_a e^{f a − d a²/2} − f x + d x²/2: derivatives are the moments of the site distribution."""
    q = len(values)
    want = second.shape[0] > 0
    exponent = np.empty(q)
    losses = np.zeros(F.shape[0])
    for i in range(F.shape[0]):
        total = 0.0
        for r in range(F.shape[1]):
            f = float(F[i, r])
            top = -np.inf
            for a in range(q):
                exponent[a] = (f - 0.5 * d[i] * values[a]) * values[a]
                top = max(top, exponent[a])
            z = m1 = m2 = 0.0
            for a in range(q):
                e = math.exp(exponent[a] - top)
                z += e
                m1 += e * values[a]
                m2 += e * values[a] ** 2
            m1, m2 = m1 / z, m2 / z
            x = values[codes[i, r]]
            total += weights[r] * (top + math.log(z) - exponent[codes[i, r]])
            first[0, i, r] = m1 - x
            first[1, i, r] = 0.5 * (x * x - m2)
            if want:
                v11 = v12 = v22 = 0.0
                for a in range(q):
                    e = math.exp(exponent[a] - top) / z
                    c1, c2 = values[a] - m1, -0.5 * (values[a] ** 2 - m2)
                    v11 += e * c1 * c1
                    v12 += e * c1 * c2
                    v22 += e * c2 * c2
                second[0, i, r], second[1, i, r], second[2, i, r] = v11, v12, v22
        losses[i] = total
    return losses


@njit(cache=True, nogil=True)
def screen(codes, F, d, values, weights, first, second):
    """ℓ = exp(−f g₁(x) + d g₂(x)/2), g₁ = x − ⟨x⟩, g₂ = x² − ⟨x²⟩ with averages over the alphabet; one or two terms."""
    two = first.shape[0] == 2
    want = second.shape[0] > 0
    g1 = values - values.mean()
    g2 = -0.5 * (values**2 - (values**2).mean())
    losses = np.zeros(F.shape[0])
    for i in range(F.shape[0]):
        total = 0.0
        for r in range(F.shape[1]):
            a, b = g1[codes[i, r]], g2[codes[i, r]]
            exponent = F[i, r] * a
            if two:
                exponent += d[i] * b
            loss = math.exp(-exponent)
            total += weights[r] * loss
            first[0, i, r] = -a * loss
            if two:
                first[1, i, r] = -b * loss
            if want:
                second[0, i, r] = a * a * loss
                if two:
                    second[1, i, r], second[2, i, r] = a * b * loss, b * b * loss
        losses[i] = total
    return losses


@njit(cache=True, nogil=True)
def scores(Phi, first, monomial, param, site_ptr, out):
    """out[param_e] += ∂ℓ_i/∂f · Φ[monomial_e], row by row, for the entries e of each site i: scores of every row."""
    out[:] = 0
    for i in range(len(site_ptr) - 1):
        slope = first[i]
        for e in range(site_ptr[i], site_ptr[i + 1]):
            row, total = Phi[monomial[e]], out[param[e]]
            for r in range(len(row)):
                total[r] += slope[r] * row[r]
