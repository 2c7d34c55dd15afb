"""Moments: weighted, mergeable sufficient statistics of samples, and their cumulants.

    S_k[i₁ … i_k] = Σ_samples w y_{i₁} … y_{i_k},   x_i = shift_i + scale · y_i,   k = 1 … order

On finite alphabets y is a small integer, and the sums of samples without weights are exact int64.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hbm_learn._kernels import symmetric
from hbm_learn.data.power_sums import PowerSums
from hbm_learn.data.samples import Samples, check_weights, require_order
from hbm_learn.data.sums import Coding, block_sums
from hbm_learn.interactions import Interactions
from hbm_learn.space import Alphabet

MAX_ORDER = 4
# Packed sums, or a dense cumulant, beyond this are refused.
MAX_BYTES = 2**33
# Entries of one block: bit planes like long blocks, and float64 values of a block should stay small.
_BLOCK = 2**23


@dataclass(frozen=True, eq=False)
class Moments:
    """Sufficient statistics of samples up to an order; immutable.

    Build with :meth:`from_samples`, or from exact moments with :meth:`from_distribution`, :meth:`from_raw` or
    :meth:`from_cumulants`. ``a + b`` is as if the rows had been stacked, to the last bit for integers without weights.

    Attributes
    ----------
    alphabet : Alphabet
    order : the largest order of an interaction whose moments are held, 1 … 4.
    power_sums : PowerSums of orders 1 … max(order, 2).
    feature_names : list of str, or None.

    Examples
    --------
    >>> stats = Moments.from_samples([[0, 1], [1, 1], [0, 0], [1, 1]], order=2)
    >>> stats.mean, stats.covariance[0, 1], stats.n_samples
    (array([0.5 , 0.75]), np.float64(0.125), 4)
    """

    alphabet: Alphabet
    order: int
    power_sums: PowerSums
    feature_names: list[str] | None = None

    # ------------------------------------------------------------------ construction

    @classmethod
    def from_samples(cls, X: Any, order: int = 3, alphabet: Any = "auto", sample_weight: Any = None) -> Moments:
        """Moments of samples.

        Parameters
        ----------
        X : anything ``Samples.check`` takes, a Samples, or an iterator over such blocks of rows; as it can be read once
            only, the alphabet of an iterator is that of its first block unless it is given.
        order : 1 … 4.
        alphabet, sample_weight : as in ``Samples.check``.
        """
        if not isinstance(order, (int, np.integer)) or not 1 <= order <= MAX_ORDER:
            raise ValueError(f"order={order!r}: moments are computed for orders 1 to {MAX_ORDER}.")
        if hasattr(X, "__iter__") and not hasattr(X, "__len__") and not hasattr(X, "shape"):
            return _from_iterator(X, int(order), alphabet, sample_weight)
        if not isinstance(X, Samples):
            X = Samples.check(X, alphabet, sample_weight, order=order)
        elif sample_weight is not None or not (isinstance(alphabet, str) and alphabet == "auto"):
            raise ValueError("X is a Samples, which has its alphabet and weights: give them to Samples.check.")
        elif X.allow_nan:
            raise ValueError("X is a Samples that may hold NaN, which has no moments: check it with allow_nan=False.")
        return _from_checked(X, int(order))

    @classmethod
    def from_distribution(cls, states: Any, probabilities: Any, order: int = 3, alphabet: Any = "auto") -> Moments:
        """Exact moments of a distribution over the rows of ``states``: those of infinitely many samples."""
        stats = cls.from_samples(states, order, alphabet, probabilities)
        ps = stats.power_sums
        exact = PowerSums(tuple(S / ps.total for S in ps.sums), 1.0, True, ps.shift, ps.scale)
        return cls(stats.alphabet, order, exact, stats.feature_names)

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
        """From raw moments ⟨x_i⟩ (n,), ⟨x_i x_j⟩ (n, n), ⟨x_i x_j x_k⟩ (n, n, n), …, repeated indices included."""
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
        """From joint cumulants of orders 1 … 4, dense and symmetric, repeated indices included."""
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
        is_exact = bool(np.isinf(n_samples))
        total = 1.0 if is_exact else float(n_samples)
        sums = tuple(total * S for S in moments)
        return cls(Alphabet(alphabet), len(sums), PowerSums(sums, total, is_exact, shift), names)

    def __add__(self, other: Moments) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        names = _check_mergeable(self, other)
        return Moments(self.alphabet, self.order, self.power_sums + other.power_sums, names)

    # ------------------------------------------------------------------ reading

    @property
    def n_features(self) -> int:
        return len(self.power_sums.shift)

    @property
    def n_samples(self) -> float:
        """Σ w: the number of rows when there are no weights, inf for exact moments."""
        return np.inf if self.power_sums.is_exact else self.power_sums.total

    @cached_property
    def mean(self) -> np.ndarray:
        """(n,) ⟨x_i⟩."""
        return _frozen(self.power_sums.mean)

    @cached_property
    def second(self) -> np.ndarray:
        """(n,) ⟨x_i²⟩."""
        return _frozen(self.raw(np.repeat(np.arange(self.n_features)[:, None], 2, axis=1)))

    @cached_property
    def covariance(self) -> np.ndarray:
        """(n, n) C_ij = ⟨x_i x_j⟩ − ⟨x_i⟩⟨x_j⟩, divided by M and not M − 1, as moment matching wants it."""
        return _frozen(self.cumulant(2))

    def cumulant(self, order: int) -> np.ndarray:
        """Joint cumulants κ of one order, dense (n,) * order, with repeated indices.

        κ_ijk = ⟨δ_i δ_j δ_k⟩,   κ_ijkl = ⟨δ_i δ_j δ_k δ_l⟩ − C_ij C_kl − C_ik C_jl − C_il C_jk,   δ = x − ⟨x⟩.
        """
        n = self.n_features
        if order == 1:
            return self.mean.copy()
        self._require(order)
        if 8 * n**order > MAX_BYTES:
            raise ValueError(
                f"the dense cumulant of order {order} with n = {n} takes {8 * n**order / 2**30:.0f} GiB (limit "
                f"{MAX_BYTES / 2**30:g}): take the `moments` of the interactions that you need, or fewer variables."
            )
        packed = self.power_sums.central(order)
        if order == 4:
            packed -= symmetric.pairings(self.power_sums.central(2), n)
        expand = {2: symmetric.expand2, 3: symmetric.expand3, 4: symmetric.expand4}[order]
        return expand(packed, n)

    def moments(self, interactions: Interactions | Iterable[Iterable[Any]]) -> np.ndarray:
        """(p,) raw moments ⟨Π_{i∈μ} x_i⟩ of an Interactions, or of tuples of feature indices or names."""
        if not isinstance(interactions, Interactions):
            interactions = Interactions.from_tuples(interactions, self.n_features, self.feature_names)
        if interactions.n_features != self.n_features:
            raise ValueError(f"interactions among {interactions.n_features} variables, moments of {self.n_features}.")
        parts = [self.raw(interactions.block(k)) for k in interactions.orders]
        return np.concatenate(parts) if parts else np.zeros(0)

    def raw(self, rows: Any) -> np.ndarray:
        """⟨x_{i₁} … x_{i_k}⟩ for each row of an (r, k) array of feature indices, repeats allowed, shape (r,)."""
        rows = np.asarray(rows)
        self._require(rows.shape[1])
        return self.power_sums.raw(rows)

    def _require(self, order: int) -> None:
        held = len(self.power_sums.sums)
        if order > held:
            raise ValueError(f"order {order} was asked of moments up to order {held}: compute them with order={order}.")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Moments)
            and (self.alphabet, self.order, self.feature_names) == (other.alphabet, other.order, other.feature_names)
            and self.power_sums.equals(other.power_sums)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        size = f"n_features={self.n_features}, n_samples={self.n_samples:g}"
        return f"Moments({size}, order={self.order}, {self.alphabet!r})"


# ---------------------------------------------------------------------- from samples


def _from_checked(samples: Samples, order: int) -> Moments:
    require_order(samples.alphabet, order)
    n, k = samples.n_features, max(order, 2)
    n_bytes = 8 * symmetric.packed_size(n, k)
    if n_bytes > MAX_BYTES:
        raise ValueError(
            f"the moments of order {k} of n = {n} variables take {n_bytes / 2**30:.0f} GiB (limit "
            f"{MAX_BYTES / 2**30:g}): lower `order`, or drop variables."
        )
    coding = Coding.of(samples.alphabet, k)
    merged: PowerSums | None = None
    for block, weights in samples.blocks(max(64, _BLOCK // n // 64 * 64)):
        if weights is None or weights.any():
            part = block_sums(block, weights, coding, k)
            merged = part if merged is None else merged + part
    assert merged is not None  # weights are not all zero
    return Moments(samples.alphabet, order, merged, samples.feature_names)


def _from_iterator(blocks: Iterable, order: int, alphabet: Any, sample_weight: Any) -> Moments:
    weights = None if sample_weight is None else check_weights(sample_weight, len(sample_weight))
    merged: Moments | None = None
    row = 0
    for block in blocks:
        samples = Samples.check(block, alphabet, order=order, first_row=row)
        alphabet, end = samples.alphabet, row + samples.n_samples
        mine = None if weights is None else weights[row:end]
        if mine is None or mine.any():
            part = _from_checked(samples if mine is None else samples.reweighted(mine), order)
            merged = part if merged is None else merged + part
        row = end
    if weights is not None and len(weights) != row:
        raise ValueError(f"sample_weight has {len(weights)} entries, but the blocks of X have {row} rows.")
    if merged is None:
        raise ValueError("X is an iterator that gave no block of samples.")
    return merged


def _check_mergeable(a: Moments, b: Moments) -> list[str] | None:
    """The feature names of a + b."""
    for what, mine, other in (
        ("variables", a.n_features, b.n_features),
        ("order", a.order, b.order),
        ("alphabet", a.alphabet, b.alphabet),
    ):
        if mine != other:
            raise ValueError(
                f"moments of different {what} cannot be merged: {mine} and {other}. Compute both with the same "
                "columns, `order` and (explicit) `alphabet`."
            )
    if a.power_sums.is_exact or b.power_sums.is_exact:
        raise ValueError("exact moments (n_samples = inf) cannot be merged: they have no weight beside other samples.")
    if a.feature_names is not None and b.feature_names is not None and a.feature_names != b.feature_names:
        i = next(i for i, (x, y) in enumerate(zip(a.feature_names, b.feature_names)) if x != y)
        raise ValueError(
            f"moments of different features cannot be merged: column {i} is {a.feature_names[i]!r} in one and "
            f"{b.feature_names[i]!r} in the other."
        )
    return b.feature_names if a.feature_names is None else a.feature_names


def _frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array
