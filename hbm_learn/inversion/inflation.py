"""Errors of data whose rows are worth less than one each: rows that depend on each other, cells that are missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.result import Fit, Whole

# So many rows are worth one: {order: g}, order 1 is that of own parameters; or (P,), one for each parameter.
Inflation = Mapping[int, float] | np.ndarray


def by_parameter(inflation: Inflation | None, parameters: Parameters) -> np.ndarray:
    """(P,) how many rows are worth one for each parameter."""
    if isinstance(inflation, np.ndarray):
        return inflation
    known = inflation or {}
    g = np.full(parameters.n_params, float(known.get(1, 1.0)))
    for k in parameters.columns.orders:
        where = parameters.columns.slice(k)
        g[parameters.n_own + where.start : parameters.n_own + where.stop] = known.get(k, 1.0)
    return g


def inflated(fit: Fit, inflation: Inflation | None) -> Fit:
    """The fit with errors as of data of which so many rows are worth one."""
    if inflation is None or not len(inflation):
        return fit
    parameters = fit.parameters
    g = by_parameter(inflation, parameters)
    root = np.sqrt(g)

    def scaled(C: np.ndarray | None) -> np.ndarray | None:
        return None if C is None else C * root * root[:, None]

    def whole() -> Whole:
        now = fit.whole
        variance = None if now.free_variance is None else now.free_variance * g
        return Whole(now.free, variance, scaled(now.covariance), scaled(now.free_covariance))

    return replace(
        fit,
        posterior=fit.posterior * g,
        sampling=fit.sampling * g,
        noise=fit.noise * g[parameters.n_own :],
        overcount=g if fit.overcount is None else fit.overcount * g,
        make_whole=whole,
    )
