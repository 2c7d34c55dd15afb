"""HypergraphDisplay: variables as nodes, pairs as lines, triplets as shaded triangles."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from hbm_learn.fitted import require_fitted
from hbm_learn.model import BoltzmannMachine, require_model
from hbm_learn.names import given_names
from hbm_learn.plots import _style

# Variables without an interaction are left out of the picture if they are more than this.
MAX_ALONE = 14
# Colour, dashes and words of each sign; 0 is a table of labels.
# Letters on a line of a node's name.
_LINE = 12
_SIGNS: dict[int, tuple[str, Any, str]] = {
    1: (_style.POSITIVE, "-", "J > 0"),
    -1: (_style.NEGATIVE, (0, (4, 2)), "J < 0"),
    0: (_style.UNSIGNED, (0, (6, 1.5, 1, 1.5)), "labels"),
}


class HypergraphDisplay:
    """The strongest interactions as a picture.

    Pairs are lines, triplets shaded triangles, larger interactions stars; red and solid for J > 0, blue and dashed for
    J < 0, grey for tables of labels, which have a size and no sign; thicker and darker for a larger size. Of several
    interactions of the same variables, as powers make them, the strongest is drawn. Variables without an interaction
    shown stand at the foot, or are left out if they are many.

    Parameters
    ----------
    interactions : list of tuples
        Variables; a repeated member is a power.
    weights : (p,) array
        J_μ, or effects.
    n_features : int
        Number of variables.
    feature_names : sequence of str or None
        Names of the variables.
    unsigned : (p,) array of bool or None
        Interactions whose weight is the size of a table over labels.
    top : int
        Draw this many interactions at most, by the size of their weights.

    Attributes
    ----------
    positions_ : (n, 2) array
        Where the nodes are; NaN for those left out.
    shown_ : array of int
        Positions, in ``interactions``, of those drawn, strongest first.
    ax_, figure_ : matplotlib objects
        After ``plot``.
    """

    def __init__(
        self,
        interactions: Sequence[tuple[int, ...]],
        weights: np.ndarray,
        n_features: int,
        *,
        feature_names: Sequence[str] | None = None,
        unsigned: np.ndarray | None = None,
        top: int = 40,
    ):
        self.interactions = [tuple(mu) for mu in interactions]
        self.weights = np.asarray(weights, dtype=np.float64)
        self.unsigned = np.zeros(len(self.weights), dtype=bool) if unsigned is None else np.asarray(unsigned, bool)
        for name, array in (("weights", self.weights), ("unsigned", self.unsigned)):
            if array.shape != (len(self.interactions),):
                raise ValueError(f"{name} has shape {array.shape} for {len(self.interactions)} interactions.")
        self.n_features = n_features
        self.feature_names = _style.names_or_numbers(feature_names, n_features)
        strongest: dict[tuple[int, ...], int] = {}
        for r in np.argsort(-np.abs(self.weights), kind="stable").tolist():
            strongest.setdefault(self._variables(r), r)
            if len(strongest) == top:
                break
        self.shown_ = np.array(list(strongest.values())[:top], dtype=np.intp)

    def _variables(self, r: int) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self.interactions[r]))

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, top: int = 40, max_q: float | None = 0.05, ax: Any = None, **options: Any
    ) -> HypergraphDisplay:
        """Draw the strongest interactions of a fitted HBM, by their effects.

        Parameters
        ----------
        estimator : HBM
            Fitted.
        top : int
            Draw this many at most.
        max_q : float or None
            Only those with a q-value of at most this; None: all.
        ax : matplotlib Axes or None
            Where to draw; a new figure by default.
        **options : dict
            Of :meth:`plot`.
        """
        require_fitted(estimator)
        q, terms = estimator.tests_.q_values, estimator.result_.terms
        kept = np.arange(len(q)) if max_q is None else np.flatnonzero(q <= max_q)
        display = cls(
            [terms.members(r) for r in kept],
            estimator.effects_[kept],
            estimator.n_features_in_,
            feature_names=given_names(estimator),
            unsigned=terms.df[kept] > 1,
            top=top,
        )
        return display.plot(ax, **options)

    @classmethod
    def from_model(
        cls,
        model: BoltzmannMachine,
        *,
        feature_names: Sequence[str] | None = None,
        top: int = 40,
        ax: Any = None,
        **options: Any,
    ) -> HypergraphDisplay:
        """Draw the strongest interactions of a model, by their weights.

        Parameters
        ----------
        model : BoltzmannMachine
            Any model.
        feature_names : sequence of str or None
            Names of the variables.
        top : int
            Draw this many at most.
        ax : matplotlib Axes or None
            Where to draw; a new figure by default.
        **options : dict
            Of :meth:`plot`.
        """
        require_model(model)
        unsigned = model.terms.df > 1
        tuples, weights, names = model.interactions, model.weights, feature_names
        display = cls(tuples, weights, model.n_features, feature_names=names, unsigned=unsigned, top=top)
        return display.plot(ax, **options)

    def plot(self, ax: Any = None, *, seed: int = 0) -> HypergraphDisplay:
        """Draw the graph.

        Parameters
        ----------
        ax : matplotlib Axes or None
            Where to draw; a new figure by default.
        seed : int
            Chooses among layouts.
        """
        ax = _style.one_axes(ax, (6.2, 5.4))
        self.positions_ = self._layout(seed)
        largest = float(np.abs(self.weights).max(initial=0.0)) or 1.0
        for r in self.shown_[::-1]:  # the strongest on top
            self._draw(ax, self._variables(r), self._sign(r), abs(self.weights[r]) / largest)
        self._draw_nodes(ax)
        self._draw_legend(ax)
        ax.set_axis_off()
        ax.margins(0.06)
        total, drawn = len(self.interactions), len(self.shown_)
        ax.set_title("Interactions" if drawn == total else f"The {drawn} strongest of {total:,} interactions")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    # ------------------------------------------------------------------ parts

    def _layout(self, seed: int) -> np.ndarray:
        """Distances in the picture follow those in the graph (Kamada–Kawai); what stands alone stands at the foot."""
        import networkx as nx

        graph = nx.Graph()
        for r in self.shown_:
            graph.add_edges_from(combinations(self._variables(r), 2))
        nodes = sorted(graph)
        alone = [i for i in range(self.n_features) if i not in graph]
        positions = np.full((self.n_features, 2), np.nan)
        foot = -1.25
        if nodes:
            start = nx.circular_layout(np.random.default_rng(seed).permutation(nodes).tolist())
            found = nx.kamada_kawai_layout(_connected(graph), pos=start, weight="length")
            positions[nodes] = _spread(np.array([found[i] for i in nodes]), self._room())
            foot = positions[nodes, 1].min() - 0.25
        if len(alone) <= MAX_ALONE:
            per_row = max(1, int(2.0 / self._room()[0]))
            for start in range(0, len(alone), per_row):
                row = alone[start : start + per_row]
                positions[row, 0] = np.linspace(-1, 1, len(row) + 2)[1:-1]
                positions[row, 1] = foot - 0.13 * (start // per_row)
        return positions

    @property
    def _font_size(self) -> float:
        return float(np.clip(350 / self.n_features, 6.5, 9.5))

    def _room(self) -> np.ndarray:
        """(2,) width and height of a label, in the units of the positions."""
        lines = [_style.wrapped(name, _LINE).split("\n") for name in self.feature_names]
        longest, most = max(len(line) for each in lines for line in each), max(map(len, lines))
        return np.array([0.08 + 0.0028 * self._font_size * longest, 0.04 + 0.07 * most])

    def _sign(self, r: int) -> int:
        return 0 if self.unsigned[r] else 1 if self.weights[r] > 0 else -1

    def _draw(self, ax: Any, mu: tuple[int, ...], sign: int, strength: float) -> None:
        colour, dashes, _ = _SIGNS[sign]
        line: dict[str, Any] = {"color": colour, "linestyle": dashes, "solid_capstyle": "round"}
        corners = self.positions_[list(mu)]
        if len(mu) == 2:
            ax.plot(*corners.T, linewidth=0.8 + 4.2 * strength, alpha=0.35 + 0.55 * strength, zorder=2, **line)
        elif len(mu) == 3:
            ax.fill(*corners.T, color=colour, alpha=0.06 + 0.16 * strength, linewidth=0, zorder=1)
            outline = np.concatenate([corners, corners[:1]])
            ax.plot(*outline.T, linewidth=0.6 + 0.9 * strength, alpha=0.6, zorder=1.5, **line)
        else:
            centre = corners.mean(axis=0)
            for corner in corners:
                ax.plot(*np.stack([centre, corner]).T, linewidth=0.6 + 2 * strength, alpha=0.7, zorder=1.5, **line)
            ax.plot(*centre, marker="*", markersize=9, color=colour, zorder=2.5)

    def _draw_nodes(self, ax: Any) -> None:
        placed = np.isfinite(self.positions_[:, 0])
        for (x, y), name in zip(self.positions_[placed], np.array(self.feature_names)[placed]):
            box = {"boxstyle": "round,pad=0.22", "facecolor": "white", "edgecolor": _style.INK, "linewidth": 0.7}
            style = {"fontsize": self._font_size, "color": _style.INK, "parse_math": False}
            ax.text(x, y, _style.wrapped(name, _LINE), ha="center", va="center", bbox=box, zorder=4, **style)
        ax.scatter(*self.positions_[placed].T, s=0.1, color="white", zorder=0)  # so that the margins know the nodes

    def _draw_legend(self, ax: Any) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        drawn = {(min(len(self._variables(r)), 4), self._sign(r)) for r in self.shown_}
        handles: list[Any] = []
        for sign, (colour, dashes, words) in _SIGNS.items():
            if (2, sign) in drawn:
                handles.append(Line2D([], [], color=colour, linestyle=dashes, linewidth=2.5, label=f"pair, {words}"))
            if (3, sign) in drawn:
                face = (*_rgb(colour), 0.18)
                handles.append(Patch(facecolor=face, edgecolor=colour, linestyle=dashes, label=f"triplet, {words}"))
            if (4, sign) in drawn:
                star: dict[str, Any] = {"marker": "*", "linestyle": "none", "markersize": 9}
                handles.append(Line2D([], [], color=colour, label=f"larger, {words}", **star))
        if handles:
            place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "ncols": 4}
            # Long enough for the longest pattern of dashes.
            ax.legend(handles=handles, frameon=False, fontsize=8.5, handlelength=4.0, **place)


def _rgb(colour: str) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(colour)


def _connected(graph: Any) -> Any:
    """A copy whose components are chained by long edges: without them, distances between components are infinite."""
    import networkx as nx

    whole = graph.copy()
    nx.set_edge_attributes(whole, 1.0, "length")
    heads = [min(component) for component in nx.connected_components(graph)]
    for a, b in pairwise(heads):
        whole.add_edge(a, b, length=1.5)
    return whole


def _spread(points: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Points scaled to [−1, 1]², and pushed apart until labels that need ``room`` no longer cover each other."""
    low, high = points.min(axis=0), points.max(axis=0)
    points = 2.0 * (points - low) / np.maximum(high - low, 1e-9) - 1.0
    for _ in range(200):
        gap = (points[:, None] - points[None]) / room
        distance = np.sqrt((gap**2).sum(axis=2))
        np.fill_diagonal(distance, 2.0)
        push = np.where(distance < 1.0, (1.0 - distance) / np.maximum(distance, 1e-9), 0.0)
        if not push.any():
            break
        points = points + 0.3 * (gap * push[:, :, None]).sum(axis=1) * room
    return points
