"""Maximum likelihood beyond enumeration: Boltzmann learning with a natural gradient, from persistent Gibbs chains.

    θ ← θ + H⁻¹ (t̄ − ⟨t⟩_chains − ridge θ),     H = F + ridge,     F = Cov(t) over the chains

First the chains follow θ, step by step, until the gradient is all noise. Then θ is the average of what each further
batch of draws would make of it by one Newton step with H fixed: its Monte Carlo covariance is F⁻¹ over the effective
number of draws, which grows until that is a small part of the sampling covariance F⁻¹/M of the data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from hbm_learn import linalg
from hbm_learn._kernels.conditional import monomials
from hbm_learn._kernels.quadratic import coordinate_descent
from hbm_learn._validation import seed_sequence
from hbm_learn.inversion.likelihood.target import Target
from hbm_learn.inversion.result import Fit
from hbm_learn.sampling.chains import Chains, widths

# Monte Carlo variance of the estimate at which to stop, relative to its sampling variance: errors grow by half of it.
MONTE_CARLO = 0.05
# F and its factor are dense up to this many parameters.
MAX_PARAMETERS = 6000
# Chains, in groups whose spread tells the Monte Carlo error whatever the correlation in time.
CHAINS, GROUPS = 4096, 32
# Sweeps after a change of θ, and between draws.
BURN_IN, THIN = 10, 5
# Steps of the approach at most; draws for each parameter behind an estimate of F; draws of a chain in a batch at most.
MAX_APPROACH, DRAWS, BATCH = 40, 4, 256

_ASTRAY = (
    f"not converged: in {MAX_APPROACH} steps the chains' moments did not come to the data's within Monte Carlo error, "
    "as when the likelihood has no finite maximum or the chains are stuck; raise alpha, or use "
    'refine="pseudolikelihood".'
)


@dataclass(frozen=True, eq=False)
class Batch:
    """Draws at one θ. ``groups`` (GROUPS, P) are means of t; ``second`` (P, P) is ⟨t t'⟩, if it was asked for."""

    groups: np.ndarray
    variance: np.ndarray
    second: np.ndarray | None
    n_draws: int

    @property
    def mean(self) -> np.ndarray:
        return self.groups.mean(axis=0)

    @property
    def fisher(self) -> np.ndarray:
        assert self.second is not None
        return self.second - np.outer(self.mean, self.mean)


class Walkers:
    """Persistent chains that measure ⟨t⟩ and Cov(t) of one model after another."""

    def __init__(self, target: Target, theta: np.ndarray, random_state: Any, n_jobs: int | None):
        self.target = target
        model = target.parameters.model(theta)
        self.chains = Chains(model, widths(CHAINS), seed_sequence(random_state), n_jobs=n_jobs)

    def measure(self, theta: np.ndarray, n_draws: int, burn_in: int, fisher: bool = False) -> Batch:
        """``n_draws`` of all chains, ``THIN`` sweeps apart, at θ."""
        P = len(theta)
        sums, squares = np.zeros((P, GROUPS)), np.zeros(P)
        second = np.zeros((P, P)) if fisher else None
        self.chains.set_model(self.target.parameters.model(theta))
        self.chains.advance(burn_in)
        for _ in range(n_draws):
            self.chains.advance(THIN)
            t = self._statistics()
            sums += t.reshape(P, GROUPS, -1).sum(axis=2, dtype=np.float64)
            squares += np.einsum("ij,ij->i", t, t)
            if second is not None:
                second += t @ t.T
        N = n_draws * CHAINS
        groups = sums.T * (GROUPS / N)
        return Batch(groups, squares / N - groups.mean(axis=0) ** 2, None if second is None else second / N, N)

    def _statistics(self) -> np.ndarray:
        """(P, CHAINS) t of each chain; float32 holds products of small integers exactly."""
        parameters, codes = self.target.parameters, self.chains.states()
        X = np.ascontiguousarray(self.chains.columns().T, dtype=np.float32)
        t = np.empty((len(self.target.t), X.shape[1]), dtype=np.float32)
        for i, O in enumerate(parameters.own):
            t[parameters.own_ptr[i] : parameters.own_ptr[i + 1]] = O.T[:, codes[:, i]]
        monomials(X, parameters.columns.members, parameters.columns.indptr, t[parameters.n_own :])
        return t


