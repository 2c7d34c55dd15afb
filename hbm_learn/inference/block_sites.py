"""All sites of a model, some with several columns, and its couplings in the same coordinates (see ``block_groups``)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from hbm_learn.consistency.blocks import Blocks, transpose
from hbm_learn.inference.block_groups import GroupState, OneColumn, SeveralColumns
from hbm_learn.inference.equations import Couplings
from hbm_learn.model import BoltzmannMachine


@dataclass(frozen=True)
class BlockState:
    """All sites at one (β (N,), Λ (P,)), group by group, and the means m (N,) in the sites' coordinates."""

    beta: np.ndarray
    Lambda: np.ndarray
    m: np.ndarray
    groups: list[GroupState]
    value: float  # Σ_i [ln z_i − β_i·m_i − ½Λ_i:⟨Q_i⟩]: entropies and mean own weights

    @property
    def V(self) -> list[np.ndarray]:
        return [g.V for g in self.groups]

    @property
    def L(self) -> list[np.ndarray]:
        return [g.L for g in self.groups]


class BlockSites:
    """The sites of a model as functions of β and of the independent entries of the Λ_i, a ≤ b, site by site in groups.

    Attributes
    ----------
    blocks : Blocks
    first, second : (P,) arrays
        The columns a ≤ b of each entry of Λ.
    where : list of (g, P_r) arrays
        The entries of Λ at each site of a group.
    """

    def __init__(self, model: BoltzmannMachine):
        space = model.space
        self.blocks, self.column_ptr, self.site = Blocks(space), space.column_ptr, space.site
        self.n_columns = space.n_columns
        first, second, self.where, self.n_lambda = [], [], [], 0
        for columns in self.blocks.columns:
            a, b = np.triu_indices(columns.shape[1])
            first.append(columns[:, a].ravel())
            second.append(columns[:, b].ravel())
            self.where.append(self.n_lambda + np.arange(columns[:, a].size).reshape(len(columns), -1))
            self.n_lambda += columns[:, a].size
        self.first, self.second = np.concatenate(first), np.concatenate(second)
        self.groups: list[OneColumn | SeveralColumns] = [
            OneColumn(model, sites) if columns.shape[1] == 1 else SeveralColumns(model, sites)
            for sites, columns in zip(self.blocks.sites, self.blocks.columns)
        ]
        self.shift = np.zeros(self.n_columns)
        for columns, group in zip(self.blocks.columns, self.groups):
            self.shift[columns] = group.shift
        self.inverse = [group.inverse for group in self.groups]

    @property
    def weights(self) -> np.ndarray:
        """(N + P,) weights of (β, Λ) that make the arclength a root mean square, free of the unit of φ."""
        half = np.ones(self.n_columns)
        for columns, group in zip(self.blocks.columns, self.groups):
            half[columns] = group.half[:, None]
        return np.concatenate(
            [half**2 / (2 * self.n_columns), (half[self.first] * half[self.second]) ** 2 / (2 * self.n_lambda)]
        )

    def matrices(self, Lambda: np.ndarray) -> list[np.ndarray]:
        """Λ as stacks of symmetric matrices."""
        out = []
        for columns, where in zip(self.blocks.columns, self.where):
            stack = np.empty((len(columns), columns.shape[1], columns.shape[1]))
            a, b = np.triu_indices(columns.shape[1])
            stack[:, a, b] = stack[:, b, a] = Lambda[where]
            out.append(stack)
        return out

    def entries(self, stacks: list[np.ndarray]) -> np.ndarray:
        """(P,) the inverse of :meth:`matrices`, of the symmetric part."""
        out = np.empty(self.n_lambda)
        for where, stack in zip(self.where, stacks):
            a, b = np.triu_indices(stack.shape[-1])
            out[where] = 0.5 * (stack[:, a, b] + stack[:, b, a])
        return out

    def state(self, beta: np.ndarray, Lambda: np.ndarray) -> BlockState | None:
        """Moments and derivatives; None where a site has none."""
        groups, m, value = [], np.empty(self.n_columns), 0.0
        for columns, where, group in zip(self.blocks.columns, self.where, self.groups):
            s = group.state(beta[columns], Lambda[where])
            if s is None:
                return None
            groups.append(s)
            m[columns] = s.m
            value += float(s.log_z.sum() - (beta[columns] * s.m).sum() - (Lambda[where] * s.Q).sum())
        return BlockState(beta, Lambda, m, groups, value)

    def mean(self, beta: np.ndarray, Lambda: np.ndarray) -> np.ndarray:
        """⟨φ⟩ at (β, Λ), (N,)."""
        m = np.empty(self.n_columns)
        for columns, where, group in zip(self.blocks.columns, self.where, self.groups):
            m[columns] = group.mean(beta[columns], Lambda[where])
        return m

    def reaction_field(self, m: np.ndarray, Lambda: np.ndarray) -> np.ndarray:
        """(N,) Λ_i m_i − ½ Λ_i : G_i, so that β = F − this."""
        out = np.empty(self.n_columns)
        for columns, where, group in zip(self.blocks.columns, self.where, self.groups):
            out[columns] = np.einsum("grp,gp->gr", group.field_slope(m[columns]), Lambda[where])
        return out

    def field_slope(self, m: np.ndarray) -> np.ndarray:
        """(N, P) ∂/∂Λ of Λ_i m_i − ½ Λ_i : G_i."""
        out = np.zeros((self.n_columns, self.n_lambda))
        for columns, where, group in zip(self.blocks.columns, self.where, self.groups):
            out[columns[:, :, None], where[:, None, :]] = group.field_slope(m[columns])
        return out

    def scaled(self, A: np.ndarray, s: BlockState, Lambda: np.ndarray) -> np.ndarray:
        """LᵀSL = I + LᵀΛL − LᵀAL."""
        out = -self.whiten(A, s)
        out.flat[:: self.n_columns + 1] += 1.0
        self.blocks.add(out, [transpose(l) @ M @ l for l, M in zip(s.L, self.matrices(Lambda))])
        return out

    def reaction(self, A: np.ndarray, X: np.ndarray, s: BlockState) -> np.ndarray:
        """(P,) entries of Σ_k A_ik χ_ki V_i⁻¹ for χ = LXLᵀ."""
        diagonal = self.blocks.between(self.blocks.right(A, s.L), X)
        return self.entries([d @ np.linalg.inv(l) for d, l in zip(diagonal, s.L)])

    def times_V(self, M: np.ndarray, s: BlockState) -> np.ndarray:
        return self.blocks.right(M, s.V)

    def whiten(self, M: np.ndarray, s: BlockState) -> np.ndarray:
        """LᵀML."""
        return self.blocks.right(self.blocks.left([transpose(l) for l in s.L], M), s.L)

    def unwhiten(self, X: np.ndarray, s: BlockState) -> np.ndarray:
        """LXLᵀ."""
        return self.blocks.right(self.blocks.left(s.L, X), [transpose(l) for l in s.L])

    def mismatch(self, X: np.ndarray) -> float:
        """max |L⁻¹χ_iiL⁻ᵀ − I| for χ = LXLᵀ."""
        return max(float(np.abs(x - np.eye(x.shape[-1])).max()) for x in self.blocks.diagonal(X))

    def trace(self, s: BlockState, Lambda: np.ndarray) -> float:
        """Σ tr(Λ_i V_i)."""
        return sum(float((M * V).sum()) for M, V in zip(self.matrices(Lambda), s.V))

    def response(self, s: BlockState, beta: np.ndarray, Lambda: np.ndarray) -> np.ndarray:
        """(N,) V β′ + ∂m/∂Λ Λ′: how fast the means move with (β, Λ)."""
        out = np.empty(self.n_columns)
        for columns, where, g in zip(self.blocks.columns, self.where, s.groups):
            out[columns] = np.einsum("gab,gb->ga", g.V, beta[columns]) + np.einsum("gap,gp->ga", g.m_L, Lambda[where])
        return out

    def third_moments(self, s: BlockState) -> tuple[np.ndarray, np.ndarray]:
        """⟨y_a y_b y_c⟩ of each site, (r_i³,) in C order, flat over sites; and where each begins."""
        stacks = []
        for g in s.groups:
            r = g.V.shape[1]
            cube = np.empty((len(g.V), r, r, r))
            a, b = np.triu_indices(r)
            cube[:, a, b] = cube[:, b, a] = g.third
            stacks.append(cube.reshape(len(cube), -1))
        flat = self.blocks.by_site(stacks)
        return np.concatenate(flat), np.concatenate([[0], np.cumsum([len(x) for x in flat])])

    # ------------------------------------------------------------------ what is reported, for the model's own functions

    def outward(self, x: np.ndarray) -> np.ndarray:
        """Changes of means, (N,) or (N, k), in the model's functions."""
        return self.blocks.left([transpose(w) for w in self.inverse], x)

    def means(self, s: BlockState) -> np.ndarray:
        return self.shift + self.outward(s.m)

    def variances(self, s: BlockState) -> np.ndarray:
        out = np.empty(self.n_columns)
        for columns, V, w in zip(self.blocks.columns, s.V, self.inverse):
            out[columns] = np.einsum("gab,gac,gcb->gb", w, V, w)
        return out

    def covariances(self, chi: np.ndarray) -> np.ndarray:
        return self.outward(self.outward(chi).T)

    def lambdas(self, s: BlockState) -> list[np.ndarray]:
        """Λ_i (r_i, r_i) of each site."""
        pairs = zip(self.inverse, self.matrices(s.Lambda))
        return self.blocks.by_site([(w := np.linalg.inv(inverse)) @ L @ transpose(w) for inverse, L in pairs])

    def size(self, s: BlockState) -> float:
        """The root mean square of the means."""
        return float(np.sqrt(np.mean(self.means(s) ** 2)))

    def probabilities(self, beta: np.ndarray, Lambda: np.ndarray) -> list[np.ndarray | None]:
        """q_i over the values of each site; None for a continuous one."""
        out: list[np.ndarray | None] = [None] * self.blocks.n_sites
        for sites, columns, where, group in zip(self.blocks.sites, self.blocks.columns, self.where, self.groups):
            for i, q in zip(sites, group.probabilities(beta[columns], Lambda[where])):
                out[i] = q
        return out


