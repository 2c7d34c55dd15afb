"""Tilted distributions of many small factors, each by Newton on a convex function (see ``inference.factors``)."""

from __future__ import annotations

import numpy as np

from hbm_learn._kernels.compiled import njit


@njit(cache=True, nogil=True)
def tilt(base, features, y, iterations):
    """For each factor y with ⟨w⟩ = 0 under p ∝ exp(base − w·y): the minimum of ln Σ exp(base − w·y).

    ``base`` (g, Q), ``features`` w (g, Q, R), ``y`` (g, R), which is changed in place. Returns p (g, Q), ln ζ (g,) and
    ⟨wwᵀ⟩ (g, R, R).
    """
    g, Q, R = features.shape
    p = np.empty((g, Q))
    log_zeta = np.empty(g)
    second = np.empty((g, R, R))
    mean = np.empty(R)
    trial = np.empty(R)
    for f in range(g):
        w = features[f]
        log_zeta[f] = _weigh(base[f], w, y[f], p[f])
        for _ in range(iterations):
            _moments(w, p[f], mean, second[f])
            step = _newton(second[f], mean)
            decrement = 0.0
            for a in range(R):
                decrement += mean[a] * step[a]
            decrement = np.sqrt(max(decrement, 0.0))
            length = 1.0 / (1.0 + decrement) if decrement > 0.3 else 1.0
            for _ in range(30):  # halve what does not go down
                for a in range(R):
                    trial[a] = y[f, a] + length * step[a]
                value = _weigh(base[f], w, trial, p[f])
                if value <= log_zeta[f] + 1e-12:
                    break
                length *= 0.5
            log_zeta[f] = value
            y[f] = trial
            if decrement < 1e-7:  # the next would be below rounding
                break
        _moments(w, p[f], mean, second[f])
    return p, log_zeta, second


@njit(cache=True, nogil=True)
def _weigh(base, w, y, p):
    """p ∝ exp(base − w·y) in place; the logarithm of its sum."""
    top = -np.inf
    for x in range(len(p)):
        e = base[x]
        for a in range(len(y)):
            e -= w[x, a] * y[a]
        p[x] = e
        top = max(top, e)
    total = 0.0
    for x in range(len(p)):
        p[x] = np.exp(p[x] - top)
        total += p[x]
    for x in range(len(p)):
        p[x] /= total
    return top + np.log(total)


@njit(cache=True, nogil=True)
def _moments(w, p, mean, second):
    """⟨w⟩ and ⟨wwᵀ⟩ in place."""
    mean[:] = 0.0
    second[:] = 0.0
    R = len(mean)
    for x in range(len(p)):
        for a in range(R):
            mean[a] += p[x] * w[x, a]
            for b in range(a + 1):
                second[a, b] += p[x] * w[x, a] * w[x, b]
    for a in range(R):
        for b in range(a):
            second[b, a] = second[a, b]


@njit(cache=True, nogil=True)
def _newton(second, mean):
    """(⟨wwᵀ⟩ − ⟨w⟩⟨w⟩ᵀ)⁻¹⟨w⟩ by Cholesky, a trace of 1e-14 added."""
    R = len(mean)
    L = np.empty((R, R))
    x = mean.copy()
    for a in range(R):
        for b in range(a + 1):
            value = second[a, b] - mean[a] * mean[b]
            if a == b:
                value += 1e-14
            for c in range(b):
                value -= L[a, c] * L[b, c]
            L[a, b] = np.sqrt(max(value, 1e-14)) if a == b else value / L[b, b]
    for a in range(R):
        for c in range(a):
            x[a] -= L[a, c] * x[c]
        x[a] /= L[a, a]
    for a in range(R - 1, -1, -1):
        for c in range(a + 1, R):
            x[a] -= L[c, a] * x[c]
        x[a] /= L[a, a]
    return x
