"""Two and three two-valued variables solved exactly, less the closed form of the same two or three.

In units of standard deviations, y = (x − m)/s, a two-valued y has the values high = √((1−p)/p) and low = −√(p/(1−p)),
and the joint probability of any three is Π p(y)·(1 + Σ C y y + κ y y y): C their correlations, κ = ⟨y_a y_b y_c⟩.
"""

from __future__ import annotations

import numpy as np

from hbm_learn._kernels.compiled import njit


@njit(cache=True, nogil=True)
def two_exact(C, up, least):
    """(n, n) Δ_ab = J_ab of a and b alone − C/(1 − C²); zero where a cell has a probability below ``least``."""
    n = len(C)
    high, low = np.sqrt((1.0 - up) / up), -np.sqrt(up / (1.0 - up))
    out = np.zeros((n, n))
    for a in range(n):
        for b in range(a):
            c = C[a, b]
            q11, q10 = 1.0 + c * high[a] * high[b], 1.0 + c * high[a] * low[b]
            q01, q00 = 1.0 + c * low[a] * high[b], 1.0 + c * low[a] * low[b]
            if (
                q11 * up[a] * up[b] < least
                or q10 * up[a] * (1 - up[b]) < least
                or q01 * (1 - up[a]) * up[b] < least
                or q00 * (1 - up[a]) * (1 - up[b]) < least
            ):
                continue
            J = np.log(q11 * q00 / (q10 * q01)) / ((high[a] - low[a]) * (high[b] - low[b]))
            out[a, b] = out[b, a] = J - c / (1.0 - c * c)
    return out


@njit(cache=True, nogil=True)
def three_exact(C, kappa, W, kept, s, up, two, least, pairs, triplets):
    """Add Σ_c (Δ_ab^(abc) − Δ_ab) to ``pairs`` (n, n), a > b, and Δ_abc to ``triplets`` (n, n, n), a > b > c.

    The third moment of a cluster is taken with ``kept`` in place of its W, the triplet that the data show: what prior
    knowledge leaves of it, so that sums over many clusters do not gather its noise. ``two``: Δ_ab of pairs alone. κ and
    W are those of columns with standard deviations s.
    """
    n = len(C)
    high, low = np.sqrt((1.0 - up) / up), -np.sqrt(up / (1.0 - up))
    ln = np.empty((2, 2, 2))
    for a in range(n):
        for b in range(a):
            ab = C[a, b]
            for c in range(b):
                ac, bc = C[a, c], C[b, c]
                spread = 1.0 + ab * ab + ac * ac + bc * bc + 2.0 * ab * ac * bc
                unit = s[a] * s[b] * s[c]
                k = kappa[a, b, c] / unit - (W[a, b, c] * unit - kept[a, b, c]) * spread
                fine = True
                for i in range(2):
                    ya, pa = (high[a], up[a]) if i else (low[a], 1.0 - up[a])
                    for j in range(2):
                        yb, pb = (high[b], up[b]) if j else (low[b], 1.0 - up[b])
                        flat, slope = 1.0 + ab * ya * yb, ac * ya + bc * yb + k * ya * yb
                        for l in range(2):
                            yc, pc = (high[c], up[c]) if l else (low[c], 1.0 - up[c])
                            q = flat + slope * yc
                            if q * pa * pb * pc < least:
                                fine = False
                            else:
                                ln[i, j, l] = np.log(q)
                if not fine:
                    continue
                J_ab, J_ac, J_bc, T = _exact(ln, a, b, c, up, high, low)
                P_ab, P_ac, P_bc, W_abc = _closed(ab, ac, bc, k, a, b, c, high, low)
                pairs[a, b] += J_ab + P_ab - two[a, b]
                pairs[a, c] += J_ac + P_ac - two[a, c]
                pairs[b, c] += J_bc + P_bc - two[b, c]
                triplets[a, b, c] += T - W_abc


@njit(cache=True, nogil=True, inline="always")
def _exact(ln, a, b, c, up, high, low):
    """J_ab, J_ac, J_bc, J_abc of the table of logarithms, about the means."""
    wa, wb, wc = high[a] - low[a], high[b] - low[b], high[c] - low[c]
    with_c = ln[1, 1, 1] - ln[1, 0, 1] - ln[0, 1, 1] + ln[0, 0, 1]
    without_c = ln[1, 1, 0] - ln[1, 0, 0] - ln[0, 1, 0] + ln[0, 0, 0]
    with_b = ln[1, 1, 1] - ln[1, 1, 0] - ln[0, 1, 1] + ln[0, 1, 0]
    without_b = ln[1, 0, 1] - ln[1, 0, 0] - ln[0, 0, 1] + ln[0, 0, 0]
    with_a = ln[1, 1, 1] - ln[1, 1, 0] - ln[1, 0, 1] + ln[1, 0, 0]
    without_a = ln[0, 1, 1] - ln[0, 1, 0] - ln[0, 0, 1] + ln[0, 0, 0]
    return (
        (up[c] * with_c + (1.0 - up[c]) * without_c) / (wa * wb),
        (up[b] * with_b + (1.0 - up[b]) * without_b) / (wa * wc),
        (up[a] * with_a + (1.0 - up[a]) * without_a) / (wb * wc),
        (with_c - without_c) / (wa * wb * wc),
    )


