"""MissingDisplay: what is missing where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hbm_learn.data.coding import is_missing
from hbm_learn.data.tables import as_array, as_frame, is_blocks
from hbm_learn.plots import _style

_MISSING, _THERE = "#0072B2", "#e2e5e8"


class MissingDisplay:
    """The share of missing cells of each column, and the columns that are missing together.

    Columns that lack cells in the same rows were skipped for one reason; a share that hardly any other column has is a
    question that many did not answer.

    Parameters
    ----------
    missing : (M, n) array of bool
        Whether a cell is missing.
    feature_names : sequence of str or None
        Names of the columns.

    Attributes
    ----------
    shares : (n,) array
        Of missing cells in each column.
    patterns : (k, n) array of bool
        What is missing together in a row, the most frequent first; complete rows are no pattern.
    pattern_shares : (k,) array
        Of the rows with each.
    complete : float
        Share of the rows in which nothing is missing.
    columns_ : array
        Those that are drawn, the most incomplete first.
    axes_, figure_ : matplotlib objects
        After ``plot``.
    """

    def __init__(self, missing: Any, feature_names: Sequence[str] | None = None):
        missing = np.asarray(missing, dtype=bool)
        if missing.ndim != 2 or not missing.size:
            raise ValueError(
                f"missing has shape {missing.shape}: give (M, n), whether each cell of a table is missing."
            )
        self.feature_names = _style.names_or_numbers(feature_names, missing.shape[1])
        self.shares = missing.mean(axis=0)
        found, counts = np.unique(missing[missing.any(axis=1)], axis=0, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        self.patterns, self.pattern_shares = found[order], counts[order] / len(missing)
        self.complete = float(1.0 - missing.any(axis=1).mean())

    @classmethod
    def from_data(cls, X: Any, *, ax: Any = None, **options: Any) -> MissingDisplay:
        """Draw what is missing in a table.

        Parameters
        ----------
        X : (M, n) array or data frame
            In memory; NaN, None, NA and null are missing.
        ax : matplotlib Axes, two of them, or None
            Where to draw, or the place to divide; a new figure by default.
        **options : dict
            Of :meth:`plot`.
        """
        missing, names = _cells(X)
        return cls(missing, names).plot(ax, **options)

    def plot(self, ax: Any = None, *, n_columns: int = 30, n_patterns: int = 12) -> MissingDisplay:
        """Draw the columns in which something is missing, and the most frequent patterns.

        Parameters
        ----------
        ax : matplotlib Axes, two of them, or None
            Where to draw, or the place to divide; a new figure by default.
        n_columns : int
            Columns at most.
        n_patterns : int
            Patterns at most.
        """
        order = np.argsort(-self.shares, kind="stable")
        self.columns_ = order[self.shares[order] > 0][:n_columns]
        self.axes_ = _style.several_axes(ax, 2, (9.4, max(2.6, 1.4 + 0.24 * len(self.columns_))))
        self._bars(self.axes_[0])
        self._patterns(self.axes_[1], n_patterns)
        self.figure_ = self.axes_[0].figure
        return self

    def _bars(self, ax: Any) -> None:
        y, share = np.arange(len(self.columns_)), 100.0 * self.shares[self.columns_]
        ax.barh(y, share, height=0.62, color=_MISSING)
        for at, each in zip(y, share):
            ax.annotate(
                _percent(each), (each, at), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7.5
            )
        ax.set_yticks(y, [self.feature_names[i] for i in self.columns_], fontsize=8, parse_math=False)
        ax.set_ylim(max(len(y), 1) - 0.5, -0.5)
        ax.set_xlim(0.0, max(1.18 * share.max(initial=0.0), 1e-3))
        n_with, shown = int((self.shares > 0).sum()), len(y)
        title = "Nothing is missing" if not n_with else "Missing cells of each column"
        ax.set_title(title + (f", {shown} of {n_with}" if shown < n_with else ""), fontsize=10)
        ax.set_xlabel("missing, % of rows")
        ax.set_ylabel("column")
        ax.tick_params(axis="y", length=0)
        _style.clean(ax)

    def _patterns(self, ax: Any, n_patterns: int) -> None:
        shown = self.patterns[:n_patterns][:, self.columns_].T
        rows, columns = np.broadcast_arrays(np.arange(len(shown))[:, None], np.arange(shown.shape[1]))
        size = {"s": 46, "marker": "s", "linewidths": 0}
        ax.scatter(columns[~shown], rows[~shown], color=_THERE, **size)
        ax.scatter(columns[shown], rows[shown], color=_MISSING, **size)
        shares = [_percent(100.0 * each) for each in self.pattern_shares[: shown.shape[1]]]
        ax.set_xticks(np.arange(shown.shape[1]), shares, fontsize=7.5, rotation=90)
        ax.set_xlim(-0.6, max(shown.shape[1], 1) - 0.4)
        ax.set_ylim(max(len(shown), 1) - 0.5, -0.5)
        ax.set_yticks([])
        left = len(self.patterns) - shown.shape[1]
        ax.set_title(
            "Missing together" + (f", the most frequent of {len(self.patterns):,}" if left else ""), fontsize=10
        )
        ax.set_xlabel(f"% of rows with the pattern; {_percent(100.0 * self.complete)} are complete")
        ax.set_ylabel("the same columns")
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)


def _percent(share: float) -> str:
    """A share with no more digits than it needs: 12, 1.4, 0.03."""
    return "0" if share == 0 else f"{share:.0f}" if share >= 9.95 else f"{share:.2g}"


def _cells(X: Any) -> tuple[np.ndarray, list[str] | None]:
    """(M, n) whether each cell is missing, and the names of the columns."""
    frame = None if is_blocks(X) else as_frame(X)
    if frame is not None:
        each = (s.to_numpy() if s.dtype.is_float() else s.is_null().to_numpy() for s in frame.iter_columns())
        columns = [np.isnan(c) if c.dtype.kind == "f" else c.astype(bool) for c in each]
        return np.column_stack(columns), [str(name) for name in frame.columns]
    X = X if is_blocks(X) else as_array(X)
    if not isinstance(X, np.ndarray) or X.ndim != 2:
        raise ValueError(f"X is a {type(X).__name__}: give one table in memory, an array or a data frame.")
    if X.dtype.kind == "f":
        return np.isnan(X), None
    if X.dtype.kind == "O":
        return np.frompyfunc(is_missing, 1, 1)(X).astype(bool), None
    return np.zeros(X.shape, dtype=bool), None
