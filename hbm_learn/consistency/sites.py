"""Own weights θ_i of the sites from their marginals: the inverse of the site equations.

    q_i(x) ∝ exp(θ_i(x) + F_i·φ_i(x) + ½(φ_i − m_i)ᵀ Λ_i (φ_i − m_i))

A free site is saturated: θ_i = ln p_i − F_i·φ_i − ½(φ_i − m_i)ᵀΛ_i(φ_i − m_i), with nothing to solve. In the family
θ = h x − d x²/2 two numbers are found from (m, v).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hbm_learn.space import Space


def own_weights(
    space: Space,
    frequencies: Sequence[np.ndarray],
    F: np.ndarray,
    Lambda: np.ndarray | Sequence[np.ndarray],
    names: Sequence[Any] | None = None,
) -> list[np.ndarray]:
    """θ_i(x) = ln p_i(x) − F_i·φ_i(x) − ½(φ_i(x) − m_i)ᵀ Λ_i (φ_i(x) − m_i), m_i = ⟨φ_i⟩ under p_i.

    Parameters
    ----------
    space : Space
        With finite sites.
    frequencies : sequence of (q_i,) arrays
        Positive; each is divided by its sum.
    F : (N,) array
        Fields of the columns, F(m).
    Lambda : (n,) array, or sequence of (r_i, r_i) arrays
        As :func:`hbm_learn.consistency.consistent_lambda` gives them.
    names : sequence
        Labels of the variables for error messages; positions otherwise.

    Returns
    -------
    list of (q_i,) arrays
    """
    for i in np.flatnonzero(space.sizes == 0).tolist():
        label = i if names is None else names[i]
        raise ValueError(f"variable {label} is on {space.alphabets[i]}, which has no table of weights: give h and d.")
    out: list[Any] = [None] * space.n_features
    for sites, phi in space.stacks:
        p = np.array([frequencies[i] for i in sites], dtype=np.float64)
        for k in np.flatnonzero(~(p > 0).all(axis=1)):
            value = space.alphabets[sites[k]].values[int(np.argmin(p[k]))]
            raise ValueError(
                f"variable {sites[k] if names is None else names[sites[k]]}: its value {value!r} has the frequency "
                f"{p[k].min():g}, and so no finite weight: smooth the frequencies, or leave the value out."
            )
        p /= p.sum(axis=1, keepdims=True)
        y, r = phi - p[:, None] @ phi, phi.shape[2]
        blocks = np.array([Lambda[i] for i in sites], dtype=np.float64).reshape(-1, r, r)
        fields = F[space.column_ptr[sites][:, None] + np.arange(r)]
        tables = np.log(p) - np.einsum("ixa,ia->ix", phi, fields) - 0.5 * ((y @ blocks) * y).sum(axis=2)
        for i, table in zip(sites, tables):
            out[i] = table
    return out


def quadratic_parameters(
    space: Space, m: np.ndarray, v: np.ndarray, names: Sequence[Any] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(b, c), each (n,), of the sites exp(b x − c x²/2) with ⟨x⟩ = m and ⟨x²⟩ = v, for numeric variables.

    c = 0 where a variable has two values. See :meth:`Alphabet.site_parameters`.
    """
    b, c = np.zeros(space.n_features), np.zeros(space.n_features)
    for alphabet, sites in space.by_alphabet:
        labels = sites if names is None else [names[i] for i in sites]
        if alphabet.is_nominal:
            raise ValueError(f"variable {labels[0]} is nominal: labels have no mean; use own_weights.")
        b[sites], c[sites] = alphabet.site_parameters(m[sites], v[sites], names=labels)
    return b, c
