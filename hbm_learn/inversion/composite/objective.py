"""The objective of a composite fit, as an optimiser sees it.

    Q(θ) = Σ_i S_i(θ) + ½ Σ_μ ridge_μ J_μ²        (Σ_i ln S_i if ``log``)

Values and gradients take every row; the Hessian takes a subsample, which an optimiser can enlarge. Each Hessian takes
other rows than the last one, so that what one leaves behind in directions that it sees badly, the next one takes.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from hbm_learn import linalg
from hbm_learn._kernels import conditional
from hbm_learn.data.chunks import Chunks
from hbm_learn.data.reduce import reduce
from hbm_learn.data.rows import Block
from hbm_learn.inversion.composite.design import independent_curvature
from hbm_learn.inversion.composite.hessian import hessian
from hbm_learn.inversion.composite.sums import Composite, SiteSums, sum_of

# Up to this many parameters the Hessian may be a matrix, if that costs at most as much as so many products with it.
MAX_MATRIX = 1000
_MATRIX_PRODUCTS = 80
# Products that a Hessian is good for, about.
_PRODUCTS = 20
# Parts of the rows that one thread takes together.
_SHARES = 8
# Curvatures are taken for at least this share of those of independent variables.
_LEAST_CURVATURE = 1e-10
# Eigenvalues of the correlations of a site's own functions, likewise.
_LEAST_CORRELATION = 5e-7


class Objective:
    """Q(θ) with a ridge: what an optimiser sees.

    Parameters
    ----------
    composite : Composite
    ridge : (P,) array
    ends : bool
        Whether Q is −∞ from where it ``falls_without_end``, instead of on the way there.

    Attributes
    ----------
    n_passes : float
        Work so far, in passes over the data.
    noise : float
        Relative accuracy of the value.
    """

    def __init__(self, composite: Composite, ridge: np.ndarray, ends: bool = False):
        self.composite, self.ridge, self.ends = composite, ridge, ends
        self.noise = 1e-6 if composite.dtype == np.float32 else 1e-13
        self.n_passes = 0.0
        self.n_hessians = 0
        self._last: tuple[np.ndarray, float, np.ndarray] | None = None

    def value_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Q and ∂Q/∂θ: one pass over all rows, none where the last one was."""
        composite = self.composite
        if self._last is not None and np.array_equal(theta, self._last[0]):
            return self._last[1:]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            sums = composite.sums(theta)
            endless = self.ends and composite.falls_without_end(sums.losses)
            value = -np.inf if endless else composite.value(sums.losses)
            gradient = composite.to_params(*scaled(composite, sums, composite.scale(sums.losses)))
            found = value + 0.5 * float(self.ridge @ theta**2), gradient + self.ridge * theta
        self.n_passes += 1
        self._last = theta, *found
        return found

    def curvature(self, theta: np.ndarray) -> HessianProducts | HessianMatrix:
        """∂²Q/∂θ² on a subsample of the rows: a matrix where that costs no more than a few dozen products."""
        composite = self.composite
        self.n_hessians += 1
        sizes = np.diff(composite.map.site_ptr)
        if composite.n_params <= MAX_MATRIX and sizes @ sizes <= _MATRIX_PRODUCTS * len(composite.map.column):
            return HessianMatrix(self, theta)
        return HessianProducts(self, theta)

    def sharpen(self) -> bool:
        """Take four times as many rows for the Hessian; False if it has them all."""
        if self.composite.stride == 1:
            return False
        self.composite.stride = max(1, self.composite.stride // 4)
        return True


def scaled(composite: Composite, sums: SiteSums, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives by entry of W and by extra, times the derivative of the objective by S_i."""
    return sums.entries * scale[composite.entry_site], sums.extras * scale[composite.outputs.extra_site]


class HessianMatrix:
    """The Hessian of Q at θ on every ``stride``-th row as a matrix, with its Cholesky factor as preconditioner."""

    def __init__(self, objective: Objective, theta: np.ndarray):
        composite = objective.composite
        self.exact = composite.stride == 1
        self.H = hessian(composite, theta, composite.stride, objective.n_hessians)
        self.H[np.diag_indices_from(self.H)] += objective.ridge
        self.diagonal = np.maximum(np.diag(self.H), 1e-300)
        share = np.diff(composite.map.site_ptr) / composite.n_features / 2
        objective.n_passes += float(share.mean()) / composite.stride + composite.log

    def product(self, v: np.ndarray) -> np.ndarray:
        """H v."""
        return self.H @ v

    @cached_property
    def _factor(self) -> linalg.Factor:
        return linalg.factor(self.H)

    def precondition(self, r: np.ndarray) -> np.ndarray:
        """H⁻¹ r."""
        return linalg.solve(self._factor, r)


class HessianProducts:
    """The Hessian of Q at θ on every ``stride``-th row, as products with vectors; and an approximate inverse.

    The approximation is the Hessian of independent variables: in the gauge of centred functions it is diagonal in the
    couplings, with a block for the own parameters of each site, H⁻¹ ≈ T D⁻¹ Tᵀ.

    Attributes
    ----------
    shares : list of lists of (part, second), or Chunks of them
        The rows that it takes, with weighted second derivatives: of the pairs with a column, others only as sums.
    means : (pairs,) array
        ∂²Q of the pairs of outputs, on average over rows.
    losses : (n,) array
        S on these rows.
    """

    def __init__(self, objective: Objective, theta: np.ndarray):
        self.objective, self.composite = objective, objective.composite
        composite, outputs = self.composite, objective.composite.outputs
        self.share, self.exact = 1.0 / composite.stride, composite.stride == 1
        at = composite.at(theta)

        def work(part: Block) -> list[Any]:
            values = composite.evaluate(part, at, second=True)
            values.second[...] *= values.weights
            whole = outputs.n_pairs == outputs.n_row_pairs
            kept = part, values.second if whole else values.second[: outputs.n_row_pairs].copy()
            slopes = composite.slopes(values) if composite.log else [values.losses]
            return [[kept], part[1].sum(), values.second.sum(axis=1, dtype=np.float64), *slopes]

        self.shares: list[list[Any]] | Chunks
        rows = composite.rows.blocks(composite.stride, objective.n_hessians, None, 8 * _PRODUCTS * composite.n_params)
        if isinstance(rows, Chunks):  # what is held is held where they are
            made = rows.then(lambda block: sum_of(map(work, composite.parts(block)))).kept()
            self.shares = made.then(lambda sums: sums[0] if sums else [])
            total, means, *slopes = reduce(lambda sums: sums[1:], made)
        else:
            held, total, means, *slopes = composite.over_blocks(work, rows)
            edges = [len(held) * k // _SHARES for k in range(_SHARES + 1)]
            self.shares = [held[lo:hi] for lo, hi in pairwise(edges) if hi > lo]
        self.losses = slopes[0]
        self.scale = composite.scale(self.losses) / (1.0 if composite.log else float(total))
        self.means = means * self.scale[outputs.pair_site]
        if composite.log:
            self.slopes = scaled(composite, composite.site_sums(*slopes), self.scale)
        objective.n_passes += (1.0 if composite.log else 0.5) * self.share

    def product(self, v: np.ndarray) -> np.ndarray:
        """H v: as many flops as a pass over the subsample."""
        composite, outputs = self.composite, self.composite.outputs
        V = composite.map.weights(v, composite.dtype)
        extras = v[outputs.extra_params].astype(composite.dtype)

        def work(held: tuple[Block, np.ndarray]) -> list[np.ndarray]:
            part, second = held
            _, Phi = composite.monomials(part)
            u, by_extra = composite.map.fields(V, Phi), np.zeros(outputs.n_extras)
            if outputs.n_pairs == outputs.n_columns:
                u *= second
                return [composite.map.adjoint(u, Phi), by_extra]
            image = np.empty_like(u)
            conditional.curve(u, extras, second, composite.losses.tables, image, by_extra)
            return [composite.map.adjoint(image, Phi), by_extra]

        found = composite.site_sums(self.losses, *composite.over_shares(work, self.shares))
        entries, by_extra = scaled(composite, found, self.scale)
        if composite.log:
            entries, by_extra = self._less_rank_one(v, entries, by_extra)
        self.objective.n_passes += self.share
        out = composite.to_params(entries, by_extra) + self.objective.ridge * v
        if outputs.n_extras:
            out[: composite.parameters.n_own] += self._between_extras @ v[: composite.parameters.n_own]
        return out

    def _less_rank_one(self, v: np.ndarray, entries: np.ndarray, by_extra: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """∂² ln S = ∂²S/S − (∂S/S)(∂S/S)ᵀ, site by site."""
        composite, site, extra_site = self.composite, self.composite.entry_site, self.composite.outputs.extra_site
        slopes, by_slope = self.slopes
        along = np.bincount(site, slopes * v[composite.map.param], minlength=composite.n_features)
        own = by_slope * v[composite.outputs.extra_params]
        along += np.bincount(extra_site, own, minlength=composite.n_features)
        return entries - slopes * along[site], by_extra - by_slope * along[extra_site]

    @cached_property
    def _between_extras(self) -> sparse.csr_array:
        """(n_own, n_own) ∂²Q of two extras of a site."""
        outputs = self.composite.outputs
        means = np.where(np.arange(outputs.n_pairs) >= outputs.n_row_pairs, self.means, 0.0)
        return outputs.block_matrix([means[pairs] for pairs in outputs.group_pairs])

    @cached_property
    def diagonal(self) -> np.ndarray:
        """(P,) the diagonal of H if the variables were independent."""
        composite, outputs = self.composite, self.composite.outputs
        curvature, own = self.means[outputs.column_pairs], self.means[outputs.own_pairs]
        curvature = composite.parameters.over_columns(curvature)
        linear = independent_curvature(composite.parameters.columns, curvature, composite.column_second)
        return np.maximum(np.concatenate([own, linear]) + self.objective.ridge, 1e-12)

    @cached_property
    def own_blocks(self) -> list[np.ndarray]:
        """(o_i, o_i) ∂²Q/∂own² of each site."""
        return [self.means[self.composite.outputs.pairs_of(i)] for i in range(self.composite.n_features)]

    # ------------------------------------------------------------------ the approximate inverse

    @cached_property
    def _free_diagonal(self) -> np.ndarray:
        """(p,) D of the couplings of centred functions, without the ridge."""
        composite = self.composite
        columns, variance = composite.parameters.columns, np.maximum(composite.centring.variance, 1e-12)
        curvature = composite.centring.curvature(self.own_blocks)
        modelled = composite.parameters.over_columns(np.ones(len(composite.parameters.fields)))
        least = independent_curvature(columns, _LEAST_CURVATURE * variance * modelled, variance)
        return np.maximum(independent_curvature(columns, curvature, variance), least)

    @cached_property
    def _diagonal(self) -> np.ndarray:
        """(p,) D; Tᵀ diag(ridge) T adds the squares of T."""
        from_prior = self.composite.centring.T.power(2).T @ self.objective.ridge
        return self._free_diagonal + from_prior[self.composite.parameters.n_own :]

    @cached_property
    def _own_inverse(self) -> sparse.csr_array:
        """(n_own, n_own) the inverse of each site's block of own parameters."""
        composite, outputs = self.composite, self.composite.outputs
        means = self.means.copy()
        means[outputs.own_pairs] = np.maximum(means[outputs.own_pairs], _LEAST_CURVATURE * composite.own_variance)
        inverses = [linalg.block_inverses(means[pairs], _LEAST_CORRELATION) for pairs in outputs.group_pairs]
        return outputs.block_matrix(inverses)

    def precondition(self, r: np.ndarray, prior: bool = True) -> np.ndarray:
        """T D⁻¹ Tᵀ r, with the prior's part of D or without."""
        T, n_own = self.composite.centring.T, self.composite.parameters.n_own
        s = T.T @ r
        D = self._diagonal if prior else self._free_diagonal
        return T @ np.concatenate([self._own_inverse @ s[:n_own], s[n_own:] / D])

    def inverse_diagonal(self, count: np.ndarray, prior: bool = True) -> np.ndarray:
        """(P,) the diagonal of T D⁻¹ diag(count) Tᵀ, with the prior's part of D or without."""
        D = self._diagonal if prior else self._free_diagonal
        centred = np.concatenate([self._own_inverse.diagonal(), 1.0 / D])
        return self.composite.centring.T.power(2) @ (centred * count)
