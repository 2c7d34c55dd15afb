"""Draws of one variable, q(x) ∝ exp(θ(x) + b·φ(x)) on a list of values, q(x) ∝ exp(b x − c x²/2) on an interval.

For many chains ("lanes") at once.

Random bits: xoshiro256++ (Blackman & Vigna 2021), one generator a lane, state (4, L), so that a loop over lanes is one
over contiguous words, which LLVM turns into vector instructions. Period 2²⁵⁶ − 1; it passes BigCrush and PractRand.
Lanes are seeded from ``numpy.random.SeedSequence``: no run is long enough for two of them to overlap.
"""

from __future__ import annotations

from math import log, log1p, pi, sqrt

import numpy as np

from hbm_learn._kernels.compiled import njit

# exp(r) on |r| ≤ ln 2 / 2 by its Taylor polynomial of degree 11: relative error below 1e-14.
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11 = (float(1.0 / np.prod(np.arange(1.0, k + 1))) for k in range(2, 12))
_LOG2_HIGH, _LOG2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # their sum is ln 2; n·_LOG2_HIGH is exact
_ROUND = 1.5 * 2.0**52  # adding it leaves the nearest integer in the low bits of the mantissa
_ONE = np.uint64(0x3FF0000000000000)  # the bits of 1.0


@njit(cache=True, inline="always")
def _rotate(x, k):
    return (x << np.uint64(k)) | (x >> np.uint64(64 - k))


@njit(cache=True, inline="always")
def uniform(state, l):
    """The next uniform of lane l: an odd multiple of 2⁻⁵³ in (0, 1), from the 52 leading bits of xoshiro256++."""
    s0, s1, s2, s3 = state[0, l], state[1, l], state[2, l], state[3, l]
    bits = _rotate(s0 + s3, 23) + s0
    t = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= t
    s3 = _rotate(s3, 45)
    state[0, l], state[1, l], state[2, l], state[3, l] = s0, s1, s2, s3
    return np.uint64((bits >> np.uint64(12)) | _ONE).view(np.float64) - (1.0 - 2.0**-53)


@njit(cache=True, inline="always")
def exp_clipped(x):
    """exp(x) for x clipped to ±700, without a branch or a call, so that loops over lanes stay vectorised."""
    x = min(max(x, -700.0), 700.0)
    shifted = x * 1.4426950408889634 + _ROUND
    n = shifted - _ROUND
    r = (x - n * _LOG2_HIGH) - n * _LOG2_LOW
    p = _C11 * r + _C10
    p = p * r + _C9
    p = p * r + _C8
    p = p * r + _C7
    p = p * r + _C6
    p = p * r + _C5
    p = p * r + _C4
    p = p * r + _C3
    p = p * r + _C2
    p = (p * r + 1.0) * r + 1.0
    power = (np.float64(shifted).view(np.uint64) << np.uint64(52)) + _ONE  # the bits of 2ⁿ
    return p * np.uint64(power).view(np.float64)


@njit(cache=True, nogil=True, fastmath={"contract"})
def draw_binary(x, b, bias, low, high, state):
    """x ← high with probability 1/(1 + exp(−z)), z = (high − low) b − bias, else low; one draw a lane.

    ``x`` and ``b`` are (L,); low and high are φ of the two values, bias = θ(first) − θ(second).
    """
    gap = high - low
    for l in range(len(x)):
        u = uniform(state, l)
        odds = exp_clipped(bias - gap * b[l])
        x[l] = high if u + u * odds < 1.0 else low


@njit(cache=True, nogil=True, fastmath={"contract"})
def draw_finite(code, X, first, r, b, own, at, q, phi, start, state, work):
    """code ← k with probability ∝ exp(θ_k + Σ_c b_c φ_ck), by inversion, and X[first + c] ← φ_ck; one draw a lane.

    ``code`` is (L,), ``b`` (r, L), θ own[at:at + q], and φ the (r, q) table that begins at phi[start]: whole arrays and
    offsets, as views would cost more than the draw in few lanes. ``work`` is a scratch array of q + 2 rows.
    """
    L = X.shape[1]
    peak, total = q, q + 1
    for l in range(L):
        work[peak, l] = -np.inf
        work[total, l] = 0.0
    for k in range(q):
        theta, height = own[at + k], phi[start + k]
        for l in range(L):
            work[k, l] = theta + height * b[0, l]
        for c in range(1, r):
            height = phi[start + c * q + k]
            for l in range(L):
                work[k, l] += height * b[c, l]
        for l in range(L):
            work[peak, l] = max(work[peak, l], work[k, l])
    for k in range(q):
        for l in range(L):
            work[total, l] += exp_clipped(work[k, l] - work[peak, l])
            work[k, l] = work[total, l]
    for l in range(L):
        work[total, l] *= uniform(state, l)
        code[l] = 0.0
    for k in range(1, q):
        for l in range(L):
            code[l] = float(k) if work[total, l] >= work[k - 1, l] else code[l]
    for c in range(r):
        for l in range(L):
            X[first + c, l] = phi[start + c * q + int(code[l])]


