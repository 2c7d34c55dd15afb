"""Terms: interactions of variables, and the sets of columns that carry them.

A term is what one row of a table of results is: a tuple of variables in which a repeated member is a power (x_0² x_1 is
(0, 0, 1)) and a nominal member stands for all its functions at once. Where every variable has one column, terms and
sets of columns are the same thing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import product
from math import comb
from typing import Any

import numpy as np

from hbm_learn.interactions import Interactions, check_count, positions_of, resolve_members
from hbm_learn.space import Space


class Terms:
    """The terms of a set of columns.

    Attributes
    ----------
    space : Space
    columns : Interactions
        Sets of columns.
    keys : Interactions
        One set of columns for each term: that with the first function of every nominal member.
    group : (len(columns),) array
        The term of each set of columns.
    """

    def __init__(self, space: Space, columns: Interactions):
        self.space, self.columns = space, columns
        first = np.where(space.power == 0, space.column_ptr[space.site], np.arange(space.n_columns))
        if np.array_equal(first, np.arange(space.n_columns)):
            self.keys, self.group = columns, np.arange(len(columns))
            return
        rows = [first[columns.block(k)] for k in columns.orders]
        self.keys = Interactions.from_blocks(map(_distinct, rows), space.n_columns)
        self.group = np.concatenate([np.zeros(0, dtype=np.intp), *map(self.keys.locate, rows)])

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def order(self) -> np.ndarray:
        """(p,) number of variables in each term."""
        return np.diff(self.keys.indptr)

    @cached_property
    def df(self) -> np.ndarray:
        """(p,) number of sets of columns in each term: 1 without nominal members of three or more labels."""
        return np.bincount(self.group, minlength=len(self))

    @cached_property
    def tuples(self) -> list[tuple[int, ...]]:
        """Sorted tuples of variables with powers as repeated members, by number of variables and then by column."""
        if self.space.is_scalar:
            return self.keys.tuples
        return [self._variables(mu) for mu in self.keys.tuples]

    def members(self, r: int) -> tuple[int, ...]:
        """The tuple of term r, without making all of them."""
        return self._variables(self.keys.members[self.keys.indptr[r] : self.keys.indptr[r + 1]].tolist())

    def _variables(self, mu: Sequence[int]) -> tuple[int, ...]:
        return tuple(int(self.space.site[c]) for c in mu for _ in range(max(1, int(self.space.power[c]))))

    def sum(self, values: np.ndarray) -> np.ndarray:
        """(p,) sums over the columns of each term."""
        return values if self.keys is self.columns else np.bincount(self.group, values, minlength=len(self))

    def means(self, values: np.ndarray) -> np.ndarray:
        """Values over sets of columns, each replaced by the mean over its term."""
        return values if self.keys is self.columns else (self.sum(values) / self.df)[self.group]

    def norm(self, values: np.ndarray) -> np.ndarray:
        """(p,) a value for each term: itself if the term has one set of columns, else √Σ squares over them."""
        if self.keys is self.columns:
            return values
        single = self.df == 1
        return np.where(single, self.sum(values), np.sqrt(self.sum(values**2)))

    @cached_property
    def _by_term(self) -> tuple[np.ndarray, np.ndarray]:
        return np.argsort(self.group, kind="stable"), np.concatenate([[0], np.cumsum(self.df)])

    def positions(self, r: int | np.integer) -> np.ndarray:
        """Where the sets of columns of term r stand."""
        order, ptr = self._by_term
        return order[ptr[r] : ptr[r + 1]]

    def select(self, chosen: np.ndarray) -> Interactions:
        """The sets of columns of the terms with ``chosen`` (p,) True."""
        mine = chosen[self.group]
        blocks = [self.columns.block(k)[mine[self.columns.slice(k)]] for k in self.columns.orders]
        return Interactions.from_blocks(blocks, self.columns.n_features)


def all_terms(order: int, space: Space) -> Interactions:
    """The sets of columns of all interactions of 2 … order variables, at least one of them modelled."""
    everything = Interactions.upto(order, space.n_features)
    return with_modelled(everything if space.is_scalar else expand(everything, space), space)


def n_sets(space: Space, k: int) -> int:
    """How many sets of k variables there are, at least one of them modelled."""
    return comb(space.n_features, k) - comb(int(space.given.sum()), k)


def are_all(columns: Interactions, space: Space) -> bool:
    """Whether these are all sets up to their order; without a list of all, where there are fewer."""
    k = columns.order
    return len(columns.block(k)) >= n_sets(space, k) and columns == all_terms(k, space)


def with_modelled(columns: Interactions, space: Space) -> Interactions:
    """The sets with a column of a modelled site: what concerns given sites alone is no part of P(x | z)."""
    if not space.has_given:
        return columns
    blocks = [columns.block(k) for k in columns.orders]
    kept = [block[~space.given[space.site[block]].all(axis=1)] for block in blocks]
    return Interactions.from_blocks(kept, columns.n_features)


def expand(sites: Interactions, space: Space) -> Interactions:
    """All choices of one column at each member of sets of sites."""
    if space.is_scalar:
        return sites
    r = np.diff(space.column_ptr)
    blocks = [(space.column_ptr[sites.block(k)], r[sites.block(k)]) for k in sites.orders]
    return _all_choices(blocks, space)


def closure(columns: Interactions, space: Space) -> Interactions:
    """The smallest set that any change of gauge maps to itself: all subsets, lower powers, all labels.

    Subsets of given sites alone are no part of it.
    """
    if space.is_scalar:
        return with_modelled(columns.closure(), space)
    first = space.column_ptr[space.site]
    within = np.arange(space.n_columns) - first + 1
    count = np.where(space.power == 0, np.diff(space.column_ptr)[space.site], within)
    blocks = [(first[columns.block(k)], count[columns.block(k)]) for k in columns.orders]
    return with_modelled(_all_choices(blocks, space).closure(), space)


def is_closed(columns: Interactions, space: Space) -> bool:
    """Whether a change of gauge stays within the set."""
    return len(closure(columns, space)) == len(columns)


def _all_choices(blocks: list[tuple[np.ndarray, np.ndarray]], space: Space) -> Interactions:
    """Sets of columns that take one of ``count`` columns from ``first`` on for each entry; a pair of (p_k, k) arrays an
    order."""
    check_count({first.shape[1]: int(np.prod(count, axis=1).sum()) for first, count in blocks}, space.n_columns)
    found = []
    for first, count in blocks:
        rows = np.zeros((len(first), 0), dtype=np.intp)
        source = np.arange(len(first))
        for j in range(first.shape[1]):
            counts = count[source, j]
            begin = np.repeat(np.cumsum(counts) - counts, counts)
            column = np.arange(counts.sum()) - begin + np.repeat(first[source, j], counts)
            rows = np.column_stack([np.repeat(rows, counts, axis=0), column])
            source = np.repeat(source, counts)
        found.append(_distinct(rows))
    return Interactions.from_blocks(found, space.n_columns)


def _distinct(rows: np.ndarray) -> np.ndarray:
    """The different rows, in lexicographic order."""
    rows = rows[np.lexsort(rows.T[::-1])]
    return rows[np.append(True, (rows[1:] != rows[:-1]).any(axis=1))] if len(rows) else rows


def columns_of(terms: Iterable[Iterable[Any]], space: Space, names: Sequence[str] | None = None) -> Interactions:
    """The sets of columns of given terms: tuples of indices or names, a repeated member for a power."""
    position = positions_of(names)
    found: set[tuple[int, ...]] = set()
    for mu in terms:
        members = resolve_members(mu, space.n_features, position)
        choices = column_choices(mu, members, space)
        if space.given[members].all():
            raise ValueError(
                f"interaction {tuple(mu)}: all of its members are given, and what concerns them alone is not modelled; "
                "leave it out, or take one of them out of `given`."
            )
        found.update(product(*choices))
    return Interactions.from_sorted(sorted(found, key=lambda mu: (len(mu), mu)), space.n_columns)


def column_choices(mu: Any, members: Sequence[int], space: Space) -> list[list[int]]:
    """For each variable of a term, ascending, the columns that it may take: one power, or all of a nominal variable.

    Parameters
    ----------
    mu : tuple
        The term as the user gave it, for messages.
    members : sequence of int
        Its variables, ascending, a repeated one for a power.
    space : Space
    """
    choices = []
    for i in dict.fromkeys(members):
        power, first = members.count(i), int(space.column_ptr[i])
        mine = list(range(first, int(space.column_ptr[i + 1])))
        if not space.alphabets[i].is_nominal:
            if power > len(mine):
                raise ValueError(f"interaction {tuple(mu)}: power {power} of variable {i}, but {_limit(i, space)}.")
            mine = [first + power - 1]
        elif power > 1:
            raise ValueError(f"interaction {tuple(mu)}: variable {i} is nominal, and labels have no powers.")
        choices.append(mine)
    if len(choices) < 2:
        raise ValueError(
            f"interaction {tuple(mu)}: an interaction has at least two variables; what concerns one alone goes in h, d "
            "or site."
        )
    return choices


def _limit(i: int, space: Space) -> str:
    """Why a variable has no higher power than it has."""
    q, most = int(space.sizes[i]), int(np.diff(space.column_ptr)[i])
    if not space.alphabets[i].is_finite:
        return f"{space.alphabets[i]} has x alone: bin the variable into a few values for powers of it"
    if most == q - 1:
        return f"of {q} values powers beyond {most} are combinations of the lower ones: leave it out"
    return f"powers up to {most} were asked for: raise powers"


def powers_in(terms: Iterable[Iterable[Any]], n_features: int, names: Sequence[str] | None = None) -> np.ndarray:
    """(n,) the highest power of each variable in given terms, at least 1."""
    position = positions_of(names)
    return highest_powers((resolve_members(mu, n_features, position) for mu in terms), n_features)


def highest_powers(members: Iterable[Sequence[int]], n_features: int) -> np.ndarray:
    """(n,) how often each variable is repeated at most, at least 1."""
    out = np.ones(n_features, dtype=int)
    for mu in members:
        distinct = set(mu)
        if len(distinct) < len(mu):
            for i in distinct:
                out[i] = max(out[i], mu.count(i))
    return out
