"""CouplingMatrixDisplay: the pair couplings J_ij as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hbm_learn.model import BoltzmannMachine
from hbm_learn.plots import _style

# With more variables than this, names no longer fit at the axes.
MAX_NAMES = 60


class CouplingMatrixDisplay:
    """The matrix of pair couplings J_ij, red for positive and blue for negative.

    Parameters
    ----------
    J : (n, n) symmetric couplings.
    feature_names : (n,) names, or None.

    Attributes
    ----------
    ax_, figure_, image_, colorbar_ : matplotlib objects, after ``plot``.
    """

    def __init__(self, J: np.ndarray, *, feature_names: Sequence[str] | None = None):
        self.J = np.asarray(J, dtype=np.float64)
        if self.J.ndim != 2 or self.J.shape[0] != self.J.shape[1]:
            raise ValueError(f"J has shape {self.J.shape}; expected (n, n).")
        self.feature_names = _style.names_or_numbers(feature_names, len(self.J))

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **options: Any) -> CouplingMatrixDisplay:
        """Draw the pair couplings of a fitted HBM; ``options`` go to ``plot``."""
        return cls(estimator.J_, feature_names=_style.names_of(estimator)).plot(ax, **options)

    @classmethod
    def from_model(
        cls, model: BoltzmannMachine, *, feature_names: Sequence[str] | None = None, ax: Any = None, **options: Any
    ) -> CouplingMatrixDisplay:
        """Draw the pair couplings of a model."""
        return cls(model.J, feature_names=feature_names).plot(ax, **options)

    def plot(self, ax: Any = None, *, colorbar: bool = True, limit: float | None = None) -> CouplingMatrixDisplay:
        """Draw on ``ax``; colours run from −limit to limit, by default the largest |J_ij|."""
        n = len(self.J)
        ax = _style.one_axes(ax, (6.4, 5.4))
        limit = limit or float(np.abs(self.J).max()) or 1.0
        shown = np.ma.array(self.J, mask=np.eye(n, dtype=bool))
        self.image_ = ax.imshow(shown, cmap=_style.DIVERGING, vmin=-limit, vmax=limit, interpolation="nearest")
        ax.set_facecolor("#e6e6e6")  # the diagonal, which holds no coupling
        if n <= MAX_NAMES:
            size = float(np.clip(200 / n, 4.5, 10))
            ax.set_xticks(range(n), self.feature_names, rotation=90, fontsize=size)
            ax.set_yticks(range(n), self.feature_names, fontsize=size)
        ax.tick_params(length=0)
        ax.set_xlabel("variable j")
        ax.set_ylabel("variable i")
        ax.set_title("Pair couplings")
        self.colorbar_ = None
        if colorbar:
            self.colorbar_ = ax.figure.colorbar(self.image_, ax=ax, shrink=0.85)
            self.colorbar_.set_label("coupling $J_{ij}$ (nats)")
        self.ax_, self.figure_ = ax, ax.figure
        return self
