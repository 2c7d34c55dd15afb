"""Annealed importance sampling of the partition function (Neal 2001).

    ln Z = ln Z_0 + ln ⟨w⟩,   ln w = Σ_k (α_{k+1} − α_k) E(x_k),   x_k after a Gibbs sweep at α_k

E(x) = Σ_μ J_μ Π_{c∈μ} φ_c(x). The path leads from the model without couplings (α = 0), whose ln Z_0 is a sum over
sites, to the model (α = 1). ⟨w⟩ is unbiased for Z/Z_0 whatever the number of steps; more steps make it less variable.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp

from hbm_learn import gaussian
from hbm_learn._kernels import gibbs as kernels
from hbm_learn._validation import check_integer, seed_sequence
from hbm_learn.model import BoltzmannMachine
from hbm_learn.sampling.chains import Block, Chains, widths


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
        From the spread of the weights. Near 1, few chains carry the estimate: raise n_steps.
    """
    n_chains, n_steps = check_integer("n_chains", n_chains, 2), check_integer("n_steps", n_steps, 1)
    if model.space.is_real:
        return gaussian.moments(model).log_partition, 0.0
    chains = Chains(model, widths(n_chains), seed_sequence(random_state), n_jobs=n_jobs)
    return estimate(model, anneal(chains, n_steps))


def anneal(chains: Chains, n_steps: int) -> np.ndarray:
    """(n_chains,) ln w of chains that stand at draws from α = 0; they end at α = 1."""
    schedule = np.linspace(0.0, 1.0, n_steps + 1)
    log_w = np.zeros(chains.n_chains)

    def step(block: Block, start: int, stop: int) -> None:
        mine = log_w[block.first : block.first + block.X.shape[1]]
        lanes = (block.X, block.S, block.state, block.alpha)
        kernels.anneal(*lanes, chains.sites, chains.couplings, schedule, start, stop, mine)

    chains.drive([partial(step, block) for block in chains.blocks], n_steps)
    return log_w


def estimate(model: BoltzmannMachine, log_w: np.ndarray) -> tuple[float, float]:
    """ln Z_0 + ln ⟨w⟩, and sd(w)/(⟨w⟩ √N)."""
    peak = log_w.max()
    w = np.exp(log_w - peak)
    return log_independent(model) + float(peak + np.log(w.mean())), float(w.std(ddof=1) / (w.mean() * np.sqrt(len(w))))


def log_independent(model: BoltzmannMachine) -> float:
    """ln Z_0 = Σ_i ln Σ_x exp θ_i(x), of the model without its couplings."""
    total = 0.0
    for i, (alphabet, table) in enumerate(zip(model.space.alphabets, model.own)):
        log_z = alphabet.site_moments(model.h[i], model.d[i]).log_z if table is None else logsumexp(table)
        total += float(log_z)
    return total
