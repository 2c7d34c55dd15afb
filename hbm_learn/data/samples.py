"""Samples: what the user's X became. Any table ──► checked blocks of codes or values, with weights.

Arrays, data frames, sparse matrices, memory maps and dask arrays take the same path: rows are read a block at a time,
checked once, and afterwards served as codes (finite alphabets) or values ("real", Interval).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hbm_learn.data.tables import Table, read_table
from hbm_learn.space import Alphabet

# More distinct values than this are not taken for a finite alphabet unless one is given.
MAX_AUTO_VALUES = 16
MISSING = 255
# Codes are kept once found while they take at most this; beyond it blocks are read and encoded anew.
_MAX_KEPT_BYTES = 2**28
# Entries compared at a time, so that they stay in cache over the comparisons with each letter.
_CHUNK = 2**16
_BLOCK = 2**22


class Samples:
    """Checked samples; build with :meth:`check`.

    Attributes
    ----------
    alphabet : Alphabet
    n_samples, n_features : rows M and columns n.
    weights : None or (M,) float64.
    feature_names : list of str, or None if X has none.
    allow_nan : whether an entry may be NaN (code 255).
    """

    def __init__(
        self, table: Table, alphabet: Alphabet, weights: np.ndarray | None, codes: np.ndarray | None, allow_nan: bool
    ):
        self.alphabet = alphabet
        self.n_samples, self.n_features = table.shape
        self.weights = weights
        self.feature_names = table.names
        self._table = table
        self._codes = codes
        self.allow_nan = allow_nan

    @classmethod
    def check(
        cls,
        X: Any,
        alphabet: Any = "auto",
        sample_weight: Any = None,
        *,
        allow_nan: bool = False,
        order: int | None = None,
        first_row: int = 0,
    ) -> Samples:
        """Samples from any table of numbers, or a ValueError that says what is wrong and where.

        Parameters
        ----------
        X : (M, n) array, data frame, scipy sparse matrix (what is not stored is 0), memory map or dask array, or a list
            of such blocks of rows.
        alphabet : "auto" takes the values seen, up to 16, and "real" beyond; booleans are {0, 1}. Or values, an
            Interval, "real", an Alphabet.
        sample_weight : None or (M,) non-negative weights.
        allow_nan : accept NaN as "not observed": code 255.
        order : the order of interactions wanted, if known: "real" takes no more than 2.
        first_row : what to call the first row in messages.
        """
        table = read_table(X, first_row)
        scan = _Scan(table, alphabet, allow_nan)
        if order is not None:
            require_order(scan.alphabet, order, alphabet)
        weights = None if sample_weight is None else check_weights(sample_weight, table.shape[0])
        return cls(table, scan.alphabet, weights, scan.codes, allow_nan)

    def reweighted(self, sample_weight: Any) -> Samples:
        """The same samples, without reading them again, with other (M,) weights."""
        weights = check_weights(sample_weight, self.n_samples)
        return Samples(self._table, self.alphabet, weights, self._codes, self.allow_nan)

    def blocks(self, max_rows: int | None = None) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """(block, weights) over consecutive rows.

        Blocks are C-contiguous, at most ``max_rows`` (by default about 4 million entries) by n: uint8 codes, positions
        in ``alphabet.values`` with 255 for NaN, or float64 values when the alphabet is not finite.
        """
        max_rows = max_rows or max(64, _BLOCK // self.n_features // 64 * 64)
        for lo, block in self._encoded(max_rows):
            yield block, None if self.weights is None else self.weights[lo : lo + len(block)]

    def values_blocks(
        self, dtype: Any = np.float64, max_rows: int | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """As :meth:`blocks`, with the values of the variables in place of codes."""
        letters = None
        if self.alphabet.is_finite:
            letters = np.full(MISSING + 1, np.nan if self.allow_nan else 0).astype(dtype)
            letters[: self.alphabet.size] = self.alphabet.values
        for block, weights in self.blocks(max_rows):
            yield block.astype(dtype, copy=False) if letters is None else letters[block], weights

    def _encoded(self, max_rows: int) -> Iterator[tuple[int, np.ndarray]]:
        if self._codes is not None:
            for lo in range(0, self.n_samples, max_rows):
                yield lo, self._codes[lo : lo + max_rows]
        elif self.alphabet.is_finite:
            for lo, rows in self._table.blocks(max_rows):
                yield lo, encode(rows, self.alphabet.nodes.tolist())
        else:
            for lo, rows in self._table.blocks(max_rows):
                yield lo, np.ascontiguousarray(rows, dtype=np.float64)

    def __repr__(self) -> str:
        return f"Samples(n_samples={self.n_samples}, n_features={self.n_features}, {self.alphabet!r})"


class _Scan:
    """The one pass that finds or checks the alphabet, and every entry; ``codes`` are kept if they are small enough."""

    def __init__(self, table: Table, alphabet: Any, allow_nan: bool):
        self.table, self.allow_nan = table, allow_nan
        self.find = isinstance(alphabet, str) and alphabet == "auto"
        if self.find and table.dtype.kind == "b":
            self.find, alphabet = False, (0, 1)
        self.codes: np.ndarray | None = None
        self.alphabet = Alphabet("real" if self.find else alphabet)
        if self.alphabet.is_finite and self.alphabet.size > MISSING:
            raise ValueError(f"an alphabet of {self.alphabet.size} values: at most {MISSING} can be encoded.")
        if not (self.find or self.alphabet.is_finite) or not self._encode():
            for lo, rows in table.blocks(_rows_of(_BLOCK, table)):
                self._check_values(lo, rows)

    def _encode(self) -> bool:
        """Encode everything; False if an alphabet is to be found and there are too many values for a finite one."""
        table = self.table
        letters: list = [] if self.find else self.alphabet.nodes.tolist()
        codes = np.empty(table.shape, dtype=np.uint8) if table.shape[0] * table.shape[1] <= _MAX_KEPT_BYTES else None
        for lo, rows in table.blocks(_rows_of(_CHUNK, table)):
            out = None if codes is None else codes[lo : lo + len(rows)]
            block = encode(rows, letters, out)
            unknown = block == MISSING
            if not unknown.any():
                continue
            if self.find:
                strange = np.unique(rows[unknown])
                letters += strange[np.isfinite(strange)].tolist()
                if len(letters) > MAX_AUTO_VALUES:
                    return False
                block = encode(rows, letters, out)
                unknown = block == MISSING
            self._refuse(lo, rows, unknown, letters)
        self._settle(letters, codes)
        return True

    def _settle(self, letters: list, codes: np.ndarray | None) -> None:
        """Letters were found in the order seen; the alphabet has them ascending."""
        if self.find:
            if len(letters) < 2:
                seen = f"the single value {letters[0]:g}" if letters else "no value but NaN"
                raise ValueError(
                    f"X holds {seen}, so that nothing varies: give alphabet=… if other values are possible."
                )
            self.alphabet = Alphabet(letters)
            if codes is not None and letters != sorted(letters):
                place = np.full(MISSING + 1, MISSING, dtype=np.uint8)
                place[: len(letters)] = np.argsort(np.argsort(letters))
                np.take(place, codes, out=codes)
        self.codes = codes

    def _check_values(self, lo: int, rows: np.ndarray) -> None:
        low, high = self.alphabet.bounds
        if rows.dtype.kind == "f" or np.isfinite(low):
            self._refuse(lo, rows, ~((rows >= low) & (rows <= high) & np.isfinite(rows)), None)

    def _refuse(self, lo: int, rows: np.ndarray, unknown: np.ndarray, letters: list | None) -> None:
        """Raise for the first entry marked unknown, except NaN where that is allowed."""
        if self.allow_nan and rows.dtype.kind == "f":
            unknown = unknown & ~np.isnan(rows)
        if not unknown.any():
            return
        row, column = (int(axis[0]) for axis in np.nonzero(unknown))
        value = rows[row, column].item()
        where = self.table.place(lo + row, column)
        if np.isnan(value):
            raise ValueError(f"Input X contains NaN ({where}): drop the row, or fill the value in, before fitting.")
        if np.isinf(value):
            raise ValueError(f"Input X contains infinity ({where}): every value must be finite.")
        raise ValueError(
            f"X has the value {value!r} at {where}, outside the alphabet {self.alphabet}: correct it, or give an "
            "alphabet=… that contains it."
        )


def require_order(alphabet: Alphabet, order: int, given: Any = None) -> None:
    """Refuse orders above 2 on the real line, where exp(−H) has no finite integral."""
    if alphabet.kind == "real" and order > 2:
        why = 'alphabet="real"'
        if isinstance(given, str) and given == "auto":
            why = f'X has more than {MAX_AUTO_VALUES} distinct values, so that alphabet="auto" is "real", which'
        raise ValueError(
            f"{why} takes pair interactions only (order={order} was asked): use order=2, bin the columns into a few "
            "values, list them in alphabet=…, or give alphabet=Interval(low, high) for bounded variables."
        )


def encode(rows: np.ndarray, letters: list, out: np.ndarray | None = None) -> np.ndarray:
    """(m, n) uint8 position of each entry in ``letters``, 255 for what is not there.

    255 + (position + 1) wraps to the position: one comparison and two byte operations for each letter, in cache.
    """
    out = np.empty(rows.shape, dtype=np.uint8) if out is None else out
    if rows.dtype.kind == "b" and letters == [0, 1]:
        out[:] = rows
        return out
    if rows.dtype.kind in "iu":  # comparing integers with floats would convert every entry
        letters = [int(letter) if letter == int(letter) else letter for letter in letters]
    step = max(1, _CHUNK // rows.shape[1])
    for lo in range(0, len(rows), step):
        chunk, codes = np.ascontiguousarray(rows[lo : lo + step]), out[lo : lo + step]
        codes[:] = MISSING
        for position, letter in enumerate(letters):
            codes += (chunk == letter).view(np.uint8) * np.uint8(position + 1)
    return out


def _rows_of(n_entries: int, table: Table) -> int:
    return max(1, n_entries // table.shape[1])


def check_weights(sample_weight: Any, n_samples: int) -> np.ndarray:
    """(M,) float64 weights: finite, not negative, not all zero."""
    try:
        weights = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("sample_weight must be a vector of real numbers.") from None
    if weights.shape != (n_samples,):
        raise ValueError(f"sample_weight has shape {weights.shape}; expected ({n_samples},), one for each row of X.")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        raise ValueError(f"sample_weight[{bad[0]}] = {weights[bad[0]]}: weights must be finite and not negative.")
    if not weights.any():
        raise ValueError("sample_weight is zero for every row: at least one weight must be positive.")
    weights.setflags(write=False)
    return weights
