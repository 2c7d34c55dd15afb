"""The power of a score test that rests on a pattern of values which few rows have.

    N ~ Poisson(M λ₁),   λ̂ = N (1 − a/(1 + β)) − R/(1 + β),   R = Σ scores of all other rows,   S = (1 + β)(N − λ̂)
    z(S) = w + ln(u/w)/w   of   K(t) = λ̂ (eᵗ − 1 − t + β t²/2)

N counts the rows with the pattern: λ₁ is its probability, λ₀ what it would be without the interaction. S is the score
in units of what a row with the pattern moves it by under the null, where its variance is M λ₀ (1 + β); λ̂ are the rows
with the pattern that the test expects in a table, as good as normal and not negative. Where these are few, the deviate
of the test has steps and ends at N = 0: if a rare pattern is made rarer still, even none at all may be no evidence. A
normal deviate knows nothing of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from scipy import special, stats
from scipy.interpolate import RegularGridInterpolator

from hbm_learn.assessment.saddlepoint import GAUSSIAN

# A pattern counts as rare while the squared skewness of the score, 1/(M λ₀ (1 + β)³), is above one over this.
FEW = 30.0
# Rows with it beyond which the pattern is not rare, whatever it would be without the interaction.
MANY = 100.0
# Numbers of rows and deviates at which powers are computed, up to the largest, and quantiles of λ̂.
_N_ROWS, _N_DEVIATES, _N_QUANTILES, _LARGEST = 80, 161, 21, 10.0
# Newton steps at most, and the last.
_NEWTON, _ENOUGH = 60, 1e-6
# λ̂ at least, of its mean; and what is none of λ̂ and β.
_FLOOR, _LEAST = 0.1, 1e-3


@dataclass(frozen=True, eq=False)
class RarePattern:
    """What one row says of the pattern.

    Attributes
    ----------
    expected, probability : float
        λ₀ and λ₁.
    jump : float
        a, the mean score of a row with the pattern: 1 under the null.
    rest, rest_variance : float
        Mean and variance of R.
    beta : float
        The share of the null's variance that other patterns have, over that of this one.
    """

    expected: float
    probability: float
    jump: float
    rest: float
    rest_variance: float
    beta: float

    @property
    def most_rows(self) -> float:
        """So many rows, and the pattern is rare no more."""
        few = FEW / (self.expected * (1.0 + self.beta) ** 3)
        return min(few, MANY / max(self.probability, 1e-300))

    def power(self, M: np.ndarray, c: np.ndarray) -> np.ndarray:
        """P(|z| > c) with M rows, of arrays of one shape."""
        return self._table(np.stack([np.log(np.clip(M, 1.0, self.most_rows)), np.minimum(c, _LARGEST)], axis=-1))

    @cached_property
    def _table(self) -> RegularGridInterpolator:
        """P(|z| > c), by ln M and c."""
        M, c = np.geomspace(1.0, self.most_rows, _N_ROWS), np.linspace(0.0, _LARGEST, _N_DEVIATES)
        values = np.array([self._exceedance(each, c) for each in M])
        return RegularGridInterpolator((np.log(M), c), values)

    def _exceedance(self, M: float, c: np.ndarray) -> np.ndarray:
        """(c,) P(|z| > c) with M rows."""
        N = np.arange(int(stats.poisson.isf(1e-5, M * self.probability)) + 2)
        told = np.maximum(N * (1.0 - self.jump / (1.0 + self.beta)) - M * self.rest / (1.0 + self.beta), _LEAST)
        normal = special.ndtri((np.arange(_N_QUANTILES) + 0.5) / _N_QUANTILES)
        size = told[:, None] + np.sqrt(M * self.rest_variance) / (1.0 + self.beta) * normal
        z = np.abs(self.deviates(N[:, None], np.maximum(size, _FLOOR * told[:, None])))
        order = np.argsort(z, axis=None)
        share = np.repeat(stats.poisson.pmf(N, M * self.probability) / _N_QUANTILES, _N_QUANTILES)[order]
        above = np.append(np.cumsum(share[::-1])[::-1], 0.0)
        return np.minimum(above[np.searchsorted(z.ravel()[order], c, side="right")], 1.0)

    def deviates(self, N: np.ndarray, size: np.ndarray) -> np.ndarray:
        """z of the test in tables in which N rows have the pattern and λ̂ are expected, of its saddlepoint where that is
        asked."""
        N, size = np.broadcast_arrays(N, size)
        y = (1.0 + self.beta) * (N / size - 1.0)
        z = y * np.sqrt(size / (1.0 + self.beta))
        far = np.abs(z) > GAUSSIAN
        z[far] = np.sign(y[far]) * self._saddlepoints(size[far], y[far])
        return z

    def _saddlepoints(self, size: np.ndarray, y: np.ndarray) -> np.ndarray:
        """|z| of scores y λ̂."""
        beta = max(self.beta, _LEAST)
        t = np.where(y > 0.0, np.log1p(np.maximum(y, 0.0)), y / (1.0 + beta))  # right of the root of a convex function
        for _ in range(_NEWTON):
            e = np.exp(t)
            step = (e - 1.0 + beta * t - y) / (e + beta)
            t = t - step
            if np.abs(step).max(initial=0.0) < _ENOUGH:
                break
        e = np.exp(t)
        w = np.sqrt(np.maximum(2.0 * size * (t * y - (e - 1.0 - t + 0.5 * beta * t**2)), 1e-300))
        u = np.abs(t) * np.sqrt(size * (e + beta))
        return np.maximum(w + np.log(np.maximum(u, 1e-300) / w) / w, 0.0)


def rarest(
    codes: np.ndarray, own: np.ndarray, p: np.ndarray, phi: np.ndarray, share: np.ndarray, sizes: np.ndarray
) -> RarePattern | None:
    """The pattern that a test in one function rests on; None where a variable has more than two values.

    Parameters
    ----------
    codes : (k, R) array
        Of the other variables of the interaction.
    own : (R,) array
        Of the one that it is tested at.
    p, phi : (2, R) arrays
        Its probabilities under the null, and the efficient scores of its values.
    share : (R,) array
        Probabilities of the rows.
    sizes : (k,) array
        Numbers of values of the others.
    """
    if len(p) != 2 or (sizes != 2).any():
        return None
    cells = [(v, (codes == np.array(rest)[:, None]).all(axis=0)) for *rest, v in product((0, 1), repeat=len(codes) + 1)]
    under = [float(share @ (p[v] * rest)) for v, rest in cells]
    k = int(np.argmin(under))
    (v, others), expected = cells[k], under[k]
    has = others & (own == v)
    probability = float(share @ has)
    jump = float(share @ (p[v] * others * phi[v])) / max(expected, 1e-300)
    if not (expected > 0.0 and probability > 0.0 and abs(jump) > 0.0):
        return None
    seen = np.where(own == 1, phi[1], phi[0]) / jump
    variance = float(share @ (p * phi**2).sum(axis=0)) / jump**2
    rest = float(share @ (seen * ~has))
    if rest >= 0.0:
        return None
    return RarePattern(
        expected=expected,
        probability=probability,
        jump=float(share @ (seen * has)) / probability,
        rest=rest,
        rest_variance=float(share @ (seen**2 * ~has)) - rest**2,
        beta=max(variance / expected - 1.0, 0.0),
    )
