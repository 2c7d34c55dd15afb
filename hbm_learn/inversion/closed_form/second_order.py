"""What the closed form lacks at second order in the couplings, for variables of any kind.

In the standard gauge (V = 1, A = J_ab at the means), with g_c = κ_ccc the skewness of a site::

    T_abc −= Σ_{3 perms} g_c Σ_l T_acl T_bcl                       loops: four sites
    J_ab  −= ½ Σ_kl T_akl T_bkl
    J_ab  −= g_a Σ_j A_aj T_abj + g_b Σ_j A_bj T_abj + ½ g_a g_b Σ_l T_abl²       three sites
    T_abc −= Σ_{3 pairs} g_a g_b A_ab T_abc + ½ g_a g_b g_c T_abc²
    J_ab  −= ½ g_a g_b A_ab²                                       two sites (``pairs`` solves them exactly)

They are derivatives by m_a, m_b, m_c of ½ Σ A_ij² V_i V_j + ½ Σ T_ijk² V_i V_j V_k, the second order of the free energy
at given means, where dV/dm = g. With several functions of a site, g is κ_cc′c″ of the functions of one site.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hbm_learn._kernels.clusters import gather_loops, three_site_triplets
from hbm_learn.space import Space

# All of it counts half where four sites take this share from the triplets, or three sites, or where the triplets of a
# site have the strength ½ Σ_kl T_akl² on average.
HALF_FOUR, HALF_THREE, HALF_STRENGTH = 0.2, 0.4, 0.5


def site_slices(space: Space) -> Iterator[slice]:
    """The columns of each site."""
    return (slice(lo, hi) for lo, hi in zip(space.column_ptr[:-1], space.column_ptr[1:]))


def skewness(kappa: np.ndarray, s: np.ndarray, space: Space) -> list[np.ndarray]:
    """(r, r, r) third cumulants of the functions of each site, in units of their standard deviations s."""
    return [kappa[c, c, c] / np.multiply.outer(np.outer(s[c], s[c]), s[c]) for c in site_slices(space)]


def loops(T: np.ndarray, skew: list[np.ndarray], space: Space) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
    """What four sites take from pairs (N, N) and triplets (N, N, N; a > b > c), how strong that is, and
    X_c,ab = Σ K_cc′c″ T_ac′l T_bc″l.

    The strength is 1 where the expansion is no longer to be trusted.
    """
    N = len(T)
    X, pairs = np.empty_like(T), np.zeros((N, N))
    for s, K in zip(site_slices(space), skew):
        if len(K) == 1:
            product = T[s.start] @ T[s.start]
            pairs += product
            np.multiply(product, K[0, 0, 0], out=X[s.start])
            continue
        products = np.einsum("cal,dlb->cdab", T[s], T[s], optimize=True)
        pairs += np.einsum("ccab->ab", products)
        X[s] = np.einsum("ecd,cdab->eab", K, products)
    pairs *= 0.5
    triplets, square = gather_loops(X, space.site)
    size = float(np.trace(pairs)) / 3.0  # Σ_{a<b<c} T², as Σ over all is twice the trace
    share = np.sqrt(square / size) if size else 0.0
    strength = float(np.mean(np.diag(pairs)))
    return pairs, triplets, max(share / HALF_FOUR, strength / HALF_STRENGTH), X


def fade(strength: float) -> float:
    """1/(1 + x⁴): what is left out is of higher order than what is added, and where it fails nothing is added."""
    return 1.0 / (1.0 + min(strength, 1e6) ** 4)


def three_sites(
    A: np.ndarray, T: np.ndarray, X: np.ndarray, skew: list[np.ndarray], space: Space
) -> tuple[np.ndarray, np.ndarray, float]:
    """What three sites take from pairs (N, N) and triplets (N, N, N; a > b > c), and how strong that is.

    X is that of :func:`loops`.

    ½ g_a g_b g_c T² is left out where a site has several functions.
    """
    if space.is_scalar:
        g = np.array([K[0, 0, 0] for K in skew])
        pairs = g[:, None] * np.matmul(T, A[:, :, None])[:, :, 0]
        squares = 0.5 * g[:, None] * np.einsum("caa->ac", X)
        triplets = np.zeros_like(T)
        three_site_triplets(A, T, g, triplets)
    else:
        pairs, squares = _pairs_by_sites(A, T, X, skew, space)
        triplets = _by_pairs_of_sites(A, T, skew, space)
    size = float(np.vdot(T, T)) / (6.0 if space.is_scalar else 1.0)  # blocks have all permutations
    share = np.sqrt(float(np.vdot(triplets, triplets)) / size) if size else 0.0
    return pairs + pairs.T + 0.5 * (squares + squares.T), triplets, share / HALF_THREE


def _pairs_by_sites(
    A: np.ndarray, T: np.ndarray, X: np.ndarray, skew: list[np.ndarray], space: Space
) -> tuple[np.ndarray, np.ndarray]:
    """Σ K_acd A_cj T_dbj and ½ Σ K_acd X_b,cd, each (N, N)."""
    pairs, squares = np.zeros_like(A), np.zeros_like(A)
    for s, K in zip(site_slices(space), skew):
        pairs[s] = np.einsum("acd,cj,dbj->ab", K, A[s], T[s], optimize=True)
        squares[s] = 0.5 * np.einsum("acd,bcd->ab", K, X[:, s, s], optimize=True)
    return pairs, squares


def _by_pairs_of_sites(A: np.ndarray, T: np.ndarray, skew: list[np.ndarray], space: Space) -> np.ndarray:
    """Σ_{3 pairs} Σ K_aa′a″ K_bb′b″ A_a′b′ T_a″b″c, pair of sites by pair of sites."""
    one = np.zeros_like(T)
    slices = list(site_slices(space))
    for i, (s, K) in enumerate(zip(slices, skew)):
        for t, L in zip(slices[:i], skew[:i]):
            inner = np.einsum("ace,bdf,cd->aebf", K, L, A[s, t], optimize=True)
            one[s, t] = np.einsum("aebf,efx->abx", inner, T[s, t], optimize=True)
            one[t, s] = one[s, t].transpose(1, 0, 2)
    return one + one.transpose(0, 2, 1) + one.transpose(2, 1, 0)
