"""Maximum likelihood beyond enumeration: Boltzmann learning with a natural gradient, from persistent Gibbs chains.

    θ ← θ + H⁻¹ (t̄ − ⟨t⟩_chains − ridge θ),     H = F + ridge,     F = Cov(t) over the chains

First the chains follow θ, step by step, from independence (or from a start whose chains agree) until the gradient is
all noise (``approach``). Then θ is the average of what each further batch of draws would make of it by one Newton step
with H fixed: its Monte Carlo covariance is F⁻¹ over the effective number of draws, which grows until that is a small
part of the sampling covariance F⁻¹/M of the data.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np

from hbm_learn import linalg
from hbm_learn._validation import seed_sequence
from hbm_learn.inversion.likelihood.approach import MAX_STEPS, Guard, approach, believable, lengths, maximum
from hbm_learn.inversion.likelihood.target import Target
from hbm_learn.inversion.likelihood.walkers import CHAINS, GROUPS, Batch, Walkers, covariance
from hbm_learn.inversion.result import Fit
from hbm_learn.sampling.chains import Chains, widths

# Monte Carlo variance of the estimate at which to stop, relative to its sampling variance: errors grow by half of it.
MONTE_CARLO = 0.05
# F and its factor are dense up to this many parameters.
MAX_PARAMETERS = 6000
# Sweeps between draws; draws for each parameter behind F; draws of a chain in a batch at most.
THIN, DRAWS, BATCH = 10, 16, 256
# Of the falling gains, see ``_average``: draws for each parameter that the start counts for, and how many times as many
# must follow.
GAIN, FIRST, FORGET = 2.0, 128, 4
# A batch whose Newton decrement is as large as this, in nats, shows that the chains have left for another phase.
LOST = 3.0
# Data rows that stand guard: as many, or as many for each parameter.
ROWS, ROWS_A_PARAMETER = 16_384, 4

_ASTRAY = (
    f"not converged: in {MAX_STEPS} steps the chains' moments did not come to the data's within Monte Carlo error, "
    "as when the likelihood has no finite maximum or the chains are stuck; raise alpha, or use "
    'refine="pseudolikelihood".'
)
_ENDLESS = (
    "the likelihood has no finite maximum: {} would grow for ever, as some combination of its values never occurs in "
    "the data; give alpha > 0: a prior keeps every coupling finite."
)


def fit(
    target: Target,
    starts: list[np.ndarray],
    *,
    rows: np.ndarray | None = None,
    max_iter: int = 100,
    random_state: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Fit:
    """The maximum of L to within Monte Carlo error.

    Parameters
    ----------
    target : Target
    starts : list of (P,) arrays
        The first, independence, is where to begin; a later one if its chains forget where they started and its moments
        are nearer the data's.
    rows : (R, n) array or None
        Codes of some data rows, each as often as its weight wants. Half of the chains start there, and a step may not
        move their weights too far, which keeps θ out of phases that the data do not have. Without them, chains start
        from independence and steps are held by the chains alone.
    max_iter : int
        Batches of draws at most.
    random_state, n_jobs
        Of the chains.
    verbose : int
        1 prints a line for each step.
    """
    P = len(target.t)
    if P > MAX_PARAMETERS:
        raise ValueError(
            f'refine="likelihood" with more states than can be listed takes up to {MAX_PARAMETERS} parameters, '
            f'got {P}: use refine="pseudolikelihood", or fewer interactions (`fdr`, `interactions`).'
        )
    seed = seed_sequence(random_state)
    guard = _guard(target, starts[0], rows, seed, n_jobs)
    theta, walkers = starts[0], None
    for start in starts[1:]:
        trial = Walkers(target.parameters, start, guard.rows, seed.spawn(1)[0], n_jobs)
        if believable(target, trial, start, guard):
            theta, walkers = start, trial
    if walkers is None:
        walkers = Walkers(target.parameters, theta, rows, seed.spawn(1)[0], n_jobs)
    theta, n_steps, arrived = approach(target, walkers, theta, guard, verbose)
    result = _average(target, walkers, theta, guard, max_iter if arrived else 1, verbose)
    result = replace(result, n_iter=result.n_iter + n_steps)
    endless = never_together(target)
    if endless is not None:
        status, found = _ENDLESS.format(target.label(endless)), result
        return replace(result, converged=False, status=status, make_whole=lambda: found.whole.without_free())
    return result if arrived else replace(result, converged=False, status=_ASTRAY)


def _guard(
    target: Target, independent: np.ndarray, rows: np.ndarray | None, seed: np.random.SeedSequence, n_jobs: int | None
) -> Guard:
    """Some of the rows, or draws without couplings where there are none."""
    wanted = max(ROWS, ROWS_A_PARAMETER * len(target.t))
    if rows is None:
        model = target.parameters.model(independent)
        return Guard.of(target, Chains(model, widths(wanted), seed.spawn(1)[0], n_jobs=n_jobs).states(), False)
    rng = np.random.default_rng(seed.spawn(1)[0])
    chosen = rng.permutation(len(rows))[:wanted]
    return Guard.of(target, rows[chosen], True)


def never_together(target: Target) -> int | None:
    """A pair of two-valued sites without a penalty, two of whose values never occur together; None if there is none.

    Chains that cannot tell rare from never would stop on the way to infinity, and call it the maximum.

        p(a, b) = ⟨(φ_i − φ_i(a'))(φ_j − φ_j(b'))⟩ / ((φ_i(a) − φ_i(a'))(φ_j(b) − φ_j(b'))),   a' the other value than a
    """
    parameters, space = target.parameters, target.parameters.space
    pairs = parameters.columns.block(2)
    free = (target.ridge + target.lasso)[parameters.n_own :][parameters.columns.slice(2)] == 0.0
    which = np.flatnonzero(free & (space.sizes[space.site[pairs]] == 2).all(axis=1))
    i, j = pairs[which].T
    m, t = target.t[parameters.column_params], target.t[parameters.n_own + parameters.columns.slice(2).start + which]
    values = space.padded[:, :2]
    smallest = np.full(len(which), np.inf)
    for a in (0, 1):
        for b in (0, 1):
            x, y = values[i, 1 - a], values[j, 1 - b]
            cell = (t - x * m[j] - y * m[i] + x * y) / ((values[i, a] - x) * (values[j, b] - y))
            smallest = np.minimum(smallest, cell)
    empty = np.flatnonzero(smallest < 1e-9)
    return int(parameters.n_own + parameters.columns.slice(2).start + which[empty[0]]) if len(empty) else None


def _average(target: Target, walkers: Walkers, theta: np.ndarray, guard: Guard, max_iter: int, verbose: int) -> Fit:
    """θ = argmax b·θ − ½ θ'Hθ − …,   b ← b + γ (g + Hθ − b),   γ = GAIN · draws of a batch / (all draws + first).

    Stochastic Newton with falling gains. The first are small: a full Newton step from one batch is noise of P/draws
    nats, which can throw θ across a barrier. GAIN > 1 forgets the start, as (first/all draws)^GAIN, and costs
    GAIN²/(2 GAIN − 1) in variance. F is measured again whenever the draws have doubled: it depends on θ most where θ is
    slow to arrive.
    """
    M, first, inflation = target.n_samples, max(CHAINS, FIRST * len(theta)), 1.0
    total, N, refreshed = np.zeros((GROUPS, len(theta))), 0, -first
    for k in range(1, max_iter + 1):
        if N - refreshed >= refreshed + first:
            fisher, refreshed = _fisher(target, walkers, theta), N
            H = fisher + np.diag(target.ridge)
            b, factored = H @ theta, linalg.factor(H)
        left = max(M * inflation / MONTE_CARLO, FORGET * first) - N
        n_draws = ceil(min((N + first) / 12, max(left, 1), BATCH * CHAINS) / CHAINS)
        batch = walkers.measure(theta, n_draws, 0, THIN)
        N += batch.n_draws
        g = target.t - batch.mean - target.ridge * theta
        if float(g @ linalg.solve(factored, g)) > LOST and not target.lasso.any():
            return replace(_result(target, theta, fisher, np.inf, k), converged=False, status=_ASTRAY)
        b += GAIN * batch.n_draws / (N + first) * (g + H @ theta - b)
        total += batch.n_draws / N * (batch.groups - total)
        step = maximum(H, b, target.lasso, theta, factored) - theta
        if guard.from_data and not target.lasso.any():
            short = lengths(target, step[None], g, walkers.chains.states(), guard)[0]
            if short < 1.0:  # F lacks what only a far phase varies in, and the step would lead there
                step *= short
                b = H @ (theta + step)
        theta = theta + step
        inflation = max(_inflation(Batch(total, N), np.diag(fisher)), 1.0) * GAIN**2 / (2.0 * GAIN - 1.0)
        ratio = M * inflation / N
        if verbose:
            print(f"average {k}: {N} draws, {N / inflation:.0f} effective; Monte Carlo part {ratio:.3g}", flush=True)
        if ratio <= MONTE_CARLO and FORGET * first <= N:
            break
    return _result(target, theta, fisher, ratio, k, inflation)


def _result(
    target: Target, theta: np.ndarray, fisher: np.ndarray, ratio: float, n_iter: int, inflation: float = 1.0
) -> Fit:
    """θ with its errors; ``ratio`` is the Monte Carlo variance over the sampling variance."""
    return target.fit(
        theta,
        fisher,
        monte_carlo=ratio if np.isfinite(ratio) else 0.0,
        converged=ratio <= MONTE_CARLO,
        status=_status(ratio, inflation),
        n_iter=n_iter,
        residual=float(ratio),
    )


def _fisher(target: Target, walkers: Walkers, theta: np.ndarray) -> np.ndarray:
    """Cov(t). The inverse of a covariance of N draws is N/(N − P) too large; a t that stood still may yet move."""
    P = len(theta)
    codes = walkers.draw(theta, max(2, ceil(DRAWS * P / CHAINS)), 0, THIN)
    mean, F = covariance(target.parameters, codes.reshape(-1, codes.shape[2]))
    N = codes.shape[0] * codes.shape[1]
    second = np.diag(F) + mean**2
    F *= N / (N - P)
    F[np.diag_indices_from(F)] += second / N
    return F


def _inflation(batch: Batch, variances: np.ndarray) -> float:
    """By how much correlation in time enlarges the variance of ⟨t⟩ over that of independent draws, averaged over t."""
    found = batch.inflation(variances)
    return float(found.mean()) if len(found) else np.inf


def _status(ratio: float, inflation: float) -> str:
    part = f"the Monte Carlo variance is {ratio:.2g} of the sampling variance"
    if ratio <= MONTE_CARLO:
        return f"converged: {part}."
    slow = f"; draws are correlated {inflation:.0f} times over, so the chains mix slowly" if inflation > 20 else ""
    return f'not converged: {part}{slow}; raise max_iter or alpha, or use refine="pseudolikelihood".'
