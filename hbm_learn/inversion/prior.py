"""The prior of the couplings: one precision α_k for each order k, given or learnt from the data.

    penalty = Σ_μ α_|μ|/M · (l1_ratio |J_μ| + ½ (1 − l1_ratio) J_μ²)

J are couplings in the gauge of the fit: a learnt prior is one of effects, in the standard gauge, so that it means the
same for every variable and every coding of it; a given α is one of the user's own weights. What concerns one variable
alone has no prior. With α = "auto", J_μ ~ N(0, τ_k²) and τ_k² maximises the (Laplace) evidence: MacKay's fixed point
τ_k² = Σ Ĵ² / Σ (1 − s²/τ_k²), s² the posterior variances, sums over order k.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from hbm_learn.data.moments import MAX_ORDER
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.result import Fit, Whole

# A learnt prior variance never falls below this fraction of the mean sampling variance of its order: such an order is
# switched off, and everything stays finite.
FLOOR = 1e-3
# Largest step of ln α in one round, and the one at which to stop.
_LEAP, _NEAR = 3.0, 0.5
NO_EVIDENCE = (
    "the data hold no evidence about the strength of the prior: the objective falls without end as it gets weaker; the "
    'last prior with a sensible fit stands, and errors lean on it; refine="pseudolikelihood" has an objective with a '
    "bound, or give alpha."
)
# The largest standard deviation of an effect: energies of such a size leave nothing open.
BROADEST = 30.0


@dataclass(frozen=True)
class Prior:
    """α for each order, and how much of the penalty is ℓ1."""

    alpha: Mapping[int, float]
    l1_ratio: float = 0.0

    def ridge(self, interactions: Interactions) -> np.ndarray:
        """(p,) precisions of the Gaussian part, α_|μ| (1 − l1_ratio); the penalty of a mean log-likelihood has 1/M."""
        return (1.0 - self.l1_ratio) * self._by_order(interactions)

    def lasso(self, interactions: Interactions) -> np.ndarray:
        """(p,) rates of the ℓ1 part, α_|μ| l1_ratio."""
        return self.l1_ratio * self._by_order(interactions)

    def _by_order(self, interactions: Interactions) -> np.ndarray:
        sizes = np.diff(interactions.indptr)
        out = np.zeros(len(interactions))
        for k in interactions.orders:
            out[sizes == k] = self.alpha[k]
        return out


def check_alpha(alpha: Any, order: int) -> dict[int, float] | str:
    """{order: α} for the orders 2 … order from a number, one for each order (a sequence or a dict), or "auto"."""
    if isinstance(alpha, str):
        if alpha != "auto":
            raise ValueError(f'alpha={alpha!r} is not known: give "auto", a number, or one number for each order.')
        return "auto"
    orders = range(2, order + 1)
    if isinstance(alpha, Mapping):
        missing = [k for k in orders if k not in alpha]
        if missing:
            raise ValueError(
                f"alpha={dict(alpha)!r} has no entry for order {missing[0]}: give one for each order, 2 … {order}."
            )
        strange = [k for k in alpha if k not in range(2, MAX_ORDER + 1)]
        if strange:
            raise ValueError(f"alpha={dict(alpha)!r} has an entry for {strange[0]!r}: orders are 2 … {MAX_ORDER}.")
        found = {k: alpha[k] for k in orders}
    elif np.ndim(alpha) == 0:
        found = dict.fromkeys(orders, alpha)
    else:
        if not len(orders) <= len(alpha) < MAX_ORDER:
            raise ValueError(f"alpha={alpha!r}: give one number for each of the orders 2 … {order}, or a single one.")
        found = dict(zip(orders, alpha))
    for k, value in found.items():
        if not (isinstance(value, (int, float, np.number)) and np.isfinite(value) and value >= 0):
            raise ValueError(f"alpha={value!r} for order {k}: a prior precision is a finite number ≥ 0.")
    return {k: float(value) for k, value in found.items()}


def elastic(alpha: Mapping[int, float], l1_ratio: float) -> dict[int, float]:
    """α of a penalty with an ℓ1 part from learnt Gaussian ones: a Laplace prior of variance τ² = 1/α has rate √2/τ."""
    return {k: (1.0 - l1_ratio) * a + l1_ratio * np.sqrt(2.0 * a) for k, a in alpha.items()}


def update(result: Fit) -> dict[int, float]:
    """α_k of every order whose expected Σ Ĵ² is the one found, from a fit with the present α.

    If J ~ N(0, τ²), a fit with the present α makes Σ Ĵ² = τ² Σ kept + Σ noise of it on average. Solved for τ², that has
    the fixed point of MacKay's update, but gets there in few rounds even where an order is nearly off: in one for
    couplings that are equally well determined.
    """
    interactions, alpha = result.parameters.columns, {}
    for k in interactions.orders:
        tau2, sampling = _estimate(result, k)
        alpha[k] = 1.0 / max(min(tau2, BROADEST**2), FLOOR * sampling, 1e-300)
    return alpha


def _estimate(result: Fit, k: int) -> tuple[float, float]:
    """τ_k² from the squares found, and the sampling variance of the couplings without prior."""
    where = result.parameters.columns.slice(k)
    J2, s2 = result.weights[where] ** 2, result.mean_errors2[where]
    kept, noise = result.kept[where], result.noise[where]
    # The sampling variance without prior is s²/w; where the prior is all there is, s² = 1/α.
    # Their harmonic mean, for one coupling that the data leave open must not speak for its order.
    share = result.parameters.terms.means(result.kept + result.alpha[k] * result.noise)[where]
    w = np.clip(share, FLOOR**2, 1.0)
    sampling = 1.0 / float(np.mean(w / np.maximum(s2, 1e-300)))
    return float(np.sum(J2 - noise)) / max(float(kept.sum()), 1e-300), sampling


def expected_variance(tau2: float, noise: float, p: int, n_samples: float) -> float:
    """The mean of τ² given an estimate ≥ 0 of it from p couplings with sampling variance ``noise``.

    The mean square Ĵ² = τ² + noise is that of ν Gaussian numbers of variance τ² + noise, ν = p or fewer if there are
    fewer samples; with a flat prior of τ² ≥ 0 the variance has a truncated inverse-gamma distribution.
    """
    half, square = max(0.5 / (1.0 / p + 1.0 / n_samples), 3.0), tau2 + noise
    if noise <= 0.0:
        return tau2
    below = special.gammainc([half - 2.0, half - 1.0], half * square / noise)
    return max(half * square / (half - 2.0) * float(below[0] / below[1]) - noise, 0.0)


def widened(result: Fit, n_samples: float) -> Fit:
    """The result with posterior variances that allow for what is uncertain about a learnt α.

    Where τ² comes out near zero, zero is only its most likely value: errors with that prior would claim that couplings
    are known to vanish which the data hardly see. They are given with the expected τ² where that is larger.
    """
    columns, n_own = result.parameters.columns, result.parameters.n_own
    variances, factor = result.mean_errors2, np.ones(len(result.posterior))
    for k in columns.orders:
        where = columns.slice(k)
        found, sampling = _estimate(result, k)
        tau2 = expected_variance(max(found, 0.0), sampling, where.stop - where.start, n_samples)
        wider = widened_variance(variances[where], result.alpha[k], tau2)
        factor[n_own + where.start : n_own + where.stop] = wider / np.maximum(variances[where], 1e-300)

    def whole() -> Whole:
        root, covariance = np.sqrt(factor), result.covariance
        if covariance is not None:  # correlations stay as they are
            covariance = covariance * root * root[:, None]
        return replace(result.whole, covariance=covariance)

    return replace(result, posterior=factor * result.posterior, make_whole=whole)


def widened_variance(variance: np.ndarray, alpha: float, tau2: float) -> np.ndarray:
    """Posterior variances with the prior variance τ² in place of 1/α, if that is larger."""
    tau2 = min(tau2, BROADEST**2)
    if alpha * tau2 <= 1.0:
        return variance
    information = np.maximum(1.0 / np.maximum(variance, 1e-300) - alpha, 0.0)
    return 1.0 / (information + 1.0 / tau2)


def learn(
    fit: Callable[[dict[int, float], Fit | None], Fit],
    alpha: dict[int, float],
    n_samples: float = np.inf,
    max_rounds: int = 30,
    tol: float = 0.005,
) -> Fit:
    """Empirical Bayes: fit, update α, fit again from there, until no estimate would move.

    w_k, ``determined``, is the fraction of its estimate without prior that a coupling of order k keeps: stop when none
    would change by more than ``tol``, and no α_k by more than half.

    Parameters
    ----------
    fit : (α, previous result or None) → result.
    alpha : {order: α} to begin with, such as the closed form's.
    n_samples : M.
    max_rounds : fits at most, after the first.
    """
    result, last = fit(alpha, None), dict.fromkeys(alpha, 0.0)
    for _ in range(max_rounds):
        if not result.endless:
            break
        alpha = {k: value * float(np.exp(_LEAP)) for k, value in alpha.items()}
        result = fit(alpha, None)
    for _ in range(max_rounds):
        target = update(result)
        steps = {k: _log_step(result.alpha[k], target[k]) for k in target}
        near = all(abs(steps[k]) < _NEAR and _change(result, k, steps[k]) < tol for k in steps)
        if result.converged and near:
            break
        steps = {k: float(np.clip(step, -_LEAP, _LEAP)) for k, step in steps.items()}
        for k in steps:  # a step back is one too far: it is halved
            steps[k] *= 0.5 if steps[k] * last.get(k, 0.0) < 0.0 else 1.0
        alpha = {k: (result.alpha[k] or target[k]) * float(np.exp(steps[k])) for k in steps}
        found = fit(alpha, result)
        if found.endless:
            result = replace(result, notes=[*result.notes, NO_EVIDENCE])
            break
        result, last = found, steps
    return widened(result, n_samples)


def _log_step(now: float, target: float) -> float:
    return float(np.log(target / now)) if now > 0.0 else 0.0


def _change(result: Fit, k: int, step: float) -> float:
    """|Δw|, with w the share that order k keeps, after a step of ln α_k, as if it had one sampling variance."""
    w = result.determined(k)
    return abs(w / (w + (1.0 - w) * np.exp(step)) - w) if w > 0.0 else 0.0
