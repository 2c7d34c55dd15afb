"""Cases: the rows of a table, or whole groups of them, as units that are drawn again or left out.

    bootstrap       counts ~ multinomial(M, w/M) over the distinct rows, w how often each occurs, M = Σ w
    case dropping   counts ~ hypergeometric: so many of the M, none twice

A weight counts repeated rows everywhere in this package, so that the distinct rows with new weights are the table drawn
again. With groups, whole groups are drawn; one that is drawn twice is two groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing

from hbm_learn.assessment.dependence import check_groups
from hbm_learn.data.samples import Samples
from hbm_learn.data.tables import as_array, check_weights, is_blocks, is_lazy
from hbm_learn.space import Space


class Drawn(NamedTuple):
    """A table drawn from another: what ``fit`` takes.

    Attributes
    ----------
    X : table
    sample_weight : (R,) array
    groups : (R,) array or None
    """

    X: Any
    sample_weight: np.ndarray
    groups: np.ndarray | None


@dataclass(frozen=True, eq=False)
class Cases:
    """A table of distinct rows.

    Attributes
    ----------
    X : table
    weights : (R,) array
        How often each row occurs.
    groups : list of arrays, or None
        The rows of each group.
    """

    X: Any
    weights: np.ndarray
    groups: list[np.ndarray] | None = None

    @classmethod
    def of(cls, X: Any, sample_weight: Any, groups: Any, space: Space | None) -> Cases:
        """The distinct rows, as far as values can be listed; cells that are missing are alike.

        Parameters
        ----------
        X : table
            In memory.
        sample_weight : (M,) array or None
        groups : (M,) labels or None
        space : Space or None
            What each variable is; None: every row is taken as it is.
        """
        if is_blocks(X) or is_lazy(X):
            raise ValueError("X is read in blocks, of which rows cannot be drawn: give one table in memory.")
        X = as_array(X)
        M = int(np.shape(X)[0])
        weights = np.ones(M) if sample_weight is None else np.array(check_weights(sample_weight, M))
        labels = np.zeros(M, dtype=np.int64) if groups is None else check_groups(groups, M)
        rows = np.arange(M)
        if space is not None and space.is_finite:
            codes = _codes(X, space)
            keys = np.column_stack([codes, labels.astype("<i8")[:, None].view(np.uint8)])
            keys = np.ascontiguousarray(keys).view(np.dtype((np.void, keys.shape[1]))).ravel()
            _, rows, inverse = np.unique(keys, return_index=True, return_inverse=True)
            weights = np.bincount(inverse.ravel(), weights)
        rows, weights = rows[weights > 0], weights[weights > 0]
        if groups is None:
            return cls(_safe_indexing(X, rows), weights)
        order = np.argsort(labels[rows], kind="stable")
        ends = np.flatnonzero(np.diff(labels[rows][order])) + 1
        return cls(_safe_indexing(X, rows), weights, np.split(order, ends))

    def again(self, rng: np.random.Generator) -> Drawn:
        """As many cases as there are, drawn with replacement."""
        if self.groups is not None:
            return self._whole_groups(rng.integers(len(self.groups), size=len(self.groups)))
        total = self.weights.sum()
        M = max(1, round(total))
        counts = rng.multinomial(M, self.weights / total)
        return self._rows(counts * (total / M))

    def fewer(self, rng: np.random.Generator, share: float) -> Drawn:
        """All cases but a share of them, drawn without replacement; rows, where weights are no whole numbers."""
        if self.groups is not None:
            kept = round((1.0 - share) * len(self.groups))
            return self._whole_groups(rng.permutation(len(self.groups))[:kept])
        if (self.weights == np.rint(self.weights)).all():
            counts = self.weights.astype(np.int64)
            kept = round((1.0 - share) * int(counts.sum()))
            return self._rows(rng.multivariate_hypergeometric(counts, kept, method="marginals"))
        rows = rng.permutation(len(self.weights))[round(share * len(self.weights)) :]
        return self._rows(np.where(np.isin(np.arange(len(self.weights)), rows), self.weights, 0.0))

    def _rows(self, weights: np.ndarray) -> Drawn:
        there = np.flatnonzero(weights)
        return Drawn(_safe_indexing(self.X, there), weights[there].astype(float), None)

    def _whole_groups(self, chosen: np.ndarray) -> Drawn:
        assert self.groups is not None
        rows = np.concatenate([self.groups[g] for g in chosen])
        labels = np.repeat(np.arange(len(chosen)), [len(self.groups[g]) for g in chosen])
        return Drawn(_safe_indexing(self.X, rows), self.weights[rows], labels)


def _codes(X: Any, space: Space) -> np.ndarray:
    """(M, n) codes, 255 where a cell is missing."""
    samples = Samples.check(X, space=space, allow_nan=True)
    return np.concatenate([block for block, _ in samples.blocks()])
