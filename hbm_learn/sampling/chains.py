"""Chains: blocks of Gibbs chains, and the one loop that advances them.

    x_i ~ P_α(x_i | rest) ∝ exp(θ_i(x_i) + α Σ_c F_c(x) φ_c(x_i)),   i = 0 … n − 1 in turn

A block is an (N, L) array of the columns of L chains that share every pass over the couplings; blocks run in parallel.
Each has its own random stream, spawned from one seed, so results depend on the seed and not on the number of jobs.
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
from hbm_learn.space import Space

# Chains in a block: enough to fill vector registers and to share the passes over the couplings.
LANES = 32
# Elementary operations in one native call, some 0.1 s: between calls Python sees Ctrl-C.
CHUNK = 4e8
# Entries decoded at once: their indices and values stay in the cache.
_DECODED = 2**15
# Kinds of far states: uniform over the values, all at the last, all at the first.
FAR_KINDS = 3
# Cost of one draw, for each value of a site, in units of one factor of one coupling.
_DRAW_COST = {kernels.BINARY: 20, kernels.FINITE: 20, kernels.INTERVAL: 200, kernels.GIVEN: 0}


@dataclass(frozen=True, eq=False)
class Block:
    """L chains.

    Attributes
    ----------
    X : (N, L) array
        The columns of each chain.
    S : (n, L) array
        The codes of sites with more than two values; what stands there for others has no meaning.
    state : (4, L) array
        Of the random generators.
    alpha : (L,) array
        Coupling strengths.
    first : int
        The number of its first chain.
    """

    X: np.ndarray
    S: np.ndarray
    state: np.ndarray
    alpha: np.ndarray
    first: int


class Chains:
    """Gibbs chains of one model, in blocks.

    Parameters
    ----------
    model : BoltzmannMachine
        Not on the real line.
    widths : list of int
        Number of chains in each block.
    seed : SeedSequence
        Each block takes one child.
    initial : (n_chains, n) array
        Codes (values where a variable is continuous) to start from, and to stay at where a variable is given; by
        default independent draws from the model without its couplings.
    n_jobs : int
        Threads; None is as many as there are cores.
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
        self.blocks = [
            Block(
                X=np.zeros((model.n_columns, L)),
                S=np.zeros((model.n_features, L)),
                state=child.generate_state(4 * L, np.uint64).reshape(4, L),
                alpha=np.zeros(L),
                first=int(end) - L,
            )
            for L, end, child in zip(widths, np.cumsum(widths), seed.spawn(len(widths)))
        ]
        if initial is None:
            self.advance(1)  # at α = 0 one sweep is an exact draw
        else:
            self._put(initial)
        self.set_alpha(1.0)

    def _put(self, codes: np.ndarray) -> None:
        columns = self.model.space.columns(codes)
        for block in self.blocks:
            mine = slice(block.first, block.first + block.X.shape[1])
            block.X[:] = columns[mine].T
            block.S[:] = codes[mine].T

    def set_model(self, model: BoltzmannMachine) -> None:
        """Go on with this model, on the same variables with the same functions, from where the chains are."""
        self.model, self.sites = model, pack_sites(model)
        self.couplings = (model.columns.indptr, model.columns.members, model.column_weights)

    def set_alpha(self, alpha: Any) -> None:
        """The coupling strength of the lanes of every block: a number, or an (L,) array."""
        for block in self.blocks:
            block.alpha[:] = alpha

    def states(self) -> np.ndarray:
        """(n_chains, n) codes (values where a variable is continuous) of where the chains are now."""
        return np.concatenate([block_states(block, self.model.space) for block in self.blocks])

    def columns(self) -> np.ndarray:
        """(n_chains, N) functions φ of where the chains are now."""
        return np.concatenate([block.X.T for block in self.blocks])

    def advance(self, n_sweeps: int) -> None:
        """Run without recording."""
        self._record(n_sweeps, 1, empty_draws(0, 0, self.model.space))

    def draw(self, n_draws: int, thin: int) -> np.ndarray:
        """(n_draws, n_chains, n) codes (values where a variable is continuous), ``thin`` sweeps apart."""
        out = empty_draws(n_draws, self.n_chains, self.model.space)
        self._record(n_draws * thin, thin, out)
        return out

    def _record(self, n_sweeps: int, thin: int, out: np.ndarray) -> None:
        def step(block: Block, start: int, stop: int) -> None:
            kernels.run(block.X, block.S, block.state, block.alpha, self.sites, start, stop, thin, out, block.first)

        self.drive([partial(step, block) for block in self.blocks], n_sweeps)

    def drive(self, steps: list[Callable[[int, int], None]], n_sweeps: int) -> None:
        """step(start, stop) of each step, over consecutive pieces of range(n_sweeps) short enough to be interrupted."""
        per_lane = _sweep_cost(self.model.space, self.sites)
        piece = max(1, int(CHUNK / (per_lane * max(block.X.shape[1] for block in self.blocks))))
        for start in range(0, n_sweeps, piece):
            stop = min(start + piece, n_sweeps)
            in_threads(call, [partial(step, start, stop) for step in steps], self.n_jobs)


def _sweep_cost(space: Space, sites: kernels.Sites) -> float:
    values = np.maximum(space.sizes, 1)
    return len(sites.others) + float(values @ [_DRAW_COST[kind] for kind in sites.kind.tolist()])


def sweep_cost(model: BoltzmannMachine) -> float:
    """Elementary operations, a fraction of a nanosecond each, of one sweep of one chain."""
    return _sweep_cost(model.space, pack_sites(model))


