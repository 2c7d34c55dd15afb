"""Bethe with diagonal consistency ("bethe"): equations in ``bethe_equations``, the solver in ``continuation``."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbm_learn._validation import choose
from hbm_learn.inference.bethe_equations import BetheConsistency
from hbm_learn.inference.continuation import arrive, path_table
from hbm_learn.inference.damped import check_tolerance
from hbm_learn.inference.fields import MAX_COVARIANCES
from hbm_learn.inference.result import InferenceResult, variable_moments
from hbm_learn.model import BoltzmannMachine


def bethe(model: BoltzmannMachine, *, tol: float = 1e-10, max_evaluations: int = 5000) -> InferenceResult:
    """Bethe with diagonal consistency: any order, finite variables of any kind; made for sparse models.

    ::

        Σ_μ x^μ_i − (deg_i − 1) b_i = θ_i − Λ_i m_i,   S = Σ_μ C_μ⁻¹ − blockdiag((deg_i − 1)V_i⁻¹ − Λ_i),
        [S⁻¹]_ii = V_i

    where the factor μ, with the fields x^μ and J_μ, has the marginals p_i, and the covariances C_μ. Trees are exact.

    Parameters
    ----------
    model : BoltzmannMachine
        Of finite variables; an interaction has at most 4096 states. Interactions within larger ones are taken with
        them.
    tol : float
        Bound on the residual, the largest of ``|⟨ψ⟩ − m|``, ψ orthonormal functions, and ``|χ_ii/V_i − 1|``.
    max_evaluations : int
        Of the equations.

    Returns
    -------
    InferenceResult
        ``covariances`` S⁻¹, None where there are more than 1000 columns; ``interaction_moments`` of the factors; and
        ``path``. ``Lambda`` is (n,) where every variable has two values, and None elsewhere.

    Notes
    -----
    Up to 300 columns (q_i − 1 for each variable) the derivatives are exact, and an evaluation factorises a matrix of
    N + P unknowns as "dc" does. Beyond, S is kept sparse: the diagonal of its inverse comes from the factor of S by
    Takahashi's recursion, without error but rounding, and Newton's steps from GMRES, a product for one more factor. On
    a square lattice an evaluation takes O(n^1.5) operations, and O(n log n) memory. Arrival is not proven, as positive
    definite S does not bound Λ from below here; ``converged`` and ``status`` say what happened. A variable of three or
    more values, one of which has a probability below 1e-12 or so, is beyond the arithmetic, and stops the path.
    """
    return _solve(model, tol, max_evaluations, loops=False)


def bethe2(
    model: BoltzmannMachine, *, tol: float = 1e-10, max_evaluations: int = 5000, response: str = "consistent"
) -> InferenceResult:
    """Bethe with diagonal consistency and the field of its loops: what "dc2" is to "dc".

    ::

        ln Z = Bethe + ½ Σ tr(Λ_iV_i) − ½ [ln det(LᵀSL) + Σ_μ ln det(L⁻¹C_μL⁻ᵀ)]

    is stationary in m too, and not in Λ alone: fields −½ ∂/∂m of the bracket join those of "bethe". Where two
    interactions share two variables this is what "bethe" lacks at second order in the couplings, and on lattices the
    first effect of loops.

    Parameters
    ----------
    model : BoltzmannMachine
        As for :func:`bethe`.
    tol : float
        As for :func:`bethe`.
    max_evaluations : int
        Of the equations, those of GMRES not counted.
    response : {"consistent", "full"}
        What to report as covariances: S⁻¹, whose diagonal is V; or ∂m/∂h of all the equations, several times closer off
        the diagonal at weak coupling where interactions share two variables, for N + P more evaluations. "full" takes
        up to 300 columns.

    Returns
    -------
    InferenceResult
        As of :func:`bethe`.

    Notes
    -----
    Newton's steps come from GMRES on differences of the equations at every size, preconditioned with the derivatives of
    "bethe". Interactions of four or more that share three are not right to second order: take "dc2" there. Trees are
    exact. Arrival is not proven.
    """
    choose("response", response, {"full": None, "consistent": None})
    return _solve(model, tol, max_evaluations, loops=True, full=response == "full")


def _solve(
    model: BoltzmannMachine, tol: float, max_evaluations: int, loops: bool, full: bool = False
) -> InferenceResult:
    check_tolerance(tol, max_evaluations)
    problem = BetheConsistency(model, loops)
    if full and problem.is_sparse:
        raise ValueError(f"response='full' takes up to 300 columns, and the model has {problem.n}: use 'consistent'.")
    end = arrive(
        problem,
        tol=0.1 * tol,
        max_evaluations=max_evaluations,
        observe=lambda point: (point.closed_form, problem.sites.size(point.s)),
    )
    point: Any = end.point
    probabilities = problem.probabilities(point.marginals)
    means = np.concatenate([p @ np.asarray(phi) for p, phi in zip(probabilities, model.space.functions)])
    covariances = (
        _covariances(model, problem, point.response if full else point.chi) if problem.n <= MAX_COVARIANCES else None
    )
    m, v, chi = variable_moments(model.space, probabilities, means, covariances, _variances(model, probabilities))
    return InferenceResult(
        method="bethe2" if loops else "bethe",
        m=m,
        v=v,
        chi=chi,
        log_partition=point.closed_form,
        converged=end.residual < tol,
        n_iter=end.n_evaluations,
        residual=end.residual,
        status=end.status(tol),
        Lambda=point.s.Lambda if (model.space.sizes == 2).all() else None,
        probabilities=list(probabilities),
        means=means,
        covariances=covariances,
        interaction_moments=problem.interaction_moments(model, point),
        path=path_table(end.path),
    )


def _variances(model: BoltzmannMachine, probabilities: list[np.ndarray]) -> np.ndarray:
    """Of the model's columns under the marginals."""
    pairs = zip(probabilities, model.space.functions)
    return np.concatenate([p @ (np.asarray(phi) - p @ np.asarray(phi)) ** 2 for p, phi in pairs])


def _covariances(model: BoltzmannMachine, problem: BetheConsistency, chi: np.ndarray) -> np.ndarray:
    """χ of the model's columns: φ = constant + ψB, and ψ spans all functions."""
    B = problem.coefficients(model)
    return B.T @ (B.T @ chi).T
