"""How many paths arrive: every method that follows one, from weak couplings to twice the glass transition and more.

    python benchmarks/bench_arrival.py [--trials 50] [--methods dc dc2 bethe] [--n 12] [--models 0 1 2]

p-spin models (p = 3, J in units of the transition 1/0.651) and pairs with p-spin triplets, h ~ N(0, 0.1²), on {−1, 1}
and {−1, 0, 1}: models 0 to 2. A cell: paths that arrived, and the mean and the largest number of evaluations.
1000 trials of "dc2" take a minute or two a row.
"""

from __future__ import annotations

import argparse
import warnings
from itertools import combinations
from math import factorial

import numpy as np
from threadpoolctl import threadpool_limits

from hbm_learn import BoltzmannMachine, infer

TRANSITION = 1.0 / 0.651
MODELS = (((3,), (-1, 1)), ((2, 3), (-1, 1)), ((2, 3), (-1, 0, 1)))
STRENGTHS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)


def make(orders: tuple[int, ...], alphabet: tuple[int, ...], strength: float, n: int, seed: int) -> BoltzmannMachine:
    rng = np.random.default_rng([seed, len(alphabet), sum(orders)])
    couplings = {}
    for k in orders:
        scale = strength * (TRANSITION if k > 2 else 1.0) * np.sqrt(factorial(k) / (2 * n ** (k - 1)))
        couplings |= {mu: scale * rng.normal() for mu in combinations(range(n), k)}
    return BoltzmannMachine(rng.normal(0, 0.1, n), couplings, alphabet=alphabet)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--methods", nargs="+", default=["dc", "dc2", "bethe"])
    parser.add_argument("--n", type=int, default=12)
    parser.add_argument("--strengths", nargs="+", type=float, default=list(STRENGTHS))
    parser.add_argument("--models", nargs="+", type=int, choices=range(len(MODELS)), default=list(range(len(MODELS))))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'model':26} {'J/J_c':>6} " + " ".join(f"{name:>20}" for name in options.methods))
    with threadpool_limits(1):
        for orders, alphabet in (MODELS[k] for k in options.models):
            for strength in options.strengths:
                cells = []
                for method in options.methods:
                    found = [
                        infer(make(orders, alphabet, strength, options.n, seed), method, max_evaluations=3000)
                        for seed in range(options.trials)
                    ]
                    used = [result.n_iter for result in found]
                    arrived = sum(result.converged for result in found)
                    cells.append(f"{arrived}/{len(found)} {np.mean(used):.0f} {max(used)}")
                name = f"orders {orders} on {len(alphabet)}"
                print(f"{name:26} {strength:6g} " + " ".join(f"{cell:>20}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
