"""PowerSums: sums of products over samples, about a shift, that can be added, moved and read.

S_k[i₁ … i_k] = Σ_samples w y_{i₁} … y_{i_k},   x_i = shift_i + scale · y_i,   packed as in ``_kernels.symmetric``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from hbm_learn._kernels import symmetric


@dataclass(frozen=True, eq=False)
class PowerSums:
    """(S_1, …, S_K) of n variables; immutable. Integer where y is, and the samples have no weights.

    Attributes
    ----------
    sums : tuple of K packed arrays, int64 or float64.
    total : Σ w.
    is_exact : whether these are the moments of infinitely many samples, and ``total`` only their denominator.
    shift, scale : (n,) and number, x = shift + scale · y.
    largest : a bound on |y| where the sums are integers.
    """

    sums: tuple[np.ndarray, ...]
    total: float
    is_exact: bool
    shift: np.ndarray
    scale: float = 1.0
    largest: float = np.inf

    def __post_init__(self) -> None:
        for array in (*self.sums, self.shift):
            array.setflags(write=False)

    @property
    def is_whole(self) -> bool:
        """All sums are integers, hence exact."""
        return all(S.dtype.kind == "i" for S in self.sums)

    def __add__(self, other: PowerSums) -> PowerSums:
        a, b = self, other
        total = a.total + b.total
        if a.scale != b.scale or not np.array_equal(a.shift, b.shift):
            centre = (a.total / total) * a.mean + (b.total / total) * b.mean
            a, b = a.moved(centre), b.moved(centre)
        fits = a.largest ** len(a.sums) * total < 2**63
        sums = tuple(s + t if fits else s.astype(np.float64) + t for s, t in zip(a.sums, b.sums))
        return PowerSums(sums, total, a.is_exact, a.shift, a.scale, a.largest)

    def moved(self, centre: np.ndarray) -> PowerSums:
        """The same sums in float64, about x = centre and with scale 1."""
        c = (centre - self.shift) / self.scale - self._whole_mean
        about = symmetric.shifted(float(self.total), [S.astype(np.float64) for S in self._near], c)
        sums = tuple(self.scale**k * S for k, S in enumerate(about, start=1))
        return PowerSums(sums, self.total, self.is_exact, centre)

    # ------------------------------------------------------------------ moments

    @cached_property
    def mean(self) -> np.ndarray:
        """(n,) ⟨x_i⟩."""
        return self.raw(np.arange(len(self.shift))[:, None])

    def raw(self, rows: np.ndarray) -> np.ndarray:
        """⟨x_{i₁} … x_{i_k}⟩ for each row of an (r, k) array of indices, repeats allowed, shape (r,).

        Π (shift + scale · y) is expanded over subsets; in integers where all is integer, so with one rounding.
        """
        rows = np.sort(np.asarray(rows, dtype=np.int64), axis=1)
        k = rows.shape[1]
        shift, scale, total = self._affine(k)
        out = np.zeros(len(rows), dtype=shift.dtype)
        for size in range(k + 1):
            for kept in combinations(range(k), size):
                rest = [r for r in range(k) if r not in kept]
                sums = self.sums[size - 1][symmetric.rank(rows[:, kept])] if size else total
                out += scale**size * sums * np.prod(shift[rows[:, rest]], axis=1)
        return out / self.total

    def _affine(self, k: int) -> tuple[np.ndarray, float, float]:
        """(shift, scale, total), as integers if Σ x^k is a sum of integers that int64 holds."""
        largest = np.abs(self.shift).max() + abs(self.scale) * self.largest
        whole = self.scale == np.rint(self.scale) and bool((self.shift == np.rint(self.shift)).all())
        if self.is_whole and whole and largest**k * self.total < 2**62:
            return self.shift.astype(np.int64), int(self.scale), int(self.total)
        return self.shift, self.scale, self.total

    def central(self, order: int) -> np.ndarray:
        """⟨Π (x − ⟨x⟩)⟩ of one order, packed."""
        return self.scale**order * self._central[order - 1]

    @cached_property
    def _central(self) -> tuple[np.ndarray, ...]:
        averages = tuple(S / self.total for S in self._near)
        return symmetric.shifted(1.0, averages, averages[0])

    @cached_property
    def _whole_mean(self) -> np.ndarray:
        """(n,) integer nearest ⟨y_i⟩ if the sums are integers, else 0: to move there is exact, and cancels most."""
        return np.rint(self.sums[0] / self.total).astype(np.int64) if self.is_whole else np.zeros(len(self.shift))

    @property
    def _near(self) -> tuple[np.ndarray, ...]:
        return symmetric.shifted(int(self.total), self.sums, self._whole_mean) if self.is_whole else self.sums

    def equals(self, other: PowerSums) -> bool:
        """To the last bit."""
        numbers = (self.total, self.is_exact, self.scale) == (other.total, other.is_exact, other.scale)
        mine, others = (*self.sums, self.shift), (*other.sums, other.shift)
        return numbers and len(mine) == len(others) and all(map(np.array_equal, mine, others))
