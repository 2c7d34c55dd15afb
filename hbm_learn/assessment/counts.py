"""The population count K = Σ_i x_i of 0/1 variables: how many of them are 1."""

from __future__ import annotations

import numpy as np

from hbm_learn.space import Space


def are_events(space: Space) -> bool:
    """Whether all variables are 0/1, so that Σ x counts something."""
    values = None if space.alphabet is None or space.alphabet.is_nominal else space.alphabet.values
    return values is not None and values.tolist() == [0, 1]


def edges(*counts: np.ndarray) -> np.ndarray:
    """Edges of bins about the whole numbers from the least to the largest that occurs."""
    low, high = min(int(c.min()) for c in counts), max(int(c.max()) for c in counts)
    return np.arange(low, high + 2) - 0.5


def histograms(codes: np.ndarray, w: np.ndarray, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges, and the shares of K in rows (M, n) with weights (M,) and in draws (…, n) of a model."""
    data, drawn = codes.sum(axis=-1, dtype=np.int64), draws.sum(axis=-1, dtype=np.int64)
    bins = edges(data, drawn)
    return bins, np.histogram(data, bins, weights=w)[0] / w.sum(), np.histogram(drawn, bins)[0] / drawn.size
