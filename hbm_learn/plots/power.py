"""PowerDisplay: how many rows a study needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hbm_learn.assessment.planning import Plan
from hbm_learn.names import interaction_name
from hbm_learn.plots import _style
from hbm_learn.terms import Terms

# Points of a curve; rows beyond those that all interactions need, as a factor.
_POINTS, _BEYOND = 120, 3.0


class PowerDisplay:
    """Power against the number of rows, a line for each interaction, and the rows that each needs.

    Parameters
    ----------
    terms : Terms
        The p interactions.
    grid : (g,) array
        Numbers of rows, ascending.
    powers : (p, g) array
        Power of each test with so many rows.
    n_rows : (p,) array
        Rows that each needs for ``power``; infinite where none are enough.
    power : float
        What was asked for.
    feature_names : sequence of str or None
        Names of the variables.

    Attributes
    ----------
    shown_ : array
        The interactions that are named, those that need fewest rows first.
    axes_, figure_ : matplotlib objects
        After ``plot``.
    """

    def __init__(
        self,
        terms: Terms,
        grid: Any,
        powers: Any,
        n_rows: Any,
        *,
        power: float = 0.8,
        feature_names: Sequence[str] | None = None,
    ):
        self.terms, self.power = terms, power
        self.grid, self.powers, self.n_rows = (np.asarray(each, dtype=np.float64) for each in (grid, powers, n_rows))
        if self.powers.shape != (len(terms), len(self.grid)) or self.n_rows.shape != (len(terms),):
            raise ValueError(
                f"powers has shape {self.powers.shape} and n_rows {self.n_rows.shape}: give ({len(terms)}, "
                f"{len(self.grid)}), a row for each interaction, and ({len(terms)},)."
            )
        self.feature_names = _style.names_or_numbers(feature_names, terms.space.n_features)

    @classmethod
    def from_plan(cls, plan: Plan, *, ax: Any = None, **options: Any) -> PowerDisplay:
        """Draw what ``assessment.plan`` has found.

        Parameters
        ----------
        plan : Plan
        ax : matplotlib Axes, two of them, or None
            Where to draw, or the place to divide; a new figure by default.
        **options : dict
            Of :meth:`plot`.
        """
        if not isinstance(plan, Plan):
            raise ValueError(f"plan is of type {type(plan).__name__}: give what assessment.plan(model) returns.")
        known = plan.n_rows[np.isfinite(plan.n_rows)]
        low, high = (known.min(), known.max()) if len(known) else (plan.grid.min(), plan.grid.max())
        grid = np.geomspace(max(low / _BEYOND, 10.0), max(high * _BEYOND, 100.0), _POINTS)
        names = plan.feature_names
        found = cls(plan.terms, grid, plan.power_at(grid), plan.n_rows, power=plan.power, feature_names=names)
        return found.plot(ax, **options)

    def plot(self, ax: Any = None, *, n_labels: int = 20) -> PowerDisplay:
        """Draw the lines, and the rows that interactions need.

        Parameters
        ----------
        ax : matplotlib Axes, two of them, or None
            Where to draw, or the place to divide; a new figure by default.
        n_labels : int
            How many interactions are named, evenly among all where there are more.
        """
        order = np.argsort(self.n_rows, kind="stable")
        order = order[np.isfinite(self.n_rows[order])]
        self.shown_ = order[np.unique(np.linspace(0, len(order) - 1, min(n_labels, len(order))).astype(int))]
        self.axes_ = _style.several_axes(ax, 2, (9.4, max(3.4, 1.2 + 0.2 * len(self.shown_))))
        self._curves(self.axes_[0])
        self._needed(self.axes_[1])
        self.figure_ = self.axes_[0].figure
        return self

    def _curves(self, ax: Any) -> None:
        alpha = float(np.clip(12.0 / max(len(self.terms), 1), 0.15, 0.85))
        dashes = {2: "-", 3: (0, (4, 1.5))}
        for k in self.terms.keys.orders:
            where = self.terms.keys.slice(k)
            style = {"color": _style.order_style(k)["color"], "linestyle": dashes.get(k, (0, (1, 1)))}
            lines = ax.plot(self.grid, self.powers[where].T, linewidth=1.1, alpha=alpha, **style)
            lines[0].set_label(f"{_style.order_name(k)}: {len(lines):,}")
        ax.axhline(self.power, color=_style.FAINT, linewidth=0.9, zorder=0)
        ax.annotate(
            f"power {self.power:g}", (1.0, self.power), xycoords=("axes fraction", "data"), xytext=(-2, 3),
            textcoords="offset points", ha="right", fontsize=8, color=_style.FAINT,
        )  # fmt: skip
        _rows_scale(ax)
        ax.set_ylim(0.0, 1.02)
        ax.set_xlabel("rows")
        ax.set_ylabel("power")
        ax.set_title("Power of each test", fontsize=10)
        legend = ax.legend(frameon=True, framealpha=0.85, edgecolor="none", fontsize=8.5, loc="lower right")
        for line in legend.get_lines():
            line.set_alpha(1.0)
        _style.clean(ax)

    def _needed(self, ax: Any) -> None:
        for k in self.terms.keys.orders:
            mine = np.flatnonzero(self.terms.order[self.shown_] == k)
            style = _style.order_style(k)
            ax.scatter(self.n_rows[self.shown_[mine]], mine, s=24, zorder=3, **style)
        _rows_scale(ax)
        names = [interaction_name(self.terms.members(r), self.feature_names, "·") for r in self.shown_]
        ax.set_yticks(np.arange(len(names)), names, fontsize=7.5, parse_math=False)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.grid(axis="y", color="#e6e6e6", linewidth=0.7, zorder=0)
        ax.tick_params(axis="y", length=0)
        n, never = len(self.terms), int(np.isinf(self.n_rows).sum())
        some = "" if len(names) == n - never else f", {len(names):,} of {n - never:,}"
        ax.set_title(f"Rows for power {self.power:g}{some}", fontsize=10)
        ax.set_xlabel("rows needed" + (f" (more than 10⁹ for {never:,})" if never else ""))
        ax.set_ylabel("interaction")
        _style.clean(ax)


def _rows_scale(ax: Any) -> None:
    """Logarithmic, with ticks at 1, 2 and 5 times powers of ten, written as numbers."""
    from matplotlib.ticker import LogLocator, NullLocator

    ax.set_xscale("log")
    low, high = ax.get_xlim()
    subs = (1.0, 2.0, 5.0) if high < 100 * low else (1.0, 3.0) if high < 3000 * low else (1.0,)
    ax.xaxis.set_major_locator(LogLocator(subs=subs))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}" if x < 1e6 else f"{x:.0e}")
