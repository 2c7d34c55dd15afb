"""The factors of a model: its largest interacting sets of sites with tables over their states, and their tilted
distributions

    b_μ(x) ∝ Π_{i∈μ} p_i(x_i) · exp(αJ_μ(x) − Σ_{i∈μ} y^μ_i·w_i(x_i)),   ⟨w⟩ = 0

where w_i are functions of a site that span all, orthonormal under p_i: the fields y^μ are what b_μ must be given to
have the marginals p_i. An interaction within a larger one belongs to it, in equal shares where there are several.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product

import numpy as np

from hbm_learn._kernels import tilt as kernel
from hbm_learn.model import BoltzmannMachine
from hbm_learn.space import Space

_NEWTON = 200
MAX_FACTOR_STATES = 2**12


class FactorGroup:
    """All factors of one shape (q_1, …, q_k).

    Attributes
    ----------
    sites : (g, k) array
    states : (Q, k) array
        Codes of the states, the last member fastest.
    tables : (g, Q) array
        J_μ of every state.
    """

    def __init__(self, shape: tuple[int, ...], sites: np.ndarray, tables: np.ndarray):
        self.shape, self.sites, self.tables = shape, sites, tables
        self.states = np.array(list(product(*map(range, shape))))
        ends = np.cumsum([q - 1 for q in shape])
        self.parts = [slice(end - q + 1, end) for q, end in zip(shape, ends)]
        self.size = int(ends[-1])


@dataclass(frozen=True)
class Tilted:
    """The tilted distributions of a group: weights of states (g, Q), functions w (g, Q, R), y (g, R), ln ζ (g,)."""

    group: FactorGroup
    p: np.ndarray
    w: np.ndarray
    y: np.ndarray
    log_zeta: np.ndarray
    correlation: np.ndarray  # ⟨wwᵀ⟩ − I, (g, R, R), zero within sites

    @cached_property
    def inverse(self) -> np.ndarray:
        """⟨wwᵀ⟩⁻¹, (g, R, R)."""
        return np.linalg.inv(np.eye(self.group.size) + self.correlation)

    @cached_property
    def coupling(self) -> np.ndarray:
        """I − ⟨wwᵀ⟩⁻¹, (g, R, R): what A is in these units."""
        return self.inverse @ self.correlation

    @property
    def log_det(self) -> float:
        """Σ_μ ln det ⟨wwᵀ⟩."""
        return float(np.linalg.slogdet(np.eye(self.group.size) + self.correlation)[1].sum())

    @cached_property
    def slope(self) -> np.ndarray:
        """∂⟨wwᵀ⟩⁻¹/∂⟨w⟩, (g, R, R, R): −C⁻¹C⁻¹C⁻¹⟨www⟩."""
        g, Q, R = self.w.shape
        pairs = ((self.p[:, :, None] * self.w)[:, :, :, None] * self.w[:, :, None]).reshape(g, Q, R * R)
        cube = -np.swapaxes(pairs, 1, 2) @ self.w
        for _ in range(3):  # the inverse on each axis in turn
            cube = np.swapaxes(cube.reshape(g, R * R, R) @ self.inverse, 1, 2)
        return cube.reshape(g, R, R, R)

    @cached_property
    def by_alpha(self) -> tuple[np.ndarray, np.ndarray]:
        """∂y/∂α (g, R) and ∂⟨wwᵀ⟩⁻¹/∂α (g, R, R) at fixed means."""
        J = self.group.tables - np.einsum("gx,gx->g", self.p, self.group.tables)[:, None]
        weighted = (self.p * J)[:, :, None] * self.w
        rate = np.einsum("gab,gxb->ga", self.inverse, weighted)
        second = np.swapaxes(weighted, 1, 2) @ self.w
        third = np.einsum("gx,gxa,gxb,gxc,gc->gab", self.p, self.w, self.w, self.w, rate, optimize=True)
        return rate, -self.inverse @ (second - third) @ self.inverse


def find_factors(model: BoltzmannMachine) -> list[FactorGroup]:
    """The factors of a finite model, grouped by shape."""
    _check_size(model)
    groups = [group for k in model.columns.orders for group in _tables(model, k)]
    if model.columns.order < 3:
        return groups
    tables = {
        tuple(mu): table.reshape(group.shape)
        for group in groups
        for mu, table in zip(group.sites.tolist(), group.tables)
    }
    tables = _shared(tables, model.space.sizes)
    shapes: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for sites in sorted(tables, key=lambda mu: (len(mu), mu)):
        shapes.setdefault(tables[sites].shape, []).append(sites)
    return [
        FactorGroup(shape, np.array(members), np.stack([tables[mu].ravel() for mu in members]))
        for shape, members in shapes.items()
    ]


def _check_size(model: BoltzmannMachine) -> None:
    space = model.space
    for k in model.columns.orders:
        sites = space.site[model.columns.block(k)]
        states = np.prod(space.sizes[sites].astype(float), axis=1)
        if states.max() > MAX_FACTOR_STATES:
            mu = tuple(sites[int(np.argmax(states))].tolist())
            raise ValueError(
                f"method 'bethe': the interaction of variables {mu} has {states.max():.3g} states (limit "
                f"{MAX_FACTOR_STATES}): use method 'dc2', which lists no states."
            )


def _tables(model: BoltzmannMachine, k: int) -> list[FactorGroup]:
    """The sets of k sites with Σ J Π φ over all their states, by shape."""
    space = model.space
    rows, weights = model.columns.block(k), model.column_weights[model.columns.slice(k)]
    values = values_of(space)
    shapes, shape_of = np.unique(space.sizes[space.site[rows]], axis=0, return_inverse=True)
    out = []
    for r, shape in enumerate(map(tuple, shapes.tolist())):
        mine = rows[shape_of.ravel() == r]
        sites, where = np.unique(space.site[mine], axis=0, return_inverse=True)
        states = np.array(list(product(*map(range, shape))))
        terms = np.repeat(weights[shape_of.ravel() == r][:, None], len(states), axis=1)
        for j in range(k):
            terms *= values[mine[:, j]][:, states[:, j]]
        tables = np.zeros((len(sites), len(states)))
        np.add.at(tables, where.ravel(), terms)
        out.append(FactorGroup(shape, sites, tables))
    return out


def _shared(tables: dict[tuple[int, ...], np.ndarray], sizes: np.ndarray) -> dict[tuple[int, ...], np.ndarray]:
    """Tables of the largest sets alone. What any table says of a smaller set goes in equal shares to all that have it.

    "Says of a set" is the part that sums to zero over each of its members, so that no coding of the values matters.
    What is said of one site alone, or of none, is left where it is: the fields take it up.
    """
    parts: dict[tuple[int, ...], np.ndarray] = {}
    owners: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    out: dict[tuple[int, ...], np.ndarray] = {}
    for mu in sorted(tables, key=len, reverse=True):
        within = _components(mu, tables[mu])
        if mu not in owners:  # one of the largest
            out[mu] = within.pop(())
            for sub in (sub for k in range(2, len(mu) + 1) for sub in combinations(mu, k)):
                owners.setdefault(sub, []).append(mu)
        else:
            home = owners[mu][0]
            out[home] = out[home] + within.pop(()).reshape([sizes[i] if i in mu else 1 for i in home])
        for sub, part in within.items():
            parts[sub] = parts.get(sub, 0.0) + part
    for sub, part in parts.items():
        for mu in owners[sub]:
            out[mu] = out[mu] + (part / len(owners[sub])).reshape([sizes[i] if i in sub else 1 for i in mu])
    return out


def _components(mu: tuple[int, ...], table: np.ndarray) -> dict[tuple[int, ...], np.ndarray]:
    """The zero-sum parts of a table by sets of two or more members; at (), what is left: single members, a constant."""
    out, rest = {}, table
    for k in range(len(mu), 1, -1):
        for chosen in combinations(range(len(mu)), k):
            others = tuple(p for p in range(len(mu)) if p not in chosen)
            part = table.mean(axis=others, keepdims=True)
            for p in chosen:
                part = part - part.mean(axis=p, keepdims=True)
            out[tuple(mu[p] for p in chosen)] = part.reshape([table.shape[p] for p in chosen])
            rest = rest - part
    return {(): rest} | out


def values_of(space: Space) -> np.ndarray:
    """(N, q_max): φ_c over the values of its site, zeros beyond."""
    out = np.zeros((space.n_columns, int(space.sizes.max())))
    for i, table in enumerate(space.functions):
        out[space.column_ptr[i] : space.column_ptr[i + 1], : space.sizes[i]] = np.asarray(table).T
    return out


def tilt(group: FactorGroup, log_p: list[np.ndarray], w: list[np.ndarray], alpha: float, y: np.ndarray) -> Tilted:
    """The tilted distributions by Newton's method on the convex ln ζ(y), from a guess y.

    Parameters
    ----------
    group : FactorGroup
    log_p : list of (g, q_j) arrays
        ln p of each member.
    w : list of (g, q_j, r_j) arrays
        Its functions.
    alpha : float
    y : (g, R) array
        Where to start.
    """
    g = len(group.sites)
    base, features = alpha * group.tables, np.zeros((g, len(group.states), group.size))
    for j, part in enumerate(group.parts):
        base += log_p[j][:, group.states[:, j]]
        features[:, :, part] = w[j][:, group.states[:, j]]
    y = np.array(y)
    p, log_zeta, correlation = kernel.tilt(base, features, y, _NEWTON)
    for part in group.parts:
        correlation[:, part, part] = 0.0
    return Tilted(group, p, features, y, log_zeta, correlation)
