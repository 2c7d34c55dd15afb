"""Tables over all states, an axis of its own size for each variable, and one small matrix an axis that maps them.

A table over (digit_0, …, digit_{n−1}) is flat with site 0 fastest: it has index Σ_i digit_i stride_i, where
stride_i = Π_{j<i} q_j.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import prod
from operator import mul

import numpy as np

from hbm_learn._kernels import transform as kernels
from hbm_learn._threads import in_threads, row_parts

# 2^14 doubles are 128 KiB: the low stages of a block, or all high stages of a strip of columns, stay in the L2 cache,
# so that a table of any size is read and written twice.
_LOW_STAGES = 14
_STRIP = 64
# The first axes, whose runs are short, are mapped together by one matrix of at most this size.
_LOW_SIZE = 32


def strides(sizes: Sequence[int]) -> np.ndarray:
    """(n,) stride of each axis: the product of the sizes before it."""
    return np.array([1, *accumulate(sizes[:-1], mul)], dtype=np.int64)


def transform(x: np.ndarray, W: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """(W_{n−1} ⊗ … ⊗ W_0) x for one (out_i, in_i) matrix an axis; x (Π in_i,) may be overwritten. Returns (Π out_i,).

    With W = [[1, 1], [1, −1]] everywhere the fast Walsh–Hadamard transform: n·2^(n−1) butterflies. Otherwise an axis at
    a time, in the order in which most entries are handled in long contiguous runs.
    """
    shapes = [w.shape for w in W]
    if set(shapes) == {(2, 2)}:
        return _two_point(x, np.ascontiguousarray(W))
    n_low, low = _low_axes(W)
    n_out, n_in = prod(shape[0] for shape in shapes), prod(shape[1] for shape in shapes)
    if n_out > n_in:  # grow from the first axis on, else shrink from the last
        x = _last_axis(x.reshape(-1, low.shape[1]), low)
        run = len(low)
        for w in W[n_low:]:
            x = _one_axis(x.reshape(-1, w.shape[1], run), w)
            run *= len(w)
        return x.reshape(-1)
    run = n_in
    for w in reversed(W[n_low:]):
        run //= w.shape[1]
        x = _one_axis(x.reshape(-1, w.shape[1], run), w)
    return _last_axis(x.reshape(-1, low.shape[1]), low).reshape(-1)


def _low_axes(W: Sequence[np.ndarray] | np.ndarray) -> tuple[int, np.ndarray]:
    """How many of the first axes have at most _LOW_SIZE entries together (one at least), and their matrix."""
    low, n_low = W[0], 1
    for w in W[1:]:
        if max(len(low) * len(w), low.shape[1] * w.shape[1]) > _LOW_SIZE:
            break
        low, n_low = np.kron(w, low), n_low + 1
    return n_low, low


def _two_point(x: np.ndarray, W: np.ndarray) -> np.ndarray:
    low = min(_LOW_STAGES, len(W))
    blocks = x.reshape(-1, 1 << low)
    in_threads(lambda part: kernels.low_stages(blocks[part].reshape(-1), W[:low]), row_parts(len(blocks), 8 * x.size))
    if len(blocks) > 1:
        strips = [(_STRIP * part.start, _STRIP * part.stop) for part in row_parts((1 << low) // _STRIP, 8 * x.size)]
        in_threads(lambda part: kernels.high_stages(blocks, W[low:], _STRIP, *part), strips)
    return x


def _one_axis(x: np.ndarray, W: np.ndarray) -> np.ndarray:
    L, _, R = x.shape
    out, W = np.empty((L, len(W), R)), np.ascontiguousarray(W)
    parts = row_parts(max(L, R), 2 * x.size + out.size)
    bounds = [(part.start, part.stop, 0, R) if L > R else (0, L, part.start, part.stop) for part in parts]
    in_threads(lambda part: kernels.one_axis(x, W, out, *part), bounds)
    return out


def _last_axis(x: np.ndarray, W: np.ndarray) -> np.ndarray:
    out, W = np.empty((len(x), len(W))), np.ascontiguousarray(W)
    parts = row_parts(len(x), len(W) * x.size)
    in_threads(lambda part: kernels.last_axis(x, W, out, part.start, part.stop), parts)
    return out


def halves(sizes: Sequence[int]) -> int:
    """How many of the first axes make up the columns of a table that is as square as can be (no wider than high)."""
    whole, width = prod(sizes), 1
    for i, q in enumerate(sizes):
        width *= q
        if width * width > whole:
            return i
    return len(sizes)


def outer_sum(tables: Sequence[np.ndarray]) -> np.ndarray:
    """(Π q_i,) Σ_i tables[i][digit_i]."""
    out = np.zeros(1)
    for row in tables:
        out = np.add.outer(row, out).reshape(-1)
    return out


def marginals(table: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    """One (q_i,) array an axis: the sums of a flat table over all other digits."""
    split = halves(sizes)
    square = table.reshape(-1, prod(sizes[:split]))
    return _sums(square.sum(axis=0), sizes[:split]) + _sums(square.sum(axis=1), sizes[split:])


def _sums(table: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    return [table.reshape(-1, q, stride).sum(axis=(0, 2)) for q, stride in zip(sizes, strides(sizes).tolist())]


def boltzmann_weights(E: np.ndarray, own: Sequence[np.ndarray]) -> tuple[float, float, float]:
    """E ← w = exp(e − peak), e = E + Σ_i own_i[digit_i], in place. Returns peak, Σ w, Σ w (e − peak)."""
    sizes = [len(table) for table in own]
    split = halves(sizes)
    rows, cols = outer_sum(own[split:]), outer_sum(own[:split])
    square = E.reshape(len(rows), len(cols))
    parts = row_parts(len(square), 8 * E.size)
    peak = max(in_threads(lambda part: kernels.add_sites(square[part], rows[part], cols), parts))
    z, s = np.concatenate(in_threads(lambda part: kernels.exponentiate(square[part], peak), parts)).sum(axis=0)
    if not (np.isfinite(peak) and np.isfinite(z)):
        raise ValueError("the energies of this model exceed float64: scale h, d and the couplings down.")
    return float(peak), float(z), float(s)


def symmetric_matrix(size: int, kernel: Callable[[int, int, np.ndarray], None]) -> np.ndarray:
    """(size, size) of which kernel(first, last, out) fills rows first … last − 1 right of the diagonal, and mirrors."""
    out = np.empty((size, size))
    in_threads(lambda part: kernel(part.start, part.stop, out), row_parts(size, 4 * out.size))
    return out
