"""HypergraphDisplay: variables as nodes, pairs as lines, triplets as shaded triangles."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from hbm_learn.model import BoltzmannMachine
from hbm_learn.plots import _style


class HypergraphDisplay:
    """The strongest interactions as a picture.

    Pairs are lines, triplets shaded triangles, larger interactions stars; red and solid for J > 0, blue and dashed for
    J < 0, thicker and darker for larger |J|. Variables without an interaction shown stand at the rim.

    Parameters
    ----------
    interactions : list of tuples of variables.
    weights : (p,) J_μ.
    n_features : number of variables.
    feature_names : (n,) names, or None.
    top : draw this many interactions at most, by |J_μ|.

    Attributes
    ----------
    positions_ : (n, 2) where the nodes are.
    shown_ : positions, in ``interactions``, of those drawn, strongest first.
    ax_, figure_ : matplotlib objects, after ``plot``.
    """

    def __init__(
        self,
        interactions: Sequence[tuple[int, ...]],
        weights: np.ndarray,
        n_features: int,
        *,
        feature_names: Sequence[str] | None = None,
        top: int = 40,
    ):
        self.interactions = [tuple(mu) for mu in interactions]
        self.weights = np.asarray(weights, dtype=np.float64)
        if self.weights.shape != (len(self.interactions),):
            raise ValueError(f"weights has shape {self.weights.shape} for {len(self.interactions)} interactions.")
        self.n_features = n_features
        self.feature_names = _style.names_or_numbers(feature_names, n_features)
        self.shown_ = np.argsort(-np.abs(self.weights), kind="stable")[:top]

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, top: int = 40, max_q: float | None = 0.05, ax: Any = None, **options: Any
    ) -> HypergraphDisplay:
        """Draw the strongest interactions of a fitted HBM, among those with a q-value of at most ``max_q``.

        With max_q=None, among all. ``options`` go to ``plot``.
        """
        q, packed = estimator._tests.q_values, estimator.model_.packed
        kept = np.arange(len(q)) if max_q is None else np.flatnonzero(q <= max_q)
        display = cls(
            [tuple(packed.members[packed.indptr[r] : packed.indptr[r + 1]].tolist()) for r in kept],
            estimator.weights_[kept],
            estimator.n_features_in_,
            feature_names=_style.names_of(estimator),
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
        """Draw the strongest interactions of a model."""
        names = feature_names
        display = cls(model.interactions, model.weights, model.n_features, feature_names=names, top=top)
        return display.plot(ax, **options)

    def plot(self, ax: Any = None, *, seed: int = 0) -> HypergraphDisplay:
        """Draw on ``ax``; ``seed`` chooses among layouts."""
        ax = _style.one_axes(ax, (6.2, 5.4))
        self.positions_ = self._layout(seed)
        largest = float(np.abs(self.weights).max(initial=0.0)) or 1.0
        for r in self.shown_[::-1]:  # the strongest on top
            self._draw(ax, self.interactions[r], self.weights[r], abs(self.weights[r]) / largest)
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
        """Kamada–Kawai distances refined by springs; interactions beyond pairs pull their members together."""
        import networkx as nx

        graph = nx.Graph()
        graph.add_nodes_from(range(self.n_features))
        for r in self.shown_:
            mu = self.interactions[r]
            for a in range(len(mu)):
                for b in range(a):
                    graph.add_edge(mu[a], mu[b])
        alone = sorted(nx.isolates(graph))
        graph.remove_nodes_from(alone)
        positions = np.zeros((self.n_features, 2))
        if len(graph):
            start = nx.kamada_kawai_layout(_connected(graph))
            spread = nx.spring_layout(graph, pos=start, seed=seed, iterations=200, k=4.0 / np.sqrt(len(graph)))
            nodes = list(graph)
            found = np.array([spread[i] for i in nodes])
            low, high = found.min(axis=0), found.max(axis=0)
            positions[nodes] = 2.0 * (found - low) / np.maximum(high - low, 1e-9) - 1.0
        angle = 2 * np.pi * np.arange(len(alone)) / max(len(alone), 1)
        positions[alone] = 1.45 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        return positions

    def _draw(self, ax: Any, mu: tuple[int, ...], weight: float, strength: float) -> None:
        colour = _style.sign_colour(weight)
        line: dict[str, Any] = {
            "color": colour,
            "linestyle": "-" if weight > 0 else (0, (4, 2)),
            "solid_capstyle": "round",
        }
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
        size = float(np.clip(300 / self.n_features, 6, 9.5))
        for (x, y), name in zip(self.positions_, self.feature_names):
            box = {"boxstyle": "round,pad=0.22", "facecolor": "white", "edgecolor": _style.INK, "linewidth": 0.7}
            ax.text(x, y, name, ha="center", va="center", fontsize=size, color=_style.INK, bbox=box, zorder=4)
        ax.scatter(*self.positions_.T, s=0.1, color="white", zorder=0)  # so that the margins know the nodes

    def _draw_legend(self, ax: Any) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        drawn = [(len(self.interactions[r]), self.weights[r] > 0) for r in self.shown_]
        handles: list[Any] = []
        signs: list[tuple[bool, str, Any, str]] = [
            (True, _style.POSITIVE, "-", "> 0"),
            (False, _style.NEGATIVE, (0, (4, 2)), "< 0"),
        ]
        for positive, colour, dash, sign in signs:
            if (2, positive) in drawn:
                handles.append(Line2D([], [], color=colour, linestyle=dash, linewidth=2.5, label=f"pair, J {sign}"))
            if (3, positive) in drawn:
                face = (*_rgb(colour), 0.18)
                handles.append(Patch(facecolor=face, edgecolor=colour, linestyle=dash, label=f"triplet, J {sign}"))
            if any(order > 3 and sign_ == positive for order, sign_ in drawn):
                star: dict[str, Any] = {"marker": "*", "linestyle": "none", "markersize": 9}
                handles.append(Line2D([], [], color=colour, label=f"larger, J {sign}", **star))
        if handles:
            ax.legend(
                handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4, frameon=False, fontsize=8.5
            )


def _rgb(colour: str) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(colour)


def _connected(graph: Any) -> Any:
    """A copy whose components are chained together, as distances need."""
    import networkx as nx

    whole = graph.copy()
    heads = [min(component) for component in nx.connected_components(graph)]
    for a, b in pairwise(heads):
        whole.add_edge(a, b, weight=2.0)
    return whole
