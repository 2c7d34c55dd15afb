"""Intervals of weights and effects, and how sure their sign is."""

from __future__ import annotations

import numpy as np
from scipy import stats

from hbm_learn.inversion.result import InversionResult


def weight_intervals(result: InversionResult, level: float = 0.95) -> np.ndarray:
    """(p, 2) J_μ ± z · standard error, in the user's coding; not below zero for blocks, whose size has no sign."""
    return _around(result.model.weights, result.standard_errors, result, level)


def effect_intervals(result: InversionResult, level: float = 0.95) -> np.ndarray:
    """(p, 2) J̃_μ ± z · standard error, in the standard gauge; not below zero for blocks, whose size has no sign."""
    return _around(result.effects, result.effect_errors, result, level)


def sign_rates(result: InversionResult) -> np.ndarray:
    """(p,) posterior probability that an effect has the other sign, or none: Φ(−|J̃|/error).

    Half the p-value for blocks, whose size has no sign.
    """
    size, errors = np.abs(result.effects), result.effect_errors
    z = np.divide(size, errors, out=np.zeros_like(size), where=errors > 0)
    known = (errors == 0.0) & (size > 0.0)  # exact moments
    rates = np.where(known, 0.0, stats.norm.sf(z))
    block = result.df > 1
    rates[block] = 0.5 * stats.chi2.sf(result.statistic[block], result.df[block])
    return rates


def _around(centre: np.ndarray, errors: np.ndarray, result: InversionResult, level: float) -> np.ndarray:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level={level!r}: give a probability between 0 and 1, such as 0.95.")
    half = stats.norm.ppf(0.5 + 0.5 * level) * errors
    out = centre[:, None] + np.array([-1.0, 1.0]) * half[:, None]
    block = result.df > 1
    out[block] = np.maximum(out[block], 0.0)
    # The size of a block is positive by chance alone: where its test finds nothing, nothing is in the interval.
    out[block & (result.statistic < stats.chi2.ppf(level, result.df)), 0] = 0.0
    return out
