"""IncompleteRows: rows of codes some of which are missing, and the same rows filled in, some copies of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hbm_learn.data.samples import Samples
from hbm_learn.space import MISSING, Space


@dataclass(frozen=True, eq=False)
class IncompleteRows:
    """Rows in which something was observed, in their order.

    Attributes
    ----------
    space : Space
        Whose modelled variables are finite.
    codes : (R, n) array
        255 where a cell is missing; given variables may be real, and have no such cells.
    weights : (R,) array
        Positive.
    names : list of str or None
        Of the variables.
    """

    space: Space
    codes: np.ndarray
    weights: np.ndarray
    names: list[str] | None = None

    @classmethod
    def of(cls, samples: Samples) -> IncompleteRows:
        """Of samples; rows without weight, or without any observed cell, say nothing and are left out."""
        codes, given = np.concatenate([block for block, _ in samples.blocks()]), samples.space.given
        w = np.ones(len(codes)) if samples.weights is None else np.asarray(samples.weights, dtype=np.float64)
        keep = (codes != MISSING)[:, ~given].any(axis=1) & (w > 0)
        if not keep.all():
            codes, w = codes[keep], w[keep]
        return cls(samples.space, np.ascontiguousarray(codes), w, samples.feature_names)

    @property
    def n_samples(self) -> float:
        """Σ w."""
        return float(self.weights.sum())

    @property
    def observed(self) -> np.ndarray:
        """(R, n) whether each cell is there."""
        return (self.codes != MISSING) | self.space.given

    @property
    def is_complete(self) -> np.ndarray:
        """(R,) whether nothing is missing in a row."""
        return np.asarray(self.observed.all(axis=1))

    @property
    def n_completions(self) -> np.ndarray:
        """(R,) in how many ways each row can be filled in."""
        return np.prod(np.where(self.observed, 1.0, self.space.sizes.astype(np.float64)), axis=1)

    def distinct(self) -> IncompleteRows:
        """Different rows once, with their weights added."""
        keys = self.codes.view(np.dtype((np.void, self.codes.shape[1] * self.codes.itemsize))).ravel()
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        w = np.bincount(inverse.ravel(), self.weights)
        return IncompleteRows(self.space, np.ascontiguousarray(self.codes[first]), w, self.names)


@dataclass(frozen=True, eq=False)
class FilledRows:
    """Rows without missing cells: complete ones once, others as copies that share their weight.

    Attributes
    ----------
    space : Space
    codes : (K, n) array
    weights : (K,) array
    observed : (K, n) bool array
        Which cells were there.
    row : (K,) array
        Which of the incomplete rows each is a copy of.
    n_copies : int
        Of each incomplete row.
    names : list of str or None
    """

    space: Space
    codes: np.ndarray
    weights: np.ndarray
    observed: np.ndarray
    row: np.ndarray
    n_copies: int
    names: list[str] | None = None

    @classmethod
    def of(cls, rows: IncompleteRows, copies: np.ndarray) -> FilledRows:
        """From the copies (rows with gaps, m, n) of the rows in which something is missing, in their order."""
        whole, m = rows.is_complete, copies.shape[1]
        gaps = np.flatnonzero(~whole)
        row = np.concatenate([np.flatnonzero(whole), np.repeat(gaps, m)])
        codes = np.concatenate([rows.codes[whole], copies.reshape(-1, copies.shape[2])])
        weights = np.concatenate([rows.weights[whole], np.repeat(rows.weights[gaps] / m, m)])
        return cls(rows.space, codes, weights, rows.observed[row], row, m, rows.names)

    @property
    def samples(self) -> Samples:
        """As weighted samples without missing cells."""
        return Samples.of_codes(self.space, self.codes, self.weights, self.names)
