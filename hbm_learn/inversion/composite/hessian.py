"""The Hessian of a composite objective and the covariance of its score as matrices: up to thousands of parameters.

H is a sum of one Gram matrix for each site, over the monomials that its fields depend on: 2 Σ_i K_i² flops a row.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from hbm_learn._kernels import conditional
from hbm_learn._kernels.symmetric import expand2
from hbm_learn.data.rows import Block
from hbm_learn.inversion.composite.sums import Composite, PartValues, Sample

# A row never counts for more than 1/(1 − this) times its score.
_LARGEST_LEVERAGE = 0.5


def hessian(
    composite: Composite, theta: np.ndarray, stride: int = 1, offset: int = 0, sample: Sample | None = None
) -> np.ndarray:
    """∂²Q/∂θ² (P, P) without a ridge, from every ``stride``-th row, or a sample of them."""
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
    H = np.zeros((composite.n_params, composite.n_params))
    for i, (where, half) in enumerate(zip(sites.params, halves)):
        gram = expand2(half * (scale[i] / total), len(where))
        if sums:
            slope = composite.site_slopes(sums, i) * scale[i]
            gram -= np.outer(slope, slope)
        H[np.ix_(where, where)] += gram
    return H


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
    at, M = composite.at(theta), composite.rows.n_samples
    scale = composite.scale(composite.sums(theta).losses)
    sites = _Sites(composite)
    inverses = [inverse[np.ix_(where, where)].astype(composite.dtype) for where in sites.params]
    share = scale / np.maximum(np.diff(composite.parameters.field_ptr), 1) / M

    def work(part: Block, stride: int) -> list[np.ndarray]:
        values = composite.evaluate(part, at, second=True)
        leverage = np.stack([sites.leverage(i, values, each) for i, each in enumerate(inverses)])
        leverage *= stride * share[:, None]  # stride/M is the weight of one sample among equal ones
        kept = scale[:, None] / (1.0 - np.minimum(leverage, _LARGEST_LEVERAGE))
        values.first[...] *= kept.astype(composite.dtype)[composite.outputs.site]
        scores = _scores(composite, values)
        mean = scores @ part[1]
        scores *= np.sqrt(part[1] / M).astype(scores.dtype)
        return [scores @ scores.T, mean, part[1].sum()]

    half, mean, total = composite.over_sample(work, sample or Sample(), 4 * composite.n_params**2, _halves)
    V = expand2(half, composite.n_params)
    V -= np.outer(mean, mean / (M * total))
    return V


def _halves(sums: list) -> list:
    """The lower halves of symmetric matrices, row by row, in place of all of them; what is no matrix as it is."""
    return [each[np.tril_indices(len(each))] if np.ndim(each) == 2 else each for each in sums]


def diagonal_and_own(composite: Composite, theta: np.ndarray, stride: int = 1) -> tuple[np.ndarray, sparse.csr_array]:
    """(P,) the diagonal of ∂²Q/∂θ², and (p, n_own) ∂²Q of couplings and own parameters, from every ``stride``-th row.

    ∂²ℓ_c weighted with squares of the monomials is the one, with the monomials themselves the other: the field of a
    column is its own parameter and the couplings times monomials. Other functions of the same variable are left out.
    """
    at, outputs, parameters = composite.at(theta), composite.outputs, composite.parameters

    def work(part: Block) -> list[np.ndarray]:
        values = composite.evaluate(part, at, second=True)
        values.second[...] *= values.weights
        second = values.second[outputs.column_pairs]
        once, twice = composite.map.adjoint(second, values.Phi), composite.map.adjoint(second, values.Phi**2)
        return [part[1].sum(), values.losses, once, twice, values.second.sum(axis=1, dtype=np.float64)]

    total, losses, once, twice, means = composite.over_rows(work, stride)
    scale = composite.scale(losses) / (1.0 if composite.log else float(total))
    extras, n_own = np.zeros(outputs.n_extras), parameters.n_own
    squares = composite.map.entries(twice) * scale[composite.entry_site]
    out = composite.to_params(squares, extras)
    out[:n_own] = (means * scale[outputs.pair_site])[outputs.own_pairs]
    products = composite.map.entries(once) * scale[composite.entry_site]
    couplings = composite.map.param >= n_own
    at_own = parameters.column_params[composite.map.column[couplings]]
    coordinates = (composite.map.param[couplings] - n_own, at_own)
    cross = sparse.csr_array((products[couplings], coordinates), shape=(len(parameters.columns), n_own))
    # ln S has less, by the square of a slope that is zero at the minimum
    return np.maximum(out, 1e-12), cross


class _Sites:
    """Parameters of each site, and where the blocks of its outputs begin among them: columns, then extras."""

    def __init__(self, composite: Composite):
        self.map, self.outputs = composite.map, composite.outputs
        self.site_fields = composite.parameters.field_ptr
        self.params = [composite.site_params(i) for i in range(composite.n_features)]

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
