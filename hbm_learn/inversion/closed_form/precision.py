"""The regularised inverse of a covariance matrix.

The Gaussian prior J_ab ~ N(0, 1/α) reaches the closed form as a ridge on the precision matrix P: with λ = α/M, maximise

    ½ ln det P − ½ Tr(C P) − λ/4 ‖P − T‖²_F,   T = blockdiag(V_i⁻¹) (independent sites)

whose optimum, P⁻¹ − C − λ(P − T) = 0, is a function of the eigenvalues of C − λT alone. It is finite for singular C.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from hbm_learn.inversion.prior import BROADEST, FLOOR
from hbm_learn.linalg import definite_inverse
from hbm_learn.space import Space

# A correlation matrix with a smaller pivot than this is treated as singular.
SINGULAR = 1e-10
# The least ridge that a singular covariance matrix gets.
MIN_RIDGE = 1e-6


def independent(C: np.ndarray, space: Space) -> np.ndarray:
    """T = blockdiag(C_ii⁻¹), (N, N): the precision of independent sites."""
    T = np.diag(1.0 / np.diag(C))
    for lo, hi in zip(space.column_ptr[:-1], space.column_ptr[1:]):
        if hi - lo > 1:
            T[lo:hi, lo:hi] = np.linalg.inv(C[lo:hi, lo:hi])
    return T


def ridge_precision(C: np.ndarray, lam: float, T: np.ndarray | None = None) -> np.ndarray:
    """P with P⁻¹ − C − λ(P − T) = 0, (N, N); C⁻¹ for λ = 0. T = diag(1/C_ii) by default. O(N³).

    A singular C needs λ > 0 and gets the flattest prior that keeps the answer finite if it has none.
    """
    if lam == 0.0 and _is_regular(C):
        return definite_inverse(C)
    lam = max(lam, MIN_RIDGE)
    T = np.diag(1.0 / np.diag(C)) if T is None else T
    delta, U = linalg.eigh(C - lam * T, check_finite=False)
    return (U * _ridge_root(delta, lam)) @ U.T


def _ridge_root(delta: np.ndarray, lam: float) -> np.ndarray:
    """The positive root of 1/p − δ − λp = 0; two forms of it, so that neither sign of δ cancels."""
    root = np.sqrt(delta**2 + 4.0 * lam)
    return np.where(delta > 0, 2.0 / (np.abs(delta) + root), (np.abs(delta) + root) / (2.0 * lam))


def learn_precision(
    C: np.ndarray, n_samples: float, site: np.ndarray, max_rounds: int = 30
) -> tuple[np.ndarray, float]:
    """(P, α): the ridge precision with the prior variance τ² = 1/α of the effects learnt from the data.

    In units of standard deviations, J_ab √(V_a V_b), independence is T = 1, which shares the eigenvectors of the
    correlation matrix whatever λ: one eigendecomposition serves all rounds of MacKay's update
    τ² = ΣĴ² / Σ τ²/(τ² + se²), sums over columns of distinct sites (``site``: that of each column, where several
    columns of one must be uncorrelated).
    """
    n, scale = len(C), np.sqrt(np.diag(C))
    apart = site[:, None] != site
    if n < 2 or not np.isfinite(n_samples):
        return ridge_precision(C, 0.0), 0.0
    values, U = linalg.eigh(C / np.outer(scale, scale), check_finite=False)
    # Correlations stand in for the couplings at first: Σ r² over all pairs, of which 1/M each is noise.
    count = int(apart.sum())
    if not count:
        return ridge_precision(C, 0.0), 0.0
    tau2 = max(float(np.sum(values**2) - n) / count - 1.0 / n_samples, FLOOR / n_samples)
    # Collinear columns would have the couplings, and so their prior variance, grow without bound.
    largest = 1.0 if values[0] < SINGULAR else np.inf
    for _ in range(max_rounds):
        lam = 1.0 / (n_samples * tau2)
        P = (U * _ridge_root(values - lam, lam)) @ U.T
        variance = pair_variances(P, n_samples)
        variance *= apart
        determined = float(np.sum(apart * (tau2 / (tau2 + variance))))
        couplings = float(np.sum((P * apart) ** 2))
        new = min(max(couplings / determined, FLOOR * float(variance.sum()) / count), largest)
        if abs(new - tau2) < 0.02 * tau2:
            break
        tau2 = new
    return P / np.outer(scale, scale), 1.0 / tau2


def pair_variances(P: np.ndarray, n_samples: float) -> np.ndarray:
    """Var(J_ab) = (P_aa P_bb + P_ab²)/M for Gaussian data, (n, n)."""
    diagonal = np.diag(P)
    return (np.outer(diagonal, diagonal) + P**2) / n_samples


def learn_alpha(estimates: np.ndarray, variances: np.ndarray) -> float:
    """α = 1/τ² with τ² = mean(Ĵ² − se²), floored: moments matching of a Gaussian prior for one order."""
    if not len(estimates) or not variances.any():
        return 0.0
    tau2 = min(float(np.mean(estimates**2 - variances)), BROADEST**2)
    return 1.0 / max(tau2, FLOOR * float(np.mean(variances)))


def selected_precision(P: np.ndarray, pairs: np.ndarray, tol: float = 1e-10, max_sweeps: int = 500) -> np.ndarray:
    """The precision matrix that is zero outside ``pairs`` (p, 2) and whose inverse agrees with P⁻¹ on them and on the
    diagonal: maximum likelihood of a Gaussian graphical model, one regression on its neighbours a variable."""
    n = len(P)
    C = definite_inverse(P)
    neighbours: list[list[int]] = [[] for _ in range(n)]
    for a, b in pairs.tolist():
        neighbours[a].append(b)
        neighbours[b].append(a)
    W = C.copy()
    others = ~np.eye(n, dtype=bool)
    for _ in range(max_sweeps):
        before = W.copy()
        for i, near in enumerate(neighbours):
            beta = np.zeros(n)
            if near:
                beta[near] = linalg.solve(W[np.ix_(near, near)], C[near, i], assume_a="pos", check_finite=False)
            W[others[i], i] = W[i, others[i]] = (W @ beta)[others[i]]
        if np.abs(W - before).max() <= tol * np.abs(C).max():
            break
    out = np.zeros((n, n))
    kept = tuple(np.concatenate([pairs, pairs[:, ::-1]]).T)
    precision = definite_inverse(W)
    out[kept] = precision[kept]
    np.fill_diagonal(out, np.diag(precision))
    return out


def _is_regular(C: np.ndarray) -> bool:
    """Whether the correlation matrix has a Cholesky factor with no vanishing pivot; n³/3 flops."""
    scale = 1.0 / np.sqrt(np.diag(C))
    try:
        pivots = np.diag(linalg.cholesky(C * np.outer(scale, scale), check_finite=False)) ** 2
    except linalg.LinAlgError:
        return False
    return bool(pivots.min() > SINGULAR)


def collinear_columns(C: np.ndarray) -> list[int]:
    """Columns that take part in a (nearly) vanishing combination: the large entries of C's null vectors."""
    if _is_regular(C):
        return []
    scale = 1.0 / np.sqrt(np.diag(C))
    values, vectors = linalg.eigh(C * np.outer(scale, scale), check_finite=False)
    null = vectors[:, values < max(10 * SINGULAR, 2 * values[0])]
    return np.flatnonzero((np.abs(null) > 0.1 / np.sqrt(null.shape[1])).any(axis=1)).tolist()
