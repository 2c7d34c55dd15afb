"""θ_i(x) = h_i x − ½ d_i x² + site_i(x): what a model says of one variable alone, as parameters and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hbm_learn.space import Alphabet, Space

# What is left of θ beside h and d is dropped below this, relative to the largest entry: it is rounding.
_ROUNDING = 1e-13


# h (n,), d (n,), and for each variable None or a (q_i,) table
SiteWeights = tuple[np.ndarray, np.ndarray, tuple[np.ndarray | None, ...]]


def own_table(alphabet: Alphabet, h: float, d: float, site: np.ndarray | None) -> np.ndarray | None:
    """(q,) θ over the values; None where they cannot be listed."""
    if not alphabet.is_finite:
        return None
    if alphabet.is_nominal:
        return np.zeros(alphabet.size) if site is None else site
    x = alphabet.nodes
    quadratic = h * x - 0.5 * d * x**2
    return quadratic if site is None else quadratic + site


def split_own(
    space: Space, own: Sequence[np.ndarray | None], frequencies: Sequence[np.ndarray] | None = None
) -> SiteWeights:
    """h, d and the rest of θ tables: the quadratic closest to each under the frequencies of its values.

    Nothing is left of two or three numbers; labels have no h and d. Where there is no table, all are zero, and so they
    are for given variables.
    """
    h, d, site = np.zeros(space.n_features), np.zeros(space.n_features), [None] * space.n_features
    for alphabet, sites in space.modelled_by_alphabet:
        if own[sites[0]] is None:
            continue
        p = None if frequencies is None else np.array([frequencies[i] for i in sites])
        h[sites], d[sites], rest = _split(alphabet, np.array([own[i] for i in sites]), p)
        for i, table in zip(sites, rest):
            site[i] = table
    return h, d, tuple(site)


def _split(
    alphabet: Alphabet, tables: np.ndarray, p: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray | None]]:
    """h, d and the rest of (m, q) tables over one alphabet, p (m, q)."""
    if alphabet.is_nominal:
        zero = np.zeros(len(tables))
        return zero, zero, list(tables - tables.mean(axis=1, keepdims=True))
    h, d = np.moveaxis((quadratic_rows(alphabet, p) @ tables[:, :, None])[:, :, 0], 1, 0)
    if alphabet.size <= 3:
        return h, d, [None] * len(tables)
    x = alphabet.nodes
    rest = tables - (h[:, None] * x - 0.5 * d[:, None] * x**2)
    rest -= (rest if p is None else p * rest).sum(axis=1, keepdims=True) / (len(x) if p is None else 1.0)
    return h, d, [None if _is_rounding(*each) else each[0] for each in zip(rest, tables)]


def quadratic_rows(alphabet: Alphabet, p: np.ndarray | None = None) -> np.ndarray:
    """(…, 2, q) rows that give h and d of the quadratic (and a constant) closest to a table under frequencies p (…, q).

    With two values d is zero, and p does not matter.
    """
    x = alphabet.nodes
    if alphabet.is_binary:
        return np.array([[-1.0, 1.0], [0.0, 0.0]]) / (x[1] - x[0])
    weights = np.full(len(x), 1.0 / len(x)) if p is None else p
    top = weights.max(axis=-1, keepdims=True)
    few = np.count_nonzero(weights > 1e-12 * top, axis=-1, keepdims=True) < 3  # too few values seen to tell a parabola
    root = np.sqrt(weights + 1e-6 * top * few)[..., None]
    middle, half = 0.5 * (x[0] + x[-1]), 0.5 * (x[-1] - x[0])
    y = (x - middle) / half
    inverse = np.linalg.pinv(np.column_stack([np.ones_like(y), y, y**2]) * root) * np.swapaxes(root, -1, -2)
    b, c = inverse[..., 1, :], inverse[..., 2, :]
    # b y + c y² with y = (x − middle)/half
    return np.stack([b / half - 2.0 * c * middle / half**2, -2.0 * c / half**2], axis=-2)


def add_columns(space: Space, own: Sequence[np.ndarray | None], single: np.ndarray) -> list[Any]:
    """θ tables with Σ_c single_c φ_c added, single (N,); those of given variables stay."""
    parts = np.split(np.where(space.given[space.site], 0.0, single), space.column_ptr[1:-1])
    return [
        None if table is None else table + np.asarray(functions) @ part
        for table, functions, part in zip(own, space.functions, parts)
    ]


def add_single(space: Space, sites: SiteWeights, single: np.ndarray) -> SiteWeights:
    """h, d and site with Σ_c single_c φ_c added: x adds to h, x² to d, the rest to site."""
    h, d, tables = sites[0].copy(), sites[1].copy(), list(sites[2])
    for i in np.unique(space.site[np.flatnonzero(single)]):
        if space.given[i]:
            continue  # what concerns a given variable alone says nothing of the others
        alphabet, functions = space.alphabets[i], space.functions[i]
        part = single[space.column_ptr[i] : space.column_ptr[i + 1]]
        if functions is None:
            h[i] += part[0]
        elif alphabet.is_nominal or not space.is_coding:
            whole = own_table(alphabet, h[i], d[i], tables[i]) + functions @ part
            h[i : i + 1], d[i : i + 1], (tables[i],) = _split(alphabet, whole[None])
        else:
            h[i] += part[0]
            d[i] -= 2.0 * part[1:2].sum()
            if part[2:].any():
                rest = functions[:, 2:] @ part[2:]
                tables[i] = rest if tables[i] is None else tables[i] + rest
    return h, d, tuple(tables)


def frozen(sites: SiteWeights) -> SiteWeights:
    """The same arrays, not to be written to."""
    for array in (sites[0], sites[1], *sites[2]):
        if array is not None:
            array.setflags(write=False)
    return sites


def check_sites(space: Space, h: np.ndarray, d: np.ndarray, site: Sequence[Any] | None) -> SiteWeights:
    """h, d and site tables as a user gave them, checked."""
    n = space.n_features
    tables: list[np.ndarray | None] = [None] * n
    if site is not None:
        if len(site) != n:
            raise ValueError(f"site has {len(site)} entries for {n} variables: give None or a table for each.")
        tables = [None if table is None else _table(i, table, space) for i, table in enumerate(site)]
    for i in np.flatnonzero(space.given).tolist():
        if h[i] or d[i] or tables[i] is not None:
            raise ValueError(
                f"variable {i} is given, with h = {h[i]:g}, d = {d[i]:g}{'' if tables[i] is None else ' and a table'}: "
                "it is not modelled, and has no weights of its own; leave them out."
            )
    for i, alphabet in enumerate(space.alphabets):
        if space.given[i]:
            continue
        if alphabet.is_nominal and (h[i] or d[i]):
            raise ValueError(
                f"variable {i} is nominal, with h = {h[i]:g} and d = {d[i]:g}: labels have no field; give site[{i}]."
            )
        if alphabet.is_nominal:
            table = tables[i]
            tables[i] = np.zeros(alphabet.size) if table is None else table - table.mean()
    return h, d, tuple(tables)


def _table(i: int, table: Any, space: Space) -> np.ndarray:
    if not space.alphabets[i].is_finite:
        raise ValueError(f"site[{i}]: {space.alphabets[i]} has no list of values to give weights to; use h and d.")
    try:
        array = np.array(table, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if array.shape != (space.sizes[i],) or not np.isfinite(array).all():
        raise ValueError(f"site[{i}] = {table!r}: give {space.sizes[i]} finite numbers, one for each value.")
    return array


def _is_rounding(rest: np.ndarray, table: np.ndarray) -> bool:
    return bool(np.abs(rest).max() <= _ROUNDING * max(1.0, float(np.ptp(table))))
