"""The sets of columns of a term as a node sees them: its own column in each, and the others.

A term is tested given its own subsets (and lower powers, and all labels): those that the model lacks stand before the
sets that are tested, as nuisance.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from hbm_learn.assessment.nodes import Node
from hbm_learn.interactions import Interactions
from hbm_learn.terms import Terms, closure


def groups(
    node: Node, model: Interactions, terms: Terms, which: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, int]]:
    """Terms of one shape together: positions in ``which``, outputs (m,), rest (T, m, k), and how many are nuisance."""
    if terms.space.is_scalar:
        return _scalar_groups(node, model, terms, which)
    found: dict[tuple[int, ...], list[tuple[int, np.ndarray]]] = {}
    sets, site = terms.columns.tuples, terms.space.site
    for at, r in enumerate(which):
        tested = Interactions.from_sorted([sets[s] for s in terms.positions(r)], terms.space.n_columns)
        lower, known = closure(tested, terms.space), set(tested.tuples)
        absent = model.positions(lower) < 0
        missing = [mu for mu, gone in zip(lower.tuples, absent) if gone and mu not in known]
        here = [mu for mu in missing if any(site[c] == node.site for c in mu)]
        everything = [*here, *tested.tuples]
        outputs, rest = _as_seen(node, everything, int(terms.order[r]) - 1)
        found.setdefault((len(here), *outputs), []).append((at, rest))
    return [
        (np.array([at for at, _ in group]), np.array(key[1:]), np.stack([rest for _, rest in group]), key[0])
        for key, group in found.items()
    ]


def _as_seen(node: Node, sets: list[tuple[int, ...]], width: int) -> tuple[list[int], np.ndarray]:
    """The node's own column in each set, counted from its first, and the others (m, width), filled up with N."""
    space = node.data.space
    rest = np.full((len(sets), width), space.n_columns, dtype=np.intp)
    outputs = []
    for i, mu in enumerate(sets):
        outputs.append(next(c for c in mu if space.site[c] == node.site) - node.first)
        others = [c for c in mu if space.site[c] != node.site]
        rest[i, : len(others)] = others
    return outputs, rest


def _scalar_groups(
    node: Node, model: Interactions, terms: Terms, which: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, int]]:
    """The same where every term is one set of columns: all terms of an order at once."""
    groups = []
    for k in np.unique(terms.order[which]).tolist():
        at = np.flatnonzero(terms.order[which] == k)
        block = terms.keys.block(k)[which[at] - terms.keys.slice(k).start]
        rest = block[block != node.site].reshape(-1, k - 1)
        subsets, absent = [], []
        for size in range(1, k - 1):
            for chosen in combinations(range(k - 1), size):
                part = rest[:, chosen]
                rows = np.sort(np.column_stack([part, np.full(len(part), node.site)]), axis=1)
                absent.append(model.locate(rows) < 0)
                filled = np.full_like(rest, terms.space.n_columns)
                filled[:, :size] = part
                subsets.append(filled)
        absent_sets = np.stack(absent, axis=1) if absent else np.zeros((len(at), 0), dtype=bool)
        patterns, inverse = np.unique(absent_sets, axis=0, return_inverse=True)
        for p, pattern in enumerate(patterns):
            mine = np.flatnonzero(inverse.ravel() == p)
            chosen_sets = [subsets[j][mine] for j in np.flatnonzero(pattern)]
            blocks = np.stack([*chosen_sets, rest[mine]], axis=1)
            groups.append((at[mine], np.zeros(blocks.shape[1], dtype=np.intp), blocks, len(chosen_sets)))
    return groups
