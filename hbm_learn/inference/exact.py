"""Exact inference: the sum over all states, a Gaussian integral, or quadrature on a grid."""

from __future__ import annotations

import numpy as np

from hbm_learn import gaussian
from hbm_learn.inference.result import InferenceResult, variable_moments
from hbm_learn.model import BoltzmannMachine
from hbm_learn.states import MAX_STATES, StateTable

__all__ = ["MAX_STATES", "StateTable", "exact"]

# Largest error of ln Z and of means (in widths of their functions) at which a grid counts as converged.
GRID_TOLERANCE = 1e-8
_GRID_TOO_COARSE = (
    "the density is too concentrated for a grid of {} nodes a variable (error up to {:.2g}): take fewer variables, "
    'or use method "dc" or "gibbs".'
)


def exact(model: BoltzmannMachine) -> InferenceResult:
    """Moments, probabilities, ln Z, entropy, and moments and cumulants of the interactions, without approximation.

    Parameters
    ----------
    model : BoltzmannMachine
        Finite variables: at most 2**24 states. "real": closed form. Intervals: a Gauss–Legendre grid, at most 6
        variables.

    Returns
    -------
    InferenceResult
        On a grid, ``residual`` is the change of ln Z and of the means (in widths of the interval) from a grid of 3/4 as
        many nodes, which is larger than the error. Cumulants are None if an interaction has 20 members or so.
    """
    if model.space.is_real:
        return _gaussian(model)
    table = StateTable(model)
    residual = 0.0 if model.space.is_finite else _grid_error(model, table)
    converged = residual <= GRID_TOLERANCE
    status = "converged" if converged else _GRID_TOO_COARSE.format(_n_nodes(table), residual)
    probabilities = [p if a.is_finite else None for a, p in zip(model.space.alphabets, table.marginals)]
    covariances = table.chi
    m, v, chi = variable_moments(model.space, probabilities, table.m, covariances)
    return InferenceResult(
        method="exact",
        m=m,
        v=v,
        chi=chi,
        log_partition=table.log_partition,
        converged=converged,
        n_iter=1,
        residual=residual,
        status=status,
        interaction_moments=table.moments(model.columns),
        interaction_cumulants=table.cumulants(model.columns),
        entropy=table.entropy,
        probabilities=probabilities,
        means=table.m,
        covariances=covariances,
    )


def _gaussian(model: BoltzmannMachine) -> InferenceResult:
    found = gaussian.moments(model)
    m, chi = found.m, found.chi
    pairs = tuple(model.columns.block(2).T)
    return InferenceResult(
        method="exact",
        m=m,
        v=np.diag(chi) + m**2,
        chi=chi,
        log_partition=found.log_partition,
        converged=True,
        n_iter=1,
        residual=0.0,
        interaction_moments=chi[pairs] + m[pairs[0]] * m[pairs[1]],
        interaction_cumulants=chi[pairs],
        entropy=found.entropy,
        probabilities=[None] * model.n_features,
        means=m,
        covariances=chi,
    )


def _n_nodes(table: StateTable) -> int:
    """Grid nodes of a continuous variable."""
    return next(q for q, a in zip(table.sizes, table.space.alphabets) if not a.is_finite)


def _grid_error(model: BoltzmannMachine, table: StateTable) -> float:
    """The change of ln Z and of the means (in widths of their functions) from a coarser grid."""
    space = model.space
    coarse = StateTable(model, n_nodes=3 * _n_nodes(table) // 4)
    widths = [
        [a.bounds[1] - a.bounds[0]] if functions is None else np.ptp(functions, axis=0)
        for a, functions in zip(space.alphabets, space.functions)
    ]
    shift = np.abs((coarse.m - table.m) / np.concatenate(widths)).max()
    return float(max(shift, abs(coarse.log_partition - table.log_partition)))
