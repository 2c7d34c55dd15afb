"""Everything exact on the real line: with Q = diag(d) − J, P(x) is a Gaussian.

    m = Q⁻¹ h,   χ = Q⁻¹,   ln Z = ½ h'χh − ½ ln det Q + n/2 ln 2π,   x = m + L z,  χ = L Lᵀ,  z ~ N(0, I)

Pairs only: higher orders have no finite integral there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from hbm_learn.model import BoltzmannMachine


@dataclass(frozen=True, eq=False)
class GaussianMoments:
    """m (n,), χ (n, n), ln Z, and the differential entropy in nats."""

    m: np.ndarray
    chi: np.ndarray
    log_partition: float
    entropy: float


def precision(model: BoltzmannMachine) -> np.ndarray:
    """Q = diag(d) − J, (n, n); ValueError if it is not positive definite."""
    Q = np.diag(model.d) - model.J
    smallest = float(np.linalg.eigvalsh(Q)[0])
    if smallest <= len(Q) * np.finfo(float).eps * np.abs(Q).max():
        raise ValueError(
            f'alphabet "real": the precision matrix diag(d) − J is not positive definite (smallest eigenvalue '
            f"{smallest:.6g}), so exp(−H) has no finite integral. Raise d by more than {max(-smallest, 0.0):.6g}, or "
            "scale the couplings down."
        )
    return Q


def moments(model: BoltzmannMachine) -> GaussianMoments:
    """Means, covariances, ln Z and entropy; ValueError if diag(d) − J is not positive definite."""
    n = model.n_features
    factor = linalg.cho_factor(precision(model), lower=True)
    m, chi = linalg.cho_solve(factor, model.h), linalg.cho_solve(factor, np.eye(n))
    half_log_det = float(np.log(np.diag(factor[0])).sum())
    return GaussianMoments(
        m=m,
        chi=0.5 * (chi + chi.T),
        log_partition=float(0.5 * model.h @ m - half_log_det + 0.5 * n * np.log(2 * np.pi)),
        entropy=0.5 * n * (1 + np.log(2 * np.pi)) - half_log_det,
    )


def draw(model: BoltzmannMachine, n_samples: int, seed: np.random.SeedSequence) -> np.ndarray:
    """(n_samples, n) independent samples; ValueError if diag(d) − J is not positive definite."""
    found = moments(model)
    L = np.linalg.cholesky(found.chi)
    z = np.random.default_rng(seed).standard_normal((n_samples, model.n_features))
    return found.m + np.matmul(z, L.T)


def conditional_means(model: BoltzmannMachine, X: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """⟨x_h⟩ given the other entries of each row of X: Q_hh x_h = h_h + J_ho x_o; (rows, hidden)."""
    observed = np.setdiff1d(np.arange(model.n_features), hidden)
    J = model.J
    right = model.h[hidden] + X[:, observed] @ J[np.ix_(observed, hidden)]
    Q = np.diag(model.d[hidden]) - J[np.ix_(hidden, hidden)]
    return linalg.solve(Q, right.T, assume_a="pos").T
