"""Moments of a site distribution q(x) ∝ exp(b x − c x²/2), and the way back from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class SiteMoments:
    """Moments of q(x) ∝ exp(b x − c x²/2); every field has the shape of b.

    Central moments are stored because V = v − m² loses all digits to cancellation when a site is frozen.
    """

    log_z: np.ndarray
    m: np.ndarray
    V: np.ndarray
    mu3: np.ndarray
    mu4: np.ndarray

    @property
    def v(self) -> np.ndarray:
        """⟨x²⟩ = V + m²."""
        return self.V + self.m**2

    @property
    def raw(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """⟨x⟩, ⟨x²⟩, ⟨x³⟩, ⟨x⁴⟩."""
        m, V, mu3, mu4 = self.m, self.V, self.mu3, self.mu4
        return m, self.v, mu3 + 3 * m * V + m**3, mu4 + 4 * m * mu3 + 6 * m**2 * V + m**4


def weighted_moments(x: np.ndarray, log_q: np.ndarray) -> SiteMoments:
    """Moments of the distributions ∝ exp(log_q) over the values x, both along the last axis."""
    peak = log_q.max(axis=-1, keepdims=True)
    q = np.exp(log_q - peak)
    z = q.sum(axis=-1)
    q /= z[..., None]
    m = (q * x).sum(axis=-1)
    centred = x - m[..., None]
    q *= centred**2
    V = q.sum(axis=-1)
    q *= centred
    mu3 = q.sum(axis=-1)
    q *= centred
    return SiteMoments(log_z=peak[..., 0] + np.log(z), m=m, V=V, mu3=mu3, mu4=q.sum(axis=-1))


def gaussian_moments(b: np.ndarray, c: np.ndarray) -> SiteMoments:
    if (c <= 0).any():
        i = int(np.flatnonzero(np.ravel(c) <= 0)[0])
        raise ValueError(f'alphabet "real": c = {np.ravel(c)[i]:g} at site {i}; exp(bx − cx²/2) needs c > 0.')
    V = 1.0 / c
    m = b * V
    log_z = 0.5 * b * m + 0.5 * np.log(2 * np.pi * V)
    return SiteMoments(log_z=log_z, m=m, V=V, mu3=np.zeros_like(V), mu4=3 * V**2)


def solve_sites(unit: Any, m: np.ndarray, v: np.ndarray, tol: float) -> tuple[np.ndarray, np.ndarray]:
    """Damped Newton on the convex ln z(b, c) − b m + c v/2, all sites at once; the alphabet spans [−1, 1].

    Statistics t = (x − m, ((x² − v))/2 with the sign of −c): gradient and Hessian are their first two cumulants.
    """
    b, c = np.zeros_like(m), np.zeros_like(m)

    def objective(b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, SiteMoments]:
        s = unit.site_moments(b, c)
        return s.log_z - b * m + 0.5 * c * v, s

    f, s = objective(b, c)
    for _ in range(500):
        gm, gv = s.m - m, s.v - v
        if max(np.abs(gm).max(initial=0.0), np.abs(gv).max(initial=0.0)) <= tol:
            break
        # Orthogonalise x² against x: Cov(x², x) = μ₃ + 2mV, Var(x²) = μ₄ − V² + 4mμ₃ + 4m²V.
        V = np.maximum(s.V, 1e-300)
        skew = s.mu3 / V
        slope = skew + 2 * s.m
        rest = np.maximum(s.mu4 - V**2 - skew * s.mu3, 1e-300)  # Var(x²) given x
        dw = -(gv - slope * gm) / rest  # step of −c/2
        db = -gm / V - slope * dw
        decrement = gm**2 / V + (gv - slope * gm) ** 2 / rest
        step = np.where(decrement > 0.25, 1.0 / (1.0 + np.sqrt(decrement)), 1.0)
        done = decrement <= 1e-30
        db, dw = np.where(done, 0.0, db), np.where(done, 0.0, dw)
        for _ in range(60):
            f_new, s_new = objective(b + step * db, c - 2 * step * dw)
            slack = 1e-4 * step * decrement - 1e-13 * (1 + np.abs(f))
            worse = ~(f_new <= f - slack)
            if not worse.any():
                break
            step = np.where(worse, 0.5 * step, step)
        b, c = b + step * db, c - 2 * step * dw
        f, s = f_new, s_new
    else:
        worst = int(np.argmax(np.maximum(np.abs(s.m - m), np.abs(s.v - v))))
        raise ValueError(
            f"variable {worst}: the moments are so near the edge of what {unit} attains that b and c cannot be found."
        )
    return b, c
