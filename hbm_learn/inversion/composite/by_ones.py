"""Fields of pairs of 0/1 columns from the ones of each row: a product with a sparse matrix, exact in any gauge.

    φ_i(x) = low_i + slope_i x,     η_c = own_c + Σ_i J_ci φ_i = (own_c + Σ_i J_ci low_i) + Σ_{i: x_i = 1} J_ci slope_i

So a row costs its ones times the fields, where a dense product costs all columns times the fields. The constants are
summed in float64. Codes and fields of a few rows at a time are arrays; the table never is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hbm_learn._kernels import ones as _ones
from hbm_learn.data.ones import Ones
from hbm_learn.inversion.composite.design import FieldMap
from hbm_learn.inversion.parameters import Parameters

# Shares of ones up to which additions beat the matrix product.
_SPARSE = 0.1
# Fits of fewer parameters form matrices from the arrays.
_LEAST_PARAMETERS = 2000


@dataclass(frozen=True, eq=False)
class OnesMonomials:
    """Φ (K, R) = 1, and low + slope x of each column, of rows that are held by their ones."""

    ones: Ones
    low: np.ndarray
    high: np.ndarray

    def __pow__(self, k: int) -> OnesMonomials:
        """Φᵏ, entry by entry: it has two values in each column, too."""
        return replace(self, low=self.low**k, high=self.high**k)


@dataclass(frozen=True, eq=False)
class OnesWeights:
    """What a row without ones has as fields (N,), and what a one in each column adds to them (n, N)."""

    constant: np.ndarray
    added: np.ndarray


class OnesMap(FieldMap):
    """The same map as ``FieldMap`` for all pairs of two-valued columns, on Ones."""

    def __init__(self, parameters: Parameters):
        super().__init__(parameters)
        tables = np.array(parameters.space.functions)[:, :, 0]  # (n, 2)
        self._low, self._high = np.ascontiguousarray(tables[:, 0]), np.ascontiguousarray(tables[:, 1])

    @classmethod
    def serves(cls, parameters: Parameters, ones: Ones | None) -> bool:
        """Whether rows are held by their ones, and these are so few that it pays."""
        space = parameters.space
        if ones is None or ones.n_ones > _SPARSE * ones.size or parameters.n_params <= _LEAST_PARAMETERS:
            return False
        pairs = parameters.columns.order == 2 and len(parameters.columns) > space.n_columns * space.n_columns // 4
        return pairs and space.is_scalar and bool((space.sizes == 2).all()) and not space.given.any()

    def of_ones(self, ones: Ones) -> OnesMonomials:
        """Φ of some rows."""
        return OnesMonomials(ones, self._low, self._high)

    def weights(self, theta: np.ndarray, dtype: np.dtype) -> OnesWeights:
        values, pairs = theta[self.param], self.monomial > 0
        at, column, J = self.monomial[pairs] - 1, self.column[pairs], values[pairs]
        constant = np.bincount(column, J * self._low[at], minlength=self.n_fields)
        constant[self.column[~pairs]] += values[~pairs]
        added = np.zeros((len(self._low), self.n_fields), dtype=dtype)
        added[at, column] = J * (self._high - self._low)[at]
        return OnesWeights(constant.astype(dtype), added)

    def fields(self, W: OnesWeights, Phi: OnesMonomials) -> np.ndarray:
        """η (N, R) of Φ as it is, not of its powers: 1 addition for each one and field."""
        out = np.empty((self.n_fields, len(Phi.ones)), dtype=W.added.dtype)
        _ones.fields(Phi.ones.indptr, Phi.ones.indices, W.constant, W.added, out)
        return out

    def adjoint(self, Z: np.ndarray, Phi: OnesMonomials) -> np.ndarray:
        out = np.empty((self.n_monomials, self.n_fields), dtype=Z.dtype)
        _ones.adjoint(Phi.ones.indptr, Phi.ones.indices, Z, Phi.low, Phi.high - Phi.low, out)
        return out
