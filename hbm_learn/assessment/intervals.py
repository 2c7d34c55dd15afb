"""Intervals of weights and effects, and how sure their sign is.

With a learnt scale mixture an interval reaches over what stands to reason for its coupling:

    quantiles (1 ∓ level)/2 of the posterior, and of that at even odds that the coupling is noise;
    r ± z s, what the data say alone, where |r| > (3 − z) s

The posterior is right on average over the couplings of an order. It misses those that are unlike the others: a few
among many zeros, which it takes for noise, and the largest of many. r ± z s holds a coupling as often as it says,
whatever its size; one of 3 errors or more has an r of less than (3 − z) s only where r ± z s would miss it as well.
What the data hardly see keeps the narrow interval about zero that the other couplings speak for. Under a Gaussian prior
intervals are symmetric.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse, stats

from hbm_learn._validation import check_share
from hbm_learn.inversion.result import InversionResult
from hbm_learn.inversion.shrinkage.marginals import Marginals

# Couplings of so many errors are held as often as the level says, whatever the others are.
_STRONG = 3.0


def weight_intervals(result: InversionResult, level: float = 0.95) -> np.ndarray:
    """(p, 2) intervals of J_μ in the user's coding; not below zero for blocks, whose size has no sign."""
    return _intervals(result.model.weights, result.standard_errors, result, result.weight_marginals, level)


def effect_intervals(result: InversionResult, level: float = 0.95) -> np.ndarray:
    """(p, 2) intervals of J̃_μ in the standard gauge; not below zero for blocks, whose size has no sign."""
    return _intervals(result.effects, result.effect_errors, result, result.effect_marginals, level)


def sum_intervals(result: InversionResult, T: sparse.csr_array, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """(m,) errors and (m, 2) intervals of sums T J̃ of the effects of single sets of columns.

        Var(T J̃) = T Cov(J̃) Tᵀ

    Where the result has no covariance the effects are taken as uncorrelated.

    Parameters
    ----------
    result : InversionResult
    T : (m, columns) sparse array
    level : float
    """
    check_share("level", level, "a probability between 0 and 1, such as 0.95")
    C = result.effect_covariance
    variance = T.power(2) @ result.column_effect_errors**2 if C is None else T.multiply(T @ C).sum(axis=1)
    variance, centre = np.maximum(np.asarray(variance).ravel(), 0.0), T @ result.column_effects
    if result.effect_marginals is not None and result.effect_basis is not None:
        sites, basis = result.effect_marginals.sites, result.effect_basis
        n_own = basis.shape[1] - len(sites.mean)
        marginals = Marginals.of(sparse.csr_array(T @ basis), sites, n_own, centre, variance)
        return np.sqrt(variance), _learnt(marginals, level)
    half = stats.norm.ppf(0.5 + 0.5 * level) * np.sqrt(variance)
    return np.sqrt(variance), centre[:, None] + np.array([-1.0, 1.0]) * half[:, None]


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


def _learnt(marginals: Marginals, level: float) -> np.ndarray:
    """Intervals under a learnt mixture, of linear functions of the couplings."""
    posterior, even = marginals.intervals(level), marginals.intervals(level, even=True)
    data = marginals.data_intervals(level)
    z = stats.norm.ppf(0.5 + 0.5 * level)
    centre, error = data.mean(axis=1), np.ptp(data, axis=1) / (2.0 * z)
    stands_out = np.abs(centre) > (_STRONG - z) * error
    data = np.where(stands_out[:, None], data, posterior)
    each = np.stack([posterior, even, data])
    return np.stack([each[:, :, 0].min(axis=0), each[:, :, 1].max(axis=0)], axis=1)


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
        out = _single(result, _learnt(marginals, level), out)
    block = result.df > 1
    out[block] = np.maximum(out[block], 0.0)
    # The size of a block is positive by chance alone: where its test finds nothing, nothing is in the interval.
    out[block & (result.statistic < stats.chi2.ppf(level, result.df)), 0] = 0.0
    return out
