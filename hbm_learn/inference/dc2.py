"""Diagonal consistency to second order ("dc2"): equations in ``dc2_equations``, the solver in ``continuation``."""

from __future__ import annotations

from typing import Any

from hbm_learn._validation import choose
from hbm_learn.inference.continuation import arrive, path_table
from hbm_learn.inference.damped import check_tolerance
from hbm_learn.inference.dc2_equations import SecondOrderConsistency
from hbm_learn.inference.equations import check_stable
from hbm_learn.inference.fields import MAX_COVARIANCES, outcome
from hbm_learn.inference.result import InferenceResult
from hbm_learn.inference.sparse_equations import sparse_problem
from hbm_learn.inference.sparse_inverse import SPARSE_SIZE
from hbm_learn.model import BoltzmannMachine


def dc2(
    model: BoltzmannMachine,
    *,
    tol: float = 1e-10,
    max_evaluations: int = 5000,
    response: str = "full",
) -> InferenceResult:
    """Diagonal consistency, right to second order in the couplings: any order, variables of any kind.

    Of numbers::

        b = h + F(m) + ½ T:χ + f − (Λ + Λ′)m,   c = d − Λ − Λ′,   χ = (diag(1/V + Λ) − A(m))⁻¹,   χ_ii = V_i
        Λ′_i = Σ_{B∋i, |B|≥3} (∂_B E)² Π_{B∖i} V,   f_l = Σ_{|B|≥3} ∂_B E ∂_l ∂_B E Π_B V

    with T = ∂A/∂m. For pairs T, Λ′ and f vanish, and these are the equations of "dc". Beyond pairs "dc" lacks ½T:χ, the
    derivative of its own ln det, and the interactions of three or more that act by themselves (Λ′, f).

    Parameters
    ----------
    model : BoltzmannMachine
    tol : float
        Bound on the residual, the largest of ``|⟨φ⟩ − m|`` and ``|χ_ii/V_i − 1|``.
    max_evaluations : int
        Of the equations.
    response : {"full", "consistent"}
        What to report as covariances: ∂m/∂h of all the equations, or χ = S⁻¹, whose diagonal is V, as "dc" does.

    Returns
    -------
    InferenceResult
        With ``Lambda`` Λ + Λ′ (n,), or a list of (r_i, r_i) where a variable has several functions, and ``path``.
        ``log_partition`` is a closed form, without an integral along the path.

    Notes
    -----
    On hypergraphs whose interactions share at most one variable the two new terms cancel nearly, and "dc" is the closer
    one: method "auto" chooses. The path is that of "dc"; docs/convergence.md says for which models it must arrive.

    An evaluation factorises a matrix of N + P unknowns, P = Σ r_i(r_i + 1)/2 (2n for numbers), ⅔(N + P)³ flops, and
    sums over pairs of pairs within triples, at most 4N⁴ flops. Sparse models are solved as by "dc": of more than 300
    columns with ``response="consistent"``, and of more than 1000, whose covariances are not formed (None), with either.
    """
    check_tolerance(tol, max_evaluations)
    choose("response", response, {"full": None, "consistent": None})
    check_stable(model)
    keeps_chi = 0 if response == "consistent" else MAX_COVARIANCES  # the full response is dense
    sparse = sparse_problem(model, second=True, size=max(SPARSE_SIZE, keeps_chi))
    problem = SecondOrderConsistency(model) if sparse is None else sparse
    end = arrive(
        problem,
        tol=0.01 * tol,
        max_evaluations=max_evaluations,
        observe=lambda point: (point.closed_form, problem.sites.size(point.s)),
    )
    point: Any = end.point
    if sparse is None:
        chi = point.response if response == "full" else point.chi
    else:
        chi = point.chi if problem.n <= MAX_COVARIANCES else None
    return outcome(
        model,
        problem.sites,
        point.s,
        chi,
        method="dc2",
        log_partition=point.closed_form,
        converged=end.residual < tol,
        n_iter=end.n_evaluations,
        residual=end.residual,
        status=end.status(tol),
        Lambda=problem.sites.lambdas(point.s) if not model.space.is_scalar else point.s.Lambda,
        path=path_table(end.path),
    )
