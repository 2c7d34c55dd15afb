"""Missing cells drawn from a model given the observed ones: exactly while states can be listed, else by Gibbs."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbm_learn._kernels import completions, imputation
from hbm_learn._threads import in_threads
from hbm_learn._validation import seed_sequence
from hbm_learn.data.incomplete import FilledRows, IncompleteRows
from hbm_learn.inversion.missing.observed import MAX_COMPLETIONS
from hbm_learn.model import BoltzmannMachine
from hbm_learn.sampling.chains import pack_sites
from hbm_learn.space import MISSING
from hbm_learn.states import MAX_STATES, StateTable

# Sweeps of cells that begin as independent draws, and of those that go on from a model near by.
FIRST_SWEEPS, SWEEPS = 20, 5
# Rows of a block, each with generators of its own: nothing depends on the number of threads.
_ROWS = 1024


class Imputer:
    """Copies of every row with gaps, filled in by one model after another.

    Parameters
    ----------
    rows : IncompleteRows
    n_copies : int
        Of each row with gaps.
    random_state : None, int, SeedSequence, Generator or RandomState
    n_jobs : int or None
        Threads; the draws do not depend on it.
    listed : bool or None
        Whether completions are listed, while the model allows it; by default where they are not too many.
    """

    def __init__(
        self,
        rows: IncompleteRows,
        n_copies: int,
        random_state: Any = None,
        n_jobs: int | None = None,
        listed: bool | None = None,
    ):
        self.rows, self.n_copies, self.n_jobs = rows, n_copies, n_jobs
        self.seed = seed_sequence(random_state)
        gaps = ~rows.is_complete
        self.codes, self.missing = np.ascontiguousarray(rows.codes[gaps]), ~rows.observed[gaps]
        self._listed = float(rows.n_completions.sum()) <= MAX_COMPLETIONS if listed is None else listed
        self._copies: np.ndarray | None = None

    def draw(self, model: BoltzmannMachine, n_copies: int | None = None) -> FilledRows:
        """All rows, their missing cells drawn from a model on the same variables, in any gauge.

        Parameters
        ----------
        model : BoltzmannMachine
        n_copies : int or None
            So many of the copies only.
        """
        if self._listed and model.space.enumerable(MAX_STATES):
            return FilledRows.of(self.rows, self._exact(model)[:, :n_copies])
        sweeps = SWEEPS
        if self._copies is None:
            self._copies, sweeps = self._independent(), FIRST_SWEEPS
        self._sweep(self._copies, model, sweeps)
        return FilledRows.of(self.rows, self._copies[:, :n_copies].copy())

    def _exact(self, model: BoltzmannMachine) -> np.ndarray:
        """(R, m, n) independent draws from P(missing | observed)."""
        p, sizes = StateTable(model).p, model.space.sizes.astype(np.int64)
        strides = np.concatenate([[1], np.cumprod(sizes[:-1])]).astype(np.int64)
        u = np.random.default_rng(self.seed.spawn(1)[0]).random((len(self.codes), self.n_copies))
        out = np.empty((*u.shape, len(sizes)), dtype=np.uint8)
        states = np.empty(int(self.rows.n_completions.max()), dtype=np.int64)
        completions.draw(p, self.codes, u, sizes, strides, states, out)
        return out

    def _independent(self) -> np.ndarray:
        """(R, m, n) cells drawn from what was observed of their column."""
        rng = np.random.default_rng(self.seed.spawn(1)[0])
        out = np.repeat(self.codes[:, None], self.n_copies, axis=1)
        for i in np.flatnonzero(self.missing.any(axis=0)):
            x, gaps = self.rows.codes[:, i], self.missing[:, i]
            seen = x != MISSING
            p = np.bincount(
                x[seen].astype(np.uint8, copy=False), self.rows.weights[seen], minlength=int(self.rows.space.sizes[i])
            )
            p = (p + 1e-9) / (p + 1e-9).sum()  # anything, where nothing was seen
            out[gaps, :, i] = rng.choice(len(p), (int(gaps.sum()), self.n_copies), p=p)
        return out

    def _sweep(self, copies: np.ndarray, model: BoltzmannMachine, n_sweeps: int) -> None:
        sites, edges = pack_sites(model), range(0, len(copies), _ROWS)
        X = model.space.columns(np.where(self.missing, 0, self.codes))

        def work(part: tuple[int, np.random.SeedSequence]) -> None:
            mine = slice(part[0], part[0] + _ROWS)
            state = part[1].generate_state(4 * self.n_copies, np.uint64).reshape(4, self.n_copies)
            imputation.fill(copies[mine], X[mine], self.missing[mine], state, sites, n_sweeps)

        in_threads(work, zip(edges, self.seed.spawn(len(edges))), self.n_jobs)
