"""One variable given the others, row by row, and the tails of sums of its scores.

    p_r(v) ∝ exp(Σ_k η_kr O_k(v)),     φ_r(v) = Σ_k h_kr (O_k(v) − ⟨O_k⟩_r),     S = Σ_r w_r φ_r(x_r)

η and h are (o, R) for the o functions O (q, o) of the variable and R rows.
"""

from __future__ import annotations

import math

import numpy as np

from hbm_learn._kernels.compiled import njit

# Rows with |t φ| below this enter K(t) through their cumulants up to the fourth; the rest of the series is below 1e-4
# of its first term there.
SMALL = 0.25
# Closer to its largest possible value than this, S is taken to be there.
EDGE = 1e-6
NEWTON = 60


@njit(cache=True, nogil=True)
def products(Y, rows, start, out):
    """out_tr = Π_j Y_{rows_tj, start + r} for rows (T, k) and out (T, C)."""
    T, k = rows.shape
    C = out.shape[1]
    for t in range(T):
        first = Y[rows[t, 0], start : start + C]
        if k == 1:
            for r in range(C):  # out[t] = first would take four times as long to compile as the rest
                out[t, r] = first[r]
            continue
        second = Y[rows[t, 1], start : start + C]
        for r in range(C):
            out[t, r] = first[r] * second[r]
        for j in range(2, k):
            other = Y[rows[t, j], start : start + C]
            for r in range(C):
                out[t, r] *= other[r]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def weighted_sums(G, residual, C, S, raw):
    """S_t += Σ_r G_tr residual_r and raw_t += Σ_r G_tr² C_r."""
    for t in range(G.shape[0]):
        first, second = 0.0, 0.0
        for r in range(G.shape[1]):
            first += G[t, r] * residual[r]
            second += G[t, r] * G[t, r] * C[r]
        S[t] += first
        raw[t] += second


@njit(cache=True, nogil=True)
def _probabilities(eta, r, O, p):
    """p_r in place; returns ln Σ exp."""
    q, o = O.shape
    if q == 2 and o == 1:
        low, high = eta[0, r] * O[0, 0], eta[0, r] * O[1, 0]
        e = math.exp(-abs(high - low))
        p[1] = 1.0 / (1.0 + e) if high > low else e / (1.0 + e)
        p[0] = e / (1.0 + e) if high > low else 1.0 / (1.0 + e)
        return max(low, high) + math.log1p(e)
    top = -np.inf
    for v in range(q):
        f = 0.0
        for k in range(o):
            f += eta[k, r] * O[v, k]
        p[v] = f
        top = max(top, f)
    total = 0.0
    for v in range(q):
        p[v] = math.exp(p[v] - top)
        total += p[v]
    for v in range(q):
        p[v] /= total
    return top + math.log(total)


@njit(cache=True, nogil=True)
def residuals(eta, O, x, w, out):
    """out_kr = w_r (O_k(x_r) − ⟨O_k⟩_r) for each of B parameters: η and out (B, o, R). Returns Σ w ln p(x) (B,)."""
    B, o, R = eta.shape
    q = O.shape[0]
    p, loglik = np.empty(q), np.zeros(B)
    for b in range(B):
        for r in range(R):
            log_z = _probabilities(eta[b], r, O, p)
            exponent = 0.0
            for k in range(o):
                exponent += eta[b, k, r] * O[x[r], k]
                mean = 0.0
                for v in range(q):
                    mean += p[v] * O[v, k]
                out[b, k, r] = w[r] * (O[x[r], k] - mean)
            loglik[b] += w[r] * (exponent - log_z)
    return loglik


@njit(cache=True, nogil=True)
def covariances(eta, O, w, out):
    """out_klr = w_r Cov_r(O_k, O_l), (o, o, R), for η (o, R)."""
    o, R = eta.shape
    q = O.shape[0]
    p, mean = np.empty(q), np.empty(o)
    for r in range(R):
        _probabilities(eta, r, O, p)
        for k in range(o):
            mean[k] = 0.0
            for v in range(q):
                mean[k] += p[v] * O[v, k]
        for k in range(o):
            for l in range(k, o):
                total = 0.0
                for v in range(q):
                    total += p[v] * (O[v, k] - mean[k]) * (O[v, l] - mean[l])
                out[k, l, r] = out[l, k, r] = w[r] * total


