"""Chains: blocks of Gibbs chains, and the one loop that advances them.

    x_i ~ P_α(x_i | rest) ∝ exp((h_i + α F_i(x)) x_i − d_i x_i²/2),   i = 0 … n − 1 in turn

A block is an (n, L) array of L chains that share every pass over the couplings; blocks run in parallel. Each has
its own random stream, spawned from one seed, so results depend on the seed and not on the number of jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import call
from typing import Any

import numpy as np

from hbm_learn._kernels import gibbs as kernels
from hbm_learn._threads import in_threads
from hbm_learn.model import BoltzmannMachine

# Chains in a block: enough to fill vector registers and to share the passes over the couplings.
LANES = 32
# Elementary operations in one native call, some 0.1 s: between calls Python sees Ctrl-C.
CHUNK = 4e8


@dataclass(frozen=True, eq=False)
class Block:
    """L chains: states X (n, L), random state (4, L), coupling strength alpha (L,); ``first`` is its first chain."""

    X: np.ndarray
    state: np.ndarray
    alpha: np.ndarray
    first: int


class Chains:
    """Gibbs chains of one model, in blocks.

    Parameters
    ----------
    model : BoltzmannMachine on a finite alphabet or an Interval.
    widths : number of chains in each block.
    seed : SeedSequence; each block takes one child.
    initial : (n_chains, n) states to start from; by default independent draws from the model without its couplings.
    n_jobs : threads; None is as many as there are cores.
    """

    def __init__(
        self,
        model: BoltzmannMachine,
        widths: list[int],
        seed: np.random.SeedSequence,
        initial: np.ndarray | None = None,
        n_jobs: int | None = None,
    ):
        self.n_jobs, self.n_chains = n_jobs, sum(widths)
        self.set_model(model)
        ends = np.cumsum(widths)
        self.blocks = [
            Block(
                X=np.full((model.n_features, L), model.alphabet.bounds[0]),
                state=child.generate_state(4 * L, np.uint64).reshape(4, L),
                alpha=np.zeros(L),
                first=int(end) - L,
            )
            for L, end, child in zip(widths, ends, seed.spawn(len(widths)))
        ]
        if initial is None:
            self.advance(1)  # at α = 0 one sweep is an exact draw
        else:
            for block, end in zip(self.blocks, ends):
                block.X[:] = initial[block.first : end].T
        self.set_alpha(1.0)

    def set_model(self, model: BoltzmannMachine) -> None:
        """Go on with this model, on the same variables and alphabet, from where the chains are."""
        self.model, self.sites = model, pack_sites(model)
        self.couplings = (model.packed.indptr, model.packed.members, model.weights)

    def set_alpha(self, alpha: Any) -> None:
        """The coupling strength of the lanes of every block: a number, or an (L,) array."""
        for block in self.blocks:
            block.alpha[:] = alpha

    def states(self) -> np.ndarray:
        """(n_chains, n) where the chains are now."""
        return np.concatenate([block.X.T for block in self.blocks])

    def advance(self, n_sweeps: int) -> None:
        """Run without recording."""
        self._record(n_sweeps, 1, np.empty((0, 0, self.model.n_features)))

    def draw(self, n_draws: int, thin: int) -> np.ndarray:
        """(n_draws, n_chains, n) states, ``thin`` sweeps apart, in the dtype of the alphabet."""
        out = np.empty((n_draws, self.n_chains, self.model.n_features))
        self._record(n_draws * thin, thin, out)
        return out.astype(self.model.alphabet.dtype, copy=False)

    def _record(self, n_sweeps: int, thin: int, out: np.ndarray) -> None:
        def step(block: Block, start: int, stop: int) -> None:
            kernels.run(block.X, block.state, block.alpha, self.sites, start, stop, thin, out, block.first)

        self.drive([partial(step, block) for block in self.blocks], n_sweeps)

    def drive(self, steps: list[Callable[[int, int], None]], n_sweeps: int) -> None:
        """step(start, stop) of each step, over consecutive pieces of range(n_sweeps) short enough to be interrupted."""
        per_lane = len(self.sites[4]) + len(self.sites[0]) * _DRAW_COST[self.sites[7]] * len(self.sites[6])
        piece = max(1, int(CHUNK / (per_lane * max(block.X.shape[1] for block in self.blocks))))
        for start in range(0, n_sweeps, piece):
            stop = min(start + piece, n_sweeps)
            in_threads(call, [partial(step, start, stop) for step in steps], self.n_jobs)


# Cost of one draw, for each value of the alphabet, in units of one factor of one coupling.
_DRAW_COST = {kernels.BINARY: 10, kernels.FINITE: 20, kernels.INTERVAL: 100}


def widths(n_chains: int) -> list[int]:
    """Split n_chains into blocks of at most LANES, as even as can be."""
    n_blocks = -(-n_chains // LANES)
    return [len(part) for part in np.array_split(np.arange(n_chains), n_blocks)]


def pack_sites(model: BoltzmannMachine) -> tuple:
    """The couplings by site, for the kernels: (h, d, site_ptr, term_ptr, others, J, values, kind).

    Each interaction of order k is listed k times, once for each member, with the k − 1 other members.
    """
    alphabet, packed = model.alphabet, model.packed
    site_ptr, which = packed.incidence
    sizes = np.diff(packed.indptr)[which]
    term_ptr = np.concatenate([[0], np.cumsum(sizes - 1)]).astype(np.intp)
    # Positions, in members, of all members of the interaction of each term.
    first = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    position = np.arange(sizes.sum()) + np.repeat(packed.indptr[which] - first, sizes)
    member = packed.members[position]
    owner = np.repeat(np.repeat(np.arange(model.n_features), np.diff(site_ptr)), sizes)
    if alphabet.is_finite:
        values, kind = alphabet.nodes, kernels.BINARY if alphabet.is_binary else kernels.FINITE
    else:
        values, kind = np.array(alphabet.bounds), kernels.INTERVAL
    return model.h, model.d, site_ptr, term_ptr, member[member != owner], model.weights[which], values, kind


def check_initial(model: BoltzmannMachine, initial: Any, n_chains: int) -> np.ndarray | None:
    """``initial`` as (n_chains, n) float64 states of the alphabet; one (n,) state starts every chain."""
    if initial is None:
        return None
    n, alphabet = model.n_features, model.alphabet
    states = np.asarray(initial, dtype=np.float64)
    if states.shape not in ((n,), (n_chains, n)):
        raise ValueError(
            f"initial has shape {states.shape}; expected ({n},), one state, or ({n_chains}, {n}), one for each chain."
        )
    states = np.broadcast_to(states, (n_chains, n))
    low, high = alphabet.bounds
    allowed = np.isin(states, alphabet.nodes) if alphabet.is_finite else (states >= low) & (states <= high)
    if not allowed.all():
        row, column = np.argwhere(~allowed)[0]
        raise ValueError(
            f"initial: chain {row}, variable {column} is {states[row, column]:g}, which is not in {alphabet}."
        )
    return states
