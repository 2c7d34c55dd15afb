"""Alphabet: the set X of values of one variable, numbers or labels, and the site distribution on numbers.

    q(x) ∝ exp(b x − c x²/2),  x ∈ X        (Eqs. adaptiveTAPEquation-m, -v)

Two directions: (b, c) → moments, and (m, v) → (b, c).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hbm_learn.space.quadrature import interval_nodes
from hbm_learn.space.site_moments import SiteMoments, gaussian_moments, solve_sites, weighted_moments

# Boundary of the attainable (m, v), relative to the width of the alphabet: closer than this, b or c exceeds what
# float64 can tell from infinity.
_BOUNDARY = 1e-14
# The largest number, and one over the least gap, of which moments of fourth order can be computed.
LARGEST = 1e60


@dataclass(frozen=True)
class Interval:
    """The bounded interval [low, high] as an alphabet: ``BoltzmannMachine(h, J, alphabet=Interval(-1, 1))``.

    Parameters
    ----------
    low, high : float
        Finite, low < high.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        numbers = all(isinstance(bound, (int, float, np.number)) for bound in (self.low, self.high))
        if not (numbers and np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise ValueError(
                f"Interval({self.low}, {self.high}) is empty or unbounded: give finite low < high, "
                'or alphabet="real" for the whole line.'
            )


class Nominal:
    """Labels without an order as an alphabet: ``Nominal("north", "south", "west")``.

    Parameters
    ----------
    *labels : hashable
        At least two, each once; strings as a rule, but numbers that only name things will do.
    """

    def __init__(self, *labels: Any):
        if len(labels) == 1 and isinstance(labels[0], (list, tuple, np.ndarray)):
            labels = tuple(labels[0])
        labels = tuple(label.item() if isinstance(label, np.generic) else label for label in labels)
        if not all(isinstance(label, Hashable) for label in labels):
            raise ValueError(f"Nominal{labels!r}: give labels such as text or numbers, not lists, dicts or arrays.")
        if len(labels) < 2 or len(set(labels)) != len(labels) or any(label != label for label in labels):
            raise ValueError(f"Nominal{labels!r}: give at least two labels, each once, none of them missing.")
        self.labels = labels

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Nominal) and self.labels == other.labels

    def __hash__(self) -> int:
        return hash(self.labels)

    def __repr__(self) -> str:
        return f"Nominal({', '.join(map(repr, self.labels))})"


