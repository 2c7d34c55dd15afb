"""The Hessian of a composite objective and the covariance of its score as matrices: up to thousands of parameters.

H is a sum of one Gram matrix for each site, over the monomials that its field depends on: 2 Σ_i K_i² flops a row.
"""

from __future__ import annotations

import numpy as np

from hbm_learn._kernels import conditional
from hbm_learn._threads import in_threads
from hbm_learn.inversion.composite import Composite, PartValues
from hbm_learn.inversion.rows import Block


def matrices(
    composite: Composite, theta: np.ndarray, stride: int = 1, offset: int = 0, scores_too: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """H (P, P) without a ridge, and V (P, P), the covariance of the mean score, from every ``stride``-th row.

    Without ``scores_too``, V is empty, and P² flops a row are saved.
    """
    W = composite.map.weights(theta, composite.dtype)
    sums = composite.sums(theta) if composite.log else None
    scale = composite.scale(sums.losses) if sums else np.ones(composite.n_features)

    def work(share: list[Block]) -> _Sums:
        found = _Sums(composite, scores_too)
        for part in share:
            found.add(part, composite.evaluate(part, theta, W, second=True), scale, scores_too)
        return found

    total = _Sums(composite, scores_too)
    for block in composite.rows.blocks(stride, offset):
        for found in in_threads(work, composite.shares(block), composite.n_jobs):
            total.merge(found)
    H = np.zeros((composite.n_params, composite.n_params))
    for i, gram in enumerate(total.grams):
        where = composite.site_params(i)
        mine = gram * (scale[i] / total.weight)
        if sums:
            slope = composite.site_slopes(sums, i) * scale[i]
            mine -= np.outer(slope, slope)
        H[np.ix_(where, where)] += mine
    if scores_too:
        mean = total.mean / total.weight
        total.V -= total.squares * np.outer(mean, mean)
    return H, total.V


class _Sums:
    """Σ w ∂²ℓ_i of each site, Σ w² s sᵀ and Σ w s of the scores s, Σ w and Σ w²."""

    def __init__(self, composite: Composite, scores_too: bool):
        self.composite = composite
        self.grams = [np.zeros((size, size)) for size in np.diff(composite.map.site_ptr) + composite.terms - 1]
        self.V = np.zeros((composite.n_params, composite.n_params) if scores_too else 0)
        self.mean = np.zeros(composite.n_params)
        self.weight = self.squares = 0.0

    def add(self, part: Block, values: PartValues, scale: np.ndarray, scores_too: bool) -> None:
        composite, (_, w, w2) = self.composite, part
        _add_grams(composite, values.Phi, values.second * values.weights, self.grams)
        self.weight += float(w.sum())
        if not scores_too:
            return
        scores = _scores(composite, values.Phi, values.first * scale.astype(composite.dtype)[:, None])
        self.mean += scores @ w
        scores *= np.sqrt(w2).astype(scores.dtype)
        self.V += scores @ scores.T
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
