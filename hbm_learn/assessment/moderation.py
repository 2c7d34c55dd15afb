"""Couplings of pairs at values of another variable: in each group, or along a covariate.

    J̃_ij(z) = J̃_ij + Σ_a J̃_ija φ̃_a(z)

in the standard gauge: i and j in units of their standard deviations about their means, all other variables at theirs.
What the pair has in common and what differs are estimated together, so that errors come from their covariance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse, stats

from hbm_learn.assessment.intervals import sum_intervals
from hbm_learn.inversion.result import InversionResult
from hbm_learn.space import Space
from hbm_learn.terms import Terms

Pair = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Moderated:
    """Effects of p pairs at V values of another variable.

    Attributes
    ----------
    pairs : list of tuples
        Two variables each; a repeated member is a power.
    effects, errors : (p, V) arrays
        J̃_ij(z) and posterior standard deviations; for tables of labels their sizes.
    intervals : (p, V, 2) array
    unsigned : (p,) array of bool
        Pairs whose effect is the size of a table of labels.
    joint : bool
        Whether errors are from the covariance of the couplings; else these were taken as uncorrelated.
    """

    pairs: list[Pair]
    effects: np.ndarray
    errors: np.ndarray
    intervals: np.ndarray
    unsigned: np.ndarray
    joint: bool

    @property
    def bands(self) -> np.ndarray:
        """(p, V, 2) J̃ − a s, J̃ + b s, with the least a and b for which they hold the intervals at all values.

        The intervals of a sum follow the term that matters most, which may change on the way; bands do not jump.
        """
        out = np.empty_like(self.intervals)
        for side in (0, 1):
            away = self.intervals[:, :, side] - self.effects
            units = np.divide(away, self.errors, out=np.zeros_like(away), where=self.errors > 0)
            most = units[np.arange(len(units)), np.abs(units).argmax(axis=1)]
            out[:, :, side] = self.effects + most[:, None] * self.errors
        return np.where(self.unsigned[:, None, None], np.maximum(out, 0.0), out)


def beside_pairs(terms: Terms, variable: int) -> dict[Pair, list[int]]:
    """{pair: terms that have the variable beside it}, of all pairs of other variables, in the order of the terms."""
    return {
        pair: [r for r in mine if variable in terms.members(r)] for pair, mine in _of_pairs(terms, variable).items()
    }


def _of_pairs(terms: Terms, variable: int) -> dict[Pair, list[int]]:
    """{pair: its own term, and those with the variable beside it}."""
    found: dict[Pair, list[int]] = {}
    for r in np.flatnonzero(terms.order <= 3).tolist():
        pair = tuple(i for i in terms.members(r) if i != variable)
        if len(set(pair)) == 2:
            found.setdefault(pair, []).append(r)
    return found


def functions_at(space: Space, variable: int, values: Any) -> np.ndarray:
    """(V, r) φ_a(z) of one variable: at values of a line, at codes of others."""
    if variable in space.anchors:
        return space.along_line(variable, np.asarray(values, dtype=np.float64))[:, None]
    table = space.functions[variable]
    return np.asarray(values, dtype=np.float64)[:, None] if table is None else table[np.asarray(values, dtype=np.intp)]


def moderated(
    result: InversionResult,
    standard: Space,
    variable: int,
    values: Any,
    pairs: Sequence[Pair],
    level: float = 0.95,
) -> Moderated:
    """Effects of pairs at values of another variable, with intervals.

    Parameters
    ----------
    result : InversionResult
    standard : Space
        The gauge of the effects.
    variable : int
    values : (V,) array
        Of a line its values; of other variables their codes.
    pairs : sequence of tuples
        As :func:`beside_pairs` has them.
    level : float
        Of the intervals.
    """
    phi = functions_at(standard, variable, values)
    mine = _of_pairs(result.terms, variable)
    rows = [_sums(result.terms, standard, variable, mine[pair], phi) for pair in pairs]
    shape = (len(pairs), len(phi))
    effects, errors, intervals = np.zeros(shape), np.zeros(shape), np.zeros((*shape, 2))
    for k, T in enumerate(rows):  # (V, columns of the pair, all sets of columns)
        if len(T) == 1:
            effects[k] = T[0] @ result.column_effects
            errors[k], intervals[k] = sum_intervals(result, T[0], level)
        else:
            effects[k], errors[k], intervals[k] = _sizes(result, T, level)
    unsigned = np.array([len(T) > 1 for T in rows], dtype=bool)
    return Moderated(list(pairs), effects, errors, intervals, unsigned, result.effect_covariance is not None)


def _sums(terms: Terms, space: Space, variable: int, mine: list[int], phi: np.ndarray) -> list[sparse.csr_array]:
    """For each choice of columns of the pair, (V, sets of columns): the coefficients of J̃_ij(z)."""
    first = int(space.column_ptr[variable])
    parts: dict[tuple[int, ...], list[tuple[int, np.ndarray]]] = {}
    for at in np.concatenate([terms.positions(r) for r in mine]):
        columns = terms.columns.members[terms.columns.indptr[at] : terms.columns.indptr[at + 1]]
        beside = space.site[columns] == variable
        factor = phi[:, columns[beside][0] - first] if beside.any() else np.ones(len(phi))
        parts.setdefault(tuple(columns[~beside].tolist()), []).append((int(at), factor))
    shape = (len(phi), len(terms.columns))
    found = []
    for key in sorted(parts):
        where = np.array([at for at, _ in parts[key]])
        data = np.stack([factor for _, factor in parts[key]], axis=1)
        index = (np.repeat(np.arange(len(phi)), len(where)), np.tile(where, len(phi)))
        found.append(sparse.csr_array((data.ravel(), index), shape=shape))
    return found


def _sizes(
    result: InversionResult, T: Sequence[sparse.csr_array], level: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sizes of tables ‖x‖ at each value, with errors √(xᵀ C x)/‖x‖, and intervals that are not below zero."""
    x = np.stack([part @ result.column_effects for part in T], axis=1)
    size = np.linalg.norm(x, axis=1)
    direction = np.divide(x, size[:, None], out=np.zeros_like(x), where=size[:, None] > 0)
    along = sum(sparse.diags_array(direction[:, k]) @ part for k, part in enumerate(T))
    errors, _ = sum_intervals(result, sparse.csr_array(along), level)
    half = stats.norm.ppf(0.5 + 0.5 * level) * errors
    return size, errors, np.maximum(size[:, None] + np.array([-1.0, 1.0]) * half[:, None], 0.0)
