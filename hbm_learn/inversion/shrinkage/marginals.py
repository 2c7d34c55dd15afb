"""Marginals of linear functions of the couplings: the mixture of the site that matters most, the rest as a Gaussian.

    t = a β + rest,     β from its site mixture,     rest ~ N(⟨t⟩ − a⟨β⟩, Var t − a² Var β)

A coupling about the origin of the prior is its own site, exactly; one in another gauge is a sum over the couplings of
higher order that contain it, of which most are small.

What the data alone say of β is its cavity: with the broadest component for a prior, which is nearly flat,

    N(w ρ, w),     w = σ²/(1 + Λσ²)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse, special, stats

from hbm_learn._kernels import mixture as kernels
from hbm_learn.inversion.shrinkage import mixture
from hbm_learn.inversion.shrinkage.expectation import Sites

# Rows whose components are made at a time.
_ROWS = 8192


@dataclass(frozen=True, eq=False)
class Marginals:
    """Of m linear functions. (m,) arrays.

    Attributes
    ----------
    sites : Sites
    main : array
        The coupling (a set of columns) whose site speaks for the function.
    scale : array
        a; 0 where no coupling takes part.
    centre, extra : arrays
        ⟨t⟩, and the variance of the rest.
    """

    sites: Sites
    main: np.ndarray
    scale: np.ndarray
    centre: np.ndarray
    extra: np.ndarray

    @classmethod
    def of(cls, T: sparse.csr_array, sites: Sites, n_own: int, centre: np.ndarray, variance: np.ndarray) -> Marginals:
        """Of T θ, θ = (own, couplings about the origin), with given means and variances."""
        J = sparse.csr_array(T[:, n_own:])
        spread = J.power(2)
        spread.data *= sites.variance[spread.indices]
        if J.shape[1] == 0:
            nothing = np.zeros(J.shape[0])
            return cls(sites, nothing.astype(np.intp), nothing, centre, variance)
        at = _largest(spread)
        main = np.where(at >= 0, spread.indices[at], 0)
        scale = np.where(at >= 0, J.data[at], 0.0)
        extra = np.maximum(variance - scale**2 * sites.variance[main], 0.0)
        # What rounding leaves of a variance that is all the site's.
        extra[extra < 1e-9 * variance] = 0.0
        return cls(sites, main, scale, centre, extra)

    def intervals(self, level: float, even: bool = False) -> np.ndarray:
        """(m, 2) between the quantiles (1 ∓ level)/2.

        Parameters
        ----------
        level : float
        even : bool
            At even odds that a coupling is noise, where its order says more (``mixture.even_odds``).
        """
        out = np.empty((len(self.main), 2))
        for lo in range(0, len(out), _ROWS):
            R, mean, sd = self._components(slice(lo, lo + _ROWS), even)
            for side, p in enumerate((0.5 - 0.5 * level, 0.5 + 0.5 * level)):
                found = np.empty(len(R))
                kernels.quantiles(R, mean, sd, p, found)
                out[lo : lo + _ROWS, side] = found
        return out

    def data_intervals(self, level: float) -> np.ndarray:
        """(m, 2) the same with the broadest component alone: what the other couplings say of β's size is not used.

        Over repeated data sets they hold β as often as they say, whatever its size. Where the data say nothing the
        component bounds them.
        """
        sites, broadest = self.sites, self.sites.sigma[-1:]
        w = mixture.shrinkage(sites.cavities.at(sites.terms.group[self.main]), broadest)[:, 0]
        centre = self.centre + self.scale * (w * sites.rho[self.main] - sites.mean[self.main])
        half = stats.norm.ppf(0.5 + 0.5 * level) * np.sqrt(self.scale**2 * w + self.extra)
        return centre[:, None] + np.array([-1.0, 1.0]) * half[:, None]

    def sign_rates(self) -> np.ndarray:
        """(m,) posterior probability of the less likely sign."""
        out = np.empty(len(self.main))
        for lo in range(0, len(out), _ROWS):
            R, mean, sd = self._components(slice(lo, lo + _ROWS))
            certain = np.where(mean > 0, np.inf, np.where(mean < 0, -np.inf, 0.0))  # 0 · ∞ would be no number
            z = np.divide(mean, sd, out=certain, where=sd > 0)
            below = np.einsum("tj,tj->t", R, special.ndtr(-np.nan_to_num(z, nan=0.0)))
            out[lo : lo + _ROWS] = np.minimum(below, 1.0 - below)
        return np.maximum(out, 0.0)

    def _components(self, rows: slice, even: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(rows, G) weights, means and standard deviations."""
        sites, main = self.sites, self.main[rows]
        term = sites.terms.group[main]
        cavities = sites.cavities.at(term)
        R = np.empty((len(main), len(sites.sigma)))
        for k, pi in sites.pi.items():
            mine = sites.terms.order[term] == k
            some = cavities.at(mine)
            believed = mixture.doubted(pi, sites.belief.get(k, 1.0))
            weights = mixture.even_odds(some, sites.sigma, pi) if even else believed
            R[mine] = mixture.responsibilities(some, sites.sigma, weights)[0]
        w = mixture.shrinkage(cavities, sites.sigma)
        a, rest = self.scale[rows], self.centre[rows] - self.scale[rows] * sites.mean[main]
        mean = rest[:, None] + (a * sites.rho[main])[:, None] * w
        return R, mean, np.sqrt((a**2)[:, None] * w + self.extra[rows][:, None])


def _largest(A: sparse.csr_array) -> np.ndarray:
    """(m,) where the largest entry of each row stands among the data, the first of equals; −1 for an empty row."""
    sizes = np.diff(A.indptr)
    out, filled = np.full(len(sizes), -1, dtype=np.intp), sizes > 0
    if filled.any():
        top = np.repeat(np.maximum.reduceat(A.data, A.indptr[:-1][filled]), sizes[filled])
        hits = np.flatnonzero(A.data == top)
        row = np.repeat(np.flatnonzero(filled), sizes[filled])[hits]
        first = np.flatnonzero(np.diff(row, prepend=-1))
        out[row[first]] = hits[first]
    return out
