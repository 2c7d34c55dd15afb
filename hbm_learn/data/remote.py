"""Remote: dask arrays and data frames as tables whose rows stay with the workers, and the scan of their values there.

Each chunk is scanned where it is, and tells its letters; what comes here is the union. Codes of a chunk are made in the
same look, in its own letters, and put into those of the table once these are known, so that a table is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from hbm_learn.data.chunks import Chunks
from hbm_learn.data.reading import Labelled, Table, common_kind, dense, placed, places, read_table, string_names, union
from hbm_learn.data.reduce import reduce
from hbm_learn.data.scan import ColumnEncoder, Encoder, Scan, translate
from hbm_learn.space import MISSING, Alphabet

# A table of at most so many cells is read here: sums of it would be no smaller.
MAX_READ_HERE = 2**16
_MAX_UNION = 64


def array_table(X: Any, kind: str, first_row: int) -> Table:
    """Table of a dask array of rows and columns, whose numbers are of one kind."""
    X = X.rechunk({1: -1})
    sizes, nodes = X.chunks[0], X.to_delayed().ravel().tolist()
    full = [k for k, size in enumerate(sizes) if size]
    parts = Chunks(tuple(nodes[k] for k in full), tuple(int(sizes[k]) for k in full))
    return _table(parts.then(_rows_of_array), (kind,) * int(X.shape[1]), None, {}, first_row)


def _table(
    rows: Chunks, kinds: tuple[str, ...], names: list[str] | None, labels: dict[int, list], first_row: int
) -> Table:
    chunks = rows.beside(rows.starts)
    return Table((rows.n_rows, len(kinds)), kinds, names, _nothing, labels, None, first_row, chunks)


def _nothing(lo: int, hi: int) -> np.ndarray:
    raise ValueError(f"rows {lo} to {hi} of a dask table are not brought here: give a part of it that memory holds.")


def _rows_of_array(part: Any) -> tuple[np.ndarray]:
    return (dense(part),)


# ---------------------------------------------------------------------- data frames


def frame_table(X: Any, first_row: int, labelled: Labelled) -> Table:
    """Table of a dask data frame, whose columns may hold text and categories.

    The partitions say what types and labels they have, and how many rows, before they are read as numbers.
    """
    names, n = string_names(X.columns), len(X.columns)
    if len(set(X.columns)) < n:
        twice = next(name for k, name in enumerate(X.columns) if name in X.columns[:k])
        raise ValueError(f"two columns of X are called {twice!r}: rename or drop one.")
    flags = list(labelled(names, n))
    partitions = X.to_delayed()
    told = Chunks(tuple(partitions), (0,) * len(partitions)).each(partial(_described, flags))
    full = [k for k, each in enumerate(told) if each is not None]
    if not full:
        raise ValueError(f"Found array with 0 sample(s) and {n} feature(s): both must be positive.")
    sizes, kinds, labels = zip(*(told[k] for k in full))
    if sum(sizes) * n <= MAX_READ_HERE:
        return read_table(X.compute(), first_row, labelled)
    other = next((j for j in range(n) if len({j in each for each in labels}) > 1), None)
    if other is not None:
        raise ValueError(
            f"column {names[other] if names else other!r} of X holds labels in some partitions and numbers in others: "
            "give every partition the same types."
        )
    shared = {j: union([each[j] for each in labels]) for j in labels[0]}
    common = tuple(common_kind([each[j] for each in kinds]) for j in range(n))
    parts = Chunks(tuple(partitions[k] for k in full), tuple(sizes))
    return _table(parts.then(partial(_rows_of_frame, flags, shared)), common, names, shared, first_row)


def _described(flags: Sequence[bool | None], part: Any) -> tuple[int, tuple[str, ...], dict[int, list]] | None:
    """Rows, kinds and labels of a partition; None of one without rows."""
    if not len(part):
        return None
    table = read_table(part, 0, lambda names, n: flags)
    return table.shape[0], table.kinds, table.labels


def _rows_of_frame(flags: Sequence[bool | None], labels: dict[int, list], part: Any) -> tuple[np.ndarray]:
    table = read_table(part, 0, lambda names, n: flags)
    return (placed(table.read(0, len(part)), places(table.labels, labels)),)


# ---------------------------------------------------------------------- scan


@dataclass(frozen=True, eq=False)
class _Seen:
    """What some rows hold: letters found in each column, None where they are too many; or what is wrong first."""

    limits: np.ndarray
    letters: list[list | None]
    gaps: np.ndarray
    has_codes: bool
    error: ValueError | None = None

    def __add__(self, later: _Seen) -> _Seen:
        if self.error is not None or later.error is not None:
            return later if self.error is None else self
        both = [None if a is None or b is None else sorted({*a, *b}) for a, b in zip(self.letters, later.letters)]
        letters = [None if mine is None or len(mine) > most else mine for mine, most in zip(both, self.limits)]
        return _Seen(self.limits, letters, self.gaps | later.gaps, self.has_codes and later.has_codes)


class RemoteScan:
    """What ``Scan`` finds, with its parameters and attributes, in a table whose rows stay with the workers."""

    def __init__(
        self,
        table: Table,
        columns: np.ndarray,
        known: list,
        limits: list[int],
        allow_nan: bool,
        alphabets: Sequence[Alphabet | None],
    ):
        assert table.chunks is not None
        self.table, self.columns = table, columns
        look = partial(_look, replace(table, chunks=None), columns, known, limits, allow_nan, alphabets)
        looked = table.chunks.then(look).kept(table.shape[0] * len(columns))
        (seen,) = reduce(lambda block: [block[0]], looked)
        if seen.error is not None:
            raise seen.error
        self.gaps = seen.gaps
        self.letters: list[list | None] = [a if b is None else b for a, b in zip(seen.letters, known)]
        self.n_seen = np.array([most + 1 if a is None else len(a) for a, most in zip(self.letters, limits)])
        everything = {x for mine in self.letters if mine is not None for x in mine}
        self.n_union = max(len(everything), int(self.n_seen.max()))
        self.codes: Chunks | None = None
        if not any(mine is None for mine in self.letters):
            self.encoder = _encoder(self.letters)  # type: ignore[arg-type]
            if seen.has_codes and looked.is_kept:
                self.codes = looked.then(partial(_in_letters, self.letters))


def _look(
    table: Table,
    columns: np.ndarray,
    known: list,
    limits: list[int],
    allow_nan: bool,
    alphabets: Sequence[Alphabet | None],
    block: tuple[np.ndarray, int],
) -> tuple[_Seen, np.ndarray | None, list[list | None]]:
    """What a chunk holds; its codes, if all columns have them; and the letters that these are positions in."""
    rows, lo = block
    part = replace(table, shape=rows.shape, read=lambda a, b: rows[a:b], first_row=table.first_row + lo)
    try:
        scan = Scan(part, columns, known, limits, allow_nan, alphabets)
    except ValueError as error:
        return _Seen(np.array(limits), [], np.zeros(0, dtype=bool), False, error), None, []
    found = [mine if given is None else [] for mine, given in zip(scan.letters, known)]
    return _Seen(np.array(limits), found, scan.gaps, scan.codes is not None), scan.codes, scan.letters


def _in_letters(letters: list, looked: tuple[_Seen, np.ndarray, list]) -> tuple[np.ndarray]:
    """Codes in the letters of the table from those in the letters of a chunk."""
    _, codes, mine = looked
    if mine == letters:
        return (codes,)
    return (translate(codes.copy(), _place(mine, letters)),)


def _encoder(letters: list[list]) -> Encoder | ColumnEncoder:
    everything = sorted({x for mine in letters for x in mine if x == x})
    if len(everything) > _MAX_UNION:
        return ColumnEncoder(letters)
    if all(mine == everything for mine in letters):
        return Encoder(everything)
    return Encoder(everything, _place([everything] * len(letters), letters))


def _place(old: list[list], new: list[list]) -> np.ndarray:
    """(k, 256) for each column the position among its new letters of each of its old ones."""
    out = np.full((len(old), MISSING + 1), MISSING, dtype=np.uint8)
    for row, mine, letters in zip(out, old, new):
        at = {x: k for k, x in enumerate(letters) if x == x}
        row[: len(mine)] = [at.get(x, MISSING) for x in mine]
    return out
