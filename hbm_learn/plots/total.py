"""TotalDisplay: what all variables do together, in the data and in the fitted model."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from hbm_learn import gaussian
from hbm_learn._validation import choose
from hbm_learn.assessment import counts, predictive
from hbm_learn.assessment.predictive import PredictiveCheck
from hbm_learn.data.incomplete import IncompleteRows
from hbm_learn.data.samples import Samples
from hbm_learn.data.tables import complete_rows
from hbm_learn.fitted import require_fitted
from hbm_learn.inversion.missing.imputation import Imputer
from hbm_learn.learning import MAX_SWEEP
from hbm_learn.plots import _style
from hbm_learn.sampling.chains import sweep_cost
from hbm_learn.states import StateTable

# Values of S that are drawn one by one, and intervals of them otherwise; what is less likely than this at either end is
# not drawn.
MAX_VALUES, MAX_BINS, TAIL = 40, 40, 1e-4
_LABELS = {
    "standard": r"sum of all variables $S = \sum u$",
    "count": r"how many variables are 1, $K = \sum x$",
}
_DATA, _MODEL = "#7d8792", "#D55E00"


class TotalDisplay:
    """The distribution of the sum of all variables, in data and model.

    S = Σ_c u_c, every column in units of its standard deviation about its mean; of 0/1 variables the population count
    K = Σ_i x_i, how many are 1.

    Interactions are about a few variables at a time; the sum is about all of them. A model that fits every pair and
    lacks what all variables have in common shows in its tails, so that the same is drawn once more on a logarithmic
    scale.

    Parameters
    ----------
    edges : (b + 1,) array
        Of the intervals of S.
    data, model : (b,) arrays
        Shares of rows and of the model in each.
    n_data, n_model : float
        Rows, and independent draws of the model that its shares are from; infinitely many where they are exact.
    values : {"standard", "count"}
        Whether the intervals are of S or of K.

    Attributes
    ----------
    errors : (b,) array
        Standard errors of the differences if the model is true, √(p (1 − p) (1/n_data + 1/n_model)).
    axes_, figure_ : matplotlib objects
        After ``plot``.
    """

    def __init__(
        self, edges: Any, data: Any, model: Any, n_data: float, n_model: float = np.inf, values: str = "standard"
    ):
        self.label = choose("values", values, _LABELS)
        self.edges, self.data, self.model = (np.asarray(each, dtype=np.float64) for each in (edges, data, model))
        if not len(self.edges) - 1 == len(self.data) == len(self.model):
            raise ValueError(
                f"edges, data and model have {len(self.edges)}, {len(self.data)} and {len(self.model)} entries: "
                "give b + 1 edges and b shares of each."
            )
        self.n_data, self.n_model = float(n_data), float(n_model)
        p = np.clip(self.model, 0.0, 1.0)
        self.errors = np.sqrt(p * (1.0 - p) * (1.0 / self.n_data + 1.0 / self.n_model))

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        sample_weight: Any = None,
        values: str = "auto",
        ax: Any = None,
        **options: Any,
    ) -> TotalDisplay:
        """Compare the rows that an HBM was fitted to with its model.

        Exactly while the states of the model can be listed (up to 2**14) and on the real line; by Gibbs chains beyond.
        ValueError where neither can be done.

        Parameters
        ----------
        estimator : HBM
            Fitted.
        X : table
            What it was fitted to; rows with missing cells are left out.
        sample_weight : (M,) array or None
            As in the fit.
        values : {"auto", "standard", "count"}
            S, or K of 0/1 variables; "auto": K if all are.
        ax : matplotlib Axes, two of them, or None
            Where to draw, or the place to divide; a new figure by default.
        **options : dict
            Of :meth:`plot`.
        """
        require_fitted(estimator, X)
        values = _which(values, counts.are_events(estimator.model_.space))
        model, space = estimator.model_, estimator.model_.space
        samples = Samples.check(X, sample_weight=sample_weight, space=space, allow_nan=True).complete()
        if samples.allow_nan and space.is_finite:  # missing cells as the model has them given the others
            samples = Imputer(IncompleteRows.of(samples), 1, estimator.random_state).draw(model).samples
        elif samples.allow_nan:
            rows = complete_rows(X, sample_weight)
            samples = Samples.check(rows.X, sample_weight=rows.sample_weight, space=space)
        if space.is_real:
            found = cls(*_on_the_real_line(model, samples))
        elif not space.is_finite:
            raise ValueError("the sum of all variables is not drawn of variables on an interval.")
        elif space.enumerable(predictive.MAX_LISTED):
            found = cls(*_of_all_states(model, samples, values == "count"), values=values)
        elif sweep_cost(model) > MAX_SWEEP:
            raise ValueError("the model is too large to be sampled for the sum of all variables: lower the order.")
        else:
            check = predictive.check(model, samples, estimator.random_state, n_jobs=estimator.n_jobs)
            return cls.from_check(check, values=values, ax=ax, **options)
        return found.plot(ax, **options)

    @classmethod
    def from_check(
        cls, check: PredictiveCheck, *, values: str = "auto", ax: Any = None, **options: Any
    ) -> TotalDisplay:
        """Draw what a check by samples has found.

        Parameters
        ----------
        check : PredictiveCheck
        values : {"auto", "standard", "count"}
            S, or K of 0/1 variables; "auto": K if all are.
        ax : matplotlib Axes, two of them, or None
            Where to draw, or the place to divide; a new figure by default.
        **options : dict
            Of :meth:`plot`.
        """
        if not isinstance(check, PredictiveCheck):
            raise ValueError(f"check is of type {type(check).__name__}: give a PredictiveCheck, or use from_estimator.")
        values, shares = _which(values, check.counts is not None), check.counts
        if values == "standard" or shares is None:
            shares = check.edges, check.data_histogram, check.model_histogram
        found = cls(*shares, check.n_data, check.ess, values)
        return found.plot(ax, **options)

    def plot(self, ax: Any = None) -> TotalDisplay:
        """Draw both distributions, and both once more on a logarithmic scale.

        Parameters
        ----------
        ax : matplotlib Axes, two of them, or None
            Where to draw, or the place to divide; a new figure by default.
        """
        self.axes_ = _style.several_axes(ax, 2, (8.4, 3.4))
        for axes, logarithmic in zip(self.axes_, (False, True)):
            self._panel(axes, logarithmic)
        self.axes_[0].set_ylim(0.0, 1.25 * max(self.data.max(), (self.model + 2 * self.errors).max()))
        self.axes_[0].legend(frameon=False, fontsize=8.5, loc="upper center", ncols=3, columnspacing=1.2)
        self.figure_ = self.axes_[0].figure
        return self

    def _panel(self, ax: Any, logarithmic: bool) -> None:
        least = 0.3 / self.n_data
        centre = 0.5 * (self.edges[1:] + self.edges[:-1])
        ax.stairs(self.data, self.edges, fill=True, color=_DATA, alpha=0.45, baseline=least if logarithmic else 0.0)
        ax.stairs(self.data, self.edges, color=_DATA, linewidth=0.8, label="data", baseline=None)
        ax.stairs(self.model, self.edges, color=_MODEL, linewidth=1.6, label="model", baseline=None)
        low = np.maximum(self.model - 2 * self.errors, least if logarithmic else 0.0)
        high = np.maximum(self.model + 2 * self.errors, low)
        ax.vlines(centre, low, high, color=_MODEL, linewidth=0.7, alpha=0.8, label="± 2 standard errors")
        if logarithmic:
            ax.set_yscale("log")
            ax.set_ylim(least, 2.0 * max(self.data.max(), self.model.max()))
        ax.set_xlabel(self.label)
        ax.set_ylabel("share of rows")
        ax.set_title("the same, logarithmic" if logarithmic else "all variables together", fontsize=10)
        _style.clean(ax)


def _which(values: str, counted: bool) -> str:
    """What is to be drawn; ValueError for counts of what cannot be counted."""
    choose("values", values, {"auto": "", **_LABELS})
    if values == "count" and not counted:
        raise ValueError('values="count" takes variables that are all 0/1: use values="standard".')
    return values if values != "auto" else "count" if counted else "standard"


def _of_all_states(model: Any, samples: Samples, counted: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Edges and shares by the probability of every state."""
    codes, w = _rows(samples)
    table = StateTable(model)
    if counted:
        K, every = codes.sum(axis=1, dtype=np.int64), np.arange(model.n_features + 1)
        p = _shares(table.codes(np.arange(len(table.p))).sum(axis=1, dtype=np.int64), table.p, counts.edges(every))
        edges = counts.edges(K, np.flatnonzero(p > TAIL))
        low, high = int(edges[0] + 0.5), int(edges[-1] + 0.5)
        return edges, _shares(K, w, edges), p[low:high], float(w.sum())
    frequencies = [np.bincount(x, weights=w, minlength=q) / w.sum() for x, q in zip(codes.T, model.space.sizes)]
    standard = model.space.standard(frequencies)
    S = standard.columns(codes).sum(axis=1)
    states = standard.columns(table.codes(np.arange(len(table.p)))).sum(axis=1)
    order = np.argsort(states)
    reached = np.cumsum(table.p[order])
    likely = states[order][(reached > TAIL) & (reached < 1.0 - TAIL)]
    edges = _edges(np.concatenate([S, likely]), float(w.sum()))
    return edges, _shares(S, w, edges), _shares(states, table.p, edges), float(w.sum())