@njit(cache=True, nogil=True, inline="always")
def _closed(ab, ac, bc, k, a, b, c, high, low):
    """P_ab, P_ac, P_bc of the inverse of three correlations, and W_abc = Σ PPPκ, with κ_iij = g_i C_ij, g the skewness.

    As CP = 1, the part of site i is g_i (−2 P_ai P_bi P_ci + δ_ic P_ai P_bi + δ_ib P_ai P_ci + δ_ia P_bi P_ci).
    """
    ga, gb, gc = high[a] + low[a], high[b] + low[b], high[c] + low[c]
    det = 1.0 - ab * ab - ac * ac - bc * bc + 2.0 * ab * ac * bc
    aa, bb, cc = (1.0 - bc * bc) / det, (1.0 - ac * ac) / det, (1.0 - ab * ab) / det
    pab, pac, pbc = (ac * bc - ab) / det, (ab * bc - ac) / det, (ab * ac - bc) / det
    permanent = aa * (bb * cc + pbc * pbc) + bb * pac * pac + cc * pab * pab + 2.0 * pab * pbc * pac
    W = k * permanent
    W += ga * pab * pac * (1.0 - 2.0 * aa) + gb * pab * pbc * (1.0 - 2.0 * bb) + gc * pac * pbc * (1.0 - 2.0 * cc)
    return pab, pac, pbc, W


@njit(cache=True, nogil=True)
def mean_square(W, s, site):
    """⟨(W_abc s_a s_b s_c)²⟩ over triples of different sites."""
    n, total, count = len(W), 0.0, 0
    for a in range(n):
        for b in range(a):
            if site[a] == site[b]:
                continue
            for c in range(b):
                if site[c] != site[b] and site[c] != site[a]:
                    total += (W[a, b, c] * s[a] * s[b] * s[c]) ** 2
                    count += 1
    return total / max(count, 1)


@njit(cache=True, nogil=True)
def shrunk(W, s, ptr, tau2, sigma2):
    """(N, N, N) W s s s t/(t + σ²), t the larger of τ² and ⟨(W s s s)²⟩ − 16σ², zero where two columns share a site.

    The columns of site i are ``ptr[i]:ptr[i + 1]``; ⟨⟩ is over the functions of the three sites, whose basis must not
    matter.
    """
    N = len(W)
    out = np.zeros((N, N, N))
    for i in range(len(ptr) - 1):
        for j in range(i):
            for k in range(j):
                square, count = 0.0, 0
                for a in range(ptr[i], ptr[i + 1]):
                    for b in range(ptr[j], ptr[j + 1]):
                        for c in range(ptr[k], ptr[k + 1]):
                            w = W[a, b, c] * s[a] * s[b] * s[c]
                            square += w * w
                            count += 1
                t = max(tau2, square / count - 16.0 * sigma2)
                left = t / (t + sigma2) if t + sigma2 > 0.0 else 1.0
                for a in range(ptr[i], ptr[i + 1]):
                    for b in range(ptr[j], ptr[j + 1]):
                        for c in range(ptr[k], ptr[k + 1]):
                            w = W[a, b, c] * s[a] * s[b] * s[c] * left
                            out[a, b, c] = out[a, c, b] = out[b, a, c] = out[b, c, a] = out[c, a, b] = out[c, b, a] = w
    return out


@njit(cache=True, nogil=True)
def gather_loops(X, site):
    """(n, n, n) X_abc + X_bac + X_cab for a > b > c of different sites, X_c.. symmetric; zero elsewhere; and the sum of
    their squares."""
    n, total = len(X), 0.0
    out = np.zeros((n, n, n))
    for a in range(n):
        for b in range(a):
            if site[a] == site[b]:
                continue
            for c in range(b):
                if site[c] != site[b] and site[c] != site[a]:
                    x = X[a, b, c] + X[b, a, c] + X[c, a, b]
                    out[a, b, c] = x
                    total += x * x
    return out, total


@njit(cache=True, nogil=True)
def add_lower(T, D):
    """T_abc += D_abc for a > b > c, and the same to all their permutations, in place."""
    n = len(T)
    for a in range(n):
        for b in range(a):
            for c in range(b):
                x = T[a, b, c] + D[a, b, c]
                T[a, b, c] = T[a, c, b] = T[b, a, c] = T[b, c, a] = T[c, a, b] = T[c, b, a] = x


@njit(cache=True, nogil=True)
def add_ascending(W, D, s, factor):
    """W_cba += factor·D_abc/(s_a s_b s_c) for a > b > c, in place: the entries that sets of columns are read from."""
    n = len(W)
    for a in range(n):
        for b in range(a):
            for c in range(b):
                W[c, b, a] += factor * D[a, b, c] / (s[a] * s[b] * s[c])


@njit(cache=True, nogil=True)
def triplet_reaction(block, weights, V, chi):
    """½ Σ_jk T_ijk χ_jk and ½ Σ_jk T_ijk² V_j V_k, each (n,), from the triplets (p, 3) alone."""
    field, extra = np.zeros(len(V)), np.zeros(len(V))
    for r in range(len(weights)):
        i, j, k = block[r]
        t = weights[r]
        field[i] += t * chi[j, k]
        field[j] += t * chi[i, k]
        field[k] += t * chi[i, j]
        t *= t
        extra[i] += t * V[j] * V[k]
        extra[j] += t * V[i] * V[k]
        extra[k] += t * V[i] * V[j]
    return field, extra


@njit(cache=True, nogil=True)
def three_site_triplets(A, T, g, out):
    """out_abc = T_abc (g_a g_b A_ab + g_a g_c A_ac + g_b g_c A_bc + ½ g_a g_b g_c T_abc) for a > b > c."""
    n = len(A)
    for a in range(n):
        for b in range(a):
            ab = g[a] * g[b] * A[a, b]
            for c in range(b):
                t = T[a, b, c]
                ac, bc = g[a] * g[c] * A[a, c], g[b] * g[c] * A[b, c]
                out[a, b, c] = t * (ab + ac + bc + 0.5 * g[a] * g[b] * g[c] * t)
