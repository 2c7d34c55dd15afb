"""The plainest possible answers: every state in a Python product. Tests compare everything with these."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np

from hbm_learn import BoltzmannMachine, Interactions, Interval, Nominal

ALPHABETS = {"spin": (-1, 1), "bit": (0, 1), "ternary": (-1, 0, 1), "quaternary": (0, 1, 2, 3)}


class Spec(NamedTuple):
    """Variables of different kinds: an alphabet for each, and the highest power of the numeric ones."""

    alphabets: list[Any]
    powers: int = 1


RATING, DOSE = (1, 2, 3, 4, 5), (0, 0.5, 3)
REGION, COLOUR = Nominal("north", "south", "west"), Nominal("red", "green", "blue", "none")
SPACES = {
    "binary": Spec([(-1, 1), (0, 1), (0.5, 2), Nominal("no", "yes"), (0, 3)]),
    "numbers": Spec([(-1, 1), RATING, DOSE, (0, 1)]),
    "powers": Spec([RATING, (0, 1), DOSE, (-1, 0, 1)], powers=2),
    "labels": Spec([REGION, COLOUR, Nominal("no", "yes"), REGION]),
    "mixed": Spec([(-1, 1), REGION, RATING, (0, 1), COLOUR]),
    "mixed powers": Spec([DOSE, COLOUR, (0, 1), RATING], powers=2),
}


def all_codes(model: BoltzmannMachine) -> np.ndarray:
    """(Π q_i, n) codes of every state, the last variable fastest."""
    return np.array(list(product(*(range(a.size) for a in model.space.alphabets))), dtype=np.uint8)


def all_states(model: BoltzmannMachine) -> np.ndarray:
    """(Π q_i, n) every state, the last variable fastest: floats, or objects if some are labels."""
    states = list(product(*(a.values.tolist() for a in model.space.alphabets)))
    if model.space.is_numeric:
        return np.array(states, dtype=float)
    out = np.empty((len(states), model.n_features), dtype=object)
    out[:] = states
    return out


def energy(model: BoltzmannMachine, x: Any) -> float:
    """H(x) of one state of values and labels, by its definition, from what a user can read off the model."""
    alphabets = model.space.alphabets
    total = 0.0
    for i, (a, value) in enumerate(zip(alphabets, x)):
        total -= 0.0 if a.is_nominal else model.h[i] * value - 0.5 * model.d[i] * value**2
        if model.site[i] is not None:
            total -= model.site[i][a.values.tolist().index(value)]
    for mu, weight in model.couplings().items():
        labels = sorted({i for i in mu if alphabets[i].is_nominal})
        factor = np.prod([float(x[i]) for i in mu if not alphabets[i].is_nominal])
        where = tuple(alphabets[i].values.tolist().index(x[i]) for i in labels)
        total -= float(np.asarray(weight)[where]) * float(factor)
    return total


def exponents(model: BoltzmannMachine, codes: np.ndarray) -> np.ndarray:
    """−H of rows of codes (values where a variable is on an interval), by its definition, all rows at once."""
    alphabets = model.space.alphabets
    nominal = [a.is_nominal for a in alphabets]
    index = [x.astype(int) for x in codes.T]
    numbers = {
        i: a.nodes[index[i]] if a.is_finite else codes[:, i] for i, a in enumerate(alphabets) if not a.is_nominal
    }
    total = np.zeros(len(codes))
    for i, x in numbers.items():
        total += model.h[i] * x - 0.5 * model.d[i] * x**2
    for i, table in enumerate(model.site):
        total += 0.0 if table is None else table[index[i]]
    for mu, weight in model.couplings().items():
        where = tuple(index[i] for i in sorted({i for i in mu if nominal[i]}))
        total += np.asarray(weight)[where] * np.prod([numbers[i] for i in mu if not nominal[i]], axis=0)
    return total


def distribution(model: BoltzmannMachine) -> tuple[np.ndarray, np.ndarray, float]:
    """States, probabilities, ln Z."""
    exponent = exponents(model, all_codes(model))
    top = exponent.max()
    weights = np.exp(exponent - top)
    return all_states(model), weights / weights.sum(), float(top + np.log(weights.sum()))


def columns(model: BoltzmannMachine) -> np.ndarray:
    """(Π q_i, N) functions φ of every state, in the order of ``all_codes``."""
    tables, codes = model.space.functions, all_codes(model)
    return np.column_stack([table[code] for table, code in zip(tables, codes.T)])


def random_model(n: int, order: int, alphabet: object, strength: float, seed: int, d: float = 0.3) -> BoltzmannMachine:
    """All interactions up to ``order``, J_μ ~ N(0, strength²/n^(k−1)); Gaussian fields and d."""
    rng = np.random.default_rng(seed)
    interactions = Interactions.upto(order, n)
    sizes = np.diff(interactions.indptr)
    weights = rng.normal(size=len(interactions)) * strength / n ** ((sizes - 1) / 2)
    return BoltzmannMachine.from_packed(rng.normal(0, 0.4, n), interactions, weights, rng.normal(0, d, n), alphabet)


def random_mixed(spec: Spec, order: int, strength: float = 1.0, seed: int = 0) -> BoltzmannMachine:
    """All interactions of up to ``order`` variables with all their powers, fields, anisotropies, and own weights of
    labels and of every other variable; terms of energy of about ``strength``, whatever the values."""
    rng = np.random.default_rng([seed, order])
    nominal = [isinstance(a, Nominal) for a in spec.alphabets]
    values = [
        a.labels if isinstance(a, Nominal) else (a.low, a.high) if isinstance(a, Interval) else a
        for a in spec.alphabets
    ]
    size = [1.0 if label else max(map(abs, x)) for x, label in zip(values, nominal)]
    counts = [len(x) for x in values]
    powers = [1 if label else min(spec.powers, q - 1) for q, label in zip(counts, nominal)]
    couplings: dict[tuple[int, ...], Any] = {}
    for k in range(2, order + 1):
        for sites in combinations(range(len(counts)), k):
            for exponents in product(*(range(1, powers[i] + 1) for i in sites)):
                mu = tuple(i for i, e in zip(sites, exponents) for _ in range(e))
                scale = strength / k / np.prod([size[i] for i in mu])
                couplings[mu] = scale * rng.normal(size=[counts[i] for i in sites if nominal[i]])
    free = ~np.array(nominal)
    h, d = free * strength * rng.normal(size=(2, len(counts)))
    weighted = [nominal[i] or (i % 2 and not isinstance(a, Interval)) for i, a in enumerate(spec.alphabets)]
    site = [strength * rng.normal(size=q) if own else None for q, own in zip(counts, weighted)]
    return BoltzmannMachine(h / size, couplings, d / np.square(size), spec.alphabets, site)
