"""Which rows make the matrices of a sandwich where all of them would be too many.

    q_r = w_r Σ_entries (∂ℓ_c φ_e)² / H_e        a row's part of the variance of all scores, in units of their curvature

A score that few rows carry, as that of events that hardly ever coincide, has its variance in these rows alone: every
so many rows would miss them, or count them so many times. The rows with the largest q are all taken, and of the others
every so many.
"""

from __future__ import annotations

import numpy as np

from hbm_learn.data.chunks import Chunks
from hbm_learn.data.reduce import each, reduce
from hbm_learn.data.rows import Block
from hbm_learn.inversion.composite.hessian import diagonal
from hbm_learn.inversion.composite.sums import Composite, Sample, sum_of


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
    q = heaviness(composite, theta)
    n_heavy = most // 2
    stride = -(-(n_rows - n_heavy) // max(most - n_heavy, 1))
    if isinstance(q, Chunks):
        rounded = q.then(lambda block: (_rounded(block[0]), block[1]))
        heavy, share = _largest_there(rounded, n_heavy)
        return Sample(stride, heavy), share + (1.0 - share) * stride
    values, weight = _rounded(q[0]), q[1]
    least, n_larger = _Largest(values, n_heavy).least()
    mine = _first_of(values, least, n_heavy - n_larger)
    share = float(weight[mine].sum() / weight.sum())
    return Sample(stride, mine), share + (1.0 - share) * stride


def heaviness(composite: Composite, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray] | Chunks:
    """(n_rows,) q, and the weights of the rows: two passes. Chunks of both where the rows are."""
    at, N = composite.at(theta), composite.outputs.n_columns
    scale = composite.scale(composite.sums(theta).losses) if composite.log else np.ones(composite.n_features)
    inverse = composite.map.weights(1.0 / diagonal(composite, theta), composite.dtype)
    square = (scale**2)[composite.parameters.field_site][:, None]

    def work(part: Block) -> list[list[np.ndarray]]:
        values = composite.evaluate(part, at, second=False)
        spread = composite.map.fields(inverse, values.Phi**2)
        q = np.sum(square * values.first[:N].astype(np.float64) ** 2 * spread, axis=0)
        return [[part[1] * q], [part[1]]]

    def of_block(block: Block) -> tuple[np.ndarray, ...]:
        q, weight = sum_of(map(work, composite.parts(block)))
        return np.concatenate(q), np.concatenate(weight)

    rows = composite.rows.blocks()
    if isinstance(rows, Chunks):
        return rows.then(of_block).kept(16 * composite.rows.n_rows)
    q, weight = composite.over_rows(work)
    return np.concatenate(q), np.concatenate(weight)


def _largest_there(q: Chunks, n_heavy: int) -> tuple[Chunks, float]:
    """Chunks of which rows have the largest q, so many in all, and their share of the weight.

    Of rows that are equal to the smallest of these the first ones are taken.
    """
    least, n_larger = reduce(lambda block: [_Largest(block[0], n_heavy)], q, last=lambda sums: sums[0].least())
    ties = np.array(list(each(lambda block: int(np.sum(block[0] == least)), q)))
    left = n_heavy - n_larger
    taken = np.clip(left - np.cumsum(ties) + ties, 0, ties).tolist()

    heavy = q.beside(taken).then(lambda block: _first_of(block[0], least, block[2])).kept(q.n_rows)
    mine, whole = reduce(lambda block: [block[1][block[2]].sum(), block[1].sum()], q.beside_chunks(heavy))
    return heavy, float(mine / whole)


def _first_of(values: np.ndarray, least: float, n: int) -> np.ndarray:
    """Which are larger than the least, and the first n of those that are equal to it."""
    heavy = values > least
    heavy[np.flatnonzero(values == least)[:n]] = True
    return heavy


def _rounded(values: np.ndarray) -> np.ndarray:
    """To twelve bits, so that rows whose q differ by the rounding of single precision count as equal."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.rint(mantissa * 2.0**12), exponent - 12)


class _Largest:
    """So many of the largest of some numbers."""

    def __init__(self, values: np.ndarray, most: int):
        self.most = most
        self.values = values if len(values) <= most else np.partition(values, len(values) - most)[-most:]

    def __add__(self, other: _Largest) -> _Largest:
        return _Largest(np.concatenate([self.values, other.values]), self.most)

    def least(self) -> tuple[float, int]:
        """The smallest of them, and how many are larger."""
        least = float(self.values.min())
        return least, int(np.sum(self.values > least))
