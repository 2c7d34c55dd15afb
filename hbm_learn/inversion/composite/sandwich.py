"""Errors of the minimum of a composite objective: the sandwich.

    sampling:   H⁻¹ V H⁻¹,   H = ∂²Q/∂θ² (with the ridge),   V = Cov of the mean score over data sets
    posterior:  H⁻¹ (V + diag(ridge · c)/M) H⁻¹

The second one is what a posterior with Gaussian prior has where the composite likelihood counts information c times:
with H = c (F + A/M) and V = c² F/M it is (M F + A)⁻¹.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from hbm_learn import linalg
from hbm_learn.inversion.composite.hessian import (
    held_diagonal,
    hessian,
    score_covariance,
    site_hessians,
    site_score_covariances,
)
from hbm_learn.inversion.composite.objective import HessianProducts, Objective
from hbm_learn.inversion.composite.probes import Probes, site_factors
from hbm_learn.inversion.composite.sums import Composite, Sample
from hbm_learn.inversion.composite.thinning import heavy_and_some
from hbm_learn.inversion.result import Spread, Whole

# Up to this many parameters the matrices are formed; for the errors of a rough fit.
MAX_MATRICES, ROUGH_MATRICES = 2000, 500
# Multiplications for the matrices: of rows beyond that a sample is taken, of at least _MIN_ROWS. A variance from m rows
# is good to about √(2/m). Site by site, where the estimate costs little, no more than that.
_FLOPS, _FLOPS_APART = 1e10, 1e9
_MIN_ROWS = 4000
# How far ρ of one parameter may be from what its sites and order say; and the weight of matrices in that.
_NEAR, _MANY = 1.4, 50
# Rows that must carry a statistic before its own variance counts as much as that of the model.
_FEW_ROWS = 30.0
# A parameter with less curvature than this share of the largest has errors as if it had so much.
_LEAST_CURVATURE = 1e-16


def errors(
    objective: Objective,
    theta: np.ndarray,
    count: np.ndarray,
    random_state: Any = None,
    runaway: bool = False,
    rough: bool = False,
) -> Spread:
    """Posterior and sampling variances of θ, and what follows from them; kept and noise are of all parameters.

    Parameters
    ----------
    objective : Objective
        With its ridge.
    theta : (P,) array
        The minimum.
    count : (P,) array
        c, how many times the composite likelihood counts the information on each parameter.
    random_state : int or None
        Of the probes.
    runaway : bool
        θ is on its way to infinity, where V vanishes faster than H: the errors are then at least those of independent
        variables, c diag(H⁻¹)/M.
    rough : bool
        Draws beyond a few hundred parameters, and fewer of them: the fit is a start for something better.
    """
    if _size(objective.composite) <= (ROUGH_MATRICES if rough else MAX_MATRICES):
        found = _from_matrices(objective, theta, count)
    else:
        found = _from_probes(objective, theta, count, Probes(objective, theta, random_state, rough))
    if not runaway:
        return found
    least = HessianProducts(objective, theta).inverse_diagonal(count / objective.composite.rows.n_samples)

    def whole() -> Whole:
        if found.covariance is None:
            return Whole()
        return Whole(covariance=found.covariance + np.diag(np.maximum(least - found.posterior, 0.0)))

    return replace(
        found,
        posterior=np.maximum(found.posterior, least),
        sampling=np.maximum(found.sampling, least),
        make_whole=whole,
    )


def _size(composite: Composite) -> float:
    """P; where sites have parameters of their own, of a matrix as large as their blocks."""
    if not composite.is_apart:
        return composite.n_params
    sizes = np.diff(composite.map.site_ptr).astype(float)
    return float(np.sqrt(sizes @ sizes))


def _from_matrices(objective: Objective, theta: np.ndarray, count: np.ndarray) -> Spread:
    """Everything from the matrices: 4 Σ K_i² + P² flops a row, 3 P³ in all; the whole takes 1 to 5 P³ more.

    Where no parameter is of two sites they are block diagonal, but for correlations of the scores of two sites, which
    vanish under the model, are in no variance, and are left out.
    """
    composite, ridge, M = objective.composite, objective.ridge, objective.composite.rows.n_samples
    sample, stride = heavy_and_some(composite, theta, _affordable(composite))
    where, H, inverse, V = _matrices(composite, theta, ridge, sample)

    def together(values: Iterable[np.ndarray]) -> np.ndarray:
        out = np.zeros(len(ridge))
        for mine, each in zip(where, values):
            out[mine] = each
        return out

    kept = np.clip(1.0 - ridge * together(map(np.diag, inverse)), 0.0, 1.0)
    blocks = [H[k][np.ix_(at, at)] for k, at in _own(composite, where)]
    same_rows = _same_rows(composite, blocks, stride, count, kept, done=1.0)
    V = [each / same_rows for each in V]
    half = [left @ right for left, right in zip(inverse, V)]
    variances = together(np.einsum("ij,ij->i", left, right) for left, right in zip(half, inverse))
    prior, sampling = ridge * count / M, np.maximum(variances, 0.0)

    def matrix(values: Iterable[np.ndarray]) -> np.ndarray | None:
        values = list(values)
        if len(values) == 1 or len(ridge) > MAX_MATRICES:
            return values[0] if len(values) == 1 else None
        out = np.zeros((len(ridge), len(ridge)))
        for mine, each in zip(where, values):
            out[np.ix_(mine, mine)] = each
        return out

    def whole() -> Whole:
        if not prior.any():
            found = list(map(linalg.symmetric_product, half, inverse))
            covariance = matrix(found)
            return Whole(theta, np.maximum(together(map(np.diag, found)), 1e-300), covariance, covariance)
        covariance = matrix(
            linalg.symmetric_product(left + each * prior[mine], each) for mine, left, each in zip(where, half, inverse)
        )
        # One Newton step without the prior, and the error that the estimate has there.
        without = [linalg.inverse(each, _LEAST_CURVATURE) for each in H]
        free = theta + together(each @ (ridge * theta)[mine] for mine, each in zip(where, without))
        found = [linalg.symmetric_product(each @ right, each) for each, right in zip(without, V)]
        return Whole(free, np.maximum(together(map(np.diag, found)), 1e-300), covariance, matrix(found))

    def drawn(mine: np.ndarray, each: np.ndarray) -> np.ndarray:
        return _kept(each, ridge[mine], (ridge * M / count)[mine])

    return Spread(
        posterior=np.maximum(together(v**2 @ prior[mine] for mine, v in zip(where, inverse)) + variances, 0.0),
        sampling=sampling,
        kept=together(map(drawn, where, inverse)),
        noise=sampling,
        make_whole=whole,
        overcount=_overcount(composite, count, together(map(np.diag, V)), together(map(np.diag, H)), _MANY),
    )


def _matrices(
    composite: Composite, theta: np.ndarray, ridge: np.ndarray, sample: Sample
) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Which parameters each block is of, and the blocks of H, of its inverse with the ridge, and of V."""

    def inverted(H: np.ndarray, mine: np.ndarray) -> np.ndarray:
        return linalg.inverse(H + np.diag(ridge[mine]), _LEAST_CURVATURE) if len(mine) else H

    if not composite.is_apart:
        whole = np.arange(composite.n_params)
        H = hessian(composite, theta, sample=sample)
        inverse = inverted(H, whole)
        return [whole], [H], [inverse], [score_covariance(composite, theta, inverse, sample)]
    where = [composite.site_params(i) for i in range(composite.n_features)]
    blocks = site_hessians(composite, theta, sample=sample)
    inverses = list(map(inverted, blocks, where))
    V = site_score_covariances(composite, theta, inverses, sample)
    modelled = np.flatnonzero(~composite.parameters.space.given)
    return tuple([each[i] for i in modelled] for each in (where, blocks, inverses, V))  # type: ignore[return-value]


