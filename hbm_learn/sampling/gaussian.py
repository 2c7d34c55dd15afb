"""Samples of a Gaussian model: x = m + L z,  χ = L Lᵀ = (diag(d) − J)⁻¹,  m = χ h,  z ~ N(0, I)."""

from __future__ import annotations

import numpy as np

from hbm_learn.inference.exact import exact as exact_moments
from hbm_learn.model import BoltzmannMachine


def draw(model: BoltzmannMachine, n_samples: int, seed: np.random.SeedSequence) -> np.ndarray:
    """(n_samples, n) independent samples; ValueError if diag(d) − J is not positive definite."""
    moments = exact_moments(model)
    L = np.linalg.cholesky(np.asarray(moments.chi))
    z = np.random.default_rng(seed).standard_normal((n_samples, model.n_features))
    return moments.m + np.matmul(z, L.T)
