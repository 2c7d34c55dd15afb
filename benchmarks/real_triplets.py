"""The paper's experiment again where triplets are real: J₃ from 0.001, the paper's, to 0.3.

    python benchmarks/real_triplets.py [--trials 100] [--sigma 0.2] [--alphabet ising] [--n 10] [--output FILE]

n = 10, h ~ N(0, 0.1²), J ~ N(0, σ²/√n), d = 0.01 as in the paper, and every J₃ = ± the given size at random (the
paper has + for all; ``--equal`` keeps that). Mean squared errors of m and v, mean errors of ln Z and how many solves
converged, for every method, in a table and, if asked, as JSON: {"J3": […], "methods": {name: {"mse_m": […], …}}}.
"""

from __future__ import annotations

import argparse
import json
import warnings
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from hbm_learn import BoltzmannMachine, infer

SIZES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
METHODS = ("naive", "tap", "dc", "dc2", "bethe", "bethe2")
ALPHABETS = {"ising": (-1, 1), "ternary": (-1, 0, 1)}


def make(J3: float, sigma: float, n: int, alphabet: str, equal: bool, seed: int) -> BoltzmannMachine:
    rng = np.random.default_rng([seed, n, round(1000 * sigma)])
    couplings = {mu: rng.normal(0, sigma / n**0.25) for mu in combinations(range(n), 2)}
    h = rng.normal(0, 0.1, n)
    signs = rng.choice([-1.0, 1.0], size=n**3)
    couplings |= {mu: J3 * (1.0 if equal else signs[k]) for k, mu in enumerate(combinations(range(n), 3))}
    return BoltzmannMachine(h, couplings, 0.01, ALPHABETS[alphabet])


def experiment(
    sizes: tuple[float, ...] = SIZES,
    methods: tuple[str, ...] = METHODS,
    trials: int = 100,
    sigma: float = 0.2,
    n: int = 10,
    alphabet: str = "ising",
    equal: bool = False,
) -> dict[str, Any]:
    """One entry a size of J₃ in every list."""
    out: dict[str, Any] = {"J3": list(sizes), "trials": trials, "sigma": sigma, "methods": {}}
    for method in methods:
        out["methods"][method] = {key: [] for key in ("mse_m", "mse_v", "log_z", "converged")}
    for J3 in sizes:
        models = [make(J3, sigma, n, alphabet, equal, seed) for seed in range(trials)]
        exact = [infer(model, "exact") for model in models]
        for method in methods:
            found = [infer(model, method) for model in models]
            told = out["methods"][method]
            told["mse_m"].append(float(np.mean([(a.m - b.m) ** 2 for a, b in zip(found, exact)])))
            told["mse_v"].append(float(np.mean([(a.v - b.v) ** 2 for a, b in zip(found, exact)])))
            told["log_z"].append(float(np.mean([abs(a.log_partition - b.log_partition) for a, b in zip(found, exact)])))
            told["converged"].append(float(np.mean([a.converged for a in found])))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--sigma", type=float, default=0.2)
    parser.add_argument("--n", type=int, default=10)
    parser.add_argument("--alphabet", choices=list(ALPHABETS), default="ising")
    parser.add_argument("--equal", action="store_true")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        found = experiment(SIZES, METHODS, options.trials, options.sigma, options.n, options.alphabet, options.equal)
    print(
        f"{'J3':>6} "
        + " ".join(f"{name:>16}" for name in METHODS)
        + "   (MSE of m, error of ln Z; ! not all converged)"
    )
    for k, J3 in enumerate(found["J3"]):
        cells = []
        for told in found["methods"].values():
            mark = "" if told["converged"][k] == 1.0 else "!"
            cells.append(f"{told['mse_m'][k]:.1e} {told['log_z'][k]:.1e}{mark}")
        print(f"{J3:6g} " + " ".join(f"{cell:>16}" for cell in cells))
    if options.output:
        options.output.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
