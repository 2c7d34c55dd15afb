"""The linear map from parameters to local fields, and back.

    f_i(x) = h_i + Σ_{μ∋i} J_μ Π_{j∈μ∖i} x_j = Σ_ν W_iν φ_ν(x),     φ_ν(x) = Π_{j∈ν} x_j

Each (site i, interaction μ ∋ i) is an entry of the sparse (n, K) matrix W: W_iν = J_μ with ν = μ∖i, and W_i∅ = h_i. A
set that fills a good part of W takes BLAS products with the dense W, any other one a kernel over the entries.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy import sparse

from hbm_learn._kernels import conditional
from hbm_learn.interactions import Interactions

# Above this share of filled entries of W, a matrix product beats the kernel over entries (about 8 times as many
# multiplications a second).
DENSE = 0.12


class FieldMap:
    """Parameters (h, J), (n + p,), ↔ local fields (n, R) on the monomials Φ (K, R) of R rows.

    Attributes
    ----------
    monomial, site, param : (entries,) where each entry of W stands and which parameter it holds, sorted by site.
    site_ptr : (n + 1,) the entries of site i are site_ptr[i]:site_ptr[i + 1].
    n_monomials : K.
    """

    def __init__(self, interactions: Interactions):
        self.interactions = interactions
        self.n_features = n = interactions.n_features
        self.n_params = n + len(interactions)
        members, sizes, entries = _monomials(interactions)
        self._members, self._indptr = members, np.concatenate([[0], np.cumsum(sizes)])
        self.n_monomials = len(sizes)
        monomial, site, param = entries[:, np.lexsort((entries[2], entries[1]))]
        self.monomial, self.site, self.param = monomial, site, param
        self.site_ptr = np.searchsorted(site, np.arange(n + 1))
        self.is_dense = len(site) > DENSE * n * self.n_monomials

    def monomials(self, X: np.ndarray) -> np.ndarray:
        """Φ (K, R) of X (n, R)."""
        Phi = np.empty((self.n_monomials, X.shape[1]), dtype=X.dtype)
        conditional.monomials(X, self._members, self._indptr, Phi)
        return Phi

    def weights(self, theta: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """What ``fields`` multiplies with: W (n, K), or the parameters themselves for a sparse set."""
        if not self.is_dense:
            return theta.astype(dtype)
        W = np.zeros((self.n_features, self.n_monomials), dtype=dtype)
        W[self.site, self.monomial] = theta[self.param]
        return W

    def fields(self, W: np.ndarray, Phi: np.ndarray) -> np.ndarray:
        """f (n, R); 2nK flops a row if dense, 2 for each entry otherwise."""
        if self.is_dense:
            return W @ Phi
        out = np.empty((self.n_features, Phi.shape[1]), dtype=Phi.dtype)
        conditional.fields(Phi, W, self.monomial, self.param, self.site_ptr, out)
        return out

    def adjoint(self, Z: np.ndarray, Phi: np.ndarray) -> np.ndarray:
        """Σ_rows Z_i φ_ν: (K, n) if dense, by entry otherwise; see ``entries``."""
        if self.is_dense:
            return Phi @ Z.T  # a quarter faster than the transpose
        out = np.empty(len(self.site), dtype=Phi.dtype)
        conditional.adjoint(Phi, Z, self.monomial, self.site_ptr, out)
        return out

    def entries(self, total: np.ndarray) -> np.ndarray:
        """(entries,) from a sum of ``adjoint``."""
        return total[self.monomial, self.site] if self.is_dense else total

    def gather(self, entries: np.ndarray) -> np.ndarray:
        """(n + p,) sums over the entries that hold the same parameter."""
        return np.bincount(self.param, weights=entries, minlength=self.n_params)

    def centring(self, m: np.ndarray) -> sparse.csr_array:
        """T with (h, J) = T (h', J'): Σ J'_μ Π_{i∈μ} (x_i − m_i) has the coefficient Σ_{μ⊇ν} J'_μ Π_{μ∖ν} (−m) at ν.

        Coefficients of sets ν that are no parameter are dropped; T is unit triangular, so it stays invertible.
        """
        n, interactions = self.n_features, self.interactions
        rows, columns, values = [np.arange(self.n_params)], [np.arange(self.n_params)], [np.ones(self.n_params)]
        for k in interactions.orders if m.any() else []:
            block, where = interactions.block(k), interactions.slice(k)
            param = n + np.arange(where.start, where.stop)
            for size in range(1, k):
                for kept in combinations(range(k), size):
                    found = block[:, kept[0]] if size == 1 else interactions.locate(block[:, kept])
                    dropped = [j for j in range(k) if j not in kept]
                    present = found >= 0
                    rows.append((found if size == 1 else n + found)[present])
                    columns.append(param[present])
                    values.append(np.prod(-m[block[:, dropped]], axis=1)[present])
        coordinates = (np.concatenate(rows), np.concatenate(columns))
        return sparse.csr_array((np.concatenate(values), coordinates), shape=(self.n_params, self.n_params))

    def independent_curvature(self, curvature: np.ndarray, V: np.ndarray) -> np.ndarray:
        """(n + p,) Σ_{i∈μ} curvature_i Π_{j∈μ∖i} V_j: ∂²ℓ/∂J'_μ² of centred products of independent variables."""
        out = np.empty(self.n_params)
        out[: self.n_features] = curvature
        ratio = curvature / V
        for k in self.interactions.orders:
            block, where = self.interactions.block(k), self.interactions.slice(k)
            product = np.prod(V[block], axis=1)
            out[self.n_features + where.start : self.n_features + where.stop] = product * ratio[block].sum(axis=1)
        return out


def _monomials(interactions: Interactions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Members and sizes of the monomials ∅, each variable, each other μ∖i; entries (3, ·): monomial, site, param."""
    n = interactions.n_features
    members, sizes = [np.arange(n)], [np.zeros(1, dtype=np.intp), np.ones(n, dtype=np.intp)]
    entries = [np.stack([np.zeros(n, dtype=np.intp), np.arange(n), np.arange(n)])]
    count = n + 1
    for k in interactions.orders:
        block, where = interactions.block(k), interactions.slice(k)
        rest = np.concatenate([np.delete(block, j, axis=1) for j in range(k)])
        site, param = block.T.ravel(), np.tile(n + np.arange(where.start, where.stop), k)
        if k == 2:
            at = 1 + rest[:, 0]
        else:
            unique, at = _unique_rows(rest, n)
            at = count + at
            members.append(unique.ravel())
            sizes.append(np.full(len(unique), k - 1))
            count += len(unique)
        entries.append(np.stack([at, site, param]))
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
