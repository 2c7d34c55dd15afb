"""Interactions: which subsets μ of the variables interact.

Outside, an interaction is a sorted tuple of feature indices. Inside, a set of them is one packed pair of integer
arrays, sorted by order and then lexicographically, so that the interactions of one order are a contiguous block:

    members: (Σ|μ|,)   indices of all interactions, one after another
    indptr:  (p + 1,)  interaction r is members[indptr[r]:indptr[r + 1]]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import comb
from typing import Any

import numpy as np

# Packed members, pointers, a weight and a standard error for each interaction must fit in this.
MAX_BYTES = 2**32


class Interactions:
    """An immutable set of interactions of order ≥ 2 among ``n_features`` variables.

    Build one with :meth:`from_tuples`, :meth:`upto` or :meth:`from_blocks`.

    Attributes
    ----------
    members : (Σ|μ|,) array
        The members of all interactions, one after another.
    indptr : (p + 1,) array
        Interaction r is ``members[indptr[r]:indptr[r + 1]]``.
    n_features : int
        Number of variables (or columns) that may be members.
    """

    def __init__(self, members: np.ndarray, indptr: np.ndarray, n_features: int):
        self.members = members
        self.indptr = indptr
        self.n_features = n_features
        for array in (members, indptr):
            array.setflags(write=False)

    # ------------------------------------------------------------------ construction

    @classmethod
    def from_tuples(
        cls, tuples: Iterable[Iterable[Any]], n_features: int, names: Sequence[str] | None = None
    ) -> Interactions:
        """From tuples of feature indices or names.

        Members are sorted silently, the same interaction given twice counts once; a repeated member, an unknown feature
        or an order below 2 is a ValueError.

        Parameters
        ----------
        tuples : iterable of tuples
            Indices, or names of ``names``.
        n_features : int
            Number of variables.
        names : sequence of str or None
            Of the variables.
        """
        position = positions_of(names)
        found = {_canonical(mu, n_features, position) for mu in tuples}
        return cls.from_sorted(sorted(found, key=lambda mu: (len(mu), mu)), n_features)

    @classmethod
    def from_sorted(cls, ordered: Sequence[tuple[int, ...]], n_features: int) -> Interactions:
        """From distinct tuples that are known to be right.

        Parameters
        ----------
        ordered : sequence of tuples
            Each ascending, by order and then lexicographically.
        n_features : int
            Number of variables.
        """
        sizes = np.fromiter((len(mu) for mu in ordered), dtype=np.intp, count=len(ordered))
        indptr = np.concatenate([np.zeros(1, dtype=np.intp), np.cumsum(sizes, dtype=np.intp)])
        members = np.fromiter((i for mu in ordered for i in mu), dtype=np.intp, count=int(indptr[-1]))
        return cls(members, indptr, n_features)

    @classmethod
    def from_blocks(cls, blocks: Iterable[np.ndarray], n_features: int) -> Interactions:
        """From one array for each order.

        Parameters
        ----------
        blocks : iterable of (p_k, k) arrays
            Distinct, sorted rows in lexicographic order; orders ascending.
        n_features : int
            Number of variables.
        """
        blocks = [np.ascontiguousarray(block, dtype=np.intp) for block in blocks if len(block)]
        sizes = np.concatenate([np.zeros(1, dtype=np.intp)] + [np.full(len(b), b.shape[1]) for b in blocks])
        members = np.concatenate([b.ravel() for b in blocks]) if blocks else np.zeros(0, dtype=np.intp)
        return cls(members, np.cumsum(sizes, dtype=np.intp), n_features)

    @classmethod
    def upto(cls, order: int, n_features: int) -> Interactions:
        """All subsets of 2 … order variables; refused, with the count, when they could not be held in memory.

        Parameters
        ----------
        order : int
            The largest number of variables in one.
        n_features : int
            Number of variables.
        """
        if order < 1:
            raise ValueError(f"order={order}: give the largest number of variables in one interaction, at least 1.")
        orders = range(2, min(order, n_features) + 1)
        check_count({k: comb(n_features, k) for k in orders}, n_features)
        return cls.from_blocks((_all_subsets(n_features, k) for k in orders), n_features)

    def closure(self) -> Interactions:
        """The smallest set that contains every subset (of two or more members) of each interaction."""
        blocks = {k: [self.block(k)] for k in range(2, self.order + 1)}
        for k in range(self.order, 1, -1):
            rows = np.concatenate(blocks[k])
            whole = rows[np.unique(_codes(rows, self.n_features), return_index=True)[1]]
            blocks[k] = [whole]
            if k > 2:
                blocks[k - 1] += [np.delete(whole, j, axis=1) for j in range(k)]
        return Interactions.from_blocks((blocks[k][0] for k in sorted(blocks)), self.n_features)

    # ------------------------------------------------------------------ reading

    @cached_property
    def orders(self) -> list[int]:
        """The orders that occur, ascending."""
        return [int(k) for k in np.unique(np.diff(self.indptr))]

    @property
    def order(self) -> int:
        """The largest order; 1 if there is no interaction."""
        return self.orders[-1] if self.orders else 1

    def slice(self, k: int) -> slice:
        """Where the interactions of order k stand among all."""
        sizes = np.diff(self.indptr)
        return slice(int(np.searchsorted(sizes, k)), int(np.searchsorted(sizes, k + 1)))

    def block(self, k: int) -> np.ndarray:
        """(p_k, k) array of the interactions of order k (a view)."""
        where = self.slice(k)
        return self.members[self.indptr[where.start] : self.indptr[where.stop]].reshape(-1, k)

    @cached_property
    def tuples(self) -> list[tuple[int, ...]]:
        """The interactions as sorted tuples, by order and then lexicographically."""
        return [mu for k in self.orders for mu in map(tuple, self.block(k).tolist())]

    def locate(self, rows: np.ndarray) -> np.ndarray:
        """Position in self of each sorted row of an (r, k) array, −1 where it is absent."""
        k = rows.shape[1]
        where, block = self.slice(k), self.block(k)
        if not len(block):
            return np.full(len(rows), -1, dtype=np.intp)
        known, asked = _codes(block, self.n_features), _codes(rows, self.n_features)
        at = np.minimum(np.searchsorted(known, asked), len(known) - 1)
        return np.where(known[at] == asked, at + where.start, -1).astype(np.intp)

    def positions(self, other: Interactions) -> np.ndarray:
        """Position in self of each interaction of other, −1 where it is absent."""
        parts = [self.locate(other.block(k)) for k in other.orders]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.intp)

    @cached_property
    def incidence(self) -> tuple[np.ndarray, np.ndarray]:
        """(site_ptr, site_interactions): which interactions contain each site.

        Those of site i are ``site_interactions[site_ptr[i]:site_ptr[i + 1]]``, ascending.
        """
        which = np.repeat(np.arange(len(self), dtype=np.intp), np.diff(self.indptr))
        by_site = np.argsort(self.members, kind="stable")
        degree = np.bincount(self.members, minlength=self.n_features)
        return np.concatenate([[0], np.cumsum(degree)]).astype(np.intp), which[by_site]

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return iter(self.tuples)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Interactions)
            and self.n_features == other.n_features
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.members, other.members)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        counts = ", ".join(f"{self.slice(k).stop - self.slice(k).start} of order {k}" for k in self.orders)
        return f"Interactions({counts or 'none'}; n_features={self.n_features})"


def check_count(counts: dict[int, int], n_features: int) -> None:
    """Refuse a request for more interactions than memory could hold; ``counts`` maps order to number."""
    total = sum(counts.values())
    n_bytes = sum(count * 8 * (k + 3) for k, count in counts.items())
    if n_bytes > MAX_BYTES:
        raise ValueError(
            f"all interactions up to order {max(counts)} of {n_features} variables are {total:,}: they would take "
            f"{n_bytes / 2**30:,.1f} GiB (limit {MAX_BYTES / 2**30:g} GiB). Lower `order`, drop variables, or name the "
            "`interactions` to consider."
        )


def _all_subsets(n: int, k: int) -> np.ndarray:
    """(comb(n, k), k) sorted rows in lexicographic order: each row of k − 1 is followed by every larger last member."""
    rows = np.arange(n, dtype=np.intp)[:, None]
    for _ in range(k - 1):
        followers = n - 1 - rows[:, -1]
        first = np.repeat(np.cumsum(followers) - followers, followers)
        last = np.arange(followers.sum()) - first + np.repeat(rows[:, -1] + 1, followers)
        rows = np.column_stack([np.repeat(rows, followers, axis=0), last])
    return rows


def _codes(rows: np.ndarray, n_features: int) -> np.ndarray:
    """Base-n codes of sorted rows: their numeric order is the lexicographic one (exact also beyond int64)."""
    k = rows.shape[1]
    code_type: type = np.int64 if n_features**k < 2**63 else object
    powers: np.ndarray = np.array([n_features ** (k - 1 - j) for j in range(k)], dtype=code_type)
    return (rows.astype(code_type) * powers).sum(axis=1)


def resolve_members(mu: Iterable[Any], n_features: int, position: Mapping[Any, int] | None = None) -> list[int]:
    """The indices of the members of an interaction, ascending, repeats kept; ``position`` maps names to indices."""
    try:
        given = tuple(mu) if not isinstance(mu, str) else None
    except TypeError:
        given = None
    if given is None:
        raise ValueError(f"interaction {mu!r}: give a tuple of feature indices, such as (0, 1).")
    members = []
    for member in given:
        if isinstance(member, (bool, np.bool_)):
            raise ValueError(f"interaction {given}: {member!r} is not a feature index.")
        if isinstance(member, (int, np.integer)) and 0 <= member < n_features:
            members.append(int(member))
        elif position and member in position:
            members.append(position[member])
        else:
            known = f"0 … {n_features - 1}" if not position else f"0 … {n_features - 1}, or a feature name"
            raise ValueError(f"interaction {given}: {member!r} is not a known feature; features are {known}.")
    return sorted(members)


def positions_of(names: Sequence[str] | None) -> dict[Any, int]:
    """{name: index}."""
    return {} if names is None else {name: i for i, name in enumerate(names)}


def _canonical(mu: Iterable[Any], n_features: int, position: Mapping[Any, int]) -> tuple[int, ...]:
    members = resolve_members(mu, n_features, position)
    if len(set(members)) != len(members):
        raise ValueError(f"interaction {tuple(mu)}: a member is repeated; powers belong to a model or an estimator.")
    if len(members) < 2:
        raise ValueError(f"interaction {tuple(mu)}: an interaction has at least two members; fields go in h.")
    return tuple(members)