def _on_the_real_line(model: Any, samples: Samples) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Edges and shares of a Gaussian."""
    x, w = _rows(samples)
    m = np.average(x, axis=0, weights=w)
    s = np.sqrt(np.average((x - m) ** 2, axis=0, weights=w))
    S, exact = ((x - m) / s).sum(axis=1), gaussian.moments(model)
    centre, spread = float(np.sum((exact.m - m) / s)), float(np.sqrt((1.0 / s) @ exact.chi @ (1.0 / s)))
    ends = stats.norm.ppf([TAIL, 1.0 - TAIL], centre, spread)
    edges = _edges(np.concatenate([S, ends]), float(w.sum()))
    return edges, _shares(S, w, edges), np.diff(stats.norm.cdf(edges, centre, spread)), float(w.sum())


def _rows(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    codes = np.concatenate([block for block, _ in samples.blocks()])
    return codes, np.ones(len(codes)) if samples.weights is None else np.asarray(samples.weights, dtype=float)


def _edges(S: np.ndarray, n_data: float) -> np.ndarray:
    """Between the values of S where these are few, else equal intervals, more of them for more rows."""
    values = np.unique(np.round(S, 9))
    if 2 <= len(values) <= MAX_VALUES:
        middle = 0.5 * (values[1:] + values[:-1])
        return np.concatenate([[2 * values[0] - middle[0]], middle, [2 * values[-1] - middle[-1]]])
    low, high = float(S.min()), float(S.max())
    return np.linspace(low, high if high > low else low + 1.0, int(np.clip(2 * np.cbrt(n_data), 8, MAX_BINS)) + 1)


def _shares(S: np.ndarray, w: np.ndarray, edges: np.ndarray) -> np.ndarray:
    return np.histogram(S, edges, weights=w)[0] / w.sum()
