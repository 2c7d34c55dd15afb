"""Conditioning: a model with values put in for some of its variables, P(rest | values)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hbm_learn.interactions import Interactions
from hbm_learn.model.site_weights import add_single
from hbm_learn.space import Space

if TYPE_CHECKING:
    from hbm_learn.model.machine import BoltzmannMachine


def given_variables(given: Any, n_features: int) -> np.ndarray | None:
    """(n,) which variables are given, from their indices; None for none."""
    if given is None:
        return None
    mask = np.zeros(n_features, dtype=bool)
    for i in given:
        if isinstance(i, (bool, np.bool_)) or not isinstance(i, (int, np.integer)) or not 0 <= i < n_features:
            raise ValueError(f"given names {i!r}, which is no variable: they are 0 … {n_features - 1}.")
        if mask[i]:
            raise ValueError(f"given names variable {i} twice: name it once.")
        mask[i] = True
    if mask.all():
        raise ValueError(f"given={list(given)!r} names every variable: leave some out, to be modelled.")
    return mask


def row_of(space: Space, values: Any) -> tuple[np.ndarray, np.ndarray]:
    """(n,) codes of values of some variables (values where they cannot be listed), and the other variables."""
    if not isinstance(values, Mapping):
        where, values = np.flatnonzero(space.given), list(np.atleast_1d(np.asarray(values, dtype=object)))
        if len(values) != len(where) or not len(where):
            raise ValueError(
                f"values has {len(values)} entries for {len(where)} given variables: give one for each, or "
                "{variable: value} of any variables."
            )
        values = dict(zip(where.tolist(), values))
    for i in values:
        if i not in range(space.n_features):
            raise ValueError(f"values names {i!r}, which is no variable: they are 0 … {space.n_features - 1}.")
    if len(values) == space.n_features:
        raise ValueError("values names every variable: nothing is left to be modelled.")
    out = np.zeros(space.n_features)
    for i, value in values.items():
        out[i] = code_of(space, int(i), value)
    rest = np.setdiff1d(np.arange(space.n_features), [int(i) for i in values])
    return out if not space.has_codes else out.astype(np.uint8), rest


def code_of(space: Space, i: int, value: Any) -> float:
    """The code of a value of variable i, or the value itself where there is no list of them; ValueError otherwise."""
    alphabet, (low, high) = space.alphabets[i], space.alphabets[i].bounds
    if alphabet.values is not None:
        for code, known in enumerate(alphabet.values.tolist()):
            if known == value:
                return float(code)
    elif isinstance(value, (int, float, np.number)) and np.isfinite(value) and low <= value <= high:
        return float(value)
    raise ValueError(f"variable {i} has no value {value!r}: it has {alphabet}.")


def given_codes(space: Space, Z: Any, n_rows: int) -> np.ndarray:
    """(n_rows, n) codes with the values Z of the given variables, and 0 elsewhere.

    Parameters
    ----------
    space : Space
    Z : (n_rows, g) table, or (g,) or (1, g) for all rows alike
        Values or labels of the g given variables, in their order.
    n_rows : int
    """
    where = np.flatnonzero(space.given)
    if Z is None:
        raise ValueError(f"variables {where.tolist()} are given: give their values, given=…, one row for each sample.")
    if not len(where):
        raise ValueError("given=… has values of given variables, but the model has none: leave it out.")
    table = np.asarray(Z, dtype=object)
    table = table[None] if table.ndim == 1 and len(where) == len(table) else table
    table = table[:, None] if table.ndim == 1 and len(where) == 1 else table
    if table.ndim != 2 or table.shape[1] != len(where) or len(table) not in (1, n_rows):
        raise ValueError(
            f"given has shape {np.shape(Z)}; expected ({n_rows}, {len(where)}), or ({len(where)},) for all rows alike."
        )
    out = np.zeros((n_rows, space.n_features), dtype=np.uint8 if space.has_codes else np.float64)
    for j, i in enumerate(where.tolist()):
        known: dict[Any, float] = {}
        column = []
        for value in table[:, j].tolist():
            if value not in known:
                known[value] = code_of(space, i, value)
            column.append(known[value])
        out[:, i] = column
    return out


def distinct_given(space: Space, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The (G, n) codes that differ in the given variables, one row of each, and (rows,) which each row is."""
    _, first, which = np.unique(codes[:, space.given], axis=0, return_index=True, return_inverse=True)
    return codes[first], which.ravel()


def condition(model: BoltzmannMachine, codes: np.ndarray, hidden: np.ndarray) -> BoltzmannMachine:
    """The model of the variables ``hidden`` given the other entries of a row.

        J'_ν = Σ_{μ: μ∩hidden = ν} J_μ Π_{c∈μ∖ν} φ_c(x)

    Parameters
    ----------
    model : BoltzmannMachine
    codes : (n,) array
        The row; its entries at ``hidden`` are not looked at.
    hidden : (k,) array of int
        Ascending.
    """
    space, hidden = model.space, np.asarray(hidden)
    part = space.subset(hidden)
    inside = np.isin(space.site, hidden)
    row = np.array(codes)[None]
    row[:, hidden] = 0
    kept = _kept_parts(model, inside, space.columns(row)[0])
    single = np.bincount(kept[1][0].ravel(), kept[1][1], minlength=part.n_columns) if 1 in kept else 0.0
    blocks: list[np.ndarray] = []
    weights: list[np.ndarray] = [np.zeros(0)]
    for size in sorted(set(kept) - {1}):
        rows, values = kept[size]
        distinct, which = np.unique(rows, axis=0, return_inverse=True)
        blocks.append(distinct)
        weights.append(np.bincount(which.ravel(), values, minlength=len(distinct)))
    sites = model.h[hidden], model.d[hidden], tuple(model.site[i] for i in hidden)
    return type(model).from_parts(
        part,
        add_single(part, sites, np.broadcast_to(single, part.n_columns)),
        Interactions.from_blocks(blocks, part.n_columns),
        np.concatenate(weights),
    )


def _kept_parts(
    model: BoltzmannMachine, inside: np.ndarray, phi: np.ndarray
) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """{size: (ν (·, size), J_μ Π_{c∈μ∖ν} φ_c)}: the part ν of every set μ whose columns are ``inside``, renumbered."""
    place = np.cumsum(inside) - 1
    found: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
    for k in model.columns.orders:
        block, weights = model.columns.block(k), model.column_weights[model.columns.slice(k)]
        here = inside[block]
        weights = weights * np.where(here, 1.0, phi[block]).prod(axis=1)
        sizes = here.sum(axis=1)
        for size in np.unique(sizes[sizes > 0]).tolist():
            mine = sizes == size
            rows = place[block[mine][here[mine]]].reshape(-1, size)
            found.setdefault(size, []).append((rows, weights[mine]))
    return {size: tuple(map(np.concatenate, zip(*pieces))) for size, pieces in found.items()}  # type: ignore[misc]
