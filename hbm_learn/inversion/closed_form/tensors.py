"""Symmetric tensors of couplings: dense forms and contractions."""

from __future__ import annotations

from itertools import permutations

import numpy as np


def apply_everywhere(P: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Σ P_ai P_bj … K_ij…: one matrix product on each axis; contracting the first and appending it cycles the axes."""
    shape = K.shape
    for _ in shape:
        K = K.reshape(len(P), -1).T @ P
    return K.reshape(shape)


def contract(tensors: dict[int, np.ndarray], k: int, m: np.ndarray) -> np.ndarray | float:
    """Σ_{j>k} J^(j) m^(j−k)/(j−k)!: what higher orders add to the k-th derivative of the coupling polynomial at m."""
    total: np.ndarray | float = 0.0
    for j, tensor in tensors.items():
        for r in range(1, j - k + 1):
            tensor = tensor @ m / r
        total = total + tensor
    return total


def dense(block: np.ndarray, weights: np.ndarray, n: int) -> np.ndarray:
    """(n,) * k symmetric tensor with the weights of the rows of a (p, k) block, zero elsewhere."""
    out = np.zeros((n,) * block.shape[1])
    for axes in permutations(range(block.shape[1])):
        out[tuple(block[:, axes].T)] = weights
    return out