def far_states(space: Space, n_states: int, rng: np.random.Generator) -> np.ndarray:
    """(n_states, n) codes far from where chains start: uniform over the values, all at the last, all at the first.

    In turn, so that any few in a row have all three. Continuous variables take values between their bounds. Given ones
    are left to the caller: they are zero.
    """
    out = np.zeros((n_states, space.n_features), dtype=np.uint8 if space.has_codes else np.float64)
    for i, (alphabet, q) in enumerate(zip(space.alphabets, space.sizes)):
        if space.given[i]:
            continue
        low, high = (0, q - 1) if q else alphabet.bounds
        out[:, i] = rng.integers(q, size=n_states) if q else rng.uniform(low, high, n_states)
        out[1::FAR_KINDS, i], out[2::FAR_KINDS, i] = high, low
    return out


def empty_draws(n_draws: int, n_chains: int, space: Space) -> np.ndarray:
    """Where draws are recorded: codes take a byte, values of continuous variables eight."""
    return np.empty((n_draws, n_chains, space.n_features), dtype=np.uint8 if space.has_codes else np.float64)


def decode(codes: np.ndarray, space: Space) -> np.ndarray:
    """(rows, n) values or labels of codes, in blocks: the indices of all, eight bytes each, are never made at once."""
    step = max(1, _DECODED // space.n_features)
    if len(codes) <= step or not space.has_codes:
        return space.decode(codes)
    out = np.empty(codes.shape, dtype=space.decode(codes[:1]).dtype)
    for start in range(0, len(codes), step):
        out[start : start + step] = space.decode(codes[start : start + step])
    return out


def block_states(block: Block, space: Space) -> np.ndarray:
    """(L, n) codes (values where a variable is continuous) of the chains of a block."""
    out = empty_draws(1, block.X.shape[1], space)[0]
    for i, functions in enumerate(space.functions):
        x = block.X[space.column_ptr[i]]
        if space.given[i]:
            out[:, i] = block.S[i]
        elif functions is None:
            out[:, i] = x
        else:
            out[:, i] = x == functions[1, 0] if len(functions) == 2 else block.S[i]
    return out


def widths(n_chains: int) -> list[int]:
    """Split n_chains into blocks of at most LANES, as even as can be."""
    n_blocks = -(-n_chains // LANES)
    return [len(part) for part in np.array_split(np.arange(n_chains), n_blocks)]


def pack_sites(model: BoltzmannMachine) -> kernels.Sites:
    """The couplings by column, and θ and φ by site, for the kernels.

    Each set of k columns is listed k times, once for each member, with the k − 1 other members.
    """
    space, columns = model.space, model.columns
    terms_ptr, which = columns.incidence
    sizes = np.diff(columns.indptr)[which]
    # Positions, in members, of all members of the set of each term.
    first = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    position = np.arange(sizes.sum()) + np.repeat(columns.indptr[which] - first, sizes)
    member = columns.members[position]
    owner = np.repeat(np.repeat(np.arange(space.n_columns), np.diff(terms_ptr)), sizes)
    kinds = {0: kernels.INTERVAL, 2: kernels.BINARY}
    kind = np.array([kinds.get(q, kernels.FINITE) for q in space.sizes.tolist()])
    kind[space.given] = kernels.GIVEN
    own = [
        np.array([model.h[i], model.d[i], *space.alphabets[i].bounds]) if table is None else table
        for i, table in enumerate(model.own)
    ]
    phi = [np.zeros(0) if table is None else table.T.ravel() for table in space.functions]
    return kernels.Sites(
        kind=kind,
        column_ptr=space.column_ptr,
        own_ptr=_ends(own),
        own=np.concatenate(own),
        phi_ptr=_ends(phi),
        phi=np.concatenate(phi),
        terms_ptr=terms_ptr,
        term_ptr=np.concatenate([[0], np.cumsum(sizes - 1)]).astype(np.intp),
        others=member[member != owner],
        J=model.column_weights[which],
        n_columns=int(np.diff(space.column_ptr).max()),
        n_values=int(space.sizes.max()),
    )


def _ends(tables: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([len(table) for table in tables])]).astype(np.intp)


def check_initial(model: BoltzmannMachine, initial: Any, n_chains: int) -> np.ndarray | None:
    """``initial``, values or labels, as (n_chains, n) codes (values where a variable is continuous).

    One (n,) state starts every chain.
    """
    if initial is None:
        return None
    space, n = model.space, model.n_features
    states = np.asarray(initial, dtype=np.float64 if space.is_numeric else object)
    if states.shape not in ((n,), (n_chains, n)):
        raise ValueError(
            f"initial has shape {states.shape}; expected ({n},), one state, or ({n_chains}, {n}), one for each chain."
        )
    states = np.broadcast_to(states, (n_chains, n))
    out = np.empty((n_chains, n), dtype=np.uint8 if space.is_finite else np.float64)
    for i, alphabet in enumerate(space.alphabets):
        x = states[:, i]
        if alphabet.values is None:
            x = x.astype(np.float64)
            allowed = (x >= alphabet.bounds[0]) & (x <= alphabet.bounds[1])
            out[:, i] = x
        else:
            matches = np.stack([x == value for value in alphabet.values.tolist()])
            allowed = np.any(matches, axis=0)
            out[:, i] = matches.argmax(axis=0)
        if not allowed.all():
            row = int(np.flatnonzero(~allowed)[0])
            shown = repr(x[row]) if alphabet.is_nominal else f"{x[row]:g}"
            raise ValueError(f"initial: chain {row}, variable {i} is {shown}, which is not in {alphabet}.")
    return out
