"""The TAP equations: Plefka's expansion of the Gibbs free energy to second order in the couplings.

    G = G_naive + Φ₂,   Φ₂ = −½ [Σ_{i<j} A_ij(m)² V_i V_j + Σ_{i<j<k} J_ijk² V_i V_j V_k]       (order ≤ 3)
    b = h + F(m) − ∂Φ₂/∂m|_V − Λm,   c = d − Λ,   Λ_i = −2 ∂Φ₂/∂V_i           (φ = x; see ``scalar_sites``)

For the p-spin Ising model, in the limit of many spins, the sums over larger subsets cancel what ∂Φ₂/∂m adds, and there
remains

    b = h + F(m) − Λm,   Λ_i = Σ_k (1 − m_k²) A_ik²                                            (Eq. onsager_p_spin_)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from hbm_learn._kernels import cumulants, plefka
from hbm_learn.inference.bordered import DensePoint
from hbm_learn.inference.continuation import arrive, path_table
from hbm_learn.inference.damped import check_solver_options, iterate
from hbm_learn.inference.equations import Couplings, check_scalar, check_stable
from hbm_learn.inference.fields import outcome
from hbm_learn.inference.result import InferenceResult
from hbm_learn.inference.scalar_sites import Sites, SiteState
from hbm_learn.model import BoltzmannMachine

ONSAGER = ("auto", "plefka", "p-spin")


def tap(
    model: BoltzmannMachine,
    *,
    onsager: str = "auto",
    tol: float = 1e-10,
    max_evaluations: int = 5000,
    solver: str = "path",
    damping: float = 0.5,
    max_iter: int = 10_000,
) -> InferenceResult:
    """TAP: second-order Plefka expansion to order 3, or the p-spin equation, any order on {−1, 1}.

    Each variable has one function: two labels, or numbers without powers.

    Parameters
    ----------
    model : BoltzmannMachine
    onsager : str
        "plefka", every second-order term; "p-spin", the Onsager term Λ_i = Σ_k (1 − m_k²) A_ik² alone; "auto" takes
        "p-spin" for Ising models whose interactions all have one order p ≥ 3, and "plefka" otherwise.
    tol : float
        Bound on the residual, the largest of ``|⟨φ⟩ − m|`` and ``|Λ − Λ(m, V)|/max(1, Λ)``.
    max_evaluations : int
        Of the equations, with solver "path".
    solver : str
        "path" follows the solution from no couplings to the model's; "damped" iterates (m, V).
    damping, max_iter : float, int
        Weight of the old iterate and number of iterations, with solver "damped".

    Returns
    -------
    InferenceResult
        With ``Lambda`` the Onsager coefficients, and ``covariances`` ∂m/∂h, the linear response of the equations.

    Notes
    -----
    One evaluation factorises a 2n × 2n matrix, 16n³/3 flops; triples add a product of 2n²P flops, P pairs within them.
    """
    check_solver_options(tol, max_evaluations, solver, damping, max_iter)
    check_scalar(model, "tap")
    check_stable(model)
    problem = TAPEquations(model, _choose_onsager(model, onsager))
    path = None
    if solver == "damped":
        found = iterate(problem.step, problem.first_moments(), damping=damping, max_iter=max_iter, tol=tol)
        point: Any = problem.evaluate(problem.parameters(found.x), 1.0) or problem.evaluate(problem.start, 1.0)
        residual, n_iter, status = found.residual, found.n_iter, found.status
    else:
        end = arrive(problem, tol=0.01 * tol, max_evaluations=max_evaluations, observe=problem.observe)
        point, path = end.point, path_table(end.path)
        residual, n_iter, status = end.residual, end.n_evaluations, end.status(tol)
    return outcome(
        model,
        problem.sites,
        point.s,
        problem.chi(point),
        method="tap",
        log_partition=problem.log_partition(point),
        converged=residual < tol,
        n_iter=n_iter,
        residual=residual,
        status=status,
        Lambda=point.Lambda,
        path=path,
    )


def _choose_onsager(model: BoltzmannMachine, onsager: str) -> str:
    ising = model.space.is_binary and all(np.array_equal(phi, [[-1.0], [1.0]]) for phi in model.space.functions)  # type: ignore[arg-type]
    if onsager not in ONSAGER:
        raise ValueError(f"onsager={onsager!r} is not known; choose one of {', '.join(map(repr, ONSAGER))}.")
    if onsager == "auto":
        onsager = "p-spin" if ising and model.order >= 3 and len(model.columns.orders) == 1 else "plefka"
    if onsager == "p-spin" and not ising:
        raise ValueError(
            f"onsager='p-spin' is the equation of Ising spins, not of {model.space.alphabet or model.space}; "
            "use onsager='plefka' (order ≤ 3) or method 'dc' (any order)."
        )
    if onsager == "plefka" and model.order > 3:
        raise ValueError(
            f"method 'tap' takes interactions of order ≤ 3 (this model has order {model.order}): use method 'dc', or "
            "onsager='p-spin' for Ising spins."
        )
    return onsager


@dataclass(frozen=True)
class TAPPoint(DensePoint):
    alpha: float
    s: SiteState
    Lambda: np.ndarray
    energy: float  # E(m)
    reaction_energy: float  # Φ₂
    residual: float


@dataclass(frozen=True)
class _Reaction:
    """Φ₂ and its derivatives at (m, V), and theirs."""

    Lambda: np.ndarray  # −2 ∂Φ₂/∂V
    phi: np.ndarray  # ∂Φ₂/∂m at fixed V
    energy: float  # Φ₂
    Lambda_V: np.ndarray
    Lambda_m: np.ndarray
    phi_V: np.ndarray | None
    phi_m: np.ndarray | None


class TAPEquations:
    """R₁ = β + Λ(m − t) + α²φ(m, V) − αF(m),   R₂ = Λ − α²Λ(m, V),   unknowns (β, Λ) as in "dc"."""

    def __init__(self, model: BoltzmannMachine, onsager: str):
        self.n, self.onsager = model.n_features, onsager
        self.sites, self.couplings = Sites(model), Couplings(model)

    @property
    def start(self) -> np.ndarray:
        return np.zeros(2 * self.n)

    @property
    def weights(self) -> np.ndarray:
        return self.sites.weights

    def reaction(self, m: np.ndarray, V: np.ndarray) -> _Reaction:
        """The second-order terms at full coupling strength."""
        A = self.couplings.A(m)
        pairs = A * A
        Lambda, Lambda_V = pairs @ V, pairs
        energy = -0.25 * float(V @ Lambda)
        sites, values = cumulants.triples(m, *self.couplings.higher)
        slope = plefka.reaction_slope(sites, values, A, V)
        if self.onsager == "p-spin":
            energy = -0.5 * plefka.p_spin_energy(m, V, *self.couplings.all)
            return _Reaction(Lambda, np.zeros_like(m), energy, Lambda_V, 2.0 * slope, None, None)
        if self.couplings.is_pairwise:
            return _Reaction(Lambda, np.zeros_like(m), energy, Lambda_V, 2.0 * slope, None, None)
        Lambda3, W, phi, total = plefka.triple_terms(sites, values, A, V)
        phi_m = -_shared_pairs(sites, values, V)
        return _Reaction(Lambda + Lambda3, phi, energy - 0.5 * total, Lambda_V + W, 2.0 * slope, -slope.T, phi_m)

    def evaluate(self, u: np.ndarray, alpha: float) -> TAPPoint | None:
        n = self.n
        beta, Lambda = u[:n], u[n:]
        s = self.sites.state(beta, Lambda)
        if s is None:
            return None
        r, F, a2 = self.reaction(s.m, s.V), self.couplings.F(s.m), alpha * alpha
        R1 = beta + Lambda * s.y + a2 * r.phi - alpha * F
        R2 = Lambda - a2 * r.Lambda
        R1_m = np.diag(Lambda) - alpha * self.couplings.A(s.m)
        R1_V = np.zeros((n, n))
        if r.phi_m is not None and r.phi_V is not None:
            R1_m = R1_m + a2 * r.phi_m
            R1_V = a2 * r.phi_V
        R_m = np.concatenate([R1_m, -a2 * r.Lambda_m])
        R_V = np.concatenate([R1_V, -a2 * r.Lambda_V])
        jacobian = np.hstack([R_m * s.V + R_V * s.mu3, R_m * s.m_L + R_V * s.V_L])
        jacobian.flat[:: 2 * n + 1] += 1.0
        jacobian[np.arange(n), np.arange(n, 2 * n)] += s.y
        d_alpha = np.concatenate([2.0 * alpha * r.phi - F, -2.0 * alpha * r.Lambda])
        image = self.sites.mean(beta - R1, Lambda)
        residual = float(max(np.abs(image - s.m).max(), np.abs(R2 / np.maximum(1.0, np.abs(Lambda))).max()))
        energy = self.couplings.E(s.m)
        return TAPPoint(np.concatenate([R1, R2]), jacobian, d_alpha, alpha, s, Lambda, energy, r.energy, residual)

    def log_partition(self, point: TAPPoint) -> float:
        return point.s.value + point.alpha * point.energy - point.alpha**2 * point.reaction_energy

    def observe(self, point: TAPPoint) -> tuple[float, float]:
        """ln Z and the root mean square of m, for ``InferenceResult.path``."""
        return self.log_partition(point), self.sites.size(point.s)

    def chi(self, point: TAPPoint) -> np.ndarray:
        """∂m/∂h = V ∂β/∂h + (∂m/∂Λ) ∂Λ/∂h; its symmetric part, as the p-spin equation is no gradient."""
        n, s = self.n, point.s
        field = np.eye(2 * n, n)
        try:
            response = np.linalg.solve(point.jacobian, field)
        except np.linalg.LinAlgError:  # exactly at a fold, where χ is infinite in one direction
            response = np.linalg.pinv(point.jacobian) @ field
        chi = s.V[:, None] * response[:n] + s.m_L[:, None] * response[n:]
        return 0.5 * (chi + chi.T)

    # ------------------------------------------------------------------ damped iteration in x = (m, V)

    def first_moments(self) -> np.ndarray:
        s = self.sites.moments(np.zeros(self.n), np.zeros(self.n))
        return np.concatenate([s.m, s.V])

    def parameters(self, x: np.ndarray) -> np.ndarray:
        """(β, Λ) of the equations at (m, V)."""
        n = self.n
        m, V = x[:n], x[n:]
        r = self.reaction(m, V)
        return np.concatenate([self.couplings.F(m) - r.phi - r.Lambda * (m - self.sites.t), r.Lambda])

    def step(self, x: np.ndarray) -> tuple[np.ndarray, float]:
        n = self.n
        u = self.parameters(x)
        s = self.sites.state(u[:n], u[n:])
        if s is None:
            return x, np.inf
        image = np.concatenate([s.m, s.V])
        return image, float(np.abs(image - x).max())


def _shared_pairs(sites: np.ndarray, values: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Q_ip = Σ_{j<k} T_ijk T_pjk V_j V_k, (n, n)."""
    n = len(V)
    opposite = ((0, 1, 2), (1, 0, 2), (2, 0, 1))
    pair = np.concatenate([sites[:, j] * n + sites[:, k] for _, j, k in opposite])
    row = np.concatenate([sites[:, i] for i, _, _ in opposite])
    codes, column = np.unique(pair, return_inverse=True)
    T = csr_array((np.tile(values, 3), (row, column)), shape=(n, len(codes)))
    weighted = T * (V[codes // n] * V[codes % n])
    if 3 * len(values) > 0.1 * n * len(codes):
        return weighted.toarray() @ T.toarray().T
    return (weighted @ T.T).toarray()
