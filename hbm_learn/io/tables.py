"""Tables on disk: CSV, TSV, Parquet, .npy and .npz in and out, with the names of the columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hbm_learn.io import models as _storage

SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
FORMATS = ".csv, .tsv, .parquet, .npy or .npz"


def read(path: str | Path) -> Any:
    """The table in a file: a data frame if its columns have names, else an array; (rows, columns).

    CSV and TSV may lack a header (a first line of numbers is data) and may be compressed (.csv.gz). An .npz file holds
    one array, or one called X or data, and perhaps ``feature_names``.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file.")
    kind = _kind(path)
    try:
        table = {"text": _read_text, "parquet": _read_parquet, "numpy": _read_numpy}[kind](path)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path}: {_one_line(error)}") from error
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"{path}: a table of rows and columns is needed, and this has shape {table.shape}.")
    return table


def write(path: str | Path, X: np.ndarray, names: Sequence[str] | None) -> None:
    """Write (rows, columns) X in the format that the name of the file says."""
    path = Path(path)
    if _kind(path) == "numpy":
        with open(path, "wb") as file:
            if path.suffix == ".npy":
                np.save(file, X)
            else:
                extra: dict[str, Any] = {} if names is None else {"feature_names": np.array(names)}
                np.savez_compressed(file, X=X, **extra)
        return
    write_frame(path, as_frame(X, names))


def write_frame(path: str | Path, frame: Any) -> None:
    """Write a data frame as text or Parquet."""
    path = Path(path)
    require_frame_format(path)
    if _kind(path) == "text":
        frame.to_csv(path, sep=_separator(path), index=False)
    else:
        frame.to_parquet(path, index=False)


def require_frame_format(path: str | Path) -> None:
    if _kind(Path(path)) == "numpy":
        raise ValueError(f"{path}: a table of names and numbers is written as .csv, .tsv or .parquet.")


def as_frame(X: np.ndarray, names: Sequence[str] | None) -> Any:
    """A data frame, with x0, x1, … for columns without names."""
    import pandas as pd

    return pd.DataFrame(X, columns=list(names) if names is not None else [f"x{i}" for i in range(X.shape[1])])


def names_of(table: Any) -> list[str] | None:
    """The names of the columns, or None."""
    return [str(name) for name in table.columns] if hasattr(table, "columns") else None


def choose_columns(table: Any, keep: Sequence[str] | None = None, drop: Sequence[str] | None = None) -> Any:
    """Some of the columns, by name or (without names) by number; ValueError for one that is not there."""
    names = names_of(table) or [str(i) for i in range(table.shape[1])]
    for name in [*(keep or []), *(drop or [])]:
        if name not in names:
            raise ValueError(f"there is no column {name!r}; the columns are {_some(names)}.")
    order = [names.index(name) for name in keep] if keep else range(len(names))
    chosen = [i for i in order if names[i] not in (drop or [])]
    if not chosen:
        raise ValueError("no column is left: drop fewer of them.")
    if chosen == list(range(len(names))):
        return table
    return table.iloc[:, chosen] if hasattr(table, "iloc") else table[:, chosen]


def _some(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _kind(path: Path) -> str:
    suffix = _suffix(path)
    if suffix in SEPARATORS:
        return "text"
    if suffix in (".parquet", ".pq"):
        return "parquet"
    if suffix in (".npy", ".npz"):
        return "numpy"
    raise ValueError(f"{path}: the format {suffix or '(no suffix)'} is not known; use {FORMATS}.")


def _suffix(path: Path) -> str:
    """The suffix that names the format, under one of compression."""
    packed = path.suffix.lower() in (".gz", ".bz2", ".xz", ".zst")
    return Path(path.stem).suffix.lower() if packed else path.suffix.lower()


def _separator(path: Path) -> str:
    return SEPARATORS[_suffix(path)]


def _read_text(path: Path) -> Any:
    import pandas as pd

    sep = _separator(path)
    first = pd.read_csv(path, sep=sep, header=None, nrows=1, dtype=str, keep_default_na=False).iloc[0].tolist()
    if len(first) == 1 and ";" in first[0]:  # what spreadsheets write where the comma is the decimal mark
        sep, first = ";", first[0].split(";")
    if all(_is_number(cell) for cell in first):
        return pd.read_csv(path, sep=sep, header=None).to_numpy()
    frame = pd.read_csv(path, sep=sep, skipinitialspace=True)
    frame.columns = [str(name).strip() for name in frame.columns]
    return frame


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_parquet(path: Path) -> Any:
    import pandas as pd

    try:
        frame = pd.read_parquet(path)
    except ImportError as error:
        raise ImportError(f"{path}: Parquet needs pyarrow: pip install 'hbm-learn[parquet]'.") from error
    frame.columns = [str(name) for name in frame.columns]
    return frame


def _read_numpy(path: Path) -> Any:
    if path.suffix.lower() == ".npy":
        return np.load(path, allow_pickle=False, mmap_mode="r")
    with np.load(path, allow_pickle=False) as archive:
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


def _one_line(error: Exception) -> str:
    """What went wrong, on one line."""
    return " ".join(str(error).split()) or type(error).__name__
