"""Tables on disk, with the names of their columns: text, Parquet and NumPy in and out; Excel, SPSS and Stata in."""

from __future__ import annotations

import csv
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hbm_learn.io import labelled, packed
from hbm_learn.io import models as _storage
from hbm_learn.io.archives import DAMAGED, Archive
from hbm_learn.io.replacing import replacing

SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
WRITTEN = ".csv, .tsv, .parquet, .npy or .npz"
# What readers raise on a file that is not what its name says.
UNREADABLE = (*DAMAGED, LookupError, struct.error)
FORMATS = ".csv, .tsv, .parquet, .npy, .npz, .xlsx, .sav or .dta"


def read(path: str | Path, na: Sequence[str | float] | None = None) -> Any:
    """The table in a file: a data frame if its columns have names, else an array; (rows, columns).

    Text, categories and gaps stay as they are. CSV and TSV may lack a header (a first line of numbers is data), may be
    separated by semicolons, and may be compressed (.gz, .bz2 or .xz; see ``packed`` for how much). An .npz file holds
    one array, or one called X or data, and perhaps ``feature_names``. Labelled values of SPSS and Stata files become
    categories, see ``labelled``.

    Parameters
    ----------
    path : str or Path
        Its suffix says the format.
    na : sequence of str or numbers
        Further values that stand for missing, such as 99 or "refused", in every column.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file.")
    kind, missing = _kind(path), [] if na is None else list(na)
    try:
        packed.check(path)
        table = READERS[kind](path, missing) if kind == "text" else _without(READERS[kind](path), missing)
        if hasattr(table, "columns"):
            table.columns = _unique([str(name).strip() for name in table.columns])
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: it is not UTF-8 text ({error.reason}): save it as UTF-8.") from error
    except UNREADABLE as error:
        raise ValueError(f"{path}: {_one_line(error)}") from error
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"{path}: a table of rows and columns is needed, and this has shape {table.shape}.")
    return table


def write(path: str | Path, X: np.ndarray, names: Sequence[str] | None) -> None:
    """Write (rows, columns) X, numbers or labels, in the format that the name of the file says."""
    path = Path(path)
    if _written_kind(path) != "numpy":
        write_frame(path, as_frame(X, names))
        return
    if X.dtype.kind not in "biuf":
        raise ValueError(f"{path}: NumPy files hold numbers, and this table has labels: write .csv or .parquet.")
    with replacing(path) as temporary, open(temporary, "wb") as file:
        if path.suffix.lower() == ".npy":
            np.save(file, X)
        else:
            extra: dict[str, Any] = {} if names is None else {"feature_names": np.array(names)}
            np.savez_compressed(file, X=X, **extra)


def write_frame(path: str | Path, frame: Any) -> None:
    """Write a data frame as text or Parquet."""
    path = Path(path)
    require_frame_format(path)
    with replacing(path) as temporary:
        if _kind(path) == "text":
            frame.to_csv(temporary, sep=SEPARATORS[_suffix(path)], index=False)
            return
        try:
            frame.to_parquet(temporary, index=False)
        except ImportError as error:
            raise ImportError(f"{path}: Parquet needs pyarrow: pip install 'hbm-learn[parquet]'.") from error
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: {_one_line(error)}: write .csv, which takes columns of any mixture.") from error


def require_frame_format(path: str | Path) -> None:
    """Refuse a name whose format does not hold text beside numbers."""
    if _written_kind(Path(path)) == "numpy":
        raise ValueError(f"{path}: a table of names and numbers is written as .csv, .tsv or .parquet.")


def as_frame(X: np.ndarray, names: Sequence[str] | None) -> Any:
    """A data frame, with x0, x1, … for columns without names; columns of labels get the dtype that fits them."""
    import pandas as pd

    columns = list(names) if names is not None else [f"x{i}" for i in range(X.shape[1])]
    return pd.DataFrame(X, columns=columns).infer_objects()


def names_of(table: Any) -> list[str] | None:
    """The names of the columns, or None."""
    return [str(name) for name in table.columns] if hasattr(table, "columns") else None


def choose_columns(table: Any, keep: Sequence[str] | None = None, drop: Sequence[str] | None = None) -> Any:
    """Some of the columns, by name or (without names) by number; ValueError for one that is not there."""
    names = names_of(table) or [str(i) for i in range(table.shape[1])]
    for name in [*(keep or []), *(drop or [])]:
        if name not in names:
            raise ValueError(f"there is no column {name!r}; the columns are {_some(names)}.")
    twice = [name for name in dict.fromkeys(keep or []) if (keep or []).count(name) > 1]
    if twice:
        raise ValueError(f"the column {twice[0]!r} is named twice: name it once.")
    order = [names.index(name) for name in keep] if keep else range(len(names))
    chosen = [i for i in order if names[i] not in (drop or [])]
    if not chosen:
        raise ValueError("no column is left: drop fewer of them.")
    if chosen == list(range(len(names))):
        return table
    return table.iloc[:, chosen] if hasattr(table, "iloc") else table[:, chosen]


# ---------------------------------------------------------------------- which format


def _kind(path: Path) -> str:
    suffix = _suffix(path)
    if suffix in SEPARATORS:
        return "text"
    for kind, suffixes in SUFFIXES.items():
        if suffix in suffixes:
            return kind
    raise ValueError(f"{path}: the format {suffix or '(no suffix)'} is not known; use {FORMATS}.")


def _written_kind(path: Path) -> str:
    kind = _kind(path)
    if kind not in ("text", "parquet", "numpy"):
        raise ValueError(f"{path}: {_suffix(path)} files are read, but not written; use {WRITTEN}.")
    return kind


def _suffix(path: Path) -> str:
    """The suffix that names the format, under one of compression."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in packed.STREAMS else suffix


