"""Moments: weighted, mergeable sufficient statistics of samples, and their cumulants.

    S_k[c₁ … c_k] = Σ_samples w y_{c₁} … y_{c_k},   φ_c = shift_c + scale_c · y_c,   k = 1 … order

over the columns φ_c of a space. On finite values y is a small integer where that is possible, and the sums of samples
without weights are then exact int64. What is summed are powers of numbers and indicators of labels (the ``base``); any
other functions of the same span are read from the same sums (``in_space``), as cumulants are linear in each factor.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hbm_learn._kernels import symmetric
from hbm_learn.data.available import AvailableSums, collect_available, merged
from hbm_learn.data.collect import base_space, checked_blocks, collect, counts_of_powers, mergeable_names, sum_blocks
from hbm_learn.data.power_sums import PowerSums
from hbm_learn.data.samples import Samples, require_order
from hbm_learn.data.tables import check_weights
from hbm_learn.interactions import Interactions
from hbm_learn.space import Alphabet, Space
from hbm_learn.terms import columns_of

MAX_ORDER = 4
# Packed sums, or a dense cumulant, beyond this are refused.
MAX_BYTES = 2**33


@dataclass(frozen=True, eq=False)
class Moments:
    """Sufficient statistics of samples up to an order; immutable.

    Build with :meth:`from_samples`, or from exact moments with :meth:`from_distribution`, :meth:`from_raw` or
    :meth:`from_cumulants`. ``a + b`` is as if the rows had been stacked, to the last bit for integers without weights.

    Attributes
    ----------
    space : Space
        Whose N columns φ the moments are of: powers of numeric variables and contrasts of labels, unless
        :meth:`in_space` was asked for others.
    order : int
        The largest order of an interaction whose moments are held, 1 … 4.
    power_sums : PowerSums or AvailableSums
        Of orders 1 … max(order, 2), over the columns of ``base``; where cells are missing, each over the rows that
        have all of its variables.
    base : Space
        The same variables with the functions that are summed: powers, and indicators of all labels but the first.
    counts : (Σ q_i,) array or None
        Σ w of each value of each variable; None where they are not known.
    feature_names : list of str, or None

    Examples
    --------
    >>> stats = Moments.from_samples([[0, 1], [1, 1], [0, 0], [1, 1]], order=2)
    >>> stats.mean, stats.covariance[0, 1], stats.n_samples
    (array([0.5 , 0.75]), np.float64(0.125), 4)
    """

    space: Space
    order: int
    power_sums: PowerSums | AvailableSums
    base: Space
    counts: np.ndarray | None = None
    feature_names: list[str] | None = None

    # ------------------------------------------------------------------ construction

    @classmethod
    def from_samples(
        cls,
        X: Any,
        order: int = 3,
        alphabet: Any = "auto",
        sample_weight: Any = None,
        *,
        categorical_features: Any = "from_dtype",
        powers: Any = 1,
        space: Space | None = None,
    ) -> Moments:
        """Moments of samples.

        Parameters
        ----------
        X : table, Samples, or iterator
            Anything ``Samples.check`` takes, a Samples, or an iterator over such blocks of rows; as it can be read once
            only, the values of the variables are those of its first block unless an alphabet is given.
        order : int
            1 … 4.
        alphabet : "auto", values, Nominal, Interval, "real", sequence or dict
            As in :class:`HBM`.
        sample_weight : (M,) array-like or None
            Weights of the rows: 2 is a row seen twice.
        categorical_features : "from_dtype", array-like or None
            Which columns hold labels, as in :class:`HBM`.
        powers : int or (n,) ints
            The highest power of each numeric variable.
        space : Space or None
            Of a fitted model, in place of the alphabet.
        """
        options = {"categorical_features": categorical_features, "powers": powers, "space": space}
        if not isinstance(order, (int, np.integer)) or not 1 <= order <= MAX_ORDER:
            raise ValueError(f"order={order!r}: moments are computed for orders 1 to {MAX_ORDER}.")
        if hasattr(X, "__iter__") and not hasattr(X, "__len__") and not hasattr(X, "shape"):
            return _from_iterator(X, int(order), alphabet, sample_weight, options)
        if not isinstance(X, Samples):
            X = Samples.check(X, alphabet, sample_weight, order=order, allow_nan=True, **options)
        elif sample_weight is not None or space is not None or not (isinstance(alphabet, str) and alphabet == "auto"):
            raise ValueError("X is a Samples, which has its alphabet and weights: give them to Samples.check.")
        return _from_checked(X, int(order))

    @classmethod
    def from_distribution(
        cls, states: Any, probabilities: Any, order: int = 3, alphabet: Any = "auto", *, space: Space | None = None
    ) -> Moments:
        """Exact moments of a distribution over the rows of ``states``: those of infinitely many samples.

        Parameters
        ----------
        states : (rows, n) table
            Values; uint8 codes (values of continuous variables) in ``space`` if that is given.
        probabilities : (rows,) array
            Of the rows.
        order : int
            1 … 4.
        alphabet : "auto", values, Nominal, Interval, "real", sequence or dict
            Of the values, as in :class:`HBM`.
        space : Space or None
            In which ``states`` are codes.
        """
        if space is None:
            stats = cls.from_samples(states, order, alphabet, probabilities)
        else:
            p = check_weights(probabilities, len(states))
            stats = _from_blocks([(np.ascontiguousarray(states), p)], space, order, None)
        ps = stats.power_sums
        if not isinstance(ps, PowerSums):
            raise ValueError("states has missing cells: a distribution is over whole states.")
        exact = replace(ps, sums=tuple(S / ps.total for S in ps.sums), total=1.0, is_exact=True, largest=np.inf)
        counts = None if stats.counts is None else stats.counts / ps.total
        return replace(stats, power_sums=exact, counts=counts)

    @classmethod
    def from_raw(
        cls,
        mean: Any,
        second: Any,
        third: Any = None,
        fourth: Any = None,
        *,
        alphabet: Any,
        n_samples: float = np.inf,
        feature_names: list[str] | None = None,
    ) -> Moments:
        """From raw moments of numeric variables, dense and symmetric, repeated indices included.

        Parameters
        ----------
        mean : (n,) array
            ⟨x_i⟩.
        second : (n, n) array
            ⟨x_i x_j⟩.
        third : (n, n, n) array or None
            ⟨x_i x_j x_k⟩.
        fourth : (n, n, n, n) array or None
            ⟨x_i x_j x_k x_l⟩.
        alphabet : values, Interval, "real", or one for each variable
            What the variables are.
        n_samples : float
            How many samples they are from; inf for exact ones.
        feature_names : list of str or None
            Of the variables.
        """
        packed = symmetric.pack_all(mean, second, third, fourth)
        return cls._exact(packed, np.zeros(len(packed[0])), alphabet, n_samples, feature_names)

    @classmethod
    def from_cumulants(
        cls,
        mean: Any,
        covariance: Any,
        third: Any = None,
        fourth: Any = None,
        *,
        alphabet: Any,
        n_samples: float = np.inf,
        feature_names: list[str] | None = None,
    ) -> Moments:
        """From joint cumulants of numeric variables, dense and symmetric, repeated indices included.

        Parameters
        ----------
        mean : (n,) array
            ⟨x_i⟩.
        covariance : (n, n) array
            Of order 2.
        third : (n, n, n) array or None
            Of order 3.
        fourth : (n, n, n, n) array or None
            Of order 4.
        alphabet : values, Interval, "real", or one for each variable
            What the variables are.
        n_samples : float
            How many samples they are from; inf for exact ones.
        feature_names : list of str or None
            Of the variables.
        """
        m, *central = symmetric.pack_all(mean, covariance, third, fourth)
        if len(central) == 3:
            central[2] = central[2] + symmetric.pairings(central[0], len(m))
        return cls._exact([np.zeros_like(m), *central], m, alphabet, n_samples, feature_names)

    @classmethod
    def _exact(
        cls, moments: list[np.ndarray], shift: np.ndarray, alphabet: Any, n_samples: float, names: list[str] | None
    ) -> Moments:
        if not n_samples > 0:
            raise ValueError(f"n_samples={n_samples}: give the (positive) number of samples, or inf for exact moments.")
        space = Space.of(alphabet, len(shift))
        if not (space.is_numeric and space.is_scalar):
            raise ValueError(f"alphabet={alphabet!r}: moments given as arrays are of numbers, one column a variable.")
        is_exact = bool(np.isinf(n_samples))
        total = 1.0 if is_exact else float(n_samples)
        sums = PowerSums(tuple(total * S for S in moments), total, is_exact, shift, np.ones(len(shift)))
        return cls(space, len(moments), sums, space, counts_of_powers(sums, space), names)

    def __add__(self, other: Moments) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        names = mergeable_names(self, other)
        counts = None if self.counts is None or other.counts is None else self.counts + other.counts
        sums = merged(self.power_sums, other.power_sums, self.base.site)
        return Moments(self.space, self.order, sums, self.base, counts, names)

    def in_space(self, space: Space) -> Moments:
        """The same data seen through other functions of the same variables.

        Parameters
        ----------
        space : Space
            Of the same alphabets; its functions must lie in the span of the present ones and constants.
        """
        if space.alphabets != self.space.alphabets:
            raise ValueError(f"the moments are of {self.space}, and cannot be read in {space}: the values differ.")
        return replace(self, space=space)

    @cached_property
    def standard(self) -> Moments:
        """The same data in their standard gauge: functions orthonormal under the frequencies."""
        space = self.space.standard(self.frequencies)
        if space.lines:  # whose anchors may be those of other rows
            functions, spread = list(space.functions), np.sqrt(np.diag(self.covariance))
            for i, c in zip(space.lines, space.column_ptr[list(space.lines)]):
                functions[i] = (self.space.functions[i] - self.mean[c]) / spread[c]
            space = space.with_functions(functions)
        return self.in_space(space)

    # ------------------------------------------------------------------ reading

    @property
    def n_features(self) -> int:
        """Number of variables."""
        return self.space.n_features

    @property
    def n_columns(self) -> int:
        """Number of columns: functions of all variables together."""
        return self.space.n_columns

    @property
    def alphabet(self) -> Alphabet | tuple[Alphabet, ...]:
        """The alphabet that all variables share, else one for each."""
        return self.space.alphabet or self.space.alphabets

    @property
    def n_samples(self) -> float:
        """Σ w: the number of rows when there are no weights, inf for exact moments."""
        return np.inf if self.power_sums.is_exact else self.power_sums.total

    @cached_property
    def frequencies(self) -> list[np.ndarray]:
        """For each variable the (q_i,) weighted share of each of its values."""
        if not self.space.is_finite:
            raise ValueError(f"{self.space} has continuous variables, whose values have no frequencies.")
        if self.counts is None:
            raise ValueError(
                "the frequencies of the values are not known: moments given as arrays determine them up to "
                f"{len(self.power_sums.sums) + 1} values; give higher orders, samples or a distribution."
            )
        if self.is_complete:
            return self.space.by_site(_frozen(self.counts / self.power_sums.total))
        return [mine / max(mine.sum(), 1e-300) for mine in self.space.by_site(self.counts)]

    @property
    def is_complete(self) -> bool:
        """Whether no cell is missing in the rows behind them."""
        return isinstance(self.power_sums, PowerSums)

    @property
    def missing_shares(self) -> np.ndarray | None:
        """(n,) share of the weight of all rows in which each variable is missing; None if none is.

        Rows in which nothing was observed do not count.
        """
        if self.is_complete:
            return None
        first = Interactions.from_blocks([self.space.column_ptr[:-1, None]], self.n_columns)
        return 1.0 - self.n_observed(first) / self.n_samples

    def n_observed(self, interactions: Interactions) -> np.ndarray:
        """(p,) Σ w of the rows in which all variables of each set of columns were observed."""
        sums = self._view
        if isinstance(sums, PowerSums):
            return np.full(len(interactions), float(self.n_samples))
        parts = [sums.n_observed(interactions.block(k)) for k in interactions.orders]
        return np.concatenate(parts) if parts else np.zeros(0)

    @cached_property
    def _view(self) -> PowerSums | AvailableSums:
        """The sums of the columns of ``space``."""
        return self.power_sums if self.space is self.base else self.power_sums.mapped(self.space.relation(self.base))

    @cached_property
    def mean(self) -> np.ndarray:
        """(N,) ⟨φ_c⟩."""
        return _frozen(self._view.mean)

    @cached_property
    def second(self) -> np.ndarray:
        """(N,) ⟨φ_c²⟩."""
        return _frozen(self.raw(np.repeat(np.arange(self.n_columns)[:, None], 2, axis=1)))

    @cached_property
    def covariance(self) -> np.ndarray:
        """(N, N) C_ab = ⟨φ_a φ_b⟩ − ⟨φ_a⟩⟨φ_b⟩, divided by M and not M − 1, as moment matching wants it."""
        return _frozen(self.cumulant(2))

    def cumulant(self, order: int) -> np.ndarray:
        """Joint cumulants κ of one order, dense (N,) * order, with repeated indices.

        κ_ijk = ⟨δ_i δ_j δ_k⟩,   κ_ijkl = ⟨δ_i δ_j δ_k δ_l⟩ − C_ij C_kl − C_ik C_jl − C_il C_jk,   δ = φ − ⟨φ⟩.
        """
        n = self.n_columns
        if order == 1:
            return self.mean.copy()
        self._require(order)
        if 8 * n**order > MAX_BYTES:
            raise ValueError(
                f"the dense cumulant of order {order} with n = {n} takes {8 * n**order / 2**30:.0f} GiB (limit "
                f"{MAX_BYTES / 2**30:g}): take the `moments` of the interactions that you need, or fewer variables."
            )
        packed = self._view.central(order)
        if order == 4:
            packed -= symmetric.pairings(self._view.central(2), n)
        expand = {2: symmetric.expand2, 3: symmetric.expand3, 4: symmetric.expand4}[order]
        return expand(packed, n)

    def moments(self, interactions: Interactions | Iterable[Iterable[Any]]) -> np.ndarray:
        """(p,) raw moments ⟨Π_{c∈μ} φ_c⟩ of sets of columns.

        Parameters
        ----------
        interactions : Interactions or iterable of tuples
            Sets of columns, or tuples of variables (indices or names; a repeated member is a power, a nominal member
            stands for all its columns), whose sets of columns ``terms.columns_of`` lists in order.
        """
        if not isinstance(interactions, Interactions):
            interactions = columns_of(interactions, self.space, self.feature_names)
        if interactions.n_features != self.n_columns:
            what = "variables" if self.space.is_scalar else "columns"
            raise ValueError(f"interactions among {interactions.n_features} {what}, moments of {self.n_columns}.")
        parts = [self.raw(interactions.block(k)) for k in interactions.orders]
        return np.concatenate(parts) if parts else np.zeros(0)

    def raw(self, rows: Any) -> np.ndarray:
        """⟨φ_{c₁} … φ_{c_k}⟩ for each row of an (r, k) array of columns, repeats allowed, shape (r,)."""
        rows = np.asarray(rows)
        self._require(rows.shape[1])
        return self._view.raw(rows)

    def _require(self, order: int) -> None:
        held = len(self.power_sums.sums)
        if order > held:
            raise ValueError(f"order {order} was asked of moments up to order {held}: compute them with order={order}.")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Moments)
            and (self.space, self.order, self.feature_names) == (other.space, other.order, other.feature_names)
            and np.array_equal(self.counts, other.counts)  # type: ignore[arg-type]
            and type(self.power_sums) is type(other.power_sums)
            and self.power_sums.equals(other.power_sums)  # type: ignore[arg-type]
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        size = f"n_features={self.n_features}, n_samples={self.n_samples:g}"
        return f"Moments({size}, order={self.order}, {self.space.alphabet or self.space!r})"


# ---------------------------------------------------------------------- from samples


def _from_checked(samples: Samples, order: int) -> Moments:
    require_order(samples.space, order)
    blocks = sum_blocks(samples, max(order, 2))
    return _from_blocks(blocks, samples.space, order, samples.feature_names, bool(samples.n_missing.any()))


def _from_blocks(blocks: Iterable, space: Space, order: int, names: list[str] | None, gaps: bool = False) -> Moments:
    k = max(order, 2)
    n_bytes = 8 * symmetric.packed_size(space.n_columns + gaps * space.n_features, k)
    if n_bytes > MAX_BYTES:
        raise ValueError(
            f"the moments of order {k} of n = {space.n_columns} variables take {n_bytes / 2**30:.0f} GiB (limit "
            f"{MAX_BYTES / 2**30:g}): lower `order`, or drop variables."
        )
    base = base_space(space)
    power_sums: PowerSums | AvailableSums
    power_sums, counts = collect_available(blocks, base, k) if gaps else collect(blocks, base, k)
    return Moments(space, order, power_sums, base, counts, names)


def _from_iterator(blocks: Iterable, order: int, alphabet: Any, sample_weight: Any, options: dict) -> Moments:
    total: Moments | None = None
    for samples in checked_blocks(blocks, order, alphabet, sample_weight, options):
        part = _from_checked(samples, order)
        total = part if total is None else total + part
    if total is None:
        raise ValueError("X is an iterator that gave no block of samples.")
    return total


def _frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array
