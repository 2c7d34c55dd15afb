"""Walkers: persistent Gibbs chains that measure ⟨t⟩ and Cov(t) of one θ after another.

    t(x) = (O_ik(x_i), Π_{c∈μ} φ_c(x)),     ⟨t⟩ over chains and time,     F = Cov(t)

Chains fall into groups that never meet: the spread between groups tells the Monte Carlo error of any average, whatever
the correlation in time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hbm_learn._kernels.conditional import monomials
from hbm_learn._kernels.gibbs import term_sums
from hbm_learn._validation import seed_sequence
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.sampling.chains import Chains
from hbm_learn.space import MISSING

# Chains, in groups whose spread tells the Monte Carlo error.
CHAINS, GROUPS = 8192, 32
# A group is a block: wider blocks than a sampler's own mean fewer calls, and few enough still share every thread.
LANES = [CHAINS // GROUPS] * GROUPS
# Data rows taken at most.
MAX_ROWS = 2**16
# Entries of t held at once.
_HELD = 2**24


@dataclass(frozen=True, eq=False)
class Batch:
    """Draws at one θ: (GROUPS, P) means of t in each group of chains, and the number of draws in all."""

    groups: np.ndarray
    n_draws: int

    @property
    def mean(self) -> np.ndarray:
        """(P,) ⟨t⟩."""
        return self.groups.mean(axis=0)

    def inflation(self, variances: np.ndarray) -> np.ndarray:
        """By how much correlation in time enlarges the variance of each ⟨t⟩ over that of independent draws.

        Parameters
        ----------
        variances : (P,) array
            Of t under the model; what stands still is left out.
        """
        spread = self.groups.var(axis=0, ddof=1) / len(self.groups)
        moving = variances > 0
        return spread[moving] * self.n_draws / variances[moving]


class Walkers:
    """Persistent chains of one model after another.

    Parameters
    ----------
    parameters : Parameters
        What θ and t are.
    theta : (P,) array
        Of the first model.
    rows : (R, n) array or None
        Codes of data rows, from which the chains of even groups start; the others, or all without rows, start from
        draws without couplings. Two kinds of start that do not meet show a second phase.
    random_state, n_jobs
        Of the chains.
    """

    def __init__(
        self, parameters: Parameters, theta: np.ndarray, rows: np.ndarray | None, random_state: Any, n_jobs: int | None
    ):
        self.parameters = parameters
        seed = seed_sequence(random_state)
        model = parameters.model(theta)
        initial = None
        if rows is not None:
            rng = np.random.default_rng(seed.spawn(1)[0])
            initial = Chains(model, LANES, seed.spawn(1)[0], n_jobs=n_jobs).states()
            from_data = np.arange(CHAINS) // (CHAINS // GROUPS) % 2 == 0
            initial[from_data] = rows[rng.integers(len(rows), size=int(from_data.sum()))]
        self.chains = Chains(model, LANES, seed, initial, n_jobs)

    def draw(self, theta: np.ndarray, n_draws: int, burn_in: int, thin: int) -> np.ndarray:
        """(n_draws, CHAINS, n) codes at θ, after ``burn_in`` sweeps."""
        self.chains.set_model(self.parameters.model(theta))
        self.chains.advance(burn_in)
        return self.chains.draw(n_draws, thin)

    def measure(self, theta: np.ndarray, n_draws: int, burn_in: int, thin: int) -> Batch:
        """Means of t in each group, over ``n_draws`` of all chains."""
        self.chains.set_model(self.parameters.model(theta))
        self.chains.advance(burn_in)
        total = np.zeros((GROUPS, self.parameters.n_params))
        for _ in range(n_draws):
            self.chains.advance(thin)
            total += group_means(self.parameters, self.chains.states())
        return Batch(total / n_draws, n_draws * CHAINS)


def data_rows(samples: Samples, random_state: Any = None) -> np.ndarray | None:
    """(R, n) codes of rows without missing cells, each as often as its weight wants; None if there are none.

    Parameters
    ----------
    samples : Samples
        On finite variables.
    random_state : None, int, SeedSequence, Generator or RandomState
        Draws the rows, where there are weights or more than ``MAX_ROWS`` of them.
    """
    codes, weights = samples.some(MAX_ROWS, random_state)
    complete = np.flatnonzero(~(codes == MISSING).any(axis=1))
    w = None if weights is None else weights[complete]
    if not len(complete) or (w is not None and not w.any()):
        return None
    if w is None and len(complete) <= MAX_ROWS:
        return codes[complete]
    rng = np.random.default_rng(seed_sequence(random_state))
    p = None if w is None else w / w.sum()
    return codes[complete[rng.choice(len(complete), MAX_ROWS, p=p)]]


def group_means(parameters: Parameters, codes: np.ndarray) -> np.ndarray:
    """(GROUPS, P) means of t over consecutive, equal groups of (rows, n) codes. Pairs are matrix products."""
    X, columns = parameters.space.columns(codes), parameters.columns
    size = len(codes) // GROUPS
    pairs, first = columns.block(2), columns.slice(2).stop
    out = np.empty((GROUPS, parameters.n_params))
    for g, mine in enumerate(np.split(np.arange(size * GROUPS), GROUPS)):
        for i, O in enumerate(parameters.own):
            counts = np.bincount(codes[mine, i], minlength=len(O))
            out[g, parameters.own_ptr[i] : parameters.own_ptr[i + 1]] = counts @ O
        Y = X[mine]
        out[g, parameters.n_own : parameters.n_own + len(pairs)] = (Y.T @ Y)[pairs[:, 0], pairs[:, 1]]
        if len(columns) > first:
            rest = columns.indptr[first:]
            out[g, parameters.n_own + first :] = term_sums(np.ascontiguousarray(Y.T), rest, columns.members)
    return out / size


def statistics(parameters: Parameters, codes: np.ndarray) -> np.ndarray:
    """(P, rows) t of (rows, n) codes, in single precision."""
    t = np.empty((parameters.n_params, len(codes)), dtype=np.float32)
    for i, O in enumerate(parameters.own):
        if O.shape[1]:  # what is given has no functions of its own
            x = codes[:, i].astype(np.uint8, copy=False)
            t[parameters.own_ptr[i] : parameters.own_ptr[i + 1]] = O.T.astype(np.float32)[:, x]
    X = np.ascontiguousarray(parameters.space.columns(codes, np.float32).T)
    monomials(X, parameters.columns.members, parameters.columns.indptr, t[parameters.n_own :])
    return t


def statistics_blocks(parameters: Parameters, codes: np.ndarray) -> Iterator[np.ndarray]:
    """t of consecutive rows, as many at a time as fit."""
    step = max(1, _HELD // parameters.n_params)
    for lo in range(0, len(codes), step):
        yield statistics(parameters, codes[lo : lo + step])


def project(parameters: Parameters, codes: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """(k, rows) direction·t of (rows, n) codes, for (k, P) directions."""
    narrow = directions.astype(np.float32)
    return np.hstack([narrow @ t for t in statistics_blocks(parameters, codes)]).astype(np.float64)


def covariance(parameters: Parameters, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(P,) mean and (P, P) covariance of t over (rows, n) codes."""
    P = parameters.n_params
    centre = statistics(parameters, codes[:1024]).mean(axis=1, dtype=np.float64)
    shift, total, second = centre.astype(np.float32)[:, None], np.zeros(P), np.zeros((P, P))
    for t in statistics_blocks(parameters, codes):
        t -= shift  # so that single precision loses nothing
        total += t.sum(axis=1, dtype=np.float64)
        second += t @ t.T
    mean = total / len(codes)
    second /= len(codes)
    second -= np.outer(mean, mean)
    return mean + shift[:, 0], second
