"""InversionResult: what every inversion method returns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from hbm_learn.model import BoltzmannMachine

# A field or coupling times the width of the alphabet that no data determine: odds of e⁴⁰ want as many samples.
UNBOUNDED = 40.0


@dataclass(frozen=True, eq=False)
class InversionResult:
    """A fitted model with its errors. n variables, p interactions.

    Attributes
    ----------
    method : name of the method.
    model : the fitted BoltzmannMachine.
    standard_errors, h_standard_errors : (p,), (n,) posterior standard deviations of J_μ and h_i; with a learnt prior
        they allow for what is uncertain about it.
    sampling_errors : (p,) standard deviations of the estimates J_μ over repeated data sets; without a prior they equal
        ``standard_errors``.
    kept, noise : (p,) what empirical Bayes wants to know: couplings drawn from the prior, N(0, 1/α), would be estimated
        with squares of kept/α + noise on average. Without a prior, kept is 1; noise is the square of sampling_errors.
    z : (p,) N(0, 1) when J_μ = 0: one Newton step takes the estimate back to what it would be without the prior, which
        pulls a coupling also through the others that it is correlated with; divided by the error that it has there.
        None with an ℓ1 part and where the maximum is not finite: then J_μ / sampling_errors stands in.
    alpha : {order: prior precision used}.
    converged, status : whether the certificate is met, and a sentence that says so.
    n_iter : iterations, or passes over the data.
    residual : the certificate: the largest gradient entry, the KKT residual or what is left of the Newton decrement,
        over p/M (p the parameters that the data determine, and not the prior).
    notes : sentences a user should read, such as columns that are collinear.
    """

    method: str
    model: BoltzmannMachine
    standard_errors: np.ndarray
    h_standard_errors: np.ndarray
    sampling_errors: np.ndarray
    alpha: dict[int, float]
    kept: np.ndarray
    noise: np.ndarray
    z: np.ndarray | None = None
    converged: bool = True
    status: str = "converged"
    n_iter: int = 1
    residual: float = 0.0
    notes: list[str] = field(default_factory=list)

    def determined(self, k: int) -> float:
        """The share of the couplings of order k that the data determine and not the prior, on average."""
        where = self.model.packed.slice(k)
        return float(np.clip(np.mean(self.kept[where] + self.alpha[k] * self.noise[where]), 0.0, 1.0))

    def with_notes(self, notes: list[str]) -> InversionResult:
        """The same result with these notes before its own."""
        return replace(self, notes=[*notes, *self.notes])
