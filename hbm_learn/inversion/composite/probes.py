"""Errors of more parameters than matrices can hold: those of independent variables, corrected by random draws.

    y = H⁻¹ Σ_rows ±w s        has the sampling covariance H⁻¹ V H⁻¹
    y = H⁻¹ √(ridge · c/M) ξ   has what the prior adds to it

A few draws say nothing of one entry, but of a factor for each site and order, shared by many entries, they say enough:
the factors are those of Var(θ_μ) ≈ base_μ c_|μ| Π_{i∈μ} r_i that fit all y² best.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from hbm_learn._validation import generator
from hbm_learn.data.chunks import Chunks
from hbm_learn.data.rows import Block
from hbm_learn.inversion.composite.objective import HessianProducts, Objective, scaled
from hbm_learn.inversion.composite.sums import Composite
from hbm_learn.optimise.newton_cg import conjugate_gradients

# Draws for each site's factor, of a rough fit those that want a solution, and the weight of its prior; and of a rough
# fit for the mean over each order.
_SITE_DRAWS, _ROUGH_DRAWS = 1500, 750
_PRIOR_DRAWS = 200.0
_ORDER_DRAWS = 10_000
# The step at which the factors have settled: far below what the draws tell.
_SETTLED = 1e-3


class Probes:
    """Random draws of errors at a minimum.

    Parameters
    ----------
    objective : Objective
        With its ridge.
    theta : (P,) array
        The minimum.
    random_state : int or None
    rough : bool
        Fewer solutions, where couplings are many: a start for something better.
    """

    def __init__(self, objective: Objective, theta: np.ndarray, random_state: Any = None, rough: bool = False):
        self.composite, self.ridge, self.theta = objective.composite, objective.ridge, theta
        self.H = HessianProducts(objective, theta)
        columns_an_entry = self.composite.map.n_fields / len(self.composite.map.column)
        self.n_scores = int(np.clip(np.ceil(_SITE_DRAWS * columns_an_entry), 2, 12))
        self.n_draws = self.n_scores
        if rough:
            columns = self.composite.parameters.columns
            fewest = min((len(columns.block(k)) for k in columns.orders), default=1)
            wanted = max(_ROUGH_DRAWS * columns_an_entry, _ORDER_DRAWS / fewest)
            self.n_draws = min(self.n_scores, int(np.ceil(wanted)))
        # A prior makes some directions stiff, and soft ones must be right before these can be.
        self._rtol = (0.02 if rough else 0.01) if self.ridge.any() else 0.05
        self.rng = generator(random_state)

    def solve(self, b: np.ndarray) -> np.ndarray:
        """H⁻¹ b."""
        return conjugate_gradients(self.H.product, b, self.H.precondition, self._rtol, 100)[0]

    def sampling(self) -> np.ndarray:
        """(draws, P) with the sampling covariance."""
        return np.array([self.solve(each) for each in self.scores[: self.n_draws]])

    @cached_property
    def scores(self) -> np.ndarray:
        """(scores, P) with the covariance V of the mean score."""
        return np.array([self._score() for _ in range(self.n_scores)])

    def shrunk(self, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(draws, P) couplings g drawn from the prior of precisions α, and what a fit makes of them.

        That is u = H⁻¹ (H − ridge) g, where g − u is H⁻¹ √(ridge · c/M) ξ. So the little is seen well that is left of
        an order which the prior all but switches off.
        """
        given = np.divide(1.0, np.sqrt(alpha), out=np.zeros_like(alpha), where=alpha > 0)
        g = given * self.rng.choice([-1.0, 1.0], (self.n_draws, len(given)))
        return g, np.array([self.solve(self.H.product(each) - self.ridge * each) for each in g])

    def free(self, x: np.ndarray) -> np.ndarray:
        """One Newton step without the prior, by the approximate inverse, from an estimate or a draw."""
        return x + self.H.precondition(self.ridge * x, prior=False)

    def variances(self, draws: np.ndarray, base: np.ndarray) -> np.ndarray:
        """(P,) of draws (draws, P), from those of independent variables."""
        return base * site_factors(self.composite, np.mean(draws**2, axis=0) / base, self.n_draws)

    def by_order(self, values: np.ndarray) -> np.ndarray:
        """(P,) means over each order of couplings: what single entries say is noise."""
        out, columns, n_own = values.copy(), self.composite.parameters.columns, self.composite.parameters.n_own
        for mine in (out[n_own:][columns.slice(k)] for k in columns.orders):
            mine[...] = mine.mean()
        return out

    def _score(self) -> np.ndarray:
        """Σ_rows ±w s over the rows of H, with random signs: its covariance is V (for scores that average to zero)."""
        composite, rng = self.composite, self.rng
        at, M = composite.at(self.theta), composite.rows.n_samples
        shares = with_signs(self.H.shares, rng)

        def work(task: tuple[Block, np.ndarray]) -> tuple[np.ndarray, ...]:
            part, signs = task
            weights = (signs * np.sqrt(part[1] / M)).astype(composite.dtype)
            return composite.slopes(replace(composite.evaluate(part, at, second=False), weights=weights))

        found = composite.site_sums(*composite.over_shares(work, shares))
        return composite.to_params(*scaled(composite, found, composite.scale(self.H.losses)))


def with_signs(shares: list[list[Any]] | Chunks, rng: np.random.Generator) -> list[list[Any]] | Chunks:
    """(part, signs) for every part that is held: random ones, drawn where the parts are."""
    if isinstance(shares, Chunks):
        seeds = rng.integers(2**63, size=len(shares.sizes)).tolist()
        return (
            shares.then(lambda share: (share,))
            .beside(seeds)
            .then(lambda both: _signed(both[0], np.random.default_rng(both[1])))
        )
    return [_signed(share, rng) for share in shares]


def _signed(share: list[Any], rng: np.random.Generator) -> list[Any]:
    return [(part, rng.choice([-1.0, 1.0], len(part[1]))) for part, _ in share]


def site_factors(composite: Composite, ratio: np.ndarray, n_draws: int) -> np.ndarray:
    """(P,) c_k Π_{i∈μ} r_i around which the ratios scatter as means of ``n_draws`` χ²₁: one c for each order, for the
    fields and for the extras.

    Every r_i has the weight of _PRIOR_DRAWS draws at 1, so that it stays near 1 for a site with few interactions.
    """
    parameters, outputs = composite.parameters, composite.outputs
    site, columns = parameters.space.site, parameters.columns
    first = np.arange(parameters.n_own, parameters.n_params)
    # which parameters, and the sites of each
    groups = [(parameters.column_params, parameters.field_site[:, None])]
    groups += [(first[columns.slice(k)], site[columns.block(k)]) for k in columns.orders]
    if outputs.n_extras:
        groups.append((outputs.extra_params, outputs.extra_site[:, None]))
    n = composite.n_features
    degree = np.bincount(np.concatenate([sites.ravel() for _, sites in groups]), minlength=n)
    r, fitted = np.ones(n), np.ones(len(ratio))
    for _ in range(20):
        excess = np.zeros(n)
        for where, sites in groups:
            product = np.prod(r[sites], axis=1)
            mine = product * np.mean(ratio[where] / product)
            fitted[where] = mine
            excess += np.bincount(sites.ravel(), np.repeat(ratio[where] / mine, sites.shape[1]), minlength=n)
        step = np.sqrt((excess * n_draws + _PRIOR_DRAWS) / (degree * n_draws + _PRIOR_DRAWS))
        r *= step
        if np.abs(step - 1.0).max() < _SETTLED:
            break
    return fitted
