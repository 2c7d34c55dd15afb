""" "auto": exact where that is cheap, the best mean field elsewhere, and an estimate of its error.

What is best where was measured (benchmarks/bench_mean_field.py); the error is the spread between mean fields that leave
out different things, which bounded the true one in 97 of 100 models there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from hbm_learn._validation import check_integer, seed_sequence
from hbm_learn.inference.bethe import bethe, bethe2
from hbm_learn.inference.damped import check_tolerance
from hbm_learn.inference.dc import dc
from hbm_learn.inference.dc2 import dc2
from hbm_learn.inference.exact import exact
from hbm_learn.inference.factors import MAX_FACTOR_STATES
from hbm_learn.inference.gibbs import gibbs
from hbm_learn.inference.result import InferenceResult, Trust
from hbm_learn.model import BoltzmannMachine

# Draws of the chains that give a second opinion.
_DRAWS = 4096
# Beyond so many functions a method that forms dense matrices is not asked for a second opinion.
MAX_DENSE = 600
# Sites with more neighbours than this on average make the factor of S dense.
MAX_DEGREE = 30
# Root mean square differences of probabilities up to which a result is called good, and rough.
GOOD, ROUGH = 0.01, 0.05
_MEAN_FIELDS: dict[str, Callable[..., InferenceResult]] = {"bethe2": bethe2, "bethe": bethe, "dc2": dc2, "dc": dc}


def auto(
    model: BoltzmannMachine,
    *,
    tol: float = 1e-10,
    max_evaluations: int = 1000,
    max_states: int = 2**18,
    random_state: Any = 0,
) -> InferenceResult:
    """The best method that is affordable, with an estimate of its error in ``trust``.

    Parameters
    ----------
    model : BoltzmannMachine
        Of any order, on variables of any kind.
    tol : float
        Of the mean fields.
    max_evaluations : int
        Of the equations of each mean field.
    max_states : int
        Up to so many states are summed over; a continuous variable counts as 64.
    random_state : None, int, SeedSequence, Generator or RandomState
        Of the chains that stand in where there is no second mean field.

    Returns
    -------
    InferenceResult
        Of the method that its ``method`` names, with ``trust``. A ConvergenceWarning says when the verdict is "poor".

    Notes
    -----
    "exact" where there are few states, and on the real line; else "bethe2", unless interactions of four or more share
    three variables, have more than 4096 states, or there are many variables with more than 30 neighbours each; else
    "dc2", which for pairs is "dc". A method that does not converge is replaced by the next one.
    """
    check_tolerance(tol, max_evaluations)
    if _is_listed(model, check_integer("max_states", max_states, 0)):
        result = exact(model)
        if result.converged:
            return replace(result, trust=Trust(0.0, "exact", "All states were summed over."))
    options = {"tol": tol, "max_evaluations": max_evaluations}
    names = candidates(model)
    found: dict[str, InferenceResult] = {}
    chosen = None
    for name in names:
        found[name] = _MEAN_FIELDS[name](model, **options)
        if chosen is None and found[name].converged:
            chosen = name
    chosen = chosen or names[0]
    others = {name: r for name, r in found.items() if name != chosen and r.converged}
    if not others:
        others = {"gibbs": gibbs(model, n_samples=_DRAWS, n_steps=200, random_state=seed_sequence(random_state))}
    trust = judge(model, found[chosen], others)
    if trust.verdict == "poor":
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(trust.sentence, ConvergenceWarning, stacklevel=3)
    return replace(found[chosen], trust=trust)


def _is_listed(model: BoltzmannMachine, max_states: int) -> bool:
    """Whether "exact" is cheap: a closed form, or few states, with grids of 64 nodes for continuous variables."""
    states = np.log2(np.where(model.space.sizes > 0, np.maximum(model.space.sizes, 1), 64)).sum()
    return bool(model.space.is_real or states <= np.log2(max(max_states, 1)) + 1e-9)


def candidates(model: BoltzmannMachine) -> list[str]:
    """Mean fields for a model, the best first; the others are second opinions."""
    is_small = model.n_columns <= MAX_DENSE
    plain = "dc" if model.order == 2 else "dc2"
    if not _suits_bethe(model):
        return [plain] if plain == "dc" else ["dc2", "dc"]
    return ["bethe2", "bethe", *([plain] if is_small else [])]


def _suits_bethe(model: BoltzmannMachine) -> bool:
    space, columns = model.space, model.columns
    if not space.is_finite:
        return False
    neighbours = 0
    seen: set[tuple[int, ...]] = set()
    for k in columns.orders:
        sets = np.unique(space.site[columns.block(k)], axis=0)
        if np.prod(space.sizes[sets].astype(float), axis=1).max() > MAX_FACTOR_STATES:
            return False
        neighbours += len(sets) * k * (k - 1)
        for mu in sets.tolist() if k > 3 else []:
            triples = set(combinations(mu, 3))
            if seen & triples:
                return False
            seen |= triples
    return bool(model.n_features <= MAX_DENSE // 2 or neighbours <= MAX_DEGREE * model.n_features)


def judge(model: BoltzmannMachine, result: InferenceResult, others: dict[str, InferenceResult]) -> Trust:
    """How far other methods are from a result; the noise of chains is taken off."""
    number, name = max((distance(model, result, other), name) for name, other in others.items())
    told = f'"{result.method}" and "{name}" differ by {number:.2g} in the probabilities of a variable'
    if not result.converged:
        return Trust(number, "poor", f'"{result.method}" did not converge ({result.status.rstrip(".")}), and {told}.')
    if number <= GOOD:
        return Trust(number, "good", f"{told}: it can be trusted.")
    if number <= ROUGH:
        return Trust(number, "rough", f"{told}: take it as a first answer.")
    remedy = 'couplings are too strong for mean field: use method "gibbs"'
    return Trust(number, "poor", f"{told}: {remedy}.")


def distance(model: BoltzmannMachine, result: InferenceResult, other: InferenceResult) -> float:
    """Root mean square over variables of ½ Σ_x |p − q|, or of the difference of means in half-widths."""
    squares, noises = [], []
    for i, (p, q) in enumerate(zip(result.probabilities or [], other.probabilities or [])):
        if p is None or q is None:
            low, high = model.space.alphabets[i].bounds
            scale = 2.0 / (high - low)
            noise = 0.0 if other.m_standard_errors is None else float(other.m_standard_errors[i])
            noises.append((scale * noise) ** 2)
            squares.append((scale * float(result.m[i] - other.m[i])) ** 2)
        else:
            # of independent draws a share p has the variance p(1 − p)/4096, and of chains about twice that
            noises.append(0.0 if other.m_standard_errors is None else float((p * (1 - p)).sum()) / _DRAWS)
            squares.append(float(0.5 * np.abs(p - q).sum()) ** 2)
    return float(np.sqrt(max(float(np.mean(squares) - np.mean(noises)), 0.0)))