# ---------------------------------------------------------------------- reading


def _read_text(path: Path, na: list[str | float]) -> Any:
    import pandas as pd

    # One line as one cell, to look at before anything is parsed; read_csv knows how to unpack the file.
    whole = {"sep": "\x1f", "quoting": csv.QUOTE_NONE, "dtype": str, "keep_default_na": False}
    line = pd.read_csv(path, header=None, nrows=1, **whole).iloc[0, 0]
    sep = _separator(path, line)
    options: dict[str, Any] = {"sep": sep, "skipinitialspace": True, "na_values": na}
    first = next(csv.reader([line], delimiter=sep, skipinitialspace=True))
    if all(_is_number(cell, sep) for cell in first):
        return _decimal_commas(pd.read_csv(path, header=None, **options), sep).to_numpy()
    _unique([cell.strip() for cell in first if cell.strip()])  # read_csv would rename what is there twice
    frame = pd.read_csv(path, **options)
    if not frame.index.equals(pd.RangeIndex(len(frame))):  # the first cells would have been taken for row names
        raise ValueError(f"the rows have more cells than the header, which names {len(first)} columns.")
    return _decimal_commas(frame, sep)


def _separator(path: Path, line: str) -> str:
    """Semicolons are what spreadsheets write where the comma is the decimal mark."""
    cells = line.split(";")
    if len(cells) > 1 and ("," not in line or all(_is_number(cell, ";") for cell in cells)):
        return ";"
    return SEPARATORS[_suffix(path)]


def _decimal_commas(frame: Any, sep: str) -> Any:
    """Numbers such as 0,5 of a table with semicolons."""
    if sep == ";":
        for j, dtype in enumerate(frame.dtypes):
            cells = [] if dtype.kind in "biuf" else frame.iloc[:, j].dropna().tolist()
            if cells and all(_is_number(str(cell), sep) for cell in cells):
                number = {cell: float(str(cell).replace(",", ".")) for cell in cells}
                frame[frame.columns[j]] = frame.iloc[:, j].map(number).astype(float)
    return frame


def _is_number(cell: str, sep: str) -> bool:
    try:
        float(cell.replace(",", ".") if sep == ";" else cell)
    except ValueError:
        return False
    return True


def _read_parquet(path: Path) -> Any:
    import pandas as pd

    try:
        return pd.read_parquet(path)
    except ImportError as error:
        raise ImportError(f"{path}: Parquet needs pyarrow: pip install 'hbm-learn[parquet]'.") from error


def _read_excel(path: Path) -> Any:
    """The first sheet."""
    import pandas as pd

    try:
        cells = pd.read_excel(path, header=None)
    except ImportError as error:
        raise ImportError(f"{path}: Excel files need openpyxl: pip install 'hbm-learn[excel]'.") from error
    first = [] if cells.empty else cells.iloc[0].tolist()
    if all(isinstance(cell, (int, float)) for cell in first):
        return cells.to_numpy()
    frame = cells.iloc[1:].reset_index(drop=True).infer_objects()
    frame.columns = [f"Unnamed: {j}" if pd.isna(name) else name for j, name in enumerate(first)]
    return frame


def _read_numpy(path: Path) -> Any:
    if path.suffix.lower() == ".npy":
        try:
            return np.lib.format.open_memmap(path, mode="r")  # np.load would leave what is not of its kind open
        except ValueError as error:
            if "Python objects" not in str(error):
                raise
            raise ValueError("it holds Python objects, which are not read: save numbers or text.") from None
    with Archive(path) as archive:
        if _storage.is_model(archive):
            raise ValueError("this is a model, not a table of samples.")
        arrays = [name for name in archive.files if name != "feature_names"]
        name = next((name for name in ("X", "data") if name in arrays), arrays[0] if len(arrays) == 1 else None)
        if name is None:
            raise ValueError(f"it holds the arrays {_some(arrays)}: call the samples X.")
        X = archive[name]
        if "feature_names" in archive.files and X.ndim == 2:
            return as_frame(X, [str(label) for label in archive["feature_names"]])
        return X


SUFFIXES = {
    "parquet": (".parquet", ".pq"),
    "numpy": (".npy", ".npz"),
    "excel": (".xlsx",),
    "spss": (".sav", ".zsav"),
    "stata": (".dta",),
}
READERS: dict[str, Callable[..., Any]] = {
    "text": _read_text,
    "parquet": _read_parquet,
    "numpy": _read_numpy,
    "excel": _read_excel,
    "spss": labelled.read_spss,
    "stata": labelled.read_stata,
}


# ---------------------------------------------------------------------- what stands for missing


def _without(table: Any, na: list[str | float]) -> Any:
    """The table with the values ``na`` missing; numbers match whether given as 99 or "99"."""
    if not na:
        return table
    if not hasattr(table, "columns"):
        found = np.isin(table, [float(value) for value in na if _is_number(str(value), "")])
        return np.where(found, np.nan, table) if found.any() else table
    numbers = [float(value) for value in na if _is_number(str(value), "")]
    strange = {*numbers, *map(str, na)}
    for j, name in enumerate(table.columns):
        column = table.iloc[:, j]
        found = column.isin(strange)
        if not found.any():
            continue
        column = column.mask(found)
        if hasattr(column, "cat"):
            column = column.cat.remove_categories([label for label in column.cat.categories if label in strange])
        table[name] = column
    return table


def _unique(names: list[str]) -> list[str]:
    twice = [name for name in names if names.count(name) > 1] if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(f"two columns are called {twice[0]!r}: give each a name of its own.")
    return names


def _some(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _one_line(error: Exception) -> str:
    """What went wrong, on one line."""
    return " ".join(str(error).split()) or type(error).__name__
