"""Target: what the likelihood asks of the data, and the parameters it asks it for.

    L(θ) = θ·t̄ − ln Z(θ) − Σ_μ (½ ridge_μ J_μ² + lasso_μ |J_μ|),     t = (O_ik(x_i), Π_{c∈μ} φ_c),  θ = (own, J)

t̄ are averages over the data: the moments are all that the likelihood of a Boltzmann machine sees.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hbm_learn import linalg
from hbm_learn.data.moments import Moments
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.likelihood.given import GivenTables, Patterns
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior
from hbm_learn.inversion.result import Fit, Whole
from hbm_learn.states import StateTable

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
    independent : (P,) array
        θ of independent variables with (nearly) the data's frequencies.
    independent_value : float
        −L there; couplings of zero have no penalty.
    patterns : Patterns or None
        Of given variables, where there are some and the rows are known.
    """

    parameters: Parameters
    t: np.ndarray
    ridge: np.ndarray
    lasso: np.ndarray
    n_samples: float
    prior: Prior
    names: list[str] | None
    independent: np.ndarray
    independent_value: float
    patterns: Patterns | None = None

    @classmethod
    def of(cls, moments: Moments, parameters: Parameters, samples: Samples | None = None) -> Target:
        """The target of moments in the coding gauge, without a prior: what fits under several priors share.

        Parameters
        ----------
        moments : Moments
        parameters : Parameters
        samples : Samples or None
            Of the same data, for the patterns of given variables.
        """
        columns = parameters.columns
        if columns.order > moments.order:
            raise ValueError(
                f"interactions of order {columns.order} need moments of that order, got {moments.order}: compute "
                f"Moments with order={columns.order}."
            )
        own = [p @ O for p, O in zip(moments.frequencies, parameters.own)]
        seen = moments if parameters.space is moments.space else moments.in_space(parameters.space)
        t = np.concatenate([*own, seen.moments(columns)])
        zero, flat = np.zeros(len(t)), Prior(dict.fromkeys(columns.orders, 0.0))
        independent = parameters.independent(_UNIFORM)
        tables = [each for each, given in zip(parameters.tables(independent), parameters.space.given) if not given]
        value = float(sum(map(np.logaddexp.reduce, tables)) - independent @ t)
        patterns = Patterns.of(samples, parameters) if samples is not None and parameters.space.has_given else None
        names = moments.feature_names
        return cls(parameters, t, zero, zero, moments.n_samples, flat, names, independent, value, patterns)

    def table(self, theta: np.ndarray) -> StateTable | GivenTables:
        """All states of the model at θ; ValueError where energies exceed float64."""
        if self.patterns is not None:
            return self.patterns.at(theta)
        return StateTable(self.parameters.model(theta))

    def under(self, prior: Prior) -> Target:
        """The same data under a prior."""
        columns, free = self.parameters.columns, np.zeros(self.parameters.n_own)
        ridge = np.concatenate([free, prior.ridge(columns) / self.n_samples])
        lasso = np.concatenate([free, prior.lasso(columns) / self.n_samples])
        return replace(self, ridge=ridge, lasso=lasso, prior=prior)

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
            return self._fit(theta, zero, zero, np.ones(P), make_whole=lambda: Whole(theta, zero), **report)
        F, ridge = fisher[np.ix_(active, active)], self.ridge[active]
        S = linalg.inverse(F + np.diag(ridge))
        S /= self.n_samples
        spread = np.zeros((2, P))
        spread[0, active] = np.diag(S)
        spread[1, active] = np.maximum(np.diag(S) - self.n_samples * (S**2 @ ridge), 0.0)
        kept = np.clip(1.0 - self.n_samples * self.ridge * spread.sum(axis=0), 0.0, 1.0)  # 1 − α s² is the sum
        spread += monte_carlo * spread[1]

        def whole() -> Whole:
            if self.lasso.any():
                return Whole(covariance=_embedded(S, active))
            C = S * self.n_samples if not ridge.any() else linalg.inverse(F)
            free = theta + C @ (self.ridge * theta)
            C *= (1.0 + monte_carlo) / self.n_samples
            return Whole(free, np.diag(C).copy(), S, C)

        return self._fit(theta, spread[0], spread[1], kept, make_whole=whole, **report)

    def diagonal_fit(self, theta: np.ndarray, information: np.ndarray, **report: Any) -> Fit:
        """θ with the errors of a diagonal Fisher matrix, (P,) ``information``."""
        posterior = 1.0 / (self.n_samples * (information + self.ridge))
        kept = information / (information + self.ridge)
        free = theta + self.ridge * theta / information
        whole = Whole() if self.lasso.any() else Whole(free, 1.0 / (self.n_samples * information))
        return self._fit(theta, posterior, kept * posterior, kept**2, make_whole=lambda: whole, **report)

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
