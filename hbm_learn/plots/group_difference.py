"""GroupDifferenceDisplay: the couplings of each group, and which of them differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hbm_learn.assessment.moderation import beside_pairs, moderated
from hbm_learn.fitted import require_fitted
from hbm_learn.names import feature_names, printable, shorten, value_name
from hbm_learn.plots import _style, moderators

# Groups that can be told apart in one picture.
MAX_GROUPS = 8
_MARKERS = "osD^vP*X"


class GroupDifferenceDisplay:
    """Effects of pairs in each group with their intervals, a row a pair; those that differ are marked.

    Filled markers and a bold q-value: the triplet of the pair with the group passes its test. Where no such triplet is
    in the model, the groups share one coupling.

    Parameters
    ----------
    names : sequence of str
        Of the p pairs.
    groups : sequence of str
        Labels of the g groups.
    effects : (p, g) array
        Of each pair in each group.
    intervals : (p, g, 2) array
        Likewise.
    q_values : (p,) array
        Of the test that the groups are the same; NaN where there is none, since they share one coupling.
    level : float
        False-discovery rate.
    group : str
        What the groups are.
    joint : bool
        Whether the intervals allow for the covariance of common part and difference.

    Attributes
    ----------
    differ : (p,) array of bool
        Pairs that pass.
    ax_, figure_ : matplotlib objects
        After ``plot``.
    """

    def __init__(
        self,
        names: Sequence[str],
        groups: Sequence[str],
        effects: Any,
        intervals: Any,
        q_values: Any,
        *,
        level: float = 0.05,
        group: str = "group",
        joint: bool = True,
    ):
        self.names, self.groups = list(names), [shorten(printable(str(label)), 20) for label in groups]
        self.effects, self.intervals = np.asarray(effects, dtype=float), np.asarray(intervals, dtype=float)
        self.q_values = np.asarray(q_values, dtype=float)
        p, g = len(self.names), len(self.groups)
        if self.effects.shape != (p, g) or self.intervals.shape != (p, g, 2) or self.q_values.shape != (p,):
            raise ValueError(
                f"effects has shape {self.effects.shape}, intervals {self.intervals.shape} and q_values "
                f"{self.q_values.shape}: give ({p}, {g}), ({p}, {g}, 2) and ({p},), for {p} pairs in {g} groups."
            )
        self.level, self.group, self.joint = level, shorten(printable(group), 30), joint
        self.differ = np.nan_to_num(self.q_values, nan=1.0) <= level

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        group: Any,
        *,
        pairs: Any = None,
        top: int = 20,
        level: float | None = None,
        ax: Any = None,
        **options: Any,
    ) -> GroupDifferenceDisplay:
        """Draw the couplings of each group of a fitted HBM.

        Parameters
        ----------
        estimator : HBM
            Fitted with order 3 or more, or with triplets of the group among its ``interactions``.
        group : int or str
            The column that says the group, given or modelled: labels, or up to eight numbers.
        pairs : iterable of tuples or None
            Pairs of variables, by index or name; None: those whose differences are surest, then the strongest.
        top : int
            Draw this many at most, without ``pairs``.
        level : float or None
            By default the estimator's ``fdr``, or 0.05.
        ax : matplotlib Axes or None
            Where to draw; a new figure by default.
        **options : dict
            Of :meth:`plot`.

        Returns
        -------
        GroupDifferenceDisplay
            Drawn.
        """
        require_fitted(estimator)
        i, labels = _groups(estimator, group)
        name, beside = feature_names(estimator)[i], beside_pairs(estimator.result_.terms, i)
        chosen = moderators.choose_pairs(estimator, beside, pairs, top, name, only=False)
        codes, standard = np.arange(len(labels)), estimator.moments_.standard.space
        found = moderated(estimator.result_, standard, i, codes, chosen)
        drawn = cls(
            moderators.names_of(estimator, chosen),
            labels,
            found.effects,
            found.intervals,
            moderators.q_of(estimator, [beside[pair] for pair in chosen]),
            level=level or estimator.fdr or 0.05,
            group=name,
            joint=found.joint,
        )
        return drawn.plot(ax, **options)

    def plot(self, ax: Any = None) -> GroupDifferenceDisplay:
        """Draw a row for each pair, with a marker and an interval for each group."""
        p, g = self.effects.shape
        ax = _style.one_axes(ax, (6.8, max(2.6, 1.5 + p * (0.2 + 0.085 * g))))
        rows = np.arange(p)
        for k in range(g):
            colour, at = _style.CHAIN_COLOURS[k], rows + 0.62 * ((k + 0.5) / g - 0.5)
            line = {"color": colour, "linewidth": 1.2, "zorder": 2}
            ax.hlines(at, *self.intervals[:, k].T, **line)
            marker = {"marker": _MARKERS[k], "s": 26, "edgecolors": colour, "linewidths": 1.1, "zorder": 3}
            for some, face in ((self.differ, colour), (~self.differ, "white")):
                ax.scatter(self.effects[some, k], at[some], facecolors=face, **marker)
            ax.scatter([], [], facecolors=colour, label=self.groups[k].lstrip("_") or " ", **marker)
        ax.axvline(0.0, color=_style.FAINT, linewidth=0.8, zorder=0)
        for y in rows[1:] - 0.5:
            ax.axhline(y, color="#e6e6e6", linewidth=0.6, zorder=0)
        ax.set_yticks(rows, self.names, fontsize=8, parse_math=False)
        ax.set_ylim(p - 0.5, -0.5)
        ax.tick_params(axis="y", length=0)
        self._verdicts(ax)
        ax.set_xlabel(r"effect $\tilde{J}_{ij}$ in each group" + ("" if self.joint else " (as if uncorrelated)"))
        differ = int(self.differ.sum())
        title = f"{differ} of {p} pairs drawn differ at false-discovery rate {self.level:g}"
        ax.set_title(title, fontsize=10)
        legend = ax.legend(
            title=self.group, frameon=False, fontsize=8.5, title_fontsize=8.5, ncols=min(g, 4),
            loc="upper center", bbox_to_anchor=(0.5, -0.6 / max(2.6, 1.5 + p * (0.2 + 0.085 * g))),
        )  # fmt: skip
        for text in (*legend.get_texts(), legend.get_title()):
            text.set_parse_math(False)
        _style.clean(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _verdicts(self, ax: Any) -> None:
        """Beside each row the q-value of the difference."""
        for y, (q, passes) in enumerate(zip(self.q_values, self.differ)):
            words = "shared" if np.isnan(q) else moderators.q_words(q)
            style = {"fontweight": "bold", "color": _style.INK} if passes else {"color": _style.FAINT}
            place: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "ha": "left", "va": "center"}
            ax.text(1.01, y, words, fontsize=7.5, **place, **style)


def _groups(est: Any, group: Any) -> tuple[int, list[str]]:
    """Position of the column of groups, and their labels."""
    names, space = feature_names(est), est.model_.space
    i = moderators.column_of(est, "group", group)
    alphabet = space.alphabets[i]
    if i in space.anchors or not alphabet.is_finite or alphabet.size > MAX_GROUPS:
        many = f"{alphabet.size} values" if alphabet.is_finite and i not in space.anchors else "no list of values"
        raise ValueError(
            f"group={group!r}: {names[i]} has {many}, and at most {MAX_GROUPS} groups can be drawn: "
            "use ModerationDisplay, or bin it before the fit."
        )
    return i, [value_name(value) for value in alphabet.values.tolist()]
