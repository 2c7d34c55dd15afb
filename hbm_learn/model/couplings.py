"""Couplings as users write them, {(0, 1): 0.3, (0, 0, 1): 0.2, (1, 2): table}, and as weights of sets of columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations, product
from math import isfinite
from typing import Any

import numpy as np

from hbm_learn.interactions import Interactions, resolve_members
from hbm_learn.space import Space
from hbm_learn.terms import Terms, column_choices, highest_powers


def pack(
    couplings: Mapping[Any, Any], alphabet: Any, n_features: int, given: np.ndarray | None = None
) -> tuple[Space, Interactions, np.ndarray, np.ndarray]:
    """The space that couplings ask for, sets of columns, their weights, and (N,) what falls on single columns.

    A table over nominal members is split into its zero-sum part, which is their interaction, and its averages, which
    belong to interactions of fewer variables or to one alone.
    """
    members = [resolve_members(mu, n_features) for mu in couplings]
    powers = highest_powers(members, n_features)
    space = Space.of(alphabet, n_features, powers, given)
    found: dict[tuple[int, ...], float] = {}
    seen: set[tuple[int, ...]] = set()
    single = np.zeros(space.n_columns)
    plain = space.is_scalar and space.is_numeric and powers.max() == 1
    for key, (mu, value) in zip(map(tuple, members), couplings.items()):
        if key in seen:
            raise ValueError(f"couplings[{mu}]: this interaction is given twice, with its members in another order.")
        seen.add(key)
        if space.given[list(key)].all():
            raise ValueError(f"couplings[{mu}]: all of its members are given, which are not modelled; leave it out.")
        if plain and len(key) > 1 and isinstance(value, (float, int)) and isfinite(value):
            found[key] = float(value)
            continue
        for columns, weight in _coefficients(mu, value, column_choices(mu, key, space), space):
            if len(columns) == 1:
                single[columns[0]] += weight
            elif len(columns) > 1 and not space.given[space.site[list(columns)]].all():
                found[columns] = found.get(columns, 0.0) + weight
    ordered = sorted(found, key=lambda columns: (len(columns), columns))
    weights = np.array([found[columns] for columns in ordered], dtype=np.float64)
    return space, Interactions.from_sorted(ordered, space.n_columns), weights, single


def _coefficients(
    mu: Any, value: Any, choices: list[list[int]], space: Space
) -> Iterator[tuple[tuple[int, ...], float]]:
    """(columns, weight) of one coupling."""
    nominal = [j for j, choice in enumerate(choices) if space.power[choice[0]] == 0]
    sites = [int(space.site[choices[j][0]]) for j in nominal]
    J = _array(mu, value, tuple(int(space.sizes[i]) for i in sites))
    if not nominal:
        yield tuple(choice[0] for choice in choices), float(J)
        return
    for axis, i in enumerate(sites):
        basis = np.column_stack([np.ones(space.sizes[i]), np.asarray(space.functions[i])])
        J = np.moveaxis(np.tensordot(np.linalg.inv(basis), J, axes=(1, axis)), 0, axis)
    scale = float(np.abs(J).max())
    # Along each axis of J now: the average, then the columns. One part for each choice of members averaged over.
    for kept in product([True, False], repeat=len(nominal)):
        part = J[tuple(slice(1, None) if keep else slice(0, 1) for keep in kept)]
        if not all(kept) and np.abs(part).max() <= 1e-14 * scale:
            continue
        averaged = {j for j, keep in zip(nominal, kept) if not keep}
        members = product(*(choice for j, choice in enumerate(choices) if j not in averaged))
        yield from zip(members, part.ravel().tolist())


def _array(mu: Any, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The value of one coupling as an array of finite numbers over the values of its nominal members."""
    try:
        J = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"couplings[{mu}] = {value!r}: every coupling is a number, or an array of them.") from None
    if J.shape != shape:
        wanted = "a number" if not shape else f"an array of shape {shape}, one axis for each nominal member"
        raise ValueError(f"couplings[{mu}] has shape {J.shape}; expected {wanted}.")
    if not np.isfinite(J).all():
        raise ValueError(f"couplings[{mu}] = {value}: every coupling must be finite.")
    return J


