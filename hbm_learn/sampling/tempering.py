"""Replica exchange (parallel tempering) in the strength α of the couplings.

    P_α(x) ∝ exp(Σ_i θ_i(x_i) + α E(x)),   E(x) = Σ_μ J_μ Π_{c∈μ} φ_c(x),   0 = α_0 < … < α_{R−1} = 1

One chain is a ladder of R replicas. At α = 0 a sweep is an independent draw, so every trip of a replica down and up the
ladder brings a fresh state to α = 1, whatever barriers the model has: that is why α scales the couplings and not all of
H. Even and odd pairs of neighbours attempt swaps in turn, after each sweep (Syed, Bouchard-Côté, Deligiannidis and
Doucet 2022).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from hbm_learn import gaussian
from hbm_learn._kernels import gibbs as kernels
from hbm_learn._validation import check_integer, seed_sequence
from hbm_learn.model import BoltzmannMachine
from hbm_learn.sampling import agreement, diagnostics
from hbm_learn.sampling.chains import Block, Chains, block_states, check_initial, decode, empty_draws, far_states

REMEDY = "raise n_samples, burn_in or n_replicas; where phases coexist, compare their ln Z"
# Ladders from far states (uniform, all at the last value, all at the first), and sweeps between their draws.
FAR_LADDERS, FAR_THIN = 3, 20
# Rounds of the pilot that lays the ladder: sweeps double from the first to the last.
PILOT_SWEEPS = (32, 64, 128, 256, 512)
FIRST_REPLICAS, MIN_REPLICAS, MAX_REPLICAS = 16, 4, 128


class Ladders:
    """n_chains ladders of R replicas, one a block; the rungs move between lanes, the states do not."""

    def __init__(self, chains: Chains, ladder: np.ndarray):
        self.chains = chains
        chains.set_alpha(ladder)
        R, n_blocks = len(ladder), len(chains.blocks)
        self.lane_of = np.tile(np.arange(R), (n_blocks, 1))
        self.rejection, self.tried = np.zeros((n_blocks, R - 1)), np.zeros((n_blocks, R - 1))

    @property
    def rejection_rates(self) -> np.ndarray:
        """(R − 1,) mean probability that a swap of neighbours is refused, since the last ``draw``."""
        return self.rejection.sum(axis=0) / np.maximum(self.tried.sum(axis=0), 1)

    def replicas(self) -> np.ndarray:
        """(R, n) codes of the first ladder, by rung."""
        return block_states(self.chains.blocks[0], self.chains.model.space)[self.lane_of[0]]

    def draw(self, n_draws: int, thin: int) -> np.ndarray:
        """(n_draws, n_chains, n) codes of the last rungs, ``thin`` sweeps apart."""
        return self._run(n_draws * thin, thin, n_draws)

    def advance(self, n_sweeps: int) -> None:
        """Run without recording."""
        self._run(n_sweeps, 1, 0)

    def _run(self, n_sweeps: int, thin: int, n_draws: int) -> np.ndarray:
        chains = self.chains
        out = empty_draws(n_draws, len(chains.blocks), chains.model.space)
        self.rejection[:], self.tried[:] = 0.0, 0.0

        def step(c: int, block: Block, start: int, stop: int) -> None:
            kernels.exchange(
                block.X, block.S, block.state, block.alpha, chains.sites, chains.couplings, self.lane_of[c],
                start, stop, thin, out, c, self.rejection[c], self.tried[c],
            )  # fmt: skip

        chains.drive([partial(step, c, block) for c, block in enumerate(chains.blocks)], n_sweeps)
        return out


def lay_ladder(model: BoltzmannMachine, n_replicas: int | None, seed: np.random.SeedSequence) -> np.ndarray:
    """Coupling strengths (R,) at which all neighbours swap equally often, from a short adaptive run.

    The rejection rates of a run, summed up the ladder, estimate the communication barrier Λ(α); equal steps of it give
    equal rates. If n_replicas is None, R = 2 Λ(1) + 2, and about half of the swaps succeed: the best use of replicas.
    """
    ladder = np.linspace(0.0, 1.0, n_replicas or FIRST_REPLICAS)
    states = None
    for n_sweeps in PILOT_SWEEPS:
        ladders = Ladders(Chains(model, [len(ladder)], seed.spawn(1)[0], states), ladder)
        ladders.advance(n_sweeps)
        barrier = np.concatenate([[0.0], np.cumsum(np.maximum(ladders.rejection_rates, 1e-6))])
        R = n_replicas or int(np.clip(np.ceil(2 * barrier[-1]) + 2, MIN_REPLICAS, MAX_REPLICAS))
        new = np.interp(np.linspace(0.0, barrier[-1], R), barrier, ladder)
        new[0], new[-1] = 0.0, 1.0
        states = ladders.replicas()[np.abs(new[:, None] - ladder).argmin(axis=1)]
        ladder = new
    return ladder


def _agreement(
    model: BoltzmannMachine,
    ladder: np.ndarray,
    draws: np.ndarray,
    n_sweeps: int,
    burn_in: int,
    seed: np.random.SeedSequence,
    n_jobs: int | None,
) -> agreement.Agreement:
    """Agreement of the ladders with one another and with some whose replicas all start far away."""
    R = len(ladder)
    kept = agreement.strided(draws)
    starts = far_states(model.space, FAR_LADDERS, np.random.default_rng(seed.spawn(1)[0]))
    chains = Chains(model, [R] * FAR_LADDERS, seed, np.repeat(starts, R, axis=0), n_jobs)
    far = Ladders(chains, ladder)
    far.advance(max(burn_in, agreement.FAR_SWEEPS))
    both = np.concatenate([kept, far.draw(len(kept), FAR_THIN)], axis=1)
    return agreement.compare(model, both, n_sweeps)


def tempering(
    model: BoltzmannMachine,
    n_samples: int,
    random_state: Any = None,
    *,
    n_chains: int | None = None,
    n_replicas: int | None = None,
    burn_in: int = 1000,
    thin: int = 10,
    initial: Any = None,
    n_jobs: int | None = None,
    return_diagnostics: bool = False,
) -> Any:
    """Samples by replica exchange, for models whose Gibbs chains stay in one well.

    With four ladders and twenty draws of each or more, a ConvergenceWarning says if they disagree (split R-hat above
    1.1) with one another or with three more that start far away.

    Parameters
    ----------
    model : BoltzmannMachine
    n_samples : int
        Number of rows. Row t·n_chains + c is draw t of chain c.
    random_state : None, int, SeedSequence, Generator or RandomState
        One integer gives the same samples for any n_jobs.
    n_chains : int
        Independent ladders; by default 4, or n_samples if that is less.
    n_replicas : int
        Replicas in a ladder, at least 2; by default as many as let about half of the swaps succeed (4 to 128).
    burn_in : int
        Sweeps dropped at the start.
    thin : int
        Sweeps between recorded draws.
    initial : (n,) or (n_chains, n) array-like
        Values or labels from which all replicas of a ladder start; by default draws from the model without its
        couplings.
    n_jobs : int
        Threads, in which ladders run; None is as many as there are cores.
    return_diagnostics : bool
        Also return :class:`~hbm_learn.sampling.diagnostics.Diagnostics`, with the ladder and the acceptance of swaps.

    Returns
    -------
    (n_samples, n) array
        Values or labels; or (X, diagnostics).
    """
    n_samples, thin = check_integer("n_samples", n_samples, 1), check_integer("thin", thin, 1)
    burn_in = check_integer("burn_in", burn_in, 0)
    n_chains = min(4, n_samples) if n_chains is None else check_integer("n_chains", n_chains, 1)
    n_replicas = None if n_replicas is None else check_integer("n_replicas", n_replicas, 2)
    states = check_initial(model, initial, n_chains)
    n_draws = -(-n_samples // n_chains)
    if return_diagnostics:
        diagnostics.import_arviz()
        diagnostics.check_draws(n_draws, n_chains)
    pilot, seed = seed_sequence(random_state).spawn(2)
    extra = {}
    if model.space.is_real:
        draws = gaussian.draw(model, n_draws * n_chains, seed).reshape(n_draws, n_chains, -1)
    else:
        ladder = lay_ladder(model, n_replicas, pilot)
        R = len(ladder)
        starts = None if states is None else np.repeat(states, R, axis=0)
        ladders = Ladders(Chains(model, [R] * n_chains, seed, starts, n_jobs), ladder)
        ladders.advance(burn_in)
        draws = ladders.draw(n_draws, thin)
        if n_chains >= agreement.MIN_CHAINS and n_draws >= agreement.MIN_DRAWS:
            _agreement(model, ladder, draws, n_draws * thin, burn_in, seed.spawn(1)[0], n_jobs).warn(REMEDY)
        extra = {"ladder": ladder, "swap_acceptance": 1.0 - ladders.rejection_rates}
    X = decode(draws.reshape(-1, model.n_features)[:n_samples], model.space)
    return (X, diagnostics.diagnose(model, draws, **extra)) if return_diagnostics else X
