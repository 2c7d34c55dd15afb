"""Errors of data whose rows depend on each other: so many of them are worth one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from hbm_learn.inversion.result import Fit, Whole


def inflated(fit: Fit, inflation: Mapping[int, float] | None) -> Fit:
    """The fit with errors as of data of which so many rows, {order: g}, are worth one."""
    if not inflation:
        return fit
    parameters = fit.parameters
    g = np.full(parameters.n_params, float(inflation.get(1, 1.0)))
    for k in parameters.columns.orders:
        where = parameters.columns.slice(k)
        g[parameters.n_own + where.start : parameters.n_own + where.stop] = inflation.get(k, 1.0)
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