@njit(cache=True, nogil=True)
def covariance_products(eta, h, O, w, out):
    """out_kr = w_r Σ_l Cov_r(O_k, O_l) h_lr for each of B: all (B, o, R)."""
    B, o, R = h.shape
    q = O.shape[0]
    p, phi = np.empty(q), np.empty(q)
    for b in range(B):
        for r in range(R):
            _probabilities(eta[b], r, O, p)
            _scores(h[b], r, O, p, phi)
            for k in range(o):
                total = 0.0
                for v in range(q):
                    total += p[v] * phi[v] * O[v, k]
                out[b, k, r] = w[r] * total


@njit(cache=True, nogil=True)
def _scores(h, r, O, p, phi):
    """φ_r in place."""
    q, o = O.shape
    mean = 0.0
    for v in range(q):
        f = 0.0
        for k in range(o):
            f += h[k, r] * O[v, k]
        phi[v] = f
        mean += p[v] * f
    for v in range(q):
        phi[v] -= mean


@njit(cache=True, nogil=True)
def tail(eta, h, O, x, w, least):
    """The deviate z of S with the saddlepoint as reference, for η and h (o, R); see ``saddlepoint``.

    Returns z, S, and V = Σ w Var φ. Where |S|/√V ≤ least, z is that.
    """
    q, R = O.shape[0], eta.shape[1]
    p, phi = np.empty((R, q)), np.empty((R, q))
    reach = np.empty(R)
    S, V, loglik, highest, lowest = 0.0, 0.0, 0.0, 0.0, 0.0
    for r in range(R):
        _probabilities(eta, r, O, p[r])
        _scores(h, r, O, p[r], phi[r])
        variance, high, low = 0.0, phi[r, 0], phi[r, 0]
        for v in range(q):
            variance += p[r, v] * phi[r, v] ** 2
            high, low = max(high, phi[r, v]), min(low, phi[r, v])
        reach[r] = max(high, -low)
        S += w[r] * phi[r, x[r]]
        V += w[r] * variance
        highest += w[r] * high
        lowest += w[r] * low
        loglik += w[r] * math.log(max(p[r, x[r]], 1e-300))
    if not V > 0.0:
        return 0.0, S, V
    z = S / math.sqrt(V)
    if abs(z) <= least:
        return z, S, V
    sign = 1.0 if S > 0.0 else -1.0
    # No tail is less probable than the one outcome that was seen.
    most = math.sqrt(max(-2.0 * loglik, 0.0))
    edge = highest if S > 0.0 else -lowest
    if abs(S) >= (1.0 - EDGE) * edge:
        return sign * min(_edge_deviate(p, phi, w, sign), most), S, V
    t, K, K2 = _solve(p, phi, reach, w, S, V)
    root = math.sqrt(max(2.0 * (t * S - K), 0.0))
    u = abs(t) * math.sqrt(K2)
    if root < 1e-3 or not u > 0.0:
        return sign * min(abs(z), most), S, V
    return sign * min(max(root + math.log(u / root) / root, 0.0), most), S, V


@njit(cache=True, nogil=True)
def _edge_deviate(p, phi, w, sign):
    """|z| of half the probability that every row has its largest sign·φ: what mid-p is at the edge of the support."""
    log_p = math.log(0.5)
    for r in range(len(w)):
        top, mass = -np.inf, 0.0
        for v in range(p.shape[1]):
            top = max(top, sign * phi[r, v])
        for v in range(p.shape[1]):
            if sign * phi[r, v] >= top - 1e-9 * abs(top):
                mass += p[r, v]
        log_p += w[r] * math.log(max(mass, 1e-300))
    return _normal_isf(log_p)


