"""The likelihood of x given z: one ln Z for each distinct pattern g of the given variables, with weight w_g.

    L(θ) = θ·t̄ − Σ_g w_g ln Z(θ_g),     θ_g = S (a_g ∘ θ),     a_gμ = Π_{c∈μ given} φ_c(z_g)

θ_g are the parameters of the model with z_g put in: S adds up the couplings that agree in their modelled columns, and
those with one such column fall on its field. So ⟨t⟩ = Σ_g w_g a_g ∘ Sᵀ⟨t⟩_g and F = Σ_g w_g a_g a_gᵀ ∘ Sᵀ F_g S.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hbm_learn.data.given import given_patterns
from hbm_learn.data.samples import Samples
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.states import StateTable


@dataclass(frozen=True, eq=False)
class Patterns:
    """The patterns of given values in data, and what they make of the parameters.

    Attributes
    ----------
    reduced : Parameters
        Of the modelled variables alone.
    index : (P,) array
        Which of them each parameter falls on.
    factors : (G, P) array
        a_g.
    weights : (G,) array
        w_g, of sum 1.
    """

    reduced: Parameters
    index: np.ndarray
    factors: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, samples: Samples, parameters: Parameters) -> Patterns:
        codes, weights = given_patterns(samples)
        space, n_own = parameters.space, parameters.n_own
        given = space.given[space.site]
        phi = np.where(given, space.columns(codes), 1.0)
        place = np.cumsum(~given) - 1
        factors, rows = [np.ones((len(codes), n_own))], []
        for block in (parameters.columns.block(k) for k in parameters.columns.orders):
            factors.append(phi[:, block].prod(axis=2))
            inside = ~given[block]
            rows += [place[row[here]] for row, here in zip(block, inside)]
        frequencies = [parameters.frequencies[i] for i in np.flatnonzero(~space.given)]
        distinct = sorted({tuple(row.tolist()) for row in rows if len(row) > 1}, key=lambda mu: (len(mu), mu))
        columns = Interactions.from_sorted(distinct, space.modelled.n_columns)
        reduced = Parameters(space.modelled, columns, parameters.site, frequencies)
        number = {mu: reduced.n_own + r for r, mu in enumerate(distinct)}
        number |= {(c,): int(r) for c, r in enumerate(reduced.column_params)}
        index = np.array([*range(n_own), *(number[tuple(row.tolist())] for row in rows)], dtype=np.intp)
        return cls(reduced, index, np.concatenate(factors, axis=1), weights / weights.sum())

    def at(self, theta: np.ndarray) -> GivenTables:
        """All that the likelihood asks of the model at θ; ValueError where its energies exceed float64."""
        return GivenTables(self, theta)


class GivenTables:
    """One table of states for each pattern, with the averages of a single ``StateTable``."""

    def __init__(self, patterns: Patterns, theta: np.ndarray):
        self.patterns = patterns
        n = patterns.reduced.n_params
        self.tables = [
            StateTable(patterns.reduced.model(np.bincount(patterns.index, a * theta, minlength=n)))
            for a in patterns.factors
        ]

    @cached_property
    def log_partition(self) -> float:
        """Σ_g w_g ln Z_g."""
        return float(self.patterns.weights @ [table.log_partition for table in self.tables])

    def statistics(self, parameters: Parameters) -> np.ndarray:
        """⟨t⟩, shape (P,)."""
        p = self.patterns
        out = np.zeros(parameters.n_params)
        for w, a, table in zip(p.weights, p.factors, self.tables):
            out += w * a * table.statistics(p.reduced)[p.index]
        return out

    def fisher(self, parameters: Parameters) -> np.ndarray:
        """F = Σ_g w_g Cov_g(t), shape (P, P)."""
        p = self.patterns
        out = np.zeros((parameters.n_params, parameters.n_params))
        for w, a, table in zip(p.weights, p.factors, self.tables):
            F = table.fisher(p.reduced)[np.ix_(p.index, p.index)]
            F *= w * a
            F *= a[:, None]
            out += F
        return out
