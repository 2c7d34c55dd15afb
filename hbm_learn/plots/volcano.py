"""VolcanoDisplay: how strong each interaction is against how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import gammaln

from hbm_learn._validation import choose
from hbm_learn.assessment.selection import closed_form
from hbm_learn.assessment.tests import Tests
from hbm_learn.fitted import require_fitted
from hbm_learn.interactions import Interactions
from hbm_learn.names import given_names, interaction_name
from hbm_learn.plots import _style
from hbm_learn.space import Space
from hbm_learn.terms import Terms

_AXES = {"effect": r"effect $\tilde{J}_\mu$", "weight": r"weight $J_\mu$ (nats)"}
# Below this a p-value has lost digits to underflow, and its logarithm is taken from z or the statistic.
_SMALLEST = 1e-290
# Longer names stand in a key, in lines of so many letters, and numbers beside the markers.
_BESIDE, _KEY = 28, 44


class VolcanoDisplay:
    """Effects or weights against −log₁₀ p of the tests that they are zero, with the line of the false-discovery rate.

    Filled markers pass Benjamini–Hochberg at ``level`` within their order; open ones do not. Tables of labels stand at
    their size, which is positive.

    Parameters
    ----------
    interactions : Terms or Interactions
        What was tested.
    values, z : (p,) arrays
        Effects or weights, and the normal deviates of their tests.
    q_values : (p,) array
        Within each order.
    minus_log_p : (p,) array or None
        −log₁₀ p; that of z by default.
    level : float
        False-discovery rate.
    x : {"effect", "weight"}
        What the values are.
    feature_names : sequence of str or None
        Names of the variables.

    Attributes
    ----------
    terms : Terms
    minus_log_p : (p,) array
    thresholds_ : dict
        {order: −log₁₀ of the largest p that would pass}, level · (passing / tested); an order where nothing passes has
        none.
    ax_, figure_ : matplotlib objects
        After ``plot``.
    """

    def __init__(
        self,
        interactions: Terms | Interactions,
        values: Any,
        z: Any,
        q_values: Any,
        *,
        minus_log_p: Any = None,
        level: float = 0.05,
        x: str = "effect",
        feature_names: Sequence[str] | None = None,
    ):
        if isinstance(interactions, Interactions):
            interactions = Terms(Space.of((0, 1), interactions.n_features), interactions)
        self.terms, self.level, self.label = interactions, level, choose("x", x, _AXES)
        self.values, self.z, self.q_values = (np.asarray(each, dtype=np.float64) for each in (values, z, q_values))
        if minus_log_p is None:
            minus_log_p = -log_tail(self.z**2, np.ones(len(self.z), dtype=int)) / np.log(10.0)
        self.minus_log_p = np.asarray(minus_log_p, dtype=np.float64)
        self.feature_names = _style.names_or_numbers(feature_names, self.terms.space.n_features)
        self.thresholds_ = {}
        for k in self.terms.keys.orders:
            where = self.terms.keys.slice(k)
            n_passing, n_tested = int((self.q_values[where] <= level).sum()), where.stop - where.start
            if n_passing:
                self.thresholds_[k] = float(-np.log10(level * n_passing / n_tested))

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, x: str = "effect", level: float | None = None, ax: Any = None, **options: Any
    ) -> VolcanoDisplay:
        """Draw the tests of a fitted HBM: with ``fdr``, of all that was considered.

        What was left out of the model has its tests, ``tests_.everything``, and the effect that the closed form gives.

        Parameters
        ----------
        estimator : fitted HBM
        x : {"effect", "weight"}
            With every variable in units of its standard deviation about its mean, or in the user's coding.
        level : float or None
            By default the estimator's ``fdr``, or 0.05.
        ax : matplotlib Axes or None
        **options : dict
            Of :meth:`plot`.
        """
        require_fitted(estimator)
        choose("x", x, _AXES)
        result, tests = estimator.result_, estimator.tests_
        terms, mine = result.terms, _columns(result, tests, x)
        if estimator.fdr is not None:
            terms = tests.considered
            first = closed_form(estimator.moments_, terms.columns, estimator.site)
            everything = _columns(first, tests.everything, x)
            kept = terms.keys.positions(result.terms.keys)
            mine = [_overwritten(outside, kept, inside) for outside, inside in zip(everything, mine)]
        values, z, q, minus_log_p = mine
        names = given_names(estimator)
        level = level or estimator.fdr or 0.05
        display = cls(terms, values, z, q, minus_log_p=minus_log_p, level=level, x=x, feature_names=names)
        return display.plot(ax, **options)

    def plot(self, ax: Any = None, *, n_labels: int = 8) -> VolcanoDisplay:
        """Draw every interaction that was tested.

        Parameters
        ----------
        ax : matplotlib Axes or None
            Where to draw; a new figure by default.
        n_labels : int
            How many of the surest get their names.
        """
        best = np.argsort(-self.minus_log_p, kind="stable")[:n_labels]
        names = {int(r): self._label(r) for r in best if self.q_values[r] <= self.level}
        long = any(len(name) > _BESIDE for name in names.values())
        labels = {r: str(number) for number, r in enumerate(names, start=1)} if long else names
        ax = _style.one_axes(ax, (8.6 if long else 6.4, 4.8))
        for k in self.terms.keys.orders:
            self._draw_order(ax, k)
        ax.axvline(0.0, color=_style.FAINT, linewidth=0.8, zorder=0)
        if long:
            self._draw_key(ax, list(names.values()))
        self._scale(ax, labels)
        self._draw_labels(ax, labels)
        ax.set_xlabel(self.label)
        ax.set_ylabel(r"evidence $-\log_{10} p$")
        ax.set_title(f"Interactions that pass at false-discovery rate {self.level:g}")
        if self.terms.keys.orders:
            low, high = -self.values.min(initial=0.0), self.values.max(initial=0.0)  # the legend stands where few do
            loc = "upper left" if low < 0.3 * high else "upper right" if high < 0.3 * low else "upper center"
            ax.legend(frameon=True, framealpha=0.85, edgecolor="none", fontsize=8.5, loc=loc)
        _style.clean(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_key(self, ax: Any, names: list[str]) -> None:
        """Beside the picture, what the numbers in it stand for."""
        rows = [_style.wrapped(name.replace("·", " · "), _KEY).split("\n") for name in names]
        lines = [f"{number}  " + "\n    ".join(row) for number, row in enumerate(rows, start=1)]
        style = {"fontsize": 7.5, "color": _style.INK, "parse_math": False, "linespacing": 1.25}
        ax.text(1.02, 1.0, "\n".join(lines), transform=ax.transAxes, ha="left", va="top", **style)

    def _label(self, r: int) -> str:
        return interaction_name(self.terms.members(r), self.feature_names, "·")

    def _scale(self, ax: Any, labels: dict[int, str]) -> None:
        """A square-root scale, in which a normal z-score is a straight line, so that weak and strong are both seen."""
        top = max([*self.minus_log_p, *self.thresholds_.values(), 1.0])
        ax.set_yscale("function", functions=(lambda y: np.sqrt(np.maximum(y, 0.0)), np.square))
        ax.set_ylim(0.0, 1.12 * top)
        ticks = [t for t in (0, 1, 3, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000) if t <= 1.12 * top]
        ax.set_yticks(ticks, [f"{t:,}" for t in ticks])
        low, high = float(self.values.min(initial=0.0)), float(self.values.max(initial=0.0))
        if low == high:
            low, high = -1.0, 1.0
        # Room for names beside the markers, as shares of the width.
        room = [max([0.04, *(0.03 + 0.011 * len(labels[r]) for r in labels if self._side(r) == s)]) for s in (-1, 1)]
        left, right = (min(share, 0.35) for share in room)
        width = (high - low) / (1.0 - left - right)
        ax.set_xlim(low - left * width, high + right * width)

    def _side(self, r: int) -> int:
        return -1 if self.values[r] < 0 else 1

    def _draw_order(self, ax: Any, k: int) -> None:
        where = self.terms.keys.slice(k)
        x, y, passing = self.values[where], self.minus_log_p[where], self.q_values[where] <= self.level
        style = _style.order_style(k)
        marker, colour = style["marker"], style["color"]
        many = len(x) > 500
        label = f"{_style.order_name(k)}: {int(passing.sum()):,} of {len(x):,} pass"
        ax.scatter(x[passing], y[passing], s=26, marker=marker, color=colour, label=label, zorder=3)
        if not passing.all():
            open_style = {"s": 12, "marker": marker, "facecolors": "none", "edgecolors": colour, "linewidths": 0.6}
            ax.scatter(x[~passing], y[~passing], alpha=0.5, rasterized=many, zorder=2, **open_style)
        if k in self.thresholds_:
            dashes = {2: (0, (5, 3)), 3: (0, (1, 1.5))}.get(k, "-.")
            name = f"line of the {_style.order_name(k)}"
            ax.axhline(self.thresholds_[k], color=colour, linestyle=dashes, linewidth=1.2, zorder=1, label=name)

    def _draw_labels(self, ax: Any, labels: dict[int, str]) -> None:
        """Names beside the strongest on either side, moved down where they would cover each other."""
        lowest = {-1: np.inf, 1: np.inf}
        for r, label in labels.items():
            side, point = self._side(r), (self.values[r], self.minus_log_p[r])
            spot = ax.transData.transform(point)
            lowest[side] = min(spot[1], lowest[side] - 10 * ax.figure.dpi / 72)
            ax.annotate(
                label,
                point,
                xytext=(6 * side, (lowest[side] - spot[1]) * 72 / ax.figure.dpi),
                textcoords="offset points",
                ha="left" if side > 0 else "right",
                va="center",
                fontsize=7.5,
                color=_style.INK,
                parse_math=False,
            ).set_in_layout(False)


def log_tail(statistic: np.ndarray, df: np.ndarray) -> np.ndarray:
    """ln P(χ²_df ≥ s), also where the tail itself underflows; df whole numbers.

    Q(a + 1, y) = Q(a, y) + yᵃ e⁻ʸ/Γ(a + 1) with a = df/2, y = s/2, from Q(½, y) = erfc √y or Q(1, y) = e⁻ʸ.
    """
    y, df = 0.5 * np.asarray(statistic, dtype=np.float64), np.asarray(df)
    odd = df % 2 == 1
    out = np.where(odd, stats.norm.logsf(np.sqrt(2.0 * y)) + np.log(2.0), -y)
    a = np.where(odd, 0.5, 1.0)
    with np.errstate(divide="ignore"):
        log_y = np.log(y)
    while (a < 0.5 * df).any():
        step = np.logaddexp(out, a * log_y - y - gammaln(a + 1.0))
        out, a = np.where(a < 0.5 * df, step, out), a + 1.0
    return np.minimum(out, 0.0)


def _columns(result: Any, tests: Tests, x: str) -> list[np.ndarray]:
    """Values, z, q and −log₁₀ p of the terms of a result."""
    values = result.effects if x == "effect" else result.model.weights
    # The z of a single score test has its p-value, however small; that of a block ends where p underflows.
    score = tests.method == "score"
    tail = log_tail(tests.z**2 if score else result.statistic, np.ones_like(result.df) if score else result.df)
    with np.errstate(divide="ignore"):
        logs = np.where(tests.p_values > _SMALLEST, np.log(tests.p_values), tail)
    return [values, tests.z, tests.q_values, -logs / np.log(10.0)]


def _overwritten(values: np.ndarray, positions: np.ndarray, by: np.ndarray) -> np.ndarray:
    """A copy of ``values`` with ``by`` at ``positions``; −1 is nowhere (a subset that was kept but not considered)."""
    out = values.copy()
    out[positions[positions >= 0]] = by[positions >= 0]
    return out
