"""Intervals of weights and effects, and how sure their sign is.

With a learnt scale mixture they are quantiles of the posterior of each coupling: narrow about zero for what the other
couplings say is noise, as wide as the data's error for what is not. Under a Gaussian prior they are symmetric.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from hbm_learn._validation import check_share
from hbm_learn.inversion.result import InversionResult
from hbm_learn.inversion.shrinkage.marginals import Marginals


def weight_intervals(result: InversionResult, level: float = 0.95) -> np.ndarray:
    """(p, 2) intervals of J_μ in the user's coding; not below zero for blocks, whose size has no sign."""
    return _intervals(result.model.weights, result.standard_errors, result, result.weight_marginals, level)


def effect_intervals(result: InversionResult, level: float = 0.95) -> np.ndarray:
    """(p, 2) intervals of J̃_μ in the standard gauge; not below zero for blocks, whose size has no sign."""
    return _intervals(result.effects, result.effect_errors, result, result.effect_marginals, level)


def sign_rates(result: InversionResult) -> np.ndarray:
    """(p,) posterior probability that an effect has the other sign: Φ(−|J̃|/error) under a Gaussian prior.

    Half the p-value for blocks, whose size has no sign.
    """
    size, errors = np.abs(result.effects), result.effect_errors
    z = np.divide(size, errors, out=np.zeros_like(size), where=errors > 0)
    known = (errors == 0.0) & (size > 0.0)  # exact moments
    rates = np.where(known, 0.0, stats.norm.sf(z))
    if result.effect_marginals is not None:
        rates = _single(result, result.effect_marginals.sign_rates(), rates)
    block = result.df > 1
    rates[block] = 0.5 * stats.chi2.sf(result.statistic[block], result.df[block])
    return rates


def _single(result: InversionResult, by_columns: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Values over sets of columns for the terms that have one, others as they are."""
    column = np.zeros(len(result.terms), dtype=np.intp)
    column[result.terms.group] = np.arange(len(by_columns))
    single = (result.df == 1).reshape(-1, *[1] * (by_columns.ndim - 1))
    return np.where(single, by_columns[column], otherwise)


def _intervals(
    centre: np.ndarray, errors: np.ndarray, result: InversionResult, marginals: Marginals | None, level: float
) -> np.ndarray:
    check_share("level", level, "a probability between 0 and 1, such as 0.95")
    half = stats.norm.ppf(0.5 + 0.5 * level) * errors
    out = centre[:, None] + np.array([-1.0, 1.0]) * half[:, None]
    if marginals is not None:
        out = _single(result, marginals.intervals(level), out)
    block = result.df > 1
    out[block] = np.maximum(out[block], 0.0)
    # The size of a block is positive by chance alone: where its test finds nothing, nothing is in the interval.
    out[block & (result.statistic < stats.chi2.ppf(level, result.df)), 0] = 0.0
    return out
