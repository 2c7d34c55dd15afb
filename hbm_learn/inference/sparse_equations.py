"""The equations of "dc" and "dc2" for sparse models: S on the pattern of A(m), and of S⁻¹ what is on that pattern.

    S̃ = LᵀSL = I + LᵀΛL − αLᵀA(m)L,     V_i = L_iL_iᵀ

They are those of ``block_equations`` and ``dc2_equations``, without an array of n² numbers: R needs the same-site
blocks of S̃⁻¹ and, for "dc2", its entries within triplets. Derivatives are in ``selected_point``.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from hbm_learn._kernels import polynomial
from hbm_learn.consistency.blocks import each, transpose
from hbm_learn.consistency.blocks import inverse as inverse_of
from hbm_learn.inference.block_sites import BlockSites, BlockState
from hbm_learn.inference.bordered import BorderedSystem
from hbm_learn.inference.jacobian_free import JacobianFree
from hbm_learn.inference.selected_point import SelectedPoint
from hbm_learn.inference.sparse_inverse import SPARSE_SIZE, SparseInverse, find_pattern
from hbm_learn.inference.vertices import Vertices
from hbm_learn.model import BoltzmannMachine

# Neighbours of a column on average, and the share of the triangle of S that its factor may fill: beyond, dense is
# faster.
_MAX_DEGREE = 30
_MAX_FILL = 0.1
_PRECISE_RTOL = 1e-8


class SparseCouplings:
    """E(m) over the means of the columns, F, and the blocks of A of the pairs of sites that interact.

    Attributes
    ----------
    pairs : list of (g, 2) arrays
        The pairs of sites i < j, by their numbers of columns.
    columns : list of (g, r_i + r_j) arrays
        Their columns.
    """

    def __init__(self, model: BoltzmannMachine):
        space, columns, weights = model.space, model.columns, model.column_weights
        self.is_pairwise = columns.order == 2
        self.packed = (columns.members, columns.indptr, weights)
        pairs = columns.slice(2).stop
        start = columns.indptr[pairs]
        self.higher = (columns.members[start:], columns.indptr[pairs:] - start, weights[pairs:])
        n, terms = space.n_columns, []
        for k in columns.orders:
            rows = columns.block(k)
            for p, q in combinations(range(k), 2):
                rest = rows[:, [o for o in range(k) if o not in (p, q)]]
                terms.append((rows[:, p] * n + rows[:, q], weights[columns.slice(k)], rest))
        known, at = np.unique(np.concatenate([codes for codes, _, _ in terms]), return_inverse=True)
        parts = np.split(at.ravel(), np.cumsum([len(codes) for codes, _, _ in terms])[:-1])
        self._terms = [(part, weight, rest) for part, (_, weight, rest) in zip(parts, terms)]
        self._n_pairs = len(known)
        self._find_blocks(np.column_stack([known // n, known % n]), space.site, space.column_ptr)

    def _find_blocks(self, pairs: np.ndarray, site: np.ndarray, ptr: np.ndarray) -> None:
        """The site pairs of the column pairs, and where each column pair stands in their blocks."""
        sites, which = np.unique(site[pairs], axis=0, return_inverse=True)
        shapes, shape_of = np.unique(np.diff(ptr)[sites], axis=0, return_inverse=True)
        local = pairs - ptr[site[pairs]]
        self.pairs, self.columns, self._places = [], [], []
        for k, (r, q) in enumerate(shapes.tolist()):
            mine = np.flatnonzero(shape_of.ravel() == k)
            row = np.full(len(sites), -1)
            row[mine] = np.arange(len(mine))
            self.pairs.append(sites[mine])
            first, second = ptr[sites[mine]].T
            self.columns.append(np.hstack([first[:, None] + np.arange(r), second[:, None] + np.arange(q)]))
            at = row[which.ravel()]
            some = np.flatnonzero(at >= 0)
            self._places.append((some, (at[some], local[some, 0], local[some, 1]), (len(mine), r, q)))

    def E(self, m: np.ndarray) -> float:
        return float(polynomial.value(m, *self.packed))

    def F(self, m: np.ndarray) -> np.ndarray:
        return polynomial.gradient(m, *self.packed)

    def blocks(self, m: np.ndarray) -> list[np.ndarray]:
        """A_ij of the pairs of sites, (g, r_i, r_j) for each shape."""
        values = np.zeros(self._n_pairs)
        for at, weight, rest in self._terms:
            values += np.bincount(at, weight * m[rest].prod(axis=1), minlength=self._n_pairs)
        out = []
        for some, where, shape in self._places:
            blocks = np.zeros(shape)
            blocks[where] = values[some]
            out.append(blocks)
        return out


class SparseConsistency:
    """ "dc" in the unknowns u = (β, Λ), Λ by its independent entries:

        R₁ = β + Λm − ½Λ:G − αF(m),     R₂ = χ_ii⁻¹ − V_i⁻¹

    A point is valid while S is positive definite.
    """

    def __init__(self, model: BoltzmannMachine):
        self.sites, self.couplings = BlockSites(model), SparseCouplings(model)
        self.n = self.sites.n_columns
        self.pattern = find_pattern(self.n, self.sites.blocks.columns, self.couplings.columns)
        self.invert = SparseInverse(self.pattern.matrix)
        n_sites = model.n_features
        self._group, self._place = np.empty(n_sites, dtype=int), np.empty(n_sites, dtype=int)
        for k, sites in enumerate(self.sites.blocks.sites):
            self._group[sites], self._place[sites] = k, np.arange(len(sites))

    @property
    def start(self) -> np.ndarray:
        """The solution at α = 0: independent sites."""
        return np.zeros(self.n + self.sites.n_lambda)

    @property
    def weights(self) -> np.ndarray:
        return self.sites.weights

    def outer(self, m: np.ndarray) -> np.ndarray:
        """Means of the model's functions."""
        return self.sites.shift + self.sites.outward(m)

    def evaluate(self, u: np.ndarray, alpha: float) -> SparsePoint | None:
        s = self.state(u)
        if s is None:
            return None
        inverse = self.respond(s, s.Lambda, alpha)
        return None if inverse is None else SparsePoint(self, alpha, s, s.Lambda, inverse)

    def state(self, u: np.ndarray) -> BlockState | None:
        return self.sites.state(u[: self.n], u[self.n :]) if np.isfinite(u).all() else None

    def respond(self, s: BlockState, Lambda: np.ndarray, alpha: float) -> Any:
        """S̃⁻¹ on its pattern, for Λ (P,) that need not be the sites' own; None unless S > 0."""
        within = [transpose(l) @ M @ l + np.eye(l.shape[-1]) for l, M in zip(s.L, self.sites.matrices(Lambda))]
        inward = each(lambda l, w: transpose(l) @ w, s.L, self.sites.inverse)
        between = []
        for pairs, A in zip(self.couplings.pairs, self.couplings.blocks(self.outer(s.m))):
            left, right = (inward[self._group[i[0]]][self._place[i]] for i in pairs.T)
            g, r, q = A.shape
            cube = np.zeros((g, r + q, r + q))
            cube[:, :r, r:] = -alpha * (left @ A @ transpose(right))
            cube[:, r:, :r] = transpose(cube[:, :r, r:])
            between.append(cube)
        return self.invert(self.pattern.values(within, between))


