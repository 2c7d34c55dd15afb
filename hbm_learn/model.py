"""BoltzmannMachine: the higher-order Boltzmann machine (Eq. energy_higher-order).

P(x) = exp(−H(x)) / Z,   H(x) = − Σ_i h_i x_i + ½ Σ_i d_i x_i² − Σ_μ J_μ Π_{i∈μ} x_i,   x_i ∈ X
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations, permutations
from os import PathLike
from typing import Any

import numpy as np

from hbm_learn._kernels import polynomial
from hbm_learn._threads import in_threads, row_parts
from hbm_learn.interactions import Interactions
from hbm_learn.io import models as _storage
from hbm_learn.space import Alphabet


class BoltzmannMachine:
    """A higher-order Boltzmann machine; immutable.

    Parameters
    ----------
    h : (n,) fields.
    couplings : dict {(0, 1): 0.3, (0, 1, 2): -0.1}, or a symmetric (n, n) array of pair couplings with zero diagonal.
    d : number or (n,) anisotropies. On a two-valued alphabet x² is affine in x: there d only shifts h.
    alphabet : values, ``Interval(low, high)``, or "real" (Gaussian, pairwise only).

    Examples
    --------
    >>> model = BoltzmannMachine([0.1, 0.0, -0.2], {(0, 1): 0.3, (0, 1, 2): -0.1})
    >>> model.interactions, model.order
    ([(0, 1), (0, 1, 2)], 3)
    """

    def __init__(
        self,
        h: Any,
        couplings: Mapping[tuple[int, ...], float] | np.ndarray,
        d: Any = 0.0,
        alphabet: Any = (-1, 1),
    ):
        self._h = _finite_vector("h", h)
        n = len(self._h)
        self._d = _finite_vector("d", np.broadcast_to(d, n) if np.ndim(d) == 0 else d, n)
        self._alphabet = Alphabet(alphabet)
        self._packed, self._weights = _pack(couplings, n)
        if self._alphabet.kind == "real" and self._packed.order > 2:
            raise ValueError(
                f'alphabet "real" takes pair couplings only (got order {self._packed.order}): with higher orders '
                "exp(−H) has no finite integral. Use an Interval for bounded continuous variables."
            )
        for array in (self._h, self._d, self._weights):
            array.setflags(write=False)

    @classmethod
    def from_packed(
        cls, h: Any, interactions: Interactions, weights: Any, d: Any = 0.0, alphabet: Any = (-1, 1)
    ) -> BoltzmannMachine:
        """From an ``Interactions`` and its (p,) weights, without a Python object for each interaction."""
        model = cls(h, {}, d, alphabet)
        if interactions.n_features != model.n_features:
            raise ValueError(f"interactions among {interactions.n_features} variables, but h has {model.n_features}.")
        weights = _finite_vector("weights", weights, len(interactions))
        if model.alphabet.kind == "real" and interactions.order > 2:
            return cls(h, dict(zip(interactions.tuples, weights)), d, alphabet)  # raises
        model._packed, model._weights = interactions, weights
        weights.setflags(write=False)
        return model

    # ------------------------------------------------------------------ parameters

    @property
    def h(self) -> np.ndarray:
        return self._h

    @property
    def d(self) -> np.ndarray:
        return self._d

    @property
    def alphabet(self) -> Alphabet:
        return self._alphabet

    @property
    def n_features(self) -> int:
        return len(self._h)

    @property
    def order(self) -> int:
        """The largest order of an interaction; 1 if there is none."""
        return self._packed.order

    @property
    def packed(self) -> Interactions:
        """The interaction set in packed form."""
        return self._packed

    @property
    def interactions(self) -> list[tuple[int, ...]]:
        """Sorted tuples of order ≥ 2, by order and then lexicographically."""
        return list(self._packed.tuples)

    @property
    def weights(self) -> np.ndarray:
        """(p,) J_μ, matching ``interactions``."""
        return self._weights

    @property
    def J(self) -> np.ndarray:
        """(n, n) symmetric pair couplings, zero diagonal."""
        return self.tensor(2)

    def couplings(self) -> dict[tuple[int, ...], float]:
        """{μ: J_μ}."""
        return dict(zip(self._packed.tuples, self._weights.tolist()))

    def tensor(self, order: int) -> np.ndarray:
        """Dense symmetric tensor of the couplings of one order, shape (n,) * order, zero on repeated indices."""
        if order == 1:
            return self._h.copy()
        if order < 1:
            raise ValueError(f"order={order}: give an order of at least 1.")
        n_bytes = 8 * self.n_features**order
        if n_bytes > 2**33:
            raise ValueError(
                f"a dense tensor of order {order} with n = {self.n_features} takes {n_bytes / 2**30:.0f} GiB; "
                "use interactions and weights instead."
            )
        out = np.zeros((self.n_features,) * order)
        block, weights = self._packed.block(order), self._weights[self._packed.slice(order)]
        for axes in permutations(range(order)):
            out[tuple(block[:, axes].T)] = weights
        return out

    # ------------------------------------------------------------------ energy and its derivatives

    def energy(self, X: Any) -> np.ndarray:
        """H(x) of each row of X, shape (N,)."""
        X = self._rows(X)
        out = -(X @ self._h) + 0.5 * (X**2 @ self._d)
        return out - self._on_rows(polynomial.values_on_rows, X)

    def local_fields(self, X: Any) -> np.ndarray:
        """h_i + F_i(x) for each row of X, shape (N, n).

        Given the others, P(x_i) ∝ exp(field_i x_i − d_i x_i²/2).
        """
        return self._h + self._on_rows(polynomial.gradients_on_rows, self._rows(X))

    def coupling_energy(self, m: np.ndarray) -> float:
        """Σ_μ J_μ Π_{i∈μ} m_i."""
        return float(polynomial.value(self._point(m), *self._kernel_args))

    def F(self, m: np.ndarray) -> np.ndarray:
        """F_i(m) = Σ_{μ∋i} J_μ Π_{j∈μ∖i} m_j, shape (n,)."""
        return polynomial.gradient(self._point(m), *self._kernel_args)

    def A(self, m: np.ndarray) -> np.ndarray:
        """A_ij(m) = ∂F_i/∂m_j, shape (n, n)."""
        return polynomial.hessian(self._point(m), *self._kernel_args)

    def T(self, m: np.ndarray) -> np.ndarray:
        """T_ijk(m) = ∂A_ij/∂m_k, shape (n, n, n); solvers contract it without forming it."""
        return polynomial.third(self._point(m), *self._kernel_args)

    @property
    def _kernel_args(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self._packed.members, self._packed.indptr, self._weights

    def _on_rows(self, kernel: Callable[..., np.ndarray], X: np.ndarray) -> np.ndarray:
        parts = row_parts(len(X), len(X) * len(self._packed.members))
        return np.concatenate(in_threads(lambda part: kernel(X[part], *self._kernel_args), parts))

    def _point(self, m: Any) -> np.ndarray:
        m = np.ascontiguousarray(m, dtype=np.float64)
        if m.shape != (self.n_features,):
            raise ValueError(f"m has shape {m.shape}; expected ({self.n_features},).")
        return m

    def _rows(self, X: Any) -> np.ndarray:
        X = np.ascontiguousarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise ValueError(f"X has shape {X.shape}; expected (n_samples, {self.n_features}).")
        return X

    # ------------------------------------------------------------------ other forms

    def with_alphabet(self, alphabet: Any) -> BoltzmannMachine:
        """The same distribution, rewritten for y with x = s·y + t, where ``alphabet`` holds the values of y.

        Π_{i∈μ} (s y_i + t) = Σ_{ν⊆μ} s^|ν| t^(|μ|−|ν|) Π_{i∈ν} y_i: with t ≠ 0 the interaction set becomes closed under
        subsets. The constant that appears changes ln Z, not the distribution.
        """
        target = Alphabet(alphabet)
        s, t = self._alphabet.affine_to(target)
        h = s * self._h - s * t * self._d
        packed = self._packed if t == 0 else self._packed.closure()
        weights = np.zeros(len(packed))
        for k in self._packed.orders:
            block, J = self._packed.block(k), self._weights[self._packed.slice(k)]
            for size in range(k if t == 0 else 1, k + 1):
                scaled = J * s**size * t ** (k - size)
                for kept in combinations(range(k), size):
                    if size == 1:
                        np.add.at(h, block[:, kept[0]], scaled)
                    else:
                        np.add.at(weights, packed.locate(block[:, kept]), scaled)
        return BoltzmannMachine.from_packed(h, packed, weights, s**2 * self._d, target)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to ``path`` (.npz, no pickle)."""
        _storage.save(path, self)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> BoltzmannMachine:
        """Read what :meth:`save` wrote; ValueError for any other file."""
        return _storage.load(path, cls)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BoltzmannMachine)
            and self._alphabet == other._alphabet
            and self._packed == other._packed
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in ("h", "d", "weights"))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"BoltzmannMachine(n_features={self.n_features}, {self._packed!r}, {self._alphabet!r})"


