"""Symmetric tensors, packed: one entry for each multiset i₁ ≤ i₂ ≤ … ≤ i_k of indices, at

    rank(i₁, …, i_k) = Σ_r C(i_r + r − 1, r),   r = 1 … k,

the colexicographic order, so that i₁ runs fastest and an entry's place does not depend on n.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np

from hbm_learn._kernels.compiled import njit


def packed_size(n: int, order: int) -> int:
    """Number of multisets of ``order`` indices out of n."""
    return comb(n + order - 1, order)


def rank(rows: np.ndarray) -> np.ndarray:
    """Place of each row of an (r, k) array of non-decreasing indices, shape (r,)."""
    out = np.zeros(len(rows), dtype=np.int64)
    for r in range(rows.shape[1]):
        falling, factorial = np.ones(len(rows), dtype=np.int64), 1
        for step in range(r + 1):
            falling *= rows[:, r] + step
            factorial *= step + 1
        out += falling // factorial
    return out


def multisets(n: int, order: int) -> np.ndarray:
    """(packed_size, order) all non-decreasing rows of indices below n, in the order of :func:`rank`."""
    rows = np.zeros((1, 0), dtype=np.int64)
    for r in range(order):
        # The rows of r indices whose last is at most i are a prefix of all, of length packed_size(i + 1, r).
        counts = [packed_size(i + 1, r) for i in range(n)]
        prefix = np.concatenate([np.arange(count) for count in counts])
        rows = np.column_stack([rows[prefix], np.repeat(np.arange(n), counts)])
    return rows


def pack_all(*tensors: Any) -> list[np.ndarray]:
    """Packed forms of dense symmetric tensors of orders 1, 2, …, checked; those that are None at the end left out."""
    while tensors[-1] is None:
        tensors = tensors[:-1]
    n = np.size(tensors[0])
    packed = []
    for k, tensor in enumerate(tensors, start=1):
        T = np.asarray(tensor, dtype=np.float64)
        if T.shape != (n,) * k or n == 0:
            raise ValueError(f"the moments of order {k} have shape {T.shape}; expected {(n,) * k}.")
        if not np.isfinite(T).all():
            first = tuple(np.argwhere(~np.isfinite(T))[0].tolist())
            raise ValueError(f"the moments of order {k} are not finite at {first}.")
        for axis in range(1, k):
            if not np.allclose(T, np.swapaxes(T, 0, axis), rtol=1e-7, atol=1e-10 * np.abs(T).max()):
                raise ValueError(f"the moments of order {k} are not symmetric in their indices.")
        packed.append(T[tuple(multisets(n, k).T)])
    return packed


def shifted(S0: float, sums: Sequence[np.ndarray], c: np.ndarray) -> tuple[np.ndarray, ...]:
    """The sums of Π (y − c) of each order, from those of Π y and S0 = Σ 1."""
    kernels: tuple[Any, ...] = (shift2, shift3, shift4)
    return sums[0] - c * S0, *(kernels[k - 2](S0, *sums[:k], c) for k in range(2, len(sums) + 1))


def mapped(sums: Sequence[np.ndarray], first: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, ...]:
    """The sums of Π z of each order, z_c = Σ_a weights[c, a] y_{first[c] + a}, from those of Π y.

    Parameters
    ----------
    sums : sequence of packed arrays
        S_1, S_2, … of y; y beyond the last has no part in any z of weight 0.
    first : (N,) int64
        Non-decreasing: columns of one site share their sources, and those of a later site have later ones.
    weights : (N, B) array
        Zero where a column has fewer than B sources.
    """
    weights = np.array(weights)  # not read-only, for which the kernels would be compiled once more
    used = (weights != 0) * np.arange(1, weights.shape[1] + 1)
    return tuple(_MAPS[k](S, first, used.max(axis=1), weights) for k, S in enumerate(sums, start=1))


def scaled(sums: Sequence[np.ndarray], scale: np.ndarray, order: int = 1) -> tuple[np.ndarray, ...]:
    """The sums of Π (scale y) from those of Π y, of orders from ``order`` on."""
    n = len(scale)
    own = (np.arange(n), np.ones(n, dtype=np.int64), np.array(scale)[:, None])
    return tuple(_MAPS[k](S, *own) for k, S in enumerate(sums, start=order))


@njit(cache=True, nogil=True)
def expand2(packed, n):
    """Dense (n, n)."""
    out = np.empty((n, n), dtype=packed.dtype)
    p = 0
    for j in range(n):
        for i in range(j + 1):
            out[i, j] = out[j, i] = packed[p]
            p += 1
    return out


@njit(cache=True, nogil=True)
def expand3(packed, n):
    """Dense (n, n, n)."""
    out = np.empty((n, n, n), dtype=packed.dtype)
    p = 0
    for k in range(n):
        for j in range(k + 1):
            for i in range(j + 1):
                out[i, j, k] = out[i, k, j] = out[j, i, k] = packed[p]
                out[j, k, i] = out[k, i, j] = out[k, j, i] = packed[p]
                p += 1
    return out


@njit(cache=True, nogil=True)
def expand4(packed, n):
    """Dense (n, n, n, n)."""
    out = np.empty((n, n, n, n), dtype=packed.dtype)
    start = 0
    for l in range(n):
        size = (l + 1) * (l + 2) * (l + 3) // 6
        block = expand3(packed[start : start + size], l + 1)
        start += size
        for i in range(l + 1):
            for j in range(l + 1):
                for k in range(l + 1):
                    out[i, j, k, l] = out[i, j, l, k] = out[i, l, j, k] = out[l, i, j, k] = block[i, j, k]
    return out


@njit(cache=True, nogil=True, inline="always")
def _at2(S, i, j):
    return S[i + j * (j + 1) // 2]


@njit(cache=True, nogil=True, inline="always")
def _at3(S, i, j, k):
    return S[i + j * (j + 1) // 2 + k * (k + 1) * (k + 2) // 6]


@njit(cache=True, nogil=True)
def shift2(S0, S1, S2, c):
    """Σ (y_i − c_i)(y_j − c_j), packed, from the sums S0 = Σ 1, S1 = Σ y_i, S2 = Σ y_i y_j."""
    out = np.empty_like(S2)
    p = 0
    for j in range(len(c)):
        for i in range(j + 1):
            out[p] = S2[p] - c[i] * S1[j] - c[j] * S1[i] + c[i] * c[j] * S0
            p += 1
    return out


@njit(cache=True, nogil=True)
def shift3(S0, S1, S2, S3, c):
    """Σ (y_i − c_i)(y_j − c_j)(y_k − c_k), packed."""
    out = np.empty_like(S3)
    p = 0
    for k in range(len(c)):
        for j in range(k + 1):
            for i in range(j + 1):
                singles = c[i] * _at2(S2, j, k) + c[j] * _at2(S2, i, k) + c[k] * _at2(S2, i, j)
                pairs = c[j] * c[k] * S1[i] + c[i] * c[k] * S1[j] + c[i] * c[j] * S1[k]
                out[p] = S3[p] - singles + pairs - c[i] * c[j] * c[k] * S0
                p += 1
    return out


@njit(cache=True, nogil=True)
def shift4(S0, S1, S2, S3, S4, c):
    """Σ (y_i − c_i)(y_j − c_j)(y_k − c_k)(y_l − c_l), packed."""
    out = np.empty_like(S4)
    p = 0
    for l in range(len(c)):
        for k in range(l + 1):
            for j in range(k + 1):
                for i in range(j + 1):
                    singles = (
                        c[i] * _at3(S3, j, k, l)
                        + c[j] * _at3(S3, i, k, l)
                        + c[k] * _at3(S3, i, j, l)
                        + c[l] * _at3(S3, i, j, k)
                    )
                    pairs = (
                        c[i] * (c[j] * _at2(S2, k, l) + c[k] * _at2(S2, j, l) + c[l] * _at2(S2, j, k))
                        + c[j] * (c[k] * _at2(S2, i, l) + c[l] * _at2(S2, i, k))
                        + c[k] * c[l] * _at2(S2, i, j)
                    )
                    triples = c[j] * c[k] * (c[l] * S1[i] + c[i] * S1[l]) + c[i] * c[l] * (c[k] * S1[j] + c[j] * S1[k])
                    out[p] = S4[p] - singles + pairs - triples + c[i] * c[j] * c[k] * c[l] * S0
                    p += 1
    return out


@njit(cache=True, nogil=True, inline="always")
def _any2(S, i, j):
    return _at2(S, min(i, j), max(i, j))


@njit(cache=True, nogil=True, inline="always")
def _any3(S, i, j, k):
    low, high = min(i, j, k), max(i, j, k)
    return _at3(S, low, i + j + k - low - high, high)


@njit(cache=True, nogil=True, inline="always")
def _any4(S, i, j, k, l):
    high = max(i, j, k, l)
    if i == high:
        i = l
    elif j == high:
        j = l
    elif k == high:
        k = l
    low, top = min(i, j, k), max(i, j, k)
    mid = i + j + k - low - top
    three = low + mid * (mid + 1) // 2 + top * (top + 1) * (top + 2) // 6
    return S[three + high * (high + 1) * (high + 2) * (high + 3) // 24]


@njit(cache=True, nogil=True)
def _map1(S, first, count, w):
    out = np.zeros(len(first), dtype=(S[:1] * w[0, :1]).dtype)
    for i in range(len(first)):
        for a in range(count[i]):
            out[i] += w[i, a] * S[first[i] + a]
    return out


@njit(cache=True, nogil=True)
def _map2(S, first, count, w):
    N = len(first)
    out = np.zeros(N * (N + 1) // 2, dtype=(S[:1] * w[0, :1]).dtype)
    p = 0
    for j in range(N):
        for i in range(j + 1):
            for b in range(count[j]):
                for a in range(count[i]):
                    out[p] += w[j, b] * w[i, a] * _any2(S, first[i] + a, first[j] + b)
            p += 1
    return out


@njit(cache=True, nogil=True)
def _map3(S, first, count, w):
    N = len(first)
    out = np.zeros(N * (N + 1) * (N + 2) // 6, dtype=(S[:1] * w[0, :1]).dtype)
    p = 0
    for k in range(N):
        for j in range(k + 1):
            for i in range(j + 1):
                for c in range(count[k]):
                    for b in range(count[j]):
                        head = w[k, c] * w[j, b]
                        for a in range(count[i]):
                            out[p] += head * w[i, a] * _any3(S, first[i] + a, first[j] + b, first[k] + c)
                p += 1
    return out


@njit(cache=True, nogil=True)
def _map4(S, first, count, w):
    N = len(first)
    out = np.zeros(N * (N + 1) * (N + 2) * (N + 3) // 24, dtype=(S[:1] * w[0, :1]).dtype)
    p = 0
    for l in range(N):
        for k in range(l + 1):
            for j in range(k + 1):
                for i in range(j + 1):
                    for d in range(count[l]):
                        for c in range(count[k]):
                            for b in range(count[j]):
                                head = w[l, d] * w[k, c] * w[j, b]
                                for a in range(count[i]):
                                    out[p] += (
                                        head
                                        * w[i, a]
                                        * _any4(S, first[i] + a, first[j] + b, first[k] + c, first[l] + d)
                                    )
                    p += 1
    return out


@njit(cache=True, nogil=True)
def pairings(C, n):
    """C_ij C_kl + C_ik C_jl + C_il C_jk, packed over i ≤ j ≤ k ≤ l, from packed C."""
    out = np.empty(n * (n + 1) * (n + 2) * (n + 3) // 24, dtype=C.dtype)
    p = 0
    for l in range(n):
        for k in range(l + 1):
            for j in range(k + 1):
                for i in range(j + 1):
                    out[p] = (
                        _at2(C, i, j) * _at2(C, k, l) + _at2(C, i, k) * _at2(C, j, l) + _at2(C, i, l) * _at2(C, j, k)
                    )
                    p += 1
    return out


_MAPS: dict[int, Any] = {1: _map1, 2: _map2, 3: _map3, 4: _map4}
