"""The Hessian of a composite objective and the covariance of its score as matrices: up to thousands of parameters.

H is a sum of one Gram matrix for each site, over the monomials that its fields depend on: 2 Σ_i K_i² flops a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from hbm_learn._kernels import conditional
from hbm_learn._kernels.symmetric import expand2
from hbm_learn.data.rows import Block
from hbm_learn.inversion.composite.sums import Composite, PartValues, Sample

if TYPE_CHECKING:
    from hbm_learn.inversion.composite.objective import HessianProducts

# A row never counts for more than 1/(1 − this) times its score.
_LARGEST_LEVERAGE = 0.5


def hessian(
    composite: Composite, theta: np.ndarray, stride: int = 1, offset: int = 0, sample: Sample | None = None
) -> np.ndarray:
    """∂²Q/∂θ² (P, P) without a ridge, from every ``stride``-th row, or a sample of them."""
    H = np.zeros((composite.n_params, composite.n_params))
    for i, block in enumerate(site_hessians(composite, theta, stride, offset, sample)):
        where = composite.site_params(i)
        H[np.ix_(where, where)] += block
    return H


def site_hessians(
    composite: Composite, theta: np.ndarray, stride: int = 1, offset: int = 0, sample: Sample | None = None
) -> list[np.ndarray]:
    """What each site adds to ∂²Q/∂θ², over its ``site_params``; arguments as of ``hessian``."""
    sums = composite.sums(theta) if composite.log else None
    scale = composite.scale(sums.losses) if sums else np.ones(composite.n_features)
    sites = _Sites(composite)
    at = composite.at(theta)

    def work(part: Block) -> list[np.ndarray]:
        values = composite.evaluate(part, at, second=True)
        values.second[...] *= values.weights
        return [part[1].sum(), *(sites.gram(i, values) for i in range(composite.n_features))]

    if sample is None:
        blocks = composite.rows.blocks(stride, offset, None, sites.n_bytes)
        total, *halves = composite.over_blocks(work, blocks, _halves)
    else:
        total, *halves = composite.over_sample(lambda part, stride: work(part), sample, sites.n_bytes, _halves)
    grams = [
        expand2(half * (scale[i] / total), len(where)) for i, (where, half) in enumerate(zip(sites.params, halves))
    ]
    for i, gram in enumerate(grams):
        if sums:
            slope = composite.site_slopes(sums, i) * scale[i]
            gram -= np.outer(slope, slope)
    return grams


def score_covariance(
    composite: Composite, theta: np.ndarray, inverse: np.ndarray, sample: Sample | None = None
) -> np.ndarray:
    """V (P, P), the covariance of the mean score over data sets, from all rows or a sample of them.

    A row draws the fit towards itself, the more the larger its leverage h = ∂²ℓ φᵀ H⁻¹ φ / M, so that its score there
    is about 1 − h of what it would be without it: scores are divided by that, as in the jackknife (HC3). Where a site
    has several columns, h is their average.

    Parameters
    ----------
    composite : Composite
    theta : (P,) array
    inverse : (P, P) array
        H⁻¹, from the same rows.
    sample : Sample or None
    """
    every = [composite.site_params(i) for i in range(composite.n_features)]
    return _score_covariances(
        composite,
        theta,
        [inverse[np.ix_(where, where)] for where in every],
        lambda _, values: [_scores(composite, values)],
        sample,
    )[0]


def site_score_covariances(
    composite: Composite, theta: np.ndarray, inverses: list[np.ndarray], sample: Sample | None = None
) -> list[np.ndarray]:
    """Blocks of V over the ``site_params`` of each site, from those of H⁻¹: all there is of use where no parameter is
    of two sites."""
    return _score_covariances(
        composite, theta, inverses, lambda sites, values: [sites.scores(i, values) for i in sites.all], sample
    )


def _score_covariances(
    composite: Composite,
    theta: np.ndarray,
    inverses: list[np.ndarray],
    scores: Callable[[_Sites, PartValues], list[np.ndarray]],
    sample: Sample | None,
) -> list[np.ndarray]:
    """Covariances of the means of some scores, (·, R) each, of which rows have taken their leverage."""
    at, M = composite.at(theta), composite.rows.n_samples
    scale = composite.scale(composite.sums(theta).losses) if composite.log else np.ones(composite.n_features)
    sites = _Sites(composite)
    inverses = [each.astype(composite.dtype) for each in inverses]
    share = scale / np.maximum(np.diff(composite.parameters.field_ptr), 1) / M

    def work(part: Block, stride: int) -> list[np.ndarray]:
        values = composite.evaluate(part, at, second=True)
        leverage = np.stack([sites.leverage(i, values, each) for i, each in enumerate(inverses)])
        leverage *= stride * share[:, None]  # stride/M is the weight of one sample among equal ones
        kept = scale[:, None] / (1.0 - np.minimum(leverage, _LARGEST_LEVERAGE))
        values.first[...] *= kept.astype(composite.dtype)[composite.outputs.site]
        found, root = scores(sites, values), np.sqrt(part[1] / M)
        out = [part[1].sum(), *(each @ part[1] for each in found)]
        for each in found:
            each *= root.astype(each.dtype)
            out.append(each @ each.T)
        return out

    n_bytes = 4 * sum(each.size for each in inverses)
    total, *sums = composite.over_sample(work, sample or Sample(), n_bytes, _halves)
    means, halves = sums[: len(sums) // 2], sums[len(sums) // 2 :]
    return [expand2(half, len(mean)) - np.outer(mean, mean / (M * total)) for half, mean in zip(halves, means)]


def diagonal(composite: Composite, theta: np.ndarray, stride: int = 1) -> np.ndarray:
    """(P,) the diagonal of ∂²Q/∂θ², from every ``stride``-th row."""
    return _diagonal(composite, _curvatures(composite, theta, stride, own=False))


def _halves(sums: list) -> list:
    """The lower halves of symmetric matrices, row by row, in place of all of them; what is no matrix as it is."""
    return [each[np.tril_indices(len(each))] if np.ndim(each) == 2 else each for each in sums]


def diagonal_and_own(composite: Composite, theta: np.ndarray, stride: int = 1) -> tuple[np.ndarray, sparse.csr_array]:
    """The same, and (p, n_own) ∂²Q of couplings and own parameters.

    ∂²ℓ_c weighted with squares of the monomials is the one, with the monomials themselves the other: the field of a
    column is its own parameter and the couplings times monomials. Other functions of the same variable are left out.
    """
    found, parameters = _curvatures(composite, theta, stride, own=True), composite.parameters
    n_own, products = parameters.n_own, composite.map.entries(found.once) * found.scale[composite.entry_site]
    couplings = composite.map.param >= n_own
    at_own = parameters.column_params[composite.map.column[couplings]]
    coordinates = (composite.map.param[couplings] - n_own, at_own)
    cross = sparse.csr_array((products[couplings], coordinates), shape=(len(parameters.columns), n_own))
    return _diagonal(composite, found), cross


def held_diagonal(H: HessianProducts) -> np.ndarray:
    """(P,) the diagonal of ∂²Q/∂θ² from the rows that H holds: the fields are known there."""
    composite = H.composite

    def work(held: tuple[Block, np.ndarray]) -> list[np.ndarray]:
        part, second = held
        return _weighted(composite, second, composite.monomials(part)[1], own=False)

    once, twice = composite.over_shares(work, H.shares)
    return _diagonal(composite, _Curvatures(once, twice, H.means, H.scale))


@dataclass(frozen=True, eq=False)
class _Curvatures:
    """Sums of ∂²ℓ_c φ_ν (``once``) and ∂²ℓ_c φ_ν² (``twice``), as adjoints of the map; empty what is not asked for.

    ``means`` are ∂²Q by pairs of outputs, ``scale`` (n,) is what sums over rows of a site's losses are multiplied with.
    """

    once: np.ndarray
    twice: np.ndarray
    means: np.ndarray
    scale: np.ndarray


def _curvatures(composite: Composite, theta: np.ndarray, stride: int, own: bool) -> _Curvatures:
    at, outputs = composite.at(theta), composite.outputs

    def work(part: Block) -> list[np.ndarray]:
        values = composite.evaluate(part, at, second=True)
        values.second[...] *= values.weights
        means = values.second.sum(axis=1, dtype=np.float64)
        return [part[1].sum(), values.losses, means, *_weighted(composite, values.second, values.Phi, own)]

    total, losses, means, once, twice = composite.over_rows(work, stride)
    scale = composite.scale(losses) / (1.0 if composite.log else float(total))
    return _Curvatures(once, twice, means * scale[outputs.pair_site], scale)


def _weighted(composite: Composite, second: np.ndarray, Phi: np.ndarray, own: bool) -> list[np.ndarray]:
    """``once`` and ``twice`` of a few rows; squares that are sums of monomials are left to ``once``."""
    second, map_, nothing = second[composite.outputs.column_pairs], composite.map, np.zeros(0)
    if map_.squares is not None:
        return [map_.adjoint(second, Phi), nothing]
    return [map_.adjoint(second, Phi) if own else nothing, map_.adjoint(second, Phi**2)]


def _diagonal(composite: Composite, found: _Curvatures) -> np.ndarray:
    squares = composite.map.squares
    twice = found.twice if squares is None else squares @ found.once
    entries = composite.map.entries(twice) * found.scale[composite.entry_site]
    out = composite.to_params(entries, np.zeros(composite.outputs.n_extras))
    out[: composite.parameters.n_own] = found.means[composite.outputs.own_pairs]
    # ln S has less, by the square of a slope that is zero at the minimum
    return np.maximum(out, 1e-12)


class _Sites:
    """Parameters of each site, and where the blocks of its outputs begin among them: columns, then extras."""

    def __init__(self, composite: Composite):
        self.map, self.outputs = composite.map, composite.outputs
        self.site_fields = composite.parameters.field_ptr
        self.params = [composite.site_params(i) for i in range(composite.n_features)]
        self.all = range(composite.n_features)

    @property
    def n_bytes(self) -> int:
        """Of the halves of all Gram matrices."""
        return 4 * sum(len(each) ** 2 for each in self.params)

    def blocks(self, i: int, Phi: np.ndarray) -> list[tuple[slice, np.ndarray | None]]:
        """For each output of site i, where its parameters are and ∂η/∂θ (K, R) there; None stands for 1."""
        start, out, pointers = 0, [], self.map.column_ptr
        for c in range(self.site_fields[i], self.site_fields[i + 1]):
            mine = Phi[self.map.monomial[pointers[c] : pointers[c + 1]]]
            out.append((slice(start, start + len(mine)), mine))
            start += len(mine)
        return [*out, *((slice(k, k + 1), None) for k in range(start, len(self.params[i])))]

    def scores(self, i: int, values: PartValues) -> np.ndarray:
        """∂ℓ_i over the parameters of the site, (K, R)."""
        extras = self.outputs.n_columns + np.flatnonzero(self.outputs.extra_site == i)
        outputs = [*range(self.site_fields[i], self.site_fields[i + 1]), *extras]
        out = np.empty((len(self.params[i]), values.first.shape[1]), dtype=values.first.dtype)
        for output, (mine, left) in zip(outputs, self.blocks(i, values.Phi)):
            out[mine] = values.first[output] if left is None else left * values.first[output]
        return out

    def gram(self, i: int, values: PartValues) -> np.ndarray:
        """Σ_rows ∂²ℓ_i over the parameters of the site."""
        blocks, pairs = self.blocks(i, values.Phi), self.outputs.pairs_of(i)
        if len(blocks) == 1:
            return _weighted_product(blocks[0][1], values.second[pairs[0, 0]], blocks[0][1])
        out = np.empty((len(self.params[i]), len(self.params[i])), dtype=values.Phi.dtype)
        for k, (mine, left) in enumerate(blocks):
            for l, (other, right) in enumerate(blocks[k:], start=k):
                out[mine, other] = _weighted_product(left, values.second[pairs[k, l]], right)
                if l > k:
                    out[other, mine] = out[mine, other].T
        return out

    def leverage(self, i: int, values: PartValues, inverse: np.ndarray) -> np.ndarray:
        """(R,) Tr(∂²ℓ_i · A H⁻¹ Aᵀ), with A = ∂η_i/∂θ."""
        blocks, pairs = self.blocks(i, values.Phi), self.outputs.pairs_of(i)
        out = np.zeros(values.Phi.shape[1])
        for k, (mine, left) in enumerate(blocks):
            for l, (other, right) in enumerate(blocks[k:], start=k):
                twice = 1.0 if l == k else 2.0
                out += twice * values.second[pairs[k, l]] * _form(left, inverse[mine, other], right)
        return out


def _weighted_product(left: np.ndarray | None, weights: np.ndarray, right: np.ndarray | None) -> np.ndarray:
    """Σ_rows w left ⊗ right, (K, K'); None stands for 1."""
    if left is None:
        return weights.sum(dtype=np.float64).reshape(1, 1)
    return (left @ weights)[:, None] if right is None else (left * weights) @ right.T


def _form(left: np.ndarray | None, inverse: np.ndarray, right: np.ndarray | None) -> np.ndarray:
    """leftᵀ H⁻¹ right for each row; None stands for 1."""
    if left is None:
        return inverse[0]
    return inverse[:, 0] @ left if right is None else np.einsum("kr,kr->r", left, inverse @ right)


def _scores(composite: Composite, values: PartValues) -> np.ndarray:
    """∂ℓ/∂θ of each row, (P, R)."""
    out = np.empty((composite.n_params, values.Phi.shape[1]), dtype=values.Phi.dtype)
    entries, N = composite.map, composite.outputs.n_columns
    conditional.scores(values.Phi, values.first, entries.monomial, entries.param, entries.column_ptr, out)
    out[composite.outputs.extra_params] = values.first[N:]
    return out
