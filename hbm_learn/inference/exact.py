"""Exact inference: the sum over all states, a Gaussian integral, or quadrature on a grid."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from hbm_learn.inference.result import InferenceResult
from hbm_learn.model import BoltzmannMachine
from hbm_learn.states import MAX_STATES, StateTable

__all__ = ["MAX_STATES", "StateTable", "exact"]

# Largest error of ln Z and of m (in widths of the interval) at which a grid counts as converged.
GRID_TOLERANCE = 1e-8
_GRID_TOO_COARSE = (
    "the density is too concentrated for a grid of {} nodes a variable (error up to {:.2g}): take fewer variables, "
    'or use method "dc" or "gibbs".'
)


def exact(model: BoltzmannMachine) -> InferenceResult:
    """m, v, χ, ln Z, entropy, moments and cumulants of the interactions, without approximation.

    Finite alphabets: the sum over all states, at most 2**24. "real": closed form. Interval: Gauss–Legendre grid, at
    most 6 variables; ``residual`` is then the change of ln Z and of m (in widths of the interval) from a grid of 3/4 as
    many nodes, which is larger than the error. Cumulants are None if an interaction has 20 members or so.
    """
    if model.alphabet.kind == "real":
        return _gaussian(model)
    table = StateTable(model)
    residual = _grid_error(model, table) if model.alphabet.kind == "interval" else 0.0
    converged = residual <= GRID_TOLERANCE
    status = "converged" if converged else _GRID_TOO_COARSE.format(len(table.nodes), residual)
    return InferenceResult(
        method="exact",
        m=table.m,
        v=table.v,
        chi=table.chi,
        log_partition=table.log_partition,
        converged=converged,
        n_iter=1,
        residual=residual,
        status=status,
        interaction_moments=table.moments(model.packed),
        interaction_cumulants=table.cumulants(model.packed),
        entropy=table.entropy,
    )


def _gaussian(model: BoltzmannMachine) -> InferenceResult:
    """Q = diag(d) − J:  m = Q⁻¹h,  χ = Q⁻¹,  ln Z = ½ h'χh − ½ ln det Q + n/2 ln 2π."""
    n = model.n_features
    Q = np.diag(model.d) - model.J
    smallest = float(np.linalg.eigvalsh(Q)[0])
    if smallest <= n * np.finfo(float).eps * np.abs(Q).max():
        raise ValueError(
            f'alphabet "real": the precision matrix diag(d) − J is not positive definite (smallest eigenvalue '
            f"{smallest:.6g}), so exp(−H) has no finite integral. Raise d by more than {max(-smallest, 0.0):.6g}, or "
            "scale the couplings down."
        )
    factor = cho_factor(Q, lower=True)
    m, chi = cho_solve(factor, model.h), cho_solve(factor, np.eye(n))
    chi = 0.5 * (chi + chi.T)
    half_log_det = float(np.log(np.diag(factor[0])).sum())
    pairs = tuple(model.packed.block(2).T)
    return InferenceResult(
        method="exact",
        m=m,
        v=np.diag(chi) + m**2,
        chi=chi,
        log_partition=float(0.5 * model.h @ m - half_log_det + 0.5 * n * np.log(2 * np.pi)),
        converged=True,
        n_iter=1,
        residual=0.0,
        interaction_moments=chi[pairs] + m[pairs[0]] * m[pairs[1]],
        interaction_cumulants=chi[pairs],
        entropy=0.5 * n * (1 + np.log(2 * np.pi)) - half_log_det,
    )


def _grid_error(model: BoltzmannMachine, table: StateTable) -> float:
    """The change of ln Z and of m (in widths of the interval) from a coarser grid."""
    coarse = StateTable(model, n_nodes=3 * len(table.nodes) // 4)
    low, high = model.alphabet.bounds
    shift = np.abs(coarse.m - table.m).max() / (high - low)
    return float(max(shift, abs(coarse.log_partition - table.log_partition)))
