"""The equations of naive mean field with diagonal consistency, and their derivatives (Eqs. *_I-SusP_higher-order).

β = αF(m) − Λ(m − t),   m, V from the site exp(θ + βφ + ½Λ(φ − t)²),   χ = (diag(1/V + Λ) − αA(m))⁻¹,   χ_ii = V_i

for one column φ at each site; several are in ``block_equations``. With φ = x: b = h + αF(m) − Λm, c = d − Λ.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres

from hbm_learn.inference.bordered import BorderedSystem, DenseBordered
from hbm_learn.inference.equations import Couplings
from hbm_learn.inference.scalar_sites import Sites, SiteState
from hbm_learn.linalg import spd_inverse
from hbm_learn.model import BoltzmannMachine

# Above this size the linear systems are solved by GMRES, whose products cost n², before a factorisation is tried.
KRYLOV_SIZE = 300
_KRYLOV_ITERATIONS = 60
_KRYLOV_TOL = 1e-9


class DiagonalConsistency:
    """The equations in the unknowns u = (β, Λ):

        R₁ = β + Λ(m − t) − αF(m),     R₂ = 1/χ_ii − 1/V_i = Λ_i − α Σ_k A_ik χ_ki/χ_ii

    A point is valid while S = χ⁻¹ is positive definite. With D = diag(√V), S is inverted as DSD = I + ΛV − αDAD, whose
    diagonal stays near 1 when V → 0.
    """

    def __init__(self, model: BoltzmannMachine):
        self.n = model.n_features
        self.sites, self.couplings = Sites(model), Couplings(model)

    @property
    def start(self) -> np.ndarray:
        """The solution at α = 0: independent sites."""
        return np.zeros(2 * self.n)

    @property
    def weights(self) -> np.ndarray:
        """Units of the arclength: mean squares of β and Λ, in units of the half-width of φ."""
        return self.sites.weights

    def evaluate(self, u: np.ndarray, alpha: float) -> DCPoint | None:
        n = self.n
        beta, Lambda = u[:n], u[n:]
        s = self.sites.state(beta, Lambda)
        if s is None:
            return None
        root = np.sqrt(s.V)
        A = alpha * self.couplings.A(s.m)
        scaled = A * -root
        scaled *= root[:, None]
        scaled.flat[:: n + 1] = 1.0 + Lambda * s.V
        scaled_chi, log_det = spd_inverse(scaled)
        if scaled_chi is None:
            return None
        return DCPoint(self, alpha, beta, Lambda, s, A, scaled_chi, log_det)


class DCPoint:
    """R and its derivatives at one (β, Λ, α).

    With N_ik = χ_ik/χ_ii and E_ik = N_ik/V_k for i ≠ k, E_ii = 0, both bounded however small V is:

        dR₁ = K dβ + B dΛ − F dα,      K = I + (Λ − αA)V,   K⁻¹ = diag(χ_ii/V_i) N,   B = diag(m − t) + (Λ − αA) ∂m/∂Λ
        dR₂ = D₁ dβ + D₂ dΛ + f₂ dα,   D₁ = −E²μ₃ − αGV,    D₂ = I + E²(V² − ∂V/∂Λ) − αG ∂m/∂Λ

    where G_ip = Σ_kl T_klp N_ik N_il, and E² is taken entry by entry. β is eliminated with K⁻¹, which is known:
    K⁻¹B = diag(s) − K⁻¹ diag(g), g = μ₃/2V, s = g + m − t, leaves for Λ

        D₂ − D₁K⁻¹B = I + E² diag(w) + D₁K⁻¹ diag(g),   w = V² − ½(μ₄ − V² − μ₃²/V).
    """

    def __init__(
        self,
        problem: DiagonalConsistency,
        alpha: float,
        beta: np.ndarray,
        Lambda: np.ndarray,
        s: SiteState,
        A: np.ndarray,
        scaled_chi: np.ndarray,
        log_det: float,
    ):
        self.problem, self.alpha, self.Lambda, self.s, self.log_det = problem, alpha, Lambda, s, log_det
        self.scaled_chi = scaled_chi
        self.ratio = np.diagonal(scaled_chi).copy()  # χ_ii/V_i
        self.F = problem.couplings.F(s.m)
        root = np.sqrt(s.V)
        self.N = scaled_chi * root
        self.N /= (self.ratio * root)[:, None]
        self.reaction = np.einsum("ij,ij->i", A, self.N)  # α Σ_k A_ik χ_ki/χ_ii
        R1 = beta + Lambda * s.y - alpha * self.F
        self.R = np.concatenate([R1, Lambda - self.reaction])

    @property
    def chi(self) -> np.ndarray:
        """χ = (diag(1/V + Λ) − αA)⁻¹, (n, n)."""
        root = np.sqrt(self.s.V)
        return self.scaled_chi * root * root[:, None]

    @property
    def closed_form(self) -> float:
        """ln Z without the integral of ``free_energy``: naive + ½ Σ Λ_iV_i − ½ ln det(√V S √V)."""
        s = self.s
        p = self.problem
        return s.value + self.alpha * p.couplings.E(s.m) + 0.5 * p.sites.trace(s, self.Lambda) - 0.5 * self.log_det

    @property
    def residual(self) -> float:
        """The largest of |⟨φ⟩ − m| and |χ_ii/V_i − 1|, the site taken at the β of the equations for (m, Λ)."""
        s = self.s
        image = self.problem.sites.moments(self.alpha * self.F - self.Lambda * s.y, self.Lambda)
        return float(max(np.abs(image.m - s.m).max(), np.abs(self.ratio - 1.0).max()))

    def bordered(self, row: np.ndarray) -> BorderedSystem:
        if len(self.ratio) >= KRYLOV_SIZE:
            return DCKrylov(self, row)
        return DCBordered(self, row)

    # ------------------------------------------------------------------ derivatives

    @cached_property
    def E2(self) -> np.ndarray:
        """E∘E, (n, n)."""
        E2 = self.N / self.s.V
        E2.flat[:: len(E2) + 1] = 0.0
        E2 *= E2
        return E2

    @cached_property
    def G(self) -> np.ndarray | None:
        """αG, (n, n); None for pairs, where T = 0."""
        couplings = self.problem.couplings
        return None if couplings.is_pairwise else self.alpha * couplings.contract(self.s.m, self.N)

    @cached_property
    def g(self) -> np.ndarray:
        """μ₃/2V."""
        return 0.5 * self.s.mu3 / self.s.V

    @cached_property
    def w(self) -> np.ndarray:
        """V² − ½(μ₄ − V² − μ₃²/V)."""
        s = self.s
        return s.V * s.V - s.V_L + s.mu3 * (self.g + s.y)

    @cached_property
    def f2(self) -> np.ndarray:
        """∂R₂/∂α = −Σ_kl N_ik A_kl N_il, from αAχ = diag(1/V + Λ)χ − I, without another product of matrices."""
        if self.alpha == 0.0:
            return np.zeros_like(self.ratio)
        V = self.s.V
        off = self.E2 @ (V + self.Lambda * V * V)  # Σ_{k≠i} N_ik(E_ik + Λ_k N_ik)
        return -(off + self.reaction) / self.alpha

    def apply_D1(self, x: np.ndarray) -> np.ndarray:
        y = self.E2 @ (-self.s.mu3 * x)
        return y if self.G is None else y - self.G @ (self.s.V * x)

    def solve_K(self, x: np.ndarray) -> np.ndarray:
        return self.ratio * (self.N @ x)


class _Eliminated:
    """The bordered system without β: dβ = K⁻¹(r₁ − B dΛ + F dα), and (n + 1) equations for x = (dΛ, dα)."""

    def __init__(self, point: DCPoint, row: np.ndarray):
        self.point, self.n = point, len(point.ratio)
        self.row_beta, self.row_rest = row[: self.n], row[self.n :]
        self.K_F = point.solve_K(point.F)

    def response(self, x: np.ndarray) -> np.ndarray:
        """−K⁻¹(B dΛ − F dα) for x = (dΛ, dα)."""
        point, dL = self.point, x[:-1]
        return point.solve_K(point.g * dL) - (point.g + point.s.y) * dL + self.K_F * x[-1]

    def solve(self, r: np.ndarray, last: float) -> np.ndarray:
        K_r1 = self.point.solve_K(r[: self.n])
        x = self.solve_reduced(r[self.n :] - self.point.apply_D1(K_r1), last - self.row_beta @ K_r1)
        return np.concatenate([K_r1 + self.response(x), x])

    def solve_reduced(self, r: np.ndarray, last: float) -> np.ndarray:
        raise NotImplementedError


class DCBordered(_Eliminated):
    """One product and one LU: 2n³ + 2n³/3 flops."""

    def __init__(self, point: DCPoint, row: np.ndarray):
        super().__init__(point, row)
        D1 = point.E2 * -point.s.mu3
        if point.G is not None:
            D1 -= point.G * point.s.V
        D1K = (D1 * point.ratio) @ point.N
        schur = point.E2 * point.w + D1K * point.g
        schur.flat[:: self.n + 1] += 1.0
        tK = (self.row_beta * point.ratio) @ point.N
        bottom = self.row_rest - np.append(
            self.row_beta * (point.g + point.s.y) - tK * point.g, -(self.row_beta @ self.K_F)
        )
        self._lu = DenseBordered(schur, point.f2 + D1K @ point.F, bottom)
        self.sign = self._lu.sign

    def solve_reduced(self, r: np.ndarray, last: float) -> np.ndarray:
        return self._lu.solve(r, last)


class DCKrylov(_Eliminated):
    """GMRES: two or three products with n × n matrices an iteration, and no matrix formed.

    If it does not reach its tolerance in 60 iterations, as may happen close to a fold, the system is factorised.
    """

    sign = 0.0

    def __init__(self, point: DCPoint, row: np.ndarray):
        super().__init__(point, row)
        self._row = row
        self._column = point.f2 + point.apply_D1(self.K_F)
        self._factorised: DCBordered | None = None

    def _product(self, x: np.ndarray) -> np.ndarray:
        point, dL = self.point, x[:-1]
        K_g = point.solve_K(point.g * dL)
        top = dL + point.E2 @ (point.w * dL) + point.apply_D1(K_g) + self._column * x[-1]
        d_beta = K_g - (point.g + point.s.y) * dL + self.K_F * x[-1]
        return np.append(top, self.row_beta @ d_beta + self.row_rest @ x)

    def solve_reduced(self, r: np.ndarray, last: float) -> np.ndarray:
        if self._factorised is None:
            size = self.n + 1
            operator = LinearOperator((size, size), matvec=self._product, dtype=np.float64)
            rhs = np.append(r, last)
            x, info = gmres(operator, rhs, rtol=_KRYLOV_TOL, atol=0.0, restart=_KRYLOV_ITERATIONS, maxiter=1)
            if info == 0:
                return x
            self._factorised = DCBordered(self.point, self._row)
            self.sign = self._factorised.sign
        return self._factorised.solve_reduced(r, last)
