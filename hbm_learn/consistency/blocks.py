"""Same-site blocks of matrices over columns: what the diagonal is where every site has one column.

Sites with equally many columns are handled together, as (sites, r, r) stacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hbm_learn.space import Space


class Blocks:
    """The same-site blocks of (N, N) matrices.

    Attributes
    ----------
    sites : list of (g,) arrays
        The sites that have r columns, for each r that occurs.
    columns : list of (g, r) arrays
        Their columns.
    """

    def __init__(self, space: Space):
        r = np.diff(space.column_ptr)
        self.n_sites, self.n_columns = space.n_features, space.n_columns
        self.sites = [np.flatnonzero(r == size) for size in np.unique(r)]
        self.columns = [space.column_ptr[sites][:, None] + np.arange(r[sites[0]]) for sites in self.sites]

    def stacks(self, blocks: Sequence[np.ndarray] | np.ndarray) -> list[np.ndarray]:
        """One (g, r, r) stack for each r, from one block a site (a number for r = 1)."""
        return [
            np.stack([np.asarray(blocks[int(i)], dtype=np.float64).reshape(columns.shape[1], -1) for i in sites])
            for sites, columns in zip(self.sites, self.columns)
        ]

    def by_site(self, stacks: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The inverse of :meth:`stacks`: one (r_i, …) array a site."""
        out: list[np.ndarray] = [np.zeros(0)] * self.n_sites
        for sites, stack in zip(self.sites, stacks):
            for i, block in zip(sites, stack):
                out[i] = block
        return out

    def diagonal(self, matrix: np.ndarray) -> list[np.ndarray]:
        """The same-site blocks of a matrix, as stacks."""
        return [matrix[c[:, :, None], c[:, None, :]] for c in self.columns]

    def matrix(self, stacks: Sequence[np.ndarray]) -> np.ndarray:
        """(N, N) block-diagonal matrix."""
        out = np.zeros((self.n_columns, self.n_columns))
        for c, stack in zip(self.columns, stacks):
            out[c[:, :, None], c[:, None, :]] = stack
        return out

    def add(self, matrix: np.ndarray, stacks: Sequence[np.ndarray]) -> None:
        """matrix += blockdiag(stacks), in place."""
        for c, stack in zip(self.columns, stacks):
            matrix[c[:, :, None], c[:, None, :]] += stack

    def left(self, stacks: Sequence[np.ndarray], x: np.ndarray) -> np.ndarray:
        """blockdiag(stacks) @ x for x (N,) or (N, k)."""
        out = np.empty_like(x, dtype=np.float64)
        for c, stack in zip(self.columns, stacks):
            out[c] = (stack @ (x[c] if x.ndim > 1 else x[c][:, :, None])).reshape(x[c].shape)
        return out

    def right(self, x: np.ndarray, stacks: Sequence[np.ndarray]) -> np.ndarray:
        """x @ blockdiag(stacks) for x (k, N)."""
        return self.left([transpose(stack) for stack in stacks], x.T).T

    def between(self, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
        """The same-site blocks of x yᵀ for x, y (N, k), without the others."""
        return [x[c] @ transpose(y[c]) for c in self.columns]


def transpose(stack: np.ndarray) -> np.ndarray:
    """Of each matrix in a stack."""
    return np.swapaxes(stack, -1, -2)


def inverse(stack: np.ndarray) -> np.ndarray:
    """Of each matrix in a stack; numbers are spared the detour through LAPACK."""
    return 1.0 / stack if stack.shape[-1] == 1 else np.linalg.inv(stack)


def symmetric(stack: np.ndarray) -> np.ndarray:
    """The symmetric part of each matrix in a stack."""
    return 0.5 * (stack + transpose(stack))


def each(function: Callable[..., np.ndarray], *stacks: Sequence[np.ndarray]) -> list[np.ndarray]:
    """function of the stacks, r by r."""
    return [function(*together) for together in zip(*stacks)]
