"""Reading: arrays, data frames, sparse matrices, memory maps and dask arrays, all as blocks of rows of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from hbm_learn.data.chunks import Chunks
from hbm_learn.data.coding import BOOLEAN, FLOAT, INTEGER, Column, code_objects, code_series, number_kind
from hbm_learn.data.ones import Ones
from hbm_learn.data.tables import as_array, as_frame, check_table, is_blocks, is_lazy

# (names, number of columns) → for each column whether it holds labels, None where its type says so.
Labelled = Callable[[list[str] | None, int], Sequence[bool | None]]


@dataclass(frozen=True, eq=False)
class Table:
    """A table of numbers that is never read whole; where a column holds labels, its numbers are positions in them.

    Attributes
    ----------
    shape : (rows, columns)
        Both positive.
    kinds : tuple of str
        "boolean", "integer" or "float" for each column, missing entries aside.
    names : list of str, or None
        Column names, if all are strings.
    read : callable
        (lo, hi) → (hi − lo, columns) array of these rows.
    labels : dict
        Column → list of labels that its numbers are positions in.
    edges : list of int, or None
        Row numbers from 0 to the end between which one read costs as much as its parts.
    first_row : int
        What to call row 0 in messages.
    chunks : Chunks or None
        (rows, number of the first one) where rows stay with the workers of dask: nothing reads them here then.
    ones : Ones or None
        All rows, where they are a sparse matrix of nothing but zeros and ones.
    """

    shape: tuple[int, int]
    kinds: tuple[str, ...]
    names: list[str] | None
    read: Callable[[int, int], np.ndarray]
    labels: dict[int, list] = field(default_factory=dict)
    edges: list[int] | None = None
    first_row: int = 0
    chunks: Chunks | None = None
    ones: Ones | None = None

    def each(self, work: Callable[[int, np.ndarray], Any], max_rows: int) -> Iterable[Any]:
        """work(first row, rows) of consecutive blocks of at most ``max_rows``, or of chunks as they are."""
        if self.chunks is not None:
            return self.chunks.each(lambda block: work(block[1], block[0]))
        return (work(lo, rows) for lo, rows in self.blocks(max_rows))

    def weighted(self, weights: np.ndarray | None, max_rows: int) -> Iterable[tuple]:
        """(rows, …, their weights or None) of consecutive blocks, or Chunks of them."""
        if self.chunks is not None:
            edges = [*self.chunks.starts, self.shape[0]]
            return self.chunks.beside([None if weights is None else weights[lo:hi] for lo, hi in pairwise(edges)])
        blocks = self.blocks(max_rows)
        return ((rows, None if weights is None else weights[lo : lo + len(rows)]) for lo, rows in blocks)

    def blocks(self, max_rows: int) -> Iterator[tuple[int, np.ndarray]]:
        """(first row, rows) of consecutive blocks of at most ``max_rows``."""
        if self.chunks is not None:
            yield from self.chunks  # says that it cannot
        edges = [*range(0, self.shape[0], max_rows), self.shape[0]] if self.edges is None else self.edges
        for lo, hi in pairwise(edges):
            rows = self.read(lo, hi)
            for start in range(0, hi - lo, max_rows):
                yield lo + start, rows[start : start + max_rows]

    def column(self, j: int) -> str:
        """How messages name a column."""
        return f"column {j if self.names is None else repr(self.names[j])}"

    def place(self, row: int, j: int) -> str:
        """How messages name an entry."""
        return f"row {self.first_row + row}, {self.column(j)}"

    def value(self, number: Any, j: int) -> Any:
        """What the user called a number of column j."""
        if j in self.labels:
            return self.labels[j][int(number)]
        if self.kinds[j] == BOOLEAN:
            return bool(number)
        return int(number) if self.kinds[j] == INTEGER and np.isfinite(number) else float(number)


def read_table(X: Any, first_row: int = 0, labelled: Labelled | None = None) -> Table:
    """Table from anything table-like; ValueError otherwise, in scikit-learn's words where it has them.

    Parameters
    ----------
    X : table, or list of blocks of rows
    first_row : int
    labelled : callable, optional
        Which columns hold labels; by default text and unordered categories do.
    """
    labelled = labelled or (lambda names, n: [None] * n)
    if is_blocks(X):
        return _stacked([read_table(block, 0, labelled) for block in X], first_row)
    if is_lazy(X):
        return _dask_table(X, first_row, labelled)
    frame = as_frame(X)
    if frame is not None:
        return _frame_table(frame, first_row, labelled)
    X = _checked(X)
    if X.dtype.kind in "OU":
        flags = labelled(None, X.shape[1])
        columns = [code_objects(X[:, j], flags[j], f"column {j}") for j in range(X.shape[1])]
        return _column_table(columns, None, first_row)
    kind = number_kind(X.dtype)
    if kind is None:
        raise ValueError(f"X has the type {X.dtype}: give numbers, booleans or text, or turn it into them.")
    ones = Ones.of(X) if hasattr(X, "tocsr") else None
    return Table(X.shape, (kind,) * X.shape[1], None, lambda lo, hi: dense(X[lo:hi]), first_row=first_row, ones=ones)


def dense(rows: Any) -> np.ndarray:
    """Rows of any make as an array."""
    return rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)


def string_names(columns: Any) -> list[str] | None:
    """The names of columns, if all are strings."""
    names = list(columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def _checked(X: Any) -> Any:
    """The array or CSR matrix of X, values not looked at yet."""
    X = as_array(X)
    check_table(X)
    if getattr(getattr(X, "dtype", None), "kind", "") in ("S", "T"):
        X = X.astype(str)
    return check_array(X, accept_sparse="csr", dtype=None, ensure_all_finite=False, input_name="X")


def _check_shape(shape: tuple[int, ...]) -> None:
    if 0 in shape:
        raise ValueError(f"Found array with {shape[0]} sample(s) and {shape[1]} feature(s): both must be positive.")


# ---------------------------------------------------------------------- column by column


def _frame_table(frame: Any, first_row: int, labelled: Labelled) -> Table:
    _check_shape(frame.shape)
    names, n = string_names(frame.columns), frame.shape[1]
    dtypes = list(frame.schema.values())
    flags = labelled(names, n)
    if dtypes[0].is_numeric() and not dtypes[0].is_decimal() and all(dtype == dtypes[0] for dtype in dtypes):
        values = frame.to_numpy()
        kind = INTEGER if dtypes[0].is_integer() else FLOAT
        return Table(values.shape, (kind,) * n, names, lambda lo, hi: values[lo:hi], first_row=first_row)
    series = frame.iter_columns()
    columns = [code_series(s, flag, f"column {s.name!r}") for s, flag in zip(series, flags)]
    return _column_table(columns, names, first_row)


def _column_table(columns: list[Column], names: list[str] | None, first_row: int) -> Table:
    arrays = [column.numbers for column in columns]
    dtype = np.result_type(*arrays)
    shape = (len(arrays[0]), len(arrays))
    labels = {j: column.labels for j, column in enumerate(columns) if column.labels is not None}

    def read(lo: int, hi: int) -> np.ndarray:
        out = np.empty((hi - lo, len(arrays)), dtype=dtype)
        for j, array in enumerate(arrays):
            out[:, j] = array[lo:hi]
        return out

    return Table(shape, tuple(column.kind for column in columns), names, read, labels, first_row=first_row)


# ---------------------------------------------------------------------- blocks


def _dask_table(X: Any, first_row: int, labelled: Labelled) -> Table:
    from hbm_learn.data import remote

    if hasattr(X, "columns"):
        return remote.frame_table(X, first_row, labelled)
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D dask array instead: give rows of samples.")
    if np.isnan(X.shape).any():
        raise ValueError("the dask array has chunks of unknown size: call X.compute_chunk_sizes() first.")
    _check_shape(X.shape)
    kind = number_kind(X.dtype)
    if kind is None:
        raise ValueError(f"the dask array has dtype {X.dtype}: give booleans, integers or floats.")
    shape = (int(X.shape[0]), int(X.shape[1]))
    if shape[0] * shape[1] > remote.MAX_READ_HERE:
        return remote.array_table(X, kind, first_row)
    edges = [0, *np.cumsum(X.chunks[0]).tolist()]
    return Table(shape, (kind,) * shape[1], None, lambda lo, hi: dense(X[lo:hi].compute()), {}, edges, first_row)


def _stacked(tables: list[Table], first_row: int) -> Table:
    """Blocks of rows, one after another, as one table; labels are put together."""
    edges = [0, *np.cumsum([table.shape[0] for table in tables]).tolist()]
    first = tables[0]
    for number, table in enumerate(tables):
        if table.shape[1] != first.shape[1] or table.names != first.names:
            raise ValueError(f"block {number} of X has other columns than block 0: blocks must share their columns.")
        other = next((j for j in range(first.shape[1]) if (j in table.labels) != (j in first.labels)), None)
        if other is not None:
            raise ValueError(
                f"block {number} of X has {'labels' if other in table.labels else 'numbers'} in {first.column(other)}, "
                "unlike block 0: give every block the same types."
            )
    labels = {j: union([table.labels[j] for table in tables]) for j in first.labels}
    kinds = tuple(common_kind([table.kinds[j] for table in tables]) for j in range(first.shape[1]))
    place = [places(table.labels, labels) for table in tables]

    def read(lo: int, hi: int) -> np.ndarray:
        b = edges.index(lo)
        return placed(tables[b].read(0, hi - lo), place[b])

    return Table((edges[-1], first.shape[1]), kinds, first.names, read, labels, edges, first_row)


def places(mine: dict[int, list], labels: dict[int, list]) -> dict[int, np.ndarray]:
    """For each column with labels, where those of a part of the rows stand among those of all."""
    return {j: np.array([labels[j].index(label) for label in mine[j]] or [0]) for j in labels}


def placed(rows: np.ndarray, place: dict[int, np.ndarray]) -> np.ndarray:
    """Rows of a part, with positions of labels among all of them."""
    for j, mine in place.items():
        there = ~np.isnan(rows[:, j])
        rows[there, j] = mine[rows[there, j].astype(np.intp)]
    return rows


def union(lists: Sequence[list]) -> list:
    """All labels once; sorted if every list is, else in the order seen."""
    out = list(dict.fromkeys(label for labels in lists for label in labels))
    order = [sorted(labels, key=_text_last) == labels for labels in lists]
    return sorted(out, key=_text_last) if all(order) else out


def _text_last(label: Any) -> tuple[bool, Any]:
    return isinstance(label, str), label


def common_kind(kinds: Sequence[str]) -> str:
    """The kind of a column whose parts have these."""
    if FLOAT in kinds:
        return FLOAT
    return kinds[0] if len(set(kinds)) == 1 else INTEGER
