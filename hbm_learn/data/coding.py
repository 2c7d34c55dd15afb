"""Coding: one column of a table, of any type, as numbers: its own, or positions in a list of labels.

Text and unordered categories are labels, ordered categories their positions, booleans 0 and 1; what is missing (NaN,
None, NA, null) is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Complex, Integral, Real
from typing import Any

import narwhals as nw
import numpy as np

from hbm_learn.space import MAX_VALUES

BOOLEAN, INTEGER, FLOAT = "boolean", "integer", "float"
_KINDS = {"b": BOOLEAN, "i": INTEGER, "u": INTEGER, "f": FLOAT}


@dataclass(frozen=True, eq=False)
class Column:
    """A column as numbers.

    Attributes
    ----------
    numbers : (M,) boolean, integer or floating array
        NaN where an entry is missing.
    kind : "boolean", "integer" or "float"
        What the numbers are where they are not missing.
    labels : list, or None
        What the numbers are positions in, if they are.
    """

    numbers: np.ndarray
    kind: str
    labels: list | None = None


def number_kind(dtype: np.dtype) -> str | None:
    """The kind of a numpy dtype, None if it is not numeric."""
    return _KINDS.get(dtype.kind)


def as_labels(
    categorical_features: Any, names: Sequence[str] | None, n_features: int, numeric: Sequence[bool]
) -> list[bool | None]:
    """For each column whether it holds labels: True, False, or None where its type says so.

    Parameters
    ----------
    categorical_features : "from_dtype", None, or sequence
        Indices, names or a boolean mask of the columns that hold labels.
    names : sequence of str, or None
    n_features : int
    numeric : (n,) bools
        Columns that are known to hold numbers unless they are named.
    """
    if isinstance(categorical_features, str) and categorical_features == "from_dtype":
        return [False if known else None for known in numeric]
    if categorical_features is None:
        return [False] * n_features
    given = np.atleast_1d(np.asarray(categorical_features))
    if given.dtype == bool:
        if given.shape != (n_features,):
            raise ValueError(
                f"categorical_features is a mask of shape {given.shape}; expected ({n_features},), one for each column."
            )
        return given.tolist()
    out: list[bool | None] = [False] * n_features
    for entry in given.tolist():
        out[column_index(entry, names, n_features, "categorical_features")] = True
    return out


def column_index(entry: Any, names: Sequence[str] | None, n_features: int, parameter: str) -> int:
    """The position of a column given by index or name."""
    if isinstance(entry, str) and names is not None and entry in names:
        return list(names).index(entry)
    if isinstance(entry, (int, np.integer)) and not isinstance(entry, bool) and -n_features <= entry < n_features:
        return int(entry) % n_features
    known = f"0 … {n_features - 1}" + ("" if names is None else f", or one of {', '.join(map(repr, names[:10]))}")
    raise ValueError(f"{parameter} names the column {entry!r}, which X does not have: columns are {known}.")


# ---------------------------------------------------------------------- columns of data frames


def code_series(series: Any, labels: bool | None, where: str) -> Column:
    """Column of a narwhals Series; ``where`` is how messages name it."""
    dtype = series.dtype
    if isinstance(dtype, (nw.Categorical, nw.Enum)):
        return _code_categories(series, labels, where)
    if isinstance(dtype, nw.Decimal):
        return Column(series.cast(nw.Float64()).to_numpy(), FLOAT)
    if dtype.is_numeric():
        return Column(series.to_numpy(), INTEGER if dtype.is_integer() else FLOAT)
    if isinstance(dtype, nw.String):
        return code_objects(series.to_list(), labels, where)
    if isinstance(dtype, (nw.Boolean, nw.Object, nw.Unknown)):
        values = np.asarray(series.to_numpy())
        kind = number_kind(values.dtype)
        if kind is not None:
            return Column(values, kind)
        if values.dtype.kind == "c":
            raise ValueError(f"Complex data not supported: {where} has the type {values.dtype}; give its parts apart.")
        if not isinstance(dtype, nw.Unknown):
            return code_objects(values, labels, where)
    raise ValueError(_unfit(where, getattr(series.to_native(), "dtype", dtype)))


def _code_categories(series: Any, labels: bool | None, where: str) -> Column:
    native, ordered = series.to_native(), isinstance(series.dtype, nw.Enum)
    if hasattr(native, "cat") and hasattr(native.cat, "categories"):  # pandas
        names, positions = native.cat.categories.tolist(), np.asarray(native.cat.codes)
    else:
        values = series.to_numpy()
        # Polars gives unordered categories no order but the alphabet's.
        names = list(series.dtype.categories) if ordered else sorted({v for v in values if not is_missing(v)})
        place = {name: k for k, name in enumerate(names)}
        positions = np.fromiter((place.get(v, -1) for v in values), dtype=np.int64, count=len(values))
    if ordered and not labels:
        return Column(_with_nan(positions), INTEGER)
    if labels is False:
        if not all(isinstance(name, Real) for name in names):
            raise ValueError(_text_not_named(where, names[0]))
        table = np.array([*names, np.nan], dtype=np.float64)
        return Column(table[positions], INTEGER if all(isinstance(name, Integral) for name in names) else FLOAT)
    used = np.unique(positions[positions >= 0])
    place_of = np.full(len(names) + 1, -1)
    place_of[used] = np.arange(len(used))
    return Column(_with_nan(place_of[positions]), INTEGER, [_plain(names[k]) for k in used])


def _with_nan(positions: np.ndarray) -> np.ndarray:
    return np.where(positions < 0, np.nan, positions) if (positions < 0).any() else positions


# ---------------------------------------------------------------------- columns of Python objects


def code_objects(values: Sequence | np.ndarray, labels: bool | None, where: str) -> Column:
    """Column of M objects: numbers, text, or both; labels are sorted, numbers before text."""
    known: dict[Any, int] = {}
    try:
        positions = np.fromiter((known.setdefault(v, len(known)) for v in values), dtype=np.intp, count=len(values))
    except TypeError:
        raise TypeError(_bad_cell(where, next(v for v in values if not _hashable(v)))) from None
    keys = list(known)
    present = [not is_missing(key) for key in keys]
    held = [key for key, there in zip(keys, present) if there]
    for key in held:
        if not isinstance(key, (str, Real, Decimal, np.bool_)):
            if isinstance(key, Complex):
                raise ValueError(f"Complex data not supported: {where} holds {key!r}; give its parts apart.")
            raise TypeError(_bad_cell(where, key))
    text = next((key for key in held if isinstance(key, str)), None)
    if labels is False and text is not None:
        raise ValueError(_text_not_named(where, text))
    if labels or text is not None:
        if len(held) <= MAX_VALUES:
            held.sort(key=lambda key: (isinstance(key, str), key))
        place = {key: k for k, key in enumerate(held)}
        table = np.array([place[key] if there else np.nan for key, there in zip(keys, present)])
        return Column(table[positions], INTEGER, [_plain(key) for key in held])
    table = np.array([float(key) if there else np.nan for key, there in zip(keys, present)])
    return Column(table[positions], _kind_of(held))


def is_missing(value: Any) -> bool:
    """None, NaN, and the NA and NaT of pandas, without importing it."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (Real, Decimal)) and bool(value != value)


def _kind_of(numbers: list) -> str:
    if numbers and all(isinstance(key, (bool, np.bool_)) for key in numbers):
        return BOOLEAN
    return INTEGER if numbers and all(isinstance(key, Integral) for key in numbers) else FLOAT


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


# ---------------------------------------------------------------------- messages


def _unfit(where: str, dtype: Any) -> str:
    return (
        f"{where} has the type {dtype}, which is neither numbers nor labels: drop it, or turn it into a few numbers or "
        "categories (a year, a weekday, a length)."
    )


def _bad_cell(where: str, value: Any) -> str:
    return (
        f"{where} holds a {type(value).__name__} ({repr(value)[:60]}): argument must be a string or a number. Drop the "
        "column, or turn it into a few numbers or labels."
    )


def _text_not_named(where: str, text: Any) -> str:
    return (
        f"{where} holds text ({_plain(text)!r}) where numbers are expected: name it in categorical_features (or leave "
        'that at "from_dtype"), encode it as numbers, or drop it.'
    )
