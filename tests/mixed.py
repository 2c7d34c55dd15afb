"""Models whose variables differ in kind, and their energies straight from what a user writes down."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np

from hbm_learn import BoltzmannMachine
from hbm_learn.space import Nominal

REGION = Nominal("north", "south", "west")
SEX = Nominal("f", "m")
# Values on purpose uneven and off centre, so that no symmetry hides a mistake.
ALPHABETS: dict[str, list[Any]] = {
    "numbers": [(-1, 1), (0, 1, 2), (1, 2, 3, 5), (0, 1)],
    "labels": [REGION, SEX, Nominal("a", "b", "c", "d"), REGION],
    "mixed": [(1, 2, 3, 5), REGION, SEX, (-1, 0.5, 1), (0, 1)],
}


def random_arguments(
    alphabets: list[Any], order: int, seed: int, powers: bool = False, scale: float = 0.5, n_missing: int = 1
) -> dict[str, Any]:
    """What BoltzmannMachine takes: random h, d, site tables and couplings, tables that do not sum to zero.

    ``n_missing`` interactions of each order are left out, so that the set is not closed under subsets.
    """
    rng = np.random.default_rng(seed)
    n = len(alphabets)
    nominal = [isinstance(a, Nominal) for a in alphabets]
    sizes = [len(values_of(a)) for a in alphabets]
    couplings: dict[tuple[int, ...], Any] = {}
    for k in range(2, order + 1):
        for mu in list(combinations(range(n), k))[n_missing:]:
            shape = [sizes[i] for i in mu if nominal[i]]
            couplings[mu] = scale * rng.normal(size=shape)
            squared = [i for i in mu if not nominal[i] and sizes[i] > 2]
            if powers and squared:
                couplings[tuple(sorted((*mu, squared[0])))] = 0.3 * scale * rng.normal(size=shape)
    site = [rng.normal(size=q) if isnt or rng.random() < 0.5 else None for q, isnt in zip(sizes, nominal)]
    zero = np.array(nominal)
    return {
        "h": np.where(zero, 0.0, rng.normal(size=n)),
        "couplings": couplings,
        "d": np.where(zero, 0.0, rng.normal(size=n)),
        "alphabet": alphabets,
        "site": site,
    }


def values_of(alphabet: Any) -> tuple:
    return alphabet.labels if isinstance(alphabet, Nominal) else tuple(alphabet)


def all_rows(alphabets: list[Any]) -> list[tuple]:
    """Every state as values and labels, the last variable fastest."""
    return list(product(*map(values_of, alphabets)))


def all_codes(alphabets: list[Any]) -> np.ndarray:
    """Every state as codes, in the same order."""
    return np.array(list(product(*(range(len(values_of(a))) for a in alphabets))), dtype=np.uint8)


def exponent(x: tuple, h: Any, couplings: Any, d: Any, alphabet: list[Any], site: Any = None) -> float:
    """−H(x) by its definition, one term at a time."""
    nominal = [isinstance(a, Nominal) for a in alphabet]
    code = [values_of(a).index(value) for a, value in zip(alphabet, x)]
    total = 0.0
    for i, value in enumerate(x):
        total += 0.0 if nominal[i] else h[i] * value - 0.5 * d[i] * value**2
        total += 0.0 if site is None or site[i] is None else site[i][code[i]]
    for mu, J in couplings.items():
        factor = 1.0
        for i in mu:
            factor *= 1.0 if nominal[i] else x[i]
        total += factor * float(np.asarray(J)[tuple(code[i] for i in mu if nominal[i])])
    return total


def exponents(arguments: dict[str, Any]) -> np.ndarray:
    """−H of every state."""
    return np.array([exponent(x, **arguments) for x in all_rows(arguments["alphabet"])])


def probabilities(log_weights: np.ndarray) -> np.ndarray:
    p = np.exp(log_weights - log_weights.max())
    return p / p.sum()


def arguments_of(model: BoltzmannMachine) -> dict[str, Any]:
    """What a model says of itself, in the words of a user."""
    alphabets = [Nominal(*a.values.tolist()) if a.is_nominal else a.values.tolist() for a in model.space.alphabets]
    return {"h": model.h, "couplings": model.couplings(), "d": model.d, "alphabet": alphabets, "site": model.site}


def assert_same_up_to_a_constant(a: np.ndarray, b: np.ndarray, atol: float = 1e-12) -> None:
    difference = np.asarray(a) - np.asarray(b)
    np.testing.assert_allclose(difference, difference[0], atol=atol * max(1.0, float(np.abs(a).max())), rtol=0)
