"""The posterior of all couplings together, by expectation consistency: the paper's equations once more.

    exp(−½ θᵀKθ + bᵀθ) Π_μ p(β_μ),     β = the couplings among θ

is a pairwise random field on the real line with non-Gaussian sites. As for the spins, each site is replaced by a
Gaussian, exp(−½γβ² + λ·β), such that the diagonals agree:

    A = K + diag(γ),  mean = A⁻¹(b + λ),  v = diag A⁻¹
    cavity:  Λ = 1/v − γ,  ρ = mean/v − λ;     site:  mean and variance of p(β) exp(−½Λβ² + ρ·β)
    γ = 1/variance − Λ,   λ = mean_site/variance − ρ

until the means and variances of the sites are those of A. The weights of the mixtures are learnt on the way, on the
cavities. A term of several functions has one γ, from the mean of its variances.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hbm_learn.inversion.shrinkage import mixture
from hbm_learn.inversion.shrinkage.mixture import Cavities
from hbm_learn.inversion.shrinkage.quadratic import Quadratic
from hbm_learn.terms import Terms

# Steps of (ln γ, λ): the first, and the least to which a growing residual takes it.
_FIRST_STEP, _LEAST_STEP = 1.0, 0.05
# The residual at which the sites agree.
TOLERANCE = 0.01
MAX_SWEEPS = 60
# Sweeps without progress before giving up.
_PATIENCE = 8
# A prior so many times as precise as the data leaves a coupling near zero.
STRONG = 3.0


@dataclass(frozen=True, eq=False)
class Sites:
    """The sites of the couplings. p sets of columns, T terms.

    Attributes
    ----------
    terms : Terms
    sigma : (G,) array
        Scales of the mixtures.
    pi : {order: (G,) array}
        Their weights.
    precision : (T,) array
        Λ of the cavities.
    rho : (p,) array
        ρ of the cavities.
    gamma, shift : (p,) arrays
        γ and λ of the Gaussians in their place.
    mean, variance : (p,) arrays
        Of the posterior of each coupling.
    log_ratio : float
        Σ over sites of ln(integral with p) − ln(integral with the Gaussian).
    residual : float
        How far the sites are from those of A: differences of means in standard deviations, and of ln γ in shares that
        the prior has of the precision; root mean square.
    belief : {order: float}
        Probability that there is anything of an order (``orders``); 1 where it is not there.
    """

    terms: Terms
    sigma: np.ndarray
    pi: dict[int, np.ndarray]
    precision: np.ndarray
    rho: np.ndarray
    gamma: np.ndarray
    shift: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    log_ratio: float = 0.0
    residual: float = np.inf
    belief: Mapping[int, float] = field(default_factory=dict)

    @property
    def cavities(self) -> Cavities:
        return Cavities(self.precision, self.terms.sum(self.rho**2), self.terms.df)

    def stands_out(self, strong: float = STRONG) -> np.ndarray:
        """(T,) whether the data have a say in the posterior of a term beside its prior."""
        return self.terms.sum(self.gamma) / self.terms.df < strong * self.precision

    def second_moment(self, k: int) -> float:
        """The mean of β² over the couplings of order k, as the posterior has it."""
        where = self.terms.columns.slice(k)
        return float(np.mean(self.mean[where] ** 2 + self.variance[where]))


@dataclass(frozen=True, eq=False)
class Posterior:
    """Where expectation consistency arrived: mean (P,), variances (P,) and ln |A| of the Gaussian, and the sites."""

    mean: np.ndarray
    variances: np.ndarray
    log_det: float
    sites: Sites


def solve(data: Quadratic, n_own: int, start: Sites, tol: float = TOLERANCE, max_sweeps: int = MAX_SWEEPS) -> Posterior:
    """Sweeps of cavities, weights and sites until they agree; the best so far where they do not.

    Parameters
    ----------
    data : Quadratic
        θ = (own, couplings).
    n_own : int
        Own parameters, which have a flat prior.
    start : Sites
        With γ and λ to begin with.
    tol, max_sweeps
        See the constants.
    """
    sites, step, best, idle = start, _FIRST_STEP, None, 0
    free = np.zeros(n_own)
    for _ in range(max_sweeps):
        now = data.posterior(np.concatenate([free, sites.gamma]), np.concatenate([free, sites.shift]))
        left = now.residual[n_own:] if isinstance(now.residual, np.ndarray) else now.residual
        new = updated(sites, now.mean[n_own:], now.variances[n_own:], left)
        if best is None or new.residual < best.sites.residual:
            best = Posterior(now.mean, now.variances, now.log_det, replace(new, gamma=sites.gamma, shift=sites.shift))
            step, idle = min(_FIRST_STEP, 1.2 * step), 0
        else:
            step, idle = max(0.6 * step, _LEAST_STEP), idle + 1
        if best.sites.residual < tol or idle > _PATIENCE:
            break
        sites = _damped(sites, new, step)
    assert best is not None
    return best


def begin(terms: Terms, sigma: np.ndarray, estimate: np.ndarray, variance: np.ndarray) -> Sites:
    """Sites as if the couplings were uncorrelated, from estimates of them without a prior and their variances (p,)."""
    p, even = len(terms.columns), np.full(len(sigma), 1.0 / len(sigma))
    information = 1.0 / np.maximum(terms.sum(variance) / terms.df, 1e-300)
    zero = np.zeros(p)
    blank = Sites(
        terms, sigma, {k: even for k in terms.keys.orders}, zero, zero, np.full(p, sigma[-1] ** -2), zero, zero, zero
    )
    # With K = diag, the mean without shift is K r/(K + γ) and the variance 1/(K + γ).
    total = information[terms.group] + blank.gamma
    return updated(blank, information[terms.group] * estimate / total, 1.0 / total)


def updated(sites: Sites, mean: np.ndarray, v: np.ndarray, left: np.ndarray | float = 0.0) -> Sites:
    """The sites that belong to means and variances of A: cavities, weights, moments; γ and λ without damping.

    ``left`` = b + λ − A mean is what iterations leave: a stiff prior would make a large error of a small one there.
    """
    terms = sites.terms
    v_term = np.maximum(terms.sum(v) / terms.df, 1e-300)
    gamma_term = terms.sum(sites.gamma) / terms.df
    precision = np.maximum(1.0 / v_term - gamma_term, 1e-9 / v_term)
    rho = mean / v_term[terms.group] - sites.shift + left
    cavities = Cavities(precision, terms.sum(rho**2), terms.df)
    factor, variance, total = np.zeros(len(terms)), np.zeros(len(terms)), np.zeros(len(terms))
    pi = {}
    for k in terms.keys.orders:
        where = terms.keys.slice(k)
        mine = cavities.at(where)
        pi[k] = mixture.learn_weights(mine, sites.sigma, sites.pi[k])
        believed = mixture.doubted(pi[k], sites.belief.get(k, 1.0))
        factor[where], variance[where], total[where] = mixture.moments(mine, sites.sigma, believed)
    site_mean = factor[terms.group] * rho
    gamma = np.maximum(1.0 / variance - precision, 1.0 / sites.sigma[-1] ** 2)
    shift = (gamma + precision)[terms.group] * site_mean - rho
    # ln ∫ exp(−½(Λ + γ)β² + (ρ + λ)·β), up to (2π)^(d/2), with the present γ and λ
    together = precision + gamma_term
    square = terms.sum((rho + sites.shift) ** 2)
    gaussian = 0.5 * (square / together - terms.df * np.log(together))
    # Where a site is undecided between two scales its γ is at its bound, and the variances cannot agree.
    off = (site_mean - mean) ** 2 / v_term[terms.group] + ((np.log(gamma / gamma_term) * gamma * v_term) ** 2)[
        terms.group
    ]
    return Sites(
        terms=terms,
        sigma=sites.sigma,
        pi=pi,
        precision=precision,
        rho=rho,
        gamma=gamma[terms.group],
        shift=shift,
        mean=site_mean,
        variance=variance[terms.group],
        log_ratio=float(np.sum(total - gaussian)),
        residual=float(np.sqrt(np.mean(off))) if len(off) else 0.0,
        belief=sites.belief,
    )


def _damped(old: Sites, new: Sites, step: float) -> Sites:
    gamma = np.exp((1.0 - step) * np.log(old.gamma) + step * np.log(new.gamma))
    return replace(new, gamma=gamma, shift=(1.0 - step) * old.shift + step * new.shift)
