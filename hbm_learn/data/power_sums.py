"""PowerSums: sums of products over samples, about a shift, that can be added, moved, mapped and read.

S_k[c₁ … c_k] = Σ_samples w y_{c₁} … y_{c_k},   φ_c = shift_c + scale_c · y_c,   packed as in ``_kernels.symmetric``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from hbm_learn._kernels import symmetric


@dataclass(frozen=True, eq=False)
class PowerSums:
    """(S_1, …, S_K) of N columns; immutable. Integer where y is, and the samples have no weights.

    Attributes
    ----------
    sums : tuple of K packed arrays
        int64 or float64.
    total : float
        Σ w.
    is_exact : bool
        Whether these are the moments of infinitely many samples, and ``total`` only their denominator.
    shift, scale : (N,) arrays
        φ = shift + scale · y.
    largest : float
        A bound on |y| where the sums are integers.
    """

    sums: tuple[np.ndarray, ...]
    total: float
    is_exact: bool
    shift: np.ndarray
    scale: np.ndarray
    largest: float = np.inf

    def __post_init__(self) -> None:
        for array in (*self.sums, self.shift, self.scale):
            array.setflags(write=False)

    @property
    def n_columns(self) -> int:
        return len(self.shift)

    @property
    def is_whole(self) -> bool:
        """All sums are integers, hence exact."""
        return all(S.dtype.kind == "i" for S in self.sums)

    def __add__(self, other: PowerSums) -> PowerSums:
        a, b = self, other
        total = a.total + b.total
        if not (np.array_equal(a.scale, b.scale) and np.array_equal(a.shift, b.shift)):
            centre = (a.total / total) * a.mean + (b.total / total) * b.mean
            a, b = a.moved(centre), b.moved(centre)
        fits = a.largest ** len(a.sums) * total < 2**63
        sums = tuple(s + t if fits else s.astype(np.float64) + t for s, t in zip(a.sums, b.sums))
        return replace(a, sums=sums, total=total)

    def moved(self, centre: np.ndarray) -> PowerSums:
        """The same sums in float64, about φ = centre and with scale 1."""
        c = (centre - self.shift) / self.scale - self._whole_mean
        about = symmetric.shifted(float(self.total), [S.astype(np.float64) for S in self._near], c)
        return PowerSums(self._scaled(about), self.total, self.is_exact, centre, np.ones(self.n_columns))

    def mapped(self, relation: Sequence[tuple[np.ndarray, np.ndarray]]) -> PowerSums:
        """The sums of other columns φ', site by site φ' = c_i + φ R_i with (c_i, R_i) as ``relation`` lists them.

        Where R_i is a number at every site it is another shift and scale of the same y. Otherwise the sums are taken
        about the means: products of sums that are linear in each factor.
        """
        c = np.concatenate([c for c, _ in relation])
        if all(R.shape == (1, 1) for _, R in relation):
            slope = np.concatenate([R[0] for _, R in relation])
            return replace(self, shift=c + slope * self.shift, scale=slope * self.scale)
        counts = [R.shape for _, R in relation]
        begin = np.concatenate([[0], np.cumsum([old for old, _ in counts])])
        first = np.repeat(begin[:-1], [new for _, new in counts])
        weights = np.zeros((len(c), max(old for old, _ in counts)))
        row = 0
        mean = c.copy()
        for (old, new), lo, (_, R) in zip(counts, begin, relation):
            weights[row : row + new, :old] = R.T
            mean[row : row + new] += self.mean[lo : lo + old] @ R
            row += new
        central = [self.total * self.central(k) for k in range(1, len(self.sums) + 1)]
        sums = symmetric.mapped(central, first, weights)
        return PowerSums(sums, self.total, self.is_exact, mean, np.ones(len(c)))

    # ------------------------------------------------------------------ moments

    @cached_property
    def mean(self) -> np.ndarray:
        """(N,) ⟨φ_c⟩."""
        return self.raw(np.arange(self.n_columns)[:, None])

    def raw(self, rows: np.ndarray) -> np.ndarray:
        """⟨φ_{c₁} … φ_{c_k}⟩ for each row of an (r, k) array of columns, repeats allowed, shape (r,).

        Π (shift + scale · y) is expanded over subsets; in integers where all is integer, so with one rounding.
        """
        rows = np.sort(np.asarray(rows, dtype=np.int64), axis=1)
        k = rows.shape[1]
        shift, scale, total = self._affine(k)
        shared = scale[0] if (scale == scale[0]).all() else None
        out = np.zeros(len(rows), dtype=shift.dtype)
        for size in range(k + 1):
            for kept in combinations(range(k), size):
                rest = [r for r in range(k) if r not in kept]
                sums = self.sums[size - 1][symmetric.rank(rows[:, kept])] if size else total
                factor = shared**size if shared is not None else np.prod(scale[rows[:, kept]], axis=1)
                out += factor * sums * np.prod(shift[rows[:, rest]], axis=1)
        return out / self.total

    def _affine(self, k: int) -> tuple[np.ndarray, np.ndarray, float]:
        """(shift, scale, total), as integers if Σ φ^k is a sum of integers that int64 holds."""
        largest = np.abs(self.shift).max() + np.abs(self.scale).max() * self.largest
        whole = all(bool((array == np.rint(array)).all()) for array in (self.scale, self.shift))
        if self.is_whole and whole and largest**k * self.total < 2**62:
            return self.shift.astype(np.int64), self.scale.astype(np.int64), int(self.total)
        return self.shift, self.scale, self.total

    def central(self, order: int) -> np.ndarray:
        """⟨Π (φ − ⟨φ⟩)⟩ of one order, packed."""
        return self._scaled(self._central[order - 1 : order], order)[0]

    @cached_property
    def _central(self) -> tuple[np.ndarray, ...]:
        averages = tuple(S / self.total for S in self._near)
        return symmetric.shifted(1.0, averages, averages[0])

    def _scaled(self, sums: Sequence[np.ndarray], order: int = 1) -> tuple[np.ndarray, ...]:
        """Sums of products of scale · y from those of y, of orders from ``order`` on."""
        if (self.scale == self.scale[0]).all():
            return tuple(self.scale[0] ** k * S for k, S in enumerate(sums, start=order))
        return symmetric.scaled(sums, self.scale, order)

    @cached_property
    def _whole_mean(self) -> np.ndarray:
        """(N,) integer nearest ⟨y_c⟩ if the sums are integers, else 0: to move there is exact, and cancels most."""
        return np.rint(self.sums[0] / self.total).astype(np.int64) if self.is_whole else np.zeros(self.n_columns)

    @property
    def _near(self) -> tuple[np.ndarray, ...]:
        return symmetric.shifted(int(self.total), self.sums, self._whole_mean) if self.is_whole else self.sums

    def equals(self, other: PowerSums) -> bool:
        """To the last bit."""
        numbers = (self.total, self.is_exact) == (other.total, other.is_exact)
        mine, others = (*self.sums, self.shift, self.scale), (*other.sums, other.shift, other.scale)
        return numbers and len(mine) == len(others) and all(map(np.array_equal, mine, others))
