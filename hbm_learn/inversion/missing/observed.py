"""The likelihood of what was observed, while all states can be listed: missing cells are summed over.

    L(θ) = Σ_r w_r ln Σ_{x ~ obs_r} P(x),     q(x) = Σ_r w_r P(x | obs_r),     Σ_r w_r = 1
    −∂L = ⟨t⟩_θ − ⟨t⟩_q,     −∂²L = F(θ) − Σ_r w_r Cov(t | obs_r)     (Louis)

What rows with gaps do not tell is taken from the information of complete ones. −L need not be convex: where the
observed information is not positive definite F takes its place, and a step is one of EM.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from hbm_learn import linalg
from hbm_learn._kernels import completions as kernels
from hbm_learn._threads import blas_for, in_threads, row_parts
from hbm_learn.data.incomplete import IncompleteRows
from hbm_learn.data.moments import Moments
from hbm_learn.inversion.likelihood import fit as likelihood
from hbm_learn.inversion.likelihood.information import LikelihoodInformation
from hbm_learn.inversion.likelihood.target import Target
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior
from hbm_learn.inversion.result import Fit
from hbm_learn.states import MAX_STATES, StateTable

# Completions of all distinct rows together, up to which they are listed at every step.
MAX_COMPLETIONS = 2**25
# Numbers of the conditional means of t that are held at once.
_HELD = 2**22


def affordable(rows: IncompleteRows, n_params: int) -> bool:
    """Whether all completions of all rows can be listed, and the matrices formed."""
    if not rows.space.enumerable(MAX_STATES) or n_params > likelihood.MAX_DENSE_FISHER:
        return False
    return float(rows.distinct().n_completions.sum()) <= MAX_COMPLETIONS


class ObservedRows:
    """Distinct rows with gaps, as the sums over their completions need them.

    Parameters
    ----------
    rows : IncompleteRows
        Whose weights are taken as shares of all.
    parameters : Parameters
    """

    def __init__(self, rows: IncompleteRows, parameters: Parameters):
        rows = rows.distinct()
        whole = rows.is_complete
        order = np.concatenate([np.flatnonzero(whole), np.flatnonzero(~whole)])
        self.n_whole, self.parameters = int(whole.sum()), parameters
        self.codes = np.ascontiguousarray(rows.codes[order])
        self.weights = rows.weights[order] / rows.n_samples
        self.sizes = rows.space.sizes.astype(np.int64)
        self.strides = np.concatenate([[1], np.cumprod(self.sizes[:-1])]).astype(np.int64)
        self.longest = int(rows.n_completions.max())
        q = int(self.sizes.max())
        self.own = np.zeros((parameters.n_own, q))
        for i, O in enumerate(parameters.own):
            self.own[parameters.own_ptr[i] : parameters.own_ptr[i + 1], : len(O)] = O.T
        self.own_site = np.repeat(np.arange(len(self.sizes)), np.diff(parameters.own_ptr))

    def spread(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(R,) P(obs_r), and q (Π q_i,) of the complete rows and of those with gaps."""
        seen = np.empty(len(self.codes))
        found = []
        for rows in (slice(0, self.n_whole), slice(self.n_whole, len(self.codes))):

            def work(part: slice, base: int = rows.start) -> np.ndarray:
                mine = slice(base + part.start, base + part.stop)
                q, states = np.zeros(len(p)), np.empty(self.longest, dtype=np.int64)
                kernels.spread(p, self.codes[mine], self.weights[mine], self.sizes, self.strides, states, q, seen[mine])
                return q

            parts = row_parts(rows.stop - rows.start, (rows.stop - rows.start) * len(self.sizes) * 8)
            found.append(np.sum(in_threads(work, parts), axis=0))
        return seen, found[0], found[1]

    def means_product(self, p: np.ndarray) -> np.ndarray:
        """(P, P) Σ_r w_r ⟨t|obs_r⟩⟨t|obs_r⟩' over the rows with gaps."""
        P = self.parameters.n_params
        out, step = np.zeros((P, P)), max(1, _HELD // P)
        for lo in range(self.n_whole, len(self.codes), step):
            mine = slice(lo, min(lo + step, len(self.codes)))
            m = self.means(p, self.codes[mine])
            m *= np.sqrt(self.weights[mine])[:, None]
            out += m.T @ m
        return out

    def means(self, p: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """(R, P) ⟨t|obs_r⟩ of rows of codes."""
        parameters = self.parameters
        space, columns = parameters.space, parameters.columns
        out = np.empty((len(codes), parameters.n_params))

        def work(part: slice) -> None:
            buffers, states = np.empty((2, self.longest)), np.empty(self.longest, dtype=np.int64)
            kernels.means(
                p,
                codes[part],
                self.sizes,
                self.strides,
                space.padded,
                space.column_ptr,
                space.site,
                self.own,
                self.own_site,
                columns.members,
                columns.indptr,
                buffers,
                states,
                out[part],
            )

        in_threads(work, row_parts(len(codes), out.size * 4))
        return out


class ObservedPoint:
    """−L at θ (without its ℓ1 part) and its derivatives, exactly."""

    def __init__(self, rows: ObservedRows, target: Target, theta: np.ndarray, table: StateTable):
        self.rows, self.target, self.theta, self.table = rows, target, theta, table
        self._seen, self._whole, self._filled = rows.spread(table.p)
        with np.errstate(divide="ignore"):
            observed = float(rows.weights @ np.log(self._seen))
        self.value = -observed + 0.5 * float(target.ridge @ theta**2)

    @classmethod
    def at(cls, rows: ObservedRows, target: Target, theta: np.ndarray) -> ObservedPoint | None:
        try:
            point = cls(rows, target, theta, StateTable(target.parameters.model(theta)))
        except ValueError:  # the energies exceed float64: too long a step
            return None
        return point if np.isfinite(point.value) else None

    @cached_property
    def gradient(self) -> np.ndarray:
        """⟨t⟩_θ − ⟨t⟩_q + ridge θ, (P,)."""
        parameters = self.target.parameters
        data = self.table.reweighted(self._whole + self._filled).statistics(parameters)
        return self.table.statistics(parameters) - data + self.target.ridge * self.theta

    @cached_property
    def complete(self) -> np.ndarray:
        """F = Cov(t), (P, P): the information of complete rows."""
        return self.table.fisher(self.target.parameters)

    @cached_property
    def observed(self) -> np.ndarray:
        """F − Σ_r w_r Cov(t | obs_r), (P, P): what Louis' identity leaves of it."""
        parameters = self.target.parameters
        filled = self.table.reweighted(self._filled)
        t = filled.statistics(parameters)
        second = filled.fisher(parameters) + np.outer(t, t)
        return self.complete - second + self.rows.means_product(self.table.p)

    @cached_property
    def fisher(self) -> np.ndarray:
        """The observed information where it is positive definite, else that of complete rows."""
        return self.observed if is_definite(self.observed) else self.complete

    @property
    def curvature(self) -> np.ndarray:
        """Observed information and ridge, or F and ridge where that is not positive definite."""
        ridge = np.diag(self.target.ridge)
        H = self.observed + ridge
        return H if is_definite(H) else self.complete + ridge


def is_definite(H: np.ndarray) -> bool:
    """Whether a matrix has a Cholesky factor."""
    return linalg.spd_inverse(np.array(H, order="C"))[0] is not None


class ObservedFit:
    """Fits of the observed likelihood, under one prior after another.

    Parameters
    ----------
    rows : IncompleteRows
    moments : Moments
        Of the same rows: M, names, and where to begin.
    parameters : Parameters
    """

    expands, turns = True, 1  # about any point

    def __init__(self, rows: IncompleteRows, moments: Moments, parameters: Parameters):
        self.rows, self.target = ObservedRows(rows, parameters), Target.of(moments, parameters)

    def fit(
        self,
        prior: Prior,
        start: np.ndarray | None,
        rough: bool = False,
        random_state: Any = None,
        **options: Any,
    ) -> Fit:
        """The maximum under a prior; options are those of ``likelihood.by_newton``."""
        target = self.target.under(prior)
        with blas_for(len(target.t)):
            begin = self._best_start(target, start)
            return likelihood.by_newton(target, lambda theta: self._at(target, theta), begin, **options)

    def _at(self, target: Target, theta: np.ndarray) -> ObservedPoint | None:
        return ObservedPoint.at(self.rows, target, theta)

    def _best_start(self, target: Target, start: np.ndarray | None) -> ObservedPoint:
        """The better of ``start`` and independence."""
        alone = self._at(target, target.independent)
        given = None if start is None else self._at(target, start)
        assert alone is not None
        return given if given is not None and given.value <= alone.value else alone

    def information(self, fit: Fit) -> LikelihoodInformation:
        """Of the data about any point."""
        return LikelihoodInformation(self.target, fit.overcount, lambda theta: self._at(self.target, theta))

    def informed(self, fit: Fit) -> np.ndarray:
        """(P,) the share of the information of complete rows that is there: by how much variances would fall."""
        with blas_for(len(fit.theta)):
            point = self._at(self.target, fit.theta)
            assert point is not None
            whole, there = np.diag(linalg.inverse(point.complete)), np.diag(linalg.inverse(point.fisher))
        return np.clip(whole / np.maximum(there, 1e-300), 0.0, 1.0)
