"""The objective of a composite fit, as an optimiser sees it.

    Q(θ) = Σ_i S_i(θ) + ½ Σ_μ ridge_μ J_μ²        (Σ_i ln S_i if ``log``)

Values and gradients take every row; the Hessian takes a subsample, which an optimiser can enlarge. Each Hessian takes
other rows than the last one, so that what one leaves behind in directions that it sees badly, the next one takes.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg

from hbm_learn._threads import in_threads
from hbm_learn.data.rows import Block
from hbm_learn.inversion.composite.hessian import hessian
from hbm_learn.inversion.composite.sums import Composite

# Up to this many parameters the Hessian may be a matrix, if that costs at most as much as so many products with it.
MAX_DENSE = 1000
_DENSE_PRODUCTS = 80


class Objective:
    """Q(θ) with a ridge: what an optimiser sees.

    Attributes
    ----------
    n_passes : work so far, in passes over the data.
    noise : relative accuracy of the value.
    """

    def __init__(self, composite: Composite, ridge: np.ndarray):
        self.composite, self.ridge = composite, ridge
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
            scale = composite.scale(sums.losses)
            value = float(np.log(sums.losses).sum() if composite.log else sums.losses.sum())
            by_d = sums.by_d * scale[: len(sums.by_d)]
            gradient = composite.to_params(sums.entries * scale[composite.map.site], by_d)
        self.n_passes += 1
        self._last = theta, value + 0.5 * float(self.ridge @ theta**2), gradient + self.ridge * theta
        return self._last[1:]

    def curvature(self, theta: np.ndarray) -> Curvature | DenseCurvature:
        """∂²Q/∂θ² on a subsample of the rows: a matrix where that costs no more than a few dozen products."""
        composite = self.composite
        self.n_hessians += 1
        sizes = np.diff(composite.map.site_ptr)
        if composite.n_params <= MAX_DENSE and sizes @ sizes <= _DENSE_PRODUCTS * len(composite.map.site):
            return DenseCurvature(self, theta)
        return Curvature(self, theta)

    def sharpen(self) -> bool:
        """Take four times as many rows for the Hessian; False if it has them all."""
        if self.composite.stride == 1:
            return False
        self.composite.stride = max(1, self.composite.stride // 4)
        return True


class DenseCurvature:
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
    def _factor(self) -> np.ndarray:
        """Cholesky factor of H with unit diagonal, lifted as little as makes it definite."""
        scale, lift = 1.0 / np.sqrt(self.diagonal), 1e-14
        while True:
            try:
                return linalg.cholesky(
                    self.H * np.outer(scale, scale) + lift * np.eye(len(scale)), lower=True, check_finite=False
                )
            except linalg.LinAlgError:
                lift *= 10.0

    def precondition(self, r: np.ndarray) -> np.ndarray:
        """H⁻¹ r."""
        scale = 1.0 / np.sqrt(self.diagonal)
        return scale * linalg.cho_solve((self._factor, True), scale * r, check_finite=False)


class Curvature:
    """The Hessian of Q at θ on every ``stride``-th row, as products with vectors; and an approximate inverse.

    The approximation is the Hessian of independent variables: it is diagonal in the couplings of the centred variables
    x − m (up to a 2 × 2 block of h_i and d_i), H⁻¹ ≈ T D⁻¹ Tᵀ.
    """

    def __init__(self, objective: Objective, theta: np.ndarray):
        self.objective, self.composite = objective, objective.composite
        composite = self.composite
        self.share, self.exact = 1.0 / composite.stride, composite.stride == 1
        W = composite.map.weights(theta, composite.dtype)

        def work(share: list[Block]) -> list[tuple]:
            found = []
            for part in share:
                values = composite.evaluate(part, theta, W, second=True)
                values.second[...] *= values.weights
                slopes = None
                if composite.log:
                    adjoint = composite.map.adjoint(values.first[0] * values.weights, values.Phi)
                    slopes = composite.map.entries(adjoint), (values.first[1:].astype(np.float64) @ part[1]).ravel()
                found.append((part, values.second, values.losses, slopes))
            return found

        blocks = composite.rows.blocks(composite.stride, objective.n_hessians)
        found = [share for block in blocks for share in in_threads(work, composite.shares(block), composite.n_jobs)]
        self.shares = [[(part, second) for part, second, _, _ in share] for share in found]
        flat = [piece for share in found for piece in share]
        total = sum(float(part[1].sum()) for part, *_ in flat)
        self.losses = sum(piece[2] for piece in flat)
        self.scale = composite.scale(self.losses) / (1.0 if composite.log else total)
        self.means = sum(second.sum(axis=2, dtype=np.float64) for _, second, _, _ in flat) * self.scale
        if composite.log:
            self.slopes = tuple(sum(np.float64(piece[3][k]) for piece in flat) for k in (0, 1))
        objective.n_passes += (1.0 if composite.log else 0.5) * self.share

    def product(self, v: np.ndarray) -> np.ndarray:
        """H v: as many flops as a pass over the subsample."""
        composite, scale = self.composite, self.scale
        V = composite.map.weights(v, composite.dtype)
        vd = v[composite.n_linear :].astype(composite.dtype)[:, None]

        def work(share: list[tuple[Block, np.ndarray]]) -> tuple[Any, Any]:
            total: Any = np.float64(0.0)
            by_d = np.zeros(composite.n_params - composite.n_linear)
            for part, second in share:
                _, Phi = composite.monomials(part)
                u = composite.map.fields(V, Phi)
                if composite.terms == 2:
                    by_d = by_d + (second[1] * u + second[2] * vd).sum(axis=1, dtype=np.float64)
                    u = second[0] * u + second[1] * vd
                else:
                    u *= second[0]
                total = total + composite.map.adjoint(u, Phi)
            return total, by_d

        pieces = in_threads(work, self.shares, composite.n_jobs)
        entries = composite.map.entries(sum(piece[0] for piece in pieces)) * scale[composite.map.site]
        by_d = sum(piece[1] for piece in pieces)
        by_d = by_d * scale[: len(by_d)]
        if composite.log:
            entries, by_d = self._less_rank_one(v, entries, by_d)
        self.objective.n_passes += self.share
        return composite.to_params(entries, by_d) + self.objective.ridge * v

    def _less_rank_one(self, v: np.ndarray, entries: np.ndarray, by_d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """∂² ln S = ∂²S/S − (∂S/S)(∂S/S)ᵀ, site by site."""
        composite, site = self.composite, self.composite.map.site
        slopes = self.slopes[0] * self.scale[site]
        slopes_d = self.slopes[1] * self.scale[: len(by_d)]
        along = np.bincount(site, slopes * v[composite.map.param], minlength=composite.n_features)
        along[: len(by_d)] += slopes_d * v[composite.n_linear :]
        return entries - slopes * along[site], by_d - slopes_d * along[: len(by_d)]

    @cached_property
    def diagonal(self) -> np.ndarray:
        """(n_params,) the diagonal of H if the variables were independent."""
        composite = self.composite
        second = composite.rows.variance + composite.rows.mean**2
        linear = composite.map.independent_curvature(self.means[0], second)
        return np.maximum(np.concatenate([linear, *self.means[2:]]) + self.objective.ridge, 1e-12)

    @cached_property
    def _free_diagonal(self) -> np.ndarray:
        """D for (h', J') without the ridge."""
        composite = self.composite
        D = composite.map.independent_curvature(self.means[0], np.maximum(composite.rows.variance, 1e-12))
        return np.maximum(D, 1e-10 * D.max())

    @cached_property
    def _diagonal(self) -> np.ndarray:
        """D for (h', J'); Tᵀ diag(ridge) T adds the squares of T."""
        composite = self.composite
        D = self._free_diagonal + composite.centring.power(2).T @ self.objective.ridge[: composite.n_linear]
        return np.maximum(D, 1e-10 * D.max())

    def precondition(self, r: np.ndarray, prior: bool = True) -> np.ndarray:
        """T D⁻¹ Tᵀ r, with the prior's part of D or without."""
        composite, T = self.composite, self.composite.centring
        linear, n = composite.n_linear, composite.n_features
        s = T.T @ r[:linear]
        out = s / (self._diagonal if prior else self._free_diagonal)
        if composite.terms == 1:
            return T @ out
        aa, ab, bb = self._site_inverse
        rd = r[linear:]
        out[:n] = aa * s[:n] + ab * rd
        return np.concatenate([T @ out, ab * s[:n] + bb * rd])

    def inverse_diagonal(self, count: np.ndarray, prior: bool = True) -> np.ndarray:
        """(n_params,) the diagonal of T D⁻¹ diag(count) Tᵀ, with the prior's part of D or without."""
        composite = self.composite
        linear, n = composite.n_linear, composite.n_features
        centred = 1.0 / (self._diagonal if prior else self._free_diagonal)
        last = []
        if composite.terms == 2:
            centred[:n], last = self._site_inverse[0], [self._site_inverse[2] * count[linear:]]
        return np.concatenate([composite.centring.power(2) @ (centred * count[:linear]), *last])

    @cached_property
    def _site_inverse(self) -> np.ndarray:
        """(3, n) entries of the inverse of each site's block of h' and d."""
        a, b, c = np.maximum(self.means, [[1e-300], [-np.inf], [1e-300]])
        return np.array([c, -b, a]) / np.maximum(a * c - b * b, 1e-6 * a * c)
