"""Errors of the minimum of a composite objective: the sandwich.

    sampling:   H⁻¹ V H⁻¹,   H = ∂²Q/∂θ² (with the ridge),   V = Cov of the mean score over data sets
    posterior:  H⁻¹ (V + diag(ridge · c)/M) H⁻¹

The second one is what a posterior with Gaussian prior has where the composite likelihood counts information c times:
with H = c (F + A/M) and V = c² F/M it is (M F + A)⁻¹.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from hbm_learn._kernels import conditional
from hbm_learn._threads import in_threads
from hbm_learn.inversion.composite import Composite, PartValues
from hbm_learn.inversion.objective import Objective
from hbm_learn.inversion.rows import Block

# Up to this many parameters the matrices are formed.
MAX_DENSE = 2000
# Multiplications for the matrices: rows beyond that are left out, evenly, down to _MIN_ROWS. A variance from m rows is
# good to about √(2/m).
_FLOPS = 1e10
_MIN_ROWS = 4000


def errors(
    objective: Objective, theta: np.ndarray, count: np.ndarray, random_state: object = None
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior and sampling standard deviations of θ, (n_params,) each.

    Parameters
    ----------
    objective : with its ridge.
    theta : the minimum.
    count : (n_params,) c, how many times the composite likelihood counts the information on each parameter.
    """
    prior_noise = objective.ridge * count / objective.composite.rows.n_effective
    sampling, posterior = _dense(objective, theta, prior_noise)
    return np.sqrt(posterior), np.sqrt(sampling)


def _dense(objective: Objective, theta: np.ndarray, prior_noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Variances from the whole matrices: n K² + P² flops a row, 4 P³ in all."""
    H, V = matrices(objective, theta)
    scale = 1.0 / np.sqrt(np.maximum(np.diag(H), 1e-300))
    H = H * np.outer(scale, scale)
    inverse = scale[:, None] * _inverse(H) * scale
    sampling = np.maximum(np.einsum("ij,ji->i", inverse @ V, inverse), 0.0)
    return sampling, sampling + inverse**2 @ prior_noise


def _inverse(H: np.ndarray) -> np.ndarray:
    """H⁻¹; directions without curvature get the least that makes H definite."""
    lift = 0.0
    while True:
        try:
            return linalg.inv(H + lift * np.eye(len(H)), assume_a="pos", check_finite=False)
        except linalg.LinAlgError:
            lift = max(1e-12, 10 * lift)


def matrices(objective: Objective, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """H (P, P) with the ridge, and V (P, P), the covariance of the mean score."""
    composite = objective.composite
    W = composite.map.weights(theta, composite.dtype)
    sums = composite.sums(theta)
    scale = composite.scale(sums.losses)

    def work(share: list[Block]) -> _Sums:
        found = _Sums(composite)
        for part in share:
            found.add(part, composite.evaluate(part, theta, W, second=True), scale)
        return found

    total = _Sums(composite)
    for block in composite.rows.blocks(_stride(composite)):
        for found in in_threads(work, composite.shares(block), composite.n_jobs):
            total.merge(found)
    mean = total.mean / total.weight
    H = np.diag(objective.ridge)
    for i, gram in enumerate(total.grams):
        where = composite.site_params(i)
        block_i = gram * (scale[i] / total.weight)
        if composite.log:
            slope = composite.site_slopes(sums, i) * scale[i]
            block_i -= np.outer(slope, slope)
        H[np.ix_(where, where)] += block_i
    return H, total.V - total.squares * np.outer(mean, mean)


def _stride(composite: Composite) -> int:
    """Every so many rows, so that the matrices are affordable; never fewer than 20 for each parameter of a site."""
    sizes = np.diff(composite.map.site_ptr)
    flops = 2.0 * float(sizes @ sizes) + float(composite.n_params) ** 2
    rows = max(_FLOPS / flops, 20.0 * float(sizes.max()), _MIN_ROWS)
    return max(1, int(composite.rows.n_rows / rows))


class _Sums:
    """Σ w ∂²ℓ_i of each site, Σ w² s sᵀ and Σ w s of the scores s, Σ w and Σ w²."""

    def __init__(self, composite: Composite):
        self.composite = composite
        self.grams = [np.zeros((size, size)) for size in np.diff(composite.map.site_ptr) + composite.terms - 1]
        self.V, self.mean = np.zeros((composite.n_params, composite.n_params)), np.zeros(composite.n_params)
        self.weight = self.squares = 0.0

    def add(self, part: Block, values: PartValues, scale: np.ndarray) -> None:
        composite, (_, w, w2) = self.composite, part
        _add_grams(composite, values.Phi, values.second * values.weights, self.grams)
        scores = _scores(composite, values.Phi, values.first * scale.astype(composite.dtype)[:, None])
        self.mean += scores @ w
        scores *= np.sqrt(w2).astype(scores.dtype)
        self.V += scores @ scores.T
        self.weight += float(w.sum())
        self.squares += float(w2.sum())

    def merge(self, other: _Sums) -> None:
        for gram, more in zip(self.grams, other.grams):
            gram += more
        self.V += other.V
        self.mean += other.mean
        self.weight += other.weight
        self.squares += other.squares


def _add_grams(composite: Composite, Phi: np.ndarray, second: np.ndarray, grams: list[np.ndarray]) -> None:
    """Σ_rows w ∂²ℓ_i over the parameters of each site."""
    ptr, monomial = composite.map.site_ptr, composite.map.monomial
    for i, gram in enumerate(grams):
        mine = Phi[monomial[ptr[i] : ptr[i + 1]]]
        K = len(mine)
        gram[:K, :K] += (mine * second[0, i]) @ mine.T
        if composite.terms == 2:
            cross = mine @ second[1, i]
            gram[:K, K] += cross
            gram[K, :K] += cross
            gram[K, K] += second[2, i].sum(dtype=np.float64)


def _scores(composite: Composite, Phi: np.ndarray, first: np.ndarray) -> np.ndarray:
    """∂ℓ/∂θ of each row, (P, R)."""
    out = np.empty((composite.n_params, Phi.shape[1]), dtype=Phi.dtype)
    entries = composite.map
    conditional.scores(Phi, first[0], entries.monomial, entries.param, entries.site_ptr, out)
    out[composite.n_linear :] = first[1:].reshape(-1, Phi.shape[1])
    return out
