"""The equations of diagonal consistency with several columns at a site, and their derivatives.

    S = blockdiag(V_i⁻¹ + Λ_i) − αA(m),   χ = S⁻¹,   block χ_ii = V_i

with q_i ∝ exp(θ_i + αF_i·φ_i + ½(φ_i − m_i)ᵀΛ_i(φ_i − m_i)). For one column a site they are those of ``dc_equations``.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from hbm_learn.consistency.blocks import each, transpose
from hbm_learn.inference.block_sites import BlockSites, BlockState, GaugedCouplings
from hbm_learn.inference.bordered import DenseBordered
from hbm_learn.inference.equations import Couplings
from hbm_learn.linalg import spd_inverse
from hbm_learn.model import BoltzmannMachine


class BlockConsistency:
    """The equations in the unknowns u = (β, Λ), Λ by its independent entries:

        R₁ = β + Λm − ½Λ:G − αF(m),     R₂ = χ_ii⁻¹ − V_i⁻¹ = Λ_i − α Σ_k N_ik A_ki,     N_ik = χ_ii⁻¹χ_ik

    A point is valid while S is positive definite. With V = LLᵀ, S is inverted as LᵀSL = I + LᵀΛL − αLᵀAL.
    """

    def __init__(self, model: BoltzmannMachine):
        self.sites = BlockSites(model)
        self.couplings = GaugedCouplings(Couplings(model), self.sites)
        self.n = self.sites.n_columns

    @property
    def start(self) -> np.ndarray:
        """The solution at α = 0: independent sites."""
        return np.zeros(self.n + self.sites.n_lambda)

    @property
    def weights(self) -> np.ndarray:
        return self.sites.weights

    def evaluate(self, u: np.ndarray, alpha: float) -> BlockPoint | None:
        s = self.sites.state(u[: self.n], u[self.n :])
        return None if s is None else self.respond(s, s.Lambda, alpha)

    def respond(self, s: BlockState, Lambda: np.ndarray, alpha: float) -> BlockPoint | None:
        """The point at a state of the sites with Λ (P,) in S, which need not be the sites' own; None unless S > 0."""
        A = self.couplings.A(s.m)
        X, log_det = spd_inverse(np.ascontiguousarray(self.sites.scaled(alpha * A, s, Lambda)))
        return None if X is None else BlockPoint(self, alpha, s, Lambda, A, X, log_det)


