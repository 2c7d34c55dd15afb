"""The prior of the couplings: one precision α_k for each order k, given or learnt from the data.

    penalty = Σ_μ α_|μ|/M · (l1_ratio |J_μ| + ½ (1 − l1_ratio) J_μ²)

Fields h and anisotropies d have no prior. With α = "auto", J_μ ~ N(0, τ_k²) and τ_k² maximises the (Laplace) evidence
by MacKay's update, τ_k² = Σ Ĵ² / Σ (1 − s²/τ_k²): s² are the posterior variances, sums run over order k.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hbm_learn.alphabet import Alphabet
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.result import InversionResult

# A learnt prior variance never falls below this fraction of the mean sampling variance of its order: such an order is
# switched off, and everything stays finite.
FLOOR = 1e-3
# Largest extrapolation of ln α in one round.
_LEAP = 3.0
# An order whose couplings keep less than this fraction of their estimates without prior.
_NEARLY_OFF = 0.2
_OPEN = 30.0


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
            raise ValueError(f"alpha={dict(alpha)!r} has no entry for order {missing[0]}.")
        found = {k: alpha[k] for k in orders}
    elif np.ndim(alpha) == 0:
        found = dict.fromkeys(orders, alpha)
    else:
        if len(alpha) < len(orders):
            raise ValueError(f"alpha={alpha!r}: give one number for each of the orders 2 … {order}, or a single one.")
        found = dict(zip(orders, alpha))
    for k, value in found.items():
        if not (isinstance(value, (int, float, np.number)) and np.isfinite(value) and value >= 0):
            raise ValueError(f"alpha={value!r} for order {k}: a prior precision is a finite number ≥ 0.")
    return {k: float(value) for k, value in found.items()}


def elastic(alpha: Mapping[int, float], l1_ratio: float) -> dict[int, float]:
    """α of a penalty with an ℓ1 part from learnt Gaussian ones: a Laplace prior of variance τ² = 1/α has rate √2/τ."""
    return {k: (1.0 - l1_ratio) * a + l1_ratio * np.sqrt(2.0 * a) for k, a in alpha.items()}


def mackay(result: InversionResult) -> dict[int, float]:
    """One update of α_k for every order, from a fit with the present α (standard errors are posterior ones)."""
    kept, alpha = result.model.packed, {}
    for k in kept.orders:
        where = kept.slice(k)
        J2, s2 = result.model.weights[where] ** 2, result.standard_errors[where] ** 2
        determined = np.clip(1.0 - result.alpha[k] * s2, 0.0, 1.0)
        # The sampling variance without prior is s²/(1 − α s²); where the prior is all there is, s² = 1/α.
        # Their harmonic mean, for one coupling that the data leave open must not speak for its order.
        sampling = 1.0 / np.mean(np.maximum(determined, FLOOR) / np.maximum(s2, 1e-300))
        tau2 = float(J2.sum()) / max(float(determined.sum()), 1e-12)
        alpha[k] = 1.0 / max(min(tau2, _broadest(result.model.alphabet, k)), FLOOR * float(sampling), 1e-300)
    return alpha


def _broadest(alphabet: Alphabet, k: int) -> float:
    """The prior variance at which a typical J_μ alone makes energies of ``_OPEN``: beyond it the prior says nothing."""
    low, high = alphabet.bounds
    return (_OPEN / (0.5 * (high - low)) ** k) ** 2 if alphabet.kind != "real" else np.inf


def learn(
    fit: Callable[[dict[int, float], InversionResult | None], InversionResult],
    alpha: dict[int, float],
    max_rounds: int = 30,
    tol: float = 0.005,
) -> InversionResult:
    """Empirical Bayes: fit, update α, fit again from there, until no estimate would move.

    w_k, the mean of 1 − α_k s², is the fraction of its estimate without prior that a coupling of order k keeps: stop
    when no w_k would change by more than ``tol``.

    Parameters
    ----------
    fit : (α, previous result or None) → result.
    alpha : {order: α} to begin with, such as the closed form's.
    max_rounds : fits at most, after the first.
    """
    last: dict[int, _Round] = {}
    result = fit(alpha, None)
    for _ in range(max_rounds):
        now = {k: _Round(result, k, target) for k, target in mackay(result).items()}
        steps = {k: now[k].step(last.get(k)) for k in now}
        if result.converged and all(now[k].change(steps[k]) < tol for k in now):
            break
        result, last = fit({k: float(np.exp(now[k].u + steps[k])) for k in now}, result), now
    return result


class _Round:
    """One order in one round: u = ln α, the step f that MacKay's update makes from there, and w."""

    def __init__(self, result: InversionResult, k: int, target: float):
        s2 = result.standard_errors[result.model.packed.slice(k)] ** 2
        self.u = np.log(result.alpha[k] if result.alpha[k] > 0 else target)
        self.f = np.log(target) - self.u
        self.w = float(np.mean(np.clip(1.0 - result.alpha[k] * s2, 0.0, 1.0)))

    def step(self, last: _Round | None) -> float:
        """A secant step to f = 0, within a few times MacKay's own, which crawls where an order is nearly off."""
        if abs(self.f) < 1e-6:
            return 0.0
        off = self.w < _NEARLY_OFF
        step, longest = (_LEAP, _LEAP) if off else (abs(self.f), max(abs(self.f), min(5.0 * abs(self.f), _LEAP)))
        if last is not None and self.u != last.u:
            slope = (self.f - last.f) / (self.u - last.u)
            step = -abs(self.f) / slope if slope < 0.0 else step
        return float(np.copysign(min(step, longest), self.f))

    def change(self, step: float) -> float:
        """|Δw| if ln α moved by this step or by MacKay's, as if the order had one sampling variance.

        An order that is nearly off and leaps back on has changed, however small w is after the first leap.
        """
        if self.w < _NEARLY_OFF and step == -_LEAP:
            return np.inf
        moved = [self.w / (self.w + (1.0 - self.w) * np.exp(u)) - self.w for u in (step, self.f)]
        return float(np.abs(moved).max())
