"""The plainest possible answers: every state in a Python product. Tests compare everything with these."""

from __future__ import annotations

from itertools import product

import numpy as np

from hbm_learn import BoltzmannMachine, Interactions

ALPHABETS = {"spin": (-1, 1), "bit": (0, 1), "ternary": (-1, 0, 1), "quaternary": (0, 1, 2, 3)}


def all_states(model: BoltzmannMachine) -> np.ndarray:
    """(q**n, n) every state, the last variable fastest."""
    return np.array(list(product(model.alphabet.nodes, repeat=model.n_features)))


def energy(model: BoltzmannMachine, x: np.ndarray) -> float:
    """H(x) by its definition."""
    total = -float(model.h @ x) + 0.5 * float(model.d @ x**2)
    return total - sum(weight * float(np.prod(x[list(mu)])) for mu, weight in model.couplings().items())


def distribution(model: BoltzmannMachine) -> tuple[np.ndarray, np.ndarray, float]:
    """States, probabilities, ln Z."""
    states = all_states(model)
    exponent = -np.array([energy(model, x) for x in states])
    top = exponent.max()
    weights = np.exp(exponent - top)
    return states, weights / weights.sum(), float(top + np.log(weights.sum()))


def random_model(n: int, order: int, alphabet: object, strength: float, seed: int, d: float = 0.3) -> BoltzmannMachine:
    """All interactions up to ``order``, J_μ ~ N(0, strength²/n^(k−1)); Gaussian fields and d."""
    rng = np.random.default_rng(seed)
    interactions = Interactions.upto(order, n)
    sizes = np.diff(interactions.indptr)
    weights = rng.normal(size=len(interactions)) * strength / n ** ((sizes - 1) / 2)
    return BoltzmannMachine.from_packed(rng.normal(0, 0.4, n), interactions, weights, rng.normal(0, d, n), alphabet)
