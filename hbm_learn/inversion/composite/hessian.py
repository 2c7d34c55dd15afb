"""The Hessian of a composite objective and the covariance of its score as matrices: up to thousands of parameters.

H is a sum of one Gram matrix for each site, over the monomials that its field depends on: 2 Σ_i K_i² flops a row.
"""

from __future__ import annotations

import numpy as np

from hbm_learn._kernels import conditional
from hbm_learn._threads import in_threads
from hbm_learn.data.rows import Block
from hbm_learn.inversion.composite.sums import Composite, PartValues

# A row never counts for more than 1/(1 − this) times its score.
_LARGEST_LEVERAGE = 0.5


def hessian(composite: Composite, theta: np.ndarray, stride: int = 1, offset: int = 0) -> np.ndarray:
    """∂²Q/∂θ² (P, P) without a ridge, from every ``stride``-th row."""
    W = composite.map.weights(theta, composite.dtype)
    sums = composite.sums(theta) if composite.log else None
    scale = composite.scale(sums.losses) if sums else np.ones(composite.n_features)

    def work(share: list[Block]) -> tuple[list[np.ndarray], float]:
        grams = [np.zeros((size, size)) for size in np.diff(composite.map.site_ptr) + composite.terms - 1]
        for part in share:
            values = composite.evaluate(part, theta, W, second=True)
            _add_grams(composite, values.Phi, values.second * values.weights, grams)
        return grams, sum(float(part[1].sum()) for part in share)

    blocks = composite.rows.blocks(stride, offset)
    pieces = [piece for b in blocks for piece in in_threads(work, composite.shares(b), composite.n_jobs)]
    total = sum(weight for _, weight in pieces)
    H = np.zeros((composite.n_params, composite.n_params))
    for i in range(composite.n_features):
        where = composite.site_params(i)
        mine = sum(grams[i] for grams, _ in pieces) * (scale[i] / total)
        if sums:
            slope = composite.site_slopes(sums, i) * scale[i]
            mine -= np.outer(slope, slope)
        H[np.ix_(where, where)] += mine
    return H


def score_covariance(composite: Composite, theta: np.ndarray, inverse: np.ndarray, stride: int = 1) -> np.ndarray:
    """V (P, P), the covariance of the mean score over data sets, from every ``stride``-th row.

    A row draws the fit towards itself, the more the larger its leverage h = ∂²ℓ φᵀ H⁻¹ φ / M, so that its score there
    is about 1 − h of what it would be without it: scores are divided by that, as in the jackknife (HC3).

    Parameters
    ----------
    inverse : (P, P) H⁻¹.
    """
    W = composite.map.weights(theta, composite.dtype)
    scale = composite.scale(composite.sums(theta).losses)
    sites = [composite.site_params(i) for i in range(composite.n_features)]
    inverses = [inverse[np.ix_(where, where)].astype(composite.dtype) for where in sites]

    M = composite.rows.n_samples

    def work(share: list[Block]) -> tuple[np.ndarray, np.ndarray, float]:
        V, mean = np.zeros((composite.n_params, composite.n_params)), np.zeros(composite.n_params)
        for part in share:
            values = composite.evaluate(part, theta, W, second=True)
            # stride/M is the weight of one sample among equal ones
            leverage = _leverages(composite, values, inverses) * (stride / M) * scale[:, None]
            kept = 1.0 - np.minimum(leverage, _LARGEST_LEVERAGE)
            scores = _scores(composite, values.Phi, values.first * (scale[:, None] / kept).astype(composite.dtype))
            mean += scores @ part[1]
            scores *= np.sqrt(part[1] / M).astype(scores.dtype)
            V += scores @ scores.T
        return V, mean, sum(float(part[1].sum()) for part in share)

    V, mean, total = np.zeros(inverse.shape), np.zeros(len(inverse)), 0.0
    for block in composite.rows.blocks(stride):
        for piece in in_threads(work, composite.shares(block), composite.n_jobs):
            V += piece[0]
            mean, total = mean + piece[1], total + piece[2]
    return V - np.outer(mean, mean) / (M * total)


def _site_monomials(composite: Composite, Phi: np.ndarray, i: int) -> np.ndarray:
    return Phi[composite.map.monomial[composite.map.site_ptr[i] : composite.map.site_ptr[i + 1]]]


def _add_grams(composite: Composite, Phi: np.ndarray, second: np.ndarray, grams: list[np.ndarray]) -> None:
    """Σ_rows w ∂²ℓ_i over the parameters of each site."""
    for i, gram in enumerate(grams):
        mine = _site_monomials(composite, Phi, i)
        K = len(mine)
        gram[:K, :K] += (mine * second[0, i]) @ mine.T
        if composite.terms == 2:
            cross = mine @ second[1, i]
            gram[:K, K] += cross
            gram[K, :K] += cross
            gram[K, K] += second[2, i].sum(dtype=np.float64)


def _leverages(composite: Composite, values: PartValues, inverses: list[np.ndarray]) -> np.ndarray:
    """(n, R) Tr(∂²ℓ_i · A H⁻¹ Aᵀ), with A = (φ, 1) the derivatives of (f_i, d_i) by the parameters of site i."""
    out = np.empty(values.second.shape[1:])
    for i, inverse in enumerate(inverses):
        mine = _site_monomials(composite, values.Phi, i)
        K = len(mine)
        out[i] = values.second[0, i] * np.einsum("kr,kr->r", mine, inverse[:K, :K] @ mine)
        if composite.terms == 2:
            out[i] += 2.0 * values.second[1, i] * (inverse[K, :K] @ mine) + values.second[2, i] * inverse[K, K]
    return out


def _scores(composite: Composite, Phi: np.ndarray, first: np.ndarray) -> np.ndarray:
    """∂ℓ/∂θ of each row, (P, R)."""
    out = np.empty((composite.n_params, Phi.shape[1]), dtype=Phi.dtype)
    entries = composite.map
    conditional.scores(Phi, first[0], entries.monomial, entries.param, entries.site_ptr, out)
    out[composite.n_linear :] = first[1:].reshape(-1, Phi.shape[1])
    return out
