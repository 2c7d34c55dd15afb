"""What to believe of a fit: intervals, tests with false-discovery control, and a word on trust."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from hbm_learn.interactions import Interactions
from hbm_learn.inversion.result import InversionResult

if TYPE_CHECKING:
    pass


def intervals(result: InversionResult, level: float = 0.95) -> np.ndarray:
    """J_μ ± z · standard error, shape (p, 2)."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level={level!r}: give a probability between 0 and 1, such as 0.95.")
    half = stats.norm.ppf(0.5 + 0.5 * level) * result.standard_errors
    return result.model.weights[:, None] + np.array([-1.0, 1.0]) * half[:, None]


@dataclass(frozen=True, eq=False)
class Tests:
    """Of each interaction: is J_μ = 0? All (p,); q-values are Benjamini–Hochberg within each order."""

    interactions: Interactions
    z: np.ndarray
    p_values: np.ndarray
    q_values: np.ndarray

    @classmethod
    def of(cls, result: InversionResult) -> Tests:
        """z = J_μ / sampling error, which is N(0, 1) when J_μ = 0."""
        interactions, errors = result.model.packed, result.sampling_errors
        weights = result.model.weights
        z = np.divide(weights, errors, out=np.zeros_like(weights), where=errors > 0)
        p = 2.0 * stats.norm.sf(np.abs(z))
        q = np.ones_like(p)
        for k in interactions.orders:
            where = interactions.slice(k)
            q[where] = stats.false_discovery_control(p[where])
        return cls(interactions, z, p, q)

    def at(self, interactions: Interactions) -> Tests:
        """The same tests for some of the interactions."""
        where = self.interactions.positions(interactions)
        return Tests(interactions, self.z[where], self.p_values[where], self.q_values[where])

    def select(self, level: float) -> Interactions:
        """The interactions with q ≤ level, with all subsets of them."""
        if not 0.0 < level < 1.0:
            raise ValueError(f"fdr={level!r}: give a false-discovery rate between 0 and 1, such as 0.05.")
        found = self.q_values <= level
        blocks = [self.interactions.block(k)[found[self.interactions.slice(k)]] for k in self.interactions.orders]
        return Interactions.from_blocks(blocks, self.interactions.n_features).closure()
