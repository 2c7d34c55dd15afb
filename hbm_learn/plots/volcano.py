"""VolcanoDisplay: how strong each interaction is against how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from hbm_learn.assessment.uncertainty import Tests, screen
from hbm_learn.interactions import Interactions
from hbm_learn.plots import _style


class VolcanoDisplay:
    """Weights J_μ against −log₁₀ p of the tests that J_μ = 0, with the line of the false-discovery rate.

    Filled markers pass Benjamini–Hochberg at ``level`` within their order; open ones do not.

    Parameters
    ----------
    interactions : Interactions tested.
    weights, z : (p,) J_μ and their z-scores.
    q_values : (p,) within each order.
    level : false-discovery rate.
    feature_names : names of the variables, or None.

    Attributes
    ----------
    minus_log_p : (p,) −log₁₀ p.
    thresholds_ : {order: −log₁₀ of the largest p that would pass}, level · (passing / tested); an order where nothing
        passes has none.
    ax_, figure_ : matplotlib objects, after ``plot``.
    """

    def __init__(
        self,
        interactions: Interactions,
        weights: np.ndarray,
        z: np.ndarray,
        q_values: np.ndarray,
        *,
        level: float = 0.05,
        feature_names: Sequence[str] | None = None,
    ):
        self.interactions, self.level = interactions, level
        self.weights, self.z, self.q_values = (np.asarray(x, dtype=np.float64) for x in (weights, z, q_values))
        # From the logarithm of the tail: p itself underflows at |z| = 38.
        self.minus_log_p = -(stats.norm.logsf(np.abs(self.z)) + np.log(2.0)) / np.log(10.0)
        self.feature_names = _style.names_or_numbers(feature_names, interactions.n_features, 9)
        self.thresholds_ = {}
        for k in interactions.orders:
            where = interactions.slice(k)
            n_passing, n_tested = int((self.q_values[where] <= level).sum()), where.stop - where.start
            if n_passing:
                self.thresholds_[k] = float(-np.log10(level * n_passing / n_tested))

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, level: float | None = None, ax: Any = None, **options: Any
    ) -> VolcanoDisplay:
        """Draw the tests of a fitted HBM. With ``fdr``, what was left out of the model is drawn by its screening.

        ``level`` is by default the estimator's ``fdr``, or 0.05. ``options`` go to ``plot``.
        """
        tests, interactions = estimator._tests, estimator.model_.packed
        weights, z, q = estimator.weights_, tests.z, tests.q_values
        if estimator.fdr is not None:
            interactions = estimator._interactions(estimator.moments_)
            screening = screen(estimator.moments_, interactions)
            kept = interactions.positions(estimator.model_.packed)
            weights, z, q = (
                _overwritten(outside, kept, inside)
                for outside, inside in (
                    (screening.model.weights, weights),
                    (Tests.of(screening).z, z),
                    (np.ones(len(interactions)), q),
                )
            )
        level = level or estimator.fdr or 0.05
        names = _style.names_of(estimator)
        display = cls(interactions, weights, z, q, level=level, feature_names=names)
        return display.plot(ax, **options)

    def plot(self, ax: Any = None, *, n_labels: int = 8) -> VolcanoDisplay:
        """Draw on ``ax``, with the names of the ``n_labels`` strongest."""
        ax = _style.one_axes(ax, (6.4, 4.8))
        for k in self.interactions.orders:
            self._draw_order(ax, k)
        ax.axvline(0.0, color=_style.FAINT, linewidth=0.8, zorder=0)
        self._scale(ax)
        self._draw_labels(ax, n_labels)
        ax.set_xlabel(r"coupling $J_\mu$ (nats)")
        ax.set_ylabel(r"evidence $-\log_{10} p$")
        ax.set_title(f"Interactions that pass at false-discovery rate {self.level:g}")
        if self.interactions.orders:
            ax.legend(frameon=False, fontsize=8.5, loc="upper center")
        _style.clean(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _scale(self, ax: Any) -> None:
        """A square-root scale, in which a normal z-score is a straight line, so that weak and strong are both seen."""
        top = max([*self.minus_log_p, *self.thresholds_.values(), 1.0])
        ax.set_yscale("function", functions=(lambda y: np.sqrt(np.maximum(y, 0.0)), np.square))
        ax.set_ylim(0.0, 1.12 * top)
        ticks = [t for t in (0, 1, 3, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000) if t <= 1.12 * top]
        ax.set_yticks(ticks, [f"{t:,}" for t in ticks])
        widest = float(np.abs(self.weights).max(initial=0.0)) or 1.0
        longest = max(len(name) for name in self.feature_names)
        room = 1.15 + 0.05 * longest  # for names beside the markers
        ax.set_xlim(-room * widest, room * widest)

    def _draw_order(self, ax: Any, k: int) -> None:
        where = self.interactions.slice(k)
        x, y, passing = self.weights[where], self.minus_log_p[where], self.q_values[where] <= self.level
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

    def _draw_labels(self, ax: Any, n_labels: int) -> None:
        """Names beside the strongest on either side, moved down where they would cover each other."""
        tuples = self.interactions.tuples
        best = np.argsort(-self.minus_log_p, kind="stable")[:n_labels]
        best = best[self.q_values[best] <= self.level]
        for side in (-1, 1):
            lowest = np.inf
            for r in best[np.sign(self.weights[best]) == side]:
                spot = ax.transData.transform((self.weights[r], self.minus_log_p[r]))
                height = min(spot[1], lowest - 10 * ax.figure.dpi / 72)
                lowest = height
                ax.annotate(
                    "·".join(self.feature_names[i] for i in tuples[r]),
                    (self.weights[r], self.minus_log_p[r]),
                    xytext=(6 * side, (height - spot[1]) * 72 / ax.figure.dpi),
                    textcoords="offset points",
                    ha="left" if side > 0 else "right",
                    va="center",
                    fontsize=7.5,
                    color=_style.INK,
                ).set_in_layout(False)


def _overwritten(values: np.ndarray, positions: np.ndarray, by: np.ndarray) -> np.ndarray:
    """A copy of ``values`` with ``by`` at ``positions``; −1 is nowhere (a subset that was kept but not considered)."""
    out = values.copy()
    out[positions[positions >= 0]] = by[positions >= 0]
    return out
