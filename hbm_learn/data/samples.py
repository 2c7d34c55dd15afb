"""Samples: what the user's X became. Any table ──► a space, and checked blocks of codes or values, with weights.

Arrays, data frames, sparse matrices and memory maps take the same path: rows are read a block at a time, checked once,
and afterwards served as codes (finite alphabets) or values ("real", Interval). The rows of a dask table stay with the
workers, as codes that are made there once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from hbm_learn._validation import seed_sequence
from hbm_learn.data.chunks import Chunks
from hbm_learn.data.coding import INTEGER
from hbm_learn.data.given import find_anchors, given_mask, refuse_both
from hbm_learn.data.ones import Ones
from hbm_learn.data.reading import Table, read_table
from hbm_learn.data.reduce import reduce
from hbm_learn.data.scan import MAX_KEPT_BYTES, ColumnEncoder, Encoder
from hbm_learn.data.sums import value_counts
from hbm_learn.data.tables import check_weights
from hbm_learn.data.values import MAX_AUTO_VALUES, Found, find_values, given_alphabets, labelled
from hbm_learn.space import MISSING, Alphabet, Space

_BLOCK = 2**22
# Where rows of a dask table are needed here, at most so many are brought: the larger of a number and one in so many.
FEWEST, SHARE = 4096, 200


class Samples:
    """Checked samples; build with :meth:`check`.

    Attributes
    ----------
    space : Space
        The values of each variable, in the coding gauge.
    n_samples, n_features : int
        Rows M and columns n.
    weights : (M,) float64, or None
    feature_names : list of str, or None
        None if X has none.
    allow_nan : bool
        Whether an entry may be missing: code 255.
    """

    def __init__(self, table: Table, space: Space, weights: np.ndarray | None, found: Found, allow_nan: bool):
        self.space = space
        self.n_samples, self.n_features = table.shape
        self.weights = weights
        self.feature_names = table.names
        self.allow_nan = allow_nan
        self._table, self._found = table, found

    @classmethod
    def check(
        cls,
        X: Any,
        alphabet: Any = "auto",
        sample_weight: Any = None,
        *,
        categorical_features: Any = "from_dtype",
        powers: Any = 1,
        given: Any = None,
        allow_nan: bool = False,
        order: int | None = None,
        first_row: int = 0,
        space: Space | None = None,
    ) -> Samples:
        """Samples from any table, or a ValueError that says what is wrong and where.

        Parameters
        ----------
        X : (M, n) table
            Array, data frame (pandas, polars), scipy sparse matrix (what is not stored is 0), memory map, dask array
            or data frame, or a list of such blocks of rows. NaN, None, NA and null are missing.
        alphabet : "auto", values, Nominal, Interval, "real", Alphabet, sequence or dict
            "auto": for each column the values seen, at most 16; "real" if every column has more. Booleans are {0, 1}.
            Or one for all columns, a sequence with one for each, or {index or name: one} with "auto" for the others.
        sample_weight : (M,) array, optional
            Non-negative weights.
        categorical_features : "from_dtype", None, or sequence
            Which columns hold labels. "from_dtype": text and unordered categories; ordered categories (pandas; polars
            Enum) are the numbers 0 … q − 1 in their order. Or indices, names or a boolean mask of these columns, whose
            numbers are then labels too. None: no column.
        powers : int or (n,) ints
            The highest power of each numeric variable that takes part in interactions.
        given : sequence or None
            Indices or names of columns that are not modelled. They may have any number of values.
        allow_nan : bool
            Accept missing entries: code 255.
        order : int, optional
            The order of interactions wanted, if known: "real" takes no more than 2.
        first_row : int
            What to call the first row in messages.
        space : Space, optional
            Of a fitted model: X is encoded in it, and nothing is found.
        """
        if space is not None and not (isinstance(alphabet, str) and alphabet == "auto"):
            raise ValueError("give alphabet or space, not both: a space has its alphabets.")

        def known(names: list[str] | None, n: int) -> list[Alphabet | None]:
            if space is None:
                return given_alphabets(alphabet, names, n, given_mask(given, names, n))
            if n != space.n_features:
                raise ValueError(f"X has {n} features, but Space is expecting {space.n_features} features as input.")
            return list(space.alphabets)

        def labels(names: list[str] | None, n: int) -> list[bool | None]:
            refuse_both(given, categorical_features, names, n)
            specs = known(names, n)
            flags = labelled(specs, categorical_features if space is None else "from_dtype", names)
            free = given_mask(given, names, n) & np.array([spec is None for spec in specs])
            return [None if by_type else flag for flag, by_type in zip(flags, free)]

        table = read_table(X, first_row, labels)
        names, n = table.names, table.shape[1]
        weights = None if sample_weight is None else check_weights(sample_weight, table.shape[0])
        mask = given_mask(given, names, n) if space is None else space.given
        found = find_values(table, known(names, n), labels(names, n), allow_nan, mask)
        if space is None:
            anchors = find_anchors(table, weights, found.alphabets, mask)
            space = Space.of(found.alphabets, n, powers, mask, anchors)
        if order is not None:
            require_order(space, order, alphabet)
        return cls(table, space, weights, found, allow_nan)

    @classmethod
    def of_codes(
        cls, space: Space, codes: np.ndarray, weights: np.ndarray | None, names: list[str] | None = None
    ) -> Samples:
        """Samples from codes, none of them missing.

        Parameters
        ----------
        space : Space
            Finite.
        codes : (M, n) uint8
            Positions in the values of each variable.
        weights : (M,) array or None
            Not negative.
        names : list of str or None
            Of the variables.
        """
        table = Table(codes.shape, (INTEGER,) * codes.shape[1], names, lambda lo, hi: codes[lo:hi])
        found = Found(list(space.alphabets), None, np.ascontiguousarray(codes))
        return cls(table, space, weights, found, False)

    @cached_property
    def _gaps(self) -> tuple[np.ndarray, int]:
        """(n,) missing cells of each column, and the number of rows that have some."""
        if not self.allow_nan or self.ones is not None:
            return np.zeros(self.n_features, dtype=np.int64), 0
        cells, rows = reduce(partial(_gaps, self.space.sizes > 0), self.blocks(), whole=True)
        return cells, rows

    @property
    def n_missing(self) -> np.ndarray:
        """(n,) missing cells of each column."""
        return self._gaps[0]

    @property
    def n_incomplete(self) -> int:
        """Rows in which something is missing."""
        return self._gaps[1]

    def complete(self) -> Samples:
        """The same samples if nothing is missing, as such; themselves otherwise."""
        if not self.allow_nan or self.n_missing.any():
            return self
        return Samples(self._table, self.space, self.weights, self._found, False)

    def reweighted(self, sample_weight: Any) -> Samples:
        """The same samples, without reading them again, with other (M,) weights."""
        weights = check_weights(sample_weight, self.n_samples)
        return Samples(self._table, self.space, weights, self._found, self.allow_nan)

    @property
    def alphabet(self) -> Alphabet | tuple[Alphabet, ...]:
        """The alphabet that all variables share, else one for each."""
        return self.space.alphabet or self.space.alphabets

    @cached_property
    def frequencies(self) -> list[np.ndarray]:
        """For each variable the (q_i,) weighted share of each of its values among what is not missing."""
        if not self.space.is_finite:
            raise ValueError(f"{self.space} has continuous variables, whose values have no frequencies.")
        counts = value_counts(self.blocks() if self.ones is None else [(self.ones, self.weights)], self.space)
        return [mine / max(mine.sum(), 1e-300) for mine in self.space.by_site(counts)]

    # ------------------------------------------------------------------ blocks

    def blocks(self, max_rows: int | None = None) -> Iterable[tuple[np.ndarray, np.ndarray | None]] | Chunks:
        """(block, weights) over consecutive rows.

        Blocks are C-contiguous, at most ``max_rows`` (by default about 4 million entries) by n: uint8 codes, positions
        in the ``values`` of each alphabet with 255 for what is missing. Where a variable is continuous blocks are
        float64, with its values, NaN for what is missing, and the codes of the others. Of a dask table they are Chunks,
        for ``reduce``, that nothing can go through here.
        """
        max_rows = max_rows or max(64, _BLOCK // self.n_features // 64 * 64)
        return self._here(max_rows) if self._chunks is None else replace(self._chunks, max_rows=max_rows)

    def _here(self, max_rows: int) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        for lo, block in self._encoded(max_rows):
            yield block, None if self.weights is None else self.weights[lo : lo + len(block)]

    @property
    def stays(self) -> bool:
        """Whether these are the rows of a dask table, which stay with its workers."""
        return self._table.chunks is not None

    @property
    def ones(self) -> Ones | None:
        """All rows by their ones, where that is how codes are held: of a sparse matrix of zeros and ones."""
        return self._found.codes if isinstance(self._found.codes, Ones) else None

    @property
    def is_large_as_codes(self) -> bool:
        """Whether rows are held by their ones, and would be too large as codes."""
        return self.ones is not None and self.ones.size > MAX_KEPT_BYTES

    @cached_property
    def _chunks(self) -> Chunks | None:
        """(codes, weights) of each chunk of a dask table."""
        if self._table.chunks is None:
            return None
        chunks = self._found.codes
        if not isinstance(chunks, Chunks):
            chunks = self._table.chunks.then(partial(_encode, self._found.encoder, self.space))
        edges = [*chunks.starts, self.n_samples]
        weights = [None if self.weights is None else self.weights[lo:hi] for lo, hi in pairwise(edges)]
        chunks = chunks.beside(weights)
        # Values of continuous variables are as large as the table: they are read anew.
        return chunks.kept(self.n_samples * self.n_features) if self.space.has_codes else chunks

    def on_rows(self, work: Callable[[np.ndarray], np.ndarray]) -> Any:
        """work(codes): a number for each row; a dask array of them, where the rows are, of a dask table.

        Parameters
        ----------
        work : callable
            (rows, n) codes → (rows,) float64.
        """
        if self.is_large_as_codes:
            return np.concatenate([work(block) for block, _ in self._here(max(64, _BLOCK // self.n_features))])
        if self._chunks is None:
            return work(np.concatenate([block for block, _ in self._here(self.n_samples)]))
        return self._chunks.then(lambda block: work(block[0])).as_array()

    @property
    def most_here(self) -> int:
        """How many rows of a dask table may be brought here."""
        return max(FEWEST, self.n_samples // SHARE)

    def some(self, most: int, random_state: Any = None) -> tuple[np.ndarray, np.ndarray | None]:
        """Codes and weights of all rows; at most so many, drawn at random, in their order, where all would be too many.

        That is so of a dask table, and of one that is held by its ones and would be large as codes.

        Parameters
        ----------
        most : int
            Rows that may be brought here; never more than ``most_here``.
        random_state : int, SeedSequence, Generator, RandomState or None
        """
        if not self.stays and not self.is_large_as_codes:
            return np.concatenate([block for block, _ in self.blocks()]), self.weights
        most = min(most, self.n_samples, self.most_here if self.stays else most)
        rng = np.random.default_rng(seed_sequence(random_state))
        rows = np.sort(rng.choice(self.n_samples, most, replace=False))
        if self.ones is not None:
            return self.ones[rows].toarray(), None if self.weights is None else self.weights[rows]
        return self._rows(rows)

    def first(self, most: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Codes and weights of the first rows, at most so many."""
        if self.stays:
            return self._rows(np.arange(min(most, self.n_samples)))
        blocks, n = [], 0
        for block, _ in self.blocks():
            blocks.append(block)
            n += len(block)
            if n >= most:
                break
        return np.concatenate(blocks)[:most], None if self.weights is None else self.weights[:most]

    def _rows(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Codes and weights of some rows of a dask table, whose numbers ascend."""
        assert self._chunks is not None
        edges = [*self._chunks.starts, self.n_samples]
        wanted = [rows[slice(*np.searchsorted(rows, (lo, hi)))] - lo for lo, hi in pairwise(edges)]
        found = self._chunks.beside(wanted).each(lambda block: block[0][block[-1]])
        return np.concatenate(found), None if self.weights is None else self.weights[rows]

    def values_blocks(
        self, dtype: Any = np.float64, max_rows: int | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Blocks as those of :meth:`blocks`, with the values of numeric variables in place of codes.

        Parameters
        ----------
        dtype : dtype
            Of the values.
        max_rows : int or None
            Rows of a block at most.

        Yields
        ------
        block : (rows, n) array
            Values; NaN where one is missing.
        weights : (rows,) array or None
            Their weights.
        """
        if not self.space.is_numeric:
            raise ValueError("labels have no numeric values: take the blocks of codes, or space.decode of them.")
        tables = [None if a.values is None else self._letters(a, dtype) for a in self.space.alphabets]
        shared = tables[0] if self.space.alphabet is not None else None
        for block, weights in self.blocks(max_rows):
            if shared is not None:
                yield shared[block], weights
            elif not self.space.sizes.any():
                yield block.astype(dtype, copy=False), weights
            else:
                columns = [x if t is None else t[x.astype(np.uint8)] for x, t in zip(block.T, tables)]
                yield np.column_stack(columns).astype(dtype, copy=False), weights

    def _letters(self, alphabet: Alphabet, dtype: Any) -> np.ndarray:
        letters = np.full(MISSING + 1, np.nan if self.allow_nan else 0).astype(dtype)
        letters[: alphabet.size] = alphabet.values
        return letters

    def _encoded(self, max_rows: int) -> Iterator[tuple[int, np.ndarray]]:
        codes = self._found.codes
        if isinstance(codes, (np.ndarray, Ones)):
            for lo in range(0, self.n_samples, max_rows):
                block = codes[lo : lo + max_rows]
                yield lo, block.toarray() if isinstance(block, Ones) else block
            return
        for lo, rows in self._table.blocks(max_rows):
            yield lo, _encode(self._found.encoder, self.space, (rows,))[0]

    def __repr__(self) -> str:
        what = self.space.alphabet or self.space
        return f"Samples(n_samples={self.n_samples}, n_features={self.n_features}, {what!r})"


def _encode(encoder: Encoder | ColumnEncoder | None, space: Space, block: tuple) -> tuple[np.ndarray]:
    """Codes of rows; float64 values of continuous variables."""
    rows = block[0]
    if encoder is None:
        return (np.ascontiguousarray(rows, np.float64),)
    if space.has_codes:
        return (encoder(rows),)
    finite = np.flatnonzero([a.is_finite for a in space.alphabets])
    out = np.array(rows, dtype=np.float64, order="C")
    out[:, finite] = encoder(rows[:, finite])
    return (out,)


def _gaps(finite: np.ndarray, block: tuple) -> tuple[np.ndarray, int]:
    """(n,) missing cells of each column, and the number of rows that have some."""
    codes = block[0]
    gaps = codes == MISSING if codes.dtype == np.uint8 else ((codes == MISSING) & finite) | (codes != codes)
    return gaps.sum(axis=0), int(gaps.any(axis=1).sum())


def require_order(space: Space, order: int, given: Any = None) -> None:
    """Refuse orders above 2 on the real line, where exp(−H) has no finite integral."""
    if space.is_real and order > 2:
        why = 'alphabet="real"'
        if isinstance(given, str) and given == "auto":
            why = f'X has more than {MAX_AUTO_VALUES} distinct values, so that alphabet="auto" is "real", which'
        raise ValueError(
            f"{why} takes pair interactions only (order={order} was asked): use order=2, bin the columns into a few "
            "values, list them in alphabet=…, or give alphabet=Interval(low, high) for bounded variables."
        )
