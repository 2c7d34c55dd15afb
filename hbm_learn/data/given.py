"""Given columns of a table: which they are, that nothing is missing there, and where the real ones are anchored."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from hbm_learn.data.coding import as_labels, column_index, is_missing
from hbm_learn.data.reading import Table
from hbm_learn.data.reduce import each, reduce
from hbm_learn.data.tables import as_array, as_frame, is_blocks, is_lazy
from hbm_learn.space import Alphabet

if TYPE_CHECKING:
    from hbm_learn.data.samples import Samples

_BLOCK = 2**20


def given_mask(given: Any, names: Sequence[str] | None, n_features: int) -> np.ndarray:
    """(n,) which columns are given; ValueError for one that X does not have, or twice, or where none is left.

    Parameters
    ----------
    given : None, or sequence of indices or names
    names : sequence of str or None
    n_features : int
    """
    out = np.zeros(n_features, dtype=bool)
    if given is None:
        return out
    if isinstance(given, (str, bytes)) or np.ndim(given) == 0:
        such = [given] if isinstance(given, (str, Integral)) and not isinstance(given, bool) else ["age", "region"]
        raise ValueError(f"given={given!r}: give a list of columns, such as {such}.")
    if np.asarray(given).dtype == bool:
        raise ValueError("given is a mask: give a list of indices or names.")
    for entry in given:
        i = column_index(entry, names, n_features, "given")
        if out[i]:
            raise ValueError(f"given names the column {entry!r} twice: name it once.")
        out[i] = True
    if out.all():
        raise ValueError(f"given={list(given)!r} names every column: leave some out, to be modelled.")
    return out


def refuse_both(given: Any, categorical_features: Any, names: Sequence[str] | None, n_features: int) -> None:
    """ValueError for a column that is given and named in ``categorical_features``."""
    if given is None or categorical_features is None or isinstance(categorical_features, str):
        return
    named = as_labels(categorical_features, names, n_features, [False] * n_features)
    both = np.flatnonzero(given_mask(given, names, n_features) & np.array(named, dtype=bool))
    if both.size:
        column = names[both[0]] if names is not None else int(both[0])
        raise ValueError(
            f"column {column!r} is in given and in categorical_features, which lists modelled columns: a given column "
            f"holds labels if it is text or categories, or by alphabet={{{column!r}: Nominal(…)}}."
        )


def require_present(X: Any, given: Any) -> None:
    """ValueError for a given column with a missing cell: it says where; tables that nobody can look at are left.

    Parameters
    ----------
    X : table
    given : None, or sequence of indices or names
    """
    if given is None or is_blocks(X) or is_lazy(X):
        return
    frame = as_frame(X)
    X = as_array(X) if frame is None else X
    if frame is None and (not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind not in "fO"):
        return
    names = None if frame is None else [str(name) for name in frame.columns]
    for j in np.flatnonzero(given_mask(given, names, X.shape[1])):
        x = X[:, j] if frame is None else frame[frame.columns[j]].to_numpy()
        missing = np.isnan(x) if x.dtype.kind == "f" else np.array([is_missing(value) for value in x], dtype=bool)
        if missing.any():
            column, row = j if names is None else repr(names[j]), int(np.argmax(missing))
            raise ValueError(
                f"column {column} is given, and has a missing cell in row {row} ({int(missing.sum())} in all): what is "
                "not modelled cannot be filled in; drop these rows, or fill them in."
            )


def find_anchors(
    table: Table, weights: np.ndarray | None, alphabets: Sequence[Alphabet], given: np.ndarray
) -> dict[int, tuple[float, float]]:
    """{column: (m − s, m + s)} of given columns without a list of values; ValueError for one that is constant."""
    columns = np.array([j for j in np.flatnonzero(given).tolist() if not alphabets[j].is_finite], dtype=np.intp)
    if not len(columns):
        return {}

    def average(power: int, about: np.ndarray | float) -> np.ndarray:
        blocks = table.weighted(weights, max(1, _BLOCK // table.shape[1]))
        sums, total = reduce(partial(_power_sums, columns, power, about), blocks, whole=True)
        return sums / total

    mean = average(1, 0.0)
    spread = np.sqrt(average(2, mean))
    for j, m, s in zip(columns, mean, spread):
        if not s > 1e-12 * abs(m):
            raise ValueError(
                f"{table.column(int(j))} is given and constant ({m:g}): it cannot act on anything; drop it."
            )
    return {int(j): (float(m - s), float(m + s)) for j, m, s in zip(columns, mean, spread)}


def _power_sums(columns: np.ndarray, power: int, about: Any, block: tuple) -> tuple[np.ndarray, float]:
    """Σ w (x − about)^power of some columns in a block of rows, and Σ w."""
    rows, w = block[0], block[-1]
    w = np.ones(len(rows)) if w is None else w
    return w @ (np.asarray(rows[:, columns], dtype=np.float64) - about) ** power, float(w.sum())


def given_patterns(samples: Samples, most: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(G, n) codes of rows that differ in their given columns, one of each, and the (G,) weight of each pattern.

    Parameters
    ----------
    samples : Samples
    most : int or None
        Stop looking where there are more than this: what is returned is then not all.
    """
    given = samples.space.given
    seen: dict[bytes, int] = {}
    rows: list[np.ndarray] = []
    weights: list[float] = []
    for codes, total in each(partial(_patterns, given, most), samples.blocks()):
        for row, weight in zip(codes, total):
            k = seen.setdefault(row[given].tobytes(), len(rows))
            if k == len(rows):
                rows.append(row)
                weights.append(0.0)
            weights[k] += float(weight)
        if most is not None and len(rows) > most:
            break
    w = np.array(weights)
    return np.array(rows)[w > 0], w[w > 0]


def _patterns(given: np.ndarray, most: int | None, block: tuple) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a block that differ in their given columns, one more than ``most`` at most, and their weights."""
    codes, w = block
    _, first, which = np.unique(codes[:, given], axis=0, return_index=True, return_inverse=True)
    total = np.bincount(which.ravel(), w, minlength=len(first))
    kept = slice(None if most is None else most + 1)
    return codes[first[kept]], total[kept]
