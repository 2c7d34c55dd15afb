"""Integer coding: the columns φ = shift + scale · y of a space with small whole y, and y as weighted bits.

y_c = Σ_b w_cb β_b,   β_b ∈ {0, 1}: binary digits of the code for equal steps, else whether the value is the b-th
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hbm_learn._kernels.symmetric import packed_size
from hbm_learn.space import Space

# |y|^order up to here keeps Σ over 2³¹ rows within int64, and over 2²¹ rows exact in float64.
MAX_INTEGER = 2**32
# Whole numbers up to this are summed exactly even on the real line, to order 2.
MAX_WHOLE = 2**15
# Popcounts for each sum wanted (B^order for B bit planes at every site): beyond this a BLAS product is faster.
_MAX_CONJUNCTIONS = 32
# The bits of one code are one word.
_MAX_PLANES = 64


@dataclass(frozen=True, eq=False)
class Planes:
    """Bit planes of every site, and the columns as weighted sums of them.

    Attributes
    ----------
    patterns : (n, q) uint64
        The bits of each code at each site.
    ptr : (n + 1,) int64
        The planes of site i are ``ptr[i]:ptr[i + 1]``.
    first, weights : (N,) and (N, B) arrays
        y_c = Σ_b weights[c, b] β_{first[c] + b}.
    shared : (B,) array or None
        The weights where all sites have the same ones, and one column.
    signed : bool
        y ∈ {−1, 0, 1} at every site with planes "not zero" and "negative", for which there is a kernel of its own.
    """

    patterns: np.ndarray
    ptr: np.ndarray
    first: np.ndarray
    weights: np.ndarray
    shared: np.ndarray | None
    signed: bool


@dataclass(frozen=True, eq=False)
class Coding:
    """How codes, or values of continuous variables, become y: φ = shift + scale · y.

    Attributes
    ----------
    space : Space
        Whose functions φ are.
    shift, scale : (N,) arrays
    centred : bool
        Shift each block by its mean instead, unless it is small whole numbers ("real").
    tables : (N, q) array or None
        y of each code, integers where exact sums are possible; None if no site has codes.
    largest : float
        A bound on |y| where y is an integer.
    planes : Planes or None
        None where BLAS is faster, or there are no codes.
    """

    space: Space
    shift: np.ndarray
    scale: np.ndarray
    centred: bool
    tables: np.ndarray | None
    largest: float
    planes: Planes | None

    @classmethod
    def of(cls, space: Space, order: int) -> Coding:
        """For sums up to ``order`` of products of the functions of a space."""
        if space.is_real:
            N = space.n_columns
            return cls(space, np.zeros(N), np.ones(N), True, None, MAX_WHOLE, None)
        known: dict[int, _Site] = {}
        sites = []
        for i, (alphabet, table) in enumerate(zip(space.alphabets, space.functions)):
            if table is None or i in space.anchors:
                sites.append(_interval_site(*space.anchors.get(i, alphabet.bounds)))
                continue
            if id(table) not in known:
                known[id(table)] = _site(table, order)
            sites.append(known[id(table)])
        shift, scale = (np.concatenate([getattr(site, name) for site in sites]) for name in ("shift", "scale"))
        if not space.sizes.any():
            return cls(space, shift, scale, False, None, np.inf, None)
        tables = _padded([site.y for site in sites])
        planes = _planes(space, sites, order) if space.has_codes else None
        return cls(space, shift, scale, False, tables, float(np.abs(tables).max()), planes)

    @property
    def is_of_ones(self) -> bool:
        """Whether y is the code, 0 or 1, at every site."""
        tables = self.tables
        return tables is not None and tables.shape[1] == 2 and self.space.is_scalar and bool((tables == [0, 1]).all())

    def decoded(self, block: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        """(m, N) float64 y of a block, the (N,) shift that it is about, and whether y is whole."""
        if self.centred:
            if (np.abs(block) <= MAX_WHOLE).all() and (block == np.rint(block)).all():
                return block, np.zeros(block.shape[1]), True
            shift = block.mean(axis=0)
            return block - shift, shift, False
        if self.tables is None:
            return (block - self.shift) / self.scale, self.shift, False
        if not self.space.has_codes:
            return (self.space.columns(block) - self.shift) / self.scale, self.shift, False
        tables, site = self.tables.astype(np.float64), self.space.site
        if self.space.is_scalar and (tables == tables[0]).all():
            Y = np.take(tables[0], block)
        else:
            Y = np.column_stack([table[block[:, i]] for table, i in zip(tables, site)])
        return Y, self.shift, self.tables.dtype.kind == "i"


@dataclass(frozen=True, eq=False)
class _Site:
    """The coding of one site: (r,) shift and scale, (q, r) y, (q,) patterns, (r, B) weights of its planes."""

    shift: np.ndarray
    scale: np.ndarray
    y: np.ndarray
    patterns: np.ndarray
    weights: np.ndarray
    signed: bool = False


def _interval_site(low: float, high: float) -> _Site:
    nothing = np.zeros((1, 1))
    return _Site(np.array([0.5 * (low + high)]), np.array([0.5 * (high - low)]), nothing, nothing, nothing)


def _site(table: np.ndarray, order: int) -> _Site:
    """Of a (q, r) table of functions."""
    q, r = table.shape
    columns = [_whole(f, order) for f in table.T]
    shift, scale = (np.array([column[k] for column in columns]) for k in (0, 1))
    y = np.column_stack([column[2] for column in columns])
    if r == 1 and np.array_equal(y[:, 0], np.arange(q)):
        if q == 3:
            patterns, weights = np.array([0b11, 0b00, 0b01]), np.array([[1, -2]])
            return _Site(shift + scale, scale, y - 1, patterns, weights, signed=True)
        return _Site(shift, scale, y, np.arange(q), 1 << np.arange((q - 1).bit_length())[None])
    indicators = (1 << np.arange(q, dtype=object)) >> 1
    return _Site(shift, scale, y, indicators, y[1:].T)


def _whole(f: np.ndarray, order: int) -> tuple[float, float, np.ndarray]:
    """(shift, scale, y), f = shift + scale · y: y whole and y[0] = 0 where f is so, else |y| ≤ 1."""
    steps = np.diff(np.unique(f))
    equal = (f[-1] - f[0]) / (len(f) - 1)
    limit = MAX_INTEGER ** (1 / order)
    for scale in (equal, steps.min(), 1.0):
        y = np.rint((f - f[0]) / scale) if scale else np.zeros_like(f)
        if np.abs(y).max() <= limit and np.allclose(f[0] + scale * y, f, rtol=1e-15, atol=1e-15 * np.abs(f).max()):
            return float(f[0]), float(scale), y.astype(np.int64)
    width = np.abs(f - f[0]).max()
    return float(f[0]), float(width), (f - f[0]) / width


def _padded(tables: list[np.ndarray]) -> np.ndarray:
    """(N, q_max) from (q_i, r_i) tables."""
    shapes = [table.shape for table in tables]
    dtype = np.result_type(*{table.dtype for table in tables})
    out = np.zeros((sum(r for _, r in shapes), max(q for q, _ in shapes)), dtype=dtype)
    row = 0
    for table, (q, r) in zip(tables, shapes):
        out[row : row + r, :q] = table.T
        row += r
    return out


def _planes(space: Space, sites: list[_Site], order: int) -> Planes | None:
    counts = np.array([site.weights.shape[1] for site in sites])
    first_site = sites[0]
    same = space.is_scalar and all(
        site is first_site or (site.signed == first_site.signed and np.array_equal(site.weights, first_site.weights))
        for site in sites
    )
    if same:
        cost = int(counts[0]) ** order
    else:
        cost = packed_size(int(counts.sum()), order) // packed_size(space.n_columns, order)
    if cost > _MAX_CONJUNCTIONS or counts.max() > _MAX_PLANES:
        return None
    # Beyond the values of a site its patterns are the codes themselves, as binary digits are.
    patterns = np.tile(np.arange(space.sizes.max(), dtype=np.uint64), (space.n_features, 1))
    for i, site in enumerate(sites):
        patterns[i, : len(site.patterns)] = site.patterns.astype(np.uint64)
    ptr = np.concatenate([[0], np.cumsum(counts)])
    weights = _padded([site.weights.T for site in sites])
    shared = np.ascontiguousarray(first_site.weights[0]) if same else None
    return Planes(patterns, ptr, ptr[space.site], weights, shared, same and first_site.signed)