class BlockPoint:
    """R and its derivatives at one (β, Λ, α).

    With E_ik = N_ik V_k⁻¹ for i ≠ k, E_ii = 0, and G_i,p = Σ_kl T_klp N_ik N_ilᵀ, in m, V and Λ, which (β, Λ) move:

        dR₁ = dβ + (Λ − αA) dm + ∂(Λm − ½Λ:G)/∂Λ dΛ − F dα
        dR₂ = dΛ_i + Σ_k E_ik (V_k dΛ_k V_k − dV_k) E_ikᵀ − α Σ_p G_i,p dm_p − N A Nᵀ dα
    """

    def __init__(
        self,
        problem: BlockConsistency,
        alpha: float,
        s: BlockState,
        Lambda: np.ndarray,
        A: np.ndarray,
        X: np.ndarray,
        log_det: float,
    ):
        self.problem, self.alpha, self.s, self.Lambda = problem, alpha, s, Lambda
        self.A, self.X, self.log_det = A, X, log_det
        sites, blocks = problem.sites, problem.sites.blocks
        self.F = problem.couplings.F(s.m)
        inverse = each(np.linalg.inv, s.L)
        diagonal = blocks.diagonal(X)
        rows = blocks.left(each(lambda l, x: transpose(l) @ np.linalg.inv(x), inverse, diagonal), X)
        self.N = blocks.right(rows, each(transpose, s.L))
        self._E = rows, inverse
        reaction = sites.entries(blocks.between(self.N, alpha * A))
        R1 = s.beta + sites.reaction_field(s.m, Lambda) - alpha * self.F
        self.R = np.concatenate([R1, Lambda - reaction])

    @property
    def chi(self) -> np.ndarray:
        """χ in the coordinates of the sites, (N, N)."""
        return self.problem.sites.unwhiten(self.X, self.s)

    @property
    def regression(self) -> np.ndarray:
        """χ blockdiag(V⁻¹), (N, N)."""
        rows, inverse = self.problem.sites.blocks.left(self.s.L, self.X), each(np.linalg.inv, self.s.L)
        return self.problem.sites.blocks.right(rows, inverse)

    @property
    def closed_form(self) -> float:
        """ln Z without the integral of ``free_energy``: naive + ½ Σ tr(Λ_iV_i) − ½ ln det(LᵀSL)."""
        s, p = self.s, self.problem
        return s.value + self.alpha * p.couplings.E(s.m) + 0.5 * p.sites.trace(s, self.Lambda) - 0.5 * self.log_det

    @property
    def residual(self) -> float:
        """The largest of |⟨φ⟩ − m| and |L⁻¹χ_iiL⁻ᵀ − I|, the sites taken at the β of the equations for (m, Λ)."""
        sites, s = self.problem.sites, self.s
        image = sites.mean(self.alpha * self.F - sites.reaction_field(s.m, s.Lambda), s.Lambda)
        return max(float(np.abs(image - s.m).max()), sites.mismatch(self.X))

    def bordered(self, row: np.ndarray) -> DenseBordered:
        return DenseBordered(self.jacobian, self.d_alpha, row)

    # ------------------------------------------------------------------ derivatives

    @cached_property
    def d_alpha(self) -> np.ndarray:
        """∂R/∂α, (N + P,)."""
        sites = self.problem.sites
        return np.concatenate([-self.F, -sites.entries(sites.blocks.between(self.N @ self.A, self.N))])

    @cached_property
    def jacobian(self) -> np.ndarray:
        """∂R/∂(β, Λ), (N + P, N + P)."""
        sites, n = self.problem.sites, self.problem.n
        R_m, R_V, R_L = self.partials
        response = -self.alpha * self.A  # ∂R₁/∂m
        sites.blocks.add(response, sites.matrices(self.Lambda))
        out = chain(sites, self.s, np.concatenate([response, R_m]), np.concatenate([np.zeros((n, len(R_V))), R_V]))
        out[:n, n:] += sites.field_slope(self.s.m)
        out[n:, n:] += R_L
        out.flat[: n * len(out) : len(out) + 1] += 1.0
        return out

    @cached_property
    def partials(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """∂R₂/∂m (P, N), ∂R₂/∂V (P, P) and ∂R₂/∂Λ (P, P), each with the other two held; V and Λ by their entries."""
        sites, spread, slope = self.problem.sites, self._congruence(), self._slope()
        R_L = times_sandwich(sites, self.s, spread)
        R_L.flat[:: len(R_L) + 1] += 1.0
        return (np.zeros((len(spread), self.problem.n)) if slope is None else -slope), -spread, R_L

    def _congruence(self) -> np.ndarray:
        """(P, P): entries of a symmetric D to those of Σ_{k≠i} E_ik D_k E_ikᵀ."""
        sites, (rows, inverse) = self.problem.sites, self._E
        E = sites.blocks.right(rows, inverse)
        for columns in sites.blocks.columns:
            E[columns[:, :, None], columns[:, None, :]] = 0.0
        left, right = E[sites.first], E[sites.second]
        out = left[:, sites.first] * right[:, sites.second]
        off = np.flatnonzero(sites.first != sites.second)
        out[:, off] += left[:, sites.second[off]] * right[:, sites.first[off]]
        return out

    def _slope(self) -> np.ndarray | None:
        """(P, N) αG; None for pairs."""
        p, sites = self.problem, self.problem.sites
        if p.couplings.is_pairwise:
            return None
        return self.alpha * p.couplings.contract_pairs(self.s.m, self.N[sites.first], self.N[sites.second])


def chain(sites: BlockSites, s: BlockState, R_m: np.ndarray, R_V: np.ndarray | None = None) -> np.ndarray:
    """(rows, N + P): R_m ∂m/∂(β, Λ) + R_V ∂V/∂(β, Λ) at the sites."""
    n = sites.n_columns
    out = np.empty((len(R_m), n + sites.n_lambda))
    for columns, where, g in zip(sites.blocks.columns, sites.where, s.groups):
        beta, entries = columns.ravel(), (n + where).ravel()
        out[:, beta] = _times(R_m, columns, g.V)
        out[:, entries] = _times(R_m, columns, g.m_L)
        if R_V is not None:
            out[:, beta] += _times(R_V, where, g.third)
            out[:, entries] += _times(R_V, where, g.V_L)
    return out


def times_sandwich(sites: BlockSites, s: BlockState, matrix: np.ndarray) -> np.ndarray:
    """(rows, P): what a matrix over entries of V, (rows, P), gives of V D V, in the entries of D."""
    out = np.empty_like(matrix)
    for where, V in zip(sites.where, s.V):
        out[:, where.ravel()] = _times(matrix, where, sandwich(V))
    return out


def _times(matrix: np.ndarray, columns: np.ndarray, stack: np.ndarray) -> np.ndarray:
    """matrix[:, columns of a site] @ its (k, l) block, all sites of a group beside each other: (rows, g·l)."""
    product = np.swapaxes(matrix[:, columns], 0, 1) @ stack
    return np.swapaxes(product, 0, 1).reshape(len(matrix), -1)


def sandwich(V: np.ndarray) -> np.ndarray:
    """(g, P, P): entries of a symmetric D to those of V D Vᵀ."""
    a, b = np.triu_indices(V.shape[-1])
    out = V[:, a][:, :, a] * V[:, b][:, :, b]
    off = a != b
    out[:, :, off] += V[:, a][:, :, b[off]] * V[:, b][:, :, a[off]]
    return out
