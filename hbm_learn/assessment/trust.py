"""A word on trust: how well the fitted model tells the data's moments, and how biased the closed form is there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hbm_learn.data.moments import Moments
from hbm_learn.inversion.closed_form import diagonal
from hbm_learn.inversion.closed_form.corrections import correct_pairs
from hbm_learn.inversion.closed_form.tensors import dense
from hbm_learn.inversion.result import InversionResult
from hbm_learn.states import StateTable

# Models with more states are judged by the corrections to the closed form.
MAX_TRUST_STATES = 2**14
# Two-site corrections are computed pair by pair unless all variables have two values: for so many pairs of variables.
MAX_CORRECTED = 60


@dataclass(frozen=True)
class Trust:
    """How far to believe a fit.

    Attributes
    ----------
    discrepancy : float or None
        Root mean square, over the moments that the model fits, of (model − data) in standard errors of the data; None
        where the model's moments are too costly.
    bias : float or None
        Root mean square, over the effects, of the closed form's bias at the fitted model in standard errors; None where
        there is no way to tell.
    message : str
        A sentence.
    warning : str
        The sentence if it should be raised as a warning, else "".
    """

    discrepancy: float | None
    bias: float | None
    message: str
    warning: str = ""

    @classmethod
    def of(cls, result: InversionResult, moments: Moments) -> Trust:
        """Judge a fit by its own re-inferred moments (exact on small models) and by the closed form applied to them.

        On larger models the bias is that of the pairs, by the first corrections to the closed form.

        Parameters
        ----------
        result : InversionResult
            The fit.
        moments : Moments
            What it was fitted to.
        """
        discrepancy, bias = _exact_checks(result, moments)
        if bias is None:
            bias = _bias_by_corrections(result, moments)
        if bias is None:
            return cls(discrepancy, None, "The bias of the closed form is not known for this model.")
        size = f"the bias of the closed form is about {bias:.2g} times the standard errors"
        if result.method != "closed-form":
            fit = "" if discrepancy is None else f"the moments fit to {discrepancy:.2g} standard errors; "
            message = f"{fit}{size} here, and was removed by refine={result.method!r}."
            return cls(discrepancy, bias, message[0].upper() + message[1:])
        if bias <= 1.0:
            return cls(discrepancy, bias, f"The closed form can be trusted: {size}.")
        message = f'{size[0].upper()}{size[1:]}: do not rely on it; use refine="auto".'
        return cls(discrepancy, bias, message, message)


def _exact_checks(result: InversionResult, moments: Moments) -> tuple[float | None, float | None]:
    model, space = result.model, result.model.space
    if space.is_real:
        return 0.0, 0.0
    if not space.enumerable(MAX_TRUST_STATES) or not np.isfinite(moments.n_samples):
        return None, None
    seen = moments.standard
    table = StateTable(model.in_space(seen.space))
    ours = np.concatenate([table.m, table.moments(model.columns)])
    data = np.concatenate([seen.mean, seen.moments(model.columns)])
    spread = np.concatenate([table.V, table.variances(model.columns)])
    discrepancy = _rms(ours - data, np.sqrt(np.maximum(spread, 0.0) / moments.n_samples))
    codes = table.codes(np.arange(len(table.p)))
    fitted = Moments.from_distribution(codes, table.p, moments.order, space=space)
    try:
        again = diagonal.effects(fitted, model.columns)
    except ValueError:  # a fit on its way to infinity has frozen a variable: the closed form has no answer there
        return discrepancy, None
    return discrepancy, _rms(again - result.column_effects, result.column_sampling_errors)


def _bias_by_corrections(result: InversionResult, moments: Moments) -> float | None:
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
    return _rms((correction * scale)[known], result.column_sampling_errors[pairs][known])


def _rms(differences: np.ndarray, errors: np.ndarray) -> float:
    """Root mean square of differences in units of their errors; what has no error (a moment at its bound, a coupling
    that an ℓ1 penalty removed) does not count."""
    known = errors > 0
    return float(np.sqrt(np.mean((differences[known] / errors[known]) ** 2))) if known.any() else 0.0