def fit(
    target: Target,
    starts: list[np.ndarray],
    *,
    max_iter: int = 100,
    random_state: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Fit:
    """The minimum of −L to within Monte Carlo error, from the best of some ``starts`` (P,)."""
    P = len(target.t)
    if P > MAX_PARAMETERS:
        raise ValueError(
            f'refine="likelihood" with more states than can be listed takes up to {MAX_PARAMETERS} parameters, '
            f'got {P}: use refine="pseudolikelihood", or fewer interactions (`fdr`, `interactions`).'
        )
    walkers = Walkers(target, starts[0], random_state, n_jobs)
    theta, n_steps = _approach(target, walkers, starts, verbose)
    result = _average(target, walkers, theta, max_iter, verbose)
    result = replace(result, n_iter=result.n_iter + n_steps)
    return replace(result, converged=False, status=_ASTRAY) if n_steps == MAX_APPROACH else result


def _approach(target: Target, walkers: Walkers, starts: list[np.ndarray], verbose: int) -> tuple[np.ndarray, int]:
    """Natural-gradient steps until the gradient is no larger than its Monte Carlo noise."""
    n_draws = max(2, ceil(DRAWS * len(target.t) / CHAINS))
    found = []
    for start in starts:
        batch = walkers.measure(start, n_draws, 5 * BURN_IN, fisher=True)
        found.append((*_step(target, start, batch), start, batch))
    size, step, theta, batch = min(found, key=lambda entry: entry[0])
    for n_steps in range(MAX_APPROACH + 1):
        noise = _inflation(batch) * len(theta) / batch.n_draws
        if verbose:
            print(f"approach {n_steps}: decrement {size:.3g}, of which noise {noise:.3g}", flush=True)
        if size < 3.0 * noise:  # one part from this batch, one from the batch that led here
            break
        if n_steps == MAX_APPROACH:
            break
        theta = theta + min(1.0, 1.0 / np.sqrt(size)) * step
        batch = walkers.measure(theta, n_draws, BURN_IN, fisher=True)
        size, step = _step(target, theta, batch)
    return theta, n_steps


def _step(target: Target, theta: np.ndarray, batch: Batch) -> tuple[float, np.ndarray]:
    """Newton decrement and step."""
    H = _curvature(target, batch)
    g = batch.mean + target.ridge * theta - target.t
    step = _minimum(H, g - H @ theta, target.lasso, theta) - theta
    return float(step @ H @ step), step


def _curvature(target: Target, batch: Batch) -> np.ndarray:
    """F + ridge. The inverse of a covariance of N draws is N/(N − P) too large; a t that stood still may yet move."""
    assert batch.second is not None
    H = batch.fisher
    H *= batch.n_draws / (batch.n_draws - len(H))
    H[np.diag_indices_from(H)] += target.ridge + np.diag(batch.second) / batch.n_draws
    return H


def _minimum(H: np.ndarray, b: np.ndarray, lasso: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """argmin_θ b·θ + ½ θ'Hθ + Σ lasso |θ|."""
    if not lasso.any():
        return -linalg.solve(linalg.factor(H), b)
    return theta + coordinate_descent(H, b + H @ theta, theta, lasso, 1e-10, 1000)


def _average(target: Target, walkers: Walkers, theta: np.ndarray, max_iter: int, verbose: int) -> Fit:
    """θ = argmin b̄·θ + ½ θ'Hθ + …, where b̄ averages g − Hθ over batches: stochastic Newton with steps 1/k."""
    P, M = len(theta), target.n_samples
    batch = walkers.measure(theta, max(4, ceil(4 * DRAWS * P / CHAINS)), BURN_IN, fisher=True)
    H = _curvature(target, batch)
    fisher, factored = H - np.diag(target.ridge), linalg.factor(H)
    total, N, b = np.zeros((GROUPS, P)), 0, np.zeros(P)
    for k in range(1, max_iter + 1):
        weight = batch.n_draws / (N + batch.n_draws)
        g = batch.mean + target.ridge * theta - target.t
        b += weight * (g - H @ theta - b)
        total, N = total + weight * (batch.groups - total), N + batch.n_draws
        theta = -linalg.solve(factored, b) if not target.lasso.any() else _minimum(H, b, target.lasso, theta)
        inflation = max(_inflation(Batch(total, np.diag(fisher), None, N)), 1.0)
        ratio = M * inflation / N
        if verbose:
            print(f"average {k}: {N} draws, {N / inflation:.0f} effective; Monte Carlo part {ratio:.3g}", flush=True)
        if ratio <= MONTE_CARLO or k == max_iter:
            break
        wanted = M * inflation / MONTE_CARLO / 20 / CHAINS  # 20 batches to the end
        batch = walkers.measure(theta, ceil(min(wanted, BATCH)) if np.isfinite(wanted) else 1, THIN)
    return target.fit(
        theta,
        fisher,
        monte_carlo=ratio if np.isfinite(ratio) else 0.0,
        converged=ratio <= MONTE_CARLO,
        status=_status(ratio, inflation),
        n_iter=k,
        residual=float(ratio),
    )


def _inflation(batch: Batch) -> float:
    """By how much correlation in time enlarges the variance of ⟨t⟩ over that of independent draws, averaged over t."""
    spread = batch.groups.var(axis=0, ddof=1) / GROUPS
    moving = batch.variance > 0
    return float(np.mean(spread[moving] * batch.n_draws / batch.variance[moving])) if moving.any() else np.inf


def _status(ratio: float, inflation: float) -> str:
    part = f"the Monte Carlo variance is {ratio:.2g} of the sampling variance"
    if ratio <= MONTE_CARLO:
        return f"converged: {part}."
    slow = f"; draws are correlated {inflation:.0f} times over, so the chains mix slowly" if inflation > 20 else ""
    return f'not converged: {part}{slow}; raise max_iter or alpha, or use refine="pseudolikelihood".'
