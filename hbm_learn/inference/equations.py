"""What the mean-field equations share: the coupling polynomial, and the sites in well-conditioned coordinates.

Sites.  q_i(x) ∝ exp(β_i x − d_i x²/2 + Λ_i (x − t)²/2), t the middle of the alphabet, is the site distribution of the
paper with b = β − tΛ, c = d − Λ. In (β, Λ) nothing is lost when V → 0, and on a two-valued alphabet, where (x − t)² is
constant, Λ drops out of the site.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hbm_learn._kernels import polynomial
from hbm_learn.model import BoltzmannMachine
from hbm_learn.space import SiteMoments

# √V enters denominators; below this a site is frozen for every purpose in float64.
TINY = 1e-280


class Couplings:
    """E(m) = Σ_μ J_μ Π m and its derivatives F, A, T; pairs as one dense matrix, higher orders packed."""

    def __init__(self, model: BoltzmannMachine):
        self.J = model.J
        packed, weights = model.packed, model.weights
        pairs = packed.slice(2).stop
        start = packed.indptr[pairs]
        self.is_pairwise = pairs == len(packed)
        self.all = (packed.members, packed.indptr, weights)
        self.higher = (packed.members[start:], packed.indptr[pairs:] - start, weights[pairs:])

    def E(self, m: np.ndarray) -> float:
        """Σ_μ J_μ Π_{i∈μ} m_i."""
        pairs = 0.5 * float(m @ (self.J @ m))
        return pairs if self.is_pairwise else pairs + float(polynomial.value(m, *self.higher))

    def F(self, m: np.ndarray) -> np.ndarray:
        """F_i = ∂E/∂m_i, (n,)."""
        F = self.J @ m
        return F if self.is_pairwise else F + polynomial.gradient(m, *self.higher)

    def A(self, m: np.ndarray) -> np.ndarray:
        """A_ij = ∂F_i/∂m_j, (n, n); not to be written to."""
        return self.J if self.is_pairwise else self.J + polynomial.hessian(m, *self.higher)

    def contract(self, m: np.ndarray, N: np.ndarray) -> np.ndarray:
        """G_ip = Σ_kl T_klp N_ik N_il, (n, n)."""
        return polynomial.third_contract(m, *self.higher, np.ascontiguousarray(N.T)).T


@dataclass(frozen=True)
class SiteState:
    """Moments of the sites and their derivatives with respect to (β, Λ); all (n,).

    ∂m/∂β = V, ∂V/∂β = μ₃, ∂m/∂Λ = ``m_L`` = ½(μ₃ + 2(m − t)V), ∂V/∂Λ = ``V_L`` = ½(μ₄ − V² + 2(m − t)μ₃).
    """

    b: np.ndarray
    c: np.ndarray
    log_z: np.ndarray
    m: np.ndarray
    y: np.ndarray  # m − t
    V: np.ndarray
    mu3: np.ndarray
    m_L: np.ndarray
    V_L: np.ndarray


class Sites:
    """The site distributions of a model as functions of (β, Λ)."""

    def __init__(self, model: BoltzmannMachine):
        self.alphabet, self.d = model.alphabet, model.d
        low, high = self.alphabet.bounds
        self.is_real = self.alphabet.kind == "real"
        self.t = 0.0 if self.is_real else 0.5 * (low + high)
        self.half = 1.0 if self.is_real else 0.5 * (high - low)

    @property
    def weights(self) -> np.ndarray:
        """(2n,) weights of (β, Λ) that make the arclength a root mean square, free of the unit of x."""
        n = len(self.d)
        return np.repeat([self.half**2 / (2 * n), self.half**4 / (2 * n)], n)

    def moments(self, b: np.ndarray) -> SiteMoments:
        """Moments at (b, c = d)."""
        return self.alphabet.site_moments(b, self.d)

    def _moments(self, b: np.ndarray, c: np.ndarray) -> SiteMoments:
        if not self.alphabet.is_binary:
            return self.alphabet.site_moments(b, c)
        # x² = 2tx − x₀x₁ on two values: without its constant, a large c costs b no digits.
        low, high = self.alphabet.bounds
        s = self.alphabet.site_moments(b - self.t * c)
        return replace(s, log_z=s.log_z + 0.5 * low * high * c)

    def state(self, beta: np.ndarray, Lambda: np.ndarray) -> SiteState | None:
        """Moments at (β, Λ); None where the site has none (c ≤ 0 on the real line)."""
        b, c = beta - self.t * Lambda, self.d - Lambda
        if self.is_real and c.min() <= 0.0:
            return None
        s = self._moments(b, c)
        y, V = s.m - self.t, np.maximum(s.V, TINY)
        m_L = 0.5 * s.mu3 + y * V
        V_L = 0.5 * (s.mu4 - V * V) + y * s.mu3
        return SiteState(b=b, c=c, log_z=s.log_z, m=s.m, y=y, V=V, mu3=s.mu3, m_L=m_L, V_L=V_L)


def check_stable(model: BoltzmannMachine) -> None:
    """A Gaussian model needs diag(d) − J positive definite; ValueError otherwise."""
    if model.alphabet.kind != "real":
        return
    smallest = float(np.linalg.eigvalsh(np.diag(model.d) - model.J)[0])
    if smallest <= 0.0:
        raise ValueError(
            f'alphabet "real": diag(d) − J has the eigenvalue {smallest:.4g}, so exp(−H) has no finite integral. '
            "Raise d, weaken the couplings, or use an Interval."
        )
