"""ModerationDisplay: couplings of pairs along a covariate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hbm_learn._validation import check_share
from hbm_learn.assessment.moderation import beside_pairs, moderated
from hbm_learn.data.tables import as_array, as_frame
from hbm_learn.fitted import require_fitted
from hbm_learn.names import feature_names, printable, shorten, value_name
from hbm_learn.plots import _style, moderators

# Values of a real covariate at which couplings are computed; standard deviations to either side without rows.
_POINTS, _BEYOND = 61, 2.0


class ModerationDisplay:
    """Effects of pairs as a function of a covariate, each with a band: J̃_ij(z) = J̃_ij + J̃_ijz (z − mean)/sd.

    A band is as many posterior standard deviations wide as it takes to hold the 95 % intervals at all values.
    Solid lines are moderations that pass their test; dashed ones do not.

    Parameters
    ----------
    names : sequence of str
        Of the p pairs.
    values : (V,) array
        Of the covariate, ascending; positions of its labels where ``labels`` has them.
    effects : (p, V) array
        Of each pair at each value.
    intervals : (p, V, 2) array
        Likewise.
    q_values : (p,) array
        Of the tests that the coupling does not depend on the covariate.
    level : float
        False-discovery rate.
    covariate : str
        Its name.
    labels : sequence of str or None
        Written at the values, where these are positions.
    joint : bool
        Whether the bands allow for the covariance of common part and slope.

    Attributes
    ----------
    ax_, figure_ : matplotlib objects
        After ``plot``.
    """

    def __init__(
        self,
        names: Sequence[str],
        values: Any,
        effects: Any,
        intervals: Any,
        q_values: Any,
        *,
        level: float = 0.05,
        covariate: str = "covariate",
        labels: Sequence[str] | None = None,
        joint: bool = True,
    ):
        self.names, self.values = list(names), np.asarray(values, dtype=float)
        self.effects, self.intervals = np.asarray(effects, dtype=float), np.asarray(intervals, dtype=float)
        self.q_values, shape = np.asarray(q_values, dtype=float), (len(self.names), len(self.values))
        if self.effects.shape != shape or self.intervals.shape != (*shape, 2) or self.q_values.shape != shape[:1]:
            raise ValueError(
                f"effects has shape {self.effects.shape}, intervals {self.intervals.shape} and q_values "
                f"{self.q_values.shape}: give {shape}, {(*shape, 2)} and {shape[:1]}, of pairs at values."
            )
        self.level, self.covariate, self.joint = level, shorten(printable(covariate), 40), joint
        self.labels = None if labels is None else [shorten(printable(str(label)), 16) for label in labels]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        covariate: Any,
        pairs: Any = None,
        *,
        X: Any = None,
        top: int = 5,
        level: float | None = None,
        ax: Any = None,
        **options: Any,
    ) -> ModerationDisplay:
        """Draw how couplings of a fitted HBM depend on a covariate.

        Parameters
        ----------
        estimator : HBM
            Fitted with order 3 or more, or with triplets of the covariate among its ``interactions``.
        covariate : int or str
            A column, given or modelled.
        pairs : iterable of tuples or None
            Pairs of variables, by index or name; None: those whose triplets with the covariate are surest.
        X : table or None
            The rows that were fitted: a real covariate is drawn over its range in them. Without them, over two standard
            deviations to either side of its mean.
        top : int
            Draw this many at most, without ``pairs``.
        level : float or None
            False-discovery rate; by default the estimator's ``fdr``, or 0.05.
        ax : matplotlib Axes or None
            Where to draw; a new figure by default.
        **options : dict
            Of :meth:`plot`.

        Returns
        -------
        ModerationDisplay
            Drawn.
        """
        require_fitted(estimator, *([] if X is None else [X]))
        i = moderators.column_of(estimator, "covariate", covariate)
        name, beside = feature_names(estimator)[i], beside_pairs(estimator.result_.terms, i)
        chosen = moderators.choose_pairs(estimator, beside, pairs, top, name, only=True)
        at, values, labels = _values(estimator, i, X)
        found = moderated(estimator.result_, estimator.moments_.standard.space, i, at, chosen)
        drawn = cls(
            moderators.names_of(estimator, chosen),
            values,
            found.effects,
            found.bands,
            moderators.q_of(estimator, [beside[pair] for pair in chosen]),
            level=check_share("level", level or estimator.fdr or 0.05, "a rate between 0 and 1, such as 0.05"),
            covariate=name,
            labels=labels,
            joint=found.joint,
        )
        return drawn.plot(ax, **options)

    def plot(self, ax: Any = None) -> ModerationDisplay:
        """Draw a line and a band for each pair."""
        ax = _style.one_axes(ax, (6.4, 4.4))
        for k, name in enumerate(self.names):
            colour = _style.CHAIN_COLOURS[k % len(_style.CHAIN_COLOURS)]
            passes = self.q_values[k] <= self.level
            ax.fill_between(self.values, *self.intervals[k].T, color=colour, alpha=0.13, linewidth=0)
            style = {"color": colour, "linestyle": "-" if passes else (0, (4, 2)), "linewidth": 1.8}
            if len(self.values) <= 16:
                style["marker"], style["markersize"] = "o", 4
            label = f"{name.lstrip('_')}  ({moderators.q_words(float(self.q_values[k]))})"
            ax.plot(self.values, self.effects[k], label=label, **style)
        ax.axhline(0.0, color=_style.FAINT, linewidth=0.8, zorder=0)
        if self.labels is not None:
            ax.set_xticks(self.values, self.labels, parse_math=False)
        ax.set_xlabel(self.covariate, parse_math=False)
        ax.set_ylabel(r"effect $\tilde{J}_{ij}$" + ("" if self.joint else "\nbands as if uncorrelated"))
        ax.set_title("Couplings along a covariate", fontsize=10)
        columns = 1 if max(map(len, self.names), default=0) > 24 else 2
        place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": columns}
        legend = ax.legend(frameon=False, fontsize=8, **place)
        for text in legend.get_texts():
            text.set_parse_math(False)
        _style.clean(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _values(est: Any, i: int, X: Any) -> tuple[np.ndarray, np.ndarray, list[str] | None]:
    """What the functions are asked at, where it is drawn, and labels."""
    space = est.model_.space
    alphabet, moments = space.alphabets[i], est.moments_
    if i in space.anchors or not alphabet.is_finite:
        c = space.column_ptr[i]
        sd = float(np.sqrt(moments.covariance[c, c]))
        ends = moments.mean[c] + sd * np.array([-_BEYOND, _BEYOND])
        if X is not None:
            frame = as_frame(X)
            column = as_array(X)[:, i] if frame is None else frame[:, i].to_numpy()
            column = np.asarray(column, dtype=np.float64)
            ends = np.array([np.nanmin(column), np.nanmax(column)])
        z = np.linspace(float(ends[0]), float(ends[1]), _POINTS)
        return z, z, None
    codes = np.arange(alphabet.size)
    if alphabet.is_nominal:
        return codes, codes.astype(float), [value_name(v) for v in alphabet.values.tolist()]
    return codes, alphabet.nodes, None
