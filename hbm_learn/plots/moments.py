"""MomentsDisplay: moments of the data against those of the fitted model."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbm_learn._validation import generator
from hbm_learn.data.moments import Moments
from hbm_learn.fitted import require_fitted
from hbm_learn.plots import _style
from hbm_learn.sampling import sample
from hbm_learn.space import Space
from hbm_learn.terms import all_terms

# Moments drawn for each order, at most: a random choice of them.
MAX_POINTS = 2000
# Samples of the fitted model, where they are independent and cheap, and where they come from chains.
EXACT_DRAWS, CHAIN_DRAWS = 100_000, 20_000
# Sweeps of a chain for each row where columns are given.
GIVEN_SWEEPS = 200
EXACT_STATES = 2**20
_BLOCK = 2**13
_SYMBOLS = {1: "means $\\langle x_i \\rangle$", 2: "covariances", 3: "third cumulants"}
# Where variables differ in kind, each is seen in its own units.
_MIXED_SYMBOLS = {1: "means (0 … 1), frequencies", 2: "correlations", 3: "third cumulants"}


class MomentsDisplay:
    """Observed against fitted moments, a panel for each order: means, covariances, joint cumulants of third order.

    Points on the diagonal are moments that the model tells. Bars are one standard error of what was observed.

    Parameters
    ----------
    observed, fitted : (p,) arrays
        Moments.
    errors : (p,) array
        Standard errors of observed − fitted.
    orders : (p,) array
        Order of each.
    titles : dict
        {order: what its moments are}.

    Attributes
    ----------
    axes_, figure_ : matplotlib objects
        After ``plot``.
    discrepancy_ : dict
        {order: root mean square of (observed − fitted)/error}; about 1 when the model tells all moments.
    """

    def __init__(
        self,
        observed: np.ndarray,
        fitted: np.ndarray,
        errors: np.ndarray,
        orders: np.ndarray,
        *,
        titles: dict[int, str] | None = None,
    ):
        self.observed, self.fitted, self.errors = (np.asarray(x, dtype=np.float64) for x in (observed, fitted, errors))
        self.orders, self.titles = np.asarray(orders), _SYMBOLS if titles is None else titles
        if not self.observed.shape == self.fitted.shape == self.errors.shape == self.orders.shape:
            raise ValueError("observed, fitted, errors and orders must be vectors of the same length.")
        self.discrepancy_ = {int(k): self._rms(self.orders == k) for k in np.unique(self.orders)}

    def _rms(self, which: np.ndarray) -> float:
        which = which & (self.errors > 0)
        z = (self.observed[which] - self.fitted[which]) / self.errors[which]
        return float(np.sqrt(np.mean(z**2))) if len(z) else 0.0

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        n_samples: int | None = None,
        given: Any = None,
        random_state: Any = 0,
        ax: Any = None,
        **options: Any,
    ) -> MomentsDisplay:
        """Compare the moments that a fitted HBM saw with those of samples of its model.

        All moments up to the order of the fit (at most third) are compared, also of interactions left out of the
        model; of more than 2000 in one order, a random choice.

        Parameters
        ----------
        estimator : HBM
            Fitted.
        n_samples : int or None
            Samples of the model; enough by default.
        given : (rows, g) table or None
            The values of the given columns in the data, where there are some: the model is sampled given them.
        random_state : int, Generator or None
            Seed of the samples.
        ax : matplotlib Axes, one for each order, or None
            Where to draw, or the place to divide; a new figure by default.
        **options : dict
            Of :meth:`plot`.
        """
        require_fitted(estimator)
        space = estimator.model_.space
        exact = space.is_real or space.enumerable(EXACT_STATES)
        n_samples = n_samples or (EXACT_DRAWS if exact else CHAIN_DRAWS)
        if space.has_given:
            X = _given_rows(estimator, given, n_samples, random_state)
            return cls.from_predictions(estimator.moments_, X, random_state=random_state, ax=ax, **options)
        X = sample(estimator.model_, n_samples, method="exact" if exact else "gibbs", random_state=random_state)
        return cls.from_predictions(estimator.moments_, X, random_state=random_state, ax=ax, **options)

    @classmethod
    def from_predictions(
        cls, moments: Moments, X: Any, *, random_state: Any = 0, ax: Any = None, **options: Any
    ) -> MomentsDisplay:
        """Compare observed moments with those of samples that a model predicts.

        One alphabet of numbers: moments of x. Variables that differ: means on a scale from the lowest value to the
        highest and frequencies of labels; beyond the first order, moments of functions with mean 0 and variance 1.

        Parameters
        ----------
        moments : Moments
            What was observed.
        X : (n_samples, n) array
            Samples of the model, values or labels.
        random_state : int, Generator or None
            Chooses among moments where there are many.
        ax : matplotlib Axes, one for each order, or None
            Where to draw, or the place to divide; a new figure by default.
        **options : dict
            Of :meth:`plot`.
        """
        if not isinstance(moments, Moments):
            raise ValueError(f"moments is of type {type(moments).__name__}: give Moments, such as est.moments_.")
        codes = moments.space.encode(X)
        mixed = moments.space.is_finite and not moments.space.is_uniform
        seen = moments.standard if mixed else moments
        rng = generator(random_state)
        parts = []
        for k in range(1, min(max(moments.order, 2), 3) + 1):
            if k == 1 and mixed:
                observed, predicted, variance = _site_means(moments, codes)
            else:
                rows = _choose(seen.space, k, rng)
                if not len(rows):
                    continue
                observed = _observed(seen, rows)
                predicted, variance = _products(codes, seen, rows)
            spread = variance * (1.0 / moments.n_samples + 1.0 / len(codes))
            parts.append((observed, predicted, np.sqrt(np.maximum(spread, 0.0)), np.full(len(observed), k)))
        columns = (np.concatenate(column) for column in zip(*parts))
        return cls(*columns, titles=_MIXED_SYMBOLS if mixed else _SYMBOLS).plot(ax, **options)

    def plot(self, ax: Any = None) -> MomentsDisplay:
        """Draw a panel for each order: in a new figure, on as many axes, or in the place of one."""
        orders = list(self.discrepancy_)
        self.axes_ = _style.several_axes(ax, len(orders), (3.6 * len(orders), 3.7))
        for axes, k in zip(self.axes_, orders):
            self._panel(axes, k)
        self.figure_ = self.axes_[0].figure
        return self

    def _panel(self, ax: Any, k: int) -> None:
        which = self.orders == k
        fitted, observed, errors = self.fitted[which], self.observed[which], self.errors[which]
        style = _style.order_style(k)
        many = len(fitted) > 300
        ax.errorbar(
            fitted,
            observed,
            yerr=errors,
            fmt=style["marker"],
            color=style["color"],
            markersize=2.5 if many else 4,
            elinewidth=0.5,
            alpha=0.5 if many else 0.85,
            rasterized=many,
            zorder=2,
        )
        ends = np.array([min(fitted.min(), observed.min()), max(fitted.max(), observed.max())])
        ends += np.array([-1, 1]) * (0.06 * np.ptp(ends) or 0.1)
        ax.plot(ends, ends, color=_style.FAINT, linewidth=1, zorder=1)
        ax.set_xlim(ends)
        ax.set_ylim(ends)
        ax.set_aspect("equal")
        ax.locator_params(nbins=5)
        ax.set_xlabel("fitted")
        ax.set_ylabel("observed")
        title = self.titles.get(k, f"order {k}")
        ax.set_title(f"{title}\nrms difference {self.discrepancy_[k]:.2f} standard errors", fontsize=10)
        _style.clean(ax)


def _given_rows(estimator: Any, given: Any, n_samples: int, random_state: Any) -> Any:
    """Samples of the model given rows of the data, as many times each as the others."""
    if given is None:
        raise ValueError("some columns are given: give their values in the data, given=X[…].")
    table = np.asarray(given, dtype=object)
    rows = np.random.default_rng(random_state).permutation(len(table))
    Z = table[np.resize(rows, n_samples)]
    return sample(estimator.model_, n_samples, method="gibbs", random_state=random_state, given=Z, burn_in=GIVEN_SWEEPS)


def _choose(space: Space, k: int, rng: np.random.Generator) -> np.ndarray:
    """(p, k) sorted rows: all sets of k columns of different variables, not all given, or a random choice of them."""
    N = space.n_columns
    if k == 1:
        return np.flatnonzero(~space.given[space.site])[:, None]
    if N**k > 10**7:
        drawn = np.sort(rng.integers(N, size=(8 * MAX_POINTS, k)), axis=1)
        apart = (np.diff(space.site[drawn], axis=1) > 0).all(axis=1) & ~space.given[space.site[drawn]].all(axis=1)
        rows = np.unique(drawn[apart], axis=0)
    else:
        rows = all_terms(k, space).block(k)
    return rows if len(rows) <= MAX_POINTS else rows[np.sort(rng.choice(len(rows), MAX_POINTS, replace=False))]


def _observed(moments: Moments, rows: np.ndarray) -> np.ndarray:
    """⟨φ⟩ for single columns, ⟨Π (φ_c − m_c)⟩ for more, from raw moments."""
    m = moments.mean[rows]
    if rows.shape[1] == 1:
        return m[:, 0]
    raw = moments.raw(rows)
    if rows.shape[1] == 2:
        return raw - m.prod(axis=1)
    pairs = sum(m[:, i] * moments.raw(np.delete(rows, i, axis=1)) for i in range(3))
    return raw - pairs + 2.0 * m.prod(axis=1)


def _products(codes: np.ndarray, moments: Moments, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance, over samples, of φ_c for single columns and of Π (φ_c − m_c) for more."""
    total, squares = np.zeros(len(rows)), np.zeros(len(rows))
    m = moments.mean
    for start in range(0, len(codes), _BLOCK):  # blocks that stay in cache
        Y = np.ascontiguousarray((moments.space.columns(codes[start : start + _BLOCK]) - m).T)
        for r, row in enumerate(rows):
            product = Y[row[0]]
            for i in row[1:]:
                product = product * Y[i]
            total[r] += product.sum()
            squares[r] += product @ product
    mean = total / len(codes)
    variance = squares / len(codes) - mean**2
    return (mean + m[rows[:, 0]], variance) if rows.shape[1] == 1 else (mean, variance)


def _site_means(moments: Moments, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Observed, predicted and variance of (x − lowest)/(highest − lowest) for numbers, of indicators for labels."""
    parts = []
    for i, (alphabet, p) in enumerate(zip(moments.space.alphabets, moments.frequencies)):
        if moments.space.given[i]:
            continue
        low, high = alphabet.bounds
        f = np.eye(alphabet.size) if alphabet.is_nominal else ((alphabet.nodes - low) / (high - low))[:, None]
        predicted = np.bincount(codes[:, i].astype(np.uint8, copy=False), minlength=alphabet.size) / len(codes)
        mean = predicted @ f
        parts.append((p @ f, mean, predicted @ f**2 - mean**2))
    observed, fitted, variance = (np.concatenate(column) for column in zip(*parts))
    return observed, fitted, variance
