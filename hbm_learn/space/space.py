"""Space: what each variable is, its values and its functions φ_i : X_i → R^{r_i}.

    P(x) ∝ exp(Σ_i θ_i(x_i) + Σ_μ J_μ Π_{(i,a)∈μ} φ_ia(x_i)),     an interaction takes at most one function of a site

A *site* is a variable; a *column* is one function of one site, and columns are numbered site by site. A finite site
keeps its functions as a (q_i, r_i) table over its values; a site on an interval or the real line has the one column x.
Functions come in two gauges that span the same models:

    coding     numeric: x, x², …, x^p;      nominal: contrasts that sum to zero, Φᵀ Φ = q (two labels: −1, 1)
    standard   orthonormal under given frequencies of the values: u = (x − m)/s, and so on
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from hbm_learn.space.alphabet import Alphabet, Interval, Nominal
from hbm_learn.space.functions import coding_functions, orthonormal, relation, straight_lines

# Codes are uint8, and 255 stands for a missing entry.
MISSING = 255
MAX_VALUES = 254


class Space:
    """The values and functions of n variables; immutable.

    Parameters
    ----------
    alphabets : sequence of Alphabet
        One for each variable. "real" is for all variables or none.
    functions : sequence of (q_i, r_i) arrays
        1 ≤ r_i ≤ q_i − 1 functions of each finite site; None for φ = x of the others.

    Attributes
    ----------
    n_features, n_columns : int
        n sites and N = Σ r_i columns.
    site : (N,) array
        The site of each column.
    column_ptr : (n + 1,) array
        The columns of site i are ``column_ptr[i]:column_ptr[i + 1]``.
    sizes : (n,) array
        q_i; 0 for a site whose values cannot be listed.
    value_ptr : (n + 1,) array
        Where the values of each site begin in a flat array over all values of all sites.
    power : (N,) array
        1, 2, … for x, x², … of a numeric site, 0 for the columns of a nominal one.
    """

    def __init__(self, alphabets: Sequence[Alphabet], functions: Sequence[np.ndarray | None]):
        self.alphabets, self.functions = tuple(alphabets), tuple(functions)
        self.n_features = len(self.alphabets)
        counts = [1 if table is None else table.shape[1] for table in self.functions]
        self.column_ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        self.n_columns = int(self.column_ptr[-1])
        self.site = np.repeat(np.arange(self.n_features), counts)
        self.sizes = np.array([a.size if a.is_finite else 0 for a in self.alphabets], dtype=np.intp)
        self.value_ptr = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.intp)
        nominal = np.array([a.is_nominal for a in self.alphabets], dtype=bool)
        within = np.arange(self.n_columns) - self.column_ptr[self.site]
        self.power = np.where(nominal[self.site], 0, within + 1)
        for table in self.functions:
            if table is not None:
                table.setflags(write=False)

    # ------------------------------------------------------------------ construction

    @classmethod
    def of(cls, alphabet: Any, n_features: int, powers: int | Sequence[int] | np.ndarray = 1) -> Space:
        """The space of a model in its coding gauge.

        Parameters
        ----------
        alphabet : values, Nominal, Interval, "real" or Alphabet, or a sequence or dict of these
            One for all variables, or a sequence or {index: …} with one for each.
        n_features : int
            Number of variables.
        powers : int or (n,) ints
            The highest power of each numeric variable that takes part in interactions, at most q_i − 1.
        """
        alphabets = each_alphabet(alphabet, n_features)
        limits = np.broadcast_to(np.asarray(powers, dtype=int), (n_features,)).tolist()
        known: dict[tuple[Any, ...], np.ndarray | None] = {}
        return cls(alphabets, [_once(known, coding_functions, a, p) for a, p in zip(alphabets, limits)])

    def standard(self, frequencies: Sequence[np.ndarray], centred: bool = True) -> Space:
        """The same variables with functions orthonormal under the frequencies of their values.

        Parameters
        ----------
        frequencies : sequence of (q_i,) arrays
            Positive on at least two values.
        centred : bool
            Without it the functions keep the origin of this gauge: each differs from its centred one by a constant.
        """
        functions: list[np.ndarray | None] = [None] * self.n_features
        for sites, tables in self.stacks:
            p = np.array([frequencies[i] for i in sites])
            try:
                found = list(orthonormal(tables, p, centred))
            except ValueError:
                found = [self._orthonormal(i, frequencies[i], centred) for i in sites]  # raises with the name of one
            for i, table in zip(sites, found):
                functions[i] = table
        return Space(self.alphabets, functions)

    def about(self, origin: str, frequencies: Sequence[np.ndarray]) -> Space:
        """The same functions less their values at an origin that does not depend on how a variable is coded.

        Parameters
        ----------
        origin : {"mean", "middle", "mode"}
            The mean under the frequencies; the middle of the values (of numbers that of the least and the largest, of
            labels and powers the mean over all values); the most frequent value.
        frequencies : sequence of (q_i,) arrays
        """
        functions = [t if t is None else t - _origin(t, p, origin) for t, p in zip(self.functions, frequencies)]
        return Space(self.alphabets, functions)

    def _orthonormal(self, i: int, p: np.ndarray, centred: bool) -> np.ndarray:
        try:
            return orthonormal(self.functions[i], p, centred)  # type: ignore[arg-type]
        except ValueError as error:
            raise ValueError(f"variable {i}: {error} Drop it, or lower its powers.") from None

    # ------------------------------------------------------------------ what there is

    @cached_property
    def stacks(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """(sites, (m, q, r) their functions) of the finite sites, those with tables of one shape together."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for i, table in enumerate(self.functions):
            if table is not None:
                groups.setdefault(table.shape, []).append(i)
        return [(np.array(sites), np.array([self.functions[i] for i in sites])) for sites in groups.values()]

    @cached_property
    def by_alphabet(self) -> list[tuple[Alphabet, np.ndarray]]:
        """(alphabet, its sites) for each that occurs, in the order of first occurrence."""
        groups: dict[int, list[int]] = {}
        for i, alphabet in enumerate(self.alphabets):
            groups.setdefault(id(alphabet), []).append(i)
        return [(self.alphabets[sites[0]], np.array(sites)) for sites in groups.values()]

    @cached_property
    def is_scalar(self) -> bool:
        """One column for each site."""
        return self.n_columns == self.n_features

    @cached_property
    def is_finite(self) -> bool:
        """The values of every site can be listed."""
        return bool((self.sizes > 0).all())

    @property
    def is_real(self) -> bool:
        """Whether all variables are real numbers."""
        return self.alphabets[0].kind == "real"

    @cached_property
    def is_binary(self) -> bool:
        """Two values at every site."""
        return bool((self.sizes == 2).all())

    @cached_property
    def is_numeric(self) -> bool:
        """No nominal site."""
        return not any(a.is_nominal for a in self.alphabets)

    @cached_property
    def alphabet(self) -> Alphabet | None:
        """The alphabet that all variables share, or None."""
        first = self.alphabets[0]
        return first if all(a is first or a == first for a in self.alphabets) else None

    @property
    def is_uniform(self) -> bool:
        """One numeric alphabet for all, with φ = x itself: what the paper has."""
        return self.alphabet is not None and self.is_scalar and self.is_coding and self.is_numeric

    @cached_property
    def is_coding(self) -> bool:
        """Whether the functions are those of the coding gauge."""
        known: dict[tuple[Any, ...], bool] = {}
        return all(_once(known, _is_coding, a, table) for a, table in zip(self.alphabets, self.functions))

    def n_states(self) -> float:
        """Π q_i, infinite for continuous sites."""
        return float(np.exp(self.log_states)) if self.log_states < 700 else np.inf

    @cached_property
    def log_states(self) -> float:
        """Σ ln q_i, infinite for continuous sites."""
        return float(np.log(self.sizes).sum()) if self.is_finite else np.inf

    def enumerable(self, limit: int) -> bool:
        """Whether there are at most ``limit`` states."""
        return bool(self.log_states <= np.log(limit) + 1e-9)

    @cached_property
    def padded(self) -> np.ndarray:
        """(N, q_max) functions of every column by code; what lies beyond a site's values repeats the first of them."""
        out = np.empty((self.n_columns, int(self.sizes.max())))
        for sites, tables in self.stacks:
            columns = self.column_ptr[sites][:, None] + np.arange(tables.shape[2])
            out[columns] = tables[:, 0, :, None]
            out[columns, : tables.shape[1]] = tables.transpose(0, 2, 1)
        return out

    # ------------------------------------------------------------------ values, codes, columns

    def columns(self, codes: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        """(rows, N) φ of every row.

        Parameters
        ----------
        codes : (rows, n) array
            Codes; values where a site is continuous.
        dtype : dtype
            Of the result.
        """
        if self.is_finite:
            shared = self.padded[0].astype(dtype)
            if self.is_scalar and (self.padded == self.padded[0]).all():
                return shared[codes]
            return self.padded.astype(dtype)[np.arange(self.n_columns), np.asarray(codes)[:, self.site].astype(np.intp)]
        out = np.empty((len(codes), self.n_columns), dtype=dtype)
        for c, i in enumerate(self.site):
            table = self.functions[i]
            x = codes[:, i]
            out[:, c] = x if table is None else table[x.astype(np.intp), c - self.column_ptr[i]]
        return out

    def encode(self, X: Any) -> np.ndarray:
        """(rows, n) codes (uint8; float64 with values at continuous sites) of values or labels.

        ValueError for a value that its variable does not have; ``Samples.check`` says so with the names of a table.
        """
        # A list of rows with labels and numbers would become an array of strings.
        X = np.asarray(X, dtype=None if self.is_numeric or isinstance(X, np.ndarray) else object)
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise ValueError(f"X has shape {X.shape}; expected (n_samples, {self.n_features}).")
        if not self.is_finite and self.n_features and all(t is None for t in self.functions):
            return np.ascontiguousarray(X, dtype=np.float64)
        out = np.empty(X.shape, dtype=np.uint8 if self.is_finite else np.float64)
        for i, a in enumerate(self.alphabets):
            column = X[:, i]
            if not a.is_finite:
                out[:, i] = column
                continue
            found = np.full(len(column), MISSING)
            for code, value in enumerate(a.values.tolist()):  # type: ignore[union-attr]
                found[column == value] = code
            if (found == MISSING).any():
                row = int(np.flatnonzero(found == MISSING)[0])
                value = column[row : row + 1].tolist()[0]
                raise ValueError(
                    f"variable {i} has the value {value!r} in row {row}, which is not in {a}: correct it, or give the "
                    "variable an alphabet that contains it."
                )
            out[:, i] = found
        return out

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """(rows, n) values of codes: numbers where all variables are numeric, else objects with the labels."""
        shared = self.alphabet
        if shared is not None and shared.values is not None:
            return shared.values[codes.astype(np.intp, copy=False)]
        if not self.is_finite and all(t is None for t in self.functions):
            return codes
        columns = [
            codes[:, i] if a.values is None else a.values[codes[:, i].astype(np.intp)]
            for i, a in enumerate(self.alphabets)
        ]
        if self.is_numeric:
            return np.stack(columns, axis=1)
        out = np.empty(codes.shape, dtype=object)
        for i, column in enumerate(columns):
            out[:, i] = column
        return out

    def flat(self, tables: Iterable[np.ndarray]) -> np.ndarray:
        """(Σ q_i,) one array from one (q_i,) table a site, as ``value_ptr`` cuts it."""
        tables = list(tables)
        return np.concatenate(tables) if tables else np.zeros(0)

    def by_site(self, flat: np.ndarray) -> list[np.ndarray]:
        """The inverse of :meth:`flat`: views."""
        return [flat[lo:hi] for lo, hi in zip(self.value_ptr[:-1], self.value_ptr[1:])]

    def mean_over_labels(self, values: np.ndarray) -> np.ndarray:
        """(N,) values of columns, those of a nominal site replaced by their mean: its basis must not matter."""
        mean = np.bincount(self.site, values) / np.bincount(self.site)
        return np.where(self.power == 0, mean[self.site], values)

    # ------------------------------------------------------------------ gauges

    def relation(self, other: Space) -> list[tuple[np.ndarray, np.ndarray]]:
        """(c_i (r_i,), R_i (r_i, r_i)) of each site with φ_self(x) = c_i + φ_other(x) R_i.

        Both must span the same functions, constants included.
        """
        known: dict[tuple[Any, ...], tuple[np.ndarray, np.ndarray]] = {}
        out: list[Any] = [None] * self.n_features
        for sites, tables in self.stacks:
            theirs = [other.functions[i] for i in sites]
            if tables.shape[2] == 1 and all(t is not None and t.shape == tables.shape[1:] for t in theirs):
                constant, slope = straight_lines(tables[:, :, 0], np.array(theirs)[:, :, 0])
                for i, c, s in zip(sites, constant[:, None], slope[:, None, None]):
                    out[i] = c, s
        for i, (mine, function) in enumerate(zip(self.functions, other.functions)):
            if out[i] is None:
                out[i] = _once(known, relation, mine, function)
        return out

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Space)
            and self.alphabets == other.alphabets
            and all(
                (a is None and b is None) or (a is not None and b is not None and np.array_equal(a, b))
                for a, b in zip(self.functions, other.functions)
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        kinds: dict[str, int] = {}
        for a in self.alphabets:
            kinds[repr(a)] = kinds.get(repr(a), 0) + 1
        listed = ", ".join(f"{count} × {name}" for name, count in list(kinds.items())[:4])
        return f"Space({listed}{', …' if len(kinds) > 4 else ''})"


def each_alphabet(alphabet: Any, n_features: int) -> list[Alphabet]:
    """One Alphabet for each variable, from one for all, a sequence, or {index: one}; equal ones are one object."""
    if isinstance(alphabet, Mapping):
        missing = [i for i in range(n_features) if i not in alphabet]
        strange = [key for key in alphabet if key not in range(n_features)]
        if missing or strange:
            what = f"has none for variable {missing[0]}" if missing else f"names {strange[0]!r}, which is no variable"
            raise ValueError(f"alphabet={alphabet!r} {what}: give one for each of 0 … {n_features - 1}.")
        alphabet = [alphabet[i] for i in range(n_features)]
    elif not _is_one_for_each(alphabet):
        return [_checked(alphabet)] * n_features
    elif len(alphabet) != n_features:
        raise ValueError(f"alphabet has {len(alphabet)} entries for {n_features} variables: give one for each.")
    known: dict[Alphabet, Alphabet] = {}
    alphabets = [known.setdefault(a, a) for a in (_checked(a, f"variable {i}: ") for i, a in enumerate(alphabet))]
    kinds = [a.kind for a in alphabets]
    if "real" in kinds and len(set(kinds)) > 1:
        i = next(i for i, kind in enumerate(kinds) if kind != "real")
        raise ValueError(
            f'alphabet "real" is for all variables or none, and variable {i} has {alphabets[i]}: bin the real ones '
            "into a few values, or give them an Interval."
        )
    return alphabets


def _is_one_for_each(alphabet: Any) -> bool:
    """Whether a sequence holds alphabets, and not the values of one."""
    if isinstance(alphabet, (str, Alphabet, Interval, Nominal)) or not isinstance(alphabet, Sequence):
        return False
    return any(isinstance(a, (str, Alphabet, Interval, Nominal)) or np.ndim(a) > 0 for a in alphabet)


def _checked(alphabet: Any, whose: str = "") -> Alphabet:
    """An Alphabet whose values have codes."""
    try:
        checked = Alphabet(alphabet)
    except ValueError as error:
        raise ValueError(f"{whose}{error}") from None
    if checked.is_finite and checked.size > MAX_VALUES:
        raise ValueError(f"{whose}an alphabet of {checked.size} values: at most {MAX_VALUES} can be encoded; bin them.")
    return checked


def _is_coding(alphabet: Alphabet, table: np.ndarray | None) -> bool:
    return table is None or np.array_equal(table, coding_functions(alphabet, table.shape[1]))  # type: ignore[arg-type]


def _once(known: dict[tuple[Any, ...], Any], work: Callable[..., Any], *given: Any) -> Any:
    """work(*given), done once for the same objects: most variables share their alphabet and functions."""
    key = tuple(x if isinstance(x, int) else id(x) for x in given)
    if key not in known:
        known[key] = work(*given)
    return known[key]


def _origin(table: np.ndarray, p: np.ndarray, origin: str) -> np.ndarray:
    """(r,) values at the origin of the functions of one variable."""
    if origin == "mean":
        return p @ table / p.sum()
    if origin == "mode":
        return table[p >= p.max() * (1.0 - 1e-9)].mean(axis=0)  # values that are equally frequent are one with neither
    return 0.5 * (table.min(axis=0) + table.max(axis=0)) if table.shape[1] == 1 else table.mean(axis=0)
