"""LaggedDisplay: couplings from the past to the present as a directed graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hbm_learn.fitted import require_fitted
from hbm_learn.lagged import past_columns
from hbm_learn.names import given_names
from hbm_learn.plots import _style

# Letters on a line of a node's name.
_LINE = 12
# Nodes without an arrow are left out if there are more variables than this.
MAX_ALONE = 16


class LaggedDisplay:
    """Arrows from a variable's past to another's present, one panel a lag; a node's frame is its coupling to itself.

    Red and solid for positive effects, blue and dashed for negative ones, grey for tables of labels; thicker for
    larger ones.

    Parameters
    ----------
    effects : (lags, n, n) array
        Of variable j at t − lag on variable i at t, at [lag − 1, i, j]; 0 where there is none.
    feature_names : sequence of str or None
        Names of the n variables.
    unsigned : (lags, n, n) array of bool or None
        Effects that are sizes of tables of labels.
    top : int
        Draw this many arrows and frames at most, by size.

    Attributes
    ----------
    arrows_ : list of tuples
        (from, to, lag, effect) of those drawn, couplings of a variable to itself among them, strongest first.
    axes_, figure_ : matplotlib objects
        After ``plot``.
    """

    def __init__(
        self,
        effects: Any,
        *,
        feature_names: Sequence[str] | None = None,
        unsigned: Any = None,
        top: int = 60,
    ):
        self.effects = np.asarray(effects, dtype=float)
        if self.effects.ndim != 3 or self.effects.shape[1] != self.effects.shape[2]:
            raise ValueError(f"effects has shape {self.effects.shape}; expected (lags, n, n).")
        self.unsigned = np.zeros(self.effects.shape, dtype=bool) if unsigned is None else np.asarray(unsigned, bool)
        if self.unsigned.shape != self.effects.shape:
            raise ValueError(f"unsigned has shape {self.unsigned.shape}; expected {self.effects.shape}, as effects.")
        self.feature_names = _style.names_or_numbers(feature_names, self.effects.shape[1], 20)
        strongest = np.argsort(-np.abs(self.effects), axis=None, kind="stable")[:top]
        places = zip(*np.unravel_index(strongest, self.effects.shape))
        found = [(int(j), int(i), int(lag) + 1, float(self.effects[lag, i, j])) for lag, i, j in places]
        self.arrows_ = [arrow for arrow in found if arrow[3]]

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, max_q: float | None = 0.05, top: int = 60, ax: Any = None, **options: Any
    ) -> LaggedDisplay:
        """Draw the lagged couplings of a fitted HBM.

        Parameters
        ----------
        estimator : HBM
            Fitted to ``datasets.lagged(X).data`` with its ``given``.
        max_q : float or None
            Only those with a q-value of at most this; None: all.
        top : int
            Draw this many arrows at most.
        ax : matplotlib Axes, one for each lag, or None
            Where to draw; a new figure by default.
        **options : dict
            Of :meth:`plot`.

        Returns
        -------
        LaggedDisplay
            Drawn.
        """
        require_fitted(estimator)
        names, space = given_names(estimator), estimator.model_.space
        past = past_columns(names, space.given)
        if past is None:
            raise ValueError(
                "the estimator was not fitted to lagged columns: make the table with datasets.lagged(X), and fit its "
                "`data` with its `given`."
            )
        n = int((~space.given).sum())
        effects = np.zeros((len(past) // n - 1, n, n))
        unsigned = np.zeros(effects.shape, dtype=bool)
        terms, q = estimator.result_.terms, estimator.tests_.q_values
        for r in np.flatnonzero(terms.order == 2).tolist():
            (i, now), (j, lag) = sorted((past[c] for c in set(terms.members(r))), key=lambda each: each[1])
            size = estimator.effects_[r]
            if lag and not now and (max_q is None or q[r] <= max_q) and abs(size) > abs(effects[lag - 1, i, j]):
                effects[lag - 1, i, j], unsigned[lag - 1, i, j] = size, terms.df[r] > 1
        shown = None if names is None else names[:n]
        return cls(effects, feature_names=shown, unsigned=unsigned, top=top).plot(ax, **options)

    def plot(self, ax: Any = None) -> LaggedDisplay:
        """Draw a panel for each lag, with the nodes on a circle."""
        lags, n = self.effects.shape[:2]
        width = 5.6 if lags == 1 else 4.6
        self.axes_ = _style.several_axes(ax, lags, (width * lags, width))
        self.figure_ = self.axes_[0].figure
        nodes = sorted({node for arrow in self.arrows_ for node in arrow[:2]}) if n > MAX_ALONE else list(range(n))
        angle = 0.5 * np.pi - 2.0 * np.pi * np.arange(len(nodes)) / max(len(nodes), 1)
        places = dict(zip(nodes, np.stack([np.cos(angle), np.sin(angle)], axis=1)))
        largest = max((abs(arrow[3]) for arrow in self.arrows_), default=1.0)
        for lag, axes in enumerate(self.axes_, start=1):
            mine = [arrow for arrow in self.arrows_ if arrow[2] == lag]
            frames = self._nodes(axes, places, mine, largest)
            for j, i, _, effect in reversed([arrow for arrow in mine if arrow[0] != arrow[1]]):
                ends = (places[j], places[i])
                self._arrow(axes, frames[j], frames[i], ends, self._style(lag, i, j), effect / largest)
            axes.set_xlim(-1.35, 1.35)
            axes.set_ylim(-1.25, 1.25)
            axes.set_axis_off()
            steps = "one step" if lag == 1 else f"{lag} steps"
            axes.set_title(f"From {steps} back to now: {len(mine)} coupling{'s' * (len(mine) != 1)}", fontsize=10)
        self._legend(self.axes_[0])
        return self

    # ------------------------------------------------------------------ parts

    def _style(self, lag: int, i: int, j: int) -> tuple[str, Any]:
        """Colour and dashes of an effect."""
        if self.unsigned[lag - 1, i, j]:
            return _style.UNSIGNED, "-"
        return (_style.POSITIVE, "-") if self.effects[lag - 1, i, j] > 0 else (_style.NEGATIVE, (0, (4, 2)))

    def _nodes(self, ax: Any, places: dict[int, np.ndarray], arrows: list[Any], largest: float) -> dict[int, Any]:
        """The names in their frames."""
        own = {i: (self._style(lag, i, j), abs(effect) / largest) for j, i, lag, effect in arrows if i == j}
        size = float(np.clip(150 / max(len(places), 1), 6.0, 9.5))
        frames = {}
        for i, (x, y) in places.items():
            (colour, dashes), strength = own.get(i, ((_style.INK, "-"), -0.2))
            frame = {"edgecolor": colour, "linestyle": dashes, "linewidth": 1.1 + 3.0 * strength}
            box = {"boxstyle": "round,pad=0.3", "facecolor": "white", **frame}
            words = {"fontsize": size, "color": _style.INK, "parse_math": False, "ha": "center", "va": "center"}
            frames[i] = ax.text(x, y, _style.wrapped(self.feature_names[i], _LINE), bbox=box, zorder=4, **words)
        return frames

    def _arrow(self, ax: Any, start: Any, end: Any, ends: Any, style: tuple[str, Any], strength: float) -> None:
        """Bent to one side, so that there and back are two."""
        colour, dashes = style
        width = 0.7 + 3.2 * abs(strength)
        props = {
            "arrowstyle": f"-|>,head_length={0.35 + 0.25 * abs(strength)},head_width={0.15 + 0.15 * abs(strength)}",
            "connectionstyle": "arc3,rad=0.16", "color": colour, "linestyle": dashes, "linewidth": width,
            "alpha": 0.45 + 0.5 * abs(strength), "patchA": start.get_bbox_patch(), "patchB": end.get_bbox_patch(),
            "shrinkA": 2, "shrinkB": 2, "mutation_scale": 14,
        }  # fmt: skip
        ax.annotate("", xy=ends[1], xytext=ends[0], arrowprops=props, zorder=2)

    def _legend(self, ax: Any) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        styles = {self._style(lag, i, j) for j, i, lag, _ in self.arrows_}
        words = {_style.POSITIVE: "positive", _style.NEGATIVE: "negative", _style.UNSIGNED: "labels"}
        handles: list[Any] = [
            Line2D([], [], color=colour, linestyle=dashes, linewidth=2.2, label=words[colour])
            for colour, dashes in sorted(styles, key=lambda each: each[0], reverse=True)
        ]
        if any(j == i for j, i, *_ in self.arrows_):
            handles.append(Patch(facecolor="white", edgecolor=_style.POSITIVE, linewidth=2, label="frame: on itself"))
        if handles:
            place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.02), "ncols": 4}
            ax.legend(handles=handles, frameon=False, fontsize=8.5, handlelength=3.0, **place)