@njit(cache=True, nogil=True)
def _normal_isf(log_p):
    """z ≥ 0 with ln Φ(−z) = log_p ≤ ln ½, by Newton on the logarithm."""
    z = math.sqrt(-2.0 * log_p)
    for _ in range(50):
        log_tail, slope = _log_normal_tail(z)
        step = (log_tail - log_p) / slope
        z = max(z - step, 0.0)
        if abs(step) < 1e-12 * (1.0 + z):
            break
    return z


@njit(cache=True, nogil=True)
def _log_normal_tail(z):
    """ln Φ(−z) and its derivative."""
    if z < 30.0:
        value = 0.5 * math.erfc(z / math.sqrt(2.0))
        return math.log(value), -math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) / value
    return -0.5 * z * z - math.log(z * math.sqrt(2.0 * math.pi)), -z - 1.0 / z


@njit(cache=True, nogil=True)
def _solve(p, phi, reach, w, S, V):
    """t with K'(t) = S, then K(t) and K''(t). K' increases, so that Newton keeps to a bracket."""
    limit = 2.0 * abs(S) / V
    large, cumulants = _split(p, phi, reach, w, limit)
    low, high = (0.0, np.inf) if S > 0.0 else (-np.inf, 0.0)
    t = S / V
    for _ in range(NEWTON):
        if abs(t) > limit:
            limit = 2.0 * abs(t)
            large, cumulants = _split(p, phi, reach, w, limit)
        K1, K2 = _derivatives(p, phi, w, large, cumulants, t)[1:]
        if K1 > S:
            high = t
        else:
            low = t
        new = t + (S - K1) / K2 if K2 > 0.0 else np.nan
        if not low < new < high:
            # A bracket open towards infinity is widened.
            new = 2.0 * t if np.isinf(low) or np.isinf(high) else 0.5 * (low + high)
        if abs(new - t) <= 1e-9 * abs(t):
            t = new
            break
        t = new
    K, _, K2 = _derivatives(p, phi, w, large, cumulants, t)
    return t, K, K2


@njit(cache=True, nogil=True)
def _split(p, phi, reach, w, limit):
    """Rows whose |t φ| may be large for |t| ≤ limit, and the summed cumulants κ₂, κ₃, κ₄ of the others."""
    count = 0
    large = np.empty(len(w), dtype=np.int64)
    cumulants = np.zeros(3)
    for r in range(len(w)):
        if reach[r] * limit > SMALL:
            large[count] = r
            count += 1
            continue
        m2, m3, m4 = 0.0, 0.0, 0.0
        for v in range(p.shape[1]):
            square = phi[r, v] * phi[r, v]
            m2 += p[r, v] * square
            m3 += p[r, v] * square * phi[r, v]
            m4 += p[r, v] * square * square
        cumulants[0] += w[r] * m2
        cumulants[1] += w[r] * m3
        cumulants[2] += w[r] * (m4 - 3.0 * m2 * m2)
    return large[:count], cumulants


@njit(cache=True, nogil=True)
def _derivatives(p, phi, w, large, cumulants, t):
    """K(t) = Σ_r w_r ln Σ_v p_r(v) exp(t φ_r(v)), K' and K''."""
    k2, k3, k4 = cumulants
    K = t * t * (k2 / 2.0 + t * (k3 / 6.0 + t * k4 / 24.0))
    K1 = t * (k2 + t * (k3 / 2.0 + t * k4 / 6.0))
    K2 = k2 + t * (k3 + t * k4 / 2.0)
    q = p.shape[1]
    for r in large:
        top = -np.inf
        for v in range(q):
            top = max(top, t * phi[r, v])
        m0, m1, m2 = 0.0, 0.0, 0.0
        for v in range(q):
            e = p[r, v] * math.exp(t * phi[r, v] - top)
            m0 += e
            m1 += e * phi[r, v]
            m2 += e * phi[r, v] ** 2
        if m0 <= 0.0:  # the value that the tilt asks for has no probability that a float can hold
            continue
        mean = m1 / m0
        K += w[r] * (top + math.log(m0))
        K1 += w[r] * mean
        K2 += w[r] * (m2 / m0 - mean * mean)
    return K, K1, K2
