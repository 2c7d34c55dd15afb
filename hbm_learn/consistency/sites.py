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
    out = []
    for i, (phi, p) in enumerate(zip(space.functions, frequencies)):
        p = np.asarray(p, dtype=np.float64)
        label = i if names is None else names[i]
        if phi is None:
            raise ValueError(
                f"variable {label} is on {space.alphabets[i]}, which has no table of weights: give h and d."
            )
        if not (p > 0).all():
            value = space.alphabets[i].values[int(np.argmin(p))]  # type: ignore[index]
            raise ValueError(
                f"variable {label}: its value {value!r} has the frequency {p.min():g}, and so no finite weight: "
                "smooth the frequencies, or leave the value out."
            )
        p = p / p.sum()
        y = phi - p @ phi
        block = np.asarray(Lambda[i], dtype=np.float64).reshape(phi.shape[1], phi.shape[1])
        field = F[space.column_ptr[i] : space.column_ptr[i + 1]]
        out.append(np.log(p) - phi @ field - 0.5 * np.einsum("xa,ab,xb->x", y, block, y))
    return out


def quadratic_parameters(
    space: Space, m: np.ndarray, v: np.ndarray, names: Sequence[Any] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(b, c), each (n,), of the sites exp(b x − c x²/2) with ⟨x⟩ = m and ⟨x²⟩ = v, for numeric variables.

    c = 0 where a variable has two values. See :meth:`Alphabet.site_parameters`.
    """
    b, c = np.zeros(space.n_features), np.zeros(space.n_features)
    for alphabet, sites in sites_by_alphabet(space):
        labels = sites if names is None else [names[i] for i in sites]
        if alphabet.is_nominal:
            raise ValueError(f"variable {labels[0]} is nominal: labels have no mean; use own_weights.")
        b[sites], c[sites] = alphabet.site_parameters(m[sites], v[sites], names=labels)
    return b, c


def sites_by_alphabet(space: Space) -> list[tuple[Any, np.ndarray]]:
    """(alphabet, its sites) for each that occurs, in the order of first occurrence."""
    groups: dict[Any, list[int]] = {}
    for i, alphabet in enumerate(space.alphabets):
        groups.setdefault(alphabet, []).append(i)
    return [(alphabet, np.array(sites)) for alphabet, sites in groups.items()]
