"""What the second order in the couplings has beyond pairs: interactions of three or more sites that act by themselves.

    Φ(m, V) = ½ Σ_{B, B′} ∂_B E ∂_B′ E Π_{p} V_{B_p B′_p}

over sets B, B′ of three or more columns at the same sites (B = B′ where each site has one column), ∂_B E(m) the
derivative of E by all of B. E is affine in each m, so ∂_l ∂_B E = ∂_{B∪l} E: every derivative of Φ is made of the same
numbers g_B = ∂_B E. The three-index ones are the tensor T = ∂A/∂m, kept as a matrix (N, pairs).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.sparse import coo_array, csr_array

from hbm_learn.interactions import Interactions
from hbm_learn.model import BoltzmannMachine


@dataclass(frozen=True)
class Reaction:
    """Φ and its derivatives at one (m (N,), V (Q,)), V flat: r_i² entries a site. All matrices are sparse."""

    value: float
    by_m: np.ndarray  # f (N,)
    by_V: np.ndarray  # (Q,): ½ Λ′ where the entries of V are independent
    by_mm: csr_array
    by_Vm: csr_array
    by_VV: csr_array


class Vertices:
    """The sets B of a model, g_B and Φ.

    Parameters
    ----------
    model : BoltzmannMachine

    Attributes
    ----------
    pairs : (P, 2) array
        The pairs j < k of columns that are in a set of three.
    """

    def __init__(self, model: BoltzmannMachine):
        space, columns = model.space, model.columns
        self.n = space.n_columns
        closed = columns.closure()
        self.sets = Interactions.from_blocks((closed.block(k) for k in closed.orders if k > 2), self.n)
        self._sources = [source for k in columns.orders if k > 2 for source in self._subsets(columns, k)]
        self._weights = model.column_weights
        self._ups = self._find_ups()
        r = np.diff(space.column_ptr)
        start = np.concatenate([[0], np.cumsum(r * r)])
        self.n_flat = int(start[-1])
        local = np.arange(self.n) - space.column_ptr[space.site]
        self._row, self._local = start[space.site] + local * r[space.site], local
        self._partners = [(k, *self._find_partners(k, space.site)) for k in self.sets.orders]
        self._find_pairs()

    # ------------------------------------------------------------------ what is there

    def _subsets(self, columns: Interactions, k: int) -> list[tuple[np.ndarray, slice, np.ndarray]]:
        """For each choice of three or more of k positions: which B it is, of which μ, and the members left out."""
        rows, where, out = columns.block(k), columns.slice(k), []
        for size in range(3, k + 1):
            for chosen in combinations(range(k), size):
                rest = [p for p in range(k) if p not in chosen]
                out.append((self.sets.locate(rows[:, chosen]), where, rows[:, rest]))
        return out

    def _find_ups(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(B, l, B ∪ l) for all that are there."""
        parts = [np.zeros((0, 3), dtype=np.intp)]
        for k in self.sets.orders:
            rows, where = self.sets.block(k), self.sets.slice(k)
            for p in range(k if k > 3 else 0):
                below = self.sets.locate(np.delete(rows, p, axis=1))
                parts.append(np.column_stack([below, rows[:, p], np.arange(where.start, where.stop)]))
        return tuple(np.concatenate(parts).T)

    def _find_partners(self, k: int, site: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All (B, B′) of order k at the same sites, and where V_{B_p B′_p} stands in flat V, (pairs, k)."""
        rows, first = self.sets.block(k), self.sets.slice(k).start
        _, group = np.unique(site[rows], axis=0, return_inverse=True)
        order = np.argsort(group.ravel(), kind="stable")
        sizes = np.bincount(group.ravel())
        begin = np.repeat(np.cumsum(sizes) - sizes, sizes)
        count = np.repeat(sizes, sizes)  # of each B in ``order``
        a = np.repeat(order, count)
        within = np.arange(len(a)) - np.repeat(np.cumsum(count) - count, count)
        b = order[np.repeat(begin, count) + within]
        return first + a, first + b, self._row[rows[a]] + self._local[rows[b]]

    def _find_pairs(self) -> None:
        rows = self.sets.block(3)
        opposite = ((0, 1, 2), (1, 0, 2), (2, 0, 1))
        codes = np.concatenate([rows[:, j] * self.n + rows[:, k] for _, j, k in opposite])
        known, column = np.unique(codes, return_inverse=True)
        self.pairs = np.column_stack([known // self.n, known % self.n])
        site = np.concatenate([rows[:, i] for i, _, _ in opposite])
        source = np.arange(3 * len(rows), dtype=np.float64)
        self._T = csr_array((source, (site, column)), shape=(self.n, len(known)))
        self._T_source = self._T.data.astype(np.intp) % max(len(rows), 1)

    # ------------------------------------------------------------------ values

    def g(self, m: np.ndarray) -> np.ndarray:
        """g_B = Σ_{μ⊇B} J_μ Π_{μ∖B} m of every set, (len(sets),)."""
        out = np.zeros(len(self.sets))
        for at, where, rest in self._sources:
            out += np.bincount(at, self._weights[where] * m[rest].prod(axis=1), minlength=len(out))
        return out

    def T(self, g: np.ndarray) -> csr_array:
        """(N, P): T_ijk for each i and each pair j < k."""
        return csr_array((g[self._T_source], self._T.indices, self._T.indptr), shape=self._T.shape)

    def trace_slope(self, g: np.ndarray, chi: np.ndarray) -> np.ndarray | None:
        """(N, N) ∂/∂m_l of Σ_{j<k} T_ijk χ_jk at fixed χ: Σ_{j<k} g_ijkl χ_jk; None without sets of four."""
        rows, values = self.sets.block(4), g[self.sets.slice(4)]
        if not len(rows):
            return None
        out = np.zeros((self.n, self.n))
        for i, l in combinations(range(4), 2):
            j, k = (p for p in range(4) if p not in (i, l))
            np.add.at(out, (rows[:, i], rows[:, l]), values * chi[rows[:, j], rows[:, k]])
        return out + out.T

    def field(self, g: np.ndarray, V: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Φ, ∂Φ/∂m (N,) and ∂Φ/∂V (Q,); V (Q,) flat."""
        Kg = self._paired(g, V)
        gradient = np.zeros(self.n_flat)
        for k, a, b, at in self._partners:
            values, gg = V[at], g[a] * g[b]
            for p in range(k):
                without = np.delete(values, p, axis=1).prod(axis=1)
                gradient += np.bincount(at[:, p], 0.5 * gg * without, minlength=self.n_flat)
        below, l, above = self._ups
        by_m = np.bincount(l, Kg[below] * g[above], minlength=self.n)
        return 0.5 * float(g @ Kg), by_m, gradient

    def _paired(self, g: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Σ_B′ Π V_{BB′} g_B′ of every set B."""
        Kg = np.zeros(len(self.sets))
        for _, a, b, at in self._partners:
            Kg += np.bincount(a, g[b] * V[at].prod(axis=1), minlength=len(Kg))
        return Kg

    def reaction(self, g: np.ndarray, V: np.ndarray) -> Reaction:
        """Φ and its derivatives; V (Q,) flat."""
        n_sets, n, Q = len(self.sets), self.n, self.n_flat
        value, by_m, gradient = self.field(g, V)
        Kg = self._paired(g, V)
        K, Z, VV = _Entries(), _Entries(), _Entries()
        for k, a, b, at in self._partners:
            values, gg = V[at], g[a] * g[b]
            K.add(a, b, values.prod(axis=1))
            for p in range(k):
                Z.add(at[:, p], a, g[b] * np.delete(values, p, axis=1).prod(axis=1))
                for q in range(p):
                    both = 0.5 * gg * np.delete(values, (p, q), axis=1).prod(axis=1)
                    VV.add(at[:, p], at[:, q], both)
                    VV.add(at[:, q], at[:, p], both)
        below, l, above = self._ups
        Dg = coo_array((g[above], (below, l)), shape=(n_sets, n)).tocsr()
        second = coo_array((Kg[below], (l, above)), shape=(n, n_sets)).tocsr()
        by_mm = Dg.T @ K.matrix(n_sets, n_sets) @ Dg + second @ Dg
        by_Vm = Z.matrix(Q, n_sets) @ Dg
        return Reaction(value, by_m, gradient, by_mm, by_Vm, VV.matrix(Q, Q))


class _Entries:
    """A sparse matrix in the making."""

    def __init__(self) -> None:
        self._parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, row: np.ndarray, column: np.ndarray, value: np.ndarray) -> None:
        self._parts.append((row, column, value))

    def matrix(self, rows: int, columns: int) -> csr_array:
        if not self._parts:
            return csr_array((rows, columns))
        i, j, value = (np.concatenate(part) for part in zip(*self._parts))
        return coo_array((value, (i, j)), shape=(rows, columns)).tocsr()
