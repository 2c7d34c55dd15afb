"""Space: what each variable is, its values and its functions φ_i : X_i → R^{r_i}.

    P(x) ∝ exp(Σ_i θ_i(x_i) + Σ_μ J_μ Π_{(i,a)∈μ} φ_ia(x_i)),     an interaction takes at most one function of a site

A *site* is a variable; a *column* is one function of one site, and columns are numbered site by site. A finite site
keeps its functions as a (q_i, r_i) table over its values; a site on an interval or the real line has the one column x.
Functions come in two gauges that span the same models:

    coding     numeric: x, x², …, x^p;      nominal: contrasts that sum to zero, Φᵀ Φ = q (two labels: −1, 1)
    standard   orthonormal under given frequencies of the values: u = (x − m)/s, and so on

A *given* site takes part in interactions but is not modelled: the model is one of the others, P(x | z). It may take any
real number beside finite others; its function is then the straight line through its values at two *anchors*, a table of
two rows like that of a site with two values. With the anchors m ∓ s of the data, each of frequency ½, every sum over
the values of a site has the site's mean and variance, and no stage needs to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from hbm_learn.space.alphabet import Alphabet
from hbm_learn.space.alphabets import each_alphabet
from hbm_learn.space.codes import Codes
from hbm_learn.space.functions import coding_functions, orthonormal, relation, straight_lines

# Where the function of a line is known, unless data say where they are.
_ANCHORS = (-1.0, 1.0)


class Space(Codes):
    """The values and functions of n variables; immutable.

    Parameters
    ----------
    alphabets : sequence of Alphabet
        One for each variable. "real" is for all variables or none.
    functions : sequence of (q_i, r_i) arrays
        1 ≤ r_i ≤ q_i − 1 functions of each finite site; None for φ = x of the others. (2, 1) values at the anchors of a
        given site without a list of values.
    given : (n,) bools or None
        Which sites are given; none by default.
    anchors : {site: (low, high)} or None
        Two numbers at which the function of a given site without a list of values is known; −1 and 1 by default.

    Attributes
    ----------
    n_features, n_columns : int
        n sites and N = Σ r_i columns.
    given : (n,) bool array
        Which sites are given.
    lines : tuple of int
        Given sites without a list of values: codes hold their values.
    site : (N,) array
        The site of each column.
    column_ptr : (n + 1,) array
        The columns of site i are ``column_ptr[i]:column_ptr[i + 1]``.
    sizes : (n,) array
        q_i; 2 for the anchors of a line, 0 for another site whose values cannot be listed.
    value_ptr : (n + 1,) array
        Where the values of each site begin in a flat array over all values of all sites.
    power : (N,) array
        1, 2, … for x, x², … of a numeric site, 0 for the columns of a nominal one.
    """

    def __init__(
        self,
        alphabets: Sequence[Alphabet],
        functions: Sequence[np.ndarray | None],
        given: Any = None,
        anchors: Mapping[int, tuple[float, float]] | None = None,
    ):
        self.alphabets, self.functions = tuple(alphabets), tuple(functions)
        self.n_features = len(self.alphabets)
        self.given = np.zeros(self.n_features, dtype=bool) if given is None else np.array(given, dtype=bool)
        self.given.setflags(write=False)
        self.lines = tuple(int(i) for i in np.flatnonzero(self.given) if not self.alphabets[i].is_finite)
        self.anchors = {i: (anchors or {}).get(i, _ANCHORS) for i in self.lines}
        counts = [1 if table is None else table.shape[1] for table in self.functions]
        self.column_ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        self.n_columns = int(self.column_ptr[-1])
        self.site = np.repeat(np.arange(self.n_features), counts)
        self.sizes = np.array([a.size if a.is_finite else 0 for a in self.alphabets], dtype=np.intp)
        self.sizes[list(self.lines)] = 2
        self.value_ptr = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.intp)
        nominal = np.array([a.is_nominal for a in self.alphabets], dtype=bool)
        within = np.arange(self.n_columns) - self.column_ptr[self.site]
        self.power = np.where(nominal[self.site], 0, within + 1)
        for table in self.functions:
            if table is not None:
                table.setflags(write=False)

    # ------------------------------------------------------------------ construction

    @classmethod
    def of(
        cls,
        alphabet: Any,
        n_features: int,
        powers: int | Sequence[int] | np.ndarray = 1,
        given: Any = None,
        anchors: Mapping[int, tuple[float, float]] | None = None,
    ) -> Space:
        """The space of a model in its coding gauge.

        Parameters
        ----------
        alphabet : values, Nominal, Interval, "real" or Alphabet, or a sequence or dict of these
            One for all variables, or a sequence or {index: …} with one for each.
        n_features : int
            Number of variables.
        powers : int or (n,) ints
            The highest power of each numeric variable that takes part in interactions, at most q_i − 1.
        given : (n,) bools or None
            Which variables are given.
        anchors : {site: (low, high)} or None
            Of given variables without a list of values.
        """
        alphabets = each_alphabet(alphabet, n_features, given)
        limits = np.broadcast_to(np.asarray(powers, dtype=int), (n_features,)).tolist()
        known: dict[tuple[Any, ...], np.ndarray | None] = {}
        functions = [_once(known, coding_functions, a, p) for a, p in zip(alphabets, limits)]
        return cls(alphabets, _with_lines(functions, cls(alphabets, functions, given, anchors)), given, anchors)

    def with_functions(self, functions: Sequence[np.ndarray | None]) -> Space:
        """The same variables with other functions."""
        return Space(self.alphabets, functions, self.given, self.anchors)

    def coding(self, powers: int | Sequence[int] | np.ndarray) -> Space:
        """The same variables in their coding gauge, with powers as in :meth:`of`."""
        return Space.of(self.alphabets, self.n_features, powers, self.given, self.anchors)

    def subset(self, sites: np.ndarray) -> Space:
        """Some of the variables, with their functions."""
        anchors = {k: self.anchors[int(i)] for k, i in enumerate(sites) if int(i) in self.anchors}
        alphabets, functions = [self.alphabets[i] for i in sites], [self.functions[i] for i in sites]
        return Space(alphabets, functions, self.given[sites], anchors)

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
        return self.with_functions(functions)

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
        return self.with_functions(functions)

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

    @property
    def modelled_by_alphabet(self) -> list[tuple[Alphabet, np.ndarray]]:
        """The same without given sites."""
        kept = ((alphabet, sites[~self.given[sites]]) for alphabet, sites in self.by_alphabet)
        return [(alphabet, sites) for alphabet, sites in kept if len(sites)]

    @cached_property
    def is_scalar(self) -> bool:
        """One column for each site."""
        return self.n_columns == self.n_features

    @cached_property
    def is_finite(self) -> bool:
        """The values of every modelled site can be listed."""
        return bool((self.sizes > 0).all())

    @property
    def has_codes(self) -> bool:
        """Every site has codes: samples are uint8, and not float64 with values in some places."""
        return self.is_finite and not self.lines

    @cached_property
    def has_given(self) -> bool:
        """Some sites are given: a model says P(x | z), and has no list of all states."""
        return bool(self.given.any())

    @cached_property
    def modelled(self) -> Space:
        """The sites that are not given."""
        return self.subset(np.flatnonzero(~self.given)) if self.has_given else self

    @property
    def is_real(self) -> bool:
        """Whether all variables are real numbers."""
        return self.alphabets[0].kind == "real" and not self.has_given

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
        pairs = [(a, t) for i, (a, t) in enumerate(zip(self.alphabets, self.functions)) if i not in self.anchors]
        lines = all(np.array_equal(np.ravel(np.asarray(self.functions[i])), ends) for i, ends in self.anchors.items())
        return lines and all(_once(known, _is_coding, a, table) for a, table in pairs)

    def n_states(self) -> float:
        """Π q_i, infinite for continuous sites and where some are given."""
        return float(np.exp(self.log_states)) if self.log_states < 700 else np.inf

    @cached_property
    def log_states(self) -> float:
        """Σ ln q_i, infinite for continuous sites and where some are given."""
        return float(np.log(self.sizes).sum()) if self.is_finite and not self.has_given else np.inf

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
            and np.array_equal(self.given, other.given)
            and self.anchors == other.anchors
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
        given = f"; {self.given.sum()} given" if self.has_given else ""
        return f"Space({listed}{', …' if len(kinds) > 4 else ''}{given})"


def _is_coding(alphabet: Alphabet, table: np.ndarray | None) -> bool:
    return table is None or np.array_equal(table, coding_functions(alphabet, table.shape[1]))  # type: ignore[arg-type]


def _with_lines(functions: list[np.ndarray | None], space: Space) -> list[np.ndarray | None]:
    """Functions of the coding gauge with φ = x at the anchors of lines."""
    for i, ends in space.anchors.items():
        functions[i] = np.array(ends, dtype=np.float64)[:, None]
    return functions


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
