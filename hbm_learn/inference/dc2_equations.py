"""The equations of "dc2", and their derivatives: those of "dc" with the fields that their reaction terms leave out.

    b = h + αF(m) + ½α T:χ + α²f − (Λ + Λ′)m,   c = d − Λ − Λ′,   χ = (diag(1/V + Λ) − αA(m))⁻¹,   χ_ii = V_i

Λ′ = 2 ∂Φ/∂V and f = ∂Φ/∂m are those of ``vertices``. They are stationary conditions of one functional,

    ln Z = Σ_i [entropy and mean own weights] + αE(m) + ½ Σ ΛV − ½ ln det(√V S √V) + α²Φ(m, V)

in m, V and Λ, of which ½α T:χ = ∂(−½ ln det S)/∂m. Sites may have several columns (blocks; see ``block_equations``).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.sparse import block_diag, csr_array

from hbm_learn.inference.block_equations import BlockConsistency, BlockPoint, chain, times_sandwich
from hbm_learn.inference.block_sites import BlockSites
from hbm_learn.inference.bordered import DenseBordered
from hbm_learn.inference.vertices import Reaction, Vertices
from hbm_learn.model import BoltzmannMachine

_STRIP = 2**22  # entries of a product held at once


class SecondOrderConsistency:
    """The equations in the unknowns u = (β, M), M = Λ + Λ′ by its independent entries:

        R₁ = β + Mm − ½M:G − αF − α·½T:χ − α²f,     R₂ = χ_ii⁻¹ − V_i⁻¹ at Λ = M − α²Λ′(m, V)

    A point is a point of "dc" whose sites have M and whose response has Λ.
    """

    def __init__(self, model: BoltzmannMachine):
        self.dc = BlockConsistency(model)
        self.sites, self.couplings, self.n = self.dc.sites, self.dc.couplings, self.dc.n
        self.vertices = Vertices(model)
        self.outward = _map_of_V(self.sites, self.vertices.n_flat)

    @property
    def start(self) -> np.ndarray:
        """The solution at α = 0: independent sites."""
        return self.dc.start

    @property
    def weights(self) -> np.ndarray:
        return self.dc.weights

    def evaluate(self, u: np.ndarray, alpha: float) -> SecondOrderPoint | None:
        s = self.sites.state(u[: self.n], u[self.n :])
        if s is None:
            return None
        V = self.outward @ np.concatenate([_entries(stack).ravel() for stack in s.V])
        g = self.vertices.g(self.couplings.outer(s.m))
        reaction = self.vertices.reaction(g, V)
        extra = self._entries_of_gradient(reaction.by_V)
        point = self.dc.respond(s, s.Lambda - alpha**2 * extra, alpha)
        return None if point is None else SecondOrderPoint(self, point, g, reaction, extra)

    def _entries_of_gradient(self, by_V: np.ndarray) -> np.ndarray:
        """Λ′ (P,): 2 ∂Φ/∂V as symmetric matrices; a derivative by an entry a < b counts both ab and ba."""
        return (self.outward.T @ by_V) * self.halves

    @cached_property
    def halves(self) -> np.ndarray:
        """(P,) 2 on the diagonal of a block and 1 off it."""
        return np.where(self.sites.first == self.sites.second, 2.0, 1.0)


class SecondOrderPoint:
    """R and its derivatives at one (β, M, α), from those of the point of "dc" in (m, V, Λ)."""

    def __init__(
        self, problem: SecondOrderConsistency, point: BlockPoint, g: np.ndarray, reaction: Reaction, extra: np.ndarray
    ):
        self.problem, self.dc, self.s, self.alpha = problem, point, point.s, point.alpha
        self._g, self._reaction, self._extra = g, reaction, extra
        sites, alpha = problem.sites, point.alpha
        self.chi_outer = sites.covariances(point.chi)
        j, k = problem.vertices.pairs.T
        self._T = problem.vertices.T(g)
        self.ring = self._inward(self._T @ self.chi_outer[j, k])
        self.field = self._inward(reaction.by_m)
        self.R = point.R.copy()
        n = problem.n
        self.R[:n] += sites.reaction_field(self.s.m, self.s.Lambda) - sites.reaction_field(self.s.m, point.Lambda)
        self.R[:n] -= alpha * self.ring + alpha**2 * self.field

    def _inward(self, x: np.ndarray) -> np.ndarray:
        """Derivatives by means of the model's functions → by means of the sites', (N,) or (N, k)."""
        return self.problem.sites.blocks.left(self.problem.sites.inverse, x)

    @property
    def chi(self) -> np.ndarray:
        """S⁻¹, in the coordinates of the sites: diagonal-consistent."""
        return self.dc.chi

    @property
    def response(self) -> np.ndarray:
        """∂m/∂h, every equation taking part, in the coordinates of the sites, (N, N)."""
        n = self.problem.n
        fields = np.eye(len(self.R), n)
        try:
            du = np.linalg.solve(self.jacobian, fields)
        except np.linalg.LinAlgError:  # exactly at a fold, where χ is infinite in one direction
            du = np.linalg.pinv(self.jacobian) @ fields
        chi = chain(self.problem.sites, self.s, np.eye(n)) @ du
        return 0.5 * (chi + chi.T)

    @property
    def closed_form(self) -> float:
        """ln Z."""
        return self.dc.closed_form + self.alpha**2 * self._reaction.value

    @property
    def residual(self) -> float:
        """The largest of |⟨φ⟩ − m| and |L⁻¹χ_iiL⁻ᵀ − I|, the sites taken at the β of the equations for (m, M)."""
        sites, s = self.problem.sites, self.s
        image = sites.mean(s.beta - self.R[: self.problem.n], s.Lambda)
        return max(float(np.abs(image - s.m).max()), sites.mismatch(self.dc.X))

    def bordered(self, row: np.ndarray) -> DenseBordered:
        return DenseBordered(self.jacobian, self.d_alpha, row)

    # ------------------------------------------------------------------ derivatives

    @cached_property
    def d_alpha(self) -> np.ndarray:
        """∂R/∂α, (N + P,)."""
        n, alpha = self.problem.n, self.alpha
        _, _, R_L = self.dc.partials
        j, k = self.problem.vertices.pairs.T
        by_A = self.chi_outer @ self.problem.couplings.own.A(self.problem.couplings.outer(self.s.m)) @ self.chi_outer
        ring = self._inward(self._T @ by_A[j, k])
        out = self.dc.d_alpha.copy()
        moved = -2.0 * alpha * self._extra  # ∂Λ/∂α
        out[:n] -= self.ring + 2.0 * alpha * self.field + alpha * (ring + self._ring_by_L @ moved)
        out[n:] += R_L @ moved
        return out

    @cached_property
    def jacobian(self) -> np.ndarray:
        """∂R/∂(β, M), (N + P, N + P)."""
        p, n, alpha = self.problem, self.problem.n, self.alpha
        sites, r, a2 = p.sites, self._reaction, self.alpha**2
        R2_m, R2_V, R2_L = self.dc.partials
        first_m = -alpha * (self.dc.A + self._ring_by_m) - a2 * self._inward(self._inward(r.by_mm.toarray()).T).T
        sites.blocks.add(first_m, sites.matrices(self.s.Lambda))
        mixed = self._inward((p.outward.T @ r.by_Vm).toarray().T)  # ∂f/∂V, (N, P)
        first_V = -alpha * self._ring_by_V - a2 * mixed
        R_L = np.concatenate([-alpha * self._ring_by_L, R2_L])
        R_m, R_V = np.concatenate([first_m, R2_m]), np.concatenate([first_V, R2_V])
        # Λ = M − α²Λ′(m, V)
        R_m -= a2 * (R_L @ (p.halves[:, None] * mixed.T))
        second = (p.outward.T @ r.by_VV @ p.outward).toarray()
        R_V -= a2 * (R_L @ (p.halves[:, None] * second))
        out = chain(sites, self.s, R_m, R_V)
        out[:, n:] += R_L
        out[:n, n:] += sites.field_slope(self.s.m)
        out.flat[: n * len(out) : len(out) + 1] += 1.0
        return out

    @cached_property
    def _ring_by_V(self) -> np.ndarray:
        """∂(½T:χ)/∂V by entries, (N, P): dχ = U dV Uᵀ with U = χV⁻¹."""
        sites = self.problem.sites
        U = sites.outward(self.dc.regression)
        j, k = self.problem.vertices.pairs.T
        a, b = sites.first, sites.second
        out = np.zeros((self.problem.n, sites.n_lambda))
        step = max(1, _STRIP // max(len(j), 1))
        for lo in range(0, len(a), step):
            some, other = a[lo : lo + step], b[lo : lo + step]
            X = U[j][:, some] * U[k][:, other]
            off = np.flatnonzero(some != other)
            X[:, off] += U[j][:, other[off]] * U[k][:, some[off]]
            out[:, lo : lo + step] = self._inward(self._T @ X)
        return out

    @cached_property
    def _ring_by_L(self) -> np.ndarray:
        """∂(½T:χ)/∂Λ, (N, P): dΛ acts as −V dΛ V."""
        return -times_sandwich(self.problem.sites, self.s, self._ring_by_V)

    @cached_property
    def _ring_by_m(self) -> np.ndarray:
        """∂(½T:χ)/∂m at fixed V and Λ, (N, N): through T, and through χ, where dχ = αχ(T·dm)χ."""
        out = self.alpha * ring_slope(self._T, self.problem.vertices.pairs, self.chi_outer)
        direct = self.problem.vertices.trace_slope(self._g, self.chi_outer)
        if direct is not None:
            out += direct
        return self._inward(self._inward(out).T).T


def ring_slope(T: csr_array, pairs: np.ndarray, chi: np.ndarray) -> np.ndarray:
    """H_ip = Σ_{j<k} Σ_{a<b} T_ijk (χ_ja χ_kb + χ_jb χ_ka) T_pab, (N, N).

    The cheaper of two ways: all pairs with each other, or χT⁽ⁱ⁾χ for each i, 4N⁴ flops.
    """
    n, P = T.shape
    j, k = pairs.T
    out = np.zeros((n, n))
    if 4 * P**2 + 2 * T.nnz * P <= 4 * n**4 + 2 * n * T.nnz:
        step = max(1, _STRIP // max(P, 1))
        for lo in range(0, P, step):
            a, b = pairs[lo : lo + step].T
            Y = chi[np.ix_(j, a)] * chi[np.ix_(k, b)] + chi[np.ix_(j, b)] * chi[np.ix_(k, a)]
            out += (T[:, lo : lo + step] @ (T @ Y).T).T
        return out
    for i in range(n):
        mine = slice(T.indptr[i], T.indptr[i + 1])
        Ti, (a, b) = np.zeros((n, n)), pairs[T.indices[mine]].T
        Ti[a, b] = Ti[b, a] = T.data[mine]
        X = chi @ Ti @ chi
        out[i] = T @ X[j, k]
    return out


def _entries(stack: np.ndarray) -> np.ndarray:
    """(g, P) entries a ≤ b of symmetric matrices."""
    a, b = np.triu_indices(stack.shape[-1])
    return stack[:, a, b]


def _map_of_V(sites: BlockSites, n_flat: int) -> csr_array:
    """(Q, P): entries of V in the coordinates of the sites → r_i² flat entries in the model's functions, WᵀVW."""
    maps: list[np.ndarray] = []
    order = np.concatenate(sites.blocks.sites)
    for stack in sites.inverse:
        a, b = np.triu_indices(stack.shape[-1])
        for W in stack:
            both = np.einsum("pc,pd->cdp", W[a], W[b]) + np.where(a == b, 0.0, 1.0) * np.einsum(
                "pc,pd->cdp", W[b], W[a]
            )
            maps.append(both.reshape(-1, len(a)))
    # rows come group by group; flat V is site by site
    sizes = np.array([len(each) for each in maps])
    starts = np.empty(len(maps), dtype=np.intp)
    by_site = np.argsort(order)
    starts[by_site] = np.concatenate([[0], np.cumsum(sizes[by_site])])[:-1]
    rows = np.concatenate([start + np.arange(size) for start, size in zip(starts, sizes)])
    whole = block_diag(maps, format="csr")
    return csr_array(whole[np.argsort(rows)])
