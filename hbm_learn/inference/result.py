"""InferenceResult: what every inference method returns, and moments of x from moments of functions of x."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hbm_learn.space import Space


@dataclass(frozen=True)
class Trust:
    """How far to believe an approximate result.

    Attributes
    ----------
    number : float
        Estimated error: root mean square, over the variables, of the probability that is in the wrong place
        (``½ Σ_x |p − q|``; half the error of m on spins). For continuous variables the error of m in half-widths.
    verdict : {"exact", "good", "rough", "poor"}
        By ``number``: zero, up to 0.01, up to 0.05, beyond or not converged.
    sentence : str
        What it rests on.
    """

    number: float
    verdict: str
    sentence: str


@dataclass(frozen=True, eq=False)
class InferenceResult:
    """Moments of a model, by one method. n variables, N functions φ of them ("columns"), p interacting sets of columns.

    A field that a method does not give is None. A nominal variable has no mean: its entries of m, v and chi are NaN;
    ``probabilities``, ``means`` and ``covariances`` tell of it.

    Attributes
    ----------
    method : str
        Name of the method.
    m, v : (n,) arrays
        Means ⟨x_i⟩ and second moments ⟨x_i²⟩.
    chi : (n, n) array
        Covariances of the x_i (None for "naive").
    log_partition : float
        ln Z, or the method's estimate of it.
    converged, status : bool, str
        Whether the residual is below its tolerance, and a sentence that says so.
    n_iter : int
        Iterations, or evaluations of the equations.
    residual : float
        The largest residual of the method's equations at the solution (0 for "exact").
    probabilities : list of (q_i,) arrays
        P(x_i) over the values of each variable; None for a continuous one.
    means : (N,) array
        ⟨φ_c⟩ of each column, as ``model.space`` numbers them; m itself where each variable is one number.
    covariances : (N, N) array
        Of the columns; chi itself where each variable is one number.
    Lambda : (n,) array
        Λ of the diagonal consistency ("dc"), the Onsager coefficient ("tap"), Λ̂ ("adaptive-tap").
    interaction_moments, interaction_cumulants : (p,) arrays
        ⟨Π_{c∈μ} φ_c⟩ and joint cumulants, as ``model.columns``; as ``model.interactions`` where each variable is one
        number.
    entropy : float
        −⟨ln P⟩ in nats ("exact").
    m_standard_errors, chi_standard_errors : arrays
        Monte Carlo errors of m and chi ("gibbs").
    path : (points, 3) array
        α, ln Z so far and the root mean square of m, from α = 0 to 1 along the continuation, for plots (mean-field
        methods with solver "path").
    trust : Trust
        How far to believe the result ("auto").
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
    probabilities: list[np.ndarray | None] | None = None
    means: np.ndarray | None = None
    covariances: np.ndarray | None = None
    trust: Trust | None = None


def variable_moments(
    space: Space,
    probabilities: Sequence[np.ndarray | None],
    means: np.ndarray,
    covariances: np.ndarray | None,
    variances: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """m (n,), v (n,) and chi (n, n) of the x_i:  x_i = c_i + Σ_a φ_ia B_ia,  χ = B Cov(φ) Bᵀ.

    NaN where a variable is nominal; chi is None without covariances.

    Parameters
    ----------
    space : Space
    probabilities : sequence of (q_i,) arrays
        P(x_i) of each variable; None for a continuous one, whose only column is x itself.
    means : (N,) array
        ⟨φ_c⟩.
    covariances : (N, N) array or None
        Of the columns.
    variances : (N,) array
        Of the columns; the diagonal of ``covariances`` by default. Continuous variables need one of the two.
    """
    if variances is None and covariances is not None:
        variances = np.diag(covariances)
    if variances is not None and is_plain(space):
        return means.copy(), variances + means**2, covariances
    m, v = np.full(space.n_features, np.nan), np.full(space.n_features, np.nan)
    for i, (alphabet, p) in enumerate(zip(space.alphabets, probabilities)):
        if not alphabet.is_finite:
            assert variances is not None, "a continuous variable needs the variance of its column"
            c = space.column_ptr[i]
            m[i], v[i] = means[c], variances[c] + means[c] ** 2
        elif not alphabet.is_nominal:
            assert p is not None, "a finite variable needs its probabilities"
            m[i], v[i] = p @ alphabet.nodes, p @ alphabet.nodes**2
    if covariances is None:
        return m, v, None
    B = _coefficients_of_x(space)
    nominal = np.array([a.is_nominal for a in space.alphabets])
    chi = B @ covariances @ B.T
    chi[nominal], chi[:, nominal] = np.nan, np.nan
    return m, v, chi


def is_plain(space: Space) -> bool:
    """Whether each variable is one number and its only function is that number: moments of φ are moments of x."""
    return space.is_scalar and space.is_numeric and space.is_coding


def _coefficients_of_x(space: Space) -> np.ndarray:
    """(n, N) B with x_i = constant + Σ_c B_ic φ_c; zero for nominal variables."""
    B = np.zeros((space.n_features, space.n_columns))
    for i, (alphabet, table) in enumerate(zip(space.alphabets, space.functions)):
        mine = slice(space.column_ptr[i], space.column_ptr[i + 1])
        if table is None:
            B[i, mine] = 1.0
        elif not alphabet.is_nominal:
            design = np.column_stack([np.ones(len(table)), table])
            B[i, mine] = np.linalg.lstsq(design, alphabet.nodes, rcond=None)[0][1:]
    return B
