"""The bias of the closed form at a fitted model, in standard errors of the effects."""

from __future__ import annotations

import numpy as np

from hbm_learn.data.moments import Moments
from hbm_learn.inversion.closed_form import diagonal
from hbm_learn.inversion.closed_form.corrections import correct_pairs
from hbm_learn.inversion.closed_form.tensors import dense
from hbm_learn.inversion.result import InversionResult
from hbm_learn.states import StateTable

# Two-site corrections are computed pair by pair unless all variables have two values: for so many pairs of variables.
MAX_CORRECTED = 60


def bias_of_closed_form(result: InversionResult, moments: Moments, table: StateTable) -> float | None:
    """Root mean square over all orders of (closed form of the model's exact moments − model)."""
    model, space = result.model, result.model.space
    fitted = Moments.from_distribution(table.codes(np.arange(len(table.p))), table.p, moments.order, space=space)
    try:
        again = diagonal.effects(fitted, model.columns)
    except ValueError:  # a fit on its way to infinity has frozen a variable: the closed form has no answer there
        return None
    return rms(again - result.column_effects, result.column_sampling_errors)


def bias_by_corrections(result: InversionResult, moments: Moments) -> float | None:
    """Only the pairs: what the second-order and two-site corrections would add to them."""
    model, space = result.model, result.model.space
    pairs = model.columns.slice(2)
    if not space.is_finite or not pairs.stop:
        return None
    J3 = None
    if model.order >= 3:
        J3 = dense(model.columns.block(3), model.column_weights[model.columns.slice(3)], space.n_columns)
    correction = correct_pairs(J3, moments, MAX_CORRECTED)[tuple(model.columns.block(2).T)]
    s = np.sqrt(np.diag(moments.covariance))
    scale = np.prod(s[model.columns.block(2)], axis=1)
    known = np.isfinite(correction)
    if not known.any():
        return None
    return rms((correction * scale)[known], result.column_sampling_errors[pairs][known])


def rms(differences: np.ndarray, errors: np.ndarray) -> float:
    """Root mean square of differences in units of their errors; what has no error (a moment at its bound, a coupling
    that an ℓ1 penalty removed) does not count."""
    known = errors > 0
    return float(np.sqrt(np.mean((differences[known] / errors[known]) ** 2))) if known.any() else 0.0
