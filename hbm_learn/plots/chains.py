"""ChainsDisplay: traces of the energy of Gibbs chains, and R-hat of every variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hbm_learn._validation import check_integer
from hbm_learn.fitted import require_fitted
from hbm_learn.model import BoltzmannMachine, require_model
from hbm_learn.names import given_names
from hbm_learn.plots import _style
from hbm_learn.sampling import sample
from hbm_learn.sampling.diagnostics import R_HAT_LIMIT, split_r_hat, traces

# Chains drawn, at most; all of them count in R-hat.
MAX_TRACES = 4


class ChainsDisplay:
    """Do the chains agree? Energies H(x) along each chain, and the split R-hat of every variable and of the energy.

    Parameters
    ----------
    energies : (n_draws, n_chains) array
        H(x).
    r_hat : (n,) array
        Of the variables.
    feature_names : sequence of str or None
        Names of the variables.

    Attributes
    ----------
    energy_r_hat : float
        R-hat of H(x).
    axes_, figure_ : matplotlib objects
        After ``plot``.
    """

    def __init__(self, energies: np.ndarray, r_hat: np.ndarray, *, feature_names: Sequence[str] | None = None):
        self.energies, self.r_hat = np.asarray(energies, dtype=np.float64), np.asarray(r_hat, dtype=np.float64)
        if self.energies.ndim != 2:
            raise ValueError(f"energies has shape {self.energies.shape}; expected (n_draws, n_chains).")
        self.energy_r_hat = float(split_r_hat(self.energies[:, :, None])[0])
        self.feature_names = _style.names_or_numbers(feature_names, len(self.r_hat))

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **options: Any) -> ChainsDisplay:
        """Sample the model of a fitted HBM, and show how the chains settle.

        Parameters
        ----------
        estimator : HBM
            Fitted.
        ax : matplotlib Axes, two of them, or None
            Where to draw, or the place to divide; a new figure by default.
        **options : dict
            Of :meth:`from_model`.
        """
        require_fitted(estimator)
        return cls.from_model(estimator.model_, feature_names=given_names(estimator), ax=ax, **options)

    @classmethod
    def from_model(
        cls,
        model: BoltzmannMachine,
        *,
        n_draws: int = 500,
        n_chains: int = 8,
        thin: int = 1,
        burn_in: int = 0,
        random_state: Any = 0,
        feature_names: Sequence[str] | None = None,
        ax: Any = None,
    ) -> ChainsDisplay:
        """Run Gibbs chains from independent draws, and show how they settle.

        Parameters
        ----------
        model : BoltzmannMachine
            Any model.
        n_draws : int
            Draws of each chain.
        n_chains : int
            Number of chains.
        thin : int
            Sweeps between draws.
        burn_in : int
            Sweeps dropped at the start; 0 shows the whole way.
        random_state : int, Generator or None
            Seed of the chains.
        feature_names : sequence of str or None
            Names of the variables.
        ax : matplotlib Axes, two of them, or None
            Where to draw, or the place to divide; a new figure by default.
        """
        require_model(model)
        check_integer("n_draws", n_draws, 4)
        check_integer("n_chains", n_chains, 1)
        X = sample(model, n_draws * n_chains, random_state=random_state, n_chains=n_chains, thin=thin, burn_in=burn_in)
        return cls.from_predictions(X, model, n_chains=n_chains, feature_names=feature_names, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        X: Any,
        model: BoltzmannMachine,
        *,
        n_chains: int,
        feature_names: Sequence[str] | None = None,
        ax: Any = None,
    ) -> ChainsDisplay:
        """Show samples as ``sample`` returns them: row t·n_chains + c is draw t of chain c.

        R-hat of a variable with several functions, as one of three or more labels, is that of the worst of them.

        Parameters
        ----------
        X : (n_samples, n) array
            Values or labels.
        model : BoltzmannMachine
            What they were drawn from.
        n_chains : int
            Number of chains.
        feature_names : sequence of str or None
            Names of the variables.
        ax : matplotlib Axes, two of them, or None
            Where to draw, or the place to divide; a new figure by default.
        """
        require_model(model)
        n_draws = len(X) // check_integer("n_chains", n_chains, 1)
        if n_draws < 4:
            raise ValueError(f"{len(X)} rows of {n_chains} chains are {n_draws} draws of each: at least 4 are needed.")
        X = np.asarray(X)[: n_draws * n_chains]
        energies = model.energy(X).reshape(n_draws, n_chains)
        columns = traces(model, model.space.encode(X).reshape(n_draws, n_chains, -1))[:, :, :-1]
        r_hat = np.fmax.reduceat(split_r_hat(columns), model.space.column_ptr[:-1])
        return cls(energies, r_hat, feature_names=feature_names).plot(ax)

    def plot(self, ax: Any = None) -> ChainsDisplay:
        """Draw traces above and R-hat below: in a new figure, on two axes, or in the place of one."""
        self.axes_ = _style.several_axes(ax, 2, (7.0, 5.4), stacked=True)
        self._traces(self.axes_[0])
        self._r_hats(self.axes_[1])
        self.figure_ = self.axes_[0].figure
        return self

    def _traces(self, ax: Any) -> None:
        n_chains = self.energies.shape[1]
        for c in range(min(n_chains, MAX_TRACES)):
            ax.plot(self.energies[:, c], color=_style.CHAIN_COLOURS[c], linewidth=0.7, alpha=0.8)
        shown = f"{n_chains} chains" if n_chains <= MAX_TRACES else f"{MAX_TRACES} of {n_chains} chains"
        ax.set_title(f"{shown}: R-hat of the energy is {self.energy_r_hat:.3f}")
        ax.set_xlabel("draw")
        ax.set_ylabel("energy $H(x)$ (nats)")
        _style.clean(ax)

    def _r_hats(self, ax: Any) -> None:
        n = len(self.r_hat)
        finite = np.where(np.isfinite(self.r_hat), self.r_hat, np.nan)
        agree = self.r_hat <= R_HAT_LIMIT
        at = np.arange(n)
        ax.vlines(at, 1.0, finite, color=_style.FAINT, linewidth=1)
        ax.plot(at[agree], finite[agree], "o", color="#0072B2", markersize=5, label="agree")
        if not agree.all():
            ax.plot(at[~agree], finite[~agree], "X", color="#D55E00", markersize=7, label="disagree")
        ax.axhline(R_HAT_LIMIT, color=_style.INK, linestyle=(0, (4, 3)), linewidth=1, label=f"limit {R_HAT_LIMIT}")
        if n <= 60:
            size = float(np.clip(250 / n, 5, 10))
            ax.set_xticks(at, self.feature_names, rotation=90, fontsize=size, parse_math=False)
        ax.set_xlabel("variable")
        ax.set_ylabel("split R-hat")
        ax.legend(frameon=False, fontsize=8.5, ncols=3, loc="upper right")
        ax.margins(y=0.25)
        _style.clean(ax)
