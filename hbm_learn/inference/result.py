"""InferenceResult: what every inference method returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class InferenceResult:
    """Moments of a model, by one method. n variables, p interactions; a field that a method does not give is None.

    Attributes
    ----------
    method : name of the method.
    m, v : (n,) means ⟨x_i⟩ and second moments ⟨x_i²⟩.
    chi : (n, n) covariances (None for "naive").
    log_partition : ln Z, or the method's estimate of it.
    converged, status : whether the residual is below its tolerance, and a sentence that says so.
    n_iter : iterations, or evaluations of the equations.
    residual : the largest residual of the method's equations at the solution (0 for "exact").
    Lambda : (n,) Λ of the diagonal consistency ("dc"), the Onsager coefficient ("tap"), Λ̂ ("adaptive-tap").
    interaction_moments, interaction_cumulants : (p,) ⟨Π_{i∈μ} x_i⟩ and joint cumulants, as ``model.interactions``.
    entropy : −⟨ln P⟩ in nats ("exact").
    m_standard_errors, chi_standard_errors : Monte Carlo errors ("gibbs").
    path : (points, 3) α, ln Z so far and the root mean square of m, from α = 0 to 1 along the continuation, for plots
        (mean-field methods with solver "path").
    """

    method: str
    m: np.ndarray
    v: np.ndarray
    chi: np.ndarray | None
    log_partition: float
    converged: bool
    n_iter: int
    residual: float
    status: str = "converged"
    Lambda: np.ndarray | None = None
    interaction_moments: np.ndarray | None = None
    interaction_cumulants: np.ndarray | None = None
    entropy: float | None = None
    m_standard_errors: np.ndarray | None = None
    chi_standard_errors: np.ndarray | None = None
    path: np.ndarray | None = None
