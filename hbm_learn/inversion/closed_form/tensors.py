"""Symmetric tensors of couplings: dense forms and contractions."""

from __future__ import annotations

from itertools import permutations
from math import factorial

import numpy as np
from scipy import sparse

# Bytes of a dense tensor from which it is asked whether most of it is zero, and that is: one entry in so many.
LARGE, _EMPTY = 2**28, 100


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


def is_mostly_empty(block: np.ndarray, n: int) -> bool:
    """Whether a dense tensor of n columns would be large, and nearly all of it zero."""
    size, k = float(n) ** block.shape[1], block.shape[1]
    return 8.0 * size > LARGE and _EMPTY * factorial(k) * len(block) < size


def flat(block: np.ndarray, weights: np.ndarray, n: int) -> sparse.csr_array:
    """(n, n²) the symmetric tensor with the weights of the rows of a (p, 3) block, its last two axes as one."""
    axes = list(permutations(range(3)))
    first = np.concatenate([block[:, a] for a, _, _ in axes])
    rest = np.concatenate([block[:, b] * n + block[:, c] for _, b, c in axes])
    return sparse.csr_array((np.tile(weights, len(axes)), (first, rest)), shape=(n, n * n))


def dense(block: np.ndarray, weights: np.ndarray, n: int) -> np.ndarray:
    """(n,) * k symmetric tensor with the weights of the rows of a (p, k) block, zero elsewhere."""
    out = np.zeros((n,) * block.shape[1])
    for axes in permutations(range(block.shape[1])):
        out[tuple(block[:, axes].T)] = weights
    return out
