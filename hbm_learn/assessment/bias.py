"""The bias of the closed form at a fitted model, in standard errors of the effects."""

from __future__ import annotations

import numpy as np

from hbm_learn.data.moments import Moments
from hbm_learn.inversion.closed_form import diagonal
from hbm_learn.inversion.closed_form.corrections import pair_corrections
from hbm_learn.inversion.closed_form.tensors import dense, flat, is_mostly_empty
from hbm_learn.inversion.result import InversionResult
from hbm_learn.states import StateTable

# Two-site corrections are computed pair by pair unless all variables have two values: for so many pairs of variables.
MAX_CORRECTED = 60
# A rough measure: in random models of 9 spins, what remains over |D| was 1 to 5 times |D|/|J|.
LEFT = 3.0


def bias_of_closed_form(result: InversionResult, moments: Moments, table: StateTable) -> float | None:
    """Root mean square over all orders of (closed form of the model's exact moments − model)."""
    model, space = result.model, result.model.space
    fitted = Moments.from_distribution(table.codes(np.arange(len(table.p))), table.p, moments.order, space=space)
    # A fit on its way to infinity has frozen a variable, all but or wholly: the closed form has no answer there.
    if not (np.diag(fitted.covariance) > 0.0).all():
        return None
    try:
        again = diagonal.effects(fitted, model.columns)
    except ValueError:
        return None
    return rms(again - result.column_effects, result.column_sampling_errors)


def bias_by_corrections(result: InversionResult, moments: Moments) -> float | None:
    """Only the pairs: what the corrections D of the closed form leave, about 3|D|/|J| of themselves and at most all."""
    columns, space = result.model.columns, result.model.space
    pairs = columns.slice(2)
    if not space.is_finite or not pairs.stop:
        return None
    T = None
    if columns.order >= 3:
        triplets, n = columns.block(3), space.n_columns
        T = (flat if is_mostly_empty(triplets, n) else dense)(triplets, result.column_effects[columns.slice(3)], n)
    added = pair_corrections(moments.standard, T, MAX_CORRECTED)[tuple(columns.block(2).T)]
    known = np.isfinite(added)
    if not known.any():
        return None
    size = float(np.linalg.norm(result.column_effects[pairs][known]))
    left = min(1.0, LEFT * float(np.linalg.norm(added[known])) / size) if size else 1.0
    return left * rms(added[known], result.column_sampling_errors[pairs][known])


def rms(differences: np.ndarray, errors: np.ndarray) -> float:
    """Root mean square of differences in units of their errors; what has no error (a moment at its bound, a coupling
    that an ℓ1 penalty removed) does not count."""
    known = errors > 0
    return float(np.sqrt(np.mean((differences[known] / errors[known]) ** 2))) if known.any() else 0.0
