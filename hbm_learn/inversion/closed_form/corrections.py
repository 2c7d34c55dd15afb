"""Known corrections of the pair couplings of the closed form.

Second-order Plefka: −Σ_{k<l} J_ikl J_jkl V_k V_l. Two sites: the exact coupling of two variables with these frequencies
and this covariance less its mean-field value, which sums all that happens between two sites alone.
"""

from __future__ import annotations

import numpy as np

from hbm_learn._threads import blas_for
from hbm_learn.data.moments import Moments

_TINY = 1e-6


def correct_pairs(J3: np.ndarray | None, moments: Moments, most: int | None = None) -> np.ndarray:
    """(N, N) what to add to J_ab, zero within sites.

    Parameters
    ----------
    J3 : (N, N, N) array or None
        Triplet couplings in the gauge of the moments.
    moments : Moments
    most : int or None
        So many pairs of sites get their two-site term, evenly chosen, where variables have more than two values and
        each pair is a problem of its own; the others are NaN. None: all of them.
    """
    C, space = moments.covariance, moments.space
    N, V = len(C), np.diag(C)
    total = np.zeros((N, N))
    if J3 is not None:
        half = (J3 * np.sqrt(np.outer(V, V))).reshape(N, -1)
        with blas_for(N):
            total -= 0.5 * half @ half.T
    if space.is_finite:
        total += _two_valued(moments) if space.is_binary else _two_sites(moments, most)
    return np.where(space.site[:, None] == space.site, 0.0, total)


def _two_valued(moments: Moments) -> np.ndarray:
    """ln(p₁₁ p₀₀/p₁₀ p₀₁) over the widths, less C/(V V − C²), of every pair of two-valued sites at once."""
    C, space = moments.covariance, moments.space
    low, high = space.padded[:, 0], space.padded[:, 1]
    width, V = high - low, np.diag(C)
    up = (moments.mean - low) / width
    both = C / np.outer(width, width) + np.outer(up, up)
    p11, p10 = np.maximum(both, _TINY), np.maximum(up[:, None] - both, _TINY)  # a pair never seen together stays finite
    p01, p00 = p10.T, np.maximum(1 - up[:, None] - up + both, _TINY)
    units = np.outer(width, width)
    mean_field = C / np.maximum(np.outer(V, V) - C**2, _TINY * units**2)
    return np.log(p11 * p00 / (p10 * p01)) / units - mean_field


def _two_sites(moments: Moments, most: int | None) -> np.ndarray:
    """The same for sites of any size: J of the two-site model with these frequencies and covariances of functions."""
    C, space = moments.covariance, moments.space
    out, ptr = np.full_like(C, np.nan), space.column_ptr
    rows, columns = np.tril_indices(space.n_features, -1)
    chosen = np.arange(len(rows))
    if most is not None and len(rows) > most:
        chosen = np.linspace(0, len(rows) - 1, most).astype(int)
    for i, j in zip(rows[chosen], columns[chosen]):
        a, b = slice(ptr[i], ptr[i + 1]), slice(ptr[j], ptr[j + 1])
        phi, psi = space.functions[i], space.functions[j]
        p, q = moments.frequencies[i], moments.frequencies[j]
        exact = two_site_coupling(phi, psi, p, q, C[a, b])
        joint = np.block([[C[a, a], C[a, b]], [C[b, a], C[b, b]]])
        r = phi.shape[1]
        mean_field = -np.linalg.pinv(joint)[:r, r:]
        out[a, b] = exact - mean_field
        out[b, a] = out[a, b].T
    return out


def two_site_coupling(
    phi: np.ndarray, psi: np.ndarray, p: np.ndarray, q: np.ndarray, covariance: np.ndarray, max_iter: int = 50
) -> np.ndarray:
    """(r, s) J of P(x, y) ∝ α(x) β(y) exp(φ(x) J ψ(y)ᵀ) with marginals p, q and Cov(φ, ψ) as given.

    Newton on the concave dual in J, the marginals kept by iterative proportional fitting; a little of the product
    distribution is mixed in, so that what never occurs together stays finite.
    """
    p, q = np.maximum(p, _TINY), np.maximum(q, _TINY)
    p, q = p / p.sum(), q / q.sum()
    phi, psi = phi - p @ phi, psi - q @ psi
    target = (1.0 - 1e-3) * covariance
    J = np.linalg.solve(phi.T @ (p[:, None] * phi), target) @ np.linalg.inv(psi.T @ (q[:, None] * psi))
    J *= 0.5
    for _ in range(max_iter):
        joint = _fitted(np.exp(np.clip(phi @ J @ psi.T, -60, 60)), p, q)
        gap = target - phi.T @ joint @ psi
        H = _curvature(phi, psi, joint, p, q)
        step = np.linalg.lstsq(H, gap.ravel())[0].reshape(gap.shape)
        size = np.abs(phi @ step @ psi.T).max()
        J = J + step * min(1.0, 2.0 / max(size, 1e-300))
        if np.abs(gap).max() <= 1e-12 * np.abs(phi).max() * np.abs(psi).max() or size < 1e-10:
            break
    return J


def _fitted(kernel: np.ndarray, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """diag(α) K diag(β) with marginals p and q."""
    beta = np.ones(len(q))
    for _ in range(500):
        alpha = p / (kernel @ beta)
        new = q / (kernel.T @ alpha)
        done = np.abs(new / beta - 1.0).max() < 1e-13
        beta = new
        if done:
            break
    return alpha[:, None] * kernel * beta


def _curvature(phi: np.ndarray, psi: np.ndarray, joint: np.ndarray, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Covariance of the products φ_a ψ_b, what functions of x or of y alone explain of them left out."""
    a, b = phi.shape[1], psi.shape[1]
    T = (phi[:, None, :, None] * psi[None, :, None, :]).reshape(joint.size, a * b)
    rows, columns = np.repeat(np.eye(len(p)), len(q), axis=0), np.tile(np.eye(len(q)), (len(p), 1))
    design = np.column_stack([rows, columns])
    root = np.sqrt(joint.ravel())[:, None]
    residual = T * root - (design * root) @ np.linalg.lstsq(design * root, T * root)[0]
    return residual.T @ residual
