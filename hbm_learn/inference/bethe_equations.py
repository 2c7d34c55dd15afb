"""The equations of Bethe with diagonal consistency; their derivatives are in ``bethe_point``.

    Σ_μ x^μ_i − (deg_i − 1) b_i = θ_i − Λ_i m_i,   S = Σ_μ C_μ⁻¹ − blockdiag((deg_i − 1)V_i⁻¹) + blockdiag(Λ_i),
    χ = S⁻¹,   block χ_ii = V_i

where b_i are the fields of the marginal p_i alone, and x^μ and C_μ the fields and covariances of the factor μ with the
same marginals. With y^μ = b − x^μ (see ``factors``) they are the equations of "dc" with Σ_μ y^μ(m) in place of F(m),
and with its derivative Σ_μ (V⁻¹ − C_μ⁻¹) in place of A(m). Every function of a site is matched, so that trees are
exact, with Λ = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.sparse import csr_array

from hbm_learn.consistency.blocks import each, transpose
from hbm_learn.consistency.blocks import inverse as inverse_of
from hbm_learn.inference.bethe_point import BethePoint, DenseInverse, LoopPoint
from hbm_learn.inference.block_sites import BlockSites, BlockState
from hbm_learn.inference.factors import FactorGroup, Tilted, find_factors, tilt, values_of
from hbm_learn.inference.sparse_inverse import SPARSE_SIZE, SparseInverse, find_pattern
from hbm_learn.interactions import Interactions
from hbm_learn.model import BoltzmannMachine
from hbm_learn.space import Space


@dataclass(frozen=True)
class Marginals:
    """p_i of the sites, group by group: ln p (g, q), functions w orthonormal under p (g, q, r), L⁻¹, ⟨www⟩."""

    log_p: list[np.ndarray]
    w: list[np.ndarray]
    inverse: list[np.ndarray]
    third: list[np.ndarray]


class BetheConsistency:
    """The equations in the unknowns u = (β, Λ), p_i ∝ exp(θ_i + β_i·ψ_i) with functions ψ_i that span all of a site:

        R₁ = β + Λm − ½Λ:G − Σ_μ y^μ,     R₂ = χ_ii⁻¹ − V_i⁻¹

    A point is valid while S is positive definite. ``loops`` adds the field of ``LoopPoint`` to R₁; ``sparse`` says how
    S is kept, by its size if None.
    """

    def __init__(self, model: BoltzmannMachine, loops: bool = False, sparse: bool | None = None):
        self._point = LoopPoint if loops else BethePoint
        whole = saturated(model)
        self.sites, self.groups = BlockSites(whole), find_factors(model)
        self.n = self.sites.n_columns
        self._psi = self._functions(whole)
        self._theta = [np.stack([whole.own[i] for i in sites]) for sites in self.sites.blocks.sites]
        self._group_of, self._place = np.empty(model.n_features, dtype=int), np.empty(model.n_features, dtype=int)
        for k, sites in enumerate(self.sites.blocks.sites):
            self._group_of[sites], self._place[sites] = k, np.arange(len(sites))
        self.columns = [self._columns_of(group.sites) for group in self.groups]
        members = [group.sites.ravel() for group in self.groups] or [np.zeros(0, dtype=int)]
        self.degree = np.bincount(np.concatenate(members), minlength=model.n_features)
        self.pattern = find_pattern(self.n, self.sites.blocks.columns, self.columns)
        self.is_sparse = self.n > SPARSE_SIZE if sparse is None else sparse
        self.invert = SparseInverse(self.pattern.matrix) if self.is_sparse else DenseInverse(self.pattern)
        self._warm = [np.zeros((len(g.sites), g.size)) for g in self.groups]

    @property
    def start(self) -> np.ndarray:
        """The solution at α = 0: independent sites."""
        return np.zeros(self.n + self.sites.n_lambda)

    @property
    def weights(self) -> np.ndarray:
        return self.sites.weights

    def _functions(self, whole: BoltzmannMachine) -> list[np.ndarray]:
        """ψ (g, q, r) of the sites with q values, in the coordinates of ``sites``, group by group."""
        out = []
        for sites, columns, inverse in zip(self.sites.blocks.sites, self.sites.blocks.columns, self.sites.inverse):
            tables = np.stack([np.asarray(whole.space.functions[i]) for i in sites])
            out.append((tables - self.sites.shift[columns][:, None]) @ np.linalg.inv(inverse))
        return out

    def _columns_of(self, sites: np.ndarray) -> np.ndarray:
        """(g, R) the columns of all members of factors."""
        ptr = self.sites.column_ptr
        parts = [ptr[sites[:, j]][:, None] + np.arange(ptr[i + 1] - ptr[i]) for j, i in enumerate(sites[0])]
        return np.concatenate(parts, axis=1)

    def evaluate(self, u: np.ndarray, alpha: float) -> BethePoint | None:
        if not np.isfinite(u).all():
            return None
        s = self.sites.state(u[: self.n], u[self.n :])
        if s is None:
            return None
        marginals = self.marginals(s)
        tilted, field = [], np.zeros(self.n)
        for k, (group, columns) in enumerate(zip(self.groups, self.columns)):
            found = self._tilt(group, marginals, s, alpha, self._warm[k])
            y = self._times(group, [transpose(x) for x in marginals.inverse], found.y)
            self._warm[k] = y
            field += np.bincount(columns.ravel(), y.ravel(), minlength=self.n)
            tilted.append(found)
        within = [transpose(l) @ M @ l + np.eye(l.shape[-1]) for l, M in zip(s.L, self.sites.matrices(s.Lambda))]
        values = self.pattern.values(within, [-found.coupling for found in tilted])
        inverse = self.invert(values)
        return None if inverse is None else self._point(self, alpha, s, marginals, tilted, field, values, inverse)

    def _tilt(self, group: FactorGroup, marginals: Marginals, s: BlockState, alpha: float, warm: np.ndarray) -> Tilted:
        places = [(self._group_of[i[0]], self._place[i]) for i in group.sites.T]
        log_p, w = ([stacks[k][at] for k, at in places] for stacks in (marginals.log_p, marginals.w))
        guess = self._times(group, [transpose(l) for l in s.L], warm)
        return tilt(group, log_p, w, alpha, guess)

    def _times(self, group: FactorGroup, stacks: list[np.ndarray], y: np.ndarray) -> np.ndarray:
        """blockdiag(stacks of the members' sites) y for each factor, (g, R)."""
        out = np.empty_like(y)
        for sites, part in zip(group.sites.T, group.parts):
            mine = stacks[self._group_of[sites[0]]][self._place[sites]]
            out[:, part] = (mine @ y[:, part, None])[:, :, 0]
        return out

    def marginals(self, s: BlockState) -> Marginals:
        """p_i and functions orthonormal under it."""
        log_p, w, third = [], [], []
        inverse = each(inverse_of, s.L)
        for theta, psi, columns, g, l in zip(self._theta, self._psi, self.sites.blocks.columns, s.groups, inverse):
            exponent = theta + np.einsum("gqr,gr->gq", psi, s.beta[columns])
            exponent -= exponent.max(axis=1, keepdims=True)
            log_p.append(exponent - np.log(np.exp(exponent).sum(axis=1, keepdims=True)))
            w.append((psi - g.m[:, None]) @ transpose(l))
            p = np.exp(log_p[-1])
            third.append(np.einsum("gq,gqa,gqb,gqc->gabc", p, w[-1], w[-1], w[-1], optimize=w[-1].shape[-1] > 1))
        return Marginals(log_p, w, inverse, third)

    # ------------------------------------------------------------------ what is reported, for the model's own functions

    def probabilities(self, marginals: Marginals) -> list[np.ndarray]:
        """p_i over the values of each site."""
        return self.sites.blocks.by_site([np.exp(x) for x in marginals.log_p])

    def coefficients(self, model: BoltzmannMachine) -> csr_array:
        """(N, columns of the model) B with φ = constant + ψB."""
        space, blocks = model.space, self.sites.blocks
        rows, columns, values = [], [], []
        for sites, mine, psi in zip(blocks.sites, blocks.columns, self._psi):
            inverse = np.linalg.pinv(psi - psi.mean(axis=1, keepdims=True))
            for i, at, P in zip(sites, mine, inverse):
                B = P @ np.asarray(space.functions[i])  # rows of P sum to zero: constants drop out
                a, b = np.indices(B.shape)
                rows.append(at[a.ravel()])
                columns.append(space.column_ptr[i] + b.ravel())
                values.append(B.ravel())
        at = np.concatenate(rows), np.concatenate(columns)
        return csr_array((np.concatenate(values), at), shape=(self.n, space.n_columns))

    def interaction_moments(self, model: BoltzmannMachine, point: BethePoint) -> np.ndarray:
        """⟨Π_{c∈μ} φ_c⟩ of every set of columns, under the first factor that has its sites."""
        space, columns, parts = model.space, model.columns, [np.zeros(0)]
        values = values_of(space)
        for k in columns.orders:
            rows, out = columns.block(k), np.empty(len(columns.block(k)))
            distinct, which = np.unique(space.site[rows], axis=0, return_inverse=True)
            order = np.argsort(which.ravel(), kind="stable")  # sets of columns by their sites
            count = np.bincount(which.ravel())
            begin, is_open = np.cumsum(count) - count, np.ones(len(distinct), dtype=bool)
            wanted = Interactions.from_blocks([distinct], space.n_features)
            for group, tilted in zip(self.groups, point.tilted):
                for chosen in combinations(range(len(group.shape)), k):
                    found, factor = np.unique(wanted.locate(group.sites[:, chosen]), return_index=True)
                    new = np.flatnonzero((found >= 0) & is_open[found])
                    found, factor = found[new], factor[new]
                    is_open[found] = False
                    owner = np.repeat(factor, count[found])
                    first = np.repeat(begin[found] - np.cumsum(count[found]) + count[found], count[found])
                    mine = order[first + np.arange(len(owner))]
                    terms = tilted.p[owner]
                    for j, position in enumerate(chosen):
                        terms *= values[rows[mine, j]][:, group.states[:, position]]
                    out[mine] = terms.sum(axis=1)
            parts.append(out)
        return np.concatenate(parts)


def saturated(model: BoltzmannMachine) -> BoltzmannMachine:
    """The variables and own weights of a model with all q_i − 1 functions of each, and no couplings."""
    space = model.space
    if not space.is_finite:
        i = int(np.argmin(space.sizes))
        raise ValueError(
            f"method 'bethe' lists the states of interactions, and variable {i} is on {space.alphabets[i]}: use method "
            "'dc2', or bin the variable into a few values."
        )
    known: dict[int, np.ndarray] = {}
    for q in np.unique(space.sizes).tolist():
        # orthonormal under equal frequencies; on two values −1 and 1
        basis = np.linalg.qr(np.column_stack([np.ones(q), np.vander(np.linspace(-1, 1, q), q)[:, -2::-1]]))[0][:, 1:]
        known[q] = basis * np.sqrt(q) * np.sign(basis[-1])
    full = Space(space.alphabets, [known[q] for q in space.sizes.tolist()])
    nothing = Interactions.from_sorted([], full.n_columns)
    return BoltzmannMachine.from_columns(full, model.own, nothing, np.zeros(0))
