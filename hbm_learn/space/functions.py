"""The functions φ : X → R^r of one variable, as a (q, r) table over its values, and how two such tables are related."""

from __future__ import annotations

import numpy as np

from hbm_learn.space.alphabet import Alphabet

# What is smaller than this, relative to what it is part of, is rounding.
_ROUNDING = 1e-13


def coding_functions(alphabet: Alphabet, power: int = 1) -> np.ndarray | None:
    """(q, r) functions of the coding gauge; None for continuous values, where there is x alone."""
    if not alphabet.is_finite:
        return None
    q = alphabet.size
    if alphabet.is_nominal:
        return contrasts(q)
    return alphabet.nodes[:, None] ** np.arange(1, min(power, q - 1) + 1)


def contrasts(q: int) -> np.ndarray:
    """(q, q − 1) Helmert contrasts C: columns sum to zero, CᵀC = q; (−1, 1) for q = 2.

    A table over two such sites is C_i J C_jᵀ, and the mean of its squares is Σ J².
    """
    C = np.zeros((q, q - 1))
    for k in range(1, q):
        C[:k, k - 1] = -1.0
        C[k, k - 1] = k
        C[:, k - 1] *= np.sqrt(q / (k * (k + 1.0)))
    return C


def orthonormal(table: np.ndarray, p: np.ndarray, centred: bool = True) -> np.ndarray:
    """(…, q, r) functions that span, with 1, what the columns of ``table`` do, orthonormal under frequencies p (…, q).

    Gram–Schmidt in the order of the columns, so that the first is (φ_1 − m)/s. A value that never occurs has no part in
    it; where the occurring values carry fewer functions than r, ValueError. If not ``centred``, constants are put back
    so that each is a linear combination of the columns of ``table``.
    """
    p = p / p.sum(axis=-1, keepdims=True)
    mean = p[..., None, :] @ table
    weighted = (table - mean) * np.sqrt(p)[..., None]
    R = np.linalg.qr(weighted)[1]
    R *= np.where(np.einsum("...aa->...a", R) < 0, -1.0, 1.0)[..., None]
    # Each column against its own size: x and x³ of large values differ by many powers of ten.
    size = np.abs(table).max(axis=-2) * 1e-4 + np.linalg.norm(weighted, axis=-2)
    poor = (np.einsum("...aa->...a", R) <= 1e-10 * size).any(axis=-1)
    if poor.any():
        seen, r = int(np.count_nonzero(p, axis=-1)[poor].min()), table.shape[-1]
        raise ValueError(f"{r} functions need {r + 1} values that occur, and {seen} do.")
    return (table - mean if centred else table) @ np.linalg.inv(R)


def relation(mine: np.ndarray | None, theirs: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """(c (r,), R (r, r)) with mine = c + theirs R; ValueError if the two span different functions."""
    if mine is None and theirs is None:
        return np.zeros(1), np.eye(1)
    if mine is None or theirs is None or mine.shape != theirs.shape:
        raise ValueError("two gauges of one variable must have the same values and as many functions.")
    if mine is theirs:
        return np.zeros(mine.shape[1]), np.eye(mine.shape[1])
    design = np.column_stack([np.ones(len(theirs)), theirs])
    scale = np.abs(design).max(axis=0)
    solution = np.linalg.lstsq(design / scale, mine, rcond=None)[0]
    if not np.allclose(design / scale @ solution, mine, rtol=1e-9, atol=1e-9 * np.abs(mine).max()):
        raise ValueError("two gauges of one variable must span the same functions.")
    solution[np.abs(solution) <= _ROUNDING * np.abs(solution).max(axis=0)] = 0.0
    solution /= scale[:, None]
    return solution[0], solution[1:]


def straight_lines(mine: np.ndarray, theirs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(c (m,), slope (m,)), ``relation`` of m variables with one function each, (m, q) tables: through the extremes."""
    every = np.arange(len(mine))
    low, high = theirs.argmin(axis=1), theirs.argmax(axis=1)
    slope = (mine[every, high] - mine[every, low]) / (theirs[every, high] - theirs[every, low])
    constant = mine[every, low] - slope * theirs[every, low]
    size = np.abs(mine).max(axis=1)
    if not (np.abs(constant[:, None] + slope[:, None] * theirs - mine).max(axis=1) <= 1e-9 * size).all():
        raise ValueError("two gauges of one variable must span the same functions.")
    return np.where(np.abs(constant) <= _ROUNDING * size, 0.0, constant), slope
