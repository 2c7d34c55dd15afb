"""What is added to the pairs and triplets of the closed form, and how much of it the data can bear.

"auto" has what two sites lack, exactly (``pairs``), and what three and four lack at second order in the couplings
(``second_order``). Triplets enter the second order as what the noise leaves of them, sW:

    s = t/(t + σ²),     t = max(⟨W²⟩ − σ², W² − 16σ²)

σ² their sampling variance: the spread that they show, or beyond four standard errors their own size. As errors of
different triplets are nearly independent, a product of these is the expectation of the product. The second order
fades where it is no longer small (``second_order.fade``), and so does what two sites lack. A table of two variables
with a cell of fewer than five rows is left to the closed form.

"clusters" solves three two-valued variables exactly too,

    J_ab += Δ_ab + Σ_c (Δ_ab^(abc) − Δ_ab),     T_abc += Δ_abc

Δ the exact couplings of two and three variables less the closed form of the same. With ten variables it is as good, and
with strong fields better; with fifty, whose marginals say more of the other variables than of their own couplings,
Σ_c makes pairs worse than nothing (benchmarks/bench_closed_form.py). "loops" adds the terms of four sites to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from hbm_learn._kernels.clusters import add_ascending, add_lower, mean_square, shrunk, three_exact
from hbm_learn._threads import blas_for
from hbm_learn.data.moments import Moments
from hbm_learn.inversion.closed_form.errors import mean_permanent
from hbm_learn.inversion.closed_form.pairs import exact_less_closed, upper_share
from hbm_learn.inversion.closed_form.second_order import fade, loops, skewness, three_sites
from hbm_learn.linalg import definite_inverse
from hbm_learn.space import Space

# The paper's equations; with the field of "dc2"; that and clusters; and loops; the field, pairs and the second order.
LEVELS = ("none", "field", "clusters", "loops", "auto")
# A cell of a table of two or three variables is known from this many rows on.
FEWEST = 5.0
_TINY = 1e-12
# Two-site terms of this size, relative to the pairs, are added whole, and of this size not at all. Measured by KL on SK
# and Curie–Weiss models from weak to twice the critical coupling: they help up to 0.52, and do harm from 0.68 on.
_ALL_PAIRS, _NO_PAIRS = 0.5, 0.7


@dataclass(frozen=True, eq=False)
class Derivatives:
    """−P (N, N), and W and κ (N, N, N) where there are triplets, as the closed form finds them in one gauge."""

    pairs: np.ndarray
    W: np.ndarray | None = None
    kappa: np.ndarray | None = None


def corrections(moments: Moments, found: Derivatives, noise: np.ndarray, level: str) -> np.ndarray:
    """What to add to the pairs (N, N), zero within sites; what triplets lack is added to the entries a < b < c of W.

    Parameters
    ----------
    moments : Moments
        In the standard gauge where a site has several functions.
    found : Derivatives
        In the gauge of the moments.
    noise : (N, N) array
        The covariance of the dual variables: a product of three has its permanents as variances, over M.
    level : str
        One of ``LEVELS`` from "clusters" on.
    """
    space, M = moments.space, moments.n_samples
    s = np.sqrt(np.diag(moments.covariance))
    units = np.outer(s, s)
    apart = space.site[:, None] != space.site
    least = FEWEST / M if np.isfinite(M) else _TINY
    two = np.zeros_like(units)
    if space.is_finite:
        # what the prior leaves of the covariances: they themselves where there is none
        R = definite_inverse(-found.pairs) / units
        tables = apart & ~_on_a_line(space)[:, None] & ~_on_a_line(space)
        two = np.where(tables, exact_less_closed(moments, R, s, least, None), 0.0)
        two *= _share_of_pairs(two, found.pairs * units)
    if found.W is None or found.kappa is None:
        return np.where(apart, two / units, 0.0)
    with blas_for(len(s)):
        T = posterior(found.W, noise * units, s, space, M)
        pairs = np.zeros_like(units)
        if space.is_binary and level != "auto":
            R, up, triplets = moments.covariance / units, upper_share(moments), np.zeros_like(T)
            three_exact(R, found.kappa, found.W, T, s, up, two, least, pairs, triplets)
            pairs = pairs + pairs.T
            add_lower(T, triplets)
            add_ascending(found.W, triplets, s, 1.0)
        if level != "clusters":
            pairs -= _second_order(found, T, s, units * apart, space, level == "auto" or not space.is_binary)
    return np.where(apart, (two + pairs) / units, 0.0)


def _on_a_line(space: Space) -> np.ndarray:
    """(N,) which columns are of given variables without a list of values: they have no table with another."""
    return np.isin(space.site, list(space.anchors))


def _share_of_pairs(two: np.ndarray, pairs: np.ndarray) -> float:
    """How much of the two-site terms (N, N) to add: all up to half the size of their pairs, nothing beyond 0.7.

    Where all variables are alike two of them are so for the sake of the others, and their table says little of their
    own coupling.
    """
    share = float(np.linalg.norm(two)) / max(float(np.linalg.norm(pairs[two != 0.0])), 1e-300)
    return float(np.clip((_NO_PAIRS - share) / (_NO_PAIRS - _ALL_PAIRS), 0.0, 1.0))


def pair_corrections(standard: Moments, T: np.ndarray | sparse.csr_array | None, most: int) -> np.ndarray:
    """(N, N) the two-site terms and the loops of triplets T (N, N, N), in the standard gauge; the others are left out.
    A sparse T is (N, N²).

    Of the two-site terms those of ``most`` pairs of sites; the others are NaN.
    """
    space, M = standard.space, standard.n_samples
    out = exact_less_closed(standard, standard.covariance, np.ones(len(space.site)), FEWEST / M, most)
    if sparse.issparse(T):
        out = out - 0.5 * (T @ T.T).toarray()
    elif T is not None:
        flat = T.reshape(len(T), -1)
        with blas_for(len(T)):
            out = out - 0.5 * flat @ flat.T
    return np.where(space.site[:, None] == space.site, 0.0, out)


def _second_order(
    found: Derivatives, T: np.ndarray, s: np.ndarray, units: np.ndarray, space: Space, three: bool
) -> np.ndarray:
    """(N, N) what ``second_order`` takes from the pairs; what it takes from triplets is taken from W.

    Without ``three`` only what four sites have.
    """
    assert found.W is not None
    assert found.kappa is not None
    A, skew = found.pairs * units, skewness(found.kappa, s, space)
    pairs, triplets, strength, X = loops(T, skew, space)
    if three:
        by_three, by_three3, other = three_sites(A, T, X, skew, space)
        pairs += by_three
        triplets += by_three3
        strength = max(strength, other)
    if not space.is_finite:
        g = np.array([K[0, 0, 0] for K in skew])
        pairs += 0.5 * A**2 * np.outer(g, g)
    weight = fade(strength)
    add_ascending(found.W, triplets, s, -weight)
    return weight * pairs


def posterior(W: np.ndarray, noise: np.ndarray, s: np.ndarray, space: Space, M: float) -> np.ndarray:
    """(N, N, N) what is left of triplets under the spread that they show, in units of standard deviations s.

    ``noise`` is in these units; triplets within sites are zero.
    """
    if not np.isfinite(M) or space.n_features < 3:
        return shrunk(W, s, space.column_ptr, 1.0, 0.0)
    sigma2 = mean_permanent(noise, space.site) / M
    return shrunk(W, s, space.column_ptr, max(mean_square(W, s, space.site) - sigma2, 0.0), sigma2)