class Alphabet:
    """The values of one variable: finitely many numbers ("finite") or labels ("nominal"), an "interval", "real".

    Parameters
    ----------
    spec : sequence of numbers, Nominal, Interval, "real" or Alphabet
        At least two distinct finite numbers, where it is a sequence.

    Attributes
    ----------
    kind : {"finite", "nominal", "interval", "real"}
        What it is.
    values : (q,) array or None
        Ascending numbers, or labels in their order; None where they cannot be listed.
    bounds : (float, float)
        The lowest and the highest number; 0 and q − 1 for labels.
    """

    kind: str
    values: np.ndarray | None
    bounds: tuple[float, float]

    def __init__(self, spec: Any):
        if isinstance(spec, Alphabet):
            self.kind, self.values, self.bounds = spec.kind, spec.values, spec.bounds
        elif isinstance(spec, Nominal):
            self.kind, self.values, self.bounds = "nominal", _label_array(spec.labels), (0.0, len(spec.labels) - 1.0)
        elif isinstance(spec, Interval):
            self.kind, self.values, self.bounds = "interval", None, (float(spec.low), float(spec.high))
        elif isinstance(spec, str):
            if spec != "real":
                raise ValueError(
                    f'alphabet={spec!r} is not known: give values, Nominal labels, an Interval, or "real".'
                )
            self.kind, self.values, self.bounds = "real", None, (-np.inf, np.inf)
        else:
            self.kind, self.values = "finite", _check_values(spec)
            self.bounds = (float(self.values[0]), float(self.values[-1]))

    @property
    def is_finite(self) -> bool:
        """Whether the values can be listed: numbers or labels."""
        return self.values is not None

    @property
    def is_nominal(self) -> bool:
        """Whether the values are labels without an order."""
        return self.kind == "nominal"

    @property
    def size(self) -> int:
        """Number of values of a finite alphabet."""
        if self.values is None:
            raise ValueError(f"the alphabet {self} has no finite number of values.")
        return len(self.values)

    def enumerable(self, n_features: int, limit: int) -> bool:
        """Whether n variables on this alphabet have at most ``limit`` states in all.

        Parameters
        ----------
        n_features : int
            How many variables.
        limit : int
            How many states.
        """
        return self.is_finite and bool(n_features * np.log(self.size) <= np.log(limit) + 1e-9)

    @property
    def is_binary(self) -> bool:
        """Two values: x² is affine in x, so neither d nor c adds anything."""
        return self.is_finite and self.size == 2

    @cached_property
    def nodes(self) -> np.ndarray:
        """Numeric values as float64."""
        if self.values is None or self.is_nominal:
            raise ValueError(f"the alphabet {self} has no finite list of values.")
        return self.values.astype(np.float64)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of samples on this alphabet."""
        return np.dtype(np.float64) if self.values is None else self.values.dtype

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Alphabet) or self.kind != other.kind or self.bounds != other.bounds:
            return False
        return self.values is None or self.values.tolist() == other.values.tolist()  # type: ignore[union-attr]

    def __hash__(self) -> int:
        return hash((self.kind, self.bounds, None if self.values is None else tuple(self.values.tolist())))

    def __repr__(self) -> str:
        if self.is_nominal:
            return f"Alphabet(Nominal({', '.join(map(repr, self.values.tolist()))}))"  # type: ignore[union-attr]
        if self.values is not None:
            return f"Alphabet(({', '.join(format(x, 'g') for x in self.nodes)}))"
        return 'Alphabet("real")' if self.kind == "real" else f"Alphabet(Interval{self.bounds})"

    def affine_to(self, other: Alphabet) -> tuple[float, float]:
        """(s, t), s > 0, such that self = s · other + t as sets; ValueError if there is none."""
        if "real" in (self.kind, other.kind) and self.kind == other.kind:
            return 1.0, 0.0
        if self.is_nominal and other.is_nominal and self.size == other.size:
            return 1.0, 0.0
        if self.kind == other.kind and not self.is_nominal:
            (low, high), (low_o, high_o) = self.bounds, other.bounds
            s = (high - low) / (high_o - low_o)
            t = low - s * low_o
            if self.kind == "interval":
                return s, t
            if self.size == other.size and np.allclose(s * other.nodes + t, self.nodes, rtol=1e-12, atol=1e-12 * s):
                return s, t
        raise ValueError(
            f"{other} is not an affine image of {self}: the values must correspond one to one under x = s·y + t."
        )

    # ------------------------------------------------------------------ (b, c) → moments

    def site_moments(self, b: np.ndarray, c: np.ndarray | float = 0.0) -> SiteMoments:
        """Moments of q(x) ∝ exp(b x − c x²/2).

        Finite alphabets cost len(b)·q exponentials; exponents are shifted by their maximum, so that no size of b, c
        overflows. Intervals use Gauss–Legendre panels laid where the weight is (see ``quadrature``).

        Parameters
        ----------
        b, c : array or float
            Of one shape, or broadcastable.
        """
        b, c = np.broadcast_arrays(np.asarray(b, dtype=np.float64), np.asarray(c, dtype=np.float64))
        if self.kind == "real":
            return gaussian_moments(b, c)
        if self.kind == "finite":
            x = self.nodes
            log_q = b[..., None] * x - 0.5 * c[..., None] * x**2
        else:
            x, log_w = interval_nodes(b, c, *self.bounds)
            log_q = b[..., None] * x - 0.5 * c[..., None] * x**2 + log_w
        return weighted_moments(x, log_q)

    # ------------------------------------------------------------------ (m, v) → (b, c)

    def site_parameters(
        self, m: np.ndarray, v: np.ndarray | None = None, *, tol: float = 1e-12, names: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(b, c) whose site distribution has ⟨x⟩ = m and ⟨x²⟩ = v: min over (b, c) of ln z − b m + c v/2, convex.

        Parameters
        ----------
        m : (n,) array
            Means.
        v : (n,) array or None
            Second moments; not needed on a two-valued alphabet, where c = 0.
        tol : float
            Largest error of the moments, in units of the half-width of the alphabet (and its square).
        names : (n,) labels or None
            For error messages; positions otherwise.
        """
        m = np.atleast_1d(np.asarray(m, dtype=np.float64))
        if self.is_binary:
            x0, x1 = self.nodes
            self._refuse(m, (m - x0) / (x1 - x0), (x1 - m) / (x1 - x0), "mean", names)
            return np.log((m - x0) / (x1 - m)) / (x1 - x0), np.zeros_like(m)
        if v is None:
            raise ValueError(f"the alphabet {self} has more than two values: give the second moments v as well.")
        v = np.broadcast_to(np.asarray(v, dtype=np.float64), m.shape)
        if self.kind == "real":
            V = v - m**2
            self._refuse(v, V, V, "second moment", names)
            return m / V, 1.0 / V
        return self._solve_parameters(m, v, tol, names)

    def _solve_parameters(self, m: np.ndarray, v: np.ndarray, tol: float, names: Any) -> tuple[np.ndarray, np.ndarray]:
        # Work with y = (x − centre)/half ∈ [−1, 1], so that tolerances mean the same on every alphabet.
        low, high = self.bounds
        centre, half = 0.5 * (low + high), 0.5 * (high - low)
        unit = Alphabet(Interval(-1.0, 1.0)) if self.kind == "interval" else Alphabet((self.nodes - centre) / half)
        my = (m - centre) / half
        vy = (v - 2 * centre * m + centre**2) / half**2
        lower = my**2 if unit.kind == "interval" else np.interp(my, unit.nodes, unit.nodes**2)
        self._refuse(m, my + 1.0, 1.0 - my, "mean", names)
        self._refuse(v, vy - lower, 1.0 - vy, "second moment", names)
        b, c = solve_sites(unit, my, vy, tol)
        # b_y y − c_y y²/2 with y = (x − centre)/half
        return b / half + c * centre / half**2, c / half**2

    def _refuse(self, value: np.ndarray, above: np.ndarray, below: np.ndarray, what: str, names: Any) -> None:
        bad = np.flatnonzero(~((above > _BOUNDARY) & (below > _BOUNDARY)))
        if bad.size:
            i = int(bad[0])
            label = i if names is None else names[i]
            raise ValueError(
                f"variable {label}: no distribution on {self} with all values possible has {what} "
                f"{value.ravel()[i]:.6g}: it lies at or beyond the edge of what is attainable "
                f"({bad.size} variable(s) in all). Drop the variable, or regularise its moments."
            )


