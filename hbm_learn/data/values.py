"""Values: what each column of a table is, from what the user says of it and what is in it.

Numbers are the values seen, at most 16; labels all that are seen, at most 254; a table all of whose columns have more
numbers than that is on the real line.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hbm_learn.data.chunks import Chunks
from hbm_learn.data.coding import BOOLEAN, FLOAT, as_labels, column_index
from hbm_learn.data.ones import Ones
from hbm_learn.data.reading import Table
from hbm_learn.data.scan import ColumnEncoder, Encoder, Scan, refuse
from hbm_learn.space import MAX_VALUES, Alphabet, Nominal
from hbm_learn.space.alphabet import LARGEST
from hbm_learn.space.alphabets import each_alphabet

if TYPE_CHECKING:
    from hbm_learn.data.remote import RemoteScan

# More distinct numbers than this are not taken for a finite alphabet unless one is given.
MAX_AUTO_VALUES = 16
_BLOCK = 2**22
# What people write for "missing", where a value far from the others is one of these.
_MISSING_CODES = {-7, -8, -9, 9} | {
    sign * code for sign in (-1, 1) for code in (77, 88, 96, 97, 98, 99, 777, 888, 997, 998, 999, 9999, 99999)
}


class MissingCodesWarning(UserWarning):
    """A column has values that look like codes for missing; ``codes`` lists them, joined by commas."""

    def __init__(self, message: str, codes: str):
        super().__init__(message)
        self.codes = codes


@dataclass(frozen=True, eq=False)
class Found:
    """The alphabet of each column; how the finite ones are encoded; the codes, if they could be kept."""

    alphabets: list[Alphabet]
    encoder: Encoder | ColumnEncoder | None
    codes: np.ndarray | Chunks | Ones | None


def given_alphabets(
    alphabet: Any, names: Sequence[str] | None, n_features: int, given: np.ndarray | None = None
) -> list[Alphabet | None]:
    """What the user says of each column; None for "auto".

    Parameters
    ----------
    alphabet : "auto", one for all, a sequence, or {index or name: one}
        Columns that a dict does not name are "auto".
    names : sequence of str or None
    n_features : int
    given : (n,) bool array or None
        Columns that are not modelled, which may be real beside others.
    """
    if isinstance(alphabet, Mapping):
        chosen: list[Any] = ["auto"] * n_features
        for key, spec in alphabet.items():
            chosen[column_index(key, names, n_features, "alphabet")] = spec
        alphabet = chosen
    if _is_auto(alphabet):
        return [None] * n_features
    out: list[Alphabet | None]
    if isinstance(alphabet, (list, tuple)) and any(map(_is_auto, alphabet)):
        if len(alphabet) != n_features:
            raise ValueError(f"alphabet has {len(alphabet)} entries for {n_features} columns: give one for each.")
        out = [None if _is_auto(spec) else Alphabet(spec) for spec in alphabet]
    else:
        out = list(each_alphabet(alphabet, n_features, given))
    for spec in out:
        if spec is not None and spec.is_finite and spec.size > MAX_VALUES:
            raise ValueError(
                f"alphabet=… has {spec.size} values for one column: at most {MAX_VALUES} can be encoded; bin them."
            )
    return out


def _is_auto(spec: Any) -> bool:
    return isinstance(spec, str) and spec == "auto"


def labelled(
    alphabets: Sequence[Alphabet | None], categorical_features: Any, names: Sequence[str] | None
) -> list[bool | None]:
    """For each column whether it holds labels; None where its type says so."""
    numeric = [spec is not None and not spec.is_nominal for spec in alphabets]
    out = as_labels(categorical_features, names, len(alphabets), numeric)
    return [True if spec is not None and spec.is_nominal else flag for spec, flag in zip(alphabets, out)]


def find_values(
    table: Table,
    known: list[Alphabet | None],
    labels: Sequence[bool | None],
    allow_nan: bool,
    given: np.ndarray | None = None,
) -> Found:
    """One pass over the table (two if a column is on the real line) that finds or checks the values of every column.

    Parameters
    ----------
    table : Table
    known : list of (Alphabet or None)
        What the user says of each column; None where its values are to be found.
    labels : sequence of (bool or None)
        Which columns hold labels; None where their type says so.
    allow_nan : bool
    given : (n,) bool array or None
        Columns that are not modelled: such numbers are real where they are too many to be listed.
    """
    n = table.shape[1]
    given = np.zeros(n, dtype=bool) if given is None else given
    nominal = [bool(labels[j]) or j in table.labels for j in range(n)]
    alphabets = [_boolean_or(spec, table, j, nominal[j]) for j, spec in enumerate(known)]
    listed = np.array([j for j in range(n) if alphabets[j] is None or alphabets[j].is_finite], dtype=np.intp)  # type: ignore[union-attr]
    if not len(listed):
        _check_continuous(table, alphabets, allow_nan)
        return Found(alphabets, None, None)  # type: ignore[arg-type]
    letters = [None if alphabets[j] is None else _letters(alphabets[j], table, j) for j in listed]
    limits = [MAX_VALUES if nominal[j] else MAX_AUTO_VALUES for j in listed]
    scan = _scan(table, listed, letters, limits, allow_nan, alphabets)
    free = [k for k, j in enumerate(listed) if alphabets[j] is None]
    real = Alphabet("real")
    lines = [int(listed[k]) for k in free if given[listed[k]] and scan.letters[k] is None and not nominal[listed[k]]]
    if lines:
        specs = [real if j in lines else spec for j, spec in enumerate(known)]
        return find_values(table, specs, labels, allow_nan, given)
    if not given.any() and _is_real(scan, free, nominal, table):
        alphabets = [real] * n
        _check_continuous(table, alphabets, allow_nan)
        return Found(alphabets, None, None)  # type: ignore[arg-type]
    _refuse_columns(scan, free, nominal)
    shared: dict[tuple, Alphabet] = {}
    for k in free:
        j = int(listed[k])
        values = tuple(table.value(x, j) for x in scan.letters[k])  # type: ignore[union-attr]
        if scan.gaps[k] or (scan.gaps.any() and set(table.kinds) == {FLOAT}):
            values = _whole(values)
        key = (nominal[j], *values)
        if key not in shared:
            try:
                shared[key] = Alphabet(Nominal(*values) if nominal[j] else values)
            except ValueError as error:
                raise ValueError(f"{table.column(j)}: {error}") from error
        alphabets[j] = shared[key]
    _warn_of_missing_codes(table, [(int(listed[k]), scan.letters[k]) for k in free if not nominal[listed[k]]])
    if len(listed) < n:
        _check_continuous(table, alphabets, allow_nan)
    return Found(alphabets, scan.encoder, scan.codes)  # type: ignore[arg-type]


def _scan(table: Table, *options: Any) -> Scan | RemoteScan:
    if table.chunks is None:
        return Scan(table, *options)
    from hbm_learn.data.remote import RemoteScan

    return RemoteScan(table, *options)


def _whole(values: tuple) -> tuple:
    """Whole numbers that are floats only since NaN stands among them, as integers again."""
    whole = all(isinstance(x, float) and x == np.rint(x) and abs(x) < 2.0**53 for x in values)
    return tuple(int(x) for x in values) if whole else values


def _boolean_or(spec: Alphabet | None, table: Table, j: int, nominal: bool) -> Alphabet | None:
    """Booleans are 0 and 1 even if one is never seen; numbers of a column of labels are labels."""
    if spec is None and table.kinds[j] == BOOLEAN and not nominal:
        return Alphabet((0, 1))
    if spec is not None and nominal and spec.kind == "finite":
        return Alphabet(Nominal(*spec.values.tolist()))  # type: ignore[union-attr]
    return spec


def _letters(alphabet: Alphabet, table: Table, j: int) -> list:
    """The numbers in column j of the values of an alphabet; NaN for labels that the table does not have."""
    values = alphabet.values.tolist()  # type: ignore[union-attr]
    if j in table.labels:
        place = {label: k for k, label in enumerate(table.labels[j])}
        return [place.get(label, np.nan) for label in values]
    return [np.nan if isinstance(value, str) else float(value) for value in values]


def _is_real(scan: Scan | RemoteScan, free: list[int], nominal: list[bool], table: Table) -> bool:
    """Whether every column is of numbers, and those too many to be listed: more than 16, or one for most distinct rows.

    The second matters for tables of up to 32 distinct rows only, where 16 values are no sign of a short list. Repeated
    rows do not count, so that they are the same as weights.
    """
    if len(free) < table.shape[1] or any(nominal) or scan.n_union <= MAX_AUTO_VALUES:
        return False
    fewest = int(scan.n_seen.min())
    return fewest > MAX_AUTO_VALUES or _fewer_rows(table, 2 * fewest, int(scan.n_seen.max()))


def _fewer_rows(table: Table, limit: int, at_least: int) -> bool:
    """Whether a table, known to have ``at_least`` so many different rows, has fewer than ``limit``."""
    seen: set[bytes] = set()
    if at_least >= limit:
        return False
    for found in table.each(partial(_some_rows, limit), 64):
        seen |= found
        if len(seen) >= limit:
            return False
    return True


def _some_rows(limit: int, lo: int, rows: np.ndarray) -> set[bytes]:
    """Different rows of a block, no more than ``limit``."""
    seen: set[bytes] = set()
    for row in rows:
        seen.add(row.tobytes())
        if len(seen) == limit:
            break
    return seen


def _check_continuous(table: Table, alphabets: Sequence[Alphabet | None], allow_nan: bool) -> None:
    about = replace(table, chunks=None)
    for large in table.each(partial(_beyond, about, alphabets, allow_nan), max(1, _BLOCK // table.shape[1])):
        if large is not None:
            raise ValueError(
                f"{table.column(large)} has numbers beyond {LARGEST:g}, whose products leave the "
                "range of floats: write it in other units."
            )


def _beyond(
    table: Table, alphabets: Sequence[Alphabet | None], allow_nan: bool, lo: int, block: np.ndarray
) -> int | None:
    """The first continuous column with numbers that are too large; ValueError for what is outside of an alphabet."""
    columns = np.array([j for j, a in enumerate(alphabets) if a is not None and not a.is_finite])
    low, high = (np.array([alphabets[j].bounds[side] for j in columns]) for side in (0, 1))
    rows = block if len(columns) == block.shape[1] else block[:, columns]
    if rows.dtype.kind == "f" or np.isfinite(low).any():
        unknown = ~((rows >= low) & (rows <= high) & np.isfinite(rows))
        refuse(table, lo, rows, unknown, columns, allow_nan, alphabets)
    large = np.flatnonzero((np.abs(rows) > LARGEST).any(axis=0))
    return int(columns[large[0]]) if large.size else None


# ---------------------------------------------------------------------- columns that will not do


def _refuse_columns(scan: Scan | RemoteScan, free: list[int], nominal: list[bool]) -> None:
    """ValueError for columns without values, with one value, or with too many; nothing otherwise."""
    table = scan.table

    def named(found: list[int]) -> str:
        names = [table.column(int(scan.columns[k])).removeprefix("column ") for k in found]
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        return f"column{'s' if len(names) > 1 else ''} {', '.join(names[:10])}{more}"

    empty = [k for k in free if scan.n_seen[k] == 0]
    if empty:
        raise ValueError(
            f"{named(empty)} hold{'s' * (len(empty) == 1)} no value but NaN: there is nothing to learn from; drop "
            f"{'it' if len(empty) == 1 else 'them'}."
        )
    single = [k for k in free if scan.n_seen[k] == 1]
    if single and table.shape[0] == 1:
        raise ValueError("X has only 1 sample (n_samples = 1), so that nothing varies: give more rows.")
    if single:
        value = table.value(scan.letters[single[0]][0], int(scan.columns[single[0]]))  # type: ignore[index]
        shown = value if isinstance(value, (str, bool)) else format(value, "g")
        raise ValueError(
            f"{named(single[:1])} is constant: it holds the single value {shown}, so that nothing varies there"
            f"{f' (and {len(single) - 1} more such columns)' if len(single) > 1 else ''}: drop it (for instance with "
            "sklearn.feature_selection.VarianceThreshold), or give alphabet=… if other values are possible."
        )
    ids = [k for k in free if scan.letters[k] is None and nominal[scan.columns[k]]]
    if ids:
        raise ValueError(
            f"{named(ids)} {'have' if len(ids) > 1 else 'has'} more than {MAX_VALUES} different labels, as an id or "
            "free text has: drop it, or group its labels into a few."
        )
    many = [k for k in free if scan.letters[k] is None]
    if many:
        raise ValueError(
            f"{named(many)} {'have' if len(many) > 1 else 'has'} more than {MAX_AUTO_VALUES} different values, while "
            "other columns have few: drop what is an id (labels of rows that belong together go to fit(…, groups=…)); "
            "name what acts on the others but is not itself to be modelled in given=[…] (a covariate, a time); "
            "bin what is continuous into a few values (for instance with sklearn.preprocessing.KBinsDiscretizer), "
            "or list its values in alphabet={…}."
        )


def _warn_of_missing_codes(table: Table, columns: list[tuple[int, list | None]]) -> None:
    known: dict[tuple, list] = {}
    for j, letters in columns:
        key = tuple(letters or ())
        if key not in known:
            known[key] = missing_codes(key)
        if known[key]:
            codes = [format(x, "g") for x in known[key]]
            message = (
                f"{table.column(j)} has the value {' and '.join(codes)} far from its others, which looks like a code "
                "for missing: replace it by NaN, or list the values in alphabet=… if it is one of them."
            )
            warnings.warn(MissingCodesWarning(message, ",".join(codes)), stacklevel=5)


def missing_codes(letters: Sequence[float]) -> list[float]:
    """Values at either end that look like codes for missing.

    They are among those that people use, and the gap to the others (at least two) is wider than all of those span.
    """
    rest, found = sorted(letters), []
    for side in (-1, 0, -1):
        run: list[float] = []
        while len(rest) - len(run) > 2 and _from_end(rest, side, len(run)) in _MISSING_CODES:
            run.append(_from_end(rest, side, len(run)))
            core = [x for x in rest if x not in run]
            gap = min(abs(x - y) for x in run for y in core)
            if gap > core[-1] - core[0]:
                found += run
                rest = core
                break
    return sorted(found)


def _from_end(values: list[float], side: int, k: int) -> float:
    return values[-1 - k] if side else values[k]
