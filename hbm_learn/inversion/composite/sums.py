"""Composite likelihoods: the mean loss of each variable given the others, and its derivatives, on blocks of rows.

    S_i(θ) = Σ_rows w ℓ(x_i; f_i(x), d_i),   θ = (h, J, d)

d is left out on two-valued alphabets. f is linear in (h, J): a pass over the data builds the monomials of a few rows at
a time, multiplies them with the couplings, and multiplies the derivatives of the losses back: 4nK flops a row for K
monomials. Products are float32 for large data, sums float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hbm_learn._threads import in_threads, row_parts
from hbm_learn.data.rows import Block, Rows
from hbm_learn.data.samples import Samples
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.composite.design import FieldMap
from hbm_learn.model import BoltzmannMachine

# Entries of the monomials of one part of the rows: they stay in cache between the two products.
_PART = 2**19
# A pass below this many flops is done in float64.
_SMALL = 2e8
# Rows of the Hessian's subsample, to begin with: so many for each parameter that a site has for itself (of the P in
# all, shared by the sites). A step with the subsampled Hessian leaves a share of about 1/10 of the decrement.
_ROWS_A_PARAMETER = 16


@dataclass(frozen=True, eq=False)
class PartValues:
    """Monomials Φ (K, R), weights (R,), losses (n,) and derivatives (see ``_kernels.conditional``) of a few rows."""

    Phi: np.ndarray
    weights: np.ndarray
    losses: np.ndarray
    first: np.ndarray
    second: np.ndarray


@dataclass(frozen=True, eq=False)
class SiteSums:
    """S_i (n,), ∂S_i/∂W_iν by entry, ∂S_i/∂d_i (n,), or empty on two values."""

    losses: np.ndarray
    entries: np.ndarray
    by_d: np.ndarray


class Composite:
    """S_i and its derivatives on given data, without a prior.

    Parameters
    ----------
    samples, interactions : the data and which J_μ there are.
    kernel : ℓ and its derivatives, see ``_kernels.conditional``.
    log : Σ ln S_i in place of Σ S_i.
    dtype : of the products; float32 for large data by default.
    n_jobs : threads; every core by default. Sums are added in one order, so that nothing depends on it.
    """

    def __init__(
        self,
        samples: Samples,
        interactions: Interactions,
        kernel: Callable[..., np.ndarray],
        log: bool = False,
        dtype: Any = None,
        n_jobs: int | None = None,
    ):
        self.rows = Rows(samples)
        self.n_jobs = n_jobs
        self.map = FieldMap(interactions)
        self.kernel, self.log = kernel, log
        self.alphabet = samples.alphabet
        self.n_features = n = samples.n_features
        self.n_linear = self.map.n_params
        self.terms = 1 if self.alphabet.is_binary else 2
        self.n_params = self.n_linear + (self.terms - 1) * n
        flops = 4.0 * n * self.map.n_monomials * self.rows.n_rows
        self.dtype = np.dtype(dtype or (np.float64 if flops < _SMALL else np.float32))
        self._letters = self.alphabet.nodes.astype(self.dtype)
        self.stride = self.first_stride(self.n_params)

    def first_stride(self, n_determined: float) -> int:
        """The Hessian takes every so many rows, to begin with, if the data determine so many parameters."""
        own = n_determined / self.n_features
        return max(1, self.rows.n_rows // max(int(_ROWS_A_PARAMETER * own), 2000))

    # ------------------------------------------------------------------ parameters

    def pack(self, model: BoltzmannMachine) -> np.ndarray:
        """θ of a model on the same interactions."""
        if self.terms == 2:
            return np.concatenate([model.h, model.weights, model.d])
        # x² = (x₀ + x₁) x − x₀x₁ on two values: d is a field
        return np.concatenate([model.h - 0.5 * model.d * self.alphabet.nodes.sum(), model.weights])

    def model(self, theta: np.ndarray) -> BoltzmannMachine:
        """The model of θ."""
        n = self.n_features
        d = theta[self.n_linear :] if self.terms == 2 else 0.0
        weights = theta[n : self.n_linear]
        return BoltzmannMachine.from_packed(theta[:n], self.map.interactions, weights, d, self.alphabet)

    def independent(self) -> np.ndarray:
        """θ of independent variables with the data's frequencies; ValueError for a column that does not vary."""
        m = self.rows.mean
        h, d = self.alphabet.site_parameters(m, self.rows.variance + m**2)
        couplings = np.zeros(len(self.map.interactions))
        return np.concatenate([h, couplings, d] if self.terms == 2 else [h, couplings])

    def d_part(self, theta: np.ndarray) -> np.ndarray:
        """(n,) d, zero on two values."""
        return theta[self.n_linear :] if self.terms == 2 else np.zeros(self.n_features)

    def to_params(self, entries: np.ndarray, by_d: np.ndarray) -> np.ndarray:
        """(n_params,) from values by entry of W and by d."""
        return np.concatenate([self.map.gather(entries), by_d])

    def site_params(self, i: int) -> np.ndarray:
        """The parameters that site i's loss depends on, in the order of its entries of W, d_i last."""
        linear = self.map.param[self.map.site_ptr[i] : self.map.site_ptr[i + 1]]
        return linear if self.terms == 1 else np.append(linear, self.n_linear + i)

    def site_slopes(self, sums: SiteSums, i: int) -> np.ndarray:
        """∂S_i by ``site_params``."""
        linear = sums.entries[self.map.site_ptr[i] : self.map.site_ptr[i + 1]]
        return linear if self.terms == 1 else np.append(linear, sums.by_d[i])

    @property
    def order_slices(self) -> list[slice]:
        """Where the couplings of each order stand in θ."""
        found = [self.map.interactions.slice(k) for k in self.map.interactions.orders]
        return [slice(self.n_features + where.start, self.n_features + where.stop) for where in found]

    def scale(self, losses: np.ndarray) -> np.ndarray:
        """(n,) derivative of the objective by S_i: 1, or 1/S_i."""
        return 1.0 / losses if self.log else np.ones(self.n_features)

    @cached_property
    def centring(self) -> Any:
        """T (sparse): parameters of the centred variables x − m → (h, J)."""
        return self.map.centring(self.rows.mean)

    # ------------------------------------------------------------------ passes over the data

    def shares(self, block: Block) -> list[list[Block]]:
        """A block cut into shares for threads, and each share into parts whose monomials fit in cache."""
        size = int(np.clip(_PART // self.map.n_monomials, 64, 4096))
        rows = len(block[0])
        shares = row_parts(rows, rows * self.n_features * self.map.n_monomials // 4)
        return [list(_cut(block, share, size)) for share in shares]

    def monomials(self, part: Block) -> tuple[np.ndarray, np.ndarray]:
        """Codes (n, R) and Φ (K, R) of a part."""
        codes = np.ascontiguousarray(part[0].T)
        return codes, self.map.monomials(self._letters[codes])

    def evaluate(self, part: Block, theta: np.ndarray, W: np.ndarray, second: bool) -> PartValues:
        """The losses of one part at θ and their derivatives."""
        codes, Phi = self.monomials(part)
        F = self.map.fields(W, Phi)
        one = np.empty((self.terms, *F.shape), dtype=self.dtype)
        two = np.empty((self.terms * (self.terms + 1) // 2 if second else 0, *F.shape), dtype=self.dtype)
        losses = self.kernel(codes, F, self.d_part(theta), self.alphabet.nodes, part[1], one, two)
        return PartValues(Phi, part[1].astype(self.dtype), losses, one, two)

    def sums(self, theta: np.ndarray) -> SiteSums:
        """S (n,), and its derivatives: one pass."""
        W = self.map.weights(theta, self.dtype)

        def work(share: list[Block]) -> list[Any]:
            total: list[Any] = [0.0, 0.0, 0.0]
            for part in share:
                values = self.evaluate(part, theta, W, second=False)
                total[0] = total[0] + values.losses
                total[1] = np.float64(total[1]) + self.map.adjoint(values.first[0] * values.weights, values.Phi)
                total[2] = total[2] + (values.first[1:].astype(np.float64) @ part[1]).ravel()
            return total

        total: list[Any] = [0.0, 0.0, 0.0]
        for block in self.rows.blocks():
            for found in in_threads(work, self.shares(block), self.n_jobs):
                total = [a + b for a, b in zip(total, found)]
        return SiteSums(total[0], self.map.entries(total[1]), total[2])

    def largest_field(self, theta: np.ndarray) -> tuple[float, int]:
        """Largest |f_i| · (width of the alphabet) over the Hessian's rows, and the site where it is."""
        W = self.map.weights(theta, self.dtype)

        def work(share: list[Block]) -> np.ndarray:
            return np.max([np.abs(self.map.fields(W, self.monomials(part)[1])).max(axis=1) for part in share], axis=0)

        blocks = self.rows.blocks(self.stride)
        top = np.max([found for b in blocks for found in in_threads(work, self.shares(b), self.n_jobs)], axis=0)
        low, high = self.alphabet.bounds
        return float(top.max()) * (high - low), int(top.argmax())


def _cut(block: Block, share: slice, size: int) -> Iterator[Block]:
    """Parts of nearly the same size: a short rest would cost a product as much as a whole part."""
    codes, w = block
    rows = share.stop - share.start
    n_parts = -(-rows // size)
    for k in range(n_parts):
        part = slice(share.start + rows * k // n_parts, share.start + rows * (k + 1) // n_parts)
        yield codes[part], w[part]