def _label_array(labels: tuple) -> np.ndarray:
    values = np.empty(len(labels), dtype=object)
    for code, label in enumerate(labels):  # one at a time: a label may be a sequence itself
        values[code] = label
    values.setflags(write=False)
    return values


def _check_values(spec: Any) -> np.ndarray:
    try:
        values = np.asarray(list(spec))
    except TypeError:
        raise ValueError(
            f'alphabet={spec!r} is not known: give values, Nominal labels, an Interval, or "real". Numbers beside text '
            "are read as one alphabet for each variable: as labels of a variable, write Nominal(…)."
        ) from None
    if values.dtype == bool:
        values = values.astype(np.int64)
    if values.ndim != 1 or values.dtype.kind not in "iuf" or not np.isfinite(values.astype(float)).all():
        raise ValueError(f"alphabet={spec!r}: the values must be finite real numbers.")
    if values.dtype.kind == "u":  # differences of samples must not wrap around
        values = values.astype(np.int64 if values.max(initial=0) < 2**63 else np.float64)
    unique = np.unique(values)
    if len(unique) != len(values) or len(values) < 2:
        raise ValueError(f"alphabet={spec!r}: give at least two values, each once.")
    size, gap = float(np.abs(unique.astype(float)).max()), float(np.diff(unique.astype(float)).min())
    if size > LARGEST or gap < 1.0 / LARGEST:
        raise ValueError(
            f"alphabet={spec!r}: products of numbers of such a size leave the range of floats: write them in other "
            "units, near 1."
        )
    unique.setflags(write=False)
    return unique
