"""Losses of each site given the others, and what they depend on: the outputs η of each site.

    ℓ_i = ℓ(x_i; η_i),     η_ik = own_ik + F_ik for the columns of site i, own_ik for its other own functions (extras)

Two-valued sites have one output and are treated together, with NumPy's vectorised functions; others by a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from hbm_learn._kernels import conditional
from hbm_learn.inversion.parameters import Parameters


class Loss(NamedTuple):
    """A loss for sites with two values and one for others, see ``_kernels.conditional``."""

    binary: Callable[..., np.ndarray]
    finite: Callable[..., None]
    centred: bool  # whether O is taken less its average over the values of a site

    def __reduce__(self) -> Any:
        # Kernels go to other processes by name: these have them compiled.
        return _named, (self.binary.__name__, self.finite.__name__, self.centred)


def _named(binary: str, finite: str, centred: bool) -> Loss:
    return Loss(getattr(conditional, binary), getattr(conditional, finite), centred)


class Outputs:
    """The outputs of all sites, columns first, and the pairs of them that a second derivative can have.

    Attributes
    ----------
    n_columns, n_extras : int
        N' columns of modelled sites, then the extras.
    params : (N' + extras,) array
        The own parameter of each output.
    site : (N' + extras,) array
    index, ptr : (N' + extras,), (n + 1,) arrays
        The outputs of site i in the order of its own functions are ``index[ptr[i]:ptr[i + 1]]``.
    pair, pair_ptr : (Σ o_i²,), (n + 1,) arrays
        Where the second derivatives of site i stand, as a symmetric o_i × o_i matrix of positions.
    n_pairs, n_row_pairs : int
        All pairs, and those with at least one column, which come first: of two extras only the sum over rows matters.
    """

    def __init__(self, parameters: Parameters):
        space = parameters.space
        sizes, r = np.diff(parameters.own_ptr), np.diff(parameters.field_ptr)
        is_extra = np.ones(parameters.n_own, dtype=bool)
        is_extra[parameters.column_params] = False
        self.params = np.concatenate([parameters.column_params, np.flatnonzero(is_extra)])
        self.site = np.repeat(np.arange(space.n_features), sizes)[self.params]
        self.n_columns, self.n_extras = len(parameters.fields), int(is_extra.sum())
        self.index, self.ptr = np.argsort(self.params), parameters.own_ptr
        self.pair_ptr = np.concatenate([[0], np.cumsum(sizes**2)])
        self.n_row_pairs = int((r * sizes - r * (r - 1) // 2).sum())
        self.pair, self.n_pairs = _pairs(sizes, r, self.n_row_pairs)

    @property
    def extra_params(self) -> np.ndarray:
        return self.params[self.n_columns :]

    @property
    def extra_site(self) -> np.ndarray:
        return self.site[self.n_columns :]

    def pairs_of(self, i: int) -> np.ndarray:
        """(o_i, o_i) positions in ``second``."""
        o = self.ptr[i + 1] - self.ptr[i]
        return self.pair[self.pair_ptr[i] : self.pair_ptr[i + 1]].reshape(o, o)

    @cached_property
    def column_pairs(self) -> np.ndarray:
        """(N',) position of ∂²ℓ/∂η² of each column."""
        return self.own_pairs[self.params[: self.n_columns]]

    @cached_property
    def own_pairs(self) -> np.ndarray:
        """(n_own,) position of ∂²ℓ/∂η² of the output of each own parameter."""
        return np.concatenate([np.diagonal(self.pairs_of(i)) for i in range(len(self.ptr) - 1)])

    @cached_property
    def pair_site(self) -> np.ndarray:
        """(n_pairs,) the site of each pair."""
        out = np.empty(self.n_pairs, dtype=np.intp)
        out[self.pair] = np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.pair_ptr))
        return out

    # ------------------------------------------------------------------ sites with equally many outputs together

    @cached_property
    def _groups(self) -> list[tuple[int, np.ndarray]]:
        """(o, sites with o outputs)."""
        sizes = np.diff(self.ptr)
        return [(int(o), np.flatnonzero(sizes == o)) for o in np.unique(sizes[sizes > 0])]

    @cached_property
    def group_pairs(self) -> list[np.ndarray]:
        """(m, o, o) positions in ``second``, for each o, of the m sites with o outputs."""
        return [
            self.pair[self.pair_ptr[sites][:, None] + np.arange(o * o)].reshape(-1, o, o) for o, sites in self._groups
        ]

    def block_matrix(self, blocks: list[np.ndarray]) -> sparse.csr_array:
        """(n_own, n_own) from the (m, o, o) blocks of each group of sites."""
        n_own, rows, cols = int(self.ptr[-1]), [], []
        for o, sites in self._groups:
            where = self.ptr[sites][:, None] + np.arange(o)
            rows.append(np.repeat(where, o, axis=1).ravel())
            cols.append(np.tile(where, o).ravel())
        coordinates = (np.concatenate(rows), np.concatenate(cols))
        return sparse.csr_array((np.concatenate([b.ravel() for b in blocks]), coordinates), shape=(n_own, n_own))


def _pairs(sizes: np.ndarray, r: np.ndarray, n_row_pairs: int) -> tuple[np.ndarray, int]:
    """Positions of the pairs of each site: those with a column one after another, then those of two extras."""
    out, row, rest = [], 0, n_row_pairs
    for o, columns in zip(sizes.tolist(), r.tolist()):
        where = np.zeros((o, o), dtype=np.intp)
        for k in range(o):
            start = row if k < columns else rest
            where[k, k:] = where[k:, k] = np.arange(start, start + o - k)
            row, rest = (row + o - k, rest) if k < columns else (row, rest + o - k)
        out.append(where.ravel())
    return np.concatenate(out), rest


class SiteLosses:
    """ℓ of every site of a space, with derivatives by its outputs.

    Parameters
    ----------
    parameters : Parameters
    loss : Loss
    """

    def __init__(self, parameters: Parameters, loss: Loss):
        space = parameters.space
        self.loss, self.parameters, self.outputs = loss, parameters, Outputs(parameters)
        own = [O - O.mean(axis=0) if loss.centred else O for O in parameters.own]
        self._O = np.zeros((int(space.value_ptr[-1]), max(O.shape[1] for O in own)))
        for O, lo in zip(own, space.value_ptr[:-1]):
            self._O[lo : lo + len(O), : O.shape[1]] = O
        outputs = self.outputs
        self.tables = (
            self._O,
            space.value_ptr,
            parameters.field_ptr,
            outputs.index,
            outputs.ptr,
            outputs.pair,
            outputs.pair_ptr,
        )
        two = space.sizes == 2
        self.binary, self.finite = np.flatnonzero(two & ~space.given), np.flatnonzero(~two & ~space.given)
        self._width = np.array([own[i][1, 0] - own[i][0, 0] for i in self.binary])[:, None]
        self._binary_columns = parameters.field_ptr[self.binary]
        self._binary_pairs = outputs.pair[outputs.pair_ptr[self.binary]]

    def base(self, theta: np.ndarray) -> np.ndarray:
        """(Σ q_i,) what the extras contribute to the exponent of each value of each site."""
        space, own_ptr, columns = self.parameters.space, self.parameters.own_ptr, np.diff(self.parameters.field_ptr)
        out = np.zeros(len(self._O))
        for i in np.flatnonzero(np.diff(own_ptr) > columns):
            r = columns[i]
            extras = theta[own_ptr[i] + r : own_ptr[i + 1]]
            where = slice(space.value_ptr[i], space.value_ptr[i + 1])
            out[where] = self._O[where, r : r + len(extras)] @ extras
        return out

    def __call__(
        self, codes: np.ndarray, F: np.ndarray, base: np.ndarray, weights: np.ndarray, want_second: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Σ_rows w ℓ (n,), zero for given sites, ∂ℓ (outputs, R), and ∂²ℓ (pairs, R) or nothing, for codes (n, R) and
        fields F (N', R)."""
        n, R = codes.shape
        first = np.empty((len(self.outputs.site), R), dtype=F.dtype)
        second = np.empty((self.outputs.n_pairs if want_second else 0, R), dtype=F.dtype)
        width = self._width.astype(F.dtype)
        if len(self.binary) == n:
            return self.loss.binary(codes, F, width, weights, first, second), first, second
        losses = np.zeros(n)
        self.loss.finite(self.finite, codes, F, base, self.tables, weights, first, second, losses)
        if len(self.binary):
            mine, where = self._binary_columns, self._binary_pairs
            one, two = np.empty((len(mine), R), dtype=F.dtype), np.empty((len(mine) * want_second, R), dtype=F.dtype)
            losses[self.binary] = self.loss.binary(codes[self.binary], F[mine], width, weights, one, two)
            first[mine] = one
            if want_second:
                second[where] = two
        return losses, first, second
