"""What each column of a table is, before anything is fitted: kind, values, missing cells, and what looks wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from hbm_learn.data.coding import FLOAT, as_labels, is_missing
from hbm_learn.data.given import given_mask
from hbm_learn.data.reading import Table, read_table
from hbm_learn.data.tables import as_array, as_frame
from hbm_learn.data.values import MAX_AUTO_VALUES, missing_codes
from hbm_learn.names import default_names, value_name
from hbm_learn.space import MAX_VALUES

# A column of whole numbers or labels most of which occur once names the rows, if these are at least so many.
ID_SHARE, ID_ROWS = 0.9, 20
_BLOCK = 2**22


@dataclass(frozen=True, eq=False)
class ColumnFacts:
    """One column as it was read.

    Attributes
    ----------
    name : str
    nominal : bool
        Whether its values are labels.
    values : list
        Different numbers, ascending, or labels; of ordered categories, whose positions are the numbers, their names.
    counts : array of int
        How often each occurs.
    n_missing : int
        Cells without a value.
    note : str
        What looks wrong, with a remedy, or "".
    fits : bool
        Whether a fit would take it.
    given : bool
        Whether it is not to be modelled.
    """

    name: str
    nominal: bool
    values: list[Any]
    counts: np.ndarray
    n_missing: int
    note: str = ""
    fits: bool = True
    given: bool = False

    @property
    def kind(self) -> str:
        """Numeric or nominal, and whether it is given."""
        return ("nominal" if self.nominal else "numeric") + ", given" * self.given

    @property
    def is_long(self) -> bool:
        """Whether it has more numbers than are taken for a list of values."""
        return not self.nominal and len(self.values) > MAX_AUTO_VALUES

    def describe(self, most: int = 6) -> str:
        """no (812), yes (188); or, of many numbers, their range and how many there are."""
        if self.is_long:
            low, high = value_name(self.values[0]), value_name(self.values[-1])
            return f"{low} … {high} ({len(self.values):,} different)"
        shown = [f"{value_name(v)} ({c:,})" for v, c in zip(self.values[:most], self.counts)]
        left = len(self.values) - len(shown)
        return ", ".join([*shown, *([f"… {left:,} more"] if left else [])])


def column_facts(X: Any, categorical_features: Any = "from_dtype", given: Any = None) -> list[ColumnFacts]:
    """What each column of a table is; ``categorical_features`` and ``given`` as in HBM."""

    def labelled(names: list[str] | None, n: int) -> Sequence[bool | None]:
        return as_labels(categorical_features, names, n, [False] * n)

    table = read_table(X, labelled=labelled)
    n = table.shape[1]
    names, flags = table.names or default_names(n), labelled(table.names, n)
    seen, missing = _values(table)
    ordered, not_modelled = ordered_categories(X), given_mask(given, table.names, n)
    out = []
    for j in range(n):
        numbers, counts = seen[j]
        nominal = bool(flags[j]) or j in table.labels
        values = [table.value(x, j) for x in numbers.tolist()]
        ranks = ordered.get(j)
        fits, note = _judge(table, j, values, counts, nominal)
        shown = values if nominal or ranks is None else [ranks[k] for k in values]
        if not_modelled[j] and missing[j]:
            fits, note = False, "given, with missing cells: fill them in, or drop these rows"
        out.append(ColumnFacts(names[j], nominal, shown, counts, int(missing[j]), note, fits, bool(not_modelled[j])))
    return _compared(out)


def _values(table: Table) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """(numbers, counts) of each column, and (n,) missing cells; a block of rows at a time."""
    n = table.shape[1]
    seen = [(np.zeros(0), np.zeros(0, dtype=np.int64)) for _ in range(n)]
    missing = np.zeros(n, dtype=np.int64)
    for _, rows in table.blocks(max(1, _BLOCK // n)):
        for j in range(n):
            column = rows[:, j]
            there = column == column  # NaN is missing
            missing[j] += len(column) - int(there.sum())
            new, counts = np.unique(column[there].astype(np.float64), return_counts=True)
            numbers, at = np.unique(np.concatenate([seen[j][0], new]), return_inverse=True)
            both = np.concatenate([seen[j][1], counts])
            seen[j] = (numbers, np.bincount(at, both, minlength=len(numbers)).astype(np.int64))
    return seen, missing


def _judge(table: Table, j: int, values: list[Any], counts: np.ndarray, nominal: bool) -> tuple[bool, str]:
    """Whether a fit takes the column, and what looks wrong with it by itself."""
    n_rows = int(counts.sum())
    if not values:
        return False, "empty: leave it out with --drop"
    if len(values) == 1:
        return False, "constant: leave it out with --drop"
    whole = nominal or table.kinds[j] != FLOAT or all(float(v).is_integer() for v in values)
    if whole and n_rows >= ID_ROWS and len(values) >= ID_SHARE * n_rows:
        return False, "looks like an id: leave it out with --drop"
    if nominal and len(values) > MAX_VALUES:
        return False, f"more than {MAX_VALUES} labels: group them, or leave it out with --drop"
    codes = [] if nominal else missing_codes(values)
    if codes:
        return True, f"{' and '.join(map(value_name, codes))} looks like a code for missing: --na says so"
    return True, ""


def _compared(columns: list[ColumnFacts]) -> list[ColumnFacts]:
    """Columns with many numbers do not fit beside others with few."""
    taken = [c for c in columns if c.fits and not c.given]
    if all(c.is_long for c in taken):
        return columns
    note = f"more than {MAX_AUTO_VALUES} values: bin it, name it in --given, or leave it out with --drop"
    return [
        ColumnFacts(c.name, c.nominal, c.values, c.counts, c.n_missing, c.note or note, False)
        if c.fits and c.is_long and not c.given
        else c
        for c in columns
    ]


def ordered_categories(X: Any) -> dict[int, list[Any]]:
    """{column: names of its categories in their order} of the columns of a data frame that have some."""
    frame = as_frame(X)
    if frame is None:
        return {}
    found = {}
    for j, series in enumerate(frame.iter_columns()):
        if isinstance(series.dtype, nw.Enum):
            native = series.to_native()
            pandas = hasattr(native, "cat") and hasattr(native.cat, "categories")
            found[j] = list(native.cat.categories if pandas else series.dtype.categories)
    return found


def missing_cells(X: Any) -> np.ndarray | None:
    """(n,) cells without a value in each column of a table that is in memory; None for others."""
    frame = as_frame(X)
    if frame is not None:
        each = (s.to_numpy() if s.dtype.is_float() else s.is_null().to_numpy() for s in frame.iter_columns())
        return np.array([np.isnan(c).sum() if c.dtype.kind == "f" else c.sum() for c in each], dtype=np.int64)
    X = as_array(X)
    if not isinstance(X, np.ndarray):
        return None
    if X.dtype.kind == "f":
        return np.isnan(X).sum(axis=0)
    if X.dtype.kind == "O":
        return np.frompyfunc(is_missing, 1, 1)(X).astype(bool).sum(axis=0)
    return np.zeros(X.shape[1], dtype=np.int64)
