"""What a composite objective is for independent variables with the data's frequencies.

    c_μ = ∂²Q/∂J_μ² / Fisher information = Σ_{c∈μ} (∂²Q/∂own_c²) / Var(φ_c)

says how often the objective counts the information on J_μ: for pseudolikelihood |μ|, one for each conditional that
contains J_μ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from hbm_learn.inversion.composite.design import independent_curvature
from hbm_learn.inversion.composite.sums import Composite
from hbm_learn.inversion.parameters import Parameters


@dataclass(frozen=True, eq=False)
class Independence:
    """Q of independent variables, at their θ, and its curvature.

    Attributes
    ----------
    theta : (P,) array
    value : float
    count : (P,) array
        c; 1 for extras.
    information : (P,) array
        ∂²Q/∂θ² in the parameters of centred functions; infinite for extras.
    """

    theta: np.ndarray
    value: float
    count: np.ndarray
    information: np.ndarray

    @classmethod
    def of(cls, composite: Composite) -> Independence:
        """ValueError names a variable whose own parameters have no finite estimate."""
        parameters, outputs = composite.parameters, composite.outputs
        check_values(parameters)
        theta, columns = parameters.independent(), parameters.columns
        variance = composite.column_variance
        losses, second = _averages(composite, theta)
        curvature = second[outputs.column_pairs] * composite.scale(losses)[parameters.field_site]
        curvature = parameters.space.mean_over_labels(parameters.over_columns(curvature))
        ratio = curvature / parameters.space.mean_over_labels(variance)
        members = [np.add.reduceat(ratio[columns.members], columns.indptr[:-1])] if len(columns) else []
        count, information = np.ones(parameters.n_own), np.full(parameters.n_own, np.inf)
        own, fields = parameters.column_params, parameters.fields
        count[own], information[own] = ratio[fields], curvature[fields]
        value = composite.value(losses)
        linear = independent_curvature(columns, curvature, variance)
        return cls(theta, value, np.concatenate([count, *members]), np.concatenate([information, linear]))


def _averages(composite: Composite, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ℓ (n,) and ∂²ℓ (pairs,) of sites without couplings, averaged with the data's frequencies."""
    parameters, outputs = composite.parameters, composite.outputs
    sizes = parameters.space.sizes
    q = int(sizes.max())
    p = np.zeros((len(sizes), q))
    for i, each in enumerate(parameters.frequencies):
        p[i, : len(each)] = each
    codes = np.minimum(np.arange(q), sizes[:, None] - 1).astype(np.uint8)
    F = np.repeat(theta[parameters.column_params, None], q, axis=1)
    base, losses = composite.losses.base(theta), np.zeros(len(sizes))
    for a, only in enumerate(np.eye(q)):
        found, _, second = composite.losses(codes, F, base, only, True)
        losses += p[:, a] * found
    return losses, (p[outputs.pair_site] * second).sum(axis=1)


def check_values(parameters: Parameters) -> None:
    """ValueError for a variable with values so rare that its own weights have no finite estimate."""
    for i, (O, p) in enumerate(zip(parameters.own, parameters.frequencies)):
        if not O.shape[1] or (p > 0).all() or not _at_edge(O, p):
            continue
        alphabet = parameters.space.alphabets[i]
        seen, unseen = (np.flatnonzero(found) for found in (p > 0, p <= 0))
        value = alphabet.values[unseen[0]]  # type: ignore[index]
        only = f"is always {alphabet.values[seen[0]]}" if len(seen) == 1 else f"is never {value}"  # type: ignore[index]
        raise ValueError(
            f"variable {i} {only} in the data, so that no finite weights of its values {alphabet} describe it: drop "
            "the variable, or give it an alphabet without what never occurs."
        )


def _at_edge(O: np.ndarray, p: np.ndarray) -> bool:
    """Whether ⟨O⟩ lies on the boundary of what distributions over all values attain.

    It does if some function Σ_k v_k O_k is largest on every value seen, and smaller on one that is not.
    """
    seen, o = p > 0, O.shape[1]
    O = O / np.abs(O).max(axis=0)
    # b − O v is 0 on values seen, between 0 and 1 on others; its sum there is maximised
    gaps = np.column_stack([-O, np.ones(len(O))])
    found = linprog(
        -gaps[~seen].sum(axis=0),
        A_ub=np.concatenate([gaps[~seen], -gaps[~seen]]),
        b_ub=np.concatenate([np.ones((~seen).sum()), np.zeros((~seen).sum())]),
        A_eq=gaps[seen],
        b_eq=np.zeros(seen.sum()),
        bounds=[(None, None)] * (o + 1),
    )
    return found.fun is not None and bool(found.fun < -1e-6)
