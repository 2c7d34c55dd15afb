"""Target: what the likelihood asks of the data, and the parameters it asks it for.

    L(θ) = θ·t̄ − ln Z(θ) − Σ_μ (½ ridge_μ J_μ² + lasso_μ |J_μ|),     t = (x_i, −½ x_i², Π_{i∈μ} x_i),  θ = (h, d, J)

t̄ are averages over the data: the moments are all that the likelihood of a Boltzmann machine sees. On a two-valued
alphabet −½ x_i² is affine in x_i, and t and θ go without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hbm_learn.interactions import Interactions
from hbm_learn.inversion.prior import Prior
from hbm_learn.inversion.result import InversionResult
from hbm_learn.model import BoltzmannMachine
from hbm_learn.optimise.newton import inverse
from hbm_learn.space import Alphabet

if TYPE_CHECKING:
    from hbm_learn.data.moments import Moments

# A start that leans on the data keeps this much of the uniform distribution, so that no site parameter is infinite.
_UNIFORM = 1e-3


@dataclass(frozen=True, eq=False)
class Target:
    """t̄ and the penalty. P parameters, n variables, p interactions.

    Attributes
    ----------
    t : (P,) averages of the sufficient statistics over the data.
    ridge, lasso : (P,) penalties of the mean log-likelihood, α/M; zero for h and d.
    n_samples : M, effective; infinite for exact moments.
    """

    interactions: Interactions
    alphabet: Alphabet
    t: np.ndarray
    ridge: np.ndarray
    lasso: np.ndarray
    n_samples: float
    prior: Prior
    names: list[str] | None

    @classmethod
    def of(cls, moments: Moments, interactions: Interactions, prior: Prior) -> Target:
        if interactions.order > moments.order:
            raise ValueError(
                f"interactions of order {interactions.order} need moments of that order, got {moments.order}: compute "
                f"Moments with order={interactions.order}."
            )
        second = [] if moments.alphabet.is_binary else [-0.5 * moments.second]
        t = np.concatenate([moments.mean, *second, moments.moments(interactions)])
        free, M = np.zeros(len(t) - len(interactions)), moments.n_samples
        ridge = np.concatenate([free, prior.ridge(interactions) / M])
        lasso = np.concatenate([free, prior.lasso(interactions) / M])
        return cls(interactions, moments.alphabet, t, ridge, lasso, M, prior, moments.feature_names)

    @property
    def n_features(self) -> int:
        return self.interactions.n_features

    @property
    def n_free(self) -> int:
        """How many parameters stand before J: n fields, and n anisotropies if they matter."""
        return len(self.t) - len(self.interactions)

    # ------------------------------------------------------------------ θ ↔ model

    def model(self, theta: np.ndarray) -> BoltzmannMachine:
        n = self.n_features
        d = theta[n : self.n_free] if self.n_free > n else 0.0
        return BoltzmannMachine.from_packed(theta[:n], self.interactions, theta[self.n_free :], d, self.alphabet)

    def parameters(self, model: BoltzmannMachine) -> np.ndarray:
        """(P,) θ of a model; interactions that it lacks have J_μ = 0, its others are dropped."""
        if model.alphabet != self.alphabet:
            raise ValueError(f"start has alphabet {model.alphabet}, the moments have {self.alphabet}.")
        at = model.packed.positions(self.interactions)
        J = np.where(at >= 0, np.append(model.weights, 0.0)[at], 0.0)
        if self.n_free > self.n_features:
            return np.concatenate([model.h, model.d, J])
        return np.concatenate([model.h - 0.5 * model.d * self.alphabet.nodes.sum(), J])

    def independent(self) -> np.ndarray:
        """(P,) θ of independent variables with (nearly) the data's ⟨x⟩ and ⟨x²⟩."""
        n = self.n_features
        flat = self.alphabet.site_moments(np.zeros(n))
        m = (1 - _UNIFORM) * self.t[:n] + _UNIFORM * flat.m
        if self.alphabet.is_binary:
            return np.concatenate([self.alphabet.site_parameters(m)[0], np.zeros(len(self.interactions))])
        v = -2 * (1 - _UNIFORM) * self.t[n : 2 * n] + _UNIFORM * flat.v
        return np.concatenate([*self.alphabet.site_parameters(m, v), np.zeros(len(self.interactions))])

    def label(self, r: int) -> str:
        """How messages name parameter r."""
        if r >= self.n_free:
            mu = self.interactions.tuples[r - self.n_free]
            return f"J of ({', '.join(str(i if self.names is None else self.names[i]) for i in mu)})"
        name = r % self.n_features if self.names is None else self.names[r % self.n_features]
        return f"{'h' if r < self.n_features else 'd'} of {name}"

    # ------------------------------------------------------------------ errors

    def result(
        self, theta: np.ndarray, fisher: np.ndarray, monte_carlo: float = 0.0, **report: object
    ) -> InversionResult:
        """θ with its errors: posterior covariance S = (M F + α)⁻¹, sampling covariance S (M F) S.

        ``monte_carlo`` = M / (effective draws behind the model's moments): that part of S (M F) S is added to both.
        Couplings at zero under ℓ1 are held there: they have no errors, and lend none to the others.
        """
        active = (theta != 0.0) | (self.lasso == 0.0)
        spread, z, kept = np.zeros((2, len(theta))), np.zeros(len(theta)), np.ones(len(theta))
        if np.isfinite(self.n_samples):
            F = fisher[np.ix_(active, active)]
            spread[:, active] = self._variances(F, self.ridge[active])
            kept = np.clip(1.0 - self.n_samples * self.ridge * spread.sum(axis=0), 0.0, 1.0)  # 1 − α s² is the sum
            spread += monte_carlo * spread[1]
            z[active] = self._tests(F, theta[active], active) / np.sqrt(1.0 + monte_carlo)
        posterior, sampling = np.sqrt(spread)
        return InversionResult(
            method="likelihood",
            model=self.model(theta),
            standard_errors=posterior[self.n_free :],
            h_standard_errors=posterior[: self.n_features],
            sampling_errors=sampling[self.n_free :],
            kept=kept[self.n_free :],
            noise=spread[1, self.n_free :],
            z=z[self.n_free :],
            alpha={k: float(self.prior.alpha[k]) for k in self.interactions.orders},
            **report,  # type: ignore[arg-type]
        )

    def _tests(self, F: np.ndarray, theta: np.ndarray, active: np.ndarray) -> np.ndarray:
        """θ without its prior, by one Newton step, in its standard errors: F⁻¹/M is the covariance there."""
        covariance = inverse(F)
        pull = self.ridge[active] * theta + self.lasso[active] * np.sign(theta)
        return (theta + covariance @ pull) / np.sqrt(np.diag(covariance) / self.n_samples)

    def _variances(self, fisher: np.ndarray, ridge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Diagonals of S = (F + ridge)⁻¹/M and of S (M F) S = S − M S diag(ridge) S."""
        S = inverse(fisher + np.diag(ridge))
        posterior = np.diag(S) / self.n_samples
        if not ridge.any():
            return posterior, posterior
        return posterior, np.maximum(posterior - (S**2 @ ridge) / self.n_samples, 0.0)
