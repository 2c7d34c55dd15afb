"""BoltzmannMachine: the higher-order Boltzmann machine (Eq. energy_higher-order), for variables of any kind.

    P(x) = exp(−H(x)) / Z,   H(x) = − Σ_i θ_i(x_i) − Σ_μ J_μ Π_{c∈μ} φ_c(x),   θ_i(x) = h_i x − ½ d_i x² + site_i(x)

With one number x_i for each variable and φ = x, this is the paper's H = − Σ h_i x_i + ½ Σ d_i x_i² − Σ_μ J_μ Π x_i.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from numbers import Real
from os import PathLike
from typing import Any

import numpy as np

from hbm_learn._kernels import polynomial
from hbm_learn._validation import check_number
from hbm_learn.interactions import Interactions
from hbm_learn.io import models as storage
from hbm_learn.model import conditioning, gauge
from hbm_learn.model import couplings as couplings_
from hbm_learn.model.coupling_polynomial import CouplingPolynomial
from hbm_learn.model.couplings import finite_vector
from hbm_learn.model.site_weights import SiteWeights, add_columns, add_single, check_sites, frozen, own_table, split_own
from hbm_learn.space import Space
from hbm_learn.terms import Terms


class BoltzmannMachine(CouplingPolynomial):
    """A higher-order Boltzmann machine; immutable.

    Parameters
    ----------
    h : (n,) array-like
        Fields; zero for nominal variables.
    couplings : dict or (n, n) array
        {(0, 1): 0.3, (0, 1, 2): -0.1, (0, 0, 1): 0.2}: a repeated member is a power, x_0² x_1. With nominal members the
        value is an array over their values, (q_i, q_j, …), numeric members taking no axis. Or a symmetric array of pair
        couplings with zero diagonal.
    d : float or (n,) array-like
        Anisotropies. With two values x² is affine in x: there d only shifts h.
    alphabet : values, Nominal, Interval, "real", or one for each variable
        "real" is the Gaussian, with pairs only.
    site : None or sequence
        For each variable None or (q_i,) log weights on top of h x − d x²/2; all there is for a nominal variable.
    given : None or sequence of int
        Variables z that take part in interactions but are not modelled: the model is P(x | z). They have no h, d and
        site, and may be "real" beside finite others.

    Examples
    --------
    >>> model = BoltzmannMachine([0.1, 0.0, -0.2], {(0, 1): 0.3, (0, 1, 2): -0.1})
    >>> model.interactions, model.order
    ([(0, 1), (0, 1, 2)], 3)
    """

    _frequencies: Sequence[np.ndarray] | None = None

    def __init__(
        self,
        h: Any,
        couplings: Mapping[tuple[int, ...], Any] | np.ndarray,
        d: Any = 0.0,
        alphabet: Any = (-1, 1),
        site: Sequence[Any] | None = None,
        given: Sequence[int] | None = None,
    ):
        h = finite_vector("h", h)
        n = len(h)
        mask = conditioning.given_variables(given, n)
        each = "one anisotropy for each entry of h, or one for all"
        if np.ndim(d) == 0:
            d = np.full(n, check_number("d", np.asarray(d).item(), what=each))
        d = finite_vector("d", d, n, each)
        if isinstance(couplings, Mapping):
            space, columns, weights, single = couplings_.pack(couplings, alphabet, n, mask)
        else:
            space, columns, weights, single = couplings_.pack_matrix(couplings, alphabet, n, mask)
        # What tables that do not sum to zero say of one variable alone goes to its own weights.
        self._set(space, add_single(space, check_sites(space, h, d, site), single), columns, weights)

    def _set(self, space: Space, sites: SiteWeights | None, columns: Interactions, weights: np.ndarray) -> None:
        if space.is_real and columns.order > 2:
            raise ValueError(
                f'alphabet "real" takes pair couplings only (got order {columns.order}): with higher orders '
                "exp(−H) has no finite integral. Use an Interval for bounded continuous variables."
            )
        super().__init__(columns, weights)
        self._space = space
        if sites is not None:
            self._sites = frozen(sites)

    @classmethod
    def from_parts(
        cls, space: Space, sites: SiteWeights | None, columns: Interactions, weights: np.ndarray
    ) -> BoltzmannMachine:
        """From all that a model holds, on any space and in any gauge; nothing is checked.

        Parameters
        ----------
        space : Space
            What each variable is.
        sites : tuple or None
            (h, d, site).
        columns : Interactions
            Sets of columns.
        weights : (p,) array
            J of each of them.
        """
        model = cls.__new__(cls)
        model._set(space, sites, columns, weights)
        return model

    @classmethod
    def from_packed(
        cls, h: Any, interactions: Interactions, weights: Any, d: Any = 0.0, alphabet: Any = (-1, 1)
    ) -> BoltzmannMachine:
        """From an ``Interactions`` and its weights, for numeric variables, with no object for each interaction.

        Parameters
        ----------
        h : (n,) array-like
            Fields.
        interactions : Interactions
            Which sets of variables interact.
        weights : (p,) array-like
            J of each of them.
        d : float or (n,) array-like
            Anisotropies.
        alphabet : values, Interval, "real", or one for each variable
            As in the constructor.
        """
        model = cls(h, {}, d, alphabet)
        if interactions.n_features != model.n_columns:
            raise ValueError(f"interactions among {interactions.n_features} variables, but h has {model.n_features}.")
        weights = finite_vector("weights", weights, len(interactions), "one for each interaction")
        return cls.from_parts(model._space, model._sites, interactions, weights)

    @classmethod
    def from_columns(
        cls,
        space: Space,
        own: Sequence[np.ndarray],
        columns: Interactions,
        weights: Any,
        frequencies: Sequence[np.ndarray] | None = None,
    ) -> BoltzmannMachine:
        """From θ_i over the values of each site and weights of sets of columns, in any gauge of a finite space.

        Parameters
        ----------
        space : Space
            What each variable is.
        own : sequence of (q_i,) arrays
            θ_i. That of a numeric site is split into h, d and the rest.
        columns : Interactions
            Sets of columns.
        weights : (p,) array-like
            J of each of them.
        frequencies : sequence of (q_i,) arrays or None
            Under which the quadratic h x − d x²/2 is the closest to θ; all values alike by default.
        """
        weights = finite_vector("weights", weights, len(columns), "one for each set of columns")
        model = cls.from_parts(space, None, columns, weights)
        model.own, model._frequencies = list(own), frequencies
        return model

    # ------------------------------------------------------------------ parameters

    @cached_property
    def _sites(self) -> SiteWeights:
        """(h, d, site); of a model made from θ tables only when somebody asks, as fits make many of them."""
        return frozen(split_own(self._space, self.own, self._frequencies))

    @property
    def h(self) -> np.ndarray:
        """(n,) fields h_i; zero for nominal variables."""
        return self._sites[0]

    @property
    def d(self) -> np.ndarray:
        """(n,) anisotropies d_i; zero for nominal variables."""
        return self._sites[1]

    @property
    def site(self) -> tuple[np.ndarray | None, ...]:
        """For each variable None or (q_i,) log weights on top of h x − d x²/2."""
        return self._sites[2]

    @cached_property
    def own(self) -> list[Any]:
        """θ_i over the values of each variable; None where they cannot be listed."""
        space = self._space
        tables = [own_table(a, *each) for a, *each in zip(space.alphabets, *self._sites)]
        return [np.zeros(q) if given else each for q, given, each in zip(space.sizes, space.given, tables)]

    @property
    def space(self) -> Space:
        """What each variable is."""
        return self._space

    @property
    def alphabet(self) -> Any:
        """The Alphabet that all variables share, or a tuple with one for each."""
        return self._space.alphabets if self._space.alphabet is None else self._space.alphabet

    @property
    def n_features(self) -> int:
        """Number of variables."""
        return self._space.n_features

    @property
    def n_columns(self) -> int:
        """Number of columns: functions of all variables together."""
        return self._space.n_columns

    @property
    def order(self) -> int:
        """The largest number of variables in an interaction; 1 if there is none."""
        return self._columns.order

    @cached_property
    def terms(self) -> Terms:
        """The interactions of variables that the sets of columns make up."""
        return Terms(self._space, self._columns)

    @property
    def interactions(self) -> list[tuple[int, ...]]:
        """Sorted tuples of two or more variables, a repeated member for a power; by order, then lexicographically."""
        return list(self.terms.tuples)

    @property
    def weights(self) -> np.ndarray:
        """(p,) J_μ, matching ``interactions``.

        For nominal members the root mean square of their table, if it is larger than two by two.
        """
        return self.terms.norm(self._column_weights)

    @property
    def J(self) -> np.ndarray:
        """(n, n) symmetric pair couplings, zero diagonal; of x_i x_j, or the root mean square of a nominal table."""
        return self.tensor(2)

    def couplings(self) -> dict[tuple[int, ...], Any]:
        """{μ: J_μ}, with nominal members as zero-sum arrays over their values, (q_i, q_j, …)."""
        return couplings_.unpack(self.terms, self._column_weights)

    def table(self, r: int) -> Any:
        """J of interaction r: a number, or a zero-sum array with an axis for each nominal member."""
        return couplings_.table(self.terms, self._column_weights, r)

    def tensor(self, order: int) -> np.ndarray:
        """Dense symmetric tensor of the couplings of one order, shape (n,) * order, zero on repeated indices."""
        if order < 1:
            raise ValueError(f"order={order}: give an order of at least 1.")
        return self.h.copy() if order == 1 else couplings_.tensor(self.terms, self._column_weights, order)

    # ------------------------------------------------------------------ energy and its derivatives

    def energy(self, X: Any) -> np.ndarray:
        """H(x) of each row of X, values or labels, shape (rows,)."""
        from_tables = "_frequencies" in self.__dict__  # with constants of their own
        if from_tables or not self._space.is_uniform or any(table is not None for table in self.site):
            return self.energy_of_codes(self._space.encode(X))
        X = self._rows(X)
        out = -(X @ self.h) + 0.5 * (X**2 @ self.d)
        return out - self.on_rows(polynomial.values_on_rows, X)

    def energy_of_codes(self, codes: np.ndarray) -> np.ndarray:
        """H(x) of each row of codes (values where a variable is continuous), shape (rows,)."""
        out = np.zeros(len(codes))
        for i, table in enumerate(self.own):
            if self._space.given[i]:
                continue
            x = codes[:, i]
            out -= self.h[i] * x - 0.5 * self.d[i] * x**2 if table is None else table[x.astype(np.intp, copy=False)]
        return out - self.on_rows(polynomial.values_on_rows, self._space.columns(codes))

    def local_fields(self, X: Any) -> np.ndarray:
        """h_i + F_i(x) for each row of X, shape (rows, n), for numeric variables without powers.

        Given the others, P(x_i) ∝ exp(field_i x_i − d_i x_i²/2 + site_i(x_i)).
        """
        if not (self._space.is_scalar and self._space.is_numeric and self._space.is_coding):
            raise ValueError("local_fields is for numeric variables without powers: use column_fields.")
        return self.h + self.on_rows(polynomial.gradients_on_rows, self._rows(X))

    def column_fields(self, codes: np.ndarray) -> np.ndarray:
        """F_c(x) = ∂E/∂φ_c for each row of codes, shape (rows, N): P(x_i | rest) ∝ exp(θ_i(x_i) + Σ_c F_c φ_c(x_i))."""
        return self.on_rows(polynomial.gradients_on_rows, self._space.columns(codes))

    def _rows(self, X: Any) -> np.ndarray:
        try:
            X = np.atleast_1d(np.asarray(X, dtype=np.float64))
        except (TypeError, ValueError):
            raise ValueError(f"X is of type {type(X).__name__}: give rows of numbers, one for each variable.") from None
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise ValueError(f"X has shape {X.shape}; expected (n_samples, {self.n_features}).")
        return X

    # ------------------------------------------------------------------ other forms

    def in_space(self, space: Space, frequencies: Sequence[np.ndarray] | None = None) -> BoltzmannMachine:
        """The same distribution with other functions that span the same.

        The interaction set is closed first where the functions differ by constants.

        Parameters
        ----------
        space : Space
            Of the same variables.
        frequencies : sequence of (q_i,) arrays or None
            As in :meth:`from_columns`.
        """
        columns, single, weights = gauge.transferred(self, self._space, self._space.relation(space))
        if not space.is_finite:
            return BoltzmannMachine.from_parts(space, add_single(space, self._sites, single), columns, weights)
        own = add_columns(space, self.own, single)
        return BoltzmannMachine.from_columns(space, own, columns, weights, frequencies)

    def settled(self) -> BoltzmannMachine:
        """The same distribution with θ_i = h_i x − d_i x²/2 + site_i to the letter.

        Tables from which a model was made may hold constants beside that, which ln Z sees and h, d, site do not.
        """
        return BoltzmannMachine.from_parts(self._space, self._sites, self._columns, self._column_weights)

    def with_alphabet(self, alphabet: Any) -> BoltzmannMachine:
        """The same distribution, rewritten for y with x = s·y + t, where ``alphabet`` holds the values of y.

        One alphabet for all, or one for each variable; labels of nominal variables are replaced in their order.
        Π_{i∈μ} (s y_i + t) has a term for every subset of μ: with t ≠ 0 the interaction set becomes closed under
        subsets. The constant that appears changes ln Z, not the distribution.
        """
        highest = np.maximum(self._space.power[self._space.column_ptr[1:] - 1], 1)
        if not self._space.is_coding:
            return self.in_space(self._space.coding(highest)).with_alphabet(alphabet)
        target = Space.of(alphabet, self.n_features, highest, self._space.given)
        s, t = gauge.affine_maps(self._space, target)
        columns, single, weights = gauge.transferred(self, self._space, gauge.affine_powers(self._space, s, t))
        sites = (s * self.h - s * t * self.d, s**2 * self.d, self.site)
        return BoltzmannMachine.from_parts(target, add_single(target, sites, single), columns, weights)

    def condition(self, values: Any) -> BoltzmannMachine:
        """The model of the other variables where some have these values, P(rest | values).

            J'_ν = Σ_{μ: μ∩rest = ν} J_μ Π_{c∈μ∖ν} φ_c(values)

        Parameters
        ----------
        values : sequence or dict
            Values or labels of the given variables, in their order; or {variable: value} of any variables.

        Returns
        -------
        BoltzmannMachine
            Of the other variables, in their order.

        Examples
        --------
        >>> model = BoltzmannMachine([0.1, 0, 0], {(0, 1): 0.3, (0, 1, 2): -0.1, (0, 2): 0.5}, given=[2])
        >>> small = model.condition([1])
        >>> small.h.round(2).tolist(), small.couplings()
        ([0.6, 0.0], {(0, 1): 0.19999999999999998})
        """
        codes, rest = conditioning.row_of(self._space, values)
        return conditioning.condition(self, codes, rest)

    def __mul__(self, beta: Any) -> BoltzmannMachine:
        """All of h, d, site and J times beta: the model at another temperature."""
        if not isinstance(beta, Real):
            return NotImplemented
        beta = float(beta)
        if not np.isfinite(beta):
            raise ValueError(f"model * {beta!r}: give a finite number.")
        sites = beta * self.h, beta * self.d, tuple(None if table is None else beta * table for table in self.site)
        return BoltzmannMachine.from_parts(self._space, sites, self._columns, beta * self._column_weights)

    __rmul__ = __mul__
    __array_ufunc__ = None  # numpy.float64(0.5) * model is ours to answer

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to ``path`` (.npz, no pickle)."""
        storage.save(path, self)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> BoltzmannMachine:
        """Read what :meth:`save` wrote; ValueError for any other file."""
        return storage.load(path, cls)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BoltzmannMachine)
            and self._space == other._space
            and self._columns == other._columns
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in ("h", "d", "column_weights"))
            and all(np.array_equal(a, b) for a, b in zip(self.site, other.site))  # type: ignore[arg-type]
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        what = repr(self._space.alphabet) if self._space.alphabet is not None else repr(self._space)
        return f"BoltzmannMachine(n_features={self.n_features}, {self._columns!r}, {what})"
