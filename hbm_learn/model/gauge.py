"""Gauges: the same distribution written with other functions of the same sites.

If φ_ia = c_ia + Σ_b ψ_ib R_ba, a product of φ over a set of columns is a sum of products of ψ over that set and its
subsets: couplings are mapped linearly, and sets of one column become part of θ_i.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.special import comb

from hbm_learn.interactions import Interactions
from hbm_learn.model.coupling_polynomial import CouplingPolynomial
from hbm_learn.space import Space
from hbm_learn.terms import closure

# (c (r,), R (r, r)) of each site: φ = c + ψ R
Relation = list[tuple[np.ndarray, np.ndarray]]


def transfer(columns: Interactions, space: Space, relation: Relation) -> sparse.csr_array:
    """T (N + p, p) with [θ; J] = T J̃ for J̃ of the functions φ and J of ψ: rows are the N columns alone, then the sets.

    For one function a site, J_μ = Σ_{ν⊇μ} J̃_ν Π_{i∈ν} s_i⁻¹ Π_{i∈ν∖μ} (−m_i). Sets that the expansion reaches but
    ``columns`` lacks are left out: give a set that is closed (``terms.closure``) unless the constants c vanish.

    Parameters
    ----------
    columns : Interactions
        The p sets of columns.
    space : Space
        Which columns each site has; the same in both gauges.
    relation : list of (c_i, R_i)
        As ``Space.relation`` gives it.
    """
    N, p = space.n_columns, len(columns)
    constant, matrix = _flat(space, relation)
    rows, cols, values = [], [], []
    for k in columns.orders:
        where = columns.slice(k)
        found = _expansions(columns.block(k), space, constant, matrix)
        for size, (origin, members, value) in found.items():
            if size == 0:
                continue
            at = members[:, 0] if size == 1 else columns.locate(members)
            present = at >= 0
            rows.append((at if size == 1 else N + at)[present])
            cols.append(where.start + origin[present])
            values.append(value[present])
    if not rows:
        return sparse.csr_array((N + p, p))
    coordinates = (np.concatenate(rows), np.concatenate(cols))
    return sparse.csr_array((np.concatenate(values), coordinates), shape=(N + p, p))


def transferred(
    polynomial: CouplingPolynomial, space: Space, relation: Relation
) -> tuple[Interactions, np.ndarray, np.ndarray]:
    """The couplings in another gauge: the sets, closed where constants ask for it, (N,) what falls on single columns,
    and J of the sets."""
    columns = polynomial.columns
    if any(np.any(c) for c, _ in relation):
        columns = closure(columns, space)
    weights = np.zeros(len(columns))
    weights[columns.positions(polynomial.columns)] = polynomial.column_weights
    image = transfer(columns, space, relation) @ weights
    return columns, image[: space.n_columns], image[space.n_columns :].copy()


def affine_maps(space: Space, target: Space) -> tuple[np.ndarray, np.ndarray]:
    """(n,) s and t with x = s·y + t from the values y of ``target`` to those of ``space``; labels keep their order."""
    maps = []
    for i, (a, b) in enumerate(zip(space.alphabets, target.alphabets)):
        try:
            maps.append(a.affine_to(b))
        except ValueError as error:
            raise ValueError(f"variable {i}: {error}") from None
    s, t = np.array(maps).T
    return s, t


def affine_powers(space: Space, s: np.ndarray, t: np.ndarray) -> Relation:
    """The relation of x, x², … to y, y², … where x_i = s_i y_i + t_i; nominal columns stay as they are."""
    out: Relation = []
    for i, (lo, hi) in enumerate(zip(space.column_ptr[:-1], space.column_ptr[1:])):
        if space.power[lo] == 0:
            out.append((np.zeros(hi - lo), np.eye(hi - lo)))
            continue
        a = np.arange(1, hi - lo + 1)
        b = a[:, None]
        out.append((float(t[i]) ** a, comb(a, b) * float(s[i]) ** b * float(t[i]) ** np.maximum(a - b, 0)))
    return out


def _flat(space: Space, relation: Relation) -> tuple[np.ndarray, np.ndarray]:
    """c (N,), and R as (N, r_max): row a of a site holds R_ba over b."""
    width = int(np.diff(space.column_ptr).max())
    constant, matrix = np.empty(space.n_columns), np.zeros((space.n_columns, width))
    for (c, R), lo, hi in zip(relation, space.column_ptr[:-1], space.column_ptr[1:]):
        constant[lo:hi] = c
        matrix[lo:hi, : hi - lo] = R.T
    return constant, matrix


def _expansions(
    block: np.ndarray, space: Space, constant: np.ndarray, matrix: np.ndarray
) -> dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """{size: (origin, members (·, size), value)}: every product of ψ in the products of φ over the rows of a block."""
    n = len(block)
    parts = {0: (np.arange(n), np.zeros((n, 0), dtype=np.intp), np.ones(n))}
    for j in range(block.shape[1]):
        new: dict[int, list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {}
        for size, (origin, members, value) in parts.items():
            column = block[origin, j]
            drop = constant[column] != 0.0
            new.setdefault(size, []).append((origin[drop], members[drop], value[drop] * constant[column[drop]]))
            for b in range(matrix.shape[1]):
                factor = matrix[column, b]
                keep = factor != 0.0
                image = space.column_ptr[space.site[column[keep]]] + b
                grown = np.column_stack([members[keep], image])
                new.setdefault(size + 1, []).append((origin[keep], grown, value[keep] * factor[keep]))
        parts = {size: _joined(pieces) for size, pieces in new.items()}
    return parts


def _joined(pieces: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    first, members, values = (list(each) for each in zip(*pieces))
    return np.concatenate(first), np.concatenate(members), np.concatenate(values)
