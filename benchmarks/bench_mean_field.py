"""Which mean field is the closest where: errors of m, χ and ln Z against enumeration, by family of models and strength.

    python benchmarks/bench_mean_field.py [--models 20] [--methods naive tap dc dc2 bethe bethe2] [--families lattice]
    python benchmarks/bench_mean_field.py --trust [--models 4] --strengths 0.1 0.2 0.4 0.7 1 1.5

A cell is the root mean square error over all sites of all models of the family; "lost" counts models on which a method
did not converge (its best point still counts). Fields are N(0, 0.3²); couplings N(0, 1) times β, in the dense families
divided by n^((k − 1)/2). ``--trust`` compares the error that infer(model, "auto") estimates with the true one.
"""

from __future__ import annotations

import argparse
import warnings
from itertools import combinations

import numpy as np

from hbm_learn import BoltzmannMachine, infer
from hbm_learn.inference.auto import distance

METHODS = ("naive", "tap", "dc", "dc2", "bethe", "bethe2")
STRENGTHS = (0.2, 0.4, 0.7)


def lattice(rng: np.random.Generator, side: int = 4) -> list[tuple[int, ...]]:
    """Square lattice with open ends."""
    at = np.arange(side * side).reshape(side, side)
    return [
        *zip(at[:, :-1].ravel().tolist(), at[:, 1:].ravel().tolist()),
        *zip(at[:-1].ravel().tolist(), at[1:].ravel().tolist()),
    ]


def sharing(rng: np.random.Generator, n: int, order: int, count: int, most: int) -> list[tuple[int, ...]]:
    """Random sets of ``order`` that share at most ``most`` members with each other."""
    chosen: list[tuple[int, ...]] = []
    everything = list(combinations(range(n), order))
    for r in rng.permutation(len(everything)):
        mu = everything[r]
        if all(len(set(mu) & set(nu)) <= most for nu in chosen):
            chosen.append(mu)
        if len(chosen) == count:
            break
    return chosen


def dense(n: int, *orders: int) -> list[tuple[int, ...]]:
    return [mu for k in orders for mu in combinations(range(n), k)]


FAMILIES = {
    "pairs, lattice 4x4": (16, lambda rng: lattice(rng), False),
    "pairs, degree 3, n 16": (16, lambda rng: sharing(rng, 16, 2, 24, 1), False),
    "pairs, dense n 10": (10, lambda rng: dense(10, 2), True),
    "triplets sharing 1, n 15": (15, lambda rng: sharing(rng, 15, 3, 12, 1), False),
    "triplets sharing 2, n 15": (15, lambda rng: sharing(rng, 15, 3, 12, 2), False),
    "triplets sharing 2, n 10": (10, lambda rng: sharing(rng, 10, 3, 30, 2), False),
    "lattice + triplets sharing 1": (16, lambda rng: [*lattice(rng), *sharing(rng, 16, 3, 6, 1)], False),
    "triplets, dense n 9": (9, lambda rng: dense(9, 3), True),
    "pairs + triplets, dense n 9": (9, lambda rng: dense(9, 2, 3), True),
    "orders 2-4, dense n 8": (8, lambda rng: dense(8, 2, 3, 4), True),
    "quadruplets sharing 1, n 16": (16, lambda rng: sharing(rng, 16, 4, 8, 1), False),
}


def make(family: str, strength: float, seed: int, alphabet: object = (-1, 1)) -> BoltzmannMachine:
    n, sets, is_dense = FAMILIES[family]
    rng = np.random.default_rng([seed, list(FAMILIES).index(family)])
    couplings = {mu: strength * rng.normal() / (n ** ((len(mu) - 1) / 2) if is_dense else 1.0) for mu in sets(rng)}
    return BoltzmannMachine(rng.normal(0, 0.3, n), couplings, alphabet=alphabet)


def table(options: argparse.Namespace) -> None:
    print(
        f"{'family':30} {'β':>4} "
        + " ".join(f"{name:>22}" for name in options.methods)
        + "   (m, χ off the diagonal, ln Z)"
    )
    for family in options.families:
        for strength in options.strengths:
            cells = [cell(family, strength, name, options) for name in options.methods]
            print(f"{family:30} {strength:4g} " + " ".join(f"{each:>22}" for each in cells), flush=True)


def cell(family: str, strength: float, method: str, options: argparse.Namespace) -> str:
    """Errors of m, χ and ln Z, and how many models were lost."""
    errors, lost = [], 0
    for k in range(options.models):
        model = make(family, strength, options.seed * 1000 + k)
        exact = infer(model, "exact")
        try:
            found = infer(model, method)
        except ValueError:  # not made for such models
            return "-"
        lost += not found.converged
        off = ~np.eye(model.n_features, dtype=bool)
        chi = np.nan if found.chi is None else np.mean((found.chi - exact.chi)[off] ** 2)
        errors.append((np.mean((found.m - exact.m) ** 2), chi, (found.log_partition - exact.log_partition) ** 2))
    m, chi, ln_z = np.sqrt(np.mean(errors, axis=0))
    return f"{m:.1e} {chi:.1e} {ln_z:.1e}" + (f"!{lost}" if lost else "")


def trust(options: argparse.Namespace) -> None:
    """How the estimated error of "auto" compares with the true one."""
    rows = []
    for family in options.families:
        for strength in options.strengths:
            for k in range(options.models):
                model = make(family, strength, options.seed * 1000 + k)
                result = infer(model, "auto", max_states=4, max_evaluations=400)
                assert result.trust is not None
                rows.append((result.trust.number, distance(model, result, infer(model, "exact"))))
    estimated, true = np.array(rows).T
    ratio = true / estimated
    print(
        f"{len(rows)} models: the estimate bounds the error in {np.mean(ratio <= 1):.1%}, twice the estimate in "
        f"{np.mean(ratio <= 2):.1%}; the median of estimate/error is {np.median(1 / ratio):.1f}"
    )
    for low, high, verdict in ((0.0, 0.01, "good"), (0.01, 0.05, "rough"), (0.05, np.inf, "poor")):
        mine = true[(estimated > low) & (estimated <= high)]
        if len(mine):
            print(
                f"{verdict:6} {len(mine):4} models: error {np.median(mine):.1e} in the median, {mine.max():.1e} at most"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--strengths", nargs="+", type=float, default=list(STRENGTHS))
    parser.add_argument("--families", default="", help="those whose name has this in it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trust", action="store_true")
    options = parser.parse_args()
    options.families = [name for name in FAMILIES if options.families in name]
    warnings.simplefilter("ignore")
    (trust if options.trust else table)(options)


if __name__ == "__main__":
    main()
