"""Sift: of millions of triplets or quadruplets those that might pass their tests, without a list of all of them.

    |S|/√V of every set of k variables at the member with most variance left,     S = Σ r_a Π y,  V = Σ C_a Π y²

given the model, node by node: products of columns with each other, of which only what is large enough is kept. Sets
that are not kept count as hypotheses that did not reject. Benjamini–Hochberg at a level takes in at most ``MOST`` of m
with p ≤ level · MOST/m, so that up to so many discoveries nothing is lost by keeping these alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import stats

from hbm_learn._kernels.symmetric import packed_size
from hbm_learn._threads import in_threads
from hbm_learn.assessment.nodes import Node
from hbm_learn.interactions import Interactions
from hbm_learn.space import Space
from hbm_learn.terms import n_sets

# Sets up to which all are listed, and tested as they are.
MAX_LISTED = 2 * 10**6
# Discoveries of an order, at most.
MOST = 20_000
# Flops for the scores and the nodes, about: beyond them the closed form selects.
MAX_FLOPS = 1e14
# Bytes of the matrices of all nodes, and of the moments and what is made of them: beyond them sets are to be named.
MAX_BYTES = 2**32
# By how much a glance at a score may fall short of its test: projections take from its variance, tails from the normal.
OPTIMISM = 1.25
# Nodes whose findings are looked at together, and dropped where they are too many.
_NODES = 16
# Passes over the rows that the fit of a node takes, in Hessians.
_HESSIANS = 8


@dataclass(frozen=True, eq=False)
class Sifted:
    """What might pass of each order above 2.

    Attributes
    ----------
    rows : {k: (T, k) array}
        Sets of columns, ascending.
    sizes : {k: (T,) array}
        |S|/√V.
    counts : {k: int}
        How many sets there are in all.
    """

    rows: dict[int, np.ndarray]
    sizes: dict[int, np.ndarray]
    counts: dict[int, int]

    def columns(self, pairs: Interactions) -> Interactions:
        """Pairs and what was kept."""
        return Interactions.from_blocks([pairs.block(2), *self.rows.values()], pairs.n_features)

    def beside(self, k: int, found: tuple[np.ndarray, np.ndarray], count: int) -> Sifted:
        """The same with another order."""
        return Sifted(self.rows | {k: found[0]}, self.sizes | {k: found[1]}, self.counts | {k: count})


def serves(space: Space, order: int, n_rows: int) -> bool:
    """Whether there are too many sets to list them, and their scores are affordable."""
    if order < 3 or not (space.is_finite and space.is_scalar):
        return False
    n = float(space.n_features)
    if 16.0 * n**3 + 24.0 * packed_size(space.n_features, order) > MAX_BYTES:
        return False
    flops = n_rows * (2.0 * _HESSIANS * n**3 + sum(8.0 * n**k / (k * (k - 1)) for k in range(3, order + 1)))
    return sum(n_sets(space, k) for k in range(3, order + 1)) > MAX_LISTED and flops <= MAX_FLOPS


def sift(nodes: Mapping[int, Node], k: int, level: float, stretch: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """(T, k) ascending sets of columns, k = 3 or 4, and (T,) |S|/√V of what might pass at a level beside all others.

    Parameters
    ----------
    nodes : {site: Node}
        Of all modelled variables, fitted.
    k : int
    level : float
        The false-discovery rate.
    stretch : float
        What statistics are divided by.
    """
    data = nodes[min(nodes)].data
    space = data.space
    least = stretch / OPTIMISM * stats.norm.isf(0.5 * min(1.0, level * MOST / n_sets(space, k)))
    modelled = np.array(sorted(nodes))
    spread = np.round([nodes[a].spread for a in modelled.tolist()], 9)
    rank = np.concatenate([modelled[np.argsort(-spread, kind="stable")], np.flatnonzero(space.given)])
    Y = data.tested[rank].astype(np.float32)

    def work(place: int) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(rank[rows], sizes) for rows, sizes in _at_node(nodes[int(rank[place])], Y, place, k, least)]

    rows, sizes = np.zeros((0, k), dtype=np.intp), np.zeros(0)
    edges = [*range(0, len(modelled), _NODES), len(modelled)]
    for lo, hi in pairwise(edges):
        found = [each for batch in in_threads(work, range(lo, hi), data.n_jobs) for each in batch]
        rows = np.concatenate([rows, *(each[0] for each in found)])
        sizes = np.concatenate([sizes, *(each[1] for each in found)])
        if len(rows) > 4 * MOST:
            kept = np.argpartition(-sizes, 2 * MOST)[: 2 * MOST]
            rows, sizes = rows[kept], sizes[kept]
    rows = np.sort(rows, axis=1)
    order = np.lexsort(rows.T[::-1])
    return rows[order], sizes[order]


def _at_node(node: Node, Y: np.ndarray, place: int, k: int, least: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Sets of the variable in one place and k − 1 behind it, as places, and their sizes."""
    residual, C = _residuals(node)
    if k == 3:
        yield from _large(Y, residual, C, (place,), least)
        return
    for second in range(place + 1, len(Y) - 2):
        yield from _large(Y, residual * Y[second], C * Y[second] ** 2, (place, second), least)


def _large(
    Y: np.ndarray, residual: np.ndarray, C: np.ndarray, head: tuple[int, ...], least: float
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Sets of the head and two behind it whose sizes are large enough."""
    first = head[-1] + 1
    mine = Y[first:]
    if len(mine) < 2:
        return
    S, V = (mine * residual) @ mine.T, (mine**2 * C) @ (mine**2).T
    i, j = np.nonzero(np.triu(np.abs(S) >= least * np.sqrt(np.maximum(V, 1e-30)), 1))
    if len(i):
        heads = np.broadcast_to(np.array(head, dtype=np.intp), (len(i), len(head)))
        yield np.column_stack([heads, first + i, first + j]), np.abs(S[i, j]) / np.sqrt(np.maximum(V[i, j], 1e-30))


def _residuals(node: Node) -> tuple[np.ndarray, np.ndarray]:
    """(R,) w (φ_a − ⟨φ_a⟩) and w Var(φ_a) at the node."""
    residual, C = (np.empty(len(node.weights), dtype=np.float32) for _ in range(2))
    for where in node.data.chunks():
        eta = node.fields(node.theta[None], node.design(where))
        residual[where] = node.residuals(eta, where)[0][0, 0]
        C[where] = node.covariance(eta[0], where)[0, 0]
    return residual, C