class SparsePoint(SelectedPoint):
    """R at one (β, Λ, α); Λ may be others in S than at the sites, and ``extra`` (N,) is what R₁ has beside "dc"."""

    def __init__(
        self,
        problem: SparseConsistency,
        alpha: float,
        s: BlockState,
        Lambda: np.ndarray,
        inverse: Any,
        extra: np.ndarray | float = 0.0,
        more: float = 0.0,
    ):
        sites = problem.sites
        F = sites.blocks.left(sites.inverse, problem.couplings.F(problem.outer(s.m)))
        R1 = s.beta + sites.reaction_field(s.m, s.Lambda) - alpha * F - extra
        super().__init__(problem, alpha, s, each(inverse_of, s.L), inverse, R1)
        self._Lambda, self._more = Lambda, more

    @property
    def closed_form(self) -> float:
        """ln Z without the integral of ``free_energy``: naive + ½ Σ tr(Λ_iV_i) − ½ ln det(LᵀSL), and what "dc2" has."""
        sites, s = self.problem.sites, self.s
        naive = s.value + self.alpha * self.problem.couplings.E(self.problem.outer(s.m))
        return naive + 0.5 * sites.trace(s, self._Lambda) - 0.5 * self.inverse.log_det + self._more

    def precise(self, row: np.ndarray) -> BorderedSystem:
        """The bordered system for velocities, which an integral takes as they come."""
        return JacobianFree(self, row, _PRECISE_RTOL)

    def chi_columns(self, columns: np.ndarray) -> np.ndarray:
        """(k, N) rows of χ at k columns, where every site has one."""
        root = self.s.L[0].ravel()
        fields = np.zeros((len(root), len(columns)))
        fields[columns, np.arange(len(columns))] = root[columns]
        return np.ascontiguousarray((root[:, None] * self.inverse.solve(fields)).T)

    def chi_pairs(self, pairs: np.ndarray) -> np.ndarray:
        """χ of pairs (k, 2) of columns on the pattern, where every site has one."""
        root = self.s.L[0].ravel()
        return root[pairs].prod(axis=1) * self.inverse.blocks(pairs)[:, 0, 1]


class SparseSecondOrder(SparseConsistency):
    """ "dc2" in the unknowns u = (β, M), M = Λ + Λ′, where every site has one column (see ``dc2_equations``)."""

    def __init__(self, model: BoltzmannMachine):
        super().__init__(model)
        self._vertices = Vertices(model)

    def evaluate(self, u: np.ndarray, alpha: float) -> SparsePoint | None:
        s = self.state(u)
        if s is None:
            return None
        vertices = self._vertices
        g = vertices.g(s.m)
        value, by_m, by_V = vertices.field(g, s.V[0].ravel())
        Lambda = s.Lambda - 2.0 * alpha**2 * by_V
        inverse = self.respond(s, Lambda, alpha)
        if inverse is None:
            return None
        root, pairs = s.L[0].ravel(), vertices.pairs
        chi = root[pairs].prod(axis=1) * inverse.blocks(pairs)[:, 0, 1]
        field = alpha * (vertices.T(g) @ chi) + alpha**2 * by_m
        return SparsePoint(self, alpha, s, Lambda, inverse, field, alpha**2 * value)


def sparse_problem(model: BoltzmannMachine, second: bool = False, size: int = SPARSE_SIZE) -> SparseConsistency | None:
    """The equations of "dc", or of "dc2", with sparse S, for more than ``size`` columns with few neighbours each.

    None for other models: on the real line, which has an exact solution; of order three or more where variables have
    several functions; and where the factor of S fills up.
    """
    space, columns = model.space, model.columns
    if space.n_columns <= size or space.is_real or not len(columns) or (columns.order > 2 and not space.is_scalar):
        return None
    neighbours = sum(len(columns.block(k)) * k * (k - 1) for k in columns.orders)
    if neighbours > _MAX_DEGREE * space.n_columns:
        return None
    problem = SparseSecondOrder(model) if second and columns.order > 2 else SparseConsistency(model)
    return problem if 2 * problem.invert.n_entries <= _MAX_FILL * space.n_columns**2 + space.n_columns else None
