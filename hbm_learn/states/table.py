"""StateTable: P(x) on all states of a model, as two transforms of a table.

    −H(x) = Σ_i θ_i(x_i) + Σ_μ J_μ φ_μ(x),     ⟨φ_μ⟩ = Σ_x P(x) φ_μ(x),     φ_μ = Π_{c∈μ} φ_c

Every variable is an axis with its own number q_i of values. The coefficients J_μ, laid out by the function (or none)
that μ takes of each site, are mapped to the energies of all Π q_i states by one (q_i, 1 + r_i) matrix an axis, and P is
mapped to the moments of all sets of columns by its transpose: O(n Π q_i), whatever the number of interactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from hbm_learn._kernels import transform as kernels
from hbm_learn.interactions import Interactions
from hbm_learn.model import BoltzmannMachine
from hbm_learn.space import Space
from hbm_learn.states import axes, transforms
from hbm_learn.states.axes import MAX_STATES
from hbm_learn.states.products import factors, products, products_two_valued

__all__ = ["MAX_STATES", "StateTable"]

# Joint cumulants of order k take 3^(k−1) terms each; beyond this many they are not computed.
MAX_CUMULANT_TERMS = 2e9


class StateTable:
    """P(x) on all Π q_i states of a model, and every moment of it.

    State number Σ_i digit_i Π_{j<i} q_j has the value number digit_i of variable i: site 0 varies fastest. On an
    Interval the values are the nodes of a Gauss–Legendre grid, and p holds density × weight: sums over p are integrals.
    If −H varies by up to s along each variable, the error is about 1e-12 for s = 100 with 64 nodes (n ≤ 4), s = 16 with
    27 nodes (n = 5), s = 4 with 16 nodes (n = 6); ``exact`` compares two grids to see.

    Parameters
    ----------
    model : BoltzmannMachine
        Not on the real line, and with at most 2**24 states.
    n_nodes : int
        Grid points of a variable on an Interval; by default as many as 2**24 states allow, up to 64.

    Attributes
    ----------
    p : (Π q_i,) array
        Probabilities.
    log_partition, entropy : float
        ln Z and −⟨ln P⟩ in nats (differential on an Interval).
    sizes : list of int
        q_i, the number of values or of grid nodes of each variable.
    marginals : list of (q_i,) arrays
        P(x_i) of each variable.
    m, V : (N,) arrays
        Means and variances of the columns.

    Examples
    --------
    >>> table = StateTable(BoltzmannMachine([0.0, 0.0], {(0, 1): 1.0}))
    >>> table.states([0, 1, 3]).tolist(), table.p.round(3).tolist()
    ([[-1, -1], [1, -1], [1, 1]], [0.44, 0.06, 0.06, 0.44])
    """

    def __init__(self, model: BoltzmannMachine, n_nodes: int | None = None):
        space = self.space = model.space
        if space.has_given:
            raise ValueError("some variables of the model are given: list the states of model.condition(values).")
        self.sizes = axes.axis_sizes(space, n_nodes)
        # Nodes and log weights of each variable on an interval.
        self._grids = {
            int(i): axes.grid(space.alphabets[i].bounds, self.sizes[i]) for i in np.flatnonzero(space.sizes == 0)
        }
        own = list(model.own)
        for i, (x, log_w) in self._grids.items():
            own[i] = model.h[i] * x - 0.5 * model.d[i] * x**2 + log_w
        self._column_codes = axes.column_codes(space)
        w = self._polynomial(space, model.columns, model.column_weights)
        peak, z, s = transforms.boltzmann_weights(w, own)
        w /= z
        self.p = w
        self.p.setflags(write=False)
        self.marginals = transforms.marginals(self.p, self.sizes)
        self.log_partition = float(peak + np.log(z))
        widths = sum(self.marginals[i] @ log_w for i, (_, log_w) in self._grids.items())
        self.entropy = float(np.log(z) - s / z + widths)
        P, phi = self._by_column
        self.m = (P * phi).sum(axis=1)
        y = phi - self.m[:, None]
        # ⟨φ − m⟩ is zero but for the last digit of m, which counts when a variable is frozen.
        self.V = (P * y**2).sum(axis=1) - (P * y).sum(axis=1) ** 2
        self._moments: tuple[Space, np.ndarray] | None = None

    def reweighted(self, weights: np.ndarray) -> StateTable:
        """The same states with other weights in place of p: what ``statistics`` and ``moments`` then sum over.

        Parameters
        ----------
        weights : (Π q_i,) array
            Not negative; they need not sum to 1.
        """
        other = copy(self)
        for name in ("_by_column", "central"):  # of the old p
            other.__dict__.pop(name, None)
        other.__dict__.update(p=weights, marginals=transforms.marginals(weights, self.sizes), _moments=None)
        return other

    # ------------------------------------------------------------------ states

    def codes(self, indices: Any) -> np.ndarray:
        """(k, n) codes of the states with these (k,) numbers; with a continuous variable floats, its entries values."""
        digits = np.asarray(indices)[:, None] // transforms.strides(self.sizes) % self.sizes
        if self.space.is_finite:
            return digits.astype(np.uint8)
        out = digits.astype(np.float64)
        for i, (x, _) in self._grids.items():
            out[:, i] = x[digits[:, i]]
        return out

    def states(self, indices: Any) -> np.ndarray:
        """(k, n) values or labels of the states with these (k,) numbers."""
        return self.space.decode(self.codes(indices))

    @cached_property
    def _by_column(self) -> tuple[np.ndarray, np.ndarray]:
        """(N, q) P and φ over the values of the site of each column; P is zero beyond them."""
        if len(set(self.sizes)) == 1:
            P = np.array(self.marginals)
        else:
            P = np.zeros((len(self.sizes), max(self.sizes)))
            for row, p in zip(P, self.marginals):
                row[: len(p)] = p
        if self.space.is_finite:
            return P[self.space.site], self.space.padded
        phi = np.zeros((self.space.n_columns, P.shape[1]))
        for i, (lo, table) in enumerate(zip(self.space.column_ptr, self._functions(self.space))):
            phi[lo : lo + table.shape[1], : self.sizes[i]] = table.T
        return P[self.space.site], phi

    def _functions(self, space: Space) -> Sequence[np.ndarray]:
        """(q_i, r_i) functions of each axis."""
        functions: list[Any] = list(space.functions)
        for i, (x, _) in self._grids.items():
            functions[i] = x[:, None]
        return functions

    def _matrices(self, space: Space) -> Sequence[np.ndarray] | np.ndarray:
        """(q_i, 1 + r_i) the constant and the functions of each axis; one array of all if every site has two values."""
        if not space.is_binary:
            return axes.with_ones(self._functions(space))
        W = np.ones((space.n_features, 2, 2))
        W[:, :, 1] = space.padded
        return W

    def _codes(self, space: Space) -> np.ndarray:
        return self._column_codes if space is self.space else axes.column_codes(space)

    def _polynomial(self, space: Space, columns: Interactions, weights: np.ndarray) -> np.ndarray:
        """(Π q_i,) Σ_μ J_μ φ_μ of all states."""
        W = self._matrices(space)
        theta = np.zeros(prod(w.shape[1] for w in W))
        theta[axes.set_codes(columns, self._codes(space))] = weights
        return transforms.transform(theta, W)

    def _moments_of(self, u: np.ndarray, space: Space) -> np.ndarray:
        """(Π (1 + r_i),) Σ_x u(x) φ_μ(x) of all sets of columns; u (Π q_i,) may be overwritten."""
        W = self._matrices(space)
        return transforms.transform(u, W.swapaxes(1, 2) if isinstance(W, np.ndarray) else [w.T for w in W])

    # ------------------------------------------------------------------ moments

    def moments(self, columns: Interactions) -> np.ndarray:
        """(p,) ⟨φ_μ⟩ of sets of columns, whether or not they are among the model's."""
        return self._moments_in(self.space, columns)

    def variances(self, columns: Interactions) -> np.ndarray:
        """(p,) ⟨φ_μ²⟩ − ⟨φ_μ⟩² of sets of columns: one more transform, of the squares of the functions."""
        W = self._matrices(self.space)
        squares = W.swapaxes(1, 2) ** 2 if isinstance(W, np.ndarray) else [w.T**2 for w in W]
        second = transforms.transform(self.p.copy(), squares)[axes.set_codes(columns, self._codes(self.space))]
        return second - self.moments(columns) ** 2

    def _moments_in(self, space: Space, columns: Interactions) -> np.ndarray:
        return self._moment_table(space)[axes.set_codes(columns, self._codes(space))]

    def _moment_table(self, space: Space) -> np.ndarray:
        """(Π (1 + r_i),) ⟨φ_μ⟩ of all sets of columns of a gauge; kept for the last one asked for."""
        if self._moments is None or self._moments[0] is not space:
            self._moments = (space, self._moments_of(self.p.copy(), space))
        return self._moments[1]

    @cached_property
    def central(self) -> np.ndarray:
        """(Π (1 + r_i),) ⟨Π_{c∈S} (φ_c − m_c)⟩ of every set S of columns, at Σ_{c∈S} of their codes.

        Summed as such, not from raw moments, so that those of nearly frozen variables keep their digits.
        """
        functions = self._functions(self.space)
        if self.space.is_scalar and len(set(self.sizes)) == 1:  # all sites at once
            W = np.ones((len(functions), 2, self.sizes[0]))
            W[:, 1] = self._by_column[1] - self.m[:, None]
            return transforms.transform(self.p.copy(), W)
        means = np.split(self.m, self.space.column_ptr[1:-1])
        centred = axes.with_ones([table - m for table, m in zip(functions, means)])
        return transforms.transform(self.p.copy(), [w.T for w in centred])

    @property
    def chi(self) -> np.ndarray:
        """(N, N) covariances of the columns, χ_cd = ⟨φ_c φ_d⟩ − m_c m_d."""
        codes, site = self._codes(self.space), self.space.site
        rounding = self.central[codes]  # ⟨φ_c − m_c⟩, as for V
        where = codes[:, None] + codes
        where[site[:, None] == site] = 0  # of one site, from its marginal below
        chi = self.central[where] - rounding[:, None] * rounding
        if not self.space.is_scalar:
            self._fill_blocks(chi)
        np.fill_diagonal(chi, self.V)
        return chi

    def _fill_blocks(self, chi: np.ndarray) -> None:
        """Covariances of functions of one site, in place."""
        (P, phi), ptr = self._by_column, self.space.column_ptr
        for i in np.flatnonzero(np.diff(ptr) > 1):
            mine = slice(ptr[i], ptr[i + 1])
            y = phi[mine] - self.m[mine, None]
            mean = (P[mine] * y).sum(axis=1)
            chi[mine, mine] = (P[mine] * y) @ y.T - np.outer(mean, mean)

    def cumulants(self, columns: Interactions) -> np.ndarray | None:
        """(p,) joint cumulants of the members of each set; None if their 3^(order−1) terms are too many."""
        if (3.0 ** (np.diff(columns.indptr) - 1)).sum() > MAX_CUMULANT_TERMS:
            return None
        return kernels.joint_cumulants(self.central, self._codes(self.space), columns.members, columns.indptr)

    # ------------------------------------------------------------------ sufficient statistics

    def statistics(self, parameters: Any) -> np.ndarray:
        """⟨t⟩ = ∂ ln Z/∂θ, shape (P,), with t = (O_ik(x_i) site by site, φ_μ) in the order of the parameters.

        Parameters
        ----------
        parameters : Parameters
            Any with ``space``, ``columns`` and ``own``: (q_i, o_i) functions of each variable alone, of which the first
            r_i are its columns; None for x and −½ x² on an Interval.
        """
        own = self._own_sums(parameters, self.marginals)
        return np.concatenate([own, self._moments_in(parameters.space, parameters.columns)])

    def fisher(self, parameters: Any) -> np.ndarray:
        """F = ⟨t t'⟩ − ⟨t⟩⟨t⟩' = ∂² ln Z/∂θ², t as in ``statistics``, shape (P, P).

        Products of functions of a site are sums of functions of that site, so ⟨t t'⟩ is looked up in a table of
        moments. On {−1, 1}, φ_μ φ_ν = φ_{μ△ν}.
        """
        t, space, columns = self.statistics(parameters), parameters.space, parameters.columns
        if space.is_binary:
            codes = self._codes(space)
            codes = np.concatenate([codes, axes.set_codes(columns, codes)])
            F = products_two_valued(self._moment_table(space), codes, *space.padded.T)
        else:
            own = self._own(parameters)
            F = products(self.p, own, factors(space, columns, [O.shape[1] for O in own]))
        F -= t[:, None] * t
        return F

    def fisher_product(self, parameters: Any, v: np.ndarray) -> np.ndarray:
        """F v = Cov(t, v·t) for v (P,): v·t on all states, centred, weighted with p, and its moments; O(n Π q_i)."""
        space, columns = parameters.space, parameters.columns
        start = len(v) - len(columns)
        u = self._polynomial(space, columns, v[start:])
        tables = self._own_tables(parameters, v[:start])
        split = transforms.halves(self.sizes)
        cols = transforms.outer_sum(tables[:split])
        square = u.reshape(-1, len(cols))
        square += transforms.outer_sum(tables[split:])[:, None]
        square += cols
        u -= self.p @ u
        u *= self.p
        own = self._own_sums(parameters, transforms.marginals(u, self.sizes))
        return np.concatenate([own, self._moments_of(u, space)[axes.set_codes(columns, self._codes(space))]])

    def _own(self, parameters: Any) -> list[np.ndarray]:
        """(q_i, o_i) functions of each axis alone."""
        own = list(parameters.own)
        for i, (x, _) in self._grids.items():
            own[i] = np.column_stack([x, -0.5 * x**2])
        return own

    def _own_tables(self, parameters: Any, v: np.ndarray) -> list[np.ndarray]:
        """Σ_k v_ik O_ik over the values of each site, v (n_own,)."""
        if parameters.space.is_binary:  # O = φ: all sites at once
            return list(v[:, None] * parameters.space.padded)
        own = self._own(parameters)
        ends = np.cumsum([O.shape[1] for O in own])
        return [O @ part for O, part in zip(own, np.split(v, ends[:-1]))]

    def _own_sums(self, parameters: Any, shares: list[np.ndarray]) -> np.ndarray:
        """(n_own,) Σ_x share_i(x) O_ik(x) for a (q_i,) share of each site."""
        if parameters.space.is_binary:
            return (np.array(shares) * parameters.space.padded).sum(axis=1)
        return np.concatenate([share @ O for share, O in zip(shares, self._own(parameters))])
