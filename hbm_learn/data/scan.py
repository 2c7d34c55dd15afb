"""Scan: the one pass that finds or checks the values of every column, and how numbers become codes.

Rows are compared with all letters of all columns at once, a chunk that stays in cache at a time; where columns have
letters of their own, a second look translates them. Beyond 64 letters in all each column is looked up by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hbm_learn._kernels import codes as _kernels
from hbm_learn._threads import in_threads, row_parts
from hbm_learn.data.ones import Ones
from hbm_learn.data.reading import Table
from hbm_learn.space import MAX_VALUES, MISSING, Alphabet

# Codes are kept once found while they take at most this; beyond it blocks are read and encoded anew.
MAX_KEPT_BYTES = 2**28
# Entries compared at a time, so that they stay in cache over the comparisons with each letter.
_CHUNK = 2**16
_MAX_UNION = 64
# Rows of a chunk that is taken column by column.
_MIN_ROWS = 512


def encode(rows: np.ndarray, letters: Sequence, out: np.ndarray | None = None) -> np.ndarray:
    """(m, n) uint8 position of each entry in ``letters``, 255 for what is not there.

    255 + (position + 1) wraps to the position: one comparison and two byte operations for each letter, in cache.
    """
    out = np.empty(rows.shape, dtype=np.uint8) if out is None else out
    if rows.dtype.kind == "b" and list(letters) == [0, 1]:
        out[:] = rows
        return out
    if rows.dtype.kind in "iu":  # comparing integers with floats would convert every entry
        letters = [int(letter) if letter == np.rint(letter) else letter for letter in letters]
    step = max(1, _CHUNK // rows.shape[1])
    for lo in range(0, len(rows), step):
        chunk, codes = _narrow(np.ascontiguousarray(rows[lo : lo + step]), letters), out[lo : lo + step]
        codes[:] = MISSING
        for position, letter in enumerate(letters):
            codes += (chunk == letter).view(np.uint8) * np.uint8(position + 1)
    return out


def _narrow(chunk: np.ndarray, letters: Sequence) -> np.ndarray:
    """Wide integers as bytes where they fit, which pays from about four comparisons on."""
    fits = chunk.dtype.kind in "iu" and chunk.itemsize > 2 and len(letters) > 3
    return chunk.astype(np.int8) if fits and chunk.min() >= -128 and chunk.max() <= 127 else chunk


def translate(codes: np.ndarray, place: np.ndarray) -> np.ndarray:
    """codes[r, i] ← place[i, codes[r, i]], in place."""
    in_threads(lambda part: _kernels.translate(codes[part], place), row_parts(len(codes), codes.size))
    return codes


class Encoder:
    """Codes of rows: positions in ``letters`` that all columns share, translated by ``place`` where they differ."""

    def __init__(self, letters: list, place: np.ndarray | None = None):
        self.letters, self.place = letters, place

    def __call__(self, rows: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        codes = encode(rows, self.letters, out)
        return codes if self.place is None else translate(codes, self.place)


class ColumnEncoder:
    """Codes of rows, each column with letters of its own, found by bisection."""

    def __init__(self, letters: Sequence[Sequence]):
        self.order = [np.argsort(mine) for mine in letters]
        self.letters = [np.asarray(mine, dtype=np.float64)[order] for mine, order in zip(letters, self.order)]

    def __call__(self, rows: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        out = np.empty(rows.shape, dtype=np.uint8) if out is None else out
        for j, (letters, order) in enumerate(zip(self.letters, self.order)):
            at = np.minimum(np.searchsorted(letters, rows[:, j]), len(letters) - 1)
            out[:, j] = np.where(letters[at] == rows[:, j], order[at], MISSING)
        return out


class Scan:
    """What a table holds in some of its columns.

    Parameters
    ----------
    table : Table
    columns : (k,) array of int
        Which columns to look at.
    known : list of (sequence of numbers or None)
        For each of them its letters, whose positions are the codes; None if they are to be found.
    limits : list of int
        For each of them how many letters to find at most; 254 at most.
    allow_nan : bool
    alphabets : sequence of (Alphabet or None)
        Of all columns of the table, for messages.

    Attributes
    ----------
    letters : list of (list of numbers or None)
        For each column its letters, ascending where they were found; None where there are too many.
    n_seen : (k,) array
        How many different numbers were seen; one more than the limit where there are more.
    n_union : int
        How many different numbers there are in all columns together, or one more than fits.
    encoder : callable
        Rows of these columns → codes.
    codes : (M, k) uint8, Ones, or None
        Everything encoded, if all columns were looked at and it is small enough to keep.
    gaps : (k,) bool array
        Columns in which a cell is missing.
    """

    def __init__(
        self,
        table: Table,
        columns: np.ndarray,
        known: list,
        limits: list[int],
        allow_nan: bool,
        alphabets: Sequence[Alphabet | None],
    ):
        self.table, self.columns, self.known, self.alphabets = table, columns, known, alphabets
        self.limits, self.allow_nan = np.asarray(limits), allow_nan
        self.finding = np.array([mine is None for mine in known])
        self.whole = len(columns) == table.shape[1]
        self.letters: list[list | None] = []
        self.gaps = np.zeros(len(columns), dtype=bool)
        self.encoder: Encoder | ColumnEncoder
        self.codes: Any = None
        if self.whole and table.ones is not None and self._by_ones(table.ones):
            return
        small = table.shape[0] * len(columns) <= MAX_KEPT_BYTES
        self.codes = np.empty((table.shape[0], len(columns)), dtype=np.uint8) if small and self.whole else None
        if not self._all_at_once():
            self._by_column()

    def rows(self, block: np.ndarray) -> np.ndarray:
        """The scanned columns of a block."""
        return block if self.whole else block[:, self.columns]

    # ------------------------------------------------------------------ zeros and ones

    def _by_ones(self, ones: Ones) -> bool:
        """False if 0 and 1 are not the first two values of every column that is known."""
        if any(mine is not None and list(mine[:2]) != [0, 1] for mine in self.known):
            return False
        counts = ones.counts()
        found: list[list] = [[0] if count == 0 else [1] if count == len(ones) else [0, 1] for count in counts.tolist()]
        letters = [mine if known is None else list(known) for mine, known in zip(found, self.known)]
        self.letters, self.n_seen = [*letters], np.array([len(mine) for mine in letters])
        self.n_union = len(set().union(*letters))
        self.encoder, self.codes = Encoder([0, 1]), ones
        return True

    # ------------------------------------------------------------------ all columns at once

    def _all_at_once(self) -> bool:
        """False if there are too many letters for it."""
        shared = not self.finding.any() and all(mine == self.known[0] for mine in self.known)
        letters: list = list(dict.fromkeys(x for mine in self.known if mine is not None for x in mine if x == x))
        if shared:
            letters = list(self.known[0])
        if len(letters) > _MAX_UNION:
            return False
        seen = np.zeros((len(self.columns), MAX_VALUES + 1), dtype=np.uint8)
        full = shared
        for lo, block in self.table.blocks(self._rows_of(_CHUNK)):
            rows = self.rows(block)
            out = None if self.codes is None else self.codes[lo : lo + len(rows)]
            codes = encode(rows, letters, out)
            if codes.max() == MISSING:
                strange = np.unique(rows[(codes == MISSING) & self.finding]) if self.finding.any() else np.zeros(0)
                strange = strange[np.isfinite(strange)].tolist()
                if len(letters) + len(strange) > _MAX_UNION and strange:
                    return False
                if strange:
                    letters, full = letters + strange, False
                    codes = encode(rows, letters, out)
                self._refuse(lo, rows, codes == MISSING)
            if not full:
                _kernels.mark(codes, seen)
                full = bool(seen[:, : len(letters)].all())
        self._settle(letters, None if shared else seen[:, : len(letters)].astype(bool))
        return True

    def _settle(self, letters: list, seen: np.ndarray | None) -> None:
        """Letters and codes of each column, from which of the shared letters were seen in it."""
        if seen is None:
            self.letters, self.encoder, self.n_union = list(self.known), Encoder(letters), len(letters)
            self.n_seen = np.full(len(self.columns), len(letters))
            return
        order = np.argsort(letters)
        ascending = [letters[k] for k in order]
        mine = seen[:, order]
        self.n_seen, self.n_union = mine.sum(axis=1), len(letters)
        place = np.full((len(self.columns), MISSING + 1), MISSING, dtype=np.uint8)
        place[:, order] = np.where(mine, np.cumsum(mine, axis=1) - 1, MISSING)
        for j in np.flatnonzero(~self.finding):
            place[j] = MISSING
            at = {x: k for k, x in enumerate(self.known[j]) if x == x}
            place[j, : len(letters)] = [at.get(x, MISSING) for x in letters]
            if (seen[j] & (place[j, : len(letters)] == MISSING)).any():
                self._refuse_first(letters, place)
        found = [[x for x, there in zip(ascending, row) if there] for row in mine]
        self.letters = [self.known[j] if not self.finding[j] else found[j] for j in range(len(found))]
        self._too_many()
        same = bool((place == place[0]).all()) and bool(seen.all())
        identity = same and letters == ascending and bool(self.finding.all())
        # Where every column has every letter, ascending letters need no translation.
        self.encoder = Encoder(ascending) if same and self.finding.all() else Encoder(letters, place)
        if self.codes is not None and not identity:
            if same:
                np.take(place[0], self.codes, out=self.codes)
            else:
                translate(self.codes, place)

    def _refuse_first(self, letters: list, place: np.ndarray) -> None:
        """Raise for the first entry that is a letter of another column, but not of its own."""
        for lo, block in self.table.blocks(self._rows_of(_CHUNK)):
            rows = self.rows(block)
            shared = encode(rows, letters)
            self._refuse(lo, rows, (translate(shared.copy(), place) == MISSING) & ~self.finding)

    # ------------------------------------------------------------------ column by column

    def _by_column(self) -> None:
        found = [np.zeros(0) if mine is None else np.asarray(mine, dtype=np.float64) for mine in self.known]
        many = np.zeros(len(found), dtype=bool)
        for lo, block in self.table.blocks(max(_MIN_ROWS, self._rows_of(_CHUNK))):
            rows = self.rows(block)
            unknown = ~np.isfinite(rows) if rows.dtype.kind == "f" else np.zeros(rows.shape, dtype=bool)
            for j in np.flatnonzero(~many):
                if self.finding[j]:
                    values = rows[~unknown[:, j], j]
                    found[j] = np.union1d(found[j], values)
                    many[j] = len(found[j]) > self.limits[j]
                else:
                    unknown[:, j] |= ~np.isin(rows[:, j], found[j])
            self._refuse(lo, rows, unknown)
            if many.all():
                break
        self.n_seen = np.array([len(mine) for mine in found])
        self.letters = [None if too_many else mine.tolist() for mine, too_many in zip(found, many)]
        self.n_union = len(np.unique(np.concatenate(found)))
        if many.any():
            self.codes = None
            return
        self.encoder = ColumnEncoder(self.letters)  # type: ignore[arg-type]
        if self.codes is not None:
            for lo, block in self.table.blocks(self._rows_of(2**22)):
                self.encoder(self.rows(block), self.codes[lo : lo + len(block)])

    def _too_many(self) -> None:
        for j in np.flatnonzero(self.finding & (self.n_seen > self.limits)):
            self.letters[j] = None

    def _rows_of(self, n_entries: int) -> int:
        return max(1, n_entries // self.table.shape[1])

    # ------------------------------------------------------------------ bad entries

    def _refuse(self, lo: int, rows: np.ndarray, unknown: np.ndarray) -> None:
        if unknown.any():
            refuse(self.table, lo, rows, unknown, self.columns, self.allow_nan, self.alphabets)
            self.gaps |= unknown.any(axis=0)  # what is not refused is missing


def refuse(
    table: Table,
    lo: int,
    rows: np.ndarray,
    unknown: np.ndarray,
    columns: np.ndarray,
    allow_nan: bool,
    alphabets: Sequence[Alphabet | None],
) -> None:
    """Raise for the first entry marked unknown, except NaN where that is allowed.

    Parameters
    ----------
    table : Table
    lo : int
        The row of the table that ``rows`` begin with.
    rows, unknown : (m, k) arrays
    columns : (k,) array
        What columns of the table they are.
    allow_nan : bool
    alphabets : sequence
        Of all columns of the table.
    """
    if allow_nan and rows.dtype.kind == "f":
        unknown = unknown & ~np.isnan(rows)
    if not unknown.any():
        return
    row, k = (int(axis[0]) for axis in np.nonzero(unknown))
    number, j = rows[row, k].item(), int(columns[k])
    where = table.place(lo + row, j)
    if np.isnan(number):
        raise ValueError(
            f"Input X contains NaN ({where}): only complete rows are fitted and scored; drop the row, or fill it in."
        )
    if np.isinf(number):
        raise ValueError(f"Input X contains infinity ({where}): every value must be finite.")
    raise ValueError(
        f"X has the value {table.value(number, j)!r} at {where}, outside the alphabet {alphabets[j]}: correct it, or "
        "give an alphabet=… that contains it."
    )
