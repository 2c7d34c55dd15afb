"""Nodes: one variable given the others, as an exponential family of its own.

    p_r(v) ∝ exp(Σ_k η_kr O_k(v)),     η_k = Σ_f θ_kf Φ_f,     Φ = 1 and products of columns of the other variables

in the standard gauge. Each node is fitted by itself, so that a test at a node needs no joint fit. A weak ridge,
N(0, 3²) on couplings of columns scaled to [0, 1], keeps a maximum where values are separated, and changes nothing
elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from math import sqrt

import numpy as np
from scipy import linalg

from hbm_learn._kernels import score
from hbm_learn._threads import in_threads
from hbm_learn.assessment import two_values
from hbm_learn.assessment.node_data import NodeData
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.parameters import independent_own
from hbm_learn.optimise import quasi_newton
from hbm_learn.terms import Terms

PRIOR_SCALE = 3.0
# What is left of the log-likelihood, in nats, when a node counts as fitted, and when that will do for a look at it.
_ENOUGH, _ROUGHLY = 1e-11, 1e-3


class Node:
    """Site a given the others, with the interactions of a closed set.

    Attributes
    ----------
    features : list of (m, k) arrays
        The monomials Φ beyond the constant, one array of sets of columns for each k.
    outputs : list of arrays
        For each function of O the monomials (0: the constant) that it has a parameter for.
    ptr : (o + 1,) array
        Parameters of output k are ``ptr[k]:ptr[k + 1]``.
    interaction : (P,) array
        The set of columns, by its position in ``model``, that each parameter is the coupling of; −1 for a field.
    weights : (R,) array
        Of the rows; zero where the variable was missing.
    theta : (P,) array
    H : (P, P) array
        −∂² of the log-likelihood with the ridge, at θ.
    """

    def __init__(self, data: NodeData, site: int, model: Interactions):
        self.data, self.site, self.model, self.O = data, site, model, _plain(data.own[site])
        self.first = int(data.space.column_ptr[site])
        self.n_columns = int(data.space.column_ptr[site + 1]) - self.first
        rests, columns, where = _members(model, range(self.first, self.first + self.n_columns))
        self.features, place = _distinct_sets(rests)
        self.outputs, held = [], []
        for k in range(self.O.shape[1]):
            mine = np.flatnonzero(columns == self.first + k) if k < self.n_columns else np.zeros(0, dtype=np.intp)
            self.outputs.append(np.concatenate([[0], 1 + place[mine]]).astype(np.intp))
            held.append(np.concatenate([[-1], where[mine]]).astype(np.intp))
        self.interaction = np.concatenate(held)
        self.ptr = np.concatenate([[0], np.cumsum([len(m) for m in self.outputs])])
        extents = [np.ones(1), *(data.extent[rows].prod(axis=1) for rows in self.features)]
        extent = np.concatenate(extents)
        ridge = [
            (extent[m] * data.extent[self.first + min(k, self.n_columns - 1)] / PRIOR_SCALE) ** 2
            for k, m in enumerate(self.outputs)
        ]
        self.ridge = np.where(self.interaction >= 0, np.concatenate(ridge), 0.0)
        self._owners: tuple[Terms, tuple[np.ndarray, np.ndarray, np.ndarray]] | None = None
        self.x, self.weights = data.codes[site], data.weights_of(site)
        if self.is_binary:
            self.gap, self.side = float(self.O[1, 0] - self.O[0, 0]), np.where(self.x == 1, 1.0, -1.0)
        self.theta = np.zeros(len(self.interaction))
        self.theta[self.ptr[:-1]] = independent_own(self.O, data.frequencies[site])

    # ------------------------------------------------------------------ passes over the rows

    @cached_property
    def _complete(self) -> list[bool]:
        """Whether an output takes every monomial, in order: then no copy is needed."""
        K = 1 + sum(len(rows) for rows in self.features)
        return [len(m) == K and bool((m == np.arange(K)).all()) for m in self.outputs]

    @property
    def is_binary(self) -> bool:
        """Two values: the kernels for whole arrays serve."""
        return self.O.shape == (2, 1)

    def design(self, where: slice) -> np.ndarray:
        """Φ (K, C)."""
        K = 1 + sum(len(rows) for rows in self.features)
        held = self.data.hold(self, self._design, K * len(self.data.weights))
        return self._design(where) if held is None else held[:, where]

    def _design(self, where: slice) -> np.ndarray:
        ends = 1 + np.cumsum([0, *(len(rows) for rows in self.features)])
        out = np.empty((ends[-1], where.stop - where.start))
        out[0] = 1.0
        for rows, lo, hi in zip(self.features, ends, ends[1:]):
            self.data.monomials(rows, where, out[lo:hi])
        return out

    def fields(self, theta: np.ndarray, Phi: np.ndarray) -> np.ndarray:
        """η (B, o, C) of parameters (B, P)."""
        out = np.empty((len(theta), len(self.outputs), Phi.shape[1]))
        for k, (lo, hi) in enumerate(pairwise(self.ptr)):
            if hi == lo + 1:
                out[:, k] = theta[:, lo : lo + 1]
            else:
                out[:, k] = theta[:, lo:hi] @ (Phi if self._complete[k] else Phi[self.outputs[k]])
        return out

    def adjoint(self, Z: np.ndarray, Phi: np.ndarray) -> np.ndarray:
        """(B, P) Σ_r Z_kr Φ_fr of Z (B, o, C)."""
        parts = [
            Z[:, k] @ (Phi if self._complete[k] else Phi[m]).T if len(m) > 1 else Z[:, k].sum(axis=1, keepdims=True)
            for k, m in enumerate(self.outputs)
        ]
        return np.concatenate(parts, axis=1)

    def value_gradient(self, theta: np.ndarray, with_value: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Σ w ln p(x) (B,) without the ridge, and its gradient (B, P), for parameters (B, P)."""
        value, gradient = np.zeros(len(theta)), np.zeros_like(theta)
        for where in self.data.chunks(len(theta) * len(self.outputs)):
            Phi = self.design(where)
            residual, part = self.residuals(self.fields(theta, Phi), where, with_value)
            value += part
            gradient += self.adjoint(residual, Phi)
        return value, gradient

    def residuals(self, eta: np.ndarray, where: slice, with_value: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """w (O(x) − ⟨O⟩) (B, o, C) for η (B, o, C), and Σ w ln p(x) (B,), which two values leave out unless wanted."""
        w = self.weights[where]
        if self.is_binary:
            residual, seen = two_values.residuals(eta[:, 0], self.gap, self.side[where], w)
            return residual[:, None], np.log(seen) @ w if with_value else np.zeros(len(eta))
        residual = np.empty(eta.shape)
        value = score.residuals(_plain(eta), self.O, self.x[where], w, residual)
        return residual, value

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        """(P, P) with the ridge, at one θ (P,)."""
        H = np.diag(self.ridge)
        for where in self.data.chunks():
            Phi = self.design(where)
            C = self.covariance(self.fields(theta[None], Phi)[0], where)
            if len(self.outputs) == 1 and self._complete[0]:
                weighted = Phi * np.sqrt(C[0, 0])
                H += weighted @ weighted.T  # which BLAS takes as symmetric
                continue
            for k, mine in enumerate(self.outputs):
                for l in range(k, len(self.outputs)):
                    block = (Phi[mine] * C[k, l]) @ Phi[self.outputs[l]].T
                    H[self.ptr[k] : self.ptr[k + 1], self.ptr[l] : self.ptr[l + 1]] += block
        upper = np.triu(H)
        return upper + np.triu(H, 1).T

    def _rows_of_hessian(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """(len(rows), P) some rows of it."""
        out, at = np.diag(self.ridge)[rows], np.searchsorted(self.ptr, rows, side="right") - 1
        for where in self.data.chunks():
            Phi = self.design(where)
            C = self.covariance(self.fields(theta[None], Phi)[0], where)
            for k in np.unique(at):
                part = Phi[self.outputs[k][rows[at == k] - self.ptr[k]]]
                for l, mine in enumerate(self.outputs):
                    whole = Phi if self._complete[l] else Phi[mine]
                    out[at == k, self.ptr[l] : self.ptr[l + 1]] += (part * C[k, l]) @ whole.T
        return out

    def covariance(self, eta: np.ndarray, where: slice) -> np.ndarray:
        """(o, o, C) w Cov(O_k, O_l) for η (o, C)."""
        if self.is_binary:
            return two_values.variances(eta, self.gap, self.weights[where])[None]
        out = np.empty((len(eta), *eta.shape))
        score.covariances(_plain(eta), self.O, self.weights[where], out)
        return out

    def covariance_products(self, eta: np.ndarray, h: np.ndarray, where: slice) -> np.ndarray:
        """w Cov(O, h·O) (B, o, C) for η and h (B, o, C)."""
        w = self.weights[where]
        if self.is_binary:
            return two_values.variances(eta, self.gap, w) * h
        out = np.empty(h.shape)
        score.covariance_products(_plain(eta), _plain(h), self.O, w, out)
        return out

    def unseen(self, params: np.ndarray) -> np.ndarray:
        """(B, o, R) what the fields of some parameters lack once rows where a member was missing are left out."""
        out = np.zeros((len(params), len(self.outputs), len(self.weights)))
        every = slice(0, len(self.weights))
        sets = [row for rows in self.features for row in rows]
        for b, r in enumerate(params):
            k = int(np.searchsorted(self.ptr, r, side="right")) - 1
            row = sets[self.outputs[k][r - self.ptr[k]] - 1][None]
            out[b, k] = (self.data.monomials(row, every, tested=True) - self.data.monomials(row, every))[0]
        return out

    # ------------------------------------------------------------------ fit

    def fit(self, before: Node | None = None, rough: bool = False) -> Node:
        """θ at its maximum, and H there; from the maximum of the same variable in another model, if there is one.

        If ``rough``, θ within a thousandth of a nat, and H where the last steps began.
        """
        H = None if before is None else self._start(before)
        self.theta, self.H = self.maximise(self.theta, H, enough=_ROUGHLY if rough else _ENOUGH)
        if not rough:
            self.H = self.hessian(self.theta)
        return self

    def _start(self, before: Node) -> np.ndarray:
        """Take θ from a node with other interactions, one step from its maximum if it had more; and H as far as it
        had it, the rest made here."""
        old = np.append(before.model.positions(self.model), -1)[self.interaction]
        place = np.full(len(before.model) + 1, -1, dtype=np.intp)
        mine = before.interaction >= 0
        place[before.interaction[mine]] = np.flatnonzero(mine)
        where = np.where(self.interaction >= 0, np.where(old >= 0, place[old], -1), -1)
        where[self.ptr[:-1]] = before.ptr[:-1]
        gone = np.setdiff1d(np.arange(len(before.theta)), where)
        theta = before.theta
        if len(gone):
            q = before.inverse[:, gone]
            theta = theta - q @ np.linalg.solve(q[gone], theta[gone])
        self.theta = np.where(where >= 0, theta[where], 0.0)
        H, new = before.H[np.ix_(where, where)], np.flatnonzero(where < 0)
        if len(new):
            H[new] = self._rows_of_hessian(self.theta, new)
            H[:, new] = H[new].T
        return H

    def maximise(
        self, theta: np.ndarray, H: np.ndarray | None, fixed: np.ndarray | None = None, enough: float = _ENOUGH
    ) -> tuple[np.ndarray, np.ndarray]:
        """θ at the maximum and the last H, from a start with an H that is good enough, or None.

        Parameters in ``fixed`` (P,) keep their values.
        """
        free = np.ones(len(theta), dtype=bool) if fixed is None else ~fixed
        return quasi_newton.maximise(self._penalised, self.hessian, theta, H, free, enough)

    def _penalised(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self.value_gradient(theta[None])
        return float(value[0]) - 0.5 * float(self.ridge @ theta**2), gradient[0] - self.ridge * theta

    @cached_property
    def inverse(self) -> np.ndarray:
        """H⁻¹."""
        return linalg.cho_solve(quasi_newton.factor(self.H), np.eye(len(self.H)))

    @cached_property
    def freedom(self) -> float:
        """√(1 − P/M), what chance leaves of a score beside P parameters of an output that were fitted to M rows, those
        that the ridge holds not counted.

        Residuals are smaller than the errors that they stand for, and scores and Wald's statistics larger in their
        units, by what linear regression knows as degrees of freedom. With four rows a parameter a p-value of 10⁻⁴ would
        else be six times as frequent as it says.
        """
        fitted = 1.0 - self.ridge * np.diag(self.inverse)
        P = max(float(fitted[lo:hi].sum()) for lo, hi in pairwise(self.ptr.tolist()))
        return sqrt(max(1.0 - P / float(self.weights.sum()), 0.0))

    def owners(self, terms: Terms) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the fitted node: the term of each parameter (P,), −1 where there is none; the terms that it has; and of
        each of these the mean efficient variance of its scores."""
        if self._owners is None or self._owners[0] is not terms:
            owner = np.full(len(self.interaction), -1, dtype=np.intp)
            for k in np.intersect1d(self.model.orders, terms.columns.orders).tolist():
                where = self.model.slice(k)
                mine = np.flatnonzero((self.interaction >= where.start) & (self.interaction < where.stop))
                place = terms.columns.locate(self.model.block(k)[self.interaction[mine] - where.start])
                owner[mine] = np.where(place >= 0, terms.group[place], -1)
            mine = np.flatnonzero(owner >= 0)
            v = 1.0 / np.maximum(np.diag(self.inverse)[mine], 1e-300)
            found, at = np.unique(owner[mine], return_inverse=True)
            self._owners = terms, (owner, found, np.bincount(at, v) / np.maximum(np.bincount(at), 1))
        return self._owners[1]

    @property
    def spread(self) -> float:
        """The mean variance of the node's columns given the others, at most about 1: what a test has to work with."""
        fields = self.ptr[: self.n_columns]
        return float(np.mean(np.diag(self.H)[fields])) / self.data.n_samples


def _plain(array: np.ndarray) -> np.ndarray:
    """Contiguous and writable: one layout, for which the kernels are compiled once."""
    return np.require(array, requirements=("C", "W"))


def fit_nodes(
    data: NodeData,
    sites: Iterable[int],
    model: Interactions,
    before: dict[int, Node] | None = None,
    rough: bool = False,
) -> dict[int, Node]:
    """The nodes of some sites with what a closed set of interactions gives them, from those of another model."""
    sites, before = [int(a) for a in sites], before or {}
    return dict(zip(sites, in_threads(lambda a: Node(data, a, model).fit(before.get(a), rough), sites, data.n_jobs)))


def _members(model: Interactions, columns: range) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """For every set with one of the columns: the rest of it (one array an order), that column, and its position."""
    rests, which, positions = [], [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.intp)]
    for k in model.orders:
        block = model.block(k)
        mine = (block >= columns.start) & (block < columns.stop)
        rows = np.flatnonzero(mine.any(axis=1))
        rests.append(block[rows][~mine[rows]].reshape(-1, k - 1))
        which.append(block[rows][mine[rows]])
        positions.append(model.slice(k).start + rows)
    return rests, np.concatenate(which), np.concatenate(positions)


def _distinct_sets(rests: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
    """The different rows of each array, and where each row of all arrays stands among all different ones."""
    found, place, count = [], [np.zeros(0, dtype=np.intp)], 0
    for rows in rests:
        unique, inverse = np.unique(rows, axis=0, return_inverse=True)
        found.append(unique)
        place.append(count + inverse.ravel())
        count += len(unique)
    return found, np.concatenate(place)
