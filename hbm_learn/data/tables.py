"""Tables: what users call X, before it is read and after something is to be given back in its form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from sklearn.utils import _safe_indexing

from hbm_learn.data.coding import is_missing

# Sums of weights outside of these are a mistake of units, and would end in overflow or in no information at all.
_LEAST_TOTAL, _LARGEST_TOTAL = 1e-9, 1e18


def is_blocks(X: Any) -> bool:
    """Whether X is a list of tables, to be read one after another."""
    return isinstance(X, (list, tuple)) and bool(X) and all(len(getattr(block, "shape", ())) == 2 for block in X)


def is_lazy(X: Any) -> bool:
    """Whether X is a dask array or data frame."""
    return hasattr(X, "__dask_graph__")


def with_names(X: Any) -> Any:
    """X, or of a dask data frame, in which scikit-learn sees no names, an empty one with its columns."""
    if is_lazy(X) and hasattr(X, "columns"):
        import pandas as pd

        return pd.DataFrame(columns=X.columns)
    return X


def as_frame(X: Any) -> Any:
    """The narwhals DataFrame of a pandas or polars one (or another that is in memory); None for anything else."""
    if not hasattr(X, "columns") or is_lazy(X):
        return None
    names = list(X.columns)
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise ValueError(f"two columns of X are called {twice!r}: rename or drop one.")
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def as_array(X: Any) -> Any:
    """X, or the array of a list: of objects if it holds text, which numpy would make of the numbers beside it.

    What a masked array masks is missing.
    """
    if isinstance(X, np.ma.MaskedArray):
        return _unmasked(X)
    if not isinstance(X, (list, tuple)):
        return X
    try:
        array = np.asarray(X)
    except ValueError:
        raise ValueError(f"X is inhomogeneous: {_ragged(X)}") from None
    return np.asarray(X, dtype=object) if array.dtype.kind in "US" else array


def _ragged(X: Sequence[Any]) -> str:
    """In which row a list of rows is no table."""
    sizes = [len(row) if hasattr(row, "__len__") else None for row in X]
    other = next((k for k, size in enumerate(sizes) if size != sizes[0]), None)
    if other is None or sizes[0] is None or sizes[other] is None:
        return "give rows of numbers or labels, one for each column."
    return (
        f"row {other} has {sizes[other]} entries, and row 0 has {sizes[0]}: give one for each column, None or NaN "
        "where there is none."
    )


def check_table(X: Any) -> None:
    """Refuse what has no rows and columns, or complex numbers, beginning as scikit-learn does."""
    shape, dtype = getattr(X, "shape", None), getattr(X, "dtype", None)
    if (shape is None and np.asarray(X).ndim == 0) or shape == ():
        kind = "0-d" if shape == () else f"of type {type(X).__name__}"
        instead = "pandas.DataFrame(X) of a dict of columns" if isinstance(X, Mapping) else "a data frame"
        if isinstance(X, (str, PathLike)):
            instead = "what pandas.read_csv or numpy.load makes of the file"
        raise ValueError(f"Expected 2D array, got X {kind}: give an array or list of rows, or {instead}.")
    if shape is not None and len(shape) > 2:
        raise ValueError(
            f"Found array with dim {len(shape)}, while dim <= 2 is required: X has shape {shape}; give one row for "
            "each sample, such as X.reshape(len(X), -1)."
        )
    if getattr(dtype, "kind", "") == "c":
        raise ValueError(f"Complex data not supported: X has the type {dtype}; give its parts apart.")


def _unmasked(X: Any) -> np.ndarray:
    """The array of a masked one: NaN in place of masked numbers, None of anything else."""
    masked = np.ma.getmaskarray(X)
    if not masked.any():
        return np.asarray(X.data)
    if X.dtype.kind in "biuf":
        wide = X.data.astype(np.result_type(X.dtype, np.float32) if X.dtype.kind != "b" else np.float64)
        return np.where(masked, wide.dtype.type(np.nan), wide)
    return np.where(masked, np.array(None, dtype=object), X.data.astype(object))


def check_weights(sample_weight: Any, n_samples: int) -> np.ndarray:
    """(M,) float64 weights: finite, not negative, not all zero."""
    try:
        given = np.asarray(sample_weight)
        weights = np.array(given if given.dtype.kind != "c" else "complex", dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("sample_weight must be a vector of real numbers, one for each row of X.") from None
    if weights.shape != (n_samples,):
        raise ValueError(f"sample_weight has shape {weights.shape}; expected ({n_samples},), one for each row of X.")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        raise ValueError(f"sample_weight[{bad[0]}] = {weights[bad[0]]}: weights must be finite and not negative.")
    if not weights.any():
        raise ValueError("sample_weight is zero for every row: at least one weight must be positive.")
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if not _LEAST_TOTAL <= total <= _LARGEST_TOTAL:
        raise ValueError(
            f"sample_weight sums to {total:g}, which is the number of rows that a fit goes by: scale the weights so "
            f"that it lies between {_LEAST_TOTAL:g} and {_LARGEST_TOTAL:g}."
        )
    weights.setflags(write=False)
    return weights


# ---------------------------------------------------------------------- missing cells


class CompleteRows(NamedTuple):
    """A table without the rows in which something is missing.

    Attributes
    ----------
    X, sample_weight
        What is left of them.
    n_dropped : int
        How many rows were left out.
    kept : array or None
        Which were not; None where all were kept.
    """

    X: Any
    sample_weight: Any
    n_dropped: int = 0
    kept: np.ndarray | None = None


def complete_rows(X: Any, sample_weight: Any) -> CompleteRows:
    """X and its weights without the rows in which something is missing, and how many those are.

    Whole numbers that are floats only since NaN stood among them become integers again. Dask arrays, sparse matrices
    and lists of blocks are left as they are.
    """
    incomplete = _incomplete(X)
    if incomplete is None:
        return CompleteRows(X, sample_weight)
    weights = None if sample_weight is None else check_weights(sample_weight, len(incomplete))
    n_dropped = int(incomplete.sum())
    if not n_dropped:
        return CompleteRows(X, sample_weight)
    kept = np.flatnonzero(~incomplete)
    if not kept.size:
        empty = _empty_columns(X)
        if empty:
            raise ValueError(f"column {empty[0]} holds no value at all, so that no complete row is left: drop it.")
        raise ValueError("Input X contains NaN in every row: no complete row is left to fit.")
    frame = as_frame(X)
    rows = _whole_array(_safe_indexing(as_array(X), kept)) if frame is None else _whole_frame(frame, kept)
    return CompleteRows(rows, None if weights is None else weights[kept], n_dropped, kept)


def _whole_array(X: np.ndarray) -> np.ndarray:
    return X.astype(np.int64) if X.dtype.kind == "f" and _is_whole(X) else X


def _whole_frame(frame: Any, kept: np.ndarray) -> Any:
    """The rows kept; float columns in which something was missing as integers, if they are whole.

    So are all columns of a frame of floats alone, as an array with NaN makes it.
    """
    rows = frame[kept]
    floats = [series.dtype.is_float() for series in frame.iter_columns()]
    columns = list(rows.iter_columns())
    for j, series in enumerate(frame.iter_columns()):
        missing = floats[j] and (all(floats) or np.isnan(series.to_numpy()).any())
        if missing and _is_whole(columns[j].to_numpy()):
            columns[j] = columns[j].cast(nw.Int64())
    return _replaced(rows.to_native(), rows, columns)


def _is_whole(x: np.ndarray) -> bool:
    return bool((np.abs(x) < 2.0**53).all() and (x == np.rint(x)).all())


def _empty_columns(X: Any) -> list[str]:
    """Names or numbers of the columns in which every cell is missing."""
    frame = as_frame(X)
    if frame is not None:
        return [repr(x.name) for x in frame.iter_columns() if bool(_missing(x.to_numpy()).all())]
    return [str(j) for j, x in enumerate(np.asarray(as_array(X)).T) if bool(_missing(x).all())]


def _missing(x: np.ndarray) -> np.ndarray:
    return np.isnan(x) if x.dtype.kind == "f" else np.frompyfunc(is_missing, 1, 1)(x).astype(bool)


def _incomplete(X: Any) -> np.ndarray | None:
    """(M,) whether something is missing in a row; None where nobody looks."""
    if is_blocks(X) or is_lazy(X):
        return None
    frame = as_frame(X)
    if frame is not None:
        out = np.zeros(frame.shape[0], dtype=bool)
        for series in frame.iter_columns():
            out |= np.isnan(series.to_numpy()) if series.dtype.is_float() else series.is_null().to_numpy()
        return out
    X = as_array(X)
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind not in "fO":
        return None
    return np.asarray(_missing(X).any(axis=1))


# ---------------------------------------------------------------------- the way back


def like_input(values: np.ndarray, X: Any) -> Any:
    """(M, n) values or labels as a data frame with the columns, index and types of X if X is one, else as they are."""
    frame = as_frame(X)
    if frame is None:
        return values
    return _replaced(X, frame, [_like(values[:, j], series) for j, series in enumerate(frame.iter_columns())])


def _replaced(native: Any, frame: Any, columns: list[Any]) -> Any:
    """A data frame with other columns of the same names: pandas' own or narwhals' Series."""
    if hasattr(native, "index"):  # pandas: names need not be strings
        out = native.copy()
        for j, column in enumerate(columns):
            out.isetitem(j, column.to_native() if isinstance(column, nw.Series) else column)
        return out
    return frame.with_columns(*columns).to_native()


def _like(values: np.ndarray, series: Any) -> Any:
    """One column in the type of a series, or in the nearest that holds its values."""
    native, dtype = series.to_native(), series.dtype
    if isinstance(dtype, nw.Enum):
        names = native.cat.categories if _is_pandas_category(native) else dtype.categories
        values = np.array(list(names), dtype=object)[values.astype(np.intp)]
    if hasattr(native, "index"):
        return _like_pandas(values, native)
    made = nw.new_series(series.name, values.tolist(), backend=series.implementation)
    return made if made.dtype == dtype else made.cast(dtype)


def _like_pandas(values: np.ndarray, native: Any) -> Any:
    made = type(native)(values.tolist(), index=native.index, name=native.name)
    if _is_pandas_category(native) and not set(values) <= set(native.cat.categories):
        return made
    return made.astype(native.dtype)


def _is_pandas_category(native: Any) -> bool:
    return hasattr(native, "cat") and hasattr(native.cat, "categories")
