"""CouplingTableDisplay: the weights of one interaction over the labels of its nominal variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from hbm_learn.fitted import require_fitted
from hbm_learn.interactions import positions_of, resolve_members
from hbm_learn.model import BoltzmannMachine, require_model
from hbm_learn.names import default_names, given_names, interaction_name, shorten, value_name
from hbm_learn.plots import _style

# Pictures of one interaction, at most: one for each choice of labels beyond two variables.
MAX_PANELS = 12


@dataclass(frozen=True, eq=False)
class Panel:
    """A part of a table of weights that fits on paper.

    Attributes
    ----------
    where : str
        The labels of the variables that have no axis: "sex = f", or "".
    J : (rows, columns) array
        Weights, one row if there is one nominal variable.
    row_name, column_name : str
        The variables along the axes; the first is "" if there is one row.
    rows, columns : list of str
        Their labels.
    """

    where: str
    J: np.ndarray
    row_name: str
    column_name: str
    rows: list[str]
    columns: list[str]


def panels(model: BoltzmannMachine, r: int, names: Sequence[str] | None = None) -> list[Panel]:
    """The zero-sum table of interaction r in parts of two axes, those of the variables with the most labels.

    Parameters
    ----------
    model : BoltzmannMachine
    r : int
        Position in ``model.interactions``; without a nominal member there is no panel.
    names : sequence of str or None
        Of the variables.
    """
    names = default_names(model.n_features) if names is None else names
    alphabets = model.space.alphabets
    nominal = [i for i in dict.fromkeys(model.terms.members(r)) if alphabets[i].is_nominal]
    if not nominal:
        return []
    J = np.asarray(model.table(r))
    labels = [[value_name(value) for value in alphabets[i].values.tolist()] for i in nominal]  # type: ignore[union-attr]
    if len(nominal) == 1:
        return [Panel("", J[None], "", names[nominal[0]], [""], labels[0])]
    # The two longest axes lie on the paper, in the order of the variables.
    axes = sorted(sorted(range(len(nominal)), key=lambda a: -J.shape[a])[:2])
    others = [a for a in range(len(nominal)) if a not in axes]
    J = np.moveaxis(J, others, range(len(others)))
    found = []
    for fixed in product(*(range(len(labels[a])) for a in others)):
        where = ", ".join(f"{names[nominal[a]]} = {labels[a][k]}" for a, k in zip(others, fixed))
        row, column = (names[nominal[a]] for a in axes)
        found.append(Panel(where, J[fixed], row, column, labels[axes[0]], labels[axes[1]]))
    return found


class CouplingTableDisplay:
    """The zero-sum table of weights of one interaction: red where labels go together, blue where they avoid each other.

    Along each axis the weights sum to zero. With numeric members the table is what multiplies them. Of more than two
    nominal members, there is a panel for each choice of labels of the others.

    Parameters
    ----------
    model : BoltzmannMachine
    interaction : tuple
        Its variables, by index or name, a repeated member for a power; at least one is nominal.
    feature_names : sequence of str or None
        Names of the variables.

    Attributes
    ----------
    panels : list of Panel
        The parts of the table.
    axes_, figure_, images_, colorbar_ : matplotlib objects
        After ``plot``.
    """

    def __init__(
        self, model: BoltzmannMachine, interaction: Sequence[Any], *, feature_names: Sequence[str] | None = None
    ):
        require_model(model)
        n = model.n_features
        names = default_names(n) if feature_names is None else [str(name) for name in feature_names]
        if len(names) != n:
            raise ValueError(f"feature_names has {len(names)} names for {n} variables: give one for each.")
        mu = tuple(resolve_members(interaction, n, positions_of(names)))
        self.interaction, self.name = mu, interaction_name(mu, names)
        if mu not in model.interactions:
            raise ValueError(f"the model has no interaction {self.name}: choose one of its `interactions`.")
        r = model.interactions.index(mu)
        self.panels = panels(model, r, names)
        if not self.panels:
            raise ValueError(
                f"{self.name} has no nominal variable, and so no table: its weight is {model.weights[r]:.4g}."
            )
        if len(self.panels) > MAX_PANELS:
            raise ValueError(
                f"{self.name} would take {len(self.panels)} pictures (at most {MAX_PANELS}): read model.couplings()."
            )

    @classmethod
    def from_estimator(
        cls, estimator: Any, interaction: Sequence[Any], *, ax: Any = None, **options: Any
    ) -> CouplingTableDisplay:
        """Draw one interaction of a fitted HBM.

        Parameters
        ----------
        estimator : HBM
            Fitted.
        interaction : tuple
            Its variables, by index or name.
        ax : matplotlib Axes or None
            Where to draw; a new figure by default.
        **options : dict
            Of :meth:`plot`.
        """
        require_fitted(estimator)
        return cls(estimator.model_, interaction, feature_names=given_names(estimator)).plot(ax, **options)

    @classmethod
    def from_model(
        cls,
        model: BoltzmannMachine,
        interaction: Sequence[Any],
        *,
        feature_names: Sequence[str] | None = None,
        ax: Any = None,
        **options: Any,
    ) -> CouplingTableDisplay:
        """Draw one interaction of a model.

        Parameters
        ----------
        model : BoltzmannMachine
            Any model.
        interaction : tuple
            Its variables, by index or name.
        feature_names : sequence of str or None
            Names of the variables.
        ax : matplotlib Axes or None
            Where to draw; a new figure by default.
        **options : dict
            Of :meth:`plot`.
        """
        return cls(model, interaction, feature_names=feature_names).plot(ax, **options)

    def plot(self, ax: Any = None, *, colorbar: bool = True, limit: float | None = None) -> CouplingTableDisplay:
        """Draw in a new figure, on as many axes as there are panels, or in the place of one.

        Parameters
        ----------
        ax : matplotlib Axes, one for each panel, or None
            Where to draw, or the place to divide; a new figure by default.
        colorbar : bool
            Whether to draw the scale.
        limit : float or None
            Colours run from −limit to limit, by default the largest weight.
        """
        largest = max(float(np.abs(panel.J).max()) for panel in self.panels)
        limit = limit or largest or 1.0
        rows, columns = self.panels[0].J.shape
        size = (len(self.panels) * np.clip(1.8 + 0.62 * columns, 3.4, 9.0), np.clip(1.7 + 0.45 * rows, 2.2, 9.0))
        self.axes_ = _style.several_axes(ax, len(self.panels), size)
        self.figure_ = self.axes_[0].figure
        self.images_ = [self._draw(axes, panel, limit) for axes, panel in zip(self.axes_, self.panels)]
        self.colorbar_ = None
        if colorbar:
            self.colorbar_ = self.figure_.colorbar(self.images_[-1], ax=self.axes_, shrink=0.9)
            self.colorbar_.set_label("weight (nats)")
        return self

    def _draw(self, ax: Any, panel: Panel, limit: float) -> Any:
        rows, columns = panel.J.shape
        options = {"cmap": _style.DIVERGING, "vmin": -limit, "vmax": limit, "interpolation": "nearest"}
        image = ax.imshow(panel.J, aspect="auto", **options)
        below = [shorten(label, 14) for label in panel.columns]
        turned = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if max(map(len, below)) > 6 else {}
        ax.set_xticks(range(columns), below, parse_math=False, **turned)
        ax.set_yticks(range(rows), [shorten(label, 14) for label in panel.rows], parse_math=False)
        ax.tick_params(length=0)
        ax.set_xlabel(shorten(panel.column_name, 30), parse_math=False)
        ax.set_ylabel(shorten(panel.row_name, 30), parse_math=False)
        ax.set_title(panel.where or self.name, fontsize=10, parse_math=False)
        ax.spines[:].set_visible(False)
        if panel.J.size <= 200:
            digits = max(2, 1 - int(np.floor(np.log10(limit))))
            for (i, j), weight in np.ndenumerate(panel.J):
                colour = "white" if abs(weight) > 0.6 * limit else _style.INK
                text = f"{weight:+.{digits}f}".replace("-", "−")
                ax.text(j, i, text, ha="center", va="center", fontsize=8.5, color=colour)
        return image
