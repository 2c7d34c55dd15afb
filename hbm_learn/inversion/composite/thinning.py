"""Which rows make the matrices of a sandwich where all of them would be too many.

    q_r = w_r Σ_entries (∂ℓ_c φ_e)² / H_e        a row's part of the variance of all scores, in units of their curvature

A score that few rows carry, as that of events that hardly ever coincide, has its variance in these rows alone: every
so many rows would miss them, or count them so many times. The rows with the largest q are all taken, and of the others
every so many.
"""

from __future__ import annotations

import numpy as np

from hbm_learn.data.rows import Block
from hbm_learn.inversion.composite.hessian import diagonal
from hbm_learn.inversion.composite.sums import Composite, Sample


def heavy_and_some(composite: Composite, theta: np.ndarray, most: int) -> tuple[Sample, float]:
    """A sample of at most about so many rows, half of them the heaviest; and its stride on average over the weight.

    Parameters
    ----------
    composite : Composite
    theta : (P,) array
        Where scores are taken.
    most : int
        All rows, if they are no more.
    """
    n_rows = composite.rows.n_rows
    if n_rows <= most:
        return Sample(), 1.0
    q, weight = heaviness(composite, theta)
    n_heavy = most // 2
    heavy = np.zeros(n_rows, dtype=bool)
    heavy[np.argpartition(-q, n_heavy)[:n_heavy]] = True
    stride = -(-(n_rows - n_heavy) // max(most - n_heavy, 1))
    share = float(weight[heavy].sum() / weight.sum())
    return Sample(stride, heavy), share + (1.0 - share) * stride


def heaviness(composite: Composite, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n_rows,) q, and the weights of the rows: two passes."""
    at, N = composite.at(theta), composite.outputs.n_columns
    scale = composite.scale(composite.sums(theta).losses) if composite.log else np.ones(composite.n_features)
    inverse = composite.map.weights(1.0 / diagonal(composite, theta), composite.dtype)
    square = (scale**2)[composite.parameters.field_site][:, None]

    def work(part: Block) -> list[list[np.ndarray]]:
        values = composite.evaluate(part, at, second=False)
        spread = composite.map.fields(inverse, values.Phi**2)
        q = np.sum(square * values.first[:N].astype(np.float64) ** 2 * spread, axis=0)
        return [[part[1] * q], [part[1]]]

    q, weight = composite.over_rows(work)
    return np.concatenate(q), np.concatenate(weight)
