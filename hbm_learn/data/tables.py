"""Tables: arrays, data frames, sparse matrices, memory maps and dask arrays, all read as blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_array


@dataclass(frozen=True, eq=False)
class Table:
    """A numeric table that is never read whole.

    Attributes
    ----------
    shape : (rows, columns), both positive.
    dtype : of the blocks; boolean, integer or floating.
    names : column names if all are strings, or None.
    read : (lo, hi) → (hi − lo, columns) array of these rows.
    edges : row numbers from 0 to the end between which one read costs as much as its parts, or None.
    first_row : what to call row 0 in messages.
    """

    shape: tuple[int, int]
    dtype: np.dtype
    names: list[str] | None
    read: Callable[[int, int], np.ndarray]
    edges: list[int] | None = None
    first_row: int = 0

    def blocks(self, max_rows: int) -> Iterator[tuple[int, np.ndarray]]:
        """(first row, rows) of consecutive blocks of at most ``max_rows``."""
        edges = [*range(0, self.shape[0], max_rows), self.shape[0]] if self.edges is None else self.edges
        for lo, hi in pairwise(edges):
            rows = self.read(lo, hi)
            for start in range(0, hi - lo, max_rows):
                yield lo + start, rows[start : start + max_rows]

    def place(self, row: int, column: int) -> str:
        """How messages name an entry."""
        label = str(column) if self.names is None else repr(self.names[column])
        return f"row {self.first_row + row}, column {label}"


def read_table(X: Any, first_row: int = 0) -> Table:
    """Table from anything table-like; ValueError otherwise, in scikit-learn's words where it has them."""
    if isinstance(X, (list, tuple)) and X and all(getattr(block, "ndim", 0) == 2 for block in X):
        return _stacked([read_table(block) for block in X], first_row)
    names = _names(X)
    if hasattr(X, "to_dask_array"):
        X = X.to_dask_array(lengths=True)
    if hasattr(X, "__dask_graph__"):
        return _dask_table(X, names, first_row)
    X = _checked(X)
    return Table(X.shape, X.dtype, names, lambda lo, hi: _dense(X[lo:hi]), None, first_row)


def _dense(rows: Any) -> np.ndarray:
    return rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)


def _names(X: Any) -> list[str] | None:
    columns = list(getattr(X, "columns", []))
    return columns if columns and all(isinstance(name, str) for name in columns) else None


def _checked(X: Any) -> Any:
    """The array or CSR matrix of X, values not looked at yet."""
    try:
        return check_array(X, accept_sparse="csr", ensure_all_finite=False, input_name="X")
    except ValueError as error:
        for name in getattr(X, "columns", []):
            try:
                np.asarray(X[name], dtype=np.float64)
            except (TypeError, ValueError):
                raise ValueError(f"{error} (column {name!r}): encode it as numbers, or drop it.") from error
        raise


def _dask_table(X: Any, names: list[str] | None, first_row: int) -> Table:
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D dask array instead: give rows of samples.")
    if np.isnan(X.shape).any():
        raise ValueError("the dask array has chunks of unknown size: call X.compute_chunk_sizes() first.")
    if 0 in X.shape:
        raise ValueError(f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s): both must be positive.")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"the dask array has dtype {X.dtype}: give booleans, integers or floats.")
    edges = [0, *np.cumsum(X.chunks[0]).tolist()]

    shape = (int(X.shape[0]), int(X.shape[1]))
    return Table(shape, np.dtype(X.dtype), names, lambda lo, hi: _dense(X[lo:hi].compute()), edges, first_row)


def _stacked(tables: list[Table], first_row: int) -> Table:
    """Blocks of rows, one after another, as one table."""
    edges = [0, *np.cumsum([table.shape[0] for table in tables]).tolist()]
    for number, table in enumerate(tables):
        if table.shape[1] != tables[0].shape[1] or table.names != tables[0].names:
            raise ValueError(f"block {number} of X has other columns than block 0: blocks must share their columns.")
    dtype = np.result_type(*(table.dtype for table in tables))

    def read(lo: int, hi: int) -> np.ndarray:
        return tables[edges.index(lo)].read(0, hi - lo).astype(dtype, copy=False)

    return Table((edges[-1], tables[0].shape[1]), dtype, tables[0].names, read, edges, first_row)


def complete_rows(X: Any, sample_weight: Any) -> tuple[Any, Any, int]:
    """X and its weights without the rows that contain NaN, and how many those are. Dask arrays are left as they are."""
    if hasattr(X, "isna"):
        incomplete = np.asarray(X.isna().any(axis=1))
    elif isinstance(X, np.ndarray) and X.dtype.kind == "f" and X.ndim == 2:
        incomplete = np.asarray(np.isnan(X).any(axis=1))
    else:
        return X, sample_weight, 0
    n_dropped = int(incomplete.sum())
    if not n_dropped:
        return X, sample_weight, 0
    kept = np.flatnonzero(~incomplete)
    if not kept.size:
        raise ValueError("Input X contains NaN in every row: no complete row is left to fit.")
    weights = None if sample_weight is None else np.asarray(sample_weight)[kept]
    return _safe_indexing(X, kept), weights, n_dropped


def like_input(values: np.ndarray, X: Any) -> Any:
    """A data frame with the index and columns of X if X is one, else the array."""
    if hasattr(X, "columns") and hasattr(X, "index"):
        return type(X)(values, index=X.index, columns=X.columns)
    return values