def _overcount(composite: Composite, count: np.ndarray, V: np.ndarray, H: np.ndarray, n_draws: int) -> np.ndarray:
    """(P,) ρ = M V_rr/H_rr, close to what factors of sites and orders say.

    Where a pattern is so rare that hardly a row carries its variance, V says nothing, and c, what the model itself
    would have, stands in. One for all functions of a term and of a site, so that nothing depends on their basis.
    """
    V, H = composite.parameters.block_means(V), composite.parameters.block_means(H)
    seen = composite.rows.n_samples * V / np.maximum(H * count, 1e-300)
    told = composite.parameters.carriers * composite.rows.n_samples
    seen = (told * seen + _FEW_ROWS) / (told + _FEW_ROWS)
    typical = site_factors(composite, np.clip(seen, 0.1 / count, None), n_draws)
    if n_draws < _MANY:  # single ones are noise of the draws
        return count * typical
    return count * np.clip(seen, typical / _NEAR, typical * _NEAR)


def _kept(inverse: np.ndarray, ridge: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """α E[θ̂²] for θ drawn from the prior, of which a fit makes H⁻¹ (H − ridge) θ; 1 without a prior."""
    given = np.divide(1.0, alpha, out=np.zeros_like(alpha), where=alpha > 0)
    return np.where(alpha > 0, alpha * ((np.eye(len(ridge)) - inverse * ridge) ** 2 @ given), 1.0)


def _same_rows(
    composite: Composite,
    blocks: list[np.ndarray],
    stride: float,
    count: np.ndarray,
    kept: np.ndarray,
    done: float = 0.0,
) -> float:
    """What H⁻¹ V H⁻¹ makes of the variance when both come from the same m = M/stride samples.

    A row draws H, and the fit, towards itself. With shares ``kept`` of the parameters that the data determine and not
    the prior, its leverage in the conditional of one of N columns is P/Nm, P = Σ kept. The scores of several
    conditionals that share a coupling add up, so that along the whole score it is L = Σ kept (1 + (c − 1) ρ)/Nm, ρ the
    share of a variance that the other variables leave unexplained. A noisy H⁻¹ is too large in turn, by about 4 P/Nm.
    Measured on the squares of couplings that are zero (±1, n = 50, pairs and triplets, m = 2000 … 10⁴,
    kept = 0.002 … 1): within 2 %.

    Parameters
    ----------
    composite : Composite
    blocks : list of (o_i, o_i) arrays
        ∂²Q/∂own² of each site.
    stride : float
    count : (P,) array
        c.
    kept : (P,) array
    done : float
        How often P/Nm has been accounted for already.
    """
    space, fields = composite.parameters.space, composite.parameters.fields
    curvature, variance = composite.centring.curvature(blocks), composite.centring.variance
    shares = space.mean_over_labels(curvature) / space.mean_over_labels(variance)
    unexplained = float(np.mean(np.minimum(shares[fields], 1.0)))
    rows = len(fields) * composite.rows.n_samples / stride
    leverage = float(kept @ (1.0 - done + (count - 1.0) * unexplained)) / rows
    noise = 4.0 * float(kept.mean() * kept.sum()) / rows * (1.0 - 1.0 / stride)
    return float(np.exp(-2.0 * leverage)) * (1.0 + noise)


def _own(composite: Composite, where: list[np.ndarray]) -> list[tuple[int, np.ndarray]]:
    """Of each site the block that its own parameters are in, and their places there."""
    edges = composite.parameters.own_ptr
    if not composite.is_apart:
        return [(0, np.arange(lo, hi)) for lo, hi in pairwise(edges)]
    order = [np.argsort(mine) for mine in where]  # own parameters come first
    block = np.maximum(np.cumsum(~composite.parameters.space.given) - 1, 0).tolist()
    return [(k, order[k][: hi - lo]) for k, (lo, hi) in zip(block, pairwise(edges))]


def _affordable(composite: Composite) -> int:
    """Rows for which the matrices are affordable; never fewer than 20 for each parameter of a site."""
    sizes = np.diff(composite.map.site_ptr)
    flops, most = 4.0 * float(sizes @ sizes), _FLOPS_APART
    if not composite.is_apart:
        flops, most = flops + float(composite.n_params) ** 2, _FLOPS
    return int(max(most / flops, 20.0 * float(sizes.max()), _MIN_ROWS))


# ---------------------------------------------------------------------- many parameters


def _from_probes(objective: Objective, theta: np.ndarray, count: np.ndarray, probes: Probes) -> Spread:
    """Variances of independent variables, corrected for each site and order by draws."""
    composite, ridge, M = objective.composite, objective.ridge, objective.composite.rows.n_samples
    H, stride = probes.H, composite.stride
    base, ones = H.inverse_diagonal(count / M), np.ones(len(theta))
    y = probes.sampling()
    if not ridge.any():
        y /= np.sqrt(_same_rows(composite, H.own_blocks, stride, count, ones))
        sampling = probes.variances(y, base)
        return Spread(sampling, sampling, ones, sampling, lambda: Whole(theta, sampling), count)
    alpha = ridge * M / count
    share = np.clip(alpha * base, 1e-12, 1.0 - 1e-12)  # of the prior, for independent variables
    g, u = probes.shrunk(alpha)
    determined = np.where(alpha > 0, np.clip(probes.by_order(alpha * np.mean(g * u, axis=0)), 0.0, 1.0), 1.0)
    same_rows = _same_rows(composite, H.own_blocks, stride, count, determined)
    y /= np.sqrt(same_rows)
    # A row does not draw what the prior holds.
    V = np.mean(probes.scores**2, axis=0) / same_rows**determined
    sampling = probes.variances(y, base * (1.0 - share))

    def whole() -> Whole:
        without = H.inverse_diagonal(count / M, prior=False)
        return Whole(probes.free(theta), probes.variances(np.array([probes.free(each) for each in y]), without))

    return Spread(
        posterior=sampling + probes.variances(g - u, base * share),
        sampling=sampling,
        kept=np.where(alpha > 0, probes.by_order(alpha * np.mean(u**2, axis=0)), 1.0),
        noise=probes.by_order(np.mean(y**2, axis=0)),
        make_whole=whole,
        overcount=_overcount(composite, count, V, held_diagonal(H), probes.n_scores),
    )
