"""Target: what the likelihood asks of the data, and the parameters it asks it for.

    L(θ) = θ·t̄ − ln Z(θ) − Σ_μ (½ ridge_μ J_μ² + lasso_μ |J_μ|),     t = (O_ik(x_i), Π_{c∈μ} φ_c),  θ = (own, J)

t̄ are averages over the data: the moments are all that the likelihood of a Boltzmann machine sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hbm_learn import linalg
from hbm_learn.data.moments import Moments
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior
from hbm_learn.inversion.result import Fit

# A start that leans on the data keeps this much of the uniform distribution, so that no site parameter is infinite.
_UNIFORM = 1e-3


@dataclass(frozen=True, eq=False)
class Target:
    """t̄ and the penalty. P parameters, p sets of columns.

    Attributes
    ----------
    parameters : Parameters
        What θ means, in the gauge of the fit.
    t : (P,) array
        Averages of the sufficient statistics over the data.
    ridge, lasso : (P,) arrays
        Penalties of the mean log-likelihood, α/M; zero for own parameters.
    n_samples : float
        M, effective; infinite for exact moments.
    prior : Prior
    names : list of str or None
    """

    parameters: Parameters
    t: np.ndarray
    ridge: np.ndarray
    lasso: np.ndarray
    n_samples: float
    prior: Prior
    names: list[str] | None

    @classmethod
    def of(cls, moments: Moments, parameters: Parameters, prior: Prior) -> Target:
        """The target of moments in the coding gauge."""
        columns = parameters.columns
        if columns.order > moments.order:
            raise ValueError(
                f"interactions of order {columns.order} need moments of that order, got {moments.order}: compute "
                f"Moments with order={columns.order}."
            )
        own = [p @ O for p, O in zip(moments.frequencies, parameters.own)]
        seen = moments if parameters.space is moments.space else moments.in_space(parameters.space)
        t = np.concatenate([*own, seen.moments(columns)])
        free, M = np.zeros(parameters.n_own), moments.n_samples
        ridge = np.concatenate([free, prior.ridge(columns) / M])
        lasso = np.concatenate([free, prior.lasso(columns) / M])
        return cls(parameters, t, ridge, lasso, M, prior, moments.feature_names)

    @cached_property
    def independent(self) -> np.ndarray:
        """(P,) θ of independent variables with (nearly) the data's frequencies."""
        return self.parameters.independent(_UNIFORM)

    def label(self, r: int) -> str:
        """How messages name parameter r."""
        return self.parameters.label(r, self.names)

    # ------------------------------------------------------------------ errors

    def fit(self, theta: np.ndarray, fisher: np.ndarray, monte_carlo: float = 0.0, **report: Any) -> Fit:
        """θ with its errors: posterior covariance S = (M F + α)⁻¹, sampling covariance S (M F) S.

        ``monte_carlo`` = M / (effective draws behind the model's moments): that part of S (M F) S is added to both.
        Couplings at zero under ℓ1 are held there: they have no errors, and lend none to the others.
        """
        P = len(theta)
        active = (theta != 0.0) | (self.lasso == 0.0)
        if not np.isfinite(self.n_samples):
            zero = np.zeros(P)
            return self._fit(theta, zero, zero, np.ones(P), free=theta, free_variance=zero, **report)
        F, ridge = fisher[np.ix_(active, active)], self.ridge[active]
        S = linalg.inverse(F + np.diag(ridge))
        S /= self.n_samples
        spread = np.zeros((2, P))
        spread[0, active] = np.diag(S)
        spread[1, active] = np.maximum(np.diag(S) - self.n_samples * (S**2 @ ridge), 0.0)
        kept = np.clip(1.0 - self.n_samples * self.ridge * spread.sum(axis=0), 0.0, 1.0)  # 1 − α s² is the sum
        spread += monte_carlo * spread[1]
        report["covariance"] = _embedded(S, active)
        if not self.lasso.any():
            C = S * self.n_samples if not ridge.any() else linalg.inverse(F)
            report["free"] = theta + C @ (self.ridge * theta)
            C *= (1.0 + monte_carlo) / self.n_samples
            report["free_variance"], report["free_covariance"] = np.diag(C).copy(), C
        return self._fit(theta, spread[0], spread[1], kept, **report)

    def diagonal_fit(self, theta: np.ndarray, information: np.ndarray, **report: Any) -> Fit:
        """θ with the errors of a diagonal Fisher matrix, (P,) ``information``."""
        posterior = 1.0 / (self.n_samples * (information + self.ridge))
        kept = information / (information + self.ridge)
        free = theta + self.ridge * theta / information
        variance = 1.0 / (self.n_samples * information)
        if self.lasso.any():
            return self._fit(theta, posterior, kept * posterior, kept**2, **report)
        return self._fit(theta, posterior, kept * posterior, kept**2, free=free, free_variance=variance, **report)

    def _fit(
        self, theta: np.ndarray, posterior: np.ndarray, sampling: np.ndarray, kept: np.ndarray, **report: Any
    ) -> Fit:
        n_own = self.parameters.n_own
        return Fit(
            method="likelihood",
            parameters=self.parameters,
            theta=theta,
            posterior=posterior,
            sampling=sampling,
            kept=kept[n_own:],
            noise=sampling[n_own:],
            alpha={k: float(self.prior.alpha[k]) for k in self.parameters.columns.orders},
            **report,
        )


def _embedded(S: np.ndarray, active: np.ndarray) -> np.ndarray:
    """S among zeros for what is held."""
    if active.all():
        return S
    out = np.zeros((len(active), len(active)))
    out[np.ix_(active, active)] = S
    return out
