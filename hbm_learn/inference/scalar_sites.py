"""The site distributions of models with one column at each site, in well-conditioned coordinates.

    q_i(x) ∝ exp(θ_i(x) + β_i φ_i(x) + ½ Λ_i (φ_i(x) − t_i)²),   t_i the middle of the values of φ_i

is the paper's site distribution: for φ = x and θ = h x − d x²/2 it has b = h + β − tΛ, c = d − Λ. In (β, Λ) nothing is
lost when V → 0, and on two values, where (φ − t)² is constant, Λ drops out of the site.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hbm_learn.model import BoltzmannMachine
from hbm_learn.space import Alphabet
from hbm_learn.space.site_moments import SiteMoments, weighted_moments

# √V enters denominators; below this a site is frozen for every purpose in float64.
TINY = 1e-280


@dataclass(frozen=True)
class SiteState:
    """Moments of φ at the sites and their derivatives with respect to (β, Λ); all (n,).

    ∂m/∂β = V, ∂V/∂β = μ₃, ∂m/∂Λ = ``m_L`` = ½(μ₃ + 2(m − t)V), ∂V/∂Λ = ``V_L`` = ½(μ₄ − V² + 2(m − t)μ₃).
    ``log_z`` is ln Σ_x exp(θ + βφ + ½Λ(φ − t)²), ``y`` m − t.
    """

    beta: np.ndarray
    Lambda: np.ndarray
    log_z: np.ndarray
    m: np.ndarray
    y: np.ndarray
    V: np.ndarray
    mu3: np.ndarray
    m_L: np.ndarray
    V_L: np.ndarray

    @property
    def value(self) -> float:
        """Σ_i [ln z_i − β_i m_i − ½Λ_i⟨(φ_i − t_i)²⟩]: the entropies of the sites and their mean own weights."""
        return float(np.sum(self.log_z - self.beta * self.m - 0.5 * self.Lambda * (self.V + self.y**2)))


class Sites:
    """The sites of a model with one column, as functions of (β, Λ).

    Parameters
    ----------
    model : BoltzmannMachine
    chosen : (n,) array
        Which of the model's sites; all by default.

    Attributes
    ----------
    t, half : (n,) arrays
        Middle and half-width of the values of φ_i (0 and 1 on the real line).
    """

    def __init__(self, model: BoltzmannMachine, chosen: np.ndarray | None = None):
        space = model.space
        chosen = np.arange(space.n_features) if chosen is None else chosen
        self.n = self.n_columns = self.n_lambda = len(chosen)
        self._parts: list[_FiniteSites | _ContinuousSites] = []
        finite = np.flatnonzero(space.sizes[chosen])
        if finite.size:
            self._parts.append(_FiniteSites(model, chosen, finite))
        for alphabet, sites in [] if finite.size == self.n else space.by_alphabet:
            at = np.flatnonzero(np.isin(chosen, sites))
            if not alphabet.is_finite and at.size:
                self._parts.append(_ContinuousSites(model, chosen, at, alphabet))
        self.t, self.half = np.empty(self.n), np.empty(self.n)
        for part in self._parts:
            self.t[part.at], self.half[part.at] = part.t, part.half

    @property
    def weights(self) -> np.ndarray:
        """(2n,) weights of (β, Λ) that make the arclength a root mean square, free of the unit of φ."""
        return np.concatenate([self.half**2, self.half**4]) / (2 * self.n)

    def moments(self, beta: np.ndarray, Lambda: np.ndarray) -> SiteMoments:
        """Moments of φ at (β, Λ)."""
        if len(self._parts) == 1:
            return self._parts[0].moments(beta, Lambda)
        out = {name: np.empty(self.n) for name in ("log_z", "m", "V", "mu3", "mu4")}
        for part in self._parts:
            s = part.moments(beta[part.at], Lambda[part.at])
            for name, values in out.items():
                values[part.at] = getattr(s, name)
        return SiteMoments(**out)

    def state(self, beta: np.ndarray, Lambda: np.ndarray) -> SiteState | None:
        """Moments and derivatives at (β, Λ); None where the site has none (d ≤ Λ on the real line)."""
        if not all(part.is_valid(Lambda) for part in self._parts):
            return None
        s = self.moments(beta, Lambda)
        y, V = s.m - self.t, np.maximum(s.V, TINY)
        m_L = 0.5 * s.mu3 + y * V
        V_L = 0.5 * (s.mu4 - V * V) + y * s.mu3
        return SiteState(beta, Lambda, log_z=s.log_z, m=s.m, y=y, V=V, mu3=s.mu3, m_L=m_L, V_L=V_L)

    def mean(self, beta: np.ndarray, Lambda: np.ndarray) -> np.ndarray:
        """⟨φ⟩ at (β, Λ)."""
        return self.moments(beta, Lambda).m

    def times_V(self, M: np.ndarray, s: SiteState) -> np.ndarray:
        return M * s.V

    def whiten(self, M: np.ndarray, s: SiteState) -> np.ndarray:
        """√V M √V."""
        root = np.sqrt(s.V)
        return root[:, None] * M * root

    unwhiten = whiten

    def reaction_field(self, m: np.ndarray, Lambda: np.ndarray) -> np.ndarray:
        """(n,) Λ(m − t), so that β = F − this."""
        return Lambda * (m - self.t)

    def scaled(self, A: np.ndarray, s: SiteState, Lambda: np.ndarray) -> np.ndarray:
        """√V S √V = I + ΛV − √V A √V."""
        return np.diag(1.0 + Lambda * s.V) - self.whiten(A, s)

    def reaction(self, A: np.ndarray, X: np.ndarray, s: SiteState) -> np.ndarray:
        """(n,) Σ_k A_ik χ_ki / V_i for χ = √V X √V."""
        root = np.sqrt(s.V)
        return np.einsum("ik,ki->i", A * root, X) / root

    def mismatch(self, X: np.ndarray) -> float:
        """max |χ_ii/V_i − 1| for χ = √V X √V."""
        return float(np.abs(np.diagonal(X) - 1.0).max())

    def trace(self, s: SiteState, Lambda: np.ndarray) -> float:
        """Σ Λ_i V_i."""
        return float(Lambda @ s.V)

    # ------------------------------------------------------------------ what is reported

    def means(self, s: SiteState) -> np.ndarray:
        return s.m

    def variances(self, s: SiteState) -> np.ndarray:
        return s.V

    def covariances(self, chi: np.ndarray) -> np.ndarray:
        return chi

    def lambdas(self, s: SiteState) -> np.ndarray:
        return s.Lambda

    def size(self, s: SiteState) -> float:
        """The root mean square of m."""
        return float(np.sqrt(np.mean(s.m**2)))

    def probabilities(self, beta: np.ndarray, Lambda: np.ndarray) -> list[np.ndarray | None]:
        """q_i over the values of each site; None for a continuous one."""
        out: list[np.ndarray | None] = [None] * self.n
        for part in self._parts:
            if isinstance(part, _FiniteSites):
                for i, q in zip(part.at, part.probabilities(beta[part.at], Lambda[part.at])):
                    out[i] = q
        return out


class _FiniteSites:
    """Sites with tables, padded to the longest; what lies beyond a site's values has weight zero."""

    def __init__(self, model: BoltzmannMachine, chosen: np.ndarray, at: np.ndarray):
        self.at, sites = at, chosen[at]
        tables = [np.asarray(model.space.functions[i])[:, 0] for i in sites]
        self.sizes = model.space.sizes[sites]
        there = np.arange(int(self.sizes.max())) < self.sizes[:, None]
        values = np.repeat([[table[0]] for table in tables], there.shape[1], axis=1)
        self.theta = np.full(there.shape, -np.inf)
        values[there] = np.concatenate(tables)
        self.theta[there] = np.concatenate([np.asarray(model.own[i]) for i in sites])
        low, high = values.min(axis=1), values.max(axis=1)
        self.t, self.half = 0.5 * (low + high), 0.5 * (high - low)
        self.values = values[:1] if (values == values[0]).all() else values
        y = values - self.t[:, None]
        # (φ − t)² − half²: nothing at all on two values, so that a large Λ costs β no digits there.
        Q = y * y - self.half[:, None] ** 2
        Q[self.sizes == 2] = 0.0
        self.quadratic = Q if Q.any() else None

    def is_valid(self, Lambda: np.ndarray) -> bool:
        return True

    def _exponents(self, beta: np.ndarray, Lambda: np.ndarray) -> np.ndarray:
        """θ + βφ + ½Λ((φ − t)² − half²), (sites, q_max)."""
        out = beta[:, None] * self.values
        out += self.theta
        if self.quadratic is not None:
            out += (0.5 * Lambda)[:, None] * self.quadratic
        return out

    def moments(self, beta: np.ndarray, Lambda: np.ndarray) -> SiteMoments:
        s = weighted_moments(self.values, self._exponents(beta, Lambda))
        return replace(s, log_z=s.log_z + 0.5 * Lambda * self.half**2)

    def probabilities(self, beta: np.ndarray, Lambda: np.ndarray) -> list[np.ndarray]:
        exponents = self._exponents(beta, Lambda)
        q = np.exp(exponents - exponents.max(axis=1, keepdims=True))
        q /= q.sum(axis=1, keepdims=True)
        return [row[:size] for row, size in zip(q, self.sizes)]


class _ContinuousSites:
    """Sites of one interval, or of the real line: φ = x, θ = h x − d x²/2."""

    def __init__(self, model: BoltzmannMachine, chosen: np.ndarray, at: np.ndarray, alphabet: Alphabet):
        self.at, self.alphabet = at, alphabet
        self.h, self.d = model.h[chosen[at]], model.d[chosen[at]]
        low, high = alphabet.bounds
        is_real = alphabet.kind == "real"
        self.t = np.full(len(at), 0.0 if is_real else 0.5 * (low + high))
        self.half = np.full(len(at), 1.0 if is_real else 0.5 * (high - low))

    def is_valid(self, Lambda: np.ndarray) -> bool:
        return self.alphabet.kind != "real" or float((self.d - Lambda[self.at]).min()) > 0.0

    def moments(self, beta: np.ndarray, Lambda: np.ndarray) -> SiteMoments:
        s = self.alphabet.site_moments(self.h + beta - self.t * Lambda, self.d - Lambda)
        return replace(s, log_z=s.log_z + 0.5 * Lambda * self.t**2)