# ---------------------------------------------------------------------- intervals


@njit(cache=True)
def _truncated_exponential(u, rate, length):
    """y ∈ [0, length] with density ∝ exp(−rate·y), rate ≥ 0, by inversion."""
    t = rate * length
    if t < 1e-8:  # log1p(u·expm1(−t)) would lose the digits that matter; the error of this line is O(t)² of a draw
        return length * u * (1.0 - 0.5 * t * (1.0 - u))
    return min(-log1p(u * np.expm1(-t)) / rate, length)


@njit(cache=True)
def _draw_convex(b, c, low, high, state, l):
    """c < 0: the exponent is convex, so it lies below its chord on each side of its vertex b/c.

    Propose from the chords, whose slope is at least half the slope at the high end of the piece: acceptance > 1/2.
    """
    vertex = min(max(b / c, low), high)
    left, right = vertex - low, high - vertex
    g_low, g_high = b * low - 0.5 * c * low * low, b * high - 0.5 * c * high * high
    # On each piece, y is the distance from its outer end, and the exponent falls as −s y − c y²/2.
    r_left = max(c * low - b + 0.5 * c * left, 0.0)
    r_right = max(b - c * high + 0.5 * c * right, 0.0)
    peak = max(g_low, g_high)
    mass_left = np.exp(g_low - peak) * _exponential_mass(r_left, left)
    mass_right = np.exp(g_high - peak) * _exponential_mass(r_right, right)
    while True:
        if uniform(state, l) * (mass_left + mass_right) < mass_left:
            y = _truncated_exponential(uniform(state, l), r_left, left)
            x, length = low + y, left
        else:
            y = _truncated_exponential(uniform(state, l), r_right, right)
            x, length = high - y, right
        if uniform(state, l) < np.exp(0.5 * c * y * (length - y)):
            return x


@njit(cache=True)
def _exponential_mass(rate, length):
    """∫₀^length exp(−rate·y) dy."""
    return -np.expm1(-rate * length) / rate if rate * length > 1e-300 else length


@njit(cache=True)
def _draw_tail(s, c, length, state, l):
    """y ∈ [0, length] with density ∝ exp(−s y − c y²/2), s ≥ 0 and c ≥ 0: one side of a Gaussian.

    Robert (1995): propose exp(−r y) with r = (s + √(s² + 4c))/2, accept with exp(−c (y − 1/r)²/2), acceptance > 3/4 on
    the half line; when the interval ends before 1/r, propose exp(−s y), accept with exp(−c y²/2) > exp(−1/2).
    """
    r = 0.5 * (s + sqrt(s * s + 4.0 * c))
    centre = 1.0 / r if r * length > 1.0 else 0.0
    rate = r if r * length > 1.0 else s
    while True:
        y = _truncated_exponential(uniform(state, l), rate, length)
        if uniform(state, l) < np.exp(-0.5 * c * (y - centre) ** 2):
            return y


@njit(cache=True)
def _draw_bell(mean, c, low, high, state, l):
    """c > 0, the vertex inside: Gaussian proposals if the interval is wide, uniform ones if not; acceptance ≥ 0.49."""
    deviation = 1.0 / sqrt(c)
    wide = high - low > 2.5 * deviation
    while True:
        u, v = uniform(state, l), uniform(state, l)
        if wide:
            x = mean + deviation * sqrt(-2.0 * log(u)) * np.cos(2.0 * pi * v)
            if low <= x <= high:
                return x
        else:
            x = low + (high - low) * u
            if v < np.exp(-0.5 * c * (x - mean) ** 2):
                return x


@njit(cache=True, nogil=True)
def draw_interval(x, b, c, values, state):
    """x ← exact draw with density ∝ exp(b x − c x²/2) on [low, high] = values, for any b and any sign of c."""
    low, high = values[0], values[1]
    for l in range(len(x)):
        slope_low, slope_high = b[l] - c * low, b[l] - c * high  # of the exponent, at the ends
        if c < 0.0:
            x[l] = _draw_convex(b[l], c, low, high, state, l)
        elif slope_low <= 0.0:
            x[l] = low + _draw_tail(-slope_low, c, high - low, state, l)
        elif slope_high >= 0.0:
            x[l] = high - _draw_tail(slope_high, c, high - low, state, l)
        else:
            x[l] = _draw_bell(b[l] / c, c, low, high, state, l)
