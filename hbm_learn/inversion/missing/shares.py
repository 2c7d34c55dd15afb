"""How much of the information of complete rows is left where cells are missing, for each parameter.

    f_μ = Var_r(⟨t_μ | obs_r⟩) / Var(t_μ) = 1 − ⟨Var(t_μ | obs_r)⟩ / Var(t_μ)

in the standard gauge, where the information of complete rows on a coupling is the variance of its statistic. M rows
tell of J_μ what M f_μ complete ones would.
"""

from __future__ import annotations

import numpy as np

from hbm_learn.data.incomplete import FilledRows
from hbm_learn.data.moments import Moments
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.likelihood.walkers import statistics
from hbm_learn.inversion.parameters import Parameters

# The least share: what was never seen together leans on the prior.
LEAST = 0.01
# Entries of t that are looked at, and that are held at once.
_ENTRIES, _HELD = 2**28, 2**23


def from_copies(parameters: Parameters, rows: FilledRows) -> np.ndarray:
    """(P,) f, from the spread of t among the copies of each row with gaps."""
    space = parameters.space.standard(parameters.frequencies)
    standard = Parameters(space, parameters.columns, parameters.site, parameters.frequencies)
    P, m = standard.n_params, rows.n_copies
    n_whole = len(rows.codes) - m * (len(np.unique(rows.row)) - _n_single(rows))
    whole, copies = slice(0, n_whole), rows.codes[n_whole:].reshape(-1, m, rows.codes.shape[1])
    stride = max(1, P * len(rows.codes) // _ENTRIES)
    first, second, within = np.zeros(P), np.zeros(P), np.zeros(P)
    step, total = max(1, _HELD // (P * m)), 0.0
    codes, w = rows.codes[whole][::stride], rows.weights[whole][::stride]
    for lo in range(0, len(codes), step * m):
        t, mine = statistics(standard, codes[lo : lo + step * m]), w[lo : lo + step * m]
        first, second, total = first + t @ mine, second + t**2 @ mine, total + mine.sum()
    copies, w = copies[::stride], m * rows.weights[n_whole::m][::stride]
    for lo in range(0, len(copies), step):
        mine = w[lo : lo + step]
        t = statistics(standard, copies[lo : lo + step].reshape(-1, copies.shape[2])).reshape(P, -1, m)
        square = (t**2).mean(axis=2)
        mean = t.mean(axis=2)
        first, second, total = first + mean @ mine, second + square @ mine, total + mine.sum()
        within += (square - mean**2) @ mine * (m / (m - 1.0))
    variance = second - first**2 / max(total, 1e-300)
    f = 1.0 - np.divide(within, variance, out=np.zeros(P), where=variance > 0)
    return np.clip(standard.block_means(f), LEAST, 1.0)


def _n_single(rows: FilledRows) -> int:
    """Rows that are there once: those without gaps."""
    return int(rows.observed.all(axis=1).sum())


def from_counts(parameters: Parameters, moments: Moments) -> np.ndarray:
    """(P,) the share of the rows in which all variables of a parameter were observed."""
    space = parameters.space
    alone = Interactions.from_blocks([space.column_ptr[:-1, None]], space.n_columns)
    own = np.repeat(moments.n_observed(alone), np.diff(parameters.own_ptr))
    counts = np.concatenate([own, moments.n_observed(parameters.columns)])
    return np.clip(counts / moments.n_samples, LEAST, 1.0)
