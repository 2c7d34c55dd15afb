"""Annealed importance sampling of the partition function (Neal 2001).

    ln Z = ln Z_0 + ln ⟨w⟩,   ln w = Σ_k (α_{k+1} − α_k) E(x_k),   x_k after a Gibbs sweep at α_k

E(x) = Σ_μ J_μ Π_{c∈μ} φ_c(x). The path leads from the model without couplings (α = 0), whose ln Z_0 is a sum over
sites, to the model (α = 1). ⟨w⟩ is unbiased for Z/Z_0 whatever the number of steps; more steps make it less variable.

The path misses a phase that appears beside it at some α (a first-order transition), and then the weights agree on the
part of Z that they saw. Chains that start far away at α = 1 and are annealed back give ln Z of the phase they are in:

    ln Z_B = ln Z_0 − ln ⟨w⟩,   ln w = Σ_k (α_{k+1} − α_k) E(x_k),   α from 1 to 0
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

from hbm_learn import gaussian
from hbm_learn._kernels import gibbs as kernels
from hbm_learn._validation import check_integer, seed_sequence
from hbm_learn.model import BoltzmannMachine
from hbm_learn.sampling.chains import FAR_KINDS, Block, Chains, far_states, widths

# Chains from far states, sweeps before they are annealed back, and steps on the way.
FAR_CHAINS, FAR_SWEEPS, FAR_STEPS = 48, 300, 1000
# A phase was missed if it holds more by so many errors, and so many nats.
SURE, SLACK = 5.0, 0.2


def log_partition(
    model: BoltzmannMachine,
    n_chains: int = 128,
    n_steps: int = 1000,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> tuple[float, float]:
    """(ln Z, its standard error); a "real" model has the closed form and error 0.

    Parameters
    ----------
    model : BoltzmannMachine
    n_chains : int
        Independent chains, at least 2, one weight each.
    n_steps : int
        Steps of α from 0 to 1, with one sweep at each.
    random_state : None, int, SeedSequence, Generator or RandomState
    n_jobs : int
        Threads; None is as many as there are cores.

    Returns
    -------
    log_partition : float
        The estimate of ln Z.
    standard_error : float
        From the spread of the weights of independent chains. If chains from far states are in a phase that these have
        missed, what it could add to ln Z at most: a ConvergenceWarning says so. Near 1, few chains carry the estimate:
        raise n_steps.
    """
    n_chains, n_steps = check_integer("n_chains", n_chains, 2), check_integer("n_steps", n_steps, 1)
    if model.space.is_real:
        return gaussian.moments(model).log_partition, 0.0
    seed = seed_sequence(random_state)
    chains = Chains(model, widths(n_chains), seed, n_jobs=n_jobs)
    log_w = anneal(chains, n_steps)
    log_z, error = estimate(model, log_w)
    far = log_far(model, seed.spawn(1)[0], n_jobs)
    return log_z, with_missed(log_z, error, far, 0.5 * float(log_w.var()))


def with_missed(log_z: float, error: float, far: tuple[float, float, float], lost: float = 0.0) -> float:
    """The error of ln Z, given (ln Z, its error, what was lost) from far states: with a warning, where these hold more.

    ``lost`` is what annealing at a finite rate takes from ln Z, about ½ Var(ln w), and adds to it on the way back:
    so far apart the two are without any phase.
    """
    gap = far[0] - log_z
    if gap <= SURE * np.hypot(error, far[1]) + SLACK + 2.0 * (lost + far[2]):
        return error
    missed = float(np.logaddexp(0.0, gap))
    warnings.warn(
        f"ln Z may be up to {missed:.2g} larger than {log_z:.3f}, far beyond the spread {error:.2g} of the weights: "
        "chains that start in far states are in a phase that annealing from independence has missed, as where two "
        'phases coexist; raise n_steps, or use method "exact" where states can be listed.',
        ConvergenceWarning,
        stacklevel=3,
    )
    return missed


def log_far(
    model: BoltzmannMachine, seed: np.random.SeedSequence, n_jobs: int | None = None
) -> tuple[float, float, float]:
    """The largest ln Z, with its error and ½ Var(ln w), of phases that chains from far states are in.

    They are annealed back to α = 0.

    Where all states are of one phase it is ln Z; it is too large rather than too small where the way back is not slow
    enough.
    """
    starts = far_states(model.space, FAR_CHAINS, np.random.default_rng(seed.spawn(1)[0]))
    chains = Chains(model, widths(FAR_CHAINS), seed, starts, n_jobs)
    chains.advance(FAR_SWEEPS)
    log_w = anneal(chains, FAR_STEPS, back=True)
    kinds = [log_w[k::FAR_KINDS] for k in range(FAR_KINDS)]
    found = [(*_log_mean(each), 0.5 * float(each.var())) for each in kinds]
    return max((log_independent(model) - mean, error, lost) for mean, error, lost in found)


def anneal(chains: Chains, n_steps: int, back: bool = False) -> np.ndarray:
    """(n_chains,) ln w of chains that stand at draws from α = 0 and end at α = 1; from 1 to 0, if it goes back."""
    schedule = np.linspace(0.0, 1.0, n_steps + 1)
    if back:
        schedule = schedule[::-1].copy()
    log_w = np.zeros(chains.n_chains)

    def step(block: Block, start: int, stop: int) -> None:
        mine = log_w[block.first : block.first + block.X.shape[1]]
        lanes = (block.X, block.S, block.state, block.alpha)
        kernels.anneal(*lanes, chains.sites, chains.couplings, schedule, start, stop, mine)

    chains.drive([partial(step, block) for block in chains.blocks], n_steps)
    return log_w


def estimate(model: BoltzmannMachine, log_w: np.ndarray) -> tuple[float, float]:
    """ln Z_0 + ln ⟨w⟩, and sd(w)/(⟨w⟩ √N)."""
    mean, error = _log_mean(log_w)
    return log_independent(model) + mean, error


def _log_mean(log_w: np.ndarray) -> tuple[float, float]:
    """ln ⟨w⟩ and sd(w)/(⟨w⟩ √N)."""
    peak = log_w.max()
    w = np.exp(log_w - peak)
    return float(peak + np.log(w.mean())), float(w.std(ddof=1) / (w.mean() * np.sqrt(len(w))))


def log_independent(model: BoltzmannMachine) -> float:
    """ln Z_0 = Σ_i ln Σ_x exp θ_i(x), of the model without its couplings."""
    total = 0.0
    for i, (alphabet, table) in enumerate(zip(model.space.alphabets, model.own)):
        log_z = alphabet.site_moments(model.h[i], model.d[i]).log_z if table is None else logsumexp(table)
        total += float(log_z)
    return total
