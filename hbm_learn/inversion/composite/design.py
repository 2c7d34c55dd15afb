"""The linear map from parameters to the fields of columns, and back.

    η_c(x) = own_c + Σ_{μ∋c} J_μ Π_{c'∈μ∖c} φ_c'(x) = Σ_ν W_cν φ_ν(x),     φ_ν(x) = Π_{c'∈ν} φ_c'(x)

Each (column c, set μ ∋ c) is an entry of the sparse (N', K) matrix W: W_cν = J_μ with ν = μ∖c, and W_c∅ = own_c. A
set that fills a good part of W takes BLAS products with the dense W, any other one a kernel over the entries. Only the
N' columns of modelled sites have fields; monomials are of all.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from hbm_learn._kernels import conditional
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.model import gauge
from hbm_learn.space.space import orthonormal

# Above this share of filled entries of W, a matrix product beats the kernel over entries (about 8 times as many
# multiplications a second).
DENSE = 0.12
# Sums of values of a standard function beyond which one of the two is too rare for sums of float32 to tell its square.
_SKEW = 30.0
# Means and correlations of a site's functions below this, in units of their size, are rounding.
_ROUNDING = 1e-12


class FieldMap:
    """Parameters θ (P,) ↔ fields (N', R) of columns, on the monomials Φ (K, R) of R rows.

    Attributes
    ----------
    monomial, column, param : (entries,) arrays
        Where each entry of W stands and which parameter it holds, sorted by column, counted among those with a field.
    column_ptr : (N' + 1,) array
        The entries of the c-th of these are ``column_ptr[c]:column_ptr[c + 1]``.
    site_ptr : (n + 1,) array
        The entries of the fields of site i are ``site_ptr[i]:site_ptr[i + 1]``.
    n_monomials : int
        K.
    """

    def __init__(self, parameters: Parameters):
        self.parameters = parameters
        members, sizes, entries = _monomials(parameters)
        self._members, self._indptr = members, np.concatenate([[0], np.cumsum(sizes)])
        self.n_monomials = len(sizes)
        self.monomial, self.column, self.param = entries[:, np.lexsort((entries[2], entries[1]))]
        self.n_fields = len(parameters.fields)
        self.column_ptr = np.searchsorted(self.column, np.arange(self.n_fields + 1))
        self.site_ptr = self.column_ptr[parameters.field_ptr]
        self.is_dense = len(self.column) > DENSE * self.n_fields * self.n_monomials

    def monomials(self, X: np.ndarray) -> np.ndarray:
        """Φ (K, R) of the columns X (N, R)."""
        Phi = np.empty((self.n_monomials, X.shape[1]), dtype=X.dtype)
        conditional.monomials(X, self._members, self._indptr, Phi)
        return Phi

    def weights(self, theta: np.ndarray, dtype: np.dtype) -> Any:
        """What ``fields`` multiplies with: W (N', K), or the parameters themselves for a sparse set."""
        if not self.is_dense:
            return theta.astype(dtype)
        W = np.zeros((self.n_fields, self.n_monomials), dtype=dtype)
        W.reshape(-1)[self._place] = theta.astype(dtype)[self.param]
        return W

    @cached_property
    def _place(self) -> np.ndarray:
        """(entries,) where each entry stands in W, row by row: one index is found faster than two."""
        return self.column * self.n_monomials + self.monomial

    def fields(self, W: Any, Phi: Any) -> np.ndarray:
        """η (N', R); 2N'K flops a row if dense, 2 for each entry otherwise."""
        if self.is_dense:
            return W @ Phi
        out = np.empty((self.n_fields, Phi.shape[1]), dtype=Phi.dtype)
        conditional.fields(Phi, W, self.monomial, self.param, self.column_ptr, out)
        return out

    @cached_property
    def squares(self) -> sparse.csr_array | None:
        """(K, K) S with φ_ν² = Σ S_νν' φ_ν', where W is dense and every function has two values: φ² = (v + v')φ − vv'.

        None where that is not so, where a monomial has more than two members, so that its subsets may be no monomials,
        and where a value is so rare that rounding of sums would show in their difference.
        """
        tables = self.parameters.space.functions
        if not self.is_dense or any(table is None or len(table) != 2 for table in tables):
            return None
        low, high = (np.concatenate([table[a] for table in tables]) for a in (0, 1))  # type: ignore[index]
        sizes = np.diff(self._indptr)
        a, b = -low * high, low + high
        if sizes.max() > 2 or np.abs(b).max(initial=0.0) > _SKEW:
            return None
        single, pair = np.flatnonzero(sizes == 1), np.flatnonzero(sizes == 2)
        i, j = self._members[self._indptr[pair]], self._members[self._indptr[pair] + 1]
        c, empty = self._members[self._indptr[single]], np.flatnonzero(sizes == 0)
        at = np.empty(len(a), dtype=np.intp)
        at[c] = single
        parts = [
            (empty, empty, np.ones(1)),
            *((single, np.full(len(single), empty[0]), a[c]), (single, single, b[c])),
            *((pair, np.full(len(pair), empty[0]), a[i] * a[j]), (pair, at[i], b[i] * a[j])),
            *((pair, at[j], a[i] * b[j]), (pair, pair, b[i] * b[j])),
        ]
        rows, cols, values = (np.concatenate(each) for each in zip(*parts))
        return sparse.csr_array((values, (rows, cols)), shape=(self.n_monomials, self.n_monomials))

    @property
    def adjoint_shape(self) -> tuple[int, ...]:
        """Of what ``adjoint`` returns."""
        return (self.n_monomials, self.n_fields) if self.is_dense else (len(self.column),)

    def adjoint(self, Z: np.ndarray, Phi: Any) -> np.ndarray:
        """Σ_rows Z_c φ_ν: (K, N') if dense, by entry otherwise; see ``entries``."""
        if self.is_dense:
            return Phi @ Z.T  # a quarter faster than the transpose
        out = np.empty(len(self.column), dtype=Phi.dtype)
        conditional.adjoint(Phi, Z, self.monomial, self.column_ptr, out)
        return out

    def entries(self, total: np.ndarray) -> np.ndarray:
        """(entries,) from a sum of ``adjoint``."""
        return np.take(total.T, self._place) if self.is_dense else total

    def gather(self, entries: np.ndarray) -> np.ndarray:
        """(P,) sums over the entries that hold the same parameter; extras have none."""
        return np.bincount(self.param, weights=entries, minlength=self.parameters.n_params)


class Centring:
    """The gauge of functions that are centred and, within a site, uncorrelated: there independent variables decouple.

    Attributes
    ----------
    T : (P, P) sparse array
        Parameters of the centred functions → θ; the identity for own parameters. Unit triangular but for the scales of
        a site's functions, hence invertible also where sets that T reaches are no parameters, and left out.
    variance : (N,) array
        Of the centred functions.
    """

    def __init__(self, parameters: Parameters):
        self.parameters = parameters
        space, columns = parameters.space, parameters.columns
        self.relation = [_centred(table, p) for table, p in zip(space.functions, parameters.frequencies)]
        centred = [c + table @ R for (c, R), table in zip(self.relation, space.functions)]
        self.variance = np.concatenate([p @ each**2 for p, each in zip(parameters.frequencies, centred)])
        top = gauge.transfer(columns, space, self.relation)
        if space.has_given:
            couplings = np.arange(space.n_columns, space.n_columns + len(columns))
            top = top[np.concatenate([parameters.fields, couplings])]
        rows = np.concatenate([parameters.column_params, np.arange(parameters.n_own, parameters.n_params)])
        own, P = np.arange(parameters.n_own), parameters.n_params
        found = sparse.coo_array(top)
        self.T = sparse.csr_array(
            (
                np.concatenate([np.ones(len(own)), found.data]),
                (np.concatenate([own, rows[found.row]]), np.concatenate([own, parameters.n_own + found.col])),
            ),
            shape=(P, P),
        )

    def curvature(self, blocks: list[np.ndarray]) -> np.ndarray:
        """(N,) second derivatives by the fields of the centred functions, from (o_i, o_i) blocks by the outputs; zero
        for given sites."""
        pairs = [(R, block) for (_, R), block in zip(self.relation, blocks) if len(block)]
        found = [np.einsum("ka,kl,la->a", R, block[: len(R), : len(R)], R) for R, block in pairs]
        return self.parameters.over_columns(np.concatenate(found))


def independent_curvature(columns: Interactions, curvature: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(p,) Σ_{c∈μ} curvature_c Π_{c'∈μ∖c} ⟨φ_c'²⟩: ∂²Q/∂J_μ² for independent variables."""
    out = np.empty(len(columns))
    ratio = curvature / second
    for k in columns.orders:
        block = columns.block(k)
        out[columns.slice(k)] = np.prod(second[block], axis=1) * ratio[block].sum(axis=1)
    return out


def _centred(table: np.ndarray | None, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(c, R) with c + φ R of mean 0 and, if there are several, orthonormal under p; what is rounding is left out."""
    assert table is not None
    r = table.shape[1]
    R = np.eye(r) if r == 1 else np.linalg.lstsq(table - p @ table, orthonormal(table, p), rcond=None)[0]
    size = np.sqrt(p @ table**2)
    near = np.abs(R) * size[:, None] <= _ROUNDING * (np.abs(R) * size[:, None]).max(axis=0)
    R = np.where(near, 0.0, R)
    if np.abs(R - np.eye(r)).max() <= _ROUNDING * r:
        R = np.eye(r)
    c = -(p @ table) @ R
    return np.where(np.abs(c) <= _ROUNDING * np.abs(table @ R).max(axis=0), 0.0, c), R


def _monomials(parameters: Parameters) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Members and sizes of the monomials ∅, each column, each other μ∖c; entries (3, ·): monomial, field, param."""
    columns, n_own, fields = parameters.columns, parameters.n_own, parameters.fields
    N = columns.n_features
    number = np.full(N, -1)
    number[fields] = np.arange(len(fields))
    members, sizes = [np.arange(N)], [np.zeros(1, dtype=np.intp), np.ones(N, dtype=np.intp)]
    entries = [np.stack([np.zeros(len(fields), dtype=np.intp), np.arange(len(fields)), parameters.column_params])]
    count = N + 1
    for k in columns.orders:
        block, where = columns.block(k), columns.slice(k)
        rest = np.concatenate([np.delete(block, j, axis=1) for j in range(k)])
        field, param = number[block.T.ravel()], np.tile(n_own + np.arange(where.start, where.stop), k)
        if len(fields) < N:
            rest, field, param = (each[field >= 0] for each in (rest, field, param))
        if k == 2:
            at = 1 + rest[:, 0]
        else:
            unique, at = _unique_rows(rest, N)
            at = count + at
            members.append(unique.ravel())
            sizes.append(np.full(len(unique), k - 1))
            count += len(unique)
        entries.append(np.stack([at, field, param]))
    return np.concatenate(members), np.concatenate(sizes), np.concatenate(entries, axis=1)


def _unique_rows(rows: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Distinct rows and the position of each row among them; base-n codes while they fit an integer."""
    k = rows.shape[1]
    if n**k < 2**62:
        _, first, inverse = np.unique(
            np.ravel_multi_index(tuple(rows.T), (n,) * k), return_index=True, return_inverse=True
        )
        return rows[first], inverse.ravel()
    unique, inverse = np.unique(rows, axis=0, return_inverse=True)
    return unique, inverse.ravel()