def _finite_vector(name: str, value: Any, size: int | None = None) -> np.ndarray:
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a vector of real numbers, got {value!r}.") from None
    if array.ndim != 1 or (size is None and not array.size) or (size is not None and len(array) != size):
        expected = "a non-empty vector" if size is None else f"shape ({size},)"
        raise ValueError(f"{name} has shape {array.shape}; expected {expected}.")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise ValueError(f"{name}[{bad[0]}] = {array[bad[0]]}: every entry must be finite.")
    return array


def _pack(couplings: Any, n: int) -> tuple[Interactions, np.ndarray]:
    """Interactions and weights from a dict or a symmetric matrix (whose zeros are no interactions)."""
    if isinstance(couplings, Mapping):
        packed = Interactions.from_tuples(couplings, n)
        weights = np.zeros(len(packed))
        at = {mu: r for r, mu in enumerate(packed.tuples)}
        if len(packed) < len(couplings):
            raise ValueError("couplings: the same interaction is given twice, with its members in another order.")
        for mu, weight in couplings.items():
            weights[at[tuple(sorted(mu))]] = weight
        bad = np.flatnonzero(~np.isfinite(weights))
        if bad.size:
            raise ValueError(f"couplings[{packed.tuples[bad[0]]}] = {weights[bad[0]]}: every coupling must be finite.")
        return packed, weights
    J = np.asarray(couplings, dtype=np.float64)
    if J.shape != (n, n):
        raise ValueError(f"couplings has shape {J.shape}; expected ({n}, {n}), as h has {n} entries, or a dict.")
    if not np.isfinite(J).all():
        i, j = np.argwhere(~np.isfinite(J))[0]
        raise ValueError(f"couplings[{i}, {j}] = {J[i, j]}: every coupling must be finite.")
    if np.diag(J).any():
        i = int(np.flatnonzero(np.diag(J))[0])
        raise ValueError(f"couplings[{i}, {i}] = {J[i, i]:g}: there are no self-interactions; put −2·J_ii in d.")
    asymmetric = np.argwhere(J != J.T)
    if len(asymmetric):
        i, j = asymmetric[0]
        raise ValueError(
            f"couplings[{i}, {j}] = {J[i, j]:g} but couplings[{j}, {i}] = {J[j, i]:g}: it must be symmetric."
        )
    pairs = np.argwhere(np.triu(J, 1))
    return Interactions.from_blocks([pairs], n), J[tuple(pairs.T)]
