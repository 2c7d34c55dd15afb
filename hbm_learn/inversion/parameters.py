"""Parameters: θ = (own, J), the one order of parameters in which every fit works.

    θ_i(x) = Σ_k own_ik O_ik(x),     −H(x) = Σ_i θ_i(x_i) + Σ_μ J_μ Π_{c∈μ} φ_c(x)

The functions O_i of one variable alone begin with its columns φ_i, so that an own parameter is the intercept of the
field of its column; what follows (−½ φ², and further functions where every value has a weight of its own) stands for
itself. A given variable has none: it is not modelled. A fit works in one gauge of φ; ``coding`` leads from there to the
user's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from hbm_learn.interactions import Interactions
from hbm_learn.model import BoltzmannMachine, gauge
from hbm_learn.model.site_weights import add_columns, quadratic_rows
from hbm_learn.space import Space
from hbm_learn.terms import Terms

# A field or coupling times the range of its functions that no data determine: odds of e⁴⁰ want as many samples.
UNBOUNDED = 40.0
SITES = ("free", "quadratic")


class Parameters:
    """Which parameters there are, and what they mean.

    Parameters
    ----------
    space : Space
        The gauge that the fit works in: functions φ of each finite site.
    columns : Interactions
        The p interacting sets of columns.
    site : str
        "free": every value has a weight of its own; "quadratic": h x − ½ d x² for numeric sites.
    frequencies : sequence of (q_i,) arrays
        Of the values in the data. A numeric site with a value that never occurs is quadratic in any case: the weight of
        such a value would run to minus infinity.

    Attributes
    ----------
    own : tuple of (q_i, o_i) arrays
        O_i; the first r_i columns are φ_i. Of a given site (q_i, 0).
    own_ptr : (n + 1,) array
        The own parameters of site i are ``own_ptr[i]:own_ptr[i + 1]`` of θ.
    n_own, n_params : int
        Own parameters, and all: n_own + p.
    fields : (N',) array
        The columns that have a field: those of modelled sites.
    field_ptr : (n + 1,) array
        The fields of site i are ``fields[field_ptr[i]:field_ptr[i + 1]]``.
    """

    def __init__(self, space: Space, columns: Interactions, site: str, frequencies: Sequence[np.ndarray]):
        if site not in SITES:
            raise ValueError(f"site={site!r} is not known; choose one of {', '.join(map(repr, SITES))}.")
        self.space, self.columns, self.site, self.frequencies = space, columns, site, list(frequencies)
        known: dict[tuple[int, bytes], np.ndarray] = {}
        own = []
        for i, (table, p) in enumerate(zip(space.functions, self.frequencies)):
            assert table is not None  # finite sites
            if space.given[i]:
                own.append(np.zeros((len(table), 0)))
                continue
            key = (id(table), p.tobytes())
            if key not in known:
                known[key] = own_functions(table, p, site == "free", space.alphabets[i].is_nominal)
            own.append(known[key])
        self.own = tuple(own)
        self.own_ptr = np.concatenate([[0], np.cumsum([O.shape[1] for O in own])]).astype(np.intp)
        self.n_own = int(self.own_ptr[-1])
        self.n_params = self.n_own + len(columns)
        self.fields = np.flatnonzero(~space.given[space.site])
        self.field_ptr = np.concatenate([[0], np.cumsum(np.where(space.given, 0, np.diff(space.column_ptr)))])
        self._transferred: tuple[Space, sparse.csr_array] | None = None

    @cached_property
    def terms(self) -> Terms:
        return Terms(self.space, self.columns)

    @cached_property
    def column_params(self) -> np.ndarray:
        """(N',) the own parameter that is the intercept of each of ``fields``."""
        site = self.field_site
        return self.own_ptr[site] + self.fields - self.space.column_ptr[site]

    @property
    def field_site(self) -> np.ndarray:
        """(N',) the site of each of ``fields``."""
        return self.space.site[self.fields]

    def over_columns(self, values: np.ndarray) -> np.ndarray:
        """(N,) from (N',) values of fields, zero for columns of given sites."""
        out = np.zeros(self.space.n_columns)
        out[self.fields] = values
        return out

    @cached_property
    def carriers(self) -> np.ndarray:
        """(P,) the share of rows that carry the variance of each sufficient statistic if variables are independent.

        ⟨t²⟩²/⟨t⁴⟩ of products of centred functions: of a pattern of rare events, about how often it occurs.
        """
        share, edges = np.empty(self.space.n_columns), self.space.column_ptr
        for i, (table, p) in enumerate(zip(self.space.functions, self.frequencies)):
            assert table is not None
            squares = (table - p @ table) ** 2
            if self.space.alphabets[i].is_nominal:  # what does not depend on the basis
                squares = np.repeat(squares.sum(axis=1, keepdims=True), table.shape[1], axis=1)
            share[edges[i] : edges[i + 1]] = (p @ squares) ** 2 / np.maximum(p @ squares**2, 1e-300)
        out = np.ones(self.n_params)
        out[self.column_params] = share[self.fields]
        for k in self.columns.orders:
            where = self.columns.slice(k)
            out[self.n_own + where.start : self.n_own + where.stop] = np.prod(share[self.columns.block(k)], axis=1)
        return out

    def reach(self, theta: np.ndarray) -> np.ndarray:
        """(p,) what each coupling can add to an energy: |J| times the ranges of its functions."""
        width = np.array([np.ptp(self.space.padded[c]) for c in range(self.space.n_columns)])
        ranges = [np.prod(width[self.columns.block(k)], axis=1) for k in self.columns.orders]
        return np.abs(theta[self.n_own :]) * np.concatenate([*ranges, np.zeros(0)])

    def block_means(self, values: np.ndarray) -> np.ndarray:
        """(P,) values, each replaced by its mean over the own functions of its site, or the columns of its term."""
        sizes = np.diff(self.own_ptr)[np.diff(self.own_ptr) > 0]
        first = self.own_ptr[:-1][np.diff(self.own_ptr) > 0]
        own = np.repeat(np.add.reduceat(values[: self.n_own], first) / sizes, sizes)
        return np.concatenate([own, self.terms.means(values[self.n_own :])])

    # ------------------------------------------------------------------ θ ↔ model

    def tables(self, theta: np.ndarray) -> list[np.ndarray]:
        """θ_i over the values of each site."""
        return [O @ theta[lo:hi] for O, lo, hi in zip(self.own, self.own_ptr[:-1], self.own_ptr[1:])]

    def model(self, theta: np.ndarray, space: Space | None = None) -> BoltzmannMachine:
        """The model of θ, in the gauge of the fit or, as ``coding`` has it, in another."""
        own, J = self.tables(theta), theta[self.n_own :]
        if space is None or space is self.space:
            return BoltzmannMachine.from_columns(self.space, own, self.columns, J, self.frequencies)
        image = self._transfer(space) @ J
        own = add_columns(space, own, image[: space.n_columns])
        return BoltzmannMachine.from_columns(space, own, self.columns, image[space.n_columns :], self.frequencies)

    def pack(self, model: BoltzmannMachine) -> np.ndarray:
        """θ of a model on the same variables, in any gauge: its own weights as near as O comes, couplings that it lacks
        as zero."""
        if model.space is not self.space and model.space != self.space:
            model = model.in_space(self.space)
        at = model.columns.positions(self.columns)
        J = np.where(at >= 0, np.append(model.column_weights, 0.0)[at], 0.0)
        return np.concatenate([*self._coefficients(model.own), J])

    def independent(self, weight: float = 0.0) -> np.ndarray:
        """θ of independent variables with the data's frequencies, moved by ``weight`` towards uniform ones."""
        shares = [(1.0 - weight) * p + weight / len(p) for p in self.frequencies]
        own = self._coefficients([np.log(np.maximum(p, 1e-300)) for p in shares])
        for i, (O, p) in enumerate(zip(self.own, shares)):
            if O.shape[1] and (O.shape[1] < len(O) - 1 or (p <= 0).any()):  # O does not hold ln p
                own[i] = independent_own(O, p)
        return np.concatenate([*own, np.zeros(len(self.columns))])

    def _coefficients(self, tables: Sequence[Any]) -> list[np.ndarray]:
        """(o_i,) with O_i own_i = table_i up to a constant, or as near as can be under p_i (and a little of every
        value)."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for i, O in enumerate(self.own):
            groups.setdefault(O.shape, []).append(i)
        out: list[Any] = [None] * len(self.own)
        for (q, o), sites in groups.items():
            root = np.sqrt(np.array([self.frequencies[i] for i in sites]) + 1e-9)[:, :, None]
            design = np.ones((len(sites), q, o + 1))
            design[:, :, 1:] = [self.own[i] for i in sites]
            inverse = np.linalg.pinv(design * root, rcond=np.finfo(float).eps * max(q, o + 1))
            found = inverse @ (np.array([tables[i] for i in sites])[:, :, None] * root)
            for i, own in zip(sites, found[:, 1:, 0]):
                out[i] = own
        return out

    def label(self, r: int, names: Sequence[str] | None) -> str:
        """How messages name parameter r."""
        if r >= self.n_own:
            mu = self.terms.members(int(self.terms.group[r - self.n_own]))
            return f"J of ({', '.join(str(i if names is None else names[i]) for i in mu)})"
        i = int(np.searchsorted(self.own_ptr, r, side="right")) - 1
        what = "the field" if r < self.own_ptr[i] + np.diff(self.space.column_ptr)[i] else "a weight"
        return f"{what} of {i if names is None else names[i]}"

    # ------------------------------------------------------------------ the user's coding

    def coding(self, space: Space) -> sparse.csr_array:
        """(n + p, P): h of every site and J of every set of columns in another gauge, as linear functions of θ.

        h of a nominal site is zero. Where constants tell the gauges apart, the set of columns must be closed.
        """
        N, T = self.space.n_columns, self._transfer(space)
        row = [np.zeros((1, q)) for q in space.sizes]
        for alphabet, sites in space.modelled_by_alphabet:
            if not alphabet.is_nominal:
                found = quadratic_rows(alphabet, np.array([self.frequencies[i] for i in sites]))[..., :1, :]
                for i, each in zip(sites, np.broadcast_to(found, (len(sites), 1, alphabet.size))):
                    row[i] = each
        own = _block_rows([r @ O for r, O in zip(row, self.own)], self.own_ptr)
        fields = _block_rows([r @ np.asarray(table) for r, table in zip(row, space.functions)], space.column_ptr)
        return sparse.csr_array(sparse.block_array([[own, fields @ T[:N]], [None, T[N:]]]))

    def _transfer(self, space: Space) -> sparse.csr_array:
        """(N + p, p) [θ; J] in another gauge from J of this one; kept for the last gauge asked for."""
        N, p = self.space.n_columns, len(self.columns)
        if space is self.space:
            return sparse.csr_array((np.ones(p), (N + np.arange(p), np.arange(p))), shape=(N + p, p))
        if self._transferred is None or self._transferred[0] is not space:
            self._transferred = space, gauge.transfer(self.columns, self.space, self.space.relation(space))
        return self._transferred[1]


def _block_rows(rows: Sequence[np.ndarray], ptr: np.ndarray) -> sparse.csr_array:
    """(n, ptr[−1]) row i in the columns ptr[i]:ptr[i + 1], zero elsewhere; each of ``rows`` is (1, ·)."""
    return sparse.csr_array((np.concatenate(rows, axis=1)[0], np.arange(ptr[-1]), ptr), shape=(len(rows), ptr[-1]))


def own_functions(functions: np.ndarray, p: np.ndarray, free: bool, nominal: bool) -> np.ndarray:
    """(q, o) functions of one variable alone: its columns, −½ φ_1² if that is none of them, and, if every value has a
    weight of its own, what completes them, orthonormal under the frequencies p."""
    q, r = functions.shape
    if nominal or r == q - 1:
        return functions
    O = functions if r > 1 else np.column_stack([functions, -0.5 * functions[:, 0] ** 2])
    if not free or O.shape[1] == q - 1 or (p <= 0).any():
        return O
    root = np.sqrt(p)[:, None]
    x = np.linspace(-1.0, 1.0, q)[:, None]
    basis = np.column_stack([np.ones(q), O, x ** np.arange(1, q)]) * root
    Q = np.linalg.qr(_leading(basis, q))[0]
    return np.column_stack([O, Q[:, O.shape[1] + 1 :] / root])


def _leading(basis: np.ndarray, q: int) -> np.ndarray:
    """The first q linearly independent columns."""
    kept: list[np.ndarray] = []
    for column in basis.T:
        trial = np.column_stack([*kept, column / np.linalg.norm(column)])
        if np.linalg.svd(trial, compute_uv=False)[-1] > 1e-9:
            kept = list(trial.T)
        if len(kept) == q:
            break
    return np.column_stack(kept)


def independent_own(O: np.ndarray, p: np.ndarray, max_iter: int = 200) -> np.ndarray:
    """(o,) own parameters of a variable with frequencies p: ⟨O⟩ matches, by Newton; ln p itself if O is complete."""
    if O.shape[1] == len(O) - 1 and (p > 0).all():
        return np.linalg.lstsq(np.column_stack([np.ones(len(O)), O]), np.log(p), rcond=None)[0][1:]
    target, theta = p @ O, np.zeros(O.shape[1])
    value = _site_value(O, theta, target)
    for _ in range(max_iter):
        exponent = O @ theta
        w = np.exp(exponent - exponent.max())
        w /= w.sum()
        centred = O - w @ O
        gradient = target - w @ O
        step = np.linalg.lstsq((centred * w[:, None]).T @ centred, gradient, rcond=None)[0]
        if np.abs(gradient).max() <= 1e-13 * np.abs(O).max() or gradient @ step <= 1e-28:
            break
        length = 1.0
        while length > 1e-10 and _site_value(O, theta + length * step, target) < value:
            length *= 0.5
        theta = theta + length * step
        value = _site_value(O, theta, target)
    return theta


def _site_value(O: np.ndarray, theta: np.ndarray, target: np.ndarray) -> float:
    exponent = O @ theta
    top = exponent.max()
    return float(theta @ target - top - np.log(np.exp(exponent - top).sum()))
