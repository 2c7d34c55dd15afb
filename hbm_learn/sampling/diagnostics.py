"""Convergence of chains: R-hat and effective sample size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hbm_learn.model import BoltzmannMachine

R_HAT_LIMIT = 1.01
# Nested R-hat up to which chains from different starts count as one population.
AGREEMENT = 1.05


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """What ``sample(…, return_diagnostics=True)`` adds to the samples.

    Attributes
    ----------
    r_hat, ess_bulk : (n,) arrays
        Rank-normalised split R-hat and bulk effective sample size (Vehtari et al. 2021, by ArviZ) of each variable, the
        worst of its functions if it has several; NaN for a variable that never changed.
    energy_r_hat, energy_ess_bulk : float
        The same of H(x).
    n_chains, n_draws : int
        Chains, and draws from each.
    status : str
        A sentence that says whether the chains agree.
    ladder, swap_acceptance : (R,) and (R − 1,) arrays
        Coupling strengths, and mean acceptance of swaps of neighbours ("tempering").
    """

    r_hat: np.ndarray
    ess_bulk: np.ndarray
    energy_r_hat: float
    energy_ess_bulk: float
    n_chains: int
    n_draws: int
    status: str
    ladder: np.ndarray | None = None
    swap_acceptance: np.ndarray | None = None


def import_arviz() -> Any:
    """The array functions of arviz_stats, or an ImportError that says how to get them."""
    try:
        from arviz_stats.base import array_stats
    except ImportError as error:
        raise ImportError("return_diagnostics=True needs ArviZ: pip install 'hbm-learn[diagnostics]'.") from error
    return array_stats


def check_draws(n_draws: int, n_chains: int) -> None:
    """Refuse diagnostics of chains that are too short for them, before any work is done."""
    if n_draws < 4:
        raise ValueError(
            f"return_diagnostics=True needs 4 draws from each chain, and {n_chains} chains give {n_draws} each: "
            f"raise n_samples to at least {4 * n_chains}, or lower n_chains."
        )


def diagnose(model: BoltzmannMachine, draws: np.ndarray, **extra: Any) -> Diagnostics:
    """Diagnostics of (n_draws, n_chains, n) codes."""
    arviz = import_arviz()
    n_draws, n_chains, n = draws.shape
    columns = traces(model, draws).transpose(2, 1, 0)
    moved = (columns != columns[:, :1, :1]).any(axis=(1, 2))
    r_hat, ess = np.full(len(columns), np.nan), np.full(len(columns), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):  # a variable constant within each chain: R-hat is infinite
        r_hat[moved] = arviz.rhat(columns[moved], chain_axis=1, draw_axis=2)
        ess[moved] = arviz.ess(columns[moved], chain_axis=1, draw_axis=2)
    first = np.append(model.space.column_ptr[:-1], len(columns) - 1)  # H(x) is the last
    r_hat, ess = np.fmax.reduceat(r_hat, first), np.fmin.reduceat(ess, first)
    moved = np.logical_or.reduceat(moved, first)
    return Diagnostics(
        r_hat=r_hat[:n],
        ess_bulk=ess[:n],
        energy_r_hat=float(r_hat[n]),
        energy_ess_bulk=float(ess[n]),
        n_chains=n_chains,
        n_draws=n_draws,
        status=_sentence(r_hat, moved, "more n_replicas" if "ladder" in extra else 'method "tempering"'),
        **extra,
    )


def traces(model: BoltzmannMachine, draws: np.ndarray) -> np.ndarray:
    """(n_draws, n_chains, N + 1) the columns φ and H(x) of (n_draws, n_chains, n) codes."""
    codes = draws.reshape(-1, draws.shape[2])
    out = np.column_stack([model.space.columns(codes), model.energy_of_codes(codes)])
    return out.reshape(*draws.shape[:2], -1)


def _sentence(r_hat: np.ndarray, moved: np.ndarray, remedy: str) -> str:
    if not moved.any():
        return "no variable ever changed: the chains are frozen, or the model has one state."
    worst = float(np.max(r_hat[moved]))  # NaN if any is
    frozen = f" {int((~moved[:-1]).sum())} variable(s) never changed." if not moved[:-1].all() else ""
    if worst <= R_HAT_LIMIT:
        return f"the chains agree: R-hat is at most {worst:.4f} (limit {R_HAT_LIMIT}).{frozen}"
    return (
        f"the chains disagree: R-hat reaches {worst:.4f} (limit {R_HAT_LIMIT}); raise burn_in, thin or n_samples, "
        f"or try {remedy}.{frozen}"
    )


def split_r_hat(draws: np.ndarray) -> np.ndarray:
    """√(((N − 1)/N W + B/N)/W) over the halves of each chain, for (n_draws, n_chains, k) draws; shape (k,).

    W is the mean variance within a half, B/N the variance of their means. Written out because ``infer`` must say
    whether it converged with or without ArviZ, and in the same way. A constant column has R-hat 1; one that is constant
    in every half but not overall, infinity.
    """
    N = len(draws) // 2
    halves = np.concatenate([draws[:N], draws[-N:]], axis=1)
    W = halves.var(axis=0, ddof=1).mean(axis=0)
    between = halves.mean(axis=0).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        r_hat = np.sqrt((N - 1) / N + between / W)
    rounding = 1e-24 * (halves**2).mean(axis=(0, 1))  # the energy of one state, summed in different orders
    return np.where(rounding >= between, 1.0, r_hat)


def nested_r_hat(draws: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """√(1 + B/W) of populations of chains, for (n_draws, n_chains, k) draws; shape (k,).

    W is the mean variance within a population, B the variance of their means (Margossian et al. 2024): many short
    chains need not forget each its own start, if populations from different starts have come to the same.

    Parameters
    ----------
    draws : (n_draws, n_chains, k) array
    kind : (n_chains,) array
        The population of each chain.
    """
    parts = [draws[:, kind == each] for each in np.unique(kind)]
    W = np.mean([part.var(axis=(0, 1)) for part in parts], axis=0)
    B = np.var([part.mean(axis=(0, 1)) for part in parts], axis=0, ddof=1)
    rounding = 1e-24 * (draws**2).mean(axis=(0, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(rounding >= B, 1.0, np.sqrt(1.0 + B / W))
