"""The distributions of sites with equally many columns, in coordinates of their own.

    q_i(x) ∝ exp(θ_i(x) + β_i·φ_i(x) + ½ Λ_i : Q_i(x)),   Q = φφᵀ − its projection on 1 and φ

with φ orthonormal under equal frequencies of the values: raw powers condition badly. Q is what φφᵀ adds to θ + β·φ; it
vanishes where φ spans all functions of the site, as on labels, and there Λ drops out of the site, however large. From

    ½(φ − m)ᵀΛ(φ − m) = −φᵀΛm + ½ Σ_c (Λ : G_c) φ_c + ½ Λ : Q + constant,   G_abc = ⟨φ_a φ_b φ_c⟩, equal frequencies

β_i = F_i − Λ_i m_i + ½ Λ_i : G_i. Sites with one column are as in ``scalar_sites``, with m − t for m and no G.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hbm_learn.consistency.blocks import transpose
from hbm_learn.inference.scalar_sites import Sites, SiteState
from hbm_learn.model import BoltzmannMachine

# The smallest diagonal of L, V = LLᵀ: below it a function is frozen for every purpose in float64.
_TINY = 1e-140


@dataclass(frozen=True)
class GroupState:
    """Moments of the g sites with r columns, P = r(r + 1)/2; entries a ≤ b of symmetric matrices in one axis.

    L is the lower triangle with V = LLᵀ; ``Q`` the means of ½Q, off-diagonal entries counted twice. ∂m/∂β = V,
    ∂V/∂β = ``third``, ∂m/∂Λ = ``m_L``, ∂V/∂Λ = ``V_L``.
    """

    log_z: np.ndarray  # (g,)
    m: np.ndarray  # (g, r)
    V: np.ndarray  # (g, r, r)
    L: np.ndarray  # (g, r, r)
    Q: np.ndarray  # (g, P)
    third: np.ndarray  # (g, P, r)
    m_L: np.ndarray  # (g, r, P)
    V_L: np.ndarray  # (g, P, P)


class OneColumn:
    """Sites with one column: φ itself, and Q = (φ − t)²."""

    def __init__(self, model: BoltzmannMachine, sites: np.ndarray):
        self.sites = Sites(model, sites)
        self.half = self.sites.half
        self.shift, self.inverse = 0.0, np.ones((len(sites), 1, 1))

    def state(self, beta: np.ndarray, Lambda: np.ndarray) -> GroupState | None:
        s = self.sites.state(beta[:, 0], Lambda[:, 0])
        return None if s is None else _as_group(s)

    def mean(self, beta: np.ndarray, Lambda: np.ndarray) -> np.ndarray:
        return self.sites.mean(beta[:, 0], Lambda[:, 0])[:, None]

    def field_slope(self, m: np.ndarray) -> np.ndarray:
        return (m - self.sites.t[:, None])[:, :, None]

    def probabilities(self, beta: np.ndarray, Lambda: np.ndarray) -> list[np.ndarray | None]:
        return self.sites.probabilities(beta[:, 0], Lambda[:, 0])


def _as_group(s: SiteState) -> GroupState:
    def cube(x: np.ndarray) -> np.ndarray:
        return x[:, None, None]

    return GroupState(
        log_z=s.log_z,
        m=s.m[:, None],
        V=cube(s.V),
        L=cube(np.sqrt(s.V)),
        Q=0.5 * (s.V + s.y**2)[:, None],
        third=cube(s.mu3),
        m_L=cube(s.m_L),
        V_L=cube(s.V_L),
    )


class SeveralColumns:
    """Sites with r ≥ 2 columns and tables, padded to the longest; φ = (the model's functions − shift) inverse⁻¹."""

    def __init__(self, model: BoltzmannMachine, sites: np.ndarray):
        tables = [np.asarray(model.space.functions[i]) for i in sites]
        r, q_max = tables[0].shape[1], max(len(table) for table in tables)
        self.a, self.b = np.triu_indices(r)
        self.sizes = model.space.sizes[sites]
        self.half = np.ones(len(sites))
        self.shift, self.inverse = np.empty((len(sites), r)), np.empty((len(sites), r, r))
        self.theta = np.full((len(sites), q_max), -np.inf)
        self.phi, self.Q = np.zeros((len(sites), q_max, r)), np.zeros((len(sites), q_max, len(self.a)))
        self.G = np.empty((len(sites), r, len(self.a)))
        for k, (i, table) in enumerate(zip(sites, tables)):
            q = len(table)
            self.theta[k, :q] = model.own[i]
            self.shift[k], self.inverse[k], self.phi[k, :q] = _orthonormal(table)
            self.G[k], self.Q[k, :q] = self._quadratic(self.phi[k, :q])

    def _quadratic(self, phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(r, P) ½G and (q, P) ½Q of one site, off-diagonal entries counted twice."""
        q, r = phi.shape
        products = phi[:, self.a] * phi[:, self.b] * np.where(self.a == self.b, 0.5, 1.0)
        G = phi.T @ products / q
        if r == q - 1:
            return G, np.zeros_like(products)
        return G, products - products.mean(axis=0) - phi @ G

    def _exponents(self, beta: np.ndarray, Lambda: np.ndarray) -> np.ndarray:
        return self.theta + np.einsum("gqr,gr->gq", self.phi, beta) + np.einsum("gqp,gp->gq", self.Q, Lambda)

    def _weights(self, beta: np.ndarray, Lambda: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(g, q) probabilities and (g,) ln z."""
        exponents = self._exponents(beta, Lambda)
        peak = exponents.max(axis=1, keepdims=True)
        p = np.exp(exponents - peak)
        z = p.sum(axis=1, keepdims=True)
        return p / z, (peak + np.log(z))[:, 0]

    def state(self, beta: np.ndarray, Lambda: np.ndarray) -> GroupState:
        p, log_z = self._weights(beta, Lambda)
        m = np.einsum("gq,gqr->gr", p, self.phi)
        y = self.phi - m[:, None]
        L = _factor(np.sqrt(p)[:, :, None] * y)
        products = y[:, :, self.a] * y[:, :, self.b]
        Q = np.einsum("gq,gqp->gp", p, self.Q)
        weighted = p[:, :, None] * products
        return GroupState(
            log_z=log_z,
            m=m,
            V=L @ transpose(L),
            L=L,
            Q=Q,
            third=transpose(weighted) @ y,
            m_L=transpose(p[:, :, None] * y) @ self.Q,
            V_L=transpose(weighted) @ (self.Q - Q[:, None]),
        )

    def mean(self, beta: np.ndarray, Lambda: np.ndarray) -> np.ndarray:
        return np.einsum("gq,gqr->gr", self._weights(beta, Lambda)[0], self.phi)

    def field_slope(self, m: np.ndarray) -> np.ndarray:
        """(g, r, P) ∂/∂Λ of Λm − ½Λ:G."""
        out = -self.G
        entries = np.arange(len(self.a))
        off = self.a != self.b
        out[:, self.a, entries] += m[:, self.b]
        out[:, self.b[off], entries[off]] += m[:, self.a[off]]
        return out

    def probabilities(self, beta: np.ndarray, Lambda: np.ndarray) -> list[np.ndarray]:
        return [row[:size] for row, size in zip(self._weights(beta, Lambda)[0], self.sizes)]


def _orthonormal(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """shift (r,), R (r, r) and φ (q, r), orthonormal under equal frequencies, with table = shift + φR."""
    shift = table.mean(axis=0)
    Q, R = np.linalg.qr(table - shift)
    root = np.sqrt(len(table))
    return shift, R / root, Q * root


def _factor(weighted: np.ndarray) -> np.ndarray:
    """(g, r, r) L with LLᵀ = YᵀY from (g, q, r) Y = √p (φ − m): small variances keep their digits beside large ones."""
    L = transpose(np.asarray(np.linalg.qr(weighted, mode="r"))).copy()
    r = np.arange(L.shape[1])
    diagonal = L[:, r, r]
    L *= np.where(diagonal < 0, -1.0, 1.0)[:, None, :]
    L[:, r, r] = np.maximum(np.abs(diagonal), _TINY)
    return L
