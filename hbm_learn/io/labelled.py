"""Tables of statistics packages, SPSS and Stata, whose numbers have labels: labelled variables become categories."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def read_spss(path: Path) -> Any:
    """A .sav file. Values that its author declared missing are missing.

    A variable whose values all have labels becomes categories, ordered by its numbers if the file says that it is
    ordinal or a scale. With labels for some values only, such as the ends of a scale, it keeps its numbers, unless the
    file says that it is nominal.
    """
    try:
        import pyreadstat
    except ImportError as error:
        raise ImportError(f"{path}: SPSS files need pyreadstat: pip install 'hbm-learn[spss]'.") from error
    try:
        frame, meta = pyreadstat.read_sav(str(path))
    except pyreadstat.ReadstatError as error:
        raise ValueError(str(error)) from error
    for name, labels in meta.variable_value_labels.items():
        frame[name] = _labelled(frame[name], labels, meta.variable_measure.get(name, "unknown"))
    return _without_empty_text(frame)


def _labelled(column: Any, labels: dict[Any, str], measure: str) -> Any:
    """A column of numbers or text as categories, if it is one."""
    import pandas as pd

    seen = column.dropna().unique().tolist()
    ordered = measure in ("ordinal", "scale")
    if not seen or (measure != "nominal" and not set(seen) <= set(labels)):
        return column
    values = {*seen, *(value for value in labels if ordered and min(seen) <= value <= max(seen))}
    names = {
        value: labels.get(value, f"{value:g}" if isinstance(value, float) else str(value)) for value in sorted(values)
    }
    if len(set(names.values())) < len(names):
        return column
    return pd.Categorical(column.map(names), categories=list(names.values()), ordered=ordered)


def read_stata(path: Path) -> Any:
    """A .dta file. Labelled variables become categories without an order, as the file tells of none.

    A variable with labels for some of its values only keeps its numbers.
    """
    import pandas as pd

    numbers = pd.read_stata(path, convert_categoricals=False)
    try:
        frame = pd.read_stata(path, order_categoricals=False)
    except ValueError:  # two values with one label
        return _without_empty_text(numbers)
    for name, dtype in frame.dtypes.items():
        if isinstance(dtype, pd.CategoricalDtype) and not all(isinstance(label, str) for label in dtype.categories):
            frame[name] = numbers[name]
    return _without_empty_text(frame)


def _without_empty_text(frame: Any) -> Any:
    """Text that is empty is missing: these formats have no other sign for it."""
    import pandas as pd

    for name, dtype in frame.dtypes.items():
        if pd.api.types.is_string_dtype(dtype) or pd.api.types.is_object_dtype(dtype):
            frame[name] = frame[name].mask(frame[name].map(lambda cell: isinstance(cell, str) and not cell.strip()))
    return frame
