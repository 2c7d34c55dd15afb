"""Lagged copies of the columns of a table, for kinetic models: P(x(t) | x(t − 1), …)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from hbm_learn._validation import check_integer


def lagged(X: Any, lags: int = 1, groups: Any = None) -> Bunch:
    """A table with the columns at time t and, beside them, their copies at t − 1 … t − lags.

    Parameters
    ----------
    X : (T, n) array or pandas data frame
        One row a time step, in their order.
    lags : int, default=1
        How far back.
    groups : (T,) array-like, default=None
        Labels of sessions or trials: no row takes its past from another one. Rows of a group follow each other in
        time, and need not stand together.

    Returns
    -------
    Bunch
        data: (T', n (1 + lags)) table, a frame with columns "x", "x (t-1)", … where X is one. given: the lagged
        columns, by name or index, for ``HBM(given=…)``. interactions: all pairs of a lagged and a present column, for
        ``HBM(interactions=…)``: a kinetic Ising model, without couplings at equal times. groups: (T',) those of the
        rows kept, or None. rows: (T',) which rows of X are at time t.

    Examples
    --------
    >>> import numpy as np
    >>> from hbm_learn import HBM, datasets
    >>> spins = np.sign(np.random.default_rng(0).normal(size=(500, 3))).astype(int)
    >>> kinetic = datasets.lagged(spins)
    >>> kinetic.data.shape, kinetic.given, kinetic.interactions[:2]
    ((499, 6), [3, 4, 5], [(0, 3), (0, 4)])
    >>> est = HBM(given=kinetic.given, interactions=kinetic.interactions, order=2).fit(kinetic.data)
    """
    lags = check_integer("lags", lags, 1)
    frame = hasattr(X, "iloc")
    table = X if frame else np.asarray(X)
    if table.ndim == 0:
        raise ValueError(f"X is of type {type(X).__name__}: give a dense array or a data frame, one row a time step.")
    if table.ndim != 2:
        raise ValueError(
            f"X has shape {table.shape}; expected (n_times, n_features). Sessions go below each other, with groups=…."
        )
    T, n = table.shape
    labels = None if groups is None else np.asarray(groups)
    if labels is not None and labels.shape != (T,):
        raise ValueError(f"groups has shape {labels.shape}, X has {T} rows: give one label for each row of X.")
    past = _past(T, min(lags, T), labels)  # of T steps back no row has a past
    kept = np.flatnonzero((past >= 0).all(axis=1))
    if not len(kept):
        raise ValueError(f"lags={lags}: no row of X has so many before it; give fewer lags, or longer sessions.")
    rows = [kept, *past[kept].T]
    data: Any = _frame(table, rows) if frame else np.hstack([table[at] for at in rows])
    names = list(data.columns) if frame else list(range(n * (1 + lags)))
    return Bunch(
        data=data,
        given=names[n:],
        interactions=[(i, j) for i in names[:n] for j in names[n:]],
        groups=None if labels is None else labels[kept],
        rows=kept,
    )


def _past(T: int, lags: int, groups: np.ndarray | None) -> np.ndarray:
    """(T, lags) the rows 1 … lags steps before each in its group; −1 where there is none."""
    which = np.zeros(T, dtype=np.intp) if groups is None else np.unique(groups, return_inverse=True)[1].ravel()
    order = np.argsort(which, kind="stable")
    place = np.arange(T)
    begins = np.searchsorted(which[order], which[order])  # where the group of each begins
    out = np.full((T, lags), -1, dtype=np.intp)
    for lag in range(1, lags + 1):
        there = place - lag >= begins
        out[order[there], lag - 1] = order[place[there] - lag]
    return out


def _frame(table: Any, rows: list[np.ndarray]) -> Any:
    """The columns of a pandas frame at each of several lists of rows, side by side."""
    import pandas as pd

    parts = []
    for lag, at in enumerate(rows):
        part = table.iloc[at].set_axis(table.index[rows[0]], axis=0)
        parts.append(part if not lag else part.set_axis([f"{name} (t-{lag})" for name in table.columns], axis=1))
    return pd.concat(parts, axis=1)


def past_columns(names: Sequence[str] | None, given: np.ndarray) -> list[tuple[int, int]] | None:
    """(column at time t, lag) of each column of a table that :func:`lagged` made; None if it did not make it.

    Of columns with names these say so, "x (t-1)"; others by their places: the given ones are the last, as many for each
    lag as there are modelled ones.

    Parameters
    ----------
    names : sequence of str or None
    given : (n,) array of bool
    """
    total, n = len(given), int((~given).sum())
    if not 0 < n < total or total % n or given[:n].any():
        return None
    found = [(c % n, c // n) for c in range(total)]
    if names is not None and any(lag and names[c] != f"{names[i]} (t-{lag})" for c, (i, lag) in enumerate(found)):
        return None
    return found