def pack_matrix(
    couplings: Any, alphabet: Any, n: int, given: np.ndarray | None = None
) -> tuple[Space, Interactions, np.ndarray, np.ndarray]:
    """As :func:`pack`, of a symmetric matrix of pair couplings, whose zeros are no interactions."""
    space = Space.of(alphabet, n, 1, given)
    try:
        J = np.asarray(couplings, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"couplings = {couplings!r}: give a dict, or a symmetric ({n}, {n}) array.") from None
    if J.shape != (n, n):
        raise ValueError(f"couplings has shape {J.shape}; expected ({n}, {n}), as h has {n} entries, or a dict.")
    if not space.is_scalar:
        raise ValueError("couplings: a matrix is for one number a pair; give a dict with tables for nominal members.")
    if not np.isfinite(J).all():
        i, j = np.argwhere(~np.isfinite(J))[0]
        raise ValueError(f"couplings[{i}, {j}] = {J[i, j]}: every coupling must be finite.")
    if np.diag(J).any():
        i = int(np.flatnonzero(np.diag(J))[0])
        raise ValueError(f"couplings[{i}, {i}] = {J[i, i]:g}: there are no self-interactions; put −2·J_ii in d.")
    asymmetric = np.argwhere(J != J.T)
    if len(asymmetric):
        i, j = asymmetric[0]
        raise ValueError(
            f"couplings[{i}, {j}] = {J[i, j]:g} but couplings[{j}, {i}] = {J[j, i]:g}: it must be symmetric."
        )
    pairs = np.argwhere(np.triu(J, 1))
    within = pairs[space.given[pairs].all(axis=1)]
    if len(within):
        i, j = within[0]
        raise ValueError(f"couplings[{i}, {j}] = {J[i, j]:g}: both are given, which are not modelled; make it zero.")
    return space, Interactions.from_blocks([pairs], n), J[tuple(pairs.T)], np.zeros(n)


def unpack(terms: Terms, weights: np.ndarray) -> dict[tuple[int, ...], Any]:
    """{μ: J_μ} of weights of sets of columns: the inverse of :func:`pack` where tables sum to zero."""
    if terms.space.is_numeric:
        return dict(zip(terms.tuples, weights.tolist()))
    return {mu: table(terms, weights, r) for r, mu in enumerate(terms.tuples)}


def table(terms: Terms, weights: np.ndarray, r: int) -> Any:
    """J of term r: a number, or an array with an axis for each nominal member; zero-sum in the coding gauge."""
    space, columns = terms.space, terms.columns
    members = terms.keys.members[terms.keys.indptr[r] : terms.keys.indptr[r + 1]]
    nominal = np.flatnonzero(space.power[members] == 0)
    where = terms.positions(r)
    if not nominal.size:
        return float(weights[where[0]])
    sites = space.site[members[nominal]]
    J = np.zeros(np.diff(space.column_ptr)[sites])
    within = columns.members[columns.indptr[where][:, None] + nominal] - space.column_ptr[sites]
    J[tuple(within.T)] = weights[where]
    for axis, i in enumerate(sites):
        J = np.moveaxis(np.tensordot(np.asarray(space.functions[i]), J, axes=(1, axis)), 0, axis)
    return J


def tensor(terms: Terms, weights: np.ndarray, order: int) -> np.ndarray:
    """Dense symmetric tensor of the terms of one order without powers, (n,) * order, zero on repeated indices."""
    space, keys = terms.space, terms.keys
    n_bytes = 8 * space.n_features**order
    if n_bytes > 2**33:
        raise ValueError(
            f"a dense tensor of order {order} with n = {space.n_features} takes {n_bytes / 2**30:.0f} GiB; "
            "use interactions and weights instead."
        )
    out = np.zeros((space.n_features,) * order)
    block, values = keys.block(order), terms.norm(weights)[keys.slice(order)]
    if (space.power > 1).any():
        plain = (space.power[block] <= 1).all(axis=1)
        block, values = block[plain], values[plain]
    sites = [np.ascontiguousarray(space.site[column]) for column in block.T]
    for axes in permutations(sites):
        out[axes] = values
    return out


def finite_vector(
    name: str, value: Any, size: int | None = None, what: str = "one number for each variable"
) -> np.ndarray:
    """(size,) float64 copy of a vector of finite numbers, or a ValueError that names it and says ``what`` they are."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}={value!r}: give a vector of real numbers, {what}.") from None
    if array.ndim != 1 or (size is None and not array.size) or (size is not None and len(array) != size):
        expected = "(n,)" if size is None else f"({size},)"
        raise ValueError(f"{name} has shape {array.shape}; expected {expected}, {what}.")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise ValueError(f"{name}[{bad[0]}] = {array[bad[0]]}: every entry must be finite.")
    return array