class GaugedCouplings:
    """E, F, A and contractions of T in the coordinates of the sites."""

    def __init__(self, couplings: Couplings, sites: BlockSites):
        self.own, self.sites, self.is_pairwise = couplings, sites, couplings.is_pairwise
        self._J = self._inward(couplings.J)

    @cached_property
    def partners(self) -> tuple[np.ndarray, np.ndarray]:
        """For each interaction of order ≥ 3 those of the same sites, itself among them: flat, and where each begins."""
        members, indptr, _ = self.own.higher
        keys = [tuple(self.sites.site[members[lo:hi]]) for lo, hi in pairwise(indptr)]
        same: dict[tuple[int, ...], list[int]] = {}
        for r, key in enumerate(keys):
            same.setdefault(key, []).append(r)
        lists = [same[key] for key in keys]
        flat = np.array([r for each in lists for r in each], dtype=np.intp)
        return flat, np.concatenate([[0], np.cumsum([len(each) for each in lists])]).astype(np.intp)

    def _inward(self, A: np.ndarray) -> np.ndarray:
        blocks, inverse = self.sites.blocks, self.sites.inverse
        return blocks.right(blocks.left(inverse, A), [transpose(w) for w in inverse])

    def outer(self, m: np.ndarray) -> np.ndarray:
        """Means of the model's functions."""
        return self.sites.shift + self.sites.outward(m)

    def E(self, m: np.ndarray) -> float:
        return self.own.E(self.outer(m))

    def F(self, m: np.ndarray) -> np.ndarray:
        return self.sites.blocks.left(self.sites.inverse, self.own.F(self.outer(m)))

    def A(self, m: np.ndarray) -> np.ndarray:
        return self._J if self.is_pairwise else self._inward(self.own.A(self.outer(m)))

    def contract_pairs(self, m: np.ndarray, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """G_ip = Σ_kl T_klp X_ik Y_il, (rows, N)."""
        blocks, inverse = self.sites.blocks, self.sites.inverse
        G = self.own.contract_pairs(self.outer(m), blocks.right(X, inverse), blocks.right(Y, inverse))
        return blocks.right(G, [transpose(w) for w in inverse])
