"""CouplingMatrixDisplay: the pair interactions as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hbm_learn._validation import choose
from hbm_learn.fitted import require_fitted
from hbm_learn.model import BoltzmannMachine, couplings, require_model
from hbm_learn.names import given_names
from hbm_learn.plots import _style
from hbm_learn.terms import Terms

# With more variables than this, names no longer fit at the axes.
MAX_NAMES = 60


class CouplingMatrixDisplay:
    """Pair interactions J_ij: red for positive, blue for negative, grey for the size of a table of labels.

    Parameters
    ----------
    J : (n, n) array
        Symmetric.
    feature_names : sequence of str or None
        Names of the variables.
    unsigned : (n, n) array of bool or None
        Pairs whose entry is the size of a table over labels, which has no sign.
    label : str
        What the numbers are, beside the colours.

    Attributes
    ----------
    ax_, figure_, image_ : matplotlib objects
        After ``plot``.
    sizes_, colorbar_ : matplotlib objects or None
        The picture of the unsigned entries, and the scale, where they are drawn.
    """

    def __init__(
        self,
        J: np.ndarray,
        *,
        feature_names: Sequence[str] | None = None,
        unsigned: np.ndarray | None = None,
        label: str = "coupling $J_{ij}$ (nats)",
    ):
        self.J, self.label = np.asarray(J, dtype=np.float64), label
        if self.J.ndim != 2 or self.J.shape[0] != self.J.shape[1]:
            raise ValueError(f"J has shape {self.J.shape}; expected (n, n).")
        self.unsigned = np.zeros(self.J.shape, dtype=bool) if unsigned is None else np.asarray(unsigned, dtype=bool)
        if self.unsigned.shape != self.J.shape:
            raise ValueError(f"unsigned has shape {self.unsigned.shape}; expected {self.J.shape}, as J.")
        self.feature_names = _style.names_or_numbers(feature_names, len(self.J))

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, values: str = "effect", ax: Any = None, **options: Any
    ) -> CouplingMatrixDisplay:
        """Draw the pair interactions of a fitted HBM.

        Parameters
        ----------
        estimator : HBM
            Fitted.
        values : {"effect", "weight"}
            With every variable in units of its standard deviation about its mean, or in the user's coding.
        ax : matplotlib Axes or None
            Where to draw; a new figure by default.
        **options : dict
            Of :meth:`plot`.
        """
        require_fitted(estimator)
        result = estimator.result_
        numbers, label = choose(
            "values",
            values,
            {
                "effect": (result.column_effects, r"effect $\tilde{J}_{ij}$"),
                "weight": (result.model.column_weights, "weight $J_{ij}$ (nats)"),
            },
        )
        J, unsigned = pair_matrix(result.terms, numbers)
        return cls(J, feature_names=given_names(estimator), unsigned=unsigned, label=label).plot(ax, **options)

    @classmethod
    def from_model(
        cls, model: BoltzmannMachine, *, feature_names: Sequence[str] | None = None, ax: Any = None, **options: Any
    ) -> CouplingMatrixDisplay:
        """Draw the pair couplings of a model.

        Parameters
        ----------
        model : BoltzmannMachine
            Any model.
        feature_names : sequence of str or None
            Names of the variables.
        ax : matplotlib Axes or None
            Where to draw; a new figure by default.
        **options : dict
            Of :meth:`plot`.
        """
        require_model(model)
        J, unsigned = pair_matrix(model.terms, model.column_weights)
        return cls(J, feature_names=feature_names, unsigned=unsigned).plot(ax, **options)

    def plot(self, ax: Any = None, *, colorbar: bool = True, limit: float | None = None) -> CouplingMatrixDisplay:
        """Draw the matrix.

        Parameters
        ----------
        ax : matplotlib Axes or None
            Where to draw; a new figure by default.
        colorbar : bool
            Whether to draw the scale.
        limit : float or None
            Colours run from −limit to limit, by default the largest coupling.
        """
        n = len(self.J)
        ax = _style.one_axes(ax, (6.4, 5.4))
        limit = limit or float(np.abs(self.J).max()) or 1.0
        ax.set_facecolor("#f2e9d8")  # the diagonal, which holds no interaction
        diagonal = np.eye(n, dtype=bool)
        signed = np.ma.array(self.J, mask=diagonal | self.unsigned)
        self.image_ = ax.imshow(signed, cmap=_style.DIVERGING, vmin=-limit, vmax=limit, interpolation="nearest")
        self.sizes_ = None
        if self.unsigned.any():
            sizes = np.ma.array(self.J, mask=diagonal | ~self.unsigned)
            self.sizes_ = ax.imshow(sizes, cmap=_style.SIZES, vmin=0.0, vmax=1.5 * limit, interpolation="nearest")
        if n <= MAX_NAMES:
            style = {"fontsize": float(np.clip(200 / n, 4.5, 10)), "parse_math": False}
            ax.set_xticks(range(n), self.feature_names, rotation=90, **style)
            ax.set_yticks(range(n), self.feature_names, **style)
        ax.tick_params(length=0)
        ax.set_xlabel("variable j")
        ax.set_ylabel("variable i")
        ax.set_title("Pair interactions" + ("" if self.sizes_ is None else " (grey: size of a table of labels)"))
        self.colorbar_ = None
        if colorbar:
            # The scale of what is there: signed numbers as a rule, sizes if every pair is a table.
            shown = self.image_ if self.sizes_ is None or not (diagonal | self.unsigned).all() else self.sizes_
            self.colorbar_ = ax.figure.colorbar(shown, ax=ax, shrink=0.85)
            self.colorbar_.set_label(self.label)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def pair_matrix(terms: Terms, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, n) values of the pairs x_i x_j, the norm of those with several functions, and which these are."""
    several = (terms.df > 1).astype(np.float64)[terms.group]
    return couplings.tensor(terms, values, 2), couplings.tensor(terms, several, 2) > 0
