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

from hbm_learn.interactions import Interactions
from hbm_learn.inversion.result import InversionResult

# A learnt prior variance never falls below this fraction of the mean sampling variance of its order: such an order is
# switched off, and everything stays finite.
FLOOR = 1e-3


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


def mackay(result: InversionResult) -> dict[int, float]:
    """One update of α_k for every order, from a fit with the present α (standard errors are posterior ones)."""
    kept, alpha = result.model.packed, {}
    for k in kept.orders:
        where = kept.slice(k)
        J2, s2 = result.model.weights[where] ** 2, result.standard_errors[where] ** 2
        determined = float(np.sum(1.0 - result.alpha[k] * s2))
        # The sampling variance without prior is s²/(1 − α s²); where the prior is all there is, s² = 1/α.
        sampling = s2 / np.maximum(1.0 - result.alpha[k] * s2, FLOOR)
        tau2 = float(J2.sum()) / max(determined, 1e-12)
        alpha[k] = 1.0 / max(tau2, FLOOR * float(sampling.mean()), 1e-300)
    return alpha


def learn(
    fit: Callable[[dict[int, float], InversionResult | None], InversionResult],
    alpha: dict[int, float],
    max_rounds: int = 30,
    tol: float = 0.02,
) -> InversionResult:
    """Empirical Bayes: fit, update α, fit again from there, until no α moves by more than ``tol`` (relative)."""
    result = fit(alpha, None)
    for _ in range(max_rounds):
        new = mackay(result)
        moved = max((abs(np.log(new[k] / max(result.alpha[k], 1e-300))) for k in new), default=0.0)
        if moved < tol:
            break
        result = fit(new, result)
    return result
