"""PathDisplay: the solution of a mean-field method as its couplings are turned on."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbm_learn.fitted import require_fitted
from hbm_learn.inference import InferenceResult, infer
from hbm_learn.model import BoltzmannMachine
from hbm_learn.plots import _style


class PathDisplay:
    """ln Z and the size of the means along the continuation, from α = 0 (no couplings) to α = 1 (the model).

    Each marker is a point that the solver accepted. A fold, where α turns back for a while, marks strong couplings.

    Parameters
    ----------
    path : (points, 3) array
        α, ln Z, root mean square of m, as in ``InferenceResult.path``.

    Attributes
    ----------
    axes_, figure_ : matplotlib objects
        After ``plot``.
    """

    def __init__(self, path: np.ndarray):
        self.path = np.asarray(path, dtype=np.float64)
        if self.path.ndim != 2 or self.path.shape[1] != 3:
            raise ValueError(f"path has shape {self.path.shape}; expected (points, 3), as InferenceResult.path.")

    @classmethod
    def from_estimator(cls, estimator: Any, *, method: str = "dc", ax: Any = None, **options: Any) -> PathDisplay:
        """Draw the path to the moments of a fitted HBM's model.

        Parameters
        ----------
        estimator : HBM
            Fitted.
        method : str
            A method of ``infer`` that follows a path.
        ax : matplotlib Axes, two of them, or None
            Where to draw, or the place to divide; a new figure by default.
        **options : dict
            Of :meth:`plot`.
        """
        require_fitted(estimator)
        return cls.from_model(estimator.model_, method=method, ax=ax, **options)

    @classmethod
    def from_model(cls, model: BoltzmannMachine, *, method: str = "dc", ax: Any = None, **options: Any) -> PathDisplay:
        """Infer the moments of a model by a method that follows a path, and draw the path.

        Parameters
        ----------
        model : BoltzmannMachine
            Any model.
        method : str
            A method of ``infer`` that follows a path.
        ax : matplotlib Axes, two of them, or None
            Where to draw, or the place to divide; a new figure by default.
        **options : dict
            Of :meth:`plot`.
        """
        return cls.from_predictions(infer(model, method), ax=ax, **options)

    @classmethod
    def from_predictions(cls, result: InferenceResult, *, ax: Any = None, **options: Any) -> PathDisplay:
        """Draw the path of an InferenceResult.

        Parameters
        ----------
        result : InferenceResult
            With a path.
        ax : matplotlib Axes, two of them, or None
            Where to draw, or the place to divide; a new figure by default.
        **options : dict
            Of :meth:`plot`.
        """
        if not isinstance(result, InferenceResult):
            raise ValueError(f"result is of type {type(result).__name__}: give what infer(model) returns.")
        if result.path is None:
            raise ValueError(f'the result of method {result.method!r} has no path: use "dc" with solver "path".')
        return cls(result.path).plot(ax, **options)

    def plot(self, ax: Any = None) -> PathDisplay:
        """Draw two panels, one above the other: in a new figure, on two axes, or in the place of one."""
        self.axes_ = _style.several_axes(ax, 2, (6.0, 4.8), stacked=True)
        alpha = self.path[:, 0]
        panels = [(1, "$\\ln Z$ (nats)", "#0072B2"), (2, "rms of the means", "#D55E00")]
        for axes, (column, name, colour) in zip(self.axes_, panels):
            axes.plot(alpha, self.path[:, column], marker="o", markersize=3.5, color=colour, linewidth=1.3)
            axes.set_ylabel(name)
            axes.axvline(1.0, color=_style.FAINT, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
            _style.clean(axes)
        self.axes_[0].set_title(f"From independent variables to the model, in {len(alpha)} points")
        self.axes_[0].tick_params(labelbottom=False)
        self.axes_[0].sharex(self.axes_[1])
        self.axes_[1].set_xlabel("strength of the couplings α")
        self.figure_ = self.axes_[0].figure
        return self
