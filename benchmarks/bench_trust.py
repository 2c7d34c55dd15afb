"""Is the headline of ``trust_`` right? Fits whose errors are as claimed, and fits whose errors are not.

    python benchmarks/bench_trust.py [--sets 20] [--seed 0]

A headline is right if it says "can be relied on" of the first, and does not of the second. Prints one row a cell.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Callable

import numpy as np

from hbm_learn import HBM, BoltzmannMachine, datasets, sample
from hbm_learn.assessment.trust import RELIED


def weak_pairs(rng: np.random.Generator, n: int = 8, M: int = 2000) -> np.ndarray:
    model = datasets.make_random(n, {2: 0.6 / np.sqrt(n)}, 0.3, random_state=int(rng.integers(2**31)))
    return sample(model, M, random_state=int(rng.integers(2**31)))


def ratings(rng: np.random.Generator) -> np.ndarray:
    couplings = {(i, i + 1): float(rng.uniform(0.1, 0.3)) for i in range(5)}
    model = BoltzmannMachine(rng.normal(0, 0.2, 6), couplings, alphabet=(-2, -1, 0, 1, 2))
    return sample(model, 2000, random_state=int(rng.integers(2**31)))


def spikes(rng: np.random.Generator) -> np.ndarray:
    couplings = {(i, i + 1): float(rng.normal(0.8, 0.3)) for i in range(0, 11, 2)}
    model = BoltzmannMachine(rng.uniform(-3.5, -2, 12), couplings, alphabet=(0, 1))
    return sample(model, 5000, random_state=int(rng.integers(2**31)))


def triplets(rng: np.random.Generator, size: float = 0.4) -> np.ndarray:
    couplings = {(0, 1): 0.3, (2, 3): -0.3, (0, 4, 7): size, (1, 5, 6): -size, (2, 6, 8): size}
    model = BoltzmannMachine(rng.normal(0, 0.3, 10), couplings)
    return sample(model, 3000, random_state=int(rng.integers(2**31)))


def common_drive(rng: np.random.Generator) -> np.ndarray:
    on = rng.random((4000, 1)) < 0.1
    return (rng.random((4000, 12)) < np.where(on, 0.6, 0.02)).astype(int)


def glass(rng: np.random.Generator) -> np.ndarray:
    model = datasets.make_sk(10, beta=1.0, h_std=0.3, random_state=int(rng.integers(2**31)))
    return sample(model, 5000, method="exact", random_state=int(rng.integers(2**31)))


def repeated(rng: np.random.Generator) -> np.ndarray:
    return np.repeat(weak_pairs(rng, M=600), 5, axis=0)


# name: (whether errors are as claimed, data, estimator)
CELLS: dict[str, tuple[bool, Callable[[np.random.Generator], np.ndarray], Callable[[], HBM]]] = {
    "pairs of ±1, likelihood": (True, weak_pairs, HBM),
    "pairs of ±1, n = 24, pseudolikelihood": (True, lambda rng: weak_pairs(rng, 24, 3000), lambda: HBM(order=2)),
    "ratings": (True, ratings, HBM),
    "spikes": (True, spikes, HBM),
    "triplets": (True, triplets, HBM),
    "weak pairs, closed form": (True, lambda rng: weak_pairs(rng, M=500), lambda: HBM(order=2, refine=None)),
    "strong pairs, closed form": (False, glass, lambda: HBM(order=2, refine=None)),
    "common drive, closed form": (False, common_drive, lambda: HBM(order=3, refine=None)),
    "common drive, pairs only": (False, common_drive, lambda: HBM(order=2)),
    "triplets, pairs only": (False, lambda rng: triplets(rng, 0.8), lambda: HBM(order=2)),
    "rows five times over": (False, repeated, lambda: HBM(order=2)),
    "a prior that overrules the data": (False, glass, lambda: HBM(order=2, alpha=3000.0)),
    "stopped after one step": (False, glass, lambda: HBM(order=2, alpha=0.0, max_iter=1)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    right = total = 0
    print("| cell | errors as claimed | headlines | right |\n|---|---|---|---|")
    for k, (name, (claimed, data, estimator)) in enumerate(CELLS.items()):
        found: Counter[str] = Counter()
        for s in range(options.sets):
            rng = np.random.default_rng([options.seed, k, s])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[estimator().fit(data(rng)).trust_.headline] += 1
        mine = found[RELIED] if claimed else options.sets - found[RELIED]
        right, total = right + mine, total + options.sets
        words = ", ".join(f"{headline}: {count}" for headline, count in found.most_common())
        print(f"| {name} | {'yes' if claimed else 'no'} | {words} | {mine}/{options.sets} |", flush=True)
    print(f"\n{right} of {total} right, {100 * right / total:.1f} %")


if __name__ == "__main__":
    main()
